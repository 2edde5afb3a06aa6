"""The limit of CPU threads, and threads of the host that call compiled functions."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np

MOST_THREADS = 256  # as in kernels/target_cpu.h
_limit = 0  # 0: not set


def get_num_threads() -> int:
    """Return the maximum number of threads of a launch on the CPU.

    Returns
    -------
    int
        The argument of the latest `set_num_threads`; else the environment variable
        ``OMP_NUM_THREADS``; else the number of cores that this process may run on.
    """
    global _limit
    n = _limit  # read once, as another host thread may set it
    if not n:
        given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
        n = int(given) if given.isdigit() and int(given) > 0 else _cores()
        n = _limit = min(n, MOST_THREADS)
    return n


def set_num_threads(n: int | None) -> None:
    """Set the maximum number of threads of later launches on the CPU.

    Parameters
    ----------
    n : int or None
        1 to 256; None for the default, see `get_num_threads`.

    Raises
    ------
    TypeError
        If ``n`` is neither.
    ValueError
        If it is out of range.

    Notes
    -----
    A launch uses fewer threads where it has little to do, and while other processes use the cores.
    """
    global _limit
    if n is None:
        _limit = 0
        return
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise TypeError(f"set_num_threads(n): n is a whole number or None, not {n!r:.50}")
    if not 1 <= n <= MOST_THREADS:
        raise ValueError(f"set_num_threads(n): n is 1 to {MOST_THREADS}, not {n}")
    _limit = int(n)


def _cores() -> int:
    """The cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _free_cores() -> int:
    """Return the number of cores without a runnable thread of another process, at least 1.

    `MOST_THREADS` if unknown.
    """
    try:
        with open("/proc/loadavg", "rb", buffering=0) as file:  # like "0.20 0.18 0.12 3/301 4711"
            runnable = int(file.read(64).split()[3].partition(b"/")[0])
    except (OSError, ValueError, IndexError):
        return MOST_THREADS
    return max((os.cpu_count() or 1) - max(runnable - 1, 0), 1)


def in_threads(work: Callable[[int, int], object], parts: int) -> None:
    """Call ``work(first, end)`` for ranges of parts, in several threads if there are several parts.

    Parameters
    ----------
    work : callable
        Releases the GIL, as functions of ``ctypes`` do.
    parts : int
        Number of parts, which may be processed in any order.

    Notes
    -----
    On Linux no thread is used for a core on which another process's thread is runnable.  ``work``
    is not executed any more when the call returns or raises, so it may use memory of the caller.
    """
    n = min(get_num_threads(), parts)
    n = min(n, _free_cores()) if n > 1 else n
    if n <= 1:
        work(0, parts)
        return
    step = max(parts // (8 * n), 1)
    starts = iter(range(0, parts, step))
    errors: list[BaseException] = []

    def run() -> None:
        try:
            for first in starts:
                if errors:
                    return
                work(first, min(first + step, parts))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(n - 1)]
    try:
        for thread in threads:
            thread.start()
    except BaseException as error:  # a thread that begins later than this calls nothing
        errors.append(error)
    run()
    for thread in threads:
        while thread.is_alive():  # not if it was not started
            try:
                thread.join()
            except KeyboardInterrupt as error:  # raised when no thread uses the memory any more
                errors.append(error)
    if errors:
        raise errors[0]
