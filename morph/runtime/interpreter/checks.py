"""The checked mode of the interpreter: the rules for accesses of an item, and races in a step."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NoReturn

import numpy as np

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.sites import LARGEST_HANDLE, Kind, Violation, sites_of
from morph.language.types import Handle, Scalar, Store

Mark = tuple[int, int]  # an item and a site


class Stopped(Exception):
    """The item has violated a rule and ends."""


class Checks:
    """The rules, and the violation found.

    Attributes
    ----------
    position, row : int
        The position of the current item, and its row.
    """

    def __init__(self, unit: ir.Unit) -> None:
        self.sites = sites_of(unit)
        self.found: Violation | None
        self.position = self.row = -1
        self.begin()

    def begin(self) -> None:
        """Reset the state before a launch that is no re-execution."""
        self.found = None
        self.deaths: dict[tuple[str, int], int] = {}
        self.next_step()

    def next_step(self) -> None:
        """A barrier: accesses before it do not race with accesses after it."""
        # by place: the two lowest items, each with its lowest site, as in `kernels/core/check.h`
        self.writers: defaultdict[tuple[str, str, int], list[Mark]] = defaultdict(list)
        self.readers: defaultdict[tuple[str, str, int], list[Mark]] = defaultdict(list)

    def record(self, v: Violation) -> None:
        """Record a violation; the one with the smallest key is reported."""
        if self.found is None or v.key < self.found.key:
            self.found = v

    def stop(self, kind: Kind, node: ir.Node, value: int = 0, limit: int = 0) -> NoReturn:
        """End the item."""
        site = self.sites.number[id(node)]
        self.record(Violation(kind, site, self.position, self.row, value, limit))
        raise Stopped

    # --- rows ------------------------------------------------------------------------------------

    def check_deleted(self, slot: str, row: int, node: ir.Node) -> None:
        """Stop at a deleted row, unless another item has deleted the row in this launch."""
        if self.deaths.get((slot, row), self.position) == self.position:
            self.stop(Kind.DELETED_ROW, node, row)

    # --- races -----------------------------------------------------------------------------------

    def access(self, node: ir.Node, store: Store, column: str, at: Any) -> None:
        """Record an access to a place, or to all values of a row."""
        if not self.sites.races(node, (store.slot, column)):
            return
        size = max(next(c.size for c in store.columns if c.name == column), 1)
        row, js = (at[0], (at[1],)) if isinstance(at, tuple) else (at, range(size))
        for j in js:
            self._access(node, (store.slot, column, row * size + j))

    def _access(self, node: ir.Node, place: tuple[str, str, int]) -> None:
        mine = self.position, self.sites.number[id(node)]
        writers, readers = self.writers[place], self.readers[place]
        if isinstance(node, ir.Write):
            _record_mark(writers, mine)
            others = (*writers, *readers)
        else:
            _record_mark(readers, mine)
            others = (*writers,)
        for other in others:
            if other[0] != mine[0]:
                (item, site), (then, other_site) = sorted([mine, other])
                self.record(Violation(Kind.RACE, site, item, -1, place[2], 0, then, other_site))

    # --- integers that affect an index -----------------------------------------------------------

    def check_result(self, n: ir.Binary, x: Any, y: Any, result: Any) -> Any:
        """Stop if an operation on integers has overflowed."""
        a, b = int(x), int(y)
        if n.op == "<<":
            exact = a << b if 0 <= b < 64 else (0 if a == 0 else None)
        else:
            exact = {"+": a + b, "-": a - b, "*": a * b}[n.op]
        if exact is None or exact != int(result):
            self.stop(Kind.INDEX_OVERFLOW, n, a, b)
        return result

    def check_negation(self, n: ir.Expr, x: Any, result: Any) -> Any:
        """Stop if ``-x`` or ``abs(x)`` of an integer has overflowed."""
        if x < 0 and result < 0:
            self.stop(Kind.INDEX_OVERFLOW, n, int(x))
        return result

    def check_cast(self, n: ir.Cast, x: Any, result: Any, count: int) -> Any:
        """Stop if a number does not fit in an integer, or in a handle of a store of ``count``."""
        if isinstance(n.type, Handle):
            if not -LARGEST_HANDLE - 1 <= int(x) <= LARGEST_HANDLE:
                self.stop(Kind.NO_ROW, n, _as_i64(int(x)), count)
            return result
        assert isinstance(n.type, Scalar)
        if isinstance(x, np.floating):
            least = -(2 ** (n.type.bits - 1)) if n.type.kind == "i" else 0
            most = 2 ** (n.type.bits - (n.type.kind == "i"))
            if not (np.isfinite(x) and least <= int(x) < most):
                self.stop(Kind.NO_INTEGER, n, int(np.float64(x).view(np.int64)))
        elif int(x) != int(result):
            self.stop(Kind.INDEX_OVERFLOW, n, _as_i64(int(x)))
        return result


def _record_mark(marks: list[Mark], mine: Mark) -> None:
    """Keep the lowest site of each of the two lowest items."""
    least = dict(sorted([*marks, mine], reverse=True))
    marks[:] = sorted(least.items())[:2]


def _as_i64(x: int) -> int:
    """An integer as int64, as in compiled code."""
    return (x + 2**63) % 2**64 - 2**63
