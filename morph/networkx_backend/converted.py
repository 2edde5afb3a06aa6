"""Converted NetworkX graphs: one graph of Morph for each weight attribute in use."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import networkx as nx
import numpy as np

from morph.graph import Graph
from morph.graph.interop import networkx_arcs, networkx_values
from morph.language.messages import shown

NUMBERS = {bool, int, float, np.int64, np.float64}  # types with the same sums in Python and Morph
EXACT = 2**53  # smaller integers are exact as doubles


class Converted:
    """A NetworkX graph and its conversions to graphs of Morph, made on first use.

    Attributes
    ----------
    original : networkx graph
        NetworkX caches the conversion in this graph, and drops it when the graph changes.
    nodes : array of object, shape (n,)
        The nodes in order; point i is ``nodes[i]``.
    index : dict
        The point of each node.
    device : str or None
        Device: ``nx.config.backends.morph.device``; None: see `morph.set_device`.
    cache : dict
        Graphs of Morph, by the attributes that they contain.
    """

    __networkx_backend__ = "morph"

    def __init__(self, original: Any, device: str | None = None) -> None:
        self.original = original
        self.device = device
        self.nodes = np.fromiter(original, object, len(original))
        self.index = {node: i for i, node in enumerate(original)}
        self._arcs: Any = None
        self.cache: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.original)

    def __contains__(self, node: Any) -> bool:
        return node in self.original

    def is_directed(self) -> bool:
        """Whether edges have a direction."""
        return bool(self.original.is_directed())

    def is_multigraph(self) -> bool:
        """Whether edges may be parallel."""
        return bool(self.original.is_multigraph())

    @property
    def arcs(self) -> tuple[Any, Any]:
        """Sources and targets of the arcs by source; two per undirected edge, one per self-loop."""
        if self._arcs is None:
            self._arcs = networkx_arcs(self.original, self.index)
        src, dst = self._arcs
        return src, dst

    def graph(self, weight: Hashable = None, reverse: bool = False, simple: bool = False) -> Graph:
        """Return the graph with edge attribute ``weight`` as weights, or without weights if None.

        Parameters
        ----------
        weight : hashable
            Edges without this attribute have weight 1.
        reverse : bool
            Reverse each edge.
        simple : bool
            Merge parallel edges; the least weight remains.

        Raises
        ------
        NotImplementedError
            If results with these weights could differ from NetworkX; see `exact`.
        """
        reverse = reverse and self.is_directed()
        simple = simple and self.is_multigraph()
        key = weight, reverse, simple
        if key not in self.cache:
            src, dst = self.arcs
            values = None if weight is None else exact(self.values(weight), len(self))
            if simple:
                src, dst, values = _merged(src, dst, values, max(len(self), 1))
            self.cache[key] = self._made(*((dst, src) if reverse else (src, dst)), values)
        graph: Graph = self.cache[key]
        return graph

    def with_weights(self, weights: Any) -> Graph:
        """Return the graph with an array of weights in the order of `arcs`."""
        return self._made(*self.arcs, weights)

    def _made(self, src: Any, dst: Any, weights: Any) -> Graph:
        return Graph.from_edges(
            src, dst, weights, len(self), symmetric=not self.is_directed(), device=self.device
        )

    def values(self, weight: Hashable) -> list[Any]:
        """Return an attribute of the edges in the order of `arcs`, by default 1."""
        return networkx_values(self.original, weight, 1)

    def require_no_loops(self) -> None:
        """Raise NetworkX's error if an edge leads from a node to itself."""
        src, dst = self.arcs
        if (src == dst).any():
            raise nx.NetworkXNotImplemented(
                "Input graph has self loops which is not permitted; "
                "Consider using G.remove_edges_from(nx.selfloop_edges(G))."
            )

    def point(self, node: Any, message: str) -> int:
        """Return the point of a node; raises NetworkX's error with ``message`` if absent."""
        try:
            return self.index[node]
        except (KeyError, TypeError):
            raise nx.NodeNotFound(message.format(node)) from None

    def by_node(self, values: Any) -> dict[Any, Any]:
        """Convert an array with one value per point to a dict of Python numbers by node."""
        return dict(zip(self.nodes.tolist(), self.host(values).tolist(), strict=True))

    def host(self, values: Any) -> Any:
        """Copy an array of a result to the host."""
        return values if type(values) is np.ndarray else values.get()


def _merged(src: Any, dst: Any, values: Any, n: int) -> tuple[Any, Any, Any]:
    """Merge parallel arcs among ``n`` points; the least value remains."""
    pairs = src * n + dst
    if values is None:
        pairs = np.sort(pairs)  # np.unique is much slower
    else:
        order = np.lexsort((values, pairs))
        pairs, values = pairs[order], values[order]
    first = np.diff(pairs, prepend=-1) > 0
    src, dst = np.divmod(pairs[first], n)
    return src, dst, None if values is None else values[first]


def exact(values: list[Any], n: int) -> Any:
    """Make an array of weights for which Morph's sums equal Python's, or raise an error.

    Parameters
    ----------
    values : list
    n : int
        Number of nodes, an upper bound of the number of edges of a path.

    Returns
    -------
    array of int64 or float64

    Raises
    ------
    NotImplementedError
        If a value is not a number of these types (None, Decimal, NaN, infinity, ...), or the length
        of a path may overflow.
    """
    if not set(map(type, values)) <= NUMBERS:
        other = shown(next(x for x in values if type(x) not in NUMBERS))
        raise NotImplementedError(f"weight: {other} is not a number of Python or of 64 bits")
    found = np.asarray(values if values else np.empty(0, np.int64))
    if found.dtype == bool:
        found = found.astype(np.int64)
    if found.dtype not in (np.int64, np.float64):
        raise NotImplementedError(f"weight: {shown(max(values, key=abs))} exceeds 64 bits")
    if not found.size:
        return found
    most = max(abs(found.min().item()), abs(found.max().item()))
    if found.dtype == np.float64 and not most < EXACT:  # also NaN
        raise NotImplementedError(f"weight: {most} is NaN, infinite or too large to be exact")
    if found.dtype == np.int64 and most * n >= 2**62:
        raise NotImplementedError(f"weight: {most} for each of {n} nodes may exceed 64 bits")
    return found


def convert_from_nx(graph: Any, **options: Any) -> Converted:
    """Convert a NetworkX graph; attributes are converted on first use."""
    return Converted(graph, nx.config.backends.morph.device)


def convert_to_nx(result: Any, **options: Any) -> Any:
    """Return the NetworkX graph of a conversion; other results are returned unchanged."""
    return result.original if isinstance(result, Converted) else result
