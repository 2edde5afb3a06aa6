"""Receiver kernels: the owner of a row executes a slice (see `slices`) for each message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from morph.compiler.ir import nodes as ir
from morph.compiler.partitioning.ownership import Ownership, bare, global_id
from morph.compiler.passes.liveness import read_first
from morph.language.errors import reject
from morph.language.types import BOOL, I32, Column, Handle, Scalar, Store, Type, Vector

CARRIED = (  # expressions that the sender evaluates
    ir.Const, ir.Var, ir.Unary, ir.Binary, ir.Compare, ir.Logic, ir.Select, ir.Cast, ir.Builtin,
    ir.Load, ir.Place, ir.Field, ir.Degree, ir.Item, ir.Call,
)  # fmt: skip


class Receiver:
    """Rewrites the statements of a slice as the body of a kernel over messages.

    Parameters
    ----------
    rows : Ownership
    kernel : Kernel
        The kernel of the sender.
    locals : dict of str to Type
        The locals of ``kernel``.
    is_uniform : callable
        Whether an expression has one value for all items.
    body : tuple of Stmt
        The slice.
    key : Expr
        The row that the slice changes, see `Ownership.name`.
    target : Handle
    """

    def __init__(
        self, rows: Ownership, kernel: ir.Kernel, locals: Mapping[str, Type],
        is_uniform: Callable[[object], bool], body: ir.Body, key: ir.Expr, target: Handle,
    ) -> None:  # fmt: skip
        self.rows, self.f, self._is_uniform = rows, kernel.name, is_uniform
        self.key, self.pos = key, body[0].pos
        self.target = ir.Var(name="target_", type=target, pos=self.pos)
        self.made = assigned(body)
        self.columns: list[Column] = []
        self.sent: list[tuple[str, ir.Expr]] = []  # columns of a message, and their values
        self._known: dict[ir.Expr, str] = {}
        self.locals: dict[str, Type] = {"target_": target}
        self.locals |= {n: t for n, t in locals.items() if n in self.made}
        before = sorted(self.made & read_first(body))
        given = [ir.Var(name=n, type=locals[n], pos=self.pos) for n in before]
        first = [ir.Assign(name=x.name, value=self._carried(x), pos=self.pos) for x in given]
        self._body = (*first, *ir.rewritten(body, self._received))

    def store(self, slot: str, table: str) -> Store:
        """The collection of messages."""
        self.slot = slot
        return Store(slot, "collection", (Column("item", I32, 0, table, 4), *self.columns))

    def body(self) -> ir.Body:
        """The statements, with values loaded from the message ``entry``."""

        def load(n: ir.Node) -> Any:
            if not isinstance(n, ir.Place) or n.slot:
                return None
            return replace(n, slot=self.slot, row=self._entry())

        item = ir.Place(
            slot=self.slot, column="item", row=self._entry(), index=None, type=self.target.type,
            pos=self.pos,
        )  # fmt: skip
        value: ir.Expr = ir.Load(place=item, type=item.type, pos=self.pos)
        if not self.columns:  # then the item of the collection is the row itself
            value = ir.Var(name="entry_", type=item.type, pos=self.pos)
        first = ir.Assign(name=self.target.name, value=value, pos=self.pos)
        return (first, *ir.rewritten(self._body, load))

    def _entry(self) -> ir.Var:
        return ir.Var(name="entry_", type=Handle(self.slot), pos=self.pos)

    def _received(self, n: ir.Node) -> Any:
        """The owner's expression for a node; None if the message has values of its operands."""
        if not isinstance(n, ir.Expr) or n.effect:
            return None
        if self.rows.partitioned(n.type) and self.rows.name(n, self.f) == self.key:
            return self.target
        if self._is_uniform(n):
            return n
        if isinstance(n, ir.Call) and self.is_local(n.args):
            for x in n.args:
                if self.rows.partitioned(x.type) and self.rows.name(x, self.f) != self.key:
                    refuse_value(x)
            return None
        return None if self.is_local(n) else self._carried(n)

    def is_local(self, x: object) -> bool:
        """Whether an expression depends on the owner's row, or on results of the slice."""
        for n in ir.walk(x):
            if isinstance(n, ir.Var) and n.name in self.made:
                return True
            if isinstance(n, ir.Expr) and self.rows.partitioned(n.type):
                if self.rows.name(n, self.f) == self.key:
                    return True
        return False

    def _carried(self, x: ir.Expr) -> ir.Expr:
        """A value of the sender, in a column of the message."""
        if isinstance(x, ir.Const):
            return x
        t = x.type
        of_points = isinstance(t, Handle) and t.slot in self.rows.points
        plain = t.elem if isinstance(t, Vector) else t
        if not (of_points or isinstance(plain, Scalar)) or not self._is_safe(x):
            refuse_value(x)
        exists = self.rows.exists(x, self.f)
        name = self._known.setdefault(bare(x), f"value{len(self.columns)}")
        kind = I32 if of_points else plain
        assert isinstance(kind, Scalar)
        if name not in dict(self.sent):
            size = t.size if isinstance(t, Vector) else 0
            stride = max(size, 1) * kind.bits // 8
            self.columns.append(Column(name, kind, size, None, stride))
            self.sent.append((name, global_id(x, exists) if of_points else x))
        place = ir.Place(
            slot="", column=name, row=x, index=None, type=kind if of_points else t, pos=x.pos
        )
        load = ir.Load(place=place, type=place.type, pos=x.pos)
        if not of_points:
            return load
        row = ir.Cast(x=load, type=t, pos=x.pos)
        if exists:
            return row
        zero = ir.Const(value=0, type=I32, pos=x.pos)
        none = ir.Const(value=-1, type=t, pos=x.pos)
        cond = ir.Compare(op="<", x=load, y=zero, type=BOOL, pos=x.pos)
        return ir.Select(cond=cond, x=none, y=row, type=t, pos=x.pos)

    def _is_safe(self, x: object) -> bool:
        """Whether the sender may evaluate an expression speculatively."""
        for n in ir.walk(x):
            if not isinstance(n, CARRIED):
                return False
            rows: list[Any] = []
            match n:
                case ir.Place():
                    rows = [n.row]
                case ir.Degree():
                    rows = [n.point]
                case ir.Call():
                    rows = [a for a in n.args if isinstance(a.type, Handle)]
                case ir.Item() if not isinstance(n.x.type, Vector):
                    return False
            fixed = not isinstance(n, ir.Place | ir.Item) or isinstance(n.index, ir.Const | None)
            if not fixed or not all(self.rows.exists(row, self.f) for row in rows):
                return False
        return True


def refuse_value(x: ir.Expr) -> NoReturn:
    """Refuse a value that a message cannot carry."""
    problem = "this value cannot be sent with a change at the other end of an edge"
    reject(problem, x.pos, "assign what is needed, numbers or points, to locals before")


def assigned(body: object) -> set[str]:
    """The locals that statements assign, or change in place."""
    kinds = (ir.SetItem, ir.SetField, ir.LocalAdd, ir.LocalPop, ir.LocalClear)
    nodes = list(ir.walk(body))
    return ir.bound(nodes) | ir.used(n for n in nodes if isinstance(n, kinds))
