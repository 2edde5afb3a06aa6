"""Coastlines refined: how many triangles, beside Triangle (-D, conforming Delaunay too).

Every mesh is judged. What stays below the angle is counted: *input*, between segments that meet
in a small angle; *floor*, where the features around were cut to 1/32 of their size.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from common import table

import morph
from morph.algorithms.refine import refine_with_report

try:
    import triangle
except ImportError:
    triangle = None

MESHES = Path(__file__).parent.parent / "meshes"


def by_triangle(coast: morph.Pslg, angle: float) -> int:
    """How many triangles Triangle makes."""
    task = {"vertices": coast.points, "segments": coast.segments}
    if len(coast.holes):
        task["holes"] = coast.holes
    return len(triangle.triangulate(task, f"pq{angle:g}DQ")["triangles"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-q", type=float, nargs="+", default=[20, 28, 30, 33], help="angles")
    parser.add_argument("--device", default="cpu")
    o = parser.parse_args()
    for angle in o.q:
        rows = []
        for file in sorted(MESHES.glob("*.poly")):
            coast = morph.Pslg.read(file)
            refine_with_report(coast, angle, device=o.device)  # compiles
            start = time.perf_counter()
            mesh, rounds, _, unmet = refine_with_report(coast, angle, device=o.device)
            row = {"coast": file.stem, "all s": time.perf_counter() - start, "rounds": rounds}
            mesh.check()
            row |= {"out": len(mesh.triangles), "min angle": mesh.quality().min_angle}
            row |= {"input": unmet.get("small input angle", 0), "floor": unmet.get("floor", 0)}
            if triangle is not None:
                row["Triangle"] = by_triangle(coast, angle)
                row["size"] = row["out"] / row["Triangle"]
            rows.append(row)
        print(f"{angle:g} degrees, {o.device}")
        table(rows)


if __name__ == "__main__":
    main()
