"""The disk cache: one binary per distinct text, flags, compiler and machine.

An entry is three files named by the hash of everything that went into it: ``<key>.cpp`` (the
text), ``<key>.so`` or ``<key>.cubin`` (the binary) and ``<key>.json`` (what it is, and the
binary's checksum). Each is written under a temporary name and then renamed, the record last, so
any number of processes may share the directory: a reader sees a whole entry or none, and one
whose checksum does not match is built again.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache as memoised
from functools import lru_cache
from pathlib import Path
from typing import Any

from morph.runtime.toolchain import CacheUnusable, time_left

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LINE = re.compile(r"^[ \t]*#[ \t]*line\b.*\n?", re.MULTILINE)
_LINE_WITHIN = re.compile(r"#[ \t]*line\b")
_KEY = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = "tmp-"
_NOEXEC = "mounted noexec"
_RECORD = "compiler-"
_UNIT, _TEXT = "unit-", "text-"  # begin the names of records of units, and of their texts
BACKGROUND = "background-"  # begins the names of the files that `tiers` locks
_ABANDONED = 3600.0  # seconds after which no process can still use a temporary file


@dataclass(frozen=True, slots=True)
class Entry:
    """One cached binary.

    Attributes
    ----------
    key : str
        Hash of all that went into it (64 hexadecimal digits).
    name : str
        The kernel's name.
    target : str
        ``"cpu"`` or a CUDA architecture.
    compiler : str
        First line of the compiler's version.
    created : float
        Seconds since the epoch.
    size : int
        Bytes of the binary.
    checksum : str
        SHA-256 of the binary.
    suffix : str
        ``"so"`` or ``"cubin"``.
    """

    key: str
    name: str
    target: str
    compiler: str
    created: float
    size: int
    checksum: str
    suffix: str

    @property
    def binary(self) -> Path:
        """Path of the binary."""
        return path(self.suffix) / f"{self.key}.{self.suffix}"

    @property
    def source(self) -> Path:
        """Path of the text it was made from."""
        return path() / f"{self.key}.cpp"


def path(suffix: str = "") -> Path:
    """Return the cache directory, created if necessary.

    ``$MORPH_CACHE``, else ``morph`` in the platform's cache directory. If nothing can be written
    there, a temporary directory that lasts as long as the process, with one warning; also for
    libraries, if the file system forbids to execute files.

    Parameters
    ----------
    suffix : str
        Of the binary that is to be written or loaded: ``"so"`` or ``"cubin"``.

    Raises
    ------
    CacheUnusable
        If there is no such temporary directory either.
    """
    wanted = Path(os.environ.get("MORPH_CACHE") or _platform())
    try:
        wanted = wanted.expanduser().absolute()
        wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(wanted, os.R_OK | os.W_OK | os.X_OK):
            reason = "not writable"
        elif suffix == "so" and _is_noexec(wanted):
            reason = _NOEXEC
        else:
            return wanted
    except RuntimeError:  # HOME is not set, and the user has no entry in /etc/passwd
        reason = "no home directory"
    except OSError as error:
        reason = error.strerror or str(error)
    return _fallback(wanted, reason)


def _is_noexec(folder: Path) -> bool:
    """Whether libraries in a folder cannot be loaded; false where the system does not report it."""
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_NOEXEC)
    except (AttributeError, OSError):
        return False


def require_execution(folder: Path) -> None:
    """Refuse a folder whose libraries cannot be loaded.

    Raises
    ------
    CacheUnusable
        If it is mounted ``noexec``.
    """
    if _is_noexec(folder):
        raise CacheUnusable(
            f"{folder} is {_NOEXEC}, so that no kernel there can be executed: "
            "set MORPH_CACHE to a directory that is not"
        )


def _platform() -> str:
    if sys.platform == "darwin":
        return "~/Library/Caches/morph"
    if os.name == "nt":
        return os.path.join(os.environ.get("LOCALAPPDATA") or "~/AppData/Local", "morph", "cache")
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "morph")


@memoised
def _fallback(wanted: Path, reason: str) -> Path:
    """Return a temporary directory of this process, with one warning; see `path`."""
    try:
        made = Path(tempfile.mkdtemp(prefix="morph-"))
    except OSError as error:
        raise CacheUnusable(
            f"compiled kernels cannot be stored: {wanted} is unusable ({reason}), and there is no "
            "temporary directory: set MORPH_CACHE to a directory that can be written"
        ) from error
    atexit.register(_remove, made, os.getpid())
    if reason == _NOEXEC:
        require_execution(made)
    warnings.warn(
        f"each process compiles its kernels again: the cache {wanted} is unusable ({reason}); "
        "set MORPH_CACHE to a directory that can be written, and is not mounted noexec",
        RuntimeWarning,
        stacklevel=4,
    )
    return made


def _remove(made: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not remove its parent's directory
        shutil.rmtree(made, ignore_errors=True)


def key(text: str, *parts: str) -> str:
    """Return the hash of a text, its ``#line`` directives left out, and of ``parts``.

    Code that only moved within its file keeps its key.
    """
    digest = _digest(text).copy()
    for part in parts:
        _extend(digest, part)
    found: str = digest.hexdigest()
    return found


@lru_cache(maxsize=2)  # the full and the quick compilation of a text have a key each
def _digest(text: str) -> Any:
    digest = hashlib.sha256()
    _extend(digest, _without_lines(text))
    return digest


def _extend(digest: Any, part: str) -> None:
    data = part.encode()
    digest.update(b"%d:" % len(data))  # lengths keep ("ab", "c") from ("a", "bc")
    digest.update(data)


def _without_lines(text: str) -> str:
    """Leave out ``#line`` directives; most of a text is the prelude, which has none."""
    if (found := _LINE_WITHIN.search(text)) is None:
        return text
    first = text.rfind("\n", 0, found.start()) + 1
    return text[:first] + _LINE.sub("", text[first:])


def load(key: str) -> Entry | None:
    """Return the entry of ``key`` if it is whole, else None."""
    entry = _read(path() / f"{key}.json")
    if entry is None:
        return None
    try:
        data = entry.binary.read_bytes()
    except OSError:
        return None
    return entry if hashlib.sha256(data).hexdigest() == entry.checksum else None


@contextlib.contextmanager
def building(key: str, name: str, pause: Callable[[], object] | None = None) -> Iterator[None]:
    """Hold the lock of an entry: of several processes one builds it, the others then load it.

    Without locks, which some file systems lack, each builds it and the last one's is kept.
    ``pause`` is called again and again while another process has the lock.
    """
    with open(path() / f"{_TEMPORARY}{key}.lock", "ab") as file:
        with contextlib.suppress(OSError):
            while not lock_file(file.fileno(), wait=False):
                time_left(f"compile {name}")
                time.sleep(0.01) if pause is None else pause()
        try:
            yield
        finally:  # those that wait for the removed file still lock it one after the other
            with contextlib.suppress(OSError):
                os.unlink(file.name)


def lock_file(handle: int, wait: bool = True) -> bool:
    """Lock an open file for this process; false if another one holds it and ``wait`` is not set.

    The system drops the lock when the file is closed, however the process ends.  Where there is
    no `fcntl` nothing is locked.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def store(
    key: str, suffix: str, binary: Path, text: str, *, name: str, target: str, compiler: str
) -> Entry:
    """Move ``binary``, a file made by `temporary`, and its text into the cache."""
    data = binary.read_bytes()
    entry = Entry(
        key=key,
        name=name,
        target=target,
        compiler=compiler,
        created=time.time(),
        size=len(data),
        checksum=hashlib.sha256(data).hexdigest(),
        suffix=suffix,
    )
    write_text(key, text)
    os.replace(binary, entry.binary)
    _write(f"{key}.json", json.dumps(asdict(entry), indent=1))
    return entry


def write_text(key: str, text: str) -> Path:
    """Write the text of an entry, or of a build that failed, and return its path."""
    return _write(f"{key}.cpp", text)


def temporary(suffix: str, folder: Path | None = None) -> Path:
    """Return a new, empty file in the cache or a folder, whose name no other process uses."""
    handle, name = tempfile.mkstemp(f".{suffix}", _TEMPORARY, folder or path(suffix))
    os.close(handle)
    return Path(name)


def recall(name: str) -> dict[str, Any] | None:
    """Return the dictionary that `remember` stored under ``name``, or None."""
    return _recall(path() / f"{_RECORD}{name}.json")


def _recall(file: Path) -> dict[str, Any] | None:
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return known if isinstance(known, dict) else None


def remember(name: str, facts: dict[str, Any]) -> None:
    """Store facts that are found only once, such as the properties of a compiler."""
    _write(f"{_RECORD}{name}.json", json.dumps(facts, indent=1))


def recall_unit(key: str, folder: Path) -> dict[str, Any] | None:
    """Return the dictionary that `remember_unit` stored in a folder; None if missing or damaged."""
    try:
        checksum, _, record = (folder / f"{_UNIT}{key}.json").read_bytes().partition(b"\n")
        if checksum.decode() != hashlib.sha256(record).hexdigest():
            return None
        known: dict[str, Any] = json.loads(record)
        text = (folder / f"{_TEXT}{known['text']}.txt").read_bytes()
        if known["text"] != hashlib.sha256(text).hexdigest():
            return None
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return known | {"text": text.decode()}


def remember_unit(key: str, facts: dict[str, Any], folder: Path | None) -> None:
    """Store what is known of a unit before it is compiled: in the cache, or in a new folder.

    The text is a file named by its checksum, since many units share it.  The first line of the
    record is a checksum of the second: what is compiled is not made of damaged files.
    """
    text = hashlib.sha256(facts["text"].encode()).hexdigest()
    _write(f"{_TEXT}{text}.txt", facts["text"], folder)
    record = json.dumps(facts | {"text": text})  # in ASCII
    checksum = hashlib.sha256(record.encode()).hexdigest()
    _write(f"{_UNIT}{key}.json", f"{checksum}\n{record}", folder)


def entries() -> list[Entry]:
    """Return all entries, oldest first."""
    found = (_read(file) for file in path().glob("*.json") if _KEY.fullmatch(file.stem))
    return sorted((e for e in found if e is not None), key=lambda e: (e.created, e.key))


def size() -> int:
    """Return the bytes on disk of everything in the cache."""
    return sum(map(_bytes, _ours()))


def clear() -> int:
    """Remove everything the cache wrote; return how many entries that were.

    Other files in the directory, and temporary files that may still be in use, are left alone.
    """
    removed = len(entries())
    for file in _ours():
        if not file.name.startswith(_TEMPORARY) or _age(file) > _ABANDONED:
            file.unlink(missing_ok=True)
    return removed


def _bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # a temporary file of another process, renamed by now
        return 0


def _age(file: Path) -> float:
    try:
        return time.time() - file.stat().st_mtime
    except OSError:
        return 0.0


def _ours() -> list[Path]:
    return [
        file
        for file in path().iterdir()
        if _KEY.fullmatch(file.stem)
        or file.name.startswith((_RECORD, _UNIT, _TEXT, _TEMPORARY, BACKGROUND))
    ]


def _read(record: Path) -> Entry | None:
    try:
        return Entry(**json.loads(record.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # missing, cut short, or of another version
        return None


def _write(name: str, text: str, folder: Path | None = None) -> Path:
    file, final = temporary("part", folder), (folder or path()) / name
    try:
        file.write_text(text, encoding="utf-8", newline="\n")
        os.replace(file, final)
    finally:
        file.unlink(missing_ok=True)
    return final
