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
    ("line", "variable", "gpu"),
    [
        ("sat a.cnf", "", 0),
        ("-v sat a.cnf", "", 0),
        ("sat a.cnf", "cuda:2", 2),
        ("sat a.cnf", "cpu", None),
        ("sat a.cnf --device cuda", "cpu", 0),
        ("sat a.cnf --device=cuda:1,cuda:3", "", 1),
        ("sat a.cnf --device python", "", None),
        ("sat a.cnf --device cuda:x", "", None),
        ("sat a.cnf --device", "", 0),
        ("sat a.cnf --mpi", "", None),
        ("sat --help", "", None),
        ("check a.cnf answer.txt", "", None),
        ("--version", "", None),
        ("", "", None),
    ],
)
def test_the_gpu_that_a_command_opens(line, variable, gpu):
    assert start.gpu_of(line.split(), {"MORPH_DEVICE": variable}) == gpu


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
