"""Compiles the units of a public call in parallel, when the call first begins.

``common_units.json``, written by `tests/support/common_units.py`, has the descriptions of the units
of common calls.  Other units are compiled when they are first launched.  Descriptions that name a
function or object that no longer exists are skipped.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache as memoised
from functools import partial
from pathlib import Path
from typing import Any

from morph.compiler.codegen.prelude import prelude
from morph.graph import Graph
from morph.language.intrinsics import from_dtype
from morph.launch import records
from morph.launch.binding import (
    Description,
    compile_unit,
    static_kind,
    without_objects,
)
from morph.launch.compiled import Compiled
from morph.launch.kernels import Function, Launchable
from morph.launch.lookup import compiling
from morph.runtime.device import Device
from morph.runtime.device import device as device_of
from morph.runtime.timing import counting
from morph.runtime.toolchain import cache, parallel, progress, shipped, tiers

FILE = Path(__file__).with_name("common_units.json")
LARGE = 2**20  # points and edges of a graph for which teams are compiled at once
LISTS = ("stores", "graphs")  # shared by many descriptions, so stored once


def compile_ahead(call: str, device: Device, graph: Any) -> None:
    """Begin to compile the units of a public call, see `morph.launch.ahead`."""
    if records.enabled:
        with counting("compile"), compiling():
            _compile_ahead(call, device, graph)


def _compile_ahead(call: str, device: Device, graph: Any) -> None:
    compiler = records.hash_of_compiler()
    if shipped.collected():  # `builders` wait until all are compiled
        return
    if compiler is None or not isinstance(graph, Graph | None):
        return
    flags = () if graph is None else (graph.directed, graph.out_identity, graph.gapped)
    facts = call, flags, compiler, sys.implementation.cache_tag, device.name
    mark = f"ahead-{hashlib.sha256(repr(facts).encode() + FILE.read_bytes()).hexdigest()}"
    if cache.recall(mark) is not None or call not in (known := _descriptions())["calls"]:
        return
    units = [d for stored in known["calls"][call] if (d := _decoded(stored, known, device))]
    units = [d for d in units if graph is None or _suits(d, graph)]
    if not units:
        return
    if graph is not None and len(graph.points) + len(graph.edges) >= LARGE:
        tiers.large |= parallel.cores() > 2
    progress.expect(len(units))
    for description in units:
        compiled = None
        with suppress(Exception):  # the launch compiles the unit again, and raises the error
            compiled = _with_text(description)
        if compiled is None:
            progress.found()
        else:
            parallel.start(_builder(device, compiled))
    with suppress(OSError):
        cache.remember(mark, {"call": call})


def _suits(description: Description, graph: Any) -> bool:
    """Whether a launch on this graph, now or after its first change, uses a description's unit."""
    if graph.points.columns:
        return False
    if not description.graphs:  # of tables that the call makes
        return True
    (info,) = description.graphs.values()
    edges = {(c.name, c.dtype.name) for c in description.stores[f"{info.slot}.edges"].columns}
    columns = graph.edges.columns.values()
    given = {(c.name, t.name) for c in columns if (t := from_dtype(c.dtype)) is not None}
    gapped = graph.gapped or info.gapped  # the first change makes gaps in its rows
    flags = graph.directed, graph.out_identity and not gapped, gapped
    fits = given <= edges or edges <= given  # a binary has no columns that the unit does not use
    return fits and flags == (info.directed, info.out_identity, info.gapped)


def _builder(device: Device, compiled: Compiled) -> Callable[[], object]:
    def build() -> None:
        try:
            device.build(compiled)
        finally:
            progress.found()

    return build


def _with_text(description: Description) -> Compiled | None:
    """Return a unit with its text, and record it; None if it cannot be recorded."""
    if (recorder := records.UnitRecorder.of(description)) is None:
        return None
    device, interruptible = description.device, description.function.interruptible
    if (record := recorder.find()) is not None:
        made = Compiled(None, record.origins, device, interruptible, record.outline)
        made.set_text(record.text)
        return made
    parsed = compile_unit(description, without_objects(description))
    if not recorder.is_recordable(parsed.dependencies, False):
        return None
    made = Compiled(parsed.unit, parsed.origins, device, interruptible)
    made.recorder = recorder
    return made if made.text else None


def builders(call: str, device: str | Device) -> Iterator[Callable[[], None]]:
    """Yield functions that compile the units of a call, for all types and options, and wait."""
    known, calls = _descriptions(), _descriptions()["calls"].items()
    units = [u for name, units in calls if name.partition(" ")[0] == call for u in units]
    for k, stored in enumerate(units):
        shared = stored in units[:k]  # by several calls
        if not shared and (description := _decoded(stored, known, device_of(device))) is not None:
            yield partial(_build_now, description)


def _build_now(description: Description) -> None:
    if (compiled := _with_text(description)) is not None:
        description.device.build(compiled)


def texts_for_gpus(device: Device) -> Iterator[str]:
    """Yield and record the texts of the units that only GPUs launch; needs no GPU.

    ``device`` is the CPU: texts and records are the same for all devices.
    """
    known = _descriptions()
    for stored in itertools.chain.from_iterable(known["calls"].values()):
        if stored.get("on_host", device.on_host) == device.on_host:
            continue
        description = _decoded({**stored, "on_host": device.on_host}, known, device)
        if description and (compiled := _with_text(description)) is not None:
            yield prelude(*compiled.outline.prelude) + compiled.text


# --- the file ------------------------------------------------------------------------------------


@memoised
def _descriptions() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def _decoded(stored: dict[str, Any], known: dict[str, Any], device: Device) -> Description | None:
    """Decode a description; None if an object that it names no longer exists."""
    try:
        if stored.get("on_host", device.on_host) != device.on_host:
            return None
        function, where = map(_named, (stored["what"], stored["where"]))
        if not isinstance(function, Launchable):
            return None
        lists = {
            name: {x.slot: x for x in map(records.decoded, (known[name][i] for i in stored[name]))}
            for name in LISTS
        }
        statics = stored.get("statics", {})
        static = {name: static_kind(x) for name, x in statics.items()}
        kinds = [
            static[n] if n in static else _named(x) if isinstance(x, str) else records.decoded(x)
            for n, x in zip(stored["names"], stored["kinds"], strict=True)
        ]
        shape, domain = records.decoded(stored["shape"]), records.decoded(stored["domain"])
        return Description(
            function, device, stored["names"], tuple(kinds), statics, shape, domain,
            lists["stores"], lists["graphs"], where, *stored["options"],
        )  # fmt: skip
    except (AttributeError, ImportError, KeyError, TypeError, ValueError):
        return None


def _named(name: Any) -> Any:
    """Return the function that `_qualified_name` has described; numbers are returned unchanged."""
    if isinstance(name, list):
        function, *args = name
        return pkgutil.resolve_name(function)(*map(_named, args))
    return pkgutil.resolve_name(name) if isinstance(name, str) else name


def _qualified_name(x: Any) -> Any:
    """Describe a function of the language such that `_named` finds it.

    The description is its name, or, if another function returned it (`Function.made_by`), a list
    of that function's name and its arguments.
    """
    if x is None:
        return None
    if not isinstance(x, Function) or x.part is not None:
        raise ValueError(f"{x!r:.100}: only functions of modules have names")
    if x.made_by is not None:
        function, args = x.made_by
        return [function, *(f"numpy:{a.__name__}" if isinstance(a, type) else a for a in args)]
    name = f"{x.__module__}:{x.__qualname__}"
    if pkgutil.resolve_name(name) is not x:
        raise ValueError(f"{name:.100} is another object")
    return name


def encoded(calls: dict[str, list[Description]]) -> dict[str, Any]:
    """Return the contents of ``common_units.json``, which `tests/support/common_units.py` writes.

    The unit has the key ``on_host`` if only the CPU (true) or only GPUs (false) launch it.
    """
    lists: dict[str, list[Any]] = {name: [] for name in LISTS}

    def numbers(name: str, values: Iterator[Any]) -> list[int]:
        found = []
        for x in map(records.encoded, values):
            lists[name] += [x] if x not in lists[name] else []
            found.append(lists[name].index(x))
        return found

    def stored(d: Description) -> dict[str, Any]:
        if not all(type(x) in (bool, int, float) for x in d.statics.values()):
            raise ValueError(f"{d.statics!r:.100}: static arguments are numbers")
        kinds = [
            None if n in d.statics
            else records.encoded(x) if dataclasses.is_dataclass(x)
            else _qualified_name(x)
            for n, x in zip(d.names, d.kinds, strict=True)
        ]  # fmt: skip
        return {
            "what": _qualified_name(d.function), "where": _qualified_name(d.where),
            "names": d.names, "kinds": kinds,
            "shape": records.encoded(d.shape), "domain": records.encoded(d.domain),
            "options": d.options, "stores": numbers("stores", iter(d.stores.values())),
            "graphs": numbers("graphs", iter(d.graphs.values())),
            **({"statics": d.statics} if d.statics else {}),
        }  # fmt: skip

    made: dict[str, list[Any]] = {}
    for call, units in calls.items():
        users: dict[str, set[bool]] = {}
        for d in units:
            with suppress(AttributeError, ImportError, ValueError):
                users.setdefault(json.dumps(stored(d)), set()).add(d.device.on_host)
        made[call] = [
            json.loads(unit) | ({"on_host": on.pop()} if len(on) == 1 else {})
            for unit, on in users.items()
        ]
    return {**lists, "calls": made}
