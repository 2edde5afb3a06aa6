"""Random k-SAT: uniformly distributed clauses of k different, possibly negated variables.

The same arguments yield the same formula, on every machine and with every version of NumPy.
"""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from morph.data.formula import Formula
from morph.generate.draws import UNIT, check, streams
from morph.language.arguments import check_number
from morph.language.dtypes import ID_LIMIT
from morph.partition.formula import DividedFormula
from morph.partition.group import share_of
from morph.partition.ranks import Ranks
from morph.partition.transport import on_all
from morph.runtime.device import device, require_free

_PART = 1 << 15  # clauses drawn at once, to fit the cache; determines the formulas


@overload
def random_ksat(k: int, n: int, ratio: float, seed: int = 0, *, comm: None = None) -> Formula: ...
@overload
def random_ksat(k: int, n: int, ratio: float, seed: int = 0, *, comm: Any) -> DividedFormula: ...
def random_ksat(
    k: int, n: int, ratio: float, seed: int = 0, *, comm: Any = None
) -> Formula | DividedFormula:
    """Draw a random k-SAT formula.

    Parameters
    ----------
    k : int
        Literals per clause, with different variables.
    n : int
        Number of variables, at least k unless there are no clauses.
    ratio : float
        Clauses per variable; the number of clauses is rounded.  Below a threshold (4.267 for k = 3,
        9.931 for 4, 21.117 for 5, 43.37 for 6) almost all large formulas are satisfiable, above it
        almost none.
    seed : int
        Seed of the random numbers, 0 or more.
    comm : mpi4py.MPI.Comm, optional
        All ranks make the same call, and each draws a range of the clauses of the same formula.

    Returns
    -------
    Formula or, with ``comm``, DividedFormula

    Raises
    ------
    ValueError
        If an argument is out of range; the message names it.
    MemoryError
        If the formula exceeds the free memory.
    PartError
        If the ranks of ``comm`` pass different arguments, or another rank has failed.

    Notes
    -----
    Clauses are drawn independently and may repeat.  Floyd's method selects the variables of a
    clause with k draws.

    References
    ----------
    J. Bentley, R. Floyd: A sample of brilliance.  CACM 30(9), 1987.
    S. Mertens, M. Mezard, R. Zecchina: Threshold values of random K-SAT from the cavity method.
    Random Structures & Algorithms 28, 2006.
    """
    check(k=k, n=n, seed=seed)
    check_number(ratio, "ratio")
    if not 0 <= ratio < math.inf:
        raise ValueError(f"ratio = {ratio}: expected 0 or more, finite")
    if ratio * n > ID_LIMIT:
        raise ValueError(f"ratio x n = {ratio * n:g}: at most 2^31 - 1 clauses are possible")
    m = round(ratio * n)
    if m and not 1 <= k <= n:
        raise ValueError(f"k = {k}: expected 1 to n = {n}")
    if comm is None:
        return _drawn(k, n, m, seed, slice(0, m))
    ranks = Ranks(comm, f"draw a formula {k} {n} {m} {seed}")
    own = share_of(m, ranks.rank, ranks.size)
    return DividedFormula(ranks, on_all(ranks, lambda: _drawn(k, n, m, seed, own)))


def _drawn(k: int, n: int, m: int, seed: int, own: slice) -> Formula:
    """Draw a range of m clauses, which are drawn in parts with a stream each."""
    clauses = own.stop - own.start
    require_free(device("cpu"), (4 * k + 8) * clauses, f"a formula of {clauses} {k}-clauses")
    literals = np.empty((clauses, k), np.int32)
    start = 0
    for count, [bits] in streams(m, seed, 5, _PART):
        first, end = max(start, own.start), min(start + count, own.stop)
        if first < end:
            whole = first == start and end == start + count
            rows = literals[first - own.start : end - own.start]
            drawn = rows if whole else np.empty((count, k), np.int32)
            _draw(drawn, n, bits)
            if not whole:
                rows[...] = drawn[first - start : end - start]
        start += count
    return Formula(n, np.arange(clauses + 1, dtype=np.int64) * k, literals.reshape(-1))


def _draw(clauses: NDArray[np.int32], n: int, bits: Any) -> None:
    """Fill rows: draw j is from the first n - k + j + 1 variables; duplicates become the last."""
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
