"""Programs and the same functions without their decorator: each algorithm gives one answer."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from unittest import mock

import numpy as np
import pytest
from targets import host

import morph
from morph.kernel import Program

ALGORITHMS = {  # those that are programs, and what they are given
    "bfs": dict(source=0),
    "sssp": dict(source=0, predecessors=True),
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


def programs():
    """The programs of the package's algorithms, by module and name."""
    for module, names in list(sys.modules.items()):
        if module.startswith("morph.algorithms."):
            for name, what in list(vars(names).items()):
                if isinstance(what, Program):
                    yield names, name, what


@pytest.mark.parametrize("name", ALGORITHMS)
def test_programs_run_eagerly_give_the_same(name, target):
    if target == "python":
        pytest.skip("programs always run eagerly there")
    g, run = graph_on(target), getattr(morph, name)
    fused, eager, asked = run(g, **ALGORITHMS[name]), None, []

    def counted(program):
        def call(*args):
            asked.append(program)
            return program.eager(*args)

        return call

    with ExitStack() as stack:
        for module, spelled, program in programs():
            stack.enter_context(mock.patch.object(module, spelled, counted(program)))
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


def test_all_of_these_are_programs():
    found = {module.__name__.rpartition(".")[2] for module, _, _ in programs()}
    assert found >= {*ALGORITHMS, "cores"} - {"core_number"}
