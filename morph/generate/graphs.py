"""Generators of graphs: uniform random, R-MAT, grids and tori, random geometric.

The same arguments yield the same graph, on every machine and device and with every version of
NumPy: random bits are from PCG64, with one stream for each part of the edges, and weights are
hashes of the seed and the ends, so that both arcs of an edge have the same weight.  A generator
yields pairs of ends; `construction` makes a graph of them.

Unless ``directed``, the reverse of every edge is added; unless ``simple=False``, self-loops and
duplicates are dropped, so that there are fewer edges than were drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.generate import draws
from morph.generate.construction import Pair, Place, Share, graph_of_pairs, streams_at_once
from morph.generate.draws import LOWER_HALF, UNIT, Thresholds, check, quadrants, raw_bits, streams
from morph.generate.weights import Weight
from morph.graph.arrange import offsets_from, require_memory
from morph.language.arguments import boolean, check_number, integer
from morph.language.dtypes import ID_LIMIT, f64
from morph.language.messages import shown
from morph.partition.group import share_of
from morph.partition.partition import partition
from morph.runtime.device import Array, Device, device

GRAPH500 = (0.57, 0.19, 0.19)
"""Parameters a, b, c of the Graph500 benchmark's R-MAT graphs; d is 0.05."""
GTGRAPH = (0.45, 0.15, 0.15)
"""Parameters a, b, c of the GTgraph suite; d is 0.25."""

Ints = NDArray[np.int64]

_HOST = device("cpu")


def uniform(
    n: int,
    m: int,
    *,
    weight: Weight = None,
    directed: bool = False,
    simple: bool = True,
    seed: int = 0,
    device: Place = None,
    comm: Any = None,
) -> Any:
    """Make a random graph: each end of ``m`` edges is any point with the same probability.

    Parameters
    ----------
    n : int
        Number of points.
    m : int
        Number of edges to draw; each is two arcs unless ``directed``.
    weight : (low, high), optional
        Column ``weight`` of edges, uniformly distributed: if both are int, integers from low to
        high, both included, int32 if both limits fit, else int64; else float64 in [low, high).
    directed : bool
        Do not add the reverse arcs.
    simple : bool
        Drop self-loops and duplicate edges.
    seed : int
        Seed of the random numbers, 0 or more.
    device : str or Device, or a list of them, optional
        See `morph.set_device` for the default.
        With a list the graph is partitioned, with the same number of points on each device; each
        part is generated on its device.
    comm : mpi4py.MPI.Comm, optional
        Each rank generates its part of a partitioned graph; ``device`` is the device of all ranks,
        or a list with one device for each.

    Returns
    -------
    Graph or PartitionedGraph
        A `PartitionedGraph` if there is a list of devices, or ``comm``.

    Raises
    ------
    TypeError
        If an argument has a wrong type; the message names it.
    ValueError
        If an argument is out of range; the message names it.
    MemoryError
        If the free memory does not suffice to generate the graph.
    """
    directed, simple = boolean(directed, "directed"), boolean(simple, "simple")
    check(n=n, m=m, seed=seed)
    if n == 0 and m:
        raise ValueError(f"m = {m}: without points there are no edges")

    def draw(where: Device, share: Share) -> Iterator[Pair]:
        most = streams_at_once(where, m, share)
        for count, some in streams(m, seed, 0, draws.AT_ONCE, most, share):
            ends = (raw_bits(where, some, 2 * count) >> np.uint64(11)) * (n * UNIT)
            ends = ends.astype(np.int64).reshape(-1, 2, count)
            yield ends[:, 0].reshape(-1), ends[:, 1].reshape(-1)

    return graph_of_pairs(n, m, draw, weight, directed, simple, seed, (device, comm))


def rmat(
    scale: int,
    edge_factor: float = 16,
    a: float = GRAPH500[0],
    b: float = GRAPH500[1],
    c: float = GRAPH500[2],
    *,
    permute: bool = False,
    weight: Weight = None,
    directed: bool = False,
    simple: bool = True,
    seed: int = 0,
    device: Place = None,
    comm: Any = None,
) -> Any:
    """Make a random graph by the recursive matrix model (R-MAT), with a skewed degree distribution.

    Each edge selects, at ``scale`` levels, a quadrant of the adjacency matrix: upper left with
    probability ``a``, upper right ``b``, lower left ``c``, else lower right.

    Parameters
    ----------
    scale : int
        The graph has ``2**scale`` points.
    edge_factor : float
        Edges to draw per point; each is two arcs unless ``directed``.
    a, b, c : float
        By default `GRAPH500`; ``rmat(20, 16, *GTGRAPH)`` uses GTgraph's.
    permute : bool
        Permute the numbers of points at random.  Otherwise low-numbered points have the highest
        degrees, above all point 0.
    weight, directed, simple, seed, device, comm
        As in `uniform`.

    Returns
    -------
    Graph or PartitionedGraph

    Raises
    ------
    TypeError, ValueError, MemoryError
        As in `uniform`.

    Notes
    -----
    With ``permute=True, simple=False`` and weights ``(0.0, 1.0)``, the distribution is that of
    Graph500's generator, which also shuffles the edges; here edges are sorted by source.  GTgraph
    varies a, b, c, d by up to 5 % at each level; Morph does not.  The random numbers differ from
    both.

    References
    ----------
    D. Chakrabarti, Y. Zhan, C. Faloutsos: R-MAT: a recursive model for graph mining.  SDM 2004.
    Graph500 benchmark specification, section 3.  D. Bader, K. Madduri: GTgraph, 2006.
    """
    permute, directed = boolean(permute, "permute"), boolean(directed, "directed")
    simple = boolean(simple, "simple")
    for name, x in (("edge_factor", edge_factor), ("a", a), ("b", b), ("c", c)):
        check_number(x, name)
    if not 0 <= (scale := integer(scale, "scale")) <= 30:
        raise ValueError(f"scale = {shown(scale)}: expected 0 to 30")
    if not (min(a, b, c) >= 0 and a + b + c <= 1 + 1e-9):
        raise ValueError(f"a, b, c = {a}, {b}, {c}: expected probabilities, at most 1 together")
    if not 0 <= edge_factor < math.inf:
        raise ValueError(f"edge_factor = {edge_factor}: expected 0 or more, finite")
    n, m = 1 << scale, round(edge_factor * (1 << scale))
    check(n=n, m=m, seed=seed)
    least = Thresholds(
        *(np.uint32(min(round(p * 2**32), LOWER_HALF)) for p in (a, a + b, a + b + c))
    )

    def draw(where: Device, share: Share) -> Iterator[Pair]:
        names = _permutation(where, n, seed) if permute else None
        most = streams_at_once(where, m, share)
        for count, some in streams(m, seed, 1, draws.AT_ONCE, most, share):
            u, v = quadrants(where, some, count, scale, least)
            yield (u, v) if names is None else (names[u], names[v])

    return graph_of_pairs(n, m, draw, weight, directed, simple, seed, (device, comm))


def grid(
    rows: int,
    columns: int,
    *,
    torus: bool = False,
    weight: Weight = None,
    seed: int = 0,
    device: Place = None,
    comm: Any = None,
) -> Any:
    """Make an undirected grid: each point has edges to its left, right, upper and lower neighbours.

    Parameters
    ----------
    rows, columns : int
        Point ``r * columns + c`` is in row r, column c.
    torus : bool
        Join the last row with the first, and the last column with the first.
    weight, seed, device, comm
        As in `uniform`.

    Returns
    -------
    Graph or PartitionedGraph

    Raises
    ------
    TypeError, ValueError, MemoryError
        As in `uniform`.
    """
    torus = boolean(torus, "torus")
    check(rows=rows, columns=columns, seed=seed)
    n = rows * columns
    if n > ID_LIMIT:
        raise ValueError(f"rows x columns = {n}: at most 2^31 - 1 points are possible")

    def draw(where: Device, share: Share) -> Iterator[Pair]:
        part, own = draws.AT_ONCE * streams_at_once(where, n, share), share_of(n, *share)
        for start in range(own.start, own.stop, part):
            u = where.xp.arange(start, min(start + part, own.stop))
            row, column = where.xp.divmod(u, columns)
            right, down = u + 1, u + columns
            if torus:
                right[column == columns - 1] -= columns
                down[row == rows - 1] -= n
                yield u, right
                yield u, down
            else:
                inside = column < columns - 1
                yield u[inside], right[inside]
                inside = row < rows - 1
                yield u[inside], down[inside]

    return graph_of_pairs(n, 2 * n, draw, weight, False, True, seed, (device, comm))


def geometric(
    n: int,
    radius: float | None = None,
    *,
    degree: float | None = None,
    weight: Weight | str = None,
    seed: int = 0,
    device: Place = None,
    comm: Any = None,
) -> Any:
    """Make a random geometric graph: points of the unit square, with edges up to a given length.

    Points are numbered along rows of cells that are one radius wide, so that close points have
    close numbers.  Columns ``x`` and ``y`` of points (float64) are the coordinates.

    Parameters
    ----------
    n : int
        Number of points.
    radius : float
        Largest length of an edge.
    degree : float
        Alternative to ``radius``: expected degree of a point far from the boundary of the square.
    weight : (low, high) or "length", optional
        As in `uniform`, or the length of each edge, float64.
    seed, device, comm
        As in `uniform`, but the graph is always made on one device, and then divided.

    Returns
    -------
    Graph or PartitionedGraph

    Raises
    ------
    TypeError, MemoryError
        As in `uniform`.
    ValueError
        If an argument is out of range, or not exactly one of radius and degree is given.
    """
    check(n=n, seed=seed)
    if (radius is None) == (degree is None):
        raise ValueError("give either radius or degree")
    if degree is not None:
        check_number(degree, "degree")
        if not 0 <= degree < math.inf:
            raise ValueError(f"degree = {degree}: expected 0 or more, finite")
        radius = math.sqrt(degree / (math.pi * max(n - 1, 1)))
    check_number(radius, "radius")
    if radius is None or not 0 <= radius < math.inf:
        raise ValueError(f"radius = {radius}: expected 0 or more, finite")
    r = min(radius, 1.0)  # of two points, the probability that they are so close is known
    expected = n * max(n - 1, 0) / 2 * (math.pi - 8 / 3 * r + r * r / 2) * r * r
    require_memory(_HOST, n, int(2 * expected), None, arranged=True)
    x, y, starts, side = _cells(n, radius, seed)
    found = list(_near(x, y, starts, side, radius))[::-1]
    m = sum(u.size for u, _ in found)

    def pairs(where: Device, share: Share) -> Iterator[Pair]:
        for _ in range(len(found)):
            u, v = found.pop()  # so that each is freed after use
            yield where.asarray(u), where.asarray(v)

    lengths = weight == "length"
    if isinstance(weight, str):
        if not lengths:
            raise ValueError(f"weight = {shown(weight)}: expected (low, high) or 'length'")
        weight = None
    divided = comm is not None or isinstance(device, (list, tuple))
    graph = graph_of_pairs(
        n, m, pairs, weight, False, True, seed, ("cpu" if divided else device, None)
    )
    if lengths:
        src, dst, _ = (None if e is None else graph.device.to_host(e) for e in graph.edge_list())
        graph.edges.add("weight", f64)[:] = np.hypot(x[src] - x[dst], y[src] - y[dst])
    graph.points.add("x", f64)[:] = x
    graph.points.add("y", f64)[:] = y
    return partition(graph, device, comm=comm) if divided else graph


def _cells(n: int, radius: float, seed: int) -> tuple[Any, Any, Ints, int]:
    """Draw points and sort them by square cells that are at least a radius wide.

    Returns
    -------
    x, y : array of float64, shape (n,)
    starts : array of int64, shape (side * side + 1,)
        The first point of each cell, row by row, and ``n``.
    side : int
        The number of cells in a row.
    """
    side = max(1, min(int(1 / radius) if radius > 1 / ID_LIMIT else ID_LIMIT, math.isqrt(n)))
    parts = [bits.random_raw(2 * count) for count, [bits] in streams(n, seed, 3, draws.AT_ONCE)]
    places = np.concatenate([np.empty(0, np.uint64), *parts])
    x, y = ((places >> np.uint64(11)) * UNIT).reshape(-1, 2).T
    cell = (y * side).astype(np.int64) * side + (x * side).astype(np.int64)
    order = np.argsort(cell, kind="stable")
    starts = offsets_from(_HOST, np.bincount(cell, minlength=side * side))
    return np.ascontiguousarray(x[order]), np.ascontiguousarray(y[order]), starts, side


def _near(x: Any, y: Any, starts: Ints, side: int, radius: float) -> Iterator[Pair]:
    """Yield all pairs of points within a radius, each once, in int32 arrays of a limited size.

    A point is compared with later points of its cell and the one to the right, and with the points
    of three cells of the next row.
    """
    n = len(x)
    cell = np.repeat(np.arange(side * side), np.diff(starts))
    row, column = np.divmod(cell, side)
    left, right = np.maximum(column - 1, 0), np.minimum(column + 1, side - 1)
    ranges = [(np.arange(1, n + 1), starts[row * side + right + 1])]
    below = np.minimum(row + 1, side - 1) * side
    last = row == side - 1
    first, end = starts[below + left], starts[below + right + 1]
    ranges.append((first, np.where(last, first, end)))
    for begin, end in ranges:
        sums = offsets_from(_HOST, end - begin)
        lo = 0
        while lo < n:
            hi = max(int(np.searchsorted(sums, sums[lo] + draws.AT_ONCE, "right")) - 1, lo + 1)
            count = (end - begin)[lo:hi]
            u = np.repeat(np.arange(lo, hi), count)
            v = np.repeat(begin[lo:hi] - (sums[lo:hi] - sums[lo]), count) + np.arange(u.size)
            near = (x[u] - x[v]) ** 2 + (y[u] - y[v]) ** 2 <= radius * radius
            yield u[near].astype(np.int32), v[near].astype(np.int32)
            lo = hi


def _permutation(where: Device, n: int, seed: int) -> Array:
    """Return a random permutation of ``n`` points, a power of two, from one stream."""
    part = min(n, draws.AT_ONCE)
    starts = range(0, n, part)
    some = [np.random.PCG64(np.random.SeedSequence([seed, 4])).advance(k) for k in starts]
    keys = raw_bits(where, some, part).reshape(-1)
    return where.xp.argsort(keys, kind="stable").astype(np.int32)
