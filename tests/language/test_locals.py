"""Local collections of vectors and structs, on every target."""

from __future__ import annotations

import pytest
from small import points, values
from targets import everywhere

import morph
from morph.language.errors import LanguageError
from morph.prelude import bool_, f64, i32, i64, local, single, struct, vector


@struct
class Span:
    low: f64
    ends: (i32, 2)


@morph.func
def widen(spans, by):
    spans.add(Span(by, vector(i32(7), i32(8))))
    return spans.size


@morph.kernel
def vectors(p):
    corners = local((f64, 2), 1)
    for i in range(p.id):
        corners.add(vector(f64(i), 0.5))
    corners.add(vector(10.0, 20.0))
    corners[0] = vector(corners[0].y, 3.0)
    for v in corners:
        p.sum += v.x * 100 + v[1]
    last = corners.pop()
    last.x = 1.0
    p.share = last.x + last.y + corners.size * 1000


@morph.kernel
def structs(p, g):
    spans = local(Span, 2)
    for t in p.outnbrs:
        spans.add(Span(0.5, vector(i32(t.id), i32(p.id))))
    size = widen(spans, 2.0)
    spans[0] = Span(4.0, spans[1].ends)
    copy = spans[0]
    copy.low = 100.0
    for s in reversed(spans):
        p.sum = p.sum * 10 + s.low + s.ends[0]
    p.share = size + copy.low + copy.ends[1]


def test_local_collections_of_vectors(target):
    def run():
        g = points(target, sum=f64, share=f64)
        morph.foreach(g.points, vectors)
        return values(g.points, "sum"), values(g.points, "share")

    def by_hand(n):
        corners = [[float(i), 0.5] for i in range(n)] + [[10.0, 20.0]]
        corners[0] = [corners[0][1], 3.0]
        total = sum(x * 100 + y for x, y in corners)
        return total, 1.0 + corners[-1][1] + (len(corners) - 1) * 1000

    want = tuple(list(x) for x in zip(*map(by_hand, range(4)), strict=True))
    assert all(found == want for found in everywhere(target, run))


def test_local_collections_of_structs(target):
    def run():
        g = points(target, sum=f64, share=f64)
        morph.foreach(g.points, structs, g)
        return values(g.points, "sum"), values(g.points, "share")

    def by_hand(p, outs):
        spans = [[0.5, (t, p)] for t in outs] + [[2.0, (7, 8)]]
        spans[0] = [4.0, spans[1][1]]
        total = 0.0
        for low, ends in spans[::-1]:
            total = total * 10 + low + ends[0]
        return total, len(spans) + 100.0 + spans[0][1][1]

    outs = [[1, 2], [2], [3], [0]]
    want = tuple(list(x) for x in zip(*(by_hand(p, o) for p, o in enumerate(outs)), strict=True))
    assert all(found == want for found in everywhere(target, run))


@morph.kernel
def kept_until_commit(p, g):
    marks = local((i64, 2), 2)
    marks.add(vector(i64(p.id), 5))
    mine = g.points.local(1)
    mine.add(p)
    if single(mine):
        for m in marks:
            p.sum = f64(m.x + m.y)


def test_vectors_last_until_commit(target):
    g = points(target, sum=f64)
    morph.foreach(g.points, kept_until_commit, g)
    assert values(g.points, "sum") == [5, 6, 7, 8]


@morph.kernel
def seek(p):
    corners = local((f64, 2), 1)
    if vector(1.0, 2.0) in corners:
        p.sum = 1


def test_vectors_are_not_sought(target):
    with pytest.raises(LanguageError, match="vector of 2 f64 cannot be compared"):
        morph.foreach(points(target, sum=f64).points, seek)


# --- structs that hold local collections ---------------------------------------------------------


@struct
class Heap:
    keys: local(i64, 2)  # a binary heap; it grows, as every local collection does
    rows: local(morph.Ref("points"), 2)
    pops: i64


@struct
class Many:
    spans: local(Span, 2)
    corners: local((f64, 2), 2)
    centre: (f64, 2)
    near: morph.Ref("points")
    flags: local(bool_, 3)


@morph.func
def exchange(heap, i, j):
    key, row = heap.keys[i], heap.rows[i]
    heap.keys[i], heap.rows[i] = heap.keys[j], heap.rows[j]
    heap.keys[j] = key
    heap.rows[j] = row


@morph.func
def push(heap, key, row):
    heap.keys.add(key)
    heap.rows.add(row)
    i = len(heap.keys) - 1
    while i > 0 and heap.keys[(i - 1) // 2] > heap.keys[i]:
        exchange(heap, i, (i - 1) // 2)
        i = (i - 1) // 2


@morph.func
def pop(heap):
    exchange(heap, 0, len(heap.keys) - 1)
    key, row = heap.keys.pop(), heap.rows.pop()
    i = 0
    while 2 * i + 1 < len(heap.keys):
        child = 2 * i + 1
        if child + 1 < len(heap.keys) and heap.keys[child + 1] < heap.keys[child]:
            child += 1
        if heap.keys[i] <= heap.keys[child]:
            break
        exchange(heap, i, child)
        i = child
    return key, row, heap.pops + 1


@morph.kernel
def nearest(p, g, far):
    """Dijkstra's algorithm from each point: how many points are nearer than ``far``."""
    heap = Heap(0)
    done = g.points.local(4)
    total = 0
    push(heap, i64(0), p)
    while len(heap.keys) > 0:
        d, q, heap.pops = pop(heap)
        if q not in done:
            done.add(q)
            total += d
            for t in q.outnbrs:
                if d + g.weight(q, t) < far:
                    push(heap, d + g.weight(q, t), t)
    p.sum = f64(total)
    p.share = f64(heap.pops * 100 + done.size)


@morph.kernel
def fields_of_structs(p, g):
    many = Many(vector(1.0, 2.0), p)
    for t in p.outnbrs:
        many.near = t
        many.corners.add(vector(f64(t.id), f64(p.id)))
        many.flags.add(t.id > 1)
        widen(many.spans, 2.0)
    many.centre.y += many.corners[0].x
    many.corners[0] = vector(7.0, many.corners[0].y)
    for x in many.centre:  # the vector of before the loop
        many.centre = vector(0.0, 0.0)
        p.sum += x
    for t in many.near.outnbrs:
        p.share += g.weight(many.near, t)
        many.near = p
    size = many.spans.size
    if p.id == 1:
        many = Many(many.centre, many.near)
        size += 10 * len(many.spans)
    for s in many.spans:
        p.share += s.low * 1000
    p.sum += size * 100 + many.corners.size * 10000 + (7 if True in many.flags else 0)


@morph.kernel
def structs_made_in_loops(p, g):
    """A loop runs over the values of before it; where its point is assigned, edges are sought."""
    many = Many(vector(1.0, 2.0), p)
    for x in many.centre:
        p.sum += x
        many = Many(vector(50.0, 60.0), p)
    p.sum += many.centre.x * 1000
    for t in many.near.outnbrs:
        p.share += g.weight(many.near, t)
        many = Many(vector(0.0, 0.0), g.points[0])


def test_structs_made_in_loops(target):
    def run():
        ends = [1, 1, 1, 0, 0, 0], [2, 2, 2, 2, 2, 1]
        weight = [1, 20, 300, 4000, 50000, 7]
        g = morph.Graph.from_edges(*ends, weight=weight, n=3, device=target)
        for name in ("sum", "share"):
            g.points.add(name, f64)
        morph.foreach(g.points, structs_made_in_loops, g)
        return values(g.points, "sum"), values(g.points, "share")

    for total, share in everywhere(target, run):
        assert total == [50003.0] * 3
        assert share == [4000 + 4000 + 7, 1 + 4000 + 4000, 0]  # the first edges


@struct
class Claimed:
    rows: local(morph.Ref("points"), 2)
    marks: local((i64, 2), 2)


@morph.kernel
def kept_in_a_struct(p, g):
    mine = Claimed()
    mine.marks.add(vector(i64(p.id), 5))
    mine.rows.add(p)
    if single(mine.rows):
        mine.marks.add(vector(1, 1))
        for m in mine.marks:
            p.sum += f64(m.x + m.y)


def test_functions_change_collections_of_a_struct(target):
    def run():
        g = points(target, 9, sum=f64, share=f64)
        morph.foreach(g.points, nearest, g, 150)
        return values(g.points, "sum"), values(g.points, "share")

    def by_hand(p):
        ends = {k: [((k + 1) % 9, 10 * k)] for k in range(9)}
        ends[0].append((2, 90))
        heap, done, total, pops = [(0, p)], set(), 0, 0
        while heap:
            heap.sort()
            d, q = heap.pop(0)
            pops += 1
            if q not in done:
                done.add(q)
                total += d
                heap += [(d + w, t) for t, w in ends[q] if d + w < 150]
        return total, pops * 100 + len(done)

    want = tuple(list(x) for x in zip(*map(by_hand, range(9)), strict=True))
    assert all(found == want for found in everywhere(target, run))


def test_fields_of_structs_with_collections(target):
    def run():
        g = points(target, sum=f64, share=f64)
        morph.foreach(g.points, fields_of_structs, g)
        return values(g.points, "sum"), values(g.points, "share")

    def by_hand(p):
        outs = [[1, 2], [2], [3], [0]]
        weight = {(0, 1): 0, (1, 2): 10, (2, 3): 20, (3, 0): 30, (0, 2): 40}
        near, mine = outs[p][-1], outs[p]
        total = 1.0 + 2.0 + mine[0]
        share = 0.0
        for k, t in enumerate(outs[near]):  # the first from `near`, others from p
            share += weight.get((p if k else near, t), 2**31 - 1)
        if p == 1:
            return total + 100, share
        flags = 7 if any(t > 1 for t in mine) else 0
        return total + 100 * len(mine) + 10000 * len(mine) + flags, share + 2000.0 * len(mine)

    want = tuple(list(x) for x in zip(*map(by_hand, range(4)), strict=True))
    assert all(found == want for found in everywhere(target, run))


def test_structs_last_until_commit(target):
    g = points(target, sum=f64)
    morph.foreach(g.points, kept_in_a_struct, g)
    assert values(g.points, "sum") == [7, 8, 9, 10]


@morph.kernel
def pop_of_nothing(p, g):
    heap = Heap(0)
    if p.id == 2:
        pop(heap)
    push(heap, i64(p.id), p)


def test_structs_are_checked(target):
    g = points(target)
    with pytest.raises(morph.CheckError, match="index") as caught:
        morph.foreach(g.points, pop_of_nothing, g, check=True)
    assert "points[2]" in str(caught.value)
