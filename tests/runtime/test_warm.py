"""`morph warm`: the calls that it makes, and the binaries for a wheel."""

import itertools
import json
import os
import pty
import re
import runpy
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace

import pytest
from click.testing import CliRunner
from limits import SLOWER

import morph
from morph.algorithms.registry import ALGORITHMS
from morph.cli import main
from morph.cli.warm import CALLS, LIBRARIES, _each, _jobs, _Log, _ship
from morph.launch import ahead, common_units, records
from morph.runtime.cpu.device import HostDevice
from morph.runtime.cuda import small_copies
from morph.runtime.device import device
from morph.runtime.toolchain import cpu, cuda, shipped

# as in a new process of a user who has no compiler
INSTALLED = """
import sys
from pathlib import Path
from morph.runtime.toolchain import shipped

shipped.FOLDER = Path(sys.argv[1])
import morph

for device in (None, "cpu"):
    g = morph.Graph.from_edges(range(5), range(1, 6), directed=False, device="cpu")
    print(morph.bfs(g).distance.max(), end=" ")
print("morph.launch.compilation" in sys.modules)  # the compiler from Python to C++
"""


def test_all_algorithms_are_there():
    assert set(ALGORITHMS) < set(CALLS)


def test_the_units_of_all_public_functions():
    """A wheel has those that public functions launch with default options, but for `compact`'s.

    It has texts and records of what only GPUs launch, too, though a CPU compiles it.
    """
    script = Path(__file__).parents[1] / "support" / "wheel_units.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    numbers, *missing = done.stdout.splitlines()
    # the kernel of `compact` has a function of its caller
    assert missing == ["cpu morph_mark", "cuda:7 morph_mark"]
    calls = json.loads(common_units.FILE.read_text())["calls"].values()
    units = {json.dumps(u) for call in calls for u in call if not u.get("on_host", True)}
    texts, recorded = map(int, numbers.split())
    assert texts >= len(units) == recorded >= 3


def test_all_public_functions_are_among_them():
    root = Path(__file__).parents[2]
    files = root / "tests/support/wheel_units.py", root / "benchmarks/launch.py"
    text = "".join(file.read_text() for file in files)
    called = set(re.findall(r"\bmorph\.(?:survey\.)?(\w+)", text))
    called |= {row.public_name for row in ALGORITHMS.values()}
    public = [getattr(module, n) for module in (morph, morph.survey) for n in module.__all__]
    functions = {x.__name__ for x in public if isinstance(x, FunctionType)}
    functions |= {k.__name__ for k in public if getattr(k, "__name__", "").startswith("Dynamic")}
    without_units = {
        "checked", "device", "foreach", "func", "get_device", "get_num_threads", "kernel",
        "partition", "program", "sections", "set_device", "set_num_threads", "vec",
    }  # fmt: skip
    assert functions - called <= without_units


def test_kernels_of_a_wheel(tmp_path):
    if shipped.portable_flags(cpu.processor()) is None:
        pytest.skip("binaries are made for Linux on x86-64-v3 only")
    folder = tmp_path / "compiled"
    env = os.environ | {"MORPH_CACHE": str(tmp_path / "cache"), "MORPH_CHECK": "0"}
    command = [sys.executable, "-m", "morph", "warm", "bfs", "--ship", str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert re.fullmatch(r"(\d+ of \d+ bfs, \d+ s\n)*", done.stderr)  # each ten seconds
    files = [file.name for file in folder.iterdir()]
    assert {name.rpartition(".")[2] for name in files} == {"so", "json", "txt"}
    number = {kind: sum(name.startswith(kind) for name in files) for kind in ("unit-", "text-")}
    assert number["unit-"] > number["text-"] >= 4  # several units have the same text
    command = [sys.executable, "-c", INSTALLED, str(folder)]
    env["MORPH_CXX"] = "/missing"
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "5 5 False\n", "")


def test_common_units_are_compiled_whatever_the_calls_launch(tmp_path, monkeypatch):
    """A graph of `morph warm` is too small for `dense_phase` of sssp."""
    monkeypatch.setenv(shipped.COLLECT, str(tmp_path))
    monkeypatch.setattr(records, "enabled", True)
    built = []
    monkeypatch.setattr(HostDevice, "build", lambda self, unit: built.append(unit.outline.name))
    ahead.compile_ahead("sssp int32", device("cpu"))  # leaves nothing to threads that may end
    assert built == []
    for build in common_units.builders("sssp", "cpu"):
        build()
    assert built.count("morph_dense_phase") == built.count("morph_search") == 12
    assert len(list(tmp_path.glob("unit-*.json"))) == len(built) == 42


def test_a_build_that_continues_has_its_records(tmp_path, monkeypatch):
    """No unit is compiled to C++ again; binaries that are missing are made."""
    monkeypatch.setenv(shipped.COLLECT, str(tmp_path))
    monkeypatch.setattr(records, "enabled", True)
    built = []
    monkeypatch.setattr(HostDevice, "build", lambda self, unit: built.append(unit.text))
    (first, *_) = common_units.builders("bfs", "cpu")
    first()
    monkeypatch.setattr(common_units, "compile_unit", None)
    first()
    assert len(built) == 2 and built[0] == built[1]


def test_the_order_of_jobs():
    """First calls of algorithms without single units, single units, the other calls in turn."""
    jobs = _jobs(("sssp", "bfs", "mst"), "cpu", 1)
    calls = {name: list(CALLS[name]("cpu")) for name in ("bfs", "sssp", "mst")}
    assert sorted(jobs) == sorted((n, "cpu", k, 1) for n in calls for k in range(len(calls[n])))
    single = [getattr(calls[n][k], "func", None) is common_units._build_now for n, _, k, _ in jobs]
    assert single[1:] == sorted(single[1:], reverse=True)
    assert [n for n, *_ in jobs[:5]] == ["mst", "bfs", "sssp", "bfs", "sssp"]
    assert [n for n, *_ in jobs[1 + sum(single) :]][:4] == ["bfs", "sssp", "mst", "bfs"]


def test_lines_of_progress(monkeypatch, capsys):
    now = iter((0.0, 9.0, 10.0, 19.0, 20.5))
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    log = _Log()
    for done in range(4):
        log.show(done, 3, "bfs")
    assert capsys.readouterr().err == "1 of 3 bfs, 10 s\n3 of 3 bfs, 20 s\n"


def test_the_units_of_refine_alone():
    """The command triangulates a file of points; on a GPU by units that a CPU does not launch."""
    units = [c.args[0] for c in CALLS["refine"]("cpu") if c.func is common_units._build_now]
    names = {unit.function.__name__ for unit in units}
    assert {"insert_sequentially", "run_rounds"} <= names


def test_libraries_of_the_host_are_not_for_gpus(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(cuda, "_assembler", lambda: None)
    monkeypatch.setattr(cuda, "ship", lambda text, group, folder: made.append((text, *group)))
    for k, text in enumerate([*(library.text() for library in LIBRARIES), "kernel"]):
        (tmp_path / f"{k}.cpp").write_text(text)
    here = SimpleNamespace(imap_unordered=map)  # a pool without processes
    _ship(tmp_path, ("sm_90", "sm_75"), ["extra"], here, _Log())
    texts = "kernel", "extra", small_copies.MODULE
    assert sorted(made) == sorted(itertools.product(texts, ("sm_75", "sm_90")))
    assert not list(tmp_path.iterdir())


def test_all_architectures_and_one_more():
    assert _each(("sm_90", "all", "sm_90a")) == (
        "sm_90",
        "sm_75",
        "sm_80",
        "sm_100",
        "sm_120",
        "sm_90a",
    )


@pytest.fixture
def hook(tmp_path, monkeypatch):
    """The hook of a build, whose commands end with its `status`; and the warnings of the build."""
    interface = "hatchling.builders.hooks.plugin.interface"
    parts = interface.split(".")
    for k in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:k]), ModuleType(parts[k - 1]))
    sys.modules[interface].BuildHookInterface = object
    file = Path(__file__).parents[2] / "hatch_build.py"
    made = runpy.run_path(str(file))["CompiledKernels"]()
    warnings, commands = [], []
    made.directory, made.root, made.status = str(tmp_path / "build"), str(file.parent), 0
    made.app = SimpleNamespace(display_warning=warnings.append)

    def run(command, **options):
        folder = Path(command[command.index("--ship") + 1])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{len(commands)}.so").touch()
        (folder / "tmp-killed.so").touch()
        commands.append(command)
        return SimpleNamespace(returncode=made.status)

    monkeypatch.setattr(subprocess, "run", run)
    for name in ("", "_ARCHS", "_FOLDER", "_PYTHONS"):
        monkeypatch.delenv(f"MORPH_WHEEL{name}", raising=False)
    return made, warnings, commands


@pytest.mark.parametrize("kept", [False, True])
def test_the_build_of_a_wheel(hook, tmp_path, monkeypatch, kept):
    if shipped.portable_flags(cpu.processor()) is None:
        pytest.skip("binaries are made for Linux on x86-64-v3 only")
    build, warnings, commands = hook
    folder = tmp_path / ("kept" if kept else "build/compiled")
    if kept:
        monkeypatch.setenv("MORPH_WHEEL_FOLDER", str(folder))
    monkeypatch.setenv("MORPH_WHEEL_PYTHONS", "python3.12")
    for _ in range(2):
        data = {"force_include": {}}
        build.initialize("standard", data)
        assert data["force_include"] == {str(folder): "morph/compiled"}
        assert data["tag"].startswith("py3-none-manylinux_") and not data["pure_python"]
        build.finalize("standard", data, "")
        assert folder.exists() == kept
    assert [c[0] for c in commands] == [sys.executable, "python3.12"] * 2 and not warnings
    # what is there is not compiled again, and no file of a killed build is left
    assert not kept or {f.name for f in folder.iterdir()} == {f"{k}.so" for k in range(4)}


def test_what_a_build_for_gpus_needs(hook, monkeypatch):
    """An editable installation, which pip asks in the same way, compiles nothing."""
    if shipped.portable_flags(cpu.processor()) is None:
        pytest.skip("binaries are made for Linux on x86-64-v3 only")
    build, _, _ = hook

    def get_requires_for_build_editable():
        return build.dependencies()

    assert build.dependencies() == get_requires_for_build_editable() == []
    monkeypatch.setenv("MORPH_WHEEL_ARCHS", "sm_90")
    assert build.dependencies() == ["nvidia-cuda-nvrtc>=13", "nvidia-cuda-nvcc>=13"]
    assert get_requires_for_build_editable() == []
    monkeypatch.setenv("MORPH_WHEEL", "none")
    assert build.dependencies() == []


def test_a_build_without_a_compiler(hook, monkeypatch):
    """The wheel of a user has no kernels; that of a release is not built."""
    if shipped.portable_flags(cpu.processor()) is None:
        pytest.skip("binaries are made for Linux on x86-64-v3 only")
    build, warnings, _ = hook
    build.status = 2
    data = {"force_include": {}}
    build.initialize("standard", data)
    assert data == {"force_include": {}} and len(warnings) == 1
    monkeypatch.setenv("MORPH_WHEEL_ARCHS", "all")
    with pytest.raises(RuntimeError, match="MORPH_WHEEL_ARCHS: kernels are not compiled"):
        build.initialize("standard", data)


def in_terminal(args, env, interrupt=None):
    """Run a command in a terminal of its own; return its exit code, output and time to end.

    When ``interrupt()`` is true, Ctrl-C is pressed there, which reaches its child processes, too.
    """
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a background job of a shell ignores it
        os.execve(sys.executable, [sys.executable, "-m", "morph", *args], env)
    shown, pressed = b"", None
    while True:
        ready, _, _ = select.select([terminal], [], [], 0.01)
        try:
            if ready and not (more := os.read(terminal, 4096)):
                break
            shown += more if ready else b""
        except OSError:  # all processes have closed it
            break
        if pressed is None and interrupt is not None and interrupt():
            os.write(terminal, b"\x03")
            pressed = time.monotonic()
        if pressed is not None and time.monotonic() > pressed + 60:
            os.killpg(child, signal.SIGKILL)
            break
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    took = 0.0 if pressed is None else time.monotonic() - pressed
    return os.waitstatus_to_exitcode(status), shown.decode(), took


@pytest.fixture
def fresh(tmp_path):
    """An environment with an empty cache, and temporary files of compilers in a folder of it."""
    (tmp_path / "compilers").mkdir()
    cache = tmp_path / "cache"
    return os.environ | {"MORPH_CACHE": str(cache), "TMPDIR": str(tmp_path / "compilers")}


def test_a_bar_on_a_terminal(fresh):
    code, shown, _ = in_terminal(["warm", "generate", "text", "--device", "python"], fresh)
    lines = [x.strip() for x in shown.split("\r") if x.strip()]
    assert code == 0 and len(lines) == 5
    assert lines[0] == f"[{'-' * 30}] 0 of 4"
    assert lines[-1] == f"[{'#' * 30}] 4 of 4 generate" or lines[-1].endswith("4 of 4 text")
    assert all(len(line) < 80 for line in lines) and shown.endswith("\r")


def test_ctrl_c_ends_all_compilers(tmp_path, fresh):
    """The compiler of the last unit leaves a file if it is killed; the others are g++."""
    started = tmp_path / "started"
    compiler = tmp_path / "cxx"
    real = shlex.join(cpu.compiler().command)
    compiler.write_text(f"""#!/bin/sh
case "$*" in *" -O3 "*) ;; *) exec {real} "$@";; esac
trap 'rm -f "$TMPDIR/$$"; exit 1' TERM
echo $$ > "$TMPDIR/$$"
echo $$ >> {started}
sleep 77.5 & wait
""")
    compiler.chmod(0o755)
    fresh["MORPH_CXX"] = str(compiler)

    def compiling():
        return started.exists() and len(started.read_text().split()) >= 2

    args = ["warm", "bfs", "pagerank", "--jobs", "2", "--device", "cpu"]
    code, shown, took = in_terminal(args, fresh, compiling)
    assert code == 130 and shown.count("interrupted") == 1 and "Traceback" not in shown
    assert took < 0.3 * SLOWER
    for compiler in started.read_text().split():
        assert not Path(f"/proc/{compiler}").exists()
    left = [f.name for f in (tmp_path / "cache").iterdir() if f.name.startswith("tmp-")]
    assert left == [] and list((tmp_path / "compilers").iterdir()) == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["dfs"], "there is no algorithm 'dfs': bellman-ford, betweenness, bfs, "),
        (["bfs", "--arch", "sm_90"], "--arch: 'sm_90': expected sm_XX or all, with --ship"),
        (["--ship", "{tmp}/x", "--arch", "90"], "--arch: '90': expected sm_XX or all, with --ship"),
        (["bfs", "--arch", "all"], "--arch: 'all': expected sm_XX or all, with --ship"),
        (["--jobs", "0"], "0 is not in the range"),
        (["bfs", "--device", "cuda:99"], "cuda:99"),
    ],
)
def test_mistakes(args, message, tmp_path):
    done = CliRunner().invoke(main, ["warm", *(a.format(tmp=tmp_path) for a in args)])
    assert done.exit_code == 2 and message in done.stderr and len(done.stderr) <= 210
    assert not list(tmp_path.iterdir())
