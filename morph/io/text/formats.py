"""A row of the registry of file formats; `morph.io.formats` has all rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Format:
    """A file format.

    Attributes
    ----------
    kind : str
        What a file holds: ``"graph"``, ``"mesh"``, ``"part of a mesh"``, ``"formula"`` or
        ``"snapshot"``.
    name : str
        As argument ``format``.
    suffixes : tuple of str
    common : int
        So many suffixes are listed in help texts and tables.
    about : str
        Contents, for docs/files.md.
    reader, writer : str
        Functions of `morph.io`, for docs/files.md.
    compressed : bool
        Whether a further suffix ``.gz``, ``.xz`` or ``.bz2`` compresses.
    """

    kind: str
    name: str
    suffixes: tuple[str, ...]
    about: str
    reader: str
    writer: str
    common: int = 1
    compressed: bool = False
