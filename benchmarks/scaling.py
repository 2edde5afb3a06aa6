"""A cost model of programs on parts, fitted on rows of benchmarks, and predictions for more GPUs.

A program of S steps that visits V edges takes ``S b + V c`` on one device.  On parts it takes
``S b + s V (c + e) + K l + B / w``: one device has at most a share s of the edges, and a visit
takes e more, for the test of the owner and for messages; K crossings have a latency l; the busiest
part receives B bytes, w a second.  A visit takes longer if the other end of its edge is not in the
cache; the share of these visits follows from the degrees of an R-MAT graph, if the cache holds the
points of the largest degrees.  It does not depend on the parts: each has copies of these points.
b, l and w are fitted for each executor, e and the two numbers of c for each program, to the
relative errors.

    python partitions.py --scale 20 --devices cuda:0,cuda:1 --rows ROWS    (and other scales)
    python scaling.py ROWS --hold-out 24
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import table
from scipy.optimize import nnls

Row = dict[str, Any]
CACHE, SECTOR = 50e6, 32  # bytes: of the cache of an H100 or H200, and of what a read loads
NONE = (0.0,) * 5  # seconds of a program without visits
ZERO, ONE = 0.76, 0.24  # of the arcs of R-MAT, those at points with this bit
# steps, exchanges, and visits of each arc, on R-MAT graphs; of PageRank in an iteration
CALLS = {"levels": (7, 7, 1.0), "shortest_paths": (9, 9, 8.2), "pagerank": (2, 1, 1.0)}


class Fit(NamedTuple):
    """Fitted numbers, in seconds: of a step, of a crossing, of a byte; by program those of a visit.

    The latter are seconds of a visit of the cache, more of a miss, more on parts; of a call, in
    which lists grow and are bound to the launch, and more of a call on parts.
    """

    step: float
    crossing: float
    byte: float
    visit: dict[str, tuple[float, ...]]


class Network(NamedTuple):
    """What links hosts: GPUs of one host, seconds of a message, bytes a second of each GPU."""

    gpus: int
    latency: float
    bandwidth: float


def degrees(scale: int) -> Iterator[tuple[int, float]]:
    """Give numbers of points of R-MAT, and each one's share of the arcs, from the largest on."""
    for ones in range(scale + 1):
        yield math.comb(scale, ones), ZERO ** (scale - ones) * ONE**ones


@cache
def missed(points: int) -> float:
    """Share of visits whose other end is not among the points that fit the cache."""
    left, hit = CACHE / SECTOR, 0.0
    for count, share in degrees(round(math.log2(max(points, 1)))):
        hit += min(count, left) * share
        left -= min(count, left)
    return max(1 - hit, 0.0)


def visit(fit: Fit, program: str, points: int, on_parts: bool) -> float:
    """Seconds of a visit in a graph with so many points."""
    cached, more, extra, *_ = fit.visit.get(program, NONE)
    return cached + more * missed(points) + extra * on_parts


def predicted(fit: Fit, row: Row) -> tuple[float, float]:
    """Seconds on one device and on the parts of a row."""
    *_, call, on_parts = fit.visit.get(row["program"], NONE)
    steps, visits = call + row["steps"] * fit.step, row["visits"]
    one = steps + visits * visit(fit, row["program"], row["points"], False)
    share = row["share"] * visits
    crossings = row["crossings"] * fit.crossing + row["bytes"] * fit.byte
    return one, steps + share * visit(
        fit, row["program"], row["points"], True
    ) + on_parts + crossings


def fitted(rows: list[Row]) -> Fit:
    """Fit the model to the times of rows, on one device and on parts."""
    programs = sorted({r["program"] for r in rows if r["visits"]})
    equations, times = [], []
    for r in rows:
        one = 1.0, 0, 0, r["one"]
        several = r["share"], r["crossings"], r["bytes"], r["seconds"]
        for part, crossings, sent, seconds in (one, several):
            terms = [r["steps"], crossings, sent]
            for p in programs:
                own, on_parts = p == r["program"], crossings > 0
                share = part * r["visits"] * own
                terms += [share, share * missed(r["points"]), share * on_parts, own]
                terms.append(own and on_parts)
            equations.append(terms)
            times.append(seconds)
    found = np.array(times)
    matrix = np.array(equations, float) / found[:, None]
    scale = np.maximum(np.abs(matrix).max(0), 1e-300)
    solution, _ = nnls(matrix / scale, np.ones(len(found)))
    step, crossing, byte, *rest = solution / scale
    visits = zip(*(rest[k::5] for k in range(5)), strict=True)
    return Fit(step, crossing, byte, dict(zip(programs, visits, strict=True)))


def mirrors(scale: int, factor: int, parts: int) -> float:
    """Expected mirrors of a part of an R-MAT graph whose edges are divided at random.

    A part has a copy of a point if one of the point's arcs is among its share.
    """
    found = 0.0
    for count, share in degrees(scale):
        arcs = 2 * factor * 2.0**scale * share
        found += count * -math.expm1(-arcs / parts)
    return found * (1 - 1 / parts)


def on_network(fit: Fit, net: Network, row: Row) -> float:
    """Seconds on parts of several hosts: a crossing waits for a message by each pair of halves."""
    hosts = max(math.ceil(row["parts"] / net.gpus), 1)
    _, seconds = predicted(fit, row)
    if hosts == 1:
        return seconds
    outside = 1 - 1 / hosts
    slow = row["bytes"] * outside * (1 / net.bandwidth - fit.byte)
    return seconds + row["crossings"] * net.latency * math.log2(hosts) + max(slow, 0)


def outlook(fit: Fit, net: Network, scales: list[int], parts: list[int]) -> list[Row]:
    """Predict searches and PageRank on R-MAT graphs that no machine here holds."""
    found = []
    for program in sorted(CALLS.keys() & fit.visit.keys()):
        for scale in scales:
            for p in parts:
                steps, crossings, passes = CALLS[program]
                arcs, copies = 32 * passes * 2.0**scale, mirrors(scale, 16, p)
                row = {
                    "program": program, "parts": p, "points": 2**scale, "share": 1 / p,
                    "local": 2**scale / p + copies, "visits": arcs, "steps": steps,
                    "crossings": crossings, "bytes": 8 * copies * passes,
                }  # fmt: skip
                seconds = on_network(fit, net, row)
                found.append({
                    "program": program, "R-MAT scale": scale, "GPUs": p,
                    "GB a GPU": (8 * arcs / passes / p + 20 * row["local"]) / 1e9,
                    "mirrors / own": copies / (2**scale / p), "ms": seconds * 1e3,
                    "a bit a mirror ms": copies / 8 * max(fit.byte, 1 / net.bandwidth) * 1e3,
                    "exchange %": 100 * (1 - predicted(fit, {**row, "crossings": 0, "bytes": 0})[1]
                                         / seconds),
                    "G arcs/s a GPU": arcs / seconds / p / 1e9,
                })  # fmt: skip
    return found


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, and print the fit, its errors and the outlook."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", help="rows that partitions.py and ranks.py append")
    parser.add_argument("--hold-out", type=int, help="a scale that is predicted, not fitted")
    parser.add_argument("--scales", type=int, nargs="+", default=[30, 34, 38])
    parser.add_argument("--parts", type=int, nargs="+", default=[4, 64, 1024])
    parser.add_argument("--gpus", type=int, default=8, help="of a host")
    parser.add_argument("--latency", type=float, default=5e-6, help="s, of a message")
    parser.add_argument("--bandwidth", type=float, default=50e9, help="bytes/s of a GPU's link")
    o = parser.parse_args(arguments)
    rows = [json.loads(x) for f in o.files for x in Path(f).read_text().splitlines()]
    for executor in sorted({r["executor"] for r in rows}):
        own = [r for r in rows if r["executor"] == executor]
        held = [r for r in own if o.hold_out is not None and r["points"] == 1 << o.hold_out]
        fit = fitted([r for r in own if r not in held])
        speed = f"{1e-9 / fit.byte:.1f} GB/s" if fit.byte else "bytes cost nothing"
        crossing = f"a crossing {fit.crossing * 1e6:.2f} us, {speed}"
        print(f"\n{executor}: a step {fit.step * 1e6:.2f} us, {crossing}")
        table([
            {"program": name, "a visit ps": cached * 1e12, "a miss ps": more * 1e12,
             "on parts ps": extra * 1e12, "a call ms": call * 1e3, "on parts ms": on_parts * 1e3}
            for name, (cached, more, extra, call, on_parts) in fit.visit.items()
        ])  # fmt: skip
        compared = []
        for r in own:
            one, several = predicted(fit, r)
            compared.append({
                "program": r["program"], "points": r["points"], "parts": r["parts"],
                "one ms": r["one"] * 1e3, "model / one": one / r["one"],
                "parts ms": r["seconds"] * 1e3, "model / parts": several / r["seconds"],
                "held out": "yes" if r in held else "",
            })  # fmt: skip
        table(compared)
        print(f"\noutlook, {executor}, {o.gpus} GPUs a host")
        table(outlook(fit, Network(o.gpus, o.latency, o.bandwidth), o.scales, o.parts))


if __name__ == "__main__":
    main()
