"""Batches of one change, by prepared launches."""

import numpy as np
import pytest
from batches import interrupted
from pretend import pretended
from targets import host

import morph
from morph import validate
from morph.algorithms.dynamic import following
from morph.data.versions import advance_epoch
from morph.graph import Graph
from morph.launch import launcher
from morph.launch.prepared import Prepared
from morph.updates import fast_path, kept, recognition, single
from morph.updates.many import ManyChanges
from morph.updates.single import SingleChanges

N, RUN_REPAIR = 300, following.Dynamic._run_repair


def a_graph(device="cpu"):
    rng = np.random.default_rng(5)
    src, dst = rng.integers(0, N, (2, 900))
    w = rng.integers(1, 50, 900).astype(np.int32)
    kept = src != dst
    return Graph.from_edges(
        src[kept], dst[kept], weight=w[kept], n=N, symmetrize=True, device=device
    )


def after_batches():
    """A graph with gapped rows, its distances, the farthest point, an edge to the one before it."""
    g = a_graph()
    paths = morph.DynamicSSSP(g, 0)
    far = int(np.where(paths.distance < 10**9, paths.distance, -1).argmax())
    e = int(np.flatnonzero(g.edges.dst.array == int(paths.predecessor[far]))[0])
    paths.apply(inserts=([1, 2], [3, 4], [49, 49]))
    paths.apply(deletes=([1], [3]))
    return g, paths, far, e


@pytest.fixture
def made(monkeypatch):
    """What the prepared launches have applied."""
    apply, found = SingleChanges.apply, []

    def counted(self, *args):
        found.append(apply(self, *args))
        return found[-1]

    monkeypatch.setattr(SingleChanges, "apply", counted)
    return found


def some_changes(g, rng, count):
    """Random changes in all forms; some name no edge, some are loops, some lengthen a row."""
    for k in range(count):
        e = int(rng.integers(0, len(g.edges)))
        u, v = (0, int(rng.integers(0, N))) if k % 3 else rng.integers(0, N, 2).tolist()
        w = int(rng.integers(0, 50))
        yield [
            {"inserts": (u, v, w)},
            {"inserts": (np.array([u]), np.int8(v % 100), np.array([w]))},
            {"deletes": np.array([e])},
            {"deletes": (v, u)},
            {"updates": (e, np.array([w], np.int32))},
            {"updates": (np.array([u]), np.array([v]), w)},
            {"inserts": (u, v)},
        ][int(rng.integers(0, 7))]


@pytest.mark.parametrize(
    "target", ["cpu", "pretended", pytest.param("cuda", marks=pytest.mark.gpu)]
)
def test_distances_and_predecessors_are_those_of_a_new_run(made, target, monkeypatch):
    target = pretended(monkeypatch) if target == "pretended" else target
    g, rng = a_graph(target), np.random.default_rng(7)
    paths, levels = morph.DynamicSSSP(g, 0), morph.DynamicBFS(g, 0)
    kept = []
    for k, change in enumerate(some_changes(g, rng, 300)):
        first, second = (paths, levels) if k % 5 else (levels, paths)
        done = first.apply(**change)
        second.update(done.applied)
        kept += [done.applied] if k % 7 == 0 else []
        if k % 60 == 0:
            advance_epoch()  # an object elsewhere is new
        if k % 20 == 19:
            for one, new in ((paths, morph.sssp(g, 0)), (levels, morph.bfs(g, 0))):
                assert (host(one.distance) == host(new.distance)).all()
            validate.sssp(g, paths.distance, paths.predecessor)
    assert len(made) > 200
    assert sum(a.inserted.size + a.deleted.size + a.updated.size for a in kept) > 40
    validate.index(g)


@pytest.mark.parametrize("target", ["pretended", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_arrays_of_one_element_may_lie_on_the_device(made, target, monkeypatch):
    g = a_graph(pretended(monkeypatch) if target == "pretended" else target)
    paths, rng = morph.DynamicSSSP(g, 0), np.random.default_rng(6)
    for _ in range(8):
        u, v, w, x = (g.device.asarray(np.array([x])) for x in (*rng.integers(0, N, 2), 7, 9))
        new = paths.apply(inserts=(u, v, w)).applied.inserted
        paths.apply(updates=(u, v, x)), paths.apply(deletes=new[:1])
    assert len(made) > 20 and None not in made
    assert (host(paths.distance) == host(morph.sssp(g, 0).distance)).all()
    with pytest.raises(ValueError, match=r"inserts.dst\[0\] = 300"):
        paths.apply(inserts=(u, g.device.asarray(np.array([N])), w))


def test_a_repair_that_pauses_goes_on(made, monkeypatch):
    monkeypatch.setattr(following, "ALONE", 1)
    g, rng = a_graph(), np.random.default_rng(8)
    paths = morph.DynamicSSSP(g, 0)
    paths.share = 0.5
    found = {paths.apply(**change).decision for change in some_changes(g, rng, 60)}
    paths.share = 0.01  # 3 points
    found |= {paths.apply(deletes=(0, int(g.edges.dst[e]))).decision
              for e in np.flatnonzero(g.edges.src.array == 0)[:20]}  # fmt: skip
    assert found == {"repaired", "recomputed"} and len(made) > 60
    assert (paths.distance == morph.sssp(g, 0).distance).all()


def test_wrong_changes_are_refused_and_leave_all_as_it_was(made):
    g = a_graph()
    paths = morph.DynamicSSSP(g, 0)
    for e in range(3):
        paths.apply(updates=(e, 9))
    before = paths.distance, g.edges.weight.array.copy(), len(g.edges)
    for change, message in (
        ({"inserts": (0, N, 3)}, r"inserts.dst\[0\] = 300"),
        ({"inserts": (0, 1, -3)}, r"inserts.weight\[0\] = -3"),
        ({"updates": (0, 2**40)}, "updates"),
        ({"deletes": 2**70}, "deletes"),
        ({"inserts": (0, 1, 2, 3)}, "inserts"),
    ):
        with pytest.raises((TypeError, ValueError, OverflowError), match=message):
            paths.apply(**change)
    assert made and (paths.distance == before[0]).all()
    assert (g.edges.weight.array == before[1]).all() and len(g.edges) == before[2]
    g.edges.drop("weight")
    g.edges.add("weight", np.float64, fill=1)
    with pytest.raises(TypeError, match="make another DynamicSSSP"):
        paths.apply(updates=(0, 9))


@pytest.mark.parametrize("kind", ["inserts", "deletes", "updates"])
def test_a_repair_that_fails_puts_the_graph_back(made, monkeypatch, kind):
    g, paths, far, e = after_batches()
    for w in range(1, 4):
        paths.apply(updates=(e, w))
    before = paths.distance, g.edges.weight.array.copy(), len(g.edges), g.edges.live

    def fails(self, *args):
        raise ZeroDivisionError

    monkeypatch.setattr(following.Dynamic, "_run_repair", fails)
    change = {"inserts": (0, far, 1), "deletes": e, "updates": (e, 40)}[kind]
    count = len(made)
    with pytest.raises(ZeroDivisionError):
        paths.apply(**{kind: change})
    assert len(made) == count + 1 and made[-1] is not None
    monkeypatch.undo()
    assert (paths.distance == before[0]).all() and (g.edges.weight.array == before[1]).all()
    assert (len(g.edges), g.edges.live) == before[2:]
    validate.index(g)
    paths.apply(updates=(e, 2))
    assert (paths.distance == morph.sssp(g, 0).distance).all()


def test_a_launch_is_looked_up_again_only_if_something_has_changed(monkeypatch):
    g, paths, far, e = after_batches()
    for w in (1, 2, 3):
        paths.apply(updates=(e, w))
    looked_up, look_up, latest = [], Graph.single_changes, [None]
    monkeypatch.setattr(Graph, "single_changes", lambda g: looked_up.append(1) or look_up(g))

    def lookups():
        """How often it is looked up for some changes, which have two tables in turn."""
        before = len(looked_up)
        for change in {"updates": (e, 4)}, {"inserts": (0, far, 9)}, {"deletes": (0, far)}:
            latest[0] = paths.apply(**change)  # the one before is in use meanwhile
        return len(looked_up) - before

    for change in (
        lambda: None, lambda: setattr(paths, "share", 0.3), advance_epoch, paths.refresh,
        g.structure_changed, lambda: g.points.extend(1), lambda: g.apply(inserts=([0, 1], [2, 3])),
        lambda: monkeypatch.setattr(launcher, "seed", 3),
    ):  # fmt: skip
        change()
        assert lookups() > 0 or not looked_up
        lookups(), lookups()
        assert lookups() == 0
        assert (paths.distance == morph.sssp(g, 0).distance).all()
        validate.sssp(g, paths.distance, paths.predecessor)
    with morph.checked():
        assert lookups() > 0
    validate.index(g)


@pytest.mark.parametrize("target", ["cpu", "pretended"])
def test_results_are_made_before_the_host_waits(made, target, monkeypatch):
    g = a_graph(pretended(monkeypatch) if target == "pretended" else target)
    paths, order = morph.DynamicSSSP(g, 0), []
    for w in (1, 2, 3):
        paths.apply(updates=(0, w))

    def noted(kind, name):
        method = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda *args: order.append(name) or method(*args))

    noted(SingleChanges, "_describe"), noted(Prepared, "_start"), noted(Prepared, "_result")
    for values in paths, g:
        values.apply(updates=(0, 4))
        assert order == ["_start", "_describe", "_result"]
        order.clear()

    def fails(self, *args):
        raise ZeroDivisionError

    before = host(paths.distance).tolist(), host(g.edges.weight.array).tolist()
    monkeypatch.setattr(SingleChanges, "_describe", fails)
    with pytest.raises(ZeroDivisionError):
        paths.apply(updates=(0, 40))
    assert (host(paths.distance).tolist(), host(g.edges.weight.array).tolist()) == before


def test_changes_without_a_follower(made):
    g, rng = a_graph(), np.random.default_rng(9)
    for change in some_changes(g, rng, 100):
        g.apply(**change)
    assert len(made) > 50
    validate.index(g)


def test_rows_of_in_edges_that_are_built_later_are_followed(made):
    rng = np.random.default_rng(1)
    g = Graph.from_edges(*rng.integers(0, 50, (2, 300)), n=50, device="cpu")
    g.index("out")
    g.apply(deletes=0)
    done = [g.apply(deletes=e) for e in range(1, 4)]
    done += [g.apply(inserts=(4, 5))]
    assert len(made) > 2 and [(a.given, type(a.given)) for a in done[2:]] == [(0, int), (1, int)]
    levels = morph.DynamicBFS(g, 0)
    levels.share = 0.9
    for e in range(4, 9):  # the first one binds the repair, which reads in-edges
        levels.apply(deletes=e)
        validate.index(g)
    assert levels._bound_repairs
    assert (levels.distance == morph.bfs(g, 0).distance).all()
    g.structure_changed()
    g.index("out")
    for e in range(9, 13):
        g.apply(deletes=e)
    g.index("in")
    g.apply(deletes=13)
    validate.index(g)


def test_numbers_that_a_column_cannot_hold_are_left_to_the_other_path():
    i2, u1, f4 = np.dtype(np.int16), np.dtype(np.uint8), np.dtype(np.float32)
    for x, dtype, held in (
        (5, i2, 5), (2**15, i2, None), (-(2**15), i2, -(2**15)), (-1, u1, None), (255, u1, 255),
        (1.5, i2, None), (np.float32(1.5), f4, 1.5), (2**24 + 1, f4, None), (1e39, f4, None),
        (float("nan"), f4, None), (np.array([3]), f4, 3), (np.array([1, 2]), f4, None),
        (True, i2, None), ([3], i2, None),
    ):  # fmt: skip
        assert recognition.weight_in(x, dtype) == held
    for x, held in (
        (3, 3), (np.array(4, np.uint8), 4), (np.array([5.0]), None), (True, None), (2**63, None),
        (np.array([1, 2]), None), ("1", None),
    ):  # fmt: skip
        assert recognition.integer(x) == held


@pytest.mark.parametrize("kind", ["inserts", "deletes", "updates"])
def test_whatever_stops_a_change_nothing_has_changed(made, kind):
    n, stopped = 1, 0
    while True:
        g, paths, far, e = after_batches()
        for w in (1, 2):
            paths.apply(updates=(e, w))
        before = g.edges.weight.array.copy(), g.edges.live, paths.distance
        change = {kind: {"inserts": (0, far, 1), "deletes": e, "updates": (e, 40)}[kind]}
        error = (KeyboardInterrupt, MemoryError)[n % 2]
        modules = [single, fast_path, kept, *([following] if error is KeyboardInterrupt else [])]
        if not interrupted(lambda p=paths, c=change: p.apply(**c), n, error, modules):
            break
        validate.index(g)
        assert (paths.distance == morph.sssp(g, 0).distance).all()
        if error is MemoryError:  # an interrupt may come when the graph has changed
            same = g.edges.live == before[1] and (paths.distance == before[2]).all()
            assert same and (g.edges.weight.array[: len(before[0])] == before[0]).all(), n
        n, stopped = n + 3, stopped + 1
    assert stopped > 15


# --- several changes, on a device that the host waits for ----------------------------------------


def some_batches(g, rng, count):
    """Batches of one kind, or of all; some name edges twice, or none."""
    for k in range(count):
        size = (3, 100, 200)[k % 3]
        u, v = rng.integers(0, N, (2, size))
        v = np.where(u == v, (v + 1) % N, v) if k % 4 else v
        w = rng.integers(0, 50, size).astype(np.int32)
        ids = rng.integers(0, len(g.edges), size)
        ends = tuple(host(getattr(g.edges, c).array)[ids] for c in ("src", "dst"))
        there = ends if (ends[0] >= 0).all() else (u, v)
        yield [
            {"inserts": (u.astype(np.int32), v.astype(np.int32), w)},
            {"deletes": ids},
            {"deletes": there},
            {"updates": (*there, w)},
            {"inserts": (u, v, 7), "deletes": ids[:4], "updates": (u, v, w)},
        ][k % 5]


@pytest.fixture
def together(monkeypatch):
    """What the prepared launches of several changes have applied."""
    apply, found = ManyChanges.apply_many, []

    def counted(self, *args):
        found.append(apply(self, *args))
        return found[-1]

    monkeypatch.setattr(ManyChanges, "apply_many", counted)
    return found


@pytest.mark.parametrize("target", ["pretended", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_batches_are_as_on_the_host(together, target, monkeypatch):
    """The same ids, counts and records as without prepared launches, and distances of a new run."""
    target = pretended(monkeypatch) if target == "pretended" else target
    g, g2, rng = a_graph(target), a_graph(), np.random.default_rng(7)
    paths, other, count = morph.DynamicSSSP(g, 0), morph.DynamicSSSP(g2, 0), 0
    for k, change in enumerate(some_batches(g, rng, 60)):
        if k % 6 == 0:
            g.apply(**change), g2.apply(**change)
            continue
        one, two = (x.apply(**change).applied for x in (paths, other))
        counts = [(a.absent, a.repeated, a.given, a._changes) for a in (one, two)]
        assert counts[0] == counts[1]
        for name in ("inserted", "deleted", "deleted_weight", "updated", "old_weight"):
            assert host(getattr(one, name)).tolist() == getattr(two, name).tolist(), (k, name)
        count += one.absent + one.repeated
    assert sum(x is not None for x in together) > 25 and count > 100
    assert (host(paths.distance) == other.distance).all()
    assert (host(paths.distance) == host(morph.sssp(g, 0).distance)).all()
    validate.sssp(g, paths.distance, paths.predecessor)
    validate.index(g)
    orders = [None if x.edge_order is None else host(x.edge_order).tolist() for x in (g, g2)]
    assert orders[0] == orders[1]


def test_batches_that_are_refused_or_fail_leave_all_as_it_was(together, monkeypatch):
    g = a_graph(pretended(monkeypatch))
    paths, u, v = morph.DynamicSSSP(g, 0), np.arange(1, 40), np.arange(2, 41)
    for w in (9, 8, 7):
        paths.apply(inserts=(u, v, np.full(39, w)))
        g.apply(updates=(u, v, np.full(39, w)))
        paths.refresh()
    before = host(paths.distance).tolist(), host(g.edges.weight.array).tolist(), g.edges.live
    count = len(together)
    for change, message in (
        ({"inserts": (u, np.append(v[1:], N), 3)}, r"inserts.dst\[38\] = 300"),
        ({"inserts": (u, v, np.append(u[1:], -3))}, r"inserts.weight\[38\] = -3"),
    ):
        with pytest.raises(ValueError, match=message):
            paths.apply(**change)
    assert len(together) > count and together[-1] is None

    def fails(self, *args):
        raise ZeroDivisionError

    monkeypatch.setattr(following.Dynamic, "_run_repair", fails)
    with pytest.raises(ZeroDivisionError):
        paths.apply(inserts=(np.zeros(39, int), v, np.zeros(39, int)))
    monkeypatch.setattr(following.Dynamic, "_run_repair", RUN_REPAIR)
    assert together[-1] is not None and g.edges.live == before[2]
    assert (host(paths.distance).tolist(), host(g.edges.weight.array).tolist()) == before[:2]
    validate.index(g)
    paths.apply(inserts=(np.zeros(39, int), v, np.ones(39, int)))
    assert (host(paths.distance) == host(morph.sssp(g, 0).distance)).all()
