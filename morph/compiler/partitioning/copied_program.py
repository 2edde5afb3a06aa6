"""A program that parts execute together, each on rows of its own and on copies of common rows.

There is no partitioned graph: every part has all rows of some tables, and its share of the others.
`derive_copied` takes the unit of a program on one device.  After each ``foreach`` whose kernel
changes a column of common rows by atomics, the parts agree on the flags that it may have raised
(`Agree`), and combine their copies of the column (`Combine`).  All other statements are executed
without communication: on the rows of a part, or with equal results on all copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from morph.compiler.ir import nodes as ir
from morph.compiler.passes.effects import reached


def derive_copied(unit: ir.Unit, columns: Mapping[ir.ColumnKey, str]) -> ir.Unit:
    """Derive the unit that all parts execute together.

    Parameters
    ----------
    unit : Unit
        Of a program.
    columns : dict of (str, str) to str
        Slots and columns of common rows, and how copies that kernels have changed are combined.

    Raises
    ------
    ValueError
        If a kernel allocates, or changes a column by another atomic than that operation, or
        `atomic_cas` from its neutral value.
    """
    known = {f.name: f for f in unit.funcs}
    blocks = tuple(
        replace(b, steps=tuple(x for s in b.steps for x in _steps(s, known, columns)))
        for b in unit.blocks
    )
    return replace(unit, blocks=blocks)


def _steps(
    s: ir.Node, known: Mapping[str, ir.Func], columns: Mapping[ir.ColumnKey, str]
) -> Iterator[Any]:
    """A step of a program, and what the parts exchange after it."""
    yield s
    if not isinstance(s, ir.Foreach):
        return
    nodes = [n for f in reached(s.kernel, known) for n in ir.walk(f)]
    if any(n.allocates for n in nodes):
        raise ValueError(f"a program on copies has no kernel that allocates, as {s.kernel!r}")
    changed = set[ir.ColumnKey]()
    for n in nodes:
        if isinstance(n, ir.Atomic) and (how := columns.get((n.place.slot, n.place.column))):
            if n.op not in (how, "cas"):
                raise ValueError(f"{n.place.column!r} is combined by {how}, not {n.op}")
            changed.add((n.place.slot, n.place.column))
    if changed:
        flags = sorted({n.slot for n in nodes if isinstance(n, ir.FlagSet)})
        yield ir.Agree(flags=tuple(flags), values=(), pos=s.pos)
        for slot, column in sorted(changed):
            yield ir.Combine(slot=slot, column=column, op=columns[slot, column], pos=s.pos)
