"""Searches: loops over edges that end at the first edge that passes a test.

``for t in p.outnbrs: if t.seen: ...; break`` tests one edge after another.  The test has no side
effect, so a GPU's thread may test several edges at once, with overlapping loads.

If the search is the last loop of a kernel, and the step has ``balance="warp"`` or ``"grid"``, the
threads of a GPU's warp share long searches: the kernel becomes a *prologue*, the *test*, and an
*epilogue* for the first edge that passes; see kernels/schedule/search.h.  Otherwise, and on
a CPU, the kernel is not split: where searches end soon, the split costs more than it saves.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from morph.compiler.ir import nodes as ir
from morph.compiler.passes.liveness import read_first
from morph.compiler.passes.work_sharing import last_loops, shared_loop
from morph.language.types import Local, Object

PURE = (
    ir.Const, ir.Var, ir.Load, ir.Place, ir.Unary, ir.Binary, ir.Compare, ir.Logic, ir.Cast,
    ir.Select,
)  # fmt: skip


def condition(s: ir.ForEdges) -> ir.If | None:
    """The test of a search: the ``if`` that forms the body of a loop and ends in ``break``."""
    plain = not s.reverse and s.skip is None and s.start is None and s.direction != "all"
    if not plain or len(s.body) != 1 or not isinstance(test := s.body[0], ir.If):
        return None
    ends = bool(test.then) and isinstance(test.then[-1], ir.Break) and not test.orelse
    nodes = list(ir.walk(test.cond))
    places = [n for n in nodes if isinstance(n, ir.Place)]
    rows = [n.row for n in places]  # they exist for each edge, so speculative tests are safe
    reads = any(isinstance(r, ir.Var) and r.name in (s.edge, s.var) for r in rows)
    pure = all(isinstance(n, PURE) for n in nodes) and all(isinstance(r, ir.Var) for r in rows)
    # another edge's value may be out of range as an index
    indices = [n for p in places for n in ir.walk(p.index)]
    pure = pure and not any(isinstance(n, ir.Load) for n in indices)
    pure = pure and not any(isinstance(n, ir.Var) and n.name in (s.edge, s.var) for n in indices)
    inner = any(isinstance(n, ir.Break | ir.Continue) for n in ir.walk(test.then[:-1]))
    return test if ends and reads and pure and not inner else None


@dataclass(frozen=True, slots=True)
class SharedSearch:
    """The parts of a kernel whose last loop is a search, and the locals live between them.

    Attributes
    ----------
    then : the statements under the test, executed for the edge that passes
    tail : the statements after the loop, executed whether or not an edge passes
    live_in : the locals (the item among them) that the test reads
    live_out : the locals that ``then`` and ``tail`` read
    """

    prologue: ir.Body  # the kernel up to and including the loop
    loop: ir.ForEdges
    test: ir.Expr
    then: ir.Body
    tail: ir.Body
    live_in: tuple[str, ...]
    live_out: tuple[str, ...]
    batched = False  # the epilogue uses the capacity that the prologue has reserved
    capacity = ()


def shared_searches(unit: ir.Unit) -> dict[str, SharedSearch]:
    """The searches that a warp shares, by the name of their kernel; none in a checked unit."""
    if unit.checked:
        return {}
    funcs = {f.name: f for f in unit.funcs}
    tables = {s.slot for s in unit.stores if s.kind == "table"}
    steps = [s for s in ir.find(unit.blocks, ir.Foreach) if allows_shared_search(s)]
    found = {s.kernel: shared_search(funcs[s.kernel], funcs, tables) for s in steps}
    return {name: s for name, s in found.items() if s is not None}


def allows_shared_search(step: ir.Foreach) -> bool:
    """Whether the lanes of a warp may share the search at the end of a step's kernel."""
    return step.balance in ("warp", "grid") and not step.until_empty and not step.together


def shared_search(
    kernel: ir.Func, funcs: Mapping[str, ir.Func], tables: Set[str]
) -> SharedSearch | None:
    """The parts of a kernel whose last loop is a search, unless its last loop is work-sharing."""
    if not isinstance(kernel, ir.Kernel) or kernel.commit is not None or kernel.ahead:
        return None
    if any(isinstance(n, ir.MakeShared) for n in ir.walk(kernel.body)):
        return None  # see `group_execution`
    if shared_loop(kernel, funcs, tables) is not None:
        return None
    for head, loop, tail in last_loops(kernel.body, tables):
        if isinstance(loop, ir.ForEdges) and (test := condition(loop)) is not None:
            found = _split(kernel, head, loop, test, tail)
            types = dict(kernel.params) | dict(kernel.locals)
            live = (types[n] for n in (*found.live_in, *found.live_out))
            if not any(isinstance(t, Local | Object) for t in live):
                return found
    return None


def _split(
    kernel: ir.Kernel, head: ir.Body, loop: ir.ForEdges, test: ir.If, tail: ir.Body
) -> SharedSearch:
    then, bound = test.then[:-1], {loop.edge, loop.var}
    params = {n for n, _ in kernel.params[1:]}  # equal for all items, so not stored per item
    kept = {n for n, _ in (*kernel.params, *kernel.locals)} - params
    live_in = set(ir.used(ir.walk(test.cond))) - bound
    live_out = (read_first(then) - bound) | read_first(tail)
    return SharedSearch(
        head, loop, test.cond, then, tail,
        tuple(sorted(live_in & kept)), tuple(sorted(live_out & kept)),
    )  # fmt: skip
