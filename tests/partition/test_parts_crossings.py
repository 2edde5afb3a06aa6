"""Crossings: each part reads the stores of the others, and all end in the same step."""

import signal
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from pretend import Pretended, pretended
from test_parts_programs import devices_of, small_graph
from test_parts_together import rmat

import morph
from morph.data.collection import Collection
from morph.partition.persistent import PersistentProgram
from morph.prelude import atomic_add, i32, i64, u32


@morph.kernel
def gather(p):
    p.sum = u32(0)
    for t in p.innbrs:
        p.sum = p.sum * u32(31) + t.value


@morph.kernel
def change(p):
    p.value = p.value * u32(1664525) + p.sum + u32(1)


@morph.program
def mix(g, rounds):
    k = 0
    while k < rounds:
        morph.foreach(g.points, gather)
        morph.foreach(g.points, change)
        k += 1


def mixed(g, rounds):
    """Two crossings a round; a store that a part missed once changes nearly all later values."""
    g.points.add("value", u32)
    g.points.add("sum", u32)
    g.points.value[:] = np.arange(len(g.points), dtype=np.uint32)
    mix(g, rounds)
    return g.points.value[:]


def ring(n):
    """A point has one incoming edge, so that the order of edges does not matter."""
    g = morph.Graph("cpu")
    g.points.extend(n)
    at = np.arange(n)
    g.edges.extend(src=at, dst=(at + 1) % n)
    return g


@contextmanager
def counted():
    """How often the parts were launched together."""
    with mock.patch.object(
        PersistentProgram, "_execute", autospec=True, side_effect=PersistentProgram._execute
    ) as spy:
        yield spy


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_no_store_is_missed(parts):
    wanted = mixed(ring(60), 300)
    with counted() as launches:
        found = mixed(morph.partition(ring(60), ["cpu"] * parts), 300)
    assert np.array_equal(found, wanted) and launches.call_count == 1


@pytest.mark.gpu
@pytest.mark.parametrize("names", ["cuda:0 cuda:1", "cuda:0 cuda:1 cuda:2 cuda:3"])
@pytest.mark.parametrize("n, rounds", [(1000, 50_000), (300_000, 2_000)])
def test_no_store_is_missed_by_gpus(names, n, rounds):
    wanted = mixed(ring(n).to("cuda:0"), rounds).get()
    with counted() as launches:
        found = mixed(morph.partition(ring(n), devices_of(names)), rounds)
    assert np.array_equal(found, wanted) and launches.call_count == 1


# --- equal values, of which parts send bits ------------------------------------------------------


@morph.kernel
def infect(p, k, s):
    if p.wave != k:
        found = 0
        for t in p.innbrs:
            if t.wave == k:  # race: waves of this step have another number
                found = 1
        if found:
            p.wave = k + 1
            atomic_add(s.n, 1)


@morph.program
def waves(g, s, rounds):
    k, total = i32(0), i64(0)
    while k < rounds:
        s.n = 0
        morph.foreach(g.points, infect, k, s)
        total = total * 31 + s.n
        k += i32(1)
    return total


def infected(g, rounds):
    """One crossing a round, at which parts agree on ``n``, too."""
    g.points.add("wave", i32, fill=-1)
    g.points.wave[3] = 0
    found = waves(g, morph.Scalars(g, n=0), rounds)
    return g.points.wave[:], found


def random_graph(n, m):
    ends = np.random.default_rng(5).integers(0, n, (2, m))
    return morph.Graph.from_edges(*ends, n=n, device="cpu")


@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize("n", [7, 70, 1000])
def test_bits_of_equal_values(n, parts):
    wave, n_infected = infected(random_graph(n, 2 * n), 100)
    divided = morph.partition(random_graph(n, 2 * n), ["cpu"] * parts)
    with counted() as launches:
        found = infected(divided, 100)
    assert np.array_equal(found[0], wave) and found[1] == n_infected
    assert launches.call_count == 1
    if parts > 1:  # a crossing a round: `_steps` counts two as one
        assert divided._steps == 50
        assert "send_equal(a, t, a.g_points_wave" in waves.source()


@pytest.mark.gpu
@pytest.mark.parametrize("names", ["cuda:0 cuda:1", "cuda:0 cuda:1 cuda:2 cuda:3"])
def test_bits_of_equal_values_on_gpus(names):
    wave, n_infected = infected(random_graph(200_000, 400_000).to("cuda:0"), 1000)
    found = infected(morph.partition(random_graph(200_000, 400_000), devices_of(names)), 1000)
    assert np.array_equal(found[0], wave.get()) and found[1] == n_infected


# --- the host ------------------------------------------------------------------------------------


@morph.kernel
def grow(p, items, k):
    for t in p.outnbrs:
        items.add(t, k)


@morph.kernel
def take(x, s):
    atomic_add(s.n, x.item.weight * x.k)


@morph.program
def batches(g, items, s, rounds):
    s.n = 0
    k = i32(0)
    while k < rounds:
        k += 1
        morph.foreach(g.points, grow, items, k)
        morph.foreach(items, take, s)
        items.clear()
    return s.n


def batched(g, rounds=5):
    g.points.add("weight", i32, fill=3)
    items, s = morph.Collection(g.points, k=i32), morph.Scalars(g, n=0)
    return lambda: batches(g, items, s, rounds)


def test_an_error_of_one_part_ends_the_program():
    run = batched(g := morph.partition(small_graph(), ["cpu"] * 3))
    wanted = batched(small_graph())()

    def refuse(store, *args):
        if store.graph is g.local(1):
            raise MemoryError("a test wants it")
        return grown(store, *args)

    grown = Collection.grow
    with mock.patch.object(Collection, "grow", refuse), pytest.raises(MemoryError) as caught:
        run()
    assert "on part 1" in caught.value.__notes__[0]
    assert run() == wanted
    assert run() == wanted


@pytest.mark.parametrize("launches", [False, True])
def test_a_program_runs_again_after_an_interrupt(launches):
    g = morph.partition(small_graph(), ["cpu"] * 3)
    g.points.add("weight", i32, fill=3)
    items, s = morph.Collection(g.points, k=i32), morph.Scalars(g, n=0)

    def interrupt(*_):
        if launches:  # a handler cannot launch
            batches(g, items, s, 1)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
        with pytest.raises(RuntimeError if launches else KeyboardInterrupt):
            batches(g, items, s, 2**30)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    items.clear()
    assert batches(g, items, s, 5) == batched(small_graph())()


def test_arrays_of_a_gpu(monkeypatch):
    device = pretended(monkeypatch)  # with one part, whose launch waits for no other
    monkeypatch.setattr(Pretended, "reach", lambda *_: True, raising=False)
    with counted() as launches:
        assert batched(morph.partition(small_graph(), [device]))() == batched(small_graph())()
        assert launches.call_count > 1  # collections have grown
        found = mixed(morph.partition(ring(20), [device]), 7)
    assert np.array_equal(np.asarray(found), mixed(ring(20), 7))


@pytest.mark.gpu
@pytest.mark.parametrize("names", ["cuda:0 cuda:1"])
def test_gpus_end_together(names):
    g = morph.partition(rmat(), devices_of(names))
    wanted = batched(rmat())()
    run = batched(g)
    assert run() == wanted
    g.points.drop("weight")
    g.points.add("weight", i32, fill=3)
    items, s = morph.Collection(g.points, k=i32), morph.Scalars(g, n=0)

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1, 1)
        with pytest.raises(KeyboardInterrupt):
            batches(g, items, s, 2**30)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    items.clear()
    assert batches(g, items, s, 5) == wanted
