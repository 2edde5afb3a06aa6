"""Inputs of graphs and algorithms: other libraries' graphs, weights, invalid values."""

import io as streams
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from click.testing import CliRunner
from graphs import solve
from targets import host

import morph
from morph import generate, io, survey, validate
from morph.algorithms.registry import ROWS
from morph.cli import main
from morph.prelude import f64

BIG = 2**53 + 1
ENDS = np.array([[0, 1, 2, 0, 3], [1, 2, 0, 2, 4]])
SIMPLE = np.array([[0, 1, 2, 1, 3], [1, 2, 0, 3, 4]])


def found_by(row, g):
    """What does not depend on the order of edges."""
    found = getattr(solve(row, g), "weight" if row.main == "edges" else row.main)
    return np.sort(found) if row.main in row.of_edges.split() else found


ALGORITHMS = {
    **{row.name: lambda g, row=row: found_by(row, g) for row in ROWS if not row.acyclic},
    "k_core": lambda g: morph.k_core(g, 2).points,
    "DynamicSSSP": lambda g: morph.DynamicSSSP(g, 0).distance,
    "DynamicBFS": lambda g: morph.DynamicBFS(g, 0).distance,
    "DynamicComponents": lambda g: morph.DynamicComponents(g).label,
    "DynamicCores": lambda g: morph.DynamicCores(g).core,
    "DynamicPageRank": lambda g: morph.DynamicPageRank(g).rank.round(8),
}


def undirected():
    graph = nx.Graph()
    graph.add_nodes_from(range(5))
    graph.add_weighted_edges_from(np.vstack([SIMPLE, [3, 1, 4, 1, 5]]).T.tolist())
    return graph


# --- whatever Graph.of takes ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms_take_graphs_of_other_libraries(name):
    igraph = pytest.importorskip("igraph")
    graph = undirected()
    matrix = nx.to_scipy_sparse_array(graph)
    theirs = igraph.Graph(5, SIMPLE.T.tolist())
    theirs.es["weight"] = [3, 1, 4, 1, 5]
    ours = morph.Graph.from_edges(*SIMPLE, weight=[3, 1, 4, 1, 5], directed=False)
    want = np.asarray(ALGORITHMS[name](ours))
    for given in (graph, matrix, matrix.tocoo(), sp.csc_matrix(matrix), theirs):
        assert np.allclose(np.asarray(ALGORITHMS[name](given)), want)
    for wrong in (np.eye(3), [[0, 1], [1, 0]], None, "g"):
        with pytest.raises(TypeError, match="no graph can be made of"):
            ALGORITHMS[name](wrong)


def test_keyword_and_positional():
    assert morph.bfs(graph=undirected(), source=1).distance.tolist() == [1, 0, 1, 1, 2]
    assert morph.sssp.__name__ == "sssp" and "cutoff" in morph.sssp.__doc__


# --- symmetric matrices --------------------------------------------------------------------------


def test_a_symmetric_matrix_is_undirected(target):
    rng = np.random.default_rng(2)
    a = np.triu(rng.integers(0, 3, (12, 12)) * rng.integers(0, 2, (12, 12)))
    dense = a + np.triu(a, 1).T
    for form in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia"):
        for kind in (sp.coo_array, sp.coo_matrix):
            matrix = kind(dense).asformat(form)
            g = morph.Graph.of(matrix, device=target)
            assert not g.directed and not morph.Graph.from_scipy(matrix, device=target).directed
            assert morph.Graph.from_scipy(matrix, symmetric=False, device=target).directed
            host(g.reverses())  # every arc has one
    validate.bfs(g, morph.bfs(g).distance)
    same = morph.Graph.from_scipy(sp.csr_array(dense), symmetric=False, device=target)
    assert host(morph.bfs(g).distance).tolist() == host(morph.bfs(same).distance).tolist()
    assert host(morph.sssp(g).distance).tolist() == host(morph.sssp(same).distance).tolist()


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_a_saved_matrix_is_undirected_like_the_matrix(tmp_path, form):
    half = sp.coo_array(([3, 1, 4, 1, 5], ENDS), shape=(6, 6))
    whole = half + half.T
    other = whole.tolil()
    other[0, 1] = 9  # the same entries, of values that are not symmetric
    for k, matrix in enumerate((whole, half, other, sp.coo_array((4, 4)), whole.astype(float))):
        matrix = matrix.asformat(form)
        sp.save_npz(tmp_path / "g.npz", matrix)
        given, read = morph.Graph.of(matrix), io.read_graph(tmp_path / "g.npz")
        assert read.directed == given.directed == (k in (1, 2))
        for name in ("core", "betweenness", "components", "k_core"):
            assert np.array_equal(ALGORITHMS[name](read), ALGORITHMS[name](given))
        io.write_graph(read, tmp_path / "h.npz")
        assert io.read_graph(tmp_path / "h.npz").directed == read.directed
    loop = sp.csr_array(([np.nan, 1.0], ([0, 1], [0, 1])), shape=(2, 2))
    sp.save_npz(tmp_path / "g.npz", loop)
    assert io.read_graph(tmp_path / "g.npz").directed == morph.Graph.of(loop).directed


def test_a_matrix_that_is_not_symmetric_is_directed():
    dense = np.array([[0, 1, 2], [1, 0, 3], [2, 3, 1]])
    assert not morph.Graph.of(sp.csr_array(dense)).directed
    for i, j, x in ((0, 1, 5), (2, 0, 0), (1, 0, 7)):
        other = dense.copy()
        other[i, j] = x
        assert morph.Graph.of(sp.csr_array(other)).directed
    weight = np.array([[0, 1.0], [1.0 + 1e-16, 0]])
    assert not morph.Graph.of(sp.csr_array(weight)).directed  # these are the same double
    weight[1, 0] = np.nextafter(1.0, 2)
    assert morph.Graph.of(sp.csr_array(weight)).directed
    assert not morph.Graph.of(sp.csr_array(weight), weight=None).directed  # the structure counts
    weight[:] = np.nan
    assert morph.Graph.of(sp.csr_array(weight)).directed
    # a ring has one edge out and one in at each vertex
    ring = sp.csr_array((np.ones(4), ([0, 1, 2, 3], [1, 2, 3, 0])))
    assert morph.Graph.of(ring).directed
    # a zero that is stored is an edge
    stored = sp.csr_array((np.array([1.0, 0.0]), ([0, 1], [1, 0])))
    assert morph.Graph.of(stored).directed
    assert not morph.Graph.of(sp.csr_array((3, 3))).directed
    unsorted = sp.csr_array((np.ones(3), np.array([2, 1, 0]), np.array([0, 2, 2, 3])), shape=(3, 3))
    assert morph.Graph.of(unsorted).directed


def test_what_the_check_reads_stays_as_it_is():
    indices, data = np.array([2, 1, 0, 0]), np.array([1.0, 2, 2, 1])
    matrix = sp.csr_array((data, indices, np.array([0, 2, 3, 4])), shape=(3, 3))
    g = morph.Graph.of(matrix)
    assert not g.directed and matrix.indices.tolist() == [2, 1, 0, 0]
    assert g.edges.dst[:].tolist() == [2, 1, 0, 0]
    broken = sp.csr_array(np.ones((2, 2)))
    broken.indices[0] = 7
    with pytest.raises(ValueError, match=r"dst\[0\] = 7 is not a row of points"):
        morph.Graph.of(broken)


# --- unweighted graphs ---------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [True, False])
def test_without_weights_every_edge_has_1(target, directed):
    rng = np.random.default_rng(3)
    ends = rng.integers(0, 40, (2, 60))
    g = morph.Graph.from_edges(*ends, n=40, directed=directed, device=target)
    ones = morph.Graph.from_edges(
        *ends, weight=np.ones(60, np.int64), n=40, directed=directed, device=target
    )
    for how in ({}, {"cutoff": 2.5}, {"cutoff": np.inf}, {"cutoff": 0}, {"predecessors": True}):
        a, b = morph.sssp(g, [0, 5], **how), morph.sssp(ones, [0, 5], **how)
        assert a.distance.dtype == b.distance.dtype == np.int64
        assert host(a.distance).tolist() == host(b.distance).tolist()
        validate.sssp(g, a.distance, a.predecessor, source=[0, 5], cutoff=how.get("cutoff"))
    near = host(morph.sssp(g, 0, targets=[3]).distance)
    assert near[3] == host(morph.sssp(ones, 0, targets=[3]).distance)[3]
    a, b = morph.mst(g), morph.mst(ones)
    assert a.weight == b.weight == len(a.edges) and type(a.weight) is int
    assert host(a.edges).tolist() == host(b.edges).tolist()
    validate.mst(g, a.edges)
    a, b = (host(morph.pagerank(x, weighted=w).rank) for x, w in ((g, False), (g, True)))
    assert np.allclose(a, b, rtol=1e-13)  # a GPU adds in another order each time
    assert np.allclose(a, host(morph.pagerank(ones, weighted=True).rank))
    u, v = ends[:, 0].tolist()
    assert g.weight(u, v) == ones.weight(u, v) == 1
    with pytest.raises(KeyError):
        g.weight(0, 0) if (ends[0] == 0)[ends[1] == 0].sum() == 0 else g.weight(39, 39)
    assert list(g.edges.columns) == ["src", "dst"]


@pytest.mark.parametrize("directed", [True, False])
def test_distances_of_a_changing_graph_without_weights(target, directed):
    rng = np.random.default_rng(4)
    ends = rng.integers(0, 30, (2, 40))
    g = morph.Graph.from_edges(*ends, n=30, directed=directed, device=target)
    d = morph.DynamicSSSP(g, 0)
    assert d.distance.dtype == np.int64
    for _ in range(6):
        ends = rng.integers(0, 30, (2, 3))
        ends[1][ends[0] == ends[1]] += 1
        done = d.apply(tuple(ends % 30), [int(rng.choice(host(g.edges.ids())))])
        assert done.decision in ("repaired", "recomputed")
        validate.sssp(g, d.distance, d.predecessor)
        assert host(d.distance).tolist() == host(morph.sssp(g).distance).tolist()
    g.edges.add("weight", np.int32, fill=2)
    with pytest.raises(TypeError, match="column weight was not there and holds int32 now"):
        d.apply(([0], [1]))


@pytest.mark.parametrize("least", [0, 9, 10**6, 2**70, -3])
def test_integers_as_nodes_of_networkx(least):
    """Small integers are found by a table, others by a dict; keys may be equal numbers."""
    graph = nx.DiGraph()
    graph.add_nodes_from([least + 2, least, least + 1])
    graph.add_edges_from([(least, np.float64(least + 1) if least < 10 else least + 1)])
    graph.add_edges_from([(least + 2, least), (least + 1, least + 2)])
    g = morph.Graph.from_networkx(graph, device="cpu")
    found = {(g.labels[u], g.labels[v]) for u, v in zip(*g.edge_list()[:2], strict=True)}
    assert found == set(graph.edges)


def test_alike_from_networkx_and_on_the_command_line(tmp_path):
    graph = nx.gnm_random_graph(30, 50, seed=1)
    edges = np.array(graph.edges)
    np.savetxt(tmp_path / "g.txt", edges, "%d", header="Nodes: 30")
    wanted = nx.single_source_shortest_path_length(graph, 0)
    far = np.iinfo(np.int64).max
    want = [wanted.get(v, far) for v in range(30)]
    assert morph.sssp(graph).distance.tolist() == want
    assert morph.sssp(io.read_graph(tmp_path / "g.txt")).distance.dtype == np.int64

    def command(*args):
        done = CliRunner().invoke(main, [*map(str, args)])
        assert done.exit_code == 0, done.output

    # an edge list of one line an edge is of arcs
    command("convert", tmp_path / "g.txt", tmp_path / "g.mtx", "--symmetrize")
    command("sssp", tmp_path / "g.mtx", "-o", tmp_path / "d.npy")
    assert np.load(tmp_path / "d.npy").tolist() == want
    command("mst", tmp_path / "g.mtx", "-o", tmp_path / "m.npy")
    parts = nx.number_connected_components(graph)
    assert len(np.load(tmp_path / "m.npy")) == 30 - parts == morph.mst(graph).weight
    command("pagerank", tmp_path / "g.mtx", "--weighted", "-o", tmp_path / "r.npy")
    assert np.allclose(np.load(tmp_path / "r.npy"), morph.pagerank(graph).rank)
    (tmp_path / "u.txt").write_text("+ 0 1 1\n= 0 1 3\n")
    command("sssp", tmp_path / "g.mtx", "--updates", tmp_path / "u.txt", "--verify")
    command("sssp", tmp_path / "g.mtx", "-o", tmp_path / "d.npz")
    command("check", tmp_path / "g.mtx", tmp_path / "d.npz")


# --- digits --------------------------------------------------------------------------------------


def test_integers_beside_reals_keep_their_digits_or_are_refused(tmp_path):
    make = morph.Graph.from_edges
    for weight, at in (([BIG, 0.5], 0), ((0.5, -BIG), 1), ([np.float32(1), np.int64(BIG)], 1)):
        with pytest.raises(ValueError, match=rf"weight\[{at}\] is -?{BIG}, which beside reals"):
            make([0, 1], [1, 0], weight=weight)
        with pytest.raises(ValueError, match="beside reals"):
            morph.Graph.from_csr([0, 1, 2], [1, 0], weight=weight)
    with pytest.raises(ValueError, match=r"weight\[1\] is 9223372036854775809, which beside"):
        make([0, 1], [1, 0], weight=[-1, 2**63 + 1])  # NumPy makes reals of these, too
    assert make([0, 1], [1, 0], weight=[BIG, 2]).edges.weight[:].tolist() == [BIG, 2]
    assert make([0, 1], [1, 0], weight=[2**53, 0.5]).edges.weight[:].tolist() == [2.0**53, 0.5]
    for weight in ([2**63 + 1, 1], (2**63 + 1, True), [np.uint64(2**63 + 1), np.int64(5)]):
        assert make([0, 1], [1, 0], weight=weight).edges.weight[:].tolist() == list(weight)
    assert make([0], [1], weight=[2**64 - 1]).edges.weight[:].tolist() == [2**64 - 1]
    assert make([0, 1], [1, 0], weight=[1e300, 3]).edges.weight[:].tolist() == [1e300, 3]
    graph = nx.Graph()
    graph.add_edge("a", "b", weight=BIG)
    graph.add_edge("b", "c")
    assert sorted(morph.Graph.of(graph).edges.weight[:].tolist()) == [1, 1, BIG, BIG]
    graph["b"]["c"]["weight"] = 0.5
    with pytest.raises(ValueError, match=f"'weight' of the edge from 'a' to 'b' is {BIG}, which"):
        morph.Graph.of(graph)
    igraph = pytest.importorskip("igraph")
    theirs = igraph.Graph(3, [(0, 1), (1, 2)])
    theirs.es["weight"] = [0.5, BIG]
    with pytest.raises(ValueError, match=f"'weight' of edge 1, from 1 to 2, is {BIG}"):
        morph.Graph.of(theirs)


def test_integers_in_batches_keep_their_digits_or_are_refused(target):
    for dtype, big in ((np.float64, BIG), (np.float32, 2**24 + 1)):
        g = morph.Graph.from_edges([0, 1], [1, 0], weight=np.zeros(2, dtype), device=target)
        for loose in range(2):
            before = host(g.edges.weight[:]).tolist()
            for weight in (
                [big], (big,), np.array([big]), np.array([big], np.uint64), big,
                g.device.asarray(np.array([big])),
            ):  # fmt: skip
                given = list(weight) if isinstance(weight, tuple) else weight
                with pytest.raises(ValueError, match=rf"inserts.weight(\[0\])? = {big} would lose"):
                    g.apply(([0], [1], given))
                if np.ndim(host(weight)):
                    with pytest.raises(ValueError, match=rf"updates.weight\[0\] = {big} would"):
                        g.apply(updates=([0], given))
            assert host(g.edges.weight[:]).tolist() == before
            g.apply(([0], [1], [big - 1]), updates=([0], [4]))
            assert host(g.edges.weight[:]).tolist()[-1] == big - 1
            if not loose:
                g.adjacency()
        if dtype == np.float64:
            with pytest.raises(ValueError, match=rf"inserts.weight\[1\] = {big} would lose"):
                g.apply(([0, 1], [1, 0], [0.5, big]))


def test_integers_beside_reals_in_a_file(tmp_path):
    path = tmp_path / "g.txt"
    path.write_text(f"# c\n0 1 0.5\n\n1 2 {BIG}\n")
    with pytest.raises(io.FormatError, match=rf"g.txt:4: the weight {BIG} loses digits"):
        io.read_edges(path)
    path.write_text(f"0 1 0.5\n1 2 {2**60}\n2 3 1e300\n3 4 {float(BIG)!r}\n")
    assert io.read_edges(path).weight.tolist() == [0.5, 2.0**60, 1e300, float(BIG)]
    path.write_text(f"0 1 1\n1 2 {BIG}\n")
    assert io.read_edges(path).weight.tolist() == [1, BIG]
    lines = [f"{k} {k + 1} 0.5" for k in range(200_000)]
    lines[170_000] = f"1 2 -{BIG}"
    path.write_text("\n".join(lines))  # by compiled code
    with pytest.raises(io.FormatError, match=rf"g.txt:170001: the weight -{BIG} loses digits"):
        io.read_edges(path)


# --- bad values ----------------------------------------------------------------------------------

SQUARE = morph.triangulate([[0, 0], [1, 0], [0, 1], [1, 1.1]], device="cpu")
G = morph.Graph.from_edges(*ENDS, weight=[3, 1, 4, 1, 5])


@pytest.mark.parametrize(
    ("ask", "error", "said"),
    [
        (lambda: morph.k_core(G, 1.5), TypeError, "k is an integer, not 1.5"),
        (lambda: morph.k_core(G, "2"), TypeError, "k is an integer, not '2'"),
        (lambda: morph.k_core(G, None), TypeError, "k is an integer, not None"),
        (lambda: morph.bfs(G, cutoff="2"), TypeError, "cutoff is a number, not '2'"),
        (lambda: morph.sssp(G, cutoff=[2]), TypeError, r"cutoff is a number, not \[2\]"),
        (lambda: morph.pagerank(G, "0.85"), TypeError, "damping is a number, not '0.85'"),
        (lambda: morph.pagerank(G, tolerance="x"), TypeError, "tolerance is a number, not 'x'"),
        (lambda: morph.pagerank(G, iterations=2.5), TypeError, "iterations is an integer, not 2.5"),
        (lambda: morph.pagerank(G, personalization={0: 1.0}), TypeError, "no dict"),
        (lambda: morph.pagerank(G, personalization=list("abcde")), TypeError, "expected numbers"),
        (lambda: morph.pagerank(G, personalization=[1j] * 5), TypeError, "holds complex128"),
        (lambda: morph.pagerank(G, personalization=[None] * 5), TypeError, "holds object"),
        (lambda: weighted(np.array([1, 2, 3, "a", 4], object)), TypeError, r"weight\[3\] is not a"),
        (lambda: weighted([1, None, 3, 4, 5]), TypeError, r"weight\[1\] is not a number: None"),
        (lambda: weighted(np.array([1, 2, 3, 4, 5], object)), TypeError, "are Python objects"),
        (lambda: weighted(["1"] * 5), TypeError, r"weight\[0\] is not a number: '1'"),
        (lambda: weighted([1, 2, 3, 4, 1j]), TypeError, r"weight\[4\] is not a number: 1j"),
        (lambda: weighted([1, [2], 3, 4, 5]), TypeError, r"weight\[1\] is not a number: \[2\]"),
        (lambda: weighted([2**70] * 5), ValueError, r"weight\[0\] does not fit 64 bits: 118059"),
        (lambda: morph.Graph.from_edges([0], [1], n=3.7), TypeError, "n is an integer, not 3.7"),
        (lambda: morph.Graph.from_edges([0], [1], n="3"), TypeError, "n is an integer, not '3'"),
        (lambda: morph.bfs(G, "x" * 999), TypeError, "source is an id or an array of ids, not 'xx"),
    ],
)  # fmt: skip
def test_bad_values(ask, error, said):
    with pytest.raises(error, match=said) as caught:
        ask()
    assert len(str(caught.value)) <= 200


def column():
    return G.copy().points.add("x", (f64, 2))


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("points", lambda a: morph.triangulate(a)),
        ("points", lambda a: morph.Mesh(a, [[0, 1, 2]])),
        ("points", lambda a: morph.Pslg(a, [[0, 1]])),
        ("points", lambda a: SQUARE.find_simplex(a)),
        ("values", lambda a: SQUARE.interpolate(np.append(a, [[0, 0]], axis=0), [[0.5, 0.5]])),
        ("holes", lambda a: morph.Pslg(SQUARE.points, holes=a)),
        ("points.x", lambda a: column().__setitem__(slice(3), a)),
        ("points.x", lambda a: column().__setitem__(slice(3), a.tolist())),
    ],
)  # fmt: skip
def test_integers_that_lose_digits_as_reals_are_refused(name, ask):
    ask(np.array([[0, 0], [2**53, 0], [0, 2**53]]) // 2**53)
    for big in (BIG, 2**63 - 1):
        with pytest.raises(
            ValueError, match=rf"^{name}\[1, 0\] = {big} would lose digits as float64"
        ):
            ask(np.array([[0, 0], [big, 0], [0, 1]]))
    with pytest.raises(ValueError, match=rf"{BIG} would lose digits"):
        morph.triangulate([[0, 0.5], [BIG, 0], [0, 1]])


def test_integers_beside_missing_values_keep_their_digits():
    pandas = pytest.importorskip("pandas")
    weight = pandas.array([BIG, None], "Int64")
    table = pandas.DataFrame({"source": [0, 1], "target": [1, 2], "weight": weight})
    with pytest.raises(ValueError, match=rf"column 'weight'\[0\] = {BIG} would lose digits"):
        morph.Graph.from_table(table)
    table["weight"] = pandas.array([BIG - 1, None], "Int64")
    assert morph.Graph.from_table(table).edges.weight[0] == BIG - 1


def test_lists_of_edges_are_no_batch():
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=[1, 2], device="cpu")
    for given in ([(0, 1), (1, 2)], [[0, 1], [1, 2]], [(0, 1)], [(0, 1, 5), (1, 2, 6)]):
        for name in ("inserts", "updates"):
            with pytest.raises(TypeError, match=rf"{name}: .* may mean a list of edges"):
                g.apply(**{name: given})
    assert len(g.edges) == 2
    assert g.apply(tuple(zip((0, 1), (1, 2), strict=True))).inserted.size == 2
    assert g.apply([np.array([0, 1]), np.array([1, 2])]).inserted.size == 2


def test_masks_of_subclasses():
    class Masked(np.ndarray):
        pass

    ids = np.arange(2).view(Masked)
    for mask in (True, np.True_, np.array([True, False])):
        ids.mask = mask
        with pytest.raises(ValueError, match=r"^src\[0\] is masked"):
            morph.Graph.from_edges(ids, [1, 2])
    for mask in (False, np.zeros(2, bool), lambda: True):
        ids.mask = mask
        assert morph.Graph.from_edges(ids, [1, 2]).edges.live == 2
    assert np.asarray(ids)[0] == 0


def masked(values):
    return np.ma.array(values, mask=np.arange(len(values)) == 1)


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("src", lambda g, m: morph.Graph.from_edges(masked([0, 1]), [1, 2])),
        ("weight", lambda g, m: morph.Graph.from_edges([0, 1], [1, 2], masked([1, 2]))),
        ("offsets", lambda g, m: morph.Graph.from_csr(masked([0, 1, 1]), [0])),
        ("dst", lambda g, m: morph.Graph.from_csr([0, 1, 2], masked([1, 0]))),
        ("indices of edges.weight", lambda g, m: g.edges.weight[masked([0, 1])]),
        ("indices of edges.weight", lambda g, m: g.edges.weight.__setitem__(masked([0, 1]), 3)),
        ("inserts.src", lambda g, m: g.apply(inserts=(masked([0, 1]), [1, 2], [1, 1]))),
        ("updates.weight", lambda g, m: g.apply(updates=([0, 1], masked([1, 2])))),
        ("deletes", lambda g, m: g.apply(deletes=masked([0, 1]))),
        ("delete_points", lambda g, m: g.apply(delete_points=masked([0, 1]))),
        ("ids", lambda g, m: g.points.delete(masked([0, 1]))),
        ("source", lambda g, m: morph.bfs(g, masked([0, 1]))),
        ("personalization", lambda g, m: morph.pagerank(g, personalization=masked(np.ones(5)))),
        ("edges.weight", lambda g, m: g.edges.weight.__setitem__(slice(None), masked([1] * 5))),
        ("array", lambda g, m: morph.scan(masked([1, 2]))),
        ("literals", lambda g, m: morph.Formula(2, [0, 1, 2], masked([1, 2]))),
        ("segment_markers", lambda g, m: morph.triangulate(m.points, [[0, 1], [1, 2]],
                                                           segment_markers=masked([1, 2]))),
        ("max_area", lambda g, m: morph.refine(m, max_area=masked([1.0, 1]))),
        ("values", lambda g, m: m.interpolate(masked(np.ones(4)), [[0.5, 0.5]])),
    ],
)  # fmt: skip
def test_masked_values_are_refused(name, ask):
    """Conversions by NumPy would take what lies under the mask."""
    g = morph.Graph.from_edges(*ENDS, weight=[3, 1, 4, 1, 5], device="cpu")
    mesh = morph.triangulate([[0, 0], [1, 0], [0, 1], [1, 1.1]], device="cpu")
    edges = len(g.edges)
    with pytest.raises(ValueError, match=rf"^{name}\[1\] is masked"):
        ask(g, mesh)
    assert (g.points.live, g.edges.live, len(g.edges)) == (5, edges, edges)


NONSENSE = [
    object(), 3j, [1.5], ["a"], {"a": 1}, np.zeros(0), np.full(4, np.nan), np.array([[0, 1]]),
    b"x" * 999, "x" * 999,
]  # fmt: skip
CLAUSES = [[1, -2, 3], [-1, 2, 3], [2, -3, 1]]
ASKED = {
    "betweenness": (lambda **k: morph.betweenness(G, **k), "normalized endpoints seed"),
    "bfs": (lambda **k: morph.bfs(G, **k), "cutoff"),
    "k_core": (lambda **k: morph.k_core(G, **k), "k"),
    "pagerank": (
        lambda **k: morph.pagerank(G, **k), "damping tolerance iterations weighted dtype",
    ),
    "sssp": (lambda **k: morph.sssp(G, **k), "cutoff predecessors"),
    "from_edges": (
        lambda **k: morph.Graph.from_edges([0, 1], [1, 0], **k),
        "directed symmetric symmetrize copy n",
    ),
    "from_csr": (lambda **k: morph.Graph.from_csr([0, 1, 2], [1, 0], **k), "symmetric copy"),
    "Formula": (lambda **k: morph.Formula(offsets=[0, 1], literals=[1], **k), "variables"),
    "solve": (
        lambda **k: survey.solve(CLAUSES, device="cpu", **k),
        "seed time max_rounds method options complete progress",
    ),
    "surveys": (
        lambda **k: survey.surveys(CLAUSES, device="cpu", **k),
        "seed rho tolerance max_sweeps inertia history",
    ),
    "beliefs": (
        lambda **k: survey.beliefs(CLAUSES, device="cpu", **k),
        "seed tolerance max_sweeps inertia history",
    ),
    "decimate": (
        lambda **k: survey.decimate(CLAUSES, **k),
        "seed max_rounds fraction tolerance max_sweeps undo rho least_complexity max_seconds"
        " progress",
    ),
    "backtrack": (
        lambda **k: survey.backtrack(CLAUSES, **k),
        "seed max_rounds fraction ratio tolerance max_sweeps rho max_seconds progress",
    ),
    "reinforce": (
        lambda **k: survey.reinforce(CLAUSES, **k),
        "seed max_sweeps intensity decay rho max_seconds",
    ),
    "believe": (
        lambda **k: survey.believe(CLAUSES, **k),
        "seed max_rounds fraction sweeps lossy max_seconds progress",
    ),
    "walksat": (
        lambda **k: survey.walksat(CLAUSES, device="cpu", **k), "seed max_flips time progress",
    ),
    "random_ksat": (lambda **k: generate.random_ksat(**{"k": 2, "n": 9, "ratio": 1.0} | k),
                    "k n ratio seed"),
    "rmat": (
        lambda **k: generate.rmat(**{"scale": 3} | k),
        "scale edge_factor a b c weight seed permute directed simple",
    ),
    "grid": (lambda **k: generate.grid(**{"rows": 2, "columns": 2} | k), "rows columns torus"),
    "matching": (lambda **k: morph.matching(G, **k), "weighted seed"),
    "community": (lambda **k: morph.community(G, 0, (2, 3), **k), "progress"),
    "path": (lambda **k: morph.path(G, **{"found": morph.bfs(G), "target": 1} | k), "found target"),
    "apply": (lambda **k: G.copy().apply(**k), "inserts nonnegative then"),
    "apply in parts": (
        lambda **k: morph.partition(G, ["cpu", "cpu"]).apply(**k), "nonnegative then",
    ),
    "DynamicBFS.apply": (lambda **k: morph.DynamicBFS(G.copy()).apply(**k), "then"),
    "Graph": (lambda **k: morph.Graph("cpu", **k), "directed"),
    "add_table": (lambda **k: morph.Graph("cpu").add_table("t", **k), "capacity"),
    "from_scipy": (
        lambda **k: morph.Graph.from_scipy(**{"matrix": sp.eye(2, format="csr")} | k),
        "matrix weight copy",
    ),
    "from_networkx": (
        lambda **k: morph.Graph.from_networkx(**{"graph": undirected()} | k), "graph",
    ),
    "bytes_needed": (lambda **k: morph.Graph.bytes_needed(**{"n": 1, "m": 1} | k), "n m arranged"),
    "partition": (lambda **k: morph.partition(G, ["cpu", "cpu"], **k), "shares"),
    "grow": (lambda **k: morph.Table("t", "cpu").grow(**k), "minimum"),
    "scan": (lambda **k: morph.scan([1, 2], **k), "op exclusive"),
    "reduce": (lambda **k: morph.reduce([1, 2], **{"op": "sum"} | k), "op"),
    "argsort": (lambda **k: morph.argsort([1, 2], **k), "descending"),
    "violations": (
        lambda **k: morph.triangulate([[0, 0], [1, 0], [0, 1]]).violations(**k), "conforming",
    ),
    "geometric": (lambda **k: generate.geometric(9, **{"radius": 0.5} | k), "radius weight seed"),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_whatever_an_argument_is_the_error_names_it(name):
    call, arguments = ASKED[name]
    call(**({"k": 1} if name == "k_core" else {"variables": 1} if name == "Formula" else {}))
    for argument in arguments.split():
        for value in NONSENSE:
            with pytest.raises((TypeError, ValueError)) as caught:
                call(**{argument: value})
            text = str(caught.value)
            assert len(text) <= 200 and (argument in text or argument in ("dtype", "options"))


def test_counts_beyond_64_bits():
    assert morph.pagerank(G, iterations=10**30).error < 1e-9
    assert len(morph.k_core(G, 10**30).points) == 0
    assert survey.surveys(CLAUSES, max_sweeps=10**30, device="cpu", history=False).converged
    assert survey.solve(CLAUSES, max_rounds=2**32 - 1, device="cpu", method="decimation").attempts
    assert survey.walksat(CLAUSES, max_flips=10**30, device="cpu").unsatisfied == 0
    for count in ("max_sweeps", "max_rounds", "undo"):
        with pytest.raises(ValueError, match=rf"^{count} = 10+: expected .* 0 to 2\^32 - 1"):
            survey.decimate(CLAUSES, **{count: 10**30})


def weighted(weight):
    return morph.Graph.from_edges(*ENDS, weight=weight)


def test_bad_attributes_of_networkx():
    for weight, said in (("x", "'x'"), ([1, 2], r"\[1, 2\]"), (1j, "1j"), ({}, "{}")):
        graph = nx.DiGraph()
        graph.add_edge("a", "b", weight=weight)
        graph.add_edge("b", "c", weight=2)
        what = f"'weight' of the edge from 'a' to 'b' is not a number: {said}"
        with pytest.raises(TypeError, match=what):
            morph.Graph.of(graph)


def test_errors_are_short_whatever_the_names():
    graph = nx.Graph()
    graph.add_edge("u" * 1000, ("v",) * 1000, weight="w" * 1000)
    with pytest.raises(TypeError, match="^'weight' of the edge from .*uuu.* is not a number") as e:
        morph.Graph.of(graph)
    assert len(str(e.value)) <= 200
    graph.add_edge("u" * 1000, ("v",) * 1000, **{"x" * 1000: "w" * 1000})
    with pytest.raises(TypeError, match="xxx.* of the edge from .*uuu.* is not a number") as e:
        morph.Graph.of(graph, weight="x" * 1000)
    assert len(str(e.value)) <= 200


def test_good_values_of_unusual_types():
    assert morph.k_core(G, np.int32(2)).points.tolist() == [0, 1, 2]
    assert morph.bfs(G, cutoff=np.int64(1)).distance.tolist() == [0, 1, 1, -1, -1]
    assert morph.bfs(G, cutoff=1.9).distance.tolist() == [0, 1, 1, -1, -1]
    assert morph.pagerank(G, np.float32(0.5), iterations=np.int64(3)).iterations == 3
    assert len(morph.Graph.from_edges([0], [1], n=np.uint8(7)).points) == 7
    assert weighted((1, 2.5, 3, True, 5)).edges.weight.dtype == np.float64


# --- Matrix Market -------------------------------------------------------------------------------

MATRICES = {
    "skew": "coordinate real skew-symmetric\n3 3 2\n2 1 5\n3 2 -1.5\n",
    "skew, upper": "coordinate real skew-symmetric\n3 3 1\n1 2 5\n",
    "skew, both": "coordinate integer skew-symmetric\n3 3 2\n1 2 5\n2 1 -5\n",
    "skew, diagonal": "coordinate integer skew-symmetric\n3 3 2\n2 1 5\n2 2 7\n",
    "skew, pattern": "coordinate pattern skew-symmetric\n3 3 1\n2 1\n",
    "skew, wide": f"coordinate integer skew-symmetric\n2 2 1\n2 1 {-(2**31)}\n",
    "both": "coordinate real symmetric\n3 3 4\n2 1 5\n1 2 5\n3 3 1\n3 1 2\n",
    "upper": "coordinate integer symmetric\n3 3 2\n1 2 5\n1 3 6\n",
    "upper, pattern": "coordinate pattern symmetric\n3 3 2\n1 2\n3 3\n",
    "lower": "coordinate unsigned-integer symmetric\n3 3 2\n2 1 5\n3 3 6\n",
    "twice": "coordinate real general\n2 2 2\n1 2 5\n1 2 6\n",
    "dense": "array real general\n3 3\n1\n0\n2.5\n3\n0\n4\n0\n0\n-5\n",
    "dense, integers": "array integer general\n% said\n2 2\n1\n2\n0\n4\n\n",
    "dense, symmetric": "array real symmetric\n3 3\n1\n2\n0\n4\n5\n6\n",
    "dense, skew": "array integer skew-symmetric\n4 4\n1\n2\n0\n4\n5\n6\n",
    "dense, empty": "array real general\n0 0\n",
    "dense, one": "array real symmetric\n1 1\n3\n",
}


@pytest.mark.parametrize("name", MATRICES)
def test_matrix_market_as_scipy_reads_it(tmp_path, name):
    text = "%%MatrixMarket matrix " + MATRICES[name]
    path = tmp_path / "m.mtx"
    path.write_text(text)
    want = scipy.io.mmread(streams.BytesIO(text.encode())) if "empty" not in name else np.eye(0)
    want = want.toarray() if sp.issparse(want) else want
    g = io.read_graph(path)
    src, dst, weight = g.edge_list()
    weight = np.ones(len(src)) if weight is None else weight
    got = sp.coo_array((weight, (src, dst)), shape=(len(g.points),) * 2).toarray()
    assert (got == want).all() and got.shape == want.shape
    symmetric = " symmetric" in MATRICES[name]
    assert g.directed == (not symmetric)
    if not symmetric:
        assert (src[1:] >= src[:-1]).all()
    assert got.dtype.kind == want.dtype.kind or "unsigned" in MATRICES[name] or not len(src)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("coordinate complex hermitian\n2 2 1\n2 1 5 1\n", "1: a complex matrix is no graph:"),
        ("coordinate real hermitian\n2 2 1\n2 1 5\n", "1: a hermitian matrix is no graph:"),
        (
            "coordinate unsigned-integer skew-symmetric\n2 2 1\n2 1 5\n",
            "1: a skew-symmetric",
        ),
        (f"coordinate integer skew-symmetric\n2 2 1\n2 1 {-(2**63)}\n", "1: the value -92233"),
        ("array pattern general\n2 2\n1\n2\n0\n4\n", "1: array pattern is no matrix of a graph:"),
        ("array real general\n2 3\n1\n2\n3\n4\n5\n6\n", "2: a matrix of 2 x 3 is no graph"),
        ("array real general\n2 2\n1\n2\n3\n", "5: the file ends after 3 of 4 values"),
        ("array real general\n2 2\n1\n2\n3\n4\n5\n", "7: unexpected '5' after the last of the"),
        ("array real general\n2 2\n1 2\n3 4\n", "3: found 2 fields, expected 1: value"),
        ("array real general\n2 2 4\n1\n2\n3\n4\n", "2: the size header has 3 fields, expected 2"),
        ("array integer general\n1 1\n1.5\n", "3: the value is not an integer: '1.5'"),
        ("list real general\n1 1\n1\n", "1: list real is no matrix of a graph:"),
    ],
)
def test_matrices_that_are_no_graphs(tmp_path, monkeypatch, text, said):
    monkeypatch.chdir(tmp_path)
    Path("m.mtx").write_text("%%MatrixMarket matrix " + text)
    with pytest.raises(io.FormatError) as caught:
        io.read_graph("m.mtx")
    shown = str(caught.value).removeprefix("m.mtx:")
    assert shown.startswith(said) and len(shown) <= 200
