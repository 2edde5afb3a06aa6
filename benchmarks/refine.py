"""Delaunay refinement of random points in the unit square, beside Triangle if it is installed.

Half as many random points as triangles wanted are triangulated and refined. Every mesh is checked:
exact orientation, neighbours, constrained Delaunay, area.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from common import devices, table

import morph
from morph.algorithms.refine import refine_with_report

try:
    import triangle
except ImportError:
    triangle = None


def random_mesh(n: int) -> morph.Mesh:
    """A Delaunay mesh of about n triangles."""
    points = np.random.default_rng(1).random((n // 2, 2))
    if triangle is not None:
        triangles = triangle.triangulate({"vertices": points}, "cQ")["triangles"]
    else:
        from scipy.spatial import Delaunay

        triangles = Delaunay(points).simplices
    t = np.ascontiguousarray(triangles, np.int32)
    p = points[t]
    u, v = p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]
    clockwise = u[:, 0] * v[:, 1] < u[:, 1] * v[:, 0]
    t[clockwise] = t[clockwise][:, [0, 2, 1]]
    return morph.Mesh(points, t)


def domain(mesh: morph.Mesh):
    """The domain of a mesh as a Shapely geometry, from its hull edges alone."""
    import shapely

    t, k = np.nonzero(mesh.neighbors < 0)
    ends = np.stack([mesh.triangles[t, (k + 1) % 3], mesh.triangles[t, (k + 2) % 3]], axis=1)
    return shapely.union_all(
        shapely.get_parts(shapely.polygonize(shapely.linestrings(mesh.points[ends])))
    )


def judge(mesh: morph.Mesh, fine: morph.Mesh) -> str:
    """Check every invariant of the refined mesh, and with Shapely that the domain is the same."""
    fine.check()
    before, after = domain(mesh), domain(fine)
    area = fine.quality().area
    off = max(after.symmetric_difference(before).area, abs(area - before.area)) / before.area
    assert off < 1e-9, off
    return f"{off:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=float, default=1e6, help="triangles of the input")
    parser.add_argument("-q", type=float, default=30, help="smallest angle, in degrees")
    parser.add_argument("--device", default="all")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="judge every invariant exactly")
    o = parser.parse_args()
    mesh = random_mesh(int(o.n))
    rows = []
    peer = None
    if triangle is not None:
        task = {"vertices": mesh.points, "triangles": mesh.triangles, "segments": mesh.segments}
        start = time.perf_counter()
        out = triangle.triangulate(task, f"rpq{o.q}Q")
        peer = time.perf_counter() - start
        fine = morph.Mesh(out["vertices"], out["triangles"].astype(np.int32))
        row = {"what": "Triangle, 1 core", "run s": peer, "all s": peer}
        row |= {"out": len(fine.triangles), "min angle": fine.quality().min_angle}
        rows.append(row)
    for device in devices(o.device):
        best = None
        for _ in range(o.repeat):
            start = time.perf_counter()
            with morph.timing() as t:
                result = refine_with_report(mesh, o.q, device=device)
            wall = time.perf_counter() - start
            if best is None or t.run < best[0]:
                best = (t.run, wall, t.transfer)
        fine = result.mesh
        off = judge(mesh, fine) if o.check else "-"
        rows.append({"what": device, "run s": best[0], "transfer s": best[2], "all s": best[1],
                     "out": len(fine.triangles), "min angle": fine.quality().min_angle,
                     "rounds": result.rounds, "unmet": sum(result.unmet.values()),
                     "area off by": off,
                     "ratio": peer / best[0] if peer else ""})  # fmt: skip
    table([{**dict.fromkeys(rows[-1], ""), **r} for r in rows])


if __name__ == "__main__":
    main()
