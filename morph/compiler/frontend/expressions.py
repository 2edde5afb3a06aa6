"""Checking expressions: Python's syntax tree to typed IR, in the order in which Python evaluates.

An expression may append statements to ``self.out`` first: effects are bound to temporaries, so that
what remains is pure.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from morph.compiler.frontend.branches import OPS, Branches
from morph.compiler.frontend.scope import Edges, Flow, Loop, spelled
from morph.compiler.frontend.values import (
    Method,
    ObjectValue,
    PythonValue,
    Value,
    cast,
    coerce,
    common,
    constant,
    default,
    describe,
    meet,
    operand,
)
from morph.compiler.ir import nodes as ir
from morph.language.definition import Definition
from morph.language.errors import reject
from morph.language.intrinsics import BINARY, COMPARE, UNARY, name_of
from morph.language.position import Pos
from morph.language.source import Source
from morph.language.types import (
    BOOL,
    F64,
    I64,
    NOTHING,
    Handle,
    Local,
    Nothing,
    Scalar,
    Struct,
    Tuple,
    Type,
    Vector,
    Weak,
)

if TYPE_CHECKING:
    from morph.compiler.frontend.unit import Builder

LARGE = 200  # nodes of an expression


class Expressions(Branches):
    """The half of the checker that turns expressions into IR."""

    builder: Builder
    definition: Definition
    source: Source
    extra: dict[str, Type]
    out: list[ir.Stmt]
    flow: Flow | None
    locals: dict[str, Type]
    params: dict[str, Value | Type]
    loops: list[Loop]
    edges: Edges  # of the loops around, while their variables keep what they were bound to

    def pos(self, node: ast.AST) -> Pos:
        """Where a node stands in the user's file."""
        return self.source.pos(node)

    # --- values ----------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """Any expression, values and static things alike."""
        method = getattr(self, f"_{type(node).__name__.lower()}_expr", None)
        if method is None:
            what = {
                "NamedExpr": ("an assignment inside an expression", "assign on a line of its own"),
                "JoinedStr": ("an f-string", "there is no text inside kernels"),
                "Lambda": ("a lambda", "write a @func"),
                "List": ("a list", "local(dtype, capacity) grows; vector(x, y) has a fixed size"),
                "Dict": ("a dict", "keep it in a column, or use a @struct"),
                "Set": ("a set display", "use a local collection"),
                "Starred": ("*", "write the values out"),
            }  # fmt: skip
            name, hint = type(node).__name__, "write a loop"
            if name in ("ListComp", "SetComp", "DictComp", "GeneratorExp"):
                name = "a comprehension"
            name, hint = what.get(name, (name.lower(), hint))
            reject(f"{name} is outside the language", self.pos(node), hint)
        result: Value = method(node)
        return result

    def expr(self, node: ast.expr) -> ir.Expr:
        """An expression that must be a value."""
        return self.evaluated(self.value(node), node)

    def evaluated(self, v: Value, node: ast.expr) -> ir.Expr:
        """What `value` gave for an expression, which must be a value."""
        if isinstance(v, ir.Expr):
            return self.bounded(v)
        if isinstance(v, Method) and isinstance(v.receiver, ir.Expr):
            reject(f"{v.name!r} is a method", v.pos, f"call it: {v.name}()")
        reject(f"{describe(v)} is not a value", self.pos(node), "use one of its members")

    def exprs(self, nodes: Sequence[ast.expr]) -> list[ir.Expr]:
        """Several values, left to right; a later effect cannot change an earlier value."""
        done: list[ir.Expr] = []
        for node in nodes:
            mark = len(self.out)
            x = self.expr(node)
            if len(self.out) > mark:
                later, self.out[mark:] = self.out[mark:], []
                done = [self.bind(y) for y in done]
                self.out += later
            done.append(x)
        return done

    def bounded(self, x: ir.Expr) -> ir.Expr:
        """A value of at most `LARGE` nodes: a larger one is evaluated now.

        Every later pass, and a C++ compiler's limit of brackets, can rely on shallow expressions.
        """
        large = next(islice(ir.walk(x), LARGE, None), None) is not None
        return self.bind(x) if large else x

    def frozen(self, x: ir.Expr, mark: int) -> ir.Expr:
        """A value as it was before the statements from ``mark`` on."""
        if len(self.out) > mark:
            later, self.out[mark:] = self.out[mark:], []
            x = self.bind(x)
            self.out += later
        return x

    temporaries = 0

    def temporary(self, t: Type) -> str:
        """A fresh local."""
        name = f"t{self.temporaries}_"
        self.temporaries += 1
        self.locals[name] = default(t)
        return name

    def bind(self, x: ir.Expr) -> ir.Expr:
        """Evaluate now: an expression that can be repeated and is not changed by later effects."""
        if isinstance(x, ir.Const | ir.Var | ir.MakeLocal):
            return x
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
        reject(f"{what} must be an integer, not {x.type}", x.pos, "cast it: i64(...)")

    # --- leaves ----------------------------------------------------------------------------------

    def _constant_expr(self, node: ast.Constant) -> Value:
        c = constant(node.value, self.pos(node))
        if c is None:
            what = f"a constant of type {type(node.value).__name__} is outside the language"
            reject(what, self.pos(node), "numbers, True, False and None are inside")
        return c

    def _name_expr(self, node: ast.Name) -> Value:
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
        source = self.source
        closed = node.id in source.function.__code__.co_freevars
        key = None if closed else (id(source.function.__globals__), node.id)
        return self.captured(obj, lambda: source.lookup(node.id)[1], node.id, pos, closed, key)

    assigned_somewhere: frozenset[str]

    def captured(
        self, obj: Any, again: Callable[[], Any], name: str, pos: Pos, closed: bool = False,
        key: Any = None,
    ) -> Value:  # fmt: skip
        """What a name from outside the function stands for; ``again`` looks it up anew."""
        t = self.builder.capture(obj, spelled(name))
        if t is not None:
            self.builder.depends(again, obj, key)
            return ObjectValue(pos, t)
        number = isinstance(obj, bool | int | float | np.generic)
        if closed and number and self.builder.takes(self.definition):
            return self.closure(name, obj, again, pos)
        if name_of(obj) is None and not isinstance(obj, ModuleType):
            self.builder.depends(again, obj, key, self.source.function.__globals__)
        c = constant(obj, pos)
        return c if c is not None else PythonValue(pos, obj)

    def closure(self, name: str, obj: Any, again: Callable[[], Any], pos: Pos) -> ir.Expr:
        """A number of an enclosing function: one more parameter, read at every launch."""
        c = constant(obj, pos)
        t = default(c.type) if c is not None else None
        if not isinstance(t, Scalar):
            reject(f"{name!r} is a {type(obj).__name__}", pos, "the reference lists the data types")
        key = f"{spelled(name)}_of_{self.definition.kind}_"
        self.builder.closures[key] = (t, name)
        self.builder.depends(lambda: type(again()), type(obj))
        self.extra[key] = t
        return ir.Var(name=key, type=t, pos=pos)

    # --- operators -------------------------------------------------------------------------------

    def _unaryop_expr(self, node: ast.UnaryOp) -> Value:
        op, pos = OPS[type(node.op)], self.pos(node)
        if op == "not":
            x = self.condition(node.operand)
            if isinstance(x, ir.Const):
                return ir.Const(value=not x.value, type=BOOL, pos=pos)
            return ir.Unary(op=op, x=x, type=BOOL, pos=pos)
        return self.unary(op, self.expr(node.operand), pos)

    def unary(self, op: str, x: ir.Expr, pos: Pos) -> ir.Expr:
        """``+ - ~`` of a value."""
        t = x.type
        if isinstance(t, Vector):
            return self._vector(op, [x], pos)
        if isinstance(t, Weak) and isinstance(x, ir.Const) and (op != "~" or t.kind == "i"):
            return ir.Const(value=UNARY[op](x.value), type=t, pos=pos)
        if not isinstance(t, Scalar) or t == BOOL or (op == "~" and t.kind == "f"):
            reject(f"{op} does not apply to {t}", pos, "`not` negates a bool_")
        return x if op == "+" else ir.Unary(op=op, x=x, type=t, pos=pos)

    def _binop_expr(self, node: ast.BinOp) -> Value:
        if type(node.op) not in OPS:
            reject("@ is outside the language", self.pos(node), "write the sum out")
        x, y = self.exprs([node.left, node.right])
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
            reject(f"{op} applies to integers, not to {t}", pos, "cast first, as in i64(x)")
        return ir.Binary(op=op, x=operand(x, t), y=operand(y, t), type=t, pos=pos)

    def _fold(self, op: str, x: ir.Const, y: ir.Const, pos: Pos) -> ir.Expr:
        try:
            value = BINARY[op](x.value, y.value)
        except (ArithmeticError, ValueError, TypeError) as error:
            reject(f"this constant has no value: {error}", pos, "constants are computed at once")
        c = constant(value, pos)
        assert c is not None
        return c

    def _power(self, x: ir.Expr, y: ir.Expr, pos: Pos) -> ir.Expr:
        for v in (x, y):
            if not isinstance(v.type, Scalar | Weak):
                reject(
                    f"** applies to numbers, not to {v.type}", pos, "of a vector, take its parts"
                )
        if not (isinstance(y, ir.Const) and isinstance(y.value, int) and 1 <= y.value <= 8):
            t = common(x, y, pos)
            if t == BOOL:
                reject("** does not apply to bool_", pos, "cast first, as in i32(b)")
            return ir.Builtin(name="pow", args=(operand(x, t), operand(y, t)), type=t, pos=pos)
        base = self.bind(x)
        result = base
        for _ in range(y.value - 1):
            result = self.binary("*", result, base, pos)
        return result

    def _vector(self, op: str, args: list[ir.Expr], pos: Pos) -> ir.Expr:
        sizes = {a.type.size for a in args if isinstance(a.type, Vector)}
        if len(sizes) != 1:
            what = f"vectors of {' and '.join(map(str, sorted(sizes)))} values do not match"
            reject(what, pos, "one of them may be a number")
        bound = [a if isinstance(a, ir.Make) else self.bind(a) for a in args]
        parts: list[ir.Expr] = []
        for i in range(sizes.pop()):
            elems = [self.part(a, i) if isinstance(a.type, Vector) else a for a in bound]
            if len(elems) == 1:
                parts.append(self.unary(op, elems[0], pos))
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

    def comparison(self, op: str, x: ir.Expr, y: ir.Expr, pos: Pos) -> ir.Expr:
        """``x op y`` as a bool."""
        if op in ("in", "not in"):
            if not isinstance(y.type, Local | Vector):
                what = f"`in` looks into local collections and vectors, not {y.type}"
                reject(what, pos, "of others, mark the rows in a column")
            value = coerce(x, y.type.elem, "element")
            found: ir.Expr = ir.Contains(x=y, value=value, type=BOOL, pos=pos)
            return found if op == "in" else ir.Unary(op="not", x=found, type=BOOL, pos=pos)
        if op in ("is", "is not"):
            if not isinstance(y.type, Nothing) and not isinstance(x.type, Nothing):
                reject("`is` compares with None only", pos, "write ==")
            op = "==" if op == "is" else "!="
        if isinstance(x.type, Nothing) and isinstance(y.type, Nothing):
            return ir.Const(value=op == "==", type=BOOL, pos=pos)
        x, y = meet(x, y, pos)
        if isinstance(x.type, Vector | Struct | Tuple | Local):
            reject(f"{x.type} cannot be compared", pos, "compare its parts")
        if isinstance(x.type, Handle) and op not in ("==", "!="):
            reject("rows have no order", pos, "compare x.id")
        if isinstance(x, ir.Const) and isinstance(y, ir.Const):
            return ir.Const(value=COMPARE[op](x.value, y.value), type=BOOL, pos=pos)
        return ir.Compare(op=op, x=x, y=y, type=BOOL, pos=pos)

    def _tuple_expr(self, node: ast.Tuple) -> Value:
        parts = [cast(x, default(x.type)) for x in self.exprs(node.elts)]
        for p in parts:
            if isinstance(p.type, Local):
                reject("a local collection cannot be part of a tuple", p.pos, "use it by its name")
        t = Tuple(tuple(p.type for p in parts))
        return ir.Make(parts=tuple(parts), type=t, pos=self.pos(node))
