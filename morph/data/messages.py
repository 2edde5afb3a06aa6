"""Error messages that stay short whatever the input: values and whole lines are shortened."""

from __future__ import annotations

import reprlib
from typing import Any

LONGEST = 200  # characters of a message
_VALUE = 60


def shown(value: Any, most: int = _VALUE) -> str:
    """Return the ``repr`` of a value on one line of at most ``most`` characters."""
    return shortened(" ".join(reprlib.repr(value).split()), most)


def shortened(text: str, most: int = LONGEST) -> str:
    """Replace the middle of a text that is longer than ``most`` characters by three dots."""
    if len(text) <= most:
        return text
    head = (most - 3) // 2
    return f"{text[:head]}...{text[head + 3 - most :]}"
