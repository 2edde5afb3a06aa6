"""Graphs: edge lists, adjacency against a brute-force model, copies, compaction."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from morph.graph import Graph
from morph.language.dtypes import NAMES, Ref, f64, i32


@st.composite
def edge_lists(draw, n_most=12, m_most=30):
    n = draw(st.integers(1, n_most))
    ids = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(ids, ids), max_size=m_most))
    return n, pairs


def model_lists(g, direction):
    """Each point's edge ids, from the columns alone."""
    src, dst = g.edges.src[:], g.edges.dst[:]
    alive, points = g.edges.alive, g.points.alive
    near = src if direction == "out" else dst
    ok = [a and u >= 0 <= v and points[u] and points[v]
          for a, u, v in zip(alive, src, dst, strict=True)]  # fmt: skip
    return [[e for e in range(len(src)) if ok[e] and near[e] == p] for p in range(len(g.points))]


def lists(g, direction):
    offsets, ids = g.adjacency(direction)
    assert offsets.dtype == np.int64 and len(offsets) == len(g.points) + 1
    ids = np.arange(offsets[-1]) if ids is None else ids
    return [ids[a:b].tolist() for a, b in zip(offsets[:-1], offsets[1:], strict=True)]


def check(g):
    for direction in ("out", "in"):
        assert lists(g, direction) == model_lists(g, direction)
    out = lists(g, "out")
    if g.out_identity:
        assert sum(out, []) == list(range(len(g.edges)))
        assert g.adjacency("out")[1] is None
    src, dst = g.edges.src[:], g.edges.dst[:]
    assert g.degree().tolist() == [len(x) for x in out]
    assert g.degree(direction="in").tolist() == [len(x) for x in lists(g, "in")]
    for u in range(0, len(g.points), 3):
        assert g.degree(u) == len(out[u])
        for v in range(len(g.points)):
            found = next((e for e in out[u] if dst[e] == v), None)
            assert g.edge(u, v) == found
            if found is None:
                with pytest.raises(KeyError):
                    g.weight(u, v)
            else:
                weights = g.edges.weight if "weight" in g.edges.columns else np.ones(len(dst))
                assert g.weight(u, v) == weights[found]
    offsets, ends, weight = g.csr()
    assert ends.tolist() == [dst[e] for p in out for e in p] and offsets[-1] == len(ends)
    if "weight" in g.edges.columns:
        assert weight.tolist() == [g.edges.weight[e] for p in out for e in p]
    assert all(src[e] == p for p, es in enumerate(out) for e in es)


@given(edge_lists(), st.booleans(), st.booleans())
def test_from_edges(case, weighted, symmetrize):
    n, pairs = case
    src, dst = np.array(pairs, int).reshape(-1, 2).T
    weight = np.arange(len(pairs), dtype=np.float32) if weighted else None
    g = Graph.from_edges(src, dst, weight, n, symmetrize=symmetrize)
    arcs = [(u, v, k) for k, (u, v) in enumerate(pairs)]
    if symmetrize:
        arcs += [(v, u, k) for u, v, k in arcs if u != v]
    arcs.sort(key=lambda a: a[0])
    assert len(g.points) == n and g.out_identity and g.directed != symmetrize
    assert list(zip(g.edges.src, g.edges.dst, strict=True)) == [a[:2] for a in arcs]
    order = range(len(arcs)) if g.edge_order is None else g.edge_order.tolist()
    assert list(order) == [a[2] for a in arcs]
    if weighted:
        assert g.edges.weight.dtype == np.float32
        assert g.edges.weight[:].tolist() == [a[2] for a in arcs]
    check(g)
    if symmetrize:
        assert g.degree().tolist() == g.degree(direction="in").tolist()
        again = Graph.from_edges(*g.edge_list()[:2], n=n, symmetric=True)
        assert not again.directed and again.edge_list()[0].tolist() == g.edges.src[:].tolist()


@given(edge_lists(), st.data())
def test_edges_and_points_that_come_and_go(case, data):
    n, pairs = case
    src, dst = np.array(pairs, int).reshape(-1, 2).T
    g = Graph.from_edges(src, dst, np.arange(len(pairs)), n)
    for _ in range(data.draw(st.integers(1, 6))):
        what = data.draw(
            st.sampled_from(["point", "edge", "edges", "drop", "kill", "write", "squeeze"])
        )
        ids = st.sampled_from(g.points.ids().tolist())
        if what == "point":
            g.points.new()
        elif what == "edge":
            g.edges.new(data.draw(ids), data.draw(ids), 77)
        elif what == "edges":
            more = data.draw(st.lists(st.tuples(ids, ids), min_size=1, max_size=4))
            g.edges.extend(src=[a for a, _ in more], dst=[b for _, b in more], weight=5)
        elif what == "drop":
            g.edges.delete(data.draw(st.sets(st.integers(0, 99))) & set(range(len(g.edges))))
        elif what == "kill" and g.points.live > 1:
            g.points.delete(data.draw(ids))
        elif what == "write" and len(g.edges):
            g.edges[data.draw(st.integers(0, len(g.edges) - 1))].dst = data.draw(ids)
        elif what == "squeeze":
            left = [g.edges.weight[e] for p in lists(g, "out") for e in p]
            g.compact()
            assert g.edges.weight[:].tolist() == left and g.out_identity
            assert g.points.live == len(g.points) and g.edges.live == len(g.edges)
        check(g)
    check(g.to("python"))


@pytest.mark.parametrize(
    ("src", "dst", "kwargs", "message"),
    [
        ([0, 1], [1], {}, "src has 2 values and dst 1"),
        ([0, 3], [1, 1], {"n": 3}, r"src\[1\] = 3 is not a row of points \(3 rows\)"),
        ([0, 1, 1], [1, 1, -1], {}, r"dst\[2\] = -1"),
        ([0, 2**31], [1, 1], {}, r"src\[1\] = 2147483648"),
        ([[0, 1]], [[1, 0]], {}, r"src has shape \(1, 2\)"),
        ([0.0], [1.0], {}, "src holds float64"),
        ([True], [False], {}, "src holds bool"),
        ([0], [1], {"weight": [1, 2]}, r"weight has shape \(2,\) for 1 edges"),
        ([0], [1], {"weight": ["x"]}, "weight"),
        ([0], [1], {"n": -1}, "n = -1"),
        ([0, 1], [1, 2], {"symmetric": True}, "point 0 has 1 edges out and 0 in"),
    ],
)
def test_what_from_edges_refuses(src, dst, kwargs, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Graph.from_edges(src, dst, **kwargs)


@pytest.mark.parametrize("dtype", list(NAMES), ids=str)
def test_weights_of_every_type(dtype):
    weight = np.array([0, 1, 1]).astype(dtype)
    g = Graph.from_edges([2, 0, 1], [0, 1, 2], weight)
    assert g.edges.weight.dtype == dtype and g.csr()[2].tolist() == weight[[1, 2, 0]].tolist()


def test_empty_and_edgeless_graphs():
    for g in (Graph(), Graph.from_edges([], []), Graph.from_edges([], [], n=4)):
        check(g)
        assert g.adjacency("in")[0].tolist() == [0] * (len(g.points) + 1)
        g.compact()
        check(g)
    assert list(Graph().tables) == ["points", "edges"] and not Graph().out_identity


def test_views_are_not_copies():
    g = Graph.from_edges([0, 1], [1, 0], weight=[1.0, 2.0])
    _, dst, weight = g.csr()
    assert np.shares_memory(dst, g.edges.dst.array)
    assert np.shares_memory(weight, g.edges.weight.array)
    assert all(map(np.shares_memory, g.edge_list(), [c.array for c in g.edges.columns.values()]))
    src = np.array([0, 1], np.int32)
    Graph.from_edges(src, src)
    assert src.tolist() == [0, 1]


@given(edge_lists())
def test_from_csr_and_scipy(case):
    n, pairs = case
    a, b = np.array(pairs, int).reshape(-1, 2).T
    matrix = sp.coo_array((np.ones(len(pairs)), (a, b)), shape=(n, n))
    for m in (matrix, matrix.tocsr(), sp.csc_matrix(matrix)):
        g = Graph.from_scipy(m)
        offsets, dst, weight = g.csr()
        back = sp.csr_array((weight, dst, offsets), shape=(n, n))
        assert (back != matrix.tocsr()).nnz == 0
        check(g)
    csr = matrix.tocsr()
    g = Graph.from_csr(csr.indptr, csr.indices)
    assert g.csr()[0].tolist() == csr.indptr.tolist() and g.csr()[2] is None
    assert "weight" not in Graph.from_scipy(csr, weight=False).edges.columns
    both = Graph.from_scipy(csr + csr.T, symmetric=True)
    assert not both.directed


def test_what_from_csr_refuses():
    for offsets in ([], [1, 2], [0, 1], [0, 3, 2], [0.0, 2.0], [[0, 2]]):
        with pytest.raises(ValueError, match="offsets"):
            Graph.from_csr(offsets, [0, 0])
    with pytest.raises(ValueError, match=r"dst\[1\] = 2"):
        Graph.from_csr([0, 1, 2], [0, 2])
    with pytest.raises(ValueError, match="square"):
        Graph.from_scipy(sp.csr_array((2, 3)))


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_from_networkx(kind):
    h = kind()
    h.add_nodes_from("dcba")
    h.add_edge("a", "b", weight=2.5)
    h.add_edge("b", "c")
    h.add_edge("b", "c", color="red")
    h.add_edge("c", "c")
    g = Graph.from_networkx(h)
    nodes = list(h)
    assert g.directed == h.is_directed() and len(g.points) == 4
    expected = sorted(
        (nodes.index(x), nodes.index(y), w)
        for u, v, w in h.edges(data="weight", default=1)
        for x, y in ({(u, v), (v, u)} if not h.is_directed() else {(u, v)})
    )
    assert sorted(zip(*map(lambda a: a.tolist(), g.edge_list()), strict=True)) == expected
    assert "weight" not in Graph.from_networkx(h, weight=None).edges.columns
    assert "weight" not in Graph.from_networkx(h, weight="length").edges.columns
    assert len(Graph.from_networkx(kind()).points) == 0


@given(edge_lists(), st.integers(0, 9))
def test_sorted_edges(case, seed):
    n, pairs = case
    src, dst = np.array(pairs, int).reshape(-1, 2).T
    weight = np.random.default_rng(seed).integers(-3, 3, len(pairs))
    g = Graph.from_edges(src, dst, weight, n)
    ids = g.edges.weight[:].tolist()
    g.sort_edges("weight")
    assert not g.out_identity and g.edges.weight[:].tolist() == ids

    def expected():
        return [sorted(es, key=lambda e: (g.edges.weight[e], e)) for es in model_lists(g, "out")]

    assert lists(g, "out") == expected()
    assert lists(g, "in") == model_lists(g, "in")
    g.edges.new(0, 0, -1)
    assert lists(g, "out") == expected() == lists(g.to("cpu"), "out")
    g.compact()
    assert g.out_identity and lists(g, "out") == expected()
    g.sort_edges(None)
    assert lists(g, "out") == model_lists(g, "out")


def test_sort_edges_by_what():
    g = Graph.from_edges([0], [0])
    g.edges.add("v", (f64, 2))
    for bad in ("weight", "v"):
        with pytest.raises(ValueError):
            g.sort_edges(bad)


# --- tables of a graph ---------------------------------------------------------------------------


def test_tables():
    g = Graph("python")
    cells = g.add_table("cells", pack=("a", "next"), a=i32, next=Ref("cells"), other=Ref("later"))
    assert g.cells is cells is g.tables["cells"] and cells.graph is g
    assert list(g.tables) == ["points", "edges", "cells"] and cells.device.name == "python"
    cells.extend(2, other=[5, -1])  # the table referred to may come later
    assert cells[0].other == 5 and cells[1].other is None
    g.add_table("later", x=f64).extend(6)
    assert cells[0].other == g.later[5]
    with pytest.raises(ValueError, match="other"):
        cells.other[:] = 6
    for bad in ("cells", "points", "to", "adjacency", "2", "for", "_x"):
        with pytest.raises(ValueError, match="table"):
            g.add_table(bad)
    with pytest.raises(AttributeError, match="no table 'nothing'"):
        _ = g.nothing
    with pytest.raises(ValueError, match="same graph"):
        g.points.add("p", Ref(Graph().points))
    g.points.add("cell", Ref(cells))
    assert g.points.columns["cell"].ref == "cells"
    with pytest.raises(ValueError):
        g.add_table("bad", pack=("x",), y=f64)
    assert "bad" not in g.tables
    assert "2 cells" in repr(g)


def test_to_and_like():
    g = Graph.from_edges([2, 0, 1], [0, 1, 2], weight=[1, 2, 3])
    g.points.add("x", f64, fill=4)
    g.add_table("cells", pack=("node",), node=Ref("points")[3])
    g.cells.new([0, 1, 2])
    g.points.delete(1)
    g.adjacency("in")
    h = g.to("python")
    assert h.device.name == "python" and all(t.device == h.device for t in h.tables.values())
    for name, t in g.tables.items():
        u = h.tables[name]
        assert u.graph is h and u.packs == t.packs and (u.alive == t.alive).all()
        for c in t.columns:
            assert (getattr(u, c)[:] == getattr(t, c)[:]).all()
    assert h.edge_order.tolist() == g.edge_order.tolist() and h.out_identity == g.out_identity
    check(h)
    h.points.x[:] = g.points.x * 2
    assert g.points.x[0] == 4 and h.points.x[0] == 8
    assert h.points.new() == 3 and g.points[1].dead  # cells.node still denotes row 1
    e = g.like()
    assert [len(t) for t in e.tables.values()] == [0, 0, 0] and e.cells.packs == g.cells.packs
    assert e.points.new().x == 4
    check(e)


def test_points_change_the_version_of_an_adjacency_in_use():
    g = Graph("cpu")
    g.points.resize(8)
    g.points.extend(2)
    version, changes = g.version, g.changes
    g.points.extend(2), g.points.truncate(3)
    assert g.version == version and g.changes == changes + 2
    g.edges.extend(src=[0, 1], dst=[1, 2])
    assert lists(g, "out") == [[0], [1], []]
    version = g.version
    g.points.extend(1)
    assert g.version > version and lists(g, "out") == [[0], [1], [], []]


def test_points_that_kernels_add_have_no_edges_yet():
    g = Graph.from_edges([0, 0, 1], [1, 1, 0])
    g.points.resize(8)
    assert g.out_identity and g.degree().tolist() == [2, 1]
    offsets, _ = g._adjacency.index("out")
    assert offsets.tolist() == [0, 2, 3] + [3] * 6


def test_addresses_follow_changes():
    g = Graph.from_edges([0, 0, 1], [1, 1, 0])
    version = g.version
    assert g.address("out_edge") == 0
    first = {k: g.address(k) for k in ("out_offset", "in_offset", "in_edge")}
    assert all(first.values()) and first == {k: g.address(k) for k in first}
    assert g.version == version
    g.edges.src[0] = 1
    assert g.version > version and g.address("out_edge") != 0
    assert lists(g, "out") == [[1], [0, 2]]
    version = g.version
    g.points.grow()
    assert g.version > version
    g.edges.src.array[0] = 0
    g.structure_changed()
    assert lists(g, "out") == [[0, 1], [2]]
    for bad in ("meta", "out", "out_x", "all_edge"):
        with pytest.raises(ValueError):
            g.address(bad)
    with pytest.raises(ValueError, match="direction"):
        g.adjacency("all")


def test_an_edge_without_a_point_is_an_error():
    g = Graph.from_edges([0, 1], [1, 0])
    g.edges.dst.array[1] = 7
    g.structure_changed()
    with pytest.raises(ValueError, match=r"edges\.dst\[1\] = 7"):
        g.adjacency("out")


def test_points_alone_may_be_compacted():
    g = Graph.from_edges([0, 1, 2], [1, 2, 0])
    g.points.delete(1)
    g.points.compact()
    assert g.edges.src[:].tolist() == [0, -1, 1] and g.edges.dst[:].tolist() == [-1, 1, 0]
    check(g)
    g.compact()
    assert [x.tolist() for x in g.edge_list()[:2]] == [[1], [0]]
    with pytest.raises(IndexError):
        g.degree(2)
    with pytest.raises(TypeError):
        g.edge(g.edges[0], 0)


@pytest.mark.gpu
def test_gpu_graphs_are_those_of_the_cpu():
    import cupy

    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 50, (2, 400))
    weight = rng.integers(0, 9, 400).astype(np.float32)
    seen = []
    for where in ("cpu", "cuda:0"):
        xp = cupy if where == "cuda:0" else np
        g = Graph.from_edges(*map(xp.asarray, (src, dst, weight)), symmetrize=True, device=where)
        steps = [g.to("cpu")]
        g.edges.delete([5, 7, 100])
        g.points.delete(g.points[3])
        g.edges.new(1, 2, 0.5)
        steps.append(g.to("cpu"))
        g.sort_edges("weight")
        steps.append(g.to("cpu"))
        assert g.edge(1, 2) is not None and g.weight(1, 2) <= 0.5 and g.degree(3) == 0
        g.compact()
        steps.append(g.to("cpu"))
        steps.append(Graph.from_csr(*g.csr(), device=where).to("cpu"))
        for i, h in enumerate(steps):
            if i != 2:  # sorted by weight, not by id
                check(h)
            again = h.to(where)
            for direction in ("out", "in"):
                offsets, ids = again.adjacency(direction)
                assert offsets.tolist() == h.adjacency(direction)[0].tolist()
                ids = [] if ids is None else ids.tolist()
                assert not ids or ids == h.adjacency(direction)[1].tolist()
        seen.append([[a.tolist() for a in (*h.csr(), *h.edge_list())] for h in steps])
    assert seen[0] == seen[1]
