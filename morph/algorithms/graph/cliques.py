"""Maximal and maximum cliques, by branch and bound on bit rows.

Vertices are ranked by core number, then by degree, so that few neighbours of a vertex have a higher
rank (Eppstein, Loffler, Strash 2010).  A clique is searched below its vertex of lowest rank, the
root: the neighbours of higher rank are the candidates, and each has a bit row of its neighbours
among the candidates.  A search node has four sets: the chosen vertices; the remaining candidates,
all of which are neighbours of all chosen vertices; candidates excluded because cliques with them
are found in other branches; and the branching vertices, of which a clique must contain one.

Maximal cliques (Bron, Kerbosch 1973): the branching vertices are the candidates not adjacent to a
pivot, the vertex with the most neighbours among the candidates (Tomita, Tanaka, Takahashi 2006).
A clique is tested for extension by a neighbour of lower rank when it is found.  Maximum clique: the
branching vertices are the candidates outside the first colour classes of a greedy colouring, which
cannot exceed the largest clique so far (Tomita et al. 2010; San Segundo et al., BBMC, 2011).

The open nodes of all roots are in one queue.  An item searches depth first for a number of nodes;
remaining open nodes return to the queue.  If the stack of an item is full, only the deepest nodes
return, and the others are deferred to the next launch: else the search would be breadth first.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from morph.algorithms.graph.arguments import lists_vertices, of_graph_on_one_device
from morph.algorithms.graph.cores import core_number
from morph.algorithms.graph.simple import degrees, end_of, find, ranked_pairs, sorted_rows
from morph.data.collection import Collection
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.graph import Graph
from morph.graph.labels import Lookup
from morph.language.dtypes import vec
from morph.launch.foreach import foreach, func, kernel
from morph.prelude import (
    atomic_add,
    atomic_max,
    atomic_or,
    clz,
    ctz,
    i32,
    i64,
    local,
    popcount,
    static,
    struct,
    u64,
)

Ints = NDArray[np.int64]
WORD = 64
NODES = 256  # nodes searched per item of the queue, in the first generation
OLDEST = 3  # the number doubles up to this generation
FOUND = 64  # cliques after which an item ends
FIRST, MOST = 1 << 12, 1 << 20  # nodes after which a launch ends: of the first launch, maximum
BITS = 1 << 28  # size of the rows of roots that are searched at once
ROOTS = 1 << 17
DEEPEST = 24  # capacity of an item's stack, in open nodes


@lists_vertices("points")
class MaxClique(NamedTuple):
    """Result of `max_clique`: ``points``, on the host, and ``size``, an int.

    ``points``: ascending ids, int64, or labels, see `Graph.labels`.
    """

    points: Any
    size: int


class Pool(NamedTuple):
    """The arguments of the search; row ``p.start + v * words`` of ``near`` has candidate ``v``."""

    graph: Any
    ends: Any  # column of arcs: the number of the neighbour
    near: Any  # bit words
    deepest: int  # capacity of an item's stack, in open nodes
    words: int  # largest number of words of a set
    spent: Any  # scalars: nodes visited in this launch; the size of the largest clique
    limit: int  # number of nodes after which a launch ends soon
    found: Any  # entries: roots and chosen vertices of cliques


@struct
class Node:
    """A search node; all fields except the last two are sets of bit words."""

    chosen: local(u64, 4)
    candidates: local(u64, 4)
    excluded: local(u64, 4)
    branching: local(u64, 4)
    uncoloured: local(u64, 4)  # candidates for the current colour
    stack: local(u64, 384)  # 24 open nodes of four sets
    depth: local(i32, 1)  # words of the stack in use


@func
def bit(v):
    return u64(1) << u64(v & 63)


@func
def words_of(p):
    return (i64(p.out_degree) - p.below + 63) // 64


@func
def is_empty(s, words):
    some = u64(0)
    for j in range(words):
        some = some | s[j]
    return some == u64(0)


@func
def size_of(s, words):
    total = i32(0)
    for j in range(words):
        total += i32(popcount(s[j]))
    return total


@func
def is_of_root(a):
    return a.src.start >= 0 and a.src.id < a.dst.id


@kernel
def set_bits(a, pool):
    """Set the bits for triangles of a root and two candidates, one of them the arc's target.

    Candidates are numbered by descending rank.
    """
    p, u = a.src, a.dst
    end, words = end_of(p), words_of(p)
    one = end - 1 - a.id
    for b in u.outedges[u.below :]:
        at = find(pool.ends, b.end, i64(a.id) + 1, end)
        if at < end and pool.ends[at] == b.end:
            two = end - 1 - at
            atomic_or(pool.near[p.start + one * words + (two >> 6)], bit(two))
            atomic_or(pool.near[p.start + two * words + (one >> 6)], bit(one))


@func
def fill(node, pool):
    """Clear all sets of a new node."""
    for _ in range(pool.words):
        node.chosen.add(u64(0))
        node.candidates.add(u64(0))
        node.excluded.add(u64(0))
        node.branching.add(u64(0))
        node.uncoloured.add(u64(0))
    for _ in range(4 * pool.words * pool.deepest):
        node.stack.add(u64(0))
    node.depth.add(i32(0))


@func
def push(node, words):
    depth = node.depth[0]
    for j in range(words):
        node.stack[depth + j] = node.chosen[j]
        node.stack[depth + words + j] = node.candidates[j]
        node.stack[depth + 2 * words + j] = node.excluded[j]
        node.stack[depth + 3 * words + j] = node.branching[j]
    node.depth[0] = i32(depth + 4 * words)


@func
def pop(node, words):
    depth = node.depth[0] - 4 * words
    for j in range(words):
        node.chosen[j] = node.stack[depth + j]
        node.candidates[j] = node.stack[depth + words + j]
        node.excluded[j] = node.stack[depth + 2 * words + j]
        node.branching[j] = node.stack[depth + 3 * words + j]
    node.depth[0] = i32(depth)


@func
def branch_beyond_colours(node, p, near, colours, words):
    """Branch on the candidates that are in none of the first colour classes."""
    for j in range(words):
        node.branching[j] = node.candidates[j]
    while colours > 0 and not is_empty(node.branching, words):
        colours -= 1
        for j in range(words):
            node.uncoloured[j] = node.branching[j]
        for j in range(words):
            while node.uncoloured[j] != u64(0):
                k = i64(ctz(node.uncoloured[j]))
                row = p.start + (64 * j + k) * words
                node.branching[j] = node.branching[j] & ~bit(k)
                node.uncoloured[j] = node.uncoloured[j] & ~bit(k)
                for i in range(j, words):
                    node.uncoloured[i] = node.uncoloured[i] & ~near[row + i]


@func
def branch_beside_pivot(node, p, near, words):
    """Branch on the candidates that are not adjacent to a pivot."""
    pivot, most = i64(0), i32(-1)
    for j in range(words):
        bits = node.candidates[j] | node.excluded[j]
        while bits != u64(0):
            v = 64 * i64(j) + i64(ctz(bits))
            bits = bits & (bits - u64(1))
            row = p.start + v * words
            common = i32(0)
            for i in range(words):
                common += i32(popcount(near[row + i] & node.candidates[i]))
            if common > most:
                pivot, most = v, common
    row = p.start + pivot * words
    for j in range(words):
        node.branching[j] = node.candidates[j] & ~near[row + j]


@func
def find_branches(node, p, pool, words, maximal):
    if maximal:
        branch_beside_pivot(node, p, pool.near, words)
    else:
        size = size_of(node.chosen, words) + 1
        colours = atomic_max(pool.spent.size, 0) - size
        branch_beyond_colours(node, p, pool.near, colours, words)


@func
def are_joined(node, pool, p, w, words):
    """Whether a vertex is a neighbour of all chosen vertices."""
    end, joined = end_of(p), True
    for j in range(words):
        bits = node.chosen[j]
        while joined and bits != u64(0):
            v = pool.graph.points[pool.ends[end - 1 - 64 * i64(j) - i64(ctz(bits))]]
            bits = bits & (bits - u64(1))
            at, last = find(pool.ends, w, v.first, v.first + v.below), v.first + v.below
            joined = at < last and pool.ends[at] == w
    return joined


@func
def is_maximal(node, pool, p, words):
    """Whether no lower-ranked neighbour of the root is a neighbour of all chosen vertices."""
    i, maximal = p.first, True
    while maximal and i < p.first + p.below:
        maximal = not are_joined(node, pool, p, pool.ends[i], words)
        i += 1
    return maximal


@func
def is_wanted(node, pool, p, words, maximal):
    """Whether a node without candidates is a clique to report."""
    if maximal:
        return is_empty(node.excluded, words) and is_maximal(node, pool, p, words)
    size = size_of(node.chosen, words) + 1
    return atomic_max(pool.spent.size, size) < size


@func
def take_branch(node, p, near, words):
    """Choose the last branching vertex; push the node with the other ones, if any."""
    v = i64(-1)
    for j in range(words):
        if node.branching[j] != u64(0):
            v = 64 * i64(j) + 63 - i64(clz(node.branching[j]))
    node.candidates[v >> 6] = node.candidates[v >> 6] & ~bit(v)
    node.branching[v >> 6] = node.branching[v >> 6] & ~bit(v)
    if not is_empty(node.branching, words):
        node.excluded[v >> 6] = node.excluded[v >> 6] | bit(v)
        push(node, words)
    node.chosen[v >> 6] = node.chosen[v >> 6] | bit(v)
    row = p.start + v * words
    for j in range(words):
        node.candidates[j] = node.candidates[j] & near[row + j]
        node.excluded[j] = node.excluded[j] & near[row + j]


@func
def as_vector(s, like, words):
    made = like
    for j in range(words):
        made[j] = s[j]
    return made


@func
def sets_of(node, like, words):
    """Return the sets of an open node as vectors."""
    return (
        as_vector(node.chosen, like, words), as_vector(node.candidates, like, words),
        as_vector(node.excluded, like, words), as_vector(node.branching, like, words),
    )  # fmt: skip


@func
def open_root(node, p, words):
    """Initialise the node of a root with all its candidates."""
    for j in range(words):
        node.candidates[j] = ~u64(0)
    candidates = i64(p.out_degree) - p.below
    if candidates & 63 != 0:
        node.candidates[words - 1] = bit(candidates) - u64(1)


@kernel
def find_first_clique(e, pool):
    """Find a first clique of a root greedily, by the candidates of highest rank."""
    node = Node()
    fill(node, pool)
    pool.found.reserve(1)
    p, like = e.item, e.chosen
    words = words_of(p)
    open_root(node, p, words)
    while not is_empty(node.candidates, words):
        for j in range(words):
            node.branching[j] = u64(0)
        v = i64(-1)
        for j in range(words):
            if v < 0 and node.candidates[j] != u64(0):
                v = 64 * i64(j) + i64(ctz(node.candidates[j]))
        node.branching[v >> 6] = bit(v)
        take_branch(node, p, pool.near, words)
    size = size_of(node.chosen, words) + 1
    if atomic_max(pool.spent.size, size) < size:
        pool.found.add(p, chosen=as_vector(node.chosen, like, words))


@kernel
def search(e, pool, queue, later, maximal: static):
    """Search below a node; return remaining open nodes to the queue, or defer them."""
    node = Node()
    fill(node, pool)
    queue.reserve(pool.deepest + 1)
    later.reserve(pool.deepest + 1)
    pool.found.reserve(FOUND)
    p, like = e.item, e.chosen
    words = words_of(p)
    for j in range(words):
        node.chosen[j] = e.chosen[j]
        node.candidates[j] = e.candidates[j]
        node.excluded[j] = e.excluded[j]
        node.branching[j] = e.branching[j]
    if e.generation == 0:
        open_root(node, p, words)
    if not maximal or e.generation == 0:
        find_branches(node, p, pool, words, maximal)
    if not is_empty(node.branching, words):
        push(node, words)
    spent, nodes, found = atomic_add(pool.spent.nodes, i64(0)), i32(0), i32(0)
    size, deferring = atomic_max(pool.spent.size, 0), False
    if spent < pool.limit:
        limit = NODES << min(e.generation, OLDEST)
        capacity = pool.deepest * 4 * words
        while 0 < node.depth[0] < capacity and nodes < limit and found < FOUND:
            nodes += 1
            pop(node, words)
            if not maximal and atomic_max(pool.spent.size, 0) > size:  # fewer branching vertices
                find_branches(node, p, pool, words, maximal)
            if not is_empty(node.branching, words):
                take_branch(node, p, pool.near, words)
                if is_empty(node.candidates, words):
                    if is_wanted(node, pool, p, words, maximal):
                        found += 1
                        pool.found.add(p, chosen=as_vector(node.chosen, like, words))
                else:
                    find_branches(node, p, pool, words, maximal)
                    if not is_empty(node.branching, words):
                        push(node, words)
        spent = atomic_add(pool.spent.nodes, i64(nodes))
        deferring = not maximal and node.depth[0] >= capacity
    open_now = spent < pool.limit
    while node.depth[0] > 0:
        pop(node, words)
        chosen, candidates, excluded, branching = sets_of(node, like, words)
        if open_now:
            queue.add(
                p, generation=e.generation + 1, chosen=chosen, candidates=candidates,
                excluded=excluded, branching=branching,
            )  # fmt: skip
        else:
            later.add(
                p, generation=e.generation + 1, chosen=chosen, candidates=candidates,
                excluded=excluded, branching=branching,
            )  # fmt: skip
        open_now = open_now and not deferring  # deferred: the deepest nodes may improve the bound


class Search:
    """The search for cliques in a copy of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.device = graph.device
        core = core_number(graph).core
        host = graph.device.to_host
        with graph.device.active():
            key = core.astype(np.int64) << 32 | degrees(graph)
            order, low, high = ranked_pairs(graph, key)
            self.graph = sorted_rows(graph, len(order), low, high)
            self.graph.points.add("start", i64)
        self.order = np.asarray(host(order)).astype(np.int64)
        self.ends = np.asarray(host(self.graph.edges.end.array))
        first, below = (
            np.asarray(host(self.graph.points.columns[name].array))[: len(self.order)]
            for name in ("first", "below")
        )
        self.end = np.append(first[1:], len(self.ends)).astype(np.int64)
        self.later = self.end - first - below
        alone = self.end == first
        alone[np.asarray(host(core))[self.order] < 0] = False  # deleted
        self.alone = np.sort(self.order[alone])
        self.size = min(len(self.alone), 1)

    def batches(self) -> Iterator[tuple[int, Ints]]:
        """Yield roots that may have a clique of more than ``size`` vertices, highest ranks first.

        Yields
        ------
        words : int
            Words per set of candidates, rounded up to few values, for few kernels.
        roots : array of int64
        """
        words = 4
        narrow = 0
        while narrow < self.later.max(initial=0):
            of_width = (self.later > narrow) & (self.later <= WORD * words)
            left = np.flatnonzero(of_width)[::-1]
            while len(left := left[self.later[left] >= self.size]):
                sums = np.cumsum(self.row_words(left))
                count = max(int(np.searchsorted(sums, BITS // WORD, "right")), 1)
                yield words, left[: min(count, ROOTS)]
                left = left[min(count, ROOTS) :]
            narrow, words = WORD * words, 4 * words

    def row_words(self, roots: Ints) -> Ints:
        """Return the number of words in the rows of each root's candidates."""
        counts: Ints = self.later[roots] * -(-self.later[roots] // WORD)
        return counts

    def rows(self, roots: Ints) -> Table:
        """Make the rows of the candidates of some roots."""
        counts = self.row_words(roots)
        near = Table("near", self.device, bits=u64)
        near.extend(int(counts.sum()))
        row = np.full(len(self.order), -1)
        row[roots] = np.cumsum(counts) - counts
        self.graph.points.start[:] = row
        pool = Pool(self.graph, self.graph.edges.end, near.bits, 0, 0, 0, 0, 0)
        foreach(self.graph.edges, set_bits, pool, where=is_of_root)
        return near

    def cliques(self, maximal: bool) -> Iterator[tuple[Ints, Any]]:
        """Yield roots and bit words of the other vertices of all maximal or of larger cliques.

        If ``maximal`` is False, ``size`` is the size of the largest clique so far, and only larger
        cliques are searched.
        """
        spent, limit = Scalars(self.graph, nodes=i64(0), size=i32(self.size)), FIRST
        for words, roots in self.batches():
            near, bits = self.rows(roots), vec(u64, words)
            now, then = (
                Collection(
                    self.graph.points,
                    generation=i32,
                    chosen=bits,
                    candidates=bits,
                    excluded=bits,
                    branching=bits,
                )
                for _ in range(2)
            )
            found = Collection(self.graph.points, chosen=bits)
            now.extend(roots)
            most = int(self.later[roots].max())
            deepest, used = min(most + 2, DEEPEST), -(-most // WORD)
            if not maximal:  # a first bound, before all roots are searched at once
                pool = Pool(self.graph, self.graph.edges.end, near.bits, 0, used, spent, 0, found)
                foreach(now, find_first_clique, pool)
            while not now.empty:
                spent.nodes = 0
                pool = Pool(
                    self.graph, self.graph.edges.end, near.bits, deepest, used, spent, limit, found
                )
                foreach(now, search, pool, now, then, int(maximal), until_empty=True)
                now, then = then, now
                limit = min(2 * limit, MOST)
                if not maximal:
                    self.size = int(spent.size)
                if len(found):
                    host = self.device.to_host
                    chosen = np.asarray(host(found.chosen.array)).reshape(len(found), words)
                    yield np.asarray(host(found.items)).astype(np.int64), chosen.copy()
                    found.clear()

    def members(self, roots: Ints, chosen: Any) -> list[Ints]:
        """Return the ascending vertices of each clique."""
        bits = np.unpackbits(chosen.view(np.uint8), axis=1, bitorder="little")
        which, number = np.nonzero(bits)
        ranks = np.concatenate([roots, self.ends[self.end[roots[which]] - 1 - number]])
        which = np.concatenate([np.arange(len(roots)), which])
        keys = which * len(self.order) + self.order[ranks]
        keys.sort()
        points, ends = keys % len(self.order), np.cumsum(np.bincount(which)).tolist()
        return [points[a:b] for a, b in zip([0, *ends], ends, strict=False)]


@of_graph_on_one_device
def max_clique(graph: Graph) -> MaxClique:
    """Find a maximum clique: a largest set of pairwise adjacent points.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device.  Directions, parallel edges and self-loops are ignored.

    Returns
    -------
    MaxClique
        ``points``, shape (size,), int64, ascending, on the host: one of the maximum cliques.
        ``size``, 0 if the graph has no points.

    Notes
    -----
    The problem is NP-hard; large sparse graphs usually take little time.
    """
    search = Search(graph)
    best = search.alone[:1]
    for roots, chosen in search.cliques(False):
        best = max(search.members(roots, chosen), key=len)
    return MaxClique(best, len(best))


def cliques(graph: Any) -> Iterator[Any]:
    """Find all maximal cliques, i.e. cliques that are part of no other clique.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        As in `max_clique`.  The iterator uses a copy, so that the graph may be changed.

    Returns
    -------
    iterator of array of int64
        The ascending points of each clique, on the host; cliques in any order, without duplicates.
        The search is lazy, as there may be up to 3**(n / 3) cliques.  If points have labels, these
        are arrays of labels, see `Graph.labels`.
    """
    search, names = _search_of(graph)
    found = _iterate(search)
    return found if names is None else map(names.names, found)


@of_graph_on_one_device
def _search_of(graph: Graph) -> tuple[Search, Lookup | None]:
    return Search(graph), graph.lookup()


def _iterate(search: Search) -> Iterator[Any]:
    yield from search.alone[:, None]
    search.size = 1
    for roots, chosen in search.cliques(True):
        yield from search.members(roots, chosen)
