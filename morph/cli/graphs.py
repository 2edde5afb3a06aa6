"""The commands that run an algorithm on a graph, one for each row of the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

import click
import numpy as np

from morph.algorithms.registration import Algorithm, Arguments, Option
from morph.algorithms.registry import ALGORITHMS
from morph.cli.common import (
    BadInput,
    bad_input,
    check_writable,
    device_of,
    device_option,
    examples,
    format_times,
    json_option,
    parts_option,
    print_report,
    times_of,
)
from morph.cli.numbers import Integer, Number
from morph.cli.parts import rank_0_first, ranks_of, world
from morph.graph import Graph
from morph.io import EdgeArrays, read_edges
from morph.io.graph.formats import FORMATS
from morph.io.graph.graphs import graph_from, graph_of_shares, read_edges_of_parts
from morph.io.text.files import replacing
from morph.language.errors import LanguageError
from morph.launch.foreach import timing
from morph.partition.graph import PartitionedGraph
from morph.partition.ranges import places
from morph.partition.transport import on_all
from morph.runtime.device import Device
from morph.runtime.timing import counting


class Call(NamedTuple):
    """Arguments of all graph commands."""

    path: str  # graph file
    output: str | None
    device: str  # comma-separated if several
    as_json: bool
    mpi: bool

    @property
    def complete(self) -> bool:
        """Whether all fields of the result are saved."""
        return self.output is not None and self.output.endswith(".npz")


SUFFIXES = " ".join(s for row in FORMATS.values() for s in row.suffixes[: row.common])
GRAPHS = f"GRAPH is a file: {SUFFIXES}, optionally followed by .gz, .xz or .bz2."
ANSWERS = (".npy", ".npz")  # suffixes of results
# every command takes sources, so that scripts may run all of them by the same line
UNUSED_SOURCE = click.option("--source", type=int, multiple=True, hidden=True)
# checks the options, and returns the function to run, on each rank if there are several
Prepare = Callable[[Algorithm, Call, Arguments], Callable[[], None]]


def command_of(name: str) -> click.Command:
    """Make the command of a row of the registry."""
    return make_command(ALGORITHMS[name], prepared)


def make_command(row: Algorithm, prepare: Prepare, others: Iterable[Any] = ()) -> click.Command:
    """Make a command that passes its options, including ``others``, to ``prepare``."""

    def command(
        path: str, output: str | None, spec: str, as_json: bool, mpi: bool, **options: Any
    ) -> None:
        with rank_0_first(mpi):
            run = prepare(row, Call(path, output, spec, as_json, mpi), options)
        with ranks_of(mpi):
            run()

    output = click.option(
        "-o",
        "--output",
        type=click.Path(),
        metavar="OUT",
        help="Save the main array of the result as OUT.npy, or all as OUT.npz, for `morph check`.",
    )
    ranks = click.option(
        "--mpi", is_flag=True, hidden=not row.in_parts,
        help="Run on the ranks of `mpiexec -n N`, each with a part of GRAPH.",
    )  # fmt: skip
    on = parts_option if row.in_parts else device_option
    given: Any = output(ranks(json_option(on(command))))
    for option in reversed([*map(_option, row.options), *others]):
        given = option(given)
    if "source" not in {o.name for o in row.options}:
        given = UNUSED_SOURCE(given)
    given = click.argument("path", type=click.Path(), metavar="GRAPH")(given)
    text = f"{row.help}\n\n{GRAPHS}"
    made: click.Command = click.command(row.name, help=text, epilog=_examples(row))(given)
    return made


def _examples(row: Algorithm) -> str:
    """Example command lines of a command, and of a check of its result."""
    options = [f"--{name}" + ("" if value is True else f" {v}")
               for name, value in (row.examples[1:] or ({},))[0].items()
               for v in (value if isinstance(value, tuple) else (value,))]  # fmt: skip
    return examples(
        " ".join(["morph", row.name, "GRAPH.gr.gz", *options, "--json"]),
        f"morph {row.name} GRAPH.gr.gz -o ANSWER.npz",
        "morph check GRAPH.gr.gz ANSWER.npz",
    )


def _option(option: Option) -> Any:
    kind: Any = option.type
    if (option.least, option.most) != (None, None):
        ranges: dict[Any, Any] = {int: Integer, float: Number}
        kind = ranges[kind](option.least, option.most)
    how: dict[str, Any] = {"type": kind} if kind is not bool else {"is_flag": True}
    if option.default not in (None, ()) and kind is not bool:
        how["show_default"] = True
    return click.option(
        f"--{option.name}", default=option.default, multiple=option.repeated,
        metavar=option.metavar, help=option.help, **how,
    )  # fmt: skip


def graph_of(path: str, edges: EdgeArrays, row: Algorithm, where: Device | str) -> Graph:
    """Make the graph for an algorithm, whose weights are checked."""
    check_weights(path, edges, row)
    return graph_from(edges, where)


def check_weights(path: str, edges: EdgeArrays, row: Algorithm) -> None:
    """Reject weights that an algorithm does not support."""
    weight = edges.weight
    if row.weights and weight is not None:
        if np.isnan(weight).any():
            raise BadInput(f"{path}: a weight is not a number")
        if row.weights == "nonnegative" and weight.min(initial=0) < 0:
            k = int((weight < 0).argmax())
            ends = f"from {edges.src[k]} to {edges.dst[k]}"
            raise BadInput(f"{path}: shortest paths need weights >= 0; the edge {ends} has"
                            f" {weight[k]}")  # fmt: skip


def check_sources(n: int, sources: tuple[int, ...]) -> None:
    """Reject a source that is not a vertex."""
    for source in sources:
        if not 0 <= source < n:
            vertices = f"{n:,} vertices" + (f", 0 to {n - 1}" if n else "")
            raise BadInput(f"--source: {source} is not a vertex: the graph has {vertices}")


class Input(NamedTuple):
    """A graph file that has been read."""

    devices: list[Device]
    n: int
    edges: int
    graph: Callable[[], Any]  # makes the graph, or its parts


def prepared(row: Algorithm, call: Call, options: Arguments) -> Callable[[], None]:
    """Prepare `run_and_report`."""
    with bad_input():
        if not row.in_parts and (call.mpi or "," in call.device):
            raise ValueError(f"morph {row.name} runs on one device, without --mpi")
        arguments = row.arguments(**{o.name: options[o.name] for o in row.options})
    return partial(run_and_report, row, call, options, arguments)


def run_and_report(row: Algorithm, call: Call, options: Arguments, arguments: Arguments) -> None:
    """Read a graph, run an algorithm, save and report; of several ranks, only rank 0 reports."""
    in_parts = call.mpi or "," in call.device
    given = (_read_parts if in_parts else _read)(row, call)
    check_sources(given.n, options["source"])
    with timing() as spent:
        with counting("transfer"):  # includes sorting the edges by source
            graph = given.graph()
        refused = (TypeError, LanguageError) if in_parts else ()
        with bad_input(f"{call.path}: ", *refused):
            found = row.function(graph, **arguments, **(row.complete if call.complete else {}))
    found = on_host(graph, found)
    found = found._replace(**_in_file_order(graph, found, row, given.edges))
    if in_parts and 0 not in graph.here:
        return
    save_answer(call.output, row, row.answer(found, arguments))
    times, result = times_of(spent), row.report(found)
    where = ",".join(device.name for device in given.devices)
    size = {"vertices": given.n, "edges": given.edges}
    report: dict[str, Any] = {"input": size, **size, **result}
    report |= {**source_of(options), "times": times, "device": where}
    shown = ", ".join(f"{key.replace('_', ' ')} {value:,}" for key, value in result.items())
    lines = [f"{given.n:,} vertices, {given.edges:,} edges", shown]
    print_report(report, call.as_json, [*lines, f"{where}: {format_times(times)}"])


def _read(row: Algorithm, call: Call) -> Input:
    """Read a graph for one device."""
    where = device_of(call.device)
    check_writable("-o", call.output, ANSWERS)
    edges = read_edges(call.path)
    make = partial(graph_of, call.path, edges, row, where)
    return Input([where], edges.n, len(edges.src), make)


def _read_parts(row: Algorithm, call: Call) -> Input:
    """Read a share of the edges for each part of this process."""
    names = call.device.split(",")
    given = [device_of(name) for name in names]
    with bad_input("--device: "):
        where, transport = places(given if len(given) > 1 else given[0], world(call.mpi))

    def check() -> None:
        if transport.here.start == 0:
            check_writable("-o", call.output, ANSWERS)

    def check_shares() -> None:
        for edges in shares.values():
            check_weights(call.path, edges, row)

    on_all(transport, check)
    shares = read_edges_of_parts(call.path, transport)
    on_all(transport, check_shares)
    m = sum(transport.gather({k: len(edges.src) for k, edges in shares.items()}))
    n = next(iter(shares.values())).n
    positions = "edges" in row.result.split()
    make = partial(graph_of_shares, shares, where, transport, positions=positions)
    return Input(where, n, m, make)


def source_of(options: Arguments) -> dict[str, Any]:
    """Return the sources in the format of the report."""
    sources = options["source"]
    return {"source": sources[0] if len(sources) == 1 else list(sources)} if sources else {}


def on_host(graph: Any, found: Any) -> Any:
    """Convert a result to NumPy arrays, and edge ids to positions in the file."""
    arrays = {k: v for k, v in found._asdict().items() if getattr(v, "ndim", 0)}
    arrays = {name: np.asarray(graph.device.to_host(a)) for name, a in arrays.items()}
    if "edges" in arrays:
        arrays["edges"] = np.sort(_positions(graph, arrays["edges"]))
    return found._replace(**arrays)


def _in_file_order(graph: Any, found: Any, row: Algorithm, edges: int) -> Arguments:
    """Reorder fields with a value for each edge to the order of the file."""
    names = row.of_edges.split()  # reverse edges follow the edges of an undirected file
    return {name: in_order_of_file(graph, getattr(found, name))[:edges] for name in names}


def in_order_of_file(graph: Any, by_id: Any) -> Any:
    """Return values of edges in the order of the file, values of reverse edges last."""
    values = np.empty_like(by_id)
    values[_positions(graph, np.arange(len(by_id)))] = by_id
    return values


def _positions(graph: Any, edges: Any) -> Any:
    """Return the positions of edges in the file of the graph."""
    if isinstance(graph, PartitionedGraph):
        return graph.edges.position[edges]
    order = graph.edge_order
    return edges if order is None else graph.device.to_host(order)[edges]


def save_answer(path: str | None, row: Algorithm, answer: Arguments) -> None:
    """Save under exactly this name the main array, or, as .npz, the complete result."""
    if path is None:
        return
    with replacing(path) as (file,):
        if path.endswith(".npz"):
            np.savez(file, **answer, algorithm=np.array(row.name))
        else:
            buffer = BytesIO()  # NumPy ignores a full disk when it writes to a file
            np.save(buffer, answer[row.main], allow_pickle=False)
            file.write(buffer.getbuffer())
