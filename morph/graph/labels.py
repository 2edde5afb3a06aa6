"""Labels of points: names of vertices, such as those in the library of an imported graph.

Labels are Python objects on the host.  A column of points, ``label_index``, has the position of
each point's label in the list of labels, so that labels are preserved by all operations on columns:
copies, compaction, deletion, and recycling of ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from morph.data.table import Table
from morph.data.versions import exclusive
from morph.language.messages import shown
from morph.runtime.arrays import listed, refuse_masked
from morph.runtime.device import Array, Device

COLUMN = "label_index"
ENDS = ("src", "dst")
SHOWN = 16  # characters of a label in an error message


class Lookup(NamedTuple):
    """The labels by point and the points by label, cached for one ``Graph.changes``."""

    changes: int
    labels: Array
    ids: dict[Any, int]


class Labelled:
    """Base of `Graph`: the labels of its points."""

    __slots__ = ("_labels", "_lookup")

    points: Table
    device: Device
    changes: int

    def __init__(self) -> None:
        self._labels: Array | None = None  # all labels, then None
        self._lookup: Lookup | None = None

    @property
    def labels(self) -> Array | None:
        """The label of each point: shape (n,), of Python objects; None if points have no labels.

        Deleted and later points have the label None.  Assign one distinct label for each point
        (ValueError), or None.  The array is read-only.
        """
        found = self._labels_now()
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
        found = self._labels_now()
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
            Integers are ids, even if labels are integers.  A tuple that is a label is one vertex.
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
        refuse_masked(vertices, what)
        if _kind(vertices) in "OUT":
            vertices = np.asarray(vertices).tolist()
        if isinstance(vertices, str) or self._is_label(vertices):
            several = [vertices]
        elif isinstance(vertices, list | tuple | set | frozenset):
            several = list(vertices)
        else:
            several = []
        if self.labels is None or all(isinstance(x, int | np.integer) for x in several):
            return np.asarray(self.device.to_host(listed(vertices, what))).ravel()
        for x in several:
            if not (isinstance(x, int | np.integer) or self._is_label(x)):
                raise ValueError(f"{what}: no vertex has the label {shown(x)}")
        return np.array([self.id_of(x) if self._is_label(x) else x for x in several])

    def labels_of(self, vertices: Any) -> Any:
        """Return the labels of vertices that an algorithm has found; ids if points have no labels.

        Parameters
        ----------
        vertices : int, array of int, or list or tuple of these
            Ids, on any device: the vertices of a path, a cycle, a clique or a community, say, or
            several of these.

        Returns
        -------
        label, or list of labels or lists
            Python objects, nested as ``vertices``.

        Raises
        ------
        TypeError, IndexError
            If an id is not an integer, or not that of a point.
        """
        if isinstance(vertices, list | tuple):
            return [self.labels_of(x) for x in vertices]
        ids = np.asarray(self.device.to_host(vertices))
        if ids.dtype.kind not in "iu":
            raise TypeError(f"vertices are ids, not {shown(vertices)}")
        wrong = ids[(ids < 0) | (ids >= len(self.points))]
        if wrong.size:
            raise IndexError(f"vertex {wrong[0]}: the graph has {len(self.points)}")
        found = self._labels_now()
        if found is None:
            return ids.tolist()
        return found.labels[ids].tolist() if ids.ndim else found.labels[int(ids)]

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
        if vertices is None or isinstance(vertices, int):
            return vertices
        if hasattr(vertices, "dtype") and _kind(vertices) not in "OUT":
            return vertices
        return self.ids_of(vertices, what)

    def _is_label(self, label: Any) -> bool:
        """Whether an argument is a label; integers are ids."""
        if isinstance(label, int | np.integer):
            return False
        try:
            self.id_of(label)
        except (KeyError, TypeError):  # TypeError: not hashable
            return False
        return True

    @exclusive
    def by_label(self, values: Any) -> dict[Any, Any]:
        """Return values of points by label; by id if points have no labels.

        Parameters
        ----------
        values : array, shape (n,) or (n, k)
            On any device, such as a field of an algorithm's result.

        Returns
        -------
        dict
            For each live point, a Python number or a list.

        Raises
        ------
        ValueError
            If the number of values differs from that of points, or a point has no label.
        """
        a = np.asarray(self.device.to_host(values))
        if not a.ndim or len(a) != len(self.points):
            raise ValueError(f"values have shape {a.shape}: expected one for each of "
                             f"{len(self.points)} points")  # fmt: skip
        ids, names = self._live_names()
        return dict(zip(names[ids].tolist(), a[ids].tolist(), strict=True))

    def _live_names(self) -> tuple[Array, Array]:
        """Return the ids of the live points, and their labels or ids.

        Raises
        ------
        ValueError
            If points have labels, and a live point has none.
        """
        ids = self.device.to_host(self.points.ids())
        found = self._labels_now()
        if found is None:
            return ids, np.arange(len(self.points)).astype(object)
        for p in ids.tolist() if len(found.ids) < len(ids) else ():
            if found.labels[p] is None:
                raise ValueError(f"point {p} has no label: assign `labels` of all points")
        return ids, found.labels

    @exclusive
    def _set_labels(self, labels: Iterable[Any] | None) -> None:
        if labels is None:
            self._labels = self._lookup = None
            return
        given, n = list(labels), len(self.points)
        if len(given) != n:
            raise ValueError(f"labels: {len(given)} for {n} points")
        seen: dict[Any, int] = {}
        for p, label in enumerate(given):
            if label is not None and seen.setdefault(label, p) != p:
                raise ValueError(f"labels[{p}] is that of point {seen[label]}: {shown(label)}")
        if COLUMN not in self.points.columns:
            self.points.add(COLUMN, np.int32, -1)
        with self.device.active():
            self.points.columns[COLUMN].array[:n] = self.device.xp.arange(n, dtype=np.int32)
        self._labels, self._lookup = np.fromiter([*given, None], object, n + 1), None

    @exclusive
    def _labels_now(self) -> Lookup | None:
        if self._labels is None or COLUMN not in self.points.columns:
            return None
        if self._lookup is None or self._lookup.changes != self.changes:
            n = len(self.points)
            at = np.array(self.device.to_host(self.points.columns[COLUMN].array[:n]))
            if self.points.deletes:
                at[~np.asarray(self.device.to_host(self.points.alive))] = -1
            labels = self._labels[at]
            labels.flags.writeable = False
            ids = {label: p for p, label in enumerate(labels.tolist()) if label is not None}
            self._lookup = Lookup(self.changes, labels, ids)
        return self._lookup


def name_of(graph: Any, vertex: Any) -> str:
    """Return the label of a vertex for an error message, or its id if it has no label."""
    label = None
    labels = graph._labels if isinstance(graph, Labelled) else None  # not of parts
    if labels is not None and COLUMN in graph.points.columns:
        # also of points that a batch has just deleted
        label = labels[int(graph.points.columns[COLUMN].array[int(vertex)])]
    return str(int(vertex)) if label is None else shown(label, SHOWN)


def _kind(a: Any) -> str:
    """The kind of an array's dtype; "i" of other objects, whose values are not looked at."""
    return getattr(getattr(a, "dtype", None), "kind", "i")
