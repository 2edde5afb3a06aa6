"""Kernels that carry out a batch of changes of edges in place, in one launch.

Problem: a batch names edges to delete, edges that get another weight, and edges to insert; the
table of edges, their reverses and the entries of points (`graph.gapped`) are to follow.
Method: each change finds its edge, and whether it may be carried out (`resolve`); if one may not,
nothing is, and the host tells why.  Items of one row number themselves by an atomic.  Deletes: the
last entries of a row that stay take the places, before them, of those that go: both count
themselves, and meet by number through the row's end.  Inserts: the first of a row finds room for
all of them, at the arena's end if its own is used up; then all write, and share in copying a row
that moves.  A single change has its rows to itself, and fewer steps.
Cost: some 10 random accesses an edge and direction, and a barrier for each step, whatever the size
of the graph; a row that moves is copied, which growth by a half makes rare.
"""

from __future__ import annotations

from typing import Any

from morph.data.store import Word
from morph.data.table import Table
from morph.graph.gapped import GONE, INSERTED, INSERTS, NAMED
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, i32, i64, u8
from morph.updates.resolve import (
    DEAD,
    KEPT,
    PART,
    TURNED,
    TWICE,
    WHOLE,
    claim,
    elect,
    judge,
    resolve,
    spread,
    tally,
    unclaim,
)

COUNT, CAPACITY, HEAD, TAIL, COMMITTED, BUDGET = map(int, Word)

# where it begins: with all of it; with rows alone, whose edges are known; with what is inserted
ALL, ROWS = 0, 1

# The kernels know a direction by `turn`: 0 puts edges at their source, 1 at their destination.


@func
def is_one(b, total, fate):
    """Whether an item is one of the batch, and of those.

    Asked within a kernel, which makes half the text that a filter does: on a GPU a small batch
    waits for instructions more than for anything else.
    """
    return b.id < total and b.fate == fate


# --- deletes, and new weights --------------------------------------------------------------------


@func
def mark(b, rows, entries, places, turn):
    b.rank[turn] = -1
    if places[b.edge].at >= 0:
        row = rows[b.end[turn]]
        b.rank[turn] = atomic_add(row.gone, 1)
        entries[row.begin + places[b.edge].at].edge = -1


@func
def take_out(b, rows, entries, places, turn):
    """Do all of it at once, where nobody else changes the row."""
    at = places[b.edge].at
    if at >= 0:
        row = rows[b.end[turn]]
        last = row.begin + row.size - 1
        e = entries[last].edge
        entries[row.begin + at].edge = e
        entries[row.begin + at].end = entries[last].end
        places[e].at = at
        places[b.edge].at = -1
        row.size -= 1


@func
def lift(b, rows, entries, turn):
    """Take up an entry of the row's end, if it stays."""
    b.keep[turn] = -1
    if b.rank[turn] >= 0:
        row = rows[b.end[turn]]
        k = row.begin + row.size - row.gone + b.rank[turn]
        b.keep[turn] = entries[k].edge
        b.far[turn] = entries[k].end
        if b.keep[turn] >= 0:
            b.at[turn] = atomic_add(row.come, 1)


@func
def offer(b, rows, entries, places, turn):
    """Write one's place, if it is before the row's new end, where those taken up find it."""
    if b.rank[turn] >= 0:
        row = rows[b.end[turn]]
        at, left = places[b.edge].at, row.size - row.gone
        if at < left:
            k = atomic_add(row.goal, 1)
            entries[row.begin + left + k].edge = at
        places[b.edge].at = -1


@func
def drop(b, rows, entries, places, turn):
    if b.rank[turn] >= 0 and b.keep[turn] >= 0:
        row = rows[b.end[turn]]
        at = entries[row.begin + row.size - row.gone + b.at[turn]].edge
        entries[row.begin + at].edge = b.keep[turn]
        entries[row.begin + at].end = b.far[turn]
        places[b.keep[turn]].at = at


@func
def shorten(b, rows, turn):
    if b.rank[turn] == 0:
        row = rows[b.end[turn]]
        row.size -= row.gone
        row.gone = 0
        row.come = 0
        row.goal = 0


@kernel
def enact(b, batch, arcs, rows, entries, places, rows2, entries2, places2, total, k, gone, spared,
          tail, mask, flags, sides):  # fmt: skip
    e = b.edge
    if is_one(b, total, NAMED):
        if hasattr(b, "given"):
            arcs[e].weight = b.given
    elif is_one(b, total, GONE):
        if flags & WHOLE:
            i = i64(b.id)
            at = i if i < k else gone - spared + i - k
            if spared > 0:  # without gaps
                at -= batch[i if i < k else i - k].at[0]
            arcs[(tail + at) & mask].ring = e
            arcs[e].died = u8(1)
            if flags & TURNED:
                arcs[e].back = -1
        if k == 1:
            take_out(b, rows, entries, places, 0)
            if sides > 1:
                take_out(b, rows2, entries2, places2, 1)
        else:
            mark(b, rows, entries, places, 0)
            if sides > 1:
                mark(b, rows2, entries2, places2, 1)


@kernel
def lift_all(b, rows, entries, rows2, entries2, sides, total):
    if is_one(b, total, GONE):
        lift(b, rows, entries, 0)
        if sides > 1:
            lift(b, rows2, entries2, 1)


@kernel
def offer_all(b, rows, entries, places, rows2, entries2, places2, sides, total):
    if is_one(b, total, GONE):
        offer(b, rows, entries, places, 0)
        if sides > 1:
            offer(b, rows2, entries2, places2, 1)


@kernel
def drop_all(b, rows, entries, places, rows2, entries2, places2, sides, total):
    if is_one(b, total, GONE):
        drop(b, rows, entries, places, 0)
        if sides > 1:
            drop(b, rows2, entries2, places2, 1)


@kernel
def shorten_all(b, rows, rows2, sides, total):
    if is_one(b, total, GONE):
        shorten(b, rows, 0)
        if sides > 1:
            shorten(b, rows2, 1)


# --- inserts -------------------------------------------------------------------------------------


@func
def roomy(n):
    """Give the room that a row of n entries gets when it moves."""
    return i32(min(i64(n) + i64(n) // 4 + 4, 2147483647))


@func
def find_room(b, rows, arena, turn):
    if b.rank[turn] == 0:
        row = rows[b.end[turn]]
        need = row.size + row.come
        row.goal = row.begin
        if need > row.room:
            row.goal = i32(atomic_add(arena[0].top, i64(roomy(need))))  # unread beyond the limit


@func
def forget(b, rows, turn):
    row = rows[b.end[turn]]
    row.come = 0  # race: all write 0
    row.goal = 0  # race: all write 0


@func
def write(b, rows, entries, places, turn):
    row = rows[b.end[turn]]
    rank, size, to, begin = b.rank[turn], row.size, row.goal, row.begin
    if to != begin:  # each of those that come copies a part
        first = i64(size) * rank // row.come
        last = i64(size) * (rank + 1) // row.come
        for k in range(first, last):
            entries[to + k].edge = entries[begin + k].edge
            entries[to + k].end = entries[begin + k].end
    entries[to + size + rank].edge = b.edge
    entries[to + size + rank].end = b.end[1 - turn]
    places[b.edge].at = size + rank


@func
def settle(b, rows, turn):
    if b.rank[turn] == 0:
        row = rows[b.end[turn]]
        if row.goal != row.begin:
            row.begin = row.goal
            row.room = roomy(row.size + row.come)
        row.size += row.come
        row.come = 0
        row.goal = 0


@kernel
def number_all(b, rows, arena, rows2, arena2, k, sides, total):
    if is_one(b, total, INSERTED):
        b.rank[0] = atomic_add(rows[b.end[0]].come, 1)
        if sides > 1:
            b.rank[1] = atomic_add(rows2[b.end[1]].come, 1)
        if k == 1:  # nobody else changes these rows
            find_room(b, rows, arena, 0)
            if sides > 1:
                find_room(b, rows2, arena2, 1)


@kernel
def find_room_all(b, rows, arena, rows2, arena2, sides, total):
    if is_one(b, total, INSERTED):
        find_room(b, rows, arena, 0)
        if sides > 1:
            find_room(b, rows2, arena2, 1)


@kernel
def forget_all(b, rows, rows2, sides, total):
    if is_one(b, total, INSERTED):
        forget(b, rows, 0)
        if sides > 1:
            forget(b, rows2, 1)


@kernel
def write_all(
    b, batch, arcs, rows, entries, places, rows2, entries2, places2, k, flags, sides, total
):
    if is_one(b, total, INSERTED):
        if flags & WHOLE:
            arc = arcs[b.edge]
            arc.src = b.end[0]
            arc.dst = b.end[1]
            if hasattr(b, "given"):
                arc.weight = b.given
            if flags & DEAD:
                arc.died = u8(0)
            if flags & TURNED:
                i = i64(b.id)
                arc.back = batch[i + k if i < k else i - k].edge if b.end[0] != b.end[1] else b.edge
        write(b, rows, entries, places, 0)
        if sides > 1:
            write(b, rows2, entries2, places2, 1)
        if k == 1:
            settle(b, rows, 0)
            if sides > 1:
                settle(b, rows2, 1)


@kernel
def settle_all(b, rows, rows2, sides, total):
    if is_one(b, total, INSERTED):
        settle(b, rows, 0)
        if sides > 1:
            settle(b, rows2, 1)


# --- rows laid out anew --------------------------------------------------------------------------


@kernel
def lay(place, m, arcs, rows, entries, fresh, arena, turn):
    """Copy an edge's entry to its row as it lies now; places that nobody set yet are of no use."""
    e = i32(place.id)
    if e < m and place.at >= 0:
        near, far = arcs[e].src, arcs[e].dst
        if turn:
            near, far = far, near
        if near >= 0:
            row = rows[near]
            if place.at < row.size and entries[row.begin + place.at].edge == e:
                k = fresh[near].begin + place.at
                arena[k].edge = e
                arena[k].end = far


def lay_anew(old: Any, new: Any, arcs: Table, m: int, turn: int) -> None:
    """Fill rows that `Loose.laid_out` gave, of edges below ``m``; ``turn`` says which end."""
    foreach(old.places, lay, i32(m), arcs, old.rows, old.entries, new.rows, new.entries, turn)


# --- a batch -------------------------------------------------------------------------------------


@program
def change(batch, arcs, cell, rows, entries, places, arena, rows2, entries2, places2, arena2,
           total, k, gone, named, come, by, n, m, first, again, head, tail, mask, limit, limit2,
           flags, sides, begin, stamp, a0, b0, weight0):  # fmt: skip
    """Carry out what lies in ``batch``: k changes, deletes first, inserts last.

    A single one may come as ``a0``, ``b0`` and ``weight0`` instead, if ``flags`` say so.

    Give 0; or minus `TWICE`, if some changes name what others do, and are left out, with no
    ``fate``: ``cell[0].out`` has how many, how many of them are deletes, and how many are weights
    of what is deleted.  Or, if nothing has changed, minus why: `ODD`, a change may not be carried
    out, or is none; `LOOP`, one is inserted, and ``at`` does not tell of it.  Or how many entries
    there is no memory for: then all but the inserts has been done.  ``cell[0].stamp`` is ``stamp``
    from the first change on, ``twice`` if some are left out.
    """
    out, spared = i64(0), i64(0)
    if begin == ALL:
        cell[0].odd = 0
        foreach(batch, resolve, batch, arcs, cell, rows, entries, places, rows2, entries2,
                k, gone, named, by, n, m, first, again, head, mask, flags, sides,
                a0, b0, weight0)  # fmt: skip
        if gone + named > 1:
            if cell[0].odd == 0:
                foreach(batch, claim, places, cell, k)
                twice = cell[0].odd
                if twice != 0:
                    cell[0].odd = 0
                    cell[0].twice = stamp
                    foreach(batch, elect, places, k, gone, named)
                    foreach(batch, judge, batch, places, cell, k, gone, named, by, flags)
                foreach(batch, unclaim, places, k)
                if twice != 0:
                    step = 1
                    while step < gone + named:
                        foreach(batch, tally, batch, step, gone + named)
                        step *= PART
                    while step > PART:
                        step = step // PART
                        foreach(batch, spread, batch, step // PART, gone + named)
                    out = batch[gone + named - 1].at[0]
                    if gone > 0:
                        spared = batch[gone - 1].at[0]
                    cell[0].out[0] = out
                    cell[0].out[1] = spared
                    cell[0].out[2] = batch[gone + named - 1].at[1]
        if cell[0].odd != 0:
            return -cell[0].odd
        cell[0].stamp = stamp
    elif cell[0].twice == stamp:  # it is called again
        out = cell[0].out[0]
        spared = cell[0].out[1]
    if begin != INSERTS:
        if gone + named > 0:
            foreach(batch, enact, batch, arcs, rows, entries, places, rows2, entries2, places2,
                    total, k, gone, spared, tail, mask, flags, sides)  # fmt: skip
        if gone > 0 and k > 1:
            foreach(batch, lift_all, rows, entries, rows2, entries2, sides, total)
            foreach(batch, offer_all, rows, entries, places, rows2, entries2, places2, sides, total)
            foreach(batch, drop_all, rows, entries, places, rows2, entries2, places2, sides, total)
            foreach(batch, shorten_all, rows, rows2, sides, total)
    if k > gone + named:
        top = arena[0].top
        top2 = arena2[0].top
        foreach(batch, number_all, rows, arena, rows2, arena2, k, sides, total)
        if k > 1:
            foreach(batch, find_room_all, rows, arena, rows2, arena2, sides, total)
        wanted = arena[0].top
        wanted2 = arena2[0].top
        if wanted > limit or wanted2 > limit2:
            foreach(batch, forget_all, rows, rows2, sides, total)
            arena[0].top = top
            arena2[0].top = top2
            return max(wanted - limit, wanted2 - limit2)
        foreach(batch, write_all, batch, arcs, rows, entries, places, rows2, entries2, places2,
                k, flags, sides, total)  # fmt: skip
        if k > 1:
            foreach(batch, settle_all, rows, rows2, sides, total)
    if flags & WHOLE:  # the counters of the edges' table, as `Table.settle` has them
        fresh = come - again
        tail2 = tail + total // k * (gone - spared)
        arcs[COUNT].word = m + fresh
        arcs[HEAD].word = head + again
        arcs[TAIL].word = tail2
        committed = tail2
        if flags & KEPT:  # references may denote edges: the host decides which rows are reused
            committed = arcs[COMMITTED].word
        arcs[COMMITTED].word = committed
        arcs[BUDGET].word = committed - head - again + arcs[CAPACITY].word - m - fresh
    return -TWICE if out > 0 else 0


change.interruptible = False  # half a batch could not be put back
