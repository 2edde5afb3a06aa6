"""The ``morph`` command before NumPy is imported."""

import os
import signal
import subprocess
import sys

import pytest

from morph import start
from morph.runtime.cuda import driver


@pytest.mark.parametrize(
    ("argv", "original", "arguments"),
    [
        (["/usr/bin/morph", "sat", "a.cnf"], ["python", "/usr/bin/morph", "sat", "a.cnf"], 2),
        (["-m", "sat", "a.cnf"], ["python", "-X", "dev", "-m", "morph", "sat", "a.cnf"], 2),
        (["-m"], ["python", "-m", "morph"], 0),
        (["-m", "morph"], ["python", "-m", "pytest", "morph"], None),
        (["morph.py", "sat"], ["python", "morph.py", "sat"], None),
        (["-c", "morph"], ["python", "-c", "import morph", "morph"], None),
        ([""], ["python"], None),
        ([], ["python"], None),
    ],
)
def test_the_command_is_recognised(argv, original, arguments):
    found = start.arguments_of(argv, original)
    assert found == (None if arguments is None else argv[1 : 1 + arguments])


@pytest.mark.parametrize(
    ("line", "variable", "gpus"),
    [
        ("sat a.cnf", "", [0]),
        ("-v sat a.cnf", "", [0]),
        ("sat a.cnf", "cuda:2", [2]),
        ("sat a.cnf", "cpu", []),
        ("sat a.cnf --device cuda", "cpu", [0]),
        ("sat a.cnf --device=cuda:1,cuda:3", "", [1, 3]),
        ("sat a.cnf --device python", "", []),
        ("sat a.cnf --device cuda:x", "", []),
        ("sat a.cnf --device", "", [0]),
        ("sat a.cnf --mpi", "", []),
        ("sat --help", "", []),
        ("check a.cnf answer.txt", "", []),
        ("--version", "", []),
        ("", "", []),
    ],
)
def test_the_gpus_that_a_command_opens(line, variable, gpus):
    assert start.gpus_of(line.split(), {"MORPH_DEVICE": variable}) == gpus


def test_a_gpu_is_started_once_in_a_thread(monkeypatch):
    called = []

    class Library:
        def cuInit(self, flags):  # noqa: N802
            return called.append("init") or 0

        def cuDeviceGet(self, device, index):  # noqa: N802
            return called.append(index) or 0

        def cuDevicePrimaryCtxRetain(self, context, device):  # noqa: N802
            return called.append("context") or 0

    monkeypatch.setattr(driver, "load", Library)
    driver.start(3).join()
    assert called == ["init", 3, "context"]


@pytest.mark.parametrize(("module", "threads"), [("morph", "1"), ("pytest", "None")])
def test_numpy_gets_one_thread_in_the_command_only(module, threads):
    code = f"""if True:
        import os, sys
        sys.argv, sys.orig_argv = ["-m", "cache"], ["python", "-m", {module!r}, "cache"]
        import morph
        print(os.environ.get("OPENBLAS_NUM_THREADS"))"""
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.stdout.strip() == threads, done.stderr


def test_the_collector_does_not_run_during_the_imports_of_a_command():
    code = """if True:
        import gc, sys
        sys.argv = ["morph", "cache"]
        import morph.start
        before = gc.get_stats()
        import morph.cli.meshes, morph.cli.sat, morph.cli.updates
        print(gc.get_stats() == before)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize(
    ("device", "queues"), [("cuda", start.QUEUES), ("cuda:0,cuda:1", None), ("cpu", None)]
)
def test_a_command_on_one_gpu_asks_for_few_queues(monkeypatch, device, queues):
    monkeypatch.delenv("CUDA_DEVICE_MAX_CONNECTIONS", raising=False)
    code = f"""if True:
        import os, sys
        from morph import start
        sys.argv, start.driver.start = ["morph", "sat", "a.cnf", "--device", {device!r}], id
        start.prepare()
        print(os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS"))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == f"{queues}\n", done.stderr


CHECKS = """_preload_libs = {}
def load(library):
    print(library, "looked for" if _preload_libs.get(library) is None else "not looked for")
"""


@pytest.mark.parametrize(
    ("libraries", "printed"),
    [
        ('{"nccl": None, "cutensor": None}', "cutensor not looked for, nccl looked for"),
        ("{}", "cutensor looked for, nccl looked for"),  # another version of CuPy
    ],
)
def test_cupy_does_not_load_cutensor_in_a_command(tmp_path, libraries, printed):
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy" / "_environment.py").write_text(CHECKS.format(libraries))
    package = "from cupy import _environment as e\ne.load('cutensor')\ne.load('nccl')\n"
    (tmp_path / "cupy" / "__init__.py").write_text(package)
    code = f"""if True:
        import sys
        from morph import start
        sys.path.insert(0, {str(tmp_path)!r})
        sys.argv, start.driver.start = ["morph", "sat", "a.cnf"], print
        start.prepare()
        import cupy
        print(cupy._environment.__name__)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["0", *printed.split(", "), "cupy._environment"]


LIBRARIES = """_submodules = {}
def __getattr__(name):
    if name in _submodules:
        print(name, "looked for")
        raise ImportError(name)
    raise AttributeError(name)
"""


@pytest.mark.parametrize(
    ("libraries", "printed"),
    [
        (("cublas", "cutensor"), ["no", "cublas looked for"]),
        (("cublas",), ["no", "cublas looked for"]),  # an older CuPy
    ],
)
def test_cupy_does_not_look_for_cutensor_again_in_a_command(tmp_path, libraries, printed):
    """CuPy 14 did so four times, each time with cuBLAS before it."""
    folder = tmp_path / "cupy_backends" / "cuda" / "libs"
    folder.mkdir(parents=True)
    for package in (folder.parents[1], folder.parent):
        (package / "__init__.py").touch()
    (folder / "__init__.py").write_text(LIBRARIES.format(libraries))
    (folder / "cutensor.py").write_text("") if "cutensor" in libraries else None
    code = f"""if True:
        import sys
        from morph import start
        sys.path.insert(0, {str(tmp_path)!r})
        sys.argv, start.driver.start = ["morph", "sat", "a.cnf"], id
        start.prepare()
        try:
            from cupy_backends.cuda.libs import cutensor
        except ImportError:
            print("no")
        try:
            from cupy_backends.cuda.libs import cublas
        except ImportError:
            pass"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == printed, done.stderr


@pytest.mark.parametrize(
    ("before", "printed"),
    [
        ("", ["written", "last"]),
        ("sys.modules['mpi4py'] = None", ["written", "last", "freed"]),
        ("atexit.register(print, 'first')", ["written", "last", "first", "freed"]),
    ],
)
def test_a_command_ends_without_finalization(before, printed):
    code = f"""if True:
        import atexit, sys
        {before}
        sys.argv = ["morph", "cache"]
        import morph.start
        atexit.register(print, "last")
        class Array:
            def __del__(self):
                sys.__stdout__.write("freed\\n")
        array = Array()
        sys.stdout.write("written\\n")
        morph.start.end(3)
        sys.exit(3)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.split() == printed


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_output_that_cannot_be_written_is_reported():
    code = """if True:
        import sys
        sys.argv = ["morph", "cache"]
        import morph.start
        sys.stdout.write("written")
        morph.start.end(0)"""
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        run = [sys.executable, "-c", code]
        done = subprocess.run(run, stdout=full, stderr=subprocess.PIPE, env=buffered)
    assert done.returncode == 120 and b"No space left" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends a process there")
@pytest.mark.parametrize("module", ["morph.language", "morph.graph.graph", "morph.cli.common"])
def test_an_interrupt_during_the_imports_is_one_line(module):
    program = f"""
import os, signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
sys.meta_path.insert(0, Interrupting())
sys.argv = ["morph", "info"]
from morph.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "morph: interrupted\n")


def test_a_command_raises_interrupts_again():
    previous = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, start._end)
        start.begin()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a shell's background job
        start.begin()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, previous)
