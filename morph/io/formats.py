"""The registry of file formats: the rows of graphs, meshes, formulas and snapshots."""

from morph.io.graph import formats as graph
from morph.io.graph.snapshot import SNAPSHOT_FORMAT
from morph.io.mesh import formats as mesh
from morph.io.sat.cnf import CNF
from morph.io.text.formats import Format

ROWS: tuple[Format, ...] = (*graph.ROWS, *mesh.ROWS, CNF, SNAPSHOT_FORMAT)
