"""What every algorithm of the registry keeps to, on every target."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import CASES, check, edge_lists, graph_of, main_field, solve
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, tries

import morph
from morph import validate
from morph.algorithms.registry import ROWS
from morph.cli.graphs import command_of
from morph.prelude import i32


def test_functions_and_checkers_are_public():
    for row in ROWS:
        name = row.function.__name__
        assert getattr(morph, name) is row.function and name in morph.__all__
        assert name in validate.__all__


def test_options_are_those_of_the_command():
    for row in ROWS:
        names = {p.name for p in command_of(row.name).params}
        assert names >= {o.name for o in row.options} and all(names >= {*e} for e in row.examples)


@pytest.mark.parametrize("row, options", CASES)
def test_checkers_accept_answers_and_refuse_others(target, row, options):
    @tries(5)
    @given(edge_lists(most=12), st.booleans())
    def run(edges, directed):
        n = max(edges[0], 7)  # the examples name these vertices
        g = graph_of((n, *edges[1:]), target, directed=directed)
        for found in everywhere(target, lambda: solve(row, g, **options)):
            check(row, g, found, **options)
        wrong = main_field(row, found).copy()
        if len(wrong):
            wrong[-1] = -5
            with pytest.raises(validate.WrongAnswer):
                check(row, g, found._replace(**{row.main: wrong}), **options)

    run()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_graph_is_left_as_it_was(target, row):
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=np.array([1, 2]), device=target)
    g.points.add("label", i32, fill=7)
    before = [(name, list(t.columns)) for name, t in g.tables.items()]
    solve(row, g)
    assert [(name, list(t.columns)) for name, t in g.tables.items()] == before
    assert host(g.points.label).tolist() == [7] * 3
