"""Lines of code of the algorithms, beside those of Falcon's table VII, and of other libraries."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from textwrap import dedent

from common import table

from morph.algorithms.registry import ROWS

ROOT = Path(__file__).parent.parent
# Falcon for CPUs, Falcon for GPUs, Galois, LonestarGPU
TABLE_VII = {
    "BFS": (26, 28, 310, 140),
    "SSSP": (35, 38, 310, 170),
    "MST": (113, 103, 590, 420),
    "DMR": (302, 308, 1011, 860),
}
SAME = {name.lower(): name for name in TABLE_VII}  # algorithms of the registry
# what to count, several files together, and which row of the table does the same
PROGRAMS = {
    "examples/falcon/bfs_unoptimised": "BFS",
    "examples/falcon/bfs_level": "BFS",
    "examples/falcon/bfs_atomic_free": "BFS",
    "examples/falcon/bfs_collection": "BFS",
    "examples/falcon/sssp_unoptimised": "SSSP",
    "examples/falcon/sssp_optimised": "SSSP",
    "examples/falcon/mst_worklist": "MST",
    **{row.function.__module__.replace(".", "/"): SAME.get(row.name) for row in ROWS},
    "morph/algorithms/refinement/refine rounds parameters deterministic quality steiner cavity "
    "kernels": "DMR",
    "morph/algorithms/triangulation/triangulate half_edges delaunay insertion insertion_order "
    "segments exterior intersections": None,
    "morph/algorithms/community/community candidates search nodes reduction greedy roots lists "
    "one_launch tables set_search tasks neighbourhood": None,
    # what several of these share: louvain, leiden, label propagation; searches from sources; all
    "morph/algorithms/graph/communities": None,
    "morph/algorithms/graph/source_threads betweenness_threads path_counts": None,
    "morph/algorithms/graph/costs cycles near_far peeling simple workspace": None,
    "morph/algorithms/graph/betweenness_batch": None,
    "morph/algorithms/graph/betweenness_weighted": None,
    "morph/algorithms/graph/many_sources": None,
    "morph/algorithms/graph/path": None,
    "morph/algorithms/graph/max_flow": None,
    "morph/algorithms/dynamic/cores": None,
    "morph/algorithms/dynamic/pagerank": None,
    "morph/algorithms/dynamic/dynamic repair": None,
}
# The same of other libraries by folder and first file: NetworKit 17427915b (C++), igraph e8e03b245
# (C, C++), cuGraph 528ddde97 (CUDA, the implementation alone), and the program that is named.
# Lines with code, without comments.  The pseudocode is that of four CUDA kernels for communities,
# without bounds, domination and donation.
PEERS = {
    "community/community": ("", "", "", "SC-BRB 1,994; pseudocode 111"),
    "graph/strong": (113, 925, 2121, ""),
    "graph/topological": (126, 104, "", ""),
    "graph/truss": ("", 135, 586, "PKT 1,565"),
    "graph/cores": (291, 83, 301, ""),
    "graph/cliques": (308, 1196, "", ""),
    "graph/densest": ("", "", "", "NetworkX 118"),
    "graph/louvain": (259, 430, 278, ""),
    "graph/leiden": (518, 884, 562, ""),
    "graph/components": (113, 925, 901, ""),
    "graph/triangles": (91, 608, 458, ""),
    "graph/pagerank": (130, 363, 393, ""),
    "graph/label_propagation": (96, 466, "", ""),
    "graph/matching": (251, 643, 301, ""),
    "graph/max_flow": (386, 1476, "", ""),
    "graph/colouring": ("", 306, 129, ""),
    "graph/independent": (78, "", 232, ""),
    "graph/betweenness": (195, 744, 1374, ""),
    "graph/bellman_ford": ("", 326, "", ""),
    "graph/johnson": ("", 138, "", ""),
    "graph/many_sources": (120, 659, "", ""),
    "dynamic/dynamic": (419, "", "", ""),
}


def lines_of(text: str) -> int:
    """Lines that hold code: no blank lines, comments or docstrings."""
    code: set[int] = set()
    skip = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (*skip, tokenize.ENDMARKER):
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(
            node
        ):
            doc = node.body[0]
            code.difference_update(range(doc.lineno, (doc.end_lineno or doc.lineno) + 1))
    return len(code)


def first_line(node: ast.FunctionDef) -> int:
    """Index of the line of a function's first decorator."""
    return node.decorator_list[0].lineno - 1


def kernels(path: Path) -> int:
    """Of these, lines that are compiled: kernels, functions and programs."""
    text = path.read_text()
    return sum(
        lines_of(dedent("\n".join(text.splitlines()[first_line(node) : node.end_lineno])))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
        and any("kernel" in d or "func" in d or "program" in d
                for d in map(ast.unparse, node.decorator_list))
    )  # fmt: skip


def main() -> None:
    rows = []
    for name, like in PROGRAMS.items():
        folder, files = name.rsplit("/", 1)
        paths = [ROOT / folder / f"{file}.py" for file in files.split()]
        cpu, gpu, galois, lonestar = TABLE_VII[like] if like else [""] * 4
        networkit, igraph, cugraph, other = PEERS.get(
            f"{folder.rsplit('/', 1)[1]}/{files.split()[0]}", [""] * 4
        )
        rows.append({
            "program": name,
            "lines": sum(lines_of(p.read_text()) for p in paths),
            "kernels": sum(map(kernels, paths)),
            "Falcon CPU": cpu,
            "Falcon GPU": gpu,
            "Galois": galois,
            "LonestarGPU": lonestar,
            "NetworKit": networkit,
            "igraph": igraph,
            "cuGraph": cugraph,
            "other": other,
        })  # fmt: skip
    table(rows)


if __name__ == "__main__":
    main()
