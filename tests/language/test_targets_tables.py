"""Rows created, deleted and recycled by kernels, and the adjacency after it, on every target."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, tries

import morph
from morph.data.store import SMALLEST
from morph.prelude import atomic_add, f32, i32, i64, single, vector

rows_of = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 4)), min_size=1, max_size=12)


def live(t, *names):
    """The live rows of a table, as a multiset of tuples."""
    columns = [host(t.__getattr__(name))[host(t.alive)].tolist() for name in names]
    return Counter(
        tuple(tuple(v) if isinstance(v, list) else v for v in row)
        for row in zip(*columns, strict=True)
    )


def consistent(t):
    """The counters of a table, and that live and deleted rows are all there are."""
    assert t.live == int(host(t.alive).sum()) <= len(t) <= t.capacity


@morph.kernel
def split(r, rows):
    n = r.left
    for i in range(n):
        made = rows.new(key=r.key * 10 + i)
        made.pair[1] = f32(0.5)
    r.left = -1
    if n % 2 == 1:
        r.delete()


@tries(10)
@given(rows_of, st.integers(0, 1))
def test_rows_are_made_deleted_and_used_again(target, rows, tight):
    """Contents as in Python, whatever the ids; columns not given take their fill."""

    def run():
        t = morph.Table("rows", target, key=i64, left=i64, pair=morph.vec(f32, 2))
        t.add("mark", np.uint8, fill=7)
        t.extend(key=[k for k, _ in rows], left=[n for _, n in rows], mark=1)
        want = Counter((k, -1, (0.0, 0.0), 1) for k, n in rows if n % 2 == 0) + Counter(
            (k * 10 + i, 0, (0.0, 0.5), 7) for k, n in rows for i in range(n)
        )
        if tight:
            t.resize(len(rows))
        morph.foreach(t, split, t, where=lambda r: r.left >= 0)
        assert live(t, "key", "left", "pair", "mark") == want
        consistent(t)
        t.left[:] = 2
        size, before = len(t), t.live
        morph.foreach(t, split, t)
        assert t.live == 3 * before
        # deleted rows are used first; by a GPU, when the table is full
        least = max(size, 3 * before)
        assert least <= len(t) <= (max(least, SMALLEST) if target == "cuda" else least)
        consistent(t)
        t.compact()
        assert len(t) == t.live == 3 * before

    everywhere(target, run)


@morph.kernel
def deal(r, out):
    """Entries in bulk, and a column that some tables have."""
    if r.left > 0:
        some = out.new_rows(r.left)
        for i in range(some.size):
            some[i].item = r
            some[i].order = i64(i) + r.key if hasattr(r, "key") else i64(-1)


@tries(10)
@given(rows_of, st.booleans())
def test_entries_in_bulk(target, rows, keyed):
    def run():
        t = morph.Table("rows", target, left=i64)
        if keyed:
            t.add("key", i64)
            t.extend(key=[k for k, _ in rows], left=[n for _, n in rows])
        else:
            t.extend(left=[n for _, n in rows])
        out = morph.Collection(t, order=i64)
        morph.foreach(t, deal, out)
        want = [(r, i + k if keyed else -1) for r, (k, n) in enumerate(rows) for i in range(n)]
        got = zip(host(out.items).tolist(), host(out.order).tolist(), strict=True)
        assert sorted(got) == sorted(want)
        if want:  # those of one row lie together
            items = host(out.items)
            assert np.count_nonzero(np.diff(items)) == len(set(items.tolist())) - 1

    everywhere(target, run)


@morph.kernel
def swing(t, g, by, out):
    """Reads a packed record at once, before and behind a claim."""
    node, twin = t.node, t.twin
    mine = g.triangles.local(4)
    mine.add(t)
    mine.add(node[by])
    if single(mine):
        t.twin = vector(twin[by], twin[(by + 1) % 3], twin[(by + 2) % 3])
        out.add(t)


@tries(10)
@given(st.integers(1, 60), st.integers(0, 2), st.integers(0, 2**32))
def test_packed_records(target, n, by, seed):
    rng = np.random.default_rng(seed)
    node, twin = rng.integers(0, n, (n, 3)), rng.integers(-9, 9, (n, 3))

    def run():
        g = morph.Graph(target)
        packed = ("node", "twin")
        g.add_table("triangles", node=morph.Ref("triangles")[3], twin=(i32, 3), pack=packed)
        t = g.triangles
        t.extend(node=node, twin=twin)
        out = morph.Collection(t)
        morph.foreach(t, swing, g, by, out)
        t.resize(3 * n)  # and the arrays of claims are allocated again
        todo = morph.Collection(t)
        todo.extend(np.setdiff1d(np.arange(n), host(out.items)))
        while len(todo):
            morph.foreach(todo, swing, g, by, out)
            todo = morph.Collection(t)
            todo.extend(np.setdiff1d(np.arange(n), host(out.items)))
        assert sorted(host(out.items).tolist()) == list(range(n))
        assert np.array_equal(host(t.twin), np.roll(twin, -by, axis=1))
        assert np.array_equal(host(t.node), node)
        assert host(t.hidden("owner")).strides == ((32,) if target != "cuda" else (8,))

    everywhere(target, run)


@morph.kernel
def unfold(r, rows, links):
    some = rows.new_rows(r.left)
    for i in range(some.size):
        some[i].key = r.key * 10 + i
        links.new(some[i], r)
    previous = r
    for s in some:
        s.pair = vector(f32(previous.id), f32(s.id))
        previous = s


@tries(10)
@given(rows_of, st.booleans())
def test_rows_in_bulk_are_consecutive(target, rows, holes):
    def run():
        g = morph.Graph(target)
        g.add_table("rows", key=i64, left=i64, pair=morph.vec(f32, 2))
        g.add_table("links", of=morph.Ref("rows"), root=morph.Ref("rows"))
        t, links = g.rows, g.links
        t.extend(key=[k for k, _ in rows], left=[n for _, n in rows])
        if holes:  # which bulk allocation cannot use
            t.extend(key=[-1] * 9)
            t.delete(np.arange(len(rows), len(rows) + 9))
        morph.foreach(t, unfold, t, links, where=lambda r: r.left > 0)
        want = [(k, n) for k, n in rows] + [(k * 10 + i, 0) for k, n in rows for i in range(n)]
        assert live(t, "key", "left") == Counter(want)
        of, root = host(links.of), host(links.root)
        key, pair = host(t.key), host(t.pair)
        assert len(of) == sum(n for _, n in rows)
        for p, (k, n) in enumerate(rows):
            mine = sorted(of[root == p].tolist())
            assert key[mine].tolist() == [k * 10 + i for i in range(n)]
            assert mine == list(range(mine[0], mine[0] + n)) if mine else n == 0
            for before, s in zip([p, *mine], mine, strict=False):
                assert pair[s].tolist() == [before, s]
        consistent(t)

    everywhere(target, run)


@morph.kernel
def unfold_bare(r, rows, links, log):
    n = r.left
    some = rows.new_rows(n, fill=False)
    join = links.new_rows(n, fill=False)
    last = rows.new(r.key, 0)
    seen = log.new_rows(1, fill=False)
    for i in range(some.size):
        some[i].key = r.key * 10 + i
        some[i].left = 0
        some[i].pair = vector(f32(i), f32(last.id))
        join[i].of = some[i]
        join[i].root = r
    seen[0].item = last
    seen[0].rows = some.size


@tries(10)
@given(rows_of)
def test_rows_in_bulk_without_their_fill(target, rows):
    """Several stores are asked at once; what the kernel writes is all there is."""

    def run():
        g = morph.Graph(target)
        g.add_table("rows", key=i64, left=i64, pair=morph.vec(f32, 2), pack=("key", "left"))
        g.add_table("links", of=morph.Ref("rows"), root=morph.Ref("rows"))
        t, links = g.rows, g.links
        t.extend(key=[k for k, _ in rows], left=[n for _, n in rows])
        log = morph.Collection(t, rows=i64)
        morph.foreach(t, unfold_bare, t, links, log, where=lambda r: r.left > 0)
        made = [(k, n) for k, n in rows if n]
        want = [*rows, *((k, 0) for k, _ in made)]
        want += [(k * 10 + i, 0) for k, n in made for i in range(n)]
        assert live(t, "key", "left") == Counter(want)
        key, pair, of = host(t.key), host(t.pair), host(links.of)
        last = host(log.items)
        assert sorted(zip(key[last].tolist(), host(log.rows).tolist(), strict=True)) == sorted(made)
        assert len(of) == sum(n for _, n in made)
        for row, root in zip(of.tolist(), host(links.root).tolist(), strict=True):
            i, end = pair[row].tolist()
            assert key[row] == key[root] * 10 + i and key[int(end)] == key[root]
        consistent(t)

    everywhere(target, run)


@morph.kernel
def churn(r, rows, step):
    if (r.key + step) % 3 == 0:
        rows.new(r.key + 100, r.left)
        r.delete()
    elif (r.key + step) % 3 == 1:
        r.delete()


@tries(8)
@given(rows_of)
def test_churn(target, rows):
    """Delete and make over and over: nothing is lost, nothing comes twice."""

    def run():
        t = morph.Table("rows", target, key=i64, left=i64)
        t.extend(key=[k for k, _ in rows], left=np.arange(len(rows)))
        model = {i: k for i, (k, _) in enumerate(rows)}
        for step in range(6):
            morph.foreach(t, churn, t, step)
            model = {
                i: k + 100 * ((k + step) % 3 == 0) for i, k in model.items() if (k + step) % 3 != 1
            }
            assert live(t, "left", "key") == Counter(model.items())
            consistent(t)
        assert len(t) <= max(2 * len(rows), SMALLEST)  # a GPU releases rows when the table is full

    everywhere(target, run)


# --- graphs that change --------------------------------------------------------------------------


@st.composite
def graphs(draw, most=9):
    n = draw(st.integers(1, most))
    ends = st.integers(0, n - 1)
    return n, draw(st.lists(st.tuples(ends, ends), max_size=2 * most))


@morph.kernel
def thin(e):
    if (e.src.id + 2 * e.dst.id) % 3 == 0:
        e.delete()


@morph.kernel
def mirror(e, g):
    if e.old and e.src.id < e.dst.id:
        g.edges.new(e.dst, e.src, e.weight + 100)


@morph.kernel
def sprout(p, g):
    if p.id % 2 == 0:
        q = g.points.new()
        g.edges.new(p, q, weight=1000)
        g.edges.new(q, p, weight=2000)


@morph.kernel
def uproot(p):
    if p.id % 4 == 1:
        for e in p.edges:
            e.delete()
        p.delete()


@morph.kernel
def survey(p, g):
    out, into, both = i64(0), i64(0), i64(0)
    for t in p.outnbrs:
        out += g.weight(p, t) * 7 + t.id
        g.edge(p, t).seen = True
    for t in p.innbrs:
        into += t.id + 1
    for e in p.edges:
        both += e.weight
    p.sums = vector(out, into, both, p.out_degree, p.in_degree)


def surveyed(points, edges):
    """The same of a model: live points, and (src, dst, weight) of live edges."""
    sums = {p: [0] * 5 for p in points}
    for s, d, w in edges:
        sums[s][0] += w * 7 + d
        sums[s][2] += w
        sums[s][3] += 1
        sums[d][1] += s + 1
        sums[d][2] += w
        sums[d][4] += 1
    return sums


def read(g):
    """Live points and edges as they stand in the columns."""
    points = np.flatnonzero(host(g.points.alive)).tolist()
    columns = [
        host(c)[host(g.edges.alive)].tolist() for c in (g.edges.src, g.edges.dst, g.edges.weight)
    ]
    return points, list(zip(*columns, strict=True))


def examine(g, points, edges):
    """The columns hold what the model does, and adjacency what the columns do."""
    got_points, got_edges = read(g)
    assert len(got_points) == points
    if edges is not None:
        assert Counter(got_edges) == Counter(edges)
    morph.foreach(g.points, survey, g)
    sums = surveyed(got_points, got_edges)
    got = host(g.points.sums)
    assert {p: got[p].tolist() for p in got_points} == sums


@tries(10)
@given(graphs())
def test_adjacency_follows_kernels_that_change_the_graph(target, shape):
    n, ends = shape

    def run():
        src, dst = (np.array([e[i] for e in ends], np.int32) for i in (0, 1))
        weight = np.array([s * 10 + d for s, d in ends], np.int64)  # alike for parallel edges
        g = morph.Graph.from_edges(src, dst, weight=weight, n=n, device=target)
        g.points.add("sums", morph.vec(i64, 5))
        g.edges.add("old", bool)
        g.edges.add("seen", bool)
        g.edges.old[:] = True
        model = [(s, d, s * 10 + d) for s, d in ends]
        examine(g, n, model)
        morph.foreach(g.edges, thin)
        model = [e for e in model if (e[0] + 2 * e[1]) % 3]
        examine(g, n, model)
        morph.foreach(g.edges, mirror, g)
        model += [(d, s, s * 10 + d + 100) for s, d, _ in model if s < d]
        examine(g, n, model)
        morph.foreach(g.points, sprout, g)
        new = (n + 1) // 2
        _, edges = read(g)
        grown = Counter(edges) - Counter(model)
        assert sum(grown.values()) == 2 * new
        ways = {(s, d) for s, d, w in grown if w == 1000}
        assert {s for s, _ in ways} == set(range(0, n, 2)) and {d for _, d in ways} == set(
            range(n, n + new)
        )
        assert {(d, s) for s, d, w in grown if w == 2000} == ways
        examine(g, n + new, edges)
        morph.foreach(g.points, uproot)
        dead = set(range(1, n + new, 4))
        model = [e for e in edges if not {e[0], e[1]} & dead]
        examine(g, n + new - len(dead), model)
        assert len(g.edge_list()[0]) == len(model)
        g.compact()
        assert len(g.points) == n + new - len(dead) and len(g.edges) == len(model)
        examine(g, len(g.points), None)

    everywhere(target, run)


@morph.kernel
def contract(p, g, step, log):
    """Make one point of a point and its neighbours, where the adjacency is still as it was."""
    ours = g.points.local(32)
    ours.add(p)
    for t in p.nbrs:
        if t not in ours:
            ours.add(t)
    inner = ours.size
    fresh = True
    for i in range(inner):
        for t in ours[i].nbrs:
            if t not in ours:
                ours.add(t)
    for q in ours:
        if q.deleted or q.step == step:
            fresh = False
    if not fresh:
        return
    if single(ours):
        mass = i64(0)
        for i in range(inner):
            q = ours[i]
            mass += q.mass
            for e in q.edges:
                e.delete()
            if q != p:
                q.delete()
        p.mass = mass
        for i in range(ours.size):
            if not ours[i].deleted:
                ours[i].step = step
            if i >= inner:
                g.edges.new(p, ours[i])
        atomic_add(log[0].won, 1)


@tries(10)
@given(graphs(most=14))
def test_contraction(target, shape):
    """A morph algorithm: it claims, deletes and adds; mass is kept, and no edge dangles."""
    n, ends = shape

    def run():
        src, dst = (np.array([e[i] for e in ends], np.int32) for i in (0, 1))
        g = morph.Graph.from_edges(src, dst, n=n, device=target)
        g.points.add("mass", i64, fill=1)
        g.points.add("step", i64)
        log = morph.Table("log", target, won=i32)
        log.extend(1)
        for step in range(1, 5):
            before = int(host(log.won)[0])
            morph.foreach(g.points, contract, g, step, log)
            assert int(host(log.won)[0]) > before, step
            alive, edges = host(g.points.alive), host(g.edges.alive)
            assert host(g.points.mass)[alive].sum() == n
            for c in (g.edges.src, g.edges.dst):
                assert alive[host(c)[edges]].all()
        assert not edges.any() or alive.sum() > 1

    everywhere(target, run)


@morph.kernel
def branch(r, rows, deep):
    if r.level < deep:
        rows.new(r.level + 1, r.id * 2 + 1)
        rows.new(r.level + 1, r.id * 2 + 2)
        r.level = 99


def test_growth_from_nothing_with_many_threads(target):
    """Thousands of rows from one, by doubling: the table grows many times, and keeps contents."""
    deep = 6 if target == "python" else 12

    def run():
        t = morph.Table("rows", target, level=i64, mark=i64)
        root = t.new(0, 0)
        for _ in range(deep):
            morph.foreach(t, branch, t, deep, where=lambda r: r.level < deep)
        assert len(t) == 2 ** (deep + 1) - 1
        assert (host(t.level) == deep).sum() == 2**deep
        parents = (host(t.mark)[1:] - 1) // 2  # each row but those of the last level has two
        assert Counter(Counter(parents.tolist()).values()) == {2: 2**deep - 1}
        assert root.level == 99

    everywhere(target, run)
