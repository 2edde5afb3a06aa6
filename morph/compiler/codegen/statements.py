"""Statements of the IR as C++, each after a ``#line`` directive with the user's line."""

from __future__ import annotations

import json
import re

from morph.compiler.codegen.expressions import Expressions, Scope, ends_before
from morph.compiler.codegen.names import TEMPORARY, Names, constant
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.abi import CTYPE, parts_of
from morph.compiler.passes.group_execution import THREAD_BYTES, array_bytes
from morph.compiler.passes.grouping import Allocations, Make, Reads, Writes, column_of, extent
from morph.compiler.passes.plan import BodyPlan, Plan
from morph.language.types import I64, Column, Handle, Local, Shared, Store, Vector

# of i64(min_of(i32(p), i32(p))) g++ reads the declaration of a function with two parameters `p`
_DECLARES = re.compile(r"[iuf]\d+\(\w+\(([iuf]\d+\(\w+\)), \1\)\)")


def _condition(text: str) -> str:
    """Return a condition, in parentheses if it may be read as a declaration."""
    return f"({text})" if _DECLARES.match(text) else text


class Body(Expressions):
    """The text of one function body."""

    def __init__(self, names: Names, scope: Scope, body: BodyPlan) -> None:
        super().__init__(names, scope, body)
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.at: tuple[str, int] | None = None  # the user's line of the next line

    def put(self, line: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.depth + line)
        if self.at:
            self.at = self.at[0], self.at[1] + 1

    def place(self, pos: ir.Pos) -> None:
        """Set the user's line of the next line."""
        if self.at != (pos.file, pos.line):
            self.lines.append(f"#line {pos.line} {json.dumps(pos.file)}")
            self.at = pos.file, pos.line

    def temp(self, stem: str) -> str:
        """A name that differs from all users' names."""
        self.count += 1
        assert TEMPORARY.fullmatch(f"{stem}{self.count}_"), stem
        return f"{stem}{self.count}_"

    def array(self, name: str, t: Shared) -> str:
        """The declaration of a shared array."""
        place = "" if array_bytes(self.types.values()) <= THREAD_BYTES else "MORPH_ARRAY "
        return f"{place}{self.names.type(t)} {self.resolve(name)};"

    def _clear(self, array: str) -> None:
        self.put(f"{array}.clear();")

    def block(self, head: str, body: ir.Body) -> None:
        """A compound statement."""
        self.put(head + " {")
        self.depth += 1
        self.body(body)
        self.depth -= 1
        self.put("}")

    def body(self, body: ir.Body) -> None:
        """Statements in order; those of a group become one access."""
        for group in self.body_plan.groups[id(body)]:
            match group:
                case Reads(reads):
                    self._read(reads)
                case Writes(writes):
                    self._write(writes)
                case Allocations(makes):
                    self._allocate(makes)
                case s:
                    self.stmt(s)
                    if any(self._grows(x) for x in heads(s)):
                        self._return_if_failed()

    def _return_if_failed(self) -> None:
        """End the item if a local collection was full, as its data are incomplete."""
        self.put(f"if (it.failed) return{self.default};")

    def _column(self, p: ir.Place) -> Column:
        return column_of(p, self.names.stores)

    def _read(self, reads: list[tuple[str, ir.Place]]) -> None:
        places = [p for _, p in reads]
        slot, row, columns = places[0].slot, places[0].row, [self._column(p) for p in places]
        extents = [extent(p, self.names.stores) for p in places]
        low, high = min(e[0] for e in extents), max(e[1] for e in extents)
        names = {(slot, c.name) for c in columns}
        mode = "STABLE" if names & self.plan.changed else "FIXED"
        mode = "LIVE" if names & self.body_plan.unstable else mode
        span, first = self.temp("w"), self.names.column(slot, columns[0].name)
        self.place(places[0].pos)
        kind = f"Span<{mode}, {columns[0].stride}, {low}, {high}>"
        self.put(f"const {kind} {span}({first}.record({self.expr(row)}));")
        for (name, _), c in zip(reads, columns, strict=True):
            t = CTYPE[c.dtype.name]
            part = f"vec<{t}, {c.size}, {c.offset}>()" if c.size else f"get<{t}, {c.offset}>()"
            self.put(f"{self.resolve(name)} = {span}.{part};")

    def _write(self, writes: list[ir.Write]) -> None:
        extents = [extent(s.place, self.names.stores) for s in writes]
        pack, p = self.temp("w"), writes[0].place
        self.place(writes[0].pos)
        low, high = min(e[0] for e in extents), max(e[1] for e in extents)
        self.put(f"Pack<{self._column(p).stride}, {low}, {high}> {pack};")
        for s in writes:
            self.place(s.pos)
            c = self._column(s.place)
            value = self.expr(s.value)
            if not c.size:
                value = f"{CTYPE[c.dtype.name]}({value})"
            self.put(f"{pack}.put<{c.offset}>({value});")
        self.put(f"{pack}.write({self.names.column(p.slot, p.column)}.record({self.expr(p.row)}));")

    def _allocate(self, makes: list[tuple[str, Make]]) -> None:
        """Request rows of every store before the first result is used: the requests overlap."""
        requested = []
        for name, e in makes:
            slots, count = self.temp("s"), "1"
            self.place(e.pos)
            if isinstance(e, ir.NewRows):
                count = self.temp("n")
                number = self.expr(e.count)
                if not (isinstance(e.count, ir.Const) and int(e.count.value) >= 0):
                    number = f"max_of(i64({number}), i64(0))"
                self.put(f"const i32 {count} = i32({number});")
            meta, reservation = (
                f"{self.names.base(e.slot)}_meta",
                f"it.{self.names.prefix[e.slot]}_reservation",
            )
            kind, given = "Slots", f"{meta}, {count}, {reservation}"
            if self._adds_asynchronously(e):
                kind, given = "Place", f"it.asynchronous, {meta}, {reservation}"
            self.put(f"const {kind} {slots}({given});")
            requested.append((name, e, slots, count))
        for name, e, slots, count in requested:
            target = self.resolve(name) if name else ""
            if isinstance(e, ir.NewRows):
                self._new_rows(target, e, slots, count)
            else:
                self._new(target, e, f"{slots}.first()", f"{slots}.asynchronous")

    def _adds_asynchronously(self, e: ir.Expr) -> bool:
        """Whether an item that is added may be executed in the same step."""
        lists = self.body_plan.asynchronous
        return lists is not None and isinstance(e, ir.Add) and e.slot == lists[0]

    def stmt(self, s: ir.Stmt) -> None:
        """One statement, by the method of its class."""
        self.place(s.pos)
        getattr(self, f"_stmt_{type(s).__name__.lower()}")(s)

    def _stmt_assign(self, s: ir.Assign) -> None:
        self._value(self.resolve(s.name), s.value)

    def _stmt_eval(self, s: ir.Eval) -> None:
        if isinstance(s.value, ir.LocalAdd):
            self.put(f"if (!{self.expr(s.value)}) return{self.default};")
        else:
            self._value("", s.value)

    def _stmt_setitem(self, s: ir.SetItem) -> None:
        self.put(f"{self.resolve(s.name)}[{self.expr(s.index)}] = {self.expr(s.value)};")

    def _stmt_setfield(self, s: ir.SetField) -> None:
        part = self.names.field(self.types[s.name], s.index)
        self.put(f"{self.resolve(s.name)}.{part} = {self.expr(s.value)};")

    def _stmt_write(self, s: ir.Write) -> None:
        column = self.names.column(s.place.slot, s.place.column)
        self.put(f"{column}.set({self.place_args(s.place)}, {self.expr(s.value)});")

    def _stmt_mark(self, s: ir.Mark) -> None:
        layout = parts_of(self.plan.unit)
        assert layout is not None
        self.put(f"mark_row(a, {layout.marks[s.slot, s.column]}, {self.expr(s.row)});")

    def _stmt_while(self, s: ir.While) -> None:
        cond = _condition(self.expr(s.cond))
        alive = f"({cond}) && !it.failed" if self._grows(s.cond) else cond
        self.block(f"while ({alive})", s.body)

    def _stmt_break(self, s: ir.Break) -> None:
        self.put("break;")

    def _stmt_continue(self, s: ir.Continue) -> None:
        self.put("continue;")

    def _stmt_return(self, s: ir.Return) -> None:
        value = f" {self.expr(s.value)}" if s.value is not None else self.default
        self.put(f"return{value};")

    def _stmt_claim(self, s: ir.Claim) -> None:
        if s.priority is not None:
            self.put(f"it.priority = clamp_priority({self.expr(s.priority)});")
        self.put("return true;")

    def _without_result(self, e: ir.Atomic) -> str:
        """The function for an atomic without a return value; empty for an ordinary atomic."""
        if e.op != "add":
            monotone = (e.place.slot, e.place.column) in self.body_plan.monotone
            return f"update_monotone({e.op.capitalize()}(), " if monotone else ""
        total = self.body_plan.total_functions.get(id(e))
        return f"{total}(" if total else "add_to("

    def _stmt_if(self, s: ir.If) -> None:
        cond = self.expr(s.cond)
        if self._grows(s.cond):
            cond, whole = self.temp("c"), cond
            self.put(f"const bool {cond} = {whole};")
            self._return_if_failed()
        self.put(f"if ({_condition(cond)}) {{")
        self.depth += 1
        self.body(s.then)
        self.depth -= 1
        if s.orelse:
            self.put("} else {")
            self.depth += 1
            self.body(s.orelse)
            self.depth -= 1
        self.put("}")

    def _grows(self, node: object) -> bool:
        return grows(node, self.plan)

    def _value(self, target: str, e: ir.Expr) -> None:
        assign = f"{target} = " if target else ""
        match e:
            case ir.MakeShared():
                self._clear(target)
            case ir.MakeLocal():
                self.put(f"{target}.n = 0;")
            case ir.New():  # `_allocate` prints the others
                s, reservation = (
                    self.names.base(e.slot),
                    f"it.{self.names.prefix[e.slot]}_reservation",
                )
                self._new(target, e, f"new_row({s}_meta, {s}_free, {reservation})")
            case ir.Take():
                k, s = self.temp("k"), self.names.base(e.slot)
                end = "TO" if self.plan.snapshot else "COUNT"
                has_rows = self.names.lists_rows(e.slot)
                item = f"{k} < 0 ? -1 : {s}_item.get({k})" if has_rows else f"i32({k})"
                self.put(f"i64 {k} = take({s}_meta, {end});")
                if target:
                    self.put(f"{assign}{item};")
            case ir.Atomic(flag=None) if not target and (how := self._without_result(e)):
                self.put(f"{how}{self.address(e.place)}{self.args(e.args)});")
            case _:
                self.put(f"{assign}{self.expr(e)};")

    def _new(self, target: str, e: ir.New | ir.Add, made: str, queued: str = "") -> None:
        n = self.names
        store, row = n.stores[e.slot], self.temp("r")
        given = {name: self.expr(x) for name, x in e.values}
        self.put(f"i32 {row} = {made};")
        for name, text in given.items():
            write = f"{n.column(store.slot, name)}.set({row}, {text});"
            if (lists := self.body_plan.asynchronous) and self._adds_asynchronously(e):
                # An `if`, as an expression that chooses a column takes the addresses of both, which
                # keeps them out of registers.
                write = f"if ({queued}) {n.column(lists[1], name)}.set({row}, {text}); else {write}"
            self.put(write)
        if isinstance(e, ir.New):
            self._fill(store, row, set(given))
        if store.slot in self.plan.queues:
            self.put(f"publish_item(a, it, {n.base(store.slot)}_meta, {row});")
        if target:
            self.put(f"{target} = {row};")
        if points := self.body_plan.prefetches.get(id(e)):
            offset = f"a.{n.prefix[points[0]]}_{points[1]}_offset"
            self.put(f"prefetch({offset} + {given['item']});")

    def _fill(self, store: Store, row: str, given: set[str]) -> None:
        s, offset = self.names.base(store.slot), 0
        for c in store.columns:
            offset = -(-offset // 8) * 8
            at = self.names.column(store.slot, c.name)
            if c.name not in given and store.kind == "collection":  # no row, or 0
                for j in range(max(c.size, 1)):
                    self.put(f"{at}.set({row}, {f'{j}, ' if c.size else ''}{-1 if c.ref else 0});")
            elif c.name not in given:
                self.put(f"{at}.fill<{max(c.size, 1)}>({row}, {s}_fill + {offset});")
            offset += max(c.size, 1) * c.dtype.bits // 8
        if store.slot in self.plan.recycled:
            self.put(f"mark_created({s}_dead, {s}_created, {row}, {self.launch});")
        elif store.deletes:
            self.put(f"store({s}_dead + {row}, 0);")

    def _new_rows(self, target: str, e: ir.NewRows, slots: str, count: str) -> None:
        store = self.names.stores[e.slot]
        rows, row = self.temp("rows"), self.temp("r")
        self.put(f"const Rows {rows} = {{{slots}.first(), {count}}};")
        given = set() if e.fill else {c.name for c in store.columns}
        if e.fill or store.slot in self.plan.recycled or store.deletes:
            self.put(f"for (i32 {row} = {rows}.first; {row} < {rows}.first + {rows}.n; {row}++) {{")
            self.depth += 1
            self._fill(store, row, given)
            self.depth -= 1
            self.put("}")
        if target:
            self.put(f"{target} = {rows};")

    def _stmt_reserve(self, s: ir.Reserve) -> None:
        stores = [n.slot for n in s.needs if not n.local]
        blame = self.names.index[stores[0]] if stores else -2
        self.put(f"if (!may_reserve(a.status, it, {blame})) return{self.default};")
        for need in s.needs:
            if need.local:
                test = f"{self.resolve(need.slot)}.fits({self.expr(need.count)}, it)"
                self.put(f"if (!{test}) return{self.default};")
        requests = [self._request(need) for need in s.needs if not need.local]
        if requests:
            self.put(f"if (!reserve(it, {', '.join(requests)})) return{self.default};")

    def _stmt_exceed(self, s: ir.Exceed) -> None:
        self.put(f"exceed(a.status, it, {ir.exceeds(self.plan.unit).index(s)});")
        self.put(f"return{self.default};")

    def _request(self, need: ir.Need) -> str:
        """The request for capacity in a store."""
        slot, meta = need.slot, f"{self.names.base(need.slot)}_meta"
        apart = ""
        if slot in self.plan.consecutive and self.names.stores[slot].deletes:
            apart = f", reusable({meta})"
        reservation = f"it.{self.names.prefix[slot]}_reservation"
        count, store = self.expr(need.count), self.names.index[slot]
        return f"Request{{{meta}, {count}, {reservation}, {store}{apart}}}"

    # --- loops -----------------------------------------------------------------------------------

    def _stmt_forrows(self, s: ir.ForRows) -> None:
        first, last = self.names.extent(s.slot)
        k = self._counted(s, first, last)
        if self.names.stores[s.slot].deletes:
            self.put(f"if (is_dead({self.names.base(s.slot)}_dead, {k})) continue;")
        has_rows = self.names.lists_rows(s.slot)
        row = self.names.type(Handle(s.slot))
        item = f"{self.names.column(s.slot, 'item')}.get({k})" if has_rows else f"{row}({k})"
        self._bound(s.body, [(s.var, item)])

    def _stmt_foritems(self, s: ir.ForItems) -> None:
        x = self.expr(s.x)
        if not isinstance(s.x, ir.Var):
            whole, x = x, self.temp("x")
            self.put(f"const auto {x} = {whole};")
        size = str(s.x.type.size) if isinstance(s.x.type, Vector) else f"{x}.n"
        k = self._counted(s, "0", size, live=isinstance(s.x.type, Local))
        self._bound(s.body, [(s.var, f"{x}[{k}]")])

    def _bound(self, body: ir.Body, names: list[tuple[str | None, str]]) -> None:
        """The body of a loop whose head is printed, after its variables."""
        for name, value in names:
            if name is not None:
                self.put(f"{self.resolve(name)} = {value};")
        self.body(body)
        self.depth -= 1
        self.put("}")

    def _counted(
        self, s: ir.ForRows | ir.ForEdges | ir.ForItems, first: str, last: str, live: bool = False
    ) -> str:
        """Open a loop over entries from ``start``, or backwards; return its counter."""
        k, end = self.temp("k"), self.temp("e")
        start = self.skipped(s.start) if s.start is not None else ""
        if s.reverse:
            back = f" - {start}" if start else ""
            self.put(f"for (i64 {k} = {last} - 1{back}, {end} = {first}; {k} >= {end}; {k}--) {{")
        else:
            begin = f"{first} + {start}" if start and first != "0" else start or first
            if live or last.isdigit():
                self.put(f"for (i64 {k} = {begin}; {k} < {last}; {k}++) {{")
            else:
                self.put(f"for (i64 {k} = {begin}, {end} = {last}; {k} < {end}; {k}++) {{")
        self.depth += 1
        return k

    def _stmt_forrange(self, s: ir.ForRange) -> None:
        k, end, var = self.temp("k"), self.temp("e"), self.resolve(s.var)
        t, more = self.names.type(s.start.type), "<" if s.step > 0 else ">"
        step = f"{k} += {s.step}" if s.step != 1 else f"{k}++"
        if not ends_before(s):
            by = constant(ir.Const(value=s.step, type=I64, pos=s.pos))
            step = f"{k} = range_next<{by}>({k})"
        begin, stop = self.expr(s.start), self.expr(s.stop)
        self.put(f"for ({t} {k} = {begin}, {end} = {stop}; {k} {more} {end}; {step}) {{")
        self.depth += 1
        self._bound(s.body, [(s.var, k)] if var else [])

    def _stmt_forbits(self, s: ir.ForBits) -> None:
        bits, (t, x) = self.temp("b"), self.bits_of(s)
        self.put(f"for ({t} {bits} = {x}; {bits}; {bits} &= {bits} - 1) {{")
        self.depth += 1
        self._bound(s.body, [(s.var, f"i64(trailing_zeros({bits}))")])

    def bits_of(self, s: ir.ForBits) -> tuple[str, str]:
        """The type and value of the unsigned word whose bits a loop iterates over."""
        t, x = self.names.type(s.x.type).replace("i", "u"), self.expr(s.x)
        wide = "u64" if t == "u64" else "u32"
        return wide, f"{t}({x})" if t == wide else f"{wide}({t}({x}))"

    def _end(self, s: ir.ForEdges, direction: str, entry: str, edge: str) -> str:
        """The other end of an edge."""
        return self.names.end(s.graph, direction, entry, edge)

    def _stmt_foredges(self, s: ir.ForEdges) -> None:
        if id(s) in self.body_plan.searches:
            self._find_first(s, self.body_plan.searches[id(s)])
            return
        n, g = self.names, f"a.{self.names.prefix[s.graph]}"
        skip = ""
        if s.skip is not None:
            skip = self.temp("skip")
            self.put(f"const {n.type(s.skip.type)} {skip} = {self.expr(s.skip)};")
        edge, point = self.resolve(s.edge), self.expr(s.point)
        if s.direction == "all":
            both = self.temp("both")
            self.put(f"const BothDirections {both}({g}_out_offset, {g}_in_offset, {point});")
            k = self._counted(s, "0", f"{both}.n")
            out, entry = f"{both}.is_out({k})", f"{both}.entry({k})"
            out_id, in_id = n.edge(s.graph, "out", entry), n.edge(s.graph, "in", entry)
            self.put(f"{edge} = {out} ? {out_id} : {in_id};")
            ends = [self._end(s, d, entry, edge) for d in ("out", "in")]
            end = f"{out} ? {ends[0]} : {ends[1]}"
        else:
            d = s.direction
            if not isinstance(s.point, ir.Var | ir.Const):
                whole, point = point, self.temp("p")
                self.put(f"const i32 {point} = {whole};")
            offset = f"{g}_{d}_offset, {point}"
            k = self._counted(s, f"row_begin({offset})", f"row_end({offset})")
            self.put(f"{edge} = {n.edge(s.graph, d, k)};")
            end = self._end(s, d, k, edge)
        if skip:
            self.put(f"if ({edge} == {skip}) continue;")
        self._bound(s.body, [(s.var, end)])

    def _find_first(self, s: ir.ForEdges, then: ir.Body) -> None:
        """A loop that runs ``then`` for the first edge that passes a test."""
        n, edge, var = self.names, self.resolve(s.edge), self.resolve(s.var) if s.var else "_"
        (test,) = s.body
        assert isinstance(test, ir.If)
        point = self.expr(s.point)
        if not isinstance(s.point, ir.Var | ir.Const):
            whole, point = point, self.temp("p")
            self.put(f"const i32 {point} = {whole};")
        at = f"a.{n.prefix[s.graph]}_{s.direction}_offset, {point}"
        first, last, k = self.temp("b"), self.temp("e"), self.temp("k")
        self.put(f"const i64 {first} = row_begin({at}), {last} = row_end({at});")
        given = n.edge(s.graph, s.direction, "k")
        end = n.end(s.graph, s.direction, "k", "edge") if s.var else "-1"
        self.put(f"i64 {k} = find_first({first}, {last}, [&](i64 k) {{")
        row = n.type(Handle(f"{s.graph}.edges"))
        self.put(f"    {row} edge = {given};")
        self.put(f"    return Reached{{edge, {end}}};")
        self.put(f"}}, [&]({row} {edge}, i32 {var}) {{")
        self.place(test.cond.pos)
        self.put(f"    return {self.expr(test.cond)};")
        self.put("});")
        found = f"{k}found_"
        self.put(f"const bool {found} = {k} < {last};")
        self.put(f"if (!{found}) {k} = {last} - 1;  // the loop's locals are then of the last")
        self._end_search(s, then, k, found, f"{first} <= {k}")

    def _end_search(self, s: ir.ForEdges, then: ir.Body, k: str, found: str, some: str) -> None:
        """Print the statements after a search that ended at ``k``, unless the row is empty."""
        n, edge = self.names, self.resolve(s.edge)
        self.put(f"if ({some}) {{")
        self.put(f"    {edge} = {n.edge(s.graph, s.direction, k)};")
        if s.var:
            self.put(f"    {self.resolve(s.var)} = {n.end(s.graph, s.direction, k, edge)};")
        self.put("}")
        self.block(f"if ({found})", then)


def heads(s: ir.Stmt) -> list[object]:
    """The operands of a statement, without its bodies, after which `Body.body` adds a check."""
    if isinstance(s, ir.If | ir.Return) or (
        isinstance(s, ir.Eval) and isinstance(s.value, ir.LocalAdd)
    ):
        return []
    return ir.operands(s) if ir.bodies(s) else [s]


def grows(node: object, plan: Plan) -> bool:
    """Whether a node contains an addition to a local collection, or calls a function that does."""
    return any(
        isinstance(n, ir.LocalAdd) or (isinstance(n, ir.Call) and plan.functions[n.func].grows)
        for n in ir.walk(node)
    )
