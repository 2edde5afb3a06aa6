"""Runs a compiler in a process of its own; a script that imports the standard library only.

``runner.py NICE FD OUT COMMAND...``: lower the priority by NICE, run the command, whose standard
input is this script's, and exit with its status.  ``nvrtc LIBRARY NAME FLAGS...`` stands for a
command: NVRTC writes its cubin or PTX to OUT.  FD is the reading end of a pipe, or -1.  When its
writing end is closed, as happens when the process that started this one ends, the command is killed
and OUT removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

GRACE = 0.1  # seconds in which a compiler removes its temporary files before it is killed
UNUSABLE = 99  # exit status: NVRTC cannot be loaded
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def main(nice: str, watched: str, out: str, *command: str) -> int:
    """Run the command, see the top of the file."""
    os.nice(int(nice))
    if command[0] == "nvrtc":
        _watch(int(watched), out, lambda: None)
        return nvrtc(Path(out), *command[1:])
    limit = _die_with_parent() if int(watched) >= 0 else None
    process = subprocess.Popen(command, process_group=0, preexec_fn=limit)  # noqa: PLW1509
    killed = threading.Event()

    def kill() -> None:
        killed.set()
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(GRACE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    _watch(int(watched), out, kill)
    status = process.wait()
    while killed.is_set():  # the other thread removes the file and ends this process
        time.sleep(1)
    return status


def _die_with_parent() -> Callable[[], object] | None:
    """Return a function by which a new process asks to be killed with this one; on Linux."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_DIES_WITH_PARENT, signal.SIGKILL)


def _watch(watched: int, out: str, kill: Callable[[], None]) -> None:
    """End this process when the other end of a pipe is closed."""

    def wait() -> None:
        while os.read(watched, 1):
            pass
        kill()
        with contextlib.suppress(OSError):
            os.unlink(out)
        os._exit(1)

    if watched >= 0:
        threading.Thread(target=wait, daemon=True).start()


def to_ptx(flags: Sequence[str]) -> bool:
    """Whether flags of NVRTC name a virtual architecture, of which there are no cubins."""
    return any(flag.startswith("--gpu-architecture=compute_") for flag in flags)


def nvrtc(out: Path, library: str, name: str, *flags: str) -> int:
    """Compile standard input with NVRTC; its log is written to standard error."""
    try:
        api = ctypes.CDLL(library)
    except OSError as error:
        print(error, file=sys.stderr)
        return UNUSABLE
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    text = sys.stdin.buffer.read()
    api.nvrtcCreateProgram(ctypes.byref(program), text, name.encode(), 0, None, None)
    given = (ctypes.c_char_p * len(flags))(*map(str.encode, flags))
    failed = api.nvrtcCompileProgram(program, len(flags), given)
    kind = "ProgramLog" if failed else "PTX" if to_ptx(flags) else "CUBIN"
    getattr(api, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
    result = ctypes.create_string_buffer(size.value)
    getattr(api, f"nvrtcGet{kind}")(program, result)
    if failed:
        sys.stderr.buffer.write(result.value or b"NVRTC error %d" % failed)
        return 1
    out.write_bytes(result.raw)
    return 0


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(status & 255)  # without the library's finalization, which may crash
