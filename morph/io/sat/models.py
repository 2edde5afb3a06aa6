"""Output of SAT solvers in the format of the SAT competitions: ``s`` and ``v`` lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from morph.io.text.files import read_bytes
from morph.io.text.scanner import FormatError, StrPath

WIDTH = 78  # characters of a line of literals
_STATUS = {b"SATISFIABLE": 10, b"SAT": 10, b"UNSATISFIABLE": 20, b"UNSAT": 20, b"UNKNOWN": 0}
_STATUS |= {b"INDETERMINATE": 0, b"INDET": 0}
_WORDS = {10: "SATISFIABLE", 20: "UNSATISFIABLE", 0: "UNKNOWN"}
_LITERAL = re.compile(rb"-?[0-9]{1,10}\Z")


class Answer(NamedTuple):
    """Output of a solver.

    Attributes
    ----------
    status : str
        ``"SATISFIABLE"``, ``"UNSATISFIABLE"`` or ``"UNKNOWN"``.
    model : (n,) bool array or None
        False for variables without a value.
    missing : int
        Variables without a value.
    """

    status: str
    model: NDArray[np.bool_] | None
    missing: int


def read_answer(path: StrPath, variables: int, among: Any = None) -> Answer:
    """Read a solver's answer for a formula with ``variables`` variables.

    ``missing`` counts the variables without a value among all variables, or among those in
    ``among`` (from 1).

    Only lines that begin with ``s`` and ``v`` are read; also accepts MiniSat's files: ``SAT`` and a
    line of literals.

    Raises
    ------
    FormatError
        If there is no status, a literal is invalid, out of range or contradicts another one, or
        the literals do not end with a 0.
    """
    status, truth = None, np.zeros(variables, np.int8)
    ended = True
    for number, line in enumerate(read_bytes(path).split(b"\n"), 1):
        tokens = line.split()
        if not tokens or tokens[0] == b"c":
            continue
        if tokens[0] == b"s" or status is None and tokens[0] in _STATUS:
            named = tokens[-1] if len(tokens) <= 2 else b""
            if named not in _STATUS:
                raise FormatError(path, number, f"a status is {', '.join(_WORDS.values())}")
            if status is not None:
                raise FormatError(path, number, "a second status")
            status = _STATUS[named]
        elif tokens[0] == b"v" or status is not None and _LITERAL.match(tokens[0]):
            ended = _take(path, number, tokens[tokens[0] == b"v" :], truth)
    if status is None:
        raise FormatError(path, None, "there is no line s SATISFIABLE, UNSATISFIABLE or UNKNOWN")
    if not ended:
        raise FormatError(path, None, "the literals do not end with a 0")
    if status != 10:
        return Answer(_WORDS[status], None, variables)
    counted = truth if among is None else truth[np.asarray(among) - 1]
    return Answer(_WORDS[status], truth > 0, int((counted == 0).sum()))


def _take(path: StrPath, number: int, tokens: list[bytes], truth: NDArray[np.int8]) -> bool:
    """Record the values of literals; return whether a 0 ended them."""
    wrong = next((w for w in tokens if not _LITERAL.match(w)), None)
    if wrong is not None:
        raise FormatError(path, number, f"not a literal: {wrong[:40].decode('ascii', 'replace')!r}")
    literals = np.array(tokens, "S").astype(np.int64) if tokens else np.zeros(0, np.int64)
    ends = np.flatnonzero(literals == 0)
    if ends.size and ends[0] != literals.size - 1:
        raise FormatError(path, number, "literals after the 0")
    literals = literals[literals != 0]
    beyond = np.abs(literals) > truth.size
    if beyond.any():
        shown = f"literal {literals[beyond][0]}: the formula has {truth.size} variables"
        raise FormatError(path, number, shown)
    sign, at = np.sign(literals).astype(np.int8), np.abs(literals) - 1
    clash = truth[at] == -sign
    truth[at] = sign
    clash |= truth[at] != sign
    if clash.any():
        name = abs(literals[clash][0])
        raise FormatError(path, number, f"both {name} and -{name}")
    return bool(ends.size)


def model_lines(model: Any, variables: Any = None) -> Iterator[str]:
    """Yield the ``v`` lines of a model (shape (n,), bool), optionally of some variables only."""
    truth = np.asarray(model)
    names = np.arange(1, truth.size + 1) if variables is None else np.asarray(variables)
    literals = np.where(truth[names - 1], names, -names)
    tokens = [*map(str, literals.tolist()), "0"]
    ends = np.cumsum([len(word) + 1 for word in tokens])
    start = 0
    while start < len(tokens):
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + WIDTH - 1, "right")), start + 1)
        yield "v " + " ".join(tokens[start:stop])
        start = stop
