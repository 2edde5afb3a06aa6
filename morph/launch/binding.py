"""Binds the arguments of a launch: assigns objects to slots, and finds or compiles the unit.

A unit depends on the types of its arguments, never on the objects: code compiled for one graph
serves every graph of the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from types import CellType
from typing import Any

import numpy as np

from morph.compiler.ir.spelling import ir_name, user_name
from morph.data.row import Row
from morph.language.bundles import (
    field_name,
    flat,
    flat_names,
    is_bundle,
    more_fields,
    own_name,
)
from morph.language.definition import definition_of
from morph.language.errors import reject
from morph.language.hooks import Hook
from morph.language.intrinsics import from_dtype
from morph.language.types import BOOL, F64, I64, GraphInfo, Handle, Object, Scalar, Store
from morph.launch.compiled import Compiled, Parsed
from morph.launch.kernels import Launchable
from morph.launch.records import UnitRecorder
from morph.launch.slots import OBJECTS, VIEWS, Slots
from morph.runtime.device import Device
from morph.runtime.timing import counting

Where = Callable[[Any], Any] | None
compile_unit: Hook[Any] = Hook("morph.launch.compilation:compile_unit")


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


_compiled: dict[Any, Compiled] = {}
MAX_UNITS = 512  # cached


def bind(request: Request) -> tuple[Compiled, Slots]:
    """Find or make the unit that fits a request, and the objects for its slots."""
    with counting("compile"):
        slots, description = _described(request)
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
            while len(_compiled) >= MAX_UNITS:
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


def _described(request: Request) -> tuple[Slots, Description]:
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
