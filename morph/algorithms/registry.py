"""The registry of graph algorithms: one row each.

The command line, its JSON schema, ``morph check``, the benchmarks, the tests of all algorithms and
the tables of README.md and docs/commands.md read it; the package ``morph`` exports the functions.
The function of a row and its checker in `morph.validate` have one name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.algorithms.registration import (
    SOURCE,
    Algorithm,
    Arguments,
    Benchmark,
    Field,
    Option,
    Report,
    count,
)


def _from_source(source: tuple[int, ...], **options: Any) -> Arguments:
    return {"source": list(source), **options}


def _from_sources(source: tuple[int, ...]) -> Arguments:
    return {"sources": list(source) or None}


def _sampled(source: tuple[int, ...], sample: int | None, raw: bool, weighted: bool) -> Arguments:
    if source and sample is not None:
        raise ValueError("--source and --sample exclude each other")
    return {
        "sources": list(source) or sample, "normalized": not raw, "weighted": weighted,
    }  # fmt: skip


def _densest(approximate: bool) -> Arguments:
    return {"exact": not approximate}


def distances(distance: Any) -> dict[str, Any]:
    """Count the vertices reached, and find the farthest."""
    unreached = np.inf if distance.dtype.kind == "f" else np.iinfo(distance.dtype).max
    near = distance[(distance != unreached) & (distance >= 0)]
    return {"reached": len(near), "farthest": near.max().item() if len(near) else 0}


def _largest(values: Any, name: str) -> dict[str, Any]:
    if not len(values):
        return {}
    values = np.nan_to_num(values)
    return {"top": int(values.argmax()), name: values.max().item()}


ROWS_OPTION = Option("rows", "Find the distances from each source: a row for each.", default=False)
SAMPLING = (
    Option("source", "Count paths from these vertices only, scaled to all; by default from all.",
           int, default=(),
           metavar="S", repeated=True),
    Option("sample", "Count paths from so many random vertices only, scaled to all.",
           int, least=1, metavar="K"),
    Option("raw", "Count paths, instead of dividing by the number of pairs of vertices.",
           default=False),
    Option("weighted", "The length of an edge is its weight, above 0; 1 if there are none.",
           default=False),
)  # fmt: skip
RESOLUTION = Option(
    "resolution", "With larger values communities are smaller.", float, least=0, default=1.0,
    metavar="R",
)  # fmt: skip
SEED = Option(
    "seed", "Seed of random priorities or decisions; the same seed gives the same result.", int,
    least=0, default=0, metavar="N",
)  # fmt: skip

DISTANCES = Report(
    {
        "reached": count("Vertices that can be reached from a source."),
        "farthest": Field("Largest distance of a reached vertex.", "number"),
    },
    lambda found: distances(found.distance), entry="distances",
)  # fmt: skip
COMPONENTS = Report(
    {
        "components": count("Number of components."),
        "largest": count("Vertices of the largest component."),
    },
    lambda found: {
        "components": found.components,
        "largest": int(np.bincount(found.label, minlength=1).max()),
    },
    entry="components",
)
COMMUNITIES = Report(
    {"communities": count("Number of communities."), "modularity": Field(type="number")},
    lambda found: {"communities": found.number, "modularity": found.modularity},
    entry="communities",
)

ROWS = (
    Algorithm(
        "bfs", "graph.bfs:bfs",
        "Count the edges from the source to every vertex of GRAPH; -1 where no path leads.",
        result="distance predecessor", conditions="source cutoff rows",
        report=DISTANCES,
        options=(
            SOURCE,
            Option("cutoff", "Go no farther than so many edges; by default there is no limit.",
                   int, least=0, metavar="EDGES"),
            ROWS_OPTION,
        ),
        arguments=_from_source,
        examples=({}, {"source": (0, 6), "cutoff": 2}, {"source": (3, 0, 3), "rows": True}),
        benchmarks=(Benchmark(4, 8 + 4, steps="levels"),),
    ),
    Algorithm(
        "sssp", "graph.sssp:sssp",
        "Find the shortest paths from the source to every vertex of GRAPH.\n\n"
        "Edges without weights have length 1.  Where no path leads, the distance is the largest"
        " 64-bit integer, or infinity if weights are not integers.",
        result="distance predecessor", conditions="source cutoff rows",
        report=DISTANCES,
        options=(
            SOURCE,
            Option("cutoff", "Go no farther than this, in units of the weights; by default there"
                   " is no limit.", float, least=0, metavar="LENGTH"),
            ROWS_OPTION,
        ),
        arguments=_from_source, complete={"predecessors": True}, weights="nonnegative",
        examples=({}, {"source": (1,), "cutoff": 6}, {"source": (3, 0, 3), "rows": True}),
        benchmarks=(
            Benchmark(8, 8 + 4),
            Benchmark(8, 8 + 8, ", predecessors", {"predecessors": True}),
        ),
    ),
    Algorithm(
        "bellman-ford", "graph.bellman_ford:bellman_ford",
        "Find the shortest paths from the source, with weights that may be negative.\n\n"
        "A cycle of negative weight is an error.  Distances are as those of `morph sssp`.",
        result="distance predecessor", conditions="source",
        report=DISTANCES,
        options=(SOURCE,), arguments=_from_source, complete={"predecessors": True},
        weights="numbers", examples=({}, {"source": (1, 4)}),
        benchmarks=(Benchmark(8, 8 + 4),),
    ),
    Algorithm(
        "johnson", "graph.johnson:johnson",
        "Find the shortest paths between all vertices of GRAPH, with weights that may be negative."
        "\n\nThe result has a row for each source.  A cycle of negative weight is an error."
        "  Distances are as those of `morph sssp`.",
        result="distance predecessor", conditions="sources",
        report=DISTANCES,
        options=(Option("source", "Find paths from these vertices only; by default from all.", int,
                        default=(), metavar="S", repeated=True),),
        arguments=_from_sources, complete={"predecessors": True}, source="sources",
        weights="numbers", inputs="", examples=({}, {"source": (4, 1)}),
        benchmarks=(Benchmark(8, 8 + 8, ", 4 sources", sources=4, passes=4),),
    ),
    Algorithm(
        "components", "graph.components:connected_components",
        "Find the weakly connected components of GRAPH.\n\n"
        "The result is the smallest vertex of each one's component.",
        result="label",
        report=COMPONENTS,
        benchmarks=(Benchmark(4, 8 + 4),),
    ),
    Algorithm(
        "strong", "graph.strong:strongly_connected_components",
        "Find the strongly connected components of GRAPH.\n\n"
        "The result is the smallest vertex of each one's component.",
        result="label",
        report=COMPONENTS,
        benchmarks=(Benchmark(2 * 4, 2 * 8 + 4),),
    ),
    Algorithm(
        "topological", "graph.topological:topological_order",
        "Order the vertices of GRAPH so that every edge leads forwards.\n\n"
        "Vertices of one level, which is the number of edges of the longest path to them, are in"
        " order of their numbers.  A cycle is an error.",
        result="order level",
        report=Report({"levels": count("Number of levels.")}),
        acyclic=True,
        benchmarks=(Benchmark(2 * 4, 2 * 8 + 4 + 8, steps="levels"),),
    ),
    Algorithm(
        "core", "graph.cores:core_number",
        "Find the core number of every vertex of GRAPH, ignoring edge directions.\n\n"
        "It is the largest k such that the vertex is in a subgraph of minimum degree k.",
        result="core",
        report=Report(
            {"largest": count("Largest core number."), "vertices_in_it": count()},
            lambda found: {
                "largest": found.largest,
                "vertices_in_it": int((found.core == found.largest).sum()),
            },
        ),
        benchmarks=(Benchmark(4, 8 + 4),),
    ),
    Algorithm(
        "triangles", "graph.triangles:triangle_count",
        "Count the triangles at every vertex of GRAPH, ignoring edge directions and duplicates.",
        result="triangles total",
        report=Report({"total": count("Triangles of the graph.")}),
        benchmarks=(Benchmark(4, 8 + 8),),
    ),
    Algorithm(
        "truss", "graph.truss:truss_number",
        "Find the truss number of every edge of GRAPH, ignoring edge directions and duplicates.\n\n"
        "It is the largest k of a subgraph each of whose edges is in k - 2 of its triangles.  The"
        " result has the order of the file; edges from a vertex to itself have -1.",
        result="number", of_edges="number",
        report=Report(
            {"largest": count("Largest truss number.", least=-1), "edges_in_it": count()},
            lambda found: {
                "largest": found.largest,
                "edges_in_it": int((found.number == found.largest).sum()),
            },
        ),
        inputs="rmat",
        benchmarks=(Benchmark(4 + 4, 8),),
    ),
    Algorithm(
        "independent", "graph.independent:maximal_independent_set",
        "Find a maximal independent set of GRAPH: vertices without edges between them.\n\n"
        "None can be added.  The result says of every vertex whether it is selected.  Edge"
        " directions, and edges from a vertex to itself, are ignored.",
        result="selected",
        report=Report({"size": count("Vertices selected.")}),
        options=(SEED,),
        examples=({}, {"seed": 7}),
        benchmarks=(Benchmark(4, 8 + 4),),
    ),
    Algorithm(
        "matching", "graph.matching:matching",
        "Find a maximal matching of GRAPH: edges without common ends.\n\n"
        "None can be added.  The result says of every vertex which one is its partner, -1 if none"
        " is.  Edge directions, and edges from a vertex to itself, are ignored.",
        result="partner edges weight", conditions="weighted",
        report=Report({
            "size": count("Edges of the matching."),
            "weight": Field("Weight of these edges.", "number"),
        }),
        options=(
            Option(
                "weighted", "Prefer heavy edges: at least half of the largest weight possible.",
                default=False,
            ),
            SEED,
        ),
        weights="numbers",
        examples=({}, {"weighted": True, "seed": 7}),
        benchmarks=(
            Benchmark(4, 2 * 8 + 4), Benchmark(4 + 8, 2 * 8 + 4, ", weighted", {"weighted": True}),
        ),
    ),
    Algorithm(
        "colouring", "graph.colouring:colouring",
        "Colour the vertices of GRAPH so that neighbours differ, with few colours.\n\n"
        "By falling degree each vertex gets the smallest colour that its neighbours leave.  Edge"
        " directions, and edges from a vertex to itself, are ignored.",
        result="color",
        report=Report(
            {"colours": count("Number of colours.")}, lambda found: {"colours": found.number}
        ),
        options=(SEED,),
        examples=({}, {"seed": 7}),
        benchmarks=(Benchmark(2 * 4, 2 * 8 + 4),),
    ),
    Algorithm(
        "label-propagation", "graph.label_propagation:label_propagation",
        "Find communities of GRAPH by label propagation.\n\n"
        "The result is the smallest vertex of each one's community.  Communities are connected, and"
        " no vertex has edges of more weight to another one.  Edge directions are ignored.",
        result="label modularity",
        report=COMMUNITIES,
        options=(SEED,), weights="nonnegative",
        examples=({}, {"seed": 7}), inputs="rmat",
        benchmarks=(Benchmark(2 * 8, 2 * 8 + 4),),
    ),
    Algorithm(
        "louvain", "graph.louvain:louvain",
        "Find communities of GRAPH that have a large modularity.\n\n"
        "The result is the smallest vertex of each one's community.  Communities are connected."
        "  Edge directions are ignored.",
        result="label modularity", conditions="resolution",
        report=COMMUNITIES,
        options=(RESOLUTION, SEED),
        weights="nonnegative",
        examples=({}, {"seed": 7, "resolution": 1.5}), inputs="rmat",
        benchmarks=(Benchmark(2 * 8, 2 * 8 + 4),),
    ),
    Algorithm(
        "leiden", "graph.leiden:leiden",
        "Find communities of GRAPH that have a large modularity, by the Leiden method.\n\n"
        "The result is the smallest vertex of each one's community.  Communities are connected."
        "  Edge directions are ignored.",
        result="label modularity", conditions="resolution",
        report=COMMUNITIES,
        options=(RESOLUTION, SEED),
        weights="nonnegative",
        examples=({}, {"seed": 7, "resolution": 1.5}), inputs="rmat",
        benchmarks=(Benchmark(2 * 8, 2 * 8 + 4),),
    ),
    Algorithm(
        "densest", "graph.densest:densest_subgraph",
        "Find the densest subgraph of GRAPH: that with the most edges per vertex.\n\n"
        "Edge directions, weights and duplicates are ignored.  The result is the largest of the"
        " densest subgraphs.",
        result="points", conditions="exact",
        report=Report(
            {
                "vertices_in_it": count(),
                "edges_in_it": count(),
                "density": Field("Edges per vertex.", "number"),
            },
            lambda found: {
                "vertices_in_it": len(found.points),
                "edges_in_it": int(found.density * len(found.points)),
                "density": float(found.density),
            },
        ),
        options=(
            Option("approximate", "Stop at a density that is half of the largest or more.",
                   default=False),
        ),
        arguments=_densest, inputs="rmat", examples=({}, {"approximate": True}),
        benchmarks=(Benchmark(4, 8), Benchmark(4, 8, ", approximate", {"exact": False})),
    ),
    Algorithm(
        "max-clique", "graph.cliques:max_clique",
        "Find a largest clique of GRAPH: vertices any two of which have an edge.\n\n"
        "Edge directions, and edges from a vertex to itself, are ignored.  Of a hard graph it may"
        " take very long.",
        result="points",
        report=Report({"size": count("Vertices in it.")}),
        inputs="rmat",
        benchmarks=(Benchmark(4, 8),),
    ),
    Algorithm(
        "max-k-plex", "community.plex:max_k_plex",
        "Find a largest k-plex of GRAPH: vertices that have edges to all of it but k.\n\n"
        "A vertex counts among these k itself.  Edge directions, and edges from a vertex to itself,"
        " are ignored.  Of a hard graph it may take very long.",
        result="points", conditions="k",
        report=Report({
            "size": count("Vertices in it."),
            "proved": Field("Whether there is no larger one.", "boolean"),
        }),
        options=(
            Option("k", "Edges that a vertex may lack, its own among them.", int, least=1,
                   default=2, metavar="K"),
        ),
        inputs="rmat", examples=({}, {"k": 3}),
        benchmarks=(Benchmark(4, 8, ", k = 2", {"k": 2}),),
    ),
    Algorithm(
        "mst", "graph.mst:mst",
        "Find a minimum spanning forest of GRAPH, ignoring edge directions.\n\n"
        "The result is the positions of its edges in the file, counting from 0.",
        result="edges",
        report=Report(
            {
                "weight": Field("Sum of the weights of the forest's edges.", "number"),
                "components": count("Trees of the forest."),
            },
            lambda found: {
                "weight": np.asarray(found.weight).item(), "components": int(found.components)
            },
        ),
        weights="numbers",
        benchmarks=(Benchmark(8, 8),),
    ),
    Algorithm(
        "pagerank", "graph.pagerank:pagerank",
        "Rank the vertices of GRAPH by the links into them; ranks sum to 1.",
        result="rank", conditions="damping weighted",
        report=Report(
            {"top": count("Vertex of the largest rank."), "top_rank": Field(type="number")},
            lambda found: _largest(found.rank, "top_rank"), optional=("top", "top_rank"),
        ),
        options=(
            Option("damping", "Probability of following a link.", float, 0, 1, default=0.85,
                   metavar="P"),
            Option(
                "weighted", "Follow links in proportion to their weights, 1 if there are none.",
                default=False,
            ),
        ),
        tolerance=lambda found: found.error + (1e-5 if found.rank.dtype.itemsize == 4 else 1e-9),
        examples=({}, {"weighted": True, "damping": 0.7}),
        benchmarks=(  # 8 bytes an arc: the id, and a share of single precision
            Benchmark(8, 8, ", 20 iterations", {"tolerance": 0.0, "iterations": 20}, passes=20,
                      steps="iterations"),
            Benchmark(8, 8, ", 20 iterations, float32",
                      {"tolerance": 0.0, "iterations": 20, "dtype": "f4"}, passes=20,
                      steps="iterations"),
        ),
    ),
    Algorithm(
        "betweenness", "graph.betweenness:betweenness",
        "Find the share of shortest paths that pass through each vertex of GRAPH.",
        result="centrality sources", conditions="normalized weighted",
        report=Report(
            {"top": count("Vertex of the largest value."), "top_betweenness": Field(type="number")},
            lambda found: _largest(found.centrality, "top_betweenness"),
            optional=("top", "top_betweenness"),
        ),
        options=SAMPLING,
        arguments=_sampled, source="sources", inputs="rmat",
        examples=({}, {"sample": 4, "raw": True}, {"source": (0, 2, 5)}),
        benchmarks=(  # forwards and backwards
            Benchmark(4, 8 + 8, ", 4 sources", sources=4, passes=2 * 4),
            Benchmark(8, 8 + 8, ", 4 sources, weighted", {"weighted": True}, sources=4,
                      passes=2 * 4),
        ),
    ),
    Algorithm(
        "edge-betweenness", "graph.edge_betweenness:edge_betweenness",
        "Find the share of shortest paths that pass through each edge of GRAPH.\n\n"
        "The result has the order of the file.",
        result="centrality sources", of_edges="centrality", conditions="normalized weighted",
        report=Report(
            {"top_betweenness": Field("Largest value of an edge.", "number")},
            lambda found: {
                "top_betweenness": np.nan_to_num(found.centrality).max(initial=0).item()
            },
        ),
        options=SAMPLING, arguments=_sampled, source="sources", inputs="rmat",
        examples=({}, {"sample": 4, "raw": True}, {"source": (0, 2, 5)}),
        benchmarks=(  # forwards, backwards, and over the edges
            Benchmark(4, 8 + 8, ", 4 sources", sources=4, passes=3 * 4),
        ),
    ),
)  # fmt: skip
ALGORITHMS = {row.name: row for row in ROWS}
"""The rows by name, in the order in which messages list them."""
