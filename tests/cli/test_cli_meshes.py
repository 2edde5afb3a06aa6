"""``morph triangulate`` and ``morph refine`` with Triangle's options, on files."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from morph.cli import main
from morph.cli.meshfiles import Progress
from morph.io import read_edge, read_neigh, write_area, write_mesh, write_pslg
from morph.mesh import Mesh, Pslg

MESHES = Path(__file__).parents[2] / "meshes"
SQUARE = MESHES / "square"


def invoke(*args):
    return CliRunner().invoke(main, [str(a) for a in [*args, "--device", "cpu"]])


def report(*args):
    result = invoke(*args, "--json")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return json.loads(result.stdout)


def complaint(*args):
    result = invoke(*args)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("morph: ").rstrip()


@pytest.fixture
def poly(tmp_path):
    """A .poly file: two unit squares, the left with a region of small triangles."""
    points = np.array([[0, 0], [1, 0], [2, 0], [2, 1], [1, 1], [0, 1]], float)
    segments = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0], [1, 4]])
    regions = np.array([[0.5, 0.5, 3, 0.01], [1.5, 0.5, 7, -1]])
    write_pslg(Pslg(points, segments, regions=regions, base=1), tmp_path / "two.poly")
    return tmp_path / "two.poly"


def by_side(mesh):
    """Areas of triangles in the left and in the right square."""
    left = mesh.points[mesh.triangles].mean(axis=1)[:, 0] < 1
    return mesh.areas()[left], mesh.areas()[~left]


# --- triangulate ---------------------------------------------------------------------------------


def test_triangulate(poly, tmp_path):
    out = report("triangulate", poly, "-o", tmp_path / "out")
    mesh = Mesh.read(tmp_path / "out")
    mesh.check()
    assert out["input"] == {"points": 6, "segments": 7}
    assert out["output"] == {"points": 6, "triangles": 4, "segments": 7}
    assert out["quality"] == mesh.quality().to_dict()
    assert mesh.base == 1 and sorted(mesh.triangle_attributes[:, 0]) == [3, 3, 7, 7]


def test_triangulate_for_people(poly):
    lines = invoke("triangulate", poly).stdout.splitlines()
    assert lines[0] == "6 points, 7 segments became 4 triangles over 6 points"
    assert lines[1].startswith("angles 45.00 to 90.00 degrees")


def test_triangulate_concavities_and_points(tmp_path):
    points = np.array([[0, 0], [4, 0], [4, 4], [2, 1], [0, 4]], float)
    segments = np.array([[k, (k + 1) % 5] for k in range(5)])
    write_pslg(Pslg(points, segments), tmp_path / "v.poly")
    assert report("triangulate", tmp_path / "v")["quality"]["area"] == pytest.approx(10)
    assert report("triangulate", tmp_path / "v", "-c")["quality"]["area"] == 16
    (tmp_path / "p.node").write_text("4 2 0 0\n1 0 0\n2 1 0\n3 0 1\n4 1 1.5\n")
    assert report("triangulate", tmp_path / "p.node")["output"]["triangles"] == 2


def test_triangulate_what_crosses_or_repeats(tmp_path):
    points = np.array([[0, 0], [2, 2], [0, 2], [2, 0], [1, 5]], float)
    write_pslg(Pslg(points, np.array([[0, 1], [2, 3]])), tmp_path / "x.poly")
    assert complaint("triangulate", tmp_path / "x").startswith(f"{tmp_path / 'x'}: segment")
    split = report("triangulate", tmp_path / "x", "--crossing", "split")
    assert split["output"]["points"] == 6
    (tmp_path / "d.node").write_text("4 2 0 0\n1 0 0\n2 1 0\n3 0 1\n4 1 0\n")
    assert "vertex 4" in complaint("triangulate", tmp_path / "d.node")
    repaired = invoke("triangulate", tmp_path / "d.node", "--repair")
    assert repaired.exit_code == 0 and "d.node:5" in repaired.stderr


# --- refine --------------------------------------------------------------------------------------


def test_a_poly_is_triangulated_first(poly, tmp_path):
    out = report("refine", poly, "-a", "-o", tmp_path / "out")
    left, right = by_side(Mesh.read(tmp_path / "out"))
    assert out["unmet"] == {} and out["quality"]["min_angle"] >= 20
    assert left.max() <= 0.01 < right.max()


def test_the_least_of_several_areas_counts(poly, tmp_path):
    report("refine", poly, "-a", 0.05, "-a", "-o", tmp_path / "out")
    left, right = by_side(Mesh.read(tmp_path / "out"))
    assert left.max() <= 0.01 < right.max() <= 0.05
    assert report("refine", poly, "-a0.05", "-a", 0.002)["quality"]["max_area"] <= 0.002


def test_areas_of_triangles_are_read_beside_the_mesh(tmp_path):
    mesh = Mesh.read(SQUARE)
    write_mesh(mesh, tmp_path / "s")
    write_area([0.001, -1, -1, -1], tmp_path / "s.area", base=mesh.base)
    fine = report("refine", tmp_path / "s", "-a", "-o", tmp_path / "fine")
    areas = Mesh.read(tmp_path / "fine").areas()
    assert areas.min() <= 0.001 and areas.max() > 0.002 and fine["unmet"] == {}
    again = report("refine", tmp_path / "s", "-p", "-q", 0, "-o", tmp_path / "again")
    assert again["input"]["triangles"] == 4


def test_attributes_of_regions(poly, tmp_path):
    report("triangulate", poly, "-o", tmp_path / "two")
    mesh = Mesh.read(tmp_path / "two")
    mesh.triangle_attributes = np.empty((4, 0))
    mesh.regions = Pslg.read(poly).regions
    write_mesh(mesh, tmp_path / "bare")
    report("refine", tmp_path / "bare", "-A", "-a", 0.1, "-o", tmp_path / "out")
    fine = Mesh.read(tmp_path / "out")
    left = fine.points[fine.triangles].mean(axis=1)[:, 0] < 1
    assert (fine.triangle_attributes[:, 0] == np.where(left, 3, 7)).all()
    assert complaint("refine", SQUARE, "-A").startswith("-A: there is no region in")


@pytest.mark.parametrize("options", [[], ["-A"]])
def test_attributes_of_regions_are_given_by_letter_only(poly, tmp_path, options):
    report("refine", poly, "-a0.1", "-o", tmp_path / "out", *options)
    report("refine", poly, "-p", "-a", "--deterministic", "-o", tmp_path / "same", *options)
    for name in ("out", "same"):
        fine = Mesh.read(tmp_path / name)
        left = fine.points[fine.triangles].mean(axis=1)[:, 0] < 1
        wanted = np.where(left, 3, 7)[:, None] if options else np.empty((len(left), 0))
        assert np.array_equal(fine.triangle_attributes, wanted)


def test_attributes_of_triangles_are_carried(poly, tmp_path):
    report("triangulate", poly, "-o", tmp_path / "two")
    report("refine", tmp_path / "two", "-a0.1", "-o", tmp_path / "out")
    fine = Mesh.read(tmp_path / "out")
    left = fine.points[fine.triangles].mean(axis=1)[:, 0] < 1
    assert np.array_equal(fine.triangle_attributes[:, 0], np.where(left, 3, 7))


def test_sizes(tmp_path):
    n = len(Mesh.read(SQUARE).points)
    np.save(tmp_path / "h.npy", np.full(n, 0.2))
    (tmp_path / "h.txt").write_text("# lengths\n" + "0.2\n" * n)
    for size in (0.2, tmp_path / "h.npy", tmp_path / "h.txt"):
        assert 0.1 < report("refine", SQUARE, "-u", size)["quality"]["max_edge"] <= 0.2
    (tmp_path / "bad.txt").write_text("0.2\n0.3\n")
    assert complaint("refine", SQUARE, "-u", tmp_path / "bad.txt").endswith(
        f"holds float64 numbers of shape (2,), not {n}, one for each vertex"
    )
    (tmp_path / "bad.npy").write_text("no array")
    assert complaint("refine", SQUARE, "-u", tmp_path / "bad.npy").startswith("--size: ")
    assert complaint("refine", SQUARE, "-u", "nothing.txt").startswith("nothing.txt")
    assert "must be positive, not -1.0" in complaint("refine", SQUARE, "--size=-1")


def test_kept_boundaries_and_budgets(tmp_path):
    italy = MESHES / "italy"
    free = report("refine", italy, "-q", 28)
    kept = report("refine", italy, "-q", 28, "-Y")
    assert free["output"]["segments"] > kept["output"]["segments"] == kept["input"]["segments"]
    assert set(kept["unmet"]) == {"boundary kept"} and free["unmet"] == {}
    assert report("refine", italy, "-q28", "-YY")["unmet"] == kept["unmet"]
    few = report("refine", italy, "-a", 0.01, "-S", 5)
    assert few["added"] == 5 and set(few["unmet"]) == {"budget"}
    lines = invoke("refine", italy, "-a", 0.01, "-S5").stdout.splitlines()
    assert lines[-1] == f"limits not met: {few['unmet']['budget']:,} triangles (budget)"


def test_conforming_by_letter(tmp_path):
    norway = MESHES / "norway.poly"
    plain = report("refine", norway, "-q20", "-o", tmp_path / "plain")
    for letter in ("-D", "--conforming"):
        done = report("refine", norway, "-q20", letter, "-o", tmp_path / "fine")
        assert done["output"]["triangles"] > 1.1 * plain["output"]["triangles"]
        Mesh.read(tmp_path / "fine").check(conforming=True)


def test_minimum_angle_by_default_and_by_letter():
    italy = MESHES / "italy"
    sizes = [
        report("refine", italy, *args)["output"]["triangles"]
        for args in ([], ["-q"], ["-q", 20], ["-q20"], ["--min-angle=20"])
    ]
    assert len(set(sizes)) == 1
    assert report("refine", italy, "-q", 0)["output"]["triangles"] < sizes[0]


def test_every_file_of_a_mesh(tmp_path):
    out = tmp_path / "out"
    report("refine", SQUARE, "-a", 0.05, "-o", out, "--neigh", "--edges", "--order2")
    names = ["out.edge", "out.ele", "out.neigh", "out.node", "out.poly"]
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    mesh = Mesh.read(out)  # of second order: middles are left behind
    mesh.check()
    assert np.array_equal(read_neigh(tmp_path / "out.neigh", mesh), mesh.neighbors)
    assert len((tmp_path / "out.ele").read_text().splitlines()[1].split()) == 7
    report("refine", SQUARE, "-a", 0.05, "-o", out, "-e")
    assert len(read_edge(tmp_path / "out.edge", Mesh.read(out))[0]) > 0


def test_report_for_people():
    lines = invoke("refine", MESHES / "norway", "-q", 25, "--report").stdout.splitlines()
    assert any(line.startswith("aspect ratio up to ") for line in lines)
    assert sum(line.split()[0].isdigit() and len(line.split()) == 4 for line in lines) == 9
    assert lines[-1].endswith("triangles (small input angle)")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-a", "x"], "--max-area: 'x' is not a number"),
        (["-a", "inf"], "--max-area: inf is not a positive, finite number"),
        (["-a", "0.1", "-c"], f"--hull: {SQUARE} has triangles; -p triangulates again"),
        (["--crossing", "split"], f"--crossing: {SQUARE} has triangles"),
        (["-n"], "--neigh says how files are written: it needs -o"),
        (["-S", "-1"], "Invalid value for '-S' / '--max-points'"),
    ],
)
def test_bad_options(args, message):
    assert complaint("refine", SQUARE, *args).startswith(message)


# --- terminals -----------------------------------------------------------------------------------


def test_progress_is_one_line_that_goes(capsys):
    line = Progress()
    line.phase("points", 1200)
    line.round(3, 17, 123456)
    line.round(4, 1, 123456)  # too soon after: not shown
    line.clear()
    shown = capsys.readouterr().err
    assert shown.startswith("\rtriangulating: 1,200 points\rround 3: 17 bad of 123,456 triangles")
    assert "round 4" not in shown and shown.endswith("\r") and "\n" not in shown


def heed_interrupts():
    """Undo what a shell does to commands in the background: they ignore interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(os.name != "posix", reason="signals and terminals of POSIX")
def test_an_interrupt_leaves_no_files(tmp_path):
    args = ["refine", MESHES / "canada", "-a", "0.00002", "-o", tmp_path / "out", "--device", "cpu"]
    controller, terminal = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "morph", *map(str, args)], stderr=terminal, stdout=subprocess.PIPE,
        preexec_fn=heed_interrupts,
    ) as run:  # fmt: skip
        seen = b""
        os.close(terminal)
        while b"bad of" not in seen:
            seen += os.read(controller, 4096)
        time.sleep(0.1)
        run.send_signal(signal.SIGINT)
        while True:  # a full terminal would stop the command
            try:
                if not os.read(controller, 4096):
                    break
            except OSError:
                break
        assert run.wait(60) == 130
    os.close(controller)
    assert list(tmp_path.iterdir()) == []
