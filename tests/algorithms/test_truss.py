"""Truss numbers and k-trusses, against NetworkX and the definition, on every target."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from click.testing import CliRunner
from graphs import edge_lists, graph_of, simple
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, tries

import morph
from morph import generate, validate
from morph.algorithms.graph import truss
from morph.cli import main


def numbers(graph):
    """Truss numbers by the definition: take edges of too few triangles away, level by level."""
    left, found, k = {u: set(graph[u]) for u in graph}, {}, 2
    edges = {tuple(sorted(e)) for e in graph.edges}
    while edges:
        few = {(u, v) for u, v in edges if len(left[u] & left[v]) <= k - 2}
        for u, v in few:
            found[u, v] = k
            left[u].discard(v)
            left[v].discard(u)
        edges -= few
        k += not few
    return found


def check(g, graph, target):
    """Every result on a graph, whose simple graph is ``graph``."""
    want = numbers(graph)
    ends = list(zip(*(host(c).tolist() for c in (g.edges.src, g.edges.dst)), strict=True))
    ids = [i for i in host(g.edges.ids()).tolist() if ends[i][0] != ends[i][1]]
    largest = max(want.values(), default=0)
    for found in everywhere(target, lambda: morph.truss_number(g)):
        number = host(found.number)
        assert number.dtype == np.int32 and number.shape == (len(ends),)
        assert found.largest == largest and type(found.largest) is int
        assert [number[i] for i in ids] == [want[tuple(sorted(ends[i]))] for i in ids]
        assert (np.delete(number, ids) == -1).all()
        validate.truss_number(g, found.number)
    for k in {0, 2, 3, largest, largest + 1, 2**70}:
        inside = host(morph.k_truss(g, k).edges)
        assert inside.tolist() == [i for i in ids if want[tuple(sorted(ends[i]))] >= k]
        assert inside.dtype == np.int64
        validate.k_truss(g, inside, k)
        for wrong in (inside[1:], np.setdiff1d(ids, inside[:1])):
            if len(wrong) != len(inside) or not np.array_equal(wrong, inside):
                with pytest.raises(validate.WrongAnswer, match=f"{k}-truss"):
                    validate.k_truss(g, wrong, k)


@tries(15)
@given(edge_lists(most=14), st.booleans())
def test_truss_numbers(target, edges, directed):
    check(graph_of(edges, target, directed=directed), simple(edges), target)


@tries(10)
@given(edge_lists(most=14))
def test_those_of_networkx(target, edges):
    graph = simple(edges)
    g = morph.Graph.from_networkx(graph, device=target)
    src, dst = host(g.edges.src), host(g.edges.dst)
    for k in range(2, morph.truss_number(g).largest + 2):
        inside = host(morph.k_truss(g, k).edges)
        want = nx.k_truss(graph, k).edges
        assert {*zip(src[inside].tolist(), dst[inside].tolist(), strict=True)} == {
            *want, *(e[::-1] for e in want)
        }  # fmt: skip


@pytest.mark.parametrize("k", [3, 4, 5, 9])
def test_cliques_and_what_joins_them(target, k):
    """Cliques of sizes 3 to k, each of which shares a vertex with the next."""
    graph, at = nx.Graph(), 0
    for size in range(3, k + 1):
        graph.add_edges_from((at + i, at + j) for i in range(size) for j in range(i))
        at += size - 1
    check(morph.Graph.from_networkx(graph, device=target), graph, target)


def test_graphs_without_triangles(target):
    for n, ends in ((0, ([], [])), (1, ([], [])), (1, ([0], [0])), (3, ([0, 0], [1, 1]))):
        g = morph.Graph.from_edges(*ends, n=n, device=target)
        found = morph.truss_number(g)
        want = [2 if a != b else -1 for a, b in zip(*ends, strict=True)]
        assert host(found.number).tolist() == want
        assert found.largest == max([0, *want])
        assert len(morph.k_truss(g, 3).edges) == 0
        validate.truss_number(g, found.number)


def test_all_edges_have_more_triangles_than_needed(target):
    """No edge is deleted at the only level, nor at one above it."""
    g = morph.Graph.from_networkx(nx.complete_graph(5), device=target)
    sizes = [len(morph.k_truss(g, k).edges) for k in range(7)]
    assert sizes == [20] * 6 + [0]


@tries(8)
@given(edge_lists(most=10), st.data())
def test_graphs_that_were_changed(target, edges, data):
    n = edges[0]
    g = graph_of(edges, target)
    drawn = st.lists(st.integers(0, n - 1), min_size=6, max_size=6)
    new = [np.array(data.draw(drawn)) for _ in range(2)]
    weight = np.ones(6, np.int32)
    ids = host(g.edges.ids())
    chosen = data.draw(st.lists(st.sampled_from(ids.tolist()), unique=True)) if len(ids) else []
    g.apply(inserts=(*new, weight), deletes=np.array(chosen, np.int64))
    if data.draw(st.booleans()):
        g.points.delete(data.draw(st.integers(0, n - 1)))
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    live = host(g.edges.ids())
    src, dst = host(g.edges.src)[live].tolist(), host(g.edges.dst)[live].tolist()
    graph.add_edges_from((a, b) for a, b in zip(src, dst, strict=True) if a != b)
    check(g, graph, target)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_larger_graphs_with_many_threads(device):
    for scale, seed in ((8, 1), (10, 2), (12, 3)):
        g = generate.rmat(scale, seed=seed, device=device)
        found = [host(x.number) for x in everywhere(device, lambda g=g: morph.truss_number(g))]
        assert all(np.array_equal(found[0], x) for x in found[1:])
        validate.truss_number(g, found[0])


@pytest.mark.parametrize("size", [0, 1, 10**9])
def test_rows_are_packed_often_and_never(target, size, monkeypatch):
    """Results do not depend on when the arcs of deleted edges are removed."""
    monkeypatch.setattr(truss, "PACK", size)
    monkeypatch.setattr(truss, "MIN_PACKED", 0)
    graph = nx.gnp_random_graph(16, 0.5, seed=4)
    check(morph.Graph.from_networkx(graph, device=target), graph, target)


def test_rows_are_kept_until_the_graph_changes(target, monkeypatch):
    """Calls for other levels reuse the rows, unless these were packed."""
    made, init = [], truss.Peeling.__init__
    monkeypatch.setattr(truss.Peeling, "__init__", lambda *x: (made.append(1), init(*x))[1])
    graph = nx.gnp_random_graph(12, 0.6, seed=3)
    g = morph.Graph.from_networkx(graph, device=target)
    check(g, graph, target)
    check(g, graph, target)
    assert len(made) == 1
    id, ends = 0, (int(host(g.edges.src)[0]), int(host(g.edges.dst)[0]))
    g.apply(deletes=([ends[0], ends[1]], [ends[1], ends[0]]))
    graph.remove_edge(*ends)
    assert host(morph.truss_number(g).number)[id] == -1
    validate.truss_number(g, morph.truss_number(g).number)
    assert len(morph.k_truss(g, 3).edges) == len(nx.k_truss(graph, 3).edges) * 2
    assert len(made) == 2
    monkeypatch.setattr(truss, "MIN_PACKED", 0)
    h = morph.Graph.from_networkx(graph, device=target)
    for _ in range(2):  # packed
        validate.truss_number(h, morph.truss_number(h).number)
    assert len(made) == 4


def test_threads_share_the_neighbours_of_a_deleted_edge():
    """A row may have most vertices: with one thread for it, all others wait."""
    morph.truss_number(generate.rmat(6, seed=1, device="cpu"))
    step = truss.peel.source().partition("// foreach falling: drop")[2].partition("// foreach")[0]
    assert "WORK_SHARING = true" in step


def test_what_is_no_list_of_edges_is_refused():
    g = morph.Graph.from_edges([0, 1, 2], [1, 2, 0])
    for edges, message in (([0, 0], "distinct"), ([0.5], "distinct"), ([3], "edge 3 is not an")):
        with pytest.raises(validate.WrongAnswer, match=message):
            validate.k_truss(g, np.array(edges), 3)


def test_bad_arguments():
    g = morph.Graph.from_edges([0], [1])
    with pytest.raises(ValueError, match="k is 0 or more, not -1"):
        morph.k_truss(g, -1)
    with pytest.raises(TypeError, match="k is"):
        morph.k_truss(g, 2.5)
    with pytest.raises(TypeError, match="takes a graph on one device"):
        morph.truss_number(morph.partition(g, ["cpu"] * 2))


def test_wrong_numbers_are_refused():
    ends = [0, 0, 1, 2, 1, 3], [1, 2, 2, 3, 0, 3]  # a triangle, one of whose edges is there twice
    g = morph.Graph.from_edges(*ends, device="cpu")
    src, dst = g.edges.src[:].tolist(), g.edges.dst[:].tolist()
    right = np.array(
        [-1 if a == b else 2 if 3 in (a, b) else 3 for a, b in zip(src, dst, strict=True)]
    )

    def refused(match, number):
        with pytest.raises(validate.WrongAnswer, match=match):
            validate.truss_number(g, number)

    validate.truss_number(g, right)
    refused("shape", right[1:])
    refused("type float64", right + 0.5)
    refused("has the truss number 1", np.maximum(right, 1))
    again = [*zip(src, dst, strict=True)].index((1, 0))
    refused("parallel edge has 3", np.where(np.arange(6) == again, 2, right))
    refused("in 0 triangles of edges of that number", np.where(right == 2, 3, right))
    refused("is in a truss of more", np.where(right == 3, 2, right))


@pytest.mark.parametrize("suffix", [".txt", ".mtx"])
def test_the_command_keeps_the_order_of_the_file(tmp_path, suffix):
    """Of a file of arcs, and of one in which each edge stands once; with loops and duplicates."""
    rng = np.random.default_rng(2)
    src, dst = rng.integers(0, 12, (2, 60))
    path, out = tmp_path / f"g{suffix}", tmp_path / "g.npz"
    if suffix == ".txt":
        path.write_text("\n".join(f"{a} {b}" for a, b in zip(src, dst, strict=True)) + "\n")
    else:
        src, dst = np.maximum(src, dst), np.minimum(src, dst)
        lines = [f"{a + 1} {b + 1}" for a, b in zip(src, dst, strict=True)]
        head = "%%MatrixMarket matrix coordinate pattern symmetric\n12 12 60\n"
        path.write_text(head + "\n".join(lines) + "\n")
    done = CliRunner().invoke(main, ["truss", str(path), "-o", str(out), "--device", "cpu"])
    assert done.exit_code == 0, done.output
    want = numbers(simple((12, src, dst, np.ones(60))))
    with np.load(out) as saved:
        number = saved["number"]
    pairs = zip(np.minimum(src, dst).tolist(), np.maximum(src, dst).tolist(), strict=True)
    assert number.tolist() == [want.get(pair, -1) for pair in pairs]
    done = CliRunner().invoke(main, ["check", str(path), str(out)])
    assert done.exit_code == 0 and "the answer is right" in done.output
    number[int((src != dst).argmax())] += 1
    np.save(tmp_path / "g.npy", number)
    checked = ["check", str(path), str(tmp_path / "g.npy"), "--as", "truss"]
    done = CliRunner().invoke(main, checked)
    assert done.exit_code == 1 and "truss number" in done.output
    np.save(tmp_path / "g.npy", number[1:])
    done = CliRunner().invoke(main, checked)
    assert done.exit_code == 1 and "shape" in done.output
