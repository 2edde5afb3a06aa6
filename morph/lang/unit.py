"""Building a unit: functions specialised to their argument types, each checked once."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from morph.lang import ir
from morph.lang.builtins import scalar_of, to_dtype
from morph.lang.definition import Definition
from morph.lang.errors import reject
from morph.lang.ir import Pos
from morph.lang.reserve import place_reserves
from morph.lang.scope import Flow, spelled
from morph.lang.source import Source
from morph.lang.stmt import Statements
from morph.lang.types import (
    NOTHING,
    GraphInfo,
    Handle,
    Local,
    Nothing,
    Object,
    Scalar,
    Store,
    Type,
)
from morph.lang.values import ObjectValue, PythonValue, Value, constant, default

SHARED = (
    ir.Write, ir.Atomic, ir.New, ir.NewRows, ir.Delete, ir.Add, ir.Take, ir.SetUnion, ir.Lock,
    ir.LockPlace, ir.FlagSet,
)  # fmt: skip


class Builder:
    """Collects the functions of one unit.

    Parameters
    ----------
    stores, graphs : dict
        What the compiler knows of each slot; ``capture`` may add to them.
    find : callable
        Gives the slot of a host object that a function captured, or None.
    """

    def __init__(
        self,
        stores: dict[str, Store],
        graphs: dict[str, GraphInfo],
        find: Callable[[Any, str], Object | None] = lambda obj, name: None,
    ) -> None:
        self.stores, self.graphs, self.capture = stores, graphs, find
        self.funcs: dict[str, ir.Func] = {}
        self.captured: dict[str, Scalar] = {}  # run-time scalars from closures
        self.adjacency: set[tuple[str, str]] = set()
        self.constants: list[tuple[Source, str, Any]] = []
        self._done: dict[Any, ir.Func] = {}
        self._active: list[Any] = []

    # --- facts -----------------------------------------------------------------------------------

    def item_type(self, slot: str) -> Type:
        """What a loop over a table or collection binds."""
        item = self.stores[slot].column("item")
        columns = len(self.stores[slot].columns)
        if self.stores[slot].kind == "collection" and item is not None and columns == 1:
            return item.elem
        return Handle(slot)

    def reads_adjacency(self, graph: str, direction: str) -> None:
        """Note that the unit walks the edges of a graph."""
        self.adjacency.add((graph, direction))

    def effects(self, func: ir.Func) -> set[type[ir.Node]]:
        """The kinds of effect in a function and all it calls."""
        found: set[type[ir.Node]] = set()
        for n in ir.walk(func):
            if isinstance(n, ir.EFFECTS) or isinstance(n, ir.Write):
                found.add(type(n))
            if isinstance(n, ir.Call):
                found |= self.effects(self.funcs[n.func])
        return found

    def has_effect(self, func: ir.Func) -> bool:
        """Whether a call has to stand as a statement."""
        return bool(self.effects(func)) or func.result == NOTHING or func.cpp is not None

    def writes_shared(self, func: ir.Func) -> bool:
        """Whether a call changes anything that other items can see."""
        return bool(self.effects(func) & set(SHARED)) or func.cpp is not None

    def is_runtime(self, source: Source, name: str) -> bool:
        """Whether a captured scalar is passed at each launch (closures) or compiled in (globals)."""
        return name in source.function.__code__.co_freevars

    def runtime_scalar(self, checker: Any, name: str, value: Any, pos: Pos) -> ir.Expr:
        """A scalar of an enclosing function: an extra parameter."""
        c = constant(value, pos)
        assert c is not None
        t = default(c.type)
        assert isinstance(t, Scalar)
        key = spelled(name)
        if checker.definition.kind == "func":
            return c
        self.captured[key] = t
        checker.extra[key] = t
        return ir.Var(name=key, type=t, pos=pos)

    # --- functions -------------------------------------------------------------------------------

    def function(self, definition: Definition, args: list[Value], pos: Pos) -> ir.Func:
        """Specialise a function to its arguments' types."""
        want = definition.source.params
        if len(args) != len(want):
            reject(f"{definition.name!r} takes {len(want)} arguments, not {len(args)}", pos)
        types = tuple(_key(a) for a in args)
        key = (definition, types)
        if key in self._done:
            return self._done[key]
        if key in self._active:
            reject(
                f"{definition.name!r} calls itself",
                pos,
                "recursion is outside the language: use a loop",
            )
        self._active.append(key)
        params = {
            spelled(n): (a if not isinstance(a, ir.Expr) else default(a.type))
            for n, a in zip(want, args, strict=True)
        }
        for name, p in params.items():
            if isinstance(p, Nothing):
                reject(f"argument {name!r} is None, of no known table", pos)
        if definition.cpp is not None:
            func = self._foreign(definition, params)
        else:
            func = Checker(self, definition, self._unique(definition.name), params).function()
        self._active.pop()
        self._done[key] = func
        self.funcs[func.name] = func
        return func

    def kernel(self, definition: Definition, item: Type, args: list[Value], pos: Pos) -> ir.Kernel:
        """Specialise a kernel; ``item`` is the type of its first parameter."""
        want = definition.source.params
        if len(args) + 1 != len(want):
            reject(f"{definition.name!r} takes {len(want)} parameters: the item and {len(want) - 1} more; "
                   f"foreach gives {len(args)} more", definition.source.pos(definition.source.tree))  # fmt: skip
        values: list[Value] = [ir.Var(name=spelled(want[0]), type=item, pos=pos), *args]
        key = (definition, tuple(_key(a) for a in values))
        if key in self._done:
            done = self._done[key]
            assert isinstance(done, ir.Kernel)
            return done
        params = {
            spelled(n): (a if not isinstance(a, ir.Expr) else default(a.type))
            for n, a in zip(want, values, strict=True)
        }
        name = self._unique(definition.name)
        kernel = Checker(self, definition, name, params).kernel()
        kernel = place_reserves(kernel, self)
        self._done[key] = kernel
        self.funcs[name] = kernel
        return kernel

    def where(self, definition: Definition, item: Type, pos: Pos) -> ir.Func:
        """Specialise a filter of one parameter that gives a bool."""
        func = self.function(definition, [ir.Var(name="item", type=item, pos=pos)], pos)
        if func.result != NOTHING and self.writes_shared(func):
            reject("a filter may not change anything", func.pos)
        return func

    def _unique(self, name: str) -> str:
        base = spelled(name)
        n, found = 1, base
        while found in self.funcs or any(found == getattr(k, "name", None) for k in self._active):
            n += 1
            found = f"{base}_{n}"
        return found

    def _foreign(self, definition: Definition, params: dict[str, Value | Type]) -> ir.Func:
        source = definition.source
        assert isinstance(source.tree, ast.FunctionDef)
        returns = source.function.__annotations__.get("return")
        returns = (
            eval(returns, source.function.__globals__) if isinstance(returns, str) else returns
        )
        result = NOTHING if returns is None else scalar_of(returns)
        pos = source.pos(source.tree)
        if result is None:
            reject(
                "@func(cpp=...) is annotated with the scalar type it returns", pos, "-> f64, say"
            )
        typed = tuple((n, p.type if isinstance(p, ObjectValue) else p) for n, p in params.items())
        return ir.Func(
            name=self._unique(source.name), params=typed, result=result, locals=(), body=(),  # type: ignore[arg-type]
            cpp=definition.cpp, pos=pos,
        )  # fmt: skip


def _key(v: Value) -> Any:
    if isinstance(v, ir.Expr):
        return default(v.type)
    if isinstance(v, ObjectValue):
        return v.type
    if isinstance(v, PythonValue):
        return ("python", id(v.value))
    return id(v)


class Checker(Statements):
    """One function being checked."""

    def __init__(
        self, builder: Builder, definition: Definition, name: str, params: dict[str, Value | Type]
    ) -> None:
        self.builder, self.definition, self.source = builder, definition, definition.source
        self.name, self.params = name, params
        self.is_kernel = definition.kind == "kernel"
        self.locals: dict[str, Type] = {n: p for n, p in params.items() if isinstance(p, Type)}
        self.out: list[ir.Stmt] = []
        self.flow: Flow | None = Flow(frozenset(params))
        self.loops = []
        self.edges = {}
        self.extra: dict[str, Type] = {}
        self.result: Type | None = None
        self.commit = self.abort = self.claim = None
        self.claimed = frozenset()
        tree = self.source.tree
        stored = (
            n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
        self.assigned_somewhere = frozenset(n.id for n in stored)

    def function(self) -> ir.Func:
        """Check a ``@func`` or a filter."""
        pos = self.source.pos(self.source.tree)
        if isinstance(self.source.tree, ast.Lambda):
            outer, self.out = self.out, []
            value = self.expr(self.source.tree.body)
            self.out.append(ir.Return(value=value, pos=value.pos))
            body, self.out, self.result = tuple(self.out), outer, default(value.type)
        else:
            body = self.block(self.source.tree.body)
            if self.flow is not None and self.result not in (None, NOTHING):
                reject(
                    f"{self.source.name!r} may end without a value",
                    pos,
                    f"return a {self.result} on every path",
                )
        return self._finish(ir.Func, body, pos)

    def kernel(self) -> ir.Kernel:
        """Check a ``@kernel``."""
        assert isinstance(self.source.tree, ast.FunctionDef)
        body = self.block(self.source.tree.body)
        found = self._finish(ir.Kernel, body, self.source.pos(self.source.tree))
        assert isinstance(found, ir.Kernel)
        return found

    def _finish(self, cls: type[ir.Func], body: ir.Body, pos: Pos) -> ir.Func:
        params = {**self.params, **self.extra}
        types = tuple(
            (n, p.type if isinstance(p, ObjectValue) else p)
            for n, p in params.items()
            if isinstance(p, ObjectValue | Type)
        )
        locals_ = {n: t for n, t in self.locals.items() if n not in params}
        for n, t in locals_.items():
            if isinstance(t, Nothing):
                reject(f"{n!r} is only ever None", pos)
        more: dict[str, Any] = {}
        if self.is_kernel:
            used = {x.name for x in ir.walk((self.commit, self.abort)) if isinstance(x, ir.Var)}
            used |= {
                x.name
                for x in ir.walk((self.commit, self.abort))
                if isinstance(
                    x,
                    ir.LocalAdd
                    | ir.LocalPop
                    | ir.LocalClear
                    | ir.Assign
                    | ir.SetItem
                    | ir.SetField,
                )
            }
            given = {s.name for s in ir.walk(body) if isinstance(s, ir.Assign)} | _bound(body)
            claim = next((c for c in ir.walk(body) if isinstance(c, ir.Claim)), None)
            kept = {claim.items, claim.guard} if claim else set()
            live = tuple(n for n in locals_ if n in used & given or n in kept)
            more = {"commit": self.commit, "abort": self.abort, "live": live}
        func = cls(
            name=self.name, params=types, result=self.result or NOTHING, locals=tuple(locals_.items()),
            body=body, pos=pos, **more,
        )  # fmt: skip
        return _settle_none(func, dict(locals_))


def _bound(body: ir.Body) -> set[str]:
    names: set[str] = set()
    for s in ir.walk(body):
        if isinstance(s, ir.ForRange | ir.ForRows | ir.ForItems):
            names.add(s.var)
        if isinstance(s, ir.ForEdges):
            names |= {s.edge, *([s.var] if s.var else [])}
    return names


def _settle_none(node: Any, types: dict[str, Type]) -> Any:
    """Give every ``None`` that met its table later the type it turned out to have."""
    if isinstance(node, tuple):
        return tuple(_settle_none(x, types) for x in node)
    if not isinstance(node, ir.Node) or isinstance(node, ir.Pos):
        return node
    names = [f for f in node.__dataclass_fields__ if f not in ("pos", "type")]
    new = {
        f: _settle_none(getattr(node, f), types)
        for f in names
        if isinstance(getattr(node, f), ir.Node | tuple)
    }
    new = {f: v for f, v in new.items() if v is not getattr(node, f) and v != getattr(node, f)}
    done = replace(node, **new) if new else node
    if isinstance(done, ir.Var) and isinstance(done.type, Nothing) and done.name in types:
        return replace(done, type=types[done.name])
    if isinstance(done, ir.Assign) and isinstance(done.value.type, Nothing):
        return replace(done, value=ir.Const(value=-1, type=types[done.name], pos=done.pos))
    if (
        isinstance(done, ir.Compare)
        and isinstance(done.y.type, Nothing)
        and isinstance(done.x.type, Handle)
    ):
        return replace(done, y=ir.Const(value=-1, type=done.x.type, pos=done.pos))
    return done


_ = (Local, to_dtype)
