"""Distances, levels and components of changing graphs: against SciPy after every batch."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from pretend import pretended
from scipy.sparse import coo_array, csgraph
from targets import host

import morph
from morph import testing, validate
from morph.algorithms.dynamic import following
from morph.graph import gapped

FAR = np.iinfo(np.int64).max
POINTS = 14
ends = st.integers(0, POINTS - 1)
weights = st.sampled_from([0, 0, 1, 1, 2, 3, 7, 50])
triples = st.lists(st.tuples(ends, ends, weights), max_size=6)
KINDS = ("i2", "u4", "i4", "i8", "f2", "f4", "f8")


def matrix(edges, n):
    """The lightest of parallel edges; SciPy takes a stored 0 for an edge that costs nothing."""
    best = {}
    for u, v, w in edges:
        best[u, v] = min(w, best.get((u, v), w))
    pairs = np.array(list(best), int).reshape(-1, 2)
    return coo_array((np.array(list(best.values()), float), pairs.T), shape=(n, n)).tocsr()


class Changing(RuleBasedStateMachine):
    """One graph, three that follow it, and its edges by id."""

    def __init__(self, target, way):
        super().__init__()
        self.target, self.way = target, way

    @initialize(
        edges=st.lists(st.tuples(ends, ends, weights), max_size=40),
        kind=st.sampled_from(KINDS),
        directed=st.booleans(),
        sources=st.sets(ends, min_size=1, max_size=3),
        share=st.sampled_from([1.0, 0.3]),
    )
    def begin(self, edges, kind, directed, sources, share):
        if self.target != "python":  # few units to compile
            kind = "i4" if isinstance(self.target, str) else "f4"
        src, dst, w = np.array(edges, np.int64).reshape(-1, 3).T
        self.graph = g = morph.Graph.from_edges(
            src, dst, weight=w.astype(kind), n=POINTS, symmetrize=not directed, device=self.target
        )
        columns = [host(a).tolist() for a in (g.edges.src, g.edges.dst, g.edges.weight)]
        self.edges = dict(enumerate(zip(*columns, strict=True)))
        self.sources, self.kind = sorted(sources), kind
        with self.way():
            self.paths = morph.DynamicSSSP(g, self.sources)
            self.all = [self.paths, morph.DynamicBFS(g, self.sources)]
            if not directed:
                self.all.append(morph.DynamicComponents(g))
        for one in self.all:
            one.share = share

    def change(self, **batch):
        """Apply a batch by one of those that follow, and tell the others."""
        first = self.all[len(self.edges) % len(self.all)]
        with self.way():
            done = first.apply(**batch)
            for other in self.all:
                if other is not first:
                    other.update(done.applied)
        applied, g = done.applied, self.graph
        for k in host(applied.deleted).tolist():
            del self.edges[k]
        if applied.updated.size:
            new = zip(
                host(applied.updated).tolist(), host(applied.new_weight).tolist(), strict=True
            )
            for k, w in new:
                self.edges[k] = (*self.edges[k][:2], w)
        src, dst, weight = (host(a) for a in (g.edges.src, g.edges.dst, g.edges.weight))
        for k in host(applied.inserted).tolist():
            assert k not in self.edges
            self.edges[k] = (int(src[k]), int(dst[k]), weight[k].item())
        assert done.decision in ("repaired", "recomputed") and done.affected >= 0
        self.compare()

    def compare(self):
        edges, n = list(self.edges.values()), len(self.graph.points)
        held = matrix(edges, n)
        want = csgraph.dijkstra(held, indices=self.sources, min_only=True)
        paths, levels = self.all[:2]
        got = host(paths.distance)
        assert np.where(got == FAR, np.inf, got).tolist() == want.tolist()
        validate.sssp(self.graph, paths.distance, paths.predecessor, source=self.sources)
        want = csgraph.dijkstra(held, indices=self.sources, min_only=True, unweighted=True)
        got = host(levels.distance)
        assert np.where(got < 0, np.inf, got).tolist() == want.tolist()
        validate.bfs(self.graph, levels.distance, levels.predecessor, source=self.sources)
        for parts in self.all[2:]:
            validate.connected_components(self.graph, parts.label)
            alive = host(self.graph.points.alive)
            count, label = csgraph.connected_components(held, directed=False)
            assert parts.components == count - (~alive).sum()

    def alive(self, triples):
        alive = host(self.graph.points.alive)
        return [t for t in triples if alive[t[0]] and alive[t[1]]]

    def columns(self, triples):
        src, dst, w = np.array(triples, np.int64).reshape(-1, 3).T
        return src, dst, w.astype(self.kind)

    def some(self, data, most=6):
        ids = sorted(self.edges)
        if not ids:
            return []
        return data.draw(st.lists(st.sampled_from(ids), max_size=most))

    @rule(inserts=triples, data=st.data())
    def mix(self, inserts, data):
        updates = self.some(data)
        weight = np.array([data.draw(weights) for _ in updates]).astype(self.kind)
        self.change(
            inserts=self.columns(self.alive(inserts)), deletes=np.array(self.some(data), int),
            updates=(np.array(updates, int), weight),
        )  # fmt: skip

    @rule(inserts=triples)
    def insert(self, inserts):
        self.change(inserts=self.columns(self.alive(inserts)))

    @rule(data=st.data())
    def cut_the_tree(self, data):
        before = host(self.paths.predecessor).tolist()
        hung = [(u, v) for v, u in enumerate(before) if u >= 0]
        if hung:
            pairs = data.draw(st.lists(st.sampled_from(hung), min_size=1, max_size=3))
            src, dst = np.array(pairs, np.int64).T
            self.change(deletes=(src, dst))

    @rule(point=ends)
    def leave_a_point_alone(self, point):
        ids = [k for k, (u, v, _) in self.edges.items() if point in (u, v)]
        self.change(deletes=np.array(ids, int))

    @rule(point=ends)
    def delete_a_point(self, point):
        if point not in self.sources:
            self.change(delete_points=np.array([point]))

    @rule(point=ends, weight=st.sampled_from([-1, np.nan]))
    def refuse(self, point, weight):
        """Nothing changes when a batch is refused."""
        if self.kind[0] == "u" or (self.kind[0] == "i" and weight != weight):
            return
        if not self.alive([(point, point)]):
            return
        before = [host(one.predecessor).tolist() for one in self.all]
        weight = np.array([1, weight]).astype(self.kind)
        with pytest.raises(
            ValueError, match=r"\[1\] = (-1.*: negative weights are|nan: NaN is) refused"
        ):
            self.paths.apply(inserts=([point, point], [self.sources[0]] * 2, weight))
        assert before == [host(one.predecessor).tolist() for one in self.all]
        self.compare()


def test_arrays_of_host_and_device_are_kept_apart(monkeypatch):
    run(pretended(monkeypatch), contextlib.nullcontext, 2, monkeypatch)


@pytest.mark.parametrize("target", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("directed", [True, False])
def test_a_long_history(target, directed, monkeypatch):
    """Few points and many batches: rows move, shrink and are rebuilt, ids are reused."""
    monkeypatch.setattr(gapped, "LEAST", 32)
    rng = np.random.default_rng(5 + directed)
    way = (lambda: testing.team(1)) if target == "cpu" else contextlib.nullcontext
    one, steps = Changing(target, way), 40

    def some(count):
        picked = np.sort(rng.zipf(1.3, (2, count)) % POINTS, axis=0)[:: rng.choice([1, -1])]
        return [(u, v, w) for u, v, w in zip(*picked.tolist(), rng.integers(0, 6, count).tolist(),
                                             strict=True)]  # fmt: skip

    one.begin(some(60), "i4", directed, {0, 5}, 0.6)
    for step in range(steps):
        ids = np.array(sorted(one.edges), int)
        gone = rng.choice(ids, min(len(ids) // 2, int(rng.integers(0, 12))), replace=False)
        named = rng.choice(ids, min(len(ids), int(rng.integers(0, 5))), replace=False)
        weight = rng.integers(0, 9, len(named)).astype(np.int32)
        come = one.columns(one.alive(some(int(rng.integers(0, 14)))))
        one.change(inserts=come, deletes=gone, updates=(named, weight))
        if step == steps // 2:
            one.change(delete_points=np.array([9]))
    assert one.graph._adjacency.moves > 3 and one.graph.gapped
    validate.index(one.graph)


def test_after_every_batch(target, monkeypatch):
    way = (lambda: testing.team(3)) if target == "cpu" else contextlib.nullcontext
    run(target, way, {"python": 4, "cpu": 5, "cuda": 4}[target], monkeypatch)


def run(target, way, examples, monkeypatch):
    monkeypatch.setattr(following, "ALONE", 2)  # so that repairs stop, and go on with more threads
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        lambda: Changing(target, way),
        settings=settings(
            max_examples=examples, stateful_step_count=10, suppress_health_check=quiet,
            deadline=None,
        ),
    )  # fmt: skip
