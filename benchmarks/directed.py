"""Algorithms on directed graphs beside SciPy, igraph and NetworKit: seconds, and ratios.

    python benchmarks/directed.py 18 20 --device all

Each number is the scale of an R-MAT graph with the parameters of Graph500, directed.  Measured are
strongly connected components and, on its edges to larger ids, the topological order and shortest
paths with weights from -20 to 80.  A time is the median of --repeat runs on a graph that is on the
device already; peers run once, but for those that --without names.  Results are compared.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from common import beside, devices, median, table, timed
from peers import smallest

import morph
from morph.runtime.threads import get_num_threads


class Edges(NamedTuple):
    """A directed graph on the host."""

    n: int
    src: Any
    dst: Any
    weight: Any

    def graph(self, device: str) -> morph.Graph:
        return morph.Graph.from_edges(
            self.src, self.dst, weight=self.weight, n=self.n, device=device
        )  # fmt: skip

    def upwards(self) -> Edges:
        """Without the edges to smaller ids."""
        up = self.src < self.dst
        return Edges(self.n, self.src[up], self.dst[up], self.weight[up])


Peers = dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]


def is_forwards(edges: Edges, order: Any) -> bool:
    """Whether all edges lead forwards in an order."""
    place = np.empty(edges.n, np.int64)
    place[np.asarray(order)] = np.arange(edges.n)
    return bool((place[edges.src] < place[edges.dst]).all())


def lengths(distance: Any) -> Any:
    """Distances as doubles, infinite where there is no path."""
    distance = np.asarray(distance)
    return np.where(distance == np.iinfo(distance.dtype).max, np.inf, distance.astype(np.float64))


def peers(whole: Edges, acyclic: Edges, source: int, without: list[str]) -> dict[str, Peers]:
    """What is run, and what makes a comparable answer of its result, by algorithm and peer."""
    strong: Peers = {}
    order: Peers = {}
    paths: Peers = {}
    if importlib.util.find_spec("scipy") and "SciPy" not in without:
        from scipy.sparse import csgraph, csr_array

        m = csr_array((np.ones(len(whole.src), np.int8), (whole.src, whole.dst)),
                      shape=(whole.n, whole.n))  # fmt: skip
        strong["SciPy"] = (
            lambda: csgraph.connected_components(m, connection="strong"),
            lambda found: smallest(found[1]),
        )
    if importlib.util.find_spec("igraph") and "igraph" not in without:
        import igraph

        g, h = (igraph.Graph(x.n, np.stack([x.src, x.dst], 1), directed=True)
                for x in (whole, acyclic))  # fmt: skip
        h.es["weight"] = acyclic.weight.tolist()
        strong["igraph"] = (
            lambda: g.connected_components(mode="strong"), lambda found: smallest(found.membership)
        )  # fmt: skip
        order["igraph"] = h.topological_sorting, lambda found: is_forwards(acyclic, found)
        paths["igraph"] = (
            lambda: h.distances(source, weights="weight", algorithm="bellman_ford"),
            lambda found: np.array(found[0], np.float64),
        )
    if importlib.util.find_spec("networkit") and "NetworKit" not in without:
        import networkit

        networkit.setNumberOfThreads(get_num_threads())
        ends = whole.src.astype(np.uint64), whole.dst.astype(np.uint64)
        k = networkit.GraphFromCoo(ends, n=whole.n, directed=True)
        up = acyclic.src.astype(np.uint64), acyclic.dst.astype(np.uint64)
        a = networkit.GraphFromCoo(up, n=whole.n, directed=True)
        strong["NetworKit"] = (
            lambda: networkit.components.StronglyConnectedComponents(k).run(),
            lambda found: smallest(found.getPartition().getVector()),
        )
        order["NetworKit"] = (
            lambda: networkit.graphtools.topologicalSort(a),
            lambda found: is_forwards(acyclic, found),
        )
    return {"strongly_connected_components": strong, "topological_order": order,
            "bellman_ford": paths}  # fmt: skip


def measure(scale: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure the algorithms on a graph."""
    made, rng = (
        morph.generate.rmat(scale, seed=1, directed=True, device="cpu"),
        np.random.default_rng(1),
    )
    ends = (np.asarray(x[:]) for x in (made.edges.src, made.edges.dst))
    weight = rng.integers(-20, 81, len(made.edges)).astype(np.int32)
    whole = Edges(len(made.points), *ends, weight)
    acyclic = whole.upwards()
    source = int(np.bincount(acyclic.src, minlength=whole.n).argmax())
    print(f"rmat{scale}: {whole.n:,} points, {len(whole.src):,} edges, {len(acyclic.src):,} of"
          " them upwards", flush=True)  # fmt: skip
    theirs, known = peers(whole, acyclic, source, args.without), {}
    for what, found in theirs.items():
        for name, (run, answer) in found.items():
            seconds, result = timed(run)
            known[what, name] = seconds, answer(result)
    rows = []
    for device in devices(args.device):
        g, h = whole.graph(device), acyclic.graph(device)
        host = g.device.to_host
        calls: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
            "strongly_connected_components": (
                lambda g=g: morph.strongly_connected_components(g), lambda f: host(f.label)),
            "topological_order": (
                lambda h=h: morph.topological_order(h),
                lambda f: is_forwards(acyclic, host(f.order))),
            "bellman_ford": (
                lambda h=h: morph.bellman_ford(h, source), lambda f: lengths(host(f.distance))),
        }  # fmt: skip
        for what, (run, answer) in calls.items():
            took, result = median(run, args.repeat)
            row = {"graph": f"rmat{scale}", "algorithm": what, "device": device, "ms": took * 1e3}
            mine = answer(result)
            for name in ("SciPy", "igraph", "NetworKit"):
                spent, other = known.get((what, name), (None, None))
                row[name] = "" if spent is None else beside(spent, took)
                if spent is not None and not same(mine, other):
                    raise SystemExit(f"WRONG: {what}, {device}: {name} has another result")
            rows.append(row)
    return rows


def same(one: Any, other: Any) -> bool:
    """Whether two answers are equal, with distances below 0 as those of `distances`."""
    if isinstance(one, bool):
        return one and bool(other)
    return bool(np.array_equal(one, other))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scales", nargs="*", type=int, default=[16, 18])
    parser.add_argument("--device", default="all", help="cpu, cuda or all, the default")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--without", nargs="*", default=[], metavar="PEER")
    args = parser.parse_args()
    table([row for scale in args.scales for row in measure(scale, args)])


if __name__ == "__main__":
    main()
