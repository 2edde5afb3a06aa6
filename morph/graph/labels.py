"""Labels of points: names of vertices, such as those in the library of an imported graph.

Labels are Python objects on the host.  A column of points, ``label_index``, has the position of
each point's label in the list of labels, so that labels are preserved by all operations on columns:
copies, compaction, deletion, and recycling of ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from morph.data.table import Table
from morph.data.versions import exclusive
from morph.language.messages import shown
from morph.runtime.arrays import listed, refuse_masked
from morph.runtime.device import Array, Device

COLUMN = "label_index"


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
        if isinstance(vertices, np.ndarray) and vertices.dtype.kind in "OUT":
            vertices = vertices.tolist()
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
