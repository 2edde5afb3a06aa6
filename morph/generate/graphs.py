"""Generators of graphs: uniform random, R-MAT, grids and tori, random geometric.

The same arguments yield the same graph, on every machine and device and with every version of
NumPy: random bits are from PCG64, with one stream for each part of the edges, and weights are
hashes of the seed and the ends, so that both arcs of an edge have the same weight.  Edges are
generated as 64-bit keys (source, target), sorted and converted to CSR on the device of the graph.
Parts of graphs, and large graphs on a GPU, are sorted in groups of consecutive sources, with a peak
memory of 1.1 to 1.3 times the size of the result; on one CPU it is about 1.7 times.

Unless ``directed``, the reverse of every edge is added; unless ``simple=False``, self-loops and
duplicates are dropped, so that there are fewer edges than were drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.data.conversion import as_integer, number
from morph.generate.draws import UNIT, Thresholds, check, quadrants, raw_bits, streams
from morph.generate.weights import Hashed, Weight, draw_weights, weight_type
from morph.graph import Graph
from morph.graph.arrange import (
    Rows,
    empty,
    offsets_from,
    require_memory,
)
from morph.language.arguments import boolean
from morph.language.dtypes import ID_LIMIT, f64
from morph.language.messages import shown
from morph.partition.group import share_of
from morph.partition.partition import bounds_by_range, checked_shares, partition
from morph.partition.pool import each_part
from morph.partition.ranges import partitioned, places
from morph.partition.transport import Transport, agree
from morph.runtime.device import Array, Device, device, device_for, require_free

GRAPH500 = (0.57, 0.19, 0.19)
"""Parameters a, b, c of the Graph500 benchmark's R-MAT graphs; d is 0.05."""
GTGRAPH = (0.45, 0.15, 0.15)
"""Parameters a, b, c of the GTgraph suite; d is 0.25."""

Ints = NDArray[np.int64]
Pair = tuple[Array, Array]  # ends of edges
Share = tuple[int, int]  # k, n: the k-th of n equal shares
Place = str | Device | list[Any] | tuple[Any, ...] | None

_HOST = device("cpu")
_PART = 1 << 17  # edges drawn at once, to fit the cache; determines the graphs
_LOW = 0xFFFFFFFF
_GROUPS = 64  # largest number of groups, into which each batch is divided
_CHUNKS = 16  # a chunk behind the first one of a group has 1 / _CHUNKS of a group's keys
_PASSES = 8  # maximum number of passes, in each of which all edges are drawn, see `_passes`
_BATCHES = 12  # in which a GPU draws the edges of a part, if these have `bulk` to 3 * `bulk` edges


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
        high, both included; else float64 in [low, high).
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
        for count, some in streams(m, seed, 0, _PART, _streams_of(where, m, share), share):
            ends = (raw_bits(where, some, 2 * count) >> np.uint64(11)) * (n * UNIT)
            ends = ends.astype(np.int64).reshape(-1, 2, count)
            yield ends[:, 0].reshape(-1), ends[:, 1].reshape(-1)

    return _graph(n, m, draw, weight, directed, simple, seed, (device, comm))


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
        number(x, name)
    if not 0 <= (scale := as_integer(scale, "scale")) <= 30:
        raise ValueError(f"scale = {scale}: expected 0 to 30")
    if not (min(a, b, c) >= 0 and a + b + c <= 1 + 1e-9):
        raise ValueError(f"a, b, c = {a}, {b}, {c}: expected probabilities, at most 1 together")
    if not 0 <= edge_factor < math.inf:
        raise ValueError(f"edge_factor = {edge_factor}: expected 0 or more, finite")
    n, m = 1 << scale, round(edge_factor * (1 << scale))
    check(n=n, m=m, seed=seed)
    least = Thresholds(*(np.uint32(min(round(p * 2**32), _LOW)) for p in (a, a + b, a + b + c)))

    def draw(where: Device, share: Share) -> Iterator[Pair]:
        names = _permutation(where, n, seed) if permute else None
        for count, some in streams(m, seed, 1, _PART, _streams_of(where, m, share), share):
            u, v = quadrants(where, some, count, scale, least)
            yield (u, v) if names is None else (names[u], names[v])

    return _graph(n, m, draw, weight, directed, simple, seed, (device, comm))


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
        part, own = _PART * _streams_of(where, n, share), share_of(n, *share)
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

    return _graph(n, 2 * n, draw, weight, False, True, seed, (device, comm))


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
        number(degree, "degree")
        if not 0 <= degree < math.inf:
            raise ValueError(f"degree = {degree}: expected 0 or more, finite")
        radius = math.sqrt(degree / (math.pi * max(n - 1, 1)))
    number(radius, "radius")
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
    graph = _graph(n, m, pairs, weight, False, True, seed, ("cpu" if divided else device, None))
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
    parts = [bits.random_raw(2 * count) for count, [bits] in streams(n, seed, 3, _PART)]
    places = np.concatenate([np.empty(0, np.uint64), *parts])
    x, y = ((places >> np.uint64(11)) * UNIT).reshape(-1, 2).T
    cell = (y * side).astype(np.int64) * side + (x * side).astype(np.int64)
    order = np.argsort(cell, kind="stable")
    starts = offsets_from(_HOST, np.bincount(cell, minlength=side * side))
    return np.ascontiguousarray(x[order]), np.ascontiguousarray(y[order]), starts, side


def _near(x: Any, y: Any, starts: Ints, side: int, radius: float) -> Iterator[Pair]:
    """Yield all pairs of points within a radius, each once, as int32 arrays of about `_PART` pairs.

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
            hi = max(int(np.searchsorted(sums, sums[lo] + _PART, "right")) - 1, lo + 1)
            count = (end - begin)[lo:hi]
            u = np.repeat(np.arange(lo, hi), count)
            v = np.repeat(begin[lo:hi] - (sums[lo:hi] - sums[lo]), count) + np.arange(u.size)
            near = (x[u] - x[v]) ** 2 + (y[u] - y[v]) ** 2 <= radius * radius
            yield u[near].astype(np.int32), v[near].astype(np.int32)
            lo = hi


def _streams_of(where: Device, m: int, share: Share) -> int:
    """Return how many pieces of `_PART` edges a device draws at once of its share of ``m``."""
    if where.on_host:
        return 1
    size = min(max(where.bulk, m // (share[1] * _BATCHES)), 3 * where.bulk)
    return max(size // _PART, 1)


def _graph(
    n: int, m: int, pairs: Callable[[Device, Share], Iterable[Pair]], weight: Weight,
    directed: bool, simple: bool, seed: int, spec: tuple[Any, Any],
) -> Any:  # fmt: skip
    """Make a graph of at most ``m`` edges on its device, or each part on its device.

    Parameters
    ----------
    pairs : callable
        ``pairs(device, share)`` yields the ends of a share of the edges, in arrays on the device.
    weight, directed, simple, seed
        As in `uniform`.
    spec : (device or list of them, communicator)
    """
    kind = weight_type(weight)
    most = m if directed else 2 * m
    devices, comm = spec

    def weighted_rows(found: _SortedEdges) -> Rows:
        rows = found.rows()
        if weight is not None:
            first, hashed = found.own.start, Hashed(weight, directed, simple, seed)
            rows.weight = draw_weights(found.where, rows, first, hashed)
        return rows

    if comm is None and not isinstance(devices, (list, tuple)):
        where = device_for(devices)
        # groups save memory, but cost time
        at_once = where.on_host or 24 * most < (where.free() or 0)
        groups = 1 if at_once else _groups(where, most)
        held = kind if groups > 1 else np.int64  # a single group needs keys and edges at once
        require_memory(where, n, most, held, arranged=True)
        found, whole = _SortedEdges(where, range(n)), _Groups(where, range(n), groups, most, True)
        with where.active():
            for keys in _keys(pairs(where, (0, 1)), directed, simple):
                whole.add(keys)
            found.add(whole, simple)
        return Graph._of_rows(where, weighted_rows(found), directed)

    devices, transport = places(devices, comm)
    agree(transport, "the graph", (n, m, weight, directed, simple, seed))
    parts = transport.size
    bounds = bounds_by_range(n, checked_shares(None, parts))
    columns = bytes_of_columns(kind, directed, simple)
    passes = _passes(devices, transport, n, most // parts, columns)
    edges = {
        k: _SortedEdges(devices[k], range(*bounds[k : k + 2]), passes > 1) for k in transport.here
    }

    def drawn(k: int, own: list[range]) -> Iterator[Array]:
        where = devices[k]
        chosen = _membership(where, own) if passes > 1 else None
        return _keys(pairs(where, (k, parts)), directed, simple, chosen)

    for i in range(passes):
        own = [range(a + (b - a) * i // passes, a + (b - a) * (i + 1) // passes)
               for a, b in pairwise(bounds)]  # fmt: skip
        waiting = _exchange(devices, transport, bounds, own, most // (parts * passes), drawn)
        _sort(devices, transport, edges, waiting, simple)
    return partitioned(
        devices, n, lambda where, own, k: weighted_rows(edges.pop(k)), directed, transport, bounds
    )


def _groups(where: Device, most: int) -> int:
    """Return the number of groups in which a device sorts at most ``most`` keys."""
    return min(-(-most // (where.bulk if where.on_host else where.bulk * 8)), _GROUPS)


def _passes(devices: list[Device], transport: Transport, n: int, most: int, columns: int) -> int:
    """Return the number of passes in which the parts are made; each draws all edges.

    A pass keeps the edges from some of the points.  The keys of edges take twice the memory of
    their targets, which replace them, so a part of ``most`` edges for whose keys the memory does
    not suffice is made in several passes.  ``columns`` are those of `bytes_of_columns`.

    Raises
    ------
    MemoryError
        If the free memory of a device does not suffice for `_PASSES` passes.
    """
    wanted = dict[int, int]()

    def choose(k: int) -> None:
        where = devices[k]
        together = sum(devices[j] == where for j in transport.here)
        free = where.free()
        needed = [bytes_of_part(where, n, most, transport.size, p, columns)
                  for p in range(1, _PASSES + 1)]  # fmt: skip
        fitting = [p for p, x in enumerate(needed, 1) if free is None or together * x <= free]
        if not fitting:
            made = f"part {k} of a graph of {n} points, with {most} edges,"
            require_free(where, together * needed[-1], made)
        wanted[k] = fitting[0] if fitting else 1

    each_part(devices, transport, choose)
    passes: int = max(transport.gather(wanted))
    return passes


def bytes_of_columns(kind: type[np.generic] | None, directed: bool, simple: bool) -> int:
    """Return the bytes for each edge of a part besides its target: weights, copies of other edges.

    ``kind`` is the type of the weights, if there are any.
    """
    width = 0 if kind is None else np.dtype(kind).itemsize
    counted = kind is not None and not simple  # parallel edges have different weights
    return 2 * width + (12 if counted else 0) + (16 if directed else 0)


def bytes_of_part(
    where: Device, n: int, most: int, parts: int, passes: int, columns: int = 0
) -> int:
    """Return the peak memory, in bytes, of making a part of at most ``most`` edges.

    The peak is in drawing or sorting in the last pass, in joining the targets of all groups, or in
    numbering points.  ``columns`` are those of `bytes_of_columns`.
    """
    own, targets, keys = n // parts, 4 * most, 8 * most // passes * 65 // 64
    batch = 48 * min(most, _PART * _streams_of(where, most // 2 * parts, (0, parts)))
    drawing = keys + batch + targets * (passes - 1) // passes + 4 * n
    group = 8 * most // (passes * max(_groups(where, most // passes), 1))
    sorting = keys + group + (targets if passes > 1 else 0)
    numbering = targets + columns * most + 24 * n
    needed = max(drawing, sorting, 2 * targets, numbering) + 16 * own
    return needed + needed // (16 if passes > 1 else 8)  # free blocks of a pool are not contiguous


def _exchange(
    devices: list[Device], transport: Transport, bounds: list[int], own: list[range], most: int,
    keys_of: Callable[[int, list[range]], Iterator[Array]],
) -> dict[int, _Groups]:  # fmt: skip
    """Send the keys that each part draws to the owners of their sources, batch by batch.

    Returns the keys with sources in ``own``, about ``most``, of each part of this process.
    """
    batches, waiting = dict[int, Iterator[Array]](), dict[int, _Groups]()
    drawn, received = dict[int, Array | None](), dict[int, Any]()
    for k in transport.here:
        batches[k] = keys_of(k, own)
        waiting[k] = _Groups(devices[k], own[k], _groups(devices[k], most), most, False)

    def keep_and_draw(k: int) -> None:
        where = devices[k]
        with where.active():
            for (keys,) in received.pop(k, ()):
                if keys.size:
                    waiting[k].add(where.asarray(keys), in_order=True)
            keys = next(batches[k], None)
            if keys is not None:
                keys.sort()
            drawn[k] = keys

    def divided(k: int) -> list[list[Array]]:
        where, keys = devices[k], drawn.pop(k)
        with where.active():
            if keys is None:
                keys = where.zeros(0, np.int64)
            return [[keys[i:j]] for i, j in pairwise(_places(where, keys, bounds))]

    while True:
        each_part(devices, transport, keep_and_draw)
        if not any(transport.gather({k: keys is not None for k, keys in drawn.items()})):
            return waiting
        received.update(transport.exchange({k: divided(k) for k in transport.here}))


def _sort(
    devices: list[Device], transport: Transport, edges: Mapping[int, _SortedEdges],
    waiting: dict[int, _Groups], simple: bool,
) -> None:  # fmt: skip
    """Sort the keys of each part, ``waiting``, and add them to its edges."""

    def sort(k: int) -> None:
        with devices[k].active():
            edges[k].add(waiting.pop(k), simple)

    each_part(devices, transport, sort)


def _places(where: Device, keys: Array, sources: list[int]) -> list[int]:
    """Return the index of the first key of each source among sorted keys."""
    first = where.asarray(np.array(sources, np.int64) << 32)
    found: list[int] = where.to_host(where.xp.searchsorted(keys, first)).tolist()
    return found


def _membership(where: Device, ranges: Sequence[range]) -> Callable[[Array], Array]:
    """Return a function of point numbers: whether each is in one of the ``ranges``, in order."""
    ends = where.asarray(np.array([(x.start, x.stop) for x in ranges], np.int64).reshape(-1))
    return lambda u: (where.xp.searchsorted(ends, u, side="right") & 1).astype(bool)


def _keys(
    pairs: Iterable[Pair], directed: bool, simple: bool,
    chosen: Callable[[Array], Array] | None = None,
) -> Iterator[Array]:  # fmt: skip
    """Yield edges, and their reverses unless directed, as int64 keys: source << 32 | target.

    With ``chosen``, only keys with sources for which it is true.  With ``simple``, no self-loops.
    """
    for u, v in pairs:
        if simple:
            kept = u != v
            u, v = u[kept], v[kept]
        yield _keys_of(u, v, chosen)
        if not directed:
            if not simple:
                kept = u != v
                u, v = u[kept], v[kept]
            yield _keys_of(v, u, chosen)


def _keys_of(u: Array, v: Array, chosen: Callable[[Array], Array] | None) -> Array:
    """Return the keys of edges from ``u`` to ``v``; with ``chosen``, as in `_keys`."""
    if chosen is not None:
        kept = chosen(u)
        u, v = u[kept], v[kept]
    return u.astype(np.int64) << 32 | v


class _Groups:
    """Keys of edges in groups of consecutive sources, each in chunks.

    Groups are balanced by the frequency of sources in the first batch, and have at most 1.25 times
    as many points as equal ranges.  On a GPU the first chunk of a group has space for all keys of
    the group, if later batches are like the first one; then these are sorted in place.

    Parameters
    ----------
    where : Device
    own : range
        The sources.
    groups : int
        The wanted number of groups.
    most : int
        An upper bound of the number of keys, if the points have equal degrees.
    is_bound : bool
        Whether ``most`` is an upper bound for any graph.

    Attributes
    ----------
    cuts : list of int
        The first source of each group, and the end.
    """

    def __init__(self, where: Device, own: range, groups: int, most: int, is_bound: bool) -> None:
        self.where, self.own, self.groups = where, own, groups
        self.cuts, self.most = [own.start, own.stop], most
        self._is_bound = groups <= 1 and is_bound
        self._chunk = max(most // (_CHUNKS * max(groups, 1)), 1)
        self._first = list[int]()  # the size of the first chunk of each group
        self._chunks, self._ends = list[list[Array]](), list[int]()

    def add(self, keys: Array, in_order: bool = False) -> None:
        """Add keys, which are sorted if they are ``in_order``, and may be overwritten otherwise."""
        if not keys.size:
            return
        if self.groups > 1 and not in_order:
            keys.sort()
        if self.groups > 1 and not self._chunks:
            self._divide(keys)
        places = [0, keys.size]
        if self.groups > 1:
            places = _places(self.where, keys, self.cuts)
        if not self._chunks:
            self._chunks, self._ends = [[] for _ in self.cuts[1:]], [0] * (len(self.cuts) - 1)
            self._first = self._expected(places)
        for k, (i, j) in enumerate(pairwise(places)):
            self._append(k, keys[i:j])

    def _append(self, k: int, keys: Array) -> None:
        """Copy keys to the chunks of a group; only the last chunk may have free space."""
        chunks, done = self._chunks[k], 0
        if self.where.on_host and not self._is_bound and keys.size:
            chunks.append(self.where.copy(keys))
            self._ends[k] = done = keys.size
        while done < keys.size:
            if not chunks or self._ends[k] == chunks[-1].size:
                size = self._chunk if chunks else max(self._first[k], self._chunk)
                chunks.append(empty(self.where, size, np.int64))
                self._ends[k] = 0
            begin = self._ends[k]
            end = min(begin + keys.size - done, chunks[-1].size)
            chunks[-1][begin:end] = keys[done : done + end - begin]
            done, self._ends[k] = done + end - begin, end

    def _divide(self, keys: Array) -> None:
        """Choose the groups by the sorted keys of the first batch."""
        where, own, groups = self.where, self.own, self.groups
        at = where.xp.arange(1, groups) * keys.size // groups
        frequent = where.to_host(keys[at] >> 32).tolist()
        even = (own.start + len(own) * k // groups for k in range(groups))
        cuts = sorted({*self.cuts, *even, *frequent})
        places, kept = _places(where, keys, cuts), [0]
        for k in range(1, len(cuts)):  # each group costs launches: small groups are joined
            share = max(
                (places[k] - places[kept[-1]]) / keys.size, (cuts[k] - cuts[kept[-1]]) / len(own)
            )
            if share * groups > 1.25 and k - 1 > kept[-1]:
                kept.append(k - 1)
        self.cuts = [cuts[k] for k in (*kept, len(cuts) - 1)]

    def _expected(self, places: list[int]) -> list[int]:
        """Return the expected number of keys of each group.

        That is the group's share of the first batch, in which its keys begin at ``places``.  If the
        group's share of the points is less than half of this, as in a grid, whose first batch has
        the first rows only, it is the share of the points.
        """
        if self._is_bound:
            return [self.most]
        shares = (np.diff(places) / places[-1], np.diff(self.cuts) / len(self.own))
        sizes = np.where(shares[0] <= 2 * shares[1], *shares) * self.most * (1 + 1 / 64)
        found: list[int] = sizes.astype(np.int64).tolist()
        return found

    @property
    def size(self) -> int:
        """The number of keys."""
        full = sum(a.size for chunks in self._chunks for a in chunks[:-1])
        return int(full + sum(self._ends))

    def take(self, k: int) -> Array:
        """Return the keys of a group, once; its chunks are freed."""
        chunks = self._chunks[k] if self._chunks else []
        if chunks:
            chunks[-1] = chunks[-1][: self._ends[k]]
        return _joined(self.where, chunks, np.int64)


class _SortedEdges:
    """The edges from consecutive points, sorted by source and target.

    They are stored as row offsets, int64, shape (points + 1,), and targets, int32, on the device.

    Parameters
    ----------
    where : Device
    own : range
        The points.
    at_once : bool
        Allocate the targets of all groups that are added together by one call: small ones between
        the keys would keep memory of these from being freed.
    """

    def __init__(self, where: Device, own: range, at_once: bool = False) -> None:
        self.where, self.own, self.at_once = where, own, at_once
        self._offsets: Array = None
        self._pieces, self._end = list[Array](), 0  # of the targets, and their number

    def add(self, given: _Groups, simple: bool) -> None:
        """Sort and add keys, group by group; their sources follow those of all earlier keys.

        With ``simple``, of equal keys one is added.  A key of 8 bytes becomes a target of 4, so the
        peak memory is that of the keys, a batch and a group.
        """
        where, xp, own = self.where, self.where.xp, self.own
        if self._offsets is None:
            self._offsets = where.zeros(len(own) + 1, np.int64)
        targets, begin = empty(where, given.size if self.at_once else 0, np.int32), self._end
        for k, (first, last) in enumerate(pairwise(given.cuts)):
            keys = given.take(k)
            keys.sort()
            if simple:
                keys = keys[: _drop_repeated(where, keys)]
            points = xp.arange(first + 1, last + 1)
            self._offsets[first - own.start + 1 : last - own.start + 1] = (
                xp.searchsorted(keys, points << 32) + self._end
            )
            first = self._end - begin
            dst = targets[first:] if self.at_once else empty(where, keys.size, np.int32)
            for start in range(0, keys.size, where.bulk):
                end = min(start + where.bulk, keys.size)
                dst[start:end] = keys[start:end] & _LOW
            if not self.at_once:
                self._pieces.append(dst)
            self._end += keys.size
            del keys, dst
        if self.at_once:
            self._pieces.append(targets[: self._end - begin])

    def rows(self) -> Rows:
        """Return all edges, once."""
        with self.where.active():
            return Rows(self._offsets, None, _joined(self.where, self._pieces, np.int32), None)


def _joined(where: Device, pieces: list[Array], dtype: Any) -> Array:
    """Concatenate arrays; each is freed after it has been copied."""
    if len(pieces) == 1:
        return pieces.pop()
    made, end = empty(where, sum(a.size for a in pieces), dtype), 0
    for k in range(len(pieces)):
        made[end : end + pieces[k].size] = pieces[k]
        end += pieces[k].size
        pieces[k] = None
    return made


def _drop_repeated(where: Device, keys: Array) -> int:
    """Move the distinct keys of a sorted array to the front; returns their number."""
    end, part_size = 0, where.bulk
    for start in range(0, keys.size, part_size):
        part = keys[start : start + part_size]
        fresh = where.xp.empty(part.size, bool)
        fresh[1:] = part[1:] != part[:-1]
        fresh[:1] = end == 0 or part[:1] != keys[end - 1]
        part = part[fresh]
        keys[end : end + part.size] = part
        end += part.size
    return end


def _permutation(where: Device, n: int, seed: int) -> Array:
    """Return a random permutation of ``n`` points, a power of two, from one stream."""
    part = min(n, _PART)
    starts = range(0, n, part)
    some = [np.random.PCG64(np.random.SeedSequence([seed, 4])).advance(k) for k in starts]
    keys = raw_bits(where, some, part).reshape(-1)
    return where.xp.argsort(keys, kind="stable").astype(np.int32)
