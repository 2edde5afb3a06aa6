"""A graph model in plain Python, changed by the same batches as a Morph graph."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import morph
from morph import validate


class Model:
    """Edges by id: (src, dst, weight); of undirected graphs each arc, and its reverse."""

    def __init__(self, g: morph.Graph) -> None:
        self.g = g
        self.points = set(range(len(g.points)))
        src, dst, w = (np.asarray(getattr(g.edges, c)).tolist() for c in ("src", "dst", "weight"))
        self.edges = dict(enumerate(zip(src, dst, w, strict=True)))
        back = None if g.directed else g.device.to_host(g.reverses()).tolist()
        self.back = {e: back[e] if back else e for e in self.edges}

    def named(self, u: int, v: int) -> list[int]:
        ends = (u, v) if self.g.directed else (min(u, v), max(u, v))
        return sorted(e for e, (a, b, _) in self.edges.items() if (a, b) == ends)

    def step(
        self,
        inserts: Any = (),
        deletes: Any = (),
        delete_pairs: Any = (),
        updates: Any = (),
        update_pairs: Any = (),
        points: Any = (),
    ) -> Any:
        """Apply lists of tuples to both; deletes and updates are by id, or else by pair."""
        before, absent, repeated = dict(self.edges), 0, 0
        gone = set()
        fresh = [p for k, p in enumerate(points) if p not in points[:k]]
        repeated += len(points) - len(fresh)
        absent += sum(p not in self.points for p in fresh)
        dead = {p for p in fresh if p in self.points}
        named: list[int] = []
        for e in deletes:
            named += [e] if e in self.edges else []
            absent += e not in self.edges
        taken: dict[Any, int] = {}
        for u, v in delete_pairs:
            key = (u, v) if self.g.directed else (min(u, v), max(u, v))
            found = self.named(u, v)[taken.get(key, 0) :][:1]
            taken[key] = taken.get(key, 0) + 1
            named += found
            absent += not found
        once = set()
        for e in named:
            repeated += min(e, self.back[e]) in once
            once.add(min(e, self.back[e]))
            gone |= {e, self.back[e]}
        gone |= {e for e, (u, v, _) in self.edges.items() if u in dead or v in dead}
        for e in gone:
            del self.edges[e]
        self.points -= dead
        hits: dict[int, Any] = {}
        wanted = [([e] if e in self.edges else [], w) for e, w in updates]
        wanted += [(self.named(u, v)[:1], w) for u, v, w in update_pairs]
        for found, w in wanted:
            absent += not found
            for e in found:
                repeated += min(e, self.back[e]) in hits
                hits[min(e, self.back[e])] = w
        for e, w in hits.items():
            for x in {e, self.back[e]}:
                self.edges[x] = (*self.edges[x][:2], w)
        done = self._apply(inserts, deletes, delete_pairs, updates, update_pairs, points)
        host = self.g.device.to_host
        ids = host(done.inserted).tolist()
        assert len(set(ids)) == len(ids) and not set(ids) & self.edges.keys()
        rest = ids[len(inserts) :]
        for e, (u, v, w) in zip(ids, inserts, strict=False):
            self.edges[e], self.back[e] = (u, v, w), e
            if not self.g.directed and u != v:
                back = rest.pop(0)
                self.edges[back], self.back[e], self.back[back] = (v, u, w), back, e
        assert not rest
        assert host(done.deleted).tolist() == sorted(gone)
        ends = zip(*(host(a).tolist() for a in (
            done.deleted_src, done.deleted_dst, done.deleted_weight)), strict=True)  # fmt: skip
        assert list(ends) == [before[e] for e in sorted(gone)]
        both = sorted({x for e in hits for x in (e, self.back[e])})
        assert host(done.updated).tolist() == both
        assert host(done.old_weight).tolist() == [before[e][2] for e in both]
        assert host(done.points).tolist() == sorted(dead)
        assert (done.absent, done.repeated) == (absent, repeated)
        self.check()
        return done

    def _apply(self, inserts, deletes, delete_pairs, updates, update_pairs, points) -> Any:
        def columns(rows: Any, n: int) -> tuple[np.ndarray, ...]:
            return tuple(np.array([r[i] for r in rows], np.int64) for i in range(n))

        assert not (deletes and delete_pairs) and not (updates and update_pairs)
        return self.g.apply(
            columns(inserts, 3) if inserts else None,
            columns(delete_pairs, 2) if delete_pairs else np.array(deletes, np.int64),
            (columns(update_pairs, 3) if update_pairs else columns(updates, 2))
            if update_pairs or updates else None,
            np.array(points, np.int64),
        )  # fmt: skip

    def check(self) -> None:
        """Hold the graph against the model, and its index against its edges."""
        g = self.g
        validate.index(g)
        ids = g.device.to_host(g.edges.ids()).tolist()
        assert ids == sorted(self.edges)
        src, dst, w = (np.asarray(getattr(g.edges, c)).tolist() for c in ("src", "dst", "weight"))
        assert [(src[e], dst[e], w[e]) for e in ids] == [self.edges[e] for e in ids]
        assert set(g.device.to_host(g.points.ids()).tolist()) == self.points
        if not g.directed:
            back = g.device.to_host(g.reverses()).tolist()
            assert [back[e] for e in ids] == [self.back[e] for e in ids]


def interrupted(
    run: Any, n: int, error: type[BaseException], modules: Any, event: str = "line"
) -> bool:  # fmt: skip
    """Raise at the n-th line, or call, of some modules that ``run`` comes to; whether it did."""
    left, files = [n], {m.__file__ for m in modules}

    def trace(frame: Any, found: str, arg: object) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if found == event:
            left[0] -= 1
            if left[0] == 0:
                sys.settrace(None)
                raise error
        return None if event == "call" else trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except error:
        return True
    finally:
        sys.settrace(before)
    return False
