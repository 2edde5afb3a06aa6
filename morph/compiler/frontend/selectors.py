"""Checking what stands after a dot or in brackets: columns, neighbours, elements, fields."""

from __future__ import annotations

import ast
from dataclasses import replace
from types import ModuleType

from morph.compiler.frontend.expressions import Expressions
from morph.compiler.frontend.values import (
    Bundle,
    Chain,
    Iterator,
    Method,
    ObjectValue,
    PythonValue,
    Slice,
    Value,
    describe,
)
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import (
    BOOL,
    I32,
    I64,
    Handle,
    Local,
    Object,
    Rows,
    Struct,
    Tuple,
    Type,
    Vector,
)


class Parts(Expressions):
    """The part of the checker that types subscripts and attributes."""

    def _subscript_expr(self, node: ast.Subscript) -> Value:
        x, pos = self.value(node.value), self.pos(node)
        if isinstance(node.slice, ast.Slice):
            return self._slice(x, node.slice, pos)
        if isinstance(x, ObjectValue) and x.type.kind == "table":
            i = self.integer(self.expr(node.slice), "row")
            return ir.Cast(x=i, type=Handle(x.type.slot), pos=pos)
        if not isinstance(x, ir.Expr):
            reject(f"{describe(x)} has no items", pos, "tables, vectors and local collections do")
        mark = len(self.out)
        index = self.expr(node.slice)
        if not isinstance(x.type, Local):
            x = self.frozen(x, mark)
        if isinstance(x.type, Tuple | Struct):
            if not (isinstance(index, ir.Const) and isinstance(index.value, int)):
                reject("a tuple is indexed by a constant", pos, "a vector by any integer")
            return self.field(x, index.value, pos)
        if not isinstance(x.type, Vector | Local | Rows):
            reject(f"{x.type} has no items", pos, "tables, vectors and local collections do")
        return self.item(x, self.integer(index, "index"), pos)

    def _slice(self, x: Value, s: ast.Slice, pos: Pos) -> Slice:
        if s.upper or s.step or not s.lower:
            reject("a loop can start at a position: x[start:]", pos, "and leave with `break`")
        start, reverse = self.integer(self.expr(s.lower), "start"), False
        if isinstance(x, Slice):
            if x.start is not None:
                reject("a loop starts at one position", pos, "add the two: x[i + j:]")
            reverse, x = x.reverse, x.x
        if isinstance(start, ir.Const):
            if start.value < 0:
                reject("a loop starts at a position from 0", pos, "reversed(x) runs from the end")
        else:
            zero = ir.Const(value=0, type=I64, pos=pos)
            start = ir.Builtin(name="max", args=(start, zero), type=I64, pos=pos)
        return Slice(pos, x, start, reverse)

    def item(self, x: ir.Expr, index: ir.Expr, pos: Pos) -> ir.Expr:
        """``x[index]`` of a vector, local collection or new rows."""
        assert isinstance(x.type, Vector | Local | Rows)
        if isinstance(index, ir.Const):
            if index.value < 0 or (isinstance(x.type, Vector) and index.value >= x.type.size):
                last = x.type.size - 1 if isinstance(x.type, Vector) else "x.size - 1"
                hint = f"from x[0] to x[{last}]"
                reject(f"index {index.value} is outside a {x.type}", pos, hint)
            if isinstance(x, ir.Make):
                return x.parts[int(index.value)]
        if isinstance(x.type, Rows):
            return ir.Item(x=x, index=index, type=Handle(x.type.slot), pos=pos)
        if isinstance(x, ir.Load) and x.place.index is None:
            place = replace(x.place, index=index, type=x.type.elem, pos=pos)
            return ir.Load(place=place, type=place.type, pos=pos)
        return ir.Item(x=x, index=index, type=x.type.elem, pos=pos)

    def field(self, x: ir.Expr, i: int, pos: Pos) -> ir.Expr:
        """Part ``i`` of a tuple or struct."""
        types = x.type.items if isinstance(x.type, Tuple) else tuple(t for _, t in x.type.fields)  # type: ignore[attr-defined]
        if not 0 <= i < len(types):
            reject(f"index {i} is outside {x.type}", pos, f"from 0 to {len(types) - 1}")
        if isinstance(x, ir.Make):
            return x.parts[i]
        return ir.Field(x=x, index=i, type=types[i], pos=pos)

    def _attribute_expr(self, node: ast.Attribute) -> Value:
        x, name, pos = self.value(node.value), node.attr, self.pos(node)
        if isinstance(x, PythonValue):
            if isinstance(x.value, ModuleType | type) and hasattr(x.value, name):
                owner = x.value
                return self.captured(getattr(owner, name), lambda: getattr(owner, name), name, pos)
            what = f"{describe(x)} has no {name!r} in the language"
            reject(what, pos, "modules give functions and constants")
        if isinstance(x, ObjectValue):
            return self._member(x, name, pos)
        if isinstance(x, Bundle):
            fields = dict(x.fields)
            if name not in fields:
                reject(f"the named tuple has no {name!r}", pos, f"it has {', '.join(fields)}")
            return replace(fields[name], pos=pos)
        if not isinstance(x, ir.Expr):
            reject(f"{describe(x)} has no {name!r}", pos, "loop over it, or call it")
        t = x.type
        if isinstance(t, Handle):
            return self._of_row(x, t, name, pos)
        if isinstance(t, Struct):
            names = [n for n, _ in t.fields]
            if name not in names:
                reject(f"{t} has no field {name!r}", pos, f"it has {', '.join(names)}")
            return self.field(x, names.index(name), pos)
        if isinstance(t, Vector) and name in "xyz" and "xyz".index(name) < t.size:
            return self.item(x, ir.Const(value="xyz".index(name), type=I64, pos=pos), pos)
        if isinstance(t, Local | Rows) and name == "size":
            return ir.LocalSize(x=x, type=I64, pos=pos)
        if isinstance(t, Local | Rows):
            return Method(pos, x, name)
        reject(f"{t} has no {name!r}", pos, "rows have columns, vectors x, y and z")

    def _member(self, x: ObjectValue, name: str, pos: Pos) -> Value:
        slot = x.type.slot
        if x.type.kind == "graph":
            tables = dict(self.builder.graphs[slot].tables)
            if name in tables:
                return ObjectValue(pos, Object("table", tables[name]))
            if name in ("weight", "edge"):
                return Method(pos, x, name)
            reject(f"graph {slot!r} has no table {name!r}", pos, f"it has {', '.join(tables)}")
        if x.type.kind in ("table", "collection") and name == "size":
            return ir.StoreSize(slot=slot, type=I64, pos=pos)
        if x.type.kind == "collection" and name == "empty":
            size = ir.StoreSize(slot=slot, type=I64, pos=pos)
            zero = ir.Const(value=0, type=I64, pos=pos)
            return ir.Compare(op="==", x=size, y=zero, type=BOOL, pos=pos)
        if x.type.kind == "flag" and name == "raised":
            return ir.Raised(slot=slot, type=BOOL, pos=pos)
        return Method(pos, x, name)

    def _of_row(self, x: ir.Expr, t: Handle, name: str, pos: Pos) -> Value:
        store = self.builder.stores[t.slot]
        col = store.column(name)
        if col is not None:
            kind: Type = Vector(col.elem, col.size) if col.size else col.elem
            row = x
            place = ir.Place(slot=t.slot, column=name, row=row, index=None, type=kind, pos=pos)
            return ir.Load(place=place, type=kind, pos=pos)
        if name == "id":
            return ir.Cast(x=x, type=I32, pos=pos)
        if name == "deleted" and store.kind == "table":
            if not store.deletes:
                return ir.Const(value=False, type=BOOL, pos=pos)
            return ir.Dead(slot=t.slot, row=x, type=BOOL, pos=pos)
        if name == "delete" and store.kind == "table":
            return Method(pos, x, name)
        graph = next(
            (g for g in self.builder.graphs.values() if t.slot in dict(g.tables).values()), None
        )
        if graph is not None:
            tables = {s: n for n, s in graph.tables}
            found = self._neighbours(x, graph.slot, tables[t.slot], graph.directed, name, pos)
            if found is not None:
                return found
        names = ", ".join(c.name for c in store.columns)
        reject(f"{t.slot!r} has no column or iterator {name!r}", pos, f"its columns: {names}")

    def _neighbours(
        self, x: ir.Expr, graph: str, table: str, directed: bool, name: str, pos: Pos
    ) -> Value | None:
        if table == "points":
            both, into = ("all", "in") if directed else ("out", "out")
            walks = {
                "outnbrs": ("out", "point"), "innbrs": (into, "point"), "nbrs": (both, "point"),
                "outedges": ("out", "edge"), "inedges": ("in", "edge"), "edges": (both, "edge"),
            }  # fmt: skip
            if name in walks:
                direction, bind = walks[name]
                return Iterator(pos, graph, x, direction, bind)
            degrees = {"out_degree": "out", "in_degree": into, "degree": both}
            if name in degrees:
                walk = degrees[name]
                return ir.Degree(graph=graph, point=x, direction=walk, type=I64, pos=pos)
        if table == "edges" and name in ("nbr1", "nbr2", "nbrs"):
            x = self.bind(x)
            src, dst = (self._of_row(x, Handle(f"{graph}.edges"), c, pos) for c in ("src", "dst"))
            assert isinstance(src, ir.Expr) and isinstance(dst, ir.Expr)
            walk = "all" if directed else "out"
            if name == "nbrs":
                ends = (Iterator(pos, graph, p, walk, "edge", x) for p in (src, dst))
                return Chain(pos, *ends)
            return Iterator(pos, graph, src if name == "nbr1" else dst, walk, "edge", x)
        return None
