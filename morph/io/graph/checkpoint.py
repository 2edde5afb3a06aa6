"""Checkpoints of programs on a partitioned graph, which run launch by launch.

The host's control flow depends on the flags, lengths and values that it reads from the parts.  A
checkpoint records these values and the names of the executed kernels, in order, and the state after
the last kernel.  To resume, the program is restarted: up to the recorded step kernels are skipped
and reads return the recorded values.  The values are global, so the partition may differ.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from morph.compiler.ir.layout import GLOBAL_ID
from morph.io.text.files import identity, opened, remove_leftovers, replacing
from morph.io.text.scanner import FormatError, StrPath
from morph.language.arguments import check_number
from morph.partition.collection import PartitionedCollection
from morph.partition.graph import PartitionedGraph
from morph.partition.parts import DIVIDED
from morph.partition.replicated import ReplicatedFlag
from morph.partition.transport import agree, on_all

VERSION = 2
_SMALL = 64  # arrays of at most this many bytes are stored in the list of entries
Arrays = dict[str, NDArray[Any]]
Result = TypeVar("Result")


@contextmanager
def checkpoint(graph: PartitionedGraph, path: StrPath, every: float) -> Iterator[None]:
    """See `PartitionedGraph.checkpoint`."""
    check_number(every, "every")
    if not every >= 0:
        raise ValueError(f"every = {every}: expected 0 or more seconds")
    if graph.recorder is not None:
        raise RuntimeError("a checkpoint of this graph is active")
    graph.kept.clear()  # only objects created within the block are part of the state
    recorder = Recorder(graph, path, every)
    graph.recorder = recorder
    try:
        yield
    finally:
        graph.recorder = None
    recorder.finish()


class Recorder:
    """Records the reads and launches of a program; writes them and the graph's state to a file.

    Parameters
    ----------
    graph : PartitionedGraph
    path : path-like
        If there is a checkpoint, the program resumes from it.
    every : float
        Seconds between checkpoints.

    Raises
    ------
    ValueError
        If the file is no checkpoint of this graph, or differs between processes.
    """

    def __init__(self, graph: PartitionedGraph, path: StrPath, every: float) -> None:
        self.graph, self.path, self.every = graph, path, every
        self.entries: list[Any] = []  # ["step", kernel], or a value, see `_encoded`
        self.arrays: list[NDArray[Any]] = []  # large values
        self.state: Arrays = {}
        self.replayed = self.steps = 0  # entries and steps so far
        graph.transport.begin("checkpoint")
        self.about = [len(graph.points), len(graph.edges), graph.directed, _fingerprint(graph)]
        found = on_all(graph.transport, lambda: identity(path) if os.path.exists(path) else "")
        agree(graph.transport, f"the checkpoint {os.fspath(path)}", found)
        if found:
            on_all(graph.transport, self._load)
        self.last = time.monotonic()

    @property
    def replaying(self) -> bool:
        """Whether the program has not yet reached the step of the checkpoint."""
        return bool(self.state)

    def value(self, read: Callable[[], Result]) -> Result:
        """Read a value, or return the recorded one."""
        if self.replaying:
            entry = self._next()
            if entry[0] == "step":
                raise self._another("reads a value", entry)
            found: Result = self._decoded(entry)
            return found
        with self._paused():  # nested reads are not recorded
            value = read()
        self.entries.append(self._encoded(value))
        return value

    def step(self, kernel: str, run: Callable[[], None]) -> None:
        """Run a kernel, or skip it; restore the state at the step of the checkpoint."""
        if not self.replaying:
            run()
            self.steps += 1
            self.entries.append(["step", kernel])
            due = time.monotonic() - self.last >= self.every
            if self.graph.gather(lambda _: due)[0]:
                self._save()
            return
        entry = self._next()
        if entry != ["step", kernel]:
            raise self._another(f"runs {kernel!r}", entry)
        self.steps += 1
        if self.replayed == len(self.entries):
            with self._paused():
                self._restore()

    def finish(self) -> None:
        """Remove the file when the program has ended.

        Raises
        ------
        ValueError
            If the program has ended before the step of the checkpoint.
        """
        if self.replaying:
            raise self._another("ends", self._next())

        def remove() -> None:
            if self.graph.here[0] == 0:
                with suppress(FileNotFoundError):
                    os.unlink(self.path)

        on_all(self.graph.transport, remove)

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """Suspend recording."""
        self.graph.recorder = None
        try:
            yield
        finally:
            self.graph.recorder = self

    def _next(self) -> Any:
        """Return the next recorded entry."""
        self.replayed += 1
        return self.entries[self.replayed - 1]

    def _another(self, action: str, entry: Any) -> ValueError:
        """Return the error for a program that differs from the one that was recorded.

        Ends the replay: reads while the error is handled return current values.
        """
        self.graph.recorder = None
        first = f"ran {entry[1]!r}" if entry[0] == "step" else "read a value"
        message = f"this one {action} after {self.steps} steps, that one {first}"
        return FormatError(self.path, None, f"a checkpoint of another program: {message}")

    # --- values ----------------------------------------------------------------------------------

    def _encoded(self, value: Any) -> Any:
        """Return an entry for a value."""
        if isinstance(value, bool | int):
            return ["value", value]
        a = np.asarray(value)
        if a.nbytes <= _SMALL:
            kind = "small" if isinstance(value, np.ndarray) else "scalar"
            return [kind, a.dtype.str, a.shape, a.tobytes().hex()]
        self.arrays.append(a.copy())
        return ["array", len(self.arrays) - 1]

    def _decoded(self, entry: Any) -> Any:
        """Return the value of an entry."""
        kind, *given = entry
        if kind == "value":
            return given[0]
        if kind == "array":
            return self.arrays[given[0]].copy()
        dtype, shape, data = given
        found = np.frombuffer(bytes.fromhex(data), dtype).reshape(shape)
        return found.copy() if kind == "small" else found[()]

    # --- the file --------------------------------------------------------------------------------

    def _save(self) -> None:
        """Write a checkpoint atomically: if the process is killed, the previous one remains."""
        with self._paused():
            state = self._state()

        def write() -> None:
            if self.graph.here[0] != 0:
                return
            about = {"version": VERSION, "graph": self.about, "entries": self.entries}
            values: dict[str, Any] = {f"value {i}": a for i, a in enumerate(self.arrays)}
            values |= state
            text = json.dumps(about | {"checksum": _checksum(about, values)})
            values["morph checkpoint"] = np.frombuffer(text.encode(), np.uint8)
            remove_leftovers(self.path)
            with replacing(self.path) as (file,):
                np.savez(file, **values)

        on_all(self.graph.transport, write)
        self.last = time.monotonic()

    def _load(self) -> None:
        """Read a checkpoint."""
        try:
            with opened(self.path) as packed, np.load(packed, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
            about = json.loads(found.pop("morph checkpoint").tobytes())
            version, checksum = about["version"], about.pop("checksum", None)
        except Exception as error:  # NumPy raises many types for a damaged archive
            if isinstance(error, OSError) and error.filename is not None:
                raise
            raise FormatError(self.path, None, f"no checkpoint: {error}") from error
        if version != VERSION:
            raise FormatError(self.path, None, f"a checkpoint of version {version}, not {VERSION}")
        if checksum != _checksum(about, found):
            raise FormatError(self.path, None, "a damaged checkpoint: its checksum is another")
        if about["graph"] != self.about:
            raise FormatError(self.path, None, "a checkpoint of another graph")
        self.entries = about["entries"]
        names = [name for name in found if name.startswith("value ")]
        self.arrays = [found.pop(f"value {i}") for i in range(len(names))]
        self.state = found

    def _state(self) -> Arrays:
        """Copy all columns, flags and collections of the graph."""
        found: Arrays = {}
        for name, x in self._objects():
            if isinstance(x, ReplicatedFlag):
                found[name] = np.array(bool(x))
            else:
                length = 0 if isinstance(x, PartitionedCollection) else len(x)
                found[name] = np.array(length)
                found |= {f"{name}.{c}": _read(x, c) for c in _columns(x)}
        return found

    def _restore(self) -> None:
        """Write the state of the checkpoint."""
        state, self.state = self.state, {}
        for name, x in self._objects():
            if name not in state:
                continue  # the object was no longer referenced
            if isinstance(x, ReplicatedFlag):
                (x.set if bool(state[name]) else x.clear)()
                continue
            names = {key.partition(".")[2] for key in state if key.startswith(f"{name}.")}
            collection = isinstance(x, PartitionedCollection)
            if names != set(_columns(x)) or (not collection and len(x) != int(state[name])):
                message = f"the columns or rows of {x.kind} {name} are others"
                raise FormatError(self.path, None, f"a checkpoint of another program: {message}")
            values = {c: state[f"{name}.{c}"] for c in _columns(x)}
            if collection:
                x.clear()
                x.extend(values.pop("item"), **values)
            else:
                for c, a in values.items():
                    x._write(c, slice(None), a)

    def _objects(self) -> Iterator[tuple[str, Any]]:
        """Yield all objects with their names; objects other than points and edges are numbered."""
        for name in DIVIDED:
            yield name, self.graph.tables[name]
        for x, i in self.graph.made.items():
            yield str(i), x


def _columns(x: Any) -> list[str]:
    """Return the mutable columns of a table or collection."""
    fixed = {"edges": ("src", "dst"), "points": (GLOBAL_ID,)}.get(getattr(x, "name", ""), ())
    return [c for c in x.columns if c not in fixed]


def _read(x: Any, column: str) -> NDArray[Any]:
    """Copy a column, in order of global ids; of a collection, in order of parts."""
    found: NDArray[Any] = (
        x._read(column) if isinstance(x, PartitionedCollection) else x._read(column, slice(None))
    )
    return found


def _checksum(about: Any, arrays: Arrays) -> int:
    """Return a checksum of the contents of a checkpoint."""
    found = zlib.crc32(json.dumps(about).encode())
    for name, a in sorted(arrays.items()):
        found = zlib.crc32(f"{name} {a.dtype.str} {a.shape}".encode(), found)
        found = zlib.crc32(np.ascontiguousarray(a).reshape(-1).view(np.uint8).data, found)
    return found


def _fingerprint(graph: PartitionedGraph) -> int:
    """Return a hash of the edges and their weights, which does not depend on the partition."""

    def of_part(k: int) -> int:
        part = graph.parts[k]
        assert part is not None
        g, own = part.graph, part.share("edges").own
        ids = g.points.columns[GLOBAL_ID].array
        with g.device.active():
            own = own if isinstance(own, slice) else g.device.asarray(own)
            src, dst = (
                ids[g.edges.columns[name].array[own]].astype(np.uint64) for name in ("src", "dst")
            )
            mixed = _mixed(src << np.uint64(32) | dst)
            if "weight" in g.edges.columns:
                weight = g.edges.columns["weight"].array[own]
                bits = weight.view(f"u{weight.dtype.itemsize}").astype(np.uint64)
                for column in bits.reshape(len(mixed), -1).T if mixed.size else ():
                    mixed = _mixed(mixed ^ column)
            return int(mixed.sum())

    return int(sum(graph.gather(of_part))) & (1 << 64) - 1


def _mixed(bits: Any) -> Any:
    """Mix the bits of 64-bit words (hash finaliser)."""
    bits = bits * np.uint64(0x9E3779B97F4A7C15)
    return bits ^ bits >> np.uint64(31)
