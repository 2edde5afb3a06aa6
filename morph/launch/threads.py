"""The limit of CPU threads."""

from __future__ import annotations

import os

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
