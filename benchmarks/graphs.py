"""The graph algorithms beside every peer that is installed: times, ratios, floors; and a plot.

    python benchmarks/graphs.py rmat18 grid1000 roads/NY.gr.gz --sources 16 --plot ratios.png

Inputs are named as `inputs` says.  A time is the median of --repeat runs on a graph that is on the
device already, compiling not included; one that takes more than 2 s is run once.  A ratio is how
many times as long the peer takes.  Every result is compared with every peer's, and checked by
`morph.validate`, of random sources the first's.  The floor is the time to read every arc once at
the bandwidth of copying large arrays, or, if that is more, the time of an almost empty step of a
fused program for each level.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from common import beside, devices, table, timed
from inputs import FOLDER, Input, load
from peers import PEERS, Way, answer_of, installed, same, version
from ratios import plot

import morph
from morph import validate
from morph.algorithms.registration import Algorithm, Benchmark
from morph.algorithms.registry import ROWS
from morph.prelude import bool_
from morph.runtime.threads import get_num_threads as threads

PATIENCE = 2.0  # seconds; what takes longer is run once
COPIED = 1 << 28  # bytes; a GPU copies four times as many


class Case:
    """A measured call of the registry on a graph."""

    def __init__(self, row: Algorithm, benchmark: Benchmark) -> None:
        self.row, self.costs = row, benchmark
        self.name = row.public_name + benchmark.variant

    def solve(self, g: morph.Graph, source: Any) -> Any:
        """Run the algorithm from a source, if it has sources."""
        return self.row.function(g, **self.arguments(source))

    def arguments(self, source: Any) -> dict[str, Any]:
        """The arguments of the function."""
        name = "source" if self.row.has_source else "sources" if self.costs.sources else None
        return {**self.costs.arguments, **({name: source} if name else {})}

    def check(self, g: morph.Graph, found: Any, source: Any) -> None:
        """Raise an error if the answer is wrong."""
        claims = self.row.checked_arguments(found, self.arguments(source))
        getattr(validate, self.row.public_name)(g, **claims)


CASES = {case.name: case for row in ROWS for b in row.benchmarks for case in [Case(row, b)]}


@dataclass
class Result:
    """One line of the table; ``peers``: seconds, and whether the answer was the same."""

    graph: str
    algorithm: str
    device: str
    seconds: float
    arcs: float  # arcs read, if each is read as often as the floor says
    bytes: float
    levels: int | None
    peers: dict[str, tuple[float, bool]] = field(default_factory=dict)


@morph.kernel
def nothing(p):
    p.seen = True


@morph.program
def steps(g, count):
    while count > 0:
        morph.foreach(g.points, nothing)
        count -= 1


def step_seconds(device: str, count: int = 1000) -> float:
    """Seconds of one step of a fused program that does next to nothing: the best of 7."""
    g = morph.Graph(device)
    g.points.add("seen", bool_)
    # on a GPU all blocks meet after a step; on a CPU one thread alone could do without
    g.points.extend(1 << 16 if g.device.kind == "cuda" else 1)
    return min(timed(lambda: steps(g, count))[0] for _ in range(7)) / count


def bandwidth(device: str) -> float:
    """Bytes a second that copying a large array reads and writes, on all threads: the best of 7."""
    where = morph.device(device)
    size = COPIED << (2 if where.kind == "cuda" else 0)
    with where.active(), ThreadPoolExecutor(threads()) as pool:
        source, target = (where.xp.ones(size, np.uint8) for _ in range(2))
        cuts = np.linspace(0, size, threads() + 1).astype(int)
        parts = [slice(a, b) for a, b in zip(cuts, cuts[1:], strict=False)]

        def copy() -> None:
            if where.kind == "cuda":  # on the stream that is waited for, which is this thread's
                where.xp.copyto(target, source)
            else:  # NumPy copies without holding its lock
                list(pool.map(lambda part: np.copyto(target[part], source[part]), parts))

        return 2 * size / min(timed(copy)[0] for _ in range(7))


def times_of(run: Callable[[int], Any], sources: list[Any], repeat: int) -> tuple[float, list[Any]]:
    """Median seconds and all results; of one source, the median of repeated runs."""
    first, result = timed(lambda: run(sources[0]))  # which fills caches
    if first > PATIENCE:
        repeat = 1
        if len(sources) == 1:
            return first, [result]
    times, found = [], []
    for source in sources:
        for last in range(repeat if len(sources) == 1 else 1)[::-1]:
            seconds, result = timed(lambda: run(source))
            times.append(seconds)
            if last == 0:
                found.append(result)
    return statistics.median(times), found


def fastest(ways: list[Way], sources: list[int], repeat: int) -> tuple[float, list[Any]]:
    """As `times_of`, of the best way, with answers in place of results."""
    best: tuple[float, list[Any]] | None = None
    for way in ways:
        took, found = times_of(way.run, sources, repeat)
        if best is None or took < best[0]:
            best = took, [way.answer(f) for f in found]
    assert best is not None
    return best


def measure(graph: Input, options: argparse.Namespace, names: list[str]) -> list[Result]:
    """All algorithms on a graph, on all devices."""
    made: dict[str, Any] = {}
    results = []
    graphs = {device: graph.graph(device) for device in devices(options.device)}
    for what in options.only:
        case = CASES[what]
        costs, from_source = case.costs, case.row.has_source
        comparable = answer_of(graph, case.row)
        wanted = {what: [0]}
        if options.sources and from_source and not costs.variant:
            wanted[f"{what}, {options.sources} sources"] = graph.sources(options.sources)
        for title, sources in wanted.items():
            if costs.sources:
                sources = [np.array(graph.sources(costs.sources))]
            lines, truth = [], None
            for device, whole in graphs.items():
                g = case.row.suited(whole)
                case.solve(g, sources[0])  # compiles, which is no run that takes long
                took, found = times_of(lambda s: case.solve(g, s), sources, options.repeat)
                if graph.arcs <= options.validate * 1e6:
                    case.check(g, found[0], sources[0])
                truth = [comparable(one) for one in found]
                is_search = case.row.main == "distance" and not costs.sources
                arcs, points = reach(graph, truth if is_search else None)
                levels = [getattr(one, costs.steps) for one in found] if costs.steps else [None]
                lines.append(
                    Result(
                        graph.name, title, device, took, arcs * costs.passes,
                        (arcs * costs.arc_bytes + points * costs.vertex_bytes) * costs.passes,
                        sorted(levels)[len(levels) // 2],
                    )
                )  # fmt: skip
            for name in names:
                if name not in made:
                    made[name] = PEERS[name][1](graph)
                if what not in made[name]:
                    continue
                took, theirs = fastest(made[name][what], sources, options.repeat)
                right = all(
                    b is None or same(what, a, b) for a, b in zip(truth or [], theirs, strict=True)
                )
                for line in lines:
                    line.peers[name] = took, right
            for line in lines:  # the table comes when it has all its rows: a run may be stopped
                print(f"  {line.algorithm}, {line.device}: {line.seconds * 1e3:,.4g} ms",
                      file=sys.stderr, flush=True)  # fmt: skip
            results += lines
    return results


def reach(graph: Input, distances: list[np.ndarray] | None) -> tuple[float, float]:
    """Arcs and points, of those that a source reaches; of several sources, the median."""
    if distances is None:
        return graph.arcs, graph.n
    reached = [np.isfinite(d) for d in distances]
    arcs = [int(graph.degree[r].sum()) for r in reached]
    return statistics.median(arcs), statistics.median(int(r.sum()) for r in reached)


def row(r: Result, names: list[str], speed: float, step: float) -> dict[str, Any]:
    floor = max(r.bytes / speed, (r.levels or 0) * step)
    out: dict[str, Any] = {
        "graph": r.graph,
        "algorithm": r.algorithm,
        "device": r.device,
        "Morph ms": f"{r.seconds * 1e3:,.4g}",
    }
    for name in names:
        took, right = r.peers.get(name, (None, True))
        text = "" if took is None else beside(took, r.seconds)
        out[f"{name} ms"] = text if right else text + " WRONG"
    out["M arcs/s"] = f"{r.arcs / r.seconds / 1e6:,.4g}"
    out["levels"] = "" if r.levels is None else r.levels
    out["us/level"] = "" if not r.levels else r.seconds * 1e6 / r.levels
    by = "bytes" if floor == r.bytes / speed else "steps"
    out["floor ms"] = f"{floor * 1e3:,.3g} {by}"
    out["of floor"] = f"{100 * floor / r.seconds:.2g} %"
    return out


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("inputs", nargs="*", default=["rmat18", "grid1000"])
    parser.add_argument("--device", default="all", help="cpu, cuda or all, the default")
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), help="those installed")
    parser.add_argument("--slow", action="store_true", help="NetworkX, too")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--sources", type=int, default=0, help="random sources, beside source 0")
    parser.add_argument("--validate", type=float, default=1e9, metavar="M",
                        help="only graphs of at most so many million arcs")  # fmt: skip
    parser.add_argument("--cache", type=Path, metavar="FOLDER", default=FOLDER)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the ratios")
    options = parser.parse_args(arguments)
    names = installed(options.peers, options.slow, "cuda" in devices(options.device))
    print("beside", ", ".join(version(name) for name in names) or "no peer", flush=True)
    speed, step = {}, {}
    for device in devices(options.device):
        step[device] = step_seconds(device)  # from the first launch on, the device is waited for
        speed[device] = bandwidth(device)
        used = f"{threads()} threads" if device == "cpu" else morph.device(device).name
        print(f"{used}: copying {speed[device] / 1e9:,.3g} GB/s read and written, a step"
              f" {step[device] * 1e6:.2g} us", flush=True)  # fmt: skip
    results = []
    for given in options.inputs:
        graph = load(given, options.cache)
        print(f"{graph.name}: {graph.n:,} points, {graph.arcs:,} arcs", flush=True)
        found = measure(graph, options, names)
        table([row(r, names, speed[r.device], step[r.device]) for r in found])
        results += found
    if options.plot:
        plot(results, options.plot)
    wrong = [f"{r.graph}, {r.algorithm}, {r.device}: {name}"
             for r in results for name, (_, right) in r.peers.items() if not right]  # fmt: skip
    if wrong:
        raise SystemExit("other answers than Morph's:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
