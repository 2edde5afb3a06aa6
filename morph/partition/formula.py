"""Formulas in parts: each MPI rank has a range of the clauses, and no rank has all of them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from morph.data.formula import Formula
from morph.partition.ranks import Ranks
from morph.partition.transport import Arrays, agree, on_all


class DividedFormula:
    """A formula of which each rank has a range of the clauses, in order of the ranks.

    All ranks call its methods, and those that it is passed to, in the same order.

    Parameters
    ----------
    ranks : Ranks
    local : Formula
        The clauses of this rank, over all variables.

    Attributes
    ----------
    local : Formula
    variables : int
    clauses, size : int
        The number of clauses, and of literals, of all ranks together.
    first : int
        The number, from 0, of the first clause of this rank in the whole formula.

    Raises
    ------
    ValueError
        If the ranks have different numbers of variables.
    """

    __slots__ = ("clauses", "first", "local", "ranks", "size", "variables")

    def __init__(self, ranks: Ranks, local: Formula) -> None:
        self.ranks, self.local, self.variables = ranks, local, local.variables
        agree(ranks, "the number of variables", local.variables)
        counts = ranks.gather({ranks.rank: (local.clauses, local.literals.size)})
        clauses, sizes = zip(*counts, strict=True)
        self.clauses, self.size = sum(clauses), sum(sizes)
        self.first = sum(clauses[: ranks.rank])

    @classmethod
    def of(cls, ranks: Ranks, formula: Formula) -> DividedFormula:
        """Divide a formula that all ranks have, by equally many literals.

        Raises
        ------
        ValueError
            If the formula differs between the ranks.
        """
        agree(ranks, "the formula", f"{formula!r}, checksum {_checksum(formula):08x}")
        bounds = bounds_of(formula, ranks.size)
        return cls(ranks, clauses_of(formula, *bounds[ranks.rank : ranks.rank + 2]))

    def occurring(self) -> NDArray[np.int64]:
        """Return to all ranks the variables that occur in clauses, sorted."""
        seen = np.zeros(self.variables, bool)
        seen[self.local.occurring() - 1] = True
        found = self.ranks.gather({self.ranks.rank: np.packbits(seen)})
        bits = np.unpackbits(np.bitwise_or.reduce(found), count=self.variables)
        return np.flatnonzero(bits) + 1

    def on_first_rank(self) -> Formula | None:
        """Return the formula with all clauses on the first rank, and None on the others."""
        ranks, local = self.ranks, self.local
        none: Arrays = [np.empty(0, np.int64), np.empty(0, np.int32)]
        own: Arrays = [np.diff(local.offsets), local.literals]
        sent = [own, *([none] * (ranks.size - 1))]
        found = ranks.exchange({ranks.rank: sent})[ranks.rank]

        def received() -> Formula | None:
            if ranks.rank:
                return None
            lengths, literals = (np.concatenate(x) for x in zip(*found, strict=True))
            return Formula(self.variables, np.concatenate([[0], np.cumsum(lengths)]), literals)

        return on_all(ranks, received)

    def __repr__(self) -> str:
        parts = f"{self.ranks.size} ranks"
        return f"<DividedFormula of {self.variables} variables, {self.clauses} clauses on {parts}>"


def _checksum(formula: Formula) -> int:
    offsets, literals = (np.ascontiguousarray(a).data for a in (formula.offsets, formula.literals))
    return zlib.crc32(literals, zlib.crc32(offsets))


def bounds_of(formula: Formula, parts: int) -> list[int]:
    """Divide the clauses into ranges with equally many literals.

    Returns
    -------
    list of int
        ``parts + 1`` numbers of clauses: part k has those from the k-th to before the next.
    """
    wanted = [formula.literals.size * k // parts for k in range(1, parts)]
    inner = np.searchsorted(formula.offsets, wanted).tolist() if formula.clauses else wanted
    return [0, *inner, formula.clauses]


def clauses_of(formula: Formula, first: int, last: int) -> Formula:
    """Return the clauses from ``first`` to before ``last``, over all variables."""
    at = formula.offsets[first : last + 1]
    return Formula(formula.variables, at - at[0], formula.literals[at[0] : at[-1]])


def joined(formulas: Sequence[Formula]) -> Formula:
    """Return the clauses of several formulas over the same variables, in order.

    Parameters
    ----------
    formulas : sequence of Formula
        At least one.
    """
    if len(formulas) == 1:
        return formulas[0]
    starts = accumulate((f.literals.size for f in formulas), initial=0)
    offsets = [f.offsets[1:] + x for f, x in zip(formulas, starts, strict=False)]
    literals = np.concatenate([f.literals for f in formulas])
    return Formula(formulas[0].variables, np.concatenate([[0], *offsets]), literals)
