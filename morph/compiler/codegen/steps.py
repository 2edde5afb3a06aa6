"""One ``foreach`` as C++: the filter of its items, their arguments and their claims."""

from __future__ import annotations

from morph.compiler.codegen.emission import Emission
from morph.compiler.codegen.group_execution import group_members
from morph.compiler.codegen.shared_loops import step_members
from morph.compiler.codegen.shared_searches import search_members
from morph.compiler.codegen.warp_execution import warp_members
from morph.compiler.ir import nodes as ir
from morph.compiler.passes.plan import StepPlan
from morph.language.types import Handle, Local, Object, Type


def step_text(e: Emission, step: StepPlan) -> list[str]:
    """The struct of a step; ``kernels/schedule/launch.h`` lists its members."""
    s, n, name = step.node, e.names, f"Step{step.name}"
    assert isinstance(s, ir.Foreach)
    plan = e.plan.functions[s.kernel]
    k = plan.func
    assert isinstance(k, ir.Kernel)
    func = n.funcs[k.name]
    item = f"{func}_item" if k.commit is not None else "Item"
    where = e.plan.functions[k.where].func if k.where else None
    params = _values(k)[1:]
    tests = _values(where)[1:] if where else []
    xs, ws = [f"x{i}" for i in range(len(params))], [f"w{i}" for i in range(len(tests))]
    args, given = "".join(f", {x}" for x in xs), "".join(f", {w}" for w in ws)
    about = f"foreach {s.slot}: {k.name}" + (f", where {where.name}" if where else "")
    lines = [f"struct {name} {{  // {about}", f"    typedef {item} I;"]
    for (_, t), x in zip((*params, *tests), (*xs, *ws), strict=True):
        lines.append(f"    {n.type(t)} {x};")
    lines.append(f"    static constexpr bool FILTERS = {'true' if where else 'false'};")
    adds = "true" if step.fetch_adds else "false"
    lines.append(f"    static constexpr bool FETCH_ADDS = {adds};")
    alive, found = [], []
    if n.stores[s.slot].deletes:
        alive.append(f"!is_dead({n.base(s.slot)}_dead, it.position)")
    if s.slot in e.plan.recycled:
        launch = "it.launch" if e.unit.fused else "i32(a.launch)"
        alive.append(
            f"!created_in_launch(a.{e.names.prefix[s.slot]}_created, it.position, {launch})"
        )
    if step.answers:
        found.append("    it.row = inbox_row(a, it.position);")
    if n.lists_rows(s.slot):
        column, stands = n.column(s.slot, "item"), (s.slot, "item") in plan.main.stable
        at = "it.row" if step.answers else "it.position"
        row = f"item_of(it.asynchronous, {column}.stable(), {at})"
        found.append(f"    it.row = {row if stands else f'{column}.get({at})'};")
    if where:
        alive.append(f"{n.call(where.name, f', it.row{given}')} && !it.failed")
    opened = ["    find(a, it);"] if found else []
    opened.append(f"    return {' && '.join(alive) or 'true'};")
    for head, body in (
        ("void find", e.with_permutation(found, "it", [s.slot])),
        ("bool open", opened),
    ):
        lines.append(f"    MORPH_FN {head}(const Args& a, I& it) const {{")
        lines += [*(f"    {x}" for x in body), "    }"]
    call, head = f"(a, it, it.row{args});", "(const Args& a, I& it) const"
    if k.commit is None:
        lines.append(f"    MORPH_FN void run{head} {{ {func}{call} }}")
        lines += (search_members if step.searching else step_members)(e, step, args)
        if step.group:
            lines += group_members(step, func, args)
        lines += warp_members(step, func, args)
    else:
        lines.append(f"    MORPH_FN bool run{head} {{ return {func}{call} }}")
        after_barrier = "it.step++; " if e.unit.checked else ""  # race checks: another step
        for part in ("commit", "abort"):
            lines.append(f"    MORPH_FN void {part}{head} {{ {after_barrier}{func}_{part}{call} }}")
        lines += _claims(e, k, head)
    return [*lines, "};", ""]


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


def _values(f: ir.Func) -> list[tuple[str, Type]]:
    return [(n, t) for n, t in f.params if not isinstance(t, Object)]
