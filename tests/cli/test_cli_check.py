"""``morph check GRAPH ANSWER``, and the commands whose results it checks."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from graphs import CASES

from morph.cli import main

# a graph of 7 vertices from 0 to 5, with a triangle, and vertex 6 apart
ARCS = [(3, 4, 1), (0, 1, 4), (1, 2, 1), (0, 2, 7), (2, 3, 2), (3, 5, 9), (4, 5, 3)]


def morph(*args):
    return CliRunner().invoke(main, [str(a) for a in args], prog_name="morph")


@pytest.fixture(params=["directed.gr", "undirected.mtx"])
def graph(request, tmp_path):
    path = tmp_path / request.param
    if path.suffix == ".gr":
        lines = "".join(f"a {u + 1} {v + 1} {w}\n" for u, v, w in ARCS)
        path.write_text(f"p sp 7 {len(ARCS)}\n{lines}")
    else:
        lines = "".join(f"{v + 1} {u + 1} {w}\n" for u, v, w in ARCS)
        kind = "matrix coordinate integer symmetric"
        path.write_text(f"%%MatrixMarket {kind}\n7 7 {len(ARCS)}\n{lines}")
    return path


@pytest.mark.parametrize("row, options", CASES)
def test_answers_are_checked(graph, tmp_path, row, options):
    out, command, words = tmp_path / "a.npz", row.name, []
    if row.acyclic and graph.suffix == ".mtx":
        done = morph(command, graph, "--device", "cpu")
        assert done.stderr == f"morph: {graph}: a cycle: 0 -> 1 -> 0\n" and done.exit_code == 2
        return
    for name, value in options.items():
        values = value if isinstance(value, tuple) else (value,)
        words += [x for v in values for x in ([f"--{name}"] if v is True else [f"--{name}", v])]
    done = morph(command, graph, *words, "-o", out, "--device", "cpu", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["vertices"] == 7
    done = morph("check", graph, out)
    assert (done.exit_code, done.stdout) == (0, f"{command}: the answer is right\n")
    with np.load(out) as saved:
        arrays = dict(saved)
    arrays[row.main][1] += 2
    np.savez(out, **arrays)
    done = morph("check", graph, out, "--json")
    report = json.loads(done.stdout)
    assert (done.exit_code, done.stderr) == (1, "")
    assert not report["good"] and report["algorithm"] == command and report["message"]
    assert morph("check", graph, out).stdout == f"{command}: {report['message']}\n"


def test_arrays_of_any_origin(graph, tmp_path):
    out = tmp_path / "d.npy"
    assert morph("sssp", graph, "--source", 3, "-o", out, "--device", "cpu").exit_code == 0
    assert morph("check", graph, out, "--as", "sssp", "--source", 3).exit_code == 0
    assert morph("check", graph, out, "--as", "sssp").stdout == (
        "sssp: source 0 is not at distance 0\n"
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["g.gr", "a.npy"], "a.npy: --as tells what the array is: bfs, sssp, "),
        (["g.gr", "a.npy", "--as", "bfs", "--source", 9], "--source: 9 is not a vertex"),
        (["g.gr", "a.npz"], "a.npz holds x of pagerank"),
        (["g.gr", "g.gr", "--as", "bfs"], "g.gr is no .npz or .npy with an answer about a graph"),
        (["g.gr", "b.npz"], "b.npz is no .npz or .npy"),
        (["g.gr", "none.npz"], "none.npz: No such file"),
        (["g.gr", "--as", "bfs"], "--as and --source are of an answer: morph check GRAPH ANSWER"),
        (["g.gr", "a.npy", "--as", "frob"], "Invalid value for '--as'"),
    ],
)
def test_bad_answers(tmp_path, monkeypatch, args, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.gr").write_text("p sp 2 1\na 1 2 3\n")
    np.save("a.npy", np.array([0, 1]))
    np.savez("a.npz", algorithm="pagerank", x=[1])
    (tmp_path / "b.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-30])
    done = morph("check", *args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"morph: {message}") and done.stderr.count("\n") == 1


def test_options_that_exclude_each_other(graph):
    done = morph("betweenness", graph, "--sample", 2, "--source", 1)
    assert done.stderr == "morph: --source and --sample exclude each other\n"
    done = morph("betweenness", graph, "--sample", 99, "--device", "cpu")
    assert done.exit_code == 2 and "a sample of 99 sources" in done.stderr


def test_a_distance_too_large_is_refused(tmp_path):
    (tmp_path / "g.gr").write_text(f"p sp 3 2\na 1 2 {2**62}\na 2 3 {2**62}\n")
    done = morph("sssp", tmp_path / "g.gr", "--device", "cpu")
    assert done.exit_code == 2 and "the distance of vertex 2, reached from" in done.stderr
