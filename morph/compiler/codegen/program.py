"""A program as one launch: blocks as the cases of a switch that every thread runs alike.

Each step ends at a barrier; what is cleared right after it is cleared there.  If items were left
untouched, all threads return; the master saves where, and the host grows what was too small and
launches again from that very step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from morph.compiler.codegen.shared_loops import listed
from morph.compiler.codegen.statements import Body
from morph.compiler.ir import nodes as ir
from morph.compiler.passes.double_buffering import swapped

if TYPE_CHECKING:
    from morph.compiler.codegen.unit import Emission

LOOKS = (ir.Load, ir.Dead, ir.Raised)  # a step may write what they read


def emit_program(e: Emission) -> None:
    """Add a fused unit's ``run`` and ``settle``."""
    blocks = [_joined(block.steps) for block in e.unit.blocks]
    for b, steps in enumerate(blocks):
        for k, (s, clears) in steps.items():
            _end(e, f"{b}_{k}", s, clears)
            if isinstance(s, ir.OneThread) and s.body:
                _alone(e, f"{b}_{k}", s)
    looks = any(isinstance(n, LOOKS) for n in e.step_nodes(_uniform(e.unit)))
    e.put("", "MORPH_FN void run(const Args& a, Run& t) {")
    if any(isinstance(n, ir.Call) for n in ir.walk(_uniform(e.unit))):
        e.put("    Item it(a, t, -1);")
    loop, e.lines = e.lines, []
    for number, block in enumerate(e.unit.blocks):
        e.put(f"    case {number}:")
        known = blocks[number].items()
        resumes = [k for k, (s, _) in known if _can_fail(e, s) or isinstance(s, ir.Foreach)]
        for k, (step, _) in blocks[number].items():
            text = e.uniform()
            text.depth = 2
            _step(e, text, f"{number}_{k}", step, looks)
            if resumes and k < max(resumes):
                e.put(
                    f"        if (t.step <= {k}) {{", *(f"    {x}" for x in text.lines), "        }"
                )
            else:
                e.put(*text.lines)
        if resumes:
            e.put("        t.step = 0;")
        _jump(e, block, looks)
    e.put("    default:", "        return;", "    }")
    cases, e.lines = e.lines, loop
    lap = "if ((++t.laps & 0xffff) == 0) barrier(a, t);" if waits_nowhere(e.unit) else ""
    head = ["if (stops(t)) return;", *([lap] if lap else [])]
    if len(with_way := e.way(cases, "t")) > len(cases):
        way, *cases = with_way
        e.put("    for (;;) {", *(f"        {x}" for x in head), f"    {way}")
        e.put("        switch (t.block) {")
        e.put(*(x if x.startswith("#") else f"    {x}" for x in cases), "    }", "}")
    else:
        e.put("    for (;;) {", *(f"    {x}" for x in head), "    switch (t.block) {")
        e.put(*cases, "    }", "}")
    _settle(e)


def waits_nowhere(unit: ir.Unit) -> bool:
    """Whether a loop of the program has no barrier, at which it could be told to end."""
    steps = (ir.Foreach, ir.OneThread, ir.Clear)
    left = {
        i: {b.goto, b.orelse if b.cond is not None else b.goto}
        for i, b in enumerate(unit.blocks)
        if not any(isinstance(s, steps) for s in b.steps)
    }
    while ends := [i for i, after in left.items() if not after & left.keys()]:
        for i in ends:
            del left[i]
    return bool(left)


def _joined(steps: Sequence[ir.Node]) -> dict[int, tuple[ir.Node, list[str]]]:
    """Steps by number, each with the collections that are cleared at its own barrier.

    A `Clear` joins the step before it, and may overtake what does not ask for a size.
    """
    found: dict[int, tuple[ir.Node, list[str]]] = {}
    last: list[str] | None = None
    for k, s in enumerate(steps):
        if isinstance(s, ir.Clear) and last is not None:
            last.append(s.slot)
            continue
        found[k] = (s, [s.slot] if isinstance(s, ir.Clear) else [])
        asks = any(isinstance(n, ir.StoreSize | ir.Call) for n in ir.walk(s))
        if not isinstance(s, ir.Assign):
            last = found[k][1] if not isinstance(s, ir.TakeFlag) else None
        elif asks:
            last = None
    return found


def _uniform(unit: ir.Unit) -> tuple[ir.Node, ...]:
    """The expressions that every thread computes alike."""
    found: list[ir.Node] = []
    for b in unit.blocks:
        found += [b.cond] if b.cond is not None else []
        for s in b.steps:
            found += [s.value] if isinstance(s, ir.Assign) else []
            found += [*s.args, *s.where_args] if isinstance(s, ir.Foreach) else []
    return tuple(found)


def _can_fail(e: Emission, s: ir.Node) -> bool:
    steps = isinstance(s, ir.Foreach | ir.OneThread)
    return steps and any(isinstance(n, ir.Reserve | ir.LocalAdd) for n in e.step_nodes(s))


def _end(e: Emission, name: str, s: ir.Node, clears: Sequence[str]) -> None:
    """The barrier after a step, if the master has anything to settle or to tell there."""
    if not isinstance(s, ir.Foreach | ir.OneThread | ir.Clear):
        return
    fails, shared = _can_fail(e, s), listed(e, s)
    failed = "load(a.status + FAILED) != 0" if fails else ""
    lines, does = e.settles(tuple(e.step_nodes(s)), clears, failed)
    does += ["tell(t, failed);"] if fails else []
    if shared:  # what waits on the list comes first; then all meet here again
        does = ["} else {", *(f"    {x}" for x in does)] if does else []
        assert isinstance(s, ir.Foreach)
        waits = fails and e.spreads[s.kernel].batched
        took = f"take_hubs(a, {'failed' if waits else 'false'})"
        does = [f"if ({took}) {{", "    tell(t, true);", *does, "}"]
    if not lines and not does:
        return
    lines = [*lines, *does, "rewind(a);"]
    inner = ["    if (arrive(a, t)) {", *(f"        {x}" for x in lines), "    }"]
    e.put("", f"MORPH_FN void end{name}(const Args& a, Run& t) {{")
    e.put(*e.way(inner, "t"), "    depart(a, t);", "}")
    e.ends.add(name)


def _alone(e: Emission, name: str, s: ir.OneThread) -> None:
    """What one thread does; its variables reach the others through the state."""
    b = e.uniform()
    b.flag, b.launch = e.flag, "it.launch"
    b.put("Item it(a, t, -1);")
    b.body(s.body)
    for i, (n, _) in enumerate(e.unit.state):
        if n in _assigned(s):
            b.put(f"store(a.state + VARS + {i}, i64(to_bits(t.{e.names.member(n)})));")
    b.put("end_item(a, it);")
    head = f"MORPH_FN void alone{name}(const Args& a, Run& t) {{"
    e.put("", head, *e.way(b.lines, "t"), "}", '#line 1 "morph"')


def _assigned(s: ir.OneThread) -> set[str]:
    return {n.name for n in ir.walk(s) if isinstance(n, ir.Assign)}


def _step(e: Emission, b: Body, name: str, s: ir.Node, looks: bool) -> None:
    guard = "if (t.looked) barrier(a, t);" if looks else ""
    match s:
        case ir.Assign():
            _look(b, s.value)
            b.put(f"{b.resolve(s.name)} = {b.expr(s.value)};")
        case ir.TakeFlag():
            flag = e.names.prefix[s.slot]
            b.put(f"{b.resolve(s.var)} = take_flag(a, t, a.{flag}_flag, t.{flag}_turn);")
        case ir.Foreach():
            made = f"Step{name}{e.step_args(s)}"
            _look(b, (*s.args, *s.where_args))
            looked = e.step_nodes((*s.args, *s.where_args))
            early = bool(guard) and any(isinstance(n, LOOKS) for n in looked)
            if early:  # in braces: no case may jump over it
                b.put("{")
                b.depth += 1
                b.put(f"Step{name} s{name} = {e.step_args(s)};")
                made = f"s{name}"
            if guard:
                b.put(guard)
            asks = f"leaves{e.call_step(s, made).removeprefix('each')[:-1]}"
            b.put(f"if ({'resizes(a, t)' if e.claims else asks}) {{")
            b.put(f"    t.step = {name.split('_')[1]};")
            b.put("    return;")
            b.put("}")
            b.put(e.call_step(s, made))
            if listed(e, s):
                b.put(f"end{name}(a, t);")
                b.put("while (t.told && has_hubs(a)) {")
                b.put(f"    run_hubs(a, t, {made});")
                b.put(f"    end{name}(a, t);")
                b.put("}")
            _finish(e, b, name, s)
            if e.locks:
                b.put("t.launch--;")
            if early:
                b.depth -= 1
                b.put("}")
        case ir.OneThread() | ir.Clear():
            if guard and isinstance(s, ir.OneThread):
                b.put(guard)
            if isinstance(s, ir.OneThread) and s.body:
                b.put(f"if (t.thread == 0) alone{name}(a, t);")
            _finish(e, b, name, s)
            for i, (n, t) in enumerate(e.unit.state):
                if isinstance(s, ir.OneThread) and n in _assigned(s):
                    b.put(f"t.{e.names.member(n)} = {e.from_state(i, t)};")
                    b.put("t.looked = true;")


def _finish(e: Emission, b: Body, name: str, s: ir.Node) -> None:
    if not listed(e, s):
        b.put(f"end{name}(a, t);" if name in e.ends else "barrier(a, t);")
    if _can_fail(e, s):
        b.put("if (t.told) {")
        b.put(f"    t.step = {name.split('_')[1]}, t.replay = true;")
        b.put("    return;")
        b.put("}")
        b.put("t.replay = false;")


def _look(b: Body, node: object) -> None:
    if any(isinstance(n, (*LOOKS, ir.Call)) for n in ir.walk(node)):
        b.put("t.looked = true;")


def _jump(e: Emission, block: ir.Block, looks: bool) -> None:
    b = e.uniform()
    b.depth = 2
    if block.cond is None:
        b.put(f"t.block = {block.goto};")
    else:
        _look(b, block.cond)
        b.put(f"t.block = {b.sub(block.cond)} ? {block.goto} : {block.orelse};")
    if block.swap:
        ways = e.unit.ways
        after = (swapped(way, block.swap) for way in ways)
        to = ", ".join(str(ways.index(w) if w in ways else 0) for w in after)
        b.put(f"t.way = one_of<{to}>(t.way);")
    b.put("break;")
    e.put(*b.lines)


def _settle(e: Emission) -> None:
    """At the end of the launch, by the master: where the program stands."""
    e.put("", "MORPH_FN void settle(const Args& a, const Run& t) {")
    for word in ("block", "step", "replay", "launch"):
        e.put(f"    store(a.state + {word.upper()}, t.{word});")
    if e.unit.ways:
        e.put("    store(a.state + WAY, t.way);")
    if e.locks:
        e.put("    store(a.status + LOCKS, -1 - t.launch);")
    for i, (n, _) in enumerate(e.unit.state):
        e.put(f"    end_with(a, {i}, i64(to_bits(t.{e.names.member(n)})));")
    e.put(f"    report(a, {'t.round' if e.claims else '0'});")
    for f in sorted(e.sets):
        e.put(f"    rest_flag(a.{e.names.prefix[f]}_flag, t.{e.names.prefix[f]}_turn);")
    if e.claims:
        e.put("    store(a.status + ROUND, i64(t.round));")
    e.put("}")
