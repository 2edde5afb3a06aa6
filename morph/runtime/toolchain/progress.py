"""A progress line on the terminal, rewritten in place, and that of slow compilations."""

from __future__ import annotations

import logging
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

    begun, ended, count = 0.0, float("-inf"), 0


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Show on the terminal that a compiler runs, once compilers have run for `DELAY` seconds."""
    now = time.monotonic()
    if now - _Compilers.ended > PAUSE:
        _Compilers.begun, _Compilers.count = now, 0
    _Compilers.count += 1
    done, shows = threading.Event(), on_terminal()
    text = f"compiling kernel {_Compilers.count}, {name.removeprefix('morph_')}"
    thread = threading.Thread(target=_show, args=(text, _Compilers.begun, done), daemon=True)
    if shows:
        thread.start()
    try:
        yield
    finally:
        _Compilers.ended = time.monotonic()
        done.set()
        if shows:
            thread.join()


def _show(text: str, begun: float, done: threading.Event) -> None:
    """Show a text and the seconds since ``begun`` until it is done."""
    line, wait = Line(), begun + DELAY - time.monotonic()
    if done.wait(max(wait, 0)):
        return
    while True:
        line.write(f"{text}: {time.monotonic() - begun:.1f} s")
        if done.wait(0.2):
            break
    line.clear()
