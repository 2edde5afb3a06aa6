"""Answers of algorithms about graphs whose points have labels."""

from __future__ import annotations

import pickle
import random
import re
from itertools import pairwise
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from graphs import CASES, edge_lists, graph_of
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended
from targets import host, tries

import morph
from morph import validate
from morph.algorithms.graph.arguments import VERTICES
from morph.algorithms.registry import ROWS
from morph.graph import Graph
from morph.runtime.interpreter import launch

KINDS = {
    "strings": lambda k: f"p{k}",
    "tuples": lambda k: (k // 3, k % 3),
    "other numbers": lambda k: 10 * k + 10,
    "numbers in another order": lambda k: k ^ 1,
    "reals": lambda k: k / 4,
    "mixed": lambda k: (k, str(k), (k,))[k % 3],
}
WITHOUT_ROW = {
    "path": lambda g, of: morph.path(g, morph.bfs(g, of(0)), of(1)),
    "path, by row": lambda g, of: morph.path(
        g, morph.sssp(g, of([2, 0]), rows=True, predecessors=True), of(1), row=1
    ),
    "k_core": lambda g, of: morph.k_core(g, 1),
    "k_truss": lambda g, of: morph.k_truss(g, 2),
    "cliques": lambda g, of: list(morph.cliques(g)),
    "max_flow": lambda g, of: morph.max_flow(g, of(0), of(1)),
    "community": lambda g, of: morph.community(g, of(0), (2, 3), all=True, top=3),
    "community, of several": lambda g, of: morph.community(g, of([0, 1, 0]), (1, 3)),
    "targets": lambda g, of: morph.sssp(g, of(0), targets=of([1, 2])),
    "DynamicSSSP": lambda g, of: morph.DynamicSSSP(g, of([0, 1])).distance,
    "DynamicBFS": lambda g, of: morph.DynamicBFS(g, of(0)).distance,
    "DynamicComponents": lambda g, of: morph.DynamicComponents(g).label,
    "DynamicCores": lambda g, of: morph.DynamicCores(g).core,
    "DynamicPageRank": lambda g, of: morph.DynamicPageRank(g).rank,
}
SOURCES = "source", "sources"


class InOrder(random.Random):
    """The order of items in which they lie in their table."""

    def shuffle(self, x):
        pass

    def randrange(self, stop):
        return stop - 1


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Labels are replaced on the host, so no kernel need be compiled; all calls in one order."""
    monkeypatch.setenv("MORPH_DEVICE", "python")
    monkeypatch.setattr(launch, "random", SimpleNamespace(Random=InOrder))


def labelled(g, kind):
    """A copy with labels, and the function that gives the labels of ids, nested in lists."""
    names = g.copy()
    names.labels = [KINDS[kind](k) for k in range(len(g.points))]
    return names, names.labels_of


def same(graph, plain, named, of):
    """Require that a result has labels where the result without them has vertices."""
    assert type(plain) is type(named)
    if isinstance(plain, list) and plain and isinstance(plain[0], np.ndarray):  # cliques
        assert sorted(map(str, of(plain))) == sorted(str(x.tolist()) for x in named)
    elif isinstance(plain, list):
        for a, b in zip(plain, named, strict=True):
            same(graph, a, b, of)
    elif plain is not None:
        for name in getattr(plain, "_fields", [""]):
            a, b = (getattr(x, name) if name else x for x in (plain, named))
            if name in VERTICES.get(type(plain), ()):
                assert as_lists(a, of) == as_lists(b, lambda x: x.tolist())
            elif hasattr(a, "dtype") and a.ndim:
                assert np.array_equal(host(a), host(b), equal_nan=a.dtype.kind == "f"), name
                # an array of another length would list vertices
                assert name == "edges" or a.shape[-1] in (len(graph.points), len(graph.edges))
            else:
                assert a == b or a != a


def as_lists(x, of):
    if isinstance(x, list | tuple):
        return [as_lists(part, of) for part in x]
    return of(x) if hasattr(x, "dtype") else x


def error_or(call):
    """The result of a call, or the type of its error."""
    try:
        return call()
    except (ValueError, OverflowError) as error:
        return type(error)


def in_labels(arguments, of):
    """Arguments of a function with the labels of sources; a number of sources is unchanged."""
    return {k: of(v) if k in SOURCES and isinstance(v, list) else v for k, v in arguments.items()}


@pytest.mark.parametrize("row, options", CASES)
def test_answers_of_the_registry_are_those_without_labels(row, options):
    """In labels where they list vertices, and checkers accept them."""

    @tries(4)
    @given(edge_lists(most=12), st.booleans(), st.sampled_from(sorted(KINDS)))
    def run(edges, directed, kind):
        # interpreted, it may find another one of several largest cliques each time
        device = "cpu" if row.public_name == "max_clique" else None
        g = row.suited(graph_of((max(edges[0], 7), *edges[1:]), device, directed=directed))
        names, of = labelled(g, kind)
        arguments = {**row.arguments_of(options), **row.complete}
        named = in_labels(arguments, of)
        plain, found = row.function(g, **arguments), row.function(names, **named)
        same(g, plain, found, of)
        checker = getattr(validate, row.public_name)
        checker(names, **row.checked_arguments(found, named))

    run()


@pytest.mark.parametrize("name", WITHOUT_ROW)
def test_other_answers_are_those_without_labels(name):
    @tries(8)
    @given(edge_lists(most=12), st.booleans(), st.sampled_from(sorted(KINDS)))
    def run(edges, directed, kind):
        g = graph_of((max(edges[0], 3), *edges[1:]), None, directed=directed)
        names, of = labelled(g, kind)
        call = WITHOUT_ROW[name]
        plain = error_or(lambda: call(g, lambda ids: ids))
        found = error_or(lambda: call(names, of))
        if isinstance(plain, type):
            assert found is plain
        else:
            same(g, plain, found, of)
            check_other(name, names, found, of)

    run()


def check_other(name, names, found, of):
    if name.startswith("path"):
        validate.path(names, *found)
    elif name == "cliques":
        validate.cliques(names, found)
    elif name == "community":
        validate.community(names, found, of(0), (2, 3))
    elif name == "max_flow":
        validate.max_flow(names, found.flow, of(0), of(1), value=found.value, cut=found.cut)


def test_every_algorithm_is_tested():
    tested = {row.public_name for row in ROWS} | {name.partition(",")[0] for name in WITHOUT_ROW}
    for name in morph.__all__:
        value = getattr(morph, name)
        module = getattr(value, "__module__", "").split(".")[1:3]
        if module in (["algorithms", kind] for kind in ("graph", "community", "dynamic")):
            assert name in tested or issubclass(value, ValueError)


def path_graph(names, *, directed=False):
    """A path along the names, with weights 1, 2, 3, and the NetworkX graph of it."""
    graph = nx.DiGraph() if directed else nx.Graph()
    graph.add_weighted_edges_from((*ends, k + 1) for k, ends in enumerate(pairwise(names)))
    return Graph.of(graph), graph


def test_algorithms_of_other_libraries_graphs_answer_in_labels():
    _, graph = path_graph(["Ulm", "Bonn", "Kiel"], directed=True)
    assert morph.densest_subgraph(graph).points.tolist() == ["Ulm", "Bonn", "Kiel"]
    assert morph.topological_order(graph).order.tolist() == ["Ulm", "Bonn", "Kiel"]
    found = morph.bfs(graph, "Ulm")
    assert morph.path(graph, found, "Kiel").vertices.tolist() == ["Ulm", "Bonn", "Kiel"]


def test_numbers_are_labels_if_a_label_is_a_number():
    g, graph = path_graph([3, 1, 0, 2])
    for source in (1, [1], np.int32(1), np.array([1]), (1,), {1}, 1.0):
        assert morph.bfs(g, source).distance.tolist() == [1, 0, 1, 2], source
    assert morph.bfs(graph, 1).distance.tolist() == [1, 0, 1, 2]
    route = morph.path(g, morph.sssp(g, 3, predecessors=True), 2)
    assert route.vertices.tolist() == [3, 1, 0, 2]
    assert morph.path(g, morph.bfs(g, route.vertices[0]), route.vertices[-1]).edges.size == 3
    assert g.weight(3, 1) == 1 and g.degree(2) == 1 and g.edge(3, 0) is None
    assert g.ids_of(g.labels_of([2, 0])).tolist() == [2, 0] and g.ids_of([]).size == 0
    h, _ = path_graph([10, 20, 30])
    for wrong in (0, [10, 0], np.array([0]), 2.5):
        with pytest.raises(ValueError, match="source: no vertex has the label"):
            morph.bfs(h, wrong)
    with pytest.raises(ValueError, match="source: no vertex has the label 0"):
        morph.bfs(h)
    with pytest.raises(TypeError, match="source is an id or an array of ids"):
        morph.bfs(h, None)
    with pytest.raises(KeyError, match="no point has the label 0"):
        h.degree(0)
    again = pickle.loads(pickle.dumps(h)).copy()
    assert morph.bfs(again, 20).distance.tolist() == [1, 0, 1]
    again.labels = None
    assert morph.bfs(again, 0).distance.tolist() == [0, 1, 2]


FOLLOW = {
    "sssp": lambda g, s: morph.DynamicSSSP(g, s),
    "bfs": lambda g, s: morph.DynamicBFS(g, s),
    "components": lambda g, s: morph.DynamicComponents(g),
    "cores": lambda g, s: morph.DynamicCores(g),
    "graph": lambda g, s: g,
}


@pytest.mark.parametrize("follow", FOLLOW)
def test_batches_take_numbers_as_labels(target, follow):
    """Single changes, which have prepared launches, and others."""
    if target == "cpu" and follow != "graph":
        pytest.skip("the labels are replaced as with the interpreter")
    follow = FOLLOW[follow]
    ends = [0, 0, 1, 2, 3], [1, 2, 2, 3, 4]
    plain = Graph.from_edges(*ends, weight=[4, 9, 5, 1, 2], symmetrize=True, device=target)
    g = plain.copy()
    g.labels = [4, 3, 2, 1, 0]
    a, b = follow(plain, 0), follow(g, 4)
    for k in range(4):
        a.apply(inserts=(0, 3, 1 + k))
        b.apply(inserts=(4, 1, 1 + k))
    a.apply(inserts=([0, 1], [4, 4], [2, 2]), updates=([2], [3], [7]), deletes=([0], [1]))
    b.apply(
        inserts={"src": np.array([4, 3]), "dst": [0, 0], "weight": [2, 2]},
        updates=(np.array([2]), [1], [7]), deletes=(np.array([4]), np.array([3])),
    )  # fmt: skip
    a.apply(delete_points=[2])
    b.apply(delete_points=np.array([2]))
    for column in ("src", "dst", "weight"):
        assert getattr(g.edges, column)[:].tolist() == getattr(plain.edges, column)[:].tolist()
    assert g.edges.live == plain.edges.live
    with pytest.raises(ValueError, match=r"inserts\.src: no vertex has the label 7"):
        b.apply(inserts=([7], [4], [1]))


def test_journals_of_graphs_with_number_labels(tmp_path):
    g, _ = path_graph([3, 1, 0, 2])
    dynamic = morph.DynamicBFS(g, 3)
    with morph.io.Journal(tmp_path / "g", g) as journal:
        journal.apply(inserts=([3], [2], [1]))
        journal.apply(deletes=(3, 1), by=dynamic.apply)
    assert dynamic.distance.tolist() == [0, 3, 2, 1]
    with morph.io.Journal(tmp_path / "g") as journal:  # the log has ids
        assert morph.bfs(journal.graph, 0).distance.tolist() == [0, 3, 2, 1]


def test_points_without_labels_are_named_by_ids():
    g, _ = path_graph(["a", "b", "c"])
    g.points.extend(1)
    g.apply(inserts=([3, 3], ["b", "c"], [1, 1]))
    found = morph.max_clique(g)
    assert found.points.tolist() == ["b", "c", 3] and g.labels_of([3, 0]) == [3, "a"]
    validate.max_clique(g, found.points)
    assert morph.topological_order(Graph.from_edges([0], [1])).order.tolist() == [0, 1]
    h, _ = path_graph([7, 8, 9])
    h.points.extend(1)
    assert morph.max_clique(h).size == 2  # of points with labels
    for call in (lambda: morph.k_core(h, 0), lambda: h.labels_of([0, 3])):
        with pytest.raises(ValueError, match="point 3 has no label: assign `labels` of all points"):
            call()
    h.labels = [7, 8, 9, 6]
    assert morph.k_core(h, 0).points.tolist() == [7, 8, 9, 6]


@pytest.mark.parametrize("values", [
    np.array([b"a", b"b", b"c", b"d"]), np.array([1.5, 2.5, 3.5j, 4]), np.arange(4).astype("m8[h]"),
    np.arange(4).astype("M8[D]"), np.arange(4).astype("M8[ns]"),
], ids=lambda values: str(values.dtype))  # fmt: skip
def test_arrays_of_other_types_are_labels(values):
    names, other = values[:3], values[3]
    g = Graph.from_edges([0, 1], [1, 2], weight=[1, 2])
    g.labels = names
    for source in (names[1], names[1:2], [names[1]], g.labels[1], g.labels[1:2]):
        assert morph.bfs(g, source).distance.tolist() == [-1, 0, 1]
    g.apply(updates=(names[:1], names[1:2], [5]), deletes=(names[1:2], names[2:]))
    assert g.edges.live == 1 and g.weight(names[0], names[1]) == 5
    assert g.ids_of(morph.k_core(g, 1).points).tolist() == [0, 1]
    for wrong in (other, values):
        with pytest.raises(ValueError, match="source: no vertex has the label"):
            morph.bfs(g, wrong)


@pytest.mark.parametrize("labels, error, message", [
    (5, TypeError, "labels are one for each point, not 5"),
    (np.array(5), TypeError, "labels are one for each point, not"),
    ("abc", TypeError, "labels are one for each point, not 'abc'"),
    (["a", ["b"], "c"], TypeError, "labels[1] is not hashable: ['b']"),
    (["a", "b", "a"], ValueError, "labels[2] is that of point 0: 'a'"),
    (np.ma.array([1, 2, 3], mask=[0, 1, 0]), ValueError, "labels[1] is masked"),
])  # fmt: skip
def test_other_objects_are_no_labels(labels, error, message):
    g = Graph.from_edges([0, 1], [1, 2])
    with pytest.raises(error, match=re.escape(message)):
        g.labels = labels
    assert g.labels is None


def test_a_label_that_is_a_bool_is_one_vertex():
    graph = nx.DiGraph()
    graph.add_edge(True, "b", weight=3)
    assert morph.max_flow(graph, True, "b").value == 3


def test_sources_of_dynamic_algorithms_are_labels():
    g, _ = path_graph([30, 10, 20])
    for kind in (morph.DynamicSSSP, morph.DynamicBFS):
        dynamic = kind(g, [20, 30])
        assert dynamic.sources.tolist() == [30, 20]
        assert kind(g, dynamic.sources).distance.tolist() == dynamic.distance.tolist()
        assert kind(Graph.from_edges([0], [1]), 1).sources.tolist() == [1]
    assert morph.DynamicSSSP(morph.partition(g, ["python"] * 2), 10).sources.tolist() == [10]


def test_strings_of_numpy_are_strings():
    g = Graph.from_edges([0, 1], [1, 2])
    g.labels = np.array(["a", "b", "c"])
    for source in ("b", np.str_("b"), ["b"], np.array(["b"]), np.array(["b"], object)):
        assert morph.bfs(g, source).distance.tolist() == [-1, 0, 1]
    assert morph.topological_order(g).order.tolist() == ["a", "b", "c"]


def test_ends_of_edges_and_values_that_are_vertices():
    g, graph = path_graph(["a", "b", "c", (0, 1)])
    graph.add_edge("a", "c", weight=9)
    g = Graph.of(graph)
    src, dst = g.ends_of(morph.mst(g).edges)
    theirs = nx.minimum_spanning_edges(graph, data=False)
    assert {*map(frozenset, zip(src, dst, strict=True))} == {*map(frozenset, theirs)}
    found = morph.matching(g)
    partner = g.by_label(found.partner, values_are_vertices=True)
    assert {(a, b) for a, b in partner.items() if b is not None} == {
        e for s, d in zip(*g.ends_of(found.edges), strict=True) for e in ((s, d), (d, s))
    }
    before = g.by_label(morph.bfs(g, "a").predecessor, values_are_vertices=True)
    assert before == {"a": None, "b": "a", "c": "a", (0, 1): "c"}
    plain = Graph.from_edges([0, 1], [1, 2])
    assert [x.tolist() for x in plain.ends_of([1, 0])] == [[1, 0], [2, 1]]
    before = plain.by_label(morph.bfs(plain).predecessor, values_are_vertices=True)
    assert before == {0: None, 1: 0, 2: 1}
    rows = morph.johnson(g, ["a", (0, 1)], predecessors=True).predecessor
    assert g.by_label(rows.T, values_are_vertices=True)["b"] == ["a", "c"]
    for wrong, error in ((["a"], TypeError), ([99], IndexError), ([-1], IndexError)):
        with pytest.raises(error, match="edge"):
            g.ends_of(wrong)


def test_tuples_that_are_labels_are_one_query():
    g = Graph.of(nx.grid_2d_graph(2, 2))
    found = morph.community(g, (0, 0), (2, 2))
    assert found.vertices.tolist() == [(0, 0), (0, 1)]
    validate.community(g, found, (0, 0), (2, 2))
    assert len(morph.community(g, [(0, 0), (1, 1)], (1, 2))) == 2


def test_the_iterator_of_cliques_keeps_the_labels_of_the_call():
    g, _ = path_graph(["a", "b", "c"])
    found = morph.cliques(g)
    g.points.delete([0])
    g.compact()
    assert sorted(x.tolist() for x in found) == [["a", "b"], ["b", "c"]]


def test_checkers_name_vertices_by_labels():
    g, _ = path_graph(["a", "b", "c"])
    wrong = morph.bfs(g, "a").distance + np.array([0, 0, 1], np.int32)
    with pytest.raises(validate.WrongAnswer, match="from 'b' to 'c', is a shorter way: 'c' is at"):
        validate.bfs(g, wrong, source="a")
    with pytest.raises(validate.WrongAnswer, match="vertex 'b' extends the clique \\['a'\\]"):
        validate.cliques(g, [["a"]])
    with pytest.raises(validate.WrongAnswer, match="no vertex has the label 'z'"):
        validate.densest_subgraph(g, ["a", "z"])
    with pytest.raises(validate.WrongAnswer, match="edge 0 does not lead from 'b' to 'c'"):
        validate.path(g, ["b", "c"], [0])
    with pytest.raises(ValueError, match="target: no vertex has the label 'z'"):
        morph.path(g, morph.bfs(g, "a"), "z")


def test_errors_of_weights_name_labels():
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([("a", "b", -1.0), ("b", "c", 2.0)])
    g = Graph.of(graph)
    for call, message in (
        (lambda: morph.betweenness(g, weighted=True), "the edge from 'a' to 'b' has -1"),
        (lambda: g.apply(inserts=("a", "c"), delete_points=["c"]), r"inserts.dst\[0\] = 'c' is"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    capacities = Graph.from_edges([0, 1], [1, 2], weight=[-3, 1])
    capacities.labels = ["s", "m", "t"]
    with pytest.raises(ValueError, match="the edge from 's' to 'm' has -3"):
        morph.max_flow(capacities, "s", "t")


def test_errors_list_the_vertices_of_a_cycle_by_labels():
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(10, 20, 1), (20, 30, -3), (30, 10, 1)])
    with pytest.raises(morph.NegativeCycle, match="20 -> 30 -> 10 -> 20|10 -> 20 -> 30") as found:
        morph.bellman_ford(graph, 10)
    g = Graph.of(graph)
    assert {*found.value.vertices} == {10, 20, 30}
    src, dst = g.ends_of(found.value.edges)
    assert src.tolist() == found.value.vertices.tolist() and sorted(dst) == [10, 20, 30]


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_in_parts_have_the_labels(kind):
    plain = morph.generate.grid(3, 4)
    plain.edges.add("weight", np.int32, 1)
    g, of = labelled(plain, kind)
    parts, a, b = morph.partition(g, ["python"] * 3), *of([0, 5])
    assert parts.labels.tolist() == g.labels.tolist() and parts.labels_of([5]) == [b]
    assert parts.to("python").labels.tolist() == g.labels.tolist()
    for call in (
        lambda g, of: morph.bfs(g, of([0, 5])),
        lambda g, of: morph.sssp(g, of(5), targets=of([1])),
        lambda g, of: morph.bellman_ford(g, of(5)),
        lambda g, of: morph.DynamicSSSP(g, of(5)).distance,
        lambda g, of: morph.betweenness(g, of([3, 5])),
        lambda g, of: morph.k_core(g, 2),
    ):
        same(g, call(plain, lambda ids: ids), call(parts, of), of)
    found = morph.sssp(parts, b, predecessors=True)
    validate.sssp(parts, found.distance, found.predecessor, source=b)
    assert parts.by_label(found.distance) == g.by_label(morph.sssp(g, b).distance)
    assert parts.by_label(found.predecessor, values_are_vertices=True)[b] is None
    inserted = parts.apply(inserts=([a], [b], [1])).inserted
    assert [x[0] for x in parts.ends_of(inserted)] == [a, b]
    assert int(morph.bfs(parts, a).distance[5]) == 1
    with pytest.raises(validate.WrongAnswer, match=re.escape(f"vertex {of([1])[0]!r}")):
        validate.bfs(parts, np.zeros(12, np.int32), source=a)
    with pytest.raises(ValueError, match="source: no vertex has the label 'z'"):
        morph.bfs(parts, "z")
    with pytest.raises(TypeError, match="labels of a partitioned graph"):
        parts.labels = range(12)


def test_labels_of_results_on_a_gpu_are_on_the_host(monkeypatch):
    device = pretended(monkeypatch)
    g = Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 3], weight=[1, 4, 1, 1], device=device)
    plain = g.copy()
    g.labels = ["a", "b", "c", "d"]
    for call in (
        lambda g, of: morph.k_core(g, 2),
        lambda g, of: morph.densest_subgraph(g),
        lambda g, of: morph.topological_order(g),
        lambda g, of: morph.path(g, morph.sssp(g, of(0), predecessors=True), of(3)),
        lambda g, of: morph.betweenness(g, of([1, 2])),
        lambda g, of: morph.bfs(g, of(g.device.asarray([1, 2]) if of(0) == 0 else [1, 2])),
    ):
        same(g, call(plain, lambda ids: ids), call(g, g.labels_of), g.labels_of)
    assert type(plain.ends_of(morph.mst(plain).edges)[0]) is type(morph.mst(plain).edges)
    src, dst = g.ends_of(morph.path(g, morph.bfs(g, "a"), "d").edges)
    assert src.tolist() == ["a", "c"] and dst.tolist() == ["c", "d"]
    assert g.by_label(morph.bfs(g, "a").predecessor, values_are_vertices=True)["d"] == "c"


def test_ends_of_a_deleted_edge():
    g = morph.Graph.from_edges([0, 1, 2], [1, 2, 0], n=3)
    g.labels = ["a", "b", "c"]
    g.apply(deletes=[1])
    assert [x.tolist() for x in g.ends_of([2, 0])] == [["c", "a"], ["a", "b"]]
    with pytest.raises(IndexError, match="edge 1 was deleted"):
        g.ends_of([0, 1])
