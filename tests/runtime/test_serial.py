"""Quick libraries for a single thread, and those for teams that take their launches over."""

from __future__ import annotations

import numpy as np
import pytest

import morph
from morph.launch import ahead, common_units, records
from morph.prelude import atomic_add, atomic_min, i32
from morph.runtime.toolchain import CompileError, cpu, parallel, tiers

N = 3000


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache, quick libraries, and four threads; returns the flags of compilations."""
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path))
    monkeypatch.setenv(tiers.VARIABLE, "quick")
    monkeypatch.setattr(tiers, "large", False)
    seen = []
    compile_text = cpu._compile

    def spy(using, flags, text, *more):
        if "Args" in text:
            seen.append(cpu.SERIAL in flags)
        return compile_text(using, flags, text, *more)

    monkeypatch.setattr(cpu, "_compile", spy)
    before = morph.get_num_threads()
    morph.set_num_threads(4)
    yield seen
    morph.set_num_threads(before)


def path_graph(n):
    g = morph.Graph.from_edges(np.arange(n - 1), np.arange(1, n), n=n, device="cpu")
    g.points.add("dist", i32, fill=n)
    g.points[0].dist = 0
    return g


def fresh():
    """Return a kernel and a program that no test has compiled."""

    @morph.kernel
    def count(p, g):
        atomic_add(p.dist, 1)

    @morph.kernel
    def relax(p, g, following):
        for t in p.outnbrs:
            if atomic_min(t.dist, p.dist + 1) > p.dist + 1:
                following.add(t)

    @morph.program
    def search(g, current, following):
        rounds = 0
        while not current.empty:
            morph.foreach(current, relax, g, following)
            current, following = following, current
            following.clear()
            rounds += 1
        return rounds

    return count, search


def run(search, n):
    g = path_graph(n)
    current, following = morph.Collection(g.points), morph.Collection(g.points)
    current.add(g.points[0])
    assert search(g, current, following) == n
    assert g.points.dist[:].tolist() == list(range(n))


def test_small_launches_need_one_thread(folder):
    count, search = fresh()
    g = path_graph(100)
    for _ in range(3):
        morph.foreach(g.points, count, g)
    assert g.points.dist[:].tolist() == [3, *[103] * 99]
    run(search, 100)
    assert folder == [True, True]


@pytest.mark.parametrize("least", [1, 20])
def test_a_team_takes_over(folder, monkeypatch, least):
    """At the begin of a foreach, and between the steps of a program."""
    monkeypatch.setattr(cpu, "SERIAL", f"-DMORPH_SERIAL={least}")
    count, search = fresh()
    g = path_graph(N)
    for _ in range(3):
        morph.foreach(g.points, count, g)
    assert g.points.dist[:].tolist() == [3, *[N + 3] * (N - 1)]
    monkeypatch.setattr(tiers, "large", False)
    run(search, N)
    run(search, N)
    assert folder == [True, False, True, False]


@pytest.mark.parametrize("least", [1, 20])
def test_launches_go_on_without_a_binary_for_teams(folder, monkeypatch, least):
    """One thread runs the rest, also of later launches, if g++ cannot compile for teams."""
    monkeypatch.setattr(cpu, "SERIAL", f"-DMORPH_SERIAL={least}")
    compile_text, failures = cpu._compile, []

    def fail(using, flags, text, *more):
        if "Args" in text and cpu.SERIAL not in flags:
            failures.append(text)
            raise CompileError("no space left")
        return compile_text(using, flags, text, *more)

    monkeypatch.setattr(cpu, "_compile", fail)
    count, search = fresh()
    g = path_graph(N)
    for _ in range(3):
        morph.foreach(g.points, count, g)
    assert g.points.dist[:].tolist() == [3, *[N + 3] * (N - 1)]
    assert failures
    failures.clear()
    monkeypatch.setattr(tiers, "large", False)
    run(search, N)
    assert failures
    run(search, N)


def test_later_units_are_for_teams(folder, monkeypatch):
    """As soon as one had much work."""
    monkeypatch.setattr(cpu, "SERIAL", "-DMORPH_SERIAL=1")
    (count, _), (other, _) = fresh(), fresh()
    morph.foreach(path_graph(N).points, count, path_graph(N))
    assert folder == [True, False] and tiers.large
    morph.foreach(path_graph(9).points, other, path_graph(9), where=lambda p: p.dist > 0)
    assert folder == [True, False, False]


@pytest.mark.parametrize(
    ("large", "cores", "serial"), [(100, 3, False), (100, 2, True), (10**4, 3, True)]
)
def test_units_of_large_graphs_are_compiled_for_teams(folder, monkeypatch, large, cores, serial):
    """When the call begins."""
    monkeypatch.setattr(common_units, "LARGE", large)
    monkeypatch.setattr(parallel, "cores", lambda: cores)
    monkeypatch.setattr(parallel, "start", lambda job: job())
    monkeypatch.setattr(ahead, "_begun", set())
    monkeypatch.setattr(records, "enabled", True)
    g = morph.Graph.from_edges(np.arange(N - 1), np.arange(1, N), device="cpu")
    ahead.compile_ahead("bfs", g.device, g)
    assert folder == [serial]
