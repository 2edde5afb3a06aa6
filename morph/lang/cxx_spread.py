"""A loop that several threads share, as C++: the head of its kernel, and what one entry does.

See `spread` for which loops these are, and ``kernels/balance.h`` for who runs what.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from morph.lang import ir
from morph.lang.abi import cname
from morph.lang.cxx_stmt import Body
from morph.lang.spread import LISTS, Spread
from morph.lang.types import Handle, Object

if TYPE_CHECKING:
    from morph.lang.emit import Emission

LIMITS = {"auto": "HUB", "warp": "NO_LIST", "grid": "0"}


class Head(Body):
    """A kernel up to its last loop: of that, only which entries it runs over."""

    def __init__(self, *args: Any, spread: Spread) -> None:
        super().__init__(*args)
        self.spread = spread

    def _for_edges(self, s: ir.ForEdges) -> None:
        if s is not self.spread.loop:
            super()._for_edges(s)
            return
        row = f"a.{cname(s.graph)}_{s.direction}_offset, {self.expr(s.point)}"
        self.put(f"row_ = {{row_begin({row}), row_end({row})}};")
        for n in self.spread.live:
            self.put(f"live_.{self.names.member(n)} = {self.resolve(n)};")
        for slot, count in self.spread.room:  # it goes with the entries
            each = "" if count == 1 else f"{count} * "
            self.put(f"it.{cname(slot)}_room -= {each}i32(row_.end - row_.begin);")


class Entry(Body):
    """The inside of the loop."""

    def __init__(self, *args: Any, spread: Spread) -> None:
        super().__init__(*args)
        for slot, n in spread.room:
            self.put(f"it.{cname(slot)}_room += {n};")


def shared(e: Emission, s: ir.Node) -> Spread | None:
    """The loop of a step that several threads share."""
    if not isinstance(s, ir.Foreach) or s.balance == "thread":
        return None
    return e.spreads.get(s.kernel)


def listed(e: Emission, s: ir.Node) -> bool:
    """Whether a step puts long rows on the list."""
    return isinstance(s, ir.Foreach) and s.balance in LISTS and shared(e, s) is not None


def live_struct(e: Emission, k: ir.Kernel) -> None:
    """What the loop reads of its item."""
    types = dict(k.params) | dict(k.locals)
    e.put("", f"struct {e.names.funcs[k.name]}_live {{  // what the loop reads of its item")
    live = [(types[n], e.names.member(n)) for n in e.spreads[k.name].live]
    e.put(*(f"    {e.names.type(t)} {n};" for t, n in live), "};")


def emit_spread(e: Emission, k: ir.Func) -> None:
    """Add the head and the entry of a kernel."""
    spread, n, name = e.spreads[k.name], e.names, e.names.funcs[k.name]
    listed = "".join(f", {n.type(t)} {n.spell(p)}" for p, t in _values(k))
    head = f"void {name}_head(const Args& a, Item& it{listed}, Entries& row_, {name}_live& live_)"
    e.define(k, head, k.body, make=partial(Head, spread=spread))
    loop, types = spread.loop, dict(k.locals)
    bound = [(loop.edge, "i32"), *([(loop.var, "i32")] if loop.var else [])]
    item, *given = _values(k)
    inner = replace(
        k, params=(*given, *((b, types.get(b, Handle(""))) for b, _ in bound)),
        locals=tuple((x, t) for x, t in k.locals if x not in dict(bound)),
    )  # fmt: skip
    listed = "".join(f", {n.type(t)} {n.spell(p)}" for p, t in inner.params)
    entry = f"void {name}_entry(const Args& a, Item& it, const {name}_live& live_{listed})"
    e.define(
        inner, entry, spread.entry, set(spread.live), moving=e.moving[k.name], lives="live_",
        make=partial(Entry, spread=spread),
    )  # fmt: skip


def step_members(e: Emission, s: ir.Foreach, args: str) -> list[str]:
    """What the step of a shared loop has beside the others."""
    spread = shared(e, s)
    if spread is None:
        return ["    static constexpr bool SPREADS = false;"]
    n, name, loop = e.names, e.names.funcs[s.kernel], spread.loop
    ends = f"{n.end(loop.graph, loop.direction)}.get(edge)" if loop.var else "-1"
    call = "r.edge, r.end" if loop.var else "r.edge"
    return [
        "    static constexpr bool SPREADS = true;  // its last loop, by entries",
        f"    static constexpr i64 LIMIT = {LIMITS[s.balance]};",
        f"    typedef {name}_live Live;",
        "    MORPH_FN void head(const Args& a, I& it, Entries& row, Live& live) const {",
        f"        {name}_head(a, it, it.row{args}, row, live);",
        "    }",
        "    MORPH_FN Reached reach(const Args& a, i64 k) const {",
        f"        i32 edge = {n.edge(loop.graph, loop.direction, 'k')};",
        f"        return {{edge, {ends}}};",
        "    }",
        "    MORPH_FN void entry(const Args& a, I& it, const Live& live, Reached r) const {",
        f"        {name}_entry(a, it, live{args}, {call});",
        "    }",
    ]


def _values(f: ir.Func) -> list[Any]:
    return [(n, t) for n, t in f.params if not isinstance(t, Object)]
