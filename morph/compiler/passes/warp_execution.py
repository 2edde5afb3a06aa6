"""Warp execution: items that the 32 lanes of a GPU's warp execute together.

A step with ``balance="warp"`` executes a kernel with loops over bits (`ir.ForBits`) this way.  All
lanes execute the statements of the kernel and of the functions that it calls, each with its own
copy of the locals.  These are *uniform*, the same on all lanes: the first lane makes all changes of
memory, and all reads of columns that the step changes, and broadcasts the results.  The iterations
of a loop over bits are divided among the lanes if they are independent, apart from reductions to
locals and to elements of local collections, which all lanes combine after the loop.  Any other loop
over bits is executed by all lanes, like the other statements.  On a CPU an item runs on one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from morph.compiler.ir import nodes as ir
from morph.compiler.passes.effects import called, reached
from morph.compiler.passes.group_execution import LANES
from morph.compiler.passes.independence import (
    COMMUTATIVE,
    breaks,
    combining_operation,
    is_variable,
)
from morph.compiler.passes.liveness import read_first
from morph.compiler.passes.stability import Columns
from morph.compiler.passes.work_sharing import shared_loop
from morph.language.types import Local, Scalar, Vector

# what the first lane executes, or each lane for itself
ALLOWED = (
    ir.Atomic, ir.Write, ir.Add, ir.New, ir.Reserve, ir.Exceed, ir.Call, ir.LocalAdd, ir.LocalPop,
    ir.LocalClear, ir.MakeLocal, ir.Load, ir.Place, ir.While, ir.ForRange, ir.ForBits, ir.ForItems,
    ir.Need,
)  # fmt: skip
Reductions = tuple[tuple[str, str], ...]


def warp_bodies(unit: ir.Unit, unstable: Mapping[str, Columns]) -> dict[str, ir.Body]:
    """The bodies of the functions that warps execute, with their divided loops marked.

    These are kernels, and the functions they call that differ from those that a thread executes.
    ``unstable`` has, by function, the columns that its step changes.
    """
    funcs, found = {f.name: f for f in unit.funcs}, dict[str, ir.Body]()
    for name, bodies in kernels_by_warp(unit).items():
        for f, body in bodies.items():
            below = [g.name for g in reached(f, funcs)]
            differs = any(_has_divided(bodies[g]) or _differs(funcs[g], unstable[g]) for g in below)
            if f == name or differs:
                found[f] = body
    return found


@ir.of_latest
def kernels_by_warp(unit: ir.Unit) -> dict[str, dict[str, ir.Body]]:
    """The kernels that warps execute in a step of a unit.

    Each has the bodies of the functions that it calls, by name, and its own, with marked loops.
    """
    if unit.checked:
        return {}
    steps = ir.find(unit.blocks, ir.Foreach)
    names = dict.fromkeys(s.kernel for s in steps if allows_warp_execution(s))
    funcs = {f.name: f for f in unit.funcs}
    tables = {s.slot for s in unit.stores if s.kind == "table"}
    found = {n: bodies for n in names if (bodies := _marked_bodies(funcs[n], funcs, tables))}
    return found


def allows_warp_execution(s: ir.Foreach) -> bool:
    """Whether warps may execute the items of a step, if its kernel qualifies."""
    return s.balance == "warp" and not s.together and s.sections == 1


def _marked_bodies(
    kernel: ir.Func, funcs: Mapping[str, ir.Func], tables: set[str]
) -> dict[str, ir.Body]:
    """The bodies of a kernel and all functions it calls, with divided loops marked.

    Empty if a statement cannot be executed by a warp, or no loop can be divided.
    """
    if not isinstance(kernel, ir.Kernel) or kernel.commit is not None or kernel.ahead:
        return {}
    below = reached(kernel.name, funcs)
    nodes = [n for f in below for n in ir.walk(f.body)]
    if (
        any(f.cpp is not None for f in below)
        or any(isinstance(n, ir.MakeShared) for n in nodes)
        or not all(isinstance(n, ALLOWED) or _is_uniform(n) for n in nodes)
        or any(isinstance(n, ir.Atomic) and n.flag is not None for n in nodes)
    ):
        return {}
    bodies = {f.name: _LoopDivision(f, funcs).body for f in below}
    divides = any(map(_has_divided, bodies.values()))
    return bodies if divides and shared_loop(kernel, funcs, tables) is None else {}


def _has_divided(body: ir.Body) -> bool:
    return any(s.divided is not None for s in ir.find(body, ir.ForBits))


def _is_uniform(n: ir.Node) -> bool:
    """Whether a node depends on and changes nothing but locals."""
    return not (
        n.effect or n.writes or n.reads or n.varies or n.allocates or n.counts or n.loop
        or n.shared or n.per_item or n.arguments
    )  # fmt: skip


def _differs(f: ir.Func, unstable: Columns) -> bool:
    """Whether a function itself has effects, or reads what the step changes: by the first lane."""
    return any(
        (n.effect and not isinstance(n, ir.Call)) or n.writes or n.fails or n.allocates
        or (isinstance(n, ir.Load) and (n.place.slot, n.place.column) in unstable)
        for n in ir.walk(f.body)
    )  # fmt: skip


class _LoopDivision:
    """A function's ``body`` with marks of the outermost loops over bits that lanes divide.

    The iterations of these loops are independent.
    """

    def __init__(self, func: ir.Func, funcs: Mapping[str, ir.Func]) -> None:
        self.func, self.funcs = func, funcs
        self.types = dict(func.params) | dict(func.locals)
        self.body = self._marked(func.body, set())

    def _marked(self, body: ir.Body, after: set[str]) -> ir.Body:
        """A body with marks; ``after`` are the names that may be read after it."""
        found: list[ir.Stmt] = []
        for i, s in enumerate(body):
            later = after | read_first(body[i + 1 :])
            if isinstance(s, ir.ForBits):
                if (reductions := self._reductions(s, later)) is not None:
                    found.append(replace(s, divided=LANES, reductions=reductions))
                    continue
            found.append(ir.rewrite_bodies(s, partial(self._marked_inner, s, later)))
        return tuple(found)

    def _marked_inner(self, s: ir.Stmt, later: set[str], inner: ir.Body | None) -> ir.Body | None:
        """A body of the statement ``s`` with marks; ``later`` are the names read after ``s``."""
        if inner is None:
            return None
        again = read_first(inner) | ir.used(ir.walk(ir.operands(s))) if s.loop else set()
        return self._marked(inner, later | again)

    def _reductions(self, s: ir.ForBits, after: set[str]) -> Reductions | None:
        """The reductions of a loop, None if its iterations are not independent."""
        nodes = list(ir.walk(s.body))
        if breaks(s.body) or not all(map(self._is_allowed, nodes)) or not self._commutes(nodes):
            return None
        changed = ir.bound(nodes) | {n.name for n in nodes if isinstance(n, ir.SetItem)}
        outside = (read_first(s.body) | after) - {s.var}
        found = {name: self._operation(name, nodes) for name in sorted(changed & outside)}
        if not all(found.values()) or s.var in (after | ir.bound(nodes)):
            return None
        return tuple(found.items())

    def _commutes(self, nodes: list[ir.Node]) -> bool:
        """Whether no iteration uses what another one changes in memory."""
        evals = {id(n.value) for n in nodes if isinstance(n, ir.Eval)}
        atomics = [n for n in nodes if isinstance(n, ir.Atomic)]
        below = [n for f in called(nodes, self.funcs) for n in ir.walk(f.body)]
        ops: dict[tuple[str, str], set[str]] = {}
        for n in ir.accesses((*nodes, *below)):
            ops.setdefault((n.place.slot, n.place.column), set()).add(getattr(n, "op", ""))
        return all(id(n) in evals and len(ops[n.place.slot, n.place.column]) == 1 for n in atomics)

    def _is_allowed(self, n: ir.Node) -> bool:
        """Whether iterations that lanes execute may have a node."""
        match n:
            case ir.Atomic(op=op):
                return op in COMMUTATIVE
            case ir.Eval() | ir.Load() | ir.Place():
                return True
            case ir.Call(func=func):
                below = [x for f in reached(func, self.funcs) for x in ir.walk(f.body)]
                sets = (x.name for x in below if isinstance(x, ir.SetItem))
                allowed = all(
                    isinstance(x, ir.Load | ir.Place) or _is_uniform_or_control(x) for x in below
                )
                return allowed and all(self._is_value(func, name) for name in sets)
        return _is_uniform_or_control(n) and not isinstance(n, ir.Return)

    def _is_value(self, func: str, name: str) -> bool:
        """Whether a local of a called function, or of one below it, is a vector."""
        types = [dict(f.params) | dict(f.locals) for f in reached(func, self.funcs)]
        return all(isinstance(t.get(name), Vector | None) for t in types)

    def _operation(self, name: str, nodes: Iterable[ir.Node]) -> str:
        """The operation of a reduction to a local, or to the elements of one; empty if none."""
        t = self.types.get(name)
        elem = t.elem if isinstance(t, Local) else t
        if not isinstance(elem, Scalar) or elem.kind not in "iu" or elem.bits < 32:
            return ""
        uses = sum(isinstance(n, ir.Var) and n.name == name for n in nodes)
        found = set()
        for n in nodes:
            if isinstance(n, ir.SetItem) and n.name == name:
                found.add(combining_operation(n.value, partial(_is_element, s=n)))
                uses -= 1
            elif name in ir.bound([n]):
                is_name = isinstance(n, ir.Assign) and not isinstance(t, Local)
                value = n.value if isinstance(n, ir.Assign) else None
                found.add(
                    combining_operation(value, partial(is_variable, name=name)) if is_name else ""
                )
                uses -= 1
        return found.pop() if len(found) == 1 and not uses else ""


def _is_uniform_or_control(n: ir.Node) -> bool:
    pure = isinstance(n, ir.ForRange | ir.ForBits | ir.ForItems | ir.While | ir.Call)
    return pure or _is_uniform(n)


def _is_element(x: ir.Expr, s: ir.SetItem) -> bool:
    """Whether an expression is the element that a statement assigns."""
    if not isinstance(x, ir.Item) or not is_variable(x.x, s.name):
        return False
    return ir.equal(x.index, s.index) and not any(n.varies for n in ir.walk(s.index))
