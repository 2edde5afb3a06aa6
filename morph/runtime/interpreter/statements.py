"""Statements and functions of the IR as Python closures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, NoReturn

import numpy as np

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.sites import Kind, past_limit
from morph.language.types import Handle, Local, Object, Type
from morph.runtime.interpreter.expressions import Code, Env, Expressions
from morph.runtime.interpreter.memory import BoundStore
from morph.runtime.interpreter.values import LocalItems

VALUE = "return"  # the key of a function's result in its locals; no local has this name


class Signal(IntEnum):
    """The result of a statement that leaves its body."""

    BREAK = 1
    CONTINUE = 2
    RETURN = 3
    CLAIM = 4


class Statements(Expressions):
    """One method for each statement."""

    types: dict[str, Type]

    def body(self, body: ir.Body) -> Code:
        """Translate a sequence of statements; its result is the `Signal` that ended it, or None."""
        codes = [self.stmt(s) for s in body]
        if len(codes) == 1:
            return codes[0]

        def run(env: Env) -> Signal | None:
            for code in codes:
                signal: Signal | None = code(env)
                if signal is not None:
                    return signal
            return None

        return run

    def stmt(self, node: ir.Stmt) -> Code:
        """Translate any statement."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise TypeError(f"the interpreter does not know {type(node).__name__}")
        code: Code = method(node)
        return code

    def function(self, f: ir.Func) -> None:
        """Translate a function, which is called with the list of its arguments."""
        if f.cpp is not None:
            raise TypeError(f"{f.name!r} is @func(cpp=...): the python device cannot run it")
        names = self.parameters(f)
        body = self.body(f.body)

        def call(args: list[Any]) -> Any:
            env = dict(zip(names, args, strict=True))
            body(env)
            return env.get(VALUE)

        self.functions[f.name] = call

    def parameters(self, f: ir.Func) -> list[str]:
        """Return the names of the parameters that are values, and begin to translate ``f``."""
        self.types = dict(f.params) | dict(f.locals)
        return [n for n, t in f.params if not isinstance(t, Object)]

    # --- locals ----------------------------------------------------------------------------------

    def _assign(self, s: ir.Assign) -> Code:
        name, value = s.name, self.expr(s.value)

        def assign(env: Env) -> None:
            env[name] = value(env)

        return assign

    def _setitem(self, s: ir.SetItem) -> Code:
        name, index, value, memory = s.name, self.expr(s.index), self.expr(s.value), self.memory

        def set_item(env: Env) -> None:
            i, x, items = int(index(env)), value(env), env[name]
            if not 0 <= i < len(items):
                memory.outside(Kind.NO_INDEX, s, i, len(items), f"item {i} of {name}")
            if isinstance(items, LocalItems):
                items[i] = x
            else:
                env[name] = (*items[:i], x, *items[i + 1 :])

        return set_item

    def _setfield(self, s: ir.SetField) -> Code:
        name, i, value = s.name, s.index, self.expr(s.value)

        def set_field(env: Env) -> None:
            x, parts = value(env), env[name]
            env[name] = (*parts[:i], x, *parts[i + 1 :])

        return set_field

    def _write(self, s: ir.Write) -> Code:
        place, value = self.place(s.place, s), self.expr(s.value)

        def write(env: Env) -> None:
            x = value(env)
            array, at = place(env)
            array[at] = x

        return write

    def _eval(self, s: ir.Eval) -> Code:
        value = self.expr(s.value)

        def evaluate(env: Env) -> None:
            value(env)

        return evaluate

    # --- control ---------------------------------------------------------------------------------

    def _if(self, s: ir.If) -> Code:
        cond, then, orelse = self.expr(s.cond), self.body(s.then), self.body(s.orelse)
        return lambda env: then(env) if cond(env) else orelse(env)

    def _while(self, s: ir.While) -> Code:
        cond = self.expr(s.cond)

        def steps(env: Env) -> Iterable[Any]:
            while cond(env):
                yield

        return self._loop(s.body, steps)

    def _loop(self, body: ir.Body, steps: Callable[[Env], Iterable[Any]]) -> Code:
        """A loop; each element of ``steps`` binds the loop's variables for one iteration."""
        code = self.body(body)

        def loop(env: Env) -> Signal | None:
            for _ in steps(env):
                signal = code(env)
                if signal == Signal.BREAK:
                    break
                if signal is not None and signal != Signal.CONTINUE:
                    return signal  # type: ignore[no-any-return]
            return None

        return loop

    def _forrange(self, s: ir.ForRange) -> Code:
        start, stop, var, step = self.expr(s.start), self.expr(s.stop), s.var, s.step

        def steps(env: Env) -> Iterable[Any]:
            for i in range(int(start(env)), int(stop(env)), step):
                env[var] = np.int64(i)
                yield

        return self._loop(s.body, steps)

    def _forbits(self, s: ir.ForBits) -> Code:
        x, var = self.expr(s.x), s.var

        def steps(env: Env) -> Iterable[Any]:
            value = x(env)
            bits = int(value) & (1 << 8 * value.itemsize) - 1
            for i in range(bits.bit_length()):
                if bits >> i & 1:
                    env[var] = np.int64(i)
                    yield

        return self._loop(s.body, steps)

    def _start(self, s: ir.ForEdges | ir.ForRows | ir.ForItems) -> Callable[[Env], int]:
        if s.start is None:
            return lambda env: 0
        start = self.expr(s.start)
        return lambda env: max(int(start(env)), 0)

    def _foredges(self, s: ir.ForEdges) -> Code:
        point, start, edges = self.expr(s.point), self._start(s), self.edges
        skip = self.expr(s.skip) if s.skip is not None else None

        def steps(env: Env) -> Iterable[Any]:
            at = edges(s.graph, s.direction, point(env), s)
            first, skipped = start(env), skip(env) if skip else -1
            for edge, end, column in (at[::-1] if s.reverse else at)[first:]:
                if edge != skipped:
                    env[s.edge] = edge
                    if s.var is not None:
                        self.read_end(s, edge, column)
                        env[s.var] = end
                    yield

        return self._loop(s.body, steps)

    def _forrows(self, s: ir.ForRows) -> Code:
        store, start = self.memory.stores[s.slot], self._start(s)

        def steps(env: Env) -> Iterable[Any]:
            for row in (store.span[::-1] if s.reverse else store.span)[start(env) :]:
                if not store.is_dead(row):
                    env[s.var] = store.item_value(row)
                    yield

        return self._loop(s.body, steps)

    def _foritems(self, s: ir.ForItems) -> Code:
        x, start = self.expr(s.x), self._start(s)

        def steps(env: Env) -> Iterable[Any]:
            items, i = x(env), start(env)
            if s.reverse:
                i = len(items) - 1 - i
            while 0 <= i < len(items):  # a local collection may grow in the body
                env[s.var] = items[i]
                yield
                i += -1 if s.reverse else 1

        return self._loop(s.body, steps)

    def _break(self, s: ir.Break) -> Code:
        return lambda env: Signal.BREAK

    def _continue(self, s: ir.Continue) -> Code:
        return lambda env: Signal.CONTINUE

    def _return(self, s: ir.Return) -> Code:
        if s.value is None:
            return lambda env: Signal.RETURN
        value = self.expr(s.value)

        def return_value(env: Env) -> Signal:
            env[VALUE] = value(env)
            return Signal.RETURN

        return return_value

    # --- the item --------------------------------------------------------------------------------

    def _reserve(self, s: ir.Reserve) -> Code:
        memory = self.memory
        checks, memory.checks = memory.checks, None  # operands may not be evaluated
        needs = [
            (n.slot, self._unmade(n.slot) if n.local else None, self.expr(n.count)) for n in s.needs
        ]
        memory.checks = checks

        def reserve(env: Env) -> None:
            wanted: list[tuple[BoundStore | LocalItems, int]] = [
                (
                    memory.stores[name] if unmade is None else env.get(name, unmade),
                    max(int(count(env)), 0),
                )
                for name, unmade, count in needs
            ]
            memory.reserve(wanted)

        return reserve

    def _exceed(self, s: ir.Exceed) -> Code:
        def exceed(env: Env) -> NoReturn:
            raise past_limit(s)

        return exceed

    def _unmade(self, name: str) -> LocalItems:
        """The initial value of a local collection."""
        t = self.types[name]
        assert isinstance(t, Local)
        return LocalItems(t.capacity * self.local_scale)

    def _claim(self, s: ir.Claim) -> Code:
        memory, types = self.memory, self.types
        priority = self.expr(s.priority) if s.priority is not None else None

        def rows(env: Env, name: str | None) -> list[tuple[str, int]]:
            if name is None:
                return []
            local = types[name]
            assert isinstance(local, Local) and isinstance(local.elem, Handle)
            store = memory.stores[local.elem.slot]
            return [(store.slot, store.check(row, s, live=False)) for row in env[name] if row >= 0]

        def claim(env: Env) -> Signal:
            order = int(priority(env)) if priority else 0
            memory.item.claim = (rows(env, s.items), rows(env, s.guard), min(max(order, 0), 63))
            return Signal.CLAIM

        return claim
