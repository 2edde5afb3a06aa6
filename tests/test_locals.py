"""Local collections of vectors and structs, on every target."""

from __future__ import annotations

import pytest
from small import points, values
from targets import everywhere

import morph
from morph.language.errors import LanguageError
from morph.prelude import f64, i32, i64, local, single, struct, vector


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
