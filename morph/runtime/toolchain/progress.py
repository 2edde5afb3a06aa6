"""A progress line on the terminal, rewritten in place, and that of slow compilations."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

DELAY = 0.5  # seconds that compilers run before a line is shown
PAUSE = 1.0  # seconds without a compiler, after which they are counted from 1 again


class Line:
    """One line on the terminal, rewritten a few times a second."""

    width: ClassVar[int] = 0  # of the text that is shown: all lines are written over each other

    def __init__(self) -> None:
        self.shown = 0.0

    def write_throttled(self, text: str) -> None:
        """Show a text, unless the last one was shown less than 0.1 s ago."""
        now = time.monotonic()
        if now - self.shown > 0.1:
            self.shown = now
            self.write(text)

    def write(self, text: str) -> None:
        """Show a text in place of the last one."""
        _put("\r" + text.ljust(Line.width))
        Line.width = len(text)

    def clear(self) -> None:
        """Erase the line."""
        if Line.width:
            _put("\r" + " " * Line.width + "\r")
            Line.width = 0


def _put(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def on_terminal() -> bool:
    """Whether standard error is a terminal, and this process is the one that writes there.

    If compilations are logged, no line is shown.
    """
    if logging.getLogger("morph.compile").isEnabledFor(logging.INFO):
        return False
    if sys.stderr is None or not sys.stderr.isatty():
        return False
    process = sys.modules.get("multiprocessing.process")
    return process is None or process.parent_process() is None


class _Compilers:
    """The present series of compilations, each begun at most `PAUSE` after the one before."""

    lock = threading.Lock()
    begun, ended = 0.0, float("-inf")
    names: ClassVar[dict[str, None]] = {}  # of the units whose compilation has begun
    running: ClassVar[list[str]] = []
    expected = 0  # how many there will be, if that is known
    awaited = 0  # of the expected ones: neither compiled nor found in the cache
    thread: ClassVar[threading.Thread | None] = None  # that shows the line
    done: ClassVar[threading.Event] = threading.Event()


def expect(number: int) -> None:
    """Say how many units a series will compile, which begins now."""
    with _Compilers.lock:
        _Compilers.begun = _Compilers.ended = time.monotonic()
        _Compilers.names.clear()
        _Compilers.expected = _Compilers.awaited = number


def found() -> None:
    """Say that one of the expected units was compiled, or needs no compiler."""
    with _Compilers.lock:
        _Compilers.awaited = max(_Compilers.awaited - 1, 0)
        _Compilers.ended = max(_Compilers.ended, time.monotonic())


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Show on the terminal that a compiler runs, once compilers have run for `DELAY` seconds."""
    _begin(name)
    try:
        yield
    finally:
        with _Compilers.lock:
            _Compilers.ended = time.monotonic()
            if name in _Compilers.running:  # not in a child forked since
                _Compilers.running.remove(name)
            thread = None if _Compilers.running else _Compilers.thread
            if thread is not None:
                _Compilers.thread = None
                _Compilers.done.set()
        if thread is not None:
            thread.join()


def _begin(name: str) -> None:
    with _Compilers.lock:
        now = time.monotonic()
        idle = not _Compilers.running and _Compilers.awaited == 0
        if idle and now - _Compilers.ended > PAUSE:
            _Compilers.begun, _Compilers.expected = now, 0
            _Compilers.names.clear()
        _Compilers.names[name] = None
        _Compilers.running.append(name)
        if _Compilers.thread is None and on_terminal():
            _Compilers.done = done = threading.Event()
            _Compilers.thread = threading.Thread(target=_show, args=(done,), daemon=True)
            _Compilers.thread.start()


def _forked() -> None:
    """Reset the state in a forked child, which has none of the threads that compile or show."""
    _Compilers.lock, _Compilers.thread, _Compilers.done = threading.Lock(), None, threading.Event()
    _Compilers.names.clear()
    _Compilers.running.clear()
    _Compilers.awaited = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _text() -> str | None:
    """Describe the compilation that was begun last; None if all have ended."""
    with _Compilers.lock:
        if not _Compilers.running:
            return None
        count, name = len(_Compilers.names), _Compilers.running[-1].removeprefix("morph_")
        of = f" of {max(_Compilers.expected, count)}" if _Compilers.expected else ""
        passed = time.monotonic() - _Compilers.begun
        return f"compiling kernel {count}{of}, {name}: {passed:.1f} s"


def _show(done: threading.Event) -> None:
    """Show the units that are compiled until none is."""
    line, wait = Line(), _Compilers.begun + DELAY - time.monotonic()
    if done.wait(max(wait, 0)):
        return
    while (text := _text()) is not None:
        line.write(text)
        if done.wait(0.2):
            break
    line.clear()
