"""Arguments and results of graph algorithms, for graphs on one device and partitioned graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from morph.graph import Graph
from morph.graph.labels import Lookup
from morph.language.arguments import integer
from morph.language.messages import shown
from morph.launch.behind import behind
from morph.partition.graph import PartitionedGraph
from morph.runtime.device import Device

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


def of_graph(algorithm: F) -> F:
    """Wrap an algorithm: accept arguments of `Graph.of` and partitioned graphs, and lock the graph.

    The lock prevents changes by other threads between the first read of weights and the result.
    An undirected graph must have the reverse of each edge.  If points have labels, the vertices
    that the result lists are labels: see `lists_vertices`.
    """

    @wraps(algorithm)
    def run(graph: Any, *args: Any, **kwargs: Any) -> Any:
        graph = graph if isinstance(graph, PartitionedGraph) else as_graph(graph)
        with graph._lock:
            if isinstance(graph, Graph):
                graph.require_reverses()
            found = algorithm(graph, *args, **kwargs)
            return found if graph._labels is None else in_labels(graph, found)

    return cast(F, run)


def of_graph_on_one_device(algorithm: F) -> F:
    """Wrap an algorithm like `of_graph`, but reject partitioned graphs."""

    @wraps(algorithm)
    def run(graph: Any, *args: Any, **kwargs: Any) -> Any:
        graph = as_graph(graph)
        with graph._lock:
            graph.require_reverses()
            found = algorithm(graph, *args, **kwargs)
            return found if graph._labels is None else in_labels(graph, found)

    run.in_parts = False  # type: ignore[attr-defined]
    return cast(F, run)


VERTICES: dict[type, tuple[str, ...]] = {}
"""The fields that list vertices, by the type of a result."""


def lists_vertices(*fields: str) -> Callable[[type[R]], type[R]]:
    """Declare the fields of a result that list vertices, i.e. are arrays of ids, or lists of these.

    Where points have labels, these become arrays of labels.  Fields with a value for each point or
    edge are indexed by ids, and so have ids as values, if vertices at all.
    """

    def declare(kind: type[R]) -> type[R]:
        VERTICES[kind] = fields
        return kind

    return declare


def in_labels(graph: Graph | PartitionedGraph, found: R) -> R:
    """Replace ids by labels in the `VERTICES` of a result, or of a list of results."""
    made: Any = found
    if isinstance(made, list):
        made = [in_labels(graph, x) for x in made]
    elif (fields := VERTICES.get(type(made))) and (names := graph.lookup()) is not None:
        made = made._replace(**{x: labels_in(graph, names, getattr(made, x)) for x in fields})
    return made  # type: ignore[no-any-return]


def labels_in(graph: Graph | PartitionedGraph, names: Lookup, x: Any) -> Any:
    """Replace each array of ids in lists and tuples by an array of labels, on the host."""
    if isinstance(x, list | tuple):
        return type(x)(labels_in(graph, names, part) for part in x)
    return names.names(np.asarray(graph.device.to_host(x))) if hasattr(x, "dtype") else x


def as_graph(graph: Any) -> Graph:
    """Return a graph unchanged, or convert a graph of another library by `Graph.of`."""
    if isinstance(graph, PartitionedGraph):
        raise TypeError(
            "this algorithm takes a graph on one device, not a partitioned graph: parts.to(device)"
        )
    return graph if isinstance(graph, Graph) else Graph.of(graph)


def source_ids(graph: Graph, source: Any, name: str = "source") -> Any:
    """Check the id or label of a point, or several of them, see `Graph.ids_of`.

    Returns
    -------
    array, shape (k,), int32
        On the host, without duplicates.

    Raises
    ------
    TypeError
        If a value is not an integer, and the graph has no labels.
    ValueError
        If a value is neither the id nor the label of a live point.
    """
    n = len(graph.points)
    plain = type(source) is int and graph._labels is None
    if plain and 0 <= source < n and not graph.points.deletes:
        return np.array([source], np.int32)
    ids = graph.ids_of(source, name)
    if ids.size and ids.dtype.kind not in "iu":
        raise TypeError(f"{name} is an id or an array of ids, not {shown(source)}")
    wrong = ids[(ids < 0) | (ids >= n)]
    if wrong.size:
        raise ValueError(f"{name} {wrong[0]} is not a vertex: the graph has {n}, counted from 0")
    ids = (np.unique(ids) if ids.size > 1 else ids).astype(np.int32)  # imports numpy.ma, in 15 ms
    if graph.points.deletes:
        dead = ids[~np.asarray(graph.device.to_host(graph.points.alive))[ids]]
        if dead.size:
            raise ValueError(f"{name} {dead[0]} is not a vertex: it was deleted")
    return ids


def source_rows(graph: Graph, source: Any, name: str = "source") -> Any:
    """Check ids of points like `source_ids`; preserves their order and duplicates."""
    found = source_ids(graph, source, name)
    return found if type(source) is int else graph.ids_of(source, name).astype(np.int32)


def vertex_id(graph: Graph, vertex: Any, name: str) -> int:
    """Check the id or label of one point like `source_ids`."""
    if not graph._is_label(vertex) and (graph.labels is None or hasattr(vertex, "__index__")):
        vertex = integer(vertex, name)
    return int(source_ids(graph, [vertex], name)[0])


def is_one_vertex(graph: Graph, vertices: Any) -> bool:
    """Whether an argument is one id or label, not an array or list of these."""
    if isinstance(vertices, list | tuple | set | frozenset):
        return graph._is_label(vertices)
    return np.ndim(vertices) == 0


def checked_seed(seed: Any) -> int:
    """Return the seed of random numbers, an integer from 0 on.

    Raises
    ------
    TypeError
        If the seed is not an integer.
    ValueError
        If the seed is negative.
    """
    found = integer(seed, "seed")
    if found < 0:
        raise ValueError(f"seed is 0 or more, not {found}")
    return found


def batch_size(graph: Graph) -> int:
    """Return the number of sources per search: enough to fill the device; 1 with parts."""
    if isinstance(graph, PartitionedGraph):
        return 1
    return max(graph.device.bulk // max(len(graph.points), 1), 1)


def results_device(graph: Graph | PartitionedGraph) -> Device:
    """Return the device of an algorithm's results: for a partitioned graph, that of part 0.

    With parts in several processes it is the host, on which a `PartitionedArray` is gathered.
    """
    if isinstance(graph, PartitionedGraph):
        return graph.devices[0] if len(graph.here) == len(graph.devices) else graph.device
    return graph.device


def stacked(graph: Graph, blocks: Sequence[Any]) -> Any:
    """Concatenate blocks of rows, on the `results_device`."""
    if len(blocks) == 1:
        return blocks[0]
    where = results_device(graph)
    with where.active():
        return where.xp.concatenate(blocks)


def values(graph: Graph | PartitionedGraph, name: str) -> Any:
    """Return a column of points on the `results_device`: a copy for a partitioned graph."""
    if isinstance(graph, PartitionedGraph):
        return graph.points.gathered(name, results_device(graph))
    return graph.points.columns[name].array[: len(graph.points)]


def results(graph: Graph | PartitionedGraph, *names: str) -> list[Any]:
    """Copy columns of points; for a partitioned graph, each part has the values of its points."""
    if isinstance(graph, PartitionedGraph):
        return graph.points.results(results_device(graph), *names)
    return graph.device.copies(*(values(graph, name) for name in names))


def early_results(
    graph: Graph | PartitionedGraph,
    *names: str,
    convert: Callable[[Device, Any], Any] | None = None,
) -> Any:
    """Return a context for the last program that changes columns; ``arrays()`` are the `results`.

    On GPUs the copies are enqueued behind the program while it runs.  On one device ``convert``
    makes a result of a column instead of a copy.
    """
    if isinstance(graph, PartitionedGraph):
        return graph.points.early_results(results_device(graph), *names)
    return _EarlyResults(graph, names, convert)


class _EarlyResults:
    """The context of `early_results` on one device."""

    def __init__(self, graph: Graph, names: tuple[str, ...], convert: Any) -> None:
        self.graph, self.names, self.convert = graph, names, convert
        self.made: list[Any] | None = None

    def __enter__(self) -> _EarlyResults:
        if not self.graph.device.on_host:
            behind.enqueue = self._copy
        return self

    def __exit__(self, *problem: object) -> None:
        behind.enqueue = None

    def _copy(self) -> None:
        self.made = None
        with suppress(MemoryError):  # `arrays` tries again when the program has ended
            self.made = self._results()

    def _results(self) -> list[Any]:
        if self.convert is None:
            return results(self.graph, *self.names)
        return [self.convert(self.graph.device, values(self.graph, name)) for name in self.names]

    def arrays(self) -> list[Any]:
        """Return the copies; make them now if none were enqueued."""
        if self.made is None:
            self.made = self._results()
        return self.made


def pieces(graph: Graph | PartitionedGraph) -> list[Graph]:
    """Return the graphs of this process's parts, including mirrors; or the graph itself."""
    if isinstance(graph, PartitionedGraph):
        return [graph.local(k) for k in graph.here]
    return [graph]


def live_edges(graph: Graph | PartitionedGraph) -> Any:
    """Return the ids of the edges between live points: an array, or a slice of all edges."""
    if isinstance(graph, PartitionedGraph):
        return graph.edges.ids() if graph.edges.deletes else slice(len(graph.edges))
    if graph.gapped and not graph.points.deletes:  # nothing to pack
        return graph.edges.ids() if graph.edges.deletes else slice(len(graph.edges))
    _, ids = graph.adjacency("out")
    return slice(len(graph.edges)) if ids is None else ids
