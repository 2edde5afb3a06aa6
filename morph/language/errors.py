"""Errors of the compiler: file, line, the source with a caret, the problem, and a hint."""

from __future__ import annotations

import linecache
from typing import NoReturn

from morph.language.messages import shortened
from morph.language.position import Pos


class LanguageError(Exception):
    """A kernel that the language does not allow.

    Attributes
    ----------
    problem : str
        The problem, in one line.
    hint : str
        An accepted alternative; may be empty.
    pos : Pos
        The position: file, line, first and last column.
    """

    def __init__(self, problem: str, pos: Pos, hint: str = "") -> None:
        self.problem, self.pos, self.hint = shortened(problem), pos, shortened(hint)
        super().__init__(self.problem, pos, self.hint)  # pickle calls the class with these

    def __str__(self) -> str:
        text = f"{self.pos.file}:{self.pos.line}: {self.problem}{_pointed(self.pos)}"
        return f"{text}\n  {self.hint}" if self.hint else text


class CheckError(RuntimeError):
    """A violation of the rules of the language by an item.

    A checked launch detects all violations; other launches only detect that an item exceeds the
    limit of a ``reserve`` of its kernel.

    Attributes
    ----------
    problem : str
        The problem, with the values and the item, in one line.
    pos : Pos
        The position: file, line, first and last column.
    other : Pos or None
        For a race, the position of the other access.
    """

    def __init__(self, problem: str, pos: Pos, other: Pos | None = None) -> None:
        self.problem, self.pos, self.other = shortened(problem), pos, other
        super().__init__(self.problem, pos, other)

    def __str__(self) -> str:
        text = f"{self.pos.file}:{self.pos.line}: {self.problem}{_pointed(self.pos)}"
        if self.other is not None and self.other != self.pos:
            text += f"\n{self.other.file}:{self.other.line}:{_pointed(self.other)}"
        return text


def _pointed(pos: Pos) -> str:
    """The user's line, and carets below the position; each line begins with a line feed."""
    line = linecache.getline(pos.file, pos.line).rstrip("\n")
    if not line:
        return ""
    width = max(1, min(pos.end, len(line)) - pos.col)
    blank = "".join("\t" if c == "\t" else " " for c in line[: pos.col])
    return f"\n    {line}\n    {blank}{'^' * width}"


def reject(problem: str, pos: Pos, hint: str = "") -> NoReturn:
    """Refuse the program at a position."""
    raise LanguageError(problem, pos, hint)
