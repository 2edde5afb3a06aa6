"""Reads of points by their number on a partitioned graph, such as ``g.points[i].x``.

The row may belong to any part.  So each part gets a table with all values of the column before the
step, and reads that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import user_name
from morph.compiler.passes.ownership import Ownership
from morph.language.errors import reject
from morph.language.types import Column, Handle, Scalar, Store

LOOPS = ir.While, ir.ForRange, ir.ForBits, ir.ForEdges, ir.ForRows, ir.ForItems


@dataclass(frozen=True, slots=True)
class Copy:
    """A table with all rows of some columns of points, before the step.

    ``slot`` is that of the table, ``of`` that of the points.
    """

    slot: str
    of: str
    columns: tuple[str, ...]


class Numbered:
    """Replaces reads of points by their number.

    Parameters
    ----------
    rows : Ownership
    """

    def __init__(self, rows: Ownership) -> None:
        self.rows = rows
        self._slots = {slot: f"all_points{k}" for k, slot in enumerate(sorted(rows.points))}
        self._read: dict[str, dict[str, Column]] = defaultdict(dict)

    def of_copies(self, f: Any) -> Any:
        """A function that reads rows by their number in copies."""

        def change(n: ir.Node) -> Any:
            match n:
                case ir.Cast(x=row, type=Scalar()) if self._number(row) is not None:
                    return replace(n, x=ir.rewritten(self._number(row), change))
                case ir.Load() if self._number(n.place.row) is not None:
                    return self._of_copy(n, change)
            return None

        return replace(f, body=ir.rewritten(f.body, change))

    def _number(self, row: Any) -> ir.Expr | None:
        """The number of a row of points, if it is given by its number."""
        if not isinstance(row, ir.Cast) or not isinstance(row.x.type, Scalar):
            return None
        known = isinstance(row.type, Handle) and row.type.slot in self.rows.points
        return row.x if known and not self.rows.is_local(row.x) else None

    def _of_copy(self, n: ir.Load, change: Callable[[ir.Node], Any]) -> ir.Load | None:
        """The read of a row by its number in the copy of its column; None of a reference."""
        p = n.place
        column = self.rows.stores[p.slot].column(p.column)
        assert column is not None
        if column.ref is not None:
            return None
        self._read[p.slot][column.name] = column
        copy = self._slots[p.slot]
        number = ir.rewritten(self._number(p.row), change)
        index = None if p.index is None else ir.rewritten(p.index, change)
        row = ir.Cast(x=number, type=Handle(copy), pos=p.row.pos)
        return replace(n, place=replace(p, slot=copy, row=row, index=index))

    def stores(self) -> Iterator[Store]:
        """The tables of copies."""
        for slot, columns in sorted(self._read.items()):
            apart = (
                replace(c, stride=c.dtype.bits // 8 * max(c.size, 1), offset=0, record=-1)
                for _, c in sorted(columns.items())
            )
            yield Store(self._slots[slot], "table", tuple(apart))

    def copies(self, funcs: Iterable[Any]) -> tuple[Copy, ...]:
        """The columns that are copied before the step that runs some functions.

        Raises
        ------
        LanguageError
            If an item may read a column by number after it has changed it.
        """
        found = {f.name: tuple(ir.walk(f.body)) for f in funcs}
        for slot, columns in self._read.items():
            for name in columns:
                self._refuse_late(found, (slot, name))
        pairs = sorted(self._read.items())
        return tuple(Copy(self._slots[slot], slot, tuple(sorted(x))) for slot, x in pairs)

    def _refuse_late(self, funcs: Mapping[str, tuple[Any, ...]], column: tuple[str, str]) -> None:
        """Refuse reads by number after changes, in the same loop, and in different functions."""
        slot, name = column

        def reads(n: Any) -> bool:
            return isinstance(n, ir.Load) and (n.place.slot, n.place.column) == (
                self._slots[slot], name
            )  # fmt: skip

        def changes(n: Any) -> bool:
            return column in ir.columns((n,), "writes")

        changing = {f for f, nodes in funcs.items() if any(map(changes, nodes))}
        for f, nodes in funcs.items():
            after = len(nodes) if not changing or changing == {f} else 0
            for i, n in enumerate(nodes):
                inner = tuple(ir.walk(n)) if isinstance(n, LOOPS) or changes(n) else ()
                if isinstance(n, LOOPS) and any(map(changes, inner)):
                    after = min(after, i)
                elif changes(n):
                    after = min(after, i + len(inner))
                if i >= after and reads(n):
                    problem = f"{user_name(name)!r} of any point is its value before the step"
                    reject(f"{problem}, but the kernel changes it before", n.pos, "use two steps")
