"""Random k-SAT to a verified model: time by phase, the solved share, beside SAT solvers.

    python benchmarks/sat.py -n 1e4 1e5 -k 3 --ratio 4.2 --seeds 5 --limit 60
    python benchmarks/sat.py --falcon --device cuda

Each formula is made here and solved by `morph.survey.solve`, after two rounds on another one of its
size, so that neither compiling nor a GPU's first memory is included; --cold leaves that out.  Times
are medians over seeds, in seconds; "SP" is all of decimation, "BP" what beliefs fix of its rest,
"search" the local search.  Each row is printed when it is done.  Peers get the same formulas as
files, and --limit seconds each: python-sat's CaDiCaL, and kissat, cadical and probSAT where such a
program is found.  Every model, a peer's too, is checked by `morph.validate`.  Reading the file is
not in Morph's time, but in a peer's.

--falcon makes the seven formulas of table XIV of the Falcon paper; its times end with decimation.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import device_or_devices, devices, table

import morph
from morph import survey
from morph.io import write_cnf
from morph.io.sat.models import read_answer
from morph.validate import satisfied

# k, n, m; seconds: Galois and Falcon on 12 threads, LonestarGPU and Falcon on a K20c
FALCON = [
    (3, 1_000_000, 4_200_000, 67, 46, 26, 23),
    (3, 2_000_000, 8_400_000, 147, 76, 55, 47),
    (3, 3_000_000, 12_600_000, 232, 114, 86, 69),
    (3, 4_000_000, 16_800_000, 322, 147, 117, 93),
    (4, 4_000_000, 9_900_000, 1867, 149, 118, 95),
    (5, 1_000_000, 21_100_000, None, 356, 414, 314),
    (6, 1_000_000, 43_400_000, None, 1322, 1180, 928),
]
WARM = 2  # rounds of the formula that goes before
PROGRAMS = {"kissat": ["-q"], "cadical": ["-q"], "probSAT": []}
BELIEFS, SEARCH, CHECK = ("beliefs",), ("search",), ("check", "refutation")

Peer = Callable[[morph.Formula, Path, int, float], tuple[float | None, np.ndarray | None]]


def program(command: list[str]) -> Peer:
    """Run a solver on a file until it ends or time is up."""

    def run(formula: morph.Formula, path: Path, seed: int, limit: float) -> Any:
        out = path.with_suffix(".out")
        start = time.perf_counter()
        with out.open("w") as file:
            try:
                subprocess.run([*command, str(path)], stdout=file, timeout=limit, check=False)
            except subprocess.TimeoutExpired:
                return None, None
        spent = time.perf_counter() - start
        if "s SATISFIABLE" not in out.read_text():
            return None, None
        return spent, read_answer(out, formula.variables).model

    return run


def _pysat(path: str, answer: Any) -> None:
    from pysat.formula import CNF
    from pysat.solvers import Solver

    start = time.perf_counter()
    with Solver("cadical195", bootstrap_with=CNF(from_file=path)) as solver:
        found = solver.solve()
        answer.send((time.perf_counter() - start, solver.get_model() if found else None))


def pysat(formula: morph.Formula, path: Path, seed: int, limit: float) -> Any:
    """python-sat's CaDiCaL, in a process of its own, which can be ended."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_pysat, args=(str(path), theirs))
    process.start()
    found = ours.recv() if ours.poll(limit) else (None, None)
    process.kill()
    process.join()
    spent, literals = found
    if literals is None:
        return None, None
    model = np.zeros(formula.variables, bool)
    true = np.array([v for v in literals if v > 0], np.int64)
    model[true[true <= formula.variables] - 1] = True
    return spent, model


def peers(wanted: list[str] | None) -> dict[str, Peer]:
    """Those that are installed, by name."""
    found: dict[str, Peer] = {}
    beside = importlib.util.find_spec("sage_wheels")  # where PyPI's kissat lies
    for name, options in PROGRAMS.items():
        path = shutil.which(name)
        for folder in beside.submodule_search_locations or () if beside and not path else ():
            path = shutil.which(name, path=str(Path(folder) / "bin"))
        if path:
            found[name] = program([path, *options])
    if importlib.util.find_spec("pysat"):
        found["pysat"] = pysat
    return {n: p for n, p in found.items() if wanted is None or n in wanted}


def measure(formula: morph.Formula, seed: int, device: str, limit: float) -> dict[str, Any]:
    """Solve one formula."""
    start = time.perf_counter()
    found = survey.solve(formula, seed, time=limit, device=device_or_devices(device))
    spent = time.perf_counter() - start
    solved = found.status == "SATISFIABLE"  # otherwise the model is the best one found
    if solved and not satisfied(formula, found.model).all():
        raise SystemExit("WRONG: the model does not satisfy the formula")
    phases = found.seconds
    parts = (BELIEFS, SEARCH, CHECK)
    beliefs, search, check = (sum(phases.get(p, 0.0) for p in part) for part in parts)
    return {
        "solved": solved, "all s": spent,
        "SP s": sum(phases.values()) - beliefs - search - check,
        "sweeps s": phases.get("sweeps", 0.0), "BP s": beliefs, "search s": search,
        "check s": check, "sweeps": sum(r.sweeps for r in found.rounds),
        "rounds": len(found.rounds), "left": found.left, "walked": found.walked,
        "Mflips": found.flips / 1e6,
        "stopped": found.stopped, "attempts": found.attempts, "phases": phases,
    }  # fmt: skip


def middle(rows: list[dict[str, Any]], name: str) -> float:
    return float(statistics.median(float(r[name]) for r in rows))


def line(name: str, device: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of the table."""
    shown = {"formula": name, "on": device}
    shown["solved"] = f"{sum(r['solved'] for r in rows)}/{len(rows)}"
    for column in ("all s", "SP s", "sweeps s", "BP s", "search s", "check s"):
        shown[column] = middle(rows, column)
    for column in ("sweeps", "rounds", "left", "walked"):
        shown[column] = int(middle(rows, column))
    shown["Mflips"] = middle(rows, "Mflips")
    shown["attempts"] = "/".join(str(r["attempts"]) for r in rows)
    shown["ended as"] = "/".join(sorted({r["stopped"] for r in rows}))
    return shown


def beside(
    formulas: list[morph.Formula], ours: float, options: argparse.Namespace
) -> dict[str, Any]:
    """Give what each peer takes, and how many times as long as Morph."""
    shown = {}
    for name, solve in peers(options.peers).items():
        times: list[float] = []
        for seed, formula in enumerate(formulas):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "formula.cnf"
                write_cnf(formula, path)
                spent, model = solve(formula, path, seed, options.limit)
            if model is not None and not satisfied(formula, model).all():
                raise SystemExit(f"WRONG: {name}'s model does not satisfy the formula")
            times += [spent] if spent is not None else []
        least = statistics.median([*times, *[options.limit] * (len(formulas) - len(times))])
        more = ">" if least >= options.limit else ""
        shown[name] = (
            f"{len(times)}/{len(formulas)} {more}{least:.3g} s = {more}{least / ours:.3g}x"
        )
    return shown


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-n", type=float, nargs="+", default=[1e4])
    parser.add_argument("-k", type=int, default=3)
    parser.add_argument("--ratio", type=float, nargs="+", default=[4.2])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each formula")
    parser.add_argument("--peers", nargs="*", help="by name; none: Morph alone")
    parser.add_argument("--falcon", action="store_true", help="the rows of its table XIV")
    parser.add_argument("--rows", type=int, nargs="+", help="which of them, from 0")
    parser.add_argument(
        "--cold", action="store_true", help="solve no other formula of that size first"
    )
    parser.add_argument("--phases", action="store_true", help="print seconds by phase, too")
    parser.add_argument("--device", default="all", help="cuda:0,cuda:1: a part on each")
    options = parser.parse_args(arguments)
    for device in devices(options.device):
        survey.solve(
            morph.generate.random_ksat(3, 3000, 4.1, 1), device=device_or_devices(device), time=30
        )
        (falcon if options.falcon else grid)(device, options)


def grid(device: str, options: argparse.Namespace) -> None:
    """Formulas of each size and ratio, beside peers."""
    for n in options.n:
        for ratio in options.ratio:
            made = [
                morph.generate.random_ksat(options.k, int(n), ratio, s)
                for s in range(options.seeds)
            ]
            warm(made[0], device, options)
            rows = [measure(f, s, device, options.limit) for s, f in enumerate(made)]
            name = f"{options.k}-SAT {n:g} x {ratio:g}"
            others = beside(made, middle(rows, "all s"), options)
            table([{**line(name, device, rows), **others}])
            _phases(rows, options)


def warm(formula: morph.Formula, device: str, options: argparse.Namespace) -> None:
    """Begin to decimate a formula of as many clauses."""
    if not options.cold:
        longest = int(np.diff(formula.offsets).max(initial=1))
        other = morph.generate.random_ksat(
            longest, formula.variables, formula.clauses / formula.variables, 1_000_003
        )
        survey.decimate(other, 1, device_or_devices(device), WARM, max_seconds=options.limit)


def falcon(device: str, options: argparse.Namespace) -> None:
    """The rows of table XIV, and what the paper gives for them."""
    for i, (k, n, m, *paper) in enumerate(FALCON):
        if options.rows is not None and i not in options.rows:
            continue
        formula = morph.generate.random_ksat(k, n, m / n, 1)
        warm(formula, device, options)
        row = measure(formula, 1, device, options.limit)
        names = ("Galois", "Falcon 12 threads", "LonestarGPU", "Falcon K20c")
        times = {a: "killed" if b is None else b for a, b in zip(names, paper, strict=True)}
        table([{**line(f"({k}, {n:.0e}, {m:.3g})", device, [row]), **times,
                "Falcon K20c / SP": paper[-1] / max(row["SP s"], 1e-9)}])  # fmt: skip
        _phases([row], options)


def _phases(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    sys.stdout.flush()
    if options.phases:
        names = dict.fromkeys(p for r in rows for p in r["phases"])
        spent = {p: statistics.median(r["phases"].get(p, 0.0) for r in rows) for p in names}
        print("   ", ", ".join(f"{p} {s:.3g} s" for p, s in spent.items()), flush=True)


if __name__ == "__main__":
    main()
