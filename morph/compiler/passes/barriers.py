"""Kernels with ``barrier()``: each part of such a kernel becomes a step.

A local that is live across a barrier is recomputed in the later part, from values that no item
changes in an earlier part or in that part.  Kernels with other locals that are live across a
barrier are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import user_name
from morph.compiler.passes.conflicts import AT_ONCE, changed_before
from morph.compiler.passes.effects import Effects
from morph.compiler.passes.liveness import read_first
from morph.language.errors import reject
from morph.language.types import Handle, Local, Scalar

KEEP = "keep it in a column, or evaluate it again after the barrier"


def parts(kernel: ir.Kernel) -> list[ir.Body]:
    """The statements between the barriers of a kernel."""
    found: list[list[ir.Stmt]] = [[]]
    for s in kernel.body:
        if isinstance(s, ir.Barrier):
            found.append([])
        else:
            found[-1].append(s)
    return [tuple(body) for body in found]


def part_of(kernel: ir.Kernel, number: int, count: int, effects: Effects) -> ir.Kernel:
    """Part ``number`` of ``count``, after the assignments that it repeats from earlier parts."""
    bodies = parts(kernel)
    if kernel.commit is not None:
        hint = "claim in a kernel of its own"
        reject("a kernel with single(collection) has no barrier()", kernel.pos, hint)
    reached = bodies[:-1] if len(bodies) == count else bodies
    for n in ir.walk(tuple(reached)):
        if isinstance(n, ir.Return):
            hint = "all items have to reach it: write the rest in an `if`"
            reject("a return before barrier()", n.pos, hint)
    before = tuple(s for body in bodies[:number] for s in body)
    again = _recomputed(kernel, before, bodies[number], effects)
    reads, now = effects.nodes(again), effects.nodes(bodies[number])
    found = changed_before(effects.nodes(before), reads) or changed_before(now, reads, AT_ONCE)
    if found:
        at, change = found
        problem = f"this is evaluated again after barrier(), and line {change.pos.line} changes it"
        reject(problem, at.pos, KEEP)
    body = (*again, *bodies[number])
    given = ir.bound(ir.walk(body))
    return replace(kernel, body=body, locals=tuple(x for x in kernel.locals if x[0] in given))


def _recomputed(
    kernel: ir.Kernel, before: ir.Body, body: ir.Body, effects: Effects
) -> tuple[ir.Assign, ...]:
    """The assignments of locals that are live across the barrier before ``body``."""
    given = ir.bound(ir.walk(before))
    types, live = dict(kernel.locals), read_first(body) & given
    found: list[ir.Assign] = []
    for s in reversed(before):
        if isinstance(s, ir.Assign) and s.name in live:
            found.insert(0, s)
            live |= ir.used(ir.walk(s.value)) & given
    assigned = [n.name for n in found]
    for name in sorted(live):
        first = next(n for n in ir.walk((before, body)) if name in ir.used([n]) | ir.bound([n]))
        problem = f"{user_name(name)!r} lives across barrier()"
        if not isinstance(types[name], Scalar | Handle):
            kind = "a local collection" if isinstance(types[name], Local) else f"a {types[name]}"
            reject(f"{problem}, and is {kind}", first.pos, "make it after the barrier")
        once = sum(name in ir.bound([n]) for n in ir.walk(before)) == 1
        if not once or name not in assigned:
            reject(f"{problem}, and has several values before it", first.pos, KEEP)
    for s in found:
        calls = ir.find(s.value, ir.Call)
        acts = any(effects.has_effect(effects.funcs[n.func]) for n in calls)
        if acts or any(n.effect or isinstance(n, ir.Raised) for n in ir.walk(s.value)):
            problem = f"{user_name(s.name)!r} lives across barrier(), and its value has an effect"
            reject(problem, s.pos, KEEP)
    return tuple(found)


def refuse_changed_items(parts: Sequence[ir.Func], step: ir.Foreach, effects: Effects) -> None:
    """Refuse parts of a kernel that might be executed for different items."""
    kernel, nodes = parts[0], effects.nodes(tuple(parts[:-1]))
    where = kernel.where if isinstance(kernel, ir.Kernel) else None
    tests = effects.nodes(effects.funcs[where]) if where else []
    if found := changed_before(nodes, [step, *tests]):
        hint = "run it in a step of its own, with a foreach"
        problem = "the items of a kernel change before its barrier()"
        reject(problem, found[1].pos, hint)
