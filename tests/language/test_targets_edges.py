"""The edge of `g.weight(p, t)` in a loop over neighbours, also if t is assigned."""

from __future__ import annotations

import numpy as np
import pytest
from targets import everywhere, host

import morph
from morph.prelude import bool_, i64, vector

ENDS = [(0, 1), (0, 1), (0, 2), (0, 1), (1, 2), (1, 2), (1, 0), (1, 0), (2, 2), (2, 2)]
N = 3


def first(p, q):
    """The weight of the first edge, as where none is meant."""
    return weight(ENDS.index((p, q))) if (p, q) in ENDS else 2**31 - 1


def weight(k):
    return 10 + k * 7


# --- t is still what the loop bound it to ---------------------------------------------------------


@morph.kernel
def writes_a_column(p, g):
    for t in p.outnbrs:
        p.h = p.h * 3 + g.weight(p, t)
        t.seen = True  # race: the same value
        t.xy.x = 5  # race: the same value
        t.xy[1] += 1  # race: only `t` counts here


@morph.kernel
def writes_in_a_while(p, g):
    for t in p.outnbrs:
        k = 0
        while k < 1 and g.weight(p, t) > 0:
            t.seen = True  # race: the same value
            p.h = p.h * 3 + g.weight(p, t)
            k += 1


@morph.kernel
def assigns_later(p, g):
    for t in p.outnbrs:
        p.h = p.h * 3 + g.weight(p, t)
        t = p
        t.seen = True


@morph.kernel
def assigns_and_goes_on(p, g):
    for t in p.outnbrs:
        if g.weight(p, t) == 17:
            p.h = p.h * 3 + 17
            t = p
            continue
        p.h = p.h * 3 + g.weight(p, t)


@morph.kernel
def loops_inside(p, g):
    for t in p.outnbrs:
        for s in t.outnbrs:
            s.seen = True  # race: the same value
            if g.weight(t, s) > 10**6:
                p.h = -1
        p.h = p.h * 3 + g.weight(p, t)


@morph.kernel
def changes_only(p, g):
    for t in p.outnbrs:
        g.edge(p, t).found = True
        t.seen = True  # race: the same value


OWN = [
    writes_a_column, writes_in_a_while, assigns_later, assigns_and_goes_on, loops_inside
]  # fmt: skip


# --- t has become another -------------------------------------------------------------------------


@morph.kernel
def assigns_first(p, g):
    for t in p.outnbrs:
        t = p.mate
        p.h = p.h * 3 + g.weight(p, t)


@morph.kernel
def assigns_in_a_while(p, g):
    for t in p.outnbrs:
        k = 0
        while k < 1:
            t = p.mate
            k += 1
        p.h = p.h * 3 + g.weight(p, t)


@morph.kernel
def assigns_before_the_while_asks(p, g):
    for t in p.outnbrs:
        k, w = 0, 0
        while k < 2:
            w = g.weight(p, t)
            t = p.mate
            k += 1
        p.h = p.h * 3 + w


@morph.kernel
def assigns_in_a_branch(p, g):
    for t in p.outnbrs:
        if p.id >= 0:
            t = p.mate
        p.h = p.h * 3 + g.weight(p, t)


@morph.kernel
def binds_again(p, g):
    for t in p.outnbrs:
        near = g.points.local(1)
        near.add(p.mate)
        for t in near:
            p.h += 0 * g.weight(p, t)
        p.h = p.h * 3 + g.weight(p, t)


@morph.kernel
def binds_again_elsewhere(p, g):
    for t in p.outnbrs:
        for t in p.mate.innbrs:
            p.h += 0 * g.weight(p, t)
        t = p.mate
        p.h = p.h * 3 + g.weight(p, t)


FIRST = [
    assigns_first, assigns_in_a_while, assigns_before_the_while_asks, assigns_in_a_branch,
    binds_again, binds_again_elsewhere,
]  # fmt: skip


@morph.kernel
def moves_on(p, g):
    at = g.points[p.id]
    for t in at.outnbrs:
        p.h = p.h * 3 + g.weight(at, t)  # at is another point from the second time on
        at = p.mate


def run(target, kernel):
    g = morph.Graph.from_edges(
        *np.array(ENDS, np.int32).T, weight=np.array([weight(k) for k in range(len(ENDS))], "i4"),
        n=N, device=target,
    )  # fmt: skip
    g.points.add("h", i64)
    g.points.add("seen", bool_)
    g.points.add("xy", morph.vec(i64, 2))
    g.points.add("mate", morph.Ref("points"))
    g.points.mate[:] = [1, 2, 2]
    g.edges.add("found", bool_)
    morph.foreach(g.points, kernel, g)
    return host(g.points.h).tolist(), host(g.edges.found).tolist()


def fold(weights):
    h = 0
    for w in weights:
        h = h * 3 + w
    return h


@pytest.mark.parametrize("kernel", OWN, ids=lambda k: k.__name__)
def test_a_neighbour_remembers_its_edge(target, kernel):
    want = [fold(weight(k) for k, (a, _) in enumerate(ENDS) if a == p) for p in range(N)]
    assert all(h == want for h, _ in everywhere(target, lambda: run(target, kernel)))
    assert "find_edge" not in kernel.source()


def test_all_edges_are_met(target):
    assert all(all(found) for _, found in everywhere(target, lambda: run(target, changes_only)))


@pytest.mark.parametrize("kernel", FIRST, ids=lambda k: k.__name__)
def test_another_point_has_an_edge_of_its_own(target, kernel):
    degree = [sum(a == p for a, _ in ENDS) for p in range(N)]
    want = [fold([first(p, m)] * degree[p]) for p, m in zip(range(N), [1, 2, 2], strict=True)]
    assert all(h == want for h, _ in everywhere(target, lambda: run(target, kernel)))


def test_from_another_point_it_is_another_edge(target):
    def of(p, mate):
        ends = [b for a, b in ENDS if a == p]
        return fold([first(p if i == 0 else mate, b) for i, b in enumerate(ends)])

    want = [of(p, m) for p, m in zip(range(N), [1, 2, 2], strict=True)]
    assert all(h == want for h, _ in everywhere(target, lambda: run(target, moves_on)))


@morph.kernel
def changes_a_vector(r):
    v = vector(1, 2, 3)
    for x in v:  # over what it was
        r.h = r.h * 10 + x
        v.z = 7
        v[1] += 5


def test_a_vector_is_a_value(target):
    def run():
        rows = morph.Table("rows", target, h=i64)
        rows.extend(2)
        morph.foreach(rows, changes_a_vector)
        return host(rows.h).tolist()

    assert all(got == [123, 123] for got in everywhere(target, run))
