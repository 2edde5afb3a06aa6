"""BFS on a grid: one launch a level beside one launch in all, and SciPy on the same input."""

from __future__ import annotations

import argparse

import numpy as np
from common import devices, median, table

import morph
from morph.algorithms import bfs as module
from morph.algorithms.scratch import columns
from morph.prelude import i32, i64


def grid(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Both directions of the edges of a side x side grid."""
    ids = np.arange(side * side, dtype=np.int32).reshape(side, side)
    a = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel()])
    b = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel()])
    return np.concatenate([a, b]), np.concatenate([b, a])


def run(g: morph.Graph, lists: list[morph.Collection], eager: bool) -> None:
    """The distances are left in the column."""
    g.points.dist[:] = module.FAR
    g.points[0].dist = 0
    for c in lists:
        c.clear()
    lists[0].add(0)
    search = module.search.eager if eager else module.search
    found = morph.Table("found", g.device, edges=i64)
    found.new(edges=0)
    search(g, *lists, found, morph.Flag(g), i32(0), i32(module.FAR - 1), True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", default="all")
    options = parser.parse_args()
    side = options.side
    src, dst = grid(side)
    want = np.add.outer(np.arange(side), np.arange(side)).ravel()
    rows, levels = [], 2 * side - 1
    try:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order

        m = csr_array((np.ones(len(src), np.int8), (src, dst)), shape=(side**2, side**2))
        seconds, _ = median(lambda: breadth_first_order(m, 0), options.repeat)
        rows.append({"device": "SciPy", "form": "", "ms": seconds * 1e3, "levels": 2 * side - 1,
                     "us/level": seconds * 1e6 / (2 * side - 1), "right": "yes"})  # fmt: skip
    except ImportError:
        pass
    for device in devices(options.device):
        g = morph.Graph.from_edges(src, dst, symmetric=True, device=device)
        with columns(g.points, dist=(i32, module.FAR), predecessor=(i32, -1)):
            lists = [morph.Collection(g.points, capacity=side**2) for _ in range(3)]
            for form in ("eager", "fused"):
                seconds, _ = median(
                    lambda g=g, form=form: run(g, lists, form == "eager"), options.repeat
                )
                right = bool((g.device.to_host(g.points.dist.array) == want).all())
                row = {"device": device, "form": form, "ms": seconds * 1e3, "levels": levels}
                row |= {"us/level": seconds * 1e6 / levels, "right": "yes" if right else "NO"}
                rows.append(row)
    table(rows)


if __name__ == "__main__":
    main()
