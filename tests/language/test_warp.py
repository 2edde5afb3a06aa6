"""Loops over bits, and items that the lanes of a GPU's warp execute together."""

from __future__ import annotations

import numpy as np
import pytest
import sm90
from lanes import emulated
from targets import everywhere, host, table

import morph
from morph import foreach
from morph.compiler.codegen.unit import prelude
from morph.language.errors import LanguageError
from morph.launch.checked import is_checked
from morph.prelude import (
    atomic_add,
    atomic_max,
    bit_positions,
    i8,
    i32,
    i64,
    local,
    popcount,
    u16,
    u32,
    u64,
)
from morph.testing import team

WORDS = np.array([0, 1, 2**63, 2**64 - 1, 0xF0F0_1234_5678_9ABC], np.uint64)
SCALE = np.array([3, 1, 4, 1, 5], np.int32)


@morph.func
def scaled(rows, i):
    return rows[i % 5].scale


@morph.func
def note(r, rows, total):
    """A change of memory, and reads of what it changes."""
    r.best = total
    atomic_max(rows[0].most, r.best)
    return r.best + 1


@morph.kernel
def survey(r, rows, bins, found, queue):
    """Of the bits of a word: sums, sets, extremes, numbers in bins; then an item for each half."""
    counts = local(i32, 8)
    kept = local(u64, 2)
    for _ in range(8):
        counts.add(i32(0))
    kept.add(u64(0))
    queue.reserve(2)
    total, low, high, odd, both = i64(7), 99, i64(-1), u64(0), ~u64(0)
    for i in bit_positions(r.word):
        if i % 3 == 1:
            continue
        total += i * i64(scaled(rows, i))
        low = min(low, i)
        high = max(high, i)
        both = ~(u64(1) << u64(i)) & both
        if i % 2 == 1:
            odd = odd | u64(1) << u64(i)
        counts[i & 7] += 1
        for k in bit_positions(u32(i)):
            kept[0] = kept[0] | u64(1) << u64(k)
        atomic_add(bins[i % 4].hits, 1)
    first = i64(-1)
    for i in bit_positions(odd):  # not divided: it ends early
        if i > 20:
            first = i
            break
    for i in bit_positions(kept[0]):  # nor is this one: each iteration needs the one before
        total = total * 3 + i
    r.low, r.high, r.odd, r.both, r.first = low, high, odd, both, first
    r.ones = counts[1] + 10 * counts[2]
    r.sum = note(r, rows, total)
    half = r.word >> u64(32)
    if half != u64(0):
        atomic_add(found.n, popcount(half))
        queue.add(word=half, low=low)
        queue.add(word=r.word & u64(0xFFFFFFFF), low=low)


COLUMNS = ("sum", "best", "low", "high", "odd", "both", "first", "ones", "most")


def rows_of(target):
    kinds = {n: np.zeros(5, np.uint64 if n in ("odd", "both") else np.int64) for n in COLUMNS}
    kinds["most"] = np.full(5, -1)
    return table(target, word=WORDS, scale=SCALE, **kinds)


def run(target, balance):
    rows, bins = rows_of(target), table(target, hits=np.zeros(4, np.int64))
    found, queue = morph.Scalars(rows, n=0), morph.Collection(device=target, word=u64, low=i64)
    foreach(rows, survey, rows, bins, found, queue, balance=balance)
    items = sorted(zip(host(queue.word[:]).tolist(), host(queue.low[:]).tolist(), strict=True))
    columns = [host(getattr(rows, n)[:]).tolist() for n in COLUMNS]
    return columns, host(bins.hits[:]).tolist(), int(found.n), items


def test_warps_compute_what_threads_do(target):
    want = run("python", "thread")
    assert want[0][2] == [99, 0, 63, 0, 2] and want[2] == 46
    for balance in ("warp", "thread"):
        assert all(found == want for found in everywhere(target, lambda b=balance: run(target, b)))


def test_loops_that_lanes_divide():
    run("cpu", "warp")
    text = survey.source()
    if not is_checked():
        assert "survey_by_warp" in text and "note_by_warp" in text and "scaled_by_warp" not in text
        assert text.count("= lane_id(); k") == 1
        whole = prelude(warps=True) + text
        assert b"morph_survey" in sm90.compile_one(whole, "morph_survey")


@morph.kernel
def halve(e, queue, total):
    """Add the bits of a word, and an item for each half of more than one bit."""
    count, seen = i64(0), u32(0)
    for i in bit_positions(e.word):
        count += 1
        seen = seen | u32(1) << u32(i)
    queue.reserve(2)
    atomic_add(total.n, count)
    width = e.width // 2
    for part in range(2):
        rest = e.word >> u32(part * width) & ((u32(1) << u32(width)) - u32(1))
        if width > 0 and rest != u32(0):
            queue.add(word=rest, width=width)


def halved(target):
    queue = morph.Collection(device=target, word=u32, width=i32)
    queue.extend(word=np.arange(1, 200, dtype=np.uint32) * 2**24 + 5, width=32)
    total = morph.Scalars(queue, n=0)
    foreach(queue, halve, queue, total, until_empty=True, balance="warp")
    assert queue.empty
    return int(total.n)


ONES = sum((k * 2**24 + 5).bit_count() for k in range(1, 200))


def test_queues(target):
    runs = everywhere(target, lambda: halved(target))
    assert runs == [6 * ONES] * len(runs)


def test_emulated_lanes(monkeypatch):
    """On a CPU, with a queue that is too small at first: its items are deferred and run again."""
    want = run("python", "thread")
    names = emulated(monkeypatch)
    again = morph.kernel(survey.__wrapped__), morph.kernel(halve.__wrapped__)
    with team(1), monkeypatch.context() as m:
        m.setitem(globals(), "survey", again[0])
        m.setitem(globals(), "halve", again[1])
        assert run("cpu", "warp") == want
        assert halved("cpu") == 6 * ONES
    assert is_checked() or names == ["morph_survey", "morph_halve"]


@morph.kernel
def positions(r):
    total = i64(0)
    for i in bit_positions(r.x):
        total = 100 * total + i
    r.sum = total


def test_positions_of_bits(target):
    for kind, x, want in ((i8, -128, 7), (i8, 3, 1), (u16, 2**15 + 1, 15), (i32, -(2**31), 31)):
        t = table(target, x=np.array([x], kind), sum=np.zeros(1, np.int64))
        foreach(t, positions)
        assert int(t[0].sum) == want


@morph.kernel
def of_a_literal(r):
    for i in bit_positions(5):
        r.sum += i


@morph.kernel
def outside(r):
    r.sum = bit_positions(r.x)


def test_refused():
    t = table("python", x=np.zeros(1, np.int32), sum=np.zeros(1, np.int64))
    with pytest.raises(LanguageError, match="one integer of a known type"):
        foreach(t, of_a_literal)
    with pytest.raises(LanguageError, match="in the head of a `for`"):
        foreach(t, outside)
