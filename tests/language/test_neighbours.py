"""Neighbours by position and by membership, bulk additions, and whole rows, on every target."""

from __future__ import annotations

import numpy as np
import pytest
from small import rows, values
from targets import everywhere, table

import morph
from morph.prelude import i32, i64, local

EDGES = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 0), (2, 0), (0, 1)]


def graph(target, directed=True, **columns):
    src, dst = np.array(EDGES).T
    g = morph.Graph.from_edges(
        src, dst, weight=np.arange(len(src)), n=5, device=target,
        directed=directed, symmetrize=not directed,
    )  # fmt: skip
    for name, kind in columns.items():
        g.points.add(name, kind)
    return g


@morph.kernel
def ask(p, g):
    for q in g.points:
        p.out += i64(q in p.outnbrs) << i64(q.id)
        p.into += i64(q in p.innbrs) << i64(q.id)
        p.any += i64(q in p.nbrs) << i64(q.id)
        p.no += i64(not (q not in p.outnbrs)) << i64(q.id)
    if None in p.innbrs or None in p.nbrs:
        p.out = -1


@pytest.mark.parametrize("directed", [True, False])
def test_membership_among_neighbours(target, directed):
    def run():
        g = graph(target, directed, out=i64, into=i64, any=i64, no=i64)
        morph.foreach(g.points, ask, g)
        return [values(g.points, name) for name in ("out", "into", "any", "no")]

    pairs = EDGES if directed else EDGES + [(b, a) for a, b in EDGES]
    out = [sum({1 << b for a, b in pairs if a == p}) for p in range(5)]
    into = [sum({1 << a for a, b in pairs if b == p}) for p in range(5)]
    both = [a | b for a, b in zip(out, into, strict=True)]
    assert all(found == [out, into, both, out] for found in everywhere(target, run))


@morph.kernel
def pick(p, g, n):
    for i in range(-1, n):
        t, e, back = p.outnbrs[i], p.outedges[i], p.nbrs[i]
        p.near = p.near * 7 + (0 if t is None else t.id + 1)
        p.edge = p.edge * 9 + (0 if e is None else e.id + 1)
        p.any = p.any * 7 + (0 if back is None else back.id + 1)
    if p.outnbrs[0] is not None and p.innbrs[1] is not None:
        p.first = p.outnbrs[0].outnbrs[0].id


def test_a_neighbour_at_a_position(target):
    def run():
        g = graph(target, near=i64, edge=i64, any=i64, first=i64)
        g.points.first[:] = -1
        morph.foreach(g.points, pick, g, 4)
        return [values(g.points, name) for name in ("near", "edge", "any", "first")]

    g = graph("python")
    ends = list(zip(g.edges.src[:].tolist(), g.edges.dst[:].tolist(), strict=True))
    outs = [[b for a, b in ends if a == p] for p in range(5)]
    ins = [[a for a, b in ends if b == p] for p in range(5)]
    ids = [[e for e, (a, _) in enumerate(ends) if a == p] for p in range(5)]

    def digits(found, base):
        total = 0
        for i in range(-1, 4):
            total = total * base + (found[i] + 1 if 0 <= i < len(found) else 0)
        return total

    near, edge = [digits(o, 7) for o in outs], [digits(i, 9) for i in ids]
    any_ = [digits(a + b, 7) for a, b in zip(outs, ins, strict=True)]
    first = [outs[o[0]][0] if o and len(i) > 1 else -1 for o, i in zip(outs, ins, strict=True)]
    assert all(found == [near, edge, any_, first] for found in everywhere(target, run))


@morph.kernel
def last_of_each(p):
    for t in p.outnbrs:  # shared by threads, with a loop that ends early inside
        q = t.outnbrs[t.out_degree - 1]
        if q is not None:
            p.sum += q.id + 1


def test_a_neighbour_within_a_shared_loop(target):
    g = graph(target, sum=i64)
    morph.foreach(g.points, last_of_each)
    ends = list(zip(g.edges.src[:].tolist(), g.edges.dst[:].tolist(), strict=True))
    last = {a: b for a, b in ends}
    want = [sum(last[b] + 1 for a, b in ends if a == p and b in last) for p in range(5)]
    assert values(g.points, "sum") == want


# --- bulk additions ------------------------------------------------------------------------------


@morph.kernel
def gather(p, found, some, copies):
    found.extend(p.outnbrs)
    if p.id == 1:
        copies.extend(some)


@morph.kernel
def gather_locally(p, g, found):
    near = g.points.local(2)
    near.extend(p.outnbrs[1:])
    found.extend(near)
    found.extend(near)
    numbers = local(i64, 1)
    numbers.extend(range(p.id))
    for n in numbers:
        p.sum += n


def test_bulk_additions(target):
    def run():
        g = graph(target, sum=i64)
        found, some, copies = (morph.Collection(g.points) for _ in range(3))
        some.extend([4, 1, 4])
        morph.foreach(g.points, gather, found, some, copies)
        again = morph.Collection(g.points)
        morph.foreach(g.points, gather_locally, g, again)
        return [sorted(int(r) for r in c) for c in (found, copies, again)], values(g.points, "sum")

    ends = sorted(b for _, b in EDGES)
    outs = [[b for a, b in EDGES if a == p] for p in range(5)]
    later = sorted(b for o in outs for b in 2 * o[1:])
    for found, sums in everywhere(target, run):
        assert found == [ends, [1, 4, 4], later] and sums == [0, 0, 1, 3, 6]


# --- whole rows ----------------------------------------------------------------------------------


@morph.kernel
def shift(r, old, new):
    if r.id > 0:
        new[r.id - 1] = old[r.id]


@morph.kernel
def double(r, log):
    made = log.new_rows(2, fill=False)
    made[0] = r
    made[1] = made[0]


def test_a_row_is_copied_whole(target):
    x, v = np.arange(4, dtype="i4"), np.arange(8.0).reshape(4, 2)
    old, new = (table(target, x=x, v=v) for _ in range(2))
    log = morph.Table("log", target, x=i32, v=morph.vec(np.float64, 2))
    morph.foreach(old, shift, old, new)
    assert values(new, "x") == [1, 2, 3, 3] and values(new, "v") == [*v[1:].tolist(), [6, 7]]
    morph.foreach(old, double, log)
    assert sorted(values(log, "x")) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert sorted(values(log, "v")) == sorted(2 * v.tolist())


@morph.kernel
def mix(r, other):
    other[0] = r


def test_rows_of_other_columns_are_refused(target):
    one, other = rows(target, x=i32), rows(target, x=i64)
    text = "a row of other takes a row of the same columns, not handle of items"
    with pytest.raises(morph.LanguageError, match=text):
        morph.foreach(one, mix, other)
