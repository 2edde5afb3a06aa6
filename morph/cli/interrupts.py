"""Ctrl-C that arrives while CPython can raise no exception."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

PAUSE = 0.001  # seconds


@contextmanager
def repeated_if_dropped() -> Iterator[None]:
    """Send SIGINT again if the exception of its handler is dropped within the block.

    CPython drops the exceptions of finalizers and of callbacks of weak references, also of those of
    other libraries.
    """
    before, main, waiting = sys.unraisablehook, threading.main_thread().ident, list[bool]()

    def hook(dropped: Any) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt) or threading.get_ident() != main:
            before(dropped)
            return
        # no `threading.Thread`: its `start` waits for the thread, whose signal may be faster
        _thread.start_new_thread(_interrupt, (main, hook.__code__, waiting))
        waiting.append(True)

    sys.unraisablehook = hook
    try:
        yield
        while waiting:  # the block ends with the exception, though late
            time.sleep(PAUSE)
    finally:
        sys.unraisablehook = before


def _interrupt(thread: int, hook: CodeType, waiting: list[bool]) -> None:
    """Send SIGINT to the main thread, when it has left the hook, which drops exceptions, too."""
    time.sleep(PAUSE)
    while _executes(thread, hook):
        time.sleep(PAUSE)
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(thread, signal.SIGINT)  # ends system calls, too
    else:  # Windows
        _thread.interrupt_main()
    waiting.clear()


def _executes(thread: int, code: CodeType) -> bool:
    """Whether a function is under way in a thread."""
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
