"""Shortest paths kept exact under batches of changes, beside recomputing them, and NetworKit.

    python benchmarks/dynamic.py rmat20 grid1000 roads/FLA.gr.xz --plot crossover.png

Inputs are named as `inputs` says; the source is point 0.  Batches hold --sizes edges: ``insert``
random pairs, ``near`` pairs two edges apart, with weights of edges that are there; ``delete``
random edges; ``mix`` a third each of near pairs, deletions, and new weights.  One follows the
other.  A time is the median of --repeat batches, arrays of the host in; ``graph`` is for the graph,
``repair`` for the distances and predecessors.  ``recompute`` is `morph.sssp` with predecessors on
the same changed graph, ``SciPy`` its Dijkstra on the graph as it was.  `DynamicBFS`,
`DynamicComponents`, `DynamicCores` and `DynamicPageRank` get the same batches: ``bfs``, ``parts``,
``cores`` and ``ranks`` are their repairs, beside a recomputation (of components also the trees that
later repairs need; of ranks `morph.pagerank`, with the same bound of the error).  After the batches
of a row all values are compared with recomputed ones.
With --networkit its DynDijkstra and DynBFS follow the same batches, up to --most edges; ``right``
says in how many batches each was.  A row is printed when it is measured.
``--share 1`` never recomputes, which shows the crossover: the share of affected points above which
a repair takes longer than recomputing.  It is printed at the end, and drawn by --plot.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import beside, devices, record, timed
from inputs import FOLDER, Input, load
from scipy.sparse import csgraph, csr_array

import morph

KINDS = ("insert", "near", "delete", "mix")
Batch = dict[str, Any]


class Changes:
    """Random batches of one graph, in numbers of its edges in one direction."""

    def __init__(self, graph: Input, g: morph.Graph) -> None:
        self.graph, self.g, self.rng = graph, g, np.random.default_rng(1)
        self.weights = graph.weight

    def batch(self, kind: str, size: int) -> Batch:
        third = max(size // 3, 1) if kind == "mix" else size
        found: Batch = {}
        if kind in ("delete", "mix"):
            found["deletes"] = self.edges(third)
        if kind == "mix" and size > 1:
            found["updates"] = (self.edges(third), self.some_weights(third))
        if kind in ("insert", "near") or (kind == "mix" and size > 2):
            ends = self.pairs(third) if kind == "insert" else self.near(third)
            found["inserts"] = (*ends, self.some_weights(third))
        return found

    def some_weights(self, size: int) -> np.ndarray:
        return self.weights[self.rng.integers(0, len(self.weights), size)]

    def edges(self, size: int) -> np.ndarray:
        found = np.empty(0, np.int32)
        while len(found) < size:  # drawn from all rows, so that nothing large is read in between
            ids = self.rng.integers(0, len(self.g.edges), size).astype(np.int32)
            alive = self.g.edges.alive[self.g.device.asarray(ids)]
            found = np.concatenate([found, ids[host(self.g, alive)]])
        return found[:size]

    def pairs(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        n = self.graph.n
        return self.rng.integers(0, n, size), self.rng.integers(0, n, size)

    def near(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        offsets, dst, degree = self.graph.offsets, self.graph.dst, self.graph.degree
        found = np.empty((2, 0), dst.dtype)
        while found.shape[1] < size:  # not back to where it began
            first = self.rng.integers(0, len(dst), size)
            v = dst[first]
            w = dst[offsets[v] + self.rng.integers(0, 1 << 40, size) % degree[v]]
            pairs = np.stack((self.graph.src[first], w))[:, self.graph.src[first] != w]
            if size > 9 and not pairs.size:
                raise SystemExit(f"{self.graph.name}: hardly a point lies two edges from another")
            found = np.concatenate((found, pairs), 1)
        return found[0, :size], found[1, :size]


def host(g: morph.Graph, x: Any) -> np.ndarray:
    return np.asarray(g.device.to_host(x))


class NetworKit:
    """Its DynDijkstra and DynBFS on the same batches, of the lightest of parallel edges."""

    def __init__(self, g: morph.Graph) -> None:
        import networkit

        self.nk = nk = networkit
        src, dst, weight = (host(g, a) for a in g.edge_list())
        order = np.lexsort((weight, dst, src))
        order = order[src[order] < dst[order]]
        first = np.ones(len(order), bool)
        first[1:] = (np.diff(src[order]) != 0) | (np.diff(dst[order]) != 0)
        src, dst, weight = (a[order[first]] for a in (src, dst, weight))
        ends, n = (src.astype(np.uint64), dst.astype(np.uint64)), len(g.points)
        self.g = nk.GraphFromCoo((weight.astype(np.float64), ends), n=n, weighted=True)
        self.ways = nk.distance.DynDijkstra(self.g, 0), nk.distance.DynBFS(self.g, 0)
        for way in self.ways:
            way.run()

    def run(self, g: morph.Graph, applied: Any) -> list[tuple[float, bool]]:
        """Update; of both, seconds, and whether the distances are right."""
        event, kinds = self.nk.dynamics.GraphEvent, self.nk.dynamics.GraphEventType
        paths, levels = [], []
        columns = {c: host(g, g.edges.columns[c].array) for c in ("src", "dst", "weight")}
        gone = zip(
            *(host(g, a).tolist() for a in (applied.deleted_src, applied.deleted_dst)), strict=True
        )
        for u, v in gone:
            if u < v and self.g.hasEdge(u, v):
                self.g.removeEdge(u, v)
                paths.append(event(kinds.EDGE_REMOVAL, u, v, 0.0))
                levels.append(paths[-1])
        ids = np.concatenate([host(g, applied.updated), host(g, applied.inserted)])
        for u, v, w in zip(*(columns[c][ids].tolist() for c in columns), strict=True):
            if u >= v:
                continue
            if not self.g.hasEdge(u, v):
                self.g.addEdge(u, v, float(w))
                paths.append(event(kinds.EDGE_ADDITION, u, v, float(w)))
                levels.append(paths[-1])
            else:
                self.g.setWeight(u, v, float(w))
                paths.append(event(kinds.EDGE_WEIGHT_UPDATE, u, v, float(w)))
        found = []
        recompute = self.nk.distance.Dijkstra, self.nk.distance.BFS
        for way, events, other in zip(self.ways, (paths, levels), recompute, strict=True):
            start = time.perf_counter()
            way.updateBatch(events)
            took = time.perf_counter() - start
            want = np.array(other(self.g, 0, storePaths=False).run().getDistances())
            found.append((took, bool((np.array(way.getDistances()) == want).all())))
        return found


def ranked(g: morph.Graph) -> Any:
    """PageRank from the start, with the error that `DynamicPageRank` has at most."""
    return morph.pagerank(g, tolerance=1e-6 * (1 - 0.85) / 0.85)


def measure(graph: Input, device: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row for each kind and size."""
    matrix = csr_array((graph.weight, graph.dst, graph.offsets), shape=(graph.n, graph.n))
    scipy = timed(lambda: csgraph.dijkstra(matrix, indices=0))[0]  # once: it may take seconds
    g = graph.graph(device)
    dynamic = morph.DynamicSSSP(g, 0)
    others = {
        "bfs": morph.DynamicBFS(g, 0), "parts": morph.DynamicComponents(g),
        "cores": morph.DynamicCores(g), "ranks": morph.DynamicPageRank(g),
    }  # fmt: skip
    if options.share is not None:
        for one in (dynamic, *others.values()):
            one.share = options.share
    changes = Changes(graph, g)
    rows: list[dict[str, Any]] = []
    for kind in options.kinds:
        for size in options.sizes:
            if size * 4 > graph.arcs:
                continue
            has = options.networkit and size <= options.most
            there = has and importlib.util.find_spec("networkit")
            peer = NetworKit(g) if there else None
            all_, theirs = [], []
            more: dict[str, list[tuple[float, Any]]] = {name: [] for name in others}
            for _ in range(2 + options.repeat):  # two compile, make rows with room, grow lists
                batch = changes.batch(kind, size)
                took, done = timed(lambda batch=batch: dynamic.apply(**batch))
                all_.append((took, done._replace(applied=None)))  # what is kept would be copied
                for name, one in others.items():
                    took, its = timed(lambda one=one, done=done: one.update(done.applied))
                    more[name].append((took, its._replace(applied=None)))
                    del its
                if peer:
                    theirs.append(peer.run(g, done.applied))
                del done
            wrong = (
                (morph.sssp(g, 0).distance != dynamic.distance).any(),
                (morph.bfs(g, 0).distance != others["bfs"].distance).any(),
                (morph.connected_components(g).label != others["parts"].label).any(),
                (morph.core_number(g).core != others["cores"].core).any(),
                abs(ranked(g).rank - others["ranks"].rank).sum() > 2 * others["ranks"].tolerance,
            )
            if any(map(bool, wrong)):
                raise SystemExit(f"{graph.name}, {kind}, {size}: WRONG")
            all_, theirs = all_[2:], theirs[2:]
            recompute = middle_of(lambda: morph.sssp(g, 0, predecessors=True))
            middle = sorted(all_, key=lambda x: x[0])[len(all_) // 2]
            row = {
                "graph": graph.name, "device": device, "batch": kind, "edges": size,
                "affected": middle[1].affected, "decision": middle[1].decision,
                "ms": middle[0] * 1e3,
                **split_of([d for _, d in all_]),
                "recompute ms": recompute * 1e3, "SciPy ms": beside(scipy, middle[0]),
            }  # fmt: skip
            points = {
                "sssp": [(d, (d.repair_seconds or d.graph_seconds) / recompute) for _, d in all_]
            }
            for name, found in more.items():
                row[f"{name} ms"] = statistics.median(t for t, _ in found[2:]) * 1e3
                again = (lambda: ranked(g)) if name == "ranks" else others[name].refresh
                recompute = middle_of(again)
                row[f"{name} recompute"] = recompute * 1e3
                points[name] = [(d, t / recompute) for t, d in found[2:]]
            for way, name in enumerate(("", "bfs ")) if theirs else ():
                ours = row[f"{name}ms"] / 1e3
                row[f"NetworKit {name}ms"] = beside(
                    statistics.median(t[way][0] for t in theirs), ours
                )
                row[f"{name}right"] = f"{sum(t[way][1] for t in theirs)}/{len(theirs)}"
            print_row(row, rows)
            record([row])
            rows.append(row)
            row["points"] = {
                name: [(d.affected / graph.n, x) for d, x in found if d.decision == "repaired"]
                for name, found in points.items()
            }
    return rows


def middle_of(run: Callable[[], Any]) -> float:
    """The median seconds of three runs."""
    return statistics.median(timed(run)[0] for _ in range(3))


def split_of(updates: list[Any]) -> dict[str, float | str]:
    """The medians of both parts of the time; no numbers if batches were timed as a whole."""
    parts = {"graph ms": "graph_seconds", "repair ms": "repair_seconds"}
    if not all(d.repair_seconds for d in updates):
        return dict.fromkeys(parts, "-")
    return {k: statistics.median(getattr(d, c) for d in updates) * 1e3 for k, c in parts.items()}


def print_row(row: dict[str, Any], before: list[dict[str, Any]]) -> None:
    """Print a row as soon as there is one, below the names of its columns."""
    if not before or before[-1].keys() - {"points"} != row.keys():
        print("  ".join(name.rjust(10) for name in row), flush=True)
    text = (f"{x:,.4g}" if isinstance(x, float) else str(x) for x in row.values())
    widths = (max(10, len(name)) for name in row)
    print("  ".join(x.rjust(w) for x, w in zip(text, widths, strict=True)), flush=True)


def plot(rows: list[dict[str, Any]], path: str) -> None:
    """The time of a repair over that of recomputing, by the part that is affected.

    Where what was measured crosses 1, by the median of each tenth of a decade, a line stands.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name, (x, y, at) in crossovers(rows).items():
        label = name + (f": {at:.2g}" if at else "")
        (dots,) = axes.loglog(x, y, ".", label=label)
        if at:
            axes.axvline(at, color=dots.get_color(), linewidth=0.8, linestyle="--")
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set(xlabel="affected share of the points", ylabel="repair / recomputing, time")
    axes.legend()
    figure.savefig(path, dpi=150, bbox_inches="tight")


def crossovers(rows: list[dict[str, Any]]) -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
    """Of each graph, device and problem: affected shares, times of repairs, and `crossover`."""
    found = {}
    for key in dict.fromkeys((r["graph"], r["device"], what) for r in rows for what in r["points"]):
        mine = [r["points"][key[2]] for r in rows if (r["graph"], r["device"]) == key[:2]]
        x, y = np.array([p for some in mine for p in some if p[0] > 0]).reshape(-1, 2).T
        found[", ".join(key)] = x, y, crossover(x, y)
    return found


def crossover(x: np.ndarray, y: np.ndarray) -> float:
    """The share from which on a repair takes longer than recomputing; 0 if there is none."""
    if not x.size:
        return 0.0
    steps = np.round(np.log10(x) * 10)
    slow = [s for s in np.unique(steps) if np.median(y[steps == s]) > 1]
    fast = [s for s in np.unique(steps) if np.median(y[steps == s]) <= 1]
    above = [s for s in slow if not fast or s > max(fast)]
    return float(10 ** (min(above) / 10)) if above else 0.0


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("inputs", nargs="*", default=["rmat18", "grid500"])
    parser.add_argument("--sizes", type=lambda x: int(float(x)), nargs="+",
                        default=[1, 100, 10_000, 1_000_000])  # fmt: skip
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--share", type=float, help="affected share above which all is recomputed")
    parser.add_argument("--device", default="all", help="cpu, cuda, or all (default)")
    parser.add_argument("--networkit", action="store_true", help="beside NetworKit, if installed")
    parser.add_argument("--most", type=lambda x: int(float(x)), default=10_000,
                        help="edges of a batch that NetworKit is given, one call each")  # fmt: skip
    parser.add_argument("--cache", type=Path, default=FOLDER)
    parser.add_argument("--plot", help="draw the crossover into this file")
    options = parser.parse_args(arguments)
    rows = []
    for name in options.inputs:
        graph = load(name, options.cache)
        for device in devices(options.device):
            rows += measure(graph, device, options)
    print()
    for name, (x, _, at) in crossovers(rows).items():
        if at:
            print(f"{name}: a repair takes longer than recomputing from a share of {at:.2g} on")
        else:
            print(f"{name}: no repair took longer; the largest share affected was"
                  f" {x.max(initial=0):.2g}")  # fmt: skip
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
