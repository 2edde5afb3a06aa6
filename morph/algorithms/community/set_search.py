"""The search for the subgraphs of a batch of tasks, in sets of bit words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from morph.algorithms.community.candidates import fill_rows
from morph.algorithms.community.greedy import begin_searches
from morph.algorithms.community.neighbourhood import Ints
from morph.algorithms.community.nodes import STANDARD_WORDS
from morph.algorithms.community.reduction import NO_LIMIT
from morph.algorithms.community.roots import CHOSEN, REMOVED, reduce_roots
from morph.algorithms.community.tables import WORD, SearchTables
from morph.algorithms.community.tasks import Tasks, begins


class SetSearch:
    """The search for the subgraphs of a batch of tasks, on a device."""

    def __init__(self, tables: SearchTables, tasks: Tasks) -> None:
        self.tables, self.tasks = tables, tasks
        sizes = tasks.sizes
        self.words = -(-int(sizes.max()) // WORD)  # that the largest set needs
        self.sets = sets = tables.set_tables(int(tasks.words.max()))
        words = -(-sizes // WORD)
        if self.words <= STANDARD_WORDS:
            words[:] = self.words
        lengths = sizes * words
        sets.queue.clear()
        sets.deferred.clear()
        for table in (sets.rows, sets.queries):
            table.truncate(0)
        if (more := int(lengths.sum()) - len(sets.adjacency)) > 0:
            sets.adjacency.extend(more)
        at = np.arange(len(tasks), dtype=np.int32).repeat(sizes)
        sets.rows.extend(query=at, vertex=tasks.vertices.astype(np.int32))
        lower, higher = tasks.lower_and_higher()
        limits: dict[str, Any] = {
            "min_size": tasks.min_size, "degree": tasks.degree, "lower": lower, "higher": higher
        }  # fmt: skip
        limits = {name: x.astype(np.int32) for name, x in limits.items()}
        max_size = np.minimum(tasks.max_size, sizes).astype(np.int32)
        self.max_depth = int(max_size.max()) + 1
        sets.queries.extend(
            first_word=begins(lengths), first_row=begins(sizes), size=sizes.astype(np.int32),
            max_size=max_size, open=np.ones(len(tasks), np.int32),
            found_degree=np.full(len(tasks), -1, np.int32),
            most_nodes=np.full(len(tasks), NO_LIMIT), words=words.astype(np.int32), **limits,
        )  # fmt: skip
        self._fill()

    def _fill(self) -> None:
        """Fill the rows of bits, and the table of slots; if hashed, at most a quarter is used."""
        tables, sets = self.tables, self.sets
        while True:
            table = tables.candidate_table(len(self.tasks))
            if table.shift and len(tables.slots) < (
                least := 1 << (4 * len(sets.rows)).bit_length()
            ):
                tables.grow(least)
                continue
            fill_rows(sets.rows, tables.entries, sets.queries, sets.adjacency.bits, table)
            if not table.shift or not tables.counters.full:
                break
            tables.grow(8 * len(tables.slots))

    def reduced(self) -> tuple[Any, Tasks]:
        """Remove candidates by the rules of `roots`.

        Returns
        -------
        possible : array of bool, shape (count,)
            Whether there may be a subgraph.
        tasks : Tasks
            The searches, with the candidates that are left: first those that all subgraphs have,
            then the others, by the number of the first ones that lack neighbours and are adjacent.
        """
        sets, tasks = self.sets, self.tasks
        reduce_roots(sets.queries, sets.rows, sets.adjacency.bits, sets.changed)
        to_host, count = sets.device.to_host, len(tasks.vertices)
        state, gain = (np.asarray(to_host(x[:count])) for x in (sets.rows.state, sets.rows.gain))
        of = np.repeat(np.arange(len(tasks)), tasks.sizes)
        rank = np.where(state == CHOSEN, 1 << 31, gain.astype(np.int64))
        rank[tasks.first] = 1 << 32
        order = np.lexsort((-rank, of))
        order = order[state[order] != REMOVED]
        sizes = np.bincount(of[order], minlength=len(tasks))
        possible = (self.value("open") > 0) & (
            sizes >= np.maximum(tasks.min_size, tasks.degree + 1)
        )
        limits = tasks.min_size, tasks.max_size, tasks.degree
        return possible, Tasks(*limits, sizes, tasks.vertices[order])

    def run(
        self, end: float, report: Callable[[int], object], capacity: int = 0,
        most_nodes: float = np.inf, max_solutions: int = NO_LIMIT,
    ) -> int:  # fmt: skip
        """Search until the time is up or enough nodes are visited; return the number of solutions.

        With a capacity of 0 one solution is searched for each task, and 0 returned; otherwise
        solutions are counted up to ``max_solutions`` or a few more, and up to ``capacity`` stored.
        """
        sets, counters = self.sets, self.sets.counters
        find_all = int(capacity > 0)
        counters.open = counters.solutions = 0
        begin_searches(
            sets.queries, sets.rows, sets.adjacency.bits, counters, sets.queue, self.words,
            find_all, sets.width,
        )  # fmt: skip
        if (more := max(capacity * self.words, 1) - len(sets.solutions)) > 0:
            sets.solutions.extend(more)
        sets.visit(self.words, self.max_depth, end, report, capacity, most_nodes, max_solutions)
        return int(counters.solutions) if find_all else 0

    def value(self, name: str) -> Any:
        """Return a column of the queries on the host."""
        column = getattr(self.sets.queries, name)
        return np.asarray(self.sets.device.to_host(column[: len(self.tasks)]))

    def members(self, at: Ints) -> list[Ints]:
        """Return the vertices of the best subgraphs of some tasks, ascending."""
        return self._vertices(at, self.value("solution")[at])

    def all_members(self, count: int) -> list[Ints]:
        """Return the vertices of all subgraphs of the only task."""
        words = self.words
        sets = np.asarray(self.sets.device.to_host(self.sets.solutions.bits[: count * words]))
        return self._vertices(np.zeros(count, np.int64), sets.reshape(count, words))

    def _vertices(self, tasks: Ints, sets: Any) -> list[Ints]:
        if not len(tasks):
            return []
        data = np.ascontiguousarray(sets).view(np.uint8)
        at, number = np.nonzero(np.unpackbits(data, axis=1, bitorder="little"))
        found = self.tasks.vertices[self.tasks.first[tasks][at] + number]
        found = found[np.lexsort((found, at))]
        return np.split(found, np.cumsum(np.bincount(at, minlength=len(tasks)))[:-1])
