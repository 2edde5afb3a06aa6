"""Uniform expressions: those that have one value for all items of a step, in all parts of a graph.

Parts may write such a value to their copies of a replicated column in any order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from enum import Enum
from typing import Any, NamedTuple

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.layout import GLOBAL_ID
from morph.compiler.partitioning.ownership import Ownership, bare, global_id, widened
from morph.compiler.passes.effects import value_params
from morph.language.types import Handle, Scalar


class Why(Enum):
    """Why the copies of a column agree although several items or parts write it."""

    ONE_POINT = "the owner of one point alone makes the write"
    OWN_ROW = "the row has the number of a point, whose owner alone makes the write"
    ONE_VALUE = "every write has the same value"


class Reason(NamedTuple):
    """A reason, with what it is about: writes agree if they have a reason in common.

    Attributes
    ----------
    why : Why
        The reason.
    slot : str
        The table of the point; empty for a value.
    key : object
        Equal for equal ids of the point, or equal values.
    """

    why: Why
    slot: str
    key: Any = None


Reasons = frozenset[Reason]
NONE: Reasons = frozenset()
IN_PLACE = (ir.SetItem, ir.SetField, ir.LocalAdd, ir.LocalPop, ir.LocalClear)


class Uniform:
    """The uniform expressions of a kernel, its filter and the functions that they call.

    Parameters
    ----------
    rows : Ownership
        Analysis of these functions.
    kernel : Kernel
        With ids of the whole graph.
    hidden : collection of str
        Scalars that are the same for all parts.
    """

    def __init__(self, rows: Ownership, kernel: ir.Kernel, hidden: Container[str]) -> None:
        self.rows, self.hidden, self.where = rows, hidden, kernel.where
        self.funcs = {**rows.funcs, kernel.name: kernel}
        self.of_part = {*rows.tables, *rows.lists, *rows.local}  # slots that differ between parts
        self.changed = ir.columns(ir.walk(tuple(self.funcs.values())), "writes")
        self.known = {  # by function and local or parameter, its values
            (f.name, name): values
            for f in self.funcs.values()
            for name, values in self._given(f, kernel)
        }
        size = -1
        while size != len(self.known):
            size = len(self.known)
            kept = {k: v for k, v in self.known.items() if all(self.is_uniform(x, f) for f, x in v)}
            self.known = kept

    def _given(
        self, f: ir.Func, kernel: ir.Kernel
    ) -> Iterator[tuple[str, list[tuple[str, ir.Expr]]]]:
        """The names that may be uniform, with their values: (function, expression) pairs.

        These are locals whose assignments have the same value, and parameters with the same
        argument in all calls.
        """
        nodes, params = list(ir.walk(f)), {n for n, _ in f.params}
        count = Counter(name for n in nodes for name in ir.bound([n]))
        changed = ir.used(n for n in nodes if isinstance(n, IN_PLACE))
        assigned: defaultdict[str, list[tuple[str, ir.Expr]]] = defaultdict(list)
        for n in nodes:
            if isinstance(n, ir.Assign) and n.name not in changed | params:
                assigned[n.name].append((f.name, n.value))
        for name, values in assigned.items():  # a variable of a loop has other values, too
            if count[name] == len(values) and self._is_one(values):
                yield name, values
        if f.name in (kernel.name, kernel.where):
            yield from ((n, []) for n, _ in f.params[1:] if n not in count)
            return
        given: defaultdict[str, list[tuple[str, ir.Expr]]] = defaultdict(list)
        for g in self.funcs.values():
            for n in ir.find(g, ir.Call):
                if n.func == f.name:
                    for name, x in zip(value_params(f), n.args, strict=False):
                        given[name].append((g.name, x))
        for name, values in given.items():
            if name not in count and self._is_one(values):
                yield name, values

    def _is_one(self, values: list[tuple[str, ir.Expr]]) -> bool:
        """Whether values are equal if they are uniform."""
        return len({self.key(x, f) for f, x in values}) == 1

    def key(self, x: ir.Expr, f: str) -> tuple[Any, str]:
        """A key that is equal for uniform expressions only if they have the same value."""
        return bare(x), f if any(isinstance(n, ir.Var) for n in ir.walk(x)) else ""

    def is_uniform(self, x: object, f: str) -> bool:
        """Whether an expression of function ``f`` is uniform."""
        for n in ir.walk(x):
            match n:
                case ir.Var():
                    if (f, n.name) not in self.known and n.name not in self.hidden:
                        return False
                case ir.Place():
                    if n.slot in self.of_part or (n.slot, n.column) in self.changed:
                        return False
                case ir.Load():
                    continue
                case ir.Call() | ir.Degree() | ir.FindEdge() | ir.LocalSize() | ir.Contains():
                    return False
                case ir.Expr() if n.varies or n.effect or n.sequential:
                    return False
        return True

    # --- writes by the items of a single part ----------------------------------------------------

    def writes(self, f: ir.Func, reasons: Reasons) -> Iterator[tuple[ir.Write, Reasons]]:
        """The non-atomic writes of a function, and why one part alone makes each of them.

        ``reasons`` hold for all writes of the function.
        """
        yield from self._writes(f.body, f.name, reasons)

    def filtered(self) -> Reasons:
        """The points whose owner alone has items for which the filter is true."""
        if self.where is None:
            return NONE
        match self.funcs[self.where].body:
            case (ir.Return(value=ir.Expr() as x),):
                return self._selected(x, self.where, "==")
        return NONE

    def _writes(
        self, body: ir.Body, f: str, reasons: Reasons
    ) -> Iterator[tuple[ir.Write, Reasons]]:
        for s in body:
            if isinstance(s, ir.If):
                yield from self._writes(s.then, f, reasons | self._selected(s.cond, f, "=="))
                others = reasons | self._selected(s.cond, f, "!=")
                yield from self._writes(s.orelse, f, others)
                if s.then and s.then[-1].leaves:
                    reasons = others
                continue
            if isinstance(s, ir.Write):
                row = self._id_of(s.place.row, f)
                yield s, reasons | ({Reason(Why.OWN_ROW, row.place.slot)} if row else NONE)
            for b in ir.bodies(s):
                yield from self._writes(b, f, reasons)

    def _selected(self, c: ir.Expr, f: str, op: str) -> Reasons:
        """The points whose owner alone finds a condition true, or false with ``!=``.

        The condition compares the id of an owned row with a uniform value.
        """
        if isinstance(c, ir.Logic):
            x, y = self._selected(c.x, f, op), self._selected(c.y, f, op)
            return x | y if c.op == ("and" if op == "==" else "or") else x & y
        if not isinstance(c, ir.Compare) or c.op != op:
            return NONE
        pairs = ((self._id_of(x, f), y) for x, y in ((c.x, c.y), (c.y, c.x)))
        return frozenset(
            Reason(Why.ONE_POINT, x.place.slot, self.key(widened(y), f))
            for x, y in pairs
            if x is not None and self.is_uniform(y, f)
        )

    def _id_of(self, x: ir.Expr, f: str) -> ir.Load | None:
        """The id of an owned row, given as a number or as the row with that number."""
        if isinstance(x, ir.Cast) and isinstance(x.type, Handle) and isinstance(x.x.type, Scalar):
            x = x.x
        x = widened(x)
        if isinstance(x, ir.Select) and isinstance(x.x, ir.Load):
            row = x.x.place.row  # the id of a row that may be None is -1 then; the item exists
            exists = f == self.where or self.rows.exists(row, f)
            if exists and isinstance(row.type, Handle) and bare(x) == bare(global_id(row, False)):
                x = x.x
        if not isinstance(x, ir.Load) or x.place.column != GLOBAL_ID:
            return None
        owned = x.place.slot in self.rows.points and self.rows.owns(x.place.row, f)
        return x if owned else None
