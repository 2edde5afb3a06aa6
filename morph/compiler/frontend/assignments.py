"""Checking assignments: to locals, columns, elements and fields."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from morph.compiler.frontend.branches import OPS
from morph.compiler.frontend.calls import Calls
from morph.compiler.frontend.scope import Retype, plain, spelled
from morph.compiler.frontend.values import (
    Static,
    Value,
    cast,
    coerce,
    default,
    describe,
    has_none,
    parts_of,
)
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import Handle, Local, Nothing, Rows, Tuple, Type

TEMPORARY = re.compile(r"t\d+_")


class Assignments(Calls):
    """The part of the checker that gives names, places and elements their values."""

    hints: dict[str, Type]
    nones: dict[str, Pos]  # where a name was given None first

    def _assign_stmt(self, node: ast.Assign) -> None:
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Tuple):
            self._unpack(node.targets[0], node.value)
            return
        x = self.expr(node.value)
        if len(node.targets) > 1:
            if isinstance(x, ir.MakeLocal):
                reject("a local collection has one name", self.pos(node), "make one for each")
            x = self.bind(x)
            self.kept.add(x.name if isinstance(x, ir.Var) else "")
        for target in node.targets:
            if isinstance(target, ast.Tuple):
                reject("a tuple is unpacked on a line of its own", self.pos(target), "x, y = t")
            self.assign(target, x)

    def _unpack(self, target: ast.Tuple, value: ast.expr) -> None:
        x = self.expr(value)
        n = len(target.elts)
        if len(parts_of(x.type)) != n:
            what = f"{x.type} does not unpack into {n} names"
            reject(what, self.pos(target), "a tuple or a vector of as many values does")
        fresh = not isinstance(x, ir.Var)
        x = x if isinstance(x, ir.Make) else self.bind(x)
        if isinstance(x.type, Tuple):
            parts = [self.field(x, i, self.pos(target)) for i in range(n)]
        else:
            parts = [self.part(x, i) for i in range(n)]
        if isinstance(x, ir.Make) or not fresh:  # an assignment may change what the next one reads
            parts = [p if isinstance(p, ir.Const) else self._copied(p) for p in parts]
        for t, p in zip(target.elts, parts, strict=True):
            self.assign(t, p)

    def _copied(self, x: ir.Expr) -> ir.Expr:
        name = self.temporary(x.type)
        self.out.append(ir.Assign(name=name, value=cast(x, default(x.type)), pos=x.pos))
        return ir.Var(name=name, type=default(x.type), pos=x.pos)

    def assign(self, target: ast.expr, x: ir.Expr) -> None:
        """``target = x`` for a name, a column place, an element or a field."""
        pos = self.pos(target)
        if isinstance(target, ast.Name):
            self._assign_name(spelled(target.id), x, pos)
            return
        mark = len(self.out)
        found = self.target(target)
        self.store(found, self.frozen(x, mark), pos)

    def target(self, node: ast.expr) -> ir.Expr:
        """What an assignment changes, as it would be read: a place, an element or a field."""
        v = self.value(node) if isinstance(node, ast.Attribute | ast.Subscript) else None
        if isinstance(v, ir.Load):
            return v
        if isinstance(v, ir.Item | ir.Field) and isinstance(v.x, ir.Var):
            if not isinstance(v.x.type, Rows | Tuple):
                return v
        if _is_row(v):
            assert isinstance(v, ir.Expr)
            return v
        what = type(node).__name__.lower() if v is None else describe(v)
        hint = "assign to a local, an element or field of a local, or a column of a row"
        reject(f"cannot assign to {what}", self.pos(node), hint)

    def store(self, at: ir.Expr, x: ir.Expr, pos: Pos) -> None:
        """Assign to what `target` gave."""
        if isinstance(at, ir.Load):
            value = coerce(x, at.type, f"column {at.place.column!r}")
            self._wrote(pos)
            self.out.append(ir.Write(place=at.place, value=value, pos=pos))
            return
        if _is_row(at):
            self._copy_row(at, x, pos)
            return
        assert isinstance(at, ir.Item | ir.Field) and isinstance(at.x, ir.Var)
        name = at.x.name
        if name in self.params and not isinstance(at.x.type, Local):
            reject(f"{plain(name)!r} is a parameter", pos, "copy it to a local first")
        if isinstance(at, ir.Field):
            value = coerce(x, at.type, "field")
            self.out.append(ir.SetField(name=name, index=at.index, value=value, pos=pos))
            return
        if name in self.claimed:
            self.owned(name, pos)
        value = coerce(x, at.type, "element")
        self.out.append(ir.SetItem(name=name, index=at.index, value=value, pos=pos))

    def _copy_row(self, to: ir.Expr, x: ir.Expr, pos: Pos) -> None:
        """``table[i] = row``: all columns of the row."""
        assert isinstance(to.type, Handle)
        store, t = self.builder.stores[to.type.slot], x.type
        given = self.builder.stores[t.slot].columns if isinstance(t, Handle) else ()
        kinds = [{c.name: (c.elem, c.size) for c in columns} for columns in (store.columns, given)]
        if kinds[0] != kinds[1]:
            what = f"a row of {store.slot} takes a row of the same columns, not {t}"
            reject(what, pos, "assign column by column")
        rows = self.bind(to), self.bind(x)
        for name in kinds[0]:
            at, value = (self._of_row(row, row.type, name, pos) for row in rows)  # type: ignore[arg-type]
            assert isinstance(at, ir.Expr) and isinstance(value, ir.Expr)
            self.store(at, value, pos)

    def _wrote(self, pos: Pos) -> None:
        if self.flow is not None and self.flow.wrote is None:
            self.flow.wrote = pos

    def _assign_name(self, name: str, x: ir.Expr, pos: Pos) -> None:
        param = self.params.get(name)
        if isinstance(param, ir.Expr | Static):
            what = describe(param)
            reject(f"{plain(name)!r} is {what} and cannot be assigned", pos, "use another name")
        have = self.locals.get(name) or self.hints.get(name)
        if isinstance(have, Local) and not isinstance(x, ir.MakeLocal):
            reject(
                "a local collection cannot be assigned",
                x.pos,
                "pass it on, or copy its values in a loop",
            )
        if isinstance(x.type, Local) and not isinstance(x, ir.MakeLocal):
            reject("a local collection has one name", x.pos, "use the first one")
        if isinstance(have, Nothing) and isinstance(x.type, Handle):
            raise Retype(name, x.type)
        if isinstance(x.type, Nothing):
            self.nones.setdefault(name, pos)
        elif has_none(x.type):
            reject("None has no table here", x.pos, "assign the parts one by one")
        have = have or default(x.type)
        self.locals[name] = have
        value = coerce(x, have, f"{plain(name)!r}")
        self.edges.pop(name, None)
        for other in [n for n, e in self.edges.items() if e[1] == name]:
            del self.edges[other]
        last = self.out[-1] if self.out else None
        if isinstance(value, ir.Var) and isinstance(last, ir.Assign) and last.name == value.name:
            if value.name not in self.kept and TEMPORARY.fullmatch(value.name):
                self.out.pop()
                self.locals.pop(value.name)
                value = last.value
        self.out.append(ir.Assign(name=name, value=value, pos=pos))
        self.define(name)

    def define(self, name: str) -> None:
        """From here on the local has a value."""
        if self.flow is not None:
            self.flow.assigned |= {name}

    def _augassign_stmt(self, node: ast.AugAssign) -> None:
        pos = self.pos(node)
        op = OPS.get(type(node.op))
        if op is None:
            reject("@= is outside the language", pos, "write the sum out")
        if isinstance(node.target, ast.Name):
            read = ast.copy_location(ast.Name(id=node.target.id, ctx=ast.Load()), node.target)
            x, y = self.exprs([read, node.value])
            self._assign_name(spelled(node.target.id), self.binary(op, x, y, pos), pos)
            return
        at = self.target(node.target)  # found once, as in Python
        if isinstance(at, ir.Load):
            index = self.bind(at.place.index) if at.place.index else None
            at = replace(at, place=replace(at.place, row=self.bind(at.place.row), index=index))
        elif isinstance(at, ir.Item):
            at = replace(at, index=self.bind(at.index))
        mark = len(self.out)
        y = self.expr(node.value)
        self.store(at, self.binary(op, self.frozen(at, mark), y, pos), pos)

    def _annassign_stmt(self, node: ast.AnnAssign) -> None:
        reject(
            "annotations are outside the language",
            self.pos(node),
            "types follow from the first value",
        )


def _is_row(v: Value | None) -> bool:
    """Whether a target is ``table[i]``, or ``rows[i]`` of new rows."""
    new = isinstance(v, ir.Item) and isinstance(v.x.type, Rows)
    return new or (isinstance(v, ir.Cast) and isinstance(v.type, Handle))
