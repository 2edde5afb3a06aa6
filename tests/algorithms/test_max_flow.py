"""Maximum flows, against SciPy and NetworkX, on every target."""

from __future__ import annotations

import json
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from click.testing import CliRunner
from graphs import edge_lists, graph_of, grid
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csgraph
from targets import everywhere, host, tries

import morph
from morph import generate, validate
from morph.cli import main
from morph.io import read_edges

KINDS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def live(g):
    """Ends and capacities of the live edges."""
    ids = host(g.edges.ids())
    return [host(getattr(g.edges, c)[:])[ids] for c in ("src", "dst", "weight")]


def value_of(g, s, t):
    """SciPy's value; it adds up parallel edges."""
    src, dst, capacity = live(g)
    n = len(g.points)
    m = coo_array((capacity.astype(np.int32), (src, dst)), shape=(n, n)).tocsr()
    return csgraph.maximum_flow(m, s, t).flow_value


def check(g, s, t, target, value=None, kind=int):
    """The same valid flow from all runs."""
    found = everywhere(target, lambda: morph.max_flow(g, s, t))
    value = value_of(g, s, t) if value is None else value
    for x in found:
        flow, cut = host(x.flow), host(x.cut)
        assert type(x.value) is kind and x.value == value
        assert flow.dtype == (np.int64 if kind is int else np.float64) and cut.dtype == bool
        assert np.array_equal(flow, host(found[0].flow))
        assert np.array_equal(cut, host(found[0].cut))
    validate.max_flow(g, flow, s, t, value=value, cut=cut)
    validate.max_flow(g, flow, s, t)
    return found[0]


@st.composite
def ends_of(draw, n):
    s = draw(st.integers(0, n - 1))
    return s, (s + draw(st.integers(1, n - 1))) % n


@tries(30)
@given(edge_lists(most=8), st.sampled_from(KINDS), st.booleans(), st.data())
def test_flows(target, edges, dtype, directed, data):
    n = max(edges[0], 2)
    s, t = data.draw(ends_of(n))
    g = graph_of((n, *edges[1:]), target, dtype)
    if not directed:
        _, src, dst, w = edges
        g = morph.Graph.from_edges(
            src, dst, weight=w.astype(dtype), n=n, symmetrize=True, directed=False, device=target
        )
    found = check(g, s, t, target)
    if not directed:  # of both arcs of an edge one has flow at most
        pairs = {}
        for u, v, f in zip(*live(g)[:2], host(found.flow).tolist(), strict=True):
            pairs.setdefault((u, v), []).append(f)
        assert not any(f and pairs[v, u][k] for (u, v), x in pairs.items() for k, f in enumerate(x))


@tries(10)
@given(edge_lists(most=7), edge_lists(most=7), st.data())
def test_flows_of_changed_graphs(target, edges, more, data):
    n, src, dst, w = more
    size = max(edges[0], n, 2)
    g = graph_of((size, *edges[1:]), target)
    morph.max_flow(g, 0, size - 1)  # its network is not that of the changed graph
    m = len(g.edges)
    deletes = data.draw(st.lists(st.integers(0, m - 1), unique=True)) if m else []
    g.apply(inserts=(src, dst, w.astype(np.int32)), deletes=np.array(deletes, np.int64))
    s, t = data.draw(ends_of(size))
    if size > 2:
        gone = data.draw(st.sampled_from([v for v in range(size) if v not in (s, t)]))
        g.points[gone].delete()
        assert not host(check(g, s, t, target).cut)[gone]
        with pytest.raises(ValueError, match="it was deleted"):
            morph.max_flow(g, s, gone)
    else:
        check(g, s, t, target)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_larger_graphs_with_many_threads(device):
    random = np.random.default_rng(1)
    src, dst = grid(25)
    weight = random.integers(0, 9, len(src))
    graphs = [morph.Graph.from_edges(src, dst, weight=weight, device=device)]
    graphs += [generate.rmat(k, seed=k, weight=(1, 50), device=device) for k in (7, 10)]
    graphs.append(generate.uniform(300, 1200, seed=1, weight=(0, 5), device=device))
    for g in graphs:
        n = len(g.points)
        for s, t in ((0, n - 1), (n // 2, 1)):
            check(g, s, t, device)


def test_many_active_vertices_and_few():
    """A thread or block pushes few active vertices, all threads many."""
    width = 3000
    middle, path = np.arange(2, width + 2), width + 2 + np.arange(20)
    src = np.concatenate([np.zeros(width, int), middle, [path[0]] * 3, path[:-1], path[-1:]])
    dst = np.concatenate([middle, np.full(width, path[0]), middle[:3], path[1:], [1]])
    capacity = np.concatenate([middle % 5, middle % 3, [9] * 3, np.full(len(path), 2500)])
    check(morph.Graph.from_edges(src, dst, weight=capacity, device="cpu"), 0, 1, "cpu")


@tries(8)
@given(st.integers(5, 40), st.floats(0.05, 0.5), st.integers(0, 99), st.booleans())
def test_as_networkx(n, p, seed, directed):
    graph = nx.gnp_random_graph(n, p, seed=seed, directed=directed)
    random = np.random.default_rng(seed)
    for *_, d in graph.edges(data=True):
        d["weight"] = int(random.integers(0, 2**40))
    g = morph.Graph.from_networkx(graph, device="cpu")
    found = morph.max_flow(g, 0, n - 1)
    assert found.value == nx.maximum_flow_value(graph, 0, n - 1, capacity="weight")
    validate.max_flow(g, found.flow, 0, n - 1, value=found.value, cut=found.cut)


def test_the_cut_has_the_most_points_of_the_source_side(target):
    g = morph.Graph.from_edges([0, 1, 2], [1, 2, 3], weight=[2, 2, 2], n=5, device=target)
    assert host(check(g, 0, 3, target).cut).tolist() == [True, True, True, False, True]
    assert host(check(g, 3, 0, target, 0).cut).tolist() == [False, True, True, True, True]


def test_parallel_edges_and_loops_have_their_own_flows(target):
    ends = [0, 0, 0, 1, 1, 1, 2], [1, 1, 0, 1, 2, 2, 0]
    g = morph.Graph.from_edges(*ends, weight=[3, 4, 9, 9, 0, 6, 5], device=target)
    found = check(g, 0, 2, target, 6)
    flow = host(found.flow)
    assert flow[0] + flow[1] == 6 and flow[2:].tolist() == [0, 0, 0, 6, 0]
    plain = morph.Graph.from_edges(*ends, device=target)  # each edge has capacity 1
    assert morph.max_flow(plain, 0, 2).value == 2
    plain.edges.add("lanes", np.uint8, fill=200)
    found = morph.max_flow(plain, 0, 2, capacity="lanes")
    assert found.value == 400
    validate.max_flow(plain, found.flow, 0, 2, value=400, cut=found.cut, capacity="lanes")


def test_graphs_without_a_path(target):
    g = morph.Graph.from_edges([], [], n=2, device=target)
    found = morph.max_flow(g, 0, 1)
    assert found.value == 0 and host(found.flow).shape == (0,)
    assert host(found.cut).tolist() == [True, False]
    zero = morph.Graph.from_edges([0, 1, 1], [1, 2, 0], weight=[4, 0, 3], device=target)
    check(zero, 0, 2, target, 0)


def test_huge_capacities(target):
    huge = 2**63 - 1
    ends = [0, 0, 1, 2, 1], [1, 2, 3, 3, 2]
    for dtype in (np.int64, np.uint64):
        weight = np.array([huge, huge, 5, 2**60, huge], dtype)
        g = morph.Graph.from_edges(*ends, weight=weight, device=target)
        check(g, 0, 3, target, 5 + 2**60)
        g.edges.weight[2] = 2**61  # and all of 0 -> 1 could lead there
        with pytest.raises(OverflowError, match="it may not fit int64"):
            morph.max_flow(g, 0, 3)
    far = np.array([2**60, 2**60, 2**64 - 1, 2**64 - 1, 0], np.uint64)
    g = morph.Graph.from_edges(*ends, weight=far, device=target)
    check(g, 0, 3, target, 2**61)
    above = np.array([2**60 + 3, 7, 2**60 + 1, 9, 1], np.int64)  # doubles would round
    g = morph.Graph.from_edges(*ends, weight=above, device=target)
    check(g, 0, 3, target, 2**60 + 9)


@tries(10)
@given(edge_lists(most=8), st.data())
def test_real_capacities(target, edges, data):
    """Floats of any exponents, against NetworkX with fractions; a second call on the same graph."""
    n = max(edges[0], 2)
    s, t = data.draw(ends_of(n))
    g = graph_of((n, *edges[1:]), target, np.float64)
    m = len(g.edges)
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    capacity = random.integers(0, 9, m) / data.draw(st.sampled_from([1, 8, 10, 1e-200]))
    capacity *= 10.0 ** random.integers(0, data.draw(st.sampled_from([1, 9, 30])), m)
    for values in (capacity, capacity[::-1].copy()):
        g.edges.weight[:] = values
        graph = nx.DiGraph()
        graph.add_nodes_from([s, t])
        for u, v, c in zip(*live(g), strict=True):
            u, v = int(u), int(v)
            before = graph.edges[u, v]["capacity"] if graph.has_edge(u, v) else 0
            graph.add_edge(u, v, capacity=before + Fraction(float(c)))
        value = nx.maximum_flow_value(graph, s, t) if n > 1 else 0
        found = morph.max_flow(g, s, t)
        check(g, s, t, target, found.value, float)
        largest = Fraction(float(values.sum())) * max(m, 1)
        assert 0 <= value - Fraction(found.value) + Fraction(float(value)) / 2**53
        assert value - Fraction(found.value) <= m * largest / 2**60 + value / 2**53
        if (values * 8 % 1 == 0).all() and values.sum() < 2**40:
            assert found.value == value


def test_real_capacities_are_exact_or_refused(target):
    ends = [0, 0, 1, 2, 1], [1, 2, 3, 3, 2]
    for dtype in (np.float16, np.float32, np.float64):
        weight = np.array([np.inf, 2.5, 0.75, np.inf, 2.0**-10], dtype)
        g = morph.Graph.from_edges(*ends, weight=weight, device=target)
        check(g, 0, 3, target, 3.25 + 2.0**-10, float)
    g = morph.Graph.from_edges(*ends, weight=np.array([3, 2, 2, 4, 5e-324]), device=target)
    check(g, 0, 3, target, 4.0, float)
    tiny = np.array([3, 2, 2, 4, 1]) * 5e-324
    g = morph.Graph.from_edges(*ends, weight=tiny, device=target)
    check(g, 0, 3, target, 5 * 5e-324, float)
    g.edges.weight[:] = np.inf
    with pytest.raises(OverflowError, match="a path of infinite capacities leads from 0 to 3"):
        morph.max_flow(g, 0, 3)
    g.edges.weight[4] = np.nan
    with pytest.raises(ValueError, match="a capacity is 0 or more, but .* has nan"):
        morph.max_flow(g, 0, 3)
    g.edges.weight[:] = 1e308
    with pytest.raises(OverflowError, match="the sum of the capacities overflows float64"):
        morph.max_flow(g, 0, 3)


def test_wrong_real_flows_are_refused():
    g = morph.Graph.from_edges([0, 0, 1, 2], [1, 2, 3, 3], weight=[0.3, 0.2, 0.1, 0.7], n=4)
    right = np.array([0.1, 0.2, 0.1, 0.2])

    def refused(match, flow, **kwargs):
        with pytest.raises(validate.WrongAnswer, match=match):
            validate.max_flow(g, np.array(flow), 0, 3, **kwargs)

    validate.max_flow(g, right, 0, 3, value=0.1 + 0.2)
    refused("edge 0, from 0 to 1 is nan", right * [np.nan, 1, 1, 1])
    refused("edge 2, from 1 to 3 is 0.1", right + [0, 0, 2e-17, 0])
    refused("into vertex 1 differs", right + [1e-15, 0, 0, 0])
    refused("the value of the flow is 0.3.*, not 0.3", right, value=0.3 + 1e-14)
    refused("a path of residual edges", [0.1 - 1e-12, 0.2, 0.1 - 1e-12, 0.2])
    refused("has capacity 0.5, but 0.3", right, cut=np.array([1, 0, 0, 0], bool))
    refused("type int64", [0, 0, 0, 0])


def test_what_it_takes():
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=[1.5, 2], n=4)
    assert morph.max_flow(g, 0, 2).value == 1.5
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=[1, -2], n=4)
    with pytest.raises(ValueError, match="from 1 to 2 has -2"):
        morph.max_flow(g, 0, 2)
    with pytest.raises(ValueError, match="capacity = 'lanes': edges have no such column"):
        morph.max_flow(g, 0, 2, capacity="lanes")
    with pytest.raises(TypeError, match=r"name of a column of edges, not array\(\[1, 2\]\)"):
        morph.max_flow(g, 0, 2, capacity=np.array([1, 2]))
    with pytest.raises(TypeError, match="column 'src' is not of numbers"):
        morph.max_flow(g, 0, 2, capacity="src")
    with pytest.raises(ValueError, match="source and sink are one vertex, 2"):
        morph.max_flow(g, 2, 2)
    with pytest.raises(ValueError, match="sink 4 is not a vertex"):
        morph.max_flow(g, 2, 4)
    with pytest.raises(TypeError, match=r"source is an integer, not 0\.5"):
        morph.max_flow(g, 0.5, 1)
    with pytest.raises(TypeError, match="takes a graph on one device"):
        morph.max_flow(morph.partition(g, ["cpu"] * 2), 0, 1)
    graph = nx.DiGraph()
    graph.add_edge("s", "t", weight=3)
    assert morph.max_flow(graph, "s", "t").value == 3  # labels


def test_wrong_flows_are_refused():
    ends = [0, 0, 1, 2, 1], [1, 2, 3, 3, 2]
    g = morph.Graph.from_edges(*ends, weight=[3, 2, 2, 4, 1], n=5)
    right = np.array([3, 2, 2, 3, 1])
    assert g.edge_order.tolist() == [0, 1, 2, 4, 3]
    right = right[g.edge_order]

    def refused(match, flow, **kwargs):
        with pytest.raises(validate.WrongAnswer, match=match):
            validate.max_flow(g, np.array(flow), 0, 3, **kwargs)

    validate.max_flow(g, right, 0, 3, value=5)
    refused("the flow of edge 0, from 0 to 1 is 4 of 3", right + [1, 0, 0, 0, 0])
    refused("the flow of edge 2, from 1 to 3 is -1", right - [0, 0, 3, 0, 0])
    refused("into vertex 1 differs", right - [1, 0, 0, 0, 0])
    refused("the value of the flow is 5, not 6", right, value=6)
    refused("a path of residual edges leads from 0 to 3", [2, 2, 2, 0, 2])
    refused("has capacity 6, but 5 flows", right, cut=np.array([1, 1, 1, 0, 0], bool))
    refused("does not divide 0 from 3", right, cut=np.array([1, 1, 1, 1, 0], bool))
    refused("the flow has shape", right[:4])
    refused("5 flows out of 0, and 5 into 3|type float64", right * 1.0)
    with pytest.raises(validate.WrongAnswer, match="-5 flows out of 3, and -5 into 0"):
        validate.max_flow(g, right, 3, 0)


def test_the_command(tmp_path):
    path, out = tmp_path / "g.txt", tmp_path / "flow.npz"
    path.write_text("0 2\n0 1\n1 2\n2 3\n1 3\n")
    given = ["max-flow", str(path), "--source", "0", "--sink", "3"]
    done = CliRunner().invoke(main, [*given, "-o", str(out)])
    assert done.exit_code == 0 and "value 2, edges in the cut 2" in done.output
    with np.load(out) as saved:
        assert saved["flow"][[0, 1]].tolist() == [1, 1] and saved["cut"][0]
    assert "the answer is right" in CliRunner().invoke(main, ["check", str(path), str(out)]).output
    matrix = tmp_path / "g.mtx"  # undirected: the flow of an edge may be negative
    head = "%%MatrixMarket matrix coordinate integer symmetric\n4 4 5\n"
    matrix.write_text(head + "2 1 3\n3 1 2\n3 2 4\n4 4 7\n4 3 9\n")
    args = [str(matrix), "--source", "3", "--sink", "0", "-o", str(out)]
    assert CliRunner().invoke(main, ["max-flow", *args]).exit_code == 0
    edges = read_edges(str(matrix))
    with np.load(out) as saved:
        flows = dict(zip(zip(*(x.tolist() for x in (edges.src, edges.dst)), strict=True),
                         saved["flow"].tolist(), strict=True))  # fmt: skip
        assert len(flows) == 5 and saved["cut"].tolist() == [False, True, True, True]
    assert {(min(k), max(k)): abs(x) for k, x in flows.items()} == {
        (0, 1): 3, (0, 2): 2, (1, 2): 3, (2, 3): 5, (3, 3): 0}  # fmt: skip
    assert all(x * (u - v) >= 0 for (u, v), x in flows.items())
    assert CliRunner().invoke(main, ["check", str(matrix), str(out)]).exit_code == 0
    with np.load(out) as saved:
        np.savez(out, **{**saved, "flow": -saved["flow"]})
    done = CliRunner().invoke(main, ["check", str(matrix), str(out)])
    assert done.exit_code == 1 and "max-flow: -5 flows out of 3" in done.output
    args = [str(matrix), "--source", "0", "--sink", "3", "-o", str(out)]  # the other way
    assert CliRunner().invoke(main, ["max-flow", *args]).exit_code == 0
    with np.load(out) as saved:
        assert saved["flow"].tolist() == [-x for x in flows.values()] and saved["value"] == 5
    assert CliRunner().invoke(main, ["check", str(matrix), str(out)]).exit_code == 0
    report = json.loads(CliRunner().invoke(main, [*given, "--json"]).output)
    assert (report["value"], report["source"], report["sink"]) == (2, 0, 3)
    path.write_text("0 1 1.5\n1 3 2\n")
    report = json.loads(CliRunner().invoke(main, [*given, "-o", str(out), "--json"]).output)
    assert report["value"] == 1.5 and type(report["value"]) is float
    assert "the answer is right" in CliRunner().invoke(main, ["check", str(path), str(out)]).output
    for wrong, match in (("0", "source and sink are one vertex"), ("4", "sink 4 is not a vertex")):
        done = CliRunner().invoke(main, [*given[:-1], wrong])
        assert done.exit_code == 2 and match in done.output
