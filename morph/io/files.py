"""Whole files: decompressed on the way in, replaced atomically on the way out."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import mmap
import os
import secrets
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from morph.io.text import FormatError, StrPath

UNPACKED = 1 << 26  # bytes of a compressed file that are unpacked in memory
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_BEGIN = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\x00": ".xz", b"BZh": ".bz2"}  # of a compressed file


def split_compression(path: StrPath) -> tuple[str, str]:
    """Split ``x.gr.xz`` into ``x.gr`` and ``.xz``; the second is empty for a plain file."""
    name = os.fspath(path)
    suffix = Path(name).suffix.lower()
    return (name[: -len(suffix)], suffix) if suffix in _OPENERS else (name, "")


def read_bytes(path: StrPath) -> bytes:
    """Read a file, decompressing ``.gz``, ``.xz`` and ``.bz2``.

    Raises
    ------
    FormatError
        If a compressed file is damaged or cut short.
    OSError
        If the file cannot be read.
    """
    with opened(path) as file:
        return file.read()


def map_bytes(path: StrPath) -> Any:
    """Give a file's bytes as `read_bytes` does, but in memory only what is looked at.

    The result has `find`, slices and the buffer of `bytes`; pages of a large file are the system's,
    which takes them back when memory is short.  A large compressed one is unpacked to a nameless
    file in `tempfile.gettempdir`, which is gone with the result.  The file is not to be written to
    meanwhile.

    Raises
    ------
    FormatError, OSError
        As `read_bytes`; the latter, too, if there is no room for what is unpacked.
    """
    if not split_compression(path)[1]:
        if not os.path.isfile(path) or not os.path.getsize(path):
            return read_bytes(path)
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with opened(path) as packed:
        first = packed.read(UNPACKED)
        if len(first) < UNPACKED:
            return first
        with tempfile.TemporaryFile() as file:
            file.write(first)
            del first
            shutil.copyfileobj(packed, file, UNPACKED >> 4)
            file.flush()
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def read_head(path: StrPath, size: int) -> bytes:
    """Read the first ``size`` bytes of a file, or fewer if it is shorter, as `read_bytes` does."""
    with opened(path) as file:
        return file.read(size)


def read_array(path: StrPath) -> NDArray[np.uint8]:
    """Read a file as `read_bytes` does, into an array that may be written to."""
    if split_compression(path)[1]:
        return np.frombuffer(bytearray(read_bytes(path)), np.uint8)
    return np.fromfile(path, np.uint8)


def decompressed(name: str, data: bytes) -> bytes:
    """Decompress the bytes of a stream if they begin as a compressed file does.

    Raises
    ------
    FormatError
        If they are damaged or cut short; ``name`` stands for the stream.
    """
    for begin, suffix in _BEGIN.items():
        if data.startswith(begin):
            with _damage(name, suffix), _OPENERS[suffix](io.BytesIO(data), "rb") as file:
                return bytes(file.read())
    return data


@contextmanager
def opened(path: StrPath) -> Iterator[IO[bytes]]:
    """Open a file to be read, decompressed; what a decompressor complains of is a `FormatError`."""
    suffix = split_compression(path)[1]
    with _damage(path, suffix), _OPENERS.get(suffix, open)(path, "rb") as file:
        yield file


@contextmanager
def _damage(path: StrPath, suffix: str) -> Iterator[None]:
    """Raise what a decompressor complains of as a `FormatError`."""
    try:
        yield
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(path, None, f"damaged {suffix} file: {error}") from error
    except OSError as error:
        if suffix and error.errno is None:  # bz2 reports bad data as an OSError without a number
            raise FormatError(path, None, f"damaged {suffix} file: {error}") from error
        raise


@contextmanager
def replacing(*paths: StrPath) -> Iterator[list[IO[bytes]]]:
    """Open files for writing that appear under their names, all of them, only at the end.

    They are written under temporary names beside their targets and renamed when the block ends;
    after an error or Ctrl-C nothing is left of them.  A compressed suffix compresses.
    """
    token = f"{os.getpid()}.{secrets.token_hex(4)}.tmp"
    targets = [Path(p) for p in paths]
    hidden = [t.with_name(f".{t.name}.{token}") for t in targets]
    files: list[IO[bytes]] = []
    try:
        for target, temporary in zip(targets, hidden, strict=True):
            opener = _OPENERS.get(split_compression(target)[1], open)
            try:
                files.append(opener(temporary, "wb"))
            except FileNotFoundError:
                message = os.strerror(errno.ENOENT)
                raise FileNotFoundError(errno.ENOENT, message, str(target.parent)) from None
        yield files
        for file in files:
            file.close()
        for temporary, target in zip(hidden, targets, strict=True):
            os.replace(temporary, target)
    finally:
        for file in files:
            file.close()
        for temporary in hidden:
            temporary.unlink(missing_ok=True)


def write_chunks(path: StrPath, chunks: Iterable[bytes]) -> None:
    """Write one file atomically out of ``chunks``."""
    with replacing(path) as (file,):
        for chunk in chunks:
            file.write(chunk)
