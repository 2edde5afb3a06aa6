"""The fixed points of survey and belief propagation: messages, marginals, complexity, entropy.

`surveys` and `beliefs` iterate the messages of a whole formula, as `decimate` does in each of its
rounds, and give all results.  The weights and the complexity are computed in float64 from the
messages: with w(i, a) the warning of variable i to clause a, the Bethe approximation of the
complexity (the entropy, for beliefs) is ``sum over a of log(1 - product over i of w(i, a)) + sum
over i of log Z(i) - sum over edges of log(1 - w(i, a) eta(a, i))``, with ``Z = P+ + P- - rho P+
P-``; it is stationary at a fixed point, so a small error of the messages is of second order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from morph.algorithms.sat.factors import CERTAIN, Contradiction, Factors, factor_graph
from morph.algorithms.sat.marginals import marginals
from morph.algorithms.sat.options import check
from morph.algorithms.sat.surveys import converge
from morph.data.formula import Formula
from morph.language.arguments import boolean, integer
from morph.language.messages import shown
from morph.runtime.device import Device, device_for
from morph.runtime.device import device as device_of

Floats = NDArray[np.float64]


class Sweep(NamedTuple):
    """One sweep of `surveys` or `beliefs`.

    ``change``: the largest change of a message; ``complexity``: in nats, of the whole formula, by
    single precision; the entropy for `beliefs`.
    """

    change: float
    complexity: float


@dataclass(frozen=True, eq=False)
class Surveys:
    """Result of `surveys`.

    Attributes
    ----------
    positive, negative, free : (n,) float64 array
        W+, W- and W0: how likely each variable is forced to be true, forced to be false, or free.
    messages : (l,) float64 array
        The survey of each literal's clause to its variable, in the order of ``formula.literals``;
        NaN in clauses that hold a literal and its negation.
    complexity : float
        Logarithm of the number of clusters of models, in nats, of the whole formula.
    converged : bool
        Whether no message changed by more than the tolerance in the last sweep.
    sweeps : int
    history : list of Sweep
        One for each sweep; empty if it was not asked for.
    """

    positive: Floats
    negative: Floats
    free: Floats
    messages: Floats
    complexity: float
    converged: bool
    sweeps: int
    history: list[Sweep] = field(default_factory=list, repr=False)


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Result of `beliefs`.

    Attributes
    ----------
    marginals : (n,) float64 array
        How likely each variable is true, over all models.
    messages : (l,) float64 array
        How likely all other literals of the clause are false, by literal, as in `Surveys`.
    entropy : float
        Logarithm of the number of models, in nats, by the Bethe approximation.
    converged, sweeps, history
        As in `Surveys`.
    """

    marginals: Floats
    messages: Floats
    entropy: float
    converged: bool
    sweeps: int
    history: list[Sweep] = field(default_factory=list, repr=False)


def surveys(
    cnf: Any,
    seed: int = 0,
    device: str | Device | None = None,
    *,
    rho: float = 1.0,
    tolerance: float = 1e-3,
    max_sweeps: int = 1000,
    inertia: float = 0.0,
    start: Any = None,
    history: bool = True,
) -> Surveys:
    """Iterate survey propagation on a formula; nothing is fixed.

    Parameters
    ----------
    cnf : path, clauses, (offsets, literals) or Formula
        As `morph.Formula.of` takes it.
    seed : int
        Of the first messages, uniform at random; the same gives the same bits on any device.
    device : str or Device, optional
        See `morph.set_device` for the default.
    rho : float
        1 for survey propagation, 0 for belief propagation, and what lies between.
    tolerance : float
        Converged when no message changes by more.  Messages are kept to about 2e-6.
    max_sweeps : int
    inertia : float
        The part of its change by which each message is held back, from 0 to less than 1.
    start : (l,) array, optional
        Messages to begin with in place of random ones, in the order of ``formula.literals``, such
        as ``messages`` of an earlier call; NaN where there is none.
    history : bool
        Record every sweep; without it sweeps are several times as fast.

    Returns
    -------
    Surveys

    Raises
    ------
    ValueError, TypeError
        If an argument is wrong, or a clause is empty; names it.
    """
    state = _State(Formula.of(cnf), seed, device_for(device, otherwise="auto"), rho, start)
    run = state.iterate(tolerance, max_sweeps, inertia, history)
    return Surveys(*state.weights(), state.messages(), state.complexity(), *run)


def beliefs(
    cnf: Any,
    seed: int = 0,
    device: str | Device | None = None,
    *,
    tolerance: float = 1e-3,
    max_sweeps: int = 1000,
    inertia: float = 0.0,
    start: Any = None,
    history: bool = True,
) -> Beliefs:
    """Iterate belief propagation on a formula; exact if its factor graph is a tree.

    Parameters
    ----------
    cnf, seed, device, tolerance, max_sweeps, inertia, start, history
        As of `surveys`.

    Returns
    -------
    Beliefs

    Raises
    ------
    ValueError, TypeError
        As by `surveys`.
    """
    state = _State(Formula.of(cnf), seed, device_for(device, otherwise="auto"), 0.0, start)
    run = state.iterate(tolerance, max_sweeps, inertia, history)
    return Beliefs(state.weights()[0], state.messages(), state.complexity(), *run)


class _State:
    """Messages on the device, and the results that they give."""

    def __init__(self, formula: Formula, seed: int, where: Device, rho: float, start: Any) -> None:
        check(rho=rho)
        if (seed := integer(seed, "seed")) < 0:
            raise ValueError(f"seed = {shown(seed)}: expected an integer of 0 or more")
        given = None if start is None else _start(formula, start)
        self.formula, self.rho = formula, float(rho)
        try:
            self.f: Factors = factor_graph(formula, where, seed if given is None else None)
        except Contradiction:
            c = int((np.diff(formula.offsets) == 0).argmax())
            raise ValueError(
                f"clause {c} (counted from 0) is empty: no message is defined"
            ) from None
        g, host = self.f.graph, where.to_host
        self.variable = np.array(host(g.entries.variable.array), np.int64)
        self.negated = np.array(host(g.entries.message.array)) < 0
        counts = np.array(host(g.slots.count.array), np.int64)
        first = np.array(host(g.slots.first.array), np.int64)
        self.clause = np.arange(self.variable.size) - np.repeat(first, counts)
        self.places = self._places(np.array(host(g.clauses.origin.array), np.int64))
        if given is not None:
            self._load(given)

    def _places(self, origin: Any) -> NDArray[np.int64]:
        """Give the entry of each literal of the formula, -1 where there is none."""
        formula, span = self.formula, 2 * max(self.formula.variables, 1)
        owner = np.repeat(np.arange(formula.clauses), np.diff(formula.offsets))
        literals = formula.literals.astype(np.int64)
        wanted = owner * span + 2 * np.abs(literals) - 2 + (literals < 0)
        keys = origin[self.clause] * span + 2 * self.variable + self.negated
        order = np.argsort(keys)
        at = np.searchsorted(keys[order], wanted)
        at[at == keys.size] = 0
        found = order[at] if keys.size else np.full(wanted.size, -1)
        return np.where(keys[found] == wanted, found, -1) if keys.size else found

    def _load(self, given: Floats) -> None:
        """Take messages, by literal of the formula."""
        f = self.f
        eta = np.zeros(self.variable.size)
        known = (self.places >= 0) & ~np.isnan(given)
        eta[self.places[known]] = given[known]
        own = np.rint(-np.log2(np.maximum(1 - eta, 2.0**-CERTAIN)) * f.scale).astype(np.int64)
        sums = np.bincount(2 * self.variable + self.negated, own, 2 * self.formula.variables)
        f.graph.entries.message[:] = np.where(self.negated, ~own, own).astype(np.int32)
        f.sums[0].by_sign[:] = sums.astype(f.sum_type).reshape(-1, 2)

    def iterate(
        self, tolerance: float, most: int, inertia: float, record: bool
    ) -> tuple[bool, int, list[Sweep]]:
        """Sweep until converged; gives whether it is, the sweeps, and their history."""
        check(tolerance=tolerance, inertia=inertia)
        if integer(most, "max_sweeps") < 0:
            raise ValueError(f"max_sweeps = {shown(most)}: expected an integer of 0 or more")
        if not boolean(record, "history"):
            sweeps, converged = converge(
                self.f, tolerance, min(int(most), 2**32), self.rho, inertia
            )
            return converged and (sweeps > 0 or not self.variable.size), sweeps, []
        history: list[Sweep] = []
        converged, before = not self.variable.size, self._survey()
        while not converged and len(history) < most:
            _, converged = converge(self.f, tolerance, 1, self.rho, inertia)
            after = self._survey()
            change = float(abs(after - before).max())
            history.append(Sweep(change, float(marginals(self.f, self.rho).complexity)))
            before = after
        return converged, len(history), history

    def _survey(self) -> Any:
        """Give the surveys of all entries, on the device."""
        device = self.f.graph.device
        with device.active():
            message = self.f.graph.entries.message.array
            return 1 - 2.0 ** ((message ^ (message >> 31)) * (-1.0 / self.f.scale))

    def _bits(self) -> tuple[Floats, Floats]:
        """Give ``-log2(1 - eta)`` by entry, and its sums by variable and sign."""
        device = self.f.graph.device
        message = np.array(device.to_host(self.f.graph.entries.message.array), np.int64)
        bits = (message ^ (message >> 63)) / self.f.scale
        sums = np.bincount(2 * self.variable + self.negated, bits, 2 * self.formula.variables)
        return bits, sums.astype(np.float64).reshape(-1, 2)

    def messages(self) -> Floats:
        """Give the messages in the order of the formula's literals."""
        eta = np.append(1 - 2.0 ** -self._bits()[0], np.nan)
        return eta[self.places]

    def weights(self) -> tuple[Floats, Floats, Floats]:
        """Give W+, W-, W0 of all variables."""
        sums = self._bits()[1]
        true, false, free, _ = _weighed(sums[:, 0], sums[:, 1], self.rho)
        total = true + false + free
        return true / total, false / total, free / total

    def complexity(self) -> float:
        """Give the Bethe approximation of the complexity."""
        bits, sums = self._bits()
        plus, minus = sums[self.variable].T
        same, opposite = np.where(self.negated, (minus, plus), (plus, minus))
        forced = 1 - self.rho * 2.0**-opposite
        with np.errstate(over="ignore"):  # 1 / infinity is right
            warning = forced / (forced + 2.0 ** (same - bits - opposite))
        clauses = int(self.clause.max()) + 1 if self.clause.size else 0
        product = np.ones(clauses)
        np.multiply.at(product, self.clause, warning)
        least = 2.0**-CERTAIN
        edges = np.log(np.maximum(1 - warning * (1 - 2.0**-bits), least)).sum()
        true, false, free, shift = _weighed(sums[:, 0], sums[:, 1], self.rho)
        variables = (np.log(true + false + free) - shift * np.log(2)).sum()
        return float(np.log(np.maximum(1 - product, least)).sum() + variables - edges)


def _start(formula: Formula, start: Any) -> Floats:
    """Check messages to begin with."""
    given = np.asarray(device_of("cpu").to_host(start))
    if given.shape != formula.literals.shape or given.dtype.kind not in "fiu":
        raise ValueError(
            f"start has shape {given.shape} and type {given.dtype}, for {formula.literals.size}"
            " literals"
        )
    given = given.astype(np.float64)
    wrong = (given < 0) | (given > 1)
    if wrong.any():
        k = int(wrong.argmax())
        raise ValueError(f"start[{k}] = {given[k]}: expected a number from 0 to 1, or NaN")
    return given


def _weighed(plus: Floats, minus: Floats, rho: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Give the weights of true, false and neither, over 2 to the minus of the last: the scale."""
    shift = np.minimum(plus, minus)
    p, m = 2.0 ** (shift - plus), 2.0 ** (shift - minus)
    return m * (1 - rho * 2.0**-plus), p * (1 - rho * 2.0**-minus), rho * p * 2.0**-minus, shift
