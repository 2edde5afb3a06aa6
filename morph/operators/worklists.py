"""Library kernels over worklists: advance and filter, with and without repeats, and order by key.

These are kernels and programs in the language, like any of the user's: `advance`, `keep` and their
kin go into ``foreach`` in a program or launch by launch, `in_order` makes a program.  After
Gunrock's operators (Wang et al., PPoPP 2016) and Falcon's ``OrderByIntValue`` (Unnikrishnan et al.
2015), whose order is near-far's (Davidson, Baxter, Garland, Owens, IPDPS 2014) here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from morph.data.collection import Collection
from morph.data.table import Table
from morph.launch.foreach import Kernel, Program, foreach, kernel, program
from morph.prelude import atomic_min, single

FEW = 4096  # with fewer items at once than this, the next step of `in_order` is twice as wide


@kernel
def advance(p, visit, into, *more):
    """Add each neighbour ``t`` for which ``visit(p, t, *more)`` is true to ``into``."""
    for t in p.outnbrs:
        if visit(p, t, *more):
            into.add(t)


@kernel
def advance_once(p, visit, into, *more):
    """The same, but each neighbour at most once a step, whichever edge leads to it."""
    for t in p.outnbrs:
        if visit(p, t, *more):
            if single(t):
                into.add(t)


@kernel
def advance_edges(p, visit, into, *more):
    """Add the target of each edge ``e`` for which ``visit(p, e, *more)`` is true to ``into``."""
    for e in p.outedges:
        if visit(p, e, *more):
            into.add(e.dst)


@kernel
def advance_entries(p, visit, into, *more):
    """Add an entry of the target of each edge ``e`` and a value for the other column of ``into``.

    ``visit(p, e, *more)`` returns whether, and the value, a vector where there are several.
    """
    for e in p.outedges:
        wanted, value = visit(p, e, *more)
        if wanted:
            into.add(e.dst, value)


@kernel
def keep(p, wanted, into, *more):
    """Add the items for which ``wanted(p, *more)`` is true to ``into``: a filter."""
    if wanted(p, *more):
        into.add(p)


@kernel
def keep_once(p, wanted, into, *more):
    """The same, without repeats."""
    if wanted(p, *more):
        if single(p):
            into.add(p)


@kernel
def part(entry, limit, near, deferred, accumulator):
    """Add entries with keys up to a limit to ``near``, others to ``deferred``; note the least."""
    if entry.key > limit:
        deferred.add(entry.item, key=entry.key)
        atomic_min(accumulator[0].least, entry.key)
    else:  # NaN too: it would wait for ever
        near.add(entry.item, key=entry.key)


@cache
def ordered(kernel: Kernel, adapts: bool) -> Program:
    """The program that runs a kernel over items with keys."""

    @program
    def run(graph, near, then, far, deferred, accumulator, limit, delta, most):
        steps = 0
        while True:
            while not near.empty:
                foreach(near, kernel, graph, limit, then, far, ahead=then)
                near, then = then, near
                then.clear()
                steps += 1
            if far.empty:
                return steps
            limit = max(limit, min(limit, most - delta) + delta)
            accumulator[0].least = most
            foreach(far, part, limit, near, deferred, accumulator)
            far, deferred = deferred, far
            deferred.clear()
            if near.empty:
                limit = accumulator[0].least  # nothing lies before it
            elif adapts and len(near) < FEW:
                delta = max(delta, min(delta, most - delta) + delta)

    return run


def in_order(
    items: Collection, kernel: Kernel, graph: Any, *, key: str = "key", delta: Any = None
) -> int:
    """Run a kernel over a worklist and the items it adds, those with the smallest keys first.

    Parameters
    ----------
    items : Collection
        Rows of a table with one column, of a real number type: the key.  Emptied.
    kernel : Kernel
        ``kernel(entry, graph, limit, near, far)``: an item has ``entry.item`` and ``entry.key``.
        What it adds with a key of at most ``limit`` goes to ``near``, the rest to ``far``, as
        ``far.add(t, key=d)``.  It has to be right in any order: the order only saves work.
    graph : Graph
        What the kernel is given.
    key : str
        Name of the column in ``items``.
    delta : number, optional
        Items whose keys are within so much of each other count as equal.  By default it begins at
        the mean weight of the edges times 32 over the mean degree, if the graph has weights, else
        at 1, and is doubled while there are few items at once.

    Returns
    -------
    int
        How many steps it took.

    Raises
    ------
    ValueError
        If ``items`` has not exactly the key beside its items, or ``delta`` is not positive.
    """
    if [*items.columns] != ["item", key]:
        raise ValueError(
            f"in_order needs items with one column {key!r}, but these have {[*items.columns]}"
        )
    dtype = np.dtype(items.columns[key].dtype)
    if items.columns[key].size or dtype.kind not in "iuf":
        raise ValueError(f"the key {key!r} is no number")
    if delta is not None and not delta > 0:
        raise ValueError(f"delta is a positive number, not {delta}")
    real = dtype.kind == "f"
    most = dtype.type(np.inf if real else np.iinfo(dtype).max)
    largest = np.finfo(dtype).max if real else most
    wide = min(_delta(graph) if delta is None else delta, float(largest) / 4)
    width = dtype.type(wide if real else max(int(wide), 1))
    assert items.table is not None
    lists = [Collection(items.table, capacity=len(items), key=dtype) for _ in range(4)]
    accumulator = Table("accumulator", items.device)
    accumulator.add("least", dtype)
    accumulator.extend(1)
    if items.empty:
        return 0
    keys = getattr(items, key).array
    with items.device.active():
        limit = dtype.type(keys.min().item())
    lists[0].extend(items.items, key=keys)
    items.clear()
    program: Callable[..., Any] = ordered(kernel, delta is None)
    return int(program(graph, *lists, accumulator, limit, width, most))


def _delta(graph: Any) -> float:
    """Give near-far's width for a graph: the mean weight times 32 over the mean degree."""
    edges = graph.edges
    if "weight" not in edges.columns or not len(edges):
        return 1
    with graph.device.active():
        mean = float(edges.columns["weight"].array.mean(dtype=np.float64))
    return mean * 32 * len(graph.points) / len(edges) or 1.0
