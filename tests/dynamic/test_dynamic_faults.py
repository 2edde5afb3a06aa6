"""A batch that fails at any place leaves graph, distances and predecessors unchanged."""

from __future__ import annotations

import numpy as np
import pytest
from batches import interrupted
from graphs import grid
from targets import host

import morph
from morph import validate
from morph.algorithms.dynamic import dynamic as dynamic_module
from morph.algorithms.dynamic import following, repair
from morph.data.collection import Collection
from morph.testing import fail_allocation, team

FAR = np.iinfo(np.int64).max
SIDE = 9


def start(target, kind=np.int32):
    src, dst = grid(SIDE)
    key = np.minimum(src, dst).astype(np.int64) * 1000 + np.maximum(src, dst)
    weight = (key * 2654435761 % 7).astype(kind)  # some are 0
    g = morph.Graph.from_edges(src, dst, weight=weight, symmetric=True, device=target)
    return g, morph.DynamicSSSP(g, 0)


def batch(g):
    ids = np.arange(0, len(g.edges), 17)
    weight = np.arange(4).astype(host(g.edges.weight).dtype)
    return {
        "inserts": ([0, 5, 70, 3], [80, 40, 2, 77], weight),
        "deletes": ids, "updates": (ids[:4] + 1, weight * 9),
    }  # fmt: skip


def state(dynamic):
    g = dynamic.graph
    edges = sorted(zip(*(host(a).tolist() for a in g.edge_list()), strict=True))
    return edges, host(dynamic.distance).tolist(), host(dynamic.predecessor).tolist()


def good(dynamic):
    validate.sssp(dynamic.graph, dynamic.distance, dynamic.predecessor, source=dynamic.sources)


@pytest.mark.parametrize(
    ("device", "threads", "step"),
    [("cpu", 1, 1), ("cpu", 3, 41), pytest.param("cuda", 1, 41, marks=pytest.mark.gpu)],
)
def test_every_allocation_fails_once(device, threads, step):
    g, dynamic = start(device)
    dynamic.share = 1.0
    src, dst, weight = (host(a)[::41] for a in g.edge_list())
    more = [0, 5, 70], [80, 40, 2]
    forth = {"deletes": (src, dst), "inserts": (*more, [0, 1, 2])}
    back = {"deletes": more, "inserts": (src, dst, weight)}
    want = []
    for batch in (forth, back):
        dynamic.apply(**batch)
        good(dynamic)
        want.append(state(dynamic)[:2])
    n, fired = 1, True
    with team(threads):
        while fired:
            fired = False
            for batch, after in zip((forth, back), want, strict=True):
                with fail_allocation(n, device) as fault:
                    dynamic.apply(**batch)
                fired |= fault.fired
                assert state(dynamic)[:2] == after
                for c in (*vars(dynamic).values(), *dynamic._queue):
                    if isinstance(c, Collection):  # as small as before
                        c.resize(200)
            good(dynamic)
            n += step
    assert n > 100


def test_whatever_line_stops_a_batch():
    """Of what follows a graph, repaired or recomputed: all of it is done, or nothing."""
    ended = 0
    for share, step in ((1.0, 1), (0.1, 2)):
        g, dynamic = start("cpu")
        dynamic.share = share
        before, n = state(dynamic), 1
        dynamic.apply(**batch(g))
        after = state(dynamic)
        while True:
            g, dynamic = start("cpu")
            dynamic.share = share
            error = (KeyboardInterrupt, MemoryError)[n % 4 > 1]
            change = lambda d=dynamic, g=g: d.apply(**batch(g))  # noqa: E731
            if not interrupted(change, n, error, (following, dynamic_module)):
                break
            now = state(dynamic)
            assert now == before or now[:2] == after[:2]
            ended += now != before
            good(dynamic)
            n += step
        assert n > 40
    assert ended < 20  # lines behind the batch


@pytest.mark.parametrize("share", [1.0, 0.1])
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_no_memory_and_interrupts(target, monkeypatch, share, error):
    """Whichever list cannot grow, and when a repair has begun, or ended."""
    g, dynamic = start(target)
    dynamic.share = share
    before, grow, calls = state(dynamic), Collection.grow, [0]

    def refuse(self, rows):
        calls[0] -= 1
        if calls[0] == 0:
            raise error
        grow(self, rows)

    with monkeypatch.context() as patch:
        patch.setattr(Collection, "grow", refuse)
        for n in range(1, 5):
            calls[0] = n
            try:
                dynamic.apply(**batch(g))
            except error:
                assert state(dynamic) == before
            else:  # no list had to grow any more
                assert calls[0] > 0
                break
    real = following.Dynamic._repair

    def fails_behind(self, applied):
        real(self, applied)
        raise error

    g, dynamic = start(target)
    dynamic.share = share
    before = state(dynamic)
    with monkeypatch.context() as patch:
        patch.setattr(following.Dynamic, "_repair", fails_behind)
        with pytest.raises(error):
            dynamic.apply(**batch(g))
    assert state(dynamic) == before
    done = dynamic.apply(**batch(g))
    assert done.decision == ("repaired" if share == 1 else "recomputed")
    good(dynamic)


def test_what_goes_beyond_the_share_is_given_up_at_once(target, monkeypatch):
    """A cut below which nearly all hangs: the walk ends there, and not after all of it."""
    n = 400 if target == "python" else 3000
    path = np.arange(n - 1)
    g = morph.Graph.from_edges(path, path + 1, weight=path * 0 + 1, n=n, symmetrize=True,
                               device=target)  # fmt: skip
    found = []
    for kind in (morph.DynamicSSSP, morph.DynamicBFS, morph.DynamicComponents):
        found.append(kind(g) if kind is morph.DynamicComponents else kind(g, 0))
    done = g.apply(deletes=([10], [11]))
    for one in found:
        with monkeypatch.context() as patch:
            logs = []
            real = type(one)._recompute
            patch.setattr(type(one), "_recompute",
                          lambda self, k, real=real, logs=logs: logs.append(len(self._log))
                          or real(self, k))  # fmt: skip
            assert one.update(done).decision == "recomputed"
        assert one.share * n < logs[0] < (one.share + 0.25) * n
    validate.sssp(g, found[0].distance, found[0].predecessor)
    assert host(found[2].label).tolist() == [0] * 11 + [11] * (n - 11)


def test_what_is_refused(target):
    g, dynamic = start(target)
    before = state(dynamic)
    for asked, error, match in (
        ({"inserts": ([0], [81], [1])}, ValueError, r"inserts.dst\[0\] = 81"),
        ({"inserts": ([0], [1], [-1])}, ValueError, r"inserts.weight\[0\] = -1"),
        ({"updates": ([0], [-5])}, ValueError, r"updates.weight\[0\] = -5"),
        ({"deletes": [999]}, ValueError, r"deletes\[0\] = 999"),
        ({"delete_points": [0]}, ValueError, "point 0 cannot be deleted: it is a source"),
    ):
        with pytest.raises(error, match=match):
            dynamic.apply(**asked)
        assert state(dynamic) == before
    with pytest.raises(ValueError, match="not directed"):
        morph.DynamicComponents(morph.Graph.from_edges([0], [1], device=target))
    odd = morph.Graph.from_edges([0, 1], [1, 0], weight=[1, 2], symmetric=True, device=target)
    with pytest.raises(ValueError, match="equal weights both ways"):
        morph.DynamicSSSP(odd)


def test_overflow_is_refused(target):
    big = 2**62
    g = morph.Graph.from_edges([0, 1, 0], [1, 2, 2], weight=[big, 5, 7], device=target)
    dynamic = morph.DynamicSSSP(g, 0)
    dynamic.share = 1.0
    before = state(dynamic)
    with pytest.raises(OverflowError, match="the distance of vertex 2, reached from vertex 1"):
        dynamic.apply(updates=([2], [big]), deletes=[1])
    assert state(dynamic) == before
    dynamic.apply(updates=([2], [big]))  # too long, but there is a shorter path
    assert host(dynamic.distance).tolist() == [0, big, 7]


def test_changes_by_others_are_noticed(target):
    g, dynamic = start(target)
    levels = morph.DynamicBFS(g, 0)
    g.apply(inserts=([0], [80], [0]))
    assert host(dynamic.distance)[80] == 0 and host(levels.distance)[80] == 1
    g.apply(updates=(([0], [80], [3])))
    good(dynamic)
    done = dynamic.apply(deletes=([0], [80]))
    other = levels.update(done.applied)
    assert other.applied is done.applied
    validate.bfs(g, levels.distance, levels.predecessor)
    g.points.extend(2)
    dynamic.apply(inserts=([80, 81], [81, 82], [1, 1]))
    good(dynamic)
    assert len(dynamic.distance) == SIDE * SIDE + 2
    g.edges.weight[:] = 1
    dynamic.refresh()
    good(dynamic)
    dynamic.apply(deletes=[3, 4])
    g.compact()
    good(dynamic)
    dynamic.apply(delete_points=[7])
    g.compact()
    with pytest.raises(RuntimeError, match="renumbered by compact"):
        dynamic.apply(deletes=[3])


def test_batches_reported_late_or_of_another_graph(target):
    g, dynamic = start(target)
    first = g.apply(updates=([0, 1], [9, 9]))
    g.apply(deletes=[2, 3])
    dynamic.update(first)  # the graph has changed again
    good(dynamic)
    dynamic.update(g.apply(updates=([5], [0])))
    good(dynamic)
    last = g.apply(inserts=([0], [80], [1]), deletes=[2, 3, 4])
    g.compact()
    dynamic.update(last)  # whose ids mean other edges by now
    good(dynamic)
    other = start(target)[0].apply(deletes=[1])
    with pytest.raises(ValueError, match="another graph"):
        dynamic.update(other)
    with pytest.raises(TypeError, match="applied is a result of Graph.apply, not None"):
        dynamic.update(None)
    good(dynamic)
    levels = morph.DynamicBFS(g, 0)
    for batch in ({"updates": ([5], [-1])}, {"inserts": ([1], [4], [-1])}):
        applied = g.apply(**batch)
        with pytest.raises(ValueError, match="has weight -1"):
            dynamic.update(applied)
        assert levels.update(applied).applied is applied  # which has no use for weights
        restored = host(applied.inserted).tolist() + host(applied.updated).tolist()
        g.apply(updates=(restored, [1] * len(restored)))
        levels.refresh()
    good(dynamic)


VALUES = {
    morph.DynamicSSSP: lambda x: host(x.distance).tolist(),
    morph.DynamicBFS: lambda x: host(x.distance).tolist(),
    morph.DynamicComponents: lambda x: host(x.label).tolist(),
    morph.DynamicCores: lambda x: host(x.core).tolist(),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("how", ["read", "refresh"])
@pytest.mark.parametrize("parts", [False, True])
def test_then_reads_the_new_values_and_raises(kind, how, parts):
    """The values of before the batch come back, though `then` has read those of after it."""
    if parts and kind is morph.DynamicCores:
        pytest.skip("takes no partitioned graph")
    device = "python" if parts else "cpu"
    ends = [0, 1, 0], [1, 2, 2], [4, 4, 9]
    g = morph.Graph.from_edges(*ends, n=5, directed=False, device=device)
    x = kind(morph.partition(g, [device] * 2) if parts else g)
    before, seen = VALUES[kind](x), []

    def then(applied):
        x.refresh() if how == "refresh" else None
        seen.append(VALUES[kind](x))
        raise KeyError

    for change in (
        {"inserts": ([0, 2], [3, 1], [1, 1])},
        {"deletes": ([1, 0], [2, 1])},
        {"deletes": ([0], [2]), "inserts": ([3, 3], [0, 2], [1, 1])},
    ):
        with pytest.raises(KeyError):
            x.apply(**change, then=then)
        assert VALUES[kind](x) == before
        other = morph.Graph.from_edges(*ends, n=5, directed=False, device=device)
        other.apply(**change)
        assert seen.pop() == VALUES[kind](kind(other))
    x.apply(inserts=([4], [2], [1]))
    after = VALUES[kind](x)
    x.refresh()
    assert after == VALUES[kind](x) != before


def test_edges_that_have_lost_an_end(target):
    src, dst = [0, 1, 0, 0], [1, 2, 2, 3]
    g = morph.Graph.from_edges(src, dst, weight=[1, 1, 9, 1], n=4, device=target)
    dynamic, levels = morph.DynamicSSSP(g, 0), morph.DynamicBFS(g, 0)
    dynamic.share = levels.share = 9.0
    g.points.delete(3)  # its edge goes with it
    no_source = g.edges.new(dst=1, weight=1).id
    for asked in ({"updates": ([2, no_source, 0], [0, 0, 2])}, {"deletes": [2, no_source]}):
        levels.distance  # noqa: B018
        done = dynamic.apply(**asked)
        assert (done.decision, levels.update(done.applied).decision) == ("repaired",) * 2
        assert host(dynamic.distance).tolist() == [0, 2, 3, FAR]
        assert host(levels.distance).tolist() == [0, 1, 1, -1]


def test_a_point_that_dies_where_others_left_edges(target):
    g = morph.Graph.from_edges([0, 1, 1, 2], [1, 2, 3, 0], weight=[1, 1, 1, 1], device=target)
    g.points.delete(3)
    dynamic, levels = morph.DynamicSSSP(g, 0), morph.DynamicBFS(g, 0)
    dynamic.share = levels.share = 9.0
    done = dynamic.apply(delete_points=[1])
    assert (done.decision, levels.update(done.applied).decision) == ("repaired",) * 2
    assert host(dynamic.distance).tolist() == [0, FAR, FAR, FAR]
    assert host(levels.distance).tolist() == [0, -1, -1, -1]


def test_a_column_of_weights_that_is_another_one():
    g, dynamic = start("python")
    g.edges.drop("weight")
    with pytest.raises(TypeError, match="is gone: make another"):
        dynamic.apply(deletes=[1])
    assert len(g.edges.ids()) == len(g.edges)
    with pytest.raises(TypeError, match="is gone: make another"):
        dynamic.update(g.apply(inserts=([0], [80])))
    g.edges.add("weight", np.float64, fill=0.5)
    for ask in (dynamic.refresh, lambda: dynamic.apply(deletes=[1])):
        with pytest.raises(TypeError, match="holds float64 now"):
            ask()


def test_an_interrupt_when_the_graph_has_changed(monkeypatch):
    g, dynamic = start("python")
    whole = type(g).apply

    def late(self, *args, **options):
        whole(self, *args, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(g), "apply", late)
        with pytest.raises(KeyboardInterrupt):
            dynamic.apply(updates=([0, 1], [50, 50]))
    good(dynamic)


def test_fused_equals_eager(monkeypatch):
    results = []
    for run in (repair.repair.alone, repair.repair.eager):
        g, dynamic = start("cpu")
        dynamic.share = 1.0
        monkeypatch.setattr(repair.repair, "alone", run)
        dynamic.apply(**batch(g))
        results.append(state(dynamic))
    assert results[0] == results[1]
