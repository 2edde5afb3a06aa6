"""Cycles of predecessors, and errors with their vertices and edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.algorithms.graph.path import edges_along
from morph.graph import Graph
from morph.graph.labels import name_of
from morph.runtime.arrays import all_true

NO_PREDECESSOR = 2**31 - 1
SHOWN = 8  # vertices of a cycle in an error message
CHECKED = 4  # steps between tests whether all paths have ended at a root: trees are shallow


class CycleError(ValueError):
    """A graph that must be acyclic has a cycle.

    Attributes
    ----------
    vertices, edges : array of int
        Of the cycle, on the host: edge ``i`` leads from vertex ``i`` to the next vertex, the last
        edge to the first vertex.  If points have labels, ``vertices`` are labels.
    names : list of str
        The labels or ids of the first vertices, as in the text of the error.
    """

    _what = "a cycle"

    def __init__(self, vertices: Any, edges: Any, names: list[str] | None = None) -> None:
        self.vertices, self.edges = vertices, edges
        self.names = [str(v) for v in vertices[:SHOWN]] if names is None else names
        more = ["..."] if len(vertices) > SHOWN else []
        super().__init__(f"{self._what}: {' -> '.join([*self.names, *more, self.names[0]])}")

    def __reduce__(self) -> Any:
        return type(self), (self.vertices, self.edges, self.names)


class NegativeCycle(CycleError):
    """A source reaches a cycle of negative weight, so there are no shortest paths.

    Attributes
    ----------
    vertices, edges
        As in `CycleError`.
    """

    _what = "a cycle of negative weight"


def refuse_cycle(graph: Graph, parent: Any, error: type[CycleError]) -> None:
    """Raise an error of this type if predecessors form a cycle, see `find_cycle`."""
    if (found := find_cycle(graph, parent)) is not None:
        ids, edges = found
        labels, names = graph.lookup(), [name_of(graph, v) for v in ids[:SHOWN]]
        raise error(ids if labels is None else labels.names(ids), edges, names)


def find_cycle(graph: Graph, parent: Any) -> tuple[Any, Any] | None:
    """Find a cycle of predecessors; return the ids of its vertices and edges, on the host.

    Parameters
    ----------
    graph : Graph
    parent : array of int32, shape (n,)
        Negative, or `NO_PREDECESSOR`, at roots.
    """
    xp, n = graph.device.xp, len(graph.points)
    with graph.device.active():
        is_root = (parent < 0) | (parent == NO_PREDECESSOR)
        jump = xp.where(is_root, xp.arange(n, dtype=parent.dtype), parent)
        for k in range(n.bit_length()):
            jump = jump[jump]
            if k % CHECKED == CHECKED - 1 and all_true(is_root[jump]):
                return None
        in_cycle = jump[~is_root[jump]]
        if not in_cycle.size:
            return None
        first = int(in_cycle.min())
    before, vertices = graph.device.to_host(parent), [first]
    while (v := int(before[vertices[-1]])) != first:
        vertices.append(v)
    closed = np.array([first, *vertices[::-1]], np.int32)
    return closed[:-1], graph.device.to_host(edges_along(graph, closed))
