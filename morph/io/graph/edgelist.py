"""Edge lists: one ``u v`` or ``u v w`` a line, vertices from 0, comments after ``#`` or ``%``.

SNAP's files are read as they are.  A comment ``# Nodes: n`` (SNAP's, and written here) gives the
number of vertices when the last of them have no edge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from morph.io.graph.edges import MAX_VERTICES, EdgeArrays, gathered
from morph.io.text.rows import format_rows
from morph.io.text.scanner import Block, Field, Scanner, StrPath

_NODES = re.compile(rb"^[#%][^\n]*?\bNodes:\s*([0-9]+)", re.MULTILINE)


def read_edge_list(path: StrPath, data: bytes) -> EdgeArrays:
    """Read the bytes of an edge list; its first line says whether edges have weights.

    Weights are integers if all of them are written so, else doubles, which must hold the integers
    among them exactly.

    Raises
    ------
    FormatError
        With file and line.
    """
    said = _NODES.search(data[:65536])
    scanner = Scanner(path, data, comment=b"#%")
    words = scanner.peek()
    if not words and said is None:
        scanner.fail("the file has no edges", scanner.last_line())
    if words:
        scanner.check_text(b" ".join(words))
    if words and len(words) not in (2, 3):
        scanner.fail(f"found {len(words)} fields, expected 'u v' or 'u v weight'")
    integral = all(scanner.data.find(mark, scanner.pos) < 0 for mark in (b".", b"e", b"E"))
    fields = [Field("first vertex"), Field("second vertex"), Field("weight", integral)]
    fields = fields[: max(len(words), 2)]
    blocks: Iterable[Block] = scanner.pieces(None, fields, "edges")
    if len(fields) == 3 and not integral:
        blocks = map(_exact, blocks)
    src, dst, weight = gathered(blocks, 0, None, integral)
    n = int(max(src.max(initial=-1), dst.max(initial=-1))) + 1
    if said is not None:
        n = max(n, int(said[1]))
        if n > MAX_VERTICES:
            scanner.fail(f"{n} vertices are announced, at most {MAX_VERTICES} are possible", 1)
    return EdgeArrays(src, dst, weight if len(words) == 3 else None, n)


def _exact(block: Block) -> Block:
    """Check that no weight is written as an integer that a double does not hold."""
    large = np.flatnonzero(abs(block.values[:, 2]) >= 2**53)
    if large.size:
        marked = set(large.tolist())
        for row, (_, text) in enumerate(
            islice(block.scanner.lines(block.start), len(block.values))
        ):
            word = text.split()[2] if row in marked else b""
            if word.lstrip(b"+-").isdigit() and int(word) != float(block.values[row, 2]):
                shown = word[:40].decode()
                block.fail(row, f"the weight {shown} loses digits: other weights here are reals")
    return block


def write_edge_list(edges: EdgeArrays) -> Iterator[bytes]:
    """Yield the text of an edge list.

    Raises
    ------
    ValueError
        If a weight is no finite number.
    """
    columns = [edges.src, edges.dst]
    if edges.weight is not None:
        if not np.isfinite(edges.weight).all():
            raise ValueError("an edge list cannot hold weights that are not finite")
        columns.append(edges.weight)
    yield b"# Nodes: %d Edges: %d\n" % (edges.n, len(edges.src))
    yield from format_rows(columns)
