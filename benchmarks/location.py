"""Points located in Delaunay meshes, and values interpolated there, beside SciPy.

Both search the Delaunay triangulation of the same random points, made before the clock starts; the
preparation of a search (Morph's tree of boxes) is part of its time.  The least of some runs each,
in turns; SciPy uses one thread.  *ratio* is SciPy's time by Morph's.  Triangles must have equal
corners except for points on an edge, which either mesh may give to both sides; *max diff* is the
largest difference of interpolated values, which are between 0 and 1.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from common import best, devices, table
from scipy.interpolate import LinearNDInterpolator
from scipy.spatial import Delaunay

import morph


def differing(mesh, found, tri, theirs):
    """The number of points that lie in different triangles, by the corners of these."""
    both = (found >= 0) & (theirs >= 0)
    corners = np.sort(mesh.triangles[found[both]], axis=1)
    others = np.sort(tri.simplices[theirs[both]], axis=1)
    inside_one = (found >= 0) != (theirs >= 0)
    return int((corners != others).any(axis=1).sum() + inside_one.sum())


def measured(points, queries, repeat, where):
    """The rows of one mesh and one number of queries on a device."""
    tri = Delaunay(points)
    mesh = morph.triangulate(points, hull=True, device="cpu")
    values = np.random.default_rng(2).random(len(points))
    linear, there = LinearNDInterpolator(tri, values), mesh.to(where)
    device = morph.device(where)
    x, v = device.asarray(queries), device.asarray(values)
    seconds, results = best(
        {
            "find_simplex": lambda: there.find_simplex(x),
            "interpolate": lambda: there.interpolate(v, x),
            "Delaunay.find_simplex": lambda: tri.find_simplex(queries),
            "LinearNDInterpolator": lambda: linear(queries),
        },
        repeat,
    )
    rows = []
    found = device.to_host(results["find_simplex"])
    for ours, theirs in (
        ("find_simplex", "Delaunay.find_simplex"), ("interpolate", "LinearNDInterpolator"),
    ):  # fmt: skip
        rows.append({
            "points": len(points), "queries": len(queries), "device": where, "call": ours,
            "Morph s": seconds[ours], "SciPy s": seconds[theirs],
            "ratio": seconds[theirs] / seconds[ours],
        })  # fmt: skip
    other = differing(mesh, found, tri, results["Delaunay.find_simplex"])
    given, wanted = device.to_host(results["interpolate"]), results["LinearNDInterpolator"]
    largest = float(np.nanmax(np.abs(given - wanted), initial=0.0))
    one_nan = int((np.isnan(given) != np.isnan(wanted)).sum())
    rows[0] |= {"max diff": "", "other triangle": other}
    rows[1] |= {"max diff": largest, "other triangle": one_nan}
    wrong = max(other, one_nan) > len(queries) // 100_000 or largest > 1e-6
    for row in rows:
        row["agree"] = "NO" if wrong else "yes"
    return rows


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=float, nargs="+", default=[1e3, 1e5], help="points of the mesh")
    parser.add_argument("-q", type=float, nargs="+", default=[1e4, 1e6], help="queries")
    parser.add_argument("--device", default="all")
    parser.add_argument("--repeat", type=int, default=3)
    o = parser.parse_args(arguments)
    rng = np.random.default_rng(1)
    rows = []
    for n in map(int, o.n):
        points = rng.random((n, 2))
        for k in map(int, o.q):
            queries = rng.random((k, 2)) * 1.02 - 0.01  # some lie outside
            for where in devices(o.device):
                rows += measured(points, queries, o.repeat, where)
    table(rows)
    if any(row["agree"] == "NO" for row in rows):
        sys.exit("results differ from SciPy's")


if __name__ == "__main__":
    main()
