"""The command line without a run of the engine: options, errors, exit codes, reports."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from every_unit import forget_units

from morph.cli import COMMANDS, main
from morph.runtime.device import DeviceError, device

MESHES = Path(__file__).parents[2] / "meshes"
ITALY = str(MESHES / "italy")
GR = "p sp 3 2\na 1 2 5\na 2 3 6\n"


def morph(*args):
    return CliRunner().invoke(main, [str(a) for a in args], prog_name="morph")


def complaint(*args):
    """The one line on stderr, with exit code 2 and nothing on stdout."""
    result = morph(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("morph: ")
    return result.stderr[7:-1]


def has_gpu():
    try:
        return bool(device("cuda"))
    except DeviceError:
        return False


def test_help_and_version():
    assert "refine" in morph("--help").stdout
    assert morph("--version").stdout.startswith("morph, version ")
    for name in COMMANDS:
        result = morph(name, "--help")
        assert (result.exit_code, result.stderr) == (0, "")
    result = morph()
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage: morph" in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["frob"], "No such command 'frob'."),
        (["check"], "Missing argument 'MESH|GRAPH|CNF'."),
        (["check", "nope"], "nope.node: No such file or directory"),
        (["refine", ITALY, "-a"], f"-a without a number: there is no {ITALY}.area, and no region"),
        (["refine", "nope", "-q", 20], "nope.node: No such file or directory"),
        (
            ["refine", ITALY, "-q", 50],
            "Invalid value for '-q' / '--min-angle': 50.0 is not in the range 0<=x<=34.",
        ),
        (
            ["refine", ITALY, "-q", "nan"],
            "Invalid value for '-q' / '--min-angle': nan is not a number",
        ),
        (
            ["refine", ITALY, "-q", 20, "-a", 0],
            "--max-area: 0 is not a positive, finite number",
        ),
        (["refine", ITALY, "-q", 20, "--frob"], "No such option"),
        (["bfs", "nope.gr", "--source", 0], "nope.gr: No such file or directory"),
        (["mst", "nope.gr"], "nope.gr: No such file or directory"),
    ],
)
def test_bad_options(args, message):
    assert complaint(*args).startswith(message)


@pytest.mark.parametrize("spec", ["tpu", "cuda:x", "cpu:0"])
def test_unknown_device(spec):
    said = complaint("refine", ITALY, "-q", 20, "--device", spec)
    assert said.startswith(f"--device: no device '{spec}'")


@pytest.mark.skipif(has_gpu(), reason="a GPU answers")
def test_absent_gpu():
    assert "cuda:0" in complaint("refine", ITALY, "-q", 20, "--device", "cuda")


def test_places_that_cannot_be_written_are_refused_first(tmp_path):
    said = complaint("refine", ITALY, "-q", 20, "-o", tmp_path / "no" / "out")
    assert said == f"-o: there is no directory {tmp_path / 'no'}"
    said = complaint("refine", ITALY, "-q", 20, "--plot", tmp_path / "no" / "a.png")
    assert said == f"--plot: there is no directory {tmp_path / 'no'}"
    said = complaint("refine", ITALY, "-q", 20, "--color", "area")
    assert said == "--color is of a picture: it needs --plot"
    (tmp_path / "g.gr").write_text(GR)
    assert complaint("mst", tmp_path / "g.gr", "-o", tmp_path) == f"-o: {tmp_path} is a directory"
    (tmp_path / "updates").write_text("")
    for command in ("bfs", "sssp", "mst", "pagerank", f"sssp --updates {tmp_path / 'updates'}"):
        said = complaint(*command.split(), tmp_path / "no.gr", "-o", tmp_path / "a.zzz")
        assert said.endswith("a.zzz: unknown suffix '.zzz'; known are .npy or .npz")


def test_malformed_files(tmp_path):
    (tmp_path / "m.node").write_text("1 2 0 0\n1 x 0\n")
    where = tmp_path / "m.node"
    assert complaint("check", where) == f"{where}:2: the x is not a number: 'x'"
    assert complaint("refine", where, "-q", 9) == f"{where}:2: the x is not a number: 'x'"
    (tmp_path / "g.gr").write_text("p sp 3 2\na 1 2 5\n")
    said = complaint("pagerank", tmp_path / "g.gr")
    assert said == f"{tmp_path / 'g.gr'}:2: the file ends after 1 of 2 arcs"


@pytest.mark.parametrize("name", ["bfs", "sssp"])
@pytest.mark.parametrize("source", [3, -1])
def test_bad_source(tmp_path, name, source):
    (tmp_path / "g.gr").write_text(GR)
    said = complaint(name, tmp_path / "g.gr", "--source", source)
    assert said == f"--source: {source} is not a vertex: the graph has 3 vertices, 0 to 2"


def test_negative_weights_are_refused(tmp_path):
    (tmp_path / "g.gr").write_text(GR.replace("6", "-6"))
    said = complaint("sssp", tmp_path / "g.gr", "--source", 0)
    assert said == (
        f"{tmp_path / 'g.gr'}: shortest paths need weights >= 0; the edge from 1 to 2 has -6"
    )


def test_a_mesh_that_is_not_delaunay_is_refused(tmp_path):
    put_bad_mesh(tmp_path)
    said = complaint("refine", tmp_path / "m", "-q", 20, "--device", "cpu")
    assert said.startswith(f"{tmp_path / 'm'}: delaunay: triangle 0 has a corner")


def put_bad_mesh(folder):
    (folder / "m.node").write_text("4 2\n0 0 0\n1 3 -1\n2 6 0\n3 3 1\n")
    (folder / "m.ele").write_text("2 3\n0 0 1 2\n1 0 2 3\n")


def test_check(tmp_path):
    result = morph("check", ITALY)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("the mesh is good\n84 points, 78 triangles, 84 segments")
    report = json.loads(morph("check", ITALY, "--json").stdout)
    assert report["good"] and report["violations"] == []
    assert report["quality"]["triangles"] == 78
    put_bad_mesh(tmp_path)
    result = morph("check", tmp_path / "m", "--json")
    assert (result.exit_code, result.stderr) == (1, "")
    report = json.loads(result.stdout)
    assert not report["good"]
    assert [v["name"] for v in report["violations"]] == ["delaunay"]
    assert morph("check", tmp_path / "m").stdout.startswith("delaunay: triangle 0 has a corner")


def test_info(monkeypatch, tmp_path):
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path / "here"))
    facts = json.loads(morph("info", "--json").stdout)
    assert {"morph", "python", "numpy", "compiler", "devices", "cache"} <= facts.keys()
    assert facts["devices"][0] == "cpu"
    assert facts["cache"] == str(tmp_path / "here")
    assert str(tmp_path / "here") in morph("info").stdout


def test_info_without_a_compiler(monkeypatch):
    monkeypatch.setenv("MORPH_CXX", "/no/such/compiler")
    result = morph("info", "--json")
    assert result.exit_code == 0
    assert "/no/such/compiler" in json.loads(result.stdout)["compiler"]


def test_info_on_a_machine_without_a_compiler(monkeypatch, tmp_path):
    monkeypatch.delenv("MORPH_CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ziglang", None)
    found = json.loads(morph("info", "--json").stdout)["compiler"]
    assert found.startswith("no C++ compiler (no g++, clang++, c++, ziglang): ")


def test_without_a_compiler(monkeypatch):
    forget_units(monkeypatch)
    monkeypatch.setenv("MORPH_CXX", "/no/such/compiler")
    result = morph("refine", MESHES / "square", "-q", 20, "--device", "cpu")
    assert result.exit_code == 2
    assert result.stderr.startswith("morph: MORPH_CXX is set to '/no/such/compiler'")


def test_warnings_are_one_line(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path / "file"))
    (line,) = morph("cache").stderr.splitlines()
    assert line.startswith("morph: each process compiles its kernels again")


def test_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path))
    report = json.loads(morph("cache", "--json").stdout)
    assert report == report | {"path": str(tmp_path), "bytes": 0, "entries": []}
    assert morph("cache").stdout == f"{tmp_path}: 0 entries, 0 B\n"
    assert morph("cache", "--clear").stdout == f"0 entries removed: {tmp_path}\n"
    assert json.loads(morph("cache", "--clear", "--json").stdout)["removed"] == 0


def test_ctrl_c(monkeypatch):
    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("morph.cli.checks.read_mesh", interrupted)
    result = morph("check", ITALY)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.strip() == "morph: interrupted"


def test_a_fault_of_ours_is_not_hidden(monkeypatch):
    def fault(path):
        raise AssertionError("ours")

    monkeypatch.setattr("morph.cli.checks.read_mesh", fault)
    assert isinstance(morph("check", ITALY).exception, AssertionError)


def test_as_a_process(tmp_path):
    root = str(MESHES.parent)
    env = os.environ | {"PYTHONPATH": root + os.pathsep + os.environ.get("PYTHONPATH", "")}
    command = [sys.executable, "-c", "from morph.cli import main; main(prog_name='morph')"]
    done = subprocess.run(
        [*command, "check", "nope"], capture_output=True, text=True, env=env, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "morph: nope.node: No such file or directory\n"
    done = subprocess.run(
        [*command, "check", ITALY, "--json"], capture_output=True, text=True, env=env, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["good"]


def test_a_plot_is_refused_before_the_work_without_matplotlib(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name)
    )
    said = complaint("refine", ITALY, "-q", 20, "--plot", "x.png")
    assert said.startswith("--plot needs matplotlib")


@pytest.mark.parametrize("name", COMMANDS)
def test_rows_name_their_commands(name):
    row = main.commands[name]
    command = row.load()
    assert command.name == name and not command.hidden
    for limit in range(10, 120):
        assert row.get_short_help_str(limit) == command.get_short_help_str(limit)


@pytest.mark.parametrize(
    "words, module",
    [
        ("--help", None),
        ("refine --help", "morph.cli.meshes"),
        ("cache --help", "morph.cli.system"),
        ("sat --help", "morph.cli.sat"),
    ],
)
def test_only_the_command_named_is_imported(words, module):
    code = f"""if True:
        import sys
        from morph.cli import main
        try:
            main({words.split()!r}, prog_name="morph")
        finally:
            print(*sys.modules, file=sys.stderr)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    places = {f"morph.cli.{place.partition(':')[0]}" for place, _ in COMMANDS.values()}
    assert places & set(done.stderr.split()) == ({module} if module else set())
    assert ("morph.io" in done.stderr.split()) == (module not in (None, "morph.cli.system"))


def test_a_hook_finds_a_name_that_its_package_has_not_imported_yet():
    code = """if True:
        import morph, sys
        try:
            morph.Mesh.read("missing.node")
        except FileNotFoundError:
            print("morph.io.mesh.triangle" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize(
    ("module", "unused"),
    [
        ("meshes", "morph.io.graph"),
        ("updates", "morph.io.mesh"),
        ("sat", "morph.compiler.ir.nodes"),
    ],
)
def test_packages_that_a_command_does_not_need_are_not_imported(module, unused):
    code = f"import sys, morph.cli.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "morph.io" in done.stdout.split() and unused not in done.stdout.split()


@pytest.mark.skipif(os.name != "posix", reason="exit codes of POSIX")
@pytest.mark.parametrize(
    ("args", "broken"),
    [(["--version"], "stdout"), (["schema"], "stdout"), (["nothing"], "stderr")],
)
def test_a_reader_that_has_ended(args, broken):
    """An option, a command and a message; the other stream has nothing about it."""
    read, write = os.pipe()
    os.close(read)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, broken: write}
    done = subprocess.run([sys.executable, "-m", "morph", *args], **streams)
    os.close(write)
    assert (done.returncode, (done.stdout or b"") + (done.stderr or b"")) == (141, b"")


def test_a_standard_output_that_is_closed(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
