"""Double buffering: collections that a program swaps, and the permutations of their buffers.

Each step is compiled once, for the names as declared.  The argument block has the fields of the
swapped collections once for each buffer permutation that the program reaches
(``Unit.permutations``), and a swap only changes the number of the current one.
"""

from __future__ import annotations

from dataclasses import replace

from morph.compiler.ir import nodes as ir
from morph.language.types import Handle, Store, Type

Permutation = tuple[tuple[str, str], ...]  # (slot, slot of the buffer that it denotes), sorted
Saved = tuple[Permutation, ...]  # one for each call of a program that has not returned
LARGEST = 28_000  # bytes of arguments, of at most 32,764 for a CUDA kernel


class Unlike(Exception):
    """The swap cannot be done by exchanging arguments, so the compiler renames the objects."""


def check_alike(a: Store, b: Store, captured: set[str]) -> None:
    """Raise `Unlike` if the code of a step differs between two swapped objects."""
    if a.kind != "collection" or replace(a, slot=b.slot) != b:
        raise Unlike  # rows of a table cannot be moved to another table
    if {a.slot, b.slot} & captured:
        raise Unlike  # a captured name always denotes the same object


def permutations(blocks: tuple[ir.Block, ...]) -> tuple[Permutation, ...]:
    """The permutations of the swapped slots that the program reaches; the first is the identity."""
    slots = sorted({s for b in blocks for pair in b.swap for s in pair})
    if not slots:
        return ()
    first: Permutation = tuple((s, s) for s in slots)
    begin: tuple[int, Permutation, Saved] = (0, first, ())
    found, seen, todo = {first: None}, {begin}, [begin]
    while todo:
        number, permutation, saved = todo.pop()
        block = blocks[number]
        after = swapped(permutation, block.swap)
        if block.restores:  # the permutation saved by the innermost call
            after, saved = saved[-1], saved[:-1]
        if block.saves:
            saved = (*saved, after)
        found.setdefault(after)
        if len(found) * len(slots) * 8 > LARGEST:
            raise Unlike
        for to in (block.goto, block.orelse):
            state = to, after, saved
            if to >= 0 and state not in seen:
                seen.add(state)
                todo.append(state)
    return tuple(found)


def swapped(permutation: Permutation, swap: tuple[tuple[str, str], ...]) -> Permutation:
    """The permutation after a swap."""
    old, moved = dict(permutation), dict(swap)
    return tuple((s, old[moved.get(s, s)]) for s, _ in permutation)


def check_fit(
    found: tuple[Permutation, ...],
    state: dict[str, Type],
    stores: dict[str, Store],
    captured: set[str],
) -> None:
    """Raise `Unlike` if variables or columns refer to items of swapped collections."""
    slots = {s for s, _ in found[0]}
    entries = {t.slot for t in state.values() if isinstance(t, Handle)}
    entries |= {c.ref for s in stores.values() for c in s.columns if c.ref}
    if slots & (captured | entries):
        raise Unlike  # an item belongs to one collection
    fields = sum(3 + len(stores[s].columns) for s in slots)
    if 8 * fields * len(found) > LARGEST:
        raise Unlike
