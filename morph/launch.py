"""Launches: a compiled unit bound to its objects, its argument words, growth and replays."""

from __future__ import annotations

import os
import struct
import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from morph.binding import Compiled, Request, Where, bind, cells, place
from morph.collect import Collection, Flag, Set
from morph.device import Device
from morph.graph import Graph
from morph.lang.abi import State, Status
from morph.lang.builtins import to_dtype
from morph.lang.errors import LanguageError
from morph.lang.program import RESULT
from morph.lang.types import Scalar
from morph.row import Row
from morph.scratch import ROUNDS, STATE, STATUS, scratch
from morph.slots import OBJECTS, Slots
from morph.store import CAPACITY, COUNT, HEAD
from morph.table import Table

if TYPE_CHECKING:
    from morph.kernel import Kernel, Program

faults = False  # compile with fault injection (tests)
seed = 0  # order of items on the python device (tests)
KEPT = 64  # bound launches that one kernel remembers


# --- finding the launch --------------------------------------------------------------------------

_BY_IDENTITY = {Graph, Table, Collection, Set, Flag}
_binding = threading.RLock()  # one thread compiles at a time
_PLAIN = {int, float, bool, *(np.dtype(c).type for c in "?bhilBHILefd")}


def launch_for(
    what: Kernel | Program, items: Any, args: tuple[Any, ...], where: Where,
    together: bool = False, balance: str = "auto",
) -> Launch | None:  # fmt: skip
    """The launch that fits the arguments: a known one, or a new one.  None: run eagerly."""
    key: Any = [
        t if (t := type(a)) in _PLAIN else id(a) if t in _BY_IDENTITY else _odd_key(a) for a in args
    ]
    key += [id(items), together, balance]
    if where is not None:
        key += [*place(where), cells(where)]
    key = tuple(key)
    found = what.launches.get(key)
    if found is not None and found.fits():
        return found
    if what.kind == "kernel" and not isinstance(items, Table | Collection):
        raise TypeError(f"foreach runs over a table or a collection, not {items!r}")
    device = _device(items, args)
    if what.kind == "program" and device.kind == "python":
        return None
    with _binding:
        try:
            compiled, slots = bind(Request(what, items, args, where, device, together, balance))
        except LanguageError as error:  # without the compiler's frames: the user's line counts
            raise LanguageError(error.problem, error.pos, error.hint) from None
        _same_device(slots.objects.values(), device)
        what.launches.pop(key, None)
        while len(what.launches) >= KEPT:
            del what.launches[next(iter(what.launches))]
        what.launches[key] = launch = Launch(what, compiled, slots)
        return launch


def _told(obj: Any) -> Any:
    """What stays while the compiler would be told the same of an object; rows may come and go."""
    if obj.kind == "graph":
        return obj.directed, obj.out_identity, obj.loose, len(obj.tables)
    return obj.version


def _odd_key(a: Any) -> Any:
    """What of a row or function the unit depends on; anything else is refused when it is bound."""
    return (Row, id(a.table)) if isinstance(a, Row) else a if callable(a) else type(a)


def _device(items: Any, args: tuple[Any, ...]) -> Device:
    objects = [x.table if isinstance(x, Row) else x for x in (items, *args)]
    objects = [x for x in objects if isinstance(x, OBJECTS)]
    if not objects:
        raise TypeError("a program needs a graph, table or collection among its arguments")
    device: Device = objects[0].device
    _same_device(objects, device)
    return device


def _same_device(objects: Iterable[Any], device: Device) -> None:
    for x in objects:
        if x.device != device:
            raise TypeError(f"{x!r} is on {x.device.name}, but the launch is on {device.name}")


class Launch:
    """One unit, bound to the objects that it runs on; these are held weakly."""

    def __init__(self, what: Kernel | Program, compiled: Compiled, slots: Slots) -> None:
        self.what = what
        self.device = compiled.device
        self.scratch = scratch(compiled.device)
        self.team = 0  # CPU threads that run it
        self.as_of = 0  # how many launches had ended when the words were last compared
        self.objects = weakref.WeakValueDictionary(slots.objects)
        self.bound = [weakref.ref(o) for o in slots.objects.values()]
        self._use(compiled)

    def _use(self, compiled: Compiled) -> None:
        """Run this unit from now on."""
        self.compiled = compiled
        self.binary = compiled.binary(faults, seed)
        self.mode = (faults, seed, threads())
        self.words = np.zeros(len(compiled.fields), np.uint64)
        self.signed = self.words.view(np.int64)
        self.buffer = self.words.data
        self.state = self.scratch.state_for(State.VARS + len(compiled.unit.state))
        self.ended: Any = None  # the state when the program had ended, on the host
        self.versions: list[int] = []
        self.kinds: list[Any] = []  # of the objects, when they were last found to fit
        self.domains = [weakref.ref(self.objects[slot]) for slot in compiled.domains]

    def edit(self, text: str) -> None:
        """Use another text from now on, wherever the unit is bound, now or later."""
        self.compiled.edit(text, faults, seed)
        for launch in self.what.launches.values():
            if launch.compiled is self.compiled:
                launch._use(self.compiled)

    def fits(self) -> bool:
        """Whether the launch is still the right one for these objects."""
        if not self.compiled.holds() or self.mode != (faults, seed, _threads):
            return False
        self.as_of = self.scratch.done
        if self._current():
            return True
        self.versions = []  # the words are filled anew
        return self._same_types()

    def _current(self) -> bool:
        """Whether the addresses in the words still hold."""
        versions = self.versions
        if not versions:
            return False
        for ref, v in zip(self.bound, versions, strict=True):
            o = ref()
            if o is None or o.version != v:
                return False
        return True

    def _same_types(self) -> bool:
        """Whether the text still fits the objects, wherever their memory has moved."""
        objects = [ref() for ref in self.bound]
        if any(o is None for o in objects):
            return False
        kinds = [_told(o) for o in objects]
        if kinds == self.kinds:
            return True
        fresh = Slots()
        for slot, obj in list(self.objects.items()):  # as when it was bound
            if "." not in slot:
                fresh.of(obj, slot)
        unit = self.compiled.unit
        same = all(fresh.stores.get(s.slot) == s for s in unit.stores)
        same = same and all(fresh.graphs.get(g.slot) == g for g in unit.graphs)
        self.kinds = kinds if same else []
        return same

    # --- running ---------------------------------------------------------------------------------

    def run(self, args: tuple[Any, ...], where: Where, alone: bool = False) -> Any:
        """Launch, by one thread of a CPU if ``alone``; replay until every item has run."""
        compiled, shared = self.compiled, self.scratch
        for slot in compiled.reshapes:
            self.objects[slot].may_change()
        values = [
            args[o] if isinstance(o, int) else self._captured(o, where) for o in compiled.origins
        ]
        with shared.lock:
            if self.as_of != shared.done:  # another thread has launched since
                self.versions = []
            if self.device.kind == "python":
                self._note_versions()
            elif not self.versions:
                self._fill()
            self.team = 1 if alone else threads()
            try:
                if self.device.kind == "python":
                    self._interpret(values)
                else:
                    self._launch(values)
            finally:  # items may have run even if others could not
                shared.done += 1
                for slot in compiled.touches:
                    self.objects[slot].touched()
                for slot in compiled.reshapes:
                    self.objects[slot].structure_changed()
            return self._result() if compiled.unit.fused else None

    def _captured(self, origin: tuple[str, str], where: Any) -> Any:
        kind, name = origin
        function: Any = where if kind == "where" else self.what.__wrapped__
        return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents

    def _fill(self) -> None:
        """Write the addresses of everything the unit touches."""
        compiled, objects = self.compiled, self.objects
        for slot, direction in compiled.adjacency:
            objects[slot].index(direction)
        for i, f in enumerate(compiled.fields):
            if f.slot:
                extra = (f.column,) if f.column else ()
                self.words[i] = objects[f.slot].address(f.kind, *extra)
                if f.kind == "owner":
                    self.scratch.claimed.add(objects[f.slot])
        self._note_versions()
        s, pointer, index = self.scratch, self.device.pointer, compiled.index
        self.words[index["status"]] = pointer(s.status)
        self.words[index["barrier"]] = pointer(s.barrier)
        self.words[index["cursor"]] = pointer(s.cursor)
        self.words[index["state"]] = pointer(self.state) if compiled.unit.fused else 0
        self.edges = max((objects[g].edges.capacity for g, _ in compiled.adjacency), default=0)

    def _note_versions(self) -> None:
        self.versions = [o.version for ref in self.bound if (o := ref()) is not None]

    def _items(self) -> int:
        """As many items as any step has, or more."""
        most = 0
        for ref in self.domains:
            domain = ref()
            if domain is None:
                continue
            if domain.device.kind == "cpu" and not self.compiled.unit.fused:
                n = int(domain.words[COUNT])
                most = max(most, n - int(domain.words[HEAD]) if domain.kind == "collection" else n)
            else:
                most = max(most, domain.capacity)
        return most

    def _most(self) -> int:
        """The most positions that an item can have."""
        return max((d.capacity for ref in self.domains if (d := ref()) is not None), default=0)

    def _launch(self, values: list[Any]) -> None:
        s, index, signed = self.scratch, self.compiled.index, self.signed
        if values:
            try:
                self.compiled.scalars.pack_into(self.buffer, self.compiled.first_scalar, *values)
            except struct.error:
                raise OverflowError(f"of the numbers {values}, one does not fit in i64") from None
        if self.compiled.together and self.device.kind == "cuda":
            self._check_together()
        s.launches += 1
        self.ended = None
        signed[index["launch"]] = s.launches
        signed[index["replay"]] = 0
        signed[index["threads"]] = self.team
        if s.dirty or self.compiled.can_fail:
            s.begin()
        if self.compiled.lists:
            self.words[index["hubs"]] = s.hubs_for(self.edges, self._threads())
        if not self.compiled.can_fail:
            self.binary(self.words, self._items())
            s.dirty = False
            return
        self._fill_bits()
        if self.compiled.unit.fused and self.device.kind != "cuda":  # there it is not read
            self.state[:] = 0
        while True:
            self.binary(self.words, self._items())
            status = self._told()
            if not status[Status.FAILED]:
                s.dirty = False
                if status[Status.ROUND] > ROUNDS:
                    s.recount()
                return
            self._mend(status.copy())
            if self.compiled.lists:
                self.words[index["hubs"]] = s.keep_hubs(self._threads())
            signed = self.signed  # new, if local collections were widened
            signed[index["launch"]] = s.launches  # the same: locks of the first run stay taken
            signed[index["replay"]] = 1
            signed[index["threads"]] = self.team
            self._fill_bits()

    def _told(self) -> np.ndarray[Any, Any]:
        """The status, and if that is near, the program's state, by one transfer."""
        s, n = self.scratch, self.state.size
        near = self.compiled.unit.fused and n <= STATE
        told = self.device.to_host(s.told[: STATUS + n] if near else s.status)
        self.ended = told[STATUS:] if near else None
        return told[:STATUS]

    def _threads(self) -> int:  # as many as the launch can have
        return int(self.binary.threads) if self.device.kind == "cuda" else threads()

    def _fill_bits(self) -> None:
        """Have a bit for every item, of each kind that the unit uses."""
        index, most = self.compiled.index, self._most()
        for kind in self.scratch.bits.keys() & index.keys():
            self.words[index[kind]] = self.scratch.bits_for(kind, most)
        if "queue" in index:
            self.words[index["queue"]] = self.scratch.queue_for(most)

    def _check_together(self) -> None:
        """Refuse more items than a GPU has threads at once."""
        n = max(int(d.words[COUNT]) for ref in self.domains if (d := ref()) is not None)
        if n > (most := self.binary.threads):
            raise ValueError(f"{n} items together, but {self.device.name} runs {most} at once")

    def _mend(self, status: np.ndarray[Any, Any]) -> None:
        """Grow what was too small, so that the items that failed can run."""
        failed, stands_for = int(status[Status.FAILED]), self._stands_for()
        for slot in self.compiled.touches:
            self.objects[slot].touched()
        for full, store in zip(status[Status.STORES :], self.compiled.unit.stores, strict=False):
            if full:
                obj = self.objects[stands_for.get(store.slot, store.slot)]
                obj.touched()
                obj.grow(int(obj.words[CAPACITY]) + failed)
        narrow = status[Status.LOCAL]
        status[[Status.FAILED, Status.LOCAL]] = 0
        status[Status.STORES :] = 0
        self.device.put((self.scratch.status, status))
        if narrow:
            words, state = self.words, self.state
            self._use(self.compiled.wider())
            self.words[:], self.state = words, state
        if self.device.kind != "python":
            self._fill()

    def _stands_for(self) -> dict[str, str]:
        """The objects of slots that are swapped, where the program stands."""
        ways = self.compiled.unit.ways
        return dict(ways[int(self.device.to_host(self.state)[State.WAY])]) if ways else {}

    def _interpret(self, values: list[Any]) -> None:
        status, pending, replay = self.scratch.status, set[int](), False
        unit, objects = self.compiled.unit, self.objects
        stores = {s.slot: objects[s.slot] for s in unit.stores}
        graphs = {g.slot: objects[g.slot] for g in unit.graphs}
        kinds = dict(unit.scalars)
        scalars = {
            n: to_dtype(kinds[n]).type(int(v) if isinstance(v, Row) else v)
            for n, v in zip(self.compiled.names, values, strict=True)
        }
        self.scratch.begin()
        try:
            while True:
                self.binary(stores, graphs, scalars, status, replay, pending)
                if not status[Status.FAILED]:
                    self.scratch.dirty = False
                    return
                self._mend(status.copy())
                replay = True
        finally:
            if self.scratch.dirty:  # what items had reserved is free again
                for slot in self.compiled.touches:
                    objects[slot].settle()

    def _result(self) -> Any:
        """What the program returned: a Python scalar, or None."""
        state = self.compiled.unit.state
        names = [n for n, _ in state]
        if RESULT not in names:
            return None
        i = names.index(RESULT)
        t = state[i][1]
        assert isinstance(t, Scalar)
        ended = self.device.to_host(self.state) if self.ended is None else self.ended
        words = ended[State.VARS + i : State.VARS + i + 1]
        return words.view(to_dtype(t))[0].item()


_threads = 0


def threads() -> int:
    """CPU threads to use: OMP_NUM_THREADS, else the cores this process may run on."""
    global _threads
    if not _threads:
        given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
        _threads = int(given) if given.isdigit() and int(given) > 0 else _cores()
    return _threads


def _cores() -> int:
    """The cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _forked() -> None:
    """In a child process: its other threads are gone, OpenMP's among them."""
    global _threads, _binding
    _binding = threading.RLock()
    _threads = 1  # g++'s OpenMP would wait for threads that only the parent has


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
