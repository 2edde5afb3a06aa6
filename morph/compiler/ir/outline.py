"""The properties of a unit that launches need besides its binary, without nodes of the IR.

The outline of a unit is stored with its text (`morph.launch.records`), so that a process that finds
both need not import the compiler.
"""

from __future__ import annotations

from dataclasses import dataclass

from morph.language.types import GraphInfo, Scalar, Store


@dataclass(frozen=True, slots=True)
class Field:
    """A field of ``Args`` (8 bytes): an address, or a scalar in the low bytes."""

    name: str
    value: str  # its C++ type; for a column, the type of its values
    kind: str
    slot: str = ""
    column: str = ""
    layout: str = ""  # for a column: bytes from row to row, and offset in its record
    permutation: int = -1  # for a swapped collection: in which ``slot`` has this name

    def ctype(self, const: bool = False) -> str:
        """The C++ type; ``const`` if the unit does not write the column."""
        qualifier = "const " if const else ""
        return f"Col<{qualifier}{self.value}, {self.layout}>" if self.layout else self.value


@dataclass(eq=False)
class Outline:
    """The outline of a unit.

    Attributes
    ----------
    name, entry : the names of the unit, and of the function to launch
    prelude : arguments of `morph.compiler.codegen.prelude.prelude`
    stores, graphs, made, permutations, fused, checked, single_block : as in
        `morph.compiler.ir.nodes.Unit`
    inputs : the scalar arguments, (name, type)
    state : the number of variables of a program
    result : the variable that a program returns, and its type
    fields : the fields of the argument block
    local_bytes : memory of an item for its local collections
    cooperative : whether the unit has a barrier, so that all blocks of a GPU must be resident
    claims : whether a kernel has ``single(collection)``
    queues : whether a step runs until a collection is empty
    ahead : whether asynchronous execution is used: a thread executes the items that it adds
    lists : whether there is a list of high-degree vertices
    lanes : maximum number of threads of a GPU that share an item
    shared_bytes : shared memory of a GPU's block that the text does not declare
    sections : the maximum number of sections of a step
    can_fail : whether an allocation may fail
    touches : stores whose counters a launch may change
    reshapes, redirects : graphs whose points or edges, and whose edges' ends, a launch may change
    deletes : tables of which a launch may delete rows
    cuts : tables of points for which a program runs launch by launch, see `binding.by_steps`
    stepwise : whether a program always runs launch by launch: it traverses edges that it redirects
    domains : stores over which the steps run
    together : domains whose items all claim in one round
    adjacency : graphs and directions whose adjacency the unit reads
    rebuilds : graphs whose adjacency a program rebuilds, and the directions
    """

    name: str
    entry: str
    prelude: tuple[int, ...]
    stores: tuple[Store, ...]
    graphs: tuple[GraphInfo, ...]
    made: tuple[str, ...]
    permutations: tuple[tuple[tuple[str, str], ...], ...]
    fused: bool
    checked: bool
    single_block: bool
    inputs: tuple[tuple[str, Scalar], ...]
    state: int
    result: tuple[int, Scalar] | None
    fields: tuple[Field, ...]
    local_bytes: int
    cooperative: bool
    claims: bool
    queues: bool
    ahead: bool
    lists: bool
    lanes: int
    shared_bytes: int
    sections: int
    can_fail: bool
    touches: list[str]
    reshapes: list[str]
    redirects: list[str]
    deletes: list[str]
    cuts: list[str]
    stepwise: bool
    domains: list[str]
    together: list[str]
    adjacency: list[tuple[str, str]]
    rebuilds: dict[str, list[str]]
