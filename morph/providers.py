"""The providers of functions that lower layers call; imported at the first call."""

from morph.data import formula
from morph.graph import adjacency, applied, export, graph
from morph.launch import kernels
from morph.mesh import mesh, pslg
from morph.partition import graph as parts


def bind() -> None:
    """Name the provider of each hook."""
    formula.read_cnf.bind("morph.io:read_cnf")
    mesh.read_mesh.bind("morph.io:read_mesh")
    mesh.write_mesh.bind("morph.io:write_mesh")
    mesh.from_meshio.bind("morph.io:from_meshio")
    mesh.to_meshio.bind("morph.io:to_meshio")
    mesh.from_pyvista.bind("morph.io:from_pyvista")
    mesh.to_pyvista.bind("morph.io:to_pyvista")
    mesh.find_simplex.bind("morph.algorithms.triangulation.location:find_simplex")
    mesh.interpolate.bind("morph.algorithms.triangulation.location:interpolate")
    mesh.draw.bind("morph.plotting.mesh:draw")
    mesh.save.bind("morph.plotting.mesh:save")
    mesh.preview.bind("morph.plotting.mesh:preview")
    pslg.read_pslg.bind("morph.io:read_pslg")
    pslg.write_pslg.bind("morph.io:write_pslg")
    adjacency.change.bind("morph.updates.in_place:change")
    adjacency.change_one.bind("morph.updates.in_place:change_one")
    adjacency.copy_entries.bind("morph.updates.in_place:copy_entries")
    export.draw.bind("morph.plotting.graph:draw")
    export.save.bind("morph.plotting.mesh:save")
    graph.apply.bind("morph.updates.changes:apply")
    graph.pair_up.bind("morph.updates.changes:pair_up")
    graph.single_changes.bind("morph.updates.single:single_changes")
    graph.many_changes.bind("morph.updates.many:many_changes")
    graph.recognise.bind("morph.updates.recognition:recognise")
    graph.partition.bind("morph.partition.partition:partition")
    kernels.launch_on_parts.bind("morph.partition.execution:launch_on_parts")
    parts.checkpoint.bind("morph.io.graph.checkpoint:checkpoint")
    applied.rows_of.bind("morph.updates.kept:rows_of")
    applied.parallel_edges.bind("morph.updates.batch:parallel_edges")
