"""Flags that items raise, lower and read, and programs take; on every target."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, table, tries

import morph
from morph.prelude import i64


@morph.kernel
def signal(r, up, down):
    if r.x > 0:
        up.set()
    if r.x < 0:
        down.clear()


@morph.func
def tells(flag):
    return 1 if flag.raised else 0


@morph.kernel
def look(r, up, own):
    r.x = tells(up) + 2 * i64(own.raised)
    if not (up.raised or own.raised):
        own.set()
        r.x = 4 + i64(own.raised)


@tries(8)
@given(st.lists(st.integers(-1, 1), min_size=1, max_size=9))
def test_flags(target, xs):
    def run():
        t, up, down = table(target, x=np.array(xs)), morph.Flag(target), morph.Flag(target)
        down.set()
        morph.foreach(t, signal, up, down)
        assert (up.take(), bool(down)) == (1 in xs, -1 not in xs)
        up, own = morph.Flag(target), morph.Flag(target)
        for raised in (False, True):
            if raised:
                up.set(), own.clear()
            morph.foreach(t, look, up, own)
            found = set(host(t.x).tolist())  # what was there before is seen, one's own as well
            assert found == {1} if raised else 5 in found <= {0, 2, 5}
            assert own.raised == bool(own) == (not raised)

    everywhere(target, run)


@morph.kernel
def halved(r, far, late, limit):
    r.x = r.x // 2
    if not far.raised and r.x > limit:
        far.set()
    if late.raised:
        r.y += 1


@morph.program
def halved_to(t, far, late, limit):
    """Flags that steps read while they are raised, that the program reads, and sets for a step."""
    rounds, odd = 0, late.raised
    far.set()
    while far.take():
        odd = odd or far.raised
        morph.foreach(t, halved, far, late, limit, where=lambda r: r.x > 0 or late.raised)
        if far.raised == late.raised:
            late.set()
        rounds += 1
    morph.foreach(t, halved, far, late, 99, where=lambda r: late.raised)
    late.clear()
    morph.foreach(t, halved, far, late, 99, where=lambda r: late.raised)
    return rounds + 100 * i64(odd or late.raised or far.raised)


@tries(10)
@given(st.lists(st.integers(1, 99), min_size=1, max_size=70), st.integers(0, 9))
def test_flags_that_steps_read(target, xs, limit):
    rounds, most = 1, max(xs) // 2
    while most > limit:
        rounds, most = rounds + 1, most // 2

    def run(program):
        t = table(target, x=np.array(xs), y=np.zeros(len(xs), np.int64))
        rounds = program(t, morph.Flag(target), morph.Flag(target), limit)
        return rounds, host(t.x).tolist(), host(t.y).tolist()

    want = [x >> rounds + 1 for x in xs]
    for p in (halved_to, halved_to.eager):
        for found in everywhere(target, lambda p=p: run(p)):
            assert found == (rounds, want, [1] * len(xs))
