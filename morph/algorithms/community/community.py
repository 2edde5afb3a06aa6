"""Size-bounded community search: a connected subgraph around a vertex, of large minimum degree.

The problem and its reductions are those of Yao and Chang (PVLDB 2021).  For each query the host
chooses a degree and finds the vertices near it that a subgraph of this minimum degree may have
(`neighbourhood`).  The rest is done on the graph's device, for all queries at once (`search`): the
reduction of these vertices, a greedy search, and branch and bound where the greedy search does not
reach the degree.  A binary search over the degree ends at the largest.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.community.neighbourhood import (
    Ints,
    Neighbourhood,
    SimpleGraph,
    TooManyCandidates,
    simple_graph,
)
from morph.algorithms.community.tasks import WORD, Search, Task, batches, members_of
from morph.algorithms.graph.arguments import of_graph_on_one_device, source_rows
from morph.data.conversion import as_integer, number, truth
from morph.graph import Graph
from morph.language.messages import shown

INITIAL_CAPACITY = 1 << 12  # of solutions


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
    top : list of (int, array of int64), optional
        The minimum degrees and vertices of the best subgraphs; None as for ``all``.
    """

    min_degree: int
    vertices: Any
    proved: bool
    bound: int
    nodes: int
    all: list[Any] | None = None
    top: list[tuple[int, Any]] | None = None


@dataclass(kw_only=True)
class Query(Task):
    """A query, and what is known of it.

    ``best`` and ``members`` are of the best subgraph so far; ``candidates`` has all subgraphs of
    the minimum degree ``degree``.

    Attributes
    ----------
    bound : int
        No subgraph has a larger minimum degree.
    min_searched : int
        Subgraphs of a lower degree than this have too many candidates.
    """

    neighbourhood: Neighbourhood
    bound: int
    nodes: int = 0
    min_searched: int = 0

    def choose_degree(self) -> bool:
        """Choose a degree between best and bound, and find its candidates.

        Returns
        -------
        bool
            False if best and bound meet, or all degrees between have too many candidates.
        """
        while self.best < self.bound >= self.min_searched:
            self.degree = max((self.best + self.bound + 1) // 2, self.min_searched)
            whole = self.neighbourhood.component(self.degree)
            if whole is not None:  # it has all subgraphs of this minimum degree
                if len(whole) < self.min_size:
                    self.bound = self.degree - 1
                else:
                    self.best, self.members = self.neighbourhood.min_degree(whole), whole
                continue
            try:
                self.candidates = self.neighbourhood.candidates(self.degree)
            except TooManyCandidates:
                self.min_searched = self.degree + 1
                continue
            if len(self.candidates) >= max(self.min_size, self.degree + 1):
                return True
            self.bound = self.degree - 1
        return False

    def note(self, members: Ints) -> None:
        """Keep a subgraph if it is better."""
        degree = self.neighbourhood.min_degree(members)
        if degree > self.best:
            self.best, self.members = degree, np.sort(members)


@of_graph_on_one_device
def community(
    graph: Graph, q: Any, size: tuple[int, int], *, time: float | None = None, all: bool = False,
    top: int | None = None, progress: Callable[[int, int, int], object] | None = None,
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
        Seconds after which the search ends; then results may be unproved.  They begin with the
        call; a subgraph, not the best, is found in any case.
    all : bool
        Whether to find all subgraphs of the largest minimum degree; there may be very many.
    top : int, optional
        How many of the best subgraphs to find: of all connected subgraphs that have the vertex and
        an allowed size, the first by decreasing minimum degree, then by the lexicographic order of
        their ascending vertices; fewer if there are fewer.  All of the degrees that these have are
        found on the way; there may be very many.
    progress : callable, optional
        Called with the number of decided queries, of all, and of the visited nodes, about every
        tenth of a second.

    Returns
    -------
    Community
        None if the component of the vertex is too small.  Of an array of queries a list of these.

    Raises
    ------
    TypeError
        If a query, a size, or ``top`` is not an integer, or ``time`` not a number.
    ValueError
        If a query is not a vertex, the sizes are not 1 <= least <= most, ``time`` is negative, or
        ``top`` below 1.
    """
    begin = clock.monotonic()
    min_size, max_size = _sizes(size)
    every = truth(all, "all")
    if time is not None:
        number(time, "time")
    if time is not None and not time >= 0:
        raise ValueError(f"time is a number of seconds from 0 on, not {time}")
    if top is not None and (top := as_integer(top, "top")) < 1:
        raise ValueError(f"top is a number of subgraphs from 1 on, not {top}")
    queries = source_rows(graph, q, "q")
    given = simple_graph(graph)
    state = [_query_of(given, query, min_size, max_size) for query in queries.tolist()]
    end = np.inf if time is None else begin + time
    run = Run(given, [x for x in state if x is not None], len(state), end, progress)
    run.decide_all()
    results = [None if x is None else run.result(x, every, top) for x in state]
    return results if np.ndim(q) else results[0]


def _sizes(size: Any) -> tuple[int, int]:
    if not isinstance(size, Sequence | np.ndarray) or len(size) != 2:
        raise TypeError(f"size is a pair of integers, the least and the largest, not {shown(size)}")
    least, most = (as_integer(x, "size") for x in size)
    if not 1 <= least <= most:
        raise ValueError(f"size is a pair 1 <= least <= largest, not ({least}, {most})")
    return least, most


def _query_of(graph: SimpleGraph, query: int, min_size: int, max_size: int) -> Query | None:
    count = int(graph.component_size[query])
    if count < min_size:
        return None
    max_size = min(max_size, count)
    bound = min(int(graph.core[query]), max_size - 1)
    neighbourhood = Neighbourhood(graph, query, max_size)
    best, members = neighbourhood.nearest(min_size)
    return Query(
        neighbourhood=neighbourhood, min_size=min_size, max_size=max_size,
        best=best, members=members, bound=bound,
    )  # fmt: skip


class Run:
    """The searches of a call of `community`."""

    def __init__(
        self, given: SimpleGraph, queries: list[Query], count: int, end: float,
        progress: Callable[[int, int, int], object] | None,
    ) -> None:  # fmt: skip
        self.graph, self.queries, self.count, self.end = given.csr, queries, count, end
        self.progress, self.nodes, self.left = progress, 0, len(queries)

    def report(self, nodes: int = 0) -> None:
        """Count visited nodes, and show the state."""
        self.nodes += nodes
        if self.progress is not None:
            self.progress(self.count - self.left, self.count, self.nodes)

    @property
    def in_time(self) -> bool:
        """Whether there is time left."""
        return clock.monotonic() < self.end

    def decide_all(self) -> None:
        """Find the best subgraphs of all queries, until the time is up."""
        left = self.queries
        while left and self.in_time:
            left = self.reduced(left)
            self.left = len(left)
            for batch in batches(left):
                self.report()
                self.decide(batch)

    def reduced(self, queries: list[Query]) -> list[Query]:
        """Reduce queries until each is decided or needs a search; give the latter."""
        undecided: list[Query] = []
        while queries and self.in_time:
            queries = [x for x in queries if self.in_time and x.choose_degree()]
            for batch in batches(queries):
                if self.in_time:
                    Search(self.graph, batch).reduce()
                    for x in batch:
                        if not len(x.candidates):
                            x.bound = x.degree - 1
                    undecided += [x for x in batch if x.best < x.degree <= x.bound]
            waiting = set(map(id, undecided))
            queries = [x for x in queries if id(x) not in waiting]
        return undecided

    def decide(self, batch: list[Query]) -> None:
        """Decide whether there are subgraphs of the degrees of queries, until the time is up."""
        search = Search(self.graph, batch)
        search.run(self.end, self.report)
        solved, solutions, open_, nodes = map(search.value, ("solved", "solution", "open", "nodes"))
        for i, x in enumerate(batch):
            x.nodes += int(nodes[i])
            if solved[i]:
                x.note(x.candidates[members_of(solutions[i])])
            elif not open_[i]:
                x.bound = x.degree - 1

    def find_all(self, query: Query, degree: int) -> list[Ints] | None:
        """Find all subgraphs of a minimum degree or a larger, None if that takes too much."""
        if degree == 0:  # connected: each larger one has a minimum degree of 1
            alone = [np.array([query.neighbourhood.query])] if query.min_size == 1 else []
            others = self.find_all(query, 1) if query.best > 0 else []
            return None if others is None else [*alone, *others]
        query.degree = degree
        try:
            query.candidates = query.neighbourhood.candidates(degree)
        except TooManyCandidates:
            return None
        if self.in_time:
            Search(self.graph, [query]).reduce()
        if not len(query.candidates):
            return []
        capacity, count = INITIAL_CAPACITY, INITIAL_CAPACITY + 1
        while count > capacity:
            capacity = count
            search = Search(self.graph, [query])
            solutions, count = search.run(self.end, self.report, capacity)
            query.nodes += int(search.value("nodes")[0])
            if search.value("open")[0]:
                return None
        ids, words = query.candidates, -(-len(query.candidates) // WORD)
        rows = np.asarray(self.graph.device.to_host(solutions))[: count * words]
        sets = (np.sort(ids[members_of(x)]) for x in rows.reshape(count, words))
        return sorted(sets, key=np.ndarray.tolist)

    def result(self, query: Query, every: bool, top: int | None) -> Community:
        """Give the result of a decided query, with all or the best subgraphs."""
        proved = query.best == query.bound
        sets = self.find_all(query, query.best) if proved and every else None
        first = None if top is None or not proved else self.find_top(query, top)
        known = query.best, query.members, proved, query.bound
        return Community(*known, query.nodes, sets, first)

    def find_top(self, query: Query, count: int) -> list[tuple[int, Ints]] | None:
        """Find the best subgraphs, None if that takes too much."""
        found: list[tuple[int, Ints]] = []
        for degree in range(query.best, -1, -1):
            if len(found) >= count:
                break
            sets = self.find_all(query, degree)
            if sets is None:
                return None
            found = [(query.neighbourhood.min_degree(x), x) for x in sets]
        return sorted(found, key=lambda x: (-x[0], x[1].tolist()))[:count]
