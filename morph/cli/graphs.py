"""``morph bfs``, ``sssp``, ``components`` and the other commands that look at a graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import closing
from io import BytesIO
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
    from morph.io import EdgeArrays


Answer = tuple[dict[str, Any], dict[str, Any]]
"""Arrays by name, the main one first, and what to report of them."""
Asked = dict[str, Any]
"""Arguments by name, as the function of the algorithm takes them."""


def graph_of(path: str, edges: EdgeArrays, algorithm: str, where: Any) -> Graph:
    """Make the graph that an algorithm is to run on."""
    from morph.graph import Graph  # noqa: PLC0415

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


def _run(algorithm: str, path: str, sources: tuple[int, ...], out: str | None, spec: str,
         as_json: bool, asked: Asked, solve: Callable[[Graph], Answer]) -> None:  # fmt: skip
    """Read a graph, solve, save and report: what the graph commands have in common."""
    from morph.io import read_edges  # noqa: PLC0415
    from morph.launch.foreach import timing  # noqa: PLC0415
    from morph.runtime.timing import counting  # noqa: PLC0415

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
        _save(out, algorithm, asked, arrays)
    times = times_of(spent)
    report: dict[str, Any] = {"vertices": edges.n, "edges": len(edges.src), **result}
    if sources:
        report["source"] = sources[0] if len(sources) == 1 else list(sources)
    report |= {"times": times, "device": where.name}
    shown = ", ".join(f"{key.replace('_', ' ')} {value:,}" for key, value in result.items())
    lines = [f"{edges.n:,} vertices, {len(edges.src):,} edges", shown]
    print_report(report, as_json, [*lines, f"{where.name}: {in_words(times)}"])


def _save(path: str, algorithm: str, asked: Asked, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """Save under exactly the name given: the main array, or in an .npz all, and what was asked."""
    from morph.io.text.files import replacing  # noqa: PLC0415

    with replacing(path) as (file,):
        if path.endswith(".npz"):
            kept: Asked = {name: value for name, value in asked.items() if value is not None}
            np.savez(file, **(kept | arrays), algorithm=np.array(algorithm))
        else:
            held = BytesIO()  # NumPy does not tell if what it writes itself finds the disk full
            np.save(held, next(iter(arrays.values())), allow_pickle=False)
            file.write(held.getbuffer())


def _graph_command(command: Callable[..., Any]) -> Callable[..., Any]:
    command = json_option(device_option(command))
    command = click.option(
        "-o",
        "--output",
        metavar="OUT.npy",
        help="Save the result as a NumPy array; as .npz, all of it, for `morph check`.",
    )(command)
    return click.argument("graph_in", metavar="GRAPH")(command)


_source_option = click.option(
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


def _reached(values: Any, far: Any) -> dict[str, Any]:
    """Count the vertices reached, and find the farthest."""
    near = values[values != far]
    return {"reached": len(near), "farthest": near.max().item() if len(near) else 0}


@click.command()
@_source_option
@click.option("--cutoff", type=click.IntRange(0), help="Go no farther than this.")
@_graph_command
def bfs(graph_in: str, source: tuple[int, ...], cutoff: int | None, output: str | None, spec: str,
        as_json: bool) -> None:  # fmt: skip
    """Count the edges from the source to every vertex of GRAPH; -1 where no path leads."""
    asked: Asked = {"source": list(source), "cutoff": cutoff}

    def solve(graph: Graph) -> Answer:
        from morph.algorithms.graph.bfs import bfs as run  # noqa: PLC0415

        found = run(graph, **asked)
        arrays = {"distance": found.distance, "predecessor": found.predecessor}
        return arrays, _reached(found.distance, -1)

    _run("bfs", graph_in, source, output, spec, as_json, asked, solve)


@click.command()
@_source_option
@click.option("--cutoff", type=click.FloatRange(0), help="Go no farther than this.")
@click.option(
    "--updates", metavar="FILE",
    help="Then apply batches of '+ u v w', '- u v [id]', '= u v w [id]' lines, parted by blank"
    " lines, and keep the distances exact; '-' reads them as they come.",
)  # fmt: skip
@click.option("--batch", type=click.IntRange(1), metavar="N", help="End a batch after N lines.")
@click.option("--verify", is_flag=True, help="Compute everything anew after each batch; compare.")
@click.option(
    "--log", metavar="PATH",
    help="Keep the graph in PATH, and each batch, before it is told of, in PATH.log.",
)  # fmt: skip
@click.option(
    "--resume", is_flag=True,
    help="Go on with --log, if it is there: the batches that it has are passed over in FILE; '-' is"
    " to send those that come next.",
)  # fmt: skip
@_graph_command
def sssp(graph_in: str, source: tuple[int, ...], cutoff: float | None, updates: str | None,
         batch: int | None, verify: bool, log: str | None, resume: bool, output: str | None,
         spec: str, as_json: bool) -> None:  # fmt: skip
    """Find the shortest paths from the source to every vertex of GRAPH.

    Edges without weights have length 1.  Where no path leads, the distance is the largest 64-bit
    integer, or infinity if weights are not integers.
    """
    asked: Asked = {"source": list(source), "cutoff": cutoff}
    whole = output is not None and output.endswith(".npz")
    if updates is None and (batch is not None or verify or log is not None):
        raise BadInput("--batch, --verify and --log belong to --updates")
    if resume and log is None:
        raise BadInput("--resume belongs to --log")
    if updates is not None:
        if cutoff is not None:
            raise BadInput("--cutoff and --updates exclude each other")
        _follow(graph_in, source, updates, batch, verify, (log, resume), output, spec, as_json)
        return

    def solve(graph: Graph) -> Answer:
        from morph.algorithms.graph.sssp import sssp as run  # noqa: PLC0415

        try:
            found = run(graph, **asked, predecessors=whole)
        except OverflowError as error:
            raise BadInput(f"{graph_in}: {error}") from error
        distance = found.distance
        far = np.inf if distance.dtype.kind == "f" else np.iinfo(distance.dtype).max
        arrays = {"distance": distance} | ({"predecessor": found.predecessor} if whole else {})
        return arrays, _reached(distance, far)

    _run("sssp", graph_in, source, output, spec, as_json, asked, solve)


def _follow(path: str, sources: tuple[int, ...], updates: str, size: int | None, verify: bool,
            kept: tuple[str | None, bool], out: str | None, spec: str,
            as_json: bool) -> None:  # fmt: skip
    """Shortest paths of a graph that changes: read, follow, save, report."""
    from morph.algorithms.dynamic.dynamic import DynamicSSSP  # noqa: PLC0415
    from morph.cli.updates import Log, follow, lines_of, origin_of  # noqa: PLC0415
    from morph.io import read_edges  # noqa: PLC0415

    where = device_of(spec)
    check_writable("-o", out)
    log = Log(*kept, path, updates, out)
    with closing(log), lines_of(updates) as stream:
        edges = read_edges(path)
        check_sources(edges, sources)
        origin = {} if kept[0] is None else origin_of(edges, sources)
        if edges.weight is None:  # updates may set weights
            edges = dataclasses.replace(edges, weight=np.ones(len(edges.src), np.int32))
        log.read(lambda: graph_of(path, edges, "sssp", where), where, origin)
        graph = log.graph
        try:
            dynamic = DynamicSSSP(graph, list(sources))
        except (ValueError, OverflowError) as error:
            raise BadInput(f"{path}: {error}") from error
        log.begin()
        batches = follow(dynamic, len(edges.src), stream, updates, size, verify, as_json, log)
    distance = np.asarray(graph.device.to_host(dynamic.distance))
    arrays = {"distance": distance}
    if out is not None:
        if out.endswith(".npz"):
            arrays["predecessor"] = np.asarray(graph.device.to_host(dynamic.predecessor))
        _save(out, "sssp", {"source": list(sources)}, arrays)
    far = np.inf if distance.dtype.kind == "f" else np.iinfo(distance.dtype).max
    result = _reached(distance, far)
    times = {"graph_and_repair": round(sum(b["seconds"] for b in batches), 6)}
    report: dict[str, Any] = {"vertices": edges.n, "edges": graph.edges.live, **result}
    report["source"] = sources[0] if len(sources) == 1 else list(sources)
    if kept[0] is not None:
        report["resumed_after"] = log.number
    report |= {"batches": batches, "verified": verify, "times": times, "device": where.name}
    shown = ", ".join(f"{key} {value:,}" for key, value in result.items())
    counts = ", ".join(
        f"{sum(b[what] for b in batches):,} {what}" for what in ("inserted", "deleted", "changed")
    )
    again = sum(b["decision"] == "recomputed" for b in batches)
    lines = [
        f"{edges.n:,} vertices, {graph.edges.live:,} arcs", shown,
        f"{len(batches):,} batches ({again:,} recomputed): {counts}",
        f"{where.name}: {times['graph_and_repair']:.3f} s",
    ]  # fmt: skip
    print_report(report, as_json, lines)


@click.command()
@_no_source_option
@_graph_command
def components(graph_in: str, source: tuple[int, ...], output: str | None, spec: str,
               as_json: bool) -> None:  # fmt: skip
    """Find which vertices of GRAPH hang together, edges counting both ways.

    The result is the smallest vertex of each one's component.
    """

    def solve(graph: Graph) -> Answer:
        from morph.algorithms.graph.components import connected_components  # noqa: PLC0415

        found = connected_components(graph)
        sizes = np.bincount(graph.device.to_host(found.label), minlength=1)
        report = {"components": found.components, "largest": int(sizes.max())}
        return {"label": found.label}, report

    _run("components", graph_in, source, output, spec, as_json, {}, solve)


@click.command()
@_no_source_option
@_graph_command
def core(graph_in: str, source: tuple[int, ...], output: str | None, spec: str,
         as_json: bool) -> None:  # fmt: skip
    """Find the core number of every vertex of GRAPH, edges counting both ways, each line one."""

    def solve(graph: Graph) -> Answer:
        from morph.algorithms.graph.cores import core_number  # noqa: PLC0415

        found = core_number(graph)
        inside = int((found.core == found.largest).sum())
        return {"core": found.core}, {"largest": found.largest, "vertices_in_it": inside}

    _run("core", graph_in, source, output, spec, as_json, {}, solve)


@click.command()
@_no_source_option
@_graph_command
def triangles(graph_in: str, source: tuple[int, ...], output: str | None, spec: str,
              as_json: bool) -> None:  # fmt: skip
    """Count the triangles at every vertex of GRAPH, edges counting both ways and once."""

    def solve(graph: Graph) -> Answer:
        from morph.algorithms.graph.triangles import triangle_count  # noqa: PLC0415

        found = triangle_count(graph)
        return {"triangles": found.triangles, "total": found.total}, {"total": found.total}

    _run("triangles", graph_in, source, output, spec, as_json, {}, solve)


@click.command()
@_no_source_option
@_graph_command
def mst(graph_in: str, source: tuple[int, ...], output: str | None, spec: str,
        as_json: bool) -> None:  # fmt: skip
    """Find a minimum spanning forest of GRAPH, whose edges count both ways.

    The result is the positions of its edges in the file, counting from 0.
    """

    def solve(graph: Graph) -> Answer:
        from morph.algorithms.graph.mst import mst as run  # noqa: PLC0415

        found = run(graph)
        edges = np.asarray(graph.device.to_host(found.edges))
        if graph.edge_order is not None:
            edges = graph.device.to_host(graph.edge_order)[edges]
        report = {"weight": np.asarray(found.weight).item(), "components": int(found.components)}
        return {"edges": np.sort(edges)}, report

    _run("mst", graph_in, source, output, spec, as_json, {}, solve)


def _top(values: Any, what: str) -> dict[str, Any]:
    return {"top": int(values.argmax()), what: values.max().item()} if len(values) else {}


@click.command()
@_no_source_option
@click.option("--damping", type=click.FloatRange(0, 1), default=0.85, show_default=True,
              help="Probability of following a link.")  # fmt: skip
@click.option(
    "--weighted",
    is_flag=True,
    help="Follow links in proportion to their weights, 1 if there are none.",
)
@_graph_command
def pagerank(graph_in: str, source: tuple[int, ...], damping: float, weighted: bool,
             output: str | None, spec: str, as_json: bool) -> None:  # fmt: skip
    """Rank the vertices of GRAPH by the links into them; ranks sum to 1."""
    asked: Asked = {"damping": damping, "weighted": weighted}

    def solve(graph: Graph) -> Answer:
        from morph.algorithms.graph.pagerank import pagerank as run  # noqa: PLC0415

        try:
            rank = run(graph, **asked).rank
        except ValueError as error:
            raise BadInput(f"{graph_in}: {error}") from error
        return {"rank": rank}, _top(rank, "top_rank")

    _run("pagerank", graph_in, source, output, spec, as_json, asked, solve)


@click.command()
@click.option("--source", type=int, multiple=True, metavar="S",
              help="Only paths from these vertices, scaled to all.")  # fmt: skip
@click.option("--sample", type=click.IntRange(1), metavar="K",
              help="Only paths from so many vertices, drawn at random, scaled to all.")  # fmt: skip
@click.option("--raw", is_flag=True, help="Count paths, instead of dividing by all pairs.")
@_graph_command
def betweenness(graph_in: str, source: tuple[int, ...], sample: int | None, raw: bool,
                output: str | None, spec: str, as_json: bool) -> None:  # fmt: skip
    """Find the share of shortest paths that pass through each vertex of GRAPH."""
    if source and sample is not None:
        raise BadInput("--source and --sample exclude each other")
    asked: Asked = {"normalized": not raw}

    def solve(graph: Graph) -> Answer:
        from morph.algorithms.graph.betweenness import betweenness as run  # noqa: PLC0415

        try:
            found = run(graph, list(source) or sample, **asked)
        except ValueError as error:
            raise BadInput(f"{graph_in}: {error}") from error
        values = graph.device.to_host(found.centrality)
        report = _top(np.nan_to_num(values), "top_betweenness")
        return {"centrality": values, "sources": found.sources}, report

    _run("betweenness", graph_in, source, output, spec, as_json, asked, solve)
