"""A compiled unit bound to its arguments, and its launches: words filled, stores grown, replays."""

from __future__ import annotations

import contextlib
import os
import struct
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from morph.device import Device
from morph.lang import abi, ir
from morph.lang.abi import State, Status
from morph.lang.builtins import from_dtype, to_dtype
from morph.lang.definition import Definition
from morph.lang.errors import reject
from morph.lang.ir import Pos
from morph.lang.program import RESULT, ProgramChecker
from morph.lang.scope import spelled
from morph.lang.source import read
from morph.lang.types import BOOL, F64, I32, I64, Handle, Object, Scalar, Type
from morph.lang.unit import Builder, checked
from morph.lang.values import ObjectValue, PythonValue, Value
from morph.row import Row
from morph.slots import OBJECTS, Slots

if TYPE_CHECKING:
    from morph.kernel import Kernel, Program

spent = {"compile": 0.0, "transfer": 0.0}
faults = False  # compile with fault injection (tests)
seed = 0  # order of items on the python device (tests)
_scratch: dict[str, Scratch] = {}
_loaded: dict[tuple[str, str, bool], Any] = {}
MOST_LAUNCHES = 64  # bound launches that one kernel remembers
Closed = tuple[str, str]  # a number in the closure of the "kernel" or the "where", by name


class Scratch:
    """What every launch on a device shares: status, barrier and work-sharing words, replay bits."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.status = device.zeros(64, np.int64)
        self.barrier = device.zeros(64, np.uint32)
        self.cursor = device.zeros(64, np.int64)
        self.pending = device.zeros(1024, np.uint32)
        self.launches = 0

    def pending_for(self, items: int) -> int:
        """The address of a zeroed bit for each item; bits that are set stay."""
        words = -(-items // 32)
        if words > self.pending.size:
            bigger = self.device.zeros(max(words, 2 * self.pending.size), np.uint32)
            bigger[: self.pending.size] = self.pending
            self.pending = bigger
        return self.device.pointer(self.pending)


def scratch(device: Device) -> Scratch:
    """The scratch memory of a device."""
    if device.name not in _scratch:
        _scratch[device.name] = Scratch(device)
    return _scratch[device.name]


@contextlib.contextmanager
def transferring() -> Iterator[None]:
    """Count what runs inside as transfer time."""
    synchronize()
    start = time.perf_counter()
    try:
        yield
    finally:
        synchronize()
        spent["transfer"] += time.perf_counter() - start


def synchronize() -> None:
    """Wait for every device that has been used."""
    for s in _scratch.values():
        if s.device.kind == "cuda":
            with s.device.active():
                s.device.xp.cuda.runtime.deviceSynchronize()


# --- finding the launch ------------------------------------------------------------------------------


def launch_for(
    what: Kernel | Program, items: Any, args: tuple[Any, ...], where: Callable[[Any], Any] | None
) -> Launch | None:
    """The launch that fits the arguments: a known one, or a new one.  None: run eagerly."""
    key: Any = tuple([_arg_key(a) for a in args])
    if where is not None:
        cells = where.__closure__ or ()
        key = (id(items), key, where.__code__, tuple([_cell_key(c) for c in cells]))
    else:
        key = (id(items), key)
    found = what.launches.get(key)
    if found is not None and found.fits(items, args):
        return found
    device = _device(items, args)
    if what.kind == "program" and device.kind == "python":
        return None
    while len(what.launches) >= MOST_LAUNCHES:
        del what.launches[next(iter(what.launches))]
    what.launches.pop(key, None)
    what.launches[key] = launch = Launch(what, items, args, where, device)
    return launch


def _arg_key(a: Any) -> Any:
    if isinstance(a, Row):
        return ("row", id(a.table))
    return id(a) if isinstance(a, OBJECTS) or callable(a) else type(a)


def _cell_key(cell: Any) -> Any:
    try:
        value = cell.cell_contents
    except ValueError:
        return None
    return id(value) if isinstance(value, OBJECTS) or callable(value) else type(value)


def _device(items: Any, args: tuple[Any, ...]) -> Device:
    objects = [x.table if isinstance(x, Row) else x for x in (items, *args)]
    objects = [x for x in objects if isinstance(x, OBJECTS)]
    if not objects:
        raise TypeError("a program needs a graph, table or collection among its arguments")
    device: Device = objects[0].device
    for x in objects:
        if x.device != device:
            raise TypeError(f"{x!r} is on {x.device.name}, but the launch is on {device.name}")
    return device


class Launch:
    """One unit, bound to the objects that it runs on."""

    def __init__(
        self, what: Kernel | Program, items: Any, args: tuple[Any, ...],
        where: Callable[[Any], Any] | None, device: Device,
    ) -> None:  # fmt: skip
        self.what, self.device = what, device
        self.scratch = scratch(device)
        self.local_scale = 1
        self._text: str | None = None
        self._edited = False
        self._build(items, args, where)

    # --- compiling -------------------------------------------------------------------------------

    def _build(self, items: Any, args: tuple[Any, ...], where: Callable[[Any], Any] | None) -> None:
        start = time.perf_counter()
        definition = self.what.definition
        tree = definition.source.tree
        pos = definition.source.pos(tree)
        slots = Slots()
        names = [spelled(n) for n in definition.source.params]
        if self.what.kind == "kernel":
            names = names[1:]
        if len(names) != len(args):
            reject(
                f"{definition.name!r} takes {len(names)} arguments"
                f"{' after the item' if items is not None else ''}, not {len(args)}",
                pos,
            )
        for arg, name in zip(args, names, strict=True):  # graphs first: they name their tables
            if isinstance(arg, OBJECTS):
                slots.of(arg, name)
        builder = Builder(slots.stores, slots.graphs, slots.of)
        values: list[Value] = []
        scalars: dict[str, Scalar] = {}
        self.getters: list[tuple[str, int | Closed]] = []
        self.held = [a for a in args if callable(a)]  # known by id while this launch lives
        for i, (arg, name) in enumerate(zip(args, names, strict=True)):
            t = slots.of(arg, name)
            if t is not None:
                values.append(ObjectValue(pos, t))
            elif isinstance(arg, Row):
                row = slots.of(arg.table, f"{name}s")
                assert row is not None
                key = name if self.what.kind == "kernel" else f"{name}_arg_"
                scalars[key] = I32
                self.getters.append((key, i))
                index = ir.Var(name=name, type=I32, pos=pos)
                values.append(ir.Cast(x=index, type=Handle(row.slot), pos=pos))
            elif callable(arg):
                values.append(PythonValue(pos, arg))
            else:
                scalar = _scalar_type(arg)
                if scalar is None:
                    raise TypeError(f"argument {name!r} is a {type(arg).__name__}; kernels take graphs, "
                                    "tables, collections, sets, flags, functions and numbers")  # fmt: skip
                key = name if self.what.kind == "kernel" else f"{name}_arg_"
                scalars[key] = scalar
                self.getters.append((key, i))
                values.append(ir.Var(name=name, type=scalar, pos=pos))
        if self.what.kind == "kernel":
            unit = self._kernel_unit(builder, slots, definition, items, values, where, scalars, pos)
        else:
            unit = self._program_unit(builder, slots, definition, names, values, scalars, pos)
        self.unit, self._text = unit, None
        self.objects = weakref.WeakValueDictionary(slots.objects)
        if self._forbids_deletes():
            self._build(items, args, where)
            return
        self.dependencies = builder.dependencies
        self._facts()
        self._load()
        spent["compile"] += time.perf_counter() - start

    def _kernel_unit(
        self, builder: Builder, slots: Slots, definition: Definition, items: Any,
        values: list[Value], where: Callable[[Any], Any] | None, scalars: dict[str, Scalar], pos: Pos,
    ) -> ir.Unit:  # fmt: skip
        domain = slots.of(items, "items")
        if domain is None or domain.kind not in ("table", "collection"):
            raise TypeError(f"foreach runs over a table or collection, not {type(items).__name__}")
        item = builder.item_type(domain.slot)
        k = builder.kernel(definition, item, values, pos)
        args = tuple(v for v in values if isinstance(v, ir.Expr))
        args += self._closures(builder, k, "kernel", scalars)
        where_args: tuple[ir.Expr, ...] = ()
        if where is not None:
            test = builder.where(definition_of_where(where), item, pos)
            where_args = self._closures(builder, test, "where", scalars)
            k = replace(k, where=test.name)
            del builder.funcs[k.name]
            builder.funcs[k.name] = k
        step = ir.Foreach(
            slot=domain.slot, kernel=k.name, args=args, where_args=where_args, pos=pos
        )
        block = ir.Block(steps=(step,), cond=None, goto=-1, pos=pos)
        return self._unit(definition, builder, scalars, (), (block,), fused=False, pos=pos)

    def _closures(
        self, builder: Builder, func: ir.Func, kind: str, scalars: dict[str, Scalar]
    ) -> tuple[ir.Expr, ...]:
        """The parameters of a kernel or filter that are read from its closure at every launch."""
        found = []
        for n, _ in func.params:
            if n in builder.closures:
                scalars[n], name = builder.closures[n]
                self.getters.append((n, (kind, name)))
                found.append(ir.Var(name=n, type=scalars[n], pos=func.pos))
        return tuple(found)

    def _program_unit(
        self, builder: Builder, slots: Slots, definition: Definition, names: list[str],
        values: list[Value], scalars: dict[str, Scalar], pos: Pos,
    ) -> ir.Unit:  # fmt: skip
        params: dict[str, Value | Type] = {
            n: (v.type if isinstance(v, ir.Expr) else v) for n, v in zip(names, values, strict=True)
        }
        builder.inline = True
        state, blocks = checked(
            lambda hints: ProgramChecker(builder, definition, params, hints).program()
        )
        unit = self._unit(definition, builder, scalars, state, blocks, fused=True, pos=pos)
        walked = any(
            isinstance(n, ir.ForEdges | ir.Degree | ir.FindEdge) for n in ir.walk(unit.funcs)
        )
        for n in ir.walk(unit.funcs):
            if isinstance(n, ir.New | ir.NewRows | ir.Delete) and walked:
                if n.slot.rpartition(".")[2] in ("edges", "points"):
                    reject(
                        "a program that walks edges cannot add or delete points and edges",
                        n.pos, "leave out @program: the adjacency is rebuilt between launches",
                    )  # fmt: skip
        return unit

    def _unit(
        self, definition: Definition, builder: Builder, scalars: dict[str, Scalar],
        state: tuple[tuple[str, Type], ...], blocks: tuple[ir.Block, ...], fused: bool, pos: Pos,
    ) -> ir.Unit:  # fmt: skip
        reached = _reachable(builder.funcs, blocks)
        return ir.Unit(
            name=f"morph_{definition.name}",
            stores=tuple(builder.stores.values()),
            graphs=tuple(builder.graphs.values()),
            scalars=tuple(scalars.items()),
            funcs=tuple(f for n, f in builder.funcs.items() if n in reached),
            state=state,
            blocks=blocks,
            fused=fused,
            local_scale=self.local_scale,
            pos=pos,
        )

    def _forbids_deletes(self) -> bool:
        """Let tables have dead rows before a kernel that deletes is compiled; true if that is new."""
        slots = {n.slot for n in ir.walk(self.unit.funcs) if isinstance(n, ir.Delete)}
        fresh = [self.objects[s] for s in slots if not self.objects[s].deletes]
        for table in fresh:
            table.allow_deletes()
        return bool(fresh)

    def _facts(self) -> None:
        """What the launch has to do around the kernel."""
        unit = self.unit
        nodes = list(ir.walk((unit.funcs, unit.blocks)))
        self.can_fail = unit.fused or any(
            isinstance(n, ir.Reserve | ir.Claim | ir.LocalAdd) for n in nodes
        )
        self.touches = sorted({
            n.slot for n in nodes
            if isinstance(n, ir.New | ir.NewRows | ir.Delete | ir.Add | ir.Take | ir.Clear)
        })  # fmt: skip
        self.reshapes = [
            g.slot for g in unit.graphs
            if {f"{g.slot}.points", f"{g.slot}.edges"} & set(self.touches)
        ]  # fmt: skip

    def _load(self) -> None:
        """Emit, compile, and lay out the argument words."""
        if self.device.kind == "python":
            from morph.run import python

            self.oracle = python.load(self.unit, seed)
        else:
            key = (self.device.name, self.text, faults)
            if key not in _loaded:
                from morph import run

                _loaded[key] = run.load(self.unit, self.text, faults, self.device)
            self.binary = _loaded[key]
        self.fields = abi.fields(self.unit)
        self.words = np.zeros(len(self.fields), np.uint64)
        names = [f.name for f in self.fields]
        self.places: dict[str, Any] = {}
        for name, scalar in self.unit.scalars:
            cell = self.words[names.index(name) : names.index(name) + 1].view(np.uint8)
            self.places[name] = cell[: scalar.bits // 8].view(to_dtype(scalar))
        self.index = {f.kind: i for i, f in enumerate(self.fields) if not f.slot}
        self.signed = self.words.view(np.int64)
        self.state = self.device.zeros(State.VARS + len(self.unit.state), np.int64)
        self.versions: list[int] = []
        self.bound = [weakref.ref(o) for o in self.objects.values()]
        domains = {n.slot for n in ir.walk(self.unit.blocks) if isinstance(n, ir.Foreach)}
        self.domains = [weakref.ref(self.objects[slot]) for slot in sorted(domains)]
        self.adjacency = sorted(
            (f.slot, f.kind.partition("_")[0]) for f in self.fields if f.kind.endswith("_offset")
        )
        self.inputs = [(self.places[name], origin) for name, origin in self.getters]

    @property
    def text(self) -> str:
        """The generated C++, without the prelude."""
        if self._text is None:
            from morph.lang import emit

            self._text = emit.source(self.unit)
        return self._text

    def edit(self, text: str) -> None:
        """Use another text from now on."""
        self._text, self._edited = text, True
        self._load()

    # --- running ---------------------------------------------------------------------------------

    def fits(self, items: Any, args: tuple[Any, ...]) -> bool:
        """Whether the launch is still the right one for these objects."""
        for holds in self.dependencies:
            if not holds():
                return False
        return self._current() or self._same_types()

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
        if any(ref() is None for ref in self.bound):
            return False
        fresh = Slots()
        for slot, obj in sorted(self.objects.items()):
            if "." not in slot:
                fresh.of(obj, slot)
        stores = all(fresh.stores.get(s.slot) == s for s in self.unit.stores)
        return stores and all(fresh.graphs.get(g.slot) == g for g in self.unit.graphs)

    def _fill(self) -> None:
        """Write the addresses of everything the unit touches."""
        objects = self.objects
        for slot, direction in self.adjacency:
            objects[slot].adjacency(direction)
        for i, f in enumerate(self.fields):
            if f.slot:
                extra = (f.column,) if f.column else ()
                self.words[i] = objects[f.slot].address(f.kind, *extra)
        self._note_versions()
        s = self.scratch
        pointer = self.device.pointer
        self.words[self.index["status"]] = pointer(s.status)
        self.words[self.index["barrier"]] = pointer(s.barrier)
        self.words[self.index["cursor"]] = pointer(s.cursor)
        self.words[self.index["state"]] = pointer(self.state) if self.unit.fused else 0
        self.words[self.index["threads"]] = threads()

    def _note_versions(self) -> None:
        self.versions = [o.version for ref in self.bound if (o := ref()) is not None]

    def run(self, args: tuple[Any, ...], where: Callable[[Any], Any] | None) -> Any:
        """Launch; grow and replay until every item has run."""
        if not self._current():
            if self.device.kind == "python":
                self._note_versions()
            else:
                self._fill()
        for place, origin in self.inputs:
            value = args[origin] if isinstance(origin, int) else self._captured(origin, where)
            place[0] = value.id if isinstance(value, Row) else value
        if self.device.kind == "python":
            self._interpret()
        else:
            self._launch()
        for slot in self.touches:
            self.objects[slot].touched()
        for slot in self.reshapes:
            self.objects[slot].structure_changed()
        return self._result() if self.unit.fused else None

    def _captured(self, origin: Closed, where: Any) -> Any:
        kind, name = origin
        function: Any = where if kind == "where" else self.what.__wrapped__
        return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents

    def _items(self) -> int:
        if self.device.kind == "cpu" and len(self.domains) == 1:
            domain = self.domains[0]()
            return len(domain) if domain is not None else 0
        return self._most()

    def _most(self) -> int:
        """The most items that any step can have."""
        return max((d.capacity for ref in self.domains if (d := ref()) is not None), default=0)

    def _launch(self) -> None:
        s, index = self.scratch, self.index
        s.launches += 1
        self.signed[index["launch"]] = s.launches
        self.signed[index["replay"]] = 0
        if self.can_fail:
            self.words[index["pending"]] = s.pending_for(self._most())
        if self.unit.fused:
            self.state[:] = 0
        while True:
            with self.device.active():
                self.binary(self.words, self._items())
            if not self.can_fail:
                return
            status = self.device.to_host(s.status)
            if not self._grow(status):
                return
            self.signed[index["replay"]] = 1
            s.launches += 1
            self.signed[index["launch"]] = s.launches
            self.words[index["pending"]] = s.pending_for(self._most())

    def _grow(self, status: np.ndarray[Any, Any]) -> bool:
        """Grow what was too small; false if every item has run."""
        if status[Status.ERROR]:
            self.scratch.status[Status.ERROR] = 0
            raise RuntimeError(f"error {int(status[Status.ERROR])} in {self.what!r}")
        if not status[Status.FAILED]:
            return False
        for k, store in enumerate(self.unit.stores):
            if status[Status.STORES + k]:
                self.objects[store.slot].touched()
                self.objects[store.slot].grow()
        for slot in self.touches:
            self.objects[slot].touched()
        round_ = int(status[Status.ROUND])
        keep = status.copy()
        keep[[Status.FAILED, Status.LOCAL]] = 0
        keep[Status.STORES :] = 0
        keep[Status.ROUND] = round_
        self.scratch.status[:] = self.device.asarray(keep)
        if status[Status.LOCAL]:
            self._enlarge()
        else:
            self._fill()
        return True

    def _enlarge(self) -> None:
        """Double every local collection: a new text, compiled, with the same arguments."""
        self.local_scale *= 2
        self.unit = replace(self.unit, local_scale=self.local_scale)
        self._text = self._text if self._edited else None
        words, state = self.words, self.state
        start = time.perf_counter()
        self._load()
        spent["compile"] += time.perf_counter() - start
        self.words[:], self.state = words, state
        if self.device.kind != "python":
            self._fill()

    def _interpret(self) -> None:
        status, pending, replay = self.scratch.status, set[int](), False
        objects = self.objects
        stores = {s.slot: objects[s.slot] for s in self.unit.stores}
        graphs = {g.slot: objects[g.slot] for g in self.unit.graphs}
        scalars = {n: p[0] for n, p in self.places.items()}
        self.scratch.launches += 1
        while True:
            self.oracle(stores, graphs, scalars, status, replay, pending)
            if not status[Status.FAILED]:
                return
            for k, store in enumerate(self.unit.stores):
                if status[Status.STORES + k]:
                    objects[store.slot].grow()
            small = status[Status.LOCAL]
            status[[Status.FAILED, Status.LOCAL]] = 0
            status[Status.STORES :] = 0
            if small:
                self._enlarge()
            replay = True

    def _result(self) -> Any:
        names = [n for n, _ in self.unit.state]
        if RESULT not in names:
            return None
        i = names.index(RESULT)
        t = self.unit.state[i][1]
        assert isinstance(t, Scalar)
        word = int(self.device.to_host(self.state)[State.VARS + i])
        raw = struct.pack("<q", word)[: t.bits // 8]
        return np.frombuffer(raw, to_dtype(t))[0].item()


def definition_of_where(where: Any) -> Definition:
    """Parse a filter once."""
    code = where.__code__
    if code not in _wheres:
        _wheres[code] = Definition("where", read(where))
    found = _wheres[code]
    if found.source.function is not where:
        found = replace(found, source=replace(found.source, function=where))
    return found


_wheres: weakref.WeakKeyDictionary[Any, Definition] = weakref.WeakKeyDictionary()


def _scalar_type(value: Any) -> Scalar | None:
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, np.generic):
        return from_dtype(value.dtype)
    if isinstance(value, int):
        return I64
    return F64 if isinstance(value, float) else None


def _reachable(funcs: dict[str, ir.Func], blocks: tuple[ir.Block, ...]) -> set[str]:
    todo = [n.kernel for n in ir.walk(blocks) if isinstance(n, ir.Foreach)]
    todo += [n.func for n in ir.walk(blocks) if isinstance(n, ir.Call)]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        f = funcs[name]
        todo += [n.func for n in ir.walk(f) if isinstance(n, ir.Call)]
        if isinstance(f, ir.Kernel) and f.where:
            todo.append(f.where)
    return seen


_threads = 0


def threads() -> int:
    """CPU threads to use: OMP_NUM_THREADS, else the cores this process may run on."""
    global _threads
    if not _threads:
        given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
        _threads = (
            int(given) if given.isdigit() and int(given) > 0 else len(os.sched_getaffinity(0))
        )
    return _threads
