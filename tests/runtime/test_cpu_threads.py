"""CPU threads: the number that a launch uses, and its cost while other processes use the cores."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import morph
from morph.launch import jobs, launcher
from morph.launch import scratch as shared
from morph.launch.scratch import scratch
from morph.partition import pool
from morph.partition.group import DeviceGroup
from morph.prelude import atomic_add, f64, i64, single
from morph.runtime import threads
from morph.runtime.device import device
from morph.testing import team


@morph.kernel
def step(r):
    r.x += 1


@morph.program
def count(t, most):
    n = 0
    while n < most:
        morph.foreach(t, step)
        n += 1
    return n


@pytest.fixture(autouse=True)
def default_threads():
    yield
    morph.set_num_threads(None)


def made(n: int) -> morph.Table:
    t = morph.Table("t", "cpu", x=i64)
    t.extend(n)
    return t


@pytest.mark.parametrize("n", [1, 2, 3, 256, np.int32(2)])
def test_threads_are_set(n):
    morph.set_num_threads(n)
    assert morph.get_num_threads() == n
    t = made(100_000)
    count(t, 20)
    morph.foreach(t, step)
    assert (t.x[:] == 21).all()


@pytest.mark.parametrize("n", [0, -1, 257, 10**30])
def test_a_number_out_of_range_is_refused(n):
    before = morph.get_num_threads()
    with pytest.raises(ValueError, match=r"set_num_threads\(n\): n is 1 to 256, not "):
        morph.set_num_threads(n)
    assert morph.get_num_threads() == before


@pytest.mark.parametrize("n", [1.0, "2", True, [1]])
def test_what_is_no_number_is_refused(n):
    with pytest.raises(TypeError, match="n is a whole number or None, not "):
        morph.set_num_threads(n)


def test_the_default_is_the_environments_then_the_cores(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    morph.set_num_threads(None)
    assert morph.get_num_threads() == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    morph.set_num_threads(None)
    assert morph.get_num_threads() == threads._cores()
    monkeypatch.setenv("OMP_NUM_THREADS", "100000")
    morph.set_num_threads(None)
    assert morph.get_num_threads() == 256


def test_a_known_launch_follows_the_number_of_threads():
    t = made(100_000)
    for n in (1, 4, 2, 1, 3):
        morph.set_num_threads(n)
        count(t, 10)
    assert (t.x[:] == 50).all()


def workers() -> int:
    """How many threads this process has."""
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="Linux counts threads there")
def test_one_pool_serves_all_units_and_sleeps():
    """Threads are made once for all kernels; idle, they take no time."""
    morph.set_num_threads(4)

    @morph.kernel
    def other(r):
        r.x -= 1

    with team(4):
        t = made(1000)
        count(t, 5)
        before = workers()
        for _ in range(5):
            morph.foreach(t, other)
        assert workers() == before
    time.sleep(0.1)
    used = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - used < 0.1


def _work(send):
    t = made(50_000)
    morph.set_num_threads(2)
    with team(2):
        count(t, 3)
    send.send((t.x[:] == 3).all())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own():
    with team(2):
        count(made(50_000), 3)
    receive, send = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=_work, args=(send,))
    child.start()
    answered = receive.poll(60)
    if not answered:
        child.kill()
    child.join()
    assert answered and receive.recv()


@morph.kernel
def claim_one(p, g, won, work):
    own = g.points.local(1)
    own.add(p)
    x = p.id
    for _ in range(work):
        x = x * 1664525 + 1013904223
    if single(own):
        won.new(x=x)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_claims_of_a_process_that_is_forked_during_claims():
    """No item counts as taken by a thread that the child does not have."""
    with team(2):
        objects = []
        for _ in range(2):
            g = morph.Graph("cpu")
            g.points.extend(20_000)
            objects.append((g, morph.Table("won", "cpu", x=i64)))
            morph.foreach(g.points, claim_one, *objects[-1], 1)
        (g, won), (h, other) = objects
        many = threading.Thread(target=lambda: morph.foreach(g.points, claim_one, g, won, 20_000))
        many.start()
        for _ in range(3):
            time.sleep(0.03)
            if not (child := os.fork()):
                signal.alarm(60)
                morph.foreach(h.points, claim_one, h, other, 1)
                os._exit(len(other) != 40_000)
            assert os.waitpid(child, 0)[1] == 0
        many.join()
    assert len(won) == 40_000


def has_pool() -> bool:
    """Whether the process has a pool: kernels/target_cpu.h says where its address stands."""
    return bool(scratch(device("cpu")).barrier[16:18].any())


def test_threads_of_the_host_share_the_pool():
    tables = [made(30_000) for _ in range(3)]
    with team(3):
        threads = [threading.Thread(target=count, args=(t, 20)) for t in tables]
        for x in threads:
            x.start()
        for x in threads:
            x.join()
        assert has_pool()
    assert all((t.x[:] == 20).all() for t in tables)


def test_threads_under_a_limit_are_available_again_when_it_ends():
    morph.set_num_threads(4)
    with team(4):
        count(made(1000), 3)  # the pool exists
    address = int(scratch(device("cpu")).barrier[16:18].view(np.uint64)[0])
    limit = shared._Limit.from_address(address + 63 & ~63)
    limit.limit, limit.limited_until = 2, time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 10**10
    assert shared.available_threads() == 2
    morph.set_num_threads(1)
    assert shared.available_threads() == 1
    morph.set_num_threads(4)
    limit.limited_until = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - 1
    assert shared.available_threads() == 4
    t = made(2**16)  # a team is compiled for so many
    count(t, 20)
    assert (t.x[:] == 20).all() and limit.limit != 2


@pytest.mark.unchecked  # a checked launch prepares twice
def test_a_launch_has_one_number_of_threads(monkeypatch):
    """Another thread of the host may set the number while a launch begins."""
    t = made(100)
    morph.foreach(t, step)
    numbers, prepared = iter([9] + [1] * 100), []
    monkeypatch.setattr(launcher, "get_num_threads", lambda: next(numbers))
    allocate = type(scratch(device("cpu"))).allocate
    monkeypatch.setattr(
        type(scratch(device("cpu"))), "allocate",
        lambda s, items, edges, n: (prepared.append(n), allocate(s, items, edges, n)),
    )  # fmt: skip
    morph.foreach(t, step)
    assert prepared == [9]


def test_the_number_may_be_set_back_while_it_is_read(monkeypatch):
    morph.set_num_threads(3)

    class Reset(dict):
        def get(self, *_):
            morph.set_num_threads(None)
            return "2"

    morph.set_num_threads(None)
    monkeypatch.setattr(threads.os, "environ", Reset())
    assert morph.get_num_threads() == 2


@morph.kernel
def tickets(r, t):
    before = atomic_add(t[0].x, 1)  # race: the first item's own write, below, may come before
    r.x = before  # race: likewise


@morph.kernel
def float_sums(r, t):
    atomic_add(t[0].y, 1.0)


@morph.kernel
def sums(r, t):
    atomic_add(t[0].x, 1)


@morph.kernel
def scattered_float_sums(r, t):
    atomic_add(t[r.x].y, 1.0)


@pytest.mark.parametrize(
    ("kernel", "slow"),
    [(tickets, True), (scattered_float_sums, True), (float_sums, False), (sums, False)],
)
def test_small_teams_run_no_steps_that_are_far_slower_for_them(kernel, slow):
    t = morph.Table("t", "cpu", x=i64, y=f64)
    t.extend(10)
    morph.foreach(t, kernel, t)
    assert f"FETCH_ADDS = {str(slow).lower()};" in kernel.source("cpu")


@pytest.mark.parametrize("parts", [0, 1, 2, 7, 1000])
def test_threads_of_the_host_divide_parts(parts, monkeypatch):
    monkeypatch.setattr(threads, "get_num_threads", lambda: 4)
    monkeypatch.setattr(threads, "_free_cores", lambda: 3)
    done, names = np.zeros(parts, int), set()

    def work(first, end):
        done[first:end] += 1
        names.add(threading.current_thread().name)

    threads.in_threads(work, parts)
    assert (done == 1).all() and 1 <= len(names) <= 3
    calls = []
    threads.in_threads(lambda *of: calls.append(of), parts, reads_all=True)
    assert len(calls) <= 3 and sum(end - first for first, end in calls) == parts


@pytest.mark.parametrize("n", [1, 100_000, 1_000_003])  # the others are written by several threads
def test_arrays_are_written(n):
    """An array with gaps between its rows gets the values of another, of a row, and a number."""
    memory = np.full((n, 8), -9, np.int32)
    array, values = memory[:, 2:5], np.random.default_rng(n).integers(0, 99, (n, 3))
    for given in (values, values[:, ::-1].astype(np.int16), values[:1], values[0], 7):
        device("cpu").write(array, given)
        assert (array == given).all()
        assert (memory[:, [0, 1, 5, 6, 7]] == -9).all()
    with pytest.raises(ValueError, match="broadcast"):
        device("cpu").write(array, np.zeros((n + 1, 3), np.int32))


@pytest.mark.parametrize("n", [10, 2_000_000])
def test_arrays_are_written_with_their_own_values(n):
    t, values = made(n), np.arange(n)
    t.x[:] = values
    t.x[:] = t.x[:][::-1]
    assert (t.x[:] == values[::-1]).all()
    t.x[1:] = t.x[:-1]
    assert (t.x[1:] == values[:0:-1]).all() and t.x[0] == n - 1
    t.x[:] = values[None]
    assert (t.x[:] == values).all()


@pytest.mark.parametrize("n", [1, 40_000, 1_200_000])  # the last are reduced by several threads
def test_extremes(n):
    values = np.random.default_rng(n).standard_normal((n, 2))
    whole = (values[:, 0] * 1e6).astype(np.int32)
    expected = [(x.min(), x.max()) for x in (values[:, 1], whole)]
    assert device("cpu").extremes(values[:, 1], whole) == expected
    values[n // 2, 1] = np.nan
    assert np.isnan(device("cpu").extremes(values[:, 1])).all()
    assert device("cpu").extremes(np.array(3)) == [(3, 3)]
    with pytest.raises(ValueError, match="zero-size"):
        device("cpu").extremes(whole[:0])


def test_errors_in_threads_of_the_host(monkeypatch):
    """An error is raised when no thread works any more."""
    monkeypatch.setattr(threads, "get_num_threads", lambda: 2)
    monkeypatch.setattr(threads, "_free_cores", lambda: 2)
    both, working = threading.Barrier(2), []

    def work(first, end):
        if not first:
            both.wait()
            raise KeyError(first)
        if first == 1:
            both.wait()
            working.append(first)
            time.sleep(0.02)
            working.pop()

    with pytest.raises(KeyError):
        threads.in_threads(work, 9)
    assert not working


def test_threads_end_before_the_error_of_a_start_is_raised(monkeypatch):
    """The second thread cannot start while the first one works: no part is processed afterwards."""
    monkeypatch.setattr(threads, "get_num_threads", lambda: 3)
    monkeypatch.setattr(threads, "_free_cores", lambda: 3)
    began, refused, working, done = threading.Event(), threading.Event(), [], []
    start, started = threading.Thread.start, []

    def start_one(thread):
        if started:
            assert began.wait(10)
            refused.set()
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    def work(first, end):
        working.append(first)
        began.set()
        refused.wait(10)
        time.sleep(0.05)
        working.pop()
        done.append(first)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    monkeypatch.setattr(threads, "_idle", [])
    with pytest.raises(RuntimeError, match="can't start new thread"):
        threads.in_threads(work, 100)
    assert done == [0] and not working


class Place:
    """A device of a part."""

    def __init__(self, on_host):
        self.on_host = on_host


CALLERS = {
    "in_threads": lambda work: threads.in_threads(work, 2),
    "sections": lambda work: jobs.run_together([jobs.Section(lambda: work(0, 1), "", ())]),
    "parts": lambda work: pool.run_parts(
        [Place(True), Place(False)], range(2),
        lambda k: work(k, k + 1)),
    "beside": lambda work: DeviceGroup("cpu").beside(1, lambda k: work(k, k + 1))(),
}  # fmt: skip


@pytest.mark.parametrize("caller_of", CALLERS)
@pytest.mark.parametrize("interrupts", [1, 2])
def test_an_interrupt_waits_for_threads_that_use_the_memory_of_the_caller(
    monkeypatch, interrupts, caller_of
):
    """`Thread.join` of CPython 3.11 returns at an interrupt, and takes the thread for ended."""
    stopped = []
    stopper = SimpleNamespace(stop=lambda: stopped.append(True))
    monkeypatch.setattr(pool, "scratch", lambda device: stopper)
    monkeypatch.setattr(threads, "get_num_threads", lambda: 2)
    monkeypatch.setattr(threads, "_free_cores", lambda: 2)
    caller, working, done = threading.current_thread(), [], []

    def work(first, end):
        if threading.current_thread() is caller:
            while not working:
                time.sleep(0.001)
            return
        working.append(first)
        for _ in range(interrupts):
            time.sleep(0.05)  # the caller waits
            signal.pthread_kill(caller.ident, signal.SIGINT)
        time.sleep(0.05)
        working.pop()
        done.append(first)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            CALLERS[caller_of](work)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(done) == 1 and not working and len(stopped) == (caller_of == "parts")
    threads.in_threads(lambda first, end: done.append(first), 9)
    assert len(done) == 10


def test_an_error_stops_other_calls_once_and_is_raised_when_they_have_ended():
    began, stopping, ended, stops = threading.Event(), threading.Event(), [], []

    def apart():
        began.set()
        assert stopping.wait(10)
        ended.append(True)
        raise ValueError("of the other thread")

    def here():
        assert began.wait(10)
        raise KeyError("here")

    def stop():
        stops.append(True)
        stopping.set()
        raise OSError("the device is lost")

    with pytest.raises(KeyError):
        threads.run_calls([apart], here, stop)
    assert ended == stops == [True]
    with pytest.raises(ValueError):
        threads.run_calls([apart], lambda: None, stop)
    assert len(stops) == 1


def test_cores_of_other_processes_are_not_taken(monkeypatch):
    monkeypatch.setattr(threads.os, "cpu_count", lambda: 4)
    for text, free in (("0 0 0 1/9 7", 4), ("0 0 0 3/9 7", 2), ("0 0 0 99/9 7", 1), ("?", 256)):
        monkeypatch.setattr("builtins.open", lambda *_, text=text, **__: io.BytesIO(text.encode()))
        assert threads._free_cores() == free
