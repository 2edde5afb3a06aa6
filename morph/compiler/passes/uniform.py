"""Uniform expressions: those that have one value for all items of a step, in all parts of a graph.

Parts may write such a value to their copies of a replicated column in any order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from typing import Any

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.layout import GLOBAL_ID
from morph.compiler.passes.effects import value_params
from morph.compiler.passes.ownership import Ownership, bare, global_id, widened
from morph.language.types import Handle, Scalar

Owners = frozenset[tuple[str, Any]]
"""Points, each by its table and a key of its id, whose owner alone executes a statement."""
NONE: Owners = frozenset()
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
        self.divided = {*rows.tables, *rows.lists, *rows.local}
        self.changed = ir.columns(ir.walk(tuple(self.funcs.values())), "writes")
        self.known = {  # by function and local or parameter, its values
            (f.name, name): values
            for f in self.funcs.values()
            for name, values in self._given(f, kernel)
        }
        size = -1
        while size != len(self.known):
            size = len(self.known)
            kept = {k: v for k, v in self.known.items() if all(self.holds(x, f) for f, x in v)}
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

    def holds(self, x: object, f: str) -> bool:
        """Whether an expression of function ``f`` is uniform."""
        for n in ir.walk(x):
            match n:
                case ir.Var():
                    if (f, n.name) not in self.known and n.name not in self.hidden:
                        return False
                case ir.Place():
                    if n.slot in self.divided or (n.slot, n.column) in self.changed:
                        return False
                case ir.Load():
                    continue
                case ir.Call() | ir.Degree() | ir.FindEdge() | ir.LocalSize() | ir.Contains():
                    return False
                case ir.Expr() if n.varies or n.effect or n.sequential:
                    return False
        return True

    # --- writes by the items of a single part ----------------------------------------------------

    def writes(self, f: ir.Func, owners: Owners) -> Iterator[tuple[ir.Write, Owners]]:
        """The non-atomic writes of a function, each with keys of points whose owner makes it.

        No other part makes the write.  ``owners`` are those of all writes of the function.
        """
        yield from self._writes(f.body, f.name, owners)

    def filtered(self) -> Owners:
        """Keys of points whose owner alone has items for which the filter is true."""
        if self.where is None:
            return NONE
        match self.funcs[self.where].body:
            case (ir.Return(value=ir.Expr() as x),):
                return self._selected(x, self.where, "==")
        return NONE

    def _writes(self, body: ir.Body, f: str, owners: Owners) -> Iterator[tuple[ir.Write, Owners]]:
        for s in body:
            if isinstance(s, ir.If):
                yield from self._writes(s.then, f, owners | self._selected(s.cond, f, "=="))
                others = owners | self._selected(s.cond, f, "!=")
                yield from self._writes(s.orelse, f, others)
                if s.then and s.then[-1].leaves:
                    owners = others
                continue
            if isinstance(s, ir.Write):
                row = self._id_of(s.place.row, f)
                yield s, owners | ({(row.place.slot, "its id")} if row is not None else NONE)
            for b in ir.bodies(s):
                yield from self._writes(b, f, owners)

    def _selected(self, c: ir.Expr, f: str, op: str) -> Owners:
        """Keys of points: if a condition is true, or false with ``!=``, their owner executes it.

        The condition compares the id of an owned row with a uniform value.
        """
        if isinstance(c, ir.Logic):
            x, y = self._selected(c.x, f, op), self._selected(c.y, f, op)
            return x | y if c.op == ("and" if op == "==" else "or") else x & y
        if not isinstance(c, ir.Compare) or c.op != op:
            return NONE
        pairs = ((self._id_of(x, f), y) for x, y in ((c.x, c.y), (c.y, c.x)))
        return frozenset(
            (x.place.slot, self.key(widened(y), f))
            for x, y in pairs
            if x is not None and self.holds(y, f)
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
