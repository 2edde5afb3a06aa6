"""``morph sat``: models of formulas."""

from __future__ import annotations

from time import monotonic
from typing import Any, NamedTuple

import click

from morph import __version__, survey
from morph.algorithms.sat.solver import check_method
from morph.cli.common import (
    BadInput,
    Line,
    bad_input,
    check_plot,
    check_writable,
    completing,
    devices_of,
    examples,
    format_times,
    json_option,
    parts_option,
    print_report,
    progress_on,
    standard_input,
    taken,
    this_run,
)
from morph.cli.numbers import Integer, Number
from morph.cli.parts import rank_0_first, ranks_of, world
from morph.io import read_cnf
from morph.io.sat.models import model_lines
from morph.plotting.curve import draw_decimation
from morph.plotting.mesh import write_figure
from morph.runtime.device import Device
from morph.survey import Solution

CODES = {"SATISFIABLE": 10, "UNSATISFIABLE": 20, "UNKNOWN": 0}


class Settings(NamedTuple):
    """Options of the solver."""

    seed: int
    seconds: float | None
    max_rounds: int
    method: str
    given: tuple[str, ...]
    complete: bool | None
    strict: bool
    plot: str | None


class _Course(Line):
    """Progress of a search for a model."""

    phase = ""

    def show_numbers(self, phase: str, numbers: dict[str, Any]) -> None:
        """Show numbers by name."""
        shown = (f"{v:,} {k}" if isinstance(v, int) else f"{k} {v:.3g}" for k, v in numbers.items())
        show = self.write_throttled if phase == self.phase else self.write
        self.phase = phase
        show(f"{phase}: {', '.join(shown)}")


@click.command(
    epilog=examples(
        "morph generate ksat 3 100000 4.2 -o random.cnf",
        "morph sat random.cnf --time 60 > answer.txt",
        "morph check random.cnf answer.txt",
        "morph sat random.cnf --method decimation -O fraction=0.01 -O max_sweeps=2000",
    )
)
@click.argument("cnf", type=click.Path(allow_dash=True), metavar="FILE.cnf")
@click.option("--seed", type=Integer(0, 2**32 - 1), default=0, show_default=True,
              metavar="N",
              help="Seed of random decisions: the same seed gives the same answer, except after a"
              " timeout.")  # fmt: skip
@click.option("--time", "seconds", type=Number(0, min_open=True), metavar="SECONDS",
              help="Time limit, including reading; by default the search ends after four"
              " attempts.")  # fmt: skip
@click.option("--max-rounds", type=Integer(0), default=1000, show_default=True, metavar="N",
              help="Largest number of decimation rounds; 0: local search only.")  # fmt: skip
@click.option("--method", default="auto", show_default=True,
              metavar="auto|decimation|backtracking|reinforcement|search",
              shell_complete=completing("auto", "decimation", "backtracking", "reinforcement",
                                        "search"),
              help="Method of the search; auto selects one for the formula.")  # fmt: skip
@click.option("-O", "--option", "given", multiple=True, metavar="NAME=VALUE",
              help="A numeric parameter of the method: fraction, tolerance, max_sweeps, undo,"
              " rho, least_complexity, ratio, intensity, decay, max_flips.")  # fmt: skip
@click.option(
    "--complete/--no-complete",
    default=None,
    help="Whether CaDiCaL (the extra `sat`) may be used; by default if it is installed.",
)
@click.option("--strict", is_flag=True, help="Reject files that are not strict DIMACS.")
@click.option("--plot", type=click.Path(), metavar="FILE",
              help="Plot the complexity against the fraction of fixed variables: .png,"
              " .svg, .pdf and more, by matplotlib.")  # fmt: skip
@click.option(
    "--mpi",
    is_flag=True,
    help="Run on the ranks of `mpiexec -n N`, each with a range of the clauses.",
)
@parts_option
@json_option
def sat(cnf: str, spec: str, as_json: bool, mpi: bool, **options: Any) -> None:
    """Look for a model of a formula in DIMACS CNF; made for large random k-SAT.

    FILE.cnf may be `-`: standard input, compressed or not.

    Prints the format of the SAT competitions: comments, a line `s`, and lines `v` with the literals
    of occurring variables.  Exit code 10: satisfiable, by a checked model; 20: unsatisfiable, by
    unit propagation, by 2-SAT, or by CaDiCaL; 0: unknown.
    """
    started = this_run().started
    settings = taken(Settings, options)
    with rank_0_first(mpi):
        method_options = _options(settings.given)
        with bad_input():
            check_method(settings.method, method_options, settings.complete)
        devices = devices_of(spec)
        if mpi and (settings.seconds is not None or cnf == "-"):
            raise BadInput("--mpi excludes --time, and standard input")
        if settings.plot is not None and (settings.method == "search" or not settings.max_rounds):
            raise BadInput("--plot is of decimation, which local search alone does not do")
        check_writable("--plot", settings.plot)
        check_plot(settings.plot)
    end = None if settings.seconds is None else started + settings.seconds
    with ranks_of(mpi):
        status = _solve(cnf, settings, method_options, devices, end, world(mpi), as_json)
    if not mpi or world(mpi).rank == 0:  # mpiexec ends all ranks when one has another code than 0
        raise click.exceptions.Exit(CODES[status])


def _solve(
    cnf: str, settings: Settings, method_options: dict[str, Any], devices: list[Device],
    end: float | None, comm: Any, as_json: bool,
) -> str:  # fmt: skip
    """Read a formula, solve and report it; of several ranks, only rank 0 reports."""
    where = ",".join(d.name for d in devices)
    reading = monotonic()
    source: Any = standard_input() if cnf == "-" else cnf
    formula: Any = read_cnf(source, strict=settings.strict, comm=comm)
    cnf = "standard input" if cnf == "-" else cnf
    times = {"read": monotonic() - reading}
    left = None if end is None else max(end - monotonic(), 1e-3)
    one = comm is not None and len(devices) == 1
    # a ValueError is an unsupported formula, such as one of 2^30 variables
    with bad_input(f"{cnf}: "), progress_on(_Course) as course:
        found = survey.solve(
            formula, settings.seed, time=left, device=devices[0] if one else devices,
            max_rounds=settings.max_rounds, method=settings.method, options=method_options,
            complete=settings.complete, comm=comm,
            progress=None if course is None else course.show_numbers,
        )  # fmt: skip
    times |= found.seconds
    names = formula.occurring()
    if comm is not None and comm.rank:
        return found.status
    report = {
        "input": {"variables": formula.variables, "clauses": formula.clauses},
        "status": found.status, "reason": found.reason, "variables": formula.variables,
        "clauses": formula.clauses, "seed": settings.seed, "device": where, **_numbers(found),
        "times": {phase: round(spent, 6) for phase, spent in times.items()},
    }  # fmt: skip
    if as_json:
        print_report({**report, **_lists(names, found)}, True, [])
    else:
        click.echo("\n".join(_comments(cnf, formula, found, report, times)))
        click.echo(f"s {found.status}")
        if found.status == "SATISFIABLE":
            click.echo("\n".join(model_lines(found.model, names)))
    if settings.plot is not None:
        write_figure(draw_decimation(found.rounds, formula.variables), settings.plot)
    return found.status


def _numbers(found: Solution) -> dict[str, int]:
    """Counters by name."""
    names = ("attempts", "rollbacks", "left", "left_clauses", "walked", "walked_clauses", "flips",
             "steps", "unsatisfied")  # fmt: skip
    counts = {name: int(getattr(found, name)) for name in names}
    return {**counts, "sweeps": sum(int(r.sweeps) for r in found.rounds)}


def _json_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return numbers as JSON values: without NaN, the value of a complexity not computed."""
    plain = {k: v.item() if hasattr(v, "item") else v for k, v in values.items()}
    return {k: None if v != v else v for k, v in plain.items()}


def _lists(names: Any, found: Solution) -> dict[str, Any]:
    """Arrays: the model, or the best assignment and its unsatisfied clauses."""
    model = found.model
    literals = None if model is None else [v if model[v - 1] else -v for v in names.tolist()]
    known = found.status == "SATISFIABLE"
    return {
        "rounds": [_json_values(r._asdict()) for r in found.rounds],
        "model": literals if known else None, "best": None if known else literals,
        "unsatisfied_clauses": found.unsatisfied_clauses.tolist(), "cycle": found.cycle,
    }  # fmt: skip


def _options(given: tuple[str, ...]) -> dict[str, int | float]:
    """Read options of a method, NAME=VALUE."""
    options: dict[str, int | float] = {}
    for text in given:
        name, sign, value = text.partition("=")
        try:
            options[name] = int(value)
        except ValueError:
            try:
                options[name] = float(value)
            except ValueError:
                raise BadInput(f"--option {text[:60]!r}: expected NAME=NUMBER") from None
    return options


def _comments(
    path: str, formula: Any, found: Solution, report: dict[str, Any], times: dict[str, float]
) -> list[str]:
    """Describe the run in comment lines."""
    lines = [
        f"morph {__version__}, {report['device']}, seed {report['seed']}",
        f"{path}: {formula.variables:,} variables, {formula.clauses:,} clauses",
    ]
    if found.simplified or found.components > 1:
        lines.append(
            f"simplification: {found.simplified:,} variables assigned,"
            f" {found.components:,} components left"
        )
    if found.stopped:
        lines.append(
            f"decimation: {len(found.rounds):,} rounds, {report['sweeps']:,} sweeps,"
            f" {found.rollbacks:,} rollbacks, {found.stopped}"
        )
    if (found.attempts or found.walked) and found.status != "UNSATISFIABLE":
        lines.append(
            f"beliefs: {found.left:,} variables, {found.left_clauses:,} clauses,"
            f" {len(found.believed):,} rounds"
        )
        lines.append(
            f"local search: {found.walked:,} variables, {found.walked_clauses:,} clauses,"
            f" {found.flips:,} flips"
        )
    lines += [format_times(times), found.reason]
    return [f"c {line}" for line in lines]
