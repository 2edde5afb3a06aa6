"""What every node of the intermediate language has, and the walk over a tree of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from morph.language.position import Pos


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Anything in the tree."""

    pos: Pos


def walk(node: object) -> Iterator[Node]:
    """Every node below and including ``node``, parents first, in order."""
    stack = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, tuple):
            stack.extend(reversed(top))
        elif isinstance(top, Node):
            yield top
            kind: Any = type(top)
            stack.extend([getattr(top, name) for name in _below(kind)])


@cache
def _below(kind: type[Node]) -> tuple[str, ...]:
    """The fields of a kind of node that can hold nodes, last first."""
    plain = ("pos", "type", "name", "op", "slot", "column", "graph", "params", "locals", "stores")
    return tuple(f.name for f in reversed(fields(kind)) if f.name not in plain)
