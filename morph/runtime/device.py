"""Devices by name, and their common base; `morph.runtime.backend` has the whole interface."""

from __future__ import annotations

import os
from collections.abc import Sequence
from operator import length_hint
from typing import Any

import numpy as np

from morph.language.messages import shown
from morph.runtime.arrays import Array, imported, is_host
from morph.runtime.backend import BACKENDS, Backend

__all__ = [
    "Array", "Device", "DeviceError", "device", "device_for", "get_device", "is_host", "set_device",
]  # fmt: skip

VARIABLE = "MORPH_DEVICE"
"""Environment variable: the default device of processes that do not call `set_device`."""


class DeviceError(RuntimeError):
    """The device asked for cannot be used here."""


class Device(Backend):
    """A place for arrays; get one from `device`.  Devices of the same name are equal.

    See `morph.runtime.backend.Backend` for all attributes and methods.

    Attributes
    ----------
    name : str
        ``"cpu"``, ``"python"``, ``"cuda:0"``, ...
    kind : str
        ``"cpu"``, ``"python"`` (host memory too, kernels interpreted) or ``"cuda"``.
    index : int
        Which GPU; 0 on the host.
    xp : module
        ``numpy`` or ``cupy``.
    """

    def __init__(self, kind: str, index: int, xp: Any) -> None:
        self.kind = kind
        self.index = index
        self.name = f"{kind}:{index}" if BACKENDS[kind].numbered else kind
        self.xp = xp

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Device) and self.name == other.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"device({self.name!r})"

    def __reduce__(self) -> Any:
        return device, (self.name,)

    few = 0

    def near(self, *given: Any) -> Device:
        return device("cpu") if all(map(self._is_few, given)) else self

    def _is_few(self, x: Any) -> bool:
        if isinstance(x, int):
            return x < self.few
        return x is None or length_hint(x) < self.few and is_host(imported(x))

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
        """Return 0: by default sums over rows are not taken by tiles."""
        return 0

    @property
    def cache_bytes(self) -> int:
        """Return 0, as `tiles`."""
        return 0

    def write(self, array: Array, values: Any) -> None:
        with self.active():
            array[...] = self.asarray(values) if getattr(values, "ndim", 0) else values

    def replaced(self, x: Array, old: int, new: int, dtype: Any) -> Array:
        with self.active():
            return self.xp.where(x == old, np.dtype(dtype).type(new), x.astype(dtype, copy=False))

    def reach(self, other: Any) -> bool:
        """Let kernels of this device access the memory of another; return whether they can."""
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
        ``"auto"``, which is ``"cuda:0"`` if CuPy imports and a GPU answers, else ``"cpu"``.  None
        is the default device, see `set_device`, or ``"auto"`` if none is set.

    Raises
    ------
    ValueError
        If ``spec`` names no device.
    DeviceError
        If CuPy or the GPU asked for is missing.
    """
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
    if spec in _known:
        return _known[spec]
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
    """Set the default device of this process: of all calls with ``device=None`` from the next one.

    Parameters
    ----------
    spec : str or Device or None
        See `morph.device`; ``"auto"`` chooses now.  None for what it was: the environment variable
        ``MORPH_DEVICE``, or none.

    Raises
    ------
    ValueError, DeviceError
        As by `morph.device`; the default stays as it was.

    Notes
    -----
    With ``device=None`` a call takes, in this order:

    1. the device on which its data lies: a `Graph`, `Table` or other object of Morph, an array in
       the memory of a GPU, a mesh of such arrays.  Data of the host has no place in this order: it
       is copied to wherever the call runs;
    2. the device of `set_device`;
    3. that of ``MORPH_DEVICE``;
    4. the CPU; but a GPU if one answers for `triangulate`, `refine`, `survey.solve`,
       `survey.walksat`, `survey.surveys`, `survey.beliefs`, `survey.Solver`, the option
       ``--device`` of the command line and ``morph.device()``.

    The default belongs to the process, not to a thread: a change affects calls of all threads.
    Threads that want different devices pass ``device=``.
    """
    global _default
    _default = None if spec is None else device(spec)


def get_device() -> Device | None:
    """Return the default device: of `set_device`, else of ``MORPH_DEVICE``; None if neither is set.

    Raises
    ------
    ValueError, DeviceError
        If ``MORPH_DEVICE`` names no device, or one that cannot be used here.
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
        What the call is given: the first that lies on a device decides.
    otherwise : str
        If nothing else says where: ``"cpu"`` or ``"auto"``.

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
    """Where an object lies; None of arrays and all else in host memory."""
    found = getattr(x, "device", None)
    if isinstance(found, Device):
        return found
    x = imported(x)
    return None if is_host(x) else device_of(x)


def device_of(x: Any) -> Device:
    """Return the device on which an array lies; lists lie on the CPU."""
    if is_host(x):
        return device("cpu")
    if not hasattr(x, "get"):  # not CuPy's, which `asarray` would copy to the current GPU
        x = device("cuda").xp.asarray(x)
    return device(f"cuda:{x.device.id}")
