"""A program over a partitioned graph as one launch of each part.

`derive_program` takes the fused unit of a program.  Each ``foreach`` becomes the unit that `derive`
returns for it, followed by the actions of the host after a step that is launched by itself: at its
barrier the parts agree on flags, replicated values and failures (`Agree`), messages are delivered
and executed (`Deliver`), mirrors are combined and spread (`Exchange`).  A column is spread after
each step that changes it, if any step of the program reads it at other ends of edges; after a step
over a collection only the changed rows (`Mark`).  If steps only compare new values with the mirrors
(`Partitioning.bounds`), the column is not spread after changes only by that operation; if other
steps of the program read its values, it is spread before these.  All parts execute the same blocks,
and so reach the same crossings, as conditions depend only on values that are equal in all parts.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from morph.compiler.ir import abi
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.layout import GLOBAL_ID, MARKED_ROWS, MESSAGE_WORDS, MOST_WORDS
from morph.compiler.partitioning.derivation import Hidden, Message, Partitioning, derive, describe
from morph.compiler.partitioning.ownership import Ownership
from morph.compiler.passes.effects import called, reached
from morph.language.position import Pos
from morph.language.types import I32, I64, Column, Handle, Object

# expressions that have, until the program's variables change, the same value in all threads
UNVARYING = ir.Const | ir.Var | ir.Cast | ir.Unary | ir.Binary
OWN_VALUES = 2  # words of a part at each crossing, on ranks: see parts.h


class NeedsSteps(Exception):
    """The reason why parts must execute a program launch by launch."""


@dataclass(frozen=True, slots=True)
class Box:
    """Outbox and inbox of one kind of messages, and the table of their target rows."""

    outbox: str
    inbox: str
    columns: tuple[Column, ...]
    table: str


@dataclass(frozen=True, slots=True)
class PartitionedProgram:
    """A program that all parts execute together.

    Attributes
    ----------
    unit : Unit
    steps : tuple of Partitioning
        The exchange of each ``foreach`` of the program, in the order of blocks.
    before, sends : tuple of tuple of Mirrors
        The columns that are spread before, and after, each of ``steps``.
    spreads, writes : tuple of (slot, column)
        Columns whose mirrors have to be equal to the owner's values before the launch; columns
        that the program changes.
    stale : tuple of (slot, column)
        Changed columns whose mirrors may differ from the owner's values after the launch.
    bounds, sole_operations : dict of (slot, column) to str
        As in `Partitioning`, for columns with the same operation in all steps.
    hidden : tuple of Hidden
    boxes : tuple of Box
    collections : tuple of str
        The partitioned collections; the host sets their counter `GLOBAL` before the launch.
    one_row : tuple of str
        Tables of one row that the program changes.
    """

    unit: ir.Unit
    steps: tuple[Partitioning, ...]
    before: tuple[tuple[ir.Mirrors, ...], ...]
    sends: tuple[tuple[ir.Mirrors, ...], ...]
    spreads: tuple[tuple[str, str], ...]
    writes: tuple[tuple[str, str], ...]
    stale: tuple[tuple[str, str], ...]
    bounds: Mapping[tuple[str, str], str]
    sole_operations: Mapping[tuple[str, str], str]
    hidden: tuple[Hidden, ...]
    boxes: tuple[Box, ...]
    collections: tuple[str, ...]
    one_row: tuple[str, ...]


def describe_program(found: PartitionedProgram) -> list[str]:
    """Describe the exchange of each step of the program in lines."""
    lines = ["one launch of each part; between the parts:"]
    for p, before, sends in zip(found.steps, found.before, found.sends, strict=True):
        (block,) = p.unit.blocks
        (step,) = block.steps
        assert isinstance(step, ir.Foreach)
        exchanges = [*describe(p), *(f"first: {_described(m)}" for m in before)]
        exchanges += [f"then: {_described(m)}" for m in sends]
        lines += [f"{step.kernel}, line {step.pos.line}: {x}" for x in exchanges]
    return lines


def _described(m: ir.Mirrors) -> str:
    """Describe which rows of a column are sent after a step."""
    rows = f"those that have changed, by groups of {MARKED_ROWS}" if m.marked else "all"
    rows = rows if m.value is None else "a bit each"
    return f"rows of {m.slot}.{m.column} are sent to mirrors, {rows}"


def derive_program(
    unit: ir.Unit,
    graphs: Container[str],
    one_row: Container[str],
    local: Container[str] = frozenset(),
    unordered_mirrors: bool = False,
) -> PartitionedProgram:
    """Derive the unit with which the parts of a graph execute a program together.

    Parameters
    ----------
    unit : Unit
        The unit of the program.
    graphs, one_row : set of str
        The slots of the partitioned graphs, and of tables of one row.
    local : set of str
        The slots of tables whose rows differ between parts, as in `derive`.
    unordered_mirrors : bool
        Whether mirrors may lie in no order, since the graph has changed.

    Raises
    ------
    NeedsSteps, LanguageError
        If the program has to be executed launch by launch.
    """
    return _Program(unit, graphs, one_row, local, unordered_mirrors).derived()


class _Program:
    """The derivation of one program."""

    def __init__(
        self, unit: ir.Unit, graphs: Container[str], one_row: Container[str],
        local: Container[str], unordered_mirrors: bool,
    ) -> None:  # fmt: skip
        self.unit, self.graphs, self.one_row, self.local = unit, graphs, one_row, local
        self.unordered_mirrors = unordered_mirrors
        self.rows = Ownership(unit, graphs, unit.funcs, local)
        self.known = {f.name: f for f in unit.funcs}
        self.funcs: dict[str, ir.Func] = {}
        self.stores = {s.slot: s for s in unit.stores}
        self.state = dict(unit.state)
        self.hidden: dict[str, Hidden] = {}
        self.boxes: list[Box] = []
        self.before: list[tuple[ir.Mirrors, ...]] = []
        self.sends: list[tuple[ir.Mirrors, ...]] = []
        self._refuse_unit()

    def derived(self) -> PartitionedProgram:
        """The result of the derivation."""
        blocks = ir.rewritten(self.unit.blocks, self._sized)
        found = [[self._derived(s) for s in b.steps if isinstance(s, ir.Foreach)] for b in blocks]
        steps = tuple(p for row in found for p in row)
        self.spreads = {c for p in steps for c in p.spreads}
        self.kept = set[tuple[str, str]]()  # columns that are not spread after each change
        self._refuse_spreads(steps)
        self.steps, self.marked = steps, self._marked(steps)
        blocks = tuple(
            replace(b, steps=_joined(self._steps(b, iter(row))))
            for b, row in zip(blocks, found, strict=True)
        )
        for p in steps:
            self.hidden |= {h.name: h for h in p.hidden}
        funcs = tuple(self.funcs.values()) + self._called(blocks)
        needed = {n.slot for n in ir.find(funcs, ir.Need) if not n.local}
        needed |= {box.inbox for box in self.boxes}
        unit = replace(
            self.unit, blocks=blocks, funcs=funcs, state=tuple(self.state.items()),
            stores=tuple(sorted(self.stores.values(), key=lambda s: s.slot not in needed)),
            scalars=(*self.unit.scalars, *((h, I64) for h in self.hidden)),
        )  # fmt: skip
        boxes = {slot for box in self.boxes for slot in (box.outbox, box.inbox)}
        writes = {c for p in steps for c in p.writes}
        return PartitionedProgram(
            unit, steps, tuple(self.before), tuple(self.sends), tuple(sorted(self.spreads)),
            tuple(sorted(writes)), tuple(sorted(writes - (self.spreads - self.kept))),
            {c: how for c in self.spreads if (how := self._bound(c)) and not self._flags(c)},
            {c: how for c in writes if (how := _only(p.sole_operations.get(c) for p in steps
                                                      if c in p.writes))},
            tuple(self.hidden.values()), tuple(self.boxes),
            tuple(s for s in self.rows.lists if s not in boxes),
            tuple(sorted({t.slot for p in steps for t in p.replicated} - {*self.unit.made})),
        )  # fmt: skip

    # --- steps -----------------------------------------------------------------------------------

    def _derived(self, s: ir.Foreach) -> Partitioning:
        """The exchange of one step; add the collections of its messages."""
        kernel = self.known[s.kernel]
        assert isinstance(kernel, ir.Kernel)
        names = {f.name for n in (kernel.where, s.kernel) if n for f in reached(n, self.known)}
        block = ir.Block(steps=(s,), cond=None, goto=-1, pos=s.pos)
        found = derive(
            replace(
                self.unit, fused=False, blocks=(block,), state=(), permutations=(),
                stores=tuple(self.stores.values()),
                funcs=tuple(f for f in self.unit.funcs if f.name in names),
            ),
            self.graphs, self.local,
        )  # fmt: skip
        if found.copies:
            raise NeedsSteps("a step uses points by their number")
        for m in found.messages:
            self.stores[m.slot] = next(x for x in m.unit.stores if x.slot == m.slot)
            outbox = replace(self.stores[m.slot], slot=_outbox(m.slot))
            self.stores[outbox.slot] = outbox
            item = outbox.columns[0].ref
            assert item is not None
            self.boxes.append(Box(outbox.slot, m.slot, m.columns, item))
        return found

    def _steps(self, block: ir.Block, found: Iterator[Partitioning]) -> Iterator[Any]:
        """The steps of a block of the derived program."""
        for s in block.steps:
            if isinstance(s, ir.Foreach):
                yield from self._foreach(s, next(found))
            else:
                yield s

    def _foreach(self, s: ir.Foreach, p: Partitioning) -> Iterator[Any]:
        """A step, and the exchange before and after it."""
        exact = [c for c in p.spreads if c not in p.bounds and self._bound(c)]
        self.before.append(tuple(_mirrors(*c, s.pos) for c in exact))
        if exact:  # two crossings: until the first, other parts may read or change their mirrors
            yield ir.Exchange(combines=(), spreads=(), pos=s.pos)
            yield ir.Exchange(combines=(), spreads=self.before[-1], pos=s.pos)
        sums = tuple(_mirrors(c.slot, c.column, s.pos) for c in p.combines if c.op == "add")
        if sums:
            yield ir.FillMirrors(mirrors=sums, pos=s.pos)
        replicated = tuple(self._replicated_values(p, s.pos))
        for t in replicated:
            load = ir.Load(place=t.place, type=t.place.type, pos=s.pos)
            yield ir.Assign(name=t.before.name, value=load, pos=s.pos)  # type: ignore[attr-defined]
        combines = tuple(_mirrors(c.slot, c.column, s.pos, c.op) for c in p.combines)
        changed = sorted({*p.writes} & self.spreads)
        marked = self.marked if self._is_listed(p) else frozenset()
        spreads = tuple(
            replace(_mirrors(*c, s.pos), marked=c in marked)
            for c in changed
            if not self._stays_bound(p, c)
        )
        at_once = not (combines or p.messages or _needs_agreement(p.unit))
        values = [self._value(p.unit, (m.slot, m.column)) for m in spreads if at_once]
        at_once = bool(values) and all(values)
        if at_once:
            given = zip(spreads, values, strict=True)
            spreads = tuple(replace(m, marked=False, value=x) for m, x in given)
            marked -= {(m.slot, m.column) for m in spreads}
        self.sends.append(spreads)
        yield self._local(p.unit, {m.slot for m in p.messages}, marked)
        if at_once:  # no part writes to memory that another one reads: one crossing
            yield ir.Exchange(combines=(), spreads=spreads, pos=s.pos)
            yield ir.Agree(flags=p.flags, values=replicated, pos=s.pos)
            return
        waits = bool(p.messages) and not combines  # the parts agree at the first delivery
        agrees = replicated or p.flags or combines or _needs_agreement(p.unit)
        if not waits and (agrees or spreads):
            first = () if p.messages else replicated
            yield ir.Agree(flags=p.flags, values=first, fence=not agrees, pos=s.pos)
        if p.messages and combines:  # owners must have the values before they execute messages
            yield ir.Exchange(combines=combines, spreads=(), pos=s.pos)
            combines = ()
        for i, m in enumerate(p.messages, 1):
            last = i == len(p.messages)
            agree = ir.Agree(flags=p.flags, values=replicated if last else (), pos=s.pos)
            yield self._deliver(m, s.pos)
            yield agree
            yield self._local(m.unit, set(), marked)
            if last:
                yield agree
            yield ir.Clear(slot=_outbox(m.slot), pos=s.pos)
            yield ir.Clear(slot=m.slot, pos=s.pos)
        if combines or spreads:
            yield ir.Exchange(combines=combines, spreads=spreads, pos=s.pos)

    def _value(self, unit: ir.Unit, c: tuple[str, str]) -> ir.Expr | None:
        """The value that the step of a derived unit writes to a column; None if values may differ.

        It is an expression of the program, with the same value in all parts.
        """
        # on ranks no part writes to memory of another; bits of rows are in the order of mirrors
        if unit.ranks or self.unordered_mirrors:
            return None
        (step,) = unit.blocks[0].steps
        assert isinstance(step, ir.Foreach)
        kernel = next(f for f in unit.funcs if f.name == step.kernel)
        column = self.stores[c[0]].column(c[1])
        effects = [n for n in ir.walk(unit.funcs) if n.writes]
        effects = [n for n in effects if (n.place.slot, n.place.column) == c]  # type: ignore[attr-defined]
        writes = [n for n in ir.find(kernel, ir.Write) if (n.place.slot, n.place.column) == c]
        if column is None or column.size or len(writes) != len(effects) or not writes:
            return None
        if self._bound(c):  # mirrors may differ from their rows before the step
            return None
        params = [n for n, t in kernel.params[1:] if not isinstance(t, Object)]
        args = [x for x in step.args if not isinstance(x.type, Object)]
        given = dict(zip(params, args, strict=True))
        value = writes[0].value
        fixed = {n: x for n, x in given.items() if n not in ir.bound(ir.walk(kernel))}
        names = {n.name for n in ir.find(value, ir.Var)}
        if names - fixed.keys() or not all(ir.equal(n.value, value) for n in writes):
            return None
        value = ir.rewritten(value, lambda n: fixed[n.name] if isinstance(n, ir.Var) else None)
        return value if all(isinstance(n, UNVARYING) for n in ir.walk(value)) else None

    def _bound(self, c: tuple[str, str]) -> str:
        """The operation by which steps compare new values with mirrors of a column, if any."""
        return _only(p.bounds[c] for p in self.steps if c in p.bounds)

    def _flags(self, c: tuple[str, str]) -> bool:
        """Whether atomics on mirrors of a column may raise flags, which need the owner's values."""
        return any(p.flags and any((x.slot, x.column) == c for x in p.combines) for p in self.steps)

    def _stays_bound(self, p: Partitioning, c: tuple[str, str]) -> bool:
        """Whether mirrors remain valid bounds after the step."""
        if not (how := self._bound(c)) or p.sole_operations.get(c) != how:
            return False
        self.kept.add(c)
        return True

    def _is_listed(self, p: Partitioning) -> bool:
        """Whether a step runs over a collection of rows, not over all rows."""
        (block,) = p.unit.blocks
        (step,) = block.steps
        return isinstance(step, ir.Foreach) and step.slot in self.rows.lists

    def _marked(self, steps: tuple[Partitioning, ...]) -> frozenset[tuple[str, str]]:
        """The columns whose changed rows are marked by steps over collections.

        Between steps the mirrors of unmarked rows must have the values of their owners: columns
        that parts change at mirrors are excluded, and other steps send all rows.
        """
        changed = {c for p in steps if self._is_listed(p) for c in p.writes}
        return frozenset((changed & self.spreads).difference(*(p.mirrored for p in steps)))

    def _deliver(self, m: Message, pos: Pos) -> ir.Deliver:
        table = self.stores[m.slot].columns[0].ref
        assert table is not None
        graph = self.rows.points.get(table) or self.rows.edges[table]
        points = dict(graph.tables)["points"]
        ids = _mirrors(points, GLOBAL_ID, pos) if m.points else None
        b = m.bound
        bound = None if b is None else _mirrors(b.slot, b.column, pos, b.op)
        return ir.Deliver(
            outbox=_outbox(m.slot), inbox=m.slot, table=table, points=m.points, ids=ids,
            bound=bound, offered=m.offered, pos=pos,
        )  # fmt: skip

    def _local(
        self, unit: ir.Unit, sent: set[str], marked: frozenset[tuple[str, str]]
    ) -> ir.Foreach:
        """The step of a derived unit, with its functions renamed to unique names."""
        (block,) = unit.blocks
        (step,) = block.steps
        assert isinstance(step, ir.Foreach)
        names: dict[str, str] = {}

        def change(n: ir.Node) -> Any:
            if isinstance(n, ir.Call) and names.get(n.func, n.func) != n.func:
                return replace(n, func=names[n.func], args=ir.rewritten(n.args, change))
            if isinstance(n, ir.Add | ir.Need) and n.slot in sent:
                outbox = replace(n, slot=_outbox(n.slot))
                return ir.with_parts(outbox, lambda x: ir.rewritten(x, change))
            return None

        for f in unit.funcs:  # callees first
            f = ir.rewritten(f, change)
            if marked:
                f = ir.rewrite_bodies(f, lambda body: body and _with_marks(body, marked))
            if isinstance(f, ir.Kernel):
                f = replace(f, where=names[f.where] if f.where else None, ahead=None)
            k, name = 1, f.name
            while not ir.equal(known := self.funcs.get(name, f), replace(f, name=known.name)):
                k += 1
                name = f"{f.name}_{k}"
            names[f.name] = name
            self.funcs[name] = replace(f, name=name)
        return replace(step, kernel=names[step.kernel])

    def _called(self, blocks: tuple[ir.Block, ...]) -> tuple[ir.Func, ...]:
        """The functions that conditions and arguments call."""
        names = {f.name for f in called(ir.walk(blocks), self.known)}
        return tuple(f for n, f in self.known.items() if n in names and n not in self.funcs)

    # --- replicated values and sizes -------------------------------------------------------------

    def _replicated_values(self, p: Partitioning, pos: Pos) -> Iterator[ir.ReplicatedValue]:
        """The copied values that are made equal after a step; the program keeps the old values."""
        for t in p.replicated:
            column = self.stores[t.slot].column(t.column)
            assert column is not None
            if t.slot not in self.one_row and t.slot not in self.unit.made:
                raise NeedsSteps("all parts have copies of several rows, which a step changes")
            if column.dtype.bits == 16:
                raise NeedsSteps("a number of 16 bits has to become one in all parts")
            zero = ir.Const(value=0, type=I32, pos=pos)
            row = ir.Cast(x=zero, type=Handle(t.slot), pos=pos)
            for i in range(column.size) if column.size else (None,):
                index = None if i is None else ir.Const(value=i, type=I32, pos=pos)
                place = ir.Place(
                    slot=t.slot, column=t.column, row=row, index=index, type=column.dtype, pos=pos
                )
                name = f"before{len(self.state)}_"
                self.state[name] = column.dtype
                yield ir.ReplicatedValue(
                    op=t.op, place=place, pos=pos,
                    before=ir.Var(name=name, type=column.dtype, pos=pos),
                )  # fmt: skip

    def _sized(self, n: ir.Node) -> Any:
        """Replace a size by the sum over all parts."""
        if not isinstance(n, ir.StoreSize):
            return None
        if n.slot in self.rows.lists:
            return replace(n, in_all=True)
        if n.slot not in self.rows.tables:
            return n
        graph = (self.rows.points.get(n.slot) or self.rows.edges[n.slot]).slot
        kind = "points" if n.slot in self.rows.points else "edges"
        name = f"{kind}_of_{graph.replace('.', '_')}_"
        self.hidden[name] = Hidden(name, kind, graph)
        return ir.Var(name=name, type=I64, pos=n.pos)

    # --- refusals --------------------------------------------------------------------------------

    def _refuse_unit(self) -> None:
        """Refuse rebuilt adjacency and sections; and rows of parts outside of steps."""
        if self.unit.checked or abi.rebuilt(self.unit):
            raise NeedsSteps("checks and changes of the graph need single launches")
        for n in ir.walk(self.unit.blocks):
            calls = [f for f in (n,) if isinstance(f, ir.Call)]
            inside = [x for c in calls for f in reached(c.func, self.known) for x in ir.walk(f)]
            if any(map(self._is_of_part, (n, *inside))) or any(
                isinstance(x, ir.StoreSize) and self._divides(x.slot) for x in inside
            ):
                raise NeedsSteps("the program itself uses rows of parts")
            if isinstance(n, ir.OneThread) and any(x.fails for x in ir.walk(n)):
                raise NeedsSteps("the program itself allocates")
            if isinstance(n, ir.Foreach) and n.sections > 1:
                raise NeedsSteps("parts execute no sections side by side")

    def _divides(self, slot: str) -> bool:
        return slot in self.rows.tables or slot in self.rows.lists

    def _is_of_part(self, n: Any) -> bool:
        """Whether a node of the program, outside of kernels, depends on rows of one part."""
        if isinstance(n, ir.Foreach | ir.Clear | ir.StoreSize):
            return False
        slot = self._divides(getattr(n, "slot", "")) or getattr(n, "graph", "") in self.graphs
        return slot or (isinstance(n, ir.Cast) and self.rows.partitioned(n.type))

    def _refuse_spreads(self, steps: tuple[Partitioning, ...]) -> None:
        """Refuse columns of rows at mirrors, wide tables, and too many words for a crossing."""
        columns = {(c.slot, c.column) for p in steps for c in p.combines} | self.spreads
        routed = {slot for slot, _ in columns} | {box.table for box in self.boxes}
        if any(self.stores[slot].wide for slot in routed):  # routes have rows of 32 bits
            raise NeedsSteps("parts exchange rows of a table of 2^31 rows or more")
        for slot, name in sorted(columns):
            column = self.stores[slot].column(name)
            assert column is not None
            if column.ref in self.rows.tables:
                raise NeedsSteps("mirrors have a column of points or edges, whose ids differ")
        lists = len(self.rows.lists)
        for p in steps:
            sizes = [self.stores[t.slot].column(t.column) for t in p.replicated]
            number = sum(max(c.size, 1) for c in sizes if c is not None)
            if number + lists + 1 + OWN_VALUES + MESSAGE_WORDS > MOST_WORDS or len(p.flags) > 64:
                raise NeedsSteps("a step changes more numbers than parts send at once")


def _joined(steps: Iterable[Any]) -> tuple[Any, ...]:
    """Append assignments to the statements of one thread before them.

    They save replicated values from before a step.  If all threads read these, a barrier would
    precede it.
    """
    found = list[Any]()
    for s in steps:
        last = found[-1] if found else None
        if isinstance(s, ir.Assign) and isinstance(last, ir.OneThread) and last.body:
            found[-1] = replace(last, body=(*last.body, s))
        else:
            found.append(s)
    return tuple(found)


def _only(operations: Iterable[str | None]) -> str:
    """The operation, if all are equal; else the empty string."""
    found = set(operations)
    return (found.pop() or "") if len(found) == 1 else ""


def _outbox(slot: str) -> str:
    """The slot of the messages to be sent; its ending is reserved."""
    return f"{slot}_sent_"


def _with_marks(body: ir.Body, columns: Container[tuple[str, str]]) -> ir.Body:
    """Add marks of the rows whose columns statements change, after consecutive writes."""
    found, first = list[ir.Stmt](), 0  # of the writes at the end
    for s in body:
        if not isinstance(s, ir.Write):
            first = len(found)
        n: Any = s if s.writes else getattr(s, "value", None)
        if n is not None and n.writes and (n.place.slot, n.place.column) in columns:
            p = n.place
            found.insert(first, ir.Mark(slot=p.slot, column=p.column, row=p.row, pos=s.pos))
            first += 1
        found.append(ir.rewrite_bodies(s, lambda x: _with_marks(x, columns)))
    return tuple(found)


def _mirrors(slot: str, column: str, pos: Pos, op: str = "") -> ir.Mirrors:
    return ir.Mirrors(slot=slot, column=column, op=op, pos=pos)


def _needs_agreement(unit: ir.Unit) -> bool:
    """Whether a step may fail on one part, or changes sizes."""
    return any(n.fails or n.resizes for n in ir.walk(unit.funcs))
