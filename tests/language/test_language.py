"""Semantics of the language in unusual cases: order, loops, None, types."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import numpy as np
import pytest
from small import points, rows, values

from morph.compiler.ir import nodes as ir
from morph.language.dtypes import Ref, vec
from morph.language.errors import LanguageError
from morph.launch.foreach import foreach, func, kernel
from morph.prelude import (
    atomic_add,
    f32,
    f64,
    i32,
    i64,
    local,
    struct,
    vector,
)

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
def step(x):
    return x + 1


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


@kernel
def popping(r):
    out = local(i64, 4)
    fill(out, 4)
    v = vector(out.pop(), 5)  # the value is no dtype
    r.a, r.b = v[0], out.size


def test_the_first_value_of_a_vector_is_evaluated_once(target):
    t = rows(target, a=i64, b=i64)
    foreach(t, popping)
    assert [values(t, c) for c in "ab"] == [[9], [3]]


@func(cpp="return x;")
def foreign(x) -> i64:
    return x


@func
def calls_foreign(x):
    return foreign(x)


@kernel
def for_its_effect(r):
    calls_foreign(r.a)


def test_a_function_that_calls_cxx_may_have_an_effect():
    foreach(rows("cpu", a=i64), for_its_effect)
    unit = list(for_its_effect.launches.values())[-1].compiled.unit
    assert [f.name for f in unit.funcs] == ["foreign", "calls_foreign", "for_its_effect"]
    assert isinstance(unit.funcs[-1].body[-1], ir.Eval)


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


SIZE = 3


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
    for thing in (in_order, step):
        with pytest.raises(TypeError, match="it"):
            thing(1)
    with pytest.raises(LanguageError):
        foreach(points("python").points, in_order)  # no column `a`


def test_what_runs_is_a_kernel_over_a_table():
    made = rows("python", a="i8")
    touch = kernel(_touch)
    for wrong, message in [
        (lambda: foreach([1, 2], touch), "over a table or a collection, not \\[1, 2\\]"),
        (lambda: foreach(made.a, touch), "over a table or a collection, not rows.a"),
        (lambda: foreach(made, len), "runs a @kernel, not <built-in function len>"),
        (lambda: foreach(made, touch, where=3), "where is a lambda or a @func of the item, not 3"),
        (lambda: kernel(len), "@kernel decorates a function made by `def`, not <built-in"),
        (lambda: func(lambda x: x), "@func decorates a function made by `def`, not <function"),
    ]:
        with pytest.raises(TypeError, match=message):
            wrong()


def _touch(p):
    p.a = 1


@pytest.mark.unchecked  # it quotes generated text
def test_the_examples_of_the_reference(target):
    text = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    assert len(blocks) > 5
    names = {}
    for k, block in enumerate(blocks):
        block = block.replace('device="cpu"', f"device={target!r}")
        file = f"<language.md, example {k + 1}, {target}>"
        linecache.cache[file] = (len(block), None, block.splitlines(keepends=True), file)
        exec(compile(block, file, "exec", dont_inherit=True), names)
