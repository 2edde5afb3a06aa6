"""DIMACS ``.gr`` files: ``p sp n m`` with arcs ``a u v w``, and ``p tw n m`` with edges ``u v``.

The first is the shortest-path format of the 9th DIMACS challenge: directed arcs, integer
weights.  The second (PACE's) is an undirected graph without weights.  Both number vertices from 1
and allow comment lines that begin with ``c``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from morph.io.graph.edges import MAX_VERTICES, EdgeArrays, gathered
from morph.io.graph.lines import Lines, first_line
from morph.io.text.rows import format_rows
from morph.io.text.scanner import Comment, Field, Scanner, StrPath

_COMMENT = Comment((b"c",), re.compile(rb"^c(?!\S)[^\n]*", re.MULTILINE))
_ENDS = Field("tail"), Field("head")
_ARC = (*_ENDS, Field("weight"))


def read_dimacs(path: StrPath, data: bytes) -> EdgeArrays:
    """Read the bytes of a ``.gr`` file.

    Raises
    ------
    FormatError
        With file and line.
    """
    scanner = Scanner(path, data, _COMMENT)
    kind, n, m = _problem(scanner)
    if kind == b"tw":
        src, dst, _ = gathered(scanner.pieces(m, _ENDS, "edges"), 1, n)
        scanner.end("edges")
        return EdgeArrays(src, dst, None, n, undirected=True)

    dropped = False

    def drop() -> None:
        nonlocal dropped
        if not dropped:
            dropped = True
            _drop_letters(scanner)

    src, dst, weight = gathered(scanner.pieces(m, _ARC, "arcs", b"a", drop), 1, n)
    if scanner.skip_blank():  # it copies the text
        drop()
    scanner.end("arcs")
    return EdgeArrays(src, dst, weight, n)


def _problem(scanner: Scanner) -> tuple[bytes, int, int]:
    """Read the problem line: the kind of graph, and the numbers of vertices and edges."""
    words = scanner.peek()
    if not words:
        scanner.fail("the file ends before its problem line (p sp n m)", scanner.last_line())
    scanner.check_text(b" ".join(words))
    if words[0] != b"p" or len(words) != 4 or words[1] not in (b"sp", b"tw"):
        shown = b" ".join(words)[:40].decode()
        scanner.fail(f"expected the problem line 'p sp n m' or 'p tw n m', found {shown!r}")
    kind = words[1]
    n, m = (scanner.integer(w, name) for w, name in zip(words[2:], ("n", "m"), strict=True))
    if not 0 <= n <= MAX_VERTICES or m < 0:
        scanner.fail(f"n = {n} and m = {m}: n must be 0 to {MAX_VERTICES}, m not negative")
    scanner.skip_line()
    return kind, n, m


def dimacs_lines(path: StrPath, data: bytes) -> Lines:
    """Read the head of a ``.gr`` file; returns the format of its edge lines.

    Raises
    ------
    FormatError
        With file and line.
    """
    text = data[: first_line(data, rb"c(?=\s)[^\n]*")]
    scanner = Scanner(path, text, _COMMENT)
    kind, n, m = _problem(scanner)
    if kind == b"tw":
        return Lines(scanner.pos, _ENDS, "edges", _COMMENT, n, count=m, undirected=True)
    return Lines(
        scanner.pos, _ARC, "arcs", _COMMENT, n, count=m, letter=b"a",
        drop_letters=_drop_letters,
    )  # fmt: skip


def _drop_letters(scanner: Scanner) -> None:
    """Check that each line begins with ``a``, and blank these letters out."""
    scanner.blank_comments()
    body = bytearray(scanner.data[scanner.pos :])
    raw = np.frombuffer(body, np.uint8)
    starts = np.concatenate([[0], np.flatnonzero(raw == 10) + 1]) if len(raw) else np.empty(0, int)
    starts = starts[starts < len(raw)]
    starts = starts[(raw[starts] != 10) & (raw[starts] != 13)]
    after = raw[np.minimum(starts + 1, len(raw) - 1)]
    wrong = (raw[starts] != ord("a")) | (after > 32)
    for start in starts[wrong].tolist():
        end = body.find(b"\n", start)
        line = bytes(body[start : end if end >= 0 else len(body)])
        if line.strip():  # not blank
            scanner.pos += start
            scanner.check_text(line)
            shown = line[:30].decode()
            scanner.fail(f"expected an arc 'a tail head weight', found {shown!r}")
    raw[starts[~wrong]] = 32
    scanner.data = scanner.data[: scanner.pos] + bytes(body)


def write_dimacs(edges: EdgeArrays) -> Iterator[bytes]:
    """Yield the text of a ``.gr`` file, ``p tw`` if undirected and without weights.

    Raises
    ------
    ValueError
        If weights are not integers, or directed edges have none.
    """
    src, dst = edges.src.astype(np.int64) + 1, edges.dst.astype(np.int64) + 1
    if edges.undirected and edges.weight is None:
        yield b"p tw %d %d\n" % (edges.n, len(src))
        yield from format_rows([src, dst])
        return
    if edges.undirected:
        raise ValueError("a .gr file holds arcs: weighted undirected edges must be given both ways")
    if edges.weight is None or edges.weight.dtype.kind not in "iu":
        raise ValueError("a .gr file needs integer weights; .mtx, .el and .npz files do not")
    yield b"p sp %d %d\n" % (edges.n, len(src))
    yield from format_rows([src, dst, edges.weight], prefix=b"a ")
