"""The arguments of a launch on parts, as each part has them."""

from __future__ import annotations

from collections.abc import Sequence
from types import CellType, FunctionType
from typing import Any, NamedTuple

from morph.compiler.ir import nodes as ir
from morph.compiler.partitioning.derivation import Hidden
from morph.data.row import Row
from morph.language.bundles import flat, is_bundle
from morph.language.messages import shown
from morph.launch.binding import Where, captured, closure_key, content, filter_key
from morph.launch.compiled import Compiled
from morph.launch.kernels import Launchable
from morph.launch.slots import OBJECTS, VIEWS, Slots, in_parts, owner
from morph.partition.graph import PartitionedGraph
from morph.partition.parts import DIVIDED
from morph.partition.views import PartitionedColumn, PartitionedRange, PartitionedRow


class Call(NamedTuple):
    """A call of ``foreach``; ``options`` are the last arguments of `lookup.launch_for`."""

    what: Launchable
    items: Any
    args: tuple[Any, ...]
    where: Where
    options: tuple[Any, ...]


class LaunchOnParts:
    """A launch for arguments in parts, cached by its function beside launches on one device.

    Attributes
    ----------
    forgotten : weakref.ref
        Of the graph; its callback removes the launch, whose filter may keep the parts alive.
    """

    forgotten: Any

    @property
    def compiled(self) -> LaunchOnParts:
        """The object whose text `Launchable.source` gives."""
        return self

    def edit(self, text: str) -> None:
        """Refuse: the text depends on the parts, or there are several."""
        raise ValueError("the text of a launch on parts cannot be replaced")

    def by_steps(self) -> bool:
        """Whether it is a program that runs launch by launch."""
        return False


def key_of(x: Any) -> Any:
    """The property of an argument that its launch depends on."""
    if isinstance(x, PartitionedColumn):
        return id(x.table), x.name
    if isinstance(x, PartitionedRow):
        return id(x.table), "row"
    if isinstance(x, PartitionedRange):
        return id(x.store), "slice"
    return id(x) if in_parts(x) or callable(x) else type(x)


def store_of(x: Any) -> Any:
    """The table of a column, a row or a slice of a table that every part has; other objects."""
    if isinstance(x, PartitionedRange) and x.store.name not in DIVIDED:
        return x.store
    return x.table if isinstance(x, PartitionedColumn | PartitionedRow) else x


def common_graph(what: Launchable, objects: tuple[Any, ...]) -> PartitionedGraph:
    """The graph of all objects among the arguments."""
    name, graphs = what.__name__, []
    for x in filter(in_parts, objects):
        x = store_of(x)
        if isinstance(x, PartitionedRange):
            hint = "use a filter: where=lambda p: p.id < n"
            raise TypeError(f"foreach takes no slice of the {x.store.name} of parts: {hint}")
        graphs.append(x if isinstance(x, PartitionedGraph) else x.graph)
    for x in objects:
        if isinstance(x, (*OBJECTS, *VIEWS)):
            place = owner(x).device.name
            raise TypeError(f"{shown(x)} is on {place}, but the launch is on {shown(graphs[0])}")
        if what.kind == "kernel" and is_divided(x):
            raise TypeError(f"{name} takes no row of a partitioned table: pass its id")
    if any(g is not graphs[0] for g in graphs):
        raise TypeError(f"{name} takes objects of one partitioned graph, not of several")
    found: PartitionedGraph = graphs[0]
    return found


def of_part(x: Any, k: int) -> Any:
    """An argument as part k has it; of a bundle, and of arguments, all of them."""
    if isinstance(x, tuple):
        fields = [of_part(a, k) for a in x]
        return type(x)(*fields) if is_bundle(type(x)) else tuple(fields)
    if is_divided(x):
        return Row(x.table.local(k), 0)  # of a program, which is only checked
    return x.local(k) if in_parts(x) else x


def filter_of_part(where: Where, k: int) -> Where:
    """A filter as part k has it: what it captures of a partitioned graph is that of the part."""
    if not any(map(in_parts, captured(where))):
        return where
    given: Any = where
    cells = tuple(CellType(of_part(content(c), k)) for c in given.__closure__)
    return FunctionType(given.__code__, given.__globals__, closure=cells)


def filter_key_on_parts(where: Where) -> tuple[Any, ...]:
    """The property of a filter that a launch on parts depends on."""
    if where is None:
        return (None, 0)
    closure = zip(captured(where), closure_key(where), strict=True)
    return (*filter_key(where), *(key_of(x) if in_parts(x) else other for x, other in closure))


def is_divided(x: Any) -> bool:
    """Whether an argument is a row of the points or edges."""
    return isinstance(x, PartitionedRow) and x.table.name in DIVIDED


def derived_unit(
    known: Compiled, unit: ir.Unit, hidden: Sequence[Hidden], call: Call, more: int = 0
) -> Compiled:
    """Return a derived unit for a device, with the origins of its arguments.

    The ``hidden`` values follow the arguments of the call and ``more`` further numbers, such as the
    bounds of a slice.
    """
    first = len(flat(call.args)) + more
    origins = dict(known.origins)
    origins.update((h.name, first + i) for i, h in enumerate(hidden))
    made = Compiled(unit, origins, known.device, known.interruptible)
    made.dependencies = known.dependencies
    return made


def owners_of(k: int, graph: PartitionedGraph, call: Call, slots: Slots) -> dict[str, Any]:
    """The partitioned objects, by slot."""
    known: dict[int, Any] = {id(graph.local(k)): graph}
    known |= {id(t.local(k)): t for t in graph.tables.values()}
    for x in filter(in_parts, (call.items, *flat(call.args), *captured(call.where))):
        x = store_of(x)
        known[id(x.local(k))] = x
    for slot, x in slots.objects.items():
        if id(x) not in known and slot not in slots.arrays:
            raise TypeError(
                f"{shown(x)} is on {x.device.name}, but the launch is on {shown(graph)}"
            )
    return {slot: known[id(x)] for slot, x in slots.objects.items() if id(x) in known}


def sizes_of(k: int, graph: PartitionedGraph, hidden: Sequence[Hidden]) -> tuple[int, ...]:
    """The values of the hidden arguments of part k."""
    return tuple(_size(h, graph, k) for h in hidden)


def _size(hidden: Hidden, graph: PartitionedGraph, k: int) -> int:
    """The value of a hidden argument of part k."""
    name = hidden.what.removeprefix("owned_")
    table = graph.tables[name]
    if name == hidden.what:
        return len(table)
    part = graph.parts[k]
    assert part is not None
    if name == "edges" and part.changed is not None:
        return len(part.graph.edges)
    return part.share(name).owned
