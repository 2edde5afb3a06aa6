"""``morph check``: meshes, answers about graphs, models of formulas."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from zipfile import BadZipFile

import click
import numpy as np

from morph import validate
from morph.algorithms.registry import ALGORITHMS
from morph.algorithms.sat.simplify import simplify
from morph.cli.common import BadInput, bad_input, examples, json_option, print_report
from morph.cli.communities import check_community, read_communities
from morph.cli.flows import check_flow
from morph.cli.graphs import check_sources, graph_of
from morph.cli.meshfiles import sizes_of
from morph.data.formula import Formula
from morph.graph import Graph
from morph.io import EdgeArrays, read_cnf, read_edges, read_mesh
from morph.io.graph.graphs import graph_from
from morph.io.sat.cnf import CNF
from morph.io.sat.models import read_answer
from morph.io.text.files import split_compression

MAX_FLOW = "max-flow"  # a command that is no row of the registry


@click.command(
    epilog=examples(
        "morph check fine",
        "morph check GRAPH.gr ANSWER.npz",
        "morph check GRAPH.gr distances.npy --as sssp --source 5",
        "morph check formula.cnf answer.txt",
    )
)
@click.argument("checked", type=click.Path(), metavar="MESH|GRAPH|CNF")
@click.argument("answer", type=click.Path(), metavar="ANSWER", required=False)
@click.option("--as", "algorithm", type=click.Choice(list(ALGORITHMS)), metavar="ALGORITHM",
              help="The command whose answer the array in a .npy is: bfs, sssp, mst.")  # fmt: skip
@click.option("--source", type=int, multiple=True, metavar="S",
              help="The vertex that the search started at; repeatable.  An .npz has it."
              "  [default: 0]")  # fmt: skip
@json_option
def check(
    checked: str, answer: str | None, algorithm: str | None, source: tuple[int, ...], as_json: bool
) -> None:
    """Check a mesh in exact arithmetic, or an answer about a graph or a formula.

    For a graph, ANSWER is the output of a graph command, such as `morph bfs GRAPH -o ANSWER.npz`
    (`morph community` saves a .json), or an array of another program in a .npy, with `--as` for its
    kind.  For a .cnf, it is the output of a SAT solver.  Exit code 0 if the answer is correct, else
    1.
    """
    if answer is None:
        if algorithm or source:
            raise BadInput("--as and --source are of an answer: morph check GRAPH ANSWER")
        _check_mesh(checked, as_json)
    elif split_compression(checked)[0].lower().endswith(CNF.suffixes):
        if algorithm or source:
            raise BadInput("--as and --source are of an answer about a graph")
        _check_model(checked, answer, as_json)
    else:
        _check_answer(checked, answer, algorithm, source, as_json)


def _check_mesh(path: str, as_json: bool) -> None:
    with bad_input():
        mesh = read_mesh(path)
    found, quality = mesh.violations(), mesh.quality()
    report = {
        "input": sizes_of(mesh),
        "good": not found,
        "violations": [{"name": v.name, "message": v.message, "count": len(v.ids)} for v in found],
        "quality": quality.to_dict(),
    }
    lines = [f"{v.name}: {v.message}" for v in found] or ["the mesh is good"]
    lines.append(
        f"{quality.points:,} points, {quality.triangles:,} triangles, {len(mesh.segments):,}"
        f" segments, angles {quality.min_angle:.2f} to {quality.max_angle:.2f} degrees"
    )
    print_report(report, as_json, lines)
    if found:
        raise click.exceptions.Exit(1)


def _check_answer(
    path: str, answer: str, algorithm: str | None, source: tuple[int, ...], as_json: bool
) -> None:
    if answer.lower().endswith(".json"):
        _check_communities(path, answer, algorithm, source, as_json)
        return
    algorithm, given = _read(answer, algorithm)
    if algorithm == MAX_FLOW:
        _check_flow(path, answer, given, source, as_json)
        return
    row = ALGORITHMS[algorithm]
    if source:
        given[row.source] = np.array(source)
    edges = read_edges(path)
    check_sources(edges.n, source)
    graph = graph_of(path, edges, row, "cpu")
    if "edges" in given and graph.edge_order is not None:
        given["edges"] = np.sort(_ids(np.asarray(graph.edge_order), given["edges"]))
    for name in row.of_edges.split():
        given[name] = _by_id(graph, edges, given[name])
    checker = getattr(validate, row.public_name)
    _check_and_report(algorithm, answer, edges, partial(checker, graph, **given), as_json)


def _check_flow(
    path: str, answer: str, given: dict[str, Any], source: tuple[int, ...], as_json: bool
) -> None:
    if source:
        raise BadInput(f"{answer} has the source: leave out --source")
    edges = read_edges(path)
    _check_and_report(MAX_FLOW, answer, edges, partial(check_flow, edges, **given), as_json)


def _check_communities(
    path: str, answer: str, algorithm: str | None, source: tuple[int, ...], as_json: bool
) -> None:
    if algorithm or source:
        raise BadInput("--as and --source are of an answer in a .npz or .npy")
    saved = read_communities(answer)
    if saved is None:
        raise BadInput(f"{answer} is not what `morph community -o` saves")
    edges = read_edges(path)

    def check() -> None:
        graph = graph_from(edges, "cpu", weighted=False)
        for found in saved:
            check_community(graph, found)

    _check_and_report("community", answer, edges, check, as_json)


def _check_and_report(
    algorithm: str, answer: str, edges: EdgeArrays, checker: Callable[[], None], as_json: bool
) -> None:  # fmt: skip
    """Run a checker and report its result."""
    try:
        checker()
        message = ""
    except validate.WrongAnswer as error:
        message = str(error)
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{answer}: {error}") from error
    size = {"vertices": edges.n, "edges": len(edges.src)}
    report = {"input": size, "good": not message, "algorithm": algorithm, "message": message}
    print_report(report, as_json, [f"{algorithm}: {message or 'the answer is right'}"])
    if message:
        raise click.exceptions.Exit(1)


def _check_model(path: str, answer: str, as_json: bool) -> None:
    formula = read_cnf(path)
    solver = read_answer(answer, formula.variables, formula.occurring())
    message = ""
    if solver.status == "UNKNOWN":
        raise BadInput(f"{answer}: the solver did not know: there is nothing to check")
    if solver.model is None:
        if not _refuted(formula):
            raise BadInput(f"{answer}: unit propagation alone does not show that there is no model")
    else:
        try:
            validate.model(formula, solver.model)
        except validate.WrongAnswer as error:
            message = str(error)
    missing = solver.missing if solver.model is not None else 0
    size = {"variables": formula.variables, "clauses": formula.clauses}
    report = {"input": size, "good": not message, "status": solver.status, "unset": missing}
    report["message"] = message
    unset = f" ({missing:,} variables without a value were assumed false)" if missing else ""
    print_report(report, as_json, [f"{solver.status}: {message or 'the answer is right'}{unset}"])
    if message:
        raise click.exceptions.Exit(1)


def _refuted(formula: Formula) -> bool:
    """Whether unit propagation or 2-SAT proves that there is no model."""
    if validate.refuted(formula):
        return True
    cycle = simplify(formula).cycle
    if cycle:
        validate.implications(formula, cycle)
    return bool(cycle)


def _read(path: str, algorithm: str | None) -> tuple[str, dict[str, Any]]:
    """Read a saved result; returns the algorithm, and the arguments of its checker by name."""
    try:
        saved = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, BadZipFile) as error:  # NumPy would suggest allow_pickle
        raise BadInput(
            f"{path} is no .npz or .npy with an answer about a graph (the name of a formula ends in"
            f" {' or '.join(CNF.suffixes)})"
        ) from error
    if isinstance(saved, np.ndarray):
        if algorithm is None:
            raise BadInput(f"{path}: --as tells what the array is: {', '.join(ALGORITHMS)}")
        return algorithm, {ALGORITHMS[algorithm].main: saved}
    with saved:
        given = {name: a if a.ndim else a.item() for name, a in saved.items()}
    named = given.pop("algorithm", algorithm)
    if named == MAX_FLOW and {"flow", "source", "sink"} <= given.keys() and algorithm is None:
        return named, given
    if (
        named not in ALGORITHMS
        or ALGORITHMS[named].main not in given
        or algorithm not in (None, named)
    ):
        raise BadInput(f"{path} holds {', '.join(given) or 'nothing'} of {named}")
    return named, given


def _ids(order: np.ndarray[Any, Any], positions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an edge for each position in the file; -1 if there is none."""
    first = np.full(int(order.max(initial=-1)) + 1, -1)
    first[order] = np.arange(len(order))
    inside = (positions >= 0) & (positions < len(first))
    return np.where(inside, first[np.where(inside, positions, 0)], -1) if len(first) else positions


def _by_id(graph: Graph, edges: EdgeArrays, values: Any) -> Any:
    """Reorder values from the order of the file to edge ids."""
    if np.shape(values) != edges.src.shape:
        return values  # the checker raises the error
    if edges.undirected:
        values = np.concatenate([values, values[edges.src != edges.dst]])
    return values if graph.edge_order is None else values[np.asarray(graph.edge_order)]
