"""Slot caches: a CPU thread reserves several slots of a collection at once; slot_caches_cpu.h."""

from __future__ import annotations

from morph.compiler.codegen.emission import Emission
from morph.compiler.passes.plan import StepPlan


def cache_name(e: Emission, slot: str) -> str:
    """The name of the member that is the slot cache of a collection."""
    return e.names.member(e.names.prefix[slot])


def slot_caches(e: Emission) -> None:
    """The slot caches of a thread."""
    lists = [(e.names.prefix[s], cache_name(e, s)) for s in e.plan.cached]
    e.put("", "struct SlotCaches {  // what a thread has taken of lists at once, on a CPU")
    if lists:
        e.put("#ifndef __CUDACC__", f"    SlotCache {', '.join(name for _, name in lists)};")
        e.put("    void serve(Item& it) {")
        e.put(*(f"        it.{s}_reservation.slot_cache = &{name};" for s, name in lists), "    }")
        e.put("    static void release(Item& it) {")
        e.put(*(f"        it.{s}_reservation.slot_cache = nullptr;" for s, _ in lists), "    }")
        e.put(
            f"    void flush() {{ {' '.join(f'{name}.flush();' for _, name in lists)} }}", "#else"
        )
    e.put("    MORPH_FN void serve(Item&) {}", "    static MORPH_FN void release(Item&) {}")
    e.put("    MORPH_FN void flush() {}", *(["#endif"] if lists else []), "};")


def take_all(e: Emission, s: StepPlan) -> list[str]:
    """Member of a step: a single thread reserves all free slots of the lists that it adds to."""
    takes = [f"    caches.{cache_name(e, x)}.take_all({e.names.base(x)}_meta);" for x in s.fills]
    body = [f"    {x}" for x in e.with_permutation(takes, "t", s.fills)]
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
