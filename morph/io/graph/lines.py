"""Parallel reading of text files with one edge per line: each process reads a range of lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from morph.io.graph.edges import EdgeArrays, gathered
from morph.io.text.scanner import Block, Comment, Field, FormatError, Scanner, StrPath

REAL = (b".", b"e", b"E")  # each number that is not written as an integer contains one of these
_CHUNK = 1 << 26  # bytes read at once


@dataclass(frozen=True)
class Lines:
    """The format of a file's edge lines.

    Attributes
    ----------
    start : int
        Offset of the first edge line.
    fields : sequence of Field
        Fields of a line: two vertices and an optional weight.
    noun : str
        Name of the edges in messages.
    comment : Comment
        The syntax of comments.
    n : int or None
        Number of vertices, None if the file does not contain it.
    least : int
        A lower bound of the number of vertices.
    count : int or None
        Number of edges, None if the file does not contain it.
    base : int
        Number of the first vertex.
    letter : bytes
        First character of each line.
    drop_letters : function of a Scanner
        Replaces these letters with blanks.
    real : bool or None
        Whether weights are doubles; None: doubles if one of them is not written as an integer.
    undirected : bool
        Whether a line stands for both arcs.
    """

    start: int
    fields: tuple[Field, ...]
    noun: str
    comment: Comment
    n: int | None = None
    least: int = 0
    count: int | None = None
    base: int = 1
    letter: bytes = b""
    drop_letters: Callable[[Scanner], None] = lambda scanner: None
    real: bool | None = False
    undirected: bool = False


def first_line(data: Any, comment: bytes) -> int:
    """Return the end offset of the first line that is neither blank nor matches ``comment``."""
    found = re.compile(rb"(?:[ \t\r\f\v]*+(?:%s)?(?:\n|\Z))*+[^\n]*\n?" % comment).match(data)
    return found.end() if found else 0


def read_lines(path: StrPath, data: Any, lines: Lines, k: int, parts: int) -> EdgeArrays:
    """Read one of several ranges of lines, which have about the same number of bytes.

    Parameters
    ----------
    data : bytes or mmap
        The file, of which only this range is read.
    k, parts : int
        Index of the range, and number of ranges.

    Returns
    -------
    EdgeArrays
        ``n`` exceeds all vertices of these edges.

    Raises
    ------
    FormatError
        With file and line.
    """
    size = len(data) - lines.start
    near = (lines.start + size * j // parts for j in (k, k + 1))
    start, stop = (_line_start(data, lines.start, at) for at in near)
    if len(lines.fields) < 3 or lines.real is not None:
        return _read_range(path, data, lines, (start, stop), bool(lines.real))
    real = _has_reals(_scanners(path, data, lines, start, stop))
    try:
        return _read_range(path, data, lines, (start, stop), real)
    except FormatError:  # integers of more than 64 bits are allowed if another range has doubles
        if real or not _has_reals(_scanners(path, data, lines, lines.start, len(data))):
            raise
    return _read_range(path, data, lines, (start, stop), True)


def _has_reals(scanners: Iterable[Scanner]) -> bool:
    """Return whether a number is not written as an integer."""
    return any(scanner.contains(REAL) for scanner in scanners)


def _read_range(
    path: StrPath, data: Any, lines: Lines, offsets: tuple[int, int], real: bool
) -> EdgeArrays:
    """Read the lines from one offset to another; the weights are doubles if ``real``."""
    weighted = len(lines.fields) == 3
    fields = (*lines.fields[:2], *(Field(f.name, not real) for f in lines.fields[2:]))
    blocks: Iterable[Block] = (
        block
        for scanner in _scanners(path, data, lines, *offsets)
        for block in scanner.pieces(
            None, fields, lines.noun, lines.letter, partial(lines.drop_letters, scanner)
        )
    )
    if weighted and real and lines.real is None:
        blocks = map(exact, blocks)
    src, dst, weight = gathered(blocks, lines.base, lines.n, not real)
    n = int(max(src.max(initial=-1), dst.max(initial=-1))) + 1
    n = max(n, lines.least) if lines.n is None else lines.n
    return EdgeArrays(src, dst, weight if weighted else None, n, lines.undirected)


def _line_start(data: Any, first: int, at: int) -> int:
    """Return the offset of the first line that does not begin before ``at``."""
    return at if at <= first else int(data.find(b"\n", at - 1)) + 1 or len(data)


def _scanners(path: StrPath, data: Any, lines: Lines, start: int, stop: int) -> Iterator[Scanner]:
    """Yield scanners of the lines between two offsets, chunk by chunk."""
    while start < stop:
        end = min(data.find(b"\n", start + _CHUNK) + 1 or len(data), stop)
        yield Scanner(path, data[start:end], lines.comment, before=(data, start))
        start = end


def exact(block: Block) -> Block:
    """Check that weights written as integers are exact as doubles."""
    weight = block.parts[2][:, 0]
    large = np.flatnonzero(abs(weight) >= 2**53)
    if large.size:
        marked = set(large.tolist())
        for row, (_, text) in enumerate(islice(block.scanner.lines(block.start), len(weight))):
            word = text.split()[2] if row in marked else b""
            if word.lstrip(b"+-").isdigit() and int(word) != float(weight[row]):
                shown = word[:40].decode()
                block.fail(row, f"the weight {shown} loses digits: other weights here are reals")
    return block
