"""Text files with an edge a line, of which each of several processes reads a range of lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from morph.io.graph.edges import EdgeArrays, gathered
from morph.io.text.scanner import Block, Field, FormatError, Scanner, StrPath

REAL = (b".", b"e", b"E")  # one of them is in each number that is not written as an integer
_CHUNK = 1 << 26  # bytes read at once


@dataclass(frozen=True)
class Lines:
    """The lines of a file that have its edges.

    Attributes
    ----------
    start : int
        Offset of the first one.
    fields : sequence of Field
        Of each line: two vertices, perhaps a weight.
    what : str
        The edges, for messages.
    n : int or None
        Number of vertices, None if the file does not say.
    least : int
        A lower bound of it.
    count : int or None
        Number of edges, None if the file does not say.
    base : int
        The first vertex.
    comment : bytes
        Characters that begin a comment.
    skipped : re.Pattern, optional
        Matches further comments.
    letter : bytes
        Begins each line.
    drop_letters : function of a Scanner
        Puts blanks in place of these letters.
    real : bool or None
        Whether weights are doubles; None if they are in case one of them is not written as an
        integer.
    undirected : bool
        Whether a line stands for both arcs.
    """

    start: int
    fields: tuple[Field, ...]
    what: str
    n: int | None = None
    least: int = 0
    count: int | None = None
    base: int = 1
    comment: bytes = b""
    skipped: re.Pattern[bytes] | None = None
    letter: bytes = b""
    drop_letters: Callable[[Scanner], None] = lambda scanner: None
    real: bool | None = False
    undirected: bool = False


def first_line(data: Any, comment: bytes) -> int:
    """Give the offset behind the first line that is neither blank nor matches ``comment``."""
    found = re.compile(rb"(?:[ \t\r\f\v]*+(?:%s)?(?:\n|\Z))*+[^\n]*\n?" % comment).match(data)
    return found.end() if found else 0


def read_lines(path: StrPath, data: Any, lines: Lines, k: int, parts: int) -> EdgeArrays:
    """Read one of several ranges of lines of about equally many bytes.

    Parameters
    ----------
    data : bytes or mmap
        The file; only this range of it is read.
    k, parts : int
        Which of how many ranges.

    Returns
    -------
    EdgeArrays
        ``n`` is at least the number of vertices of these edges.

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
    except FormatError:  # an integer of more than 64 bits may be a double if another range has some
        if real or not _has_reals(_scanners(path, data, lines, lines.start, len(data))):
            raise
    return _read_range(path, data, lines, (start, stop), True)


def _has_reals(scanners: Iterable[Scanner]) -> bool:
    """Whether there is a number that is not written as an integer."""
    texts = ((s.data, s.pos) for s in scanners)
    return any(text.find(mark, first) >= 0 for text, first in texts for mark in REAL)


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
            None, fields, lines.what, lines.letter, partial(lines.drop_letters, scanner)
        )
    )
    if weighted and real and lines.real is None:
        blocks = map(exact, blocks)
    src, dst, weight = gathered(blocks, lines.base, lines.n, not real)
    n = int(max(src.max(initial=-1), dst.max(initial=-1))) + 1
    n = max(n, lines.least) if lines.n is None else lines.n
    return EdgeArrays(src, dst, weight if weighted else None, n, lines.undirected)


def _line_start(data: Any, first: int, at: int) -> int:
    """Give the offset of the first line that does not begin before ``at``."""
    return at if at <= first else int(data.find(b"\n", at - 1)) + 1 or len(data)


def _scanners(path: StrPath, data: Any, lines: Lines, start: int, stop: int) -> Iterator[Scanner]:
    """Give scanners of the lines from one offset to another."""
    while start < stop:
        end = min(data.find(b"\n", start + _CHUNK) + 1 or len(data), stop)
        text = data[start:end]
        if lines.skipped is not None:
            text = lines.skipped.sub(lambda found: b" " * len(found[0]), text)
        yield Scanner(path, text, lines.comment, before=(data, start))
        start = end


def exact(block: Block) -> Block:
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
