"""What a batch of changes did to a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from morph.graph.gapped import DELETED, INSERTED, NOT_APPLIED, UPDATED
from morph.language.hooks import Hook
from morph.runtime.device import Array

if TYPE_CHECKING:
    from morph.data.table import Table

rows_of: Hook[tuple[Any, int]] = Hook()  # updates.fast_path
parallel_edges: Hook[int] = Hook()  # updates.batch


@dataclass(slots=True, eq=False)
class Applied:
    """What a batch did to a graph; all arrays lie on the graph's device.

    Of a graph that is not directed, every array tells of both arcs of an edge.

    Attributes
    ----------
    inserted : array of int32
        Ids of the edges inserted, in the order given; then, if the graph is not directed, those of
        the arcs back (of edges that are no loops).
    deleted : array of int32
        Ids of the edges deleted, ascending.  They may be given to other edges by later batches.
    deleted_src, deleted_dst : array of int32, shape (len(deleted),)
    deleted_weight : array, shape (len(deleted),), or None
        None if edges have no column ``weight``.
    updated : array of int32
        Ids of the edges whose weight was set, ascending.
    old_weight, new_weight : array, shape (len(updated),), or None
    points : array of int32
        Ids of the points deleted, ascending.
    absent : int
        Deletes and updates that named an edge, or a point, that is not there.
    repeated : int
        Deletes and updates of what this batch had named already: a delete does nothing then, of
        updates the last counts.
    """

    DELETED: ClassVar[int] = DELETED
    UPDATED: ClassVar[int] = UPDATED
    INSERTED: ClassVar[int] = INSERTED
    NOT_APPLIED: ClassVar[int] = NOT_APPLIED

    inserted: Array
    deleted: Array
    deleted_src: Array
    deleted_dst: Array
    deleted_weight: Array | None
    updated: Array
    old_weight: Array | None
    new_weight: Array | None
    points: Array
    absent: int = 0
    repeated: int = 0
    _graph: Any = field(default=None, repr=False)
    _given: int = field(default=0, repr=False)
    _changes: int = field(default=-1, repr=False)
    _present: int = field(default=-1, repr=False)
    _since: int = field(default=-1, repr=False)  # `Graph.changes` before
    _batch: Any = field(default=None, repr=False)  # what the arrays are made of when asked for

    def __getattr__(self, name: str) -> Any:
        if name in Applied.__slots__:
            if name == "_batch" or self._batch is None:
                raise AttributeError(name)
            for n, a in self._batch.fields().items():
                setattr(self, n, a)
            return object.__getattribute__(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> Any:
        """Copies and pickles have the arrays, and do not know the graph."""
        told = [getattr(self, name) for name in Applied.__slots__ if not name.startswith("_")]
        return Applied, (*told, None, self._given)

    def rows(self) -> tuple[Table, int]:
        """Give the changes as rows of a table, for kernels; they are there until the next batch.

        Returns
        -------
        table : Table
            ``edge``, its id; ``end``, its source and destination; ``outcome``: ``DELETED``,
            ``UPDATED`` (its weight was set) or ``INSERTED``, 0 for none; ``weight``, the old
            weight, if edges have one.
            Edges at deleted points, which are not in the index, are left out.
        count : int
            The rows that count; there may be more.
        """
        return rows_of(self)

    @property
    def given(self) -> int:
        """How many inserts were given: the first of ``inserted``."""
        return self._given

    @property
    def present(self) -> int:
        """Inserts of pairs that had an edge already, or by then: they made parallel edges.

        Counted when first asked for, in a pass over the edges.

        Raises
        ------
        RuntimeError
            If the graph has changed since.
        """
        if self._present < 0:
            if self._graph is None or self._graph.changes != self._changes:
                raise RuntimeError("present is counted before the graph changes again")
            self._present = parallel_edges(self._graph, self.inserted[: self._given])
        return self._present


Then = Callable[[Applied], object] | None
