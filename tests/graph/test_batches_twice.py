"""Batches with repeated or missing edges: the launch gives the results of the host path."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended
from targets import everywhere, host, tries

import morph
from morph import validate
from morph.data.store import HEAD, TAIL
from morph.updates import changes, recognition

POINTS = 6
FIELDS = ("inserted", "deleted", "deleted_src", "deleted_dst", "deleted_weight", "updated",
        "old_weight", "new_weight", "absent", "repeated", "given")  # fmt: skip
real = recognition.recognise


@pytest.fixture(autouse=True)
def in_place(monkeypatch):
    monkeypatch.setattr(changes, "SHARE", 0)


def ring(g):
    """Rows to be used again, in their order."""
    if not g.edges.deletes:
        return []
    free, counters = host(g.edges.hidden("free")), g.edges._host_meta
    return free[np.arange(counters[HEAD], counters[TAIL]) & (free.size - 1)].tolist()


class Ways:
    """The same graph twice: one takes the short way, the other one the long way round."""

    def __init__(self, monkeypatch, target, src, dst, n, directed):
        self.monkeypatch, self.short = monkeypatch, 0
        self.graphs = [
            morph.Graph.from_edges(src, dst, weight=src + 2 * dst, n=n, symmetrize=not directed,
                                   device=target) for _ in range(2)
        ]  # fmt: skip
        for g in self.graphs:
            g.adjacency("out"), g.apply(([0], [1], [3]), [0])
            if directed:
                g.adjacency("in")
        self.go_round = changes._apply
        monkeypatch.setattr(changes, "_apply", self.counted)

    def counted(self, *args):
        self.short -= 1
        return self.go_round(*args)

    def apply(self, there=False, **batch):
        g = self.graphs[0]
        if there:
            batch = {k: tuple(map(g.device.asarray, v)) if isinstance(v, tuple)
                     else g.device.asarray(v) for k, v in batch.items()}  # fmt: skip
        self.short += 2
        done = []
        for g, way in zip(self.graphs, (real, lambda *_: None), strict=True):
            self.monkeypatch.setattr(recognition, "recognise", way)
            done.append(g.apply(**batch))
        first, second = ({n: getattr(d, n) for n in FIELDS} for d in done)
        for name, a in first.items():
            a, b = (x.tolist() if hasattr(x, "tolist") else x for x in (a, second[name]))
            assert a == b, name
        self.compare()
        return done[0]

    def compare(self):
        a, b = self.graphs
        assert (
            a.edges.live == b.edges.live
            and a.edges._host_meta.tolist() == b.edges._host_meta.tolist()
        )
        assert ring(a) == ring(b)
        ids = host(a.edges.ids())
        assert ids.tolist() == host(b.edges.ids()).tolist()
        for c in ("src", "dst", "weight"):
            one, two = (host(g.edges.columns[c].array)[ids].tolist() for g in (a, b))
            assert one == two, c
        if not a.directed:
            assert host(a.reverses()).tolist() == host(b.reverses()).tolist()
        validate.index(a)


@st.composite
def batches(draw):
    """Numbers of live edges, few of which are named often; arcs back; new weights; inserts."""
    one, point = st.integers(0, 9), st.integers(0, POINTS - 1)
    often = st.lists(st.tuples(one, st.booleans()), max_size=12)
    parts = draw(st.sampled_from(["deletes", "updates", "apart", "mixed"]))
    return {
        "deletes": draw(often) if parts != "updates" else [],
        "updates": draw(often) if parts != "deletes" else [],
        "apart": 10 * (parts == "apart"),
        "pairs": draw(st.booleans()),
        "delete_pairs": draw(st.booleans()),
        "dead": draw(st.booleans()),  # edges that do not exist are named, too
        "inserts": draw(st.lists(st.tuples(point, point), max_size=4)),
        "there": draw(st.booleans()),
    }


histories = st.tuples(
    st.booleans(),
    st.lists(st.tuples(*2 * [st.integers(0, POINTS - 1)]), min_size=9, max_size=25),
    st.lists(batches(), min_size=1, max_size=3),
)


def run_history(monkeypatch, target, history):
    directed, edges, steps = history
    src, dst = np.array(edges, np.int64).T
    with monkeypatch.context() as m:
        ways = Ways(m, target, src, dst, POINTS, directed)
        g, weight = ways.graphs[0], 100
        for b in steps:
            ids = host(g.edges.ids())
            ends = [host(g.edges.columns[c].array) for c in ("src", "dst")]
            back = np.arange(len(g.edges)) if directed else host(g.reverses())
            if not ids.size:
                break
            ids = np.arange(len(g.edges)) if b["dead"] else ids

            def pick(named, shift=0, ids=ids, back=back):
                at = np.array([ids[(k + shift) % ids.size] for k, _ in named], np.int64)
                turned = np.array([turn for _, turn in named], bool)
                turned &= back[at] >= 0 if at.size else turned
                return np.where(turned, back[at], at) if at.size else at

            gone, named = pick(b["deletes"]), pick(b["updates"], b["apart"])
            values = weight + np.arange(named.size)
            weight += 100
            updates = (named, values)
            if b["pairs"]:
                updates = (*(x[named] for x in ends), values)
            if b["delete_pairs"]:
                gone = tuple(x[gone] for x in ends)
            come = np.array(b["inserts"], np.int64).reshape(-1, 2).T
            ways.apply(b["there"], deletes=gone, updates=updates, inserts=(*come, come[0]))


@tries(25)
@given(history=histories)
def test_twice_on_cpu(monkeypatch, history):
    run_history(monkeypatch, "cpu", history)


@tries(6)
@given(history=histories)
def test_twice_on_python(monkeypatch, history):
    run_history(monkeypatch, "python", history)


@tries(6)
@given(history=histories)
def test_twice_where_arrays_lie_apart(monkeypatch, history):
    with monkeypatch.context() as m:
        run_history(monkeypatch, pretended(m), history)


@pytest.mark.gpu
@tries(30)
@given(history=histories)
def test_twice_on_cuda(monkeypatch, history):
    run_history(monkeypatch, "cuda", history)


@pytest.mark.parametrize("target", ["python", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("directed", [True, False])
def test_many_twice(monkeypatch, target, directed):
    """Parts of the scan, whole and not; loops have no reverse to delete."""
    most = 150 if target == "python" else 4500

    def run():
        rng = np.random.default_rng(3)
        n = most // 5
        src, dst = rng.integers(0, n, (2, 3 * most))
        with monkeypatch.context() as m:
            ways = Ways(m, target, src, dst, n, directed)
            g = ways.graphs[0]
            for size in (2, 64, 65, 129, most // 2, most):
                ids = rng.permutation(host(g.edges.ids()))
                back = ids if directed else host(g.reverses())[ids]
                gone, named = np.split(np.stack([ids, back]), [ids.size // 2], axis=1)
                if not directed:  # which does not part them
                    gone, named = gone[:, gone.min(0) < most], named[:, named.min(0) >= most]
                few = rng.integers(0, min(size, gone.shape[1]), size)
                gone = gone[rng.integers(0, 2, size), few]
                few = rng.integers(0, min(size, named.shape[1]), size)
                named = named[rng.integers(0, 2, size), few]
                named[: size // 9] = rng.choice(gone, size // 9)  # there is no such edge by then
                come = rng.integers(0, n, size // 3)
                come = come, (come + rng.integers(0, n, come.size)) % n
                done = ways.apply(
                    bool(size % 2), deletes=gone, updates=(named, np.arange(size)),
                    inserts=(*come, come[0]),
                )  # fmt: skip
                assert (done.repeated > 0 and done.absent == size // 9) or size < 9
            assert ways.short == 6

    everywhere(target, run) if target == "cpu" else run()


@pytest.mark.parametrize("target", ["python", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("directed", [True, False])
def test_pairs_that_are_named_often(monkeypatch, target, directed):
    """The k-th mention of a pair deletes its k-th edge, in the launch if k is no more than 8."""
    n, most = (9, 40) if target == "python" else (60, 3000)

    def run():
        rng = np.random.default_rng(5)
        src = rng.integers(0, n, most)
        dst = (src + rng.integers(1, 4, most)) % n
        with monkeypatch.context() as m:
            ways = Ways(m, target, src, dst, n, directed)
            g = ways.graphs[0]
            for often in (1, 2, 8):
                u = np.repeat(rng.permutation(n)[: n // 2], often)
                v = (u + np.repeat(rng.integers(1, 5, n // 2), often)) % n  # 4: no edge
                order = rng.permutation(u.size)
                u, v = u[order], v[order]
                if not directed:
                    u, v = np.where(order % 2, u, v), np.where(order % 2, v, u)
                named = np.arange(len(g.edges))[-9:]
                done = ways.apply(
                    deletes=(u, v), updates=(named, named), inserts=(u[:5], v[:5], v[:5])
                )
                assert done.absent and done.deleted.size
            assert ways.short == 3
            u = np.repeat(src[:3], 30)
            ways.apply(deletes=(u, np.repeat(dst[:3], 30)))  # more often: the host finds the edges

    everywhere(target, run) if target == "cpu" else run()


def test_absent_edges_alone_change_nothing(monkeypatch):
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=[1, 2], n=4, device="cpu")
    g.adjacency("out"), g.apply(([2], [3], [1]), [0])
    monkeypatch.setattr(changes, "_apply", None)
    before = g.changes
    for absent, batch in (
        (1, {"deletes": [0]}),
        (2, {"deletes": [0, 0]}),
        (2, {"deletes": ([0, 3], [1, 3])}),
        (1, {"updates": ([0], [4])}),
        (2, {"updates": ([3, 0], [3, 1], [5, 5])}),
    ):
        done = g.apply(**batch)
        assert (done.absent, done.repeated) == (absent, 0)
        assert done.deleted.size == done.updated.size == 0
    assert g.changes == before and g.edges.live == 2
    validate.index(g)


def test_a_batch_with_doubles_that_fails_changes_nothing(monkeypatch):
    real_apply = changes._apply
    for directed in (True, False):
        monkeypatch.setattr(changes, "_apply", real_apply)
        g = morph.Graph.from_edges([0, 0, 1, 2, 4], [1, 2, 2, 3, 4], weight=[5, 1, 1, 9, 3], n=5,
                                   symmetrize=not directed)  # fmt: skip
        g.adjacency("out"), g.apply(([3], [4], [1]), [0])

        def contents(g=g):
            back = [] if g.directed else g.reverses().tolist()
            return [g.edges._host_meta.tolist(), ring(g), g.edges.weight.array.tolist(), back]

        before = contents()
        ids = g.edges.ids()[[1, 0, 1, 1]]

        def fails(applied):
            assert applied.repeated == 2 and applied.deleted.size == 2 - g.directed
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            g.apply(([0], [1], [2]), ids[2:], (ids[[1, 1]], [3, 4]), then=fails)
        assert before == contents()

        def fails_with_loop(applied):
            assert applied.absent == 1 and applied.deleted.size == 3 - g.directed
            raise ZeroDivisionError

        g.adjacency("out"), monkeypatch.setattr(changes, "_apply", None)
        with pytest.raises(ZeroDivisionError):
            g.apply(([0], [1], [2]), ([4, 1, 4], [4, 2, 4]), then=fails_with_loop)
        assert before == contents()
        validate.index(g)


@pytest.mark.parametrize("directed", [True, False])
def test_ids_do_not_depend_on_the_path_of_a_batch(directed):
    """A journal's batches are applied again, whether there is an index by then or not."""
    rng = np.random.default_rng(2)
    src, dst = rng.integers(0, 9, (2, 40))
    graphs = [
        morph.Graph.from_edges(src, dst, weight=src, n=9, symmetrize=not directed, device="cpu")
        for _ in range(2)
    ]
    graphs[1].adjacency("out")
    graphs[0].sort_edges("weight"), graphs[1].adjacency("in")
    for g in graphs:
        g.apply(updates=([0], [1]))
    assert graphs[1].gapped and not graphs[0].gapped
    for k in range(60):
        ids, ends = graphs[0].edges.ids(), rng.integers(0, 9, (2, 1 + k % 7))
        some = rng.choice(ids, 3)  # some twice, some with their arcs back
        gone = (
            some if k % 3 else tuple(graphs[0].edges.columns[c].array[some] for c in ("src", "dst"))
        )
        named = (rng.choice(ids, 3), rng.integers(0, 9, 3))
        if k % 5 == 4:  # refused, where there may be no room
            ends = np.full((2, 20), 3)
            ends[1, -1] = 9
        done = []
        for g in graphs:
            try:
                done.append(g.apply((*ends, ends[0]), gone, named))
            except ValueError as error:
                done.append(str(error))
        if k % 5 == 4:
            assert done[0] == done[1]
        else:
            assert done[0].inserted.tolist() == done[1].inserted.tolist()
            assert (done[0].absent, done[0].repeated) == (done[1].absent, done[1].repeated)
        a, b = (g.edges for g in graphs)
        assert a.capacity == b.capacity and a.ids().tolist() == b.ids().tolist()
        assert a.weight.array[ids].tolist() == b.weight.array[ids].tolist()
    validate.index(graphs[1])


@pytest.mark.parametrize("target", ["python", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_columns_that_are_not_given_get_their_fills(monkeypatch, target):
    g = morph.Graph.from_edges([0, 0, 1], [1, 2, 2], n=4, device=target)
    g.edges.add("weight", np.float32, fill=2.5)
    g.edges.add("flow", np.int32, fill=7)
    g.edges.add("at", morph.vec(np.float64, 2), fill=(1, 2))
    g.adjacency("out"), g.apply(deletes=[1])
    g.edges.resize(4)
    g.edges.weight[1], g.edges.flow[1], g.edges.at[1] = 9, 9, (9, 9)
    monkeypatch.setattr(changes, "_apply", None)
    ids = host(g.apply(([3, 2, 1], [0, 1, 0])).inserted)
    assert ids.tolist() == [1, 3, 4]  # one is used again
    assert host(g.edges.weight)[ids].tolist() == [2.5] * 3
    assert host(g.edges.flow)[ids].tolist() == [7] * 3
    assert host(g.edges.at)[ids].tolist() == [[1, 2]] * 3
    ids = host(g.apply({"src": [3], "dst": [3], "weight": [4]}).inserted)
    assert host(g.edges.weight)[ids].tolist() == [4] and host(g.edges.flow)[ids].tolist() == [7]
    validate.index(g)
