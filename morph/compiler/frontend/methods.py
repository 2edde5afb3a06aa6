"""Checking what changes something: atomics, and the methods of objects, rows and locals."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from morph.compiler.frontend.scope import plain
from morph.compiler.frontend.selectors import Parts
from morph.compiler.frontend.values import Method, ObjectValue, PythonValue, Value, coerce, describe
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.intrinsics import scalar_of
from morph.language.position import Pos
from morph.language.types import (
    BOOL,
    NOTHING,
    Handle,
    Local,
    Object,
    Rows,
    Scalar,
    Store,
    Type,
    Vector,
)


class Methods(Parts):
    """The part of the checker that types atomics and methods."""

    def _no_keywords(self, node: ast.Call) -> None:
        if node.keywords:
            reject("keyword arguments do not go here", self.pos(node), "write the values in order")

    def _arity(self, node: ast.Call, least: int, most: int, name: str) -> None:
        if not least <= len(node.args) <= most:
            want = str(least) if least == most else f"{least} to {most}"
            plural = "argument" if want == "1" else "arguments"
            what = f"{name} takes {want} {plural}, not {len(node.args)}"
            reject(what, self.pos(node), "the reference lists every function")

    def _constant_int(self, node: ast.expr, what: str) -> int:
        n = self.expr(node)
        if not (isinstance(n, ir.Const) and isinstance(n.value, int) and n.value > 0):
            hint = "a number, or a global that is one"
            reject(f"{what} must be a positive constant", self.pos(node), hint)
        return n.value

    def _local(self, node: ast.Call, pos: Pos, elem: Type | None = None) -> ir.Expr:
        if elem is None:
            self._arity(node, 2, 2, "local")
            t = self.value(node.args[0])
            elem = scalar_of(t.value) if isinstance(t, PythonValue) else None
            if elem is None:
                reject("local takes a dtype and a capacity", pos, "rows: g.points.local(capacity)")
        else:
            self._arity(node, 1, 1, "local")
        return ir.MakeLocal(
            type=Local(elem, self._constant_int(node.args[-1], "capacity")), pos=pos
        )

    def place(self, node: ast.expr, what: str) -> ir.Place:
        """A column place: ``row.column`` or ``row.column[i]``."""
        x = self.value(node)
        if not isinstance(x, ir.Load):
            reject(f"{what} needs a place in a column", self.pos(node), "as in t.dist or t.node[i]")
        if isinstance(x.type, Vector):
            reject(
                f"{what} needs one value of the vector column {x.place.column!r}",
                self.pos(node),
                f"{x.place.column}[i]",
            )
        return x.place

    def _prefetch(self, node: ast.Call, pos: Pos) -> ir.Expr:
        self._arity(node, 1, 1, "prefetch")
        x = self.value(node.args[0])
        if not isinstance(x, ir.Load):
            reject("prefetch needs a place in a column", pos, "prefetch(p.weight)")
        return self.effect(ir.Prefetch(place=x.place, type=NOTHING, pos=pos), shared=False)

    def _atomic(self, node: ast.Call, op: str, pos: Pos) -> ir.Expr:
        name, count = f"atomic_{op}", 3 if op == "cas" else 2
        keywords = {k.arg: k.value for k in node.keywords}
        changed = keywords.pop("changed", None)
        if keywords:
            reject(f"{name} has no keyword {next(iter(keywords))!r}", pos, "it has changed")
        self._arity(node, count, count + (changed is None), name)
        place = self.place(node.args[0], name)
        place = ir.Place(
            slot=place.slot, column=place.column, row=self.bind(place.row),
            index=self.bind(place.index) if place.index else None, type=place.type, pos=place.pos,
        )  # fmt: skip
        elem = place.type
        if isinstance(elem, Handle) and op not in ("cas", "exch", "min", "max"):
            reject(f"{name} does not apply to a reference", pos, "use atomic_cas or atomic_exch")
        args = [coerce(x, elem, f"column {place.column!r}") for x in self.exprs(node.args[1:count])]
        if op in ("and", "or", "xor") and isinstance(elem, Scalar) and elem.kind == "f":
            reject(f"{name} applies to integers and bool_, not to {elem}", pos, "use atomic_cas")
        if elem == BOOL and op in ("add", "sub"):
            reject(f"{name} does not apply to bool_", pos, "use atomic_or")
        if len(node.args) > count:
            changed = node.args[count]
        flag = self._flag(changed) if changed is not None else None
        return self.effect(
            ir.Atomic(op=op, place=place, args=tuple(args), flag=flag, type=elem, pos=pos)
        )

    def _flag(self, node: ast.expr) -> str:
        f = self.value(node)
        if isinstance(f, ObjectValue) and f.type.kind == "flag":
            return f.type.slot
        reject(f"changed is a Flag, not {describe(f)}", self.pos(node), "pass a Flag to the kernel")

    def _method(self, node: ast.Call, f: Method, pos: Pos) -> Value:
        x, name = f.receiver, f.name
        if isinstance(x, ir.Expr):
            if isinstance(x.type, Handle):
                self._arity(node, 0, 0, "delete")
                return self.effect(ir.Delete(slot=x.type.slot, row=x, type=NOTHING, pos=pos))
            return self._local_method(node, x, name, pos)
        assert isinstance(x, ObjectValue)
        kinds: dict[str, dict[str, Any]] = {
            "graph": {"weight": self._edge, "edge": self._edge},
            "table": {"new": self._new_row, "new_rows": self._new_rows, "local": self._row_local},
            "collection": {
                "add": self._add,
                "new_rows": self._new_rows,
                "take": self._take,
                "local": self._row_local,
            },
            "set": {"find": self._find_or_union, "union": self._find_or_union},
            "flag": {"set": self._raise, "clear": self._raise},
        }
        method = kinds[x.type.kind].get(name)
        if method is None:
            allowed = ", ".join(kinds[x.type.kind])
            reject(f"a {x.type.kind} has no {name!r} in a kernel", pos, f"it has {allowed}")
        if name not in ("new", "new_rows", "add"):
            self._no_keywords(node)
        result: Value = method(node, x.type, name, pos)
        return result

    def _local_method(self, node: ast.Call, x: ir.Expr, name: str, pos: Pos) -> ir.Expr:
        if not isinstance(x.type, Local) or not isinstance(x, ir.Var):
            reject(f"{x.type} has no {name!r}", pos, "it has size")
        if x.name in self.claimed and name in ("add", "clear"):
            self.owned(x.name, pos)
        if name == "add":
            self._arity(node, 1, 1, name)
            value = coerce(self.expr(node.args[0]), x.type.elem, "element")
            return self.effect(
                ir.LocalAdd(name=x.name, value=value, type=NOTHING, pos=pos), shared=False
            )
        if name not in ("pop", "clear"):
            reject(f"a local collection has no {name!r}", pos, "it has add, pop, clear, size")
        self._arity(node, 0, 0, name)
        if name == "pop":
            return self.effect(ir.LocalPop(name=x.name, type=x.type.elem, pos=pos), shared=False)
        return self.effect(ir.LocalClear(name=x.name, type=NOTHING, pos=pos), shared=False)

    claimed: frozenset[str]

    def owned(self, name: str, pos: Pos) -> NoReturn:
        """Refuse to change what an item has claimed."""
        reject(
            f"{plain(name)!r} is owned by single and cannot change after it",
            pos,
            "collect new rows in another local collection",
        )

    def _edge(self, node: ast.Call, g: Object, name: str, pos: Pos) -> ir.Expr:
        self._arity(node, 2, 2, f"{g.slot}.{name}")
        point = Handle(f"{g.slot}.points")
        nodes = node.args
        x, y = (coerce(v, point, "point") for v in self.exprs(nodes))
        edge: ir.Expr | None = None
        if isinstance(nodes[1], ast.Name) and isinstance(y, ir.Var) and y.name in self.edges:
            graph, source, companion = self.edges[y.name]
            if graph == g.slot and isinstance(x, ir.Var) and x.name == source:
                edge = ir.Var(name=companion, type=Handle(f"{g.slot}.edges"), pos=pos)
        if edge is None:
            edge = ir.FindEdge(graph=g.slot, x=x, y=y, type=Handle(f"{g.slot}.edges"), pos=pos)
        if name == "edge":
            return edge
        store = self.builder.stores[f"{g.slot}.edges"]
        column = store.column("weight")
        if column is None:
            reject(f"graph {g.slot!r} has no weights", pos, "give weight= when the graph is made")
        found = isinstance(edge, ir.Var)
        edge = self.bind(edge)
        place = ir.Place(
            slot=store.slot, column="weight", row=edge, index=None, type=column.elem, pos=pos
        )
        weight = ir.Load(place=place, type=column.elem, pos=pos)
        return weight if found else self._or_infinite(weight, edge, pos)

    def _or_infinite(self, weight: ir.Load, edge: ir.Expr, pos: Pos) -> ir.Expr:
        """The weight of an edge that may not be there: no edge is infinitely long."""
        t = weight.type
        assert isinstance(t, Scalar)
        most = (
            float("inf") if t.kind == "f" else t.kind == "b" or 2 ** (t.bits - (t.kind == "i")) - 1
        )
        none = ir.Const(value=-1, type=edge.type, pos=pos)
        absent = ir.Compare(op="==", x=edge, y=none, type=BOOL, pos=pos)
        infinite = ir.Const(value=most, type=t, pos=pos)
        return ir.Select(cond=absent, x=infinite, y=weight, type=t, pos=pos)

    def _values(
        self, node: ast.Call, store: Store, skip: str | None = None
    ) -> tuple[tuple[str, ir.Expr], ...]:
        names = [c.name for c in store.columns if c.name != skip]
        if len(node.args) > len(names):
            what = f"{store.slot} has {len(names)} columns, not {len(node.args)}"
            reject(what, self.pos(node), ", ".join(names))
        given = dict(zip(names, node.args, strict=False))
        for k in node.keywords:
            if k.arg in given or k.arg not in names:
                what = "given twice" if k.arg in given else "unknown"
                reject(
                    f"column {k.arg!r} is {what}",
                    self.pos(node),
                    f"{store.slot} has {', '.join(names)}",
                )
            given[str(k.arg)] = k.value
        values = []
        for name, x in zip(given, self.exprs(list(given.values())), strict=True):
            c = store.column(name)
            assert c is not None
            want: Type = Vector(c.elem, c.size) if c.size else c.elem
            values.append((name, coerce(x, want, f"column {name!r}")))
        return tuple(values)

    def _new_row(self, node: ast.Call, t: Object, name: str, pos: Pos) -> ir.Expr:
        values = self._values(node, self.builder.stores[t.slot])
        return self.effect(ir.New(slot=t.slot, values=values, type=Handle(t.slot), pos=pos))

    def _new_rows(self, node: ast.Call, t: Object, name: str, pos: Pos) -> ir.Expr:
        self._arity(node, 1, 1, name)
        count = self.integer(self.expr(node.args[0]), "count")
        given = [f"{k.arg}={ast.unparse(k.value)}" for k in node.keywords]
        if given not in ([], ["fill=False"]):
            reject(f"new_rows has no {', '.join(given)}", pos, "fill=False: you write every column")
        fill = not given
        rows = ir.NewRows(slot=t.slot, count=count, fill=fill, type=Rows(t.slot), pos=pos)
        return self.effect(rows)

    def _row_local(self, node: ast.Call, t: Object, name: str, pos: Pos) -> ir.Expr:
        self._no_keywords(node)
        return self._local(node, pos, self.builder.item_type(t.slot))

    def _add(self, node: ast.Call, t: Object, name: str, pos: Pos) -> ir.Expr:
        store = self.builder.stores[t.slot]
        values = self._values(node, store)
        missing = [c.name for c in store.columns if c.name not in dict(values)]
        if missing:
            reject(f"{t.slot}.add lacks {', '.join(missing)}", pos, "an item has all its columns")
        return self.effect(ir.Add(slot=t.slot, values=values, type=NOTHING, pos=pos))

    def _take(self, node: ast.Call, t: Object, name: str, pos: Pos) -> ir.Expr:
        self._arity(node, 0, 0, name)
        return self.effect(ir.Take(slot=t.slot, type=self.builder.item_type(t.slot), pos=pos))

    def _find_or_union(self, node: ast.Call, t: Object, name: str, pos: Pos) -> ir.Expr:
        self._arity(node, *((1, 1) if name == "find" else (2, 2)), name)
        of = self.builder.stores[t.slot].of
        assert of is not None
        args = [coerce(x, Handle(of), "element") for x in self.exprs(node.args)]
        if name == "find":
            return self.effect(
                ir.SetFind(slot=t.slot, x=args[0], type=Handle(of), pos=pos), shared=False
            )
        return self.effect(ir.SetUnion(slot=t.slot, x=args[0], y=args[1], type=BOOL, pos=pos))

    def _raise(self, node: ast.Call, t: Object, name: str, pos: Pos) -> ir.Expr:
        self._arity(node, 0, 0, name)
        return self.effect(ir.FlagSet(slot=t.slot, value=name == "set", type=NOTHING, pos=pos))
