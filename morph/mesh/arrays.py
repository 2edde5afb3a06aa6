"""Validation of array arguments: device, dtype and shape; ragged rows.

Arrays of the required dtype and shape are returned without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from morph.language.messages import shortened, shown
from morph.runtime.arrays import refuse_masked, refuse_rounded
from morph.runtime.device import Array, Device, device, device_of, is_host


class MeshArrays(Protocol):
    """The arrays of a `Mesh`."""

    points: Array
    triangles: Array
    neighbors: Array
    segments: Array
    segment_markers: Array
    point_markers: Array
    point_attributes: Array
    triangle_attributes: Array

    @property
    def device(self) -> Device:
        """The device of the arrays."""


def home(arrays: dict[str, Any]) -> Device:
    """Return the common device of arrays; lists and empty arrays are compatible with any."""
    first: tuple[str, Device] | None = None
    for name, values in arrays.items():
        if is_host(values) and not (isinstance(values, np.ndarray) and values.size):
            continue
        where = device_of(values)
        if first is None:
            first = name, where
        elif where != first[1]:
            raise ValueError(
                f"{first[0]} lies on {first[1].name} and {name} on {where.name}:"
                " the arrays of a mesh lie on one device"
            )
    return first[1] if first else device("cpu")


def array_of(name: str, values: Any, xp: Any) -> Array:
    """Return values as an array of any dtype; `ValueError` if that is not possible.

    A list of reals with an integer that a double cannot hold is refused.
    """
    refuse_masked(values, name)
    try:
        array = xp.asarray(values)
    except (TypeError, ValueError):  # NumPy's and CuPy's messages do not name the argument
        raise ValueError(f"{name} must be an array of numbers, got {shown(values)}") from None
    if isinstance(values, list | tuple):
        refuse_rounded(array, name, np.float64, values)
    return array


def _kind(array: Array) -> str:
    """Describe the dtype of an array, or a scalar by its value."""
    return shortened(str(array.dtype), 60) if array.ndim else shown(array.item())


def as_array(name: str, values: Any, dtype: Any, shape: tuple[int | str, ...], xp: Any) -> Array:
    """Return values as a contiguous array of a given shape; "any" matches any length."""
    array = array_of(name, values, xp)
    required = np.dtype(dtype)
    if array.size and array.dtype.kind not in ("iu" if required.kind == "i" else "iufb"):
        noun = "integers" if required.kind == "i" else "numbers"
        noun = "real numbers" if noun == "numbers" and array.dtype.kind == "c" else noun
        raise ValueError(f"{name} must hold {noun}, got {_kind(array)}")
    if array.size == 0:
        array = xp.empty(tuple(0 if k == "any" else k for k in shape), required)
    fits = len(array.shape) == len(shape)
    if not fits or any(k != "any" and k != j for k, j in zip(shape, array.shape, strict=True)):
        text = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
        raise ValueError(f"{name} must have shape {text}, got {shown(tuple(array.shape))}")
    if required.kind == "i" and array.size and array.dtype != required:
        low, high = np.iinfo(required).min, np.iinfo(required).max
        ((least, most),) = device_of(array).extremes(array)
        if least < low or most > high:
            raise ValueError(f"{name} must hold integers from {low} to {high}")
    if required.kind == "f":
        refuse_rounded(array, name)
    return xp.ascontiguousarray(array, required)


def real_array(name: str, values: Any) -> NDArray[np.float64]:
    """Return real numbers as an array on the host.

    Raises
    ------
    ValueError
        For text, complex numbers, booleans or rows of different lengths, and integers that would
        lose digits.
    """
    array = array_of(name, values if is_host(values) else device("cpu").to_host(values), np)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must hold real numbers, got {_kind(array)}")
    refuse_rounded(array, name)
    return np.asarray(array, np.float64)


def as_indices(name: str, values: Any, width: int, high: int, xp: Any, low: int = 0) -> Array:
    """Return rows of indices in [low, high)."""
    array = array_of(name, values, xp)
    shape = ("any", width)
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 4 or array.shape[1:] != (width,):
        array = as_array(name, array, np.int32, shape, xp)
    least, most = device_of(array).extremes(array)[0] if array.size else (low, low)
    if array.size and (least < low or most >= high):
        row = int(
            xp.flatnonzero(((array < low) | (array >= high)).reshape(len(array), -1).any(axis=1))[0]
        )
        found = array[row].tolist()
        raise ValueError(f"{name}[{row}] = {found}: an index must be in {low}..{high - 1}")
    return as_array(name, array, np.int32, shape, xp)


def first_number(base: Any) -> int:
    """Return the number of the first vertex in files; `ValueError` if it is neither 0 nor 1."""
    if isinstance(base, bool) or not isinstance(base, int | np.integer) or base not in (0, 1):
        raise ValueError(f"base is 0 or 1, not {shown(base)}")
    return int(base)


def row_elements(
    size: NDArray[np.int64], chunk: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield (row, position) for every position below the size of each row.

    Parameters
    ----------
    size : (k,) int64 array
    chunk : int
        Approximate number of pairs at once; a row is never split.

    Yields
    ------
    row, position : int64 arrays of equal length
    """
    end = np.cumsum(size)
    start = 0
    while start < len(size):
        base = end[start] - size[start]
        stop = max(int(np.searchsorted(end, base + chunk, side="right")), start + 1)
        row = np.repeat(np.arange(start, stop), size[start:stop])
        yield row, np.arange(len(row)) - (end - size)[row] + base
        start = stop
