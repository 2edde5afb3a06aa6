"""Double buffering: collections that a program swaps, and what each name can denote meanwhile.

Every step is compiled once, for the names as declared.  The argument block has the fields of the
swapped collections once for each buffer permutation that the program reaches (``Unit.ways``), and a
swap only changes the number of the current one.
"""

from __future__ import annotations

from dataclasses import replace

from morph.compiler.ir import nodes as ir
from morph.language.types import Handle, Store, Type

Way = tuple[tuple[str, str], ...]  # (slot, slot of what it stands for), sorted
LARGEST = 28_000  # bytes of argument words: a kernel of CUDA takes 32,764 in all


class Unlike(Exception):
    """The swap cannot be an exchange of argument words: follow it while compiling."""


def check_alike(a: Store, b: Store, captured: set[str]) -> None:
    """Refuse to exchange the words of two objects that a compiled step tells apart."""
    if a.kind != "collection" or replace(a, slot=b.slot) != b:
        raise Unlike  # what is at home in a table, its rows, would have to move along
    if {a.slot, b.slot} & captured:
        raise Unlike  # a name from outside stands for the object itself


def ways(blocks: tuple[ir.Block, ...]) -> tuple[Way, ...]:
    """In which ways the program binds the slots that it swaps; the first is each to itself."""
    slots = sorted({s for b in blocks for pair in b.swap for s in pair})
    if not slots:
        return ()
    first: Way = tuple((s, s) for s in slots)
    begin: tuple[int, Way, dict[str, Way]] = (0, first, {})
    found, seen, todo = {first: None}, set[tuple[int, Way, tuple[tuple[str, Way], ...]]](), [begin]
    while todo:
        number, way, saved = todo.pop()
        block = blocks[number]
        after, saved = swapped(way, block.swap), dict(saved)
        if block.restores:
            after = saved.pop(block.restores)
        if block.saves:
            saved[block.saves] = after
        found.setdefault(after)
        if len(found) * len(slots) * 8 > LARGEST:
            raise Unlike
        for to in (block.goto, block.orelse):
            state = to, after, tuple(saved.items())
            if to >= 0 and state not in seen:
                seen.add(state)
                todo.append((to, after, saved))
    return tuple(found)


def swapped(way: Way, swap: tuple[tuple[str, str], ...]) -> Way:
    """What the slots stand for after a swap."""
    old, moved = dict(way), dict(swap)
    return tuple((s, old[moved.get(s, s)]) for s, _ in way)


def check_fit(
    found: tuple[Way, ...], state: dict[str, Type], stores: dict[str, Store], captured: set[str]
) -> None:
    """Refuse what would need a swap followed after all."""
    slots = {s for s, _ in found[0]}
    entries = {t.slot for t in state.values() if isinstance(t, Handle)}
    entries |= {c.ref for s in stores.values() for c in s.columns if c.ref}
    if slots & (captured | entries):
        raise Unlike  # an entry stays one of its own collection
    words = sum(3 + len(stores[s].columns) for s in slots)
    if 8 * words * len(found) > LARGEST:
        raise Unlike
