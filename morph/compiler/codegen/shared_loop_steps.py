"""Members of the `Step` of a shared loop; ``kernels/schedule/balance.h`` lists them."""

from __future__ import annotations

from morph.compiler.codegen.emission import Emission, boolean
from morph.compiler.codegen.names import Names
from morph.compiler.codegen.shared_loops import add_reductions, bound_types, staged_structs
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.abi import fields
from morph.compiler.passes.independence import loop_variables
from morph.compiler.passes.plan import Sharing, StepPlan
from morph.compiler.passes.work_sharing import SharedLoop, over

NEAR_IDS = 8  # points whose row offsets, of 8 bytes, lie in one cache line of 64 bytes or two
LIMITS = {"auto": "HIGH_DEGREE", "warp": "NO_LIST", "grid": "0"}


def sharing_members(e: Emission, step: StepPlan, sharing: Sharing, args: str) -> list[str]:
    """The members that the step of a shared loop has in addition to those of all steps."""
    s, shared, loop = step.node, sharing.loop, sharing.loop.loop
    assert isinstance(s, ir.Foreach)
    limit = LIMITS[s.balance] if step.lists_long_rows else "NO_LIST"
    lines = [
        "    static constexpr bool WORK_SHARING = true;  // its last loop, by entries",
        f"    static constexpr bool HAS_EPILOGUE = {boolean(shared.completes)};",
        f"    static constexpr i64 LIMIT = {limit};",
        *_capacity(e, s.kernel, sharing),
        *_asynchronous(e, step, loop),
        *_prefetches(e, step, loop),
        *_sweeps(e, step, loop),
        *e.member(
            "MORPH_FN i64 entries(const Args& a, const Run& t, i64 i) const",
            [f"return {_entries(e, step, loop)};"], "t", [s.slot] if step.own_row else [],
        ),
        *_calls(e, s.kernel, sharing, args),
    ]  # fmt: skip
    return lines + (_epilogue(e, s.kernel, shared, args) if shared.completes else [])


def _calls(e: Emission, kernel: str, sharing: Sharing, args: str) -> list[str]:
    """Members that call the prologue and the body, and that load what the body takes."""
    shared, n, name = sharing.loop, e.names, e.names.funcs[kernel]
    loop, first = shared.loop, sharing.preloaded
    row, rows = n.type(bound_types(loop)[0]), over(loop)
    head, edge, end = ["    MORPH_FN Reach reach(const Args& a, i64 k) const {"], f"{row}(k)", "-1"
    if isinstance(loop, ir.ForEdges):
        head, edge, end = _entry(n, loop, head)
    call = ", ".join(("r.edge", "r.end")[: len(loop_variables(loop))])
    call += "".join(f", r.{n.member(x)}" for x in first)
    stable = {x: ".stable()" if (rows, x) in e.plan.changed else "" for x in first}
    read = "".join(f", {n.column(rows, x)}{how}.get(edge)" for x, how in stable.items())
    live_out, sums = (", live_out", ", reductions") if shared.completes else ("", "")
    return [
        f"    typedef {name}_live_in LiveIn;",
        f"    typedef {f'{name}_live_out' if shared.completes else 'Nothing'} LiveOut;",
        f"    typedef {f'{name}_reductions' if shared.completes else 'Nothing'} Reductions;",
        "    MORPH_FN bool prologue(const Args& a, I& it, Entries& row, LiveIn& live_in,",
        "                           LiveOut& live_out) const {",
        f"        return {name}_prologue(a, it, it.row{args}, row, live_in{live_out});",
        "    }",
        f"    typedef {f'{name}_reach' if first else 'Reached'} Reach;",
        *head,
        f"        {row} edge = {edge};",
        f"        return {{edge, {end}{read}}};",
        "    }",
        "    MORPH_FN void body(const Args& a, I& it, const LiveIn& live_in, Reach r,",
        "                       Reductions& reductions) const {",
        f"        {name}_body(a, it, live_in{sums}{args}, {call});",
        "    }",
    ]


def _epilogue(e: Emission, kernel: str, shared: SharedLoop, args: str) -> list[str]:
    """Members that add the reductions, and that call the statements after the loop."""
    name = e.names.funcs[kernel]
    return [
        *e.member(
            "MORPH_FN void add(LiveOut& live_out, const Reductions& x) const",
            [add_reductions(e, shared, "live_out.")],
        ),
        *e.member(
            "MORPH_FN void epilogue(const Args& a, I& it, LiveOut& live_out) const",
            [f"{name}_epilogue(a, it, live_out{args});"],
        ),
    ]


def _capacity(e: Emission, kernel: str, sharing: Sharing) -> list[str]:
    """Members for the stores whose capacity is reserved in batches, and for staging buffers."""
    shared = sharing.loop
    if not shared.batched:
        return ["    static constexpr bool BATCHED = false;"]
    base, prefix, index = e.names.base, e.names.prefix, e.names.index
    requests = [
        f"f({base(slot)}_meta, it.{prefix[slot]}_reservation, {n}, {index[slot]});"
        for slot, n in shared.capacity
    ]
    each = dict(shared.capacity)
    structs = staged_structs(e.names, e.names.funcs[kernel], sharing)
    return [
        "    static constexpr bool BATCHED = true;",
        f"    static constexpr bool SHARES = {boolean(e.plan.snapshot)};",
        *e.member(
            "template <class F> MORPH_FN void reservations(const Args& a, I& it, F f) const",
            requests, "it", each,
        ),
        *e.member(
            "MORPH_FN void clear_staged() const",
            [f"clear_buffer<{x}>();" for x in structs.values()],
        ),
        *e.member(
            "MORPH_FN void flush_staged(const Args& a, I& it, i32 n) const",
            [f"flush_buffer<{x}>(a, it, {32 * each[slot]} * n);" for slot, x in structs.items()],
        ),
    ]  # fmt: skip


def _asynchronous(e: Emission, step: StepPlan, loop: ir.ForEdges | ir.ForRows) -> list[str]:
    """Members of an asynchronous step: its list, the free capacity behind it, rows of items."""
    s = step.node
    assert isinstance(s, ir.Foreach)
    if e.plan.functions[s.kernel].main.asynchronous is None:
        return ["    static constexpr bool ASYNCHRONOUS = false, KNOWS_ROWS = false;"]
    lines = [
        "    static constexpr bool ASYNCHRONOUS = true;  // may run items that it adds",
        *e.member(
            "MORPH_FN i64* list(const Args& a, const Run& t) const",
            [f"return {e.names.base(s.slot)}_meta;"], "t", [s.slot],
        ),
        *e.member(
            "MORPH_FN i64 behind(const Args& a, const Run& t) const",
            [f"return {e.names.extent(s.slot)[1]};"], "t", [s.slot],
        ),
    ]  # fmt: skip
    if not step.knows_rows:
        return [*lines, "    static constexpr bool KNOWS_ROWS = false;"]
    assert isinstance(loop, ir.ForEdges)
    row = f"{_offset(e, loop)}, r.end"
    return [
        *lines,
        "    static constexpr bool KNOWS_ROWS = true;  // whose rows are known",
        *e.member(
            "template <class T> MORPH_FN Entries row_of(const Args& a, const T& r) const",
            [f"return {{row_begin({row}), row_end({row})}};"],
        ),
    ]


def _prefetches(e: Emission, step: StepPlan, loop: ir.ForEdges | ir.ForRows) -> list[str]:
    """Members that prefetch the row of an item of a list."""
    if not step.prefetched:
        return []
    s = step.node
    assert isinstance(s, ir.Foreach) and isinstance(loop, ir.ForEdges)
    kernel = e.plan.functions[s.kernel].func
    assert isinstance(kernel, ir.Kernel)
    items, offset = e.names.column(s.slot, "item"), _offset(e, loop)
    begin, nearby = f"row_begin({offset}, point)", [f"{offset} + point"]
    nearby += [f"{e.names.column(*c)}.at(point)" for c in step.prefetched.nearby]
    lines = [f"i32 point = max_of({items}.get(i), 0);"]  # it may be None
    if kernel.where and step.knows_rows:
        # a filtered list is often in ascending order: the lines of the item before are then the
        # same or the preceding ones, which the hardware prefetches
        lines.append(f"if (u32(point - {items}.get(i - 1)) <= {NEAR_IDS}) return;")
    row = [
        f"auto first = {e.names.entry_address(loop.graph, loop.direction, begin)};",
        "prefetch(first);",
    ]
    if step.knows_rows:  # their bounds were prefetched when the item was added
        lines += [*row, *(f"prefetch_next({x});" for x in ("first", *nearby))]
    else:
        nearer = f"point = max_of({items}.get(i - {{}}), 0);"
        lines += [*(f"prefetch({x});" for x in nearby), nearer.format("ROW_DISTANCE"), *row]
        if step.prefetched.at_ends:
            lines += [nearer.format("ENDS_DISTANCE"), *_end_prefetches(e, step, loop)]
    head = "MORPH_FN void prefetch_row(const Args& a, const Run& t, i64 i) const"
    return e.member(head, lines, "t", [s.slot])


def _end_prefetches(e: Emission, step: StepPlan, loop: ir.ForEdges) -> list[str]:
    """Statements that prefetch columns of the other ends of a point's first entries."""
    assert step.prefetched is not None
    offset = _offset(e, loop)
    return [
        f"i64 k = row_begin({offset}, point), end = row_end({offset}, point);",
        "for (end = min_of(end, k + PREFETCHED); k < end; k++) {",
        "    i32 other = reach(a, k).end;",
        *(f"    prefetch({e.names.column(*c)}.at(other));" for c in step.prefetched.at_ends),
        "}",
    ]


def _sweeps(e: Emission, step: StepPlan, loop: ir.ForEdges | ir.ForRows) -> list[str]:
    """Members of a step that only reduces over the packed rows of all points."""
    if not step.sweeps:
        return ["    static constexpr bool SWEEPS = false, REPLAYS = true;"]
    assert isinstance(loop, ir.ForEdges)
    replays = boolean(step.can_fail)  # deferred items are executed one by one
    row = f"row_begin({_offset(e, loop)}, i)"
    lines = [
        f"    static constexpr bool SWEEPS = true, REPLAYS = {replays};",
        f"    MORPH_FN i64 begin(const Args& a, i64 i) const {{ return {row}; }}",
    ]
    if step.tiled:
        prefix = f"a.{e.names.prefix[loop.graph]}_{loop.direction}"
        arrays = ", ".join(f"{prefix}_{x}" for x in ("tile", "far", "place"))
        lines += [
            "    typedef Tiles Tiled;",
            f"    MORPH_FN Tiles tiles(const Args& a) const {{ return {{{arrays}}}; }}",
        ]
    return lines


def _entries(e: Emission, step: StepPlan, loop: ir.ForEdges | ir.ForRows) -> str:
    """The number of entries of item ``i``; if only the prologue computes it, that of any point."""
    s = step.node
    assert isinstance(s, ir.Foreach)
    if isinstance(loop, ir.ForRows):
        first, last = e.names.extent(loop.slot)
        return f"{last} - {first}"
    offsets = e.names.offsets(loop.graph, loop.direction)
    if not step.own_row:
        points = dict(e.names.graphs[loop.graph].tables)["points"]
        counted = any(f.slot == points and f.kind == "meta" for f in fields(e.unit))
        rows = e.names.extent(points)[1]
        return _sum_of([f"sampled_degree({x}, i, {rows})" for x in offsets]) if counted else "0"
    item = "i"
    if e.names.stores[s.slot].kind == "collection":
        item = f"max_of({e.names.column(s.slot, 'item')}.get(i), 0)"  # it may be None
    return _sum_of([f"degree({x}, {item})" for x in offsets])


def _sum_of(counts: list[str]) -> str:
    """The sum of one or two counts, which may exceed 31 bits."""
    return counts[0] if len(counts) == 1 else " + ".join(f"i64({x})" for x in counts)


def _entry(n: Names, loop: ir.ForEdges, head: list[str]) -> tuple[list[str], str, str]:
    """The head of `reach`, and the edge and the other end of entry ``k`` in it."""
    k, directions = "k", [loop.direction]
    if loop.direction == "all":
        k, directions = "entry", ["out", "in"]
        offsets = ", ".join(n.offsets(loop.graph, loop.direction))
        head = [
            "    typedef BothDirections Rows;",
            "    MORPH_FN BothDirections rows(const Args& a, i64 k) const {",
            f"        return BothDirections({offsets}, BothDirections::point(k));",
            "    }",
            *head,
            "        return reach(a, rows(a, k), k);",
            "    }",
            "    MORPH_FN Reach reach(const Args& a, const BothDirections& both, i64 k) const {",
            "        const i64 entry = both.entry(BothDirections::place(k));",
            "        const bool is_out = both.is_out(BothDirections::place(k));",
        ]
    edges = [n.edge(loop.graph, d, k) for d in directions]
    ends = [n.end(loop.graph, d, k, "edge") if loop.var else "-1" for d in directions]
    edge, end = ("is_out ? {} : {}".format(*x) if len(x) > 1 else x[0] for x in (edges, ends))
    return head, edge, end


def _offset(e: Emission, loop: ir.ForEdges) -> str:
    """The offsets of the rows of a loop over one direction."""
    (offset,) = e.names.offsets(loop.graph, loop.direction)
    return offset
