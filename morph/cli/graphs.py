"""``morph bfs``, ``components`` and the other commands that run an algorithm on a graph."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import click
import numpy as np

from morph.algorithms.graph.betweenness import betweenness
from morph.algorithms.graph.bfs import bfs
from morph.algorithms.graph.components import connected_components
from morph.algorithms.graph.cores import core_number
from morph.algorithms.graph.mst import mst
from morph.algorithms.graph.pagerank import pagerank
from morph.algorithms.graph.triangles import triangle_count
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
from morph.graph import Graph
from morph.io import EdgeArrays, read_edges
from morph.io.text.files import replacing
from morph.launch.foreach import timing
from morph.runtime.timing import counting

Answer = tuple[dict[str, Any], dict[str, Any]]
"""Arrays by name, the main one first, and what to report of them."""
Asked = dict[str, Any]
"""Arguments by name, as the function of the algorithm takes them."""


def graph_of(path: str, edges: EdgeArrays, algorithm: str, where: Any) -> Graph:
    """Make the graph that an algorithm is to run on."""
    weight = edges.weight
    if algorithm in ("sssp", "mst") and weight is not None:
        if np.isnan(weight).any():
            raise BadInput(f"{path}: a weight is not a number")
        if algorithm == "sssp" and weight.min(initial=0) < 0:
            k = int((weight < 0).argmax())
            ends = f"from {edges.src[k]} to {edges.dst[k]}"
            raise BadInput(f"{path}: shortest paths need weights >= 0; the edge {ends} has"
                            f" {weight[k]}")  # fmt: skip
    return Graph.from_edges(
        edges.src,
        edges.dst,
        weight=weight,
        n=edges.n,
        symmetric=edges.symmetric,
        symmetrize=edges.undirected,
        copy=False,
        device=where,
    )


def check_sources(edges: EdgeArrays, sources: tuple[int, ...]) -> None:
    """Refuse a source that is no vertex."""
    for source in sources:
        if not 0 <= source < edges.n:
            vertices = f"{edges.n:,} vertices" + (f", 0 to {edges.n - 1}" if edges.n else "")
            raise BadInput(f"--source: {source} is not a vertex: the graph has {vertices}")


def run_and_report(
    algorithm: str, path: str, sources: tuple[int, ...], out: str | None, spec: str,
    as_json: bool, asked: Asked, solve: Callable[[Graph], Answer],
) -> None:  # fmt: skip
    """Read a graph, solve, save and report: what the graph commands have in common."""
    where = device_of(spec)
    check_writable("-o", out)
    edges = read_edges(path)
    check_sources(edges, sources)
    with timing() as spent:
        with counting("transfer"):  # sorting the edges by source is part of it
            graph = graph_of(path, edges, algorithm, where)
        arrays, result = solve(graph)
    arrays = {name: np.asarray(graph.device.to_host(a)) for name, a in arrays.items()}
    if out is not None:
        save_answer(out, algorithm, asked, arrays)
    times = times_of(spent)
    report: dict[str, Any] = {"vertices": edges.n, "edges": len(edges.src), **result}
    if sources:
        report["source"] = sources[0] if len(sources) == 1 else list(sources)
    report |= {"times": times, "device": where.name}
    shown = ", ".join(f"{key.replace('_', ' ')} {value:,}" for key, value in result.items())
    lines = [f"{edges.n:,} vertices, {len(edges.src):,} edges", shown]
    print_report(report, as_json, [*lines, f"{where.name}: {in_words(times)}"])


def save_answer(
    path: str, algorithm: str, asked: Asked, arrays: dict[str, np.ndarray[Any, Any]]
) -> None:
    """Save under exactly the name given: the main array, or in an .npz all, and what was asked."""
    with replacing(path) as (file,):
        if path.endswith(".npz"):
            kept: Asked = {name: value for name, value in asked.items() if value is not None}
            np.savez(file, **(kept | arrays), algorithm=np.array(algorithm))
        else:
            held = BytesIO()  # NumPy does not tell if what it writes itself finds the disk full
            np.save(held, next(iter(arrays.values())), allow_pickle=False)
            file.write(held.getbuffer())


def graph_command(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument and the options that all graph commands have."""
    command = json_option(device_option(command))
    command = click.option(
        "-o",
        "--output",
        metavar="OUT.npy",
        help="Save the result as a NumPy array; as .npz, all of it, for `morph check`.",
    )(command)
    return click.argument("graph_in", metavar="GRAPH")(command)


source_option = click.option(
    "--source",
    type=int,
    multiple=True,
    default=(0,),
    show_default="0",
    metavar="S",
    help="The vertex to start at; of several, distances are to the nearest.",
)
_no_source_option = click.option(
    "--source", type=int, multiple=True, metavar="S",
    help="A vertex; it makes no difference to the result.",
)  # fmt: skip


def count_reached(values: Any, far: Any) -> dict[str, Any]:
    """Count the vertices reached, and find the farthest."""
    near = values[values != far]
    return {"reached": len(near), "farthest": near.max().item() if len(near) else 0}


@click.command("bfs")
@source_option
@click.option("--cutoff", type=click.IntRange(0), help="Go no farther than this.")
@graph_command
def bfs_command(
    graph_in: str, source: tuple[int, ...], cutoff: int | None, output: str | None, spec: str,
    as_json: bool,
) -> None:  # fmt: skip
    """Count the edges from the source to every vertex of GRAPH; -1 where no path leads."""
    asked: Asked = {"source": list(source), "cutoff": cutoff}

    def solve(graph: Graph) -> Answer:
        found = bfs(graph, **asked)
        arrays = {"distance": found.distance, "predecessor": found.predecessor}
        return arrays, count_reached(found.distance, -1)

    run_and_report("bfs", graph_in, source, output, spec, as_json, asked, solve)


@click.command()
@_no_source_option
@graph_command
def components(graph_in: str, source: tuple[int, ...], output: str | None, spec: str,
               as_json: bool) -> None:  # fmt: skip
    """Find which vertices of GRAPH hang together, edges counting both ways.

    The result is the smallest vertex of each one's component.
    """

    def solve(graph: Graph) -> Answer:
        found = connected_components(graph)
        sizes = np.bincount(graph.device.to_host(found.label), minlength=1)
        report = {"components": found.components, "largest": int(sizes.max())}
        return {"label": found.label}, report

    run_and_report("components", graph_in, source, output, spec, as_json, {}, solve)


@click.command()
@_no_source_option
@graph_command
def core(graph_in: str, source: tuple[int, ...], output: str | None, spec: str,
         as_json: bool) -> None:  # fmt: skip
    """Find the core number of every vertex of GRAPH, edges counting both ways, each line one."""

    def solve(graph: Graph) -> Answer:
        found = core_number(graph)
        inside = int((found.core == found.largest).sum())
        return {"core": found.core}, {"largest": found.largest, "vertices_in_it": inside}

    run_and_report("core", graph_in, source, output, spec, as_json, {}, solve)


@click.command()
@_no_source_option
@graph_command
def triangles(graph_in: str, source: tuple[int, ...], output: str | None, spec: str,
              as_json: bool) -> None:  # fmt: skip
    """Count the triangles at every vertex of GRAPH, edges counting both ways and once."""

    def solve(graph: Graph) -> Answer:
        found = triangle_count(graph)
        return {"triangles": found.triangles, "total": found.total}, {"total": found.total}

    run_and_report("triangles", graph_in, source, output, spec, as_json, {}, solve)


@click.command("mst")
@_no_source_option
@graph_command
def mst_command(
    graph_in: str, source: tuple[int, ...], output: str | None, spec: str,
    as_json: bool,
) -> None:  # fmt: skip
    """Find a minimum spanning forest of GRAPH, whose edges count both ways.

    The result is the positions of its edges in the file, counting from 0.
    """

    def solve(graph: Graph) -> Answer:
        found = mst(graph)
        edges = np.asarray(graph.device.to_host(found.edges))
        if graph.edge_order is not None:
            edges = graph.device.to_host(graph.edge_order)[edges]
        report = {"weight": np.asarray(found.weight).item(), "components": int(found.components)}
        return {"edges": np.sort(edges)}, report

    run_and_report("mst", graph_in, source, output, spec, as_json, {}, solve)


def _top(values: Any, what: str) -> dict[str, Any]:
    return {"top": int(values.argmax()), what: values.max().item()} if len(values) else {}


@click.command("pagerank")
@_no_source_option
@click.option("--damping", type=click.FloatRange(0, 1), default=0.85, show_default=True,
              help="Probability of following a link.")  # fmt: skip
@click.option(
    "--weighted",
    is_flag=True,
    help="Follow links in proportion to their weights, 1 if there are none.",
)
@graph_command
def pagerank_command(
    graph_in: str, source: tuple[int, ...], damping: float, weighted: bool,
    output: str | None, spec: str, as_json: bool,
) -> None:  # fmt: skip
    """Rank the vertices of GRAPH by the links into them; ranks sum to 1."""
    asked: Asked = {"damping": damping, "weighted": weighted}

    def solve(graph: Graph) -> Answer:
        try:
            rank = pagerank(graph, **asked).rank
        except ValueError as error:
            raise BadInput(f"{graph_in}: {error}") from error
        return {"rank": rank}, _top(rank, "top_rank")

    run_and_report("pagerank", graph_in, source, output, spec, as_json, asked, solve)


@click.command("betweenness")
@click.option("--source", type=int, multiple=True, metavar="S",
              help="Only paths from these vertices, scaled to all.")  # fmt: skip
@click.option("--sample", type=click.IntRange(1), metavar="K",
              help="Only paths from so many vertices, drawn at random, scaled to all.")  # fmt: skip
@click.option("--raw", is_flag=True, help="Count paths, instead of dividing by all pairs.")
@graph_command
def betweenness_command(
    graph_in: str, source: tuple[int, ...], sample: int | None, raw: bool,
    output: str | None, spec: str, as_json: bool,
) -> None:  # fmt: skip
    """Find the share of shortest paths that pass through each vertex of GRAPH."""
    if source and sample is not None:
        raise BadInput("--source and --sample exclude each other")
    asked: Asked = {"normalized": not raw}

    def solve(graph: Graph) -> Answer:
        try:
            found = betweenness(graph, list(source) or sample, **asked)
        except ValueError as error:
            raise BadInput(f"{graph_in}: {error}") from error
        values = graph.device.to_host(found.centrality)
        report = _top(np.nan_to_num(values), "top_betweenness")
        return {"centrality": values, "sources": found.sources}, report

    run_and_report("betweenness", graph_in, source, output, spec, as_json, asked, solve)
