"""The text of a file as it was when a function of the language was defined there.

A kernel is compiled when it is first launched.  By then its file may have been edited, and the
lines that the function says it stands on may be another's.
"""

from __future__ import annotations

import linecache
from types import FunctionType

_files: dict[str, list[str]] = {}


def remember(function: FunctionType) -> list[str]:
    """Give the lines of the function's file as they are now, and remember them."""
    file = function.__code__.co_filename
    linecache.checkcache(file)
    lines = _files[file] = linecache.getlines(file, function.__globals__)
    return lines


def around(function: FunctionType) -> list[str]:
    """Give the lines as they were at the latest definition in the file, else as they are now."""
    return _files.get(function.__code__.co_filename) or remember(function)


def text_at(file: str, line: int) -> str:
    """Give a line of a file as it was at the latest definition there; "" if there is none."""
    lines = _files.get(file) or linecache.getlines(file)
    return lines[line - 1] if 0 < line <= len(lines) else ""
