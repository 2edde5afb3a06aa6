"""The type of a row of the registry of graph algorithms, see `morph.algorithms.registry`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pkgutil import resolve_name
from typing import Any, NamedTuple

from morph.language.imports import uninterrupted

Arguments = dict[str, Any]
"""Arguments of a function by name."""


class Option(NamedTuple):
    """An option of a command: ``--name``."""

    name: str
    help: str
    type: type = bool  # bool: a flag
    least: float | None = None
    most: float | None = None
    default: Any = None
    metavar: str | None = None
    repeated: bool = False  # its value is a tuple


class Field(NamedTuple):
    """A number in a report, or a truth value if its ``type`` is ``boolean``."""

    description: str = ""
    type: str = "integer"
    minimum: int | None = None


def count(description: str = "", least: int = 0) -> Field:
    """A whole number in a report, at least ``least``."""
    return Field(description, "integer", least)


class Report(NamedTuple):
    """The report of a command on a result.

    Attributes
    ----------
    fields : dict of str to Field
        The names of the fields; commands with equal ones have one entry in the JSON schema.
    of : callable, optional
        The fields of a result whose arrays are on the host; by default its fields of these names.
    entry : str
        The name of the entry; by default that of the command.
    optional : tuple of str
        Fields that may be missing.
    """

    fields: Mapping[str, Field]
    of: Callable[[Any], dict[str, Any]] | None = None
    entry: str = ""
    optional: tuple[str, ...] = ()

    def __call__(self, found: Any) -> dict[str, Any]:
        """Give the fields of a result."""
        return self.of(found) if self.of else {name: getattr(found, name) for name in self.fields}


class Benchmark(NamedTuple):
    """A measured call, and the memory traffic that it needs at least."""

    arc_bytes: int  # read of each arc: 4 of its target, and its weight
    vertex_bytes: int  # 8 of the vertex's offset, and the results written
    variant: str = ""  # follows the function's name
    arguments: Mapping[str, Any] = {}
    sources: int = 0  # vertices to draw as argument ``sources``
    passes: int = 1  # over all arcs
    steps: str | None = None  # field of the result: launches in sequence


SOURCE = Option(
    "source", "The vertex to start at; of several, distances are to the nearest.", int,
    default=(0,), metavar="S", repeated=True,
)  # fmt: skip


@dataclass(frozen=True)
class Algorithm:
    """A graph algorithm in the registry.

    Attributes
    ----------
    name : str
        The name on the command line and in saved answers.
    entry_point : str
        The public function, of a graph and options: ``module:function``, below `morph.algorithms`.
    help : str
        Of the command; its first paragraph stands in ``morph --help``.
    result : str
        Fields of the result that are arrays or that the checker takes, the main one first.  A field
        ``edges`` holds ids of edges; a file has their positions in the graph's file.
    of_edges : str
        The fields with a value for each edge; a file has them in the order of the graph's file.
    conditions : str
        Arguments that the checker takes, too.
    report : Report
        Of the command.
    benchmarks : tuple of Benchmark
        The first is measured on busy machines, too.
    options : tuple of Option
        Of the command.
    arguments : callable
        Arguments of the function by the values of the options, by default these; a `ValueError`
        refuses them.
    complete : dict
        Further arguments that fill all fields of the result.
    source : str
        The checker's argument that ``morph check --source`` gives.
    weights : str
        Weights that are allowed: ``"numbers"``, ``"nonnegative"``; by default all.
    tolerance : callable, optional
        The checker's tolerance for a result that was stopped early.
    inputs : str
        Graphs of `benchmarks/contended.py`.
    acyclic : bool
        Whether the graph must have no cycle; see `suited`.
    examples : tuple of dict
        Values of options for tests; vertices are below 7.
    """

    name: str
    entry_point: str
    help: str
    result: str
    report: Report
    benchmarks: tuple[Benchmark, ...]
    conditions: str = ""
    options: tuple[Option, ...] = ()
    arguments: Callable[..., Arguments] = dict
    complete: Mapping[str, Any] = field(default_factory=dict)
    source: str = "source"
    weights: str = ""
    tolerance: Callable[[Any], float] | None = None
    inputs: str = "rmat grid"
    acyclic: bool = False
    of_edges: str = ""
    examples: tuple[Mapping[str, Any], ...] = ({},)

    @property
    def public_name(self) -> str:
        """The name of the function and of its checker."""
        return self.entry_point.partition(":")[2]

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function, whose module is imported when it is first used."""
        found: Callable[..., Any] = uninterrupted(
            resolve_name, f"morph.algorithms.{self.entry_point}"
        )
        return found

    @property
    def main(self) -> str:
        """The field of the result that a ``.npy`` holds."""
        return self.result.split()[0]

    @property
    def in_parts(self) -> bool:
        """Whether the function takes partitioned graphs."""
        return getattr(self.function, "in_parts", True)

    @property
    def summary(self) -> str:
        """The first paragraph of the help."""
        return self.help.partition("\n\n")[0].replace("\n", " ")

    @property
    def has_source(self) -> bool:
        """Whether the search starts at ``--source``."""
        return SOURCE in self.options

    def suited(self, graph: Any) -> Any:
        """Return the graph, or if `acyclic` the graph of its edges from smaller to larger ids."""
        if not self.acyclic:
            return graph
        edges, n = graph.edges, len(graph.points)
        with graph.device.active():
            ids = edges.ids()
            ids = ids[edges.src[ids] < edges.dst[ids]]
            weight = edges.weight[ids] if "weight" in edges.columns else None
            ends = edges.src[ids], edges.dst[ids]
            return type(graph).from_edges(*ends, weight=weight, n=n, device=graph.device)

    def arguments_of(self, options: Mapping[str, Any]) -> Arguments:
        """Give the arguments of the function by options, some of which may be missing."""
        defaults = {o.name: o.default for o in self.options}
        return self.arguments(**defaults | dict(options))

    def answer(self, found: Any, arguments: Mapping[str, Any]) -> Arguments:
        """Give the arguments of the checker, as the command saves them, the main array first."""
        fields = {name: getattr(found, name) for name in self.result.split()}
        asked = {name: arguments.get(name) for name in self.conditions.split()}
        return {name: value for name, value in (fields | asked).items() if value is not None}

    def checked_arguments(self, found: Any, arguments: Mapping[str, Any]) -> Arguments:
        """Give the arguments of the checker for a result that may have been stopped early."""
        answer = self.answer(found, arguments)
        return answer | ({"tolerance": self.tolerance(found)} if self.tolerance else {})
