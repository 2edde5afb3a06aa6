"""Sections on several devices and partitioned graphs; functions as sections."""

import threading

import numpy as np
import pytest
from pretend import pretended
from targets import host

import morph
from morph import foreach, kernel, sections
from morph.prelude import i32
from morph.runtime.device import DeviceError


@kernel
def count(p, by):
    found = i32(0)
    for _ in p.outnbrs:
        found += by
    p.x = found


@kernel
def keep(p):
    p.y = p.id


def graph(device, n):
    """A graph of random edges; in parts if ``device`` is a list."""
    rng = np.random.default_rng(n)
    several = isinstance(device, list)
    g = morph.Graph.from_edges(
        *rng.integers(0, n, (2, 4 * n)), n=n, device=device[0] if several else device
    )
    for name in "xy":
        g.points.add(name, i32)
    return morph.partition(g, device) if several else g


def degrees(g):
    return np.bincount(host(g.edges.src[:]), minlength=len(g.points))


def gpu(devices):
    return pytest.param(devices, marks=pytest.mark.gpu, id=str(devices))


EACH = [
    ["cpu", "python", ["cpu", "cpu"], ["python", "cpu", "python"]],
    gpu(["cuda:0", "cpu", "python", ["cpu", "cuda:0"], ["cuda:0", "cuda:0"]]),
    gpu(["cuda:0", "cuda:1", ["cuda:0", "cuda:1"], ["cuda:1", "cuda:0", "cpu"]]),
]


@pytest.fixture(params=["cpu", *EACH], ids=str)
def graphs(request, monkeypatch):
    """Graphs in different places: on those of `EACH`; on the CPU, and on two pretended GPUs."""
    devices = request.param
    if "cuda:1" in devices:
        try:
            morph.device("cuda:1")
        except DeviceError:
            pytest.skip("there is one GPU")
    if devices == "cpu":
        devices = ["cpu", pretended(monkeypatch, 6), pretended(monkeypatch, 7)]
    return [graph(d, 20 + 3 * i) for i, d in enumerate(devices)]


def test_kernels(graphs):
    """Calls on the same device are one step, those on others run at the same time."""
    for by in (1, 2, 3):
        with sections():
            for g in graphs:
                foreach(g.points, count, i32(by))
            for g in graphs:
                foreach(g.points, keep)
        for g in graphs:
            assert (host(g.points.x[:]) == by * degrees(g)).all()
            assert (host(g.points.y[:]) == np.arange(len(g.points))).all()


def search(g, start, rounds=1):
    """A section of several launches, whose result goes back to the host."""
    for by in range(rounds):
        foreach(g.points, count, i32(by + 1))
    return morph.bfs(g, start).distance, host(g.points.x[:])


def test_functions(graphs):
    first, *others = graphs
    with sections() as s:
        foreach(first.points, count, i32(5))
        found = [s.run(search, g, k, rounds=3) for k, g in enumerate(others)]
        with pytest.raises(RuntimeError, match="the section has not run"):
            found[0].result()
    assert (host(first.points.x[:]) == 5 * degrees(first)).all()
    for k, (section, g) in enumerate(zip(found, others, strict=True)):
        distances, x = section.result()
        wanted = morph.bfs(g.to("cpu"), k).distance
        assert (host(distances) == wanted).all() and (x == 3 * degrees(g)).all()


def test_sections_of_gpus_run_at_the_same_time(monkeypatch):
    """Each section waits for the others; a section on the host is in the calling thread."""
    gpus = [graph(pretended(monkeypatch, k), 20) for k in (6, 7)]
    hosts = [graph("cpu", 20)]
    all_run, seen = threading.Barrier(3), []

    def meet(g):
        all_run.wait(60)
        seen.append(threading.current_thread() is threading.main_thread())
        return morph.checked  # a context variable of the caller

    with morph.checked(), sections() as s:
        for g in (*gpus, *hosts):
            s.run(meet, g)
        s.run(lambda: seen.append(morph.launch.foreach.is_checked()))
    assert sorted(seen) == [False, False, True, True]


def fail(g, why):
    foreach(g.points, count, i32(4))
    raise KeyError(why)


def test_errors(graphs):
    """All sections end; one error is raised itself, and of several each with its place."""
    first, second, *others = graphs
    with pytest.raises(KeyError, match="lost") as caught, sections() as s:
        found = s.run(fail, first, "lost")
        foreach(second.points, count, i32(4))
    assert __file__ in caught.value.__notes__[-1]
    with pytest.raises(KeyError, match="lost"):
        found.result()
    assert (host(second.points.x[:]) == 4 * degrees(second)).all()
    with pytest.raises(ExceptionGroup, match=f"2 of {len(graphs)} sections failed") as group:
        with sections() as s:
            s.run(fail, first, "one")
            s.run(fail, second, "two")
            for g in others:
                foreach(g.points, count, i32(7))
    assert [e.args for e in group.value.exceptions] == [("one",), ("two",)]
    for g in others:
        assert (host(g.points.x[:]) == 7 * degrees(g)).all()


def test_nothing_runs_if_the_block_is_wrong(graphs):
    first, second, *_ = graphs

    def unchanged():
        assert not any(host(g.points.x[:]).any() for g in graphs)

    with pytest.raises(morph.LanguageError, match="section 2 writes column 'x'"), sections() as s:
        foreach(first.points, count, i32(1))
        foreach(second.points, count, i32(1))
        foreach(second.points, count, i32(2))
    unchanged()
    for function in (search, len):
        with pytest.raises(ValueError, match="use.*need graphs of their own"), sections() as s:
            foreach(second.points, count, i32(1))
            s.run(search, first, 0)
            found = s.run(function, first.points)
        with pytest.raises(RuntimeError, match="the section has not run"):
            found.result()
    with pytest.raises(KeyError), sections() as s:
        s.run(search, first, 0)
        raise KeyError
    with pytest.raises(TypeError, match="run takes a function"), sections() as s:
        s.run(search(first, 0) and 1)
    first.points.x[:] = 0
    with pytest.raises(TypeError, match="the launch is on"), sections() as s:
        foreach(first.points, count, second)
        foreach(second.points, count, i32(1))
    unchanged()


def test_an_interrupt_waits_for_the_other_sections(monkeypatch):
    g, h = graph(pretended(monkeypatch), 20), graph("cpu", 20)
    began, ended = threading.Event(), []

    def slow(g):
        began.set()
        search(g, 0, rounds=5)
        ended.append(True)

    def interrupt(h):
        assert began.wait(60)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), sections() as s:
        s.run(slow, g)
        s.run(interrupt, h)
    assert ended == [True]
