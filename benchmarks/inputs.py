"""The input graphs of benchmarks, by name: made once, and kept in a folder.

``rmat18``: R-MAT with the parameters of Graph500, 2**18 points, 16 edges drawn for each, point 0
of the largest degree; ``uniform24``: 2**24 points, two edges drawn for each; ``grid2000``: 2000 x
2000 points.  Weights are 1 to 255.  Any other name is the path of a graph file, with its own
weights; one without gets weights 1 to 1000 hashed from the ends.  Each edge has both arcs, once;
no loops.

    python benchmarks/inputs.py rmat18 grid1000    # makes graphs in advance
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from morph import Graph, generate
from morph.io import read_edges

Array = NDArray[np.generic]
WEIGHTS = (1, 255)
FOLDER = Path(tempfile.gettempdir(), "morph-graphs")
MAKERS = {
    "rmat": lambda size: generate.rmat(size, weight=WEIGHTS),
    "uniform": lambda size: generate.uniform(1 << size, 2 << size, weight=WEIGHTS),
    "grid": lambda size: generate.grid(size, size, weight=WEIGHTS),
}


@dataclass(frozen=True)
class Input:
    """Compressed rows; each point's arcs in order of their targets."""

    name: str
    offsets: Array
    dst: Array
    weight: Array

    @property
    def n(self) -> int:
        return len(self.offsets) - 1

    @property
    def arcs(self) -> int:
        return len(self.dst)

    @cached_property
    def degree(self) -> Array:
        return np.diff(self.offsets)

    @cached_property
    def src(self) -> Array:
        return np.repeat(np.arange(self.n, dtype=np.int32), self.degree)

    @cached_property
    def once(self) -> tuple[Array, Array, Array]:
        """Ends and weights of the edges, each in one direction."""
        kept = self.src < self.dst
        return self.src[kept], self.dst[kept], self.weight[kept]

    def sources(self, count: int) -> list[int]:
        """Random points that have edges, as Graph500 draws them."""
        able = np.flatnonzero(self.degree)
        rng = np.random.default_rng(1)
        return sorted(rng.choice(able, min(count, len(able)), replace=False).tolist())

    def graph(self, device: str) -> Graph:
        # the arrays are shared with the peers, so they are copied
        return Graph.from_csr(self.offsets, self.dst, self.weight, symmetric=True, device=device)


def load(name: str, folder: Path = FOLDER) -> Input:
    """Make a graph, or take it from the folder, or read a file."""
    found = re.fullmatch(rf"({'|'.join(MAKERS)})(\d+)", name)
    if not found:
        if not os.path.exists(name):
            raise SystemExit(f"{name}: neither a file nor one of {', '.join(MAKERS)} and a number")
        return _read(name)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.npz"
    if not path.exists():
        rows = MAKERS[found[1]](int(found[2])).csr()
        part = path.with_suffix(f".{os.getpid()}.npz")
        np.savez(part, **dict(zip(("offsets", "dst", "weight"), rows, strict=True)))
        os.replace(part, path)
    with np.load(path) as kept:
        return Input(name, kept["offsets"], kept["dst"], kept["weight"])


def _read(path: str) -> Input:
    """Read a file of any format; of edges between the same points the lightest counts."""
    edges = read_edges(path)
    src, dst = (np.concatenate(ends) for ends in ((edges.src, edges.dst), (edges.dst, edges.src)))
    weight = edges.weight
    if weight is None:
        low, high = (f(src, dst).astype(np.int64) for f in (np.minimum, np.maximum))
        weight = ((low * 2654435761 ^ high * 40503) % 1000 + 1).astype(np.int32)
    else:
        small = weight.dtype.kind in "iu" and weight.max(initial=0) < 2**31
        weight = np.tile(weight.astype(np.int32) if small else weight, 2)
    order = np.lexsort((weight, dst, src))
    src, dst, weight = src[order], dst[order], weight[order]
    kept = src != dst
    kept[1:] &= (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])
    offsets = np.searchsorted(src[kept], np.arange(edges.n + 1))
    return Input(Path(path).name.partition(".")[0], offsets, dst[kept], weight[kept])


if __name__ == "__main__":
    for name in sys.argv[1:]:
        load(name)
