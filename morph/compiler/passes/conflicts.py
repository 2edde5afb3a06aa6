"""Conflicts between sections of a step: one changes an object that another reads or changes.

No barrier separates sections, so their result must not depend on their order.  The rules are those
of races between the items of a step, by column instead of by value: two atomics do not conflict,
nor do an atomic and a non-atomic read; accesses with a ``# race:`` comment conflict with nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.sites import accesses, declared
from morph.compiler.ir.spelling import user_name

Use = tuple[str, str, str]  # a kind of resource, its slot, and the name of a column
VERBS = {
    "write": "writes", "atomic": "changes atomically", "read": "reads", "add": "adds to",
    "take": "takes from", "delete": "deletes from", "walk": "runs over or asks for the size of",
    "lock": "locks rows of", "union": "joins in", "find": "searches", "set": "raises",
    "clear": "lowers",
}  # fmt: skip
CONFLICTS = frozenset(  # a single word conflicts with itself
    frozenset(pair.split())
    for pair in ("write", "write read", "write atomic", "add walk", "add take", "take walk",
                 "delete walk", "lock", "union find", "set clear")
)  # fmt: skip


def conflict(sections: Sequence[Iterable[ir.Node]]) -> tuple[ir.Node, str] | None:
    """The first access of a section that conflicts with one of an earlier section, and why."""
    before: dict[Use, dict[str, tuple[int, ir.Node]]] = {}
    for k, nodes in enumerate(sections):
        mine = [(n, use, how) for n in nodes for use, how in _uses(n)]
        for n, use, how in mine:
            for other, (section, at) in before.get(use, {}).items():
                if frozenset((how, other)) in CONFLICTS:
                    return n, _described(k, use, how, section, other, at)
        for n, use, how in mine:
            before.setdefault(use, {}).setdefault(how, (k, n))
    return None


CHANGES = ("write", "atomic", "add", "take", "delete", "union", "set", "clear")
AT_ONCE = ("write", "atomic", "union")  # changes that other items may see before the next barrier


def changed_before(
    before: Iterable[ir.Node], after: Iterable[ir.Node], kinds: tuple[str, ...] = CHANGES
) -> tuple[ir.Node, ir.Node] | None:
    """The first node of ``after`` whose value a node of ``before`` may change, and that node."""
    changes = {use: n for n in before for use, how in _uses(n, declared_too=True) if how in kinds}
    for n in after:
        for use in _read(n):
            if use in changes:
                return n, changes[use]
    return None


def _read(n: ir.Node) -> Iterator[Use]:
    """The resources that the value of a node depends on; adjacency depends on the ends of edges."""
    yield from (use for use, _ in _uses(n, declared_too=True))
    if isinstance(n, ir.Degree | ir.ForEdges | ir.FindEdge):
        yield from (("column", f"{n.graph}.edges", end) for end in ("src", "dst"))


def _described(k: int, use: Use, how: str, section: int, other: str, at: ir.Node) -> str:
    kind, slot, column = use
    resource = f"column {user_name(column)!r} of {slot}" if kind == "column" else slot
    before = "" if how == other else f" {VERBS[other]} it"
    also = "too, " if how == other else ""
    return (
        f"section {k + 1} {VERBS[how]} {resource}, and section {section + 1}{before}"
        f" {also}in line {at.pos.line}"
    )


def _uses(n: ir.Node, declared_too: bool = False) -> Iterator[tuple[Use, str]]:
    """The resources that a node uses, and how; declared races only if ``declared_too``."""
    if declared_too or not declared(n.pos):
        how = "write" if isinstance(n, ir.Write) else "atomic" if n.writes else "read"
        yield from ((("column", *column), how) for column in accesses(n))
    match n:
        case ir.Take():
            yield ("rows", n.slot, ""), "take"
        case ir.Delete():
            yield ("rows", n.slot, ""), "delete"
            if n.slot.endswith(".points"):  # deleted later
                yield ("rows", f"{n.slot.removesuffix('.points')}.edges", ""), "delete"
        case ir.Dead():
            yield ("rows", n.slot, ""), "walk"
        case ir.Lock():
            yield ("lock", n.slot, ""), "lock"
        case ir.SetUnion():
            yield ("set", n.slot, ""), "union"
        case ir.SetFind():
            yield ("set", n.slot, ""), "find"
        case ir.FlagSet():
            yield ("flag", n.slot, ""), "set" if n.value else "clear"
        case ir.Degree() | ir.ForEdges() | ir.FindEdge():
            yield ("rows", f"{n.graph}.edges", ""), "walk"
        case _ if n.allocates or n.counts:
            yield ("rows", n.slot, ""), "add" if n.allocates else "walk"  # type: ignore[attr-defined]
