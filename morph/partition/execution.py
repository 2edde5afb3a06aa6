"""`foreach` on a partitioned graph: a launch on each part, and the exchanges that its unit needs.

A step brings the mirrors up to date that the kernel reads, launches the kernel on all parts,
combines what they wrote into mirrors with the values of the owners, and delivers messages.  A
program is one launch on each part (see `persistent`), or runs as plain Python, launch by launch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from morph.compiler.partitioning.derivation import Message, Partitioning, derive, describe
from morph.compiler.partitioning.replicated import Agreement
from morph.data.versions import latest
from morph.language.bundles import flat
from morph.language.messages import shortened
from morph.language.weak import WeakMap
from morph.launch import lookup
from morph.launch.binding import Request, Where, captured
from morph.launch.compiled import Compiled
from morph.launch.interpreted import InterpretedLaunch
from morph.launch.kernels import Launchable
from morph.launch.launcher import Launch
from morph.launch.slots import Slots
from morph.partition.collection import PartitionedCollection
from morph.partition.graph import PartitionedGraph, PerformanceWarning
from morph.partition.messages import received_messages, sent_messages
from morph.partition.objects import (
    Call,
    LaunchOnParts,
    common_graph,
    derived_unit,
    filter_key_on_parts,
    filter_of_part,
    is_divided,
    key_of,
    of_part,
    owners_of,
    sizes_of,
    store_of,
)
from morph.partition.persistent import PersistentProgram
from morph.partition.programs import BySteps, program_on_parts
from morph.partition.replicated import TableOfParts
from morph.partition.routes import OPERATIONS
from morph.partition.shared import shared_by
from morph.partition.transport import error_texts, raise_any
from morph.partition.views import PartitionedRange

SMALL = 16  # values of a replicated column; up to so many are written by one launch for all


def launch_on_parts(
    what: Launchable, items: Any, args: tuple[Any, ...], where: Where, key: Any, *options: Any
) -> PartitionedLaunch | PersistentProgram | None:
    """Find or make the launch of a kernel or program on parts.  None: run launch by launch.

    Parameters
    ----------
    what, items, args, where, *options
        As in `morph.launch.lookup.launch_for`; some of the objects are in parts.
    key : tuple
        The key under which `launch_for` looks up the launch of a program.

    Raises
    ------
    LanguageError
        If the kernel is not in the language, or cannot run on parts.
    TypeError
        If an object is not in the same parts.
    """
    if items is not None:
        key = ("parts", key_of(items), *map(key_of, flat(args)), *options)
        key = (*key, *filter_key_on_parts(where))
        key = (*key, *(repr(args[i]) for i in what.statics if i < len(args)))
        known: Any = what.launches.get(key)
        if known is not None and known.fits():
            return known  # type: ignore[no-any-return]
    objects = (*(() if items is None else (items,)), *flat(args), *captured(where))
    graph = common_graph(what, objects)
    rows = any(map(is_divided, flat(args)))  # only plain Python on the host can read them
    if what.kind == "program" and (rows or not options):  # checked, then run step by step
        lookup.accept(what, of_part(args, graph.here[0]))
        return None
    with graph._lock:
        found: Any = what.launches.get(key)
        if found is None or not found.fits():
            what.launches.pop(key, None)
            while len(what.launches) >= lookup.MOST_LAUNCHES:
                del what.launches[next(iter(what.launches))]
            call = Call(what, items, args, where, options)
            made = PartitionedLaunch if what.kind == "kernel" else program_on_parts
            found = what.launches[key] = made(graph, call)
            found.forgotten = ref(graph, partial(what.launches.pop, key))
    return None if isinstance(found, BySteps) else found


class Derived(NamedTuple):
    """The result of the derivation: the exchanges, and the units of the parts and of receivers."""

    partitioning: Partitioning
    local: Compiled
    receiving: tuple[Compiled, ...]


@dataclass(frozen=True, slots=True)
class PartStep:
    """The launches of one part for a step.

    Attributes
    ----------
    number : int
        Of the part.
    launch : Launch
        Of the kernel over the part's own items.
    receiving : tuple of Launch
        For each kind of message, that over the messages that the part has received.
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


class Report(NamedTuple):
    """The values that a part sends to all others after its launch.

    Attributes
    ----------
    error : str or None
        Of the launch on this part.  If a part of its process has one, the lists are empty.
    headers : list of Header
        See `Transport.header`: of each column that is combined at mirrors, then of each message.
    boxes : list of int
        The numbers of items of each message, to all parts together.
    items : list of int
        The lengths of its share of each `PartitionedCollection`.
    replicated : list of bytes
        The values of each total.
    flags : list of bool
        Which flags are raised on it.
    """

    error: str | None
    headers: list[Any]
    boxes: list[int]
    items: list[int]
    replicated: list[bytes]
    flags: list[bool]


class PartitionedLaunch(LaunchOnParts):
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
                owners = owners_of(k, graph, call, slots)
                self.objects = {slot: ref(x) for slot, x in owners.items()}
            self.parts.append(_part(k, graph, call, derived, slots))
        for x in self.partitioning.copies:
            names = shortened(", ".join(f"{x.of}.{name}" for name in x.columns), 80)
            text = f"{self._name} uses points by number: each step sends {names} to all parts"
            warnings.warn(text, PerformanceWarning, stacklevel=7)

    @property
    def graph(self) -> PartitionedGraph:
        """The partitioned graph."""
        graph = self._graph()
        assert graph is not None
        return graph

    @property
    def text(self) -> str:
        """The C++ of the kernel and of the receivers of messages, after what is exchanged."""
        found = self.partitioning
        lines = ["between the parts:", *describe(found)]
        if found.spreads and self.graph.transport.network:
            lines.append("of mirrors all values are sent, or a list of those that have changed")
        first = self.parts[0]
        texts = [x.compiled.text for x in (first.launch, *first.receiving)]
        return "".join(f"// {line}\n" for line in lines) + "\n".join(texts)

    def fits(self) -> bool:
        """Whether the units still fit the objects and the captured values."""
        if self._graph() is None or any(x() is None for x in self.objects.values()):
            return False
        return all(x.fits() for p in self.parts for x in (p.launch, *p.receiving))

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
        graph, shared = self.graph, shared_by(self.graph)
        with graph._lock:
            shared.begin()
            try:
                shared.running = True
                self._step(graph, args, where)
                shared.failed = False
            finally:
                shared.running = False
                if shared.failed:
                    shared.fail(x() for x in self.objects.values())

    def _step(self, graph: PartitionedGraph, args: tuple[Any, ...], where: Where) -> None:
        found, shared = self.partitioning, shared_by(graph)
        numbers = (x for x in args if isinstance(x, int | float | np.generic))
        graph.transport.begin("foreach", self._name, *numbers)
        if self.changes != graph.changes:
            self.changes = graph.changes
            self.parts = [
                replace(p, sizes=sizes_of(p.number, graph, found.hidden)) for p in self.parts
            ]
        graph._steps += 1
        self._set_lengths(None)
        self._prepare_mirrors()
        before, operations = self._replicated_values(), dict[tuple[str, str], str]()
        try:
            errors = self._launch(lambda p: p.launch.run((*args, *p.sizes), where))
            sent = {} if any(errors.values()) else self._to_send()
            reports = self._reports(errors, sent)
            self._forget(found.mirrored)
            reports = self._exchange(sent, reports, args, where)
            # not after an error: mirrors may have values not sent to owners
            operations.update(found.sole_operations)
        except BaseException:
            self._forget(found.writes)
            raise
        finally:
            self._clear_boxes()
            for slot, column in found.writes:
                self._table(slot)._stale.add(column, operations.get((slot, column), ""))
        self._set_lengths(reports)
        if found.replicated or found.flags:
            self._agree(before, reports)
        for x in found.copies:
            shared.take_back(graph.points, x.columns, x.changed)

    def _to_send(self) -> dict[int, list[Any]]:
        """For each part, its mirrors that are combined, then its messages, by receiving part."""
        graph, found = self.graph, self.partitioning
        sent = {}
        for p in self.parts:
            k = p.number
            combined = [self._table(c.slot)._routes.at_mirrors(k, c.column) for c in found.combines]
            boxes = [(m, p.object(m.slot)) for m in found.messages]
            messages = [
                sent_messages(graph, k, box.table.name, box, [c.name for c in m.columns], m.own)
                for m, box in boxes
            ]
            sent[k] = [*combined, *messages]
        return sent

    def _reports(
        self, errors: Mapping[int, BaseException | None], sent: Mapping[int, Sequence[Any]]
    ) -> list[Report]:
        """Send the report of each part to all; raise an error of a part in all processes."""
        graph, found, texts, reports = self.graph, self.partitioning, error_texts(errors), {}
        for p in self.parts:
            k, failed = p.number, any(errors.values())
            report = Report(texts[k], [], [], [], [], [])
            if not failed:
                headers = [graph.transport.header(messages) for messages in sent.get(k, ())]
                boxes = [len(p.object(m.slot)) for m in found.messages]
                items = [len(x.local(k)) for x in self._lists()]
                flags = [bool(p.object(slot)) for slot in found.flags]
                values = [a.tobytes() for a in self._replicated_values_of(p)]
                report = Report(None, headers, boxes, items, values, flags)
            reports[k] = tuple(report)  # pickled in less time than a named tuple
        gathered = [Report(*x) for x in graph.transport.gather(reports)]
        raise_any(errors, [x.error for x in gathered])
        return gathered

    def _exchange(
        self, sent: Mapping[int, Sequence[Any]], reports: list[Report], args: Any, where: Where
    ) -> list[Report]:
        """Combine the values at mirrors, and execute messages; return the reports after that."""
        found = self.partitioning
        for i, c in enumerate(found.combines):
            offers = {k: x[i] for k, x in sent.items()}
            self._table(c.slot)._routes.combine(
                c.column, c.op, offers, [r.headers[i] for r in reports]
            )
        first, errors = len(found.combines), dict[int, BaseException | None]()
        for i, message in enumerate(found.messages):
            if any(r.boxes[i] for r in reports):
                messages = {k: x[first + i] for k, x in sent.items()}
                headers = [r.headers[first + i] for r in reports]
                for k, error in self._deliver(i, message, messages, headers, args, where).items():
                    errors[k] = errors.get(k) or error
        return self._reports(errors, {}) if errors else reports

    def _lists(self) -> list[PartitionedCollection]:
        """The partitioned collections among the objects."""
        return [x for x in (r() for r in self.objects.values()) if type(x) is PartitionedCollection]

    def _set_lengths(self, reports: Sequence[Report] | None) -> None:
        """Store the lengths of the collections; they are unknown during the step."""
        for i, x in enumerate(self._lists()):
            x.set_length(None if reports is None else sum(r.items[i] for r in reports))

    def _forget(self, columns: Iterable[tuple[str, str]]) -> None:
        """Send all values of columns at their next spread: mirrors have changed."""
        for slot, column in columns:
            self._table(slot)._routes.forget(column)

    def _table(self, slot: str) -> Any:
        """The points or edges of all parts that fill a slot."""
        return self.objects[slot]()

    def _prepare_mirrors(self) -> None:
        """Bring mirrors up to date; those to which the step adds become 0."""
        bounds = self.partitioning.bounds
        for slot, column in self.partitioning.spreads:
            self._table(slot)._refresh(column, bounds.get((slot, column), ""))
        for c in self.partitioning.combines:
            if c.op == "add":
                self._table(c.slot)._routes.fill(c.column, 0)
        for x in self.partitioning.copies:
            shared_by(self.graph).copy_all(self.graph.points, x.columns)

    def _launch(self, run: Callable[[PartStep], None]) -> dict[int, BaseException | None]:
        """Launch on all parts of this process; return the errors when all have ended."""
        numbered = {p.number: p for p in self.parts}
        return self.graph.run_parts(lambda k: run(numbered[k]))

    def _deliver(
        self, i: int, message: Message, sent: Any, headers: Any, args: Any, where: Where
    ) -> dict[int, BaseException | None]:
        """Send messages of one kind to the owners of their items, which execute them.

        Returns the error of each part of this process.
        """
        graph = self.graph
        received = graph.transport.exchange(sent, headers)
        columns = [c.name for c in message.columns]
        points = [name in message.points for name in columns]

        def receive(p: PartStep) -> None:
            box = p.object(message.slot)
            items = received_messages(graph, p.number, box.table.name, received[p.number], points)
            box.clear()
            box.extend(**dict(zip(("item", *columns), items, strict=True)))
            if len(box):
                p.receiving[i].run((*args, *p.sizes), where)

        return self._launch(receive)

    def _clear_boxes(self) -> None:
        """Remove all messages, also those that an error has left."""
        for message in self.partitioning.messages:
            for p in self.parts:
                p.object(message.slot).clear()

    # --- replicated values -----------------------------------------------------------------------

    def _replicated_values(self) -> list[Any]:
        """The replicated values, which are equal in all parts."""
        return self._replicated_values_of(self.parts[0])

    def _replicated_values_of(self, p: PartStep) -> list[Any]:
        """The replicated values of one part."""
        columns = [getattr(p.object(t.slot), t.column) for t in self.partitioning.replicated]
        return [np.array(p.launch.device.to_host(x.array)) for x in columns]

    def _agree(self, before: list[Any], reports: Sequence[Report]) -> None:
        """Combine the copies of replicated columns to one value in all parts."""
        found = self.partitioning
        agreed = []
        for i, (t, x) in enumerate(zip(found.replicated, before, strict=True)):
            after = [np.frombuffer(r.replicated[i], x.dtype).reshape(x.shape) for r in reports]
            agreed.append(_agreed(t.op, x, after))
        for p in self.parts:
            small, device = [], p.launch.device
            for t, values in zip(found.replicated, agreed, strict=True):
                array = getattr(p.object(t.slot), t.column).array
                if array.ndim == 1 and array.size <= SMALL:
                    small.append((array, values))
                else:
                    with device.active():
                        array[...] = device.asarray(values)
            device.put(*small)
        for i, slot in enumerate(found.flags):
            if any(r.flags[i] for r in reports):
                for p in self.parts:
                    p.object(slot).set()


def _agreed(op: Agreement, before: Any, after: list[Any]) -> Any:
    """The value of a total after a step, see `agreed` in kernels/schedule/parts.h."""
    summed = Agreement.ADD if op == Agreement.SUM else op
    agreed, combine = after[0], OPERATIONS.get(summed)
    for a in after[1:]:
        if op == Agreement.SET:
            same = (agreed == before) | (agreed != agreed) & (before != before)  # NaN, too
            agreed = np.where(same, a, agreed)
        elif op == Agreement.ADD:
            # without infinity - infinity, which is NaN
            agreed = agreed + np.subtract(a, before, out=np.zeros_like(a), where=a != before)
        elif combine is not None:
            agreed = combine(np, agreed, a)
    return agreed


def _derived(k: int, graph: PartitionedGraph, call: Call) -> tuple[Derived, Slots]:
    """The step as derived for part k, and its objects."""
    together, balance, checked, until_empty = call.options
    items = store_of(call.items)
    bounded = items is not call.items and isinstance(call.items, PartitionedRange)
    compiled, slots = lookup.accepted(Request(
        call.what, of_part(items, k), of_part(call.args, k), filter_of_part(call.where, k),
        graph.local(k).device, together, balance, checked, until_empty, bounded,
    ))  # fmt: skip
    of_parts = [x.local(k) for x in (items, *flat(call.args)) if isinstance(x, TableOfParts)]
    local = frozenset(s for s, x in slots.objects.items() if any(x is t for t in of_parts))
    known = _derivations.setdefault(compiled, {})
    if local not in known:
        graphs = {slot for slot, x in slots.objects.items() if x is graph.local(k)}
        found, first = derive(compiled.unit, graphs, local), 2 * bounded
        given = (found.unit, *(m.unit for m in found.messages))
        units = [derived_unit(compiled, unit, found.hidden, call, first) for unit in given]
        known[local] = Derived(found, units[0], tuple(units[1:]))
    return known[local], slots


# of units, by the tables of which each part has its own rows
_derivations: WeakMap[Compiled, dict[frozenset[str], Derived]] = WeakMap()


def _part(k: int, graph: PartitionedGraph, call: Call, derived: Derived, slots: Slots) -> PartStep:
    """Bind the launches of one part."""
    for message in derived.partitioning.messages:
        store = next(s for s in message.unit.stores if s.slot == message.slot)
        table = slots.objects[str(store.columns[0].ref)]
        box = shared_by(graph).box(k, table, message.slot, message.columns)
        slots.objects[message.slot] = box
    for x in derived.partitioning.copies:
        slots.objects[x.slot] = shared_by(graph).all_rows(k, graph.points, x.columns)
    bound = InterpretedLaunch if derived.local.device.interprets else Launch
    launches = [bound(call.what, unit, slots) for unit in (derived.local, *derived.receiving)]
    for launch in launches:
        launch.types_epoch = latest.epoch
    sizes = sizes_of(k, graph, derived.partitioning.hidden)
    return PartStep(k, launches[0], tuple(launches[1:]), sizes)
