"""Graphs that change, kept on disk: a snapshot of all tables, and a log of batches since.

A file is a list of records: 8 bytes that say what it is, the number of the record, the length of
what follows, its CRC-32 and that of this head.  A snapshot is one record, under a temporary name
until it is whole and on the disk.  A log's records are the batches as they were given, each on the
disk before the graph changes; what a crash cut short at its end is not in it.  Both begin with the
version of the format.  Numbers are little-endian.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from io import RawIOBase
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from morph.batch import Applied
from morph.device import Device
from morph.dtypes import NAMES, Ref, vec
from morph.graph import Graph
from morph.io.files import replacing
from morph.io.text import FormatError, StrPath
from morph.store import COMMITTED, COUNT, HEAD, TAIL
from morph.table import Table

VERSION = 1
SNAPSHOT, BATCH = b"MORPHG1\n", b"MORPHB1\n"
HEAD_OF = struct.Struct("<8sQQI")  # what, number, length, CRC of the rest
CRC = struct.Struct("<I")
Arrays = Mapping[str, NDArray[Any]]


# --- records -------------------------------------------------------------------------------------


def _packed(about: dict[str, Any], arrays: Arrays) -> bytes:
    """One record's contents: JSON, and the arrays that it lists, each at a multiple of 8."""
    listed = [
        [name, a.dtype.newbyteorder("<").str, list(a.shape), a.nbytes] for name, a in arrays.items()
    ]
    text = json.dumps({**about, "version": VERSION, "arrays": listed}).encode()
    parts = [struct.pack("<Q", len(text)), text, b"\0" * (-len(text) % 8)]
    for a in arrays.values():
        raw = np.ascontiguousarray(a, a.dtype.newbyteorder("<")).tobytes()
        parts += [raw, b"\0" * (-len(raw) % 8)]
    return b"".join(parts)


def _unpacked(data: memoryview) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    size = struct.unpack_from("<Q", data)[0]
    about = json.loads(bytes(data[8 : 8 + size]))
    if about["version"] != VERSION:
        raise ValueError(f"format version {about['version']}: this program reads {VERSION}")
    at, arrays = 8 + size + -size % 8, {}
    for name, dtype, shape, nbytes in about.pop("arrays"):
        a = np.frombuffer(data[at : at + nbytes], np.dtype(dtype)).reshape(shape)
        arrays[name] = a.astype(a.dtype.newbyteorder("="))
        at += nbytes + -nbytes % 8
    return about, arrays


def _record(what: bytes, number: int, data: bytes) -> bytes:
    head = HEAD_OF.pack(what, number, len(data), zlib.crc32(data))
    return head + CRC.pack(zlib.crc32(head)) + data


def _records(data: memoryview, what: bytes) -> Iterator[tuple[int, memoryview, int]]:
    """Number, contents and end of each whole record; ends at the first that is not."""
    at, size = 0, HEAD_OF.size + CRC.size
    while at + size <= len(data):
        head = data[at : at + HEAD_OF.size]
        kind, number, length, crc = HEAD_OF.unpack(head)
        (own,) = CRC.unpack_from(data, at + HEAD_OF.size)
        body = data[at + size : at + size + length]
        if kind != what or own != zlib.crc32(head) or len(body) != length:
            return
        if crc != zlib.crc32(body):
            return
        at += size + length
        yield number, body, at


def _begins(data: memoryview, what: bytes) -> bool:
    """Whether a record's whole head is somewhere in there."""
    raw, size = bytes(data), HEAD_OF.size
    at = raw.find(what)
    while at >= 0:
        own = raw[at + size : at + size + CRC.size]
        if own == CRC.pack(zlib.crc32(raw[at : at + size])):
            return True
        at = raw.find(what, at + 1)
    return False


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _append(file: RawIOBase, data: bytes) -> None:
    """Write all of it, without a buffer: what failed is never written later."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) or 0 :]
    os.fsync(file.fileno())


# --- snapshots -----------------------------------------------------------------------------------


def write_snapshot(path: StrPath, graph: Graph, number: int = 0) -> None:
    """Write all tables of a graph, with ids, dead rows and reverses; whole or not at all.

    Parameters
    ----------
    path : path
    graph : Graph
    number : int
        Of the last batch of a `Journal` that is in it.

    Raises
    ------
    OSError
        If the file cannot be written.  What had the name before is still there then.
    """
    arrays: dict[str, NDArray[Any]] = {}
    about: dict[str, Any] = {"directed": graph.directed, "made": graph._made, "tables": []}
    by = graph._adjacency.sorted_by
    about["sorted"] = by if by in graph.edges.columns else None
    host = graph.device.to_host
    for name, t in graph.tables.items():
        w, count = t.words, len(t)
        columns = [
            [c.name, NAMES[c.dtype], c.size, c.ref, np.asarray(c.fill).tolist()]
            for c in t.columns.values()
        ]
        table = {"name": name, "rows": count, "capacity": t.capacity, "deletes": t.deletes}
        about["tables"].append(
            {**table, "columns": columns, "packs": t.packs, "head": min(int(w[HEAD]), int(w[TAIL]))}
        )
        for c in t.columns.values():
            arrays[f"{name}.{c.name}"] = host(c.array[:count])
        if t.deletes:
            ring = host(t.hidden("free"))
            at = np.arange(min(int(w[HEAD]), int(w[TAIL])), int(w[TAIL]))
            arrays[f"{name} free"] = ring[at & (ring.size - 1)]
    for name, a in (("order", graph.edge_order), ("reverses", graph._pairs)):
        if a is not None:
            arrays[name] = host(a)
    with replacing(path) as (file,):
        file.write(_record(SNAPSHOT, number, _packed(about, arrays)))
        _sync(file)
    _sync_folder(path)


def _sync_folder(path: StrPath) -> None:
    folder = os.open(Path(path).parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_snapshot(path: StrPath, device: str | Device = "cpu") -> Graph:
    """Read a graph that `write_snapshot` wrote: the same ids, and the same ids to come.

    Raises
    ------
    FormatError
        If the file is no snapshot, is damaged or cut short, or of another version.
    OSError
        If it cannot be read.
    """
    return _restored(path, device)[0]


def _restored(path: StrPath, device: str | Device) -> tuple[Graph, int]:
    data = memoryview(Path(path).read_bytes())
    if bytes(data[:8]) != SNAPSHOT:
        raise FormatError(path, None, "this is no snapshot of a graph")
    found = next(_records(data, SNAPSHOT), None)
    if found is None or found[2] != len(data):
        raise FormatError(path, None, "the snapshot is damaged: its checksum or length is wrong")
    try:
        about, arrays = _unpacked(found[1])
    except (ValueError, KeyError, struct.error) as e:
        raise FormatError(path, None, str(e)) from e
    g = Graph(device, about["directed"])
    for kept in about["tables"]:
        t = g.tables[kept["name"]] if kept["name"] in g.tables else g.add_table(kept["name"])
        for name, kind, size, ref, fill in kept["columns"]:
            dtype = next(d for d, n in NAMES.items() if n == kind)
            if name not in t.columns:
                spec: Any = vec(dtype, size) if size else dtype
                spec = (Ref(ref)[size] if size else Ref(ref)) if ref else spec
                t.add(name, spec, fill)
    for kept in about["tables"]:
        _refill(g.tables[kept["name"]], kept, arrays)
    g.structure_changed(None if "reverses" not in arrays else g.device.asarray(arrays["reverses"]))
    g.sort_edges(about.get("sorted"))  # snapshots written before have none
    g._made = about["made"]
    g.edge_order = g.device.asarray(arrays["order"]) if "order" in arrays else None
    return g, found[0]


def _refill(t: Table, kept: dict[str, Any], arrays: Arrays) -> None:
    """Give a table the rows that were kept; those that are dead come back in their turn."""
    count = kept["rows"]
    t.pack(*kept["packs"])
    t.resize(kept["capacity"])
    with t.device.active():
        for name, column in t.columns.items():
            column.array[:count] = t.device.asarray(arrays[f"{t.name}.{name}"])
        t.words[COUNT] = count
        t.settle()
        if kept["deletes"]:
            t.allow_deletes()
            free, head, words = arrays[f"{t.name} free"], kept["head"], t.words
            ring = t.hidden("free")
            at = (head + np.arange(free.size)) & (ring.size - 1)
            ring[t.device.asarray(at)] = t.device.asarray(free)
            t.hidden("dead")[t.device.asarray(free)] = 1
            words[HEAD], words[TAIL] = head, head + free.size
            words[COMMITTED] = words[TAIL]
            t.settle()


# --- the log -------------------------------------------------------------------------------------


class Journal:
    """A graph on disk that batches change: a snapshot, and a log of the batches since.

    A batch is on the disk before the graph changes, so a process that is killed at any moment
    resumes with all batches whose `apply` had returned, and at most one that had not.

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

    Attributes
    ----------
    graph : Graph
        Change it by `apply` alone: the log knows of nothing else.
    number : int
        Of the last batch applied, from 1.
    torn : int
        Bytes at the end of the log that were no whole record, and were dropped.

    Raises
    ------
    FormatError
        If the snapshot or the log is damaged, or the log does not continue it: then the log is
        left as it is.
    OSError
        If the files cannot be read or written.
    """

    def __init__(
        self, path: StrPath, graph: Graph | None = None, device: str | Device = "cpu",
        told: Callable[[Applied], object] | None = None,
    ) -> None:  # fmt: skip
        self.path, self.log = Path(path), Path(f"{os.fspath(path)}.log")
        self.torn = 0
        if graph is None:
            self.graph, self.number = _restored(path, device)
            self._file = self.log.open("r+b" if self.log.exists() else "x+b", buffering=0)
            try:
                self._replay(told)
            except BaseException:
                self._file.close()
                raise
        else:
            self.graph, self.number = graph, 0
            # an old log goes first: its batches are of another graph
            self.log.unlink(missing_ok=True)
            write_snapshot(path, graph)
            self._file = self.log.open("x+b", buffering=0)
        _sync_folder(path)

    def apply(
        self, inserts: Any = None, deletes: Any = None, updates: Any = None,
        delete_points: Any = None, *, nonnegative: bool = False, by: Any = None,
    ) -> Any:  # fmt: skip
        """Log a batch, then apply it, see `Graph.apply`; a batch that is refused is not kept.

        ``by`` is what applies it to the graph in place of that, `DynamicSSSP.apply` for one, and
        whose result is given.
        After an interrupt (Ctrl-C) in here the journal is closed: open it again.
        """
        given = {"inserts": inserts, "deletes": deletes, "updates": updates}
        given["delete_points"] = delete_points
        about, arrays = self._plain(given)
        at = self._file.seek(0, os.SEEK_END)
        try:
            about["nonnegative"] = nonnegative
            _append(self._file, _record(BATCH, self.number + 1, _packed(about, arrays)))
            if by is None:
                done = self.graph.apply(
                    inserts, deletes, updates, delete_points, nonnegative=nonnegative
                )
            else:
                done = by(inserts, deletes, updates, delete_points)
        except Exception:
            self._file.truncate(at)
            _sync(self._file)
            raise
        except BaseException:  # the batch is kept, and the graph may be as before it
            self._file.close()
            raise
        self.number += 1
        return done

    def checkpoint(self) -> None:
        """Write a snapshot of now, and begin an empty log.

        A crash between the two leaves a log whose batches the snapshot has: they are left out.
        """
        write_snapshot(self.path, self.graph, self.number)
        self._file.truncate(0)
        _sync(self._file)

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
        for number, body, after in _records(data, BATCH):
            end = after
            if number <= self.number:
                continue
            if number != self.number + 1:
                raise FormatError(self.log, None, f"batch {self.number + 1} is missing")
            try:
                about, arrays = _unpacked(body)
            except (ValueError, KeyError) as e:
                raise FormatError(self.log, None, str(e)) from e
            batch = {name: _shaped(name, s, arrays) for name, s in about["shapes"].items()}
            try:
                done = self.graph.apply(**batch, nonnegative=about["nonnegative"])
            except (TypeError, ValueError, OverflowError) as e:
                raise FormatError(self.log, None, f"batch {number}: {e}") from e
            self.number = number
            if told is not None:
                told(done)
        rest = data[end:]
        if bytes(rest[:8]).strip(b"\0") and not BATCH.startswith(bytes(rest[:8])):
            what = f"no batch begins at byte {end}: it is damaged, or of another program"
            raise FormatError(self.log, None, what)
        if _begins(rest[8:], BATCH):  # a crash cuts the last batch short, and no other
            raise FormatError(self.log, None, f"the batch at byte {end} is damaged")
        self.torn = len(rest)
        self._file.truncate(end)
        _sync(self._file)


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
