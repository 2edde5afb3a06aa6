"""BFS on a grid: one launch a level beside one launch in all, and SciPy on the same input."""

from __future__ import annotations

import argparse
from unittest import mock

import numpy as np
from common import beside, devices, median, table

import morph
from morph import generate
from morph.algorithms.graph import bfs as module


def run(g: morph.Graph, eager: bool) -> module.Bfs:
    """The search, its columns and lists included."""
    search = module.search.eager if eager else module.search
    with mock.patch.object(module, "search", search):
        return morph.bfs(g)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", default="all")
    options = parser.parse_args()
    side = options.side
    offsets, dst, _ = generate.grid(side, side).csr()
    want = np.add.outer(np.arange(side), np.arange(side)).ravel()
    rows, scipy = [], None
    try:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order

        m = csr_array((np.ones(len(dst)), dst, offsets), shape=(side**2, side**2))
        scipy, _ = median(lambda: breadth_first_order(m, 0), options.repeat)
    except ImportError:
        pass
    for device in devices(options.device):
        g = generate.grid(side, side, device=device)
        for form in ("eager", "fused"):
            seconds, found = median(lambda g=g, form=form: run(g, form == "eager"), options.repeat)
            right = bool((g.device.to_host(found.distance) == want).all())
            row = {"side": side, "device": device, "form": form, "ms": seconds * 1e3}
            row |= {"levels": found.levels, "us/level": seconds * 1e6 / found.levels}
            row["SciPy ms"] = "" if scipy is None else beside(scipy, seconds)
            row["right"] = "yes" if right else "NO"
            rows.append(row)
    table(rows)


if __name__ == "__main__":
    main()
