"""Conversion to and from meshio, which reads and writes most other mesh formats."""

from __future__ import annotations

import errno
import importlib
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from morph.io.mesh.elements import check_middles
from morph.io.mesh.second_order import second_order, without_middles
from morph.io.text.files import replace_together
from morph.io.text.formats import suffix_of
from morph.io.text.scanner import FormatError, StrPath
from morph.language.arguments import check_type
from morph.language.messages import shortened, shown
from morph.mesh.arrays import real_array
from morph.mesh.interop import check_finite, turned
from morph.mesh.mesh import Floats, Ints, Mesh, find_neighbors

# names of the cell data with markers: Morph's, then Gmsh, Medit, AVS-UCD in meshio
_MARKERS = ("marker", "gmsh:physical", "medit:ref", "avsucd:material")
_ATTRIBUTE = re.compile(r"attribute_([0-9]+)\Z")
# Triangle orders mid-edge nodes by the opposite corner, meshio by the edge 0 1, 1 2, 2 0
_TO_MESHIO = [0, 1, 2, 5, 3, 4]
_MIDDLES = [4, 5, 3]
_FLAT = (".mesh", ".meshb", ".su2", ".svg", ".xdmf", ".xml", ".xmf")  # formats with two coordinates
_PHYSICAL = "gmsh:physical"
_KINDS = {"triangle": 3, "triangle6": 6, "line": 2, "line3": 3}


def import_meshio() -> Any:
    """Import meshio; if it is not installed, an `ImportError` names the extra."""
    try:
        meshio = importlib.import_module("meshio")
    except ImportError as error:
        message = "this needs meshio: pip install 'morph-engine[mesh]'"
        raise ImportError(message) from error
    return meshio


def to_meshio(mesh: Mesh, three_d: bool = False, order: int = 1) -> Any:
    """Convert to a ``meshio.Mesh`` of triangles and lines; the lines are the segments.

    Markers and attributes become point data and cell data ``marker``, ``attribute_1`` and so on.

    Parameters
    ----------
    mesh : Mesh
    three_d : bool
        Add a third coordinate 0, which some formats require.
    order : int
        2 adds a mid-edge node to every edge: cells ``triangle6`` and ``line3``.

    Raises
    ------
    ImportError
        If meshio is not installed.
    ValueError
        If ``order`` is neither 1 nor 2, or the middle of an edge rounds to
        another point.
    """
    check_type(mesh, "mesh", "Mesh")
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2, got {shown(order)}")
    meshio, mesh = import_meshio(), mesh.to("cpu")
    points, markers, attributes = mesh.points, mesh.point_markers, mesh.point_attributes
    cells = [("triangle", mesh.triangles), ("line", mesh.segments)]
    if order == 2:
        fine = second_order(mesh)
        points, markers, attributes = fine.points, fine.point_markers, fine.point_attributes
        cells = [("triangle6", fine.triangles[:, _TO_MESHIO]), ("line3", fine.segments)]
    if three_d:
        points = np.pad(points, ((0, 0), (0, 1)))
    point_data: dict[str, Any] = {"marker": markers}
    for k, values in enumerate(attributes.T):
        point_data[f"attribute_{k + 1}"] = values
    element_data: dict[str, list[Any]] = {
        "marker": [np.zeros(len(mesh.triangles), np.int32), mesh.segment_markers]
    }
    for k, values in enumerate(mesh.triangle_attributes.T):
        element_data[f"attribute_{k + 1}"] = [values, np.zeros(len(mesh.segments))]
    return meshio.Mesh(points, cells, point_data=point_data, cell_data=element_data)


def from_meshio(
    source: Any,
    point_attributes: Iterable[str] | None = None,
    triangle_attributes: Iterable[str] | None = None,
) -> Mesh:
    """Convert a ``meshio.Mesh``, or read a file by meshio.

    Clockwise triangles are reoriented, as meshio's formats do not prescribe an orientation.  Lines
    become segments; their markers are the data ``marker``, or the names of Gmsh, Medit and AVS-UCD.
    Points may have three coordinates if the third is constant.  Second-order cells are checked and
    reduced to their corners.

    Parameters
    ----------
    source : meshio.Mesh or path-like
    point_attributes, triangle_attributes : iterable of str, optional
        Names of point data and of cell data to convert to attributes, in this order; by default
        ``attribute_1``, ``attribute_2`` and so on.  Data with several components becomes as many
        columns.  Other data is dropped.

    Raises
    ------
    ImportError
        If meshio is not installed.
    FormatError, OSError
        If meshio cannot read the file, or it is missing.
    ValueError
        If the points do not lie in one plane ``z = constant``; if there are cells other than
        triangles, lines and vertices, or no triangles; if a coordinate is not finite, a triangle
        has no area, or named data is missing.
    MeshError
        If several triangles lie on one side of an edge.
    """
    if isinstance(source, str | os.PathLike):
        source = _read(source)
    if not hasattr(source, "cell_data"):
        raise TypeError(f"source is a mesh of meshio or a path, not {shown(source)}")
    points = _in_plane(real_array("points", source.points))
    triangles, middles, of_triangles = _cells(source, "triangle", len(points))
    segments, _, of_segments = _cells(source, "line", len(points))
    if not len(triangles):
        raise ValueError("there are no triangles")
    triangles, clockwise = turned(points, triangles)
    neighbors = find_neighbors(triangles, len(points))
    marker = next((name for name in _MARKERS if name in source.cell_data), None)
    data = source.point_data
    columns = [_column(data, name) for name in _names(data, point_attributes)]
    of_points = np.concatenate(columns, axis=1) if columns else np.empty((len(points), 0))
    point_markers = _integers("marker", np.asarray(data.get("marker", ())))
    if middles is not None:
        middles[clockwise] = middles[clockwise][:, [0, 2, 1]]
        check_middles(points, triangles, neighbors, middles, 0, _refuse)
        kept, rows = without_middles(len(points), middles)
        points, of_points, triangles = points[kept], of_points[kept], rows[triangles]
        segments, point_markers = rows[segments], point_markers[kept[: len(point_markers)]]
        if (segments < 0).any():
            row = int((segments < 0).any(axis=1).argmax())
            raise ValueError(f"line {row} ends in the middle of an edge")
    return Mesh(
        points=points,
        triangles=triangles,
        neighbors=neighbors,
        segments=segments,
        segment_markers=(
            np.empty(0, np.int32)
            if marker is None or not len(segments)
            else _integers(marker, _joined(source.cell_data, marker, of_segments)[:, 0])
        ),
        point_markers=point_markers,
        point_attributes=of_points,
        triangle_attributes=np.concatenate(
            [np.empty((len(triangles), 0))]
            + [
                _joined(source.cell_data, name, of_triangles)
                for name in _names(source.cell_data, triangle_attributes)
            ],
            axis=1,
        ),
    )


def _refuse(row: int, message: str) -> NoReturn:
    raise ValueError(f"triangle {row}: {message}")


def _in_plane(points: Floats) -> Floats:
    """Drop a constant third coordinate."""
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise ValueError(f"points must have 2 or 3 coordinates, got shape {shown(points.shape)}")
    check_finite(points)
    if points.shape[1] == 3 and len(points) and np.ptp(points[:, 2]) != 0:
        row = int((points[:, 2] != points[0, 2]).argmax())
        first, other = points[[0, row], 2].tolist()
        heights = f"z is {first} at point 0 and {other} at point {row}"
        raise ValueError(f"the points do not lie in one plane z = constant: {heights}")
    return np.ascontiguousarray(points[:, :2])


def _cells(source: Any, kind: str, n: int) -> tuple[Ints, Ints | None, list[int]]:
    """Join the blocks of triangles or lines; returns mid-edge nodes if all blocks have them."""
    blocks = [k for k, block in enumerate(source.cells) if block.type.startswith(kind)]
    for block in source.cells:
        if block.type not in (*_KINDS, "vertex"):
            raise ValueError(f"cells of type {shown(block.type)}: only triangles are supported")
    found = [np.asarray(source.cells[k].data) for k in blocks]
    corners = 3 if kind == "triangle" else 2
    rows = np.concatenate([np.empty((0, corners), np.int32), *(f[:, :corners] for f in found)])
    for all_of in found:
        if all_of.size and not 0 <= all_of.min() <= all_of.max() < n:
            raise ValueError(f"a {kind} names a point outside 0..{n - 1}")
    second = [f[:, _MIDDLES] for f in found if kind == "triangle" and f.shape[1] == 6]
    if second and len(second) < len(found):
        raise ValueError("triangles of first and of second order do not fit together")
    middles = np.concatenate(second).astype(np.int32) if second else None
    return rows.astype(np.int32), middles, blocks


def _names(data: Mapping[str, Any], requested: Iterable[str] | None) -> list[str]:
    """Names of the data to convert; by default attributes, in the order of their numbers."""
    if requested is not None:
        names = list(requested)
        for name in names:
            if name not in data:
                listed = shortened(str(sorted(data)), 100)
                raise ValueError(f"there is no data named {shown(name)}: there are {listed}")
        return names
    numbers = {int(m[1]): name for name in data if (m := _ATTRIBUTE.match(name))}
    return [numbers[k] for k in sorted(numbers)]


def _reals(name: str, values: Any) -> Floats:
    """Return data as real numbers; booleans become 0 and 1."""
    array = np.asarray(values)
    return real_array(shown(name), array.astype(np.int8) if array.dtype == bool else array)


def _column(data: Mapping[str, Any], name: str) -> Floats:
    values = _reals(name, data[name])
    return values.reshape(len(values), -1)


def _joined(data: Mapping[str, Any], name: str, blocks: list[int]) -> Floats:
    parts = [_reals(name, data[name][k]) for k in blocks]
    return np.concatenate([p.reshape(len(p), -1) for p in parts])


def _integers(name: str, values: NDArray[Any]) -> Ints:
    """Convert markers to 32-bit integers; `ValueError` if they are not integers."""
    markers = real_array(name, values).reshape(-1)
    small = (markers >= -(2**31)) & (markers < 2**31)
    if not (small & (markers == np.rint(markers))).all():
        raise ValueError(f"{name} must hold integers of 32 bits")
    return markers.astype(np.int32)


def read_by_meshio(path: StrPath) -> Mesh:
    """Read a mesh by meshio; see `from_meshio`.

    Physical groups of Gmsh become the triangle attribute if there are no other attributes.

    Raises
    ------
    ImportError
        If meshio, or a package that it needs for the format, is not installed.
    FormatError
        If meshio cannot read the file, or the file contains no triangle mesh.
    OSError
        If the file is missing or cannot be read.
    """
    found = _read(path)
    try:
        return from_meshio(found, triangle_attributes=_groups(found))
    except ValueError as error:
        raise FormatError(path, None, str(error)) from error


def _read(path: StrPath) -> Any:
    """Read a ``meshio.Mesh`` from a file."""
    name = os.fspath(path)
    if not os.path.exists(name):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    with open(name, "rb"):
        pass  # an OSError that names the file
    meshio = import_meshio()
    known = meshio.extension_to_filetypes.get(suffix_of(name), [])
    problem = "no reader for this suffix"
    for kind in sorted(known, key=lambda kind: kind != "gmsh"):  # .msh is ANSYS's, too
        found, problem = _quietly(name, lambda kind=kind: meshio.read(name, file_format=kind))
        if found is not None:
            return found
    raise FormatError(name, None, f"meshio cannot read it: {problem}")


def _groups(found: Any) -> list[str] | None:
    """Name the triangle data to convert if there are no default attributes."""
    data = found.cell_data
    if _PHYSICAL not in data or any(name.startswith("attribute_") for name in data):
        return None
    of_triangles = [
        values
        for block, values in zip(found.cells, data[_PHYSICAL], strict=True)
        if block.type.startswith("triangle")
    ]
    return [_PHYSICAL] if any(np.any(values) for values in of_triangles) else None


def write_by_meshio(mesh: Mesh, path: StrPath, order: int = 1) -> None:
    """Write a mesh by meshio; see `to_meshio`.

    In a ``.msh`` file (Gmsh, version 2.2), the markers of segments and the first triangle
    attribute, if it is integral, become physical groups.  Wavefront's ``.obj`` has triangles only.

    Raises
    ------
    ImportError
        If meshio, or a package that it needs for the format, is not installed.
    ValueError
        If meshio cannot write the mesh in this format.
    OSError
        If the file cannot be written.
    """
    name, suffix = os.fspath(path), suffix_of(path)
    meshio = import_meshio()
    foreign = to_meshio(mesh, three_d=suffix not in _FLAT, order=order)
    if suffix == ".obj":  # meshio rejects lines there
        for blocks in (foreign.cells, *foreign.cell_data.values()):
            del blocks[1:]
    kind = None
    if suffix == ".msh":
        kind, data = "gmsh22", foreign.cell_data
        groups = data["marker"]
        of_triangles = data.get("attribute_1", groups)[0]
        if np.array_equal(of_triangles, of_triangles.astype(np.int32)):
            groups[0] = of_triangles.astype(np.int32)
        data.clear()
        data |= {_PHYSICAL: groups, "gmsh:geometrical": groups}
    folder, last = os.path.split(os.path.abspath(name))
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
    with TemporaryDirectory(prefix=f".{last}.", dir=folder) as made:
        target = os.path.join(made, last)
        done, problem = _quietly(name, lambda: meshio.write(target, foreign, file_format=kind) or 1)
        if done is None:
            raise ValueError(f"{shortened(name, 80)}: meshio cannot write it: {problem}")
        files = os.listdir(made)  # XDMF has an additional HDF5 file
        replace_together([(Path(made, file), Path(folder, file)) for file in files])


def _quietly(name: str, work: Any) -> tuple[Any, str]:
    """Call meshio, which may print or exit; return the result, or None and the error."""
    said = StringIO()
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(said))
        stack.enter_context(redirect_stderr(said))
        try:
            return work(), ""
        except ModuleNotFoundError as error:
            message = f"{shortened(name, 80)}: meshio needs {error.name} for this format"
            raise ImportError(f"{message}: pip install {error.name}") from error
        except (OSError, MemoryError):
            raise
        except (Exception, SystemExit) as error:  # meshio's readers and writers raise any type
            text = str(error) if isinstance(error, Exception) else said.getvalue()
            return None, shortened(" ".join(text.split()) or type(error).__name__, 80)
