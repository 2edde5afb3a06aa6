"""Checkers of community detection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.graph import Graph
from morph.language.arguments import check_number
from morph.validate.arcs import Arcs, Ints, WrongAnswer, parts, refuse

ROUNDING = 1e-12  # tolerance of a modularity


class _Edges:
    """The edges of a graph, directions ignored, with weights scaled to at most 1."""

    def __init__(self, graph: Graph) -> None:
        self.arcs = arcs = Arcs(graph)
        weight = arcs.weight.astype(np.float64)
        once = slice(None) if graph.directed else arcs.src <= arcs.dst
        self.src, self.dst = arcs.src[once], arcs.dst[once]
        self.weight = weight[once] / max(weight.max(initial=0), np.finfo(float).tiny)

    def _both(self) -> tuple[Ints, Ints, NDArray[np.float64]]:
        """Return each edge in both directions."""
        src, dst = np.concatenate([self.src, self.dst]), np.concatenate([self.dst, self.src])
        return src, dst, np.concatenate([self.weight] * 2)

    def labels(self, label: Any) -> Ints:
        """Check that communities are connected, and labelled by their smallest vertices."""
        arcs = self.arcs
        found = arcs.values(label, "label").astype(np.int64)
        same = found[arcs.src] == found[arcs.dst]
        least = parts(arcs.n, arcs.src[same], arcs.dst[same])
        refuse(
            arcs.alive & (found != least),
            lambda v: (
                f"{arcs.vertex(v)} has the label {found[v]}, but {least[v]} is the smallest one"
                " that it is connected with in its community"
            ),
        )
        return found

    def modularity(self, label: Ints, resolution: float) -> float:
        """Return the modularity, by its definition (Newman, Girvan 2004)."""
        src, _, weight = self._both()
        strength = np.bincount(src, weight, self.arcs.n)
        whole = float(strength.sum())
        if whole == 0:
            return 0.0
        inside = 2 * float(self.weight[label[self.src] == label[self.dst]].sum())
        alive = self.arcs.alive
        share = np.bincount(label[alive], strength[alive]) / whole
        return inside / whole - resolution * float((share**2).sum())

    def check_modularity(self, label: Ints, modularity: Any, resolution: float) -> None:
        check_number(modularity, "modularity")
        check_number(resolution, "resolution")
        right = self.modularity(label, resolution)
        if not abs(float(modularity) - right) <= ROUNDING * (1 + resolution):
            raise WrongAnswer(f"the modularity is {right}, not {modularity}")

    def check_majorities(self, label: Ints) -> None:
        """Check that no vertex has a larger edge weight to another label than to its own."""
        src, dst, weight = self._both()
        apart = src != dst
        src, to, weight = src[apart], label[dst[apart]], weight[apart]
        order = np.lexsort((to, src))
        src, to, weight = src[order], to[order], weight[order]
        first = np.ones(len(src), bool)
        first[1:] = (src[1:] != src[:-1]) | (to[1:] != to[:-1])
        starts = np.flatnonzero(first)
        sums = np.add.reduceat(weight, starts) if starts.size else weight
        src, to, degree = src[starts], to[starts], np.bincount(src, minlength=self.arcs.n)
        own = np.zeros(self.arcs.n)
        kept = to == label[src]
        own[src[kept]] = sums[kept]
        # weights are integers or rounded, so their sums are exact
        slack = degree[src] * (len(self.weight) * 2.0**-58 + (own[src] + sums) * 2.0**-53)
        refuse(
            sums > own[src] + slack,
            lambda k: (
                f"{self.arcs.vertex(src[k])} has edges of more weight to {to[k]} than to its"
                " community"
            ),
        )


def label_propagation(graph: Graph, label: Any, modularity: Any = None) -> None:
    """Check communities by label propagation; directions are ignored.

    Each community is connected, and its label is its smallest point; no point has a larger total
    edge weight to another community than to its own.

    Parameters
    ----------
    graph : Graph
    label : array of int, shape (n,)
    modularity : float, optional

    Raises
    ------
    WrongAnswer
        Naming a vertex.
    """
    edges = _Edges(graph)
    found = edges.labels(label)
    edges.check_majorities(found)
    if modularity is not None:
        edges.check_modularity(found, modularity, 1.0)


def louvain(graph: Graph, label: Any, modularity: Any = None, resolution: float = 1.0) -> None:
    """Check communities by the Louvain method; directions are ignored.

    Each community is connected, and its label is its smallest point.

    Parameters
    ----------
    graph : Graph
    label : array of int, shape (n,)
    modularity : float, optional
    resolution : float
        Of the modularity.

    Raises
    ------
    WrongAnswer
        Naming a vertex.
    """
    edges = _Edges(graph)
    found = edges.labels(label)
    if modularity is not None:
        edges.check_modularity(found, modularity, float(resolution))


def leiden(graph: Graph, label: Any, modularity: Any = None, resolution: float = 1.0) -> None:
    """Check communities by the Leiden method; directions are ignored.

    Each community is connected, and its label is its smallest point.

    Parameters
    ----------
    graph : Graph
    label : array of int, shape (n,)
    modularity : float, optional
    resolution : float
        Of the modularity.

    Raises
    ------
    WrongAnswer
        Naming a vertex.
    """
    louvain(graph, label, modularity, resolution)
