"""Kernels that find the edges of a batch, and whether the batch may be applied.

Problem: each change names an edge by its id or by its ends; some name no edge, and several may name
the same one: of deletes the first counts, of new weights the last, but the k-th delete of a pair
names its k-th edge.  The changes left out leave no gap.
Method: each change finds its edge and reports if the change is invalid.  All changes claim their
edges by one atomic.  Only if an edge was claimed twice or does not exist, the changes bid for their
edges by an atomic minimum, deletes of a pair that lose go on to its next edge, the other losers
are removed from the batch, and a scan counts for each delete how many removed ones precede it.
Cost: a search for a pair through the shorter of its two rows; one atomic a change, and for a batch
that leaves changes out another one and a scan, by parts of 64; as many rounds as a pair is named.

The kernels take bundles of `graph.gapped`: ``tables`` (`Tables`), ``index`` (`Sides`),
``counts`` (`Counts`), ``ids`` (`EdgeIds`), ``single`` (`Single`).
"""

# mypy: disable-error-code="valid-type,no-untyped-def"

from __future__ import annotations

from morph.graph.gapped import DELETED, INSERTED, INVALID, LOOP, UPDATED
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, atomic_exch, atomic_min, i32, i64, static, vector

# Flags of a batch.
UNDIRECTED = 1  # each edge has a reverse, which is changed along with it
EDGES_DELETED, POINTS_DELETED = 2, 4  # there are columns that tell deleted edges, deleted points
NONNEGATIVE = 8  # weights below 0 are invalid
LOOPS_COUNTED = 16  # ``at`` has the number of loops among the inserts before each
WRITES_EDGES = 32  # the table of edges is changed too, and not only the index
REFERRED = 128  # references may denote edges: the host decides which ids are reused
PART = 64  # changes that one item of a scan sums up
ROUNDS = 8  # in which deletes of one pair go on to its next edge
CLAIMED = -2  # in place of an edge's place in its row, while changes compete for the edge


@func
def least(row, entries, end, after):
    """Return the least edge above ``after`` from a row to a point, -1 if there is none."""
    best = i32(-1)
    for k in range(row.begin, row.begin + row.size):
        if entries[k].end == end:
            e = entries[k].edge
            if e > after and (best < 0 or e < best):
                best = e
    return best


@func
def least_reverse(row, entries, end, after, arcs):
    """Return the least reverse above ``after`` of the edges from a row to a point, -1 if none."""
    best = i32(-1)
    for k in range(row.begin, row.begin + row.size):
        if entries[k].end == end:
            e = arcs[entries[k].edge].back
            if e > after and (best < 0 or e < best):
                best = e
    return best


@func
def between(u, v, after, index, arcs, flags):
    """Return the least edge above ``after`` from u to v, found in the shorter of two rows."""
    found = i32(-1)
    if flags & UNDIRECTED and index.rows[v].size < index.rows[u].size:
        found = least_reverse(index.rows[v], index.entries, u, after, arcs)
    elif index.sides > 1 and index.rows2[v].size < index.rows[u].size:
        found = least(index.rows2[v], index.entries2, u, after)
    else:
        found = least(index.rows[u], index.entries, v, after)
    return found


@func
def is_nonnegative(b):
    """Whether a weight is no less than 0, and a number."""
    if hasattr(b, "given"):
        return b.given >= 0
    else:
        return True


@func
def are_points(b, ids):
    """Whether both ends that a change names are ids of points."""
    return 0 <= b.a and b.a < ids.points and 0 <= b.b and b.b < ids.points


@func
def named_edge(b, after, by_ends, arcs, index, ids, flags):
    """Return the edge that a delete or a new weight names, -1 if there is none, and if it is valid.

    Ends name the least edge above ``after``.
    """
    e, valid = i32(-1), False
    if by_ends:
        valid = are_points(b, ids)
        if valid:
            u, v = i32(b.a), i32(b.b)
            if flags & UNDIRECTED and v < u:
                u, v = v, u
            e = between(u, v, after, index, arcs, flags)
    else:
        valid = 0 <= b.a and b.a < ids.edges
        if valid:
            e = i32(b.a)
            if flags & EDGES_DELETED:
                if arcs[e].died != 0:
                    e = i32(-1)
    return e, valid


@func
def resolve_named(b, after, by_ends, tables, index, ids, flags):
    """Find the edge that a delete or a new weight names; give it, its reverse, and if it is valid.

    Its ends go to ``end``, its weight to ``weight``; the edge that stands for both arcs, and its
    place, to ``keep``.
    """
    e, valid = named_edge(b, after, by_ends, tables.arcs, index, ids, flags)
    f = i32(-1)
    b.end = vector(i32(0), i32(0))
    if e >= 0:
        b.end = vector(tables.arcs[e].src, tables.arcs[e].dst)
        low = e
        if flags & UNDIRECTED:
            f = tables.arcs[e].back
            valid = f >= 0
            if f == e:  # a loop
                f = i32(-1)
            elif valid:
                low = min(e, f)
        b.keep = vector(low, index.places[low].at)
        if hasattr(b, "weight"):
            b.weight = tables.arcs[e].weight
    return e, f, valid


@func
def write_reverse(b, t, f, outcome, arcs, named):
    """Write the reverse of a change; that of a ``named`` edge has a weight, which is recorded."""
    t.outcome = outcome if f >= 0 else i32(0)
    t.edge = f
    t.end = vector(b.end[1], b.end[0])
    if hasattr(b, "weight"):
        t.weight = arcs[f].weight if named and f >= 0 else b.weight
        t.given = b.given


@func
def insert_id(at, tables, ids):
    """Return the id of the insert of this number: first ids of deleted edges, then new ones."""
    e = i32(ids.edges + at - ids.reused)
    if at < ids.reused:
        e = tables.arcs[(ids.head + at) & tables.mask].ring
    return e


@func
def resolve_insert(b, at, inserts, tables, ids, flags):
    """Return the ids of an edge to insert and of its reverse, and why it is refused, or 0."""
    u, v, f, reason = i32(0), i32(0), i32(-1), i64(INVALID)
    if are_points(b, ids):
        u, v, reason = i32(b.a), i32(b.b), i64(0)
        if u == v and flags & UNDIRECTED and not flags & LOOPS_COUNTED:
            # reverses of edges that are no loops have consecutive ids
            reason = i64(LOOP)
        if flags & POINTS_DELETED:
            if tables.arcs[u].lost != 0 or tables.arcs[v].lost != 0:
                reason = i64(INVALID)
    b.end = vector(u, v)
    e = insert_id(at, tables, ids)
    if flags & UNDIRECTED:
        back = at + inserts
        if flags & LOOPS_COUNTED:
            back -= b.at[1]
        f = insert_id(back, tables, ids)
        if u == v:
            f = i32(-1)
    return e, f, reason


@func
def drop_change(b, absent, report):
    """Leave a change out: its edge does not exist, or another change of it counts."""
    b.outcome = 0
    b.at = vector(i32(1), i32(1))
    if absent:
        atomic_add(report[0].left_out[3], 1)


@func
def note_left_out(absent, deletes, report):
    """Write ``report.left_out`` of a batch of one change, see `resolve_batch`."""
    report[0].left_out[0], report[0].left_out[3] = absent, absent
    report[0].left_out[1] = absent if deletes > 0 else i64(0)
    report[0].left_out[2] = i64(1 if deletes > 0 else 0)


@kernel
def resolve(b, tables, index, counts, ids, flags, single, one: static):
    """Find the edge that a change means, and its reverse, ``counts.given`` rows further on.

    With ``one``, which has no other item, it also writes the report: each further step takes time.
    """
    i = i64(b.id)
    if i >= counts.given:
        return
    if one:
        b.a = single.a
        b.b = single.b
        if hasattr(b, "given"):
            b.given = single.weight
    outcome, reason = i32(INSERTED), i64(0)
    named = counts.deletes + counts.updates
    if i < named:
        outcome = i32(DELETED if i < counts.deletes else UPDATED)
        by_ends = counts.by_ends & outcome
        e, f, valid = resolve_named(b, i32(-1), by_ends, tables, index, ids, flags)
        if not valid:
            reason = i64(INVALID)
    else:
        e, f, reason = resolve_insert(b, i - named, counts.given - named, tables, ids, flags)
    if flags & NONNEGATIVE and outcome != DELETED and not is_nonnegative(b):
        reason = i64(INVALID)
    if one:
        tables.report[0].reason = reason
        if reason == 0:
            tables.report[0].stamp = single.stamp
    elif reason != 0:
        tables.report[0].reason = reason  # race: every reason is valid
    if reason == 0 and (e < 0 or flags & UNDIRECTED and f < 0 and i < named):
        tables.report[0].repeated = single.stamp  # race: the same value
        if one:
            note_left_out(i64(1 if e < 0 else 0), counts.deletes, tables.report)
        elif e < 0:
            drop_change(b, True, tables.report)
        if e < 0:
            outcome = i32(0)
    b.outcome = outcome
    b.edge = e
    if flags & UNDIRECTED:
        write_reverse(b, tables.batch[i + counts.given], f, outcome, tables.arcs, i < named)


@func
def names_edge(b, counts):
    """Whether a change is a delete or a new weight of an edge that exists."""
    return b.id < counts.deletes + counts.updates and b.edge >= 0


@kernel
def claim(b, places, report, counts, stamp):
    if names_edge(b, counts):
        if atomic_exch(places[b.keep[0]].at, CLAIMED) == CLAIMED:  # an edge that is named twice
            report[0].repeated = stamp  # race: the same value


@func
def bid_of(i, counts):
    """Of the changes that name one edge the least bid wins: the first delete, else the last.

    Bids are less than `CLAIMED`, which is less than every place.
    """
    highest = counts.deletes + counts.updates - 1
    return i32(CLAIMED - 1 - (highest - i if i < counts.deletes else i - counts.deletes))


@kernel
def bid(b, places, counts):
    if names_edge(b, counts):
        atomic_min(places[b.keep[0]].at, bid_of(i64(b.id), counts))


@kernel
def advance(b, tables, index, counts, ids, flags, rounds):
    """Assign to a delete that did not get its edge the next edge between its ends.

    So the k-th mention of a pair gets the k-th edge after k - 1 rounds.
    """
    i = i64(b.id)
    if i < counts.deletes and b.edge >= 0:
        if index.places[b.keep[0]].at != bid_of(i, counts):
            e, f, valid = resolve_named(b, b.edge, DELETED, tables, index, ids, flags)
            b.edge = e
            if not valid:
                tables.report[0].reason = INVALID  # race: the same value
            elif e >= 0:
                tables.report[0].rounds = rounds  # race: the same value
            else:
                drop_change(b, True, tables.report)
            if flags & UNDIRECTED:
                t = tables.batch[i + counts.given]
                write_reverse(b, t, f, b.outcome, tables.arcs, True)


@kernel
def drop_repeated(b, tables, places, counts, flags):
    """Leave out changes whose edge another one got.

    ``at`` gets what a scan sums up: 1 if a change is left out, 1 if it has no reverse.
    """
    if names_edge(b, counts):
        i, best = i64(b.id), i64(places[b.keep[0]].at)
        b.at = vector(i32(0), i32(1 if b.end[0] == b.end[1] else 0))
        if bid_of(i, counts) != best:
            goes = i >= counts.deletes and best < CLAIMED - counts.updates
            # too many rounds, or the weight of a pair, which names an edge that is not deleted
            if counts.by_ends & DELETED and i < counts.deletes or counts.by_ends & UPDATED and goes:
                tables.report[0].reason = INVALID  # race: the same value
            drop_change(b, goes, tables.report)
            if flags & UNDIRECTED:
                tables.batch[i + counts.given].outcome = 0


@kernel
def sum_parts(b, batch, step, count):
    """Scan the ``at`` of each part of PART steps: the last of a step has the sum so far."""
    first = i64(b.id) * step * PART
    out, single = i32(0), i32(0)
    for q in range(min(PART, (count - first) // step)):
        last = batch[first + (q + 1) * step - 1]
        out += last.at[0]
        single += last.at[1]
        last.at = vector(out, single)


@kernel
def add_before(b, batch, step, count):
    """Add the sum before a part, which is known, to all that end a step in it but the last."""
    first = i64(b.id) * step * PART
    if 0 < first and first < count:
        before = batch[first - 1]
        for q in range(min(PART - 1, (count - first) // step)):
            last = batch[first + (q + 1) * step - 1]
            last.at = vector(last.at[0] + before.at[0], last.at[1] + before.at[1])


@kernel
def unclaim(b, places, counts):
    if names_edge(b, counts) and b.keep[1] > CLAIMED:  # changes that lost their edge, too
        places[b.keep[0]].at = b.keep[1]  # race: all that name an edge have kept the same


@program
def resolve_batch(tables, index, counts, ids, flags, single, one: static):
    """Find the edges of a batch; ``report.reason`` is set if it cannot be applied, else 0.

    Changes that name no edge, or the same as another one, get ``outcome`` 0; ``report.repeated`` is
    ``single.stamp`` then, or if a loop is named, which has no reverse.  ``report.left_out`` has the
    number of these changes, of deletes among them, of deletes that have no reverse to delete, and
    of changes that name no edge.
    """
    named, stamp = counts.deletes + counts.updates, single.stamp
    if not one:
        tables.report[0].reason, tables.report[0].left_out[3] = 0, 0
    foreach(tables.batch, resolve, tables, index, counts, ids, flags, single, one)
    if (
        not one
        and tables.report[0].reason == 0
        and (named > 1 or tables.report[0].repeated == stamp)
    ):
        if named > 1:
            foreach(tables.batch, claim, index.places, tables.report, counts, stamp)
        if tables.report[0].repeated == stamp:
            rounds, step = 0, 1
            tables.report[0].rounds = 0
            foreach(tables.batch, bid, index.places, counts)
            while (
                counts.by_ends & DELETED and tables.report[0].rounds == rounds and rounds < ROUNDS
            ):
                rounds += 1
                foreach(tables.batch, advance, tables, index, counts, ids, flags, rounds)
                foreach(tables.batch, bid, index.places, counts)
            foreach(tables.batch, drop_repeated, tables, index.places, counts, flags)
            while step < named:
                foreach(tables.batch, sum_parts, tables.batch, step, named)
                step *= PART
            while step > PART:
                step = step // PART
                foreach(tables.batch, add_before, tables.batch, step // PART, named)
            tables.report[0].left_out[0] = tables.batch[named - 1].at[0]
            tables.report[0].left_out[1], tables.report[0].left_out[2] = 0, 0
            if counts.deletes > 0:
                tables.report[0].left_out[1] = tables.batch[counts.deletes - 1].at[0]
                tables.report[0].left_out[2] = tables.batch[counts.deletes - 1].at[1]
        foreach(tables.batch, unclaim, index.places, counts)
