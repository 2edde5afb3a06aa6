"""Slot caches: a CPU thread reserves several slots of a collection at once; slot_caches_cpu.h."""

from __future__ import annotations

from morph.compiler.codegen.emission import Emission
from morph.compiler.codegen.statements import Body
from morph.compiler.ir import nodes as ir
from morph.compiler.passes.plan import FunctionPlan, StepPlan


def cache_name(e: Emission, slot: str) -> str:
    """The name of the member that is the slot cache of a collection."""
    return e.names.member(e.names.prefix[slot])


def slot_caches(e: Emission) -> None:
    """The slot caches of a thread."""
    lists = [(e.names.prefix[s], cache_name(e, s)) for s in e.plan.cached]
    e.put("", "struct SlotCaches {  // slots and capacity that a CPU thread holds, by list")
    if lists:
        e.put("#ifndef __CUDACC__", f"    SlotCache {', '.join(name for _, name in lists)};")
        e.put("    void attach(Item& it) {")
        e.put(*(f"        it.{s}_reservation.slot_cache = &{name};" for s, name in lists), "    }")
        e.put("    static void detach(Item& it) {")
        e.put(*(f"        it.{s}_reservation.slot_cache = nullptr;" for s, _ in lists), "    }")
        e.put(
            f"    void flush() {{ {' '.join(f'{name}.flush();' for _, name in lists)} }}", "#else"
        )
    e.put("    MORPH_FN void attach(Item&) {}", "    static MORPH_FN void detach(Item&) {}")
    e.put("    MORPH_FN void flush() {}", *(["#endif"] if lists else []), "};")


class Demand(Body):
    """Prints the reservation of an item as a demand that is added to that of its batch."""

    def _stmt_reserve(self, s: ir.Reserve) -> None:
        for n in s.needs:
            demand = f"{self.names.member(self.names.prefix[n.slot])}.demand"
            self.put(f"batch.{demand}({self.names.base(n.slot)}_meta, {self.expr(n.count)});")


def batch_slots(e: Emission) -> None:
    """The struct by which a thread allocates together for all items of a batch of claims."""
    plans = [x for f in e.plan.functions.values() if f.exact for x in f.exact]
    slots = sorted({n.slot for x in plans for n in ir.find(x.body, ir.Need)})
    if not slots:
        return
    names = [cache_name(e, s) for s in slots]
    e.put("#ifndef __CUDACC__", "struct BatchSlots {  // allocates for a batch of items that claim")
    e.put(f"    SlotCache {', '.join(names)};")
    takes = " && ".join(f"{x}.reserve_demand()" for x in names)
    e.put("    bool take() {", f"        bool all = {takes};")
    e.put(*(f"        {x}.take_demand(all);" for x in names), "        return all;", "    }")
    e.put("    void attach(Item& it) {")
    for s, name in zip(slots, names, strict=True):
        e.put(f"        it.{e.names.prefix[s]}_reservation.slot_cache = &{name};")
    e.put("    }", "};", "#endif")


def demands(e: Emission, f: FunctionPlan) -> None:
    """The functions that add what an item will allocate to the demand of its batch."""
    if not f.exact:
        return
    name, given = e.names.funcs[f.func.name], e.signature(f.func.params)
    live = dict.fromkeys(f.live, "it")
    e.put("#ifndef __CUDACC__")
    for part, plan in zip(("commit", "abort"), f.exact, strict=True):
        head = f"(const Args& a, {name}_item& it{given}, BatchSlots& batch)"
        e.define(f.func, f"MORPH_BODY void {name}_{part}_demand{head}", plan, live, make=Demand)
    e.put("#endif")


def demand_member(f: FunctionPlan, name: str, args: str) -> list[str]:
    """Members of a step whose claiming items allocate together."""
    if not f.exact:
        return []
    given = f"_demand(a, it, it.row{args}, batch)"
    return [
        "#ifndef __CUDACC__",
        "    typedef ::BatchSlots BatchSlots;",
        "    MORPH_FN void demand(const Args& a, I& it, bool won, BatchSlots& batch) const {",
        f"        if (won) {name}_commit{given};", f"        else {name}_abort{given};", "    }",
        "#endif",
    ]  # fmt: skip


def take_all(e: Emission, s: StepPlan) -> list[str]:
    """Member of a step: a single thread reserves all free slots of the lists that it adds to."""
    takes = [
        f"    caches.{cache_name(e, x)}.take_all({e.names.base(x)}_meta);" for x in s.takes_all
    ]
    body = [f"    {x}" for x in e.with_permutation(takes, "t", s.takes_all)]
    return [
        "    MORPH_FN void take_all(const Args& a, const Run& t, SlotCaches& caches) const {",
        *(["#ifndef __CUDACC__", *body, "#endif"] if takes else []),
        "    }",
    ]


def close_gaps(e: Emission, slot: str) -> list[str]:
    """At a barrier, before a list is published: move its last items to its unused slots."""
    if slot not in e.plan.cached:
        return []
    moves = []
    for c in e.names.stores[slot].columns:
        if (slot, c.name) in e.plan.changed:
            x = e.names.column(slot, c.name)
            one = f"{x}.set(to, {{}}{x}.get(from{{}}));"
            if c.size:
                loop = f"for (i32 j = 0; j < {c.size}; j++)"
                moves.append(f"{loop} {one.format('j, ', ', j')}")
            else:
                moves.append(one.format("", ""))
    meta = f"{e.names.base(slot)}_meta"
    move = f"[&](i64 to, i64 from) {{ {' '.join(moves)} }}"
    return [f"close_gaps({meta}, {move});"]
