"""Kernels that carry out a batch of changes of edges in place, in one launch.

Problem: a batch names edges to delete, edges that get another weight, and edges to insert; the
table of edges, their reverses and the entries of points (`loose`) are to follow.
Method: each change finds its edge, and whether it may be carried out; if one may not, nothing is,
and the host tells why (`named`).  Items of one row number themselves by an atomic.  Deletes:
the last entries of a row that stay take the places, before them, of those that go: both count
themselves, and meet by number through the row's end.  Inserts: the first of a row finds room for
all of them, at the arena's end if its own is used up; then all write, and share in copying a row
that moves.
Cost: some 10 random accesses an edge and direction, and a barrier for each step, whatever the size
of the graph; a row that moves is copied, which growth by a half makes rare.
"""

from __future__ import annotations

from typing import Any

from morph.data.store import Word
from morph.data.table import Table
from morph.graph.batch import GONE, INSERTED, NAMED
from morph.kernel import foreach, func, kernel, program
from morph.prelude import atomic_add, atomic_exch, i32, i64, u8, vector

COUNT, CAPACITY, HEAD, TAIL, COMMITTED, BUDGET = map(int, Word)

# what the program is told
TURNED, DEAD, LOST, NONNEGATIVE, LOOPS, WHOLE, ALONE = 1, 2, 4, 8, 16, 32, 64
ODD, TWICE, LOOP = 1, 2, 3  # why nothing is done
# and where it begins: with all of it; with rows alone, whose edges are known; with what is inserted
ALL, ROWS, INSERTS = 0, 1, 2

# The kernels know a direction by `turn`: 0 puts edges at their source, 1 at their destination.


@func
def is_one(b, total, fate):
    """Whether an item is one of the batch, and of those.

    Asked within a kernel, which makes half the text that a filter does: on a GPU a small batch
    waits for instructions more than for anything else.
    """
    return b.id < total and b.fate == fate


# --- which edges ---------------------------------------------------------------------------------


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


@func
def between(u, v, after, rows, entries, rows2, entries2, sides):
    """Give the least edge above ``after`` from u to v, looked for where there are fewer."""
    found = i32(-1)
    if sides > 1 and rows2[v].size < rows[u].size:
        found = least(rows2[v], entries2, u, after)
    else:
        found = least(rows[u], entries, v, after)
    return found


@func
def may_be(b):
    """Whether a weight is no less than 0, and a number."""
    if hasattr(b, "given"):
        return b.given >= 0
    else:
        return True


@kernel
def resolve(b, batch, arcs, cell, rows, entries, places, rows2, entries2, k, gone, named, by,
            n, m, first, again, head, mask, flags, sides, a0, b0, weight0):  # fmt: skip
    """Find the edge that a change means, and its reverse in the row ``k`` further on."""
    i = i64(b.id)
    if i >= k:
        return
    if flags & ALONE:
        b.a = a0
        b.b = b0
        if hasattr(b, "given"):
            b.given = weight0
    e, f, u, v = i32(-1), i32(-1), i32(0), i32(0)
    fate = i32(INSERTED)
    good = True
    if i < gone + named:
        fate = i32(GONE if i < gone else NAMED)
        if by & fate:
            if 0 <= b.a and b.a < n and 0 <= b.b and b.b < n:
                u, v = i32(b.a), i32(b.b)
                if flags & TURNED and v < u:
                    u, v = v, u
                e = between(u, v, i32(-1), rows, entries, rows2, entries2, sides)
        elif 0 <= b.a and b.a < m:
            e = i32(b.a)
            if flags & DEAD:
                if arcs[e].died != 0:
                    e = i32(-1)
        good = e >= 0
        if good:
            u, v = arcs[e].src, arcs[e].dst
            if flags & TURNED:
                f = arcs[e].back
                good = f >= 0 and f != e
            low = min(e, f) if flags & TURNED and good else e
            b.keep = vector(low, places[low].at)
            if hasattr(b, "weight"):
                b.weight = arcs[e].weight
    else:
        good = 0 <= b.a and b.a < n and 0 <= b.b and b.b < n
        if good:
            u, v = i32(b.a), i32(b.b)
            if u == v and flags & TURNED and not flags & LOOPS:
                cell[0].odd = LOOP  # for the arcs back are not numbered as they come
            if flags & LOST:
                good = good and arcs[u].lost == 0 and arcs[v].lost == 0
        at = i - gone - named
        e = i32(first + at - again)
        if at < again:
            e = arcs[(head + at) & mask].ring
        if flags & TURNED:
            at += k - gone - named
            if flags & LOOPS:
                at -= b.at[1]
            f = i32(first + at - again)
            if at < again:
                f = arcs[(head + at) & mask].ring
            if u == v:
                f = i32(-1)
    if flags & NONNEGATIVE and fate != GONE:
        good = good and may_be(b)
    if not good:
        cell[0].odd = ODD
    b.fate = fate
    b.edge = e
    b.end = vector(u, v)
    if flags & TURNED:
        t = batch[i + k]
        t.fate = fate if f >= 0 else i32(0)
        t.edge = f
        t.end = vector(v, u)
        if hasattr(b, "weight"):
            t.weight = arcs[f].weight if i < gone + named and good else b.weight
            t.given = b.given


@kernel
def claim(b, places, cell, k):
    if b.id < k and b.fate < INSERTED:
        if atomic_exch(places[b.keep[0]].at, -2) == -2:  # an edge that is named twice
            cell[0].odd = TWICE


@kernel
def unclaim(b, places, k):
    if b.id < k and b.fate < INSERTED:
        places[b.keep[0]].at = b.keep[1]


@kernel
def look(b, rows, entries, rows2, entries2, sides):
    b.edge = between(b.end[0], b.end[1], b.keep[0], rows, entries, rows2, entries2, sides)


def look_up(batch: Table, *args: Any) -> None:
    """Find the least edge between ``end``, above ``keep[0]``, for each row of a batch."""
    foreach(batch, look, *args)


# --- deletes, and new weights --------------------------------------------------------------------


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
def enact(b, arcs, rows, entries, places, rows2, entries2, places2, total, k, gone, tail, mask,
          flags, sides):  # fmt: skip
    e = b.edge
    if is_one(b, total, NAMED):
        if hasattr(b, "given"):
            arcs[e].weight = b.given
    elif is_one(b, total, GONE):
        if flags & WHOLE:
            i = i64(b.id)
            arcs[(tail + (i if i < k else gone + i - k)) & mask].ring = e
            arcs[e].died = u8(1)
            if flags & TURNED:
                arcs[e].back = -1
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
def number_all(b, rows, rows2, sides, total):
    if is_one(b, total, INSERTED):
        b.rank[0] = atomic_add(rows[b.end[0]].come, 1)
        if sides > 1:
            b.rank[1] = atomic_add(rows2[b.end[1]].come, 1)


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

    Give 0; or, if nothing has changed, minus why: `ODD`, a change may not be carried out, or is
    none; `TWICE`, an edge is named again; `LOOP`, one is inserted, and ``at`` does not tell of it;
    or how many entries there is no memory for: then all but the inserts has been done.
    ``cell[0].stamp`` is ``stamp`` from the first change on.
    """
    if begin == ALL:
        cell[0].odd = 0
        foreach(batch, resolve, batch, arcs, cell, rows, entries, places, rows2, entries2,
                k, gone, named, by, n, m, first, again, head, mask, flags, sides,
                a0, b0, weight0)  # fmt: skip
        if gone + named > 1:
            if cell[0].odd == 0:
                foreach(batch, claim, places, cell, k)
                foreach(batch, unclaim, places, k)
        if cell[0].odd != 0:
            return -cell[0].odd
        cell[0].stamp = stamp
    if begin != INSERTS:
        if gone + named > 0:
            foreach(batch, enact, arcs, rows, entries, places, rows2, entries2, places2,
                    total, k, gone, tail, mask, flags, sides)  # fmt: skip
        if gone > 0:
            foreach(batch, lift_all, rows, entries, rows2, entries2, sides, total)
            foreach(batch, offer_all, rows, entries, places, rows2, entries2, places2, sides, total)
            foreach(batch, drop_all, rows, entries, places, rows2, entries2, places2, sides, total)
            foreach(batch, shorten_all, rows, rows2, sides, total)
    if k > gone + named:
        top = arena[0].top
        top2 = arena2[0].top
        foreach(batch, number_all, rows, rows2, sides, total)
        foreach(batch, find_room_all, rows, arena, rows2, arena2, sides, total)
        wanted = arena[0].top
        wanted2 = arena2[0].top
        if wanted > limit or wanted2 > limit2:
            foreach(batch, forget_all, rows, rows2, sides, total)
            arena[0].top = top
            arena2[0].top = top2
            return max(wanted - limit, wanted2 - limit2)
        foreach(
            batch,
            write_all,
            batch,
            arcs,
            rows,
            entries,
            places,
            rows2,
            entries2,
            places2,
            k,
            flags,
            sides,
            total,
        )
        foreach(batch, settle_all, rows, rows2, sides, total)
    if flags & WHOLE:  # the counters of the edges' table, as `Table.settle` has them
        fresh = come - again
        tail2 = tail + total // k * gone
        arcs[COUNT].word = m + fresh
        arcs[HEAD].word = head + again
        arcs[TAIL].word = tail2
        arcs[COMMITTED].word = tail2
        arcs[BUDGET].word = tail2 - head - again + arcs[CAPACITY].word - m - fresh
    return 0
