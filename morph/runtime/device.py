"""Devices by name, and their base class; `morph.runtime.backend` has the whole interface."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import length_hint
from typing import Any

import numpy as np

from morph.language.messages import shown
from morph.runtime.arrays import Array, copy_to_host, imported, is_host
from morph.runtime.backend import BACKENDS, Backend

__all__ = [
    "Array", "Device", "DeviceError", "device", "device_for", "get_device", "is_host",
    "require_free", "set_device",
]  # fmt: skip

VARIABLE = "MORPH_DEVICE"
"""Environment variable: the default device of processes that do not call `set_device`."""


BUFFER_ALIGN = 256  # bytes, of buffers in one block
LEAST_CHECKED = 1 << 26  # bytes: smaller amounts are not compared with the free memory
MOST_CONSTANTS = 1000  # arrays that a device keeps
SHARED_BYTES = 1 << 24  # larger buffers are allocated one by one, so that each can be freed


class DeviceError(RuntimeError):
    """The requested device cannot be used here."""


class Device(Backend):
    """A device with memory for arrays, see `device`.  Devices of the same name are equal.

    See `morph.runtime.backend.Backend` for all attributes and methods.

    Attributes
    ----------
    name : str
        ``"cpu"``, ``"python"``, ``"cuda:0"``, ...
    kind : str
        ``"cpu"``, ``"python"`` (host memory, kernels interpreted) or ``"cuda"``.
    index : int
        Index of the GPU; 0 on the host.
    xp : module
        ``numpy`` or ``cupy``.
    """

    host_array_limit = 0

    def __init__(self, kind: str, index: int, xp: Any) -> None:
        self.kind = kind
        self.index = index
        self.name = f"{kind}:{index}" if BACKENDS[kind].numbered else kind
        self.xp = xp
        self._nothing: dict[int, Array] = {}  # by number of bytes
        self._constants: dict[bytes, Array] = {}

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Device) and self.name == other.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"device({self.name!r})"

    def __reduce__(self) -> Any:
        return device, (self.name,)

    def array_device(self, *given: Any) -> Device:
        return device("cpu") if all(map(self._is_small, given)) else self

    def _is_small(self, x: Any) -> bool:
        """Whether a number of elements, or an array on the host, is below `host_array_limit`."""
        if isinstance(x, int):
            return x < self.host_array_limit
        return x is None or length_hint(x) < self.host_array_limit and is_host(imported(x))

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        with self.active():
            return self.xp.empty(shape, dtype)

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        with self.active():
            return self.xp.zeros(shape, dtype)

    def full(self, shape: int | tuple[int, ...], value: Any, dtype: Any) -> Array:
        with self.active():
            return self.xp.full(shape, value, dtype)

    @property
    def tiles(self) -> int:
        """Return 0: by default sums over rows do not use tiles."""
        return 0

    @property
    def cache_bytes(self) -> int:
        """Return 0, as `tiles`."""
        return 0

    def write(self, array: Array, values: Any) -> None:
        with self.active():
            array[...] = self.asarray(values) if getattr(values, "ndim", 0) else values

    def asarrays(self, *given: Any) -> list[Array]:
        return [self.asarray(x) for x in given]

    def write_all(self, writes: Iterable[tuple[Array, Any]]) -> None:
        for array, values in writes:
            self.write(array, values)

    def extremes(self, *arrays: Array) -> list[tuple[Any, Any]]:
        with self.active():
            return [(a.min().item(), a.max().item()) for a in arrays]

    def buffers(self, sizes: Sequence[int]) -> list[Array]:
        starts = [0, *accumulate(-(-n // BUFFER_ALIGN) * BUFFER_ALIGN for n in sizes)]
        if len(sizes) < 2 or starts[-1] > SHARED_BYTES:
            return [self.buffer(n) for n in sizes]
        whole = self.buffer(starts[-1])
        return [whole[at : at + n] for at, n in zip(starts, sizes, strict=False)]

    def constant(self, data: bytes) -> Array:
        found = self._constants.get(data)
        if found is None:
            if len(self._constants) >= MOST_CONSTANTS:
                self._constants.clear()
            made = self.asarray(np.frombuffer(bytearray(data), np.uint8))
            self.synchronize()  # another thread's stream may read it at once
            found = self._constants.setdefault(data, made)
        return found

    def nothing(self, nbytes: int) -> Array:
        if nbytes not in self._nothing:
            self._nothing[nbytes] = self.buffer(nbytes)
        return self._nothing[nbytes]

    def copy_to_host(self, given: Sequence[Array], outs: Sequence[np.ndarray[Any, Any]]) -> None:
        """Copy arrays of this device to C-contiguous NumPy arrays of their shapes and types."""
        copy_to_host(given, outs)

    def replaced(self, x: Array, old: int, new: int, dtype: Any) -> Array:
        with self.active():
            return self.xp.where(x == old, np.dtype(dtype).type(new), x.astype(dtype, copy=False))

    def reach(self, other: Any) -> bool:
        """Enable access by kernels of this device to another's memory; return whether it works."""
        return self.on_host and other.on_host

    def combine(self, arrays: Sequence[Array], rows: slice, op: str) -> bool:
        """Return False: by default a device has no kernel for `Backend.combine`."""
        return False


_known: dict[str, Device] = {}
_default: Device | None = None  # of `set_device`


def device(spec: str | Device | None = None) -> Device:
    """Find a device.

    Parameters
    ----------
    spec : str or Device, optional
        ``"cpu"``; ``"python"`` (host memory, kernels interpreted); ``"cuda"`` or ``"cuda:N"``;
        ``"auto"``: ``"cuda:0"`` if CuPy can be imported and there is a GPU, else ``"cpu"``.  None
        is the default device, see `set_device`, or ``"auto"`` if none is set.

    Raises
    ------
    ValueError
        If ``spec`` names no device.
    DeviceError
        If CuPy or the requested GPU is missing.
    """
    if spec.__class__ is str and spec in _known:
        return _known[spec]
    if isinstance(spec, Device):
        return spec
    if spec is None:
        return get_device() or device("auto")
    if not isinstance(spec, str):
        several = "; several: morph.partition(g, devices)" if isinstance(spec, list | tuple) else ""
        raise TypeError(f"a device is named by a string, not {shown(spec)}{several}")
    if spec == "auto":
        try:
            return device("cuda")
        except DeviceError:
            return device("cpu")
    kind, _, number = spec.partition(":")
    backend = BACKENDS.get(kind)
    if backend is None or not (spec == kind or (backend.numbered and number.isdecimal())):
        names = ", ".join(f"{k}, {k}:N" if b.numbered else k for k, b in BACKENDS.items())
        raise ValueError(f"no device {shown(spec)}; there are {names} and auto")
    index = int(number or 0)
    name = f"{kind}:{index}" if backend.numbered else kind
    if name not in _known:
        _known[name] = backend.find(index)
    return _known[name]


def set_device(spec: str | Device | None) -> None:
    """Set the default device of this process, for all later calls with ``device=None``.

    Parameters
    ----------
    spec : str or Device or None
        See `morph.device`; ``"auto"`` is resolved now.  None restores the default: the environment
        variable ``MORPH_DEVICE``, or none.

    Raises
    ------
    ValueError, DeviceError
        As by `morph.device`; the default is unchanged then.

    Notes
    -----
    With ``device=None`` a call uses the first of:

    1. the device of its data: a `Graph`, `Table` or other object of Morph, an array in the memory
       of a GPU, a mesh of such arrays.  Data in host memory do not count: they are copied to the
       device of the call;
    2. the device of `set_device`;
    3. the device of ``MORPH_DEVICE``;
    4. the CPU; but a GPU, if there is one, for `triangulate`, `refine`, `survey.solve`,
       `survey.walksat`, `survey.surveys`, `survey.beliefs`, `survey.Solver`, the option
       ``--device`` of the command line and ``morph.device()``.

    The default belongs to the process, not to a thread: a change affects calls of all threads.
    Threads that use different devices pass ``device=``.
    """
    global _default
    _default = None if spec is None else device(spec)


def get_device() -> Device | None:
    """Return the default device: of `set_device`, else of ``MORPH_DEVICE``; None if neither is set.

    Raises
    ------
    ValueError, DeviceError
        If ``MORPH_DEVICE`` names no device, or a device that cannot be used here.
    """
    if _default is not None:
        return _default
    spec = os.environ.get(VARIABLE)
    if not spec:
        return None
    try:
        return device(spec)
    except (ValueError, DeviceError) as e:
        raise type(e)(f"{VARIABLE}: {e}") from e


def device_for(spec: str | Device | None, *data: Any, otherwise: str = "cpu") -> Device:
    """Choose the device of a call, by the rule in `set_device`.

    Parameters
    ----------
    spec : str or Device or None
        The call's argument ``device``.
    *data : object
        The arguments of the call: the first that lies on a device decides.
    otherwise : str
        The default without other settings: ``"cpu"`` or ``"auto"``.

    Raises
    ------
    ValueError, DeviceError
        As by `morph.device`; names the argument or the variable.
    """
    if isinstance(spec, Device):
        return spec
    if spec is not None:
        try:
            return device(spec)
        except ValueError as e:
            raise ValueError(f"device: {e}") from e
    for x in data:
        if (found := _home(x)) is not None:
            return found
    return get_device() or device(otherwise)


def _home(x: Any) -> Device | None:
    """The device of an object; None for arrays and other objects in host memory."""
    found = getattr(x, "device", None)
    if isinstance(found, Device):
        return found
    x = imported(x)
    return None if is_host(x) else device_of(x)


def device_of(x: Any) -> Device:
    """Return the device on which an array lies; lists lie on the CPU."""
    if is_host(x):
        return device("cpu")
    if not hasattr(x, "get"):  # not a CuPy array, which `asarray` would copy to the current GPU
        x = device("cuda").xp.asarray(x)
    return device(f"cuda:{x.device.id}")


def require_free(device: Device, needed: int, made: str) -> None:
    """Refuse to make an object that takes ``needed`` bytes and exceeds the free memory.

    Raises
    ------
    MemoryError
        With ``made``, the object's description, and the needed and free memory.
    """
    free = device.free() if needed >= LEAST_CHECKED else None
    if free is not None and needed > free:
        raise MemoryError(
            f"{made} takes up to {needed / 1e9:.3g} GB to make, and "
            f"{device.name} has {free / 1e9:.3g} GB free"
        )
