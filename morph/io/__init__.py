"""Files in and out: meshes, graphs, and bridges to other packages."""

from morph.io.bridges import from_meshio, to_meshio
from morph.io.edges import EdgeArrays
from morph.io.graphs import read_edges, read_graph, write_graph
from morph.io.text import FormatError
from morph.io.triangle import read_mesh, write_mesh

__all__ = [
    "EdgeArrays",
    "FormatError",
    "from_meshio",
    "read_edges",
    "read_graph",
    "read_mesh",
    "to_meshio",
    "write_graph",
    "write_mesh",
]
