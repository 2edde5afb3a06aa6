"""Priority buckets: a kernel processes entries in the approximate order of a key, by near-far.

Near-far is delta-stepping with two buckets (Davidson, Baxter, Garland, Owens, IPDPS 2014): entries
whose key is at most a limit are in the near bucket, all others in the far bucket.  A kernel runs
over the near bucket, and over the entries that it adds there, until the bucket is empty; then the
limit grows by delta, and the far bucket is split.  A small delta approximates the order of a
priority queue, a large one that of a worklist.  Within a bucket, entries may run asynchronously.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.data.collection import Collection
from morph.data.table import Table
from morph.language.arguments import check_number, check_type
from morph.language.messages import shown
from morph.launch.foreach import Function, Kernel, foreach, func, kernel, program
from morph.prelude import atomic_min
from morph.runtime.arrays import rough_mean

SMALL_BUCKET = 4096  # an adaptive queue doubles delta while the near bucket has fewer entries


class BucketQueue(NamedTuple):
    """Two buckets of entries with a ``key``, as a bundle; made by `bucket_queue`.

    Attributes
    ----------
    near, far : Collection
        The entries with keys up to the limit, and the others.
    next_near, next_far : Collection
        The second buffers.  After a stopped run, either buffer has the entries.
    state : Table
        One row: ``limit``, the largest key of the near bucket, and ``least``, of the far bucket.
    delta, largest : number
        The increment of the limit, and its maximum.
    adaptive : bool
        Whether delta is doubled while there are few entries.
    """

    near: Any
    next_near: Any
    far: Any
    next_far: Any
    state: Any
    delta: Any
    largest: Any
    adaptive: bool


class Order(NamedTuple):
    """The fields of a `BucketQueue` without its buckets, which a program swaps."""

    state: Any
    delta: Any
    largest: Any
    adaptive: bool


class Visit(NamedTuple):
    """The callbacks of `run_in_order` and their data, as a bundle.

    Attributes
    ----------
    kernel : Kernel
        ``kernel(entry, data, limit, near, far)``: adds entries with keys up to ``limit`` to
        ``near``, others to ``far``, as ``far.add(t, key=d)``.  It must be correct in any order.
    data : Graph, bundle, ...
        Passed to ``kernel`` and ``stop``.
    current : Function
        ``current(entry)``: false if the entry is stale; stale entries are removed.
    stop : Program
        ``stop(data, near, limit)``, called before each step: true ends the run.
    """

    kernel: Any
    data: Any
    current: Any
    stop: Any


@func
def always(entry):
    return True


@program
def never(data, near, limit):
    return False


@kernel
def split(entry, limit, near, far, state):
    if entry.key > limit:
        far.add(entry.item, key=entry.key)
        atomic_min(state[0].least, entry.key)
    else:  # also NaN, which no limit reaches
        near.add(entry.item, key=entry.key)


@program
def run_buckets(near, next_near, far, next_far, order, visit):
    limit, delta, steps = order.state[0].limit, order.delta, 0
    while True:
        while not near.empty:
            stopped = visit.stop(visit.data, near, limit)
            if stopped:
                order.state[0].limit = limit
                return steps
            foreach(near, visit.kernel, visit.data, limit, next_near, far, ahead=next_near,
                    where=visit.current)  # fmt: skip
            near, next_near = next_near, near
            next_near.clear()
            steps += 1
        if far.empty:
            order.state[0].limit = order.largest
            return steps
        stopped = visit.stop(visit.data, near, limit)
        if stopped:
            order.state[0].limit = limit
            return steps
        limit = max(limit, min(limit, order.largest - delta) + delta)
        order.state[0].least = order.largest
        foreach(far, split, limit, near, next_far, order.state, where=visit.current)
        far, next_far = next_far, far
        next_far.clear()
        if near.empty:
            limit = order.state[0].least  # skip empty buckets
        elif order.adaptive and len(near) < SMALL_BUCKET:
            delta = max(delta, min(delta, order.largest - delta) + delta)


@program
def run_in_order(queue, visit):
    """Run a kernel over the entries of a queue and those it adds; return the number of steps.

    Afterwards ``queue.state[0].limit`` is ``queue.largest`` unless ``visit.stop`` ended the run.
    """
    return run_buckets(
        queue.near, queue.next_near, queue.far, queue.next_far,
        Order(queue.state, queue.delta, queue.largest, queue.adaptive), visit,
    )  # fmt: skip


@program
def run_until_empty(now, following, kernel, data):
    """Run ``kernel(item, data, following)`` over a worklist and the items it adds."""
    while not now.empty:
        foreach(now, kernel, data, following, ahead=following)
        now, following = following, now
        following.clear()


def bucket_queue(
    table: Table, key: Any, delta: Any, *, largest: Any = None, adaptive: bool = False,
    capacity: int = 0,
) -> BucketQueue:  # fmt: skip
    """Make an empty queue for rows of a table, with keys of a real number type.

    Parameters
    ----------
    table : Table
    key : dtype
    delta : number
        Width of a bucket: entries whose keys differ by less are not ordered.
    largest : number, optional
        An upper bound of the keys; by default the largest of the type.
    adaptive : bool
        Whether delta is doubled while a bucket has few entries.
    capacity : int
        Initial capacity of each bucket.

    Returns
    -------
    BucketQueue

    Raises
    ------
    TypeError
        If ``delta`` is not a number.
    ValueError
        If ``key`` is not a real number type, or ``delta`` is not positive.
    """
    dtype = np.dtype(key)
    if dtype.kind not in "iuf":
        raise ValueError(f"key = {dtype}: expected a type of real numbers")
    check_delta(delta)
    if largest is None:
        largest = np.inf if dtype.kind == "f" else np.iinfo(dtype).max
    lists = (Collection(table, capacity=capacity, key=dtype) for _ in range(4))
    state = Table("state", table.device, limit=dtype, least=dtype)
    state.extend(1)
    numbers = dtype.type(delta), dtype.type(largest)
    return BucketQueue._make([*lists, state, *numbers, adaptive])


def check_delta(delta: Any) -> None:
    """Refuse a width of buckets that is not a positive number."""
    check_number(delta, "delta")
    if not delta > 0:
        raise ValueError(f"delta is a positive number, not {delta}")


def in_order(
    items: Collection, kernel: Kernel, graph: Any, *, key: str = "key", delta: Any = None,
    where: Function | None = None,
) -> int:  # fmt: skip
    """Run a kernel over a worklist and the items it adds, those with the smallest keys first.

    Parameters
    ----------
    items : Collection
        Rows of a table with one column, of a real number type: the key.  It is empty afterwards.
    kernel : Kernel
        ``kernel(entry, graph, limit, near, far)``: an item has ``entry.item`` and ``entry.key``.
        It adds entries with keys up to ``limit`` to ``near``, others to ``far``, as
        ``far.add(t, key=d)``.  It must be correct in any order: the order only reduces the work.
    graph : Graph or named tuple
        Passed to the kernel: a graph, or a bundle of a graph and further arguments.
    key : str
        Name of the column in ``items``.
    delta : number, optional
        Items whose keys differ by less are not ordered.  By default it begins at
        the mean weight of the edges times 32 over the mean degree, if the graph has weights, else
        at 1, and is doubled while there are few items per step.
    where : Function, optional
        A `func` of the entry: entries for which it is false are stale, and removed.

    Returns
    -------
    int
        The number of steps.

    Raises
    ------
    ValueError
        If ``items`` has not exactly one column besides its items, or ``delta`` is not positive.
    """
    check_type(items, "items", "Collection")
    if [*items.columns] != ["item", key]:
        raise ValueError(
            f"in_order needs items with one column {shown(key)}, but these have {[*items.columns]}"
        )
    dtype = np.dtype(items.columns[key].dtype)
    if items.columns[key].size or dtype.kind not in "iuf":
        raise ValueError(f"the key {shown(key)} is no number")
    if delta is not None:
        check_delta(delta)
    if items.empty:
        return 0
    real = dtype.kind == "f"
    largest = np.finfo(dtype).max if real else np.iinfo(dtype).max
    wide = min(_delta(graph) if delta is None else delta, float(largest) / 4)
    assert items.table is not None
    queue = bucket_queue(
        items.table, dtype, wide if real else max(int(wide), 1), adaptive=delta is None,
        capacity=len(items),
    )  # fmt: skip
    keys = getattr(items, key).array
    with items.device.active():
        queue.state.limit[:] = dtype.type(keys.min().item())
    queue.near.extend(items.items, key=keys)
    items.clear()
    return int(run_in_order(queue, Visit(kernel, graph, where or always, never)))


def _delta(graph: Any) -> float:
    """Return the bucket width for a graph: the mean weight times 32 over the mean degree."""
    graph = next(x for x in graph if hasattr(x, "edges")) if isinstance(graph, tuple) else graph
    edges = graph.edges
    if "weight" not in edges.columns or not len(edges):
        return 1
    with graph.device.active():
        mean = rough_mean(edges.columns["weight"].array)
    return mean * 32 * len(graph.points) / len(edges) or 1.0
