"""Random weights of edges: hashes of the seed and the ends, equal for both arcs of an edge."""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from morph.generate.draws import UNIT
from morph.graph import Graph
from morph.graph.arrange import Rows, sources_from
from morph.language.arguments import check_number
from morph.language.messages import shown
from morph.launch.foreach import foreach, func, kernel
from morph.prelude import f64, i32, i64, static, u64
from morph.runtime.device import Array, Device

Weight = tuple[float, float] | None


class Limits(NamedTuple):
    """The lowest and the highest weight, and their difference: integers or doubles."""

    low: float
    high: float
    width: float


class Hashed(NamedTuple):
    """How weights follow from the ends of an edge.

    Attributes
    ----------
    weight : (low, high)
    directed, simple : bool
        As in `uniform`.
    seed : int
    """

    weight: tuple[float, float]
    directed: bool
    simple: bool
    seed: int


def weight_type(weight: Weight) -> type[np.generic] | None:
    """Check a range of weights; returns the dtype of the column."""
    if weight is None:
        return None
    try:
        low, high = weight
    except (TypeError, ValueError):
        raise TypeError(f"weight is a pair (low, high), not {shown(weight)}") from None
    check_number(low, "the lowest weight")
    check_number(high, "the highest weight")
    if isinstance(low, int | np.integer) and isinstance(high, int | np.integer):
        if not -(2**63) <= low <= high < 2**63 or high - low >= 2**53:
            raise ValueError(f"weight = {weight}: expected low <= high, less than 2^53 apart")
        return np.int32 if low >= -(2**31) and high < 2**31 else np.int64
    if not -math.inf < low <= high < math.inf:
        raise ValueError(f"weight = {weight}: expected low <= high, finite")
    return np.float64


@func
def mixed(bits):
    """Mix bits by the finalizer of SplitMix64 (Steele and others, 2014)."""
    bits = bits + u64(0x9E3779B97F4A7C15)
    bits = (bits ^ bits >> 30) * u64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> 27) * u64(0x94D049BB133111EB)
    return bits ^ bits >> 31


@kernel
def draw_weight(
    p, first, salt, limits, directed: static, counted: static, real: static, narrow: static
):
    """Hash the seed, the ends and the index among parallel edges to a weight in a range."""
    for e in p.outedges:
        u, v = u64(p.id + first), u64(e.dst.id)
        if not directed:
            u, v = min(u, v), max(u, v)
        word = mixed((u << 32 | v) ^ salt)
        if counted:
            word += e.index
        share = f64(mixed(word) >> 11) * UNIT
        if real:
            e.weight = min(limits.low + share * limits.width, limits.high)
        else:
            drawn = min(i64(share * f64(limits.width + 1)), limits.width) + limits.low
            if narrow:
                e.weight = i32(drawn)
            else:
                e.weight = drawn


def _count_parallel(where: Device, rows: Rows, out: Array) -> None:
    """Count the preceding parallel edges of each edge."""
    src = sources_from(where, rows.offsets, rows.dst.size)
    begin = 0  # first of the edges parallel to the last one
    with where.active():
        xp = where.xp
        for start in range(0, out.size, where.bulk):
            end = min(start + where.bulk, out.size)
            fresh, second = xp.zeros(end - start, bool), max(start, 1)
            for a in (src, rows.dst):
                fresh[second - start :] |= a[second:end] != a[second - 1 : end - 1]
            first = xp.concatenate([xp.full(1, begin), xp.flatnonzero(fresh) + start])
            first = first[xp.cumsum(fresh)]
            out[start:end] = xp.arange(start, end) - first
            begin = int(first[-1])


def draw_weights(where: Device, rows: Rows, first: int, hashed: Hashed) -> Array:
    """Return the weights of sorted edges, in whose rows the points are numbered from ``first``."""
    low, high = hashed.weight
    kind = weight_type(hashed.weight)
    salt = np.random.SeedSequence([hashed.seed, 2]).generate_state(1, np.uint64)[0]
    g = Graph._of_rows(where, Rows(rows.offsets, None, rows.dst, None), True)
    g.edges.add("weight", kind)
    if not hashed.simple:
        g.edges.add("index", np.uint64)
        _count_parallel(where, rows, g.edges.columns["index"].array)
    real = kind is np.float64
    to = float if real else int
    limits = Limits(to(low), to(high), to(high - low))
    options = hashed.directed, not hashed.simple, real, kind is np.int32
    foreach(g.points, draw_weight, first, salt, limits, *options)
    found = g.edges.columns["weight"].array
    g.dissolve()
    return found
