"""Lines of code of the proof programs, beside those that Falcon's table VII gives for its own."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

from common import table

ROOT = Path(__file__).parent.parent
PROGRAMS = {
    "examples/falcon/bfs_unoptimised.py": 28,
    "examples/falcon/bfs_level.py": 28,
    "examples/falcon/bfs_atomic_free.py": 28,
    "examples/falcon/bfs_collection.py": 28,
    "examples/falcon/sssp_unoptimised.py": 38,
    "examples/falcon/sssp_optimised.py": 38,
    "examples/falcon/mst_worklist.py": 103,
    "morph/algorithms/bfs.py": 28,
    "morph/algorithms/sssp.py": 38,
    "morph/algorithms/mst.py": 103,
    "morph/algorithms/refine.py": 302,
    "morph/algorithms/pagerank.py": None,
    "morph/algorithms/betweenness.py": None,
    "morph/algorithms/components.py": None,
    "morph/algorithms/cores.py": None,
    "morph/algorithms/triangles.py": None,
}


def lines(path: Path) -> int:
    """Lines that hold code: no blank lines, comments or docstrings."""
    text = path.read_text()
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


def main() -> None:
    rows = [
        {"program": name, "lines": lines(ROOT / name), "Falcon": most or "-"}
        for name, most in PROGRAMS.items()
    ]
    table(rows)


if __name__ == "__main__":
    main()
