"""Dynamic SSSP, BFS and connected components: exact results, updated after batches of edge changes.

Each is a monotone problem (`morph.algorithms.dynamic.repair`), given by the cost of an edge, the
start value of a vertex, and a static algorithm that recomputes all values.  SSSP: the weight, and
infinity; BFS: 1, and infinity; components (label propagation): 0, and the id of the vertex.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.algorithms.dynamic import repair
from morph.algorithms.dynamic.following import Dynamic, followed
from morph.algorithms.graph.arguments import live_edges, source_ids
from morph.algorithms.graph.bfs import bfs
from morph.algorithms.graph.components import connected_components
from morph.algorithms.graph.costs import DELTA_SCALE, refuse_negative
from morph.algorithms.graph.sssp import sssp
from morph.graph.labels import VertexIds, name_of
from morph.launch.ahead import compile_ahead
from morph.launch.foreach import func
from morph.prelude import f32, i32, i64
from morph.runtime.arrays import any_true, count_true, rough_mean

LEVELS = 8  # delta of BFS: the levels in one near-far bucket
WINDOWS = 64  # near-far buckets of component labels


@func
def integer(e):
    return i64(e.weight)


@func
def single_real(e):
    return f32(e.weight)


@func
def real(e):
    return e.weight


@func
def one(e):
    return i32(1)


@func
def unit_integer(e):
    return i64(1)


@func
def nothing(e):
    return i32(0)


@func
def infinite(v, infinity):
    return infinity


@func
def itself(v, infinity):
    return v.id


class DynamicSSSP(Dynamic):
    """SSSP distances, kept exact while edges are inserted, deleted and change weight.

    Parameters
    ----------
    graph : Graph, PartitionedGraph, or an argument of `Graph.of`
        On any device, with edge weights that are not negative, 1 if it has none; out-edges are
        followed.  It is changed by `apply`.
    source : int, label, or array of these
        A point.  Of several, a distance is that to the nearest.

    Attributes
    ----------
    graph : Graph
    sources : array of int32, or of labels
        See `Graph.labels`; on the host.
    share : float
        Fraction of all points: if more are affected, all values are recomputed.  By default 0.4,
        for BFS 0.2, for components 0.1.

    Raises
    ------
    TypeError, ValueError, OverflowError
        As `morph.sssp`.

    Notes
    -----
    Changes of the graph by other means are detected, and all values are recomputed at the next use.
    Weights that are written directly are not detected: call `refresh`.  `Graph.compact` renumbers
    points if some were deleted; then create a new object.
    """

    share = 0.4

    def __init__(self, graph: Any, source: Any = 0) -> None:
        graph = followed(graph)
        self._sources = source_ids(graph, source)
        self._kind = kind = graph.edges.weight.dtype if "weight" in graph.edges.columns else None
        if kind is not None and kind.kind == "f":
            dtype = np.result_type(kind, np.float32)
            self._cost = real if kind == dtype else single_real
            infinity, most = np.inf, np.finfo(dtype).max
        else:
            dtype, self._cost = np.dtype(np.int64), unit_integer if kind is None else integer
            infinity = np.iinfo(dtype).max
            most = infinity - 1
        self._start = infinite
        compile_ahead(f"DynamicSSSP {kind}", graph.device, graph)
        super().__init__(graph, dtype, infinity, most)

    @property
    def distance(self) -> Any:
        """As in the result of `morph.sssp`; a copy, shape (n,)."""
        values = self._values()
        with self.graph.device.active():
            return values.copy()

    def _check_edges(self) -> None:
        self._require_weight()
        graph, kind = self.graph, self._kind
        if kind is not None and self._in_parts:
            ids = graph.edges.ids()
            src, dst, weight = (getattr(graph.edges, c)[ids] for c in ("src", "dst", "weight"))
            refuse_negative(weight, graph, ids)
        if kind is None or graph.directed:  # otherwise recomputing reads the reverse edge
            return
        if self._in_parts:
            forth, back = np.lexsort((weight, dst, src)), np.lexsort((weight, src, dst))
            differ = weight[forth] != weight[back]
        else:
            weight, ids = graph.edges.weight.array, graph.edges.ids()
            differ = weight[graph.reverses()[ids]] != weight[ids]
        if any_true(differ):
            raise ValueError(
                "DynamicSSSP needs equal weights both ways in a graph that is not directed"
            )

    def _solve(self) -> tuple[Any, Any]:
        found = sssp(self.graph, VertexIds(self._sources), predecessors=True)
        return found.distance, found.predecessor

    def _delta(self) -> Any:
        if self._kind is None:
            return LEVELS
        weight = self._array(self.graph.edges, "weight")[live_edges(self.graph)]
        if weight.dtype.kind == "f":
            weight = weight[self.graph.device.xp.isfinite(weight)]
        if not weight.size:
            return 0
        delta = rough_mean(weight) * DELTA_SCALE * len(self._tree) / weight.size
        return min(delta, float(self._most) / 2)

    def _check(self, applied: Any) -> None:
        self._require_weight()
        _keep_sources(self, applied)

    def _require(self) -> None:
        self._require_weight()

    def _require_weight(self) -> None:
        """Raise an error if the column ``weight`` was added, removed or replaced."""
        weight = self.graph.edges.columns.get("weight")
        if (None if weight is None else weight.dtype) != self._kind:
            now = "is gone" if weight is None else f"holds {weight.dtype} now"
            held = "was not there" if self._kind is None else f"held {self._kind}"
            raise TypeError(f"column weight {held} and {now}: make another DynamicSSSP")

    def _check_weights(self, applied: Any) -> None:
        self._require_weight()
        if self._kind is None:
            return
        if applied._changes != self.graph.changes:  # ids may be reused; `refresh` checks all
            return
        weight = self._array(self.graph.edges, "weight")
        with self.graph.device.active():
            for what, ids in (("inserts", applied.inserted), ("updates", applied.updated)):
                bad = ~(weight[ids] >= 0)  # and NaN
                if any_true(bad):
                    e = int(ids[int(bad.argmax())])
                    raise ValueError(f"{what}: edge {e} has weight {weight[e]}, which is refused")

    def _refuse_overflow(self) -> None:
        graph, value = self.graph, self._array(self._tree, "value")
        pick = live_edges(graph)
        src, dst, weight = (self._array(graph.edges, c)[pick] for c in ("src", "dst", "weight"))
        with graph.device.active():
            reached = value < self._infinity
            beyond = reached[src] & ~reached[dst] & (weight < np.inf)
            if not any_true(beyond):
                return
            k = int(beyond.argmax())
            start, to = name_of(graph, src[k]), name_of(graph, dst[k])
        raise OverflowError(
            f"the distance of vertex {to}, reached from vertex {start}, is too"
            f" large for {self._dtype}"
        )


class DynamicBFS(Dynamic):
    """BFS levels, kept exact while edges are inserted and deleted.

    Parameters
    ----------
    graph : Graph, PartitionedGraph, or an argument of `Graph.of`
        On any device; out-edges are followed.  It is changed by `apply`.
    source : int, label, or array of these
        A point.  Of several, a distance is that to the nearest.

    Attributes
    ----------
    graph, sources, share
        As in `DynamicSSSP`.

    Raises
    ------
    TypeError, ValueError
        As `morph.bfs`.
    """

    share = 0.2
    _cost, _start = one, infinite

    def __init__(self, graph: Any, source: Any = 0) -> None:
        graph = followed(graph)
        self._sources = source_ids(graph, source)
        compile_ahead("DynamicBFS", graph.device, graph)
        super().__init__(graph, np.int32, repair.NONE, repair.NONE - 1)

    @property
    def distance(self) -> Any:
        """As in the result of `morph.bfs`: -1 where there is no path; a copy, shape (n,)."""
        values = self._values()
        with self.graph.device.active():
            return self.graph.device.xp.where(values == self._infinity, np.int32(-1), values)

    def _solve(self) -> tuple[Any, Any]:
        found, xp = bfs(self.graph, VertexIds(self._sources)), self.graph.device.xp
        distance = xp.where(found.distance < 0, self._infinity, found.distance)
        return distance, found.predecessor

    def _delta(self) -> Any:
        return LEVELS

    def _check(self, applied: Any) -> None:
        _keep_sources(self, applied)


class DynamicComponents(Dynamic):
    """Connected components, kept exact while edges are inserted and deleted.

    Parameters
    ----------
    graph : Graph, PartitionedGraph, or an argument of `Graph.of`
        On any device, and not directed.  It is changed by `apply`.

    Attributes
    ----------
    graph, share
        As in `DynamicSSSP`.

    Raises
    ------
    ValueError
        If the graph is directed.
    """

    share = 0.1
    _cost, _start = nothing, itself

    def __init__(self, graph: Any) -> None:
        graph = followed(graph)
        if graph.directed:
            raise ValueError(
                "DynamicComponents needs a graph that is not directed: make it with symmetrize=True"
            )
        compile_ahead("DynamicComponents", graph.device, graph)
        super().__init__(graph, np.int32, repair.NONE, repair.NONE - 1)

    @property
    def label(self) -> Any:
        """As in the result of `morph.connected_components`; a copy, shape (n,)."""
        values, points, xp = self._values(), self.graph.points, self.graph.device.xp
        with self.graph.device.active():
            if points.deletes:
                return xp.where(points.alive, values, np.int32(-1))
            return values.copy()

    @property
    def components(self) -> int:
        """The number of components."""
        label = self.label
        with self.graph.device.active():
            return count_true(label == self.graph.device.xp.arange(label.size))

    def _solve(self) -> tuple[Any, Any]:
        label = connected_components(self.graph).label
        xp = self.graph.device.xp
        return xp.where(label < 0, xp.arange(label.size, dtype=np.int32), label), None

    def _delta(self) -> Any:
        return len(self._tree) // WINDOWS

    def _first(self, ids: Any) -> Any:
        return ids.astype(np.int32)


def _keep_sources(dynamic: Any, applied: Any) -> None:
    """Raise an error if a source would be deleted."""
    if not applied.points.size:
        return
    gone = np.asarray(dynamic.graph.device.to_host(applied.points))
    lost = np.intersect1d(gone, dynamic._sources)
    if lost.size:
        name = name_of(dynamic.graph, lost[0])
        raise ValueError(f"point {name} cannot be deleted: it is a source")
