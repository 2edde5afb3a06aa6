"""Independent verifier of meshes: named invariants, tested by exact predicates on arrays.

This module, `signs`, `overlap` and `compiled` share no code with the algorithms whose output they
verify.
Cost: O(m log m) for m triangles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.mesh.arrays import MeshArrays
from morph.mesh.compiled import has_repeated
from morph.mesh.errors import Violation
from morph.mesh.overlap import covered_twice, crossing_hull, crowded_corners, one_row_each
from morph.mesh.signs import incircle as incircle
from morph.mesh.signs import orientation as orientation

_POINTS = 1 << 16  # points hashed at once

Ids = NDArray[Any]


def violations(mesh: MeshArrays, conforming: bool = False) -> list[Violation]:
    """Check a mesh against all invariants.

    ``finite``
        every coordinate is finite;
    ``shape``, ``type``, ``index``
        the arrays are consistent, and every index is in range (-1 only as a neighbour);
    ``corners``, ``orientation``
        a triangle has three different corners, and exactly positive area;
    ``edge-use``, ``duplicate-triangle``
        an edge has at most one triangle on each side; no triangle occurs twice;
    ``neighbour``
        ``neighbors`` is symmetric, opposite the correct corner, and -1 only at the hull;
    ``star``
        the triangles around a point, including its duplicates, wind around it at most once;
    ``overlap``
        hull edges meet at common ends only, and no part of the plane is covered twice, which
        together with all of the above makes the triangles a triangulation (see `overlap`);
    ``segment``, ``duplicate-segment``, ``hull``
        segments are distinct edges of the mesh, and every hull edge is a segment;
    ``duplicate-point``
        no two points of triangles have the same coordinates;
    ``delaunay``
        across an edge that is not a segment, no corner lies inside the other triangle's circle;
    ``conforming``
        nor across a segment; only tested with ``conforming=True``, see `refine`.

    Returns
    -------
    list of Violation
        Empty for a valid mesh.  Invariants that presuppose a violated one are not tested: all
        require ``finite``, ``shape``, ``type`` and ``index``; ``star`` and ``overlap`` require
        valid triangles and neighbours; ``delaunay`` also requires valid segments and no overlap.

    Notes
    -----
    Points that are in no triangle are allowed: `morph.triangulate` leaves merged points.
    """
    found = _arrays(mesh)
    if not found:
        found = _triangles(mesh) + _neighbors(mesh)
        covered = [] if found else _overlaps(mesh)
        found += covered + _segments(mesh)
        if not found:
            found = _delaunay(mesh, False)
            found += _delaunay(mesh, True) if conforming else []
        found += _points(mesh)
    return found


def _report(
    out: list[Violation], name: str, ids: Ids, describe: Callable[[int], str], noun: str
) -> None:
    if len(ids):
        more = f" (and {len(ids) - 1} more {noun})" if len(ids) > 1 else ""
        first = describe(int(ids[0]))
        out.append(Violation(name, f"{first}{more}", np.asarray(ids, np.int64)))


def _arrays(mesh: MeshArrays) -> list[Violation]:
    out: list[Violation] = []
    n, m, s = len(mesh.points), len(mesh.triangles), len(mesh.segments)
    shapes = {
        "points": (n, 2),
        "triangles": (m, 3),
        "neighbors": (m, 3),
        "segments": (s, 2),
        "segment_markers": (s,),
        "point_markers": (n,),
        "point_attributes": (n, *mesh.point_attributes.shape[1:2]),
        "triangle_attributes": (m, *mesh.triangle_attributes.shape[1:2]),
    }
    for name, shape in shapes.items():
        actual = getattr(mesh, name).shape
        if actual != shape:
            none = np.empty(0, np.int64)
            out.append(Violation("shape", f"{name} has shape {actual}, expected {shape}", none))
        kind = "f" if name == "points" or "attributes" in name else "i"
        dtype = getattr(mesh, name).dtype
        if dtype.kind != kind:
            expected = "integers" if kind == "i" else "floats"
            none = np.empty(0, np.int64)
            out.append(Violation("type", f"{name} holds {dtype}, expected {expected}", none))
    if out:
        return out
    bad = np.flatnonzero(~np.isfinite(mesh.points).all(axis=1))
    _report(out, "finite", bad, lambda i: f"point {i} is at {mesh.points[i].tolist()}", "points")
    for name, low, high in (("triangles", 0, n), ("neighbors", -1, m), ("segments", 0, n)):
        values = getattr(mesh, name)
        bad = np.flatnonzero(((values < low) | (values >= high)).any(axis=1))
        if len(bad):
            message = f"{name}[{bad[0]}] = {values[bad[0]].tolist()} is outside {low}..{high - 1}"
            out.append(Violation("index", message, bad))
    return out


def _triangles(mesh: MeshArrays) -> list[Violation]:
    out: list[Violation] = []
    t = mesh.triangles
    n = len(mesh.points)
    bad = np.flatnonzero((t[:, 0] == t[:, 1]) | (t[:, 1] == t[:, 2]) | (t[:, 2] == t[:, 0]))
    _report(out, "corners", bad, lambda i: f"triangle {i} repeats a corner", "triangles")
    sign = orientation(mesh.points, t[:, 0], t[:, 1], t[:, 2])
    sign[bad] = 1
    word = {0: "degenerate", -1: "clockwise"}
    bad = np.flatnonzero(sign <= 0)
    _report(out, "orientation", bad, lambda i: f"triangle {i} is {word[int(sign[i])]}", "triangles")

    keys = np.concatenate([t[:, k].astype(np.int64) * n + t[:, (k + 1) % 3] for k in range(3)])
    ordered = np.sort(keys)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        used = np.flatnonzero(_among(keys, twice)) % len(t)
        users = np.unique(used)
        a, b = divmod(int(twice[0]), n)
        text = f"edge ({a}, {b}) has several triangles on one side"
        _report(out, "edge-use", users, lambda i: f"{text}, triangle {i} among them", "triangles")
        corners = np.sort(t[users], axis=1)
        kinds, which = np.unique(corners, axis=0, return_inverse=True)
        which = which.ravel()  # two-dimensional in NumPy 2.0
        same = users[np.bincount(which, minlength=len(kinds))[which] > 1]
        _report(
            out, "duplicate-triangle", same, lambda i: f"triangle {i} is there twice", "triangles"
        )
    return out


def _overlaps(mesh: MeshArrays) -> list[Violation]:
    out: list[Violation] = []
    p, t = mesh.points, mesh.triangles
    owner, k = np.nonzero(mesh.neighbors < 0)
    hull = np.stack([t[owner, (k + 1) % 3], t[owner, (k + 2) % 3]], axis=1).astype(np.int64)
    row = one_row_each(p, hull)
    t, hull = row[t], row[hull].astype(np.int64)
    _report(
        out,
        "star",
        crowded_corners(p, t, hull),
        lambda i: f"the triangles around point {i} overlap one another",
        "points",
    )
    if out:
        return out
    pairs = crossing_hull(p, hull)
    if len(pairs):
        (a, b), (c, d) = hull[pairs[0]].tolist()
        text = f"hull edges ({a}, {b}) and ({c}, {d}) cross or touch"
        found = np.unique(owner[pairs])
        _report(out, "overlap", found, lambda i: f"{text}, triangle {i} among theirs", "triangles")
        return out
    low = covered_twice(p, t, hull)
    found = owner[np.isin(hull[:, 0], low)]
    _report(out, "overlap", found, lambda i: f"triangle {i} lies over others", "triangles")
    return out


def _neighbors(mesh: MeshArrays) -> list[Violation]:
    out: list[Violation] = []
    t, neighbors = mesh.triangles, mesh.neighbors
    rows = np.arange(len(t))
    good = np.ones(len(t), bool)
    hull: list[NDArray[np.int64]] = []
    for k in range(3):
        a, b, u = t[:, (k + 1) % 3], t[:, (k + 2) % 3], neighbors[:, k]
        mutual = u < 0
        theirs, back = np.take(t, u, axis=0), np.take(neighbors, u, axis=0)
        for j in range(3):
            there = (theirs[:, j] == b) & (theirs[:, (j + 1) % 3] == a)
            mutual |= there & (back[:, (j + 2) % 3] == rows)
        good &= mutual
        low, high = np.minimum(a, b).astype(np.int64), np.maximum(a, b)
        hull.append(np.where(u < 0, low * len(mesh.points) + high, -1))
    bad = np.flatnonzero(~good)
    _report(
        out,
        "neighbour",
        bad,
        lambda i: f"triangle {i} and its neighbours {neighbors[i].tolist()} do not agree",
        "triangles",
    )
    keys = np.concatenate(hull)
    ordered = np.sort(keys[keys >= 0])
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    bad = np.unique(np.flatnonzero((keys >= 0) & _among(keys, twice)) % max(len(t), 1))
    _report(
        out,
        "neighbour",
        bad,
        lambda i: f"triangle {i} lacks a neighbour it should have",
        "triangles",
    )
    return out


def _undirected(a: Ids, b: Ids, n: int) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = np.minimum(a, b).astype(np.int64) * n + np.maximum(a, b)
    return keys


def _among(keys: NDArray[np.int64], table: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each key is in ``table``, by bisection."""
    if len(table) == 0:
        return np.zeros(len(keys), bool)
    ordered = np.sort(table)
    at = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    found: NDArray[np.bool_] = ordered[at] == keys
    return found


def _segments(mesh: MeshArrays) -> list[Violation]:
    out: list[Violation] = []
    n, t, s = len(mesh.points), mesh.triangles, mesh.segments
    segments = _undirected(s[:, 0], s[:, 1], n)
    touched = np.zeros(n, bool)
    touched[s] = True
    edges, hull, owner = [], [], []
    for k in range(3):
        a, b = t[:, (k + 1) % 3], t[:, (k + 2) % 3]
        near = touched[a] & touched[b]
        edges.append(_undirected(a[near], b[near], n))
        rim = np.flatnonzero(mesh.neighbors[:, k] < 0)
        hull.append(_undirected(a[rim], b[rim], n))
        owner.append(rim)
    bad = np.flatnonzero(~_among(segments, np.concatenate(edges)))
    _report(
        out,
        "segment",
        bad,
        lambda i: f"segment {i} {tuple(s[i].tolist())} is not an edge of the mesh",
        "segments",
    )
    order = np.argsort(segments, kind="stable")
    bad = order[1:][segments[order][1:] == segments[order][:-1]]
    _report(out, "duplicate-segment", bad, lambda i: f"segment {i} is there twice", "segments")
    unmarked = np.concatenate(owner)[~_among(np.concatenate(hull), segments)]
    _report(
        out,
        "hull",
        unmarked,
        lambda i: f"triangle {i} has a hull edge that is no segment",
        "triangles",
    )
    return out


def _points(mesh: MeshArrays) -> list[Violation]:
    out: list[Violation] = []
    used = np.zeros(len(mesh.points), bool)
    used[mesh.triangles] = True
    corners = np.flatnonzero(used)
    bad = corners[repeated_points(mesh.points[corners])[:, 1]]
    _report(
        out, "duplicate-point", bad, lambda i: f"point {i} repeats another's coordinates", "points"
    )
    return out


def repeated_points(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Find points with the coordinates of an earlier point.

    Returns
    -------
    (k, 2) int64 array
        Earlier and later row, ordered by the later.
    """
    none = np.empty((0, 2), np.int64)
    if has_repeated(points) is False:
        return none
    mixed = np.empty(len(points), np.uint64)  # hash of each point
    for start in range(0, len(points), _POINTS):
        bits = (points[start : start + _POINTS] + 0.0).view(np.uint64)  # + 0.0 converts -0 to 0
        x, y = bits.T
        part = x * np.uint64(0x9E3779B97F4A7C15) ^ (y >> np.uint64(29))
        mixed[start : start + _POINTS] = (part ^ y) * np.uint64(0xD6E8FEB86659FD93)
    mixed.sort()
    if not (mixed[1:] == mixed[:-1]).any():
        return none
    order = np.lexsort((np.arange(len(points)), points[:, 1], points[:, 0]))
    same = (points[order][1:] == points[order][:-1]).all(axis=1)
    pairs = np.stack([order[:-1][same], order[1:][same]], axis=1)
    ranked: NDArray[np.int64] = pairs[np.argsort(pairs[:, 1], kind="stable")]
    return ranked


def _delaunay(mesh: MeshArrays, segments: bool) -> list[Violation]:
    """Corners inside the circle of the triangle across a segment, or across any other edge."""
    out: list[Violation] = []
    t, n = mesh.triangles, len(mesh.points)
    fixed = _undirected(mesh.segments[:, 0], mesh.segments[:, 1], n)
    touched = np.zeros(n, bool)
    touched[mesh.segments] = True
    total = t.sum(axis=1, dtype=np.int64)
    guilty: list[Ids] = []
    for k in range(3):
        rows = np.flatnonzero(mesh.neighbors[:, k] > np.arange(len(t)))
        a, b = t[rows, (k + 1) % 3], t[rows, (k + 2) % 3]
        maybe = np.flatnonzero(touched[a] & touched[b])
        tested = np.full(len(rows), not segments)
        tested[maybe] = _among(_undirected(a[maybe], b[maybe], n), fixed) == segments
        rows, a, b = rows[tested], a[tested], b[tested]
        apex = total[mesh.neighbors[rows, k]] - a - b
        sign = incircle(mesh.points, t[rows, 0], t[rows, 1], t[rows, 2], apex)
        guilty.append(rows[sign > 0])
    bad = np.unique(np.concatenate(guilty))
    _report(
        out,
        "conforming" if segments else "delaunay",
        bad,
        lambda i: f"triangle {i} has a corner of a neighbour inside its circle",
        "triangles",
    )
    return out
