"""Graphs to and from other libraries' objects, tables of edges, and labels of points."""

import copy
import pickle
from collections import Counter

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from targets import tries

import morph
from morph import Graph

CLASSES = nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph
LABELS = ["a", (1, 2), 7, "b", 2.5, frozenset(), 0, ("x", "y")]  # in no order, of many types
WEIGHTS = {
    "none": st.none(),
    "int": st.integers(-(2**62), 2**62),
    "float": st.integers(-(2**40), 2**40).map(lambda k: k / 4),  # exact sums of parallel edges
}


@st.composite
def graphs(draw, kinds=CLASSES):
    """Graphs with loops, parallel edges, isolated nodes; the weights are of one kind."""
    made = draw(st.sampled_from(kinds))()
    made.add_nodes_from(draw(st.permutations(LABELS))[: draw(st.integers(0, 8))])
    weight = WEIGHTS[draw(st.sampled_from(sorted(WEIGHTS)))]
    if nodes := list(made):
        end = st.sampled_from(nodes)
        for u, v, w in draw(st.lists(st.tuples(end, end, weight), max_size=12)):
            made.add_edge(u, v, **({} if w is None else {"weight": w}))
    return made


def edges_of(graph):
    """How often an edge is there: its ends, unordered in an undirected graph, and its weight."""
    ends = tuple if graph.is_directed() else frozenset
    return Counter((ends((u, v)), w) for u, v, w in graph.edges(data="weight"))


@given(graphs())
@tries(60)
def test_networkx_there_and_back(graph):
    g = Graph.of(graph)
    back = g.to_networkx()
    assert list(back) == list(graph) and back.is_directed() == graph.is_directed()
    assert edges_of(back) == edges_of(graph)
    assert back.is_multigraph() == any(k > 1 for k in Counter(list(back.edges())).values())
    assert all(type(w) in (int, float) for *_, w in back.edges(data="weight", default=1))
    assert not any(data for *_, data in g.to_networkx(weight=None).edges(data=True))


@given(graphs())
@tries(60)
def test_scipy_there_and_back(graph):
    g = Graph.of(graph)
    matrix = g.to_scipy()
    nodes = list(graph)
    if nodes:
        theirs = nx.to_scipy_sparse_array(graph, nodes, weight="weight", format="csr")
        assert np.array_equal(matrix.toarray(), theirs.toarray())
    assert matrix.shape == (len(nodes), len(nodes)) and matrix.nnz == len(g.edges)
    again = Graph.from_scipy(matrix, symmetric=not g.directed)
    assert (again.to_scipy() != matrix).nnz == 0 and again.edges.dst[:].tolist() == (
        g.edges.dst[:].tolist()
    )


@given(graphs())
@tries(40)
def test_igraph_there_and_back(graph):
    igraph = pytest.importorskip("igraph")
    g = Graph.of(graph)
    theirs = g.to_igraph()
    assert isinstance(theirs, igraph.Graph) and theirs.is_directed() == graph.is_directed()
    assert theirs.vcount() == len(graph) and theirs.ecount() == graph.number_of_edges()
    assert ("name" in theirs.vs.attributes()) == (g.labels is not None)
    assert edges_of(Graph.of(theirs).to_networkx()) == edges_of(graph)


@given(graphs())
@tries(20)
def test_tables_there_and_back(graph):
    pandas = pytest.importorskip("pandas")
    g = Graph.of(graph)
    table = g.to_pandas()
    assert isinstance(table, pandas.DataFrame) and len(table) == graph.number_of_edges()
    assert list(table) == ["source", "target", *(["weight"] if "weight" in g.edges.columns else [])]
    back = Graph.from_table(table, directed=g.directed, labels=True).to_networkx()
    back.add_nodes_from(graph)  # those without edges
    assert edges_of(back) == edges_of(graph)


def changed(target):
    """A labelled graph after a deletion of a point and of an edge, and two insertions."""
    g = Graph.from_edges([0, 1, 2, 3, 0], [1, 2, 3, 0, 3], [5, 6, 7, 8, 9], device=target)
    g.labels = ["a", "b", "c", "d"]
    g.points.delete(1)
    g.apply(inserts=([3, 3], [2, 2], [1, 2]), deletes=([0], [3]))
    return g


def test_a_graph_that_was_changed(target):
    pandas = pytest.importorskip("pandas")
    igraph = pytest.importorskip("igraph")
    g = changed(target)
    edges = Counter([("c", "d", 7), ("d", "a", 8), ("d", "c", 1), ("d", "c", 2)])
    assert g.labels.tolist() == ["a", None, "c", "d"]
    theirs = g.to_networkx()
    assert list(theirs) == ["a", "c", "d"] and type(theirs) is nx.MultiDiGraph
    assert Counter(theirs.edges(data="weight")) == edges
    want = np.zeros((4, 4), int)
    want[[2, 3, 3], [3, 0, 2]] = 7, 8, 3  # parallel entries are added
    assert g.to_scipy().nnz == 4 and np.array_equal(g.to_scipy().toarray(), want)
    other = g.to_igraph()
    assert isinstance(other, igraph.Graph) and other.vs["name"] == ["a", "c", "d"]
    ends = [(other.vs["name"][e.source], other.vs["name"][e.target]) for e in other.es]
    assert Counter((*uv, w) for uv, w in zip(ends, other.es["weight"], strict=True)) == edges
    table = g.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert Counter(table.itertuples(index=False, name=None)) == edges
    assert g.by_label(morph.bfs(g, "c").distance) == {"a": 2, "c": 0, "d": 1}
    g.labels = None
    assert list(g.to_networkx()) == [0, 2, 3] and g.to_igraph().get_edgelist()[0] == (1, 2)
    assert "name" not in g.to_igraph().vs.attributes()


def test_other_columns_and_none():
    g = Graph.from_edges([0, 1], [1, 0], [2.5, 3])
    g.edges.add("cost", np.int16)
    g.edges.cost[:] = [4, 5]
    assert g.to_scipy(weight="cost").toarray().tolist() == [[0, 4], [5, 0]]
    assert list(g.to_networkx(weight="cost").edges(data=True)) == [
        (0, 1, {"cost": 4}), (1, 0, {"cost": 5}),
    ]  # fmt: skip
    assert g.to_igraph(weight="cost").es["cost"] == [4, 5]
    assert g.to_scipy(weight=None).data.tolist() == [1, 1]
    assert g.to_scipy(weight=None).dtype == np.int64
    g.edges.add("pair", morph.vec(np.float32, 2))
    for give in (g.to_scipy, g.to_networkx, g.to_igraph):
        with pytest.raises(ValueError, match="no column 'length'"):
            give(weight="length")
        with pytest.raises(ValueError, match="weight='pair' is a vector"):
            give(weight="pair")


def test_empty_graphs():
    for g in (Graph(), Graph.from_edges([], [], n=3)):
        n = len(g.points)
        assert g.to_scipy().shape == (n, n) and len(g.to_networkx()) == n
        assert g.to_igraph().vcount() == n and g.by_label(np.zeros(n)) == dict.fromkeys(range(n), 0)


def test_the_matrix_shares_nothing():
    g = Graph.from_edges([0, 1], [1, 0], [2, 3])
    matrix = g.to_scipy()
    matrix.data[:], matrix.indices[:] = 9, 0
    assert g.edges.weight[:].tolist() == [2, 3] and g.edges.dst[:].tolist() == [1, 0]


# --- tables --------------------------------------------------------------------------------------


def tables(columns):
    """One table of each library."""
    pandas = pytest.importorskip("pandas")
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    whole = arrow.table(columns)
    yield pandas.DataFrame(columns)
    yield polars.DataFrame(columns)
    yield whole
    yield arrow.concat_tables([whole.slice(0, 1), whole.slice(1)])  # in chunks
    yield whole.to_batches()[0]


def test_tables_of_ids():
    for table in tables({"source": [3, 0, 1], "target": [0, 1, 3], "weight": [1.5, 2, 4]}):
        g = Graph.of(table)
        assert g.labels is None and len(g.points) == 4 and g.directed
        assert g.edge_list()[2].tolist() == [2, 4, 1.5]  # by source
        assert "weight" not in Graph.of(table, weight=None).edges.columns
        assert morph.sssp(table, 0).distance.tolist() == [0, 2, np.inf, 6]
        g = Graph.from_table(table, labels=True, directed=False)
        assert g.labels.tolist() == [3, 0, 1] and len(g.edges) == 6


def test_tables_of_labels():
    columns = {"from": ["x", "y", "x"], "to": ["y", "z", "z"], "cost": [1, 2, 5]}
    for table in tables(columns):
        g = Graph.from_table(table, "from", "to", "cost")
        assert g.labels.tolist() == ["x", "y", "z"] and len(g.points) == 3
        assert g.by_label(morph.sssp(g, "x").distance) == {"x": 0, "y": 1, "z": 3}
        assert "weight" not in Graph.from_table(table, "from", "to").edges.columns
        with pytest.raises(ValueError, match="source='source': the table has columns .'from'"):
            Graph.of(table)


@pytest.mark.parametrize(
    "columns, message",
    [
        ({"source": ["a", None], "target": ["b", "c"]}, r"source\[1\] is missing"),
        ({"source": ["a", "b"], "target": ["b", None]}, r"target\[1\] is missing"),
        ({"source": [0, None], "target": [1, 2]}, "'source' holds float64: expected integers"),
        ({"source": [0.0, 1.5], "target": [1, 2]}, "'source' holds float64: expected integers"),
        ({"source": [0, 1], "target": [True, False]}, "'target' holds bool: expected integers"),
        ({"source": [0, -1], "target": [1, 2]}, r"src\[1\]"),
    ],
)
def test_tables_at_fault(columns, message):
    for table in tables(columns):
        with pytest.raises((TypeError, ValueError), match=message):
            Graph.of(table)


def test_odd_columns_of_pandas():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({
        "source": pandas.array([0, 1], dtype="Int64"), "target": pandas.array([1, 2], dtype="Int8"),
    })  # fmt: skip
    assert len(Graph.of(table.set_index([["k", "l"]])).points) == 3
    table["target"] = pandas.Categorical(["u", "v"])
    assert Graph.of(table).labels.tolist() == [0, "u", 1, "v"]
    table["source"] = pandas.array([pandas.NA, "u"], dtype="string")
    with pytest.raises(ValueError, match=r"source\[0\] is missing"):
        Graph.of(table)
    twice = pandas.DataFrame([[0, 1, 1]], columns=["source", "target", "target"])
    with pytest.raises(ValueError, match="2 columns 'target'"):
        Graph.of(twice)
    with pytest.raises(TypeError, match="holds datetime64"):
        Graph.of(pandas.DataFrame({"source": pandas.to_datetime(["2026-01-01"]), "target": [1]}))
    for thing in (table["source"], table.columns):
        with pytest.raises(TypeError, match="no graph can be made of"):
            Graph.of(thing)
    assert len(Graph.of(table.iloc[:0]).points) == 0
    assert len(Graph.of(pandas.DataFrame(columns=["source", "target", "weight"])).points) == 0
    table = pandas.DataFrame({"source": [0, 1], "target": [1, 2], "weight": [1, None]})
    with pytest.raises(ValueError, match="NaN|nan"):
        morph.sssp(table, 0)
    for weight in ("x", None):
        table["weight"] = pandas.Series([1, weight], dtype=object)
        with pytest.raises(TypeError, match=r"weight\[1\] is not a number"):
            Graph.of(table)


# --- labels --------------------------------------------------------------------------------------


def lettered(target="cpu", **options):
    g = Graph.from_edges([0, 1, 2], [1, 2, 3], [4, 2, 1], device=target, **options)
    g.labels = ["a", "b", (0, 1), "d"]
    return g


def test_labels_are_taken_from_other_libraries():
    igraph = pytest.importorskip("igraph")
    assert Graph.of(nx.path_graph(3)).labels is None
    assert Graph.of(nx.Graph([(2, 0), (0, 1)])).labels.tolist() == [2, 0, 1]
    theirs = igraph.Graph(2, [(0, 1)])
    assert Graph.of(theirs).labels is None
    for names in (["u", "u"], ["u", None], [["u"], "v"]):
        theirs.vs["name"] = names
        assert Graph.of(theirs).labels is None
    theirs.vs["name"] = ["u", "v"]
    assert Graph.of(theirs).labels.tolist() == ["u", "v"]


def test_labels_follow_their_points(target):
    g = lettered(target)
    for other in (g.copy(), copy.deepcopy(g), pickle.loads(pickle.dumps(g)), g.to("cpu")):
        assert other.labels.tolist() == ["a", "b", (0, 1), "d"] and other.id_of((0, 1)) == 2
    g.points.delete([0])
    assert g.labels.tolist() == [None, "b", (0, 1), "d"] and g.id_of("b") == 1
    assert g.copy().labels.tolist() == g.labels.tolist()
    g.compact()
    assert g.labels.tolist() == ["b", (0, 1), "d"] and g.id_of("b") == 0
    g.points.extend(2)
    g.points.delete([1])
    assert g.points.new().id == 1  # the id is used again, the label is not
    assert g.labels.tolist() == ["b", None, "d", None, None]
    with pytest.raises(KeyError, match=r"no point has the label \(0, 1\)"):
        g.id_of((0, 1))
    for give in (g.to_networkx, lambda: g.by_label(np.arange(5))):
        with pytest.raises(ValueError, match="point 1 has no label"):
            give()
    g.labels = list("uvwxy")
    assert g.id_of("y") == 4


@morph.kernel
def add_point(p, g):
    g.points.new()


def test_points_that_kernels_make_have_no_label(target):
    g = lettered(target)
    g.points.delete([0])
    morph.foreach(g.points, add_point, g)
    found = g.labels.tolist()
    assert found[:4] == [None, "b", (0, 1), "d"] and set(found[4:]) <= {None} and g.points.live == 6


def test_labels_are_distinct_and_read_only():
    g = lettered()
    with pytest.raises(ValueError, match=r"labels\[2\] is that of point 0: 'a'"):
        g.labels = ["a", "b", "a", "c"]
    with pytest.raises(ValueError, match="labels: 2 for 4 points"):
        g.labels = ["a", "b"]
    with pytest.raises(TypeError):
        g.labels = [[], "b", "c", "d"]
    with pytest.raises(ValueError, match="read-only"):
        g.labels[0] = "z"
    assert g.labels.tolist() == ["a", "b", (0, 1), "d"]
    g.labels = [None, "b", None, "c"]
    assert g.id_of("c") == 3
    for label in ("a", None):
        with pytest.raises(KeyError, match="no point has the label"):
            g.id_of(label)
    g.labels = None
    with pytest.raises(KeyError, match="the points have no labels"):
        g.id_of("b")


def test_algorithms_take_labels():
    g = lettered()
    assert morph.bfs(g, "b").distance.tolist() == [-1, 0, 1, 2]
    assert morph.bfs(g, (0, 1)).distance.tolist() == [-1, -1, 0, 1]  # this tuple is a label
    assert morph.bfs(g, [0, 1]).distance.tolist() == [0, 0, 1, 2]  # these are ids
    assert morph.bfs(g, ("b", 3)).distance.tolist() == [-1, 0, 1, 0]
    assert morph.bfs(g, np.array(["b", "a"])).distance.tolist() == [0, 0, 1, 2]
    assert morph.bfs(g, ["b", (0, 1)], rows=True).distance[:, 3].tolist() == [2, 1]
    found = morph.sssp(g, "a", targets=(0, 1), predecessors=True)
    route = morph.path(g, found, (0, 1))
    assert route.vertices.tolist() == ["a", "b", (0, 1)]
    assert morph.bellman_ford(g, "b").distance[3] == morph.johnson(g, "b").distance[0, 3] == 3
    assert morph.DynamicSSSP(g, "b").distance[3] == 3
    assert morph.betweenness(g, ["a"]).sources.tolist() == ["a"]
    morph.validate.bfs(g, morph.bfs(g, "b").distance, source="b")
    with pytest.raises(morph.validate.WrongAnswer):
        morph.validate.bfs(g, morph.bfs(g, "b").distance, source="a")
    assert g.ids_of([(0, 1), "a", 3]).tolist() == [2, 0, 3]
    assert g.ids_of(np.array(["b", (0, 1)], object)).tolist() == [1, 2]
    assert g.ids_of({"b"}).tolist() == [1] and g.ids_of([]).size == 0
    assert g.weight("a", "b") == 4 and g.weight("b", (0, 1)) == 2 and g.degree("a") == 1
    assert g.edge("a", 2) is None and g.weight(g.points[2], 3) == 1
    with pytest.raises(TypeError, match="point: expected a row or its id, not 'z'"):
        g.degree("z")
    assert g.ids_of([3, 0]).tolist() == [3, 0] and g.ids_of(9).tolist() == [9]
    for wrong in ("z", ["a", "z"], [(0, 1), (2, 3)], {"z"}):
        with pytest.raises(ValueError, match="source: no vertex has the label"):
            morph.bfs(g, wrong)
    for wrong in (1.5, True, None):
        with pytest.raises(TypeError, match="source is an id or an array of ids"):
            morph.bfs(g, wrong)
    with pytest.raises(ValueError, match="target: no vertex has the label 'z'"):
        morph.path(g, found, "z")
    with pytest.raises(ValueError, match="source 9 is not a vertex"):  # an integer is an id
        morph.bfs(g, 9)


def test_values_by_label():
    g = lettered()
    assert g.by_label(morph.bfs(g, "b").distance) == {"a": -1, "b": 0, (0, 1): 1, "d": 2}
    rows = morph.sssp(g, ["a", "b"], rows=True).distance.T
    assert g.by_label(rows)["d"] == [7, 3]
    for values in (np.arange(3), 4):
        with pytest.raises(ValueError, match="expected one for each of 4 points"):
            g.by_label(values)
    with pytest.raises(ValueError, match="values: rows of different lengths"):
        g.by_label([[1, 2], [3], [4], [5]])
    assert sp.issparse(g.to_scipy())


def test_batches_take_labels(target):
    """As ids do; an error leaves the graph unchanged."""
    batches = [
        {"inserts": (["a"], ["c"], [1])}, {"inserts": ("b", (0, 1), 2)},
        {"inserts": {"src": ["a", 1], "dst": np.array(["b", "c"]), "weight": [7, 8]}},
        {"deletes": (["a"], ["b"])}, {"updates": (np.array(["c"], object), ["b"], [3])},
        {"inserts": (["a", "b"], ["c", "c"]), "deletes": ("c", "b")}, {"delete_points": ["c"]},
    ]  # fmt: skip
    ids = [
        {"inserts": ([0], [2], [1])}, {"inserts": (1, 3, 2)}, {"inserts": ([0, 1], [1, 2], [7, 8])},
        {"deletes": ([0], [1])}, {"updates": ([2], [1], [3])},
        {"inserts": ([0, 1], [2, 2]), "deletes": (2, 1)}, {"delete_points": [2]},
    ]  # fmt: skip

    def graph():
        return Graph.from_edges(
            [0, 0, 1, 2], [1, 2, 2, 3], weight=[4, 9, 5, 1], n=4, symmetrize=True, device=target
        )

    g, like = graph(), graph()
    g.labels = ["a", "b", "c", (0, 1)]
    followers = [morph.DynamicSSSP(g, "a"), morph.DynamicSSSP(like, 0)]
    for batch, same in zip(batches, ids, strict=True):
        before = g.edges.live
        for wrong in ({"inserts": ("a", ["q"])}, {"deletes": (["q"], "a")}):
            (name,) = wrong
            with pytest.raises(ValueError, match=f"{name}.* no vertex has the label 'q'"):
                followers[0].apply(**{**batch, **wrong})
        assert g.edges.live == before
        followers[0].apply(**batch)
        followers[1].apply(**same)
        assert g.edges.live == like.edges.live
        for column in ("src", "dst", "weight"):
            assert getattr(g.edges, column)[:].tolist() == getattr(like.edges, column)[:].tolist()
        assert followers[0].distance.tolist() == followers[1].distance.tolist()
    with pytest.raises(ValueError, match="point 'a' cannot be deleted: it is a source"):
        followers[0].apply(delete_points="a")


@pytest.mark.parametrize("follow", [
    morph.DynamicBFS, morph.DynamicComponents, morph.DynamicCores, morph.DynamicPageRank,
])  # fmt: skip
def test_dynamic_algorithms_take_labels(follow):
    g = Graph.of(nx.grid_2d_graph(2, 2))
    assert follow(g).apply(inserts=((0, 0), (1, 1))).applied.inserted.size == 2


def test_journals_log_the_ids_of_labels(tmp_path):
    g = Graph.of(nx.Graph([("a", "b"), ("b", "c")]))
    with morph.io.Journal(tmp_path / "g", g) as journal:
        journal.apply(inserts=(["a"], ["c"]))
        assert g.edges.live == 6
    with morph.io.Journal(tmp_path / "g") as journal:
        assert journal.graph.edges.live == 6 and journal.graph.labels is None


def test_labels_of():
    g = Graph.of(nx.Graph([("a", "b"), ("b", "c"), ("a", "c"), ("c", (0, 1))]))
    assert g.labels_of(2) == "c" and g.labels_of(np.array([], np.int32)) == []
    assert g.labels_of(g.ids_of([(0, 1), "a"])) == [(0, 1), "a"]
    before = morph.bfs(g, "b").predecessor
    assert g.labels_of([before[:1], before[2:]]) == [["b"], ["b", "c"]]
    assert Graph.from_edges([0], [1]).labels_of([np.array([1, 0])]) == [[1, 0]]
    with pytest.raises(IndexError, match="vertex 4: the graph has 4"):
        g.labels_of([0, 4])
    with pytest.raises(IndexError, match="vertex -1: the graph has 4"):
        g.labels_of(before)
    with pytest.raises(TypeError, match="vertices are ids, not 'a'"):
        g.labels_of("a")
    with pytest.raises(TypeError, match="vertices are ids, not array"):  # these are labels already
        g.labels_of(morph.max_clique(g).points)


def test_errors_name_labels():
    g = Graph.of(nx.DiGraph([("x", "y"), ("y", "x")]))
    with pytest.raises(morph.CycleError) as info:
        morph.topological_order(g)
    for error in (info.value, pickle.loads(pickle.dumps(info.value))):
        assert str(error) == "a cycle: 'x' -> 'y' -> 'x'"
        assert error.vertices.tolist() == ["x", "y"] and error.edges.tolist() == [0, 1]
    h = nx.DiGraph()
    h.add_weighted_edges_from([("x", "y", -4), ("z", "y", 1)])
    h = Graph.of(h)
    with pytest.raises(ValueError, match="the edge from 'x' to 'y' has -4"):
        morph.sssp(h, "x")
    found = morph.bfs(h, "x")
    with pytest.raises(ValueError, match="no path leads to vertex 'z'"):
        morph.path(h, found, "z")
