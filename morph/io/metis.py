"""METIS ``.graph`` files: line u + 1 lists the neighbours of vertex u; every edge is there twice.

The header is ``n m``, or ``n m fmt``, or ``n m fmt ncon``: m counts edges once; the digits of
``fmt`` say whether vertices have sizes (100), vertices have weights (10, ``ncon`` of each), and
edges have weights (1).  A line is then: size, weights, and neighbour (from 1) and weight of each
edge.  Lines that begin with ``%`` are comments; a blank line is a vertex without edges.  Format:
the manual of METIS 5, section 4.1.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from morph.io.edges import MAX_VERTICES, EdgeArrays, compressed_rows, narrow
from morph.io.rows import digits
from morph.io.text import CHUNK, Field, FormatError, Scanner, StrPath

_COMMENT = re.compile(rb"^%[^\n]*", re.MULTILINE)
_ONE_A_LINE = bytes.maketrans(b" \t\r\v\f", b"\n" * 5)
_WRITTEN = 1 << 19  # words at once
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Header:
    n: int
    m: int
    sizes: int  # of a vertex: 0 or 1
    constraints: int  # weights of a vertex
    weights: int  # of an edge: 0 or 1
    line: int
    behind: int  # offset of the line after it


def read_metis(path: StrPath, data: bytes) -> EdgeArrays:
    """Read the bytes of a ``.graph`` file: both arcs of every edge, as they stand there.

    Raises
    ------
    FormatError
        With file and line.
    """
    plain = data
    if b"%" in data:
        plain = _COMMENT.sub(lambda found: b" " * len(found[0]), data)
    head = _header(path, plain)
    starts, count = _lines(path, data, plain, head)

    def fail(u: int, message: str) -> NoReturn:
        raise FormatError(path, data.count(b"\n", 0, int(starts[u])) + 1, message)

    lead, each = head.sizes + head.constraints, 1 + head.weights
    odd = (count < lead) | ((count - lead) % each != 0)
    if odd.any():
        u = int(odd.argmax())
        form = ["size"] * head.sizes + ["weight"] * head.constraints
        form.append("neighbour weight ..." if head.weights else "neighbour ...")
        fail(u, f"vertex {u + 1} has {int(count[u])} numbers, expected: {' '.join(form)}")
    words = _words(path, plain, head.behind, int(count.sum()))
    first = np.cumsum(count) - count  # word of each vertex
    degree = (count - lead) // each
    src = np.repeat(np.arange(head.n, dtype=np.int32), degree)
    points = _of_points(head, first, words)
    if lead:  # what is of edges, behind what is of vertices
        at = np.repeat(first + lead - each * (np.cumsum(degree) - degree), degree)
        at += each * np.arange(at.size)
        dst, weight = words[at], words[at + 1] if head.weights else None
    else:
        dst, weight = words[::each], words[1::each] if head.weights else None
    wrong = (dst < 1) | (dst > head.n)
    if wrong.any():
        k = int(wrong.argmax())
        said = f"vertex {int(dst[k])} is out of range: vertices are 1 to {head.n}"
        fail(int(src[k]), said)
    dst = (dst - 1).astype(np.int32)
    weight = None if weight is None else narrow(weight)
    del words
    found = _fault(src, dst, weight)
    if found is not None:
        fail(*found)
    if src.size != 2 * head.m:
        said = f"the header says {head.m} edges, and the lines have {src.size // 2}"
        raise FormatError(path, head.line, said)
    return EdgeArrays(src, dst, weight, head.n, symmetric=True, points=points)


def _header(path: StrPath, data: bytes) -> _Header:
    scanner = Scanner(path, data, b"")
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
    if not weighted and constraints > 1:  # METIS, too, writes 1 without meaning it
        scanner.fail(f"ncon is {constraints}, and fmt {fmt:03} gives vertices no weights", line)
    constraints = abs(constraints) if weighted else 0
    return _Header(n, m, fmt // 100, constraints, fmt % 10, line, scanner.pos)


def _lines(path: StrPath, data: bytes, plain: bytes, head: _Header) -> tuple[Ints, Ints]:
    """Find where the line of each vertex begins in the file, and count its words."""
    raw = np.frombuffer(plain, np.uint8)[head.behind :]
    starts = np.append(0, np.flatnonzero(raw == 10) + 1)
    starts = starts[starts < raw.size]
    count = np.diff(_words_before(raw, np.append(starts, raw.size)))
    starts += head.behind
    kept = np.frombuffer(data, np.uint8)[starts] != ord("%")
    starts, count = starts[kept], count[kept]
    if len(starts) < head.n:
        there = f"the file ends after {len(starts)} of {head.n} vertices"
        raise FormatError(path, data.count(b"\n", 0, len(data.rstrip())) + 1, there)
    if count[head.n :].any():
        k = head.n + int((count[head.n :] > 0).argmax())
        line = data.count(b"\n", 0, int(starts[k])) + 1
        raise FormatError(path, line, f"a line after the last of {head.n} vertices")
    return starts[: head.n], count[: head.n]


def _words_before(raw: NDArray[np.uint8], places: Ints) -> Ints:
    """Count the words that begin before each of some ascending places."""
    ink = raw > 32
    ink[1:] &= raw[:-1] <= 32  # first characters of words
    out, total = np.empty(places.size, np.int64), 0
    for start in range(0, raw.size + 1, CHUNK):
        sums = np.cumsum(ink[start : start + CHUNK], dtype=np.int32)
        sums = np.append(np.int32(0), sums)
        lo, hi = np.searchsorted(places, (start, start + CHUNK))
        out[lo:hi] = sums[places[lo:hi] - start] + total
        total += int(sums[-1])
    return out


def _words(path: StrPath, data: bytes, start: int, expected: int) -> Ints:
    """Parse all words, as if each stood in a line of its own."""
    scanner = Scanner(path, data.translate(_ONE_A_LINE), b"")
    scanner.pos = start
    try:
        words = scanner.rest([Field("number")]).values[:, 0]
    except FormatError as error:
        breaks = np.flatnonzero(np.frombuffer(scanner.data, np.uint8) == 10)
        at = int(breaks[error.line - 2]) + 1 if error.line and error.line > 1 else 0
        raise FormatError(path, data.count(b"\n", 0, at) + 1, error.message) from None
    if words.size != expected:  # only control characters are counted otherwise
        raise FormatError(path, None, "binary data where text is expected")
    return words


def _of_points(head: _Header, first: Ints, words: Ints) -> dict[str, NDArray[Any]]:
    """Give the sizes and the weights of vertices, if there are any."""
    points = {}
    if head.sizes:
        points["size"] = narrow(words[first])
    if head.constraints:
        columns = words[first[:, None] + np.arange(head.sizes, head.sizes + head.constraints)]
        points["weight"] = narrow(columns[:, 0] if head.constraints == 1 else columns)
    return points


def _fault(
    src: NDArray[Any], dst: NDArray[Any], weight: NDArray[Any] | None
) -> tuple[int, str] | None:
    """Find what no METIS graph has, and a vertex at which it is: loops, weights, one-way edges."""
    if (src == dst).any():
        u = int(src[(src == dst).argmax()])
        return u, f"vertex {u + 1} is its own neighbour"
    if weight is not None and weight.min(initial=1) < 1:
        k = int((weight < 1).argmax())
        return int(src[k]), f"an edge has weight {int(weight[k])}: METIS wants positive ones"
    if _mirrored(src, dst, weight):
        return None
    down, up = np.flatnonzero(src > dst), np.flatnonzero(src < dst)
    ends = [(src[down], dst[down]), (dst[up], src[up])]
    keys = [high.astype(np.int64) << 32 | low for high, low in ends]
    weights: list[Any] = [None if weight is None else weight[k] for k in (down, up)]
    for k in (0, 1):
        keys[k], weights[k] = _ordered(keys[k], weights[k])
    (one, other), shared = keys, min(len(keys[0]), len(keys[1]))
    differ = one[:shared] != other[:shared]
    if differ.any() or len(one) != len(other):
        k = int(differ.argmax()) if differ.any() else shared
        is_down = k < len(one) and (k == len(other) or one[k] < other[k])
        key = int(one[k] if is_down else other[k])
        high, low = key >> 32, key & 0xFFFFFFFF
        u, v = (high, low) if is_down else (low, high)
        return u, f"vertex {u + 1} lists {v + 1}, which does not list it as often"
    if weight is not None and not np.array_equal(*weights):
        k = int(np.not_equal(*weights).argmax())
        u, v = int(one[k]) >> 32, int(one[k]) & 0xFFFFFFFF
        here, there = (int(w[k]) for w in weights)
        told = f"{here} at one end and {there} at the other"
        return u, f"the edge of {u + 1} and {v + 1} has weight {told}"
    return None


def _mirrored(src: NDArray[Any], dst: NDArray[Any], weight: NDArray[Any] | None) -> bool:
    """Whether arcs in order, none of them twice, are the same the other way; False if unsure."""
    words = src.astype(np.int64) << 32 | dst
    if not (words[1:] > words[:-1]).all():
        return False
    turned = dst.astype(np.int64) << 32 | src
    if weight is None:
        turned.sort()
        return bool((words == turned).all())
    order = np.argsort(turned)
    return bool((words == turned[order]).all() and (weight == weight[order]).all())


def _ordered(keys: Ints, weight: Any) -> tuple[Ints, Any]:
    """Sort by key, and then by weight."""
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
        If an edge is a loop or lacks its reverse, or weights are not positive integers.
    """
    offsets, dst, weight = compressed_rows(edges)
    for name, values in [("weight", weight), *edges.points.items()]:
        if values is not None and (values.dtype.kind not in "iu" or (values < 0).any()):
            raise ValueError(f"a .graph file holds positive integers; {name} has others")
    src = np.repeat(np.arange(edges.n, dtype=np.int32), np.diff(offsets))
    found = _fault(src, dst, weight)
    if found is not None:
        raise ValueError(f"a .graph file cannot hold this: {found[1]} (counted from 1)")
    leads = [edges.points[name].reshape(edges.n, -1) for name in ("size", "weight")
             if name in edges.points]  # fmt: skip
    lead = np.concatenate(leads, axis=1) if leads else np.empty((edges.n, 0), np.int64)
    fmt = 100 * ("size" in edges.points) + 10 * ("weight" in edges.points) + (weight is not None)
    header = b"%d %d" % (edges.n, len(dst) // 2)
    if fmt:
        header += b" %03d" % fmt
    if "weight" in edges.points:
        header += b" %d" % leads[-1].shape[1]
    yield header + b"\n"
    columns = [dst.astype(np.int64) + 1] if weight is None else [dst.astype(np.int64) + 1, weight]
    u = 0
    while u < edges.n:
        most = int(offsets[u]) + _WRITTEN
        end = max(min(int(np.searchsorted(offsets, most, "right")) - 1, u + _WRITTEN), u + 1)
        of_edges = slice(offsets[u], offsets[end])
        yield _text(lead[u:end], np.diff(offsets[u : end + 1]), [c[of_edges] for c in columns])
        u = end


def _text(lead: NDArray[Any], degree: Ints, columns: list[NDArray[Any]]) -> bytes:
    """Write the lines of some vertices: each word and each line's end is a row of characters."""
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
