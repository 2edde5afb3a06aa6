"""Every iterator of the language against lists in Python, on random graphs and meshes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import Delaunay
from small import values
from targets import everywhere, host, tries

import morph
from morph.prelude import atomic_add, bool_, f64, i64, incircle, orient2d, single, struct, vector


@st.composite
def graphs(draw, most=7):
    """Points and edges in the order of their ids: parallel ones, loops and islands too."""
    n = draw(st.integers(1, most))
    ends = st.integers(0, n - 1)
    return n, sorted(draw(st.lists(st.tuples(ends, ends), max_size=3 * most)), key=lambda e: e[0])


def graph(target, n, edges, **more):
    src, dst = (np.array([e[i] for e in edges], np.int32) for i in (0, 1))
    return morph.Graph.from_edges(src, dst, n=n, device=target, **more)


def fold(ids):
    h = 1
    for i in ids:
        h = (h * 31 + i + 1 + 2**63) % 2**64 - 2**63
    return h


class Model:
    """Adjacency as lists: the edges out of and into each point, ascending."""

    def __init__(self, n, edges):
        self.n, self.edges = n, edges
        self.out = [[e for e, (s, _) in enumerate(edges) if s == p] for p in range(n)]
        self.into = [[e for e, (_, d) in enumerate(edges) if d == p] for p in range(n)]

    def outnbrs(self, p):
        return [self.edges[e][1] for e in self.out[p]]

    def innbrs(self, p):
        return [self.edges[e][0] for e in self.into[p]]

    def around(self, p, but):
        """The other edges at a point."""
        return [e for e in self.out[p] + self.into[p] if e != but]


@morph.kernel
def walk(p, g, cut):
    h = i64(1)
    for t in p.outnbrs:
        h = h * 31 + t.id + 1
    p.outnbrs_ = h
    h = 1
    for t in p.innbrs:
        h = h * 31 + t.id + 1
    p.innbrs_ = h
    h = 1
    for t in p.nbrs:
        h = h * 31 + t.id + 1
    p.nbrs_ = h
    h = 1
    for e in p.outedges:
        h = h * 31 + e.id + 1
    p.outedges_ = h
    h = 1
    for e in p.inedges:
        h = h * 31 + e.id + 1
    p.inedges_ = h
    h = 1
    for e in p.edges:
        h = h * 31 + e.id + 1
    p.edges_ = h
    h = 1
    for t in p.outnbrs[cut:]:
        h = h * 31 + t.id + 1
    p.late = h
    h = 1
    for t in reversed(p.nbrs):
        h = h * 31 + t.id + 1
    p.back = h
    h = 1
    for e in reversed(p.inedges)[cut:]:
        h = h * 31 + e.id + 1
        if e.src == p:
            break
    p.part = h
    p.degrees = vector(p.out_degree, p.in_degree, p.degree)


def walked(m, cut):
    back = [list(reversed(m.into[p]))[cut:] for p in range(m.n)]
    part = []
    for p, ids in enumerate(back):
        loops = [i for i, e in enumerate(ids) if m.edges[e][0] == p]
        part.append(ids[: loops[0] + 1] if loops else ids)
    return {
        "outnbrs_": [m.outnbrs(p) for p in range(m.n)],
        "innbrs_": [m.innbrs(p) for p in range(m.n)],
        "nbrs_": [m.outnbrs(p) + m.innbrs(p) for p in range(m.n)],
        "outedges_": m.out, "inedges_": m.into,
        "edges_": [a + b for a, b in zip(m.out, m.into, strict=True)],
        "late": [m.outnbrs(p)[cut:] for p in range(m.n)],
        "back": [(m.outnbrs(p) + m.innbrs(p))[::-1] for p in range(m.n)],
        "part": part,
    }  # fmt: skip


@tries(15)
@given(graphs(), st.integers(0, 3))
def test_points(target, edges, cut):
    """Neighbours and edges, out, in and both; from a position on; backwards; left early."""
    m = Model(*edges)
    want = walked(m, cut)

    def run():
        g = graph(target, *edges)
        for name in want:
            g.points.add(name, i64)
        g.points.add("degrees", morph.vec(i64, 3))
        morph.foreach(g.points, walk, g, cut)
        for name, lists in want.items():
            assert host(g.points.__getattr__(name)).tolist() == [fold(x) for x in lists], name
        degrees = [[len(a), len(b), len(a) + len(b)] for a, b in zip(m.out, m.into, strict=True)]
        assert host(g.points.degrees).tolist() == degrees

    everywhere(target, run)


@morph.kernel
def first_of_them(p, low):
    t = p
    for t in p.outnbrs:
        if t.mark < low and t.mark != p.mark:
            p.first = t.id
            break
    p.last = t.id  # where the loop ended
    for t in p.other.outnbrs:
        if t.mark == low:
            p.far = t.id
            break
    for e in p.inedges:
        if e.w == low or e.w == 7:
            p.edge = e.id
            p.edge += 100
            break


@pytest.mark.unchecked
@tries(12)
@given(graphs(), st.integers(0, 4))
def test_first_of_a_row(target, edges, low):
    """The first edge for which something holds; behind the loop, its names are of the last one."""
    m = Model(*edges)
    n, at = m.n, [e for e, _ in enumerate(m.edges)]
    mark, w = [(3 * i) % 5 for i in range(n)], [(5 * e) % 9 for e in at]

    def first(p):
        for e in m.out[p]:
            t = m.edges[e][1]
            if mark[t] < low and mark[t] != mark[p]:
                return t, t
        return -1, m.edges[m.out[p][-1]][1] if m.out[p] else p

    def edge(p):
        return next((e + 100 for e in m.into[p] if w[e] in (low, 7)), -1)

    def far(p):
        return next((t for t in m.outnbrs(p) if mark[t] == low), -1)

    def run():
        g = graph(target, *edges)
        g.points.add("mark", i64)
        g.edges.add("w", i64)
        g.points.add("other", morph.Ref(g.points))
        g.points.mark[:], g.edges.w[:] = mark, w
        g.points.other[:] = [n - 1 - p for p in range(n)]
        for name in ("first", "last", "edge", "far"):
            g.points.add(name, i64, fill=-1)
        morph.foreach(g.points, first_of_them, low)
        assert host(g.points.first).tolist() == [first(p)[0] for p in range(n)]
        assert host(g.points.last).tolist() == [first(p)[1] for p in range(n)]
        assert host(g.points.edge).tolist() == [edge(p) for p in range(n)]
        assert host(g.points.far).tolist() == [far(n - 1 - p) for p in range(n)]

    everywhere(target, run)
    if target == "cpu":
        assert first_of_them.source().count("find_first(") == 3


@morph.kernel
def at_ends(e, g):
    h = i64(1)
    for f in e.nbr1:
        h = h * 31 + f.id + 1
    e.first = h
    h = 1
    for f in e.nbr2:
        h = h * 31 + f.id + 1
    e.second = h
    h = 1
    for f in e.nbrs:
        h = h * 31 + f.id + 1
    e.all = h
    e.length = g.weight(e.src, e.dst)
    f = g.edge(e.dst, e.src)
    e.back = -1 if f is None else f.id


@tries(12)
@given(graphs())
def test_edges(target, edges):
    """The other edges at either end; the edge back, the first of several."""
    m = Model(*edges)
    weight = np.arange(len(m.edges)) * 10

    def run():
        g = graph(target, *edges, weight=weight)
        for name in ("first", "second", "all", "back", "length"):
            g.edges.add(name, i64)
        morph.foreach(g.edges, at_ends, g)
        first = [m.around(s, e) for e, (s, d) in enumerate(m.edges)]
        second = [m.around(d, e) for e, (s, d) in enumerate(m.edges)]
        assert host(g.edges.first).tolist() == [fold(x) for x in first]
        assert host(g.edges.second).tolist() == [fold(x) for x in second]
        both = [fold(a + b) for a, b in zip(first, second, strict=True)]
        assert host(g.edges.all).tolist() == both
        back = [next((e for e in m.out[d] if m.edges[e][1] == s), -1) for s, d in m.edges]
        assert host(g.edges.back).tolist() == back
        assert host(g.edges.length).tolist() == [10 * m.edges.index(e) for e in m.edges]

    everywhere(target, run)


@morph.kernel
def over_all(r, g, work, cut):
    h = i64(1)
    for p in g.points:
        h = h * 31 + p.id + 1
    r.points = h
    h = 1
    for e in reversed(g.edges):
        h = h * 31 + e.dst.id + 1
    r.edges = h
    h = 1
    for t in g.parts[cut:]:
        h = h * 31 + t.x + 1
    r.parts = h
    h = 1
    for p in work:
        h = h * 31 + p.id + 1
    r.work = h
    h = 1
    for p in reversed(work)[cut:]:
        h = h * 31 + p.id + 1
    r.krow = h
    r.sizes = vector(len(g.points), len(g.parts), len(work))


@tries(12)
@given(graphs(), st.lists(st.integers(0, 99), max_size=6), st.integers(0, 3), st.data())
def test_tables_and_collections(target, edges, parts, cut, data):
    """Whole tables and collections inside a kernel; dead rows are passed over."""
    n, ends = edges
    work = data.draw(st.lists(st.integers(0, n - 1), max_size=6))
    dead = data.draw(st.sets(st.integers(0, len(parts) - 1))) if parts else set()

    def run():
        g = graph(target, n, ends)
        g.add_table("parts", x=i64)
        g.parts.extend(x=np.array(parts, np.int64))
        if dead:
            g.parts.delete(sorted(dead))
        items = morph.Collection(g.points)
        items.extend(np.array(work, np.int64))
        names = ("points", "edges", "parts", "work", "krow")
        t = morph.Table("t", target, **dict.fromkeys(names, i64), sizes=morph.vec(i64, 3))
        t.extend(2)
        morph.foreach(t, over_all, g, items, cut)
        want = {
            "points": range(n), "edges": [d for _, d in ends][::-1],
            "parts": [x for i, x in enumerate(parts) if i >= cut and i not in dead],
            "work": work, "krow": work[::-1][cut:],
        }  # fmt: skip
        for name, ids in want.items():
            assert host(t.__getattr__(name)).tolist() == [fold(ids)] * 2, name
        assert host(t.sizes).tolist() == [[n, len(parts), len(work)]] * 2

    everywhere(target, run)


@morph.kernel
def undirected(p):
    h = i64(1)
    for t in p.nbrs:
        h = h * 31 + t.id + 1
    for e in p.edges:
        h = h * 31 + e.id + 1
    for t in p.innbrs:
        h = h * 31 + t.id + 1
    p.out = h * 31 + p.in_degree


@tries(8)
@given(graphs())
def test_symmetric_graphs_have_one_kind_of_neighbour(target, edges):
    n, ends = edges
    arcs = sorted({(s, d) for a, b in ends for s, d in ((a, b), (b, a))})
    m = Model(n, arcs)

    def run():
        g = graph(target, n, arcs, symmetric=True)
        g.points.add("out", i64)
        morph.foreach(g.points, undirected)
        near = [m.outnbrs(p) for p in range(n)]
        want = [fold([*q, *m.out[p], *q, len(q) - 1]) for p, q in enumerate(near)]
        assert host(g.points.out).tolist() == want
        assert target == "python" or "in_offset" not in undirected.source()  # one index is enough

    everywhere(target, run)


# --- meshes --------------------------------------------------------------------------------------


@morph.func
def opposite(t, n):
    """The vertex of n that t has not."""
    for k in range(3):
        if n.nbr[k] == t:
            return n.node[k]
    return n.node[0]


@morph.kernel
def classify(t):
    a, b, c = t.node[0].xy, t.node[1].xy, t.node[2].xy
    t.turn = orient2d(a, b, c)
    u, v = b - a, c - a
    t.area = 0.5 * (u.x * v.y - u.y * v.x)
    t.delaunay = True
    for k in range(3):
        n = t.nbr[k]
        if n is not None and incircle(a, b, c, opposite(t, n).xy) > 0:
            t.delaunay = False


@morph.kernel
def flip(t, again):
    """Turn the diagonal of two triangles that are not Delaunay; Lawson's step."""
    for k in range(3):
        n = t.nbr[k]
        if n is None:
            continue
        a, b, c, d = t.node[k], t.node[(k + 1) % 3], t.node[(k + 2) % 3], opposite(t, n)
        if incircle(a.xy, b.xy, c.xy, d.xy) > 0:
            t.side = k
            again.set()


@morph.kernel
def turn(t, g, lost):
    k = i64(t.side)
    side = i64(0)
    near = g.triangles.local(8)
    n = t.nbr[k] if k >= 0 else None
    if n is not None:
        near.add(t)
        near.add(n)
        for i in range(3):
            if n.nbr[i] == t:
                side = i
            elif n.nbr[i] is not None:
                near.add(n.nbr[i])
            if i != k and t.nbr[i] is not None:
                near.add(t.nbr[i])
        a, b, c, d = t.node[k], t.node[(k + 1) % 3], t.node[(k + 2) % 3], n.node[side]
        if incircle(a.xy, b.xy, c.xy, d.xy) > 0:
            if single(near):
                tb, tc = t.nbr[(k + 2) % 3], t.nbr[(k + 1) % 3]  # across ab, across ca
                nb, nc = n.nbr[(side + 1) % 3], n.nbr[(side + 2) % 3]  # across bd, across dc
                t.node, n.node = vector(a, b, d), vector(a, d, c)
                t.nbr, n.nbr = vector(nb, n, tb), vector(nc, tc, t)
                for i in range(3):
                    if nb is not None and nb.nbr[i] == n:
                        nb.nbr[i] = t
                    if tc is not None and tc.nbr[i] == t:
                        tc.nbr[i] = n
            else:
                lost.set()


def triangulation(points):
    """Corners and neighbours, all turning left."""
    d = Delaunay(points)
    corner, nbr = d.simplices.astype(np.int32), d.neighbors.astype(np.int32)
    p = points[corner]
    u, v = p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]
    wrong = u[:, 0] * v[:, 1] < u[:, 1] * v[:, 0]
    corner[wrong], nbr[wrong] = corner[wrong][:, [0, 2, 1]], nbr[wrong][:, [0, 2, 1]]
    return corner, nbr


def mesh(target, points, corner, nbr):
    g = morph.Graph(target)
    g.points.add("xy", morph.vec(f64, 2))
    g.points.extend(xy=points)
    g.add_table(
        "triangles", node=morph.Ref("points")[3], nbr=morph.Ref("triangles")[3], turn=np.int32,
        area=f64, delaunay=bool_, side=i64, pack=("node", "nbr"),
    )  # fmt: skip
    g.triangles.extend(node=corner, nbr=nbr)
    return g


@pytest.mark.parametrize("seed", range(4))
def test_meshes_are_flipped_to_the_one_delaunay_triangulation(target, seed):
    """Move the points a little: the triangulation stays one, but is Delaunay's no more."""
    rng = np.random.default_rng(seed)
    points = rng.random((60, 2))
    corner, nbr = triangulation(points)
    moved, step = points.copy(), 0.08
    while True:
        p = moved[corner]
        u, v = p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]
        if step < 0.08 and (u[:, 0] * v[:, 1] > u[:, 1] * v[:, 0]).all():
            break
        step /= 2
        moved = points + step * (rng.random(points.shape) - 0.5)

    def run():
        g = mesh(target, moved, corner, nbr)
        morph.foreach(g.triangles, classify)
        assert (host(g.triangles.turn) == 1).all()
        area = 0.5 * (u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0])
        assert np.array_equal(g.triangles.area, area)
        again, lost = morph.Flag(g), morph.Flag(g)
        rounds = 0
        again.set()
        while again.take():
            g.triangles.side[:] = -1
            morph.foreach(g.triangles, flip, again)
            morph.foreach(g.triangles, turn, g, lost)
            rounds += 1
            assert rounds < 200
        morph.foreach(g.triangles, classify)
        assert host(g.triangles.delaunay).all() and (host(g.triangles.turn) == 1).all()
        assert host(g.triangles.area).sum() == pytest.approx(area.sum())
        return sorted(tuple(sorted(t)) for t in host(g.triangles.node).tolist())

    found = everywhere(target, run)
    assert all(shape == found[0] for shape in found)
    assert found[0] != sorted(tuple(sorted(t)) for t in corner.tolist())


@morph.kernel
def bit_of_edge(p):
    for e in p.outedges:
        if e.open and p.bits[e.id] == 1:
            p.found = e.id
            break


def test_an_edge_behind_the_first_may_be_no_index(target):
    """So it is not asked of together with those before it."""
    g = graph(target, 4, [(0, 1), (0, 2), (0, 3), (0, 0)])
    g.points.add("bits", morph.vec(np.int32, 2))
    g.points.add("found", i64, fill=-1)
    g.edges.add("open", bool_, fill=True)
    g.points[0].bits = [0, 1]
    morph.foreach(g.points, bit_of_edge, where=lambda p: p.id == 0)
    assert host(g.points.found).tolist() == [1, -1, -1, -1]
    if target == "cpu":
        assert "find_first(" not in bit_of_edge.source()


# --- the edge of a loop, whose point is another expression than a local --------------------------


@struct
class Pair:
    near: morph.Ref("points")
    far: i64


@morph.kernel
def walk_entries(entry, g):
    for t in entry.item.outnbrs:
        atomic_add(entry.item.x, g.weight(entry.item, t))
    for t in entry.outnbrs:
        atomic_add(entry.item.y, i64(g.edge(entry.item, t).id))


@morph.kernel
def walk_expressions(p, g):
    for t in g.points[p.id].outnbrs:
        p.x += g.weight(g.points[p.id], t)
    for t in p.next.outnbrs:
        p.y += g.weight(p.next, t)


@morph.kernel
def walk_structs(p, g):
    pair = Pair(p.next, 3)
    mine = g.points.local(2)
    mine.add(p)
    for t in pair.near.outnbrs:
        p.y += g.weight(pair.near, t)
    for t in mine[0].outnbrs:
        p.x += g.weight(mine[0], t)


@morph.kernel
def walk_while_it_moves(p, g):
    """The point of the expression changes: its edges to the same neighbours are meant."""
    p.next = p
    for t in p.next.outnbrs:
        p.x += g.weight(p.next, t)
        p.next = g.points[1]
    i = 0
    for t in g.points[i].outnbrs:
        i = 1
        p.y += g.weight(g.points[i], t)


@morph.kernel
def delete_heavy(entry, g):
    for t in entry.item.outnbrs:
        if g.weight(entry.item, t) > 5:
            g.edge(entry.item, t).delete()


def parallel(target):
    """Edges 0 -> 1 three times, and 1 -> 1, 1 -> 2."""
    ends = [0, 0, 0, 0, 1, 1, 2], [1, 1, 2, 1, 1, 2, 0]
    g = morph.Graph.from_edges(*ends, weight=[5, 7, 1, 20, 100, 300, 4], n=3, device=target)
    g.points.add("x", i64)
    g.points.add("y", i64)
    g.points.add("next", morph.Ref("points"))
    for i in range(3):
        g.points[i].next = g.points[(i + 1) % 3]
    return g


def test_the_edge_of_a_loop_by_equal_expressions(target):
    def run():
        g = parallel(target)
        entries = morph.Collection(g.points, key=i64)
        entries.extend([0, 1, 2], key=[0, 0, 0])
        morph.foreach(entries, walk_entries, g)
        sums = [33, 400, 4]
        assert values(g.points, "x") == sums and values(g.points, "y") == [6, 9, 6]
        for kernel in (walk_expressions, walk_structs):
            g.points.x[:] = 0
            g.points.y[:] = 0
            morph.foreach(g.points, kernel, g)
            assert values(g.points, "x") == sums and values(g.points, "y") == [400, 4, 33]
        morph.foreach(entries, delete_heavy, g)
        assert sorted(e.weight for e in g.edges) == [1, 4, 5]

    everywhere(target, run)


def test_an_expression_that_changes_is_another_point(target):
    def run():
        g = parallel(target)
        g.points.x[:] = 0
        morph.foreach(g.points[:1], walk_while_it_moves, g)
        # the first edge is walked; then those of point 1 to 1, 2 and 1 are sought
        assert values(g.points, "x")[0] == 5 + 100 + 300 + 100
        assert values(g.points, "y")[0] == 100 + 100 + 300 + 100

    everywhere(target, run)
