"""A model of a formula by local search: flip variables of unsatisfied clauses until there are none.

probSAT (Balint, Schoening, SAT 2012): in an unsatisfied clause a variable is flipped with a
probability that falls with the number b of clauses that this breaks: (0.9 + b)^-2.06 if clauses
have up to three literals, else c^-b.  Break counts are maintained: a clause stores in one word how
many of its literals are true and the sum of their variables, so that one addition gives the only
variable that satisfies the clause, and each variable counts the clauses that it alone satisfies.

Where many clauses are unsatisfied, each chooses a variable by the state at the last barrier, and
claims all its variables; clauses that won all their claims flip.  So most clauses flip in each
step, but no two clauses that share a variable, which could undo each other's flips for ever.  A
step computes sums and maxima of integers, the same in any order: the same seed gives the same model
on every device.  Where few are left, one thread flips one variable after the other, on the host.  A
flip costs its variable's degree; random 3-SAT of up to about 4.1 clauses a variable takes some tens
of flips a variable.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.sat import flip_state
from morph.algorithms.sat.factors import LITERALS_PER_ELEMENT
from morph.algorithms.sat.flip_state import FlipState
from morph.data.formula import Formula
from morph.language.arguments import check_number, integer
from morph.language.messages import shown
from morph.launch.foreach import available_threads
from morph.runtime.arrays import count_true
from morph.runtime.device import Device, device_for
from morph.runtime.device import device as device_of
from morph.runtime.threads import in_background

# Operation budget: clauses read for each flip allowed; an attempted flip of many counts as so many
BUDGET, ATTEMPT = 512, 8
BACKGROUND = 1 << 22  # literals that one thread sorts within the 0.1 s of a decimation on a GPU


class Walk(NamedTuple):
    """Result of `walksat`.

    ``model``, shape (n,), bool, on the host; ``unsatisfied``, how many clauses it leaves so;
    ``flips``, of variables; ``steps``, in which those of many clauses were made.
    """

    model: Any
    unsatisfied: int
    flips: int
    steps: int


Tables = Callable[[], FlipState]  # waits for tables that another thread builds; returns them


def tables_in_background(formula: Formula, where: Device) -> Tables | None:
    """Begin to build tables of local search in another thread while the GPU ``where`` decimates.

    Returns None if this would take longer than the decimation, or no other thread is available.
    """
    few = formula.literals.size <= BACKGROUND
    if not few or where.on_host or available_threads() < 2:
        return None
    return in_background(FlipState, formula, device_of("cpu"))


def walksat(
    formula: Formula,
    model: Any = None,
    seed: int = 0,
    *,
    max_flips: int | None = None,
    time: float | None = None,
    device: str | Device | None = None,
    progress: Any = None,
) -> Walk:
    """Look for a model by local search, which may fail though there is one.

    Parameters
    ----------
    formula : Formula, or an argument of `Formula.of`
    model : (n,) array of bool, optional
        Where to begin; at random unless given.
    seed : int
        From 0 to 2^64 - 1.  The same gives the same model on every device, by any number of
        threads, unless time runs out.
    max_flips : int, optional
        When to give up, about; unless given, after 100 flips a variable and ten million, or when
        ``time`` is up; or after looking at 512 times as many clauses, where variables are in so
        many that flips are dear.
    time : float, optional
        Seconds after which to give up; looked at after every 128 steps.
    device : str or Device, optional
        Where to flip many variables at once; see `morph.set_device` for the default.
    progress : callable, optional
        Called with flips made and clauses left unsatisfied, a few times a second at most.

    Returns
    -------
    Walk
        Its model satisfies all but ``unsatisfied`` clauses; empty clauses are among these.

    Raises
    ------
    ValueError
        If the model, ``max_flips`` or ``time`` is wrong, or a clause is so long that its
        sum of variables does not fit 62 bits with its count.

    References
    ----------
    A. Balint, U. Schoening: Choosing probability distributions for stochastic local search and the
    role of make versus break.  SAT 2012.
    """
    formula, where = Formula.of(formula), device_for(device, otherwise="auto")
    max_flips = None if max_flips is None else min(integer(max_flips, "max_flips"), 2**62)
    seed = _check(seed, max_flips, time, progress)
    return local_search(formula, model, seed, max_flips, time, where, progress)


def local_search(
    formula: Formula,
    model: Any,
    seed: int,
    max_flips: int | None,
    time: float | None,
    where: Device,
    progress: Any = None,
    tables: Tables | None = None,
) -> Walk:
    """Search like `walksat`, with checked limits; ``tables``: `tables_in_background`, if begun."""
    n, empty = formula.variables, _empty(formula, where)
    most = max_flips if max_flips is not None else 100 * n + 10**7 if time is None else 2**62
    end = math.inf if time is None else monotonic() + time
    given = model is not None
    model = _start(model, seed, n, where)
    if n == 0:
        return Walk(np.empty(0, bool), empty, 0, 0)
    left = unsatisfied(formula, model, where) - empty if given else formula.clauses
    if not left or given and monotonic() >= end:
        return Walk(where.to_host(model) != 0, left + empty, 0, 0)
    run = _LocalSearch(formula, where, seed, tables)
    if not given or left > flip_state.ONE_THREAD:
        run.continue_in_parallel(model)
    else:
        run.continue_in_one_thread(where.to_host(model), seed)
    run.search(most, end, progress)
    found = where.to_host(run.current.model())
    left = run.current.load(found) if run.is_parallel else run.left
    return Walk(found, left + empty, run.flips, run.steps)


def _check(seed: Any, max_flips: int | None, time: Any, progress: Any) -> int:
    """Refuse limits out of their range; return the seed."""
    if time is not None:
        check_number(time, "time")
    for name, value in (("max_flips", max_flips), ("time", time)):
        if value is not None and not value >= 0:
            raise ValueError(f"{name} = {value}: expected 0 or more")
    if not 0 <= (chosen := integer(seed, "seed")) < 2**64:
        raise ValueError(f"seed = {shown(chosen)}: expected 0 to 2^64 - 1")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress is a function, not {shown(progress)}")
    return chosen


def _start(model: Any, seed: int, n: int, where: Device) -> Any:
    """Check the values to begin with, or draw them; on the device, or the host if they are few."""
    if model is None:
        model = np.random.PCG64(seed).random_raw(n) >> np.uint64(63)
    model = where.array_device(n).asarray(model)
    if model.shape != (n,):
        raise ValueError(f"model has shape {model.shape}, for {n} variables")
    kind = model.dtype.kind
    if kind not in "biu" or kind != "b" and n and not 0 <= model.min() <= model.max() <= 1:
        raise ValueError("model must hold bool, or 0 and 1")
    return model


class _LocalSearch:
    """One search: all threads flip where many clauses are unsatisfied, else one on the host.

    ``current`` is the state that is searched, ``parallel`` that of all threads or ``sequential``
    that of one; ``left`` the clauses that it leaves unsatisfied.
    """

    current: FlipState

    def __init__(self, formula: Formula, where: Device, seed: int, tables: Tables | None) -> None:
        self.formula, self.where, self.seed, self.tables = formula, where, seed, tables
        self.parallel: FlipState | None = None
        self.sequential: FlipState | None = None
        self.flips = self.steps = 0

    def continue_in_parallel(self, model: Any) -> None:
        """Let all threads continue from a model on the device."""
        if self.parallel is None and self.where.on_host:
            self.parallel = self.sequential
        self.current = self.parallel = self.parallel or FlipState(self.formula, self.where)
        self.left, self.is_parallel = self.current.load(model), True

    def continue_in_one_thread(self, model: Any, seed: int) -> None:
        """Let one thread continue from a model on the host."""
        if self.sequential is None:
            parallel = self.parallel if self.where.on_host else None
            made = self.tables() if self.tables else None
            self.sequential = parallel or made or FlipState.on_host(self.formula, self.where)
        self.current = self.sequential
        self.left, self.is_parallel = self.current.load(model), False
        self.current.list_unsatisfied(seed)

    def search(self, most: int, end: float, progress: Any) -> None:
        """Flip until all clauses are satisfied, or a limit is reached."""
        reported, work = monotonic(), 0  # clauses read
        budget = BUDGET * most
        while self.left and self.flips < most and work < budget and (now := monotonic()) < end:
            if progress is not None and now > reported + 0.2:
                reported = now
                progress(self.flips, self.left)
            rest = most - self.flips
            if self.is_parallel:
                made, self.left = self.current.descend(
                    self.seed, self.steps + 1, min(rest, flip_state.AT_ONCE), end
                )
                work += ATTEMPT * int(self.current.run.work)
                self.steps += flip_state.STEPS
                if self.left <= flip_state.ONE_THREAD:
                    model = self.where.to_host(self.current.model())
                    self.continue_in_one_thread(model, self.seed ^ self.steps)
            else:
                made, self.left = self.current.walk(min(rest, flip_state.FLIPS), end)
                work += int(self.current.run.work)
                if self.left > flip_state.ALL_THREADS:
                    self.continue_in_parallel(self.current.model())
            self.flips += made


def unsatisfied(formula: Formula, model: Any, where: Device) -> int:
    """Count the clauses that a model in the memory of a device leaves unsatisfied."""
    work = where.array_device(formula.literals.size // LITERALS_PER_ELEMENT)
    xp = work.xp
    with work.active():
        literals, at = work.asarray(formula.literals), work.asarray(formula.offsets)
        if literals.size == 0:
            return formula.clauses
        before = xp.zeros(literals.size + 1, np.int64)
        xp.cumsum(
            (work.asarray(model) != 0)[xp.abs(literals) - 1] == (literals > 0), out=before[1:]
        )
        return count_true(before[at[1:]] == before[at[:-1]])


def _empty(formula: Formula, where: Device) -> int:
    """Count the empty clauses."""
    work = where.array_device(formula.literals.size // LITERALS_PER_ELEMENT)
    with work.active():
        at = work.asarray(formula.offsets)
        return count_true(at[1:] == at[:-1])
