"""A search that a GPU's warp shares, as C++: the parts of its kernel, and the members of its step.

`passes.search` selects the loops; ``kernels/schedule/search.h`` runs them.
"""

from __future__ import annotations

from functools import partial

from morph.compiler.codegen.emission import Emission, values
from morph.compiler.codegen.expressions import Scope
from morph.compiler.codegen.names import Names
from morph.compiler.codegen.shared_loops import Prologue, bound_types
from morph.compiler.codegen.statements import Body
from morph.compiler.ir import nodes as ir
from morph.compiler.passes.independence import loop_variables
from morph.compiler.passes.plan import BodyPlan, FunctionPlan, Searching, StepPlan
from morph.compiler.passes.search import SharedSearch


class Epilogue(Body):
    """The statements of a kernel after the test of its last loop, a search."""

    def __init__(self, names: Names, scope: Scope, body: BodyPlan, shared: SharedSearch) -> None:
        super().__init__(names, scope, body)
        self.shared = shared

    def _stmt_foredges(self, s: ir.ForEdges) -> None:
        if s is not self.shared.loop:
            super()._stmt_foredges(s)
            return
        self._end_search(s, self.body_plan.searches[id(s)], "k0_", "k0_found_", "0 <= k0_")


def search_structs(e: Emission, plan: FunctionPlan, searching: Searching) -> None:
    """Add the structs of the locals that are live between the parts of a kernel."""
    k, shared, n, name = plan.func, searching.search, e.names, e.names.funcs[plan.func.name]
    types = dict(k.params) | dict(k.locals)
    for part, purpose, live in (
        ("live_in", "the locals that its test reads", shared.live_in),
        ("live_out", "the locals that are read after its search", shared.live_out),
    ):
        e.put("", f"struct {name}_{part} {{  // {purpose}")
        e.put(*(f"    {n.type(types[x])} {n.member(x)};" for x in live), "};")


def search_functions(e: Emission, plan: FunctionPlan, searching: Searching) -> None:
    """Add the parts of a kernel; only a GPU calls them."""
    k, shared, name = plan.func, searching.search, e.names.funcs[plan.func.name]
    item, *given = values(k)
    head = f"MORPH_BODY bool {name}_prologue(const Args& a, Item& it"
    head += f"{e.signature([item, *given])}, Entries& row_"
    head += f", {name}_live_in& live_in_, {name}_live_out& live_out_)"
    first = partial(Prologue, shared=shared)
    e.define(k, head, searching.prologue, default=" false", make=first)
    around = list(zip(loop_variables(shared.loop), bound_types(shared.loop), strict=False))
    head = f"MORPH_BODY bool {name}_test(const Args& a, Item& it, const {name}_live_in& live_in_"
    members = dict.fromkeys(shared.live_in, "live_in_")
    e.define(k, f"{head}{e.signature([*given, *around])})", searching.test, members)
    head = f"MORPH_BODY void {name}_epilogue(const Args& a, Item& it, {name}_live_out& live_out_"
    head += f"{e.signature(given)}, i64 k0_, bool k0_found_)"
    members = dict.fromkeys(shared.live_out, "live_out_")
    last = partial(Epilogue, shared=shared)
    e.define(k, head, searching.epilogue, members, make=last)


def search_members(e: Emission, step: StepPlan, searching: Searching, args: str) -> list[str]:
    """The members that the `Step` of a search has in addition to those of all steps."""
    s = step.node
    assert isinstance(s, ir.Foreach)
    n, name, loop = e.names, e.names.funcs[s.kernel], searching.search.loop
    row, edge = n.type(bound_types(loop)[0]), n.edge(loop.graph, loop.direction, "k")
    end = n.end(loop.graph, loop.direction, "k", "edge") if loop.var else "-1"
    call = ", ".join(("r.edge", "r.end")[: len(loop_variables(loop))])
    return [
        "    static constexpr bool WORK_SHARING = TARGET_GPU;  // its last loop, a search",
        "    static constexpr bool BATCHED = false, ASYNCHRONOUS = false, SWEEPS = false;",
        "    static constexpr bool REPLAYS = true;",
        "    typedef void Searches;",
        f"    typedef {name}_live_in LiveIn;",
        f"    typedef {name}_live_out LiveOut;",
        "    MORPH_FN bool prologue(const Args& a, I& it, Entries& row, LiveIn& live_in,",
        "                           LiveOut& live_out) const {",
        f"        return {name}_prologue(a, it, it.row{args}, row, live_in, live_out);",
        "    }",
        "    MORPH_FN Reached reach(const Args& a, i64 k) const {",
        f"        {row} edge = {edge};",
        f"        return {{edge, {end}}};",
        "    }",
        "    MORPH_FN bool test(const Args& a, I& it, const LiveIn& live_in, Reached r) const {",
        f"        return {name}_test(a, it, live_in{args}, {call});",
        "    }",
        "    MORPH_FN void epilogue(const Args& a, I& it, LiveOut& live_out, i64 k,",
        "                           bool found) const {",
        f"        {name}_epilogue(a, it, live_out{args}, k, found);",
        "    }",
    ]
