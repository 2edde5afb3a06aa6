"""Devices by name, and their common base; `morph.runtime.backend` has the whole interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from morph.language.messages import shown
from morph.runtime.arrays import Array, is_host
from morph.runtime.backend import BACKENDS, Backend

__all__ = ["Array", "Device", "DeviceError", "device", "is_host"]


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

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        with self.active():
            return self.xp.empty(shape, dtype)

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        with self.active():
            return self.xp.zeros(shape, dtype)

    def full(self, shape: int | tuple[int, ...], value: Any, dtype: Any) -> Array:
        with self.active():
            return self.xp.full(shape, value, dtype)

    def reach(self, other: Any) -> bool:
        """Let kernels of this device access the memory of another; return whether they can."""
        return self.on_host and other.on_host

    def combine(self, arrays: Sequence[Array], rows: slice, op: str) -> bool:
        """Return False: by default a device has no kernel for `Backend.combine`."""
        return False


_known: dict[str, Device] = {}


def device(spec: str | Device = "auto") -> Device:
    """Find a device.

    Parameters
    ----------
    spec : str or Device
        ``"cpu"``; ``"python"`` (host memory, kernels interpreted); ``"cuda"`` or ``"cuda:N"``;
        ``"auto"``, which is ``"cuda:0"`` if CuPy imports and a GPU answers, else ``"cpu"``.

    Raises
    ------
    ValueError
        If ``spec`` names no device.
    DeviceError
        If CuPy or the GPU asked for is missing.
    """
    if isinstance(spec, Device):
        return spec
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


def device_of(x: Any) -> Device:
    """Return the device on which an array lies; lists lie on the CPU."""
    if is_host(x):
        return device("cpu")
    return device(f"cuda:{device('cuda').xp.asarray(x).device.id}")
