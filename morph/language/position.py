"""Positions in the user's files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pos:
    """Where a node stands in the user's file; lines and columns count from 1 and 0."""

    file: str
    line: int
    col: int
    end: int
