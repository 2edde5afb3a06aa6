"""The C++ text of a kernel whose items are executed by groups of threads, each running the text.

See `passes.group_execution` for the division of loops; ``kernels/schedule/group.h`` assigns items.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from morph.compiler.codegen.emission import Emission, boolean, values
from morph.compiler.codegen.expressions import Scope
from morph.compiler.codegen.names import Names, constant
from morph.compiler.codegen.operations import COMBINED, identity
from morph.compiler.codegen.statements import Body
from morph.compiler.ir import nodes as ir
from morph.compiler.passes.group_execution import LANES, SUBWARPS, THREADS
from morph.compiler.passes.plan import BodyPlan, FunctionPlan, StepPlan
from morph.language.types import Handle, Scalar, Shared

UNROLL = 4  # iterations of a lane whose loads are issued together
LEADER = {
    "": "group_.thread() == 0",
    SUBWARPS: "group_.lane() == 0",
}  # the thread that changes memory, by level
STRIDES = {
    THREADS: ("thread()", "THREADS"),
    SUBWARPS: ("subwarp()", "SUBWARPS"),
    LANES: ("lane()", "LANES"),
}


class GroupBody(Body):
    """The body of the kernel."""

    def __init__(self, names: Names, scope: Scope, body: BodyPlan) -> None:
        super().__init__(names, scope, body)
        self.level = ""  # how the loop around the statement is divided
        self.loaded: tuple[str, dict[tuple[str, str], str]] = "", {}  # by column, see `_unrolled`
        self.unsynced = False  # whether changes by other threads may not be visible yet

    def array(self, name: str, t: Shared) -> str:
        """Declare a shared array: one for each group of the block."""
        every = self.temp("v")
        kind, name = self.names.type(t), self.resolve(name)
        made = f"MORPH_SHARED {kind} {every}[G::COUNT];"
        return f"{made} {kind}& {name} = pinned({every}[group_.number()]);"

    def _clear(self, array: str) -> None:
        self.put(f"{array}.clear(group_);")

    def stmt(self, s: ir.Stmt) -> None:
        """One statement; after a barrier if it may read a change by another thread."""
        if not self.level and self.unsynced and not _is_private(s):
            self.put("group_.sync();")
            self.unsynced = False
        super().stmt(s)
        allocates = isinstance(s, ir.Assign) and isinstance(s.value, ir.MakeShared)
        if not self.level and (allocates or isinstance(s, ir.Eval | ir.Write | ir.SetItem)):
            self.unsynced = True

    def _by_leader(self, change: Callable[[], None]) -> None:
        """Print a change of memory for one of the threads that execute the statement."""
        if self.level not in LEADER:
            change()
            return
        self.put(f"if ({LEADER[self.level]}) {{")
        self.depth += 1
        change()
        self.depth -= 1
        self.put("}")

    def _write(self, writes: list[ir.Write]) -> None:
        if not self.level and self.unsynced:
            self.put("group_.sync();")
        self._by_leader(partial(super()._write, writes))
        self.unsynced = self.unsynced or not self.level

    def _stmt_write(self, s: ir.Write) -> None:
        self._by_leader(partial(super()._stmt_write, s))

    def _stmt_eval(self, s: ir.Eval) -> None:
        self._by_leader(partial(super()._stmt_eval, s))

    def _stmt_setitem(self, s: ir.SetItem) -> None:
        change = partial(super()._stmt_setitem, s)
        if isinstance(self.types[s.name], Shared):
            self._by_leader(change)
        else:
            change()

    # --- loops -----------------------------------------------------------------------------------

    def _stmt_forrange(self, s: ir.ForRange) -> None:
        if s.divided is None or self.level == THREADS:
            super()._stmt_forrange(s)
            return
        by = s.divided
        self._divided(s, by, lambda: self._range(s, by))

    def _range(self, s: ir.ForRange, by: str) -> None:
        k, end, (at, step) = self.temp("k"), self.temp("e"), STRIDES[by]
        first, hoisted = self.temp("b"), self._hoisted(s) if by == LANES else []
        many = f"{UNROLL} * " if hoisted else ""
        # a counter of 32 bits saves registers
        kind = "i32" if _fits(s.start) and _fits(s.stop) else "i64"
        self.put(f"const {kind} {first} = {kind}({self.expr(s.start)});")
        count = f"range_size({first}, {kind}({self.expr(s.stop)}))"
        self.put(
            f"for ({kind.replace('i', 'u')} {k} = group_.{at}, {end} = {count}; {k} < {end};"
            f" {k} += {many}G::{step}) {{"
        )
        self.depth += 1
        if hoisted:
            self._unrolled(s, hoisted, (first, k, end, kind))
        else:
            self._bound(s.body, [(s.var, f"{first} + {kind}({k})")])

    def _hoisted(self, s: ir.ForRange) -> list[ir.Place]:
        """Return the elements of const columns that each iteration loads at its own index."""
        first = list[ir.Node]()
        for x in s.body:
            first += ir.walk(x.cond if isinstance(x, ir.If) else x)
            if x.leaves or ir.bodies(x):
                break
        if any(n.loop or s.var in ir.bound([n]) for n in ir.walk(s.body)):
            return []
        found = {
            (n.place.slot, n.place.column): n.place
            for n in first
            if isinstance(n, ir.Load) and _is_at(n.place, s.var) and n.place.index is None
            if isinstance(n.place.type, Scalar | Handle)
        }
        return [p for column, p in found.items() if column not in self.plan.changed]

    def _unrolled(
        self, s: ir.ForRange, hoisted: list[ir.Place], counter: tuple[str, str, str, str]
    ) -> None:
        """Unroll iterations of a lane, with their loads first."""
        (first, k, end, kind), n, i = counter, self.temp("n"), self.resolve(s.var)
        values: dict[tuple[str, str], str] = {}
        at = f"{k} + {n} * G::LANES"
        for p in hoisted:
            values[p.slot, p.column] = v = self.temp("v")
            self.put(f"{self.names.type(p.type)} {v}[{UNROLL}]{{}};")
        each = f"MORPH_UNROLL_ALL for (i32 {n} = 0; {n} < {UNROLL}; {n}++)"
        self.put(f"{each} {{")
        self.put(f"    {i} = {first} + {kind}({at});")
        loads = "".join(f" {values[p.slot, p.column]}[{n}] = {self.load(p)};" for p in hoisted)
        self.put(f"    if ({at} < {end}) {{{loads} }}")
        self.put("}")
        self.put(f"{each} {{")
        self.depth += 1
        self.put(f"if ({at} >= {end}) continue;")
        self.loaded = s.var, {column: f"{v}[{n}]" for column, v in values.items()}
        self._bound(s.body, [(s.var, f"{first} + {kind}({at})")])
        self.loaded = "", {}
        self.depth -= 1
        self.put("}")

    def load(self, p: ir.Place) -> str:
        """Print a load, or the variable of a hoisted one."""
        var, known = self.loaded
        if known and _is_at(p, var) and p.index is None and (p.slot, p.column) in known:
            return known[p.slot, p.column]
        return super().load(p)

    def _stmt_foredges(self, s: ir.ForEdges) -> None:
        self._entries(s, partial(super()._stmt_foredges, s))

    def _stmt_forrows(self, s: ir.ForRows) -> None:
        self._entries(s, partial(super()._stmt_forrows, s))

    def _entries(self, s: ir.ForEdges | ir.ForRows, write: Callable[[], None]) -> None:
        if s.divided is None or self.level == THREADS:
            write()
        else:
            self._divided(s, s.divided, write)

    def _counted(
        self, s: ir.ForRows | ir.ForEdges | ir.ForItems, first: str, last: str, live: bool = False
    ) -> str:
        """Open a loop over this thread's share of the entries."""
        if isinstance(s, ir.ForItems) or s.divided != self.level:  # `_divided` has set the level
            return super()._counted(s, first, last, live)
        k, end, (at, step) = self.temp("k"), self.temp("e"), STRIDES[self.level]
        start = f" + {self.skipped(s.start)}" if s.start is not None else ""
        self.put(
            f"for (i64 {k} = {first}{start} + group_.{at}, {end} = {last}; {k} < {end};"
            f" {k} += G::{step}) {{"
        )
        self.depth += 1
        return k

    def _divided(
        self, s: ir.ForRange | ir.ForEdges | ir.ForRows, by: str, write: Callable[[], None]
    ) -> None:
        """Print a loop that is divided, then combine its reductions over threads or lanes."""
        reductions, outer = [], self.level
        for name, how in s.reductions:
            saved, t = self.temp("v"), self.types[name]
            start = constant(ir.Const(value=identity(how, t), type=t, pos=s.pos))
            self.put(f"const {self.names.type(t)} {saved} = {self.resolve(name)};")
            self.put(f"{self.resolve(name)} = {start};")
            reductions.append((name, how, saved, start))
        self.level = by
        write()
        self.level = outer
        for name, how, saved, start in reductions:
            x, combine = self.resolve(name), COMBINED[how]
            value = f"group_.lane() == 0 ? {x} : {start}" if by == SUBWARPS else x
            over = "reduce_lanes" if by == LANES and outer else "reduce_threads"
            every = f"group_.{over}({value}, [](auto p, auto q) {{ return {combine}(p, q); }})"
            self.put(f"{x} = {combine}({saved}, {every});")
        self.unsynced = self.unsynced or not outer


def _is_at(p: ir.Place, var: str) -> bool:
    """Whether a place is in the row that a local variable numbers."""
    row = p.row.x if isinstance(p.row, ir.Cast) else p.row
    return isinstance(row, ir.Var) and row.name == var


def _fits(x: ir.Expr) -> bool:
    """Whether a bound of a range is known to be an i32."""
    match x:
        case ir.Const(value=value):
            return -(2**31) <= value < 2**31
        case ir.Cast(x=ir.Expr(type=Scalar(kind="i" | "u", bits=bits) as t)):
            return bits < 32 or t.name == "i32"
        case ir.Cast(x=ir.Expr(type=Handle())):
            return True
    return isinstance(x, ir.Degree)


def _is_private(s: ir.Stmt) -> bool:
    """Whether a statement has no loop, and reads nothing that other threads of the group change."""
    nodes = list(ir.walk(s))
    commute = isinstance(s, ir.Eval) and isinstance(s.value, ir.Atomic)
    arrays = any(
        isinstance(n, ir.ItemAtomic) or (isinstance(n, ir.Var) and isinstance(n.type, Shared))
        for n in nodes
    )
    if isinstance(s, ir.If):
        return all(map(_is_private, (*s.then, *s.orelse))) and not arrays
    acts = any(n.loop or n.writes or isinstance(n, ir.SetItem) for n in nodes)
    return not arrays and (commute or not acts)


def group_function(e: Emission, plan: FunctionPlan, body: BodyPlan) -> None:
    """Add the function of a kernel that each thread of a group ``G`` executes."""
    k, name = plan.func, e.names.funcs[plan.func.name]
    head = f"template <class G> MORPH_FN void {name}_group(const Args& a, Item& it, const G& group_"
    head += f"{e.signature(values(k))})"
    e.define(k, head, body, make=GroupBody)


def group_members(step: StepPlan, func: str, args: str) -> list[str]:
    """Return the additional members of the step of a kernel with shared arrays."""
    lines = [
        f"    static constexpr i32 GROUP = {step.group};  // threads that execute an item",
        f"    static constexpr bool OWN_ARRAYS = {boolean(step.own_arrays)};",
    ]
    if step.group > 1:
        lines += [
            "    template <class G>",
            "    MORPH_FN void run_group(const Args& a, I& it, const G& g) const {",
            f"        {func}_group(a, it, g, it.row{args});",
            "    }",
        ]
    return lines
