"""The residual formula: which clauses, literals and variables values leave, and where they go.

A stable counting sort of the clauses by the literals that they have left, the longest first, and of
the free variables, in one program: the rows of a table are the buckets (a length, or free) of each
chunk of rows, a prefix sum over the table gives the first place of each bucket, and each bucket
writes the places of its rows.  The host reads how many there are of each length, sets the sizes of
the other tables, and `write_residual` copies the rest.  O(literals).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.sat.literals import has_literal, literal
from morph.data.table import Table
from morph.launch.foreach import foreach, kernel, program
from morph.operators.scan import plus, scan_column, scan_space
from morph.prelude import atomic_add, i32, prefetch
from morph.runtime.device import Device

# rows of a chunk of the formula that the space is made for; smaller ones have as many chunks of
# fewer rows
CHUNK = 32
CHOSEN, SIZES = 0, 1  # rows of `Space.report`: variables chosen; the first of the ends of buckets


class Space(NamedTuple):
    """Memory of `arrange`, made by `space_for`, as one argument of programs."""

    buckets: Any
    counts: Any  # of rows up to each bucket, a `Scan`
    report: Any  # counts that the host reads
    chunks: Any  # their number


def space_for(n: int, m: int, width: int, device: Device) -> Space:
    """Allocate for n variables and m clauses of at most ``width`` literals."""
    chunks = max(-(-max(n, m) // CHUNK), 1)
    buckets, report = Table("buckets", device, count=i32), Table("report", device, count=i32)
    buckets.extend((width + 1) * chunks + 1)
    report.extend(SIZES + width + 1)
    return Space(buckets, scan_space(buckets.count), report, chunks)


@kernel
def clear(b):
    b.count = 0


@kernel
def measure(c, g, buckets, chunks, size):
    """Count a clause by its chunk and the literals that it has left, 0 if it is satisfied."""
    length, s = 0, 0
    while has_literal(g, c.id, s):
        e = literal(g, c.id, s)
        value = e.variable.value
        if value < 0:
            length += 1
        elif (value == 1) == (e.message >= 0):
            length = 0
            s = len(g.slots)
        s += 1
    c.length = i32(length)
    if length > 0:  # + 1: the prefix sum is inclusive, so a bucket's place is the count before it
        atomic_add(buckets[(len(g.slots) - length) * chunks + c.id // size + 1].count, 1)


@kernel
def count_free(p, g, buckets, chunks, size):
    """Count a variable without a value by its chunk."""
    if p.value < 0:  # + 1: as in `measure`
        atomic_add(buckets[len(g.slots) * chunks + p.id // size + 1].count, 1)


@kernel
def number_rows(b, g, buckets, chunks, size):
    """Number the clauses and the variables of a chunk."""
    c, width = b.id * size, len(g.slots)
    end = min(c + size, len(g.clauses))
    while c < end:
        length = g.clauses[c].length
        if length > 0:
            at = (width - length) * chunks + b.id
            g.clauses[buckets[at].count].source = i32(c)
            buckets[at].count += 1
        c += 1
    v, at = b.id * size, width * chunks + b.id
    end = min(v + size, len(g.points))
    fresh = buckets[at].count
    if v < end and width > 0:  # the buckets of clauses precede those of variables
        fresh -= buckets[width * chunks].count
    while v < end:
        g.points[v].fresh = i32(-1)
        if g.points[v].value < 0:
            g.points[v].fresh = i32(fresh)
            fresh += 1
        v += 1


@kernel
def report_end(r, buckets, chunks):
    """Report how many rows belong to a bucket or one before it."""
    if r.id >= SIZES:
        r.count = buckets[(r.id - SIZES + 1) * chunks].count


@program
def arrange(g, space):
    """Number the clauses and variables that are left, in ``source`` and ``fresh``."""
    chunks = space.chunks
    size = (max(len(g.points), len(g.clauses)) + chunks - 1) // chunks
    foreach(space.buckets, clear)
    foreach(g.clauses, measure, g, space.buckets, chunks, size)
    foreach(g.points, count_free, g, space.buckets, chunks, size)
    scan_column(space.counts, plus)
    # before `number_rows`, which advances the counts
    foreach(space.report, report_end, space.buckets, chunks)
    foreach(space.buckets[:chunks], number_rows, g, space.buckets, chunks, size)


def sizes(space: Space, width: int) -> tuple[int, list[int]]:
    """Read the number of variables, and of clauses by slot, that `arrange` has found."""
    report = space.report.device.to_host(space.report.count.array).tolist()
    return sizes_of(report[SIZES:], width)


def sizes_of(ends: list[int], width: int) -> tuple[int, list[int]]:
    """Compute the numbers of free variables, and of clauses in each slot.

    They result from the ends of the buckets; ``width`` bounds the length of a clause.
    """
    longer = ends[:width][::-1]  # clauses with more than k literals
    return ends[width] - (longer[0] if longer else 0), [x for x in longer if x]


@kernel
def move_variable(p, g, now, after):
    """Copy a free variable; its sums are those of no messages."""
    if p.fresh >= 0:
        to = g.points[p.fresh]
        to.origin = p.origin
        to.value = -1
        to.choice = 0
        to.certain = 0
        for sign in range(2):
            now[p.fresh].by_sign[sign] = 0
            after[p.fresh].by_sign[sign] = 0


@kernel
def move_clause(c, g, sums, old, ahead):
    """Copy the literals that are left of a clause, and sum up its messages.

    ``ahead`` is the distance of prefetches, in clauses.
    """
    if ahead > 0:
        s = 0
        if c.id + 2 * ahead < len(g.clauses):  # the new row of a variable, which is read first
            later = old.clauses[c.id + 2 * ahead].source
            while has_literal(old, later, s):
                prefetch(literal(old, later, s).variable.fresh)
                s += 1
        s = 0
        if c.id + ahead < len(g.clauses):
            soon = old.clauses[c.id + ahead].source
            while has_literal(old, soon, s):
                fresh = literal(old, soon, s).variable.fresh
                if fresh >= 0:
                    prefetch(sums[fresh].by_sign)
                s += 1
    was = old.clauses[old.clauses[c.id].source]
    c.origin = was.origin
    k, s = 0, 0
    while has_literal(old, was.id, s):
        e = literal(old, was.id, s)
        fresh, message = e.variable.fresh, e.message
        if fresh >= 0:
            to = literal(g, c.id, k)
            to.variable = g.points[fresh]
            to.message = message
            negated = message >> 31
            atomic_add(sums[fresh].by_sign[-negated], message ^ negated)
            k += 1
        s += 1


@program
def write_residual(g, now, after, old, ahead):
    """Copy the rows that `arrange` has numbered to tables of the right sizes."""
    foreach(old.points, move_variable, g, now, after)
    foreach(g.clauses, move_clause, g, now, old, ahead)
