"""The interface of devices, which hold arrays and run kernels, and their registry.

A device is an object of a class that implements `Backend`.  A new kind of device is one package in
`morph.runtime` with such a class, one target header in ``kernels/``, and one row of `BACKENDS`.
"""

from __future__ import annotations

from collections.abc import Sequence
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

Or `IOTA`, or an array of the device of the same type and size, both contiguous and 8-byte aligned.
"""

IOTA = object()  # as a value of `Write`: each element's own index
FEW = 16  # host values that `Backend.put` writes at less cost than a copy of an array


class Seeds(NamedTuple):
    """The rows of a table that an algorithm starts from: a list of them, and their columns.

    Attributes
    ----------
    counters, item : array
        The header counters and the row ids of the list.
    beside : list of Write
        Further columns of the list's entries.
    columns : list of Write
        Columns of the rows, each with the value that the rows get.
    """

    counters: Array
    item: Array
    beside: list[Write]
    columns: list[Write]


class Launch(Protocol):
    """A compiled unit, ready to run on one device.

    If a launch has a limit of concurrent threads (a GPU's cooperative launch), it is the attribute
    ``threads``.
    """

    def __call__(self, arguments: ArgumentBlock, items: int, alone: bool = False) -> None:
        """Run the unit; may return before its end (see `Backend.synchronize`).

        Parameters
        ----------
        arguments : ndarray of uint64
            The argument block.  It may be changed as soon as the call returns.
        items : int
            At least as many as any step of the unit has.
        alone : bool
            Run by one CPU thread or one GPU block.
        """


class Report(Protocol):
    """Reads an int64 array of a device on the host after each launch.

    Attributes
    ----------
    address : int
        Where the launch may write the values itself; 0 if the host reads the array in place.
    values : memoryview of int64
        The values read last.
    """

    address: int
    values: memoryview

    def wait(self, written: bool, interruptible: bool = True) -> memoryview:
        """Wait for the launch and return the values, which are valid until the next launch.

        Parameters
        ----------
        written : bool
            The launch has written the values to ``address``, so that nothing is copied.
        interruptible : bool
            Whether signal handlers run while the host waits.
        """

    def poll(self, launch: int, interruptible: bool = True) -> memoryview:
        """Wait for a launch that writes its number, too, and return the values.

        As `wait` if it has ``written`` them, but sooner: the host polls the number.
        """

    def ended(self) -> bool:
        """Whether the launch has ended, perhaps with an error, which `wait` then raises."""

    def stop(self, barrier: Array, word: int) -> None:
        """End a running launch: write 1 to ``barrier[word]``, wait, and clear ``barrier``.

        Does nothing on devices whose launches have ended when the call returns.
        """


class Writer(Protocol):
    """Writes the same values again and again, see `Backend.prepared`.

    Attributes
    ----------
    fits : bool
        Whether one kernel makes all writes; if not, `write` must not be used.
    most : int
        Largest number of rows and copies that `write` accepts.
    """

    fits: bool
    most: int

    def write(self, rows: Any, copies: Any, counters: Any) -> None:
        """Make the writes; then those of the seeds.

        The list gets ``rows`` and ``counters``; columns, the values of ``rows`` and ``copies``.
        """


class Backend(Protocol):
    """Memory for arrays, and the means to run kernels on them.

    Callers ask the attributes below and never compare ``kind``.

    Attributes
    ----------
    kind, name : str
        The registered name, and with it the index of one device of several: ``"cuda:0"``.
    index : int
        Which of the devices of this kind.
    xp : module
        The array module: ``numpy`` or one with its functions.
    on_host : bool
        Arrays are NumPy arrays in host memory, so the host reads and writes them (header counters
        too) at the cost of an assignment, and a launch has ended when the call returns.  Otherwise
        a read waits for the device, launches have tens of thousands of threads, and a few values
        are best written by `put`.
    interprets : bool
        Units are interpreted: `load` gives a function of host objects instead of addresses, of one
        ``foreach``, and programs run as plain Python.
    local_limit : int
        Bytes that the local collections of one item may take.
    host_array_limit : int
        Arrays of fewer elements that come from the host, or go there, are processed on the host
        (see `array_device`): CuPy compiles a kernel for each operation and type, for 0.1 s.
    bulk : int
        Elements that array operations best process at once: temporaries of a device with its own
        memory may be larger, but each operation costs a launch.
    serial_items : int
        Steps of at most so many items run fastest on one CPU thread or one GPU block.
    tiles : int
        Blocks with `TILE_BYTES` of shared memory that run at once; 0 if sums over rows are not
        taken by tiles.
    cache_bytes : int
        Size of the cache of all multiprocessors; 0 where ``tiles`` is.
    throughput : int
        Updates (an edge relaxed, a message computed) in a fraction of a second, for limits of time
        only: an estimate that no result depends on.
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
        """Return the device on which to process arrays: the CPU if all are small, else this one.

        Parameters
        ----------
        *given : int, array or None
            Each a number of elements, an array, or no array.  Small are those of fewer than
            `host_array_limit` elements; an array that already lies on a GPU is never small.
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
        """Allocate zeroed bytes that start on a cache line, shape (nbytes,), uint8."""

    def free(self) -> int | None:
        """Count the bytes that can still be allocated; None if the system does not tell."""

    def strided(
        self, buffer: Array, offset: int, shape: tuple[int, ...], dtype: Any, strides: Any
    ) -> Array:
        """View bytes as an array that starts at ``offset`` and steps by ``strides``."""

    def pointer(self, x: Array) -> int:
        """Return the address of the first element of an array of this device."""

    def reach(self, other: Any) -> bool:
        """Let kernels of this device access the memory of another; return whether they can."""

    # --- copies ----------------------------------------------------------------------------------

    def asarray(self, x: Any, dtype: Any = None) -> Array:
        """Return anything array-like as an array of this device.

        Copies only if ``x`` lies elsewhere or has another type.
        """

    def copy(self, x: Any) -> Array:
        """Return a contiguous copy of anything array-like on this device."""

    def copies(self, *sources: Array) -> list[Array]:
        """Copy contiguous one-dimensional arrays of this device."""

    def to_host(self, x: Any) -> np.ndarray[Any, Any]:
        """Return anything array-like, of any device, as a NumPy array; waits for a GPU's array.

        A NumPy array is returned itself, not a copy.
        """

    def write(self, array: Array, values: Any) -> None:
        """Write to all elements of an array of this device, or of a view of one.

        ``values`` have the array's dtype: a scalar, or an array of any device that broadcasts.
        """

    def replaced(self, x: Array, old: int, new: int, dtype: Any) -> Array:
        """Return a copy of integers as ``dtype``, with ``new`` in place of ``old``."""

    def put(self, *writes: Write) -> None:
        """Write values to arrays of this device; two writes may not overlap.

        Does not wait.  Values of the host are copied before the call returns.
        """

    def combine(self, arrays: Sequence[Array], rows: slice, op: str) -> bool:
        """Combine rows of several arrays elementwise, and write the result into all of them.

        Kernels of this device can access the arrays, which have one shape and type.  Does not wait
        for the kernel.  Returns whether the device has such a kernel; if not, nothing is done.

        Parameters
        ----------
        op : {"add", "min", "max", "or", "and"}
        """

    def prepared(self, writes: Sequence[Write], seeds: Sequence[Any] | None = None) -> Writer:
        """Prepare writes that an algorithm makes at each of its calls.

        ``seeds`` are the fields of `Seeds`.
        """

    # --- launches --------------------------------------------------------------------------------

    def load(self, code: Any, faults: bool, seed: int) -> Any:
        """Build a unit and return its `Launch`.

        Parameters
        ----------
        code : object
            ``code.outline`` and ``code.unit`` are the unit's outline and IR, ``code.text`` is its
            C++ (both made when asked for); ``code.interruptible`` says
            whether signal handlers run during a launch; ``code.rebuilt()`` is called by another
            thread when a better binary can be loaded.
        faults : bool
            Compile in the injection of failing allocations (tests).
        seed : int
            Order of the items, where it is arbitrary (tests).

        Returns
        -------
        Launch
            Or, if the backend ``interprets``, what `morph.runtime.interpreter.launch.load` returns.
        """

    def build(self, code: Any) -> None:
        """Compile a unit's C++ for the cache, and do not load it; ``code`` as in `load`."""

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
