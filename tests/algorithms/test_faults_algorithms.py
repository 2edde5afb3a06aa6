"""With the n-th allocation refused, for every n, graph algorithms give the same result."""

from __future__ import annotations

import os
from unittest import mock

import numpy as np
import pytest
from graphs import main_field, solve
from limits import stride
from targets import alone, host

import morph
from morph.algorithms.graph import betweenness, sssp
from morph.algorithms.registry import ROWS
from morph.testing import fail_allocation, team

RNG = np.random.default_rng(8)
N = 12
ENDS = RNG.integers(0, N, (20, 2)).T
WEIGHT = RNG.integers(0, 9, 20)


def dense(g):
    """As on a graph of many edges a point."""
    with mock.patch.object(sssp, "DENSE", 0):
        return morph.sssp(g).distance, morph.sssp(g, 3).distance


def runs(row):
    """All examples of a row."""
    return lambda g: [
        main_field(row, solve(row, row.suited(g), **options)) for options in row.examples
    ]


def together(g):
    """As with more threads than sources."""
    with mock.patch.object(betweenness, "sources_at_once", lambda *_: 0):
        return morph.betweenness(g).centrality, morph.betweenness(g, [3, 5]).centrality


RUNS = {
    **{row.name: runs(row) for row in ROWS},
    "sssp, dense": dense,
    "sssp, predecessors": lambda g: (morph.sssp(g, predecessors=True).distance,),
    "betweenness, together": together,
    "k_core": lambda g: (morph.k_core(g, 2).points,),
}
# allocations
LEAST = {"bfs": 3, "sssp": 5, "sssp, dense": 5, "core": 5, "betweenness, together": 5}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("directed", [True, False])
def test_every_failure_is_mended(target, name, directed):
    if os.environ.get("CI") and name not in LEAST and directed == (target == "python"):
        pytest.skip("one direction for each target, and both for lists of both directions")
    g = morph.Graph.from_edges(*ENDS, weight=WEIGHT, n=N, symmetrize=not directed, device=target)
    with alone():
        want = [host(a) for a in RUNS[name](g)]
    n, fired = 0, True
    while fired:
        n += 1 + n // stride(target)  # the first allocations one by one
        g.kept.clear()  # lists, which grow when they are said to be full
        with team(2), fail_allocation(n, target) as fault:
            got = [host(a) for a in RUNS[name](g)]
        for a, b in zip(got, want, strict=True):
            exact = a.dtype.kind != "f"
            assert np.array_equal(a, b) if exact else np.allclose(a, b, 1e-11, 1e-12, True)
        fired = fault.fired
    marked = name == "bfs" and not directed  # its dense frontiers allocate nothing
    assert n > (0 if marked else LEAST.get(name, 0))
