"""Meshes in Triangle's files (https://www.cs.cmu.edu/~quake/triangle.html), read strictly.

Every count, number and index is checked, and a file that breaks a rule is refused with its line.
Vertices may count from 0 or from 1 in the files; in arrays they always count from 0.  Comments
reach from ``#`` to the end of a line, anywhere; lines end in LF or CRLF; text is plain ASCII.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.io.mesh.bridges import read_foreign, write_foreign
from morph.io.mesh.elements import read_ele
from morph.io.mesh.formats import is_foreign, is_foreign_file, suffix_of
from morph.io.mesh.nodes import Nodes, read_node
from morph.io.mesh.pslgs import Poly, file_base, node_lines, read_poly, segment_lines
from morph.io.mesh.second_order import look_up, second_order, without_middles
from morph.io.mesh.sides import edge_lines, neighbor_lines
from morph.io.mesh.voronoi import voronoi_parts
from morph.io.text.files import replacing
from morph.io.text.rows import check_finite, counted, format_rows
from morph.io.text.scanner import StrPath
from morph.language.messages import shown
from morph.mesh.mesh import Floats, Ints, Mesh, edge_keys


def read_mesh(path: StrPath, repair: bool = False) -> Mesh:
    """Read a mesh from ``.node`` and ``.ele`` files and, if there is one, a ``.poly`` file.

    Without a ``.poly`` file the hull edges are the segments.  If the ``.poly`` file holds the
    vertices itself, no ``.node`` file is needed.  Second-order elements are checked, and become
    the mesh of their corners: nodes in the middle of edges are left behind.  Vertices with the same
    coordinates are an error unless all but one of them are in no triangle.

    Parameters
    ----------
    path : path-like
        Base name (``mesh`` or ``mesh.1``) or any of the three files; or a file of another format,
        which its suffix tells (``.msh``, ``.vtu``): meshio reads it, see `from_meshio`.
    repair : bool
        Make repairs that are unambiguous: turn clockwise triangles, merge vertices with the same
        coordinates into the first of them, drop triangles and segments that then have two ends
        in one place or are there twice.  Each kind is told by a `RepairWarning` with file, line
        and number of cases.  What else is wrong stays an error.

    Raises
    ------
    FormatError
        If a file breaks its format, or the files do not fit together; names file and line.
    ValueError
        If the suffix is no format's, or another format is to be repaired.
    ImportError
        If meshio is needed and not installed.
    OSError
        If a file is missing or cannot be read.
    """
    if is_foreign_file(path):
        if repair:
            raise ValueError(f"repair is for Triangle's files, not for a {suffix_of(path)}")
        return read_foreign(path)
    base = file_base(path)
    has_poly = os.path.exists(base + ".poly") or os.fspath(path).endswith(".poly")
    poly: Poly | None = None
    if os.path.exists(base + ".node") or not has_poly:
        nodes = read_node(base + ".node", repair, keep=True)
        poly = read_poly(base + ".poly", nodes, repair) if has_poly else None
    else:
        poly = read_poly(base + ".poly", None, repair)
        nodes = poly.nodes
    elements = read_ele(base + ".ele", nodes, repair)
    triangles = elements.triangles
    segments = poly.segments if poly else np.empty((0, 2), np.int32)
    if poly is not None:
        _check_segments(poly, triangles, len(nodes.points))
    if elements.middles is not None:
        kept, rows = without_middles(len(nodes.points), elements.middles)
        triangles, segments = rows[triangles], rows[segments]
        nodes = _select(nodes, kept)
    return Mesh(
        points=nodes.points,
        triangles=triangles,
        neighbors=elements.neighbors,
        segments=segments,
        segment_markers=poly.markers if poly else np.empty(0, np.int32),
        point_markers=nodes.markers,
        point_attributes=nodes.attributes,
        triangle_attributes=elements.attributes,
        holes=poly.holes if poly else np.empty((0, 2)),
        regions=poly.regions if poly else np.empty((0, 4)),
        base=nodes.base,
    )


def _select(nodes: Nodes, kept: NDArray[np.bool_]) -> Nodes:
    markers = nodes.markers[kept] if len(nodes.markers) else nodes.markers
    return replace(
        nodes, points=nodes.points[kept], attributes=nodes.attributes[kept], markers=markers
    )


def _check_segments(poly: Poly, triangles: Ints, n: int) -> None:
    """Refuse segments that are no edges of the triangles."""
    on_segment = np.zeros(n, bool)
    on_segment[poly.segments] = True
    keys = edge_keys(poly.segments[:, 0], poly.segments[:, 1], n)
    found: list[NDArray[Any]] = []
    for k in range(3):
        a, b = triangles[:, k], triangles[:, (k + 1) % 3]
        near = on_segment[a] & on_segment[b]
        found.append(edge_keys(a[near], b[near], n))
    lost = look_up(np.concatenate(found), keys) < 0
    if lost.any():
        row = int(poly.items[lost.argmax()])
        ends = " ".join(str(int(v)) for v in poly.block.values[row, 1:3])
        name = f"segment {row + poly.nodes.base} ({ends})"
        poly.block.fail(row, f"{name} is not an edge of any triangle")


def write_mesh(
    mesh: Mesh,
    base: StrPath,
    order: int = 1,
    neighbors: bool = False,
    edges: bool = False,
    voronoi: bool = False,
) -> None:
    """Write ``base.node``, ``base.ele`` and ``base.poly``; the last leans on the first.

    Numbers keep their exact bits; vertices count from ``mesh.base``.  The files appear under
    their names together, once all are written.

    Parameters
    ----------
    mesh : Mesh
    base : path-like
        Common name; one of the three suffixes at its end is dropped.  With the suffix of another
        format (``.msh``, ``.vtu``) that one file is written, by meshio; see `to_meshio`.
    order : int
        2 gives every edge a node in its middle (Triangle's ``-o2``); see `second_order`.
    neighbors : bool
        Write ``base.neigh``, too (Triangle's ``-n``).
    edges : bool
        Write ``base.edge``, too (Triangle's ``-e``).
    voronoi : bool
        Write ``base.v.node`` and ``base.v.edge``, too (Triangle's ``-v``); see `Mesh.voronoi`.

    Raises
    ------
    ValueError
        If ``order`` is neither 1 nor 2, or a coordinate or attribute is not finite, also of the
        Voronoi diagram, or the middle of an edge rounds to another point; if the suffix is no
        format's, or files are wanted that the format does not have.
    ImportError
        If meshio is needed and not installed.
    OSError
        If a file cannot be written.
    """
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2, got {shown(order)}")
    if is_foreign(base):
        if neighbors or edges or voronoi:
            kinds = "neighbors, edges and voronoi"
            raise ValueError(f"{kinds} are Triangle's files: no {suffix_of(base)}")
        write_foreign(mesh, base, order)
        return
    mesh = mesh.to("cpu")
    check_finite(points=mesh.points, point_attributes=mesh.point_attributes)
    check_finite(triangle_attributes=mesh.triangle_attributes)
    check_finite(holes=mesh.holes, regions=mesh.regions[:, :3])
    points, markers, attributes = mesh.points, mesh.point_markers, mesh.point_attributes
    nodes = mesh.triangles
    if order == 2:
        fine = second_order(mesh)
        points, markers, attributes = fine.points, fine.point_markers, fine.point_attributes
        nodes = fine.triangles
    parts = {
        ".node": node_lines(points, attributes, markers, mesh.base),
        ".ele": _triangle_lines(nodes, mesh.triangle_attributes, mesh.base),
        ".poly": _poly_lines(mesh),
    }
    if neighbors:
        parts[".neigh"] = neighbor_lines(mesh)
    if edges:
        parts[".edge"] = edge_lines(mesh)
    if voronoi:
        parts |= voronoi_parts(mesh)
    name = file_base(base)
    with replacing(*(name + suffix for suffix in parts)) as files:
        for file, chunks in zip(files, parts.values(), strict=True):
            for chunk in chunks:
                file.write(chunk)


def _triangle_lines(nodes: Ints, attributes: Floats, base: int) -> Iterator[bytes]:
    yield b"%d %d %d\n" % (*nodes.shape, attributes.shape[1])
    yield from format_rows([counted(nodes, base), *(nodes + base).T, *attributes.T])


def _poly_lines(mesh: Mesh) -> Iterator[bytes]:
    yield b"0 2 0 1\n"
    yield from segment_lines(mesh)
