"""Full optimisation of kernels for a GPU after the process that used them has ended.

Kernels are first compiled without inlining, to quick cubins, and commands are often shorter than
the full compilation.  When such a process ends, it starts another one, of the lowest priority and
in a session of its own, which compiles the remaining units in full, one after the other, and ends.
There is at most one for each cache.  POSIX only (``os.nice``, ``start_new_session``): on Windows
`start` does nothing, and the next process that uses the kernels compiles them in the background.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from morph.runtime.toolchain import cache

VARIABLE = "MORPH_AFTER_EXIT"
MOST_SECONDS = 600.0  # after which no other unit is begun
LOCK = "later"

# the arguments of `cuda.compile_later`
Unit = tuple[str, str, str, Sequence[str]]

_CODE = """import json, sys
given = json.load(sys.stdin)
sys.path[:] = given["path"]
from morph.runtime.toolchain import cuda, later
later.compile_all(given["units"], cuda.compile_later)"""


def start(units: Iterable[Unit]) -> None:
    """Start a process that compiles units in full, and do not wait for it.

    None is started if ``MORPH_AFTER_EXIT`` is 0, after Ctrl-C, on Windows, or if the cache is a
    temporary one of this process.
    """
    left = list(units)
    interrupted = getattr(sys, "last_type", None) is KeyboardInterrupt
    if not left or interrupted or os.environ.get(VARIABLE) == "0" or os.name != "posix":
        return
    folder = cache.path()
    if not folder.is_dir():  # a cache of this process, which is removed
        return
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "MORPH_CACHE": str(folder)},
        start_new_session=True,
        text=True,
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
        json.dump({"path": sys.path, "units": left}, pipe)
    process.returncode = 0  # no warning that it still runs


def compile_all(units: Iterable[Unit], make: Callable[..., Any]) -> None:
    """Compile units by ``make``, unless another process compiles units of this cache.

    Called in the new process, which gets the lowest priority.  No unit is begun after
    `MOST_SECONDS`, and errors are ignored.
    """
    os.nice(19)
    end = time.monotonic() + MOST_SECONDS
    with open(cache.path() / f"{cache.BACKGROUND}{LOCK}", "ab") as file:
        if not cache.lock_file(file.fileno(), wait=False):
            return
        for unit in units:
            if time.monotonic() < end:
                with contextlib.suppress(Exception):  # the next process has it compiled
                    make(*unit)
