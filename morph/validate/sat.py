"""Models of formulas: every clause must hold a literal that is true."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.device import device
from morph.formula import Formula
from morph.validate.arcs import WrongAnswer

_PART = 1 << 19  # clauses looked at together


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
    held = np.zeros(formula.clauses, bool)
    for start in range(0, formula.clauses, _PART):
        at = formula.offsets[start : start + _PART + 1]
        literals = formula.literals[at[0] : at[-1]]
        true = truth[np.abs(literals) - 1] == (literals > 0)
        before = np.zeros(true.size + 1, np.int64)
        np.cumsum(true, out=before[1:])
        count = before[at - at[0]]
        held[start : start + _PART] = count[1:] > count[:-1]
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
