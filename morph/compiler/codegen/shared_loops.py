"""A loop that several threads share, as C++: prologue, body and epilogue of its kernel.

`work_sharing` selects these loops; ``kernels/schedule/balance.h`` assigns entries to threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from morph.compiler.codegen.emission import Emission, values
from morph.compiler.codegen.expressions import Scope
from morph.compiler.codegen.names import Names, constant
from morph.compiler.codegen.operations import COMBINED, JOINED, identity
from morph.compiler.codegen.statements import Body
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.abi import CTYPE
from morph.compiler.ir.spelling import ascii_name
from morph.compiler.passes.independence import loop_variables
from morph.compiler.passes.plan import BodyPlan, FunctionPlan, Sharing
from morph.compiler.passes.search import SharedSearch
from morph.compiler.passes.work_sharing import SharedLoop, of_edge
from morph.language.types import Handle, Type


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
        point, offsets = self.expr(s.point), ", ".join(self.names.offsets(s.graph, s.direction))
        if s.direction == "all":
            first = f"BothDirections::first({point})"
            row = f"{first}, {first} + BothDirections({offsets}, {point}).n"
        else:
            row = f"row_begin({offsets}, {point}), row_end({offsets}, {point})"
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
        self.staged = staged_structs(names, kernel, sharing)
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
        skips_test = self.body_plan.asynchronous is not None and e.op in ("min", "max")
        return f"untested(it.asynchronous, {place})" if skips_test else place

    def _allocate(self, makes: list[tuple[str, ir.New | ir.NewRows | ir.Add]]) -> None:
        """Put new items into staging buffers; allocate other items and rows at once."""
        for name, e in makes:
            if not isinstance(e, ir.Add) or e.slot not in self.staged:
                super()._allocate([(name, e)])
                continue
            self.place(e.pos)
            given = {c: self.expr(x) for c, x in e.values}
            columns = self.names.stores[e.slot].columns
            values = [
                f"{CTYPE[c.dtype.name]}({given.get(c.name, -1 if c.ref else 0)})" for c in columns
            ]
            entry = f"{self.staged[e.slot]}{{{', '.join(values)}}}"
            staged = f"stage(a, it, it.{self.names.prefix[e.slot]}_reservation, {entry});"
            if not self._adds_asynchronously(e):
                self.put(staged)
                continue
            lists = self.body_plan.asynchronous
            assert lists is not None
            row = self.temp("r")
            self.put(f"const i32 {row} = it.asynchronous.place();")
            self.put(f"if ({row} < 0) {staged}")
            to = lists[1]
            sets = [f"{self.names.column(to, c)}.set({row}, {x});" for c, x in given.items()]
            sets += [
                f"{self.names.column(to, c.name)}.set({row}, {-1 if c.ref else 0});"
                for c in columns
                if c.name not in given
            ]
            self.put(f"else {{ {' '.join(sets)} }}")


def shared_structs(e: Emission, plan: FunctionPlan, sharing: Sharing) -> None:
    """The structs that the parts of a kernel pass to each other."""
    k, shared, n, name = plan.func, sharing.loop, e.names, e.names.funcs[plan.func.name]
    types = dict(k.params) | dict(k.locals)
    parts = [("live_in", "locals of the item that the body of its loop reads", shared.live_in)]
    if shared.completes:
        parts.append(("live_out", "locals that are read after its loop", shared.live_out))
    for part, purpose, names in parts:
        e.put("", f"struct {name}_{part} {{  // {purpose}")
        e.put(*(f"    {n.type(types[x])} {n.member(x)};" for x in names), "};")
    if first := sharing.preloaded:
        e.put("", f"struct {name}_reach {{  // the edge of an entry, its end, preloaded columns")
        edge = n.type(bound_types(shared.loop)[0])
        e.put(*(["    i32 edge, end;"] if edge == "i32" else [f"    {edge} edge;", "    i32 end;"]))
        e.put(*(f"    {CTYPE[c.dtype.name]} {n.member(x)};" for x, c in first.items()), "};")
    for number, slot in enumerate(sharing.staged):
        _staged_struct(e, name, sharing, slot, number)
    if shared.completes:
        _reductions_struct(e, name, shared, types)


def _staged_struct(e: Emission, kernel: str, sharing: Sharing, slot: str, number: int) -> None:
    """The struct of an entry in a staging buffer."""
    n, (at, places) = e.names, sharing.staged[slot]
    columns = n.stores[slot].columns
    struct = staged_structs(n, kernel, sharing)[slot]
    e.put("", f"struct {struct} {{  // an entry in a staging buffer")
    e.put(f"    enum {{ AT = {at}, PLACES = {places}, WHICH = {number} }};")
    e.put(*(f"    {CTYPE[c.dtype.name]} {n.member(c.name)};" for c in columns))
    head = "static MORPH_FN i64* meta(const Args& a, const Item& it)"
    e.put(*e.member(head, [f"return {n.base(slot)}_meta;"], "it", [slot]))
    head = "MORPH_FN void write(const Args& a, const Item& it, i32 row) const"
    sets = [f"{n.column(slot, c.name)}.set(row, {n.member(c.name)});" for c in columns]
    e.put(*e.member(head, sets, "it", [slot]), "};")


def _reductions_struct(
    e: Emission, kernel: str, shared: SharedLoop, types: Mapping[str, Type]
) -> None:
    """The struct of the reduction variables of a kernel."""
    n, name = e.names, f"{kernel}_reductions"
    e.put("", f"struct {name} {{  // reduction variables, from their identities")
    for x, how in shared.reductions:
        start = constant(
            ir.Const(value=identity(how, types[x]), type=types[x], pos=shared.loop.pos)
        )
        e.put(f"    {n.type(types[x])} {n.member(x)} = {start};")
    e.put(f"    MORPH_FN void add(const {name}& x) {{ {add_reductions(e, shared)} }}")
    joins = " ".join(
        f"fetch({JOINED[how]}(), &all.{n.member(x)}, {n.member(x)});"
        for x, how in shared.reductions
    )
    e.put(f"    MORPH_FN void join({name}& all) const {{ {joins} }}", "};")


def add_reductions(e: Emission, shared: SharedLoop, to: str = "") -> str:
    """The statements that combine the reductions ``x`` with those of ``to``."""
    done = []
    for name, how in shared.reductions:
        m = e.names.member(name)
        done.append(f"{to}{m} = {COMBINED[how]}({to}{m}, x.{m});")
    return " ".join(done)


def shared_functions(e: Emission, plan: FunctionPlan, sharing: Sharing) -> None:
    """Add the parts of a kernel."""
    k, shared, name = plan.func, sharing.loop, e.names.funcs[plan.func.name]
    item, *given = values(k)
    common = "(const Args& a, Item& it"
    live_out = f", {name}_live_out& live_out_" if shared.completes else ""
    head = f"MORPH_BODY bool {name}_prologue{common}{e.signature([item, *given])}, Entries& row_"
    head += f", {name}_live_in& live_in_{live_out})"
    first = partial(Prologue, shared=shared)
    e.define(k, head, sharing.prologue, default=" false", make=first)

    bound = list(zip(loop_variables(shared.loop), bound_types(shared.loop), strict=False))
    sums = f", {name}_reductions& reductions_" if shared.completes else ""
    head = f"MORPH_BODY void {name}_body{common}, const {name}_live_in& live_in_{sums}"
    head += e.signature([*given, *bound])
    head += "".join(
        f", {CTYPE[c.dtype.name]} {ascii_name(x)}_preloaded_" for x, c in sharing.preloaded.items()
    )
    members = dict.fromkeys(shared.live_in, "live_in_")
    members |= {x: "reductions_" for x, _ in shared.reductions}
    inner = partial(LoopBody, sharing=sharing, kernel=name)
    e.define(k, f"{head})", sharing.body, members, make=inner)

    if shared.completes:
        head = f"MORPH_BODY void {name}_epilogue{common}{live_out}{e.signature(given)})"
        members = dict.fromkeys(shared.live_out, "live_out_")
        e.define(k, head, sharing.epilogue, members)


def bound_types(loop: ir.ForEdges | ir.ForRows) -> tuple[Type, ...]:
    """The types of the variables that a loop binds, see `bound`."""
    if isinstance(loop, ir.ForEdges):
        return Handle(f"{loop.graph}.edges"), Handle(f"{loop.graph}.points")
    return (Handle(loop.slot),)


def staged_structs(names: Names, kernel: str, sharing: Sharing) -> dict[str, str]:
    """The struct of a staging buffer's entry, by collection."""
    return {slot: f"{kernel}_to_{names.prefix[slot]}" for slot in sharing.staged}
