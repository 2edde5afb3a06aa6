"""What the language means where it is easy to get wrong: order, scope, None, programs."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import numpy as np
import pytest

from morph.collect import Collection, Flag, Set
from morph.dtypes import Ref, vec
from morph.graph import Graph
from morph.kernel import foreach, func, kernel, program
from morph.lang import ir
from morph.lang.errors import LanguageError
from morph.prelude import (
    atomic_add,
    atomic_min,
    barrier,
    f32,
    f64,
    i32,
    i64,
    local,
    single,
    sqrt,
    struct,
    vector,
)
from morph.table import Table


def rows(target, n=1, **columns):
    """A table of n rows of zeros; columns by dtype."""
    made = Table("rows", target, **columns)
    made.extend(n)
    return made


def values(table, name):
    return table.device.to_host(getattr(table, name).array).tolist()


def points(target, n=4, **columns):
    """A directed cycle of n points, edge k from point k, with a chord from point 0 to 2."""
    src, dst = [*range(n), 0], [*((np.arange(n) + 1) % n), 2]
    g = Graph.from_edges(src, dst, weight=np.arange(n + 1, dtype="i4") * 10, n=n, device=target)
    for name, dtype in columns.items():
        g.points.add(name, dtype)
    return g


# --- evaluation order ----------------------------------------------------------------------------


@kernel
def in_order(r):
    stack = local(i64, 8)
    stack.add(10)
    stack.add(20)
    stack.add(30)
    r.a = stack.size * 100 + stack.pop()
    r.b = r.a + atomic_add(r.a, 1) + r.a
    x = y = stack.pop()
    r.c = x + y
    one, two = 1, 2
    one, two = two, one
    r.d = one * 10 + two


def test_left_before_right(target):
    t = rows(target, a=i64, b=i64, c=i64, d=i64)
    foreach(t, in_order)
    assert values(t, "a") == [331]
    assert values(t, "b") == [330 + 330 + 331]
    assert values(t, "c") == [40]
    assert values(t, "d") == [21]


@func
def count(r, x):
    r.calls += 1
    return x


@kernel
def short(r):
    if count(r, 0) > 0 and count(r, 1) > 0:
        r.a = 1
    if count(r, 1) > 0 or count(r, 1) > 0:
        r.b = 1
    if count(r, 3) < count(r, 2) < count(r, 9):
        r.a = 1
    if count(r, 1) < count(r, 2) < count(r, 3) != count(r, 4):
        r.c = 1
    r.d = count(r, 5) if count(r, 1) > 0 else count(r, 6)


def test_what_is_not_needed_is_not_evaluated(target):
    t = rows(target, calls=i64, a=i64, b=i64, c=i64, d=i64)
    foreach(t, short)
    assert [values(t, c) for c in "abcd"] == [[0], [1], [1], [5]]
    assert values(t, "calls") == [1 + 1 + 2 + 4 + 2]


@kernel
def augmented(r, rows):
    stack = local(i64, 8)
    stack.add(5)
    stack.add(1)
    stack.add(0)
    stack[stack.pop()] += 2  # stack is 7, 1
    rows[i64(r.id) + stack.pop() - 1].a += stack[0]
    r.v.x += 1.5
    r.v[1] -= 0.5
    r.b += count(r, r.b)  # the left side is read before the call


def test_the_target_of_an_augmented_assignment_is_found_once(target):
    t = rows(target, a=i64, b=i64, calls=i64, v=vec(np.float64, 2))
    t.b[:] = 4
    foreach(t, augmented, t)
    assert [values(t, c) for c in ("a", "b", "v", "calls")] == [[7], [8], [[1.5, -0.5]], [1]]


@kernel
def chosen_first(r):
    stack = local(i64, 4)
    stack.add(1)
    stack.add(2)
    stack[0] = stack.size + stack.pop()
    r.a = stack[0] * 10 + stack.size


def test_the_value_is_evaluated_before_the_target(target):
    t = rows(target, a=i64)
    foreach(t, chosen_first)
    assert values(t, "a") == [41]


# --- loops ---------------------------------------------------------------------------------------


@kernel
def loops(r):
    n = 3
    for i in range(n):  # the range is made once
        n = 10
        r.a += i
        i += 5
    last = i64(-1)
    for last in range(0, 7, 3):
        r.f += last
    r.b = last
    total = 0
    for k in range(5, 0, -2):
        if k == 3:
            continue
        total = total * 10 + k
    r.c = total
    while True:
        total -= 1
        if total < 40:
            break
    r.d = total
    v = vector(1, 2, 3)
    for x in v:
        v[2] = 7
        r.e += x


def test_loops_run_as_in_python(target):
    t = rows(target, a=i64, b=i64, c=i64, d=i64, e=i64, f=i64)
    foreach(t, loops)
    assert [values(t, c) for c in "abcde"] == [[3], [6], [51], [39], [6]]


@kernel
def around(p, g):
    for t in p.outnbrs:
        p.out = p.out * 10 + t.id + 1
    for t in reversed(p.outnbrs):
        p.back = p.back * 10 + t.id + 1
    for t in p.outnbrs[1:]:
        p.later = p.later * 10 + t.id + 1
    for t in reversed(p.outnbrs)[p.out_degree - 1 :]:
        p.first = p.first * 10 + t.id + 1
    for t in p.innbrs:
        p.into = p.into * 10 + t.id + 1
        p.weight += g.weight(t, p)
    for e in p.outedges:
        p.last = e.id
        for d in e.nbr2:
            p.next += i64(d.id) * (i64(d.src == e.dst) + i64(d.dst == e.dst))
    p.missing = g.edge(p, p)


def test_iterators(target):
    g = points(
        target, out=i64, back=i64, later=i64, first=i64, into=i64, weight=i64, last=i64, next=i64,
        missing=Ref("edges"),
    )  # fmt: skip
    foreach(g.points, around, g)
    assert values(g.points, "out") == [23, 3, 4, 1]
    assert values(g.points, "back") == [32, 3, 4, 1]
    assert values(g.points, "later") == [3, 0, 0, 0]
    assert values(g.points, "first") == [2, 3, 4, 1]
    assert sorted(map(sorted, map(str, values(g.points, "into")))) == [
        ["1"],
        ["1", "2"],
        ["3"],
        ["4"],
    ]
    assert sum(values(g.points, "weight")) == 100
    assert values(g.points, "missing") == [-1] * 4


@kernel
def turned(p, g):
    q = p
    for t in q.outnbrs:
        q = t  # the loop still runs over the neighbours of p
        p.sum += g.weight(p, t)
    for t in p.outnbrs:
        t = p
        p.none += i32(g.edge(p, t) is None)


def test_a_reassigned_point_is_not_the_one_the_loop_began_with(target):
    g = points(target, sum=i32, none=i32)
    foreach(g.points, turned, g)
    weights = np.zeros(4, int)
    np.add.at(weights, values(g.edges, "src"), values(g.edges, "weight"))
    assert values(g.points, "sum") == weights.tolist()
    assert values(g.points, "none") == [2, 1, 1, 1]


# --- None ----------------------------------------------------------------------------------------


@func
def smallest(p):
    found = None
    for t in p.outnbrs:
        if found is None or t.id < found.id:
            found = t
    return found


@func
def maybe(p, want):
    if not want:
        return None, 0
    return p, 1


@kernel
def nothing(p, g):
    before = None
    for t in p.outnbrs:
        if before == t:
            p.same += 1
        if before is not None:
            p.seen += 1
        before = t
    p.least = smallest(p)
    q, n = maybe(p, p.id == 1)
    p.kept = q
    p.same += n


def test_none_is_a_row_that_is_not_there(target):
    g = points(target, seen=i64, same=i64, least=Ref("points"), kept=Ref("points"))
    foreach(g.points, nothing, g)
    assert values(g.points, "seen") == [1, 0, 0, 0]
    assert values(g.points, "same") == [0, 1, 0, 0]
    assert values(g.points, "least") == [1, 2, 3, 0]
    assert values(g.points, "kept") == [-1, 1, -1, -1]


# --- names ---------------------------------------------------------------------------------------


@func
def step(x):
    return x + 1


def other_step():
    @func
    def step(x):
        return x * 10

    return step


STEP = other_step()


@kernel
def names(int, status, threads, pending, int_, state):
    a, it, key, position, t0_ = status, threads, pending, int_, state
    short = step(a) + STEP(it) + key + position + t0_
    int.bool = short
    int.delete_ = STEP(step(1))


def test_any_name_may_be_used(target):
    t = rows(target, bool=i64, delete_=i64)
    foreach(t, names, 1, 2, 3, 4, 5)
    assert values(t, "bool") == [2 + 20 + 3 + 4 + 5]
    assert values(t, "delete_") == [20]


@kernel
def hidden_words(p, g, g_points, room):
    mine = g.points.local(2)
    mine.add(p)
    p.lock = p.free + 1
    p.lock -= 1


@kernel
def hidden_claim(p, g, g_points, room):
    mine = g.points.local(2)
    mine.add(p)
    if single(mine):
        p.owner = p.free + g_points.x
        row = room.new(owner=p.id, flag=3)
        row.lock = p.lock


def test_a_column_may_be_named_as_what_stands_beside_it(target):
    g = points(target, owner=i64, lock=i64, free=i64)
    g.points.free[:] = 5
    other = rows(target, x=i64)
    other.x[:] = 2
    room = Table("room", g.device, owner=i64, flag=i64, lock=i64)
    foreach(g.points, hidden_words, g, other[0], room)
    foreach(g.points, hidden_claim, g, other[0], room)
    assert values(g.points, "owner") == [7] * 4 and values(g.points, "lock") == [5] * 4
    assert sorted(values(room, "owner")) == [0, 1, 2, 3]
    assert values(room, "flag") == [3] * 4 and values(room, "lock") == [5] * 4


# --- constants, closures -------------------------------------------------------------------------

SIZE = 3


class Settings:
    offset = 5


@kernel
def constant(r):
    r.a = SIZE + Settings.offset


def test_a_changed_attribute_is_new_code(target, monkeypatch):
    t = rows(target, a=i64)
    foreach(t, constant)
    monkeypatch.setattr(Settings, "offset", 100)
    foreach(t, constant)
    assert values(t, "a") == [103]


def with_helper(scale):
    @func
    def scaled(x):
        return x * scale

    @kernel
    def run(r, level):
        r.a += scaled(level)

    return run


@pytest.mark.parametrize("scale", [3, 4])
def test_functions_keep_the_closure_they_were_made_with(target, scale):
    t = rows(target, a=i64)
    foreach(t, with_helper(scale), 7)
    assert values(t, "a") == [7 * scale]


@kernel
def add(r, level):
    r.a += level


def test_a_filter_and_a_kernel_may_use_one_name_for_two_numbers(target):
    t = rows(target, 4, a=i64)
    for level in (2, 3, np.int32(1)):
        foreach(t, add, 10 * level, where=lambda r: r.id == level)  # noqa: B023
    assert values(t, "a") == [0, 10, 20, 30]
    for level in (0, 0.5):
        foreach(t, add, 1, where=lambda r: r.id < level)  # noqa: B023
    assert values(t, "a") == [1, 10, 20, 30]


# --- functions -----------------------------------------------------------------------------------


@struct
class Box:
    low: f64
    high: f64


@func
def fill(out, n):
    for i in range(n):
        out.add(i * i)
    out[0] = 42
    return n


@func
def wide(box):
    return box.high - box.low


@func
def pair(r, f):
    return f(r.a), f(r.b)


@kernel
def structured(r):
    out = local(i64, 8)
    fill(out, 3)
    r.a, r.b = out[0], out[2]
    box = Box(high=4.0, low=1)
    box.high += 0.5
    r.w = wide(box)
    x, y = pair(r, step)
    r.a = x * 1000 + y
    r.v = vector(1, 2.5) * 2 + r.v


def test_functions_structs_vectors(target):
    t = rows(target, a=i64, b=i64, w=f64, v=vec(np.float64, 2))
    foreach(t, structured)
    assert [values(t, c) for c in "abwv"] == [[43005], [4], [3.5], [[2.0, 5.0]]]


# --- single --------------------------------------------------------------------------------------


@kernel
def own(p, g, k, won):
    k = k * 2  # a parameter that is assigned keeps its value to the end
    mine = g.points.local(4)
    mine.add(p)
    for t in p.outnbrs:
        mine.add(t)
    seen = None
    for t in mine:
        seen = t
    if single(mine):
        p.times += k
        seen.last = k
        won.add(p)
    else:
        p.lost += k


def test_locals_and_parameters_last_from_gather_to_commit(target):
    g = points(target, 8, times=i64, lost=i64, last=i64)
    won = Collection(g.points)
    foreach(g.points, own, g, 5, won)
    times, lost = np.array(values(g.points, "times")), np.array(values(g.points, "lost"))
    assert ((times == 10) ^ (lost == 10)).all() and times.any()
    assert len(won) == (times == 10).sum()


@kernel
def once(p, first):
    if single(first.lock):
        first.a = p.id + 1


def test_single_place(target):
    t = rows(target, 9, lock=i32, a=i64)
    foreach(t, once, t[3])
    assert sum(a > 0 for a in values(t, "a")) == 1 and values(t, "lock")[3] == 1


# --- reservations --------------------------------------------------------------------------------


@func
def spread(out, p, extra):
    for t in p.outnbrs:
        out.add(t)
    for _ in range(extra):
        out.add(p)


@kernel
def allocate(p, g, out, made, n):
    some = local(i64, 4)
    p.mark = 1
    for i in range(n):
        some.add(i)
    for i in some:
        made.new(i)
    spread(out, p, n - 1)
    fresh = made.new_rows(n)
    for r in fresh:
        r.x = 100
    if p.other is not None:
        for _ in range(p.other.size):
            out.add(p)


@pytest.mark.parametrize("n", [0, 1, 3, 9])
def test_what_is_reserved_is_enough(target, n):
    g = points(target, mark=i32, other=Ref("points"), size=i64)
    g.points.other[:] = np.array([-1, 0, 0, -1], np.int32)
    g.points.size[:] = 2
    out, made = Collection(g.points), Table("made", g.device, x=i64)
    foreach(g.points, allocate, g, out, made, n)
    assert len(out) == 5 + 4 * max(n - 1, 0) + 4
    assert sorted(values(made, "x")) == sorted([*range(n)] * 4 + [100] * 4 * n)


def needs(kernel_, g, *args):
    """What a kernel reserves, as written in the IR."""
    foreach(g.points, kernel_, *args)
    unit = list(kernel_.launches.values())[-1].compiled.unit
    return [n for f in unit.funcs for s in ir.walk(f) if isinstance(s, ir.Reserve) for n in s.needs]


@kernel
def one_side(p, out):
    if p.id > 1:
        out.add(p)
        out.add(p)
    elif p.id == 1:
        out.add(p)


def test_branches_reserve_their_own():
    g = points("python")
    found = needs(one_side, g, Collection(g.points))
    assert [n.count.value for n in found] == [2, 1]


# --- programs ------------------------------------------------------------------------------------


@kernel
def visit(p, level, next):
    p.dist = level
    for t in p.outnbrs:
        if atomic_min(t.dist, level + 1) > level + 1:
            next.add(t)


@kernel
def touch(p):
    p.count += 1


@program
def levels(g, cur, next, source, most):
    g.points[source].dist = 0
    level = 0
    while not cur.empty:
        foreach(cur, visit, level, next)
        cur, next = next, cur
        next.clear()
        level += 1
        if level >= most:
            break
    return level


@program
def nested(g, flag, n):
    total = 0
    i = 0
    while i < n:
        i += 1
        if i == 2:
            continue
        j = 0
        while True:
            j += 1
            foreach(g.points, touch, where=lambda p: p.id < j and p.id < i)
            barrier()
            if j >= i:
                break
        if i % 2 == 1:
            flag.set()
        if flag.take():
            g.points[0].dist += i
            total += 10 * i
        elif i == 100:
            return -1
        x = i if i > 2 else j
        total += x
    g.points[1].dist = sqrt(g.points[0].dist)
    if total > 1000:
        return total
    else:
        return 0 - total


def both(run, target, **columns):
    """A program's result and its points, fused and eagerly."""
    found = []
    for eager in (False, True):
        g = points(target, 6, **columns)
        found.append((run(g, eager), {c: values(g.points, c) for c in columns}))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("most", [1, 2, 3, 99])
def test_swapped_worklists(target, most):
    def run(g, eager):
        g.points.dist[:] = 100
        cur, next_ = Collection(g.points), Collection(g.points)
        cur.add(1)
        result = (levels.eager if eager else levels)(g, cur, next_, 1, most)
        return int(result), sorted(cur.items.tolist()), sorted(next_.items.tolist())

    result, found = both(run, target, dist=i64)
    assert result[0] == min(most, 6)
    assert sum(d < 100 for d in found["dist"]) == min(most + 1, 6)


@pytest.mark.parametrize("n", [0, 1, 4, 7])
def test_nested_loops_break_continue_return(target, n):
    def run(g, eager):
        return int((nested.eager if eager else nested)(g, Flag(g), n))

    both(run, target, count=i64, dist=f64)


@kernel
def link(p, sets, joined):
    for t in p.outnbrs:
        if t.id != 0 and sets.union(p, t):
            joined.x += 1


@kernel
def name(p, sets):
    p.label = sets.find(p)


def test_sets(target):
    g = points(target, 5, label=Ref("points"))
    sets, joined = Set(g.points), rows(target, x=i64)
    foreach(g.points, link, sets, joined[0])
    foreach(g.points, name, sets)
    assert values(g.points, "label") == [0] * 5


# --- types ---------------------------------------------------------------------------------------


@kernel
def literals(r):
    x = r.small + 1  # the literal gives way: still i32
    r.f = r.f * 0.5 + 1  # still f32
    y = r.small / 2  # true division of integers is f64
    z = r.small + r.f  # i32 and f32 meet in f64, as in NumPy
    r.sum = i64(x) * 100 + i64(y * 2) + i64(z)
    if 1 < r.small < 5 and r.small:
        r.sum += 1000


def test_literals_give_way(target):
    t = rows(target, small=i32, f=f32, sum=i64)
    t.small[:], t.f[:] = 3, 4.0
    foreach(t, literals)
    unit = list(literals.launches.values())[-1].compiled.unit
    types = {n: str(t) for f in unit.funcs for n, t in f.locals}
    assert (types["x"], types["y"], types["z"]) == ("i32", "f64", "f64")
    assert values(t, "sum") == [400 + 3 + 6 + 1000] and values(t, "f") == [3.0]


@kernel
def unreachable(r):
    if SIZE > 100:
        r.a = nothing_of_this_name  # noqa: F821
    while True:
        r.a += 1
        if r.a > 3:
            return


def test_branches_that_constants_decide_are_left_out(target):
    t = rows(target, a=i64)
    foreach(t, unreachable)
    assert values(t, "a") == [4]


def test_a_kernel_is_not_called():
    for thing in (touch, step):
        with pytest.raises(TypeError, match="it"):
            thing(1)
    with pytest.raises(LanguageError):
        foreach(points("python").points, touch)  # no column `count`


def test_the_examples_of_the_reference(target):
    text = (Path(__file__).parent.parent / "docs" / "language.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    assert len(blocks) > 5
    names = {}
    for k, block in enumerate(blocks):
        block = block.replace('device="cpu"', f"device={target!r}")
        file = f"<language.md, example {k + 1}, {target}>"
        linecache.cache[file] = (len(block), None, block.splitlines(keepends=True), file)
        exec(compile(block, file, "exec", dont_inherit=True), names)
