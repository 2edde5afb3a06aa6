"""macOS and Windows, simulated: paths, commands, directories, missing functions of Python."""

import os
import subprocess
import sys

import pytest

from morph.io.graph import snapshot
from morph.io.text import files
from morph.runtime.cuda import driver
from morph.runtime.toolchain import cache, cpu, runner, tiers


@pytest.fixture
def windows(monkeypatch):
    """Set ``os.name`` within a test only: `pathlib` reads it, too."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        yield patch


def test_folders_of_caches(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        assert cache._platform() == "~/Library/Caches/morph"
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        patch.setattr(sys, "platform", "win32")
        patch.setenv("LOCALAPPDATA", r"C:\Users\me\AppData\Local")
        named = cache._platform()
        patch.delenv("LOCALAPPDATA")
        unnamed = cache._platform()
    assert named.startswith(r"C:\Users\me\AppData\Local") and named.endswith("cache")
    assert unnamed == os.path.join("~/AppData/Local", "morph", "cache")
    assert cache._platform() == os.path.join("~/.cache", "morph")


def test_commands_of_compilers(windows):
    windows.setenv("MORPH_CXX", r'"C:\Program Files\LLVM\bin\clang++.exe" -O2')
    windows.setenv("CXX", r"C:\mingw64\bin\g++.exe")
    found = dict(cpu._candidates())
    assert found["MORPH_CXX"] == (r"C:\Program Files\LLVM\bin\clang++.exe", "-O2")
    assert found["CXX"] == (r"C:\mingw64\bin\g++.exe",)
    windows.setattr(os, "name", "posix")
    windows.setenv("CXX", "'/opt/my tools/g++' -O2")
    assert dict(cpu._candidates())["CXX"] == ("/opt/my tools/g++", "-O2")


def test_folders_are_synchronised_where_they_can_be_opened(tmp_path, monkeypatch):
    opened = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda *a: opened.append(a[0]) or real(*a))
    snapshot.sync_folder(tmp_path / "graph.morph")
    assert opened == [tmp_path]
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        snapshot.sync_folder(str(tmp_path / "graph.morph"))
        with files.ExitStack() as stack:
            files._lock_folder(tmp_path, stack)
    assert opened == [tmp_path]


def test_only_posix_compiles_in_the_background(monkeypatch):
    monkeypatch.delenv(tiers.VARIABLE, raising=False)
    assert tiers.mode() == "auto"
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        assert tiers.mode() == "full"
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        assert runner._die_with_parent() is None  # there is no prctl


@pytest.mark.parametrize(
    ("platform", "library"), [("win32", "nvcuda.dll"), ("linux", "libcuda.so.1")]
)
def test_the_driver_of_a_platform(platform, library, monkeypatch):
    def absent(name):
        raise OSError(f"{name} is missing")

    monkeypatch.setattr(driver.ctypes, "CDLL", absent)
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(OSError, match=rf"no NVIDIA driver is installed \({library} is missing\)"):
        driver.load()


# names that Python lacks on Windows; modules of the standard library are imported before
WITHOUT_POSIX = """
import asyncio, ctypes, importlib, multiprocessing, os, pkgutil, platform, select, shutil, signal
import socket, subprocess, sys, tempfile, uuid, numpy, click.testing
platform.uname()
for name in "fcntl grp pty pwd resource syslog termios tty".split():
    sys.modules[name] = None
for owner, names in {
    os: "fork forkpty fchmod fchown geteuid getgid getloadavg getpgid getpgrp getpriority getuid "
    "killpg mkfifo mknod nice posix_fadvise posix_fallocate posix_spawn pread pwrite pwritev "
    "register_at_fork sched_getaffinity sched_setaffinity sendfile setpgid setpriority setsid "
    "statvfs fstatvfs sysconf uname wait wait3 wait4 waitid WNOHANG O_CLOEXEC O_DIRECTORY "
    "O_NOFOLLOW O_NONBLOCK O_SYNC ST_NOEXEC",
    signal: "alarm getitimer pause pthread_kill pthread_sigmask setitimer siginterrupt sigpending "
    "sigwait SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 "
    "SIGUSR2 SIGWINCH",
    select: "epoll poll",
}.items():
    for name in names.split():
        if hasattr(owner, name):
            delattr(owner, name)

import morph
for module in pkgutil.walk_packages(morph.__path__, "morph."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
morph.set_device("python")
g = morph.generate.grid(3, 3)
assert morph.bfs(g, 0).distance.max() == 4
morph.triangulate([[0, 0], [1, 0], [1, 1], [0, 1]]).write("square")
assert len(morph.Mesh.read("square").triangles) == 2
with morph.io.Journal("town.morph", g) as journal:
    journal.apply(inserts=([0], [5]))
with morph.io.Journal("town.morph") as journal:
    assert len(journal.graph.edges) == len(g.edges) == 26
from morph.cli import main
for line in "generate grid 4 4 --weight 1 9 -o g.gr", "bfs g.gr --device python -o d.npz", "info":
    found = click.testing.CliRunner().invoke(main, line.split())
    assert found.exit_code == 0, found.output
print("done")
"""


def test_nothing_of_posix_is_needed(tmp_path):
    script = tmp_path / "script.py"  # kernels need a file to be read from
    script.write_text(WITHOUT_POSIX)
    command = [sys.executable, str(script)]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert found.stdout.endswith("done\n"), found.stdout + found.stderr
