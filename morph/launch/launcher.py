"""Launches: a compiled unit bound to its objects, its argument words, growth and replays."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from morph.compiler.ir.abi import State, Status
from morph.compiler.ir.sites import Violated
from morph.data.collection import Collection
from morph.data.reclaim import release
from morph.data.row import Row
from morph.data.store import CAPACITY, COUNT, HEAD
from morph.data.table import Table
from morph.data.versions import Outdated, latest
from morph.graph.deletion import Before, begin_launch, end_launch, recover
from morph.language.bundles import flat, flattener, is_bundle
from morph.language.depth import deep
from morph.language.errors import LanguageError
from morph.language.intrinsics import to_dtype
from morph.launch.binding import Compiled, Request, Where, bind, by_steps, cells, picker, place
from morph.launch.locks import lock_of
from morph.launch.scratch import ROUNDS, STATE, STATUS, scratch
from morph.launch.slots import OBJECTS, Slots
from morph.launch.violations import error
from morph.runtime.device import Device, device

if TYPE_CHECKING:
    from morph.launch.foreach import Kernel, Program

faults = False  # compile with fault injection (tests)
seed = 0  # order of items on the python device (tests)
KEPT = 64  # bound launches that one kernel remembers
RUN = struct.Struct("=3q")  # replay, launch, threads
VERSION, CALL = attrgetter("version"), weakref.ref.__call__


# --- finding the launch --------------------------------------------------------------------------

_binding = threading.RLock()  # one thread compiles at a time
_PLAIN = {int, float, bool, *(np.dtype(c).type for c in "?bhilBHILefd")}
_shapes: dict[tuple[type, ...], Shape] = {}


class Shape:
    """Of arguments of some types, which are which: objects count by identity, numbers by type."""

    __slots__ = ("fields", "flatten", "functions", "objects", "odd")

    def __init__(self, types: tuple[type, ...]) -> None:
        self.fields: dict[tuple[type, ...], Shape] = {}  # without bundles
        self.flatten = flattener(types) if any(map(is_bundle, types)) else None
        objects = [i for i, t in enumerate(types) if issubclass(t, OBJECTS)]
        functions = [i for i, t in enumerate(types) if i not in objects and _is_called(t)]
        self.objects, self.functions = picker(objects), picker(functions)
        known = {*objects, *functions, *(i for i, t in enumerate(types) if t in _PLAIN)}
        self.odd = [i for i in range(len(types)) if i not in known]

    def key(self, args: tuple[Any, ...], *more: Any) -> tuple[Any, ...]:
        """What else than types tells these arguments from others."""
        key = (self, *more, *self.functions(args), *map(id, self.objects(args)))
        return (*key, *(_odd_key(args[i]) for i in self.odd)) if self.odd else key


def launch_for(
    what: Kernel | Program, items: Any, args: tuple[Any, ...], where: Where,
    together: bool = False, balance: str = "auto", checked: bool = False,
) -> tuple[Launch | None, tuple[Any, ...]]:  # fmt: skip
    """The launch that fits the arguments, and these without bundles.  No launch: run eagerly."""
    types = tuple(map(type, args))
    shape = _shapes.get(types)
    if shape is None:
        shape = _shapes[types] = Shape(types)
    given = args
    while shape.flatten is not None:
        args = shape.flatten(args)
        shape = _shape_of_fields(args, shape)
    if items is None:
        key = shape.key(args)
    elif where is None:
        key = shape.key(args, id(items), together, balance, checked)
    else:
        options = together, balance, checked
        key = shape.key(args, id(items), *options, *place(where), cells(where))
    found = what.launches.get(key)
    if found is not None and found.fits():
        return None if found.by_steps() else found, args
    if what.kind == "kernel" and not isinstance(items, Table | Collection):
        raise TypeError(f"foreach runs over a table or a collection, not {items!r}")
    device = _device(items, args)
    with lock_of(_objects(items, args)), _binding, deep():
        found = what.launches.get(key)
        if found is not None and found.fits():  # another thread was first
            return None if found.by_steps() else found, args
        request = Request(what, items, given, where, device, together, balance, checked)
        compiled, slots = _accepted(request)
        if what.kind == "program" and device.kind == "python":
            return None, args
        _same_device(slots.objects.values(), device)
        if by_steps(compiled, slots.objects):
            return None, args
        what.launches.pop(key, None)
        while len(what.launches) >= KEPT:
            del what.launches[next(iter(what.launches))]
        what.launches[key] = launch = Launch(what, compiled, slots)
        launch.checked = latest.epoch
        return launch, args


def _shape_of_fields(args: tuple[Any, ...], bundled: Shape) -> Shape:
    """The shape of arguments that were ``bundled`` before."""
    types = tuple(map(type, args))
    found = bundled.fields.get(types)
    if found is None:
        found = bundled.fields[types] = Shape(types)
    return found


def accept(what: Program, args: tuple[Any, ...]) -> None:
    """Refuse a program that does not compile, before it runs as plain Python."""
    with _binding, deep():
        _accepted(Request(what, None, args, None, _device(None, args)))


def _accepted(request: Request) -> tuple[Compiled, Slots]:
    """Bind a request; the traceback of an error leaves out the compiler's frames."""
    try:
        return bind(request)
    except LanguageError as error:
        raise LanguageError(error.problem, error.pos, error.hint) from None
    except RecursionError:
        source = request.what.definition.source
        problem = f"{source.name!r} is nested too deeply"
        raise LanguageError(problem, source.pos(source.tree), "split it into functions") from None


def _is_called(t: type) -> bool:
    """Whether objects of a type are functions."""
    return any("__call__" in vars(base) for base in t.__mro__)


def _told(obj: Any) -> Any:
    """What stays while the compiler would be told the same of an object; rows may come and go."""
    if obj.kind == "graph":
        return obj.directed, obj.out_identity, obj.loose, len(obj.tables)
    return obj.version


def _odd_key(a: Any) -> Any:
    """What of a row the unit depends on; anything else is refused when it is bound."""
    return id(a.table) if isinstance(a, Row) else None


def _device(items: Any, args: tuple[Any, ...]) -> Device:
    objects = _objects(items, args)
    if not objects:
        raise TypeError("a program needs a graph, table or collection among its arguments")
    device: Device = objects[0].device
    _same_device(objects, device)
    return device


def _objects(items: Any, args: tuple[Any, ...]) -> list[Any]:
    objects = [x.table if isinstance(x, Row) else x for x in (items, *flat(args))]
    return [x for x in objects if isinstance(x, OBJECTS)]


def _same_device(objects: Iterable[Any], device: Device) -> None:
    for x in objects:
        if x.device != device:
            raise TypeError(f"{x!r} is on {x.device.name}, but the launch is on {device.name}")


class Launch:
    """One unit, bound to the objects that it runs on; these are held weakly.

    Attributes
    ----------
    words : ndarray of uint64
        The arguments.  Addresses, and what else follows from the objects' versions, are filled in
        when one of these has changed; numbers at each launch.
    epoch : int
        `morph.data.versions.latest` when the versions were last compared.
    """

    def __init__(self, what: Kernel | Program, compiled: Compiled, slots: Slots) -> None:
        self.what = what
        self.device = compiled.device
        self.scratch = scratch(compiled.device)
        self.near = self.device.kind != "cuda"  # in the host's memory, its counters too
        # no WeakValueDictionary: an exception of a signal handler is lost in its callbacks
        self.refs = {slot: weakref.ref(o) for slot, o in slots.objects.items()}
        self.bound = [*self.refs.values()]
        self.lock = lock_of(slots.objects.values())
        self._use(compiled)

    def _use(self, compiled: Compiled) -> None:
        """Run this unit from now on."""
        self.compiled = compiled
        self.binary = compiled.binary(faults, seed)
        self.mode = (faults, seed)
        self.words = np.zeros(len(compiled.fields), np.uint64)
        self.buffer = self.words.data
        self.state = self.scratch.state_for(State.VARS + len(compiled.unit.state))
        self.told = self.state.size <= STATE  # the state lies beside the status
        self.epoch = self.most = self.edges = 0
        self.checked = -1  # `latest.epoch` when the text was last found to fit
        self.lent = -1  # `Scratch.version` when its addresses were filled in,
        self.threads = 0  # and the limit of threads at that time
        self.versions: list[int] = []
        self.kinds: list[Any] = []  # of the objects, when they were last found to fit
        self.domains = [self.refs[slot] for slot in compiled.domains]
        self.together = [self.refs[slot] for slot in compiled.together]
        self.touches = [self.refs[slot] for slot in compiled.touches]
        self.reshapes = [(self.refs[s], s in compiled.redirects) for s in compiled.reshapes]
        self.deletes = [self.refs[slot] for slot in compiled.deletes]

    @property
    def objects(self) -> dict[str, Any]:
        """Those of the objects that still exist, by slot."""
        return {slot: o for slot, ref in self.refs.items() if (o := ref()) is not None}

    def by_steps(self) -> bool:
        """Whether a program runs launch by launch, see `binding.by_steps`."""
        return bool(self.compiled.cuts) and by_steps(self.compiled, self.objects)

    def edit(self, text: str) -> None:
        """Use another text from now on, wherever the unit is bound, now or later."""
        self.compiled.edit(text, faults, seed)
        for launch in self.what.launches.values():
            if launch.compiled is self.compiled:
                launch._use(self.compiled)

    def fits(self) -> bool:
        """Whether the launch is still the right one for these objects."""
        if not self.compiled.holds() or self.mode != (faults, seed):
            return False
        if self._current():
            return True
        self.versions = []  # the words are filled anew
        return self._same_types()

    def _outdated(self) -> bool:
        """Whether changes by another thread since `fits` have made the text wrong."""
        return self.checked != latest.epoch and not self._same_types()

    def _current(self) -> bool:
        """Whether the addresses in the words still hold."""
        epoch = latest.epoch  # before the versions: who changes one notes it here after that
        if epoch == self.epoch:
            return True
        try:
            if not self.versions or self.versions != list(map(VERSION, map(CALL, self.bound))):
                return False
        except AttributeError:  # one is gone
            return False
        self.epoch = epoch
        return True

    def _same_types(self) -> bool:
        """Whether the text still fits the objects, wherever their memory has moved."""
        epoch = latest.epoch
        objects = [ref() for ref in self.bound]
        if any(o is None for o in objects):
            return False
        kinds = [_told(o) for o in objects]
        if kinds == self.kinds:
            self.checked = epoch
            return True
        fresh = Slots()
        for slot, obj in self.objects.items():  # as when it was bound
            if "." not in slot:
                fresh.of(obj, slot)
        unit = self.compiled.unit
        same = all(fresh.stores.get(s.slot) == s for s in unit.stores)
        same = same and all(fresh.graphs.get(g.slot) == g for g in unit.graphs)
        self.kinds = kinds if same else []
        self.checked = epoch if same else -1
        return same

    # --- running ---------------------------------------------------------------------------------

    def run(self, args: tuple[Any, ...], where: Where, alone: bool = False) -> Any:
        """Launch, by one thread or a GPU's block if ``alone``; replay until every item has run.

        Raises
        ------
        Outdated
            If another thread has changed the objects so that they need another launch.
        """
        compiled, shared = self.compiled, self.scratch
        numbers = compiled.numbers
        values = self._values(args, where) if numbers is None else numbers(args)
        with self.lock, shared.lock:
            if shared.running:
                raise RuntimeError("a signal handler that interrupts a launch cannot launch")
            for ref, _ in self.reshapes:
                ref().may_change()  # type: ignore[union-attr]
            if not self._current():  # or another thread has launched or changed something
                if self._outdated():
                    raise Outdated
                if self.device.kind != "python":
                    self._fill()
            if self.device.kind == "python":
                self._note_versions()
            failed, graphs = True, self._begin() if self.reshapes else ()
            shared.running = True
            try:
                if self.device.kind == "python":
                    self._interpret(values)
                else:
                    self._launch(values, alone)
                result = self._result() if compiled.result is not None else None
                failed = False
                return result
            except BaseException:  # a signal handler's, too
                shared.stop()
                raise
            finally:  # items may have run even if others could not
                shared.running = False
                try:
                    self._end(graphs, failed)
                except BaseException:  # an interrupt, perhaps the second one
                    self._recover(graphs)
                    raise

    def _begin(self) -> list[tuple[Any, Before, bool]]:
        """Return graphs whose points or edges may change, their counters, and whether ends move."""
        graphs = [(ref(), moved) for ref, moved in self.reshapes]
        fused = self.compiled.unit.fused  # a program that adds or deletes edges traverses none
        return [(g, begin_launch(g, fused), moved) for g, moved in graphs if g is not None]

    def _end(self, graphs: Iterable[tuple[Any, Before, bool]], failed: bool) -> None:
        """Have tables and graphs follow what the launch has done."""
        self._touch()
        for g, before, moved in graphs:
            end_launch(g, before, moved, failed)
        if self.near and self.deletes:
            self._release()

    def _recover(self, graphs: Iterable[tuple[Any, Before, bool]]) -> None:
        """Do what `_end` does, after an interrupt in it."""
        self._touch()
        for g, _, _ in graphs:
            recover(g)

    def _touch(self) -> None:
        """Have counters that the launch may have changed on a GPU fetched when they are needed."""
        if not self.near:
            for ref in self.touches:
                if (store := ref()) is not None:
                    store.touched()

    def _release(self) -> None:
        """Release the deleted rows of tables to which nothing can refer."""
        for ref in self.deletes:
            if (table := ref()) is not None:
                release(table)

    def _values(self, args: tuple[Any, ...], where: Where) -> list[Any]:
        """The numbers among the arguments, and in the closures of functions."""
        origins = self.compiled.origins
        return [args[o] if isinstance(o, int) else self._captured(o, where) for o in origins]

    def _captured(self, origin: tuple[str, str], where: Any) -> Any:
        kind, name = origin
        function: Any = where if kind == "where" else self.what.__wrapped__
        return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents

    def _fill(self) -> None:
        """Write the addresses of everything the unit touches, and count what there may be of it."""
        compiled, objects = self.compiled, self.objects
        self.versions, epoch = [], latest.epoch
        for slot, direction in compiled.adjacency:
            objects[slot].index(direction)
        for i, f in enumerate(compiled.fields):
            if f.kind in ("shadow", "deaths"):
                checks = self.scratch.checks
                self.words[i] = checks.address(objects[f.slot], f.kind, f.column)
            elif f.slot:
                extra = (f.column,) if f.column else ()
                self.words[i] = objects[f.slot].address(f.kind, *extra)
                if f.kind == "owner":
                    self.scratch.claimed.add(objects[f.slot])
        self._note_versions()
        self.epoch = epoch
        self.most = max((d.capacity for ref in self.domains if (d := ref()) is not None), default=0)
        self.edges = max((objects[g].edges.capacity for g, _ in compiled.adjacency), default=0)
        self.lent = -1

    def _note_versions(self) -> None:
        self.versions = [o.version for ref in self.bound if (o := ref()) is not None]

    def _items(self) -> int:
        """As many items as any step has, or more."""
        if not self.near or self.compiled.unit.fused:
            return self.most
        most = 0
        for ref in self.domains:
            if (domain := ref()) is not None:
                n = int(domain.words[COUNT])
                most = max(most, n - int(domain.words[HEAD]) if domain.kind == "collection" else n)
        return most

    def _borrow(self, most: int) -> None:
        """Have what launches share large enough for ``most`` CPU threads; write addresses."""
        s, words, index = self.scratch, self.words, self.compiled.index
        s.have(self.most, self.edges if self.compiled.lists else -1, self._most_threads(most))
        self.threads = most
        for kind, array in s.arrays().items():
            if kind in index:
                words[index[kind]] = self.device.pointer(array)
        if self.compiled.unit.checked:
            words[index["check"]] = self.device.pointer(s.checks.words)
        words[index["state"]] = self.device.pointer(self.state) if self.compiled.unit.fused else 0
        words[index["report"]] = s.answer.address if self.compiled.unit.fused and self.told else 0
        self.lent = s.version

    def _launch(self, values: Sequence[Any], alone: bool) -> None:
        s, compiled, most = self.scratch, self.compiled, threads()
        team = 1 if alone else most
        if values:
            self._pack(values)
        if self.together and not self.near:
            self._check_together()
        s.launches += 1
        RUN.pack_into(self.buffer, compiled.run_words, 0, s.launches, team)
        if s.dirty or compiled.can_fail:
            s.begin()
        if self.lent != s.version or self.threads != most:
            self._borrow(most)
        if not compiled.can_fail:
            self.binary(self.words, self._items())
            s.dirty = False
            return
        if compiled.unit.fused and self.near:  # a GPU's is not read
            self.state[:] = 0
        number = s.launches
        rounds = self._begin_checks(most) if compiled.unit.checked else 0
        while True:
            self.binary(self.words, self._items(), alone)
            told = s.answer.hear(compiled.unit.fused and self.told, compiled.interruptible)
            if not told[Status.FAILED]:
                s.dirty = False
                if told[Status.ROUND] > ROUNDS:
                    s.recount()
                now = told[Status.ROUND] if compiled.claims else 0
                if compiled.unit.checked and (v := s.checks.end(now - rounds)):
                    raise error(compiled.unit, v, self.objects)
                return
            self._mend()
            if self.together and not self.near:
                self._check_together()
            if self.compiled.lists:
                s.keep_hubs(self._most_threads(most))
            self._borrow(most)
            # with the number of before: locks of the first run stay taken
            RUN.pack_into(self.buffer, self.compiled.run_words, 1, number, team)

    def _pack(self, values: Sequence[Any]) -> None:
        """Write the numbers among the arguments."""
        compiled = self.compiled
        try:
            compiled.scalars.pack_into(self.buffer, compiled.first_scalar, *values)
        except struct.error:
            raise OverflowError(f"of the numbers {values}, one does not fit in i64") from None

    def _begin_checks(self, most: int) -> int:
        """Prepare the checks of a launch; return the number of the round before its first one.

        This number is 0 if the unit has no claims: generated code then does not read it.
        """
        s, rounds = self.scratch, 0
        if self.compiled.claims:
            rounds = int(self.device.to_host(s.status)[Status.ROUND])
        s.checks.begin(rounds)
        self._fill()  # shadow words are allocated for all rows
        self._borrow(most)
        return rounds

    def _most_threads(self, most: int) -> int:  # as many as the launch can have
        return most if self.near else int(self.binary.threads)

    def _check_together(self) -> None:
        """Refuse more items than a GPU has threads at once; those of a program may become more."""
        word = CAPACITY if self.compiled.unit.fused else COUNT
        n = max(int(d.words[word]) for ref in self.together if (d := ref()) is not None)
        if n > (most := self.binary.threads):
            raise ValueError(f"{n} items together, but {self.device.name} runs {most} at once")

    def _mend(self) -> None:
        """Grow what was too small, so that the items that failed can run."""
        status = self.device.to_host(self.scratch.status).copy()
        failed, stands_for, objects = int(status[Status.FAILED]), self._stands_for(), self.objects
        for slot in self.compiled.touches:
            objects[slot].touched()
        for full, store in zip(status[Status.STORES :], self.compiled.unit.stores, strict=False):
            if full:
                obj = objects[stands_for.get(store.slot, store.slot)]
                obj.touched()
                obj._make_room(failed)
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

    def _interpret(self, values: Sequence[Any]) -> None:
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
                self._mend()
                replay = True
        except Violated as found:
            raise error(unit, found.violation, objects) from None
        finally:
            if self.scratch.dirty:  # what items had reserved is free again
                for slot in self.compiled.touches:
                    objects[slot].settle()

    def _result(self) -> Any:
        """What the program returned: a Python scalar."""
        kind, at = self.compiled.result  # type: ignore[misc]
        if self.told:
            return kind.unpack_from(self.scratch.answer.words, 8 * (STATUS + at))[0]
        return kind.unpack_from(self.device.to_host(self.state).tobytes(), 8 * at)[0]


MOST_THREADS = 256  # the same as in kernels/schedule/pool.h
_threads = 0


POOL_WORD = (
    16  # index in ``Scratch.barrier`` of the pool's address; the same as in kernels/schedule/pool.h
)


def threads() -> int:
    """The limit of CPU threads: as set, else OMP_NUM_THREADS, else the process's cores."""
    global _threads
    n = _threads  # another thread of the host may set it meanwhile
    if not n:
        given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
        n = int(given) if given.isdigit() and int(given) > 0 else _cores()
        n = _threads = min(n, MOST_THREADS)
    return n


class _Limit(ctypes.Structure):
    """The first words of ``Pool`` in kernels/schedule/pool.h."""

    _fields_ = (("rested", ctypes.c_int64), ("limit", ctypes.c_int32))


def available_threads() -> int:
    """How many CPU threads a launch has now: fewer while other processes use the cores."""
    most = threads()
    address = int(scratch(device("cpu")).barrier[POOL_WORD : POOL_WORD + 2].view(np.uint64)[0])
    if not address:
        return most
    now = _Limit.from_address(address + 63 & ~63)
    resting = now.limit and time.clock_gettime_ns(time.CLOCK_MONOTONIC) < now.rested
    return min(now.limit, most) if resting else most


def set_threads(n: int | None) -> None:
    """Implement `morph.set_num_threads`."""
    global _threads
    if n is None:
        _threads = 0
        return
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise TypeError(f"set_num_threads(n): n is a whole number or None, not {n!r:.50}")
    if not 1 <= n <= MOST_THREADS:
        raise ValueError(f"set_num_threads(n): n is 1 to {MOST_THREADS}, not {n}")
    _threads = int(n)


def _cores() -> int:
    """The cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _forked() -> None:
    """In a child process: its other threads are gone."""
    global _binding
    _binding = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
