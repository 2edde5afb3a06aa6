"""The registry of mesh formats, one row each; Triangle's files and meshio's by the suffix."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from morph.io.mesh.meshio import import_meshio, read_by_meshio, write_by_meshio
from morph.io.text.formats import Format, suffix_of
from morph.io.text.scanner import StrPath
from morph.language.messages import shortened
from morph.mesh import Mesh


@dataclass(frozen=True, kw_only=True)
class MeshFormat(Format):
    """A format of files each of which holds a mesh, unlike Triangle's, of which several do.

    Attributes
    ----------
    read : callable
        Argument: a path.
    write : callable
        Arguments: a mesh, a path and the order of the elements, 1 or 2.
    require : callable
        Raises an `ImportError` if a package is missing.
    """

    read: Callable[[StrPath], Mesh]
    write: Callable[[Mesh, StrPath, int], None]
    require: Callable[[], object]
    kind: str = "mesh"


ROWS = (
    Format(
        kind="mesh", name="node", suffixes=(".node",), about="vertices, attributes, markers",
        reader="`read_mesh`, `read_pslg`", writer="`write_mesh`",
    ),
    Format(
        kind="mesh", name="ele", suffixes=(".ele",),
        about="triangles of 3 or 6 nodes, attributes",
        reader="`read_mesh`", writer="`write_mesh(..., order=2)` for 6",
    ),
    Format(
        kind="mesh", name="poly", suffixes=(".poly",),
        about="segments, holes, regions; vertices, or 0 and then those of the `.node` file",
        reader="`read_mesh`, `read_pslg`", writer="`write_mesh`, `write_pslg`",
    ),
    Format(
        kind="part of a mesh", name="area", suffixes=(".area",),
        about="the largest area of each triangle", reader="`read_area`", writer="`write_area`",
    ),
    Format(
        kind="part of a mesh", name="neigh", suffixes=(".neigh",),
        about="the triangles opposite each triangle's corners",
        reader="`read_neigh`", writer="`write_mesh(..., neighbors=True)`, `write_neigh`",
    ),
    Format(
        kind="part of a mesh", name="edge", suffixes=(".edge",), about="edges with markers",
        reader="`read_edge`", writer="`write_mesh(..., edges=True)`, `write_edge`",
    ),
    Format(
        kind="part of a mesh", name="voronoi", suffixes=(".v.node", ".v.edge"), common=2,
        about="the Voronoi diagram: vertices with attributes, edges and rays",
        reader="", writer="`write_mesh(..., voronoi=True)`",
    ),
    MeshFormat(
        name="meshio", common=3, read=read_by_meshio, write=write_by_meshio, require=import_meshio,
        suffixes=(
            ".msh", ".vtu", ".vtk", ".avs", ".bdf", ".cgns", ".dat", ".dato", ".dato.gz", ".e",
            ".ex2", ".exo", ".f3grid", ".fem", ".h5m", ".hmf", ".inp", ".mdpa", ".med", ".mesh",
            ".meshb", ".nas", ".obj", ".off", ".ply", ".post", ".post.gz", ".stl", ".su2", ".svg",
            ".tec", ".ugrid", ".vol", ".vol.gz", ".wkt", ".xdmf", ".xmf", ".xml",
        ),
        about="triangles, lines, data",
        reader="`read_mesh`, `from_meshio`", writer="`write_mesh`, `to_meshio`",
    ),
)  # fmt: skip
SINGLE = {suffix: row for row in ROWS if isinstance(row, MeshFormat) for suffix in row.suffixes}
TRIANGLE = tuple(s for row in ROWS if row.kind == "mesh" for s in row.suffixes if s not in SINGLE)


def format_of(path: StrPath) -> MeshFormat | None:
    """Return the format of a path's suffix; None for Triangle's files or their base name.

    A base name may contain a dot before a digit, as in ``mesh.1``.

    Raises
    ------
    ValueError
        If the suffix is unknown.
    """
    suffix = suffix_of(path)
    if suffix in SINGLE:
        return SINGLE[suffix]
    if suffix in ("", *TRIANGLE) or not suffix[1:2].isalpha():
        return None
    meshio = ROWS[-1]
    raise ValueError(
        f"{shortened(os.fspath(path), 60)}: no mesh format has the suffix {shortened(suffix, 20)};"
        f" Triangle's files have {' '.join(TRIANGLE)} or none, {meshio.name}'s"
        f" {' '.join(meshio.suffixes[: meshio.common])} and more"
    )


def format_of_file(path: StrPath) -> MeshFormat | None:
    """`format_of` for a file to be read; None for an existing base name of Triangle's files."""
    name = os.fspath(path)
    if any(os.path.exists(name + suffix) for suffix in TRIANGLE):
        return None
    return SINGLE.get(suffix_of(name)) or (format_of(name) if os.path.isfile(name) else None)
