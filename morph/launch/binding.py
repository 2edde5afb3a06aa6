"""Binds the arguments of a launch: assigns objects to slots, and finds or compiles the unit.

A unit depends on the types of its arguments, never on the objects: code compiled for one graph
serves every graph of the same columns.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from time import perf_counter
from types import CellType
from typing import Any

import numpy as np

from morph.compiler.ir.layout import State
from morph.compiler.ir.outline import Outline
from morph.compiler.ir.spelling import ir_name, user_name
from morph.data.row import Row
from morph.data.versions import advance_epoch
from morph.language.bundles import (
    field_name,
    flat,
    flat_names,
    is_bundle,
    more_fields,
    own_name,
)
from morph.language.definition import definition_of
from morph.language.depth import deep
from morph.language.errors import reject
from morph.language.hooks import Hook
from morph.language.intrinsics import from_dtype, to_dtype
from morph.language.messages import shown
from morph.language.types import BOOL, F64, I64, GraphInfo, Handle, Object, Scalar, Store
from morph.launch.kernels import Launchable
from morph.launch.records import UnitRecorder
from morph.launch.slots import OBJECTS, VIEWS, Slots
from morph.runtime.device import Device
from morph.runtime.timing import counting

_logger = logging.getLogger("morph.launch")
Where = Callable[[Any], Any] | None
Origin = int | tuple[str, str]  # an argument, or a number in the closure of "kernel" or "where"
compile_unit: Hook[Any] = Hook("morph.launch.compilation:compile_unit")
print_unit: Hook[str] = Hook("morph.launch.compilation:source")
widened: Hook[Any] = Hook("morph.launch.compilation:widened")
outline_unit: Hook[Outline] = Hook("morph.launch.compilation:outline")
CODES = {"b": "?", "i": "bhiq", "u": "BHIQ", "f": "-efd"}  # of `struct`, for 1, 2, 4, 8 bytes


@dataclass(slots=True, eq=False)
class Request:
    """One call of ``foreach`` or of a program, to be compiled and bound."""

    function: Launchable
    items: Any
    args: tuple[Any, ...]
    where: Where
    device: Device
    together: bool = False
    balance: str = "auto"
    checked: bool = False
    until_empty: bool = False
    bounded: bool = False  # two more numbers bound the items


@dataclass(frozen=True, eq=False)
class Description:
    """The properties of a request that its unit depends on, without the objects.

    Attributes
    ----------
    names, kinds : sequence
        The names of the arguments without bundles, and what a unit depends on of each: an `Object`,
        a `Handle` of a row, a scalar type, a function, or of a static parameter its type and value
        as text.
    statics : dict of str to number
        Values of static parameters, by name.
    shape : tuple
        Of each argument, the names and shapes of a bundle's fields; None for others.
    domain : Object or None
        The table or collection whose rows or items a ``foreach`` runs over.
    """

    function: Launchable
    device: Device
    names: list[str]
    kinds: tuple[Any, ...]
    statics: dict[str, Any]
    shape: tuple[Any, ...]
    domain: Object | None
    stores: dict[str, Store]
    graphs: dict[str, GraphInfo]
    where: Where
    together: bool
    balance: str
    checked: bool
    until_empty: bool
    bounded: bool

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for descriptions of the same unit in this process."""
        return (
            self.function.definition, self.device.name, tuple(self.names), self.kinds, self.domain,
            tuple(self.stores.items()), tuple(self.graphs.items()), *filter_key(self.where),
            closure_key(self.where), *self.options,
        )  # fmt: skip

    @property
    def options(self) -> tuple[Any, ...]:
        """The options of ``foreach``."""
        return self.together, self.balance, self.checked, self.until_empty, self.bounded


@dataclass(slots=True)
class Parsed:
    """A unit as the compiler makes it.

    Attributes
    ----------
    unit : ir.Unit
    origins : dict of str to Origin
        For each scalar argument, the argument of the call or the captured number that it is.
    dependencies : morph.compiler.frontend.dependencies.Dependencies
    """

    unit: Any
    origins: dict[str, Origin]
    dependencies: Any = None


class Compiled(Outline):
    """A unit on one device, for any objects that fit, and its outline.

    Attributes
    ----------
    origins : dict of str to Origin
        As of `Parsed`; `scalar_origins` lists them in the order of the argument block.
    dependencies : list of callable
        Functions that compare captured Python values with the compiled-in values.
    typing_ms : float
        Milliseconds that the checker took to find the types.
    builds : int
        Incremented when a fully optimised binary replaces the first one.
    """

    def __init__(
        self, unit: Any, origins: dict[str, Origin], device: Device, interruptible: bool,
        outline: Outline | None = None, compile_again: Callable[[], Any] | None = None,
    ) -> None:  # fmt: skip
        outline = outline_unit(unit) if outline is None else outline
        vars(self).update(vars(outline))
        self.outline, self._unit, self._compile_again = outline, unit, compile_again
        if self.local_bytes > (most := device.local_limit):
            raise MemoryError(
                f"{self.name.removeprefix('morph_')!r} needs {self.local_bytes} bytes an item for"
                f" its local collections, and there are {most}: keep so much in a Collection or"
                " table"
            )
        self.device, self.interruptible = device, interruptible
        self.dependencies: list[Callable[[], bool]] = []
        self.typing_ms = 0.0
        self.recorder: UnitRecorder | None = None
        self._text: str | None = None
        self._binary: Any = None
        self.builds = 0
        self._wider: Compiled | None = None
        self.origins = origins
        self.index = {f.kind: i for i, f in enumerate(self.fields) if not f.slot}
        slots = dict.fromkeys(f.slot for f in self.fields if f.kind == "column")
        # the fields with addresses of columns, by slot; and of other arrays of objects
        self.columns = [
            (s, [(i, f.column) for i, f in enumerate(self.fields)
                 if f.slot == s and f.kind == "column"]) for s in slots
        ]  # fmt: skip
        self.others = [(i, f) for i, f in enumerate(self.fields) if f.slot and f.kind != "column"]
        self.names = [f.column for f in self.fields if f.kind == "scalar"]
        kinds = dict(self.inputs)
        self.codes = [_code(kinds[n]) for n in self.names]
        self.scalars = struct.Struct("=" + "".join(self.codes))
        self.first_scalar = 8 * next(
            (i for i, f in enumerate(self.fields) if f.kind == "scalar"), 0
        )
        self.scalar_origins = [origins[n] for n in self.names]
        given = [o for o in self.scalar_origins if isinstance(o, int)]
        # None: some numbers are captured, see `Launch._values`
        self.numbers = picker(given) if len(given) == len(self.names) else None
        self.run_offset = 8 * self.index["replay"]  # `replay`, `launch` and `threads`
        self.returns: tuple[struct.Struct, int] | None = None  # format, and its index in the state
        if self.result is not None:
            at, t = self.result
            self.returns = struct.Struct("=" + _code(t)), int(State.VARS) + at

    @property
    def unit(self) -> Any:
        """The IR; a unit that was loaded from a record is compiled again when its IR is read."""
        if self._unit is None:
            assert self._compile_again is not None
            with deep():
                self._unit = self._compile_again()
        return self._unit

    @property
    def title(self) -> str:
        """The name of the kernel or program and the device, for messages."""
        return f"{self.name.removeprefix('morph_')} on {self.device.name}"

    @property
    def text(self) -> str:
        """The generated C++, without the prelude."""
        if self._text is None:
            self._text = print_unit(self.unit)
            if self.recorder is not None:
                self.recorder.store(self.outline, self.origins, self._text)
        return self._text

    def set_text(self, text: str) -> None:
        """Set the text to that of a record."""
        self._text = text

    def binary(self, faults: bool, seed: int) -> Any:
        """The launcher of the unit."""
        key = (faults, seed, self.builds)
        if self._binary is None or self._binary[0] != key:
            since = perf_counter()
            with counting("compile"):
                self._binary = (key, self.device.load(self, faults, seed))
            took = self.typing_ms, 1e3 * (perf_counter() - since)
            _logger.debug("first launch of %s: types %.1f ms, binary %.1f ms", self.title, *took)
        return self._binary[1]

    def rebuilt(self) -> None:
        """Make launches load the binary again: the fully optimised one is now in the cache."""
        self.builds += 1
        advance_epoch()

    def edit(self, text: str, faults: bool, seed: int) -> None:
        """Replace the text; if the new one does not compile, the old one stays."""
        old = self._text, self._binary
        self._text, self._binary = text, None  # an edited text is not recorded
        try:
            self.binary(faults, seed)
        except BaseException:
            self._text, self._binary = old
            raise

    def wider(self) -> Compiled:
        """The same unit with local collections twice as large."""
        if self._wider is None:
            unit = widened(self.unit)
            self._wider = Compiled(unit, self.origins, self.device, self.interruptible)
            self._wider.dependencies = self.dependencies
        return self._wider

    def reject_wide(self, values: Sequence[Any]) -> None:
        """Raise an error that names the number of a call that its type cannot hold, if any."""
        kinds = dict(self.inputs)
        for name, origin, value in zip(self.names, self.scalar_origins, values, strict=True):
            t = kinds[name]
            given = user_name(name.removesuffix("_arg_")) if isinstance(origin, int) else origin[1]
            if isinstance(t, Scalar) and t.kind in "iu" and isinstance(value, int):
                info = np.iinfo(to_dtype(t))
                if not info.min <= value <= info.max:
                    raise OverflowError(
                        f"{given!r} is {shown(value)}: {t} holds {info.min} to {info.max}"
                    ) from None

    def is_current(self) -> bool:
        """Whether all captured Python values are those that were compiled in."""
        for is_equal in self.dependencies:
            if not is_equal():
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
    """The format by which `struct` packs a number into a field of 8 bytes."""
    size = t.bits // 8
    return f"{CODES[t.kind][size.bit_length() - 1]}{8 - size}x"


_compiled: dict[Any, Compiled] = {}
MOST = 512  # cached units


def bind(request: Request) -> tuple[Compiled, Slots]:
    """Find or make the unit that fits a request, and the objects for its slots."""
    with counting("compile"):
        slots, description = _slots(request)
        key = description.key
        cached = _compiled.get(key)
        if cached is not None and cached.is_current():
            # it may have been compiled for a graph on which the program runs launch by launch
            return bind(request) if prepare_objects(cached, slots) else (cached, slots)
        since = perf_counter()
        recorder = UnitRecorder.of(description)
        made = _recorded(description, recorder) or _compiled_now(description, slots, recorder)
        made.typing_ms = 1e3 * (perf_counter() - since)
        for s in made.stores if made.claims else ():
            if s.wide:  # a claim's key has 32 bits for the position of an item
                slots.objects[s.slot]._refuse_wide("in kernels with single(collection)")
        if _enable_deletion(made, slots) or prepare_objects(made, slots):
            return bind(request)
        if not slots.captured:  # else the key lacks a captured object
            while len(_compiled) >= MOST:
                del _compiled[next(iter(_compiled))]
            _compiled[key] = made
        return made, slots


def _recorded(description: Description, recorder: UnitRecorder | None) -> Compiled | None:
    """Return the unit that an earlier process has recorded, if its text would be the same now."""
    if recorder is None or (record := recorder.find()) is None:
        return None

    def compile_again() -> Any:
        return compile_unit(description, without_objects(description)).unit

    made = Compiled(
        None, record.origins, description.device, description.function.interruptible,
        record.outline, compile_again,
    )  # fmt: skip
    made.set_text(record.text)
    made.dependencies = record.dependencies
    return made


def without_objects(description: Description) -> Slots:
    """Return the slots of a description, without objects in them."""
    slots = Slots()
    slots.stores, slots.graphs = dict(description.stores), dict(description.graphs)
    slots.objects = dict.fromkeys([*slots.stores, *slots.graphs])
    return slots


def _compiled_now(
    description: Description, slots: Slots, recorder: UnitRecorder | None
) -> Compiled:  # fmt: skip
    """Compile the unit, and have it recorded when its text is printed."""
    function = description.function
    parsed: Parsed = compile_unit(description, slots)
    made = Compiled(parsed.unit, parsed.origins, description.device, function.interruptible)
    made.dependencies = parsed.dependencies.checks
    if recorder is not None and recorder.is_recordable(parsed.dependencies, slots.captured):
        made.recorder = recorder
    return made


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
    """The value of a variable of an enclosing function, None if it is not assigned yet."""
    try:
        return variable.cell_contents
    except ValueError:
        return None


def closure_key(where: Any) -> tuple[Any, ...]:
    """Key of the closure of a filter: types of numbers, identities of other objects."""
    numbers = bool | int | float | np.generic
    return tuple(type(x) if isinstance(x, numbers) else id(x) for x in captured(where))


def static_kind(value: Any) -> tuple[type, str]:
    """Return what a unit depends on of a static parameter: its type, and its value as text."""
    return type(value), repr(value)


def _slots(request: Request) -> tuple[Slots, Description]:
    """Assign slots to the arguments, and make the description of the request."""
    definition = request.function.definition
    args, item = request.args, int(request.function.kind == "kernel")
    names: Sequence[str] = [ir_name(n) for n in definition.source.params[item:]]
    if not definition.takes(len(args) + item):
        after = " after the item" if item else ""
        number = definition.number(item)
        reject(
            f"{definition.name!r} takes {number} arguments{after}, not {len(args)}",
            definition.source.pos(definition.source.tree),
            f"they are {', '.join(map(user_name, names))}" if names else "call it with none",
        )
    statics = {names[i] for i in request.function.statics}
    names, args = flat_names(_names(request), args), flat(args)
    slots = Slots(request.device)
    for arg, name in zip(args, names, strict=True):  # graphs first: they name their tables
        if isinstance(arg, OBJECTS):
            slots.of(arg, own_name(name))
    kinds: list[Any] = []
    values: dict[str, Any] = {}
    for arg, name in zip(args, names, strict=True):
        if name in statics:
            _scalar_type(arg, name, "a static parameter takes numbers")
            kinds.append(static_kind(arg))
            values[name] = arg
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
    return slots, Description(
        request.function, request.device, list(names), tuple(kinds), values,
        tuple(map(_shape, request.args)), _domain(request, slots), dict(slots.stores),
        dict(slots.graphs), request.where, request.together, request.balance, request.checked,
        request.until_empty, request.bounded,
    )  # fmt: skip


def _domain(request: Request, slots: Slots) -> Object | None:
    if request.items is None:
        return None
    domain = slots.of(request.items, "items")
    if domain is None or domain.kind not in ("table", "collection", "scalars"):
        kind = type(request.items).__name__
        raise TypeError(f"foreach runs over a table or collection, not {kind}")
    return domain


def _shape(arg: Any) -> Any:
    """The names and shapes of a bundle's fields; None for an argument that is no bundle."""
    if not is_bundle(type(arg)):
        return None
    return arg._fields, tuple(map(_shape, arg))


def _names(request: Request) -> list[str]:
    """The names of the parameters of a launch's arguments."""
    source, item = request.function.definition.source, int(request.function.kind == "kernel")
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


def _enable_deletion(made: Compiled, slots: Slots) -> bool:
    """Enable deletion in the tables whose rows a unit deletes; true if a table had it disabled."""
    fresh = [slots.objects[s] for s in made.deletes if not slots.objects[s].deletes]
    for table in fresh:
        table.allow_deletes()
    return bool(fresh)


def prepare_objects(made: Compiled, slots: Slots) -> bool:
    """Prepare graphs for a program that rebuilds their adjacency; true if a graph has changed."""
    if made.device.interprets or by_steps(made, slots.objects):
        return False
    return any([slots.objects[slot].allow_rebuilds() for slot in made.rebuilds])
