"""Triangle's ``.node`` files: a header, then one vertex per line.

``<vertices> 2 <attributes> <0 or 1 markers>``, then ``<number> <x> <y> [attributes] [marker]``.
The number of the first vertex, 0 or 1, is the base of all indices in the mesh's files.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

import numpy as np

from morph.io.mesh.repair import merged, report
from morph.io.text.files import map_bytes
from morph.io.text.scanner import Block, Field, Scanner, StrPath
from morph.mesh.compiled import has_repeated
from morph.mesh.mesh import Floats, Ints
from morph.mesh.validation import repeated_points

_INT32 = 2**31


@dataclass(frozen=True)
class Nodes:
    """The vertices of a ``.node`` file, or of the first part of a ``.poly`` file.

    Attributes
    ----------
    points : (n, 2) float64 array
    attributes : (n, k) float64 array
    markers : (n,) int32 array
        Empty if the file has none.
    base : int
        Number of the first vertex: 0 or 1.
    rows : (f,) int32 array or None
        Row of each of the file's f vertices, if some were merged.
    source : (str, int) or None
        If vertices may have the same coordinates: the file, and the offset of its first vertex.
    """

    points: Floats
    attributes: Floats
    markers: Ints
    base: int
    rows: Ints | None = None
    source: tuple[str, int] | None = None

    @property
    def count(self) -> int:
        """Number of vertices in the file."""
        return len(self.points) if self.rows is None else len(self.rows)

    def look_up(self, block: Block, part: int, noun: str) -> Ints:
        """Return the rows of ``points`` that a part of vertex numbers names, int32.

        A part of int32 is overwritten.
        """
        values = block.parts[part]
        first, last = self.base, self.base + self.count - 1
        if values.size and (values.min() < first or values.max() > last):
            wrong = (values < first) | (values > last)
            column = int(wrong.any(axis=0).argmax())
            row = int(wrong[:, column].argmax())
            found = f"{noun} {row + first} names vertex {int(values[row, column])}"
            block.fail(row, f"{found}, but vertices are {first} to {last}")
        rows = values if values.dtype == np.int32 else np.empty(values.shape, np.int32)
        np.subtract(values, self.base, out=rows, casting="unsafe")
        return rows if self.rows is None else self.rows[rows]

    def refuse_repeated(self, used: Ints) -> None:
        """Fail if two of the vertices that ``used`` names have the same coordinates."""
        if self.source is None or has_repeated(self.points) is False:
            return
        there = np.zeros(len(self.points), bool)
        there[used] = True
        pairs = repeated_points(self.points if there.all() else self.points[there])
        if len(pairs):
            earlier, later = np.flatnonzero(there)[pairs[0]].tolist()
            path, start = self.source
            scanner = open_scanner(path)
            line = scanner.line_of_row(start, later)
            scanner.fail(repetition(earlier + self.base, later + self.base), line)


def read_node(path: StrPath, repair: bool = False, keep: bool = False) -> Nodes:
    """Read a ``.node`` file.

    Parameters
    ----------
    path : path-like
    repair : bool
        Merge vertices that have the same coordinates into the first, with a `RepairWarning`.
    keep : bool
        Without ``repair``, keep duplicate vertices.

    Raises
    ------
    FormatError
        With file and line.
    OSError
        If the file is missing or cannot be read.
    """
    scanner = open_scanner(path)
    nodes = scan_nodes(scanner, repair, keep)
    scanner.end("vertices")
    if len(nodes.points) == 0:
        scanner.fail("the file has no vertices", scanner.last_line())
    return nodes


def open_scanner(path: StrPath) -> Scanner:
    """Read a file and create its scanner."""
    if not os.path.exists(path):
        folder = os.path.splitext("_" + os.fspath(path))[0][1:]  # also for "..node"
        if os.path.isdir(folder):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), folder)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
    return Scanner(path, map_bytes(path))


def scan_nodes(scanner: Scanner, repair: bool, keep: bool = False) -> Nodes:
    """Read a header and the vertices it announces."""
    names = ("number of vertices", "dimension", "number of attributes", "number of markers")
    count, dimension, extra, marked = scanner.header("vertex", names, (0, 2, 0, 0))
    header = scanner.line(scanner.pos - 1)
    if dimension != 2:
        scanner.fail(f"the dimension is {dimension}, expected 2", header)
    check_marked(scanner, marked, header)
    check_columns(scanner, extra, header)
    fields = [Field("vertex number"), Field("x", False), Field("y", False)]
    fields += [Field(f"attribute {k + 1}", False) for k in range(extra)]
    fields += [Field("marker")] * marked
    block = scanner.block(count, fields, "vertices", (1, 2, extra, marked))
    base = numbering(block, "vertex", None)
    points, attributes = (np.ascontiguousarray(part, np.float64) for part in block.parts[1:3])
    markers = marker_column(block, marked)
    if keep and not repair:
        source = (scanner.path, block.start)
        return Nodes(points, attributes, markers, base, source=source)
    pairs = repeated_points(points)
    if not len(pairs):
        return Nodes(points, attributes, markers, base)
    earlier, later = (pairs[0] + base).tolist()
    message = repetition(earlier, later)
    if not repair:
        block.fail(later - base, message)
    report(block, pairs[:, 1], f"{message}: merged")
    kept, rows = merged(pairs, count)
    return Nodes(points[kept], attributes[kept], markers[kept] if marked else markers, base, rows)


def repetition(earlier: int, later: int) -> str:
    """Describe two vertices with the same coordinates."""
    return f"vertex {later} repeats the coordinates of vertex {earlier}"


def check_marked(scanner: Scanner, marked: int, line: int) -> None:
    """Reject more than one marker per item."""
    if marked > 1:
        scanner.fail(f"the number of markers is {marked}, expected 0 or 1", line)


def check_columns(scanner: Scanner, extra: int, line: int) -> None:
    """Reject an implausible number of attributes."""
    if extra > 1000:
        scanner.fail(f"the number of attributes is {extra}, expected at most 1000", line)


def numbering(block: Block, noun: str, base: int | None) -> int:
    """Check that a block's first column counts up by one; return its first value."""
    numbers = block.values[:, 0]
    if len(numbers) == 0:
        return base or 0
    if base is None:
        base = int(numbers[0])
        if base not in (0, 1):
            block.fail(0, f"the first {noun} has number {base}, expected 0 or 1")
    expected = np.arange(base, base + len(numbers), dtype=numbers.dtype)
    if not np.array_equal(numbers, expected):
        row = int((numbers != expected).argmax())
        found = f"found {noun} {int(numbers[row])}, expected {noun} {row + base}"
        block.fail(row, f"{found}: numbers must follow one another, as the first vertex counts")
    return base


def marker_column(block: Block, marked: int) -> Ints:
    """Return the last part as markers; empty if the file has no markers."""
    if not marked:
        return np.empty(0, np.int32)
    values = block.parts[-1][:, 0]
    wrong = (values < -_INT32) | (values >= _INT32)
    if wrong.any():
        row = int(wrong.argmax())
        block.fail(row, f"marker {int(values[row])} does not fit 32 bits")
    return np.ascontiguousarray(values, np.int32)
