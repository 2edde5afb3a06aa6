"""Compilers as processes: an interrupt or a deadline ends them, and some run at low priority."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from morph.runtime.toolchain import OutOfTime, cache

RUNNER = Path(__file__).with_name("runner.py")
LOWEST = 19  # priority of compilers in the background
GRACE = 0.1  # seconds in which compilers remove their temporary files before they are killed

_started: dict[int, tuple[threading.Thread, subprocess.Popen[str]]] = {}  # by process id
_stopped: set[threading.Thread] = set()  # threads that start no more commands
_watched: set[int] = set()  # write ends of pipes; a compiler ends when its pipe is closed


def run(
    command: Sequence[str], text: str = "", seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command with a text as its input; end it with its children if anything is raised.

    Raises
    ------
    OutOfTime
        If it takes longer than ``seconds``.
    OSError
        If it cannot be started.
    """
    return _run(command, text, seconds)


def run_in_background(
    command: Sequence[str], text: str, out: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command at the lowest priority, which writes ``out``.

    The command is killed, and ``out`` removed, when this process ends, even if it is killed, or
    calls `end_background`.
    """
    read, write = os.pipe()
    _watched.add(write)
    try:
        return _run(runner(*command, out=out, nice=LOWEST, watched=read), text, None, (read,))
    finally:
        os.close(read)
        _close(write)


def end_background() -> None:
    """End the compilers in the background."""
    for pipe in list(_watched):
        _close(pipe)


def end_started_by(threads: Sequence[threading.Thread]) -> None:
    """End the commands that these threads wait for, and let them start no others."""
    _stopped.update(threads)
    _end(*(process for thread, process in list(_started.values()) if thread in threads))


def _close(pipe: int) -> None:
    with contextlib.suppress(KeyError):  # another thread has closed it
        _watched.remove(pipe)
        os.close(pipe)


def runner(*command: str, out: Path, nice: int = 0, watched: int = -1) -> list[str]:
    """Return the command that runs another one by ``runner.py``."""
    script = [sys.executable, "-I", "-S", str(RUNNER)]
    return [*script, str(nice), str(watched), str(out), *command]


def _zig_folder() -> dict[str, str]:
    """Give zig a folder for its own cache where there is no home directory."""
    return {} if "HOME" in os.environ else {"ZIG_GLOBAL_CACHE_DIR": str(cache.path() / "zig")}


def _run(
    command: Sequence[str], text: str, seconds: float | None, handles: Sequence[int] = ()
) -> subprocess.CompletedProcess[str]:
    posix, thread = os.name == "posix", threading.current_thread()
    if thread in _stopped:
        raise OutOfTime(f"{shlex.join(command[:1])} is not started: the process ends")
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        env=_zig_folder() | os.environ | {"LC_ALL": "C"},  # messages for `CompileError`
        pass_fds=handles,
        # a group that can be killed, but no session: on Linux these share the cores evenly,
        # whatever the priorities of their processes
        process_group=0 if posix else None,
    ) as process:
        _started[process.pid] = thread, process
        if thread in _stopped:
            _end(process)
        process._sigint_wait_secs = 0.0  # type: ignore[attr-defined]  # it gets no Ctrl-C to await
        try:
            out, log = process.communicate(text, seconds)
        except BaseException as error:
            _end(process)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                text = f"{shlex.join(command[:1])} was still compiling"
                raise OutOfTime(text) from error
            raise
        finally:
            del _started[process.pid]
    return subprocess.CompletedProcess(command, process.returncode, out, log)


def _end(*ended: subprocess.Popen[str]) -> None:
    """Terminate processes and their children, and kill those that do not end in `GRACE`."""
    if os.name != "posix":
        for process in ended:
            process.kill()
        return
    for process in ended:
        _signal_group(process, signal.SIGTERM)
    end = time.monotonic() + GRACE
    for process in ended:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(end - time.monotonic(), 0))
        _signal_group(process, signal.SIGKILL)


def _signal_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _forked() -> None:
    """In a child process: close its copies, so that compilers notice the end of the parent."""
    end_background()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
