"""Kernels of each derived kind give on parts what they give on one device."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from test_parts_programs import check, divided_graphs

import morph
from morph.prelude import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_sub,
    atomic_xor,
    f64,
    i32,
    i64,
    single,
)

FAR = 2**30


def add(g, dtype, names, fill=0):
    for name in names.split():
        g.points.add(name, dtype, fill=fill)


def items(collection, *columns):
    """Items in order, and the columns of their entries."""
    found = np.array(collection.items)
    order = np.argsort(found, kind="stable")
    return (found[order], *(np.array(getattr(collection, c))[order] for c in columns))


@morph.func
def improve(p, t, level):
    if atomic_min(t.dist, level) > level:
        t.source = p.id  # race: of several, any
        return True
    return False


@morph.func
def wanted(t, level):
    return t.dist > level


@morph.kernel
def visit(p, level, then):
    for t in p.outnbrs:
        if wanted(t, level):
            if improve(p, t, level):
                then.add(t)


def search(g):
    add(g, i32, "dist", FAR)
    add(g, i32, "source", -1)
    now, then, level = morph.Collection(g.points), morph.Collection(g.points), 0
    g.points[0].dist = 0
    now.add(0)
    while not now.empty:
        level += 1
        morph.foreach(now, visit, i32(level), then)
        now, then = then, now
        then.clear()
    dist, source = np.array(g.points.dist[:]), np.array(g.points.source[:])
    reached = source >= 0
    assert (dist[source[reached]] == dist[reached] - 1).all()
    return dist, reached


@morph.kernel
def list_once(p, then):
    for t in p.outnbrs:
        if t.number < 7:
            if single(t):
                then.add(t)


@morph.kernel
def lock_once(p, then, s):
    for t in p.outnbrs:
        if single(t.lock):
            atomic_add(s.count, 1)
            then.add(t)


def locks(g):
    add(g, i32, "number lock")
    g.points.number[:] = np.arange(len(g.points))
    s, then, all_of = morph.Scalars(g, count=0), *(morph.Collection(g.points) for _ in "12")
    morph.foreach(g.points, list_once, then)
    morph.foreach(g.points, lock_once, all_of, s)
    return (*items(then), *items(all_of), s.count, g.points.lock)


@morph.kernel
def relax_entry(x, far, near):
    for e in x.item.outedges:
        d = x.key + e.weight
        if atomic_min(e.dst.dist, d) > d:
            if d > 6:
                far.add(e.dst, key=d)
            else:
                near.add(e.dst, key=d)


def entries(g):
    add(g, i64, "dist", FAR)
    near, following, far = (morph.Collection(g.points, key=i64) for _ in range(3))
    g.points[0].dist = 0
    near.add(0, key=0)
    while not (near.empty and far.empty):
        if near.empty:
            near, far = far, near
        morph.foreach(near, relax_entry, far, following, where=lambda x: x.key <= x.item.dist)
        near.clear()
        near, following = following, near
    return g.points.dist


@morph.kernel
def count_degree(p):
    p.near = i32(p.degree)


@morph.kernel
def drop(p, k, falling, soon):
    p.core = k
    for t in p.nbrs:
        if t.near > k:
            before = atomic_sub(t.near, 1)
            if before == k + 1:
                falling.add(t)
            elif before == k + 2:
                soon.add(t)


def peel(g):
    add(g, i32, "near")
    add(g, i32, "core", -1)
    now, then, soon = (morph.Collection(g.points) for _ in range(3))
    morph.foreach(g.points, count_degree)
    near = np.array(g.points.near[:])
    least = int(near.min())
    now.extend(np.flatnonzero(near == least))
    while not now.empty:
        morph.foreach(now, drop, i32(least), then, soon, where=lambda p: p.core < 0)
        now.clear()
        now, then = then, now
    return (g.points.core, *items(soon))  # two edges at once may both lower `near` past k


@morph.kernel
def meet(e):
    atomic_add(e.dst.a, e.weight)
    atomic_add(e.src.a, 1)
    if atomic_max(e.dst.b, e.src.x) < e.src.x:
        atomic_add(e.dst.c, 1)
    if atomic_xor(e.dst.d, e.src.id) == -1:
        e.dst.d = 5


@morph.kernel
def number(p):
    p.x = i64(p.id * 7 % 5)


@morph.kernel
def list_heavy(p, heavy):
    for e in p.outedges:
        if e.weight > 4:
            heavy.add(e)


@morph.kernel
def load_heavy(e, s):
    atomic_add(e.dst.c, e.weight)
    atomic_add(s.number, 1)
    s.seen = True  # race: all write the same


def edges(g):
    add(g, i64, "a b c d x")
    morph.foreach(g.points, number)
    morph.foreach(g.edges, meet)
    morph.foreach(g.edges, meet)
    g.points.c[:] = 0
    heavy, s = morph.Collection(g.edges), morph.Scalars(g, number=0, seen=False)
    morph.foreach(g.points, list_heavy, heavy)
    morph.foreach(heavy, load_heavy, s)
    return g.points.a, g.points.b, g.points.c, g.points.d, s.number, s.seen


@morph.kernel
def propose(p):
    for t in p.outnbrs:
        atomic_min(t.best, p.id)


@morph.kernel
def adopt(p, then):
    for t in p.outnbrs:
        if t.best == p.id:
            if single(t.lock):
                t.parent = p
                v = p.v
                v[1] = f64(t.id)
                t.w = v
                then.add(t, value=p.id + t.id)


@morph.kernel
def follow(p):
    q = p.parent
    if q is not None:
        p.seen = q.best
        atomic_max(q.child, p.id)


def parents(g):
    add(g, i32, "best", FAR)
    add(g, i32, "lock seen child", -1)
    g.points.lock[:] = 0
    add(g, morph.vec(f64, 2), "v w")
    g.points.add("parent", morph.Ref("points"))
    g.points.v[:] = np.arange(2 * len(g.points)).reshape(-1, 2)
    then = morph.Collection(g.points, value=i32)
    morph.foreach(g.points, propose)
    morph.foreach(g.points, adopt, then)
    morph.foreach(g.points, follow)
    points = g.points
    return (points.parent, points.w, points.seen, points.child, *items(then, "value"))


@morph.kernel
def add_up(p, s, flag, g):
    x = p.id * 13 % 11
    atomic_add(s.plus, x)
    atomic_min(s.least, x)
    atomic_max(s.most, x)
    atomic_or(s.bits, 1 << x)
    if x > 3 and p.id == 1 or p.id == 1 and x < 9:
        s.second = x
    if p.id == len(g.points) - 1:
        s.last = p.id
        flag.set()


@morph.func
def put(s, p, a):
    if p.id != 1:
        return
    s.first = a


@morph.func
def put_twice(s, a):
    s.total = a
    s.again = a


@morph.kernel
def sum_all(s, g):
    a, low, high, some, every = 0, 1000, -1, 0, -1
    for p in g.points:
        a += p.id
        some |= p.id * 2
        every &= p.id | 8
        low = min(low, p.id * 7 % 5)
        high = max(high, p.id * 7 % 5)
        p.got = i32(s.plus)
        put(s, p, p.id + 3)
        if p.id > 2:
            one = 7
        else:
            one = 7
        s.one = one
    put_twice(s, a)
    s.low = low
    s.high = high
    s.some = some
    s.every = every
    s.other = s.plus + 1
    atomic_add(s.twice, 2)


def totals(g):
    names = "plus least most bits last total again low high other twice first second one".split()
    names += ["some", "every"]
    s, flag = morph.Scalars(g, **dict.fromkeys(names, 5)), morph.Flag(g)
    add(g, i32, "got")
    morph.foreach(g.points, add_up, s, flag, g)
    morph.foreach(s, sum_all, g)
    return (g.points.got, flag.take(), *(int(getattr(s, name)) for name in names))


@morph.kernel
def spill(p, g):
    for e in p.outedges:
        t = e.dst
        w = g.weight(p, t)
        atomic_add(t.f, f64(w) / 2)
        atomic_sub(t.n, 2)
        if p.id < t.id:
            atomic_and(t.bits, p.id)


@morph.kernel
def step(p):
    p.n = p.n + 1


def sums(g):
    add(g, f64, "f", 1.5)
    add(g, i32, "n", 3)
    add(g, i32, "bits", -1)
    for _ in range(3):
        morph.foreach(g.points, spill, g)
        morph.foreach(g.points, step)
    return g.points.f, g.points.n, g.points.bits  # multiples of a half: exact


@morph.kernel
def take_turns(p, then, s):
    for t in p.outnbrs:
        if atomic_cas(t.state, 0, 1) == 0:
            for i in range(3):
                atomic_add(s.loops, i)
            then.add(t)
        else:
            atomic_add(t.again, 1)
    for t in p.innbrs:
        if t.value > p.value and t != p:
            atomic_add(t.beaten, 1)
            p.wins = p.wins + 1
    for t in p.nbrs:
        if t.out_degree > 1 and t.value < 9:
            atomic_add(t.hit, 1)


def turns(g):
    add(g, i32, "state again value beaten wins hit")
    g.points.value[:] = np.arange(len(g.points)) * 5 % 7
    s, then = morph.Scalars(g, loops=0), morph.Collection(g.points)
    morph.foreach(g.points, take_turns, then, s)
    found = (getattr(g.points, name) for name in "state again beaten wins hit".split())
    return (*found, int(s.loops), *items(then))


@morph.kernel
def pull(p, g):
    best = i32(FAR)
    for t in p.innbrs:
        best = min(best, t.label)
        if g.edge(p, t) is not None:
            p.both = p.both + 1
    p.next = min(p.label, best)


@morph.kernel
def copy(p, changed):
    if p.next < p.label:
        p.label = p.next
        changed.set()


@morph.kernel
def mark(e):
    e.mark = e.weight % 5


@morph.kernel
def pull_edges(p):
    for e in p.inedges:
        atomic_add(e.src.got, e.weight)
        if e.mark > 2:
            atomic_max(e.src.top, p.id)


def pulls(g):
    add(g, i32, "label next both")
    add(g, i64, "got")
    add(g, i32, "top", -1)
    g.edges.add("mark", i64)
    g.points.label[:] = np.arange(len(g.points))
    changed = morph.Flag(g)
    changed.set()
    while changed.take():
        morph.foreach(g.points, pull, g)
        morph.foreach(g.points, copy, changed)
    morph.foreach(g.edges, mark)
    if g.directed:
        morph.foreach(g.points, pull_edges)
    return g.points.label, g.points.both, g.points.got, g.points.top


@morph.kernel
def elect(p, then):
    best = None
    for t in p.outnbrs:
        if best is None or t.id < best.id:
            best = t
    if best is not None:
        if atomic_add(best.votes, 1) == 0:
            then.add(best)
    p.x = 100
    if p.id > 2:
        alike = 8
    else:
        alike = 8
    for t in p.outnbrs:
        atomic_min(t.y, p.id + 50)
        t.w = alike
    atomic_max(p.z, 40)


def votes(g):
    add(g, i32, "votes x y z")
    add(g, i64, "w")
    then = morph.Collection(g.points)
    morph.foreach(g.points, elect, then)
    return (*(getattr(g.points, name) for name in "votes w x y z".split()), *items(then))


@morph.kernel
def bound(p, then):
    for t in p.outnbrs:
        if p.id % 2 == 0:
            atomic_min(t.dist, 5)
        elif atomic_min(t.dist, 3) > 3:
            then.add(t)


@morph.kernel
def list_first(p, then):
    for t in p.outnbrs:
        if t.top < 5:
            then.add(t)
        atomic_max(t.top, 100)


@morph.kernel
def bound_again(p):
    for t in p.outnbrs:
        if atomic_cas(t.lock, 0, 1) == 0:
            t.seen = t.low
        atomic_min(t.low, 7)


def orders(g):
    """What an item does at one other end, in order."""
    add(g, i32, "dist low", 10)
    add(g, i32, "top lock seen")
    first, second = morph.Collection(g.points), morph.Collection(g.points)
    morph.foreach(g.points, bound, first)
    morph.foreach(g.points, list_first, second)
    morph.foreach(g.points, bound_again)
    found, seen = np.unique(items(second)[0]), np.array(g.points.seen[:])
    assert (seen[np.array(g.points.lock[:]) == 1] >= 7).all()
    return g.points.dist, items(first)[0], found, g.points.low, g.points.lock


@morph.kernel
def mark_twice(p, then):
    for t in p.outnbrs:
        p.count += t.mark
        t.mark = p.id + 1  # race: no other point leads to t
        p.count += t.mark
        if atomic_min(t.low, p.id) > p.id:
            then.add(t)
        p.sum += t.low
    for t in p.outnbrs:
        p.count += t.mark


@pytest.mark.parametrize("kind", ["cpu", "python", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_an_item_reads_what_it_has_changed_at_other_ends(kind):
    # each point has one in-neighbour, and several edges from there
    ends = np.arange(16) % 8
    g = morph.Graph.from_edges((ends // 2 + 3) % 8, ends, n=8, device="cpu")
    found = []
    for graph in (g.copy(), morph.partition(g, [kind] * 3, by=np.arange(8) % 3)):
        add(graph, i64, "count sum low mark", 5)
        then = morph.Collection(graph.points)
        morph.foreach(graph.points, mark_twice, then)
        columns = (getattr(graph.points, x)[:] for x in ("count", "sum", "low", "mark"))
        found.append((*map(np.array, columns), *items(then)))
    for a, b in zip(*found, strict=True):
        assert np.array_equal(a, b)


def numbered(g):
    """Rows by their number: of the item's own part, or of another one."""
    add(g, i64, "count sum low mark", 5)
    g.points.add("place", (f64, 2))
    g.points.add("most", i64, fill=9)
    n = len(g.points)
    g.points.low[:], g.points.place[:] = np.arange(n) * 7 % n, np.arange(2 * n).reshape(n, 2)
    s, then = morph.Scalars(g, total=0), morph.Collection(g.points)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        morph.foreach(g.points, jump, g, s, then)
        morph.foreach(then, look_up, g)
        morph.foreach(s, look_up_few, g)
        morph.foreach(g.points, change_others, g)
        morph.foreach(g.points, reset_low, where=lambda p: g.points[n - 1 - p.id].count > n)
    if isinstance(g, morph.PartitionedGraph):
        texts = [str(w.message) for w in warned if w.category is morph.PerformanceWarning]
        assert len(texts) == 5 and "jump uses points by number" in texts[0]
        assert "before: all values of" in jump.source()
        assert "of the owners, from all_points0" in change_others.source()
    columns = (getattr(g.points, x)[:] for x in ("count", "sum", "low", "mark", "place", "most"))
    return (*map(np.array, columns), s.total, *items(then))


@morph.kernel
def change_others(p, g):
    i = (p.id * 3 + 1) % len(g.points)
    atomic_add(g.points[i].count, p.id)
    atomic_min(g.points[i // 2].most, -p.sum)
    g.points[len(g.points) - 1 - p.id].place[1] = 0.5 + p.id  # race: one item for each row
    for t in p.outnbrs:
        atomic_max(g.points[t.id ^ (t.id & 1)].mark, p.id)


@morph.kernel
def jump(p, g, s, then):
    half = g.points[g.points[p.low].low].low  # pointer jumping
    p.count = half
    p.sum = g.points[(p.id + 1) % len(g.points)].id + i64(g.points[half].place[1])
    if g.points[half].low > p.id:
        then.add(p)
    for t in p.outnbrs:
        atomic_max(t.mark, g.points[t.id].low + g.points[half].low)
    atomic_add(s.total, g.points[half].low)


@morph.kernel
def look_up(p, g):
    q = g.points[p.count]
    p.sum = p.sum + q.count * 2 - q.id


@morph.kernel
def look_up_few(s, g):
    s.total = s.total + g.points[0].count * g.points[len(g.points) - 1].sum


@morph.kernel
def reset_low(p):
    p.low = -1


@morph.func
def hop(p, g):
    before = g.points[p.low].count
    p.count = before + 1


@morph.kernel
def hop_twice(p, g):
    hop(p, g)
    hop(p, g)


def test_functions_that_read_by_number_and_write_are_refused():
    """The second call would read the value before the step, not that of the first."""
    parts = morph.partition(morph.generate.grid(4, 4, device="cpu"), ["cpu", "cpu"])
    add(parts, i64, "count low")
    with pytest.raises(morph.LanguageError, match="is its value before the step"):
        morph.foreach(parts.points, hop_twice, parts)


def test_a_row_by_number_is_one_that_is_there():
    g = morph.generate.grid(4, 4, device="cpu")
    parts = morph.partition(g, ["cpu", "cpu"])
    add(parts, i64, "count sum")
    parts.points.count[:] = 99
    with morph.checked(), pytest.raises(morph.CheckError, match="count"):
        morph.foreach(parts.points, look_up, parts)


def infinite(g):
    s = morph.Scalars(g, total=np.inf)
    morph.foreach(g.points, count_more, s)
    return s.total


@morph.kernel
def count_more(p, s):
    atomic_add(s.total, 1.0)


PROGRAMS = [
    search, locks, entries, peel, edges, parents, totals, sums, turns, pulls, votes, orders,
    infinite, numbered,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
@given(divided=divided_graphs())
def test_kernels_on_parts(program, divided):
    check(program, *divided)


@pytest.mark.gpu
@pytest.mark.parametrize("program", PROGRAMS)
@given(divided=divided_graphs(devices=("cuda",)))
def test_kernels_on_parts_of_a_gpu(program, divided):
    check(program, *divided)
