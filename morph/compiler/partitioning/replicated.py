"""Replicated values, of which each part of a graph has a copy: how a step changes them.

These are the columns of all tables except points and edges.  After the step, the copies of all
parts are combined to one value by the operation that changes them (`ReplicatedColumn`).  A non-
atomic write in a step over points or edges has to write the same value for all items, as parts
execute their items in no common order.  In a kernel over replicated rows, a loop over all points is
divided between the parts: its iterations must be independent, except for reductions that are
written after the loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeGuard

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.sites import declared
from morph.compiler.ir.spelling import user_name
from morph.compiler.partitioning.ownership import Ownership
from morph.compiler.partitioning.uniform import NONE, Reason, Reasons, Uniform, Why
from morph.compiler.passes.effects import functions_of_kernel
from morph.compiler.passes.independence import is_divisible, reductions_of
from morph.compiler.passes.inlining import inline_all
from morph.compiler.passes.liveness import read_first
from morph.language.errors import reject

COMBINED = {"add": "add", "sub": "add", "min": "min", "max": "max", "or": "or", "and": "and"}
REDUCE = "add to it, or take the minimum or maximum; and write it to scalars after the loop"


class Agreement(StrEnum):
    """How the copies of a replicated column become one value after a step."""

    ADD = "add"  # the old value plus each part's difference to it
    MIN = "min"  # of all parts' values; so are MAX, OR, AND and SUM
    MAX = "max"
    OR = "or"
    AND = "and"
    SUM = "sum"
    SET = "set"  # the value of a part that has changed it
    FIRST = "first"  # the value of the first part
    SAME = "same"  # all parts have made the same change


# how the parts' values of a local are combined, by the operation of its reduction
REDUCED = {
    "+": Agreement.SUM, "|": Agreement.OR, "&": Agreement.AND,
    "min": Agreement.MIN, "max": Agreement.MAX,
}  # fmt: skip
# changes that all parts make, and how copies are combined: sets of operations that commute
COMMUTING = {Agreement.MIN, Agreement.MAX, Agreement.ADD}, {Agreement.AND, Agreement.OR}
IDEMPOTENT = {Agreement.MIN, Agreement.MAX, Agreement.OR, Agreement.AND}


@dataclass(frozen=True, slots=True)
class ReplicatedColumn:
    """A replicated column, and how its copies are combined after the step."""

    slot: str
    column: str
    op: Agreement


class Replicated:
    """The changes of replicated values by a step.

    Parameters
    ----------
    rows : Ownership
    kernel : Kernel
    funcs : dict of str to Func
        The functions that the kernel and its filter call.
    step : Foreach
    own_items : bool
        Whether each part executes only its own items; otherwise each executes all items.
    hidden : collection of str
        Scalars that are the same for all parts.
    """

    def __init__(
        self, rows: Ownership, kernel: ir.Kernel, funcs: Mapping[str, ir.Func], step: ir.Foreach,
        own_items: bool, hidden: Container[str],
    ) -> None:  # fmt: skip
        self.step, self.own_items, self.rows = step, own_items, rows
        if not own_items and any(map(self._runs_over_parts, ir.walk((kernel, *funcs.values())))):
            kernel = inline_all(kernel, funcs)
            funcs = {f.name: f for f in functions_of_kernel(kernel, funcs)}
            self.rows = rows.among((*funcs.values(), kernel))
        self.kernel, self.funcs = kernel, funcs
        self.uniform = Uniform(self.rows, kernel, hidden)
        self.loops = [s for s in kernel.body if self._runs_over_parts(s)]
        self.inside = {id(n) for s in self.loops for n in ir.walk(s)}

    def changed_columns(self) -> tuple[ReplicatedColumn, ...]:
        """The columns that parts may change differently."""
        reduced = self._reduced_locals()
        found: dict[ir.ColumnKey, Agreement] = {}
        repeated = defaultdict[ir.ColumnKey, set[Agreement]](set)  # atomics that all parts execute
        unused = {id(n.value) for n, _ in self._each() if isinstance(n, ir.Eval)}
        for n, f in self._each():
            if not self._is_change(n):
                continue
            how = self._agreement(n, self._is_partial(n, f), id(n) in unused, reduced)
            column = n.place.slot, n.place.column
            pair = {how, found.setdefault(column, how)}
            if how == Agreement.SAME and isinstance(n, ir.Atomic):
                repeated[column].add(Agreement(COMBINED[n.op]))
            combined = pair & IDEMPOTENT
            known = combined | repeated[column]
            commute = not combined or any(known <= operations for operations in COMMUTING)
            if len(pair) > 1 and not (Agreement.SAME in pair and combined) or not commute:
                problem = (
                    f"{user_name(column[1])!r}, of which every part has a copy, changes in two ways"
                )
                reject(problem, n.pos, "use one operation, or two steps")
            found[column] = how if how != Agreement.SAME else found[column]
        self._refuse_dependent(reduced, self._consistent())
        columns = (ReplicatedColumn(*column, how) for column, how in sorted(found.items()))
        return tuple(c for c in columns if c.op != Agreement.SAME)

    def _each(self) -> Iterator[tuple[Any, str]]:
        """All nodes, with the names of their functions."""
        for f in (*self.funcs.values(), self.kernel):
            yield from ((n, f.name) for n in ir.walk(f.body))

    def _is_change(self, n: Any) -> bool:
        return n.writes and n.place.slot not in {*self.rows.tables, *self.rows.lists}

    def _is_partial(self, n: Any, f: str) -> bool:
        """Whether a part executes a node only for its share of the items or iterations."""
        called = f != self.kernel.name and bool(self.loops)
        return self.own_items or id(n) in self.inside or called

    def _runs_over_parts(self, n: ir.Node) -> TypeGuard[ir.ForRows]:
        """Whether each part executes its share of a loop: over the rows of a partitioned table."""
        return isinstance(n, ir.ForRows) and n.slot in self.rows.tables

    def _agreement(
        self, n: Any, partial: bool, unused: bool, reduced: Mapping[str, Agreement]
    ) -> Agreement:
        """How the copies are combined after a change, ``partial`` if a part makes its share of it.

        ``reduced`` are the locals that have the value of one part, and how they are combined.
        """
        if isinstance(n, ir.Write):
            if isinstance(n.value, ir.Var) and n.value.name in reduced:
                return reduced[n.value.name]
            item = isinstance(n.place.row, ir.Var) and n.place.row.name == self.kernel.params[0][0]
            if partial:
                return Agreement.SET
            return Agreement.SAME if item or _is_constant_row(n.place.row) else Agreement.FIRST
        op = COMBINED.get(n.op) if isinstance(n, ir.Atomic) else None
        if not unused or op is None:
            problem = "every part has a copy of this value: the previous value is not known"
            reject(problem, n.pos, "use atomic_add, min, max, or, and without their result")
        how = Agreement(op)
        if partial:
            return how
        inexact = how == Agreement.ADD and n.place.type.kind == "f"
        return Agreement.FIRST if inexact else Agreement.SAME

    def _consistent(self) -> Container[ir.ColumnKey]:
        """The columns with plain writes of one value; rejects writes of values that may differ.

        All writes of a column have the same value, or only the owner of one point makes them.
        """
        alike = dict[ir.ColumnKey, Reasons]()
        filtered = self.uniform.filtered() if self.own_items else NONE
        for f in (*self.funcs.values(), self.kernel):
            for n, reasons in self.uniform.writes(f, filtered):
                local = n.place.slot in self.rows.local
                if local or not self._is_change(n) or not self._is_partial(n, f.name):
                    continue
                if self.own_items and declared(n.pos):
                    continue
                column = n.place.slot, n.place.column
                if self.uniform.is_uniform(n.value, f.name):
                    reasons |= {Reason(Why.ONE_VALUE, "", self.uniform.key(n.value, f.name))}
                alike[column] = reasons & alike.get(column, reasons)
                if alike[column]:
                    continue
                name = f"{user_name(column[1])!r}, of which every part has a copy"
                items = "items" if self.own_items else "iterations"
                problem = f"several {items} may write different values to {name}"
                hint = "use an atomic; or declare it: # race: and a reason"
                reject(problem, n.pos, hint if self.own_items else f"use a local: {REDUCE}")
        return alike.keys()

    # --- loops over all points or edges ----------------------------------------------------------

    def _reduced_locals(self) -> dict[str, Agreement]:
        """The locals to which a loop over part of the rows reduces.

        And how the parts' values are combined.
        """
        body, found = self.kernel.body, dict[str, Agreement]()
        for n, f in self._each():
            if self._runs_over_parts(n) and not self.own_items:
                if f != self.kernel.name or not any(n is s for s in body):
                    problem = "a loop over all points or edges stands at the top level"
                    reject(problem, n.pos, REDUCE)
        if self.own_items:
            return found
        for i, s in enumerate(body):
            if not self._runs_over_parts(s):
                continue
            after, before = body[i + 1 :], list(ir.walk(body[:i]))
            known = reductions_of(s, after, self.kernel, self.funcs)
            for name in sorted(ir.bound(ir.walk(s)) & read_first(after)):
                writes = [
                    n for n in ir.walk(after)
                    if isinstance(n, ir.Write) and isinstance(n.value, ir.Var)
                    and n.value.name == name
                ]  # fmt: skip
                uses = sum(isinstance(n, ir.Var) and n.name == name for n in ir.walk(after))
                first = [n.value for n in before if isinstance(n, ir.Assign) and n.name == name]
                zero = len(first) == 1 and isinstance(first[0], ir.Const) and first[0].value == 0
                how = known.get(name, "")
                if not how or len(writes) != uses or (how == "+" and not zero):
                    problem = (
                        f"{user_name(name)!r} has the value of the points or edges of one part"
                    )
                    reject(problem, s.pos, REDUCE)
                if how == "+" and not self._is_written(writes, after):
                    problem = f"{user_name(name)!r} is a sum, which is written to all rows"
                    reject(problem, s.pos, "write it outside of branches, of all items")
                found[name] = REDUCED[how]
        return found

    def _is_written(self, writes: list[ir.Write], after: ir.Body) -> bool:
        """Whether all items execute the writes, which are in the statements ``after`` a loop."""
        everywhere = self.step.start is None and self.kernel.where is None
        leaves = any(isinstance(n, ir.Return) for n in ir.walk(self.kernel.body))
        return everywhere and not leaves and all(any(w is s for s in after) for w in writes)

    def _refuse_dependent(self, reduced: Container[str], alike: Container[ir.ColumnKey]) -> None:
        """Refuse loops of shares, and later reads, that need changes by other parts in this step.

        Locals in ``reduced`` have the value of one part, and so have columns they are written to.
        Columns in ``alike`` have one value after a loop, whichever part writes them.
        """
        if self.own_items or not self.loops:
            return
        kernel, rows = self.kernel, self.rows
        copies, changed, far = set[ir.ColumnKey](), set[ir.ColumnKey](), set[ir.ColumnKey]()
        for i, s in enumerate(kernel.body):
            nodes = list(ir.walk(s))
            if self._runs_over_parts(s):
                self._refuse_loop(s, kernel.body[i + 1 :], kernel, alike)
                copies |= {c for c in ir.columns(nodes, "writes") if c[0] not in rows.tables}
            copies |= {
                (n.place.slot, n.place.column)
                for n in nodes
                if isinstance(n, ir.Write)
                and isinstance(n.value, ir.Var)
                and n.value.name in reduced
            }
            for n, f in _accesses(nodes, kernel, self.funcs):
                column = n.place.slot, n.place.column
                remote = column[0] in rows.tables and not rows.owns(n.place.row, f)
                read = isinstance(n, ir.Load) and (column in copies or remote and column in changed)
                if read or (column in far and not isinstance(n, ir.Atomic)):
                    problem = f"a loop over all points or edges changes {user_name(column[1])!r}"
                    problem += ", which parts exchange after the step"
                    reject(problem, n.pos, "read it in a step of its own")
            far |= ir.columns((n for n, _ in rows.remote(s, kernel.name)), "writes")
            changed |= {c for c in ir.columns(nodes, "writes") if c[0] in rows.tables}

    def _refuse_loop(
        self, s: ir.ForRows, after: ir.Body, kernel: ir.Kernel, alike: Container[ir.ColumnKey]
    ) -> None:
        """Refuse a loop whose iterations depend on each other."""
        for n in ir.find(s, ir.Return):
            reject("a loop over all points or edges is not left", n.pos, REDUCE)
        if not is_divisible(s, after, kernel, self.funcs, alike):
            problem = "iterations of a loop over all points or edges depend on each other"
            reject(problem, s.pos, f"use a local: {REDUCE}")


def _accesses(
    nodes: Iterable[ir.Node], kernel: ir.Kernel, funcs: Mapping[str, ir.Func]
) -> Iterator[tuple[Any, str]]:
    """The accesses to columns by nodes and the functions that they call, with function names."""
    seen, todo = set[str](), [(kernel.name, list(nodes))]
    while todo:
        f, inner = todo.pop()
        yield from ((n, f) for n in ir.accesses(inner))
        called = {n.func for n in inner if isinstance(n, ir.Call)} - seen
        seen |= called
        todo += [(name, list(ir.walk(funcs[name].body))) for name in called]


def _is_constant_row(row: ir.Expr) -> bool:
    """Whether a row is given by a constant, as is the row of scalars."""
    return isinstance(row, ir.Cast) and isinstance(row.x, ir.Const)
