"""Labels of points: names of vertices, such as those in the library of an imported graph.

Labels are Python objects on the host.  A column of points, ``label_index``, has the position of
each point's label in the list of labels, so that labels are preserved by all operations on columns:
copies, compaction, deletion, and recycling of ids.

Arguments and results name points by labels if points have labels.  In arguments an integer is an
id, unless a label is a number: then numbers are labels, so that results are valid arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from morph.data.versions import exclusive
from morph.language.arguments import boolean
from morph.language.messages import shown
from morph.runtime.arrays import listed, refuse_masked
from morph.runtime.device import Array, Device

COLUMN = "label_index"
ENDS = ("src", "dst")
NUMBERS = "biufc"  # kinds of dtypes
SHOWN = 16  # characters of a label in an error message


class Lookup(NamedTuple):
    """The labels by point and the points by label, cached for one ``Graph.changes``."""

    changes: int
    at: Array  # the position in the list of labels, by point
    labels: Array
    ids: dict[Any, int]
    numbers_are_labels: bool

    def names(self, ids: Array) -> Array:
        """Return the labels of points, in the shape of their ids.

        A point without a label is named by its id.

        Raises
        ------
        ValueError
            If a point has no label, and its id could be taken for a label.
        """
        names = self.labels[ids]
        for k in range(names.size) if len(self.ids) < len(self.labels) else ():
            if names.flat[k] is None:
                p = int(ids.flat[k])
                if self.numbers_are_labels:
                    raise ValueError(f"point {p} has no label: assign `labels` of all points")
                names.flat[k] = p
        return names


class VertexIds(NamedTuple):
    """Ids in an argument of an algorithm, also if labels are numbers."""

    array: Array  # on the host


class Labelled:
    """Base of `Graph` and `PartitionedGraph`: the labels of their points."""

    __slots__ = ("_labels", "_lookup", "_numbers_are_labels")

    _labels: Array | None
    _lookup: Lookup | None
    points: Any
    edges: Any
    device: Device
    changes: int

    def __init__(self) -> None:
        self._take_labels(None)

    def _take_labels(self, labels: Array | None) -> None:
        """Set the list of labels to which the column refers: all labels, then None."""
        self._labels, self._lookup = labels, None
        kinds = () if labels is None else set(map(type, labels))
        self._numbers_are_labels = any(issubclass(kind, Number) for kind in kinds)

    @property
    def labels(self) -> Array | None:
        """The label of each point: shape (n,), of Python objects; None if points have no labels.

        Deleted and later points have the label None.  Assign one distinct label for each point
        (ValueError), or None.  The array is read-only.

        Notes
        -----
        If points have labels, arguments of algorithms and batches are labels or ids.  An integer is
        an id, unless a label is a number: then numbers are labels.  Results that list vertices,
        such as those of a path or a clique, are arrays of labels, on the host.  Results with a
        value for each point or edge are in the order of ids, and values that denote points, such as
        predecessors, are ids: `by_label` and `labels_of` convert these.  Edges are ids, too:
        `ends_of`.  A point without a label is named by its id; a ValueError if labels are numbers.
        """
        found = self.lookup()
        return None if found is None else found.labels

    @labels.setter
    def labels(self, labels: Iterable[Any] | None) -> None:
        self._set_labels(labels)

    @property
    def labelled(self) -> bool:
        """Whether points have labels."""
        return self._labels is not None

    def id_of(self, label: Any) -> int:
        """Return the id of the point that has a label.

        Raises
        ------
        KeyError
            If no point has the label.
        """
        found = self.lookup()
        if found is None:
            raise KeyError(f"the points have no labels: {shown(label)}")
        if label is None or label not in found.ids:
            raise KeyError(f"no point has the label {shown(label)}")
        return found.ids[label]

    def ids_of(self, vertices: Any, what: str = "vertices") -> Array:
        """Return the ids of vertices that are specified by ids or by labels.

        Parameters
        ----------
        vertices : int, label, array of int, or list, tuple, set or array of labels
            Integers are ids, unless a label is a number: then they are labels.  A tuple that is a
            label is one vertex.
        what : str
            The name of the argument in errors.

        Returns
        -------
        array of int, shape (k,)
            On the host, with repetitions.  Ids are not checked; if points have no labels, other
            objects are returned unchanged.

        Raises
        ------
        ValueError
            If points have labels, and a vertex is not one of these.
        """
        if isinstance(vertices, VertexIds):
            return vertices.array
        refuse_masked(vertices, what)
        if self._may_be_labels(vertices):
            vertices = self._objects(vertices)
        several: list[Any] | None
        if isinstance(vertices, str | bytes | np.datetime64) or self._is_label(vertices):
            several = [vertices]
        elif isinstance(vertices, list | tuple | set | frozenset):
            several = list(vertices)
        elif self._numbers_are_labels and isinstance(vertices, Number):
            several = [vertices]
        else:
            several = None
        found = self.lookup()
        if found is None or several is None or several and all(map(self._is_id, several)):
            return np.asarray(self.device.to_host(listed(vertices, what))).ravel()
        ids = []
        for x in several:
            try:
                ids.append(x if self._is_id(x) else found.ids[x])
            except (KeyError, TypeError):  # TypeError: not hashable
                raise ValueError(f"{what}: no vertex has the label {shown(x)}") from None
        return np.array(ids, np.int64)

    def labels_of(self, vertices: Any) -> Any:
        """Return the labels of points that are given by ids; ids if points have no labels.

        Parameters
        ----------
        vertices : int, array of int, or list or tuple of these
            Ids, on any device, such as ``selected.nonzero()[0]``.  Vertices that algorithms list
            have labels already; for ``predecessor`` and ``partner`` see `by_label`.

        Returns
        -------
        label, or list of labels or lists
            Python objects, nested as ``vertices``.  A point without a label is named by its id.

        Raises
        ------
        TypeError, IndexError
            If an id is not an integer, or not that of a point, such as -1 in ``predecessor``.
        ValueError
            If a point has no label, and labels are numbers, such as ids.
        """
        if isinstance(vertices, list | tuple):
            return [self.labels_of(x) for x in vertices]
        ids = np.asarray(self.device.to_host(vertices))
        if ids.dtype.kind not in "iu":
            raise TypeError(f"vertices are ids, not {shown(vertices)}")
        wrong = ids[(ids < 0) | (ids >= len(self.points))]
        if wrong.size:
            raise IndexError(f"vertex {wrong[0]}: the graph has {len(self.points)}")
        found = self.lookup()
        if found is None:
            return ids.tolist()
        return found.names(ids).tolist() if ids.ndim else found.names(ids[None])[0]

    @exclusive
    def ends_of(self, edges: Any) -> tuple[Array, Array]:
        """Return the ends of edges that an algorithm has found, as labels if points have labels.

        Parameters
        ----------
        edges : array of int, shape (k,)
            Ids, on any device: those of a forest, a matching, a path or a truss, say.

        Returns
        -------
        src, dst : array, shape (k,)
            Labels are Python objects on the host; ids, of points without labels, are on the graph's
            device.

        Raises
        ------
        TypeError, IndexError
            If an id is not an integer, or not that of an edge.
        """
        ids = np.asarray(self.device.to_host(listed(edges, "edges")))
        if ids.size and ids.dtype.kind not in "iu":
            raise TypeError(f"edges are ids, not {shown(edges)}")
        wrong = ids[(ids < 0) | (ids >= len(self.edges))]
        if wrong.size:
            raise IndexError(f"edge {wrong[0]}: the graph has {len(self.edges)}")
        with self.device.active():
            at = self.device.asarray(ids.astype(np.int64))
            src, dst = (getattr(self.edges, name)[at] for name in ENDS)
        if self.edges.deletes:
            dead = ids[~np.asarray(self.device.to_host(self.edges.alive))[ids]]
            if dead.size:
                raise IndexError(f"edge {dead[0]} was deleted")
        if (found := self.lookup()) is None:
            return src, dst
        src, dst = (found.names(np.asarray(self.device.to_host(a))) for a in (src, dst))
        return src, dst

    def ids_in_batch(
        self, inserts: Any, deletes: Any, updates: Any, points: Any
    ) -> tuple[Any, Any, Any, Any]:
        """Replace the labels in arguments of `Graph.apply` by ids; other values are unchanged."""
        if isinstance(inserts, Mapping):
            ends = {n: self._ids(inserts[n], f"inserts.{n}") for n in ENDS if n in inserts}
            inserts = {**inserts, **ends}
        else:
            inserts = self._ids_of_ends(inserts, "inserts")
        if isinstance(deletes, tuple):
            deletes = self._ids_of_ends(deletes, "deletes")
        if isinstance(updates, list | tuple) and len(updates) == 3:
            updates = self._ids_of_ends(updates, "updates")
        return inserts, deletes, updates, self._ids(points, "delete_points")

    def _ids_of_ends(self, given: Any, what: str) -> Any:
        """Replace labels in ``(src, dst)`` or ``(src, dst, weight)``."""
        if not isinstance(given, list | tuple) or len(given) not in (2, 3):
            return given  # an error of `Batch.of`
        if isinstance(given, list) and any(isinstance(x, list | tuple) for x in given):
            return given
        ends = (self._ids(x, f"{what}.{n}") for n, x in zip(ENDS, given, strict=False))
        return (*ends, *given[2:])

    def _ids(self, vertices: Any, what: str) -> Any:
        """Replace labels by ids."""
        if vertices is None or (isinstance(vertices, int) and not self._numbers_are_labels):
            return vertices
        if hasattr(vertices, "dtype") and not self._may_be_labels(vertices):
            return vertices
        return self.ids_of(vertices, what)

    def _may_be_labels(self, array: Any) -> bool:
        """Whether an argument is an array or scalar whose dtype is that of labels, not of ids."""
        return hasattr(array, "dtype") and (
            _kind(array) not in NUMBERS or (self._numbers_are_labels and _kind(array) != "b")
        )

    def _objects(self, array: Any) -> Any:
        """Convert an array to Python objects, a scalar to one; dates and times stay NumPy's.

        Python's dates and times are not equal to these, or are numbers, depending on the unit.
        """
        a = np.asarray(self.device.to_host(array) if _kind(array) in NUMBERS else array)
        if a.dtype.kind in "mM":
            return list(a) if a.ndim else a[()]
        return a.tolist()

    def _is_id(self, x: Any) -> bool:
        """Whether an argument is an id: an integer, unless labels are numbers."""
        return isinstance(x, int | np.integer) and not self._numbers_are_labels

    def _is_label(self, label: Any) -> bool:
        """Whether an argument is the label of a point."""
        if self._is_id(label) or self.lookup() is None:
            return False
        try:
            self.id_of(label)
        except (KeyError, TypeError):  # TypeError: not hashable
            return False
        return True

    @exclusive
    def by_label(self, values: Any, *, values_are_vertices: bool = False) -> dict[Any, Any]:
        """Return values of points by label; by id if points have no labels.

        Parameters
        ----------
        values : array, shape (n,) or (n, k)
            On any device, such as a field of an algorithm's result.
        values_are_vertices : bool
            Whether the values are ids of points, such as ``predecessor`` or ``partner``, to be
            returned as labels; None where they are negative.

        Returns
        -------
        dict
            For each live point, a Python number or a list; or labels.

        Raises
        ------
        ValueError
            If the number of values differs from that of points, or a point has no label.
        """
        a = np.asarray(self.device.to_host(listed(values, "values")))
        if not a.ndim or len(a) != len(self.points):
            raise ValueError(f"values have shape {a.shape}: expected one for each of "
                             f"{len(self.points)} points")  # fmt: skip
        ids, names = self._live_names()
        found = a[ids]
        if boolean(values_are_vertices, "values_are_vertices"):
            some, lookup = found >= 0, self.lookup()
            of_some, found = found[some], np.full(found.shape, None, object)
            found[some] = of_some if lookup is None else lookup.names(of_some)
        return dict(zip(names[ids].tolist(), found.tolist(), strict=True))

    def _live_names(self) -> tuple[Array, Array]:
        """Return the ids of the live points, and their labels or ids.

        Raises
        ------
        ValueError
            If points have labels, and a live point has none.
        """
        ids = self.device.to_host(self.points.ids())
        found = self.lookup()
        if found is None:
            return ids, np.arange(len(self.points)).astype(object)
        for p in ids.tolist() if len(found.ids) < len(ids) else ():
            if found.labels[p] is None:
                raise ValueError(f"point {p} has no label: assign `labels` of all points")
        return ids, found.labels

    @exclusive
    def _set_labels(self, labels: Iterable[Any] | None) -> None:
        if labels is None:
            self._take_labels(None)
            return
        refuse_masked(labels, "labels")
        objects = self._objects(labels) if hasattr(labels, "dtype") else labels
        if isinstance(objects, str | bytes) or not isinstance(objects, Iterable):
            raise TypeError(f"labels are one for each point, not {shown(labels)}")
        given = list(objects)
        n = len(self.points)
        if len(given) != n:
            raise ValueError(f"labels: {len(given)} for {n} points")
        seen: dict[Any, int] = {}
        for p, label in enumerate(given):
            try:
                first = seen.setdefault(label, p)
            except TypeError:
                raise TypeError(f"labels[{p}] is not hashable: {shown(label)}") from None
            if label is not None and first != p:
                raise ValueError(f"labels[{p}] is that of point {first}: {shown(label)}")
        if COLUMN not in self.points.columns:
            self.points.add(COLUMN, np.int32, -1)
        with self.device.active():
            self.points.columns[COLUMN].array[:n] = self.device.xp.arange(n, dtype=np.int32)
        self._take_labels(np.fromiter([*given, None], object, n + 1))

    def _label_at(self, p: int) -> Any:
        """Return the label of a point, if any, also if a batch has just deleted it."""
        column, labels = self.points.columns.get(COLUMN), self._labels
        return None if column is None or labels is None else labels[int(column.array[p])]

    @exclusive
    def lookup(self) -> Lookup | None:
        """Return the labels as of now; None if points have none."""
        if self._labels is None or COLUMN not in self.points.columns:
            return None
        if self._lookup is None or self._lookup.changes != self.changes:
            n = len(self.points)
            at = np.array(self.device.to_host(self.points.columns[COLUMN].array[:n]))
            if self.points.deletes:
                at[~np.asarray(self.device.to_host(self.points.alive))] = -1
            if self._lookup is not None and np.array_equal(at, self._lookup.at):  # only edges
                self._lookup = self._lookup._replace(changes=self.changes)
                return self._lookup
            labels = self._labels[at]
            labels.flags.writeable = False
            ids = {label: p for p, label in enumerate(labels.tolist()) if label is not None}
            self._lookup = Lookup(self.changes, at, labels, ids, self._numbers_are_labels)
        return self._lookup


def name_of(graph: Any, vertex: Any) -> str:
    """Return the label of a vertex for an error message, or its id if it has no label."""
    label = None if graph._labels is None else graph._label_at(int(vertex))
    return str(int(vertex)) if label is None else shown(label, SHOWN)


def _kind(a: Any) -> str:
    """The kind of an array's dtype; "i" of other objects, whose values are not looked at."""
    return getattr(getattr(a, "dtype", None), "kind", "i")
