"""The command ``morph community``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import index
from typing import Any

import click
import numpy as np

from morph import validate
from morph.algorithms.community.community import Community, community
from morph.cli.common import (
    BadInput,
    Line,
    bad_input,
    check_writable,
    complete_report,
    device_of,
    device_option,
    examples,
    format_times,
    json_option,
    print_report,
    progress_on,
    times_of,
)
from morph.cli.numbers import Integer, Number
from morph.graph import Graph
from morph.io import read_edges
from morph.io.graph.graphs import graph_from
from morph.io.text.files import replacing
from morph.launch.foreach import timing


class Progress(Line):
    """Progress of the queries."""

    def show(self, decided: int, queries: int, nodes: int) -> None:
        """Show the state of the search."""
        self.write_throttled(f"{decided:,} of {queries:,} queries decided, {nodes:,} nodes")


@click.command(
    "community",
    epilog=examples(
        "morph community GRAPH.el.gz --query 7 --size 5 20",
        "morph community GRAPH.el.gz --query 7 --query 12 --size 5 20 --time 10 -o OUT.json",
        "morph check GRAPH.el.gz OUT.json",
    ),
)
@click.argument("path", type=click.Path(), metavar="GRAPH")
@click.option("--query", "queries", type=int, multiple=True, required=True, metavar="Q",
              help="A vertex of the subgraph; repeatable, with a subgraph for each.")  # fmt: skip
@click.option("--size", type=int, nargs=2, required=True, metavar="L H",
              help="Smallest and largest number of vertices.")  # fmt: skip
@click.option(
    "--all", "every", is_flag=True, help="Find all subgraphs whose minimum degree is the largest."
)
@click.option("--top", type=Integer(1), metavar="K",
              help="Find K best subgraphs by minimum degree, any of the lowest.")  # fmt: skip
@click.option("--time", "seconds", type=Number(0), metavar="SECONDS",
              help="Time limit, after which results may be unproved or incomplete.")  # fmt: skip
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="OUT.json",
    help="Save the report of --json, for `morph check`.",
)
@json_option
@device_option
def community_command(
    path: str, output: str | None, as_json: bool, spec: str, **options: Any
) -> None:  # fmt: skip
    """Find a connected subgraph around a vertex, of bounded size and large minimum degree.

    GRAPH is a file, see `morph bfs --help`.  Its edge directions, parallel edges, loops and weights
    are ignored.
    """
    where, queries, size = device_of(spec), options["queries"], options["size"]
    check_writable("-o", output, [".json"])
    edges = read_edges(path)
    for query in queries:
        if not 0 <= query < edges.n:
            raise BadInput(f"--query: {query} is not a vertex: the graph has {edges.n:,}")
    with timing() as spent, progress_on(Progress) as line, bad_input():
        graph = graph_from(edges, where, weighted=False)
        show = None if line is None else line.show
        found = community(
            graph, list(queries), size, time=options["seconds"], all=options["every"],
            top=options["top"], progress=show,
        )  # fmt: skip
    results = [_record(q, x) for q, x in zip(queries, found, strict=True)]
    read = {"vertices": edges.n, "edges": len(edges.src)}
    report = {"input": read, **read, "size": size, "communities": results}
    report |= {"times": times_of(spent), "device": where.name}
    if output is not None:
        with replacing(output) as (file,):
            file.write(json.dumps(complete_report(report), allow_nan=False).encode() + b"\n")
    lines = [f"{edges.n:,} vertices, {len(edges.src):,} edges"]
    lines += [line for x in results for line in _lines(x)]
    lines += [f"{where.name}: {format_times(times_of(spent))}"]
    print_report(report, as_json, lines)


def read_communities(path: str) -> list[dict[str, Any]] | None:
    """Read the results that the command saved, with the requested ``size``; None: another file."""
    try:
        with open(path, "rb") as file:
            saved = json.load(file)
        if saved["command"] != "community":
            return None
        size = tuple(index(x) for x in saved["size"])
        return [{**x, "query": index(x["query"]), "size": size} for x in saved["communities"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def check_community(graph: Graph, saved: dict[str, Any]) -> None:
    """Check the saved result of a query.

    Raises
    ------
    WrongAnswer
    """
    found = None
    if saved["min_degree"] is not None:
        fields = {name: saved[name] for name in Community._fields}
        fields["vertices"] = _vertices(fields["vertices"])
        if fields["all"] is not None:
            fields["all"] = [_vertices(x) for x in fields["all"]]
        if fields["top"] is not None:
            fields["top"] = [(x["min_degree"], _vertices(x["vertices"])) for x in fields["top"]]
        found = Community(**fields)
    validate.community(graph, found, saved["query"], saved["size"])


def _vertices(saved: Any) -> np.ndarray[Any, Any]:
    """Convert saved vertices; numbers with a fraction raise a TypeError, and are not truncated."""
    return np.array([index(x) for x in saved], np.int64)


def _record(query: int, found: Community | None) -> dict[str, Any]:
    if found is None:
        return {"query": query, "min_degree": None}
    record = {"query": query, **found._asdict(), "vertices": found.vertices.tolist()}
    record["all"] = None if found.all is None else [x.tolist() for x in found.all]
    record["top"] = None
    if found.top is not None:
        record["top"] = [{"min_degree": k, "vertices": x.tolist()} for k, x in found.top]
    return record


def _lines(found: dict[str, Any]) -> Iterator[str]:
    query = f"query {found['query']}: "
    if found["min_degree"] is None:
        yield query + "the component has too few vertices"
        return
    limit = "not all" if found["bound"] == found["min_degree"] else f"at most {found['bound']}"
    proof = "" if found["proved"] else f" ({limit})"
    count = "" if found["all"] is None else f", one of {len(found['all']):,}"
    for i, one in enumerate(found["top"] or [found]):
        shown = " ".join(map(str, one["vertices"]))
        known = proof + count if i == 0 else ""
        yield f"{query}minimum degree {one['min_degree']}{known}: {shown}"
