"""Error messages of bounded length: values and lines are shortened."""

from __future__ import annotations

import reprlib
from typing import Any

LONGEST = 200  # characters of a message
_VALUE = 60
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _VALUE
_WORD = 40  # minimum characters of a shortened word, to keep the name at the end of a path


def shown(value: Any, most: int = _VALUE) -> str:
    """Return the ``repr`` of a value on one line of at most ``most`` characters."""
    return shortened(" ".join(_REPR.repr(value).split()), most)


def shortened(text: str, most: int = LONGEST) -> str:
    """Cut a text to ``most`` characters: first the heads of its longest words, such as paths."""
    words = text.split(" ")
    for k in sorted(range(len(words)), key=lambda k: -len(words[k])):
        if len(text) <= most:
            return text
        kept = max(len(words[k]) - (len(text) - most), _WORD)
        if kept < len(words[k]):
            words[k] = "..." + words[k][3 - kept :]
        text = " ".join(words)
    if len(text) <= most:
        return text
    head = (most - 3) // 2
    return f"{text[:head]}...{text[head + 3 - most :]}"
