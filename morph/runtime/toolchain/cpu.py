"""C++ text to a shared library, with the machine's own compiler.

The flags that depend on the machine (native instructions) are assumed to work; only when a build
fails are they tried on a two-line program, and the result is stored beside the cache. So a
good compiler costs no trial.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache as memoised
from pathlib import Path
from time import perf_counter

from morph.runtime.toolchain import (
    CompileError,
    CompilerNotFound,
    OutOfTime,
    cache,
    log_build,
    shipped,
    time_left,
)

# no contraction (exact predicates), wrapping integers and aliasing as on the GPU
FLAGS = (
    "-std=c++17", "-O3", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing",
    "-fno-math-errno", "-shared", "-fPIC", "-w",
)  # fmt: skip

_NATIVE = (("-march=native",), ("-mcpu=native",), ())

_TRIAL = """
extern "C" void morph_trial(int *a, int n) {
  for (int i = 0; i < n; i++) a[i]++;
}
"""

_HELP = """no C++ compiler found for the cpu device. Looked for:
{tried}
Install one: `apt install g++`, `dnf install gcc-c++`, `brew install gcc`,
`xcode-select --install`; or, with pip alone, `pip install ziglang`.
Or set MORPH_CXX to the command of a compiler that understands g++'s options."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A command that works, and its properties.

    Attributes
    ----------
    command : tuple of str
        How to start it.
    version : str
        What it answers to ``--version``.
    flags : tuple of str
        The machine-dependent flags to use.
    checked : bool
        Whether ``flags`` were tried, or are only hoped to work.
    record : str
        Under which name the cache remembers this.
    """

    command: tuple[str, ...]
    version: str
    flags: tuple[str, ...]
    checked: bool
    record: str

    @property
    def name(self) -> str:
        """First line of the version."""
        return self.version.partition("\n")[0].strip()


def build(text: str, *, name: str = "", defines: tuple[str, ...] = ()) -> Path:
    """Compile a text, or find it in the installed package or the cache.

    Parameters
    ----------
    text : str
        C++17, complete: nothing is added in front.
    name : str
        The kernel's name, for messages and the cache's list.
    defines : tuple of str
        Macros, each ``NAME`` or ``NAME=VALUE``.

    Returns
    -------
    Path
        A shared library that can be loaded.

    Raises
    ------
    CompilerNotFound
        If the machine has no C++ compiler, or ``MORPH_CXX`` cannot be run.
    CompileError
        If the compiler rejects the text.
    """
    since = perf_counter()
    if not defines and (found := _portable(text, name)):
        log_build(name, "cpu", "installed", since, found)
        return found
    using = compiler()
    while True:
        # a build of the tests, or a checked one: compiled in half the time
        flags = (*FLAGS, *using.flags, *(f"-D{d}" for d in defines), *(("-O1",) if defines else ()))
        key = cache.key(text, "cpu", *flags, *using.command, using.version, processor())
        if found := _stored(key, name, since):
            return found
        with cache.building(key, name):
            if found := _stored(key, name, since):
                return found
            made = cache.temporary("so")
            try:
                log = _compile(using, flags, text, made, time_left(f"compile {name}"))
                if not log:
                    facts = {"name": name, "target": "cpu", "compiler": using.name}
                    binary = cache.store(key, "so", made, text, **facts).binary
                    log_build(name, "cpu", "cache miss", since, binary)
                    return binary
            finally:
                made.unlink(missing_ok=True)
        checked = using if using.checked else _check(using)
        if checked.flags == using.flags:
            source = cache.write_text(key, text)
            raise CompileError(log.replace("<stdin>", str(source)), "cpu", source, name)
        using = checked


def _portable(text: str, name: str) -> Path | None:
    """Return the library of an installed wheel; while one is built, make it."""
    flags = shipped.portable_flags(processor())
    if flags is None:
        return None
    facts = ("cpu", *FLAGS, *flags)
    folder = shipped.collected()
    if folder is None:
        found = shipped.find("so", text, *facts)
        return found if found and not _load_error(found) else None
    key = cache.key(text, *facts)
    made = folder / f"{key}.so"
    with cache.building(key, name):
        if not made.is_file():
            made.with_suffix(".cpp").write_text(text)
            if log := _compile(compiler(), (*FLAGS, *flags, "-s"), text, made):
                made.unlink(missing_ok=True)
                raise CompileError(log, "cpu", made.with_suffix(".cpp"), name)
    return made


def _stored(key: str, name: str, since: float) -> Path | None:
    """Return the library that the cache has, if it can be loaded."""
    hit = cache.load(key)
    if hit is None or _load_error(hit.binary):
        return None
    log_build(name, "cpu", "cache hit", since, hit.binary)
    return hit.binary


def _compile(
    using: Compiler, flags: Sequence[str], text: str, out: Path, seconds: float | None = None
) -> str:
    """Compile and load; return the error message, or an empty string."""
    # lines are the user's own, columns and carets would be those of the generated text
    caret = "-fno-caret-diagnostics" if "clang" in using.version else "-fno-diagnostics-show-caret"
    command = [*using.command, "-x", "c++", "-", *flags, caret, "-fno-show-column", "-o", str(out)]
    done = _run(command, text, seconds)
    if done.returncode:
        return done.stderr.strip() or f"{shlex.join(command)}: exit status {done.returncode}"
    return _load_error(out)


def _run(
    command: Sequence[str], text: str = "", seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=os.environ | {"LC_ALL": "C"},  # messages that can be read by `CompileError`
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise OutOfTime(f"{shlex.join(command[:1])} was still compiling") from error


def _load_error(library: Path) -> str:
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        return f"compiled, but cannot be loaded: {error}"
    return ""


def _check(using: Compiler) -> Compiler:
    """Find the best machine-dependent flags that build a library which loads."""

    def works(*flags: str) -> bool:
        made = cache.temporary("so")  # never the same file twice: the last one is still loaded
        try:
            return not _compile(using, (*FLAGS, *flags), _TRIAL, made)
        finally:
            made.unlink(missing_ok=True)

    native = next((f for f in _NATIVE if works(*f)), None)
    if native is None:  # nothing works: leave the flags, the message will tell
        return using
    found = replace(using, flags=native, checked=True)
    _remember(found)
    return found


_known: dict[tuple[str | None, ...], Compiler] = {}  # by environment


def compiler() -> Compiler:
    """Return the C++ compiler of this machine.

    The first that runs of ``$MORPH_CXX``, ``$CXX``, g++, clang++, c++ and ``python -m ziglang
    c++``.

    Raises
    ------
    CompilerNotFound
        If none does; also if ``MORPH_CXX`` is set and cannot be run.
    """
    environment = tuple(os.environ.get(name) for name in ("MORPH_CXX", "CXX", "PATH"))
    if environment not in _known:
        _known[environment] = _find()
    return _known[environment]


def _find() -> Compiler:
    tried = []
    for label, command in _candidates():
        found = _identify(command)
        if isinstance(found, Compiler):
            return found
        if label == "MORPH_CXX":
            raise CompilerNotFound(
                f"MORPH_CXX is set to {shlex.join(command)!r}, which cannot be used: {found}"
            )
        tried.append(f"  {label}: {found}")
    raise CompilerNotFound(_HELP.format(tried="\n".join(tried)))


def _candidates() -> Iterator[tuple[str, tuple[str, ...]]]:
    for variable in ("MORPH_CXX", "CXX"):
        command = shlex.split(os.environ.get(variable, ""), posix=os.name != "nt")
        if command:
            yield variable, tuple(command)
    for program in ("g++", "clang++", "c++"):
        yield program, (program,)
    # the prelude needs no C++ library, and building zig's would take a minute
    yield "python -m ziglang c++", (sys.executable, "-m", "ziglang", "c++", "-nostdlib++")


def _identify(command: tuple[str, ...]) -> Compiler | str:
    """Return the compiler behind a command, or why it cannot be used."""
    if command[0] == sys.executable and "ziglang" in command:
        spec = importlib.util.find_spec("ziglang")
        if spec is None or not spec.submodule_search_locations:
            return "the package ziglang is not installed"
        program: str | None = str(Path(spec.submodule_search_locations[0]) / "zig")
    else:
        program = shutil.which(command[0])
    if program is None or not os.path.exists(program):
        return f"{command[0]} is not on PATH" if os.sep not in command[0] else "no such program"
    stat = os.stat(program)
    facts = (*command, os.path.realpath(program), str(stat.st_mtime_ns), str(stat.st_size))
    record = hashlib.sha256("\0".join((*facts, processor())).encode()).hexdigest()[:16]
    known = cache.recall(record)
    try:
        if known is not None:
            return Compiler(
                command, str(known["version"]), tuple(known["flags"]), known["checked"], record
            )
    except (KeyError, TypeError):
        pass  # of another version: ask again
    try:
        done = _run([*command, "--version"])
    except OSError as error:
        return str(error)
    if done.returncode:
        return f"`{shlex.join(command)} --version` failed: {done.stderr.strip()[:200]}"
    found = Compiler(command, done.stdout, _NATIVE[0], False, record)
    _remember(found)
    return found


def _remember(found: Compiler) -> None:
    for environment, old in _known.items():
        if old.record == found.record:
            _known[environment] = found
    cache.remember(
        found.record,
        {
            "command": found.command,
            "version": found.version,
            "flags": found.flags,
            "checked": found.checked,
        },
    )


@memoised
def processor() -> str:
    """Return a description of the processor, different wherever native code may be."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            first = file.read(8192).decode(errors="replace").partition("\n\n")[0]
    except OSError:
        first = platform.processor()
    wanted = ("flags", "features", "model name", "cpu part", "cpu implementer", "isa")
    lines = [line for line in first.splitlines() if line.lower().startswith(wanted)]
    return "\n".join([platform.system(), platform.machine(), *(lines or [first])])
