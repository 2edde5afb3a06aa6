"""`morph warm`: the calls that it makes, and the binaries for a wheel."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest
from click.testing import CliRunner

import morph
from morph.algorithms.registry import ALGORITHMS
from morph.cli import main
from morph.cli.warm import CALLS, LIBRARIES, _each, _ship
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
    g = morph.generate.grid(3, 4, device="cpu")
    print(morph.bfs(g).distance.max(), end=" ")
print("morph.launch.compilation" in sys.modules)  # the compiler from Python to C++
"""


def test_all_algorithms_are_there():
    assert set(ALGORITHMS) < set(CALLS)


def test_the_units_of_all_public_functions():
    """A wheel has those that public functions launch with default options, but for `compact`'s."""
    script = Path(__file__).parents[1] / "support" / "wheel_units.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # the kernel of `compact` has a function of its caller
    assert done.stdout.splitlines() == ["cpu morph_mark", "cuda:7 morph_mark"]


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
    command = [sys.executable, "-m", "morph", "warm", "bfs", "generate", "--ship", str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    files = [file.name for file in folder.iterdir()]
    assert {name.rpartition(".")[2] for name in files} == {"so", "json"}
    assert sum(name.startswith("unit-") for name in files) >= 4
    command = [sys.executable, "-c", INSTALLED, str(folder)]
    env["MORPH_CXX"] = "/missing"
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "5 5 False\n", "")


def test_units_that_only_gpus_launch(tmp_path, monkeypatch):
    """A wheel has their texts and records, too, though a CPU compiles it."""
    calls = json.loads(common_units.FILE.read_text())["calls"].values()
    units = {json.dumps(u) for call in calls for u in call if not u.get("on_host", True)}
    monkeypatch.setenv(shipped.COLLECT, str(tmp_path))
    monkeypatch.setattr(records, "enabled", True)
    texts = list(common_units.texts_for_gpus(device("cpu")))
    assert len(texts) >= len(units) == len(list(tmp_path.glob("unit-*.json"))) >= 3
    for text in texts:  # with the prelude
        assert text.index("MORPH_FN") < text.index("struct Args") < text.index("struct Run :")


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


def test_libraries_of_the_host_are_not_for_gpus(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(common_units, "texts_for_gpus", lambda device: ["extra"])
    monkeypatch.setattr(cuda, "ship", lambda text, arch, folder: made.append((text, arch)))
    for k, text in enumerate([*(library.text() for library in LIBRARIES), "kernel"]):
        (tmp_path / f"{k}.cpp").write_text(text)
    _ship(tmp_path, ("sm_90", "sm_75"), 2, None)
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
