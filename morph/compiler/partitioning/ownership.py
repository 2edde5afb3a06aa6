"""Which rows of partitioned tables belong to the part that executes a kernel.

A part of a partitioned graph has owned rows, and mirrors: copies of rows of other parts that its
edges lead to.  The item of a kernel is an owned row; the other end of an edge may be a mirror.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from typing import Any

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.layout import GLOBAL_ID
from morph.compiler.passes.effects import value_params
from morph.language.position import Pos
from morph.language.types import BOOL, I32, Handle, Scalar, Store

ENDS = ("src", "dst")
NOWHERE = Pos("", 0, 0, 0)


class Ownership:
    """Analysis of which rows that functions use are owned, and which may be mirrors.

    Attributes
    ----------
    points, edges : dict of str to GraphInfo
        The partitioned tables by slot.
    lists : dict of str to str
        The collections of their rows, and the slot of the table.
    local : set of str
        Tables whose rows differ between parts; their columns have local row numbers.
    """

    def __init__(
        self, unit: ir.Unit, graphs: Container[str], funcs: Iterable[ir.Func],
        local: Container[str] = (),
    ) -> None:  # fmt: skip
        self._made_of = unit, graphs, local
        self.local = {s.slot for s in unit.stores if s.slot in local}
        infos = [g for g in unit.graphs if g.slot in graphs]
        self.points = {dict(g.tables)["points"]: g for g in infos}
        self.edges = {dict(g.tables)["edges"]: g for g in infos}
        self.stores = {s.slot: s for s in unit.stores}
        self.lists = {
            s.slot: t.slot for s in unit.stores if (t := _item_type(s)) and t.slot in self.tables
        }
        self.funcs = {f.name: f for f in funcs}
        self.values: dict[tuple[str, str], list[Any]] = defaultdict(list)  # assigned, or loops
        for f in self.funcs.values():
            for n in ir.walk(f):
                for name in ir.bound([n]):
                    self.values[f.name, name].append(n.value if isinstance(n, ir.Assign) else n)
        self.other: set[tuple[str, str]] = set()  # (function, local) that may denote a mirror
        size = -1
        while size < len(self.other):
            size = len(self.other)
            for f in self.funcs.values():
                self.other.update(x for n in ir.walk(f) for x in self._others(n, f.name))

    def among(self, funcs: Iterable[ir.Func]) -> Ownership:
        """The same analysis for other functions."""
        unit, graphs, local = self._made_of
        return Ownership(unit, graphs, funcs, local)

    @property
    def tables(self) -> set[str]:
        """The slots of the partitioned tables."""
        return {*self.points, *self.edges}

    def _others(self, n: ir.Node, f: str) -> Iterator[tuple[str, str]]:
        """The locals to which a node assigns a row that may be a mirror."""
        match n:
            case ir.ForEdges():
                if n.var is not None:
                    yield f, n.var
                if n.direction != "out" or not self.owns(n.point, f):
                    yield f, n.edge
            case ir.ForItems() if not self.owns(n.x, f):
                yield f, n.var
            case ir.Assign() | ir.LocalAdd() | ir.SetItem() | ir.SetField():
                if not self.owns(n.value, f):
                    yield f, n.name
            case ir.Return(value=ir.Expr() as x) if not self.owns(x, f):
                yield f, ""
            case ir.Call():
                params = value_params(self.funcs[n.func])
                pairs = zip(params, n.args, strict=True)
                yield from ((n.func, name) for name, x in pairs if not self.owns(x, f))

    def owns(self, x: Any, f: str) -> bool:
        """Whether the rows that an expression of function ``f`` denotes are owned by the part."""
        match x:
            case ir.Var():
                return (f, x.name) not in self.other
            case ir.Load(place=p) if p.slot in self.lists and p.column == "item":
                return True
            case ir.Load(place=p) if p.slot in self.edges and p.column in ENDS:
                return p.column == "src" and self.owns(p.row, f)
            case ir.Load(place=p):
                return self.referred(p) is None
            case ir.Select():
                return self.owns(x.x, f) and self.owns(x.y, f)
            case ir.Item() | ir.Field():
                return self.owns(x.x, f)
            case ir.Make():
                return all(self.owns(a, f) for a in x.parts)
            case ir.Call():
                return (x.func, "") not in self.other
            case ir.Cast():
                return not self.partitioned(x.type)
        return True

    def is_local(self, x: Any) -> bool:
        """Whether the number of a row was loaded from a table of ``local``."""
        while isinstance(x, ir.Cast | ir.Item):
            x = x.x
        return isinstance(x, ir.Load) and x.place.slot in self.local

    def partitioned(self, t: Any) -> bool:
        """Whether a type is a handle of a row of a partitioned table."""
        return isinstance(t, Handle) and t.slot in self.tables

    def referred(self, p: ir.Place) -> str | None:
        """The slot of the partitioned table to which the column of a place refers, or None."""
        column = self.stores[p.slot].column(p.column)
        assert column is not None
        return column.ref if column.ref in self.tables else None

    def changed_row(self, n: Any) -> ir.Expr | None:
        """The row of a partitioned table that a node changes, or adds to a collection."""
        row: ir.Expr | None = None
        match n:
            case ir.Add() if n.slot in self.lists:
                row = next(x for name, x in n.values if name == "item")
            case ir.Lock() if n.slot in self.tables:
                row = n.row
            case _ if n.writes and n.place.slot in self.tables:
                row = n.place.row
        return row

    def remote(self, node: object, f: str) -> list[tuple[Any, ir.Expr]]:
        """The nodes of a tree that change rows that may be mirrors, and these rows."""
        found = ((n, self.changed_row(n)) for n in ir.walk(node))
        return [(n, row) for n, row in found if row is not None and not self.owns(row, f)]

    def exists(self, x: Any, f: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a row is never None: the item, a variable of a loop, or an end of an edge."""
        match x:
            case ir.Var():
                made = self.values[f, x.name] if x.name not in seen else []
                loops = (ir.ForEdges, ir.ForRows)
                item = bool(made) or x.name in seen or isinstance(self.funcs[f], ir.Kernel)
                seen |= {x.name}
                return item and all(isinstance(v, loops) or self.exists(v, f, seen) for v in made)
            case ir.Load(place=p):
                end = p.slot in self.edges and p.column in ENDS
                return p.column == "item" and p.slot in self.lists or end and self.exists(p.row, f)
        return self.is_local(x)

    def name(self, x: ir.Expr, f: str) -> ir.Expr:
        """A canonical expression of a row: equal expressions denote the same row."""
        made = self.values[f, x.name] if isinstance(x, ir.Var) else []
        if len(made) == 1 and isinstance(made[0], ir.Var | ir.Load):
            y = made[0]
            if isinstance(y, ir.Var) or (y.place.slot in self.edges and y.place.column in ENDS):
                return self.name(y, f)
        found: ir.Expr = bare(x)
        return found


def bare(node: Any) -> Any:
    """A tree without positions, so that equal code compares equal."""
    if isinstance(node, tuple):
        return tuple(map(bare, node))
    if not isinstance(node, ir.Node):
        return node
    return ir.with_parts(node, bare, pos=NOWHERE)


def widened(x: ir.Expr) -> ir.Expr:
    """The operand of casts to a wider type of the same kind."""
    while isinstance(x, ir.Cast) and isinstance(x.type, Scalar) and isinstance(x.x.type, Scalar):
        if x.type.kind != x.x.type.kind or x.type.bits < x.x.type.bits:
            break
        x = x.x
    return x


def _item_type(s: Store) -> Handle | None:
    """The type of the rows that a collection lists."""
    column = s.column("item") if s.kind == "collection" else None
    return column.elem if column is not None and isinstance(column.elem, Handle) else None


def global_id(row: ir.Expr, exists: bool) -> ir.Expr:
    """The id of a row in the whole graph; -1 for None."""
    assert isinstance(row.type, Handle)
    place = ir.Place(
        slot=row.type.slot, column=GLOBAL_ID, row=row, index=None, type=I32, pos=row.pos
    )
    load = ir.Load(place=place, type=I32, pos=row.pos)
    if exists:
        return load
    none = ir.Const(value=-1, type=row.type, pos=row.pos)
    cond = ir.Compare(op="!=", x=row, y=none, type=BOOL, pos=row.pos)
    missing = ir.Const(value=-1, type=I32, pos=row.pos)
    return ir.Select(cond=cond, x=load, y=missing, type=I32, pos=row.pos)
