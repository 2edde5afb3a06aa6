"""Arithmetic, vectors, structs and functions in kernels against NumPy, on every target."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from targets import everywhere, same, table, tries

import morph
from morph.prelude import (
    bool_,
    ceil,
    f16,
    f32,
    f64,
    floor,
    i8,
    i16,
    i32,
    i64,
    popcount,
    prefetch,
    sqrt,
    struct,
    u8,
    u16,
    u32,
    u64,
    vector,
)  # fmt: skip

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
FLOATS = ["f2", "f4", "f8"]
ROWS = 6


def samples(dtype, rows=ROWS, least=None, most=None):
    """Columns of any values, or of those from ``least`` to ``most``."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        wide = st.floats(width=8 * dtype.itemsize, min_value=least, max_value=most)
        if dtype == np.float16 and least is None:  # Hypothesis would throw most of its draws away
            wide = st.integers(0, 2**16 - 1).map(lambda i: np.uint16(i).view(np.float16).item())
        low, high = (-6, 6) if least is None else (least, most)
        near = st.integers(4 * low, 4 * high).map(lambda i: i / 4)
    else:
        info = np.iinfo(dtype)
        low, high = (info.min, info.max) if least is None else (max(least, info.min), most)
        wide = st.integers(low, high)
        near = st.integers(max(low, -9), min(high, 9)) | st.sampled_from([low, high])
    return hnp.arrays(dtype, rows, elements=wide | near)


@morph.kernel
def arithmetic(r):
    r.plus, r.minus, r.times = r.x + r.y, r.x - r.y, r.x * r.y
    r.low, r.high = min(r.x, r.y), max(r.x, r.y)
    r.whole, r.rest = r.x // r.y, r.x % r.y
    r.minus_x, r.size = -r.x, abs(r.x)
    r.literals = (r.x + 3) * 2 - r.x // 5 + r.x % 7 - 100 // r.y
    r.cube = r.x**3
    r.chosen = r.x if r.x < r.y or r.y == 0 else r.y


def arithmetic_of(x, y):
    return {
        "plus": x + y, "minus": x - y, "times": x * y, "low": np.minimum(x, y),
        "high": np.maximum(x, y), "whole": x // y, "rest": x % y, "minus_x": -x, "size": abs(x),
        "literals": (x + 3) * 2 - x // 5 + x % 7 - 100 // y, "cube": x * x * x,
        "chosen": np.where((x < y) | (y == 0), x, y),
    }  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
@tries(6)
@given(st.data())
def test_arithmetic(target, dtype, data):
    """Wraparound, division and modulo of negatives and by zero, rounding, infinities and NaN."""
    x, y = data.draw(samples(dtype)), data.draw(samples(dtype))
    with np.errstate(all="ignore"):
        want = arithmetic_of(x, y)

    def run():
        t = table(target, x=x, y=y, **dict.fromkeys(want, np.zeros(ROWS, dtype)))
        morph.foreach(t, arithmetic)
        for name, w in want.items():
            got = t.__getattr__(name)
            if name in ("low", "high"):  # which of 0.0 and -0.0 is smaller is not said
                assert np.array_equal(got, w, equal_nan=dtype in FLOATS), name
            else:
                assert same(got, w), (name, x, y, got, w)

    everywhere(target, run)


@morph.kernel
def compare_wrapped(r):
    """What a compiler would fold if it took for granted that nothing overflows."""
    r.fell, r.rose = r.x + r.y < r.x, r.x - r.y > r.x
    r.halved, r.odd = r.x * 2 // 2 == r.x, -r.x < 0
    r.least = abs(r.x) >= 0
    r.wide = i64(r.x + r.y)


@pytest.mark.parametrize("dtype", ["i2", "i4", "i8"])
@tries(6)
@given(st.data())
def test_overflow_wraps_where_it_is_compared(target, dtype, data):
    x, y = data.draw(samples(dtype)), data.draw(samples(dtype))
    two = x.dtype.type(2)
    with np.errstate(over="ignore"):
        want = {"fell": x + y < x, "rose": x - y > x, "halved": x * two // two == x}
        want |= {"odd": -x < 0, "least": np.abs(x) >= 0, "wide": (x + y).astype("i8")}

    def run():
        t = table(target, x=x, y=y, **{name: np.zeros_like(w) for name, w in want.items()})
        morph.foreach(t, compare_wrapped)
        for name, w in want.items():
            assert same(t.__getattr__(name), w), (name, x, y)

    everywhere(target, run)


@morph.kernel
def bits(r):
    prefetch(r.x)  # changes nothing
    r.both, r.any, r.one, r.none = r.x & r.y, r.x | r.y, r.x ^ r.y, ~r.x
    r.left, r.right = r.x << r.by, r.x >> r.by
    r.left3, r.right1 = r.x << 3, r.x >> 1
    r.ones = popcount(r.x)


@pytest.mark.parametrize("dtype", INTEGERS)
@tries(4)
@given(st.data())
def test_bits(target, dtype, data):
    """Shifts may be as long as the type, or longer."""
    width = 8 * np.dtype(dtype).itemsize
    x, y = data.draw(samples(dtype)), data.draw(samples(dtype))
    by = data.draw(samples(dtype, least=0, most=width + 2))
    want = {
        "both": x & y, "any": x | y, "one": x ^ y, "none": ~x, "left": x << by, "right": x >> by,
        "left3": x << 3, "right1": x >> 1,
        "ones": np.bitwise_count(x.view(f"u{width // 8}")).astype(np.int32),
    }  # fmt: skip

    def run():
        t = table(target, x=x, y=y, by=by, **{k: np.zeros_like(w) for k, w in want.items()})
        morph.foreach(t, bits)
        for name, w in want.items():
            assert same(t.__getattr__(name), w), (name, x, y, by)

    everywhere(target, run)


@morph.kernel
def of_floats(r):
    r.ratio, r.root, r.down, r.up = r.x / r.y, sqrt(r.x), floor(r.x), ceil(r.x)
    r.nested = r.x * r.y + r.x - r.y * r.y * r.x
    r.equal, r.other = r.x == r.y, r.x != r.y
    r.less, r.most, r.more, r.least = r.x < r.y, r.x <= r.y, r.x > r.y, r.x >= r.y
    r.between = -1.0 <= r.x < r.y <= 4.0


@pytest.mark.parametrize("dtype", FLOATS)
@tries(8)
@given(st.data())
def test_floats(target, dtype, data):
    """Each operation rounds once, to its own type; NaN compares false."""
    x, y = data.draw(samples(dtype)), data.draw(samples(dtype))
    with np.errstate(all="ignore"):
        want = {
            "ratio": x / y, "root": np.sqrt(x), "down": np.floor(x), "up": np.ceil(x),
            "nested": x * y + x - y * y * x, "equal": x == y, "other": x != y, "less": x < y,
            "most": x <= y, "more": x > y, "least": x >= y,
            "between": (x >= -1) & (x < y) & (y <= 4),
        }  # fmt: skip

    def run():
        t = table(target, x=x, y=y, **{k: np.zeros_like(w) for k, w in want.items()})
        morph.foreach(t, of_floats)
        for name, w in want.items():
            assert same(t.__getattr__(name), w), (name, x, y)

    everywhere(target, run)


@morph.kernel
def casts(r):
    r.as_b1, r.as_i1, r.as_i2, r.as_i4, r.as_i8 = bool_(r.x), i8(r.x), i16(r.x), i32(r.x), i64(r.x)
    r.as_u1, r.as_u2, r.as_u4, r.as_u8 = u8(r.x), u16(r.x), u32(r.x), u64(r.x)
    r.as_f2, r.as_f4, r.as_f8 = f16(r.x), f32(r.x), f64(r.x)


@pytest.mark.parametrize("dtype", ["b1", *INTEGERS, *FLOATS])
@tries(4)
@given(st.data())
def test_casts(target, dtype, data):
    """Integers wrap, floats are cut off (within the type: beyond it C++ says nothing)."""
    if dtype == "b1":
        x = data.draw(hnp.arrays(bool, ROWS))
    else:
        x = data.draw(samples(dtype, **({"least": 0, "most": 100} if dtype in FLOATS else {})))
    with np.errstate(all="ignore"):
        want = {f"as_{d}": x.astype(d) for d in ["b1", *INTEGERS, *FLOATS]}

    def run():
        t = table(target, x=x, **{k: np.zeros_like(w) for k, w in want.items()})
        morph.foreach(t, casts)
        for name, w in want.items():
            assert same(t.__getattr__(name), w), (name, x)

    everywhere(target, run)


@morph.kernel
def mixed(r):
    r.plus, r.times = r.x + r.y, r.x * r.y
    r.chosen = r.x if r.x < r.y else r.y
    r.less, r.equal = r.x < r.y, r.x == r.y


PAIRS = [
    ("i1", "u1"), ("i4", "u4"), ("u8", "i8"), ("u2", "f2"), ("i4", "f4"), ("f2", "f4"),
    ("f4", "f8"), ("u8", "f4"), ("i2", "i8"), ("b1", "i2"),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_mixed_types_meet_as_in_numpy(target, left, right):
    x, y = (np.array([0, 1, 1, 0, 3, 120, 7, 100]).astype(d) for d in (left, right))
    y = y[::-1].copy()
    want = {"plus": x + y, "times": x * y, "less": x < y, "equal": x == y}
    want["chosen"] = np.where(x < y, x, y)

    def run():
        t = table(target, x=x, y=y, **{k: np.zeros_like(w) for k, w in want.items()})
        morph.foreach(t, mixed)
        for name, w in want.items():
            assert same(t.__getattr__(name), w), name

    everywhere(target, run)


# --- vectors, structs, tuples, functions ---------------------------------------------------------


@struct
class Box:
    low: (f64, 2)
    high: (f64, 2)
    count: i32


@morph.func
def grown(box, p):
    b = Box(vector(min(box.low.x, p.x), min(box.low.y, p.y)), box.high, box.count + 1)
    b.high = vector(max(box.high.x, p.x), max(box.high.y, p.y))
    return b


@morph.func
def ordered(a, b):
    """Several values."""
    if a < b:
        return a, b
    return b, a


@morph.func
def twice(f, x):
    """A function as an argument."""
    return f(f(x))


@morph.func
def double(x):
    return x + x


@morph.func(cpp="return x * x + y * 0.5;")
def by_hand(x: f64, y: f64) -> f64: ...


@morph.kernel
def shapes(r, rows, turn):
    a, b = r.a, r.b
    r.total = a + b * 2.0 - vector(1.0, 0.5, 0.25)
    r.total[turn % 3] += a[turn % 3]
    r.dot = a.x * b.x + a.y * b.y + a.z * b.z
    inside = a[1] in b
    box = Box(vector(a.x, a.y), vector(a.x, a.y), 0)
    for i in range(3):
        box = grown(box, vector(b[i], a[i]))
    r.box = vector(box.low.x, box.low.y, box.high.x, box.high.y)
    low, high = ordered(a.x, b.x)
    low, high = high, low  # at once
    r.pair = vector(low, high)
    r.four = twice(double, r.dot)
    r.length = len(a) + box.count + (10 if inside else 20)


vectors = hnp.arrays(np.float64, (4, 3), elements=st.integers(-8, 8).map(float))


@tries(10)
@given(vectors, vectors, st.integers(0, 5))
def test_vectors_structs_tuples_and_functions(target, a, b, turn):
    total = a + b * 2 - np.array([1, 0.5, 0.25])
    total[:, turn % 3] += a[:, turn % 3]
    dot = (a * b).sum(axis=1)
    xs, ys = np.column_stack([a[:, 0], b]), np.column_stack([a[:, 1], a])
    box = np.stack([xs.min(1), ys.min(1), xs.max(1), ys.max(1)], axis=1)
    pair = np.stack([np.maximum(a[:, 0], b[:, 0]), np.minimum(a[:, 0], b[:, 0])], axis=1)
    inside = (a[:, 1:2] == b).any(axis=1)

    def run():
        t = table(
            target, a=a, b=b, total=a * 0, dot=dot * 0, box=box * 0, pair=pair * 0, four=dot * 0,
            length=np.zeros(4, np.int64),
        )  # fmt: skip
        morph.foreach(t, shapes, t, turn)
        assert np.array_equal(t.total, total) and np.array_equal(t.dot, dot)
        assert np.array_equal(t.box, box) and np.array_equal(t.pair, pair)
        assert np.array_equal(t.four, 4 * dot)
        assert np.array_equal(t.length, 6 + np.where(inside, 10, 20))

    everywhere(target, run)


@morph.kernel
def calls_cpp(r):
    r.out = by_hand(r.x, f64(2 * r.id))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_functions_in_cpp(device):
    t = table(device, x=np.array([1.0, 2.0, 3.0]), out=np.zeros(3))
    morph.foreach(t, calls_cpp)
    assert np.array_equal(t.out, [1, 5, 11])
