"""Kernels that put edges into rows and take them out, in place, all at once.

Problem: the entries of points (`morph.loose`) follow a batch of inserted, or of deleted, edges.
Method: items of one row number themselves by an atomic.  Inserts: the first of a row finds room for
all of them, at the arena's end if its own is used up; then all write, and share in copying a row
that moves.  Deletes: the last entries of a row that stay take the places, before them, of those
that go: both count themselves, and meet by number through the row's end.
Cost: some 10 random accesses an edge and direction, and a barrier for each step, whatever the size
of the graph; a row that moves is copied, which growth by a half makes rare.
"""

from __future__ import annotations

from typing import Any

from morph.kernel import foreach, func, kernel, program
from morph.loose import Loose, load
from morph.prelude import atomic_add, i32, i64
from morph.table import Table

# The kernels know a direction by `turn`: 0 puts edges at their source, 1 at their destination.


@func
def roomy(n):
    """Give the room that a row of n entries gets when it moves."""
    return i32(min(i64(n) + i64(n) // 4 + 4, 2147483647))


# --- inserts -------------------------------------------------------------------------------------


@func
def number(b, rows, turn):
    b.rank[turn] = atomic_add(rows[b.end[turn]].come, 1)


@func
def find_room(b, rows, arena, turn):
    if b.rank[turn] == 0:
        row = rows[b.end[turn]]
        need = row.size + row.come
        row.goal = row.begin
        if need > row.room:
            row.goal = atomic_add(arena[0].top, i64(roomy(need)))


@func
def forget(b, rows, turn):
    row = rows[b.end[turn]]
    row.come = 0
    row.goal = 0


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
def settle(b, rows, arena, turn):
    if b.rank[turn] == 0:
        row = rows[b.end[turn]]
        if row.goal != row.begin:
            atomic_add(arena[0].wasted, i64(row.room))
            row.begin = row.goal
            row.room = roomy(row.size + row.come)
        row.size += row.come
        row.come = 0
        row.goal = 0


@kernel
def number_out(b, rows):
    number(b, rows, 0)


@kernel
def find_room_out(b, rows, arena):
    find_room(b, rows, arena, 0)


@kernel
def forget_out(b, rows):
    forget(b, rows, 0)


@kernel
def write_out(b, rows, entries, places):
    write(b, rows, entries, places, 0)


@kernel
def settle_out(b, rows, arena):
    settle(b, rows, arena, 0)


@program
def insert_out(batch, rows, entries, places, arena, limit):
    top = arena[0].top
    foreach(batch, number_out, rows)
    foreach(batch, find_room_out, rows, arena)
    if arena[0].top > limit:
        top2 = arena[0].top
        foreach(batch, forget_out, rows)
        arena[0].top = top
        return top2 - limit
    foreach(batch, write_out, rows, entries, places)
    foreach(batch, settle_out, rows, arena)
    return 0


@kernel
def number_both(b, rows, rows2):
    number(b, rows, 0)
    number(b, rows2, 1)


@kernel
def find_room_both(b, rows, arena, rows2, arena2):
    find_room(b, rows, arena, 0)
    find_room(b, rows2, arena2, 1)


@kernel
def forget_both(b, rows, rows2):
    forget(b, rows, 0)
    forget(b, rows2, 1)


@kernel
def write_both(b, rows, entries, places, rows2, entries2, places2):
    write(b, rows, entries, places, 0)
    write(b, rows2, entries2, places2, 1)


@kernel
def settle_both(b, rows, arena, rows2, arena2):
    settle(b, rows, arena, 0)
    settle(b, rows2, arena2, 1)


@program
def insert_both(
    batch, rows, entries, places, arena, limit, rows2, entries2, places2, arena2, limit2
):
    top = arena[0].top
    top2 = arena2[0].top
    foreach(batch, number_both, rows, rows2)
    foreach(batch, find_room_both, rows, arena, rows2, arena2)
    wanted = arena[0].top
    wanted2 = arena2[0].top
    if wanted > limit or wanted2 > limit2:
        foreach(batch, forget_both, rows, rows2)
        arena[0].top = top
        arena2[0].top = top2
        return max(wanted - limit, wanted2 - limit2)
    foreach(batch, write_both, rows, entries, places, rows2, entries2, places2)
    foreach(batch, settle_both, rows, arena, rows2, arena2)
    return 0


# --- deletes -------------------------------------------------------------------------------------


@func
def mark(b, rows, entries, places, turn):
    b.rank[turn] = -1
    if places[b.edge].at >= 0:
        row = rows[b.end[turn]]
        b.rank[turn] = atomic_add(row.gone, 1)
        entries[row.begin + places[b.edge].at].edge = -1


@func
def lift(b, rows, entries, turn):
    """Take up an entry of the row's end, if it stays."""
    b.keep = -1
    if b.rank[turn] >= 0:
        row = rows[b.end[turn]]
        k = row.begin + row.size - row.gone + b.rank[turn]
        b.keep = entries[k].edge
        b.far = entries[k].end
        if b.keep >= 0:
            b.at = atomic_add(row.come, 1)


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
    if b.rank[turn] >= 0 and b.keep >= 0:
        row = rows[b.end[turn]]
        at = entries[row.begin + row.size - row.gone + b.at].edge
        entries[row.begin + at].edge = b.keep
        entries[row.begin + at].end = b.far
        places[b.keep].at = at


@func
def shorten(b, rows, turn):
    if b.rank[turn] == 0:
        row = rows[b.end[turn]]
        row.size -= row.gone
        row.gone = 0
        row.come = 0
        row.goal = 0


@kernel
def mark_at(b, rows, entries, places, turn):
    mark(b, rows, entries, places, turn)


@kernel
def lift_at(b, rows, entries, turn):
    lift(b, rows, entries, turn)


@kernel
def offer_at(b, rows, entries, places, turn):
    offer(b, rows, entries, places, turn)


@kernel
def drop_at(b, rows, entries, places, turn):
    drop(b, rows, entries, places, turn)


@kernel
def shorten_at(b, rows, turn):
    shorten(b, rows, turn)


@program
def remove_out(batch, rows, entries, places):
    foreach(batch, mark_at, rows, entries, places, 0)
    foreach(batch, lift_at, rows, entries, 0)
    foreach(batch, offer_at, rows, entries, places, 0)
    foreach(batch, drop_at, rows, entries, places, 0)
    foreach(batch, shorten_at, rows, 0)


@program
def remove_both(batch, rows, entries, places, rows2, entries2, places2):
    foreach(batch, mark_at, rows, entries, places, 0)
    foreach(batch, lift_at, rows, entries, 0)
    foreach(batch, offer_at, rows, entries, places, 0)
    foreach(batch, drop_at, rows, entries, places, 0)
    foreach(batch, shorten_at, rows, 0)
    foreach(batch, mark_at, rows2, entries2, places2, 1)
    foreach(batch, lift_at, rows2, entries2, 1)
    foreach(batch, offer_at, rows2, entries2, places2, 1)
    foreach(batch, drop_at, rows2, entries2, places2, 1)
    foreach(batch, shorten_at, rows2, 1)


# --- looking for edges ---------------------------------------------------------------------------


@func
def least(row, entries, far, after):
    """Give the least edge above ``after`` from a row to a point, -1 if there is none."""
    best = i32(-1)
    for k in range(row.begin, row.begin + row.size):
        if entries[k].end == far:
            e = entries[k].edge
            if e > after and (best < 0 or e < best):
                best = e
    return best


@kernel
def look(b, rows, entries):
    b.edge = least(rows[b.end[0]], entries, b.end[1], b.keep)


@kernel
def look_both(b, rows, entries, rows2, entries2):
    if rows[b.end[0]].size <= rows2[b.end[1]].size:
        b.edge = least(rows[b.end[0]], entries, b.end[1], b.keep)
    else:
        b.edge = least(rows2[b.end[1]], entries2, b.end[0], b.keep)


# --- from the host -------------------------------------------------------------------------------


def put_in(batch: Table, sides: list[Loose], ids: Any, near: Any, far: Any) -> int:
    """Insert edges: into the first side's rows at ``near``, into the second's at ``far``.

    Returns
    -------
    int
        0, or, if nothing was done, how many entries there is no memory for.
    """
    load(batch, ids, near, far)
    args = [x for s in sides for x in (s.rows, s.entries, s.places, s.arena, s.limit)]
    run = insert_out if len(sides) == 1 else insert_both
    return int(run(batch, *args))


def take_out(batch: Table, sides: list[Loose], ids: Any, near: Any, far: Any) -> None:
    """Delete edges, from rows as `put_in`."""
    load(batch, ids, near, far)
    run = remove_out if len(sides) == 1 else remove_both
    run(batch, *(x for s in sides for x in (s.rows, s.entries, s.places)))


def find(batch: Table, sides: list[Loose], near: Any, far: Any, after: Any) -> Any:
    """Give the least edge above ``after`` of each pair, -1 if there is none; shape (k,), int32."""
    load(batch, after, near, far)
    count = int(after.size)
    batch.columns["keep"].array[:count] = after
    args = [x for s in sides for x in (s.rows, s.entries)]
    foreach(batch, look if len(sides) == 1 else look_both, *args)
    return batch.columns["edge"].array[:count].copy()
