"""A loop that several threads share, as C++: the head of its kernel, and what one entry does.

See `work_sharing` for which loops these are; ``kernels/schedule/balance.h`` assigns the items.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from morph.compiler.codegen.names import constant
from morph.compiler.codegen.slot_cache import take_all
from morph.compiler.codegen.statements import Body
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.abi import CTYPE
from morph.compiler.ir.spelling import ascii_name
from morph.compiler.passes.work_sharing import LISTS, Loop, Spread, bound, staged
from morph.language.types import Column, Handle, Object, Scalar, Type

if TYPE_CHECKING:
    from morph.compiler.codegen.unit import Emission

JOINS = {"+": "Plus", "min": "Least", "max": "Most"}
LIMITS = {"auto": "HUB", "warp": "NO_LIST", "grid": "0"}


class Head(Body):
    """A kernel up to its last loop: of that, only which entries it runs over."""

    def __init__(self, *args: Any, spread: Spread) -> None:
        super().__init__(*args)
        self.spread = spread

    def _for(self, s: Any) -> None:
        if s is not self.spread.loop:
            super()._for(s)
            return
        if isinstance(s, ir.ForEdges):
            row = f"a.{self.names.prefix[s.graph]}_{s.direction}_offset, {self.expr(s.point)}"
            self.put(f"row_ = {{row_begin({row}), row_end({row})}};")
        else:
            self.put(f"row_ = {{{', '.join(self.names.extent(s.slot))}}};")
        if s.start is not None:
            self.put(f"row_.begin = min_of(row_.begin + {self.skipped(s.start)}, row_.end);")
        for name, locals_ in (("live_", self.spread.live), ("rest_", self.spread.rest)):
            for n in locals_:
                self.put(f"{name}.{self.names.member(n)} = {self.resolve(n)};")
        for slot, count in () if self.spread.batched else self.spread.room:  # goes with the entries
            each = "" if count == 1 else f"{count} * "
            self.put(f"it.{self.names.prefix[slot]}_room -= {each}i32(row_.end - row_.begin);")
        self.put("return true;")

    def _reserve(self, s: ir.Reserve) -> None:
        """Reserve for all but the entries, if these do so themselves."""
        taken = [slot for slot, _ in self.spread.room] if self.spread.batched else []
        rest = tuple(n for n in s.needs if n.local or n.slot not in taken)
        if rest or not taken:
            super()._reserve(replace(s, needs=rest))
        else:  # in tests it can fail all the same
            blame = self.names.index[taken[0]]
            self.put(f"if (!may_reserve(a.status, it, {blame})) return{self.gives};")


class Entry(Body):
    """The inside of the loop."""

    def __init__(
        self, *args: Any, spread: Spread, stage: Mapping[str, str], first: Mapping[str, Column]
    ) -> None:
        super().__init__(*args)
        self.loop = spread.loop
        self.early = first
        self.stage = stage  # by list, the struct of an entry that waits
        for slot, n in () if spread.batched else spread.room:
            self.put(f"it.{self.names.prefix[slot]}_room += {n};")
        loop, names = spread.loop, self.names
        if isinstance(loop, ir.ForRows) and names.stores[loop.slot].deletes:
            self.put(
                f"if (is_dead({names.base(loop.slot)}_dead, {self.resolve(loop.var)})) return;"
            )

    def load(self, p: ir.Place) -> str:
        """A value, which may have been read before."""
        self.item = ""  # whoever runs the entry has another item
        return (
            f"{ascii_name(p.column)}_early_"
            if of_edge(p, self.loop, self.early)
            else super().load(p)
        )

    def _effect(self, e: ir.Expr) -> str:
        """What changes a place that few may want, while few items are run."""
        text = super()._effect(e)
        if self.ahead is None or not isinstance(e, ir.Atomic) or e.op not in ("min", "max"):
            return text
        place = self.address(e.place)
        return text.replace(f"({place}", f"(few(it.ahead, {place})", 1)

    def _make(self, makes: list[tuple[str, ir.New | ir.NewRows | ir.Add]]) -> None:
        """Lay down what can wait; the rest as ever."""
        for name, e in makes:
            if not isinstance(e, ir.Add) or e.slot not in self.stage:
                super()._make([(name, e)])
                continue
            self.place(e.pos)
            given = {c: self.expr(x) for c, x in e.values}
            columns = self.names.stores[e.slot].columns
            values = [
                f"{CTYPE[c.dtype.name]}({given.get(c.name, -1 if c.ref else 0)})" for c in columns
            ]
            entry = f"{self.stage[e.slot]}{{{', '.join(values)}}}"
            later = f"stage(a, it, it.{self.names.prefix[e.slot]}_room, {entry});"
            if not self._may_run_ahead(e):
                self.put(later)
                continue
            assert self.ahead is not None
            row = self.temp("r")
            self.put(f"const i32 {row} = it.ahead.place();")
            self.put(f"if ({row} < 0) {later}")
            to = self.ahead[1]
            sets = [f"{self.names.column(to, c)}.set({row}, {x});" for c, x in given.items()]
            sets += [
                f"{self.names.column(to, c.name)}.set({row}, {-1 if c.ref else 0});"
                for c in columns
                if c.name not in given
            ]
            self.put(f"else {{ {' '.join(sets)} }}")


def of_edge(p: ir.Place, loop: Loop, columns: Iterable[str]) -> bool:
    """Whether a place is one of some columns of the edge, or row, that a loop has come to."""
    row = isinstance(p.row, ir.Var) and p.row.name == bound(loop)[0]
    return row and p.index is None and p.slot == over(loop) and p.column in columns


def over(loop: Loop) -> str:
    """The table whose rows a loop goes through."""
    return f"{loop.graph}.edges" if isinstance(loop, ir.ForEdges) else loop.slot


def early(e: Emission, kernel: str) -> dict[str, Column]:
    """The columns of an edge, or row, that its entry reads in any case, and no other one writes.

    They are read together with what the entry leads to, before those ahead of it have been run.
    What the entry writes itself, it has to have read before, and for the last time.
    """
    s, slot, moving = e.spreads[kernel], over(e.spreads[kernel].loop), e.moving[kernel]
    first: list[ir.Node] = []
    for x in s.entry:
        first += ir.walk(x.cond if isinstance(x, ir.If) else x)
        if isinstance(x, ir.If | ir.Return):
            break
    if any(n.loop for n in first):
        return {}
    plain = {c.name: c for c in e.names.stores[slot].columns if not c.size and c.record < 0}
    row = bound(s.loop)[0]
    for name in [x for x in plain if (slot, x) in moving]:
        if not _own(e, kernel, (slot, name), row, first):
            del plain[name]
    loads = [n.place for n in first if isinstance(n, ir.Load)]
    assigned = any(isinstance(n, ir.Assign) and n.name == row for n in ir.walk(s.entry))
    found = {p.column for p in loads if of_edge(p, s.loop, plain)} if not assigned else set()
    return {name: plain[name] for name in sorted(found)}


def _own(e: Emission, kernel: str, column: tuple[str, str], row: str, first: list[ir.Node]) -> bool:
    """Whether a kernel reads a column at its entry's own row alone, first, and then writes it."""
    where = e.kernels[kernel].where
    at = [
        n
        for f in (*e.reached(kernel), *(e.reached(where) if where else ()))
        for n in ir.walk(f)
        if isinstance(n, ir.Load | ir.Write | ir.Atomic | ir.LockPlace)
        and (n.place.slot, n.place.column) == column
    ]
    before, inside = ({id(n) for n in x} for x in (first, ir.walk(e.spreads[kernel].entry)))
    return all(
        isinstance(n.place.row, ir.Var)
        and n.place.row.name == row
        and (isinstance(n, ir.Load) and id(n) in before)
        | (isinstance(n, ir.Write) and id(n) in inside - before)
        for n in at
    )


def shared(e: Emission, s: ir.Node) -> Spread | None:
    """The loop of a step that several threads share."""
    if not isinstance(s, ir.Foreach) or s.balance == "thread":
        return None
    return e.spreads.get(s.kernel)


def listed(e: Emission, s: ir.Node) -> bool:
    """Whether a step puts long rows on the list."""
    return shared(e, s) is not None and isinstance(s, ir.Foreach) and s.balance in LISTS


def spread_structs(e: Emission, k: ir.Kernel) -> None:
    """What the parts of a kernel hand on."""
    spread, n, name = e.spreads[k.name], e.names, e.names.funcs[k.name]
    types = dict(k.params) | dict(k.locals)
    parts = [("live", "its entries read of the item", spread.live)]
    if spread.whole:
        parts.append(("rest", "is read behind its loop", spread.rest))
    for part, what, names in parts:
        e.put("", f"struct {name}_{part} {{  // what {what}")
        e.put(*(f"    {n.type(types[x])} {n.member(x)};" for x in names), "};")
    if first := early(e, k.name):
        e.put("", f"struct {name}_reach {{  // where an entry leads, and what is read of its edge")
        e.put("    i32 edge, end;")
        e.put(*(f"    {CTYPE[c.dtype.name]} {n.member(x)};" for x, c in first.items()), "};")
    for which, (slot, (at, places)) in enumerate(staged(spread, n.stores).items()):
        columns, base = n.stores[slot].columns, n.base(slot)
        made = [f"{n.column(slot, c.name)}.set(row, {n.member(c.name)});" for c in columns]
        e.put("", f"struct {name}_to_{e.names.prefix[slot]} {{  // an entry on its way")
        e.put(f"    enum {{ AT = {at}, PLACES = {places}, WHICH = {which} }};")
        e.put(*(f"    {CTYPE[c.dtype.name]} {n.member(c.name)};" for c in columns))
        e.put("    static MORPH_FN i64* meta(const Args& a, const Item& it) {")
        e.put(*(f"    {x}" for x in e.way([f"    return {base}_meta;"], "it")), "    }")
        e.put("    MORPH_FN void write(const Args& a, const Item& it, i32 row) const {")
        e.put(*(f"    {x}" for x in e.way([f"    {x}" for x in made], "it")), "    }", "};")
    if spread.whole:
        e.put("", f"struct {name}_sums {{  // what entries add up, from what changes nothing")
        for x, how in spread.sums:
            none = constant(ir.Const(value=_none(how, types[x]), type=types[x], pos=k.pos))
            e.put(f"    {n.type(types[x])} {n.member(x)} = {none};")
        e.put(f"    MORPH_FN void add(const {name}_sums& x) {{ {_adds(e, spread)} }}")
        joins = " ".join(
            f"fetch({JOINS[how]}(), &all.{n.member(x)}, {n.member(x)});" for x, how in spread.sums
        )
        e.put(f"    MORPH_FN void join({name}_sums& all) const {{ {joins} }}", "};")


def _none(how: str, t: Type) -> float:
    """What changes nothing when it is added, or a minimum or maximum is taken with it."""
    assert isinstance(t, Scalar)
    if how == "+":
        return -0.0 if t.kind == "f" else 0
    if t.kind == "f":
        return float("inf") if how == "min" else float("-inf")
    least, most = (
        (0, 2**t.bits - 1) if t.kind == "u" else (-(2 ** (t.bits - 1)), 2 ** (t.bits - 1) - 1)
    )
    return most if how == "min" else least


def _adds(e: Emission, spread: Spread, to: str = "") -> str:
    """The statements that add sums ``x`` to those of ``to``."""
    done = []
    for name, how in spread.sums:
        m = e.names.member(name)
        both = "sum_of" if how == "+" else f"{how}_of"
        done.append(f"{to}{m} = {both}({to}{m}, x.{m});")
    return " ".join(done)


def emit_spread(e: Emission, k: ir.Func) -> None:
    """Add the parts of a kernel."""
    spread, n, name = e.spreads[k.name], e.names, e.names.funcs[k.name]
    loop, types, moving = spread.loop, dict(k.locals), e.moving[k.name]
    item, *given = _values(k)

    def listed(params: Any) -> str:
        return "".join(f", {n.type(t)} {n.spell(p)}" for p, t in params)

    rest = f", {name}_rest& rest_" if spread.whole else ""
    head = f"bool {name}_head(const Args& a, Item& it{listed(_values(k))}, Entries& row_"
    make = partial(Head, spread=spread)
    e.define(k, f"{head}, {name}_live& live_{rest})", spread.head, gives=" false", make=make)
    around = [(b, types.get(b, Handle(""))) for b in bound(loop)]
    inner = replace(
        k, params=(*given, *around), locals=tuple(x for x in k.locals if x[0] not in dict(around))
    )
    sums = f", {name}_sums& sums_" if spread.whole else ""
    entry = f"void {name}_entry(const Args& a, Item& it, const {name}_live& live_{sums}"
    lives = dict.fromkeys(spread.live, "live_") | {x: "sums_" for x, _ in spread.sums}
    first = early(e, k.name)
    read = "".join(f", {CTYPE[c.dtype.name]} {ascii_name(x)}_early_" for x, c in first.items())
    e.define(
        inner, f"{entry}{listed(inner.params)}{read})", spread.entry, lives, moving=moving,
        make=partial(Entry, spread=spread, stage=_structs(e, k.name), first=first),
    )  # fmt: skip
    if spread.whole:
        behind = replace(k, params=tuple(given))
        tail = f"void {name}_tail(const Args& a, Item& it, {name}_rest& rest_{listed(given)})"
        e.define(behind, tail, spread.tail, dict.fromkeys(spread.rest, "rest_"), moving=moving)


def step_members(e: Emission, s: ir.Foreach, args: str) -> list[str]:
    """What the step of a shared loop has beside the others."""
    spread = shared(e, s)
    if spread is None:
        return [
            *take_all(e, s),
            "    static constexpr bool SPREADS = false;",
            "    static constexpr bool BATCHED = false;",
        ]
    n, name, loop = e.names, e.names.funcs[s.kernel], spread.loop
    edge, end = "i32(k)", "-1"
    if isinstance(loop, ir.ForEdges):
        edge = n.edge(loop.graph, loop.direction, "k")
        end = n.end(loop.graph, loop.direction, "k", "edge") if loop.var else end
    call = ", ".join(("r.edge", "r.end")[: len(bound(loop))])
    first, rows = early(e, s.kernel), over(loop)
    call += "".join(f", r.{n.member(x)}" for x in first)
    settled = {x: ".settled()" if (rows, x) in n.changed else "" for x in first}
    read = "".join(f", {n.column(rows, x)}{how}.get(edge)" for x, how in settled.items())
    reach = f"{name}_reach" if first else "Reached"
    given = "const Args& a, I& it"
    rest, sums = (", rest", ", sums") if spread.whole else ("", "")
    lines = [
        *take_all(e, s),
        "    static constexpr bool SPREADS = true;  // its last loop, by entries",
        f"    static constexpr bool WHOLE = {'true' if spread.whole else 'false'};",
        f"    static constexpr i64 LIMIT = {LIMITS[s.balance] if listed(e, s) else 'NO_LIST'};",
        *_rooms(e, s.kernel),
        *_room_ahead(e, s),
        *_sweeps(e, s, spread),
        "    MORPH_FN i64 entries(const Args& a, const Run& t, i64 i) const {",
        *(f"    {x}" for x in e.way([f"    return {_entries(e, s, spread)};"], "t")),
        "    }",
        f"    typedef {name}_live Live;",
        f"    typedef {f'{name}_rest' if rest else 'Nothing'} Rest;",
        f"    typedef {f'{name}_sums' if sums else 'Nothing'} Sums;",
        f"    MORPH_FN bool head({given}, Entries& row, Live& live, Rest& rest) const {{",
        f"        return {name}_head(a, it, it.row{args}, row, live{rest});",
        "    }",
        f"    typedef {reach} Reach;",
        "    MORPH_FN Reach reach(const Args& a, i64 k) const {",
        f"        i32 edge = {edge};",
        f"        return {{edge, {end}{read}}};",
        "    }",
        f"    MORPH_FN void entry({given}, const Live& live, Reach r, Sums& sums) const {{",
        f"        {name}_entry(a, it, live{sums}{args}, {call});",
        "    }",
    ]
    if spread.whole:
        lines += [
            "    MORPH_FN void add(Rest& rest, const Sums& x) const {",
            f"        {_adds(e, spread, 'rest.')}",
            "    }",
            f"    MORPH_FN void tail({given}, Rest& rest) const {{",
            f"        {name}_tail(a, it, rest{args});",
            "    }",
        ]
    return lines


def _structs(e: Emission, kernel: str) -> dict[str, str]:
    """By list, the struct of an entry on its way there."""
    spread, name = e.spreads[kernel], e.names.funcs[kernel]
    return {slot: f"{name}_to_{e.names.prefix[slot]}" for slot in staged(spread, e.names.stores)}


def _rooms(e: Emission, kernel: str) -> list[str]:
    """Which stores the entries take room of, in batches, and what is on its way there."""
    spread = e.spreads[kernel]
    if not spread.batched:
        return ["    static constexpr bool BATCHED = false;"]
    base, prefix, index = e.names.base, e.names.prefix, e.names.index
    asks = [
        f"    f({base(slot)}_meta, it.{prefix[slot]}_room, {n}, {index[slot]});"
        for slot, n in spread.room
    ]
    given, each = "const Args& a, I& it, F f", dict(spread.room)
    structs = _structs(e, kernel).values()
    return [
        "    static constexpr bool BATCHED = true;",
        f"    static constexpr bool SHARES = {'true' if e.names.snapshot else 'false'};",
        f"    template <class F> MORPH_FN void rooms({given}) const {{",
        *(f"    {x}" for x in e.way(asks, "it")),
        "    }",
        "    MORPH_FN void stage_none() const {",
        *(f"        stage_nothing<{x}>();" for x in structs),
        "    }",
        "    MORPH_FN void carry(const Args& a, I& it, i32 n) const {",
        *(
            f"        carry_over<{x}>(a, it, {32 * each[slot]} * n);"
            for slot, x in _structs(e, kernel).items()
        ),
        "    }",
    ]


def _room_ahead(e: Emission, s: ir.Foreach) -> list[str]:
    """Where a step that runs ahead finds its list, and the free room behind the items."""
    if s.kernel not in e.ahead:
        return ["    static constexpr bool AHEAD = false, ROWS_AHEAD = false;"]
    meta = [f"    return {e.names.base(s.slot)}_meta;"]
    return [
        "    static constexpr bool AHEAD = true;  // may run what it adds",
        "    MORPH_FN i64* list(const Args& a, const Run& t) const {",
        *(f"    {x}" for x in e.way(meta, "t")),
        "    }",
        "    MORPH_FN i64 behind(const Args& a, const Run& t) const {",
        *(f"    {x}" for x in e.way([f"    return {e.names.extent(s.slot)[1]};"], "t")),
        "    }",
        *_rows_ahead(e, s),
    ]


def _rows_ahead(e: Emission, s: ir.Foreach) -> list[str]:
    """Where the row of an item lies that an entry adds, if that is known as soon as it leads there.

    Whatever is added is where an entry leads, and an item goes through its own row.
    """
    k, loop = e.kernels[s.kernel], e.spreads[s.kernel].loop
    then = e.ahead[k.name][0]
    adds = [n for n in ir.walk(k.body) if isinstance(n, ir.Add) and n.slot == then]
    items = [dict(n.values)["item"] for n in adds]
    if not (
        isinstance(loop, ir.ForEdges)
        and loop.start is None
        and loop.var not in ir.bound(ir.walk(loop.body))
        and {id(n) for n in adds} <= {id(n) for n in ir.walk(loop.body)}  # not before the loop
        and all(isinstance(x, ir.Var) and x.name == loop.var for x in items)
        and (s.slot, "item") in e.standing[k.name]
        and _is_item(e, s, loop.point)
    ):
        return ["    static constexpr bool ROWS_AHEAD = false;"]
    row = f"{_offset(e, loop)}, r.end"
    return [
        "    static constexpr bool ROWS_AHEAD = true;  // and knows their rows",
        "    template <class T> MORPH_FN Entries row_of(const Args& a, const T& r) const {",
        f"        return {{row_begin({row}), row_end({row})}};",
        "    }",
    ]


def _is_item(e: Emission, s: ir.Foreach, point: ir.Expr) -> bool:
    """Whether a point is the kernel's item, or the one that it, an entry of a list, stands for."""
    k, given = e.kernels[s.kernel], dict[str, list[ir.Expr]]()
    item, kind = k.params[0]
    for n in ir.walk(k.body):
        if isinstance(n, ir.Assign):
            given.setdefault(n.name, []).append(n.value)
    loops = {getattr(n, x, None) for n in ir.walk(k.body) for x in ("edge", "var")}
    while isinstance(point, ir.Var) and len(given.get(point.name, ())) == 1:
        if point.name in loops:  # it goes on from there
            return False
        point = given[point.name][0]
    listed = e.names.stores[s.slot].kind == "collection"
    if isinstance(point, ir.Load):
        row = point.place.row
        its = listed and (point.place.slot, point.place.column) == (s.slot, "item")
        return its and isinstance(row, ir.Var) and row.name == item
    entry = listed and kind == Handle(s.slot)
    return not entry and isinstance(point, ir.Var) and point.name == item


def _sweeps(e: Emission, s: ir.Foreach, spread: Spread) -> list[str]:
    """Whether the items are points, and what their packed rows add up is all: see sweep.h."""
    loop, k = spread.loop, e.kernels[s.kernel]
    item, row = k.params[0][0], ""
    if isinstance(loop, ir.ForEdges) and isinstance(loop.point, ir.Var):
        g = e.names.graphs[loop.graph]
        begins = loop.start is None and not g.loose and dict(g.tables)["points"] == s.slot
        given = any(isinstance(n, ir.Assign) and n.name == item for n in ir.walk(k.body))
        if begins and loop.point.name == item and not given:
            row = f"row_begin(a.{e.names.prefix[loop.graph]}_{loop.direction}_offset, i)"
    sums = spread.pure and spread.whole and s.balance == "auto" and k.where is None
    if not (row and sums):
        return ["    static constexpr bool SWEEPS = false, REPLAYS = true;"]
    e.sweeps.add(s.kernel)
    fails = any(isinstance(n, ir.Reserve | ir.LocalAdd) for n in e.step_nodes(s))
    replays = "true" if fails else "false"  # whether items may have to be run again, one by one
    return [
        f"    static constexpr bool SWEEPS = true, REPLAYS = {replays};",
        f"    MORPH_FN i64 begin(const Args& a, i64 i) const {{ return {row}; }}",
    ]


def _entries(e: Emission, s: ir.Foreach, spread: Spread) -> str:
    """How many entries item ``i`` has, as far as that is known before it runs."""
    loop = spread.loop
    if isinstance(loop, ir.ForRows):
        return " - ".join(reversed(e.names.extent(loop.slot)))
    listed = e.names.stores[s.slot].kind == "collection"
    of_list = f"max_of({e.names.column(s.slot, 'item')}.get(i), 0)"  # it may be None
    item = of_list if listed else "i"
    known = _is_item(e, s, loop.point)
    return f"degree({_offset(e, loop)}, {item})" if known else "0"


def _offset(e: Emission, loop: ir.ForEdges) -> str:
    return f"a.{e.names.prefix[loop.graph]}_{loop.direction}_offset"


def _values(f: ir.Func) -> list[Any]:
    return [(n, t) for n, t in f.params if not isinstance(t, Object)]
