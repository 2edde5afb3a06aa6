"""Models of formulas, and refutations by unit propagation."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.data.device import device
from morph.formula import Formula
from morph.validate.arcs import WrongAnswer, grouped, rows

_PART = 1 << 17  # clauses looked at together


def satisfied(formula: Formula, model: Any) -> NDArray[np.bool_]:
    """Tell which clauses a model satisfies.

    Parameters
    ----------
    formula : Formula
    model : (n,) array of bool or of 0 and 1
        Whether variable ``v`` is true, at ``v - 1``; on any device.

    Returns
    -------
    (m,) bool array

    Raises
    ------
    WrongAnswer
        If the model is no such array.
    """
    given = device("cpu").to_host(model)
    if given.shape != (formula.variables,) or given.dtype.kind not in "biu":
        raise WrongAnswer(
            f"the model has shape {given.shape} and type {given.dtype}, for"
            f" {formula.variables} variables"
        )
    if given.dtype.kind != "b" and given.size and not np.isin(given, (0, 1)).all():
        raise WrongAnswer("the model holds other numbers than 0 and 1")
    truth = given.astype(bool)
    true_of = np.concatenate([[False], truth, ~truth[::-1]])  # by literal, or from behind
    held = np.zeros(formula.clauses, bool)

    def look(start: int) -> None:
        at = formula.offsets[start : start + _PART + 1]
        true, size = true_of.take(formula.literals[at[0] : at[-1]]), at[1:] - at[:-1]
        part = held[start : start + _PART]
        if size[0] and (size == size[0]).all():
            for column in true.reshape(-1, size[0]).T:
                part |= column
        else:
            before = np.zeros(true.size + 1, np.int64)
            np.cumsum(true, out=before[1:])
            part[:] = before[at[1:] - at[0]] > before[at[:-1] - at[0]]

    starts = range(0, formula.clauses, _PART)
    if len(starts) < 4:
        for start in starts:
            look(start)
        return held
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:  # NumPy lets go of the lock
        list(pool.map(look, starts))
    return held


def model(formula: Formula, model: Any) -> None:
    """Check that a model satisfies all clauses.

    Parameters
    ----------
    formula : Formula
    model : (n,) array of bool or of 0 and 1
        As of `satisfied`.

    Raises
    ------
    WrongAnswer
        If a clause has no true literal; names the first.
    """
    held = satisfied(formula, model)
    if not held.all():
        c = int(held.argmin())
        clause = formula.literals[formula.offsets[c] : formula.offsets[c + 1]].tolist()
        shown = " ".join(map(str, clause[:12])) + (" ..." if len(clause) > 12 else "")
        raise WrongAnswer(
            f"clause {c + 1} is not satisfied: {shown or 'it is empty'}"
            f" ({int(held.size - held.sum())} of {held.size} are not)"
        )


def refuted(formula: Formula) -> bool:
    """Tell whether a clause is empty, or comes to be so by unit propagation.

    If so there is no model; if not, there may be one or not.

    Parameters
    ----------
    formula : Formula

    Notes
    -----
    A round looks at the clauses that hold what the last one has made false.
    """
    at, literals = formula.offsets, formula.literals.astype(np.int64)
    if (at[1:] == at[:-1]).any():
        return True
    n = formula.variables
    true = np.zeros(2 * n + 1, bool)  # by literal + n
    touched, where, holders = np.arange(formula.clauses), np.empty(0, int), np.empty(0, int)
    while touched.size:
        entries = literals[rows(at, touched)]
        starts = np.append(0, np.cumsum(at[touched + 1] - at[touched])[:-1])
        false = true[n - entries]
        done = np.maximum.reduceat(true[n + entries], starts)
        low = np.minimum.reduceat(np.where(false, n + 1, entries), starts)
        high = np.maximum.reduceat(np.where(false, -n - 1, entries), starts)
        if (~done & (low > high)).any():
            return True
        fixed = np.unique(low[~done & (low == high)])
        if np.isin(-fixed, fixed).any():
            return True
        true[n + fixed] = True
        if fixed.size and not where.size:  # most formulas have nothing to propagate
            owner = np.repeat(np.arange(formula.clauses), np.diff(at))
            where, holders = grouped(2 * n + 1, literals + n, owner)
        touched = np.unique(holders[rows(where, n - fixed)]) if fixed.size else fixed
    return False
