"""Largest k-plexes: sets of vertices of which each lacks at most k - 1 neighbours in the set.

A k-plex of s vertices is a subgraph of minimum degree s - k, and it is connected, of diameter 2 at
most, if s is 2 k - 1 or more (Seidman, Foster 1978).  So the search for communities decides whether
there is one of s vertices below a vertex, the root, in a ranking by core number and degree: with
the root and vertices of higher rank at distance 2 at most.  Any subset of a k-plex is one: a root
without a k-plex of s vertices has no larger one, and s grows while one is found.

Smaller ones than 2 k - 1 may be in parts.  They are searched around one more vertex, which all
others are joined to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.community.lists import ListSearch
from morph.algorithms.community.neighbourhood import MAX_CANDIDATES, Ints, SimpleGraph, simple_graph
from morph.algorithms.community.set_search import SetSearch
from morph.algorithms.community.tables import SearchTables, search_tables
from morph.algorithms.community.tasks import Tasks
from morph.algorithms.graph.arguments import lists_vertices, of_graph_on_one_device
from morph.graph import Graph
from morph.language.arguments import integer

FIRST, MOST = 1 << 6, 1 << 12  # roots that are searched at once
MAX_LISTED = 256  # points of a k-plex that is searched on adjacency lists
LISTED_NODES = 1 << 22  # that all searches on adjacency lists of a call visit, at most


@lists_vertices("points")
class MaxPlex(NamedTuple):
    """Result of `max_k_plex`: ``points``, on the host; ``size``; ``proved``.

    ``points``: ascending ids, int64, or labels, see `Graph.labels`.
    """

    points: Any
    size: int
    proved: bool


@of_graph_on_one_device
def max_k_plex(graph: Graph, k: int) -> MaxPlex:
    """Find a largest k-plex: points of which each has edges to all but k of them, itself included.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device.  Directions, parallel edges and edges from a point to itself are ignored.
    k : int
        1 or more; a 1-plex is a clique.

    Returns
    -------
    MaxPlex
        ``points``, shape (size,), int64, ascending, on the host: of several largest ones any.
        ``size``, 0 if the graph has no points.  ``proved``, whether there is no larger one: false
        only if more than 32,768 points had to be searched at once, and this search was left out,
        since a larger k-plex has more than 256 points, or ended after 2**22 nodes.

    Raises
    ------
    TypeError
        If ``k`` is not an integer.
    ValueError
        If it is below 1.

    Notes
    -----
    The problem is NP-hard.  It takes longer for larger ``k``, and longest if the largest k-plex has
    less than ``2 * k - 1`` points.
    """
    if (k := integer(k, "k")) < 1:
        raise ValueError(f"k is 1 or more, not {k}")
    search = PlexSearch(simple_graph(graph), k)
    search.run()
    return MaxPlex(search.best, len(search.best), search.proved)


class PlexSearch:
    """The search for larger and larger k-plexes of a graph."""

    def __init__(self, graph: SimpleGraph, k: int) -> None:
        self.graph, self.k, self.proved, self.tables = graph, k, True, search_tables(graph)
        self.nodes_left = LISTED_NODES
        self.best: Ints = np.zeros(0, np.int64)
        alive = np.flatnonzero(graph.core >= 0)
        degree = np.diff(graph.offsets)
        self.order = alive[np.lexsort((degree[alive], graph.core[alive]))]
        self.rank = np.full(graph.n, -1)
        self.rank[self.order] = np.arange(len(alive))

    def run(self) -> None:
        """Find a largest one."""
        if not len(self.order):
            return
        self.record(self.order[-1:])
        connected = 2 * self.k - 1  # of so many vertices all are
        left, count = len(self.order), FIRST
        while left > 0:
            self.search_below(self.order[max(left - count, 0) : left][::-1], connected)
            left, count = left - count, min(2 * count, MOST)
        while len(self.best) + 1 < connected and self.search_parts(len(self.best) + 1):
            pass

    def record(self, members: Ints) -> None:
        """Extend a k-plex as long as a vertex can be added; keep it if it is larger."""
        n, k = self.graph.n, self.k
        while True:
            ends = self.graph.rows(members)[1]
            inside = np.bincount(ends, minlength=n)
            full = members[inside[members] == len(members) - k]  # these must get a neighbour
            near = np.bincount(self.graph.rows(full)[1], minlength=n)
            fits = (inside >= len(members) + 1 - k) & (near == len(full)) & (self.rank >= 0)
            fits[members] = False
            if not fits.any():
                break
            members = np.append(members, np.argmax(np.where(fits, inside, -1)))
        if len(members) > len(self.best):
            self.best = np.sort(members)

    def search_below(self, roots: Ints, connected: int) -> None:
        """Find a larger one below some roots, again and again, until there is none."""
        while len(roots):
            size = max(len(self.best) + 1, connected)
            found = [x for root in roots.tolist() if (x := self.candidates(root, size)) is not None]
            sets = [x for x in found if len(x) <= MAX_CANDIDATES]
            again = []
            for x in found:
                if len(x) > MAX_CANDIDATES:
                    members = self.decide_on_lists(self.tables, self.graph, x, size)
                    if members is not None:
                        self.record(members)
                        again.append(x[0])
            solved = decide(self.tables, sets, size, size - self.k)
            for members in solved.values():
                self.record(members)
            roots = np.array([*again, *(sets[i][0] for i in solved)], np.int64)

    def decide_on_lists(
        self, tables: SearchTables, graph: SimpleGraph, vertices: Ints, size: int
    ) -> Ints | None:
        """Find a k-plex of a size among some vertices, the first of which it has.

        None if there is none, or the search was left out or ended; then `proved` is false.
        """
        if size > MAX_LISTED or self.nodes_left <= 0:
            self.proved = False
            return None
        tables.set_candidates(vertices)
        limits = {"min_size": size, "max_size": size, "degree": size - self.k}
        search = ListSearch(tables, graph, int(vertices[0]), limits)
        search.run(np.inf, self.count_nodes, self.nodes_left)
        members = search.members
        self.proved = self.proved and (members is not None or not search.queries[0].open)
        return members

    def count_nodes(self, nodes: int) -> None:
        """Count visited nodes of searches on lists."""
        self.nodes_left -= nodes

    def candidates(self, root: int, size: int) -> Ints | None:
        """Return the vertices of a k-plex of a size below a root; None if there is none."""
        rank, core, degree = self.rank, self.graph.core, size - self.k

        def above(ids: Ints) -> Any:
            return (rank[ids] > rank[root]) & (core[ids] >= degree)

        if core[root] < degree:
            return None
        near = self.graph.targets[self.graph.offsets[root] : self.graph.offsets[root + 1]]
        near = near[above(near)]
        if len(near) < degree:
            return None
        ids, common = np.unique(self.graph.rows(near)[1], return_counts=True)
        # two members that are no neighbours have so many in common, two neighbours two less
        least = size - 2 * self.k + 2 - 2 * np.isin(ids, near, assume_unique=True)
        others = ids[above(ids) & (common >= least)]
        if size <= 2 * self.k:
            others = np.union1d(others, near)
        if len(others) + 1 < size:
            return None
        return np.concatenate([[root], others])

    def search_parts(self, size: int) -> bool:
        """Find one of a size, which may be in parts; return whether there is one."""
        rest = self.order[self.graph.core[self.order] >= size - self.k]
        if len(rest) < size:
            return False
        src, ends = self.graph.rows(rest)
        number = np.zeros(self.graph.n, np.int64)
        number[rest] = np.arange(1, len(rest) + 1)  # 0 is the vertex that all are joined to
        inside = number[ends] > 0
        joined = np.arange(1, len(rest) + 1)
        made = Graph.from_edges(
            np.concatenate([src[inside] + 1, joined, 0 * joined]),
            np.concatenate([number[ends[inside]], 0 * joined, joined]),
            n=len(rest) + 1,
            symmetric=True,
            device=self.graph.csr.device,
        )
        vertices, tables = np.arange(len(rest) + 1), SearchTables(made)
        if len(rest) > MAX_CANDIDATES:
            members = self.decide_on_lists(tables, simple_graph(made), vertices, size + 1)
        else:
            members = decide(tables, [vertices], size + 1, size + 1 - self.k).get(0)
        if members is not None:
            self.record(rest[members[1:] - 1])
        return members is not None


def decide(tables: SearchTables, sets: Sequence[Ints], size: int, degree: int) -> dict[int, Ints]:
    """Find subgraphs of a size and a minimum degree in sets; return their vertices by set."""
    solved: dict[int, Ints] = {}
    if not sets:
        return solved
    count = len(sets)
    lengths = np.array([len(x) for x in sets])
    tasks = Tasks(np.full(count, size), np.full(count, size), np.full(count, degree), lengths,
                  np.concatenate(sets))  # fmt: skip
    for part in tasks.batches():
        search = SetSearch(tables, tasks.take(part))
        search.run(np.inf, lambda nodes: None)
        done = np.flatnonzero(search.value("found_degree") >= degree)
        solved.update(zip(part[done].tolist(), search.members(done), strict=True))
    return solved
