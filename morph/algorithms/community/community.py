"""Size-bounded community search: a connected subgraph around a vertex, of large minimum degree.

The problem and its reductions are those of Yao and Chang (PVLDB 2021).  For each query the host
finds the vertices near it that an optimal subgraph may have (`neighbourhood`), and a subgraph by a
greedy search.  What is left is decided by branch and bound on the graph's device (`search`), all
queries at once.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.community.neighbourhood import (
    Ints,
    Neighbourhood,
    SimpleGraph,
    Subgraph,
    greedy,
)
from morph.algorithms.community.search import Pool, work
from morph.algorithms.graph.arguments import live_edges, of_graph_on_one_device, source_rows
from morph.data.collection import Collection
from morph.data.conversion import as_integer, number, truth
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import vec
from morph.language.messages import shown
from morph.launch.foreach import foreach
from morph.prelude import i32, i64, u64
from morph.runtime.device import Device

FIRST = 1 << 14  # nodes until the first look at the clock
MANY = 1 << 12  # solutions for which there is room at first
PERIOD = 0.1  # seconds, about, between looks at the clock
BITS = 1 << 30  # of adjacency, of the queries that are searched at once
WORD = 64

EMPTY = Subgraph(np.zeros(0, np.int64), np.zeros((0, 0), bool))


class Community(NamedTuple):
    """A result of `community`.

    Attributes
    ----------
    min_degree : int
        Of the subgraph that the vertices induce.
    vertices : array of int64, shape (count,)
        Ascending, on the host.
    proved : bool
        Whether no subgraph has a larger minimum degree.  False if the time was up, or if more than
        32,768 vertices may be in a better one.
    bound : int
        No subgraph has a larger minimum degree than this.
    nodes : int
        Visited by the search.
    all : list of array of int64, optional
        The vertices of all subgraphs of this minimum degree, in lexicographic order; None if they
        were not asked for, the time was up, or more than 32,768 vertices may be in one.
    """

    min_degree: int
    vertices: Any
    proved: bool
    bound: int
    nodes: int
    all: list[Any] | None = None


@dataclass
class Query:
    """A query, and what is known of it.

    Attributes
    ----------
    best, members
        The minimum degree of the best subgraph so far, and its vertices.
    bound : int
        No subgraph has a larger minimum degree.
    degree : int
        The minimum degree of which ``subgraph`` has all subgraphs.
    """

    around: Neighbourhood
    least: int
    most: int
    best: int
    members: Ints
    bound: int
    nodes: int = 0
    degree: int = 0
    subgraph: Subgraph = field(default=EMPTY, repr=False)

    @property
    def words(self) -> int:
        """How many words hold a set of vertices of the subgraph: few numbers, for few kernels."""
        words = 4
        while words * WORD < len(self.subgraph.ids):
            words *= 16
        return words

    def prepare(self) -> bool:
        """Find a subgraph to search for a degree between best and bound.

        Returns
        -------
        bool
            False if best and bound meet, or all subgraphs are too large to be searched.
        """
        least = 0  # degrees below are those of graphs that are too large
        while self.best < self.bound >= least:
            self.degree = max((self.best + self.bound + 1) // 2, least)
            whole = self.around.component(self.degree)
            if whole is not None:  # it has all subgraphs of this minimum degree
                if len(whole) < self.least:
                    self.bound = self.degree - 1
                else:
                    self.best, self.members = self.around.min_degree(whole), whole
                continue
            try:
                subgraph = self.around.subgraph(self.degree)
            except MemoryError:
                least = self.degree + 1
                continue
            if subgraph is None or len(subgraph.ids) < self.least:
                self.bound = self.degree - 1
                continue
            self.subgraph = subgraph
            found, chosen = greedy(self.subgraph.near, self.least, self.most)
            self.note(found, chosen)
            if self.best < self.degree:
                return True
        self.subgraph = EMPTY  # frees its matrix
        return False

    def note(self, degree: int, chosen: Ints) -> None:
        """Keep a subgraph if it is better."""
        if degree > self.best:
            self.best, self.members = degree, np.sort(self.subgraph.ids[chosen])

    def note_members(self, chosen: Ints) -> None:
        """Keep a subgraph of some vertices if it is better."""
        degrees = self.subgraph.near[np.ix_(chosen, chosen)].sum(axis=1)
        self.note(int(degrees.min()), chosen)

    def result(self) -> Community:
        """Give the result."""
        proved = self.best == self.bound
        return Community(self.best, self.members, proved, self.bound, self.nodes)


@of_graph_on_one_device
def community(
    graph: Graph, q: Any, size: tuple[int, int], *, time: float | None = None, all: bool = False,
    progress: Callable[[int, int, int], object] | None = None,
) -> Any:  # fmt: skip
    """Find a connected subgraph around a vertex, of bounded size and the largest minimum degree.

    Parameters
    ----------
    graph : Graph, or what `Graph.of` takes
        On any device.  Directions, parallel edges and loops are ignored.
    q : int or array of int
        The vertex that the subgraph has, or several: a query for each.
    size : (int, int)
        The least and the largest number of vertices, both allowed.
    time : float, optional
        Seconds after which the search ends; then results may be unproved.
    all : bool
        Whether to find all subgraphs of the largest minimum degree; there may be very many.
    progress : callable, optional
        Called with the number of decided queries, of all, and of the visited nodes.

    Returns
    -------
    Community
        None if the component of the vertex is too small.  Of an array of queries a list of these.

    Raises
    ------
    TypeError
        If a query, or a size, is not an integer, or ``time`` not a number.
    ValueError
        If a query is not a vertex, the sizes are not 1 <= least <= most, or ``time`` is negative.
    """
    least, most = _sizes(size)
    every = truth(all, "all")
    if time is not None:
        number(time, "time")
    if time is not None and not time >= 0:
        raise ValueError(f"time is a number of seconds from 0 on, not {time}")
    end = np.inf if time is None else clock.monotonic() + time
    queries = source_rows(graph, q, "q")
    given = SimpleGraph(graph, *_ends(graph))
    found = [_query_of(given, query, least, most) for query in queries.tolist()]
    left = [x for x in found if x is not None and x.prepare()]
    while left and clock.monotonic() < end:
        for batch in _batches(left):
            if progress is not None:
                progress(len(found) - len(left), len(found), sum(x.nodes for x in left))
            decide(graph.device, batch, end)
        left = [x for x in left if x.prepare()]
    results = [None if x is None else x.result() for x in found]
    if every:
        for i, x in enumerate(found):
            if x is not None and x.best == x.bound:
                sets = find_all(graph.device, x, end)
                results[i] = x.result()._replace(all=sets)
    return results if np.ndim(q) else results[0]


def _sizes(size: Any) -> tuple[int, int]:
    if not isinstance(size, Sequence | np.ndarray) or len(size) != 2:
        raise TypeError(f"size is a pair of integers, the least and the largest, not {shown(size)}")
    least, most = (as_integer(x, "size") for x in size)
    if not 1 <= least <= most:
        raise ValueError(f"size is a pair 1 <= least <= largest, not ({least}, {most})")
    return least, most


def _ends(graph: Graph) -> list[Ints]:
    live = live_edges(graph)
    columns = (graph.edges.src, graph.edges.dst)
    ends = (graph.device.to_host(x.array[: len(graph.edges)]) for x in columns)
    at = live if isinstance(live, slice) else np.asarray(graph.device.to_host(live))
    return [np.asarray(e)[at].astype(np.int64) for e in ends]


def _query_of(graph: SimpleGraph, query: int, least: int, most: int) -> Query | None:
    count = int(graph.component_size[query])
    if count < least:
        return None
    most = min(most, count)
    bound = min(int(graph.core[query]), most - 1)
    around = Neighbourhood(graph, query, most)
    return Query(around, least, most, *around.nearest(least), bound)


def _batches(queries: list[Query]) -> Iterator[list[Query]]:
    """Divide queries into those of equal width, and of not too many rows."""
    for words in sorted({query.words for query in queries}):
        batch: list[Query] = []
        bits = 0
        for query in (query for query in queries if query.words == words):
            batch.append(query)
            bits += len(query.subgraph.ids) ** 2
            if bits > BITS:
                yield batch
                batch, bits = [], 0
        if batch:
            yield batch


def _words(sets: Any, words: int) -> Any:
    """Give rows of booleans as bit words."""
    bits = np.zeros((len(sets), WORD * words), bool)
    bits[:, : sets.shape[1]] = sets
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)


class Search:
    """The search for subgraphs of the degrees of some queries, on a device."""

    def __init__(self, device: Device, batch: list[Query]) -> None:
        self.batch, self.words = batch, batch[0].words
        graphs = [x.subgraph for x in batch]
        sizes = np.array([len(x.ids) for x in graphs])
        near = [_words(x.near, -(-len(x.ids) // WORD)).ravel() for x in graphs]
        lengths = np.array([len(x) for x in near])
        self.near = Table("near", device, bits=u64)
        self.near.extend(bits=np.concatenate(near))
        self.bits = bits = vec(u64, self.words)
        self.queries = Table(
            "queries", device, first=i64, size=i32, least=i32, most=i32, degree=i32, found=i32,
            solution=bits, open=i32, nodes=i64,
        )  # fmt: skip
        names = ("least", "most", "degree")
        limits: dict[str, Any] = {
            name: np.array([getattr(x, name) for x in batch], np.int32) for name in names
        }
        limits["most"] = np.minimum(limits["most"], sizes).astype(np.int32)
        self.deepest = int(limits["most"].max()) + 1
        self.queries.extend(
            first=np.cumsum(lengths) - lengths, size=sizes.astype(np.int32), **limits,
            open=np.ones(len(batch), np.int32),
        )  # fmt: skip
        chosen, rest = (np.zeros((len(batch), WORD * self.words), bool) for _ in range(2))
        chosen[:, 0] = True
        rest[:, 1:] = np.arange(1, WORD * self.words) < sizes[:, None]
        self.roots = {"chosen": _words(chosen, self.words), "rest": _words(rest, self.words)}

    def run(self, end: float, capacity: int = 0) -> tuple[Any, int]:
        """Search from the roots until the time is up; give all solutions, and how many there are.

        With a capacity of 0, until one is found for each query, which `value` then gives.
        """
        bits, ids = self.bits, np.arange(len(self.batch))
        now, then = (
            Collection(self.queries, generation=i32, chosen=bits, rest=bits) for _ in range(2)
        )
        now.extend(ids, **self.roots)
        solutions = Table("solutions", self.queries.device, bits=u64)
        solutions.extend(max(capacity * self.words, 1))
        spent, limit = Scalars(self.queries, nodes=0, found=0), FIRST
        while not now.empty and clock.monotonic() < end:
            begin, spent.nodes = clock.monotonic(), 0
            pool = Pool(self.queries, self.near.bits, self.deepest, self.words, spent, limit,
                        solutions.bits, capacity)  # fmt: skip
            foreach(now, work, pool, now, then, int(capacity > 0), until_empty=True)
            now, then = then, now
            limit = limit * 2 if clock.monotonic() - begin < PERIOD else max(limit // 2, FIRST)
        return solutions.bits[:], int(spent.found)

    def value(self, name: str) -> Any:
        """Give a column of the queries on the host."""
        return np.asarray(self.queries.device.to_host(getattr(self.queries, name)[:]))


def decide(device: Device, batch: list[Query], end: float) -> None:
    """Decide for all queries whether there is a subgraph of their degree, until the time is up."""
    search = Search(device, batch)
    search.run(end)
    found, solutions, open_, nodes = map(search.value, ("found", "solution", "open", "nodes"))
    for i, x in enumerate(batch):
        x.nodes += int(nodes[i])
        if found[i]:
            x.note_members(np.flatnonzero(_members(solutions[i])))
        elif not open_[i]:
            x.bound = x.degree - 1


def find_all(device: Device, query: Query, end: float) -> list[Ints] | None:
    """Find all subgraphs of the largest minimum degree, None if that takes too much."""
    if query.best == 0:
        return [query.members]
    query.degree = query.best
    try:
        query.subgraph = query.around.subgraph(query.best) or EMPTY
    except MemoryError:
        return None
    ids, capacity, found = query.subgraph.ids, MANY, MANY + 1
    while found > capacity:
        capacity = found
        search = Search(device, [query])
        solutions, found = search.run(end, capacity)
        if search.value("open")[0]:
            return None
    words = -(-len(ids) // WORD)
    rows = np.asarray(device.to_host(solutions))[: found * words].reshape(found, words)
    return sorted(
        (np.sort(ids[np.flatnonzero(_members(row))]) for row in rows), key=np.ndarray.tolist
    )


def _members(words: Any) -> Any:
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little")
