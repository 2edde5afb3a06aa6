"""Lines of code of the proof programs, beside those that Falcon's table VII gives for its own."""

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
    "morph/algorithms/refinement/refine quality steiner cavity kernels": "DMR",
    "morph/algorithms/triangulation/triangulate half_edges delaunay insertion segments exterior "
    "intersections": None,
    "morph/algorithms/community/community candidates search roots lists tasks neighbourhood": None,
    "morph/algorithms/community/plex": None,
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
        rows.append({
            "program": name,
            "lines": sum(lines_of(p.read_text()) for p in paths),
            "kernels": sum(map(kernels, paths)),
            "Falcon CPU": cpu,
            "Falcon GPU": gpu,
            "Galois": galois,
            "LonestarGPU": lonestar,
        })  # fmt: skip
    table(rows)


if __name__ == "__main__":
    main()
