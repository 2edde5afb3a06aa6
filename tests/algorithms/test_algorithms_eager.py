"""Programs and the same functions without their decorator give equal results."""

from __future__ import annotations

import sys
from unittest import mock

import numpy as np
import pytest
from every_unit import launched
from targets import host

import morph
from morph import generate
from morph.algorithms.graph import betweenness
from morph.algorithms.registry import ROWS
from morph.launch.foreach import Program


def has_program(row):
    module = sys.modules[row.function.__module__]
    return any(isinstance(x, Program) for x in launched(vars(module)).values())


PROGRAMS = [row for row in ROWS if has_program(row)]


def graph_on(target):
    rng = np.random.default_rng(3)
    ends = [(rng.zipf(1.7, 180) - 1) % 40, rng.integers(0, 40, 180)]
    chain = [np.r_[ends[0], np.arange(39, 79)], np.r_[ends[1], np.arange(40, 80)]]  # a deep part
    weight = rng.integers(1, 9, len(chain[0]))
    return morph.Graph.from_edges(*chain, weight=weight, n=80, symmetrize=True, device=target)


def test_which_are_programs():
    assert {row.name for row in ROWS} - {row.name for row in PROGRAMS} == {
        "edge-betweenness",
        "johnson",
        "max-clique",
        "max-k-plex",
    }


@pytest.mark.parametrize("row", PROGRAMS, ids=lambda row: row.name)
def test_programs_run_eagerly_give_the_same(row, target, monkeypatch):
    if target == "python":
        pytest.skip("programs always run eagerly there")

    def graph():
        g = generate.grid(9, 8, device=target) if row.name == "triangles" else graph_on(target)
        return row.suited(g)

    # programs search from several sources only where there are more threads than sources
    monkeypatch.setattr(betweenness, "sources_at_once", lambda *_: 0)
    arguments = {**row.arguments_of({}), **row.complete}
    arguments |= row.benchmarks[0].arguments  # which end after so many iterations
    again = graph()  # the first one keeps its launches
    fused, eager, asked = row.function(graph(), **arguments), None, []

    def eagerly(program, *args):
        asked.append(program)
        return program.eager(*args)

    with mock.patch.multiple(Program, __call__=eagerly, alone=eagerly):
        eager = row.function(again, **arguments)
    assert asked, "it has no program"
    for field, one, other in zip(fused._fields, fused, eager, strict=True):
        one, other = host(one), host(other)
        if field == "predecessor":  # one of several that are right
            assert ((one < 0) == (other < 0)).all()
        elif np.asarray(one).dtype.kind == "f":
            assert np.allclose(one, other, rtol=1e-12, atol=1e-15)
        else:
            assert np.array_equal(one, other), field
