"""Constrained Delaunay triangulation of outlines and of random graphs, beside Triangle.

Star: a polygon around its centre whose corners have random distances from the centre, so that
segments cross many triangles.  Spiral: two arms with 50,000 points each; edges of the
triangulation, long and narrow triangles.

Random graph: n random points; the segments are edges of the Delaunay triangulation of a few of
them, and so cross edges of the triangulation of all points, but not one another.  Every mesh is
checked exactly.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from common import beside, devices, median, table

import morph
from morph.algorithms.triangulation.delaunay import delaunay_tables

try:
    import triangle
except ImportError:
    triangle = None

MESHES = Path(__file__).parent.parent / "meshes"
COASTS = ["italy", "norway", "chile", "south_africa", "canada"]


def random_graph(n: int, count: int) -> morph.Pslg:
    rng = np.random.default_rng(0)
    points = rng.random((n, 2))
    node = delaunay_tables(points[: count // 3 + 10], "cpu").triangles.node[:]
    ends = np.sort(np.concatenate([node[:, [0, 1]], node[:, [1, 2]], node[:, [2, 0]]]), axis=1)
    edges = np.unique(ends, axis=0)
    return morph.Pslg(points, edges[rng.permutation(len(edges))[:count]])


def ring(points: np.ndarray) -> morph.Pslg:
    """A polygon."""
    rows = np.arange(len(points))
    return morph.Pslg(points, np.stack([rows, np.roll(rows, -1)], axis=1))


def star(n: int, inner: float) -> morph.Pslg:
    rng = np.random.default_rng(0)
    angle = 2 * np.pi / n * (np.arange(n) + 0.2 * np.sort(rng.random(n)))
    return ring(rng.uniform(inner, 1, (n, 1)) * np.stack([np.cos(angle), np.sin(angle)], axis=1))


def spiral(n: int, end: float) -> morph.Pslg:
    """Two arms, from 1 to ``end`` radians, at a distance of 1."""
    t = np.linspace(1, end, n // 2)[:, None]
    arm = t * np.concatenate([np.cos(t), np.sin(t)], axis=1)
    return ring(np.concatenate([arm, arm[::-1] * (1 + 1 / t[::-1])]))


def phases(graph: morph.Pslg, hull: bool, device: str) -> tuple[dict[str, float], morph.Mesh]:
    """Seconds from the beginning of each phase to that of the next."""
    begun: list[tuple[str, float]] = []
    note = lambda what, many: begun.append((what, time.perf_counter()))  # noqa: E731
    mesh = morph.triangulate(graph, hull=hull, device=device, progress=note)
    ends = [t for _, t in begun[1:]] + [time.perf_counter()]
    return {what: end - start for (what, start), end in zip(begun, ends, strict=True)}, mesh


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=float, default=1e5, help="points of the random graph")
    parser.add_argument("-s", type=float, default=2e4, help="its segments")
    parser.add_argument("--device", default="all")
    o = parser.parse_args()
    inputs = {name: (morph.Pslg.read(MESHES / f"{name}.poly"), False) for name in COASTS}
    inputs |= {f"star, {inner:g}": (star(20_000, inner), False) for inner in (0.2, 0.9)}
    inputs |= {f"spiral, {end:g}": (spiral(100_000, end), False) for end in (12, 1000)}
    inputs["random"] = (random_graph(int(o.n), int(o.s)), True)
    rows = []
    for name, (graph, hull) in inputs.items():
        peer, theirs = None, ""
        if triangle is not None:
            given = {"vertices": graph.points, "segments": graph.segments}
            if len(graph.holes):
                given["holes"] = graph.holes
            peer, out = median(lambda: triangle.triangulate(given, "pc" if hull else "p"), 3)
            theirs = len(out["triangles"])
        for device in devices(o.device):
            whole, mesh = median(
                lambda: morph.triangulate(graph, hull=hull, device=device), 3 if hull else 20
            )
            part, _ = phases(graph, hull, device)
            mesh.check()
            rows.append({"input": name, "points": len(graph.points),
                         "segments": len(graph.segments), "device": device, "all s": whole,
                         **{f"{what} s": t for what, t in part.items()},
                         "triangles": len(mesh.triangles), "its triangles": theirs,
                         "Triangle ms": "" if peer is None else beside(peer, whole)})  # fmt: skip
    table(rows)


if __name__ == "__main__":
    main()
