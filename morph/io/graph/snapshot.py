"""Graphs on disk: snapshots of all tables, and the record format of snapshots and logs.

A file is a list of records.  The head of a record contains 8 bytes for its kind, its number, the
length of its body, the CRC-32 of the body and the CRC-32 of the head; the body begins with the
version of the format.  Numbers are little-endian.  A snapshot is one record; it is written under a
temporary name and renamed after it has been flushed to the disk.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from io import RawIOBase
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from morph.data.store import COMMITTED, COUNT, HEAD, TAIL
from morph.data.table import Table
from morph.graph import Graph
from morph.io.text.files import replacing, split_compression
from morph.io.text.formats import Format
from morph.io.text.scanner import FormatError, StrPath
from morph.language.arguments import check_type, integer
from morph.language.dtypes import NAMES, Ref, vec
from morph.language.messages import shown
from morph.runtime.device import Device
from morph.runtime.toolchain.cache import lock_file

VERSION = 1
SNAPSHOT, BATCH = b"MORPHG1\n", b"MORPHB1\n"
HEAD_OF = struct.Struct("<8sQQI")  # kind, number, length, CRC of the body
CRC = struct.Struct("<I")
Arrays = Mapping[str, NDArray[Any]]


# --- records -------------------------------------------------------------------------------------


def packed(about: dict[str, Any], arrays: Arrays) -> bytes:
    """Return the body of a record: JSON, and the arrays that it lists, aligned to 8 bytes."""
    listed = [
        [name, a.dtype.newbyteorder("<").str, list(a.shape), a.nbytes] for name, a in arrays.items()
    ]
    text = json.dumps({**about, "version": VERSION, "arrays": listed}).encode()
    parts = [struct.pack("<Q", len(text)), text, b"\0" * (-len(text) % 8)]
    for a in arrays.values():
        raw = np.ascontiguousarray(a, a.dtype.newbyteorder("<")).tobytes()
        parts += [raw, b"\0" * (-len(raw) % 8)]
    return b"".join(parts)


def unpacked(data: memoryview) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the arguments of `packed`; ValueError if the data has another version."""
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


def record(magic: bytes, number: int, data: bytes) -> bytes:
    """Return a body with its head."""
    head = HEAD_OF.pack(magic, number, len(data), zlib.crc32(data))
    return head + CRC.pack(zlib.crc32(head)) + data


def records(data: memoryview, magic: bytes) -> Iterator[tuple[int, memoryview, int]]:
    """Yield number, body and end of each complete record, up to the first incomplete one."""
    at, size = 0, HEAD_OF.size + CRC.size
    while at + size <= len(data):
        head = data[at : at + HEAD_OF.size]
        kind, number, length, crc = HEAD_OF.unpack(head)
        (own,) = CRC.unpack_from(data, at + HEAD_OF.size)
        body = data[at + size : at + size + length]
        if kind != magic or own != zlib.crc32(head) or len(body) != length:
            return
        if crc != zlib.crc32(body):
            return
        at += size + length
        yield number, body, at


def number_at(handle: int, at: int) -> int:
    """Return the number of the record at a byte of an open file; -1 if there is none."""
    head = os.pread(handle, HEAD_OF.size, at)
    return int(HEAD_OF.unpack(head)[1]) if len(head) == HEAD_OF.size else -1


def is_torn(rest: memoryview, magic: bytes) -> bool:
    """Whether this end of a file is a record that a crash truncated, perhaps padded with zeros.

    A record that is complete and has a wrong checksum is damaged, not torn.
    """
    whole, size = bytes(rest), HEAD_OF.size + CRC.size
    if not magic.startswith(whole[: len(magic)].rstrip(b"\0")):
        return False
    if len(whole) < size:
        return True
    head, (own,) = whole[: HEAD_OF.size], CRC.unpack_from(whole, HEAD_OF.size)
    if own == zlib.crc32(head):
        return len(whole) < size + int(HEAD_OF.unpack(head)[2])
    return len(whole.rstrip(b"\0")) < size


def sync(file: IO[bytes]) -> None:
    """Flush a file to the disk."""
    file.flush()
    os.fsync(file.fileno())


# --- snapshots -----------------------------------------------------------------------------------


def write_snapshot(
    path: StrPath, graph: Graph, number: int = 0, note: dict[str, Any] | None = None
) -> None:
    """Write all tables of a graph, with ids, deleted rows and reverses, atomically.

    While a `Journal` of the snapshot is open, only `Journal.checkpoint` may replace the snapshot.

    Parameters
    ----------
    path : path
    graph : Graph
    number : int
        Number of the last batch of a `Journal` that the graph contains.
    note : dict, optional
        Metadata that JSON can represent.

    Raises
    ------
    ValueError
        If the name has the suffix of a compressed file.
    OSError
        If the file cannot be written, or belongs to an open `Journal`.  An existing file then
        remains unchanged.
    """
    check_type(graph, "graph", "Graph")
    number = integer(number, "number")
    if not 0 <= number < 2**63:
        raise ValueError(f"number is from 0 to 2^63 - 1, not {shown(number)}")
    check_name(path)
    log = Path(f"{os.fspath(path)}.log")
    with ExitStack() as held:
        if log.is_file() and os.access(log, os.R_OK):
            lock_log(held.enter_context(log.open("rb")), log)
        store(path, graph, number, note)


def lock_log(file: IO[bytes] | RawIOBase, log: Path) -> None:
    """Lock a journal's log until the file is closed.

    Raises
    ------
    BlockingIOError
        If an open journal has locked it.
    """
    if not lock_file(file.fileno(), wait=False):
        message = "another open journal writes this log (readonly=True reads it)"
        raise BlockingIOError(errno.EWOULDBLOCK, message, os.fspath(log))


def store(
    path: StrPath, graph: Graph, number: int, note: dict[str, Any] | None,
    ready: Callable[[], object] | None = None,
) -> None:  # fmt: skip
    """Write a snapshot, see `write_snapshot`; ``ready`` is called before the file is renamed."""
    with graph._lock:
        about, arrays = _contents(graph)
        data = record(SNAPSHOT, number, packed({**about, "note": note or {}}, arrays))
    with replacing(path) as (file,):
        file.write(data)
        sync(file)
        if ready is not None:
            ready()
    sync_folder(path)


def _contents(graph: Graph) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the contents of a snapshot: its description, and its arrays on the host."""
    arrays: dict[str, NDArray[Any]] = {}
    about: dict[str, Any] = {"directed": graph.directed, "made": graph._made, "tables": []}
    by = graph._adjacency.sorted_by
    about["sorted"] = by if by in graph.edges.columns else None
    host = graph.device.to_host
    for name, t in graph.tables.items():
        w, count = t._host_meta, len(t)
        columns = [
            [c.name, NAMES[c.dtype], c.size, c.ref, np.asarray(c.fill).tolist()]
            for c in t.columns.values()
        ]
        table = {"name": name, "rows": count, "capacity": t.capacity, "deletes": t.deletes}
        ring_at = {"head": min(int(w[HEAD]), int(w[TAIL])), "committed": int(w[COMMITTED])}
        about["tables"].append({**table, **ring_at, "columns": columns, "packs": t.packs})
        for c in t.columns.values():
            arrays[f"{name}.{c.name}"] = host(c.array[:count])
        if t.deletes:
            ring = host(t.ring)
            at = np.arange(min(int(w[HEAD]), int(w[TAIL])), int(w[TAIL]))
            arrays[f"{name} free"] = ring[at & (ring.size - 1)]
    for name, a in (("order", graph.edge_order), ("reverses", graph._pairs)):
        if a is not None:
            arrays[name] = host(a)
    return about, arrays


SNAPSHOT_FORMAT = Format(
    kind="snapshot", name="snapshot", suffixes=(),
    about="all tables of a graph, ids and capacities; with a log beside it, a `Journal`",
    reader="`read_snapshot`", writer="`write_snapshot`",
)  # fmt: skip


def check_name(path: StrPath) -> None:
    """Reject the suffix of a compressed file: snapshots are not compressed.

    Raises
    ------
    ValueError
    """
    suffix = split_compression(path)[1]
    if suffix:
        raise ValueError(f"{os.fspath(path)}: a snapshot is not compressed: leave out {suffix}")


def sync_folder(path: StrPath) -> None:
    """Flush a directory entry to the disk; not needed on Windows, which cannot open folders."""
    if os.name == "nt":
        return
    folder = os.open(Path(path).parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_snapshot(path: StrPath, device: str | Device | None = None) -> Graph:
    """Read a graph that `write_snapshot` wrote: ids, also of future rows, are the same.

    Raises
    ------
    FormatError
        If the file is not a snapshot, is damaged or truncated, or has another version.
    OSError
        If the file cannot be read.
    """
    return restored(path, device)[0]


def restored(path: StrPath, device: str | Device | None) -> tuple[Graph, int, dict[str, Any]]:
    """Read a snapshot: the graph, the number of its last batch, and the note."""
    data = memoryview(Path(path).read_bytes())
    if bytes(data[:8]) != SNAPSHOT:
        raise FormatError(path, None, "this is no snapshot of a graph")
    found = next(records(data, SNAPSHOT), None)
    if found is None or found[2] != len(data):
        raise FormatError(path, None, "the snapshot is damaged: its checksum or length is wrong")
    try:
        about, arrays = unpacked(found[1])
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
    g.sort_edges(about.get("sorted"))  # older snapshots have no such entry
    g._made = about["made"]
    g._order = g.device.asarray(arrays["order"]) if "order" in arrays else None
    return g, found[0], about.get("note", {})


def _refill(t: Table, kept: dict[str, Any], arrays: Arrays) -> None:
    """Restore the rows of a table; deleted rows are reused in the same order."""
    count = kept["rows"]
    t.pack(*kept["packs"])
    t.resize(kept["capacity"])
    with t.device.active():
        for name, column in t.columns.items():
            column.array[:count] = t.device.asarray(arrays[f"{t.name}.{name}"])
        t._host_meta[COUNT] = count
        t._publish_counters()
        if kept["deletes"]:
            t.allow_deletes()
            free, head, counters = arrays[f"{t.name} free"], kept["head"], t._host_meta
            t.reserve_ring(free.size)
            ring = t.ring
            at = (head + np.arange(free.size)) & (ring.size - 1)
            ring[t.device.asarray(at)] = t.device.asarray(free)
            t.hidden("dead")[t.device.asarray(free)] = 1
            counters[HEAD], counters[TAIL] = head, head + free.size
            counters[COMMITTED] = kept.get("committed", counters[TAIL])  # older snapshots have none
            t._publish_counters()
