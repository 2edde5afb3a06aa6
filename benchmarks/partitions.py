"""Programs on a partitioned graph beside the same programs on one device, with equal results.

On parts a program is one launch of each part, or, in the column "by steps", a launch of each part
for each of its steps.  The first row has steps of almost no work: on one device a barrier each, on
parts a barrier and two crossings in turn.  Searches begin at the point of the largest
degree.  The results of the library's algorithms stay in parts; the column "gathered" includes their
copy to the first device.  With ``--changes`` batches of random edges are inserted, and half of them
deleted, while `DynamicSSSP` keeps the distances.

    python benchmarks/partitions.py --scale 24 --devices cuda:0,cuda:1 cuda:0,cuda:1,cuda:2,cuda:3
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import append, median, record, timed

import morph
from morph import generate
from morph.prelude import atomic_min, f64, i32

FAR = 2**30
STEPS = 1000  # of the first row
FEW = 4  # sources of betweenness: points of the largest degrees
WARM = 3  # untimed calls of an algorithm before the timed ones


@morph.kernel
def relax(p, g, following):
    for t in p.outnbrs:
        d = p.length + g.weight(p, t)
        if atomic_min(t.length, d) > d:
            following.add(t)


@morph.kernel
def visit(p, level, following):
    for t in p.outnbrs:
        if atomic_min(t.length, level) > level:
            following.add(t)


@morph.program
def shortest_paths(g, now, following):
    while not now.empty:
        morph.foreach(now, relax, g, following)
        now, following = following, now
        following.clear()


@morph.program
def levels(g, now, following):
    level = i32(0)
    while not now.empty:
        level += i32(1)
        morph.foreach(now, visit, level, following)
        now, following = following, now
        following.clear()


@morph.kernel
def give(p):
    p.given = p.score / max(p.degree, 1)


@morph.kernel
def pull(p, base):
    total = 0.0
    for t in p.innbrs:
        total += t.given
    p.score = base + 0.85 * total


@morph.program
def pagerank(g, base, iterations):
    done = 0
    while done < iterations:
        morph.foreach(g.points, give)
        morph.foreach(g.points, pull, base)
        done += 1


@morph.kernel
def pass_on(p):
    for t in p.innbrs:
        p.next = t.value + 1


@morph.kernel
def keep(p):
    p.value = p.next


@morph.program
def rounds(g, count):
    done = 0
    while done < count:
        morph.foreach(g.points, pass_on)
        morph.foreach(g.points, keep)
        done += 2


def ring(devices: list[str]) -> list[Any]:
    """Make a ring of 1,000 points on one device and in parts."""
    at = np.arange(1000)
    g = morph.Graph.from_edges(at, (at + 1) % 1000, device=devices[0])
    found = [g, morph.partition(g, devices)]
    for x in found:
        x.points.add("value", i32)
        x.points.add("next", i32)
    return found


def search(g: Any, source: int) -> tuple[Any, ...]:
    """Prepare a search from a point; gives the arguments of its program."""
    g.points.length[:] = FAR
    g.points.length[source] = 0
    now, following = morph.Collection(g.points), morph.Collection(g.points)
    now.extend([source])
    return g, now, following


def fresh(g: Any, column: str, value: float, *numbers: float) -> tuple[Any, ...]:
    """Give a column one value; gives the arguments of the program that changes it."""
    getattr(g.points, column)[:] = value
    return g, *numbers


def host(column: Any) -> np.ndarray:
    """Give a column of one device or of parts as an array of NumPy's."""
    return on_host(column[:])


def on_host(values: Any) -> np.ndarray:
    """Give an array of any device as one of NumPy's."""
    return values.get() if hasattr(values, "get") else np.asarray(values)


def alone(program: Any, prepare: Callable[[], tuple[Any, ...]], repeat: int) -> float:
    """Median seconds of the program alone: its arguments are made before."""
    times = [timed(partial(program, *prepare()))[0] for _ in range(repeat + 1)]
    return statistics.median(times[1:])


def row(name: str, one: Any, parts: Any, program: Any, prepare: Any, column: str, o: Any) -> Any:
    """Time a program on parts, also by steps; ``one`` has its seconds on one device and result."""
    seconds, wanted = one
    times, equal = [], True
    for run in (program,) if o.no_steps else (program, program.eager):
        times.append(alone(run, partial(prepare, parts), o.repeat))
        found = host(getattr(parts.points, column))
        equal = equal and np.allclose(found, wanted, rtol=1e-12, atol=0)
    return {
        "program": name, "one ms": seconds * 1e3, "parts ms": times[0] * 1e3, "gathered ms": "",
        "by steps ms": "" if o.no_steps else times[1] * 1e3, "speedup": seconds / times[0],
        "equal": "yes" if equal else "NO",
    }  # fmt: skip


def call(name: str, one: Any, parts: Any, run: Any, repeat: int) -> dict[str, Any]:
    """Time an algorithm of the library on parts; ``one`` as of `row`."""
    seconds, wanted = one
    several, found = median(lambda: run(parts), repeat, WARM)
    gathered, _ = median(lambda: run(parts)[:], repeat)
    equal = np.allclose(on_host(found), wanted, rtol=1e-9, atol=0)
    return {
        "program": name, "one ms": seconds * 1e3, "parts ms": several * 1e3,
        "gathered ms": gathered * 1e3, "by steps ms": "",
        "speedup": seconds / several, "equal": "yes" if equal else "NO",
    }  # fmt: skip


def show(rows: list[dict[str, Any]]) -> None:
    """Print the last row, after the names of the columns if it is the first."""
    record(rows[-1:])
    for values in ([rows[0]] if len(rows) == 1 else []), [rows[-1].values()]:
        for name, *others in values:
            cells = (f"{x:,.4g}" if isinstance(x, float) else str(x) for x in others)
            print(name.rjust(23), *(x.rjust(11) for x in cells), flush=True)


def shape_of(parts: Any) -> tuple[dict[str, float], int]:
    """Give the features of parts for the cost model, and the most bytes that a part receives."""
    sizes = parts.statistics()
    on = [sum(s.edges for s in sizes if s.device == d) for d in {s.device for s in sizes}]
    shape = {
        "parts": len(sizes), "points": len(parts.points),
        "local": max(s.points + s.mirrors for s in sizes), "share": max(on) / len(parts.edges),
    }  # fmt: skip
    return shape, 8 * max(s.mirrors for s in sizes)


def relaxed(g: Any, source: int) -> tuple[int, int]:
    """Count the steps of `shortest_paths` on one device, and the arcs that it relaxes."""
    _, now, following = search(g, source)
    degree, steps, arcs = g.degree(), 0, 0
    while not now.empty:
        arcs, steps = arcs + int(degree[now.items].sum(dtype=np.int64)), steps + 1
        morph.foreach(now, relax, g, following)
        now, following = following, now
        following.clear()
    return steps, arcs


def features(g: Any, parts: Any, source: int, iterations: int) -> dict[str, dict[str, float]]:
    """Give what the cost model of `scaling` knows of programs, by the begin of their names.

    An offer or a value takes 8 bytes.  In a search each mirror makes at most one offer; as many as
    the arcs to it are relaxed on average, in `shortest_paths`.
    """
    shape, most = shape_of(parts)
    depth, arcs = morph.bfs(g, source).levels, len(g.edges)
    steps, visits = relaxed(g, source)
    found = {
        f"{STEPS:,} steps": (STEPS, STEPS // 2, 0, 0),
        "levels": (depth, depth, arcs, most),
        "shortest_paths": (steps, steps, visits, most * visits / arcs),
        "pagerank": (2 * iterations, iterations, iterations * arcs, iterations * most),
    }
    names = "steps", "crossings", "visits", "bytes"
    return {k: {**shape, **dict(zip(names, x, strict=True))} for k, x in found.items()}


def measured(rows: list[dict[str, Any]], known: dict[str, dict[str, float]]) -> Any:
    """Give the rows for `scaling`: features, and seconds on one device and on parts."""
    for x in rows:
        for name, shape in known.items():
            if x["program"].startswith(name):
                for executor, column in (("one launch", "parts ms"), ("by steps", "by steps ms")):
                    if x[column] == "":
                        continue
                    seconds = {"one": x["one ms"] / 1e3, "seconds": x[column] / 1e3}
                    yield {"program": name, "executor": executor, **shape, **seconds}


def programs_of(n: int, source: int, iterations: int) -> dict[str, tuple[Any, Any, str]]:
    """Give the programs, what prepares their arguments, and the columns of their results."""

    def begin(x: Any) -> tuple[Any, ...]:
        return fresh(x, "score", 1 / n, 0.15 / n, iterations)

    def seek(x: Any) -> tuple[Any, ...]:
        return search(x, source)

    return {
        f"{STEPS:,} steps": (rounds, lambda x: fresh(x, "value", 0, STEPS), "value"),
        "levels": (levels, seek, "length"),
        "shortest_paths": (shortest_paths, seek, "length"),
        f"pagerank, {iterations} iterations": (pagerank, begin, "score"),
    }


def calls_of(sources: list[int], iterations: int) -> dict[str, Any]:
    """Give the algorithms of the library; searches begin at the first source."""
    source = sources[0]
    return {
        "morph.bfs": lambda x: morph.bfs(x, source).distance,
        "morph.sssp": lambda x: morph.sssp(x, source).distance,
        "morph.pagerank": lambda x: morph.pagerank(x, tolerance=0, iterations=iterations)[0],
        f"morph.betweenness, {len(sources)}": lambda x: morph.betweenness(x, sources).centrality,
        "morph.core_number": lambda x: morph.core_number(x).core,
    }


def changed(g: Any, size: int, source: int, repeat: int) -> tuple[float, np.ndarray]:
    """Median seconds of a batch of changes of `DynamicSSSP`, and the last distances."""
    paths, rng, times = morph.DynamicSSSP(g, source), np.random.default_rng(size), []
    for k in range(repeat + 1):
        ends = rng.integers(0, len(g.points), (2, size))
        weight = rng.integers(1, 256, size).astype(np.int32)
        for batch in ({"inserts": (*ends, weight)}, {"deletes": tuple(ends[:, : size // 2])}):
            times.append(timed(partial(paths.apply, **batch))[0])
            print(f"DynamicSSSP, batch {k}, {size} changes: {times[-1] * 1e3:.2f} ms", flush=True)
    return statistics.median(times[2:]), on_host(paths.distance).copy()


def row_of_changes(g: Any, devices: list[str], size: int, source: int, o: Any) -> dict[str, Any]:
    """Time batches of changes on one device and on parts."""
    seconds, wanted = changed(g.copy(), size, source, o.repeat)
    spent, parts = timed(lambda: morph.partition(g, devices, by=o.by))
    print(f"parts made in {spent:.2f} s", flush=True)
    several, found = changed(parts, size, source, o.repeat)
    return {
        "program": f"DynamicSSSP, {size:,}", "one ms": seconds * 1e3, "parts ms": several * 1e3,
        "gathered ms": "", "by steps ms": "", "speedup": seconds / several,
        "equal": "yes" if (found == wanted).all() else "NO",
    }  # fmt: skip


def on_one(g: Any, programs: Any, calls: Any, first: str, repeat: int) -> dict[str, Any]:
    """Time all on one device; gives seconds and results."""
    found = {}
    for name, (program, prepare, column) in programs.items():
        x = ring([first])[0] if program is rounds else g
        seconds = alone(program, partial(prepare, x), repeat)
        found[name] = seconds, host(getattr(x.points, column)).copy()
    for name, run in calls.items():
        seconds, result = median(lambda run=run: run(g), repeat, WARM)
        found[name] = seconds, on_host(result).copy()
    return found


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, and print a row for each program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=18, help="of the R-MAT graph")
    parser.add_argument("--devices", nargs="+", default=["cpu,cpu"], help="of the parts")
    parser.add_argument("--by", default="degree", choices=["range", "degree"])
    parser.add_argument("--permute", action="store_true", help="number the points at random")
    parser.add_argument("--iterations", type=int, default=20, help="of PageRank")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", help="begins of names of rows, such as morph.bfs,pagerank")
    parser.add_argument("--changes", type=int, nargs="*", default=[], help="sizes of batches")
    parser.add_argument("--no-steps", action="store_true", help="leave out the column by steps")
    parser.add_argument("--rows", help="file to append rows for scaling.py to")
    o = parser.parse_args(arguments)
    first = o.devices[0].split(",")[0]
    draw = partial(generate.rmat, o.scale, 16, permute=o.permute, weight=(1, 255), device=first)
    spent, g = timed(draw)
    print(f"{len(g.edges):,} arcs made on {first} in {spent:.2f} s")
    g.points.add("length", i32)  # no names of columns of the library, which it would set aside
    for name in ("score", "given"):
        g.points.add(name, f64)
    sources = on_host(g.degree().argsort()[: -1 - FEW : -1]).tolist()
    source = sources[0]
    print(f"searches begin at {source}")
    chosen = tuple(o.only.split(",")) if o.only else ("",)
    programs, calls = (
        {k: x for k, x in every.items() if k.startswith(chosen)}
        for every in (programs_of(len(g.points), source, o.iterations),
                      calls_of(sources, o.iterations))
    )  # fmt: skip
    one = on_one(g, programs, calls, first, o.repeat)
    for names in o.devices:
        devices = names.split(",")
        parts = morph.partition(g, devices, by=o.by)
        print(parts, flush=True)
        rows = []
        for k in one:
            if k in calls:
                rows.append(call(k, one[k], parts, calls[k], o.repeat))
            else:
                x = ring(devices)[1] if programs[k][0] is rounds else parts
                rows.append(row(k, one[k], x, *programs[k], o))
            show(rows)
        for size in o.changes:
            rows.append(row_of_changes(g, devices, size, source, o))
            show(rows)
        if o.rows:
            append(o.rows, list(measured(rows, features(g, parts, source, o.iterations))))
        del parts


if __name__ == "__main__":
    main()
