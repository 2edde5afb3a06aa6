"""Batches of changes: against a model in plain Python, after every step, on every target."""

import numpy as np
import pytest
from batches import Model, interrupted
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended
from targets import tries

import morph
from morph import testing, validate
from morph.graph import adjacency, gapped
from morph.graph.adjacency import Adjacency
from morph.updates import batch, changes, named, recognition

STORE = changes, named, adjacency, gapped, batch


def small(target="cpu", directed=True):
    return morph.Graph.from_edges(
        [0, 0, 1, 2, 2], [1, 2, 3, 3, 2], weight=np.array([5, 1, 1, 9, 4], np.int32), n=5,
        symmetrize=not directed, device=target,
    )  # fmt: skip


@st.composite
def histories(draw, n=7):
    """Edges of a graph, and a few batches."""
    point, weight = st.integers(0, n - 1), st.integers(0, 9)
    edge = st.tuples(point, point, weight)
    batch = st.fixed_dictionaries(
        {
            "inserts": st.lists(edge, max_size=9),
            "by": st.booleans(),
            "ids": st.lists(st.tuples(st.integers(0, 30), weight), max_size=5),
            "pairs": st.lists(edge, max_size=5),
            "deletes": st.lists(st.integers(0, 30), max_size=5),
            "delete_pairs": st.lists(st.tuples(point, point), max_size=6),
            "points": st.lists(point, max_size=2) if draw(st.booleans()) else st.just([]),
            "before": st.sampled_from(["", "", "new point", "compact"]),
        }
    )
    return (
        draw(st.booleans()),
        draw(st.lists(edge, max_size=20)),
        draw(st.lists(batch, min_size=1, max_size=4)),
    )


@pytest.fixture
def in_place(monkeypatch):
    """Have small graphs' rows follow batches of any size in place."""
    monkeypatch.setattr(changes, "SHARE", 0)


def run_history(target, history, n=7):
    directed, edges, steps = history
    src, dst, w = (np.array([e[i] for e in edges], np.int32) for i in range(3))
    g = morph.Graph.from_edges(src, dst, weight=w, n=n, symmetrize=not directed, device=target)
    model = Model(g)
    model.check()
    for b in steps:
        if b["before"] == "compact":
            g.compact()
            model = Model(g)
        if b["before"] == "new point":
            p = int(g.points.new())
            model.points.add(p)
        size, count = len(g.edges), len(g.points)
        points = [p for p in b["points"] if p < count]
        alive = model.points - set(points)
        inserts = [e for e in b["inserts"] if {e[0], e[1]} <= alive]
        pairs = [e for e in b["pairs"] if max(e[:2]) < count]
        ids = [(e, x) for e, x in b["ids"] if e < size]
        model.step(
            inserts,
            deletes=[e for e in b["deletes"] if e < size] if b["by"] else (),
            delete_pairs=[e for e in b["delete_pairs"] if max(e) < count] if not b["by"] else (),
            updates=ids if b["by"] else (),
            update_pairs=pairs if not b["by"] else (),
            points=points,
        )


@tries(40)
@given(history=histories())
def test_batches_on_cpu(history):
    run_history("cpu", history)


@tries(40)
@given(history=histories())
def test_batches_in_place_on_cpu(in_place, history):
    run_history("cpu", history)


@tries(10)
@given(history=histories())
def test_batches_on_python(in_place, history):
    run_history("python", history)


@pytest.mark.unchecked
@pytest.mark.parametrize("few", [0, 1 << 12])
@tries(15)
@given(history=histories())
def test_batches_keep_host_and_device_apart(in_place, monkeypatch, few, history):
    monkeypatch.setattr(batch, "FEW", few)
    run_history(pretended(monkeypatch), history)


@pytest.mark.gpu
@tries(30)
@given(history=histories())
def test_batches_on_cuda(in_place, history):
    run_history("cuda", history)


def churn(target, steps=12, n=60, m=900, most=300):
    """Random batches over few points, many in one row, each followed by the checker."""
    rng = np.random.default_rng(n)

    def ends(k):
        return (rng.integers(0, n, k) * rng.integers(0, 2, k)).astype(np.int32)

    w = rng.integers(0, 9, m).astype(np.int32)
    g = morph.Graph.from_edges(ends(m), ends(m), weight=w, n=n, device=target)
    for direction in ("out", "in"):
        g.adjacency(direction)
    for step in range(steps):
        c, d = (int(rng.integers(1, most)) for _ in range(2))
        ids = rng.choice(g.device.to_host(g.edges.ids()), d, replace=False)
        if step % 3 == 2:  # by pairs, some of them named more than once
            src, dst = (g.device.to_host(g.edges.columns[x].array)[ids] for x in ("src", "dst"))
            g.apply(deletes=(src, dst))
        else:
            g.apply((ends(c), ends(c), np.ones(c, np.int32)), ids)
        assert g.gapped
        validate.index(g)
    return g


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_rows_of_many_changes_at_once(in_place, threads):
    with testing.team(threads):
        churn("cpu")


def test_rows_of_many_changes_are_interpreted(in_place):
    churn("python", 3, 12, 60, 30)


@pytest.mark.parametrize("few", [0, 100])
def test_rows_of_many_changes_where_arrays_lie_apart(in_place, monkeypatch, few):
    monkeypatch.setattr(batch, "FEW", few)
    churn(pretended(monkeypatch), 6)


@pytest.mark.gpu
def test_rows_of_many_changes_on_cuda(in_place):
    churn("cuda")
    churn("cuda", 6, 5000, 400_000, 100_000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inserts": ([0, 9], [1, 1], [1, 1])}, r"inserts.src\[1\] = 9 is not a row of points"),
        ({"inserts": ([0, 1], [1, -1], [1, 1])}, r"inserts.dst\[1\] = -1 is not a row"),
        ({"inserts": ([0], [1, 2])}, "inserts: 1 src and 2 dst"),
        ({"inserts": ([0], [1], [1.5])}, "inserts.weight: cannot store float64"),
        ({"inserts": ([0], [1], [2**40])}, "inserts.weight: 1099511627776 does not fit"),
        ({"inserts": ([0.5], [1])}, "inserts.src holds float64"),
        ({"inserts": ([[0]], [1])}, r"inserts.src has shape \(1, 1\): expected 1"),
        ({"inserts": {"src": [0], "dst": [1], "colour": [2]}}, "edges has no column 'colour'"),
        ({"inserts": {"src": [0]}}, "column 'dst' is missing"),
        ({"inserts": [0]}, "inserts: expected"),
        ({"deletes": [0, 7]}, r"deletes\[1\] = 7 is not a row of edges"),
        ({"deletes": [-1]}, r"deletes\[0\] = -1 is not a row"),
        ({"deletes": [0.5]}, "deletes holds float64"),
        ({"deletes": ([0], [9])}, r"deletes.dst\[0\] = 9 is not a row of points"),
        ({"deletes": ([0], [1, 2])}, "1 src and 2 dst"),
        ({"deletes": ([0], [1], [2])}, "a tuple is"),
        ({"updates": ([9], [1])}, r"updates\[0\] = 9 is not a row of edges"),
        ({"updates": ([0], [1, 2])}, "2 weights for 1 edges"),
        ({"updates": ([0], [1.5])}, r"updates.weight: cannot store"),
        ({"updates": [0]}, "updates: expected"),
        ({"delete_points": [5]}, r"delete_points\[0\] = 5 is not a row of points"),
        ({"delete_points": [1], "inserts": ([0], [1])}, r"inserts.dst\[0\] = 1 is deleted"),
        ({"inserts": ([0], [1], [-1]), "nonnegative": True}, r"weight\[0\] = -1: negative"),
        ({"updates": ([0], [-1]), "nonnegative": True}, r"updates.weight\[0\] = -1: negative"),
    ],
)
def test_what_is_wrong_changes_nothing(change, message):
    g = small()
    model = Model(g)
    good = {"inserts": ([3], [4], [1]), "deletes": [0], "updates": ([1], [8])}
    with pytest.raises((TypeError, ValueError, OverflowError), match=message):
        g.apply(**{**good, **change})
    model.check()


def test_what_a_batch_did():
    g = small()
    done = g.apply(([0, 3, 0], [1, 0, 1], [7, 7, 7]), ([0, 0], [2, 2]), ([4], [6]))
    assert done.inserted.tolist() == [5, 6, 7] and done.deleted.tolist() == [1]
    assert (done.absent, done.repeated, done.present) == (1, 0, 2)
    assert done.old_weight.tolist() == [4] and done.new_weight.tolist() == [6]
    g.apply(deletes=0)
    with pytest.raises(RuntimeError, match="before the graph changes"):
        _ = g.apply(inserts=(0, 1)), done.present
        done._present = -1
        _ = done.present


@pytest.mark.parametrize("there", [False, True])
def test_any_column_and_any_array(monkeypatch, there):
    g = small(pretended(monkeypatch) if there else "cpu", directed=False)
    g.edges.add("at", morph.vec(np.float64, 2), fill=(3, 4))
    g.edges.add("via", morph.Ref("points"))
    g.edges.pack("src", "at")
    g.adjacency("out")

    class Given:  # of another library
        def __dlpack__(self, **options):
            return np.array([1, 4]).__dlpack__(**options)

        def __dlpack_device__(self):
            return np.array([1, 4]).__dlpack_device__()

    given = {"src": Given(), "dst": range(2), "at": [[1, 2], [5, 6]], "via": [2, -1]}
    done = g.apply(given, deletes=g.edges.ids()[:1], updates=(g.device.asarray([4]), True))
    ids = g.device.to_host(done.inserted).tolist()
    at, via, weight = (np.asarray(c).tolist() for c in (g.edges.at, g.edges.via, g.edges.weight))
    assert [at[e] for e in ids] == [[1, 2], [5, 6]] * 2 and at[2] == [3, 4]
    assert [via[e] for e in ids] == [2, -1] * 2 and [weight[e] for e in ids] == [0] * 4
    assert weight[4] == 1
    validate.index(g)
    g.apply({"src": 3, "dst": 4, "at": (7, 8)})
    assert np.asarray(g.edges.at).tolist()[-2:] == [[7, 8]] * 2


def test_ids_are_used_again_and_memory_stays():
    g = small()
    rng = np.random.default_rng(1)
    model = Model(g)
    sizes = []
    for _ in range(60):
        ids = np.asarray(g.edges.ids())
        gone = rng.choice(ids, 3, replace=False)
        model.step([tuple(rng.integers(0, 5, 3)) for _ in range(3)], gone.tolist())
        sizes.append(g.edges.capacity)
    assert sizes[-1] == sizes[10] <= 32
    assert g.edge_order is None or g.edge_order.size <= 5


@pytest.mark.parametrize("target", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_steady_mix_takes_no_more_memory(in_place, monkeypatch, target):
    monkeypatch.setattr(gapped, "LEAST", 64)
    rng = np.random.default_rng(4)
    g = morph.Graph.from_edges(*rng.integers(0, 40, (2, 400)), device=target)
    g.adjacency("in"), g.adjacency("out")
    sizes = []
    for step in range(1200):
        ids = rng.choice(g.device.to_host(g.edges.ids()), 20, replace=False)
        g.apply(tuple(rng.integers(0, 40, (2, 20))), ids)
        rows = [g._adjacency.rows(d) for d in ("out", "in")]
        sizes.append([g.edges.capacity, *(r.limit for r in rows)])
        if step % 100 == 0:
            validate.index(g)
    early, late = np.max(sizes[:600], axis=0), np.max(sizes[600:], axis=0)
    assert late[0] == early[0] <= 520 and (late <= 1400).all()  # 3.5 entries an edge


@pytest.mark.parametrize("target", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_room_that_rows_no_longer_need_is_used_again(in_place, monkeypatch, target):
    monkeypatch.setattr(gapped, "LEAST", 64)
    n, many = 40, 500
    g = morph.Graph.from_edges(*np.arange(2 * n).reshape(2, n) % n, n=n, device=target)
    g.adjacency("in"), g.adjacency("out")
    for p in range(n):  # each point is a hub once
        ends = np.full(many, p), np.arange(many) % n
        g.apply(deletes=g.apply(ends).inserted)
        for rows in g._adjacency._gapped.values():
            assert rows.limit <= 6 * many  # not n times as many
    validate.index(g)


def test_rows_that_need_no_room_get_none(in_place, monkeypatch):
    monkeypatch.setattr(gapped, "LEAST", 64)
    n = 50
    g = morph.Graph.from_edges(np.arange(20 * n) * 7 % n, np.arange(20 * n) % n, n=n)
    g.adjacency("in"), g.adjacency("out")
    for p in range(120):  # rows at sources are moved, those at destinations have capacity
        ends = np.full(n, p % n), np.arange(n)
        g.apply(deletes=g.apply(ends).inserted)
    assert g._adjacency.moves > 10 and g._adjacency.rows("in").limit < 2 * 20 * n
    validate.index(g)


def test_rows_keep_the_room_that_batches_need(in_place, monkeypatch):
    monkeypatch.setattr(gapped, "LEAST", 64)
    rng = np.random.default_rng(1)
    src, dst = morph.generate.rmat(10).edge_list()[:2]
    m = len(src)
    g = morph.Graph.from_edges(src, dst, n=1024)
    g.adjacency("in"), g.adjacency("out")
    before = 0
    for k in range(14):  # a seventh of the edges comes and goes
        before = g._adjacency.moves if k == 7 else before
        ends = src[rng.integers(0, m, m // 7)], dst[rng.integers(0, m, m // 7)]
        g.apply(deletes=g.apply(ends).inserted)
    assert g._adjacency.moves - before <= 5  # rows that began again with the least capacity: 14
    assert max(r.limit for r in g._adjacency._gapped.values()) < 1.75 * m
    validate.index(g)


@pytest.mark.parametrize("directed", [True, False])
def test_whatever_stops_a_batch_nothing_has_changed(in_place, directed):
    def fresh():
        g = small(directed=directed)
        model = Model(g)
        model.step([(0, 3, 2), (1, 3, 2)], [1])
        return model, g

    def change(g):
        more = ([4, 4, 4, 0, 0, 0], [0, 1, 4, 0, 1, 3], 1)
        return g.apply(
            dict(zip(("src", "dst", "weight"), more, strict=True)),
            ([3, 0], [3, 1]),
            ([3], [6]),
            [2],
        )

    g = fresh()[1]
    before = g.edges.live
    change(g)  # kernels are compiled
    after, n = g.edges.live, 1
    assert after != before
    while True:
        model, g = fresh()
        error = (KeyboardInterrupt, MemoryError)[n % 2]
        if not interrupted(lambda g=g: change(g), n, error, STORE):
            break
        if g.edges.live == before:
            model.check()
        else:  # it had ended, but for saying so
            assert g.edges.live == after
            validate.index(g)
        n += 3 if directed else 2
    assert n > 100


def test_reverses_of_a_graph_that_is_not_symmetric():
    g = morph.Graph.from_edges([0, 1], [1, 0], n=3, symmetric=True)
    assert g.reverses().tolist() == [1, 0]
    g.edges.new(1, 2)
    with pytest.raises(ValueError, match="1 -> 2 has no reverse"):
        g.apply(([0], [1]))
    with pytest.raises(ValueError, match="is directed"):
        small().reverses()


def test_the_checker_takes_any_weights():
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=[np.nan, 1], symmetrize=True)
    g.reverses(), validate.index(g)
    g.apply(deletes=[0]), g.apply(deletes=g.edges.ids()), validate.index(g)
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=[0, 1], symmetrize=True)
    g.reverses(), g.edges.drop("weight"), g.edges.add("weight", morph.vec(np.float64, 2))
    validate.index(g)
    g.edges.weight.array[0, 1] = 3
    with pytest.raises(validate.WrongAnswer, match="edge 0: . is not its reverse"):
        validate.index(g)


def test_the_checker_finds_what_is_wrong():
    g = small()
    offsets, _ = g.adjacency("in")
    offsets[2] += 1
    with pytest.raises(validate.WrongAnswer, match="in: the index has"):
        validate.index(g)
    g = small(directed=False)
    g.reverses()[0] = 1
    with pytest.raises(validate.WrongAnswer, match="edge 0: . is not its reverse"):
        validate.index(g)


def test_dead_edges_have_no_reverse():
    g = morph.Graph.from_edges([0, 0, 1], [1, 2, 2], weight=[1, 2, 3], directed=False)
    before = g.reverses().copy()

    def fails(applied):
        assert (g.reverses()[applied.deleted] == -1).all()
        raise MemoryError

    for asked in ({"deletes": ([0], [1])}, {"deletes": [1], "inserts": ([0], [0], [1])}):
        with pytest.raises(MemoryError):
            g.apply(**asked, then=fails)
        assert g.reverses().tolist() == before.tolist()
    gone = g.apply(deletes=([0], [1])).deleted
    assert (g.reverses()[gone] == -1).all() and (g.reverses() >= 0).sum() == 4
    with pytest.raises(MemoryError):
        g.apply(([1], [0], [7]), then=fails)
    assert (g.reverses()[gone] == -1).all()
    validate.index(g)


@morph.kernel
def die(e):
    e.delete()


@pytest.mark.parametrize("loose", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda g: g.apply(deletes=[1]),
        lambda g: g.edges.delete(1),
        lambda g: g.points.new(),
        lambda g: g.edges.extend(1, src=0, dst=1),
        lambda g: g.edges.src.__setitem__(0, 2),
        lambda g: g.compact(),
        lambda g: g.sort_edges(),
        lambda g: morph.foreach(g.edges, die),
    ],
)
def test_the_callback_of_a_batch_changes_nothing(in_place, change, loose):
    g = small("python")
    if loose:
        g.adjacency("out")
    g.apply(([0], [4], [1]))
    model = Model(g)
    for then in (lambda _: change(g), lambda _: len(g.edges)):
        try:
            g.apply(([0], [3], [1]), [2], then=then)
        except RuntimeError as error:
            assert "`then` of Graph.apply may not change" in str(error)
            model.check()
    assert len(g.edges) == 7 and g.edges.is_dead(2)
    g.points.new()


@pytest.mark.parametrize("straight", [True, False])
def test_fast_path_and_slow_path_return_the_same(in_place, monkeypatch, straight):
    monkeypatch.setattr(
        recognition, "recognise", recognition.recognise if straight else lambda *_: None
    )
    g = small(directed=False)
    g.adjacency("out")
    g.edges.weight[:] = np.arange(9)
    back = g.reverses()[[0, 1]].tolist()
    with pytest.raises(KeyError):
        g.apply(updates=([0], [7]), then=lambda _: {}[0])
    assert g.edges.weight.array.tolist() == list(range(9))
    done = g.apply(deletes=[1], updates=([0], [7]))
    g.edges.drop("weight")
    assert sorted(done.old_weight.tolist()) == sorted([0, back[0]])
    assert sorted(done.deleted_weight.tolist()) == sorted([1, back[1]])
    with pytest.raises(TypeError, match="no column 'weight'"):
        g.apply({"src": [0], "dst": [1], "weight": None})
    done = g.apply(deletes=[4])
    g.edges.add("weight", morph.Ref("points"))
    assert done.deleted_weight is None
    with pytest.raises(ValueError, match=r"inserts.weight\[0\] = 99 is not a row of points"):
        g.apply(([0], [1], [99]))
    assert g.apply(([0], [1], [3])).new_weight.size == 0
    g.points.delete(3), g.adjacency("out")  # its edges go with it
    assert g.apply(deletes=([2, 2], [3, 2])).absent == 1
    assert g.apply(delete_points=[1]).deleted.size == 4 and g.gapped


@pytest.mark.parametrize(
    "where",
    [
        (Adjacency, "table_for"),
        (Adjacency, "_sides"),
        (morph.Table, "_bind_columns"),
        (morph.Table, "_send_counters"),
    ],
)
def test_the_first_batch_is_interrupted(in_place, monkeypatch, where):
    g = small()
    g.adjacency("out")
    g.apply(updates=([0], [1]))
    index = g._adjacency
    index._report, index._batches = None, {}
    index.arcs(None), index.table_for(3)
    model, real, before = Model(g), getattr(*where), g.edges.capacity

    def interrupt(self, *args):
        monkeypatch.setattr(*where, real)
        real(self, *args)
        raise KeyboardInterrupt

    monkeypatch.setattr(*where, interrupt)
    with pytest.raises(KeyboardInterrupt):
        g.apply(([0, 1, 2], [1, 2, 3], [1, 2, 3]))
    assert g.edges.capacity == g.edges._host_meta[1] == len(g.edges.columns["src"].array) == before
    model.check()
    model.step([(0, 4, 2)])


@pytest.mark.parametrize("count", [1, 2])  # a batch of one change, and of several
def test_recycled_ids_have_no_input_position(count):
    g = morph.Graph.from_edges(np.arange(40) % 5, np.arange(40) % 7)
    g.adjacency("out")
    g.apply(None, [11, 3])
    recycled = set()
    while len(recycled) < 2:
        done = g.apply(([0] * count, [0] * count))
        recycled |= {e for e in np.asarray(done.inserted).tolist() if e < 40}
    assert g.gapped and recycled == {3, 11}
    assert np.flatnonzero(np.asarray(g.edge_order) < 0).tolist() == [3, 11]
