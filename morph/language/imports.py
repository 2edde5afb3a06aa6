"""Import of modules that a program needs later than ``import morph``."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType, ModuleType
from typing import Any, TypeVar

import lazy_loader

T = TypeVar("T")
SIGNALS = signal.SIGINT, signal.SIGTERM  # the handler of the first one is restored last


def attach(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Its names are imported when they are first used, from the modules that the stub of its ``file``
    names.
    """
    load, listed, names = lazy_loader.attach_stub(package, file)

    def imported(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = uninterrupted(load, name)
        setattr(sys.modules[package], name, found)
        return found

    return imported, listed, names


def import_uninterrupted(name: str) -> ModuleType:
    """Import a module; the handlers of `SIGNALS` run after the import."""
    return uninterrupted(importlib.import_module, name)


def uninterrupted(load: Callable[[str], T], name: str) -> T:
    """Call a function that imports; the handlers of `SIGNALS` run after the import.

    An exception raised in an import can leave a package without some of its names.  If Ctrl-C
    interrupts ``exec`` of a text, as in `dataclasses`, CPython also ends the process later with the
    status of SIGINT.
    """
    if threading.current_thread() is not threading.main_thread():
        return load(name)
    received: dict[int, FrameType | None] = {}
    previous: dict[int, Any] = {
        n: handler for n in SIGNALS if callable(handler := signal.getsignal(n))
    }

    def call(number: int) -> None:
        if number in received:
            previous[number](number, received[number])

    with ExitStack() as after:  # calls in reverse order, also if a handler raises an exception
        for number in previous:
            after.callback(call, number)
        for number, handler in previous.items():
            after.callback(signal.signal, number, handler)
        for number in previous:
            signal.signal(number, received.__setitem__)
        return load(name)
