"""C++ text to a cubin, with NVRTC. Needs neither a GPU nor a driver."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache as memoised
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

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
from morph.runtime.toolchain.runner import UNUSABLE, to_ptx

# no contraction (exact predicates); functions without a space are __device__
FLAGS = ("--std=c++17", "--fmad=false", "--device-as-default-execution-space", "--disable-warnings")

# behind the other flags: no function is inlined, which takes a tenth of the time for long texts.
# With some inlined ("mid") results are wrong: ptxas takes lanes behind a call as converged, and
# drops synchronisations of the warp that are not in functions of their own
QUICK = "--Ofast-compile=max", "-DMORPH_QUICK"
QUICK_FROM = 12, 9  # the version of NVRTC that knows them

_BUILTINS = re.compile(r"libnvrtc-builtins\.so\.(\d+)\.(\d+)")  # the file that has the version

_HELP = (
    "no CUDA compiler, as NVRTC and CuPy cannot be used ({reason}): "
    '`pip install "morph-engine[gpu]"`, or `"morph-engine[gpu12]"` for a driver of CUDA 12'
)


def build(
    text: str, arch: str = "sm_90", *, name: str = "", defines: tuple[str, ...] = (),
    use_installed: bool = True, rebuilt: Callable[[], object] | None = None,
    quick_only: bool = False,
) -> bytes:  # fmt: skip
    """Compile a text, or find it in the installed package or the cache.

    Parameters
    ----------
    text : str
        CUDA C++17, complete: nothing is added in front.
    arch : str
        The architecture to compile for, ``"sm_XX"``.
    name : str
        The kernel's name, for messages and the cache's list.
    defines : tuple of str
        Macros, each ``NAME`` or ``NAME=VALUE``.
    use_installed : bool
        Whether to look in the installed package; false if the driver refuses the cubin there.
    rebuilt : callable, optional
        Called by another thread when the fully optimised cubin is in the cache; the next call
        returns it.  Without this argument the first cubin is fully optimised.
    quick_only : bool
        As in `morph.runtime.toolchain.cpu.build`.

    Returns
    -------
    bytes
        A cubin.

    Raises
    ------
    CompilerNotFound
        If CuPy or NVRTC is not installed.
    CompileError
        If NVRTC rejects the text.
    """
    flags = (*FLAGS, f"--gpu-architecture={arch}", *(f"-D{d}" for d in defines))
    if use_installed and not defines and (own := installed(text, arch, name)):
        return own
    since = perf_counter()
    mode = tiers.mode() if rebuilt and _compiles_quickly() else "full"
    full = _unit(text, name, arch, flags)
    if found := _stored(full, since):
        return found
    unit = full if mode == "full" else _unit(text, name, arch, (*flags, *QUICK))
    with progress.compiling(name):
        cubin = _build(unit, text, since)
    if mode == "auto" and rebuilt and not quick_only:
        after_exit = (unit.key, name, arch, flags)
        tiers.background.add(full.key, partial(_rebuild, full, text), rebuilt, after_exit)
    return cubin


def installed(text: str, arch: str, name: str = "") -> bytes | None:
    """Return the cubin of the installed package that runs on an architecture, if it has one."""
    since = perf_counter()
    if (own := _shipped(text, arch)) is None:
        return None
    log_build(name, arch, "installed", since, own[0])
    return own[1]


@dataclass(frozen=True, slots=True)
class _Unit:
    """How a text is compiled: its name, architecture and flags, and its key in the cache."""

    name: str
    arch: str
    flags: tuple[str, ...]
    key: str

    def store(self, cubin: bytes, text: str, how: str, since: float) -> None:
        """Write the cubin to the cache."""
        made = cache.temporary("cubin")
        try:
            made.write_bytes(cubin)
            facts = {"name": self.name, "target": self.arch, "compiler": version()}
            binary = cache.store(self.key, "cubin", made, text, **facts).binary
            log_build(self.name, self.arch, how, since, binary)
        finally:
            made.unlink(missing_ok=True)


def _unit(text: str, name: str, arch: str, flags: tuple[str, ...]) -> _Unit:
    return _Unit(name, arch, flags, cache.key(text, "cuda", *flags, version()))


def _build(unit: _Unit, text: str, since: float) -> bytes:
    """Return the cubin of the cache, or else compile it."""
    if found := _stored(unit, since):
        return found
    with cache.building(unit.key, unit.name):
        if found := _stored(unit, since):
            return found
        _nvrtc(load=False)
        seconds = time_left(f"compile {unit.name}")
        cubin, log = _compile(text, unit.flags, f"{unit.key}.cpp", seconds)
        if not cubin:
            source = cache.write_text(unit.key, text)
            log = log.replace(source.name, str(source))
            raise CompileError(log, unit.arch, source, unit.name)
        unit.store(cubin, text, "cache miss", since)
    return cubin


def _rebuild(unit: _Unit, text: str) -> bool:
    """Compile a text with full optimisation, in the background; return whether it succeeded."""
    since = perf_counter()
    if _stored(unit, since):
        return True
    with cache.building(unit.key, unit.name, tiers.background.pause):
        if not _stored(unit, since):
            cubin, _ = _compile(text, unit.flags, f"{unit.key}.cpp", background=True)
            if not cubin:
                return False
            unit.store(cubin, text, "rebuilt", since)
    return True


def compile_later(quick: str, name: str, arch: str, flags: tuple[str, ...]) -> None:
    """Compile the text of a quick cubin in full; the key of that cubin is ``quick``."""
    text = (cache.path() / f"{quick}.cpp").read_text(encoding="utf-8")
    _rebuild(_unit(text, name, arch, tuple(flags)), text)


def _stored(unit: _Unit, since: float) -> bytes | None:
    """Return the cubin that the cache has."""
    if (hit := cache.load(unit.key)) is None:
        return None
    log_build(unit.name, unit.arch, "cache hit", since, hit.binary)
    return hit.binary.read_bytes()


def _shipped(text: str, arch: str) -> tuple[Path, bytes] | None:
    """Return the file of such a cubin, and the cubin."""
    if (own := shipped.find(shipped.suffixes(arch), text, "cuda", *FLAGS)) is None:
        return None
    try:
        import lzma  # noqa: PLC0415 - some Pythons are built without it
    except ImportError:
        return None
    try:
        return own, lzma.decompress(own.read_bytes())
    except (OSError, lzma.LZMAError):  # damaged: it is compiled
        return None


def shared_ptx(architectures: Iterable[str]) -> list[tuple[str, ...]]:
    """Group the architectures for which `ship` compiles a text to PTX once.

    Texts distinguish those before 8.0 only.  NVRTC takes longer to make PTX than a cubin of it.
    """
    given = tuple(architectures)
    group = tuple(a for a in given if a[3:].isdecimal() and int(a[3:]) >= 80)
    if len(group) < 2 or _assembler() is None:
        return [(a,) for a in given]
    return [group, *((a,) for a in given if a not in group)]


def ship(text: str, group: tuple[str, ...], folder: Path) -> list[Path]:
    """Compile a text into the folder of a wheel's binaries; return the compressed cubins."""
    import lzma  # noqa: PLC0415

    ptx = b""
    key = cache.key(text, "cuda", *FLAGS)
    made = [folder / f"{key}.{arch}.xz" for arch in group]
    for arch, file in zip(group, made, strict=True):
        if file.is_file():
            continue
        if len(group) > 1 and not ptx:
            oldest = min(int(a[3:]) for a in group)
            ptx, _ = _compile(text, (*FLAGS, f"--gpu-architecture=compute_{oldest}"), file.name)
        cubin, log = _assemble(ptx, arch) if ptx else (b"", "")
        if not cubin:
            cubin, log = _compile(text, (*FLAGS, f"--gpu-architecture={arch}"), file.name)
        if not cubin:
            raise CompileError(log, arch, file)
        part = cache.temporary("xz", folder)
        try:
            part.write_bytes(lzma.compress(cubin))
            part.replace(file)  # an interrupted build leaves no half of a cubin
        finally:
            part.unlink(missing_ok=True)
    return made


@memoised
def _assembler() -> str | None:
    """The command ptxas, of an installed wheel or of the CUDA toolkit."""
    wheels = _in_wheels("bin/ptxas")
    return str(wheels[0]) if wheels else shutil.which("ptxas")


def _assemble(ptx: bytes, arch: str) -> tuple[bytes, str]:
    """Return the cubin, empty if ptxas is older than the NVRTC that made the PTX, and its log."""
    made = cache.temporary("cubin")
    try:
        command = [str(_assembler()), f"-arch={arch}", "/dev/stdin", "-o", str(made)]
        done = processes.run(command, ptx.rstrip(b"\0").decode())
        return (b"", done.stderr) if done.returncode else (made.read_bytes(), "")
    finally:
        made.unlink(missing_ok=True)


def _compile(
    text: str, flags: tuple[str, ...], name: str, seconds: float | None = None,
    background: bool = False,
) -> tuple[bytes, str]:  # fmt: skip
    """Return the cubin, or PTX for a ``compute_XX``, empty on failure, and the log of NVRTC.

    NVRTC runs in a process of its own, which can be interrupted.
    """
    library = _library()
    if library is None or not sys.executable:
        return _compile_here(_nvrtc(), text, flags, name)
    made = cache.temporary("cubin")
    try:
        call = ("nvrtc", str(library), name, *flags)
        if background:
            done = processes.run_in_background(call, text, made)
        else:
            done = processes.run(processes.runner(*call, out=made), text, seconds)
        if done.returncode == UNUSABLE:
            return _compile_here(_nvrtc(), text, flags, name)
        return (b"", done.stderr.strip()) if done.returncode else (made.read_bytes(), "")
    finally:
        made.unlink(missing_ok=True)


def _compile_here(
    nvrtc: Any, text: str, flags: tuple[str, ...], name: str
) -> tuple[bytes, str]:  # fmt: skip
    """Compile in this process."""
    program = nvrtc.createProgram(text, name, (), ())
    try:
        nvrtc.compileProgram(program, flags)
        return bytes((nvrtc.getPTX if to_ptx(flags) else nvrtc.getCUBIN)(program)), ""
    except nvrtc.NVRTCError as error:
        return b"", nvrtc.getProgramLog(program) or str(error)
    finally:
        nvrtc.destroyProgram(program)


def _nvrtc(load: bool = True) -> Any:
    """Import CuPy's NVRTC module; with ``load``, also load its library."""
    try:
        from cupy.cuda import nvrtc  # noqa: PLC0415

        if load:
            nvrtc.getVersion()
    except Exception as error:  # CuPy raises many types, depending on the missing part
        reason = str(error).partition("\n")[0][:45]
        raise CompilerNotFound(_HELP.format(reason=reason)) from error
    return nvrtc


@memoised
def _wheel() -> tuple[Path, ...]:
    """The libraries of an installed wheel of NVRTC."""
    return _in_wheels("lib/libnvrtc*.so*")


def _in_wheels(pattern: str) -> tuple[Path, ...]:
    """The files of NVIDIA's installed wheels that a pattern matches."""
    spec = importlib.util.find_spec("nvidia")
    places = spec.submodule_search_locations if spec else None
    return tuple(sorted(f for p in places or () for f in Path(p).glob(f"*/{pattern}")))


def _library() -> Path | None:
    """The library that CuPy loads, if it is the only one of an installed wheel."""
    found = [f for f in _wheel() if f.name.startswith("libnvrtc.so")]
    return found[0] if len(found) == 1 else None


@memoised
def _compiles_quickly() -> bool:
    """Whether NVRTC accepts `QUICK`, and runs in a process of its own, which can be killed."""
    found = (_BUILTINS.fullmatch(file.name) for file in _wheel())
    versions = [(int(name[1]), int(name[2])) for name in found if name]
    alone = _library() is not None and len(versions) == 1
    return alone and versions[0] >= QUICK_FROM and bool(sys.executable)


@memoised
def version() -> str:
    """Return a string that identifies this NVRTC.

    Names and sizes of the installed wheel's libraries, which spares loading 100 MB when all
    kernels come from the cache; otherwise the version that the library reports.
    """
    if files := _wheel():
        return "NVRTC " + ", ".join(f"{f.name} ({f.stat().st_size})" for f in files)
    return "NVRTC {}.{}".format(*_nvrtc().getVersion())
