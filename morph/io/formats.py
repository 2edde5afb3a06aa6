"""Mesh files of other formats, which meshio reads and writes; the suffix of a name tells them."""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from io import StringIO
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from morph.data.messages import shortened
from morph.io.bridges import from_meshio, import_meshio, to_meshio
from morph.io.text import FormatError, StrPath
from morph.mesh.mesh import Mesh

TRIANGLE = (".node", ".ele", ".poly")
MESHIO = (
    ".avs", ".bdf", ".cgns", ".dat", ".dato", ".dato.gz", ".e", ".ex2", ".exo", ".f3grid", ".fem",
    ".h5m", ".hmf", ".inp", ".mdpa", ".med", ".mesh", ".meshb", ".msh", ".nas", ".obj", ".off",
    ".ply", ".post", ".post.gz", ".stl", ".su2", ".svg", ".tec", ".ugrid", ".vol", ".vol.gz",
    ".vtk", ".vtu", ".wkt", ".xdmf", ".xmf", ".xml",
)  # fmt: skip
_FLAT = (".mesh", ".meshb", ".su2", ".svg", ".xdmf", ".xml", ".xmf")  # take two coordinates
_PHYSICAL = "gmsh:physical"


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


def read_foreign(path: StrPath) -> Mesh:
    """Read a mesh by meshio; see `from_meshio`.

    Physical groups of Gmsh become the triangles' attribute, if there is no other.

    Raises
    ------
    ImportError
        If meshio, or what it needs for the format, is not installed.
    FormatError
        If meshio cannot read the file, or it holds no triangle mesh.
    OSError
        If the file is missing or cannot be read.
    """
    name = os.fspath(path)
    if not os.path.exists(name):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    with open(name, "rb"):
        pass  # an OSError that names the file
    meshio = import_meshio()
    known = meshio.extension_to_filetypes.get(suffix_of(name), [])
    problem = "no reader for this suffix"
    for kind in sorted(known, key=lambda kind: kind != "gmsh"):  # .msh is ANSYS's, too
        found, problem = _quietly(name, lambda kind=kind: meshio.read(name, file_format=kind))
        if found is not None:
            try:
                return from_meshio(found, triangle_attributes=_groups(found))
            except ValueError as error:
                raise FormatError(name, None, str(error)) from error
    raise FormatError(name, None, f"meshio cannot read it: {problem}")


def _groups(found: Any) -> list[str] | None:
    """Name the data of triangles to carry, where the default names none."""
    data = found.cell_data
    if _PHYSICAL not in data or any(name.startswith("attribute_") for name in data):
        return None
    of_triangles = [
        values
        for block, values in zip(found.cells, data[_PHYSICAL], strict=True)
        if block.type.startswith("triangle")
    ]
    return [_PHYSICAL] if any(np.any(values) for values in of_triangles) else None


def write_foreign(mesh: Mesh, path: StrPath, order: int = 1) -> None:
    """Write a mesh by meshio; see `to_meshio`.

    In a ``.msh`` file, which is Gmsh's of version 2.2, markers of segments and the triangles'
    first attribute, if it holds integers, are physical groups.

    Raises
    ------
    ImportError
        If meshio, or what it needs for the format, is not installed.
    ValueError
        If meshio cannot write such a mesh in this format.
    OSError
        If the file cannot be written.
    """
    name, suffix = os.fspath(path), suffix_of(path)
    meshio = import_meshio()
    there = to_meshio(mesh, three_d=suffix not in _FLAT, order=order)
    kind = None
    if suffix == ".msh":
        kind, groups = "gmsh22", there.cell_data["marker"]
        of_triangles = there.cell_data.get("attribute_1", groups)[0]
        if np.array_equal(of_triangles, of_triangles.astype(np.int32)):
            groups[0] = of_triangles.astype(np.int32)
        there.cell_data = {_PHYSICAL: groups, "gmsh:geometrical": groups}
    folder, last = os.path.split(os.path.abspath(name))
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
    with TemporaryDirectory(prefix=f".{last}.", dir=folder) as made:
        target = os.path.join(made, last)
        done, problem = _quietly(name, lambda: meshio.write(target, there, file_format=kind) or 1)
        if done is None:
            raise ValueError(f"{shortened(name, 80)}: meshio cannot write it: {problem}")
        for file in os.listdir(made):  # XDMF's has an HDF5 file beside it
            os.replace(os.path.join(made, file), os.path.join(folder, file))


def _quietly(name: str, work: Any) -> tuple[Any, str]:
    """Call meshio, which prints and exits; return the result, or None and what is wrong."""
    said = StringIO()
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(said))
        stack.enter_context(redirect_stderr(said))
        try:
            return work(), ""
        except ModuleNotFoundError as error:
            message = f"{shortened(name, 80)}: meshio needs {error.name} for this format"
            raise ImportError(f"{message}: pip install {error.name}") from error
        except (OSError, MemoryError):
            raise
        except (Exception, SystemExit) as error:  # of readers and writers, whatever they raise
            text = str(error) if isinstance(error, Exception) else said.getvalue()
            return None, shortened(" ".join(text.split()) or type(error).__name__, 80)
