"""The canonical Delaunay triangulation, which does not depend on the order of insertion.

Cocircular points have several triangulations, and the order of insertion decides which one results.
Here each cocircular polygon is triangulated as a fan from its first point, as if points were lifted
off the plane a little, earlier ones infinitely more than later ones ("pulling", Lee 1991): of the
two diagonals of two cocircular triangles, the one at the first of the four points is kept.  Where
this holds everywhere the triangulation is unique, and flips in any order lead to it.  Triangles and
segments are sorted, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.triangulation.scaling import scale_of
from morph.data.collection import Collection
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.launch.foreach import foreach, func, kernel, program
from morph.mesh import Mesh
from morph.operators.sort import argsort
from morph.prelude import bool_, f64, i64, incircle, single, vector
from morph.runtime.device import Device

BLOCK = 1 << 14  # rows whose keys and numbers are computed at once


@func
def side_of(s, t):
    """The side of s behind which t lies."""
    # race: the flip of another pair replaces a triangle other than t by one other than t
    return i64(0) if s.nbr[0] == t else (i64(1) if s.nbr[1] == t else i64(2))


@func
def needs_flip(t, k):
    """Whether side k of t is a diagonal of cocircular points that does not end at the first one."""
    n = t.nbr[k]
    if n is None or t.fixed[k]:
        return False
    a, b, c = t.node[(k + 1) % 3], t.node[(k + 2) % 3], t.node[k]
    d = n.node[side_of(n, t)]
    return min(c.id, d.id) < min(a.id, b.id) and incircle(a.xy, b.xy, c.xy, d.xy) == 0


@kernel
def find_flips(t, candidates):
    if needs_flip(t, 0) or needs_flip(t, 1) or needs_flip(t, 2):
        candidates.add(t)


@kernel
def flip(t, g, flipped):
    pair = g.triangles.local(2)
    neighbours = g.triangles.local(4)
    k = i64(0)
    while k < 3 and not needs_flip(t, k):
        k += 1
    if k < 3:
        n = t.nbr[k]
        j = side_of(n, t)
        pair.add(t)
        pair.add(n)
        neighbours.add(t.nbr[(k + 1) % 3])
        neighbours.add(t.nbr[(k + 2) % 3])
        neighbours.add(n.nbr[(j + 1) % 3])
        neighbours.add(n.nbr[(j + 2) % 3])
        if single(pair, guard=neighbours):
            a, b = t.node[(k + 1) % 3], t.node[(k + 2) % 3]
            c, d = t.node[k], n.node[j]
            bc, ca, ad, db = neighbours[0], neighbours[1], neighbours[2], neighbours[3]
            fbc, fca = t.fixed[(k + 1) % 3], t.fixed[(k + 2) % 3]
            fad, fdb = n.fixed[(j + 1) % 3], n.fixed[(j + 2) % 3]
            t.node, n.node = vector(c, a, d), vector(d, b, c)
            t.nbr, n.nbr = vector(ad, n, ca), vector(bc, t, db)
            t.fixed, n.fixed = vector(fad, False, fca), vector(fbc, False, fdb)
            if ad is not None:
                ad.nbr[side_of(ad, n)] = t
            if bc is not None:
                bc.nbr[side_of(bc, t)] = n
            flipped.add(t)
            flipped.add(n)
        else:
            flipped.add(t)


@program
def flip_all(g, candidates, flipped):
    while not candidates.empty:
        foreach(candidates, flip, g, flipped)
        candidates, flipped = flipped, candidates
        flipped.clear()


def canonical(mesh: Mesh, device: Device) -> Mesh:
    """Flip and sort a constrained Delaunay triangulation to the form that its points define.

    Parameters
    ----------
    mesh : Mesh
        Attributes of triangles are the same on both sides of an edge that is no segment.
    device : Device
        Where to do it.

    Raises
    ------
    ValueError
        If coordinates are too large or too small for refinement.
    """
    if not len(mesh.triangles):
        return mesh
    g, scale = Graph(device), scale_of(mesh)
    g.points.add("xy", vec(f64, 2))
    g.add_table("triangles", node=Ref("points")[3], nbr=Ref("triangles")[3], fixed=vec(bool_, 3))
    g.points.extend(xy=mesh.points * scale)
    g.triangles.extend(node=mesh.triangles, nbr=mesh.neighbors, fixed=segment_of_sides(mesh) >= 0)
    candidates, flipped = Collection(g.triangles), Collection(g.triangles)
    foreach(g.triangles, find_flips, candidates)
    flip_all(g, candidates, flipped)
    host = device.to_host
    sides = (host(g.triangles.node.array), host(g.triangles.nbr.array))
    triangles = sorted_triangles(np, *sides)
    ends = np.sort(mesh.segments, axis=1)
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    return replace(
        mesh,
        triangles=triangles.node,
        neighbors=triangles.nbr,
        triangle_attributes=mesh.triangle_attributes[triangles.rows],
        segments=ends[order],
        segment_markers=mesh.segment_markers[order],
    )


def segment_of_sides(mesh: Mesh) -> Any:
    """For each side of each triangle its segment, or -1; shape (m, 3), int32."""
    ends = mesh.triangles[:, [[1, 2], [2, 0], [0, 1]]].astype(np.int64)
    n = len(mesh.points)
    sides = ends.min(axis=2) * n + ends.max(axis=2)
    keys = np.sort(mesh.segments, axis=1).astype(np.int64) @ [n, 1]
    order = np.argsort(keys)
    at = np.minimum(np.searchsorted(keys, sides, sorter=order), max(len(keys) - 1, 0))
    found = keys[order][at] == sides
    return np.where(found, order[at], -1).astype(np.int32)


def least_corner(xp: Any, node: Any) -> Any:
    """Return which corner of each triangle, shape (m, 3), is its least point."""
    a, b, c = node.T
    return xp.where((a < b) & (a < c), 0, xp.where(b < c, 1, 2))


def least_first(mesh: Mesh) -> Mesh:
    """Rotate the corners of each triangle so that its first point comes first."""
    xp, rotated = mesh.device.xp, copy(mesh)
    with mesh.device.active():
        turned = (least_corner(xp, mesh.triangles)[:, None] + xp.arange(3)) % 3
        rotated.triangles = xp.take_along_axis(mesh.triangles, turned, 1)
        rotated.neighbors = xp.take_along_axis(mesh.neighbors, turned, 1)
    return rotated


class SortedTriangles(NamedTuple):
    """The result of `sorted_triangles`: m triangles in their new order.

    Attributes
    ----------
    rows : (m,) int array
        The former row of each triangle.
    node, nbr : (m, 3) int array, (m, 3) int32 array
        Corners, and neighbours behind the opposite sides, or -1.
    number : (m + 1,) int32 array
        The new row of each former row; the last entry, that of row -1, is -1.
    first : (m,) int8 array
        The corner of each former row that comes first now.
    """

    rows: Any
    node: Any
    nbr: Any
    number: Any
    first: Any


def sorted_triangles(xp: Any, node: Any, nbr: Any) -> SortedTriangles:
    """Rotate triangles so that the least point comes first, and sort them.

    Parameters
    ----------
    xp : module
        NumPy or CuPy.
    node, nbr : (m, 3) int arrays
        Corners, and neighbours behind the opposite sides, or -1.

    Returns
    -------
    SortedTriangles
    """
    m, bits = len(node), int(node.max()).bit_length()
    turns = xp.asarray([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    first, key = xp.empty(m, np.int8), xp.empty(m, np.int64)
    for block in _blocks(xp, m):
        a, b, c = node[block].T
        least = least_corner(xp, node[block])
        second = xp.where(least == 0, b, xp.where(least == 1, c, a))
        first[block] = least
        key[block] = xp.minimum(xp.minimum(a, b), c).astype(np.int64) << bits | second
    # no two triangles share a directed edge: the sort of one key is many times as fast as lexsort
    rows = argsort(key)
    number = xp.full(m + 1, -1, np.int32)  # no neighbour, -1, stays so
    number[rows] = xp.arange(m, dtype=np.int32)
    old_node, old_nbr = (xp.ascontiguousarray(x).ravel() for x in (node, nbr))
    node, nbr = xp.empty((m, 3), node.dtype), xp.empty((m, 3), np.int32)
    for block in _blocks(xp, m):
        row = rows[block]
        # NumPy copies single numbers many times as fast as short rows
        at = 3 * row[:, None] + xp.take(turns, xp.take(first, row), axis=0)
        node[block] = xp.take(old_node, at)
        nbr[block] = xp.take(number, xp.take(old_nbr, at))
    return SortedTriangles(rows, node, nbr, number, first)


def _blocks(xp: Any, n: int) -> Iterator[slice]:
    """Slices of n rows: NumPy's temporary arrays stay in a cache, CuPy's operations are few."""
    size = BLOCK if xp is np else n
    return (slice(start, min(start + size, n)) for start in range(0, n, size))
