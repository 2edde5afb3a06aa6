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
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache as memoised
from functools import partial
from pathlib import Path
from time import perf_counter

from morph.runtime.toolchain import (
    CompileError,
    CompilerNotFound,
    cache,
    log_build,
    processes,
    progress,
    shipped,
    tiers,
    time_left,
)

# no contraction (exact predicates), wrapping integers and aliasing as on the GPU
FLAGS = (
    "-std=c++17", "-O3", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing",
    "-fno-math-errno", "-shared", "-fPIC", "-w",
)  # fmt: skip

# behind the other flags: a third of the time (1.9 of 5.8 s of a processor for four units), and the
# same results; g++ decides which functions of the prelude are inlined, but for loops of one thread
QUICK = "-Og", "-DMORPH_QUICK"
# for one thread, in 0.55 to 0.62 of the time; steps of so many items are for teams
SERIAL = "-DMORPH_SERIAL=65536"
# of units: fewer functions, no frames of exceptions; the process has the C library
UNIT = (
    "-finline-functions-called-once", "-fno-exceptions", "-fno-asynchronous-unwind-tables",
    "-nostdlib", "-lgcc",
)  # fmt: skip


# tuned for Zen 4 (-march=native), g++ 12 keeps integers of loops of one thread in vector registers
TUNING = "-mtune=generic"


def _is_x86(machine: str) -> bool:
    return machine.lower() in ("x86_64", "amd64", "i386", "i686")


def _native_flags(machine: str) -> tuple[tuple[str, ...], ...]:
    """Give the flags to try; other processors than x86 are named by ``-mcpu``, not ``-march``."""
    flags = ("-march=native",), ("-mcpu=native",)
    return (*(flags if _is_x86(machine) else flags[::-1]), ())


def _tuning(version: str, machine: str, command: Sequence[str] = ()) -> tuple[str, ...]:
    """Give the flags of the cost model for a compiler, unless its command has one."""
    chosen = any(word.startswith("-mtune") for word in command)
    return (TUNING,) if _is_x86(machine) and "clang" not in version and not chosen else ()


_EXE = ".exe" if os.name == "nt" else ""
_NATIVE = _native_flags(platform.machine())
_BARE = tuple((*flags, "-nostdlib++") for flags in _NATIVE)  # without libstdc++: none is used

_ABSENT = "no such program"

_TRIAL = """
extern "C" void morph_trial(int *a, int n) {
  for (int i = 0; i < n; i++) a[i]++;
}
"""

_HELP = (
    "no C++ compiler (no {absent}): `apt install g++`, `dnf install gcc-c++`, `brew install gcc`, "
    "`xcode-select --install` or `pip install ziglang`; or set MORPH_CXX"
)
_REMEDY = "install g++, or set MORPH_CXX to another compiler"


@dataclass(frozen=True, slots=True)
class Compiler:
    """A command that works, and its properties.

    Attributes
    ----------
    command : tuple of str
        How to start it.
    version : str
        Its output for ``--version``.
    flags : tuple of str
        The machine-dependent flags to use.
    checked : bool
        Whether ``flags`` were tried; otherwise they are assumed to work.
    record : str
        The name of its record in the cache, see `cache.remember`.
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


def build(
    text: str, *, name: str = "", defines: tuple[str, ...] = (),
    rebuilt: Callable[[], object] | None = None, quick_only: bool = False, unit: str = "",
) -> Path:  # fmt: skip
    """Compile a text, or find it in the installed package or the cache.

    Parameters
    ----------
    text : str
        C++17, complete: nothing is added in front.
    name : str
        The kernel's name, for messages and the cache's list.
    defines : tuple of str
        Macros, each ``NAME`` or ``NAME=VALUE``.
    rebuilt : callable, optional
        Called by another thread when the library that was returned, compiled quickly, is there with
        full optimisation; another call returns that one.  Without it the optimisation is full at
        once, unless ``MORPH_OPTIMIZE`` is ``quick``.
    quick_only : bool
        Do not queue the full optimisation after a quick compilation; a call without this does.
    unit : {"", "serial", "teams"}
        The text is that of a unit, which needs no library but that of C.  If ``"serial"``, a quick
        library of it is for a single thread, see ``kernels/serial_cpu.h``.

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
    # a build of the tests, or a checked one: never rebuilt
    mode = "quick" if defines else tiers.mode()
    if mode == "auto" and rebuilt is None:
        mode = "full"
    using, macros = compiler(), tuple(f"-D{d}" for d in defines)
    while True:
        full = _unit(text, name, using, macros)
        if found := _stored(full, since):
            return found
        made = full
        if mode != "full":
            made = _unit(text, name, using, (*macros, *QUICK, *_unit_flags(using, unit)))
        with progress.compiling(name):
            found, log = _build(made, text, since)
        if found:
            if made is not full:
                tiers.quick.add(found)
            if mode == "auto" and rebuilt and not quick_only:
                tiers.background.add(full.key, partial(_rebuild, full, made.key), rebuilt)
            return found
        checked = using if using.checked else _check(using)
        if checked.flags == using.flags:
            source = cache.write_text(made.key, text)
            raise CompileError(log.replace("<stdin>", str(source)), "cpu", source, name)
        using = checked


def _unit_flags(using: Compiler, unit: str) -> tuple[str, ...]:
    """Return the flags of a quick compilation of a unit, see `build`."""
    linked = unit and sys.platform == "linux" and "clang" not in using.version
    return (*(UNIT if linked else ()), *((SERIAL,) if unit == "serial" else ()))


def find(text: str, *, name: str = "") -> Path | None:
    """Return the library that `build` would return without compiling; None if there is none."""
    if shipped.collected() is None and (found := _portable(text, name)):
        return found
    try:
        units = [_unit(text, name, compiler(), ())]
        if tiers.mode() == "quick":
            units.append(_unit(text, name, compiler(), QUICK))
    except CompilerNotFound:
        return None
    return next((found for u in units if (found := _stored(u, perf_counter()))), None)


@dataclass(frozen=True, slots=True)
class _Unit:
    """How a text is compiled: its name, compiler and flags, and its key in the cache."""

    name: str
    using: Compiler
    flags: tuple[str, ...]
    key: str

    def store(self, made: Path, text: str, how: str, since: float) -> Path:
        """Move the library into the cache."""
        facts = {"name": self.name, "target": "cpu", "compiler": self.using.name}
        binary = cache.store(self.key, "so", made, text, **facts).binary
        log_build(self.name, "cpu", how, since, binary)
        return binary


def _unit(text: str, name: str, using: Compiler, more: tuple[str, ...]) -> _Unit:
    flags = (
        *FLAGS,
        *using.flags,
        *_tuning(using.version, platform.machine(), using.command),
        *more,
    )
    key = cache.key(text, "cpu", *flags, *using.command, using.version, processor())
    return _Unit(name, using, flags, key)


def _build(unit: _Unit, text: str, since: float) -> tuple[Path | None, str]:
    """Return the library of the cache, or else compile it; None, and the messages, if it fails."""
    if found := _stored(unit, since):
        return found, ""
    with cache.building(unit.key, unit.name):
        if found := _stored(unit, since):
            return found, ""
        made = cache.temporary("so")
        try:
            log = _compile(unit.using, unit.flags, text, made, time_left(f"compile {unit.name}"))
            return (None, log) if log else (unit.store(made, text, "cache miss", since), "")
        finally:
            made.unlink(missing_ok=True)


def _rebuild(unit: _Unit, quick: str) -> bool:
    """Compile the text of the quick library again, in the background; whether that succeeds."""
    since = perf_counter()
    if _stored(unit, since):
        return True
    text = (cache.path() / f"{quick}.cpp").read_text(encoding="utf-8")
    made = cache.temporary("so")
    try:
        if _compile(unit.using, unit.flags, text, made, None, True):
            return False
        unit.store(made, text, "rebuilt", since)
    finally:
        made.unlink(missing_ok=True)
    return True


def _portable(text: str, name: str) -> Path | None:
    """Return the library of an installed wheel; while one is built, make it."""
    flags = shipped.portable_flags(processor())
    if flags is None:
        return None
    facts = ("cpu", *FLAGS, *flags)
    folder = shipped.collected()
    if folder is None:
        found = shipped.find(("so",), text, *facts)
        return found if found and not _load_error(found) else None
    key = cache.key(text, *facts)
    made = folder / f"{key}.so"
    with cache.building(key, name):
        made.with_suffix(".cpp").write_text(text)  # for GPUs
        if not made.is_file():
            part = cache.temporary("so", folder)
            try:
                if log := _compile(compiler(), (*FLAGS, *flags, "-s"), text, part):
                    raise CompileError(log, "cpu", made.with_suffix(".cpp"), name)
                part.replace(made)  # an interrupted build leaves no half of a library
            finally:
                part.unlink(missing_ok=True)
    return made


def _stored(unit: _Unit, since: float) -> Path | None:
    """Return the library that the cache has, if it can be loaded."""
    hit = cache.load(unit.key)
    if hit is None or _load_error(hit.binary):
        return None
    log_build(unit.name, "cpu", "cache hit", since, hit.binary)
    return hit.binary


def _compile(
    using: Compiler, flags: Sequence[str], text: str, out: Path, seconds: float | None = None,
    background: bool = False,
) -> str:  # fmt: skip
    """Compile and load; return the error message, or an empty string."""
    # lines are the user's own, columns and carets would be those of the generated text
    caret = "-fno-caret-diagnostics" if "clang" in using.version else "-fno-diagnostics-show-caret"
    call = [*using.command, "-x", "c++", "-", *flags, caret, "-fno-show-column", "-o", str(out)]
    if background:
        done = processes.run_in_background(call, text, out)
    else:
        done = processes.run(call, text, seconds)
    if done.returncode:
        return done.stderr.strip() or f"{shlex.join(call)}: exit status {done.returncode}"
    cache.require_execution(out.parent)
    return _load_error(out)


def _load_error(library: Path) -> str:
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        return f"compiled, but cannot be loaded: {error}"
    return ""


def _check(using: Compiler) -> Compiler:
    """Find the best machine-dependent flags that build a library which loads.

    Raises
    ------
    CompilerNotFound
        If there are none: a header, a library or a program of the compiler is missing.
    """
    logs = dict[tuple[str, ...], str]()

    def works(*flags: str) -> bool:
        made = cache.temporary("so")  # never the same file twice: the last one is still loaded
        try:
            logs[flags] = _compile(using, (*FLAGS, *flags), _TRIAL, made)
            return not logs[flags]
        finally:
            with suppress(OSError):  # Windows keeps a loaded library
                made.unlink(missing_ok=True)

    native = next((f for f in (*_NATIVE, *_BARE) if works(*f)), None)
    if native is None:
        command, first = shlex.join(using.command), logs[()].partition("\n")[0]
        raise CompilerNotFound(
            f"{command[:40]!r} cannot build a library: {first[:85]!r}; {_REMEDY}"
        )
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
    absent, failed = list[str](), ""
    for label, command in _candidates():
        found = _identify(command)
        if isinstance(found, Compiler):
            return found
        if label == "MORPH_CXX":
            raise CompilerNotFound(
                f"MORPH_CXX is set to {shlex.join(command)[-90:]!r}, which cannot be used: "
                f"{found[:55]}"
            )
        absent.append(label)
        if found is not _ABSENT and not failed:
            failed = f"{label}: {found}"
    if failed:
        raise CompilerNotFound(f"no C++ compiler can be used: {failed[:110]}; {_REMEDY}")
    raise CompilerNotFound(_HELP.format(absent=", ".join(absent)))


def _candidates() -> Iterator[tuple[str, tuple[str, ...]]]:
    for variable in ("MORPH_CXX", "CXX"):
        windows = os.name == "nt"  # backslashes separate folders there
        command = shlex.split(os.environ.get(variable, ""), posix=not windows)
        if command:
            yield variable, tuple(word.strip('"') if windows else word for word in command)
    for program in ("g++", "clang++", "c++"):
        yield program, (program,)
    # the prelude needs no C++ library, and building zig's would take a minute
    yield "ziglang", (sys.executable, "-m", "ziglang", "c++", "-nostdlib++")


def _identify(command: tuple[str, ...]) -> Compiler | str:
    """Return the compiler behind a command, or why it cannot be used."""
    if command[0] == sys.executable and "ziglang" in command:
        spec = importlib.util.find_spec("ziglang")
        if spec is None or not spec.submodule_search_locations:
            return _ABSENT
        program: str | None = str(Path(spec.submodule_search_locations[0]) / f"zig{_EXE}")
    else:
        program = shutil.which(command[0])
    if program is None or not os.path.exists(program):
        return _ABSENT
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
        done = processes.run([*command, "--version"])
    except OSError as error:
        return str(error)
    if done.returncode:
        return f"--version failed: {done.stderr.strip()}"
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
