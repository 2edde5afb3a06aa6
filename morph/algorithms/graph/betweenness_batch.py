"""Betweenness of up to 64 sources at once, for graphs whose steps take longer than their work.

These are partitioned graphs, whose steps wait for each other, and graphs of high diameter on a GPU.
A word of bits in each point has a bit for each source (as in `many_sources`), so that the sources
share the steps, and thus the exchanges between parts.  A step of the forward sweep finds the points
that the next level of any source contains, and adds up their counts of paths: a point pulls those
of its in-neighbours in the frontier.  All points with a source that has not reached them do so, or,
if the frontier is small, only its out-neighbours.  Each point keeps a stack of its levels with the
sources of each, from which the backward sweep takes them.  It gathers, as `betweenness.gather`, the
parts (1 + dependency) / paths of successors, which replace the counts.  Sums of up to 4 sources are
locals: atomics of all neighbours of a high-degree point, at one address, wait for each other.

The frontier has two words, for odd and even levels, so that a step reads one and writes the other.
They are not cleared: a bit of an earlier level leads only to points that the source has reached.
The backward sweep has two words of its own.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.path_counts import MOST, add_scaled, scaled_down
from morph.algorithms.graph.workspace import workspace
from morph.data.collection import Collection, Flag
from morph.data.scalars import Scalars
from morph.graph import Graph
from morph.language.dtypes import vec
from morph.launch.foreach import foreach, func, kernel, program
from morph.partition.graph import PartitionedGraph
from morph.prelude import (
    atomic_add,
    atomic_max,
    bit_positions,
    f64,
    floor,
    i32,
    static,
    u16,
    u64,
)

WIDTHS = 1, 4, 16, 64  # numbers of sources in a batch, and
FEW = 4  # a batch of so many sources has their sums in locals, and narrow words of bits
MOST_COUNTS = 1 << 24  # the most counts of a part, unless the batch has one source; 28 bytes each
SMALL = 1 << 14  # in graphs of at most so many points all points pull: a push has more exchanges
SPARSE = 16  # else if the frontier has over a 16th of the points
AT_ONCE = 32  # levels whose points the backward sweep lists by one pass over all points


class BatchWork(NamedTuple):
    """The objects of `sweep_batch`, as a bundle."""

    graph: Any
    state: Any  # the sources
    overflowed: Any  # flag: a count exceeds `MOST`


@func
def word(few: static, bits):
    """The word of the frontier's columns, narrow for few sources."""
    if few:
        return u16(bits)
    return bits


@kernel
def start(p, w, now, scaled: static, few: static):
    """Reset a point; find the sources that it is."""
    bits, k = u64(0), u64(0)
    for s in w.state.sources:
        if s == p.id:
            bits |= u64(1) << k
        k += u64(1)
    p.seen = bits
    p.front[0] = word(few, bits)
    p.front[1] = word(few, u64(0))
    p.back[0] = word(few, u64(0))
    p.back[1] = word(few, u64(0))
    p.height = i32(0)
    p.last = i32(-1)
    if scaled:
        for i in range(len(w.state.sources)):
            p.scale[i] = i32(0)
    if bits != u64(0):
        push_level(p, i32(0), bits)
        now.add(p)


@func
def push_level(p, level, bits):
    """Append a level, and the sources from which it contains the point."""
    p.bits[p.height] = bits
    p.levels[p.height] = level
    p.height += 1
    p.last = level


@kernel
def find_targets(p, level, stamp, then):
    """Find the points that the frontier of the previous level may reach, and perhaps others."""
    bits = u64(p.front[(level - 1) & 1])
    for t in p.outnbrs:
        if bits & ~u64(t.front[0] | t.front[1]) != u64(0):
            if atomic_max(t.stamp, stamp) < stamp:
                then.add(t)


@func
def value_of(t, i: static, bits, first):
    """The value of a source if the word ``bits`` has its bit, else 0; 1 in the first level."""
    if (bits >> u64(i)) & u64(1) == u64(0):
        return 0.0
    return 1.0 if first else t.value[i]


@func
def store_sums(p, first, second, third, fourth, few: static):
    """Store sums of locals, which threads that share a row add up without atomics."""
    p.sum[0] = first
    if few > 1:
        p.sum[1] = second
        p.sum[2] = third
        p.sum[3] = fourth


@kernel
def pull_paths(p, level, all_sources, w, then, scaled: static, few: static):
    """Add up the counts of in-neighbours in the previous level, for sources new to the point."""
    odd, unseen, coming = level & 1, all_sources & ~p.seen, u64(0)
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    for t in p.innbrs:
        bits = u64(t.front[1 - odd]) & unseen
        coming |= bits
        if few and not scaled:
            if bits != u64(0):
                first += value_of(t, 0, bits, level == 1)
                if few > 1:
                    second += value_of(t, 1, bits, level == 1)
                    third += value_of(t, 2, bits, level == 1)
                    fourth += value_of(t, 3, bits, level == 1)
        else:
            for i in bit_positions(bits):
                paths = t.value[i] if level > 1 else 1.0
                if scaled:
                    total, scale = add_scaled(p.sum[i], p.scale[i], paths, t.scale[i])
                    p.sum[i] = total
                    p.scale[i] = scale
                else:
                    atomic_add(p.sum[i], paths)
    if coming != u64(0):
        if few and not scaled:
            store_sums(p, first, second, third, fourth, few)
        for i in bit_positions(coming):
            total = p.sum[i]
            p.sum[i] = 0.0
            p.value[i] = total
            if not scaled:
                if total > MOST:
                    w.overflowed.set()
        p.seen |= coming
        p.front[odd] = word(few, coming)
        push_level(p, level, coming)
        then.add(p)


@kernel
def enqueue(p, then):
    then.add(p)


@kernel
def gather_parts(p, level, ends, scaled: static, few: static):
    """Add the parts of successors, for the sources whose current level contains the point."""
    odd, height = level & 1, p.height - 1
    bits = p.bits[height]
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    for t in p.outnbrs:
        found = u64(t.back[1 - odd]) & bits
        if few and not scaled:
            if found != u64(0):
                first += value_of(t, 0, found, False)
                if few > 1:
                    second += value_of(t, 1, found, False)
                    third += value_of(t, 2, found, False)
                    fourth += value_of(t, 3, found, False)
        else:
            for i in bit_positions(found):
                part = t.value[i]
                if scaled:
                    part = scaled_down(part, t.scale[i] - p.scale[i])
                atomic_add(p.sum[i], part)
    if few and not scaled:
        store_sums(p, first, second, third, fourth, few)
    share = 0.0
    for i in bit_positions(bits):
        paths = p.value[i] if level > 0 else 1.0
        total = p.sum[i] * paths
        p.sum[i] = 0.0
        p.value[i] = (1.0 + total) / paths
        # the paths to each other point that it reaches begin at a source
        share += total + ends if level > 0 else ends * floor(total + 0.5)
    p.share += share
    p.back[odd] = word(few, bits)
    p.height = height
    p.last = p.levels[height - 1] if height > 0 else i32(-1)


@program
def sweep_batch(w, now, then, all_sources, stamp, ends, scaled: static, few: static):
    """Add the dependencies for a batch of sources, ``few`` if these are 1 or 4, else 0.

    Returns the number of levels, or -1 less that if a count overflowed.  ``stamp`` is at least the
    sum of the numbers of levels of earlier sweeps.
    """
    now.clear()
    foreach(w.graph.points, start, w, now, scaled, few)
    level, n = i32(0), len(w.graph.points)
    while not now.empty:
        level += 1
        if len(now) * SPARSE > n or n <= SMALL:
            now.clear()
            foreach(w.graph.points, pull_paths, level, all_sources, w, now, scaled, few,
                    where=lambda p: p.seen != all_sources)  # fmt: skip
        else:
            foreach(now, find_targets, level, stamp + level, then)
            now.clear()
            foreach(then, pull_paths, level, all_sources, w, now, scaled, few)
            then.clear()
    if w.overflowed.take():
        return i32(-1) - level
    levels, least = level, i32(0 if ends > 0 else 1)
    while level > least:
        low = max(level - AT_ONCE, least)
        now.clear()
        foreach(w.graph.points, enqueue, now, where=lambda p: p.last >= low)
        while level > low:
            level -= 1
            foreach(now, gather_parts, level, ends, scaled, few, where=lambda p: p.last == level)
    return levels


def max_width(points: int) -> int:
    """Return the largest number of sources in a batch, for a part of so many points."""
    return max([1, *(w for w in WIDTHS if w * points <= MOST_COUNTS)])


def sweep_batches(
    graph: Graph | PartitionedGraph, sources: list[int], ends: float, added: ExitStack
) -> None:
    """Add the dependencies for each source to the column ``share``, which ``added`` removes."""
    parts = len(graph.devices) if isinstance(graph, PartitionedGraph) else 1
    width = next((w for w in WIDTHS if w >= len(sources)), WIDTHS[-1])
    width = min(width, max_width(len(graph.points) // parts))
    few = width if width <= FEW else 0
    make = partial(_objects, graph, width)
    objects = added.enter_context(workspace(graph, "betweenness", make, **_columns(width)))
    overflowed, state, now, then = objects
    work = objects.once(BatchWork, graph, state, overflowed)
    stamp, scaled = 0, 0
    for first in range(0, len(sources), width):
        batch = sources[first : first + width]
        state.sources = np.array(batch + [-1] * (width - len(batch)), np.int32)
        every, levels = np.uint64(2 ** len(batch) - 1), -1
        if not scaled:
            levels = objects.run(sweep_batch, work, now, then, every, np.int32(stamp), ends, 0, few)
        if levels < 0:
            stamp += -1 - levels
            if not scaled:
                scaled = 1
                scales = {"scale": (vec(i32, width), 0)}
                added.enter_context(graph.points.temporary_columns(**scales))
            levels = sweep_batch(work, now, then, every, np.int32(stamp), ends, 1, few)
        stamp += levels


def _columns(width: int) -> dict[str, Any]:
    """Return the columns of points that `sweep_batch` uses; ``sum`` is zero after each sweep."""
    pair, words, counts = vec(u16 if width <= FEW else u64, 2), vec(u64, width), vec(f64, width)
    kept = {
        "seen": u64, "front": pair, "back": pair, "height": i32, "last": i32, "bits": words,
        "levels": vec(i32, width), "value": counts, "sum": counts,
    }  # fmt: skip
    return {name: (t, None) for name, t in kept.items()} | {"stamp": (i32, 0), "share": (f64, 0)}


def _objects(graph: Graph | PartitionedGraph, width: int) -> list[Any]:
    """Make the objects of `sweep_batch`."""
    lists = [Collection(graph.points, capacity=len(graph.points)) for _ in range(2)]
    return [Flag(graph), Scalars(graph, sources=np.full(width, -1, np.int32)), *lists]
