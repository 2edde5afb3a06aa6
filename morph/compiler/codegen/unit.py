"""Prints a unit as one C++ text, which every target compiles after the prelude.

The order of the text: structs, `Args`, the state of an item, the user's functions, a `Step` for
each ``foreach``, the statements of a single thread, and `run`, which all threads execute.
"""

from __future__ import annotations

from collections.abc import Sequence

from morph.compiler.codegen.emission import Emission, boolean
from morph.compiler.codegen.group_execution import group_function
from morph.compiler.codegen.prelude import prelude as prelude
from morph.compiler.codegen.program import emit_program, publish_lines
from morph.compiler.codegen.shared_loops import shared_functions, shared_structs
from morph.compiler.codegen.shared_searches import search_functions, search_structs
from morph.compiler.codegen.slot_cache import batch_slots, demands, slot_caches
from morph.compiler.codegen.steps import step_text
from morph.compiler.codegen.warp_execution import warp_function
from morph.compiler.ir import abi, layout
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import ascii_name
from morph.compiler.passes.outline import prelude_options
from morph.compiler.passes.plan import FunctionPlan, TotalPlace
from morph.compiler.passes.planner import cooperative as cooperative
from morph.compiler.passes.planner import plan as plan_of
from morph.language.types import Local


def prelude_of(unit: ir.Unit) -> str:
    """The device runtime that precedes the text of a unit."""
    return prelude(*prelude_options(unit))


def source(unit: ir.Unit) -> str:
    """The C++ text of a unit, without the prelude.

    Parameters
    ----------
    unit : ir.Unit
        A checked unit.

    Returns
    -------
    str
        C++17 with one entry, ``unit.name``; the same for every target.
    """
    e = Emission(plan_of(unit), prelude_of(unit))
    e.put('#line 1 "morph"')
    head, e.lines = e.lines, []
    for f in e.plan.functions.values():
        _function(e, f)
    _steps(e)
    functions, e.lines = e.lines, head
    for name, members in e.names.structs.items():
        e.put(f"struct {name} {{ {members} }};")
    _arguments(e)
    _run(e)
    _item(e)
    slot_caches(e)
    batch_slots(e)
    for f in e.plan.functions.values():
        if f.commit is not None:
            _live(e, f)
        if f.sharing:
            shared_structs(e, f, f.sharing)
        if f.searching:
            search_structs(e, f, f.searching)
    _end_item(e)
    e.put(*functions)
    return "\n".join(e.lines) + "\n"


def entry(unit: ir.Unit) -> str:
    """The name of the function to launch."""
    return ascii_name(unit.name)


# --- the argument block, the state of threads and items -------------------------------------------


def _arguments(e: Emission) -> None:
    fields = abi.fields(e.unit)

    def declared(permutation: int) -> list[str]:
        return [f"    {_declared(e, f)};" for f in fields if f.permutation == permutation]

    if e.unit.permutations:  # the addresses of swapped collections in one buffer permutation
        e.put("struct Permutation {", *declared(0), "};")
    e.put("struct Args {", *declared(-1))
    if e.unit.permutations:
        e.put(f"    Permutation permutations[{len(e.unit.permutations)}];")
    totals = e.plan.totals[: layout.MOST_TOTALS]
    e.put(f"    enum {{ TOTALS = {len(totals)} }};  // places to which all items add")
    if totals:
        _add_total(e, "add_total(i32 i, u64 sum)", totals)
    if e.plan.float_totals:
        e.put(f"    enum {{ FLOAT_TOTALS = {len(e.plan.float_totals)} }};  // the same for floats")
        _add_total(e, "add_float_total(i32 i, f64 sum)", e.plan.float_totals)
    e.put("};")


def _add_total(e: Emission, head: str, totals: Sequence[TotalPlace]) -> None:
    """Add the function that adds a partial sum to the i-th total, a place that all items add to."""
    e.put(f"    MORPH_FN void {head} const {{")
    e.put("        const Args& a = *this;")
    for i, (slot, column, row, index, t) in enumerate(totals):
        at = row if index is None else f"{row}, {index}"
        place = f"{e.names.column(slot, column)}.at({at})"
        e.put(f"        if (i == {i}) fetch(Plus(), {place}, {abi.CTYPE[t.name]}(sum));")
    e.put("    }")


def _declared(e: Emission, f: abi.Field) -> str:
    """A field of the argument block; a column that the unit does not write is const."""
    name = f.name if f.kind != "scalar" else e.names.spell(f.name)
    const = f.kind == "column" and (f.slot, f.column) not in e.plan.changed
    return f"{f.ctype(const)} {name}"


def _run(e: Emission) -> None:
    """The struct of values that are the same on all threads of the team."""
    u, names, plan = e.unit, e.names, e.plan
    e.put("", "// Values that are equal on all threads of the team.", "struct Run : Team {")
    if u.fused:
        e.put(f"    i32 block = 0, step = 0{', permutation = 0' if u.permutations else ''};")
        e.put(*(f"    {names.type(t)} {names.member(n)}{{}};" for n, t in u.state))
        e.put(*(f"    i32 {names.prefix[f]}_turn = 0;" for f in plan.flags))
        if plan.spins:
            e.put("    u32 iterations = 0;  // of loops without a barrier")
        if any(s.runs_messages for block in plan.blocks for s in block.steps):
            e.put("    bool quiet = false;  // no part has sent messages")
        if e.parts:
            e.put("    bool crossed;  // the launch resumes at a crossing, at which it has left")
        if plan.sections > 1:
            e.put(f"    static constexpr i32 SECTIONS = {plan.sections};", "    i32 section = 0;")
    e.put("    MORPH_FN Run(const Args& a, i32 thread, i32 threads)")
    e.put("        : Team(a, thread, threads) {")
    if u.fused:
        if plan.locks:
            e.put("        launch = -1 - i32(load(a.status + LOCKS));")
        e.put("        replay = false;", "        if (continues(a)) {")
        e.put("            block = i32(load(a.state + BLOCK));")
        e.put("            step = i32(load(a.state + STEP));")
        e.put("            replay = load(a.state + REPLAY);")
        if u.permutations:
            e.put("            permutation = i32(load(a.state + PERMUTATION));")
        if plan.locks:
            e.put("            if (replay) launch = i32(load(a.state + LAUNCH));")
        for i, (n, t) in enumerate(u.state):
            e.put(f"            {names.member(n)} = {e.from_state(i, t)};")
        e.put("        }")
    if e.parts:
        e.put("        crossed = left_at_crossing(a);")
    if plan.claims:
        e.put("        round = u32(load(a.status + ROUND));")
    e.put("    }", "};")


def _item(e: Emission) -> None:
    """The struct of an item's state besides its locals."""
    u, plan, flags = e.unit, e.plan, [e.names.prefix[s] for s in e.plan.flags]
    e.put("", "struct Item : ItemBase {", "    typedef ::SlotCaches SlotCaches;")
    e.put(*(f"    Reservation {e.names.prefix[s]}_reservation{{}};" for s in plan.reserved))
    if u.checked:
        e.put("    u32 step;  // compared by checks for races")
    if plan.asynchronous:
        e.put("    AsynchronousQueue asynchronous;")
    if plan.queues:
        e.put("    const i64* queue = nullptr;  // of a step until empty: the queue's counters")
    made = []
    if u.fused and plan.locks:
        e.put("    i32 launch;")
        made.append("        launch = t.launch;")
    if u.fused and u.permutations:
        e.put("    i32 permutation;")
        made.append("        permutation = t.permutation;")
    if plan.sections > 1:
        e.put("    i32 section;")
        e.put(
            "    MORPH_FN i64 deferred_bit() const { return position * Run::SECTIONS + section; }"
        )
        made.append("        section = t.section;")
    if u.fused:
        e.put(*(f"    i32* {f}_flag;" for f in flags))
        made += [f"        {f}_flag = a.{f}_flag + t.{f}_turn;" for f in flags]
    if u.checked:
        rounds = " + 2 * t.round" if plan.claims else ""
        made.append(f"        step = u32(load(a.check + CHECK_STEP)){rounds};")
    e.put("    MORPH_FN Item(const Args& a, const Run& t, i64 position)")
    e.put("        : ItemBase(position) {", *made, "    }", "};")


def _end_item(e: Emission) -> None:
    e.put("", "MORPH_HOT void end_item(const Args& a, Item& it) {")
    slots = e.plan.reserved
    given = [
        f"    give_back({e.names.base(s)}_meta, it.{e.names.prefix[s]}_reservation);" for s in slots
    ]
    e.put(*e.with_permutation(given, "it", slots))
    if e.plan.reports_failure:
        e.put("    record(a.status, a.deferred, it);")
    e.put("}")


def _live(e: Emission, f: FunctionPlan) -> None:
    """The struct of locals that are live from the gather to the commit phase."""
    k, names = f.func, e.names
    types = dict(k.params) | dict(k.locals)
    name = f"{names.funcs[k.name]}_item"
    live = [(types[n], names.member(n)) for n in f.live]
    buffers = [(t, n) for t, n in live if isinstance(t, Local)]
    e.put("", f"struct {name}_buffers {{", *(f"    {names.buffer(t, n)}" for t, n in buffers), "};")
    e.put(f"struct {name} : Item {{  // locals that are live from gather to commit")
    e.put(f"    typedef {name}_buffers Buffers;", "    u64 key;", "    i32 priority = 0;")
    for t, n in live:
        init = "" if isinstance(t, Local) else "{}"
        e.put(f"    {names.type(t)} {n}{init};")
    given = "".join(f", {n}(buffers.{n})" for _, n in buffers)
    e.put(f"    MORPH_FN {name}(const Args& a, const Run& t, i64 position, Buffers& buffers)")
    e.put(f"        : Item(a, t, position){given} {{}}", "};")


# --- functions -----------------------------------------------------------------------------------


def _function(e: Emission, plan: FunctionPlan) -> None:
    f = plan.func
    name, result, listed = e.names.funcs[f.name], e.names.type(f.result), e.signature(f.params)
    item = ", Item& it" if plan.takes_item else ""
    head = f"{result} {name}(const Args& a{item}{listed})"
    if f.cpp is not None:
        e.put("", f"MORPH_FN {head} {{", *f.cpp.strip("\n").splitlines(), "}", '#line 1 "morph"')
        return
    if isinstance(f, ir.Kernel) and plan.commit and plan.abort:
        live, given = dict.fromkeys(plan.live, "it"), f"(const Args& a, {name}_item& it{listed})"
        e.define(f, f"MORPH_BODY bool {name}{given}", plan.main, live, " false")
        e.define(f, f"MORPH_BODY void {name}_commit{given}", plan.commit, live)
        e.define(f, f"MORPH_BODY void {name}_abort{given}", plan.abort, live)
        return demands(e, plan)
    kind = "MORPH_CALL" if plan.called else "MORPH_BODY"
    default = "" if result == "void" else " {}"
    e.define(f, f"{kind} {head}", plan.main, default=default)
    if plan.sharing:
        shared_functions(e, plan, plan.sharing)
    if plan.searching:
        search_functions(e, plan, plan.searching)
    if plan.by_group:
        group_function(e, plan, plan.by_group)
    if plan.by_warp:
        warp_function(e, plan, plan.by_warp)


# --- steps ---------------------------------------------------------------------------------------


def _steps(e: Emission) -> None:
    """The steps, and the functions that the prelude calls: prepare, heavy, run and others."""
    plan, u = e.plan, e.unit
    e.put("", '#line 1 "morph"')
    for s in (s for block in plan.blocks for s in block.steps):
        if isinstance(s.node, ir.Foreach):
            e.put(*step_text(e, s))
    before = int(plan.snapshot)
    e.put(f"enum {{ PREPARES = {before} }};  // the master prepares the launch")
    e.put(f"enum {{ PUBLISHES = {int(plan.publishes)} }};  // counters are published at its end")
    phases = int(u.fused and not plan.full_team)
    e.put(f"enum {{ CHANGES_TEAM = {phases} }};  // a single thread runs small steps")
    e.put(f"enum {{ BLOCKS = {plan.resident} }};  // resident on a multiprocessor of a GPU")
    _prepare(e)
    _much_work(e)
    if u.fused:
        emit_program(e)
    else:
        _one_step(e)
    e.put("", f"MORPH_ENTRY({entry(u)})")


def _one_step(e: Emission) -> None:
    """The ``run`` and ``publish_counters`` of a single foreach."""
    (s,) = e.plan.blocks[0].steps
    assert isinstance(s.node, ir.Foreach)
    e.put("", "MORPH_FN void run(const Args& a, Run& t) {")
    made = f"Step{s.name}{e.step_args(s.node)}"
    e.put(f"    {e.runs(s, made)}")
    if s.lists_long_rows and s.sharing:
        waits = "true" if s.sharing.loop.batched else "false"
        e.put(
            f"    while (high_degree_list_waits(a, t, {waits})) run_high_degree_list(a, t, {made});"
        )
    e.put("}")
    depends = s.clears or (s.resized and e.plan.snapshot)
    failed = "load(a.status + FAILED) != 0" if depends and s.can_fail else ""
    lines, actions = publish_lines(e, s, failed)
    actions += ["end_queue(a);"] if s.node.until_empty else []
    e.put("", "MORPH_FN void publish_counters(const Args& a, const Run& t) {")
    e.put(*(f"    {line}" for line in (*lines, *actions)))
    if e.plan.claims:
        e.put("    store(a.status + ROUND, i64(t.round));")
    e.put("}")


def _much_work(e: Emission) -> None:
    """The test whether several CPU threads should execute few items; a program tests each step."""
    much = "true" if e.plan.much_work else "false"
    if e.plan.shares and not e.unit.fused:
        (s,) = e.plan.blocks[0].steps
        assert isinstance(s.node, ir.Foreach)
        made = f"Step{s.name}{e.step_args(s.node)}"
        much = f"{e.step_call('work', s.node, made)} >= team_work<Step{s.name}>()"
    e.put("", "#ifndef __CUDACC__", "MORPH_FN bool has_much_work(const Args& a) {")
    e.put("    Run t(a, 0, 1);", f"    return {much};", "}", "#endif")


def _prepare(e: Emission) -> None:
    """The actions of the master before the first step; re-execution keeps the published extents."""
    e.put("", "MORPH_FN void prepare(const Args& a) {")
    lines = []
    for f in abi.fields(e.unit):
        if f.kind == "meta" and e.plan.snapshot and f.permutation <= 0:
            collection = e.names.stores[f.slot].kind == "collection"
            words = f"a.{f.name}" if f.permutation else f"a.permutations[0].{f.name}"
            lines.append(f"    publish_extent({words}, {boolean(collection)});")
        if f.kind == "rebuild":
            lines.append(f"    adjacency_is_valid(a.{f.name});")
    if lines:
        e.put("    if (!a.replay) {", *(f"    {x}" for x in lines), "    }")
    if e.plan.sections > 1:
        e.put(f"    rewind_sections(a, {e.plan.sections});")
    e.put("}")
