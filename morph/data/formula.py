"""Formulas in conjunctive normal form: clauses of signed literals, in compressed rows."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.language.arguments import integer
from morph.language.dtypes import ID_LIMIT
from morph.language.hooks import Hook
from morph.language.messages import shortened, shown
from morph.runtime.arrays import listed, refuse_masked
from morph.runtime.device import device

read_cnf: Hook[Formula] = Hook()  # provided by io

Offsets = NDArray[np.int64]
Literals = NDArray[np.int32]

_HOST = device("cpu")


class Formula:
    """A conjunction of clauses, each a disjunction of literals, on the host.

    Clauses are not simplified: empty clauses, repeated literals, and a literal together with its
    negation are allowed, and a variable need not occur.

    Parameters
    ----------
    variables : int
        The number of variables, numbered from 1.
    offsets : (m + 1,) integer array
        Clause ``c`` has the literals from ``offsets[c]`` to ``offsets[c + 1]``; stored as int64.
    literals : integer array
        ``v`` for variable v, ``-v`` for its negation, never 0; stored as int32.

    Attributes
    ----------
    variables : int
    offsets : (m + 1,) int64 array
    literals : (l,) int32 array

    Raises
    ------
    ValueError
        If offsets do not begin at 0, decrease, or do not end at the number of literals; if a
        literal is 0 or names no variable.  The message has the first such position.
    TypeError
        If an array has no integers.
    """

    __slots__ = ("literals", "offsets", "variables")

    variables: int
    offsets: Offsets
    literals: Literals

    def __init__(self, variables: int, offsets: Any, literals: Any) -> None:
        n = _count(variables)
        first, held = _row("offsets", offsets), _row("literals", literals)
        if first.size == 0 or first[0] != 0:
            raise ValueError("offsets must begin with 0")
        falls = first[1:] < first[:-1]
        if falls.any():
            c = int(falls.argmax())
            raise ValueError(f"offsets[{c + 1}] = {first[c + 1]} is less than the one before")
        if first[-1] != held.size:
            raise ValueError(f"offsets end at {first[-1]}, but there are {held.size} literals")
        if held.size and (held.max() > n or held.min() < -n or not held.all()):
            k = int(((held == 0) | (held > n) | (held < -n)).argmax())
            c = int(np.searchsorted(first, k, "right")) - 1
            raise ValueError(
                f"literal {held[k]} of clause {c} (counted from 0): expected"
                + (f" -{n} to {n}, without 0" if n else " none, as there are no variables")
            )
        self.variables = n
        self.offsets = np.ascontiguousarray(first, np.int64)
        self.literals = np.ascontiguousarray(held, np.int32)

    @classmethod
    def of(cls, source: Any, variables: int | None = None) -> Formula:
        """Convert an object to a formula.

        Parameters
        ----------
        source : Formula, path, binary file, pair of arrays, array, or iterable of clauses
            A path or file is read by `morph.io.read_cnf`.  A tuple of two arrays, NumPy's or
            CuPy's, is ``(offsets, literals)``; an array of shape (m, k) is m clauses of k literals.
            A clause is an iterable of integers.  PySAT's ``CNF`` is accepted, too.
        variables : int, optional
            By default the largest variable that occurs, or the number in the file or object.

        Raises
        ------
        ValueError, TypeError
            As by the constructor.
        FormatError, OSError
            As by `morph.io.read_cnf`.
        """
        if isinstance(source, Formula):
            same = variables in (None, source.variables)
            return source if same else cls(variables or 0, source.offsets, source.literals)
        if isinstance(source, str | os.PathLike) or hasattr(source, "read"):
            return cls.of(read_cnf(source), variables)
        if hasattr(source, "clauses") and hasattr(source, "nv"):
            if getattr(source, "atmosts", None):
                kind = shortened(type(source).__name__, 40)
                raise ValueError(f"a {kind} with cardinality constraints is no list of clauses")
            return cls.of(source.clauses, source.nv if variables is None else variables)
        if isinstance(source, tuple) and len(source) == 2 and all(map(_is_array, source)):
            offsets, literals = (_row(n, a) for n, a in zip(_PAIR, source, strict=True))
        elif _is_array(source) and source.ndim == 2:
            rows, width = source.shape
            offsets, literals = np.arange(rows + 1) * width, _row("literals", source.ravel())
        else:
            offsets, literals = _flattened(source)
        if variables is None:
            variables = (
                max(map(abs, (int(literals.max()), int(literals.min())))) if literals.size else 0
            )
        return cls(variables, offsets, literals)

    @property
    def clauses(self) -> int:
        """Number of clauses."""
        return len(self.offsets) - 1

    def occurring(self) -> NDArray[np.int64]:
        """Return the variables that occur in clauses, sorted."""
        names = np.abs(self.literals)
        if self.variables > 8 * names.size:
            return np.unique(names).astype(np.int64)
        seen = np.zeros(self.variables + 1, bool)
        seen[names] = True
        return np.flatnonzero(seen)

    def lists(self) -> list[list[int]]:
        """Return the clauses as lists of int."""
        flat, at = self.literals.tolist(), self.offsets.tolist()
        return [flat[a:b] for a, b in zip(at, at[1:], strict=False)]

    def to_pysat(self) -> Any:
        """Return a ``pysat.formula.CNF``.

        Raises
        ------
        ImportError
            If python-sat is not installed.
        """
        try:
            from pysat.formula import CNF  # noqa: PLC0415
        except ImportError as error:
            message = "this needs python-sat: pip install 'morph-engine[sat]'"
            raise ImportError(message) from error
        made = CNF(from_clauses=self.lists())
        made.nv = self.variables
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Formula):
            return NotImplemented
        return (
            self.variables == other.variables
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.literals, other.literals)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Formula({self.variables} variables, {self.clauses} clauses,"
            f" {len(self.literals)} literals)"
        )


_PAIR = ("offsets", "literals")


def _is_array(x: Any) -> bool:
    return hasattr(x, "dtype") and hasattr(x, "ndim")


def _count(variables: Any) -> int:
    """Check a number of variables."""
    n = integer(variables, "variables")
    if not 0 <= n <= ID_LIMIT:
        raise ValueError(f"variables = {shown(n)}: expected 0 to {ID_LIMIT}")
    return n


def _row(name: str, values: Any) -> NDArray[Any]:
    """Return integers as an array on the host, shape (k,)."""
    refuse_masked(values, name)
    array = _HOST.to_host(listed(values, name))
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (k,), got {array.shape}")
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got {array.dtype}")
    return array


def _flattened(source: Iterable[Iterable[int]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return offsets and literals of clauses."""
    try:
        rows = [list(c) for c in source]
    except TypeError:
        raise TypeError(
            "a formula is made of a path, clauses, or (offsets, literals), not of"
            f" {type(source).__name__}, or of its elements"
        ) from None
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(c) for c in rows], out=offsets[1:])
    held = list(chain.from_iterable(rows))
    wrong = tuple(
        t for t in set(map(type, held))
        if t in (bool, np.bool_) or not hasattr(t, "__index__")
    )  # fmt: skip
    if wrong:
        found = next(x for x in held if isinstance(x, wrong))
        raise TypeError(f"a literal is an integer, not {shown(found)}")
    try:
        return offsets, np.array(held, np.int64)
    except OverflowError:
        large = next(x for x in held if not -ID_LIMIT <= x <= ID_LIMIT)
        raise ValueError(f"literal {shown(large)}: at most {ID_LIMIT} is possible") from None
