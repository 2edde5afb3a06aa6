"""The outline of a unit: its properties that launches need."""

from __future__ import annotations

from morph.compiler.ir import abi
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.layout import TILE_BYTES
from morph.compiler.ir.outline import Outline
from morph.compiler.ir.spelling import ascii_name
from morph.compiler.passes.group_execution import widest_group
from morph.compiler.passes.planner import cooperative
from morph.compiler.passes.search import shared_searches
from morph.compiler.passes.warp_execution import kernels_by_warp
from morph.compiler.passes.work_sharing import lists_long_rows, shared_loops
from morph.language.types import Scalar

RESULT = "result_"  # the variable that a program returns


def prelude_options(unit: ir.Unit) -> tuple[int, ...]:
    """Return the arguments of `prelude` for a unit: which headers precede its text."""
    wide, parts = any(s.wide for s in unit.stores), (1 + unit.ranks) * bool(abi.parts_of(unit))
    groups, warps = widest_group(unit) > 0, bool(kernels_by_warp(unit))
    return unit.checked, bool(abi.rebuilt(unit)), wide, parts, groups, warps, unit.single_block


def outline(unit: ir.Unit) -> Outline:
    """Return the outline of a unit."""
    nodes = list(ir.walk((unit.funcs, unit.blocks)))
    graphs, redirected = [g.slot for g in unit.graphs], _redirected(nodes)
    walked = {n.graph for n in nodes if n.arguments == "adjacency"}  # type: ignore[attr-defined]
    rebuilt, queues, fields = abi.rebuilt(unit), abi.queues(unit), abi.fields(unit)
    changes = (ir.New, ir.NewRows, ir.Delete, ir.Add, ir.Take, ir.Clear)
    changed = {n.slot for n in nodes if isinstance(n, changes)} | queues
    touches = _swapped_too(unit, changed)
    touches += [f"{g}.edges" for g in rebuilt if f"{g}.edges" not in touches]
    moved = {*touches, *redirected}
    deletes = sorted({n.slot for n in nodes if isinstance(n, ir.Delete)})
    adjacency = sorted(
        (f.slot, f.kind.partition("_")[0]) for f in fields if f.kind.endswith("_offset")
    )
    # the domains of steps in which all items claim in one round
    together = [n for n in nodes if isinstance(n, ir.Foreach) and n.together]
    kinds = (ir.Reserve, ir.Claim, ir.LocalAdd)
    shares = shared_loops(unit) or shared_searches(unit) or kernels_by_warp(unit)
    return Outline(
        name=unit.name,
        entry=ascii_name(unit.name),
        prelude=prelude_options(unit),
        stores=unit.stores,
        graphs=unit.graphs,
        made=unit.made,
        permutations=unit.permutations,
        fused=unit.fused,
        checked=unit.checked,
        single_block=unit.single_block,
        inputs=unit.scalars,
        state=len(unit.state),
        result=_result(unit),
        fields=fields,
        local_bytes=abi.local_bytes(unit),
        cooperative=cooperative(unit),
        claims=abi.claims(unit),
        queues=bool(queues),
        ahead=any(isinstance(f, ir.Kernel) and f.ahead for f in unit.funcs),
        lists=lists_long_rows(unit),
        lanes=widest_group(unit) or (32 if shares else 1),
        shared_bytes=TILE_BYTES if any(g.tiled for g in unit.graphs) else 0,
        sections=abi.sections(unit),
        can_fail=unit.fused or unit.checked or any(isinstance(n, kinds) for n in nodes),
        touches=touches,
        reshapes=[g for g in graphs if {f"{g}.points", f"{g}.edges"} & moved],
        redirects=[g for g in graphs if f"{g}.edges" in redirected],
        deletes=deletes,
        cuts=_cuts(unit, nodes, redirected, deletes, rebuilt),
        stepwise=unit.fused and any(f"{g}.edges" in redirected for g in walked),
        domains=_swapped_too(unit, {n.slot for n in nodes if isinstance(n, ir.Foreach)}),
        together=_swapped_too(unit, {n.slot for n in together}),
        adjacency=adjacency,
        rebuilds={s: [d for g, d in adjacency if g == s] for s in sorted(rebuilt)},
    )


def _cuts(
    unit: ir.Unit, nodes: list[ir.Node], redirected: set[str], deletes: list[str],
    rebuilt: frozenset[str],
) -> list[str]:  # fmt: skip
    """The points that a program deletes or adds edges to: edges of deleted points are deleted."""
    if not unit.fused:
        return []
    made = {n.slot for n in nodes if isinstance(n, ir.New | ir.NewRows)} | redirected
    cuts = [f"{g.slot}.points" for g in unit.graphs if f"{g.slot}.edges" in made]
    cuts += [s for s in deletes if s.endswith(".points")]
    return [s for s in cuts if s.removesuffix(".points") not in rebuilt]


def _result(unit: ir.Unit) -> tuple[int, Scalar] | None:
    for i, (name, t) in enumerate(unit.state):
        if name == RESULT:
            assert isinstance(t, Scalar)
            return i, t
    return None


def _swapped_too(unit: ir.Unit, slots: set[str]) -> list[str]:
    """Slots, and the slots that a program may swap with them."""
    together = abi.alike(unit)
    return sorted(slots.union(*(together.get(s, ()) for s in slots)))


def _redirected(nodes: list[ir.Node]) -> set[str]:
    """The tables whose columns `src` or `dst` are written."""
    written = (n.place for n in nodes if isinstance(n, ir.Write | ir.Atomic | ir.LockPlace))
    return {p.slot for p in written if p.column in ("src", "dst")}
