"""Checking calls of functions: casts, builtins, structs, and the functions of the user."""

from __future__ import annotations

import ast

from morph.compiler.frontend.methods import Methods
from morph.compiler.frontend.values import (
    Bundle,
    Method,
    ObjectValue,
    PythonValue,
    Slice,
    Value,
    cast,
    coerce,
    common,
    default,
    describe,
    flattened,
    operand,
)
from morph.compiler.ir import nodes as ir
from morph.language.bundles import is_bundle
from morph.language.definition import Definition, definition_of
from morph.language.errors import reject
from morph.language.intrinsics import FLOAT_FUNCTIONS, StructType, name_of, scalar_of
from morph.language.position import Pos
from morph.language.types import (
    BOOL,
    F64,
    I32,
    I64,
    Handle,
    Local,
    Nothing,
    Rows,
    Scalar,
    Struct,
    Type,
    Vector,
    Weak,
)


class Calls(Methods):
    """The part of the checker that types calls."""

    def _call_expr(self, node: ast.Call) -> Value:
        f, pos = self.value(node.func), self.pos(node)
        if isinstance(f, Method):
            return self._method(node, f, pos)
        if not isinstance(f, PythonValue):
            reject(f"{describe(f)} cannot be called", pos, "call a @func, a builtin or a method")
        definition = definition_of(f.value)
        if definition is not None:
            self._no_keywords(node)
            if definition.kind != "func":
                reject(
                    f"{definition.name!r} is a @{definition.kind} and cannot be called here",
                    pos,
                    "kernels are run by foreach; a function called from a kernel is a @func",
                )
            return self._user(definition, [self.value(a) for a in node.args], pos)
        if isinstance(f.value, StructType):
            return self._struct(node, f.value, pos)
        if isinstance(f.value, type) and is_bundle(f.value):
            self._no_keywords(node)
            fields: tuple[str, ...] = f.value._fields  # type: ignore[attr-defined]
            self._arity(node, len(fields), len(fields), f.value.__name__)
            values = (self.value(a) for a in node.args)
            return Bundle(pos, tuple(zip(fields, values, strict=True)))
        scalar = scalar_of(f.value)
        if scalar is not None:
            self._no_keywords(node)
            self._arity(node, 1, 1, scalar.name)
            x = self.expr(node.args[0])
            if isinstance(x.type, Handle):
                x = cast(x, I32)
            if not isinstance(x.type, Scalar | Weak):
                reject(f"{x.type} cannot be cast to {scalar}", x.pos, "cast its parts")
            return cast(x, scalar)
        name = name_of(f.value)
        if name is None:
            reject(
                f"{describe(f)} cannot be called in the language",
                pos,
                "decorate your own functions with @func; see the reference for the builtins",
            )
        return self._builtin(node, name, pos)

    # --- builtins --------------------------------------------------------------------------------

    def _builtin(self, node: ast.Call, name: str, pos: Pos) -> Value:
        if name == "single":
            reject(
                "single(...) stands alone as the condition of an `if`",
                pos,
                "if single(x): ... else: ...",
            )
        if name in ("range", "enumerate", "barrier"):
            where = "a @program" if name == "barrier" else "the head of a `for`"
            hint = "the end of each foreach is one" if name == "barrier" else "for i in range(n):"
            reject(f"{name} belongs in {where}", pos, hint)
        if name.startswith("atomic_"):
            return self._atomic(node, name[7:], pos)
        self._no_keywords(node)
        if name == "prefetch":
            return self._prefetch(node, pos)
        if name == "len":
            self._arity(node, 1, 1, name)
            x = self.value(node.args[0])
            if isinstance(x, ObjectValue) and x.type.kind in ("table", "collection"):
                return ir.StoreSize(slot=x.type.slot, type=I64, pos=pos)
            if isinstance(x, ir.Expr) and isinstance(x.type, Local | Rows):
                return ir.LocalSize(x=x, type=I64, pos=pos)
            if isinstance(x, ir.Expr) and isinstance(x.type, Vector):
                return ir.Const(value=x.type.size, type=Weak("i"), pos=pos)
            reject(f"{describe(x)} has no length", pos, "p.out_degree is a number of neighbours")
        if name == "hasattr":
            return self._has_column(node, pos)
        if name == "reversed":
            self._arity(node, 1, 1, name)
            x = self.value(node.args[0])
            if isinstance(x, Slice):
                reject("reversed goes inside", pos, "reversed(x)[start:] leaves out the last ones")
            return Slice(pos, x, None, True)
        if name == "local":
            return self._local(node, pos)
        if name == "vector" and len(node.args) == 2:
            t = self.value(node.args[0])
            if isinstance(t, PythonValue) and (scalar := scalar_of(t.value)) is not None:
                zero = ir.Const(value=0, type=scalar, pos=pos)
                n = self._constant_int(node.args[1], "vector size")
                return ir.Make(parts=(zero,) * n, type=Vector(scalar, n), pos=pos)
        args = self.exprs(node.args)
        if name == "vector":
            return self._vector_of(args, pos)
        if name in ("orient2d", "incircle"):
            self._arity(node, *((3, 3) if name == "orient2d" else (4, 4)), name)
            want = Vector(F64, 2)
            return ir.Builtin(
                name=name,
                args=tuple(coerce(a, want, f"argument of {name}") for a in args),
                type=I32,
                pos=pos,
            )
        return self._pure(name, args, pos)

    def _has_column(self, node: ast.Call, pos: Pos) -> ir.Expr:
        """``hasattr(row, "column")``: known while compiling."""
        self._arity(node, 2, 2, "hasattr")
        x, name = self.expr(node.args[0]), node.args[1]
        if not isinstance(x.type, Handle):
            reject(f"{x.type} has no columns", pos, "hasattr asks a row")
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            reject("hasattr takes the name of a column", pos, 'hasattr(p, "weight")')
        found = self.builder.stores[x.type.slot].column(name.value) is not None
        return ir.Const(value=found, type=BOOL, pos=pos)

    def _pure(self, name: str, args: list[ir.Expr], pos: Pos) -> ir.Expr:
        if name in ("min", "max"):
            if len(args) < 2:
                reject(
                    f"{name} takes two or more numbers", pos, "over a column: reduce(column, op)"
                )
            result = args[0]
            for y in args[1:]:
                t = common(result, y, pos)
                pair = (operand(result, t), operand(y, t))
                result = self.bounded(ir.Builtin(name=name, args=pair, type=t, pos=pos))
            return result
        if len(args) != 1:
            reject(f"{name} takes 1 argument, not {len(args)}", pos, f"{name}(x)")
        x = args[0]
        if isinstance(x.type, Weak):
            x = cast(x, default(x.type))
        kind = x.type
        if not isinstance(kind, Scalar) or kind == BOOL:
            reject(f"{name} does not apply to {x.type}", pos, "it takes a number")
        if name in FLOAT_FUNCTIONS and kind.kind != "f":
            x = cast(x, F64)
        if name == "popcount" and kind.kind not in ("i", "u"):
            reject(f"popcount applies to integers, not to {x.type}", pos, "cast it first")
        if name == "exponent" and kind.kind != "f":
            reject(f"exponent applies to floats, not to {x.type}", pos, "cast it first")
        gives = I32 if name in ("popcount", "exponent") else x.type
        return ir.Builtin(name=name, args=(x,), type=gives, pos=pos)

    def _vector_of(self, args: list[ir.Expr], pos: Pos) -> ir.Expr:
        if not args:
            reject("vector takes at least one value", pos, "vector(x, y), or vector(dtype, n)")
        # literals last, so that they give way to all others
        first, *others = sorted(args, key=lambda a: isinstance(a.type, Weak | Nothing))
        t: Type = first.type
        parts: tuple[ir.Expr, ...]
        if isinstance(t, Handle | Nothing) or all(a.type == BOOL for a in args):
            parts = tuple(coerce(a, t, "value") for a in args)
        else:
            for a in others or [first]:
                t = common(ir.Const(value=0, type=t, pos=first.pos), a, pos)
            assert isinstance(t, Scalar)
            parts = tuple(operand(a, t) for a in args)
        return ir.Make(parts=parts, type=Vector(t, len(parts)), pos=pos)

    def _struct(self, node: ast.Call, struct: StructType, pos: Pos) -> ir.Expr:
        names = list(struct.annotations)
        given = dict(zip(names, node.args, strict=False)) | {k.arg: k.value for k in node.keywords}
        if set(given) != set(names) or len(node.args) + len(node.keywords) != len(names):
            reject(f"{struct.name} takes {', '.join(names)}", pos, "in order, or by name")
        values = dict(zip(given, self.exprs(list(given.values())), strict=True))
        parts = []
        for name in names:
            x, want = values[name], self._annotated(struct, name, pos)
            if want is not None:
                x = coerce(x, want, f"{struct.name}.{name}")
            elif not isinstance(x.type, Handle):
                what = f"{struct.name}.{name} is a row, but the value is {x.type}"
                reject(what, x.pos, "g.points[i] is row i")
            parts.append(x)
        t = Struct(struct.name, tuple(zip(names, (p.type for p in parts), strict=True)))
        return ir.Make(parts=tuple(parts), type=t, pos=pos)

    def _annotated(self, struct: StructType, name: str, pos: Pos) -> Type | None:
        """The type of a field; None for a reference, whose table the value tells."""
        want = struct.annotations[name]
        want = eval(want, struct.names) if isinstance(want, str) else want
        if hasattr(want, "table") and not want.size:  # a Ref
            return None
        elem, size = want if isinstance(want, tuple) and len(want) == 2 else (want, 0)
        scalar = scalar_of(elem)
        if scalar is None:
            reject(
                f"field {name!r} of {struct.name} has no type of the language",
                pos,
                'annotate it with a dtype, (dtype, n) or Ref("table")',
            )
        return Vector(scalar, size) if size else scalar

    def _user(self, definition: Definition, args: list[Value], pos: Pos) -> ir.Expr:
        for a in args:
            if isinstance(a, ir.MakeLocal):
                reject("a local collection is passed by its name", a.pos, "assign it first")
        func = self.builder.function(definition, args, pos)
        passed = []
        # functions are built in
        taken = [a for a in flattened(args) if not isinstance(a, PythonValue)]
        for a, (name, want) in zip(taken, func.params, strict=True):
            if isinstance(a, ir.Expr):
                if isinstance(a, ir.Var) and a.name in self.claimed:
                    if (where := self.builder.alters(func, name)) is not None:
                        self.owned(a.name, where)
                passed.append(
                    a if isinstance(want, Local) else coerce(a, want, f"argument {name!r}")
                )
        call = ir.Call(func=func.name, args=tuple(passed), type=func.result, pos=pos)
        if self.builder.has_effect(func):
            return self.effect(call, shared=self.builder.writes_shared(func))
        return call
