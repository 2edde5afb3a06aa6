"""Reading and writing Triangle's files: MB/s and memory beside NumPy, pandas and meshio.

    python benchmarks/files.py -m 1e6

Parsing alone is shown beside the whole, which checks every index, the orientation of every
triangle in exact arithmetic, repeated vertices, and finds the neighbours.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from common import table
from reading import PEERS, compare

from morph.io import read_area, read_mesh, read_neigh, write_area, write_mesh
from morph.io.mesh.nodes import open_scanner
from morph.io.text import numbers
from morph.io.text.rows import format_rows
from morph.io.text.scanner import Field
from morph.mesh import Mesh


def make(count: int) -> Mesh:
    """A square of distorted cells; coordinates have all their digits."""
    side = int((count / 2) ** 0.5)
    x, y = np.meshgrid(np.arange(side + 1.0), np.arange(side + 1.0))
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    points = (points + np.random.default_rng(1).uniform(-0.2, 0.2, points.shape)) / side
    corner = (np.arange(side)[:, None] * (side + 1) + np.arange(side)).ravel()
    up = np.stack([corner, corner + 1, corner + side + 2], axis=1)
    down = np.stack([corner, corner + side + 2, corner + side + 1], axis=1)
    triangles = np.concatenate([up, down]).astype(np.int32)
    order = np.random.default_rng(2).permutation(len(triangles))
    return Mesh(points, triangles[order])


def parse(path: Path, fields: list[Field]) -> None:
    scanner = open_scanner(path)
    scanner.skip_line()
    scanner.rest(fields)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-m", type=float, default=1e6, help="triangles")
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many is shown")
    parser.add_argument("--slow", action="store_true", help="numpy.loadtxt and meshio, too")
    args = parser.parse_args()
    mesh = make(int(args.m))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [folder / f"m{suffix}" for suffix in (".node", ".ele", ".poly")]
        node, ele, _ = files
        number, x, y = Field("number"), Field("x", False), Field("y", False)

        def measure(what, run, paths, repeat=args.repeat):
            best = float("inf")
            for _ in range(repeat):
                start = time.perf_counter()
                run()
                best = min(best, time.perf_counter() - start)
            size = sum(p.stat().st_size for p in paths) / 1e6
            rows.append({"what": what, "MB": size, "seconds": best, "MB/s": size / best})

        def without_compiler(run):
            def wrapped():
                kept, numbers.library = numbers.library, lambda: None
                try:
                    run()
                finally:
                    numbers.library = kept

            return wrapped

        def parse_node():
            parse(node, [number, x, y, Field("marker")])

        def parse_ele():
            parse(ele, [number] * 4)

        def write():
            write_mesh(mesh, folder / "m")

        def write_rows():
            for _ in format_rows([np.arange(len(mesh.points)), *mesh.points.T]):
                pass

        numbers.library()  # compiled once, and kept
        measure("write_mesh", write, files)
        measure("write_mesh, NumPy", without_compiler(write), files, 1)
        measure("read_mesh, checked", lambda: read_mesh(folder / "m"), files)
        measure("read_mesh, NumPy", without_compiler(lambda: read_mesh(folder / "m")), files, 1)
        measure("parse .node", parse_node, [node])
        measure("parse .node, NumPy", without_compiler(parse_node), [node], 1)
        measure("parse .ele", parse_ele, [ele])
        measure("parse .ele, NumPy", without_compiler(parse_ele), [ele], 1)
        measure("digits of .node, no file", write_rows, [node])

        compare(["morph.read_node", *(PEERS[".node"] if args.slow else [])], node)
        compare(["morph.read_mesh"], folder / "m")  # memory of a process of its own
        write_mesh(mesh, folder / "m", neighbors=True, edges=True)
        area = folder / "m.area"
        areas = np.random.default_rng(3).random(len(mesh.triangles))
        write_area(areas, area, mesh.base)
        measure("read_area", lambda: read_area(area, mesh), [area])
        neigh = folder / "m.neigh"
        measure("read_neigh, checked", lambda: read_neigh(neigh, mesh), [neigh])
        if args.slow:
            import meshio

            measure("numpy.loadtxt .node", lambda: np.loadtxt(node, skiprows=1), [node], 1)
            measure("numpy.loadtxt .ele", lambda: np.loadtxt(ele, np.int64, skiprows=1), [ele], 1)
            vtk = folder / "m.vtk"
            points = np.pad(mesh.points, ((0, 0), (0, 1)))
            theirs = meshio.Mesh(points, [("triangle", mesh.triangles)])

            def write_vtk():
                theirs.write(vtk, binary=False)

            measure_vtk = [vtk]
            write_vtk()
            measure("meshio writes .vtk, text", write_vtk, measure_vtk, 1)
            measure("meshio reads .vtk, text", lambda: meshio.read(vtk), measure_vtk, 1)
    print(f"{len(mesh.triangles):,} triangles, {len(mesh.points):,} points")
    table(rows)


if __name__ == "__main__":
    main()
