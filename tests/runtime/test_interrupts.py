"""Ctrl-C and SIGTERM end every launch and loop within 0.3 s, and leave tables that can be used.

Each test starts a process, waits until it says "ready", sends the signal, and compares the clocks.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from limits import SLOWER

import morph
from morph.launch.checked import is_checked

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

LIMIT = 0.3 * SLOWER  # seconds; of the median delay
PAUSES = 0.05, 0.1, 0.25  # seconds from "ready" to the signal, in turn
CPU = "cpu-1 cpu-2"  # devices and numbers of threads, one after another in a process
CUDA = pytest.param("cuda-1", marks=pytest.mark.gpu)
ANY, COMPILED = [f"python-1 {CPU}", CUDA], [CPU, CUDA]

RUN = """import runpy, sys
_, script, ways, *pauses = sys.argv
for way in ways.split():
    sys.argv[1:] = *way.split("-"), *pauses
    runpy.run_path(script)
"""
BEGIN = """import precompiled; precompiled.follow()
import signal, sys, time
import numpy as np
import morph
from morph.prelude import *

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
device, threads, *pauses = sys.argv[1:]
morph.set_num_threads(int(threads))

def interrupted(run, *args):
    print("ready", flush=True)
    try:
        run(*args)
    except KeyboardInterrupt:
        print("stopped", time.time(), flush=True)
    else:
        print("ended", flush=True)

def values(column):
    array = column.array
    return array.get() if hasattr(array, "get") else np.array(array)
"""


@contextlib.contextmanager
def started(script: str, ways: str) -> Iterator[subprocess.Popen[str]]:
    """Run a script in each way, from a file: the language reads the source of kernels."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(BEGIN + script)
        with subprocess.Popen(
            [sys.executable, "-c", RUN, str(path), ways, *map(str, PAUSES)],
            stdout=subprocess.PIPE, text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "MORPH_CHECK": str(int(is_checked())),
            },
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()


def ends_at_once(
    script: str, ways: str, times: int = len(PAUSES), number: int = signal.SIGINT
) -> None:
    """Hold the median delay of each way against the limit; the script ends well, or the test fails.

    A delay is the seconds from a signal to the exception.  If the script names the seconds of a
    whole run at its end, the delays are parts of these.
    """
    with started(script, ways) as process:
        assert process.stdout is not None
        for way in ways.split():
            found = []
            for pause in itertools.islice(itertools.cycle(PAUSES), times):
                assert process.stdout.readline() == "ready\n"
                time.sleep(pause)
                sent = time.time()
                process.send_signal(number)
                word, _, when = process.stdout.readline().partition(" ")
                assert word == "stopped"
                found.append(float(when) - sent)
            done, *whole = process.stdout.readline().split()
            assert done == "done"
            assert statistics.median(found) / float(*whole or "1") < LIMIT, (way, found)
        assert process.wait(600) == 0


ENDLESS = """
@morph.kernel
def step(r, made):
    r.x += 1
    if (r.id + r.x) % 7 == 0:
        made.add(r)

@morph.program
def count(t, made, most):
    n = 0
    while n < most:
        made.clear()
        morph.foreach(t, step, made)
        n += 1
    return n

def sevenths(x):
    return np.flatnonzero((np.arange(x.size) + x) % 7 == 0).tolist()

t = morph.Table("t", device, x=i64)
t.extend(200 if device == "python" else 50_000)
made = morph.Collection(t, capacity=60_000)
count(t, made, 3)
count.eager(t, made, 1)
for k in range(3):
    interrupted(count, t, made, 1 << 60)
    x = values(t.x)
    if device != "python":  # which stops between two items
        assert (x == x[0]).all() and x[0] > 3
        assert sorted(made.items.tolist()) in (sevenths(x), [])  # it may have been cleared
    assert x.max() - x.min() <= k + 1 and x.min() > 3
    assert count(t, made, 2) == 2
    assert (values(t.x) == x + 2).all()
    assert sorted(made.items.tolist()) == sevenths(x + 2)
print("done")
"""


@pytest.mark.parametrize("ways", ANY)
def test_an_endless_program(ways):
    ends_at_once(ENDLESS, ways)


@pytest.mark.parametrize("ways", ANY)
def test_an_endless_program_run_eagerly(ways):
    eager = ENDLESS.replace("interrupted(count,", "interrupted(count.eager,")
    among = "assert sorted(made.items.tolist()) in (sevenths(x), [])"
    assert among in eager  # on the python device x may change within a step
    eager = eager.replace(among, "pass")
    ends_at_once(eager.replace("(x == x[0]).all() and x[0] > 3", "(x == x[0]).all()"), ways)


@pytest.mark.parametrize("ways", COMPILED)
def test_an_endless_program_of_few_items(ways):
    ends_at_once(ENDLESS.replace("50_000", "3"), ways)


def test_many_sources():
    """A search is one item, and a launch has few of them."""
    ends_at_once("""
g = morph.generate.rmat(13, 16, weight=(1, 99), seed=1, device=device)
sources = np.arange(1000)
want = morph.sssp(g, sources[:2], rows=True).distance
for _ in pauses:
    interrupted(lambda: morph.sssp(g, sources, rows=True))
assert np.array_equal(morph.sssp(g, sources[:2], rows=True).distance, want)
print("done")
""", CPU)  # fmt: skip


@pytest.mark.parametrize("ways", COMPILED)
def test_an_endless_program_without_steps(ways):
    ends_at_once("""
@morph.program
def spin(t, most):
    n = 1
    while n < most:
        n = n * 3 % 1000003 + (0 if n < 500000 else 1)
    return n

t = morph.Table("t", device, x=i64)
t.extend(10)
spin(t, 1)
for _ in range(3):
    interrupted(spin, t, 1 << 60)
    assert spin(t, 1) == 1
print("done")
""", ways)  # fmt: skip


def test_slow_items():
    """A step has few items for threads to share, and each takes a millisecond or more."""
    ends_at_once("""
@morph.kernel
def slow(r, n):
    for k in range(n):
        r.x = r.x * 3 + 1

@morph.program
def steps(t, n, most):
    k = 0
    while k < most:
        morph.foreach(t, slow, n)
        k += 1

t = morph.Table("t", device, x=u64)
t.extend(1000)
steps(t, 1, 1)
for _ in pauses:
    interrupted(steps, t, 10**6, 1000)
print("done")
""", CPU)  # fmt: skip


@pytest.mark.parametrize("ways", COMPILED)
def test_an_endless_program_of_one_block(ways):
    ends_at_once(ENDLESS.replace("interrupted(count,", "interrupted(count.alone,"), ways)


CLAIMS = """
@morph.kernel
def pair(r, g):
    rows = g.points.local(4)
    rows.add(r)
    for s in r.outnbrs:
        rows.add(s)
    if single(rows):
        r.x += 1
        for s in r.outnbrs:
            s.x -= 1

@morph.program
def play(g, most):
    n = 0
    while n < most:
        morph.foreach(g.points, pair, g)
        n += 1
    return n

k = 300 if device == "python" else 30_000
g = morph.Graph.from_edges(np.arange(k), (np.arange(k) + 1) % k, device=device)
g.points.add("x", i64)
play(g, 1)
for _ in range(3):
    interrupted(play, g, 1 << 60)
    assert values(g.points.x).sum() == 0  # who wins takes as much as it gives
    play(g, 1)
    assert values(g.points.x).sum() == 0
print("done")
"""


@pytest.mark.parametrize("ways", COMPILED)
def test_an_endless_program_of_claims(ways):
    ends_at_once(CLAIMS, ways)


@pytest.mark.unchecked  # between two looks at the stop word so many checked items take seconds
@pytest.mark.parametrize("ways", [CPU])  # a GPU's kernel has no barrier to stop at
def test_a_long_foreach(ways):
    """One step of many items is cut short: some have run, the others have not."""
    ends_at_once("""
@morph.kernel
def work(r):
    for i in range(20000):
        r.x += 1

t = morph.Table("t", device, x=i64)
t.extend(1)
morph.foreach(t, work)
t.extend(3_000_000)
for k in range(3):
    before = values(t.x)
    interrupted(morph.foreach, t, work)
    ran = values(t.x) - before
    assert set(ran.tolist()) == {0, 20000}
assert len(t) == 3_000_001
morph.reduce(t.x, "sum")
print("done")
""", ways)  # fmt: skip


@pytest.mark.parametrize("ways", ANY)
def test_new_and_deleted_rows_stay_consistent(ways):
    ends_at_once("""
@morph.kernel
def churn(r, t):
    if r.x % 3 == 0:
        s = t.new()
        s.x = r.x + 1
        r.delete()
    else:
        r.x += 1

@morph.program
def live(t, most):
    n = 0
    while n < most:
        morph.foreach(t, churn, t)
        n += 1
    return n

t = morph.Table("t", device, x=i64)
n = 300 if device == "python" else 20_000
t.extend(n, x=np.arange(n))
live(t, 3)
for _ in range(3):
    interrupted(live, t, 1 << 60)
    more = 1 if device == "python" else 0  # an item has made a row, and not deleted its own
    assert n <= t.live <= n + more, t.live
    n = t.live
    assert sum(1 for r in t) == t.live
    live(t, 2)
    assert t.live == n == sum(1 for r in t)
print("done")
""", ways)  # fmt: skip


@pytest.mark.parametrize("ways", COMPILED)
def test_pagerank(ways):
    ends_at_once("""
rng = np.random.default_rng(0)
g = morph.Graph.from_edges(*rng.integers(0, 20_000, (2, 200_000)), device=device)
want = morph.pagerank(g, tolerance=0.0, iterations=3).rank
want = want.get() if hasattr(want, "get") else want
for _ in range(3):
    interrupted(lambda: morph.pagerank(g, tolerance=0.0, iterations=1_000_000))
    rank = morph.pagerank(g, tolerance=0.0, iterations=3).rank
    rank = rank.get() if hasattr(rank, "get") else rank
    assert np.allclose(rank, want, rtol=1e-12)
print("done")
""", ways)  # fmt: skip


def test_an_import_at_first_use_is_not_interrupted(tmp_path):
    """`exec` of a text, interrupted, would end the process with the status of SIGINT."""
    (tmp_path / "late.py").write_text("""
import signal
exec("signal.raise_signal(signal.SIGINT)")
signal.raise_signal(signal.SIGTERM)
complete = True
""")
    script = f"""
import signal, sys
from morph.language.hooks import Hook
sys.path.insert(0, {str(tmp_path)!r})
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, lambda number, frame: print("SIGTERM", frame.f_code.co_name))
before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
try:
    Hook("late:complete").provider()
except KeyboardInterrupt:
    after = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    print(sys.modules["late"].complete, after == before)
"""
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "SIGTERM <module>\nTrue True\n", "")


@pytest.mark.parametrize("ways", COMPILED)
def test_the_solver_of_formulas(ways):
    ends_at_once("""
from morph import generate
f = generate.random_ksat(3, 30_000, 4.3, seed=1)
morph.survey.solve(generate.random_ksat(3, 200, 3.0, seed=1), device=device, seed=1)
for _ in range(3):
    interrupted(lambda: morph.survey.solve(f, device=device, seed=1))
small = generate.random_ksat(3, 500, 3.0, seed=2)
assert morph.survey.solve(small, device=device, seed=1).status == "SATISFIABLE"
print("done")
""", ways)  # fmt: skip


@pytest.mark.parametrize("ways", COMPILED)
def test_refinement(ways):
    ends_at_once("""
rng = np.random.default_rng(0)
m = morph.triangulate(rng.random((300, 2)), device=device)
morph.refine(m, min_angle=20, device=device)
def refine_often():  # a GPU may refine once before the signal
    for _ in range(100):
        morph.refine(m, min_angle=30, max_area=1e-7, device=device)
for _ in range(3):
    interrupted(refine_often)
assert len(morph.refine(m, min_angle=20, device=device).triangles) > 300
print("done")
""", ways)  # fmt: skip


DURING = """
import threading

def during(run):
    begin = time.time()
    run()
    took = time.time() - begin
    for part, pause in zip((0.35, 0.5, 0.65), map(float, pauses), strict=True):  # parts of the time
        threading.Timer(max(part * took - pause, 0), print, ["ready"], {"flush": True}).start()
        try:
            while True:
                run()
        except KeyboardInterrupt:
            print("stopped", time.time(), flush=True)
    return took
"""


@pytest.mark.unchecked  # a piece of points takes longer, checked
@pytest.mark.parametrize(
    "ways, segments",
    [
        ("cpu-1 cpu-3", 0),
        ("cpu-1 cpu-2", 50_000),
        *(pytest.param("cuda-1", n, marks=pytest.mark.gpu) for n in (0, 100_000)),
    ],
)
def test_triangulation(ways, segments):
    """With few threads one item inserts many points in turn: it must not insert all of them."""
    ends_at_once(f"segments = {segments}\n{DURING}" + """
from morph import testing
from morph.algorithms.triangulation import delaunay
rng, gpu = np.random.default_rng(0), device == "cuda"
if not gpu:
    delaunay.CHUNK //= 2  # as with twice the points
    testing.team(int(threads)).__enter__()  # one binary of a unit for all ways
points = rng.random((2_000_000 if gpu else 200_000, 2))
mesh = morph.triangulate(points[:30_000], device=device)
ends = None
if segments:
    sides = morph.triangulate(points, device=device).triangles[:, :2]
    inside = sides[sides[:, 0] < sides[:, 1]]  # each once, the other way round
    ends = inside[rng.choice(len(inside), segments, replace=False)]
took = during(lambda: morph.triangulate(points, ends, hull=True, device=device))
again = morph.triangulate(points[:30_000], device=device)
assert len(again.triangles) == len(mesh.triangles)
print("done", 1.0 if gpu else took)
""", ways)  # fmt: skip


@pytest.mark.parametrize("suffix", [".el.gz", ".el.xz", ".el.bz2", ".npz.gz"])
def test_a_file_that_is_compressed(suffix):
    """Nothing is left of the file, and the one before stays."""
    ends_at_once(f"suffix = {suffix!r}\n" + """
import os, tempfile
from morph import io
folder = tempfile.mkdtemp()
path = folder + "/g" + suffix
rng = np.random.default_rng(0)
io.write_graph(morph.Graph.from_edges([0], [1]), path)
with open(path, "rb") as file:
    before = file.read()
g = morph.Graph.from_edges(*rng.integers(0, 1_000_000, (2, 3_000_000)), n=1_000_000)
for _ in range(3):
    interrupted(io.write_graph, g, path)
    assert os.listdir(folder) == ["g" + suffix]
    with open(path, "rb") as file:
        assert file.read() == before
os.remove(path)
os.rmdir(folder)
print("done")
""", "cpu-1")  # fmt: skip


@pytest.mark.parametrize("ways", [CPU])
def test_a_dynamic_algorithm_changes_all_or_nothing(ways):
    """However the signal falls, the distances are those of the graph."""
    ends_at_once("""
from morph import validate
rng = np.random.default_rng(0)
side = 250
i = np.arange(side * side).reshape(side, side)
src, dst = np.r_[i[:, :-1].ravel(), i[:-1].ravel()], np.r_[i[:, 1:].ravel(), i[1:].ravel()]
g = morph.Graph.from_edges(src, dst, weight=rng.random(src.size) + 0.5, device=device)
d = morph.DynamicSSSP(g, 0)
d.apply(inserts=([0], [7], [0.1]))
d.apply(deletes=np.array([g.edges.live - 1]))

def change_for_ever():
    while True:
        ids = rng.choice(src.size, 10_000, replace=False).astype(np.int32)
        d.apply(updates=(ids, rng.random(ids.size) + 0.5))

for _ in range(4):
    before = values(g.edges.weight)
    interrupted(change_for_ever)
    validate.sssp(g, d.distance, source=0)
    d.apply(inserts=([0], [7], [0.1]))
    validate.sssp(g, d.distance, source=0)
print("done")
""", ways, times=4)  # fmt: skip


@pytest.mark.parametrize("ways", COMPILED)
def test_a_handler_of_sigterm_runs(ways):
    handler = "signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
    ends_at_once(handler + ENDLESS, ways, number=signal.SIGTERM)


def test_sigterm_ends_the_process():
    with started(ENDLESS, "cpu-2") as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        process.terminate()
        begin = time.time()
        assert process.wait(60) == -signal.SIGTERM
        assert time.time() - begin < LIMIT


COUNT = """  # begins scripts: a program that can be made to run for any time
@morph.kernel
def step(r):
    r.x += 1

@morph.program
def count(t, most):
    n = 0
    while n < most:
        morph.foreach(t, step)
        n += 1
    return n
"""


def run(script: str, ways: str = "cpu-2") -> None:
    """Run a script that asserts."""
    with started(script, ways) as process:
        assert process.wait(600) == 0


@pytest.mark.parametrize("ways", COMPILED)
def test_a_handler_that_returns_lets_the_launch_go_on(ways):
    run(COUNT + """
t = morph.Table("t", device, x=i64)
t.extend(1000)
count(t, 1)
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(time.perf_counter()))
most = 1000
while True:
    begin = time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    assert count(t, most) == most
    signal.setitimer(signal.ITIMER_REAL, 0)
    if len(seen) >= 3:
        break
    assert time.perf_counter() - begin < 100, seen
    most *= 4
    seen.clear()
x = values(t.x)
assert (x == x[0]).all()
""", ways)  # fmt: skip


@pytest.mark.parametrize("ways", COMPILED)
def test_a_handler_cannot_launch(ways):
    run(COUNT + """
t, other = morph.Table("t", device, x=i64), morph.Table("t", device, x=i64)
t.extend(1000), other.extend(10)
count(t, 1), count(other, 1)
signal.signal(signal.SIGALRM, lambda *_: count(other, 1))
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    count(t, 1 << 60)
except RuntimeError as error:
    assert "signal handler" in str(error)
else:
    raise AssertionError("it was not refused")
assert values(other.x).tolist() == [1] * 10
count(other, 1)
assert values(other.x).tolist() == [2] * 10
""", ways)  # fmt: skip


def test_a_launch_of_another_thread_goes_on():
    """Python's handlers run in the main thread, whose launches alone they can end."""
    run(COUNT + """
import threading

t = morph.Table("t", device, x=i64)
t.extend(1000)
count(t, 1)
results, most = [], 100_000
signal.signal(signal.SIGALRM, lambda *_: 1 / 0)
during = False
while not during:
    most *= 3
    results.clear()
    work = threading.Thread(target=lambda: results.append(count(t, most)))
    before = values(t.x)
    work.start()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        time.sleep(600)
    except ZeroDivisionError:
        during = not results
    work.join()
    assert results == [most] and (values(t.x) == before + most).all()
""")  # fmt: skip


def test_a_command_ends_with_130_and_one_line(tmp_path):
    from morph import generate, io

    io.write_cnf(generate.random_ksat(3, 60_000, 4.25, seed=1), tmp_path / "hard.cnf")
    hard = (tmp_path / "hard.cnf").read_bytes()
    with subprocess.Popen(
        [sys.executable, "-m", "morph", "sat", "-", "--device", "cpu"], cwd=tmp_path,
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        process.stdin.write(hard)  # returns when the command has read almost all
        process.stdin.close()
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b"\nmorph: interrupted\n"  # behind the terminal's ^C
    assert [p.name for p in tmp_path.iterdir()] == ["hard.cnf"]


def test_a_caught_interrupt_of_an_expression_does_not_decide_the_exit_status():
    """CPython remembers a `KeyboardInterrupt` that leaves `eval` of a text."""
    code = """if True:
        from morph.compiler.frontend.dependencies import Globals

        class Interrupted(list):
            def __getitem__(self, key):
                raise KeyboardInterrupt

        known = Globals(globals())
        known.add("Globals", Globals)
        known.values = Interrupted(known.values)
        try:
            known.unchanged()
        except KeyboardInterrupt:
            print("caught")"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "caught\n"), done.stderr
    calls = re.compile(r"(?<![\w.])(?:eval|exec)\((?!compile\()")
    package = Path(morph.__file__).parent
    assert not [f.name for f in package.rglob("*.py") if calls.search(f.read_text())]
