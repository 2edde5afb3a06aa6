"""Launches on parts that fail at any place: later launches give the results of one device."""

import threading
from contextlib import contextmanager, nullcontext
from unittest import mock

import numpy as np
import pytest
from batches import interrupted
from test_parts_programs import FAR, PROGRAMS, small_graph, values
from test_parts_together import OTHERS, single_launches

import morph
from morph.compiler.ir.abi import Status
from morph.data.collection import Collection
from morph.launch import launcher
from morph.launch.scratch import Scratch
from morph.partition import execution, persistent, pool, routes, shared
from morph.prelude import atomic_add, atomic_min, f64, i32
from morph.runtime import threads
from morph.runtime.interpreter import launch as interpreter
from morph.testing import fail_allocation

COLUMNS = {"count": 0, "seen": 0, "least": FAR, "got": 0}

FILES = execution, persistent, pool, routes, shared, threads


@morph.kernel
def send(p, chosen, sums, flag):
    for t in p.outnbrs:
        if atomic_add(t.count, 1) == 0:
            t.seen = 1
            chosen.add(t)
        atomic_min(t.least, i32(p.id))
        atomic_add(t.total, 0.5 * p.id)
    atomic_add(sums.a, p.id)
    if p.id == 20:
        flag.set()


@morph.kernel
def receive(p):
    p.got = 0
    for t in p.outnbrs:
        p.got += t.least + t.count


@morph.program
def twice(g, chosen, sums, flag):
    k = 0
    while k < 2:
        chosen.clear()
        morph.foreach(g.points, send, chosen, sums, flag)
        morph.foreach(g.points, receive)
        k += 1


class Run:
    """The program and its objects on one graph, executed again and again."""

    def __init__(self, g):
        self.g = g
        for name in COLUMNS:
            g.points.add(name, i32)
        g.points.add("total", f64)
        self.objects = morph.Collection(g.points), morph.Scalars(g, a=0), morph.Flag(g)

    def begin(self):
        chosen, sums, flag = self.objects
        for name, value in {**COLUMNS, "total": 0}.items():
            getattr(self.g.points, name)[:] = value
        chosen.clear(), flag.clear()
        sums.a = 0

    def execute(self):
        twice(self.g, *self.objects)

    def results(self):
        self.begin(), self.execute()
        chosen, sums, flag = self.objects
        found = [np.array(getattr(self.g.points, name)[:]).tolist() for name in COLUMNS]
        return [*found, self.g.points.total[:].tolist(), sorted(chosen.items.tolist()), sums.a,
                bool(flag)]  # fmt: skip

    def check_copies(self, parts):
        _, sums, flag = self.objects
        assert len({int(sums.local(k).a) for k in range(parts)}) == 1
        assert len({bool(flag.local(k)) for k in range(parts)}) == 1


@pytest.mark.parametrize(
    "devices, how", [("cpu cpu cpu", "together"), ("cpu cpu cpu", "steps"), ("cpu python", "steps")]
)
def test_wherever_a_launch_is_interrupted(devices, how):
    devices = devices.split()
    wanted = Run(small_graph()).results()
    with single_launches() if how == "steps" else nullcontext():
        run = Run(morph.partition(small_graph(), devices))
        assert run.results() == wanted
        n, step = 1, 1 if how == "together" else 25
        while True:
            run.begin()
            error = (KeyboardInterrupt, MemoryError)[n % 2]
            if not interrupted(run.execute, n, error, FILES, "call"):
                break
            run.check_copies(len(devices))
            assert run.results() == wanted, n
            n += step
    assert n > 5 * step


def test_messages_of_a_launch_that_has_failed_are_dropped():
    wanted, grow, failures = Run(small_graph()).results(), Collection.grow, 0
    for number in range(1, 20):
        run, calls = Run(morph.partition(small_graph(), ["cpu"] * 3)), []

        def refuse(self, *args, number=number, calls=calls):
            calls.append(1)
            if len(calls) == number:
                raise MemoryError
            return grow(self, *args)

        with mock.patch.object(Collection, "grow", refuse), single_launches():
            try:
                run.execute()
            except MemoryError:
                failures += 1
        with single_launches():
            assert run.results() == wanted
    assert failures > 3


@contextmanager
def failing_in_part(k, n):
    """The n-th attempt of part k of a program to allocate fails; gives the parts' memories."""
    made = []

    def make(device):
        made.append(Scratch(device))
        if len(made) == k + 1:
            made[k].status[Status.INJECT] = n
        return made[-1]

    with mock.patch.object(shared, "Scratch", make), mock.patch.object(launcher, "faults", True):
        yield made


@pytest.mark.parametrize("program", [PROGRAMS[1], PROGRAMS[3], OTHERS[0], OTHERS[4], OTHERS[6]])
def test_allocations_that_fail_in_one_part(program):
    g, fired = small_graph(), 0
    wanted = values(program(g.copy()))
    for k in range(3):
        for n in (1, 7):
            with failing_in_part(k, n) as memories:
                found = values(program(morph.partition(g, ["cpu"] * 3)))
            fired += int(memories[k].status[Status.INJECT]) <= 0
            assert all(map(np.array_equal, found, wanted))
            with fail_allocation(n), single_launches():
                found = values(program(morph.partition(g, ["cpu"] * 3)))
            assert all(map(np.array_equal, found, wanted))
    assert fired > 3


@pytest.mark.parametrize("how", ["together", "steps"])
def test_a_signal_handler_does_not_launch_within_a_launch(how, monkeypatch):
    run = Run(morph.partition(small_graph(), ["cpu"] * 3))
    wanted, refused = Run(small_graph()).results(), []
    class_, name = {
        "together": (persistent.PersistentProgram, "_execute"),
        "steps": (execution.PartitionedLaunch, "_deliver"),
    }[how]  # fmt: skip
    real = getattr(class_, name)

    def with_handler(self, *args):
        with pytest.raises(RuntimeError, match="that interrupts a launch cannot launch"):
            morph.foreach(run.g.points, receive)
        refused.append(1)
        return real(self, *args)

    with single_launches() if how == "steps" else nullcontext():
        monkeypatch.setattr(class_, name, with_handler)
        assert run.results() == wanted and refused


def test_an_interrupted_launch_with_a_flag_on_the_interpreter(monkeypatch):
    def interrupt(self, *args):
        raise KeyboardInterrupt

    run = Run(small_graph().to("python"))
    monkeypatch.setattr(interpreter.Interpreter, "batch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        morph.foreach(run.g.points, send, *run.objects)


def test_calls_in_other_threads():
    calls, gate = [], threading.Event()
    for _ in range(3):
        threads.start(calls, gate.wait)  # each has a thread of its own at once
    threads.start(calls, int, "x")
    calls[3].wait()
    assert isinstance(calls[3].error, ValueError) and not calls[0].ended
    late = threads.Call(gate.set)
    assert late.cancel() and not late.cancel()
    late.run()
    assert not gate.is_set() and late.ended
    gate.set()
    for call in calls:
        call.wait()
        assert not call.cancel()
