"""Batches of one change, by a launch that is prepared once.

Such a batch takes less time in its launch than on the host before it.  `PreparedBatch` keeps the
launch, the addresses and the flags from one batch to the next.  A batch with an argument that it
does not recognise, or that the program refuses, takes the fast path of all batches (`fast_path`),
which raises the errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from morph.data.reclaim import referred
from morph.data.store import COUNT
from morph.data.versions import latest
from morph.graph.applied import Applied
from morph.graph.gapped import (
    ALL,
    DELETED,
    INSERTED,
    NOT_APPLIED,
    REPEATED,
    UPDATED,
    Counts,
    EdgeIds,
    weight_of,
)
from morph.launch.foreach import Program
from morph.launch.prepared import Prepared
from morph.updates import fast_path
from morph.updates.batch import none
from morph.updates.in_place import OneChange, Repair, change, change_and_repair, change_one
from morph.updates.kept import Kept
from morph.updates.recognition import Change, recognise_single
from morph.updates.resolve import NONNEGATIVE, REFERRED

if TYPE_CHECKING:
    from morph.data.table import Table
    from morph.graph import Graph


# Numbers in which batches differ: of `Counts`, of `EdgeIds`, flags, part, of `Single`.
GIVEN = 17
IDS, FLAGS = len(Counts._fields), len(Counts._fields) + len(EdgeIds._fields)

T = TypeVar("T", bound="PreparedBatch")


def state_of(g: Graph) -> tuple[int, ...]:
    """The versions of a graph, and its gapped rows: those of in-edges may be added at any time."""
    return *g.versions(), *map(id, g._adjacency._gapped.values())


class PreparedBatch:
    """The state of a graph's batches of a kind, valid until the graph changes by other means.

    Attributes
    ----------
    several : bool
        Whether the batches have several changes.
    program : Prepared
        `updates.in_place.change`.
    table : Table
        Of the changes, see `Applied.rows`.
    rows : int
        Number of its rows that a change takes: 2 if the graph is undirected, else 1.
    """

    several: ClassVar[bool]

    __slots__ = (
        "_back", "_epoch", "_fixed", "_flags", "_limit", "_point_counters", "_ring", "_state",
        "program", "rows", "table",
    )  # fmt: skip

    def __init__(self, g: Graph, program: Prepared, args: tuple[Any, ...], table: Table) -> None:
        tables, sides = args[0], args[1]
        self.program, self.table = program, table
        self._ring = tables.mask + 1 if g.edges.deletes else 0
        self.rows = 1 if g.directed else 2
        self._fixed = tables.mask, sides.limit, sides.limit2, sides.sides
        self._prepare_numbers(program)
        self._back = None if g.directed else g._pairs
        lengths = [g.edges.capacity, *([] if self._back is None else [int(self._back.size)])]
        self._limit, self._flags = min(lengths), fast_path.flags_of(g)
        self._point_counters: memoryview | None = g.points.meta.data if g.device.on_host else None
        self._state, self._epoch = state_of(g), -1

    def current(self, g: Graph) -> bool:
        """Whether the bound launch and the kept state are still valid."""
        if self._epoch != latest.epoch:
            if self._state != state_of(g):
                return False
            self._epoch = latest.epoch
        return (self._back is None or g._pairs is self._back) and self.program.current()

    def _prepare_numbers(self, program: Prepared) -> None:
        """Write the numbers that all batches have, and set what writes the others."""
        program.writer(0, len(self._fixed))(*self._fixed)
        program.write = program.writer(len(self._fixed), GIVEN)

    def is_unchanged(self, g: Graph) -> bool:
        """Whether the graph has not changed by other means since `current`, and the table is free.

        The caller has found that no batch was applied since, other than by this state.
        """
        index, table = g._adjacency, self.table
        reader = index.latest()
        return (
            latest.epoch == self._epoch
            and (self._back is None or g._pairs is self._back)
            and (reader is None or reader.table is not table)
            and (not index.kept or index.is_free(table))
        )

    def bind_repair(
        self, g: Graph, short: bool, program: Program, *args: Any
    ) -> Prepared | None:  # fmt: skip
        """Bind a program that repairs values after a batch, see `Prepared.of`.

        It is launched behind the program of the batch.  After a batch of one change it is in the
        same launch if it is ``short``: that launch cannot be interrupted.
        """
        if self.several or not short:
            return Prepared.of(program, *args)
        given = OneChange(*arguments(g, self.table))
        both = Prepared.of(change_and_repair, given, Repair(program, *args))
        if both is not None:
            self._prepare_numbers(both)
        return both

    def points(self, g: Graph) -> int:
        """The number of points."""
        if self._point_counters is not None:
            return self._point_counters[COUNT]
        count: int = g.points._host_meta.item(COUNT)
        return count

    def _latest(self) -> tuple[tuple[int, int, int], fast_path.Reserved]:
        """The latest batch as the fast path describes it: its counts, and the arguments."""
        raise NotImplementedError

    def put_back(self, g: Graph) -> None:
        """Undo the latest batch, if it has changed anything."""
        made, run = self._latest()
        with g.device.active():
            fast_path.put_back(g, self.table, run.before, made, self._back)


class SingleChanges(PreparedBatch):
    """The state of a graph's batches of one change; ``weight`` is the column of weights or None."""

    several = False

    __slots__ = "_counters", "_last", "_none", "_table_counters", "weight"

    def __init__(self, g: Graph, program: Prepared, args: tuple[Any, ...], table: Table) -> None:
        super().__init__(g, program, args, table)
        self.weight, self._none = weight_of(g.edges), none(g.device)
        on_host = g.device.on_host
        self._counters = g.edges.meta.data if on_host else None
        self._table_counters = table.meta.data if on_host else None
        self._last: tuple[Any, ...] = ()

    def recognise(self, inserts: Any, deletes: Any, updates: Any) -> Change | None:
        """See `recognise_single`; arrays of one element may lie on the graph's device."""
        change = recognise_single(inserts, deletes, updates, self.weight)
        if change is None and self._counters is None:
            device = self.table.device
            i, d, u = (_fetched(x, device) for x in (inserts, deletes, updates))
            if i is not inserts or d is not deletes or u is not updates:
                change = recognise_single(i, d, u, self.weight)
        return change

    def apply(
        self,
        g: Graph,
        given: Change,
        nonnegative: bool,
        then: Prepared | None = None,
    ) -> tuple[Applied, Any] | None:
        """Apply a change; None, with nothing changed, if the fast path has to take it.

        The caller has called `Graph.refuse_fixed`, and written the numbers of the program ``then``,
        of `bind_repair`.  Returns what was applied, and the result of ``then``.  `put_back` undoes
        it, until the next batch.
        """
        edges, index = g.edges, g._adjacency
        outcome, a, b, by_ends, weight = given
        counters: list[int] = (self._counters or edges._host_meta).tolist()
        first, reused, arcs, ordered = counters[COUNT], 0, 0, 0
        flags = self._flags | (NONNEGATIVE if nonnegative else 0)
        if outcome == INSERTED:
            arcs = self.rows
            if first + arcs > edges.capacity:
                reused = fast_path.reusable_within(counters, edges.capacity, arcs)
            if first + arcs - reused > self._limit or a == b and arcs == 2:
                return None
            if reused or first < g._made:
                ordered = fast_path.ordered_below(g, first, reused)
                if ordered and g.recycled is None:
                    return None
        ids = fast_path.edge_ids(self.points(g), counters, reused, ordered)
        if outcome == DELETED and ids[4] - ids[3] + self.rows > self._ring:  # tail - head
            return None
        if outcome != DELETED or referred(edges):
            flags |= REFERRED
        index.begin_batch(self.table)
        if self._table_counters is not None:
            self._table_counters[COUNT] = self.rows
        numbers = (
            1, outcome == DELETED, outcome == UPDATED, arcs, outcome if by_ends else 0,
            *ids, flags, ALL, index.stamp, a, b, weight,
        )  # fmt: skip
        self._last = counters, outcome, numbers
        known = g, first, reused, arcs
        try:
            if then is not None and then.launch.function is change_and_repair:
                result, made = then.run(numbers, None, self._describe, known)
            else:
                result, made = self.program.run(numbers, then, self._describe, known)
            if result and (then is None or result == NOT_APPLIED):
                with g.device.active():
                    return self._finish(g, result)
            index.refresh()
            done, kept, after = made
            if after is not None:
                fast_path.pack_counters(edges._host_meta.data, 0, *after)
            fast_path.announce(g, done, kept)
            return done, result
        except BaseException:
            self.put_back(g)
            raise

    def _describe(
        self, g: Graph, first: int, reused: int, arcs: int
    ) -> tuple[Applied, Kept, list[int] | None]:
        """Return what is published if the change is applied: a GPU may still execute it.

        The last are the counters of the edges' table; None if the program has written them.
        """
        before, outcome, numbers = self._last
        deleted, after = outcome == DELETED, None
        made = deleted, outcome == UPDATED, arcs > 0
        kept = Kept(g, self.table, made, False, first, reused, arcs)
        if self._counters is None and outcome != UPDATED:
            is_referred = bool(numbers[FLAGS] & REFERRED)
            after = fast_path.counted(
                before, arcs - reused, reused, deleted * self.rows, is_referred
            )
        return fast_path.described(g, kept, self._none), kept, after

    def _latest(self) -> tuple[tuple[int, int, int], fast_path.Reserved]:
        before, outcome, numbers = self._last
        made = outcome == DELETED, outcome == UPDATED, outcome == INSERTED
        counts, ids = Counts(*map(int, numbers[:IDS])), EdgeIds(*numbers[IDS:FLAGS])
        run = counts, ids, self._back, numbers[FLAGS], None, before
        return made, fast_path.Reserved(self.table, *run)

    def _finish(self, g: Graph, result: int) -> tuple[Applied, Any] | None:
        """Finish a batch whose adjacency row has to grow, or whose edge does not exist."""
        index = g._adjacency
        made, run = self._latest()
        code, moves = index.result() if result == NOT_APPLIED else result, index.moves
        code = index.finish(code, self.table, run.counts, run.ids, self._back, run.flags, one=True)
        if code and code != -REPEATED:
            return None
        done = fast_path.publish(g, made, run, code == -REPEATED, index.moves != moves)
        return done, result


def arguments(g: Graph, table: Table) -> tuple[Any, ...]:
    """Arguments of `change_one`, and the first ones of `change`, to bind the program."""
    tables, sides, single = g._adjacency.arguments(table, None if g.directed else g._pairs)
    return tables, sides, Counts(1, 0, 0, 0, 0), EdgeIds(0, 0, 0, 0, 0, 0), 0, ALL, single


def _fetched(x: Any, device: Any) -> Any:
    """Return arguments with arrays of one element on the host; others are unchanged."""
    if type(x) is tuple:
        found = tuple(_fetched(y, device) for y in x)
        return found if any(y is not z for y, z in zip(found, x, strict=True)) else x
    is_single = type(x) is device.xp.ndarray and x.size == 1
    return device.to_host(x) if is_single else x


def prepare_changes(kind: type[T], g: Graph, rows: int, second: bool = False) -> T | None:
    """Bind the program of a batch of so many rows; None if a graph's edges need the fast path.

    ``second``: see `Adjacency.table_for`.
    """
    index, edges = g._adjacency, g.edges
    weight = weight_of(edges)
    if not (g.gapped and index.has_out) or ("weight" in edges.columns and weight is None):
        return None
    if len(edges.columns) != 2 + (weight is not None) or (not g.directed and g._pairs is None):
        return None
    table = index.table_for(rows, False, second)
    args = arguments(g, table)
    program = Prepared.of(change, *args, False) if kind.several else Prepared.of(change_one, *args)
    return None if program is None else kind(g, program, args, table)


def single_changes(g: Graph, first: SingleChanges | None = None) -> SingleChanges | None:
    """Make and keep the state of a graph's batches of one change; None if it cannot be.

    With ``first``, a second one beside it.
    """
    made = prepare_changes(SingleChanges, g, 1 if g.directed else 2, second=first is not None)
    if made is None or not made.current(g):
        return None
    g._adjacency.singles = (made, None) if first is None else (first, made)
    return made
