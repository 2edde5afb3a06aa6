"""A simulated GPU: its arrays lie on the host, and cannot be mixed with NumPy arrays.

What CuPy refuses, or answers slowly by a copy, raises here: an operation on an array of the device
and one of the host; a conversion by `numpy.asarray`; where CuPy is installed, what it lacks of
NumPy.  Kernels are those of the CPU.  So what the host does with a GPU's arrays is tested where
there is none.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import re
import shutil
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from morph.data import conversion
from morph.launch import scratch
from morph.mesh import arrays as mesh_arrays
from morph.operators import values as operands
from morph.runtime import arrays
from morph.runtime.backend import IOTA
from morph.runtime.cpu import launch as cpu
from morph.runtime.cpu.device import ALIGN, HostDevice
from morph.runtime.cuda.device import CudaDevice
from morph.runtime.cuda.small_copies import one_dimensional


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


@cache
def _cupy() -> Any:
    """CuPy, which imports without a GPU, or None."""
    return importlib.import_module("cupy") if importlib.util.find_spec("cupy") else None


@cache
def _signature(name: str) -> inspect.Signature | None:
    """The signature of CuPy's function, None if it has none; an error if CuPy lacks it."""
    function = getattr(_cupy(), name)
    if isinstance(function, _cupy().ufunc):
        arrays = ", ".join(f"x{i}" for i in range(function.nin))
        return _parsed(f"{arrays}, /, out=None, *, casting=None, dtype=None")
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


@cache
def _method_signature(name: str) -> inspect.Signature | None:
    """How CuPy's method is called, by the first line of its description."""
    method = getattr(_cupy().ndarray, name)  # an error if there is none
    found = re.match(r"\w+\.\w+\((.*)\)", (method.__doc__ or "").partition("\n")[0])
    return None if found is None else _parsed(re.sub(r"\b(?:int|bool) (?=\w)", "", found[1]))


def _parsed(parameters: str) -> inspect.Signature:
    made: dict[str, Any] = {}
    exec(f"def f({parameters}): ...", made)
    return inspect.signature(made["f"])


def _check_call(name: str, args: Any, kwargs: Any) -> None:
    """Refuse what CuPy's function of this name does not take."""
    if _cupy() is None:
        return
    if (signature := _signature(name)) is not None:
        signature.bind(*args, **kwargs)
    if name in ("sort", "argsort") and kwargs.get("kind") not in (None, "stable"):
        raise ValueError(f"cupy.{name} takes no kind {kwargs['kind']!r}")
    arrays = {"lexsort": args[:1], "searchsorted": args[:1], "bincount": args[:1]}.get(name, ())
    if not all(type(x) is There for x in arrays):
        raise TypeError(f"cupy.{name} takes an array of the device, not {type(args[0]).__name__}")
    if name == "searchsorted" and not isinstance(args[1], (There, int, float)):
        raise NotImplementedError(f"cupy.searchsorted takes no {type(args[1]).__name__}")
    if name == "concatenate" and not all(type(x) is There for x in args[0]):
        raise TypeError("cupy.concatenate takes arrays of the device")


class There(np.ndarray):
    """An array of the device."""

    def __getattribute__(self, name: str) -> Any:
        known = super().__getattribute__(name)
        if name.startswith("_") or name in ("get", "set", "device", "view") or _cupy() is None:
            return known
        if not callable(known):
            getattr(_cupy().ndarray, name)
            return known
        signature = _method_signature(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            _check(args)
            if signature is not None:
                signature.bind(self, *args, **kwargs)
            out = kwargs.get("out")
            plain = {k: _plain(v) for k, v in kwargs.items()}
            made = _there(getattr(_plain(self), name)(*_plain(args), **plain))
            return made if out is None else out

        return call

    def __index__(self) -> int:
        raise TypeError("cupy.ndarray has no __index__")

    def __contains__(self, x: Any) -> bool:
        raise TypeError("cupy.ndarray has no __contains__")

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
        if method == "__call__":
            _check_call(ufunc.__name__, inputs, options)
        elif _cupy() is not None:
            getattr(getattr(_cupy(), ufunc.__name__), method)
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
            _check_call(name, args, kwargs)
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

    def asarrays(self, *given: Any) -> list[Any]:
        return [self.asarray(x) for x in given]

    def copy(self, x: Any) -> Any:
        return self.xp.array(x)

    def extremes(self, *arrays: Any) -> list[tuple[Any, Any]]:
        return super().extremes(*map(_plain, arrays))

    def write(self, array: Any, values: Any) -> None:
        """Write as a GPU does: by `put` where that can, else by an operation on arrays."""
        if type(values) is not There:
            values = np.asarray(values, array.dtype)
        if array.dtype == values.dtype and one_dimensional(array, values) is not None:
            array.view(np.ndarray)[...] = values.view(np.ndarray)
        else:
            super().write(array, values)

    def full(self, shape: Any, value: Any, dtype: Any) -> Any:
        made = self.empty(shape, dtype)
        self.write(made, value)
        return made

    def replaced(self, x: Any, old: int, new: int, dtype: Any) -> Any:
        x = x.view(np.ndarray)
        return np.where(x == old, np.dtype(dtype).type(new), x).view(There)

    def put(self, *writes: Any) -> None:
        for array, values in writes:
            assert type(array) is There and array.ndim == 1
            values = np.arange(array.size) if values is IOTA else _plain(values)
            array.view(np.ndarray)[:] = values

    def prepared(self, writes: Any, seeds: Any = None) -> Any:
        return Prepared(self, writes, seeds)

    def load(self, code: Any, faults: bool, seed: int) -> Any:
        """Load a copy of the library: the CPU may run the unit at the same time."""
        defines = ("MORPH_FAULTS",) * faults
        library = cpu.build(code.outline, code.text, code.rebuilt, defines, teams=True)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(shutil.copy(library, folder))
            launch = cpu.HostLaunch(path, code.entry, interruptible=True)
        return Launch(launch, code.fields, self)

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

    def write(self, rows: Any, copies: Any, counters: Any) -> None:
        self.on.put(*self.writes)
        if self.seeds is not None:
            meta, item, beside, columns = self.seeds
            k = len(rows)
            self.on.put((meta, counters), (item[:k], rows), *((a[:k], x) for a, x in beside))
            self.on.put(*((a[row : row + 1], x) for a, x in columns for row in (*rows, *copies)))


class Launch:
    """A launch that knows, as a GPU's does, how many threads it can have."""

    threads = 64

    def __init__(self, launch: cpu.HostLaunch, fields: Any, on: Pretended) -> None:
        self.launch, self.on = launch, on
        self.replay = [f.kind for f in fields].index("replay")

    def __call__(self, words: Any, items: int, alone: bool = False) -> None:
        """Run the unit on the CPU, which wants its state cleared."""
        if not words[self.replay]:
            scratch.scratch(self.on).results.view(np.ndarray)[scratch.STATUS_WORDS :] = 0
        self.launch(words, items)

    def bound(self, words: Any, items: int, alone: bool = False) -> Any:
        return partial(self, words, items, alone)


def refusing(convert: Any) -> Any:
    """NumPy's function that converts to an array, but not those of the device, as CuPy has it."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        if type(x) is There:
            raise TypeError("Implicit conversion to a NumPy array is not allowed")
        return convert(x, *args, **kwargs)

    return call


def pretended(monkeypatch: Any, index: int = 7) -> Pretended:
    """Give the device, whose kernels are compiled for the CPU."""
    device = Pretended(index)
    for name in ("array", "asarray", "asanyarray", "ascontiguousarray"):
        monkeypatch.setattr(np, name, refusing(getattr(np, name)))
    monkeypatch.setitem(scratch._scratch, device.name, scratch.Scratch(device))
    fetch = arrays._fetch

    def fetched(x: Any, out: Any = None) -> Any:
        if type(x[...]) is not There:
            return fetch(x, out)
        if out is None:
            return x.get()
        assert out.flags.c_contiguous and (out.shape, out.dtype) == (x.shape, x.dtype)
        out[...] = x.get()
        return out

    monkeypatch.setattr(arrays, "_fetch", fetched)
    monkeypatch.setattr(arrays, "_fetch_all", lambda *given: list(map(fetched, *given)))
    known = operands.device_of
    for module in (operands, mesh_arrays, conversion):
        monkeypatch.setattr(module, "device_of", lambda x: device if type(x) is There else known(x))
    return device
