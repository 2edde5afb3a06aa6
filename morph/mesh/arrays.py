"""Arrays as users give them: which device they lie on, what they must look like; ragged rows.

An array that fits is given back as it is; nothing is copied that need not be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from morph.language.messages import shortened, shown
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
        """Where they lie."""


def home(arrays: dict[str, Any]) -> Device:
    """Find the one device on which arrays lie; lists and empty arrays lie anywhere."""
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
    """Give values as an array of whatever type; `ValueError` if they are none."""
    try:
        return xp.asarray(values)
    except (TypeError, ValueError):  # NumPy's and CuPy's messages do not name the argument
        raise ValueError(f"{name} must be an array of numbers, got {shown(values)}") from None


def _kind(array: Array, values: Any) -> str:
    """Describe the contents of an array; of a single value, the value."""
    return shortened(str(array.dtype), 60) if array.ndim else shown(values)


def as_array(name: str, values: Any, dtype: Any, shape: tuple[int | str, ...], xp: Any) -> Array:
    """Give values as a contiguous array of a shape, in which "any" is any length."""
    array = array_of(name, values, xp)
    wanted = np.dtype(dtype)
    if array.size and array.dtype.kind not in ("iu" if wanted.kind == "i" else "iufb"):
        noun = "integers" if wanted.kind == "i" else "numbers"
        noun = "real numbers" if noun == "numbers" and array.dtype.kind == "c" else noun
        raise ValueError(f"{name} must hold {noun}, got {_kind(array, values)}")
    if array.size == 0:
        array = xp.empty(tuple(0 if k == "any" else k for k in shape), wanted)
    fits = len(array.shape) == len(shape)
    if not fits or any(k != "any" and k != j for k, j in zip(shape, array.shape, strict=True)):
        text = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
        raise ValueError(f"{name} must have shape {text}, got {shown(tuple(array.shape))}")
    if wanted.kind == "i" and array.size and array.dtype != wanted:
        low, high = np.iinfo(wanted).min, np.iinfo(wanted).max
        if int(array.min()) < low or int(array.max()) > high:
            raise ValueError(f"{name} must hold integers from {low} to {high}")
    return xp.ascontiguousarray(array, wanted)


def real_array(name: str, values: Any) -> NDArray[np.float64]:
    """Return real numbers as an array on the host.

    Raises
    ------
    ValueError
        If the values are none: text, complex numbers, truth values, rows of different lengths.
    """
    array = array_of(name, values if is_host(values) else device("cpu").to_host(values), np)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must hold real numbers, got {_kind(array, values)}")
    return np.asarray(array, np.float64)


def as_indices(name: str, values: Any, width: int, high: int, xp: Any, low: int = 0) -> Array:
    """Give rows of indices from ``low`` on and below ``high``."""
    array = array_of(name, values, xp)
    shape = ("any", width)
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 4 or array.shape[1:] != (width,):
        array = as_array(name, array, np.int32, shape, xp)
    if array.size and (int(array.min()) < low or int(array.max()) >= high):
        row = int(
            xp.flatnonzero(((array < low) | (array >= high)).reshape(len(array), -1).any(axis=1))[0]
        )
        found = array[row].tolist()
        raise ValueError(f"{name}[{row}] = {found}: an index must be in {low}..{high - 1}")
    return as_array(name, array, np.int32, shape, xp)


def first_number(base: Any) -> int:
    """Give the number of the first vertex in files; `ValueError` if it is neither 0 nor 1."""
    if isinstance(base, bool) or not isinstance(base, int | np.integer) or base not in (0, 1):
        raise ValueError(f"base is 0 or 1, not {shown(base)}")
    return int(base)


def row_elements(
    size: NDArray[np.int64], chunk: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Give (row, place) for every place below the size of each row.

    Parameters
    ----------
    size : (k,) int64 array
    chunk : int
        About how many to give at once; a row is never cut.

    Yields
    ------
    row, place : int64 arrays of one length
    """
    end = np.cumsum(size)
    start = 0
    while start < len(size):
        base = end[start] - size[start]
        stop = max(int(np.searchsorted(end, base + chunk, side="right")), start + 1)
        row = np.repeat(np.arange(start, stop), size[start:stop])
        yield row, np.arange(len(row)) - (end - size)[row] + base
        start = stop
