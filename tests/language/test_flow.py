"""Values that are kept: locals from gather to commit, columns while other items run."""

from __future__ import annotations

import numpy as np
import pytest
from targets import host, table

import morph
from morph.launch.checked import is_checked
from morph.prelude import i64, single


@morph.kernel
def pair_up(p, t, hint):
    if p.mate is not None:
        return
    cells = t.local(4)
    cells.add(p)
    best, near = p, 0
    if p.left.mate is None:
        best = p.left
    if p.right.mate is None:
        best = p.right
    far = near + hint
    if best != p:
        cells.add(best)
    if single(cells):
        near = far + 1  # assigned again, so no value of it is kept
        for best in cells:  # noqa: B007
            near += 1
        for k in range(cells.size):
            cells[k].mate = cells[cells.size - 1 - k]
            cells[k].note = near
        if hint > 0:
            fresh = near
        else:
            fresh = 0
        p.note += fresh


def ring(target):
    n = 12
    t = table(target, note=np.zeros(n, np.int64))
    for name, by in (("left", 1), ("right", -1)):
        t.add(name, morph.Ref(t))
        t.columns[name].array[:n] = t.device.asarray(np.roll(np.arange(n, dtype=np.int32), by))
    t.add("mate", morph.Ref(t))
    return t


def test_only_what_is_read_first_is_kept():
    t = ring("cpu")
    morph.foreach(t, pair_up, t, i64(3))
    text = pair_up.source()
    kept = text.partition("struct pair_up_item : Item {")[2].partition("MORPH_FN")[0]
    assert "far{}" in kept and "cells;" in kept
    for name in ("near", "best", "fresh", " k{}"):
        assert name not in kept
    assert "i32 cells[4];" in text.partition("struct pair_up_item_buffers {")[2].partition("};")[0]


@pytest.mark.unchecked  # it quotes generated text
def test_columns_stand_still_only_on_their_side_of_the_barrier():
    t = ring("cpu")
    morph.foreach(t, pair_up, t, i64(3))
    parts = pair_up.source().partition("void pair_up_commit")
    assert ".mate.stable()" in parts[0].replace("t_mate", ".mate")
    assert "stable()" not in parts[2].partition("pair_up_abort")[0]


@morph.kernel
def step(p, t):
    if p.right.note == 0 and p.note == 0:
        p.note = 1


@pytest.mark.unchecked  # likewise
def test_a_column_that_the_step_writes_is_read_as_it_changes():
    t = ring("cpu")
    morph.foreach(t, step, t)
    assert "stable()" not in step.source()


@morph.program
def alternate(t, rounds):
    k = 0
    while k < rounds:
        morph.foreach(t, copy, t)
        morph.foreach(t, turn, t)
        k += 1


@morph.kernel
def copy(p, t):
    p.mate = p.right.left.mate if p.note > 100 else p.right


@morph.kernel
def turn(p, t):
    p.note = p.mate.mate.id + p.note * 0


def test_what_another_step_wrote_is_seen_behind_the_barrier(target):
    t = ring(target)
    alternate(t, 3)
    right = host(t.right)
    assert host(t.note).tolist() == right[right].tolist()
    if target != "python" and not is_checked():
        assert "t_mate.stable()" in alternate.source()


@pytest.mark.parametrize("hint", [0, 3])
def test_pairs(target, hint):
    t = ring(target)
    morph.foreach(t, pair_up, t, i64(hint))
    mate, note = host(t.mate), host(t.note)
    won = np.flatnonzero(mate >= 0)
    assert len(won) and all(mate[mate[w]] == w for w in won)
    assert set(note[won].tolist()) <= ({hint + 2, hint + 3} | {2 * (hint + 3), 2 * (hint + 2)})
