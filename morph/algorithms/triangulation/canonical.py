"""The canonical Delaunay triangulation, which does not depend on the order of insertion.

Cocircular points have several triangulations, and the order of insertion decides which one results.
Here each cocircular polygon is triangulated as a fan from its first point, as if points were lifted
off the plane a little, earlier ones infinitely more than later ones ("pulling", Lee 1991): of the
two diagonals of two cocircular triangles, the one at the first of the four points is kept.  Where
this holds everywhere the triangulation is unique, and flips in any order lead to it.  Triangles and
segments are sorted, too.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np

from morph.algorithms.triangulation.tables import scale_of, segment_of_sides, sorted_triangles
from morph.data.collection import Collection
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.launch.foreach import foreach, func, kernel, program
from morph.mesh import Mesh
from morph.prelude import bool_, f64, i64, incircle, single, vector
from morph.runtime.device import Device


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


def least_first(mesh: Mesh) -> Mesh:
    """Rotate the corners of each triangle so that its first point comes first."""
    xp, rotated = mesh.device.xp, copy(mesh)
    with mesh.device.active():
        a, b, c = mesh.triangles.T
        first = xp.where((a < b) & (a < c), 0, xp.where(b < c, 1, 2))
        turned = (first[:, None] + xp.arange(3)) % 3
        rotated.triangles = xp.take_along_axis(mesh.triangles, turned, 1)
        rotated.neighbors = xp.take_along_axis(mesh.neighbors, turned, 1)
    return rotated
