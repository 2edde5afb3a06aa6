"""Methods of graphs, tables, collections, sets, flags, rows and local collections."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import partial
from typing import NoReturn

from morph.compiler.frontend.arguments import arity, column_values, make_local, no_keywords
from morph.compiler.frontend.context import Context
from morph.compiler.frontend.selectors import columns_of, same_columns
from morph.compiler.frontend.values import Method, ObjectValue, Value, coerce
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import user_name
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import BOOL, NOTHING, Handle, Local, Object, Rows, Scalar, Shared, Store


def check_method(c: Context, node: ast.Call, f: Method) -> Value:
    """``receiver.name(...)``."""
    x, name, pos = f.receiver, f.name, c.pos(node)
    if isinstance(x, ir.Expr):
        no_keywords(c, node)
        if isinstance(x.type, Handle):
            arity(c, node, "delete", 0)
            return c.effect(ir.Delete(slot=x.type.slot, row=x, type=NOTHING, pos=pos))
        return _local_method(c, node, x, name)
    assert isinstance(x, ObjectValue)
    method = c.rules.methods.get((x.type.kind, name))
    if method is None:
        allowed = ", ".join(n for kind, n in METHODS if kind == x.type.kind)
        reject(f"a {x.type.kind} has no {name!r} in a kernel", pos, f"it has {allowed}")
    if name not in ("new", "new_rows", "add"):
        no_keywords(c, node)
    return method(c, node, x.type)


# --- local collections ---------------------------------------------------------------------------


def _local_method(c: Context, node: ast.Call, x: ir.Expr, name: str) -> ir.Expr:
    pos = c.pos(node)
    if not isinstance(x.type, Local) or not isinstance(x, ir.Var):
        reject(f"{x.type} has no {name!r}", pos, "it has size")
    if x.name in c.claimed and name in ("add", "clear"):
        refuse_claimed(x.name, pos)
    if isinstance(x.type, Shared):
        reject(f"a shared array has no {name!r}", pos, "it has elements, size and atomics")
    if name == "reserve":
        return _reserve(c, node, x.name, local=True)
    if name == "add":
        arity(c, node, name, 1)
        value = coerce(c.expr(node.args[0]), x.type.elem, "element")
        return c.effect(ir.LocalAdd(name=x.name, value=value, type=NOTHING, pos=pos), shared=False)
    if name not in ("pop", "clear"):
        reject(f"a local collection has no {name!r}", pos, "it has add, pop, clear, reserve, size")
    arity(c, node, name, 0)
    if name == "pop":
        return c.effect(ir.LocalPop(name=x.name, type=x.type.elem, pos=pos), shared=False)
    return c.effect(ir.LocalClear(name=x.name, type=NOTHING, pos=pos), shared=False)


def refuse_claimed(name: str, pos: Pos) -> NoReturn:
    """Refuse to change a collection whose rows the item has claimed."""
    reject(
        f"{user_name(name)!r} is owned by single and cannot change after it",
        pos,
        "collect new rows in another local collection",
    )


# --- graphs --------------------------------------------------------------------------------------


def check_edge(c: Context, node: ast.Call, g: Object, name: str = "edge") -> ir.Expr:
    """``g.edge(x, y)``; in a loop over the neighbours ``y`` of ``x``, the edge of the loop.

    An expression other than a local denotes the loop's point as long as its value is the same.
    """
    arity(c, node, f"{g.slot}.{name}", 2)
    pos, point, edges = c.pos(node), Handle(f"{g.slot}.points"), Handle(f"{g.slot}.edges")
    x, y = (coerce(v, point, "point") for v in c.exprs(node.args))
    if isinstance(node.args[1], ast.Name) and isinstance(y, ir.Var) and y.name in c.edges:
        bound = c.edges[y.name]
        if bound.graph == g.slot and ir.equal(x, bound.given):
            walked = ir.Var(name=bound.edge, type=edges, pos=pos)
            if isinstance(x, ir.Var):
                return walked
            x, start = c.bind(x), ir.Var(name=bound.point, type=point, pos=pos)
            same = ir.Compare(op="==", x=x, y=start, type=BOOL, pos=pos)
            found = ir.FindEdge(graph=g.slot, x=x, y=y, type=edges, pos=pos)
            return ir.Select(cond=same, x=walked, y=found, type=edges, pos=pos)
    return ir.FindEdge(graph=g.slot, x=x, y=y, type=edges, pos=pos)


def check_weight(c: Context, node: ast.Call, g: Object) -> ir.Expr:
    """``g.weight(x, y)``; infinity if there is no such edge."""
    edge = check_edge(c, node, g, "weight")
    store, pos = c.builder.stores[f"{g.slot}.edges"], c.pos(node)
    column = store.column("weight")
    if column is None:
        reject(f"graph {g.slot!r} has no weights", pos, "give weight= when the graph is made")
    exists = isinstance(edge, ir.Var)
    edge, t = c.bind(edge), column.elem
    place = ir.Place(slot=store.slot, column="weight", row=edge, index=None, type=t, pos=pos)
    weight = ir.Load(place=place, type=t, pos=pos)
    if exists:
        return weight
    assert isinstance(t, Scalar)
    most = float("inf") if t.kind == "f" else t.kind == "b" or 2 ** (t.bits - (t.kind == "i")) - 1
    none = ir.Const(value=-1, type=edge.type, pos=pos)
    absent = ir.Compare(op="==", x=edge, y=none, type=BOOL, pos=pos)
    infinite = ir.Const(value=most, type=t, pos=pos)
    return ir.Select(cond=absent, x=infinite, y=weight, type=t, pos=pos)


# --- tables and collections ----------------------------------------------------------------------


def check_new(c: Context, node: ast.Call, t: Object) -> ir.Expr:
    """``table.new(...)``."""
    values = column_values(c, node, c.builder.stores[t.slot])
    return c.effect(ir.New(slot=t.slot, values=values, type=Handle(t.slot), pos=c.pos(node)))


def check_new_rows(c: Context, node: ast.Call, t: Object) -> ir.Expr:
    """``table.new_rows(count)``."""
    arity(c, node, "new_rows", 1)
    count, pos = c.integer(c.expr(node.args[0]), "count"), c.pos(node)
    given = [f"{k.arg}={ast.unparse(k.value)}" for k in node.keywords]
    if given not in ([], ["fill=False"]):
        reject(f"new_rows has no {', '.join(given)}", pos, "fill=False: you write every column")
    return c.effect(
        ir.NewRows(slot=t.slot, count=count, fill=not given, type=Rows(t.slot), pos=pos)
    )


def check_reserve(c: Context, node: ast.Call, t: Object) -> ir.Expr:
    """``table.reserve(count)``, ``collection.reserve(count)``."""
    return _reserve(c, node, t.slot, local=False)


def _reserve(c: Context, node: ast.Call, name: str, local: bool) -> ir.Expr:
    arity(c, node, "reserve", 1)
    pos, count = c.pos(node), c.integer(c.expr(node.args[0]), "count")
    if not c.is_kernel:
        reject("reserve belongs in a @kernel", pos, "each item reserves before its first change")
    c.out.append(ir.Limit(slot=name, count=c.copy(count), local=local, pos=pos))
    return ir.Const(value=-1, type=NOTHING, pos=pos)


def check_local(c: Context, node: ast.Call, t: Object) -> ir.Expr:
    """``table.local(capacity)``: a local collection of rows."""
    arity(c, node, "local", 1)
    return make_local(c, node, c.builder.item_type(t.slot))


def check_add(c: Context, node: ast.Call, t: Object) -> ir.Expr:
    """``collection.add(...)``: the values of the columns, or an entry with the same columns."""
    store, pos = c.builder.stores[t.slot], c.pos(node)
    entry = _entry(c, node, store)
    values = column_values(c, node, store) if entry is None else columns_of(c, entry, pos)
    missing = [column.name for column in store.columns if column.name not in dict(values)]
    if missing:
        reject(f"{t.slot}.add lacks {', '.join(missing)}", pos, "an item has all its columns")
    return c.effect(ir.Add(slot=t.slot, values=values, type=NOTHING, pos=pos))


def _entry(c: Context, node: ast.Call, store: Store) -> ir.Expr | None:
    """The only argument, if it is an entry of a collection with the columns of ``store``."""
    if len(node.args) != 1 or node.keywords or len(store.columns) == 1:
        return None
    x = c.expr(node.args[0])
    other = c.builder.stores[x.type.slot] if isinstance(x.type, Handle) else None
    like = other is not None and other.kind == "collection" and same_columns(store, other)
    return c.bind(x) if like else None


def check_take(c: Context, node: ast.Call, t: Object) -> ir.Expr:
    """``collection.take()``."""
    arity(c, node, "take", 0)
    return c.effect(ir.Take(slot=t.slot, type=c.builder.item_type(t.slot), pos=c.pos(node)))


# --- sets and flags ------------------------------------------------------------------------------


def _elements(c: Context, node: ast.Call, t: Object, name: str, count: int) -> list[ir.Expr]:
    arity(c, node, name, count)
    table = c.builder.stores[t.slot].of
    assert table is not None
    return [coerce(x, Handle(table), "element") for x in c.exprs(node.args)]


def check_find(c: Context, node: ast.Call, t: Object) -> ir.Expr:
    """``set.find(x)``."""
    (x,) = _elements(c, node, t, "find", 1)
    return c.effect(ir.SetFind(slot=t.slot, x=x, type=x.type, pos=c.pos(node)), shared=False)


def check_union(c: Context, node: ast.Call, t: Object) -> ir.Expr:
    """``set.union(x, y)``."""
    x, y = _elements(c, node, t, "union", 2)
    return c.effect(ir.SetUnion(slot=t.slot, x=x, y=y, type=BOOL, pos=c.pos(node)))


def _set_flag(c: Context, node: ast.Call, t: Object, value: bool) -> ir.Expr:
    arity(c, node, "set" if value else "clear", 0)
    return c.effect(ir.FlagSet(slot=t.slot, value=value, type=NOTHING, pos=c.pos(node)))


METHODS: Mapping[tuple[str, str], Callable[[Context, ast.Call, Object], Value]] = {
    ("graph", "weight"): check_weight,
    ("graph", "edge"): check_edge,
    ("table", "new"): check_new,
    ("table", "new_rows"): check_new_rows,
    ("table", "reserve"): check_reserve,
    ("table", "local"): check_local,
    ("collection", "add"): check_add,
    ("collection", "new_rows"): check_new_rows,
    ("collection", "reserve"): check_reserve,
    ("collection", "take"): check_take,
    ("collection", "local"): check_local,
    ("set", "find"): check_find,
    ("set", "union"): check_union,
    ("flag", "set"): partial(_set_flag, value=True),
    ("flag", "clear"): partial(_set_flag, value=False),
}
