"""Properties of every algorithm of the registry, on every target, and of every file format."""

from __future__ import annotations

import re

import numpy as np
import pytest
from graphs import CASES, check, edge_lists, graph_of, main_field, solve
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended
from targets import everywhere, host, tries

import morph
from morph import io, testing, validate
from morph.algorithms.registry import ROWS
from morph.cli.graphs import command_of
from morph.io.formats import ROWS as FILES
from morph.io.graph.formats import ROWS as GRAPHS
from morph.prelude import i32


def test_functions_and_checkers_are_public():
    for row in ROWS:
        name = row.public_name
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
        g = row.suited(graph_of((n, *edges[1:]), target, directed=directed))
        for found in everywhere(target, lambda: solve(row, g, **options)):
            check(row, g, found, **options)
        wrong = main_field(row, found).copy()
        if len(wrong):
            wrong[-1] = ~wrong[-1] if wrong.dtype == bool else -5
            with pytest.raises(validate.WrongAnswer):
                check(row, g, found._replace(**{row.main: wrong}), **options)

    run()


def test_checkers_take_results_of_a_gpu(monkeypatch):
    """CuPy's arrays are no arguments of NumPy's functions."""
    device = pretended(monkeypatch)
    edges = 7, *(np.array(x) for x in ([0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3], [1] * 6))
    for row, options in CASES:
        g = row.suited(graph_of(edges, device, directed=False))
        check(row, g, solve(row, g, **options), **options)


def test_sources_of_checkers_may_lie_on_a_gpu(monkeypatch):
    g = morph.generate.grid(3, 3, device=pretended(monkeypatch))
    g.edges.add("weight", i32, fill=1)
    sources = g.device.asarray([0, 4])
    for name in ("bfs", "sssp"):
        found = getattr(morph, name)(g, sources, rows=True)
        getattr(validate, name)(g, found.distance, source=sources, rows=True)
    found = morph.johnson(g, sources)
    validate.johnson(g, found.distance, sources=sources)
    found = morph.densest_subgraph(g)
    validate.densest_subgraph(g, found.points, found.density)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_graph_is_left_as_it_was(target, row):
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=np.array([1, 2]), device=target)
    g.points.add("label", i32, fill=7)
    before = [(name, list(t.columns)) for name, t in g.tables.items()]
    solve(row, g)
    assert [(name, list(t.columns)) for name, t in g.tables.items()] == before
    assert host(g.points.label).tolist() == [7] * 3


@pytest.mark.parametrize("row, options", CASES)
def test_an_earlier_call_changes_nothing(row, options):
    rng = np.random.default_rng(8)
    edges = 40, *rng.integers(0, 40, (2, 70)), rng.integers(1, 9, 70)

    def graph():
        return row.suited(graph_of(edges, "cpu", directed=False))

    g = graph()
    with testing.team(1):
        solve(row, g, **options)
        later, first = (main_field(row, solve(row, x, **options)) for x in (g, graph()))
    assert np.array_equal(later, first)


def test_formats_name_public_functions():
    assert len({row.name for row in FILES}) == len(FILES)
    for row in FILES:
        for name in re.findall(r"`(\w+)", row.reader + row.writer):
            assert name in io.__all__, row.name


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("row", GRAPHS, ids=lambda row: row.name)
def test_graph_formats_by_every_suffix_and_by_name(tmp_path, row, packed):
    ends = np.array([0, 1, 1, 2]), np.array([1, 0, 2, 1])  # both arcs, in order
    edges = io.EdgeArrays(*ends, np.array([3, 3, 4, 4], np.int32), 3)
    first = [r for r in GRAPHS if row.suffixes[0] in r.suffixes]
    assert first[0] is row  # the format that is written
    names = [(f"g{s}{packed}", row.name if s == ".gr" else None) for s in row.suffixes]
    for name, form in [*names, (f"g{packed}", row.name)]:
        io.write_graph(edges, tmp_path / name, form)
        again = io.read_edges(tmp_path / name, form)
        assert np.array_equal([again.src, again.dst, again.weight], [*ends, edges.weight]), name


def test_a_suffix_of_two_formats_is_resolved_by_the_content(tmp_path):
    shared = [
        r for r in GRAPHS if any(s in q.suffixes for q in GRAPHS if q is not r for s in r.suffixes)
    ]
    assert [r.name for r in shared] == ["dimacs", "galois"]
    assert sum(r.begins is None for r in shared) == 1
    edges = io.EdgeArrays(np.array([0]), np.array([1]), np.array([3], np.int32), 2)
    for r in shared:
        io.write_graph(edges, tmp_path / "g.gr", r.name)
        assert io.read_edges(tmp_path / "g.gr").weight.tolist() == [3]
