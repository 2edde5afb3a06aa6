"""Densest subgraphs, against all sets of vertices and NetworkX, on every target."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from click.testing import CliRunner
from graphs import changed_graph, edge_lists, graph_of, grid, live_graph, simple, small_graphs
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, tries

import morph
from morph import generate, testing, validate
from morph.cli import main


def best_of_all(graph):
    """The largest density of all sets of vertices, and the union of those that have it."""
    vertices = sorted(graph)
    masks = [sum(1 << i for i, w in enumerate(vertices) if w in graph[v]) for v in vertices]
    most, union = Fraction(0), 0
    for chosen in range(1, 1 << len(vertices)):
        degrees = [(near & chosen).bit_count() for i, near in enumerate(masks) if chosen >> i & 1]
        density = Fraction(sum(degrees), 2 * len(degrees))
        if density > most or not union:
            most, union = density, 0
        if density == most:
            union |= chosen
    return most, [v for i, v in enumerate(vertices) if union >> i & 1]


def check(g, graph, target, want=None):
    """Both results on a graph, whose simple graph is ``graph``."""
    want = want or best_of_all(graph)
    for found in everywhere(target, lambda: morph.densest_subgraph(g)):
        assert type(found.density) is Fraction and found.points.dtype == np.int64
        assert (found.density, host(found.points).tolist()) == want
        validate.densest_subgraph(g, host(found.points), found.density)
    for found in everywhere(target, lambda: morph.densest_subgraph(g, exact=False)):
        points = host(found.points)
        edges = graph.subgraph(points.tolist()).number_of_edges()
        assert found.density == Fraction(edges, max(len(points), 1)) >= want[0] / 2
        validate.densest_subgraph(g, points, found.density, exact=False)


@tries(12)
@given(edge_lists(most=8), st.booleans())
def test_densest_subgraphs(target, edges, directed):
    check(graph_of(edges, target, directed=directed), simple(edges), target)


@tries(6)
@given(edge_lists(most=7), st.data())
def test_graphs_that_were_changed(target, edges, data):
    g = changed_graph(edges, target, data)
    check(g, live_graph(g), target)


def test_small_graphs(target):
    for g in small_graphs(target):
        check(g, live_graph(g), target)


def peeled_too_late():
    """A dense part whose vertices, of few neighbours, are before those of small cliques."""
    graph = nx.complete_bipartite_graph(4, 40)
    for _ in range(20):
        graph = nx.disjoint_union(graph, nx.complete_graph(6))
    return graph


@pytest.mark.parametrize(
    "graph, density, count",
    [
        (nx.path_graph(40), Fraction(39, 40), 40),
        (nx.cycle_graph(9), Fraction(1), 9),
        (nx.disjoint_union(nx.complete_graph(5), nx.complete_graph(5)), Fraction(2), 10),
        (nx.lollipop_graph(6, 9), Fraction(5, 2), 6),
        (nx.star_graph(30), Fraction(30, 31), 31),
        (peeled_too_late(), Fraction(160, 44), 44),
    ],
)
def test_known_graphs(target, graph, density, count):
    check(
        morph.Graph.from_networkx(graph, device=target), graph, target, (density, [*range(count)])
    )


def test_an_approximation_that_is_not_exact():
    g = morph.Graph.from_networkx(peeled_too_late(), device="cpu")
    found = morph.densest_subgraph(g, exact=False)
    assert Fraction(80, 44) <= found.density < Fraction(160, 44)
    with pytest.raises(validate.WrongAnswer, match="but that of another subgraph is 40/11"):
        validate.densest_subgraph(g, found.points, found.density)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_larger_graphs_with_many_threads(device):
    graphs = [generate.rmat(scale, seed=scale, device=device) for scale in (6, 8, 11)]
    graphs.append(morph.Graph.from_edges(*grid(40), device=device))  # long paths
    graphs.append(generate.uniform(300, 700, seed=1, device=device))
    for g in graphs:
        found = [host(x.points) for x in everywhere(device, lambda g=g: morph.densest_subgraph(g))]
        assert all(np.array_equal(found[0], x) for x in found[1:])
        validate.densest_subgraph(g, found[0])


@tries(4)
@given(st.integers(10, 60), st.floats(0.05, 0.6), st.integers(0, 99))
def test_not_less_than_that_of_networkx(n, p, seed):
    graph = nx.gnp_random_graph(n, p, seed=seed)
    g = morph.Graph.from_networkx(graph, device="cpu")
    for threads in (1, 2):
        with testing.team(threads):
            found = morph.densest_subgraph(g)
        validate.densest_subgraph(g, found.points, found.density)
    theirs, _ = nx.approximation.densest_subgraph(graph, iterations=20, method="greedy++")
    assert theirs - 1e-9 <= found.density <= 1.1 * theirs


def test_what_it_takes():
    assert morph.densest_subgraph(nx.complete_graph(4)).density == Fraction(3, 2)
    for weight in ([np.nan, -1, 1e300], [-3, 0, 2**40]):
        g = morph.Graph.from_edges([0, 1, 2], [1, 2, 0], weight=weight, n=5)
        assert morph.densest_subgraph(g).points.tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="exact is True or False, not 'no'"):
        morph.densest_subgraph(g, exact="no")
    with pytest.raises(TypeError, match="takes a graph on one device"):
        morph.densest_subgraph(morph.partition(g, ["cpu"] * 2))


def test_wrong_subgraphs_are_refused():
    graph = nx.disjoint_union(nx.lollipop_graph(4, 1), nx.complete_graph(4))  # vertex 4 is outside
    g = morph.Graph.from_networkx(graph, device="cpu")
    right = np.array([0, 1, 2, 3, 5, 6, 7, 8])

    def refused(match, points, *args, **kwargs):
        with pytest.raises(validate.WrongAnswer, match=match):
            validate.densest_subgraph(g, np.array(points), *args, **kwargs)

    validate.densest_subgraph(g, right)
    validate.densest_subgraph(g, right[:3], Fraction(1), exact=False)
    refused("vertex 5 is in another subgraph of the density 3/2", right[:4])
    refused("density is 3/2, not 2", right, Fraction(2))
    refused("density is 7/5, but that of another subgraph is 3/2", [0, 1, 2, 3, 4])
    refused("density is 1/2, but that of another subgraph is 13/9", [3, 4], exact=False)
    refused("no subgraph", np.array([], int))
    refused("9 is not a vertex", [9])
    refused("not distinct", [0, 0])
    refused("type float64", [0.5])


def test_the_command(tmp_path):
    path, out = tmp_path / "g.txt", tmp_path / "d.npz"
    path.write_text("0 1\n1 2\n2 0\n2 3\n3 0\n1 3\n3 4\n")
    for option in ([], ["--approximate"]):
        done = CliRunner().invoke(main, ["densest", str(path), "-o", str(out), *option])
        assert done.exit_code == 0 and "vertices in it 4, edges in it 6, density 1.5" in done.output
        done = CliRunner().invoke(main, ["check", str(path), str(out)])
        assert done.exit_code == 0 and "the answer is right" in done.output
