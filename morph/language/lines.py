"""The text of a file at the time when a function of the language was defined in it.

A kernel is compiled when it is first launched.  Its file may have been edited since, so that its
line numbers may refer to other text.
"""

from __future__ import annotations

import linecache
from types import FunctionType

_files: dict[str, list[str]] = {}


def remember(function: FunctionType) -> list[str]:
    """Return the current lines of the function's file, and store them."""
    file = function.__code__.co_filename
    linecache.checkcache(file)
    lines = _files[file] = linecache.getlines(file, function.__globals__)
    return lines


def around(function: FunctionType) -> list[str]:
    """Return the lines at the latest definition in the file, else the current lines."""
    return _files.get(function.__code__.co_filename) or remember(function)


def text_at(file: str, line: int) -> str:
    """Return a line of a file at the latest definition in it; "" if there is none."""
    lines = _files.get(file) or linecache.getlines(file)
    return lines[line - 1] if 0 < line <= len(lines) else ""
