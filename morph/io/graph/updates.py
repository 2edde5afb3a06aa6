"""Updates of a graph, one per line: ``+ u v w``, ``- u v [id]``, ``= u v w [id]``.

Vertices are numbered from 0.  ``+`` inserts an edge, ``-`` deletes an edge, ``=`` sets its weight.
Without an id, a pair of vertices denotes an arbitrary one of parallel edges; ids are the positions
in the graph's file, continued by the inserted edges.  The default weight of an inserted edge is 1.
Comments begin with ``#``.

A batch ends at a blank line, or after a given number of lines.  A batch is equivalent to its lines
in sequence: a line begins a new batch if it deletes or changes a pair that an earlier line of the
batch touched in a later phase, or if it has an id and earlier lines of the same sign have none, or
vice versa.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.io.text.scanner import FormatError, StrPath

_RANK = {b"-": 0, b"=": 1, b"+": 2}  # the order within a batch
_FIELDS = {
    b"+": (3, 4, "'+ u v' or '+ u v weight'"),
    b"-": (3, 4, "'- u v' or '- u v id'"),
    b"=": (4, 5, "'= u v weight' or '= u v weight id'"),
}


@dataclass(slots=True)
class Named:
    """Lines that name edges: ends, id (-1 if absent), weights and line numbers."""

    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    id: NDArray[np.int64]
    weight: NDArray[np.generic]
    line: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.src)


@dataclass(slots=True)
class UpdateBatch:
    """Edges to delete, then to change, then to insert; and the first and last line."""

    deletes: Named
    updates: Named
    inserts: Named
    first: int
    last: int


@dataclass(slots=True)
class _Lines:
    """The lines of a batch that is being read."""

    rows: dict[bytes, list[tuple[int, int, int, float, int]]] = field(
        default_factory=lambda: {sign: [] for sign in _RANK}
    )
    ranks: dict[tuple[int, int], int] = field(default_factory=dict)
    count: int = 0

    def fits(self, pair: tuple[int, int], sign: bytes, id: int) -> bool:
        """Whether a line may be appended: no earlier line touches the pair in a later phase.

        (A batch deletes first, then changes, then inserts.)
        """
        rows = self.rows[sign]
        alike = not rows or (rows[0][2] < 0) == (id < 0)
        return alike and self.ranks.get(pair, 0) <= _RANK[sign]

    def batch(self, dtype: np.dtype[Any]) -> UpdateBatch:
        """The arrays of all lines."""
        named = [self._named(rows, dtype) for rows in self.rows.values()]
        lines = np.concatenate([n.line for n in named])
        deletes, updates, inserts = named
        return UpdateBatch(deletes, updates, inserts, int(lines.min()), int(lines.max()))

    def _named(self, rows: list[tuple[int, int, int, float, int]], dtype: np.dtype[Any]) -> Named:
        columns = zip(*rows, strict=True) if rows else ((),) * 5
        src, dst, id, weight, line = (list(c) for c in columns)
        ints = (np.array(c, np.int64) for c in (src, dst, id, line))
        a, b, c, d = ints
        return Named(a, b, c, np.array(weight, dtype), d)


def read_updates(
    lines: Iterable[bytes],
    path: StrPath,
    n: int,
    dtype: Any,
    directed: bool = True,
    batch: int | None = None,
) -> Iterator[UpdateBatch]:
    """Yield batches of updates as their lines arrive.

    Parameters
    ----------
    lines : iterable of bytes
        An open file, or a stream.
    path : str
        Name of the file in messages.
    n : int
        Number of vertices of the graph.
    dtype : dtype
        Type of the weights.
    directed : bool
        False if pairs are unordered.
    batch : int, optional
        Largest number of lines of a batch.

    Raises
    ------
    FormatError
        With file and line, before the batch of this line is yielded.
    """
    kind, now = np.dtype(dtype), _Lines()
    for number, line in enumerate(lines, 1):
        tokens = line.split(b"#", 1)[0].split()
        if not tokens:
            if now.count and b"#" not in line:
                yield now.batch(kind)
                now = _Lines()
            continue
        sign, row = _parsed(tokens, path, number, n, kind)
        pair = row[:2] if directed or row[0] <= row[1] else (row[1], row[0])
        rank = _RANK[sign]
        if not now.fits(pair, sign, row[2]):
            yield now.batch(kind)
            now = _Lines()
        now.rows[sign].append(row)
        now.ranks[pair] = max(rank, now.ranks.get(pair, 0))
        now.count += 1
        if now.count == batch:
            yield now.batch(kind)
            now = _Lines()
    if now.count:
        yield now.batch(kind)


def _parsed(
    tokens: list[bytes], path: StrPath, line: int, n: int, dtype: np.dtype[Any]
) -> tuple[bytes, tuple[int, int, int, float, int]]:
    """Parse one line: its sign; ends, id, weight, line number."""
    sign = tokens[0]
    if sign not in _FIELDS:
        raise FormatError(path, line, f"found {_shown(sign)}, expected '+', '-' or '='")
    least, most, form = _FIELDS[sign]
    if not least <= len(tokens) <= most:
        raise FormatError(path, line, f"found {len(tokens)} fields, expected {form}")
    ends = []
    for name, word in zip(("first", "second"), tokens[1:3], strict=True):
        v = _integer(word, path, line, f"{name} vertex")
        if not 0 <= v < n:
            vertices = f"{n} vertices" + (f", 0 to {n - 1}" if n else "")
            raise FormatError(path, line, f"{name} vertex {v}: the graph has {vertices}")
        ends.append(v)
    id, weight = -1, 1.0
    if sign == b"-":
        rest = tokens[3:]
    else:
        rest = tokens[4:]
        if len(tokens) > 3:
            weight = _weight(tokens[3], path, line, dtype)
    if rest:
        id = _integer(rest[0], path, line, "edge id")
        if id < 0:
            raise FormatError(path, line, f"edge id {id} is negative")
    return sign, (ends[0], ends[1], id, weight, line)


def _integer(word: bytes, path: StrPath, line: int, name: str) -> int:
    try:
        value = int(word) if b"_" not in word else None
    except ValueError:
        value = None
    if value is None:
        raise FormatError(path, line, f"{name}: {_shown(word)} is not an integer")
    if abs(value) >= 1 << 63 and name == "edge id":
        raise FormatError(path, line, f"{name} {value} is too large")
    return value


def _weight(word: bytes, path: StrPath, line: int, dtype: np.dtype[Any]) -> float:
    if dtype.kind != "f":
        value: float = _integer(word, path, line, "weight")
        info = np.iinfo(dtype)
        if value > info.max:
            raise FormatError(path, line, f"weight {value} does not fit {dtype}")
    else:
        try:
            value = float(word)
        except ValueError:
            raise FormatError(path, line, f"weight: {_shown(word)} is not a number") from None
        if value != value:
            raise FormatError(path, line, "weight: nan is not a weight")
    if value < 0:
        raise FormatError(path, line, f"weight {_shown(word)} is negative")
    return value


def _shown(word: bytes) -> str:
    return repr(word.decode("utf-8", "replace"))
