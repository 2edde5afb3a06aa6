"""Arrays over the points or edges of a partitioned graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from morph.language.messages import shown
from morph.partition.transport import Transport
from morph.runtime.device import Array, Device, device

INTERFACES = ("__cuda_array_interface__", "__dlpack__", "__dlpack_device__")


class Piece(NamedTuple):
    """The values of one part's own rows, on its device.

    Attributes
    ----------
    ids : slice or array of int32 on that device
        The global ids of the rows.
    """

    device: Device
    ids: Any
    values: Array


def gather(target: Device, count: int, dtype: np.dtype[Any], pieces: Sequence[Piece]) -> Array:
    """Copy the values of all parts to one device, in order of global ids, and synchronize it."""
    with target.active():
        result = target.empty(count, dtype)
        if target.on_host or not _fits_one_kernel(target, pieces):
            for where, ids, values in pieces:
                index = ids if isinstance(ids, slice) else target.asarray(where.to_host(ids))
                result[index] = target.asarray(values)
        else:
            for where in {x.device for x in pieces} - {target}:
                where.synchronize()  # other streams may still compute the values
            target.put(*((result[ids], values) for _, ids, values in pieces))
    target.synchronize()  # later launches may overwrite the arrays of the parts
    return result


def _fits_one_kernel(target: Device, pieces: Sequence[Piece]) -> bool:
    """Whether one kernel of the target can read the values of all parts and write them in place."""
    plain = (isinstance(ids, slice) and values.flags.c_contiguous for _, ids, values in pieces)
    return all(plain) and all(target.reach(x.device) for x in pieces)


def gathered_pieces(ranks: Transport, pieces: Mapping[int, Piece]) -> list[Piece]:
    """Return the values of all parts on the host; a collective operation of all processes."""
    ranks.begin("gather a result")
    found = {}
    for k, (where, ids, values) in pieces.items():
        at = ids if isinstance(ids, slice) else where.to_host(ids)
        found[k] = at, where.to_host(values)
    return [Piece(device("cpu"), *x) for x in ranks.gather(found)]


class PartitionedArray(NDArrayOperatorsMixin):
    """A result on the points of a partitioned graph: each part has the values of its own points.

    Indexing, array methods and conversions gather the values, in order of ids, into one array on
    the device of the first part; later accesses use that array.  `local` and arithmetic with
    numbers do not gather; arithmetic with arrays does.
    On MPI ranks each gathers into an array on its host; the access that gathers is a collective
    operation, which all ranks execute at the same place of the script.
    """

    __slots__ = ("_pieces", "_array", "_ranks", "dtype", "size")

    def __init__(
        self, count: int, dtype: np.dtype[Any], pieces: Mapping[int, Piece],
        ranks: Transport | None = None,
    ) -> None:  # fmt: skip
        self.size, self.dtype, self._pieces, self._ranks = count, dtype, dict(pieces), ranks
        self._array: Array = None

    def local(self, k: int) -> Array:
        """Return the values of part k's own points, in order of ids, on its device.

        Raises
        ------
        ValueError
            If the part lies in another process.
        """
        if k not in self._pieces:
            raise ValueError(f"part {shown(k)} lies in another process")
        own, ids, values = self._pieces[k]
        if values is not None:
            return values.view(self.dtype)
        where = self._where()
        with where.active():
            place = ids if isinstance(ids, slice) else where.asarray(own.to_host(ids))
            values = self._array[place]
        return own.asarray(values)

    def _where(self) -> Device:
        """Return the device of the gathered array."""
        return next(iter(self._pieces.values())).device if self._ranks is None else device("cpu")

    def gathered(self) -> Array:
        """Return all values, in order of ids, on the device of the first part; of ranks, the host.

        On MPI ranks the first call is a collective operation of all ranks.
        """
        if self._array is None:
            pieces = self._viewed()
            if self._ranks is not None:
                pieces = gathered_pieces(self._ranks, dict(zip(self._pieces, pieces, strict=True)))
            self._array = gather(self._where(), self.size, self.dtype, pieces)
            self._pieces = {k: x._replace(values=None) for k, x in self._pieces.items()}
        return self._array

    def _viewed(self) -> list[Piece]:
        """Return the pieces with values of the array's type."""
        return [x._replace(values=x.values.view(self.dtype)) for x in self._pieces.values()]

    def map(self, function: Callable[[Device, Array], Array]) -> Any:
        """Apply an elementwise function to the values of each part, or to the gathered array."""
        if self._array is not None:
            return function(self._where(), self._array)
        pieces = {
            k: x._replace(values=function(x.device, x.values))
            for k, x in zip(self._pieces, self._viewed(), strict=True)
        }
        dtype = next(iter(pieces.values())).values.dtype
        return PartitionedArray(self.size, dtype, pieces, self._ranks)

    def view(self, dtype: Any = None) -> Any:
        """Return the same bytes as values of another type."""
        kind = self.dtype if dtype is None else np.dtype(dtype)
        if kind.itemsize != self.dtype.itemsize or self._array is not None:
            return self.gathered().view(kind)
        return PartitionedArray(self.size, kind, self._pieces, self._ranks)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape, ``(number of points,)``."""
        return (self.size,)

    @property
    def ndim(self) -> int:
        """Number of dimensions, 1."""
        return 1

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, key: Any) -> Any:
        return self.gathered()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.gathered()[key] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.gathered())

    def __getattr__(self, name: str) -> Any:  # also the interfaces for other libraries
        if name.startswith("__") and name not in INTERFACES:
            raise AttributeError(name)
        if self._ranks is not None and not hasattr(np.ndarray, name):
            raise AttributeError(name)
        return getattr(self.gathered(), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return a NumPy array; values on the host are copied only if ``copy`` is true."""
        values = self._where().to_host(self.gathered())
        return np.array(values, dtype) if copy else np.asarray(values, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        elementwise = method == "__call__" and ufunc.nout == 1 and not options
        if elementwise and all(x is self or np.ndim(x) == 0 for x in inputs):

            def call(where: Device, values: Array) -> Array:
                with where.active():
                    return ufunc(*(values if x is self else x for x in inputs))

            return self.map(call)
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

    def __int__(self) -> int:
        return int(self.gathered())

    def __float__(self) -> float:
        return float(self.gathered())

    def __repr__(self) -> str:
        if self._ranks is not None and self._array is None:  # one rank alone can show this
            return f"PartitionedArray({self.size} values of {self.dtype}, not gathered)"
        return repr(self.gathered())

    def __str__(self) -> str:
        return str(self.gathered())
