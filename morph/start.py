"""Preparations of the ``morph`` command, which `morph` makes before it imports NumPy.

Until the command begins, Ctrl-C ends the process: an import would show its traceback.  The driver
needs 0.3 s to start a GPU; a thread waits for it while the main thread imports packages.
NumPy's OpenBLAS would start a thread per core, which no command uses.  The garbage collector would
traverse the imported objects again and again, a tenth of the time of the imports.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from morph.runtime.cuda import driver

GARBAGE = 1 << 18  # new objects from which on the collector runs: imports make 100,000
ON_HOST = "cache", "check", "convert", "generate", "schema"  # commands that use no GPU


def arguments_of(argv: Sequence[str], original: Sequence[str]) -> list[str] | None:
    """Return the arguments of the ``morph`` command; None if this process runs another program.

    Parameters
    ----------
    argv, original : sequence of str
        As `sys.argv` and `sys.orig_argv`.
    """
    program = os.path.basename(argv[0]) if argv else ""
    by_module = program == "-m" and original[-len(argv)] == "morph"
    return list(argv[1:]) if by_module or program in ("morph", "morph.exe") else None


def gpu_of(arguments: Sequence[str], environment: Mapping[str, str]) -> int | None:
    """Return the index of the first GPU that a command opens; None if it probably opens none."""
    words = [word for word in arguments if word not in ("-v", "--verbose")]
    if not words or words[0].startswith("-") or words[0] in ON_HOST:
        return None
    if {"-h", "--help", "--mpi"}.intersection(words):  # a rank selects one of several GPUs
        return None
    given = [after for word, after in zip(words, words[1:], strict=False) if word == "--device"]
    given += [word.partition("=")[2] for word in words if word.startswith("--device=")]
    names = given or [environment.get("MORPH_DEVICE") or "auto"]
    kind, _, number = names[-1].partition(",")[0].partition(":")
    if kind not in ("auto", "cuda") or not (number or "0").isdecimal():
        return None
    return int(number or 0)


def _end(*_: Any) -> None:
    """End the process, as the command does when it is interrupted."""
    os.write(2, b"morph: interrupted\n")
    os._exit(130)


def begin() -> None:
    """Let Ctrl-C raise a `KeyboardInterrupt` again: the command begins, and handles it."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def prepare() -> None:
    """Make the preparations if this process runs the ``morph`` command."""
    arguments = arguments_of(getattr(sys, "argv", ()), sys.orig_argv)
    if arguments is None:
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, _end)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(GARBAGE)
    gpu = gpu_of(arguments, os.environ)
    if gpu is not None:
        with suppress(OSError):  # no driver
            driver.start(gpu)


prepare()
