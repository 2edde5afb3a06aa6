"""Delaunay triangulation of random points in the unit square, beside Triangle and SciPy.

Of Morph, *run* ends with triangles in tables on the device; *all* is from an array to a mesh
of arrays.  The least of some runs each, in turns.
The peers' triangulations must be the same; --check validates meshes exactly.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import beside, best, devices, table

import morph
from morph.algorithms.triangulation.delaunay import delaunay_tables

try:
    import triangle
except ImportError:
    triangle = None
try:
    from scipy.spatial import Delaunay
except ImportError:
    Delaunay = None


def same(triangles, others):
    """Whether two triangulations are the same."""
    if triangles.shape != others.shape:
        return False
    rows = (np.sort(np.asarray(t, np.int64), axis=1) for t in (triangles, others))
    keys = (np.sort(r[:, 0] * 2**42 + r[:, 1] * 2**21 + r[:, 2]) for r in rows)
    return bool(np.array_equal(*keys))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=float, nargs="+", default=[1e5, 1e6], help="points")
    parser.add_argument("--device", default="all")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--scipy", type=float, default=1e6, help="most points that SciPy is given")
    parser.add_argument("--check", action="store_true", help="check every invariant exactly")
    o = parser.parse_args()
    rows = []
    for n in map(int, o.n):
        points = np.random.default_rng(1).random((n, 2))
        runs = {}
        if triangle is not None:
            runs["Triangle, 1 core"] = lambda p=points: triangle.triangulate({"vertices": p}, "Q")
        if Delaunay is not None and n <= o.scipy:
            runs["SciPy, 1 core"] = lambda p=points: Delaunay(p)
        peers = list(runs)
        for device in devices(o.device):
            held = morph.device(device).asarray(points)
            runs[device] = lambda p=held, d=device: delaunay_tables(p, d)
            runs[f"{device}, all"] = lambda p=points, d=device: morph.triangulate(p, device=d)
        seconds, results = best(runs, o.repeat, once="SciPy, 1 core")  # an hour for 10 M points
        found = {}
        if "Triangle, 1 core" in results:
            found["Triangle"] = results["Triangle, 1 core"]["triangles"]
        if "SciPy, 1 core" in results:
            found["SciPy"] = results["SciPy, 1 core"].simplices
        for name in peers:
            count = len(found[name.split(",")[0]])
            rows.append({"what": name, "points": n, "all s": seconds[name], "triangles": count})
        for device in devices(o.device):
            mesh = results[f"{device}, all"]
            if o.check:
                mesh.check()
            for name, triangles in found.items():
                assert (
                    same(mesh.triangles, triangles)
                    if n <= 2**21
                    else (len(mesh.triangles) == len(triangles))
                ), name
            run = seconds[device]
            row = {"what": device, "points": n, "run s": run, "all s": seconds[f"{device}, all"]}
            row |= {"triangles": len(mesh.triangles), "ns a point": run / n * 1e9}
            row |= {name: beside(seconds[name], run) for name in peers}
            rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    table([{**dict.fromkeys(names, ""), **row} for row in rows])


if __name__ == "__main__":
    main()
