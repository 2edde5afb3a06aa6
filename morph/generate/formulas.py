"""Random k-SAT: clauses of k different variables, each negated or not, all equally likely.

The same arguments give the same formula, on every machine and with every version of NumPy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.data.conversion import number
from morph.data.formula import Formula
from morph.generate.draws import UNIT, check, streams
from morph.language.dtypes import ID_LIMIT

_PART = 1 << 15  # clauses made at a time, within the cache; another number gives others


def random_ksat(k: int, n: int, ratio: float, seed: int = 0) -> Formula:
    """Draw a random k-SAT formula.

    Parameters
    ----------
    k : int
        Literals of a clause, of different variables.
    n : int
        Variables, at least k unless there are no clauses.
    ratio : float
        Clauses for each variable; their number is rounded.  Below a threshold (4.267 for k = 3,
        9.931 for 4, 21.117 for 5, 43.37 for 6) almost all large formulas are satisfiable, above it
        almost none.
    seed : int
        0 or more; another one gives another formula.

    Raises
    ------
    ValueError
        If an argument is out of range; names it.

    Notes
    -----
    Clauses are drawn one by one and may repeat.  The variables of a clause are chosen by Floyd's
    method, k draws each.

    References
    ----------
    J. Bentley, R. Floyd: A sample of brilliance.  CACM 30(9), 1987.
    S. Mertens, M. Mezard, R. Zecchina: Threshold values of random K-SAT from the cavity method.
    Random Structures & Algorithms 28, 2006.
    """
    check(k=k, n=n, seed=seed)
    number(ratio, "ratio")
    if not 0 <= ratio < math.inf:
        raise ValueError(f"ratio = {ratio}: expected 0 or more")
    if ratio * n > ID_LIMIT:
        raise ValueError(f"ratio x n = {ratio * n:g}: at most 2^31 - 1 clauses are possible")
    m = round(ratio * n)
    if m and not 1 <= k <= n:
        raise ValueError(f"k = {k}: expected 1 to n = {n}")
    literals = np.empty((m, k), np.int32)
    start = 0
    for count, [bits] in streams(m, seed, 5, _PART):
        _draw(literals[start : start + count], n, bits)
        start += count
    return Formula(n, np.arange(m + 1, dtype=np.int64) * k, literals.reshape(-1))


def _draw(clauses: NDArray[np.int32], n: int, bits: Any) -> None:
    """Fill rows: the j-th draw is of the first n - k + j + 1 variables, or the last of them."""
    count, k = clauses.shape
    raw = bits.random_raw(count * k).reshape(k, count)
    chosen = np.empty((k, count), np.int32)
    for j in range(k):
        bound = n - k + j + 1
        drawn = ((raw[j] >> np.uint64(11)) * (bound * UNIT)).astype(np.int32)
        drawn[(chosen[:j] == drawn).any(axis=0)] = bound - 1
        chosen[j] = drawn
    chosen += 1
    np.negative(chosen, out=chosen, where=(raw & np.uint64(1)).astype(bool))
    clauses[:] = chosen.T
