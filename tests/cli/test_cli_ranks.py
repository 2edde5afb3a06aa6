"""The command line on partitioned graphs: on several devices, and on MPI ranks."""

import importlib
import json

import numpy as np
import pytest
from click.testing import CliRunner
from ranks import run_on_ranks
from test_cli_run import ARCS

from morph.algorithms.graph.mst import Mst
from morph.algorithms.registry import ROWS
from morph.cli import main, parts

IN_PARTS = ("pagerank", "components", "core")
COMMANDS = """
import contextlib, io, shlex, sys
from morph.cli import main
for line in sys.argv[1:]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(shlex.split(line), prog_name="morph")
        except SystemExit as end:
            code = end.code
    for who in range(comm.size):  # in order
        comm.Barrier()
        if who == comm.rank:
            print(repr((comm.rank, code, out.getvalue(), err.getvalue())), flush=True)
"""


def commands_on_ranks(n, *commands):
    """For each command, of each rank: exit code, output, errors."""
    done = run_on_ranks(n, COMMANDS, *commands)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [eval(line) for line in done.stdout.splitlines()]
    by_rank = [[x[1:] for x in found if x[0] == k] for k in range(n)]
    return list(zip(*by_rank, strict=True))


@pytest.fixture
def graph(tmp_path):
    lines = "".join(f"a {u + 1} {v + 1} {w}\n" for u, v, w in ARCS)
    (tmp_path / "g.gr").write_text(f"p sp 7 {len(ARCS)}\n" + lines)
    return tmp_path / "g.gr"


def on_one_device(name, graph, out):
    """The report of a command, and what it saves."""
    done = CliRunner().invoke(main, [name, str(graph), "-o", str(out), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout), dict(np.load(out))


def same_answer(name, report, path, wanted, answer):
    same = "command version input warnings".split()
    assert [report[key] for key in same] == [wanted[key] for key in same]
    for key in wanted.keys() - {"times", "device", "seconds", *same}:
        assert report[key] == pytest.approx(wanted[key], rel=1e-9), key
    saved = dict(np.load(path))
    assert saved.keys() == answer.keys() and saved["algorithm"] == name
    for key in answer.keys() - {"algorithm"}:
        np.testing.assert_allclose(saved[key], answer[key], rtol=1e-9)


@pytest.mark.parametrize("name", [*IN_PARTS, "sssp", "triangles", "betweenness"])
def test_several_devices(name, graph, tmp_path):
    wanted = on_one_device(name, graph, tmp_path / "whole.npz")
    out = tmp_path / "parts.npz"
    done = CliRunner().invoke(
        main, [name, str(graph), "-o", str(out), "--json", "--device", "cpu,python"]
    )
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["device"] == "cpu,python"
    same_answer(name, report, out, *wanted)


@pytest.mark.parametrize(
    "options, text",
    [
        (["core", "--device", "cpu,tpu"], "--device: no device 'tpu'; there are"),
        (["core", "--device", "cpu,"], "--device: no device ''"),
        (["core", "-o", "none/x.npy"], "-o: there is no directory"),
        (["bfs", "--source", "7"], "--source: 7 is not a vertex: the graph has 7 vertices, 0 to 6"),
    ],
    ids=lambda x: x[0] if isinstance(x, list) else "",
)
def test_refused(options, text, graph):
    done = CliRunner().invoke(main, [options[0], str(graph), "--device", "cpu,cpu", *options[1:]])
    assert done.exit_code == 2 and done.stderr.startswith("morph: " + text), done.output
    assert done.stdout == "" and done.stderr.count("\n") == 1


def test_an_algorithm_that_takes_no_parts(graph, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise TypeError("not in parts")

    core = next(row for row in ROWS if row.name == "core")
    monkeypatch.setitem(core.__dict__, "function", refuse)
    done = CliRunner().invoke(main, ["core", str(graph), "--device", "cpu,cpu"])
    assert (done.exit_code, done.stderr) == (2, f"morph: {graph}: not in parts\n")


def test_edges_are_positions_in_the_file(graph, tmp_path, monkeypatch):
    mst = next(row for row in ROWS if row.name == "mst")

    def last_of_each(g):
        src, n = np.asarray(g.edges.src[:]), len(g.edges)
        edges = np.flatnonzero(np.r_[src[1:] != src[:-1], True]) if n else np.zeros(0, int)
        return Mst(edges, 0, 0)

    monkeypatch.setitem(mst.__dict__, "function", last_of_each)
    (tmp_path / "g.mtx").write_text(
        "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n3 1\n2 1\n2 2\n"
    )
    for path in (graph, tmp_path / "g.mtx"):
        saved = []
        for devices in ("cpu", "cpu,cpu,cpu"):
            options = ["-o", str(tmp_path / "e.npy"), "--device", devices]
            done = CliRunner().invoke(main, ["mst", str(path), *options])
            assert done.exit_code == 0, done.output
            saved.append(np.load(tmp_path / "e.npy").tolist())
        assert saved[0] == saved[1] and len(saved[0]) > 2


def test_weights_are_checked(tmp_path):
    (tmp_path / "g.txt").write_text("0 1 2\n1 2 -3\n")
    done = CliRunner().invoke(main, ["sssp", str(tmp_path / "g.txt"), "--device", "cpu,cpu"])
    text = "shortest paths need weights >= 0; the edge from 1 to 2 has -3"
    assert (done.exit_code, done.stderr) == (2, f"morph: {tmp_path / 'g.txt'}: {text}\n")


def test_options_are_refused_before_mpi_starts(graph, monkeypatch):
    sat = importlib.import_module("morph.cli.sat")  # whose first import must not see None
    for module in (parts, sat):
        monkeypatch.setattr(module, "world", None)
    done = CliRunner().invoke(main, ["sssp", str(graph), "--mpi", "--updates", "x"])
    text = "morph: --mpi and --updates exclude each other\n"
    assert (done.exit_code, done.stderr) == (2, text)
    done = CliRunner().invoke(main, ["sat", str(graph), "--mpi", "--time", "1"])
    text = "morph: --mpi excludes --time, and standard input\n"
    assert (done.exit_code, done.stderr) == (2, text)


@pytest.mark.mpi
@pytest.mark.parametrize("size", [1, 2])
def test_ranks(size, graph, tmp_path):
    lines = [f"{name} {graph} --mpi --json -o {tmp_path}/{name}.npz" for name in IN_PARTS]
    (tmp_path / "bad.txt").write_text("0 1\n" * 9 + "x 1\n")
    bad = [
        f"core {tmp_path}/bad.txt --mpi",
        f"core {tmp_path}/none.txt --mpi",
        f"core {graph} --mpi -o {tmp_path}/none/x.npy",
        f"core {graph} --mpi -o {tmp_path}/x.py",
        f"bfs {graph} --mpi --source 9",
        f"core {graph} --mpi --device cpu,cpu,cpu",
    ]
    texts = ("bad.txt:10: the first vertex is not an integer: 'x'", "No such file or directory",
             "there is no directory", "unknown suffix '.py'", "9 is not a vertex",
             f"there are {size} ranks, but devices for 3")  # fmt: skip
    bad = bad[:1] if size == 1 else bad
    (tmp_path / "f.cnf").write_text("p cnf 3 2\n1 2 0\n-1 0\n")
    formula = [f"sat {tmp_path}/f.cnf --mpi"] if size == 2 else []
    found = commands_on_ranks(size, *lines, *bad, *formula)
    if formula:
        (code, out, err), other = found.pop()
        assert (code, err, other) == (10, "", (0, "", ""))
        assert "s SATISFIABLE\nv -1 2 0\n" in out  # variable 3 does not occur
    for name, ((code, out, err), *others) in zip(IN_PARTS, found[:3], strict=True):
        assert (code, err) == (0, "") and set(others) <= {(0, "", "")}
        wanted = on_one_device(name, graph, tmp_path / "whole.npz")
        same_answer(name, json.loads(out), tmp_path / f"{name}.npz", *wanted)
    for text, ends in zip(texts, found[3:], strict=False):
        assert {code for code, _, _ in ends} == {2} and not any(out for _, out, _ in ends)
        (reported,) = [err for _, _, err in ends if err]
        assert reported.startswith("morph: ") and text in reported and reported.count("\n") == 1


@pytest.mark.mpi
def test_an_error_on_one_rank_ends_mpiexec(graph):
    code = "from morph.cli import main\nmain()"
    done = run_on_ranks(2, code, "core", str(graph.with_name("none.gr")), "--mpi")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("none.gr: No such file or directory") == 1


@pytest.mark.mpi
@pytest.mark.parametrize(("words", "text"), [
    (["louvain"], "morph louvain runs on one device, without --mpi"),
    (["sat", "--time", "1"], "--mpi excludes --time, and standard input"),
])  # fmt: skip
def test_wrong_options_are_reported_once(words, text, graph):
    code = "from morph.cli import main\nmain()"
    done = run_on_ranks(3, code, *words, str(graph), "--mpi", head="")  # before MPI starts
    assert done.returncode == 2 and done.stderr.count(text) == 1


def test_wrong_options_of_another_rank_only(graph, monkeypatch):
    monkeypatch.setattr(parts, "PATIENCE", 0.1)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    refused = {
        "louvain": "morph louvain runs on one device, without --mpi",
        "refine": "morph refine runs in one process, without --mpi: --device cuda:0,cuda:1 uses"
        " several devices",
    }
    for command, text in refused.items():
        done = CliRunner().invoke(main, [command, str(graph), "--mpi"])
        assert (done.exit_code, done.stderr) == (2, f"morph: {text}\n")


@pytest.mark.mpi
def test_a_rank_that_fails_alone_ends_all():
    code = """
from morph.cli import parts
parts.PATIENCE = 0.5
with parts.ranks_of(True):
    if comm.rank:
        raise ValueError("alone")
    comm.Barrier()
"""
    done = run_on_ranks(2, code.replace("ValueError", "FileNotFoundError"))
    assert done.returncode and "morph: alone" in done.stderr
