"""Conversion of arrays of any library to NumPy (host memory) or CuPy (GPU memory)."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from morph.language.hooks import Hook
from morph.language.messages import shown

Array = Any
"""An array of a device: NumPy's in host memory, CuPy's on a CUDA device."""

_fetch: Hook[np.ndarray[Any, Any]] = Hook("morph.runtime.cuda.device:fetch")
_fetch_all: Hook[list[np.ndarray[Any, Any]]] = Hook("morph.runtime.cuda.device:fetch_all")
SAMPLE = 1 << 20  # maximum of elements that `rough_mean` reads
_UNCHANGED: AbstractContextManager[None] = nullcontext()
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


def is_host(x: Any) -> bool:
    """Whether an array lies in host memory."""
    return not hasattr(x, "__cuda_array_interface__")


def on_device_of(x: Array) -> AbstractContextManager[Any]:
    """Make the GPU of an array current for operations on it; do nothing for host arrays."""
    return _UNCHANGED if is_host(x) else gpu_array(x).device


def import_cupy() -> Any:
    """Return CuPy, an optional package."""
    return importlib.import_module("cupy")


def array_module(x: Array) -> Any:
    """Return the module whose functions take an array: NumPy or CuPy."""
    return np if isinstance(x, np.ndarray) else import_cupy()


def any_true(x: Array) -> bool:
    """Whether a bool array has a true element; see `all_true`."""
    return bool(_bytes(x).max()) if _is_gpu_bool(x) else bool(x.any())


def all_true(x: Array) -> bool:
    """Whether all elements of a bool array are true.

    The compilation of CuPy's reductions of bools takes 3 s; CuPy includes those of bytes.
    """
    return bool(_bytes(x).min()) if _is_gpu_bool(x) else bool(x.all())


def count_true(x: Array) -> int:
    """Count the true elements of a bool array; see `all_true`."""
    return int(x.ravel().nonzero()[0].size if _is_gpu_bool(x) else x.sum())


def bincount(xp: Any, x: Array, minlength: int) -> Array:
    """Count the occurrences of each of the values from 0 on, as `numpy.bincount`.

    CuPy checks the values with a reduction of bools, here without CUB, see `all_true`.
    """
    if getattr(xp, "__name__", None) != "cupy":
        return xp.bincount(x, minlength=minlength)
    with _without_cub(xp._core):
        return xp.bincount(x, minlength=minlength)


def count_each(xp: Any, x: Array, size: int) -> Array:
    """Count the occurrences of each of the values, all of them from 0 to less than ``size``.

    For many different values: on a GPU by atomics, without the check of `bincount`, a reduction
    that one block of threads computes.
    """
    if getattr(xp, "__name__", None) != "cupy":
        return xp.bincount(x, minlength=size)
    counts = xp.zeros(size, np.int32)
    xp.add.at(counts, x, 1)
    return counts.astype(np.int64)


class _CubSwitch:
    """The number of threads that have disabled CUB, and CuPy's accelerators to restore."""

    lock, threads, accelerators = threading.Lock(), 0, list[Any]()


@contextmanager
def _without_cub(core: Any) -> Iterator[None]:
    """Disable CUB: CuPy then compiles a reduction in 0.1 s."""
    with _CubSwitch.lock:
        if not _CubSwitch.threads:
            _CubSwitch.accelerators = core.get_reduction_accelerators()
            core.set_reduction_accelerators([])
        _CubSwitch.threads += 1
    try:
        yield
    finally:
        with _CubSwitch.lock:
            _CubSwitch.threads -= 1
            if not _CubSwitch.threads:
                core.set_reduction_accelerators(_CubSwitch.accelerators)


def rough_mean(x: Array) -> float:
    """Estimate the mean of a column from at most 2**20 elements; see `all_true`."""
    return float(x[:: x.size // SAMPLE + 1].astype(np.float64).mean())


def _is_gpu_bool(x: Array) -> bool:
    return not is_host(x) and x.dtype == np.bool_ and x.size > 0


def _bytes(x: Array) -> Array:
    return x.ravel().view(np.uint8)


def listed(x: Any, name: str) -> Any:
    """Return nested lists as an array, other objects unchanged.

    Raises
    ------
    ValueError
        If the rows of the lists differ in length.
    """
    if not isinstance(x, list | tuple):
        return x
    try:
        return np.asarray(x)
    except ValueError:
        raise ValueError(f"{name}: rows of different lengths: {shown(x)}") from None


def refuse_masked(x: Any, name: str) -> None:
    """Refuse a NumPy array with masked values: conversions would ignore the mask.

    Raises
    ------
    ValueError
        With the argument's ``name`` and the first masked position.
    """
    if x.__class__ is np.ndarray or not isinstance(x, np.ndarray):
        return
    mask = np.asarray(getattr(x, "mask", False))
    if mask.dtype == np.bool_ and mask.any():
        mask = mask if mask.ndim else np.broadcast_to(mask, x.shape)
        at = ", ".join(str(axis[0]) for axis in np.nonzero(mask)) if x.ndim else "()"
        raise ValueError(f"{name}[{at}] is masked: fill masked values, or remove them")


def lost_integer(a: Array, dtype: Any, given: Any = None) -> tuple[tuple[int, ...], int] | None:
    """Return an integer that would lose digits as a real of a type, after its position, or None.

    ``given`` is the object that became ``a``: NumPy converts integers beside reals to reals.
    """
    if a.dtype.kind in "iu":
        exact = 1 << np.finfo(dtype).nmant + 1
        if not a.size or np.iinfo(a.dtype).max <= exact:
            return None
        with on_device_of(a), np.errstate(invalid="ignore", over="ignore"):
            if int(a.max()) <= exact and int(a.min()) >= -exact:
                return None
            made = a.astype(dtype)
            # 2^63 and 2^64 are not converted back: the result depends on the processor
            lost = (made.astype(a.dtype) != a) | (made >= 2.0 ** np.iinfo(a.dtype).bits)
            if a.dtype.kind == "i":
                lost |= made >= 2.0 ** (np.iinfo(a.dtype).bits - 1)
            lost &= made - made == 0
            if not any_true(lost):
                return None
            at = tuple(int(axis[0]) for axis in lost.nonzero()) if a.ndim else ()
            return at, int(a[at])
    if a.dtype.kind != "f" or not isinstance(given, list | tuple) or not any_true(abs(a) >= 2**53):
        return None
    return next((x for x in _integers(given) if _is_lost(x[1], dtype)), None)


def _is_lost(x: int, dtype: Any) -> bool:
    with np.errstate(over="ignore"):
        made = float(dtype(x))
    return made - made == 0 and int(made) != x


def _integers(given: Any, *at: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the integers in nested lists, after their positions."""
    for k, x in enumerate(given):
        if isinstance(x, list | tuple):
            yield from _integers(x, *at, k)
        elif isinstance(x, int | np.integer):
            yield (*at, k), int(x)


def refuse_rounded(a: Array, name: str, dtype: Any = np.float64, given: Any = None) -> None:
    """Refuse integers that would lose digits as reals of a type, see `lost_integer`.

    Raises
    ------
    ValueError
    """
    found = lost_integer(a, dtype, given)
    if found is not None:
        at = f"[{', '.join(map(str, found[0]))}]" if found[0] else ""
        raise ValueError(f"{name}{at} = {found[1]} would lose digits as {np.dtype(dtype).name}")


def imported(x: Any) -> Any:
    """Return an object that only has ``__dlpack__`` as an array over the same memory."""
    if x.__class__ is np.ndarray or not hasattr(x, "__dlpack__") or hasattr(x, "__array__"):
        return x
    if hasattr(x, "__array_interface__") or hasattr(x, "__cuda_array_interface__"):
        return x
    on_gpu = int(x.__dlpack_device__()[0]) in _DLPACK_CUDA
    return (import_cupy() if on_gpu else np).from_dlpack(x)


def gpu_array(x: Any) -> Array:
    """Return a GPU array of any library as a CuPy array, without a copy."""
    return x if hasattr(x, "get") else import_cupy().asarray(x)


def to_host(x: Any) -> np.ndarray[Any, Any]:
    """Convert an array-like object of any library and device to a NumPy array."""
    x = imported(x)
    return np.asarray(x) if is_host(x) else _fetch(gpu_array(x))


def all_to_host(given: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Convert arrays as `to_host` does, those of a GPU together."""
    given = list(map(imported, given))
    there = [gpu_array(x) for x in given if not is_host(x)]
    fetched = iter(_fetch_all(there) if there else ())
    return [np.asarray(x) if is_host(x) else next(fetched) for x in given]


def copy_to_host(given: Sequence[Any], outs: Sequence[np.ndarray[Any, Any]]) -> None:
    """Copy arrays to C-contiguous NumPy arrays of their shapes and types, together."""
    there = [(gpu_array(x), out) for x, out in zip(given, outs, strict=True) if not is_host(x)]
    if there:
        _fetch_all(*map(list, zip(*there, strict=True)))
    for x, out in zip(given, outs, strict=True):
        if is_host(x):
            out[...] = x
