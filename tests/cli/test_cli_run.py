"""The command line with the engine running: each command, its files and its report."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from morph.cli import main
from morph.mesh import Mesh

MESHES = Path(__file__).parents[2] / "meshes"
# a directed graph from 0 to 5, and vertex 6 apart; the spanning tree is unique
ARCS = [(3, 4, 1), (0, 1, 4), (1, 2, 1), (0, 2, 7), (2, 3, 2), (3, 5, 9), (4, 5, 3)]


def run(*args):
    result = CliRunner().invoke(main, [str(a) for a in [*args, "--device", "cpu"]])
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


@pytest.fixture
def graph(tmp_path):
    lines = "".join(f"a {u + 1} {v + 1} {w}\n" for u, v, w in ARCS)
    (tmp_path / "g.gr").write_text(f"p sp 7 {len(ARCS)}\n" + lines)
    return tmp_path / "g.gr"


def report_of(*args):
    report = json.loads(run(*args, "--json"))
    assert report["device"] == "cpu"
    assert report["times"].keys() == {"compile", "transfer", "run"}
    assert all(value >= 0 for value in report["times"].values())
    return report


def test_bfs(graph, tmp_path):
    report = report_of("bfs", graph, "--source", 0, "-o", tmp_path / "d.npy")
    assert np.load(tmp_path / "d.npy").tolist() == [0, 1, 1, 2, 3, 3, -1]
    assert (report["vertices"], report["edges"], report["source"]) == (7, 7, 0)
    assert (report["reached"], report["farthest"]) == (6, 3)


def test_sssp(graph, tmp_path):
    report = report_of("sssp", graph, "--source", 0, "-o", tmp_path / "d.npy")
    distance = np.load(tmp_path / "d.npy")
    assert distance[:6].tolist() == [0, 4, 5, 7, 8, 11]
    assert distance[6] == np.iinfo(distance.dtype).max
    assert (report["reached"], report["farthest"]) == (6, 11)


def test_sssp_with_fractions_and_without_weights(tmp_path):
    (tmp_path / "g.txt").write_text("# Nodes: 3\n0 1 0.5\n")
    run("sssp", tmp_path / "g.txt", "--source", 0, "-o", tmp_path / "d.npy")
    assert np.load(tmp_path / "d.npy").tolist() == [0, 0.5, np.inf]
    (tmp_path / "g.gr").write_text("p tw 3 2\n2 1\n3 2\n")
    run("sssp", tmp_path / "g.gr", "--source", 0, "-o", tmp_path / "d.npy")
    assert np.load(tmp_path / "d.npy").tolist() == [0, 1, 2]


def test_mst_gives_positions_in_the_file(graph, tmp_path):
    report = report_of("mst", graph, "-o", tmp_path / "e.npy")
    assert np.load(tmp_path / "e.npy").tolist() == [0, 1, 2, 4, 6]
    assert (report["weight"], report["components"]) == (11, 2)


def test_mst_of_undirected_edges(tmp_path):
    (tmp_path / "g.gr").write_text("p tw 4 4\n4 3\n2 1\n3 2\n1 4\n")
    report = report_of("mst", tmp_path / "g.gr", "-o", tmp_path / "e.npy")
    edges = np.load(tmp_path / "e.npy")
    assert len(set(edges.tolist())) == 3 and set(edges.tolist()) < {0, 1, 2, 3}
    assert (report["weight"], report["components"]) == (3, 1)


def test_pagerank(graph, tmp_path):
    report = report_of("pagerank", graph, "-o", tmp_path / "r.npy")
    rank = np.load(tmp_path / "r.npy")
    assert rank.sum() == pytest.approx(1)
    assert report["top"] == rank.argmax() == 5


def test_output_for_people(graph):
    lines = run("bfs", graph, "--source", 0).splitlines()
    assert lines[0] == "7 vertices, 7 edges"
    assert lines[1] == "reached 6, farthest 3"
    assert lines[2].startswith("cpu: compile ")


def test_the_source_counts_from_0_whatever_the_file(graph, tmp_path):
    run("bfs", graph, "--source", 6, "-o", tmp_path / "d.npy")
    assert np.load(tmp_path / "d.npy").tolist() == [-1] * 6 + [0]


@pytest.mark.parametrize("name", ["italy", "south_africa", "square"])
def test_refine(tmp_path, name):
    out = tmp_path / "out"
    report = report_of("refine", MESHES / name, "-q", 25, "-o", out)
    before, after = Mesh.read(MESHES / name), Mesh.read(out)
    after.check()
    assert report["input"] == sizes(before)
    assert report["output"] == sizes(after)
    assert report["quality"] == after.quality().to_dict()
    assert after.base == before.base
    assert np.array_equal(after.points[: len(before.points)], before.points)
    assert after.quality().area == pytest.approx(before.quality().area, rel=1e-12)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.ele", "out.node", "out.poly"]


def sizes(mesh):
    return {name: len(getattr(mesh, name)) for name in ("points", "triangles", "segments")}


def test_refine_to_an_area_with_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    args = ("-q", 20, "-a", 0.01, "--plot", tmp_path / "a.png", "--color", "area")
    report = report_of("refine", MESHES / "square", *args)
    assert report["quality"]["max_area"] <= 0.01
    assert report["quality"]["min_angle"] >= 20
    assert (tmp_path / "a.png").read_bytes()[1:4] == b"PNG"


def test_refine_for_people():
    lines = run("refine", MESHES / "square", "-q", 20).splitlines()
    assert lines[0].startswith("4 triangles became ")
    assert lines[1].startswith("angles ")
    assert lines[2].startswith("cpu: compile ")


@pytest.mark.parametrize("command", ["bfs", "sssp", "mst", "pagerank"])
def test_every_graph_command_takes_a_source(command, tmp_path):
    path = tmp_path / "g.gr"
    path.write_text("p sp 2 1\na 1 2 3\n")
    runs = [[], ["--source", "0"]]
    reports = [
        CliRunner().invoke(main, [command, str(path), "--device", "cpu", "--json", *more])
        for more in runs
    ]
    results = [json.loads(r.stdout) for r in reports]
    for r in results:
        r.pop("times"), r.pop("seconds"), r.pop("source", None)
    assert results[0] == results[1]
    refused = CliRunner().invoke(main, [command, str(path), "--device", "cpu", "--source", "2"])
    assert refused.exit_code == 2 and "2 is not a vertex" in refused.stderr
