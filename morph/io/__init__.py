"""Files in and out: meshes, graphs, formulas, and bridges to other packages."""

from morph.io.bridges import from_meshio, to_meshio
from morph.io.cnf import CnfWarning, read_cnf, write_cnf
from morph.io.edges import EdgeArrays
from morph.io.graphs import read_edges, read_graph, write_graph
from morph.io.journal import Journal
from morph.io.pslgs import read_pslg, write_pslg
from morph.io.repair import RepairWarning
from morph.io.secondorder import SecondOrder, second_order
from morph.io.sides import (
    mesh_edges,
    read_area,
    read_edge,
    read_neigh,
    write_area,
    write_edge,
    write_neigh,
)
from morph.io.snapshot import read_snapshot, write_snapshot
from morph.io.text import FormatError
from morph.io.triangle import read_mesh, write_mesh

__all__ = [
    "CnfWarning",
    "EdgeArrays",
    "FormatError",
    "Journal",
    "RepairWarning",
    "SecondOrder",
    "from_meshio",
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
    "write_area",
    "write_cnf",
    "write_edge",
    "write_graph",
    "write_mesh",
    "write_neigh",
    "write_pslg",
    "write_snapshot",
]
