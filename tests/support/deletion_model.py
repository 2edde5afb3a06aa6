"""Random histories of row creation and deletion in a graph, compared with a model in plain Python.

A row is known by its tag, which no other row ever has: points and things have a column for it, an
edge has its weight (both arcs of an edge that is not directed share one).  So the model never knows
ids, and a reference that moves to another row is noticed.  ``python tests/support/deletion_model.py
--histories 10000 --device cuda`` runs many; a failure names its seed.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from typing import Any

import numpy as np

import morph
from morph import Collection, Graph, Ref, Set, foreach, kernel, validate
from morph.prelude import i32, i64

NOTHING = -1  # the tag of no row
DELETE, GROW, LINK, KILL, LOOP, BRIEF = 1, 2, 3, 4, 5, 6  # what an item of `act` does
COPY, KILL_POINT, KILL_EDGE, FORGET, ADD, TAKE, UNITE = 2, 3, 4, 5, 6, 7, 8  # and one of `handle`


@kernel
def walk(p, g):
    """Sum up what lies around a point, by each kind of walk."""
    out, into, all_ = i64(0), i64(0), i64(0)
    for t in p.outnbrs:
        out += 7 * t.tag + g.weight(p, t)
    for t in p.innbrs:
        into += t.tag + 1
    for t in p.nbrs:
        all_ += 3 * t.tag + 1
    p.out = out
    p.into = into
    p.around = all_


@kernel
def act(p, g, base, both):
    """Create and delete points and edges, several at once."""
    mine = base + 4 * p.id
    if p.act == 1:
        p.delete()
    elif p.act == 2:  # a new neighbour
        q = g.points.new(tag=mine)
        g.edges.new(p, q, mine + 1)
        if both:
            g.edges.new(q, p, mine + 1)
    elif p.act == 3:  # an edge to a point that may be deleted, or be deleted meanwhile
        q = p.other
        if q is not None:
            g.edges.new(p, q, mine)
            if both and q.id != p.id:
                g.edges.new(q, p, mine)
    elif p.act == 4:
        q = p.other
        if q is not None:
            q.delete()
    elif p.act == 5:  # an edge and its end come and go in one step
        g.edges.new(p, p, mine)
        p.delete()
    elif p.act == 6:
        q = g.points.new(tag=mine)
        g.edges.new(q, p, mine + 1)
        if both:
            g.edges.new(p, q, mine + 1)
        q.delete()


@kernel
def turn(p, g):
    """Give the edges out of a point another end, which may be a deleted one."""
    if p.act == 1 and p.other is not None:
        for t in p.outnbrs:
            g.edge(p, t).dst = p.other
    elif p.act == 2:
        p.delete()


@kernel
def handle(x, g, things, list, sets, base):
    """Pass references on: in columns, in a collection, in sets; delete what they denote."""
    if x.act == 1:
        x.delete()
    elif x.act == 2:
        things.new(tag=base + x.id, p=x.p, e=x.e, t=x)
    elif x.act == 3:
        if x.p is not None:
            x.p.delete()
    elif x.act == 4:
        if x.e is not None:
            x.e.delete()
    elif x.act == 5:
        x.p = None
    elif x.act == 6:
        if x.p is not None:
            list.add(x.p, edge=x.e)
    elif x.act == 7:
        taken = list.take()
        if taken is not None:
            x.p = taken.item
            x.e = taken.edge
    elif x.act == 8:
        if x.p is not None and x.q is not None:
            sets.union(x.p, x.q)


def host(x: Any) -> Any:
    """An array of any device as NumPy's."""
    x = getattr(x, "array", x)
    return x.get() if hasattr(x, "get") else np.asarray(x)


class Wrong(AssertionError):
    """The graph is not as the model has it."""


def same(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise Wrong(f"{what}: found {found}, wanted {wanted}")


class Found:
    """What a table holds on the host: ids and tags of live rows, and the tags of all."""

    def __init__(self, table: Any, tag: str) -> None:
        self.tags = host(table.columns[tag].array[: len(table)]).tolist()
        self.ids = host(table.ids()).tolist()
        self.live = {self.tags[i]: i for i in self.ids}

    def tag(self, id: int) -> int:
        return NOTHING if id < 0 else self.tags[id]


class History:
    """One graph and its model; `step` does something to both."""

    def __init__(self, seed: int, device: str) -> None:
        self.random = r = random.Random(seed)
        self.next_tag = 1000
        self.directed, self.compacts = r.random() < 0.6, seed % 2 == 0
        n = r.randint(1, 8)
        m = r.choice([0, 5, 12, 40])
        pairs = [(r.randrange(n), r.randrange(n)) for _ in range(r.randint(0, m))]
        weights = [self.tag() for _ in pairs]
        self.points: dict[int, int] = {}  # tag -> that of its `other`
        self.edges: dict[tuple[int, int, int], int] = {}  # weight, ends -> how many
        self.things: dict[int, list[int]] = {}  # tag -> those of p, q, e, t
        self.list: list[tuple[int, int]] = []
        self.sets: dict[int, set[int]] = {}  # of tags, dead ones too; others are alone
        src, dst = ([p[k] for p in pairs] for k in (0, 1))
        self.g = g = Graph.from_edges(
            src, dst, np.array(weights, np.int64), n, symmetrize=not self.directed, device=device
        )
        for name in ("tag", "out", "into", "around"):
            g.points.add(name, i64)
        g.points.add("act", i32)
        g.points.add("other", Ref("points"))
        self.t = g.add_table(
            "things", tag=i64, act=i32, p=Ref("points"), q=Ref("points"), e=Ref("edges"),
            t=Ref("things"),
        )  # fmt: skip
        for table in g.tables.values():
            table.allow_deletes()  # so that each kernel is compiled once
        tags = [self.tag() for _ in range(n)]
        g.points.tag[:] = np.array(tags, np.int64)
        self.points = dict.fromkeys(tags, NOTHING)
        for (u, v), w in zip(pairs, weights, strict=True):
            self.add_edge(w, tags[u], tags[v])
        self.lists = Collection(g.points, edge=Ref(g.edges))
        self.union = Set(g.points)
        if r.random() < 0.3:
            self.union = None
        self.log: list[str] = [f"n={n} {pairs} directed={self.directed}"]

    # --- the model -------------------------------------------------------------------------------

    def tag(self) -> int:
        self.next_tag += 1
        return self.next_tag

    def add_edge(self, w: int, u: int, v: int) -> None:
        self.edges[w, u, v] = self.edges.get((w, u, v), 0) + 1
        if not self.directed and u != v:
            self.edges[w, v, u] = self.edges.get((w, v, u), 0) + 1

    def kill(self, tags: Any) -> None:
        """Points go with their edges."""
        for p in tags:
            self.points.pop(p, None)
        self.edges = {
            k: c for k, c in self.edges.items() if k[1] in self.points and k[2] in self.points
        }

    def some(self, of: Any, most: int = 3) -> list[Any]:
        of = list(of)
        return self.random.sample(of, min(len(of), self.random.randint(1, most)))

    def maybe(self, of: Any) -> int:
        """One of some tags, or none."""
        of = list(of)
        return self.random.choice(of) if of and self.random.random() < 0.9 else NOTHING

    def weights(self) -> list[int]:
        return sorted({k[0] for k in self.edges})

    def unite(self, a: int, b: int) -> None:
        one, two = self.sets.get(a, {a}), self.sets.get(b, {b})
        both = one | two
        self.sets.update(dict.fromkeys(both, both))

    # --- what is there ---------------------------------------------------------------------------

    def look(self) -> None:
        """Read the tables again."""
        g = self.g
        self.P, self.E = Found(g.points, "tag"), Found(g.edges, "weight")
        self.T = Found(self.t, "tag")

    def row(self, found: Found, tag: int) -> int:
        return found.live[tag] if tag != NOTHING else NOTHING

    def check(self) -> None:
        """Hold everything that can be seen against the model."""
        self.look()
        g, P, E, T = self.g, self.P, self.E, self.T
        same("points", sorted(P.live), sorted(self.points))
        same("points.live", g.points.live, len(self.points))
        src, dst = (host(g.edges.columns[c].array[: len(g.edges)]).tolist() for c in ("src", "dst"))
        ends = {i: (E.tags[i], P.tag(src[i]), P.tag(dst[i])) for i in E.ids}
        alive = set(P.ids)
        dangling = [i for i in E.ids if src[i] not in alive or dst[i] not in alive]
        same("edges at deleted points", dangling, [])
        same("edges", Counter(ends.values()), Counter(self.edges))
        same("edges.live", g.edges.live, sum(self.edges.values()))
        same("sum", int(host(g.edges.weight.array)[E.ids].sum()), sum(
            k[0] * c for k, c in self.edges.items()))  # fmt: skip
        self.check_rows(src, dst)
        other = host(g.points.other).tolist()
        for tag, to in self.points.items():
            same("points.other", P.tag(other[P.live[tag]]), to)
        same("things", sorted(T.live), sorted(self.things))
        refs = [host(self.t.columns[c].array[: len(self.t)]).tolist() for c in "pqet"]
        for tag, wanted in self.things.items():
            got = [f.tag(a[T.live[tag]]) for f, a in zip((P, P, E, T), refs, strict=True)]
            same("references of a thing", got, wanted)
        item, edge = (host(self.lists.columns[c].array[slice(*self.lists.span())]).tolist()
                      for c in ("item", "edge"))  # fmt: skip
        got = [(P.tag(a), E.tag(b)) for a, b in zip(item, edge, strict=True)]
        same("the collection", Counter(got), Counter(self.list))
        self.list = got
        if self.union is not None:
            self.check_sets()

    def check_rows(self, src: list[int], dst: list[int]) -> None:
        """The index: each point's edges, in order of their ids unless rows are gapped."""
        g = self.g
        for direction, near in (("out", src), ("in", dst)):
            offsets, ids = (None if a is None else host(a) for a in g.adjacency(direction))
            ids = np.arange(offsets[-1]) if ids is None else ids
            wanted: dict[int, list[int]] = {}
            for i in self.E.ids:
                wanted.setdefault(near[i], []).append(i)
            for p in range(len(g.points)):
                row = ids[offsets[p] : offsets[p + 1]].tolist()
                same("a row of the index", sorted(row) if g.gapped else row, wanted.get(p, []))

    def check_sets(self) -> None:
        label = host(self.union.labels()).tolist()
        groups: dict[int, set[int]] = {}
        for tag, id in self.P.live.items():
            groups.setdefault(label[id], set()).add(tag)
        for top, tags in groups.items():
            whole = self.sets.get(next(iter(tags)), tags)
            same("a set", tags, {t for t in whole if t in self.points})
            if self.P.tags[top] not in whole and self.P.tags[top] not in tags:
                raise Wrong(f"a set's representative is another row: {top}")

    # --- operations ------------------------------------------------------------------------------

    def step(self) -> None:
        """One operation of some kind."""
        names = list(OPERATIONS)
        name = self.random.choices(names, [OPERATIONS[n] for n in names])[0]
        if name == "compact" and not self.compacts:
            name = "act"
        self.log.append(name)
        getattr(self, name)()

    def new_points(self) -> None:
        g, tags = self.g, [self.tag() for _ in range(self.random.randint(1, 3))]
        if self.random.random() < 0.7:
            for tag in tags:
                g.points.new(tag=tag)
        else:
            g.points.extend(tag=np.array(tags, np.int64))
        self.points |= dict.fromkeys(tags, NOTHING)

    def new_edges(self) -> None:
        if not self.points:
            return
        made = [(self.tag(), *self.random.choices(sorted(self.points), k=2))
                for _ in range(self.random.randint(1, 3))]  # fmt: skip
        for w, u, v in made:
            self.add_edge(w, u, v)
        if not self.directed:
            made += [(w, v, u) for w, u, v in made if u != v]
        rows = [(self.P.live[u], self.P.live[v], w) for w, u, v in made]
        if self.random.random() < 0.6:
            for u, v, w in rows:
                self.g.edges.new(u, v, w)
        else:
            src, dst, weight = (np.array(a) for a in zip(*rows, strict=True))
            self.g.edges.extend(src=src, dst=dst, weight=weight)

    def new_things(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            tag, p, q = self.tag(), self.maybe(self.points), self.maybe(self.points)
            e, t = self.maybe(self.weights()), self.maybe(self.things)
            self.t.new(tag=tag, p=self.row(self.P, p), q=self.row(self.P, q),
                       e=self.row(self.E, e), t=self.row(self.T, t))  # fmt: skip
            self.things[tag] = [p, q, e, t]
            self.look()

    def set_other(self) -> None:
        for p in self.some(self.points):
            to = self.maybe(self.points)
            self.g.points[self.P.live[p]].other = self.row(self.P, to)
            self.points[p] = to

    def delete_points(self) -> None:
        gone = self.some(self.points, 2)
        ids = [self.P.live[p] for p in gone]
        if len(ids) == 1 and self.random.random() < 0.5:
            self.g.points[ids[0]].delete()
        else:
            self.g.points.delete(ids)
        self.kill(gone)

    def delete_edges(self) -> None:
        gone = set(self.some(self.weights(), 2)) if self.edges else set()
        self.g.edges.delete([i for i in self.E.ids if self.E.tags[i] in gone])
        self.edges = {k: c for k, c in self.edges.items() if k[0] not in gone}

    def delete_things(self) -> None:
        gone = self.some(self.things, 2)
        self.t.delete([self.T.live[t] for t in gone])
        for t in gone:
            del self.things[t]

    def move_edge(self) -> None:
        """Give an edge another end on the host."""
        if not self.directed or not self.edges:
            return
        w, u, v = self.random.choice(sorted(self.edges))
        to = self.random.choice(sorted(self.points))
        del self.edges[w, u, v]
        self.g.edges[self.E.live[w]].dst = self.P.live[to]
        self.add_edge(w, u, to)

    def apply(self) -> None:
        """A batch of everything."""
        g, r, batch = self.g, self.random, dict[str, Any]()
        weights = self.weights()
        gone = r.sample(weights, min(len(weights), r.randint(0, 2)))
        named = r.sample(weights, min(len(weights), r.randint(0, 2)))
        named = [w for w in named if w not in gone]
        dead = self.some(self.points, 1) if self.points and r.random() < 0.4 else []
        left = sorted(set(self.points) - set(dead))
        come = [(self.tag(), *r.choices(left, k=2)) for _ in range(r.randint(0, 3))] if left else []
        kept = [w for w in named if any(
            k[0] == w and k[1] not in dead and k[2] not in dead for k in self.edges)]  # fmt: skip
        fresh = {w: self.tag() for w in kept}
        if gone:
            batch["deletes"] = [self.E.live[w] for w in gone]
        if fresh:
            batch["updates"] = [self.E.live[w] for w in fresh], list(fresh.values())
        if dead:
            batch["delete_points"] = [self.P.live[p] for p in dead]
        if come:
            w, u, v = zip(*come, strict=True)
            batch["inserts"] = [self.P.live[p] for p in u], [self.P.live[p] for p in v], list(w)
        g.apply(**batch)
        self.kill(dead)
        self.edges = {
            (fresh.get(k[0], k[0]), *k[1:]): c for k, c in self.edges.items() if k[0] not in gone
        }
        for refs in self.things.values():
            refs[2] = fresh.get(refs[2], refs[2])
        self.list = [(p, fresh.get(e, e)) for p, e in self.list]
        for w, u, v in come:
            self.add_edge(w, u, v)

    def compact(self) -> None:
        """Dead rows go; references to them become none."""
        which = self.random.choice(["all", "all", "points", "edges", "things"])
        every, r = which == "all", self.sets
        (self.g if every else self.g.tables[which]).compact()
        if every or which == "points":
            self.points = {p: o if o in self.points else NOTHING for p, o in self.points.items()}
            self.list = [x for x in self.list if x[0] in self.points]
            self.sets = {p: {m for m in r[p] if m in self.points} for p in r if p in self.points}
        live = {k[0] for k in self.edges}
        for refs in self.things.values():
            for k, (what, there) in enumerate(
                (("points", self.points), ("points", self.points), ("edges", live),
                 ("things", self.things))):  # fmt: skip
                if (every or which == what) and refs[k] not in there:
                    refs[k] = NOTHING
        if every or which == "edges":
            self.list = [(p, e if e in live else NOTHING) for p, e in self.list]

    def host_list(self) -> None:
        r = self.random
        if r.random() < 0.15:
            self.lists.clear()
            self.list = []
        elif self.points:
            p, e = self.random.choice(sorted(self.points)), self.maybe(self.weights())
            self.lists.add(self.P.live[p], edge=self.row(self.E, e))
            self.list.append((p, e))

    def host_sets(self) -> None:
        if self.union is None or not self.points:
            return
        if self.random.random() < 0.15:
            self.union.reset()
            self.sets = {}
            return
        a, b = self.random.choices(sorted(self.points), k=2)
        self.union.union(self.P.live[a], self.P.live[b])
        self.unite(a, b)

    def give(self, table: Any, found: Found, acts: dict[int, int]) -> None:
        """Say what each item is to do."""
        column = np.zeros(len(table), np.int32)
        for tag, what in acts.items():
            column[found.live[tag]] = what
        table.act[:] = column

    def act(self) -> None:
        """Points and edges come and go in one launch."""
        r, acts = self.random, dict[int, int]()
        for p in self.some(self.points, 5):
            acts[p] = r.choice([DELETE, GROW, GROW, LINK, LINK, KILL, LOOP, BRIEF])
        killed = {self.points[p] for p, what in acts.items() if what == KILL}
        for p in killed & acts.keys():  # who is deleted by another may run, or not
            acts[p] = DELETE
        killed = {self.points[p] for p, what in acts.items() if what == KILL}
        base = self.next_tag + 1
        self.next_tag += 4 * len(self.g.points) + 8
        self.give(self.g.points, self.P, acts)
        foreach(self.g.points, act, self.g, base, not self.directed)
        dead = killed | {p for p, what in acts.items() if what in (DELETE, LOOP)}
        for p, what in acts.items():
            mine = base + 4 * self.P.live[p]
            if what == GROW:
                self.points[mine] = NOTHING
                self.add_edge(mine + 1, p, mine)
            elif what == LINK and self.points[p] in self.points:
                self.add_edge(mine, p, self.points[p])
        self.kill(dead)

    def turn(self) -> None:
        """Edges get other ends in a launch, and points are deleted in it."""
        if not self.directed:
            return
        r = self.random
        acts = {p: r.choice([1, 1, 2]) for p in self.some(self.points, 3)}
        self.give(self.g.points, self.P, acts)
        foreach(self.g.points, turn, self.g)
        turned = {p: self.points[p] for p, what in acts.items() if what == 1}
        turned = {p: to for p, to in turned.items() if to != NOTHING}
        edges: dict[tuple[int, int, int], int] = {}
        pairs = Counter((u, v) for _, u, v in self.edges)
        for (w, u, v), c in self.edges.items():
            assert pairs[u, v]
            edges[w, u, turned.get(u, v)] = c
        self.edges = edges
        self.kill([p for p, what in acts.items() if what == 2])

    def handle(self) -> None:
        """Things pass references on, and delete what they denote."""
        r, acts = self.random, dict[int, int]()
        for t in self.some(self.things, 4):
            acts[t] = r.choice([DELETE, COPY, KILL_POINT, FORGET, ADD, ADD, TAKE, UNITE])
            if self.directed and r.random() < 0.15:
                acts[t] = KILL_EDGE
            if self.union is None and acts[t] == UNITE:
                acts[t] = ADD
        base = self.next_tag + 1
        self.next_tag += len(self.t) + 8
        self.give(self.t, self.T, acts)
        if self.union is None:
            self.union = Set(self.g.points)
        foreach(self.t, handle, self.g, self.t, self.lists, self.union, base)
        dead, gone = set[int](), set[int]()
        takers, before = [], self.list
        refs = {t: list(self.things[t]) for t in acts}
        for t, what in acts.items():
            p, q, e, _ = refs[t]
            if what == DELETE:
                del self.things[t]
            elif what == COPY:
                self.things[base + self.T.live[t]] = [p, NOTHING, e, t]
            elif what == KILL_POINT:
                dead.add(p)
            elif what == KILL_EDGE:
                gone.add(e)
            elif what == FORGET:
                self.things[t][0] = NOTHING
            elif what == ADD and p != NOTHING:
                self.list = [*self.list, (p, e)]
            elif what == TAKE:
                takers.append(t)
            elif what == UNITE and p != NOTHING and q != NOTHING:
                self.unite(p, q)
        self.edges = {k: c for k, c in self.edges.items() if k[0] not in gone}
        self.kill(dead)
        self.took(takers, before)

    def took(self, takers: list[int], before: list[tuple[int, int]]) -> None:
        """Who took which of the first entries is not known beforehand."""
        self.look()
        count = min(len(takers), len(before))
        self.list = self.list[count:]
        p, e = (host(self.t.columns[c].array).tolist() for c in ("p", "e"))
        got = Counter[tuple[int, int]]()
        for t in takers:
            id = self.T.live[t]
            found = self.P.tag(p[id]), self.E.tag(e[id])
            if len(takers) > count and found == (self.things[t][0], self.things[t][2]):
                continue  # it came too late
            got[found] += 1
            self.things[t][0], self.things[t][2] = found
        if not len(takers) > count:
            same("what was taken", got, Counter(before[:count]))

    def walk(self) -> None:
        """A kernel sees the neighbours that the model has."""
        g = self.g
        foreach(g.points, walk, g)
        sums = {p: [0, 0, 0] for p in self.points}
        # of parallel edges that a walk passes, weight() is that of the edge at hand
        for (w, u, v), c in self.edges.items():
            sums[u][0] += c * (7 * v + w)
            sums[v][1] += c * (u + 1)
            sums[u][2] += c * (3 * v + 1)
            if self.directed:
                sums[v][2] += c * (3 * u + 1)
        got = [host(g.points.columns[c].array).tolist() for c in ("out", "into", "around")]
        for p, wanted in sums.items():
            same("a walk", [a[self.P.live[p]] for a in got], wanted)

    def search(self) -> None:
        """Breadth-first search, and the checker of the index."""
        validate.index(self.g)
        if not self.points:
            return
        source = self.random.choice(sorted(self.points))
        distance, front = {source: 0}, [source]
        for p in front:
            for _, u, v in sorted(self.edges):
                if u == p and v not in distance:
                    distance[v] = distance[p] + 1
                    front.append(v)
        found = host(morph.bfs(self.g, self.P.live[source]).distance).tolist()
        got = {p: found[i] for p, i in self.P.live.items() if found[i] >= 0}
        same("distances", got, distance)


OPERATIONS = {
    "new_points": 3, "new_edges": 4, "new_things": 4, "set_other": 2, "delete_points": 3,
    "delete_edges": 1, "delete_things": 1, "move_edge": 1, "apply": 4, "compact": 1, "host_list": 2,
    "host_sets": 2, "act": 6, "turn": 2, "handle": 5, "walk": 3, "search": 0.3,
}  # fmt: skip


def run(seed: int, device: str, steps: int | None = None) -> int:
    """One history; gives how many operations it had."""
    history = History(seed, device)
    count = steps or history.random.randint(8, 15)
    try:
        history.check()
        for _ in range(count):
            history.step()
            history.check()
    except Exception as error:
        note = f"history {seed} on {device}: {', '.join(history.log)}"
        error.add_note(note)
        raise
    return count


def main() -> None:
    """Run many histories."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--histories", type=int, default=10000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0, help="of the first history")
    parser.add_argument("--steps", type=int, help="operations in each; by default 8 to 15")
    options = parser.parse_args()
    begin, operations = time.perf_counter(), 0
    for seed in range(options.seed, options.seed + options.histories):
        operations += run(seed, options.device, options.steps)
    seconds = time.perf_counter() - begin
    print(f"{options.histories} histories on {options.device}: {operations} operations, all right, "
          f"{seconds:.1f} s")  # fmt: skip


if __name__ == "__main__":
    main()
