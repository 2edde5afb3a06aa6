"""Collections, sets, flags and reductions on the host."""

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph.data.collection import Collection, Flag, Set
from morph.data.store import Word
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import Ref, f16, f32, f64, i32, u8, vec
from morph.operators.reduce import REDUCTIONS, reduce
from morph.runtime.cpu.device import HostDevice


def points(n, device="cpu"):
    g = Graph(device)
    g.points.add("x", f64)
    g.points.extend(n, x=np.arange(n))
    return g


# --- collections ---------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_a_worklist(device):
    g = points(5, device)
    now, then = Collection(g.points), Collection(g.points, capacity=100)
    assert now.empty and len(then) == 0 and now.device == g.device and now.graph is g
    now.add(3)
    now.add(g.points[1])
    now.extend([0, 4])
    now.extend(np.array([2, 2], np.int64))
    assert now.items.tolist() == [3, 1, 0, 4, 2, 2] and now.items.dtype == i32
    assert [p.x for p in now] == [3, 1, 0, 4, 2, 2] and now[1] == g.points[1]
    now, then = then, now
    assert now.empty and len(then) == 6 and then.capacity >= 6 and now.capacity == 100
    then.clear()
    assert then.empty and list(then) == [] and then._host_meta[Word.BUDGET] == then.capacity
    with pytest.raises(IndexError):
        then[0]
    with pytest.raises(TypeError, match="cannot be deleted"):
        then.delete(0)


def test_columns_carried_along():
    g = points(4)
    c = Collection(g.points, dist=i32, via=Ref(g.points), v=vec(f32, 2))
    c.add(1, 7)
    c.add(g.points[2], dist=8, via=g.points[3], v=[1, 2])
    c.extend([0, 3], dist=[5, 6])
    c.extend(n=1)
    entry = c[1]
    assert (entry.item, entry.dist, entry.via) == (g.points[2], 8, g.points[3])
    assert [e.dist for e in c] == c.dist[:].tolist() == [7, 8, 5, 6, 0]
    assert c.item[:].tolist() == [1, 2, 0, 3, -1] and c.via[:].tolist() == [-1, 3, -1, -1, -1]
    c.dist += 1
    assert c[0].dist == 8
    c.pack("item", "dist")
    assert c.columns["item"].stride == 8 and c.item[:].tolist() == [1, 2, 0, 3, -1]


def test_entries_without_items():
    g = points(3)
    pairs = Collection(src=Ref(g.points), dst=Ref(g.points), w=f64)
    pairs.add(0, 1, 2.5)
    pairs.extend(src=[1, 2], dst=[2, 0])
    assert [(int(e.src), int(e.dst), e.w) for e in pairs] == [(0, 1, 2.5), (1, 2, 0), (2, 0, 0)]
    with pytest.raises(AttributeError):
        _ = pairs.items
    numbers = Collection(device="python", x=i32)
    numbers.extend(x=[1, 2])
    assert numbers[1].x == 2 and numbers.graph is None


def test_what_a_collection_refuses():
    g, h = points(3), points(3)
    with pytest.raises(TypeError):
        Collection(g)
    for bad in (
        lambda: Collection(g.points, to=Ref(h.points)),
        lambda: Collection(g.points, to=Ref("nothing")),
        lambda: Collection(g.points, device="python"),
        lambda: Collection(g.points, items=i32),
    ):
        with pytest.raises(ValueError):
            bad()
    c = Collection(g.points, dist=i32)
    c.add(1, 2)
    for bad in (
        lambda: c.add(3), lambda: c.add(-2), lambda: c.extend([0, 1, 5]), lambda: c.add([0, 1]),
        lambda: c.extend([0, 1], dist=[1]), lambda: c.item.__setitem__(0, 3),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            bad()
    for bad in (lambda: c.add(h.points[0]), lambda: c.add(1, 2, 3), lambda: c.add(0, x=1)):
        with pytest.raises(TypeError):
            bad()
    assert c.items.tolist() == [1] and c.dist[:].tolist() == [2]


def test_items_already_taken():
    g = points(9)
    c = Collection(g.points, w=i32)
    c.extend([4, 5, 6, 7], w=[0, 1, 2, 3])
    c.meta[Word.HEAD] = 2  # as a kernel takes
    c.touched()
    c._publish_counters()
    assert len(c) == 2 and c.items.tolist() == [6, 7] and c[0].w == 2 and c.w[0] == 2
    c.w[1] = 9
    c.w[c[0]] = 8
    assert c.w[:].tolist() == [8, 9]
    c.grow()  # positions stay, so that a launch can go on
    assert c.items.tolist() == [6, 7] and c.span() == (2, 4)
    g.points.delete(6)
    g.points.compact()
    assert c.items.tolist() == [6] and c.w[:].tolist() == [9] and c.span() == (0, 1)
    c.meta[Word.HEAD] = 5  # more threads came than there were items
    c.touched()
    assert c.empty
    c._publish_counters()
    assert c._host_meta[Word.HEAD] == 1


def test_only_living_collections_follow():
    g = points(3)
    c = Collection(g.points)
    assert len(g.points.dependents) == 1
    del c
    gc.collect()
    assert len(g.points.dependents) == 0


# --- sets ----------------------------------------------------------------------------------------


@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40),
            st.sets(st.integers(0, n - 1)),
            st.integers(0, 5),
        )
    )
)
def test_set_against_a_model(case):
    n, pairs, dead, more = case
    t = Table("t", x=f64)
    t.extend(n)
    s = Set(t)
    model = {i: {i} for i in range(n)}
    for a, b in pairs:
        apart = model[a] is not model[b]
        assert s.union(t[a], b) == apart
        if apart:
            model[a] |= model[b]
            for i in model[b]:
                model[i] = model[a]
    t.extend(more)  # new rows are alone
    model |= {i: {i} for i in range(n, n + more)}
    assert s.labels().tolist() == [min(model[i]) for i in range(n + more)]
    assert all(s.find(i) == min(model[i]) for i in model)
    t.delete(sorted(dead))
    t.compact()
    alive = [i for i in range(n + more) if i not in dead]
    new = {old: k for k, old in enumerate(alive)}
    assert s.labels().tolist() == [min(new[j] for j in model[i] if j in new) for i in alive]
    s.reset()
    assert s.labels().tolist() == list(range(len(alive)))


def test_a_full_list_grows_to_fewer_entries_of_many_columns():
    for columns, capacity in (({}, 1 << 17), ({"x": vec(f64, 64)}, 1 << 16)):
        c = Collection(i32, device="cpu", capacity=1 << 13, **columns)
        c._extend_capacity(1)
        assert c.capacity == capacity


def test_set_grows_with_its_table():
    t = Table("t", x=f64)
    s = Set(t)
    assert s.labels().size == 0
    t.extend(3)
    s.union(0, 2)
    version, address = s.version, s.address("parent")
    t.grow()
    assert s.version > version and s.address("parent") != address and s.find(2) == t[0]
    t.extend(1)
    assert s.labels().tolist() == [0, 1, 0, 3]
    for bad in (4, -1, None):
        with pytest.raises(ValueError, match="not a row"):
            s.find(bad)
    with pytest.raises(TypeError):
        s.find(Table("u", x=f64).new())
    with pytest.raises(TypeError):
        Set(Graph())
    with pytest.raises(ValueError):
        s.address("meta")


# --- flags ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where", ["cpu", "python", "graph", pytest.param("cuda:0", marks=pytest.mark.gpu)]
)
def test_flag(where):
    f = Flag(Graph("python") if where == "graph" else where)
    assert f.device.name == ("python" if where == "graph" else where)
    assert not f and not f.take()
    f.set()
    assert f and f.raised and f.take() and not f and not f.raised
    f.set()
    f.clear()
    assert not f and f.address("flag") % 4 == 0
    with pytest.raises(ValueError):
        f.address("meta")


# --- reductions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [u8, i32, f16, f64, np.bool_], ids=lambda d: d.__name__)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reduce(dtype, op):
    t = Table("t", x=dtype, v=(dtype, 2))
    values = np.array([1, 0, 1, 1, 0]).astype(dtype)
    t.extend(x=values, v=np.stack([values, 1 - values.astype(i32)], 1).astype(dtype))
    t.delete([1, 3])
    kept = values[[0, 2, 4]]
    got = reduce(t.x, op)
    assert got == getattr(kept, op)() and got.dtype == getattr(kept, op)().dtype
    assert reduce(t.v, op).shape == (2,)


def test_reduce_of_nothing():
    t = Table("t", x=f64)
    assert reduce(t.x, "sum") == 0 and reduce(t.x, "prod") == 1
    assert not reduce(t.x, "any") and reduce(t.x, "all")
    for op in ("min", "max", "mean"):
        with pytest.raises(ValueError):
            reduce(t.x, op)


# --- compaction of everything --------------------------------------------------------------------


def world(device="cpu"):
    ends = [0, 1, 2, 3, 0], [1, 2, 3, 0, 2]
    g = Graph.from_edges(*ends, weight=[1.0, 2, 3, 4, 5], device=device)
    g.points.add("x", f64)
    g.points.x[:] = np.arange(4)
    g.add_table("cells", node=Ref("points")[2], best=Ref("edges"), pack=("node", "best"))
    g.cells.extend(node=[[0, 1], [2, 3]], best=[1, 4])
    c, s = Collection(g.points, by=Ref(g.edges)), Set(g.points)
    c.extend([3, 1, 2], by=[4, 0, 2])
    s.union(1, 2)
    s.union(2, 3)
    return g, c, s


def see(g, c, s):
    tables = {
        n: ({k: np.array(getattr(t, k)).tolist() for k in t.columns}, t.alive.tolist(), t.version)
        for n, t in g.tables.items()
    }
    carried = [c.item[:].tolist(), c.by[:].tolist(), c.version]
    return tables, carried, s.labels().tolist(), s.version, g.version


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_compact_rewrites_every_reference(device):
    g, c, s = world(device)  # edges by source: 0-1, 0-2, 1-2, 2-3, 3-0
    g.points.delete(1)
    g.cells.delete(0)
    g.compact()
    assert g.points.x[:].tolist() == [0, 2, 3]
    assert [a.tolist() for a in g.edge_list()] == [[0, 1, 2], [1, 2, 0], [5, 3, 4]]
    assert g.out_identity and g.edge_order.tolist() == [4, 2, 3]
    assert g.cells.node[:].tolist() == [[1, 2]] and g.cells.best[:].tolist() == [2]
    assert c.item[:].tolist() == [2, 1] and c.by[:].tolist() == [2, -1]
    assert s.labels().tolist() == [0, 1, 1]
    before = see(g, c, s)
    g.points.compact()
    assert see(g, c, s) == before


def test_compact_fails_as_a_whole(monkeypatch):
    for n in range(99):
        g, c, s = world()
        g.points.delete(1)
        g.cells.delete(0)
        g.adjacency("out")
        before, left = see(g, c, s), n

        def failing(original):
            def allocate(*args):
                nonlocal left
                left -= 1
                if left < 0:
                    raise MemoryError
                return original(*args)

            return allocate

        with monkeypatch.context() as m:
            for kind in ("buffer", "zeros", "full"):
                m.setattr(HostDevice, kind, failing(getattr(HostDevice, kind)))
            try:
                g.compact()
            except MemoryError:
                pass
            else:
                break
        assert see(g, c, s) == before
    assert n > 8 and g.points.live == len(g.points) == 3
