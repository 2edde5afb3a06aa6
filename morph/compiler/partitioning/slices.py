"""Changes at the other end of an edge, whose row may be a mirror: combined or sent to the owner.

An atomic whose result is not used changes the mirror, and the mirrors are combined with the owner's
value after the step.  Any other change forms a *slice* with the statements that depend on it.  For
an owned row, the kernel executes the slice in place.  For a mirror, the kernel sends a message with
the values that the slice uses, and the owner executes the slice in a kernel over messages.  Later
statements of the item may not read a column that the slice changes, unless the sender has written
the same value to the mirror.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import Any

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.layout import GLOBAL_ID
from morph.compiler.ir.sites import declared
from morph.compiler.ir.spelling import user_name
from morph.compiler.partitioning.ownership import ENDS, Ownership, bare, widened
from morph.compiler.partitioning.receivers import Receiver, assigned, refuse_value
from morph.compiler.partitioning.replicated import COMBINED
from morph.compiler.partitioning.uniform import Uniform
from morph.compiler.passes.effects import called
from morph.compiler.passes.liveness import read_first
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import (
    BOOL,
    I64,
    NOTHING,
    Handle,
    Scalar,
    Store,
    Type,
)

HINT = "keep what the item itself changes, and what it computes for later, out of these statements"


@dataclass
class Slice:
    """Statements that the owner of a row executes.

    Attributes
    ----------
    store : Store
        The collection of messages: the row (``item``), and the values that the statements use.
    body : tuple of Stmt
        The statements, with values loaded from ``entry``, a message.
    locals : dict of str to Type
    locks : bool
        Whether owned rows are sent, too: a lock is acquired once in the whole step.
    bound, offered
        As in `derivation.Message`: a slot, a column and an operation; the value's column.
    """

    store: Store
    body: ir.Body
    locals: dict[str, Type]
    locks: bool
    pos: Pos
    bound: tuple[str, str, str] | None = None
    offered: str = ""


@dataclass(frozen=True)
class Sent:
    """The statements that a sender executes after a slice, and the columns that the slice changes.

    Attributes
    ----------
    columns : dict of (slot, column) to bool
        Changed columns that the mirror does not have after sending; whether the sender can write
        them to the mirror.
    locks : bool
        Whether owned rows are changed by messages, too.
    after : tuple of Node
        The slice, and the statements after it.
    """

    columns: dict[tuple[str, str], bool]
    locks: bool
    after: tuple[Any, ...]


@dataclass
class Cutter:
    """Extracts changes at other ends from a kernel with global ids and inlined calls."""

    rows: Ownership
    kernel: ir.Kernel
    owned: dict[str, str]  # by table, the scalar with the number of own rows
    taken: set[str]  # names of slots
    uniform: Uniform
    combines: dict[tuple[str, str], str] = field(default_factory=dict)
    spreads: set[tuple[str, str]] = field(default_factory=set)
    bounds: dict[tuple[str, str], str] = field(default_factory=dict)  # see `Partitioning.bounds`
    slices: list[Slice] = field(default_factory=list)
    by_owner: set[int] = field(default_factory=set)  # `id` of nodes that the owner executes
    sent: list[Sent] = field(default_factory=list)
    copied: set[tuple[str, str]] = field(default_factory=set)  # senders write them to mirrors, too
    mirrored: set[tuple[str, str]] = field(default_factory=set)  # that senders change at mirrors
    locals: dict[str, Type] = field(init=False)
    _improvement: ir.Atomic | None = None  # of a slice without effect, unless it improves on others

    def __post_init__(self) -> None:
        self.locals = dict(self.kernel.locals)
        self.written: dict[tuple[str, str], Any] = {}  # what is written to a column of other ends
        funcs = [f for f in self.rows.funcs.values() if f.name != self.kernel.name]
        nodes = list(ir.walk((self.kernel.body, *funcs)))
        self.ops: dict[tuple[str, str], set[str]] = defaultdict(set)  # of all changes, by column
        self.names: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.remote_ops: dict[tuple[str, str], set[str]] = defaultdict(set)
        for n in nodes:
            if n.writes:
                self.ops[self._column(n)].add(_operation(n))
                self.names[self._column(n)].add(n.op if isinstance(n, ir.Atomic) else "")
        self.needed: set[tuple[str, str]] = set()  # columns whose values messages depend on
        self._read_by_owner: set[tuple[str, str]] = set()
        unused = {id(n.value) for n in nodes if isinstance(n, ir.Eval)}
        for n, _ in self._remote(self.kernel.body):
            if n.writes:
                how = n.op if isinstance(n, ir.Atomic) else ""
                used = how != "" and id(n) not in unused
                if used:
                    self.needed.add(self._column(n))
                if COMBINED.get(how) == "add" and (used or n.flag):
                    how = ""  # a mirror that accumulates does not have the row's value
                self.remote_ops[self._column(n)].add(COMBINED.get(how, ""))
        self.read = {
            (n.place.slot, n.place.column)
            for f in self.rows.funcs.values()
            for n in ir.walk(f)
            if isinstance(n, ir.Load) and not self.rows.owns(n.place.row, f.name)
        }

    def kernel_of_sender(self) -> ir.Kernel:
        """The kernel without changes at other ends."""
        before = dict(self.locals), set(self.taken), set(self.spreads)
        body = self._body((), self.kernel.body)
        while True:
            # combined columns that the owner reads are changed by messages instead
            read = self._read_by_owner & self.combines.keys()
            unseen = set() if read else self._unseen()
            if not read and not unseen:
                break
            self.needed |= read
            self.copied |= unseen
            self.locals, self.taken, self.spreads = dict(before[0]), set(before[1]), set(before[2])
            self.combines, self.slices, self.by_owner, self.sent = {}, [], set(), []
            self.bounds, self.mirrored = {}, set()
            self._read_by_owner = set()
            body = self._body((), self.kernel.body)
        nodes = [n for f in self.rows.funcs.values() for n in ir.walk(f)]
        locks = [n for n in nodes if isinstance(n, ir.Lock) and n.slot in self.rows.tables]
        if any(s.locks for s in self.slices) and len(locks) > 1:
            problem = "single at the other end of an edge is the only single of a kernel"
            reject(problem, locks[1].pos, "use single(t.column) of a column of i32")
        return replace(self.kernel, body=body, locals=tuple(self.locals.items()))

    # --- extent of a slice -----------------------------------------------------------------------

    def _body(self, after: ir.Body, body: ir.Body) -> ir.Body:
        """Statements without changes at other ends; ``after``: the statements that follow."""
        done: list[ir.Stmt] = []
        i = 0
        while i < len(body):
            if len(body) > i + 1 and (test := self._early_test(body[i], body[i + 1])):
                body = (*body[:i], test, body[i], *body[i + 2 :])
            s, rest = body[i], (*body[i + 1 :], *after)
            i += 1
            if not self._remote(s):
                done.append(s)
            elif s.loop:
                known = len(self.slices)
                done.append(ir.rewrite_bodies(s, partial(self._body, (s, *rest))))
                if isinstance(s, ir.While) and len(self.slices) > known:
                    problem = "how many changes at other ends of edges this loop sends is not known"
                    reject(problem, s.pos, "use a `for` over edges or a range")
            elif isinstance(s, ir.If) and self._is_entered(s, rest):
                done.append(ir.rewrite_bodies(s, partial(self._body, rest)))
            elif self._is_combined(s):
                done.append(self._combined(s))
            else:
                last = self._end(body, i)
                while last < len(body) and self._is_in_order(body[i - 1 : last], body[last]):
                    last = self._end(body, last + 1)
                done += self._sent(body[i - 1 : last], (*body[last:], *after))
                i = last
        return tuple(done)

    def _is_entered(self, s: ir.If, rest: ir.Body) -> bool:
        """Whether the sender evaluates the condition of a branch, and slices lie in the branch."""
        combined = all(self._is_combinable(n) for n, _ in self._remote(s))
        if assigned((s.then, s.orelse)) & read_first(rest) and not combined:
            return False
        if not self._only_owner_knows(s.cond):
            return True
        return combined and not s.orelse and self._stays_false(s.cond)

    def _early_test(self, s: ir.Stmt, test: ir.Stmt) -> ir.If | None:
        """The test ``x >= u`` after ``x = atomic_min(t.c, u)``, as a test of ``t.c`` before it.

        If this is the only change of the column in the step, with the same ``u`` for all items,
        the row has either its value before the step or ``u``; the test gives the same result for
        both, also at a mirror.
        """
        match s, test:
            case (
                ir.Assign(name=name, value=ir.Atomic(op=("min" | "max") as how, flag=None) as a),
                ir.If(cond=ir.Compare() as c, then=then, orelse=()),
            ) if self._remote(s):
                u, column = a.args[0], self._column(a)
            case _:
                return None
        op, x = ">=" if how == "min" else "<=", ir.Var(name=name, type=a.type, pos=a.pos)
        if (op, bare(x), bare(widened(u))) not in _same(c) or not self._is_only_change(a):
            return None
        nodes, made = list(ir.walk(then)), assigned(then)
        if any(isinstance(n, ir.Call) or self._touches(n, column) for n in nodes):
            return None
        if made & ir.used(ir.walk(s)) or name in made | ir.used(nodes) or [*_leaving(then)]:
            return None
        load = ir.Load(place=a.place, type=a.type, pos=a.pos)
        return replace(test, cond=ir.Compare(op=op, x=load, y=u, type=BOOL, pos=a.pos))

    def _is_only_change(self, a: ir.Atomic) -> bool:
        """Whether a column changes in no other way, and by the same value for all items."""
        offered = bare(widened(a.args[0]))
        changes = [
            (n, f.name)
            for f in self.rows.funcs.values()
            for n in ir.walk(f.body)
            if n.writes and self._column(n) == self._column(a)
        ]
        return self._is_uniform(a.args[0]) and all(
            isinstance(n, ir.Atomic)
            and (f, n.op, bare(widened(n.args[0]))) == (self.kernel.name, a.op, offered)
            for n, f in changes
        )

    def _touches(self, n: Any, column: tuple[str, str]) -> bool:
        """Whether a node reads or writes a column."""
        return (isinstance(n, ir.Load) or n.writes) and self._column(n) == column

    def _end(self, body: ir.Body, first: int) -> int:
        """The end of a slice that contains the statements before ``first``."""
        last = first
        while True:
            made = assigned(body[first - 1 : last])
            here = [k for k in range(last, len(body)) if ir.used(ir.walk(body[k])) & made]
            if not here:
                return last
            last = here[-1] + 1

    def _is_in_order(self, body: ir.Body, s: ir.Stmt) -> bool:
        """Whether a statement extends the preceding slice, so that the owner executes it in order.

        Otherwise the owner executes the slices of all items, for all edges to the row, before it.
        """
        name, columns = self.kernel.name, list[set[tuple[str, str]]]()
        changed = [row for n in ir.walk(s) if (row := self.rows.changed_row(n)) is not None]
        keys = {self.rows.name(row, name) for _, row in self._remote(body)}
        if not changed or {self.rows.name(row, name) for row in changed} | keys != keys:
            return False
        if any(isinstance(n, ir.Stmt) and (n.loop or n.leaves) for n in ir.walk(s)):
            return False
        for x in (body, s):
            nodes = (n for n in ir.walk(x) if isinstance(n, ir.Load) or n.writes)
            columns.append({self._column(n) for n in nodes})
        return bool(columns[0] & columns[1] & self.needed)

    def _is_combinable(self, n: Any) -> bool:
        """Whether an atomic without a used result may change the mirror."""
        if not isinstance(n, ir.Atomic) or n.place.slot not in self.rows.points:
            return False
        column = self._column(n)
        how, ops = COMBINED.get(n.op), self.remote_ops[column]
        if column in self.needed:
            return False  # mirrors are combined before messages are executed
        if how == "add":
            return ops == {how} and column not in self.read
        # a mirror's stale value must not be combined if the owner's value was changed otherwise
        return how is not None and ops == {how} and self.names[column] == {how}

    def _is_combined(self, s: ir.Stmt) -> bool:
        return isinstance(s, ir.Eval) and self._is_combinable(s.value)

    def _combined(self, s: Any) -> ir.Stmt:
        column, how = self._column(s.value), COMBINED[s.value.op]
        self.combines[column] = how
        self.mirrored.add(column)
        if how != "add":
            self.bounds[column] = how
        return s  # type: ignore[no-any-return]

    # --- reads by an item after its own changes --------------------------------------------------

    def _unseen(self) -> set[tuple[str, str]]:
        """Changed columns that the item reads later; refuse those that a sender cannot copy."""
        found = set()
        for s in self.sent:
            for n, column in self._read_by_sender(s):
                if column in s.columns:
                    if not s.columns[column]:
                        name = user_name(column[1])
                        problem = f"this reads {name!r}, which the item may have changed before"
                        where = "by a message that its receiver executes after the step"
                        reject(f"{problem} {where}", n.pos, "read it in a step of its own")
                    found.add(column)
        return found

    def _read_by_sender(self, sent: Sent) -> Iterator[tuple[Any, tuple[str, str]]]:
        """The loads by the sender after a slice, and their columns."""
        for n in ir.walk(sent.after):
            if id(n) in self.by_owner:
                continue
            inner = called((n,), self.rows.funcs) if isinstance(n, ir.Call) else []
            loads = [(n, self.kernel.name), *((x, f.name) for f in inner for x in ir.walk(f.body))]
            for x, f in loads:
                if isinstance(x, ir.Load):
                    divided = x.place.slot in self.rows.tables
                    if not divided or sent.locks or not self.rows.owns(x.place.row, f):
                        yield n, self._column(x)

    # --- a slice ---------------------------------------------------------------------------------

    def _sent(self, body: ir.Body, after: ir.Body) -> ir.Body:
        """The slice for owned rows, and the message for other rows."""
        name, pos = self.kernel.name, body[0].pos
        changes = self._remote(body)
        keys = {self.rows.name(row, name) for _, row in changes}
        made = assigned(body)
        known = [x for x in (*(row for _, row in changes), *keys) if not ir.used(ir.walk(x)) & made]
        if len(keys) != 1 or not known:
            problem = "what is done at the other end of one edge depends on that of another"
            reject(problem, pos, "change one of the two rows here, the other in a step of its own")
        (key,), target = keys, known[0]
        self._check(body, after, key)
        assert isinstance(target.type, Handle)
        receiver = Receiver(
            self.rows, self.kernel, self.locals, self._is_uniform, body, key, target.type
        )
        found = Slice(
            receiver.store(self._slot(), target.type.slot), receiver.body(), receiver.locals,
            any(isinstance(n, ir.Lock) and n.slot in self.rows.tables for n in ir.walk(body)), pos,
        )  # fmt: skip
        self.slices.append(found)
        values = (("item", target), *receiver.sent)
        add = ir.Add(slot=found.store.slot, values=values, type=NOTHING, pos=pos)
        send: ir.Body = (ir.Eval(value=add, pos=pos),)
        self._improvement = None
        send = self._filtered(body, send, found.locks, made)
        found.bound, found.offered = self._best_value(receiver.sent)
        writes = [
            x for x in body
            if isinstance(x, ir.Write) and not receiver.is_local((x.value, x.place.index))
        ]  # fmt: skip
        if not found.locks:
            send = (*(x for x in writes if self._column(x) in self.copied), *send)
        self._record_sent(body, after, send, [] if found.locks else writes)
        if found.locks:
            return send
        number = ir.Cast(x=target, type=I64, pos=pos)
        limit = ir.Var(name=self.owned[target.type.slot], type=I64, pos=pos)
        cond = ir.Compare(op="<", x=number, y=limit, type=BOOL, pos=pos)
        return (ir.If(cond=cond, then=body, orelse=send, pos=pos),)

    def _record_sent(
        self, body: ir.Body, after: ir.Body, send: ir.Body, writes: list[ir.Write]
    ) -> None:
        """Record the columns that a slice changes and that ``send`` does not copy to mirrors."""
        changes = [n for n in ir.walk(body) if n.writes]
        count = Counter(map(self._column, changes))
        done = Counter(self._column(n) for n in ir.walk(send) if n.writes)
        self.mirrored |= done.keys()
        copyable = Counter(map(self._column, writes))
        columns = {c: copyable[c] == k for c, k in count.items() if done[c] < k}
        locks = any(isinstance(n, ir.Lock) for n in ir.walk(body))
        self.sent.append(Sent(columns, locks, (body, after)))

    def _slot(self) -> str:
        slot = next(
            s for k in range(len(self.taken) + 1) if (s := f"messages{k}") not in self.taken
        )
        self.taken.add(slot)
        return slot

    def _check(self, body: ir.Body, after: ir.Body, key: ir.Expr) -> None:
        """Refuse a slice that another part cannot execute; record the nodes of the owner."""
        name, nodes = self.kernel.name, list(ir.walk(body))
        made = assigned(body)
        if escaping := sorted(made & read_first(after)):
            problem = (
                f"{user_name(escaping[0])!r} is used after a change at the other end of an edge"
            )
            reject(problem, body[0].pos, HINT)
        for n in _leaving(body):
            reject("a loop ends where the other end of an edge is changed", n.pos, HINT)
        for n in nodes:
            row = self.rows.changed_row(n)
            if row is not None and self.rows.owns(row, name):
                problem = "what is done at an item depends on a change at the other end of an edge"
                reject(problem, n.pos, "do it in another step")
            if isinstance(n, ir.ForEdges | ir.ForRows):
                reject("this loop belongs to a change at the other end of an edge", n.pos, HINT)
            match n:
                case ir.Load(place=p):
                    row = p.row
                case ir.Degree():
                    row = n.point
                case ir.Call() if any(self.rows.name(x, name) == key for x in n.args):
                    self.by_owner.add(id(n))
                    continue
                case ir.FindEdge():
                    row = n.x
                    if self.rows.name(row, name) != key:
                        refuse_value(n)
                case _:
                    continue
            if self.rows.name(row, name) == key:
                self.by_owner.add(id(n))
                if isinstance(n, ir.Load):
                    self._read_by_owner.add(self._column(n))
        for f in called(nodes, self.rows.funcs):
            loads = ir.find(f.body, ir.Load)
            self._read_by_owner |= {self._column(n) for n in loads}
        self._check_writes(body, False, made)

    def _check_writes(self, body: ir.Body, conditional: bool, made: set[str]) -> None:
        """Refuse non-atomic writes of different values to one row."""
        for s in body:
            if isinstance(s, ir.Write) and s.place.slot in self.rows.tables and not conditional:
                key = self.uniform.key(s.value, self.kernel.name)
                one = self.uniform.is_uniform(s.value, self.kernel.name)
                one &= key == self.written.setdefault(self._column(s), key)
                if not one and not declared(s.pos):
                    problem = (
                        "several items may write different values at the other end of their edges"
                    )
                    reject(problem, s.pos, "use an atomic; or declare it: # race: and a reason")
            inner = conditional
            if isinstance(s, ir.If):
                inner = inner or bool(ir.used(ir.walk(s.cond)) & made)
            for b in ir.bodies(s):
                self._check_writes(b, inner, made)

    # --- omission of messages --------------------------------------------------------------------

    def _filtered(
        self, body: ir.Body, send: ir.Body, locks: bool, made: set[str],
        conditions: tuple[ir.Expr, ...] = (),
    ) -> ir.Body:  # fmt: skip
        """Send no message if the values at the mirror imply that the slice has no effect.

        The slice begins with branches on the ``conditions``.
        """
        s = body[0]
        if len(body) == 1 and isinstance(s, ir.If) and not s.orelse:
            conjuncts = tuple(_conjuncts(s.cond))
            inner = self._filtered(s.then, send, locks, made, conditions + conjuncts)
            tested = takewhile(
                lambda c: not ir.used(ir.walk(c)) & made and self._stays_false(c), conjuncts
            )
            for c in reversed(list(tested)):
                self._record_spreads(c)
                inner = (ir.If(cond=c, then=inner, orelse=(), pos=c.pos),)
            return inner
        if isinstance(s, ir.Assign) and isinstance(s.value, ir.Atomic) and not locks:
            a = s.value
            if a.op in ("min", "max") and not ir.used(ir.walk((a.place, a.args))) & made:
                same = all(self._holds_at_owner(c, a, made) for c in conditions)
                if same and self.remote_ops[self._column(a)] == {a.op}:
                    return self._improving(s.name, a, body[1:], send)
        return send

    def _holds_at_owner(self, c: ir.Expr, a: ir.Atomic, made: set[str]) -> bool:
        """Whether a condition before an atomic holds for the owner whenever the atomic improves.

        It has the same value for the sender, or is false only if the row is at least as good.
        """
        if isinstance(c, ir.Call):
            f = self.rows.funcs[c.func]
            if len(f.body) == 1 and isinstance(f.body[0], ir.Return) and f.body[0].value:
                values = {name: x for (name, _), x in zip(f.params, c.args, strict=True)}
                result = ir.rewritten(
                    f.body[0].value,
                    lambda n: values.get(n.name) if isinstance(n, ir.Var) else None,
                )
                return all(self._holds_at_owner(x, a, made) for x in _conjuncts(result))
        if isinstance(c, ir.Compare):
            load = ir.Load(place=a.place, type=a.type, pos=a.pos)
            offered = bare(load), bare(widened(a.args[0]))
            better = (">", ">=") if a.op == "min" else ("<", "<=")
            if any((op, *offered) in _same(c) for op in better):
                return True
        return not ir.used(ir.walk(c)) & made and not self._only_owner_knows(c, self.ops)

    def _best_value(self, sent: list[tuple[str, ir.Expr]]) -> tuple[Any, str]:
        """The bound of the slice's messages, and the column of the value: see `Slice`."""
        a = self._improvement
        if a is None or a.place.index is not None:
            return None, ""
        column = self._column(a)
        changes = [n for n, _ in self._remote(self.kernel.body) if n.writes]
        offered = [name for name, x in sent if bare(x) == bare(a.args[0]) and x.type == a.type]
        if [self._column(n) for n in changes].count(column) > 1 or not offered:
            return None, ""
        return (*column, a.op), offered[0]

    def _improving(self, name: str, a: ir.Atomic, rest: ir.Body, send: ir.Body) -> ir.Body:
        """Send a message only if its value improves on all earlier ones of this mirror."""
        better = (">", ">=", "==") if a.op == "min" else ("<", "<=", "==")
        for strict in (True, False):
            false = {
                (op, bare(ir.Var(name=name, type=a.type, pos=a.pos)), bare(widened(a.args[0])))
                for op in (better[:1] if strict else better)
            }
            if name not in assigned(rest) and not _has_effect(rest, false, {}):
                seen = f"{name}_seen{len(self.slices)}_"
                self.locals[seen] = a.type
                old = ir.Var(name=seen, type=a.type, pos=a.pos)
                op = better[0] if strict else better[1]
                cond = ir.Compare(op=op, x=old, y=a.args[0], type=BOOL, pos=a.pos)
                self.bounds[self._column(a)] = a.op
                self._improvement = a if strict else None
                value = replace(a, flag=None)
                return (
                    ir.Assign(name=seen, value=value, pos=a.pos),
                    ir.If(cond=cond, then=send, orelse=(), pos=a.pos),
                )
        return send

    def _stays_false(self, c: ir.Expr) -> bool:
        """Whether a condition that is false at a mirror is false at its owner during the step."""
        if not self._only_owner_knows(c):
            return True
        if isinstance(c, ir.Logic):
            return c.op == "and" and self._stays_false(c.x) and self._stays_false(c.y)
        if not isinstance(c, ir.Compare) or c.op not in (">", ">=", "<", "<="):
            return False
        for x, y, falling in ((c.x, c.y, c.op in (">", ">=")), (c.y, c.x, c.op in ("<", "<="))):
            load = widened(x)
            if isinstance(load, ir.Load) and not self._only_owner_knows(y):
                inner = self._only_owner_knows((load.place.row, load.place.index))
                ops = self.ops[load.place.slot, load.place.column]
                return not inner and ops <= ({"min", "down"} if falling else {"max", "up"})
        return False

    def _only_owner_knows(
        self, node: object, changed: Container[tuple[str, str]] | None = None
    ) -> bool:
        """Whether a value is valid only at the owner: it is ``changed``, or depends on its edges.

        By default, ``changed`` are the columns that change at other ends of edges.
        """
        funcs, changed = self.rows.funcs, self.remote_ops if changed is None else changed
        todo, seen = [(node, self.kernel.name)], set[str]()
        while todo:
            top, f = todo.pop()
            for n in ir.walk(top):
                if isinstance(n, ir.Load) and not self.rows.owns(n.place.row, f):
                    if self._column(n) in changed:
                        return True
                if isinstance(n, ir.Degree | ir.FindEdge):
                    if not self.rows.owns(n.point if isinstance(n, ir.Degree) else n.x, f):
                        return True
                if isinstance(n, ir.Call) and n.func not in seen:
                    seen.add(n.func)
                    todo.append((funcs[n.func].body, n.func))
        return False

    def _record_spreads(self, node: object) -> None:
        """Record the columns that a condition reads at mirrors, except those with bounds."""
        for n in ir.walk(node):
            if isinstance(n, ir.Load) and not self.rows.owns(n.place.row, self.kernel.name):
                if n.place.column not in (*ENDS, GLOBAL_ID) and self._column(n) not in self.bounds:
                    self.spreads.add(self._column(n))

    def _is_uniform(self, x: object) -> bool:
        """Whether an expression has one value for all items, without locals of the kernel."""
        names = {n.name for n in ir.walk(x) if isinstance(n, ir.Var)}
        name = self.kernel.name
        return not names & self.locals.keys() and self.uniform.is_uniform(x, name)

    def _remote(self, node: object) -> list[tuple[Any, ir.Expr]]:
        return self.rows.remote(node, self.kernel.name)

    def _column(self, n: Any) -> tuple[str, str]:
        return n.place.slot, n.place.column


def _operation(n: Any) -> str:
    """The direction of a change: ``min``, ``max``, ``down`` or ``up``; empty if unknown."""
    if not isinstance(n, ir.Atomic):
        return ""
    if n.op in ("add", "sub"):
        step, t = n.args[0], n.place.type
        known = isinstance(step, ir.Const) and step.value >= 0
        wraps = not isinstance(t, Scalar) or t.bits < 32 or (n.op == "sub" and t.kind == "u")
        return ("up" if n.op == "add" else "down") if known and not wraps else ""
    return n.op if n.op in ("min", "max") else ""


def _leaving(body: ir.Body) -> Iterator[ir.Node]:
    """The statements that leave a body."""
    for s in body:
        if s.leaves:
            yield s
        for b in ir.bodies(s):
            yield from (n for n in _leaving(b) if not s.loop or isinstance(n, ir.Return))


def _conjuncts(c: ir.Expr) -> Iterator[ir.Expr]:
    if isinstance(c, ir.Logic) and c.op == "and":
        yield from _conjuncts(c.x)
        yield from _conjuncts(c.y)
    else:
        yield c


def _has_effect(body: ir.Body, false: set[Any], known: dict[str, bool]) -> bool:
    """Whether statements have an effect if the comparisons ``false`` are false."""
    for s in body:
        match s:
            case ir.Assign(value=ir.Const(value=bool(x))):
                known[s.name] = x
            case ir.Assign() if not s.value.effect and not isinstance(s.value, ir.Call):
                known.pop(s.name, None)
            case ir.If():
                c = s.cond
                if isinstance(c, ir.Var) and c.name in known:
                    taken = [s.then if known[c.name] else s.orelse]
                elif isinstance(c, ir.Compare) and _same(c) & false:
                    taken = [s.orelse]
                else:
                    taken = [s.then, s.orelse]
                one = len(taken) == 1
                if any(_has_effect(b, false, known if one else {}) for b in taken):
                    return True
                if not one:
                    for name in ir.bound(ir.walk(tuple(taken))):
                        known.pop(name, None)
            case _:
                return True
    return False


def _same(c: ir.Compare) -> set[Any]:
    """A comparison, and its equivalent with exchanged operands."""
    flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(c.op, c.op)
    x, y = bare(widened(c.x)), bare(widened(c.y))
    return {(c.op, x, y), (flipped, y, x)}
