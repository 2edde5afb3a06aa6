"""Statistics of edge weights: mean, maximum, and symmetry.

Symmetry (each arc has a reverse of equal weight) is tested by a salted hash of the ends and the
weight, which is added for arcs from the smaller to the larger id and subtracted for the others: the
sum is 0 if weights are symmetric; otherwise it is 0 for about one in 2**64 salts, and the salt is
random.  Statistics of integer weights are cached.  Later calls only test whether the weights are
unchanged, by a hash of weights and ids of edges.  On a GPU this test may run beside the search that
uses the statistics, see `expected`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import live_edges, pieces
from morph.algorithms.graph.workspace import WEIGHT_SUMS
from morph.data.scalars import Scalars
from morph.graph import Graph
from morph.graph.labels import name_of
from morph.launch.foreach import foreach, func, kernel
from morph.operators.hashing import mix64
from morph.partition.graph import PartitionedGraph
from morph.prelude import f64, i64, u64, vector
from morph.runtime.arrays import all_true, rough_mean

DELTA_SCALE = 32  # delta is the mean weight times this over the mean degree
NARROW = frozenset("i1 i2 i4 u1 u2 u4 f4 f8".split())  # types that `measure` handles
INFINITY = 2**31 - 1  # of 32-bit distances
LONGEST_PATH = 2**16  # estimate of the largest number of edges of a shortest path
HALF = 2**32  # a sum of 64 bits is returned as two numbers below this, exact in float64
SALT = random.SystemRandom().getrandbits(63)


@func
def signed_hash(a, b, w, salt):
    h = (min(a, b) << 32) + max(a, b) ^ salt
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93
    h = mix64((h ^ h >> 32) + w)
    if a < b:
        return h
    if b < a:
        return u64(0) - h
    return u64(0)


@func
def skew_term(e, w, salt):
    """Return an arc's term of the skew, whose sum is 0 if weights are symmetric."""
    return signed_hash(u64(e.src.id), u64(e.dst.id), w, salt)


@func
def skew_term_in_parts(e, w, salt):
    return signed_hash(u64(e.src.global_id), u64(e.dst.global_id), w, salt)


@func
def hash_term(e, w, salt):
    """Return an arc's term of a hash of all weights and the ids of their edges.

    A linear function of the weights, which have at most 32 bits, with pseudo-random coefficients.
    These are odd, so that a change of one weight always changes the hash.
    """
    x = u64(e.id) * 0xD6E8FEB86659FD93 + salt
    x = (x ^ x >> 32) * 0x9E3779B97F4A7C15  # prevents cancellation of regular changes
    return (x ^ x >> 29 | 1) * w


@func
def no_term(e, w, salt):
    """Return 0: the symmetry of floating-point weights is not tested."""
    return u64(0)


@kernel
def fingerprint(found, g, salt):
    terms = u64(0)
    for e in g.edges:
        terms += hash_term(e, u64(i64(e.weight)), salt)
    found.weights = vector(0.0, 0.0, 0.0, f64(terms >> 32), f64(terms % HALF))


@kernel
def measure(found, g, none, salt, term):
    total, largest = none, none
    bad, terms = i64(0), u64(0)
    for e in g.edges:
        w = none + e.weight
        if not w >= 0:
            bad += 1
        elif w - w == 0:  # finite
            total += w
            largest = max(largest, w)
        terms += term(e, u64(w), salt)
    found.weights = vector(f64(total), f64(largest), f64(bad), f64(terms >> 32), f64(terms % HALF))


class Weights(NamedTuple):
    """Statistics of the weights of a graph, see `measured`.

    Attributes
    ----------
    weight : list of array, or None
        The weights of each of the `pieces`, converted to the dtype of distances; None if no
        conversion is needed.
    dtype : dtype
        The dtype of distances: 32 bits if no path can overflow it.
    delta : float
    equal : bool
        Whether weights are symmetric; false if unknown.
    """

    weight: Any
    dtype: np.dtype[Any]
    delta: float
    equal: bool


def likely_32_bits(graph: Graph, delta: float) -> bool:
    """Whether distances probably fit 32 bits, although the longest possible path does not."""
    kind = graph.edges.columns["weight"].dtype
    mean = delta * len(graph.edges) / (DELTA_SCALE * max(len(graph.points), 1))
    return np.result_type(kind, np.int32) == np.int32 and mean * LONGEST_PATH < INFINITY


def measured(graph: Graph) -> Weights:
    """Compute the statistics of the weights.

    Raises
    ------
    ValueError
        If a weight is negative or NaN.
    """
    if not _in_one_pass(graph):
        return Weights(*_measured_by_arrays(graph), False)
    if isinstance(graph, PartitionedGraph):
        graph.edges._refresh("weight")
        found: dict[int, list[float]] = {}
        graph.each_part(
            lambda k: found.update({k: _sums(graph.local(k), skew_term_in_parts, graph.changes)})
        )
        sums = np.array(graph.gather(found.__getitem__))
        m, total, _, bad, high, low = sums.sum(0).tolist()
        largest = sums[:, 2].max()
    else:
        m, total, largest, bad, high, low = _sums(graph, skew_term)
    return _weights(graph, m, total, largest, bad, high, low)


def _in_one_pass(graph: Graph) -> bool:
    """Whether `measure` handles the graph: types of weights, no deleted points, some edges."""
    kind = graph.edges.columns["weight"].dtype.newbyteorder("=").str[1:]
    return not graph.points.deletes and kind in NARROW and graph.edges.live > 0


def _weights(
    graph: Graph, m: float, total: float, largest: float, bad: float, high: float, low: float
) -> Weights:
    """Return the statistics for the sums of `measure` over ``m`` edges."""
    kind, n = graph.edges.columns["weight"].dtype, len(graph.points)
    # the halves are sums over all parts, as the two arcs of an edge may be in different parts
    skew = (int(high) * HALF + int(low)) % 2**64
    if bad:
        _measured_by_arrays(graph)  # raises an error that names the edge
    delta = total / m * DELTA_SCALE * n / m
    if kind.kind == "f":
        return Weights(None, np.result_type(kind, np.float32), delta, False)
    dtype = _integer(kind, int(largest) * n + delta)
    if kind != np.uint32:
        return Weights(None, dtype, delta, not skew)
    return Weights(_unsigned(graph, dtype), dtype, delta, not skew)


def expected(graph: Graph) -> tuple[Weights, Callable[[], bool]]:
    """Return statistics of the weights that are probably valid.

    On a GPU statistics of an earlier call are returned at once, while the device computes the hash
    of the weights.

    Returns
    -------
    weights : Weights
    are_valid : callable
        Waits for the hash, and returns whether the statistics are those of the present weights.

    Raises
    ------
    ValueError
        As `measured`.
    """
    if isinstance(graph, PartitionedGraph) or graph.device.on_host or not _in_one_pass(graph):
        return measured(graph), _always
    known: KnownSums | None = graph.kept.get(WEIGHT_SUMS)
    is_integer = graph.edges.columns["weight"].dtype.kind in "iu"
    if known is None or known.changes != (0, graph.changes) or known.bad or not is_integer:
        return measured(graph), _always
    foreach(known.found, fingerprint, graph, u64(SALT))
    return _weights(graph, graph.edges.live, *known.sums), known.matches


def _always() -> bool:
    return True


def has_equal_reverses(graph: Graph) -> bool:
    """Whether each arc has a reverse of the same weight; false if unknown."""
    column = graph.edges.columns.get("weight")
    if column is None or graph.points.deletes or graph.directed or not graph.edges.live:
        return False
    if column.dtype.kind == "f" or column.dtype.newbyteorder("=").str[1:] not in NARROW:
        return False
    return not any(_sums(graph, skew_term)[4:])


class KnownSums(NamedTuple):
    """Cached sums of integer weights."""

    found: Scalars  # results of `fingerprint` and `measure`
    changes: tuple[int, ...]  # modification counters of the edges: of all parts, and of the graph
    terms: list[float]  # the hash, in two halves
    sums: list[float]  # the sums of `measure`, of which the last two are the skew

    @property
    def bad(self) -> bool:
        """Whether a weight is negative."""
        return self.sums[2] > 0

    def matches(self) -> bool:
        """Whether the hash by the last `fingerprint` is that of the weights with these sums."""
        return bool(self.found.weights.tolist()[3:] == self.terms)


def _sums(graph: Graph, term: Any, changes: int = 0) -> list[float]:
    """Return the number of edges of a graph or a part, and the sums of `measure`."""
    known: KnownSums | None = graph.kept.pop(WEIGHT_SUMS, None)  # removed while in use
    found = known.found if known else Scalars(graph, weights=np.zeros(5))
    if graph.edges.columns["weight"].dtype.kind == "f":
        foreach(found, measure, graph, f64(0), u64(SALT), no_term)
        return [graph.edges.live, *found.weights.tolist()]
    foreach(found, fingerprint, graph, u64(SALT))
    current = changes, graph.changes
    if not known or known.changes != current or not known.matches():
        terms = found.weights.tolist()[3:]
        foreach(found, measure, graph, i64(0), u64(SALT), term)
        known = KnownSums(found, current, terms, found.weights.tolist())
    graph.kept[WEIGHT_SUMS] = known
    return [graph.edges.live, *known.sums]


def _integer(kind: np.dtype[Any], longest: float) -> np.dtype[Any]:
    narrow = np.result_type(kind, np.int32) == np.int32
    return np.dtype(np.int32 if narrow and longest < INFINITY else np.int64)


def _unsigned(graph: Graph, dtype: np.dtype[Any]) -> list[Any]:
    """Return the weights of each piece in a signed dtype."""
    found, largest = [], np.uint64(np.iinfo(np.int64).max)
    for g in pieces(graph):
        with g.device.active():
            weight = g.edges.weight.array.astype(np.uint64)
            found.append(g.device.xp.minimum(weight, largest).astype(dtype))
    return found


def refuse_negative(weight: Any, graph: Any, ids: Any) -> None:
    """Raise an error if the weight of one of the edges ``ids`` is negative or NaN."""
    if not all_true(weight >= 0):
        k = int((~(weight >= 0)).argmax())
        u, v = (name_of(graph, end[ids][k]) for end in (graph.edges.src, graph.edges.dst))
        raise ValueError(
            "sssp needs weights that are not negative and not NaN, but the edge from"
            f" {u} to {v} has {weight[k]}"
        )


def _measured_by_arrays(graph: Graph) -> tuple[Any, np.dtype[Any], float]:
    """Measure weights of any dtype by array operations; symmetry is not tested."""
    live, n = live_edges(graph), len(graph.points)
    work = graph.device.array_device(4 * len(graph.edges))
    xp = work.xp
    with work.active():
        weight = graph.edges.weight[live]
        weight = weight if work is graph.device else work.asarray(weight)
        refuse_negative(weight, graph, live)
        finite = weight[xp.isfinite(weight)] if weight.dtype.kind == "f" else weight
        mean = rough_mean(finite) if finite.size else 0.0
        delta = mean * DELTA_SCALE * n / max(weight.size, 1)
        if weight.dtype.kind == "f":
            return None, np.result_type(weight.dtype, np.float32), delta
        dtype = _integer(weight.dtype, int(weight.max()) * n + delta if weight.size else 0)
        if weight.dtype.kind == "i" or weight.dtype.itemsize < 4 and weight.dtype.kind == "u":
            return None, dtype, delta
    return _unsigned(graph, dtype), dtype, delta
