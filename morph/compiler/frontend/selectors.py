"""Attributes and subscripts: columns, neighbours, elements, fields."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from morph.compiler.frontend.context import Context
from morph.compiler.frontend.expressions import captured
from morph.compiler.frontend.neighbours import check_neighbour
from morph.compiler.frontend.values import (
    Bundle,
    Chain,
    Iterator,
    Method,
    ObjectValue,
    PythonValue,
    Slice,
    Value,
    constant,
    describe,
)
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import ir_name
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import (
    BOOL,
    I32,
    I64,
    GraphInfo,
    Handle,
    Local,
    Object,
    Rows,
    Store,
    Struct,
    Tuple,
    Type,
    Vector,
)


def check_subscript(c: Context, node: ast.Subscript) -> Value:
    """``table[i]``, ``x[i]`` of values, ``x[start:]`` of iterables."""
    x, pos = c.value(node.value), c.pos(node)
    if isinstance(node.slice, ast.Slice):
        return _slice(c, x, node.slice, pos)
    if isinstance(x, ObjectValue) and x.type.kind == "table":
        i = c.integer(c.expr(node.slice), "row")
        return ir.Cast(x=i, type=Handle(x.type.slot), pos=pos)
    if isinstance(x, ObjectValue) and x.type.column:
        return _of_column(c, x.type, c.expr(node.slice), pos)
    if isinstance(x, Iterator):
        return check_neighbour(c, x, node.slice, pos)
    if not isinstance(x, ir.Expr):
        reject(f"{describe(x)} has no items", pos, "tables, vectors and local collections do")
    with c.collect() as later:
        index = c.expr(node.slice)
    if isinstance(x.type, Local):
        c.out += later
    else:
        x = c.evaluate_before(x, later)
    if isinstance(x.type, Tuple | Struct):
        if not (isinstance(index, ir.Const) and isinstance(index.value, int)):
            reject("a tuple is indexed by a constant", pos, "a vector by any integer")
        return field(x, index.value, pos)
    if not isinstance(x.type, Vector | Local | Rows):
        reject(f"{x.type} has no items", pos, "tables, vectors and local collections do")
    return _item(x, c.integer(index, "index"), pos)


def _of_column(c: Context, t: Object, index: ir.Expr, pos: Pos) -> Value:
    """``x[i]`` of a column or a NumPy array; of a column ``i`` may also be a row of its table."""
    row = Handle(t.slot)
    if index.type != row:
        index = c.integer(index, "index")
        if isinstance(index, ir.Const) and index.value < 0:
            noun = "a NumPy array" if t.kind == "array" else "a column"
            reject(f"index {index.value} is outside {noun}", pos, "from a[0] to a[len(a) - 1]")
        index = ir.Cast(x=index, type=row, pos=pos)
    return of_row(c, index, row, t.column, pos)


def _slice(c: Context, x: Value, s: ast.Slice, pos: Pos) -> Slice:
    if s.upper or s.step or not s.lower:
        reject("a loop can start at a position: x[start:]", pos, "and leave with `break`")
    start, reverse = c.integer(c.expr(s.lower), "start"), False
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


def _item(x: ir.Expr, index: ir.Expr, pos: Pos) -> ir.Expr:
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


def field(x: ir.Expr, i: int, pos: Pos) -> ir.Expr:
    """Part ``i`` of a tuple or struct."""
    types = x.type.items if isinstance(x.type, Tuple) else tuple(t for _, t in x.type.fields)  # type: ignore[attr-defined]
    if not 0 <= i < len(types):
        reject(f"index {i} is outside {x.type}", pos, f"from 0 to {len(types) - 1}")
    if isinstance(x, ir.Make):
        return x.parts[i]
    return ir.Field(x=x, index=i, type=types[i], pos=pos)


def _number_of(c: Context, node: ast.Attribute, owner: Any) -> ir.Const | None:
    """Return a number that is an attribute of a global module or class; None for others.

    Unlike other attributes, it allows the unit to be recorded, as the fingerprint of the unit has
    its value, see `morph.launch.fingerprint`.
    """
    name = node.attr
    obj = vars(owner).get(name)
    if not isinstance(node.value, ast.Name) or not isinstance(obj, bool | int | float | np.generic):
        return None
    if ir_name(node.value.id) in c.params.keys() | c.locals.keys():
        return None
    if (number := constant(obj, c.pos(node))) is not None:
        root, function = node.value.id, c.source.function
        closed, home = root in function.__code__.co_freevars, function.__globals__
        key = None if closed else (id(home), f"{root}.{name}")
        c.builder.dependencies.add(partial(getattr, owner, name), obj, key, home, closed)
    return number


def check_attribute(c: Context, node: ast.Attribute) -> Value:
    """``x.name`` of a module, an object, a row or a value."""
    x, name, pos = c.value(node.value), node.attr, c.pos(node)
    match x:
        case PythonValue(value=ModuleType() | type() as owner) if hasattr(owner, name):
            if (number := _number_of(c, node, owner)) is not None:
                return number
            return captured(c, getattr(owner, name), lambda: getattr(owner, name), name, pos)
        case PythonValue():
            problem = f"{describe(x)} has no {name!r} in the language"
            reject(problem, pos, "modules give functions and constants")
        case ObjectValue():
            return _of_object(c, x, name, pos)
        case Bundle(fields=given):
            fields = dict(given)
            if name not in fields:
                noun = describe(x) if x.struct else "the named tuple"
                reject(f"{noun} has no {name!r}", pos, f"it has {', '.join(fields)}")
            return replace(fields[name], pos=pos)
        case ir.Expr():
            return _of_value(c, x, name, pos)
    reject(f"{describe(x)} has no {name!r}", pos, "loop over it, or call it")


def _of_value(c: Context, x: ir.Expr, name: str, pos: Pos) -> Value:
    match x.type:
        case Handle() as t:
            return of_row(c, x, t, name, pos)
        case Struct(fields=fields) as t:
            names = [n for n, _ in fields]
            if name not in names:
                reject(f"{t} has no field {name!r}", pos, f"it has {', '.join(names)}")
            return field(x, names.index(name), pos)
        case Vector(size=size) if name in "xyz" and "xyz".index(name) < size:
            return _item(x, ir.Const(value="xyz".index(name), type=I64, pos=pos), pos)
        case Local() | Rows():
            return ir.LocalSize(x=x, type=I64, pos=pos) if name == "size" else Method(pos, x, name)
    reject(f"{x.type} has no {name!r}", pos, "rows have columns, vectors x, y and z")


def _of_object(c: Context, x: ObjectValue, name: str, pos: Pos) -> Value:
    slot, kind = x.type.slot, x.type.kind
    match kind, name:
        case "graph", _:
            tables = dict(c.builder.graphs[slot].tables)
            if name in tables:
                return ObjectValue(pos, Object("table", tables[name]))
            if name not in ("weight", "edge"):
                reject(f"graph {slot!r} has no table {name!r}", pos, f"it has {', '.join(tables)}")
        case "table", _ if c.builder.stores[slot].column(name) is not None:
            return ObjectValue(pos, Object("column", slot, name))
        case "scalars", _:
            zero = ir.Const(value=0, type=I64, pos=pos)
            row = ir.Cast(x=zero, type=Handle(slot), pos=pos)
            return of_row(c, row, Handle(slot), name, pos)
        case "table" | "collection", "size":
            if c.definition.kind == "program":
                reject(f"a program asks no {kind} for its size", pos, "len(...)")
            return ir.StoreSize(slot=slot, type=I64, pos=pos)
        case "collection", "empty":
            size = ir.StoreSize(slot=slot, type=I64, pos=pos)
            zero = ir.Const(value=0, type=I64, pos=pos)
            return ir.Compare(op="==", x=size, y=zero, type=BOOL, pos=pos)
        case "array" | "column", _:
            noun = "a NumPy array" if kind == "array" else "a column"
            reject(f"{noun} has no {name!r} in a kernel", pos, "a[i] and len(a)")
        case "flag", "raised":
            return ir.Raised(slot=slot, type=BOOL, pos=pos)
    return Method(pos, x, name)


def of_row(c: Context, x: ir.Expr, t: Handle, name: str, pos: Pos) -> Value:
    """``row.name``: a column, the number of the row, its neighbours."""
    store = c.builder.stores[t.slot]
    column = store.column(name)
    if column is not None:
        kind: Type = Vector(column.elem, column.size) if column.size else column.elem
        place = ir.Place(slot=t.slot, column=name, row=x, index=None, type=kind, pos=pos)
        return ir.Load(place=place, type=kind, pos=pos)
    if name == "id":
        return ir.Cast(x=x, type=I64 if store.wide else I32, pos=pos)
    if name == "deleted" and store.kind == "table":
        if not store.deletes:
            return ir.Const(value=False, type=BOOL, pos=pos)
        return ir.Dead(slot=t.slot, row=x, type=BOOL, pos=pos)
    if name == "delete" and store.kind == "table":
        return Method(pos, x, name)
    row, item = t, store.column("item") if store.kind == "collection" else None
    if item is not None and isinstance(item.elem, Handle):  # neighbours of the row of an entry
        row = item.elem
        place = ir.Place(slot=t.slot, column="item", row=x, index=None, type=row, pos=pos)
        x = ir.Load(place=place, type=row, pos=pos)
    for graph in c.builder.graphs.values():
        for table, slot in graph.tables:
            if slot == row.slot and (v := _neighbours(c, x, graph, table, name, pos)) is not None:
                return v
    names = ", ".join(column.name for column in store.columns)
    reject(f"{t.slot!r} has no column or iterator {name!r}", pos, f"its columns: {names}")


def columns_of(c: Context, row: ir.Expr, pos: Pos) -> tuple[tuple[str, ir.Expr], ...]:
    """The values of all columns of a row, by name."""
    assert isinstance(row.type, Handle)
    names = [column.name for column in c.builder.stores[row.type.slot].columns]
    values = [(n, of_row(c, row, row.type, n, pos)) for n in names]
    return tuple((n, x) for n, x in values if isinstance(x, ir.Expr))


def same_columns(a: Store, b: Store) -> bool:
    """Whether two stores have columns of the same names and types."""
    first, second = ({x.name: (x.elem, x.size) for x in s.columns} for s in (a, b))
    return first == second


def _neighbours(
    c: Context, x: ir.Expr, graph: GraphInfo, table: str, name: str, pos: Pos
) -> Value | None:
    """The neighbours or edges of a point, or of the ends of an edge, and their number."""
    slot = graph.slot
    both, into = ("all", "in") if graph.directed else ("out", "out")
    if table == "points":
        loops = {
            "outnbrs": ("out", "point"), "innbrs": (into, "point"), "nbrs": (both, "point"),
            "outedges": ("out", "edge"), "inedges": ("in", "edge"), "edges": (both, "edge"),
        }  # fmt: skip
        if name in loops:
            direction, bind = loops[name]
            return Iterator(pos, slot, x, direction, bind)
        degrees = {"out_degree": "out", "in_degree": into, "degree": both}
        if name in degrees:
            return ir.Degree(graph=slot, point=x, direction=degrees[name], type=I64, pos=pos)
    if table == "edges" and name in ("nbr1", "nbr2", "nbrs"):
        x = c.bind(x)
        src, dst = (of_row(c, x, Handle(f"{slot}.edges"), end, pos) for end in ("src", "dst"))
        assert isinstance(src, ir.Expr) and isinstance(dst, ir.Expr)
        ends = [Iterator(pos, slot, p, both, "edge", x) for p in (src, dst)]
        return Chain(pos, *ends) if name == "nbrs" else ends[name == "nbr2"]
    return None
