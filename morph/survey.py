"""Models of formulas: simplification, survey propagation, local search, CaDiCaL, and a check.

`solve` first simplifies a small or structured formula (`simplify`), which decides 2-SAT, and looks
for a model by local search (`walksat`) and, if python-sat is installed, by CaDiCaL.  A large
random formula, or one that these methods did not solve, is decimated by survey propagation
(`decimate`), the rest by belief propagation (`believe`), and local search completes the model.
Further attempts decimate in smaller steps, unfix variables (`backtrack`) or reinforce fields
(`reinforce`).  Each attempt may search twice as long as the one before; with a time limit the last
fifth is reserved for local search from the best assignment so far.  Every model is checked against
the formula as it was given.

`Solver` has the interface of PySAT's solvers.  `surveys` and `beliefs` give the fixed point itself:
messages, marginals, complexity or entropy.
"""

from morph.algorithms.sat.beliefs import believe
from morph.algorithms.sat.decimation import decimate
from morph.algorithms.sat.fields import backtrack, reinforce
from morph.algorithms.sat.fixpoints import Beliefs, Surveys, Sweep, beliefs, surveys
from morph.algorithms.sat.incremental import Solver
from morph.algorithms.sat.options import METHODS
from morph.algorithms.sat.probsat import Walk, walksat
from morph.algorithms.sat.rounds import Decimation, Round
from morph.algorithms.sat.solver import Solution, solve

__all__ = [
    "METHODS", "Beliefs", "Decimation", "Round", "Solution", "Solver", "Surveys", "Sweep",
    "Walk", "backtrack", "beliefs", "believe", "decimate", "reinforce", "solve", "surveys",
    "walksat",
]  # fmt: skip
