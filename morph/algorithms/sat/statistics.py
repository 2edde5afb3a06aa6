"""What a call of `solve` reports of its search: the fields of `Solution` besides the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic

from morph.algorithms.sat.rounds import Decimation, Round


@dataclass
class Statistics:
    """Counts and times of one call of `solve`, described in `Solution`."""

    cycle: list[int] = field(default_factory=list)
    simplified: int = 0
    components: int = 1
    attempts: int = 0
    rounds: list[Round] = field(default_factory=list)
    stopped: str = ""
    rollbacks: int = 0
    left: int = 0
    left_clauses: int = 0
    believed: list[Round] = field(default_factory=list)
    walked: int = 0
    walked_clauses: int = 0
    flips: int = 0
    steps: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def spend(self, phase: str, started: float) -> None:
        """Add the time since ``started`` to a phase."""
        self.add_seconds({phase: monotonic() - started})

    def add_seconds(self, seconds: Mapping[str, float]) -> None:
        """Add times by phase."""
        for phase, spent in seconds.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + spent

    def set_decimation(self, rounds: list[Round], rollbacks: int, status: str) -> None:
        """Set the fields of the attempt's decimation."""
        self.rounds, self.rollbacks, self.stopped = rounds, rollbacks, status

    def set_rest(self, variables: int, clauses: int) -> None:
        """Set what decimation has left; beliefs and local search have not processed it yet."""
        self.left, self.left_clauses, self.believed = variables, clauses, []
        self.set_searched(variables, clauses)

    def set_beliefs(self, done: Decimation) -> None:
        """Set the rounds of beliefs, and what they have left to local search."""
        self.believed = done.rounds
        self.walked, self.walked_clauses = done.rest.variables, done.rest.clauses

    def set_searched(self, variables: int, clauses: int) -> None:
        """Set what local search begins with."""
        self.walked, self.walked_clauses = variables, clauses
        self.flips = self.steps = 0

    def add_search(self, flips: int, steps: int) -> None:
        """Add the flips and steps of a local search."""
        self.flips += flips
        self.steps += steps
