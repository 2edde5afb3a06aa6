"""Paths of shortest-path trees."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from graphs import edge_lists, graph_of, lightest
from hypothesis import given
from hypothesis import strategies as st
from targets import host, tries

import morph
from morph import validate


@tries(8)
@given(edge_lists(), st.integers(0, 23), st.sampled_from(["i4", "f8"]), st.booleans())
def test_every_vertex(target, edges, source, dtype, rows):
    n, source = edges[0], source % edges[0]
    g = graph_of(edges, target, dtype)
    near = nx.descendants(lightest(edges), source) | {source}
    ids, row = ([0, source], 1) if rows else (source, None)
    levels = morph.bfs(g, ids, rows=rows)
    for found in (levels, morph.sssp(g, ids, rows=rows, predecessors=True)):
        distance = host(found.distance)[row] if rows else host(found.distance)
        for v in range(n):
            if v not in near:
                with pytest.raises(ValueError, match=f"no path leads to vertex {v}"):
                    morph.path(g, found, v, row=row)
                continue
            path = morph.path(g, found, v, row=row)
            assert host(path.vertices)[[0, -1]].tolist() == [source, v]
            validate.path(g, *path, None if found is levels else distance[v])
            assert found is not levels or len(path.edges) == distance[v]


def test_what_is_no_path(target):
    g = morph.Graph.from_edges([0, 0, 1], [1, 1, 2], weight=[4, 3, 1], n=4, device=target)
    found = morph.sssp(g, predecessors=True)
    path = morph.path(g, found, 2)
    assert host(path.vertices).tolist() == [0, 1, 2] and host(path.edges).tolist() == [1, 2]
    for edges, message in (
        ([0, 2], "has the length 5, not 4"),
        ([1, 1], "edge 1 does not lead from 1 to 2"),
        ([1, 3], "edge 3 does not exist"),
        ([1], r"edges has shape \(1,\), vertices \(3,\)"),
    ):
        with pytest.raises(validate.WrongAnswer, match=message):
            validate.path(g, path.vertices, np.array(edges), 4)
    for graph, what, v, row, error, message in (
        (g, found, 3, None, ValueError, "no path leads to vertex 3"),
        (g, found, 4, None, ValueError, "target 4 is not a vertex"),
        (g, found, 1.5, None, TypeError, "target is an integer, not 1.5"),
        (g, morph.sssp(g), 1, None, ValueError, "the result has no predecessors"),
        (g, morph.bfs(g, [0], rows=True), 1, None, ValueError, r"shape \(1, 4\), not \(4,\)"),
        (morph.partition(g, ["cpu"] * 2), found, 1, None, TypeError, "not a partitioned graph"),
    ):
        if target == "cpu" or not isinstance(graph, morph.PartitionedGraph):
            with pytest.raises(error, match=message):
                morph.path(graph, what, v, row=row)
    several = morph.bfs(g, [0, 1], rows=True)
    for row in (2, -1):
        with pytest.raises(ValueError, match=f"row = {row} of predecessors with shape"):
            morph.path(g, several, 1, row=row)
    with pytest.raises(TypeError, match="row is an integer, not '0'"):
        morph.path(g, several, 1, row="0")
    for parents, v, message in (
        ([-1, 99_999_999, 1, -1], 2, "predecessor 99999999: the graph has 4 points"),
        ([-1, 2, 1, -1], 1, "the predecessors of vertex 1 form a cycle"),
        ([-1, 0, 0, -1], 2, "no edge leads from 0 to 2"),
    ):
        wrong = found._replace(predecessor=g.device.asarray(np.array(parents, np.int32)))
        with pytest.raises(ValueError, match=message):
            morph.path(g, wrong, v)
