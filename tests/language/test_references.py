"""References of tables outside graphs, to each other and to a graph's, on every target."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended
from small import points, rows, values
from targets import everywhere, tries

import morph
from morph import Ref, Table
from morph.data.collection import Collection
from morph.prelude import atomic_add, i64


def tables(target):
    """``a`` of four rows, and ``b`` whose rows refer to them."""
    a = Table("a", target, x=i64, hits=i64)
    a.extend(x=[10, 20, 30, 40])
    b = Table("b", target, at=Ref(a), got=i64)
    b.extend(at=[1, 3, -1, 1])
    return a, b


@morph.kernel
def follow(r):
    if r.at is not None:
        r.got = r.at.x
        atomic_add(r.at.hits, 1)


@morph.kernel
def swing(r, a):
    r.at = a[3 - r.id]


@morph.program
def follow_both_ways(a, b):
    morph.foreach(b, follow)
    morph.foreach(b, swing, a)
    morph.foreach(b, follow)


def test_kernels_follow_references(target):
    def run():
        a, b = tables(target)
        follow_both_ways(a, b)
        assert [r.at.id for r in b] == [3, 2, 1, 0] and b[0].at.x == 40
        return values(b, "got"), values(a, "hits")

    assert all(x == ([40, 30, 20, 10], [1, 3, 1, 2]) for x in everywhere(target, run))


@morph.kernel
def attach(b, a):
    made = a.new(x=100 + b.id)
    made.back = b
    b.at = made


@morph.kernel
def drop(r, x):
    if r.x == x:
        r.delete()


def test_tables_refer_to_each_other(target):
    a, b = tables(target)
    a.add("back", Ref(b))
    assert a._lock is b._lock
    morph.foreach(b, attach, a)
    assert [r.at.back.id for r in b] == [0, 1, 2, 3]
    assert {r.at.x for r in b} == {100, 101, 102, 103}
    morph.foreach(a, drop, 101)
    old = b[1].at
    assert old.dead and old.back.id == 1
    made = [a.new(x=0).id for _ in range(40)]
    assert old.id not in made  # a live row refers to it
    b[1].at = None
    for _ in range(100):
        made.append(a.new(x=0).id)
    assert old.id in made
    a.delete([0, 1])
    before = [r.at.x for r in b if r.at is not None]
    a.compact()
    assert [r.at.x for r in b if r.at is not None] == before and a[2].back.id == 0


@tries(15)
@given(st.data())
def test_compaction_follows_references(target, data):
    n = data.draw(st.integers(1, 12))
    a = Table("a", target, x=i64)
    a.extend(x=np.arange(n))
    b = Table("b", target, at=Ref(a)[2], first=Ref(a))
    ends = data.draw(st.lists(st.tuples(*[st.integers(-1, n - 1)] * 3), min_size=1, max_size=9))
    b.extend(at=[e[:2] for e in ends], first=[e[2] for e in ends])
    listed = Collection(a)
    listed.extend(list(range(n)))
    dead = data.draw(st.sets(st.integers(0, n - 1)))
    a.delete(sorted(dead))
    a.compact()

    def x(row):
        return None if row is None else int(row.x)

    want = [[None if i < 0 or i in dead else i for i in e] for e in ends]
    assert [[*map(x, r.at), x(r.first)] for r in b] == want
    assert [int(r.x) for r in listed] == [i for i in range(n) if i not in dead]


def test_a_table_that_refers_to_a_graph(target):
    g = points(target, x=i64)
    matches = Table("matches", target, at=Ref(g.points), got=i64)
    matches.extend(at=[3, 1, 0])
    assert matches._lock is g._lock and matches[0].at.out_degree == 1
    g.points.x[:] = [5, 6, 7, 8]

    def run():
        matches.got[:] = 0
        morph.foreach(matches, follow_points)
        return values(matches, "got")

    assert all(x == [8, 6, 10] for x in everywhere(target, run))
    g.points[2].delete()
    g.compact()
    assert values(matches, "at") == [2, 1, 0]


@morph.kernel
def follow_points(r):
    r.got = r.at.x * r.at.out_degree


def test_copies(target):
    a, b = tables(target)
    a.add("back", Ref(b))
    a[1].back = 3
    for made in (copy.deepcopy(b), pickle.loads(pickle.dumps(b))):
        other = made[0].at.table
        assert other is not a and made[0].at.x == 20 and other[1].back.table is made
        assert made._lock is other._lock and made._lock is not b._lock
        other.delete(0)
        other.compact()
        assert values(made, "at") == [0, 2, -1, 0] and values(b, "at") == [1, 3, -1, 1]
    same = copy.copy(b)
    assert same[0].at.table is a and same in a.dependents
    g = points(target)
    t = Table("t", target, at=Ref(g.points))
    t.extend(at=[2])
    deep = copy.deepcopy(t)
    assert deep[0].at.table.graph is not g and deep[0].at.in_degree == 2


def test_names_of_columns_stay_free():
    t = Table("t", "cpu", references=i64, renumbered=i64, at=Ref(rows("cpu", 1, x=i64)))
    t.extend(2, references=5)
    assert t[1].references == 5 and t[1].at is None


def test_what_is_refused():
    a, g, h = rows("cpu", 3, x=i64), points("cpu"), points("cpu")
    for make, message in (
        (lambda: Table("t", "cpu", p=Ref(g.points), q=Ref(h.points)), "two tables are named"),
        (lambda: Table("t", "cpu", p=Ref(g.points), q=Ref(h.edges)), "tables of one graph only"),
        (lambda: Table("t", "python", at=Ref(a)), "is on cpu, not on python"),
        (lambda: Table("rows", "cpu", at=Ref(a)), "two tables are named 'rows'"),
        (lambda: g.points.add("at", Ref(a)), "is not a table of the same graph"),
        (lambda: g.points.add("at", Ref(h.points)), "is not a table of the same graph"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            make()
    t = Table("t", "cpu", at=Ref(a))
    t.extend(1)
    with pytest.raises(TypeError, match="is not a row of"):
        t[0].at = g.points[0]
    with pytest.raises(ValueError, match="is not a row of"):
        t[0].at = 3


def test_on_arrays_that_are_not_the_hosts(monkeypatch):
    device = pretended(monkeypatch)
    test_kernels_follow_references(device)
    test_tables_refer_to_each_other(device)
    test_a_table_that_refers_to_a_graph(device)
