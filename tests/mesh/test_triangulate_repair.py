"""Segments of zero length are dropped where points are merged, and are reported."""

import warnings

import numpy as np
import pytest
from click.testing import CliRunner
from meshfiles import refusal

import morph
from morph.cli import main
from morph.io import RepairWarning, read_pslg

POINTS = [[0, 0], [4, 0], [4, 3], [0, 3], [4, 0], [1, 1], [2, 2]]  # 4 repeats 1
SEGMENTS = [[0, 1], [5, 5], [4, 2], [2, 3], [3, 0], [1, 4], [0, 0], [5, 6], [1, 3]]
MARKERS = [1, 2, 3, 4, 5, 6, 7, 8, 9]
MERGE = {"duplicates": "merge", "crossing": "split"}


def assert_repaired(mesh):
    mesh.check()
    assert mesh.segments[mesh.segment_markers == 3].tolist() in ([[1, 2]], [[2, 1]])
    assert set(mesh.segment_markers.tolist()) == {1, 3, 4, 5, 8, 9}
    assert len(mesh.points) == 8 and not (mesh.triangles == 4).any()


@pytest.mark.parametrize("order", [1, -1])
def test_arrays(target, order):
    with pytest.warns(RepairWarning) as reported:
        mesh = morph.triangulate(
            POINTS, SEGMENTS[::order], segment_markers=MARKERS[::order], device=target, **MERGE
        )
    first = {1: 1, -1: 2}[order]
    message = f"segments[{first}] has zero length: dropped (and 2 more like it)"
    assert [str(w.message) for w in reported] == [message]
    assert reported[0].filename == __file__
    assert_repaired(mesh)


def test_graphs(target):
    graph = morph.Pslg(POINTS, [s for s in SEGMENTS if s[0] != s[1]])
    with pytest.warns(RepairWarning, match=r"segments\[4\] has zero length: dropped$"):
        mesh = morph.triangulate(graph, device=target, **MERGE)
    mesh.check()


def test_only_segments_of_zero_length(target):
    with pytest.warns(RepairWarning, match=r"segments\[0\] has zero length: dropped$"):
        mesh = morph.triangulate(POINTS, [[2, 2]], duplicates="merge", device=target)
    mesh.check()
    assert mesh.quality().area == 12


def test_rows_in_errors_are_those_of_the_input(target):
    with pytest.warns(RepairWarning), pytest.raises(ValueError, match="segments 2 and 3 cross"):
        segments = [[0, 0], [1, 1], [0, 2], [1, 3]]
        morph.triangulate(POINTS, segments, duplicates="merge", device=target)
    with pytest.raises(ValueError, match=r"segments\[2\] = \[0, 9\]"):
        morph.triangulate(POINTS, [[0, 0], [1, 1], [0, 9]], duplicates="merge", device=target)
    with pytest.raises(
        ValueError, match=r"segments\[1\] = \[5, 5\]: a segment joins two different"
    ):
        morph.triangulate(POINTS, SEGMENTS, crossing="split", device=target)


def test_nothing_is_reported_where_nothing_is_dropped(target):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        morph.triangulate(POINTS, [[0, 4], [2, 0], [1, 3]], device=target, **MERGE).check()


@pytest.fixture
def poly(tmp_path):
    """The same input as a file."""
    rows = [f"{len(POINTS)} 2 0 0", *(f"{k + 1} {x} {y}" for k, (x, y) in enumerate(POINTS))]
    rows += [f"{len(SEGMENTS)} 1"]
    rows += [f"{k + 1} {a + 1} {b + 1} {k + 1}" for k, (a, b) in enumerate(SEGMENTS)]
    (tmp_path / "cdt.poly").write_text("\n".join([*rows, "0", ""]))
    return tmp_path / "cdt.poly"


def test_files(poly):
    assert refusal(poly, read_pslg).startswith("cdt.poly:6: vertex 5 repeats")
    with pytest.warns(RepairWarning) as reported:
        graph = read_pslg(poly, duplicates="keep")
    assert [str(w.message) for w in reported] == [
        f"{poly}:11: segment 2 joins a vertex to itself: dropped (and 1 more like it)"
    ]
    assert len(graph.points) == len(POINTS) and len(graph.segments) == 7
    with pytest.raises(ValueError, match="duplicates is 'refuse' or 'keep', not 'merge'"):
        read_pslg(poly, duplicates="merge")
    with pytest.warns(RepairWarning):
        assert_repaired(morph.triangulate(poly, device="cpu", **MERGE))


@pytest.mark.parametrize("command", ["triangulate", "refine"])
def test_commands(poly, tmp_path, command):
    options = ["--duplicates", "merge", "--crossing", "split", "--device", "cpu"]
    options += ["-o", str(tmp_path / "out")] + ["-q0", "-S0"] * (command == "refine")
    done = CliRunner().invoke(main, [command, str(poly), *options])
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [
        f"morph: {poly}:11: segment 2 joins a vertex to itself: dropped (and 1 more like it)",
        "morph: segments[4] has zero length: dropped",
    ]
    assert_repaired(morph.Mesh.read(tmp_path / "out"))


def test_cdt_txt(target):
    """What is special in CDT's ``cdt.txt``: two segments from the first point to itself."""
    turn = np.linspace(0, 2 * np.pi, 101, endpoint=False)
    ring = [[k, (k + 1) % 101] for k in range(101)]
    with pytest.warns(RepairWarning, match=r"segments\[101\] .* \(and 1 more like it\)"):
        mesh = morph.triangulate(
            np.stack([np.cos(turn), np.sin(turn)], 1),
            [*ring, [0, 0], [0, 0]],
            device=target,
            **MERGE,
        )
    mesh.check()
    assert len(mesh.triangles) == 99


def test_meshes_with_unused_twins_are_read_again(tmp_path):
    with pytest.warns(RepairWarning):
        mesh = morph.triangulate(POINTS, SEGMENTS, device="cpu", **MERGE)
    mesh.write(tmp_path / "m")
    again = morph.Mesh.read(tmp_path / "m")
    assert np.array_equal(again.points, mesh.points)
    assert np.array_equal(again.triangles, mesh.triangles)
    text = (tmp_path / "m.ele").read_text().splitlines()
    corner = next(k for k, line in enumerate(text[1:], 1) if " 1 " in line + " ")
    text[corner] = " ".join("4" if word == "1" and k else word
                            for k, word in enumerate(text[corner].split()))  # fmt: skip
    (tmp_path / "m.ele").write_text("\n".join([*text, ""]))
    assert refusal(tmp_path / "m") == "m.node:6: vertex 4 repeats the coordinates of vertex 1"
