"""Reads and writes files of meshes, graphs and formulas, and converts other packages' meshes.

Imports its packages ``io.text``, ``io.graph``, ``io.mesh`` and ``io.sat``.
"""

from morph.io.graph.edges import EdgeArrays
from morph.io.graph.graphs import read_edges, read_graph, write_graph
from morph.io.graph.journal import Journal
from morph.io.graph.snapshot import read_snapshot, write_snapshot
from morph.io.mesh.meshio import from_meshio, to_meshio
from morph.io.mesh.pslgs import read_pslg, write_pslg
from morph.io.mesh.pyvista import from_pyvista, to_pyvista
from morph.io.mesh.repair import RepairWarning
from morph.io.mesh.second_order import SecondOrder, second_order
from morph.io.mesh.sides import (
    mesh_edges,
    read_area,
    read_edge,
    read_neigh,
    write_area,
    write_edge,
    write_neigh,
)
from morph.io.mesh.triangle import read_mesh, write_mesh
from morph.io.sat import models as models
from morph.io.sat.cnf import CnfWarning, read_cnf, write_cnf
from morph.io.text.scanner import FormatError

__all__ = [
    "CnfWarning",
    "EdgeArrays",
    "FormatError",
    "Journal",
    "RepairWarning",
    "SecondOrder",
    "from_meshio",
    "from_pyvista",
    "mesh_edges",
    "read_area",
    "read_cnf",
    "read_edge",
    "read_edges",
    "read_graph",
    "read_mesh",
    "read_neigh",
    "read_pslg",
    "read_snapshot",
    "second_order",
    "to_meshio",
    "to_pyvista",
    "write_area",
    "write_cnf",
    "write_edge",
    "write_graph",
    "write_mesh",
    "write_neigh",
    "write_pslg",
    "write_snapshot",
]
