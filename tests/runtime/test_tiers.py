"""Quick binaries first, full optimisation in the background, the progress line on the terminal."""

import errno
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from limits import SLOWER

import morph
from morph.compiler.codegen.prelude import prelude
from morph.launch.prepared import Prepared
from morph.prelude import i32
from morph.runtime.cuda import launch, modules
from morph.runtime.toolchain import cache, cpu, cuda, later, processes, progress, tiers

pytestmark = pytest.mark.skipif(os.name != "posix", reason="no background")

ADD = 'extern "C" int add(int a, int b) { return a + b; }\n'
SCALE = 'extern "C" __global__ void scale(float *x) { x[threadIdx.x] *= 2; }\n'

PROGRAM, *OPTIONS = cpu.compiler().command
REAL = shlex.join([shutil.which(PROGRAM) or PROGRAM, *OPTIONS])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache, and a background that starts at once."""
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(tiers.VARIABLE, "auto")
    monkeypatch.setattr(cpu, "_known", {})
    monkeypatch.setattr(tiers, "OPTIMISE_AFTER", 0.0)
    monkeypatch.setattr(processes, "LOWEST", 0)  # other programs run, too
    background = tiers.Background()
    monkeypatch.setattr(tiers, "background", background)
    yield tmp_path / "cache"
    background.end()


@pytest.fixture
def optimised(monkeypatch):
    """Whether each text that went to the C++ compiler was optimised in full; nothing else is."""
    seen, real = [], cpu._compile

    def compile(using, flags, *more):
        seen.append(cpu.QUICK[0] not in flags)
        return real(using, (*flags, "-O0"), *more)

    monkeypatch.setattr(cpu, "_compile", compile)
    return seen


def files(folder):
    """What a build that did not end may have left."""
    return [f.name for f in folder.iterdir() if f.name.startswith("tmp-")]


def test_unknown_values_are_refused(monkeypatch):
    monkeypatch.setenv(tiers.VARIABLE, "fast")
    with pytest.raises(ValueError, match="MORPH_OPTIMIZE is 'fast'; it is 'auto', 'quick' or"):
        cpu.build(ADD)
    monkeypatch.delenv(tiers.VARIABLE)
    assert tiers.mode() == "auto"


def test_a_quick_library_is_rebuilt(optimised, folder):
    rebuilt = threading.Event()
    quick = cpu.build(ADD, rebuilt=rebuilt.set)
    assert rebuilt.wait(60) and optimised == [False, True]
    full = cpu.build(ADD, rebuilt=None)
    assert full != quick and quick.is_file() and len(cache.entries()) == 2
    assert cpu.build(ADD, rebuilt=lambda: None) == full and len(optimised) == 2
    assert not files(folder)
    for thread in list(tiers.background.threads):  # nothing is left to do
        thread.join(60)
    assert not tiers.background.threads


@pytest.mark.parametrize(
    ("mode", "rebuilt", "want"),
    [
        ("full", print, [True]), ("quick", print, [False]), ("quick", None, [False]),
        ("auto", None, [True]),
    ],
)  # fmt: skip
def test_one_compilation(mode, rebuilt, want, optimised, monkeypatch):
    monkeypatch.setenv(tiers.VARIABLE, mode)
    for _ in range(2):
        cpu.build(ADD, rebuilt=rebuilt)
    assert optimised == want and not tiers.background.threads


def test_the_next_process_rebuilds(optimised, monkeypatch):
    monkeypatch.setenv(tiers.VARIABLE, "quick")
    cpu.build(ADD)
    monkeypatch.setenv(tiers.VARIABLE, "auto")
    rebuilt = threading.Event()
    cpu.build(ADD, rebuilt=rebuilt.set)
    assert rebuilt.wait(60) and optimised == [False, True]


@pytest.mark.nvrtc
def test_without_the_library_of_a_wheel_nvrtc_runs_here(monkeypatch):
    monkeypatch.setattr(cuda, "_library", lambda: None)
    monkeypatch.setattr(processes, "run", None)
    assert cuda.build(SCALE)[:4] == b"\x7fELF"


@pytest.fixture
def quick_cubins(monkeypatch):
    """Whether each text that went to NVRTC was compiled quickly."""
    seen, real = [], cuda._compile

    def compile(text, flags, *more, **options):
        seen.append(set(cuda.QUICK) <= set(flags))
        return real(text, flags, *more, **options)

    monkeypatch.setattr(cuda, "_compile", compile)
    if not cuda._compiles_quickly():
        pytest.skip("NVRTC is older, or not of a wheel")
    return seen


@pytest.mark.nvrtc
def test_a_quick_cubin_is_rebuilt(quick_cubins, folder):
    rebuilt = threading.Event()
    quick = cuda.build(SCALE, rebuilt=rebuilt.set)
    assert rebuilt.wait(60) and quick_cubins == [True, False]
    full = cuda.build(SCALE)
    assert full != quick and full == cuda.build(SCALE, rebuilt=print) and len(quick_cubins) == 2
    assert len(cache.entries()) == 2 and not files(folder)


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("mode", "rebuilt", "want"),
    [("full", print, False), ("quick", print, True), ("quick", None, False), ("auto", None, False)],
)
def test_one_compilation_of_nvrtc(mode, rebuilt, want, quick_cubins, monkeypatch):
    monkeypatch.setenv(tiers.VARIABLE, mode)
    for quick_only in (False, True):
        cuda.build(SCALE, rebuilt=rebuilt, quick_only=quick_only)
    assert quick_cubins == [want] and not tiers.background.threads


@pytest.mark.nvrtc
def test_only_known_versions_of_nvrtc_compile_quickly(quick_cubins, monkeypatch):
    for name, known in {"12.8": False, "12.9": True, "13.0": True}.items():
        files = Path("libnvrtc.so.1"), Path(f"libnvrtc-builtins.so.{name}")
        monkeypatch.setattr(cuda, "_wheel", lambda files=files: files)
        assert cuda._compiles_quickly.__wrapped__() == known
    monkeypatch.setattr(cuda, "_library", lambda: None)  # it runs in this process, to its end
    assert not cuda._compiles_quickly.__wrapped__()
    monkeypatch.setattr(cuda, "_compiles_quickly", lambda: False)
    cuda.build(SCALE, rebuilt=print)
    assert quick_cubins == [False] and not tiers.background.threads


def test_long_units_of_a_gpu_are_compiled_quickly(monkeypatch):
    """But none with faults, none on parts, and none if little memory is free."""
    given = []
    monkeypatch.setattr(modules, "build", lambda *args, **options: given.append(args[4]))
    fields = SimpleNamespace(kind="parts"), SimpleNamespace(kind="column")
    for text, some in ("x" * launch.LONG, fields[1:]), ("x", fields[1:]), ("x" * 99_999, fields):
        launch.build(SimpleNamespace(prelude=(), entry="e", fields=some), text, 0, print)
    assert given == [print, None, None]
    given.clear()
    free = [launch.STACKS, 0]  # bytes of the GPU's memory
    gpu = SimpleNamespace(
        Device=lambda index: nullcontext(),
        runtime=SimpleNamespace(memGetInfo=lambda: (free.pop(0), 0)),
    )
    monkeypatch.setattr(launch, "import_cupy", lambda: SimpleNamespace(cuda=gpu))
    monkeypatch.setattr(launch, "CudaLaunch", lambda *args: given.append(args[4]))
    unit = SimpleNamespace(prelude=(), entry="e", fields=[])
    for faults in (False, False, True):
        launch.load(unit, "x" * launch.LONG, faults, 0, print)
    assert given == [print, None, None]


class DriverError(Exception):
    def __init__(self, status):
        self.status = status


class PretendedDriver:
    """CuPy and its driver: a GPU that has no memory for the stacks of some binaries."""

    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8

    def __init__(self, fits, status=2):
        self.fits, self.status, self.launched, self.loaded, self.freed = fits, status, [], [], 0
        self.cuda, self.driver = self, self
        self.runtime = SimpleNamespace(deviceSynchronize=lambda: None)

    def get_default_memory_pool(self):
        return SimpleNamespace(free_all_blocks=lambda: setattr(self, "freed", self.freed + 1))

    def get_current_stream(self):
        return SimpleNamespace(ptr=5)

    def ctxGetCurrent(self):
        return 1

    def ctxSetCurrent(self, context):
        raise AssertionError

    def occupancyMaxActiveBlocksPerMultiprocessor(self, function, block, shared):
        return self.fits[function]

    def launchKernel(self, function, blocks, *more):
        if function == "quick":
            raise DriverError(self.status)
        self.launched.append((function, blocks))

    launchCooperativeKernel = launchKernel

    def get(self, text, index, name, defines, rebuilt):
        self.loaded.append("full" if rebuilt is None else "quick")
        function = SimpleNamespace(ptr=self.loaded[-1])
        return SimpleNamespace(get_function=lambda entry: function)


class PretendedCard:
    id, attributes = 77, {"MultiProcessorCount": 10}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def launch_on(driver, monkeypatch, rebuilt=print, **outline):
    monkeypatch.setattr(launch, "import_cupy", lambda: driver)
    monkeypatch.setattr(modules, "loaded", driver.get)
    facts = dict(entry="morph_e", shared_bytes=0, claims=False, cooperative=True, lists=True,
                 queues=False, lanes=1, together=[])  # fmt: skip
    unit = SimpleNamespace(**facts | outline)
    return launch.CudaLaunch("text", unit, PretendedCard(), (), rebuilt)


ARGUMENTS = np.zeros(4, np.uint64)


@pytest.mark.parametrize("status", launch.OUT_OF_MEMORY)
@pytest.mark.parametrize("alone", [False, True])
def test_without_memory_for_stacks_the_full_cubin_is_launched(alone, status, monkeypatch):
    driver = PretendedDriver({"quick": 1, "full": 3}, status)
    made = launch_on(driver, monkeypatch)
    assert made.threads == 10 * launch.BLOCK and driver.loaded == ["quick"]
    for _ in range(2):
        made(ARGUMENTS, 9, alone)
    blocks = 1 if alone else 10  # scratch arrays have no place for more threads
    assert driver.launched == [("full", blocks)] * 2 and driver.loaded == ["quick", "full"]
    assert made.threads == 10 * launch.BLOCK and driver.freed == 1


def test_a_full_cubin_with_fewer_threads(monkeypatch):
    driver = PretendedDriver({"quick": 3, "full": 1})
    made = launch_on(driver, monkeypatch)
    made(ARGUMENTS, 10**6)
    assert driver.launched == [("full", 10)] and made.threads == 10 * launch.BLOCK
    for items in (["t"], []):
        driver = PretendedDriver({"quick": 3, "full": 1})
        made = launch_on(driver, monkeypatch, together=items)
        with pytest.raises(DriverError) if items else nullcontext():
            made(ARGUMENTS, 3000)
        assert len(driver.launched) == (not items)


@pytest.mark.parametrize(("status", "rebuilt"), [(1, print), (2, None)])
def test_other_errors_of_launches_are_raised(status, rebuilt, monkeypatch):
    driver = PretendedDriver({"quick": 1, "full": 1}, status)
    monkeypatch.setattr(PretendedDriver, "get", lambda self, *_: SimpleNamespace(
        get_function=lambda entry: SimpleNamespace(ptr="quick")))  # fmt: skip
    made = launch_on(driver, monkeypatch, rebuilt)
    with pytest.raises(DriverError):
        made(ARGUMENTS, 9)
    assert not driver.launched and not driver.freed


@pytest.mark.nvrtc
def test_no_lanes_are_combined_in_called_functions():
    """Lanes of several calls may be active in a function together."""
    text = (
        prelude()
        + """
extern "C" __global__ void count(i64* meta, i32 n) {
    i32 reservation = n;
    if (threadIdx.x < n) add_up(meta, n);
    if (threadIdx.x > n) add_to_total<MOST_TOTALS>(meta + 2, n);
    meta[1] = Slots(meta, 1, reservation).first();
}
"""
    )
    aggregated = re.compile("activemask|redux|vote|shfl")
    assert aggregated.search(ptx_of(text, *cuda.FLAGS))
    assert not aggregated.search(ptx_of(text, *cuda.FLAGS, *cuda.QUICK[1:]))


def ptx_of(text, *flags):
    nvrtc = cuda._nvrtc()
    program = nvrtc.createProgram(text, "t.cu", (), ())
    nvrtc.compileProgram(program, (*flags, "--gpu-architecture=compute_90"))
    ptx = nvrtc.getPTX(program)
    nvrtc.destroyProgram(program)
    return ptx if isinstance(ptx, str) else ptx.decode()


@morph.kernel
def collatz(r, done):
    r.steps += 1
    r.x = r.x // 2 if r.x % 2 == 0 else 3 * r.x + 1
    if r.x == 1:
        done.add(r)


def test_a_launch_takes_the_full_binary(optimised, monkeypatch):
    jobs = []
    monkeypatch.setattr(tiers.background, "add", lambda *job: jobs.append(job))
    t = morph.Table("t", "cpu", x=i32, steps=i32)
    t.extend(5)
    t.x[:] = np.arange(2, 7, dtype=np.int32)
    done = morph.Collection(t, capacity=9)
    collatz.launches.clear()
    morph.foreach(t, collatz, done)
    (launch,) = collatz.launches.values()
    quick, [(_, make, notify)] = launch.binary, jobs
    morph.foreach(t, collatz, done)
    assert launch.binary is quick and optimised == [False]
    assert make()
    notify()
    morph.foreach(t, collatz, done)
    assert [*collatz.launches.values()] == [launch] and len(jobs) == 1
    assert launch.binary is not quick and optimised == [False, True]
    full = launch.binary
    morph.foreach(t, collatz, done)
    assert launch.binary is full
    assert t.steps.array.tolist() == [4] * 5 and t.x.array.tolist() == [1, 8, 2, 2, 16]
    assert len(done) == 3


@morph.program
def halve(t, rounds):
    while rounds > 0:
        morph.foreach(t, half)
        rounds -= 1
    return rounds


@morph.kernel
def half(r):
    r.x = r.x // 2


def test_a_prepared_launch_takes_the_full_binary(optimised, monkeypatch):
    jobs = []
    monkeypatch.setattr(tiers.background, "add", lambda *job: jobs.append(job))
    t = morph.Table("t", "cpu", x=i32)
    t.extend(5)
    prepared = Prepared.of(halve, t, 1)
    prepared.write = prepared.writer(0, 1)
    quick = prepared.launch.binary
    assert prepared.current() and prepared.run((1,)) == (0, None)
    [(_, make, notify)] = jobs
    assert make()
    notify()
    assert not prepared.current()
    prepared = Prepared.of(halve, t, 1)
    prepared.write = prepared.writer(0, 1)
    assert prepared.current() and prepared.launch.binary is not quick
    assert prepared.run((1,)) == (0, None) and prepared.current() and optimised == [False, True]


@morph.program
def digits(t, z, y, a, x):
    return z * 1000 + y * 100 + a * 10 + x


def test_numbers_of_a_prepared_launch_lie_in_the_order_of_the_call():
    t = morph.Table("t", "cpu", x=i32)
    prepared = Prepared.of(digits, t, 0, 0, 0, 0)
    prepared.write = prepared.writer(0, 4)
    assert prepared.launch.compiled.scalar_origins == [1, 2, 3, 4]
    assert prepared.run((1, 2, 3, 4)) == (1234, None)


# -- when something ends too early

SLOW = """
case "$*" in
*--version*) echo slow; exit;;
*-Og*) exec {real} "$@";;
esac
for last; do true; done
echo half > "$last"
echo $$ > {pid}.part
mv {pid}.part {pid}
{end}
"""

USER = """
import os, sys, time
from morph.runtime.toolchain import cpu, tiers
cpu.build(sys.argv[2], rebuilt=lambda: print("rebuilt"))
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
print("ready", flush=True)
"""


@pytest.fixture(params=["sleep 100 & wait"])
def slow(request, tmp_path, monkeypatch):
    """A compiler that takes long for full optimisation; the file that then has its number."""
    script, pid = tmp_path / "cxx", tmp_path / "pid"
    script.write_text("#!/bin/sh" + SLOW.format(real=REAL, pid=pid, end=request.param))
    script.chmod(0o755)
    monkeypatch.setenv("MORPH_CXX", str(script))
    return pid


def runs(number):
    """Whether a process runs: one that has ended may still wait for its parent."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc is read")

ENDS = {
    "exit": "",
    "at once": "os._exit(0)",
    "killed": "os.kill(os.getpid(), 9)",
    # the child has the pipe, too, and must not keep the compiler
    "fork": "if not os.fork(): time.sleep(3); os._exit(0)\nos._exit(0)",
}


@linux
@pytest.mark.parametrize("end", ENDS)
def test_the_compiler_ends_with_the_process(end, slow, folder):
    command = [sys.executable, "-c", USER + ENDS[end], str(slow), ADD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout.readline() == "ready\n"
        number = int(slow.read_text())
        assert user.wait(20) == (-9 if end == "killed" else 0)
        wait_until(lambda: not runs(number))
    wait_until(lambda: not files(folder))
    assert len(list(folder.glob("*.so"))) == 1


NVRTC = """
#include <string.h>
#include <unistd.h>
extern "C" {
int nvrtcCreateProgram(void **, const char *, const char *, int, void *, void *) { return 0; }
int nvrtcCompileProgram(void *, int n, const char **flags) {
    while (n--) if (strstr(flags[n], "fast")) return 0;
    return sleep(100);
}
int nvrtcGetCUBINSize(void *, size_t *size) { return *size = 5, 0; }
int nvrtcGetCUBIN(void *, char *out) { return strcpy(out, "fast"), 0; }
}
"""

GPU_USER = """
import os, sys, time
from pathlib import Path
from morph.runtime.toolchain import cuda, processes
cuda._library = lambda: Path(sys.argv[1])
cuda._compiles_quickly = lambda: True
cuda.build("", rebuilt=lambda: print("rebuilt"))
while not processes._started:
    time.sleep(0.01)
print(*processes._started, flush=True)
"""


@linux
@pytest.mark.nvrtc
@pytest.mark.parametrize("end", ENDS)
def test_nvrtc_ends_with_the_process(end, tmp_path, folder, monkeypatch):
    monkeypatch.setenv(later.VARIABLE, "0")
    library = cpu.build(NVRTC)
    command = [sys.executable, "-c", GPU_USER + ENDS[end], str(library)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as user:
        number = int(user.stdout.readline())
        since = time.monotonic()
        assert user.wait(20) == (-9 if end == "killed" else 0)
        assert end == "fork" or time.monotonic() - since < 3 * SLOWER
        wait_until(lambda: not runs(number))
    # of a killed process the empty file that it has locked may stay
    wait_until(lambda: all(name.endswith(".lock") for name in files(folder)))
    (cubin,) = folder.glob("*.cubin")
    assert cubin.read_bytes() == b"fast\0"


SHORT = """
import sys
from morph.runtime.toolchain import cuda
for k in range(3):
    cuda.build(f"// {k}\\n" + sys.argv[1], name="scale", rebuilt=print)
"""


@pytest.mark.nvrtc
def test_a_short_process_leaves_full_cubins(quick_cubins, folder):
    subprocess.run([sys.executable, "-c", SHORT, SCALE], check=True, timeout=60)
    wait_until(lambda: len(cache.entries()) == 6)
    for k in range(3):
        cuda.build(f"// {k}\n{SCALE}", name="scale", rebuilt=print)
    assert not quick_cubins and not tiers.background.jobs
    wait_until(lambda: not files(folder))


@pytest.fixture
def started(monkeypatch, folder):
    """The processes that `later` starts, which end at once."""
    seen, real = [], subprocess.Popen
    cache.path()

    def start(command, **options):
        seen.append(options["env"]["MORPH_CACHE"])
        return real([sys.executable, "-c", ""], **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    return seen


def test_units_left_by_a_process(started, folder, monkeypatch):
    unit = "key", "name", "sm_90", ["flag"]
    later.start([])
    assert started == []
    later.start([unit])
    assert started == [str(folder)]
    monkeypatch.setattr(sys, "last_type", KeyboardInterrupt, raising=False)
    later.start([unit])
    monkeypatch.setattr(sys, "last_type", ValueError, raising=False)
    monkeypatch.setenv(later.VARIABLE, "0")
    later.start([unit])
    monkeypatch.delenv(later.VARIABLE)
    monkeypatch.setattr(cache, "path", lambda suffix="": folder / "removed")
    later.start([unit])
    assert len(started) == 1


def test_compiled_units_are_not_left(started):
    done = threading.Event()
    tiers.background.add("a", lambda: True, done.set, ("a", "a", "sm_90", []))
    assert done.wait(20)
    tiers.background.add("b", lambda: False, print, ("b", "b", "sm_90", []))  # does not compile
    wait_until(lambda: not tiers.background.threads)
    tiers.background.end()
    assert started == []
    busy = tiers.Background()
    busy.add("c", lambda: busy.ended.wait(20) and False, print, ("c", "c", "sm_90", []))
    busy.add("d", lambda: True, print, ("d", "d", "sm_90", []))
    busy.end()
    assert len(started) == 1 and {*busy.left} >= {"c"}


def test_one_process_for_a_cache_compiles_what_is_left(monkeypatch, folder):
    seen = []
    monkeypatch.setattr(os, "nice", lambda by: seen.append(by))

    def make(key, name):
        seen.append(key)
        later.compile_all([("other", "")], make)
        if key == "wrong":
            raise OSError("no such text")

    later.compile_all([("wrong", ""), ("right", "")], make)
    assert seen == [19, "wrong", 19, "right", 19]
    monkeypatch.setattr(later, "MOST_SECONDS", -1.0)
    later.compile_all([("late", "")], make)
    assert seen[5:] == [19]


@linux
@pytest.mark.parametrize("slow", ["exec sleep 100"], indirect=True)
def test_a_killed_compiler_changes_nothing(slow, folder, optimised):
    rebuilt = []
    quick = cpu.build(ADD, rebuilt=lambda: rebuilt.append(1))
    wait_until(slow.exists)
    number = int(slow.read_text())
    (group,) = (p for p in Path("/proc").glob("[0-9]*") if _starts(p, number))
    os.kill(int(group.name), signal.SIGKILL)
    wait_until(lambda: not runs(number) and not tiers.background.threads)
    assert not files(folder) and not rebuilt and cpu.build(ADD, rebuilt=print) == quick


def _starts(process: Path, child: int) -> bool:
    try:
        children = (process / "task" / process.name / "children").read_text().split()
        return str(child) in children
    except OSError:
        return False


@linux
def test_a_cache_of_the_process_is_removed(slow, tmp_path):
    (tmp_path / "cache").touch()
    text = "import warnings; warnings.simplefilter('ignore')\n" + USER
    text = text.replace("while", "from morph.runtime.toolchain import cache\nwhile", 1)
    command = [sys.executable, "-c", text + "print(cache.path())", str(slow), ADD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert not Path(done.stdout.split()[1]).exists() and not runs(int(slow.read_text()))


def test_a_full_disk_leaves_the_quick_library(optimised, folder, monkeypatch):
    seen, real = [], cache.store

    def store(key, *args, **facts):
        if len(seen) == 1:
            seen.append(key)
            raise OSError(errno.ENOSPC, "No space left on device")
        return seen.append(key) or real(key, *args, **facts)

    monkeypatch.setattr(cache, "store", store)
    notified = []
    cpu.build(ADD, rebuilt=lambda: notified.append("first"))
    wait_until(lambda: len(seen) == 2 and not tiers.background.threads)
    done = threading.Event()
    cpu.build(ADD + "\n", rebuilt=done.set)
    assert done.wait(60) and not notified and not files(folder) and len(cache.entries()) == 3


def test_of_two_processes_one_compiles():
    """Each has its own threads; the lock is one of the files in the cache."""
    others, running, done = [tiers.Background(), tiers.Background()], [], []

    def make():
        running.append(1)
        time.sleep(0.02)
        done.append(len(running))
        running.pop()
        return True

    for other in others:
        for key in "abc":
            other.add(key, make, lambda: None)
    wait_until(lambda: len(done) == 6)
    if (os.cpu_count() or 1) < 2 * tiers.CORES:
        assert done == [1] * 6
    for other in others:
        other.end()


# -- the terminal

SHOWN = """
import sys, time
from morph.runtime.toolchain import cpu, progress
progress.PAUSE = 100.0
print("ready", flush=True)
try:
    for name in ("morph_one", "morph_two"):
        cpu.build(f"// {name}\\n" + sys.argv[1], name=name)
except KeyboardInterrupt:
    print("stopped", time.time(), flush=True)
"""


def shown(tmp_path, monkeypatch, seconds, interrupt=None):
    """What a process writes on the terminal while compilers take so long, and on its output."""
    script = tmp_path / "cxx"
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *--version*) ;; *) sleep {seconds};; esac\nexec {REAL} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("MORPH_CXX", str(script))
    ours, terminal = pty.openpty()
    command = [sys.executable, "-c", SHOWN, ADD]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=terminal, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as user:  # fmt: skip
        os.close(terminal)
        assert user.stdout.readline() == "ready\n"
        sent = 0.0
        if interrupt is not None:
            time.sleep(interrupt)
            sent = time.time()
            user.send_signal(signal.SIGINT)
        out = user.stdout.read()
        assert user.wait(60) == 0
    text = b""
    try:
        while more := os.read(ours, 1000):
            text += more
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    return text.decode(), out, sent


def test_compilers_that_take_long_are_shown(tmp_path, monkeypatch):
    text, _, _ = shown(tmp_path, monkeypatch, 0.4)
    first, *more, last, after = text.split("\r")
    assert first == after == "" and last.strip() == "" and len(last) >= len(more[-1])
    kernels = ("compiling kernel 1, one: ", "compiling kernel 2, two: ")
    assert all(line.startswith(kernels) or not line.strip() for line in more)
    assert more[-1].startswith(kernels[1])  # both took longer than `DELAY`, each alone need not


@pytest.mark.parametrize(("terminal", "delay"), [(True, 100.0), (False, 0.0)])
def test_nothing_is_shown(terminal, delay, monkeypatch, capsys):
    monkeypatch.setattr(progress, "DELAY", delay)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with progress.compiling("k"):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("pause", [0.2, 0.9])
def test_an_interrupt_ends_the_compiler(pause, tmp_path, monkeypatch, folder):
    text, out, sent = shown(tmp_path, monkeypatch, 77.25, pause)
    word, when = out.split()
    assert word == "stopped" and float(when) - sent < 0.3 * SLOWER
    assert ("compiling kernel 1, one" in text) == (pause > progress.DELAY)
    assert text.rpartition("\r")[2] == "" and not files(folder)
    assert b"77.25" not in subprocess.run(["ps", "ax"], capture_output=True).stdout
