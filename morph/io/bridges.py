"""Meshes to and from meshio, which knows most other formats."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.mesh import Mesh
from morph.verify import orientation


def _meshio() -> Any:
    try:
        meshio = importlib.import_module("meshio")
    except ImportError as error:
        message = "this needs meshio: pip install 'morph-engine[mesh]'"
        raise ImportError(message) from error
    return meshio


def to_meshio(mesh: Mesh, three_d: bool = False) -> Any:
    """Convert to a ``meshio.Mesh`` of triangles and of lines, which are the segments.

    Markers and attributes become ``marker`` and ``attribute_1`` and so on, in point data and
    cell data.

    Parameters
    ----------
    mesh : Mesh
    three_d : bool
        Give points a zero third coordinate, which some formats want.

    Raises
    ------
    ImportError
        If meshio is not installed.
    """
    meshio = _meshio()
    points = np.pad(mesh.points, ((0, 0), (0, 1))) if three_d else mesh.points
    point_data: dict[str, Any] = {"marker": mesh.point_markers}
    for k, values in enumerate(mesh.point_attributes.T):
        point_data[f"attribute_{k + 1}"] = values
    cell_data: dict[str, list[Any]] = {
        "marker": [np.zeros(len(mesh.triangles), np.int32), mesh.segment_markers]
    }
    for k, values in enumerate(mesh.triangle_attributes.T):
        cell_data[f"attribute_{k + 1}"] = [values, np.zeros(len(mesh.segments))]
    cells = [("triangle", mesh.triangles), ("line", mesh.segments)]
    return meshio.Mesh(points, cells, point_data=point_data, cell_data=cell_data)


def from_meshio(source: Any) -> Mesh:
    """Convert a ``meshio.Mesh``, or read a file by meshio.

    Clockwise triangles are turned, as meshio's formats have no rule.  Lines become segments;
    data named ``marker`` and ``attribute_...`` is carried, other data is left behind.

    Parameters
    ----------
    source : meshio.Mesh or path-like

    Raises
    ------
    ImportError
        If meshio is not installed.
    ValueError
        If the points do not lie in one plane ``z = constant``, or there are other cells than
        triangles, lines and vertices.
    """
    if isinstance(source, str | os.PathLike):
        source = _meshio().read(source)
    points = np.asarray(source.points, np.float64)
    if points.shape[1] == 3:
        if len(points) and np.ptp(points[:, 2]) != 0:
            raise ValueError("the points do not lie in one plane z = constant")
        points = points[:, :2]
    triangles: list[NDArray[Any]] = [np.empty((0, 3), np.int32)]
    segments: list[NDArray[Any]] = [np.empty((0, 2), np.int32)]
    markers: list[NDArray[Any]] = [np.empty(0, np.int32)]
    names = sorted(k for k in source.cell_data if k.startswith("attribute_"))
    columns: list[list[NDArray[Any]]] = [[] for _ in names]
    for k, block in enumerate(source.cells):
        if block.type == "triangle":
            triangles.append(np.asarray(block.data))
            for column, name in zip(columns, names, strict=True):
                column.append(np.asarray(source.cell_data[name][k], np.float64))
        elif block.type == "line":
            segments.append(np.asarray(block.data))
            given = source.cell_data.get("marker")
            markers.append(np.zeros(len(block.data)) if given is None else np.asarray(given[k]))
        elif block.type != "vertex":
            raise ValueError(f"cells of type {block.type!r}: only triangles are supported")
    corners = np.concatenate(triangles).astype(np.int32)
    clockwise = orientation(points, corners[:, 0], corners[:, 1], corners[:, 2]) < 0
    corners[clockwise] = corners[clockwise][:, [0, 2, 1]]
    has_marks = "marker" in source.cell_data
    point_names = sorted(k for k in source.point_data if k.startswith("attribute_"))
    point_columns = [np.asarray(source.point_data[k], np.float64) for k in point_names]
    return Mesh(
        points=points,
        triangles=corners,
        segments=np.concatenate(segments).astype(np.int32),
        segment_markers=np.concatenate(markers).astype(np.int32)
        if has_marks
        else np.empty(0, np.int32),
        point_markers=np.asarray(source.point_data.get("marker", []), np.int32),
        point_attributes=np.stack(point_columns, axis=1) if point_columns else np.empty((0, 0)),
        triangle_attributes=(
            np.stack([np.concatenate(c) for c in columns], axis=1) if names else np.empty((0, 0))
        ),
    )
