"""Cubins on a GPU: from a text to a loaded module."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Any

from morph.runtime.arrays import import_cupy
from morph.runtime.device import DeviceError
from morph.runtime.toolchain import CompilerNotFound, cuda

# CUDA_ERROR_INVALID_IMAGE, NO_BINARY_FOR_GPU, UNSUPPORTED_PTX_VERSION
REFUSED = 200, 209, 222

_logger = logging.getLogger("morph.compile")
_refusing: set[int] = set()  # GPUs whose driver refuses the cubins of the installed package


def architecture(index: int) -> str:
    """Return the architecture of a GPU, such as ``"sm_90"``."""
    return f"sm_{import_cupy().cuda.Device(index).compute_capability}"


def precompile_headers(compiler: Any) -> None:
    """Let NVRTC read CuPy's headers once in a process: a kernel of CuPy's takes half the time.

    The variable ``CUPY_NVRTC_USE_PCH`` of the environment decides, if it is set.

    Parameters
    ----------
    compiler : module
        ``cupy.cuda.compiler``; unchanged if it has not the switch of CuPy 14.
    """
    if hasattr(compiler, "_use_pch") and "CUPY_NVRTC_USE_PCH" not in os.environ:
        compiler._use_pch = True


def compile_once(compiler: Any) -> None:
    """Let threads of several GPUs wait for a kernel of CuPy's that one of them compiles.

    CuPy has a cache on disk, but no locks: when parts begin, the thread of each GPU compiles the
    same kernels at the same time.

    Parameters
    ----------
    compiler : module
        ``cupy.cuda.compiler``; unchanged if it has not the function of CuPy 13 and 14.
    """
    compiled: Callable[..., Any] | None = getattr(compiler, "_compile_module_with_cache", None)
    if compiled is None or hasattr(compiled, "__wrapped__"):
        return
    locks: dict[str, Lock] = {}

    @wraps(compiled)
    def compile_or_wait(source: str, *options: Any, **named: Any) -> Any:
        with locks.setdefault(source, Lock()):  # the next thread finds the kernel in the cache
            return compiled(source, *options, **named)

    compiler._compile_module_with_cache = compile_or_wait


def loaded(
    text: str, index: int, name: str, defines: tuple[str, ...] = (),
    rebuilt: Callable[[], object] | None = None,
) -> Any:  # fmt: skip
    """Compile a text and load it on a GPU.

    If the driver is too old for the cubins of the installed package, NVRTC compiles this text and
    all later ones.

    Parameters
    ----------
    text : str
        CUDA C++17, complete.
    index : int
        The GPU; the caller has made it the current one.
    name : str
        The kernel's name, for messages and the cache's list.
    defines : tuple of str
        Macros, each ``NAME`` or ``NAME=VALUE``.
    rebuilt : callable, optional
        As in `morph.runtime.toolchain.cuda.build`.

    Returns
    -------
    cupy.cuda.function.Module
        Its functions are valid while it is kept.

    Raises
    ------
    DeviceError
        If the driver is too old for the cubins of the installed package and there is no NVRTC, or
        too old for those of NVRTC.
    CompilerNotFound, CompileError
        As `morph.runtime.toolchain.cuda.build`.
    """
    cupy = import_cupy()
    if not defines and index not in _refusing:
        own = cuda.installed(text, architecture(index), name)
        if own is not None:
            try:
                return _module(cupy, own)
            except cupy.cuda.driver.CUDADriverError as error:
                if error.status not in REFUSED:
                    raise
                _refusing.add(index)
                refused = (
                    "cuda:%d: the driver refuses the installed kernels (%s): they are compiled"
                )
                _logger.warning(refused, index, error)
    cubin = build(text, index, name, defines, rebuilt)
    try:
        return _module(cupy, cubin)
    except cupy.cuda.driver.CUDADriverError as error:
        if error.status not in REFUSED:
            raise
        raise DeviceError(
            f"cuda:{index}: the driver refuses what NVRTC has compiled (error {error.status}): it "
            "is older than NVRTC; update it, or, with CUDA 12, pip install 'morph-engine[gpu12]'"
        ) from error


def _module(cupy: Any, cubin: bytes) -> Any:
    module = cupy.cuda.function.Module()
    module.load(cubin)
    return module


def build(
    text: str, index: int, name: str, defines: tuple[str, ...] = (),
    rebuilt: Callable[[], object] | None = None, quick_only: bool = False,
) -> bytes:  # fmt: skip
    """Return the cubin of a text for a GPU; not the installed one if the driver refuses those.

    Parameters and exceptions are those of `loaded`, ``quick_only`` that of
    `morph.runtime.toolchain.cuda.build`.
    """
    refusing = index in _refusing
    try:
        return cuda.build(
            text,
            architecture(index),
            name=name,
            defines=defines,
            use_installed=not refusing,
            rebuilt=rebuilt,
            quick_only=quick_only,
        )
    except CompilerNotFound as error:
        if not refusing:
            raise
        raise DeviceError(
            f"cuda:{index}: the driver is too old for the installed kernels, and there is no NVRTC "
            "to compile others: update it, or, with CUDA 12, pip install 'morph-engine[gpu12]'"
        ) from error
