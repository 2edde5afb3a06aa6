"""Graphs that change, kept on disk: a snapshot, and a log of batches since (`morph.io.snapshot`).

A log's records are the batches as they were given.  Each is written when the graph has changed in
memory and nobody has refused that, as the last step in which it may fail; so what is in the log was
accepted, and what a crash cut short at its end had not been reported as done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from io import RawIOBase
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from morph.data.device import Device
from morph.data.store import COMMITTED, TAIL
from morph.graph import Graph
from morph.graph.batch import Applied
from morph.graph.direct import place_next
from morph.io.snapshot import (
    BATCH,
    Arrays,
    begins,
    check_name,
    packed,
    record,
    records,
    restored,
    sync,
    sync_folder,
    unpacked,
    write_snapshot,
)  # fmt: skip
from morph.io.text import FormatError, StrPath


def _append(file: RawIOBase, data: bytes) -> None:
    """Write all of it, without a buffer: what failed is never written later."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) or 0 :]
    os.fsync(file.fileno())


class Journal:
    """A graph on disk that batches change: a snapshot, and a log of the batches since.

    A batch is on the disk before `apply` returns, and only if it was accepted: so a process that is
    killed at any moment resumes with all batches whose `apply` had returned, and at most one that
    had not, and never with one that was refused.

    Parameters
    ----------
    path : path
        Of the snapshot; the log is the file beside it with ``.log`` added.
    graph : Graph, optional
        To begin with; what is there under these names is replaced.  None resumes.
    device : str or Device
        Where the graph is to be, if it is resumed.
    told : callable, optional
        Called with what each batch did that is applied again when it is resumed.
    note : dict, optional
        To be kept with a graph that is begun with: where it is from, for example.

    Attributes
    ----------
    graph : Graph
        Change it by `apply` alone: the log knows of nothing else.
    number : int
        Of the last batch applied, from 1.
    torn : int
        Bytes at the end of the log that were no whole record, and were dropped.
    note : dict
        As it was given when this was begun.

    Raises
    ------
    ValueError
        If the name is that of a compressed file.
    FormatError
        If the snapshot or the log is damaged, or the log does not continue it: then the log is
        left as it is.
    OSError
        If the files cannot be read or written.
    """

    def __init__(
        self, path: StrPath, graph: Graph | None = None, device: str | Device = "cpu",
        told: Callable[[Applied], object] | None = None, note: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        check_name(path)
        self.path, self.log = Path(path), Path(f"{os.fspath(path)}.log")
        self.torn = 0
        # whether records name the edges inserted: what is in no snapshot decided on their ids
        self._named = graph is not None and _referred(graph)
        if graph is None:
            self.graph, self.number, self.note = restored(path, device)
            self._file = self.log.open("r+b" if self.log.exists() else "x+b", buffering=0)
            try:
                self._replay(told)
            except BaseException:
                self._file.close()
                raise
        else:
            self.graph, self.number, self.note = graph, 0, note or {}
            # an old log goes first: its batches are of another graph
            self.log.unlink(missing_ok=True)
            write_snapshot(path, graph, note=note)
            self._file = self.log.open("x+b", buffering=0)
        sync_folder(path)

    def apply(
        self, inserts: Any = None, deletes: Any = None, updates: Any = None,
        delete_points: Any = None, *, nonnegative: bool = False, by: Any = None,
    ) -> Any:  # fmt: skip
        """Apply a batch, see `Graph.apply`, and log it; one that is refused is not logged.

        ``by`` is what applies it to the graph in place of that, and whose result is given:
        `DynamicSSSP.apply` for one.  It is given ``then``, too, to be called when nothing but that
        may fail any more; if it raises, the graph is to be put back.
        After an interrupt (Ctrl-C) in here the journal is closed: open it again.

        Raises
        ------
        OSError
            If the batch cannot be written to the disk: then it is not applied.
        """
        given = {"inserts": inserts, "deletes": deletes, "updates": updates}
        given["delete_points"] = delete_points
        about, arrays = self._plain(given)
        about["nonnegative"] = nonnegative
        entry = record(BATCH, self.number + 1, packed(about, arrays))
        kept: list[bool] = []
        self._named |= _referred(self.graph)  # also if the batch is refused

        def then(applied: object) -> None:
            if self._named and isinstance(applied, Applied):
                arrays["inserted"] = self.graph.device.to_host(applied.inserted)
                self._keep(record(BATCH, self.number + 1, packed(about, arrays)))
            else:
                self._keep(entry)
            kept.append(True)

        batch = inserts, deletes, updates, delete_points
        try:
            if by is None:
                done = self.graph.apply(*batch, nonnegative=nonnegative, then=then)
            else:
                done = by(*batch, then=then)
        except BaseException as error:
            if kept or not isinstance(error, Exception):  # what is logged may not have been done
                self._file.close()
            raise
        if not kept:
            self._file.close()
            raise RuntimeError("`by` did not call `then`: the batch is not in the log")
        self.number += 1
        return done

    def _keep(self, entry: bytes) -> None:
        """Bring a record to the disk, or leave the log as it is."""
        at = self._file.seek(0, os.SEEK_END)
        try:
            _append(self._file, entry)
        except BaseException as error:
            if isinstance(error, OSError) and error.errno:
                error.filename = os.fspath(self.log)
            try:
                self._file.truncate(at)
                sync(self._file)
            except OSError:  # nothing may come behind what is there
                self._file.close()
            raise

    def checkpoint(self) -> None:
        """Write a snapshot of now, and begin an empty log.

        A crash between the two leaves a log whose batches the snapshot has: they are left out.
        """
        write_snapshot(self.path, self.graph, self.number, self.note)
        self._file.truncate(0)
        sync(self._file)
        self._named = _referred(self.graph)

    def close(self) -> None:
        """Close the log."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _plain(self, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What was given as arrays on the host, and what has which shape."""
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

    def _replay(self, told: Callable[[Applied], object] | None) -> None:
        """Apply the batches of the log that the snapshot has not; drop what is torn."""
        data, end = memoryview(self.log.read_bytes()), 0
        for number, body, after in records(data, BATCH):
            end = after
            if number <= self.number:
                continue
            if number != self.number + 1:
                raise FormatError(self.log, None, f"batch {self.number + 1} is missing")
            try:
                about, arrays = unpacked(body)
            except (ValueError, KeyError) as e:
                raise FormatError(self.log, None, str(e)) from e
            batch = {name: _shaped(name, s, arrays) for name, s in about["shapes"].items()}
            if "inserted" in arrays:
                place_next(self.graph.edges, arrays["inserted"])
            try:
                done = self.graph.apply(**batch, nonnegative=about["nonnegative"])
            except (TypeError, ValueError, OverflowError) as e:
                raise FormatError(self.log, None, f"batch {number}: {e}") from e
            self.number = number
            if told is not None:
                told(done)
        rest = data[end:]
        if not BATCH.startswith(bytes(rest[:8]).rstrip(b"\0")):
            what = f"no batch begins at byte {end}: it is damaged, or of another program"
            raise FormatError(self.log, None, what)
        if begins(rest[8:], BATCH):  # a crash cuts the last batch short, and no other
            raise FormatError(self.log, None, f"the batch at byte {end} is damaged")
        self.torn = len(rest)
        self._file.truncate(end)
        sync(self._file)


def _referred(g: Graph) -> bool:
    """Whether references to edges that no snapshot has may decide on ids to come."""
    words: list[int] = g.edges.words.tolist()
    return bool(len(g.edges.dependents)) or words[TAIL] > words[COMMITTED]


def _shaped(name: str, shape: tuple[bool, bool, list[Any]], arrays: Arrays) -> Any:
    named, pair, keys = shape

    def part(k: Any) -> Any:  # one value is given to all rows, an array of one is not
        a = arrays[f"{name} {k}"]
        return a if a.ndim else a[()]

    if named:
        return {k: part(k) for k in keys}
    if pair or keys:
        return tuple(part(k) for k in keys)
    return part(0)
