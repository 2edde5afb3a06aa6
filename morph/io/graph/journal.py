"""Changing graphs on disk: a snapshot and a log of the batches since then (see `snapshot`).

The records of the log are the batches in their original form.  A record is written after the graph
in memory has changed and all checks have passed, as the last step of `apply` that can fail.  So
every batch in the log was accepted, and `apply` has not returned for an incomplete last record.

The open log is locked (`flock`), so that at most one journal writes to it; the system releases the
lock when the process ends, also when it is killed.  Changes by programs that ignore the lock are
detected: before each record, the journal checks that log and snapshot are the files that it wrote.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import warnings
from collections.abc import Mapping
from io import RawIOBase
from pathlib import Path
from time import perf_counter
from typing import Any, Self

from numpy.typing import NDArray

from morph.data.reclaim import release
from morph.graph import Graph
from morph.graph.applied import Applied, Then
from morph.io.graph.snapshot import (
    BATCH,
    Arrays,
    check_name,
    is_torn,
    lock_log,
    number_at,
    packed,
    record,
    records,
    restored,
    store,
    sync_folder,
    unpacked,
)
from morph.io.text.files import named, remove_leftovers
from morph.io.text.scanner import FormatError, StrPath
from morph.language.arguments import boolean, check_callable
from morph.language.messages import shown
from morph.language.weak import WeakObjects
from morph.runtime.device import Device
from morph.updates.edge_ids import use_next

_logger = logging.getLogger("morph.journal")
READ_ONLY = errno.EACCES, errno.EPERM, errno.EROFS
READS = 8  # attempts to read a snapshot and its log while another process writes checkpoints
_open: WeakObjects[Journal] = WeakObjects()


def _append(file: RawIOBase, data: bytes) -> None:
    """Write all data without a buffer, so that a failed write is never completed later."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) or 0 :]
    os.fsync(file.fileno())


class Journal:
    """A changing graph on disk: a snapshot, and a log of the batches since then.

    `apply` writes an accepted batch to the disk before it returns.  A process that is killed at any
    moment resumes with all batches whose `apply` had returned, at most one whose `apply` had not,
    and no batch that was rejected.

    Parameters
    ----------
    path : path
        Path of the snapshot, or a symbolic link to it; the log has the same path plus ``.log``.
    graph : Graph, optional
        Initial graph, which replaces existing files.  None resumes.
    device : str or Device, optional
        Device of a resumed graph; see `morph.set_device` for the default.
    then : callable, optional
        Called with the result of each batch that is replayed when the journal is resumed.
        ``told`` is its deprecated name.
    note : dict, optional
        Metadata stored with an initial graph, e.g. its origin.
    readonly : bool
        Read the current state on the disk, also while another process writes: no lock, no `apply`.

    Attributes
    ----------
    graph : Graph
        Change it by `apply` only: other changes are not logged.
    number : int
        Number of the last batch applied, from 1.
    dropped_bytes : int
        Bytes of an incomplete record at the end of the log, which were dropped.
    readonly : bool
        Also true if the journal was resumed without permission to write its log.
    note : dict
        The metadata stored with the initial graph.

    Raises
    ------
    TypeError
        If ``graph`` is not a `Graph`, for example a `PartitionedGraph`.
    ValueError
        If the name has the suffix of a compressed file.
    FormatError
        If the snapshot or the log is damaged, or the log does not continue the snapshot; the log
        is not changed.
    BlockingIOError
        If another open journal, in this or another process, has locked the log.
    OSError
        If the files cannot be read or written.

    Notes
    -----
    Threads may share a journal: batches are serialised.  In a forked child process the journal is
    closed.
    """

    def __init__(
        self, path: StrPath, graph: Graph | None = None, device: str | Device | None = None,
        then: Then = None, note: dict[str, Any] | None = None, *, readonly: bool = False,
        told: Then = None,
    ) -> None:  # fmt: skip
        if told is not None:
            warnings.warn("Journal(told=) is now then=", DeprecationWarning, stacklevel=2)
            then = told
        check_name(path)
        if not isinstance(graph, Graph | None):
            raise TypeError(f"graph is a Graph on one device, not {shown(graph)}")
        if graph is not None and readonly:
            raise ValueError("readonly=True reads a journal that exists: leave out graph=")
        if os.path.islink(path):  # the log is beside the target of the link
            path = os.path.realpath(path)
        self.path, self.log = Path(named(path)), Path(f"{named(path)}.log")
        self.dropped_bytes = self._end = 0
        self._last = -1  # offset of the log's last record
        # whether records need ids of inserted edges: they depend on objects that are in no snapshot
        self._named = graph is not None and _referred(graph)
        if graph is None:
            os.stat(path)  # before a log is created
        self._file = None if readonly else self._locked(resumed=graph is None)
        self.readonly = self._file is None
        try:
            if graph is None:
                self._resume(device, then)
            else:
                self.graph, self.number, self.note = graph, 0, note or {}
                store(path, graph, 0, note, ready=self._empty)
            if self._file is not None:
                remove_leftovers(path)
                sync_folder(path)
        except BaseException:
            self.close()
            raise
        self._stamp = _stamp(self.path)
        _open.add(self)

    @property
    def torn(self) -> int:
        """Deprecated name of ``dropped_bytes``."""
        warnings.warn("Journal.torn is now dropped_bytes", DeprecationWarning, stacklevel=2)
        return self.dropped_bytes

    def _locked(self, resumed: bool) -> RawIOBase | None:
        """Open and lock the log; return None if a log to resume may only be read."""
        while True:
            try:
                handle = os.open(self.log, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                if resumed and error.errno in READ_ONLY:
                    return None
                raise
            file = io.FileIO(handle, "r+")
            try:
                lock_log(file, self.log)
                if _is_at(file, self.log):  # else the file was replaced before it was locked
                    return file
            except BaseException:
                file.close()
                raise
            file.close()

    def apply(
        self, inserts: Any = None, deletes: Any = None, updates: Any = None,
        delete_points: Any = None, *, nonnegative: bool = False, by: Any = None,
    ) -> Any:  # fmt: skip
        """Apply a batch, see `Graph.apply`, and log it; a rejected batch is not logged.

        ``by``, for example `DynamicSSSP.apply`, replaces `Graph.apply`, and its result is returned.
        It gets an argument ``then``, which it must call as its last step that can fail; if ``then``
        raises, ``by`` must roll back the graph.
        After an interrupt (Ctrl-C) in this call the journal is closed: open it again.

        Raises
        ------
        OSError
            If the batch cannot be written to the disk, the journal is readonly, or another program
            has changed its files; the batch is then not applied.
        """
        nonnegative = boolean(nonnegative, "nonnegative")
        check_callable(by, "by")
        with self.graph._lock:
            return self._apply(inserts, deletes, updates, delete_points, nonnegative, by)

    def _apply(
        self, inserts: Any, deletes: Any, updates: Any, delete_points: Any, nonnegative: bool,
        by: Any,
    ) -> Any:  # fmt: skip
        file, batch = self._writable(), (inserts, deletes, updates, delete_points)
        logged = self.graph.ids_in_batch(*batch) if self.graph.labelled else batch
        given = dict(zip(("inserts", "deletes", "updates", "delete_points"), logged, strict=True))
        about, arrays = self._host_arrays(given)
        about["nonnegative"] = nonnegative
        entry = record(BATCH, self.number + 1, packed(about, arrays))
        kept: list[bool] = []
        self._named |= _referred(self.graph)  # also if the batch is refused

        def then(applied: object) -> None:
            if self._named and isinstance(applied, Applied):
                arrays["inserted"] = self.graph.device.to_host(applied.inserted)
                self._write_entry(file, record(BATCH, self.number + 1, packed(about, arrays)))
            else:
                self._write_entry(file, entry)
            kept.append(True)

        try:
            if by is None:
                done = self.graph.apply(*batch, nonnegative=nonnegative, then=then)
            else:
                done = by(*batch, then=then)
        except BaseException as error:
            if kept or not isinstance(error, Exception):  # the logged batch may be unapplied
                file.close()
            raise
        if not kept:
            file.close()
            raise RuntimeError("`by` did not call `then`: the batch is not in the log")
        self.number += 1
        return done

    def _writable(self) -> RawIOBase:
        """Return the log's file, if no other program has changed log or snapshot.

        Raises
        ------
        OSError
            If another program has changed them, or the journal is readonly.
        """
        file = self._file
        if file is None:
            raise io.UnsupportedOperation(f"{self.log}: the journal is open for reading only")
        size = os.fstat(file.fileno()).st_size
        problem = None
        if not _is_at(file, self.log):
            problem = "the log was removed or replaced"
        elif size != self._end:
            problem = f"the log has {size} bytes instead of {self._end}"
        elif self._last >= 0 and number_at(file.fileno(), self._last) != self.number:
            problem = f"the last batch of the log is not number {self.number}"
        elif _stamp(self.path) != self._stamp:
            problem = "the snapshot was removed or replaced"
        if problem is not None:
            problem += "; another program changed it: close this journal and resume"
            raise OSError(errno.ESTALE, problem, os.fspath(self.log))
        return file

    def _write_entry(self, file: RawIOBase, entry: bytes) -> None:
        """Write a record to the disk, or leave the log unchanged."""
        at = file.seek(0, os.SEEK_END)
        try:
            _append(file, entry)
        except BaseException as error:
            if isinstance(error, OSError) and error.errno:
                error.filename = os.fspath(self.log)
            try:
                file.truncate(at)
                os.fsync(file.fileno())
            except OSError:  # no record may follow an incomplete one
                file.close()
            raise
        self._last, self._end = at, at + len(entry)

    def checkpoint(self) -> None:
        """Write a snapshot of the current state, and empty the log.

        After a crash between the two steps, the batches of the log that are already in the snapshot
        are skipped.

        Raises
        ------
        OSError
            As `apply`.
        """
        with self.graph._lock:
            self._writable()
            try:
                store(self.path, self.graph, self.number, self.note)
            finally:  # an interrupt may follow the renaming of the snapshot
                self._stamp = _stamp(self.path)
            self._empty()

    def _empty(self) -> None:
        assert self._file is not None
        self._file.truncate(0)
        os.fsync(self._file.fileno())
        self._last, self._end, self._named = -1, 0, _referred(self.graph)

    def close(self) -> None:
        """Close the log and release its lock."""
        if self._file is not None:
            self._file.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Journal holds its log open and locked: it cannot be copied or pickled")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _host_arrays(self, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Convert the arguments to arrays on the host, and describe their shapes."""
        arrays: dict[str, NDArray[Any]] = {}
        shapes: dict[str, Any] = {}
        for name, x in given.items():
            if x is None:
                continue
            if isinstance(x, Mapping):
                keys: list[Any] = list(x)
                parts = [x[k] for k in keys]
            elif isinstance(x, tuple) or (isinstance(x, list) and name in ("inserts", "updates")):
                keys, parts = list(range(len(x))), list(x)
            else:
                keys, parts = [], [x]  # ids
            shapes[name] = [isinstance(x, Mapping), isinstance(x, tuple), keys]
            for k, part in zip(keys or [0] * len(parts), parts, strict=True):
                a = self.graph.device.to_host(getattr(part, "array", part))
                if a.dtype.hasobject:
                    raise TypeError(f"{name}: these are no numbers")
                arrays[f"{name} {k}"] = a
        return {"shapes": shapes}, arrays

    def _resume(self, device: str | Device | None, then: Then) -> None:
        """Read the snapshot, and apply the batches of the log that are not in it."""
        for _ in range(READS):
            stamp = _stamp(self.path)
            self.graph, self.number, self.note = restored(self.path, device)
            data = self._log_bytes()
            if self._file is not None or stamp == _stamp(self.path):
                break
        else:
            raise BlockingIOError(errno.EAGAIN, "checkpoints come too fast to read", str(self.path))
        since, before = perf_counter(), self.number
        self._apply_log(memoryview(data), then)
        if count := self.number - before:
            took = 1e3 * (perf_counter() - since)
            _logger.info("%s: %d batches replayed, %.1f ms", self.log, count, took)

    def _log_bytes(self) -> bytes:
        try:
            return self.log.read_bytes()
        except FileNotFoundError:  # only in a readonly journal
            return b""

    def _apply_log(self, data: memoryview, then: Then) -> None:
        end, before, known = 0, -1, self.number
        for number, body, after in records(data, BATCH):
            if before >= 0 and number != before + 1:
                raise FormatError(self.log, None, f"batch {before} is followed by batch {number}")
            before, self._last, end = number, end, after
            if number <= self.number:
                continue
            if number != self.number + 1:
                raise FormatError(self.log, None, f"batch {self.number + 1} is missing")
            done = self._again(number, body)
            self.number = number
            if then is not None:
                then(done)
        rest = data[end:]
        if not is_torn(rest, BATCH):
            begun = bytes(rest[: len(BATCH)]) == BATCH
            damage = f"no batch begins at byte {end}: it is damaged, or of another program"
            if begun:
                damage = f"the batch at byte {end} is damaged: its checksum or length is wrong"
            raise FormatError(self.log, None, damage)
        self.dropped_bytes, self._end = len(rest), end
        if self._file is None:
            return
        if before <= known:  # a crash occurred between writing a snapshot and emptying the log
            self._empty()
        elif rest:
            self._file.truncate(end)
            os.fsync(self._file.fileno())

    def _again(self, number: int, body: memoryview) -> Applied:
        try:
            about, arrays = unpacked(body)
        except (ValueError, KeyError) as e:
            raise FormatError(self.log, None, str(e)) from e
        batch = {name: _shaped(name, s, arrays) for name, s in about["shapes"].items()}
        if "inserted" in arrays:
            use_next(self.graph.edges, arrays["inserted"])
        try:
            return self.graph.apply(**batch, nonnegative=about["nonnegative"])
        except (TypeError, ValueError, OverflowError) as e:
            raise FormatError(self.log, None, f"batch {number}: {e}") from e


def _is_at(file: RawIOBase, path: Path) -> bool:
    """Whether an open file is still the file at its path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _stamp(path: Path) -> tuple[int, ...] | None:
    """File attributes that change when a file is replaced or written to."""
    try:
        at = os.stat(path)
    except FileNotFoundError:
        return None
    return at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns


def _forked() -> None:
    """Close the parent's journals in a forked child: the parent keeps the locks."""
    for journal in _open:
        journal.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _referred(g: Graph) -> bool:
    """Whether collections or sets, which are not in snapshots, may influence ids of new edges."""
    if len(g.edges.dependents):
        return True
    # as after a resume, release edges that only dropped collections referred to
    g.edges._known = -1, False
    release(g.edges)
    return False


def _shaped(name: str, shape: tuple[bool, bool, list[Any]], arrays: Arrays) -> Any:
    named, pair, keys = shape

    def part(k: Any) -> Any:  # a scalar is broadcast to all rows, an array of one element is not
        a = arrays[f"{name} {k}"]
        return a if a.ndim else a[()]

    if named:
        return {k: part(k) for k in keys}
    if pair or keys:
        return tuple(part(k) for k in keys)
    return part(0)
