"""Derives the data that parts of a graph exchange before and after a step.

`derive` takes the unit of one ``foreach`` and the partitioned graphs.  It returns the unit that
each part executes over its owned rows, and the exchange: columns that are read at the other end of
an edge (*spreads*), columns that are changed there by an atomic (*combines*), messages for all
other changes there, and values of which each part has a copy (*replicated* values, flags).  Kernels
for which this cannot be derived are refused.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.layout import GLOBAL_ID
from morph.compiler.ir.spelling import user_name
from morph.compiler.partitioning.numbered_rows import Copy, Numbered
from morph.compiler.partitioning.ownership import ENDS, Ownership, global_id
from morph.compiler.partitioning.replicated import Replicated, ReplicatedColumn
from morph.compiler.partitioning.slices import Cutter, Slice
from morph.compiler.passes.effects import Effects, functions_of_kernel
from morph.compiler.passes.inlining import inline_all
from morph.compiler.passes.reservations import place_reservations
from morph.language.errors import reject
from morph.language.types import BOOL, I64, NOTHING, Column, Handle, Scalar

BOUNDED = ("min", "max", "or", "and")
ARBITRARY = "a row by its number may belong to another part"


@dataclass(frozen=True, slots=True)
class Combine:
    """A column of points whose mirrors are combined with the owner's value after the step.

    ``op`` is ``add`` (mirrors are 0 before the step), ``min``, ``max``, ``or`` or ``and``.
    """

    slot: str
    column: str
    op: str


@dataclass(frozen=True, slots=True)
class Message:
    """Changes at other ends that the owners of the rows execute after the step.

    Attributes
    ----------
    slot : str
        The collection of messages, in the unit that sends and in the unit that receives.  Its
        ``item`` is a local id: of a mirror, or (only if ``own``) of an owned row.
    columns : tuple of Column
        The other columns of the collection.
    points : tuple of str
        Columns with the global id of a point, or -1; the receiver gets a local id.
    unit : Unit
        One ``foreach`` over the messages that a part has received.  It sends none.
    own : bool
        Whether messages to owned rows are sent, too, so that one launch executes all messages.
    bound : Combine or None
        A column that the message changes by this operation only, to its value ``offered`` (of the
        columns): a message has no effect after a better one, and the mirror has the best value of
        the part.
    """

    slot: str
    columns: tuple[Column, ...]
    points: tuple[str, ...]
    unit: ir.Unit
    own: bool
    bound: Combine | None
    offered: str


@dataclass(frozen=True, slots=True)
class Hidden:
    """A scalar argument of the derived units, of type i64.

    ``what``: ``points`` or ``edges``, their number in the whole graph in slot ``graph``;
    ``owned_points`` or ``owned_edges``, the number of rows owned by the part or, for edges that
    have changed, of all edges of the part.
    """

    name: str
    what: str
    graph: str


@dataclass(frozen=True, slots=True)
class Partitioning:
    """One step over a partitioned graph.

    Attributes
    ----------
    unit : Unit
        The unit that each part executes; its domain is the rows owned by the part.
    spreads : tuple of (slot, column)
        Columns whose mirrors have to be equal to the owner's values before the step.
    bounds : dict of (slot, column) to str
        Columns of ``spreads`` whose mirrors may lack changes, if all are by this operation
        (``min``, ``max``, ``or`` or ``and``): the step only compares new values with them.
    combines : tuple of Combine
    writes : tuple of (slot, column)
        Columns whose mirrors may differ from the owner's values after the step.
    sole_operations : dict of (slot, column) to str
        The operation, one of the same, of each column of ``writes`` that the step changes only by
        it.
    mirrored : set of (slot, column)
        Columns of ``writes`` that a part changes also at its mirrors.
    messages : tuple of Message
    replicated : tuple of ReplicatedColumn
    flags : tuple of str
        Flags that are raised for all parts if one part has raised them.
    hidden : tuple of Hidden
    copies : tuple of Copy
    """

    unit: ir.Unit
    spreads: tuple[tuple[str, str], ...]
    bounds: Mapping[tuple[str, str], str]
    combines: tuple[Combine, ...]
    writes: tuple[tuple[str, str], ...]
    sole_operations: Mapping[tuple[str, str], str]
    mirrored: Set[tuple[str, str]]
    messages: tuple[Message, ...]
    replicated: tuple[ReplicatedColumn, ...]
    flags: tuple[str, ...]
    hidden: tuple[Hidden, ...]
    copies: tuple[Copy, ...]


def derive(
    unit: ir.Unit, graphs: Container[str], local: Container[str] = frozenset()
) -> Partitioning:
    """Derive the exchange of a ``foreach`` that parts execute.

    Parameters
    ----------
    unit : Unit
        The unit of one ``foreach``; points have the column `GLOBAL_ID`.
    graphs : set of str
        The slots of the partitioned graphs.
    local : set of str
        The slots of tables whose rows differ between parts.  Their columns have local numbers of
        points, owned or mirrors, and of owned edges.

    Raises
    ------
    LanguageError
        If parts cannot execute the kernel.
    """
    (block,) = unit.blocks
    (step,) = block.steps
    assert isinstance(step, ir.Foreach) and not unit.fused
    return _Derivation(unit, step, graphs, local).partitioning()


def describe(found: Partitioning) -> list[str]:
    """Describe the exchange of a step in lines."""

    def named(pairs: Iterable[tuple[str, str]]) -> str:
        return ", ".join(f"{slot}.{column}" for slot, column in pairs)

    lines = [f"before: mirrors of {named(found.spreads)}, where stale"] if found.spreads else []
    for x in found.copies:
        every = named((x.of, name) for name in x.columns)
        lines.append(f"before: all values of {every} on each part, whose rows are used by number")
    lines += [f"combined by {c.op}: mirrors of {c.slot}.{c.column}" for c in found.combines]
    for m in found.messages:
        (first,) = m.unit.blocks
        (step,) = first.steps
        values = ", ".join(f"{c.name}: {c.dtype}" for c in m.columns) or "no values"
        lines.append(f"{m.slot}: line {step.pos.line}, executed by the owner; {values}")
    lines += [f"of all parts, {t.op}: {t.slot}.{t.column}" for t in found.replicated]
    lines += [f"of all parts, or: {slot}" for slot in found.flags]
    for x in (x for x in found.copies if x.changed):
        lines.append(f"after: {named((x.of, c) for c in x.changed)} of the owners, from {x.slot}")
    lines += [f"after: mirrors of {named(found.writes)} are stale"] if found.writes else []
    return lines or ["nothing is exchanged"]


def _operation(nodes: Iterable[ir.Node], column: tuple[str, str]) -> str:
    """The only atomic operation by which nodes change a column, or empty."""
    changes = (n for n in nodes if n.writes and column in ir.columns((n,), "writes"))
    found = {n.op if isinstance(n, ir.Atomic) else "" for n in changes}
    return found.pop() if len(found) == 1 else ""


class _Derivation:
    """The derivation of one unit."""

    def __init__(
        self, unit: ir.Unit, step: ir.Foreach, graphs: Container[str], local: Container[str]
    ) -> None:
        self.unit, self.step, self.graphs, self.local = unit, step, graphs, local
        funcs = {f.name: replace(f, body=ir.rewritten(f.body, _same_row)) for f in unit.funcs}
        kernel = funcs[step.kernel]
        assert isinstance(kernel, ir.Kernel)
        self.rows = Ownership(unit, graphs, funcs.values(), local)
        self.kernel = self._inlined(kernel, funcs)
        self.rows = Ownership(
            unit, graphs, functions_of_kernel(self.kernel, funcs, itself=True), local
        )
        self.own_items = step.slot in {*self.rows.tables, *self.rows.lists, *self.rows.local}
        self.hidden: dict[str, Hidden] = {}
        self._refuse_options()
        others = functions_of_kernel(self.kernel, funcs)
        by_number = Numbered(self.rows)
        self.kernel = self._localised(by_number.of_copies(self.kernel))
        if step.slot in self.rows.edges and self.rows.stores[step.slot].deletes:
            name, item = self.kernel.params[0]
            row = ir.Var(name=name, type=item, pos=kernel.pos)
            body = (self._if_own(row, self.kernel.body),)
            self.kernel = replace(self.kernel, body=body)
        self.funcs = {f.name: self._localised(by_number.of_copies(f)) for f in others}
        self.copies = by_number.copies((self.kernel, *self.funcs.values()))
        self.unit = unit = replace(unit, stores=(*unit.stores, *by_number.stores()))
        self.rows = Ownership(unit, graphs, (*self.funcs.values(), self.kernel), local)

    def _inlined(self, kernel: ir.Kernel, funcs: Mapping[str, ir.Func]) -> ir.Kernel:
        """The kernel, with calls inlined and no reservations if it changes rows at other ends."""
        if not any(
            self.rows.remote(f.body, f.name)
            for f in functions_of_kernel(kernel, funcs, itself=True)
        ):
            return kernel
        for n in ir.walk(kernel):
            if isinstance(n, ir.Exceed):
                problem = "a kernel that changes other ends of edges reserves no capacity itself"
                reject(problem, n.pos, "leave out reserve(...)")
        bare = _without_reservations(kernel.body)
        return inline_all(replace(kernel, body=bare), funcs)

    def _refuse_options(self) -> None:
        """Refuse options that a step over parts cannot have."""
        s = self.step
        arrays, claims = ir.find(self.kernel, ir.MakeShared), ir.find(self.kernel, ir.Claim)
        if s.together or s.until_empty or claims or arrays:
            what = "until_empty" if s.until_empty else "single(collection)"
            what = "shared(...)" if arrays else what
            pos = (*arrays, *claims, s)[0].pos
            reject(f"{what} is not possible on a partitioned graph", pos, "use one device")
        if s.start is not None or s.stop is not None:
            if self.own_items:
                hint = "use a filter: where=lambda p: p.id < n"
                reject("a slice of a partitioned table is no domain of a step", s.pos, hint)
        for x in (*s.args, *s.where_args):
            if self.rows.partitioned(x.type):
                reject(ARBITRARY, s.pos, "pass its id, and compare it with p.id")

    # --- numbers of rows ------------------------------------------------------------------------

    def _scalar(self, what: str, slot: str) -> str:
        """The name of a scalar with a number of rows of a partitioned table."""
        tables = self.rows.points if slot in self.rows.points else self.rows.edges
        graph, kind = tables[slot].slot, "points" if slot in self.rows.points else "edges"
        name = f"{what}{kind}_of_{graph.replace('.', '_')}_"
        self.hidden[name] = Hidden(name, what + kind, graph)
        return name

    def _localised(self, f: Any) -> Any:
        """A function with ids and sizes replaced by those of the whole graph."""
        tables, in_parts = self.rows.tables, {*self.rows.tables, *self.rows.lists}

        def change(n: ir.Node) -> Any:
            match n:
                case ir.Reserve():
                    return n
                case ir.Cast(x=ir.Expr(type=Handle(slot)), type=Scalar()) if slot in in_parts:
                    return self._id(n, f.name)
                case ir.StoreSize() if n.slot in tables:
                    return ir.Var(name=self._scalar("", n.slot), type=I64, pos=n.pos)
                case ir.ForRows() if n.slot in tables:
                    row = ir.Var(name=n.var, type=Handle(n.slot), pos=n.pos)
                    body = ir.rewritten(n.body, change)
                    return replace(n, body=(self._if_own(row, body),))
            return None

        return replace(f, body=ir.rewritten(f.body, change))

    def _if_own(self, row: ir.Var, body: ir.Body) -> ir.If:
        """Statements for owned rows: the first rows, or edges whose source is owned."""
        assert isinstance(row.type, Handle)
        own: ir.Expr = row
        slot = row.type.slot
        if slot in self.rows.edges and self.rows.stores[slot].deletes:  # owned edges are not first
            points = dict(self.rows.edges[slot].tables)["points"]
            src = ir.Place(
                slot=slot, column="src", row=row, index=None, type=Handle(points), pos=row.pos
            )
            own = ir.Load(place=src, type=src.type, pos=row.pos)
            slot = points
        number = ir.Cast(x=own, type=I64, pos=row.pos)
        owned = ir.Var(name=self._scalar("owned_", slot), type=I64, pos=row.pos)
        cond = ir.Compare(op="<", x=number, y=owned, type=BOOL, pos=row.pos)
        return ir.If(cond=cond, then=body, orelse=(), pos=row.pos)

    def _id(self, n: ir.Cast, f: str) -> ir.Expr:
        """The id of a row in the whole graph."""
        assert isinstance(n.x.type, Handle)
        if self.rows.stores[n.x.type.slot].column(GLOBAL_ID) is None:
            problem = "an edge or entry of a partitioned graph has no id in a kernel"
            reject(problem, n.pos, "use a column")
        found = global_id(n.x, self.rows.exists(n.x, f))
        return found if n.type == found.type else replace(n, x=found)

    # --- the result ------------------------------------------------------------------------------

    def partitioning(self) -> Partitioning:
        """The result of the derivation."""
        rows = self.rows
        remote = rows.remote(self.kernel.body, self.kernel.name)
        for f in self.funcs.values():
            for n, _ in rows.remote(f.body, f.name):
                problem = f"{user_name(f.name)!r} changes the other end of an edge"
                reject(f"{problem}, and cannot be inlined", n.pos, "write it in the kernel")
        for n, row in remote:
            if isinstance(row.type, Handle) and row.type.slot in rows.edges:
                problem = "an edge into a point of a directed graph may belong to another part"
                reject(problem, n.pos, "change it from its source: for e in p.outedges")
        owned = {slot: self._scalar("owned_", slot) for slot in rows.points} if remote else {}
        shared = Replicated(rows, self.kernel, self.funcs, self.step, self.own_items, self.hidden)
        taken = {s.slot for s in self.unit.stores}
        cutter = Cutter(rows, self.kernel, owned, taken, shared.uniform)
        kernel = cutter.kernel_of_sender()
        self._refuse_nodes(kernel, cutter.by_owner)
        exact = cutter.spreads | self._spreads(kernel, cutter.by_owner)
        bounds = {c: how for c, how in cutter.bounds.items() if c not in exact}
        replicated, flags = shared.changed_columns(), self._flags()
        nodes = list(ir.walk((self.kernel, *self.funcs.values())))
        writes = {c for c in ir.columns(nodes, "writes") if c[0] in rows.tables}
        writes |= {(x.of, name) for x in self.copies for name in x.changed}
        operations = {c: op for c in writes if (op := _operation(nodes, c)) in BOUNDED}
        messages = tuple(self._message(s) for s in cutter.slices)
        unit = self._unit(kernel, self.step, tuple(s.store for s in cutter.slices), bool(remote))
        used = {n for u in (unit, *(m.unit for m in messages)) for n, _ in u.scalars}
        return Partitioning(
            unit, tuple(sorted(exact | bounds.keys())), bounds,
            tuple(Combine(*c, how) for c, how in sorted(cutter.combines.items())),
            tuple(sorted(writes)), operations, frozenset(cutter.mirrored), messages, replicated,
            flags, tuple(h for n, h in self.hidden.items() if n in used), self.copies,
        )  # fmt: skip

    def _message(self, s: Slice) -> Message:
        """The message of a slice, with the unit that its receiver executes."""
        name = f"{self.kernel.name}_at_owner{s.store.slot.removeprefix('messages')}"
        item = Handle(s.store.slot) if len(s.store.columns) > 1 else s.locals["target_"]
        made = ir.Kernel(
            name=name, params=(("entry_", item), *self.kernel.params[1:]), result=NOTHING,
            locals=tuple(s.locals.items()), body=s.body, pos=s.pos,
        )  # fmt: skip
        step = replace(
            self.step, slot=s.store.slot, kernel=name, where_args=(), start=None, stop=None,
            balance="auto", pos=s.pos,
        )  # fmt: skip
        casts = ir.find(s.body, ir.Cast)
        points = {
            n.x.place.column
            for n in casts
            if self.rows.partitioned(n.type) and isinstance(n.x, ir.Load)
        }
        return Message(
            s.store.slot, s.store.columns[1:], tuple(sorted(points)),
            self._unit(made, step, (s.store,), True), s.locks,
            None if s.bound is None else Combine(*s.bound), s.offered,
        )  # fmt: skip

    def _unit(
        self, kernel: ir.Kernel, step: ir.Foreach, more: tuple[Any, ...], reserve: bool
    ) -> ir.Unit:
        """A unit of one kernel, with the scalars that its functions need."""
        stores = {s.slot: s for s in (*self.unit.stores, *more)}
        kept = {f.name: f for f in functions_of_kernel(kernel, self.funcs, itself=True)}
        if reserve:
            kept[kernel.name] = place_reservations(kernel, stores, Effects(kept))
        needs = self._needs(kept)
        funcs = tuple(self._with_scalars(f, needs) for f in kept.values())
        variables = {n: ir.Var(name=n, type=I64, pos=kernel.pos) for n in sorted(self.hidden)}
        args = (*step.args, *(variables[n] for n in needs[kernel.name]))
        where_args = step.where_args
        if kernel.where is not None:
            where_args = (*where_args, *(variables[n] for n in needs[kernel.where]))
        if step.slot in self.rows.tables:
            stop = ir.Var(name=self._scalar("owned_", step.slot), type=I64, pos=step.pos)
            step = replace(step, start=ir.Const(value=0, type=I64, pos=step.pos), stop=stop)
        step = replace(step, args=args, where_args=where_args)
        used = {n.name for n in ir.find(step, ir.Var)}
        scalars = dict(self.unit.scalars) | dict.fromkeys(self.hidden, I64)
        reserved = {n.slot for n in ir.find(funcs, ir.Need) if not n.local}
        return replace(
            self.unit, name=f"morph_{kernel.name}", funcs=funcs,
            stores=tuple(sorted(stores.values(), key=lambda s: s.slot not in reserved)),
            scalars=tuple((n, t) for n, t in scalars.items() if n in used),
            blocks=(replace(self.unit.blocks[0], steps=(step,)),),
        )  # fmt: skip

    def _needs(self, funcs: Mapping[str, ir.Func]) -> dict[str, list[str]]:
        """The hidden scalars that each function uses, directly or through calls."""
        needs: dict[str, set[str]] = {}
        for f in funcs.values():  # callees first
            nodes = list(ir.walk((f.body, getattr(f, "commit", None))))
            needs[f.name] = {n.name for n in nodes if isinstance(n, ir.Var)} & set(self.hidden)
            for n in nodes:
                if isinstance(n, ir.Call):
                    needs[f.name] |= needs[n.func]
        return {name: sorted(found) for name, found in needs.items()}

    def _with_scalars(self, f: ir.Func, needs: Mapping[str, list[str]]) -> ir.Func:
        """A function with parameters for hidden scalars, which it passes to its callees."""

        def change(n: ir.Node) -> Any:
            if not isinstance(n, ir.Call) or not needs[n.func]:
                return None
            more = (ir.Var(name=x, type=I64, pos=n.pos) for x in needs[n.func])
            return replace(n, args=(*ir.rewritten(n.args, change), *more))

        params = (*f.params, *((n, I64) for n in needs[f.name]))
        return replace(f, params=params, body=ir.rewritten(f.body, change))

    # --- rows of other parts ---------------------------------------------------------------------

    def _each(self, kernel: ir.Kernel) -> Iterator[tuple[Any, str]]:
        """All nodes, with the names of their functions."""
        for f in (*self.funcs.values(), kernel):
            yield from ((n, f.name) for n in ir.walk(f.body))

    def _spreads(self, kernel: ir.Kernel, by_owner: set[int]) -> set[tuple[str, str]]:
        """The columns that are read at other ends."""
        found = set()
        for n, f in self._each(kernel):
            if isinstance(n, ir.Load) and n.place.slot in self.rows.tables:
                if id(n) in by_owner or self.rows.owns(n.place.row, f):
                    continue
                if n.place.column in (*ENDS, GLOBAL_ID):
                    continue
                if self.rows.referred(n.place) is not None:
                    problem = "a row that the other end of an edge refers to may be on no part"
                    reject(problem, n.pos, "keep its id in a column of numbers")
                found.add((n.place.slot, n.place.column))
        return found

    def _refuse_nodes(self, kernel: ir.Kernel, by_owner: set[int]) -> None:
        """Refuse operations that parts cannot execute independently."""
        for n, f in self._each(kernel):
            if id(n) not in by_owner:
                self._refuse_far(n, f)
            self._refuse_node(n)

    def _refuse_far(self, n: Any, f: str) -> None:
        """Refuse edges of mirrors, and rows by their number."""
        far = "edges"
        match n:
            case ir.ForEdges() | ir.Degree() if n.graph in self.graphs:
                if self.rows.owns(n.point, f):
                    far = "inedges" if n.direction == "in" and not self._directed(n.graph) else ""
            case ir.FindEdge() if n.graph in self.graphs:
                far = "" if self.rows.owns(n.x, f) else far
            case ir.Cast(x=x) if self.rows.partitioned(n.type) and isinstance(x.type, Scalar):
                far = ""
                if not self.rows.is_local(x):
                    hint = "use a column of numbers, g.points[i].x, follow an edge, or test p.id"
                    reject(ARBITRARY, n.pos, hint)
            case _:
                far = ""
        if far:
            which = "of the other end of an edge" if far == "edges" else "into a point"
            hint = "keep what is needed in a column, in a step before"
            hint = hint if far == "edges" else "p.outedges: each edge is stored in both directions"
            reject(f"the edges {which} may be on another part", n.pos, hint)

    def _directed(self, graph: str) -> bool:
        return next(g.directed for g in self.unit.graphs if g.slot == graph)

    def _refuse_node(self, n: Any) -> None:
        """Refuse operations that depend on all parts at once, and changes of the graph."""
        lists, tables, edges = self.rows.lists, self.rows.tables, self.rows.edges
        store = self.rows.stores.get(getattr(n, "slot", ""))
        kind = store.kind if store is not None else ""
        hint = "use one device, or do it between the steps"
        before = "use one device: parts.to(device); or change the graph before it is divided"
        match n:
            case ir.SetFind() | ir.SetUnion():
                reject("a Set is not possible on a partitioned graph", n.pos, "use labels")
            case ir.Take():
                reject("parts do not take from one collection", n.pos, hint)
            case ir.New() | ir.NewRows() | ir.Delete():
                hint = before if n.slot in tables else hint
                reject("a step on a partitioned graph neither makes nor deletes rows", n.pos, hint)
            case ir.Write() if n.place.slot in edges and n.place.column in ENDS:
                reject("a step on a partitioned graph changes no ends of edges", n.pos, before)
            case ir.StoreSize() | ir.ForRows() if kind == "collection":
                reject("a part has only its own items of a collection", n.pos, hint)
            case ir.ForRows() if n.slot in tables and self.own_items:
                problem = "a loop over all points or edges is for a kernel over scalars"
                reject(problem, n.pos, "foreach(scalars, kernel, g)")
            case ir.Add() if store is not None and n.slot not in lists:
                problem = "a collection of a partitioned graph has its points or edges as items"
                reject(problem, n.pos, "Collection(g.points, ...)")
            case ir.Lock() if n.slot not in tables:
                problem = "a row that every part has is not locked once for all"
                reject(problem, n.pos, "use atomic_min, and compare in the next step")
            case ir.FlagSet(value=False):
                reject("a step on a partitioned graph lowers no flag", n.pos, "flag.take()")

    # --- values of which all parts have copies ---------------------------------------------------

    def _flags(self) -> tuple[str, ...]:
        """The flags that a step may raise."""
        nodes = list(ir.walk((self.kernel.body, *(f.body for f in self.funcs.values()))))
        found = {n.slot for n in nodes if isinstance(n, ir.FlagSet)}
        return tuple(sorted(found | {n.flag for n in nodes if isinstance(n, ir.Atomic) and n.flag}))


def _same_row(n: Any) -> Any:
    """Simplify the row with the number of a row: ``points[p.id]`` to ``p``."""
    x = n
    while isinstance(x, ir.Cast) and (x is n or isinstance(x.type, Scalar) and x.type.bits >= 32):
        x = x.x
    same = isinstance(n, ir.Cast) and isinstance(n.type, Handle) and x.type == n.type
    return ir.rewritten(x, _same_row) if same else None


def _without_reservations(body: ir.Body) -> ir.Body:
    kept = (s for s in body if not isinstance(s, ir.Reserve))
    return tuple(ir.rewrite_bodies(s, _without_reservations) for s in kept)
