"""PageRank by pulling along in-edges.

``rank(v) = (1 - d) * jump(v) + d * (sum of rank(u) * w(u, v) / w(u) over edges u -> v + dangling *
jump(v))``, where ``w(u)`` is the weight of all edges from u, ``dangling`` the rank of the points
where that is 0, and ``jump``, of sum 1, tells where a walker goes who follows no edge (Page, Brin,
Motwani, Winograd 1999; Unnikrishnan et al., Falcon, figure 33).  Each iteration reads every in-edge
once: O(n + m).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import early_results, live_edges, of_graph
from morph.algorithms.graph.workspace import workspace
from morph.data.conversion import as_integer, number, truth
from morph.data.scalars import Scalars
from morph.graph import Graph
from morph.language.messages import shown
from morph.launch.foreach import foreach, func, kernel, program
from morph.partition.graph import PartitionedGraph
from morph.prelude import atomic_add, f32, f64
from morph.runtime.arrays import all_true


class PageRank(NamedTuple):
    """Result of `pagerank`: ``rank``, shape (n,), of sum 1; ``iterations``; ``error``."""

    rank: Any
    iterations: int
    error: float


class _Programs(NamedTuple):
    iterate: Any
    iterate_weighted: Any
    iterate_reversed: Any


def _kernels(real: Any, part: Any) -> Any:
    """The kernels for types of ranks and of what edges get; sums are of double precision."""

    @func
    def share(p, out, rank, before, totals):
        """Return what a point gives along each out-edge; its rank if it has none.

        Adds to ``totals.moved`` the change of its rank (``before`` is what it gave before), and to
        ``totals.loose`` the rank of a point without out-edges.
        """
        if out > 0.0:
            given = part(rank / out)
            atomic_add(totals.moved, abs(f64(given) - before) * out)
            return given
        given = part(rank)
        atomic_add(totals.moved, abs(f64(given) - before))
        atomic_add(totals.loose, rank)
        return given

    @func
    def jumped(p, base):
        if hasattr(p, "jump"):
            return base * p.jump
        return base

    @kernel
    def begin(p, given, totals):
        out = 0.0
        if hasattr(p, "out"):
            for e in p.outedges:
                out += e.weight
            p.out = out
        else:
            out = f64(p.out_degree)
        given[p] = share(p, out, f64(p.rank), 0.0, totals)

    @kernel
    def pull(p, given, after, totals, base, damping):
        total = 0.0
        for t in p.innbrs:
            total += given[t]
        rank = jumped(p, base) + damping * total
        after[p] = share(p, f64(p.out_degree), rank, f64(given[p]), totals)

    @kernel
    def pull_weighted(p, given, after, totals, base, damping):
        total = 0.0
        for e in p.inedges:
            total += given[e.src] * e.weight
        after[p] = share(p, p.out, jumped(p, base) + damping * total, f64(given[p]), totals)

    @kernel
    def pull_reversed(p, given, after, totals, base, damping):
        total = 0.0
        for e in p.outedges:
            total += given[e.dst] * e.arriving
        after[p] = share(p, p.out, jumped(p, base) + damping * total, f64(given[p]), totals)

    @kernel
    def end(p, given):
        out = p.out if hasattr(p, "out") else f64(p.out_degree)
        p.rank = real(f64(given[p]) * out if out > 0.0 else given[p])

    return begin, (pull, pull_weighted, pull_reversed), end


def _iterating(begin: Any, pull: Any, end: Any) -> Any:
    """The program of all steps; a step replaces what points give, in the other of two columns."""

    @program
    def step(g, given, after, totals, jump, damping):
        base = (1 - damping + damping * totals.loose) * jump
        totals.loose = 0.0
        totals.moved = 0.0
        foreach(g.points, pull, given, after, totals, base, damping)

    @program
    def iterate(g, totals, jump, damping, tolerance, most):
        totals.loose = 0.0
        foreach(g.points, begin, g.points.given, totals)
        done = 0
        while True:
            step(g, g.points.given, g.points.after, totals, jump, damping)
            done += 1
            if done == most or totals.moved < tolerance:
                foreach(g.points, end, g.points.after)
                return done
            step(g, g.points.after, g.points.given, totals, jump, damping)
            done += 1
            if done == most or totals.moved < tolerance:
                foreach(g.points, end, g.points.given)
                return done

    return iterate


def _programs(real: Any, part: Any) -> _Programs:
    """The programs for types of ranks and of what edges get."""
    begin, pulls, end = _kernels(real, part)
    return _Programs(*(_iterating(begin, pull, end) for pull in pulls))


# by what single precision can hold: weights, and what is given for a unit of one, may be far from 1
DOUBLE, SINGLE, MIXED = _programs(f64, f64), _programs(f32, f32), _programs(f32, f64)
TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-6}


@of_graph
def pagerank(
    graph: Graph,
    damping: float = 0.85,
    tolerance: float | None = None,
    iterations: int = 200,
    *,
    personalization: Any = None,
    weighted: bool = False,
    dtype: Any = np.float64,
) -> PageRank:
    """Rank the points by the links into them.

    Parameters
    ----------
    graph : Graph or PartitionedGraph, or what `Graph.of` takes
        On any device.  Parallel edges count each.
    damping : float
        Probability of following a link, from 0 to 1.
    tolerance : float, optional
        Stop when the ranks change by less than this in sum: 1e-9, or 1e-6 in single precision.
    iterations : int
        Stop after this many.
    personalization : array, shape (n,), optional
        Where a walker goes who follows no link, relative to the others; everywhere alike by
        default.
    weighted : bool
        Follow a link in proportion to its ``weight``, 1 if there are none, not all alike.
    dtype : dtype
        Of the ranks: float64 or float32.  In single precision half as much memory is read; a rank
        is then right to some 1e-6 of itself, and a tolerance below 1e-7 may never be met.

    Returns
    -------
    PageRank
        ``rank``, of ``dtype``, on the graph's device, of parts in a `PartitionedArray`, 0 for
        deleted points; ``error``, the last change in sum: ``tolerance`` or more if the iterations
        did not suffice.

    Raises
    ------
    TypeError
        If an argument is no number, or ``personalization`` no array of numbers.
    ValueError
        If ``dtype`` is another, ``damping`` is outside 0 to 1, ``tolerance`` is negative,
        ``iterations`` below 1, or if weights or ``personalization`` are missing, negative, not
        finite, or not one for each.
    """
    try:
        kind = np.dtype(dtype)
    except (TypeError, ValueError):
        raise ValueError(f"ranks are float64 or float32, not {shown(dtype)}") from None
    if kind not in TOLERANCE:
        raise ValueError(f"ranks are float64 or float32, not {kind}")
    weighted = truth(weighted, "weighted")
    single = kind == np.float32
    programs = DOUBLE if not single else MIXED if weighted else SINGLE
    if tolerance is None:
        tolerance = TOLERANCE[kind]
    for name, x in (("damping", damping), ("tolerance", tolerance)):
        number(x, name)
    iterations = min(as_integer(iterations, "iterations"), 2**63 - 1)
    if not 0 <= damping <= 1:
        raise ValueError(f"damping is from 0 to 1, not {damping}")
    if not (tolerance >= 0 and iterations >= 1):
        raise ValueError(f"tolerance {tolerance} and iterations {iterations} must be positive")
    jump = _jump(graph, personalization)
    weighted = weighted and "weight" in graph.edges.columns
    limits = float(damping), float(tolerance), iterations
    if weighted:
        return _weighted(graph, programs, kind, jump, limits)
    return _iterate(graph, programs.iterate, kind, jump, limits)


def _weighted(graph: Any, programs: _Programs, kind: Any, jump: Any, limits: Any) -> PageRank:
    """Rank by weights; undirected graphs in parts pull along out-edges, having no in-edges."""
    _check_weights(graph)
    arriving = _reverse_weights(graph)
    columns = dict.fromkeys(("out", "given", "after"), (f64, 0.0))
    if arriving is None:
        return _iterate(graph, programs.iterate_weighted, kind, jump, limits, columns)
    run = programs.iterate_reversed
    return _iterate(graph, run, kind, jump, limits, columns, arriving)


def _iterate(
    graph: Any, run: Any, kind: Any, jump: Any, limits: Any,
    columns: Mapping[str, Any] | None = None, arriving: Any = None,
) -> PageRank:  # fmt: skip
    """Run a program; ``limits`` are damping, tolerance, iterations; ``arriving`` is of edges."""
    edges = None if arriving is None else {"arriving": (arriving.dtype, 0)}
    alike = isinstance(jump, float)
    names = ["rank", "given", "after"] + ([] if alike else ["jump"])
    points: dict[str, Any] = dict.fromkeys(names, (kind, 0.0)) | dict(columns or {})
    if alike:
        points["rank"] = kind, jump

    def make() -> list[Any]:
        return [Scalars(graph, loose=0.0, moved=0.0)]

    with workspace(graph, "pagerank", make, edges, **points) as (totals,):
        if arriving is not None:
            graph.edges.arriving[live_edges(graph)] = arriving
        if not alike:
            graph.points.jump[:] = graph.points.rank[:] = jump
        by_tiles = graph.sums_by_tiles() if isinstance(graph, Graph) else nullcontext()
        with by_tiles, early_results(graph, "rank") as found:
            done = run(graph, totals, jump if alike else 1.0, *limits)
        (rank,) = found.arrays()
        return PageRank(rank, done, float(totals.moved))


def _jump(graph: Graph, personalization: Any) -> Any:
    """Give where walkers jump, of sum 1 over the live points: shape (n,), or one number for all."""
    n, live = len(graph.points), graph.points.live
    if personalization is None and live == n:
        return 1 / max(n, 1)
    xp = graph.device.xp
    with graph.device.active():
        jump = xp.ones(n)
        if personalization is not None:
            if isinstance(personalization, Mapping):
                raise TypeError("personalization is an array with a value for each vertex, no dict")
            jump = graph.device.asarray(personalization)
            if jump.dtype.kind not in "biuf":
                raise TypeError(f"personalization holds {jump.dtype}: expected numbers")
            jump = jump.astype(np.float64)
            if jump.shape != (n,):
                raise ValueError(f"personalization has shape {jump.shape}, not ({n},)")
            if not all_true((jump >= 0) & (jump < np.inf)):
                raise ValueError("personalization has a value that is negative or not finite")
        if graph.points.deletes:
            jump = xp.where(graph.points.alive, jump, 0.0)
        total = float(jump.sum())
        if personalization is not None and not 0 < total < np.inf:
            raise ValueError(f"personalization has the sum {total}, which must be positive")
        return jump / max(total, 1) if personalization is None else jump / total


def _reverse_weights(graph: Graph | PartitionedGraph) -> Any:
    """Give the weight of the reverse of each live edge, on the host.

    None for graphs with in-edges, which parts that are not directed do not have.
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
        if not all_true((weight >= 0) & (weight < np.inf)):
            raise ValueError("pagerank needs weights that are finite and not negative")
