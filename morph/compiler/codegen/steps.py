"""One ``foreach`` as C++: the filter of its items, their arguments and their claims."""

from __future__ import annotations

from morph.compiler.codegen.emission import Emission, boolean, values
from morph.compiler.codegen.group_execution import group_members
from morph.compiler.codegen.shared_loop_steps import sharing_members
from morph.compiler.codegen.shared_searches import search_members
from morph.compiler.codegen.slot_cache import demand_member, take_all
from morph.compiler.codegen.warp_execution import warp_members
from morph.compiler.ir import nodes as ir
from morph.compiler.passes.plan import StepPlan
from morph.language.types import Handle, Local


def step_text(e: Emission, step: StepPlan) -> list[str]:
    """The struct of a step; ``kernels/schedule/launch.h`` lists its members."""
    s, n = step.node, e.names
    assert isinstance(s, ir.Foreach)
    k = e.plan.functions[s.kernel].func
    assert isinstance(k, ir.Kernel)
    where = e.plan.functions[k.where].func if k.where else None
    given = [(f"x{i}", t) for i, (_, t) in enumerate(values(k)[1:])]  # besides the item
    tested = [(f"w{i}", t) for i, (_, t) in enumerate(values(where)[1:])] if where else []
    args = "".join(f", {x}" for x, _ in given)
    about = f"foreach {s.slot}: {k.name}" + (f", where {where.name}" if where else "")
    test = n.call(where.name, f", it.row{''.join(f', {w}' for w, _ in tested)}") if where else ""
    return [
        f"struct Step{step.name} {{  // {about}",
        f"    typedef {f'{n.funcs[k.name]}_item' if k.commit is not None else 'Item'} I;",
        *(f"    {n.type(t)} {x};" for x, t in (*given, *tested)),
        f"    static constexpr bool FILTERS = {boolean(where)};",
        f"    static constexpr bool FETCH_ADDS = {boolean(step.fetch_adds)};",
        *_filter(e, step, test),
        *(_run(e, step, args) if k.commit is None else _gather_and_commit(e, step, args)),
        "};",
        "",
    ]


def _filter(e: Emission, step: StepPlan, test: str) -> list[str]:
    """Members that find the row of an item, and decide whether it is run, by the filter's test."""
    s, n = step.node, e.names
    assert isinstance(s, ir.Foreach)
    conditions, found = [], []
    if n.stores[s.slot].deletes:
        conditions.append(f"!is_dead({n.base(s.slot)}_dead, it.position)")
    if s.slot in e.plan.recycled:
        created = f"a.{n.prefix[s.slot]}_created, it.position, {e.launch}"
        conditions.append(f"!created_in_launch({created})")
    if test:
        conditions.append(f"{test} && !it.failed")
    if step.runs_messages:
        found.append("it.row = inbox_row(a, it.position);")
    if n.lists_rows(s.slot):
        column = n.column(s.slot, "item")
        at = "it.row" if step.runs_messages else "it.position"
        row = f"{column}.get({at})"
        if (s.slot, "item") in e.plan.functions[s.kernel].main.stable:
            row = f"item_of(it.asynchronous, {column}.stable(), {at})"
        found.append(f"it.row = {row};")
    tests = ["find(a, it);"] if found else []
    tests.append(f"return {' && '.join(conditions) or 'true'};")
    return [
        *e.member("MORPH_FN void find(const Args& a, I& it) const", found, "it", [s.slot]),
        *e.member("MORPH_FN bool open(const Args& a, I& it) const", tests),
    ]


def _run(e: Emission, step: StepPlan, args: str) -> list[str]:
    """Members that run a kernel without claims, by each way in which threads may divide it."""
    s = step.node
    assert isinstance(s, ir.Foreach)
    name = e.names.funcs[s.kernel]
    lines = [
        f"    MORPH_FN void run(const Args& a, I& it) const {{ {name}(a, it, it.row{args}); }}",
        *take_all(e, step),
    ]
    if step.searching:
        lines += search_members(e, step, step.searching, args)
    elif step.sharing:
        lines += sharing_members(e, step, step.sharing, args)
    else:
        lines.append("    static constexpr bool WORK_SHARING = false;")
        lines.append("    static constexpr bool BATCHED = false;")
    if step.group:
        lines += group_members(step, name, args)
    return lines + warp_members(step, name, args)


def _gather_and_commit(e: Emission, step: StepPlan, args: str) -> list[str]:
    """Members that run the parts of a kernel with claims."""
    s, head = step.node, "(const Args& a, I& it) const"
    assert isinstance(s, ir.Foreach)
    plan, name = e.plan.functions[s.kernel], e.names.funcs[s.kernel]
    assert isinstance(plan.func, ir.Kernel)
    call = f"(a, it, it.row{args});"
    lines = [f"    MORPH_FN bool run{head} {{ return {name}{call} }}"]
    after_barrier = "it.step++; " if e.unit.checked else ""  # race checks: another step
    for part in ("commit", "abort"):
        lines.append(f"    MORPH_FN void {part}{head} {{ {after_barrier}{name}_{part}{call} }}")
    return [*lines, *_claims(e, plan.func, head), *demand_member(plan, name, args)]


def _claims(e: Emission, k: ir.Kernel, given: str) -> list[str]:
    """Members by which an item claims its collection, and tests whether it has won."""
    types = dict(k.params) | dict(k.locals)
    claim = ir.find(k, ir.Claim)[0]

    stores = []

    def rows(name: str) -> str:
        t = types[name]
        assert isinstance(t, Local) and isinstance(t.elem, Handle)
        stores.append(t.elem.slot)
        return f"({e.names.base(t.elem.slot)}_owner, it.{e.names.member(name)}, it.key)"

    wins = f"owns{rows(claim.items)}"
    if claim.guard:
        wins += f" & unchallenged{rows(claim.guard)}"
    lines: list[str] = []
    for head, statement in (
        ("void claim", f"::claim{rows(claim.items)}"),
        ("bool wins", f"return {wins}"),
    ):
        body = " ".join(x.strip() for x in e.with_permutation([f"{statement};"], "it", stores))
        lines.append(f"    MORPH_FN {head}{given} {{ {body} }}")
    return lines
