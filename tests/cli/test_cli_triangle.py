"""The mesh commands with the options of Triangle as single letters: advice and error lines."""

import numpy as np
import pytest
from click.testing import CliRunner
from meshfiles import MESHES

import morph
from morph.cli import main
from morph.io import FormatError
from morph.language.messages import shortened, shown

# Triangle's own example: the outline is open, and one hole fills what segments enclose
BOX = """8 2 0 1
1 0 0 0
2 0 3 0
3 3 0 0
4 3 3 33
5 1 1 0
6 1 2 0
7 2 1 0
8 2 2 0
5 1
1 1 2 5
2 5 7 0
3 7 8 0
4 8 6 10
5 6 5 0
1
1 1.5 1.5
"""
LONG = "x" * 190
CARVED = "every triangle is carved away: "


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "box.poly").write_text(BOX)
    return tmp_path


def complaint(*args):
    done = CliRunner().invoke(main, [str(a) for a in args])
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert done.stderr.startswith("morph: ") and done.stderr.count("\n") == 1
    assert len(done.stderr) <= 201
    return done.stderr.removeprefix("morph: ").rstrip()


@pytest.mark.parametrize("command", ["triangulate", "refine"])
def test_an_open_outline_suggests_the_hull(folder, command):
    wanted = f"box.poly: {CARVED}the segments enclose holes only; --hull keeps the convex hull"
    assert complaint(command, "box.poly", "--device", "cpu") == wanted
    args = [command, "box.poly", "--hull", "-o", "box", "--device", "cpu"]
    assert CliRunner().invoke(main, args).exit_code == 0
    mesh = morph.Mesh.read("box")
    mesh.check()
    assert mesh.quality().area == 8


def test_an_open_outline_in_python(folder, target):
    graph = morph.Pslg.read("box.poly")
    with pytest.raises(ValueError, match="hull=True keeps the convex hull"):
        morph.triangulate(graph, device=target)
    everything = morph.Pslg(graph.points, holes=[[0.5, 0.5]])
    with pytest.raises(ValueError, match=f"{CARVED}the holes reach all of the domain"):
        morph.triangulate(everything, device=target)
    with pytest.raises(ValueError, match=f"{CARVED}the holes reach all of the domain"):
        morph.triangulate(everything, hull=True, device=target)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["triangulate", "-pc", "box.poly"], "No such option '-p'. A .poly file is always read"),
        (["triangulate", "-A", "box"], "No such option '-A'. The regions' attributes are always"),
        (["triangulate", "-q30", "box"], "No such option '-q'. It is an option of morph refine."),
        (["triangulate", "-C", "box"], "No such option '-C'. The command is morph check MESH."),
        (["triangulate", "-K", "box"], "No such option '-K'. See morph triangulate --help."),
        (["refine", "-r", "box"], "No such option '-r'. A mesh with an .ele file is refined as"),
        (["refine", "-Q", "box"], "No such option '-Q'. The option --json prints one line."),
        (["refine", "-I", "box"], "No such option '-I'. The names are those of -o"),
        (["refine", "-pcq30a0.1", "box"], "Invalid value for '-q' / '--min-angle': '30a0.1' is not"
         " a number; letters stand apart: -q30 -a0.1"),
        (["refine", "-q35", "box"], "Invalid value for '-q' / '--min-angle': 35.0 is not in the"),
        (["refine", "box", "-o2"], "-o2: for elements of second order --order2, for files of this"),
        (["triangulate", "box", "--plot", "a.foo"], "--plot: a.foo: the suffix is one of avif"),
        (["triangulate", "."], ".: Is a directory"),
        (["refine", "."], ".: Is a directory"),
        (["check", "."], ".: Is a directory"),
        (["bfs", "-p"], "No such option '-p'."),
    ],
)  # fmt: skip
def test_advice(folder, args, message):
    pytest.importorskip("matplotlib")
    assert complaint(*args).startswith(message)
    assert [p.name for p in folder.iterdir()] == ["box.poly"]


def test_options_stand_where_python_has_arguments(folder):
    (folder / "x.poly").write_text("4 2\n1 0 0\n2 1 1\n3 0 1\n4 1 0\n2\n1 1 2\n2 3 4\n0\n")
    wanted = "x.poly: segments 0 and 1 cross: --crossing split splits both there (counted from 0)"
    assert complaint("triangulate", "x.poly", "--device", "cpu") == wanted
    (folder / "y.poly").write_text("4 2\n0 0 0\n1 1 1\n2 0 1\n3 1 0\n2\n0 0 1\n1 2 3\n0\n")
    assert complaint("triangulate", "y.poly", "--device", "cpu") == wanted.replace("x", "y")[:-17]


# --- long names and values -----------------------------------------------------------------------

LONG_ARGUMENTS = [
    ["triangulate", f"{LONG}.poly"],
    ["triangulate", LONG],
    ["triangulate", f"{LONG}.foo"],
    ["triangulate", "box.poly", "--crossing", LONG],
    ["triangulate", "box.poly", "--device", LONG],
    ["triangulate", "box.poly", f"--{LONG}"],
    ["triangulate", "box.poly", "-o", f"{LONG}/{LONG}"],
    ["triangulate", "box.poly", "-o", f"{LONG}.{LONG}"],
    ["triangulate", "box.poly", "--plot", f"{LONG}.{LONG}"],
    ["triangulate", "box.poly", LONG],
    ["refine", LONG],
    ["refine", f"{LONG}.vtu"],
    ["refine", "box.poly", "-a", LONG],
    ["refine", "box.poly", "-q", LONG],
    ["refine", "box.poly", "-c", "-u", LONG],
    ["refine", "box.poly", "-c", "-u", f"{LONG}.npy"],
    ["refine", "box.poly", "-c", "-u", "long.txt"],
    ["refine", "box.poly", "-S", LONG],
    ["check", LONG],
    ["check", f"{LONG}.msh"],
    ["check", "box.poly", "--as", LONG],
]


@pytest.mark.parametrize("args", LONG_ARGUMENTS, ids=lambda a: " ".join(a)[:30])
def test_error_lines_are_short(folder, args):
    (folder / "long.txt").write_text(LONG * 20)
    complaint(*args)


NODE = "3 2 0 0\n0 0 0\n1 1 0\n2 0 1\n"
MANY = "1 2 1000 0\n0 " + "1 " * 7
FILES = {
    "node": [LONG, f"{LONG} 2", f"3 {LONG}", f"3 2 0 0\n0 {LONG} 0", f"3 2 0 0\n{'0 ' * 500}", MANY,
             f"3 2 0 0\n0 0 0\n1 {'9' * 400} 0\n2 0 1", f"{NODE}{LONG}", f"{'9' * 300} 2 0 0"],
    "poly": [f"{NODE}{LONG}", f"{NODE}1 0\n0 0 {'9' * 300}", f"{NODE}1 0\n0 0 {'8' * 18}",
             f"{NODE}1 1\n0 0 1 {'9' * 18}", f"{NODE}0\n1\n{LONG}", f"{NODE}0\n0\n1\n0 0 {LONG}"],
    "ele": [LONG, f"1 3 0\n0 0 1 {LONG}", f"1 3 0\n{LONG} 0 1 2", "1 3 0\n0 0 1 " + "9" * 18,
            "1 3 1000\n0 0 1 2", "1 3 0\n0 0 2 1", "1 3 0\n0 0 1 1"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("suffix", "row"), [(suffix, row) for suffix in FILES for row in range(len(FILES[suffix]))]
)
def test_errors_about_files_are_short(folder, suffix, row):
    name = "y" * 120
    (folder / f"{name}.node").write_text(NODE)
    (folder / f"{name}.{suffix}").write_text(FILES[suffix][row])
    read = morph.Mesh.read if suffix == "ele" else morph.Pslg.read
    with pytest.raises(FormatError) as caught:
        read(folder / f"{name}.{suffix}")
    assert len(str(caught.value)) <= 200 and "\n" not in str(caught.value)
    complaint("refine" if suffix == "ele" else "triangulate", f"{name}.{suffix}")


def test_many_violations_are_reported_in_one_line():
    mesh = morph.Mesh.read(MESHES / "italy")
    mesh.triangles = np.ascontiguousarray(mesh.triangles[:, ::-1])
    mesh.segments[1], mesh.segments[2] = mesh.segments[0], [0, len(mesh.points) // 2]
    mesh.points[3] = mesh.points[5]
    with pytest.raises(morph.MeshError) as caught:
        mesh.check()
    assert len(caught.value.violations) > 3
    assert len(str(caught.value)) <= 200 and "\n" not in str(caught.value)


def test_mesh_errors_are_public():
    assert issubclass(morph.MeshError, ValueError)
    with pytest.raises(morph.MeshError, match="edge-use"):
        morph.Mesh([[0, 0], [1, 0], [0, 1]], [[0, 1, 2], [0, 1, 2]])


@pytest.mark.parametrize("most", [100, 200])
def test_what_is_cut_from_a_message(most):
    path = "/" + "/".join("folder" for _ in range(60)) + "/coast.poly"
    text = shortened(f"{path}:17: segment 3 joins a vertex to itself", most)
    assert len(text) <= most and text.startswith("...")
    assert text.endswith("/coast.poly:17: segment 3 joins a vertex to itself")
    assert shortened("a few words", most) == "a few words"
    assert len(shortened("word " * 100, most)) == most
    assert len(shown(["é" * 300] * 9, most)) <= most and "\n" not in shown("a\nb" * 99, most)
