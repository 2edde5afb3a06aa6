"""The benchmarks of graph algorithms run on tiny inputs, and detect wrong results."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import morph

FOLDER = Path(__file__).parents[2] / "benchmarks"
DOCUMENTS = [FOLDER / "README.md", *(FOLDER.parent / "docs").glob("*.md"), *FOLDER.glob("*.py")]


@pytest.fixture
def script(monkeypatch):
    """Import a benchmark by name, as if it were run."""
    monkeypatch.syspath_prepend(str(FOLDER))
    names = [f.stem for f in FOLDER.glob("*.py")]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)

    def run(name, *arguments):
        module = importlib.import_module(name)
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        return module

    yield run
    for name in names:
        sys.modules.pop(name, None)


def test_graphs_beside_peers(script, tmp_path, capsys, monkeypatch):
    road = tmp_path / "road.gr.gz"
    road.write_bytes(gzip.compress(b"p sp 4 5\na 1 2 7\na 2 1 5\na 2 3 1\na 3 3 1\na 3 2 1\n"))
    graphs = script("graphs")
    monkeypatch.setattr(graphs, "COPIED", 1 << 20)
    options = ["--device", "cpu", "--repeat", "1", "--cache", str(tmp_path)]
    plot = ["--plot", str(tmp_path / "ratios.png")]
    graphs.main(["grid6", str(road), "--sources", "2", "--slow", *plot, *options])
    out = capsys.readouterr().out
    for algorithm in graphs.CASES:
        assert out.count(f" {algorithm} ") >= 2, out
    assert "SciPy ms" in out and "NetworkX ms" in out and "sssp, 2 sources" in out
    assert "WRONG" not in out
    assert (tmp_path / "ratios.png").stat().st_size > 10000
    made = (tmp_path / "grid6.npz").stat().st_mtime_ns
    graphs.main(["grid6", "--only", "bfs", "--peers", "--validate", "0", *options])
    assert (tmp_path / "grid6.npz").stat().st_mtime_ns == made
    assert "beside no peer" in capsys.readouterr().out


def test_changes_beside_peers(script, tmp_path, capsys):
    options = ["--device", "cpu", "--sizes", "1", "20", "--repeat", "2", "--networkit"]
    options += ["--cache", str(tmp_path), "--plot", str(tmp_path / "crossover.png")]
    script("dynamic").main(["grid9", *options])
    out = capsys.readouterr().out
    for kind in ("insert", "near", "delete", "mix"):
        assert out.count(f" {kind} ") == 2, out
    assert (
        "parts recompute" in out
        and out.count("no repair took longer") + out.count("from a share") == 5
    )
    assert ("NetworKit ms" in out) == bool(importlib.util.find_spec("networkit"))
    assert "WRONG" not in out
    assert (tmp_path / "crossover.png").stat().st_size > 10000


def test_wrong_answers_of_peers_are_reported(script, tmp_path, capsys, monkeypatch):
    graphs, peers = script("graphs"), script("peers")
    way = peers.Way(lambda s: None, lambda found: np.zeros(36))
    peers.PEERS["SciPy"] = ("scipy", lambda graph: {"bfs": [way]})
    monkeypatch.setattr(graphs, "COPIED", 1 << 20)
    with pytest.raises(SystemExit, match="grid6, bfs, cpu: SciPy"):
        graphs.main(["grid6", "--device", "cpu", "--repeat", "1", "--only", "bfs", "sssp",
                     "--peers", "SciPy", "--cache", str(tmp_path)])  # fmt: skip
    assert "WRONG" in capsys.readouterr().out


def test_inputs(script, tmp_path):
    inputs = script("inputs")
    file = tmp_path / "ring.gr"
    file.write_text("p tw 4 4\n1 2\n2 3\n3 4\n4 1\n")
    ring = inputs.load(str(file), tmp_path)
    assert ring.name == "ring" and ring.n == 4 and ring.arcs == 8
    src, dst, weight = (part.tolist() for part in ring.once)
    hashed = [(u * 2654435761 ^ v * 40503) % 1000 + 1 for u, v in zip(src, dst, strict=True)]
    assert weight == hashed
    again = inputs.load("rmat6", tmp_path), inputs.load("rmat6", tmp_path)
    assert all(np.array_equal(getattr(again[0], x), getattr(again[1], x))
               for x in ("offsets", "dst", "weight"))  # fmt: skip
    assert len(again[0].sources(3)) == 3
    with pytest.raises(SystemExit, match="neither a file"):
        inputs.load("nothing", tmp_path)


@pytest.mark.parametrize(
    "name, options",
    [("bfs", "--side 9 --device python --repeat 1"),
     ("balance", "--scale 5 --side 6 --device python --repeat 1"),
     ("batches", "rmat6 --device python -b 1 20 --repeat 1 --check --pairs"),
     ("location", "-n 50 -q 300 --device cpu --repeat 1"),
     ("flows", "rmat5 grid6 sides5 bipartite9 --device python --repeat 1"),
     ("distances", "rmat5 grid6 --device python --sources 3 --repeat 1"),
     ("directed", "5 --device python --repeat 1"),
     ("refine", "-n 90 --device cpu --repeat 1 --check"),
     ("triangulate", "-n 50 --device cpu --repeat 1 --check"),
     ("contended", "--competitors 0 --repeat 3 --scale 5 --side 6 --only grid100"),
     ("coasts", f"{FOLDER.parent}/meshes/italy.poly -q 20 --against pq --device cpu")],
)  # fmt: skip
def test_others_run(script, name, options, capsys):
    script(name, *options.split()).main()
    assert "NO" not in capsys.readouterr().out


def test_sat_beside_peers(script, capsys):
    sat = script("sat")
    options = ["--seeds", "1", "--device", "cpu", "--limit", "20"]
    sat.main(["-n", "300", "--ratio", "3.5", "--peers", "pysat", "--phases", *options])
    out = capsys.readouterr().out
    assert "3-SAT 300 x 3.5" in out and " 1/1 " in out and "search " in out
    assert "pysat" in out or importlib.util.find_spec("pysat") is None
    assert len(sat.FALCON) == 7
    sat.FALCON[:] = [(3, 300, 1050, 67, 46, 26, 23)]
    sat.main(["--falcon", *options])
    assert "Falcon K20c / SP" in capsys.readouterr().out


def test_formula_without_a_solution(script):
    """The best assignment that was found is not taken for a model."""
    row = script("sat").measure(morph.generate.random_ksat(3, 60, 40.0), 1, "cpu", 2.0)
    assert not row["solved"]


def test_parts_beside_one_device(script, capsys, tmp_path):
    rows = str(tmp_path / "rows")
    options = ["--scale", "6", "--repeat", "1", "--rows", rows, "--devices", "cpu,cpu,cpu"]
    script("partitions").main(options)
    out = capsys.readouterr().out
    assert out.count(" yes") == 9 and "edges cut" in out and "NO" not in out
    script("scaling").main([rows, "--hold-out", "9", "--scales", "30"])
    out = capsys.readouterr().out
    assert out.count("outlook") == 2 and "a crossing" in out


def test_several_lists_of_devices(script, capsys):
    script("partitions").main(
        ["--scale", "6", "--repeat", "1", "--devices", "cpu,cpu", "cpu,cpu,cpu", "--no-steps"]
    )
    out = capsys.readouterr().out
    assert out.count(" yes") == 18 and out.count("edges cut") == 2 and "NO" not in out


def test_graphs_made_in_parts(script, capsys):
    script("large").main(["--scale", "7", "--sources", "2", "--permute"])
    out = capsys.readouterr().out
    assert out.count("from") == 6 and [x.split()[-1] for x in out.splitlines()[-2:]] == ["0", "0"]


@pytest.mark.mpi
def test_ranks_beside_one(script, capsys):
    script("ranks").main(["--scale", "6", "--ranks", "2", "--repeat", "1"])
    out = capsys.readouterr().out
    assert out.count(" yes") == 5 and "NO" not in out


def test_table_of_falcon(script, capsys, monkeypatch):
    module = script("falcon_xv")
    monkeypatch.setattr(module, "PAPER", {("rmat6", "bfs"): (98765, 43210)})
    module.main(["rmat6", "--places", "cpu,cpu", "cpu,python", "--repeat", "1", "--only", "bfs"])
    out = capsys.readouterr().out
    assert out.count(" yes") == 2 and "NO" not in out and out.count("98,765") == 2
    module.main(["rmat6", "--together", "cpu,cpu", "--repeat", "1", "--only", "bfs"])
    assert " yes" in capsys.readouterr().out


def test_cost_model(script):
    """A fit to times of the model itself gives these, for another size, too."""
    scaling = script("scaling")
    visits = {"pagerank": (1e-12, 2e-12, 3e-12, 1e-3, 1e-4), "steps": (0,) * 5}
    fit = scaling.Fit(2e-6, 7e-6, 1e-11, visits)

    def row(scale, parts):
        arcs, copies = 32 << scale, scaling.mirrors(scale, 16, parts)
        found = {
            "program": "pagerank", "parts": parts, "points": 1 << scale, "share": 1.1 / parts,
            "local": (1 << scale) / parts + copies, "visits": 20 * arcs, "steps": 40,
            "crossings": 20, "bytes": 160 * copies,
        }  # fmt: skip
        one, seconds = scaling.predicted(fit, found)
        return {**found, "one": one, "seconds": seconds}

    idle = {**row(8, 2), "program": "steps", "visits": 0, "bytes": 0, "steps": 900}
    idle["one"], idle["seconds"] = scaling.predicted(fit, idle)
    found = scaling.fitted([idle, *(row(scale, p) for scale in (14, 22, 24) for p in (2, 4))])
    wanted = row(26, 8)
    seconds = scaling.predicted(found, wanted)
    assert seconds == pytest.approx((wanted["one"], wanted["seconds"]), rel=1e-6)
    net = scaling.Network(8, 5e-6, 5e10)
    rows = scaling.outlook(fit, net, [30], [4, 1024])
    assert all(r["ms"] > 0 for r in rows) and rows[0]["exchange %"] < rows[1]["exchange %"]
    assert scaling.missed(1 << 20) == 0 < scaling.missed(1 << 22) < scaling.missed(1 << 24) < 0.1


def test_expected_mirrors(script):
    g = morph.generate.rmat(12, 16, simple=False)
    parts = morph.partition(g, ["cpu"] * 8, np.random.default_rng(0).integers(0, 8, len(g.points)))
    mirrors = np.mean([s.mirrors for s in parts.statistics()])
    assert mirrors == pytest.approx(script("scaling").mirrors(12, 16, 8), rel=0.05)


def test_structure(script, tmp_path, capsys):
    package = tmp_path / "morph"
    for folder in (package / "data", package / "graph"):
        folder.mkdir(parents=True)
    (package / "data" / "table.py").write_text("def graph():\n    from morph.graph import csr\n")
    device = "if device.kind == 'cuda':\n    import cupy\n"
    (package / "graph" / "csr.py").write_text(f"from morph.data import table\n{device}")
    script("structure", "--json", "--root", tmp_path).main()
    found = json.loads(capsys.readouterr().out)
    assert found["lines in morph/"] == 5 and found["packages in import cycles"] == 2
    assert found["import cycles of modules"] == ["morph.data.table, morph.graph.csr"]
    assert found["lazy import statements"] == found["lazy imports of the package"] == 1
    assert found["comparisons of device kinds"] == {"morph/graph/csr.py": 1}
    assert found["modules importing CuPy"] == ["morph/graph/csr.py"]


def test_readers(script, tmp_path, monkeypatch, capsys):
    reading, graphfiles, files = script("reading"), script("graphfiles"), script("files")
    graph = morph.generate.rmat(5, weight=(1, 9))
    read = {"morph.read_cnf": "f.cnf", "morph.read_node": "m.node", "morph.read_mesh": "m"}
    morph.io.write_cnf(morph.generate.random_ksat(3, 20, 4.0), tmp_path / "f.cnf")
    morph.io.write_mesh(files.make(50), tmp_path / "m")
    for name in graphfiles.NAMES:
        morph.io.write_graph(graph, tmp_path / name)
    cases = [*read.items(), ("morph.read_graph", "g.gr"), ("morph.read_edges", "g.mtx")]
    for suffix, peers in reading.PEERS.items():
        cases += [(peer, f"{'m' if suffix == '.node' else 'g'}{suffix}") for peer in peers]
    for name, file in cases:
        found = reading.measure(name, str(tmp_path / file), 1)
        assert found["MB/s"] > 0, name
    reading.compare(["morph.read_mesh"], tmp_path / "m", 1)
    monkeypatch.setattr(files, "compare", lambda names, path: None)
    monkeypatch.setattr(sys, "argv", ["files", "-m", "50", "--repeat", "1", "--slow"])
    files.main()
    out = capsys.readouterr().out
    assert "peak / held" in out and "meshio reads" in out


def test_graphs_made_and_written(script, monkeypatch, capsys):
    module, compared = script("graphfiles"), []
    monkeypatch.setattr(module, "compare", lambda names, path: compared.append(path.name))
    monkeypatch.setattr(
        module.subprocess, "run", lambda command, check: module.from_arrays(command[-1], 5)
        if command[-1] != "rmat" else module.from_generator(5)
    )  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["graphfiles", "--scale", "5"])
    module.main()
    out = capsys.readouterr().out
    assert compared == [*module.NAMES, "f.cnf"] and out.count("M arcs") == 5
    assert out.count("to write") == len(module.NAMES)


def test_segments_beside_triangle(script, monkeypatch, capsys):
    module = script("segments", "-n", "60", "-s", "20", "--device", "cpu")
    star, spiral = module.star, module.spiral
    monkeypatch.setattr(module, "COASTS", ["italy"])
    monkeypatch.setattr(module, "star", lambda n, inner: star(30, inner))
    monkeypatch.setattr(module, "spiral", lambda n, end: spiral(40, min(end, 20)))
    module.main()
    assert capsys.readouterr().out.count(" cpu ") == 6


def test_communities(script, tmp_path, capsys):
    (tmp_path / "gen.py").write_text(
        "def make(graph): return 4, [(0, 1), (1, 2), (0, 2), (2, 3)]\n"
    )
    queries = [{"graph": {"kind": "paw"}, "queries": [[0, 3, 4, 2, 1]]}]
    (tmp_path / "given.json").write_text(json.dumps(queries))
    script("community", "--given", tmp_path / "given.json", "--limit", "0").main()
    assert "paw 4" in capsys.readouterr().out
    sys.modules.pop("gen")
    sys.path.remove(str(tmp_path))
    (tmp_path / "g.el").write_text("0 1\n1 2\n0 2\n")
    script("community", tmp_path / "g.el", "--queries", "4", "--repeat", "1").main()
    assert " cpu " in capsys.readouterr().out


def test_batches_of_a_small_graph(script, monkeypatch):
    module, sizes = script("contended"), []

    class Dynamic:
        def __init__(self, g, source):
            pass

        def apply(self, updates):
            sizes.extend(map(len, updates))

    monkeypatch.setattr(morph, "DynamicSSSP", Dynamic)
    module.following(morph.generate.grid(4, 4, weight=(1, 9)), 10_000)()
    assert set(sizes) == {48} and len(sizes) == 6


def test_launches(script):
    module = script("launch")
    assert module.launch("cpu") > 0 and len(module.tour("cpu")) >= 50
    compile(module.COMPILE, "compile", "exec")
    subprocess.run(["bash", "-n", FOLDER / "newcomer.sh"], check=True)


def test_gap(script, tmp_path, capsys):
    """A program of GAP is replaced by one that checks the size of its file."""
    text = "#!/bin/sh\necho Trial Time: $(wc -c < $(expr \"$*\" : '.*-f \\([^ ]*\\)'))\n"
    for name in ("bfs", "sssp"):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    module = script("gap")
    module.main(["grid3", "--programs", str(tmp_path), "--only", "bfs", "sssp", "--repeat", "1"])
    out = capsys.readouterr().out
    rows = 17 + 8 * 10  # the header and the offsets
    assert f" {(rows + 4 * 24) * 1000:,.4g} (" in out and f" {(rows + 8 * 24) * 1000:,.4g} (" in out


@pytest.mark.parametrize("m", [2, 8, 18, 882])
def test_lattices_are_right(script, m):
    mesh = script("four").lattice(m)
    assert len(mesh.triangles) == m
    mesh.check()


class Parsed(Exception):
    """The arguments of a command have been read."""


def commands(everything):
    """Commands that run a benchmark, as documents and `parts.txt` give them."""
    found = set()
    for document in DOCUMENTS:
        text = document.read_text()
        for match in re.findall(r"(?:^ +|`)([A-Z_]+=\S+ )?python benchmarks/([^`\n]+)", text, re.M):
            found.add(match[1].partition("#")[0].partition("    ")[0].strip())
    every = argparse.Namespace(data="DATA", gap="gapbs", results="RESULTS", only=None)
    found.update(part.command for part in everything.parts_of(every))
    return sorted(found)


def test_commands_of_documents_are_read(script, monkeypatch, capsys):
    """Each documented command names a benchmark and options that it has."""
    original, read = argparse.ArgumentParser.parse_args, []

    def parse(parser, arguments=None):
        original(parser, arguments)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    for command in commands(script("everything")):
        name, *options = shlex.split(command)
        module = script(Path(name).stem, *options)
        if hasattr(module, "main"):
            try:
                with contextlib.suppress(Parsed):
                    module.main()
            except SystemExit:
                pytest.fail(f"{command}: {capsys.readouterr().err}")
        read.append(name)
    of_others = {"common.py", "peers.py", "ratios.py"}
    assert {f.name for f in FOLDER.glob("*.py")} - set(read) == of_others


def test_all_parts_in_one_run(script, tmp_path, capsys):
    module = script("everything")
    module.main([str(tmp_path), "--only", "two-lines", "--limit", "99",
                 "--inputs", "grid5", "--warm"])  # fmt: skip
    assert "two-lines: done" in (tmp_path / "summary.md").read_text()
    row = {"graph": "grid5", "device": "cpu", "ms": 2.5, "SciPy ms": "5 (2 x)", "levels": 9}
    assert module.line_of(row) == "| grid5 cpu | 2.5 ms | SciPy 2 |"
    assert module.line_of({"graph": "grid5", "device": "cpu"}) is None
    cores = list(range(16))
    hosts, pairs = module.lanes_of(cores, 2, 3)
    assert hosts == [cores[:4], cores[4:8]] and pairs == [[8, 9], [10, 11], [12, 13]]
    assert module.lanes_of(cores[:3], 1, 3) == ([[0]], [[1, 2]])  # fewer than four and two cores
    assert module.lanes_of(cores[:2], 1, 3) == ([[0, 1]], [[0, 1]])
    process = module.start(["sleep", "60"], [min(module.os.sched_getaffinity(0))], tmp_path / "log")
    assert module.finish(process, 0.1).startswith("ended after")
