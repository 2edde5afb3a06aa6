"""Delaunay triangulation of random points in the unit square, beside Triangle and SciPy.

Of Morph, *run* ends with triangles in tables on the device; *all* is from an array to a mesh
of arrays.  The peers' triangulations must be the same; --check asks the exact judge of meshes.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from common import devices, median, table

import morph
from morph.algorithms.delaunay import delaunay_tables

try:
    import triangle
except ImportError:
    triangle = None
try:
    from scipy.spatial import Delaunay
except ImportError:
    Delaunay = None


def timed(run):
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


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
    parser.add_argument("--check", action="store_true", help="judge every invariant exactly")
    o = parser.parse_args()
    rows = []
    for n in map(int, o.n):
        points = np.random.default_rng(1).random((n, 2))
        peers = {}
        if triangle is not None:
            task = {"vertices": points}
            peers["Triangle, 1 core"] = timed(
                lambda t=task: triangle.triangulate(t, "Q")["triangles"]
            )
        if Delaunay is not None and n <= o.scipy:
            peers["SciPy, 1 core"] = timed(lambda p=points: Delaunay(p).simplices)
        for name, (seconds, found) in peers.items():
            rows.append({"what": name, "points": n, "all s": seconds, "triangles": len(found)})
        for device in devices(o.device):
            with morph.device(device).active():
                held = morph.device(device).asarray(points)
                run, _ = median(lambda p=held, d=device: delaunay_tables(p, d), o.repeat)
            everything, mesh = median(
                lambda p=points, d=device: morph.triangulate(p, device=d), o.repeat
            )
            if o.check:
                mesh.check()
            row = {"what": device, "points": n, "run s": run, "all s": everything}
            row |= {"triangles": len(mesh.triangles), "ns a point": run / n * 1e9}
            for name, (seconds, found) in peers.items():
                row[f"{name.split(',')[0]} / run"] = seconds / run
                if n <= 2**21:
                    assert same(mesh.triangles, found), name
                assert len(mesh.triangles) == len(found), name
            rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    table([{**dict.fromkeys(names, ""), **row} for row in rows])


if __name__ == "__main__":
    main()
