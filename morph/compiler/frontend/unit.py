"""Building a unit: functions specialised to their argument types, each checked once."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from morph.compiler.frontend.reservations import SHARED, place_reserves
from morph.compiler.frontend.scope import Flow, Retype, plain, spelled
from morph.compiler.frontend.statements import Statements
from morph.compiler.frontend.values import (
    Bundle,
    ObjectValue,
    PythonValue,
    Value,
    default,
    describe,
    flattened,
    has_none,
)
from morph.compiler.ir import nodes as ir
from morph.compiler.passes.liveness import read_first
from morph.language.bundles import field_name
from morph.language.definition import Definition
from morph.language.errors import reject
from morph.language.intrinsics import scalar_of
from morph.language.position import Pos
from morph.language.types import (
    BOOL,
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

T = TypeVar("T")
F = TypeVar("F", bound=ir.Func)


class Names:
    """Globals of one module that were compiled in: one call looks at all of them.

    The call is a function of that module, since CPython caches its accesses to globals.
    """

    def __init__(self, home: dict[str, Any]) -> None:
        self.home, self.names, self.values = home, list[str](), list[Any]()
        self._same: Callable[[], bool] | None = None

    def add(self, name: str, value: Any) -> None:
        """Note one more."""
        self.names.append(name)
        self.values.append(value)
        self._same = None

    def hold(self) -> bool:
        """Whether all have their values still."""
        if self._same is None:
            given = ", ".join(f"value_{i}_=values_[{i}]" for i in range(len(self.names)))
            same = " and ".join(f"{n} is value_{i}_" for i, n in enumerate(self.names))
            self._same = eval(f"lambda {given}: {same}", self.home, {"values_": self.values})
        try:
            return self._same()
        except NameError:
            return False


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
        self.stores, self.graphs, self.find = stores, graphs, find
        self.captured: set[str] = set()  # slots of what functions found outside of themselves
        self.funcs: dict[str, ir.Func] = {}
        self.closures: dict[str, tuple[Scalar, str]] = {}  # parameters read from closures
        self.dependencies: list[Callable[[], bool]] = []  # what was compiled in, and still holds
        self.inline = False  # compile closures in: a program has no place to read them from
        self._looked_up: set[Any] = set()
        self._homes: dict[int, Names] = {}
        self._effects: dict[str, tuple[ir.Func, set[type[ir.Node]]]] = {}
        self._names: set[str] = set()
        self._done: dict[Any, ir.Func] = {}
        self._active: list[Any] = []

    # --- facts -----------------------------------------------------------------------------------

    def capture(self, obj: Any, name: str) -> Object | None:
        """Give the slot of a host object that a function captured, None if it is none."""
        found = self.find(obj, name)
        if found is not None:
            self.captured.add(found.slot)
        return found

    def item_type(self, slot: str) -> Type:
        """What a loop over a table or collection binds."""
        item = self.stores[slot].column("item")
        columns = len(self.stores[slot].columns)
        if self.stores[slot].kind == "collection" and item is not None and columns == 1:
            return item.elem
        return Handle(slot)

    def effects(self, func: ir.Func) -> set[type[ir.Node]]:
        """The kinds of effect in a function and all it calls."""
        known = self._effects.get(func.name)
        if known is not None and known[0] is func:
            return known[1]
        found: set[type[ir.Node]] = set()
        for n in ir.walk(func):
            if isinstance(n, ir.EFFECTS) or isinstance(n, ir.Write):
                found.add(type(n))
            if isinstance(n, ir.SetItem) and isinstance(dict(func.params).get(n.name), Local):
                found.add(ir.SetItem)
            if isinstance(n, ir.Call):
                found |= self.effects(self.funcs[n.func])
        self._effects[func.name] = (func, found)
        return found

    def has_effect(self, func: ir.Func) -> bool:
        """Whether a call has to stand as a statement."""
        return bool(self.effects(func)) or func.result == NOTHING or func.cpp is not None

    def writes_shared(self, func: ir.Func) -> bool:
        """Whether a call changes anything that other items can see."""
        return bool(self.effects(func) & set(SHARED)) or func.cpp is not None

    def alters(self, func: ir.Func, param: str) -> Pos | None:
        """Where a call changes the local collection that it is given as ``param``, if it does."""
        for n in ir.walk(func.body):
            match n:
                case ir.LocalAdd() | ir.LocalClear() | ir.SetItem() if n.name == param:
                    return n.pos
                case ir.Call():
                    called = self.funcs[n.func]
                    names = [p for p, t in called.params if not isinstance(t, Object)]
                    for name, a in zip(names, n.args, strict=True):
                        if isinstance(a, ir.Var) and a.name == param:
                            if (found := self.alters(called, name)) is not None:
                                return found
        return None

    def takes(self, definition: Definition) -> bool:
        """Whether a function can have numbers of its closure as further parameters."""
        return definition.kind in ("kernel", "where") and not self.inline

    def depends(
        self, again: Callable[[], Any], value: Any, key: Any = None,
        home: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Note that the unit holds only while ``again()`` gives this same value.

        What has a ``key`` is noted once: every launch looks at all of them.  ``home`` has the value
        under the name that ends the key.
        """
        if key is not None:
            if key in self._looked_up:
                return
            self._looked_up.add(key)
            if home is not None and key[1] in home:
                if id(home) not in self._homes:
                    self._homes[id(home)] = names = Names(home)
                    self.dependencies.append(names.hold)
                self._homes[id(home)].add(key[1], value)
                return
        try:
            weak = weakref.ref(value)
        except TypeError:
            self.dependencies.append(lambda: again() is value)
        else:
            self.dependencies.append(lambda: again() is weak())

    # --- functions -------------------------------------------------------------------------------

    def function(self, definition: Definition, args: list[Value], pos: Pos) -> ir.Func:
        """Specialise a function to its arguments' types."""
        want = definition.source.params
        if len(args) != len(want):
            what = f"{definition.name!r} takes {len(want)} arguments, not {len(args)}"
            reject(what, pos, f"they are {', '.join(want)}" if want else "call it with none")
        if definition.cpp is not None and any(isinstance(a, Bundle) for a in args):
            reject("a named tuple cannot be an argument of C++", pos, "pass its fields")
        for a in flattened(args):
            if not isinstance(a, ir.Expr | ObjectValue | PythonValue):
                reject(f"{describe(a)} cannot be an argument", a.pos, "pass the row; loop there")
            if isinstance(a, ir.Expr) and has_none(a.type):
                reject("None has no table here", a.pos, "pass a row, or a variable that was one")
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
        params = _params(want, args)
        if definition.cpp is not None:
            func = self._foreign(definition, params)
        else:
            name = self.unique(definition.name)
            func = checked(lambda hints: Checker(self, definition, name, params, hints).function())
        self._active.pop()
        self._done[key] = func
        self.funcs[func.name] = func
        return func

    def kernel(self, definition: Definition, item: Type, args: list[Value], pos: Pos) -> ir.Kernel:
        """Specialise a kernel; ``item`` is the type of its first parameter."""
        want = definition.source.params
        if len(args) + 1 != len(want):
            reject(
                f"{definition.name!r} takes the item and {len(want) - 1} more; "
                f"foreach gives the item and {len(args)} more",
                pos,
                "foreach(items, kernel, *args): the item comes by itself",
            )
        values: list[Value] = [ir.Var(name=spelled(want[0]), type=item, pos=pos), *args]
        key = (definition, tuple(_key(a) for a in values))
        if key in self._done:
            done = self._done[key]
            assert isinstance(done, ir.Kernel)
            return done
        params, name = _params(want, values), self.unique(definition.name)
        kernel = checked(lambda hints: Checker(self, definition, name, params, hints).kernel())
        kernel = place_reserves(kernel, self)
        self._done[key] = kernel
        self.funcs[name] = kernel
        return kernel

    def where(self, definition: Definition, item: Type) -> ir.Func:
        """Specialise a filter of one parameter that gives a bool."""
        pos = definition.source.pos(definition.source.tree)
        func = self.function(definition, [ir.Var(name="item", type=item, pos=pos)], pos)
        if self.writes_shared(func):
            reject("a filter may not change anything", func.pos, "do it in the kernel")
        if func.result != BOOL:
            reject("a filter gives a bool_", func.pos, "return the condition")
        return func

    def unique(self, name: str) -> str:
        """A name that no other function of the unit has."""
        base = spelled(name)
        n, found = 1, base
        while found in self._names:
            n += 1
            found = f"{base}_{n}"
        self._names.add(found)
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
            name=self.unique(source.name), params=typed, result=result, locals=(), body=(),  # type: ignore[arg-type]
            cpp=definition.cpp, pos=pos,
        )  # fmt: skip


def _key(v: Value) -> Any:
    if isinstance(v, ir.Expr):
        return default(v.type)
    if isinstance(v, ObjectValue):
        return v.type
    if isinstance(v, PythonValue):
        return ("python", id(v.value))
    if isinstance(v, Bundle):
        return tuple((f, _key(x)) for f, x in v.fields)
    return id(v)


def _params(names: list[str], values: list[Value]) -> dict[str, Value | Type]:
    found: dict[str, Value | Type] = {}
    for n, v in zip(names, values, strict=True):
        found |= parameter(spelled(n), v)
    return found


def parameter(name: str, v: Value) -> dict[str, Value | Type]:
    """A parameter by its name; behind a bundle, its fields, which are parameters too."""
    if isinstance(v, ir.Expr):
        return {name: default(v.type)}
    if not isinstance(v, Bundle):
        return {name: v}
    more: dict[str, Value | Type] = {}
    fields: list[tuple[str, Value]] = []
    for f, x in v.fields:
        own = field_name(name, f)
        more |= parameter(own, x)
        found = more[own]
        fields.append(
            (f, ir.Var(name=own, type=found, pos=v.pos) if isinstance(found, Type) else found)
        )
    return {name: Bundle(v.pos, tuple(fields)), **more}


def checked(check: Callable[[dict[str, Type]], T]) -> T:
    """Check, again if a ``None`` turns out to be of some table: the hints then say of which."""
    hints: dict[str, Type] = {}
    while True:
        try:
            return check(hints)
        except Retype as found:
            hints[found.name] = found.type


class Checker(Statements):
    """One function being checked."""

    def __init__(
        self,
        builder: Builder,
        definition: Definition,
        name: str,
        params: dict[str, Value | Type],
        hints: dict[str, Type],
    ) -> None:
        self.builder, self.definition, self.source = builder, definition, definition.source
        self.name, self.params = name, params
        self.is_kernel = definition.kind == "kernel"
        self.locals: dict[str, Type] = {n: p for n, p in params.items() if isinstance(p, Type)}
        self.hints, self.nones, self.kept = hints, {}, set()
        self.out = []
        self.flow = Flow(frozenset(params))
        self.loops = []
        self.edges = {}
        self.extra = {}
        self.result = None
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
            value = self.condition(self.source.tree.body)
            self.out.append(ir.Return(value=value, pos=value.pos))
            body, self.out, self.result = tuple(self.out), outer, default(value.type)
        else:
            body = self.block(self.source.tree.body)
            if self.flow is not None and self.result not in (None, NOTHING):
                reject(
                    f"{self.source.name!r} may end without a value",
                    pos,
                    f"return {self.result} on every path",
                )
        return self._finish(ir.Func, body, pos)

    def kernel(self) -> ir.Kernel:
        """Check a ``@kernel``."""
        assert isinstance(self.source.tree, ast.FunctionDef)
        first = self._own_params()
        body = (*first, *self.block(self.source.tree.body))
        return self._finish(ir.Kernel, body, self.source.pos(self.source.tree))

    def _own_params(self) -> ir.Body:
        """Make locals of the parameters that the kernel assigns, so that they last until commit."""
        assigned = {spelled(n) for n in self.assigned_somewhere}
        own = {n: p for n, p in self.params.items() if isinstance(p, Type) and n in assigned}
        self.params = {f"{n}_given_" if n in own else n: p for n, p in self.params.items()}
        self.locals = {n: p for n, p in self.locals.items() if n not in own} | own
        pos = self.source.pos(self.source.tree)
        return tuple(
            ir.Assign(name=n, value=ir.Var(name=f"{n}_given_", type=t, pos=pos), pos=pos)
            for n, t in own.items()
        )

    def _finish(self, cls: type[F], body: ir.Body, pos: Pos) -> F:
        params = {**self.params, **self.extra}
        types = tuple(
            (n, p.type if isinstance(p, ObjectValue) else p)
            for n, p in params.items()
            if isinstance(p, ObjectValue | Type)
        )
        locals_ = {n: t for n, t in self.locals.items() if n not in params}
        for n, t in locals_.items():
            if isinstance(t, Nothing):
                reject(f"{plain(n)!r} is only ever None", self.nones[n], "write None itself")
        if self.result not in (None, NOTHING) and has_none(self.result):
            what = f"a part of what {self.source.name!r} returns is only ever None"
            reject(what, pos, "return a row there on some path")
        more: dict[str, Any] = {}
        if self.is_kernel:
            used = read_first(self.commit or ()) | read_first(self.abort or ())
            given = {s.name for s in ir.walk(body) if isinstance(s, ir.Assign)} | _bound(body)
            claim = next((c for c in ir.walk(body) if isinstance(c, ir.Claim)), None)
            kept = {claim.items, claim.guard} if claim else set()
            live = tuple(n for n in locals_ if n in used & given or n in kept)
            more = {"commit": self.commit, "abort": self.abort, "live": live}
        return cls(
            name=self.name, params=types, result=self.result or NOTHING,
            locals=tuple(locals_.items()), body=body, pos=pos, **more,
        )  # fmt: skip


def _bound(body: ir.Body) -> set[str]:
    names: set[str] = set()
    for s in ir.walk(body):
        if isinstance(s, ir.ForRange | ir.ForRows | ir.ForItems):
            names.add(s.var)
        if isinstance(s, ir.ForEdges):
            names |= {s.edge, *([s.var] if s.var else [])}
    return names
