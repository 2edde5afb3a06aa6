"""BFS on a grid: one launch a level beside one launch in all, and SciPy on the same input."""

from __future__ import annotations

import argparse

import numpy as np
from common import devices, median, table

import morph
from morph import generate
from morph.algorithms import bfs as module
from morph.algorithms.scratch import columns
from morph.prelude import i32


def run(g: morph.Graph, lists: list[morph.Collection], eager: bool) -> int:
    """Number of levels; the distances are left in the column."""
    g.points.dist[:] = module.FAR
    g.points[0].dist = 0
    for c in lists:
        c.clear()
    lists[0].add(0)
    search = module.search.eager if eager else module.search
    return search(g, *lists, i32(0), i32(module.FAR - 1), True, len(g.points))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", default="all")
    options = parser.parse_args()
    side = options.side
    offsets, dst, _ = generate.grid(side, side).csr()
    want = np.add.outer(np.arange(side), np.arange(side)).ravel()
    rows = []
    try:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order

        m = csr_array((np.ones(len(dst)), dst, offsets), shape=(side**2, side**2))
        seconds, _ = median(lambda: breadth_first_order(m, 0), options.repeat)
        rows.append({"device": "SciPy", "form": "", "ms": seconds * 1e3, "levels": 2 * side - 1,
                     "us/level": seconds * 1e6 / (2 * side - 1), "right": "yes"})  # fmt: skip
    except ImportError:
        pass
    for device in devices(options.device):
        g = generate.grid(side, side, device=device)
        with columns(g.points, dist=(i32, module.FAR), predecessor=(i32, -1)):
            lists = [morph.Collection(g.points, capacity=4 * side) for _ in range(2)]
            for form in ("eager", "fused"):
                seconds, levels = median(
                    lambda g=g, form=form: run(g, lists, form == "eager"), options.repeat
                )
                right = bool((g.device.to_host(g.points.dist.array) == want).all())
                row = {"device": device, "form": form, "ms": seconds * 1e3, "levels": levels}
                row |= {"us/level": seconds * 1e6 / levels, "right": "yes" if right else "NO"}
                rows.append(row)
    table(rows)


if __name__ == "__main__":
    main()
