"""The command ``morph max-flow``."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

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
from morph.cli.graphs import in_order_of_file, on_host
from morph.graph import Graph
from morph.io import EdgeArrays, read_edges
from morph.io.text.files import replacing
from morph.launch.foreach import timing
from morph.runtime.timing import counting


@click.command(
    "max-flow",
    epilog=examples(
        "morph max-flow GRAPH.gr --source 0 --sink 9",
        "morph max-flow GRAPH.gr --source 0 --sink 9 -o FLOW.npz --json",
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
    help="Save the arrays `flow` (per edge) and `cut` (per vertex).",
)
@json_option
@device_option
def max_flow_command(
    path: str, source: int, sink: int, output: str | None, as_json: bool, spec: str
) -> None:
    """Find a maximum flow and a minimum cut between two vertices of GRAPH.

    Weights are capacities, integers of 0 or more; without weights, all capacities are 1.  The flow
    of an undirected edge is negative if it leads from its second to its first vertex.  Flows are in
    the order of the file; the cut is true for the vertices on the side of the source.
    GRAPH is a file, see `morph bfs --help`.
    """
    where = device_of(spec)
    check_writable("-o", output, [".npz"])
    edges = read_edges(path)
    with timing() as spent, bad_input(f"{path}: ", TypeError):  # real weights
        with counting("transfer"):
            graph = Graph.from_edges(
                edges.src, edges.dst, weight=edges.weight, n=edges.n, symmetric=edges.symmetric,
                symmetrize=edges.undirected, copy=False, device=where,
            )  # fmt: skip
        found = max_flow(graph, source, sink)
    found = on_host(graph, found)
    flow = _in_file(graph, edges, found.flow)
    if output is not None:
        with replacing(output) as (file,):
            np.savez(file, flow=flow, cut=found.cut)
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


def _in_file(graph: Graph, edges: EdgeArrays, flow: Any) -> Any:
    """Return the flow of each edge of the file."""
    m, flow = len(edges.src), in_order_of_file(graph, flow)
    if edges.undirected:  # the reversed edges follow
        flow[np.flatnonzero(edges.src != edges.dst)] -= flow[m:]
    return flow[:m]


def _across(edges: EdgeArrays, cut: Any) -> int:
    """Count the edges from the source side of the cut to the sink side."""
    here, there = cut[edges.src], cut[edges.dst]
    return int((here != there if edges.undirected else here & ~there).sum())
