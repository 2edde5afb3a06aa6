"""Arguments and results of graph algorithms, on one device or in parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from morph.data.conversion import as_integer
from morph.graph import Graph
from morph.language.messages import shown
from morph.partition.graph import PartitionedGraph
from morph.runtime.device import Device

F = TypeVar("F", bound=Callable[..., Any])


def of_graph(algorithm: F) -> F:
    """Have an algorithm take whatever `Graph.of` takes, or a graph in parts, and hold its lock.

    So no thread changes the graph between the first look at its weights and the result.
    """

    @wraps(algorithm)
    def run(graph: Any, *args: Any, **kwargs: Any) -> Any:
        graph = graph if isinstance(graph, PartitionedGraph) else as_graph(graph)
        with graph._lock:
            return algorithm(graph, *args, **kwargs)

    return cast(F, run)


def of_graph_on_one_device(algorithm: F) -> F:
    """Have an algorithm take whatever `Graph.of` takes, and hold its lock; refuse one in parts."""

    @wraps(algorithm)
    def run(graph: Any, *args: Any, **kwargs: Any) -> Any:
        graph = as_graph(graph)
        with graph._lock:
            return algorithm(graph, *args, **kwargs)

    run.in_parts = False  # type: ignore[attr-defined]
    return cast(F, run)


def as_graph(graph: Any) -> Graph:
    """Give a graph as it is, and one of another library as `Graph.of` makes it."""
    if isinstance(graph, PartitionedGraph):
        raise TypeError(
            "this algorithm takes a graph on one device, not in parts: parts.to(device)"
        )
    return graph if isinstance(graph, Graph) else Graph.of(graph)


def source_ids(graph: Graph, source: Any, what: str = "source") -> Any:
    """Check the id of a point, its label, or several of them; integers are ids.

    Returns
    -------
    array, shape (k,), int32
        On the host, without repetitions.

    Raises
    ------
    TypeError
        If one is not an integer, and the graph has no labels.
    ValueError
        If one is not a live point, or is no label of one.
    """
    n = len(graph.points)
    if type(source) is int and 0 <= source < n and not graph.points.deletes:
        return np.array([source], np.int32)
    ids = _host_ids(graph, source, what)
    if ids.size and ids.dtype.kind not in "iu":
        raise TypeError(f"{what} is an id or an array of ids, not {shown(source)}")
    wrong = ids[(ids < 0) | (ids >= n)]
    if wrong.size:
        raise ValueError(f"{what} {wrong[0]} is not a vertex: the graph has {n}, counted from 0")
    ids = np.unique(ids).astype(np.int32)
    if graph.points.deletes:
        dead = ids[~np.asarray(graph.device.to_host(graph.points.alive))[ids]]
        if dead.size:
            raise ValueError(f"{what} {dead[0]} is not a vertex: it was deleted")
    return ids


def source_rows(graph: Graph, source: Any, what: str = "source") -> Any:
    """Check ids of points as `source_ids`; give them in their order, with repetitions."""
    source_ids(graph, source, what)
    return _host_ids(graph, source, what).astype(np.int32)


def vertex_id(graph: Graph, vertex: Any, what: str) -> int:
    """Check the id or the label of one point as `source_ids`."""
    if graph.labels is None or hasattr(vertex, "__index__"):
        vertex = as_integer(vertex, what)
    return int(source_ids(graph, [vertex], what)[0])


def checked_seed(seed: Any) -> int:
    """Return the seed of random numbers, an integer from 0 on.

    Raises
    ------
    TypeError
        If it is not an integer.
    ValueError
        If it is negative.
    """
    found = as_integer(seed, "seed")
    if found < 0:
        raise ValueError(f"seed is 0 or more, not {found}")
    return found


def _host_ids(graph: Graph | PartitionedGraph, source: Any, what: str) -> Any:
    if isinstance(graph, PartitionedGraph):  # has no labels
        return np.asarray(graph.device.to_host(source)).ravel()
    return graph.ids_of(source, what)


def batch_size(graph: Graph) -> int:
    """Give how many sources share a search: as many as fill the device, in parts one."""
    if isinstance(graph, PartitionedGraph):
        return 1
    return max(graph.device.bulk // max(len(graph.points), 1), 1)


def results_device(graph: Graph | PartitionedGraph) -> Device:
    """The device of an algorithm's results: of a graph in parts the first one's.

    Of parts in several processes it is the host, where their `PartitionedArray` is gathered.
    """
    if isinstance(graph, PartitionedGraph):
        return graph.devices[0] if len(graph.here) == len(graph.devices) else graph.device
    return graph.device


def stacked(graph: Graph, blocks: Sequence[Any]) -> Any:
    """Join blocks of rows, on the `results_device`."""
    if len(blocks) == 1:
        return blocks[0]
    where = results_device(graph)
    with where.active():
        return where.xp.concatenate(blocks)


def values(graph: Graph | PartitionedGraph, name: str) -> Any:
    """Give a column of points on the `results_device`: of a graph in parts a copy."""
    if isinstance(graph, PartitionedGraph):
        return graph.points.gathered(name, results_device(graph))
    return graph.points.columns[name].array[: len(graph.points)]


def results(graph: Graph | PartitionedGraph, *names: str) -> list[Any]:
    """Copy columns of points; of a graph in parts each part has the values of its points."""
    if isinstance(graph, PartitionedGraph):
        return graph.points.results(results_device(graph), *names)
    return graph.device.copies(*(values(graph, name) for name in names))


def early_results(graph: Graph | PartitionedGraph, *names: str) -> Any:
    """Give a context of the last program that changes columns; its ``arrays()`` are the `results`.

    GPUs with parts of a graph copy them behind the program, while the host waits for its end.
    """
    if isinstance(graph, PartitionedGraph):
        return graph.points.early_results(results_device(graph), *names)
    return _Results(graph, names)


class _Results:
    """The context of `early_results` on one device: the columns are copied after the program."""

    def __init__(self, graph: Graph, names: tuple[str, ...]) -> None:
        self.graph, self.names = graph, names

    def __enter__(self) -> _Results:
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def arrays(self) -> list[Any]:
        """Give copies of the columns."""
        return results(self.graph, *self.names)


def pieces(graph: Graph | PartitionedGraph) -> list[Graph]:
    """Give the graphs of this process's parts, mirrors included; of a graph, itself."""
    if isinstance(graph, PartitionedGraph):
        return [graph.local(k) for k in graph.here]
    return [graph]


def live_edges(graph: Graph | PartitionedGraph) -> Any:
    """Give the ids of the edges between live points: an array, or a slice of all."""
    if isinstance(graph, PartitionedGraph):
        return graph.edges.ids() if graph.edges.deletes else slice(len(graph.edges))
    if graph.gapped and not graph.points.deletes:  # nothing to pack
        return graph.edges.ids() if graph.edges.deletes else slice(len(graph.edges))
    _, ids = graph.adjacency("out")
    return slice(len(graph.edges)) if ids is None else ids
