"""Statements of a ``@program``: ``foreach``, effects of one thread, swaps of collections.

A program is uniform: all threads execute the same control flow with the same scalars.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NoReturn

from morph.compiler.frontend import statements
from morph.compiler.frontend.arguments import arity
from morph.compiler.frontend.assignments import check_assign
from morph.compiler.frontend.calls import callee, is_call
from morph.compiler.frontend.context import Context, Rules
from morph.compiler.frontend.expressions import check_name
from morph.compiler.frontend.functions import (
    KERNEL,
    Params,
    check_claims,
    check_function,
    check_queue,
    fix_statics,
    make_filter,
    specialise_filter,
    specialise_kernel,
)
from morph.compiler.frontend.methods import METHODS
from morph.compiler.frontend.sections import check_with, is_foreach
from morph.compiler.frontend.values import (
    Bundle,
    ObjectValue,
    PythonValue,
    Value,
    coerce,
    default,
    describe,
    flattened,
)
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import ir_name, user_name
from morph.compiler.passes.barriers import refuse_changed_items
from morph.compiler.passes.double_buffering import Unlike, check_alike
from morph.compiler.passes.work_sharing import BALANCES, can_store_items_of
from morph.language.definition import Definition, definition_of
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import BOOL, I64, NOTHING, Column, Handle, Object, Scalar, Type, Weak

OF_ITEMS = (
    ir.Atomic, ir.Lock, ir.LockPlace, ir.Take, ir.SetFind, ir.SetUnion, ir.Prefetch,
)  # fmt: skip
Step = ir.Assign | ir.Foreach | ir.OneThread | ir.TakeFlag | ir.Clear


@dataclass(slots=True, kw_only=True)
class ProgramContext(Context):
    """The program that is checked; ``out`` has steps and statements.

    ``params`` has the current binding of each name.  With ``follow``, blocks are specialised to
    bindings, and no swap remains.
    """

    follow: bool
    declared: Params = field(default_factory=dict)  # the initial bindings of names

    def step(self, s: Step) -> None:
        """Append a step."""
        self.out.append(s)  # type: ignore[arg-type]

    def steps(self) -> tuple[Step, ...]:
        """Return the output since the last call as steps of a block."""
        done: list[Step] = []
        for s in self.out:
            if isinstance(s, ir.If):
                reject("an effect that may not happen", s.pos, "write it in an `if` statement")
            if isinstance(s, ir.Eval | ir.Write | ir.SetItem | ir.SetField):
                s = ir.OneThread(body=(s,), pos=s.pos)  # type: ignore[assignment]
            if isinstance(s, ir.OneThread) and done and isinstance(done[-1], ir.OneThread):
                done[-1] = replace(done[-1], body=(*done[-1].body, *s.body))
            else:
                assert isinstance(s, Step)
                done.append(s)
        self.out = []
        return tuple(done)

    def effect(self, x: ir.Expr, shared: bool = True) -> ir.Expr:
        """An effect outside of kernels, which one thread executes."""
        if isinstance(x, OF_ITEMS):
            hint = "a program is one: assign, or use a kernel"
            reject("this is for the items of a foreach", x.pos, hint)
        if isinstance(x, ir.Add | ir.New | ir.NewRows | ir.Delete):
            hint = "do it before the program, or in a kernel"
            reject("a program does not add or delete", x.pos, hint)
        self.out.append(ir.Eval(value=x, pos=x.pos))
        return ir.Const(value=-1, type=NOTHING, pos=x.pos)


# --- statements and methods ----------------------------------------------------------------------


def refuse_for(c: Context, node: ast.For) -> NoReturn:
    """``for``."""
    hint = "`for` is for kernels; here count with a scalar"
    reject("a program loops with `while`", c.pos(node), hint)


def check_step(c: ProgramContext, node: ast.Expr) -> None:
    """``foreach(...)``, ``barrier()``, or another expression for its effect."""
    if is_call(c, node.value, "barrier"):
        c.step(ir.OneThread(body=(), pos=c.pos(node)))
    elif is_foreach(c, node):
        assert isinstance(node.value, ast.Call)
        _foreach(c, node.value)
    else:
        statements.check_expr(c, node)


def check_rebinding(c: ProgramContext, node: ast.Assign) -> None:
    """``a, b = b, a`` for collections, or another assignment."""
    target, value = node.targets[0], node.value
    if hasattr(callee(c, value), "morph_scalars"):
        _make_scalars(c, node, value)  # type: ignore[arg-type]
        return
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=False))
    names = [ir_name(t.id) for t, _ in pairs if isinstance(t, ast.Name)]
    if not any(isinstance(c.params.get(n), ObjectValue) for n in names):
        check_assign(c, node)
        return
    objects = [c.value(v) for _, v in pairs]
    if len(node.targets) > 1 or len(names) != len(pairs):
        reject("collections are swapped by themselves", c.pos(node), "a, b = b, a")
    for name, obj in zip(names, objects, strict=True):
        _rebind(c, name, obj, c.pos(node))


def _make_scalars(c: ProgramContext, node: ast.Assign, call: ast.Call) -> None:
    """``totals = Scalars(g, total=0)``: numbers that exist until the program returns."""
    pos, target, body = c.pos(node), node.targets[0], getattr(c.source.tree, "body", [])
    before = itertools.takewhile(lambda s: s is not node, body)
    if node not in body or any(isinstance(s, ast.While | ast.If | ast.Return) for s in before):
        hint = "before all loops and branches; assign new values where they are needed"
        reject("scalars are made at the beginning of a program", pos, hint)
    uses = list(ast.walk(c.source.tree))
    names = [n.id for n in uses if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    names += [n.arg for n in uses if isinstance(n, ast.arg)]
    if len(node.targets) > 1 or not isinstance(target, ast.Name) or names.count(target.id) > 1:
        reject("scalars have one name, which stays theirs", pos, "totals = Scalars(g, total=0)")
    arity(c, call, "Scalars", 1)
    if not isinstance(c.value(call.args[0]), ObjectValue):
        reject("the first argument of Scalars is no object on a device", pos, "Scalars(g, total=0)")
    values: list[tuple[Column, ir.Expr]] = []
    for k, x in zip(call.keywords, c.exprs([k.value for k in call.keywords]), strict=True):
        t = default(x.type)
        if k.arg is None or not isinstance(t, Scalar):
            reject(f"a scalar of a program is a number, not {t}", x.pos, "total=0")
        values.append((Column(k.arg, t, 0, None, t.bits // 8), coerce(x, t, k.arg)))
    name = ir_name(target.id)
    made = c.builder.make(user_name(name), node, tuple(column for column, _ in values))
    c.params[name] = c.declared[name] = ObjectValue(pos, made)
    row = ir.Cast(x=ir.Const(value=0, type=I64, pos=pos), type=Handle(made.slot), pos=pos)
    for column, x in values:
        place = ir.Place(slot=made.slot, column=column.name, row=row, index=None, type=x.type,
                         pos=x.pos)  # fmt: skip
        c.out.append(ir.Write(place=place, value=x, pos=x.pos))


def _rebind(c: ProgramContext, name: str, obj: Value, pos: Pos) -> None:
    old = c.params.get(name)
    if not isinstance(old, ObjectValue) or not isinstance(obj, ObjectValue) or (
        obj.type.kind != old.type.kind
    ):  # fmt: skip
        kind = describe(old) if isinstance(old, ObjectValue) else "no object"
        problem = f"{user_name(name)!r} is {kind}, but the value is {describe(obj)}"
        reject(problem, pos, "swap parameters of one kind: a, b = b, a")
    if not c.follow and old.type != obj.type:
        a, b = (c.builder.stores.get(o.type.slot) for o in (old, obj))
        if a is None or b is None:
            raise Unlike
        check_alike(a, b, c.builder.captured)
    c.params[name] = obj


def _take_flag(c: Context, node: ast.Call, t: Object) -> ir.Expr:
    arity(c, node, "take", 0)
    name, pos = c.temporary(BOOL), c.pos(node)
    c.out.append(ir.TakeFlag(var=name, slot=t.slot, pos=pos))  # type: ignore[arg-type]
    return ir.Var(name=name, type=BOOL, pos=pos)


def _clear(c: Context, node: ast.Call, t: Object) -> ir.Expr:
    arity(c, node, "clear", 0)
    pos = c.pos(node)
    c.out.append(ir.Clear(slot=t.slot, pos=pos))  # type: ignore[arg-type]
    return ir.Const(value=-1, type=NOTHING, pos=pos)


def refuse_call(c: Context, definition: Definition, args: list[Value], pos: Pos) -> NoReturn:
    """A call of a ``@func``."""
    reject(
        f"{definition.name!r} is a @func, and a program calls none",
        pos,
        "call it in a kernel; a program is plain Python when it runs eagerly",
    )


PROGRAM = Rules(
    KERNEL.expressions,
    {
        **KERNEL.statements,
        ast.For: refuse_for,
        ast.Expr: check_step,
        ast.With: check_with,
        ast.Assign: check_rebinding,
    },  # fmt: skip
    {**METHODS, ("flag", "take"): _take_flag, ("collection", "clear"): _clear},
    refuse_call,
)


# --- foreach -------------------------------------------------------------------------------------


def _foreach(c: ProgramContext, call: ast.Call) -> None:
    pos, builder = c.pos(call), c.builder
    if len(call.args) < 2:
        problem = "foreach takes a table or collection, a kernel, and its arguments"
        reject(problem, pos, "foreach(g.points, kernel, g)")
    domain, start, stop = _items(c, call)
    f = c.value(call.args[1])
    if not isinstance(domain, ObjectValue) or domain.type.kind not in ("table", "collection"):
        problem = f"foreach runs over a table or collection, not {describe(domain)}"
        reject(problem, pos, "g.points, say")
    definition = definition_of(f.value) if isinstance(f, PythonValue) else None
    if definition is None or definition.kind != "kernel":
        reject(f"foreach runs a @kernel, not {describe(f)}", pos, "decorate it")
    args = fix_statics(definition, c.arguments(call.args[2:]), 1)
    for a in flattened(args):
        if isinstance(a, ir.MakeLocal):
            reject("a local collection belongs to an item", a.pos, "make it in the kernel")
    steps = [_step(c, call, domain, part, args) for part in definition.parts or (definition,)]
    kernels = [builder.funcs[s.kernel] for s in steps]
    if len(steps) > 1:
        refuse_changed_items(kernels, steps[0], builder.effects)
    reused = len(steps) > 1 or any(n.fails for n in builder.effects.nodes(kernels[0]))
    passed = _evaluated(c, steps[0].args) if reused else steps[0].args
    for s in steps:
        c.step(replace(s, args=passed, start=start, stop=stop))


def _step(
    c: ProgramContext, call: ast.Call, domain: ObjectValue, definition: Definition,
    args: list[Value],
) -> ir.Foreach:  # fmt: skip
    """The step of a ``foreach`` with a kernel, or with one part of a kernel."""
    pos, builder = c.pos(call), c.builder
    item = builder.item_type(domain.type.slot)
    kernel = specialise_kernel(builder, definition, item, args, pos)
    where_args: tuple[ir.Expr, ...] = ()
    balance, ahead, together, until_empty = "auto", None, False, False
    for k in call.keywords:
        if k.arg == "balance":
            balance = _balance(c, k.value)
        elif k.arg == "together":
            if together := _literal(c, "together", k.value):
                check_claims(kernel, definition.name, c.pos(k.value))
        elif k.arg == "until_empty":
            if until_empty := _literal(c, "until_empty", k.value):
                check_queue(builder, kernel, definition.name, domain.type, c.pos(k.value))
        elif k.arg == "ahead":
            ahead = _ahead(c, domain, k.value)
        elif k.arg == "where":
            kernel, where_args = _filtered(c, kernel, k.value, item, pos)
        else:
            hint = "it has where, balance, ahead, together and until_empty"
            reject(f"foreach has no keyword {k.arg!r}", pos, hint)
    if definition.part is not None and (ahead or until_empty):
        hint = "leave out ahead= and until_empty=True"
        reject("the items of a kernel with barrier() all run in each of its parts", pos, hint)
    if until_empty:
        if balance not in ("auto", "thread", "warp") or ahead:
            hint = 'an item runs on one thread, or with balance="warp" on a warp'
            reject("until_empty goes without ahead, and with balance thread or warp", pos, hint)
        balance = "warp" if balance == "warp" else "thread"
    if ahead:  # a separate copy of the kernel
        name = kernel.name if kernel.where else builder.unique(kernel.name)
        kernel = replace(kernel, name=name, ahead=ahead)
        builder.funcs[name] = kernel
    types = [t for _, t in kernel.params[1:] if not isinstance(t, Object)]
    numbers = [a for a in flattened(args) if isinstance(a, ir.Expr)]
    passed = tuple(coerce(a, t, "argument") for a, t in zip(numbers, types, strict=True))
    return ir.Foreach(
        slot=domain.type.slot,
        kernel=kernel.name,
        args=passed,
        where_args=where_args,
        together=together,
        balance=balance,
        until_empty=until_empty,
        pos=pos,
    )


def _items(c: ProgramContext, call: ast.Call) -> tuple[Value, ir.Expr | None, ir.Expr | None]:
    """The domain of a foreach, and the bounds of ``items[start:stop]``, evaluated first."""
    node = call.args[0]
    if not (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)):
        return c.builder.domain(c.value(node)), None, None
    if node.slice.step:
        reject("foreach runs over consecutive rows", c.pos(node), "items[start:stop]")
    if any(k.arg in ("ahead", "until_empty") for k in call.keywords):
        hint = "without ahead= and until_empty=, or take the whole collection"
        reject("a slice runs without the items that are added", c.pos(node), hint)

    def bound(x: ast.expr | None) -> ir.Expr | None:
        return c.bind(c.integer(c.expr(x), "bound")) if x is not None else None

    return c.value(node.value), bound(node.slice.lower), bound(node.slice.upper)


def _evaluated(c: Context, args: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
    """Arguments of a step in temporaries, so that re-execution and later parts reuse them."""
    return tuple(c.copy(x) if any(n.varies for n in ir.walk(x)) else x for x in args)


def _balance(c: Context, node: ast.expr) -> str:
    value = node.value if isinstance(node, ast.Constant) else None
    if value not in BALANCES:
        listed = ", ".join(f'"{choice}"' for choice in BALANCES)
        reject("balance is one of a few words", c.pos(node), f"write {listed}")
    return str(value)


def _literal(c: Context, option: str, node: ast.expr) -> bool:
    """The value of an option that is true or false."""
    value = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(value, bool):
        reject(f"{option} is True or False", c.pos(node), f"write {option}=True")
    return value


def _ahead(c: Context, domain: ObjectValue, node: ast.expr) -> tuple[str, str]:
    """The collection of asynchronous items, and the collection that stores them."""
    then, stores = c.value(node), c.builder.stores
    a = stores.get(domain.type.slot)
    b = stores.get(then.type.slot) if isinstance(then, ObjectValue) else None
    if a is None or b is None or not can_store_items_of(a, b):
        problem = f"what is added to {describe(then)} is no item like those of {describe(domain)}"
        reject(problem, c.pos(node), "ahead= takes another collection of the same rows and columns")
    return b.slot, a.slot


def _filtered(
    c: ProgramContext, kernel: ir.Kernel, node: ast.expr, item: Type, pos: Pos
) -> tuple[ir.Kernel, tuple[ir.Expr, ...]]:
    """A kernel with a filter, and the arguments that the filter takes."""
    if not isinstance(node, ast.Lambda):
        f = c.value(node)
        made = definition_of(f.value) if isinstance(f, PythonValue) else None
        if made is None or made.kind != "func":
            problem = "where is a lambda or a @func of the item"
            reject(problem, c.pos(node), "where=lambda p: p.updated")
        return _with_filter(c, kernel, specialise_filter(c.builder, made, item)), ()
    if len(node.args.args) != 1:
        reject("where is a lambda of the item", c.pos(node), "it has one parameter")
    builder, params = c.builder, {ir_name(node.args.args[0].arg): c.builder.bound_type(item)}
    inner = Context(
        builder=builder,
        definition=Definition("where", replace(c.source, tree=node)),
        rules=replace(KERNEL, expressions={**KERNEL.expressions, ast.Name: _name_in_filter(c)}),
        params=dict(params),
    )
    func = check_function(inner, builder.unique(f"{kernel.name}_where"))
    builder.funcs[func.name] = func
    passed = tuple(ir.Var(name=n, type=t, pos=pos) for n, t in inner.extra.items())
    return _with_filter(c, kernel, make_filter(builder, func, item)), passed


def _with_filter(c: Context, kernel: ir.Kernel, func: ir.Func) -> ir.Kernel:
    """A copy of a kernel that has a filter."""
    filtered = replace(kernel, name=c.builder.unique(kernel.name), where=func.name)
    c.builder.funcs[filtered.name] = filtered
    return filtered


def _name_in_filter(program: ProgramContext) -> Callable[[Context, ast.Name], Value]:
    """Names in a filter: it sees the program's objects, and its scalars as parameters."""

    def passed(c: Context, v: Value, pos: Pos) -> Value:
        if isinstance(v, Bundle):
            return replace(v, fields=tuple((f, passed(c, x, pos)) for f, x in v.fields))
        if isinstance(v, ir.Expr) and not isinstance(v.type, Scalar | Weak):
            problem = f"a filter can use the program's scalars, not {v.type}"
            reject(problem, pos, "keep what it needs in a column")
        if isinstance(v, ir.Var):
            c.extra[v.name] = v.type
            return replace(v, pos=pos)
        return v

    def check(c: Context, node: ast.Name) -> Value:
        name = ir_name(node.id)
        if name in c.params or not (name in program.params or name in program.locals):
            return check_name(c, node)
        return passed(c, check_name(program, node), c.pos(node))  # refuses unassigned names

    return check
