"""How the compiler says no: file, line, the source with a caret, what is wrong, what would do."""

from __future__ import annotations

import linecache
from typing import NoReturn

from morph.lang.node import Pos


class LanguageError(Exception):
    """A kernel that the language does not allow.

    Attributes
    ----------
    problem : str
        What is wrong, in one line.
    hint : str
        What would be accepted; may be empty.
    pos : Pos
        Where: file, line, first and last column.
    """

    def __init__(self, problem: str, pos: Pos, hint: str = "") -> None:
        self.problem, self.pos, self.hint = problem, pos, hint
        super().__init__(problem)

    def __str__(self) -> str:
        line = linecache.getline(self.pos.file, self.pos.line).rstrip("\n")
        text = f"{self.pos.file}:{self.pos.line}: {self.problem}"
        if line:
            width = max(1, min(self.pos.end, len(line)) - self.pos.col)
            blank = "".join("\t" if c == "\t" else " " for c in line[: self.pos.col])
            text += f"\n    {line}\n    {blank}{'^' * width}"
        return f"{text}\n  {self.hint}" if self.hint else text


def reject(problem: str, pos: Pos, hint: str = "") -> NoReturn:
    """Refuse the program at a position."""
    raise LanguageError(problem, pos, hint)
