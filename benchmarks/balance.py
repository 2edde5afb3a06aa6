"""BFS and a sweep over all edges, by choice of ``balance``.

On an R-MAT graph (Chakrabarti, Zhan, Faloutsos 2004; a = 0.57, b = c = 0.19) with both directions
of its edges, on a uniform graph with as many edges, a grid, and a star.  Every result is checked.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import beside, devices, median, table

import morph
from morph import generate
from morph.prelude import atomic_add, atomic_min, i32

FAR = 1 << 30


def star(leaves: int) -> morph.Graph:
    """Point 0 joined to all others."""
    hub, leaf = np.zeros(leaves, np.int32), np.arange(1, leaves + 1, dtype=np.int32)
    return morph.Graph.from_edges(hub, leaf, symmetrize=True)


@morph.kernel
def visit(p, level, following):
    for t in p.outnbrs:
        if atomic_min(t.dist, level + 1) > level + 1:
            following.add(t)


@morph.program
def auto(current, following):
    level = i32(0)
    while not current.empty:
        morph.foreach(current, visit, level, following)
        current, following = following, current
        following.clear()
        level += i32(1)
    return level


@morph.program
def warp(current, following):
    level = i32(0)
    while not current.empty:
        morph.foreach(current, visit, level, following, balance="warp")
        current, following = following, current
        following.clear()
        level += i32(1)
    return level


@morph.program
def thread(current, following):
    level = i32(0)
    while not current.empty:
        morph.foreach(current, visit, level, following, balance="thread")
        current, following = following, current
        following.clear()
        level += i32(1)
    return level


@morph.kernel
def count(p):
    for t in p.outnbrs:
        atomic_add(t.hits, 1)


def search(g, run, lists, source):
    """How many levels; the distances are left in the column."""
    g.points.dist[:] = FAR
    g.points[source].dist = 0
    for c in lists:
        c.clear()
    lists[0].add(source)
    return run(*lists)


def sweep(g, choice):
    """How often each point is met is left in the column."""
    g.points.hits[:] = 0
    morph.foreach(g.points, count, balance=choice)


def distances(g, source, repeat):
    """SciPy's seconds and distances."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    n, (offsets, ends, _) = len(g.points), g.csr()
    m = csr_array((np.ones(len(ends)), ends, offsets), shape=(n, n))
    seconds, (order, before) = median(lambda: breadth_first_order(m, source), repeat)
    dist = np.full(n, FAR)
    dist[source] = 0
    for p in order[1:]:
        dist[p] = dist[before[p]] + 1
    return seconds, dist


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=20)
    parser.add_argument("--degree", type=int, default=16)
    parser.add_argument("--side", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--device", default="all")
    parser.add_argument("--choices", nargs="*", default=["auto", "warp", "thread"])
    parser.add_argument("--graphs", nargs="*", default=["rmat", "uniform", "grid", "star"])
    options = parser.parse_args()
    scale, degree = options.scale, options.degree
    makers = {
        "rmat": lambda: generate.rmat(scale, degree, permute=True, simple=False),
        "uniform": lambda: generate.uniform(1 << scale, degree << scale, simple=False),
        "grid": lambda: generate.grid(options.side, options.side),
        "star": lambda: star(degree << scale >> 2),
    }
    rows = []
    for name in options.graphs:
        made = makers[name]()
        n, many = len(made.points), made.degree()
        source = 0 if name == "grid" else int(many.argmax())
        scipy, want = distances(made, source, options.repeat)
        about = {"graph": name, "edges": len(made.edges), "most": int(many.max())}
        for device in devices(options.device):
            g = made.to(device)
            with g.points.temporary_columns(dist=(i32, FAR), hits=(i32, 0)):
                lists = [morph.Collection(g.points, capacity=n) for _ in range(2)]
                for choice in options.choices:
                    run = {"auto": auto, "warp": warp, "thread": thread}[choice]
                    seconds, levels = median(
                        lambda g=g, run=run, lists=lists: search(g, run, lists, source),
                        options.repeat,
                    )
                    right = (g.device.to_host(g.points.dist.array) == want).all()
                    swept, _ = median(lambda g=g, c=choice: sweep(g, c), options.repeat)
                    right &= (g.device.to_host(g.points.hits.array) == many).all()
                    row = {"device": device, "choice": choice, "BFS ms": seconds * 1e3}
                    row |= {"levels": levels, "sweep ms": swept * 1e3}
                    row |= {"SciPy's BFS ms": beside(scipy, seconds)}
                    rows.append(about | row | {"right": "yes" if right else "NO"})
                del lists
    table(rows)


if __name__ == "__main__":
    main()
