"""Columns that do not change while a step runs, or change in one way only.

If no item of a step writes a column, its loads in that step are *barrier-stable*: they may be
ordinary loads, and may be repeated or cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from morph.compiler.ir import abi
from morph.compiler.ir import nodes as ir

Columns = frozenset[tuple[str, str]]
PARENT = "parent"  # the parents of a set's rows, treated as a column


def changed(unit: ir.Unit, nodes: Iterable[ir.Node]) -> Columns:
    """The columns that nodes of a unit may write."""
    nodes = list(nodes)
    grown = ir.slots(nodes, "allocates")
    grown |= {n.ahead[1] for n in nodes if isinstance(n, ir.Kernel) and n.ahead}
    grown |= {n.inbox for n in nodes if isinstance(n, ir.Deliver)}
    found = ir.columns(nodes, "writes")
    found |= {(s.slot, c.name) for s in unit.stores if s.slot in grown for c in s.columns}
    found |= {(n.slot, PARENT) for n in nodes if isinstance(n, ir.SetUnion)}
    together = abi.alike(unit)
    return frozenset(found | {(s, c) for slot, c in found for s in together.get(slot, ())})


def unstable_columns(
    unit: ir.Unit, reached: Callable[[str], tuple[ir.Func, ...]]
) -> dict[str, Columns]:
    """By function, the columns that an item may change while another item executes the function.

    A barrier separates one step from the next, and the part of a kernel before
    ``single(collection)`` from the part after it (``NAME_commit``).  Columns that are written only
    on the other side of a barrier do not change.  No barrier separates sections of a step.
    """
    found: dict[str, Columns] = {}
    funcs = {f.name: f for f in unit.funcs}
    blocks = list(ir.walk(unit.blocks))
    beside = concurrent(unit)
    for s in (n for n in blocks if isinstance(n, ir.Foreach)):
        k = funcs[s.kernel]
        assert isinstance(k, ir.Kernel)
        parts: dict[str, object] = {k.name: (k.body, funcs[k.where].body if k.where else ())}
        if k.commit is not None:
            parts[f"{k.name}_commit"] = (k.commit, k.abort or ())
        for name, part in parts.items():
            calls = [n.func for n in ir.find(part, ir.Call)]
            below = {f.name: f for call in calls for f in reached(call)}
            others = tuple(f for other in beside.get(k.name, ()) for f in reached(other))
            writes = changed(unit, ir.walk((part, tuple(below.values()), others)))
            names = {name, *below} | ({k.where} if k.where and name == k.name else set())
            found |= {n: found.get(n, frozenset()) | writes for n in names}
    uniform = [n.func for n in blocks if isinstance(n, ir.Call)]
    every = changed(unit, ir.walk((unit.funcs, unit.blocks)))
    return found | dict.fromkeys((f.name for call in uniform for f in reached(call)), every)


def concurrent(unit: ir.Unit) -> dict[str, tuple[str, ...]]:
    """By kernel of a section, the kernels and filters of the other sections of the step."""
    funcs, found = {f.name: f for f in unit.funcs}, dict[str, tuple[str, ...]]()
    steps = [s for s in ir.find(unit.blocks, ir.Foreach) if s.sections > 1]
    for i, s in enumerate(steps):
        first = i - s.section
        others = [o.kernel for o in steps[first : first + s.sections] if o is not s]
        filters = [k.where for o in others if isinstance(k := funcs[o], ir.Kernel) and k.where]
        found[s.kernel] = (*others, *filters)
    return found


def stable_at_item(unit: ir.Unit, ahead: Iterable[str]) -> dict[str, Columns]:
    """By asynchronous kernel and its filter, the columns of its list that are fixed at the item.

    The item was in the list at the last barrier, or was enqueued by the thread that executes it.
    """
    nodes = list(ir.walk((unit.funcs, unit.blocks)))
    written = changed(unit, (n for n in nodes if n.writes))
    stores, funcs = {s.slot: s for s in unit.stores}, {f.name: f for f in unit.funcs}
    found: dict[str, Columns] = {}
    for s in nodes:
        if isinstance(s, ir.Foreach) and s.kernel in ahead:
            columns = frozenset((s.slot, c.name) for c in stores[s.slot].columns) - written
            k = funcs[s.kernel]
            assert isinstance(k, ir.Kernel)
            for f in (k, *([funcs[k.where]] if k.where else ())):
                kept = f.params[0][0] not in ir.bound(ir.walk(f.body))
                found[f.name] = found.get(f.name, columns) & columns if kept else frozenset()
    return found


def monotone(unit: ir.Unit, funcs: Iterable[ir.Func]) -> Columns:
    """The columns that functions change only by atomic minima, or only by atomic maxima."""
    nodes = [n for f in funcs for n in ir.walk(f)]
    atomics = [n for n in nodes if isinstance(n, ir.Atomic)]
    ops: dict[tuple[str, str], set[str]] = {}
    for n in atomics:
        ops.setdefault((n.place.slot, n.place.column), set()).add(n.op)
    others = changed(unit, (n for n in nodes if not isinstance(n, ir.Atomic)))
    return frozenset(c for c, op in ops.items() if op in ({"min"}, {"max"})) - others


def only_added_to(unit: ir.Unit) -> Columns:
    """The columns of tables that functions only add to, without using the old value."""
    nodes = list(ir.walk(unit.funcs))
    at = ir.accesses(nodes)
    alone = {id(n.value) for n in nodes if isinstance(n, ir.Eval)}
    adds = {id(n) for n in at if isinstance(n, ir.Atomic) and n.op == "add" and not n.flag}
    found = ir.columns((n for n in at if id(n) in adds & alone), "writes")
    others = ir.columns((n for n in at if id(n) not in adds & alone), "reads", "writes")
    made = ir.slots(nodes, "allocates")
    tables = {s.slot for s in unit.stores if s.kind == "table"} - made
    return frozenset((slot, c) for slot, c in found - others if slot in tables)
