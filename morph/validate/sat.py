"""Checkers of models, and refutations by unit propagation and by cycles of implications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.data.formula import Formula
from morph.language.arguments import check_type
from morph.language.messages import shown
from morph.runtime.arrays import listed
from morph.runtime.device import device
from morph.runtime.threads import in_threads
from morph.validate.arcs import WrongAnswer, grouped, rows

_PART = 1 << 17  # clauses evaluated at once
# up to this many literals are propagated one by one, until the queue is 8 times as long
_ONE_BY_ONE = 8


def satisfied(formula: Formula, model: Any) -> NDArray[np.bool_]:
    """Return which clauses a model satisfies.

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
        If the model has another shape, dtype or other values.
    """
    check_type(formula, "formula", "Formula")
    given = device("cpu").to_host(model)
    if given.shape != (formula.variables,) or given.dtype.kind not in "biu":
        raise WrongAnswer(
            f"the model has shape {given.shape} and type {given.dtype}, for"
            f" {formula.variables} variables"
        )
    if given.dtype.kind != "b" and given.size and not np.isin(given, (0, 1)).all():
        raise WrongAnswer("the model holds other numbers than 0 and 1")
    truth = given.astype(bool, copy=False)
    held = np.zeros(formula.clauses, bool)
    sparse = formula.variables > formula.literals.size  # variables that do not occur are skipped
    true_of = None if sparse else np.concatenate([[False], truth, ~truth[::-1]])  # by literal

    def check_part(k: int) -> None:
        start = k * _PART
        at = formula.offsets[start : start + _PART + 1]
        literals, size = formula.literals[at[0] : at[-1]], at[1:] - at[:-1]
        if true_of is None:
            true = truth.take(np.abs(literals) - 1) == (literals > 0)
        else:
            true = true_of.take(literals)
        part = held[start : start + _PART]
        if size[0] and (size == size[0]).all():
            for column in true.reshape(-1, size[0]).T:
                part |= column
        else:
            before = np.zeros(true.size + 1, np.int64)
            np.cumsum(true, out=before[1:])
            part[:] = before[at[1:] - at[0]] > before[at[:-1] - at[0]]

    def check_parts(first: int, end: int) -> None:
        for k in range(first, end):
            check_part(k)

    in_threads(check_parts, -(-formula.clauses // _PART))  # NumPy releases the GIL
    return held


def model(formula: Formula, model: Any) -> None:
    """Check that a model satisfies all clauses.

    Parameters
    ----------
    formula : Formula
    model : (n,) array of bool or of 0 and 1
        As in `satisfied`.

    Raises
    ------
    WrongAnswer
        If a clause has no true literal; the message names the first such clause.
    """
    check_type(formula, "formula", "Formula")
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
    """Return whether a clause is empty, or becomes empty by unit propagation.

    If so, the formula is unsatisfiable; if not, satisfiability is open.

    Parameters
    ----------
    formula : Formula

    Notes
    -----
    A round evaluates the clauses with literals that the last round made false; a few literals are
    propagated one by one.
    """
    check_type(formula, "formula", "Formula")
    return _implied(_dense(formula)[0]) is None


def implications(formula: Formula, cycle: Sequence[int]) -> None:
    """Check a proof that a formula has no model: a cycle of literals x, ..., -x, ..., x.

    Each literal a must imply the next one, b: some clause, without the literals that unit
    propagation makes false, is a subset of {-a, b}.

    Parameters
    ----------
    formula : Formula
    cycle : sequence of int

    Raises
    ------
    WrongAnswer
        If the cycle does not begin and end with the same literal, lacks its negation, or a step
        does not follow from a clause; the message names the first such step.
    """
    check_type(formula, "formula", "Formula")
    path = np.asarray(listed(cycle, "cycle"))
    if path.ndim != 1 or path.size and path.dtype.kind not in "iu":
        raise TypeError(f"cycle is a list of literals, not {shown(cycle)}")
    if path.size < 3 or path[0] != path[-1] or not (path == -path[0]).any():
        raise WrongAnswer("a cycle of implications leads from a literal to its negation and back")
    dense, names = _dense(formula)
    true = _implied(dense)
    if true is None:
        return
    n, at = dense.variables, dense.offsets
    entries = dense.literals.astype(np.int64)
    false = true[n - entries]
    starts = at[:-1]
    low = np.minimum.reduceat(np.where(false, n + 1, entries), starts)
    high = np.maximum.reduceat(np.where(false, -n - 1, entries), starts)
    owner = np.repeat(np.arange(dense.clauses), np.diff(at))
    inner = ~false & (entries != low[owner]) & (entries != high[owner])
    short = np.bincount(owner[inner], minlength=dense.clauses) == 0
    place = np.searchsorted(names, np.abs(path))
    known = place < names.size
    known[known] = names[place[known]] == np.abs(path)[known]
    if not known.all():
        raise WrongAnswer(f"literal {path[~known][0]} of the cycle is in no clause")
    own = np.sign(path) * (place + 1)
    premise, then = -own[:-1], own[1:]
    first, second = np.minimum(premise, then), np.maximum(premise, then)
    pairs = low[short] * (2 * n + 3) + high[short]
    good = np.zeros(first.size, bool)
    for a, b in ((first, second), (first, first), (second, second)):
        good |= np.isin(a * (2 * n + 3) + b, pairs)
    if not good.all():
        k = int(good.argmin())
        raise WrongAnswer(f"{path[k]} does not imply {path[k + 1]} by a clause (step {k + 1})")


def _dense(formula: Formula) -> tuple[Formula, Any]:
    """Renumber the variables that occur; returns the formula and their original numbers."""
    if formula.variables <= formula.literals.size:
        return formula, np.arange(1, formula.variables + 1)
    names, own = np.unique(np.abs(formula.literals), return_inverse=True)
    literals = np.sign(formula.literals) * (own.reshape(-1) + 1)
    return Formula(names.size, formula.offsets, literals), names


def _implied(formula: Formula) -> Any:
    """Literals that unit propagation makes true, at literal + n; None if a clause becomes empty."""
    at, literals = formula.offsets, formula.literals.astype(np.int64)
    if (at[1:] == at[:-1]).any():
        return None
    n = formula.variables
    true = np.zeros(2 * n + 1, bool)
    touched, where, holders = np.arange(formula.clauses), np.empty(0, int), np.empty(0, int)
    while touched.size:
        entries = literals[rows(at, touched)]
        starts = np.append(0, np.cumsum(at[touched + 1] - at[touched])[:-1])
        false = true[n - entries]
        done = np.maximum.reduceat(true[n + entries], starts)
        low = np.minimum.reduceat(np.where(false, n + 1, entries), starts)
        high = np.maximum.reduceat(np.where(false, -n - 1, entries), starts)
        if (~done & (low > high)).any():
            return None
        fixed = np.unique(low[~done & (low == high)])
        if np.isin(-fixed, fixed).any():
            return None
        true[n + fixed] = True
        if fixed.size and not where.size:  # most formulas have nothing to propagate
            owner = np.repeat(np.arange(formula.clauses), np.diff(at))
            where, holders = grouped(2 * n + 1, literals + n, owner)
        if 0 < fixed.size <= _ONE_BY_ONE:
            follows = _followed(fixed.tolist(), true, (at, literals, where, holders))
            if follows is None:
                return None
            fixed = np.array(follows, np.int64)
        touched = np.unique(holders[rows(where, n - fixed)]) if fixed.size else fixed
    return true


def _followed(new: list[int], true: NDArray[np.bool_], rows_of: tuple[Any, ...]) -> Any:
    """Propagate a few literals one by one; returns the open ones, or None on a conflict."""
    at, literals, where, holders = rows_of
    n = true.size // 2
    while new and len(new) <= 8 * _ONE_BY_ONE:
        x = new.pop()
        for c in holders[where[n - x] : where[n - x + 1]].tolist():
            entries = literals[at[c] : at[c + 1]].tolist()
            if any(true[n + y] for y in entries):
                continue
            free = {y for y in entries if not true[n - y]}
            if not free:
                return None
            if len(free) == 1:
                y = free.pop()
                true[n + y] = True
                new.append(y)
    return new
