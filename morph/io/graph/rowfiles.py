"""Binary CSR files: Galois's ``.gr``, and ``.egr`` of the ECL codes.

Galois, all numbers little-endian: four 64-bit words (version, bytes of an edge's data, n, m); of
each vertex the 64-bit offset behind its last edge; the ends, of 32 bits in version 1 (then 4
bytes of padding if m is odd) and 64 in version 2; the data of the edges.  Format: ``FileGraph``
of the Galois system, written by its ``graph-convert``.

ECL, 32-bit integers throughout: n, m, n + 1 offsets from 0 to m, the ends, and, if the file
continues, m weights.  Format: ``ECLgraph.h`` of the ECL codes of Texas State University.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from morph.io.graph.edges import MAX_VERTICES, EdgeArrays, compressed_rows
from morph.io.text.scanner import FormatError, StrPath

_VERSIONS = {1: np.dtype("<u4"), 2: np.dtype("<u8")}
_LARGEST = 2**31 - 1
Bytes = NDArray[np.uint8]


def is_galois(head: bytes) -> bool:
    """Return whether a file with this head is Galois's: no text file begins with these bytes."""
    return head[:8] in (b"\1" + bytes(7), b"\2" + bytes(7))


class _Parts:
    """The consecutive arrays of a file."""

    def __init__(self, path: StrPath, data: Bytes) -> None:
        self.path = path
        self.data = data
        self.pos = 0

    @property
    def left(self) -> int:
        return self.data.size - self.pos

    def fail(self, message: str, at: int) -> NoReturn:
        raise FormatError(self.path, None, f"byte {at}: {message}")

    def take(self, count: int, dtype: Any, noun: str) -> NDArray[Any]:
        """Return the next array, which is a view."""
        dtype = np.dtype(dtype)
        if count * dtype.itemsize > self.left:
            there = f"{self.left // dtype.itemsize} of {count} are there"
            self.fail(f"the file ends in the {noun}: {there}", self.data.size)
        found = np.frombuffer(self.data, dtype, count, self.pos) if count else np.empty(0, dtype)
        self.pos += count * dtype.itemsize
        return found

    def end(self) -> None:
        """Check that the file ends here."""
        if self.left:
            self.fail(f"{self.left} bytes are left over", self.pos)


def read_galois(
    path: StrPath, data: Bytes, weight_type: Any = None, share: tuple[int, int] = (0, 1)
) -> EdgeArrays:
    """Read the bytes of a Galois ``.gr`` file, or a share of its edges: (1, 3) is the second third.

    The file does not contain the type of its edge data: by default, 4 bytes are unsigned integers
    and 8 bytes signed integers; ``weight_type`` is another type of the same size.

    Raises
    ------
    FormatError
        With file and byte.
    """
    parts = _Parts(path, data)
    version, size, n, m = (int(v) for v in parts.take(4, "<u8", "header"))
    if version not in _VERSIONS:
        parts.fail(f"version {version}: known are 1 and 2", 0)
    weight_dtype = _weight_dtype(parts, size, weight_type)
    _check_sizes(parts, n, m, (16, 24))
    start = parts.pos
    ends = parts.take(n, "<u8", "offsets")
    wrong = np.append(ends[:1] > m, (ends[1:] < ends[:-1]) | (ends[1:] > m))
    if wrong.any():
        k = int(wrong.argmax())
        before = int(ends[k - 1]) if k else 0
        message = f"the offset {int(ends[k])} behind the edges of vertex {k}"
        parts.fail(f"{message} is not from {before} to {m}", start + 8 * k)
    if (int(ends[-1]) if n else 0) != m:
        last = int(ends[-1]) if n else 0
        parts.fail(f"the vertices have {last} edges, and the header says {m}", 24)
    start = parts.pos
    first, last = m * share[0] // share[1], m * (share[0] + 1) // share[1]
    dst = parts.take(m, _VERSIONS[version], "ends of edges")[first:last]
    _check_ends(parts, dst, n, start + dst.itemsize * first)
    if version == 1 and m % 2:
        if size or parts.left:  # without edge data, some writers omit the padding
            parts.take(1, "<u4", "padding")
    weight = None
    if weight_dtype is not None:
        weight = parts.take(m, weight_dtype, "edge data")[first:last]
        if weight_type is None:
            weight = _signed(weight)
    parts.end()
    degree = np.diff(np.clip(ends.view("<i8"), first, last), prepend=first)
    src = np.repeat(np.arange(n, dtype=np.int32), degree)
    dst = dst.view("<i4") if version == 1 else dst  # checked above: below 2^31
    return EdgeArrays(src, dst.astype(np.int32, copy=False), weight, n)


def _weight_dtype(parts: _Parts, size: int, given: Any) -> np.dtype[Any] | None:
    """Return the type of the edge data; None if there is none."""
    if size == 0:
        return None
    if given is None:
        if size not in (4, 8):
            parts.fail(f"edge data of {size} bytes: weights have 4 or 8", 8)
        return np.dtype("<u4" if size == 4 else "<i8")
    dtype: np.dtype[Any] = np.dtype(given).newbyteorder("<")
    if dtype.itemsize != size:
        parts.fail(f"edge data of {size} bytes are no {np.dtype(given)}", 8)
    return dtype


def _signed(weight: NDArray[Any]) -> NDArray[Any]:
    """Convert uint32 to int32 if all values fit, which is a view, else to int64."""
    if weight.dtype.kind == "u":
        fits = int(weight.max(initial=0)) <= _LARGEST
        return weight.view("<i4") if fits else weight.astype(np.int64)
    return weight


def read_ecl(path: StrPath, data: Bytes, share: tuple[int, int] = (0, 1)) -> EdgeArrays:
    """Read the bytes of an ``.egr`` file, or a share of its edges, see `read_galois`.

    Raises
    ------
    FormatError
        With file and byte.
    """
    parts = _Parts(path, data)
    n, m = (int(v) for v in parts.take(2, "<i4", "header"))
    _check_sizes(parts, n, m, (0, 4))
    start = parts.pos
    offsets = parts.take(n + 1, "<i4", "offsets")
    if int(offsets[0]):
        parts.fail(f"the first offset is {int(offsets[0])}, not 0", start)
    wrong = (offsets[1:] < offsets[:-1]) | (offsets[1:] > m)
    if wrong.any():
        k = int(wrong.argmax())
        message = f"the offset {int(offsets[k + 1])} behind the edges of vertex {k}"
        parts.fail(f"{message} is not from {int(offsets[k])} to {m}", start + 4 * (k + 1))
    if int(offsets[-1]) != m:
        last = int(offsets[-1])
        parts.fail(f"the vertices have {last} edges, and the header says {m}", 4)
    start = parts.pos
    first, last = m * share[0] // share[1], m * (share[0] + 1) // share[1]
    dst = parts.take(m, "<i4", "ends of edges")[first:last]
    _check_ends(parts, dst, n, start + 4 * first)
    weight = parts.take(m, "<i4", "weights")[first:last] if parts.left else None
    parts.end()
    src = np.repeat(np.arange(n, dtype=np.int32), np.diff(np.clip(offsets, first, last)))
    weight = None if weight is None else weight.astype(np.int32, copy=False)
    return EdgeArrays(src, dst.astype(np.int32, copy=False), weight, n)


def _check_sizes(parts: _Parts, n: int, m: int, at: tuple[int, int]) -> None:
    if not 0 <= n <= MAX_VERTICES:
        parts.fail(f"{n} vertices: expected 0 to {MAX_VERTICES}", at[0])
    if m < 0:
        parts.fail(f"{m} edges", at[1])


def _check_ends(parts: _Parts, dst: NDArray[Any], n: int, start: int) -> None:
    if dst.size and not 0 <= int(dst.min()) <= int(dst.max()) < n:
        k = int(((dst < 0) | (dst >= n)).argmax())
        message = f"vertex {int(dst[k])} is out of range: vertices are 0 to {n - 1}"
        parts.fail(message, start + dst.itemsize * k)


def write_galois(edges: EdgeArrays) -> Iterator[Any]:
    """Yield the bytes of a Galois file of version 1.

    Raises
    ------
    ValueError
        If weights are not integers of the reader's default types: 0 to 2^32 - 1, or signed 64-bit.
    """
    offsets, dst, weight = compressed_rows(edges)
    if weight is not None:
        weight = _galois_weight(weight)
    size = 0 if weight is None else weight.itemsize
    yield np.array([1, size, edges.n, dst.size], "<u8").tobytes()
    yield offsets[1:].astype("<u8").tobytes()
    yield dst.astype("<u4").tobytes()
    if dst.size % 2:
        yield bytes(4)
    if weight is not None:
        yield weight.tobytes()


def _galois_weight(weight: NDArray[Any]) -> NDArray[Any]:
    low, high = (weight.min(), weight.max()) if weight.size else (0, 0)
    if weight.dtype.kind not in "iu" or high > 2**63 - 1:
        raise ValueError(
            "a Galois .gr file does not say what its weights are: signed 64-bit integers only"
        )
    return weight.astype("<u4" if low >= 0 and high < 2**32 else "<i8")


def write_ecl(edges: EdgeArrays) -> Iterator[Any]:
    """Yield the bytes of an ``.egr`` file.

    Raises
    ------
    ValueError
        If weights are not 32-bit integers, or there are 2^31 or more arcs.
    """
    offsets, dst, weight = compressed_rows(edges)
    if dst.size > _LARGEST:
        raise ValueError(f"an .egr file holds at most {_LARGEST} arcs, not {dst.size}")
    if weight is not None:
        low, high = (weight.min(), weight.max()) if weight.size else (0, 0)
        if weight.dtype.kind not in "iu" or low < -(2**31) or high > _LARGEST:
            raise ValueError("an .egr file holds weights that are integers of 32 bits")
    yield np.array([edges.n, dst.size], "<i4").tobytes()
    yield offsets.astype("<i4").tobytes()
    yield dst.astype("<i4").tobytes()
    if weight is not None:
        yield weight.astype("<i4").tobytes()
