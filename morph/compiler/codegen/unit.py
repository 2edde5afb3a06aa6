"""From a unit to one C++ text, which every target compiles behind the prelude.

The order of the text: structs, `Args`, what an item carries, the user's functions, one `Step` for
every ``foreach``, what one thread does alone, and `run`, what every thread of the team runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from morph.compiler.codegen.checked import Checked
from morph.compiler.codegen.names import Names
from morph.compiler.codegen.program import emit_program, waits_nowhere
from morph.compiler.codegen.shared_loops import emit_spread, listed, spread_structs
from morph.compiler.codegen.single_thread import whole
from morph.compiler.codegen.slot_cache import close_gaps, served, stocks
from morph.compiler.codegen.statements import Body, adds
from morph.compiler.codegen.steps import step_text
from morph.compiler.ir import abi
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import ascii_name
from morph.compiler.passes.liveness import changed, constants, moving, named, one_way, standing
from morph.compiler.passes.work_sharing import lists, runs_ahead, spreads
from morph.language.types import Local, Object, Scalar, Type

HEADERS = """core/scalars core/words target core/types core/half core/math core/atomics
             storage/column schedule/team storage/store storage/collection schedule/single
             storage/set storage/graph geometry/predicates schedule/stage schedule/hubs
             schedule/room schedule/balance schedule/ahead schedule/sweep schedule/launch
             schedule/together""".split()
TARGETS = "#ifdef __CUDACC__\n{target_cuda}#else\n{target_cpu}#endif\n"  # in place of "target"
ALLOCATES = (ir.New, ir.NewRows, ir.Add)
USES_ITEM = re.compile(r"\bit\b").search
USES_WAY = re.compile(r"\bway\.").search
FEW, SOME, MANY = 2, 3, 4  # blocks of 256 threads: 128, 80, 64 registers
MOST_TOTALS = 4  # as the prelude says
INLINE = 60  # nodes up to which a function called from several places is copied to each


@cache
def prelude(checked: bool = False) -> str:
    """The device runtime: the headers of ``kernels/``, in order; of a checked unit one more."""
    package = Path(__file__).parents[2]  # a wheel has them inside, a checkout beside the package
    folder = next(f for f in (package / "kernels", package.parent / "kernels") if f.is_dir())
    texts = {h.stem: h.read_text() for h in folder.rglob("*.h")}
    texts["target"] = TARGETS.format(**texts)
    found = [texts[Path(h).name] for h in HEADERS]
    if checked:
        found = ["#define MORPH_CHECKED", *found, texts["check"]]
    return "\n".join(found)


def source(unit: ir.Unit) -> str:
    """The C++ text of a unit, without the prelude.

    Parameters
    ----------
    unit : ir.Unit
        A checked unit.

    Returns
    -------
    str
        C++17 with one entry, ``unit.name``; the same for every target.
    """
    return Emission(unit).text()


def entry(unit: ir.Unit) -> str:
    """The name of the function to launch."""
    return ascii_name(unit.name)


def cooperative(unit: ir.Unit) -> bool:
    """Whether the unit has a barrier, so that all its blocks must run at once."""
    return prepares(unit) or lists(unit)


def prepares(unit: ir.Unit) -> bool:
    """Whether stores begin and end as of the last barrier, the first of which is before all."""
    return unit.fused or abi.claims(unit) or _grows_while_read(unit)


def _grows_while_read(unit: ir.Unit) -> bool:
    """Whether the unit reads the size of a store that it changes: as of the last barrier."""
    nodes = list(ir.walk((unit.funcs, unit.blocks)))
    changed = {n.slot for n in nodes if isinstance(n, (*ALLOCATES, ir.Take))}
    asked = {n.slot for n in nodes if isinstance(n, ir.Foreach | ir.ForRows | ir.StoreSize)}
    added = {n.slot for n in nodes if isinstance(n, ir.Add)}
    taken = {n.slot for n in nodes if isinstance(n, ir.Take)}
    return bool(changed & asked or added & taken)


class Emission:
    """The emission of one unit."""

    def __init__(self, unit: ir.Unit) -> None:
        self.unit = unit
        nodes = list(ir.walk((unit.funcs, unit.blocks)))
        self.names = Names(unit, prelude(unit.checked), changed(unit, nodes))
        self.names.snapshot = prepares(unit)
        self.names.apart = frozenset(n.slot for n in nodes if isinstance(n, ir.NewRows))
        self.funcs = {f.name: f for f in unit.funcs}
        self._reached: dict[str, tuple[ir.Func, ...]] = {}
        self._below: dict[int, list[ir.Node]] = {}  # by step
        self.kernels = {f.name: f for f in unit.funcs if isinstance(f, ir.Kernel)}
        self.names.grows = frozenset(n for n in self.funcs if adds(self.reached(n)))
        self.sets = {n.slot for n in nodes if isinstance(n, ir.FlagSet | ir.TakeFlag | ir.Raised)}
        self.sets |= {n.flag for n in nodes if isinstance(n, ir.Atomic) and n.flag}
        self.rooms = sorted(
            {n.slot for n in nodes if isinstance(n, ALLOCATES)}
            | {n.slot for n in nodes if isinstance(n, ir.Need) and not n.local}
        )
        self.served = served(self)
        self.can_fail = any(isinstance(n, ir.Reserve | ir.LocalAdd) for n in nodes)
        self.claims, self.spreads, self.ahead = abi.claims(unit), spreads(unit), runs_ahead(unit)
        self.calls = Counter(n.func for n in nodes if isinstance(n, ir.Call))
        self.standing = standing(unit, self.ahead)
        self.locks = bool(self.names.reborn) or any(isinstance(n, ir.Lock) for n in nodes)
        self.moving = moving(unit, self.reached)
        self.ends: set[str] = set()  # steps whose barrier has a part for the master
        self.sweeps: set[str] = set()  # kernels of steps that do: see sweep.h
        self.lines: list[str] = []

    def reached(self, name: str) -> tuple[ir.Func, ...]:
        """A function and all that it calls."""
        if name in self._reached:
            return self._reached[name]
        seen: dict[str, ir.Func] = {}
        todo = [name]
        while todo:
            f = self.funcs[todo.pop()]
            if f.name not in seen:
                seen[f.name] = f
                todo += [n.func for n in ir.walk(f) if isinstance(n, ir.Call)]
        self._reached[name] = tuple(seen.values())
        return self._reached[name]

    def step_nodes(self, step: object) -> list[ir.Node]:
        """Everything that a step can run."""
        if id(step) in self._below:
            return self._below[id(step)]
        roots = [n.func for n in ir.walk(step) if isinstance(n, ir.Call)]
        if isinstance(step, ir.Foreach):
            where = self.kernels[step.kernel].where
            roots += [step.kernel, *([where] if where else [])]
        found = list(ir.walk((step, tuple(f for r in roots for f in self.reached(r)))))
        self._below[id(step)] = found
        return found

    # --- the parts -------------------------------------------------------------------------------

    def text(self) -> str:
        """All parts, in order."""
        self.put('#line 1 "morph"')
        functions: list[str] = []
        self.lines, head = functions, self.lines
        for f in self.unit.funcs:
            self._function(f)
        self._glue()
        self.lines = head
        for name, members in self.names.structs.items():
            self.put(f"struct {name} {{ {members} }};")
        self.lines += self._ways() + self._args()
        self._items()
        self.lines += functions
        return "\n".join(self.lines) + "\n"

    def put(self, *lines: str) -> None:
        """Add lines."""
        self.lines += lines

    def _args(self) -> list[str]:
        lines = ["struct Args {", *self._fields(-1)]
        if self.unit.ways:
            lines.append(f"    Way ways[{len(self.unit.ways)}];")
        totals = self.names.totals[:MOST_TOTALS]
        lines.append(f"    enum {{ TOTALS = {len(totals)} }};  // places that all add to")
        if totals:
            lines.append("    MORPH_FN void add_total(i32 i, u64 sum) const {")
            lines.append("        const Args& a = *this;")
            lines += [f"        if (i == {i}) {add}" for i, add in enumerate(totals)]
            lines.append("    }")
        return [*lines, "};"]

    def _ways(self) -> list[str]:
        """What swapped collections stand for, in one way."""
        return ["struct Way {", *self._fields(0), "};"] if self.unit.ways else []

    def _fields(self, way: int) -> list[str]:
        lines = []
        for f in abi.fields(self.unit):
            ctype, name = f.ctype, f.name if f.kind != "scalar" else self.names.spell(f.name)
            if f.kind == "column" and (f.slot, f.column) not in self.names.changed:
                ctype = ctype.replace("Col<", "Col<const ")
            if f.way == way:
                lines.append(f"    {ctype} {name};")
        return lines

    def way(self, lines: list[str], of: str) -> list[str]:
        """Lines of a function, behind the words of swapped collections if it uses any."""
        uses = self.unit.ways and any(USES_WAY(x) for x in lines)
        return [f"    const Way& way = a.ways[{of}.way];", *lines] if uses else lines

    def _items(self) -> None:
        """What a thread and what an item carry."""
        u, names = self.unit, self.names
        flags = sorted(self.sets)
        self.put("", "// What every thread of the team holds alike.", "struct Run : Team {")
        if u.fused:
            self.put(f"    i32 block, step{', way' if u.ways else ''};")
            self.put(*(f"    {names.type(t)} {names.member(n)};" for n, t in u.state))
            self.put(*(f"    i32 {self.names.prefix[f]}_turn = 0;" for f in flags))
            if waits_nowhere(u):
                self.put("    u32 laps = 0;  // of loops without a barrier")
        self.put("    MORPH_FN Run(const Args& a, i32 thread, i32 threads)")
        self.put("        : Team(a, thread, threads) {")
        if u.fused:
            self.put("        block = i32(kept(a, BLOCK));")
            self.put("        step = i32(kept(a, STEP));")
            self.put("        replay = kept(a, REPLAY);")
            if u.ways:
                self.put("        way = i32(kept(a, WAY));")
            if self.locks:
                self.put("        launch = -1 - i32(load(a.status + LOCKS));")
                self.put("        if (replay) launch = i32(kept(a, LAUNCH));")
            for i, (n, t) in enumerate(u.state):
                value = self.from_state(i, t).replace("load(a.state + ", "kept(a, ")
                self.put(f"        {names.member(n)} = {value};")
        if self.claims:
            self.put("        round = u32(load(a.status + ROUND));")
        self.put("    }", "};", "", "struct Item : ItemBase {")
        self.put("    typedef ::Stocks Stocks;")
        self.put(*(f"    Room {self.names.prefix[s]}_room{{}};" for s in self.rooms))
        if u.checked:
            self.put("    u32 step;  // what races are looked for in")
        if self.ahead:
            self.put("    Ahead ahead;")
        if u.fused:
            if self.locks:
                self.put("    i32 launch;")
            if u.ways:
                self.put("    i32 way;")
            self.put(*(f"    i32* {self.names.prefix[f]}_flag;" for f in flags))
        self.put("    MORPH_FN Item(const Args& a, const Run& t, i64 position)")
        self.put("        : ItemBase(position) {")
        if u.fused:
            if self.locks:
                self.put("        launch = t.launch;")
            if u.ways:
                self.put("        way = t.way;")
            for f in (self.names.prefix[s] for s in flags):
                self.put(f"        {f}_flag = a.{f}_flag + t.{f}_turn;")
        if u.checked:
            rounds = " + 2 * t.round" if self.claims else ""
            self.put(f"        step = u32(load(a.check + CHECK_STEP)){rounds};")
        self.put("    }", "};")
        stocks(self)
        for k in self.kernels.values():
            if k.commit is not None:
                self._live(k)
            if k.name in self.spreads:
                spread_structs(self, k)
        self.put("", "MORPH_HOT void end_item(const Args& a, Item& it) {")
        base = self.names.base
        given = [
            f"    give_back({base(s)}_meta, it.{self.names.prefix[s]}_room);" for s in self.rooms
        ]
        self.put(*self.way(given, "it"))
        if self.can_fail:
            self.put("    record(a.status, a.pending, it);")
        self.put("}")

    def _live(self, k: ir.Kernel) -> None:
        types = dict(k.params) | dict(k.locals)
        name = f"{self.names.funcs[k.name]}_item"
        live = [(types[n], self.names.member(n)) for n in self._live_names(k)]
        rooms = [(t, n) for t, n in live if isinstance(t, Local)]
        self.put("", f"struct {name}_rooms {{", *(self.names.room(t, n) for t, n in rooms), "};")
        self.put(f"struct {name} : Item {{  // what lives from gather to commit")
        self.put(f"    typedef {name}_rooms Rooms;", "    u64 key;", "    i32 priority = 0;")
        for t, n in live:
            init = "" if isinstance(t, Local) else "{}"
            self.put(f"    {self.names.type(t)} {n}{init};")
        given = "".join(f", {n}(rooms.{n})" for _, n in rooms)
        self.put(f"    MORPH_FN {name}(const Args& a, const Run& t, i64 position, Rooms& rooms)")
        self.put(f"        : Item(a, t, position){given} {{}}", "};")

    def _live_names(self, k: ir.Kernel) -> list[str]:
        used = {n for c in ir.walk(k) if isinstance(c, ir.Claim) for n in (c.items, c.guard) if n}
        params = {n for n, _ in k.params}
        return [n for n in dict.fromkeys((*k.live, *sorted(used))) if n not in params]

    def from_state(self, i: int, t: Type) -> str:
        """A program's variable, from its word."""
        ctype = self.names.type(t)
        return f"from_bits<{ctype}>(Bits<{ctype}>(load(a.state + VARS + {i})))"

    # --- functions -------------------------------------------------------------------------------

    def flag(self, slot: str) -> str:
        """The word of a flag that an item raises, or looks at."""
        return f"{'it' if self.unit.fused else 'a'}.{self.names.prefix[slot]}_flag"

    def _function(self, f: ir.Func) -> None:
        params = [(self.names.spell(n), t) for n, t in f.params if not isinstance(t, Object)]
        listed = "".join(
            f", {self.names.type(t)}{'&' if isinstance(t, Local) else ''} {n}" for n, t in params
        )
        name, result = self.names.funcs[f.name], self.names.type(f.result)
        if f.cpp is not None:
            self.put("", f"MORPH_FN {result} {name}(const Args& a, Item& it{listed}) {{")
            self.put(*f.cpp.strip("\n").splitlines(), "}", '#line 1 "morph"')
        elif isinstance(f, ir.Kernel) and f.commit is not None:
            live, given = (
                dict.fromkeys(self._live_names(f), "it"),
                f"(const Args& a, {name}_item& it{listed})",
            )
            self.define(f, f"bool {name}{given}", f.body, live, " false")
            for part, body in (("commit", f.commit), ("abort", f.abort or ())):
                moving = self.moving[f"{f.name}_commit"]
                self.define(f, f"void {name}_{part}{given}", body, live, moving=moving)
        else:
            called = not isinstance(f, ir.Kernel) and self._is_large(f)
            given = f"(const Args& a, Item& it{listed})"
            gives = "" if result == "void" else " {}"
            head, make = f"{result} {name}{given}", whole(self, f)
            self.define(f, head, f.body, gives=gives, called=called, make=make)
            if f.name in self.spreads:
                emit_spread(self, f)

    def _is_large(self, f: ir.Func) -> bool:
        """Whether copies of a function at every call would cost more to compile than they gain."""
        return self.calls[f.name] > 1 and sum(1 for _ in ir.walk(f.body)) > INLINE

    def define(
        self, f: ir.Func, head: str, body: ir.Body, live: dict[str, str] | None = None,
        gives: str = "", called: bool = False, moving: frozenset[tuple[str, str]] | None = None,
        make: Callable[..., Body] = Body,
    ) -> None:  # fmt: skip
        """A function; the locals that are ``live`` are members of what they are given with."""
        types = dict(f.params) | dict(f.locals)
        spell, scalars = self.names.spell, self.names.scalars

        def resolve(name: str) -> str:
            if live and name in live:
                return f"{live[name]}.{self.names.member(name)}"
            return f"a.{spell(name)}" if name not in types and name in scalars else spell(name)

        launch = "it.launch" if self.unit.fused else "i32(a.launch)"
        make = Checked if self.unit.checked else make
        b = make(self.names, resolve, self.flag, launch, types, gives)
        b.moving = self.moving[f.name] if moving is None else moving
        b.ahead, b.fixed = self.ahead.get(f.name), constants(f)
        if f.name in self.standing:
            b.item, b.standing = f.params[0][0], self.standing[f.name]
        if isinstance(f, ir.Kernel):
            b.one_way = one_way(self.unit, self.reached(f.name))
        mine = named(body)
        for n, t in f.locals:
            if n in mine and n not in (live or ()):
                if isinstance(t, Local):
                    room = b.temp("v")
                    b.put(self.names.room(t, room).strip())
                    b.put(f"{self.names.type(t)} {spell(n)}({room});")
                else:
                    b.put(f"{self.names.type(t)} {spell(n)}{{}};")
        b.body(body)
        if gives == " false" and not (b.lines and b.lines[-1].startswith("    return ")):
            b.put("return false;")
        lines = self.way(b.lines, "it")
        if not isinstance(f, ir.Kernel) and not any(USES_ITEM(x) for x in lines):
            self.names.pure.add(f.name)  # whoever calls it can have its item in registers
            head = head.replace(", Item& it", "")
        self.put("", f"{'MORPH_CALL' if called else 'MORPH_BODY'} {head} {{", *lines, "}")

    # --- steps -----------------------------------------------------------------------------------

    def _glue(self) -> None:
        self.put("", '#line 1 "morph"')
        u = self.unit
        steps = [(b, k, s) for b, block in enumerate(u.blocks) for k, s in enumerate(block.steps)]
        for b, k, s in steps:
            if isinstance(s, ir.Foreach):
                self.put(*step_text(self, s, f"Step{b}_{k}"))
        settled = sum(self.settles(u.funcs), [])
        before = int(prepares(u))
        self.put(f"enum {{ PREPARES = {before} }};  // the master has something to do before all")
        ends = bool(settled) or u.fused or self.claims
        self.put(f"enum {{ SETTLES = {int(ends)} }};  // the master has something to do at its end")
        phases = int(u.fused and not self.claims)
        self.put(f"enum {{ PHASES = {phases} }};  // one runs small steps")
        self.put(f"enum {{ BLOCKS = {self._blocks()} }};  // of a GPU's multiprocessor, at once")
        self._prepare()
        self._heavy()
        if u.fused:
            emit_program(self)
        else:
            (block,) = u.blocks
            (step,) = block.steps
            assert isinstance(step, ir.Foreach)
            self.put("", "MORPH_FN void run(const Args& a, Run& t) {")
            made = f"Step0_0{self.step_args(step)}"
            self.put(f"    {self.call_step(step, made)}")
            if listed(self, step):
                waits = "true" if self.spreads[step.kernel].batched else "false"
                self.put(f"    while (hubs_wait(a, t, {waits})) run_hubs(a, t, {made});")
            self.put("}")
            self.put("", "MORPH_FN void settle(const Args& a, const Run& t) {")
            self.put(*(f"    {line}" for line in settled))
            if self.claims:
                self.put("    store(a.status + ROUND, i64(t.round));")
            self.put("}")
        self.put("", f"MORPH_ENTRY({entry(u)})")

    def _blocks(self) -> int:
        """How many blocks are to fit on a multiprocessor: so many registers are left to each.

        More hide more latency where entries are shared out.  Claims only conflict more; what runs
        ahead, and sums of 64 bits, want registers.
        """
        local = any(isinstance(n, ir.MakeLocal) for n in ir.walk(self.unit.funcs))
        if self.claims or self.ahead or local or not self.spreads:
            return FEW
        if not self.sweeps:
            return MANY
        loads = [n.type for s in self.spreads.values() if s.pure for n in ir.walk(s.entry)
                 if isinstance(n, ir.Load)]  # fmt: skip
        return FEW if any(isinstance(t, Scalar) and t.bits > 32 for t in loads) else SOME

    def _heavy(self) -> None:
        """Whether few items may be for several CPU threads; a program asks before each step."""
        # where all is checked, items of one thread alone would never meet: each would claim alone
        much = "true" if self.spreads or (self.unit.checked and self.claims) else "false"
        if self.spreads and not self.unit.fused:
            (step,) = self.unit.blocks[0].steps
            assert isinstance(step, ir.Foreach)
            first, last = self.names.extent(step.slot)
            much = f"work(a, t, Step0_0{self.step_args(step)}, {first}, {last}) >= wide<Step0_0>()"
        self.put("", "#ifndef __CUDACC__", "MORPH_FN bool heavy(const Args& a) {")
        self.put("    Run t(a, 0, 1);", f"    return {much};", "}", "#endif")

    def _prepare(self) -> None:
        """What the master does before the first step."""
        self.put("", "MORPH_FN void prepare(const Args& a) {")
        for f in abi.fields(self.unit):
            if f.kind == "meta" and self.names.snapshot and f.way <= 0:
                collection = self.names.stores[f.slot].kind == "collection"
                words = f"a.{f.name}" if f.way else f"a.ways[0].{f.name}"
                self.put(f"    look({words}, {'true' if collection else 'false'});")
        self.put("}")

    def settles(
        self, node: object, clears: Sequence[str] = (), failed: str = ""
    ) -> tuple[list[str], list[str]]:
        """What the master loads, and does unless ``failed``, after a step that ran ``node``."""
        changes = (*ALLOCATES, ir.Delete, ir.Take)
        found = sorted({n.slot for n in ir.walk(node) if isinstance(n, changes)})
        lines = [x for slot in found for x in close_gaps(self, slot)]
        for slot in (*found, *(s for s in clears if s not in found)):
            words, meta = f"{self.names.prefix[slot]}_words", f"{self.names.base(slot)}_meta"
            if self.names.stores[slot].kind == "table":
                lines.append(f"TableWords {words}({meta});")
            else:
                end = "TO" if self.names.snapshot else "COUNT"
                lines.append(f"CollectionWords {words}({meta}, {end});")
        if failed:
            lines.append(f"bool failed = {failed};")
        does = [f"{self.names.prefix[s]}_words.settle();" for s in found]
        unless = "if (!failed) " if failed else ""
        return lines, does + [f"{unless}{self.names.prefix[s]}_words.clear();" for s in clears]

    def step_args(self, s: ir.Foreach) -> str:
        """What a step is made of: its kernel's numbers and its filter's."""
        return f"{{{self.uniform().args((*s.args, *s.where_args))[2:]}}}"

    def call_step(self, s: ir.Foreach, step: str) -> str:
        """The statement that runs a foreach."""
        loop = "claims" if self.kernels[s.kernel].commit is not None else "each"
        loop += "_together" if s.together else ""
        first, last = self.names.extent(s.slot)
        return f"{loop}(a, t, {step}, {first}, {last});"

    def uniform(self) -> Body:
        """A body that every thread runs alike."""
        state = dict(self.unit.state)
        spell = self.names.spell

        def resolve(name: str) -> str:
            return f"t.{self.names.member(name)}" if name in state else f"a.{spell(name)}"

        def flag(slot: str) -> str:
            return f"a.{self.names.prefix[slot]}_flag + t.{self.names.prefix[slot]}_turn"

        return Body(self.names, resolve, flag, "t.launch", state)
