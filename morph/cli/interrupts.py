"""Ctrl-C that arrives while CPython can raise no exception."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PAUSE = 0.001  # seconds; by then the callback has returned


@contextmanager
def repeated_if_dropped() -> Iterator[None]:
    """Send SIGINT again if the exception of its handler is dropped within the block.

    CPython drops the exceptions of finalizers and of callbacks of weak references, also of those of
    other libraries.
    """
    before, main, senders = sys.unraisablehook, threading.main_thread(), list[threading.Thread]()

    def hook(dropped: Any) -> None:
        interrupt = issubclass(dropped.exc_type, KeyboardInterrupt)
        if not interrupt or threading.current_thread() is not main:
            before(dropped)
            return
        senders.append(threading.Thread(target=_interrupt, args=(main.ident,), daemon=True))
        senders[-1].start()

    sys.unraisablehook = hook
    try:
        yield
        while senders:  # the block ends with the exception, though late
            senders.pop().join()
    finally:
        sys.unraisablehook = before


def _interrupt(thread: int) -> None:
    """Send SIGINT to the main thread: its handler runs, and system calls end."""
    time.sleep(PAUSE)
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(thread, signal.SIGINT)
    else:  # Windows
        _thread.interrupt_main()
