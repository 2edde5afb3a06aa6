"""Shortest paths, in two kernels and a loop; the loop is one launch.

A point whose distance fell lowers its neighbours, until none falls.  Run as one launch (fused), and
launch by launch (eager): the results are equal, and equal to SciPy's if it is installed.

    python examples/shortest_paths.py [DEVICE]
"""

import sys

import numpy as np

import morph
from morph.prelude import atomic_min, bool_, i64

FAR = np.iinfo(np.int64).max


@morph.kernel
def relax(p, g, changed):
    p.updated = False
    for t in p.outnbrs:
        atomic_min(t.dist, p.dist + g.weight(p, t), changed)


@morph.kernel
def mark(p):
    p.updated = p.dist < p.before
    p.before = p.dist


@morph.program
def shortest_paths(g, changed):
    while changed.take():
        morph.foreach(g.points, relax, g, changed, where=lambda p: p.updated)
        morph.foreach(g.points, mark)


def solve(g, source, run):
    """Distances from ``source``, shape (n,); ``run`` is the program or its eager form."""
    g.points.dist[:] = g.points.before[:] = FAR
    g.points[source].dist = 0
    g.points[source].updated = True
    changed = morph.Flag(g)
    changed.set()
    run(g, changed)
    return g.device.to_host(g.points.dist[:])


def main(device="auto", n=1000):
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, n, (2, 5 * n))
    weight = rng.integers(1, 100, 5 * n)
    g = morph.Graph.from_edges(src, dst, weight=weight, n=n, device=device)
    g.points.add("dist", i64)
    g.points.add("before", i64)
    g.points.add("updated", bool_)
    fused, eager = solve(g, 0, shortest_paths), solve(g, 0, shortest_paths.eager)
    assert (fused == eager).all()
    reached = fused[fused < FAR]
    print(
        f"{len(reached)} of {n} points reached on {g.device.name}, the farthest at {reached.max()}"
    )
    try:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra
    except ImportError:
        return
    order = np.lexsort((-weight, dst, src))  # of parallel edges the last, lightest one counts
    last = np.append((np.diff(src[order]) != 0) | (np.diff(dst[order]) != 0), True)
    kept = order[last]
    other = dijkstra(csr_array((weight[kept], (src[kept], dst[kept])), shape=(n, n)), indices=0)
    assert (np.where(fused < FAR, fused, np.inf) == other).all()
    print("equal to SciPy's")


if __name__ == "__main__":
    main(*sys.argv[1:])
