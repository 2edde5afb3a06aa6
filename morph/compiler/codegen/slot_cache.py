"""What a CPU thread takes of lists at once, as C++; see ``kernels/target_cpu.h``."""

from __future__ import annotations

from morph.compiler.codegen.emission import Emission
from morph.compiler.passes.plan import StepPlan


def list_name(e: Emission, slot: str) -> str:
    """What a list's stock is called."""
    return e.names.member(e.names.prefix[slot])


def stocks(e: Emission) -> None:
    """What a CPU thread takes of lists at once."""
    lists = [(e.names.prefix[s], list_name(e, s)) for s in e.plan.cached]
    e.put("", "struct Stocks {  // what a thread has taken of lists at once, on a CPU")
    if lists:
        e.put("#ifndef __CUDACC__", f"    Stock {', '.join(name for _, name in lists)};")
        e.put("    void serve(Item& it) {")
        e.put(*(f"        it.{s}_room.stock = &{name};" for s, name in lists), "    }")
        e.put("    static void release(Item& it) {")
        e.put(*(f"        it.{s}_room.stock = nullptr;" for s, _ in lists), "    }")
        e.put(
            f"    void flush() {{ {' '.join(f'{name}.flush();' for _, name in lists)} }}", "#else"
        )
    e.put("    MORPH_FN void serve(Item&) {}", "    static MORPH_FN void release(Item&) {}")
    e.put("    MORPH_FN void flush() {}", *(["#endif"] if lists else []), "};")


def take_all(e: Emission, s: StepPlan) -> list[str]:
    """Of a step: a thread that is alone takes all there is of the lists that it adds to."""
    takes = [f"    stocks.{list_name(e, x)}.take_all({e.names.base(x)}_meta);" for x in s.fills]
    body = [f"    {x}" for x in e.way(takes, "t", s.fills)]
    return [
        "    MORPH_FN void take_all(const Args& a, const Run& t, Stocks& stocks) const {",
        *(["#ifndef __CUDACC__", *body, "#endif"] if takes else []),
        "    }",
    ]


def close_gaps(e: Emission, slot: str) -> list[str]:
    """Before the master looks at a list: its last items move to slots that nobody used."""
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
