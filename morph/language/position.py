"""Positions in the user's files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pos:
    """The position of a node in the user's file; lines count from 1, columns from 0."""

    file: str
    line: int
    col: int
    end: int
