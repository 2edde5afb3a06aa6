"""Launches: a compiled unit bound to its objects, its argument block, overflow and re-execution.

`Launch.run` writes the arguments and calls the binary (`Launch._launch`).  If items could not
reserve capacity, `Launch._handle_overflow` grows the full stores, and the binary is called again
for these deferred items only.
"""

from __future__ import annotations

import logging
import struct
import weakref
from collections.abc import Iterable, Sequence
from copy import copy
from operator import attrgetter
from typing import Any

import numpy as np

from morph.compiler.ir.layout import FROM, TO, State, Status
from morph.data.reclaim import release
from morph.data.store import CAPACITY, COUNT, HEAD, allocate_counters
from morph.data.table import Table
from morph.data.versions import Outdated, latest
from morph.graph.deletion import (
    Before,
    begin_launch,
    end_launch,
    end_rebuilds,
    recover,
    release_before_rebuild,
)
from morph.language.hooks import Hook
from morph.language.intrinsics import to_dtype
from morph.language.types import Store
from morph.launch.behind import behind
from morph.launch.binding import Where, by_steps
from morph.launch.compiled import Compiled
from morph.launch.kernels import Launchable
from morph.launch.locks import lock_of
from morph.launch.scratch import ROUNDS, STATE_WORDS, STATUS_WORDS, Scratch, scratch
from morph.launch.slots import Slots
from morph.runtime.device import Device
from morph.runtime.threads import get_num_threads

violation: Hook[Exception] = Hook("morph.launch.violations:error")
past_limit: Hook[Exception] = Hook("morph.launch.violations:past_limit")
queue_of: Hook[str] = Hook("morph.launch.violations:queue_of")
_logger = logging.getLogger("morph.launch")
faults = False  # compile with fault injection (tests)
refusing = False  # a reservation is to be refused, or was, and nothing has grown since (tests)
seed = 0  # order of items on the python device (tests)
RUN = struct.Struct("=3q")  # replay, launch, threads
version_of, object_of = attrgetter("version"), weakref.ref.__call__


class Launch:
    """One unit, bound by weak references to the objects that it runs on.

    Attributes
    ----------
    arguments : ndarray of uint64
        The argument block.  Addresses and other properties of objects are written when an object's
        version has changed; scalars at each launch.
    epoch, types_epoch : int
        `morph.data.versions.latest` when the versions, and the types of the objects, were last
        compared; -1 if the types differed.
    """

    def __init__(
        self, function: Launchable, compiled: Compiled, slots: Slots, memory: Scratch | None = None
    ) -> None:
        self.function = function
        self.device = compiled.device
        self.scratch = scratch(compiled.device) if memory is None else memory
        self.on_host = self.device.on_host
        self.made = {s.slot: _scalars(s, self.device) for s in compiled.stores
                     if s.slot in compiled.made}  # fmt: skip
        slots.objects |= self.made
        # no WeakValueDictionary: an exception of a signal handler is lost in its callbacks
        self.refs = {slot: weakref.ref(o) for slot, o in slots.objects.items()}
        self.bound = [*self.refs.values()]
        self.lock = lock_of(slots.objects.values())
        self._use(compiled)

    def _use(self, compiled: Compiled) -> None:
        """Set the unit that is launched, and resolve the slots that the launcher updates."""
        self.compiled = compiled
        self.mode = (faults, seed)
        self._load()
        self.arguments = np.zeros(len(compiled.fields), np.uint64)
        self.buffer = self.arguments.data
        self.state = self.scratch.state_for(State.VARS + compiled.state)
        self.reported = self.state.size <= STATE_WORDS  # the state is part of `Scratch.results`
        self.epoch = self.most_items = self.most_edges = 0
        self.types_epoch = -1
        self.scratch_version = -1  # of the scratch arrays in the argument block
        self.threads = 0  # limit of CPU threads when their addresses were written
        self.versions: list[int] = []
        self.layouts: list[Any] = []  # `_layout_of` the objects when `_same_types` last held
        self.domains = [self.refs[slot] for slot in compiled.domains]
        self.together = [self.refs[slot] for slot in compiled.together]
        self.touches = [self.refs[slot] for slot in compiled.touches]
        self.reshapes = [(self.refs[s], s in compiled.redirects) for s in compiled.reshapes]
        self.rebuilds = [(self.refs[s], ds) for s, ds in compiled.rebuilds.items()]
        self.deletes = [self.refs[slot] for slot in compiled.deletes]

    def _load(self) -> None:
        """Load the latest binary of the unit."""
        self.builds = self.compiled.builds
        self.binary = self.compiled.binary(*self.mode)

    def _load_latest(self) -> None:
        """Load the binary again if another thread has compiled a faster one."""
        if self.builds != self.compiled.builds:
            self.device.synchronize()  # it may still execute the present one
            self._load()

    @property
    def objects(self) -> dict[str, Any]:
        """The objects that still exist, by slot."""
        return {slot: o for slot, ref in self.refs.items() if (o := ref()) is not None}

    def by_steps(self) -> bool:
        """Whether a program runs launch by launch, see `binding.by_steps`."""
        may = self.compiled.cuts or self.rebuilds
        return bool(may) and by_steps(self.compiled, self.objects)

    def ends_at_once(self) -> bool:
        """Whether it is a program whose launches end without work for the host."""
        c = self.compiled
        others = self.reshapes or self.rebuilds or self.deletes or self.together or self.made
        special = c.checked or c.claims or c.cuts or c.queues or c.numbers is None or not c.names
        return c.fused and c.returns is not None and self.reported and not (others or special)

    def separate(self) -> Launch:
        """Return this launch with an argument block of its own."""
        made = copy(self)
        made.arguments = self.arguments.copy()
        made.buffer = made.arguments.data
        made.versions = []
        made.epoch, made.scratch_version = 0, -1
        made._load_latest()
        return made

    def edit(self, text: str) -> None:
        """Replace the text of the unit, for all existing and future launches of it."""
        self.compiled.edit(text, faults, seed)
        for launch in self.function.launches.values():
            if launch.compiled is self.compiled:
                launch._use(self.compiled)

    def fits(self) -> bool:
        """Whether the unit still fits the objects and the captured values."""
        return self.compiled.is_current() and self.fits_objects()

    def fits_objects(self) -> bool:
        """Whether the unit still fits the objects."""
        if self.mode != (faults, seed):
            return False
        if self._current():
            return True
        self.versions = []  # so that `_renew` writes the argument block again
        return self._same_types()

    def _outdated(self) -> bool:
        """Whether another thread, after `fits`, has changed a type that the text depends on."""
        return self.types_epoch != latest.epoch and not self._same_types()

    def _current(self) -> bool:
        """Whether the addresses in the argument block are valid."""
        epoch = latest.epoch  # read before the versions, as a version changes before the epoch
        if epoch == self.epoch:
            return True
        try:
            if not self.versions or self.versions != list(
                map(version_of, map(object_of, self.bound))
            ):
                return False
        except AttributeError:  # an object no longer exists
            return False
        if self.builds != self.compiled.builds:
            return False
        self.epoch = epoch
        return True

    def _same_types(self) -> bool:
        """Whether the objects still have the descriptions for which the text was compiled."""
        epoch = latest.epoch
        objects = [ref() for ref in self.bound]
        if any(o is None for o in objects):
            return False
        layouts = [_layout_of(o) for o in objects]
        if layouts == self.layouts:
            self.types_epoch = epoch
            return True
        fresh = Slots()
        for slot, obj in self.objects.items():  # in the order of `binding`
            if "." not in slot:
                fresh.of(obj, slot)
        compiled = self.compiled
        same = all(fresh.stores.get(s.slot) == s for s in compiled.stores)
        same = same and all(fresh.graphs.get(g.slot) == g for g in compiled.graphs)
        self.layouts = layouts if same else []
        self.types_epoch = epoch if same else -1
        return same

    # --- running ---------------------------------------------------------------------------------

    def run(self, args: tuple[Any, ...], where: Where, alone: bool = False) -> Any:
        """Launch, by one thread or GPU block if ``alone``; repeat it until every item has run.

        Raises
        ------
        Outdated
            If another thread has changed an object's type, so that another unit is needed.
        """
        shared, values = self.scratch, self._values(args, where)
        with self.lock, shared.lock:
            if shared.running:
                raise RuntimeError("a signal handler that interrupts a launch cannot launch")
            for ref, _ in self.reshapes:
                ref().may_change()  # type: ignore[union-attr]
            if not self._current():  # also after a launch or change by another thread
                self._renew()
            failed, graphs = True, self._begin() if self.reshapes else ()
            shared.running = True
            try:
                self._launch(values, alone)
                result = self._result() if self.compiled.returns is not None else None
                failed = False
                return result
            except BaseException:  # also one raised by a signal handler
                shared.stop()
                raise
            finally:  # some items may have run even if the launch failed
                shared.running = False
                try:
                    self._end(graphs, failed)
                except BaseException:  # an interrupt, perhaps the second one
                    self._recover(graphs)
                    raise

    def _renew(self) -> None:
        """Write the argument block again.

        Raises
        ------
        Outdated
            If an object's type has changed, so that another unit is needed.
        """
        if self._outdated():
            raise Outdated
        self._load_latest()
        self._write_objects()

    def _begin(self) -> list[tuple[Any, Before, bool]]:
        """Return the graphs that may change, their counters, and whether edges get other ends."""
        graphs = [(ref(), redirected) for ref, redirected in self.reshapes]
        fused, rebuilt = self.compiled.fused, self._rebuilt()
        return [
            # a program that changes edges, and traverses none, may recycle deleted edges
            (g, begin_launch(g, fused and g not in rebuilt), redirected)
            for g, redirected in graphs
            if g is not None
        ]

    def _rebuilt(self) -> list[Any]:
        """The graphs whose adjacency the launch rebuilds."""
        return [g for ref, _ in self.rebuilds if (g := ref()) is not None]

    def _end(self, graphs: Iterable[tuple[Any, Before, bool]], failed: bool) -> None:
        """Update tables and graphs after the launch."""
        self._touch()
        rebuilt = self._rebuilt()
        for g, before, redirected in graphs:
            if g in rebuilt and not failed:
                end_rebuilds(g, before)
            else:
                end_launch(g, before, redirected or g in rebuilt, failed)
        if self.on_host and self.deletes:
            self._release()

    def _recover(self, graphs: Iterable[tuple[Any, Before, bool]]) -> None:
        """Complete `_end` after an interrupt in it."""
        self._touch()
        for g, _, _ in graphs:
            recover(g)

    def _touch(self) -> None:
        """Invalidate the host's copies of header counters that the launch may have changed."""
        if not self.on_host:
            for ref in self.touches:
                if (store := ref()) is not None:
                    store.touched()

    def _release(self) -> None:
        """Recycle the deleted rows of tables that no column refers to."""
        for ref in self.deletes:
            if (table := ref()) is not None:
                release(table)

    def _values(self, args: tuple[Any, ...], where: Where) -> Sequence[Any]:
        """The scalar arguments, and the numbers that the kernel and the filter capture."""
        if (numbers := self.compiled.numbers) is not None:
            return numbers(args)
        origins = self.compiled.scalar_origins
        return [args[o] if isinstance(o, int) else self._captured(o, where) for o in origins]

    def _captured(self, origin: tuple[str, str], where: Any) -> Any:
        kind, name = origin
        function: Any = where if kind == "where" else self.function.__wrapped__
        name, *fields = name.split(".")
        value = function.__closure__[function.__code__.co_freevars.index(name)].cell_contents
        for field in fields:  # of a bundle
            value = getattr(value, field)
        return value

    def _write_objects(self, running: bool = False) -> None:
        """Write the addresses of the objects' arrays; record versions and bounds of item counts.

        ``running``: between two executions of a launch, in which tables have grown.
        """
        compiled, objects = self.compiled, self.objects
        self.versions, epoch = [], latest.epoch
        for slot, directions in compiled.rebuilds.items():
            objects[slot].begin_rebuilds(directions, running)
        for slot, direction in compiled.adjacency:
            objects[slot].index(direction)
        if not self.on_host:
            allocate_counters(o for o in objects.values() if o.kind in ("table", "collection"))
        for slot, fields in compiled.columns:
            columns = objects[slot].columns
            for i, name in fields:
                self.arguments[i] = columns[name].place.address
        for i, f in compiled.others:
            if f.kind in ("shadow", "deaths"):
                checks = self.scratch.checks
                self.arguments[i] = checks.address(objects[f.slot], f.kind, f.column)
            else:
                extra = (f.column,) if f.column else ()
                self.arguments[i] = objects[f.slot].address(f.kind, *extra)
                if f.kind == "owner":
                    self.scratch.claimed.add(objects[f.slot])
        self._record_versions()
        self.epoch = epoch
        self.most_items = max(
            (d.capacity for ref in self.domains if (d := ref()) is not None), default=0
        )
        self.most_edges = max((objects[g].edges.capacity for g, _ in compiled.adjacency), default=0)
        self.scratch_version = -1

    def _record_versions(self) -> None:
        self.versions = [o.version for ref in self.bound if (o := ref()) is not None]

    def _items(self) -> int:
        """An upper bound of the number of items of any step."""
        if not self.on_host or self.compiled.fused:
            return self.most_items
        most = 0
        for ref in self.domains:
            if (domain := ref()) is not None:
                n = int(domain._host_meta[COUNT])
                most = max(
                    most, n - int(domain._host_meta[HEAD]) if domain.kind == "collection" else n
                )
        return most

    def _write_scratch(self, most: int) -> None:
        """Enlarge the scratch arrays for ``most`` CPU threads, and write their addresses."""
        s, arguments, index = self.scratch, self.arguments, self.compiled.index
        s.allocate(
            self.most_items * self.compiled.sections,
            self.most_edges if self.compiled.lists else -1,
            self._most_threads(most),
        )
        self.threads = most
        for kind, address in s.addresses().items():
            if kind in index:
                arguments[index[kind]] = address
        if self.compiled.checked:
            arguments[index["check"]] = self.device.pointer(s.checks.state)
        fused = self.compiled.fused
        arguments[index["state"]] = self.device.pointer(self.state) if fused else 0
        arguments[index["report"]] = s.report.address if fused and self.reported else 0
        self.scratch_version = s.version

    def _launch(self, values: Sequence[Any], alone: bool) -> None:
        s, compiled, most = self.scratch, self.compiled, get_num_threads()
        alone |= compiled.single_block
        self._prepare(values, 1 if alone else most, most)
        if not compiled.can_fail:
            self.binary(self.arguments, self._items())
            behind.enqueue_work()
            s.dirty = False
            return
        rounds = self._begin_checks(most) if compiled.checked else 0
        written = compiled.fused and self.reported
        polls = written and compiled.interruptible
        while True:
            self.binary(self.arguments, self._items(), alone)
            behind.enqueue_work()
            if polls:
                status = s.report.poll(s.launches)
            else:
                status = s.report.wait(written, compiled.interruptible)
            polls = False  # a launch that is repeated has the number of the first one
            if not status[Status.FAILED]:
                return self._finish(status, rounds)
            self._resume(1 if alone else most, most)

    def _prepare(self, values: Sequence[Any], team: int, most: int) -> None:
        """Write the fields that change at each launch, for at most ``most`` CPU threads."""
        s, compiled = self.scratch, self.compiled
        if values:
            self._write_scalars(values)
        if self.together and not self.on_host:
            self._check_together()
        s.launches += 1
        RUN.pack_into(self.buffer, compiled.run_offset, 0, s.launches, team)
        if s.dirty or compiled.can_fail:
            s.begin()
        if self.scratch_version != s.version or self.threads != most:
            self._write_scratch(most)
        if compiled.fused and self.on_host:  # kernels of a GPU initialise it
            self.state.fill(0)

    def _finish(self, status: memoryview, rounds: int = 0) -> None:
        """End a launch whose items have all run."""
        s, compiled = self.scratch, self.compiled
        s.dirty = False
        if status[Status.ROUND] > ROUNDS:
            s.recount()
        now = status[Status.ROUND] if compiled.claims else 0
        if compiled.checked and (v := s.checks.end(now - rounds)):
            raise violation(compiled.unit, v, self.objects)

    def _resume(self, team: int, most: int, full: bool = True) -> None:
        """Prepare the execution of deferred items; grow stores and lists if one was ``full``."""
        if full:
            self._handle_overflow(self._full_queue())
            if self.together and not self.on_host:
                self._check_together()
            if self.compiled.lists:
                self.scratch.grow_high_degree_list(self._most_threads(most))
        self._write_scratch(most)
        # the launch keeps its number, so that locks of the first execution stay acquired
        RUN.pack_into(self.buffer, self.compiled.run_offset, 1, self.scratch.launches, team)

    def _write_scalars(self, values: Sequence[Any]) -> None:
        """Write the scalar arguments."""
        compiled = self.compiled
        try:
            compiled.scalars.pack_into(self.buffer, compiled.first_scalar, *values)
        except struct.error:
            compiled.reject_wide(values)
            raise

    def _begin_checks(self, most: int) -> int:
        """Prepare the checks of a launch; return the number of the round before its first one.

        This number is 0 if the unit has no claims: generated code then does not read it.
        """
        s, rounds = self.scratch, 0
        if self.compiled.claims:
            rounds = int(self.device.to_host(s.status)[Status.ROUND])
        s.checks.begin(rounds)
        self._write_objects()  # shadow words are allocated for all rows
        self._write_scratch(most)
        return rounds

    def _most_threads(self, most: int) -> int:  # upper bound of the threads of the launch
        return most if self.on_host else int(self.binary.threads)

    def _check_together(self) -> None:
        """Refuse more items (of a program: more capacity) than a GPU runs threads at once."""
        word = CAPACITY if self.compiled.fused else COUNT
        n = max(int(d._host_meta[word]) for ref in self.together if (d := ref()) is not None)
        if n > (most := self.binary.threads):
            raise ValueError(f"{n} items together, but {self.device.name} runs {most} at once")

    def _handle_overflow(self, queue: str = "") -> None:
        """Grow the stores that were full, so that the deferred items can be executed.

        If the collection ``queue`` is full, its finished items may be removed instead.
        """
        global refusing  # noqa: PLW0603
        status = self.device.to_host(self.scratch.status).copy()
        if place := int(status[Status.EXCEEDED]):
            raise past_limit(self.compiled.unit, place - 1)
        failed, current, objects = int(status[Status.FAILED]), self._current_slots(), self.objects
        _logger.debug("%s: %d items are executed again", self.compiled.title, failed)
        for slot in self.compiled.touches:
            objects[slot].touched()
        for g in self._rebuilt():
            release_before_rebuild(g)
        refused = refusing and status[Status.INJECT] <= 0
        refusing = refusing and not refused
        for full, store in zip(status[Status.STORES :], self.compiled.stores, strict=False):
            if full:
                obj = objects[current.get(store.slot, store.slot)]
                obj.touched()
                if refused and obj.capacity:
                    obj.resize(obj.capacity + 1)
                elif store.slot != queue or not self._drop_finished(obj):
                    obj._extend_capacity(failed)
                self._match_capacity(store.slot, obj.capacity)
        narrow = status[Status.LOCAL]
        status[[Status.FAILED, Status.LOCAL]] = 0
        status[Status.STORES :] = 0
        self.device.put((self.scratch.status, status))
        if narrow:
            arguments, state = self.arguments, self.state
            self._use(self.compiled.wider())
            self.arguments[:], self.state = arguments, state
        self._write_objects(running=True)

    def _full_queue(self) -> str:
        """The slot of the queue, if the step with deferred items runs until a queue is empty."""
        compiled, block, step = self.compiled, 0, 0
        if not compiled.queues:
            return ""
        if compiled.fused:
            state = self.device.to_host(self.state)
            block, step = int(state[State.BLOCK]), int(state[State.STEP])
        return queue_of(compiled.unit, block, step)

    def _drop_finished(self, queue: Any) -> bool:
        """Remove finished items from a full queue, if this frees half of its capacity."""
        bits, (first, last) = self.scratch.bits["deferred"], queue.span()
        with self.device.active():
            at = self.device.xp.arange(first, last)
            left = at[(bits[at // 32] >> (at % 32).astype(np.uint32)) & 1 != 0]
            if 2 * (last - first - left.size) < queue.capacity:
                return False
            queue._keep(left)
            queue._host_meta[[FROM, TO]] = 0, left.size
            queue._send_counters()
            words, more = divmod(left.size, 32)
            bits[:] = 0
            bits[:words] = np.uint32(2**32 - 1)
            bits[words] = np.uint32(2**more - 1)
        return True

    def _match_capacity(self, slot: str, capacity: int) -> None:
        """Grow the collections that the program swaps with this one to the same capacity."""
        if self.compiled.ahead:
            return  # asynchronous queues lie behind the last item, and `resize` does not copy them
        slots = {slot, *(dict(p).get(slot, slot) for p in self.compiled.permutations)}
        for obj in (self.objects[s] for s in slots):
            if obj.capacity < capacity:
                obj.touched()
                obj.resize(capacity)

    def _current_slots(self) -> dict[str, str]:
        """Map each swapped slot to the slot that holds its data at the current step."""
        permutations = self.compiled.permutations
        return (
            dict(permutations[int(self.device.to_host(self.state)[State.PERMUTATION])])
            if permutations
            else {}
        )

    def _result(self) -> Any:
        """The program's return value: a Python scalar."""
        kind, at = self.compiled.returns  # type: ignore[misc]
        if self.reported:
            return kind.unpack_from(self.scratch.report.values, 8 * (STATUS_WORDS + at))[0]
        return kind.unpack_from(self.device.to_host(self.state).tobytes(), 8 * at)[0]


def _scalars(store: Store, device: Device) -> Table:
    """Allocate a table of scalars that a program creates; the program assigns their values."""
    columns: dict[str, Any] = {c.name: to_dtype(c.dtype) for c in store.columns}
    made = Table("scalars", device, **columns)
    made.extend(1)
    return made


def _layout_of(obj: Any) -> Any:
    """Return a value that changes if the compiler's description of an object has changed.

    It is cheaper to compute than the description; new rows and growth do not change it.
    """
    if obj.kind == "graph":
        return obj.directed, obj.out_identity, obj.gapped, obj.tiled, len(obj.tables)
    return obj.layout if obj.kind in ("table", "collection") else obj.version
