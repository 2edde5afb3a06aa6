"""The interface of devices, which store arrays and run kernels, and their registry.

A device is an object of a class that implements `Backend`.  A new kind of device is one package in
`morph.runtime` with such a class, one target header in ``kernels/``, and one row of `BACKENDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from morph.language.hooks import Hook
from morph.runtime.arrays import Array

ArgumentBlock = npt.NDArray[np.uint64]
"""The arguments of a unit, in the order of `morph.compiler.ir.abi.fields`; C-contiguous."""

Write = tuple[Array, Any]
"""A one-dimensional array of a device, and values to write: one, or one per element.

Or `IOTA`, or an array of the device of the same size, and of the same type or int32 for int64.
"""

IOTA = object()  # as a value of `Write`: the index of each element
PUT_VALUES = 16  # number of host values for which `Backend.put` is cheaper than a copy of an array


class Seeds(NamedTuple):
    """The initial rows of an algorithm: a list of them, and their columns.

    Attributes
    ----------
    counters, item : array
        The header counters and the row ids of the list.
    beside : list of Write
        Other columns of the list's entries.
    columns : list of Write
        Columns of the rows, each with the value for the rows.
    """

    counters: Array
    item: Array
    beside: list[Write]
    columns: list[Write]


class Launch(Protocol):
    """A compiled unit, ready to run on one device.

    The attribute ``threads`` is the number of resident threads of a cooperative launch of a GPU.
    """

    def __call__(self, arguments: ArgumentBlock, items: int, alone: bool = False) -> None:
        """Run the unit; the call may return before its end (see `Backend.synchronize`).

        Parameters
        ----------
        arguments : ndarray of uint64
            The argument block.  It may be changed as soon as the call returns.
        items : int
            An upper bound of the items of any step.
        alone : bool
            Run by one CPU thread or one GPU block.
        """

    def bound(
        self, arguments: ArgumentBlock, items: int, alone: bool = False
    ) -> Callable[[], None]:  # fmt: skip
        """Return a call with these arguments, which takes less time; the block may be changed."""


class Report(Protocol):
    """Reads an int64 array of a device on the host after each launch.

    Attributes
    ----------
    address : int
        The address to which the launch may write the values; 0 if the host reads the array.
    values : memoryview of int64
        The latest values.
    """

    address: int
    values: memoryview

    def wait(self, written: bool, interruptible: bool = True) -> memoryview:
        """Wait for the launch and return the values, which are valid until the next launch.

        Parameters
        ----------
        written : bool
            Whether the launch has written the values to ``address``, so that no copy is needed.
        interruptible : bool
            Whether signal handlers run while the host waits.
        """

    def poll(self, launch: int, interruptible: bool = True) -> memoryview:
        """Wait for a launch that has written the values and, last, its number; return the values.

        The host polls the number at first, which detects the end sooner than `wait` does.

        Parameters
        ----------
        launch : int
            The number of the launch.
        interruptible : bool
            As in `wait`.
        """

    def ended(self, launch: int) -> memoryview | None:
        """Return the values if the launch has ended, else None after at most 1 ms.

        Parameters
        ----------
        launch : int
            The number that the launch writes, as in `poll`; -1 if it writes none.

        Raises
        ------
        Exception
            If the launch has ended with an error.
        """

    def stop(self, barrier: Array, word: int) -> None:
        """End a running launch: write 1 to ``barrier[word]``, wait, and clear ``barrier``.

        Does nothing on devices whose launches have ended when the call returns.
        """


class Writer(Protocol):
    """Repeats the same writes, see `Backend.prepared`.

    Attributes
    ----------
    fits : bool
        Whether one kernel executes all writes; otherwise `write` must not be used.
    most : int
        Largest number of rows and copies that `write` accepts.
    """

    fits: bool
    most: int

    def write(self, rows: Any, copies: Any, counters: Any) -> None:
        """Execute the writes, then those of the seeds.

        The list receives ``rows`` and ``counters``; the columns receive their values for ``rows``
        and ``copies``.
        """


class Backend(Protocol):
    """Memory for arrays, and the functions that run kernels on them.

    Callers test the attributes below and never compare ``kind``.

    Attributes
    ----------
    kind, name : str
        The registered name; and this name with the index, if there may be several: ``"cuda:0"``.
    index : int
        The index among the devices of this kind.
    xp : module
        The array module: ``numpy`` or one with its functions.
    on_host : bool
        Arrays are NumPy arrays in host memory: the host accesses them (also header counters) at the
        cost of an assignment, and a launch has ended when the call returns.  Otherwise a read
        synchronises with the device, launches have tens of thousands of threads, and `put` is the
        fastest way to write a few values.
    interprets : bool
        Units are interpreted: `load` returns a function of host objects instead of addresses, for a
        single ``foreach``; programs run as plain Python.
    local_limit : int
        Maximum bytes of the local collections of one item.
    host_array_limit : int
        Smaller arrays, in elements, that come from the host or are copied to it are processed on
        the host (see `array_device`), as CuPy compiles a kernel for each operation and type, in
        0.1 s.
    bulk : int
        Preferred number of elements of an array operation: larger on a device with separate memory,
        where each operation costs a launch.
    serial_items : int
        Maximum number of items of steps that run fastest on one CPU thread or one GPU block.
    tiles : int
        Number of resident blocks with `TILE_BYTES` of shared memory; 0 if sums over rows do not
        use tiles.
    cache_bytes : int
        Size of the cache of all multiprocessors; 0 if ``tiles`` is 0.
    throughput : int
        Updates (relaxations of edges, computed messages) in a fraction of a second: an estimate,
        used only for time limits.
    """

    kind: str
    name: str
    index: int
    xp: Any
    on_host: ClassVar[bool]
    interprets: ClassVar[bool]
    local_limit: ClassVar[int]
    host_array_limit: ClassVar[int]
    bulk: ClassVar[int]
    serial_items: ClassVar[int]
    throughput: ClassVar[int]

    @property
    def tiles(self) -> int:
        """See above."""

    @property
    def cache_bytes(self) -> int:
        """See above."""

    # --- memory ----------------------------------------------------------------------------------

    def array_device(self, *given: Any) -> Backend:
        """Return the device for processing arrays: the CPU if all are small, else this one.

        Parameters
        ----------
        *given : int, array or None
            Numbers of elements, arrays, or None.  Arrays with fewer than `host_array_limit`
            elements are small, unless they lie on a GPU.
        """

    def active(self) -> AbstractContextManager[Any]:
        """Make this the current device of its array module within a ``with`` block."""

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """Allocate an array with unspecified contents."""

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """Allocate an array of zeros."""

    def full(self, shape: int | tuple[int, ...], value: Any, dtype: Any) -> Array:
        """Allocate an array filled with ``value``."""

    def buffer(self, nbytes: int) -> Array:
        """Allocate zeroed bytes, aligned to a cache line, shape (nbytes,), uint8."""

    def buffers(self, sizes: Sequence[int]) -> list[Array]:
        """Allocate several buffers, see `buffer`; small ones lie in one block of memory."""

    def nothing(self, nbytes: int) -> Array:
        """Return bytes that give an address to columns without rows; shared, never written."""

    def constant(self, data: bytes) -> Array:
        """Return few bytes on the device; arrays of equal bytes are shared, and never written."""

    def free(self) -> int | None:
        """Return the number of free bytes; None if it is unknown."""

    def strided(
        self, buffer: Array, offset: int, shape: tuple[int, ...], dtype: Any, strides: Any
    ) -> Array:
        """View bytes as an array that starts at ``offset`` and steps by ``strides``."""

    def pointer(self, x: Array) -> int:
        """Return the address of the first element of an array of this device."""

    def reach(self, other: Any) -> bool:
        """Enable access by kernels of this device to another's memory; return whether it works."""

    # --- copies ----------------------------------------------------------------------------------

    def asarray(self, x: Any, dtype: Any = None) -> Array:
        """Convert an array-like object to an array of this device.

        Copies only if ``x`` lies on another device or has another type.
        """

    def asarrays(self, *given: Any) -> list[Array]:
        """Convert arrays as `asarray` does, those that are large together without pauses."""

    def copy(self, x: Any) -> Array:
        """Return a contiguous copy of an array-like object on this device."""

    def copies(self, *sources: Array) -> list[Array]:
        """Copy contiguous one-dimensional arrays of this device."""

    def to_host(self, x: Any) -> np.ndarray[Any, Any]:
        """Convert an array-like object of any device to a NumPy array; synchronises with a GPU.

        A NumPy array is returned without a copy.
        """

    def copy_to_host(self, given: Sequence[Array], outs: Sequence[np.ndarray[Any, Any]]) -> None:
        """Copy arrays of this device to C-contiguous NumPy arrays of their shapes and types."""

    def write(self, array: Array, values: Any) -> None:
        """Write to all elements of an array of this device, or of a view of one.

        ``values`` have the array's dtype: a scalar, or an array of any device that broadcasts.
        """

    def write_all(self, writes: Iterable[tuple[Array, Any]]) -> None:
        """Write as `write` does to several arrays that do not overlap, by as few kernels."""

    def extremes(self, *arrays: Array) -> list[tuple[Any, Any]]:
        """Return the least and the largest value of each array, none of which is empty.

        They are Python numbers; one of them is NaN if a value is.  Synchronises with a GPU, once.
        """

    def replaced(self, x: Array, old: int, new: int, dtype: Any) -> Array:
        """Return a copy of integers as ``dtype``, with ``new`` in place of ``old``."""

    def put(self, *writes: Write) -> None:
        """Write values to arrays of this device; two writes may not overlap.

        Asynchronous.  Host values are copied before the call returns.
        """

    def combine(self, arrays: Sequence[Array], rows: slice, op: str) -> bool:
        """Combine rows of several arrays elementwise, and write the result into all of them.

        Kernels of this device can access the arrays, which have equal shapes and types.
        Asynchronous.  Returns false, without an effect, if the device has no such kernel.

        Parameters
        ----------
        op : {"add", "min", "max", "or", "and"}
        """

    def prepared(self, writes: Sequence[Write], seeds: Sequence[Any] | None = None) -> Writer:
        """Prepare writes that each call of an algorithm executes.

        ``seeds`` are the fields of `Seeds`.
        """

    # --- launches --------------------------------------------------------------------------------

    def load(self, code: Any, faults: bool, seed: int) -> Any:
        """Build a unit and return its `Launch`.

        Parameters
        ----------
        code : object
            ``code.outline`` and ``code.unit`` are the unit's outline and IR, ``code.text`` is its
            C++ (unit and text are made on demand); ``code.interruptible``: whether signal
            handlers run during a launch; ``code.rebuilt()`` is called by another thread when a
            faster binary can be loaded.
        faults : bool
            Compile in the injection of failing allocations (tests).
        seed : int
            Determines the order of items where it is arbitrary (tests).

        Returns
        -------
        Launch
            If the backend ``interprets``, the result of `morph.runtime.interpreter.launch.load`.
        """

    def build(self, code: Any) -> None:
        """Compile a unit's C++ into the cache, without loading it; ``code`` as in `load`."""

    def report(self, values: Array) -> Report:
        """Return a reader of an int64 array of this device, called after each launch."""

    def synchronize(self) -> None:
        """Wait until all launches have ended."""


class Registration(NamedTuple):
    """One kind of device.

    Attributes
    ----------
    find : Hook
        ``find(index)`` returns the device, a `morph.runtime.device.Device`; raises `DeviceError` if
        it cannot be used here.  Its module is imported at the first call.
    numbered : bool
        Whether there may be several devices of this kind: ``"kind:N"``.
    """

    find: Hook[Any]
    numbered: bool = False


BACKENDS = {
    "cpu": Registration(Hook("morph.runtime.cpu.device:find")),
    "cuda": Registration(Hook("morph.runtime.cuda.device:find"), numbered=True),
    "python": Registration(Hook("morph.runtime.interpreter.device:find")),
}
