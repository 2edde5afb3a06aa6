"""Functions of a unit, specialised to the types of their arguments, each checked once."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from morph.compiler.frontend import branches, calls, expressions, loops, selectors, statements
from morph.compiler.frontend.assignments import check_assign, check_augassign
from morph.compiler.frontend.builder import Builder
from morph.compiler.frontend.context import Context, Rules
from morph.compiler.frontend.methods import METHODS, refuse_claimed
from morph.compiler.frontend.outside import refuse
from morph.compiler.frontend.scope import Retype
from morph.compiler.frontend.single import check_if_or_single
from morph.compiler.frontend.values import (
    Bundle,
    ObjectValue,
    PythonValue,
    Value,
    coerce,
    default,
    describe,
    flattened,
    has_none,
)
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import ir_name, user_name
from morph.compiler.passes.barriers import part_of
from morph.compiler.passes.liveness import read_first
from morph.compiler.passes.reservations import place_reservations
from morph.language.bundles import field_name, more_fields
from morph.language.definition import Definition, static_params
from morph.language.errors import reject
from morph.language.evaluation import evaluated
from morph.language.intrinsics import scalar_of
from morph.language.position import Pos
from morph.language.types import BOOL, NOTHING, Local, Nothing, Object, Type

T = TypeVar("T")
F = TypeVar("F", bound=ir.Func)
Params = dict[str, Value | Type]

EXPRESSIONS: Mapping[type[ast.AST], Callable[[Context, Any], Value]] = {
    ast.Constant: expressions.check_constant,
    ast.Name: expressions.check_name,
    ast.Tuple: expressions.check_tuple,
    ast.UnaryOp: expressions.check_unaryop,
    ast.BinOp: expressions.check_binop,
    ast.BoolOp: branches.check_boolop,
    ast.Compare: branches.check_compare,
    ast.IfExp: branches.check_ifexp,
    ast.Attribute: selectors.check_attribute,
    ast.Subscript: selectors.check_subscript,
    ast.Call: calls.check_call,
    ast.AST: refuse,
}
STATEMENTS: Mapping[type[ast.AST], Callable[[Any, Any], None]] = {
    ast.Assign: check_assign,
    ast.AugAssign: check_augassign,
    ast.If: check_if_or_single,
    ast.While: loops.check_while,
    ast.For: loops.check_for,
    ast.Break: loops.check_break,
    ast.Continue: loops.check_continue,
    ast.Return: statements.check_return,
    ast.Expr: statements.check_expr,
    ast.Pass: lambda c, node: None,
    ast.AST: refuse,
}


# --- specialisation ------------------------------------------------------------------------------


def specialise(builder: Builder, definition: Definition, args: list[Value], pos: Pos) -> ir.Func:
    """Specialise a ``@func`` to its arguments' types."""
    check_arguments(definition, args, pos)
    params = params_of(definition, args)
    if definition.cpp is not None and any(isinstance(p, Bundle) for p in params.values()):
        reject("a named tuple cannot be an argument of C++", pos, "pass its fields")
    key = (definition, tuple(_key(a) for a in args))
    if key in builder.specialised:
        return builder.specialised[key]
    if key in builder.active:
        hint = "recursion is outside the language: use a loop"
        reject(f"{definition.name!r} calls itself", pos, hint)
    builder.active.append(key)
    if definition.cpp is not None:
        func = _foreign(builder, definition, params)
    else:
        name = builder.unique(definition.name)
        func = retyped(
            lambda hints: check_function(_context(builder, definition, params, hints), name)
        )
    builder.active.pop()
    builder.specialised[key] = builder.funcs[func.name] = func
    return func


def check_arguments(definition: Definition, args: list[Value], pos: Pos) -> None:
    """Refuse arguments that a function or program cannot take."""
    names = definition.source.params
    if not definition.takes(len(args)):
        problem = f"{definition.name!r} takes {definition.number()} arguments, not {len(args)}"
        reject(problem, pos, f"they are {', '.join(names)}" if names else "call it with none")
    for a in flattened(args):
        if not isinstance(a, ir.Expr | ObjectValue | PythonValue):
            reject(f"{describe(a)} cannot be an argument", a.pos, "pass the row; loop there")
        if isinstance(a, ir.Expr) and has_none(a.type):
            reject("None has no table here", a.pos, "pass a row, or a variable that was one")


def specialise_kernel(
    builder: Builder, definition: Definition, item: Type, args: list[Value], pos: Pos
) -> ir.Kernel:
    """Specialise a kernel; ``item`` is the type of its first parameter."""
    if not definition.takes(len(args) + 1):
        reject(
            f"{definition.name!r} takes the item and {definition.number(1)} more; "
            f"foreach gives the item and {len(args)} more",
            pos,
            "foreach(items, kernel, *args): the item comes by itself",
        )
    first = ir_name(definition.source.params[0])
    bound = ir.Var(name=first, type=builder.bound_type(item), pos=pos)
    values = fix_statics(definition, [bound, *args])
    key = (definition, item, tuple(_key(a) for a in values))
    if key not in builder.specialised:
        params, name = params_of(definition, values), builder.unique(definition.name)
        checked = retyped(
            lambda hints: _check_kernel(_context(builder, definition, params, hints), name, item)
        )
        if definition.part is not None:
            count = len(definition.barriers) + 1
            checked = part_of(checked, definition.part, count, builder.effects)
        placed = place_reservations(checked, builder.stores, builder.effects)
        builder.specialised[key] = builder.funcs[name] = placed
    kernel = builder.specialised[key]
    assert isinstance(kernel, ir.Kernel)
    return kernel


def specialise_filter(builder: Builder, definition: Definition, item: Type) -> ir.Func:
    """Specialise a filter: one parameter, result bool."""
    pos = definition.source.pos(definition.source.tree)
    bound = ir.Var(name="item", type=builder.bound_type(item), pos=pos)
    func = specialise(builder, definition, fix_statics(definition, [bound]), pos)
    made = make_filter(builder, func, item)
    if func.result != BOOL:
        reject("a filter gives a bool_", func.pos, "return the condition")
    return made


def make_filter(builder: Builder, func: ir.Func, item: Type) -> ir.Func:
    """A filter of items, made of a function of items as users see them, without effects."""
    if builder.effects.writes_shared(func):
        reject("a filter may not change anything", func.pos, "do it in the kernel")
    if builder.bound_type(item) == item:
        return func
    entry = ir.Var(name="entry", type=item, pos=func.pos)
    found = ir.Var(name="found", type=BOOL, pos=func.pos)
    more = [(f"{n}_", t) for n, t in func.params[1:]]
    rest = (ir.Var(name=n, type=t, pos=func.pos) for n, t in more)
    args = (builder.bound(entry), *rest)
    call = ir.Call(func=func.name, args=args, type=BOOL, pos=func.pos)
    made = ir.Func(
        name=builder.unique(func.name), params=((entry.name, item), *more), result=BOOL,
        locals=((found.name, BOOL),), pos=func.pos,
        body=(
            ir.Assign(name=found.name, value=call, pos=func.pos),
            ir.Return(value=found, pos=func.pos),
        ),
    )  # fmt: skip
    builder.funcs[made.name] = made
    return made


def check_claims(kernel: ir.Kernel, name: str, pos: Pos) -> None:
    """Refuse ``together=True`` for a kernel that does not claim."""
    if kernel.commit is None:
        hint = "all others' items do not wait for each other: leave out together=True"
        reject(f"{user_name(name)!r} has no single(collection)", pos, hint)


def check_queue(builder: Builder, kernel: ir.Kernel, name: str, queue: Object, pos: Pos) -> None:
    """Refuse ``until_empty=True`` if the result would depend on the order of items."""
    if queue.kind != "collection":
        reject("until_empty takes a collection", pos, "tables have no items that leave them")
    for n in builder.effects.nodes(kernel):
        if isinstance(n, ir.Claim | ir.Lock):
            problem = f"{user_name(name)!r} has single, but with until_empty there are no rounds"
            reject(problem, n.pos, "use atomic_cas on a column, or single(row.column)")
        counts = n.counts or isinstance(n, ir.Take | ir.NewRows)
        if counts and n.slot == queue.slot:  # type: ignore[attr-defined]
            hint = "only add to it: its items run in any order, until none is left"
            problem = f"{user_name(name)!r} reads or takes from the queue that it runs over"
            reject(problem, n.pos, hint)


def _static_value(v: Value) -> ir.Const | None:
    """The constant passed for a static parameter."""
    return v.value if isinstance(v, PythonValue) and isinstance(v.value, ir.Const) else None


def fix_statics(definition: Definition, args: list[Value], first: int = 0) -> list[Value]:
    """Arguments of the parameters from ``first`` on; static ones become constants."""
    fixed = list(args)
    for i in static_params(definition.source.function):
        a = args[i - first] if first <= i < len(args) + first else None
        if isinstance(a, ir.Const):
            fixed[i - first] = PythonValue(a.pos, a)
        elif a is not None and not _static_value(a):
            problem = f"{definition.source.params[i]!r} is static, and this is no constant"
            reject(problem, a.pos, "a literal, a global number, or another static parameter")
    return fixed


def _foreign(builder: Builder, definition: Definition, params: Params) -> ir.Func:
    """A ``@func`` whose body is C++."""
    source = definition.source
    returns = source.function.__annotations__.get("return")
    if isinstance(returns, str):
        returns = evaluated(returns, source.function.__globals__)
    result = NOTHING if returns is None else scalar_of(returns)
    pos = source.pos(source.tree)
    if result is None:
        reject("@func(cpp=...) is annotated with the scalar type it returns", pos, "-> f64, say")
    return ir.Func(
        name=builder.unique(source.name), params=_typed(params), result=result, locals=(), body=(),
        cpp=definition.cpp, pos=pos,
    )  # fmt: skip


def _key(v: Value) -> Any:
    if isinstance(v, ir.Expr):
        return default(v.type)
    if isinstance(v, ObjectValue):
        return v.type
    if known := _static_value(v):
        return ("static", known.type, repr(known.value))
    if isinstance(v, PythonValue):
        return ("python", id(v.value))
    if isinstance(v, Bundle):
        return tuple((f, _key(x)) for f, x in v.fields)
    return id(v)


def params_of(definition: Definition, values: list[Value]) -> Params:
    """The parameters of a function by name; ``*more`` is a bundle of all further values."""
    source, found = definition.source, Params()
    count, more = len(source.params), source.more
    for n, v in zip(source.params, values[:count], strict=True):
        found |= _parameter(ir_name(n), v)
    if more:
        fields = zip(more_fields(more, len(values) - count), values[count:], strict=True)
        found |= _parameter(ir_name(more), Bundle(source.pos(source.tree), tuple(fields)))
    return found


def _parameter(name: str, v: Value) -> Params:
    """A parameter by name; a bundle is followed by its fields, which are parameters, too."""
    if isinstance(v, ir.Expr):
        return {name: default(v.type)}
    if not isinstance(v, Bundle):
        return {name: _static_value(v) or v}
    more: Params = {}
    fields: list[tuple[str, Value]] = []
    for f, x in v.fields:
        own = field_name(name, f)
        more |= _parameter(own, x)
        t = more[own]
        fields.append((f, ir.Var(name=own, type=t, pos=v.pos) if isinstance(t, Type) else t))
    return {name: replace(v, fields=tuple(fields)), **more}


def _typed(params: Params) -> tuple[tuple[str, Type], ...]:
    """The parameters that remain at run time; functions and Python objects are compiled in."""
    return tuple(
        (n, p.type if isinstance(p, ObjectValue) else p)
        for n, p in params.items()
        if isinstance(p, ObjectValue | Type)
    )


def retyped(check: Callable[[dict[str, Type]], T]) -> T:
    """Check; repeat with a type hint when the table of a ``None`` becomes known."""
    hints: dict[str, Type] = {}
    while True:
        try:
            return check(hints)
        except Retype as name:
            hints[name.name] = name.type


# --- one function --------------------------------------------------------------------------------


def call_function(c: Context, definition: Definition, args: list[Value], pos: Pos) -> ir.Expr:
    """A call of a ``@func``."""
    for a in flattened(args):
        if isinstance(a, ir.MakeLocal):
            reject("a local collection is passed by its name", a.pos, "assign it first")
    args = fix_statics(definition, args)
    func = specialise(c.builder, definition, args, pos)
    effects, passed = c.builder.effects, list[ir.Expr]()
    kept = [a for a in flattened(args) if not isinstance(a, PythonValue)]
    for a, (name, t) in zip(kept, func.params, strict=True):
        if isinstance(a, ir.Expr):
            if isinstance(a, ir.Var) and a.name in c.claimed:
                if (changed := effects.change_of(func, name)) is not None:
                    refuse_claimed(a.name, changed)
            passed.append(a if isinstance(t, Local) else coerce(a, t, f"argument {name!r}"))
    call = ir.Call(func=func.name, args=tuple(passed), type=func.result, pos=pos)
    if effects.has_effect(func):
        return c.effect(call, shared=effects.writes_shared(func))
    return call


KERNEL = Rules(EXPRESSIONS, STATEMENTS, METHODS, call_function)


def _context(
    builder: Builder, definition: Definition, params: Params, hints: dict[str, Type]
) -> Context:
    return Context(builder=builder, definition=definition, rules=KERNEL, params=params, hints=hints)


def check_function(c: Context, name: str) -> ir.Func:
    """Check a ``@func`` or a filter."""
    tree, pos = c.source.tree, c.pos(c.source.tree)
    if isinstance(tree, ast.Lambda):
        with c.collect() as body:
            value = branches.condition(c, tree.body)
        c.result = default(value.type)
        return _finish(c, ir.Func, name, (*body, ir.Return(value=value, pos=value.pos)))
    done = statements.check_block(c, tree.body)
    if c.flow is not None and c.result not in (None, NOTHING):
        problem = f"{c.source.name!r} may end without a value"
        reject(problem, pos, f"return {c.result} on every path")
    return _finish(c, ir.Func, name, done)


def _check_kernel(c: Context, name: str, item: Type) -> ir.Kernel:
    tree = c.source.tree
    assert isinstance(tree, ast.FunctionDef)
    first = _own_params(c, item)
    body = (*first, *statements.check_block(c, tree.body))
    given = ir.bound(ir.walk(body))
    used = read_first(c.commit or ()) | read_first(c.abort or ())
    claim = next(iter(ir.find(body, ir.Claim)), None)
    kept = {claim.items, claim.guard} if claim else set()
    live = tuple(n for n in c.locals if n not in c.params and (n in used & given or n in kept))
    return _finish(c, ir.Kernel, name, body, commit=c.commit, abort=c.abort, live=live)


def _own_params(c: Context, item: Type) -> ir.Body:
    """Make locals of the parameters that the kernel assigns, so that they are live until commit.

    Also for an item that is a number: a step passes the entry of the collection.
    """
    assigned, first = {ir_name(n) for n in c.stored}, next(iter(c.params))
    if c.params[first] != item:
        assigned.add(first)
    own = {n: p for n, p in c.params.items() if isinstance(p, Type) and n in assigned}
    given = own | ({first: item} if first in own else {})
    c.params = {f"{n}_given_" if n in own else n: given.get(n, p) for n, p in c.params.items()}
    c.locals = {n: p for n, p in c.locals.items() if n not in own} | own
    pos = c.pos(c.source.tree)
    values = {n: ir.Var(name=f"{n}_given_", type=t, pos=pos) for n, t in given.items()}
    return tuple(ir.Assign(name=n, value=c.builder.bound(x), pos=pos) for n, x in values.items())


def _finish(c: Context, cls: type[F], name: str, body: ir.Body, **more: Any) -> F:
    """Make the function after its body is checked."""
    params, pos = {**c.params, **c.extra}, c.pos(c.source.tree)
    locals_ = {n: t for n, t in c.locals.items() if n not in params}
    for n, t in locals_.items():
        if isinstance(t, Nothing):
            reject(f"{user_name(n)!r} is only ever None", c.nones[n], "write None itself")
    if c.result not in (None, NOTHING) and has_none(c.result):
        problem = f"a part of what {c.source.name!r} returns is only ever None"
        reject(problem, pos, "return a row there on some path")
    return cls(
        name=name, params=_typed(params), result=c.result or NOTHING,
        locals=tuple(locals_.items()), body=body, pos=pos, **more,
    )  # fmt: skip
