"""What the suffix of a name asks for: Triangle's mesh files, or a format that meshio knows."""

from __future__ import annotations

import os

from morph.io.text.scanner import StrPath
from morph.language.messages import shortened

TRIANGLE = (".node", ".ele", ".poly")
MESHIO = (
    ".avs", ".bdf", ".cgns", ".dat", ".dato", ".dato.gz", ".e", ".ex2", ".exo", ".f3grid", ".fem",
    ".h5m", ".hmf", ".inp", ".mdpa", ".med", ".mesh", ".meshb", ".msh", ".nas", ".obj", ".off",
    ".ply", ".post", ".post.gz", ".stl", ".su2", ".svg", ".tec", ".ugrid", ".vol", ".vol.gz",
    ".vtk", ".vtu", ".wkt", ".xdmf", ".xmf", ".xml",
)  # fmt: skip


def suffix_of(path: StrPath) -> str:
    """Return the suffix of a path in lower case, with that before ``.gz``."""
    stem, suffix = os.path.splitext(os.fspath(path).lower())
    return os.path.splitext(stem)[1] + suffix if suffix == ".gz" else suffix


def is_foreign(path: StrPath) -> bool:
    """Tell whether a path names a file of meshio's formats, not one of Triangle's or their base.

    A base name may hold a dot before a digit, as in ``mesh.1``.

    Raises
    ------
    ValueError
        If the suffix is no format's.
    """
    suffix = suffix_of(path)
    if suffix in MESHIO:
        return True
    if suffix in ("", *TRIANGLE) or not suffix[1:2].isalpha():
        return False
    raise ValueError(
        f"{shortened(os.fspath(path), 60)}: no mesh format has the suffix {shortened(suffix, 20)};"
        " Triangle's files have .node .ele .poly or none, meshio's .msh .vtu .vtk and more"
    )


def is_foreign_file(path: StrPath) -> bool:
    """Tell the same of a file to be read, whose name may be the base of Triangle's files."""
    name = os.fspath(path)
    if any(os.path.exists(name + suffix) for suffix in TRIANGLE):
        return False
    return suffix_of(name) in MESHIO or (os.path.isfile(name) and is_foreign(name))
