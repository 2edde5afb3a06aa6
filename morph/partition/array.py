"""Arrays over the points or edges of a graph in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from morph.runtime.device import Array, Device


class Piece(NamedTuple):
    """The values of one part's own rows, on its device.

    Attributes
    ----------
    at : slice or array of int32 on that device
        The global ids of the rows.
    """

    device: Device
    at: Any
    values: Array


def gather(where: Device, count: int, dtype: np.dtype[Any], pieces: Sequence[Piece]) -> Array:
    """Copy the values of all parts to one device, in order of global ids; waits for the copies."""
    with where.active():
        found = where.empty(count, dtype)
        if where.on_host or not _copies_at_once(where, pieces):
            for device, at, values in pieces:
                place = at if isinstance(at, slice) else where.asarray(device.to_host(at))
                found[place] = where.asarray(values)
        else:
            for device in {x.device for x in pieces} - {where}:
                device.synchronize()  # the values have been computed, on other streams
            where.put(*((found[at], values) for _, at, values in pieces))
    where.synchronize()  # the parts may be written to from here on
    return found


def _copies_at_once(where: Device, pieces: Sequence[Piece]) -> bool:
    """Whether a kernel of a device can copy all values into ranges of another array."""
    plain = (isinstance(at, slice) and values.flags.c_contiguous for _, at, values in pieces)
    return all(plain) and all(where.reach(x.device) for x in pieces)


class PartitionedArray(NDArrayOperatorsMixin):
    """A result on the points of a graph in parts: each part has the values of its own points.

    An index, an operator, a method or a conversion makes it one array on the device of the first
    part, in order of ids; from then on it is that array.  `local` does not.
    """

    __slots__ = ("_pieces", "_array", "dtype", "size")

    def __init__(self, count: int, dtype: np.dtype[Any], pieces: Sequence[Piece]) -> None:
        self.size, self.dtype, self._pieces = count, dtype, list(pieces)
        self._array: Array = None

    def local(self, k: int) -> Array:
        """Give the values of part k's own points, in order of ids, on its device."""
        device, at, values = self._pieces[k]
        if values is not None:
            return values
        return device.asarray(self._array[at if isinstance(at, slice) else device.to_host(at)])

    def gathered(self) -> Array:
        """Give all values, in order of ids, on the device of the first part."""
        if self._array is None:
            self._array = gather(self._pieces[0].device, self.size, self.dtype, self._pieces)
            self._pieces = [x._replace(values=None) for x in self._pieces]
        return self._array

    def map(self, function: Callable[[Device, Array], Array]) -> Any:
        """Apply a function of values, each by itself, to the array, or to that of each part."""
        if self._array is not None:
            return function(self._pieces[0].device, self._array)
        pieces = [x._replace(values=function(x.device, x.values)) for x in self._pieces]
        return PartitionedArray(self.size, pieces[0].values.dtype, pieces)

    def view(self, dtype: Any) -> Any:
        """Give the same values as another type of this size."""
        return self.map(lambda _, values: values.view(dtype))

    @property
    def shape(self) -> tuple[int, ...]:
        """(number of points,)."""
        return (self.size,)

    @property
    def ndim(self) -> int:
        """1."""
        return 1

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, key: Any) -> Any:
        return self.gathered()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.gathered()[key] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.gathered())

    def __getattr__(self, name: str) -> Any:  # also the interface of arrays on GPUs
        if name.startswith("__") and name != "__cuda_array_interface__":
            raise AttributeError(name)
        return getattr(self.gathered(), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Copy the values to the host; without a copy if they lie there."""
        values = self._pieces[0].device.to_host(self.gathered())
        return np.array(values, dtype) if copy else np.asarray(values, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = [x.gathered() if isinstance(x, PartitionedArray) else x for x in inputs]
        if "out" in options:
            outs = options["out"]
            options["out"] = tuple(
                x.gathered() if isinstance(x, PartitionedArray) else x for x in outs
            )
        return getattr(ufunc, method)(*arrays, **options)

    def __reduce__(self) -> Any:
        return self.gathered().__reduce__()

    def __bool__(self) -> bool:
        return bool(self.gathered())

    def __repr__(self) -> str:
        return repr(self.gathered())

    def __str__(self) -> str:
        return str(self.gathered())
