"""A loop that several threads share, as C++: prologue, body and epilogue of its kernel.

`work_sharing` selects these loops; ``kernels/schedule/balance.h`` assigns entries to threads.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from morph.compiler.codegen.emission import Emission
from morph.compiler.codegen.expressions import Scope
from morph.compiler.codegen.names import Names, constant
from morph.compiler.codegen.slot_cache import take_all
from morph.compiler.codegen.statements import Body
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.abi import CTYPE, fields
from morph.compiler.ir.spelling import ascii_name
from morph.compiler.passes.independence import loop_variables
from morph.compiler.passes.plan import BodyPlan, FunctionPlan, Sharing, StepPlan
from morph.compiler.passes.search import SharedSearch
from morph.compiler.passes.work_sharing import SharedLoop, of_edge, over
from morph.language.types import Handle, Object, Scalar, Type

JOINS = {"+": "Plus", "|": "Or", "&": "And", "min": "Minimum", "max": "Maximum"}
COMBINE = {"+": "sum_of", "|": "Or::of", "&": "And::of", "min": "min_of", "max": "max_of"}
NEAR_IDS = 8  # points whose row offsets, of 8 bytes, lie in one cache line of 64 bytes or two
LIMITS = {"auto": "HIGH_DEGREE", "warp": "NO_LIST", "grid": "0"}


class Prologue(Body):
    """A kernel up to its last loop; of the loop, only the range of entries."""

    def __init__(
        self, names: Names, scope: Scope, body: BodyPlan, shared: SharedLoop | SharedSearch
    ) -> None:
        super().__init__(names, scope, body)
        self.shared = shared

    def _stmt_foredges(self, s: ir.ForEdges) -> None:
        if s is not self.shared.loop:
            super()._stmt_foredges(s)
            return
        point = self.expr(s.point)
        if s.direction == "all":
            first = f"Both::first({point})"
            offsets = ", ".join(_offsets(self.names, s))
            row = f"{first}, {first} + Both({offsets}, {point}).n"
        else:
            at = f"a.{self.names.prefix[s.graph]}_{s.direction}_offset, {point}"
            row = f"row_begin({at}), row_end({at})"
        self._store_live_in(f"{{{row}}}", s.start)

    def _stmt_forrows(self, s: ir.ForRows) -> None:
        if s is not self.shared.loop:
            super()._stmt_forrows(s)
            return
        self._store_live_in(f"{{{', '.join(self.names.extent(s.slot))}}}", s.start)

    def _store_live_in(self, row: str, start: ir.Expr | None) -> None:
        """Store the entries of the loop and the locals that body and epilogue read."""
        self.put(f"row_ = {row};")
        if start is not None:
            self.put(f"row_.begin = min_of(row_.begin + {self.skipped(start)}, row_.end);")
        for name, locals_ in (
            ("live_in_", self.shared.live_in),
            ("live_out_", self.shared.live_out),
        ):
            for n in locals_:
                self.put(f"{name}.{self.names.member(n)} = {self.resolve(n)};")
        # the capacity for entries is transferred with them
        for slot, count in () if self.shared.batched else self.shared.capacity:
            each = "" if count == 1 else f"{count} * "
            self.put(
                f"it.{self.names.prefix[slot]}_reservation -= {each}i32(row_.end - row_.begin);"
            )
        self.put("return true;")

    def _stmt_reserve(self, s: ir.Reserve) -> None:
        """Reserve the capacity; without that for entries, if it is reserved in batches."""
        taken = [slot for slot, _ in self.shared.capacity] if self.shared.batched else []
        rest = tuple(n for n in s.needs if n.local or n.slot not in taken)
        if rest or not taken:
            super()._stmt_reserve(replace(s, needs=rest))
        else:  # fault injection may still fail here
            blame = self.names.index[taken[0]]
            self.put(f"if (!may_reserve(a.status, it, {blame})) return{self.default};")


class LoopBody(Body):
    """The body of the loop."""

    def __init__(
        self, names: Names, scope: Scope, body: BodyPlan, sharing: Sharing, kernel: str
    ) -> None:
        super().__init__(names, scope, body)
        self.loop, self.preloaded, shared = sharing.loop.loop, sharing.preloaded, sharing.loop
        self.stage = _structs(names, kernel, sharing)
        for slot, n in () if shared.batched else shared.capacity:
            self.put(f"it.{names.prefix[slot]}_reservation += {n};")
        if isinstance(self.loop, ir.ForRows) and names.stores[self.loop.slot].deletes:
            row = self.resolve(self.loop.var)
            self.put(f"if (is_dead({names.base(self.loop.slot)}_dead, {row})) return;")

    def load(self, p: ir.Place) -> str:
        """The value at a place; a preloaded column is a local."""
        if of_edge(p, self.loop, self.preloaded):
            return f"{ascii_name(p.column)}_preloaded_"
        return super().load(p)

    def target(self, e: ir.Atomic) -> str:
        """The target of an atomic; min and max skip the test load in asynchronous execution."""
        place = super().target(e)
        skips_test = self.body_plan.ahead is not None and e.op in ("min", "max")
        return f"untested(it.asynchronous, {place})" if skips_test else place

    def _allocate(self, makes: list[tuple[str, ir.New | ir.NewRows | ir.Add]]) -> None:
        """Put new items into staging buffers; allocate other items and rows at once."""
        for name, e in makes:
            if not isinstance(e, ir.Add) or e.slot not in self.stage:
                super()._allocate([(name, e)])
                continue
            self.place(e.pos)
            given = {c: self.expr(x) for c, x in e.values}
            columns = self.names.stores[e.slot].columns
            values = [
                f"{CTYPE[c.dtype.name]}({given.get(c.name, -1 if c.ref else 0)})" for c in columns
            ]
            entry = f"{self.stage[e.slot]}{{{', '.join(values)}}}"
            staged = f"stage(a, it, it.{self.names.prefix[e.slot]}_reservation, {entry});"
            if not self._may_run_ahead(e):
                self.put(staged)
                continue
            ahead = self.body_plan.ahead
            assert ahead is not None
            row = self.temp("r")
            self.put(f"const i32 {row} = it.asynchronous.place();")
            self.put(f"if ({row} < 0) {staged}")
            to = ahead[1]
            sets = [f"{self.names.column(to, c)}.set({row}, {x});" for c, x in given.items()]
            sets += [
                f"{self.names.column(to, c.name)}.set({row}, {-1 if c.ref else 0});"
                for c in columns
                if c.name not in given
            ]
            self.put(f"else {{ {' '.join(sets)} }}")


def shared_structs(e: Emission, plan: FunctionPlan, sharing: Sharing) -> None:
    """The structs of live-in, live-out and reduction variables of a kernel's parts."""
    k, shared, n, name = plan.func, sharing.loop, e.names, e.names.funcs[plan.func.name]
    types = dict(k.params) | dict(k.locals)
    parts = [("live_in", "its entries read of the item", shared.live_in)]
    if shared.completes:
        parts.append(("live_out", "is read behind its loop", shared.live_out))
    for part, purpose, names in parts:
        e.put("", f"struct {name}_{part} {{  // what {purpose}")
        e.put(*(f"    {n.type(types[x])} {n.member(x)};" for x in names), "};")
    if first := sharing.preloaded:
        e.put("", f"struct {name}_reach {{  // where an entry leads, and what is read of its edge")
        edge = n.type(bound_types(shared.loop)[0])
        e.put(*(["    i32 edge, end;"] if edge == "i32" else [f"    {edge} edge;", "    i32 end;"]))
        e.put(*(f"    {CTYPE[c.dtype.name]} {n.member(x)};" for x, c in first.items()), "};")
    for number, (slot, (at, places)) in enumerate(sharing.staged.items()):
        columns, base = n.stores[slot].columns, n.base(slot)
        made = [f"{n.column(slot, c.name)}.set(row, {n.member(c.name)});" for c in columns]
        e.put("", f"struct {name}_to_{e.names.prefix[slot]} {{  // an entry on its way")
        e.put(f"    enum {{ AT = {at}, PLACES = {places}, WHICH = {number} }};")
        e.put(*(f"    {CTYPE[c.dtype.name]} {n.member(c.name)};" for c in columns))
        e.put("    static MORPH_FN i64* meta(const Args& a, const Item& it) {")
        e.put(
            *(f"    {x}" for x in e.with_permutation([f"    return {base}_meta;"], "it", [slot])),
            "    }",
        )
        e.put("    MORPH_FN void write(const Args& a, const Item& it, i32 row) const {")
        e.put(
            *(f"    {x}" for x in e.with_permutation([f"    {x}" for x in made], "it", [slot])),
            "    }",
            "};",
        )
    if shared.completes:
        e.put("", f"struct {name}_reductions {{  // what entries add up, from what changes nothing")
        for x, how in shared.reductions:
            none = constant(ir.Const(value=neutral(how, types[x]), type=types[x], pos=k.pos))
            e.put(f"    {n.type(types[x])} {n.member(x)} = {none};")
        e.put(f"    MORPH_FN void add(const {name}_reductions& x) {{ {_adds(e, shared)} }}")
        joins = " ".join(
            f"fetch({JOINS[how]}(), &all.{n.member(x)}, {n.member(x)});"
            for x, how in shared.reductions
        )
        e.put(f"    MORPH_FN void join({name}_reductions& all) const {{ {joins} }}", "};")


def neutral(how: str, t: Type) -> float:
    """The identity of a reduction."""
    assert isinstance(t, Scalar)
    if how == "+":
        return -0.0 if t.kind == "f" else 0
    if how == "|":
        return 0
    if how == "&":
        return 2**t.bits - 1 if t.kind == "u" else -1
    if t.kind == "f":
        return float("inf") if how == "min" else float("-inf")
    least, most = (
        (0, 2**t.bits - 1) if t.kind == "u" else (-(2 ** (t.bits - 1)), 2 ** (t.bits - 1) - 1)
    )
    return most if how == "min" else least


def _adds(e: Emission, shared: SharedLoop, to: str = "") -> str:
    """The statements that combine the reductions ``x`` with those of ``to``."""
    done = []
    for name, how in shared.reductions:
        m = e.names.member(name)
        done.append(f"{to}{m} = {COMBINE[how]}({to}{m}, x.{m});")
    return " ".join(done)


def shared_functions(e: Emission, plan: FunctionPlan, sharing: Sharing) -> None:
    """Add the parts of a kernel."""
    k, shared, name = plan.func, sharing.loop, e.names.funcs[plan.func.name]
    item, *given = values(k)
    rest = f", {name}_live_out& live_out_" if shared.completes else ""
    head = (
        f"MORPH_BODY bool {name}_prologue(const Args& a, Item& it"
        f"{e.signature([item, *given])}, Entries& row_"
    )
    head = f"{head}, {name}_live_in& live_in_{rest})"
    first = partial(Prologue, shared=shared)
    e.define(k, head, sharing.prologue, default=" false", make=first)
    around = list(zip(loop_variables(shared.loop), bound_types(shared.loop), strict=False))
    sums = f", {name}_reductions& reductions_" if shared.completes else ""
    head = (
        f"MORPH_BODY void {name}_body(const Args& a, Item& it, const {name}_live_in& live_in_{sums}"
    )
    head += e.signature([*given, *around])
    head += "".join(
        f", {CTYPE[c.dtype.name]} {ascii_name(x)}_preloaded_" for x, c in sharing.preloaded.items()
    )
    members = dict.fromkeys(shared.live_in, "live_in_") | {
        x: "reductions_" for x, _ in shared.reductions
    }
    inner = partial(LoopBody, sharing=sharing, kernel=name)
    e.define(k, f"{head})", sharing.body, members, make=inner)
    if shared.completes:
        head = f"MORPH_BODY void {name}_epilogue(const Args& a, Item& it"
        head += f", {name}_live_out& live_out_{e.signature(given)})"
        members = dict.fromkeys(shared.live_out, "live_out_")
        e.define(k, head, sharing.epilogue, members)


def step_members(e: Emission, step: StepPlan, args: str) -> list[str]:
    """The members that the step of a shared loop has in addition to those of all steps."""
    sharing, s = step.sharing, step.node
    if sharing is None:
        return [
            *take_all(e, step),
            "    static constexpr bool WORK_SHARING = false;",
            "    static constexpr bool BATCHED = false;",
        ]
    assert isinstance(s, ir.Foreach)
    shared = sharing.loop
    n, name, loop = e.names, e.names.funcs[s.kernel], shared.loop
    row = n.type(bound_types(loop)[0])
    edge, end, both = f"{row}(k)", "-1", list[str]()
    if isinstance(loop, ir.ForEdges):
        both, edge, end = _entry(n, loop)
    call = ", ".join(("r.edge", "r.end")[: len(loop_variables(loop))])
    first, rows = sharing.preloaded, over(loop)
    call += "".join(f", r.{n.member(x)}" for x in first)
    stable = {x: ".stable()" if (rows, x) in e.plan.changed else "" for x in first}
    read = "".join(f", {n.column(rows, x)}{how}.get(edge)" for x, how in stable.items())
    reach = f"{name}_reach" if first else "Reached"
    given = "const Args& a, I& it"
    rest, sums = (", live_out", ", reductions") if shared.completes else ("", "")
    stores = [s.slot] if step.own_row else []
    lines = [
        *take_all(e, step),
        "    static constexpr bool WORK_SHARING = true;  // its last loop, by entries",
        f"    static constexpr bool HAS_EPILOGUE = {'true' if shared.completes else 'false'};",
        f"    static constexpr i64 LIMIT = {LIMITS[s.balance] if step.lists_rows else 'NO_LIST'};",
        *_capacity(e, s.kernel, sharing),
        *_ahead(e, step, loop),
        *_prefetches(e, step, loop),
        *_sweeps(e, step, loop),
        "    MORPH_FN i64 entries(const Args& a, const Run& t, i64 i) const {",
        *(
            f"    {x}"
            for x in e.with_permutation([f"    return {_entries(e, step, loop)};"], "t", stores)
        ),
        "    }",
        f"    typedef {name}_live_in LiveIn;",
        f"    typedef {f'{name}_live_out' if rest else 'Nothing'} LiveOut;",
        f"    typedef {f'{name}_reductions' if sums else 'Nothing'} Reductions;",
        f"    MORPH_FN bool prologue({given}, Entries& row, LiveIn& live_in,",
        "                           LiveOut& live_out) const {",
        f"        return {name}_prologue(a, it, it.row{args}, row, live_in{rest});",
        "    }",
        f"    typedef {reach} Reach;",
        *(both or ["    MORPH_FN Reach reach(const Args& a, i64 k) const {"]),
        f"        {row} edge = {edge};",
        f"        return {{edge, {end}{read}}};",
        "    }",
        f"    MORPH_FN void body({given}, const LiveIn& live_in, Reach r,",
        "                       Reductions& reductions) const {",
        f"        {name}_body(a, it, live_in{sums}{args}, {call});",
        "    }",
    ]
    return lines + (_epilogue(e, shared, name, args) if shared.completes else [])


def _epilogue(e: Emission, shared: SharedLoop, kernel: str, args: str) -> list[str]:
    """Members that add the reductions, and that call the statements after the loop."""
    return [
        "    MORPH_FN void add(LiveOut& live_out, const Reductions& x) const {",
        f"        {_adds(e, shared, 'live_out.')}",
        "    }",
        "    MORPH_FN void epilogue(const Args& a, I& it, LiveOut& live_out) const {",
        f"        {kernel}_epilogue(a, it, live_out{args});",
        "    }",
    ]


def bound_types(loop: ir.ForEdges | ir.ForRows) -> tuple[Type, ...]:
    """The types of the variables that a loop binds, see `bound`."""
    if isinstance(loop, ir.ForEdges):
        return Handle(f"{loop.graph}.edges"), Handle(f"{loop.graph}.points")
    return (Handle(loop.slot),)


def _structs(names: Names, kernel: str, sharing: Sharing) -> dict[str, str]:
    """The struct of a staging buffer's entry, by collection."""
    return {slot: f"{kernel}_to_{names.prefix[slot]}" for slot in sharing.staged}


def _capacity(e: Emission, kernel: str, sharing: Sharing) -> list[str]:
    """Members for the stores whose capacity is reserved in batches, and for staging buffers."""
    shared = sharing.loop
    if not shared.batched:
        return ["    static constexpr bool BATCHED = false;"]
    base, prefix, index = e.names.base, e.names.prefix, e.names.index
    requests = [
        f"    f({base(slot)}_meta, it.{prefix[slot]}_reservation, {n}, {index[slot]});"
        for slot, n in shared.capacity
    ]
    params, each = "const Args& a, I& it, F f", dict(shared.capacity)
    structs = _structs(e.names, e.names.funcs[kernel], sharing)
    return [
        "    static constexpr bool BATCHED = true;",
        f"    static constexpr bool SHARES = {'true' if e.plan.snapshot else 'false'};",
        f"    template <class F> MORPH_FN void reservations({params}) const {{",
        *(f"    {x}" for x in e.with_permutation(requests, "it", each)),
        "    }",
        "    MORPH_FN void clear_staged() const {",
        *(f"        clear_buffer<{x}>();" for x in structs.values()),
        "    }",
        "    MORPH_FN void flush_staged(const Args& a, I& it, i32 n) const {",
        *(
            f"        flush_buffer<{x}>(a, it, {32 * each[slot]} * n);"
            for slot, x in structs.items()
        ),
        "    }",
    ]


def _ahead(e: Emission, step: StepPlan, loop: ir.ForEdges | ir.ForRows) -> list[str]:
    """Members of an asynchronous step: its list, the free capacity behind it, rows of items."""
    s = step.node
    assert isinstance(s, ir.Foreach)
    if e.plan.functions[s.kernel].main.ahead is None:
        return ["    static constexpr bool ASYNCHRONOUS = false, KNOWS_ROWS = false;"]
    meta = [f"    return {e.names.base(s.slot)}_meta;"]
    behind = [f"    return {e.names.extent(s.slot)[1]};"]
    lines = [
        "    static constexpr bool ASYNCHRONOUS = true;  // may run what it adds",
        "    MORPH_FN i64* list(const Args& a, const Run& t) const {",
        *(f"    {x}" for x in e.with_permutation(meta, "t", [s.slot])),
        "    }",
        "    MORPH_FN i64 behind(const Args& a, const Run& t) const {",
        *(f"    {x}" for x in e.with_permutation(behind, "t", [s.slot])),
        "    }",
    ]
    if not step.rows_ahead:
        return [*lines, "    static constexpr bool KNOWS_ROWS = false;"]
    assert isinstance(loop, ir.ForEdges)
    row = f"{_offset(e, loop)}, r.end"
    return [
        *lines,
        "    static constexpr bool KNOWS_ROWS = true;  // and knows their rows",
        "    template <class T> MORPH_FN Entries row_of(const Args& a, const T& r) const {",
        f"        return {{row_begin({row}), row_end({row})}};",
        "    }",
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
    if kernel.where and step.rows_ahead:
        # a filtered list is often in ascending order: the lines of the item before are then the
        # same or the preceding ones, which the hardware prefetches
        lines.append(f"if (u32(point - {items}.get(i - 1)) <= {NEAR_IDS}) return;")
    row = [
        f"auto first = {e.names.entry_address(loop.graph, loop.direction, begin)};",
        "prefetch(first);",
    ]
    if step.rows_ahead:  # their bounds were prefetched when the item was added
        lines += [*row, *(f"prefetch_next({x});" for x in ("first", *nearby))]
    else:
        nearer = f"point = max_of({items}.get(i - {{}}), 0);"
        lines += [*(f"prefetch({x});" for x in nearby), nearer.format("ROW_DISTANCE"), *row]
        if step.prefetched.at_ends:
            lines += [nearer.format("ENDS_DISTANCE"), *_end_prefetches(e, step, loop)]
    members = {"prefetch_row": lines}
    if step.rows_ahead and step.prefetched.at_ends:
        members["prefetch_ends"] = [lines[0], *_end_prefetches(e, step, loop)]
    return [
        line
        for name, body in members.items()
        for line in (
            f"    MORPH_FN void {name}(const Args& a, const Run& t, i64 i) const {{",
            *(f"        {x}" for x in e.with_permutation(body, "t", [s.slot])),
            "    }",
        )
    ]


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
    replays = "true" if step.can_fail else "false"  # deferred items are executed one by one
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
    if not step.own_row:
        points = dict(e.names.graphs[loop.graph].tables)["points"]
        counted = any(f.slot == points and f.kind == "meta" for f in fields(e.unit))
        rows = e.names.extent(points)[1]
        samples = [f"sampled_degree({x}, i, {rows})" for x in _offsets(e.names, loop)]
        return _sum_of(samples) if counted else "0"
    item = "i"
    if e.names.stores[s.slot].kind == "collection":
        item = f"max_of({e.names.column(s.slot, 'item')}.get(i), 0)"  # it may be None
    return _sum_of([f"degree({x}, {item})" for x in _offsets(e.names, loop)])


def _sum_of(counts: list[str]) -> str:
    """The sum of one or two counts, which may exceed 31 bits."""
    return counts[0] if len(counts) == 1 else " + ".join(f"i64({x})" for x in counts)


def _offsets(names: Names, loop: ir.ForEdges) -> list[str]:
    """The offsets of the rows, of each direction."""
    directions = ("out", "in") if loop.direction == "all" else (loop.direction,)
    return [f"a.{names.prefix[loop.graph]}_{d}_offset" for d in directions]


def _entry(n: Names, loop: ir.ForEdges) -> tuple[list[str], str, str]:
    """Lines that locate entry ``k`` of a loop over both directions; its edge, and its other end."""
    directions = ("out", "in") if loop.direction == "all" else (loop.direction,)
    k, lines = "k", list[str]()
    if loop.direction == "all":
        k, offsets = "entry", ", ".join(_offsets(n, loop))
        lines = [
            "    typedef Both Rows;",
            "    MORPH_FN Both rows(const Args& a, i64 k) const {",
            f"        return Both({offsets}, Both::point(k));",
            "    }",
            "    MORPH_FN Reach reach(const Args& a, i64 k) const {",
            "        return reach(a, rows(a, k), k);",
            "    }",
            "    MORPH_FN Reach reach(const Args& a, const Both& both, i64 k) const {",
            "        const i64 entry = both.entry(Both::place(k));",
            "        const bool is_out = both.is_out(Both::place(k));",
        ]
    edges = [n.edge(loop.graph, d, k) for d in directions]
    ends = [n.end(loop.graph, d, k, "edge") if loop.var else "-1" for d in directions]
    edge, end = ("is_out ? {} : {}".format(*x) if len(x) > 1 else x[0] for x in (edges, ends))
    return lines, edge, end


def _offset(e: Emission, loop: ir.ForEdges) -> str:
    return f"a.{e.names.prefix[loop.graph]}_{loop.direction}_offset"


def values(f: ir.Func) -> list[Any]:
    """The parameters of a function that are not objects."""
    return [(n, t) for n, t in f.params if not isinstance(t, Object)]
