"""Edge lists: one ``u v`` or ``u v w`` a line, vertices from 0, comments after ``#`` or ``%``.

This includes SNAP's files.  A comment ``# Nodes: n`` (SNAP's, also written here) gives the number
of vertices, which is needed if the last vertices have no edge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from morph.io.graph.edges import MAX_VERTICES, EdgeArrays, gathered
from morph.io.graph.lines import REAL, Lines, exact, first_line
from morph.io.text.rows import format_rows
from morph.io.text.scanner import Block, Comment, Field, Scanner, StrPath

_COMMENT = Comment((b"#", b"%"), re.compile(rb"[#%][^\n]*"))
_ENDS = Field("first vertex"), Field("second vertex")
_NODES = re.compile(rb"^[#%][^\n]*?\bNodes:\s*([0-9]+)", re.MULTILINE)


def read_edge_list(path: StrPath, data: bytes) -> EdgeArrays:
    """Read the bytes of an edge list; its first line determines whether edges have weights.

    Weights are integers if all of them are written as integers, else doubles; then integers among
    them must be exact as doubles.

    Raises
    ------
    FormatError
        With file and line.
    """
    scanner = Scanner(path, data, _COMMENT)
    width, announced = _first_line(scanner, data)
    integral = width < 3 or not scanner.contains(REAL)
    fields = [*_ENDS, Field("weight", integral)][: max(width, 2)]
    blocks: Iterable[Block] = scanner.pieces(None, fields, "edges")
    if width == 3 and not integral:
        blocks = map(exact, blocks)
    src, dst, weight = gathered(blocks, 0, None, integral)
    n = max(int(max(src.max(initial=-1), dst.max(initial=-1))) + 1, announced)
    return EdgeArrays(src, dst, weight if width == 3 else None, n)


def _first_line(scanner: Scanner, data: bytes) -> tuple[int, int]:
    """Return the number of fields of a line, and the number of vertices in a comment."""
    said = _NODES.search(data[:65536])
    words = scanner.peek()
    if not words and said is None:
        scanner.fail("the file has no edges", scanner.last_line())
    if words:
        scanner.check_text(b" ".join(words))
    if words and len(words) not in (2, 3):
        scanner.fail(f"found {len(words)} fields, expected 'u v' or 'u v weight'")
    announced = 0 if said is None else int(said[1])
    if announced > MAX_VERTICES:
        scanner.fail(f"{announced} vertices are announced, at most {MAX_VERTICES} are possible", 1)
    return len(words), announced


def edge_list_lines(path: StrPath, data: bytes) -> Lines:
    """Read the head of an edge list; returns the format of its edge lines.

    Raises
    ------
    FormatError
        With file and line.
    """
    scanner = Scanner(path, data[: first_line(data, _COMMENT.pattern.pattern)], _COMMENT)
    width, announced = _first_line(scanner, data)
    fields = (*_ENDS, Field("weight"))[: max(width, 2)]
    return Lines(scanner.pos, fields, "edges", _COMMENT, least=announced, base=0, real=None)


def write_edge_list(edges: EdgeArrays) -> Iterator[bytes]:
    """Yield the text of an edge list.

    Raises
    ------
    ValueError
        If a weight is not finite.
    """
    columns = [edges.src, edges.dst]
    if edges.weight is not None:
        if not np.isfinite(edges.weight).all():
            raise ValueError("an edge list cannot hold weights that are not finite")
        columns.append(edges.weight)
    yield b"# Nodes: %d Edges: %d\n" % (edges.n, len(edges.src))
    yield from format_rows(columns)
