"""A row of the registry of file formats; `morph.io.formats` has all rows."""

from __future__ import annotations

import os
from dataclasses import dataclass

from morph.io.text.scanner import StrPath


@dataclass(frozen=True, kw_only=True)
class Format:
    """A file format.

    Attributes
    ----------
    kind : str
        Contents of a file: ``"graph"``, ``"mesh"``, ``"part of a mesh"``, ``"formula"`` or
        ``"snapshot"``.
    name : str
        Value of the argument ``format``.
    suffixes : tuple of str
    common : int
        Number of suffixes listed in help texts and tables.
    about : str
        Description of the contents, for docs/files.md.
    reader, writer : str
        Functions of `morph.io`, for docs/files.md.
    compressed : bool
        Whether a further suffix ``.gz``, ``.xz`` or ``.bz2`` is allowed.
    """

    kind: str
    name: str
    suffixes: tuple[str, ...]
    about: str
    reader: str
    writer: str
    common: int = 1
    compressed: bool = False


def suffix_of(path: StrPath) -> str:
    """Return the suffix of a path in lower case, with that before ``.gz``."""
    stem, suffix = os.path.splitext(os.fspath(path).lower())
    return os.path.splitext(stem)[1] + suffix if suffix == ".gz" else suffix
