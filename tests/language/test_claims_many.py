"""``single`` over more items than a GPU has threads: each item runs once, while tables grow."""

import numpy as np
import pytest

import morph
from morph.prelude import i32, single
from morph.testing import team

ITEMS = {"python": 600, "cpu": 20_000, "cuda": 400_000}  # an H200 runs 67,584 at once


@morph.kernel
def pair(p, g, made):
    """Join p with the next point on the ring; a point that is joined no longer passes."""
    both = g.points.local(2)
    other = g.points[p.next]
    if other.mate >= 0:
        return
    both.add(p)
    both.add(other)
    if single(both):
        p.mate = other.id
        other.mate = p.id
        made.new(of=p.id)


@pytest.mark.parametrize("alive", [1.0, 0.3])
def test_pairs_on_a_ring(target, alive):
    n = ITEMS[target]
    rng = np.random.default_rng(int(10 * alive))
    g = morph.Graph(target)
    g.points.add("next", i32)
    g.points.add("mate", i32, fill=-1)
    g.points.extend(next=np.roll(np.arange(n, dtype=np.int32), -1))
    out = rng.random(n) > alive  # taken from the start: the filter passes over them
    g.points.mate[:] = np.where(out, n, -1).astype(np.int32)
    made = morph.Table("made", target, of=i32)  # without room: items are replayed
    before = -1
    while len(made) != before:
        before = len(made)
        morph.foreach(g.points, pair, g, made, where=lambda p: p.mate < 0)
    mate = np.asarray(g.device.to_host(g.points.mate.array))
    of = np.asarray(g.device.to_host(made.of.array))
    free = np.flatnonzero((mate >= 0) & ~out)
    assert (mate[mate[free]] == free).all()
    assert np.isin(mate[free] - free, (1, -1, n - 1, 1 - n)).all()
    assert len(np.unique(of)) == len(of) == len(free) // 2
    lonely = (mate < 0) & (np.roll(mate, -1) < 0)
    assert not lonely.any()


@morph.kernel
def sow(p, g, made, kept, lost):
    """Make id % 4 rows for a winner, and keep it; a loser goes to another list."""
    both = g.points.local(2)
    both.add(p)
    both.add(g.points[p.next])
    count = p.id % 4
    if single(both):
        rows = made.new_rows(count)
        kept.add(p)
        for i in range(count):
            rows[i].of = p.id
    else:
        lost.add(p)


@pytest.mark.parametrize("threads", [1, 4])
def test_rows_of_winners_have_no_gaps(target, threads):
    """Threads allocate for several winners together: all rows are written."""
    n = ITEMS[target]
    with team(threads):
        g = morph.Graph(target)
        g.points.add("next", i32)
        g.points.extend(next=np.roll(np.arange(n, dtype=np.int32), -1))
        made = morph.Table("made", target, of=i32)
        kept, lost = morph.Collection(g.points), morph.Collection(g.points)
        morph.foreach(g.points, sow, g, made, kept, lost)
    won, left = (np.asarray(g.device.to_host(x.item.array)) for x in (kept, lost))
    assert (np.sort(np.concatenate([won, left])) == np.arange(n)).all()
    of = np.sort(np.asarray(g.device.to_host(made.of.array)))
    assert (of == np.repeat(np.sort(won), np.sort(won) % 4)).all()
    for store in (made, kept, lost):
        count, capacity, *_, budget = np.asarray(g.device.to_host(store.meta))[:6].tolist()
        assert budget == capacity - count
