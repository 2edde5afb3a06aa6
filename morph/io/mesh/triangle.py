"""Meshes in Triangle's files (https://www.cs.cmu.edu/~quake/triangle.html), read strictly.

Every count, number and index is checked, and a file that violates a rule is rejected with its line.
Vertices are numbered from 0 or 1 in the files, and from 0 in arrays.  Comments extend from ``#`` to
the end of the line; lines end in LF or CRLF; text is plain ASCII.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.io.mesh.elements import Elements, read_ele
from morph.io.mesh.formats import format_of, format_of_file
from morph.io.mesh.nodes import Nodes, read_node
from morph.io.mesh.pslgs import Poly, file_base, node_lines, read_poly, segment_lines
from morph.io.mesh.second_order import look_up, second_order, without_middles
from morph.io.mesh.sides import edge_lines, neighbor_lines
from morph.io.mesh.voronoi import voronoi_parts
from morph.io.text.files import replacing
from morph.io.text.formats import suffix_of
from morph.io.text.rows import check_finite, counted, format_rows
from morph.io.text.scanner import StrPath
from morph.language.arguments import boolean, check_type
from morph.language.messages import shown
from morph.mesh.halfedges import hull_edges
from morph.mesh.mesh import Floats, Ints, Mesh, edge_keys


def read_mesh(path: StrPath, repair: bool = False) -> Mesh:
    """Read a mesh from ``.node`` and ``.ele`` files and, if it exists, a ``.poly`` file.

    Without a ``.poly`` file the hull edges are the segments.  If the ``.poly`` file contains the
    vertices, no ``.node`` file is needed.  Second-order elements are checked and reduced to their
    corners, without mid-edge nodes.  Vertices with the same coordinates are an error unless all but
    one of them are in no triangle.

    Parameters
    ----------
    path : path-like
        Base name (``mesh`` or ``mesh.1``) or one of the three files; files with the suffix of
        another format (``.msh``, ``.vtu``) are read by meshio, see `from_meshio`.
    repair : bool
        Make unambiguous repairs: reorient clockwise triangles, merge vertices with the same
        coordinates into the first of them, drop triangles and segments that then have two equal
        corners or are duplicates.  A `RepairWarning` with file, line and number of cases reports
        each kind.  Other violations remain errors.

    Raises
    ------
    FormatError
        If a file violates its format, or the files are inconsistent; names file and line.
    ValueError
        If the suffix is unknown, or ``repair`` is given for another format.
    ImportError
        If meshio is needed and not installed.
    OSError
        If a file is missing or cannot be read.
    """
    repair = boolean(repair, "repair")
    if other := format_of_file(path):
        if repair:
            raise ValueError(f"repair is for Triangle's files, not for a {suffix_of(path)}")
        return other.read(path)
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
        _check_segments(poly, elements, len(nodes.points))
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


def _check_segments(poly: Poly, elements: Elements, n: int) -> None:
    """Reject segments that are not edges of the triangles: most are edges of the hull."""
    triangles = elements.triangles
    keys = edge_keys(poly.segments[:, 0], poly.segments[:, 1], n)
    hull = hull_edges(triangles, elements.neighbors)
    inner = np.flatnonzero(look_up(edge_keys(hull[:, 0], hull[:, 1], n), keys) < 0)
    if not inner.size:
        return
    on_segment = np.zeros(n, bool)
    on_segment[poly.segments[inner]] = True
    found: list[NDArray[Any]] = []
    ends = on_segment[triangles]
    for k in range(3):
        j = (k + 1) % 3
        near = np.flatnonzero(ends[:, k] & ends[:, j])
        found.append(edge_keys(triangles[near, k], triangles[near, j], n))
    lost = look_up(np.concatenate(found), keys[inner]) < 0
    if lost.any():
        row = int(poly.items[inner[lost.argmax()]])
        name = f"segment {row + poly.nodes.base} ({poly.block.integers(row, slice(1, 3))})"
        poly.block.fail(row, f"{name} is not an edge of any triangle")


def write_mesh(
    mesh: Mesh,
    base: StrPath,
    order: int = 1,
    neighbors: bool = False,
    edges: bool = False,
    voronoi: bool = False,
) -> None:
    """Write ``base.node``, ``base.ele`` and ``base.poly``; the last refers to the first.

    Numbers are written exactly; vertices are numbered from ``mesh.base``.  The files are renamed to
    their final names together, after all are written.

    Parameters
    ----------
    mesh : Mesh
    base : path-like
        Base name; one of the three suffixes at its end is dropped.  With the suffix of another
        format (``.msh``, ``.vtu``), meshio writes that single file; see `to_meshio`.
    order : int
        2 adds a mid-edge node to every edge (Triangle's ``-o2``); see `second_order`.
    neighbors : bool
        Also write ``base.neigh`` (Triangle's ``-n``).
    edges : bool
        Also write ``base.edge`` (Triangle's ``-e``).
    voronoi : bool
        Also write ``base.v.node`` and ``base.v.edge`` (Triangle's ``-v``); see `Mesh.voronoi`.

    Raises
    ------
    ValueError
        If ``order`` is neither 1 nor 2, or a coordinate or attribute is not finite, also of the
        Voronoi diagram, or the midpoint of an edge rounds to another point; if the suffix is
        unknown, or additional files are requested for another format.
    ImportError
        If meshio is needed and not installed.
    OSError
        If a file cannot be written.
    """
    check_type(mesh, "mesh", "Mesh")
    neighbors, edges = boolean(neighbors, "neighbors"), boolean(edges, "edges")
    voronoi = boolean(voronoi, "voronoi")
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2, got {shown(order)}")
    if other := format_of(base):
        if neighbors or edges or voronoi:
            kinds = "neighbors, edges and voronoi"
            raise ValueError(f"{kinds} are Triangle's files: no {suffix_of(base)}")
        other.write(mesh, base, order)
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
