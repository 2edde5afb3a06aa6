"""Graphs made of arrays and other libraries' objects: order of edges, copies, memory."""

import pickle
import subprocess
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import morph
from morph import kernel
from morph.graph import Graph, adjacency, arrange
from morph.prelude import i32
from morph.runtime.cpu.device import HostDevice
from morph.runtime.device import device

INTEGERS = [np.int8, np.int32, np.uint32, np.int64, np.uint64]


class OnlyDlpack:
    """An array of a library that speaks nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@given(st.data(), st.booleans(), st.sampled_from(INTEGERS), st.sampled_from(INTEGERS))
def test_groups_are_sorted_as_a_whole_is(data, both, kind, other):
    """Small lists in groups, and counted in parts, against the rule in plain Python."""
    n = data.draw(st.integers(1, 40))
    point = st.integers(0, n - 1)
    pairs = data.draw(st.lists(st.tuples(point, point), max_size=60))
    src, dst = np.array(pairs, int).reshape(-1, 2).T
    weight = np.arange(len(pairs), dtype=np.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrange, "LEAST", data.draw(st.integers(1, 20)))
        patch.setattr(adjacency, "PART", data.draw(st.integers(1, 20)))
        g = Graph.from_edges(src.astype(kind), dst.astype(other), weight, n, symmetrize=both)
        arcs = [(u, v, k) for k, (u, v) in enumerate(pairs)]
        if both:
            arcs += [(v, u, k) for u, v, k in arcs if u != v]
        arcs.sort(key=lambda a: a[0])
        found = [x.tolist() for x in (g.edges.src[:], g.edges.dst[:], g.edges.weight[:])]
        assert list(zip(*found, strict=True)) == arcs
        h = Graph.from_csr(*g.csr())
        assert [x.tolist() for x in h.edge_list()] == [x.tolist() for x in g.edge_list()]
        assert h.csr()[0].tolist() == g.csr()[0].tolist()


def memories(g):
    """The arrays that a graph of compressed rows lives in."""
    return [g.adjacency()[0], g.edges.dst.array, g.edges.weight.array]


def some_rows(kind=np.int32):
    offsets = np.array([0, 2, 2, 3])
    return offsets, np.array([1, 2, 0], kind), np.array([7, 8, 9], np.int32)


def test_memory_is_shared_only_if_the_caller_lets_it():
    parts = some_rows()
    g = Graph.from_csr(*parts, copy=False)
    assert all(map(np.shares_memory, memories(g), parts))
    g.edges.weight[0] = 5
    assert parts[2][0] == 5
    g.edges.new(2, 1, 4)  # grows
    g.edges.weight[1] = 6
    assert parts[2].tolist() == [5, 8, 9] and g.weight(2, 1) == 4
    for h in (Graph.from_csr(*parts), Graph.from_csr(*parts, copy=False).to("cpu")):
        assert not any(map(np.shares_memory, memories(h), parts))
    src, dst, weight = np.array([0, 1], np.int32), np.array([1, 0], np.int32), np.array([1.0, 2.0])
    g = Graph.from_edges(src, dst, weight, copy=False)
    assert all(map(np.shares_memory, g.edge_list(), (src, dst, weight)))


def test_memory_that_cannot_be_shared_is_copied():
    ids = np.array([0, 1], np.int32)
    g = Graph.from_edges(ids, ids, ids, copy=False)  # each column needs its own
    g.edges.weight[:] = 7
    g.edges[0].dst = 1
    assert ids.tolist() == [0, 1] and g.edges.src[:].tolist() == [0, 1]
    for dst in (some_rows(np.int64)[1], np.array([1, 9, 2, 9, 0, 9], np.int32)[::2]):
        g = Graph.from_csr(some_rows()[0], dst, copy=False)
        assert g.edges.dst[:].tolist() == [1, 2, 0]
        assert not np.shares_memory(g.edges.dst.array, dst)
    frozen = some_rows()[1]
    frozen.flags.writeable = False
    Graph.from_csr(some_rows()[0], frozen, copy=False).edges.dst[:] = 0
    assert frozen.tolist() == [1, 2, 0]
    narrow = np.array([1, 2, 3], np.uint8)  # kernels touch the word around a byte
    assert not np.shares_memory(
        Graph.from_csr(*some_rows()[:2], narrow, copy=False).edges.weight.array, narrow
    )


def test_a_sparse_matrix_is_taken_as_it_is():
    offsets, dst, weight = some_rows()
    matrix = sp.csr_array((weight, dst, offsets.astype(np.int32)), shape=(3, 3))
    g = Graph.from_scipy(matrix, copy=False)
    assert np.shares_memory(g.edges.dst.array, matrix.indices)
    assert np.shares_memory(g.edges.weight.array, matrix.data)
    assert not np.shares_memory(Graph.from_scipy(matrix).edges.dst.array, matrix.indices)
    unsorted = sp.csr_array(([1, 2], [2, 1], [0, 2, 2, 2]), shape=(3, 3))
    assert Graph.from_scipy(unsorted).edges.dst[:].tolist() == [2, 1]


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
@pytest.mark.parametrize("kind", [sp.coo_array, sp.coo_matrix])
def test_any_sparse_matrix(form, kind):
    matrix = kind(([5, 6, 7], ([0, 2, 2], [1, 0, 2])), shape=(3, 3)).asformat(form)
    g = Graph.of(matrix)
    back = sp.csr_array(tuple(g.csr()[k] for k in (2, 1, 0)), shape=(3, 3))
    assert (back != sp.csr_array(matrix)).nnz == 0
    assert "weight" not in Graph.of(matrix, weight=None).edges.columns


def test_dlpack_alone_is_enough():
    offsets, dst, weight = some_rows()
    g = Graph.from_csr(*map(OnlyDlpack, (offsets, dst, weight)))
    assert g.edges.dst[:].tolist() == [1, 2, 0] and g.edges.weight[:].tolist() == [7, 8, 9]
    g = Graph.from_edges(OnlyDlpack(dst), OnlyDlpack(dst[::-1]))
    assert len(g.edges) == 3
    g = Graph.from_csr(offsets, OnlyDlpack(dst), copy=False)
    assert np.shares_memory(g.edges.dst.array, dst)
    g = Graph.from_csr(g.adjacency()[0], g.edges.dst)  # of another graph
    assert g.edges.dst[:].tolist() == [1, 2, 0]


@pytest.mark.parametrize("directed", [False, True])
def test_igraph(directed):
    igraph = pytest.importorskip("igraph")
    source = igraph.Graph(5, [(3, 1), (0, 1), (1, 1)], directed=directed)
    assert "weight" not in Graph.of(source).edges.columns
    source.es["weight"] = [2.5, None, 4]
    source.es["cost"] = [1, 2, 3]
    g = Graph.of(source)
    assert len(g.points) == 5 and g.directed == directed
    assert g.weight(3, 1) == 2.5 and g.weight(0, 1) == 1 and g.weight(1, 1) == 4
    assert len(g.edges) == (3 if directed else 5)
    assert Graph.from_igraph(source, weight="cost").weight(0, 1) == 2
    assert "weight" not in Graph.of(source, weight=None).edges.columns
    assert len(Graph.of(igraph.Graph(3)).points) == 3


def test_networkx_by_the_one_door():
    networkx = pytest.importorskip("networkx")
    source = networkx.path_graph(3)
    networkx.set_edge_attributes(source, {(0, 1): 3}, "weight")
    g = Graph.of(source)
    assert not g.directed and g.weight(1, 0) == 3 and g.weight(1, 2) == 1
    assert len(Graph.of(networkx.Graph()).points) == 0


def test_what_is_no_graph():
    for thing in (3, "graph", np.eye(3), [(0, 1)], sp):
        with pytest.raises(TypeError, match="no graph can be made of .*: expected a sparse matrix"):
            Graph.of(thing)


def test_asking_imports_nothing():
    code = (
        "import sys, numpy, morph\n"
        "try: morph.Graph.of(numpy.eye(3))\n"
        "except TypeError: print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"scipy", "cupyx", "networkx", "igraph"}


@pytest.mark.parametrize("kind", ["rows", "sorted", "adopted", "list", "wide", "both", "star"])
def test_the_peak_is_at_most_half_more_than_the_graph(kind):
    n, m = 1 << 17, 1 << 22
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, n, (2, m), dtype=np.int32)
    weight = rng.integers(1, 256, m, dtype=np.int32)
    if kind in ("rows", "sorted", "adopted"):
        src.sort()
        offsets = np.searchsorted(src, np.arange(n + 1))
    if kind == "wide":
        src, dst = src.astype(np.int64), dst.astype(np.int64)
    if kind == "both":
        src, dst, weight = src[: m // 2], dst[: m // 2], weight[: m // 2]
    if kind == "star":
        src[: m * 3 // 4] = 7
    tracemalloc.start()
    try:
        if kind in ("rows", "adopted"):
            g = Graph.from_csr(offsets, dst, weight, copy=kind == "rows")
        else:
            g = Graph.from_edges(src, dst, weight, n, symmetrize=kind == "both")
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    arcs = len(g.edges)
    in_order = g.edge_order is None
    assert peak <= Graph.bytes_needed(n, arcs, np.int32, arranged=in_order)
    rows = 8 * (n + 1) + 8 * arcs
    if kind == "adopted":
        assert peak <= 0.7 * rows
    elif in_order:
        assert peak <= 1.5 * rows + (1 << 20)  # the target, of offsets, ends and weights alone
    assert kind == "adopted" or peak <= 1.5 * held


def test_too_large_graphs_are_refused_before_anything_is_allocated(monkeypatch):
    monkeypatch.setattr(HostDevice, "free", lambda self: 10**9)
    many = np.broadcast_to(np.int32(0), 2**27)
    said = r"a graph of 1 points and 134217728 edges takes up to 1\.21 GB .*cpu has 1 GB free"
    with pytest.raises(MemoryError, match=said):
        Graph.from_edges(many, many)
    with pytest.raises(MemoryError, match="takes up to 1.21 GB"):
        Graph.from_csr([0, 2**27], many)
    with pytest.raises(MemoryError, match="takes up to 4.83 GB"):
        Graph.from_edges(many, np.broadcast_to(np.int32(1), 2**27), symmetrize=True)
    weight = np.zeros(2**25)  # what is kept needs no room
    parts = ([0, 2**25], np.zeros(2**25, np.int32), weight)
    monkeypatch.setattr(HostDevice, "free", lambda self: 5 * 10**8)
    with pytest.raises(MemoryError, match="takes up to 0.604 GB"):
        Graph.from_csr(*parts)
    assert Graph.from_csr(*parts, copy=False).edges.weight.array is not None
    monkeypatch.setattr(HostDevice, "free", lambda self: None)
    assert len(Graph.from_edges(many[:5], many[:5]).edges) == 5


def test_the_host_knows_what_is_free():
    free = device("cpu").free()
    assert free is None or 0 < free < 2**50


def test_ids_have_32_bits_or_it_is_said():
    with pytest.raises(ValueError, match=r"n = 2147483648: expected 0 to 2\^31 - 1 points"):
        Graph.from_edges([0], [0], n=2**31)
    with pytest.raises(ValueError, match=r"offsets: 2147483648 points, at most 2\^31 - 1"):
        Graph.from_csr(np.broadcast_to(np.int64(0), 2**31 + 1), [])
    with pytest.raises(ValueError, match=r"dst has 2147483648 edges: at most 2\^31 - 1"):
        Graph.from_csr([0, 2**31], np.broadcast_to(np.int32(0), 2**31))


@pytest.mark.gpu
@pytest.mark.parametrize("least", [1 << 21, 50])
@pytest.mark.parametrize("kind", INTEGERS[1:], ids=lambda k: k.__name__)
def test_gpu_graphs_are_made_as_those_of_the_cpu(kind, least, monkeypatch):
    import cupy

    def parts(g):
        found = [*g.edge_list(), g.csr()[0], g.edge_order]
        return [None if x is None else cupy.asnumpy(x).tolist() for x in found]

    monkeypatch.setattr(arrange, "LEAST", least)
    monkeypatch.setattr(adjacency, "PART", least)
    src, dst, weight = np.random.default_rng(1).integers(0, 300, (3, 3000))
    src, dst = src.astype(kind), dst.astype(kind)
    for both in (False, True):
        expected = parts(Graph.from_edges(src, dst, weight, 300, symmetrize=both))
        for parts_of in ((src, dst, weight), [cupy.asarray(x) for x in (src, dst, weight)]):
            g = Graph.from_edges(*parts_of, 300, symmetrize=both, device="cuda")
            assert parts(g) == expected
    rows = Graph.from_edges(src, dst, weight, 300).csr()
    expected = parts(Graph.from_csr(*rows))
    there = [cupy.asarray(x) for x in rows]
    ways = [rows, there, [*map(OnlyDlpack, there)], [*map(OnlyDlpack, rows)]]
    ways.append([there[0].astype(np.int32), *there[1:]])
    for way in ways:
        assert parts(Graph.from_csr(*way, device="cuda")) == expected
        assert parts(Graph.from_csr(*way)) == expected


@pytest.mark.gpu
def test_memory_on_the_gpu_is_shared_only_if_the_caller_lets_it():
    import cupy
    import cupyx.scipy.sparse as sparse

    parts = [cupy.asarray(x) for x in some_rows()]
    g = Graph.from_csr(*parts, copy=False, device="cuda")
    assert [x.data.ptr for x in memories(g)] == [x.data.ptr for x in parts]
    h = Graph.from_csr(*parts, device="cuda")
    assert not {x.data.ptr for x in memories(h)} & {x.data.ptr for x in parts}
    matrix = sparse.csr_matrix((parts[2].astype(np.float32), parts[1], parts[0]), shape=(3, 3))
    for form in (matrix, matrix.tocsc(), matrix.tocoo()):
        for where in ("cuda", "cpu"):
            g = Graph.of(form, device=where)
            assert g.device.to_host(g.edges.dst.array).tolist() == [1, 2, 0]
    assert device("cuda").free() > 0


def sources(g):
    """The record of the column ``src``."""
    return next(r for r in g.edges._records if r.names == ("src",))


CHANGES = {
    "insert": lambda g: g.apply(inserts=([0, 4], [5, 1])),
    "delete": lambda g: g.apply(deletes=([0], [1])),
    "delete by id": lambda g: g.edges.delete([3]),
    "delete a point": lambda g: g.points.delete([2]),
    "compact": lambda g: (g.edges.delete([3]), g.compact()),
    "extend": lambda g: g.points.extend(2),
    "write": lambda g: setattr(g.edges.row(3), "src", 1),
    "sort": lambda g: g.sort_edges("dst"),
    "reserve": lambda g: g.edges.resize(500),
    "nothing": lambda g: None,
}


def compressed():
    grid = morph.generate.grid(5, 7, weight=(1, 9))
    offsets, _ = grid.adjacency()
    return Graph.from_csr(offsets, grid.edges.dst[:], grid.edges.weight[:], copy=False)


@pytest.mark.parametrize("make", [lambda: morph.generate.grid(5, 7, weight=(1, 9)), compressed])
@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_a_graph_whose_sources_are_not_computed(name, make):
    found = []
    for compute in (True, False):
        g = make()
        assert not sources(g).is_computed
        if compute:
            assert g.edges.src.array is not None and sources(g).is_computed
        CHANGES[name](g)
        for made in (g, g.copy(), pickle.loads(pickle.dumps(g))):
            src, dst, weight = made.edge_list()
            offsets, ids = made.adjacency()
            found.append([*map(np.asarray, (src, dst, weight, offsets))])
            assert ids is None or (np.asarray(src).size >= ids.size)
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))


@kernel
def from_source(e):
    e.found = e.src.id


def test_sources_are_computed_at_their_first_use():
    g = morph.generate.rmat(7, 4)
    assert morph.bfs(g, 0).levels and not sources(g).is_computed
    wanted = np.repeat(np.arange(len(g.points)), g.degree())
    g.edges.add("found", i32)
    morph.foreach(g.edges, from_source)
    assert sources(g).is_computed and (g.edges.found[:] == wanted).all()
    assert g.edges.address("column", "src") == g.edges.src.array.ctypes.data
    assert (g.edges.src[:] == wanted).all()


def test_sources_are_computed_once_and_again_after_an_error():
    g, calls = morph.generate.grid(5, 7), []
    compute = sources(g).memory

    def slow():
        calls.append(1)
        if len(calls) == 1:
            raise MemoryError("no memory")
        time.sleep(0.05)
        return compute()

    sources(g).memory = slow
    with pytest.raises(MemoryError):
        g.edges.address("column", "src")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: g.edges.address("column", "src"), range(4)))
    assert len(calls) == 2 and len({*found, g.edges.src.array.ctypes.data}) == 1
