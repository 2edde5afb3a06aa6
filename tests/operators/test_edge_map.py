"""Edge map: in every direction and representation of the frontier, on every target."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from graphs import edge_lists
from hypothesis import given
from scipy.sparse import coo_array, csgraph
from targets import everywhere, host, tries

import morph
from morph.operators import edge_map as module
from morph.prelude import atomic_min, i32, i64, u8
from morph.worklists import edge_map, edge_mapping

FAR = 2**31 - 1
DIRECTIONS = {  # wherever the frontier has edges
    "push": {"DENSE": 0},
    "pull": {"DENSE": 10**6, "SPARSE": 10**6},
    "auto": {"DENSE": module.DENSE},
}


class Level(NamedTuple):
    level: Any
    marks: Any


@morph.func
def visit(p, t, a):
    if atomic_min(t.dist, a.level) > a.level:
        t.parent = p.id  # race: any vertex of the frontier
        return True
    return False


@morph.func
def assign(p, t, a):
    t.dist = a.level
    t.parent = p.id
    a.marks[t.id].n += 1
    return True


@morph.func
def is_farther(t, a):
    return t.dist > a.level


@morph.program
def search(s, now, then, marks):
    level, size = i32(0), len(now)
    while size > 0:
        level += 1
        size = edge_map(s, now, then, size, Level(level, marks))
        now, then = then, now
    return level


def levels(g, run, **options):
    for name in ("dist", "parent"):
        g.points.add(name, i32, fill=FAR)
    marks = morph.Table("marks", g.device, n=i64)
    marks.extend(len(g.points))
    lists = [morph.Collection(g.points) for _ in range(2)]
    g.points[0].dist = 0
    lists[0].add(0)
    s = edge_mapping(g, visit, is_farther, **options)
    steps = run(s, *lists, marks)
    dist, parent = (host(g.points.columns[n].array).copy() for n in ("dist", "parent"))
    for name in ("dist", "parent", "active"):
        g.points.drop(name)
    return steps, dist.tolist(), parent.tolist(), int(s.state.step[0])


def matrix_of(edges, both=False):
    n, src, dst, _ = edges
    ends = np.array([src, dst], int)
    found = coo_array((np.ones(len(src)), ends), shape=(n, n)).tocsr()
    return found + found.T if both else found


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("directed", [False, True])
@tries(6)
@given(edge_lists(most=12))
def test_levels(target, direction, directed, edges):
    n, src, dst, _ = edges
    matrix = matrix_of(edges, not directed)
    want = csgraph.dijkstra(matrix, indices=0, unweighted=True)

    def run():
        g = morph.Graph.from_edges(src, dst, n=n, symmetrize=not directed, device=target)
        return [
            levels(g, program, pull=True, **options)
            for program in (search, search.eager)
            for options in ({}, {"once": True}, {"once": True, "assign": assign})
        ]

    with mock.patch.multiple(module, **DIRECTIONS[direction]):
        for found in everywhere(target, run):
            for steps, dist, parent, _ in found:
                assert np.where(np.array(dist) == FAR, np.inf, dist).tolist() == want.tolist()
                assert steps == max(d for d in dist if d < FAR) + 1
                for v in range(n):
                    far = dist[v] == FAR or v == 0
                    assert parent[v] == FAR if far else matrix[parent[v], v] > 0
                    assert far or dist[parent[v]] + 1 == dist[v]


def test_directions(target):
    """A step pulls if the frontier has many edges."""
    g = morph.generate.rmat(8, seed=1, device=target)
    push, both, once = (levels(g, search, **o) for o in ({"pull": False}, {}, {"once": True}))
    assert push[:2] == both[:2] == once[:2]
    assert push[3] == 0 < once[3] and both[3] > 0


@pytest.mark.parametrize("large, wanted", [(module.LARGE, 2), (100, 3)])
def test_the_edges_of_few_vertices_of_a_large_graph_are_counted(target, large, wanted):
    leaves = np.arange(1, 400)
    g = morph.Graph.from_edges(leaves * 0, leaves, symmetrize=True, device=target)
    with mock.patch.object(module, "LARGE", large):
        steps, dist, _, dense = levels(g, search, once=True)
    assert (steps, dist) == (2, [0, *[1] * 399]) and dense == wanted


@morph.func
def lower(p, t, a):
    return atomic_min(t.label, p.label) > p.label


@morph.func
def every(t, a):
    return True


@morph.program
def spread_labels(s, now, then):
    size = len(now)
    while size > 0:
        size = edge_map(s, now, then, size, 0)
        now, then = then, now


@pytest.mark.parametrize("direction", DIRECTIONS)
@tries(6)
@given(edge_lists(most=12))
def test_vertices_that_return(target, direction, edges):
    """Components by label propagation: a vertex enters the frontier again and again."""
    n, src, dst, _ = edges
    count, part = csgraph.connected_components(matrix_of(edges, both=True))
    want = [min(np.flatnonzero(part == part[v]).tolist()) for v in range(n)]

    def run():
        g = morph.Graph.from_edges(src, dst, n=n, symmetrize=True, device=target)
        found = []
        for program in (spread_labels, spread_labels.eager):
            g.points.add("label", i32)
            g.points.label[:] = np.arange(n)
            lists = [morph.Collection(g.points) for _ in range(2)]
            lists[0].extend(np.arange(n))
            program(edge_mapping(g, lower, every), *lists)
            found.append(host(g.points.label[:]).tolist())
            g.points.drop("label")
        return found

    with mock.patch.multiple(module, **DIRECTIONS[direction]):
        for found in everywhere(target, run):
            assert found == [want, want]


@pytest.mark.parametrize("once", [False, True])
def test_more_dense_steps_than_numbers(target, once):
    n = 300
    g = morph.Graph.from_edges(np.arange(n - 1), np.arange(1, n), symmetrize=True, device=target)
    with mock.patch.multiple(module, **DIRECTIONS["pull"]):
        assert levels(g, search, once=once)[:2] == (n, list(range(n)))


def test_a_directed_graph_needs_no_index_of_in_edges(target):
    g = morph.Graph.from_edges([0, 1], [1, 2], device=target)
    assert levels(g, search, once=True)[:2] == (3, [0, 1, 2])
    assert list(g._adjacency._built) == ["out"]


def test_checked(target):
    """The races that edge map has are declared."""
    g = morph.generate.rmat(5, seed=2, device=target)
    for direction in DIRECTIONS.values():
        with morph.checked(), mock.patch.multiple(module, **direction):
            found = [levels(g, search, once=once)[:2] for once in (False, True)]
        assert found[0] == found[1]


@morph.func
def lower_dist(p, t, level):
    return atomic_min(t.dist, level) > level


@morph.func
def is_lower(t, level):
    return t.dist > level


@morph.program
def three_levels(s, now, then, size):
    level = 1
    while level <= 3:
        size = edge_map(s, now, then, size, level)
        now, then = then, now
        level += 1
    return size


@pytest.mark.parametrize("directed", [False, True])
def test_an_empty_frontier_has_no_edges(target, directed):
    """Also where a step that pushes finds none, and the program goes on."""
    for begin, want in (([], [99] * 5), ([0], [0, 1, 99, 99, 99])):
        for program in (three_levels, three_levels.eager):
            g = morph.Graph.from_edges(
                [0, 2], [1, 3], n=5, directed=directed, symmetrize=not directed, device=target
            )
            g.points.add("dist", i64, fill=99)
            if begin:
                g.points.dist[begin] = 0
            lists = [morph.Collection(g.points) for _ in range(2)]
            lists[0].extend(begin)
            s = edge_mapping(g, lower_dist, is_lower)
            assert program(s, *lists, len(begin)) == 0
            assert host(g.points.dist[:]).tolist() == want


@morph.func
def visit_level(p, t, a):
    return atomic_min(t.dist, a.level) > a.level


@morph.program
def one_level(s, now, then, size, level, marks):
    return edge_map(s, now, then, size, Level(level, marks))


def test_mappings_of_one_graph_do_not_share_marks(target):
    """Two searches of one graph, level by level in turns, and a column of the user's beside."""
    g = morph.generate.rmat(7, seed=1, device=target)
    g.points.add("active", u8, fill=1)
    g.points.add("dist", i32)
    marks = morph.Table("marks", target, n=i64)
    marks.extend(len(g.points))

    def run(sources):
        searches = []
        for source in sources:
            lists = [morph.Collection(g.points) for _ in range(2)]
            lists[0].add(source)
            dist = np.full(len(g.points), FAR, np.int32)
            dist[source] = 0
            searches.append([edge_mapping(g, visit_level, is_farther), lists, 1, dist])
        for level in range(1, 6):
            for k, (s, lists, size, dist) in enumerate(searches):
                g.points.dist[:] = dist
                size = one_level(s, *lists, size, i32(level), marks)
                searches[k] = [s, lists[::-1], size, host(g.points.dist[:]).copy()]
        return [dist.tolist() for *_, dist in searches]

    with mock.patch.multiple(module, **DIRECTIONS["pull"]):
        alone = []
        for source in (5, 9):
            alone += run([source])
            gc.collect()
        assert alone[0] != alone[1]
        assert run([5, 9]) == alone
    if target != "python":  # the launches of the interpreter keep their mappings
        assert list(g.points.columns) == ["active", "dist", "active_2", "active_3"]
    assert (host(g.points.active[:]) == 1).all()
    first = edge_mapping(g, visit_level, is_farther)
    again = edge_mapping(g, visit_level, is_lower, state=first.state)
    assert again.marks.column is first.marks.column
    g.points.drop("active_2")
    g.points.add("active_2", i32, fill=7)  # the name is now the user's
    edge_mapping(g, visit_level, is_farther)
    assert (host(g.points.active_2[:]) == 7).all()
