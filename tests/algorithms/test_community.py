"""Communities of bounded size, against the enumeration of all subgraphs, on every target."""

from __future__ import annotations

import json
import time
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
from morph.algorithms.community import lists, neighbourhood, tables
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
        tops = [(k, x.tolist()) for k, x in found.top]
        assert [k for k, _ in tops] == [k for k, _ in ranked[:top]]
        known = [x for x in tops if x[0] > tops[-1][0]]
        assert known == ranked[: len(known)] and all(x in ranked for x in tops)


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
    as_on_a_gpu = target == "python" and data.draw(st.booleans())
    with (
        mock.patch.object(tables, "FEW_ITEMS_CPU", as_on_a_gpu << 20),
        mock.patch.object(tables, "VISITS_INSIDE_CPU", as_on_a_gpu),
        mock.patch.object(module, "MAX_UNREDUCED_CPU", data.draw(st.sampled_from([0, 1 << 30]))),
        mock.patch.object(module, "MAX_DEGREES_CPU", data.draw(st.sampled_from([0, 64]))),
        mock.patch.object(module, "MAX_FEW_CPU", data.draw(st.sampled_from([0, 256]))),
        mock.patch.object(
            neighbourhood, "MAX_CANDIDATES", data.draw(st.sampled_from([2, 1 << 15]))
        ),
    ):
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
        with mock.patch.object(tables, "INITIAL_NODE_LIMIT_CPU", 1):
            again = morph.community(g, 5, (3, most), all=True)
        assert again.min_degree == before
        assert found.vertices.tolist() in [x.tolist() for x in again.all]


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_a_small_clique_in_dense_surroundings(degree):
    """Its vertices lack no neighbours, but are too few; every access is checked."""
    edges, _ = planted(100, 5, share=0.3)
    g = morph.Graph.from_edges(*edges, n=100, symmetrize=True, device="cpu")
    size = degree + 4, degree + 5
    queries = module.Queries(neighbourhood.simple_graph(g), np.arange(6), np.tile(size, (6, 1)))
    run = module.Run(queries, float("inf"), None)
    with morph.checked():
        run.decide(queries.undecided, np.full(len(queries.undecided), degree), float("inf"))
    assert ((queries.best >= degree) | (queries.bound < degree)).all()


def test_all_around_a_hub():
    star = morph.Graph.from_edges(np.zeros(33_000, int), np.arange(1, 33_001), symmetrize=True)
    with mock.patch.object(module, "MAX_LISTED_VALUES", 1 << 20):
        found = morph.community(star, 0, (2, 3), all=True)  # too many
    assert (found.min_degree, found.proved, found.all) == (1, True, None)
    found = morph.community(star, 0, (2, 2), all=True, top=2)
    assert [x.tolist() for x in found.all] == [[0, v] for v in range(1, 33_001)]
    assert [x.tolist() for _, x in found.top] == [[0, 1], [0, 2]]


@pytest.mark.parametrize("on_lists", [False, True])
def test_top_ends_with_enough(on_lists):
    """There are 1.6 million subgraphs of degree 7 and 0.5 million of degree 6, and nothing else."""
    g = morph.Graph.from_edges(*np.triu_indices(30, 1), symmetrize=True, device="cpu")
    with mock.patch.object(neighbourhood, "MAX_CANDIDATES", 2 if on_lists else 1 << 15):
        found = morph.community(g, 3, (7, 8), top=5)
    morph.validate.community(g, found, 3, (7, 8))
    morph.validate.community(g, found, 3, np.array([7, 8]))  # as `community` takes it
    assert found.proved and [k for k, _ in found.top] == [7] * 5
    assert found.nodes < 100_000
    assert morph.community(g, 3, (1, 1), top=1 << 100).top[0][1].tolist() == [3]


@pytest.mark.parametrize("on_lists", [False, True])
@pytest.mark.parametrize("seconds", [0, 0.2])
def test_all_and_top_when_the_time_is_up(on_lists, seconds):
    """Those that were found are given; there are 61 million."""
    g = morph.Graph.from_edges(*np.triu_indices(40, 1), symmetrize=True, device="cpu")
    queries = module.Queries(neighbourhood.simple_graph(g), np.array([3]), np.array([[9, 9]]))
    run = module.Run(queries, float("inf"), None)
    run.decide_all()
    with mock.patch.object(neighbourhood, "MAX_CANDIDATES", 2 if on_lists else 1 << 15):
        run.find_all(0, 8, 5)  # compiled
        run.end = time.monotonic() + seconds
        every, top = run.result(0, True, None), run.result(0, False, 10**9)
    for found in (every, top):
        assert (found.min_degree, found.bound, found.proved) == (8, 8, False)
        morph.validate.community(g, found, 3, (9, 9))
    assert every.all and top.top
    wrong = every._replace(all=None)
    with pytest.raises(morph.validate.WrongAnswer, match="the bound is 8 for minimum degree 8"):
        morph.validate.community(g, wrong, 3, (9, 9))


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
    found = morph.community(g, 0, (10, 20), time=0.01)
    assert not found.proved and found.nodes < 1 << 13  # a launch is short


def test_surroundings_that_are_too_large(target):
    """Many vertices are searched on lists, after those of most common neighbours."""
    n, count = (30, 1) if target == "python" else (120, 6)
    edges, members = planted(n, 8, share=0.1)
    g = morph.Graph.from_edges(*edges, n=n, symmetrize=True, device=target)
    queries = [*range(0, n, n // count), members[0]]
    best = morph.community(g, queries, (3, 8))
    for most, narrow in ((2, 1 << 20), (2, 4), (1 << 20, 4)):
        with (
            mock.patch.object(neighbourhood, "MAX_CANDIDATES", most),
            mock.patch.object(module, "NARROW", narrow),
            mock.patch.object(lists, "NODES_PER_ITEM", 4),
        ):
            found = morph.community(g, queries, (3, 8))
        for q, one, right in zip(queries, found, best, strict=True):
            morph.validate.community(g, one, int(q), (3, 8))
            assert (one.min_degree, one.proved) == (right.min_degree, True)
    assert best[-1].min_degree == 7


def test_lists_within_launches_that_end():
    """The rest of a search goes on in the next launch; sizes are at their bounds."""
    edges, _ = planted(60, 5, 3, share=0.15)
    g = morph.Graph.from_edges(*edges, n=60, symmetrize=True, device="cpu")
    for size in ((6, 6), (5, 7), (1, 6)):
        best = morph.community(g, 7, size)
        with (
            mock.patch.object(neighbourhood, "MAX_CANDIDATES", 1),
            mock.patch.object(module.Run, "search", lambda *_, **__: None),
            mock.patch.object(lists, "INITIAL_NODE_LIMIT", 1),
            mock.patch.object(lists, "NODES_PER_ITEM", 1),
        ):
            found = morph.community(g, 7, size)
        morph.validate.community(g, found, 7, size)
        assert (found.min_degree, found.proved) == (best.min_degree, best.proved)


def test_hard_queries_wait_for_others():
    """Searches that are ended again and again have the same results in the end."""
    edges, _ = planted(80, 5, 2, share=0.2)
    g = morph.Graph.from_edges(*edges, n=80, symmetrize=True, device="cpu")
    queries, size = [1, 5, 9], (6, 10)
    best = morph.community(g, queries, size)
    with (
        mock.patch.object(module, "NODES_CPU", 1),
        mock.patch.object(tables, "INITIAL_NODE_LIMIT_CPU", 1),
        mock.patch.object(tables, "FEW_ITEMS_CPU", 1 << 20),
    ):
        found = morph.community(g, queries, size)
    assert [x.min_degree for x in found] == [x.min_degree for x in best]
    assert all(x.proved for x in found) and sum(x.nodes for x in found) > sum(x.nodes for x in best)


def test_small_hash_tables_and_batches():
    """A table that is full grows, or the batch is divided; batches do not change results."""
    edges, _ = planted(300, 9, share=0.05)
    queries, size = np.arange(0, 300, 7), (3, 9)
    degrees = []
    for first, most, batch, direct in (
        (1 << 16, 1 << 25, 256, 1 << 16), (1 << 16, 1 << 25, 256, 0), (4, 1 << 25, 256, 1 << 9),
        (4, 1 << 9, 5, 0),
    ):  # fmt: skip
        g = morph.Graph.from_edges(*edges, n=300, symmetrize=True, device="cpu")
        with (
            mock.patch.object(tables, "FIRST_SLOTS_CPU", first),
            mock.patch.object(tables, "MAX_SLOTS", most),
            mock.patch.object(tables, "MAX_DIRECT_CPU", direct),
            mock.patch.object(module, "MAX_BATCH_CPU", batch),
        ):
            degrees.append([x.min_degree for x in morph.community(g, queries, size)])
    assert all(x == degrees[0] for x in degrees)


def test_one_query_and_many_agree():
    """One query is decided in one launch, unless it has many candidates or the hash table fills."""
    edges, _ = planted(80, 6, 4, share=0.2)
    g = morph.Graph.from_edges(*edges, n=80, symmetrize=True, device="cpu")
    queries, size = [1, 5, 9, 5], (6, 10)
    for degrees in (0, 64):
        with (
            mock.patch.object(module, "MAX_DEGREES_CPU", degrees),
            mock.patch.object(tables, "VISITS_INSIDE_CPU", degrees > 0),  # as on a GPU
        ):
            many = morph.community(g, queries, size)
            for q, wanted in zip(queries, many, strict=True):
                with mock.patch.object(tables, "INITIAL_NODE_LIMIT_CPU", 1):
                    found = morph.community(g, q, size)
                morph.validate.community(g, found, q, size)
                assert found.proved and found.min_degree == wanted.min_degree
    with (
        mock.patch.object(tables, "INITIAL_NODE_LIMIT_CPU", 1),
        pytest.raises(ZeroDivisionError),
    ):
        morph.community(g, 1, (6, 12), progress=lambda _, __, nodes: 1 // (nodes < 9))
    assert morph.community(g, 9, size).min_degree == many[2].min_degree  # no node is left
    wide, _ = planted(700, 9, share=0.3)  # more than 256 candidates
    g = morph.Graph.from_edges(*wide, n=700, symmetrize=True, device="cpu")
    found = morph.community(g, 3, (3, 4))
    morph.validate.community(g, found, 3, (3, 4))
    assert found.proved and found.min_degree == 3
    for degrees in (0, 64):  # the first candidates have no subgraph, or prove nothing
        with mock.patch.object(module, "MAX_DEGREES_CPU", degrees):
            found = morph.community(g, 3, (5, 5))
            twice = morph.community(g, [3, 3], (5, 5))
        assert found.proved and found.min_degree == twice[0].min_degree
    g = morph.Graph.from_edges(*edges, n=80, symmetrize=True, device="cpu")
    with (
        mock.patch.object(tables, "FIRST_SLOTS_CPU", 4),
        mock.patch.object(tables, "MAX_DIRECT_CPU", 0),
    ):
        assert [morph.community(g, q, size).min_degree for q in queries] == [
            x.min_degree for x in many
        ]


def test_few_queries_in_one_launch():
    """All degrees of all queries are searched at the same time, as on a GPU."""
    edges, members = planted(80, 6, 4, share=0.2)
    g = morph.Graph.from_edges(*edges, n=80, symmetrize=True, device="cpu")
    queries = np.array([1, 5, 9, 5, members[0]])
    sizes = np.array([[6, 10], [2, 3], [6, 6], [1, 1], [90, 99]])
    wanted = morph.community(g, queries, sizes)
    few, calls = tables.OneLaunchTables.search_few, []

    def counted(self, given, end, report):
        found = few(self, given, end, report)
        calls.append((len(given), int(found[1].sum())))
        return found

    with (
        mock.patch.object(module, "MAX_FEW_CPU", 256),
        mock.patch.object(tables.OneLaunchTables, "search_few", counted),
        mock.patch.object(module.Run, "decide", None),  # nothing is left
    ):
        found = morph.community(g, queries, sizes)
        with mock.patch.object(tables, "INITIAL_NODE_LIMIT_CPU", 1):  # several launches
            again = morph.community(g, queries, sizes, progress=lambda *_: None)
        with pytest.raises(ZeroDivisionError):
            morph.community(g, queries, sizes, progress=lambda *_: 1 // 0)
    assert calls[0] == calls[1] and len(calls) == 2 and 0 < calls[0][1] < calls[0][0]
    for q, size, *three in zip(queries, sizes.tolist(), wanted, found, again, strict=True):
        assert len({x and (x.min_degree, x.proved) for x in three}) == 1
        for x in three:
            morph.validate.community(g, x, int(q), size)
    hard, _ = planted(120, 4, share=0.3)
    h = morph.Graph.from_edges(*hard, n=120, symmetrize=True, device="cpu")
    with mock.patch.object(module, "MAX_FEW_CPU", 256):
        late = morph.community(h, [0, 1], (10, 20), time=0.01)
    for q, x in enumerate(late):
        morph.validate.community(h, x, q, (10, 20))
        assert not x.proved
    wide, _ = planted(700, 9, share=0.3)  # more than 256 candidates
    w = morph.Graph.from_edges(*wide, n=700, symmetrize=True, device="cpu")
    with mock.patch.object(module, "MAX_FEW_CPU", 256):
        found = morph.community(w, [3, 4], (5, 5))
    assert found[0].proved and found[0].min_degree == morph.community(w, 3, (5, 5)).min_degree


def test_a_size_for_each_query_and_a_graph_that_changes():
    edges, members = planted(80, 7, share=0.1)
    g = morph.Graph.from_edges(*edges, n=80, symmetrize=True, device="cpu")
    sizes = np.array([[3, 4], [7, 7], [2, 12]])
    found = morph.community(g, members[:3], sizes)
    for q, size, one in zip(members, sizes.tolist(), found, strict=False):
        assert one.min_degree == morph.community(g, int(q), tuple(size)).min_degree
    assert found[1].min_degree == 6
    (most,) = morph.community(g, members[:1], np.array([[1, 2**63]], np.uint64))
    assert most.min_degree == morph.community(g, int(members[0]), (1, 80)).min_degree > 1
    large, none = morph.community(g, members[:2], [(1, 2**70), (2**70, 2**71)])
    assert large.min_degree == most.min_degree and none is None
    assert morph.community(g, int(members[1]), (2**70, 2**71)) is None
    g.apply(deletes=(edges[0], edges[1]))
    assert morph.community(g, members[:3], sizes) != found
    for wrong, error in (([[1, 2]] * 2, TypeError), ([[1.5, 2]] * 3, TypeError),
                         ([[0, 2**70]] * 3, ValueError),
                         ([[1, 2], [0, 1], [1, 1]], ValueError)):  # fmt: skip
        with pytest.raises(error, match="size is a pair"):
            morph.community(g, members[:3], wrong)


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((0, 3), TypeError, "size is a pair of integers, the least and the largest, not 3"),
        ((0, np.array(3)), TypeError, "size is a pair of integers, the least and the largest"),
        (([0, 1], [(1, 2), (1,)]), ValueError, "size: rows of different lengths"),
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
    checked = ["check", str(path), str(out)]
    assert CliRunner().invoke(main, checked).output == "community: the answer is right\n"
    saved["communities"][1]["vertices"] = [1, 3]
    out.write_text(json.dumps(saved))
    done = CliRunner().invoke(main, checked)
    assert done.exit_code == 1 and "community: vertex 1 has degree 0" in done.output
    for vertices in ([2, 3.5], [2**70, 3], "23"):  # not converted to other numbers
        saved["communities"][1]["vertices"] = vertices
        out.write_text(json.dumps(saved))
        done = CliRunner().invoke(main, checked)
        assert done.exit_code == 2 and done.stderr.startswith(f"morph: {out}: "), vertices
    endless = json.dumps({**saved, "size": [1, float("inf")]})
    for text in ('{"command": "bfs"}', endless, "[" * 100_000):
        out.write_text(text)
        done = CliRunner().invoke(main, checked)
        assert done.exit_code == 2 and "is not what `morph community -o` saves" in done.stderr
    done = CliRunner().invoke(main, [*command, "--top", "2", "-o", str(out), "--device", "cpu"])
    assert "query 0: minimum degree 2: 0 1 2\nquery 0: minimum degree 1: 0 " in done.output
    tops = json.loads(out.read_text())["communities"][0]["top"]
    assert tops[1]["min_degree"] == 1 and tops[1]["vertices"] in (
        [0, 1],
        [0, 1, 3],
        [0, 2, 3],
        [0, 2],
    )
    done = CliRunner().invoke(main, [*command, "--query", "9"])
    assert (done.exit_code, done.stderr) == (
        2,
        "morph: --query: 9 is not a vertex: the graph has 4\n",
    )
    done = CliRunner().invoke(main, [*command[:-2], "3", "2"])
    assert done.exit_code == 2 and "size is a pair" in done.stderr


def test_many_candidates_and_large_sizes():
    """The component of the core needs no search; lists are not so long that they do not compile."""
    edges, members = planted(80, 7, share=0.1)
    g = morph.Graph.from_edges(*edges, n=80, symmetrize=True, device="cpu")
    sizes = np.array([[1, 5000], [75, 80], [3, 8]])
    wanted = morph.community(g, members[:3], sizes)
    with (
        mock.patch.object(neighbourhood, "MAX_CANDIDATES", 1),
        mock.patch.object(module, "MAX_LISTED", 1),
    ):
        found = morph.community(g, members[:3], sizes)
    for one, other in zip(found[:2], wanted[:2], strict=True):
        assert one.proved and one.min_degree == other.min_degree
    assert not found[2].proved and found[2].bound >= wanted[2].min_degree == 6
    morph.validate.community(g, found[2], int(members[2]), (3, 8))
