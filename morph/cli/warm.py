"""``morph warm``: compile the kernels of algorithms before they are needed."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice, product
from multiprocessing import resource_tracker
from multiprocessing.pool import Pool
from multiprocessing.util import Finalize
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import click
import numpy as np

from morph import generate, survey
from morph.algorithms.community.community import MAX_FEW, community
from morph.algorithms.dynamic.cores import DynamicCores
from morph.algorithms.dynamic.dynamic import DynamicBFS, DynamicComponents, DynamicSSSP
from morph.algorithms.dynamic.pagerank import DynamicPageRank
from morph.algorithms.graph.bfs import bfs
from morph.algorithms.graph.cliques import cliques
from morph.algorithms.graph.max_flow import max_flow
from morph.algorithms.graph.path import path
from morph.algorithms.graph.sssp import sssp
from morph.algorithms.refinement.refine import refine
from morph.algorithms.registration import Algorithm
from morph.algorithms.registry import ALGORITHMS
from morph.algorithms.triangulation.triangulate import triangulate
from morph.cli.common import (
    BadInput,
    Line,
    completing,
    device_of,
    device_option,
    examples,
    progress_on,
)
from morph.cli.logs import log_in_worker, verbose
from morph.cli.numbers import Integer
from morph.data import sorting
from morph.graph import Graph, reverses
from morph.io.text import clauses, numbers
from morph.launch import common_units
from morph.mesh import compiled
from morph.runtime.cuda import small_copies
from morph.runtime.threads import get_num_threads, set_num_threads
from morph.runtime.toolchain import cpu, cuda, shipped, tiers
from morph.runtime.toolchain.parallel import cores

Calls = Iterator[Callable[[], Any]]
Job = TypeVar("Job")

N = 12  # vertices of a graph
TOGETHER = 4  # calls per process, which share kernels
TYPES = (None, np.int32, np.int64, np.float64)  # of weights


def _graphs(
    device: str, types: tuple[Any, ...], n: int = N, degree: int = 3
) -> Iterator[Graph]:  # fmt: skip
    """Small graphs, directed and not, with weights of each type."""
    rng = np.random.default_rng(0)
    ends = np.sort(rng.choice(n, (2, degree * n)), axis=0)
    for dtype in types:
        weight = None if dtype is None else rng.integers(1, 9, degree * n).astype(dtype)
        for both in (True, False):
            yield Graph.from_edges(ends[0], ends[1], weight, n=n, symmetrize=both, device=device)


def _types(read: bool) -> tuple[Any, ...]:
    """Types of weights that calls are compiled for.

    Weights that a call does not read change no binary, but the record of its unit, which a wheel
    has, too.
    """
    return TYPES if read or shipped.collected() else (None,)


def _row(row: Algorithm, device: str) -> Calls:
    """Calls of a graph algorithm: with the examples of its options, and with all results."""
    weighted = "weighted" in {o.name for o in row.options}
    for g in map(row.suited, _graphs(device, _types(bool(row.weights) or weighted))):
        for options in (*row.examples, *([{"weighted": True}] if weighted else [])):
            given = row.arguments_of(options)
            yield partial(row.function, g, **given)
            yield partial(row.function, g, **given | dict(row.complete))
    yield from common_units.builders(row.name, device)


def _many_sources(row: Algorithm, device: str) -> Calls:
    """Calls that a CPU makes with a thread for each source, or with all threads for all sources."""
    for threads in (2, 8 * N):
        for call in _row(row, device):
            yield partial(_with_threads, threads, call)


def _with_threads(threads: int, call: Callable[[], Any]) -> None:
    before = get_num_threads()
    set_num_threads(threads)
    try:
        call()
    finally:
        set_num_threads(before)


def _bfs(device: str) -> Calls:
    yield from _row(ALGORITHMS["bfs"], device)
    for g, threads in product(_graphs(device, _types(False)), (2, 8)):
        yield partial(_with_threads, threads, partial(bfs, g, [0, 1], rows=True))


def _sssp(device: str) -> Calls:
    yield from _row(ALGORITHMS["sssp"], device)
    for g in _graphs(device, TYPES[1:], degree=10):  # dense enough for `dense_phase`
        yield partial(sssp, g, predecessors=True)


def _cliques(device: str) -> Calls:
    for g in _graphs(device, _types(False)):
        yield partial(lambda g: list(cliques(g)), g)


def _path(device: str) -> Calls:
    for g in _graphs(device, TYPES):
        yield partial(_trace, g)


def _trace(g: Graph) -> None:
    found = sssp(g, predecessors=True) if "weight" in g.edges.columns else bfs(g)
    path(g, found, 0)


def _community(device: str) -> Calls:
    for g in _graphs(device, _types(False)):
        yield partial(community, g, 0, (3, 6))
        for every in (False, True):
            yield partial(community, g, [0, 1], (3, 6), all=every)
        yield partial(community, g, [0, 1] * MAX_FEW, (3, 6))  # too many for one launch
    yield from common_units.builders("community", device)


def _max_flow(device: str) -> Calls:
    integers = tuple(t for t in _types(False) if t is not np.float64)
    for g in _graphs(device, integers):
        yield partial(max_flow, g, 0, 1)


def _dynamic(device: str) -> Calls:
    kinds = DynamicBFS, DynamicSSSP, DynamicComponents, DynamicCores, DynamicPageRank
    for kind in kinds:
        yield from common_units.builders(kind.__name__, device)
    for kind in kinds:
        n = 16 * N if kind is DynamicPageRank else N  # small batches are repaired
        for g in _graphs(device, TYPES if kind is DynamicSSSP else (None,), n):
            if kind is not DynamicComponents or not g.directed:
                yield partial(_follow, kind, g)


def _follow(kind: Callable[..., Any], g: Graph) -> None:
    """Update a result in batches of one change and of several.

    These launch different units: the first batch, which makes gaps in the rows; a second single
    change, by a prepared launch; changes of several edges; single changes after a deletion; batches
    that affect many points, after which the result is recomputed from rows with gaps.
    """
    answer = kind(g)
    weight = [[2, 3]] if "weight" in g.edges.columns else []
    single = [w[0] for w in weight]
    for k in range(2):  # no edge has been deleted yet
        answer.apply((k, 4 + k, *single))
    answer.refresh()
    for k in range(2):
        answer.apply(([k, k + 1], [k + 5, k + 6], *weight), ([k], [k + 5]))
    for k in range(2):
        answer.apply((k, 8 + k, *single))
    answer.refresh()


def _generate(device: str) -> Calls:
    for weight in (None, (1, 9)):
        yield partial(generate.rmat, 6, weight=weight, device=device)
        yield partial(generate.grid, 5, 5, weight=weight, device=device)
    yield partial(generate.uniform, 30, 110, device=device)
    yield from common_units.builders("generate", device)


def _points() -> Any:
    return np.random.default_rng(0).random((300, 2))


def _triangulate(device: str) -> Calls:
    rim, square = [[0, 1], [1, 2], [2, 3], [3, 0]], [[0, 0], [1, 0], [1, 1], [0, 1]]
    run = partial(triangulate, device=device)
    yield partial(run, _points())
    yield partial(run, square, rim)
    hole = [[x / 3 + 1 / 3, y / 3 + 1 / 3] for x, y in square], [[a + 4, b + 4] for a, b in rim]
    yield partial(run, square + hole[0], rim + hole[1], [[0.5, 0.5]], [[0.1, 0.5, 3, -1]])
    yield partial(run, square, [*rim, [0, 2], [1, 3]], crossing="split")
    yield from common_units.builders("triangulate", device)


def _refine(device: str) -> Calls:
    options: tuple[dict[str, Any], ...] = (
        {}, {"max_area": 0.01}, {"size": 0.05}, {"boundary": "keep-hull"}, {"boundary": "keep-all"},
        {"conforming": True}, {"deterministic": True}, {"max_points": 400},
    )  # fmt: skip
    for given in options:
        for progress in (None, lambda *_: None):  # one launch, or one launch per round
            yield partial(_refined, progress=progress, device=device, **given)
    for call in ("refine", "triangulate"):  # the command `refine` triangulates a file of points
        yield from common_units.builders(call, device)


def _refined(device: str, **options: Any) -> None:
    mesh = triangulate(_points(), device=device)
    refine(mesh, 25, device=device, **options)


def _sat(device: str) -> Calls:
    formula = generate.random_ksat(3, 300, 4.0)
    solve = partial(survey.solve, formula, max_rounds=30, device=device)
    yield partial(rolled_back, device)
    for find in (survey.surveys, survey.beliefs, survey.reinforce):
        yield partial(find, formula, max_sweeps=5, device=device)
    yield solve
    yield partial(solve, method="decimation", options={"max_sweeps": 8})  # rounds are undone
    yield partial(survey.walksat, formula, device=device)
    for decimate in (survey.backtrack, survey.believe):
        yield partial(decimate, formula, max_rounds=2, device=device)
    yield from common_units.builders("solve", device)


def rolled_back(device: Any) -> survey.Decimation:
    """Fix too many variables at once: rounds are undone, and variables unfixed."""
    formula = generate.random_ksat(3, N, 4.5, seed=1)
    options: dict[str, Any] = {"fraction": 0.6, "tolerance": 0.5, "max_sweeps": 4}
    return survey.backtrack(formula, max_rounds=3, device=device, **options)


def _text(device: str) -> Calls:
    yield from (library.load for library in LIBRARIES)


LIBRARIES = tuple(x.LIBRARY for x in (clauses, numbers, reverses, compiled, sorting))

CALLS: dict[str, Callable[[str], Calls]] = {
    "dynamic": _dynamic,  # longest compilation first
    "refine": _refine,
    "sat": _sat,
    "triangulate": _triangulate,
    "generate": _generate,
    "community": _community,
    "cliques": _cliques,
    "path": _path,
    "max-flow": _max_flow,
    "text": _text,
    **{name: partial(_row, row) for name, row in ALGORITHMS.items()},
    **{
        name: partial(_many_sources, ALGORITHMS[name])
        for name in ("betweenness", "edge-betweenness", "johnson")
    },
    "bfs": _bfs,
    "sssp": _sssp,
}


def _run(job: tuple[str, str, int, int]) -> str:
    """Run some of the calls of an algorithm, which compiles their kernels; return its name."""
    name, device, start, count = job
    for call in islice(CALLS[name](device), start, start + count):
        call()
    return name


def _compile_for_gpus(job: tuple[str, tuple[str, ...]], folder: Path) -> str:
    """Compile a text into the folder of a wheel; return the architectures."""
    text, group = job
    cuda.ship(text, group, folder)
    return " ".join(group)


class _Bar(Line):
    """The share of jobs that are done, and what the last one has compiled."""

    WIDTH: ClassVar = 30

    def show(self, done: int, total: int, last: str) -> None:
        """Draw the bar."""
        full = self.WIDTH * done // total
        bar = "#" * full + "-" * (self.WIDTH - full)
        self.write(f"[{bar}] {done} of {total} {last}".rstrip())


class _Log:
    """Lines in place of the bar, for the log of a wheel's build; none in the first seconds."""

    SECONDS: ClassVar = 10.0

    def __init__(self) -> None:
        self.start = self.shown = time.monotonic()

    def show(self, done: int, total: int, last: str) -> None:
        """Print the number of jobs that are done, and the seconds since the start."""
        now = time.monotonic()
        if now - self.shown >= self.SECONDS:
            self.shown = now
            click.echo(f"{done} of {total} {last}, {now - self.start:.0f} s", err=True)


def _in_parallel(
    pool: Pool, function: Callable[[Job], str], jobs: Sequence[Job], bar: _Bar | _Log | None
) -> None:
    """Call a function, which returns a name to show, for each job."""
    if bar:
        bar.show(0, len(jobs), "")
    for done, last in enumerate(pool.imap_unordered(partial(_call, function), jobs), 1):
        if bar:
            bar.show(done, len(jobs), last)


@contextmanager
def _workers(count: int) -> Iterator[Pool]:
    """Start processes, and end them with their compilers; only this process handles Ctrl-C.

    The terminal sends the signal of Ctrl-C to all processes, and a worker that it ended at once
    would leave compilers running and files half written.
    """
    arguments = _begin_worker, (verbose(),)
    spawn = multiprocessing.get_context("spawn")
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        with spawn.Pool(count, *arguments) as pool:
            yield pool
            pool.close()
            pool.join()
        return
    resource_tracker.ensure_running()  # its start would unblock the signal
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        started = spawn.Pool(count, *arguments)  # the processes inherit the mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    with started as pool:
        yield pool
        pool.close()
        pool.join()


def _begin_worker(shown: bool) -> None:
    Finalize(None, _exit_worker, exitpriority=0)
    log_in_worker(shown)


def _call(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a worker, where SIGTERM raises an exception, which ends its compilers.

    Between calls the signal ends the worker itself: if it comes just before the worker waits for a
    call, an exception is raised only after the wait, which never ends.
    """
    signal.signal(signal.SIGTERM, _terminate_worker)
    try:
        return function(*args)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate_worker(*_: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit()


def _exit_worker() -> None:
    """End a worker without the finalization of the interpreter, which takes 0.1 s."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of the pool, which ends workers that end, too
    atexit._run_exitfuncs()
    os._exit(0)


def _each(architectures: tuple[str, ...]) -> tuple[str, ...]:
    """Return each architecture once, those that "all" stands for included."""
    known = {"all": shipped.ARCHITECTURES}
    return tuple(dict.fromkeys(a for name in architectures for a in known.get(name, (name,))))


def _jobs(names: Sequence[str], device: str, together: int) -> list[tuple[str, str, int, int]]:
    """Divide the calls of some algorithms, or of all, into jobs of a few calls.

    A call compiles its units one after the other.  So the jobs that compile single units come
    first, and of algorithms without such jobs the first call, whose units most others need.  Then
    the algorithms take turns: calls of the same one would wait for each other's units.
    """
    found = []
    for name in CALLS if not names else [n for n in CALLS if n in names]:
        units = [getattr(c, "func", None) is common_units._build_now for c in CALLS[name](device)]
        turns = {True: 0, False: 0 if any(units) else -1}
        for k in range(0, len(units), together):
            single = all(units[k : k + together])
            turn = turns[single]
            found.append((not single and turn >= 0, turn, (name, device, k, together)))
            turns[single] += 1
    return [job for _, _, job in sorted(found, key=itemgetter(0, 1))]


def _texts_for_gpus() -> list[str]:
    """Return, and record, the texts of the units that only GPUs launch."""
    return list(common_units.texts_for_gpus(device_of("cpu")))


def _ship(
    folder: Path, architectures: tuple[str, ...], more: list[str], pool: Pool, bar: _Bar | _Log
) -> None:
    """Compile the collected sources, and ``more`` texts, for GPUs, and keep binaries only."""
    files = list(folder.glob("*.cpp"))
    of_host = [library.text() for library in LIBRARIES]
    texts = [t for t in (file.read_text() for file in files) if t not in of_host]
    texts.append(small_copies.MODULE)
    texts += set(more)
    texts.sort(key=len, reverse=True)  # longest compilation first
    if jobs := list(product(texts, cuda.shared_ptx(architectures))):
        _in_parallel(pool, partial(_compile_for_gpus, folder=folder), jobs, bar)
    for file in files:
        file.unlink()


@click.command(
    "warm",
    epilog=examples("morph warm", "morph warm refine triangulate --jobs 4 --device cuda"),
)
@click.argument("names", metavar="[ALGORITHM]...", nargs=-1, shell_complete=completing(*CALLS))
@click.option("--jobs", type=Integer(1), default=None,
              metavar="N",
              help="Number of concurrent compilations; by default one per core.")  # fmt: skip
@click.option("--ship", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              help="Compile for a wheel into FOLDER, for all x86-64-v3 processors.")  # fmt: skip
@click.option("--arch", "architectures", multiple=True, metavar="sm_XX",
              help="With --ship, also for these CUDA architectures, or all.")  # fmt: skip
@device_option
def warm(
    names: tuple[str, ...], jobs: int | None, ship: Path | None, architectures: tuple[str, ...],
    spec: str,
) -> None:  # fmt: skip
    """Compile the kernels of algorithms in advance, for faster first calls.

    ALGORITHM is the name of a command, such as bfs, or `dynamic`, or `text`, which reads and
    writes large files; by default all are compiled.
    Kernels depend on the types of weights and on some options; common variants are compiled.
    """
    if unknown := [n for n in names if n not in CALLS]:
        raise BadInput(f"there is no algorithm {unknown[0]!r}: {', '.join(sorted(CALLS))}")
    for arch in architectures:
        if ship is None or not re.fullmatch(r"all|sm_\d+[af]?", arch):
            raise BadInput(f"--arch: {arch!r}: expected sm_XX or all, with --ship")
    os.environ.setdefault(tiers.VARIABLE, "full")  # no background compilation
    if ship is not None:
        if shipped.portable_flags(cpu.processor()) is None:
            raise BadInput("--ship: this is not Linux on x86-64-v3")
        ship.mkdir(parents=True, exist_ok=True)
        os.environ[shipped.COLLECT] = str(ship)
        spec = "cpu"
    device = device_of(spec).name
    together = 1 if ship else TOGETHER  # a wheel's units, in full, are not left to few processes
    todo = _jobs(names, device, together)
    jobs = jobs or cores()
    with progress_on(_Bar) as bar, _workers(jobs if ship else min(jobs, len(todo))) as pool:
        if ship is None:
            _in_parallel(pool, _run, todo, bar)
        else:
            more, shown = pool.apply_async(_call, (_texts_for_gpus,)), bar or _Log()
            _in_parallel(pool, _run, todo, shown)
            _ship(ship, _each(architectures), more.get(), pool, shown)
