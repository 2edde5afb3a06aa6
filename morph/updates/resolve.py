"""Kernels that find which edges a batch means, and whether it may be carried out.

Problem: each change names an edge by its id or by its ends, and some may name the same one; of
deletes the first counts, of new weights the last, and what is left out leaves no gap.
Method: each finds its edge and notes what is odd.  All claim their edges by one atomic.  Only if
some were claimed before, the changes bid for theirs by an atomic maximum of their numbers, whoever
loses is taken off the batch, and a scan tells each delete how many of those before it are off.
Cost: a search for a pair through the shorter of its two rows; one atomic for a change, and another
and a scan, by parts of 64, of a batch that names an edge twice.
"""

from __future__ import annotations

from typing import Any

from morph.data.table import Table
from morph.graph.gapped import GONE, INSERTED, NAMED
from morph.launch.foreach import foreach, func, kernel
from morph.prelude import atomic_exch, atomic_max, i32, i64, vector

# what the program is told
TURNED, DEAD, LOST, NONNEGATIVE, LOOPS, WHOLE, ALONE, KEPT = 1, 2, 4, 8, 16, 32, 64, 128
ODD, TWICE, LOOP = 1, 2, 3  # what it answers
PART = 64  # changes that one item of a scan adds up


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
                # for the arcs back are not numbered as they come
                cell[0].odd = LOOP  # race: every reason is valid
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
        cell[0].odd = ODD  # race: every reason is valid
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
            cell[0].odd = TWICE  # race: the same value


@func
def rank_of(i, gone, named):
    """Whose claim is the highest: of deletes the first, above all updates, of these the last."""
    return i32(gone + named - 1 - i if i < gone else i - gone)


@kernel
def elect(b, places, k, gone, named):
    if b.id < k and b.fate < INSERTED:
        atomic_max(places[b.keep[0]].at, rank_of(i64(b.id), gone, named))


@kernel
def judge(b, batch, places, cell, k, gone, named, by, flags):
    """Leave out who lost an edge that is named twice; ``at`` is 1 then, and if it is to go."""
    if b.id < k and b.fate < INSERTED:
        i, best = i64(b.id), i64(places[b.keep[0]].at)
        b.at = vector(i32(0), i32(0))
        if rank_of(i, gone, named) != best:
            goes = i >= gone and best >= named
            # the k-th mention of a pair means its k-th edge; a pair's weight, one that stays
            if by & GONE and i < gone or by & NAMED and goes:
                cell[0].odd = ODD  # race: the same value
            b.at = vector(i32(1), i32(1 if goes else 0))
            b.fate = 0
            if flags & TURNED:
                batch[i + k].fate = 0


@kernel
def tally(b, batch, step, count):
    """Sum up the ``at`` of each part of PART steps; the last of a step has all of it."""
    first = i64(b.id) * step * PART
    out, absent = i32(0), i32(0)
    for q in range(min(PART, (count - first) // step)):
        last = batch[first + (q + 1) * step - 1]
        out += last.at[0]
        absent += last.at[1]
        last.at = vector(out, absent)


@kernel
def spread(b, batch, step, count):
    """Add what is before a part, which is known, to all that end a step in it but the last."""
    first = i64(b.id) * step * PART
    if 0 < first and first < count:
        before = batch[first - 1]
        for q in range(min(PART - 1, (count - first) // step)):
            last = batch[first + (q + 1) * step - 1]
            last.at = vector(last.at[0] + before.at[0], last.at[1] + before.at[1])


@kernel
def unclaim(b, places, k):
    if b.id < k and b.fate < INSERTED:  # whoever has lost it, too
        places[b.keep[0]].at = b.keep[1]  # race: all that name an edge have kept the same


@kernel
def look(b, rows, entries, rows2, entries2, sides):
    b.edge = between(b.end[0], b.end[1], b.keep[0], rows, entries, rows2, entries2, sides)


def look_up(batch: Table, *args: Any) -> None:
    """Find the least edge between ``end``, above ``keep[0]``, for each row of a batch."""
    foreach(batch, look, *args)
