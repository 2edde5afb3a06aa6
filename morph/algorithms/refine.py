"""Delaunay refinement: add points to a triangulation until no angle is small and no triangle large.

A bad triangle is destroyed by inserting its off-centre (Ungor 2004): the *cavity*, all triangles
whose circumcircle holds the point, is replaced by a fan around it.  A point that would encroach on
a segment (lie in its diametral circle, or behind it) is not inserted; the segment is split instead
(Ruppert 1995; Chew 1993), at its middle or, next to an input vertex, on concentric shells of
power-of-two radius, so that small input angles end (Shewchuk 2000).  Cavities are refined in
parallel: an item claims its cavity with ``single`` and guards the ring around it
(Unnikrishnan et al., Falcon, figures 37 to 39; claims as in Blelloch et al. 2012).

Work is about 10 triangles read for each of the output; rounds grow with the logarithm of the size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from morph.algorithms.meshtables import graph_of, mesh_of
from morph.collect import Collection, Flag
from morph.device import Device
from morph.dtypes import Ref
from morph.kernel import foreach, func, kernel, program
from morph.mesh import Mesh, MeshError
from morph.prelude import f64, i32, i64, incircle, local, log, orient2d, single, sqrt, vector
from morph.table import Table
from morph.timing import counting

# --- geometry ------------------------------------------------------------------------------------


@func
def dot(u, v):
    return u.x * v.x + u.y * v.y


@func
def cross(u, v):
    return u.x * v.y - u.y * v.x


@func
def shortest_edge(a, b, c):
    """Turn a triangle so that its shortest edge runs from the first vertex to the second."""
    ab, bc, ca = b.xy - a.xy, c.xy - b.xy, a.xy - c.xy
    if dot(ab, ab) <= dot(bc, bc) and dot(ab, ab) <= dot(ca, ca):
        return a, b, c
    if dot(bc, bc) <= dot(ca, ca):
        return b, c, a
    return c, a, b


@func
def off_centre(a, b, c, reach):
    """The circumcentre, or the point on the way to it from ab that makes an angle just good."""
    u, v = b - a, c - a
    uu, vv = dot(u, u), dot(v, v)
    k = 0.5 / cross(u, v)
    centre = vector((v.y * uu - u.y * vv) * k, (u.x * vv - v.x * uu) * k)
    near = vector(0.5 * u.x - reach * u.y, 0.5 * u.y + reach * u.x)
    # of a triangle so flat that its circumcentre is no number, the other one
    return a + (centre if dot(centre, centre) <= dot(near, near) else near)


@func
def on_shell(p, q):
    """Whether p and q lie on two segments that meet, equally far from where they do."""
    s, t = p.on, q.on
    if s is None or t is None or s == t:
        return False
    w = s.a if s.a == t.a or s.a == t.b else s.b
    if w != t.a and w != t.b:
        return False
    d, e = p.xy - w.xy, q.xy - w.xy
    return dot(d, d) < 1.001 * dot(e, e) and dot(e, e) < 1.001 * dot(d, d)


@func
def is_bad(a, b, c, goal):
    """Whether a triangle has too small an angle, or is too large."""
    p, q, r = shortest_edge(a, b, c)
    u, v, w = p.xy - r.xy, q.xy - r.xy, q.xy - p.xy
    if dot(w, w) < goal.floor:
        return False
    if abs(cross(u, v)) > 2.0 * goal.area:
        return True
    d = dot(u, v)
    return d > 0.0 and d * d > goal.cos2 * dot(u, u) * dot(v, v) and not on_shell(p, q)


@func
def split_point(s, k):
    """Where to split the segment at side k of triangle s: its middle, or a shell around one end."""
    a, b = s.node[(k + 1) % 3], s.node[(k + 2) % 3]
    d = b.xy - a.xy
    t = 0.5
    if (a.on is None) != (b.on is None):
        length = sqrt(dot(d, d))
        shell = 1.0
        while length > 3.0 * shell:
            shell *= 2.0
        while length < 1.5 * shell:
            shell *= 0.5
        t = shell / length if a.on is None else 1.0 - shell / length
    return a.xy + d * t


# --- topology ------------------------------------------------------------------------------------


@func
def side_of(s, t):
    """The side of s behind which t lies."""
    return 0 if s.nbr[0] == t else (1 if s.nbr[1] == t else 2)


@func
def circle_holds(t, x):
    """Whether x lies inside the circumcircle of triangle t."""
    return incircle(t.node[0].xy, t.node[1].xy, t.node[2].xy, x) > 0


@func
def hides(a, b, x):
    """Whether x encroaches on the segment ab: lies in its diametral circle, or behind it."""
    return dot(a - x, b - x) <= 0.0 or orient2d(a, b, x) <= 0


@func
def grow_cavity(g, x, seed, k, cavity, rim, ring):
    """Collect the triangles whose circle holds x, the edges around them in order, those behind.

    An edge is coded 4 * triangle + side.  Depth first, counter-clockwise: from all sides of the
    seed (k < 0), giving the first segment met that x encroaches on, or -1; or from the end of its
    side k, a segment that x splits, around to its beginning.
    """
    stack = local(i64, 128)
    cavity.add(seed)
    if k < 0:
        stack.add(i64(seed) * 4 + 2)
    stack.add(i64(seed) * 4 + (k + 2) % 3)
    stack.add(i64(seed) * 4 + (k + 1) % 3)
    while stack.size > 0:
        edge = stack.pop()
        s = g.triangles[edge >> 2]
        i = edge & 3
        n = s.nbr[i]
        if s.wall[i] is not None:
            if k < 0 and hides(s.node[(i + 1) % 3].xy, s.node[(i + 2) % 3].xy, x):
                return edge
        elif circle_holds(n, x):
            j = side_of(n, s)
            cavity.add(n)
            stack.add(i64(n) * 4 + (j + 2) % 3)
            stack.add(i64(n) * 4 + (j + 1) % 3)
            continue
        rim.add(edge)
        if n is not None:
            ring.add(n)
    return i64(-1)


@func
def sees_walls(g, x, rim):
    """Whether x lies inside of every segment of the rim; inside of other edges it always does."""
    for edge in rim:
        s, k = g.triangles[edge >> 2], edge & 3
        if s.wall[k] is not None:
            if orient2d(s.node[(k + 1) % 3].xy, s.node[(k + 2) % 3].xy, x) <= 0:
                return False
    return True


@kernel
def find_flaw(t, flaw):
    """Whether a triangle breaks what refinement relies on: orientation, neighbours, Delaunay."""
    a, b, c = t.node
    good = orient2d(a.xy, b.xy, c.xy) > 0
    for k in range(3):
        n = t.nbr[k]
        if n is None:
            good = good and t.wall[k] is not None
        else:
            j = side_of(n, t)
            good = good and n.nbr[j] == t
            if t.wall[k] is None:
                good = good and incircle(a.xy, b.xy, c.xy, n.node[j].xy) <= 0
    if not good:
        flaw.set()


# --- refinement ----------------------------------------------------------------------------------


@kernel
def find_bad(t, bad, goal):
    if is_bad(t.node[0], t.node[1], t.node[2], goal):
        bad.add(t, t.node[0])


@kernel
def refine_one(item, g, again, stuck, goal):
    t = item.item
    if t.node[0] != item.apex:
        return  # rewritten since: whoever did has judged the new triangle
    p, q, r = shortest_edge(t.node[0], t.node[1], t.node[2])
    e = q.xy - p.xy
    worst = i64(log(dot(e, e) * goal.scale) * 2.885) + 40
    x = off_centre(p.xy, q.xy, r.xy, goal.reach)
    cavity = g.triangles.local(128)
    rim = local(i64, 128)
    ring = g.triangles.local(128)
    cut = grow_cavity(g, x, t, i64(-1), cavity, rim, ring)
    wall, first, last = None, None, None
    turn = i64(-1)
    inserts = circle_holds(t, x)  # else x was rounded out of its own circle
    if cut >= 0:
        s, k = g.triangles[cut >> 2], cut & 3
        wall, first, last = s.wall[k], s.node[(k + 2) % 3], s.node[(k + 1) % 3]
        x = split_point(s, k)
        cavity.clear()
        rim.clear()
        ring.clear()
        grow_cavity(g, x, s, k, cavity, rim, ring)
        n = s.nbr[k]
        inserts = circle_holds(s, x)
        if n is not None:
            turn = rim.size
            grow_cavity(g, x, n, side_of(n, s), cavity, rim, ring)
            inserts = inserts and circle_holds(n, x)
        inserts = inserts and sees_walls(g, x, rim)
    if not inserts:
        stuck.add(t, item.apex)
    elif single(cavity, guard=ring, priority=worst):
        new = g.points.new(xy=x, on=wall)
        begin = g.points.local(128)
        outer = g.triangles.local(128)
        walls = g.segments.local(128)
        sides = local(i64, 128)
        origins = local(i32, 128)
        fan = g.triangles.local(128)
        for edge in rim:
            s, k = g.triangles[edge >> 2], edge & 3
            o = s.nbr[k]
            begin.add(s.node[(k + 1) % 3])
            outer.add(o)
            walls.add(s.wall[k])
            origins.add(s.origin)
            sides.add(i64(0) if o is None else side_of(o, s))
        for i in range(rim.size):
            fan.add(cavity[i] if i < cavity.size else g.triangles.new())
        size = rim.size
        closed = cut < 0 or turn >= 0
        for i in range(size):
            s = fan[i]
            a = begin[i]
            b = begin[i + 1] if i + 1 < size else (begin[0] if closed else last)
            after = fan[i + 1] if i + 1 < size else (fan[0] if closed else None)
            before = fan[i - 1] if i > 0 else (fan[size - 1] if closed else None)
            s.origin = origins[i]
            s.node = vector(new, a, b)
            s.nbr = vector(outer[i], after, before)
            s.wall = vector(
                walls[i],
                wall if b == first or b == last else None,
                wall if a == first or a == last else None,
            )
            if outer[i] is not None:
                outer[i].nbr[sides[i]] = s
            if is_bad(new, a, b, goal):
                again.add(s, new)
        if t not in cavity:
            again.add(t, item.apex)
    else:
        again.add(t, item.apex)


@program
def refine_all(g, work, again, stuck, goal):
    rounds = 0
    while not work.empty:
        foreach(work, refine_one, g, again, stuck, goal)
        work, again = again, work
        again.clear()
        rounds += 1
    return rounds


class Refined(NamedTuple):
    """The refined ``mesh``, the ``rounds`` it took, and how many triangles are ``stuck``."""

    mesh: Mesh
    rounds: int
    stuck: int


def refine(
    mesh: Mesh,
    min_angle: float = 20.0,
    max_area: float | None = None,
    device: str | Device = "auto",
    progress: Callable[[int, int, int], None] | None = None,
) -> Mesh:
    """Refine a constrained Delaunay triangulation until its angles and areas are good.

    Parameters
    ----------
    mesh : Mesh
        Constrained Delaunay; its segments and hull are kept, split where needed.
    min_angle : float
        In degrees, 0 to 34.  Above 20.7 the method is not proven to end, but does in practice;
        where two segments meet in a smaller angle, small angles stay beside them.
    max_area : float, optional
        Largest area of a triangle, in squared units of the coordinates.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:N"`` or ``"python"``.
    progress : callable, optional
        Called after each round with (rounds, bad triangles left, triangles); the rounds then run
        launch by launch.

    Returns
    -------
    Mesh
        Points of the input first, new ones after; triangles in no particular order.

    Raises
    ------
    ValueError
        If an option is out of range.
    MeshError
        If the mesh is not a constrained Delaunay triangulation.
    """
    return refine_with_report(mesh, min_angle, max_area, device, progress).mesh


def refine_with_report(
    mesh: Mesh,
    min_angle: float = 20.0,
    max_area: float | None = None,
    device: str | Device = "auto",
    progress: Callable[[int, int, int], None] | None = None,
) -> Refined:
    """Refine as `refine` does, and tell how it went.

    Returns
    -------
    Refined
    """
    if not 0 <= min_angle <= 34:
        raise ValueError(f"min_angle is from 0 to 34 degrees, not {min_angle}")
    if max_area is not None and not max_area > 0:
        raise ValueError(f"max_area must be positive, not {max_area}")
    if not len(mesh.triangles):
        return Refined(mesh, 0, 0)
    with counting("transfer"):
        g = graph_of(mesh, device)
    flaw = Flag(g)
    foreach(g.triangles, find_flaw, flaw)
    if flaw:
        mesh.check()  # says what is wrong
        raise MeshError(mesh.violations())
    goals = Table("goals", g.device, cos2=f64, area=f64, reach=f64, floor=f64, scale=f64)
    cosine = math.cos(math.radians(min_angle))
    extent = np.ptp(mesh.points, axis=0).max()
    area = float(np.ptp(mesh.points, axis=0).prod()) / len(mesh.triangles)
    goals.new(
        cos2=cosine**2,
        area=math.inf if max_area is None else max_area,
        reach=0.475 * math.sqrt((1 + cosine) / max(1 - cosine, 1e-9)),
        floor=max(extent * 2.0**-40, np.abs(mesh.points).max() * 2.0**-48) ** 2,
        scale=1.0 / max(area, 1e-300),
    )
    most = len(g.triangles)
    work, again, stuck = (
        Collection(g.triangles, capacity=n, apex=Ref(g.points)) for n in (most, most, 0)
    )
    foreach(g.triangles, find_bad, work, goals[0])
    if progress is None:
        rounds = refine_all(g, work, again, stuck, goals[0])
    else:
        rounds = 0
        while not work.empty:
            foreach(work, refine_one, g, again, stuck, goals[0])
            work, again = again, work
            again.clear()
            rounds += 1
            progress(rounds, len(work), len(g.triangles))
    with counting("transfer"):
        refined = mesh_of(g, mesh)
    return Refined(refined, rounds, len(stuck))
