"""Reading with decompression, and atomic replacement of files."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import mmap
import os
import re
import secrets
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from morph.io.text.scanner import FormatError, StrPath
from morph.language.messages import shown
from morph.runtime.toolchain.cache import lock_file

UNPACKED = 1 << 26  # compressed files up to this size, in bytes, are decompressed in memory
PIECE = 1 << 17  # bytes compressed at once; xz takes 0.1 s for them
LOCKED = 2.0  # seconds to wait for the lock of a folder, which other writers hold for renames only
_END = 1 << 16  # bytes compared at each end of a file
_OPENERS: dict[str, Any] = {  # gzip's level 9 takes 20 times as long, for 0 to 15 % less
    ".gz": partial(gzip.open, compresslevel=1), ".xz": lzma.open, ".bz2": bz2.open,
}  # fmt: skip
_BEGIN = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\x00": ".xz", b"BZh": ".bz2"}  # magic numbers


def named(path: StrPath) -> str:
    """Return the name of a file.

    Raises
    ------
    TypeError
        If it is no string and no path.
    """
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str):
        raise TypeError(f"path is a string or a path, not {shown(path)}")
    return name


def split_compression(path: StrPath) -> tuple[str, str]:
    """Split ``x.gr.xz`` into ``x.gr`` and ``.xz``; the second is empty if not compressed."""
    name = named(path)
    suffix = Path(name).suffix.lower()
    return (name[: -len(suffix)], suffix) if suffix in _OPENERS else (name, "")


def read_bytes(path: StrPath) -> bytes:
    """Read a file, decompressing ``.gz``, ``.xz`` and ``.bz2``.

    Raises
    ------
    FormatError
        If a compressed file is damaged or truncated.
    OSError
        If the file cannot be read.
    """
    with opened(path) as file:
        return file.read()


def map_bytes(path: StrPath) -> Any:
    """Return a file's bytes like `read_bytes`, as a memory map if the file is large.

    The result has `find`, slices and the buffer interface, like `bytes`.  A large compressed file
    is decompressed to an unnamed file in `tempfile.gettempdir`, which is deleted with the result.
    The file must not be modified while the result is in use.

    Raises
    ------
    FormatError, OSError
        As `read_bytes`; `OSError` also if there is no space for the decompressed data.
    """
    if not split_compression(path)[1]:
        if not os.path.isfile(path) or not os.path.getsize(path):
            return read_bytes(path)
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with open_seekable(path) as file:
        if isinstance(file, io.BytesIO):
            return file.getvalue()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def read_start(path: StrPath, size: int) -> bytes:
    """Read the first ``size`` bytes of a file, or all if it is shorter, like `read_bytes`."""
    with opened(path) as file:
        return file.read(size)


def read_array(path: StrPath) -> NDArray[np.uint8]:
    """Read a file like `read_bytes`, into a writable array."""
    if split_compression(path)[1]:
        return np.frombuffer(bytearray(read_bytes(path)), np.uint8)
    return np.fromfile(path, np.uint8)


def identity(path: StrPath) -> str:
    """Describe the size of a file, and the bytes at its ends."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _END, 0))
        last = file.read()
        file.seek(0)
        return f"{size} bytes, checksum {zlib.crc32(last, zlib.crc32(file.read(_END))):08x}"


def decompressed(name: str, data: bytes) -> bytes:
    """Decompress the bytes of a stream if its first bytes show that it is compressed.

    Raises
    ------
    FormatError
        If the data is damaged or truncated; ``name`` is the stream's name in the message.
    """
    for begin, suffix in _BEGIN.items():
        if data.startswith(begin):
            with _damage(name, suffix), _OPENERS[suffix](io.BytesIO(data), "rb") as file:
                return bytes(file.read())
    return data


@contextmanager
def opened(path: StrPath) -> Iterator[IO[bytes]]:
    """Open a file for reading with decompression, whose errors become `FormatError`."""
    suffix = split_compression(path)[1]
    with _damage(path, suffix), _OPENERS.get(suffix, open)(path, "rb") as file:
        yield file


@contextmanager
def open_seekable(path: StrPath) -> Iterator[IO[bytes]]:
    """Open a file like `opened`, but a compressed one is decompressed first.

    If it is large, to an unnamed file in `tempfile.gettempdir`.
    """
    with ExitStack() as stack:
        file = stack.enter_context(opened(path))
        if split_compression(path)[1]:
            start = file.read(UNPACKED)
            if len(start) < UNPACKED:
                yield io.BytesIO(start)
                return
            unpacked = stack.enter_context(tempfile.TemporaryFile())
            unpacked.write(start)
            del start
            shutil.copyfileobj(file, unpacked, UNPACKED >> 4)
            unpacked.flush()
            unpacked.seek(0)
            file = unpacked
        yield file


@contextmanager
def _damage(path: StrPath, suffix: str) -> Iterator[None]:
    """Turn errors of a decompressor into `FormatError`."""
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
    """Open files for writing which replace their targets atomically.

    They are written under temporary names beside their targets, locked, and renamed when the block
    ends.  After any error (of writing, closing or renaming) or Ctrl-C the temporary files are
    removed.  Suffixes of compressed files compress.  A symbolic link stays, and its target is
    replaced; a pipe or a device, such as ``/dev/null``, is written to directly.
    """
    targets = [_without_link(Path(p)) for p in paths]
    hidden: list[Path] = []
    files: list[IO[bytes]] = []
    with ExitStack() as cleanup, _naming(targets, hidden):
        for target in targets:
            files.append(_temporary(target, hidden, cleanup))
        yield files
        for file in files:
            file.close()
        pairs = zip(hidden, targets, strict=True)
        replace_together([pair for pair in pairs if pair[0] != pair[1]])


def replace_together(pairs: Sequence[tuple[Path, Path]]) -> None:
    """Rename files to their targets; after an error or an interrupt all targets are as before.

    Processes that replace several files of a folder do so one after the other, so that the files
    of one writer stay together, unless another process holds the lock for more than `LOCKED`.

    Parameters
    ----------
    pairs : sequence of (Path, Path)
        Files and their targets, each file on the file system of its target.

    Raises
    ------
    IsADirectoryError
        If a target is a directory; then nothing has changed.
    OSError
        If a file cannot be renamed.  If a target cannot be restored after that, the error names
        it, and the file that has its previous contents.
    """
    for _, target in pairs:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if len(pairs) == 1:
        os.replace(*pairs[0])
        return
    begun: list[tuple[Path, Path, Path | None]] = []
    kept: set[Path] = set()
    with ExitStack() as cleanup:
        for folder in sorted({target.parent.resolve() for _, target in pairs}):
            _lock_folder(folder, cleanup)  # in one order in all processes
        cleanup.callback(_remove, kept)
        try:
            for made, target in pairs:
                old = _name_beside(target) if target.is_file() else None
                if old is not None:
                    kept.add(old)
                    _keep(target, old)
                begun.append((made, target, old))
                os.replace(made, target)
        except BaseException as error:
            _restore(begun, kept, error)
            raise


def _restore(
    begun: list[tuple[Path, Path, Path | None]], kept: set[Path], error: BaseException
) -> None:
    """Undo renames after an error; further interrupts do not end this.

    A file that cannot be restored stays under its other name, which is removed from ``kept``.
    """
    failed: OSError | None = None
    while begun:
        made, target, old = begun[-1]
        try:
            if made.exists():
                pass  # not renamed
            elif old is None:
                target.unlink(missing_ok=True)
            elif old.exists():  # else restored before an interrupt
                os.replace(old, target)
            begun.pop()
        except OSError as problem:
            begun.pop()
            where = "" if old is None else f"; its previous contents are in {old.name}"
            text = f"cannot restore it ({os.strerror(problem.errno or errno.EIO)}){where}"
            failed = OSError(problem.errno or errno.EIO, text, str(target))
            error.add_note(str(failed))
            kept.discard(old or target)
        except BaseException:
            continue
    if failed is not None and isinstance(error, Exception):
        raise failed from error


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _lock_folder(folder: Path, cleanup: ExitStack) -> None:
    """Lock a folder until ``cleanup``, where the system can; wait for other writers only briefly.

    A process that has started this one may hold the lock, as ``flock FOLDER COMMAND`` does.
    """
    if os.name == "posix":
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            cleanup.callback(os.close, handle)
            until = monotonic() + LOCKED
            while not lock_file(handle, wait=False) and monotonic() < until:
                sleep(0.005)


def _keep(path: Path, name: Path) -> None:
    """Give a file a second name; a copy where the file system has no hard links."""
    try:
        os.link(path, name)
    except OSError:
        shutil.copy2(path, name)


def _is_special(path: Path) -> bool:
    """Whether a path names a pipe, a socket or a device, which no file can replace."""
    return path.exists() and not (path.is_file() or path.is_dir())


def _without_link(path: Path) -> Path:
    return path.resolve() if path.is_symlink() and not _is_special(path) else path


@contextmanager
def _naming(targets: list[Path], hidden: list[Path]) -> Iterator[None]:
    """Replace temporary file names by the targets' names in system errors."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            names = dict(zip(map(os.fspath, hidden), map(os.fspath, targets), strict=False))
            only = targets[0] if len(targets) == 1 else targets[0].parent
            given = error.filename
            error.filename = os.fspath(only) if given is None else names.get(str(given), given)
            if error.filename2 is not None:
                del error.filename2  # with None the message would end with "-> None"
        raise


def _temporary(target: Path, hidden: list[Path], cleanup: ExitStack) -> IO[bytes]:
    """Create and lock the temporary file of ``target``; ``cleanup`` closes and removes it.

    A pipe or device has no temporary file: it is opened directly.
    """
    opener = _OPENERS.get(split_compression(target)[1], open)
    if _is_special(target):
        hidden.append(target)
        return cleanup.enter_context(open(target, "wb"))
    while True:
        temporary = _name_beside(target)
        hidden.append(temporary)
        cleanup.callback(temporary.unlink, missing_ok=True)
        try:
            file: Any = opener(temporary, "wb")
        except FileNotFoundError:
            message = os.strerror(errno.ENOENT)
            raise FileNotFoundError(errno.ENOENT, message, str(target.parent)) from None
        cleanup.callback(_close_quietly, file)  # runs before the file is removed
        lock_file(file.fileno())
        if temporary.exists():  # else `remove_leftovers` removed it before it was locked
            return cast(IO[bytes], file if opener is open else InPieces(file))
        hidden.pop()


def _name_beside(target: Path) -> Path:
    """A new name of a temporary file in the folder of ``target``."""
    return target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")


class InPieces(io.BufferedIOBase):
    """A compressing file, written in pieces, so that an interrupt waits for one piece only."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Compress all of ``data``."""
        with memoryview(data) as view, view.cast("B") as whole:
            for start in range(0, len(whole), PIECE):
                self._file.write(whole[start : start + PIECE])
            return len(whole)

    def close(self) -> None:
        """Close the compressor and its file."""
        try:
            super().close()
        finally:
            self._file.close()


def _close_quietly(file: IO[bytes]) -> None:
    """Close a file whose contents are discarded; no error if it is already closed."""
    with suppress(OSError):
        file.close()


def remove_leftovers(path: StrPath) -> None:
    """Remove temporary files of killed writers of ``path``; files in use are locked.

    Errors are ignored.
    """
    target = Path(path)
    temporary = re.compile(rf"\.{re.escape(target.name)}\.\d+\.[0-9a-f]{{8}}\.tmp")
    with suppress(OSError):
        for entry in list(os.scandir(target.parent)):
            if temporary.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                _remove_unlocked(entry.path)


def _remove_unlocked(path: str) -> None:
    with suppress(OSError), open(path, "r+b") as file:
        if lock_file(file.fileno(), wait=False):
            os.unlink(path)


def write_chunks(path: StrPath, chunks: Iterable[bytes]) -> None:
    """Write one file atomically from ``chunks``."""
    with replacing(path) as (file,):
        for chunk in chunks:
            file.write(chunk)
