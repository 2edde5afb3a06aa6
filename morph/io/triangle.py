"""Triangle's files: ``.node`` (vertices), ``.ele`` (triangles), ``.poly`` (segments).

The format is J. R. Shewchuk's (https://www.cs.cmu.edu/~quake/triangle.html), read strictly: every
count, number and index is checked, and a file that breaks a rule is refused with its line.
Vertices may count from 0 or from 1 in the files; in arrays they always count from 0.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.io.files import read_bytes, replacing
from morph.io.rows import format_rows
from morph.io.text import Block, Field, Scanner, StrPath
from morph.mesh import Floats, Ints, Mesh, MeshError, edge_keys, find_neighbors
from morph.verify import orientation, repeated_points

_SUFFIXES = (".node", ".ele", ".poly")
_INT32 = 2**31


@dataclass(frozen=True)
class Nodes:
    """The vertices of a ``.node`` file, or of the first part of a ``.poly`` file."""

    points: Floats
    attributes: Floats
    markers: Ints
    base: int


@dataclass(frozen=True)
class Poly:
    """The parts of a ``.poly`` file; ``block`` holds the segments as they stood."""

    nodes: Nodes
    segments: Ints
    markers: Ints
    holes: Floats
    regions: Floats
    block: Block


def mesh_base(path: StrPath) -> str:
    """Return the common name of a mesh's files, given it or any one of them."""
    name = os.fspath(path)
    stem, suffix = os.path.splitext(name)
    return stem if suffix in _SUFFIXES else name


def read_mesh(path: StrPath) -> Mesh:
    """Read a mesh from ``.node`` and ``.ele`` files and, if there is one, a ``.poly`` file.

    Without a ``.poly`` file the hull edges are the segments.  If the ``.poly`` file holds the
    vertices itself, no ``.node`` file is needed.

    Parameters
    ----------
    path : path-like
        Base name (``mesh`` or ``mesh.1``) or any of the three files.

    Raises
    ------
    FormatError
        If a file breaks its format, or the files do not fit together; names file and line.
    OSError
        If a file is missing or cannot be read.
    """
    base = mesh_base(path)
    has_poly = os.path.exists(base + ".poly") or os.fspath(path).endswith(".poly")
    if os.path.exists(base + ".node") or not has_poly:
        nodes = read_node(base + ".node")
        poly = read_poly(base + ".poly", nodes) if has_poly else None
    else:
        poly = read_poly(base + ".poly")
        nodes = poly.nodes
    triangles, attributes, block = read_ele(base + ".ele", nodes)
    try:
        neighbors = find_neighbors(triangles, len(nodes.points))
    except MeshError as error:
        s, t = error.violations[0].ids.tolist()
        first, second = s + nodes.base, t + nodes.base
        block.fail(t, f"triangles {first} and {second} overlap: they lie on one side of an edge")
    if poly is not None:
        _check_segments(poly, triangles, nodes)
    return Mesh(
        points=nodes.points,
        triangles=triangles,
        neighbors=neighbors,
        segments=poly.segments if poly else np.empty((0, 2), np.int32),
        segment_markers=poly.markers if poly else np.empty(0, np.int32),
        point_markers=nodes.markers,
        point_attributes=nodes.attributes,
        triangle_attributes=attributes,
        holes=poly.holes if poly else np.empty((0, 2)),
        regions=poly.regions if poly else np.empty((0, 4)),
        base=nodes.base,
    )


def read_node(path: StrPath) -> Nodes:
    """Read a ``.node`` file.

    Raises
    ------
    FormatError
        With file and line.
    """
    scanner = Scanner(path, _read(path))
    nodes = _nodes(scanner, "vertices")
    scanner.end("vertices")
    if len(nodes.points) == 0:
        scanner.fail("the file has no vertices", scanner.last_line())
    return nodes


def _read(path: StrPath) -> bytes:
    if not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
    return read_bytes(path)


def _nodes(scanner: Scanner, what: str) -> Nodes:
    """Read a header and the vertices it announces."""
    names = ("number of vertices", "dimension", "number of attributes", "number of markers")
    count, dimension, extra, marked = scanner.header("vertex", names, (0, 2, 0, 0))
    header = scanner.line(scanner.pos - 1)
    if dimension != 2:
        scanner.fail(f"the dimension is {dimension}, expected 2", header)
    _check_marked(scanner, marked, header)
    _check_columns(scanner, extra, header)
    fields = [Field("vertex number"), Field("x", False), Field("y", False)]
    fields += [Field(f"attribute {k + 1}", False) for k in range(extra)]
    fields += [Field("marker")] * marked
    block = scanner.block(count, fields, what)
    values = block.values
    base = _numbering(block, "vertex", None)
    points = np.ascontiguousarray(values[:, 1:3])
    for earlier, later in repeated_points(points)[:1].tolist():
        twin = f"repeats the coordinates of vertex {earlier + base}"
        block.fail(later, f"vertex {later + base} {twin}")
    attributes = np.ascontiguousarray(values[:, 3 : 3 + extra])
    return Nodes(points, attributes, _markers(block, marked), base)


def read_ele(path: StrPath, nodes: Nodes) -> tuple[Ints, Floats, Block]:
    """Read an ``.ele`` file over known vertices.

    Returns
    -------
    triangles : (m, 3) int32 array
        Counting from 0.
    attributes : (m, k) float64 array
    block : Block
        Gives later errors their line.

    Raises
    ------
    FormatError
        With file and line; also for clockwise and degenerate triangles.
    """
    scanner = Scanner(path, _read(path))
    names = ("number of triangles", "corners of a triangle", "number of attributes")
    count, corners, extra = scanner.header("triangle", names, (0, 3, 0))
    header = scanner.line(scanner.pos - 1)
    if corners != 3:
        second = " (second-order elements are not supported)" if corners == 6 else ""
        scanner.fail(f"triangles have {corners} vertices, expected 3{second}", header)
    if count == 0:
        scanner.fail("the file has no triangles", header)
    _check_columns(scanner, extra, header)
    fields = [Field("triangle number")] + [Field(f"vertex {k}") for k in (1, 2, 3)]
    fields += [Field(f"attribute {k + 1}", False) for k in range(extra)]
    block = scanner.block(count, fields, "triangles")
    scanner.end("triangles")
    base, n = nodes.base, len(nodes.points)
    _numbering(block, "triangle", base)
    for k in (1, 2, 3):
        _in_range(block, k, "triangle", base, n)
    triangles = block.values[:, 1:4].astype(np.int32) - np.int32(base)
    a, b, c = triangles[:, 0], triangles[:, 1], triangles[:, 2]
    sign = orientation(nodes.points, a, b, c)
    if (sign <= 0).any():
        row = int((sign <= 0).argmax())
        shown = " ".join(str(v + base) for v in triangles[row].tolist())
        if sign[row] < 0:
            rule = "list its vertices counter-clockwise"
            block.fail(row, f"triangle {row + base} ({shown}) is clockwise: {rule}")
        block.fail(row, f"triangle {row + base} ({shown}) is degenerate: its area is zero")
    return triangles, np.ascontiguousarray(block.values[:, 4:], np.float64), block


def read_poly(path: StrPath, nodes: Nodes | None = None) -> Poly:
    """Read a ``.poly`` file: vertices (or none, and then ``nodes``), segments, holes, regions.

    Parameters
    ----------
    path : path-like
    nodes : Nodes, optional
        The vertices of the ``.node`` file beside it.

    Raises
    ------
    FormatError
        With file and line.
    """
    scanner = Scanner(path, _read(path))
    own = _nodes(scanner, "vertices")
    header = scanner.line(scanner.pos)
    if len(own.points) == 0:
        if nodes is None:
            name = Path(mesh_base(path) + ".node").name
            scanner.fail(f"the file has no vertices, and there is no {name}", header)
        own = nodes
    elif nodes is not None:
        if not np.array_equal(own.points, nodes.points) or own.base != nodes.base:
            scanner.fail("the vertices differ from those of the .node file", header)
        own = nodes
    fields = ("number of segments", "number of markers")
    count, marked = scanner.header("segment", fields, (0, 0))
    _check_marked(scanner, marked, scanner.line(scanner.pos - 1))
    columns = [Field("segment number"), Field("vertex 1"), Field("vertex 2")]
    block = scanner.block(count, columns + [Field("marker")] * marked, "segments")
    _numbering(block, "segment", own.base)
    for k in (1, 2):
        _in_range(block, k, "segment", own.base, len(own.points))
    segments = block.values[:, 1:3].astype(np.int32) - np.int32(own.base)
    _check_ends(block, segments, own)
    markers = _markers(block, marked)
    holes = _places(scanner, "hole", [], own.base)
    regions = np.empty((0, 4))
    if scanner.skip_blank():
        extra = [Field("attribute", False), Field("maximum area", False)]
        regions = _places(scanner, "region", extra, own.base)
    scanner.end("regions")
    return Poly(own, segments, markers, holes, regions, block)


def _places(scanner: Scanner, what: str, extra: list[Field], base: int) -> Floats:
    """Read a header and the holes or regions it announces; a missing part is empty."""
    if not scanner.skip_blank():
        return np.empty((0, 2 + len(extra)))
    (count,) = scanner.header(what, (f"number of {what}s",), (0,))
    fields = [Field(f"{what} number"), Field("x", False), Field("y", False), *extra]
    block = scanner.block(count, fields, f"{what}s")
    _numbering(block, what, base)
    return np.ascontiguousarray(block.values[:, 1:])


def _check_marked(scanner: Scanner, marked: int, line: int) -> None:
    if marked > 1:
        scanner.fail(f"the number of markers is {marked}, expected 0 or 1", line)


def _check_columns(scanner: Scanner, extra: int, line: int) -> None:
    if extra > 1000:
        scanner.fail(f"the number of attributes is {extra}, expected at most 1000", line)


def _numbering(block: Block, what: str, base: int | None) -> int:
    """Check that a block's first column counts up by one; return where it starts."""
    numbers = block.values[:, 0]
    if len(numbers) == 0:
        return base or 0
    if base is None:
        base = int(numbers[0])
        if base not in (0, 1):
            block.fail(0, f"the first {what} has number {base}, expected 0 or 1")
    wrong = numbers != np.arange(base, base + len(numbers))
    if wrong.any():
        row = int(wrong.argmax())
        found = f"found {what} {int(numbers[row])}, expected {what} {row + base}"
        block.fail(row, f"{found}: numbers must follow one another, as the first vertex counts")
    return base


def _in_range(block: Block, column: int, what: str, base: int, n: int) -> None:
    """Check one column of vertex numbers."""
    values = block.values[:, column]
    wrong = (values < base) | (values >= base + n)
    if wrong.any():
        row = int(wrong.argmax())
        found = f"{what} {row + base} names vertex {int(values[row])}"
        block.fail(row, f"{found}, but vertices are {base} to {base + n - 1}")


def _markers(block: Block, marked: int) -> Ints:
    """Return the last column as markers; none at all if the file has no markers."""
    if not marked:
        return np.empty(0, np.int32)
    values = block.values[:, -1]
    wrong = (values < -_INT32) | (values >= _INT32)
    if wrong.any():
        row = int(wrong.argmax())
        block.fail(row, f"marker {int(values[row])} does not fit 32 bits")
    return values.astype(np.int32)


def _check_ends(block: Block, segments: Ints, nodes: Nodes) -> None:
    """Refuse segments of no length and segments given twice."""
    loop = segments[:, 0] == segments[:, 1]
    if loop.any():
        row = int(loop.argmax())
        block.fail(row, f"segment {row + nodes.base} joins a vertex to itself")
    keys = edge_keys(segments[:, 0], segments[:, 1], len(nodes.points))
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if len(again):
        row = int(order[again + 1].min())
        first = int(np.flatnonzero(keys == keys[row])[0])
        block.fail(row, f"segment {row + nodes.base} repeats segment {first + nodes.base}")


def _check_segments(poly: Poly, triangles: Ints, nodes: Nodes) -> None:
    """Refuse segments that are no edges of the triangles."""
    n = len(nodes.points)
    on_segment = np.zeros(n, bool)
    on_segment[poly.segments] = True
    keys = edge_keys(poly.segments[:, 0], poly.segments[:, 1], n)
    found: list[NDArray[Any]] = []
    for k in range(3):
        a, b = triangles[:, k], triangles[:, (k + 1) % 3]
        near = on_segment[a] & on_segment[b]
        found.append(edge_keys(a[near], b[near], n))
    lost = ~np.isin(keys, np.concatenate(found))
    if lost.any():
        row = int(lost.argmax())
        a, b = (poly.segments[row] + nodes.base).tolist()
        message = f"segment {row + nodes.base} ({a} {b}) is not an edge of any triangle"
        poly.block.fail(row, message)


def write_mesh(mesh: Mesh, base: StrPath) -> None:
    """Write ``base.node``, ``base.ele`` and ``base.poly``; the last leans on the first.

    Coordinates keep their exact bits; vertices count from ``mesh.base``.  The files appear under
    their names together, once all are written.

    Parameters
    ----------
    mesh : Mesh
    base : path-like
        Common name; one of the three suffixes at its end is dropped.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    name = mesh_base(base)
    with replacing(*(name + suffix for suffix in _SUFFIXES)) as files:
        for file, chunks in zip(files, (_node(mesh), _ele(mesh), _poly(mesh)), strict=True):
            for chunk in chunks:
                file.write(chunk)


def _count(rows: int, base: int) -> NDArray[np.int64]:
    return np.arange(base, base + rows)


def _node(mesh: Mesh) -> Iterator[bytes]:
    extra = mesh.point_attributes.shape[1]
    yield b"%d 2 %d 1\n" % (len(mesh.points), extra)
    yield from format_rows(
        [
            _count(len(mesh.points), mesh.base),
            *mesh.points.T,
            *mesh.point_attributes.T,
            mesh.point_markers,
        ]
    )


def _ele(mesh: Mesh) -> Iterator[bytes]:
    m, extra = mesh.triangle_attributes.shape
    yield b"%d 3 %d\n" % (m, extra)
    corners = (mesh.triangles + mesh.base).T
    yield from format_rows([_count(m, mesh.base), *corners, *mesh.triangle_attributes.T])


def _poly(mesh: Mesh) -> Iterator[bytes]:
    yield b"0 2 0 1\n%d 1\n" % len(mesh.segments)
    ends = (mesh.segments + mesh.base).T
    yield from format_rows([_count(len(mesh.segments), mesh.base), *ends, mesh.segment_markers])
    yield b"%d\n" % len(mesh.holes)
    yield from format_rows([_count(len(mesh.holes), mesh.base), *mesh.holes.T])
    if len(mesh.regions):
        yield b"%d\n" % len(mesh.regions)
        yield from format_rows([_count(len(mesh.regions), mesh.base), *mesh.regions.T])
