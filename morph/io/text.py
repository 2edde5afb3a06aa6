"""Numbers out of text: whole blocks at a time when all is well, line by line to name what is not.

A block of lines is parsed by one NumPy call.  That call is lax (it would read ``1-2`` as two
numbers), so the count of numbers is held against the count of words, and the words of each line
against the fields it must have.  Only when something disagrees is the block read again slowly,
to say in which line and why.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 23  # bytes parsed at once: the masks over them stay in cache
_INTEGER = re.compile(rb"[+-]?[0-9]+\Z")
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)\Z", re.IGNORECASE)
_JUNK = re.compile(rb"[^\t-\r -~]")

StrPath = str | PathLike[str]


class FormatError(ValueError):
    """A file that breaks its format.

    Attributes
    ----------
    path : str
        The file.
    line : int or None
        The line, counted from 1; None when the fault is the file's as a whole.
    message : str
        What is wrong there.
    """

    def __init__(self, path: StrPath, line: int | None, message: str) -> None:
        super().__init__(str(path), line, message)
        self.path = str(path)
        self.line = line
        self.message = message

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.message}"


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a block: its name in messages, and whether it holds integers."""

    name: str
    integer: bool = True


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines of numbers, and where they stood."""

    scanner: Scanner
    start: int
    values: NDArray[Any]

    def fail(self, row: int, message: str) -> NoReturn:
        """Raise `FormatError` at the line that holds ``values[row]``."""
        self.scanner.fail(message, self.scanner.line_of_row(self.start, int(row)))


class Scanner:
    """A reader of whitespace-separated numbers over the bytes of one file.

    Parameters
    ----------
    path : path-like
        Named in errors.
    data : bytes
        The file, decompressed.
    comment : bytes
        Characters that begin a comment, which reaches to the end of its line.
    """

    def __init__(self, path: StrPath, data: bytes, comment: bytes = b"#") -> None:
        self.path = str(path)
        if any(bytes([c]) in data for c in comment):
            data = re.sub(b"[" + re.escape(comment) + rb"][^\n]*", b"", data)
        self.data = data
        self.pos = 0

    def fail(self, message: str, line: int | None = None) -> NoReturn:
        """Raise `FormatError`, at ``line`` or at the line now being read."""
        raise FormatError(self.path, self.line() if line is None else line, message)

    def line(self, offset: int | None = None) -> int:
        """Line number, from 1, of a byte offset (default: the current one)."""
        end = self.pos if offset is None else offset
        return self.data.count(b"\n", 0, end) + 1

    def line_of_row(self, start: int, row: int) -> int:
        """Line number of the ``row``-th non-blank line from offset ``start``."""
        number = self.line(start)
        for text in self.data[start:].split(b"\n"):
            if text.strip():
                if row == 0:
                    break
                row -= 1
            number += 1
        return number

    def last_line(self) -> int:
        """Line number of the last line that holds anything."""
        return self.line(len(self.data.rstrip()))

    def skip_blank(self) -> bool:
        """Advance to the next line that holds anything; False at the end of the file."""
        match = re.compile(rb"\S").search(self.data, self.pos)
        if match is None:
            return False
        self.pos = max(self.data.rfind(b"\n", 0, match.start()) + 1, self.pos)
        return True

    def peek(self) -> list[bytes]:
        """Words of the next non-blank line, which is not consumed; empty at the end."""
        if not self.skip_blank():
            return []
        return self.data[self.pos : self._line_end()].split()

    def skip_line(self) -> None:
        """Consume the current line."""
        self.pos = self._line_end()

    def _line_end(self) -> int:
        end = self.data.find(b"\n", self.pos)
        return len(self.data) if end < 0 else end + 1

    def header(self, what: str, fields: Sequence[str], defaults: Sequence[int]) -> list[int]:
        """Read one line of non-negative integers.

        The first field must be there; the others fall back on ``defaults`` (one per field).
        """
        words = self.peek()
        if not words:
            message = f"the file ends before the {what} header ({' '.join(fields)})"
            self.fail(message, self.last_line())
        self.check_text(b" ".join(words))
        if len(words) > len(fields):
            self.fail(
                f"the {what} header has {len(words)} fields, expected {len(fields)}: "
                + " ".join(fields)
            )
        values = list(defaults)
        for k, word in enumerate(words):
            values[k] = int(self._number(word, Field(fields[k])))
            if values[k] < 0:
                self.fail(f"the {fields[k]} in the {what} header is negative: {values[k]}")
        self.skip_line()
        return values

    def block(self, rows: int, fields: Sequence[Field], what: str) -> Block:
        """Read ``rows`` non-blank lines that each hold ``fields``.

        Returns
        -------
        Block
            ``values`` is int64 if every field is an integer, else float64; shape
            ``(rows, len(fields))``.
        """
        dtype: Any = np.int64 if all(f.integer for f in fields) else np.float64
        start, got = self.pos, 0
        parts: list[NDArray[Any]] = []
        while got < rows:
            if self.pos >= len(self.data):
                self.fail(f"the file ends after {got} of {rows} {what}", self.last_line())
            part = self._some(rows - got, fields, dtype)
            got += len(part)
            parts.append(part)
        values = np.concatenate(parts) if parts else np.empty((0, len(fields)), dtype)
        block = Block(self, start, values)
        if dtype is np.float64:
            self._check_integers(block, fields)
        return block

    def rest(self, fields: Sequence[Field]) -> Block:
        """Read every line that is left, each of which must hold ``fields``."""
        dtype: Any = np.int64 if all(f.integer for f in fields) else np.float64
        start = self.pos
        parts: list[NDArray[Any]] = []
        while self.pos < len(self.data):
            parts.append(self._some(1 << 62, fields, dtype))
        values = np.concatenate(parts) if parts else np.empty((0, len(fields)), dtype)
        block = Block(self, start, values)
        if dtype is np.float64:
            self._check_integers(block, fields)
        return block

    def end(self, what: str) -> None:
        """Check that nothing but blanks and comments is left."""
        if self.skip_blank():
            words = self.peek()
            self.check_text(b" ".join(words))
            word = words[0][:20].decode()
            self.fail(f"unexpected {word!r} after the last of the {what}")

    def _some(self, wanted: int, fields: Sequence[Field], dtype: Any) -> NDArray[Any]:
        """Parse at most ``wanted`` lines out of the next chunk."""
        end = self.pos + CHUNK
        if end < len(self.data):
            end = self.data.find(b"\n", end) + 1 or len(self.data)
        text = self.data[self.pos : end]
        raw = np.frombuffer(text, np.uint8)
        ink = raw > 32
        edges = np.flatnonzero(ink[1:] & ~ink[:-1]) + 1
        words = np.concatenate([[0], edges]) if ink[0] else edges
        breaks = np.flatnonzero(raw == 10)
        if raw[-1] != 10:
            breaks = np.append(breaks, len(raw))
        counts = np.diff(np.searchsorted(words, breaks), prepend=0)
        filled = np.flatnonzero(counts)
        if len(filled) > wanted:
            filled = filled[:wanted]
            text = text[: breaks[filled[-1]] + 1]
        start, self.pos = self.pos, self.pos + min(len(text), end - self.pos)
        total = len(filled) * len(fields)
        if total == 0 and not text.strip():
            return np.empty((0, len(fields)), dtype)
        values = None
        if total and (counts[filled] == len(fields)).all():
            with suppress(ValueError):  # explained below
                values = np.fromstring(text, dtype, sep=" ")
        if values is None or len(values) != total or not np.isfinite(values).all():
            self._explain(start, text, fields)
        return values.reshape(-1, len(fields))

    def _check_integers(self, block: Block, fields: Sequence[Field]) -> None:
        """Fail at the first fraction in an integer column that was read as doubles."""
        for k, field in enumerate(fields):
            if field.integer:
                column = block.values[:, k]
                bad = column != np.rint(column)
                if bad.any():
                    row = int(bad.argmax())
                    block.fail(row, f"the {field.name} is not an integer: {column[row]:g}")

    def _explain(self, start: int, text: bytes, fields: Sequence[Field]) -> NoReturn:
        """Find the first bad line of a block that did not parse, and say what is wrong."""
        self.pos = start
        number = self.line()
        names = " ".join(f.name for f in fields)
        for line in text.split(b"\n"):
            words = line.split()
            if words:
                self.check_text(line, number)
                if len(words) != len(fields):
                    found = f"found {len(words)} fields, expected {len(fields)}"
                    self.fail(f"{found}: {names}", number)
                for word, field in zip(words, fields, strict=True):
                    self._number(word, field, number)
            number += 1
        self.fail("the numbers in this part of the file could not be read", self.line(start))

    def integer(self, word: bytes, name: str) -> int:
        """Read one word of the current line as an integer, or fail."""
        return int(self._number(word, Field(name)))

    def check_text(self, line: bytes, number: int | None = None) -> None:
        """Fail on bytes that are no printable ASCII, and on commas."""
        if _JUNK.search(line):
            self.fail("binary data where text is expected", number)
        if b"," in line:
            self.fail("a comma: fields are separated by blanks", number)

    def _number(self, word: bytes, field: Field, line: int | None = None) -> float:
        """Read one word strictly, or fail at ``line``."""
        shown = repr(word[:40].decode("ascii", "replace"))
        if _NOT_FINITE.match(word):
            self.fail(f"the {field.name} is not a finite number: {shown}", line)
        if field.integer:
            if _INTEGER.match(word):
                return int(word)
            self.fail(f"the {field.name} is not an integer: {shown}", line)
        if not _NUMBER.match(word):
            self.fail(f"the {field.name} is not a number: {shown}", line)
        value = float(word)
        if not np.isfinite(value):
            self.fail(f"the {field.name} is too large for a double: {shown}", line)
        return value
