"""Conversion to and from PyVista, through meshio's layout of cells."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np

from morph.io.mesh.meshio import from_meshio, to_meshio
from morph.language.arguments import check_type
from morph.language.messages import shown
from morph.mesh.mesh import Mesh

# VTK's numbers of cell types
_TYPES = {1: "vertex", 3: "line", 5: "triangle", 21: "line3", 22: "triangle6"}


def to_pyvista(mesh: Mesh) -> Any:
    """Convert to a ``pyvista.UnstructuredGrid`` of triangles and lines (the segments).

    Markers and attributes are data as in `to_meshio`.

    Raises
    ------
    ImportError
        If PyVista or meshio is not installed.
    """
    check_type(mesh, "mesh", "Mesh")
    try:
        pyvista = importlib.import_module("pyvista")
    except ImportError as error:
        raise ImportError("this needs PyVista: pip install pyvista") from error
    return pyvista.from_meshio(to_meshio(mesh, three_d=True))


def from_pyvista(source: Any) -> Mesh:
    """Convert a ``pyvista.PolyData`` or ``pyvista.UnstructuredGrid``; rules as in `from_meshio`.

    Raises
    ------
    ValueError, MeshError
        As by `from_meshio`.
    """
    if hasattr(source, "cast_to_unstructured_grid"):
        source = source.cast_to_unstructured_grid()
    if not hasattr(source, "celltypes"):
        raise TypeError(f"source is a mesh of PyVista, not {shown(source)}")
    kinds = np.asarray(source.celltypes)
    found = {int(kind): np.asarray(rows) for kind, rows in source.cells_dict.items()}
    blocks = [
        SimpleNamespace(type=_TYPES.get(kind, f"VTK {kind}"), data=rows)
        for kind, rows in found.items()
    ]
    data = {name: np.asarray(values) for name, values in source.cell_data.items()}
    like_meshio = SimpleNamespace(
        points=np.asarray(source.points),
        cells=blocks,
        point_data={name: np.asarray(values) for name, values in source.point_data.items()},
        cell_data={name: [values[kinds == k] for k in found] for name, values in data.items()},
    )
    return from_meshio(like_meshio)
