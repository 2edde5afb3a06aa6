"""Devices: where arrays live, and the array module that works on them there."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from morph.language.dtypes import ID_LIMIT
from morph.language.messages import shown
from morph.runtime.small_copies import IOTA, SMALL, Answer, Prepared, Seeds, Words, Write
from morph.runtime.transfer import LARGE, fetch

Array = Any
"""A NumPy array on the host devices, a CuPy array on a CUDA device."""

ALIGN = 64  # bytes; a cache line, and two sectors of GPU memory
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged
_HERE: AbstractContextManager[None] = nullcontext()


class DeviceError(RuntimeError):
    """The device asked for cannot be used here."""


class Device:
    """A place for arrays; get one from `device`.  Devices of the same name are equal.

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

    __slots__ = ("index", "kind", "name", "xp")

    def __init__(self, kind: str, index: int, xp: Any) -> None:
        self.kind = kind
        self.index = index
        self.name = f"{kind}:{index}" if kind == "cuda" else kind
        self.xp = xp

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"device({self.name!r})"

    def __reduce__(self) -> Any:
        return device, (self.name,)

    def active(self) -> AbstractContextManager[Any]:
        """Make this the current GPU within a ``with`` block; nothing on the host."""
        if self.kind != "cuda":
            return _HERE
        if self.xp.cuda.runtime.getDevice() == self.index:
            return _HERE
        return self.xp.cuda.Device(self.index)  # type: ignore[no-any-return]

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """Allocate an array of any contents."""
        with self.active():
            return self.xp.empty(shape, dtype)

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """Allocate an array of zeros."""
        with self.active():
            return self.xp.zeros(shape, dtype)

    def full(self, shape: int | tuple[int, ...], value: Any, dtype: Any) -> Array:
        """Allocate an array filled with ``value``."""
        with self.active():
            return self.xp.full(shape, value, dtype)

    def buffer(self, nbytes: int) -> Array:
        """Allocate zeroed bytes that start on a cache line, shape (nbytes,), uint8."""
        if self.kind == "cuda":  # CuPy's pool aligns to 512
            return self.zeros(nbytes, np.uint8)
        raw = np.zeros(nbytes + ALIGN, np.uint8)
        start = -self.pointer(raw) % ALIGN
        return raw[start : start + nbytes]

    def free(self) -> int | None:
        """Count the bytes that can still be allocated; None if the system does not tell."""
        if self.kind != "cuda":
            return _free_on_host()
        with self.active():
            here = self.xp.cuda.runtime.memGetInfo()[0]
            return int(here + self.xp.get_default_memory_pool().free_bytes())

    def asarray(self, x: Any, dtype: Any = None) -> Array:
        """Give ``x`` (NumPy, CuPy, anything array-like) as an array of this device.

        Copies only if ``x`` lies elsewhere or has another type.
        """
        if self.kind != "cuda" and type(x) is np.ndarray:
            return x if dtype is None else np.asarray(x, dtype)
        x = _of_dlpack(x)
        if self.kind != "cuda":
            return np.asarray(self.to_host(x), dtype)
        with self.active():
            return self.xp.asarray(x, dtype)

    def copies(self, *arrays: Array) -> list[Array]:
        """Copy arrays of one dimension of this device, contiguous; by one kernel on a GPU."""
        with self.active():
            if self.kind != "cuda" or any(x.data.ptr % 8 for x in arrays):
                return [x.copy() for x in arrays]
            made = [self.xp.empty(x.size, x.dtype) for x in arrays]
        _words(self.index).put(list(zip(made, arrays, strict=True)))
        return made

    def copy(self, x: Any) -> Array:
        """Give a contiguous copy of ``x`` on this device."""
        if self.kind != "cuda":
            return np.array(x) if is_host(x) else self.to_host(x)
        with self.active():
            return self.xp.array(x)

    def put(self, *writes: tuple[Array, Any]) -> None:
        """Write a little to arrays of one dimension here, no two of which share a place.

        Parameters
        ----------
        *writes : (array, value)
            A value for all of the array, or a host's array with one for each place of it.
        """
        if self.kind == "cuda":
            _words(self.index).put(writes)
            return
        for array, values in writes:
            array[:] = np.arange(array.size) if values is IOTA else values

    def prepared(self, writes: Sequence[Write], seeds: Any = None) -> Any:
        """Give what makes these writes, and seeds rows, again and again: by one kernel on a GPU.

        ``seeds`` are the parts of `small_copies.Seeds`, or None.
        """
        seeds = None if seeds is None else Seeds(*seeds)
        if self.kind == "cuda":
            return Prepared(_words(self.index), writes, seeds)
        return Ready(self, writes, seeds)

    def to_host(self, x: Any) -> np.ndarray[Any, Any]:
        """Give ``x`` as a NumPy array; waits for the GPU if it lies there."""
        if type(x) is np.ndarray:
            return x
        x = _of_dlpack(x)
        if hasattr(x, "__cuda_array_interface__"):
            if not hasattr(x, "get"):  # another library's array: CuPy wraps it without a copy
                x = importlib.import_module("cupy").asarray(x)
            large = x.nbytes >= LARGE and x.flags.c_contiguous
            return fetch(x) if large else self.fetch(x)
        return np.asarray(x)

    def fetch(self, x: Array) -> np.ndarray[Any, Any]:
        """Give a CuPy array, which is not large, on the host."""
        small = self.kind == "cuda" and 0 < x.nbytes <= SMALL
        small = small and x.flags.c_contiguous and x.device.id == self.index
        got: np.ndarray[Any, Any] = _words(self.index).fetch(x) if small else x.get()
        return got

    def answer(self, told: Array) -> Any:
        """Give what reads an array of int64 of this device after each launch, see `Answer`."""
        return Answer(_words(self.index), told) if self.kind == "cuda" else Told(told)

    def strided(
        self, buffer: Array, offset: int, shape: tuple[int, ...], dtype: Any, strides: Any
    ) -> Array:
        """View bytes as an array that starts at ``offset`` and steps by ``strides``."""
        if self.kind == "cuda":
            with self.active():
                return self.xp.ndarray(shape, dtype, memptr=buffer.data + offset, strides=strides)
        return np.ndarray(shape, dtype, buffer=buffer, offset=offset, strides=strides)

    def pointer(self, x: Array) -> int:
        """Give the address of the first element of an array on this device."""
        if self.kind == "cuda":
            return int(x.data.ptr)
        return int(x.__array_interface__["data"][0])


class Ready:
    """What `Prepared` is where arrays can be written at once."""

    fits, most = True, ID_LIMIT

    def __init__(self, on: Device, writes: Sequence[Write], seeds: Seeds | None) -> None:
        self.on, self.writes, self.seeds = on, writes, seeds

    def write(self, rows: Any, counters: Any) -> None:
        """Write all; the counters are the list's own."""
        self.on.put(*self.writes)
        if self.seeds is not None:
            k = len(rows)
            self.seeds.item[:k] = rows
            for array, x in self.seeds.beside:
                array[:k] = x
            for array, x in self.seeds.columns:
                array[rows] = x


class Told:
    """What `Answer` is on the host: the words themselves, which no launch has to write anew."""

    def __init__(self, told: Array) -> None:
        self.words, self.address = memoryview(told), 0

    def hear(self, written: bool, interruptible: bool = True) -> memoryview:
        """Give the words."""
        return self.words

    def stop(self, word: Array) -> None:
        """Do nothing: a launch has ended when it returns."""


@cache
def _words(index: int) -> Words:
    return Words(index)


_CPU = Device("cpu", 0, np)
_known = {"cpu": _CPU, "python": Device("python", 0, np)}


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
        raise TypeError(f"a device is named by a string, not {shown(spec)}")
    if spec == "auto":
        try:
            return _cuda(0)
        except DeviceError:
            return _CPU
    if spec in _known:
        return _known[spec]
    kind, _, index = spec.partition(":")
    if kind != "cuda" or not (index.isdecimal() or spec == "cuda"):
        raise ValueError(f"no device {shown(spec)}; there are cpu, cuda, cuda:N, python and auto")
    return _cuda(int(index or 0))


def _cuda(index: int) -> Device:
    name = f"cuda:{index}"
    if name not in _known:
        if importlib.util.find_spec("cupy") is None:
            raise DeviceError(f"{name} needs CuPy: pip install 'morph-engine[gpu]'")
        try:
            cupy = importlib.import_module("cupy")
            count = cupy.cuda.runtime.getDeviceCount()
        except Exception as e:  # a broken install and a missing driver fail in many ways
            raise DeviceError(f"{name} does not answer: {e}") from e
        if index >= count:
            raise DeviceError(f"{name} does not exist: this machine has {count} GPU(s)")
        _known[name] = Device("cuda", index, cupy)
    return _known[name]


def _of_dlpack(x: Any) -> Any:
    """Give what is known by ``__dlpack__`` alone as an array over the same memory."""
    if not hasattr(x, "__dlpack__") or hasattr(x, "__array__"):
        return x
    if hasattr(x, "__array_interface__") or hasattr(x, "__cuda_array_interface__"):
        return x
    on_gpu = int(x.__dlpack_device__()[0]) in _DLPACK_CUDA
    return (importlib.import_module("cupy") if on_gpu else np).from_dlpack(x)


def _free_on_host() -> int | None:
    """Bytes that Linux can still give to this process, its control group's limit regarded."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(x.split()[1]) for x in lines if x.startswith("MemAvailable")) << 10
    except (OSError, StopIteration):
        return None
    with suppress(OSError, ValueError):  # no limit: the file is missing, or says "max"
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        cached = (group / "memory.stat").read_text().split()
        given_back = int(cached[cached.index("inactive_file") + 1])
        free = min(free, limit - used + given_back)
    return free


def is_host(x: Any) -> bool:
    """Whether an array lies in host memory."""
    return not hasattr(x, "__cuda_array_interface__")
