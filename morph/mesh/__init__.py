"""Meshes of NumPy's or CuPy's arrays, what they are worth, and their exact judge."""

from morph.mesh.mesh import Mesh as Mesh
from morph.mesh.mesh import MeshError as MeshError
from morph.mesh.pslg import Pslg as Pslg
from morph.mesh.pslg import RepairWarning as RepairWarning
from morph.mesh.voronoi import Voronoi as Voronoi
