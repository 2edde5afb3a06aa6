"""The registry of mesh formats, one row each; Triangle's files and meshio's by the suffix."""

from __future__ import annotations

import os

from morph.io.text.files import named
from morph.io.text.formats import Format
from morph.io.text.scanner import StrPath
from morph.language.messages import shortened

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
    Format(
        kind="mesh", name="meshio", common=3,
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
MESHIO = ROWS[-1].suffixes
TRIANGLE = tuple(s for row in ROWS[:-1] if row.kind == "mesh" for s in row.suffixes)


def suffix_of(path: StrPath) -> str:
    """Return the suffix of a path in lower case, with that before ``.gz``."""
    stem, suffix = os.path.splitext(named(path).lower())
    return os.path.splitext(stem)[1] + suffix if suffix == ".gz" else suffix


def is_foreign(path: StrPath) -> bool:
    """Return whether a path names a file of meshio's formats, not Triangle's or a base name.

    A base name may contain a dot before a digit, as in ``mesh.1``.

    Raises
    ------
    ValueError
        If the suffix is unknown.
    """
    suffix = suffix_of(path)
    if suffix in MESHIO:
        return True
    if suffix in ("", *TRIANGLE) or not suffix[1:2].isalpha():
        return False
    raise ValueError(
        f"{shortened(os.fspath(path), 60)}: no mesh format has the suffix {shortened(suffix, 20)};"
        f" Triangle's files have {' '.join(TRIANGLE)} or none, meshio's"
        f" {' '.join(MESHIO[: ROWS[-1].common])} and more"
    )


def is_foreign_file(path: StrPath) -> bool:
    """`is_foreign` for a file to be read; an existing base name of Triangle's files is not."""
    name = named(path)
    if any(os.path.exists(name + suffix) for suffix in TRIANGLE):
        return False
    return suffix_of(name) in MESHIO or (os.path.isfile(name) and is_foreign(name))
