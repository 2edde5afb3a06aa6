"""Programs and the same functions without their decorator: each algorithm gives one answer."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from targets import host

import morph
from morph.launch.foreach import Program

ALGORITHMS = {  # those that are programs, and what they are given
    "bfs": dict(source=0),
    "sssp": dict(source=0, predecessors=True),
    "connected_components": {},
    "mst": {},
    "pagerank": dict(iterations=30),
    "betweenness": dict(sources=[0, 7, 19]),
    "core_number": {},
}


def graph_on(target):
    rng = np.random.default_rng(3)
    ends = [(rng.zipf(1.7, 180) - 1) % 40, rng.integers(0, 40, 180)]
    chain = [np.r_[ends[0], np.arange(39, 79)], np.r_[ends[1], np.arange(40, 80)]]  # a deep part
    weight = rng.integers(1, 9, len(chain[0]))
    return morph.Graph.from_edges(*chain, weight=weight, n=80, symmetrize=True, device=target)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_programs_run_eagerly_give_the_same(name, target):
    if target == "python":
        pytest.skip("programs always run eagerly there")
    g, run = graph_on(target), getattr(morph, name)
    fused, eager, asked = run(g, **ALGORITHMS[name]), None, []

    def eagerly(program, *args):
        asked.append(program)
        return program.eager(*args)

    with mock.patch.multiple(Program, __call__=eagerly, alone=eagerly):
        eager = run(g, **ALGORITHMS[name])
    assert asked, "it has no program"
    for field, one, other in zip(fused._fields, fused, eager, strict=True):
        one, other = host(one), host(other)
        if field == "predecessor":  # one of several that are right
            assert ((one < 0) == (other < 0)).all()
        elif np.asarray(one).dtype.kind == "f":
            assert np.allclose(one, other, rtol=1e-12, atol=1e-15)
        else:
            assert np.array_equal(one, other), field
