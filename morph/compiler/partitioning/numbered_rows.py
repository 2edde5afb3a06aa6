"""Points by their number on a partitioned graph, such as ``g.points[i].x``.

The row may belong to any part.  So each part gets a table with all values of the column before the
step, and uses that: a table of which every part has a copy, see `replicated`.  If the step changes
it, the owners take their values from it after the step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import user_name
from morph.compiler.partitioning.ownership import Ownership
from morph.language.errors import reject
from morph.language.types import Column, Handle, Scalar, Store

LOOPS = ir.While, ir.ForRange, ir.ForBits, ir.ForEdges, ir.ForRows, ir.ForItems


@dataclass(frozen=True, slots=True)
class Copy:
    """A table with all rows of some columns of points.

    ``slot`` is that of the table, ``of`` that of the points; ``changed`` are the columns that the
    step changes.
    """

    slot: str
    of: str
    columns: tuple[str, ...]
    changed: tuple[str, ...]


class Numbered:
    """Replaces points by their number by rows of tables with all of them.

    Parameters
    ----------
    rows : Ownership
    """

    def __init__(self, rows: Ownership) -> None:
        self.rows = rows
        self._slots = {slot: f"all_points{k}" for k, slot in enumerate(sorted(rows.points))}
        self._used: dict[str, dict[str, Column]] = defaultdict(dict)

    def of_copies(self, f: Any) -> Any:
        """A function that uses rows of the tables."""
        names = {name: t for name, t in f.locals if self._holds_copies(f, name, t)}

        def change(n: ir.Node) -> Any:
            match n:
                case ir.Var() if n.name in names:
                    return replace(n, type=self._copy(n.type))
                case ir.Cast(x=row, type=Scalar()) if self._number(row) is not None:
                    return replace(n, x=ir.rewritten(self._number(row), change))
                case ir.Assign(value=ir.Cast() as row) if n.name in names:
                    return replace(n, value=row_of_copy(row))
                case ir.Place(row=ir.Var(name=name) as row) if name in names:
                    return place_of_copy(n, change(row))
                case ir.Place(row=ir.Cast() as row) if self._number(row) is not None:
                    return place_of_copy(n, row_of_copy(row)) if self._has_numbers(n) else None
            return None

        def row_of_copy(row: ir.Cast) -> ir.Cast:
            return replace(row, x=ir.rewritten(row.x, change), type=self._copy(row.type))

        def place_of_copy(p: ir.Place, row: ir.Expr) -> ir.Place:
            column = self.rows.stores[p.slot].column(p.column)
            assert column is not None
            self._used[p.slot][column.name] = column
            index = None if p.index is None else ir.rewritten(p.index, change)
            return replace(p, slot=self._slots[p.slot], row=row, index=index)

        found = tuple((n, self._copy(t) if n in names else t) for n, t in f.locals)
        return replace(f, locals=found, body=ir.rewritten(f.body, change))

    def _copy(self, row: Any) -> Handle:
        """The type of rows of the table."""
        return Handle(self._slots[row.slot])

    def _number(self, row: Any) -> ir.Expr | None:
        """The number of a row of points, if it is given by its number."""
        if not isinstance(row, ir.Cast) or not isinstance(row.x.type, Scalar):
            return None
        known = isinstance(row.type, Handle) and row.type.slot in self.rows.points
        return row.x if known and not self.rows.is_local(row.x) else None

    def _has_numbers(self, p: ir.Place) -> bool:
        """Whether a column refers to no rows."""
        column = self.rows.stores[p.slot].column(p.column)
        return column is not None and column.ref is None

    def _holds_copies(self, f: Any, name: str, kind: Any) -> bool:
        """Whether a local has rows by their number only, of which columns or the ids are used."""
        if not isinstance(kind, Handle) or kind.slot not in self.rows.points:
            return False
        nodes = tuple(ir.walk(f.body))
        made = [n for n in nodes if name in ir.bound([n])]
        if not all(isinstance(n, ir.Assign) and self._number(n.value) is not None for n in made):
            return False

        def is_it(x: Any) -> bool:
            return isinstance(x, ir.Var) and x.name == name

        places = [n for n in nodes if isinstance(n, ir.Place) and is_it(n.row)]
        ids = [n for n in nodes if isinstance(n, ir.Cast) and is_it(n.x)]
        uses = sum(map(is_it, nodes))
        casts = all(isinstance(n.type, Scalar) for n in ids)
        known = bool(made and places) and all(map(self._has_numbers, places))
        return known and casts and uses == len(places) + len(ids)

    def stores(self) -> Iterator[Store]:
        """The tables of copies."""
        for slot, columns in sorted(self._used.items()):
            apart = (
                replace(c, stride=c.dtype.bits // 8 * max(c.size, 1), offset=0, record=-1)
                for _, c in sorted(columns.items())
            )
            yield Store(self._slots[slot], "table", tuple(apart))

    def copies(self, funcs: Iterable[Any]) -> tuple[Copy, ...]:
        """The tables of a step that runs some functions.

        Raises
        ------
        LanguageError
            If an item may use a column by number after it has changed it, or otherwise in a step
            that changes it by number.
        """
        found = {f.name: tuple(ir.walk(f.body)) for f in funcs}
        copies = []
        for slot, columns in sorted(self._used.items()):
            copy, nodes = self._slots[slot], [n for x in found.values() for n in x]
            written = ir.columns(nodes, "writes")
            changed = tuple(sorted(name for name in columns if (copy, name) in written))
            for name in columns:
                if name in changed:
                    _refuse_others(nodes, (slot, name), (copy, name))
                else:
                    _refuse_late(found, (slot, name), (copy, name))
            copies.append(Copy(copy, slot, tuple(sorted(columns)), changed))
        return tuple(copies)


def _loads(n: Any, column: tuple[str, str]) -> bool:
    return isinstance(n, ir.Load) and (n.place.slot, n.place.column) == column


def _refuse_others(nodes: Iterable[Any], own: tuple[str, str], copy: tuple[str, str]) -> None:
    """Refuse other uses of a column that a step changes by number."""
    for n in nodes:
        if _loads(n, own) or _loads(n, copy) or own in ir.columns((n,), "writes"):
            problem = f"a step that changes {user_name(own[1])!r} by number cannot use it otherwise"
            reject(problem, n.pos, "use two steps")


def _refuse_late(
    funcs: Mapping[str, tuple[Any, ...]], own: tuple[str, str], copy: tuple[str, str]
) -> None:
    """Refuse reads by number after changes, in the same loop, and outside of the kernel.

    The kernel is the first function; it may call the others several times.
    """

    def changes(n: Any) -> bool:
        return own in ir.columns((n,), "writes")

    kernel = next(iter(funcs))
    changing = {f for f, nodes in funcs.items() if any(map(changes, nodes))}
    for f, nodes in funcs.items():
        after = len(nodes) if not changing or changing == {f} == {kernel} else 0
        for i, n in enumerate(nodes):
            inner = tuple(ir.walk(n)) if isinstance(n, LOOPS) or changes(n) else ()
            if isinstance(n, LOOPS) and any(map(changes, inner)):
                after = min(after, i)
            elif changes(n):
                after = min(after, i + len(inner))
            if i >= after and _loads(n, copy):
                problem = f"{user_name(own[1])!r} of any point is its value before the step"
                reject(f"{problem}, but the kernel changes it before", n.pos, "use two steps")
