"""Programs that all parts of a graph execute together: one launch of each part.

The launches meet at crossings (``kernels/schedule/parts.h``), where they store into each other's
memory (`morph.partition.launches`).  Where items could not reserve capacity in one part, the host
grows the stores there and starts all again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import ref

import numpy as np

from morph.compiler.ir import abi
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.abi import Status
from morph.compiler.ir.layout import GLOBAL, MOST_PARTS, Equal, Parts, Route
from morph.compiler.partitioning.program import (
    NeedsSteps,
    PartitionedProgram,
    describe_program,
)
from morph.data.table import Table
from morph.data.versions import latest
from morph.launch.binding import Where
from morph.launch.compiled import Compiled
from morph.launch.kernels import Launchable
from morph.launch.slots import Slots
from morph.partition.graph import NUMBERED, PartitionedGraph
from morph.partition.launches import LaunchOfAllParts, LaunchOfOnePart
from morph.partition.messages import no_copy
from morph.partition.objects import sizes_of
from morph.partition.parts import DIVIDED
from morph.partition.shared import shared_by, words_of_marks
from morph.partition.transport import raise_together
from morph.runtime.threads import get_num_threads


def has_one_row(x: Any) -> bool:
    """Whether an object of a part is a table of one row, in which kernels can keep totals."""
    return isinstance(x, Table) and x.name not in DIVIDED and len(x) == 1


def _capacity(x: Any) -> int:
    return int(x.capacity)


class PersistentProgram(LaunchOfAllParts):
    """A program on the parts of a graph, each of which executes it in one launch.

    The references to the graph and its objects are weak.

    Attributes
    ----------
    team : int
        Maximum of threads of a part on a CPU.

    Parameters
    ----------
    graph : PartitionedGraph
    what : Launchable
    program : PartitionedProgram
    objects : dict of str to object
        The partitioned objects, by slot.
    parts : sequence of (Compiled, Slots)
        The unit on the device of each part, and the part's objects.
    sizes : sequence of tuple of int
        For each part the values of the hidden arguments, which follow those of a call.

    Raises
    ------
    NeedsSteps
        If the parts cannot execute the program together.
    """

    team = 1

    def __init__(
        self, graph: PartitionedGraph, what: Launchable, program: PartitionedProgram,
        objects: Mapping[str, Any],
        parts: Sequence[tuple[Compiled, Slots]], sizes: Sequence[tuple[int, ...]],
    ) -> None:  # fmt: skip
        layout = abi.parts_of(program.unit)
        if layout is None:
            raise NeedsSteps("no step needs another part")
        shared = shared_by(graph)
        self._graph, self.program, self.sizes = ref(graph), program, sizes
        self.changes, self.unordered_mirrors = graph.changes, graph.has_unordered_mirrors
        self.routed = -1  # version of the routes that were written
        self.objects = [ref(x) for x in objects.values()]
        self.numbers = [*graph.here]
        launches = []
        for k, (compiled, slots) in zip(graph.here, parts, strict=True):
            for box in program.boxes:
                table = graph.local(k).tables[box.table.rpartition(".")[2]]
                most = max(x.share(table.name).mirrors for x in graph.parts if x is not None)
                for slot in (box.outbox, box.inbox):
                    slots.objects[slot] = shared.box(k, table, slot, box.columns, most)
            launch = LaunchOfOnePart(what, compiled, slots, shared.memories[k])
            launch.types_epoch = latest.epoch
            launches.append(launch)
        super().__init__(launches, layout, graph._lock)
        self.marks = {c: self._new_marks(c[0]) for c in layout.marks}
        self.bits: dict[tuple[str, str], list[Any]] = {}
        for slot, column in layout.bits:
            sizes = [x.size for x, _ in shared.mirrored(graph, self._objects(slot)[0].name)]
            places = zip(self.launches, sizes, strict=True)
            self.bits[slot, column] = [p.device.zeros(2 * n, np.uint32) for p, n in places]
        named = {slot for slot, _ in (*program.spreads, *program.writes)}
        self.names = {slot: self._objects(slot)[0].name for slot in named}
        self.crossings = 0  # of the latest launches; `_write` starts at 0 again
        steps = ir.walk(program.unit.blocks)
        self.localises = any(isinstance(n, ir.Deliver) and n.points for n in steps)
        if self.unordered_mirrors:
            self._refuse_unordered_mirrors()

    @property
    def text(self) -> str:
        """The C++ of the unit, after what the parts exchange."""
        lines = "".join(f"// {line}\n" for line in describe_program(self.program))
        return lines + self.launches[0].compiled.text

    def fits(self) -> bool:
        """Whether the unit still fits the objects and the captured values, and may be launched."""
        graph = self._graph()
        if graph is None or graph.recorder is not None:
            return False
        if graph.has_unordered_mirrors != self.unordered_mirrors:
            return False
        if any([x() is None for x in self.objects]):
            return False
        first = self.launches[0]
        if not first.compiled.is_current():  # as for all parts: they have one function
            return False
        return all(p.fits_objects() for p in self.launches) and all(
            has_one_row(first.refs[slot]()) for slot in self.program.one_row
        )

    def run(self, args: tuple[Any, ...], where: Where, alone: bool = False) -> Any:
        """Run the program.

        Raises
        ------
        Outdated
            If another thread has changed the objects so that they need another launch.
        """
        graph = self._graph()
        assert graph is not None
        with self.held:
            self._refuse_nested()
            if self.unordered_mirrors:
                self._follow(graph)
            values = [
                p._values((*args, *more), where)
                for p, more in zip(self.launches, self.sizes, strict=True)
            ]
            shared = shared_by(graph)
            shared.begin()
            self._prepare(graph)
            busy: tuple[Any, ...] = (shared, *self.memories)

            def launch() -> Any:
                self._launch(graph, values)
                first = self.launches[0]
                result = first._result() if first.compiled.returns is not None else None
                shared.failed = False
                return result

            return self._guarded(busy, launch, lambda: self._end(graph, busy, shared.failed))

    # --- before and after the launches -----------------------------------------------------------

    def _objects(self, slot: str) -> list[Any]:
        """The objects of all parts in a slot."""
        return [p.refs[slot]() for p in self.launches]

    def _new_marks(self, slot: str) -> list[Any]:
        """Allocate the marks of the rows of a table on each part."""
        return [
            p.device.zeros(words_of_marks(len(x)) + 1, np.uint64)
            for p, x in zip(self.launches, self._objects(slot), strict=True)
        ]

    def _refuse_unordered_mirrors(self) -> None:
        """Refuse what needs mirrors in order, after the graph has changed."""
        if self.localises:
            raise NeedsSteps("the graph has changed, and messages contain points")
        if any([self._objects(slot)[0].name == "edges" for slot in self.layout.routes]):
            raise NeedsSteps("the graph has changed, and parts exchange values of edges")

    def _follow(self, graph: PartitionedGraph) -> None:
        """Bring sizes and memory up to date after batches of changes of the graph."""
        if self.routed != graph.points._routes.version:
            self.valid = False
        if self.changes == graph.changes:
            return
        self.changes = graph.changes
        self.sizes = [sizes_of(k, graph, self.program.hidden) for k in graph.here]
        for c, arrays in self.marks.items():
            needed = [words_of_marks(len(x)) for x in self._objects(c[0])]
            if any([a.size <= n for a, n in zip(arrays, needed, strict=True)]):
                self.marks[c], self.valid = self._new_marks(c[0]), False

    def _prepare(self, graph: PartitionedGraph) -> None:
        """Bring objects and argument blocks up to date."""
        if not all([p._current() for p in self.launches]):
            self.valid = False
        fits = self.valid and len(graph.here) == len(graph.devices)  # ranks may differ: all gather
        inboxes = [] if fits else [box.inbox for box in self.program.boxes]
        asked: list[tuple[str, Callable[[Any], int]]] = [(slot, _capacity) for slot in inboxes]
        asked += [(slot, len) for slot in self.program.collections]
        found = iter(self._of_all(graph, asked))
        for slot in inboxes:
            most = max(next(found))
            for x in self._objects(slot):  # see `_match_capacities`
                if x.capacity < most:
                    x.resize(most)
        for c in self.program.spreads:
            if self._table(graph, c[0])._refresh(c[1], self.program.bounds.get(c, "")):
                self._synchronize()  # before a kernel of one part writes into others
        for slot in self.program.collections:
            lists, lengths = self._objects(slot), next(found)
            if count := sum(lengths):
                self.first_index = lengths.index(max(lengths))
            for x in () if self.valid else lists:
                x.expect_growth()
            for x in lists:
                if x._host_meta[GLOBAL] != count:
                    x._host_meta[GLOBAL] = count
                    x._send_counters()
        for p in self.launches:
            if not p._current():
                p._renew()
                self.valid = False

    def _of_all(
        self, graph: PartitionedGraph, asked: Sequence[tuple[str, Callable[[Any], int]]]
    ) -> list[tuple[int, ...]]:
        """A number of the object in a slot, of each part, for each slot and function."""
        own = [tuple(map(value, self._objects(slot))) for slot, value in asked]
        if not own or len(graph.here) == len(graph.devices):
            return own
        of_parts = dict(zip(graph.here, zip(*own, strict=True), strict=True))
        return [*zip(*graph.transport.gather(of_parts), strict=True)]

    def _table(self, graph: PartitionedGraph, slot: str) -> Any:
        return graph.tables[self.names[slot]]

    def _end(self, graph: PartitionedGraph, busy: tuple[Any, ...], failed: bool) -> None:
        """End the launches on the host; note which mirrors may differ from their rows."""
        for x in busy:
            x.running = False
        operations = {} if failed else self.program.sole_operations
        for slot, column in self.program.writes:
            table = self._table(graph, slot)
            table._routes.forget(column)
            if failed or (slot, column) in self.program.stale:
                table._stale.add(column, operations.get((slot, column), ""))
        for p in self.launches:
            p._end((), failed)
        if failed:
            shared_by(graph).fail(x() for x in self.objects)

    # --- launches --------------------------------------------------------------------------------

    def _launch(self, graph: PartitionedGraph, values: list[Any]) -> None:
        """Launch on all parts until all items of all parts have run."""
        most = get_num_threads()
        for p, numbers in zip(self.launches, values, strict=True):
            p._prepare(numbers, self.team, most)
        if not self.valid:
            self._clear_marks()
            self._write(graph)
        self.valid = False  # after an error marks and mailboxes are undefined
        while True:
            found = self._execute(graph.behind)
            self._refuse_lost()
            full = [bool(status[Status.FAILED]) for status in found]
            if not self._has_failed(full):
                break
            errors: dict[int, BaseException | None] = dict.fromkeys(graph.here)
            for k, p, is_full in zip(graph.here, self.launches, full, strict=True):
                try:
                    p._resume(self.team, most, is_full)
                except Exception as error:
                    error.add_note(f"on part {k}{NUMBERED}")
                    errors[k] = error
            raise_together(graph.transport, errors)
            self._match_capacities(graph)
            self._write(graph)
        self._count_steps(graph, found[0])
        for p, status in zip(self.launches, found, strict=True):
            p._finish(status)
        self.valid = True

    def _count_steps(self, graph: PartitionedGraph, status: memoryview) -> None:
        """Note how many steps the launch took: most have two crossings."""
        on_host = self.launches[0].on_host  # a GPU reports the number
        crossings = int(self.arrays[0][Parts.CROSSINGS] if on_host else status[Status.ROUND])
        graph._steps += (crossings - self.crossings) // 2
        self.crossings = crossings

    def _has_failed(self, full: Sequence[bool]) -> bool:
        """Whether items of any part are to be executed again; ``full``: of each part here."""
        return any(full)

    def _match_capacities(self, graph: PartitionedGraph) -> None:
        """Grow the lists of all parts as those that were full: others will be full soon.

        A sender computes a place in an inbox from the capacity of its own one, so these are equal.
        """
        slots = (*self.program.collections, *(box.inbox for box in self.program.boxes))
        capacities = self._of_all(graph, [(slot, _capacity) for slot in slots])
        for slot, most in zip(slots, map(max, capacities), strict=True):
            for p, x in zip(self.launches, self._objects(slot), strict=True):
                if x.capacity < most:
                    p._match_capacity(slot, most)
                    p._write_objects(running=True)

    def _refuse_lost(self) -> None:
        """Raise an error if a part has received a point of which it has no copy."""
        for k, p in enumerate(self.launches if self.localises else ()):
            if lost := int(p.device.to_host(self.arrays[k][Parts.ERROR :][:1])[0]):
                raise no_copy(self.numbers[k], lost - 1)

    # --- addresses of the other parts -------------------------------------------------------------

    def _write(self, graph: PartitionedGraph) -> None:
        """Write the addresses that each part needs; crossings count from 0 again."""
        self.crossings = 0
        shared, layout = shared_by(graph), self.layout
        found = self._addresses()
        self.routed = graph.points._routes.version
        for slot, at in layout.routes.items():
            route = shared.route(graph, self._objects(slot)[0].name)
            found[:, at : at + Route.WORDS] = route
        for (slot, column), at in layout.marks.items():
            begins = self.marks[slot, column]  # if mirrors lie in no order, it is not read
            if not self.unordered_mirrors:
                begins = shared.marked(graph, self._objects(slot)[0].name)
            arrays = zip(self.launches, self.marks[slot, column], begins, strict=True)
            found[:, at : at + 2] = [[p.device.pointer(x) for x in two] for p, *two in arrays]
        for (slot, column), at in layout.bits.items():
            mirrored = shared.mirrored(graph, self._objects(slot)[0].name)
            for k, (p, x) in enumerate(zip(self.launches, self.bits[slot, column], strict=True)):
                pointer, place = p.device.pointer, at + Equal.BITS + k
                found[:, place] = first = pointer(x)
                found[:, place + MOST_PARTS] = first + x.nbytes // 2
                found[k, at + Equal.WIDTH] = x.size // (2 * len(found))
                found[k, at + Equal.MIRRORED : at + Equal.BITS] = [*map(pointer, mirrored[k])]
        self._send(found)

    def _clear_marks(self) -> None:
        """Clear the marks of all rows: mirrors have the values of their owners."""
        for arrays in self.marks.values():
            for p, array in zip(self.launches, arrays, strict=True):
                with p.device.active():
                    array[...] = 0
