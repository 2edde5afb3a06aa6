"""Programs on a graph in parts beside the same programs on one device, with equal results.

On parts a program is one launch of each part, or, in the column "by steps", a launch of each part
for each of its steps.  The first row has steps of almost no work: on one device a barrier each, on
parts a barrier, and a crossing in every second step.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from common import median, table

import morph
from morph import generate
from morph.prelude import atomic_min, f64, i32

FAR = 2**30
STEPS = 1000  # of the first row


@morph.kernel
def relax(p, g, following):
    for t in p.outnbrs:
        d = p.dist + g.weight(p, t)
        if atomic_min(t.dist, d) > d:
            following.add(t)


@morph.kernel
def visit(p, level, following):
    for t in p.outnbrs:
        if atomic_min(t.dist, level) > level:
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
    p.share = p.rank / max(p.degree, 1)


@morph.kernel
def pull(p, base):
    total = 0.0
    for t in p.innbrs:
        total += t.share
    p.rank = base + 0.85 * total


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


def search(g: Any, program: Any) -> np.ndarray:
    """Run a search from point 0; gives the distances."""
    g.points.dist[:] = FAR
    g.points.dist[0] = 0
    now, following = morph.Collection(g.points), morph.Collection(g.points)
    now.extend([0])
    program(g, now, following)
    return host(g.points.dist)


def ranks(g: Any, program: Any, iterations: int) -> np.ndarray:
    """Run iterations of PageRank; gives the ranks."""
    g.points.rank[:] = 1 / len(g.points)
    program(g, 0.15 / len(g.points), iterations)
    return host(g.points.rank)


def host(column: Any) -> np.ndarray:
    """Give a column of one device or of parts as an array of NumPy's."""
    values = column[:]
    return values.get() if hasattr(values, "get") else np.asarray(values)


def steps(g: Any, program: Any) -> np.ndarray:
    """Run steps of almost no work; gives the values."""
    g.points.value[:] = 0
    program(g, STEPS)
    return host(g.points.value)


def row(name: str, g: Any, parts: Any, program: Any, run: Any, repeat: int) -> dict[str, Any]:
    """Time a program on one device and on parts, there also by steps."""
    one, wanted = median(lambda: run(g, program), repeat)
    divided, found = median(lambda: run(parts, program), repeat)
    single, same = median(lambda: run(parts, program.eager), repeat)
    equal = all(np.allclose(x, wanted, rtol=1e-12, atol=0) for x in (found, same))
    return {
        "program": name, "one ms": one * 1e3, "parts ms": divided * 1e3,
        "by steps ms": single * 1e3, "speedup": one / divided, "equal": "yes" if equal else "NO",
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, and print a row for each program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=18, help="of the R-MAT graph")
    parser.add_argument("--devices", default="cpu,cpu", help="one for each part")
    parser.add_argument("--by", default="degree", choices=["range", "degree"])
    parser.add_argument("--iterations", type=int, default=20, help="of PageRank")
    parser.add_argument("--repeat", type=int, default=5)
    o = parser.parse_args(arguments)
    devices = o.devices.split(",")
    g = generate.rmat(o.scale, 16, weight=(1, 255), device=devices[0])
    parts = morph.partition(g, devices, by=o.by)
    print(parts)
    cases = {
        "levels": (levels, search),
        "shortest_paths": (shortest_paths, search),
        f"pagerank, {o.iterations} iterations": (
            pagerank,
            lambda x, program: ranks(x, program, o.iterations),
        ),
    }
    for x in (g, parts):
        x.points.add("dist", i32)
        for name in ("rank", "share"):
            x.points.add(name, f64)
    small, small_parts = ring(devices)
    rows = [row(f"{STEPS:,} steps", small, small_parts, rounds, steps, o.repeat)]
    for name, (program, run) in cases.items():
        rows.append(row(name, g, parts, program, run, o.repeat))
    table(rows)


if __name__ == "__main__":
    main()
