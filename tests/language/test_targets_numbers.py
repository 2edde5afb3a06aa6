"""Numbers at their limits: conversions, ranges, slices, ``and`` and ``or`` of numbers."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import points, rows, values
from targets import table, tries

import morph
from morph.language.errors import LanguageError
from morph.prelude import (
    atomic_add,
    bool_,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    popcount,
    u8,
    u16,
    u32,
    u64,
)

INTEGERS = (i8, i16, i32, i64, u8, u16, u32, u64)
EDGES = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, math.inf, -math.inf, math.nan, 1e30, -1e30, 300.7, -129.2]
EDGES += [
    s * 2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1) for d in (-1, 0, 1)
]


@morph.kernel
def convert(r):
    r.a, r.b, r.c, r.d = i8(r.x), i16(r.x), i32(r.x), i64(r.x)
    r.e, r.f, r.g, r.h = u8(r.x), u16(r.x), u32(r.x), u64(r.x)


def saturated(x, dtype):
    info = np.iinfo(dtype)
    if math.isnan(x):
        return 0
    return (
        int(min(max(x, info.min), info.max))
        if math.isinf(x)
        else min(max(int(x), info.min), info.max)
    )


@pytest.mark.parametrize("dtype", [f16, f32, f64], ids=lambda t: t.__name__)
def test_a_float_becomes_the_nearest_integer_that_the_type_has(target, dtype):
    with np.errstate(over="ignore"):
        x = np.array(EDGES * 5, dtype)  # several of each, for vector instructions
    columns = dict(zip("abcdefgh", INTEGERS, strict=True))
    t = table(target, x=x, **{n: np.zeros(len(x), kind) for n, kind in columns.items()})
    morph.foreach(t, convert)
    for name, kind in columns.items():
        assert values(t, name) == [saturated(float(v), kind) for v in x], kind


BIG = 2**63 - 1


@morph.kernel
def count(r):
    n = 0
    for i in range(r.start, r.stop):
        n += 1
        r.sum += i
        if n == 5:
            break
    for i in range(r.start, r.stop, 3):
        n += 1
        r.sum += i
        if n > 9:
            break
    for i in range(r.stop, r.start, -1):
        n += 1
        r.sum += i
        if n > 14:
            break
    for i in range(r.stop, r.start, -(2**62)):
        n += 1
        r.sum += i
        if n > 19:
            break
    for i in range(r.start, r.stop, 2**63 - 1):
        n += 1
        r.sum += i
        if n > 24:
            break
    for i in range(r.stop, r.start, -(2**63)):
        n += 1
        r.sum += i
        if n > 29:
            break
    r.num = n


def counted(a, b):
    n = total = 0
    for spans, most in (
        (range(a, b), 5), (range(a, b, 3), 10), (range(b, a, -1), 15), (range(b, a, -(2**62)), 20),
        (range(a, b, BIG), 25), (range(b, a, -(2**63)), 30),
    ):  # fmt: skip
        for i in spans:
            n, total = n + 1, total + i
            if n >= most if most > 5 else n == most:
                break
    return n, (total + 2**63) % 2**64 - 2**63


def ends(dtype):
    info = np.iinfo(dtype)
    near = [*range(int(info.min), int(info.min) + 7), *range(int(info.max) - 7, int(info.max) + 1)]
    return [(a, b) for a in near for b in (near[0], near[3], near[-1], near[-4], 0, 5)]


@pytest.mark.parametrize("dtype", [i32, i64, u32, i8], ids=lambda t: t.__name__)
def test_a_range_ends_as_pythons_does(target, dtype):
    pairs = ends(dtype)
    start, stop = (np.array([p[i] for p in pairs], dtype) for i in range(2))
    zeros = np.zeros(len(pairs), "i8")
    t = table(target, start=start, stop=stop, num=zeros, sum=zeros)
    morph.foreach(t, count)
    found = list(zip(values(t, "num"), values(t, "sum"), strict=True))
    assert found == [counted(int(a), int(b)) for a, b in pairs]


@morph.kernel
def count_unsigned(r):
    for i in range(r.start, r.stop):
        r.num += 1
        r.sum += i
        if r.num == 4:
            break


def test_a_range_of_u64_ends_at_the_largest_i64(target):
    pairs = [(0, 3), (BIG - 2, BIG), (BIG - 2, 2**64 - 1), (2**63, 2**63 + 2), (2**64 - 1, 3)]
    start, stop = (np.array([p[i] for p in pairs], u64) for i in range(2))
    zeros = np.zeros(len(pairs), "i8")
    t = table(target, start=start, stop=stop, num=zeros, sum=zeros)
    morph.foreach(t, count_unsigned)
    want = [list(islice(range(min(a, BIG), min(b, BIG)), 4)) for a, b in pairs]
    assert values(t, "num") == [len(w) for w in want]


@morph.kernel
def leave_out(p, log):
    for t in p.outnbrs[p.skip :]:
        atomic_add(p.seen, t.id + 1)
    for e in p.outedges[p.skip :]:
        log.add(p)
        if e.id > 99:
            break
    for t in reversed(p.outnbrs)[p.skip :]:
        p.back += t.id + 1


@pytest.mark.parametrize("skip", [BIG, BIG - 1, 2**62, 2**40 + 1, 5, 1, 0, -1, -BIG - 1])
def test_a_slice_may_begin_anywhere(target, skip):
    g = points(target, skip=i64, seen=i64, back=i64)
    g.points.skip[:] = skip
    log = morph.Collection(g.points)
    morph.foreach(g.points, leave_out, log)
    outs = [[1, 2], [2], [3], [0]]
    left = [sum(q + 1 for q in o[max(skip, 0) :]) for o in outs]
    back = [sum(q + 1 for q in o[::-1][max(skip, 0) :]) for o in outs]
    assert (values(g.points, "seen"), values(g.points, "back")) == (left, back)
    assert len(log) == sum(len(o[max(skip, 0) :]) for o in outs)


@morph.kernel
def decide(r):
    r.a = r.x and r.y
    r.b = r.x or r.y
    r.c = r.x and r.y or r.z
    r.d = r.x or r.z and 7
    r.e = (r.x or 2) + (r.z and 3)
    r.f = f64(r.w or r.x)
    r.g = r.x > 1 and r.y
    r.h = i64((r.x and r.y) > 1 or not (r.z or r.x))
    r.k = r.x or atomic_add(r.num, 1) or r.z and atomic_add(r.num, 5)
    if r.x and r.y or r.w:
        r.h += 10


def decided(x, y, z, w, n):
    a, b = x and y, x or y
    c, d = x and y or z, x or z and 7
    e, f = (x or 2) + (z and 3), float(w or x)
    g, h = x > 1 and y, int((x and y) > 1 or not (z or x))
    k = x
    if not k:
        k, n = n, n + 1
        if not k:
            k = z
            if z:
                k, n = n, n + 5
    if x and y or w:
        h += 10
    return [a, b, c, d, e, f, int(g), h, k, n]


@tries(10)
@given(st.data())
def test_and_or_give_pythons_values(target, data):
    some = st.sampled_from([0, 1, 2, -3])
    given_ = [[data.draw(some) for _ in range(4)] for _ in range(20)]
    ws = [data.draw(st.sampled_from([0.0, -0.0, 0.5])) for _ in given_]
    columns = {
        c: np.array([v[i] for v in given_], i64) for i, c in enumerate(["x", "y", "z", "num"])
    }
    out = {c: np.zeros(20, "f8" if c == "f" else "i8") for c in "abcdefghk"}
    t = table(target, w=np.array(ws), **columns, **out)
    morph.foreach(t, decide)
    want = [decided(*v[:3], w, v[3]) for v, w in zip(given_, ws, strict=True)]
    for i, c in enumerate([*"abcdefghk", "num"]):
        assert values(t, c) == [row[i] for row in want], c


@morph.kernel
def mixed_sides(r):
    r.ok = r.x and r.y


def test_a_number_is_no_boolean(target):
    t = rows(target, x=i32, y=i32, ok=np.bool_)
    with pytest.raises(LanguageError, match="column 'ok' is bool_, but the value is i32"):
        morph.foreach(t, mixed_sides)


@morph.kernel
def limits(r):
    r.wrapped = abs(r.least) - 1
    r.by_zero = r.x // r.zero + r.x % r.zero
    r.left = (r.x << r.far) + (r.x << -r.far)
    r.right = (r.least >> r.far) + (r.x >> r.far) * 10
    r.low = i8(r.x)
    r.same = r.big == r.top
    r.bits = popcount(r.least)
    r.low_nan = min(r.nan, 1.0)
    r.high_nan = max(1.0, r.nan)
    r.true = bool_(r.nan)
    r.half = f16(r.large)
    r.cube = r.x**3
    r.floor = -7 // r.two * 100 + -7 % r.two


def test_the_rules_of_the_reference(target):
    least = -(2**31)
    t = rows(
        target, least=i32, x=i32, zero=i32, far=i32, big=u64, top=i64, nan=f64, large=f64, two=i32,
        wrapped=i32, by_zero=i32, left=i32, right=i32, low=i8, same=np.bool_, bits=i32, low_nan=f64,
        high_nan=f64, true=np.bool_, half=f16, cube=i32, floor=i32,
    )  # fmt: skip
    given_ = dict(least=least, x=300, far=40, big=2**63 - 1, top=2**63 - 2, nan=math.nan, two=2)
    for name, value in {**given_, "large": 1e9}.items():
        getattr(t, name)[:] = value
    morph.foreach(t, limits)
    want = dict(
        wrapped=2**31 - 1, by_zero=0, left=0, right=-1, low=44, same=True, bits=1, true=True
    )
    want |= dict(true=True, half=math.inf, cube=27_000_000, floor=-400 + 1)
    assert {n: values(t, n)[0] for n in want} == want
    assert math.isnan(values(t, "low_nan")[0]) and math.isnan(values(t, "high_nan")[0])
