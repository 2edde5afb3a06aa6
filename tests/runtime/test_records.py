"""Records of units: found by a later process, and only if nothing relevant has changed."""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from types import ModuleType

import numpy as np
import pytest
from every_unit import forget, forget_units

import morph
from morph import Graph
from morph.algorithms.graph import bfs
from morph.launch import ahead, binding, common_units, records
from morph.launch.fingerprint import Fingerprint, Unrecordable
from morph.runtime.toolchain import cache, parallel, progress

MODULE = """
import morph
from morph.prelude import i32
import other
from other import double
FACTOR = 3

@morph.func
def scaled(x):
    return double(x) * FACTOR

@morph.kernel
def grow(p):
    y = KIND(scaled(p.x) + 1)
    p.x = i32(y)
KIND = i32
"""
OTHER = """
import morph

@morph.func
def double(x):
    return x + x
"""
values = ModuleType("values")
values.ONE = 1
RUN = """
import sys
import morph
from morph.launch import binding, compilation  # imported here, so that its calls can be counted
import kernels
{before}
compiled = []
old = compilation.compile_unit
compilation.compile_unit = lambda *a: compiled.append(1) or old(*a)
t = morph.Table("rows", "cpu", x=morph.prelude.i32)
t.extend(2, x=[1, 2])
morph.foreach(t, kernels.grow)
print(t.x[:].tolist(), len(compiled))
{after}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Runs the kernel of a module in new processes, which share a cache."""
    (tmp_path / "kernels.py").write_text(MODULE)
    (tmp_path / "other.py").write_text(OTHER)
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    def run(before="", after=""):
        script = RUN.format(before=before, after=after)
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=99
        )
        assert not done.returncode, done.stderr
        return done.stdout.strip()

    run.folder = tmp_path
    return run


def edit(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_later_process_finds_the_unit(project):
    assert project() == "[7, 13] 1"
    assert project() == "[7, 13] 0"
    # the values that were compiled in are compared at each launch, as after a compilation
    again = "kernels.FACTOR = 4; morph.foreach(t, kernels.grow); print(t.x[:].tolist())"
    assert project(after=again) == "[7, 13] 0\n[57, 105]"


@pytest.mark.parametrize(
    ("file", "old", "new", "found"),
    [
        ("kernels.py", "FACTOR = 3", "FACTOR = 5", "[11, 21]"),
        ("kernels.py", "+ 1", "+ 2", "[8, 14]"),
        ("other.py", "x + x", "x + x + x", "[10, 19]"),
    ],
)
def test_changed_files_and_values(project, file, old, new, found):
    project()
    edit(project.folder / file, old, new)
    assert project() == f"{found} 1"


def test_values_that_another_module_gives(project):
    """The files are the same, but not what names in them stand for."""
    project()
    assert project("kernels.FACTOR = 5") == "[11, 21] 1"
    assert project("kernels.KIND = morph.prelude.f64") == "[7, 13] 1"


def test_numbers_of_classes_and_modules(monkeypatch, tmp_path):
    """They are compiled in, and compared at each launch, also of a unit whose record was found."""
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path))
    monkeypatch.setattr(records, "enabled", True)
    monkeypatch.setattr(binding, "_compiled", {})
    made, old = [], binding._compiled_now
    monkeypatch.setattr(binding, "_compiled_now", lambda *a: made.append(1) or old(*a))

    class constant:
        step = 2

    @morph.kernel
    def add(p):
        p.x = p.x * constant.step + values.ONE

    t = morph.Table("rows", "cpu", x=morph.prelude.i32)
    t.extend(1, x=[1])

    def run():
        t.x[:] = 5
        morph.foreach(t, add)
        return int(t.x[0]), len(made)

    assert run() == (11, 1) and run() == (11, 1)
    forget(add)
    assert run() == (11, 1)  # its record
    constant.step = 3
    assert run() == (16, 2)
    monkeypatch.setattr(values, "ONE", 2)
    assert run() == (17, 3)
    forget(add)
    monkeypatch.setattr(values, "ONE", 1)
    constant.step = 2
    assert run() == (11, 3)
    monkeypatch.delattr(values, "ONE")
    with pytest.raises(morph.LanguageError, match="ONE"):
        run()


def test_damaged_records(project):
    project()
    (record,) = (project.folder / "cache").glob("unit-*.json")
    (text,) = (project.folder / "cache").glob("text-*.txt")
    contents = {file: file.read_text() for file in (record, text)}
    other = contents[text].replace(", 3)", ", 4)")  # which compiles, too
    assert other != contents[text]
    for file, whole in contents.items():
        for damaged in (whole[:-9], "{}", other, "[" * 9999, ""):
            file.write_text(damaged)
            assert project() == "[7, 13] 1"
        assert file.read_text() == whole
    text.unlink()
    assert project() == "[7, 13] 1" and text.read_text() == contents[text]


def test_records_belong_to_the_cache(project, monkeypatch):
    project()
    kinds = "unit-", "text-"
    for kind in kinds:
        assert any(f.name.startswith(kind) for f in cache.path().iterdir())
    cache.clear()
    assert not any(f.name.startswith(kinds) for f in cache.path().iterdir())


@morph.kernel
def push(p, out):
    if p.x > LEAST:
        out.add(p)


LEAST = 1


def described(kernel, *args, items):
    request = binding.Request(kernel, items, args, None, items.device)
    return binding._described(request)[1]


def table(**columns):
    made = morph.Table("rows", "cpu", **columns)
    made.extend(3)
    return made


def test_what_the_key_depends_on(monkeypatch):
    monkeypatch.setattr(records, "enabled", True)

    def key(items, **options):
        request = binding.Request(push, items, (morph.Collection(items),), None, items.device)
        for name, x in options.items():
            setattr(request, name, x)
        return records.UnitRecorder.of(binding._described(request)[1]).key

    first = key(table(x=morph.prelude.i32))
    assert key(table(x=morph.prelude.i32)) == first
    others = [
        key(table(x=morph.prelude.i64)),
        key(table(x=morph.prelude.i32), together=True),
        key(table(y=morph.prelude.i32, x=morph.prelude.i32)),
        key(table(x=morph.prelude.i32), bounded=True),
    ]
    assert len({first, *others}) == 5
    monkeypatch.setitem(globals(), "LEAST", 2)
    assert key(table(x=morph.prelude.i32)) != first
    monkeypatch.setattr(records, "hash_of_compiler", lambda: None)
    t = table(x=morph.prelude.i32)
    assert records.UnitRecorder.of(described(push, morph.Collection(t), items=t)) is None


def made(limit, function=None):
    """A kernel with a closure."""

    @morph.kernel
    def closed(p):
        p.x = limit if function is None else function(p.x)

    return closed


@morph.func
def twice(x):
    return x + x


@morph.func
def thrice(x):
    return x + x + x


def test_closures_and_objects(monkeypatch):
    """Of numbers that each launch reads again the type matters, of others the value."""
    monkeypatch.setattr(records, "enabled", True)

    def recorder(*captured):
        return records.UnitRecorder.of(described(made(*captured), items=table(x=morph.prelude.i32)))

    keys = [recorder(*c).key for c in ((1,), (2,), (2.0,), (1, twice), (1, twice), (1, thrice))]
    assert keys[0] == keys[1] and keys[3] == keys[4] and len(set(keys)) == 4
    checks = records.UnitRecorder("", set(), (first := recorder(1, twice)).cells)._dependencies([])
    assert all(check() for check in checks) and len(checks) == len(first.cells) == 2
    dict((c.cell_contents, c) for c, _ in first.cells)[twice].cell_contents = thrice
    assert [check() for check in checks].count(False) == 1
    assert recorder(1, table(x=morph.prelude.i32)) is None
    with pytest.raises(Unrecordable):
        Fingerprint().value(object())


def test_the_outline_and_text_come_back(monkeypatch, tmp_path):
    """Also of a program, whose IR is made again when it is needed."""
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path))
    monkeypatch.setattr(records, "enabled", True)
    forget_units(monkeypatch)
    program = bfs.search
    monkeypatch.setattr(ahead, "_begun", {("bfs", "cpu")})
    g = Graph.from_edges([0, 1], [1, 2], device="cpu")
    assert morph.bfs(g).distance.tolist() == [0, 1, 2]
    made = program._latest().compiled
    assert made.recorder is not None
    found = records.UnitRecorder(made.recorder.key, set()).find()
    assert vars(found.outline) == vars(made.outline) and found.text == made.text
    assert found.origins == made.origins
    forget(program)
    g.kept.clear()
    assert morph.bfs(g).distance.tolist() == [0, 1, 2]
    again = program._latest().compiled
    assert again._unit is None and again.unit == made.unit


def refine(**options):
    mesh = morph.triangulate(np.random.default_rng(1).random((200, 2)), device="cpu")
    return lambda: morph.refine(mesh, 25, device="cpu", **options)


def sssp(**options):
    weight = np.array([1, 2], np.int32)
    graphs = [
        Graph.from_edges([0, 1], [1, 2], weight, n=5, symmetrize=both, device="cpu")
        for both in (True, False)
    ]
    return lambda: [morph.sssp(g, **options) for g in graphs]


CALLS = {
    "sssp int32": (sssp, {}),
    "sssp int32 predecessors": (sssp, {"predecessors": True}),
    "refine": (refine, {"max_area": 0.02}),
    "refine segments first": (refine, {}),
}


def decoded(device):
    """The units of each call on a device."""
    calls = json.loads(common_units.FILE.read_text())
    return {
        call: [common_units._decoded(x, calls, device) for x in units
               if x.get("on_host", device.on_host) == device.on_host]
        for call, units in calls["calls"].items()
    }  # fmt: skip


def test_common_units_name_what_exists():
    assert all(units and None not in units for units in decoded(morph.device("cpu")).values())


@pytest.mark.parametrize("name", CALLS)
def test_common_units_are_recorded(name, monkeypatch):
    """`python tests/support/common_units.py` records them again; what calls need is among them."""
    units = decoded(morph.device("cpu"))[name]
    make, options = CALLS[name]
    call = make(**options)
    forget_units(monkeypatch)
    monkeypatch.setattr(ahead, "_begun", set())
    used = []

    def compiled_now(description, slots, recorder, old=binding._compiled_now):
        used.append(description)
        return old(description, slots, recorder)

    monkeypatch.setattr(binding, "_compiled_now", compiled_now)
    call()
    assert ahead._begun == {(name, "cpu")} and used
    missing = {d.key for d in used} - {d.key for d in units}
    assert not missing, "python tests/support/common_units.py records them again"


def test_units_are_compiled_before_they_are_launched(monkeypatch, tmp_path):
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path))
    monkeypatch.setattr(records, "enabled", True)
    monkeypatch.setattr(ahead, "_begun", set())
    started = []
    monkeypatch.setattr(parallel, "start", started.append)
    device = morph.device("cpu")
    g = Graph.from_edges([0, 1], [1, 2], n=5, symmetrize=True, device="cpu")
    ahead.compile_ahead("bfs", device, g)
    assert len(started) == 1  # the unit for directed graphs is left out
    assert len(list(tmp_path.glob("unit-*"))) == 1
    started[0]()
    assert len(list(tmp_path.glob("*.so"))) == 1
    for again in (set(), {("bfs", "cpu")}):  # another process, and this one
        monkeypatch.setattr(ahead, "_begun", again)
        ahead.compile_ahead("bfs", device, g)
    g.points.add("mine", morph.prelude.i32)
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr(ahead, "_begun", set())
    ahead.compile_ahead("bfs", device, g)  # whose points have another column
    ahead.compile_ahead("unknown", device)
    assert len(started) == 1


def test_compilers_end_with_the_process(tmp_path):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\n[ $1 = --version ] && echo 1 || exec sleep 77.5\n")
    slow.chmod(0o755)
    script = (
        "import time\nfrom morph.runtime.toolchain import parallel, cpu\n"
        "parallel.start(lambda: cpu.build('x', name='x'))\ntime.sleep(1)\nprint('end')"
    )
    env = os.environ | {"MORPH_CXX": str(slow), "MORPH_CACHE": str(tmp_path / "cache")}
    since = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, timeout=60)
    assert done.stdout == b"end\n" and time.monotonic() - since < 40
    assert subprocess.run(["pgrep", "-f", "sleep 77.5"]).returncode == 1


def test_the_line_says_how_many(monkeypatch):
    shown = []
    monkeypatch.setattr(progress, "on_terminal", lambda: True)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    monkeypatch.setattr(progress, "_put", shown.append)

    def texts(*names):
        shown.clear()
        with ExitStack() as stack:
            for name in names:
                stack.enter_context(progress.compiling(f"morph_{name}"))
            time.sleep(0.05)
        assert progress._Compilers.thread is None and not progress._Compilers.running
        assert progress._text() is None  # never an empty name
        return "".join(shown)

    progress.expect(3)
    assert re.search(r"compiling kernel [12] of 3, (one|two): 0\.\d s", texts("one", "two"))
    assert "compiling kernel 3 of 3, three: " in texts("three")  # after a pause
    assert "compiling kernel 4 of 4, four: " in texts("four")  # more than expected
    for _ in range(3):
        progress.found()
    assert "compiling kernel 1, five: " in texts("five")  # of another series
