"""`Solver`: clauses added one by one, models as lists of literals, like the solvers of PySAT."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np

from morph.algorithms.sat.search import SATISFIABLE, UNSATISFIABLE
from morph.algorithms.sat.solver import Solution, solve
from morph.data.formula import Formula
from morph.language.messages import shown
from morph.runtime.arrays import refuse_masked
from morph.runtime.device import Device


class Solver:
    """A solver in the style of ``pysat.solvers.Solver``: `solve` by its interface.

    Nothing is kept from one call of `solve` to the next but the clauses.

    Parameters
    ----------
    bootstrap_with : formula, optional
        The first clauses: an argument of `morph.Formula.of`, PySAT's ``CNF`` too.
    seed, device, complete
        As of `morph.survey.solve`.

    Attributes
    ----------
    solution : Solution or None
        Of the last call of `solve`, with its reason.
    """

    def __init__(
        self,
        bootstrap_with: Any = None,
        *,
        seed: int = 0,
        device: str | Device | Sequence[str | Device] | None = None,
        complete: bool | None = None,
    ) -> None:
        self._formula = Formula.of([] if bootstrap_with is None else bootstrap_with)
        self._added: list[list[int]] = []
        self._options: dict[str, Any] = {"seed": seed, "device": device, "complete": complete}
        self._assumed: list[int] = []  # in the last call of `solve`
        self.solution: Solution | None = None

    def add_clause(self, clause: Iterable[int]) -> None:
        """Add a clause, an iterable of literals that are not 0.

        Raises
        ------
        ValueError, TypeError
            If an element is no literal; nothing is added then.
        """
        self._added.append(Formula.of([_literals(clause, "clause")]).lists()[0])

    def append_formula(self, formula: Any) -> None:
        """Add the clauses of an argument of `morph.Formula.of`."""
        self._formula = _joined(self._joined(), Formula.of(formula))
        self._added = []

    def nof_vars(self) -> int:
        """Return the number of variables: the largest that occurs, or that a formula names."""
        return self._joined().variables

    def nof_clauses(self) -> int:
        """Return the number of clauses."""
        return self._formula.clauses + len(self._added)

    def solve(self, assumptions: Iterable[int] = (), *, time: float | None = None) -> bool | None:
        """Look for a model in which the assumptions, literals, are true.

        Parameters
        ----------
        assumptions : iterable of int
            Literals that hold in this call alone.
        time : float, optional
            Seconds after which to give up.

        Returns
        -------
        bool or None
            Whether there is a model.  None if that is not known: without python-sat, whose CaDiCaL
            can refute any formula, or when the time is up.

        Raises
        ------
        ValueError, TypeError
            If an assumption is no literal, and as by `morph.survey.solve`.
        """
        given = _literals(assumptions, "assumptions")
        units = Formula.of([[literal] for literal in given])
        self.solution, self._assumed = None, list(dict.fromkeys(given))
        self.solution = solve(_joined(self._joined(), units), time=time, **self._options)
        return {SATISFIABLE: True, UNSATISFIABLE: False}.get(self.solution.status)

    def solve_limited(
        self,
        assumptions: Iterable[int] = (),
        expect_interrupt: bool = False,
        *,
        time: float | None = None,
    ) -> bool | None:
        """Call `solve`, whose only limit is ``time``; None if the answer is not known.

        Raises
        ------
        NotImplementedError
            If ``expect_interrupt``: another thread cannot interrupt a call.
        ValueError, TypeError
            As `solve`.
        """
        if expect_interrupt:
            raise NotImplementedError(
                "expect_interrupt is True, but no thread can interrupt a call: give time=SECONDS"
            )
        return self.solve(assumptions, time=time)

    def conf_budget(self, budget: int = -1) -> None:
        """Refuse a limit of conflicts.

        Raises
        ------
        NotImplementedError
            Unless it is negative, which is no limit: local search has no conflicts.
        """
        _refuse_limit("conflicts", budget)

    def prop_budget(self, budget: int = -1) -> None:
        """Refuse a limit of propagations.

        Raises
        ------
        NotImplementedError
            Unless it is negative, which is no limit.
        """
        _refuse_limit("propagations", budget)

    def get_status(self) -> bool | None:
        """Return the result of the last call of `solve`; None before it."""
        status = None if self.solution is None else self.solution.status
        return {SATISFIABLE: True, UNSATISFIABLE: False}.get(status or "")

    def get_model(self) -> list[int] | None:
        """Return the model of the last call of `solve`, a literal for each variable, or None."""
        if self.solution is None or self.solution.model is None or not self.get_status():
            return None
        model = self.solution.model
        names = np.arange(1, len(model) + 1)
        literals: list[int] = np.where(model, names, -names).tolist()
        return literals

    def get_core(self) -> list[int] | None:
        """Return assumptions of the last call of `solve` that cannot all hold.

        Returns
        -------
        list of int or None
            All assumptions of that call, since no smaller core is looked for; empty if it had none.
            None unless it returned False.
        """
        return list(self._assumed) if self.get_status() is False else None

    def get_proof(self) -> list[str] | None:
        """Return None: no proof is recorded, as by PySAT's solvers without ``with_proof``."""
        return None

    def enum_models(self, assumptions: Iterable[int] = ()) -> Iterator[list[int]]:
        """Yield all models, each once, in no particular order; each is a new call of `solve`.

        Raises
        ------
        RuntimeError
            If a call of `solve` did not decide whether there is another model.
        """
        held = _literals(assumptions, "assumptions")
        rest = Solver(self._joined(), **self._options)
        while rest.solve(held):
            model = rest.get_model()
            assert model is not None
            yield model
            rest.add_clause([-literal for literal in model])
        if rest.get_status() is None:
            reason = "" if rest.solution is None else rest.solution.reason
            raise RuntimeError(f"it is not known whether there are more models: {reason}")

    def delete(self) -> None:
        """Forget the clauses and the last solution."""
        self._formula, self._added, self.solution = Formula.of([]), [], None
        self._assumed = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.delete()

    def _joined(self) -> Formula:
        """Give all clauses as one formula."""
        if self._added:
            self._formula = _joined(self._formula, Formula.of(self._added))
            self._added = []
        return self._formula


def _literals(given: Iterable[int], name: str) -> list[int]:
    """Return the literals of an argument as a list."""
    refuse_masked(given, name)
    try:
        return list(given)
    except TypeError:
        raise TypeError(f"{name}: expected an iterable of literals, not {shown(given)}") from None


def _refuse_limit(unit: str, most: int) -> None:
    """Raise NotImplementedError unless a limit is negative, which is none."""
    if most >= 0:
        raise NotImplementedError(
            f"a limit of {shown(most)} {unit} is not supported: solve_limited(time=SECONDS) is"
        )


def _joined(first: Formula, second: Formula) -> Formula:
    """Give the clauses of two formulas as one."""
    if not second.clauses and second.variables <= first.variables:
        return first
    return Formula(
        max(first.variables, second.variables),
        np.concatenate([first.offsets, second.offsets[1:] + first.offsets[-1]]),
        np.concatenate([first.literals, second.literals]),
    )
