"""BFS and SSSP on R-MAT graphs that are generated in parts, and may exceed the memory of a device.

    python benchmarks/large.py --scale 30 --devices cuda:0,cuda:1,cuda:2,cuda:3
    python benchmarks/large.py --scale 30 --devices cuda:0,cuda:1,cuda:2,cuda:3 --estimate

A kernel on the parts checks the last result at every edge and point: distances of the ends of an
edge differ by at most one (SSSP: by at most the weight of the edge), and each reached point but the
source has a neighbour whose distance is less by one (SSSP: by the weight of the edge to it).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from common import table, timed

import morph
from morph import generate
from morph.generate.construction import bytes_of_columns, bytes_of_part
from morph.prelude import atomic_add, i32, i64


@morph.kernel
def mark_unreached(p):
    p.found = max(p.found, -1)  # its mirrors get the value before the next step


@morph.kernel
def check_levels(p, source, counts):
    nearer = False
    if (p.found == 0) != (p.id == source):
        atomic_add(counts.wrong, 1)
    for t in p.outnbrs:
        if (t.found < 0) != (p.found < 0) or abs(t.found - p.found) > 1:
            atomic_add(counts.wrong, 1)
        nearer = nearer or t.found == p.found - 1
    if p.found > 0 and not nearer:
        atomic_add(counts.wrong, 1)
    if p.found >= 0:
        atomic_add(counts.reached, 1)
        atomic_add(counts.arcs, p.out_degree)


@morph.kernel
def check_paths(p, g, source, counts):
    nearer = False
    if (p.found == 0) != (p.id == source):
        atomic_add(counts.wrong, 1)
    for t in p.outnbrs:
        w = g.weight(p, t)
        if (t.found < 0) != (p.found < 0) or abs(t.found - p.found) > w:
            atomic_add(counts.wrong, 1)
        nearer = nearer or t.found >= 0 and t.found + w == p.found
    if p.found > 0 and not nearer:
        atomic_add(counts.wrong, 1)
    if p.found >= 0:
        atomic_add(counts.reached, 1)
        atomic_add(counts.arcs, p.out_degree)


def checked(parts: Any, distance: Any, source: int, weighted: bool) -> tuple[int, int, int]:
    """Return the number of violations of these rules, of points reached, and of their arcs."""
    counts = morph.Scalars(parts, wrong=i64(0), reached=i64(0), arcs=i64(0))
    unreached = np.iinfo(np.int64).max  # `sssp` returns this, `bfs` -1
    for k in parts.here:
        own, points = distance.local(k), parts.local(k).points
        with points.device.active():
            own[own == unreached] = -1
            points.found[: len(own)] = own
    morph.foreach(parts.points, mark_unreached)
    if weighted:
        morph.foreach(parts.points, check_paths, parts, source, counts)
    else:
        morph.foreach(parts.points, check_levels, source, counts)
    return int(counts.wrong), int(counts.reached), int(counts.arcs)


def estimate(scale: int, devices: list[str], weighted: bool) -> list[dict[str, Any]]:
    """Give the most GB of a part with points at random, before anything is made.

    Each arc has its target and perhaps a weight; sources are computed when they are used.  At most
    all points of other parts are mirrors; of an R-MAT graph of scale 20 to 29 less than half of the
    points have edges.
    """
    n, parts = 1 << scale, len(devices)
    columns = bytes_of_columns(np.int32 if weighted else None, False, True)
    own, arcs, others = n // parts, 32 * n // parts, n - n // parts
    sizes = {
        "arcs": arcs * (8 if weighted else 4), "offsets": 8 * (own + others),
        "mirrors and routes": 12 * others,
        "columns of a search": (own + others) * (20 if weighted else 9),
        "its lists and results": own * (40 if weighted else 20),
    }  # fmt: skip
    rows = [{"of a part": name, "GB": size / 1e9} for name, size in sizes.items()]
    rows.append({"of a part": "all, at most", "GB": sum(x["GB"] for x in rows)})
    for passes in (1, 2, 4, 8):
        most = bytes_of_part(morph.device(devices[0]), n, arcs, parts, passes, columns)
        rows.append({"of a part": f"to make it in {passes} passes", "GB": most / 1e9})
    return rows


def sources_of(parts: Any, count: int) -> list[int]:
    """Give the sources of random edges."""
    found, draw = [], np.random.default_rng(0)
    sizes = [len(parts.local(k).edges) for k in parts.here]
    for e in draw.integers(0, sum(sizes), count).tolist():
        k = int(np.searchsorted(np.cumsum(sizes), e, "right"))
        g, at = parts.local(k), e - sum(sizes[:k])
        with g.device.active():
            row = g.device.xp.searchsorted(g.adjacency()[0], at, side="right") - 1
            found.append(int(g.points.global_id.array[row]))
    return found


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, and print a row for each algorithm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=16)
    parser.add_argument("--devices", default="cpu,cpu", help="one for each part")
    parser.add_argument(
        "--permute", action="store_true", help="number the points at random: parts of equal size"
    )
    parser.add_argument("--only", nargs="+", default=["bfs", "sssp"], choices=["bfs", "sssp"])
    parser.add_argument("--sources", type=int, default=5)
    parser.add_argument("--unchecked", action="store_true", help="do not check the last result")
    parser.add_argument("--estimate", action="store_true", help="print the memory of a part only")
    o = parser.parse_args(arguments)
    if o.estimate:
        table(estimate(o.scale, o.devices.split(","), "sssp" in o.only))
        return
    weight = (1, 255) if "sssp" in o.only else None
    devices = o.devices.split(",")

    def make(scale: int) -> Any:
        return generate.rmat(scale, 16, permute=o.permute, weight=weight, device=devices)

    make(10)  # compiles the kernels
    made, parts = timed(lambda: make(o.scale))
    print(parts, f"\nmade in {made:.2f} s", flush=True)
    rows, sources = [], sources_of(parts, o.sources + 1)
    for name in o.only:
        run, times, result = getattr(morph, name), [], None
        for s in sources:
            seconds, result = timed(lambda run=run, s=s: run(parts, s))
            times.append(seconds)
            print(f"{name} from {s}: {seconds * 1e3:.2f} ms", flush=True)
        median = sorted(times[1:])[o.sources // 2]
        arcs = len(parts.edges)
        rows.append({
            "algorithm": name, "call ms": median * 1e3, "least ms": min(times[1:]) * 1e3,
            "most ms": max(times[1:]) * 1e3, "G arcs/s": arcs / median / 1e9,
        })  # fmt: skip
        if not o.unchecked:
            parts.points.add("found", i32)
            wrong, reached, arcs = checked(parts, result.distance, sources[-1], name == "sssp")
            parts.points.drop("found")
            rows[-1] |= {"G arcs/s": arcs / median / 1e9, "reached": reached, "violations": wrong}
    table(rows)


if __name__ == "__main__":
    main()
