"""Results that are copied behind the last program, before the host waits for it."""

import numpy as np
import pytest
from pretend import pretended

import morph
from morph.algorithms.graph.arguments import early_results
from morph.launch.behind import behind
from morph.prelude import i32


@morph.kernel
def add_all(p, found):
    p.x = p.x + 1
    found.add(p)
    found.add(p)


@morph.kernel
def add_one(p):
    p.x = p.x + 1


@morph.program
def twice(g, found):
    morph.foreach(g.points, add_all, found)
    return len(found)


def graph(device):
    g = morph.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], device=device)
    g.points.add("x", i32)
    return g


def test_copies_follow_the_repeated_launch(monkeypatch):
    """A full collection grows, and what was copied behind the first launch is copied again."""
    g = graph(pretended(monkeypatch))
    found, calls = morph.Collection(g.points), []
    with early_results(g, "x") as copied:
        copy = behind.enqueue
        behind.enqueue = lambda: (calls.append(1), copy())
        assert twice(g, found) == 8
    assert len(calls) == 2 and behind.enqueue is None
    (x,) = copied.arrays()
    assert x.get().tolist() == [1] * 4
    assert x is copied.arrays()[0]


def test_copies_follow_a_program_that_runs_by_steps(monkeypatch):
    """Its last kernel cannot fail, and so is not waited for."""
    g = graph(pretended(monkeypatch))
    with early_results(g, "x") as copied:
        twice.eager(g, morph.Collection(g.points, capacity=8))
        morph.foreach(g.points, add_one)
    (x,) = copied.arrays()
    assert x.get().tolist() == [2] * 4


def test_no_copies_on_the_host():
    """A launch on a CPU has ended when the call returns, and its copies would be made twice."""
    g = graph("cpu")
    with early_results(g, "x") as copied:
        assert behind.enqueue is None
        twice(g, morph.Collection(g.points))
    assert copied.arrays()[0].tolist() == [1] * 4


def test_nothing_stays_behind_after_an_error(monkeypatch):
    g = graph(pretended(monkeypatch))
    with pytest.raises(ZeroDivisionError), early_results(g, "x"):
        raise ZeroDivisionError
    assert behind.enqueue is None


@pytest.mark.parametrize("name", ["bfs", "sssp", "connected_components", "pagerank"])
def test_algorithms(monkeypatch, name):
    """The first call and later ones, whose lists have grown, return what the CPU returns."""
    edges = morph.generate.rmat(8, weight=(1, 9), device="cpu").csr()
    made = [
        morph.Graph.from_csr(*edges, symmetric=True, device=d)
        for d in ("cpu", pretended(monkeypatch))
    ]
    for _ in range(3):
        wanted, found = (getattr(morph, name)(g) for g in made)
        found = found[0].get()
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, wanted[0], rtol=1e-12)
        else:
            assert found.tolist() == wanted[0].tolist()
