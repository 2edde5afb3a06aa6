"""Batches of several changes on a GPU, by a launch that is prepared once.

The host does not wait for the launch before it enqueues the next one, as the repair of a dynamic
algorithm; so its own work for both takes place while the GPU executes the first.  Batches that
need more memory, or that the program refuses, take the fast path of all batches (`fast_path`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from morph.data.reclaim import referred
from morph.data.store import COUNT
from morph.graph.applied import Applied
from morph.graph.gapped import ALL, NOT_APPLIED, REPEATED, Counts, EdgeIds
from morph.launch.prepared import Prepared
from morph.updates import fast_path
from morph.updates.recognition import FastBatch
from morph.updates.resolve import LOOPS_COUNTED, NONNEGATIVE, REFERRED
from morph.updates.single import PreparedBatch, prepare_changes

if TYPE_CHECKING:
    from morph.data.table import Table
    from morph.graph import Graph


class ManyChanges(PreparedBatch):
    """The state of a graph's batches of several changes.

    ``single_block``: a block has a thread for each row of the table, so one block executes the
    launch.
    """

    several = True

    __slots__ = "_last", "single_block"

    def __init__(self, g: Graph, program: Prepared, args: tuple[Any, ...], table: Table) -> None:
        super().__init__(g, program, args, table)
        self.single_block = program.single_block = table.capacity <= g.device.serial_items
        self._last: tuple[tuple[int, int, int], fast_path.Reserved]

    def apply_many(
        self, g: Graph, batch: FastBatch, nonnegative: bool, then: Prepared | None = None
    ) -> tuple[Applied, Any] | None:  # fmt: skip
        """Apply a batch, and launch a program behind, as `SingleChanges.apply`."""
        run = self._reserve(g, batch, nonnegative)
        if run is None:
            return None
        index = g._adjacency
        self._last = batch.counts, run
        numbers = (
            *run.counts, *run.ids, run.flags, ALL, index.stamp,
            0, 0, 0,  # `Single`: unused
        )  # fmt: skip
        try:
            result, _ = self.program.run(numbers, then)
            code = int(result) if then is None else 0
            with g.device.active():
                # the repair's result hides that of the batch: read the report if the batch was
                # refused, or may have skipped deletes and weights (inserts are never repeated)
                if then is not None and (
                    result == NOT_APPLIED or batch.counts[0] + batch.counts[1]
                ):
                    code = index.result()
                moves = index.moves
                code = index.finish(code, self.table, run.counts, run.ids, run.back, run.flags)
                if code and code != -REPEATED:
                    return None
                moved = index.moves != moves
                return fast_path.publish(g, batch.counts, run, code == -REPEATED, moved), result
        except BaseException:
            self.put_back(g)
            raise

    def _reserve(
        self, g: Graph, batch: FastBatch, nonnegative: bool
    ) -> fast_path.Reserved | None:  # fmt: skip
        """Write a batch to its table; None if it needs memory, or a column that is missing."""
        edges, (deleted, updated, inserted), new = g.edges, batch.counts, batch.parts[2]
        given, loops = sum(batch.counts), fast_path.staged_loops(g, batch)
        fresh = inserted * self.rows - (0 if loops is None else int(loops[-1]))
        before: list[int] = edges._host_meta.tolist()
        first, reused = before[COUNT], fast_path.reusable_within(before, edges.capacity, fresh)
        ordered = 0 if new is None else fast_path.ordered_below(g, first, reused)
        ids = EdgeIds(*fast_path.edge_ids(self.points(g), before, reused, ordered))
        if (
            first + fresh - reused > self._limit
            or given * self.rows > self.table.capacity
            or (ordered and g.recycled is None)
            or (deleted and ids.tail - ids.head + deleted * self.rows > self._ring)
        ):
            return None
        g._adjacency.begin_batch(self.table)
        fast_path.fill_in(self.table, batch, loops)
        flags = self._flags | (NONNEGATIVE * nonnegative) | (LOOPS_COUNTED * (loops is not None))
        flags |= REFERRED * (not deleted or referred(edges))
        counts = Counts(given, deleted, updated, fresh, batch.by)
        return fast_path.Reserved(self.table, counts, ids, self._back, flags, None, before)

    def _latest(self) -> tuple[tuple[int, int, int], fast_path.Reserved]:
        return self._last


def many_changes(g: Graph, rows: int) -> ManyChanges | None:
    """Make and keep the state of a graph's batches of so many rows; None if it cannot be."""
    made = prepare_changes(ManyChanges, g, rows)
    if made is None or not made.current(g):
        return None
    g._adjacency.many[not made.single_block] = made
    return made
