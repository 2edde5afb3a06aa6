"""Inlining of functions with effects into the loops that call them.

Work sharing and other passes then analyse the effects of a function, which may update the target
of an edge, as a part of the loop.  Only kernels whose loop can then be shared, and kernels with
shared arrays, are changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from morph.compiler.ir import nodes as ir
from morph.compiler.passes.effects import Effects, value_params
from morph.compiler.passes.group_execution import shares_arrays
from morph.compiler.passes.work_sharing import allows_shared_loop, shared_loop
from morph.language.types import Object, Store, Type


def inline_effects(
    funcs: Mapping[str, ir.Func], blocks: tuple[ir.Block, ...], stores: Iterable[Store]
) -> dict[str, ir.Func]:
    """The functions of a unit, with calls inlined where threads can then share a kernel's loops."""
    tables, found = {s.slot for s in stores if s.kind == "table"}, dict(funcs)
    steps = [s for s in ir.find(blocks, ir.Foreach) if allows_shared_loop(s)]
    for name in {s.kernel for s in steps}:
        kernel = funcs[name]
        assert isinstance(kernel, ir.Kernel)
        if shares_arrays(kernel):
            found[name] = _Inliner(funcs, kernel).kernel()
        elif shared_loop(kernel, funcs, tables) is None:
            inliner = _Inliner(funcs, kernel)
            made = inliner.kernel()
            if inliner.calls and shared_loop(made, funcs, tables) is not None:
                found[name] = made
    return found


def inline_all(kernel: ir.Kernel, funcs: Mapping[str, ir.Func]) -> ir.Kernel:
    """The kernel without reservations, with inlined calls.

    All calls that are statements are inlined, and all calls of functions that consist of a return.
    """

    def value(n: ir.Node) -> ir.Expr | None:
        func = funcs[n.func] if isinstance(n, ir.Call) else None
        if func is None or func.cpp is not None or effects.has_effect(func):
            return None
        match func.body:
            case (ir.Return(value=ir.Expr() as x),) if not ir.bound(ir.walk(x)):
                pairs = zip(value_params(func), n.args, strict=True)  # type: ignore[attr-defined]
                names = {param: a.name for param, a in pairs if isinstance(a, ir.Var)}
                known = len(names) == len(n.args)  # type: ignore[attr-defined]
                return ir.rewritten(ir.renamed(x, names), value) if known else None
        return None

    effects, made = Effects(funcs), _Inliner(funcs, kernel, allocating=True).kernel(loop=True)
    return replace(made, body=ir.rewritten(made.body, value))


class _Inliner:
    """Inlines calls in one kernel, and collects the additional locals."""

    def __init__(
        self, funcs: Mapping[str, ir.Func], kernel: ir.Kernel, allocating: bool = False
    ) -> None:
        self.funcs, self.effects, self.old = funcs, Effects(funcs), kernel
        self.allocating = allocating  # whether to inline calls that allocate
        self.locals: dict[str, Type] = dict(kernel.locals)
        self.calls = 0

    def kernel(self, loop: bool = False) -> ir.Kernel:
        """The kernel with calls of functions with effects inlined in its loops, where possible."""
        body = self.body(self.old.body, loop)
        return replace(self.old, body=body, locals=tuple(self.locals.items()))

    def body(self, body: ir.Body, loop: bool) -> ir.Body:
        """Statements with calls inlined; ``loop``: they are in a loop."""
        done: list[ir.Stmt] = []
        for s in body:
            made = self._called(s) if loop else None
            if made is None:
                inner = loop or isinstance(s, ir.ForEdges | ir.ForRows)
                s = ir.rewrite_bodies(s, partial(self.body, loop=inner))
            done += (s,) if made is None else made
        return tuple(done)

    def _called(self, s: ir.Stmt) -> ir.Body | None:
        """The inlined body of a call of a function with effects; None for other statements."""
        call = s.value if isinstance(s, ir.Assign | ir.Eval) else None
        func = self.funcs[call.func] if isinstance(call, ir.Call) else None
        if func is None or func.cpp is not None or not self.effects.has_effect(func):
            return None
        if not self.allocating and any(n.allocates for n in self.effects.nodes(func)):
            return None
        assert isinstance(call, ir.Call)
        names, given = self._named(func, call)
        result = s.name if isinstance(s, ir.Assign) else None
        body = _without_returns(ir.renamed(func.body, names), result)
        return None if body is None else self.body((*given, *body), True)

    def _named(self, func: ir.Func, call: ir.Call) -> tuple[dict[str, str], list[ir.Stmt]]:
        """New names of parameters and locals, and the assignments of arguments that need one."""
        self.calls += 1
        nodes = list(ir.walk(func.body))
        sets = {n.name for n in nodes if isinstance(n, ir.SetItem | ir.SetField)}
        changed = ir.bound(nodes) | sets
        types = {n: t for n, t in (*func.params, *func.locals) if not isinstance(t, Object)}
        while f"{next(iter(types), '')}_{func.name}{self.calls}_" in self.locals:
            self.calls += 1  # so that names differ from those of an earlier call
        names, given = {n: f"{n}_{func.name}{self.calls}_" for n in types}, list[ir.Stmt]()
        for param, x in zip(value_params(func), call.args, strict=True):
            if isinstance(x, ir.Var) and param not in changed:
                names[param] = x.name
                del types[param]
            else:
                given.append(ir.Assign(name=names[param], value=x, pos=call.pos))
        self.locals |= {names[n]: t for n, t in types.items()}
        return names, given


def _without_returns(body: ir.Body, result: str | None) -> ir.Body | None:
    """Statements in which a value is assigned where it was returned; None if that is impossible."""
    done: list[ir.Stmt] = []
    for i, s in enumerate(body):
        rest = body[i + 1 :]
        if isinstance(s, ir.Return):
            if s.value is not None and result is not None:
                done.append(ir.Assign(name=result, value=s.value, pos=s.pos))
            return tuple(done)
        if any(isinstance(n, ir.Return) for n in ir.walk(s)):
            if not isinstance(s, ir.If):
                return None
            ends = [_returns(s.then), _returns(s.orelse)]
            if rest and not any(ends):
                return None
            then = _without_returns((*s.then, *(() if ends[0] else rest)), result)
            orelse = _without_returns((*s.orelse, *(() if ends[1] else rest)), result)
            if then is None or orelse is None:
                return None
            return (*done, replace(s, then=then, orelse=orelse))
        done.append(s)
    return tuple(done)


def _returns(body: ir.Body) -> bool:
    """Whether every path through statements ends in a return."""
    last = body[-1] if body else None
    return isinstance(last, ir.Return) or (
        isinstance(last, ir.If) and _returns(last.then) and _returns(last.orelse)
    )
