"""Public calls on a GPU process arrays without kernels that CuPy compiles on first use."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import pretend
import pytest
from pretend import pretended

import morph
from morph.runtime import arrays
from morph.runtime.cuda.device import CudaDevice
from morph.runtime.device import _known
from morph.testing import team

# of arrays: what needs no kernel, or a copy of memory
FREE = {
    "asarray", "ascontiguousarray", "copy", "empty", "get", "item", "ravel", "reshape", "set",
    "tolist", "transpose", "view", "zeros",
}  # fmt: skip


def _mesh() -> morph.Mesh:
    return morph.triangulate(np.random.default_rng(0).random((60, 2)), device="cpu")


def _edges(weight: bool) -> tuple[Any, ...]:
    rng = np.random.default_rng(1)
    ends = rng.integers(0, 40, (2, 300))
    return (*ends, rng.integers(1, 9, 300)) if weight else tuple(ends)


CALLS = {
    "refine": lambda device: morph.refine(_mesh(), 25, device=device).points,
    "bfs": lambda device: morph.bfs(morph.Graph.from_edges(*_edges(False), device=device)).distance,
    "sssp with predecessors": lambda device: (
        morph.sssp(
            morph.Graph.from_edges(*_edges(True), device=device), predecessors=True
        ).predecessor
    ),
    "sssp": lambda device: (
        morph.sssp(morph.Graph.from_edges(*_edges(True), device=device)).distance
    ),
    "sat": lambda device: (
        morph.survey.solve(morph.generate.random_ksat(3, 2000, 4.0), device=device).model
    ),
    "sat by search": lambda device: (
        morph.survey.solve(morph.generate.random_ksat(3, 400, 4.15), device=device).model
    ),
}


@pytest.fixture
def operations(monkeypatch):
    """List operations on arrays of the device that stands for a GPU, with their lines."""
    seen: list[str] = []

    def note(what: str) -> None:
        frame = sys._getframe(2)
        while "morph" not in frame.f_globals.get("__name__", "").split(".")[0]:
            frame = frame.f_back
        seen.append(f"{what} at {frame.f_globals['__name__']}:{frame.f_lineno}")

    def noting(name: str, call: Any, free: Any = lambda *args: False) -> Any:
        def noted(*args: Any, **options: Any) -> Any:
            made = call(*args, **options)
            if not free(*args) and getattr(made, "size", 1):
                note(name)
            return made

        return noted

    def simple(x: Any, key: Any, *value: Any) -> bool:
        keys = key if isinstance(key, tuple) else (key,)
        return not any(isinstance(k, list) or isinstance(k, np.ndarray) and k.ndim for k in keys)

    there, module = pretend.There, pretend.Module
    method, function = there.__getattribute__, module.__getattr__

    def get_method(x: Any, name: str) -> Any:
        found = method(x, name)
        free = name.startswith("_") or name in FREE or not callable(found)
        return found if free else noting(f".{name}", found)

    def get_function(x: Any, name: str) -> Any:
        found = function(x, name)
        return found if isinstance(found, type) or name in FREE else noting(name, found)

    monkeypatch.setattr(there, "__array_ufunc__", noting("ufunc", there.__array_ufunc__))
    monkeypatch.setattr(there, "__getitem__", noting("x[...]", there.__getitem__, simple))
    monkeypatch.setattr(there, "__setitem__", noting("x[...] =", there.__setitem__))
    monkeypatch.setattr(there, "__getattribute__", get_method)
    monkeypatch.setattr(module, "__getattr__", get_function)
    return seen


@pytest.mark.parametrize("name", CALLS)
def test_no_operation_on_arrays(monkeypatch, operations, name):
    """CuPy would compile a kernel for each, 0.1 s one after the other."""
    monkeypatch.setattr(pretend.Pretended, "host_array_limit", CudaDevice.host_array_limit)
    device = pretended(monkeypatch)
    monkeypatch.setitem(_known, device.name, device)
    with team(1):  # the points of a refined mesh depend on the order of threads
        want = np.asarray(CALLS[name]("cpu"))
        operations.clear()
        found = CALLS[name](device)
    assert operations == []
    assert device.to_host(found).shape == want.shape
    if name != "sat":
        assert (device.to_host(found) == want).all()


def test_few_edges_of_many_points_are_prepared_on_the_gpu(monkeypatch, operations):
    monkeypatch.setattr(pretend.Pretended, "host_array_limit", 4)
    device, wanted = pretended(monkeypatch), []
    for n in (63, 64):
        for src in ([0, 2], [2, 0]):
            operations.clear()
            g = morph.Graph.from_edges(src, [1, 1], np.array([5, 7]), n=n, device=device)
            assert bool(operations) == (n == 64), operations
            wanted.append([device.to_host(x.array).tolist() for x in (g.edges.src, g.edges.weight)])
            assert len(g.points) == n
    assert wanted == [[[0, 2], [5, 7]], [[0, 2], [7, 5]]] * 2


@pytest.mark.gpu
@pytest.mark.parametrize("name", CALLS)
def test_cupy_compiles_nothing(monkeypatch, name):
    cupy, asked = arrays.import_cupy(), []
    compiler = importlib.import_module("cupy.cuda.compiler")
    compile_source = compiler._compile_with_cache_cuda

    def noted(source: str, *args: Any, **options: Any) -> Any:
        asked.append(source)
        return compile_source(source, *args, **options)

    monkeypatch.setattr(compiler, "_compile_with_cache_cuda", noted)
    cupy.clear_memo()
    CALLS[name]("cuda")
    assert asked == []
    compiled = f"added_{name.replace(' ', '_')}"
    cupy.ElementwiseKernel("T x", "T y", "y = x + 7", compiled)(cupy.arange(7))
    assert asked  # else this function is not where CuPy compiles


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint16, np.float32, np.int64, np.float64])
def test_writes(dtype):
    """One value, a row of values, arrays: to contiguous and to strided places."""
    on, rng = morph.device("cuda"), np.random.default_rng(0)
    for shape in ((1000,), (1000, 3)):
        values = rng.integers(0, 2, shape).astype(dtype)
        for step in (1, 2):
            for given in (values, values[0], values[:1][0], dtype(1), on.asarray(values)):
                want = np.zeros((1000 * step, *shape[1:]), dtype)
                made = on.asarray(want)
                want[::step] = on.to_host(given) if given is not values else values
                on.write(made[::step], given)
                assert (on.to_host(made) == want).all()
                assert (on.to_host(made[::step]) == want[::step]).all()
                turned = on.empty((1000, 2, *shape[1:]), dtype)
                on.write(turned[:, 1], made[::step])
                assert (on.to_host(turned)[:, 1] == want[::step]).all()
    assert on.to_host(on.full((3, 2), 7, np.int32)).tolist() == [[7, 7]] * 3


@pytest.mark.gpu
def test_writes_that_cupy_makes():
    on = morph.device("cuda")
    x = on.asarray(np.arange(10))
    on.write(x[1:], x[:-1])  # the same memory
    assert on.to_host(x).tolist() == [0, *range(9)]
    on.write(x, on.asarray(np.arange(10, dtype=np.int32)))
    assert on.to_host(x).tolist() == list(range(10))
    with pytest.raises(ValueError, match="shape"):
        on.write(x, np.arange(3))


@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_replaced(where):
    on = morph.device(where)
    for x in (np.array([3, -1, 5, -1], np.int32), np.array([[7, -1]], np.int64), np.empty(0, "i4")):
        made = on.to_host(on.replaced(on.asarray(x), -1, 2**63 - 1, np.int64))
        assert made.dtype == np.int64
        assert made.tolist() == np.where(x == -1, 2**63 - 1, x.astype(np.int64)).tolist()
