"""Checker of maximum flows: capacities, conservation, and a cut of the same value.

Integers are compared exactly.  Of real flows, sums may differ by their rounding, and the cut by the
unit to which `morph.max_flow` rounds capacities down.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.graph import Graph
from morph.validate.arcs import Arcs, Ints, WrongAnswer, refuse

EPSILON = 2.0**-52


def max_flow(
    graph: Graph, flow: Any, source: Any, sink: Any, *,
    value: float | None = None, cut: Any = None, capacity: str = "weight",
) -> None:  # fmt: skip
    """Check a maximum flow, as of `morph.max_flow`.

    A flow is maximum if there is a cut whose capacity equals its value (max-flow min-cut).

    Parameters
    ----------
    graph : Graph
    flow : array of int, or of float if capacities are real, shape (m,)
        Sums of real flows are compared with a tolerance of their rounding.
    source, sink : int or label
    value : int or float, optional
    cut : array of bool, shape (n,), optional
        The source side of a minimum cut.  Without it, the set of vertices that are reachable from
        the source in the residual network is used, and must not contain the sink.
    capacity : str
        The column of edges; all capacities are 1 if it is ``"weight"`` and there is none.

    Raises
    ------
    WrongAnswer
    """
    arcs = Arcs(graph)
    (s,), (t,) = arcs.sources([source]).tolist(), arcs.sources([sink]).tolist()
    most = _capacities(graph, arcs, capacity)
    real = most.dtype.kind == "f"
    held = _flows(graph, arcs, flow, "f" if real else "iu")
    refuse(~(held >= 0), lambda k: f"the flow of {arcs.edge(k)} is {held[k]}")
    refuse(~(held <= most), lambda k: f"the flow of {arcs.edge(k)} is {held[k]} of {most[k]}")
    if real:
        _check_real(arcs, held, most, (s, t), value, cut)
        return
    gained = [_sum(held[arcs.dst == v]) - _sum(held[arcs.src == v]) for v in (s, t)]
    kept = _balance(arcs, held)
    kept[[s, t]] = False
    refuse(kept, lambda v: f"the flow into {arcs.vertex(v)} differs from the flow out of it")
    u, v = arcs.name(s), arcs.name(t)
    if -gained[0] != gained[1] or gained[1] < 0:
        raise WrongAnswer(f"{-gained[0]} flows out of {u}, and {gained[1]} into {v}")
    if value is not None and value != gained[1]:
        raise WrongAnswer(f"the value of the flow is {gained[1]}, not {value}")
    across = _sum(most[_cut(arcs, (s, t), cut, held < most, held > 0)])
    if across != gained[1]:
        raise WrongAnswer(f"the cut has capacity {across}, but {gained[1]} flows")


def _check_real(
    arcs: Arcs, held: Any, most: Any, ends: tuple[int, int], value: Any, cut: Any
) -> None:
    """Check flows of float64: conservation, the value, and a cut of almost the same capacity."""
    s, t = ends
    u, v = arcs.name(s), arcs.name(t)
    into = np.bincount(arcs.dst, held, arcs.n)
    out = np.bincount(arcs.src, held, arcs.n)
    degree = np.bincount(arcs.src, None, arcs.n) + np.bincount(arcs.dst, None, arcs.n)
    error = (into + out) * (degree + 2) * EPSILON  # each flow and each addition is rounded
    kept = np.abs(into - out) > error
    kept[[s, t]] = False
    refuse(kept, lambda v: f"the flow into {arcs.vertex(v)} differs from the flow out of it")
    found, error_of_value = into[t] - out[t], error[s] + error[t]
    if abs(out[s] - into[s] - found) > error_of_value or found < -error_of_value:
        raise WrongAnswer(f"{out[s] - into[s]} flows out of {u}, and {found} into {v}")
    if value is not None and not abs(value - found) <= error_of_value:
        raise WrongAnswer(f"the value of the flow is {found}, not {value}")
    unit = _unit(arcs, most, s, t)
    crosses = _cut(arcs, ends, cut, most - held > unit, held > 0)
    across = float(most[crosses].sum())
    allowed = error_of_value + int(crosses.sum()) * (unit + found * EPSILON)
    if not abs(across - found) <= allowed:
        raise WrongAnswer(f"the cut has capacity {across}, but {found} flows")


def _unit(arcs: Arcs, most: Any, s: int, t: int) -> float:
    """Return the largest unit to which `morph.max_flow` may round capacities down."""
    proper = arcs.src != arcs.dst
    out, into = most[(arcs.src == s) & proper], most[(arcs.dst == t) & proper]
    limit = min(out.sum(), into.sum())
    if limit == np.inf:
        limit = most[most < np.inf].sum()
    return float(np.minimum(out, limit).sum()) * 2.0**-60


def _cut(arcs: Arcs, ends: tuple[int, int], cut: Any, forwards: Any, backwards: Any) -> Any:
    """Return which edges cross a cut, or that of residual edges, which must divide the ends."""
    s, t = ends
    side = arcs.values(cut, "the cut", "b") if cut is not None else None
    if side is None:
        side = _reached(arcs, forwards, backwards, s)
    refuse(side & ~arcs.alive, lambda v: f"the cut has {arcs.vertex(v)}, which is deleted")
    if side[t] or not side[s]:
        u, v = arcs.name(s), arcs.name(t)
        augmenting = f"a path of residual edges leads from {u} to {v}: more can flow"
        raise WrongAnswer(augmenting if cut is None else f"the cut does not divide {u} from {v}")
    return side[arcs.src] & ~side[arcs.dst]


def _flows(graph: Graph, arcs: Arcs, flow: Any, kinds: str) -> Any:
    """Return the flows of the live edges; deleted edges must have flow 0."""
    flow = arcs.host(flow, "the flow")
    if flow.shape != (len(graph.edges),) or flow.dtype.kind not in kinds:
        raise WrongAnswer(
            f"the flow has shape {flow.shape} and type {flow.dtype}, for {len(graph.edges)} edges"
        )
    dead = flow != 0
    dead[arcs.id] = False
    refuse(dead, lambda e: f"edge {e} is deleted, but has a flow of {flow[e]}")
    loop = (arcs.src == arcs.dst) & (flow[arcs.id] != 0)
    refuse(loop, lambda k: f"{arcs.edge(k)} has a flow of {flow[arcs.id[k]]}")
    return flow[arcs.id]


def _capacities(graph: Graph, arcs: Arcs, name: str) -> Any:
    if name == "weight":
        found = arcs.weight
    else:
        found = np.asarray(graph.device.to_host(graph.edges.columns[name].array))[arcs.id]
    return found.astype(np.float64) if found.dtype.kind == "f" else found


def _halves(values: Any) -> tuple[Ints, Ints]:
    """Return the upper and lower 32 bits, whose sums do not overflow 64 bits."""
    words = values.astype(np.uint64)
    upper, lower = (words >> np.uint64(32)), words & np.uint64(2**32 - 1)
    return upper.astype(np.int64), lower.astype(np.int64)


def _sum(values: Any) -> int:
    upper, lower = _halves(values)
    return (int(upper.sum()) << 32) + int(lower.sum())


def _balance(arcs: Arcs, held: Any) -> Any:
    """Return for each vertex whether inflow and outflow differ; exact."""
    sums = np.zeros((2, arcs.n), np.int64)
    for total, part in zip(sums, _halves(held), strict=True):
        np.add.at(total, arcs.dst, part)
        np.subtract.at(total, arcs.src, part)
    upper, lower = sums
    return (upper + (lower >> 32) != 0) | (lower & (2**32 - 1) != 0)


def _reached(arcs: Arcs, forwards: Any, backwards: Any, source: int) -> Any:
    """Return the vertices that are reachable over these edges and those in reverse."""
    tail = np.concatenate([arcs.src[forwards], arcs.dst[backwards]])
    head = np.concatenate([arcs.dst[forwards], arcs.src[backwards]])
    side = np.zeros(arcs.n, bool)
    side[source] = True
    while True:
        new = head[side[tail] & ~side[head]]
        if not new.size:
            return side
        side[new] = True
