"""Makes the `Plan` of a unit: all decisions that its text depends on, in one place.

`plan` takes a checked unit and decides, in this order:

1. for the whole unit (`Plan`): which columns are const, whether kernels see the sizes of stores
   at the last barrier, which stores need reservations or per-thread slot caches, the number of
   resident blocks on a GPU;
2. for each function (`FunctionPlan`): whether it is inlined, whether it needs the item, and whether
   its last loop is shared among threads (`Sharing`, see `work_sharing`; `Searching`, see `search`);
3. for each *text*, a C++ function of a kernel (`BodyPlan`: the whole function, the commit of a
   kernel that claims, or prologue, body and epilogue of a shared loop or search): which loads are
   barrier-stable, which atomics need no loop, which locals are declared;
4. for each step of a program (`StepPlan`): the actions at its barrier, and its variants.

`codegen` prints a plan.  Sets of columns come from `stability`, shared loops from `work_sharing`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from typing import Any

from morph.compiler.ir import abi
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.layout import MOST_TOTALS
from morph.compiler.ir.sites import sites_of
from morph.compiler.passes import search, steps
from morph.compiler.passes.double_buffering import swapped
from morph.compiler.passes.effects import reached
from morph.compiler.passes.group_execution import THREAD_BYTES, group_plan, group_size
from morph.compiler.passes.grouping import groups
from morph.compiler.passes.independence import loop_variables
from morph.compiler.passes.liveness import constants, named
from morph.compiler.passes.plan import (
    ANY_MEMORY,
    READ_BITS,
    VARIABLES,
    BlockPlan,
    BodyPlan,
    FunctionPlan,
    Plan,
    Prefetched,
    Searching,
    Sharing,
    StepPlan,
    TotalPlace,
)
from morph.compiler.passes.reservations import exact_reservations
from morph.compiler.passes.search import shared_searches
from morph.compiler.passes.stability import (
    Columns,
    changed,
    concurrent,
    monotone,
    only_added_to,
    stable_at_item,
    unstable_columns,
)
from morph.compiler.passes.warp_execution import (
    allows_warp_execution,
    warp_bodies,
)
from morph.compiler.passes.work_sharing import (
    BALANCES_WITH_LIST,
    allows_shared_loop,
    asynchronous_kernels,
    lists_long_rows,
    preloaded,
    shared_loops,
    staged,
)
from morph.language.types import Handle, Scalar

MAX_CACHED = 8  # collections with a slot cache; fewer in a step of many sections
MAX_INLINED_NODES = 60  # of a function that is inlined at several calls
RESIDENT = {128: 2, 80: 3, 64: 4, 32: 8}  # blocks of 256 threads, by registers of a thread
MANY_LOCALS = 8  # local collections of a unit that claims: one resident block
# Values of the trait `arguments` of nodes whose text names arrays of a collection.
NAMES_STORE = ("column", "rows", "new", "need")


def cooperative(unit: ir.Unit) -> bool:
    """Whether the unit has a barrier, so that all its blocks must be resident at once."""
    return prepares(unit) or lists_long_rows(unit)


def prepares(unit: ir.Unit) -> bool:
    """Whether kernels see the sizes of stores at the last barrier (``FROM``, ``TO``).

    Then the master also copies the counters before the first step.
    """
    nodes = list(ir.walk((unit.funcs, unit.blocks)))
    added = {n.slot for n in nodes if isinstance(n, ir.Add)}
    taken = {n.slot for n in nodes if isinstance(n, ir.Take)}
    read_and_changed = (ir.slots(nodes, "allocates") | taken) & ir.slots(nodes, "counts")
    known = unit.fused or abi.claims(unit) or bool(abi.queues(unit))
    return known or bool(read_and_changed or added & taken)


def plan(unit: ir.Unit) -> Plan:
    """Make the plan of a unit."""
    return _Planner(unit).plan()


class _Planner:
    """Makes the decisions; its attributes are analyses of the unit that several of them use."""

    def __init__(self, unit: ir.Unit) -> None:
        self.unit = unit
        self.nodes = list(ir.walk((unit.funcs, unit.blocks)))
        self.stores = {s.slot: s for s in unit.stores}
        self.funcs = {f.name: f for f in unit.funcs}
        self.kernels = {f.name: f for f in unit.funcs if isinstance(f, ir.Kernel)}
        self.sites = sites_of(unit) if unit.checked else None
        self.reached = {name: reached(name, self.funcs) for name in self.funcs}
        self.swapped = frozenset(s for found in unit.permutations[:1] for s, _ in found)
        self.consecutive = frozenset(n.slot for n in self.nodes if isinstance(n, ir.NewRows))
        self.recycled = abi.recycled(unit)
        self.rebuilt = abi.rebuilt(unit)
        self.queues = abi.queues(unit)
        self.changed = changed(unit, self.nodes)
        self.read_bits = self._read_bits()
        self.unstable = unstable_columns(unit, self.reached.__getitem__)
        self.shared, self.asynchronous = shared_loops(unit), asynchronous_kernels(unit)
        self.searched = shared_searches(unit)
        self.group_plans = {
            name: found
            for name, f in self.kernels.items()
            if (found := group_plan(f, self.funcs, self.unstable[name], unit.checked))
        }
        self.warp_bodies = warp_bodies(unit, self.unstable)
        self.stable = stable_at_item(unit, self.asynchronous)
        self.sections = abi.sections(unit)
        self.concurrent = concurrent(unit)
        self.added = only_added_to(unit)
        self.calls = Counter(n.func for n in self.nodes if isinstance(n, ir.Call))
        needs = {n.slot for n in self.nodes if isinstance(n, ir.Need) and not n.local}
        self.reserved = tuple(sorted(ir.slots(self.nodes, "allocates") | needs))
        self.cached = self._cached()
        added = self._totals()
        totals = dict.fromkeys(added.values())
        self.totals = tuple(t for t in totals if t[-1].kind != "f")
        self.float_totals = tuple(t for t in totals if t[-1].kind == "f")[:MOST_TOTALS]
        self.partial_sums = {i for i, t in added.items() if t in self.float_totals}

    def plan(self) -> Plan:
        """All decisions."""
        unit, nodes = self.unit, self.nodes
        functions: dict[str, FunctionPlan] = {}
        for f in unit.funcs:
            functions[f.name] = self._function(f, functions)
        blocks = tuple(self._block(b, block, functions) for b, block in enumerate(unit.blocks))
        resized = ir.slots(ir.walk(unit.funcs), "resizes")
        claims = abi.claims(unit)
        flags = {n.slot for n in nodes if n.arguments == "flag"}  # type: ignore[attr-defined]
        flags |= {n.flag for n in nodes if isinstance(n, ir.Atomic) and n.flag}
        return Plan(
            unit=unit,
            functions=functions,
            blocks=blocks,
            sites=self.sites,
            changed=self.changed,
            snapshot=prepares(unit),
            publishes=bool(resized) or unit.fused or claims or bool(self.queues),
            consecutive=self.consecutive,
            recycled=self.recycled,
            swapped=self.swapped,
            flags=tuple(sorted(flags)),
            reserved=self.reserved,
            cached=self.cached,
            totals=self.totals,
            float_totals=self.float_totals,
            resized=tuple(sorted(resized)),
            reports_failure=any(n.fails for n in nodes),
            claims=claims,
            queues=self.queues,
            full_team=claims or bool(self.queues),
            asynchronous=bool(self.asynchronous),
            sections=self.sections,
            locks=bool(self.recycled) or any(isinstance(n, ir.Lock) for n in nodes),
            resident=self._resident(claims, any(s.sweeps for b in blocks for s in b.steps)),
            # on one thread, a round of claims has one item, so that checks find no race
            much_work=bool(self.shared or self.queues or self.group_plans)
            or (unit.checked and claims),
            calls=any(isinstance(n, ir.Call) for n in ir.walk(steps.uniform(unit))),
            uniform=self._uniform(),
            spins=unit.fused and steps.loops_without_barrier(unit),
        )

    # --- the unit --------------------------------------------------------------------------------

    def _cached(self) -> tuple[str, ...]:
        """Collections with a slot cache.

        Consecutive rows and queues have none: the barrier would move items to close the gaps.
        """
        collections = [s for s in self.reserved if self.stores[s].kind == "collection"]
        found = [s for s in collections if s not in self.consecutive | self.queues]
        return () if self.unit.checked else tuple(found[: 2 * MAX_CACHED // max(self.sections, 2)])

    def _resident(self, claims: bool, sweeps: bool) -> int:
        """The number of resident blocks on a multiprocessor.

        For shared loops, more blocks hide more latency.  Claims would conflict more often, and
        items with many local collections need all registers, and L1 for their collections;
        asynchronous execution and 64-bit reductions need the registers.
        """
        if self.group_plans and not self.unit.fused:
            return RESIDENT[32]
        local = sum(
            isinstance(n, ir.MakeLocal) and not isinstance(n, ir.MakeShared)
            for n in ir.walk(self.unit.funcs)
        )
        nodes = ir.walk(self.unit.blocks)
        if (
            claims
            and local >= MANY_LOCALS
            and not any(isinstance(n, ir.Foreach) and n.together for n in nodes)
        ):
            return 1
        if claims or self.asynchronous or local or not self.shared:
            return RESIDENT[128]
        if not sweeps:
            return RESIDENT[64]
        if any(g.tiled for g in self.unit.graphs):
            return RESIDENT[128]  # limited by shared memory
        loads = [
            n.type
            for s in self.shared.values()
            if s.pure
            for n in ir.walk(s.body)
            if isinstance(n, ir.Load)
        ]
        return RESIDENT[128 if any(isinstance(t, Scalar) and t.bits > 32 for t in loads) else 80]

    def _totals(self) -> dict[int, TotalPlace]:
        """The places that all items add to without using the old value, by id of an atomic."""
        if self.unit.checked:
            return {}
        found: dict[int, TotalPlace] = {}
        for f in self.unit.funcs:
            rows = constants(f)
            for n in ir.walk(f):
                if isinstance(n, ir.Eval) and (place := total_place(n.value, rows)):
                    if place[:2] in self.added:
                        found[id(n.value)] = place
        return found

    # --- functions -------------------------------------------------------------------------------

    def _function(self, f: ir.Func, known: Mapping[str, FunctionPlan]) -> FunctionPlan:
        claims = isinstance(f, ir.Kernel) and f.commit is not None
        live = _live(f) if isinstance(f, ir.Kernel) and claims else ()
        text = partial(self._text, f, live=live)
        large = self.calls[f.name] > 1 and sum(1 for _ in ir.walk(f.body)) > MAX_INLINED_NODES
        on = ir.find(self.unit.blocks, ir.Foreach)
        main = text(f.body)
        arrays, by_warp = self.group_plans.get(f.name), self.warp_bodies.get(f.name)
        if f.name in self.shared and all(allows_shared_loop(s) for s in on if s.kernel == f.name):
            # several threads execute the parts of the kernel instead
            main = replace(main, single_threaded=True, prefetches=_prefetches(f.body))
        commit = abort = exact = None
        if isinstance(f, ir.Kernel) and f.commit is not None:
            unstable = self.unstable[f"{f.name}_commit"]
            commit = text(f.commit, unstable=unstable)
            abort = text(f.abort or (), unstable=unstable)
            found = exact_reservations(f, self.stores, self.consecutive, self.reached)
            if found and not self.unit.checked:
                exact = text(found[0], unstable=unstable), text(found[1], unstable=unstable)
        return FunctionPlan(
            func=f,
            reached=self.reached[f.name],
            grows=any(isinstance(n, ir.LocalAdd) for n in ir.walk(self.reached[f.name])),
            takes_item=self._takes_item(f, main, known),
            called=not isinstance(f, ir.Kernel) and large,
            live=live,
            main=main,
            commit=commit,
            abort=abort,
            exact=exact,
            sharing=self._sharing(f),
            searching=self._searching(f),
            group_plan=arrays,
            by_group=text(arrays.body) if arrays and arrays.body is not None else None,
            by_warp=text(by_warp) if by_warp is not None else None,
        )

    def _text(
        self, f: ir.Func, body: ir.Body, live: Sequence[str] = (), nodes: Iterable[ir.Node] = (),
        unstable: Columns | None = None, hidden: Iterable[str] = (), split: ir.Node | None = None,
    ) -> BodyPlan:  # fmt: skip
        """The plan of a text with the statements ``body``.

        ``live`` are the locals that are members of a struct parameter, ``hidden`` are the other
        parameters.  ``nodes`` are the nodes that it prints, if not all of ``body``.  ``split`` is
        a shared search in ``body``: the text has only the statements after it.
        """
        mine, lists = named(body) - {*live, *hidden}, self.asynchronous.get(f.name)
        beside = [o for name in self.concurrent.get(f.name, ()) for o in self.reached[name]]
        touched = _stores(nodes or ir.walk(body))
        if lists and lists[0] in touched:
            touched |= {lists[1]}
        stable = self.stable.get(f.name)
        kernel, rows = isinstance(f, ir.Kernel), constants(f)
        found = ((n, total_place(n, rows)) for n in ir.walk(body))
        return self._printed(
            [body],
            split=split,
            body=body,
            total_functions={
                id(n): how
                for n, place in found
                if place is not None and (how := self._total_function(place))
            },
            unstable=self.unstable[f.name] if unstable is None else unstable,
            locals=tuple(x for x in f.locals if x[0] in mine),
            live=frozenset(live),
            monotone=monotone(self.unit, (*self.reached[f.name], *beside))
            if kernel
            else frozenset(),
            item=f.params[0][0] if stable is not None else "",
            stable=stable or frozenset(),
            asynchronous=lists,
            swapped=bool(touched & self.swapped),
            ends=not (body and body[-1].leaves),
        )

    def _uniform(self) -> BodyPlan:
        """The plan of expressions between steps, in which no place is stable."""
        alone = [s for b in self.unit.blocks for s in b.steps if isinstance(s, ir.OneThread)]
        live = frozenset(n for n, _ in self.unit.state)
        return self._printed([s.body for s in alone], unstable=self.changed, live=live)

    def _printed(
        self, bodies: list[ir.Body], live: frozenset[str], split: ir.Node | None = None,
        **more: Any,
    ) -> BodyPlan:  # fmt: skip
        """The plan of a text: groups of its statements, and loops that search for an edge."""
        nodes = list(ir.walk(tuple(bodies)))
        searches = {
            id(s): test.then[:-1]
            for s in nodes
            if isinstance(s, ir.ForEdges) and (s is split or live.isdisjoint((s.edge, s.var)))
            if not self.unit.checked and (test := search.condition(s))
        }
        bodies = [*bodies, *searches.values(), *(b for n in nodes for b in ir.bodies(n))]
        group = partial(groups, stores=self.stores, consecutive=self.consecutive)
        found = {id(b): tuple(group(b, single=self.unit.checked)) for b in bodies}
        return BodyPlan(groups=found, searches=searches, live=live, **more)

    def _total_function(self, place: TotalPlace) -> str:
        """The function that adds to the partial sum of a place; empty if it has none."""
        if place[-1].kind != "f":
            index = str(self.totals.index(place)) if place in self.totals else "MOST_TOTALS"
            return f"add_to_total<{index}>"
        if place not in self.float_totals:
            return ""
        return f"add_to_float_total<{self.float_totals.index(place)}, {len(self.float_totals)}>"

    def _takes_item(self, f: ir.Func, main: BodyPlan, known: Mapping[str, FunctionPlan]) -> bool:
        """Whether a function uses the state of the item: reservations, failure, flags, locks."""
        if isinstance(f, ir.Kernel) or f.cpp is not None or main.swapped:
            return True
        returned = {id(n) for s in ir.find(f.body, ir.Return) for n in ir.walk(s)}

        def uses(n: ir.Node) -> bool:
            match n:
                case ir.Call():
                    may_end = self.unit.checked and id(n) not in returned
                    return may_end or known[n.func].takes_item
                case ir.Raised() | ir.FlagSet() | ir.Lock():
                    return self.unit.fused or self._is_site(n)
                case ir.Atomic():
                    return (self.unit.fused and n.flag is not None) or self._is_site(n)
                case ir.Load(place=p) if p.column == "item" and (p.slot, "item") in main.stable:
                    return isinstance(p.row, ir.Var) and p.row.name == main.item
            return n.per_item or self._is_site(n)

        return any(uses(n) for n in ir.walk(f.body))

    def _is_site(self, n: ir.Node) -> bool:
        return self.sites is not None and id(n) in self.sites.number

    def _sharing(self, f: ir.Func) -> Sharing | None:
        if f.name not in self.shared:
            return None
        s, kernel = self.shared[f.name], self.kernels[f.name]
        where = self.reached[kernel.where] if kernel.where else ()
        buffers = staged(s, self.stores)
        inside = {id(n) for n in ir.walk(s.loop.body)}
        batched = {slot for slot, _ in s.capacity} if s.batched else set()
        before = [n for n in ir.walk(s.prologue) if id(n) not in inside]
        before = [n for n in before if not (isinstance(n, ir.Need) and n.slot in batched)]
        inner = [n for n in ir.walk(s.body) if not (isinstance(n, ir.Add) and n.slot in buffers)]
        if f.name in self.asynchronous:
            inner += [n for n in ir.walk(s.body) if n.allocates]
        ends = not (s.prologue and s.prologue[-1] is s.loop)
        member = (*s.live_in, *(x for x, _ in s.reductions))
        return Sharing(
            loop=s,
            staged=buffers,
            preloaded=preloaded(
                s, self.stores, self.unstable[f.name], (*self.reached[f.name], *where)
            ),
            prologue=replace(self._text(f, s.prologue, nodes=before), ends=ends),
            body=replace(
                self._text(f, s.body, live=member, nodes=inner, hidden=loop_variables(s.loop)),
                item="", stable=frozenset(),
            ),
            epilogue=self._text(f, s.epilogue, live=s.live_out),
        )  # fmt: skip

    def _searching(self, f: ir.Func) -> Searching | None:
        if f.name not in self.searched:
            return None
        s = self.searched[f.name]
        inside = {id(n) for n in ir.walk(s.loop.body)}
        before = [n for n in ir.walk(s.prologue) if id(n) not in inside]
        ends = s.prologue[-1] is not s.loop
        test = ir.Return(value=s.test, pos=s.loop.pos)
        given = loop_variables(s.loop)
        # variables that only the test uses are not declared in the epilogue
        apart = named((test,)) - named((*s.then, *s.tail)) - {*given}
        return Searching(
            search=s,
            prologue=replace(self._text(f, s.prologue, nodes=before), ends=ends),
            test=replace(
                self._text(f, (test,), live=s.live_in, hidden=given), item="", stable=frozenset()
            ),
            epilogue=self._text(
                f, (s.loop, *s.tail), live=s.live_out, split=s.loop, hidden=apart,
                nodes=[s.loop, *ir.walk((s.then, s.tail))],
            ),
        )  # fmt: skip

    # --- steps -----------------------------------------------------------------------------------

    def _below(self, step: object) -> list[ir.Node]:
        """The nodes of a step, its kernel and filter, and the functions that these call."""
        roots = [n.func for n in ir.find(step, ir.Call)]
        if isinstance(step, ir.Foreach):
            where = self.kernels[step.kernel].where
            roots += [step.kernel, *([where] if where else [])]
        return list(ir.walk((step, tuple(f for r in roots for f in self.reached[r]))))

    def _exchanged_sizes(self, s: StepPlan) -> tuple[str, ...]:
        """The collections that a step resizes, except those of messages to be sent."""
        sent = {n.outbox for n in self.nodes if isinstance(n, ir.Deliver)}
        lists = (x for x in s.resized if self.stores[x].kind == "collection")
        return tuple(x for x in lists if x not in sent)

    def _deliveries(self, found: Mapping[int, StepPlan]) -> dict[int, StepPlan]:
        """Link deliveries of messages with the steps that send and that execute these."""
        changed: dict[int, StepPlan] = {}
        order = sorted(found)
        for i, k in enumerate(order):
            if not isinstance(found[k].node, ir.Deliver):
                continue
            before, after = order[i - 1], order[i + 1]
            sender = changed.get(before, found[before])
            waits = isinstance(sender.node, ir.Foreach) and sender.agree is None
            if waits:
                changed[before] = sender = replace(sender, fails_at_delivery=True)
            changed[after] = receiver = replace(found[after], runs_messages=True)
            changed[k] = replace(
                found[k], sender=sender if waits else None, receiver=receiver,
                exchanged_sizes=self._exchanged_sizes(sender),
            )  # fmt: skip
        return changed

    def _rebuilds(self, nodes: list[ir.Node]) -> tuple[str, ...]:
        """The graphs whose points or edges a step with these nodes changes."""
        changed = abi.restructured(nodes) if self.rebuilt else set()
        tables = {g.slot: set(dict(g.tables).values()) for g in self.unit.graphs}
        return tuple(sorted(g for g in self.rebuilt if changed & tables[g]))

    def _block(
        self, number: int, block: ir.Block, functions: Mapping[str, FunctionPlan]
    ) -> BlockPlan:
        found = {
            k: self._step(number, k, s, clears, functions)
            for k, (s, clears) in steps.joined(block.steps).items()
        }
        for k, s in enumerate(block.steps):
            if isinstance(s, ir.Agree):
                sizes = self._exchanged_sizes(found[k - 1])
                found[k - 1] = replace(found[k - 1], agree=s, exchanged_sizes=sizes)
        found |= self._deliveries(found)
        found |= {k: _with_sections(found, k) for k, s in found.items() if s.sections > 1}
        leaves = ir.Foreach | ir.Exchange | ir.Combine
        can_resume = [k for k, s in found.items() if s.can_fail or isinstance(s.node, leaves)]
        uniform = steps.uniform(replace(self.unit, blocks=(block,)))
        domains = {s.slot for s in block.steps if isinstance(s, ir.Foreach)}
        permutations = self.unit.permutations
        after = [swapped(found, block.swap) for found in permutations] if block.swap else []
        return BlockPlan(
            node=block,
            steps=tuple(found.values()),
            reads=self._reads(block.cond),
            swapped=bool((_stores(ir.walk(uniform)) | domains) & self.swapped),
            permutations=tuple(permutations.index(p) if p in permutations else 0 for p in after),
            resumes=max(can_resume, default=-1),
        )

    def _reads(self, x: ir.Node | None) -> int:
        """The bits of what expressions read that steps may write."""
        bits = 0
        for n in ir.walk(x):
            if isinstance(n, ir.Load) and n.varies:
                bits |= self.read_bits.get((n.place.slot, n.place.column), 0)
            elif n.varies or isinstance(n, ir.Call):
                bits |= ANY_MEMORY
        return bits

    def _read_bits(self) -> dict[tuple[str, str], int]:
        """Give a bit to each column that a step may write and that all threads read between steps.

        Columns beyond the last bit share `ANY_MEMORY`, that of other memory.
        """
        nodes = ir.walk(steps.uniform(self.unit))
        places = [(n.place.slot, n.place.column) for n in nodes if isinstance(n, ir.Load)]
        found = [p for p in dict.fromkeys(places) if p in self.changed]
        return {p: 1 << k if k <= READ_BITS else ANY_MEMORY for k, p in enumerate(found, 1)}

    def _writes(self, nodes: Iterable[ir.Node]) -> int:
        """The bits of the columns that a step with these nodes may write."""
        written = changed(self.unit, nodes)
        return reduce(or_, (b for p, b in self.read_bits.items() if p in written), ANY_MEMORY)

    def _step(
        self, block: int, number: int, s: ir.Node, clears: Sequence[str],
        functions: Mapping[str, FunctionPlan],
    ) -> StepPlan:  # fmt: skip
        nodes = self._below(s)
        emptied = (s.slot,) if isinstance(s, ir.Foreach) and s.until_empty else ()
        found = StepPlan(
            name=f"{block}_{number}",
            number=number - s.section if isinstance(s, ir.Foreach) else number,
            node=s,
            clears=tuple(dict.fromkeys((*emptied, *clears))),
            resized=tuple(sorted(ir.slots(nodes, "resizes"))),
            can_fail=isinstance(s, ir.Deliver)
            or (isinstance(s, ir.Foreach | ir.OneThread) and any(n.fails for n in nodes)),
            rebuilds=self._rebuilds(nodes),
            stores=frozenset(_stores(ir.walk(s))),
            assigned=frozenset(ir.bound(ir.walk(s)) if isinstance(s, ir.OneThread) else ()),
            reads=self._reads(s),
            writes=self._writes(nodes),
        )
        if isinstance(s, ir.OneThread):
            # atomics may add to sums of the block, which become visible at its next arrival
            sums = any(isinstance(n, ir.Atomic) for n in nodes)
            return replace(
                found, by_master=bool(s.body) and not (sums or found.resized or found.can_fail),
                writes=found.writes | VARIABLES,
            )  # fmt: skip
        if not isinstance(s, ir.Foreach):
            return found
        kernel = self.kernels[s.kernel]
        sharing = functions[s.kernel].sharing if allows_shared_loop(s) else None
        needs = {n.slot for n in nodes if isinstance(n, ir.Need)}
        own_row = sharing is not None and steps.is_own_row(
            s, kernel, sharing.loop.loop, self.stores
        )
        asynchronous = sharing is not None and s.kernel in self.asynchronous and own_row
        knows_rows = asynchronous and steps.knows_row(
            kernel, sharing.loop.loop, self.asynchronous[s.kernel][0],  # type: ignore[union-attr]
            (s.slot, "item") in self.stable[s.kernel],
        )  # fmt: skip
        arrays = functions[s.kernel].group_plan
        listed = own_row and self.stores[s.slot].kind == "collection"
        # other lists with a filter have many rows that are not read
        prefetches = knows_rows or (listed and not asynchronous and not kernel.where)
        return replace(
            found,
            arguments_vary=any(n.varies for n in self._below((*s.args, *s.where_args))),
            sharing=sharing,
            searching=functions[s.kernel].searching if search.allows_shared_search(s) else None,
            group=group_size(s.balance, arrays) if arrays and not s.until_empty else 0,
            own_arrays=arrays is not None and arrays.bytes <= THREAD_BYTES,
            by_warp=s.kernel in self.warp_bodies and allows_warp_execution(s),
            lists_long_rows=sharing is not None and s.balance in BALANCES_WITH_LIST,
            fetch_adds=steps.fetch_adds(self.reached[s.kernel], self.partial_sums),
            own_row=own_row,
            sweeps=sharing is not None and steps.sweeps(s, kernel, sharing.loop, self.unit),
            tiled=sharing is not None
            and not (sharing.preloaded or found.can_fail)
            and steps.tiled(s, kernel, sharing.loop, self.unit),
            knows_rows=knows_rows,
            prefetched=self._prefetched(s, sharing.loop.loop, asynchronous)
            if sharing and prefetches
            else None,
            takes_all=tuple(x for x in self.cached if x in needs),
        )  # fmt: skip

    def _prefetched(self, s: ir.Foreach, loop: Any, asynchronous: bool) -> Prefetched | None:
        """The columns that are prefetched for an item; None for loops over both directions."""
        if loop.direction == "all":
            return None
        graph = next(g for g in self.unit.graphs if g.slot == loop.graph)
        slot = dict(graph.tables)["points"]
        nodes = ir.walk(tuple(self.reached[s.kernel]))
        names = {name for x, name in ir.columns(nodes, "reads", "writes") if x == slot}
        used = [c for c in self.stores[slot].columns if c.name in names]
        found = {c.record if c.record >= 0 else c.name: c.name for c in used}
        nearby = tuple((slot, name) for name in found.values())
        return Prefetched(nearby, () if asynchronous else _needed_at_ends(loop))


def _needed_at_ends(loop: ir.ForEdges) -> tuple[tuple[str, str], ...]:
    """The columns of an entry's other end that a loop tests first, or changes by atomics."""
    first = loop.body[0] if loop.body else None
    tests = ir.walk(first.cond) if isinstance(first, ir.If) else ()
    places = [n.place for n in tests if isinstance(n, ir.Load)]
    places += [n.place for n in ir.walk(loop.body) if isinstance(n, ir.Atomic)]
    rows = [p for p in places if isinstance(p.row, ir.Var) and p.row.name == loop.var]
    return tuple(dict.fromkeys((p.slot, p.column) for p in rows))


def _with_sections(steps: Mapping[int, StepPlan], k: int) -> StepPlan:
    """The section ``k``; the last one has the actions of all sections at their barrier."""
    s = steps[k]
    if not s.has_barrier:
        return s
    parts = [steps[i] for i in range(s.number, k + 1)]
    resized = sorted({x for p in parts for x in p.resized})
    return replace(
        s,
        resized=tuple(resized),
        can_fail=any(p.can_fail for p in parts),
        rebuilds=tuple(sorted({x for p in parts for x in p.rebuilds})),
    )


def _prefetches(body: ir.Body) -> dict[int, tuple[str, str]]:
    """By id, the additions of points whose adjacency bounds are prefetched for a later step.

    Graph and direction are those of the preceding edge loop, if it has one direction.
    """
    found: dict[int, tuple[str, str]] = {}
    loop: ir.ForEdges | None = None
    for n in ir.walk(body):
        if isinstance(n, ir.ForEdges):
            loop = n
        elif loop and loop.direction != "all" and isinstance(n, ir.New | ir.Add):
            item = dict(n.values).get("item")
            if isinstance(item, ir.Var) and item.type == Handle(f"{loop.graph}.points"):
                found[id(n)] = loop.graph, loop.direction
    return found


def total_place(e: ir.Node, rows: Mapping[str, ir.Const]) -> TotalPlace | None:
    """The place that an atomic adds to, if it is a number and the same for all items."""
    if not (isinstance(e, ir.Atomic) and e.op == "add" and e.flag is None):
        return None
    p = e.place
    row = rows.get(p.row.name) if isinstance(p.row, ir.Var) else None
    if not isinstance(p.type, Scalar) or p.type.kind not in "iuf" or p.type.bits < 32:
        return None
    if row is None or not (p.index is None or isinstance(p.index, ir.Const)):
        return None
    index = None if p.index is None else int(p.index.value)
    return p.slot, p.column, int(row.value), index, p.type


def _live(k: ir.Kernel) -> tuple[str, ...]:
    """The locals that are live from gather to commit, including those with the claimed rows."""
    claims = ir.find(k, ir.Claim)
    params = {n for n, _ in k.params}
    found = dict.fromkeys((*k.live, *sorted(ir.used(claims))))
    return tuple(n for n in found if n not in params)


def _stores(nodes: Iterable[ir.Node]) -> set[str]:
    """The stores whose fields in the argument block a text uses."""
    found = [n for n in nodes if n.arguments in NAMES_STORE]
    found = [n for n in found if not (isinstance(n, ir.Need) and n.local)]
    return {n.slot for n in found}  # type: ignore[attr-defined]
