"""Parsing of numbers from text, in blocks; line by line only to locate errors.

Compiled code parses large blocks and stops at irregular input.  In this case, and without a
compiler, one NumPy call parses the block.  NumPy is lenient (it reads ``1-2`` as two numbers), so
the number of values is compared with the number of words, and the number of words in each line with
the number of fields.  Only on a mismatch is the block parsed again line by line, for the line and
cause of the error.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from os import PathLike
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from morph.io.text import numbers
from morph.language.messages import shortened

CHUNK = 1 << 23  # bytes parsed at once: their masks fit the cache
PIECE = 1 << 22  # bytes parsed before their numbers are narrowed: enough work for all cores
_INTEGER = re.compile(rb"[+-]?[0-9]+\Z")
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)\Z", re.IGNORECASE)
_LARGEST = 2**63 - 1
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")  # byte order marks of UTF-8 and UTF-16
_NONBLANK = re.compile(rb"\S")
_JUNK = re.compile(rb"[^\t-\r -~]")

StrPath = str | PathLike[str]


class FormatError(ValueError):
    """A file violates its format.

    Attributes
    ----------
    path : str
        The file.
    line : int or None
        The line, counted from 1; None if the error has no line.
    message : str
        Description of the error.
    """

    def __init__(self, path: StrPath, line: int | None, message: str) -> None:
        super().__init__(str(path), line, message)
        self.path = str(path)
        self.line = line
        self.message = message

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return shortened(f"{where}: {self.message}")


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a block: its name in messages, and whether it holds integers."""

    name: str
    integer: bool = True


@dataclass(frozen=True, slots=True)
class Comment:
    """The syntax of comments.

    ``marks``: bytes, with one of which each begins; ``pattern``: matches one up to its line's end.
    """

    marks: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


HASH = Comment((b"#",), re.compile(rb"#[^\n]*"))


def _dtype(fields: Sequence[Field]) -> type[np.generic]:
    return np.int64 if all(f.integer for f in fields) else np.float64


def _slices(groups: Sequence[int]) -> list[slice]:
    """Return the columns of each group; without groups, all columns are one."""
    ends = [sum(groups[:k]) for k in range(len(groups) + 1)]
    return [slice(a, b) for a, b in pairwise(ends)] or [slice(None)]


def _split(values: NDArray[Any], groups: Sequence[int]) -> list[NDArray[Any]]:
    """Split the columns of an array into groups."""
    return [values[:, columns] for columns in _slices(groups)]


def _integral(fields: Sequence[Field], groups: Sequence[int]) -> list[list[bool]]:
    """Return for each group whether its fields are integers."""
    integral = [f.integer for f in fields]
    return [integral[columns] for columns in _slices(groups)]


@dataclass(frozen=True, slots=True)
class Block:
    """Values of consecutive lines, one array for each group of fields, and their position."""

    scanner: Scanner
    start: int
    parts: Sequence[NDArray[Any]]

    @property
    def values(self) -> NDArray[Any]:
        """Values of the first group: of all fields, unless groups were given."""
        return self.parts[0]

    def fail(self, row: int, message: str) -> NoReturn:
        """Raise `FormatError` at the line of a row."""
        self.scanner.fail(message, self.line(row))

    def line(self, row: int) -> int:
        """Line number, from 1, of a row."""
        return self.scanner.line_of_row(self.start, int(row))

    def integers(self, row: int, columns: slice) -> str:
        """Return integers of a row as text, however they are written: also ``3.0``."""
        _, line = next(islice(self.scanner.lines(self.start), int(row), None))
        return " ".join(str(int(float(word))) for word in line.split()[columns])


def release(data: Any, start: int, end: int) -> None:
    """Let the system reclaim the pages of a mapped file between two offsets, if it is one.

    Their contents can still be read.
    """
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        first, last = (at // mmap.PAGESIZE * mmap.PAGESIZE for at in (start, end))
        if last > first:
            data.madvise(mmap.MADV_DONTNEED, first, last - first)


def find(data: Any, marks: Sequence[bytes], start: int) -> int:
    """Return the first offset from ``start`` on of one of several marks, or -1.

    Of a mapped file, only a part is in memory at a time.
    """
    for at in range(start, len(data), PIECE):
        end = at + PIECE + max(map(len, marks)) - 1
        text = data[at:end]  # `bytes.find` is faster than that of a map, even with the copy
        first: int = min((k for m in marks if (k := text.find(m)) >= 0), default=-1)
        if first >= 0:
            return at + first
        release(data, at, at + PIECE)
    return -1


class Scanner:
    """A reader of whitespace-separated numbers over the bytes of one file.

    Parameters
    ----------
    path : path-like
        Name of the file in errors.
    data : bytes or mmap
        The decompressed file; see `morph.io.text.files.map_bytes`.
    comment : Comment, optional
        The syntax of comments, which count as blanks.
    before : (bytes or mmap, int), optional
        A file and how many of its bytes precede ``data``, for line numbers.
    """

    def __init__(
        self,
        path: StrPath,
        data: bytes,
        comment: Comment | None = HASH,
        before: tuple[Any, int] = (b"", 0),
    ) -> None:
        self.path = str(path)
        self.data = data
        self._before = before
        self._comment = comment  # None also after they have been blanked
        self.pos = 0
        if data[:3].startswith(_MARKS):
            self.fail("a byte order mark: save the file as plain ASCII, without a BOM")
        while comment and comment.pattern.match(data, self.pos):
            self.skip_line()
        self._start = self.pos

    def blank_comments(self) -> bool:
        """Replace comments by blanks, which preserves offsets; return whether there were any.

        This copies the text, so it is not done before a reader needs it: compiled code stops at
        comments, and most large files have comments at their ends only.
        """
        comment, self._comment = self._comment, None
        if comment is None or find(self.data, comment.marks, self._start) < 0:
            return False
        out = bytearray(self.data)
        for found in comment.pattern.finditer(self.data, self._start):
            out[found.start() : found.end()] = b" " * len(found[0])
        self.data = bytes(out)
        return True

    def contains(self, marks: Sequence[bytes]) -> bool:
        """Whether one of several marks occurs from the current position on, outside comments."""
        if find(self.data, marks, self.pos) < 0:
            return False
        return not self.blank_comments() or find(self.data, marks, self.pos) >= 0

    def rows_left(self, start: int, got: int) -> int:
        """Estimate the number of remaining lines from the ``got`` lines since ``start``."""
        return int((len(self.data) - self.pos) * got / max(self.pos - start, 1))

    def fail(self, message: str, line: int | None = None) -> NoReturn:
        """Raise `FormatError` at ``line``, by default the current line."""
        raise FormatError(self.path, self.line() if line is None else line, message)

    def line(self, offset: int | None = None) -> int:
        """Line number, from 1, of a byte offset (default: the current one)."""
        texts = self._before, (self.data, self.pos if offset is None else offset)
        return 1 + sum(
            text[k : min(k + CHUNK, end)].count(b"\n")
            for text, end in texts
            for k in range(0, end, CHUNK)
        )

    def line_of_row(self, start: int, row: int) -> int:
        """Line number of the ``row``-th non-blank line from offset ``start``."""
        found = next(islice(self.lines(start), row, None), None)
        return self.line(start) + (0 if found is None else found[0])

    def lines(self, start: int) -> Iterator[tuple[int, bytes]]:
        """Yield the non-blank lines from offset ``start`` on, and their numbers, from 0."""
        self.blank_comments()
        number = 0
        while start < len(self.data):
            end = self.data.find(b"\n", start + CHUNK) + 1 or len(self.data)
            for text in self.data[start:end].removesuffix(b"\n").split(b"\n"):
                if text.strip():
                    yield number, text
                number += 1
            start = end

    def last_line(self) -> int:
        """Line number of the last non-blank line."""
        self.blank_comments()
        end = len(self.data)
        while end and self.data[end - 1 : end].isspace():
            end -= 1
        return self.line(end) if end > self._start else 1

    def skip_blank(self) -> bool:
        """Advance to the next non-blank line; False at the end of the file."""
        while (match := _NONBLANK.search(self.data, self.pos)) is not None:
            self.pos = max(self.data.rfind(b"\n", 0, match.start()) + 1, self.pos)
            if not (self._comment and self._comment.pattern.match(self.data, match.start())):
                return True
            self.skip_line()
        return False

    def peek(self) -> list[bytes]:
        """Words of the next non-blank line, which is not consumed; empty at the end."""
        if not self.skip_blank():
            return []
        line = self.data[self.pos : self._line_end()]
        return (self._comment.pattern.sub(b"", line) if self._comment else line).split()

    def skip_line(self) -> None:
        """Consume the current line."""
        self.pos = self._line_end()

    def _line_end(self) -> int:
        end = self.data.find(b"\n", self.pos)
        return len(self.data) if end < 0 else end + 1

    def header(self, noun: str, fields: Sequence[str], defaults: Sequence[int]) -> list[int]:
        """Read one line of non-negative integers.

        The first field is required; the others have ``defaults`` (one per field).
        """
        words = self.peek()
        if not words:
            message = f"the file ends before the {noun} header ({' '.join(fields)})"
            self.fail(message, self.last_line())
        self.check_text(b" ".join(words))
        if len(words) > len(fields):
            self.fail(
                f"the {noun} header has {len(words)} fields, expected {len(fields)}: "
                + " ".join(fields)
            )
        values = list(defaults)
        for k, word in enumerate(words):
            values[k] = int(self._number(word, Field(fields[k])))
            if values[k] < 0:
                self.fail(f"the {fields[k]} in the {noun} header is negative: {values[k]}")
        self.skip_line()
        return values

    def block(
        self, rows: int, fields: Sequence[Field], noun: str, groups: Sequence[int] = ()
    ) -> Block:
        """Read ``rows`` non-blank lines of ``fields``.

        Parameters
        ----------
        rows : int
        fields : sequence of Field
        noun : str
            Name of the lines in messages.
        groups : sequence of int
            Numbers of consecutive fields that make one array each; by default one array.

        Returns
        -------
        Block
            A part for each group, shape ``(rows, width)``.  Without ``groups``: int64 if every
            field is an integer, else float64.  With ``groups``: int32 for a group of integers if
            compiled code has parsed all rows, else int64, or float64 if any field of a row is real.
        """
        start, parts = self.pos, self._filled(rows, fields, groups)
        if parts is None:
            self.pos = start
            chunks: list[NDArray[Any]] = []
            got = 0
            while got < rows:
                if self.pos >= len(self.data):
                    self.fail(f"the file ends after {got} of {rows} {noun}", self.last_line())
                chunks.append(self._some(rows - got, fields))
                got += len(chunks[-1])
            parts = _split(self._joined(chunks, fields, start), groups)
        return Block(self, start, parts)

    def _filled(
        self, rows: int, fields: Sequence[Field], groups: Sequence[int]
    ) -> list[NDArray[Any]] | None:
        """Parse all rows by compiled code, in pieces; None if that is not possible."""
        size = len(self.data) - self.pos
        too_short = rows * 2 * len(fields) > size + 1  # do not allocate what a header promises
        if size < numbers.LEAST or too_short or not numbers.library():
            return None
        parts = numbers.arrays(rows, _integral(fields, groups), bool(groups))
        got = 0
        while got < rows:
            rest = [part[got:] for part in parts]
            found = self._compiled(rows - got, fields, groups, self._piece_end(), into=rest)
            if found is None:
                return None
            got += len(found[0])
        return parts

    def _piece_end(self) -> int:
        """Return the end offset of the next piece of complete lines."""
        return self.data.find(b"\n", self.pos + PIECE) + 1 or len(self.data)

    def rest(self, fields: Sequence[Field]) -> Block:
        """Read all remaining lines, which must have ``fields``."""
        start, parts = self.pos, self._compiled(None, fields)
        if parts is None:
            chunks: list[NDArray[Any]] = []
            while self.pos < len(self.data):
                chunks.append(self._some(1 << 62, fields))
            parts = [self._joined(chunks, fields, start)]
        return Block(self, start, parts)

    def pieces(
        self,
        rows: int | None,
        fields: Sequence[Field],
        noun: str,
        letter: bytes = b"",
        drop_letters: Callable[[], None] | None = None,
    ) -> Iterator[Block]:
        """Read like `block`, or like `rest` if ``rows`` is None, in pieces; each field is a part.

        Every line may begin with ``letter``; ``drop_letters`` replaces these letters by blanks, or
        reports an error, if compiled code is not used.
        """
        left = 1 << 62 if rows is None else rows
        groups = [1] * len(fields)
        while left:
            if self.pos >= len(self.data):
                if rows is None:
                    return
                self.fail(f"the file ends after {rows - left} of {rows} {noun}", self.last_line())
            start, end = self.pos, self._piece_end()
            parts = self._compiled(left, fields, groups, end, letter)
            if parts is None:
                if letter and drop_letters:
                    drop_letters()
                    letter = b""
                parts = _split(self._joined([self._some(left, fields)], fields, start), groups)
            got = len(parts[0])
            left -= got
            if got:
                yield Block(self, start, parts)

    def _compiled(
        self,
        rows: int | None,
        fields: Sequence[Field],
        groups: Sequence[int] = (),
        end: int | None = None,
        letter: bytes = b"",
        into: Sequence[NDArray[Any]] | None = None,
    ) -> list[NDArray[Any]] | None:
        """Parse all rows by compiled code; None if it is not available or stops.

        Integers of groups are int32 if all fit, also int64 unless they are read ``into`` arrays.
        """
        integral = _integral(fields, groups)
        found = numbers.parse(self.data, self.pos, rows, integral, end, letter, bool(groups), into)
        if found is None and groups and into is None:
            found = numbers.parse(self.data, self.pos, rows, integral, end, letter)
        if found is None:
            if self.blank_comments():
                return self._compiled(rows, fields, groups, end, letter, into)
            return None
        values, end = found
        release(self.data, self.pos, end)
        self.pos = end
        return values

    def _joined(
        self, parts: list[NDArray[Any]], fields: Sequence[Field], start: int
    ) -> NDArray[Any]:
        """Join the values parsed from ``start`` on; fail if an integer field has a fraction."""
        values = np.concatenate([np.empty((0, len(fields)), _dtype(fields)), *parts])
        if values.dtype == np.float64:
            for k, field in enumerate(fields):
                column = values[:, k]
                bad = column != np.rint(column)
                if field.integer and bad.any():
                    row = int(bad.argmax())
                    message = f"the {field.name} is not an integer: {column[row]:g}"
                    Block(self, start, [values]).fail(row, message)
        return values

    def end(self, noun: str) -> None:
        """Check that only blanks and comments follow."""
        if self.skip_blank():
            words = self.peek()
            self.check_text(b" ".join(words))
            word = words[0][:20].decode()
            self.fail(f"unexpected {word!r} after the last of the {noun}")

    def _some(self, limit: int, fields: Sequence[Field]) -> NDArray[Any]:
        """Parse at most ``limit`` lines of the next chunk."""
        self.blank_comments()
        dtype = _dtype(fields)
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
        if len(filled) > limit:
            filled = filled[:limit]
            text = text[: breaks[filled[-1]] + 1]
        start, self.pos = self.pos, self.pos + min(len(text), end - self.pos)
        total = len(filled) * len(fields)
        if total == 0 and not text.strip():
            return np.empty((0, len(fields)), dtype)
        values = None
        if total and (counts[filled] == len(fields)).all():
            with suppress(ValueError):  # reported below
                values = np.fromstring(text + b" 7", dtype, sep=" ")[:-1]  # old NumPy stops early
        if values is None or len(values) != total or not np.isfinite(values).all():
            self._explain(start, text, fields)
            self.fail("the numbers in this part of the file could not be read", self.line(start))
        if dtype is np.int64 and (values.max() == _LARGEST or values.min() == ~_LARGEST):
            self._explain(start, text, fields)  # NumPy stops at larger integers
        return values.reshape(-1, len(fields))

    def _explain(self, start: int, text: bytes, fields: Sequence[Field]) -> None:
        """Fail at the first invalid line of a block, if any."""
        number = self.line(start)
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

    def integer(self, word: bytes, name: str) -> int:
        """Read one word of the current line as an integer, or fail."""
        return int(self._number(word, Field(name)))

    def check_text(self, line: bytes, number: int | None = None) -> None:
        """Fail on bytes that are not printable ASCII, and on commas."""
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
            if not _INTEGER.match(word):
                self.fail(f"the {field.name} is not an integer: {shown}", line)
            digits = word.lstrip(b"+-").lstrip(b"0") or b"0"
            integer = int(digits[:20]) * (-1 if word.startswith(b"-") else 1)
            if len(digits) > 19 or not ~_LARGEST <= integer <= _LARGEST:
                self.fail(f"the {field.name} does not fit 64 bits: {shown}", line)
            return integer
        if not _NUMBER.match(word):
            self.fail(f"the {field.name} is not a number: {shown}", line)
        value = float(word)
        if not np.isfinite(value):
            self.fail(f"the {field.name} is too large for a double: {shown}", line)
        return value
