"""A simulated GPU array type on NumPy that rejects implicit transfers as CuPy does."""

from __future__ import annotations

import inspect
import types
from contextlib import nullcontext

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


class Gpu(nullcontext):
    """The device of the arrays, which a `with` statement makes the current one."""

    id = 0


class Far(NDArrayOperatorsMixin):
    """An array that lies elsewhere: it mixes with its like and with numbers alone."""

    __cuda_array_interface__ = {"version": 3}
    device = Gpu()

    def __init__(self, array):
        self.here = array

    def get(self):
        return self.here.copy()

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        if "out" in options:
            options["out"] = tuple(near(x) for x in options["out"])
        return far(getattr(ufunc, method)(*map(near, inputs), **options))

    def __getitem__(self, key):
        return far(self.here[near(key)])

    def __setitem__(self, key, value):
        self.here[near(key)] = near(value)

    def __len__(self):
        return len(self.here)

    def __iter__(self):
        return map(far, self.here)

    def __int__(self):
        return int(self.here)

    def __bool__(self):
        return bool(self.here)

    def __getattr__(self, name):
        found = getattr(self.here, name)
        if not callable(found):
            return far(found)
        return lambda *args, **options: far(found(*map(near, args), **options))


def far(x):
    if isinstance(x, tuple):  # as of nonzero
        return tuple(map(far, x))
    return Far(np.asarray(x)) if isinstance(x, np.ndarray | np.generic) else x


def near(x):
    if isinstance(x, Far):
        return x.here
    if isinstance(x, np.ndarray) and x.ndim:
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(x, tuple | list):
        return type(x)(map(near, x))
    return x


class Module:
    """``cupy`` in name; every function that it has must be CuPy's, called as CuPy's are."""

    __name__ = "cupy"
    cuda = types.SimpleNamespace(
        Device=lambda index: nullcontext(), runtime=types.SimpleNamespace(getDevice=lambda: 0)
    )

    def __init__(self):
        try:
            import cupy
        except ImportError:
            cupy = None
        self._cupy = cupy

    def __getattr__(self, name):
        function = getattr(np, name)

        def call(*args, **options):
            real = getattr(self._cupy, name) if self._cupy else None
            if inspect.isfunction(real):
                inspect.signature(real).bind(*args, **options)
            if name in ("asarray", "ascontiguousarray"):
                args = (args[0].here if isinstance(args[0], Far) else args[0], *args[1:])
                return far(function(*args, **options))
            return far(function(*map(near, args), **options))

        return call
