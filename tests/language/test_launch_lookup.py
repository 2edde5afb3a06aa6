"""Calls with other objects never run with the objects of an earlier call."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import morph
from morph.data import store
from morph.launch.slots import layouts
from morph.prelude import i32

FRESH = """import morph, test_launch_lookup
a, b = (test_launch_lookup.numbers(name, "cpu", [0] * 4) for name in "ab")
morph.foreach(a, test_launch_lookup.number, a)
morph.foreach(a, test_launch_lookup.number, b)
assert a.layout == b.layout == 0
assert b.x.array.tolist() == [1, 2, 3, 4]
"""


def numbers(name, device, values):
    table = morph.Table(name, device, x=i32, found=i32)
    table.extend(len(values), x=values)
    return table


@morph.kernel
def number(p, t):
    q = t[p.id]
    q.x = p.id + 1


@morph.kernel
def mark(p):
    p.found = 1


def test_one_object_twice_and_two_objects_differ():
    """In a new process, where the number of a layout may be a position among the objects."""
    folder = os.path.dirname(__file__)
    path = os.pathsep.join([folder, *sys.path])
    subprocess.run(
        [sys.executable, "-c", FRESH], check=True, env={**os.environ, "PYTHONPATH": path}
    )
    a, b = (numbers(name, "cpu", [0]) for name in "ab")
    tables = [numbers("t", "cpu", [0]) for _ in range(a.layout + 1)]
    assert layouts([*tables, a, a])[1] != layouts([*tables, a, b])[1]
    assert layouts([*tables, a, tables[a.layout]])[1] != layouts([*tables, a, b])[1]


def test_forgotten_layouts_get_new_numbers(monkeypatch):
    """The numbers of layouts take bounded memory, and none is given to two of them."""
    monkeypatch.setattr(store, "MOST_LAYOUTS", 8)
    a = numbers("a", "cpu", [0] * 4)
    before = a.layout
    others = [morph.Table("t", "cpu", **{f"x{i}": i32}) for i in range(20)]
    seen = {t.layout for t in others}
    assert len(seen) == 20 and before not in seen and len(store._layouts) <= 8
    b = numbers("b", "cpu", [0] * 4)
    assert a.layout == before != b.layout and b.layout == numbers("c", "cpu", [0]).layout
    for table in a, b:
        morph.foreach(table, number, table)
        assert table.x.array.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("device", ["cpu", "python"])
def test_a_filter_keeps_the_table_that_it_captures(device):
    limits, others = numbers("limits", device, [1, 200, 3]), numbers("others", device, [10, 20, 30])
    for table, want in (limits, [1, 1, 1]), (others, [1, 0, 1]):
        morph.foreach(table, mark, where=lambda p: p.x >= limits[p.id].x)
        assert table.found.array.tolist() == want


@pytest.mark.parametrize("device", ["cpu", "python"])
def test_a_kernel_keeps_the_table_that_it_captures(device):
    source, other = numbers("source", device, [1, 2, 3]), numbers("other", device, [4, 5, 6])

    @morph.kernel
    def copy(p, t):
        q = t[p.id]
        q.found = source[p.id].x

    for table in source, other:
        morph.foreach(table, copy, table)
        assert table.found.array.tolist() == [1, 2, 3]
