"""Helpers of the checkers: the edges of a graph as arrays on the host, and operations on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.graph import Graph
from morph.graph.labels import VertexIds, name_of
from morph.language.arguments import check_type
from morph.language.messages import shown
from morph.runtime.arrays import listed, refuse_masked

Ints = NDArray[np.int64]


class WrongAnswer(ValueError):
    """A result is wrong; the message names a vertex or an edge."""


def on_host(graph: Graph, x: Any, name: str) -> NDArray[Any]:
    """Return an array of a result, which may be on a GPU, or a list as a NumPy array.

    Raises
    ------
    ValueError
        If values are masked, or the rows of a list differ in length.
    """
    refuse_masked(x, name)
    return np.asarray(graph.device.to_host(listed(x, name)))


class Arcs:
    """The edges between live points of a graph, or of a partitioned graph, on the host.

    Attributes
    ----------
    n : int
        Points, including deleted points.
    alive : array of bool, shape (n,)
    id, src, dst : array of int64, shape (m,)
        Id and ends of each edge, sorted by source.
    """

    def __init__(self, graph: Graph) -> None:
        check_type(graph, "graph", "Graph", "PartitionedGraph")
        self._graph, self.n = graph, len(graph.points)
        self.alive = np.zeros(self.n, bool)
        self.alive[self.host(graph.points.ids())] = True
        if isinstance(graph, Graph):
            offsets, ids = graph.adjacency("out")
            self.offsets: Ints = self.host(offsets)
            self.id: Ints = np.arange(len(graph.edges)) if ids is None else self.host(ids)
        else:
            ids = graph.edges.ids()
            src = self.column("src")[ids]
            self.id = ids[np.argsort(src, kind="stable")]
            self.offsets = np.zeros(self.n + 1, np.int64)
            np.cumsum(np.bincount(src, minlength=self.n), out=self.offsets[1:])
        self.src, self.dst = (self.column(c)[self.id].astype(np.int64) for c in ("src", "dst"))

    def column(self, name: str) -> NDArray[Any]:
        """Copy a column of the edges to the host; gathers the parts of a partitioned graph."""
        column = getattr(self._graph.edges, name)
        return self.host(column.array if isinstance(self._graph, Graph) else column[:])  # type: ignore[no-any-return]

    def host(self, x: Any, name: str = "values") -> Any:
        """Return an array or a list as a NumPy array, see `on_host`."""
        return on_host(self._graph, x, name)

    @property
    def weight(self) -> NDArray[Any]:
        """The weights, shape (m,); 1 if the graph has no weights."""
        if "weight" not in self._graph.edges.columns:
            return np.ones(len(self.src), np.int32)
        return self.column("weight")[self.id]

    def values(self, x: Any, name: str, kinds: str = "iu") -> NDArray[Any]:
        """Check that a result has one value for each point; values of deleted points are ignored.

        Raises
        ------
        WrongAnswer
            If its shape or type differs.
        """
        a: NDArray[Any] = self.host(x, name)
        if a.shape != (self.n,) or a.dtype.kind not in kinds:
            raise WrongAnswer(
                f"{name} has shape {a.shape} and type {a.dtype}, for a graph of {self.n} vertices"
            )
        return a

    def listed(self, vertices: Any, what: str = "vertices") -> NDArray[Any]:
        """Return vertices that a result or an argument lists, ids or labels, as ids on the host.

        Raises
        ------
        WrongAnswer
            If points have labels, and a vertex is not one of these.
        """
        try:
            return self._ids(vertices, what)
        except ValueError as error:
            raise WrongAnswer(str(error)) from None

    def _ids(self, vertices: Any, what: str) -> NDArray[Any]:
        if isinstance(vertices, VertexIds) or self._graph.labelled:
            vertices = self._graph.ids_of(vertices, what)
        return self.host(vertices, what)  # type: ignore[no-any-return]

    def sources(self, source: Any, name: str = "source") -> Ints:
        """Return the ids of the sources, which are given as ids or labels, in order, each once.

        Raises
        ------
        ValueError
            If a source is not a live point.
        """
        ids = self._ids(source, name).ravel()
        if ids.size and ids.dtype.kind not in "iu":
            raise ValueError(f"{name} is an id or an array of ids, not {shown(source)}")
        wrong = [i for i in ids.tolist() if not (0 <= i < self.n and self.alive[i])]
        if wrong:
            raise ValueError(f"{name} {wrong[0]} is not a vertex: the graph has {self.n}")
        return np.unique(ids).astype(np.int64)

    def edge(self, k: Any) -> str:
        """Name the ``k``-th edge."""
        return f"edge {self.id[k]}, from {self.name(self.src[k])} to {self.name(self.dst[k])}"

    def name(self, vertex: Any) -> str:
        """Return the label of a vertex, or its id."""
        return name_of(self._graph, vertex)

    def vertex(self, vertex: Any) -> str:
        """Name a vertex by its label or id."""
        return f"vertex {self.name(vertex)}"


def refuse(wrong: NDArray[np.bool_], message: Any) -> None:
    """Raise the message of the first element of ``wrong`` that is true, if any.

    Raises
    ------
    WrongAnswer
    """
    if wrong.any():
        raise WrongAnswer(message(int(wrong.argmax())))


def rows(offsets: Ints, points: Ints) -> Ints:
    """Return the positions of all entries of these rows, row by row."""
    first, count = offsets[points], offsets[points + 1] - offsets[points]
    ends = np.cumsum(count)
    within = np.arange(ends[-1] if ends.size else 0) - np.repeat(ends - count, count)
    at: Ints = np.repeat(first, count) + within
    return at


def grouped(n: int, keys: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Group values by key; returns row offsets and the values, row by row."""
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=n), out=offsets[1:])
    return offsets, values[np.argsort(keys, kind="stable")]


def parts(n: int, src: Ints, dst: Ints) -> Ints:
    """Return the smallest point of each point's connected component, shape (n,).

    Union-find by rounds: each root is hooked onto the smallest root that an edge joins it with,
    paths are compressed by pointer jumping, and edges within one tree are dropped.
    """
    root = np.arange(n)
    while src.size:
        a, b = root[src], root[dst]
        apart = a != b
        src, dst, a, b = src[apart], dst[apart], a[apart], b[apart]
        np.minimum.at(root, np.maximum(a, b), np.minimum(a, b))
        while (root[root] != root).any():
            root = root[root]
    return root
