"""Deep programs: the recursion limit while one is compiled or interpreted."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

FRAMES = 50_000  # of Python functions: a chain of calls takes some 25 for each

_lock = threading.Lock()
_inside = 0  # how many threads are in `deep`
_before = 0  # the limit outside


@contextlib.contextmanager
def deep() -> Iterator[None]:
    """Raise the recursion limit meanwhile; frames of Python functions take no stack of C."""
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
