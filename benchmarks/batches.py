"""Rates of edge batches (insert, delete, change weights), and times of static kernels after them.

New edges have the ends of random edges, so the probability of a vertex is proportional to its
degree.  Every batch is inserted, changed by id, and deleted by id (`--pairs`: by its ends), from
NumPy or from device memory; the graph has an index in both directions before, which the checker
compares with the edges at the end (`--check`).  Times are of the whole call, until the device is
idle.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np
from common import devices, table, timed

import morph
from morph import generate, validate

MAKERS = {
    "rmat": lambda size, to: generate.rmat(size, weight=(1, 255), device=to),
    "uniform": lambda size, to: generate.uniform(1 << size, 2 << size, weight=(1, 255), device=to),
    "grid": lambda size, to: generate.grid(size, size, weight=(1, 255), device=to),
}


def graph(name: str, device: str) -> morph.Graph:
    """The arcs of a symmetric graph, taken for directed edges; both indices are there."""
    kind = name.rstrip("0123456789")
    offsets, dst, weight = MAKERS[kind](int(name[len(kind) :]), device).csr()
    g = morph.Graph.from_csr(offsets, dst, weight.astype(np.int32), device=device)
    g.adjacency("out"), g.adjacency("in")
    return g


def held(g: morph.Graph) -> int:
    """Bytes of the edges' columns, of what else they have by edge, and of the index."""
    total = sum(c.array.nbytes for c in g.edges.columns.values())
    total += sum(a.nbytes for a in g.edges._hidden.values())
    total += sum(a.nbytes for a in (g._order, g.recycled, g._pairs) if a is not None)
    for rows in g._adjacency._gapped.values():
        for t in (rows.rows, rows.entries, rows.places):
            total += sum(c.array.nbytes for c in t.columns.values())
    for arrays in g._adjacency._built.values():
        total += sum(a.nbytes for a in arrays if a is not None)
    return total


def rates(name: str, arcs: int, g: morph.Graph, size: int, memory: str, repeat: int, pairs: bool):
    rng, old = np.random.default_rng(size), g.edges.columns
    took: dict[str, list[float]] = {"insert": [], "update": [], "delete": []}
    for _ in range(repeat + 1):
        at, to = (g.device.asarray(rng.integers(0, arcs, size)) for _ in range(2))
        weight = rng.integers(1, 255, size).astype(np.int32)
        batch = old["src"].array[at], old["dst"].array[to], g.device.asarray(weight)
        if memory == "host":
            batch = tuple(map(g.device.to_host, batch))
        seconds, done = timed(lambda: g.apply(inserts=batch))
        took["insert"].append(seconds)
        ids = done.inserted if memory == "device" else g.device.to_host(done.inserted)
        seconds, _ = timed(lambda: g.apply(updates=(ids, batch[2])))
        took["update"].append(seconds)
        gone = batch[:2] if pairs else ids
        seconds, done = timed(lambda: g.apply(deletes=gone))
        took["delete"].append(seconds)
        assert len(done.deleted) == size and not done.absent
    row = {"graph": name, "device": g.device.name, "from": memory, "batch": size}
    for name, times in took.items():
        t = statistics.median(times[1:] if repeat > 1 else times)
        row[f"{name} us"], row[f"{name} M/s"] = t * 1e6, size / t / 1e6
    return row


def static(g: morph.Graph) -> dict[str, float]:
    found = {}
    for name, run in (
        ("bfs", lambda: morph.bfs(g, 0)),
        ("sssp", lambda: morph.sssp(g, 0)),
        ("pagerank", lambda: morph.pagerank(g, tolerance=0, iterations=20)),
    ):
        run()
        found[name] = statistics.median(timed(run)[0] for _ in range(5)) * 1e3
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", default=["rmat18"])
    parser.add_argument("--device", default="all")
    parser.add_argument("-b", "--batch", type=float, nargs="+", default=[1, 100, 1e4, 1e6])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--memory", nargs="+", default=["host", "device"])
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    rows, after = [], []
    for name in args.graphs:
        for device in devices(args.device):
            g = graph(name, device)
            arcs = len(g.edges)
            packed = static(g) if args.static else {}
            before = held(g) / arcs
            for size in map(int, args.batch):
                for memory in args.memory if device != "cpu" else ["host"]:
                    rows.append(rates(name, arcs, g, size, memory, args.repeat, args.pairs))
            if args.check:
                validate.index(g)
            row = {"graph": name, "device": g.device.name, "B/edge": before}
            row |= {"B/edge changed": held(g) / len(g.edges.ids())}
            loose = static(g) if args.static and g.gapped else {}
            for what in loose:
                row |= {f"{what} ms": packed[what], f"{what} x": loose[what] / packed[what]}
            after.append(row)
    table(rows)
    print()
    table(after)


if __name__ == "__main__":
    main()
