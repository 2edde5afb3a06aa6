"""DIMACS CNF, including the variants that kissat, CaDiCaL, MiniSat and PySAT accept.

A header ``p cnf VARIABLES CLAUSES``, then literals; a 0 ends a clause, independent of line ends.  A
``c`` in place of a number begins a comment up to the end of the line.  SATLIB's files end in ``%``
and 0.  Compiled code reads large files and stops at invalid input, which `_explain` then reports.
"""

from __future__ import annotations

import os
import re
import warnings
from itertools import chain
from typing import Any, BinaryIO, NamedTuple, NoReturn, overload

import numpy as np
from numpy.typing import NDArray

from morph.data.formula import Formula
from morph.io.text import clauses as compiled
from morph.io.text.files import decompressed, identity, map_bytes, write_chunks
from morph.io.text.formats import Format
from morph.io.text.scanner import FormatError, StrPath
from morph.language.arguments import check_type, string
from morph.language.dtypes import ID_LIMIT
from morph.language.messages import shown
from morph.partition.formula import DividedFormula
from morph.partition.ranks import Ranks
from morph.partition.transport import agree, on_all

CHUNK = 1 << 20  # clauses formatted at a time
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")  # byte order marks of UTF-8 and UTF-16
_TOKEN = re.compile(rb"c[^\n]*|\S+")
_HEADER = re.compile(rb"p[ \t]+cnf[ \t]+(\S+)[ \t]+(\S+)\s*")
_COUNT = re.compile(rb"[0-9]+")
_WORD = re.compile(rb"\S+")
_NUMBERS = re.compile(rb"[-0-9 \t\r\n]*")

Parsed = tuple[NDArray[np.int64], NDArray[np.int32], int, int]
CNF = Format(
    kind="formula", name="cnf", suffixes=(".cnf", ".dimacs"), common=2, compressed=True,
    about="clauses, DIMACS CNF", reader="`read_cnf`", writer="`write_cnf`",
)  # fmt: skip


class CnfWarning(UserWarning):
    """A header that does not match the clauses, or is missing."""


@overload
def read_cnf(source: StrPath | BinaryIO, *, strict: bool = False, comm: None = None) -> Formula: ...
@overload
def read_cnf(source: StrPath, *, strict: bool = False, comm: Any) -> DividedFormula: ...
def read_cnf(source: Any, *, strict: bool = False, comm: Any = None) -> Formula | DividedFormula:
    """Read a formula in DIMACS CNF.

    Parameters
    ----------
    source : path-like, or binary file
        Paths with suffix ``.gz``, ``.xz`` or ``.bz2`` are decompressed; a binary file such as
        ``sys.stdin.buffer`` is read to its end, and decompressed if its first bytes show that it
        is compressed.
    strict : bool
        Reject a missing header, a wrong number of clauses, a comment that does not begin its line,
        a plus sign and SATLIB's ``%``.
    comm : mpi4py.MPI.Comm, optional
        All ranks make the same call, and each reads a share of the lines of a path.  Files without
        a header, or that end in ``%``, are read by each rank as a whole, and then divided.

    Returns
    -------
    Formula or, with ``comm``, DividedFormula
        Clauses and their literals in the order of the file.

    Raises
    ------
    FormatError
        With file and line: an invalid word, a literal out of the header's range, a last clause
        without 0.
    OSError
        If the file cannot be read.
    TypeError
        If ``source`` is neither a path nor a binary file, or no path with ``comm``.
    ValueError
        If the ranks of ``comm`` read different files.
    PartError
        If another rank of ``comm`` has failed.

    Warns
    -----
    CnfWarning
        If the number of clauses differs from the header, or there is no header; with ``comm`` on
        the first rank.
    """
    formula: Formula | DividedFormula
    if comm is not None:
        formula, warning = _read_shares(source, strict, Ranks(comm, "read a formula"))
    else:
        formula, warning = _read(*_bytes_of(source), strict)
    if warning:
        warnings.warn(warning, CnfWarning, stacklevel=2)
    return formula


def _bytes_of(source: StrPath | BinaryIO) -> tuple[StrPath, Any]:
    """Return the name of a path or file, and its contents."""
    if isinstance(source, str | os.PathLike):
        return source, map_bytes(source)
    return _all_of(source)


def _read(path: StrPath, data: Any, strict: bool) -> tuple[Formula, str]:
    """Read a formula from the contents of a file; returns it, and a warning."""
    warning = ""
    if data[:3].startswith(_MARKS):
        _fail(path, data, 0, "a byte order mark: save the file as plain ASCII, without a BOM")
    pos, header = _header(path, data)
    if header is None:
        if strict or pos == len(data):
            _fail(path, data, pos, "expected the header: p cnf VARIABLES CLAUSES")
    most = ID_LIMIT if header is None else header[0]
    offsets, literals, stop, invalid = _clauses(data, pos, most, strict)
    if invalid >= 0:
        _explain(path, data, invalid, most, strict)
    if offsets[-1] != len(literals):
        end = len(data) if stop < 0 else stop
        last = len(data[:end].rstrip())
        _fail(path, data, max(last - 1, 0), "the last clause lacks its 0")
    if stop >= 0 and data[stop + 1 :].split() not in ([], [b"0"]):
        _fail(path, data, stop, "more than a 0 follows the '%' that ends a formula")
    if header is None:
        most = max(int(literals.max()), -int(literals.min())) if literals.size else 0
        message = "there is no header: variables and clauses are counted"
        warning = _warning(path, _line(data, pos), message, strict)
    elif header[1] != len(offsets) - 1:
        message = f"the header declares {header[1]} clauses, there are {len(offsets) - 1}"
        warning = _warning(path, _line(data, pos - 1), message, strict)
    return Formula(most, offsets, literals), warning


def _clauses(data: Any, pos: int, most: int, strict: bool) -> Parsed:
    """Parse clauses by the compiled library, or without it."""
    worth = compiled.is_worth(len(data) - pos)
    found = compiled.parse(data, pos, most, strict) if worth else None
    return _parse(data, pos, most, strict) if found is None else found


class _Share(NamedTuple):
    """The share of a file that a rank has read.

    Attributes
    ----------
    offsets, literals : array
        Of the clauses that end in the share; the first may begin in an earlier one.
    tail : array
        The literals after the last 0.
    clauses, line : int
        The number of clauses in the header, and the line of the header.
    end : int
        The offset in the file of the last word before the end of the share.
    """

    variables: int
    offsets: NDArray[np.int64]
    literals: NDArray[np.int32]
    tail: NDArray[np.int32]
    clauses: int
    line: int
    end: int


def _read_shares(path: StrPath, strict: bool, ranks: Ranks) -> tuple[DividedFormula, str]:
    """Read a share of the lines on each rank; clauses may extend over several shares.

    Returns
    -------
    formula : DividedFormula
    warning : str
        The warning of the first rank.
    """
    rank, last = ranks.rank, ranks.size - 1
    name, about = on_all(ranks, lambda: (os.fspath(path), identity(path)))
    agree(ranks, f"the file {name}", about)
    agree(ranks, "the argument strict", bool(strict))
    share = on_all(ranks, lambda: _share_of(path, strict, rank, ranks.size))
    facts = (None, None) if share is None else (share.tail, share.offsets.size > 1)
    tails, complete = zip(*ranks.gather({rank: facts}), strict=True)
    if None in complete:
        whole, warning = on_all(ranks, lambda: _read(*_bytes_of(path), strict))
        return DividedFormula.of(ranks, whole), "" if rank else warning
    assert share is not None

    def made() -> Formula:
        if rank == last and (share.tail.size or not complete[last] and any(t.size for t in tails)):
            _fail(path, map_bytes(path), share.end, "the last clause lacks its 0")
        first = max((k + 1 for k in range(rank) if complete[k]), default=1) - 1
        before = np.concatenate([*tails[first:rank], share.literals[:0]])
        offsets = share.offsets.copy()
        if not complete[rank]:
            return Formula(share.variables, offsets, share.literals)
        offsets[1:] += before.size
        return Formula(share.variables, offsets, np.concatenate([before, share.literals]))

    formula = DividedFormula(ranks, on_all(ranks, made))
    if share.clauses == formula.clauses:
        return formula, ""
    message = f"the header declares {share.clauses} clauses, there are {formula.clauses}"
    warning = _warning(path, share.line, message, strict)
    return formula, "" if rank else warning


def _share_of(path: StrPath, strict: bool, k: int, size: int) -> _Share | None:
    """Read the k-th share of the lines; None if the file has to be read as a whole."""
    data = map_bytes(path)
    if data[:3].startswith(_MARKS):
        _fail(path, data, 0, "a byte order mark: save the file as plain ASCII, without a BOM")
    pos, header = _header(path, data)
    if header is None:
        return None
    cuts = [pos + (len(data) - pos) * i // size for i in range(size + 1)]
    begin, end = (c if c in (pos, len(data)) else data.find(b"\n", c) + 1 or len(data)
                  for c in cuts[k : k + 2])  # fmt: skip
    text = data[begin:end]
    offsets, literals, stop, invalid = _clauses(text, 0, header[0], strict)
    if invalid >= 0:
        _explain(path, data, begin + invalid, header[0], strict)
    if stop >= 0:
        return None
    ended = int(offsets[-1])
    at = max(begin + len(text.rstrip()) - 1, 0)
    line = _line(data, pos - 1)
    return _Share(header[0], offsets, literals[:ended], literals[ended:], header[1], line, at)


def _all_of(file: BinaryIO) -> tuple[str, bytes]:
    """Return the name of an open file, and its contents."""
    name, data = getattr(file, "name", None), file.read() if hasattr(file, "read") else None
    if not isinstance(data, bytes):
        raise TypeError(f'{shown(file)} is no path, and no file opened with "rb"')
    name = name if isinstance(name, str) and name[:1] != "<" else "standard input"
    return name, decompressed(name, data)


def write_cnf(formula: Formula, path: StrPath, comment: str = "") -> None:
    """Write a formula in DIMACS CNF, a clause on each line.

    Parameters
    ----------
    formula : Formula
    path : path-like
        ``.gz``, ``.xz`` and ``.bz2`` compress.
    comment : str
        Text of comment lines at the beginning.

    Raises
    ------
    OSError
        If the file cannot be written; no partial file remains.
    """
    check_type(formula, "formula", "Formula")
    string(comment, "comment")
    at, literals = formula.offsets, formula.literals
    head = "".join(f"c {line}\n" for line in comment.splitlines())
    head += f"p cnf {formula.variables} {formula.clauses}\n"

    def some(first: int) -> bytes:
        rows = at[first : first + CHUNK + 1] - at[first]
        held = literals[at[first] : at[first] + rows[-1]]
        made = compiled.lines(rows, held) if held.size > CHUNK // 4 else None
        if made is not None:
            return made  # type: ignore[no-any-return]
        flat, ends = list(map(str, held.tolist())), rows.tolist()
        parts = (flat[a:b] for a, b in zip(ends, ends[1:], strict=False))
        return "".join(" ".join([*clause, "0\n"]) for clause in parts).encode()

    write_chunks(path, chain([head.encode()], map(some, range(0, formula.clauses, CHUNK))))


def _fail(path: StrPath, data: Any, pos: int, message: str) -> NoReturn:
    raise FormatError(path, _line(data, pos), message)


def _line(data: Any, pos: int) -> int:
    """Return the line, from 1, of an offset."""
    return int(data[:pos].count(b"\n")) + 1


def _warning(path: StrPath, line: int, message: str, strict: bool) -> str:
    """Return the text of a warning with file and line, which is an error if ``strict``."""
    error = FormatError(path, line, message)
    if strict:
        raise error
    return str(error)


def _header(path: StrPath, data: Any) -> tuple[int, tuple[int, int] | None]:
    """Find the header; returns its end offset, and its two numbers, or None without a header."""
    pos = 0
    while (match := _WORD.search(data, pos)) and match[0].startswith(b"c"):
        pos = data.find(b"\n", match.start()) + 1 or len(data)
    if match is None:
        return len(data), None
    if not match[0].startswith(b"p"):
        return pos, None
    end = data.find(b"\n", match.start()) + 1 or len(data)
    line = _HEADER.fullmatch(data, match.start(), end)
    if line is None or not all(map(_COUNT.fullmatch, line.groups())):
        shown = data[match.start() : min(end, match.start() + 60)].decode("ascii", "replace")
        _fail(path, data, match.start(), f"expected p cnf VARIABLES CLAUSES, not {shown.strip()!r}")
    variables, clauses = (int(word.lstrip(b"0")[:20] or b"0") for word in line.groups())
    if variables > ID_LIMIT:
        _fail(path, data, match.start(), f"{variables} variables: at most {ID_LIMIT} are possible")
    return end, (variables, clauses)


def _parse(data: Any, pos: int, most: int, strict: bool) -> Parsed:
    """Parse clauses like `morph.io.text.clauses.parse`, without a compiler."""
    stop = invalid = -1
    if (flat := _numbers(data, pos, most)) is not None:
        return *_split(flat), stop, invalid
    numbers: list[int] = []
    for match in _TOKEN.finditer(data, pos):
        word = match[0]
        if word[:1] == b"c":
            line = match.start()
            if not strict or line == pos or data[line - 1] == 10:
                continue
        if word[:1] == b"%" and not strict:
            stop = match.start()
            break
        digits = word[1:] if word[:1] == b"-" or word[:1] == b"+" and not strict else word
        value = int(digits.lstrip(b"0")[:20] or b"0") if digits.isdigit() else -1
        if not 0 <= value <= most or word[:1] == b"-" and value == 0:
            invalid = match.start()
            break
        numbers.append(-value if word[:1] == b"-" else value)
    return *_split(np.array(numbers, np.int32)), stop, invalid


def _numbers(data: Any, pos: int, most: int) -> NDArray[np.int32] | None:
    """Parse a text of valid numbers without comments, 5 times as fast; None for other texts."""
    if _NUMBERS.fullmatch(data, pos) is None or data.find(b"-0", pos) >= 0:
        return None
    try:
        found = np.fromiter(map(int, data[pos:].split()), np.int32)
    except (ValueError, OverflowError):
        return None
    return found if -most <= found.min(initial=0) and found.max(initial=0) <= most else None


def _split(flat: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Split numbers at each 0; returns offsets and literals, as `Formula`."""
    ends = np.flatnonzero(flat == 0)
    return np.append(0, ends - np.arange(ends.size)), flat[flat != 0]


def _explain(path: StrPath, data: Any, invalid: int, most: int, strict: bool) -> NoReturn:
    """Raise `FormatError` for the word at ``invalid``."""
    match = _WORD.match(data, invalid)
    word = b"" if match is None else match[0]
    shown = repr(word[:40].decode("ascii", "backslashreplace"))
    if re.fullmatch(rb"[+-]?0*[1-9][0-9]*", word) and not (strict and word.startswith(b"+")):
        _fail(path, data, invalid, f"literal {word[:40].decode()}: the largest variable is {most}")
    if word == b"p":
        _fail(path, data, invalid, "a second header")
    if strict and word[:1] in (b"c", b"%", b"+"):
        found = {b"c": "a comment within a line", b"%": "a '%'", b"+": "a plus sign"}[word[:1]]
        _fail(path, data, invalid, f"{found}, which is not strict DIMACS")
    _fail(path, data, invalid, f"expected a literal, a 0 or a comment, not {shown}")
