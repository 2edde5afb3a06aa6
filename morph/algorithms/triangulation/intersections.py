"""Intersections of segments: crossing segments are split at the nearest representable point.

Intersections are found in a triangulation into which as many segments as possible were inserted: a
walk along each segment records the points that it passes through and the constrained edges that it
crosses.  Rounding bends segments, which may then cross others, so the new graph is triangulated
again until no segments cross.  This terminates: a rounded intersection is in the bounding boxes of
both segments and is no end of either, so that the pieces have the same total length (differences of
x and of y added) and get shorter; but there is a least distance between doubles of a box.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from morph.algorithms.triangulation.kept import KeptTables
from morph.algorithms.triangulation.segments import cross_edge, exit_edge, first_edge
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import Ref
from morph.launch.foreach import foreach, func, kernel
from morph.prelude import i32


@func
def step(g, a, b, edge):
    """One step from a to b: the point reached and -1, or the same point and the next edge met."""
    if edge < 0:
        met, v = first_edge(g, a, b.xy)
        if v is not None:
            return v, i32(-1)
        return a, met
    o, v, side = cross_edge(g, a, b, edge)
    if side == 0:
        return v, i32(-1)
    return a, exit_edge(o, side)


@kernel
def trace_segment(s, g, spans, meets):
    """Record the points that a segment passes through and the constrained edges that it crosses."""
    a = s.a
    edge = i32(-1)
    points, edges = 0, 0
    while a != s.b:
        a, edge = step(g, a, s.b, edge)
        if edge < 0:
            points += 1
        elif g.triangles[edge >> 2].opposite[edge & 3] < 0:
            edges += 1
    span = spans.new_rows(points)
    meet = meets.new_rows(edges)
    i, j = 0, 0
    a = s.a
    edge = i32(-1)
    last = a
    while a != s.b:
        a, edge = step(g, a, s.b, edge)
        if edge < 0:
            span[i].of = s
            span[i].a = last
            span[i].b = a
            last = a
            i += 1
        elif g.triangles[edge >> 2].opposite[edge & 3] < 0:
            t, k = g.triangles[edge >> 2], edge & 3
            meet[j].of = s
            meet[j].a = last
            meet[j].left = t.node[(k + 1) % 3]
            meet[j].right = t.node[(k + 2) % 3]
            j += 1


@dataclass
class SplitSegments:
    """Segments split where they cross.

    Attributes
    ----------
    points : (k, 2) float64 array
        New points; they may have the coordinates of others.
    between : (k, 2) int32 array
        Ends of the earlier of the two pieces that cross there.
    pieces : (s, 2) int32 array
        Points by row, new ones after the old.
    of : (s,) int32 array
        Row of the chord that each is a piece of; ascending.
    """

    points: Any
    between: Any
    pieces: Any
    of: Any


def split_intersections(g: Graph) -> SplitSegments:
    """Split the chords of a triangulation at all points they pass, and where they cross edges."""
    point, chord = Ref("points"), Ref("chords")
    kept = KeptTables.of(g)
    spans = kept.add_table("spans", of=chord, a=point, b=point)
    meets = kept.add_table("meets", of=chord, a=point, left=point, right=point)
    foreach(g.chords, trace_segment, g, spans, meets)
    xy = g.device.to_host(g.points.xy.array)
    n = len(xy)

    # pieces that overlap are one, of the least chord
    of, a, b = _columns(spans, "of", "a", "b")
    order = np.argsort(of, kind="stable")
    of, a, b = of[order], a[order], b[order]
    keys, first = np.unique(_keys(a, b, n), return_index=True)
    piece = np.searchsorted(keys, _keys(a, b, n))
    starts = of.astype(np.int64) * n + a
    by_start = np.argsort(starts)
    of, a, b = of[first], a[first], b[first]

    walker, last, left, right = _columns(meets, "of", "a", "left", "right")
    at = np.searchsorted(starts, walker.astype(np.int64) * n + last, sorter=by_start)
    one = piece[by_start[at]]
    two = np.searchsorted(keys, _keys(left, right, n))
    pairs = np.unique(np.sort(np.stack([one, two], axis=1), axis=1), axis=0)
    new = [
        intersection(*(xy[i].tolist() for i in (a[p], b[p], a[q], b[q]))) for p, q in pairs.tolist()
    ]
    points, where = np.unique(np.array(new), axis=0, return_inverse=True)
    where = where.ravel()
    earlier = np.where(of[pairs[:, 0]] <= of[pairs[:, 1]], pairs[:, 0], pairs[:, 1])
    between = np.empty((len(points), 2), np.int32)
    between[where] = np.stack([a, b], axis=1)[earlier]

    # along each piece: rounding keeps the order in x and in y
    on = np.concatenate([np.arange(len(a)), np.arange(len(a)), pairs[:, 0], pairs[:, 1]])
    row = np.concatenate([a, b, n + where, n + where]).astype(np.int32)
    spot = np.concatenate([xy, points])
    along = np.where(xy[b] < xy[a], -1.0, 1.0)[on] * spot[row]
    order = np.lexsort((along[:, 1], along[:, 0], on))
    on, row = on[order], row[order]
    real = (on[1:] == on[:-1]) & (spot[row[1:]] != spot[row[:-1]]).any(axis=1)
    pieces, of = np.stack([row[:-1], row[1:]], axis=1)[real], of[on[1:][real]]
    order = np.argsort(of, kind="stable")
    return SplitSegments(points, between, pieces[order], of[order])


def _columns(table: Table, *names: str) -> list[Any]:
    return [table.device.to_host(getattr(table, name).array) for name in names]


def _keys(a: Any, b: Any, n: int) -> Any:
    return np.minimum(a, b).astype(np.int64) * n + np.maximum(a, b)


def intersection(a: list[float], b: list[float], c: list[float], d: list[float]) -> list[float]:
    """Where segments ab and cd cross, each coordinate rounded once."""
    coordinates = [*a, *b, *c, *d]
    ratios = [v.as_integer_ratio() for v in coordinates]
    scale = max(q for _, q in ratios)  # powers of two
    ax, ay, bx, by, cx, cy, dx, dy = (p * (scale // q) for p, q in ratios)
    ux, uy, vx, vy = bx - ax, by - ay, dx - cx, dy - cy
    denominator = ux * vy - uy * vx
    numerator = (cx - ax) * vy - (cy - ay) * vx
    return [
        (u * numerator + v * denominator) / (denominator * scale) for u, v in ((ux, ax), (uy, ay))
    ]
