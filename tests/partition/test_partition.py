"""Partitioned graphs: their construction against the whole graph, host views, routes, refusals."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import Pretended, pretended
from targets import host

import morph
from morph import validate
from morph.generate import grid, rmat
from morph.language.dtypes import Ref, f64, i32, vec
from morph.partition import partition, speed
from morph.partition.parts import GLOBAL_ID
from morph.runtime.device import DeviceError

DEVICES = ("cpu", "python")


@st.composite
def graphs(draw, n_most=10, m_most=25):
    """A graph with columns of several kinds; isolated points, loops and parallel edges occur."""
    n = draw(st.integers(0, n_most))
    ids = st.integers(0, max(n - 1, 0))
    pairs = draw(st.lists(st.tuples(ids, ids), max_size=m_most if n else 0))
    src, dst = np.array(pairs, np.int64).reshape(-1, 2).T
    weight = np.arange(len(pairs)) * 1.5 if draw(st.booleans()) else None
    directed = draw(st.booleans())
    g = morph.Graph.from_edges(src, dst, weight, n, directed=directed)
    if directed and n and draw(st.booleans()):  # edges that are not sorted by source
        g.edges.extend(src=[n - 1, 0], dst=[0, n - 1])
        if draw(st.booleans()) and weight is not None:
            g.sort_edges("weight")
    if directed and draw(st.booleans()):  # parts of graphs that batches change
        g.edges.add("mark", np.int8)[:] = np.arange(len(g.edges)) % 5
    g.points.add("dist", i32, fill=9)[:] = np.arange(n) * 2
    g.points.add("xy", vec(f64, 2))[:] = np.arange(2 * n).reshape(n, 2)
    g.points.add("up", Ref("points"))
    first = {int(u): int(v) for u, v in zip(g.edges.src[:], g.edges.dst[:], strict=True)}
    for u, v in first.items():
        g.points[u].up = v
    if draw(st.booleans()):
        g.points.pack("dist", "xy")
    return g


@st.composite
def partitions(draw):
    """A graph and its parts."""
    g = draw(graphs())
    parts, n = draw(st.integers(1, 5)), len(g.points)
    by = draw(st.sampled_from(["range", "degree", "array"]))
    if by == "array":
        by = np.array(draw(st.lists(st.integers(0, parts - 1), min_size=n, max_size=n)), np.int64)
    shares = draw(st.none() | st.just([1 + k % 2 for k in range(parts)]))
    return g, morph.partition(g, [DEVICES[k % 2] for k in range(parts)], by, shares)


def same_graph(g, h):
    assert (h.directed, len(h.points), len(h.edges)) == (g.directed, len(g.points), len(g.edges))
    assert h.out_identity >= g.out_identity
    for name in g.tables:
        assert list(h.tables[name].columns) == list(g.tables[name].columns)
        for c in g.tables[name].columns.values():
            other = h.tables[name].columns[c.name]
            assert (other.dtype, other.size, other.ref) == (c.dtype, c.size, c.ref)
            assert np.array_equal(
                getattr(h.tables[name], c.name)[:], getattr(g.tables[name], c.name)[:]
            )


def rows(g, point, direction):
    """The edges of a point, in the order of its adjacency."""
    offsets, ids = g.adjacency(direction)
    found = np.arange(offsets[point], offsets[point + 1])
    return found if ids is None else ids[found]


@given(partitions())
def test_the_parts_together_are_the_graph(case):
    g, parts = case
    same_graph(g, parts.to("cpu"))
    for name in ("points", "edges"):
        own = [np.arange(len(g.tables[name]))[p.shares[name].ids] for p in parts.parts]
        assert sorted(np.concatenate(own).tolist()) == list(range(len(g.tables[name])))
        for c in g.tables[name].columns:
            assert np.array_equal(getattr(parts.tables[name], c)[:], getattr(g.tables[name], c)[:])


@given(partitions())
def test_a_part_has_all_edges_of_its_points_and_mirrors_of_their_other_ends(case):
    g, parts = case
    owner = np.empty(len(g.points), int)
    for k, part in enumerate(parts.parts):
        owner[part.shares["points"].ids] = k
    for k, part in enumerate(parts.parts):
        p, ids = part.graph, part.graph.points.global_id[:]
        assert p.device.name == DEVICES[k % 2] and p.directed == g.directed
        assert p.out_identity == g.out_identity
        assert p.points.packs == g.points.packs
        assert (owner[ids[: part.owned]] == k).all() and (owner[ids[part.owned :]] != k).all()
        assert (np.diff(ids[: part.owned]) > 0).all()
        mirrors = ids[part.owned :]
        assert np.array_equal(np.lexsort((mirrors, owner[mirrors])), np.arange(len(mirrors)))
        used = {int(x) for x in np.concatenate([p.edges.src[:], p.edges.dst[:]])}
        assert used >= set(range(part.owned, len(ids)))
        for j in range(len(parts.parts)):
            a, b = part.mirrors_of[j : j + 2]
            theirs = parts.local(j).points.global_id[:][parts.routes.sent[j][k]]
            assert np.array_equal(theirs, mirrors[a:b])
        edges = part.shares["edges"].global_ids(np.arange(len(p.edges)))
        for c in set(g.edges.columns) - {"src", "dst"}:
            assert np.array_equal(getattr(p.edges, c)[:], getattr(g.edges, c)[edges])
        for end in ("src", "dst"):
            assert np.array_equal(ids[getattr(p.edges, end)[:]], getattr(g.edges, end)[edges])
        for u in range(part.owned):
            assert edges[rows(p, u, "out")].tolist() == rows(g, ids[u], "out").tolist()
            if g.directed:
                mine, all_of_them = edges[rows(p, u, "in")], rows(g, ids[u], "in")
                assert sorted(mine.tolist()) == sorted(all_of_them.tolist())


@morph.kernel
def grow(p, g):
    g.edges.new(p, p)


@pytest.mark.parametrize("kind", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_part_is_not_changed_alone(kind):
    g = morph.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], n=4, device=kind)
    part = g.to([kind] * 2).local(1)
    changes = [
        lambda: part.points.extend(2),
        lambda: part.edges.new(src=0, dst=1),
        lambda: part.points.delete([0]),
        lambda: part.edges.truncate(0),
        lambda: part.edges.assign(part.edges.columns["dst"], 0, 0),
        lambda: part.apply(([0], [1])),
        lambda: part.apply(deletes=[0]),
        part.compact,
        part.points.compact,
        lambda: part.sort_edges(None),
        lambda: morph.foreach(part.points, grow, part),
    ]
    for change in changes:
        with pytest.raises(TypeError, match="of a part do not change"):
            change()
    assert len(part.points) == 4
    assert len(part.edges) == 3
    copy = part.copy()
    copy.points.extend(2)  # the copy is a graph of its own
    assert len(copy.points) == 6


@given(partitions(), st.data())
def test_columns_of_points_read_and_write_as_those_of_the_graph(case, data):
    g, parts = case
    n = len(g.points)
    one = st.integers(-n, max(n - 1, 0))
    masks = st.lists(st.booleans(), min_size=n, max_size=n).map(lambda a: np.array(a, bool))
    keys = st.one_of(st.slices(n), masks, *((one, st.lists(one, max_size=4)) if n else ()))
    for _ in range(3):
        key = data.draw(keys)
        a, b = parts.points.dist, np.asarray(g.points.dist)
        assert np.array_equal(a[key], b[key]) and a[key].dtype == b.dtype
        value = data.draw(st.integers(-5, 5))
        if data.draw(st.booleans()):
            value = np.arange(np.size(b[key])).reshape(np.shape(b[key])) + value
        a[key] = value
        g.points.dist[key] = value
        xy, j = np.asarray(g.points.xy), data.draw(st.sampled_from([0, 1, slice(1, 2)]))
        key = np.array(key, int) if isinstance(key, list) else key
        assert np.array_equal(parts.points.xy[key, j], xy[key, j])
        parts.points.xy[key, j] = 7
        g.points.xy[key, j] = 7
        for name in ("dist", "xy", "up"):
            whole = getattr(g.points, name)[:]
            assert np.array_equal(getattr(parts.points, name)[:], whole)
            for k in range(len(parts.parts)):  # mirrors, too
                p = parts.local(k).points
                if name != "up":
                    assert np.array_equal(getattr(p, name)[:], whole[p.global_id[:]])
    assert parts.stale <= {"up"}


@given(partitions(), st.sampled_from(["add", "min", "max", "or", "and"]), st.booleans())
def test_spread_and_combine_as_numpy_does(case, op, vector):
    g, parts = case
    n = len(g.points)
    name = "v" if vector else "c"
    kind = vec(i32, 2) if vector else i32
    parts.points.add(name, kind)
    wanted = np.zeros((n, 2) if vector else n, np.int32)
    numpy = {"add": np.add, "min": np.minimum, "max": np.maximum,
             "or": np.bitwise_or, "and": np.bitwise_and}[op]  # fmt: skip
    pieces = []
    for k, part in enumerate(parts.parts):
        column = getattr(part.graph.points, name)
        column[:] = (np.arange(column.size) * 7 % 13 + k).reshape(column.shape)
        ids = part.graph.points.global_id[:]
        wanted[ids[: part.owned]] = column[: part.owned]
        pieces.append((ids[part.owned :], column[part.owned :].copy()))
    for ids, values in pieces:
        wanted[ids] = numpy(wanted[ids], values)
    parts.routes.combine(name, op)
    assert np.array_equal(getattr(parts.points, name)[:], wanted) and name in parts.stale
    for part, (_, values) in zip(parts.parts, pieces, strict=True):
        left = getattr(part.graph.points, name)[part.owned :]
        assert np.array_equal(left, values * 0 if op == "add" else values)
    parts.routes.spread(name)
    for part in parts.parts:
        column = getattr(part.graph.points, name)
        assert np.array_equal(column[:], wanted[part.graph.points.global_id[:]])
    assert name not in parts.stale


def test_a_list_for_all_points_has_on_each_part_the_capacity_for_its_points():
    parts = morph.partition(morph.generate.grid(30, 30), ["cpu"] * 3)
    rows = [len(parts.local(k).points) for k in range(3)]
    for asked, wanted in ((900, rows), (1800, [2 * n for n in rows]), (16, [16] * 3)):
        made = morph.Collection(parts.points, capacity=asked)
        found = [made.local(k).capacity for k in range(3)]
        assert all(w <= f < 1.2 * w + 64 for f, w in zip(found, wanted, strict=True))
    with pytest.raises(ValueError, match="capacity"):
        morph.Collection(parts.points, capacity=-1)


@given(partitions(), st.data())
def test_collections(case, data):
    g, parts = case
    n = len(g.points)
    ids = data.draw(st.lists(st.integers(0, n - 1), max_size=8)) if n else []
    found = morph.Collection(parts.points, key=f64)
    assert found.empty and found.items.dtype == np.int32
    found.extend(ids, key=np.arange(len(ids)))
    for k, part in enumerate(parts.parts):
        own = [i for i in ids if part.shares["points"].own_rows(np.array([i]))[0] >= 0]
        assert part.graph.points.global_id[:][found.local(k).items].tolist() == own
    assert sorted(zip(found.items.tolist(), found.key.tolist(), strict=True)) == sorted(
        (i, float(k)) for k, i in enumerate(ids)
    )
    assert [r.id for r in found] == found.items.tolist() and len(found) == len(ids)
    for i in ids[:1]:
        found.add(parts.points[i], key=0.5)
        found.add(i, 0.5)
        assert sorted(found.items.tolist()) == sorted([*ids, i, i])
    found.clear()
    assert found.empty and len(found) == 0


def small(directed=True):
    g = morph.Graph.from_edges([0, 0, 1, 2, 4, 3, 3], [1, 2, 3, 3, 4, 0, 0], directed=directed)
    g.points.add("dist", i32, fill=9)
    return g


def three(by="range"):
    return morph.partition(small(), ["cpu", "python", "cpu"], by)


def test_columns_of_edges_reach_the_copies():
    parts = three()
    parts.edges.add("weight", f64)[:] = np.arange(7)
    parts.edges.weight[5] = 50
    assert parts.edges.weight[:].tolist() == [0, 1, 2, 3, 4, 50, 6]
    for part in parts.parts:
        ids = part.shares["edges"].global_ids(np.arange(len(part.graph.edges)))
        assert part.shares["edges"].mirrors
        assert part.graph.edges.weight[:].tolist() == parts.edges.weight[ids].tolist()
    parts.edges._routes.fill("weight", -1)
    assert parts.edges._stale == {"weight"}
    assert parts.edges.weight[:].tolist() == [0, 1, 2, 3, 4, 50, 6]
    parts.edges._routes.spread("weight")
    for part in parts.parts:
        ids = part.shares["edges"].global_ids(np.arange(len(part.graph.edges)))
        assert part.graph.edges.weight[:].tolist() == parts.edges.weight[ids].tolist()


def test_columns_are_arrays():
    parts = three()
    dist = parts.points.dist
    dist[:] = np.arange(5)
    dist += 1
    parts.points.dist *= 2
    parts.points.dist[parts.points.dist > 6] = 0
    assert parts.points.dist[:].tolist() == [2, 4, 6, 0, 0] and (dist == parts.points.dist).all()
    assert (dist + dist).sum() == 24 and np.asarray(dist, f64).dtype == f64 and list(dist)[1] == 4
    assert (dist.dtype, dist.shape, dist.ndim, dist.size, len(dist)) == (np.int32, (5,), 1, 5, 5)
    parts.points.dist = 3
    assert set(dist.local(1)[:].tolist()) == {3}
    with pytest.raises(ValueError, match="without a copy"):
        np.array(dist, copy=False)
    assert "dist: i32" in repr(dist) and "cpu, python, cpu" in repr(parts.points)


def test_rows_and_slices():
    parts = three([0, 2, 1, 0, 2])
    assert parts.points[3].dist == 9 and parts.points[3] == 3 and not parts.points[3].dead
    parts.points[3].dist = 4
    assert parts.points.dist[:].tolist() == [9, 9, 9, 4, 9]
    parts.points.add("up", Ref("points"))[3] = parts.points[0]
    assert parts.points[3].up == parts.points[0] and parts.points[0].up is None
    assert parts.points.up[:].tolist() == [-1, -1, -1, 0, -1]
    row = parts.points[3].local(0)
    assert row.table is parts.local(0).points and row.dist == 4 and row.up.id == 0
    assert parts.points[3].local(1).dist == 4  # a mirror
    assert parts.points[4].local(0) is None
    parts.points.add("xy", vec(f64, 2))[2] = [1, 2]
    assert (parts.points[2].xy.x, parts.points[2].xy.y) == (1, 2)
    with pytest.raises(ValueError, match="read-only"):
        parts.points[2].xy[0] = 3
    assert [p.id for p in parts.points[1:4]] == [1, 2, 3] and len(parts.points[1:4]) == 3
    own = [parts.points[1:4].local(k) for k in range(3)]
    assert [[p.global_id for p in x] for x in own] == [[3], [2], [1]]
    assert [[p.global_id for p in parts.points[:].local(k)] for k in range(3)] == [
        [0, 3],
        [2],
        [1, 4],
    ]
    with pytest.raises(IndexError, match="has no row 5"):
        parts.points[5]
    with pytest.raises(AttributeError, match="no column 'missing'"):
        _ = parts.points[0].missing


def test_flags_scalars_and_tables_have_a_copy_on_each_part():
    parts = three()
    flag = morph.Flag(parts)
    flag.set()
    assert flag and flag.raised and all(flag.local(k) for k in range(3))
    assert flag.take() and not any(flag.local(k) for k in range(3))
    total = morph.Scalars(parts, x=0.5, v=np.zeros(2))
    total.x = 2
    total.v = [1, 2]
    assert total.x == 2 and total.v.tolist() == [1, 2] and "x=2.0" in repr(total)
    assert [total.local(k).x for k in range(3)] == [2, 2, 2]
    for table in (parts.add_table("kinds", size=i32), morph.Table("kinds", parts, size=i32)):
        assert table.extend(size=[1, 2, 3]) == 0 and table.new(4).size == 4
        table[1].size = 7
        table.size += 1
        assert table.size[:].tolist() == [2, 8, 4, 5] and len(table) == 4
        assert [table.local(k).size[:].tolist() for k in range(3)] == [[2, 8, 4, 5]] * 3
    assert parts.kinds is parts.tables["kinds"] and parts.kinds.local(1).graph is parts.local(1)
    parts.points.add("sort", Ref("kinds"))[:] = [3, 2, 1, 0, -1]
    assert parts.points[0].sort.size == 5 and parts.points[4].sort is None
    h = parts.to("cpu")
    assert h.points[0].sort.size == 5 and h.kinds.size[:].tolist() == [2, 8, 4, 5]
    again = morph.partition(h, ["cpu", "cpu"])
    assert again.kinds.size[:].tolist() == [2, 8, 4, 5] and again.points[1].sort.size == 4


def test_temporary_columns():
    parts = three()
    with parts.points.temporary_columns(dist=(f64, 0.5), other=(i32, 1)):
        assert parts.points.dist[:].tolist() == [0.5] * 5 and parts.points.other[:].sum() == 5
    assert parts.points.dist[:].tolist() == [9] * 5 and "other" not in parts.points.columns
    parts.points._routes.fill("dist", 1)
    with parts.points.temporary_columns(dist=(f64, 0.5)):
        assert not parts.stale
        parts.points._routes.fill("dist", 1)
        parts.points._routes.spread("dist")
    assert parts.stale == {"dist"}
    parts.points.add("x", i32)
    parts.points.rename("x", "y")
    parts.points.pack("y", "dist")
    assert parts.local(0).points.packs and parts.points.y[:].tolist() == [0] * 5
    parts.points.drop("y")
    assert "y" not in parts.local(2).points.columns


def test_balance():
    g = rmat(10, device="cpu")
    even = morph.partition(g, ["cpu"] * 4).statistics()
    assert [s.points for s in even] == [256] * 4
    by_degree = morph.partition(g, ["cpu"] * 4, "degree").statistics()
    work = [4 * s.points + s.edges for s in by_degree]
    assert sum(s.edges for s in by_degree) == len(g.edges)
    assert max(work) - min(work) <= 2 * g.degree().max()
    work = [
        4 * s.points + s.edges
        for s in morph.partition(g, ["cpu"] * 2, "degree", [3, 1]).statistics()
    ]
    assert abs(work[0] / sum(work) - 0.75) < 0.05
    sizes = [s.points for s in morph.partition(g, ["cpu"] * 3, shares=[1, 0, 3]).statistics()]
    assert sizes == [256, 0, 768]


def test_measured_shares(monkeypatch):
    """Parts of the same device share its speed."""
    speeds = {"cpu": 6.0, "python": 1.0}
    monkeypatch.setattr(partition, "speed", lambda device: speeds[device.name])
    g = rmat(10, device="cpu")
    for by in ("range", "degree"):
        found = morph.partition(g, ["cpu", "python", "cpu"], by, "measured")
        wanted = morph.partition(g, ["cpu", "python", "cpu"], by, [3, 1, 3])
        assert [s[1:] for s in found.statistics()] == [s[1:] for s in wanted.statistics()]
    assert sum(s.share for s in found.statistics()) == 1
    assert np.allclose([s.share for s in found.statistics()], [3 / 7, 1 / 7, 3 / 7], atol=0.02)


def test_speed_is_measured_once(monkeypatch):
    monkeypatch.setattr(speed, "_speeds", {})
    monkeypatch.setattr(speed, "SIZES", [16, 32])
    monkeypatch.setattr(speed, "_timed", lambda g: len(g.points) / 16)
    cpu = morph.device("cpu")
    assert speed.speed(cpu) == speed.ROUNDS * speed.DEGREE * 16  # 1 s is enough
    assert speed._speeds == {"cpu": speed.ROUNDS * speed.DEGREE * 16}
    monkeypatch.setattr(speed, "_timed", None)
    assert speed.speed(cpu) == speed.ROUNDS * speed.DEGREE * 16


def test_speed(target, monkeypatch):
    monkeypatch.setattr(speed, "SIZES", [64, 4096])
    assert speed._measured(morph.device(target)) > 0


def test_statistics():
    parts = morph.partition(small(), ["cpu", "python"])
    a, b = parts.statistics()
    assert a == ("cpu", 2, 2, 3, 2, 2, 11 / 27) and b == ("python", 3, 2, 4, 2, 2, 16 / 27)
    assert str(parts).splitlines() == [
        "5 points, 7 edges, parts: 2; edges cut: 57.1 %; edges of the largest part: 1.14 times "
        "the mean",
        "part  device  points  mirrors  edges  copies  cut  share",
        "   0     cpu       2        2      3       2    2  0.407",
        "   1  python       3        2      4       2    2  0.593",
    ]
    assert repr(parts) == "<PartitionedGraph on cpu, python: 5 points, 7 edges>"


def test_hilbert_sections_are_compact():
    g = grid(32, 32)
    g.points.add("x", f64)[:], g.points.add("y", f64)[:] = divmod(np.arange(1024), 32)
    parts = morph.partition(g, ["cpu"] * 4, "hilbert")
    found = parts.statistics()
    assert max(s.points for s in found) - min(s.points for s in found) < 40
    for k in range(4):  # quarters of the square
        own = parts.parts[k].shares["points"].ids
        assert np.ptp(g.points.x[own]) <= 17 and np.ptp(g.points.y[own]) <= 17
    by_range = morph.partition(g, ["cpu"] * 4).statistics()
    assert sum(s.cut for s in found) < sum(s.cut for s in by_range)
    same_graph(g, parts.to("cpu"))


def host_work(home, devices, by, directed):
    """What the host reads of a partitioned graph after various changes."""
    g = small(directed).to(home)
    g.edges.add("weight", f64)[:] = np.arange(len(g.edges)) * 1.5
    g.points.add("xy", vec(f64, 2))
    g.points.add("up", Ref("points"))
    for c in "xy":
        g.points.add(c, f64)[:] = np.arange(5) % 3
    g.points.pack("dist", "x")
    parts = morph.partition(g, devices, by)
    found = [s[1:] for s in parts.statistics()]
    dist, xy, up = parts.points.dist, parts.points.xy, parts.points.up
    dist[:] = np.arange(5)
    dist[2], dist[[3, 4]] = 7, 1
    dist[dist == 1] = 2
    dist += 1
    dist[:2] = g.device.asarray(np.array([4, 5]))
    xy[3], xy[:, 1], xy[[0, 2], 0] = [1, 2], 5, [7, 8]
    up[int(parts.edges.src[0])] = int(parts.edges.dst[0])
    for column in ("dist", "xy"):
        for op in ("min", "max", "add"):
            parts.routes.combine(column, op)
            found.append(getattr(parts.points, column)[:].tolist())
            parts.routes.spread(column)
    parts.edges.weight[1:] = 2
    parts.edges._routes.spread("weight")
    chosen = morph.Collection(parts.points, key=f64, via=Ref(parts.points))
    chosen.extend([0, 3], key=[1, 2], via=[0, 3])
    chosen.add(2)
    found += [chosen.items.tolist(), chosen.key.tolist(), chosen.via.tolist()]
    totals, flag = morph.Scalars(parts, x=1, v=np.zeros(3)), morph.Flag(parts)
    totals.x += 1
    totals.v = [1, 2, 3]
    flag.set()
    table = parts.add_table("kinds", a=i32)
    table.extend(3)
    table.a, table[1].a = 3, 2
    found += [totals.x, totals.v.tolist(), flag.take(), flag.take(), table.a[:].tolist()]
    with parts.points.temporary_columns(q=(i32, 1)):
        found.append(parts.points.q[:].tolist())
    for h in (parts.to(home), parts.to("cpu")):
        for t in (h.points, h.edges):
            found += [np.asarray(getattr(t, c)).tolist() for c in t.columns]
    return found


@pytest.mark.parametrize("by", ["range", "degree", "hilbert", [0, 1, 2, 0, 1]], ids=str)
@pytest.mark.parametrize("directed", [True, False])
def test_a_pretended_gpu_gives_the_same(by, directed, monkeypatch):
    gpu = pretended(monkeypatch)
    wanted = host_work("cpu", ["cpu"] * 3, by, directed)
    assert host_work(gpu, [gpu, "cpu", gpu], by, directed) == wanted
    assert host_work("cpu", [gpu, "cpu", gpu], by, directed) == wanted


@pytest.mark.gpu
@pytest.mark.parametrize("by", ["range", "degree", "hilbert", [0, 1, 2, 0, 1]], ids=str)
@pytest.mark.parametrize("home", ["cpu", "cuda"])
def test_a_gpu_gives_the_same(by, home):
    for directed in (True, False):
        wanted = host_work("cpu", ["cpu"] * 3, by, directed)
        assert host_work(home, ["cuda", "cpu", "cuda"], by, directed) == wanted


@pytest.mark.gpu
def test_two_gpus_give_the_same():
    try:
        morph.device("cuda:1")
    except DeviceError:
        pytest.skip("there is one GPU")
    wanted = host_work("cpu", ["cpu"] * 3, "degree", True)
    for home in ("cuda:0", "cuda:1"):
        assert host_work(home, ["cuda:0", "cuda:1", "cpu"], "degree", True) == wanted


def test_to_takes_a_list_of_devices():
    parts = small().to(["cpu", "python"])
    assert [d.name for d in parts.devices] == ["cpu", "python"] and parts.directed


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"devices": []}, ValueError, "a graph has 1 to 1024 parts, not 0"),
        ({"devices": "cpu"}, TypeError, "devices is a list with a device for each part"),
        ({"devices": ["cpu", "tpu"]}, ValueError, "no device 'tpu'"),
        ({"by": "metis"}, ValueError, "by is one of 'range', 'degree', 'hilbert' or an array"),
        ({"by": [0, 1]}, ValueError, "by is an array of 5 integers"),
        ({"by": [0.5] * 5}, ValueError, "by is an array of 5 integers"),
        ({"by": [0, 1, 2, 0, 0]}, ValueError, r"by\[2\] = 2: parts are numbered 0 to 1"),
        ({"by": [0, -1, 0, 0, 0]}, ValueError, r"by\[1\] = -1"),
        ({"by": "hilbert"}, ValueError, "needs columns x and y"),
        ({"shares": [1]}, ValueError, "shares are 2 numbers"),
        ({"shares": "fast"}, ValueError, "shares are 'measured' or numbers, not 'fast'"),
        ({"shares": [1, -1]}, ValueError, "shares are 2 numbers"),
        ({"shares": [0, 0]}, ValueError, "shares are 2 numbers"),
        ({"shares": [1, np.nan]}, ValueError, "shares are 2 numbers"),
    ],
)
def test_refused_before_any_part_is_made(options, error, text):
    with pytest.raises(error, match=text):
        morph.partition(small(), **{"devices": ["cpu", "cpu"], **options})


def test_refused_graphs():
    with pytest.raises(TypeError, match="partition takes a Graph"):
        morph.partition(3, ["cpu"])
    g = small()
    g.points.delete(2)
    with pytest.raises(ValueError, match=r"points of the graph are deleted: compact\(\) it first"):
        morph.partition(g, ["cpu"])
    g.compact()
    assert len(morph.partition(g, ["cpu", "cpu"]).points) == 4
    g.add_table("triangles", corner=Ref("points")[3])
    with pytest.raises(ValueError, match="triangles.corner refers to points, whose rows"):
        morph.partition(g, ["cpu"])
    g = small()
    g.points.add(GLOBAL_ID, i32)
    with pytest.raises(ValueError, match="points have a column 'global_id'"):
        morph.partition(g, ["cpu"])
    g = small()
    g.points.add("up", Ref("points"), fill=1)
    with pytest.raises(ValueError, match=r"points.up refers to points\[1\], of which part 1"):
        morph.partition(g, ["cpu"] * 3)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(
    "devices",
    [["cpu"], ["cpu", "python", "cpu"], pytest.param(["cuda", "cpu"], marks=pytest.mark.gpu)],
    ids=str,
)
def test_algorithms_of_parts(directed, devices):
    g = rmat(7, device="cpu", directed=directed, weight=(1, 9))
    parts = morph.partition(g, devices, "degree")
    columns = list(parts.points.columns)
    wanted, found = morph.core_number(g), morph.core_number(parts)
    assert np.array_equal(host(found.core), wanted.core) and found.largest == wanted.largest
    assert np.array_equal(host(morph.k_core(parts, 5).points), morph.k_core(g, 5).points)
    jump = np.arange(len(g.points))
    own = {"personalization": jump, "dangling": jump[::-1].copy(), "start": jump % 3}
    for options in ({}, own, {"weighted": True}):
        wanted, found = morph.pagerank(g, **options), morph.pagerank(parts, **options)
        assert found.iterations == wanted.iterations
        assert np.allclose(host(found.rank), wanted.rank, rtol=1e-13, atol=0)
    assert list(parts.points.columns) == columns
    parts.edges.weight[3] = -1
    with pytest.raises(ValueError, match="weights that are finite and not negative"):
        morph.pagerank(parts, weighted=True)


def test_checkers_take_parts():
    g = rmat(6, device="cpu", weight=(1, 9))
    parts = morph.partition(g, ["cpu"] * 3, "degree")
    tree, paths = morph.bfs(parts, 5), morph.sssp(parts, 5, predecessors=True)
    forest = morph.mst(parts)
    for answers in range(2):
        validate.bfs(parts, tree.distance, tree.predecessor, source=5)
        if not answers:
            validate.sssp(parts, paths.distance, paths.predecessor, source=5)
            validate.mst(parts, forest.edges)
            parts.apply(deletes=[0])  # later edges keep their ids
            tree = morph.bfs(parts, 5)
    far = int(tree.distance.argmax())
    tree.distance[far] += 1
    with pytest.raises(validate.WrongAnswer, match=f" {far}"):
        validate.bfs(parts, tree.distance, source=5)


def test_refused_changes():
    parts = three()
    for change, text in [
        (lambda: parts.points.new(), "points of a partitioned graph are not created or deleted"),
        (lambda: parts.edges.delete([0]), "edges of a partitioned graph are not created"),
        (lambda: parts.points.drop(GLOBAL_ID), "points.global_id of a partitioned graph"),
        (lambda: parts.edges.rename("src", "tail"), "edges.src of a partitioned graph"),
    ]:
        with pytest.raises(TypeError, match=text):
            change()
    with pytest.raises(TypeError, match="edges.dst of a partitioned graph does not change"):
        parts.edges.dst[0] = 1
    with pytest.raises(OverflowError, match="does not fit"):
        parts.points.dist[:] = 2**40
    with pytest.raises(TypeError, match="cannot store"):
        parts.points.dist[0] = 0.5
    with pytest.raises(ValueError, match=r"points.dist: shape \(2,\) does not fit \(3,\)"):
        parts.points.dist[:3] = [1, 2]
    for key in (5, -6, [0, 5]):
        with pytest.raises(IndexError, match="out of bounds for a column of 5 rows"):
            parts.points.dist[key] = 1
    with pytest.raises(IndexError, match="a mask of points has 5 values"):
        parts.points.dist[np.ones(4, bool)] = 1
    with pytest.raises(IndexError, match="indexed by ids, slices and masks"):
        _ = parts.points.dist[0.5]
    assert parts.points.dist[:].tolist() == [9] * 5
    with pytest.raises(TypeError, match="a set is of rows of a table"):
        morph.Set(parts.points)
    with pytest.raises(ValueError, match="a collection of a partitioned table lies where"):
        morph.Collection(parts.points, device="cpu")
    with pytest.raises(ValueError, match="t.p refers to points, whose rows are divided"):
        morph.Table("t", parts, p=Ref("points"))
    for add in (
        lambda: parts.points.add("on_parts", f64),
        lambda: parts.edges.rename("src", "on_parts"),
        lambda: morph.Collection(parts.points, local=i32),
        lambda: morph.Scalars(parts, x=1).table.add("on_parts", i32),
    ):
        with pytest.raises((ValueError, TypeError), match="another meaning on parts|not change"):
            add()
    g = small()
    g.edges.add("local", f64)
    with pytest.raises(ValueError, match="column 'local' of edges: this name has another meaning"):
        morph.partition(g, ["cpu"])
    assert parts.points.dist[np.array([1, 255 - 253], np.uint8)].tolist() == [9, 9]
    with pytest.raises(ValueError, match="references of a partitioned graph begin as none"):
        parts.points.add("up", Ref("points"), fill=0)


def test_refused_items():
    parts = three()
    found = morph.Collection(parts.points, via=Ref(parts.points))
    found.extend([0, 3], via=[1, 2])
    assert found.items.tolist() == [0, 3] and found.via.tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"collection.via refers to points\[4\]"):
        found.extend([3, 0], via=[2, 4])
    with pytest.raises(ValueError, match=r"collection.item\[1\] = 5 is not a row of points"):
        found.extend([0, 5])
    with pytest.raises(ValueError, match="not None"):
        found.extend([0, None])
    for add in (found.add, lambda: found.extend(via=[0])):
        with pytest.raises(TypeError, match="give `items`"):
            add()
    with pytest.raises(ValueError, match="has 1 values for 2 rows"):
        found.extend([0, 1], via=[0])
    with pytest.raises(AttributeError, match="no column 'key'"):
        _ = found.key
    assert found.items.tolist() == [0, 3]


def test_names_of_internal_methods_are_free_for_columns():
    parts = small().to(["cpu", "cpu"])
    for name in ("share", "read", "write", "stale", "routes", "own_range"):
        parts.points.add(name, i32, fill=3)
        assert getattr(parts.points, name)[:].tolist() == [3] * len(parts.points)


def test_what_graphs_in_parts_lack_is_named():
    parts = morph.partition(small(), ["cpu"] * 2)
    parts.points.add("x", i32)
    with pytest.raises(AttributeError, match=r"graph has no 'degree': use parts.to\(device\)"):
        parts.degree()
    with pytest.raises(AttributeError, match="graph has no table 'cells'"):
        parts.cells  # noqa: B018
    with pytest.raises(AttributeError, match=r"'out_degree'.*its edges: parts.to\(device\)"):
        parts.points[3].out_degree  # noqa: B018
    with pytest.raises(AttributeError, match="collection has no column 'take'; it has item"):
        morph.Collection(parts.points).take()
    with pytest.raises(TypeError, match="graph goes to one device; then divide"):
        parts.to(["cpu", "cpu"])
    with pytest.raises(TypeError, match=r"several: morph.partition\(g, devices\)"):
        morph.Graph(["cpu", "cpu"])
    with pytest.raises(TypeError, match="in parts: connect rows by labels"):
        morph.Set(parts.points)


def test_rows_of_extreme_values():
    parts = morph.partition(small(), ["cpu"] * 2)
    parts.points.add("x", i32)
    parts.points.x[:] = [4, 1, 3, 9, 2]
    assert repr(morph.argmin(parts.points.x)) == "points[1]"
    assert morph.argmax(parts.points.x).x == 9
    assert repr(parts.points[1:3]) == "points[1:3]"


def test_compact_refuses_rows_in_parts():
    parts = morph.partition(morph.generate.grid(3, 3, device="cpu"), ["cpu", "cpu"])
    with pytest.raises(TypeError, match="on one device"):
        morph.compact(parts.points, lambda p: p.id > 1)


def test_results_are_gathered_when_all_devices_have_computed_them(monkeypatch):
    first, second = pretended(monkeypatch, 0), Pretended(1)
    ends = np.arange(9), np.arange(1, 10)
    parts = morph.partition(morph.Graph.from_edges(*ends, device="cpu"), [first, second])
    parts.points.add("x", i32)
    parts.points.x[:] = np.arange(10, 20)
    log, put = [], Pretended.put
    monkeypatch.setattr(Pretended, "reach", lambda device, other: True)
    monkeypatch.setattr(Pretended, "synchronize", lambda device: log.append(device.name))
    monkeypatch.setattr(Pretended, "put", lambda *given: (log.append("put"), put(*given))[1])
    found = parts.points.gathered("x", first)
    assert log == ["cuda:1", "put", "cuda:0"]
    assert found.get().tolist() == list(range(10, 20))


@pytest.mark.parametrize("by", ["range", [0, 1, 1, 0, 1]])
def test_results_stay_in_parts_until_they_are_read(by):
    g = morph.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4], directed=False)
    by = by if isinstance(by, str) else np.array(by)
    parts = morph.partition(g, ["cpu"] * 2, by=by)
    found = morph.bfs(parts, 0).distance
    assert isinstance(found, morph.PartitionedArray)
    owned = [p.share("points").ids for p in parts.parts]
    wanted = np.arange(5, dtype=np.int32)
    pieces = [found.local(k).tolist() for k in range(2)]
    assert pieces == [wanted[ids].tolist() for ids in owned]
    assert (found.shape, found.ndim, found.dtype, len(found)) == ((5,), 1, np.int32, 5)
    changed = 1 + found / 2  # each part computes its own values
    assert isinstance(changed, morph.PartitionedArray) and changed.dtype == np.float64
    assert [changed.local(k).tolist() for k in range(2)] == [
        (1 + wanted[i] / 2).tolist() for i in owned
    ]
    assert isinstance(morph.betweenness(parts, [0]).centrality, morph.PartitionedArray)
    assert [found.local(k).tolist() for k in range(2)] == pieces
    assert found[1:3].tolist() == [1, 2] and list(found) == wanted.tolist()
    assert (found + found).tolist() == (2 * wanted).tolist() and found.max() == 4
    assert np.asarray(found, np.float64).dtype == np.float64 and np.array_equal(found, wanted)
    found[0] = 7
    assert found.view(np.uint32)[0] == 7 == found.local(0)[0] and repr(found) == repr(found[:])
    assert found.view()[0] == 7 and found.view(np.int8).size == 4 * found.size
    assert pickle.loads(pickle.dumps(found)).tolist() == found.tolist()
    assert np.from_dlpack(found).tolist() == found.tolist()
    morph.bfs(parts, 4)  # later calls do not change earlier results
    assert found.tolist() == [7, 1, 2, 3, 4]
    with pytest.raises(AttributeError, match="no_such"):
        _ = found.no_such


def test_parts_of_gathered_results(monkeypatch):
    """The rows of a part are chosen on the device of the result, whose index is there, too."""
    first, second = pretended(monkeypatch, 0), Pretended(1)
    g = morph.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4], directed=False, device="cpu")
    found = morph.bfs(morph.partition(g, [first, second], by=np.array([0, 1, 1, 0, 1])), 0).distance
    before = [found.local(k).get().tolist() for k in range(2)]
    assert found.gathered().get().tolist() == [0, 1, 2, 3, 4]
    assert [found.local(k).get().tolist() for k in range(2)] == before == [[0, 3], [1, 2, 4]]
