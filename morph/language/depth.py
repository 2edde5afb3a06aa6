"""The recursion limit during the compilation or interpretation of deeply nested programs."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

FRAMES = 50_000  # a call in a chain of calls takes about 25 frames

_lock = threading.Lock()
_inside = 0  # number of threads in `deep`
_before = 0  # the limit outside of `deep`


@contextlib.contextmanager
def deep() -> Iterator[None]:
    """Raise the recursion limit in the block; frames of Python functions use no C stack."""
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(_before + FRAMES)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                sys.setrecursionlimit(_before)


def _forked() -> None:
    """Replace the lock in a forked child; its thread may be in `deep`, so the limit stays."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
