"""NetworkX graphs as the backend holds them: graphs of Morph, one for each weight asked for."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import networkx as nx
import numpy as np

from morph.graph import Graph
from morph.graph.interop import networkx_arcs, networkx_values

NUMBERS = {bool, int, float, np.int64, np.float64}  # types with which Python adds up as Morph does
EXACT = 2**53  # integers below are exact as floating-point numbers


class Converted:
    """A NetworkX graph and the graphs of Morph made of it, each when it is first needed.

    Attributes
    ----------
    original : networkx graph
        NetworkX keeps the conversion in the cache of this graph, and drops it when that changes.
    nodes : array of object, shape (n,)
        The nodes in their order; point i is ``nodes[i]``.
    index : dict
        The points by node.
    device : str or None
        Where Morph calculates: ``nx.config.backends.morph.device``; None: see `morph.set_device`.
    """

    __networkx_backend__ = "morph"

    def __init__(self, original: Any, device: str | None = None) -> None:
        self.original = original
        self.device = device
        self.nodes = np.fromiter(original, object, len(original))
        self.index = {node: i for i, node in enumerate(original)}
        self._arcs: Any = None
        self._graphs: dict[Any, Graph] = {}

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
        """Sources and targets of the arcs by source; an undirected edge has two, a loop one."""
        if self._arcs is None:
            self._arcs = networkx_arcs(self.original, self.index)
        src, dst = self._arcs
        return src, dst

    def graph(self, weight: Hashable = None, reverse: bool = False, simple: bool = False) -> Graph:
        """Return the graph with edge attribute ``weight`` as weights, None for a graph without.

        Parameters
        ----------
        weight : hashable
            1 where an edge does not have it.
        reverse : bool
            With each edge reversed.
        simple : bool
            Without parallel edges; their weights are left out.

        Raises
        ------
        NotImplementedError
            If Morph would not calculate with the weights as NetworkX does; see `exact`.
        """
        reverse = reverse and self.is_directed()
        simple = simple and self.is_multigraph()
        key = weight, reverse, simple
        if key not in self._graphs:
            src, dst = self.arcs
            values = None if weight is None else exact(self.values(weight), len(self))
            if reverse:
                src, dst = dst, src
            if simple:
                n = max(len(self), 1)
                pairs = np.sort(src * n + dst)  # np.unique takes far longer
                src, dst = np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], n)
            self._graphs[key] = Graph.from_edges(
                src, dst, values, len(self), symmetric=not self.is_directed(), device=self.device
            )
        return self._graphs[key]

    def values(self, weight: Hashable) -> list[Any]:
        """Return an attribute of the edges in the order of `arcs`, 1 where there is none."""
        return networkx_values(self.original, weight, 1)

    def point(self, node: Any, message: str) -> int:
        """Return the point of a node; a message, with ``{}`` for the node, if there is none."""
        try:
            return self.index[node]
        except (KeyError, TypeError):
            raise nx.NodeNotFound(message.format(node)) from None

    def by_node(self, values: Any) -> dict[Any, Any]:
        """Return an array with one value a point as a dict of Python numbers by node."""
        return dict(zip(self.nodes.tolist(), self.host(values).tolist(), strict=True))

    def host(self, values: Any) -> Any:
        """Return an array of a result on the host."""
        return values if type(values) is np.ndarray else values.get()


def exact(values: list[Any], n: int) -> Any:
    """Make an array of weights with which Morph calculates as Python does, or refuse.

    Parameters
    ----------
    values : list
    n : int
        The number of nodes, a bound on the edges of a path.

    Returns
    -------
    array of int64 or float64

    Raises
    ------
    NotImplementedError
        If one is not a number of these types (None, Decimal, NaN, infinity, ...), or if a path can
        be too long for the type.
    """
    if not set(map(type, values)) <= NUMBERS:
        raise NotImplementedError("a weight is not a number of Python or of 64 bits")
    found = np.asarray(values if values else np.empty(0, np.int64))
    if found.dtype == bool:
        found = found.astype(np.int64)
    if found.dtype not in (np.int64, np.float64):
        raise NotImplementedError("a weight exceeds 64 bits")
    if not found.size:
        return found
    most = max(abs(found.min().item()), abs(found.max().item()))
    if found.dtype == np.float64 and not most < EXACT:  # or NaN
        raise NotImplementedError("a weight is NaN, infinite or too large to be exact")
    if found.dtype == np.int64 and most * n >= 2**62:
        raise NotImplementedError("the weight of a path may exceed 64 bits")
    return found


def convert_from_nx(graph: Any, **options: Any) -> Converted:
    """Convert a NetworkX graph; which attributes are needed is seen when they are."""
    return Converted(graph, nx.config.backends.morph.device)


def convert_to_nx(result: Any, **options: Any) -> Any:
    """Return the NetworkX graph of a conversion, and anything else as it is."""
    return result.original if isinstance(result, Converted) else result
