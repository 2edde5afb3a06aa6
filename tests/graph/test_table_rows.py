"""Rows of tables: growth, deletion, reuse, compaction, and failures that change nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended
from small import contents, snapshot

from morph.data.store import Word
from morph.data.table import Table, set_lengths
from morph.language.dtypes import NAMES, Ref, f32, f64, i32, i64, vec
from morph.launch.foreach import foreach, kernel
from morph.runtime.cpu.device import HostDevice

DTYPES = list(NAMES)

OPS = st.lists(
    st.one_of(
        st.tuples(st.just("new"), st.integers(-99, 99)),
        st.tuples(st.just("extend"), st.lists(st.integers(-99, 99), max_size=12)),
        st.tuples(st.just("delete"), st.sets(st.integers(0, 40))),
        st.tuples(st.just("compact"), st.none()),
        st.tuples(st.just("grow"), st.none()),
        st.tuples(st.just("shrink"), st.none()),
        st.tuples(st.just("pack"), st.booleans()),
        st.tuples(st.just("move"), st.none()),
    ),
    max_size=25,
)


@given(OPS)
def test_against_a_model(ops):
    """Rows in a list, dead ones None; a row is reused if no `prev` of a live row denotes it."""
    t = Table("t", x=i32, prev=Ref("t"), half=f32)
    rows = []
    stamp = 0
    for op, arg in ops:
        stamp += 1
        if op == "new":
            last = max((i for i, r in enumerate(rows) if r), default=-1)
            denoted = {r[1] for r in rows if r}
            id = t.new(arg, last, stamp).id
            assert id == len(rows) or (rows[id] is None and id not in denoted)
            rows[id : id + 1] = [[arg, last, stamp]]
        elif op == "extend":
            assert t.extend(x=arg, half=float(stamp)) == len(rows)
            rows += [[x, -1, stamp] for x in arg]
        elif op == "delete":
            ids = sorted(i for i in arg if i < len(rows))
            t.delete(ids)
            for i in ids:
                rows[i] = None
        elif op == "compact":
            t.compact()
            new = {old: k for k, old in enumerate(i for i, r in enumerate(rows) if r)}
            rows = [[x, new.get(p, -1), s] for x, p, s in filter(None, rows)]
        elif op == "grow":
            t.grow()
        elif op == "shrink":
            t.resize(len(t))
        elif op == "pack":
            t.pack(*(["x", "prev"] if arg else []))
        elif op == "move":
            t = t.to("python" if t.device.name == "cpu" else "cpu")
        assert len(t) == len(rows) and t.live == sum(map(bool, rows)) <= t.capacity
        assert [p.id for p in t] == [i for i, r in enumerate(rows) if r]
        got = [[x, p, h] for x, p, h in zip(t.x, t.prev, t.half, strict=True)]
        assert [r if live else None for r, live in zip(got, t.alive, strict=True)] == rows
        counters = t._host_meta
        quarantined = counters[Word.TAIL] - counters[Word.COMMITTED]
        assert counters[Word.BUDGET] == t.capacity - t.live - quarantined
        assert quarantined >= 0 and counters[Word.CAPACITY] == t.capacity


def test_growth_keeps_handles_and_leaves_old_arrays_alone():
    t = Table("t", x=i64)
    t.extend(x=range(5))
    row, view, old = t[3], t.x, t.x.array
    version = t.version
    t.grow()
    assert t.capacity == 16 and t.version > version
    old[:] = 0
    assert row.x == 3 and view[3] == 3
    with pytest.raises(ValueError, match="5 are in use"):
        t.resize(4)
    with pytest.raises(ValueError, match="capacity"):
        t.resize(2**31)
    with pytest.raises(ValueError, match="capacity"):
        t.grow(2**31)
    t.grow(100)
    assert t.capacity == 100


def test_version_moves_with_addresses_and_signature_only():
    t = Table("t", x=i64, capacity=8)
    version = t.version
    addresses = {k: t.address(k) for k in ("meta", "fill", "free", "owner", "lock")}
    t.extend(4)
    t.x[:] = 3
    assert t.version == version == t.version
    assert addresses == {k: t.address(k) for k in addresses}
    assert t.hidden("owner").tolist() == [2**64 - 1] * 8 and not t.hidden("lock").any()
    t.delete(1)
    assert t.deletes and t.version > version
    version = t.version
    t.delete(2)
    assert t.version == version
    for kind in ("parent", "flag", "nonsense"):
        with pytest.raises(ValueError, match="no"):
            t.address(kind)


def test_delete():
    t = Table("t", x=i64)
    t.extend(x=range(8))
    t.delete([])
    t.delete([1, 1, 2])
    t.delete(1)
    t.delete(t[3])
    t.delete(np.array([7]))
    t.delete(np.arange(8) == 0)
    assert t.ids().tolist() == [4, 5, 6] and len(t) == 8
    before = snapshot(t)
    for bad in (8, -1, [4, 8], np.zeros(3, bool)):
        with pytest.raises(ValueError):
            t.delete(bad)
    for bad in (np.array([0.5]), [0.5], Table("u", x=i64).new()):
        with pytest.raises(TypeError):
            t.delete(bad)
    assert snapshot(t) == before
    assert [t.new(9).id for _ in range(6)] == [1, 2, 3, 7, 0, 8]


def test_counters_after_a_kernel_are_published():
    t = Table("t", x=i64)
    t.extend(8)
    t.delete([5, 6, 7])
    # as after a launch: five tried to take from the ring, three got a row; one more row was deleted
    t.meta[Word.HEAD] += 5
    t.hidden("dead")[[5, 6, 7]] = 0
    t.hidden("dead")[2] = 1
    t.hidden("free")[3] = 2
    t.meta[Word.TAIL] += 1
    t.touched()
    t._publish_counters()
    assert t.live == 7 and t.new().id == 2 and t.new().id == 8


@pytest.mark.parametrize("packed", [False, True])
def test_every_allocation_may_fail(monkeypatch, packed):
    """For each n, the n-th allocation of an operation fails: nothing has changed."""

    def make():
        t = Table("t", x=i64, r=Ref("t"), v=vec(f32, 2))
        if packed:
            t.pack("x", "r")
        t.extend(4, x=range(4), r=[1, 2, 3, 0])
        t.delete(1)
        return t

    def drop(t):
        t.drop("v")

    operations = [
        lambda t: t.grow(), lambda t: t.extend(9), lambda t: t.compact(), lambda t: t.add("y", f64),
        drop, lambda t: t.pack("r", "v"), lambda t: (t.new(), t.new()),
    ]  # fmt: skip
    for operation in operations:
        for n in range(99):
            t, left = make(), n

            def failing(original):
                def allocate(*args):
                    nonlocal left
                    left -= 1
                    if left < 0:
                        raise MemoryError
                    return original(*args)

                return allocate

            before = snapshot(t)
            with monkeypatch.context() as m:
                for kind in ("buffer", "zeros", "full"):
                    m.setattr(HostDevice, kind, failing(getattr(HostDevice, kind)))
                try:
                    operation(t)
                except MemoryError:
                    pass
                else:
                    assert n > 0 or operation is drop  # which only lets go
                    break
            now = snapshot(t)
            if operation is not operations[-1]:  # its first row may have been made
                assert now == before
            assert t.x[[0, 2, 3]].tolist() == [0, 2, 3]


def test_like():
    t = Table("t", pack=("x", "r"), x=i64, r=Ref("t"), v=vec(f32, 2))
    t.add("f", f64, fill=4)
    t.extend(3)
    t.delete(0)
    other = t.like()
    assert len(other) == 0 and other.deletes and other.packs == t.packs and other.device == t.device
    assert list(map(repr, other.columns.values())) == list(map(repr, t.columns.values()))
    assert other.new().f == 4 and other[0].r is None
    same = t.to("cpu")
    same.x[:] = 9
    assert t.x[:].tolist() == [0, 0, 0] and same.new().id == 0 and t.live == 2


def test_truncate(target):
    t = Table("t", target, x=i32)
    t.extend(5, x=[3, 1, 4, 1, 5])
    t.truncate(2)
    assert contents(t)[0] == {"x": [3, 1]} and t._host_meta[Word.BUDGET] == t.capacity - 2
    assert t.new(x=9).id == 2
    t.delete(1)
    for n, message in ((4, "there are 3 rows, not 4"), (-1, "not -1"), (2, "rows are deleted")):
        with pytest.raises(ValueError, match=message):
            t.truncate(n)
    assert len(t) == 3


def test_lengths_of_several_tables(target):
    a, b = Table("a", target, x=i32), Table("b", target, x=i32)
    a.extend(5, x=[3, 1, 4, 1, 5])
    set_lengths([a, b], [2, 3])  # beyond the capacity rows get their fill
    assert contents(a)[0] == {"x": [3, 1]} and contents(b)[0] == {"x": [0, 0, 0]}
    set_lengths([a, b], [4, 3])
    assert len(a) == 4 and a._host_meta[Word.BUDGET] == a.capacity - 4
    b.x[:] = [7, 8, 9]
    foreach(a, take, b)  # a launch reads the numbers of rows on the device
    assert contents(a)[0] == {"x": [24, 24, 24, 24]}


@kernel
def take(r, rows):
    r.x = 0
    for other in rows:
        r.x += other.x


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gpu_tables_are_those_of_the_cpu(dtype):
    seen = []
    for where in ("cpu", "cuda:0"):
        t = Table("t", where, pack=("x", "r"), x=dtype, r=Ref("t"), v=(dtype, 3))
        t.extend(10, x=np.arange(10) % 2 == 0, r=np.arange(10) - 1, v=[1, 0, 1])
        t.add("f", dtype, fill=1)
        t.delete([2, 5])
        t.new(1, t[4], t[3].v)
        t.x[t.x == 1] = 0
        t.x[[0, 3]] = np.array([1, 1], dtype)
        t.grow()
        t.pack("v", "f")
        t.compact()
        t[0].v = [0, 1, 1]
        other = t.like("cpu")
        other.extend(len(t))
        other.x[:] = t.x
        assert (other.x[:] == np.asarray(t.x)).all() and t.x[0] == 1
        seen.append(
            (contents(t.to("cpu")), t._host_meta.tolist(), [c.stride for c in t.columns.values()])
        )
        assert contents(t.to("cpu").to(where).to("python")) == seen[-1][0]
    assert seen[0] == seen[1]


def test_rows_can_be_limited(target):
    """A table whose rows others number in fewer bits says so, and keeps what it has."""
    t = Table("t", target, x=np.int32)
    t.limit_rows(20)
    t.extend(x=np.arange(15, dtype=np.int32))
    t.extend(x=np.arange(5, dtype=np.int32))
    assert t.capacity == 20
    for more in (lambda: t.new(x=1), lambda: t.grow(), lambda: t.resize(21)):
        with pytest.raises(ValueError, match="t is limited to 20 rows"):
            more()
    assert len(t) == 20 and t.capacity == 20


@pytest.mark.parametrize("where", ["cpu", "apart", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_vector_of_a_row(where, monkeypatch):
    """It is a view: what is written to it is in the column; but its elements are numbers."""
    t = Table("t", pretended(monkeypatch) if where == "apart" else where, v=vec(i64, 3))
    t.extend(2, v=[[1, 2, 3], [4, 5, 6]])
    v, element = t[1].v, t[1].v[2]
    v[2] = 9
    assert isinstance(element, np.int64) and element == 6 and t[1].v[2] == 9
    v[:2] = [7, 8]
    v += 1
    t[0].v += v
    assert [*v] == [8, 9, 10] and np.asarray(t[0].v).tolist() == [9, 11, 13]
    assert (v == [8, 9, 10]).all() and v.tolist() == [8, 9, 10] and len(v) == 3
    assert (v + 1).tolist() == (1 + v).tolist() == [9, 10, 11] and v[1:].sum() == 19
    assert (v.dtype, v.shape, repr(v)) == (np.int64, (3,), "array([ 8,  9, 10])")
    with pytest.raises(IndexError):
        v[3]
    with pytest.raises(AttributeError):
        _ = v.nothing
    t[0].v = v
    assert t.v[0].tolist() == t.v[1].tolist() == [8, 9, 10]
