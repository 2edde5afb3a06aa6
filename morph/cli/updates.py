"""``morph sssp``: shortest paths, optionally maintained under batches of updates."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from morph import validate
from morph.algorithms.dynamic.dynamic import DynamicSSSP
from morph.algorithms.dynamic.following import Update
from morph.algorithms.graph.sssp import Sssp, sssp
from morph.algorithms.registration import Algorithm, Arguments
from morph.algorithms.registry import ALGORITHMS
from morph.cli.common import (
    BadInput,
    bad_input,
    check_writable,
    device_of,
    print_report,
    standard_input,
    taken,
)
from morph.cli.graphs import (
    ANSWERS,
    Call,
    check_sources,
    graph_of,
    make_command,
    on_host,
    prepared,
    save_answer,
    source_of,
)
from morph.cli.numbers import Integer
from morph.graph import Graph
from morph.io import FormatError, read_edges
from morph.io.graph.edges import EdgeArrays
from morph.io.graph.journal import Journal
from morph.io.graph.snapshot import check_name
from morph.io.graph.updates import Named, UpdateBatch, read_updates
from morph.io.text.files import opened
from morph.runtime.device import Device

Report = dict[str, Any]


class Numbers:
    """Edge ids of update files: positions in the graph's file, then the inserted edges.

    Parameters
    ----------
    graph : Graph
    count : int
        Number of edges in the file.
    """

    def __init__(self, graph: Graph, count: int) -> None:
        self.graph, self.count, self.next = graph, count, count
        self._rows: np.ndarray[Any, Any] | None = None
        self._made: dict[int, int] = {}  # row of each inserted edge, by number
        self._number: dict[int, int] = {}  # the inverse

    def rows(self, named: Named, path: str) -> np.ndarray[Any, Any]:
        """Return the rows of edges by their ids, -1 for deleted edges.

        Raises
        ------
        FormatError
            If there never was such an edge, or it has other ends.
        """
        found = np.full(len(named), -1)
        src, dst = (self._host(self.graph.edges.columns[c].array) for c in ("src", "dst"))
        for k, (number, u, v, line) in enumerate(
            zip(*(a.tolist() for a in (named.id, named.src, named.dst, named.line)), strict=True)
        ):
            if number >= self.next:
                raise FormatError(path, line, f"edge id {number}: there were {self.next} edges")
            row = self._row(number)
            if row < 0 or self.graph.edges.is_dead(row):
                continue
            ends = int(src[row]), int(dst[row])
            if ends != (u, v) and (self.graph.directed or ends != (v, u)):
                actual = f"edge {number} leads from {ends[0]} to {ends[1]}, not from {u} to {v}"
                raise FormatError(path, line, actual)
            found[k] = row
        return found

    def add(self, rows: list[int], count: int) -> None:
        """Number the ``count`` edges that a batch inserted; the other rows are reverse arcs."""
        for row in rows[:count]:
            self._made[self.next], self._number[row] = row, self.next
            self.next += 1
        self._number.update(dict.fromkeys(rows[count:], -1))  # reverse arcs have no number

    def _row(self, number: int) -> int:
        if number >= self.count:
            row = self._made[number]
            return row if self._number[row] == number else -1
        if self._rows is None:
            self._rows = np.full(self.count, -1)
            order = self.graph.edge_order
            if order is None:
                self._rows[:] = np.arange(self.count)
            else:
                at = self._host(order)
                known = np.flatnonzero(at >= 0)[::-1]
                self._rows[at[known]] = known
        row = int(self._rows[number])
        return -1 if row in self._number else row

    def _host(self, x: Any) -> np.ndarray[Any, Any]:
        return np.asarray(self.graph.device.to_host(x))


@contextmanager
def lines_of(path: str) -> Iterator[Iterable[bytes]]:
    """Open a file of updates; ``-`` is standard input."""
    if path == "-":
        yield standard_input()
    else:
        with opened(path) as file:
            yield file


class Log:
    """A `Journal` of the batches, new or resumed.

    Parameters
    ----------
    path : str or None
        Path of the snapshot; None: no journal.
    resume : bool
        Resume an existing log.
    others : str or None
        Other files of the command, which the log must not overwrite.

    Attributes
    ----------
    graph : Graph
    number : int
        Number of batches applied before.
    inserted : list of (list of int, int)
        Edges that each of them inserted, reverse arcs last, and the number of lines.

    Raises
    ------
    BadInput
        If the log would overwrite a file.
    """

    graph: Graph
    origin: dict[str, Any]
    journal: Journal | None = None

    def __init__(self, path: str | None, resume: bool, *others: str | None) -> None:
        self.path = path
        self.number, self.inserted = 0, list[tuple[list[int], int]]()
        if path is None:
            return
        check_writable("--log", path)
        try:
            check_name(path)
        except ValueError as error:
            raise BadInput(f"--log: {error}") from error
        self._exists = Path(path).exists()
        written = [Path(path).resolve(), Path(f"{path}.log").resolve()]
        for other in others:
            if other is not None and other != "-" and Path(other).resolve() in written:
                raise BadInput(f"--log: {other} is another file of this command")
        if self._exists and not resume:
            raise BadInput(f"--log: {path} is there already: add --resume to go on with it")
        if not self._exists and Path(f"{path}.log").exists():
            raise BadInput(f"--log: {path}.log is there already, and no {path}: it is not a log to"
                           " go on with")  # fmt: skip

    def read(self, make: Callable[[], Graph], device: Device, origin: dict[str, Any]) -> None:
        """Make the graph, or restore it with all batches of the log.

        ``origin`` identifies the graph's file and the sources.
        """
        self.origin = origin
        if self.path is None or not self._exists:
            self.graph = make()
            return
        self.journal = journal = Journal(self.path, device=device, then=self._record)
        self.graph, self.number = journal.graph, len(self.inserted)
        before = journal.number - self.number
        known = {"vertices": len(self.graph.points), "arcs": self.graph._made, **journal.note}
        for key, value in origin.items():
            recorded = known.get(key, value)  # older logs have no note
            if recorded != value:
                raise BadInput(f"--log: {self.path} was begun with {_described(key, recorded)}, not"
                               f" {_described(key, value)}")  # fmt: skip
        if before:  # their inserts, and thus the edge ids, are unknown
            raise BadInput(f"--log: {self.path} is a checkpoint of batch {before}: it cannot be"
                           " resumed here")  # fmt: skip

    def begin(self) -> None:
        """Write the initial graph, unless the log is resumed."""
        if self.path is not None and self.journal is None:
            self.journal = Journal(self.path, self.graph, note=self.origin)

    def _record(self, applied: Any) -> None:
        self.inserted.append((inserted_edges(applied), applied.given))

    def apply(self, dynamic: DynamicSSSP, batch: dict[str, Any]) -> Update:
        """Apply a batch and write it to the log."""
        if self.journal is None:
            return dynamic.apply(**batch)
        done: Update = self.journal.apply(**batch, nonnegative=True, by=dynamic.apply)
        return done

    def close(self) -> None:
        """Close the files."""
        if self.journal is not None:
            self.journal.close()


def origin_of(edges: EdgeArrays, sources: Sequence[int]) -> dict[str, Any]:
    """Return a description of the edges of a file and the sources, with a checksum."""
    digest = hashlib.blake2b(digest_size=16)
    for a in (edges.src, edges.dst, edges.weight):
        if a is not None:
            digest.update(str(a.dtype).encode() + np.ascontiguousarray(a).tobytes())
    arcs = len(edges.src) + int(edges.undirected and (edges.src != edges.dst).sum())
    return {"vertices": edges.n, "arcs": arcs, "directed": not edges.undirected,
            "edges": digest.hexdigest(), "source": sorted(set(sources))}  # fmt: skip


def _described(key: str, value: Any) -> str:
    """Describe an entry of a log's origin."""
    if key == "edges":
        return f"edges of checksum {value}"
    if key == "directed":
        return "directed edges" if value else "edges without direction"
    if key == "source":
        return f"source {', '.join(map(str, value))}"
    return f"{value:,} {key}"


def inserted_edges(applied: Any) -> list[int]:
    """Return the edges that a batch inserted."""
    a = applied.inserted
    rows: list[int] = (a.get() if hasattr(a, "get") else a).tolist()
    return rows


def follow(
    dynamic: DynamicSSSP, count: int, lines: Iterable[bytes], given: Updates, log: Log, quiet: bool
) -> list[Report]:
    """Apply all batches of a file or stream; batches of a file that are in the log are skipped.

    Parameters
    ----------
    dynamic : DynamicSSSP
    count : int
        Number of edges in the graph's file.
    lines : iterable of bytes
        Result of `lines_of`.
    given : Updates
    log : Log
    quiet : bool
        Print nothing for each batch.

    Returns
    -------
    list of dict
        Report of each batch.

    Raises
    ------
    BadInput
        If the file has fewer batches than the log.
    """
    path = given.updates
    graph = dynamic.graph
    name = "standard input" if path == "-" else path
    numbers, reports = Numbers(graph, count), list[Report]()
    for inserted in log.inserted:
        numbers.add(*inserted)
    passed = 0 if path == "-" else log.number
    batches = read_updates(
        lines, name, len(graph.points), graph.edges.weight.dtype, graph.directed, given.batch
    )
    for batch in batches:
        if passed:
            logged = log.inserted[-passed][1]
            if len(batch.inserts) != logged:
                raise BadInput(
                    f"{name}:{batch.first}-{batch.last}: batch {log.number - passed + 1} of"
                    f" the log inserts {logged} edges, this one {len(batch.inserts)}"
                )
            passed -= 1
            continue
        done, absent = _apply(dynamic, numbers, batch, name, log)
        report = _report(graph, done, batch, absent)
        reports.append(report)
        if not quiet:
            click.echo(_format_update(log.number + len(reports), report))
        if given.verify:
            _verify(dynamic, f"{name}:{batch.last}")
    if passed:
        raise BadInput(f"{name}: the log has {log.number} batches, {passed} more than this file")
    return reports


def _apply(
    dynamic: DynamicSSSP, numbers: Numbers, batch: UpdateBatch, path: str, log: Log
) -> tuple[Update, int]:
    """Apply a batch; also returns the number of ids of deleted edges."""
    changes: dict[str, Any] = {}
    absent = 0
    for key, named in (("deletes", batch.deletes), ("updates", batch.updates)):
        if not len(named):
            continue
        weight = (named.weight,) if key == "updates" else ()
        if named.id[0] < 0:
            changes[key] = (named.src, named.dst, *weight)
            continue
        rows = numbers.rows(named, path)
        present = rows >= 0
        absent += int((~present).sum())
        changes[key] = (rows[present], *(w[present] for w in weight)) if weight else rows[present]
    if len(batch.inserts):
        changes["inserts"] = batch.inserts.src, batch.inserts.dst, batch.inserts.weight
    try:
        done = log.apply(dynamic, changes)
    except OverflowError as error:
        raise BadInput(f"{path}:{batch.first}-{batch.last}: {error}") from error
    numbers.add(inserted_edges(done.applied), len(batch.inserts))
    return done, absent


def _report(graph: Graph, done: Update, batch: UpdateBatch, absent: int) -> Report:
    applied, columns = done.applied, graph.edges.columns
    src, dst = (columns[c].array[applied.updated] for c in ("src", "dst"))
    return {
        "lines": [batch.first, batch.last],
        "inserted": len(batch.inserts),
        "deleted": _edges(graph, applied.deleted_src, applied.deleted_dst),
        "changed": _edges(graph, src, dst),
        "absent": applied.absent + absent,
        "decision": done.decision,
        "affected": done.affected,
        "rounds": done.rounds,
        "seconds": round(done.graph_seconds + done.repair_seconds, 6),
    }


def _edges(graph: Graph, src: Any, dst: Any) -> int:
    """Number of edges that these arcs represent."""
    loops = 0 if graph.directed or not src.size else int((src == dst).sum())
    return int(src.size) if graph.directed else (int(src.size) + loops) // 2


def _format_update(k: int, report: Report) -> str:
    counts = [
        f"{report[w]:,} {w}" for w in ("inserted", "deleted", "changed", "absent") if report[w]
    ]
    return (
        f"batch {k}: {', '.join(counts) or 'nothing'}; {report['decision']},"
        f" {report['affected']:,} affected, {report['rounds']:,} rounds,"
        f" {report['seconds'] * 1e3:.3f} ms"
    )


def _verify(dynamic: DynamicSSSP, where: str) -> None:
    """Compare with distances computed from scratch, and check the predecessors."""
    graph, found = dynamic.graph, dynamic.distance
    want = sssp(graph, dynamic.sources).distance
    differ = np.flatnonzero(np.asarray(graph.device.to_host(found != want)))
    if differ.size:
        v = int(differ[0])
        difference = f"the distance of vertex {v} is {found[v]}, but {want[v]} from scratch"
        raise click.ClickException(f"{where}: {difference}")
    validate.sssp(graph, found, dynamic.predecessor, source=dynamic.sources)


OPTIONS = (
    click.option(
        "--updates", metavar="FILE",
        help="Then apply batches of lines '+ u v w' (insert), '- u v [id]' (delete), '= u v w [id]'"
        " (change the weight), separated by blank lines, and update the distances; '-' reads"
        " standard input, batch by batch.",
    ),
    click.option(
        "--batch", type=Integer(1), metavar="N",
        help="With --updates: end a batch after N lines; by default at blank lines only.",
    ),
    click.option(
        "--verify", is_flag=True,
        help="With --updates: compare with a computation from scratch after each batch.",
    ),
    click.option(
        "--log", metavar="PATH",
        help="With --updates: write the graph to PATH, and a write-ahead log of the batches to"
        " PATH.log.",
    ),
    click.option(
        "--resume", is_flag=True,
        help="With --log: continue an existing log.  The batches of the log are skipped in FILE;"
        " '-' must contain only the following batches.",
    ),
)  # fmt: skip


class Updates(NamedTuple):
    """Values of `OPTIONS`."""

    updates: str
    batch: int | None
    verify: bool
    log: str | None
    resume: bool


def _prepared(row: Algorithm, call: Call, options: Arguments) -> Callable[[], None]:
    """Prepare `run_and_report`, or `_follow_updates` with ``--updates``."""
    settings = taken(Updates, options)
    others = settings.batch is not None or settings.verify or settings.log is not None
    if settings.updates is None and others:
        raise BadInput("--batch, --verify and --log belong to --updates")
    if settings.resume and settings.log is None:
        raise BadInput("--resume belongs to --log")
    if settings.updates is None:
        return prepared(row, call, options)
    for name in ("cutoff", "rows"):
        if options[name] is not None and options[name] is not False:
            raise BadInput(f"--{name} and --updates exclude each other")
    if call.mpi:
        raise BadInput("--mpi and --updates exclude each other")
    return partial(_follow_updates, row, call, options, settings)


sssp_command = make_command(ALGORITHMS["sssp"], _prepared, OPTIONS)


def _follow_updates(row: Algorithm, call: Call, options: Arguments, settings: Updates) -> None:
    """Shortest paths of a changing graph: read, apply updates, save, report."""
    path, sources, where = call.path, options["source"], device_of(call.device)
    check_writable("-o", call.output, ANSWERS)
    log = Log(settings.log, settings.resume, path, settings.updates, call.output)
    with closing(log), lines_of(settings.updates) as stream:
        edges = read_edges(path)
        check_sources(edges.n, sources)
        origin = {} if settings.log is None else origin_of(edges, sources)
        if edges.weight is None:  # updates may set weights
            edges = dataclasses.replace(edges, weight=np.ones(len(edges.src), np.int32))
        log.read(lambda: graph_of(path, edges, row, where), where, origin)
        with bad_input(f"{path}: "):
            dynamic = DynamicSSSP(log.graph, list(sources))
        log.begin()
        batches = follow(dynamic, len(edges.src), stream, settings, log, call.as_json)
    predecessor = dynamic.predecessor if call.complete else None
    found = on_host(log.graph, Sssp(dynamic.distance, predecessor))
    save_answer(call.output, row, row.answer(found, {"source": list(sources)}))
    arcs, result = log.graph.edges.live, row.report(found)
    report: dict[str, Any] = {"input": {"vertices": edges.n, "edges": len(edges.src)}}
    report |= {"vertices": edges.n, "edges": arcs, **result, **source_of(options)}
    if settings.log is not None:
        report["resumed_after"] = log.number
    times = {"graph_and_repair": round(sum(b["seconds"] for b in batches), 6)}
    report |= {"batches": batches, "verified": settings.verify}
    report |= {"times": times, "device": where.name}
    lines = [
        f"{edges.n:,} vertices, {arcs:,} arcs",
        ", ".join(f"{key} {value:,}" for key, value in result.items()),
        _summary(batches),
        f"{where.name}: {times['graph_and_repair']:.3f} s",
    ]
    print_report(report, call.as_json, lines)


def _summary(batches: list[Report]) -> str:
    """Summarise all batches."""
    totals = (
        f"{sum(b[key] for b in batches):,} {key}" for key in ("inserted", "deleted", "changed")
    )
    recomputed = sum(b["decision"] == "recomputed" for b in batches)
    return f"{len(batches):,} batches ({recomputed:,} recomputed): {', '.join(totals)}"
