"""Kernels that apply a batch of edge changes to the adjacency rows in place, in one launch.

Problem: a batch has edges to delete, edges whose weight is set, and edges to insert; the table of
edges, their reverses and the adjacency rows of points (`graph.gapped`) are to be updated.
Method: each change finds its edge and validates itself (`resolve`); if a change is invalid, nothing
is changed, and the host raises the error.  The changes of one row are numbered by an atomic counter
of the row.  Deletes: the last entries of a row that are not deleted move to the gaps before them:
entries and gaps are numbered, and are matched by number in the row's end.  Inserts: the first
change of a row reserves entries for all of them, at the arena's end if the row's capacity is
exceeded; then all write their entries, and share in copying a row that moves.  A batch of one
change needs no counters, and takes fewer steps.
Cost: some 10 random accesses per edge and direction, and a barrier for each step, whatever the size
of the graph; a row that moves is copied, which is rare, since it gets a quarter of spare capacity.

The kernels take bundles of `graph.gapped`; ``side`` is a `Side`, and ``direction`` its number:
0 puts edges at their source, 1 at their destination.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"

from __future__ import annotations

from typing import Any, NamedTuple

from morph.data.store import Word
from morph.graph.gapped import (
    ALL,
    DELETED,
    INSERTED,
    INSERTS,
    NOT_APPLIED,
    REPEATED,
    UPDATED,
    Side,
)
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, i32, i64, static, u8
from morph.updates.resolve import (
    EDGES_DELETED,
    REFERRED,
    UNDIRECTED,
    WRITES_EDGES,
    resolve_batch,
)

COUNT, CAPACITY, HEAD, TAIL, COMMITTED, BUDGET = map(int, Word)
# entries that one item copies when rows are rebuilt, on a CPU and on a GPU, where neighbouring
# threads read neighbouring sectors of memory
PART, SECTOR = 128, 8


@func
def in_each_direction(b, step, index):
    """Run a step of a change at its source, and at its destination if that has rows."""
    step(b, Side(index.rows, index.entries, index.places, index.arena), 0)
    if index.sides > 1:
        step(b, Side(index.rows2, index.entries2, index.places2, index.arena2), 1)


@kernel
def run_step(b, step, outcome, index, rows):
    """Run a step for the changes with one outcome.

    The outcome is compared here instead of in a ``where``, which halves the generated code: on a
    GPU the time of a small batch is mostly that of instruction fetches.
    """
    if b.id < rows and b.outcome == outcome:
        in_each_direction(b, step, index)


# --- deletes, and new weights --------------------------------------------------------------------


@func
def open_gap(b, side, direction):
    """Mark an entry as a gap, and number it within its row."""
    b.rank[direction] = -1
    if side.places[b.edge].at >= 0:
        row = side.rows[b.end[direction]]
        b.rank[direction] = atomic_add(row.deleted, 1)
        side.entries[row.begin + side.places[b.edge].at].edge = -1


@func
def remove_entry(b, side, direction):
    """Remove an entry of a row that no other change of the batch uses."""
    at = side.places[b.edge].at
    if at >= 0:
        row = side.rows[b.end[direction]]
        last = row.begin + row.size - 1
        e = side.entries[last].edge
        side.entries[row.begin + at].edge = e
        side.entries[row.begin + at].end = side.entries[last].end
        side.places[e].at = at
        side.places[b.edge].at = -1
        row.size -= 1


@func
def take_last(b, side, direction):
    """Take an entry beyond the row's new size, and number it, unless it is a gap."""
    b.keep[direction] = -1
    if b.rank[direction] >= 0:
        row = side.rows[b.end[direction]]
        k = row.begin + row.size - row.deleted + b.rank[direction]
        b.keep[direction] = side.entries[k].edge
        b.far[direction] = side.entries[k].end
        if b.keep[direction] >= 0:
            b.at[direction] = atomic_add(row.inserted, 1)


@func
def list_gap(b, side, direction):
    """List a gap below the row's new size, by its number, where `fill_gap` reads it."""
    if b.rank[direction] >= 0:
        row = side.rows[b.end[direction]]
        at, left = side.places[b.edge].at, row.size - row.deleted
        if at < left:
            k = atomic_add(row.position, 1)
            side.entries[row.begin + left + k].edge = at
        side.places[b.edge].at = -1


@func
def fill_gap(b, side, direction):
    """Write the entry that was taken to the gap of the same number."""
    if b.rank[direction] >= 0 and b.keep[direction] >= 0:
        row = side.rows[b.end[direction]]
        at = side.entries[row.begin + row.size - row.deleted + b.at[direction]].edge
        side.entries[row.begin + at].edge = b.keep[direction]
        side.entries[row.begin + at].end = b.far[direction]
        side.places[b.keep[direction]].at = at


@func
def shorten_row(b, side, direction):
    if b.rank[direction] == 0:
        row = side.rows[b.end[direction]]
        row.size -= row.deleted
        row.deleted = 0
        row.inserted = 0
        row.position = 0


@func
def rows_of(counts, flags):
    """Return the number of rows of a batch's table, reverses included."""
    return counts.given * 2 if flags & UNDIRECTED else counts.given


@kernel
def change_named(b, tables, index, counts, ids, left_out, flags, one: static):
    """Set a weight, or delete an edge: mark it deleted, and open gaps where its entries are."""
    e, rows = b.edge, rows_of(counts, flags)
    if b.id < rows and b.outcome == UPDATED:
        if hasattr(b, "given"):
            tables.arcs[e].weight = b.given
    elif b.id < rows and b.outcome == DELETED:
        if flags & WRITES_EDGES:
            i, reverse = i64(b.id), 0
            if i >= counts.given:
                i -= counts.given
                reverse = 1
            at = i + reverse * counts.deletes
            if not one and left_out:  # the ring has no gaps
                at -= tables.batch[i].at[reverse] + reverse * tables.report[0].left_out[1]
            tables.arcs[(ids.tail + at) & tables.mask].ring = e
            tables.arcs[e].died = u8(1)
            if flags & UNDIRECTED:
                tables.arcs[e].back = -1
        if one or counts.given == 1:
            in_each_direction(b, remove_entry, index)
        else:
            in_each_direction(b, open_gap, index)


# --- inserts -------------------------------------------------------------------------------------


@func
def capacity_of(n):
    """Return the capacity that a row of n entries gets when it moves."""
    return i32(min(i64(n) + i64(n) // 4 + 4, 2147483647))


@func
def number_insert(b, side, direction):
    b.rank[direction] = atomic_add(side.rows[b.end[direction]].inserted, 1)


@func
def place_row(side, p, need):
    """Find where a row of ``need`` entries will lie: at the arena's end if it is too long."""
    row = side.rows[p]
    row.position = row.begin
    if need > row.extent:
        # unread beyond the limit
        row.position = i32(atomic_add(side.arena[0].top, i64(capacity_of(need))))


@func
def reserve_entries(b, side, direction):
    """Place a row for all inserts that `number_insert` has counted."""
    if b.rank[direction] == 0:
        p = b.end[direction]
        place_row(side, p, side.rows[p].size + side.rows[p].inserted)


@func
def clear_counters(b, side, direction):
    row = side.rows[b.end[direction]]
    row.inserted = 0  # race: all write 0
    row.position = 0  # race: all write 0


@func
def write_entry(b, side, direction):
    """Write a new entry, and copy a part of the row if it moves."""
    row = side.rows[b.end[direction]]
    rank, size, to, begin = b.rank[direction], row.size, row.position, row.begin
    if to != begin:
        first = i64(size) * rank // row.inserted
        last = i64(size) * (rank + 1) // row.inserted
        for k in range(first, last):
            side.entries[to + k].edge = side.entries[begin + k].edge
            side.entries[to + k].end = side.entries[begin + k].end
    side.entries[to + size + rank].edge = b.edge
    side.entries[to + size + rank].end = b.end[1 - direction]
    side.places[b.edge].at = size + rank


@func
def lengthen_row(b, side, direction):
    if b.rank[direction] == 0:
        row = side.rows[b.end[direction]]
        if row.position != row.begin:
            row.begin = row.position
            row.extent = capacity_of(row.size + row.inserted)
        row.size += row.inserted
        row.inserted = 0
        row.position = 0


@func
def reserve_entry(b, side, direction):
    """`reserve_entries` for a row that no other change of the batch uses."""
    p = b.end[direction]
    place_row(side, p, side.rows[p].size + 1)


@func
def append_entry(b, side, direction):
    """`write_entry` and `lengthen_row` for a row that no other change of the batch uses."""
    row = side.rows[b.end[direction]]
    size, to, begin = row.size, row.position, row.begin
    side.entries[to + size].edge = b.edge
    side.entries[to + size].end = b.end[1 - direction]
    side.places[b.edge].at = size
    if to != begin:
        for k in range(size):
            side.entries[to + k].edge = side.entries[begin + k].edge
            side.entries[to + k].end = side.entries[begin + k].end
        row.begin = to
        row.extent = capacity_of(size + 1)
    row.size = size + 1
    row.position = 0


@kernel
def number_inserts(b, index, counts, rows, one: static):
    if b.id < rows and b.outcome == INSERTED:
        if one:
            in_each_direction(b, reserve_entry, index)
        else:
            in_each_direction(b, number_insert, index)
            if counts.given == 1:  # no other change of these rows
                in_each_direction(b, reserve_entries, index)


@kernel
def write_inserts(b, tables, index, counts, ids, rows, flags, one: static):
    """Write new edges, to their table and as entries."""
    if b.id < rows and b.outcome == INSERTED:
        if flags & WRITES_EDGES:
            arc = tables.arcs[b.edge]
            arc.src = b.end[0]
            arc.dst = b.end[1]
            if hasattr(b, "given"):
                arc.weight = b.given
            if flags & EDGES_DELETED:
                arc.died = u8(0)
            if b.edge < ids.ordered:
                arc.recycled = u8(1)
            if flags & UNDIRECTED:
                i, k = i64(b.id), counts.given
                back = tables.batch[i + k if i < k else i - k].edge
                arc.back = back if b.end[0] != b.end[1] else b.edge
        if one:
            in_each_direction(b, append_entry, index)
        else:
            in_each_direction(b, write_entry, index)
            if counts.given == 1:
                in_each_direction(b, lengthen_row, index)


# --- rebuilt rows --------------------------------------------------------------------------------


@func
def row_with(k, rows, count):
    """Return the row whose capacity includes entry k, of rows in the order of their points."""
    first, last = i32(0), count
    while first < last:
        middle = first + (last - first) // 2
        if rows[middle].begin <= k:
            first = middle + 1
        else:
            last = middle
    return first - 1


@kernel
def copy_part(part, old, new, top, count, length):
    """Copy the rows, or parts of rows, that lie in a part of the new arena."""
    k, last = i64(part.id) * length, min((i64(part.id) + 1) * length, top)
    p = i32(-1)
    while k < last:
        p += 1
        if p == 0 or new.rows[p].extent == 0:
            p = row_with(k, new.rows, count)
        row = new.rows[p]
        begin = old.rows[p].begin - row.begin
        for j in range(k, min(i64(row.begin) + row.size, last)):
            new.entries[j].edge = old.entries[begin + j].edge
            new.entries[j].end = old.entries[begin + j].end
        k = i64(row.begin) + row.extent


def copy_entries(old: Any, new: Any, top: int) -> None:
    """Fill the rows that `GappedRows.rebuilt` returned, whose arena is used up to ``top``."""
    length = PART if new.entries.device.on_host else SECTOR
    parts = new.entries[: -(-top // length)]
    foreach(parts, copy_part, old, new, i64(top), i32(new.rows.capacity), i64(length))


# --- a batch -------------------------------------------------------------------------------------


@program
def change(tables, index, counts, ids, flags, part, single, one: static):
    """Apply the ``counts.given`` changes of ``tables.batch``, deletes first, inserts last.

    With ``one`` the batch is the argument ``single``, and the program is compiled for one change.

    Returns 0, or -`REPEATED` if changes were left out (see `resolve_batch`).  Returns -`INVALID` or
    -`LOOP` if nothing was changed: a change is invalid, or a loop is inserted and ``at`` does not
    count loops.  Returns the number of entries that the arenas lack, if positive: all but the
    inserts has been done, and ``report.short`` has that of each arena.  ``report.stamp`` is set to
    ``single.stamp`` before the first change (with ``one`` by `resolve`), and ``report.result`` to
    what is returned: a launch behind this one reads both.
    """
    named, deletes, reverses = counts.deletes + counts.updates, counts.deletes, counts.deletes
    reason, stamp = 0, single.stamp
    rows = counts.given * 2 if flags & UNDIRECTED else counts.given
    # read at once, before other steps: on a GPU each read that the next step needs is a wait
    top, top2 = index.arena[0].top, index.arena2[0].top
    committed = tables.arcs[COMMITTED].word
    unused = tables.arcs[CAPACITY].word - ids.edges - counts.arcs
    if part == ALL:
        resolve_batch(tables, index, counts, ids, flags, single, one)
        reason = tables.report[0].reason
    left_out = tables.report[0].repeated == stamp
    if reason != 0:
        tables.report[0].result = -reason
        return -reason
    if not one and part == ALL:
        tables.report[0].stamp = stamp
    if left_out:
        deletes -= tables.report[0].left_out[1]
        reverses -= tables.report[0].left_out[2]
    if part != INSERTS and named > 0:
        foreach(tables.batch, change_named, tables, index, counts, ids, left_out, flags, one)
        if not one and counts.deletes > 0 and counts.given > 1:
            foreach(tables.batch, run_step, take_last, DELETED, index, rows)
            foreach(tables.batch, run_step, list_gap, DELETED, index, rows)
            foreach(tables.batch, run_step, fill_gap, DELETED, index, rows)
            foreach(tables.batch, run_step, shorten_row, DELETED, index, rows)
    if counts.given > named:
        foreach(tables.batch, number_inserts, index, counts, rows, one)
        if not one and counts.given > 1:
            foreach(tables.batch, run_step, reserve_entries, INSERTED, index, rows)
        short, short2 = index.arena[0].top - index.limit, index.arena2[0].top - index.limit2
        if max(short, short2) > 0:
            foreach(tables.batch, run_step, clear_counters, INSERTED, index, rows)
            index.arena[0].top, index.arena2[0].top = top, top2
            tables.report[0].short[0], tables.report[0].short[1] = short, short2
            tables.report[0].result = max(short, short2)
            return max(short, short2)
        foreach(tables.batch, write_inserts, tables, index, counts, ids, rows, flags, one)
        if not one and counts.given > 1:
            foreach(tables.batch, run_step, lengthen_row, INSERTED, index, rows)
    if flags & WRITES_EDGES:  # the counters that `Table._publish_counters` computes
        tail = ids.tail + deletes + (reverses if flags & UNDIRECTED else 0)
        if not flags & REFERRED:  # else the host decides which ids are reused
            committed = tail
        tables.arcs[COUNT].word = ids.edges + counts.arcs - ids.reused
        tables.arcs[HEAD].word = ids.head + ids.reused
        tables.arcs[TAIL].word = tail
        tables.arcs[COMMITTED].word = committed
        tables.arcs[BUDGET].word = committed - ids.head + unused
    tables.report[0].result = -REPEATED if left_out else 0
    return -REPEATED if left_out else 0


@program
def change_one(tables, index, counts, ids, flags, part, single):
    """`change` for the batch ``single``."""
    return change(tables, index, counts, ids, flags, part, single, True)


class OneChange(NamedTuple):
    """The arguments of `change_one`, as a bundle."""

    tables: Any
    index: Any
    counts: Any
    ids: Any
    flags: int
    part: int
    single: Any


class Repair(NamedTuple):
    """A program that repairs values after a batch, and its arguments, as a bundle."""

    program: Any
    problem: Any
    batch: Any
    now: Any
    following: Any
    queue: Any


@program
def change_and_repair(given, behind):
    """Apply a batch of one change, and repair values in the same launch.

    Returns the result of ``behind.program``, or `NOT_APPLIED` if that of `change` is not 0.
    """
    result = change(
        given.tables, given.index, given.counts, given.ids, given.flags, given.part, given.single,
        True,
    )  # fmt: skip
    if result != 0:
        return NOT_APPLIED
    return behind.program(
        behind.problem, behind.batch, behind.now, behind.following, behind.queue
    )  # fmt: skip


# half a batch could not be put back
change.interruptible = change_one.interruptible = change_and_repair.interruptible = False
change_one.single_block = change_and_repair.single_block = True
