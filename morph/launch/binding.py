"""From the arguments of a launch to a compiled unit: which object fills which slot, and the text.

A unit depends on the types of its arguments, never on the objects: code compiled for one graph
serves every graph of the same columns.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from time import perf_counter
from types import CellType
from typing import Any

import numpy as np

from morph.compiler.codegen.unit import source
from morph.compiler.frontend.builder import Builder
from morph.compiler.frontend.functions import (
    check_claims,
    check_queue,
    fix_statics,
    params_of,
    specialise_filter,
    specialise_kernel,
)
from morph.compiler.frontend.program import RESULT, split_into_blocks
from morph.compiler.frontend.values import (
    Bundle,
    ObjectValue,
    PythonValue,
    Value,
    constant,
    flattened,
)
from morph.compiler.ir import abi
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import ir_name, user_name
from morph.compiler.passes.inlining import inline_effects
from morph.compiler.passes.work_sharing import lists
from morph.data.row import Row
from morph.data.versions import moved
from morph.language.bundles import (
    field_name,
    flat,
    flat_names,
    is_bundle,
    more_fields,
    own_name,
)
from morph.language.definition import definition_of, filter_of
from morph.language.errors import reject
from morph.language.intrinsics import from_dtype
from morph.language.position import Pos
from morph.language.types import BOOL, F64, I32, I64, Handle, Scalar
from morph.launch.kernels import Launchable
from morph.launch.scratch import STATUS
from morph.launch.slots import OBJECTS, VIEWS, Slots
from morph.runtime.device import Device
from morph.runtime.timing import counting

_logger = logging.getLogger("morph.launch")
Where = Callable[[Any], Any] | None
Origin = int | tuple[str, str]  # an argument, or a number in the closure of "kernel" or "where"
CODES = {"b": "?", "i": "bhiq", "u": "BHIQ", "f": "-efd"}  # of `struct`, for 1, 2, 4, 8 bytes


@dataclass(slots=True, eq=False)
class Request:
    """One call of ``foreach`` or of a program, to be compiled and bound."""

    what: Launchable
    items: Any
    args: tuple[Any, ...]
    where: Where
    device: Device
    together: bool = False
    balance: str = "auto"
    checked: bool = False
    until_empty: bool = False
    bounded: bool = False  # two more numbers bound the items


class Compiled:
    """A unit on one device, for any objects that fit, and the slots that its launches handle.

    Attributes
    ----------
    sections : how many sections a step has, at most
    touches : stores whose counters a launch may change
    reshapes, redirects : graphs whose points or edges, and whose edges' ends, a launch may change
    deletes : tables of which a launch may delete rows
    cuts : tables of points for which a program runs launch by launch, see `by_steps`
    stepwise : whether a program always runs launch by launch: it walks edges whose ends it changes
    rebuilds : graphs whose adjacency a program rebuilds, and in which directions
    typing_ms : milliseconds that the checker took to find the types
    domains : stores over which the steps run
    together : domains whose items claim all in one round
    builds : how many binaries there have been; the latest is that of full optimisation
    """

    def __init__(
        self, unit: ir.Unit, getters: dict[str, Origin], device: Device, interruptible: bool
    ) -> None:
        size, most = abi.local_bytes(unit), device.local_limit
        if size > most:
            raise MemoryError(
                f"{unit.name.removeprefix('morph_')!r} needs {size} bytes an item for its local "
                f"collections, and there are {most}: keep so much in a Collection or table"
            )
        self.unit, self.device, self.interruptible = unit, device, interruptible
        self.dependencies: list[Callable[[], bool]] = []
        self.typing_ms = 0.0
        self._text: str | None = None
        self._binary: Any = None
        self.builds = 0
        self._wider: Compiled | None = None
        self.getters = getters
        self.fields = abi.fields(unit)
        self.index = {f.kind: i for i, f in enumerate(self.fields) if not f.slot}
        scalars = [f.column for f in self.fields if f.kind == "scalar"]
        kinds = dict(unit.scalars)
        self.scalars = struct.Struct("=" + "".join(_code(kinds[n]) for n in scalars))
        self.first_scalar = 8 * next(
            (i for i, f in enumerate(self.fields) if f.kind == "scalar"), 0
        )
        self.names = scalars
        self.origins = [getters[n] for n in scalars]
        given = [o for o in self.origins if isinstance(o, int)]
        self.numbers = picker(given) if len(given) == len(scalars) else None  # else: _values
        self.run_offset = 8 * self.index["replay"]  # `replay`, `launch` and `threads`
        self.result = _result(unit)
        self.claims = abi.claims(unit)
        nodes = list(ir.walk((unit.funcs, unit.blocks)))
        self.can_fail = (
            unit.fused
            or unit.checked
            or any(isinstance(n, ir.Reserve | ir.Claim | ir.LocalAdd) for n in nodes)
        )
        changes = (ir.New, ir.NewRows, ir.Delete, ir.Add, ir.Take, ir.Clear)
        changed = {n.slot for n in nodes if isinstance(n, changes)} | abi.queues(unit)
        self.touches = _swapped_too(unit, changed)
        graphs, redirected = [g.slot for g in unit.graphs], _redirected(nodes)
        walked = {n.graph for n in nodes if n.arguments == "adjacency"}  # type: ignore[attr-defined]
        rebuilt = abi.rebuilt(unit)
        self.touches += [f"{g}.edges" for g in rebuilt if f"{g}.edges" not in self.touches]
        moved = {*self.touches, *redirected}
        self.reshapes = [g for g in graphs if {f"{g}.points", f"{g}.edges"} & moved]
        self.redirects = [g for g in graphs if f"{g}.edges" in redirected]
        self.deletes = sorted({n.slot for n in nodes if isinstance(n, ir.Delete)})
        made = {n.slot for n in nodes if isinstance(n, ir.New | ir.NewRows)} | redirected
        # points that a program deletes or may attach edges to: edges at deleted ones are deleted
        self.cuts = [f"{g}.points" for g in graphs if unit.fused and f"{g}.edges" in made]
        self.cuts += [s for s in self.deletes if unit.fused and s.endswith(".points")]
        self.cuts = [s for s in self.cuts if s.removesuffix(".points") not in rebuilt]
        self.stepwise = unit.fused and any(f"{g}.edges" in redirected for g in walked)
        self.domains = _swapped_too(unit, {n.slot for n in nodes if isinstance(n, ir.Foreach)})
        self.lists = lists(unit)
        self.sections = abi.sections(unit)
        # the domains of steps in which all items claim in one round
        steps = [n for n in nodes if isinstance(n, ir.Foreach) and n.together]
        self.together = _swapped_too(unit, {n.slot for n in steps})
        self.adjacency = sorted(
            (f.slot, f.kind.partition("_")[0]) for f in self.fields if f.kind.endswith("_offset")
        )
        self.rebuilds = {s: [d for g, d in self.adjacency if g == s] for s in sorted(rebuilt)}

    @property
    def title(self) -> str:
        """The name of the kernel or program and the device, for messages."""
        return f"{self.unit.name.removeprefix('morph_')} on {self.device.name}"

    @property
    def text(self) -> str:
        """The generated C++, without the prelude."""
        if self._text is None:
            self._text = source(self.unit)
        return self._text

    def binary(self, faults: bool, seed: int) -> Any:
        """The launcher of the unit."""
        key = (faults, seed, self.builds)
        if self._binary is None or self._binary[0] != key:
            since = perf_counter()
            with counting("compile"):
                self._binary = (key, self.device.load(self.unit, self, faults, seed))
            took = self.typing_ms, 1e3 * (perf_counter() - since)
            _logger.debug("first launch of %s: types %.1f ms, binary %.1f ms", self.title, *took)
        return self._binary[1]

    def rebuilt(self) -> None:
        """Have launches load the binary again: that of full optimisation is in the cache."""
        self.builds += 1
        moved()

    def edit(self, text: str, faults: bool, seed: int) -> None:
        """Replace the text; if the new one does not compile, the old one stays."""
        old = self._text, self._binary
        self._text, self._binary = text, None
        try:
            self.binary(faults, seed)
        except BaseException:
            self._text, self._binary = old
            raise

    def wider(self) -> Compiled:
        """The same unit with local collections twice as large."""
        if self._wider is None:
            unit = replace(self.unit, local_scale=2 * self.unit.local_scale)
            self._wider = Compiled(unit, self.getters, self.device, self.interruptible)
            self._wider.dependencies = self.dependencies
        return self._wider

    def holds(self) -> bool:
        """Whether all captured Python values are those that were compiled in."""
        for holds in self.dependencies:
            if not holds():
                return False
        return True


def picker(places: Sequence[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Return a function that selects some of a call's arguments."""
    if not places:
        return lambda args: ()
    if len(places) == 1:
        return lambda args, i=places[0]: (args[i],)  # type: ignore[misc]
    return itemgetter(*places)


def _code(t: Scalar) -> str:
    """How `struct` packs a number into a field of 8 bytes."""
    size = t.bits // 8
    return f"{CODES[t.kind][size.bit_length() - 1]}{8 - size}x"


def _result(unit: ir.Unit) -> tuple[struct.Struct, int] | None:
    """Format of a program's return value, and its word in the program's state."""
    for i, (name, t) in enumerate(unit.state):
        if name == RESULT:
            assert isinstance(t, Scalar)
            return struct.Struct("=" + _code(t)), int(abi.State.VARS) + i
    return None


def _swapped_too(unit: ir.Unit, slots: set[str]) -> list[str]:
    """These slots, and those that a program may swap with them."""
    together = abi.alike(unit)
    return sorted(slots.union(*(together.get(s, ()) for s in slots)))


_compiled: dict[Any, Compiled] = {}
MOST = 512  # units remembered


def bind(request: Request) -> tuple[Compiled, Slots]:
    """Find or make the unit that fits a request, and the objects for its slots."""
    with counting("compile"):
        slots, kinds = _slots(request)
        key = (
            request.what.definition, request.device.name, kinds, tuple(slots.stores.items()),
            tuple(slots.graphs.items()), *filter_key(request.where), closure_key(request.where),
            request.together, request.balance, request.checked, request.until_empty,
            request.bounded,
        )  # fmt: skip
        known = _compiled.get(key)
        if known is not None and known.holds():
            # compiled perhaps for a graph on which the program runs launch by launch
            return bind(request) if _allow_rebuilds(known, slots) else (known, slots)
        before, since = len(slots.objects), perf_counter()
        made = _compile(request, slots)
        made.typing_ms = 1e3 * (perf_counter() - since)
        if _let_rows_die(made.unit, slots) or _allow_rebuilds(made, slots):
            return bind(request)
        if len(slots.objects) == before:  # else a captured object has a slot: not known by the key
            while len(_compiled) >= MOST:
                del _compiled[next(iter(_compiled))]
            _compiled[key] = made
        return made, slots


def by_steps(compiled: Compiled, objects: Mapping[str, Any]) -> bool:
    """Whether a program must run launch by launch.

    Between launches the host deletes the edges of deleted points, and builds adjacency.
    """
    return (
        compiled.stepwise
        or any(objects[slot].deletes for slot in compiled.cuts)
        or not all(objects[slot].rebuildable for slot in compiled.rebuilds)
    )


def filter_key(where: Any) -> tuple[Any, int]:
    """The code of a filter and the identity of its globals: two modules may have equal code."""
    made = definition_of(where)
    return (made, 0) if made or where is None else (where.__code__, id(where.__globals__))


def captured(where: Any) -> tuple[Any, ...]:
    """The values of the closure of a filter, without bundles; None for unassigned ones."""
    return flat(tuple(map(content, getattr(where, "__closure__", None) or ())))


def content(variable: CellType) -> Any:
    """The value of a variable of an enclosing function, None if it has none yet."""
    try:
        return variable.cell_contents
    except ValueError:
        return None


def closure_key(where: Any) -> tuple[Any, ...]:
    """Key of the closure of a filter: types of numbers, identities of other objects."""
    numbers = bool | int | float | np.generic
    return tuple(type(x) if isinstance(x, numbers) else id(x) for x in captured(where))


def _slots(request: Request) -> tuple[Slots, tuple[Any, ...]]:
    """Give the arguments their slots, and other properties that the unit depends on."""
    definition = request.what.definition
    args, item = request.args, int(request.what.kind == "kernel")
    names: Sequence[str] = [ir_name(n) for n in definition.source.params[item:]]
    if not definition.takes(len(args) + item):
        after = " after the item" if item else ""
        number = definition.number(item)
        reject(
            f"{definition.name!r} takes {number} arguments{after}, not {len(args)}",
            definition.source.pos(definition.source.tree),
            f"they are {', '.join(map(user_name, names))}" if names else "call it with none",
        )
    statics = {names[i] for i in request.what.statics}
    names, args = flat_names(_names(request), args), flat(args)
    slots = Slots(request.device)
    for arg, name in zip(args, names, strict=True):  # graphs first: they name their tables
        if isinstance(arg, OBJECTS):
            slots.of(arg, own_name(name))
    kinds: list[Any] = [names]
    for arg, name in zip(args, names, strict=True):
        if name in statics:
            _scalar_type(arg, name, "a static parameter takes numbers")
            kinds.append((type(arg), repr(arg)))
        elif isinstance(arg, (*OBJECTS, *VIEWS)):
            kinds.append(slots.of(arg, own_name(name)))
        elif isinstance(arg, Row):
            row = slots.of(arg.table, f"{own_name(name)}s")
            assert row is not None
            kinds.append(Handle(row.slot))
        elif callable(arg):
            kinds.append(arg)
        else:
            kinds.append(_scalar_type(arg, name))
    if request.items is not None:
        domain = slots.of(request.items, "items")
        if domain is None or domain.kind not in ("table", "collection", "scalars"):
            kind = type(request.items).__name__
            raise TypeError(f"foreach runs over a table or collection, not {kind}")
        kinds.append(domain)
    return slots, tuple(kinds)


def _names(request: Request) -> list[str]:
    """The names of the parameters of a launch's arguments."""
    source, item = request.what.definition.source, int(request.what.kind == "kernel")
    names = [ir_name(n) for n in source.params[item:]]
    fields = more_fields(source.more, len(request.args) - len(names)) if source.more else ()
    return names + [field_name(ir_name(str(source.more)), f) for f in fields]


KINDS = (
    "kernels take graphs, tables, columns, collections, sets, flags, scalars, rows, functions and"
    " numbers"
)


def _scalar_type(value: Any, name: str, allowed: str = KINDS) -> Scalar:
    found: Scalar | None = None
    if isinstance(value, bool):
        found = BOOL
    elif isinstance(value, np.generic):
        found = from_dtype(value.dtype)
    elif isinstance(value, int):
        found = I64
    elif isinstance(value, float):
        found = F64
    if found is None:
        raise TypeError(f"argument {own_name(name)!r} is a {type(value).__name__}; {allowed}")
    return found


def _static(value: Any, name: str, pos: Pos) -> ir.Const:
    """The constant that a static parameter stands for."""
    _scalar_type(value, name)
    made = constant(value, pos)
    assert made is not None
    return made


def _let_rows_die(unit: ir.Unit, slots: Slots) -> bool:
    """Let tables have dead rows before a kernel that deletes is compiled; true if that is new."""
    names = {n.slot for n in ir.find(unit.funcs, ir.Delete)}
    fresh = [slots.objects[s] for s in names if not slots.objects[s].deletes]
    for table in fresh:
        table.allow_deletes()
    return bool(fresh)


def _allow_rebuilds(made: Compiled, slots: Slots) -> bool:
    """Prepare graphs for programs that rebuild their adjacency; true if that changes any."""
    if made.device.interprets or by_steps(made, slots.objects):
        return False
    return any([slots.objects[slot].allow_rebuilds() for slot in made.rebuilds])


# --- the unit ------------------------------------------------------------------------------------


def _compile(request: Request, slots: Slots) -> Compiled:
    builder = Builder(slots.stores, slots.graphs, slots.of, slots.reserve)
    definition = request.what.definition
    pos = definition.source.pos(definition.source.tree)
    fused = request.what.kind == "program"
    names = _names(request)
    values: list[Value] = []
    scalars: dict[str, Scalar] = {}
    getters: dict[str, Origin] = {}
    flat_args, statics = flat(request.args), {names[i] for i in request.what.statics}
    for i, (arg, name) in enumerate(zip(flat_args, flat_names(names, request.args), strict=True)):
        t = slots.of(arg, own_name(name))
        key = f"{name}_arg_"  # no store's field is called so
        if t is not None:
            values.append(ObjectValue(pos, t))
        elif isinstance(arg, Row):
            row = slots.of(arg.table, f"{own_name(name)}s")
            assert row is not None
            scalars[key], getters[key] = I64 if slots.stores[row.slot].wide else I32, i
            index = ir.Var(name=name if fused else key, type=scalars[key], pos=pos)
            values.append(ir.Cast(x=index, type=Handle(row.slot), pos=pos))
        elif name in statics:
            values.append(PythonValue(pos, _static(arg, name, pos)))
        elif callable(arg):
            values.append(PythonValue(pos, arg))
        else:
            scalars[key], getters[key] = _scalar_type(arg, name), i
            values.append(ir.Var(name=name if fused else key, type=scalars[key], pos=pos))
    values = _bundled(request.args, values, pos)
    if fused:
        builder.inline = True
        params = params_of(definition, fix_statics(definition, values))
        state, blocks, permutations = split_into_blocks(builder, definition, params)
    else:
        state, permutations = (), ()
        blocks = (_step(builder, request, slots, values, scalars, getters, pos),)
    functions = inline_effects(builder.funcs, blocks, builder.stores.values())
    reached = _reachable(functions, blocks)
    funcs = tuple(f for n, f in functions.items() if n in reached)
    needed = {n.slot for n in ir.find(funcs, ir.Need) if not n.local}
    if len(needed) > (most := STATUS - abi.Status.STORES):
        what = f"{definition.name!r} allocates in {len(needed)} tables and collections"
        raise ValueError(f"{what}; one launch can in {most}: split it")
    unit = ir.Unit(
        name=f"morph_{definition.name}",
        # those that may have to grow first: `status` has a word for these
        stores=tuple(sorted(builder.stores.values(), key=lambda s: s.slot not in needed)),
        graphs=tuple(builder.graphs.values()),
        scalars=tuple(scalars.items()),
        funcs=funcs,
        state=state,
        blocks=blocks,
        fused=fused,
        permutations=permutations,
        checked=request.checked,
        made=tuple(builder.made.values()),
        pos=pos,
    )
    for s in unit.stores if abi.claims(unit) else ():
        if s.wide:  # the keys of claims have 32 bits of an item's position
            slots.objects[s.slot]._refuse_wide("in kernels with single(collection)")
    made = Compiled(unit, getters, request.device, request.what.interruptible)
    made.dependencies = builder.dependencies.checks
    return made


def _step(
    builder: Builder, request: Request, slots: Slots, values: list[Value],
    scalars: dict[str, Scalar], getters: dict[str, Origin], pos: Pos,
) -> ir.Block:  # fmt: skip
    """The one block of a ``foreach``."""

    def closures(func: ir.Func, kind: str) -> tuple[ir.Expr, ...]:
        found = []
        for n, _ in func.params:
            if n in builder.closures:
                scalars[n], name = builder.closures[n]
                getters[n] = (kind, name)
                found.append(ir.Var(name=n, type=scalars[n], pos=func.pos))
        return tuple(found)

    domain = slots.of(request.items, "items")
    assert domain is not None
    item = builder.item_type(domain.slot)
    k = specialise_kernel(builder, request.what.definition, item, values, pos)
    args = tuple(v for v in flattened(values) if isinstance(v, ir.Expr)) + closures(k, "kernel")
    where_args: tuple[ir.Expr, ...] = ()
    if request.where is not None:
        test = specialise_filter(builder, filter_of(request.where), item)
        where_args = closures(test, "where")
        k = replace(k, where=test.name)
        del builder.funcs[k.name]
        builder.funcs[k.name] = k  # after its filter
    bounds: list[ir.Expr | None] = [None, None]
    if request.bounded:
        for i, n in enumerate(("start_of_items_", "stop_of_items_")):
            scalars[n], getters[n] = I64, len(flat(request.args)) + i
            bounds[i] = ir.Var(name=n, type=I64, pos=pos)
    if request.together:
        check_claims(k, request.what.__name__, pos)
    balance = request.balance
    if request.until_empty:
        balance = "thread"
        check_queue(builder, k, request.what.__name__, domain, pos)
    step = ir.Foreach(
        slot=domain.slot, kernel=k.name, args=args, where_args=where_args,
        together=request.together, balance=balance, start=bounds[0], stop=bounds[1], pos=pos,
        # a checked launch runs one round: only items of a round can race
        until_empty=request.until_empty and not request.checked,
    )  # fmt: skip
    return ir.Block(steps=(step,), cond=None, goto=-1, pos=pos)


def _bundled(args: tuple[Any, ...], values: list[Value], pos: Pos) -> list[Value]:
    """Values of arguments, which are given flat; those of a bundle's fields together."""
    rest = iter(values)

    def value(a: Any) -> Value:
        if not is_bundle(type(a)):
            return next(rest)
        return Bundle(pos, tuple((f, value(x)) for f, x in zip(a._fields, a, strict=True)))

    return list(map(value, args))


def _redirected(nodes: list[ir.Node]) -> set[str]:
    """The tables whose columns `src` or `dst` are written."""
    written = (n.place for n in nodes if isinstance(n, ir.Write | ir.Atomic | ir.LockPlace))
    return {p.slot for p in written if p.column in ("src", "dst")}


def _reachable(funcs: dict[str, ir.Func], blocks: tuple[ir.Block, ...]) -> set[str]:
    todo = [n.kernel for n in ir.find(blocks, ir.Foreach)]
    todo += [n.func for n in ir.find(blocks, ir.Call)]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        f = funcs[name]
        todo += [n.func for n in ir.find(f, ir.Call)]
        if isinstance(f, ir.Kernel) and f.where:
            todo.append(f.where)
    return seen
