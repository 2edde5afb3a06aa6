"""Makes a graph of generated pairs of ends, on one device or in parts.

Edges are generated as 64-bit keys (source, target), sorted and converted to CSR on the device of
the graph.  Parts of graphs, and large graphs on a GPU, are sorted in groups of consecutive sources,
with a peak memory of 1.1 to 1.3 times the size of the result; on one CPU it is about 1.7 times.
Each part draws a share of the edges and sends them to the owners of their sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from morph.generate import draws
from morph.generate.keys import KeyGroups, SortedEdges, number_of_groups, source_offsets
from morph.generate.weights import Hashed, Weight, draw_weights, weight_type
from morph.graph import Graph
from morph.graph.arrange import Rows, require_memory
from morph.partition.partition import bounds_by_range, checked_shares
from morph.partition.pool import each_part
from morph.partition.ranges import partitioned, places
from morph.partition.transport import Transport, agree
from morph.runtime.device import Array, Device, device_for, require_free

Pair = tuple[Array, Array]  # ends of edges
Share = tuple[int, int]  # k, n: the k-th of n equal shares
Place = str | Device | list[Any] | tuple[Any, ...] | None

_PASSES = 8  # maximum number of passes, in each of which all edges are drawn, see `_passes`
_BATCHES = 12  # in which a GPU draws the edges of a part, if these have `bulk` to 3 * `bulk` edges


def graph_of_pairs(
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

    def weighted_rows(found: SortedEdges) -> Rows:
        rows = found.rows()
        if weight is not None:
            first, hashed = found.own.start, Hashed(weight, directed, simple, seed)
            rows.weight = draw_weights(found.where, rows, first, hashed)
        return rows

    if comm is None and not isinstance(devices, (list, tuple)):
        where = device_for(devices)
        # groups save memory, but cost time
        at_once = where.on_host or 24 * most < (where.free() or 0)
        groups = 1 if at_once else number_of_groups(where, most)
        held = kind if groups > 1 else np.int64  # a single group needs keys and edges at once
        require_memory(where, n, most, held, arranged=True)
        found, whole = SortedEdges(where, range(n)), KeyGroups(where, range(n), groups, most, True)
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
        k: SortedEdges(devices[k], range(*bounds[k : k + 2]), passes > 1) for k in transport.here
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
    batch = 48 * min(most, draws.AT_ONCE * streams_at_once(where, most // 2 * parts, (0, parts)))
    drawing = keys + batch + targets * (passes - 1) // passes + 4 * n
    group = 8 * most // (passes * max(number_of_groups(where, most // passes), 1))
    sorting = keys + group + (targets if passes > 1 else 0)
    numbering = targets + columns * most + 24 * n
    needed = max(drawing, sorting, 2 * targets, numbering) + 16 * own
    return needed + needed // (16 if passes > 1 else 8)  # free blocks of a pool are not contiguous


def streams_at_once(where: Device, m: int, share: Share) -> int:
    """Return from how many streams a device draws at once of its share of ``m`` edges."""
    if where.on_host:
        return 1
    size = min(max(where.bulk, m // (share[1] * _BATCHES)), 3 * where.bulk)
    return max(size // draws.AT_ONCE, 1)


def _exchange(
    devices: list[Device], transport: Transport, bounds: list[int], own: list[range], most: int,
    keys_of: Callable[[int, list[range]], Iterator[Array]],
) -> dict[int, KeyGroups]:  # fmt: skip
    """Send the keys that each part draws to the owners of their sources, batch by batch.

    Returns the keys with sources in ``own``, about ``most``, of each part of this process.
    """
    batches, waiting = dict[int, Iterator[Array]](), dict[int, KeyGroups]()
    drawn, received = dict[int, Array | None](), dict[int, Any]()
    for k in transport.here:
        batches[k] = keys_of(k, own)
        waiting[k] = KeyGroups(devices[k], own[k], number_of_groups(devices[k], most), most, False)

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
            return [[keys[i:j]] for i, j in pairwise(source_offsets(where, keys, bounds))]

    while True:
        each_part(devices, transport, keep_and_draw)
        if not any(transport.gather({k: keys is not None for k, keys in drawn.items()})):
            return waiting
        received.update(transport.exchange({k: divided(k) for k in transport.here}))


def _sort(
    devices: list[Device], transport: Transport, edges: Mapping[int, SortedEdges],
    waiting: dict[int, KeyGroups], simple: bool,
) -> None:  # fmt: skip
    """Sort the keys of each part, ``waiting``, and add them to its edges."""

    def sort(k: int) -> None:
        with devices[k].active():
            edges[k].add(waiting.pop(k), simple)

    each_part(devices, transport, sort)


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
