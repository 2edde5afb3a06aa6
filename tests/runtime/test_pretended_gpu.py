"""The simulated GPU refuses what CuPy refuses."""

from __future__ import annotations

import numpy as np
import pretend
import pytest
from pretend import pretended

from morph.runtime import arrays

cupy = pytest.mark.skipif(pretend._cupy() is None, reason="CuPy, whose signatures are read")


def test_arrays_of_the_device_are_not_converted(monkeypatch):
    on = pretended(monkeypatch)
    x = on.asarray([3, 1, 2])
    for convert in (np.array, np.asarray, np.asanyarray, np.ascontiguousarray):
        with pytest.raises(TypeError, match="Implicit conversion"):
            convert(x)
    with pytest.raises(TypeError, match="__index__"):
        range(x[1])
    with pytest.raises(TypeError, match="__contains__"):
        assert 3 in x
    assert on.to_host(x).tolist() == x.tolist() == [3, 1, 2]


@cupy
@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x: xp.insert(x, 0, 1),
        lambda xp, x: xp.sort(x, kind="quicksort"),
        lambda xp, x: xp.lexsort((x, x)),
        lambda xp, x: xp.searchsorted(x, np.int64(2)),
        lambda xp, x: xp.add(x, 1, where=x > 1),
        lambda xp, x: xp.concatenate([x, [1]]),
        lambda xp, x: xp.sum(x, initial=1),
        lambda xp, x: x.sum(initial=1),
        lambda xp, x: x.resize(2),
    ],
)
def test_what_cupy_lacks(monkeypatch, call):
    on = pretended(monkeypatch)
    with pytest.raises((AttributeError, TypeError, ValueError, NotImplementedError)):
        call(on.xp, on.asarray([3, 1, 2]))


@cupy
def test_what_cupy_has(monkeypatch):
    on = pretended(monkeypatch)
    xp, x = on.xp, on.asarray([3, 1, 2])
    assert x[xp.argsort(x, kind="stable")].tolist() == xp.sort(x).tolist() == [1, 2, 3]
    assert xp.cumsum(x, out=xp.empty(3, np.int64)).tolist() == [3, 4, 6]
    assert int(x.sum(dtype=np.int32)) == 6 and float(x.mean()) == 2
    assert type(x.astype(np.int8, copy=False)) is pretend.There


@cupy
def test_reductions_are_simple_while_values_are_counted():
    class Xp:
        """CuPy, as far as it counts."""

        __name__, _core = "cupy", pretend._cupy()._core

        def bincount(self, x, minlength):
            if len(x) > 1:
                arrays.bincount(self, x[1:], minlength)
            assert self._core.get_reduction_accelerators() == []
            return np.bincount(x, minlength=minlength)

    before = Xp._core.get_reduction_accelerators()
    assert before and arrays.bincount(Xp(), [0, 2, 2], 4).tolist() == [1, 0, 2, 0]
    assert Xp._core.get_reduction_accelerators() == before
    assert arrays.bincount(np, [1], 3).tolist() == [0, 1, 0]
