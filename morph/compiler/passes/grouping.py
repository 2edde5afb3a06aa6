"""Consecutive statements that become one instruction, or whose requests overlap.

Loads of several columns of one row's record become one vector load, stores one vector store.
Allocations at the end of stores are requested together, before the first result is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from morph.compiler.ir import nodes as ir
from morph.language.types import Column, Store

Make = ir.New | ir.NewRows | ir.Add


@dataclass(frozen=True, slots=True)
class Reads:
    """Columns of one record, each with the local that it is assigned to."""

    reads: list[tuple[str, ir.Place]]


@dataclass(frozen=True, slots=True)
class Writes:
    """Adjacent columns of one record."""

    writes: list[ir.Write]


@dataclass(frozen=True, slots=True)
class Allocations:
    """Allocations, each with the local that it is assigned to, or an empty name."""

    makes: list[tuple[str, Make]]


Groups = tuple[Reads | Writes | Allocations | ir.Stmt, ...]


def groups(
    body: ir.Body, stores: Mapping[str, Store], consecutive: frozenset[str], single: bool = False
) -> Iterator[Reads | Writes | Allocations | ir.Stmt]:
    """The statements of a body in order, some of them in groups; see `allocations`.

    If ``single``, a group has one statement, an allocation.
    """
    if single:
        for s in body:
            makes = allocations((s,), stores, consecutive)
            yield Allocations(makes) if makes else s
        return
    i = 0
    while i < len(body):
        rest = body[i:]
        if len(reads := _reads(rest, stores)) > 1:
            yield Reads(reads)
            i += len(reads)
        elif len(writes := _writes(rest, stores)) > 1:
            yield Writes(writes)
            i += len(writes)
        elif makes := allocations(rest, stores, consecutive):
            yield Allocations(makes)
            i += len(makes)
        else:
            yield body[i]
            i += 1


def column_of(p: ir.Place, stores: Mapping[str, Store]) -> Column:
    """The column of a place."""
    found = stores[p.slot].column(p.column)
    assert found is not None
    return found


def extent(p: ir.Place, stores: Mapping[str, Store]) -> tuple[int, int]:
    """The offsets in its record at which a column begins and ends."""
    c = column_of(p, stores)
    return c.offset, c.offset + max(c.size, 1) * c.dtype.bits // 8


def allocations(
    body: ir.Body, stores: Mapping[str, Store], consecutive: frozenset[str]
) -> list[tuple[str, Make]]:
    """The leading statements that allocate at the end of a store.

    Tables with deletion recycle rows instead, unless they are ``consecutive``.
    """
    found: list[tuple[str, Make]] = []
    for s in body:
        if not isinstance(s, ir.Assign | ir.Eval):
            break
        e = s.value
        if not isinstance(e, Make):
            break
        if isinstance(e, ir.New) and stores[e.slot].deletes and e.slot not in consecutive:
            break
        used = {n.name for n in ir.find(e, ir.Var)}
        loads = any(isinstance(n, ir.Load | ir.Call | ir.StoreSize) for n in ir.walk(e))
        if found and (used & {name for name, _ in found} or loads):
            break
        found.append((s.name if isinstance(s, ir.Assign) else "", e))
    return found


def _adjoin(p: ir.Place, first: ir.Place, stores: Mapping[str, Store]) -> bool:
    """Whether two places are whole columns of one row, in one record."""
    if p.index is not None or first.index is not None or p.slot != first.slot:
        return False
    if not (isinstance(p.row, ir.Var) and isinstance(first.row, ir.Var)):
        return False
    mine, other = column_of(p, stores), column_of(first, stores)
    one = p.row.name == first.row.name and mine.record == other.record
    return one and mine.record >= 0 and mine.stride % 8 == 0


def _reads(body: ir.Body, stores: Mapping[str, Store]) -> list[tuple[str, ir.Place]]:
    """The columns of one row's record that the leading statements load."""
    found: list[tuple[str, ir.Place]] = []
    for s in body:
        if not (isinstance(s, ir.Assign) and isinstance(s.value, ir.Load)):
            break
        p = s.value.place
        if not _adjoin(p, found[0][1] if found else p, stores):
            break
        found.append((s.name, p))
        if isinstance(p.row, ir.Var) and p.row.name == s.name:
            break
    return found


def _writes(body: ir.Body, stores: Mapping[str, Store]) -> list[ir.Write]:
    """The leading statements that write adjacent columns of one row's record."""
    found: list[ir.Write] = []
    for s in body:
        if not (isinstance(s, ir.Write) and _adjoin(s.place, (found or [s])[0].place, stores)):
            break
        reads = [n for n in ir.walk(s.value) if isinstance(n, ir.Load | ir.Call)]
        if column_of(s.place, stores).dtype.bits < 32 or (found and reads):
            break
        found.append(s)
    ends = sorted(extent(s.place, stores) for s in found)
    close = all(a[1] == b[0] for a, b in zip(ends, ends[1:], strict=False))
    return found if close and ends and ends[0][0] % 4 == 0 else []
