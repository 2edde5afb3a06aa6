"""Communities of bounded size, against all subgraphs, on every target."""

from __future__ import annotations

import json
from itertools import combinations
from unittest import mock

import networkx as nx
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from targets import tries

import morph
from morph.algorithms.community import community as module
from morph.algorithms.community import neighbourhood, search, tasks
from morph.cli import main


def ranked_by_trial(graph, q, size):
    """All connected subgraphs: the minimum degrees and vertices, the best first."""
    ranked = []
    others = sorted(nx.node_connected_component(graph, q) - {q})
    for count in range(size[0] - 1, min(size[1] - 1, len(others)) + 1):
        for more in combinations(others, count):
            part = graph.subgraph([q, *more])
            if nx.is_connected(part):
                ranked.append((-min(d for _, d in part.degree), sorted([q, *more])))
    return [(-k, x) for k, x in sorted(ranked)]


def check(graph, found, q, size, ranked, top):
    best = ranked[0][0] if ranked else -1
    sets = [x for k, x in ranked if k == best]
    morph.validate.community(graph, found, q, size)
    assert (-1 if found is None else found.min_degree) == best
    if found is not None:
        assert found.proved and found.bound == best and found.vertices.dtype == np.int64
        assert found.vertices.tolist() in sets
        assert [x.tolist() for x in found.all] == sets
        assert [(k, x.tolist()) for k, x in found.top] == ranked[:top]


@tries(40)
@given(st.data())
def test_against_all_subgraphs(target, data):
    n = data.draw(st.integers(1, 9))
    ends = st.integers(0, n - 1)
    edges = data.draw(st.lists(st.tuples(ends, ends), max_size=4 * n))
    src, dst = np.array(edges, np.int32).reshape(-1, 2).T
    directed = data.draw(st.booleans())
    g = morph.Graph.from_edges(src, dst, n=n, symmetrize=not directed, device=target)
    simple = nx.Graph(edges)
    simple.add_nodes_from(range(n))
    simple.remove_edges_from(list(nx.selfloop_edges(simple)))
    least = data.draw(st.integers(1, 4))
    size = least, least + data.draw(st.integers(0, 8))
    queries = data.draw(st.lists(ends, min_size=1, max_size=3))
    top = data.draw(st.sampled_from([1, 2, 5, 1000]))
    with mock.patch.object(search, "NODES_PER_ITEM", data.draw(st.sampled_from([1, 256]))):
        results = morph.community(g, queries, size, all=True, top=top)
    for q, found in zip(queries, results, strict=True):
        check(g, found, q, size, ranked_by_trial(simple, q, size), top)


def planted(n, count, seed=0, share=0.06):
    """A random graph with a clique, and its members."""
    rng = np.random.default_rng(seed)
    near = np.triu(rng.random((n, n)) < share, 1)
    members = np.sort(rng.choice(n, count, replace=False))
    near[np.ix_(members, members)] |= np.triu(np.ones((count, count), bool), 1)
    return np.array(np.nonzero(near)), members


def test_a_clique_is_found(target):
    n = 40 if target == "python" else 400  # of sets of several words
    edges, members = planted(n, 9)
    g = morph.Graph.from_edges(*edges, n=n, symmetrize=True, device=target)
    for size, degree in (((9, 9), 8), ((4, 12), 8), ((9, 10), 8), ((10, 10), 7)):
        found = morph.community(g, members[:2], size)
        for q, one in zip(members[:2], found, strict=True):
            morph.validate.community(g, one, int(q), size)
            assert one.proved and one.min_degree <= degree
            assert one.min_degree == degree or size == (10, 10)
    assert morph.community(g, members[0], (9, 9), all=True).all[0].tolist() == members.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_sizes_and_widths_agree(seed):
    """Larger bounds give no smaller degree; sets of more words than needed the same result."""
    edges, _ = planted(70, 6, seed, share=0.15)
    g = morph.Graph.from_edges(*edges, n=70, symmetrize=True, device="cpu")
    before = 0
    for most in range(3, 11):
        found = morph.community(g, 5, (3, most))
        morph.validate.community(g, found, 5, (3, most))
        assert found.proved and found.min_degree >= before
        before = found.min_degree
        with mock.patch.object(tasks, "INITIAL_NODE_LIMIT", 1):
            again = morph.community(g, 5, (3, most), all=True)
        assert again.min_degree == before
        assert found.vertices.tolist() in [x.tolist() for x in again.all]


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_a_small_clique_in_dense_surroundings(degree):
    """Its vertices lack no neighbours, but are too few; every access is checked."""
    edges, _ = planted(100, 5, share=0.3)
    g = morph.Graph.from_edges(*edges, n=100, symmetrize=True, device="cpu")
    given = neighbourhood.SimpleGraph(g, *edges)
    queries = [module._query_of(given, q, degree + 4, degree + 5) for q in range(6)]
    for query in queries:
        query.degree, query.candidates = degree, query.neighbourhood.candidates(degree)
    with morph.checked():
        module.Run(given, queries, 6, float("inf"), None).decide(queries)
    assert all(x.best >= degree or x.bound < degree for x in queries)


def test_all_around_a_hub():
    star = morph.Graph.from_edges(np.zeros(40_000, int), np.arange(1, 40_001), symmetrize=True)
    found = morph.community(star, 0, (2, 3), all=True)
    assert (found.min_degree, found.proved, found.all) == (1, True, None)


def test_deleted_vertices_and_small_components():
    g = morph.Graph.from_edges([0, 0, 1, 3], [1, 2, 2, 4], n=7, symmetrize=True, device="cpu")
    assert morph.community(g, [5, 3, 0], (3, 3))[:2] == [None, None]
    assert morph.community(g, 5, (1, 4)).vertices.tolist() == [5]
    found = morph.community(g, 3, (1, 1), all=True)
    assert (found.min_degree, found.proved, [x.tolist() for x in found.all]) == (0, True, [[3]])
    g.points.delete([2])
    found = morph.community(g, 0, (2, 9), all=True)
    assert found.min_degree == 1 and [x.tolist() for x in found.all] == [[0, 1]]
    with pytest.raises(ValueError, match="q 2 is not a vertex: it was deleted"):
        morph.community(g, 2, (1, 2))


def test_the_time_is_up():
    edges, _ = planted(300, 4, share=0.3)
    g = morph.Graph.from_edges(*edges, n=300, symmetrize=True, device="cpu")
    seen = []
    found = morph.community(g, 0, (10, 20), time=2, all=True, progress=lambda *x: seen.append(x))
    assert not found.proved and found.bound > found.min_degree > 0 and found.all is None
    morph.validate.community(g, found, 0, (10, 20))
    assert seen[0] == (0, 1, 0)


def test_surroundings_that_are_too_large():
    """Only degrees whose candidates are few are searched; the bound tells it."""
    edges, members = planted(120, 8, share=0.1)
    g = morph.Graph.from_edges(*edges, n=120, symmetrize=True, device="cpu")
    q = next(q for q in range(120) if q not in members)
    size = (3, 8)
    best = morph.community(g, q, size)
    for most in (2, 20):
        with mock.patch.object(neighbourhood, "MAX_CANDIDATES", most):
            found = morph.community(g, [q, members[0]], size)
        morph.validate.community(g, found[0], q, size)
        assert found[0].min_degree <= best.min_degree <= found[0].bound
        assert (found[1].min_degree, found[1].proved) == (7, True) or most == 2
    assert best.proved and not found[0].proved


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((0, 3), TypeError, "size is a pair of integers, the least and the largest, not 3"),
        ((0, (3, 2)), ValueError, "size is a pair 1 <= least <= largest, not .3, 2."),
        ((0, (0, 2)), ValueError, "size is a pair 1 <= least <= largest, not .0, 2."),
        ((0, (1.5, 2)), TypeError, "size is an integer, not 1.5"),
        ((9, (1, 2)), ValueError, "q 9 is not a vertex: the graph has 3"),
        ((0, (1, 2), {"top": 0}), ValueError, "top is a number of subgraphs from 1 on, not 0"),
        ((0, (1, 2), {"top": 1.5}), TypeError, "top is an integer, not 1.5"),
        ((0, (1, 2), {"time": -1}), ValueError, "time is a number of seconds from 0 on, not -1"),
        ((0.5, (1, 2)), TypeError, "q is an id or an array of ids, not 0.5"),
    ],
)
def test_bad_arguments(args, error, message):
    g = morph.Graph.from_edges([0, 1], [1, 2], device="cpu")
    with pytest.raises(error, match=message):
        morph.community(g, *args[:2], **(args[2] if len(args) > 2 else {}))


def test_wrong_answers_are_refused():
    g = morph.Graph.from_edges([0, 0, 1, 3], [1, 2, 2, 4], n=5, symmetrize=True, device="cpu")
    found, refused = morph.community(g, 0, (1, 3)), morph.validate.WrongAnswer
    check_one = morph.validate.community
    for wrong, message in (
        (None, "vertex 0 has 3 vertices in its component"),
        (found._replace(min_degree=1, bound=1), "vertex 0 has degree 2, and the minimum is 1"),
        (found._replace(vertices=np.array([1, 2])), "or vertex 0 is not one"),
        (found._replace(vertices=np.array([0, 2, 1])), "not distinct and ascending"),
        (found._replace(vertices=np.array([0, 0])), "not distinct and ascending"),
        (found._replace(vertices=np.array([0, 1, 5])), "the vertices are not from 0 to 4"),
        (found._replace(vertices=np.array([-1, 0])), "the vertices are not from 0 to 4"),
        (found._replace(all=[np.arange(3)] * 2), "of all are not distinct and in order"),
        (found._replace(top=[(2, np.arange(3))] * 2), "of top are not distinct and in order"),
        (found._replace(top=[(1, np.arange(2))]), "the first of top has degree 1, not 2"),
        (found._replace(vertices=np.array([0, 3])), "vertex 0 has degree 0"),
        (found._replace(vertices=np.arange(5), min_degree=1), "5 vertices are not 1 to 3"),
        (found._replace(bound=1), "the bound is 1 for minimum degree 2"),
    ):
        with pytest.raises(refused, match=message):
            check_one(g, wrong, 0, (1, 3))
    both = found._replace(vertices=np.array([0, 1, 3, 4]), min_degree=1, bound=1)
    with pytest.raises(refused, match="vertex 3 is not connected with vertex 0"):
        check_one(g, both, 0, (1, 4))


def test_command(tmp_path):
    path, out = tmp_path / "g.txt", tmp_path / "out.json"
    path.write_text("0 1\n0 2\n1 2\n2 3\n")
    command = ["community", str(path), "--query", "0", "--query", "3", "--size", "2", "3"]
    done = CliRunner().invoke(main, [*command, "--all", "-o", str(out), "--device", "cpu"])
    assert done.exit_code == 0, done.output
    assert "query 0: minimum degree 2, one of 1: 0 1 2" in done.output
    saved = json.loads(out.read_text())
    assert saved["size"] == [2, 3] and saved["communities"][1]["min_degree"] == 1
    done = CliRunner().invoke(main, [*command, "--top", "2", "-o", str(out), "--device", "cpu"])
    assert "query 0: minimum degree 2: 0 1 2\nquery 0: minimum degree 1: 0 1\n" in done.output
    tops = json.loads(out.read_text())["communities"][0]["top"]
    assert tops[1] == {"min_degree": 1, "vertices": [0, 1]}
    done = CliRunner().invoke(main, [*command, "--query", "9"])
    assert (done.exit_code, done.stderr) == (
        2,
        "morph: --query: 9 is not a vertex: the graph has 4\n",
    )
    done = CliRunner().invoke(main, [*command[:-2], "3", "2"])
    assert done.exit_code == 2 and "size is a pair" in done.stderr
