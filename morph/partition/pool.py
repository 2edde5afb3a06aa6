"""Host threads that launch on parts."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_pool = ThreadPoolExecutor(256, "morph-parts")


def submit(function: Callable[..., Any], *args: Any) -> Future[Any]:
    """Call a function in another thread."""
    return _pool.submit(function, *args)


def _forked() -> None:
    """Make a new pool in a child process, which has none of the threads."""
    global _pool
    _pool = ThreadPoolExecutor(256, "morph-parts")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
