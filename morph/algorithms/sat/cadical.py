"""CaDiCaL, a complete solver, by way of python-sat: it proves that a formula has no model.

The solver runs in a process of its own, which is killed when time is up or the caller is
interrupted: a call of the library cannot be.  The clauses are sent as they lie in memory.
"""

from __future__ import annotations

import importlib.util
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from morph.data.formula import Formula
from morph.language.messages import shortened

_CHILD = """
import ctypes, signal, sys
try:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # Linux: do not outlive the parent
except (AttributeError, OSError, TypeError):
    pass
import numpy as np
try:
    from pysat.solvers import Solver
except Exception as error:
    sys.stdout.write(f"!{error}")
    sys.exit(1)
conflicts, variables, clauses = (int(x) for x in sys.argv[1:])
offsets = np.frombuffer(sys.stdin.buffer.read(8 * (clauses + 1)), np.int64)
literals = np.frombuffer(sys.stdin.buffer.read(), np.int32)
with Solver("cadical195") as solver:
    for a, b in zip(offsets.tolist(), offsets[1:].tolist()):
        solver.add_clause(literals[a:b].tolist())
    if conflicts:
        solver.conf_budget(conflicts)
    found = solver.solve_limited() if conflicts else solver.solve()
    sys.stdout.write({None: "?", True: "s", False: "u"}[found])
    if found:
        model = np.zeros(variables + 1, np.uint8)
        true = np.array([v for v in solver.get_model() if v > 0], np.int64)
        model[true[true <= variables]] = 1
        sys.stdout.flush()
        sys.stdout.buffer.write(model[1:].tobytes())
"""


def available() -> bool:
    """Whether python-sat is installed, and not pysat, a package for satellites."""
    try:
        spec = importlib.util.find_spec("pysat")
    except ValueError:  # a module without a spec
        return False
    folders = [] if spec is None else spec.submodule_search_locations or []
    return any(Path(folder, "solvers.py").is_file() for folder in folders)


def cadical(
    formula: Formula, conflicts: int = 0, seconds: float | None = None
) -> tuple[bool | None, Any]:
    """Decide a formula by CaDiCaL.

    Parameters
    ----------
    formula : Formula
    conflicts : int
        When to give up, on any machine alike; 0 for no limit.
    seconds : float, optional
        When to give up.

    Returns
    -------
    satisfiable : bool or None
        None if it gave up, or could not be run.
    model : (n,) bool array or None

    Raises
    ------
    ImportError
        If python-sat is not installed, or cannot be imported.
    """
    if not available():
        raise ImportError("CaDiCaL needs python-sat: pip install morph-engine[sat]")
    numbers = conflicts, formula.variables, formula.clauses
    command = [sys.executable, "-P", "-c", _CHILD, *map(str, numbers)]
    with tempfile.TemporaryFile() as sent:
        sent.write(formula.offsets.tobytes())
        sent.write(formula.literals.tobytes())
        sent.seek(0)
        with subprocess.Popen(
            command, stdin=sent, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as child:  # fmt: skip
            assert child.stdout is not None
            try:  # `communicate` would hold up Ctrl-C for a quarter of a second
                ready = select.select([child.stdout], [], [], seconds)[0]
                said = child.stdout.read() if ready else b""
            finally:
                child.kill()
    if said[:1] == b"!":
        text = shortened(" ".join(said[1:].decode(errors="replace").split()), 120)
        raise ImportError(f"CaDiCaL needs python-sat, which cannot be imported: {text}")
    if said[:1] == b"u":
        return False, None
    if said[:1] != b"s" or len(said) != formula.variables + 1:
        return None, None
    return True, np.frombuffer(said, np.uint8)[1:] != 0
