"""Copies of large host arrays: written in pieces by several threads, without temporary arrays."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from morph.runtime import threads
from morph.runtime.cpu.device import COPY_BY_THREADS
from morph.runtime.device import device

LARGE = COPY_BY_THREADS // 4 + 12345  # elements


@pytest.fixture
def ranges(monkeypatch):
    """The ranges of parts of all calls of `in_threads`, which has two threads."""
    monkeypatch.setattr(threads, "_limit", 2)
    monkeypatch.setattr(threads, "_free_cores", lambda: 2)
    found = []
    run = threads.run_calls

    def counted(functions, *others, **more):
        found.append(len(functions))
        return run(functions, *others, **more)

    monkeypatch.setattr(threads, "run_calls", counted)
    return found


@pytest.mark.parametrize("n", [0, 1, 1000, LARGE])
def test_values_are_replaced(ranges, n):
    x = np.arange(n, dtype=np.int32) % 100
    tracemalloc.start()
    try:
        made = device("cpu").replaced(x, 7, 2**62, np.int64)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert made.dtype == np.int64
    assert (made == np.where(x == 7, 2**62, x.astype(np.int64))).all()
    assert peak < 1.5 * made.nbytes + 10**6
    assert ranges == ([1] if n == LARGE else [])


def test_rows_are_replaced():
    x = np.array([[1, 7], [7, 2]], np.int32)
    assert device("cpu").replaced(x, 7, -1, np.int64).tolist() == [[1, -1], [-1, 2]]


@pytest.mark.parametrize("n", [0, 1000, LARGE])
def test_arrays_are_copied(ranges, n):
    x = np.arange(2 * n, dtype=np.int32)[::2]
    (made,) = device("cpu").copies(x)
    assert (made == x).all()
    assert made.base is None
    assert made.flags.c_contiguous
    assert ranges == ([1] if n == LARGE else [])


def test_arrays_are_filled(ranges):
    small, large = np.zeros(3, np.int8), np.zeros(LARGE, np.int32)
    device("cpu").put((small, 5), (large, 6))
    assert small.tolist() == [5, 5, 5]
    assert (large == 6).all()
    assert ranges == [1]
