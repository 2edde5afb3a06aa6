"""The NetworkX backend ``morph`` gives the results of NetworkX."""

import inspect
import math
import random
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from targets import tries

import morph
from morph import networkx_backend as backend
from morph.networkx_info import backend_info, functions

ROOT = Path(__file__).parents[2]
CLASSES = nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph
LABELS = ["a", (1, 2), 3, "b", 2.5, frozenset(), 0, -1]  # in no order, of many types
WEIGHTS = {
    "none": st.just({}),
    "int": st.fixed_dictionaries({"weight": st.integers(0, 9)}),
    "some": st.one_of(st.just({}), st.fixed_dictionaries({"weight": st.booleans()})),
    "float": st.fixed_dictionaries({"weight": st.sampled_from([0.0, 0.5, 1.25, 3])}),
    "negative": st.fixed_dictionaries({"weight": st.sampled_from([-1, 0, 2, 5])}),
}


@st.composite
def graphs(draw, kinds=CLASSES, weights=tuple(WEIGHTS)):
    """Graphs of all classes, with loops, parallel edges, isolated nodes and attributes."""
    made = draw(st.sampled_from(kinds))(name="g")
    made.add_nodes_from(draw(st.permutations(LABELS))[: draw(st.integers(0, 8))], colour="red")
    if nodes := list(made):
        kind = WEIGHTS[draw(st.sampled_from(weights))]
        end = st.sampled_from(nodes)
        for u, v, attributes in draw(st.lists(st.tuples(end, end, kind), max_size=20)):
            made.add_edge(u, v, **attributes, note="x")
    return made


def outcome(call, *args, **kwargs):
    """A result, with generators exhausted, or the exception raised."""
    try:
        found = call(*args, **kwargs)
        return list(found) if inspect.isgenerator(found) or hasattr(found, "__next__") else found
    except NotImplementedError:
        raise
    except Exception as error:
        return type(error)


def alike(a, b):
    """Equal, floats up to rounding, generated sets in any order."""
    if isinstance(a, nx.Graph):
        return nx.utils.graphs_equal(a, b) and type(a) is type(b)
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    if isinstance(a, list) and a and isinstance(a[0], set):
        return sorted(map(repr, map(sorted, [map(repr, s) for s in a]))) == sorted(
            map(repr, map(sorted, [map(repr, s) for s in b]))
        )
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return type(b) in (int, float) and (math.isclose(a, b, abs_tol=1e-12) or a != a and b != b)
    return a == b and not isinstance(b, np.generic)


def compare(name, graph, *args, must=False, seed=None, **kwargs):
    """NetworkX's outcome and the backend's, which may refuse unless it ``must`` not."""
    seeds = [{} if seed is None else {"seed": random.Random(seed)} for _ in range(2)]
    want = outcome(getattr(nx, name), graph, *args, **kwargs, **seeds[0], backend="networkx")
    cores = name.startswith(("core_", "k_")) and not graph.is_multigraph()
    by_function = name.endswith("spanning_tree") or cores
    if want is nx.NetworkXNotImplemented and not by_function:
        return  # refused by a decorator, before a backend is called
    try:
        found = outcome(
            getattr(backend, name), backend.Converted(graph), *args, **kwargs, **seeds[1]
        )
    except NotImplementedError:
        assert not must, f"{name} is refused"
        return
    assert alike(want, found), f"{name}: {want}, not {found}"


STRUCTURE = [
    "connected_components", "core_number", "is_connected", "is_strongly_connected",
    "is_weakly_connected", "number_connected_components", "number_strongly_connected_components",
    "number_weakly_connected_components", "strongly_connected_components", "triangles",
    "weakly_connected_components",
]  # fmt: skip


@tries(60)
@given(graphs())
def test_structure(graph):
    for name in STRUCTURE:
        compare(name, graph, must=True)
    plain = type(graph) is nx.Graph
    for name in ("average_clustering", "clustering", "transitivity"):
        compare(name, graph, must=plain)
    for node in [*graph, "missing"][:3]:
        compare("node_connected_component", graph, node, must=True)
        for name in ("triangles", "clustering"):
            compare(name, graph, node, must=plain and node in graph)
    some = list(graph)[::2]
    compare("triangles", graph, some)
    compare("clustering", graph, nodes=some, must=plain)
    compare("average_clustering", graph, some, count_zeros=False, must=plain)


@tries(40)
@given(graphs(), st.booleans(), st.booleans(), st.integers(1, 8))
def test_betweenness(graph, normalized, endpoints, k):
    options = {"normalized": normalized, "endpoints": endpoints, "must": True}
    compare("betweenness_centrality", graph, **options)
    if k <= len(graph):
        compare("betweenness_centrality", graph, k=k, seed=7, **options)


@tries(30)
@given(graphs(weights=("none", "int", "some", "float")), st.sampled_from([0.5, 1, 2]))
def test_leiden(graph, resolution):
    """NetworkX has no implementation of its own."""
    if graph.is_directed():
        return  # refused by a decorator
    seeds = random.Random(7), random.Random(7)
    H = backend.Converted(graph)
    found, again = (backend.leiden_communities(H, "weight", resolution, seed=s) for s in seeds)
    assert found == again and type(found) is list and set().union(*found) == set(graph)
    assert sum(map(len, found)) == len(graph)
    if graph.size("weight"):
        assert all(nx.is_connected(graph.subgraph(part)) for part in found)
        singles = [{v} for v in graph]
        least = nx.community.modularity(graph, singles, resolution=resolution)
        assert nx.community.modularity(graph, found, resolution=resolution) >= least - 1e-12


def test_leiden_by_networkx():
    graph = nx.connected_caveman_graph(8, 6)
    leiden = pytest.importorskip("networkx.algorithms.community.leiden").leiden_communities
    assert len(backend.leiden_communities(backend.Converted(graph), seed=random.Random(1))) == 8
    with nx.config(backend_priority=["morph"]):  # also for small graphs
        assert len(leiden(graph, seed=1)) == 8
    for refused in ({"max_level": 1}, {"resolution": -1}, {"weight": "w"}):
        graph.add_edge(0, 1, w=-1)
        with pytest.raises(NotImplementedError):
            leiden(graph, **refused, backend="morph")


@tries(60)
@given(graphs(), st.booleans(), st.booleans(), st.integers(1, 8))
def test_weighted_betweenness(graph, normalized, endpoints, k):
    """Morph refuses weights that are not positive."""
    least = min((d.get("weight", 1) for _, _, d in graph.edges(data=True)), default=1)
    options = {"normalized": normalized, "weight": "weight", "must": least > 0}
    compare("edge_betweenness_centrality", graph, **options)
    compare("edge_betweenness_centrality", graph, normalized=normalized, must=True)
    compare("betweenness_centrality", graph, endpoints=endpoints, **options)
    if k <= len(graph):
        for name in ("betweenness_centrality", "edge_betweenness_centrality"):
            compare(name, graph, k=k, seed=7, **options)
        compare("edge_betweenness_centrality", graph, k=k, seed=7, must=True)


@pytest.mark.parametrize("kind", CLASSES)
def test_edge_betweenness_is_rounded_as_by_networkx(kind):
    graph = nx.path_graph(10, kind)
    found = backend.edge_betweenness_centrality(backend.Converted(graph))
    assert found == nx.edge_betweenness_centrality(graph, backend="networkx")


@pytest.mark.parametrize("weight", [0, -1, 0.0, 1e-13])
def test_lengths_that_are_refused(weight):
    """1e-13 vanishes in sums with 1000."""
    graph = nx.Graph([(0, 1, {"weight": weight}), (1, 2, {"weight": 1000.0})])
    for name in ("betweenness_centrality", "edge_betweenness_centrality"):
        with pytest.raises(NotImplementedError, match="is not positive, or too small"):
            getattr(backend, name)(backend.Converted(graph), weight="weight")
        with pytest.raises(NotImplementedError, match="k: 0 gives no sources"):
            getattr(backend, name)(backend.Converted(graph), k=0, seed=random.Random(1))


CAPACITIES = st.sampled_from([{}, *({"capacity": c} for c in (0, 1, 2, 7, -3, True, math.inf))])


@tries(100)
@given(graphs(weights=("none",)), st.data())
def test_flows(graph, data):
    if not graph.is_multigraph():
        for _, _, attributes in graph.edges(data=True):
            attributes.update(data.draw(CAPACITIES))
    end = st.sampled_from([*graph, "missing"])
    s, t = data.draw(end), data.draw(end)
    for name in ("maximum_flow_value", "minimum_cut_value"):
        compare(name, graph, s, t, must=True)
        compare(name, graph, s, t, capacity="other", must=True)
        compare(name, graph, s, t, cutoff=1, must=True)


@pytest.mark.parametrize("capacity", [None, 1.5, math.nan, -math.inf, 2**60, Decimal(2), "3"])
def test_capacities_that_are_refused(capacity):
    graph = nx.DiGraph([(0, 1, {"capacity": capacity})])
    with pytest.raises(NotImplementedError, match="capacity"):
        backend.maximum_flow_value(backend.Converted(graph), 0, 1)


@tries(60)
@given(graphs(kinds=(nx.Graph, nx.MultiGraph)))
def test_cliques(graph):
    H = backend.Converted(graph)
    want = [*map(set, nx.find_cliques(graph))]
    nodes, size = backend.max_weight_clique(H, weight=None)
    assert len(nodes) == size == max(map(len, want), default=0)
    assert not want or set(nodes) in want
    with pytest.raises(NotImplementedError, match="weight: 'weight': expected None"):
        backend.max_weight_clique(H)


@tries(60)
@given(graphs(weights=("none", "int", "some", "float")), st.data())
def test_pagerank(graph, data):
    compare("pagerank", graph, must=True)
    compare("pagerank", graph, alpha=0.7, tol=1e-12, max_iter=500, weight=None, must=True)
    compare("pagerank", graph, max_iter=2, tol=1e-14, must=True)
    values = {v: data.draw(st.integers(0, 3)) for v in [*graph][::2]}
    compare("pagerank", graph, personalization=values, tol=1e-14, max_iter=1000, must=True)
    start, lost = ({v: data.draw(st.integers(1, 3)) for v in [*graph][k:]} for k in (0, 1))
    compare("pagerank", graph, nstart=start, max_iter=2, tol=1e-14, must=True)
    compare("pagerank", graph, nstart=start, max_iter=1, tol=0.3, must=True)
    if lost:
        compare("pagerank", graph, dangling=lost, tol=1e-14, max_iter=1000, must=True)


@tries(60)
@given(graphs())
def test_spanning_trees(graph):
    for kind in ("minimum", "maximum"):
        compare(f"{kind}_spanning_tree", graph, must=True)
        for keys in (False, True):
            for data in (False, True):
                compare(f"{kind}_spanning_edges", graph, keys=keys, data=data, must=True)
        compare(f"{kind}_spanning_edges", graph, weight="other", must=True)


@tries(60)
@given(graphs(), st.sampled_from([None, 0, 1, 2, 3, 2.5]))
def test_subgraphs(graph, k):
    for name in ("k_core", "k_shell", "k_crust"):
        compare(name, graph, k, must=True)
        compare(name, graph, k, dict.fromkeys(graph, 2), must=True)
    compare("k_corona", graph, k, must=True)
    if k is not None and not graph.is_directed():
        compare("k_truss", graph, k, must=type(k) is int)


def test_subgraphs_of_large_graphs():
    graph = nx.gnm_random_graph(60, 400, seed=3)
    graph.add_edges_from(((u, v, {"x": u}) for u, v in [(0, 99), (99, 98)]), y=0)
    for k in range(12):
        for name in ("k_core", "k_shell", "k_crust", "k_corona", "k_truss"):
            compare(name, graph, k, must=True)


SEARCHES = ["single_source_shortest_path_length", "single_target_shortest_path_length"]
PAIRS = ["all_pairs_shortest_path_length", "all_pairs_dijkstra_path_length"]


@tries(60)
@given(graphs(weights=("none", "int", "some", "float")), st.data())
def test_lengths(graph, data):
    end = st.sampled_from([*graph, "missing"])
    s, t = data.draw(end), data.draw(end)
    cutoff = data.draw(st.sampled_from([None, 0, 1, 2, 2.5, math.inf]))
    for name in SEARCHES:
        compare(name, graph, s, cutoff=cutoff, must=True)
    for name in PAIRS:
        compare(name, graph, cutoff=cutoff, must=True)
    for name in ("dijkstra_path_length", "bellman_ford_path_length", "has_path"):
        compare(name, graph, s, t, must=True)
    compare("single_source_dijkstra_path_length", graph, s, cutoff=cutoff, must=True)
    compare("single_source_bellman_ford_path_length", graph, s, weight="weight", must=True)
    some = {data.draw(end), s}
    compare("multi_source_dijkstra_path_length", graph, some, cutoff=cutoff, must=True)
    for name in ("ancestors", "descendants"):
        compare(name, graph, s, must=True)
    for weight in (None, "weight"):
        compare("average_shortest_path_length", graph, weight=weight, must=True)
        for method in ("dijkstra", "bellman-ford"):
            for ends in ({"source": s}, {"target": s}, {"source": s, "target": t}):
                options = {"weight": weight, "method": method, "must": True}
                compare("shortest_path_length", graph, **ends, **options)


def total(graph, path, weight):
    """The length of a path, of parallel edges the lightest."""
    length = 0
    for u, v in zip(path, path[1:], strict=False):
        data = graph[u][v].values() if graph.is_multigraph() else [graph[u][v]]
        length += 1 if weight is None else min(d.get(weight, 1) for d in data)
    return length


@tries(60)
@given(graphs(), st.data())
def test_paths(graph, data):
    """Of several shortest paths any is right."""
    if not len(graph):
        return
    s = data.draw(st.sampled_from([*graph]))
    H = backend.Converted(graph)
    calls = {
        "single_source_shortest_path": None, "single_target_shortest_path": None,
        "single_source_dijkstra_path": "weight", "single_source_bellman_ford_path": "weight",
    }  # fmt: skip
    for name, weight in calls.items():
        reference, call = getattr(nx, name).orig_func, getattr(backend, name)
        try:
            found = outcome(call, H, s)
        except NotImplementedError:
            continue
        want = outcome(reference, graph, s)
        if isinstance(want, type):
            assert found == want
            continue
        assert found.keys() == want.keys()
        for v, path in found.items():
            assert {path[0], path[-1]} == {s, v} and len(path) == len(set(path))
            assert total(graph, path, weight) == total(graph, want[v], weight)
            if name == "single_source_dijkstra_path":
                length, pair = backend.single_source_dijkstra(H, s, v)
                assert length == total(graph, pair, weight) == total(graph, path, weight)
            if weight is None and name.startswith("single_source"):
                assert len(backend.shortest_path(H, s, v)) == len(path)


@tries(60)
@given(graphs())
def test_johnson(graph):
    """Of several shortest paths any is right."""
    H = backend.Converted(graph)
    for weight in ("weight", None):
        found, want = (
            outcome(f, g, weight) for f, g in ((backend.johnson, H), (nx.johnson.orig_func, graph))
        )
        if isinstance(want, type):
            assert found == want
            continue
        assert list(found) == list(want) == list(graph)
        for s, paths in found.items():
            assert paths.keys() == want[s].keys()
            for t, path in paths.items():
                assert path[0] == s and path[-1] == t and len(path) == len(set(path))
                assert total(graph, path, weight) == total(graph, want[s][t], weight)


@pytest.mark.parametrize(
    "weight",
    [None, Decimal("0.5"), Fraction(1, 2), "3", math.nan, math.inf, 2**63, 2**62, 1e300, 1j, [1],
     np.float32(0.1), np.uint8(200)],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("kind", CLASSES)
def test_weights_that_are_refused(kind, weight):
    graph = kind([(0, 1, {"weight": 1}), (1, 2, {"weight": weight})])
    H = backend.Converted(graph)
    for call in (
        lambda: backend.single_source_dijkstra_path_length(H, 0),
        lambda: backend.all_pairs_dijkstra_path_length(H),  # before the generator begins
        lambda: backend.bellman_ford_path_length(H, 0, 1),
        lambda: backend.pagerank(H),
    ):
        with pytest.raises(NotImplementedError):
            call()
    assert backend.single_source_dijkstra_path_length(H, 0, weight="other") == {0: 0, 1: 1, 2: 2}


def test_messages_name_the_argument_and_its_value():
    H = backend.Converted(nx.path_graph(3))
    arcs = backend.Converted(nx.path_graph(3, nx.DiGraph))

    def weighted(x):
        return backend.Converted(nx.Graph([(0, 1, {"weight": x})]))

    refused = {
        "cutoff: -1 is not a number": lambda: backend.single_source_shortest_path_length(H, 0, -1),
        "target: .*None": lambda: backend.dijkstra_path(H, 0, None),
        "source and target are None": lambda: backend.shortest_path(H),
        "method: 'floyd": lambda: backend.average_shortest_path_length(H, method="floyd-warshall"),
        "G: a DiGraph": lambda: backend.transitivity(arcs),
        "weight: 'cost': expected None": lambda: backend.clustering(H, weight="cost"),
        "flow_func: 3: expected None": lambda: backend.maximum_flow_value(H, 0, 1, flow_func=3),
        "start has the sum 0.0": lambda: backend.pagerank(H, nstart={0: 0}),
        "dangling has a value that is negative": lambda: backend.pagerank(H, dangling={0: -1}),
        "max_level: 2: expected None": lambda: backend.leiden_communities(H, max_level=2),
        "resolution is finite and 0 or more, not -1": lambda: backend.leiden_communities(
            H, resolution=-1, seed=random.Random(1)
        ),
        "algorithm: 'prim'": lambda: [*backend.minimum_spanning_edges(H, "prim")],
        "weight: -2 is negative": lambda: backend.all_pairs_dijkstra_path_length(weighted(-2)),
        "weight: None is not": lambda: weighted(None).graph("weight"),
        "weight: 1180591620717411303424 exceeds": lambda: weighted(2**70).graph("weight"),
        "weight: nan is NaN": lambda: weighted(float("nan")).graph("weight"),
        f"weight: {2**61} for each of 2 nodes": lambda: weighted(2**61).graph("weight"),
    }
    for match, call in refused.items():
        with pytest.raises(NotImplementedError, match=match) as caught:
            call()
        assert len(str(caught.value)) <= 200


def test_negative_weights():
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(0, 1, -2), (1, 2, 5)])
    H = backend.Converted(graph)
    for call in (backend.single_source_dijkstra, backend.single_source_dijkstra_path):
        with pytest.raises(NotImplementedError):
            call(H, 0)
    for call in (backend.all_pairs_dijkstra_path_length, backend.pagerank):
        with pytest.raises(NotImplementedError):
            call(H)
    assert backend.single_source_bellman_ford(H, 0) == nx.single_source_bellman_ford(graph, 0)


@pytest.mark.parametrize("kind", CLASSES)
def test_views(kind):
    graph = kind([(0, 1), (1, 2), (2, 0), (2, 3)])
    graph.add_edge(0, 1, weight=5)
    for view in (graph.edge_subgraph(list(graph.edges)[1:3]), graph.subgraph([0, 1, 2])):
        assert backend.can_run("pagerank", (view,), {}) is True
        for name in (*STRUCTURE, "minimum_spanning_tree", "pagerank"):
            compare(name, view, must=True)
        assert len(morph.Graph.from_networkx(view).edges) == len(
            morph.Graph.from_networkx(kind(view)).edges
        )


def test_what_can_run():
    class Mine(nx.Graph):
        pass

    graph = nx.path_graph(3)
    assert backend.can_run("pagerank", (graph,), {}) is True
    assert isinstance(backend.can_run("pagerank", (Mine(graph),), {}), str)
    assert backend.can_run("pagerank", (graph, 0.8, None, 9, 1e-3, {0: 1}), {}) is True
    assert isinstance(backend.can_run("leiden_communities", (graph, "w", 1, 2), {}), str)
    assert isinstance(backend.can_run("leiden_communities", (graph,), {"max_level": 2}), str)
    assert backend.can_run("leiden_communities", (graph, "w", 1, None, 5), {}) is True
    assert backend.should_run("leiden_communities", (graph,), {}) is True
    weight = {"weight": lambda u, v, d: 1}
    assert isinstance(backend.can_run("dijkstra_path", (graph, 0, 1), weight), str)
    assert isinstance(backend.should_run("pagerank", (graph,), {}), str)
    assert backend.should_run("pagerank", (nx.path_graph(20_000),), {}) is True
    assert backend.should_run("betweenness_centrality", (nx.path_graph(300),), {}) is True


def test_functions_are_those_of_networkx():
    for name in functions():
        module = nx if hasattr(nx, name) else nx.community
        if name == "leiden_communities" and not hasattr(module, name):
            continue  # NetworkX before 3.5
        theirs = inspect.signature(getattr(module, name).orig_func).parameters
        mine = inspect.signature(getattr(backend, name)).parameters
        assert [(p.name, p.default) for p in mine.values()] == [
            (p.name, p.default) for p in theirs.values()
        ], name
    public = {"Converted", "can_run", "convert_from_nx", "convert_to_nx", "should_run"}
    assert set(functions()) == set(backend.__all__) - public
    assert backend_info()["functions"].keys() == functions().keys()


SESSION = """
import logging, pickle, networkx as nx
from networkx.utils.backends import _logger
assert nx.config.backends.morph.device is None
grid = nx.grid_2d_graph(6, 7)
assert nx.single_source_dijkstra_path_length(grid, (0, 0), backend="morph")[5, 6] == 11
assert grid.__networkx_cache__["backends"]["morph"]
grid.add_edge((0, 0), (5, 6), weight=2)                     # the conversion is dropped
assert nx.dijkstra_path_length(grid, (0, 0), (5, 6), backend="morph") == 2
assert nx.dijkstra_path(pickle.loads(pickle.dumps(grid)), (0, 0), (5, 6)) == [(0, 0), (5, 6)]
try:
    nx.clustering(grid, weight="weight", backend="morph")
except NotImplementedError:
    pass
else:
    raise SystemExit("refused nothing")
lines = []
_logger.setLevel(logging.DEBUG)
handler = logging.Handler()
handler.emit = lambda record: lines.append(record.getMessage())
_logger.addHandler(handler)
nx.config.backend_priority = ["morph"]
nx.number_connected_components(grid)
assert not any("Using backend 'morph'" in x for x in lines), lines   # too small
large = nx.path_graph(30_000)
assert nx.number_connected_components(large) == 1
assert any("Using backend 'morph'" in x for x in lines), lines
large.add_edge(0, 1, weight=None)                           # hides the edge: NetworkX answers
assert nx.single_source_dijkstra_path_length(large, 0) == {0: 0}
print("passed")
"""


def test_networkx_finds_the_backend(tmp_path):
    """By the entry points of pyproject.toml, installed or not."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    folder = tmp_path / "morph_backend-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: morph-backend\nVersion: 0\n")
    text = (f"[{g}]\n" + "".join(f"{k} = {v}\n" for k, v in p.items()) for g, p in points.items())
    (folder / "entry_points.txt").write_text("\n".join(text))
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]\n{SESSION}"
    options = ["-W", "ignore"]  # twice, if installed, too
    done = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True)
    assert done.stdout == "passed\n", done.stderr


def test_results_on_each_device(target):
    graph = nx.barbell_graph(4, 2)
    H = backend.Converted(graph, target)
    assert alike(nx.pagerank.orig_func(graph), backend.pagerank(H))
    assert alike(nx.core_number.orig_func(graph), backend.core_number(H))
    assert alike(nx.clustering.orig_func(graph), backend.clustering(H))
    assert list(backend.connected_components(H)) == [set(graph)]
    assert backend.shortest_path(H, 0, 9) == nx.shortest_path.orig_func(graph, 0, 9)
    assert backend.shortest_path_length(H, 0) == nx.shortest_path_length.orig_func(graph, 0)
    assert nx.utils.graphs_equal(
        nx.minimum_spanning_tree.orig_func(graph), backend.minimum_spanning_tree(H)
    )
