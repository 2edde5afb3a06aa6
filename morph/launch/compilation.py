"""Compiles the description of a launch to a unit and its text; imported on a cache miss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from morph.compiler.codegen.unit import source as source
from morph.compiler.frontend.builder import Builder
from morph.compiler.frontend.functions import (
    check_claims,
    check_queue,
    fix_statics,
    params_of,
    specialise_filter,
    specialise_kernel,
)
from morph.compiler.frontend.program import split_into_blocks
from morph.compiler.frontend.values import (
    Bundle,
    ObjectValue,
    PythonValue,
    Value,
    constant,
    flattened,
)
from morph.compiler.ir import abi
from morph.compiler.ir import nodes as ir
from morph.compiler.passes.inlining import inline_effects
from morph.compiler.passes.outline import outline as outline
from morph.language.definition import filter_of
from morph.language.position import Pos
from morph.language.types import I32, I64, Handle, Object, Scalar
from morph.launch.binding import Description
from morph.launch.compiled import Origin, Parsed
from morph.launch.scratch import STATUS_WORDS
from morph.launch.slots import Slots


def compile_unit(description: Description, slots: Slots) -> Parsed:
    """Check a kernel or program for a description, and make its unit."""
    builder = Builder(slots.stores, slots.graphs, slots.capture, slots.reserve)
    definition = description.function.definition
    pos = definition.source.pos(definition.source.tree)
    values, scalars, origins = _arguments(description, slots, pos)
    fused = description.function.kind == "program"
    if fused:
        builder.inline = True
        params = params_of(definition, fix_statics(definition, values))
        state, blocks, permutations = split_into_blocks(builder, definition, params)
    else:
        state, permutations = (), ()
        blocks = (_step(builder, description, values, scalars, origins, pos),)
    functions = inline_effects(builder.funcs, blocks, builder.stores.values())
    reached = _reachable(functions, blocks)
    funcs = tuple(f for n, f in functions.items() if n in reached)
    needed = {n.slot for n in ir.find(funcs, ir.Need) if not n.local}
    if len(needed) > (most := STATUS_WORDS - abi.Status.STORES):
        problem = f"{definition.name!r} allocates in {len(needed)} tables and collections"
        raise ValueError(f"{problem}; one launch can in {most}: split it")
    unit = ir.Unit(
        name=f"morph_{definition.name}",
        # stores that items allocate in come first: `status` has a field for each of these
        stores=tuple(sorted(builder.stores.values(), key=lambda s: s.slot not in needed)),
        graphs=tuple(builder.graphs.values()),
        scalars=tuple(scalars.items()),
        funcs=funcs,
        state=state,
        blocks=blocks,
        fused=fused,
        permutations=permutations,
        checked=description.checked,
        single_block=description.function.single_block,
        made=tuple(builder.made.values()),
        pos=pos,
    )
    return Parsed(unit, origins, builder.dependencies)


def _arguments(
    description: Description, slots: Slots, pos: Pos
) -> tuple[list[Value], dict[str, Scalar], dict[str, Origin]]:
    """The arguments as the checker sees them; the scalars among the fields, and what these are."""
    fused = description.function.kind == "program"
    values: list[Value] = []
    scalars: dict[str, Scalar] = {}
    origins: dict[str, Origin] = {}
    for i, (kind, name) in enumerate(zip(description.kinds, description.names, strict=True)):
        key = f"{name}_arg_"  # differs from the names of all fields of stores
        if isinstance(kind, Object):
            values.append(ObjectValue(pos, kind))
        elif isinstance(kind, Handle):
            scalars[key], origins[key] = I64 if slots.stores[kind.slot].wide else I32, i
            index = ir.Var(name=name if fused else key, type=scalars[key], pos=pos)
            values.append(ir.Cast(x=index, type=kind, pos=pos))
        elif name in description.statics:
            x = constant(description.statics[name], pos)
            assert x is not None
            values.append(PythonValue(pos, x))
        elif isinstance(kind, Scalar):
            scalars[key], origins[key] = kind, i
            values.append(ir.Var(name=name if fused else key, type=kind, pos=pos))
        else:
            values.append(PythonValue(pos, kind))
    return _bundled(description.shape, values, pos), scalars, origins


def _step(
    builder: Builder, description: Description, values: list[Value],
    scalars: dict[str, Scalar], origins: dict[str, Origin], pos: Pos,
) -> ir.Block:  # fmt: skip
    """Make the block of a ``foreach``; add its numbers to ``scalars`` and ``origins``."""

    def closures(func: ir.Func, kind: str) -> tuple[ir.Expr, ...]:
        found = []
        for n, _ in func.params:
            if n in builder.closures:
                scalars[n], name = builder.closures[n]
                origins[n] = (kind, name)
                found.append(ir.Var(name=n, type=scalars[n], pos=func.pos))
        return tuple(found)

    domain = description.domain
    assert domain is not None
    item = builder.item_type(domain.slot)
    k = specialise_kernel(builder, description.function.definition, item, values, pos)
    args = tuple(v for v in flattened(values) if isinstance(v, ir.Expr)) + closures(k, "kernel")
    where_args: tuple[ir.Expr, ...] = ()
    if description.where is not None:
        test = specialise_filter(builder, filter_of(description.where), item)
        where_args = closures(test, "where")
        k = replace(k, where=test.name)
        del builder.funcs[k.name]
        builder.funcs[k.name] = k  # printed after its filter
    bounds: list[ir.Expr | None] = [None, None]
    if description.bounded:
        for i, n in enumerate(("start_of_items_", "stop_of_items_")):
            scalars[n], origins[n] = I64, len(description.kinds) + i
            bounds[i] = ir.Var(name=n, type=I64, pos=pos)
    if description.together:
        check_claims(k, description.function.__name__, pos)
    balance = description.balance
    if description.until_empty:
        balance = "warp" if balance == "warp" else "thread"
        check_queue(builder, k, description.function.__name__, domain, pos)
    step = ir.Foreach(
        slot=domain.slot, kernel=k.name, args=args, where_args=where_args,
        together=description.together, balance=balance, start=bounds[0], stop=bounds[1], pos=pos,
        # a checked launch runs one round: only items of a round can race
        until_empty=description.until_empty and not description.checked,
    )  # fmt: skip
    return ir.Block(steps=(step,), cond=None, goto=-1, pos=pos)


def _bundled(shape: tuple[Any, ...], values: list[Value], pos: Pos) -> list[Value]:
    """Group the flat values of arguments: those of a bundle's fields become one `Bundle`."""
    rest = iter(values)

    def value(x: Any) -> Value:
        if x is None:
            return next(rest)
        return Bundle(pos, tuple((f, value(y)) for f, y in zip(*x, strict=True)))

    return list(map(value, shape))


def _reachable(funcs: dict[str, ir.Func], blocks: tuple[ir.Block, ...]) -> set[str]:
    """Return the names of the functions that blocks launch or call, also through others."""
    todo = [n.kernel for n in ir.find(blocks, ir.Foreach)]
    todo += [n.func for n in ir.find(blocks, ir.Call)]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        f = funcs[name]
        todo += [n.func for n in ir.find(f, ir.Call)]
        if isinstance(f, ir.Kernel) and f.where:
            todo.append(f.where)
    return seen


def widened(unit: ir.Unit) -> ir.Unit:
    """The same unit with local collections twice as large."""
    return replace(unit, local_scale=2 * unit.local_scale)
