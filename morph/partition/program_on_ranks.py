"""Programs on MPI ranks: one launch of each part, which leaves at each crossing and resumes there.

The part stores what it sends into memory of its own, to which its routes refer (`Route` in
``kernels/schedule/parts.h``).  At a crossing the ranks exchange the words of all parts, and then,
by the number of the crossing, rows of mirrors or messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from morph.compiler.ir import abi
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.layout import MAILBOX_LINE, MOST_PARTS, MOST_WORDS, Parts, Route
from morph.compiler.partitioning.program import OWN_VALUES, Box
from morph.data.layout import strided_rows
from morph.launch.binding import Where
from morph.launch.launcher import RUN
from morph.partition.collection import PartitionedCollection
from morph.partition.graph import PartitionedGraph
from morph.partition.persistent import PersistentProgram
from morph.partition.shared import shared_by
from morph.partition.transport import PartError, error_texts, raise_any
from morph.runtime.device import Array
from morph.runtime.threads import get_num_threads

Pieces = list[tuple[int, Array]]  # with the number of the other part
PART_FAILED, PART_STOPS = 1, 2  # bits of the first word of a part at a crossing, see parts.h


class ProgramOnRanks(PersistentProgram):
    """A program whose parts lie on MPI ranks, one on each; see `PersistentProgram`."""

    def __init__(self, graph: PartitionedGraph, *args: Any) -> None:
        super().__init__(graph, *args)
        (self.part,), (self.rank,) = self.launches, graph.here
        self.device = self.part.device
        self.leaving = self.device.zeros(1 + MOST_WORDS, np.int64)  # see `Parts.SENT`
        self.report = self.device.report(self.leaving)  # memory of the host
        self.words = np.asarray(self.report.values)
        self.gpus = [0 if d.on_host else 1 + d.index for d in graph.devices]
        self.staged: dict[tuple[str, str], Array] = {}  # what is sent, or received from mirrors
        self.places: dict[tuple[str, str], int] = {}  # their addresses
        self.steps = dict(self._crossings())
        self.known: dict[int, Callable[[], None]] = {}  # by crossing: sends and sets rows
        self.crossing = 0  # the number of the latest crossing
        self.failed = False  # whether items of any part have failed at the latest crossing

    def run(self, args: tuple[Any, ...], where: Where, alone: bool = False) -> Any:
        """Run the program, see `PersistentProgram.run`."""
        graph = self._graph()
        assert graph is not None
        numbers = (x for x in args if isinstance(x, int | float | np.generic))
        graph.transport.begin("program", self.part.function.__name__, *numbers)
        for x in (x() for x in self.objects):
            if isinstance(x, PartitionedCollection):
                x.set_length(None)
        self.team = get_num_threads()
        return super().run(args, where, alone)

    # --- launches --------------------------------------------------------------------------------

    def _execute(self, behind: Callable[[], None] | None) -> list[memoryview]:
        """Launch, and exchange at each crossing, until the launch ends elsewhere."""
        graph, p = self._graph(), self.part
        assert graph is not None
        self.failed = False
        while True:
            errors: dict[int, BaseException | None] = {self.rank: None}
            words = b""
            try:
                found = super()._execute(None)
                words = self._left()
            except BaseException as error:  # the other ranks wait
                errors[self.rank] = error
            text = error_texts(errors)[self.rank]
            all_words = graph.transport.gather({self.rank: text or words})
            raise_any(errors, [x if isinstance(x, str) else None for x in all_words])
            if any([len(x) != len(words) for x in all_words]):
                raise PartError("the ranks are at different places of a program")
            if not words:
                return found
            self._cross(graph, np.frombuffer(b"".join(all_words), np.int64).reshape(-1, MOST_WORDS))
            RUN.pack_into(p.buffer, p.compiled.run_offset, 1, p.scratch.launches, self.team)

    def _left(self) -> bytes:
        """The words of this part, if the launch has left at a crossing."""
        crossing, bits = self.words[:2].tolist()
        if crossing == self.crossing:
            return b""
        self.crossing = crossing
        if bits & PART_STOPS:
            self._refuse_lost()
        return self.words[1:].tobytes()

    def _cross(self, graph: PartitionedGraph, words: Any) -> None:
        """Write the words of all parts to the mailbox; exchange rows or messages of a crossing."""
        first = MOST_PARTS * (MAILBOX_LINE + self.crossing % 2 * MOST_WORDS)
        self.device.put((self.mailboxes[0][first : first + words.size], words.reshape(-1)))
        heads = words[:, :OWN_VALUES].tolist()
        self.failed = any([bits & PART_FAILED for bits, _ in heads])
        number = heads[0][1]
        if any([other != number for _, other in heads]):
            raise PartError("the ranks are at different places of a program")
        if self.failed or (step := self.steps.get(number)) is None:
            return
        transport: Any = graph.transport  # of ranks
        if not isinstance(step, Box):
            if number not in self.known:
                rows = self._rows(graph, step)
                self.known[number] = transport.repeated(*rows, self.gpus, self.device)
            self.known[number]()
            return
        found = self._messages(graph, step, words[:, OWN_VALUES:][:, : len(words)])
        if found is not None:
            transport.move(*found, self.gpus, self.device)

    def _has_failed(self, full: Sequence[bool]) -> bool:
        return self.failed or any(full)

    # --- what crossings exchange -----------------------------------------------------------------

    def _crossings(self) -> Iterator[tuple[int, Box | tuple[tuple[ir.Mirrors, ...], bool]]]:
        """By the number of a crossing, its messages, or columns and whether to their owners."""
        boxes = {box.inbox: box for box in self.program.boxes}
        for b, block in enumerate(self.program.unit.blocks):
            for k, s in enumerate(block.steps):
                if isinstance(s, ir.Deliver):
                    yield abi.crossing(b, k), boxes[s.inbox]
                elif isinstance(s, ir.Exchange):
                    if s.combines:  # their values arrive at the crossing before, that of a foreach
                        yield abi.crossing(b, k - 2), (s.combines, True)
                    if s.spreads:
                        yield abi.crossing(b, k), (s.spreads, False)

    def _rows(
        self, graph: PartitionedGraph, step: tuple[tuple[ir.Mirrors, ...], bool]
    ) -> tuple[Pieces, Pieces]:
        """The rows of columns that each part sends to this one, and this one to each part."""
        columns, to_owners = step
        staged, mirrors = Pieces(), Pieces()
        for m in columns:
            route = shared_by(graph).route(graph, self.names[m.slot])[0]
            array = self._objects(m.slot)[0].columns[m.column].array
            both = (self.staged[m.slot, m.column], Route.SENT_BOUNDS, staged), (
                array, Route.MIRRORS, mirrors,
            )  # fmt: skip
            for values, at, pieces in both:
                bounds = route[at:][: len(graph.devices) + 1].tolist()
                pieces += self._pieces(values, [*pairwise(bounds)])
        return (mirrors, staged) if to_owners else (staged, mirrors)

    def _pieces(self, values: Array, bounds: Sequence[tuple[int, int]]) -> Pieces:
        """The values for each other part, or from it, that are not empty."""
        return [
            (k, values[first:last])
            for k, (first, last) in enumerate(bounds)
            if k != self.rank and first < last
        ]

    def _messages(
        self, graph: PartitionedGraph, box: Box, counts: Any
    ) -> tuple[Pieces, Pieces] | None:
        """The messages, of which a part has ``counts`` for another; those to itself are there."""
        inbox = self._objects(box.inbox)[0]
        region = inbox.capacity // len(graph.devices)
        np.fill_diagonal(counts := counts.copy(), 0)
        if counts.max() > region or not counts.any():  # all inboxes grow first, or are empty
            return None
        names = [name for slot, name in self.layout.peers if slot == box.inbox]

        def pieces(arrays: list[Array], numbers: Any) -> Pieces:
            bounds = [(k * region, k * region + n) for k, n in enumerate(numbers.tolist())]
            return [x for a in arrays for x in self._pieces(a, bounds)]

        staged = [self.staged[box.inbox, name] for name in names]
        sent = pieces(staged, counts[self.rank])
        return sent, pieces([inbox.columns[name].array for name in names], counts[:, self.rank])

    # --- addresses -------------------------------------------------------------------------------

    def _addresses(self) -> np.ndarray[Any, Any]:
        """The array of this part, with the addresses of what it sends in place of other parts."""
        graph = self._graph()
        assert graph is not None
        self.known, self.crossing, self.words[0] = {}, 0, 0
        size = len(graph.devices)
        found = np.zeros((1, self.layout.size), np.int64)
        leaves = self.report.address or self.device.pointer(self.leaving)
        found[0, [Parts.COUNT, Parts.NUMBER, Parts.SENT]] = size, self.rank, leaves
        found[0, Parts.MAILBOXES + self.rank] = self.device.pointer(self.mailboxes[0])
        inboxes = {box.inbox for box in self.program.boxes}
        for (slot, name), at in self.layout.peers.items():
            store = self._objects(slot)[0]
            if slot in inboxes:
                rows = store.capacity
            else:
                route = shared_by(graph).route(graph, self.names[slot])[0]
                rows = int(route[Route.SENT_BOUNDS + size])
            column = store.columns[name]
            first = self._stage(slot, name, column, rows)
            found[0, at : at + size] = first
            if slot in inboxes:  # a part writes to its own region of each inbox
                step = rows // size * column.stride
                found[0, at : at + size] += (np.arange(size) - self.rank) * step
                found[0, at + self.rank] = store.address("column", name)
        return found

    def _stage(self, slot: str, name: str, column: Any, rows: int) -> int:
        """Allocate memory for rows of a column that are sent, and return its address."""
        known = self.staged.get((slot, name))
        if known is None or len(known) != rows:
            memory = self.device.zeros(max(rows, 1) * column.stride, np.uint8)
            known = strided_rows(self.device, column, memory, 0, column.stride, rows)
            self.staged[slot, name] = known
            self.places[slot, name] = self.device.pointer(memory)
        return self.places[slot, name]
