"""Import of modules that a program needs later than ``import morph``."""

from __future__ import annotations

import importlib
import signal
import threading
from types import FrameType, ModuleType

SIGNALS = signal.SIGINT, signal.SIGTERM


def import_uninterrupted(name: str) -> ModuleType:
    """Import a module; the handlers of `SIGNALS` run after the import.

    An exception raised in an import can leave a package without some of its names.  If Ctrl-C
    interrupts ``exec`` of a text, as in `dataclasses`, CPython also ends the process later with the
    status of SIGINT.
    """
    if threading.current_thread() is not threading.main_thread():
        return importlib.import_module(name)
    received: list[int] = []

    def receive(number: int, frame: FrameType | None) -> None:
        received.append(number)

    previous = {n: handler for n in SIGNALS if callable(handler := signal.getsignal(n))}
    try:
        for to_defer in previous:
            signal.signal(to_defer, receive)
        return importlib.import_module(name)
    finally:
        for deferred, handler in previous.items():
            signal.signal(deferred, handler)
        for number in received:
            signal.raise_signal(number)
