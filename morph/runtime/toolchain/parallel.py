"""Compilations on background threads, at most one for each core."""

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
    """Call a function on a background thread; its exceptions are dropped."""
    with _lock:
        _jobs.append(job)
        if len(_threads) < cores():
            thread = threading.Thread(target=_run_jobs, daemon=True)
            # without a thread, units are compiled when they are launched
            with suppress(RuntimeError):
                thread.start()
                _threads.append(thread)


def cores() -> int:
    """Return how many cores this process may use."""
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1


def _run_jobs() -> None:
    while True:
        with _lock:
            if not _jobs:
                with suppress(ValueError):
                    _threads.remove(threading.current_thread())
                return
            job = _jobs.popleft()
        with suppress(Exception):
            job()


def _shut_down() -> None:
    """End the compilers and the background threads."""
    with _lock:
        _jobs.clear()
        threads = list(_threads)
    if threads:
        processes.end_started_by(threads)
    for thread in threads:
        thread.join(1.0)


def _forget() -> None:
    """Reset the state in a child process, which has none of the threads."""
    global _lock
    _lock = threading.Lock()
    _jobs.clear()
    _threads.clear()


atexit.register(_shut_down)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
