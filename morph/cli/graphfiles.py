"""``morph generate`` and ``morph convert``: write graphs and formulas, convert graph files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from io import BytesIO
from typing import Any

import click
import numpy as np

from morph import generate
from morph.cli.common import (
    BadInput,
    FullSummaries,
    bad_input,
    check_writable,
    completing,
    examples,
    json_option,
    need_command,
    print_report,
)
from morph.cli.graphs import SUFFIXES
from morph.cli.numbers import Integer
from morph.graph import Graph
from morph.io import FormatError, read_edges, write_cnf, write_graph
from morph.io.graph.edges import EdgeArrays, arcs_of
from morph.io.graph.formats import FORMATS
from morph.io.graph.graphs import format_of

_FORMATS = f"{', '.join(list(FORMATS)[:-1])} or {list(FORMATS)[-1]}"


def _check_output(option: str, path: str, form: str | None) -> None:
    """Reject paths and formats that cannot be written, before any work is done."""
    check_writable(option, path)
    try:
        format_of(path, form)
    except ValueError as error:
        raise BadInput(f"{option}: {error}") from error


@click.group(
    "generate",
    invoke_without_command=True,
    cls=FullSummaries,
    epilog=examples(
        "morph generate rmat 16 --weight 1 100 -o rmat16.gr.gz",
        "morph generate geometric 10000 --degree 6 --length -o near.wel",
        "morph generate ksat 3 1000 4.2 -o random.cnf",
    ),
)
@click.pass_context
def generate_group(context: click.Context) -> None:
    """Make a graph or a formula and write it.

    Every edge is written in both directions.  The same options give the same file.
    """
    need_command(context)


def _made(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options common to all kinds of graphs."""
    command = json_option(command)
    command = click.option(
        "--format",
        "form",
        metavar="FORMAT",
        shell_complete=completing(*FORMATS),
        help=f"Format of FILE, by default by its suffix: {_FORMATS}.",
    )(command)
    command = click.option(
        "-o", "--output", required=True, type=click.Path(), metavar="FILE",
        help=f"The file to write: {SUFFIXES}, optionally followed by .gz.",
    )(command)  # fmt: skip
    command = click.option(
        "--seed", type=Integer(0), default=0, show_default=True, metavar="N",
        help="Seed of the random draws.",
    )(command)  # fmt: skip
    return click.option(
        "--weight", nargs=2, metavar="LOW HIGH",
        help="Random weights: integers from LOW to HIGH, or reals if one has a decimal point; by"
        " default no weights.",
    )(command)  # fmt: skip


def _drawn(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the kinds whose edges are drawn independently."""
    command = click.option(
        "--multi",
        is_flag=True,
        help="Keep self-loops and duplicate edges; by default they are dropped.",
    )(command)
    return click.option("--directed", is_flag=True, help="Do not add reverse edges.")(command)


def _write(
    make: Callable[..., Graph], options: dict[str, Any], output: str, form: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Make a graph, write it, and report its size."""
    _check_output("-o", output, form)
    weight = options.pop("weight") or None
    if isinstance(weight, tuple):
        weight = tuple(_number(word) for word in weight)
    if "multi" in options:
        options["simple"] = not options.pop("multi")
    _check_weights(output, form, weight)
    try:
        graph = make(**options, weight=weight)
        write_graph(graph, output, form)
    except ValueError as error:
        raise BadInput(str(error)) from error
    report = {"vertices": len(graph.points), "arcs": len(graph.edges), "output": output}
    shown = f"{len(graph.points):,} vertices, {len(graph.edges):,} arcs: {output}"
    print_report(report, as_json, [shown])


def _check_weights(output: str, form: str | None, weight: Any) -> None:
    """Reject weights that the format of the file cannot represent, before any work is done."""
    limits = (0.0, 1.0) if weight == "length" else weight
    with bad_input():
        sample = generate.grid(1, 3, weight=limits, device="cpu")
    values = None
    if limits:  # both limits, each at an edge and its reverse
        values = np.array(limits, sample.edges.weight[:].dtype)[[0, 0, 1, 1]]
    edges = EdgeArrays(np.array([0, 1, 1, 2]), np.array([1, 0, 2, 1]), values, 3)
    with bad_input(f"-o: {output}: "):
        format_of(output, form).write(edges, BytesIO())


def _number(word: str) -> float:
    try:
        return int(word)
    except ValueError:
        try:
            return float(word)
        except ValueError:
            raise BadInput(f"--weight: {word!r} is not a number") from None


@generate_group.command(
    epilog=examples("morph generate uniform 1000 5000 --weight 1 100 -o made.gr")
)
@click.argument("n", type=int)
@click.argument("m", type=int)
@_drawn
@_made
def uniform(output: str, form: str | None, as_json: bool, **options: Any) -> None:
    """Draw M edges with uniformly random ends among N vertices."""
    _write(generate.uniform, options, output, form, as_json)


@generate_group.command(
    epilog=examples(
        "morph generate rmat 16 -o rmat16.el.gz",
        "morph generate rmat 16 --parameters 0.45,0.15,0.15 --permute --seed 7 -o made.npz",
    )
)
@click.argument("scale", type=int)
@click.option("--edge-factor", type=float, default=16, show_default=True, metavar="F",
              help="Edges to draw per vertex.")  # fmt: skip
@click.option("--parameters", default="graph500", show_default=True, metavar="A,B,C",
              shell_complete=completing("graph500", "gtgraph"),
              help="Probabilities of three of the four quadrants of the adjacency"
              " matrix, or graph500 (0.57,0.19,0.19) or gtgraph (0.45,0.15,0.15).")  # fmt: skip
@click.option("--permute", is_flag=True, help="Number vertices at random, as Graph500 does.")
@_drawn
@_made
def rmat(output: str, form: str | None, as_json: bool, parameters: str, **options: Any) -> None:
    """Draw edges among 2**SCALE vertices, with a skewed degree distribution (R-MAT)."""
    known = {"graph500": generate.GRAPH500, "gtgraph": generate.GTGRAPH}
    try:
        values = known.get(parameters.lower()) or tuple(map(float, parameters.split(",")))
        a, b, c = values
    except ValueError:
        said = f"--parameters: {parameters!r}: expected A,B,C, graph500 or gtgraph"
        raise BadInput(said) from None
    _write(generate.rmat, {**options, "a": a, "b": b, "c": c}, output, form, as_json)


@generate_group.command(epilog=examples("morph generate grid 1000 1000 --torus -o torus.graph"))
@click.argument("rows", type=int)
@click.argument("columns", type=int)
@click.option("--torus", is_flag=True, help="Join the last row and column with the first.")
@_made
def grid(output: str, form: str | None, as_json: bool, **options: Any) -> None:
    """Make a grid of ROWS and COLUMNS with edges between adjacent vertices."""
    _write(generate.grid, options, output, form, as_json)


@generate_group.command(
    epilog=examples(
        "morph generate geometric 10000 --degree 6 --length -o near.wel",
        "morph generate geometric 10000 --radius 0.01 -o near.el",
    )
)
@click.argument("n", type=int)
@click.option("--radius", type=float, metavar="R", help="The largest distance between neighbours.")
@click.option(
    "--degree",
    type=float,
    metavar="D",
    help="Instead of --radius: the expected degree of a vertex.",
)
@click.option("--length", is_flag=True, help="Give edges their lengths as weights.")
@_made
def geometric(output: str, form: str | None, as_json: bool, length: bool, **options: Any) -> None:
    """Draw N points of the unit square, with edges between close points."""
    if length and options["weight"]:
        raise BadInput("--length and --weight exclude each other")
    if length:
        options["weight"] = "length"
    _write(generate.geometric, options, output, form, as_json)


@generate_group.command(epilog=examples("morph generate ksat 3 1000 4.2 --seed 1 -o random.cnf"))
@click.argument("k", type=int)
@click.argument("n", type=int)
@click.argument("ratio", type=float)
@click.option("--seed", type=Integer(0), default=0, show_default=True, metavar="N",
              help="Seed of the random draws.")  # fmt: skip
@click.option("-o", "--output", required=True, type=click.Path(), metavar="FILE.cnf",
              help="The file to write.")  # fmt: skip
@json_option
def ksat(k: int, n: int, ratio: float, seed: int, output: str, as_json: bool) -> None:
    """Draw RATIO x N clauses with K different variables of N."""
    check_writable("-o", output)
    try:
        formula = generate.random_ksat(k, n, ratio, seed)
    except ValueError as error:
        raise BadInput(str(error)) from error
    write_cnf(formula, output, f"random {k}-SAT, ratio {ratio:g}, seed {seed}")
    report = {"variables": n, "clauses": formula.clauses, "output": output}
    print_report(report, as_json, [f"{n:,} variables, {formula.clauses:,} clauses: {output}"])


@click.command(
    epilog=examples(
        "morph convert roads.gr.gz roads.npz",
        "morph convert links.txt links.graph --from edges --symmetrize",
    )
)
@click.argument("graph_in", type=click.Path(), metavar="IN")
@click.argument("graph_out", type=click.Path(), metavar="OUT")
@click.option("--from", "read_as", metavar="FORMAT", shell_complete=completing(*FORMATS),
              help=f"Format of IN, by default by its suffix: {_FORMATS}.")  # fmt: skip
@click.option("--to", "write_as", metavar="FORMAT", shell_complete=completing(*FORMATS),
              help="Format of OUT, as for --from.")  # fmt: skip
@click.option("--weight-type", metavar="TYPE",
              shell_complete=completing("uint32", "int32", "float32", "int64", "float64"),
              help="The type of the weights in a Galois file, which lacks it: float32, int64 or"
              " another of 4 or 8 bytes; by default uint32 or int64.")  # fmt: skip
@click.option("--symmetrize", is_flag=True, help="Add reverse edges, except of self-loops.")
@click.option("--edges-only", is_flag=True,
              help="Drop weights and sizes of vertices (METIS files).")  # fmt: skip
@json_option
def convert(
    graph_in: str, graph_out: str, read_as: str | None, write_as: str | None,
    weight_type: str | None, symmetrize: bool, edges_only: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write the graph of file IN to file OUT, in the format of its suffix.

    The order of edges is preserved unless the format of OUT prescribes another.
    """
    _check_output("OUT", graph_out, write_as)
    try:
        edges = read_edges(graph_in, read_as, weight_type)
        size = {"vertices": edges.n, "edges": len(edges.src)}
        if symmetrize and not edges.symmetric:
            src, dst, weight = arcs_of(edges)
            edges = dataclasses.replace(edges, src=src, dst=dst, weight=weight, undirected=False)
        if edges_only:
            edges = dataclasses.replace(edges, points={})
        write_graph(edges, graph_out, write_as)
    except FormatError:
        raise
    except (TypeError, ValueError) as error:
        raise BadInput(str(error)) from error
    count, word = len(edges.src), "edges" if edges.undirected else "arcs"
    report = {"input": size, "vertices": edges.n, word: count, "output": graph_out}
    print_report(report, as_json, [f"{edges.n:,} vertices, {count:,} {word}: {graph_out}"])
