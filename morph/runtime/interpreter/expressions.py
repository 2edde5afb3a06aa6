"""Expressions of the IR as Python closures over an item's locals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.sites import Kind
from morph.language.types import Handle, Local, Shared, Vector
from morph.runtime.interpreter import values
from morph.runtime.interpreter.checks import Checks
from morph.runtime.interpreter.memory import BoundStore, Memory
from morph.runtime.interpreter.values import LocalItems

Env = dict[str, Any]
Code = Callable[[Env], Any]


class Expressions:
    """One method for each kind of node; a node without a method is an error."""

    def __init__(self, memory: Memory, local_scale: int) -> None:
        self.memory = memory
        self.local_scale = local_scale
        self.functions: dict[str, Callable[[list[Any]], Any]] = {}

    def expr(self, node: ir.Expr) -> Code:
        """Translate any expression."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise TypeError(f"the interpreter does not know {type(node).__name__}")
        code: Code = method(node)
        return code

    def checks_at(self, node: ir.Node) -> Checks | None:
        """The checks, if the node is one of their sites."""
        checks = self.memory.checks
        return checks if checks is not None and id(node) in checks.sites.number else None

    # --- values ----------------------------------------------------------------------------------

    def _const(self, n: ir.Const) -> Code:
        value = values.literal(n.value, n.type)
        return lambda env: value

    def _var(self, n: ir.Var) -> Code:
        name = n.name
        return lambda env: env[name]

    def _unary(self, n: ir.Unary) -> Code:
        op, x = values.UNARY[n.op], self.expr(n.x)
        return self._checked_negation(n, op, x) or (lambda env: op(x(env)))

    def _checked_negation(self, n: ir.Expr, op: values.Function, x: Code) -> Code | None:
        checks = self.checks_at(n)
        if checks is None:
            return None

        def checked(env: Env) -> Any:
            a = x(env)
            return checks.check_negation(n, a, op(a))

        return checked

    def _binary(self, n: ir.Binary) -> Code:
        op, x, y = values.BINARY[n.op], self.expr(n.x), self.expr(n.y)
        if values.is_bool(n.type) and n.op not in ("&", "|", "^"):
            raise TypeError(f"{n.op} of bool_")
        if checks := self.checks_at(n):

            def checked(env: Env) -> Any:
                a, b = x(env), y(env)
                return checks.check_result(n, a, b, op(a, b))

            return checked
        if isinstance(n.y, ir.Const):
            constant = y({})
            return lambda env: op(x(env), constant)
        return lambda env: op(x(env), y(env))

    def _compare(self, n: ir.Compare) -> Code:
        op, x, y = values.COMPARE[n.op], self.expr(n.x), self.expr(n.y)
        if isinstance(n.y, ir.Const):
            constant = y({})
            return lambda env: bool(op(x(env), constant))
        return lambda env: bool(op(x(env), y(env)))

    def _logic(self, n: ir.Logic) -> Code:
        x, y = self.expr(n.x), self.expr(n.y)
        if n.op == "and":
            return lambda env: x(env) and y(env)
        return lambda env: x(env) or y(env)

    def _select(self, n: ir.Select) -> Code:
        cond, x, y = self.expr(n.cond), self.expr(n.x), self.expr(n.y)
        return lambda env: x(env) if cond(env) else y(env)

    def _cast(self, n: ir.Cast) -> Code:
        op, x = values.cast(n.x.type, n.type), self.expr(n.x)
        if checks := self.checks_at(n):
            store = self.memory.stores[n.type.slot] if isinstance(n.type, Handle) else None

            def checked(env: Env) -> Any:
                a = x(env)
                return checks.check_cast(n, a, op(a), store.count if store else 0)

            return checked
        return lambda env: op(x(env))

    def _builtin(self, n: ir.Builtin) -> Code:
        op, args = values.BUILTIN[n.name], [self.expr(a) for a in n.args]
        if len(args) == 1:
            (x,) = args
            return self._checked_negation(n, op, x) or (lambda env: op(x(env)))
        return lambda env: op(*[a(env) for a in args])

    def _call(self, n: ir.Call) -> Code:
        function, args = self.functions[n.func], [self.expr(a) for a in n.args]
        return lambda env: function([a(env) for a in args])

    # --- parts -----------------------------------------------------------------------------------

    def _make(self, n: ir.Make) -> Code:
        parts = [self.expr(p) for p in n.parts]
        return lambda env: tuple([p(env) for p in parts])

    def _makelocal(self, n: ir.MakeLocal) -> Code:
        assert isinstance(n.type, Local)
        capacity = n.type.capacity * self.local_scale
        return lambda env: LocalItems(capacity)

    def _makeshared(self, n: ir.MakeShared) -> Code:
        assert isinstance(n.type, Shared)
        zero, size = values.literal(0, n.type.elem), n.type.capacity

        def make(env: Env) -> LocalItems:
            array = LocalItems(size)
            array.extend([zero] * size)
            return array

        return make

    def _itematomic(self, n: ir.ItemAtomic) -> Code:
        op, index, memory = values.ATOMIC[n.op], self.expr(n.index), self.memory
        args = [self.expr(x) for x in n.args]

        def change(env: Env) -> Any:
            items, i, given = env[n.name], int(index(env)), [x(env) for x in args]
            if not 0 <= i < len(items):
                memory.outside(Kind.NO_INDEX, n, i, len(items), f"item {i} of {n.name}")
            old = items[i]
            items[i] = op(old, *given)
            return old

        return change

    def _item(self, n: ir.Item) -> Code:
        x, index, memory = self.expr(n.x), self.expr(n.index), self.memory

        def item(env: Env) -> Any:
            items, i = x(env), int(index(env))
            if not 0 <= i < len(items):
                memory.outside(Kind.NO_INDEX, n, i, len(items), f"item {i}")
            return items[i]

        return item

    def _field(self, n: ir.Field) -> Code:
        x, index = self.expr(n.x), n.index
        return lambda env: x(env)[index]

    def _localsize(self, n: ir.LocalSize) -> Code:
        x = self.expr(n.x)
        return lambda env: np.int64(len(x(env)))

    def _contains(self, n: ir.Contains) -> Code:
        x, value = self.expr(n.x), self.expr(n.value)

        def contains(env: Env) -> bool:
            items, v = x(env), value(env)
            return any(bool(item == v) for item in items)

        return contains

    # --- stores ----------------------------------------------------------------------------------

    def place(self, p: ir.Place, node: ir.Node) -> Callable[[Env], tuple[Any, Any]]:
        """Code that evaluates a column's array and the index that a node accesses."""
        store, column, memory = self.memory.stores[p.slot], p.column, self.memory
        row, checks = self.expr(p.row), self.memory.checks
        index = self.expr(p.index) if p.index is not None else None
        if index is None and checks is None:
            return lambda env: (store.columns[column], store.check(row(env), node, False))

        def place(env: Env) -> tuple[Any, Any]:
            given, i = row(env), int(index(env)) if index is not None else 0
            r, array = store.check(given, node, checks is not None), store.columns[column]
            if index is not None and not 0 <= i < array.shape[1]:
                place = f"value {i} of column {column}"
                memory.outside(Kind.NO_INDEX, node, i, array.shape[1], place)
            at = r if index is None else (r, i)
            if checks is not None:
                checks.access(node, store.info, column, at)
            return array, at

        return place

    def _load(self, n: ir.Load) -> Code:
        place = self.place(n.place, n)
        if isinstance(n.type, Vector):
            elem = values.from_memory(n.type.elem)

            def load_vector(env: Env) -> Any:
                array, at = place(env)
                return tuple([elem(v) for v in array[at]])

            return load_vector
        convert = values.from_memory(n.type)

        def load(env: Env) -> Any:
            array, at = place(env)
            return convert(array[at])

        return load

    def _dead(self, n: ir.Dead) -> Code:
        store, row = self.memory.stores[n.slot], self.expr(n.row)
        return lambda env: store.is_dead(store.check(row(env), n, live=False))

    def _storesize(self, n: ir.StoreSize) -> Code:
        store = self.memory.stores[n.slot]
        return lambda env: np.int64(len(store.span))

    def _degree(self, n: ir.Degree) -> Code:
        graph, point = n.graph, self.expr(n.point)
        both = ("out", "in") if n.direction == "all" else (n.direction,)
        at = self.memory.edges_at

        def degree(env: Env) -> Any:
            p = point(env)
            return np.int64(sum(len(at(graph, d, p, n)[0]) for d in both))

        return degree

    def edges(
        self, graph: str, direction: str, point: int, node: ir.Node
    ) -> list[tuple[int, int, str]]:
        """The edges of a point in adjacency order, with the other end and its column."""
        found = []
        for d in ("out", "in") if direction == "all" else (direction,):
            entries, ids, end = self.memory.edges_at(graph, d, point, node)
            for k in entries:
                edge = k if ids is None else int(ids[k])
                found.append((edge, int(end[edge]), "dst" if d == "out" else "src"))
        return found

    def read_end(self, node: ir.FindEdge | ir.ForEdges, edge: int, column: str) -> None:
        """Record a read of the end of an edge."""
        if self.memory.checks is not None:
            store = self.memory.stores[f"{node.graph}.edges"]
            self.memory.checks.access(node, store.info, column, edge)

    def _findedge(self, n: ir.FindEdge) -> Code:
        x, y, edges = self.expr(n.x), self.expr(n.y), self.edges

        def find(env: Env) -> int:
            source, target = x(env), y(env)
            for edge, end, column in edges(n.graph, "out", source, n):
                self.read_end(n, edge, column)
                if end == target:
                    return edge
            return -1

        return find

    def _raised(self, n: ir.Raised) -> Code:
        store = self.memory.stores[n.slot]
        return lambda env: store.obj.raised

    # --- effects ---------------------------------------------------------------------------------

    def _atomic(self, n: ir.Atomic) -> Code:
        op, place = values.ATOMIC[n.op], self.place(n.place, n)
        args, convert = [self.expr(a) for a in n.args], values.from_memory(n.type)
        flag = self.memory.stores[n.flag] if n.flag else None

        def atomic(env: Env) -> Any:
            array, at = place(env)
            given = [a(env) for a in args]
            old = convert(array[at])
            new = op(old, *given)
            array[at] = new
            if flag is not None and new != old:
                flag.obj.set()
            return old

        return atomic

    def _columns(self, given: tuple[tuple[str, ir.Expr], ...]) -> Callable[[Env], list[Any]]:
        codes = [(name, self.expr(x)) for name, x in given]
        return lambda env: [(name, code(env)) for name, code in codes]

    def _new(self, n: ir.New | ir.Add) -> Code:
        memory, store, pos = self.memory, self.memory.stores[n.slot], n.pos
        columns = self._columns(n.values)

        def new(env: Env) -> int:
            given = columns(env)
            memory.spend(store, 1, pos)
            row = store.next_row()
            for name, value in given:
                store.columns[name][row] = value
            return row

        return new

    _add = _new

    def _newrows(self, n: ir.NewRows) -> Code:
        memory, store, pos = self.memory, self.memory.stores[n.slot], n.pos
        count = self.expr(n.count)

        def new_rows(env: Env) -> range:
            rows = max(int(count(env)), 0)
            memory.spend(store, rows, pos)
            return store.next_rows(rows, n.fill)

        return new_rows

    def _delete(self, n: ir.Delete) -> Code:
        store, row, memory = self.memory.stores[n.slot], self.expr(n.row), self.memory
        return lambda env: memory.delete(store, store.check(row(env), n, live=False))

    def _take(self, n: ir.Take) -> Code:
        store = self.memory.stores[n.slot]
        return lambda env: store.take()

    def _setfind(self, n: ir.SetFind) -> Code:
        store, x = self.memory.stores[n.slot], self.expr(n.x)
        members = self._members(store)
        return lambda env: int(store.obj.find(members(x(env), n)))

    def _setunion(self, n: ir.SetUnion) -> Code:
        store, x, y = self.memory.stores[n.slot], self.expr(n.x), self.expr(n.y)
        members = self._members(store)

        def union(env: Env) -> bool:
            a, b = x(env), y(env)
            return bool(store.obj.union(members(a, n), members(b, n)))

        return union

    def _members(self, store: BoundStore) -> Callable[[int, ir.Node], int]:
        """Code that evaluates the row of a set operation; checked: a row of the set's table."""
        if self.memory.checks is None or store.info.of is None:
            return lambda row, node: row
        of = self.memory.stores[store.info.of]
        return lambda row, node: of.check(row, node, live=False)

    def _lock(self, n: ir.Lock) -> Code:
        store, row = self.memory.stores[n.slot], self.expr(n.row)

        def lock(env: Env) -> bool:
            r, locks = store.check(row(env), n), store.obj.hidden("lock")
            first = not locks[r]
            locks[r] = 1
            return first

        return lock

    def _lockplace(self, n: ir.LockPlace) -> Code:
        place = self.place(n.place, n)

        def lock(env: Env) -> bool:
            array, at = place(env)
            first = bool(array[at] == 0)
            if first:
                array[at] = 1
            return first

        return lock

    def _prefetch(self, n: ir.Prefetch) -> Code:
        store, row = self.memory.stores[n.place.slot], self.expr(n.place.row)

        def check_row(env: Env) -> None:
            store.check(row(env), n, live=False)  # an invalid row is an error here, too

        return check_row

    def _flagset(self, n: ir.FlagSet) -> Code:
        store, raised = self.memory.stores[n.slot], n.value
        return lambda env: store.obj.set() if raised else store.obj.clear()

    def _localadd(self, n: ir.LocalAdd) -> Code:
        memory, name, pos, value = self.memory, n.name, n.pos, self.expr(n.value)
        return lambda env: memory.append(env[name], value(env), pos)

    def _localpop(self, n: ir.LocalPop) -> Code:
        name, memory = n.name, self.memory

        def pop(env: Env) -> Any:
            if not env[name]:
                memory.outside(Kind.NO_VALUE, n, 0, 0, f"the last value of {name}")
            return env[name].pop()

        return pop

    def _localclear(self, n: ir.LocalClear) -> Code:
        name = n.name
        return lambda env: env[name].clear()
