"""PageRank by power iteration, pulling along in-edges.

``rank(v) = d * sum of rank(u) * w(u, v) / out(u) over edges u -> v + (1 - d) * jump(v) + d * lost *
sink(v)``, where d is the damping, ``out(u)`` the out-strength of u (the weight of all its
out-edges), ``lost`` the rank of all points of out-strength 0, and ``jump`` and ``sink`` are vectors
of sum 1, usually the same (Page, Brin, Motwani, Winograd 1999; Unnikrishnan et al., Falcon, figure
33).  An iteration reads every in-edge once: O(n + m).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import early_results, live_edges, of_graph
from morph.algorithms.graph.workspace import workspace
from morph.data.scalars import Scalars
from morph.graph import Graph
from morph.language.arguments import boolean, check_number, integer
from morph.language.messages import shown
from morph.launch.foreach import foreach, func, kernel, program
from morph.partition.graph import PartitionedGraph
from morph.prelude import atomic_add, f32, f64
from morph.runtime.arrays import all_true, listed, refuse_masked


class PageRank(NamedTuple):
    """Result of `pagerank`: ``rank``, shape (n,), with sum 1; ``iterations``; ``error``."""

    rank: Any
    iterations: int
    error: float


class _Vectors(NamedTuple):
    """Vectors of sum 1, numbers if uniform; ``start`` and ``sink`` are None if as ``jump``."""

    jump: Any
    start: Any
    sink: Any


class _Programs(NamedTuple):
    iterate: Any
    iterate_weighted: Any
    iterate_reversed: Any


class _Variant(NamedTuple):
    """A program, and the data that it needs in addition to ranks and contributions."""

    program: Any
    columns: Mapping[str, Any] = {}  # of the points: dtype and initial value
    arriving: Any = None  # column of the edges: weight of the reverse edge


@func
def teleport(p, base):
    if hasattr(p, "extra"):  # then `jump` has the sinks
        return base * p.jump + p.extra
    if hasattr(p, "jump"):
        return base * p.jump
    return base


def _kernels(real: Any, part: Any) -> Any:
    """The kernels for dtypes of ranks and of contributions; sums are in double precision."""

    @func
    def contribution(p, out, rank, before, totals):
        """Return rank / out-strength, or the rank of a point of out-strength 0.

        Adds the change of the rank to ``totals.change`` (``before`` is the last contribution), and
        the rank of a point of out-strength 0 to ``totals.dangling``.
        """
        if out > 0.0:
            given = part(rank / out)
            atomic_add(totals.change, abs(f64(given) - before) * out)
            return given
        given = part(rank)
        atomic_add(totals.change, abs(f64(given) - before))
        atomic_add(totals.dangling, rank)
        return given

    @kernel
    def initialise(p, given, totals):
        out = 0.0
        if hasattr(p, "out"):
            for e in p.outedges:
                out += e.weight
            p.out = out
        else:
            out = f64(p.out_degree)
        given[p] = contribution(p, out, f64(p.rank), 0.0, totals)

    @kernel
    def pull(p, given, after, totals, base, damping):
        total = 0.0
        for t in p.innbrs:
            total += given[t]
        rank = teleport(p, base) + damping * total
        after[p] = contribution(p, f64(p.out_degree), rank, f64(given[p]), totals)

    @kernel
    def pull_weighted(p, given, after, totals, base, damping):
        total = 0.0
        for e in p.inedges:
            total += given[e.src] * e.weight
        rank = teleport(p, base) + damping * total
        after[p] = contribution(p, p.out, rank, f64(given[p]), totals)

    @kernel
    def pull_reversed(p, given, after, totals, base, damping):
        total = 0.0
        for e in p.outedges:
            total += given[e.dst] * e.arriving
        rank = teleport(p, base) + damping * total
        after[p] = contribution(p, p.out, rank, f64(given[p]), totals)

    @kernel
    def finish(p, given):
        out = p.out if hasattr(p, "out") else f64(p.out_degree)
        p.rank = real(f64(given[p]) * out if out > 0.0 else given[p])

    return initialise, (pull, pull_weighted, pull_reversed), finish


def _iterating(initialise: Any, pull: Any, finish: Any) -> Any:
    """The program of all iterations; contributions are double-buffered."""

    @program
    def step(g, given, after, totals, jump, damping):
        base = (1 - damping + damping * totals.dangling) * jump
        totals.dangling = 0.0
        totals.change = 0.0
        foreach(g.points, pull, given, after, totals, base, damping)

    @program
    def iterate(g, totals, jump, damping, tolerance, most):
        totals.dangling = 0.0
        foreach(g.points, initialise, g.points.given, totals)
        done = 0
        while True:
            step(g, g.points.given, g.points.after, totals, jump, damping)
            done += 1
            if done == most or totals.change < tolerance:
                foreach(g.points, finish, g.points.after)
                return done
            step(g, g.points.after, g.points.given, totals, jump, damping)
            done += 1
            if done == most or totals.change < tolerance:
                foreach(g.points, finish, g.points.given)
                return done

    return iterate


def _programs(real: Any, part: Any) -> _Programs:
    """The programs for dtypes of ranks and of contributions."""
    initialise, pulls, finish = _kernels(real, part)
    return _Programs(*(_iterating(initialise, pull, finish) for pull in pulls))


# with weights, contributions are doubles: out-strengths may exceed the range of single precision
DOUBLE, SINGLE, MIXED = _programs(f64, f64), _programs(f32, f32), _programs(f32, f64)
LEAST, MOST = 1e-290, 1e290  # positive weights: their sums and the reciprocals are finite
TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-6}


@of_graph
def pagerank(
    graph: Graph,
    damping: float = 0.85,
    tolerance: float | None = None,
    iterations: int = 200,
    *,
    personalization: Any = None,
    dangling: Any = None,
    start: Any = None,
    weighted: bool = False,
    dtype: Any = np.float64,
) -> PageRank:
    """Compute the PageRank of every point.

    Parameters
    ----------
    graph : Graph or PartitionedGraph, or an argument of `Graph.of`
        On any device.  Each parallel edge counts.
    damping : float
        Probability of following an edge, from 0 to 1.
    tolerance : float, optional
        Stop when the L1 change of the ranks in an iteration is below this: by default 1e-9, or 1e-6
        in single precision.
    iterations : int
        Largest number of iterations.
    personalization : array, shape (n,), optional
        Teleport vector up to a factor: relative probabilities of the points after a jump, by
        default uniform.
    dangling : array, shape (n,), optional
        Relative probabilities of the points after a point without out-edges (or with weights of 0
        only), by default as after a jump.
    start : array, shape (n,), optional
        Ranks before the first iteration, up to a factor, by default the teleport vector.
    weighted : bool
        Follow an edge with a probability in proportion to its ``weight`` (1 without weights).
    dtype : dtype
        Of the ranks: float64 or float32.  Single precision halves the memory traffic; the relative
        error of a rank is then about 1e-6, and a tolerance below 1e-7 may never be reached.

    Returns
    -------
    PageRank
        ``rank``, of ``dtype``, on the graph's device (with parts, a `PartitionedArray`), 0 for
        deleted points; ``error``, the L1 change of the last iteration: at least ``tolerance`` if
        the iterations did not suffice.

    Raises
    ------
    TypeError
        If an argument is not a number, or ``personalization``, ``dangling`` or ``start`` not an
        array of numbers.
    ValueError
        If ``dtype`` is unsupported, ``damping`` is outside [0, 1], ``tolerance`` is negative,
        ``iterations`` is below 1, or if weights or values of these arrays are missing, negative or
        not finite, or a positive weight is below 1e-290 or above 1e290.
    """
    kind = _dtype_of_ranks(dtype)
    weighted = boolean(weighted, "weighted")
    single = kind == np.float32
    programs = DOUBLE if not single else MIXED if weighted else SINGLE
    if tolerance is None:
        tolerance = TOLERANCE[kind]
    for name, x in (("damping", damping), ("tolerance", tolerance)):
        check_number(x, name)
    iterations = min(integer(iterations, "iterations"), 2**63 - 1)
    if not 0 <= damping <= 1:
        raise ValueError(f"damping is from 0 to 1, not {damping}")
    if not (tolerance >= 0 and iterations >= 1):
        raise ValueError(f"tolerance {tolerance} and iterations {iterations} must be positive")
    vectors = _Vectors(
        _distribution(graph, personalization, "personalization"),
        None if start is None else _distribution(graph, start, "start"),
        None if dangling is None else _distribution(graph, dangling, "dangling"),
    )
    limits = float(damping), float(tolerance), iterations
    if weighted and "weight" in graph.edges.columns:
        return _iterate(graph, _weighted(graph, programs), kind, vectors, limits)
    return _iterate(graph, _Variant(programs.iterate), kind, vectors, limits)


def _dtype_of_ranks(dtype: Any) -> Any:
    try:
        kind = np.dtype(dtype)
    except (TypeError, ValueError):
        raise ValueError(f"ranks are float64 or float32, not {shown(dtype)}") from None
    if kind not in TOLERANCE:
        raise ValueError(f"ranks are float64 or float32, not {kind}")
    return kind


def _weighted(graph: Any, programs: _Programs) -> _Variant:
    """Select the variant for weights; undirected partitioned graphs pull along out-edges."""
    _check_weights(graph)
    columns = dict.fromkeys(("out", "given", "after"), (f64, 0.0))
    arriving = _reverse_weights(graph)
    if arriving is None:
        return _Variant(programs.iterate_weighted, columns)
    return _Variant(programs.iterate_reversed, columns, arriving)


def _iterate(
    graph: Any, variant: _Variant, kind: Any, vectors: _Vectors, limits: Any
) -> PageRank:  # fmt: skip
    """Run a variant; ``kind`` is the dtype, ``limits`` are damping, tolerance and iterations."""
    arriving, (jump, start, sink) = variant.arriving, vectors
    edges = None if arriving is None else {"arriving": (arriving.dtype, 0)}
    given: dict[str, Any] = {}  # contents of columns
    if sink is not None:
        given = {"jump": sink, "extra": (1 - limits[0]) * (jump - sink)}
    elif not isinstance(jump, float):
        given = {"jump": jump}
    names = ["rank", "given", "after", *given]
    points: dict[str, Any] = dict.fromkeys(names, (kind, 0.0)) | dict(variant.columns)
    start = jump if start is None else start
    if isinstance(start, float):
        points["rank"] = kind, start
    else:
        given["rank"] = start

    def make() -> list[Any]:
        return [Scalars(graph, dangling=0.0, change=0.0)]

    with workspace(graph, "pagerank", make, edges, **points) as (totals,):
        if arriving is not None:
            graph.edges.arriving[live_edges(graph)] = arriving
        for name, values in given.items():
            getattr(graph.points, name)[:] = values
        by_tiles = graph.sums_by_tiles() if isinstance(graph, Graph) else nullcontext()
        with by_tiles, early_results(graph, "rank") as found:
            done = variant.program(graph, totals, 1.0 if "jump" in given else jump, *limits)
        (rank,) = found.arrays()
        return PageRank(rank, done, float(totals.change))


def _distribution(graph: Graph, given: Any, name: str) -> Any:
    """Return a vector of sum 1 over the live points, shape (n,); a number if it is uniform."""
    n, live = len(graph.points), graph.points.live
    if given is None and live == n:
        return 1 / max(n, 1)
    xp = graph.device.xp
    with graph.device.active():
        values = xp.ones(n)
        if given is not None:
            if isinstance(given, Mapping):
                raise TypeError(f"{name} is an array with a value for each vertex, no dict")
            refuse_masked(given, name)
            values = graph.device.asarray(listed(given, name))
            if values.dtype.kind not in "biuf":
                raise TypeError(f"{name} holds {values.dtype}: expected numbers")
            values = values.astype(np.float64)
            if values.shape != (n,):
                raise ValueError(f"{name} has shape {values.shape}, not ({n},)")
            if not all_true((values >= 0) & (values < np.inf)):
                raise ValueError(f"{name} has a value that is negative or not finite")
        if graph.points.deletes:
            values = xp.where(graph.points.alive, values, 0.0)
        total = float(values.sum())
        if given is not None and not 0 < total < np.inf:
            raise ValueError(f"{name} has the sum {total}, which must be positive")
        return values / max(total, 1) if given is None else values / total


def _reverse_weights(graph: Graph | PartitionedGraph) -> Any:
    """Return the weight of the reverse of each live edge, on the host.

    None for graphs with in-edges, i.e. all except undirected partitioned graphs.
    """
    if not isinstance(graph, PartitionedGraph) or graph.directed:
        return None
    pick = live_edges(graph)
    src, dst, weight = (getattr(graph.edges, c)[pick] for c in ("src", "dst", "weight"))
    found = np.empty_like(weight)
    found[np.lexsort((weight, dst, src))] = weight[np.lexsort((weight, src, dst))]
    return found


def _check_weights(graph: Graph) -> None:
    with graph.device.active():
        weight = graph.edges.weight[live_edges(graph)]
        valid = (weight >= 0) & (weight < np.inf)
        if weight.dtype == np.float64:
            valid &= (weight == 0) | (weight >= LEAST) & (weight <= MOST)
        if not all_true(valid):
            wrong = weight[int(valid.argmin())].item()
            raise ValueError(
                "pagerank needs weights that are finite and not negative, of doubles 0 or from"
                f" {LEAST} to {MOST}, not {wrong}"
            )
