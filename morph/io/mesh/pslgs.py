"""Triangle's ``.poly`` files: vertices, segments, holes, and regions.

The vertices are as in a ``.node`` file; if there are none, those of the ``.node`` file beside it.
A segment is ``<number> <end> <end> [marker]``, a hole ``<number> <x> <y>``, a region
``<number> <x> <y> <attribute> <maximum area>``; the default maximum area is the attribute.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from morph.io.mesh.formats import TRIANGLE, format_of, format_of_file
from morph.io.mesh.nodes import (
    Nodes,
    check_marked,
    marker_column,
    numbering,
    open_scanner,
    read_node,
    scan_nodes,
)
from morph.io.mesh.repair import first_twins, report
from morph.io.text.files import named, replacing
from morph.io.text.formats import suffix_of
from morph.io.text.rows import check_finite, counted, format_rows
from morph.io.text.scanner import Block, Field, FormatError, Scanner, StrPath
from morph.language.arguments import boolean, check_type
from morph.language.messages import shown
from morph.mesh import Pslg
from morph.mesh.mesh import Floats, Ints, Mesh


@dataclass(frozen=True)
class Poly:
    """The parts of a ``.poly`` file.

    Attributes
    ----------
    nodes : Nodes
    segments : (s, 2) int32 array
    markers : (s,) int32 array
        Empty if the file has none.
    holes : (h, 2) float64 array
    regions : (r, 4) float64 array
    block : Block
        The segment lines, for the line numbers of later errors.
    items : (s,) int64 array
        Row of each segment in the block.
    """

    nodes: Nodes
    segments: Ints
    markers: Ints
    holes: Floats
    regions: Floats
    block: Block
    items: NDArray[np.int64]


def file_base(path: StrPath) -> str:
    """Return the base name of a mesh's files, given the base name or one of the files."""
    name = named(path)
    stem, suffix = os.path.splitext(name)
    return stem if suffix in TRIANGLE else name


def read_pslg(path: StrPath, repair: bool = False, duplicates: str = "refuse") -> Pslg:
    """Read a planar straight-line graph from a ``.poly`` or a ``.node`` file.

    If a ``.poly`` file contains its vertices, no other file is read.  If it has 0 vertices, they
    are read from the ``.node`` file of the same name.  A ``.node`` file alone has no segments.
    Without a column of markers, all are 0; `morph.triangulate` marks the boundary.

    Parameters
    ----------
    path : path-like
        A ``.poly`` file, a ``.node`` file, or their base name, for which the ``.poly`` file is
        preferred.
    repair : bool
        Merge vertices with the same coordinates into the first of them, and drop duplicate segments
        and segments from a vertex to itself, with a `RepairWarning` for each kind.
    duplicates : {"refuse", "keep"}
        Without ``repair``, vertices with the same coordinates are an error, or are kept for
        `morph.triangulate` with ``duplicates="merge"``; then segments from a vertex to itself are
        dropped, with a `RepairWarning`.

    Raises
    ------
    ValueError
        If ``duplicates`` is neither ``"refuse"`` nor ``"keep"``.
    FormatError
        If a file violates its format; names file and line.
    OSError
        If a file is missing or cannot be read.
    """
    repair = boolean(repair, "repair")
    if duplicates not in ("refuse", "keep"):
        raise ValueError(f"duplicates is 'refuse' or 'keep', not {shown(duplicates)}")
    if format_of_file(path):
        raise FormatError(
            path, None, "a graph is read from a .poly or .node file; this is a mesh's"
        )
    keep = duplicates == "keep"
    base, name = file_base(path), named(path)
    if name.endswith(".node") or not (name.endswith(".poly") or os.path.exists(base + ".poly")):
        nodes = read_node(base + ".node", repair, keep)
        return Pslg(
            points=nodes.points,
            point_markers=_full(nodes.markers, nodes.points),
            point_attributes=nodes.attributes,
            base=nodes.base,
        )
    poly = read_poly(base + ".poly", None, repair, keep)
    nodes = poly.nodes
    return Pslg(
        points=nodes.points,
        segments=poly.segments,
        segment_markers=_full(poly.markers, poly.segments),
        point_markers=_full(nodes.markers, nodes.points),
        point_attributes=nodes.attributes,
        holes=poly.holes,
        regions=poly.regions,
        base=nodes.base,
    )


def _full(markers: Ints, items: NDArray[np.generic]) -> Ints:
    return markers if len(markers) else np.zeros(len(items), np.int32)


def read_poly(
    path: StrPath, nodes: Nodes | None = None, repair: bool = False, keep: bool = False
) -> Poly:
    """Read a ``.poly`` file.

    Parameters
    ----------
    path : path-like
    nodes : Nodes, optional
        The vertices of the ``.node`` file beside it, which must equal those of the ``.poly`` file.
        By default those of the ``.poly`` file, or, if it has none, of the ``.node`` file.
    repair : bool
        As for `read_pslg`.
    keep : bool
        As ``duplicates="keep"`` of `read_pslg`.

    Raises
    ------
    FormatError
        With file and line.
    OSError
        If the file is missing or cannot be read.
    """
    scanner = open_scanner(path)
    own = scan_nodes(scanner, repair, keep)
    header = scanner.line(scanner.pos)
    if len(own.points) == 0:
        beside = file_base(path) + ".node"
        if nodes is None and not os.path.exists(beside):
            name = Path(beside).name
            scanner.fail(f"the file has no vertices, and there is no {name}", header)
        own = read_node(beside, repair, keep) if nodes is None else nodes
    elif nodes is not None:
        if not np.array_equal(own.points, nodes.points) or own.base != nodes.base:
            scanner.fail("the vertices differ from those of the .node file", header)
        own = nodes
    fields = ("number of segments", "number of markers")
    count, marked = scanner.header("segment", fields, (0, 0))
    check_marked(scanner, marked, scanner.line(scanner.pos - 1))
    columns = [Field("segment number"), Field("vertex 1"), Field("vertex 2")]
    columns += [Field("marker")] * marked
    block = scanner.block(count, columns, "segments", (1, 2, marked))
    numbering(block, "segment", own.base)
    segments = own.look_up(block, 1, "segment")
    items = _check_ends(block, segments, own.base, repair, keep)
    markers = marker_column(block, marked)
    holes = _places(scanner, "hole", own.base)
    regions = _places(scanner, "region", own.base)
    scanner.end("regions")
    if len(items) < count:
        segments, markers = segments[items], markers[items] if marked else markers
    return Poly(own, segments, markers, holes, regions, block, items)


def _places(scanner: Scanner, noun: str, base: int) -> Floats:
    """Read a header and the holes or regions it announces; a missing part is empty."""
    fields = [Field(f"{noun} number"), Field("x", False), Field("y", False)]
    width = 2
    if noun == "region":
        fields += [Field("attribute", False), Field("maximum area", False)]
        width = 4
    if not scanner.skip_blank():
        return np.empty((0, width))
    (count,) = scanner.header(noun, (f"number of {noun}s",), (0,))
    if count and noun == "region" and len(scanner.peek()) == 4:
        fields.pop()
    block = scanner.block(count, fields, f"{noun}s", (1, len(fields) - 1))
    numbering(block, noun, base)
    values = block.parts[1]
    if values.shape[1] < width:
        values = values[:, [0, 1, 2, 2]]
    return np.ascontiguousarray(values)


def _check_ends(
    block: Block, segments: Ints, base: int, repair: bool, keep: bool
) -> NDArray[np.int64]:
    """Reject or drop segments of no length and duplicate segments; returns the others."""
    loop = np.flatnonzero(segments[:, 0] == segments[:, 1])
    if len(loop):
        message = f"segment {loop[0] + base} joins a vertex to itself"
        if not (repair or keep):
            block.fail(loop[0], message)
        report(block, loop, f"{message}: dropped")
    items = np.delete(np.arange(len(segments)), loop)
    ends = np.sort(segments[items], axis=1).astype(np.int64)
    later, earlier = first_twins(ends[:, 0] << 32 | ends[:, 1])
    if len(later):
        one, two = int(items[earlier[0]]) + base, int(items[later[0]]) + base
        message = f"segment {two} repeats segment {one}"
        if not repair:
            block.fail(two - base, message)
        report(block, items[later], f"{message}: dropped")
    return np.delete(items, later)


def write_pslg(pslg: Pslg, path: StrPath) -> None:
    """Write a ``.poly`` file that contains its vertices.

    Numbers are written exactly.  The file is written atomically.

    Parameters
    ----------
    pslg : Pslg
    path : path-like
        With or without the suffix ``.poly``.

    Raises
    ------
    ValueError
        If a coordinate or attribute is not finite, or the suffix is of another format.
    OSError
        If the file cannot be written.
    """
    check_type(pslg, "pslg", "Pslg")
    if format_of(path):
        raise ValueError(f"a graph is written as .poly: no {suffix_of(path)}")
    check_finite(points=pslg.points, point_attributes=pslg.point_attributes)
    check_finite(holes=pslg.holes, regions=pslg.regions[:, :3])
    with replacing(file_base(path) + ".poly") as (file,):
        for chunk in node_lines(pslg.points, pslg.point_attributes, pslg.point_markers, pslg.base):
            file.write(chunk)
        for chunk in segment_lines(pslg):
            file.write(chunk)


def node_lines(points: Floats, attributes: Floats, markers: Ints, base: int) -> Iterator[bytes]:
    """Yield the text of a ``.node`` file; empty markers are not written."""
    extra = attributes.shape[1] if len(points) else 0
    marked = [markers] if len(markers) else []
    yield b"%d 2 %d %d\n" % (len(points), extra, len(marked))
    yield from format_rows([counted(points, base), *points.T, *attributes.T[:extra], *marked])


def segment_lines(graph: Pslg | Mesh) -> Iterator[bytes]:
    """Yield the part of a ``.poly`` file after the vertices; regions without a limit have -1."""
    base, ends = graph.base, (graph.segments + graph.base).T
    marked = [graph.segment_markers] if len(graph.segment_markers) else []
    yield b"%d %d\n" % (len(graph.segments), len(marked))
    yield from format_rows([counted(graph.segments, base), *ends, *marked])
    yield b"%d\n" % len(graph.holes)
    yield from format_rows([counted(graph.holes, base), *graph.holes.T])
    if len(graph.regions):
        x, y, attribute, area = graph.regions.T
        limits = np.where(np.isfinite(area), area, -1.0)
        yield b"%d\n" % len(graph.regions)
        yield from format_rows([counted(graph.regions, base), x, y, attribute, limits])
