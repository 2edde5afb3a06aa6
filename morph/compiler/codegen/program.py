"""A program as one launch: blocks are the cases of a switch that all threads execute.

Each step ends at a barrier.  The last thread at the barrier clears the collections that the program
clears next.  If items were deferred, this thread saves the position in the program and all threads
return; the host grows the full stores and launches again from that step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from morph.compiler.codegen.crossings import (
    RELEASE,
    agreement,
    crossing_steps,
    deliver_ends,
    stops,
)
from morph.compiler.codegen.emission import Emission
from morph.compiler.codegen.slot_cache import close_gaps
from morph.compiler.codegen.statements import Body
from morph.compiler.ir import nodes as ir
from morph.compiler.passes.outline import RESULT
from morph.compiler.passes.plan import ANY_MEMORY, VARIABLES, BlockPlan, StepPlan


def emit_program(e: Emission) -> None:
    """Add a fused unit's ``run`` and ``publish_counters``."""
    plan = e.plan
    for s in (s for block in plan.blocks for s in block.steps):
        if isinstance(s.node, ir.OneThread) and s.node.body:
            _one_thread(e, s, s.node)
        if isinstance(s.node, ir.Deliver):
            deliver_ends(e, s, s.node)
        elif s.publishes or s.by_master or isinstance(s.node, ir.Exchange | ir.Combine):
            _end(e, s)
    e.put("", "MORPH_FN void run(const Args& a, Run& t) {")
    if plan.calls:
        e.put("    Item it(a, t, -1);")
    swapped = any(block.swapped for block in plan.blocks)
    indent = "    " if swapped else ""
    e.put("    for (;;) {", f"    {indent}if (stops(t)) return;")
    if plan.spins:
        e.put(f"    {indent}if ((++t.iterations & 0xffff) == 0) barrier(a, t);")
    if swapped:
        e.put("        const Permutation& permutation = a.permutations[t.permutation];")
    e.put(f"    {indent}switch (t.block) {{")
    loop, e.lines = e.lines, []
    for number, block in enumerate(plan.blocks):
        _block(e, number, block)
    e.put("    default:", "        return;", "    }")
    cases, e.lines = e.lines, loop
    e.put(*(x if x.startswith("#") else indent + x for x in cases), "    }", "}")
    _publish(e)


def publish_lines(e: Emission, s: StepPlan, failed: str) -> tuple[list[str], list[str]]:
    """For the last thread at a step's barrier: its loads, and its actions if not ``failed``."""
    resized, clears = s.resized, s.clears
    lines = [x for slot in resized for x in close_gaps(e, slot)]
    for slot in (*resized, *(s for s in clears if s not in resized)):
        words, meta = f"{e.names.prefix[slot]}_counters", f"{e.names.base(slot)}_meta"
        if e.names.stores[slot].kind == "table":
            lines.append(f"TableCounters {words}({meta});")
        else:
            end = "TO" if e.plan.snapshot else "COUNT"
            lines.append(f"CollectionCounters {words}({meta}, {end});")
    if failed:
        lines.append(f"bool failed = {failed};")
    # the items of a queue that a failed step adds are items of its re-execution
    queue = s.node.slot if isinstance(s.node, ir.Foreach) and s.node.until_empty else ""
    arguments = {x: "failed" if failed and x != queue else "" for x in resized}
    actions = [f"{e.names.prefix[x]}_counters.publish_counters({y});" for x, y in arguments.items()]
    unless = "if (!failed) " if failed else ""
    actions += [f"{unless}{e.names.prefix[s]}_counters.clear();" for s in clears]
    if e.parts:
        lists = [s for s in clears if e.names.stores[s].kind == "collection"]
        actions += [f"{unless}store({e.names.base(s)}_meta + GLOBAL, 0);" for s in lists]
    return lines, actions


def _end(e: Emission, s: StepPlan) -> None:
    """The barrier after a step at which the last thread publishes counters or other state."""
    failed = "load(a.status + FAILED) != 0" if s.can_fail else ""
    lines, actions = publish_lines(e, s, failed)
    crosses = bool(s.agree) or isinstance(s.node, ir.Exchange | ir.Combine)
    actions += [f"compare_counters(a.{e.names.prefix[g]}_rebuild);" for g in s.rebuilds]
    fails = crosses or (s.can_fail and not s.fails_at_delivery)
    broadcasts = ["broadcast(t, failed);"] if fails else []
    actions += [] if crosses else broadcasts
    actions += ["end_queue(a);"] if isinstance(s.node, ir.Foreach) and s.node.until_empty else []
    if crosses:
        lines += [] if failed else ["bool failed = false;"]
        rest = [f"    {x}" for x in actions]
        rest = ["if (!left_at_crossing(a)) {", *rest, "}"] if rest else []
        actions = [*agreement(e, s), *broadcasts, *rest]
    if s.lists_long_rows and s.sharing:  # listed rows come first; then this barrier again
        actions = ["} else {", *(f"    {x}" for x in actions)] if actions else []
        waits = s.can_fail and s.sharing.loop.batched
        took = f"take_high_degree_list(a, {'failed' if waits else 'false'})"
        actions = [f"if ({took}) {{", "    broadcast(t, true);", *actions, "}"]
    lines = [
        *([f"alone{s.name}(a, t);"] if s.by_master else []),
        *lines,
        *actions,
        f"rewind_sections(a, {s.sections});" if s.sections > 1 else "rewind(a);",
    ]
    inner = ["    if (arrive(a, t)) {", *(f"        {x}" for x in lines), "    }"]
    e.put("", f"MORPH_FN void end{s.name}(const Args& a, Run& t) {{")
    release = RELEASE if crosses else "    release_barrier(a, t);"
    e.put(*e.with_permutation(inner, "t", {*s.resized, *s.clears}), release, "}")


def _one_thread(e: Emission, s: StepPlan, node: ir.OneThread) -> None:
    """The statements of one thread; it passes variables to the other threads in the state."""
    b = e.one_thread()
    b.put("Item it(a, t, -1);")
    b.body(node.body)
    for i, (n, _) in enumerate(e.unit.state):
        if n in s.assigned:
            b.put(f"store(a.state + VARS + {i}, i64(to_bits(t.{e.names.member(n)})));")
    b.put("end_item(a, it);")
    head = f"MORPH_FN void alone{s.name}(const Args& a, Run& t) {{"
    e.put("", head, *e.with_permutation(b.lines, "t", s.stores), "}", '#line 1 "morph"')


def _block(e: Emission, number: int, block: BlockPlan) -> None:
    """One case of the switch."""
    e.put(f"    case {number}:{f' MORPH_LABEL({number})' * e.unit.single_block}")
    for s in block.steps:
        if not s.has_barrier:  # printed with the last section of its step
            continue
        b = e.uniform()
        b.depth = 2
        if s.runs_messages:
            b.put("if (!t.quiet) {")
            b.depth += 1
        _step(e, b, s, [p for p in block.steps if p.number == s.number])
        if s.runs_messages:
            b.depth -= 1
            b.put("}")
        if s.number < block.resumes:
            e.put(f"        if (t.step <= {s.number}) {{", *(f"    {x}" for x in b.lines))
            e.put("        }")
        else:
            e.put(*b.lines)
    if block.resumes >= 0:
        e.put("        t.step = 0;")
    _jump(e, block)


def _step(e: Emission, b: Body, s: StepPlan, parts: Sequence[StepPlan]) -> None:
    """A step; ``parts`` are its sections, the last of which is ``s``."""
    guard = _guard(e, parts)
    match s.node:
        case ir.Assign(name=name, value=value):
            _reads(b, s.reads)
            b.put(f"{b.resolve(name)} = {b.expr(value)};")
        case ir.TakeFlag(var=var, slot=slot):
            flag = e.names.prefix[slot]
            b.put(f"{b.resolve(var)} = take_flag(a, t, a.{flag}_flag, t.{flag}_turn);")
        case ir.Foreach():
            _foreach(e, b, s, parts, guard)
        case ir.OneThread(body=body):
            if guard and not s.by_master:
                b.put(guard)
            if body and not s.by_master:
                b.put(f"if (t.thread == 0) alone{s.name}(a, t);")
            _finish(b, s)
            for i, (n, t) in enumerate(e.unit.state):
                if n in s.assigned:
                    b.put(f"t.{e.names.member(n)} = {e.from_state(i, t)};")
            _reads(b, VARIABLES if s.assigned else 0)
        case ir.Clear():
            _finish(b, s)
        case ir.FillMirrors() | ir.Exchange() | ir.Combine() | ir.Deliver():
            if guard and isinstance(s.node, ir.FillMirrors):
                b.put(guard)
            for line in crossing_steps(e, s):
                b.put(line)


def _reads(b: Body, bits: int) -> None:
    """Note that all threads read memory with these bits."""
    if bits:
        b.put(f"t.has_read |= {bits:#x}u;")


def _guard(e: Emission, parts: Sequence[StepPlan]) -> str:
    """The barrier before a step, if threads have read memory that it may write."""
    blocks = e.plan.blocks
    read = [x for block in blocks for x in (block.reads, *(s.reads for s in block.steps))]
    read += [VARIABLES for block in blocks for s in block.steps if s.assigned]
    if e.parts and e.parts.bits:  # mirrors that are set after a crossing
        read.append(ANY_MEMORY)
    bits = reduce(or_, (p.writes for p in parts)) & reduce(or_, read, 0)
    return f"if (t.has_read & {bits:#x}u) barrier(a, t);" if bits else ""


def _foreach(e: Emission, b: Body, s: StepPlan, parts: Sequence[StepPlan], guard: str) -> None:
    nodes = [p.node for p in parts if isinstance(p.node, ir.Foreach)]
    made = [f"Step{p.name}{e.step_args(n)}" for p, n in zip(parts, nodes, strict=True)]
    _reads(b, reduce(or_, (p.reads for p in parts)))
    early = any(p.arguments_vary for p in parts)
    if early:  # in braces, as a case must not jump past an initialisation
        b.put("{")
        b.depth += 1
        for k, (p, n) in enumerate(zip(parts, nodes, strict=True)):
            b.put(f"Step{p.name} s{p.name} = {e.step_args(n)};")
            made[k] = f"s{p.name}"
    if s.agree:  # a launch that has left at the crossing resumes there
        b.put("if (!t.crossed) {")
        b.depth += 1
    if guard:
        b.put(guard)
    b.put(f"if ({_leaves(e, parts, nodes, made)}) {{")
    b.put(f"    t.step = {s.number};")
    b.put("    return;")
    b.put("}")
    for k, (p, x) in enumerate(zip(parts, made, strict=True)):
        if k:
            b.put(f"t.section = {k};")
        b.put(e.runs(p, x))
    if s.sections > 1:
        b.put("t.section = 0;")
    if s.agree:
        b.depth -= 1
        b.put("}")
    if s.lists_long_rows:
        b.put(f"end{s.name}(a, t);")
        b.put("while (t.broadcast_value && has_high_degree_list(a)) {")
        b.put(f"    run_high_degree_list(a, t, {made[0]});")
        b.put(f"    end{s.name}(a, t);")
        b.put("}")
    _finish(b, s)
    for slot in s.rebuilds:
        b.put(f"rebuild_adjacency(a, t, a.{e.names.prefix[slot]}_rebuild);")
    if e.plan.locks:
        b.put("t.launch--;")
    if early:
        b.depth -= 1
        b.put("}")


def _leaves(
    e: Emission, parts: Sequence[StepPlan], nodes: Sequence[ir.Foreach], made: Sequence[str]
) -> str:
    """The test whether a team of another size should execute the step."""
    if e.plan.full_team:
        return "changes_team(a, t)"
    if len(nodes) == 1:
        return e.step_call("step_changes_team", nodes[0], made[0])
    work = " + ".join(e.step_call("work", n, x) for n, x in zip(nodes, made, strict=True))
    kinds = ", ".join(f"Step{p.name}" for p in parts)
    return f"sections_change_team<{kinds}>(a, t, [&] {{ return {work}; }})"


def _finish(b: Body, s: StepPlan) -> None:
    if not s.lists_long_rows:
        ends = s.publishes or s.by_master
        b.put(f"end{s.name}(a, t);" if ends else "barrier(a, t);")
    if s.agree:
        for line in stops(s):
            b.put(line)
    if s.can_fail and not s.fails_at_delivery:
        b.put("if (t.broadcast_value) {")
        b.put(f"    t.step = {s.number}, t.replay = true;")
        b.put("    return;")
        b.put("}")
        b.put("t.replay = false;")


def _jump(e: Emission, block: BlockPlan) -> None:
    b, node = e.uniform(), block.node
    b.depth = 2
    if node.cond is None:
        b.put(f"t.block = {node.goto};")
    else:
        _reads(b, block.reads)
        b.put(f"t.block = {b.sub(node.cond)} ? {node.goto} : {node.orelse};")
    if block.permutations:
        b.put(f"t.permutation = one_of<{', '.join(map(str, block.permutations))}>(t.permutation);")
    if node.saves:
        b.put(f"t.{e.names.member(node.saves)} = t.permutation;")
    if node.restores:
        b.put(f"t.permutation = t.{e.names.member(node.restores)};")
    # `permutation` refers to the present one, so it is found again by the loop around the switch
    if e.unit.single_block and not (block.permutations or node.restores or e.plan.spins):
        ends = [node.goto] if node.cond is None else [node.goto, node.orelse]
        jumps = ["return;" if end < 0 else f"MORPH_GO({end});" for end in ends]
        if len(ends) > 1:
            b.put(f"if (t.block == {ends[0]}) {jumps.pop(0)}")
        b.put(jumps[0])
    else:
        b.put("break;")
    e.put(*b.lines)


def _publish(e: Emission) -> None:
    """At the end of the launch the last thread stores the state of the program.

    A launch of one block, which waits for its instructions, stores only the result at its end.
    """
    e.put("", "MORPH_FN void publish_counters(const Args& a, const Run& t) {")
    e.put("    store(a.state + BLOCK, t.block);")
    variables = {n: f"store_variable(a, {i}, i64(to_bits(t.{e.names.member(n)})));"
                 for i, (n, _) in enumerate(e.unit.state)}  # fmt: skip
    if RESULT in variables:
        e.put(f"    {variables.pop(RESULT)}")
    e.put("    if (!SINGLE_BLOCK || t.block >= 0) {")
    e.put(*(f"        store(a.state + {w.upper()}, t.{w});" for w in ("step", "replay", "launch")))
    if e.unit.permutations:
        e.put("        store(a.state + PERMUTATION, t.permutation);")
    e.put(*(f"        {line}" for line in variables.values()), "    }")
    if e.plan.locks:
        e.put("    store(a.status + LOCKS, -1 - t.launch);")
    crossings = "u32(load(a.parts + PARTS_CROSSINGS))" if e.parts else "0"
    e.put(f"    report(a, {'t.round' if e.plan.claims else crossings});")
    if e.parts:
        e.put("    end_parts(a);")
    for f in e.plan.flags:
        e.put(f"    store_flag(a.{e.names.prefix[f]}_flag, t.{e.names.prefix[f]}_turn);")
    if e.plan.claims:
        e.put("    store(a.status + ROUND, i64(t.round));")
    e.put("}")
