"""METIS ``.graph`` files: line u + 1 lists the neighbours of vertex u; each edge occurs twice.

The header is ``n m``, ``n m fmt`` or ``n m fmt ncon``: m counts each edge once; the digits of
``fmt`` tell whether vertices have sizes (100), vertices have ``ncon`` weights each (10), and edges
have weights (1).  A line contains the size and weights of the vertex, then neighbour (from 1) and
weight of each edge.  Lines that begin with ``%`` are comments; a blank line is a vertex without
edges.  Format: manual of METIS 5, section 4.1.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from morph.graph.reverses import have_reverses
from morph.io.graph.edges import MAX_VERTICES, EdgeArrays, compressed_rows, narrow
from morph.io.text import numbers as compiled
from morph.io.text.growing import Growing
from morph.io.text.rows import digits
from morph.io.text.scanner import CHUNK, PIECE, Field, FormatError, Scanner, StrPath, release
from morph.runtime.device import device

_COMMENT = re.compile(rb"^%[^\n]*", re.MULTILINE)
_ONE_A_LINE = bytes.maketrans(b" \t\r\v\f", b"\n" * 5)
_LEAST_ARCS = 1 << 16  # arcs compared with their reverses at once
_WRITTEN = 1 << 19  # numbers written at once
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Header:
    n: int
    m: int
    sizes: int  # sizes per vertex: 0 or 1
    constraints: int  # weights per vertex
    weights: int  # weights per edge: 0 or 1
    line: int
    behind: int  # offset of the line after the header


def read_metis(path: StrPath, data: Any) -> EdgeArrays:
    """Read the bytes of a ``.graph`` file: both arcs of every edge, in the order of the file.

    Parameters
    ----------
    path : path-like
        Named in errors.
    data : bytes or mmap
        The file, which is read in blocks of lines.

    Raises
    ------
    FormatError
        With file and line.
    """
    header = _header(path, data)
    degrees, dst, weight = Growing(np.dtype(np.int32)), Growing(np.dtype(np.int32)), Growing(None)
    points: dict[str, list[Any]] = {}
    for part in _parts(path, data, header):
        degree = _checked(part, header)
        degrees.add(degree, header.n - part.vertex - degree.size)
        size = int(degree.sum())
        left = max(min(2 * header.m - dst.size - size, (len(data) - part.behind) // 2), 0)
        if _append_compiled(part, header, size, left, dst, weight):
            continue
        ends, of_ends = _arcs_by_numpy(part, header, degree, points)
        dst.add((ends - 1).astype(np.int32), left)
        if of_ends is not None:
            weight.add(narrow(of_ends), left)
    none = np.empty(0, np.int32)
    degree, to = degrees.finish(none), dst.finish(none)
    src = np.repeat(np.arange(header.n, dtype=np.int32), degree)
    weights = weight.finish(none) if header.weights else None
    found = _fault(src, to, weights)
    if found is not None:
        for part in _parts(path, data, header):
            if found[0] < part.vertex + part.count.size:
                part.fail(found[0] - part.vertex, found[1])
    if src.size != 2 * header.m:
        said = f"the header says {header.m} edges, and the lines have {src.size // 2}"
        raise FormatError(path, header.line, said)
    joined = {name: np.concatenate(parts) for name, parts in points.items()}
    return EdgeArrays(src, to, weights, header.n, symmetric=True, points=joined)


def _append_compiled(
    part: _Part, header: _Header, size: int, left: int, dst: Growing, weight: Growing
) -> bool:
    """Append ``size`` arcs to ``dst`` and ``weight`` by the compiled library.

    Return False, with nothing appended, if `_arcs_by_numpy` has to read them.
    """
    regular = part.pieces[0].dtype == np.int32 and weight.dtype in (None, np.int32)
    if header.sizes + header.constraints or not regular or not size:
        return False
    before = dst.size
    ends = dst.extend(size, np.dtype(np.int32), left)
    of_ends = weight.extend(size, np.dtype(np.int32), left) if header.weights else None
    if compiled.split_arcs(part.pieces, header.n, ends, of_ends):
        return True
    dst.size = before  # `_arcs_by_numpy` reports the error
    return False


def _arcs_by_numpy(
    part: _Part, header: _Header, degree: Ints, points: dict[str, list[Any]]
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return ends, from 1, and weights of the arcs; append the data of vertices to ``points``."""
    lead, each, numbers = header.sizes + header.constraints, 1 + header.weights, part.numbers
    first = np.cumsum(part.count) - part.count  # first number of each vertex
    for name, values in _of_points(header, first, numbers).items():
        points.setdefault(name, []).append(values)
    if lead:  # the numbers of edges follow those of the vertex
        at = np.repeat(first + lead - each * (np.cumsum(degree) - degree), degree)
        at += each * np.arange(at.size)
        ends, of_ends = numbers[at], numbers[at + 1] if header.weights else None
    else:
        ends, of_ends = numbers[::each], numbers[1::each] if header.weights else None
    wrong = (ends < 1) | (ends > header.n)
    if wrong.any():
        k = int(wrong.argmax())
        said = f"vertex {int(ends[k])} is out of range: vertices are 1 to {header.n}"
        part.fail(int(np.searchsorted(np.cumsum(degree), k, "right")), said)
    return ends, of_ends


@dataclass(frozen=True)
class _Part:
    """Consecutive vertices: the numbers of their lines, their counts, and line offsets."""

    path: StrPath
    data: Any
    vertex: int  # the first
    start: int  # offset of the first line
    count: NDArray[Any]
    pieces: list[NDArray[Any]]  # of the numbers
    behind: int  # end offset

    @property
    def numbers(self) -> NDArray[Any]:
        return np.concatenate(self.pieces)

    def fail(self, u: int, message: str) -> NoReturn:
        at = self.start + int(_lines(self.data[self.start : self.behind])[0][u])
        raise FormatError(self.path, _line(self.data, at), message)


def _parts(path: StrPath, data: Any, header: _Header) -> Iterator[_Part]:
    """Yield blocks of lines; fail if the number of lines is not the number of vertices."""
    vertex, start = 0, header.behind
    while start < len(data):
        end = data.find(b"\n", start + PIECE) + 1 or len(data)
        made = compiled.ragged(data, start, end) if len(data) >= compiled.LEAST else None
        count: NDArray[Any] = _lines(data[start:end])[1] if made is None else made[1]
        left = header.n - vertex
        if count[left:].any():
            k = left + int((count[left:] > 0).argmax())
            line = _line(data, start + int(_lines(data[start:end])[0][k]))
            raise FormatError(path, line, f"a line after the last of {header.n} vertices")
        count = count[:left]
        pieces: list[NDArray[Any]] = (
            [_numbers(path, data, _without_comments(data[start:end]), start, int(count.sum()))]
            if made is None else made[0]
        )  # fmt: skip
        yield _Part(path, data, vertex, start, count, pieces, end)
        del pieces, made
        release(data, start, end)
        vertex, start = vertex + count.size, end
    if vertex < header.n:
        problem = f"the file ends after {vertex} of {header.n} vertices"
        raise FormatError(path, Scanner(path, data, None).last_line(), problem)


def _checked(part: _Part, header: _Header) -> Ints:
    """Return the number of neighbours that each vertex lists."""
    lead, each = header.sizes + header.constraints, 1 + header.weights
    odd = (part.count < lead) | ((part.count - lead) % each != 0)
    if odd.any():
        u = int(odd.argmax())
        form = ["size"] * header.sizes + ["weight"] * header.constraints
        form.append("neighbour weight ..." if header.weights else "neighbour ...")
        has = f"vertex {part.vertex + u + 1} has {int(part.count[u])} numbers"
        part.fail(u, f"{has}, expected: {' '.join(form)}")
    return (part.count - lead) // each


def _line(data: Any, offset: int) -> int:
    """Return the number, from 1, of the line that contains a byte."""
    parts = (data[k : min(k + CHUNK, offset)] for k in range(0, offset, CHUNK))
    return 1 + sum(int(part.count(b"\n")) for part in parts)


def _header(path: StrPath, data: Any) -> _Header:
    behind = 0
    while data[behind : behind + 1] == b"%" or data[behind : _end(data, behind)].isspace():
        behind = _end(data, behind)
    text = _COMMENT.sub(lambda found: b" " * len(found[0]), data[: _end(data, behind)])
    scanner = Scanner(path, text, None)
    names = ("n", "m", "fmt", "ncon")
    n, m, fmt, constraints = scanner.header("graph", names, (0, -1, 0, -1))
    line = scanner.line(scanner.pos - 1)
    if m < 0:
        scanner.fail("the graph header needs at least 2 fields: n m", line)
    if n > MAX_VERTICES:
        scanner.fail(f"{n} vertices: at most {MAX_VERTICES} are possible", line)
    if fmt not in (0, 1, 10, 11, 100, 101, 110, 111):
        scanner.fail(f"fmt is {fmt}: expected three digits, each 0 or 1", line)
    weighted = fmt // 10 % 10
    if weighted and constraints == 0:
        scanner.fail(f"fmt {fmt:03} gives vertices weights, and ncon is 0", line)
    if not weighted and constraints > 1:  # METIS writes ncon = 1 even without weights
        scanner.fail(f"ncon is {constraints}, and fmt {fmt:03} gives vertices no weights", line)
    if n and constraints > len(data):
        scanner.fail(f"ncon is {constraints}: the file has fewer numbers", line)
    constraints = abs(constraints) if weighted else 0
    return _Header(n, m, fmt // 100, constraints, fmt % 10, line, scanner.pos)


def _end(data: Any, start: int) -> int:
    """Return the end offset of the line that begins at ``start``."""
    found: int = data.find(b"\n", start)
    return len(data) if found < 0 else found + 1


def _without_comments(raw: bytes) -> bytes:
    """Replace comments by blanks."""
    return _COMMENT.sub(lambda found: b" " * len(found[0]), raw) if b"%" in raw else raw


def _lines(raw: bytes) -> tuple[Ints, Ints]:
    """Return the offsets of lines that are not comments, and their numbers of words."""
    characters = np.frombuffer(_without_comments(raw), np.uint8)
    starts = np.append(0, np.flatnonzero(characters == 10) + 1)
    starts = starts[starts < characters.size]
    ink = characters > 32
    ink[1:] &= characters[:-1] <= 32  # first characters of words
    count = np.diff(np.searchsorted(np.flatnonzero(ink), np.append(starts, characters.size)))
    kept = np.frombuffer(raw, np.uint8)[starts] != ord("%")
    return starts[kept], count[kept]


def _numbers(path: StrPath, data: Any, text: bytes, start: int, expected: int) -> Ints:
    """Parse the words of the lines from offset ``start`` on, one word per row."""
    scanner = Scanner(path, b"\n" + text.translate(_ONE_A_LINE), None)  # no byte order mark here
    try:
        numbers = scanner.rest([Field("number")]).values[:, 0]
    except FormatError as error:
        breaks = np.flatnonzero(np.frombuffer(scanner.data, np.uint8) == 10)
        at = int(breaks[error.line - 2]) if error.line and error.line > 1 else 0
        raise FormatError(path, _line(data, start + at), error.message) from None
    if numbers.size != expected:  # the counts differ for control characters only
        raise FormatError(path, None, "binary data where text is expected")
    return numbers


def _of_points(header: _Header, first: Ints, numbers: Ints) -> dict[str, NDArray[Any]]:
    """Return the sizes and weights of vertices, if the file has any."""
    points = {}
    if header.sizes:
        points["size"] = narrow(numbers[first])
    if header.constraints:
        columns = numbers[
            first[:, None] + np.arange(header.sizes, header.sizes + header.constraints)
        ]
        points["weight"] = narrow(columns[:, 0] if header.constraints == 1 else columns)
    return points


def _fault(
    src: NDArray[Any], dst: NDArray[Any], weight: NDArray[Any] | None
) -> tuple[int, str] | None:
    """Find a violation of METIS's rules and its vertex: a self-loop, a weight, a one-way edge.

    Arcs are in order of ``src``.  For blocks of vertices, their out-arcs are compared with their
    in-arcs.
    """
    if (src == dst).any():
        u = int(src[(src == dst).argmax()])
        return u, f"vertex {u + 1} is its own neighbour"
    if weight is not None and weight.min(initial=1) < 1:
        k = int((weight < 1).argmax())
        return int(src[k]), f"an edge has weight {int(weight[k])}: METIS wants positive ones"
    if have_reverses(device("cpu"), src, dst, weight):
        return None
    # the slower search locates the violation
    start = low = 0
    while low < len(src):
        most = min(low + max(len(src) // 16, _LEAST_ARCS), len(src)) - 1
        end = int(src[most]) + 1  # end of the block of vertices
        high = int(np.searchsorted(src, np.int32(end)))  # another dtype would copy `src`
        backward = _that_lead_to(dst, start, end)
        found = _asymmetric_arc(
            _ordered(src[low:high], dst[low:high], None if weight is None else weight[low:high]),
            _ordered(dst[backward], src[backward], None if weight is None else weight[backward]),
        )
        if found is not None:
            return found
        start, low = end, high
    backward = _that_lead_to(dst, start, 1 << 31)
    none = _ordered(src[:0], dst[:0], None if weight is None else weight[:0])
    return _asymmetric_arc(
        none, _ordered(dst[backward], src[backward], None if weight is None else weight[backward])
    )


def _that_lead_to(dst: NDArray[Any], start: int, end: int) -> Ints:
    """Return the arcs to vertices in [start, end)."""
    blocks = (dst[k : k + _LEAST_ARCS] for k in range(0, len(dst), _LEAST_ARCS))
    found = [np.flatnonzero((b >= start) & (b < end)) + k * _LEAST_ARCS
             for k, b in enumerate(blocks)]  # fmt: skip
    return np.concatenate([np.empty(0, np.int64), *found])


def _asymmetric_arc(
    forward: tuple[Ints, Any], backward: tuple[Ints, Any]
) -> tuple[int, str] | None:
    """Find the first arc without a reverse, or whose reverse has another weight."""
    (one, weight), (other, turned) = forward, backward
    shared = min(len(one), len(other))
    differ = one[:shared] != other[:shared]
    if differ.any() or len(one) != len(other):
        k = int(differ.argmax()) if differ.any() else shared
        is_there = k < len(one) and (k == len(other) or one[k] < other[k])
        key = int(one[k] if is_there else other[k])
        u, v = (key >> 32, key & 0xFFFFFFFF) if is_there else (key & 0xFFFFFFFF, key >> 32)
        return u, f"vertex {u + 1} lists {v + 1}, which does not list it as often"
    if weight is not None and not np.array_equal(weight, turned):
        k = int(np.not_equal(weight, turned).argmax())
        u, v = int(one[k]) >> 32, int(one[k]) & 0xFFFFFFFF
        values = f"{int(weight[k])} at one end and {int(turned[k])} at the other"
        return u, f"the edge of {u + 1} and {v + 1} has weight {values}"
    return None


def _ordered(high: NDArray[Any], low: NDArray[Any], weight: Any) -> tuple[Ints, Any]:
    """Sort pairs, packed into one integer each, and then by weight."""
    keys = high.astype(np.int64) << 32 | low
    if weight is None:
        return np.sort(keys), None
    order = np.argsort(keys, kind="stable")
    if (np.diff(keys[order]) == 0).any():
        order = np.lexsort((weight, keys))
    return keys[order], weight[order]


def write_metis(edges: EdgeArrays) -> Iterator[bytes]:
    """Yield the text of a ``.graph`` file.

    Raises
    ------
    ValueError
        If an edge is a self-loop or has no reverse, or weights are not positive integers.
    """
    offsets, dst, weight = compressed_rows(edges)
    for name, values in [("weight", weight), *edges.points.items()]:
        if values is not None and (values.dtype.kind not in "iu" or (values < 0).any()):
            raise ValueError(f"a .graph file holds positive integers; {name} has others")
    src = np.repeat(np.arange(edges.n, dtype=np.int32), np.diff(offsets))
    found = _fault(src, dst, weight)
    if found is not None:
        raise ValueError(f"a .graph file cannot hold this: {found[1]} (counted from 1)")
    given = [edges.points[name] for name in ("size", "weight") if name in edges.points]
    leads = [a[:, None] if a.ndim == 1 else a for a in given]
    lead = np.concatenate(leads, axis=1) if leads else np.empty((edges.n, 0), np.int64)
    fmt = 100 * ("size" in edges.points) + 10 * ("weight" in edges.points) + (weight is not None)
    header = b"%d %d" % (edges.n, len(dst) // 2)
    if fmt:
        header += b" %03d" % fmt
    if "weight" in edges.points:
        header += b" %d" % leads[-1].shape[1]
    yield header + b"\n"
    columns = [dst] if weight is None else [dst, weight]
    large = len(columns) * len(dst) * 8 >= compiled.LEAST
    u = 0
    while u < edges.n:
        most = int(offsets[u]) + _WRITTEN
        end = max(min(int(np.searchsorted(offsets, most, "right")) - 1, u + _WRITTEN), u + 1)
        of_edges = slice(offsets[u], offsets[end])
        part = [c[of_edges].astype(np.int64) for c in columns]
        part[0] += 1
        of_rows, rows = np.ascontiguousarray(lead[u:end], np.int64), offsets[u : end + 1]
        made = compiled.ragged_lines(rows - rows[0], of_rows, part) if large else None
        yield _text(of_rows, np.diff(rows), part) if made is None else made
        u = end


def _text(lead: NDArray[Any], degree: Ints, columns: list[NDArray[Any]]) -> bytes:
    """Format the lines of a block of vertices: each word and line end is a row of characters."""
    each = len(columns)
    length = lead.shape[1] + each * degree + 1
    ends = np.cumsum(length) - 1
    starts = ends - length + 1
    values = np.zeros(int(length.sum()), np.int64)
    for k in range(lead.shape[1]):
        values[starts + k] = lead[:, k]
    at = np.repeat(starts + lead.shape[1] - each * (np.cumsum(degree) - degree), degree)
    at += each * np.arange(at.size)
    for k, column in enumerate(columns):
        values[at + k] = column
    shown = digits(values)
    cells: NDArray[np.uint8] = np.empty((values.size, 1 + shown.shape[1]), np.uint8)
    cells[:, 1:] = shown * (shown != 32)
    cells[:, 0] = 32
    cells[starts, 0] = 0
    cells[ends, 1:] = 0
    cells[ends, 0] = 10
    text: bytes = cells[cells != 0].tobytes()
    return text
