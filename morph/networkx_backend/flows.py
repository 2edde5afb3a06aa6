"""Maximum flows and minimum cuts, with NetworkX's interface.

Arguments, results and errors are those of NetworkX's functions of the same names.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from morph.algorithms.graph.max_flow import max_flow
from morph.graph import Graph
from morph.graph.interop import networkx_values
from morph.language.messages import shown
from morph.networkx_backend.converted import Converted

__all__ = ["maximum_flow_value", "minimum_cut_value"]

INTEGERS = {bool, int, np.int64}
INFINITY = float("inf")


def maximum_flow_value(
    flowG: Converted, _s: Any, _t: Any, capacity: Any = "capacity", flow_func: Any = None,
    **kwargs: Any,
) -> int:  # fmt: skip
    """Return the value of a maximum flow from one node to another, for integer capacities."""
    if flow_func is not None:
        raise NotImplementedError(f"flow_func: {shown(flow_func)}: expected None")
    if kwargs:
        raise nx.NetworkXError(
            "You have to explicitly set a flow_func if you need to pass parameters via kwargs."
        )
    for node in (_s, _t):
        if node not in flowG:
            raise nx.NetworkXError(f"node {node} not in graph")
    if _s == _t:
        raise nx.NetworkXError("source and sink are the same node")
    if flowG.is_multigraph():
        raise nx.NetworkXError("MultiGraph and MultiDiGraph not supported (yet).")
    graph, finite = _network(flowG, capacity)
    value = int(max_flow(graph, flowG.index[_s], flowG.index[_t]).value)
    if value > finite:
        raise nx.NetworkXUnbounded("Infinite capacity path, flow unbounded above.")
    return value


def minimum_cut_value(
    flowG: Converted, _s: Any, _t: Any, capacity: Any = "capacity", flow_func: Any = None,
    **kwargs: Any,
) -> int:  # fmt: skip
    """Return the capacity of a minimum cut between two nodes, for integer capacities."""
    return maximum_flow_value(flowG, _s, _t, capacity, flow_func, **kwargs)


def _network(G: Converted, capacity: Any) -> tuple[Graph, int]:
    """Return the graph with capacities as weights, and the sum of the finite capacities.

    An infinite capacity, the default, becomes this sum + 1: a path of such edges has a flow larger
    than the sum, and other flows are at most the sum, as the edges of their cuts are finite.
    """
    key = "capacity", capacity
    if key not in G.cache:
        values = networkx_values(G.original, capacity, INFINITY)
        infinite = [type(x) is float and x == INFINITY for x in values]
        for x, unlimited in zip(values, infinite, strict=True):
            if not unlimited and type(x) not in INTEGERS:
                raise NotImplementedError(
                    f"capacity: {shown(x)} is neither an integer nor infinite"
                )
        finite = [0 if u else max(int(x), 0) for x, u in zip(values, infinite, strict=True)]
        total = sum(finite)
        if (total + 1) * (len(values) + 1) >= 2**61:
            raise NotImplementedError(f"capacity: sums of {shown(capacity)} may exceed 64 bits")
        weights = np.where(infinite, total + 1, np.array(finite, np.int64))
        G.cache[key] = G.with_weights(weights), total
    found: tuple[Graph, int] = G.cache[key]
    return found
