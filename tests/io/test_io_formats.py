"""The suffix of a file name selects the format in which a mesh is read or written."""

import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from meshfiles import MESHES, assert_equal, grid

import morph
from morph.cli import main
from morph.io import FormatError, from_meshio, read_mesh, write_mesh
from morph.io.mesh.formats import SINGLE, format_of

meshio = pytest.importorskip("meshio")
EXTRA = "this needs meshio: pip install 'morph-engine[mesh]'"


@pytest.fixture
def mesh():
    """A mesh with markers and attributes of every kind, the triangles' whole numbers."""
    made = grid(4, 3, random.Random(7))
    made.triangle_attributes = np.rint(made.triangle_attributes * 10) + 1
    made.holes, made.regions, made.base = np.empty((0, 2)), np.empty((0, 4)), 0
    return made


def files(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("suffix", [".msh", ".vtu", ".vtk", ".VTU"])
def test_everything_comes_back(mesh, tmp_path, suffix, order, capfd):
    mesh.write(tmp_path / f"m{suffix}", order=order)
    assert files(tmp_path) == [f"m{suffix}"]
    assert_equal(morph.Mesh.read(tmp_path / f"m{suffix}"), mesh)
    assert np.array_equal(from_meshio(tmp_path / f"m{suffix}").triangles, mesh.triangles)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("suffix", [".mesh", ".inp", ".obj", ".off", ".ply", ".vol", ".mdpa"])
def test_points_and_triangles_come_back(mesh, tmp_path, suffix, capfd):
    write_mesh(mesh, str(tmp_path / f"m.1{suffix}"))
    back = read_mesh(tmp_path / f"m.1{suffix}")
    assert np.allclose(back.points, mesh.points, atol=1e-6)
    assert np.array_equal(back.triangles, mesh.triangles)
    assert capfd.readouterr() == ("", "")


def test_attributes_that_are_no_whole_numbers_stay_out_of_gmsh(mesh, tmp_path):
    mesh.triangle_attributes += 0.5
    mesh.write(tmp_path / "m.msh")
    back = morph.Mesh.read(tmp_path / "m.msh")
    assert back.triangle_attributes.shape[1] == 0
    assert np.array_equal(back.segment_markers, mesh.segment_markers)


def test_triangle_s_names_stay(mesh, tmp_path):
    for base in ("a", "a.1", "a.1.node", "a.0.5mm", "dir.vtu/b"):
        (tmp_path / base).parent.mkdir(exist_ok=True)
        mesh.write(tmp_path / base)
        assert len(morph.Mesh.read(tmp_path / base).triangles) == len(mesh.triangles)
    for suffix in ("node", "ele", "poly"):  # written by an earlier version
        (tmp_path / "a.1.node").with_suffix(f".{suffix}").rename(tmp_path / f"old.vtu.{suffix}")
    assert len(morph.Mesh.read(tmp_path / "old.vtu").triangles) == len(mesh.triangles)


def refused(kind, call, *args, **options):
    with pytest.raises(kind) as caught:
        call(*args, **options)
    text = str(caught.value)
    assert len(text) <= 200 and "\n" not in text
    return text


def test_unknown_suffixes(mesh, tmp_path):
    for name in ("m.foo", "m.node.gz", "m.neigh", "m." + "x" * 300, "y" * 300 + ".foo"):
        assert "no mesh format has the suffix ." in refused(ValueError, mesh.write, tmp_path / name)
    (tmp_path / "m.foo").write_text("?")
    for call in (morph.Mesh.read, morph.Pslg.read, morph.triangulate, morph.refine):
        assert "no mesh format has the suffix .foo" in refused(ValueError, call, tmp_path / "m.foo")
    refused(FileNotFoundError, morph.Mesh.read, tmp_path / "n.foo")
    assert files(tmp_path) == ["m.foo"]


def test_without_meshio(mesh, tmp_path, monkeypatch):
    mesh.write(tmp_path / "m.vtu")
    monkeypatch.setitem(sys.modules, "meshio", None)
    assert refused(ImportError, mesh.write, tmp_path / "n.msh") == EXTRA
    assert refused(ImportError, morph.Mesh.read, tmp_path / "m.vtu") == EXTRA
    assert refused(ImportError, morph.refine, tmp_path / "m.vtu") == EXTRA
    for args in (
        ["check", "m.vtu"],
        ["refine", "m.vtu"],
        ["refine", MESHES / "square", "-o", "n.msh"],
    ):
        args = [str(tmp_path / a) if str(a).startswith(("m.", "n.")) else str(a) for a in args]
        done = CliRunner().invoke(main, args)
        assert (done.exit_code, done.stderr) == (1, f"morph: {EXTRA}\n")
    assert files(tmp_path) == ["m.vtu"]


def test_what_meshio_refuses(mesh, tmp_path, monkeypatch):
    (tmp_path / "m.su2").write_text("keep")
    text = refused(ValueError, mesh.write, tmp_path / "m.su2")
    assert "m.su2: meshio cannot write it:" in text
    assert (tmp_path / "m.su2").read_text() == "keep"
    for name in ("m.vtu", "m.msh", "m.mesh", "m.stl", "m.svg"):
        (tmp_path / name).write_bytes(b"\x00nothing")
        assert f"{name}: " in refused(FormatError, morph.Mesh.read, tmp_path / name)
    missing = refused(FileNotFoundError, morph.Mesh.read, tmp_path / "absent.vtu")
    assert missing.endswith("absent.vtu'")
    assert "No such file" in refused(FileNotFoundError, mesh.write, tmp_path / "no" / "m.vtu")
    quads = meshio.Mesh(np.eye(4)[:, :3], [("quad", [[0, 1, 2, 3]])])
    quads.write(tmp_path / "quad.vtk")
    assert "quad.vtk: " in refused(FormatError, morph.Mesh.read, tmp_path / "quad.vtk")

    def needs(*args, **options):
        raise ModuleNotFoundError("No module named 'h5py'", name="h5py")

    monkeypatch.setattr(meshio, "write", needs)
    text = refused(ImportError, mesh.write, tmp_path / "m.xdmf")
    assert text.endswith("m.xdmf: meshio needs h5py for this format: pip install h5py")
    assert not any(name.startswith(".") for name in files(tmp_path))


def test_other_files_and_graphs_are_not_of_these_formats(mesh, tmp_path):
    mesh.write(tmp_path / "m.vtu")
    for option in ("neighbors", "edges"):
        text = refused(ValueError, write_mesh, mesh, tmp_path / "n.msh", **{option: True})
        assert "Triangle's files" in text
    text = refused(ValueError, read_mesh, tmp_path / "m.vtu", repair=True)
    assert text == "repair is for Triangle's files, not for a .vtu"
    for call in (morph.Pslg.read, morph.triangulate):
        assert "read from a .poly or .node file" in refused(FormatError, call, tmp_path / "m.vtu")
    graph = morph.Pslg([[0, 0], [1, 0], [0, 1]])
    assert refused(ValueError, graph.write, tmp_path / "g.msh") == (
        "a graph is written as .poly: no .msh"
    )
    assert files(tmp_path) == ["m.vtu"]


def test_refine_takes_files_of_other_formats(tmp_path):
    mesh = read_mesh(MESHES / "italy")
    mesh.write(tmp_path / "m.vtu")
    fine = morph.refine(tmp_path / "m.vtu", 25, deterministic=True, device="cpu")
    known = morph.refine(mesh, 25, deterministic=True, device="cpu")
    known.base, known.holes = fine.base, fine.holes
    assert_equal(fine, known)


def test_commands(tmp_path):
    def run(*args):
        args = [str(tmp_path / a) if str(a).startswith("out.") else str(a) for a in args]
        return CliRunner().invoke(main, args)

    for suffix in (".vtu", ".msh"):
        done = run("refine", MESHES / "italy", "-q25", "-o", f"out.{suffix[1:]}", "--json")
        assert done.exit_code == 0 and json.loads(done.stdout)
        assert run("check", f"out{suffix}").stdout.startswith("the mesh is good")
        assert run("refine", f"out{suffix}", "-q25", "--json").exit_code == 0
    assert run("triangulate", MESHES / "italy.poly", "-o", "out.vtk").exit_code == 0
    assert files(tmp_path) == ["out.msh", "out.vtk", "out.vtu"]
    (tmp_path / "out.foo").write_text("?")
    for args, message in [
        (["refine", "out.vtu", "-o", "out.foo"], "-o: "),
        (["refine", "out.vtu", "-o", "out.msh", "-n"], "--neigh is for Triangle's files, not for "),
        (["refine", "out.vtu", "--repair"], "repair is for Triangle's files, not for a .vtu"),
        (["refine", "out.vtu", "--hull"], "--hull: "),
        (["triangulate", "out.foo"], "out.foo: no mesh format has the suffix .foo"),
        (["check", "out.foo"], "out.foo: no mesh format has the suffix .foo"),
        (["triangulate", "out.vtu"], "out.vtu: a graph is read from"),
    ]:
        done = run(*args)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith("morph: ") and len(done.stderr) <= 201
        assert message in done.stderr  # a long path is cut in the middle


def test_the_suffixes_are_meshio_s():
    theirs = set(meshio.extension_to_filetypes) - {".node", ".ele"}
    assert theirs == set(SINGLE)
    assert all(format_of(Path(f"a{suffix}")) is SINGLE[suffix] for suffix in SINGLE)
