"""Delaunay refinement of random points in the unit square, beside Triangle if it is installed.

Half as many random points as triangles wanted are triangulated and refined. Every mesh is checked:
exact orientation, neighbours, constrained Delaunay, area.  *Loop* is the fused launch alone, *run*
all but compiling and transfers, *all* from arrays to arrays; *size* is the output beside
Triangle's, *ratio* Triangle's time over the loop's.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import time
from collections.abc import Iterator
from unittest import mock

import numpy as np
from common import devices, table

import morph
from morph.algorithms.refinement.refine import refine_with_report
from morph.runtime.threads import get_num_threads as threads
from morph.runtime.timing import synchronize

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


def domain_error(mesh: morph.Mesh, fine: morph.Mesh) -> float:
    """The area by which the domain of the refined mesh differs, relative to the area (Shapely)."""
    before, after = domain(mesh), domain(fine)
    area = fine.quality().area
    return max(after.symmetric_difference(before).area, abs(area - before.area)) / before.area


def checked_error(mesh: morph.Mesh, fine: morph.Mesh) -> str:
    """Check every invariant of the refined mesh, and return its error of the domain as text."""
    fine.check()
    off = domain_error(mesh, fine)
    assert off < 1e-9, off
    return f"{off:.1e}"


@contextlib.contextmanager
def loop_time() -> Iterator[list[float]]:
    """Seconds of each call of the refinement's loop alone, in the block."""
    import importlib

    module = importlib.import_module("morph.algorithms.refinement.rounds")
    inner, spent = module.run_rounds, []

    def timed(*args):
        synchronize()
        start = time.perf_counter()
        result = inner(*args)
        synchronize()
        spent.append(time.perf_counter() - start)
        return result

    with mock.patch.object(module, "run_rounds", timed):
        yield spent


def by_triangle(mesh: morph.Mesh, angle: float, o) -> dict:
    """Triangle on the same input, the best of several runs, as of Morph."""
    task = {"vertices": mesh.points, "triangles": mesh.triangles, "segments": mesh.segments}
    wall = math.inf
    for _ in range(o.repeat):
        start = time.perf_counter()
        out = triangle.triangulate(task, f"rpq{angle:g}Q")
        wall = min(wall, time.perf_counter() - start)
    return {"what": "Triangle, 1 core", "run s": wall, "all s": wall, "out": len(out["triangles"])}


def by_morph(mesh: morph.Mesh, angle: float, device: str, o, spent: list[float]) -> dict:
    """Morph, the best of several runs: the loop alone, the run, arrays to arrays."""
    best, where = None, device.split(",")
    for _ in range(o.repeat):
        spent.clear()
        start = time.perf_counter()
        with morph.timing() as t:
            result = refine_with_report(mesh, angle, device=where if len(where) > 1 else device)
        wall = time.perf_counter() - start
        if best is None or wall < best["all s"]:
            best = {"loop s": sum(spent), "run s": t.run, "all s": wall}
    fine = result.mesh.to("cpu")
    where = device if mesh.device.kind == "cpu" else f"{device}, arrays on it"
    if device == "cpu":
        where += f", {threads()} threads"
    return {"what": where, **best, "out": len(fine.triangles),
            "min angle": fine.quality().min_angle, "rounds": result.rounds,
            "unmet": sum(result.unmet.values()),
            "area off by": checked_error(mesh.to("cpu"), fine) if o.check else "-"}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=float, nargs="+", default=[1e6], help="triangles of the input")
    parser.add_argument("-q", type=float, nargs="+", default=[30], help="smallest angles")
    parser.add_argument("--device", nargs="+", default=["all"], help="cuda:0,cuda:1: of parts")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="check every invariant exactly")
    o = parser.parse_args()
    with loop_time() as spent:
        compare(o, spent)


def compare(o, spent: list[float]) -> None:
    """Print a table for each mesh and angle."""
    for n in o.n:
        mesh = random_mesh(int(n))
        for angle in o.q:
            rows = [by_triangle(mesh, angle, o)] if triangle is not None else []
            for device in [d for given in o.device for d in devices(given)]:
                rows.append(by_morph(mesh, angle, device, o, spent))
                if device.startswith("cuda") and "," not in device:
                    rows.append(by_morph(mesh.to(device), angle, device, o, spent))
            for r in rows:
                r["size"] = r["out"] / rows[0]["out"]
                r["ratio"] = rows[0]["all s"] / r.get("loop s", r["run s"])
            given = {"triangles": len(mesh.triangles), "degrees": f"{angle:g}"}
            table([{**given, **dict.fromkeys(rows[-1], ""), **r} for r in rows])


if __name__ == "__main__":
    main()
