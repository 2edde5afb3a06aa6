"""Results of batches of changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from morph.graph.gapped import DELETED, INSERTED, NOT_APPLIED, REPEATED, UPDATED
from morph.language.hooks import Hook
from morph.runtime.device import Array

if TYPE_CHECKING:
    from morph.data.table import Table

rows_of: Hook[tuple[Any, int]] = Hook()  # provided by updates.kept
parallel_edges: Hook[int] = Hook()  # provided by updates.batch


@dataclass(slots=True, eq=False)
class Applied:
    """The changes that a batch has made; all arrays lie on the graph's device.

    For an undirected graph, each array has both arcs of an edge.

    Attributes
    ----------
    inserted : array of int32
        Ids of the inserted edges, in the order of the arguments; for an undirected graph, followed
        by the reverse arcs (of edges that are not loops).
    deleted : array of int32
        Ids of the deleted edges, ascending.  Later batches may recycle them.
    deleted_src, deleted_dst : array of int32, shape (len(deleted),)
    deleted_weight : array, shape (len(deleted),), or None
        None if edges have no column ``weight``.
    updated : array of int32
        Ids of the edges with a new weight, ascending.
    old_weight, new_weight : array, shape (len(updated),), or None
    points : array of int32
        Ids of the deleted points, ascending.
    absent : int
        Number of deletes and updates of an edge or point that does not exist.
    repeated : int
        Number of deletes and updates of an edge or point that the batch names earlier: such a
        delete has no effect; the last update determines the weight.
    """

    DELETED: ClassVar[int] = DELETED
    UPDATED: ClassVar[int] = UPDATED
    INSERTED: ClassVar[int] = INSERTED
    NOT_APPLIED: ClassVar[int] = NOT_APPLIED
    REPEATED: ClassVar[int] = REPEATED

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
    _since: int = field(default=-1, repr=False)  # `Graph.changes` before the batch
    _batch: Any = field(default=None, repr=False)  # the source of arrays made on demand

    def __getattr__(self, name: str) -> Any:
        if name in Applied.__slots__:
            if name == "_batch" or self._batch is None:
                raise AttributeError(name)
            for n, a in self._batch.fields().items():
                setattr(self, n, a)
            return object.__getattribute__(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> Any:
        """Copies and pickles have the arrays, without the graph."""
        arrays = [getattr(self, name) for name in Applied.__slots__ if not name.startswith("_")]
        return Applied, (*arrays, None, self._given)

    def rows(self) -> tuple[Table, int]:
        """Return the changes as rows of a table, for kernels; valid until the next batch.

        Returns
        -------
        table : Table
            ``edge``, its id; ``end``, its source and destination; ``outcome``: ``DELETED``,
            ``UPDATED`` (its weight was set) or ``INSERTED``, 0 for none; ``weight``, the old
            weight, if edges have one.
            It does not have the edges of deleted points, which are not in the index.
        count : int
            The number of valid rows; the table may have more.
        """
        return rows_of(self)

    @property
    def given(self) -> int:
        """The number of requested inserts, which come first in ``inserted``."""
        return self._given

    @property
    def present(self) -> int:
        """The number of inserts of parallel edges, including pairs inserted twice.

        It is computed on demand, in a pass over the edges.

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
