"""Coastlines refined: triangles, narrow ones and the smallest angle, beside Triangle's.

Against `pq` segments are split where angles need it, against `pqD` until the mesh is conforming
Delaunay. Every mesh is checked. *Narrow* triangles, below the angle by more than rounding, are
those between segments that meet in a small angle; *other* counts all others.
Triangle runs in a process of its own: on hard inputs it may crash or never end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from common import table

import morph
from morph.algorithms.refinement.refine import refine_with_report

MESHES = Path(__file__).parent.parent / "meshes"
TRIANGLE = """
import json, sys, numpy, triangle
task, options = json.load(sys.stdin)
fine = triangle.triangulate({k: numpy.array(v) for k, v in task.items()}, options)
json.dump([fine["vertices"].tolist(), fine["triangles"].tolist()], sys.stdout)
"""


def angles(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """The smallest angle of each triangle, in degrees."""
    p = points[triangles]
    u, v = np.roll(p, -1, axis=1) - p, np.roll(p, -2, axis=1) - p
    turn = np.arctan2(np.abs(u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]), (u * v).sum(axis=2))
    return np.degrees(turn).min(axis=1)


def by_triangle(coast: morph.Pslg, options: str, seconds: float = 60.0) -> np.ndarray | None:
    """The smallest angles of the triangles that Triangle makes; None if it does not."""
    task = {"vertices": coast.points.tolist(), "segments": coast.segments.tolist()}
    if len(coast.holes):
        task["holes"] = coast.holes.tolist()
    command = [sys.executable, "-c", TRIANGLE]
    text = json.dumps([task, options + "Q"])
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=seconds)
        points, triangles = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        return None
    return angles(np.array(points), np.array(triangles))


def compact(rows: list[dict]) -> None:
    """Print a Markdown table: triangles, and narrow ones, of Morph / Triangle."""
    asked = list(dict.fromkeys(row["angle"] for row in rows))
    print(f"| | {' | '.join(f'{angle:g}' for angle in asked)} degrees |")
    print("|---" * (len(asked) + 1) + "|")
    for coast in dict.fromkeys(row["coast"] for row in rows):
        cells = [coast]
        for row in (row for row in rows if row["coast"] == coast):
            theirs = [row.get(key, "-") for key in ("Triangle", "its narrow")]
            narrow = row["narrow"] + row["other"]
            cells.append(f"{row['out']} / {theirs[0]}; {narrow} / {theirs[1]}")
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help=".poly files; else those of meshes/")
    parser.add_argument("-q", "--angles", type=float, nargs="+", default=[20, 28, 31, 33, 34])
    parser.add_argument("--against", nargs="+", choices=["pq", "pqD"], default=["pq", "pqD"])
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--device", default="cpu")
    o = parser.parse_args()
    files = o.files or [f for f in sorted(MESHES.glob("*.poly")) if f.stem != "square"]
    for options in o.against:
        how = {"conforming": "D" in options, "deterministic": o.deterministic, "device": o.device}
        rows = []
        for file in files:
            coast = morph.Pslg.read(file)
            for angle in o.angles:
                refine_with_report(coast, angle, **how)  # compiles
                start = time.perf_counter()
                mesh, rounds, _, unmet = refine_with_report(coast, angle, **how)
                row = {"coast": file.stem, "angle": angle, "all s": time.perf_counter() - start}
                mesh = mesh.to("cpu")
                mesh.check(conforming=how["conforming"])
                least = angles(mesh.points, mesh.triangles)
                small = unmet.pop("small input angle", 0)
                assert (least < angle * (1 - 1e-9)).sum() <= small + sum(unmet.values())
                row |= {"rounds": rounds, "out": len(least), "narrow": small}
                row |= {"other": sum(unmet.values()), "min": least.min()}
                theirs = by_triangle(coast, options.replace("q", f"q{angle:g}"))
                if theirs is not None:
                    row |= {
                        "Triangle": len(theirs),
                        "its narrow": (theirs < angle * (1 - 1e-9)).sum(),
                    }
                    row |= {"its min": theirs.min(), "size": len(least) / len(theirs)}
                rows.append(row)
        print(f"against {options}, {o.device}")
        table(rows)
        compact(rows)


if __name__ == "__main__":
    main()
