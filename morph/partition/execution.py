"""`foreach` on a graph in parts: a launch on each part, and the exchanges that its unit needs.

A step brings the mirrors up to date that the kernel reads, launches the kernel on all parts,
combines what they wrote into mirrors with the values of the owners, and delivers messages.  A
program is one launch on each part (see `persistent`), or runs as plain Python, launch by launch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.layout import MOST_PARTS
from morph.compiler.passes.partitioned_program import (
    NeedsSteps,
    PartitionedProgram,
    derive_program,
)
from morph.compiler.passes.partitioning import Hidden, Message, Partitioning, derive, describe
from morph.data.row import Row
from morph.data.versions import latest
from morph.language.bundles import flat, is_bundle
from morph.language.errors import LanguageError
from morph.launch import lookup
from morph.launch.binding import Compiled, Request, Where, closure_key, filter_key
from morph.launch.kernels import Launchable
from morph.launch.launcher import InterpretedLaunch, Launch
from morph.launch.slots import OBJECTS, VIEWS, Slots, in_parts, owner
from morph.partition.graph import PartitionedGraph
from morph.partition.messages import received_messages, sent_messages
from morph.partition.parts import DIVIDED
from morph.partition.persistent import PersistentProgram
from morph.partition.routes import OPERATIONS
from morph.partition.shared import shared_by
from morph.partition.tables import (
    PartitionedColumn,
    PartitionedRange,
    PartitionedRow,
    ReplicatedScalars,
    TableOfParts,
)

# whether a program on several GPUs is one launch on each, which no GPU has executed yet
persistent_on_gpus = os.environ.get("MORPH_PERSISTENT", "") not in ("", "0")


class Call(NamedTuple):
    """A call of ``foreach``; ``options`` are the last arguments of `lookup.launch_for`."""

    what: Launchable
    items: Any
    args: tuple[Any, ...]
    where: Where
    options: tuple[Any, ...]


def launch_on_parts(
    what: Launchable, items: Any, args: tuple[Any, ...], where: Where, *options: Any
) -> PartitionedLaunch | PersistentProgram | None:
    """Find or make the launch of a kernel or program on parts.  None: run launch by launch.

    Parameters
    ----------
    what, items, args, where, *options
        As in `morph.launch.lookup.launch_for`; some of the objects are in parts.

    Raises
    ------
    LanguageError
        If the kernel is not in the language, or cannot run on parts.
    TypeError
        If an object is not in the same parts.
    """
    graph = _common_graph(what, (*(() if items is None else (items,)), *flat(args)))
    rows = any(map(_is_divided, flat(args)))  # for the host only
    if what.kind == "program" and (rows or not options):  # it is only accepted
        lookup.accept(what, _local(args, graph.here[0]))
        return None
    key = ("parts", _key(items), *map(_key, flat(args)), *options)
    key = (*key, *(filter_key(where) if where else ()), closure_key(where))
    key = (*key, *(repr(args[i]) for i in what.statics if i < len(args)))
    with graph._lock:
        found: Any = what.launches.get(key)
        if found is None or not found.fits():
            what.launches.pop(key, None)
            while len(what.launches) >= lookup.MOST_LAUNCHES:
                del what.launches[next(iter(what.launches))]
            call = Call(what, items, args, where, options)
            made = PartitionedLaunch if what.kind == "kernel" else _program
            found = what.launches[key] = made(graph, call)
    return None if isinstance(found, LaunchByLaunch) else found


class LaunchByLaunch:
    """A program that parts execute launch by launch, and why."""

    def __init__(self, why: str) -> None:
        self.text = f"// launch by launch: {why}\n"

    @property
    def compiled(self) -> LaunchByLaunch:
        """The object whose text `Launchable.source` gives."""
        return self

    def edit(self, text: str) -> None:
        """Refuse: there is no text."""
        raise ValueError("the text of a launch on parts cannot be replaced")

    def fits(self) -> bool:
        """No: a later call looks for one launch of each part again."""
        return False

    def by_steps(self) -> bool:
        """Whether the program runs launch by launch."""
        return True


def _program(graph: PartitionedGraph, call: Call) -> PersistentProgram | LaunchByLaunch:
    """The launch of a program on all parts, or why there is none."""
    try:
        _refuse_devices(graph)
        if any(isinstance(x, TableOfParts) for x in flat(call.args)):
            raise NeedsSteps("each part has rows of its own in a table")
    except NeedsSteps as why:
        lookup.accept(call.what, _local(call.args, graph.here[0]))
        return LaunchByLaunch(str(why))
    try:
        found = [_derived_program(k, graph, call) for k in graph.here]
        program = found[0][0]
        if any(p is not program and p.unit != program.unit for p, _, _ in found):
            raise NeedsSteps("tables of parts differ in their layout")
        _owners(graph.here[0], graph, call, found[0][2])
        sizes = [_sizes(k, graph, program.hidden) for k in graph.here]
        parts = [(compiled, slots) for _, compiled, slots in found]
        return PersistentProgram(graph, call.what, program, parts, sizes)
    except NeedsSteps as why:
        return LaunchByLaunch(str(why))


def _refuse_devices(graph: PartitionedGraph) -> None:
    """Refuse graphs whose parts cannot execute a program together."""
    devices = graph.devices
    if len(graph.here) < len(devices):
        raise NeedsSteps("parts lie in other processes")
    if graph.recorder is not None:
        raise NeedsSteps("a checkpoint records single launches")
    if graph.changes:
        raise NeedsSteps("the graph has changed since it was divided")
    if len(devices) > MOST_PARTS:
        raise NeedsSteps(f"there are more than {MOST_PARTS} parts")
    if any(d.interprets for d in devices):
        raise NeedsSteps("a part is interpreted")
    gpus = {d.name for d in devices if not d.on_host}
    if gpus and len(gpus) < len(devices):
        raise NeedsSteps("not every part has a GPU of its own")
    if gpus and not persistent_on_gpus:
        raise NeedsSteps("on GPUs this is not tested yet: MORPH_PERSISTENT=1 allows it")


def _derived_program(
    k: int, graph: PartitionedGraph, call: Call
) -> tuple[PartitionedProgram, Compiled, Slots]:
    """What part k executes of a program, and its objects."""
    compiled, slots = lookup.accepted(
        Request(call.what, None, _local(call.args, k), None, graph.local(k).device)
    )
    if compiled not in _programs:
        graphs = {slot for slot, x in slots.objects.items() if x is graph.local(k)}
        rows = [x.local(k).table for x in flat(call.args) if isinstance(x, ReplicatedScalars)]
        one = {slot for slot, x in slots.objects.items() if any(x is t for t in rows)}
        try:
            program = derive_program(compiled.unit, graphs, one)
            made = _compiled(compiled, program.unit, program.hidden, call)
            _programs[compiled] = program, made
        except (NeedsSteps, LanguageError) as error:
            _programs[compiled] = getattr(error, "problem", str(error))
    known = _programs[compiled]
    if isinstance(known, str):
        raise NeedsSteps(known)
    return *known, slots


_programs: WeakKeyDictionary[Compiled, tuple[PartitionedProgram, Compiled] | str]
_programs = WeakKeyDictionary()


def _compiled(
    known: Compiled, unit: ir.Unit, hidden: Sequence[Hidden], call: Call, more: int = 0
) -> Compiled:
    """A derived unit; ``hidden`` values follow the arguments of the call, and so many ``more``."""
    first = len(flat(call.args)) + more
    getters = dict(known.getters)
    getters.update((h.name, first + i) for i, h in enumerate(hidden))
    made = Compiled(unit, getters, known.device, known.interruptible)
    made.dependencies = known.dependencies
    return made


class Derived(NamedTuple):
    """What is derived from a unit: the exchanges, and the units of the parts and of receivers."""

    partitioning: Partitioning
    local: Compiled
    receiving: tuple[Compiled, ...]


@dataclass(frozen=True, slots=True)
class PartStep:
    """What one part executes in a step.

    Attributes
    ----------
    number : int
        Of the part.
    launch : Launch
        Of the kernel over the part's own items.
    receiving : tuple of Launch
        For each kind of messages, what runs over those that the part has received.
    sizes : tuple of int
        Further arguments of the launches: sizes of the graph and of the part.
    """

    number: int
    launch: Launch
    receiving: tuple[Launch, ...]
    sizes: tuple[int, ...]

    def object(self, slot: str) -> Any:
        """The part's object in a slot."""
        return self.launch.refs[slot]()


class PartitionedLaunch:
    """One kernel on the parts of a graph, with the exchanges that it needs.

    The references to the graph and its objects are weak.
    """

    def __init__(self, graph: PartitionedGraph, call: Call) -> None:
        self._graph, self._name, self.changes = ref(graph), call.what.__name__, graph.changes
        self.parts: list[PartStep] = []
        for k in graph.here:
            derived, slots = _derived(k, graph, call)
            if not self.parts:
                self.partitioning = derived.partitioning
                owners = _owners(k, graph, call, slots)
                self.objects = {slot: ref(x) for slot, x in owners.items()}
            self.parts.append(_part(k, graph, call, derived, slots))

    @property
    def graph(self) -> PartitionedGraph:
        """The partitioned graph."""
        graph = self._graph()
        assert graph is not None
        return graph

    @property
    def compiled(self) -> PartitionedLaunch:
        """The object whose text `Launchable.source` gives."""
        return self

    @property
    def text(self) -> str:
        """The C++ of the kernel and of the receivers of messages, after what is exchanged."""
        lines = ["between the parts:", *describe(self.partitioning)]
        first = self.parts[0]
        texts = [x.compiled.text for x in (first.launch, *first.receiving)]
        return "".join(f"// {line}\n" for line in lines) + "\n".join(texts)

    def edit(self, text: str) -> None:
        """Refuse: the parts run several units."""
        raise ValueError("the text of a launch on parts cannot be replaced")

    def fits(self) -> bool:
        """Whether the units still fit the objects and the captured values."""
        if self._graph() is None or any(x() is None for x in self.objects.values()):
            return False
        return all(x.fits() for p in self.parts for x in (p.launch, *p.receiving))

    def by_steps(self) -> bool:
        """No: only programs run launch by launch."""
        return False

    def run(self, args: tuple[Any, ...], where: Where) -> None:
        """Run the step, or let a `checkpoint` do so.

        Raises
        ------
        PartError
            If a part of another process has failed.
        """
        recorder = self.graph.recorder
        if recorder is None:
            self._run(args, where)
        else:
            recorder.step(self._name, lambda: self._run(args, where))

    def _run(self, args: tuple[Any, ...], where: Where) -> None:
        """Run the step."""
        found, graph = self.partitioning, self.graph
        with graph._lock:
            numbers = (x for x in args if isinstance(x, int | float | np.generic))
            graph.transport.begin("foreach", self._name, *numbers)
            graph.transport.gather(dict.fromkeys(graph.here))
            if self.changes != graph.changes:
                self.changes = graph.changes
                self.parts = [
                    replace(p, sizes=_sizes(p.number, graph, found.hidden)) for p in self.parts
                ]
            graph._steps += 1
            self._prepare_mirrors()
            before = self._totals()
            try:
                self._launch(lambda p: p.launch.run((*args, *p.sizes), where))
                for c in found.combines:
                    self._table(c.slot)._routes.combine(c.column, c.op)
                for i, message in enumerate(found.messages):
                    self._deliver(i, message, args, where)
            finally:
                for slot, column in found.writes:
                    self._table(slot)._stale.add(column)
            if found.totals or found.flags:
                self._agree(before)

    def _table(self, slot: str) -> Any:
        """The points or edges of all parts that fill a slot."""
        return self.objects[slot]()

    def _prepare_mirrors(self) -> None:
        """Bring mirrors up to date; those to which the step adds become 0."""
        for slot, column in self.partitioning.spreads:
            self._table(slot)._refresh(column)
        for c in self.partitioning.combines:
            if c.op == "add":
                self._table(c.slot)._routes.fill(c.column, 0)

    def _launch(self, run: Callable[[PartStep], None]) -> None:
        """Launch on all parts of this process; raise an error of any part when all have ended."""
        numbered = {p.number: p for p in self.parts}
        self.graph.each_part(lambda k: run(numbered[k]))

    def _deliver(self, i: int, message: Message, args: tuple[Any, ...], where: Where) -> None:
        """Send the messages of one kind to the owners of their items, and let these run them."""
        graph = self.graph
        boxes = {p.number: p.object(message.slot) for p in self.parts}
        if not any(graph.transport.gather({k: len(box) for k, box in boxes.items()})):
            return
        columns = [c.name for c in message.columns]
        try:
            table = next(iter(boxes.values())).table.name
            sent = {k: sent_messages(graph, k, table, box, columns) for k, box in boxes.items()}
            received = graph.transport.exchange(sent)
            points = [name in message.points for name in columns]

            def receive(p: PartStep) -> None:
                box = boxes[p.number]
                found = received_messages(graph, p.number, table, received[p.number], points)
                box.clear()
                box.extend(**dict(zip(("item", *columns), found, strict=True)))
                if len(box):
                    p.receiving[i].run((*args, *p.sizes), where)

            self._launch(receive)
        finally:
            for box in boxes.values():
                box.clear()

    # --- what every part has whole ---------------------------------------------------------------

    def _totals(self) -> list[list[Any]]:
        """The values of the totals, of each part of this process."""
        return [
            [
                np.array(p.launch.device.to_host(getattr(p.object(t.slot), t.column).array))
                for t in self.partitioning.totals
            ]
            for p in self.parts
        ]

    def _agree(self, before: list[list[Any]]) -> None:
        """Give all parts one value of what every part has whole."""
        found = self.partitioning
        raised = [[bool(p.object(slot)) for slot in found.flags] for p in self.parts]
        values = zip(self._totals(), raised, strict=True)
        parts = self.graph.transport.gather(dict(zip(self.graph.here, values, strict=True)))
        for i, t in enumerate(found.totals):
            agreed = _agreed(t.op, before[0][i], [totals[i] for totals, _ in parts])
            for p in self.parts:
                with p.launch.device.active():
                    array = getattr(p.object(t.slot), t.column).array
                    array[...] = p.launch.device.asarray(agreed)
        for i, slot in enumerate(found.flags):
            if any(flags[i] for _, flags in parts):
                for p in self.parts:
                    p.object(slot).set()


def _agreed(op: str, before: Any, after: list[Any]) -> Any:
    """The value of a total after a step, see `agreed` in kernels/schedule/parts.h."""
    agreed, combine = after[0], OPERATIONS.get("add" if op == "sum" else op)
    for a in after[1:]:
        if op == "set":
            same = (agreed == before) | (agreed != agreed) & (before != before)  # NaN, too
            agreed = np.where(same, a, agreed)
        elif op == "add":
            # infinity less itself is not a number
            agreed = agreed + np.subtract(a, before, out=np.zeros_like(a), where=a != before)
        elif combine is not None:
            agreed = combine(np, agreed, a)
    return agreed


# --- objects of parts ----------------------------------------------------------------------------


def _key(x: Any) -> Any:
    """The property of an argument that its launch depends on."""
    if isinstance(x, PartitionedColumn):
        return id(x.table), x.name
    if isinstance(x, PartitionedRow):
        return id(x.table), "row"
    if isinstance(x, PartitionedRange):
        return id(x.store), "slice"
    return id(x) if in_parts(x) or callable(x) else type(x)


def _held(x: Any) -> Any:
    """The table of a column, a row or a slice of a table that every part has; other objects."""
    if isinstance(x, PartitionedRange) and x.store.name not in DIVIDED:
        return x.store
    return x.table if isinstance(x, PartitionedColumn | PartitionedRow) else x


def _common_graph(what: Launchable, objects: tuple[Any, ...]) -> PartitionedGraph:
    """The graph of all objects among the arguments."""
    name, graphs = what.__name__, []
    for x in filter(in_parts, objects):
        x = _held(x)
        if isinstance(x, PartitionedRange):
            hint = "use a filter: where=lambda p: p.id < n"
            raise TypeError(f"foreach takes no slice of the {x.store.name} of parts: {hint}")
        graphs.append(x if isinstance(x, PartitionedGraph) else x.graph)
    for x in objects:
        if isinstance(x, (*OBJECTS, *VIEWS)):
            place = owner(x).device.name
            raise TypeError(f"{x!r} is on {place}, but the launch is on {graphs[0]!r}")
        if what.kind == "kernel" and _is_divided(x):
            raise TypeError(f"{name} takes no row of a partitioned table: pass its id")
    if any(g is not graphs[0] for g in graphs):
        raise TypeError(f"{name} takes objects of one partitioned graph, not of several")
    found: PartitionedGraph = graphs[0]
    return found


def _local(x: Any, k: int) -> Any:
    """An argument as part k has it; of a bundle, and of arguments, all of them."""
    if isinstance(x, tuple):
        fields = [_local(a, k) for a in x]
        return type(x)(*fields) if is_bundle(type(x)) else tuple(fields)
    if _is_divided(x):
        return Row(x.table.local(k), 0)  # of a program, which is only checked
    return x.local(k) if in_parts(x) else x


def _is_divided(x: Any) -> bool:
    """Whether an argument is a row of the points or edges."""
    return isinstance(x, PartitionedRow) and x.table.name in DIVIDED


def _derived(k: int, graph: PartitionedGraph, call: Call) -> tuple[Derived, Slots]:
    """What part k launches, and its objects."""
    together, balance, checked, until_empty = call.options
    items = _held(call.items)
    bounded = items is not call.items and isinstance(call.items, PartitionedRange)
    compiled, slots = lookup.accepted(Request(
        call.what, _local(items, k), _local(call.args, k), call.where, graph.local(k).device,
        together, balance, checked, until_empty, bounded,
    ))  # fmt: skip
    of_parts = [x.local(k) for x in (items, *flat(call.args)) if isinstance(x, TableOfParts)]
    local = frozenset(s for s, x in slots.objects.items() if any(x is t for t in of_parts))
    known = _derivations.setdefault(compiled, {})
    if local not in known:
        graphs = {slot for slot, x in slots.objects.items() if x is graph.local(k)}
        found, first = derive(compiled.unit, graphs, local), 2 * bounded
        given = (found.unit, *(m.unit for m in found.messages))
        units = [_compiled(compiled, unit, found.hidden, call, first) for unit in given]
        known[local] = Derived(found, units[0], tuple(units[1:]))
    return known[local], slots


# of units, by the tables of which each part has its own rows
_derivations: WeakKeyDictionary[Compiled, dict[frozenset[str], Derived]] = WeakKeyDictionary()


def _part(k: int, graph: PartitionedGraph, call: Call, derived: Derived, slots: Slots) -> PartStep:
    """Bind the launches of one part."""
    for message in derived.partitioning.messages:
        store = next(s for s in message.unit.stores if s.slot == message.slot)
        table = slots.objects[str(store.columns[0].ref)]
        box = shared_by(graph).box(k, table, message.slot, message.columns)
        slots.objects[message.slot] = box
    bound = InterpretedLaunch if derived.local.device.interprets else Launch
    launches = [bound(call.what, unit, slots) for unit in (derived.local, *derived.receiving)]
    for launch in launches:
        launch.checked = latest.epoch
    sizes = _sizes(k, graph, derived.partitioning.hidden)
    return PartStep(k, launches[0], tuple(launches[1:]), sizes)


def _owners(k: int, graph: PartitionedGraph, call: Call, slots: Slots) -> dict[str, Any]:
    """The objects in parts, by slot."""
    known: dict[int, Any] = {id(graph.local(k)): graph}
    known |= {id(t.local(k)): t for t in graph.tables.values()}
    for x in filter(in_parts, (call.items, *flat(call.args))):
        x = _held(x)
        known[id(x.local(k))] = x
    for slot, x in slots.objects.items():
        if id(x) not in known and slot not in slots.arrays:
            raise TypeError(f"{x!r} is on {x.device.name}, but the launch is on {graph!r}")
    return {slot: known[id(x)] for slot, x in slots.objects.items() if id(x) in known}


def _sizes(k: int, graph: PartitionedGraph, hidden: Sequence[Hidden]) -> tuple[int, ...]:
    """The values of the hidden arguments of part k."""
    return tuple(_size(h, graph, k) for h in hidden)


def _size(hidden: Hidden, graph: PartitionedGraph, k: int) -> int:
    """The value of a hidden argument of part k."""
    name = hidden.what.removeprefix("owned_")
    table = graph.tables[name]
    if name == hidden.what:
        return len(table)
    part = graph.parts[k]
    assert part is not None
    if name == "edges" and part.changed is not None:
        return len(part.graph.edges)
    return part.share(name).owned
