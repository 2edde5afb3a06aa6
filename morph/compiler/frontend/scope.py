"""The state at one point of a function: assigned locals, the first write, enclosing loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from morph.compiler.ir import nodes as ir
from morph.language.position import Pos
from morph.language.types import Type


class BoundEdge(NamedTuple):
    """The current edge of a loop over neighbours."""

    graph: str
    point: str  # the variable whose neighbours the loop visits
    given: ir.Expr  # the expression of the loop: this variable or another expression
    edge: str  # the variable of the edge


Edges = dict[str, BoundEdge]  # by the variable of the loop


@dataclass(slots=True)
class Flow:
    """The state along one path; ``None`` in place of a Flow means the path has ended."""

    assigned: frozenset[str]
    wrote: Pos | None = None  # the first change of shared state on some path to here

    def copy(self) -> Flow:
        """The same state, for one of two paths."""
        return Flow(self.assigned, self.wrote)


def join(a: Flow | None, b: Flow | None) -> Flow | None:
    """The state after two paths join."""
    if a is None or b is None:
        return b if a is None else a
    return Flow(a.assigned & b.assigned, a.wrote or b.wrote)


@dataclass(slots=True)
class Loop:
    """An enclosing loop: the states at its breaks."""

    breaks: list[Flow | None] = field(default_factory=list)
    wrote: Pos | None = None  # a write on a path that ends in `continue`


class Retype(Exception):
    """A name that was None has type ``type``: the function must be checked again."""

    def __init__(self, name: str, type: Type) -> None:
        super().__init__(name)
        self.name, self.type = name, type
