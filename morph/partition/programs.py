"""Execution of a program on parts: in one launch of each part, or launch by launch."""

from __future__ import annotations

from dataclasses import replace

from morph.compiler.ir.layout import MOST_PARTS
from morph.compiler.partitioning.program import NeedsSteps, PartitionedProgram, derive_program
from morph.language.bundles import flat
from morph.language.errors import LanguageError
from morph.language.weak import WeakMap
from morph.launch import lookup
from morph.launch.binding import Request
from morph.launch.compiled import Compiled
from morph.launch.slots import Slots
from morph.partition.graph import PartitionedGraph
from morph.partition.objects import Call, LaunchOnParts, derived_unit, of_part, owners_of, sizes_of
from morph.partition.persistent import PersistentProgram, has_one_row
from morph.partition.program_on_ranks import ProgramOnRanks
from morph.partition.replicated import TableOfParts


class BySteps(LaunchOnParts):
    """A program that parts execute launch by launch, and why.

    Parameters
    ----------
    why : str
        The reason.
    lasting : bool
        Whether the reason holds for all later calls on the graph; otherwise a later call tries one
        launch of each part again.
    """

    def __init__(self, why: str, lasting: bool = False) -> None:
        self.text, self.lasting = f"// launch by launch: {why}\n", lasting

    def fits(self) -> bool:
        """Whether later calls can use this: the program is accepted, and the reason is lasting."""
        return self.lasting

    def by_steps(self) -> bool:
        """Yes."""
        return True


def program_on_parts(graph: PartitionedGraph, call: Call) -> PersistentProgram | BySteps:
    """The launch of a program on all parts, or why there is none."""
    try:
        if why := graph.why_by_steps():
            raise NeedsSteps(why)
    except NeedsSteps as why:
        lookup.accept(call.what, of_part(call.args, graph.here[0]))
        return BySteps(str(why), len(graph.devices) > MOST_PARTS)
    try:
        found = [_derived_program(k, graph, call) for k in graph.here]
        program = found[0][0]
        if any(p is not program and p.unit != program.unit for p, _, _ in found):
            raise NeedsSteps("tables of parts differ in their layout")
        objects = owners_of(graph.here[0], graph, call, found[0][2])
        sizes = [sizes_of(k, graph, program.hidden) for k in graph.here]
        parts = [(compiled, slots) for _, compiled, slots in found]
        made = ProgramOnRanks if program.unit.ranks else PersistentProgram
        return made(graph, call.what, program, objects, parts, sizes)
    except NeedsSteps as why:
        return BySteps(str(why))


def _derived_program(
    k: int, graph: PartitionedGraph, call: Call
) -> tuple[PartitionedProgram, Compiled, Slots]:
    """The program as derived for part k, its unit, and its objects."""
    compiled, slots = lookup.accepted(
        Request(call.what, None, of_part(call.args, k), None, graph.local(k).device)
    )
    graphs = {slot for slot, x in slots.objects.items() if x is graph.local(k)}
    on_ranks = len(graph.here) < len(graph.devices)
    own = [x.local(k) for x in flat(call.args) if isinstance(x, TableOfParts)]
    local = frozenset(s for s, x in slots.objects.items() if any(x is t for t in own))
    one = frozenset(s for s, x in slots.objects.items() if has_one_row(x) and s not in local)
    programs, unordered = _programs.setdefault(compiled, {}), graph.has_unordered_mirrors
    key = one, local, on_ranks, unordered
    if key not in programs:
        try:
            unit = replace(compiled.unit, ranks=on_ranks)
            program = derive_program(unit, graphs, one, local, unordered)
            programs[key] = program, derived_unit(compiled, program.unit, program.hidden, call)
        except (NeedsSteps, LanguageError) as error:
            programs[key] = getattr(error, "problem", str(error))
    known = programs[key]
    if isinstance(known, str):
        raise NeedsSteps(known)
    return *known, slots


# by the unit on one device, by the tables of one row and those whose rows differ between parts, and
# by whether the parts are on ranks, and mirrors may lie in no order
_Known = dict[
    tuple[frozenset[str], frozenset[str], bool, bool], tuple[PartitionedProgram, Compiled] | str
]
_programs: WeakMap[Compiled, _Known] = WeakMap()
