"""C++ text to a cubin, with NVRTC. Needs neither a GPU nor a driver."""

from __future__ import annotations

import importlib.util
from functools import cache as memoised
from pathlib import Path
from time import perf_counter
from typing import Any

from morph.runtime.toolchain import (
    CompileError,
    CompilerNotFound,
    cache,
    log_build,
    shipped,
    time_left,
)

# no contraction (exact predicates); functions without a space are __device__
FLAGS = ("--std=c++17", "--fmad=false", "--device-as-default-execution-space", "--disable-warnings")

_HELP = """no CUDA compiler: NVRTC, reached through CuPy, is not usable ({reason}).
Install both: `pip install "morph-engine[gpu]"` (cupy-cuda13x and nvidia-cuda-nvrtc)."""


def build(
    text: str, arch: str = "sm_90", *, name: str = "", defines: tuple[str, ...] = ()
) -> bytes:
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
    since = perf_counter()
    if own := shipped.find("cubin", text, "cuda", *flags):
        log_build(name, arch, "installed", since, own)
        return own.read_bytes()
    key = cache.key(text, "cuda", *flags, version())
    if found := _stored(key, name, arch, since):
        return found
    with cache.building(key, name):
        if found := _stored(key, name, arch, since):
            return found
        time_left(f"compile {name}")
        cubin, log = _compile(text, flags, f"{key}.cpp")
        if not cubin:
            source = cache.write_text(key, text)
            raise CompileError(log.replace(source.name, str(source)), arch, source, name)
        made = cache.temporary("cubin")
        try:
            made.write_bytes(cubin)
            entry = cache.store(
                key, "cubin", made, text, name=name, target=arch, compiler=version()
            )
            log_build(name, arch, "cache miss", since, entry.binary)
        finally:
            made.unlink(missing_ok=True)
    return cubin


def _stored(key: str, name: str, arch: str, since: float) -> bytes | None:
    """Return the cubin that the cache has."""
    if (hit := cache.load(key)) is None:
        return None
    log_build(name, arch, "cache hit", since, hit.binary)
    return hit.binary.read_bytes()


def ship(text: str, arch: str, folder: Path) -> Path:
    """Compile a text into the folder of a wheel's binaries; return the cubin."""
    flags = (*FLAGS, f"--gpu-architecture={arch}")
    made = folder / f"{cache.key(text, 'cuda', *flags)}.cubin"
    cubin, log = _compile(text, flags, made.name)
    if not cubin:
        raise CompileError(log, arch, made)
    made.write_bytes(cubin)
    return made


def _compile(text: str, flags: tuple[str, ...], name: str) -> tuple[bytes, str]:
    """Return the cubin, empty if there is none, and the log of NVRTC."""
    nvrtc = _nvrtc()
    program = nvrtc.createProgram(text, name, (), ())
    try:
        nvrtc.compileProgram(program, flags)
        return bytes(nvrtc.getCUBIN(program)), ""
    except nvrtc.NVRTCError as error:
        return b"", nvrtc.getProgramLog(program) or str(error)
    finally:
        nvrtc.destroyProgram(program)


@memoised
def _nvrtc() -> Any:
    try:
        from cupy.cuda import nvrtc  # noqa: PLC0415

        nvrtc.getVersion()  # loads the library
    except Exception as error:  # CuPy raises many types, depending on the missing part
        raise CompilerNotFound(_HELP.format(reason=str(error).partition("\n")[0])) from error
    return nvrtc


@memoised
def version() -> str:
    """Return a string that identifies this NVRTC.

    Names and sizes of the installed wheel's libraries, which spares loading 100 MB when all
    kernels come from the cache; otherwise the version that the library reports.
    """
    spec = importlib.util.find_spec("nvidia")
    places = spec.submodule_search_locations if spec else None
    files = sorted(f for p in places or () for f in Path(p).glob("*/lib/libnvrtc*.so*"))
    if files:
        return "NVRTC " + ", ".join(f"{f.name} ({f.stat().st_size})" for f in files)
    return "NVRTC {}.{}".format(*_nvrtc().getVersion())
