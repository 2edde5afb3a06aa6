"""Small units of IR built by hand, and a launcher that grows stores and re-executes items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.abi import Status
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import NAMES
from morph.language.types import (
    BOOL,
    I64,
    NOTHING,
    SCALARS,
    Column,
    GraphInfo,
    Handle,
    Scalar,
    Store,
    Type,
)
from morph.runtime.interpreter import launch as interpreter

POS = ir.Pos("kernel.py", 7, 0, 1)
T = Handle("t")


def const(value: Any, t: Type = I64) -> ir.Expr:
    return ir.Const(value=value, type=t, pos=POS)


def var(name: str, t: Type = T) -> ir.Var:
    return ir.Var(name=name, type=t, pos=POS)


def binary(op: str, x: ir.Expr, y: ir.Expr) -> ir.Expr:
    return ir.Binary(op=op, x=x, y=y, type=x.type, pos=POS)


def compare(op: str, x: ir.Expr, y: ir.Expr) -> ir.Expr:
    return ir.Compare(op=op, x=x, y=y, type=BOOL, pos=POS)


def place(row: ir.Expr, column: str, t: Type = I64, index: ir.Expr | None = None) -> ir.Place:
    assert isinstance(row.type, Handle)
    return ir.Place(slot=row.type.slot, column=column, row=row, index=index, type=t, pos=POS)


def load(row: ir.Expr, column: str, t: Type = I64, index: ir.Expr | None = None) -> ir.Expr:
    return ir.Load(place=place(row, column, t, index), type=t, pos=POS)


def write(row: ir.Expr, column: str, value: ir.Expr, index: ir.Expr | None = None) -> ir.Stmt:
    return ir.Write(place=place(row, column, value.type, index), value=value, pos=POS)


def assign(name: str, value: ir.Expr) -> ir.Stmt:
    return ir.Assign(name=name, value=value, pos=POS)


def run_it(value: ir.Expr) -> ir.Stmt:
    return ir.Eval(value=value, pos=POS)


def put(name: str, x: ir.Expr) -> ir.Stmt:
    return run_it(ir.LocalAdd(name=name, value=x, type=NOTHING, pos=POS))


def if_(cond: ir.Expr, *then: ir.Stmt, orelse: Sequence[ir.Stmt] = ()) -> ir.Stmt:
    return ir.If(cond=cond, then=then, orelse=tuple(orelse), pos=POS)


def identity(row: ir.Expr) -> ir.Expr:
    return ir.Cast(x=row, type=I64, pos=POS)


def row_of(x: ir.Expr, slot: str = "t") -> ir.Expr:
    return ir.Cast(x=x, type=Handle(slot), pos=POS)


def accumulate(row: ir.Expr, column: str, x: ir.Expr, flag: str | None = None) -> ir.Stmt:
    to = place(row, column, x.type)
    return run_it(ir.Atomic(op="add", place=to, args=(x,), flag=flag, type=x.type, pos=POS))


def reserve(**counts: int) -> ir.Stmt:
    needs = tuple(ir.Need(slot=s, count=const(n), pos=POS) for s, n in counts.items())
    return ir.Reserve(needs=needs, pos=POS)


def new(**values: ir.Expr) -> ir.Expr:
    return ir.New(slot="t", values=tuple(values.items()), type=T, pos=POS)


def loop(kind: Any, *body: ir.Stmt, **fields: Any) -> ir.Stmt:
    if kind is not ir.ForRange:
        fields = {"start": None, "reverse": False, **fields}
    made: ir.Stmt = kind(**fields, body=body, pos=POS)
    return made


def info(slot: str, obj: Any, refs: dict[tuple[str, str], str]) -> Store:
    kind = obj.kind
    if kind in ("set", "flag"):
        return Store(slot, kind, of="t" if kind == "set" else None)
    columns = tuple(
        Column(c.name, SCALARS[NAMES[c.dtype]], c.size, refs.get((slot, c.name)), c.stride)
        for c in obj.columns.values()
    )
    return Store(slot, kind, columns, deletes=bool(getattr(obj, "deletes", False)))


class Run:
    """A kernel over host objects: launched, and relaunched as the host does."""

    def __init__(
        self,
        objects: dict[str, Any],
        *body: ir.Stmt,
        over: str = "t",
        item: Type = T,
        refs: dict[tuple[str, str], str] | None = None,
        scalars: dict[str, Any] | None = None,
        locals_: dict[str, Type] | None = None,
        funcs: tuple[ir.Func, ...] = (),
        where: str | None = None,
        commit: Sequence[ir.Stmt] | None = None,
        abort: Sequence[ir.Stmt] = (),
        seed: int = 0,
    ) -> None:
        graphs = {s: o for s, o in objects.items() if isinstance(o, Graph)}
        for slot, g in graphs.items():
            objects |= {f"{slot}.{n}": t for n, t in g.tables.items()}
        self.graphs = graphs
        self.stores = {s: o for s, o in objects.items() if s not in graphs}
        self.scalars = scalars or {}
        types = {n: SCALARS[NAMES[np.asarray(x).dtype]] for n, x in self.scalars.items()}
        arguments: dict[str, Type] = dict(types)
        kernel = ir.Kernel(
            name="kernel",
            params=(("p", item), *arguments.items()),
            result=NOTHING,
            locals=tuple((locals_ or {}).items()),
            body=body,
            commit=None if commit is None else tuple(commit),
            abort=tuple(abort),
            where=where,
            pos=POS,
        )
        step = ir.Foreach(
            slot=over,
            kernel="kernel",
            args=tuple(var(n, t) for n, t in types.items()),
            where_args=(),
            pos=POS,
        )
        self.unit = ir.Unit(
            name="unit",
            stores=tuple(info(s, o, refs or {}) for s, o in self.stores.items()),
            graphs=tuple(
                GraphInfo(s, tuple((n, f"{s}.{n}") for n in g.tables), True, g.out_identity)
                for s, g in graphs.items()
            ),
            scalars=tuple(types.items()),
            funcs=(*funcs, kernel),
            state=(),
            blocks=(ir.Block(steps=(step,), cond=None, goto=-1, pos=POS),),
            fused=False,
            pos=POS,
        )
        self.seed = seed
        self.status = np.zeros(Status.STORES + len(self.stores), np.int64)
        self.deferred: set[int] = set()
        self.launch = interpreter.load(self.unit, seed)

    def once(self, replay: bool = False) -> None:
        self.launch(self.stores, self.graphs, self.scalars, self.status, replay, self.deferred)

    def all(self) -> int:
        """Launch, grow and replay; gives the number of replays."""
        self.once()
        replays = 0
        while self.status[Status.FAILED]:
            for k, obj in enumerate(self.stores.values()):
                if self.status[Status.STORES + k]:
                    obj.grow()
            if self.status[Status.LOCAL]:
                self.unit = replace(self.unit, local_scale=2 * self.unit.local_scale)
                self.launch = interpreter.load(self.unit, self.seed)
            self.status[[Status.FAILED, Status.LOCAL]] = 0
            self.status[Status.STORES :] = 0
            self.once(replay=True)
            replays += 1
        assert not self.deferred
        return replays


def table(n: int, **columns: Any) -> Table:
    t = Table("t", "python", **columns)
    t.extend(n)
    return t


def evaluate(value: ir.Expr, x: Any = None, y: Any = None, **extra: Any) -> Any:
    """The value of an expression of the scalars ``x`` and ``y``, as it arrives in a column."""
    t = value.type
    assert isinstance(t, Scalar)
    out = table(1, out=np.dtype(f"{t.kind}{t.bits // 8}") if t.kind != "b" else np.bool_)
    scalars = {n: v for n, v in {"x": x, "y": y}.items() if v is not None}
    Run({"t": out}, write(var("p"), "out", value), scalars=scalars, **extra).once()
    return out.out[0]
