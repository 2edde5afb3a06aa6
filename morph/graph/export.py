"""Conversion of graphs to objects of other libraries, which are imported on demand; drawings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from morph.data.table import Table
from morph.data.versions import exclusive
from morph.graph.labels import Labelled
from morph.language.arguments import check_name
from morph.language.hooks import Hook
from morph.language.messages import shown
from morph.runtime.device import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

draw: Hook[Figure] = Hook()  # plotting.graph
save: Hook[None] = Hook()  # plotting.mesh


class Exporting(Labelled):
    """Base of `Graph`: its ``to_...`` methods, and its drawings."""

    __slots__ = ()

    points: Table
    edges: Table
    directed: bool

    def adjacency(self, direction: str = "out") -> tuple[Array, Array | None]:
        """See `Graph`."""
        raise NotImplementedError

    @exclusive
    def to_scipy(self, *, weight: str | None = "weight") -> Any:
        """Return the graph as a sparse matrix: an edge is an entry in row ``src``, column ``dst``.

        Parameters
        ----------
        weight : str or None
            The column of edges that becomes the values; they are 1 if it is None, or if edges have
            no column ``weight``.

        Returns
        -------
        scipy.sparse.csr_array, shape (n, n)
            On the host; it shares no memory with the graph.  Row i is point i; the row of a deleted
            point is empty.  The matrix of an undirected graph is symmetric.  Parallel edges are
            duplicate entries, which SciPy sums.

        Raises
        ------
        ImportError
            If SciPy is not installed.
        ValueError
            If edges have no such column, or it is a vector.
        """
        check_name(weight, "weight")
        from scipy.sparse import csr_array  # noqa: PLC0415

        offsets, _ = self.adjacency("out")
        _, dst, values = self._arcs(weight)
        if values is None:
            values = np.ones(dst.size, np.int64)
        n = len(self.points)
        return csr_array((values, dst, np.array(self.device.to_host(offsets))), shape=(n, n))

    @exclusive
    def to_networkx(self, *, weight: str | None = "weight") -> Any:
        """Return a NetworkX graph whose nodes are the labels of points, or their ids.

        Parameters
        ----------
        weight : str or None
            The column of edges that becomes an attribute of this name; None makes no attribute.

        Returns
        -------
        networkx.DiGraph, or networkx.Graph if the graph is undirected
            ``MultiDiGraph`` or ``MultiGraph`` if there are parallel edges.  Deleted points are
            excluded.

        Raises
        ------
        ImportError
            If NetworkX is not installed.
        ValueError
            As `to_scipy`, and if only some points have labels.
        """
        check_name(weight, "weight")
        import networkx as nx  # noqa: PLC0415

        src, dst, values = self._edges_once(weight)
        ids, names = self._live_names()
        pairs = np.sort(src * len(self.points) + dst)  # faster than np.unique
        parallel = bool((pairs[1:] == pairs[:-1]).any())
        kinds = (nx.Graph, nx.DiGraph), (nx.MultiGraph, nx.MultiDiGraph)
        graph = kinds[parallel][self.directed]()
        graph.add_nodes_from(names[ids].tolist())
        columns = [names[src].tolist(), names[dst].tolist()]
        if values is None:
            graph.add_edges_from(zip(*columns, strict=True))
        else:
            columns.append(values.tolist())
            graph.add_weighted_edges_from(zip(*columns, strict=True), weight=weight)
        return graph

    @exclusive
    def to_igraph(self, *, weight: str | None = "weight") -> Any:
        """Return an igraph graph; labels of points become the attribute ``name``.

        Parameters
        ----------
        weight : str or None
            As in `to_networkx`.

        Returns
        -------
        igraph.Graph
            Vertex i is point i, or the i-th live point if points were deleted.

        Raises
        ------
        ImportError
            If igraph is not installed.
        ValueError
            As `to_networkx`.
        """
        check_name(weight, "weight")
        import igraph  # noqa: PLC0415

        src, dst, values = self._edges_once(weight)
        ids, names = self._live_names()
        vertex = np.zeros(len(self.points), np.int64)
        vertex[ids] = np.arange(ids.size)
        return igraph.Graph(
            ids.size,
            np.stack([vertex[src], vertex[dst]], 1),
            directed=self.directed,
            edge_attrs={} if values is None else {weight: values.tolist()},
            vertex_attrs={} if self.labels is None else {"name": names[ids].tolist()},
        )

    @exclusive
    def to_pandas(self, *, weight: str | None = "weight") -> Any:
        """Return the edges as a table; for an undirected graph, one row for both arcs of an edge.

        Parameters
        ----------
        weight : str or None
            As in `to_networkx`.

        Returns
        -------
        pandas.DataFrame
            With columns ``source``, ``target`` (labels of points, or ids) and the weight.  Points
            without edges do not occur.

        Raises
        ------
        ImportError
            If pandas is not installed.
        ValueError
            As `to_networkx`.
        """
        check_name(weight, "weight")
        import pandas as pd  # noqa: PLC0415

        src, dst, values = self._edges_once(weight)
        if self.labels is not None:
            _, names = self._live_names()
            src, dst = names[src], names[dst]
        columns: dict[Any, Array] = {"source": src, "target": dst}
        return pd.DataFrame(columns if values is None else {**columns, weight: values})

    @exclusive
    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        values: Array | None = None,
        label: str | None = None,
        positions: Array | None = None,
        cmap: str | None = None,
        ax: Axes | None = None,
    ) -> Figure:
        """Draw a small graph: points coloured by values, edges as lines or arrows, loops as rings.

        Labels, or ids, are shown if there are at most 60 points.

        Parameters
        ----------
        path : path-like, optional
            File of the picture; the suffix determines the format.
        values : (n,) array, optional
            Values of points to show, such as distances or core numbers.  Points whose value is
            masked, not finite, or the largest integer of its type, as distances of points that are
            not reached, are grey; `bfs` has -1 for these: mask it by ``np.ma.masked_less(d, 0)``.
        label : str, optional
            Label of the colour scale.
        positions : (n, 2) array, optional
            Positions of points; by default their columns ``x`` and ``y``, if there are both.
            Otherwise distances in the drawing approximate numbers of edges between points.
        cmap : str, optional
            Name of a matplotlib colour map.
        ax : matplotlib Axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        matplotlib Figure
            Figure of ``ax``, or the new one.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        TypeError, ValueError
            If ``values``, ``positions`` or ``cmap`` are wrong, if there are more than 50,000 edges,
            or more than 1,000 points without positions.
        """
        src, dst, _ = self._edges_once(None)
        ids, names = self._live_names()
        vertex = np.zeros(len(self.points), np.int64)
        vertex[ids] = np.arange(ids.size)
        columns = self.points.columns
        if positions is None and "x" in columns and "y" in columns:
            with self.device.active():
                x, y = (self.device.to_host(columns[c].array[: len(vertex)]) for c in "xy")
            positions = np.stack([x, y], axis=1)
        chosen = [
            None if given is None else self._of_live(name, given, ids)
            for name, given in (("values", values), ("positions", positions))
        ]
        drawn = vertex[src], vertex[dst], names[ids].tolist(), self.directed
        figure = draw(drawn, chosen[0], label, chosen[1], cmap, ax)
        if path is not None:
            save(figure, path)
        return figure

    def _of_live(self, name: str, given: Any, ids: Array) -> Array:
        """Return, on the host, the rows of an array for the points that are not deleted."""
        rows = given if np.ma.isMaskedArray(given) else np.asarray(self.device.to_host(given))
        if rows.ndim == 0 or len(rows) != len(self.points):
            shape = f"shape ({len(self.points)}, ...), a row for each point"
            raise ValueError(f"{name} must have {shape}, got {shown(rows.shape)}")
        return rows[ids]

    def _arcs(self, weight: str | None) -> tuple[Array, Array, Array | None]:
        """Return host copies of source, destination and a column, in adjacency order."""
        columns, names = self.edges.columns, ["src", "dst"]
        if weight is not None and (weight != "weight" or weight in columns):
            if weight not in columns:
                raise ValueError(self.edges.no_column(weight))
            if columns[weight].size:
                raise ValueError(
                    f"weight={shown(weight)} is a vector: expected a number for each edge"
                )
            names.append(weight)
        _, ids = self.adjacency("out")
        pick = slice(len(self.edges)) if ids is None else ids
        with self.device.active():
            found = [columns[c].array[pick] for c in names]
        src, dst, *values = (np.array(self.device.to_host(a)) for a in found)
        return src, dst, values[0] if values else None

    def _edges_once(self, weight: str | None) -> tuple[Array, Array, Array | None]:
        """Return `_arcs`; for an undirected graph only the arc of each edge to the larger id."""
        src, dst, values = self._arcs(weight)
        src, dst = src.astype(np.int64), dst.astype(np.int64)
        if self.directed:
            return src, dst, values
        kept = src <= dst
        return src[kept], dst[kept], None if values is None else values[kept]
