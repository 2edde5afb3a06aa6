"""``morph generate`` and ``morph convert``: written files and refusals."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from morph import generate
from morph.cli import main
from morph.io import read_edges, read_graph, write_graph
from morph.io.graph.formats import ROWS


def run(*args):
    result = CliRunner().invoke(main, [str(a) for a in args])
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def refused(*args):
    result = CliRunner().invoke(main, [str(a) for a in args])
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith("morph: ") and result.stderr.count("\n") == 1
    return result.stderr


MADE = [
    (["uniform", 50, 90, "--weight", 1, 9, "--seed", 4],
     lambda: generate.uniform(50, 90, weight=(1, 9), seed=4)),
    (["uniform", 50, 90, "--directed", "--multi", "--weight", "1.0", 9],
     lambda: generate.uniform(50, 90, weight=(1.0, 9), directed=True, simple=False)),
    (["rmat", 5, "--edge-factor", 3, "--permute"],
     lambda: generate.rmat(5, 3, permute=True)),
    (["rmat", 5, "--parameters", "gtgraph"], lambda: generate.rmat(5, 16, *generate.GTGRAPH)),
    (["rmat", 5, "--parameters", ".4,.3,.2"], lambda: generate.rmat(5, 16, 0.4, 0.3, 0.2)),
    (["grid", 3, 4, "--torus"], lambda: generate.grid(3, 4, torus=True)),
    (["geometric", 60, "--degree", 5], lambda: generate.geometric(60, degree=5)),
    (["geometric", 60, "--radius", 0.1, "--length"],
     lambda: generate.geometric(60, 0.1, weight="length")),
]  # fmt: skip


@pytest.mark.parametrize("words, make", MADE, ids=lambda w: w[0] if isinstance(w, list) else "")
def test_generate(words, make, tmp_path):
    file, made = tmp_path / "g.txt.gz", make()
    report = json.loads(run("generate", *words, "-o", file, "--json"))
    sizes = {"vertices": len(made.points), "arcs": len(made.edges)}
    assert report == report | sizes | {"output": str(file)}
    again = read_graph(file)
    for a, b in zip(made.edge_list(), again.edge_list(), strict=True):
        assert (a is None and b is None) or a.tolist() == b.tolist()
    shown = f"{len(made.points)} vertices, {len(made.edges)} arcs: {tmp_path / 'h'}\n"
    assert run("generate", *words, "-o", tmp_path / "h", "--format", "edges") == shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["grid", 3, 3, "-o", "g.foo"], "-o: g.foo: unknown suffix '.foo'; known are .gr"),
        (["grid", 3, 3, "-o", "no/g.el"], "-o: there is no directory"),
        (["grid", 3, 3, "-o", "g.el", "--format", "x"], "-o: format 'x': known are dimacs"),
        (["grid", 3, 3, "-o", "g.gr"], "a .gr file needs integer weights"),
        (["grid", -3, 3, "-o", "g.el"], "No such option"),
        (["grid", 3, 3], "Missing option '-o'"),
        (["rmat", 99, "-o", "g.el"], "scale = 99: expected 0 to 30"),
        (["rmat", 9, "--parameters", "1,2", "-o", "g.el"], "expected A,B,C, graph500 or gtgraph"),
        (["rmat", 9, "--weight", "a", 1, "-o", "g.el"], "--weight: 'a' is not a number"),
        (["geometric", 9, "-o", "g.el"], "give either radius or degree"),
        (["geometric", 9, "--degree", 1, "--length", "--weight", 1, 2, "-o", "g.el"],
         "--length and --weight exclude each other"),
    ],
)  # fmt: skip
def test_generate_refused(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refused("generate", *words)
    assert not list(tmp_path.iterdir())


def test_too_large_a_graph_is_one_line(monkeypatch, tmp_path):
    from morph.runtime.cpu.device import HostDevice

    monkeypatch.setattr(HostDevice, "free", lambda self: 10**9)
    words = ["generate", "uniform", 10**6, 10**8, "-o", tmp_path / "g.el"]
    result = CliRunner().invoke(main, [str(w) for w in words])
    assert result.exit_code == 1
    assert "morph: out of memory: a graph of 1000000 points and 200000000 edges" in result.stderr


@pytest.mark.parametrize("first", [f"g{row.suffixes[0]}" for row in ROWS])
@pytest.mark.parametrize("second", [*(f"h{row.suffixes[0]}" for row in ROWS), "h.mtx.xz", "h"])
def test_convert(first, second, tmp_path):
    made = generate.uniform(30, 60, weight=(1, 99))
    write_graph(made, tmp_path / first)
    options = ["--to", "edges"] if second == "h" else []
    options += ["--symmetrize"] if first == "g.graph" else []  # which it is already
    run("convert", tmp_path / first, tmp_path / second, *options)
    again = read_graph(tmp_path / second)
    for a, b in zip(made.edge_list(), again.edge_list(), strict=True):
        assert a.tolist() == b.tolist()


def test_convert_says_what_it_leaves_out(tmp_path):
    (tmp_path / "g.graph").write_text("2 1 11\n7 2 5\n8 1 5\n")
    said = refused("convert", tmp_path / "g.graph", tmp_path / "h.mtx")
    assert "this format has no place for vertices' weight" in said
    shown = run("convert", tmp_path / "g.graph", tmp_path / "h.mtx", "--edges-only")
    assert shown == f"2 vertices, 2 arcs: {tmp_path / 'h.mtx'}\n"
    banner = "%%MatrixMarket matrix coordinate integer symmetric"
    (tmp_path / "h.mtx").write_text(f"{banner}\n2 2 1\n2 1 5\n")
    said = refused("convert", tmp_path / "h.mtx", tmp_path / "h.gr")
    assert "weighted undirected edges must be given both ways" in said
    run("convert", tmp_path / "h.mtx", tmp_path / "h.gr", "--symmetrize")
    assert read_edges(tmp_path / "h.gr").src.tolist() == [1, 0]
    assert "h.gr:1: " in refused("convert", tmp_path / "h.gr", tmp_path / "x.el", "--from", "mtx")


def test_convert_takes_galois_weights_by_type(tmp_path):
    words = np.array([1, 4, 2, 1, 1, 1], "<u8").tobytes() + np.array([1, 0], "<u4").tobytes()
    (tmp_path / "g.gr").write_bytes(words + np.array([0.5], "<f4").tobytes())
    run("convert", tmp_path / "g.gr", tmp_path / "h.wel", "--weight-type", "float32")
    assert read_edges(tmp_path / "h.wel").weight.tolist() == [0.5]
    said = refused("convert", tmp_path / "g.gr", tmp_path / "h.wel", "--weight-type", "foo")
    assert "foo" in said
