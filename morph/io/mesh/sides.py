"""Triangle's files beside a mesh: ``.area``, ``.neigh`` and ``.edge``.

``.area``: ``<triangles>``, then ``<number> <maximum area>``; no limit if it is not positive.
``.neigh``: ``<triangles> 3``, then ``<number>`` and the triangles opposite the three corners, -1
at the hull.
``.edge``: ``<edges> <0 or 1 markers>``, then ``<number> <end> <end> [marker]``.
If readers get the mesh, they check the file against it; else the first number of the file is its
base.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from morph.io.mesh.nodes import check_marked, marker_column, numbering, open_scanner
from morph.io.mesh.repair import first_twins
from morph.io.mesh.second_order import look_up, owned
from morph.io.text.files import write_chunks
from morph.io.text.rows import counted, format_rows
from morph.io.text.scanner import Block, Field, Scanner, StrPath
from morph.language.arguments import check_type
from morph.language.messages import shown
from morph.mesh.arrays import real_array
from morph.mesh.mesh import Floats, Ints, Mesh, edge_keys

_LAST = 2**31 - 1


def read_area(path: StrPath, mesh: Mesh | None = None) -> Floats:
    """Read an ``.area`` file: the maximum area of each triangle.

    Parameters
    ----------
    path : path-like
    mesh : Mesh, optional
        Mesh that the file belongs to.

    Returns
    -------
    (m,) float64 array
        In squared units of the coordinates; not positive if there is no limit.

    Raises
    ------
    FormatError
        With file and line; also if the number of triangles differs from the mesh.
    OSError
        If the file is missing or cannot be read.
    """
    if mesh is not None:
        check_type(mesh, "mesh", "Mesh")
    scanner = open_scanner(path)
    (count,) = scanner.header("triangle", ("number of triangles",), (0,))
    _check_count(scanner, count, mesh)
    fields = [Field("triangle number"), Field("area", False)]
    block = scanner.block(count, fields, "triangles", (1, 1))
    scanner.end("triangles")
    numbering(block, "triangle", None if mesh is None else mesh.base)
    return np.ascontiguousarray(block.parts[1][:, 0])


def write_area(areas: ArrayLike, path: StrPath, base: int = 1) -> None:
    """Write an ``.area`` file.

    Parameters
    ----------
    areas : (m,) array
        Maximum area of each triangle; nan, infinity and non-positive values mean no limit, and
        are written as -1.
    path : path-like
    base : int
        Number of the first triangle: the mesh's ``base``.

    Raises
    ------
    ValueError
        If ``areas`` has another shape or type, or ``base`` is neither 0 nor 1.
    OSError
        If the file cannot be written.
    """
    values = real_array("areas", areas)
    if values.ndim != 1:
        raise ValueError(f"areas must have shape (triangles,), got {shown(values.shape)}")
    if base not in (0, 1):
        raise ValueError(f"base must be 0 or 1, got {shown(base)}")
    values = np.where(np.isfinite(values) & (values > 0), values, -1.0)

    def text() -> Iterator[bytes]:
        yield b"%d\n" % len(values)
        yield from format_rows([counted(values, base), values])

    write_chunks(path, text())


def read_neigh(path: StrPath, mesh: Mesh | None = None) -> Ints:
    """Read a ``.neigh`` file.

    Parameters
    ----------
    path : path-like
    mesh : Mesh, optional
        Mesh whose neighbours the file must contain.

    Returns
    -------
    (m, 3) int32 array
        The triangle opposite corner k, counting from 0; -1 at the hull.

    Raises
    ------
    FormatError
        With file and line; also if the neighbours are not symmetric.
    OSError
        If the file is missing or cannot be read.
    """
    if mesh is not None:
        check_type(mesh, "mesh", "Mesh")
    scanner = open_scanner(path)
    names = ("number of triangles", "number of neighbors")
    count, three = scanner.header("neighbor", names, (0, 3))
    header = scanner.line(scanner.pos - 1)
    if three != 3:
        scanner.fail(f"the number of neighbors is {three}, expected 3", header)
    _check_count(scanner, count, mesh)
    fields = [Field("triangle number")] + [Field(f"neighbor {k}") for k in (1, 2, 3)]
    block = scanner.block(count, fields, "triangles", (1, 3))
    scanner.end("triangles")
    base = numbering(block, "triangle", None if mesh is None else mesh.base)
    values = block.parts[1]
    wrong = (values != -1) & ((values < base) | (values >= base + count))
    _fail_at(block, wrong, base, f"but triangles are {base} to {base + count - 1}, and -1 is none")
    neighbors: Ints = np.where(values < 0, -1, values - base).astype(np.int32, order="C")
    known = None if mesh is None else mesh.to("cpu").neighbors
    if known is not None and np.array_equal(neighbors, known):
        return neighbors
    rows = np.arange(count)[:, None]
    _fail_at(block, neighbors == rows, base, "itself")
    theirs = neighbors[neighbors]
    mutual = (theirs == rows[:, None]).any(axis=2) | (neighbors < 0)
    _fail_at(block, ~mutual, base, "which does not name it back")
    if known is not None:
        _fail_at(block, neighbors != known, base, "which is not what the triangles' corners say")
    return neighbors


def _fail_at(block: Block, wrong: NDArray[np.bool_], base: int, message: str) -> None:
    if wrong.any():
        row, k = (int(v) for v in np.argwhere(wrong)[0])
        named = f"triangle {row + base} names neighbor {int(block.parts[1][row, k])}"
        block.fail(row, f"{named}, {message}")


def read_edge(path: StrPath, mesh: Mesh | None = None) -> tuple[Ints, Ints]:
    """Read an ``.edge`` file.

    Parameters
    ----------
    path : path-like
    mesh : Mesh, optional
        Mesh whose edges the file must contain, each once.

    Returns
    -------
    edges : (e, 2) int32 array
        Rows of points.
    markers : (e,) int32 array
        0 if the file has none.

    Raises
    ------
    FormatError
        With file and line; also for an edge of no length or a duplicate edge.
    OSError
        If the file is missing or cannot be read.
    """
    if mesh is not None:
        check_type(mesh, "mesh", "Mesh")
    scanner = open_scanner(path)
    count, marked = scanner.header("edge", ("number of edges", "number of markers"), (0, 0))
    check_marked(scanner, marked, scanner.line(scanner.pos - 1))
    fields = [Field("edge number"), Field("vertex 1"), Field("vertex 2")]
    fields += [Field("marker")] * marked
    block = scanner.block(count, fields, "edges", (1, 2, marked))
    scanner.end("edges")
    base = numbering(block, "edge", None if mesh is None else mesh.base)
    ends = block.parts[1]
    last = (_LAST if mesh is None else len(mesh.points)) + base - 1
    wrong = ((ends < base) | (ends > last)).any(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        a, b = ends[row].tolist()
        message = f"edge {row + base} joins vertices {a} and {b}"
        block.fail(row, f"{message}, but vertices are {base} to {last}")
    edges = (ends - base).astype(np.int32, order="C")
    loop = edges[:, 0] == edges[:, 1]
    if loop.any():
        row = int(loop.argmax())
        block.fail(row, f"edge {row + base} joins a vertex to itself")
    keys = edge_keys(edges[:, 0], edges[:, 1], _LAST)
    later, earlier = first_twins(keys)
    if len(later):
        block.fail(later[0], f"edge {later[0] + base} repeats edge {earlier[0] + base}")
    if mesh is not None:
        theirs = mesh_edges(mesh)[0]
        known = edge_keys(theirs[:, 0], theirs[:, 1], _LAST)
        same = np.array_equal(np.sort(keys), np.sort(known))  # much faster than look_up
        lost = np.zeros(count, bool) if same else look_up(known, keys) < 0
        if lost.any():
            row = int(lost.argmax())
            a, b = ends[row].tolist()
            block.fail(row, f"edge {row + base} ({a} {b}) is not an edge of any triangle")
    return edges, marker_column(block, marked) if marked else np.zeros(count, np.int32)


def mesh_edges(mesh: Mesh) -> tuple[Ints, Ints]:
    """List the undirected edges of a mesh.

    Returns
    -------
    edges : (e, 2) int32 array
        Rows of points, in the order of the triangles.
    markers : (e,) int32 array
        Marker of the segment on the edge; 0 if the edge is no segment.
    """
    check_type(mesh, "mesh", "Mesh")
    mesh = mesh.to("cpu")
    own, t, n = owned(mesh.neighbors), mesh.triangles, len(mesh.points)
    edges = np.stack([np.roll(t, -1, axis=1)[own], np.roll(t, -2, axis=1)[own]], axis=1)
    markers = np.zeros(len(edges), np.int32)
    segments = edge_keys(mesh.segments[:, 0], mesh.segments[:, 1], n)
    at = look_up(edge_keys(edges[:, 0], edges[:, 1], n), segments)
    markers[at[at >= 0]] = mesh.segment_markers[at >= 0]
    return edges, markers


def write_neigh(mesh: Mesh, path: StrPath) -> None:
    """Write the neighbours of triangles as a ``.neigh`` file.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    check_type(mesh, "mesh", "Mesh")
    write_chunks(path, neighbor_lines(mesh))


def write_edge(mesh: Mesh, path: StrPath) -> None:
    """Write the edges of a mesh, with the markers of its segments, as an ``.edge`` file.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    check_type(mesh, "mesh", "Mesh")
    write_chunks(path, edge_lines(mesh))


def neighbor_lines(mesh: Mesh) -> Iterator[bytes]:
    """Yield the text of a ``.neigh`` file."""
    mesh = mesh.to("cpu")
    yield b"%d 3\n" % len(mesh.neighbors)
    theirs = np.where(mesh.neighbors < 0, -1, mesh.neighbors + mesh.base)
    yield from format_rows([counted(theirs, mesh.base), *theirs.T])


def edge_lines(mesh: Mesh) -> Iterator[bytes]:
    """Yield the text of an ``.edge`` file."""
    edges, markers = mesh_edges(mesh)
    yield b"%d 1\n" % len(edges)
    yield from format_rows([counted(edges, mesh.base), *(edges + mesh.base).T, markers])


def _check_count(scanner: Scanner, count: int, mesh: Mesh | None) -> None:
    header = scanner.line(scanner.pos - 1)
    if mesh is not None and count != len(mesh.triangles):
        found = f"the file is about {count} triangles"
        scanner.fail(f"{found}, the mesh has {len(mesh.triangles)}", header)
