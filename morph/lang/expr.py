"""Checking expressions: Python's syntax tree to typed IR, in the order in which Python evaluates.

An expression may append statements to ``self.out`` first: effects are bound to temporaries, so that
what remains is pure.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from morph.lang import ir
from morph.lang.builtins import BINARY, UNARY
from morph.lang.errors import reject
from morph.lang.ir import Pos
from morph.lang.scope import Flow, Loop, spelled
from morph.lang.source import Source
from morph.lang.types import (
    BOOL,
    F64,
    I32,
    I64,
    NOTHING,
    Handle,
    Local,
    Nothing,
    Object,
    Rows,
    Scalar,
    Struct,
    Tuple,
    Type,
    Vector,
    Weak,
)
from morph.lang.values import (
    Chain,
    Iterator,
    Method,
    ObjectValue,
    PythonValue,
    Slice,
    Value,
    cast,
    coerce,
    common,
    constant,
    default,
    describe,
    meet,
    operand,
    truth,
)

if TYPE_CHECKING:
    from morph.lang.unit import Builder

OPS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.Pow: "**", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
    ast.USub: "-", ast.Invert: "~", ast.Not: "not", ast.UAdd: "+",
}  # fmt: skip


class Expressions:
    """The half of the checker that turns expressions into IR."""

    builder: Builder
    source: Source
    out: list[ir.Stmt]
    flow: Flow | None
    locals: dict[str, Type]
    params: dict[str, Value | Type]
    loops: list[Loop]
    edges: dict[str, tuple[str, str, str]]  # loop variable -> graph, point variable, edge variable

    def pos(self, node: ast.AST) -> Pos:
        return self.source.pos(node)

    # --- values ----------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """Any expression, values and static things alike."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            reject(
                f"{type(node).__name__.lower()} is outside the language",
                self.pos(node),
                "see the reference for what an expression may be",
            )
        result: Value = method(node)
        return result

    def expr(self, node: ast.expr) -> ir.Expr:
        """An expression that must be a value."""
        v = self.value(node)
        if isinstance(v, ir.Expr):
            return v
        if isinstance(v, Method) and isinstance(v.receiver, ir.Expr):
            reject(f"{v.name!r} is a method: call it", v.pos)
        reject(f"{describe(v)} is not a value here", self.pos(node))

    def exprs(self, nodes: Sequence[ast.expr]) -> list[ir.Expr]:
        """Several values, left to right; a later effect cannot change an earlier value."""
        done: list[ir.Expr] = []
        for node in nodes:
            mark = len(self.out)
            x = self.expr(node)
            if len(self.out) > mark:
                kept = [self._frozen(y, mark + i) for i, y in enumerate(done)]
                done = kept
            done.append(x)
        return done

    def _frozen(self, x: ir.Expr, mark: int) -> ir.Expr:
        if isinstance(x, ir.Const | ir.Var):
            return x
        name = self.temporary(x.type)
        self.out.insert(mark, ir.Assign(name=name, value=x, pos=x.pos))
        return ir.Var(name=name, type=x.type, pos=x.pos)

    temporaries = 0

    def temporary(self, t: Type) -> str:
        """A fresh local."""
        name = f"t{self.temporaries}_"
        self.temporaries += 1
        self.locals[name] = default(t)
        return name

    def bind(self, x: ir.Expr) -> ir.Expr:
        """Evaluate now: an expression that can be repeated and is not changed by later effects."""
        if isinstance(x, ir.Const | ir.Var):
            return x
        x = cast(x, default(x.type)) if isinstance(x.type, Weak) else x
        name = self.temporary(x.type)
        self.out.append(ir.Assign(name=name, value=x, pos=x.pos))
        return ir.Var(name=name, type=x.type, pos=x.pos)

    def effect(self, x: ir.Expr, shared: bool = True) -> ir.Expr:
        """Run an effect now; its value is a temporary."""
        if shared and self.flow is not None and self.flow.wrote is None:
            self.flow.wrote = x.pos
        if x.type == NOTHING:
            self.out.append(ir.Eval(value=x, pos=x.pos))
            return ir.Const(value=-1, type=NOTHING, pos=x.pos)
        return self.bind(x)

    def integer(self, x: ir.Expr, what: str) -> ir.Expr:
        """An index or a count, as int64."""
        if isinstance(x.type, Weak | Scalar) and x.type.kind in "iu":
            return cast(x, I64)
        reject(f"{what} must be an integer, not {x.type}", x.pos)

    # --- leaves ----------------------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> Value:
        c = constant(node.value, self.pos(node))
        if c is None:
            reject(
                f"{type(node.value).__name__} constants are outside the language", self.pos(node)
            )
        return c

    def _name(self, node: ast.Name) -> Value:
        name, pos = spelled(node.id), self.pos(node)
        if name in self.params:
            p = self.params[name]
            if isinstance(p, Type):
                return ir.Var(name=name, type=self.locals.get(name, p), pos=pos)
            return p
        if name in self.locals:
            if self.flow is not None and name not in self.flow.assigned:
                reject(f"{node.id!r} may have no value here", pos, "give it a value on every path")
            return ir.Var(name=name, type=self.locals[name], pos=pos)
        if node.id in self.assigned_somewhere:
            reject(f"{node.id!r} has no value yet", pos, "assign it before this line")
        found, obj = self.source.lookup(node.id)
        if not found:
            reject(f"{node.id!r} is not declared", pos, "it is no parameter, local or global")
        if isinstance(obj, bool | int | float | np.generic) or hasattr(obj, "definition"):
            if not self.builder.is_runtime(self.source, node.id):
                self.builder.constants.append((self.source, node.id, obj))
        return self.captured(obj, node.id, pos)

    assigned_somewhere: frozenset[str]

    def captured(self, obj: Any, name: str, pos: Pos) -> Value:
        """What a name from outside the function stands for."""
        t = self.builder.capture(obj, name)
        if t is not None:
            return ObjectValue(pos, t)
        if isinstance(obj, bool | int | float) and self.builder.is_runtime(self.source, name):
            return self.builder.runtime_scalar(self, name, obj, pos)
        c = constant(obj, pos)
        return c if c is not None else PythonValue(pos, obj)

    # --- operators -------------------------------------------------------------------------------

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        op, x, pos = OPS[type(node.op)], self.expr(node.operand), self.pos(node)
        if op == "not":
            return ir.Unary(op=op, x=truth(x), type=BOOL, pos=pos)
        if isinstance(x.type, Vector):
            return self._vector(op, [x], pos)
        if op == "+" and isinstance(x.type, Scalar | Weak):
            return x
        if (
            isinstance(x.type, Weak)
            and isinstance(x, ir.Const)
            and (op == "-" or x.type.kind == "i")
        ):
            return ir.Const(value=UNARY[op](x.value), type=x.type, pos=pos)
        if not isinstance(x.type, Scalar) or x.type == BOOL or (op == "~" and x.type.kind == "f"):
            reject(f"{op} does not apply to {x.type}", pos, "`not` negates a bool_")
        return ir.Unary(op=op, x=x, type=x.type, pos=pos)

    def _binop(self, node: ast.BinOp) -> Value:
        x, y = self.exprs([node.left, node.right])
        if type(node.op) not in OPS:
            reject(f"operator {type(node.op).__name__} is outside the language", self.pos(node))
        return self.binary(OPS[type(node.op)], x, y, self.pos(node))

    def binary(self, op: str, x: ir.Expr, y: ir.Expr, pos: Pos) -> ir.Expr:
        """An arithmetic or bit operator on two values."""
        if isinstance(x.type, Vector) or isinstance(y.type, Vector):
            return self._vector(op, [x, y], pos)
        if isinstance(x, ir.Const) and isinstance(y, ir.Const):
            if isinstance(x.type, Weak) and isinstance(y.type, Weak):
                return self._fold(op, x, y, pos)
        if op == "**":
            return self._power(x, y, pos)
        t = common(x, y, pos)
        if op in ("&", "|", "^") and t == BOOL:
            return ir.Binary(op=op, x=x, y=y, type=t, pos=pos)
        if t.kind == "b":
            reject(f"{op} does not apply to bool_", pos, "cast first, as in i32(b)")
        if op == "/" and t.kind != "f":
            t = F64
        if op in ("&", "|", "^", "<<", ">>") and t.kind == "f":
            reject(f"{op} applies to integers, not to {t}", pos)
        return ir.Binary(op=op, x=operand(x, t), y=operand(y, t), type=t, pos=pos)

    def _fold(self, op: str, x: ir.Const, y: ir.Const, pos: Pos) -> ir.Expr:
        try:
            value = BINARY[op](x.value, y.value)
        except (ArithmeticError, ValueError, TypeError) as error:
            reject(str(error), pos)
        c = constant(value, pos)
        if c is None:
            reject(f"{op} does not apply to these constants", pos)
        return c

    def _power(self, x: ir.Expr, y: ir.Expr, pos: Pos) -> ir.Expr:
        if not (isinstance(y, ir.Const) and isinstance(y.value, int) and 1 <= y.value <= 8):
            reject("** takes a constant exponent from 1 to 8", pos, "other powers: exp(y * log(x))")
        base = self.bind(x)
        result = base
        for _ in range(y.value - 1):
            result = self.binary("*", result, base, pos)
        return result

    def _vector(self, op: str, args: list[ir.Expr], pos: Pos) -> ir.Expr:
        sizes = {a.type.size for a in args if isinstance(a.type, Vector)}
        if len(sizes) != 1:
            reject(f"vectors of {' and '.join(map(str, sorted(sizes)))} values do not match", pos)
        bound = [a if isinstance(a, ir.Make) else self.bind(a) for a in args]
        parts = []
        for i in range(sizes.pop()):
            elems = [self.part(a, i) if isinstance(a.type, Vector) else a for a in bound]
            if len(elems) == 1:
                parts.append(ir.Unary(op=op, x=elems[0], type=elems[0].type, pos=pos))
            else:
                parts.append(self.binary(op, elems[0], elems[1], pos))
        return ir.Make(parts=tuple(parts), type=Vector(parts[0].type, len(parts)), pos=pos)

    def part(self, x: ir.Expr, i: int) -> ir.Expr:
        """Value ``i`` of a vector that can be evaluated again."""
        assert isinstance(x.type, Vector)
        if isinstance(x, ir.Make):
            return x.parts[i]
        index = ir.Const(value=i, type=I64, pos=x.pos)
        return ir.Item(x=x, index=index, type=x.type.elem, pos=x.pos)

    def _boolop(self, node: ast.BoolOp) -> Value:
        op = "and" if isinstance(node.op, ast.And) else "or"
        result = truth(self.expr(node.values[0]))
        for value in node.values[1:]:
            outer, self.out = self.out, []
            y = truth(self.expr(value))
            inner, self.out = self.out, outer
            pos = self.pos(node)
            if not inner:
                result = ir.Logic(op=op, x=result, y=y, type=BOOL, pos=pos)
                continue
            name = self.temporary(BOOL)
            self.out.append(ir.Assign(name=name, value=result, pos=pos))
            result = ir.Var(name=name, type=BOOL, pos=pos)
            body = (*inner, ir.Assign(name=name, value=y, pos=pos))
            then, orelse = (body, ()) if op == "and" else ((), body)
            self.out.append(ir.If(cond=result, then=then, orelse=orelse, pos=pos))
        return result

    def _compare(self, node: ast.Compare) -> Value:
        if len(node.ops) == 1:
            return self._compared(node, node.left, node.comparators[0], node.ops[0])
        terms = self.exprs([node.left, *node.comparators])
        terms = [self.bind(t) if not isinstance(t.type, Weak) else t for t in terms]
        result: ir.Expr | None = None
        for op, x, y in zip(node.ops, terms, terms[1:], strict=False):
            c = self.comparison(OPS[type(op)], x, y, self.pos(node))
            if result is not None:
                c = ir.Logic(op="and", x=result, y=c, type=BOOL, pos=self.pos(node))
            result = c
        assert result is not None
        return result

    def _compared(self, node: ast.Compare, a: ast.expr, b: ast.expr, op: ast.cmpop) -> ir.Expr:
        pos = self.pos(node)
        if isinstance(op, ast.In | ast.NotIn):
            value, x = self.exprs([a, b])
            if not isinstance(x.type, Local | Vector):
                reject(f"`in` looks into local collections and vectors, not {x.type}", pos)
            found: ir.Expr = ir.Contains(
                x=x, value=coerce(value, x.type.elem, "element"), type=BOOL, pos=pos
            )
            return (
                found if isinstance(op, ast.In) else ir.Unary(op="not", x=found, type=BOOL, pos=pos)
            )
        x, y = self.exprs([a, b])
        return self.comparison(OPS[type(op)], x, y, pos)

    def comparison(self, op: str, x: ir.Expr, y: ir.Expr, pos: Pos) -> ir.Expr:
        """``x op y`` as a bool."""
        if op in ("is", "is not"):
            if not isinstance(y.type, Nothing) and not isinstance(x.type, Nothing):
                reject("`is` compares with None only", pos, "write ==")
            op = "==" if op == "is" else "!="
        if isinstance(x.type, Nothing) and isinstance(y.type, Nothing):
            return ir.Compare(op=op, x=x, y=y, type=BOOL, pos=pos)
        x, y = meet(x, y, pos)
        if isinstance(x.type, Vector | Struct | Tuple | Local):
            reject(f"{x.type} cannot be compared", pos, "compare its parts")
        if isinstance(x.type, Weak):
            x, y = cast(x, default(x.type)), cast(y, default(y.type))
        return ir.Compare(op=op, x=x, y=y, type=BOOL, pos=pos)

    def _ifexp(self, node: ast.IfExp) -> Value:
        pos = self.pos(node)
        cond = truth(self.expr(node.test))
        outer = self.out
        self.out = then = []
        x = self.expr(node.body)
        self.out = orelse = []
        y = self.expr(node.orelse)
        self.out = outer
        x, y = meet(x, y, pos)
        if isinstance(x.type, Weak):
            t = default(x.type)
            x, y = cast(x, t), cast(y, t)
        if not then and not orelse:
            return ir.Select(cond=cond, x=x, y=y, type=x.type, pos=pos)
        name = self.temporary(x.type)
        then.append(ir.Assign(name=name, value=x, pos=pos))
        orelse.append(ir.Assign(name=name, value=y, pos=pos))
        self.out.append(ir.If(cond=cond, then=tuple(then), orelse=tuple(orelse), pos=pos))
        return ir.Var(name=name, type=x.type, pos=pos)

    def _tuple(self, node: ast.Tuple) -> Value:
        parts = [cast(x, default(x.type)) for x in self.exprs(node.elts)]
        t = Tuple(tuple(p.type for p in parts))
        return ir.Make(parts=tuple(parts), type=t, pos=self.pos(node))

    # --- parts -----------------------------------------------------------------------------------

    def _subscript(self, node: ast.Subscript) -> Value:
        x, pos = self.value(node.value), self.pos(node)
        if isinstance(node.slice, ast.Slice):
            if node.slice.upper or node.slice.step or not node.slice.lower:
                reject("a loop can start at a position: x[start:]", pos)
            return Slice(pos, x, self.integer(self.expr(node.slice.lower), "start"), False)
        if isinstance(x, ObjectValue) and x.type.kind == "table":
            i = self.integer(self.expr(node.slice), "row")
            return ir.Cast(x=i, type=Handle(x.type.slot), pos=pos)
        if not isinstance(x, ir.Expr):
            reject(f"{describe(x)} has no items", pos)
        mark = len(self.out)
        index = self.expr(node.slice)
        if len(self.out) > mark and not isinstance(x.type, Local):
            x = self._frozen(x, mark)
        if isinstance(x.type, Tuple | Struct):
            if not (isinstance(index, ir.Const) and isinstance(index.value, int)):
                reject("a tuple is indexed by a constant", pos)
            return self.field(x, index.value, pos)
        if not isinstance(x.type, Vector | Local | Rows):
            reject(f"{x.type} has no items", pos)
        index = self.integer(index, "index")
        if isinstance(x.type, Vector) and isinstance(index, ir.Const):
            if not 0 <= index.value < x.type.size:
                reject(f"index {index.value} is outside a {x.type}", pos)
            if isinstance(x, ir.Make):
                return x.parts[int(index.value)]
        if isinstance(x, ir.Load) and x.place.index is None:
            p = x.place
            place = ir.Place(
                slot=p.slot, column=p.column, row=p.row, index=index, type=x.type.elem, pos=pos
            )
            return ir.Load(place=place, type=place.type, pos=pos)
        elem = Handle(x.type.slot) if isinstance(x.type, Rows) else x.type.elem
        return ir.Item(x=x, index=index, type=elem, pos=pos)

    def field(self, x: ir.Expr, i: int, pos: Pos) -> ir.Expr:
        """Part ``i`` of a tuple or struct."""
        types = x.type.items if isinstance(x.type, Tuple) else tuple(t for _, t in x.type.fields)  # type: ignore[attr-defined]
        if not 0 <= i < len(types):
            reject(f"index {i} is outside {x.type}", pos)
        if isinstance(x, ir.Make):
            return x.parts[i]
        return ir.Field(x=x, index=i, type=types[i], pos=pos)

    def _attribute(self, node: ast.Attribute) -> Value:
        x, name, pos = self.value(node.value), node.attr, self.pos(node)
        if isinstance(x, PythonValue):
            if isinstance(x.value, ModuleType | type) and hasattr(x.value, name):
                return self.captured(getattr(x.value, name), name, pos)
            reject(f"{describe(x)} has no {name!r} in the language", pos)
        if isinstance(x, ObjectValue):
            return self._member(x, name, pos)
        if not isinstance(x, ir.Expr):
            reject(f"{describe(x)} has no {name!r}", pos)
        t = x.type
        if isinstance(t, Handle):
            return self._of_row(x, t, name, pos)
        if isinstance(t, Struct):
            names = [n for n, _ in t.fields]
            if name not in names:
                reject(f"{t} has no field {name!r}", pos, f"it has {', '.join(names)}")
            return self.field(x, names.index(name), pos)
        if isinstance(t, Vector) and name in "xyz" and "xyz".index(name) < t.size:
            return self.part(
                x if isinstance(x, ir.Make | ir.Var) else self.bind(x), "xyz".index(name)
            )
        if isinstance(t, Local | Rows) and name == "size":
            return ir.LocalSize(x=x, type=I64, pos=pos)
        if isinstance(t, Local | Rows):
            return Method(pos, x, name)
        reject(f"{t} has no {name!r}", pos)

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
            both = "all" if directed else "out"
            walks = {
                "outnbrs": ("out", "point"), "innbrs": ("in", "point"), "nbrs": (both, "point"),
                "outedges": ("out", "edge"), "inedges": ("in", "edge"), "edges": (both, "edge"),
            }  # fmt: skip
            if name in walks:
                direction, bind = walks[name]
                return Iterator(pos, graph, x, direction, bind)
            if name in ("out_degree", "in_degree"):
                return ir.Degree(graph=graph, point=x, direction=name[:-7], type=I64, pos=pos)
            if name == "degree":
                return ir.Degree(graph=graph, point=x, direction=both, type=I64, pos=pos)
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
