"""A device that pretends to be a GPU: its arrays lie on the host, but take no others beside them.

What CuPy refuses, or answers slowly by a copy, raises here: an operation on an array of the device
and one of the host.  Kernels are those of the CPU.  So what the host does with a GPU's arrays is
tested where there is none.
"""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import tempfile
from typing import Any

import numpy as np

from morph.compiler.codegen.unit import entry
from morph.compiler.ir import abi
from morph.launch import scratch
from morph.operators import values as operands
from morph.runtime.backend import IOTA
from morph.runtime.cpu import launch as cpu
from morph.runtime.cpu.device import ALIGN, HostDevice
from morph.runtime.cuda.device import CudaDevice


def _check(x: Any) -> None:
    """Refuse arrays of the host, but for single values."""
    if isinstance(x, (tuple, list)):
        for part in x:
            _check(part)
    elif isinstance(x, np.ndarray) and not isinstance(x, There) and x.ndim:
        raise TypeError("an array of the host meets one of the device")


def _plain(x: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return type(x)(_plain(part) for part in x)
    return x.view(np.ndarray) if isinstance(x, There) else x


def _there(x: Any) -> Any:
    if isinstance(x, (tuple, list)) and any(isinstance(part, np.ndarray) for part in x):
        return type(x)(map(_there, x))
    return np.asarray(x).view(There) if isinstance(x, (np.ndarray, np.generic)) else x


class There(np.ndarray):
    """An array of the device."""

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.__array_interface__

    @property
    def device(self) -> Any:
        return contextlib.nullcontext()

    def get(self) -> np.ndarray:
        return np.array(self.view(np.ndarray))

    def set(self, values: np.ndarray) -> None:
        assert type(values) is np.ndarray and values.dtype == self.dtype
        assert values.shape == self.shape and self.flags.c_contiguous
        self.view(np.ndarray)[...] = values

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        _check(inputs)
        out = options.pop("out", None)
        if out is not None:
            options["out"] = _plain(out)
        made = _there(getattr(ufunc, method)(*_plain(inputs), **options))
        return made if out is None else out[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise TypeError(f"numpy.{function.__name__} got an array of the device")

    def __getitem__(self, key: Any) -> Any:
        _check(key)
        values, key = self.view(np.ndarray), _plain(key)
        at = key if isinstance(key, tuple) else (key,)
        single = all(isinstance(i, (int, np.integer)) for i in at)
        return _there(values[(*at, ...) if single else key])  # a view, of a single value, too

    def __setitem__(self, key: Any, value: Any) -> None:
        _check(key), _check(value)
        self.view(np.ndarray)[_plain(key)] = _plain(value)


class Module:
    """NumPy's functions, for arrays of the device."""

    ndarray = There

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        if isinstance(function, type):
            return function

        def call(*args: Any, **kwargs: Any) -> Any:
            if name not in ("asarray", "array"):
                _check(args)
            out = kwargs.pop("out", None)
            if out is not None:
                kwargs["out"] = _plain(out)
            made = _there(function(*_plain(args), **{k: _plain(v) for k, v in kwargs.items()}))
            return made if out is None else out

        return call


class Pretended(HostDevice):
    """The device."""

    on_host = False
    local_limit, bulk = CudaDevice.local_limit, CudaDevice.bulk
    serial_items, throughput = CudaDevice.serial_items, CudaDevice.throughput

    def __init__(self, index: int) -> None:
        super().__init__("cuda", index, Module())

    def buffer(self, nbytes: int) -> Any:
        raw = np.zeros(nbytes + ALIGN, np.uint8)
        start = -raw.__array_interface__["data"][0] % ALIGN
        return raw[start : start + nbytes].view(There)

    def asarray(self, x: Any, dtype: Any = None) -> Any:
        return self.xp.asarray(x, dtype)

    def copy(self, x: Any) -> Any:
        return self.xp.array(x)

    def put(self, *writes: Any) -> None:
        for array, values in writes:
            assert type(array) is There and array.ndim == 1
            values = np.arange(array.size) if values is IOTA else _plain(values)
            array.view(np.ndarray)[:] = values

    def prepared(self, writes: Any, seeds: Any = None) -> Any:
        return Prepared(self, writes, seeds)

    def load(self, unit: Any, code: Any, faults: bool, seed: int) -> Any:
        """Load a copy of the library: the CPU may run the unit at the same time."""
        library = cpu.load(unit, code.text, faults)._library
        with tempfile.TemporaryDirectory() as folder:
            path = shutil.copy(library._name, folder)
            launch = cpu.HostLaunch(ctypes.PyDLL(path), entry(unit), interruptible=True)
        return Launch(launch, unit, self)

    def report(self, values: Any) -> Any:
        return super().report(values.view(np.ndarray))

    def free(self) -> None:
        return None

    def strided(self, buffer: Any, offset: int, shape: Any, dtype: Any, strides: Any) -> Any:
        return super().strided(buffer.view(np.ndarray), offset, shape, dtype, strides).view(There)


class Prepared:
    """What makes the same writes again and again."""

    fits, most = True, 4

    def __init__(self, on: Pretended, writes: Any, seeds: Any) -> None:
        self.on, self.writes, self.seeds = on, writes, seeds

    def write(self, rows: Any, counters: Any) -> None:
        self.on.put(*self.writes)
        if self.seeds is not None:
            meta, item, beside, columns = self.seeds
            k = len(rows)
            self.on.put((meta, counters), (item[:k], rows), *((a[:k], x) for a, x in beside))
            self.on.put(*((a[row : row + 1], x) for a, x in columns for row in rows.tolist()))


class Launch:
    """A launch that knows, as a GPU's does, how many threads it can have."""

    threads = 64

    def __init__(self, launch: cpu.HostLaunch, unit: Any, on: Pretended) -> None:
        self.launch, self.on = launch, on
        self.replay = [f.kind for f in abi.fields(unit)].index("replay")

    def __call__(self, words: Any, items: int, alone: bool = False) -> None:
        """Run the unit on the CPU, which wants its state cleared."""
        if not words[self.replay]:
            scratch.scratch(self.on).results.view(np.ndarray)[scratch.STATUS :] = 0
        self.launch(words, items)


def pretended(monkeypatch: Any, index: int = 7) -> Pretended:
    """Give the device, whose kernels are compiled for the CPU."""
    device = Pretended(index)
    monkeypatch.setitem(scratch._scratch, device.name, scratch.Scratch(device))
    known = operands.device_of
    monkeypatch.setattr(operands, "device_of", lambda x: device if type(x) is There else known(x))
    return device
