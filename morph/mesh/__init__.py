"""Meshes of NumPy or CuPy arrays: quality, Voronoi diagram, exact validation.

Imports ``language`` and ``runtime``; files and plots are bound by ``morph.providers``.
"""

from morph.mesh.mesh import Mesh as Mesh
from morph.mesh.mesh import MeshError as MeshError
from morph.mesh.pslg import Pslg as Pslg
from morph.mesh.pslg import RepairWarning as RepairWarning
from morph.mesh.voronoi import Voronoi as Voronoi
