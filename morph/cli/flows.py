"""The command ``morph max-flow``."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from morph import validate
from morph.algorithms.graph.max_flow import max_flow
from morph.cli.common import (
    bad_input,
    check_writable,
    device_of,
    device_option,
    examples,
    format_times,
    json_option,
    print_report,
    times_of,
)
from morph.cli.graphs import on_host
from morph.graph import Graph
from morph.io import EdgeArrays, read_edges
from morph.io.graph.graphs import graph_from
from morph.io.text.files import replacing
from morph.launch.foreach import timing
from morph.runtime.timing import counting


@click.command(
    "max-flow",
    epilog=examples(
        "morph max-flow GRAPH.gr --source 0 --sink 9",
        "morph max-flow GRAPH.gr --source 0 --sink 9 -o FLOW.npz --json",
        "morph check GRAPH.gr FLOW.npz",
    ),
)
@click.argument("path", type=click.Path(), metavar="GRAPH")
@click.option("--source", type=int, required=True, metavar="S", help="The source of the flow.")
@click.option("--sink", type=int, required=True, metavar="T", help="The sink of the flow.")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="OUT.npz",
    help="Save the arrays `flow` (per edge) and `cut` (per vertex), for `morph check`.",
)
@json_option
@device_option
def max_flow_command(
    path: str, source: int, sink: int, output: str | None, as_json: bool, spec: str
) -> None:
    """Find a maximum flow and a minimum cut between two vertices of GRAPH.

    Weights are capacities, 0 or more; without weights, all capacities are 1.  The flow
    of an undirected edge is negative if it leads from its second to its first vertex.  Flows are in
    the order of the file; the cut is true for the vertices on the side of the source.
    GRAPH is a file, see `morph bfs --help`.
    """
    where = device_of(spec)
    check_writable("-o", output, [".npz"])
    edges = read_edges(path)
    with timing() as spent, bad_input(f"{path}: ", TypeError):  # real weights
        with counting("transfer"):
            graph = graph_from(edges, where)
        found = max_flow(graph, source, sink)
    found = on_host(graph, found)
    flow = _in_file(graph, edges, found.flow)
    if output is not None:
        with replacing(output) as (file,):
            ends: dict[str, Any] = {"source": source, "sink": sink, "algorithm": "max-flow"}
            np.savez(file, flow=flow, cut=found.cut, value=np.array(found.value), **ends)
    across = _across(edges, found.cut)
    size = {"vertices": edges.n, "edges": len(edges.src)}
    report: dict[str, Any] = {"input": size, **size}
    report |= {"source": source, "sink": sink, "value": found.value}
    report |= {"cut_edges": across, "source_side": int(found.cut.sum())}
    report |= {"times": times_of(spent), "device": where.name}
    lines = [
        f"{edges.n:,} vertices, {len(edges.src):,} edges",
        f"value {found.value:,}, edges in the cut {across:,}",
        f"{where.name}: {format_times(times_of(spent))}",
    ]
    print_report(report, as_json, lines)


def check_flow(edges: EdgeArrays, flow: Any, source: Any, sink: Any, **claims: Any) -> None:
    """Check a saved flow, whose edges are in the order of a file.

    Raises
    ------
    WrongAnswer
    """
    graph = graph_from(edges, "cpu")
    flow = np.asarray(flow)
    if flow.shape == edges.src.shape and flow.dtype.kind in "iuf":  # else it is refused
        at, signs = _arcs(graph, edges)
        flow = np.maximum(flow[at] * signs, 0) if edges.undirected else flow[at]
    validate.max_flow(graph, flow, source, sink, **claims)


def _arcs(graph: Graph, edges: EdgeArrays) -> tuple[Any, Any]:
    """Return for each edge of the graph its position in the file, and -1 if reversed, else 1."""
    order = graph.edge_order
    if order is None:  # the reversed edges follow
        at = np.arange(len(edges.src))
        if edges.undirected:
            at = np.concatenate([at, np.flatnonzero(edges.src != edges.dst)])
    else:
        at = np.asarray(graph.device.to_host(order))
    src = np.asarray(graph.device.to_host(graph.edges.src[:]))
    return at, np.where(src == edges.src[at], 1, -1)


def _in_file(graph: Graph, edges: EdgeArrays, flow: Any) -> Any:
    """Return the flow of each edge of the file."""
    at, signs = _arcs(graph, edges)
    found = np.zeros(len(edges.src), flow.dtype)
    np.add.at(found, at, signs.astype(flow.dtype) * flow)
    return found


def _across(edges: EdgeArrays, cut: Any) -> int:
    """Count the edges from the source side of the cut to the sink side."""
    here, there = cut[edges.src], cut[edges.dst]
    return int((here != there if edges.undirected else here & ~there).sum())
