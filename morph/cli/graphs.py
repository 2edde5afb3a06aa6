"""``morph bfs``, ``sssp``, ``mst`` and ``pagerank``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from morph.cli.common import (
    BadInput,
    check_writable,
    device_of,
    device_option,
    in_words,
    json_option,
    print_report,
    times_of,
)

if TYPE_CHECKING:
    from morph.graph import Graph


Answer = tuple[Any, dict[str, Any]]
"""One value per vertex (or the edges), and what to report of it."""


def _search(name: str, path: str, source: int | None, out: str | None, spec: str, as_json: bool,
            solve: Callable[[Graph], Answer]) -> None:  # fmt: skip
    """Read a graph, solve, save and report: what the graph commands have in common."""
    from morph.graph import Graph  # noqa: PLC0415
    from morph.io import read_edges  # noqa: PLC0415
    from morph.kernel import timing  # noqa: PLC0415
    from morph.timing import counting  # noqa: PLC0415

    where = device_of(spec)
    check_writable("-o", out)
    edges = read_edges(path)
    if source is not None and not 0 <= source < edges.n:
        vertices = f"{edges.n:,} vertices" + (f", 0 to {edges.n - 1}" if edges.n else "")
        raise BadInput(f"--source: {source} is not a vertex: the graph has {vertices}")
    weight = edges.weight
    if name in ("sssp", "mst"):
        weight = np.ones(len(edges.src), np.int32) if weight is None else weight
        if np.isnan(weight).any():
            raise BadInput(f"{path}: a weight is not a number")
        if name == "sssp" and weight.min(initial=0) < 0:
            k = int((weight < 0).argmax())
            ends = f"from {edges.src[k]} to {edges.dst[k]}"
            raise BadInput(f"{path}: shortest paths need weights >= 0; the edge {ends} has"
                            f" {weight[k]}")  # fmt: skip
    with timing() as spent:
        with counting("transfer"):  # sorting the edges by source is part of it
            graph = Graph.from_edges(
                edges.src,
                edges.dst,
                weight=weight,
                n=edges.n,
                symmetric=edges.symmetric,
                symmetrize=edges.undirected,
                copy=False,
                device=where,
            )
        values, result = solve(graph)
    values = np.asarray(graph.device.to_host(values))
    if out is not None:
        _save(out, values)
    times = times_of(spent)
    report: dict[str, Any] = {"vertices": edges.n, "edges": len(edges.src), **result}
    if source is not None:
        report["source"] = source
    report |= {"times": times, "device": where.name}
    shown = ", ".join(f"{key} {value:,}" for key, value in result.items())
    lines = [f"{edges.n:,} vertices, {len(edges.src):,} edges", shown]
    print_report(report, as_json, [*lines, f"{where.name}: {in_words(times)}"])


def _save(path: str, values: np.ndarray[Any, Any]) -> None:
    """Save one array under exactly the name given."""
    from morph.io.files import replacing  # noqa: PLC0415

    with replacing(path) as (file,):
        np.save(file, values, allow_pickle=False)


def _graph_command(command: Callable[..., Any]) -> Callable[..., Any]:
    command = json_option(device_option(command))
    command = click.option(
        "-o", "--output", metavar="OUT.npy", help="Save the result as a NumPy array."
    )(command)
    return click.argument("graph_in", metavar="GRAPH")(command)


_source_option = click.option(
    "--source", type=int, default=0, show_default=True, metavar="S", help="The vertex to start at."
)
_no_source_option = click.option(
    "--source", type=int, metavar="S", help="A vertex; it makes no difference to the result."
)


def _reached(values: Any, far: Any) -> dict[str, Any]:
    """Count the vertices reached, and find the farthest."""
    near = values[values != far]
    return {"reached": len(near), "farthest": near.max().item() if len(near) else 0}


@click.command()
@_source_option
@_graph_command
def bfs(graph_in: str, source: int, output: str | None, spec: str, as_json: bool) -> None:
    """Count the edges from the source to every vertex of GRAPH; -1 where no path leads."""

    def solve(graph: Graph) -> Answer:
        from morph.algorithms.bfs import bfs as run  # noqa: PLC0415

        distance = run(graph, source).distance
        return distance, _reached(distance, -1)

    _search("bfs", graph_in, source, output, spec, as_json, solve)


@click.command()
@_source_option
@_graph_command
def sssp(graph_in: str, source: int, output: str | None, spec: str, as_json: bool) -> None:
    """Find the shortest paths from the source to every vertex of GRAPH.

    Edges without weights have length 1.  Where no path leads, the distance is the largest 64-bit
    integer, or infinity if weights are not integers.
    """

    def solve(graph: Graph) -> Answer:
        from morph.algorithms.sssp import sssp as run  # noqa: PLC0415

        distance = run(graph, source).distance
        far = np.inf if distance.dtype.kind == "f" else np.iinfo(distance.dtype).max
        return distance, _reached(distance, far)

    _search("sssp", graph_in, source, output, spec, as_json, solve)


@click.command()
@_no_source_option
@_graph_command
def mst(graph_in: str, source: int | None, output: str | None, spec: str, as_json: bool) -> None:
    """Find a minimum spanning forest of GRAPH, whose edges count both ways.

    The result is the positions of its edges in the file, counting from 0.
    """

    def solve(graph: Graph) -> Answer:
        from morph.algorithms.mst import mst as run  # noqa: PLC0415

        found = run(graph)
        edges = np.asarray(graph.device.to_host(found.edges))
        if graph.edge_order is not None:
            edges = graph.device.to_host(graph.edge_order)[edges]
        report = {"weight": np.asarray(found.weight).item(), "components": int(found.components)}
        return np.sort(edges), report

    _search("mst", graph_in, source, output, spec, as_json, solve)


@click.command()
@_no_source_option
@_graph_command
def pagerank(
    graph_in: str, source: int | None, output: str | None, spec: str, as_json: bool
) -> None:
    """Rank the vertices of GRAPH by the links into them; ranks sum to 1."""

    def solve(graph: Graph) -> Answer:
        from morph.algorithms.pagerank import pagerank as run  # noqa: PLC0415

        rank = run(graph).rank
        top = {"top": int(rank.argmax()), "top_rank": rank.max().item()} if len(rank) else {}
        return rank, top

    _search("pagerank", graph_in, source, output, spec, as_json, solve)
