"""Size-bounded community search: a connected subgraph around a vertex, of large minimum degree.

The problem and its reductions are those of Yao and Chang (PVLDB 2021).  For each query the host
chooses a degree.  The rest is done on the graph's device, for all queries at once: the vertices
near the query that a subgraph of this minimum degree may have (`candidates`), a greedy search, and
branch and bound where the greedy search does not reach the degree (`search`).  Where there are many
vertices, those of most neighbours in common with the query are searched first.  A search over
the degree ends at the largest.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.community import neighbourhood
from morph.algorithms.community.lists import ListSearch
from morph.algorithms.community.neighbourhood import (
    Ints,
    SimpleGraph,
    component,
    min_degree,
    nearest,
    simple_graph,
)
from morph.algorithms.community.one_launch import ROWS
from morph.algorithms.community.reduction import NO_LIMIT
from morph.algorithms.community.set_search import SetSearch
from morph.algorithms.community.tables import NARROW_NODES, one_launch_tables, search_tables
from morph.algorithms.community.tasks import Tasks
from morph.algorithms.graph.arguments import (
    is_one_vertex,
    lists_vertices,
    of_graph_on_one_device,
    source_rows,
)
from morph.graph import Graph
from morph.language.arguments import boolean, check_callable, check_number, integer
from morph.language.messages import shown
from morph.runtime.arrays import listed

LARGEST_SIZE = int(np.iinfo(np.int64).max)  # no graph has more vertices: larger sizes mean this
INITIAL_CAPACITY = 1 << 12  # of solutions
NARROW = 256  # vertices that are searched first where there are more
MAX_UNREDUCED, MAX_UNREDUCED_CPU = NARROW, 1 << 30  # candidates; larger sets are reduced first
MAX_LISTED = 256  # vertices of a subgraph that is searched on lists: a node has lists of so many
MAX_LISTED_VALUES = 1 << 24  # stored vertices of all subgraphs, `ListSearch.width` of each
NODES, NODES_CPU = 1 << 20, 1 << 16  # of a batch, until queries that are left wait for others
MAX_BATCH, MAX_BATCH_CPU = 1 << 13, 1 << 8  # queries that are prepared together
# searches: up to so many, all open degrees of the queries are searched at once, else one of each
MAX_DEGREES, MAX_DEGREES_CPU = 1 << 6, 0
MAX_FEW, MAX_FEW_CPU = 1 << 8, 0  # the same of a call with few queries, all in one launch


@lists_vertices("vertices", "all", "top")
class Community(NamedTuple):
    """A result of `community`.

    Attributes
    ----------
    min_degree : int
        Of the subgraph that the vertices induce.
    vertices : array of int64, shape (count,)
        Ascending, on the host.  If points have labels, these, also in ``all`` and ``top``, see
        `Graph.labels`; in order of the ids.
    proved : bool
        Whether no subgraph has a larger minimum degree, and ``all`` and ``top``, if not None, are
        complete.
        False if the time was up, or if more than 32,768 vertices may be in a better one, which may
        have more than 256.
    bound : int
        No subgraph has a larger minimum degree than this.
    nodes : int
        Visited by the search.
    all : list of array of int64, optional
        The vertices of all subgraphs of this minimum degree, in lexicographic order; if the time
        was up, those that were found.  None if they were not asked for, or the time was up before
        the minimum degree was proved.  If more than 32,768 vertices have to be searched, also None
        if the largest size is above 256, or more than 2**20 subgraphs are found (2**18 if the
        largest size is above 16, 2**16 if above 64).
    top : list of (int, array of int64), optional
        The minimum degrees and vertices of the best subgraphs, by descending degree, then in
        lexicographic order; incomplete or None as ``all``.
    """

    min_degree: int
    vertices: Any
    proved: bool
    bound: int
    nodes: int
    all: list[Any] | None = None
    top: list[tuple[int, Any]] | None = None


Found = tuple[list[Ints], bool]  # subgraphs in lexicographic order, and whether the time sufficed


class Queries:
    """The queries of a call, and what is known of them.

    Attributes
    ----------
    vertex, min_size, max_size : array of int64, shape (count,)
    best, bound : array of int64
        Minimum degrees: of the best subgraph so far, and a bound that no subgraph exceeds.
    nodes : array of int64
        Visited by the searches.
    level : array of int64
        How often a search was ended that had visited many nodes; others come first.
    given_up : array of bool
        Whether no method searches for a larger degree.
    members : list of array of int64, or None
        The vertices of the best subgraph; None if it is still to be found, as any of at least
        ``min_size`` vertices, and two for minimum degree 1.
    """

    def __init__(self, graph: SimpleGraph, vertex: Ints, sizes: Ints) -> None:
        count = graph.component_size[vertex]
        self.graph, self.vertex = graph, vertex
        self.min_size, self.max_size = sizes[:, 0], np.minimum(sizes[:, 1], count)
        self.exists = count >= self.min_size
        self.bound = np.where(self.exists, np.minimum(graph.core[vertex], self.max_size - 1), 0)
        self.best = np.minimum(self.bound, 1)  # that of an edge
        self.nodes, self.level = (np.zeros(len(vertex), np.int64) for _ in range(2))
        self.given_up = np.zeros(len(vertex), np.bool_)
        self.members: list[Ints | None] = [None] * len(vertex)

    @property
    def undecided(self) -> Any:
        """The queries of which a degree is still to be searched."""
        return np.flatnonzero((self.best < self.bound) & ~self.given_up)

    def next_degree(self, at: Ints) -> Any:
        """Return a degree between best and bound, nearer to the bound: fewer vertices qualify."""
        return self.best[at] + (3 * (self.bound[at] - self.best[at]) + 3) // 4

    def degrees(self, at: Ints, most: int) -> tuple[Ints, Ints]:
        """Choose the searches of the next step.

        Parameters
        ----------
        at : array of int64, shape (count,)
            Undecided queries.
        most : int
            If the queries have at most so many open degrees, all of these are searched for, in
            ascending order; otherwise one degree of each query.

        Returns
        -------
        queries, degrees : array of int64, of one length
        """
        count = self.bound[at] - self.best[at]
        if count.sum() > most:
            return at, self.next_degree(at)
        number = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        return np.repeat(at, count), np.repeat(self.best[at] + 1, count) + number

    def record(self, at: Ints, degree: Ints, members: list[Ints]) -> None:
        """Store subgraphs, with vertices ``members``, that are better than the best ones so far."""
        for i, k, x in zip(at.tolist(), degree.tolist(), members, strict=True):
            if k > self.best[i]:
                self.best[i], self.members[i] = k, x

    def exclude(self, at: Ints, degree: Ints) -> None:
        """Lower the bounds of queries below degrees of which they have no subgraph."""
        np.minimum.at(self.bound, at, degree - 1)

    def complete(self, i: int) -> Ints:
        """Return the best subgraph so far; find any, if there is none yet."""
        if (found := self.members[i]) is None:
            count = max(int(self.min_size[i]), int(self.best[i]) + 1)
            found = nearest(self.graph, int(self.vertex[i]), count)
            self.members[i], self.best[i] = found, min_degree(self.graph, found)
        return found


@of_graph_on_one_device
def community(
    graph: Graph, q: Any, size: Any, *, time: float | None = None, all: bool = False,
    top: int | None = None, progress: Callable[[int, int, int], object] | None = None,
) -> Any:  # fmt: skip
    """Find a connected subgraph around a vertex, of bounded size and the largest minimum degree.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device.  Directions, parallel edges and loops are ignored.
    q : int, label, or array of these
        The vertex that the subgraph has, or several: a query for each.
    size : (int, int), or array of int, shape (count, 2)
        The least and the largest number of vertices, both allowed; or those of each query.
    time : float, optional
        Seconds after which the search ends; then results may be unproved, ``all`` and ``top``
        incomplete.  They begin with the call; a subgraph, not the best, is found in any case.
    all : bool
        Whether to find all subgraphs of the largest minimum degree; there may be very many.
    top : int, optional
        How many of the best subgraphs to find: of all connected subgraphs that have the vertex and
        an allowed size, the first by descending minimum degree; fewer if there are fewer.  Which
        of those with the lowest degree are given is arbitrary: the search ends with enough.
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
        If a query is not a vertex, the sizes are not 1 <= least <= most, or lists of different
        lengths, ``time`` is negative, or ``top`` below 1.
    """
    check_callable(progress, "progress")
    begin = clock.monotonic()
    every = boolean(all, "all")
    if time is not None:
        check_number(time, "time")
    if time is not None and not time >= 0:
        raise ValueError(f"time is a number of seconds from 0 on, not {time}")
    if top is not None and (top := integer(top, "top")) < 1:
        raise ValueError(f"top is a number of subgraphs from 1 on, not {top}")
    top = None if top is None else min(top, NO_LIMIT)
    pair = None if np.ndim(listed(size, "size")) == 2 else _sizes(size)
    vertex = source_rows(graph, q, "q").astype(np.int64)
    sizes = np.full((len(vertex), 2), pair) if pair else _pairs(size, len(vertex))
    given = simple_graph(graph)
    end = np.inf if time is None else begin + time
    run = Run(Queries(given, vertex, sizes), end, progress)
    run.decide_all()
    results = [run.result(i, every, top) for i in range(len(vertex))]
    return results[0] if is_one_vertex(graph, q) else results


def _sizes(size: Any) -> tuple[int, int]:
    several = isinstance(size, Sequence) or (isinstance(size, np.ndarray) and size.ndim)
    if not several or len(size) != 2:
        raise TypeError(f"size is a pair of integers, the least and the largest, not {shown(size)}")
    least, most = (integer(x, "size") for x in size)
    if not 1 <= least <= most:
        raise ValueError(f"size is a pair 1 <= least <= largest, not ({least}, {most})")
    return min(least, LARGEST_SIZE), min(most, LARGEST_SIZE)


def _pairs(size: Any, count: int) -> Ints:
    """Check a pair of sizes for each query."""
    given = np.asarray(listed(size, "size"))
    if given.dtype == object and given.shape == (count, 2):  # integers of more than 64 bits
        given = np.array([[min(integer(x, "size"), LARGEST_SIZE) for x in row] for row in given])
    if given.shape != (count, 2) or given.dtype.kind not in "iu":
        raise TypeError(
            f"size is a pair of integers, or one for each of {count} queries, not {shown(size)}"
        )
    wrong = np.flatnonzero((given[:, 0] < 1) | (given[:, 0] > given[:, 1]))
    if wrong.size:
        least, most = given[wrong[0]].tolist()
        raise ValueError(f"size is a pair 1 <= least <= largest, not ({least}, {most})")
    pairs: Ints = np.minimum(given, LARGEST_SIZE).astype(np.int64)  # of uint64, too
    return pairs


class Run:
    """The searches of a call of `community`."""

    def __init__(
        self, queries: Queries, end: float, progress: Callable[[int, int, int], object] | None
    ) -> None:
        self.queries, self.end, self.progress, self.nodes = queries, end, progress, 0
        self.tables = search_tables(queries.graph)

    def report(self, nodes: int = 0) -> None:
        """Count visited nodes, and show the state."""
        self.nodes += nodes
        if self.progress is not None:
            count = len(self.queries.vertex)
            self.progress(count - len(self.queries.undecided), count, self.nodes)

    @property
    def in_time(self) -> bool:
        """Whether there is time left."""
        return clock.monotonic() < self.end

    def decide_all(self) -> None:
        """Find the best subgraphs of all queries, until the time is up."""
        on_host, level = self.tables.device.on_host, self.queries.level
        most, nodes = (MAX_BATCH_CPU, NODES_CPU) if on_host else (MAX_BATCH, NODES)
        most_degrees = MAX_DEGREES_CPU if on_host else MAX_DEGREES
        if len(left := self.queries.undecided) == 1:
            self.decide_one(int(left[0]), most_degrees)
        else:
            self.decide_few(left, MAX_FEW_CPU if on_host else MAX_FEW)
        while len(left := self.queries.undecided) and self.in_time:
            least = int(level[left].min())
            most_nodes = np.inf if len(left) == 1 else nodes << 4 * least
            left = left[level[left] == least]
            for start in range(0, len(left), most):
                if self.in_time:
                    some = left[start : start + most]
                    self.decide(*self.queries.degrees(some, most_degrees), most_nodes)

    def decide_one(self, i: int, most_degrees: int) -> None:
        """Search by `one_launch`, unless sets may be too large for it; `decide` continues."""
        x = self.queries
        if x.max_size[i] > ROWS or not self.in_time:
            return
        self.report()
        sizes = int(x.min_size[i]), int(x.max_size[i])
        degrees = int(x.best[i]), int(x.bound[i])
        tables = one_launch_tables(self.tables, max(most_degrees, 1))
        best, bound, nodes, members = tables.search(
            int(x.vertex[i]), sizes, degrees, most_degrees, self.end, self.report
        )
        x.nodes[i] += nodes
        x.bound[i] = bound
        if len(members):
            x.best[i], x.members[i] = best, members

    def decide_few(self, at: Ints, most_degrees: int) -> None:
        """Search for all open degrees by `one_launch`, if these are few; `decide` continues."""
        x = self.queries
        at = at[x.max_size[at] <= ROWS]
        if not 0 < (x.bound[at] - x.best[at]).sum() <= most_degrees or not self.in_time:
            return
        self.report()
        of, degree = x.degrees(at, most_degrees)
        lower, higher = degree - x.best[of] - 1, x.bound[of] - degree
        columns = x.vertex[of], x.min_size[of], x.max_size[of], degree, lower, higher
        tables, given = one_launch_tables(self.tables, most_degrees), np.stack(columns, axis=1)
        found, none, nodes, members = tables.search_few(given, self.end, self.report)
        np.add.at(x.nodes, of, nodes)
        x.exclude(of[none], degree[none])
        rank = np.lexsort((-found, of))  # the best row of each query
        best = rank[np.diff(of[rank], prepend=-1) > 0]
        x.record(of[best], found[best], [np.sort(members[i]) for i in best.tolist()])

    def decide(self, at: Ints, degree: Ints, most_nodes: float) -> None:
        """Search for subgraphs of some degrees of queries, until so many nodes are visited."""
        x = self.queries
        tasks = self.tasks(at, degree)
        few = tasks.sizes < np.maximum(x.min_size[at], degree + 1)
        x.exclude(at[few], degree[few])
        left = np.flatnonzero(~few & (degree <= x.bound[at]))
        wide = left[(tasks.sizes[left] > NARROW) & (x.level[at[left]] == 0)]
        if len(wide):
            self.search_narrow(at, tasks, wide, most_nodes)
            left = left[x.best[at[left]] < degree[left]]
        large = tasks.sizes[left] > neighbourhood.MAX_CANDIDATES
        self.search_reduced(at[left[~large]], tasks.take(left[~large]), most_nodes)
        for i in left[large].tolist():
            if self.in_time:
                self.search_on_lists(at[i : i + 1], degree[i : i + 1], most_nodes)

    def search_narrow(self, at: Ints, tasks: Tasks, wide: Ints, most_nodes: float) -> None:
        """Search the first candidates of some tasks: most have a subgraph among these."""
        nodes = min(most_nodes, NARROW_NODES * len(wide))
        self.search(at[wide], tasks.take(wide, NARROW), nodes, proves=False)

    def search_reduced(self, at: Ints, tasks: Tasks, most_nodes: float) -> None:
        """Search for subgraphs; wide sets are reduced first, on a GPU."""
        x = self.queries
        most = MAX_UNREDUCED_CPU if self.tables.device.on_host else MAX_UNREDUCED
        wide = tasks.sizes > most
        self.search(at[~wide], tasks.take(np.flatnonzero(~wide)), most_nodes)
        at, tasks = at[wide], tasks.take(np.flatnonzero(wide))
        for part in tasks.batches():
            if not self.in_time:
                return
            of = at[part]  # the query of each task
            possible, reduced = SetSearch(self.tables, tasks.take(part)).reduced()
            x.exclude(of[~possible], reduced.degree[~possible])
            of, reduced = of[possible], reduced.take(np.flatnonzero(possible))
            still_wide = np.flatnonzero(reduced.sizes > NARROW)
            if len(still_wide):  # the reduction has changed which candidates come first
                self.search_narrow(of, reduced, still_wide, most_nodes)
            degree = reduced.degree
            left = np.flatnonzero((x.best[of] < degree) & (degree <= x.bound[of]))
            self.search(of[left], reduced.take(left), most_nodes)

    def tasks(self, at: Ints, degree: Ints) -> Tasks:
        """Make the searches for subgraphs of some degrees."""
        x = self.queries
        sizes, vertices = self.tables.candidates(x.vertex[at], degree, x.max_size[at])
        return Tasks(x.min_size[at], x.max_size[at], degree, sizes, vertices)

    def search(self, at: Ints, tasks: Tasks, most_nodes: float, proves: bool = True) -> None:
        """Search for subgraphs; where there is none, this ``proves`` a bound of the degree."""
        for part in tasks.batches():
            if not self.in_time:
                return
            self.report()
            some, of = tasks.take(part), at[part]
            search = SetSearch(self.tables, some)
            search.run(self.end, self.report, most_nodes=most_nodes)
            found, open_, nodes = map(search.value, ("found_degree", "open", "nodes"))
            np.add.at(self.queries.nodes, of, nodes)
            better = np.flatnonzero(found > self.queries.best[of])
            self.queries.record(of[better], found[better], search.members(better))
            if proves:
                unsolved = search.value("solved") == 0
                none = unsolved & (open_ == 0)
                self.queries.exclude(of[none], some.degree[none])
                self.queries.level[of[unsolved & (open_ > 0)]] += 1

    def search_on_lists(self, at: Ints, degree: Ints, most_nodes: float) -> None:
        """Search for a subgraph of a degree where rows of bits would take too much memory."""
        x, i = self.queries, int(at[0])
        whole = component(x.graph, int(x.vertex[i]), int(degree[0]), int(x.max_size[i]))
        if whole is not None:  # it has all subgraphs of this minimum degree
            if len(whole) < x.min_size[i]:
                x.bound[i] = degree[0] - 1
            else:
                x.record(at, np.array([min_degree(x.graph, whole)]), [whole])
            return
        if x.max_size[i] > MAX_LISTED:
            x.given_up[i] = True
            return
        self.tasks(at, degree)  # for the hash table
        limits = {
            "min_size": int(x.min_size[i]), "max_size": int(x.max_size[i]), "degree": int(degree[0])
        }  # fmt: skip
        search = ListSearch(self.tables, x.graph, int(x.vertex[i]), limits)
        search.run(self.end, self.report, most_nodes)
        row = search.queries[0]
        x.nodes[i] += int(row.nodes)
        if (members := search.members) is not None:
            x.record(at, np.array([min_degree(x.graph, members)]), [members])
        elif row.open == 0:
            x.bound[i] = degree[0] - 1
        else:
            x.level[i] += 1

    def find_all(self, i: int, degree: int, max_solutions: int = NO_LIMIT) -> Found | None:
        """Find so many subgraphs of a minimum degree or a larger; None if it takes too much."""
        x, at = self.queries, np.array([i])
        if degree == 0:  # connected: each larger one has a minimum degree of 1
            alone = [x.vertex[at]] if x.min_size[i] == 1 else []
            if x.best[i] == 0 or len(alone) >= max_solutions:
                return alone, True
            others = self.find_all(i, 1, max_solutions - len(alone))
            return others and ([*alone, *others[0]], others[1])
        tasks = self.tasks(at, np.array([degree]))
        if tasks.sizes[0] > neighbourhood.MAX_CANDIDATES:
            return self.find_all_on_lists(i, degree, max_solutions)
        if tasks.sizes[0] < max(x.min_size[i], degree + 1):
            return [], True
        capacity, count, complete = 0, min(max_solutions, INITIAL_CAPACITY), True
        while complete and capacity < min(count, max_solutions):
            capacity = min(count, max_solutions)
            search = SetSearch(self.tables, tasks)
            count = search.run(self.end, self.report, capacity, max_solutions=max_solutions)
            nodes, ended, left = (search.value(name)[0] for name in ("nodes", "solved", "open"))
            x.nodes[i] += int(nodes)
            complete = bool(ended or not left)
        found = search.all_members(min(count, capacity))
        return sorted(found, key=np.ndarray.tolist), complete

    def find_all_on_lists(self, i: int, degree: int, max_solutions: int) -> Found | None:
        """Find subgraphs of a minimum degree among the candidates in the hash table.

        None if they may be too large, or are too many.
        """
        x = self.queries
        if x.max_size[i] > MAX_LISTED:
            return None
        limits = {
            "min_size": int(x.min_size[i]), "max_size": int(x.max_size[i]), "degree": degree
        }  # fmt: skip
        capacity, count, complete = 0, min(max_solutions, INITIAL_CAPACITY), True
        while complete and capacity < min(count, max_solutions):
            capacity = min(count, max_solutions)
            search = ListSearch(self.tables, x.graph, int(x.vertex[i]), limits)
            most = MAX_LISTED_VALUES // search.width
            count = search.run(
                self.end, self.report, capacity=capacity, max_solutions=min(max_solutions, most + 1)
            )
            row = search.queries[0]
            x.nodes[i] += int(row.nodes)
            if most < count and most < max_solutions:
                return None
            complete = bool(row.solved or not row.open)
        found = search.all_members(min(count, capacity))
        return sorted(found, key=np.ndarray.tolist), complete

    def result(self, i: int, every: bool, top: int | None) -> Community | None:
        """Return the result of a query, with all or the best subgraphs."""
        x = self.queries
        if not x.exists[i]:
            return None
        members = x.complete(i)
        best, bound = int(x.best[i]), int(x.bound[i])
        proved = best == bound
        found = self.find_all(i, best) if proved and every else None
        first = self.find_top(i, top, found) if proved and top is not None else None
        sets = ranked = None
        if found is not None:  # at least the best one, if the time was up
            sets, proved = found[0] or [members], proved and found[1]
        if first is not None:
            ranked, proved = first[0] or [(best, members)], proved and first[1]
        return Community(best, members, proved, bound, int(x.nodes[i]), sets, ranked)

    def find_top(
        self, i: int, count: int, best: Found | None
    ) -> tuple[list[tuple[int, Ints]], bool] | None:  # fmt: skip
        """Find the best subgraphs, and whether the time sufficed; None as `find_all`.

        ``best`` has all subgraphs of the largest minimum degree, or is None if these are not known.
        A search for a lower degree finds those of higher degrees, too: ``count`` suffice.
        """
        ranked: list[tuple[int, Ints]] = []
        seen: set[bytes] = set()
        complete = True
        for degree in range(int(self.queries.best[i]), -1, -1):
            if not complete or len(ranked) >= count:
                break
            found = self.find_all(i, degree, count) if best is None or ranked else best
            if found is None:
                return None
            sets, complete = found
            ranked += [(degree, x) for x in sets if x.tobytes() not in seen]
            seen.update(x.tobytes() for x in sets)
        return ranked[:count], complete
