"""Values that parts on several machines send: a whole column, or the changed values."""

import sys
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from targets import examples
from test_parts_programs import small_graph

import morph
from morph.partition.execution import PartitionedLaunch
from morph.partition.routes import SENT_WHOLE, _changes
from morph.partition.transport import Local
from morph.prelude import atomic_add, atomic_max, atomic_min, f64, i32, i64, vector

ROUTES = sys.modules["morph.partition.routes"]


class Network(Local):
    """Parts of one process, which get copies of what is sent, as those on other machines do."""

    def __init__(self, devices):
        super().__init__(devices)
        self.network, self.sent = True, 0

    def exchange(self, sent, headers=None):
        found = super().exchange(sent, headers)
        for j, pieces in found.items():
            pieces = [[np.array(a) for a in arrays] for arrays in pieces]
            self.sent += sum(a.size for k, x in enumerate(pieces) if k != j for a in x)
            found[j] = pieces
        return found


def divided(g, count=3):
    """Parts that send lists of changes, however few their mirrors are."""
    parts = morph.partition(g, ["python"] * count)
    parts.transport = Network(parts.devices)
    return parts


@pytest.fixture(autouse=True)
def _lists():
    with mock.patch.object(ROUTES, "SENT_WHOLE", 1):
        yield


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float64])
@pytest.mark.parametrize("size", [(), (3,)])
def test_a_list_is_sent_if_it_is_shorter(kind, size):
    cpu, count = morph.device("cpu"), 2 * SENT_WHOLE
    known = np.ones((count, *size), kind)
    row = known.nbytes // count
    most = int(2 * known.nbytes / 3 / (4 + row))  # rows whose list has two thirds of the bytes
    for changed in (0, 1, most - 1, most + 1):
        values = known.copy()
        rows = np.random.default_rng(1).choice(count, changed, replace=False)
        values.reshape(count, -1)[rows, -1] = 0
        (at, sent), now = _changes(cpu, values, known.copy().reshape(-1))
        assert np.array_equal(now, values)
        if changed < most:
            assert np.array_equal(at, np.sort(rows)) and at.dtype == np.int32
            assert np.array_equal(sent, values[at].reshape(-1))
        else:
            assert not at.size and np.array_equal(sent, values.reshape(-1))
    with mock.patch.object(ROUTES, "SENT_WHOLE", count + 1):
        assert _changes(cpu, known, known)[0][1].size == known.size


def test_bits_are_compared():
    known = np.array([0.0, np.nan, 1.0, 2.0] * 8, np.float32)
    values = known.copy()
    values[0], values[2] = -0.0, np.nan
    (at, sent), _ = _changes(morph.device("cpu"), values, known)
    assert at.tolist() == [0, 2] and np.signbit(sent[0]) and np.isnan(sent[1])


# --- whatever happens in between, mirrors have the values of their owners ------------------------


@morph.kernel
def set_all(p, c):
    p.x = i32(p.id * c % 7)
    p.y = vector(p.id, c)


@morph.kernel
def raise_listed(p):
    p.x += 1
    p.y = vector(p.y[1], p.y[0])


@morph.kernel
def offer(p, c):
    for t in p.outnbrs:
        atomic_min(t.z, i32(p.id * c % 50))


@morph.kernel
def count(p):
    for t in p.outnbrs:
        atomic_add(t.x, 1)


@morph.kernel
def write_larger(p, c):
    for t in p.outnbrs:
        if atomic_max(t.w, c) < c:
            t.x = c


@morph.kernel
def write_and_read(p, c):
    for t in p.outnbrs:
        t.x = c
        p.w += t.x


@morph.kernel
def read(p):
    p.out = 0
    for t in p.outnbrs:
        p.out += t.x + 10 * i64(t.y[0]) + 1000 * t.z + 100000 * t.w


def launch(kernel, *args, listed=False):
    def run(g, c):
        items = morph.Collection(g.points) if listed else g.points
        if listed:
            items.extend(range(c, len(g.points), 5))
        morph.foreach(items, kernel, *(i32(c) for _ in args))

    return run


def some_values(g, c):
    g.points.x[c::3] = c
    g.points.y[: 2 * c, 1] = c


def all_values(g, c):
    g.points.x = np.arange(len(g.points), dtype=np.int32) * c
    g.points.z[:] = 90 + c


def other_columns(g, c):
    morph.foreach(g.points, set_x, i32(c))
    morph.foreach(g.points, read_x)
    with g.points.temporary_columns(x=(i32, c + 1)):
        morph.foreach(g.points, set_x, i32(c))
        morph.foreach(g.points, read_x)


@morph.kernel
def set_x(p, c):
    p.x = c


@morph.kernel
def raise_x(p):
    p.x += p.id


@morph.kernel
def read_x(p):
    for t in p.outnbrs:
        p.w += t.x


def exchange_names(g, c):
    g.points.rename("x", "other")
    g.points.rename("z", "x")
    g.points.rename("other", "z")


def change_edges(g, c):
    n = len(g.points)
    g.apply(inserts=([c, n - 1 - c], [n - 1 - c, (3 * c) % n]))


def fail(g, c):
    """A step fails after its launches, or its messages are lost."""
    if isinstance(g, morph.Graph):
        return  # it gets the values of the parts
    launch = PartitionedLaunch._launch

    def run(self, *args):
        launch(self, *args)
        raise MemoryError

    lost = ("_deliver", MemoryError) if c % 2 else ("_launch", run)
    with mock.patch.object(PartitionedLaunch, lost[0], autospec=True, side_effect=lost[1]):
        with pytest.raises(MemoryError):
            some = morph.Collection(g.points)
            some.extend([c, c + 20])
            morph.foreach(some, write_and_read, i32(c + 60))


OPERATIONS = [
    launch(set_all, 1), launch(raise_listed, listed=True), launch(offer, 1), launch(count),
    launch(write_larger, 1), launch(write_and_read, 1), some_values, all_values, other_columns,
    exchange_names, change_edges, fail,
]  # fmt: skip


def follow(calls):
    """Execute operations on one device and on parts, and compare what mirrors have after each."""
    g = small_graph(directed=False)
    for name, kind in {"x": i32, "z": i32, "w": i32, "out": i64, "y": morph.vec(f64, 2)}.items():
        g.points.add(name, kind)
    g.points.z[:] = 99
    g = g.to("python")
    parts = divided(g)
    for operation, c in [(read_all, 0), *(x for call in calls for x in (call, (read_all, 0)))]:
        operation(g, c), operation(parts, c)
        for name in ("x", "z", "w", "y", "out"):
            found = getattr(parts.points, name)[:]
            if operation is fail:
                getattr(g.points, name)[:] = found
            else:
                assert np.array_equal(found, getattr(g.points, name)[:]), (operation, name)
    return parts.transport


@settings(max_examples=examples(15))
@given(calls=st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9)), max_size=7))
def test_mirrors_after_any_operations(calls):
    follow(calls)


@pytest.mark.parametrize("number", range(len(OPERATIONS)))
def test_values_that_return(number):
    again = OPERATIONS[0], 3  # to what mirrors had before
    follow([again, (OPERATIONS[number], 4), again, (OPERATIONS[number], 5), again])


def read_all(g, c):
    morph.foreach(g.points, read)


@morph.kernel
def write_value(p):
    for t in p.outnbrs:
        t.x = p.z  # race: the last message remains
        p.w += t.x


def test_a_mirror_has_what_its_owner_refused():
    g = morph.Graph.from_edges([1, 2], [0, 0], n=3, device="cpu")
    for name in ("x", "z", "w"):
        g.points.add(name, i32)
    parts = divided(g)
    parts.points.z[:] = [0, 7, 5]
    morph.foreach(parts.points, raise_x)
    parts.points.x[:1] = 5
    morph.foreach(parts.points, read_x)
    morph.foreach(parts.points, raise_x)  # point 0 has id 0: nothing changes
    morph.foreach(parts.points, read_x)
    morph.foreach(parts.points, write_value)
    assert parts.points.x[0] == 5  # by the message of part 2; the mirror in part 1 has 7
    parts.points.w[:] = 0
    morph.foreach(parts.points, read_x)
    assert parts.points.w[:].tolist() == [0, 5, 5]


def test_what_has_not_changed_is_not_sent():
    again, listed, others = (OPERATIONS[0], 3), (OPERATIONS[1], 3), (OPERATIONS[0], 4)
    once, *more = (follow([again, *x]).sent for x in ([], [again], [listed], [others]))
    assert more[0] == once < more[1] < more[2]
