"""Traits of the nodes of the intermediate language, and walks over trees of nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, wraps
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

from morph.language.position import Pos


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the tree.

    A kind of node declares its traits in its class.  Passes and walkers test traits, so that a new
    kind requires no change in them.
    """

    pos: Pos

    effect: ClassVar[bool] = False  # occurs only as the value of an Assign or in an Eval
    loop: ClassVar[bool] = False  # executes its body any number of times
    leaves: ClassVar[bool] = False  # the next statement is not reached
    synchronises: ClassVar[bool] = False  # is followed by a barrier of all threads
    reads: ClassVar[bool] = False  # reads the value at its place
    writes: ClassVar[bool] = False  # changes the value at its place
    shared: ClassVar[bool] = False  # changes state that is visible to other items
    varies: ClassVar[bool] = False  # its value may change by other threads
    allocates: ClassVar[bool] = False  # allocates rows of the store in its slot
    resizes: ClassVar[bool] = False  # changes the counters of the store in its slot
    counts: ClassVar[bool] = False  # iterates over the store in its slot, or reads its size
    fails: ClassVar[bool] = False  # may end the item before it has changed anything
    sequential: ClassVar[bool] = False  # its iterations are not independent
    site: ClassVar[bool] = False  # may violate a rule of the language: the checked mode checks it
    per_item: ClassVar[bool] = False  # uses the state of an item besides its locals
    binds: ClassVar[tuple[str, ...]] = ()  # fields with names of locals that it assigns
    uses: ClassVar[tuple[str, ...]] = ()  # fields with names of locals that it reads or changes
    indices: ClassVar[tuple[str, ...]] = ()  # fields with rows, indices and numbers of rows
    remembered: ClassVar[bool] = False  # `walk` caches the nodes below it
    arguments: ClassVar[str] = ""  # the fields of the argument block it needs; see `abi.fields`


N = TypeVar("N", bound=Node)
T = TypeVar("T")
U = TypeVar("U")


class Walked(NamedTuple):
    """The cache entry of `walk`: the tree, its nodes, and its nodes by kind (made on demand)."""

    tree: object
    nodes: list[Node]
    by_kind: dict[type[Node], list[Any]]


_walked: dict[int, Walked] = {}  # by the identity of the tree
_MOST_WALKED = 1024


def walk(node: object) -> Iterator[Node]:
    """All nodes of a tree in preorder."""
    return iter(_walk(node).nodes)


def find(node: object, kind: type[N]) -> list[N]:
    """The nodes of exactly one class, in the order of `walk`."""
    _, nodes, by_kind = _walk(node)
    if not by_kind:
        for n in nodes:
            by_kind.setdefault(type(n), []).append(n)
    return by_kind.get(kind, [])


def _walk(node: object) -> Walked:
    """Walk a tree; cached, as a compilation walks each function and body many times."""
    known = _walked.get(id(node))
    if known is not None and known.tree is node:
        return known
    found: list[Node] = []
    stack: list[Any] = [node]
    while stack:
        top = stack.pop()
        kind: Any = type(top)
        if kind is tuple:
            stack += top[::-1]
        elif (names := _parts(kind)) is not None:
            if kind.remembered and top is not node:
                found += _walk(top).nodes
            else:
                found.append(top)
                for name in names:
                    stack.append(getattr(top, name))
    if len(_walked) >= _MOST_WALKED:
        _walked.clear()
    _walked[id(node)] = made = Walked(node, found, {})
    return made


def of_latest(make: Callable[[U], T]) -> Callable[[U], T]:
    """Cache the result for the latest argument, as a compilation analyses a unit repeatedly."""
    latest: tuple[Any, Any] = (None, None)

    @wraps(make)
    def cached(unit: U) -> T:
        nonlocal latest
        known, result = latest
        if known is not unit:
            result = make(unit)
            latest = unit, result
        return cast(T, result)

    return cached


def bodies(node: Node) -> list[Any]:
    """The bodies of a statement, executed any number of times."""
    kind: Any = type(node)
    return [body for name in _bodies(kind) if (body := getattr(node, name)) is not None]


def operands(node: Node) -> list[Any]:
    """The children of a node except its bodies."""
    kind: Any = type(node)
    return [getattr(node, name) for name in reversed(_below(kind)) if name not in _bodies(kind)]


def rewrite_bodies(node: N, change: Callable[[Any], Any]) -> N:
    """A copy of a statement with changed bodies."""
    kind: Any = type(node)
    changed = {name: change(getattr(node, name)) for name in _bodies(kind)}
    return replace(node, **changed) if changed else node


def rewritten(node: Any, change: Callable[[Node], Any]) -> Any:
    """Rewrite a tree in preorder; ``change`` returns a node, or None to descend.

    Unchanged subtrees are not copied.
    """
    if isinstance(node, tuple):
        items = tuple(rewritten(x, change) for x in node)
        return items if any(a is not b for a, b in zip(items, node, strict=True)) else node
    if not isinstance(node, Node):
        return node
    if (other := change(node)) is not None:
        return other
    return with_parts(node, lambda x: rewritten(x, change))


def with_parts(node: N, change: Callable[[Any], Any], **more: Any) -> N:
    """A copy of a node with changed children, and with ``more`` fields."""
    kind: Any = type(node)
    old = {name: getattr(node, name) for name in _below(kind)}
    new = {name: change(x) for name, x in old.items()} | more
    changed = {name: x for name, x in new.items() if x is not old.get(name)}
    return replace(node, **changed) if changed else node


def renamed(node: Any, names: Mapping[str, str]) -> Any:
    """A copy of a tree with renamed locals."""
    if isinstance(node, tuple):
        return tuple(renamed(x, names) for x in node)
    if not isinstance(node, Node):
        return node
    own = {f: names.get(getattr(node, f), getattr(node, f)) for f in node.binds + node.uses}
    return with_parts(node, lambda x: renamed(x, names), **own)


def equal(a: Any, b: Any) -> bool:
    """Whether two trees are equal except for positions."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if not isinstance(a, Node) or type(a) is not type(b):
        return bool(a == b)
    names = (f.name for f in fields(a) if f.name != "pos")
    return all(equal(getattr(a, name), getattr(b, name)) for name in names)


def slots(nodes: Iterable[Any], *traits: str) -> set[str]:
    """The slots of all nodes that have one of the traits."""
    found: Any = (n for n in nodes if _has(n.__class__, traits))
    return {n.slot for n in found}


def accesses(nodes: Iterable[Node]) -> list[Any]:
    """The nodes that read or write their place."""
    return [n for n in nodes if n.reads or n.writes]


def columns(nodes: Iterable[Node], *traits: str) -> set[tuple[str, str]]:
    """The (slot, column) of the places of all nodes that have one of the traits."""
    found = (n.place for n in accesses(nodes) if _has(n.__class__, traits))
    return {(p.slot, p.column) for p in found}


def bound(nodes: Iterable[Node]) -> set[str]:
    """The locals that nodes assign."""
    return {x for n in nodes for name in n.binds if (x := getattr(n, name)) is not None}


def used(nodes: Iterable[Node]) -> set[str]:
    """The locals that nodes read, or change in place."""
    return {x for n in nodes for name in n.uses if (x := getattr(n, name)) is not None}


NOT_NODES = {*"None Pos Scalar GraphInfo Store Type bool float int str tuple".split()}


@cache
def _below(kind: type[Node]) -> tuple[str, ...]:
    """The fields of a kind of node that can hold nodes, last first."""
    found = reversed(fields(kind))
    return tuple(f.name for f in found if {*re.findall(r"\w+", str(f.type))} - NOT_NODES)


@cache
def _parts(kind: Any) -> tuple[str, ...] | None:
    """The fields of a kind of node that can hold nodes; None for another type."""
    return _below(kind) if issubclass(kind, Node) else None


@cache
def _has(kind: Any, traits: tuple[str, ...]) -> bool:
    """Whether a kind of node has one of the traits."""
    return any(getattr(kind, trait) for trait in traits)


@cache
def _bodies(kind: type[Node]) -> tuple[str, ...]:
    """The fields of a kind of node that are bodies."""
    return tuple(f.name for f in fields(kind) if str(f.type).startswith("Body"))
