"""Betweenness with more shortest paths than float64 can count."""

from types import SimpleNamespace
from unittest import mock

import networkx as nx
import numpy as np
import pytest
from targets import everywhere, host

import morph
from morph import validate
from morph.algorithms.graph import betweenness, path_counts
from morph.algorithms.graph.betweenness_threads import dependencies_of_each
from morph.testing import team


def exact(g, sources, endpoints=False):
    """What each vertex carries, from sources, with paths counted by integers of any size."""
    src, dst, _ = (None if a is None else host(a).tolist() for a in g.edge_list())
    n = len(g.points)
    nbrs = [[] for _ in range(n)]
    for u, v in zip(src, dst, strict=True):
        nbrs[u].append(v)
    total = np.zeros(n)
    for s in sources:
        distance, paths, order = [-1] * n, [0] * n, [s]
        distance[s], paths[s] = 0, 1
        for u in order:
            for v in nbrs[u]:
                if distance[v] < 0:
                    distance[v] = distance[u] + 1
                    order.append(v)
                if distance[v] == distance[u] + 1:
                    paths[v] += paths[u]
        carried = [0.0] * n
        for u in reversed(order):
            for v in nbrs[u]:
                if distance[v] == distance[u] + 1:
                    carried[u] += paths[u] / paths[v] * (1 + carried[v])  # rounded once
            if u != s:
                total[u] += carried[u] + endpoints
        if endpoints:
            total[s] += len(order) - 1
    return total, max(paths)


def chain(n, width, target):
    """Each vertex joined to the next by parallel edges: width ** n paths."""
    ends = np.arange(n).repeat(width)
    return morph.Graph.from_edges(ends, ends + 1, device=target)


def mixed(target):
    """Diamonds, each of which doubles the paths, beside a bare way that has one: to one end."""
    k = 1050
    a = 3 * np.arange(k)
    src, dst = [a, a, a + 1, a + 2], [a + 1, a + 2, a + 3, a + 3]
    bare = np.concatenate([[0], np.arange(3 * k + 1, 5 * k)])
    src.append(bare)
    dst.append(np.concatenate([np.arange(3 * k + 1, 5 * k), [3 * k]]))
    src, dst = np.concatenate(src), np.concatenate(dst)
    return morph.Graph.from_edges(src, dst, directed=False, device=target)


GRAPHS = {
    "chain of 2": (lambda t: chain(*((560, 4) if t == "python" else (1100, 2)), t), [0, 40]),
    # the interpreter takes a second for each thousand points, so its chains have more edges a pair
    "chain of 300": (lambda t: chain(*((270, 14) if t == "python" else (130, 300)), t), [0, 1]),
    "diamonds": (mixed, [0, 3150]),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("endpoints", [False, True])
def test_counts_beyond_float64(target, name, endpoints):
    make, sources = GRAPHS[name]
    if (target, name) == ("python", "diamonds"):
        pytest.skip("the interpreter takes 8 s, and has counted the paths of the chains")
    g = make(target)
    want, most = exact(g, sources, endpoints)
    assert most > 2**1024

    def run():
        return host(morph.betweenness(g, sources, endpoints=endpoints).centrality)

    for found in everywhere(target, run) if name == "chain of 300" else [run()]:
        assert np.isfinite(found).all() and (found[want == 0] == 0).all()
        rest = np.setdiff1d(np.flatnonzero(want > 0), sources)  # which are scaled otherwise
        ratio = want[rest] / found[rest]
        assert np.allclose(ratio, ratio[0], rtol=1e-11, atol=0)
    found = morph.betweenness(g, sources, endpoints=endpoints).centrality
    validate.betweenness(g, found, sources, endpoints=endpoints)
    wrong = host(found).copy()
    v = int(wrong.argmax())
    wrong[v] *= 1.01
    with pytest.raises(validate.WrongAnswer):
        validate.betweenness(g, wrong, sources, endpoints=endpoints)


def test_a_grid_of_many_paths():
    """Counts of one level lie 300 orders of magnitude apart."""
    g = morph.generate.grid(530, 530)
    want, most = exact(g, [0])
    assert most > 2**1024
    found = morph.betweenness(g, [0, 3], normalized=False)
    validate.betweenness(g, found.centrality, [0, 3], normalized=False)
    found = morph.betweenness(g, [0], normalized=False, endpoints=True).centrality
    assert np.allclose(found[1:] * 2 / len(g.points) - 1, want[1:], rtol=1e-11)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_scaled_counts_are_the_same(target, monkeypatch, directed, seed):
    """Counting by scales from the first source on, with a unit that is soon exceeded."""
    rng = np.random.default_rng(seed)
    graph = nx.gnm_random_graph(14, 40, seed=seed, directed=directed)
    ends = np.array(graph.edges).reshape(-1, 2).T
    g = morph.Graph.from_edges(*ends, n=14, directed=directed, device=target)
    for endpoints in (False, True):
        want = nx.betweenness_centrality(graph, endpoints=endpoints)
        want = [want[i] for i in range(14)]
        plain = host(morph.betweenness(g, endpoints=endpoints).centrality)
        with monkeypatch.context() as patch:
            patch.setattr(betweenness, "MOST", float(rng.integers(-1, 3)))
            patch.setattr(betweenness, "sources_at_once", lambda *_: 0)
            patch.setattr(path_counts, "LARGE", 2.0)
            patch.setattr(path_counts, "UNIT", 0.25)
            for kernel in vars(betweenness).values():
                getattr(kernel, "launches", {}).clear()
            found = host(morph.betweenness(g, endpoints=endpoints).centrality)
        for kernel in vars(betweenness).values():
            getattr(kernel, "launches", {}).clear()
        assert np.allclose(plain, want)
        assert np.allclose(found, want)


@pytest.mark.parametrize("directed", [True, False])
def test_a_cpu_has_a_thread_for_each_source(monkeypatch, directed):
    """The sums do not depend on the threads; sources whose counts overflow remain for the sweep."""
    graph = nx.gnm_random_graph(40, 200, seed=2, directed=directed)
    g = morph.Graph.from_edges(*np.array(graph.edges).T, n=40, directed=directed, device="cpu")
    want = list(nx.betweenness_centrality(graph, endpoints=True).values())
    swept = mock.Mock(wraps=betweenness._sweep)
    monkeypatch.setattr(betweenness, "_sweep", swept)
    monkeypatch.setattr(betweenness, "AT_ONCE", 15)
    found = []
    for threads in (2, 3):
        with team(threads):
            found.append(morph.betweenness(g, endpoints=True).centrality)
    assert np.allclose(found[0], want) and np.array_equal(*found)
    assert [call.args[2] for call in swept.call_args_list] == [[], []]
    with team(2), mock.patch.object(betweenness, "dependencies_of_each", lambda *_: None):
        assert np.allclose(morph.betweenness(g, endpoints=True).centrality, want)
    assert len(swept.call_args.args[2]) == 40
    long = chain(1100, 2, "cpu")
    for k, most in ((1000, True), (1024, False)):
        one = [len(long.points) - 1 - k]
        with team(2):
            assert (dependencies_of_each(long, one, 0.0) is not None) == most


@pytest.mark.parametrize("directed", [True, False])
def test_batches_of_sources_on_one_device(monkeypatch, directed):
    """As on a GPU if the graph has many levels."""
    monkeypatch.setattr(betweenness, "_takes_batches", lambda graph, sources: True)
    graph = nx.gnm_random_graph(20, 40, seed=3, directed=directed)
    g = morph.Graph.from_edges(*np.array(graph.edges).T, n=20, directed=directed, device="cpu")
    want = list(nx.betweenness_centrality(graph, endpoints=True).values())
    assert np.allclose(morph.betweenness(g, endpoints=True).centrality, want)
    validate.edge_betweenness(g, morph.edge_betweenness(g).centrality)  # source by source


@pytest.mark.parametrize("width, many", [(2, False), (120, True)])
def test_batches_are_for_graphs_of_many_levels_on_a_gpu(width, many):
    g = morph.generate.grid(2, width, device="cpu")
    sources = np.arange(16, dtype=np.int32) % (2 * width)
    assert not betweenness._takes_batches(g, sources)
    with (
        mock.patch.object(type(g.device), "on_host", False),
        mock.patch.object(betweenness, "bfs", lambda *_: SimpleNamespace(levels=width)),
    ):
        assert betweenness._takes_batches(g, sources) == many
        assert not betweenness._takes_batches(g, sources[:15])
        with mock.patch.object(betweenness, "max_width", lambda points: 4):
            assert not betweenness._takes_batches(g, sources)


def test_no_sources_give_zeros(target):
    g = morph.generate.grid(3, 3, device=target)
    for sources in ([], np.array([], np.int64), ()):
        for how in ({}, {"normalized": False}, {"endpoints": True}):
            found = morph.betweenness(g, sources, **how)
            assert host(found.centrality).tolist() == [0.0] * 9 and found.sources.size == 0
            validate.betweenness(g, found.centrality, sources, **how)
