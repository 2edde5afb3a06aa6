"""Functions of the IR as C++: names, types, expressions and statements.

The text reads like the user's function.  What a name stands for differs by where it is used (a local, a
value that lives from gather to commit, a program's variable), so each body has its own table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence

from morph.lang import ir
from morph.lang.abi import CTYPE, cname
from morph.lang.types import (
    Handle, Local, Nothing, Object, Rows, Scalar, Store, Struct, Tuple, Type, Vector, Weak,
)  # fmt: skip

KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class
    compl const const_cast constexpr continue decltype default delete do double dynamic_cast else enum
    explicit export extern false float for friend goto if inline int long mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq a it Args Item Run run prepare settle end_item position row failed
    reserved key priority launch COOPERATIVE SETTLES block step thread threads replay
    master sense round looked took blockIdx blockDim threadIdx gridDim warpSize""".split()
)
BUILTINS = {
    "abs": "abs_of", "min": "min_of", "max": "max_of", "sqrt": "sqrt_of", "floor": "floor_of",
    "ceil": "ceil_of", "exp": "exp_of", "log": "log_of", "popcount": "popcount_of",
}  # fmt: skip
OPERATORS = {"//": "floor_div", "%": "floor_mod", "<<": "shift_left", ">>": "shift_right"}
CALL = re.compile(r"\b([A-Za-z_]\w*)[(<]|\b(?:struct|constexpr \w+|define) (\w+)|, ([A-Z]+) =")


class Names:
    """The C++ spelling of everything that the functions of one unit name."""

    def __init__(self, unit: ir.Unit, prelude: str, changed: frozenset[tuple[str, str]]) -> None:
        self.unit, self.changed = unit, changed
        self.stores: dict[str, Store] = {s.slot: s for s in unit.stores}
        self.graphs = {g.slot: g for g in unit.graphs}
        self.index = {s.slot: i for i, s in enumerate(unit.stores)}
        taken = {word for found in CALL.findall(prelude) for word in found if len(word) > 1}
        self.reserved = KEYWORDS | taken
        self.funcs = {f.name: self.spell(f.name) for f in unit.funcs}
        self.reserved |= set(self.funcs.values())
        self.scalars = {n for n, _ in unit.scalars}
        self.structs: dict[str, str] = {}  # name -> definition, in the order of use
        self.snapshot = False  # loops begin and end as of the last barrier
        self.apart: frozenset[str] = frozenset()  # stores that hand out consecutive rows
        self.grows: frozenset[str] = frozenset()  # functions that add to a local collection

    def spell(self, name: str) -> str:
        """A user's name, out of the way of C++ and the prelude."""
        return f"{name}_" if name in self.reserved or name.endswith("_") else name

    def type(self, t: Type) -> str:
        """The C++ type."""
        match t:
            case Scalar():
                return CTYPE[t.name]
            case Handle():
                return "i32"
            case Weak():
                return "i64" if t.kind == "i" else "f64"
            case Vector():
                return f"Vec<{self.type(t.elem)}, {t.size}>"
            case Local():
                return f"Local<{self.type(t.elem)}, {t.capacity * self.unit.local_scale}>"
            case Rows():
                return "Rows"
            case Struct():
                return self._struct(self.spell(t.name), [(self.spell(n), f) for n, f in t.fields])
            case Tuple():
                parts = [(f"_{i}", x) for i, x in enumerate(t.items)]
                name = "_".join(re.sub(r"\W+", "_", self.type(x)).strip("_") for x in t.items)
                return self._struct(f"Tuple_{name}", parts)
            case Nothing():
                return "void"
        raise AssertionError(f"{t} is no value")

    def _struct(self, name: str, parts: Sequence[tuple[str, Type]]) -> str:
        members = " ".join(f"{self.type(t)} {n};" for n, t in parts)
        unique, k = name, 1
        while self.structs.setdefault(unique, members) != members:
            k += 1
            unique = f"{name}_{k}"
        return unique

    def field(self, t: Type, index: int) -> str:
        """The member that holds part ``index`` of a struct or tuple."""
        return self.spell(t.fields[index][0]) if isinstance(t, Struct) else f"_{index}"

    def column(self, slot: str, column: str) -> str:
        """The argument that is a column."""
        return f"a.{cname(slot)}_{column}"

    def extent(self, slot: str) -> tuple[str, str]:
        """Where the rows or items of a store begin and end, as of the last barrier."""
        meta = f"a.{cname(slot)}_meta"
        first, last = ("FROM", "TO") if self.snapshot else ("HEAD", "COUNT")
        begin = f"load({meta} + {first})" if self.stores[slot].kind == "collection" else "0"
        return begin, f"load({meta} + {last})"

    def edge(self, graph: str, direction: str, k: str) -> str:
        """The id of the edge at entry ``k``."""
        if direction == "out" and self.graphs[graph].out_identity:
            return f"edge_at({k})"
        return f"edge_at(a.{cname(graph)}_{direction}_edge, {k})"

    def end(self, graph: str, direction: str) -> str:
        """The column that holds the other end of an edge."""
        edges = dict(self.graphs[graph].tables)["edges"]
        return self.column(edges, "dst" if direction == "out" else "src")

    def plain(self, slot: str) -> bool:
        """Whether an item of the store is the ``item`` of a collection, not its own row."""
        s = self.stores[slot]
        return s.kind == "collection" and [c.name for c in s.columns] == ["item"]


class Body:
    """The text of one function body."""

    def __init__(
        self, names: Names, resolve: Callable[[str], str], flag: Callable[[str], str], launch: str,
        types: dict[str, Type], gives: str = "",
    ) -> None:  # fmt: skip
        self.names, self.resolve, self.flag, self.launch = names, resolve, flag, launch
        self.types = types
        self.gives = gives  # what a bare return gives back
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.at: tuple[str, int] | None = None  # the user's line that the next line stands for

    # --- text ------------------------------------------------------------------------------------

    def put(self, line: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.depth + line)
        if self.at:
            self.at = self.at[0], self.at[1] + 1

    def place(self, pos: ir.Pos) -> None:
        """Let the next line stand for the user's line."""
        if self.at != (pos.file, pos.line):
            self.lines.append(f"#line {pos.line} {json.dumps(pos.file)}")
            self.at = pos.file, pos.line

    def temp(self, stem: str) -> str:
        """A name that no user's name can be."""
        self.count += 1
        return f"{stem}{self.count}_"

    def block(self, head: str, body: ir.Body) -> None:
        """A compound statement."""
        self.put(head + " {")
        self.depth += 1
        self.body(body)
        self.depth -= 1
        self.put("}")

    def body(self, body: ir.Body) -> None:
        """Statements, one after another."""
        for s in body:
            self.stmt(s)

    # --- expressions -----------------------------------------------------------------------------

    def sub(self, e: ir.Expr) -> str:
        """An operand."""
        text = self.expr(e)
        compound = isinstance(e, ir.Binary | ir.Compare | ir.Logic | ir.Select | ir.Unary)
        return f"({text})" if compound and not re.fullmatch(r"\w+\(.*\)", text) else text

    def args(self, args: Iterable[ir.Expr]) -> str:
        """Arguments, objects left out."""
        return "".join(f", {self.expr(x)}" for x in args if not isinstance(x.type, Object))

    def number(self, text: str, t: Type, native: str) -> str:
        """A count, in the type that the expression has."""
        want = self.names.type(t)
        return text if want == native else f"{want}({text})"

    def place_args(self, p: ir.Place) -> str:
        """Row and index."""
        return self.expr(p.row) + (f", {self.expr(p.index)}" if p.index is not None else "")

    def load(self, p: ir.Place) -> str:
        """The value at a place."""
        column = self.names.column(p.slot, p.column)
        if isinstance(p.type, Vector) and p.index is None:
            return f"{column}.vec<{p.type.size}>({self.expr(p.row)})"
        return f"{column}.get({self.place_args(p)})"

    def address(self, p: ir.Place) -> str:
        """The address of a place."""
        return f"{self.names.column(p.slot, p.column)}.at({self.place_args(p)})"

    def expr(self, e: ir.Expr) -> str:
        """An expression; whoever nests it adds parentheses."""
        n = self.names
        match e:
            case ir.Const():
                return constant(e)
            case ir.Var():
                return self.resolve(e.name)
            case ir.Unary():
                return self._unary(e)
            case ir.Binary():
                return self._binary(e)
            case ir.Compare():
                return f"{self.sub(e.x)} {e.op} {self.sub(e.y)}"
            case ir.Logic():
                return f"{self.sub(e.x)} {'&&' if e.op == 'and' else '||'} {self.sub(e.y)}"
            case ir.Select():
                return f"{self.sub(e.cond)} ? {self.sub(e.x)} : {self.sub(e.y)}"
            case ir.Cast():
                return f"{n.type(e.type)}({self.expr(e.x)})"
            case ir.Call():
                return f"{n.funcs[e.func]}(a, it{self.args(e.args)})"
            case ir.Builtin():
                call = f"{BUILTINS.get(e.name, e.name)}({self.args(e.args)[2:]})"
                given = "i32" if e.name in ("popcount", "orient2d", "incircle") else n.type(e.args[0].type)
                return self.number(call, e.type, given)
            case ir.Load():
                return self.load(e.place)
            case ir.Dead():
                if not n.stores[e.slot].deletes:
                    return "false"
                return f"is_dead(a.{cname(e.slot)}_dead, {self.expr(e.row)})"
            case ir.Make():
                parts = ", ".join(self.expr(x) for x in e.parts)
                return n.type(e.type) + ("{{%s}}" if isinstance(e.type, Vector) else "{%s}") % parts
            case ir.Item():
                return f"{self.sub(e.x)}[{self.expr(e.index)}]"
            case ir.Field():
                return f"{self.sub(e.x)}.{n.field(e.x.type, e.index)}"
            case ir.LocalSize():
                size = str(e.x.type.size) if isinstance(e.x.type, Vector) else f"{self.sub(e.x)}.n"
                return self.number(size, e.type, "i32")
            case ir.Contains():
                return f"contains({self.expr(e.x)}, {self.expr(e.value)})"
            case ir.StoreSize():
                begin, end = n.extent(e.slot)
                return self.number(f"({end} - {begin})" if begin != "0" else end, e.type, "i64")
            case ir.Degree():
                return self.number(self._degree(e), e.type, "i32")
            case ir.FindEdge():
                g = cname(e.graph)
                ids = "nullptr" if n.graphs[e.graph].out_identity else f"a.{g}_out_edge"
                where = f"a.{g}_out_offset, {ids}, {n.end(e.graph, 'out')}"
                return f"find_edge({where}{self.args((e.x, e.y))})"
            case ir.FlagGet():
                return f"load({self.flag(e.slot)}) != 0"
        return self._effect(e)

    def _unary(self, e: ir.Unary) -> str:
        x = self.sub(e.x)
        x = f"({x})" if x.startswith("-") else x
        bits = e.type.bits if isinstance(e.type, Scalar) else 64
        if e.op == "not" or (e.op == "~" and bits == 8 and self.names.type(e.type) == "bool"):
            return f"!{x}"
        return f"{self.names.type(e.type)}({e.op}{x})" if bits < 32 else f"{e.op}{x}"

    def _binary(self, e: ir.Binary) -> str:
        if e.op in OPERATORS:
            return f"{OPERATORS[e.op]}({self.expr(e.x)}, {self.expr(e.y)})"
        text = f"{self.sub(e.x)} {e.op} {self.sub(e.y)}"
        narrow = isinstance(e.type, Scalar) and e.type.bits < 32  # C++ computes in int or f32
        return f"{self.names.type(e.type)}({text})" if narrow else text

    def _degree(self, e: ir.Degree) -> str:
        directions = ("out", "in") if e.direction == "all" else (e.direction,)
        point = self.expr(e.point)
        return " + ".join(f"degree(a.{cname(e.graph)}_{d}_offset, {point})" for d in directions)

    def _effect(self, e: ir.Expr) -> str:
        match e:
            case ir.Atomic():
                flag = f", {self.flag(e.flag)}" if e.flag else ""
                return f"atomic_{e.op}({self.address(e.place)}{self.args(e.args)}{flag})"
            case ir.Delete():
                s = f"a.{cname(e.slot)}"
                return f"delete_row({s}_meta, {s}_free, {s}_dead, {self.expr(e.row)})"
            case ir.SetFind():
                return f"set_find(a.{cname(e.slot)}_parent, {self.expr(e.x)})"
            case ir.SetUnion():
                return f"set_union(a.{cname(e.slot)}_parent{self.args((e.x, e.y))})"
            case ir.Lock():
                return f"lock_row(a.{cname(e.slot)}_lock, {self.expr(e.row)}, {self.launch})"
            case ir.LockPlace():
                return f"lock_place({self.address(e.place)})"
            case ir.FlagSet():
                flag = self.flag(e.slot)
                return f"raise_flag({flag})" if e.value else f"store({flag}, 0)"
            case ir.LocalAdd():
                return f"{self.resolve(e.name)}.add({self.expr(e.value)}, it, a.status)"
            case ir.LocalPop():
                return f"{self.resolve(e.name)}.pop()"
            case ir.LocalClear():
                return f"{self.resolve(e.name)}.n = 0"
        raise AssertionError(f"{type(e).__name__} stands where it cannot")

    # --- statements ------------------------------------------------------------------------------

    def stmt(self, s: ir.Stmt) -> None:
        """One statement."""
        self.place(s.pos)
        match s:
            case ir.Assign():
                self._value(self.resolve(s.name), s.value)
            case ir.Eval():
                self._value("", s.value)
            case ir.SetItem():
                self.put(f"{self.resolve(s.name)}[{self.expr(s.index)}] = {self.expr(s.value)};")
            case ir.SetField():
                part = self.names.field(self.types[s.name], s.index)
                self.put(f"{self.resolve(s.name)}.{part} = {self.expr(s.value)};")
            case ir.Write():
                column = self.names.column(s.place.slot, s.place.column)
                self.put(f"{column}.set({self.place_args(s.place)}, {self.expr(s.value)});")
            case ir.If():
                self._if(s)
            case ir.While():
                self.block(f"while ({self._alive(s.body, s.cond)}{self._cond(s.body, s.cond)})", s.body)
            case ir.ForRange() | ir.ForEdges() | ir.ForRows() | ir.ForItems():
                self._for(s)
            case ir.Break():
                self.put("break;")
            case ir.Continue():
                self.put("continue;")
            case ir.Return():
                value = f" {self.expr(s.value)}" if s.value is not None else self.gives
                self.put(f"return{value};")
            case ir.Reserve():
                self._reserve(s)
            case ir.Claim():
                if s.priority is not None:
                    self.put(f"it.priority = clamp_priority({self.expr(s.priority)});")
                self.put("return true;")
            case _:
                raise AssertionError(f"no such statement: {type(s).__name__}")

    def _if(self, s: ir.If) -> None:
        self.put(f"if ({self.expr(s.cond)}) {{")
        self.depth += 1
        self.body(s.then)
        self.depth -= 1
        if s.orelse:
            self.put("} else {")
            self.depth += 1
            self.body(s.orelse)
            self.depth -= 1
        self.put("}")

    def _cond(self, body: ir.Body, cond: ir.Expr) -> str:
        return self.sub(cond) if self._alive(body, cond) else self.expr(cond)

    def _alive(self, body: ir.Body, *more: ir.Expr) -> str:
        """A loop that adds to a local collection ends when that was full."""
        return "!it.failed && " if adds(body, self.names.grows) or adds(more, self.names.grows) else ""

    def _value(self, target: str, e: ir.Expr) -> None:
        give = f"{target} = " if target else ""
        match e:
            case ir.MakeLocal():
                self.put(f"{target}.n = 0;")
            case ir.New() | ir.Add():
                self._new(target, e)
            case ir.NewRows():
                self._new_rows(target, e)
            case ir.Take():
                k, s = self.temp("k"), f"a.{cname(e.slot)}"
                end = "TO" if self.names.snapshot else "COUNT"
                item = f"{k} < 0 ? -1 : {s}_item.get({k})" if self.names.plain(e.slot) else f"i32({k})"
                self.put(f"i64 {k} = take({s}_meta, {end});")
                if target:
                    self.put(f"{give}{item};")
            case _:
                self.put(f"{give}{self.expr(e)};")

    def _new(self, target: str, e: ir.New | ir.Add) -> None:
        n, s = self.names, f"a.{cname(e.slot)}"
        store, room = n.stores[e.slot], f"it.{cname(e.slot)}_room"
        given = {name: self.expr(x) for name, x in e.values}
        row = self.temp("r")
        if isinstance(e, ir.New) and store.deletes and e.slot not in n.apart:
            self.put(f"i32 {row} = new_row({s}_meta, {s}_free, {room});")
        else:
            self.put(f"i32 {row} = i32(add_slots({s}_meta, 1, {room}));")
        for name, text in given.items():
            self.put(f"{s}_{name}.set({row}, {text});")
        if isinstance(e, ir.New):
            self._fill(store, row, set(given))
        if target:
            self.put(f"{target} = {row};")

    def _fill(self, store: Store, row: str, given: set[str]) -> None:
        s, offset = f"a.{cname(store.slot)}", 0
        for c in store.columns:
            offset = -(-offset // 8) * 8
            if c.name not in given:
                self.put(f"{s}_{c.name}.fill<{max(c.size, 1)}>({row}, {s}_fill + {offset});")
            offset += max(c.size, 1) * c.dtype.bits // 8
        if store.deletes:
            self.put(f"store({s}_dead + {row}, 0);")

    def _new_rows(self, target: str, e: ir.NewRows) -> None:
        s, store = f"a.{cname(e.slot)}", self.names.stores[e.slot]
        rows, row = self.temp("rows"), self.temp("r")
        self.put(f"Rows {rows} = {{0, i32({self.expr(e.count)})}};")
        self.put(f"{rows}.first = i32(add_slots({s}_meta, {rows}.n, it.{cname(e.slot)}_room));")
        self.put(f"for (i32 {row} = {rows}.first; {row} < {rows}.first + {rows}.n; {row}++) {{")
        self.depth += 1
        self._fill(store, row, set())
        self.depth -= 1
        self.put("}")
        if target:
            self.put(f"{target} = {rows};")

    def _reserve(self, s: ir.Reserve) -> None:
        stores = [n.slot for n in s.needs if not n.local]
        blame = self.names.index[stores[0]] if stores else -2
        self.put(f"if (!may_reserve(a.status, it, {blame})) return{self.gives};")
        for need in s.needs:
            count = self.expr(need.count)
            if need.local:
                test = f"{self.resolve(need.slot)}.fits({count}, it)"
            else:
                meta, k = f"a.{cname(need.slot)}_meta", self.names.index[need.slot]
                apart = ""
                if need.slot in self.names.apart and self.names.stores[need.slot].deletes:
                    apart = f", reusable({meta})"
                test = f"reserve({meta}, {count}, it, it.{cname(need.slot)}_room, {k}{apart})"
            self.put(f"if (!{test}) return{self.gives};")

    # --- loops -----------------------------------------------------------------------------------

    def _for(self, s: ir.ForRange | ir.ForEdges | ir.ForRows | ir.ForItems) -> None:
        match s:
            case ir.ForRange():
                self._for_range(s)
            case ir.ForEdges():
                self._for_edges(s)
            case ir.ForRows():
                first, last = self.names.extent(s.slot)
                k = self._counted(s, first, last)
                if self.names.stores[s.slot].deletes:
                    self.put(f"if (is_dead(a.{cname(s.slot)}_dead, {k})) continue;")
                plain = self.names.plain(s.slot)
                item = f"{self.names.column(s.slot, 'item')}.get({k})" if plain else f"i32({k})"
                self._bound(s.body, [(s.var, item)])
            case ir.ForItems():
                x = self.expr(s.x)
                if not isinstance(s.x, ir.Var):
                    whole, x = x, self.temp("x")
                    self.put(f"const auto {x} = {whole};")
                size = str(s.x.type.size) if isinstance(s.x.type, Vector) else f"{x}.n"
                k = self._counted(s, "0", size, live=isinstance(s.x.type, Local))
                self._bound(s.body, [(s.var, f"{x}[{k}]")])

    def _bound(self, body: ir.Body, names: list[tuple[str | None, str]]) -> None:
        """The inside of a loop whose head is open, its variables first."""
        for name, value in names:
            if name is not None:
                self.put(f"{self.resolve(name)} = {value};")
        self.body(body)
        self.depth -= 1
        self.put("}")

    def _counted(
        self, s: ir.ForRows | ir.ForEdges | ir.ForItems, first: str, last: str, live: bool = False
    ) -> str:
        """Open a loop over entries from ``start``, or back from the last; its counter."""
        k, end, alive = self.temp("k"), self.temp("e"), self._alive(s.body)
        start = f"max_of(i64({self.expr(s.start)}), i64(0))" if s.start is not None else ""
        if s.reverse:
            back = f" - {start}" if start else ""
            self.put(f"for (i64 {k} = {last} - 1{back}, {end} = {first}; {alive}{k} >= {end}; {k}--) {{")
        else:
            begin = f"{first} + {start}" if start and first != "0" else start or first
            if live or last.isdigit():
                self.put(f"for (i64 {k} = {begin}; {alive}{k} < {last}; {k}++) {{")
            else:
                self.put(f"for (i64 {k} = {begin}, {end} = {last}; {alive}{k} < {end}; {k}++) {{")
        self.depth += 1
        return k

    def _for_range(self, s: ir.ForRange) -> None:
        k, end, var = self.temp("k"), self.temp("e"), self.resolve(s.var)
        t, more = self.names.type(s.start.type), "<" if s.step > 0 else ">"
        alive, step = self._alive(s.body), f"{k} += {s.step}" if s.step != 1 else f"{k}++"
        begin, stop = self.expr(s.start), self.expr(s.stop)
        self.put(f"for ({t} {k} = {begin}, {end} = {stop}; {alive}{k} {more} {end}; {step}) {{")
        self.depth += 1
        self._bound(s.body, [(s.var, k)] if var else [])

    def _for_edges(self, s: ir.ForEdges) -> None:
        n, g = self.names, f"a.{cname(s.graph)}"
        skip = ""
        if s.skip is not None:
            skip = self.temp("skip")
            self.put(f"const i32 {skip} = {self.expr(s.skip)};")
        edge, point = self.resolve(s.edge), self.expr(s.point)
        if s.direction == "all":
            both = self.temp("both")
            self.put(f"const Both {both}({g}_out_offset, {g}_in_offset, {point});")
            k = self._counted(s, "0", f"{both}.n")
            out, entry = f"{both}.is_out({k})", f"{both}.entry({k})"
            out_id, in_id = n.edge(s.graph, "out", entry), n.edge(s.graph, "in", entry)
            self.put(f"{edge} = {out} ? {out_id} : {in_id};")
            ends = [f"{n.end(s.graph, d)}.get({edge})" for d in ("out", "in")]
            end = f"{out} ? {ends[0]} : {ends[1]}"
        else:
            d = s.direction
            if not isinstance(s.point, ir.Var | ir.Const):
                whole, point = point, self.temp("p")
                self.put(f"const i32 {point} = {whole};")
            offset = f"{g}_{d}_offset, {point}"
            k = self._counted(s, f"row_begin({offset})", f"row_end({offset})")
            self.put(f"{edge} = {n.edge(s.graph, d, k)};")
            end = f"{n.end(s.graph, d)}.get({edge})"
        if skip:
            self.put(f"if ({edge} == {skip}) continue;")
        self._bound(s.body, [(s.var, end)])


def adds(node: object, grows: frozenset[str] = frozenset()) -> bool:
    """Whether anything below adds to a local collection, itself or in a function of ``grows``."""
    return any(
        isinstance(n, ir.LocalAdd) or (isinstance(n, ir.Call) and n.func in grows) for n in ir.walk(node)
    )


def constant(e: ir.Const) -> str:
    """A literal of exactly its type."""
    t, v = e.type, e.value
    if isinstance(t, Scalar | Weak) and t.kind == "f":
        name = CTYPE[t.name] if isinstance(t, Scalar) else "f64"
        v = float(v)
        text = "not_a_number()" if v != v else repr(v)
        if text in ("inf", "-inf"):
            text = text.replace("inf", "infinity()")
        return text if name == "f64" else f"{name}({text})"
    if isinstance(t, Scalar) and t.kind == "b":
        return "true" if v else "false"
    v = int(v)
    name = CTYPE[t.name] if isinstance(t, Scalar) else "i64" if isinstance(t, Weak) else "i32"
    text = "(-9223372036854775807ll - 1)" if v == -(2**63) else str(v)
    if not -(2**31) < v < 2**31 and v != -(2**63):
        text += "ull" if v >= 2**63 else "ll"
    return text if name == "i32" and abs(v) < 2**31 else f"{name}({text})"
