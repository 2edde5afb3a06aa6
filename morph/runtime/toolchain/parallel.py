"""Compilers that run beside the calling thread, as many as there are cores."""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from morph.runtime.toolchain import processes

_jobs: deque[Callable[[], object]] = deque()
_threads: list[threading.Thread] = []
_lock = threading.Lock()


def start(job: Callable[[], object]) -> None:
    """Have a thread call a function; its errors are dropped."""
    with _lock:
        _jobs.append(job)
        if len(_threads) < cores():
            thread = threading.Thread(target=_work, daemon=True)
            with suppress(RuntimeError):  # no more threads: what is not compiled is, when needed
                thread.start()
                _threads.append(thread)


def cores() -> int:
    """Return how many cores this process may use."""
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1


def _work() -> None:
    while True:
        with _lock:
            if not _jobs:
                with suppress(ValueError):
                    _threads.remove(threading.current_thread())
                return
            job = _jobs.popleft()
        with suppress(Exception):
            job()


def _end() -> None:
    """End the compilers, and the threads that wait for them."""
    with _lock:
        _jobs.clear()
        threads = list(_threads)
    if threads:
        processes.end_started_by(threads)
    for thread in threads:
        thread.join(1.0)


def _forked() -> None:
    """In a child process: it has none of the threads."""
    global _lock
    _lock = threading.Lock()
    _jobs.clear()
    _threads.clear()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
