"""Searches below vertices, many at once: what the host does before and after the launches."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from morph.algorithms.community.neighbourhood import Ints
from morph.algorithms.community.search import (
    STANDARD_WORDS,
    Pool,
    begin_search,
    fill_rows,
    reduce_all,
    work,
)
from morph.data.collection import Collection
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import vec
from morph.launch.foreach import foreach
from morph.prelude import i32, i64, u64

INITIAL_NODE_LIMIT = 1 << 14  # nodes until the first look at the clock
PERIOD = 0.1  # seconds, about, between looks at the clock
MAX_BITS = 1 << 30  # of adjacency, of the tasks that are searched at once
WORD = 64


@dataclass(kw_only=True)
class Task:
    """A search for a connected subgraph that has a vertex, some size and a minimum degree.

    Attributes
    ----------
    min_size, max_size : int
    degree : int
        The minimum degree to reach.
    candidates : array of int
        The vertex, then others, ascending, that the subgraph may have.
    best, members
        The minimum degree of the best subgraph so far, -1 if there is none, and its vertices.
    """

    min_size: int
    max_size: int
    degree: int = 0
    candidates: Ints = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    best: int = -1
    members: Ints = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)

    @property
    def words(self) -> int:
        """How many words hold a set of candidates: few numbers, for few kernels."""
        words = STANDARD_WORDS
        while words * WORD < len(self.candidates):
            words *= 16
        return words


T = TypeVar("T", bound=Task)


def batches(tasks: Sequence[T]) -> Iterator[list[T]]:
    """Divide tasks into those of equal width, and of not too many bits of adjacency."""
    for words in sorted({task.words for task in tasks}):
        batch: list[T] = []
        bits = 0
        for task in (task for task in tasks if task.words == words):
            batch.append(task)
            bits += len(task.candidates) ** 2
            if bits > MAX_BITS:
                yield batch
                batch, bits = [], 0
        if batch:
            yield batch


def _begins(counts: Ints) -> Ints:
    """Give where consecutive ranges of some lengths begin."""
    return np.cumsum(counts) - counts


class Search:
    """The search for subgraphs of the degrees of some tasks, on a device."""

    def __init__(self, graph: Graph, batch: Sequence[Task]) -> None:
        device, self.graph, self.batch = graph.device, graph, batch
        sizes = np.array([len(x.candidates) for x in batch])
        self.words = -(-int(sizes.max()) // WORD)  # that the largest set needs
        lengths = sizes * -(-sizes // WORD)
        slot_bits = np.ceil(np.log2(sizes)).astype(np.int32) + 1  # half of the slots are empty
        self.adjacency = Table("adjacency", device, bits=u64)
        self.adjacency.extend(int(lengths.sum()))
        self.slots = Table("slots", device, row_number=i32)
        self.slots.extend(int((1 << slot_bits.astype(np.int64)).sum()))
        self.rows = Table("rows", device, query=i32, vertex=i32, inside=i32, among=i32)
        vertices = np.concatenate([x.candidates for x in batch]).astype(np.int32)
        self.rows.extend(query=np.arange(len(batch), dtype=np.int32).repeat(sizes), vertex=vertices)
        limits: dict[str, Any] = {
            name: np.array([getattr(x, name) for x in batch], np.int32)
            for name in ("min_size", "max_size", "degree")
        }
        limits["max_size"] = np.minimum(limits["max_size"], sizes).astype(np.int32)
        self.max_depth = int(limits["max_size"].max()) + 1
        self.bits = bits = vec(u64, batch[0].words)
        self.queries = Table(
            "queries", device, first_word=i64, first_row=i64, first_slot=i64, slot_shift=i32,
            size=i32, min_size=i32, max_size=i32, degree=i32, solved=i32, greedy=i32, solution=bits,
            remaining=bits, open=i32, nodes=i64,
        )  # fmt: skip
        self.queries.extend(
            first_word=_begins(lengths), first_row=_begins(sizes), size=sizes.astype(np.int32),
            first_slot=_begins(1 << slot_bits.astype(np.int64)), slot_shift=32 - slot_bits,
            open=np.ones(len(batch), np.int32), greedy=np.full(len(batch), -1, np.int32), **limits,
        )  # fmt: skip

    def reduce(self) -> None:
        """Reduce the candidates of all queries; keep the greedy search's subgraphs."""
        reduce_all(self.rows, self.graph, self.queries, self.slots, self.adjacency.bits, self.words)
        greedy, solutions, remaining = map(self.value, ("greedy", "solution", "remaining"))
        for i, x in enumerate(self.batch):
            ids = x.candidates
            if greedy[i] > x.best:
                chosen = members_of(solutions[i])
                x.best, x.members = int(greedy[i]), np.sort(ids[chosen])
            x.candidates = ids[members_of(remaining[i])]

    def run(
        self, end: float, report: Callable[[int], object], capacity: int = 0
    ) -> tuple[Any, int]:
        """Search from the roots until the time is up; give all solutions, and how many there are.

        With a capacity of 0, until one is found for each query, which `value` then gives.
        """
        bits = self.bits
        now, then = (
            Collection(self.queries, generation=i32, chosen=bits, candidates=bits) for _ in range(2)
        )
        fill_rows(self.rows, self.graph, self.queries, self.slots, self.adjacency.bits)
        foreach(self.queries, begin_search, now)
        solutions = Table("solutions", self.queries.device, bits=u64)
        solutions.extend(max(capacity * self.words, 1))
        counters, least = Scalars(self.queries, nodes=0, solutions=0), self.node_limit
        limit = least
        while not now.empty and clock.monotonic() < end:
            begin, counters.nodes = clock.monotonic(), 0
            pool = Pool(self.queries, self.adjacency.bits, self.max_depth, self.words, counters,
                        limit, solutions.bits, capacity)  # fmt: skip
            foreach(now, work, pool, now, then, int(capacity > 0), until_empty=True)
            now, then = then, now
            report(int(counters.nodes))
            limit = limit * 2 if clock.monotonic() - begin < PERIOD else max(limit // 2, least)
        return solutions.bits[:], int(counters.solutions)

    @property
    def node_limit(self) -> int:
        """Nodes of the first launch: fewer of larger sets, which take longer."""
        return INITIAL_NODE_LIMIT * STANDARD_WORDS**2 // self.words**2 + 1

    def value(self, name: str) -> Any:
        """Give a column of the queries on the host."""
        return np.asarray(self.queries.device.to_host(getattr(self.queries, name)[:]))


def members_of(words: Any) -> Ints:
    """Give the numbers of the bits of a set."""
    data = np.ascontiguousarray(words).view(np.uint8)
    return np.flatnonzero(np.unpackbits(data, bitorder="little"))
