"""Ctrl-C at a time when CPython drops the exception."""

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
    """Send SIGINT again if CPython drops a `KeyboardInterrupt` of the main thread in the block.

    CPython drops exceptions in finalizers and in callbacks of weak references, among them those of
    other libraries, and passes them to `sys.unraisablehook`.
    """
    previous, main = sys.unraisablehook, threading.main_thread().ident
    to_send = list[bool]()  # not empty while a signal must still be sent

    def hook(dropped: Any) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt) or threading.get_ident() != main:
            previous(dropped)
            return
        # not `threading.Thread`: its `start` waits within the hook, where the signal would be lost
        _thread.start_new_thread(_send_again, (main, hook.__code__, to_send))
        to_send.append(True)

    sys.unraisablehook = hook
    try:
        yield
        while to_send:  # the exception must be raised before the block ends
            time.sleep(PAUSE)
    finally:
        sys.unraisablehook = previous


def _send_again(thread: int, hook: CodeType, to_send: list[bool]) -> None:
    """Send SIGINT to the main thread after it has left the hook, where it would be dropped."""
    time.sleep(PAUSE)
    while _is_executing(thread, hook):
        time.sleep(PAUSE)
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(thread, signal.SIGINT)  # also interrupts a blocking system call
    else:  # Windows
        _thread.interrupt_main()
    to_send.clear()


def _is_executing(thread: int, code: CodeType) -> bool:
    """Whether the code object of a function is on the stack of a thread."""
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
