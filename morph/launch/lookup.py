"""Finds the launch that fits the arguments of a call, or binds a new one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from morph.data.collection import Collection
from morph.data.column import ColumnView
from morph.data.row import Row, RowRange
from morph.data.table import Table
from morph.data.versions import latest
from morph.language.bundles import flat, flattener, is_bundle
from morph.language.depth import deep
from morph.language.errors import LanguageError
from morph.language.hooks import Hook
from morph.language.messages import shown
from morph.launch.binding import (
    Request,
    Where,
    bind,
    by_steps,
    closure_key,
    filter_key,
    prepare_objects,
)
from morph.launch.compiled import Compiled, picker
from morph.launch.kernels import Launchable, launch_on_parts
from morph.launch.launcher import Launch
from morph.launch.locks import lock_of
from morph.launch.slots import OBJECTS, Slots, in_parts, layouts, owner
from morph.runtime.device import Device

interpreted: Hook[Launch] = Hook("morph.launch.interpreted:InterpretedLaunch")
MOST_LAUNCHES = 64  # cached launches of one kernel or program
NO_UNIT: tuple[None, list[tuple[str, int]]] = None, []
_binding = threading.RLock()  # one thread compiles at a time
_PLAIN = {int, float, bool, *(np.dtype(c).type for c in "?bhilBHILefd")}
_shapes: dict[tuple[type, ...], Shape] = {}


class Shape:
    """Positions of objects, functions and others among arguments of given types.

    A launch depends on the identity of objects and functions, and on the types of numbers.
    """

    __slots__ = ("fields", "flatten", "functions", "objects", "others")

    def __init__(self, types: tuple[type, ...]) -> None:
        self.fields: dict[tuple[type, ...], Shape] = {}  # without bundles
        self.flatten = flattener(types) if any(map(is_bundle, types)) else None
        objects = [i for i, t in enumerate(types) if issubclass(t, OBJECTS) or _is_on_parts(t)]
        functions = [i for i, t in enumerate(types) if i not in objects and _is_called(t)]
        self.objects, self.functions = picker(objects), picker(functions)
        known = {*objects, *functions, *(i for i, t in enumerate(types) if t in _PLAIN)}
        self.others = [i for i in range(len(types)) if i not in known]

    def key(self, args: tuple[Any, ...], *more: Any) -> tuple[Any, ...]:
        """The key of a launch: the types, and the identity of objects and functions."""
        key = (self, *more, *self.functions(args), *map(id, self.objects(args)))
        return (*key, *(_other_key(args[i]) for i in self.others)) if self.others else key


def launch_for(
    function: Launchable, items: Any, args: tuple[Any, ...], where: Where,
    together: bool = False, balance: str = "auto", checked: bool = False,
    until_empty: bool = False,
) -> tuple[Launch | None, tuple[Any, ...]]:  # fmt: skip
    """The launch for the arguments, and the flattened arguments.  None: run eagerly."""
    types = tuple(map(type, args))
    shape = _shapes.get(types)
    if shape is None:
        shape = _shapes[types] = Shape(types)
    given, options = args, (together, balance, checked, until_empty)
    bounds = tuple[int, ...]()
    over = items
    if isinstance(items, RowRange):
        items, bounds = items.store, (items.start, items.stop)
    while shape.flatten is not None:
        args = shape.flatten(args)
        types, bundled = tuple(map(type, args)), shape
        shape = bundled.fields.get(types)
        if shape is None:
            shape = bundled.fields[types] = Shape(types)
    if items is None:
        key = shape.key(args)
    elif where is None:
        key = shape.key(args, id(items), *options)
    else:
        key = shape.key(args, id(items), *options, *filter_key(where), closure_key(where))
    if bounds:
        key, args = (*key, "bounded"), (*args, *bounds)
    if function.statics:
        key = (*key, *(repr(given[i]) for i in function.statics if i < len(given)))
    found = function.launches.get(key)
    if found is not None and found.fits():
        return None if found.by_steps() else found, args
    if in_parts(items) or any(map(in_parts, args)):
        return launch_on_parts(function, over, given, where, key, *options), args
    objects, device = _objects_on(function, items, args)
    with lock_of(objects), _binding:
        found = function.launches.get(key)
        if found is not None and found.fits():  # bound by another thread meanwhile
            return None if found.by_steps() else found, args
        request = Request(function, items, given, where, device, *options, bool(bounds))
        known = _known(request, shape, args, objects)
        if known is None:
            with deep():
                known = _accepted(request)
            _same_device(known[1].objects.values(), device)
            _remember(request, shape, args, objects, *known)
        return _bound(request, key, *known), args


def _bound(
    request: Request, key: tuple[Any, ...], compiled: Compiled, slots: Slots
) -> Launch | None:  # fmt: skip
    """Bind a unit to objects, for calls with this key.  None: run eagerly."""
    function, interprets = request.function, request.device.interprets
    if function.kind == "program" and interprets or by_steps(compiled, slots.objects):
        return None
    function.launches.pop(key, None)
    while len(function.launches) >= MOST_LAUNCHES:
        del function.launches[next(iter(function.launches))]
    launch = (interpreted if interprets else Launch)(function, compiled, slots)
    function.launches[key] = launch
    launch.types_epoch = latest.epoch
    return launch


def _known(
    request: Request, shape: Shape, args: tuple[Any, ...], given: Iterable[Any]
) -> tuple[Compiled, Slots] | None:  # fmt: skip
    """The unit of an earlier request with objects of equal layouts, and its slots; else None.

    ``args`` are the arguments without bundles, ``shape`` is theirs, and ``given`` their objects.
    """
    objects, layout = layouts(given)
    compiled, places = request.function.units.get(_unit_key(request, shape, args, layout), NO_UNIT)
    if compiled is None or not compiled.is_current():
        return None
    if any(x.device is not request.device and x.device != request.device for x in objects):
        return None
    slots = Slots.known({slot: objects[k] for slot, k in places})
    return None if prepare_objects(compiled, slots) else (compiled, slots)


def _remember(
    request: Request, shape: Shape, args: tuple[Any, ...], given: Iterable[Any],
    compiled: Compiled, slots: Slots,
) -> None:  # fmt: skip
    """Let `_known` find a unit, unless it has captured objects."""
    if slots.captured:
        return  # even if it is an argument, too: that of another call may be another object
    units = request.function.units
    objects, layout = layouts(given)  # binding may have changed them
    places = {id(x): k for k, x in enumerate(objects)}
    if all(id(x) in places for x in slots.objects.values()):
        while len(units) >= MOST_LAUNCHES:
            del units[next(iter(units))]
        at = [(slot, places[id(x)]) for slot, x in slots.objects.items()]
        units[_unit_key(request, shape, args, layout)] = compiled, at


def _unit_key(
    request: Request, shape: Shape, args: tuple[Any, ...], layout: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The key of a unit among those of its function."""
    where, statics = request.where, request.function.statics
    key = (
        shape, request.device.name, layout, request.items is None, request.together,
        request.balance, request.checked, request.until_empty, request.bounded,
        *shape.functions(args),
    )  # fmt: skip
    if shape.others:
        views = (args[i] for i in shape.others)
        key = (*key, *(_other_key(x)[1:] for x in views if isinstance(x, ColumnView)))
    if statics:
        key = (*key, *(repr(request.args[i]) for i in statics if i < len(request.args)))
    return key if where is None else (*key, *filter_key(where), *closure_key(where))


def accept(function: Launchable, args: tuple[Any, ...]) -> None:
    """Compile a program before it runs as plain Python, to raise the compiler's errors."""
    if any(map(in_parts, flat(args))):
        launch_on_parts(function, None, args, None, None)
        return
    accepted(Request(function, None, args, None, _objects_on(function, None, args)[1]))


@contextmanager
def compiling() -> Iterator[None]:
    """Hold the compiler's lock, and enlarge the stack."""
    with _binding, deep():
        yield


def accepted(request: Request) -> tuple[Compiled, Slots]:
    """Bind a request, one thread at a time."""
    with _binding, deep():
        return _accepted(request)


def _accepted(request: Request) -> tuple[Compiled, Slots]:
    """Bind a request; the traceback of an error leaves out the compiler's frames."""
    try:
        return bind(request)
    except LanguageError as error:
        raise LanguageError(error.problem, error.pos, error.hint) from None
    except RecursionError:
        source = request.function.definition.source
        problem = f"{source.name!r} is nested too deeply"
        raise LanguageError(problem, source.pos(source.tree), "split it into functions") from None


def _is_called(t: type) -> bool:
    """Whether objects of a type are functions."""
    return any("__call__" in vars(base) for base in t.__mro__)


def _is_on_parts(t: type) -> bool:
    """Whether an object of a type spans the parts of a graph; false for views."""
    return hasattr(t, "on_parts")


def _other_key(a: Any) -> Any:
    """The identity of a row's table or of a column; binding refuses other objects."""
    if isinstance(a, ColumnView):
        current = a.store.columns.get(a.column.name) is a.column  # binding refuses a stale column
        return id(a.store), a.column.name, current
    if isinstance(a, Row):
        return id(a.table)
    if in_parts(a):
        table = a.store if isinstance(a, RowRange) else a.table
        return id(table), getattr(a, "name", None)
    return None


def _objects_on(
    function: Launchable, items: Any, args: tuple[Any, ...]
) -> tuple[list[Any], Device]:  # fmt: skip
    """The objects among the arguments of a launch, and their device."""
    if function.kind == "kernel" and not isinstance(items, Table | Collection):
        raise TypeError(f"foreach runs over a table or a collection, not {shown(items)}")
    objects = _objects(items, args)
    if not objects:
        raise TypeError("a program needs a graph, table or collection among its arguments")
    device: Device = objects[0].device
    _same_device(objects, device)
    return objects, device


def _objects(items: Any, args: tuple[Any, ...]) -> list[Any]:
    objects = [owner(x) for x in (items, *flat(args))]
    return [x for x in objects if isinstance(x, OBJECTS)]


def _same_device(objects: Iterable[Any], device: Device) -> None:
    for x in objects:
        if x.device is not device and x.device != device:
            raise TypeError(f"{shown(x)} is on {x.device.name}, but the launch is on {device.name}")


def _forked() -> None:
    """Replace the lock in a child process, as a thread of the parent may hold it."""
    global _binding
    _binding = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
