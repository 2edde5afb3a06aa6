"""The limit of CPU threads, and calls of functions in other threads of the host.

An interrupt may come within any function in Python.  In `concurrent.futures` it leaves a lock
acquired, or a wrong number of idle threads; within `threading.Thread.join` it marks a thread as
ended that still runs.  So these calls are waited for by plain locks only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

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


class Call:
    """A call of a function in another thread."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.function, self.args = function, args
        self.error: BaseException | None = None
        self.ended = False
        self._begun, self._running = Lock(), Lock()
        self._running.acquire()

    def run(self) -> None:
        """Call the function, unless it is cancelled."""
        if self._begun.acquire(blocking=False):
            try:
                self.function(*self.args)
            except BaseException as error:
                self.error = error
        self.ended = True
        self._running.release()

    def cancel(self) -> bool:
        """Prevent the call; false if it has begun."""
        if self._begun.acquire(blocking=False):
            self.ended = True  # the call may never have been queued, so no thread would set this
            return True
        return False

    def wait(self) -> None:
        """Wait for the end of the call."""
        while not self.ended:
            self._running.acquire()
            self._running.release()


_idle: list[SimpleQueue[Call]] = []  # of threads that wait for the next call


def start(calls: list[Call], function: Callable[..., Any], *args: Any) -> None:
    """Call a function in another thread; the list gets the call before that thread does."""
    calls.append(Call(function, *args))
    try:
        queue = _idle.pop()
    except IndexError:
        queue = SimpleQueue()
        Thread(target=_work, args=(queue,), name="morph", daemon=True).start()
    queue.put(calls[-1])


def _work(queue: SimpleQueue[Call]) -> None:
    while True:
        queue.get().run()
        _idle.append(queue)


def in_background(function: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    """Call a function in another thread; return a function that waits for its result or error."""
    calls: list[Call] = []
    found: list[Any] = []
    start(calls, lambda: found.append(function(*args)))

    def result() -> Any:
        calls[0].wait()
        if calls[0].error is not None:
            raise calls[0].error
        return found[0]

    return result


if hasattr(os, "register_at_fork"):  # a child process has none of the threads
    os.register_at_fork(after_in_child=_idle.clear)


def run_calls(
    functions: Sequence[Callable[[], object]],
    here: Callable[[], object],
    stop: Callable[[], object] | None = None,
    shared: bool = False,
) -> None:
    """Call functions in threads of their own, and ``here`` in this one; wait until all have ended.

    Parameters
    ----------
    functions : sequence of callable
    here : callable
    stop : callable, optional
        Called after an error or an interrupt in this thread: ends functions that have begun, as
        soon as they can.  Those that have not begun are not called any more.
    shared : bool, optional
        ``here`` does the work of functions that have not begun when it returns, so they need not.

    Raises
    ------
    BaseException
        When no function runs any more, also after several interrupts: the first error of this
        thread, else the error of the first function that failed.
    """
    calls: list[Call] = []
    errors: list[BaseException] = []
    try:
        for function in functions:
            start(calls, function)
        here()
    except BaseException as error:
        errors.append(error)
    finish(calls, errors, stop, shared)


def finish(
    calls: Sequence[Call],
    errors: list[BaseException],
    stop: Callable[[], object] | None = None,
    shared: bool = False,
) -> None:
    """Wait for calls like `run_calls`; ``errors`` are those of this thread so far."""
    stopped = False
    while True:
        try:
            if errors or shared:
                for call in calls:
                    call.cancel()
            if errors and stop and not stopped:
                try:
                    stop()
                except Exception as error:  # the functions end by themselves
                    errors.append(error)
                stopped = True
            for call in calls:
                call.wait()
            break
        except BaseException as error:  # of a signal handler
            errors.append(error)
    errors += [call.error for call in calls if call.error is not None]
    if errors:
        raise errors[0]


def in_threads(work: Callable[[int, int], object], parts: int, reads_all: bool = False) -> None:
    """Call ``work(first, end)`` for ranges of parts, in several threads if there are several parts.

    Parameters
    ----------
    work : callable
        Releases the GIL, as functions of ``ctypes`` do.
    parts : int
        Number of parts, which may be processed in any order.
    reads_all : bool, optional
        Each call of ``work`` reads all data, whatever its range: one call for each thread.

    Notes
    -----
    On Linux no thread is used for a core on which another process's thread is runnable.  ``work``
    is not executed any more when the call returns or raises, so it may use memory of the caller.
    An interrupt waits for one range of each thread.
    """
    n = max(min(get_num_threads(), parts), 1)
    n = min(n, _free_cores()) if n > 1 else n
    step = max(-(-parts // n) if reads_all else parts // (8 * n), 1)
    starts = iter(range(0, max(parts, 1), step))
    failed = False

    def stop() -> None:
        nonlocal failed
        failed = True

    def run() -> None:
        try:
            for first in starts:
                if failed:
                    return
                work(first, min(first + step, parts))
        except BaseException:
            stop()
            raise

    run_calls([run] * (n - 1), run, stop, shared=True)
