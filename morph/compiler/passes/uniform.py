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
from morph.compiler.passes.ownership import Ownership, bare, widened
from morph.language.types import Handle, Scalar

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

        These are locals with one assignment, and parameters with the same argument in all calls.
        """
        nodes, params = list(ir.walk(f)), {n for n, _ in f.params}
        count = Counter(name for n in nodes for name in ir.bound([n]))
        changed = ir.used(n for n in nodes if isinstance(n, IN_PLACE))
        for n in nodes:
            if isinstance(n, ir.Assign) and count[n.name] == 1 and n.name not in changed | params:
                yield n.name, [(f.name, n.value)]
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
            if name not in count and len({self.key(x, g) for g, x in values}) == 1:
                yield name, values

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

    def writes(self, f: ir.Func, alone: bool) -> Iterator[tuple[ir.Write, bool]]:
        """The non-atomic writes of a function, each with whether only items of one part make it."""
        yield from self._writes(f.body, f.name, alone)

    def selects_part(self) -> bool:
        """Whether the filter is true only for items of one part."""
        if self.where is None:
            return False
        match self.funcs[self.where].body:
            case (ir.Return(value=ir.Expr() as x),):
                return self._selects(x, self.where, "==")
        return False

    def _writes(self, body: ir.Body, f: str, alone: bool) -> Iterator[tuple[ir.Write, bool]]:
        for s in body:
            if isinstance(s, ir.If):
                yield from self._writes(s.then, f, alone or self._selects(s.cond, f, "=="))
                others = self._selects(s.cond, f, "!=")
                yield from self._writes(s.orelse, f, alone or others)
                alone |= others and bool(s.then) and s.then[-1].leaves
                continue
            if isinstance(s, ir.Write):
                yield s, alone or self._is_id(s.place.row, f)
            for b in ir.bodies(s):
                yield from self._writes(b, f, alone)

    def _selects(self, c: ir.Expr, f: str, op: str) -> bool:
        """Whether a condition compares the id of an owned row with a uniform value."""
        if isinstance(c, ir.Logic) and c.op == ("and" if op == "==" else "or"):
            return self._selects(c.x, f, op) or self._selects(c.y, f, op)
        if not isinstance(c, ir.Compare) or c.op != op:
            return False
        pairs = (c.x, c.y), (c.y, c.x)
        return any(self._is_id(x, f) and self.holds(y, f) for x, y in pairs)

    def _is_id(self, x: ir.Expr, f: str) -> bool:
        """Whether an expression is the id of an owned row, or the row with that number."""
        if isinstance(x, ir.Cast) and isinstance(x.type, Handle) and isinstance(x.x.type, Scalar):
            x = x.x
        x = widened(x)
        if isinstance(x, ir.Select) and f == self.where:
            x = x.x  # -1 for None, which is no item
        if not isinstance(x, ir.Load) or x.place.column != GLOBAL_ID:
            return False
        return x.place.slot in self.rows.points and self.rows.owns(x.place.row, f)
