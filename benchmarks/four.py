"""Parts of the run on four GPUs of `four.sh`: what compiles ahead, meshes, and formulas.

    python benchmarks/four.py compile parts --scale 12    # options of `partitions.py`
    python benchmarks/four.py wide --scale 12             # options of `large.py`
    python benchmarks/four.py meshes cuda:0,cuda:1 1e7 4e7 --lattice 5.4e8 --gate FOLDER
    python benchmarks/four.py formulas cuda:0,cuda:1 1e7 3e7 --gate FOLDER

``compile`` makes `partitions.py` run on one device only, or on parts only, so that two processes
compile their units at the same time.  ``wide`` runs BFS on parts whose edges count as more than
2^31, so units of scale 30 are compiled on a small graph.  ``meshes`` and ``formulas`` compile and
make their inputs; with ``--gate`` they then write ``meshes.ready`` there, and wait for
``meshes.go``.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import morph
from morph import survey
from morph.algorithms.refinement.refine import refine_with_report
from morph.validate import satisfied

HEIGHT, JITTER = 1.5, 0.12  # of the rows of a lattice: angles of 28 to 86 degrees before refinement
THREADS = 16  # that make a lattice


def say(*what: Any) -> None:
    """Print at once, after the time of day."""
    print(time.strftime("%H:%M:%S"), *what, flush=True)


def compile_ahead(how: str, options: list[str]) -> None:
    """Run `partitions.py` on one device only, or on parts only."""
    import partitions

    both = partitions.on_one

    def on_one(*args: Any) -> None:
        both(*args)
        sys.exit()

    def nothing(g: Any, programs: Any, calls: Any, first: str, repeat: int) -> dict[str, Any]:
        return {name: (1.0, 0) for name in [*programs, *calls]}

    with mock.patch.object(partitions, "on_one", on_one if how == "one" else nothing):
        partitions.main(options)


def wide(options: list[str]) -> None:
    """Run `large.py` as if each table of edges had more than 2^31 rows."""
    import large

    from morph.data.store import Store

    wide = property(lambda self: self.name.endswith("edges"))
    with mock.patch.multiple(Store, _wide=wide, _refuse_wide=lambda self, use: None):
        large.main(options)


def free_pools(devices: list[str]) -> str:
    """Free the unused memory of GPUs; give the size of the pools before, in GiB."""
    sizes = []
    for name in dict.fromkeys(d for d in devices if d != "cpu"):
        with morph.device(name).active():
            import cupy

            pool = cupy.get_default_memory_pool()
            sizes.append(f"{pool.total_bytes() / 2**30:.1f}")
            pool.free_all_blocks()
    return f"pools {', '.join(sizes)} GiB" if sizes else ""


def wait(folder: Path | None, name: str) -> None:
    """Write NAME.ready to a folder, and wait until NAME.go is there."""
    say(name, "ready")
    if folder is not None:
        (folder / f"{name}.ready").touch()
        while not (folder / f"{name}.go").exists():
            time.sleep(0.05)


# --- meshes --------------------------------------------------------------------------------------


def random_mesh(m: int, device: str) -> morph.Mesh:
    """Triangulate m / 2 random points on a device; the mesh is on the host."""
    made = morph.triangulate(np.random.default_rng(1).random((m // 2, 2)), device=device)
    return morph.Mesh.trusted(**vars(made.to("cpu")))


def lattice(m: int) -> morph.Mesh:
    """Make a mesh of about m triangles in rows, every second row shifted by a half."""
    n = int((m / 2) ** 0.5)
    xy, node, nbr = (
        np.empty(shape, dtype)
        for shape, dtype in (((n + 1, n + 1, 2), float), ((n, n, 2, 3), np.int32),
                             ((n, n, 2, 3), np.int32))
    )  # fmt: skip

    def fill(rows: NDArray[np.int64]) -> None:
        for r in rows.tolist():
            xy[r] = _row_of_points(r, n)
            if r < n:
                node[r], nbr[r] = _row_of_triangles(r, n)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(fill, np.array_split(np.arange(n + 1), 4 * THREADS)))
    across, along = np.arange(n), np.arange(n) * (n + 1)
    last, width = n * (n + 1), n + 1
    sides = ((across, 1), (last + across, 1), (along, width), (along + n, width))
    segments = np.concatenate([np.stack([a, a + step], 1) for a, step in sides]).astype(np.int32)
    marker = np.zeros((width, width), np.int32)
    marker[[0, -1]], marker[:, [0, -1]] = 1, 1
    return morph.Mesh.trusted(
        points=xy.reshape(-1, 2), triangles=node.reshape(-1, 3), neighbors=nbr.reshape(-1, 3),
        segments=segments, segment_markers=np.ones(len(segments), np.int32),
        point_markers=marker.reshape(-1),
    )  # fmt: skip


def _row_of_points(r: int, n: int) -> NDArray[np.float64]:
    """The points of row r; those at the hull are not moved."""
    moved = np.random.default_rng(r).uniform(-JITTER, JITTER, (n + 1, 2))
    moved[[0, -1]] = 0
    if r in (0, n):
        moved[:] = 0
    moved += np.stack([np.arange(n + 1) + 0.5 * (r % 2), np.full(n + 1, r * HEIGHT)], 1)
    return moved


def _row_of_triangles(r: int, n: int) -> tuple[Any, Any]:
    """Corners and neighbours of the two triangles of each cell above row r."""
    c = np.arange(n, dtype=np.int32)
    a = c + np.int32(r * (n + 1))
    b, d, e = a + 1, a + n + 1, a + n + 2
    me = 2 * c + np.int32(2 * r * n)
    left, right = np.where(c > 0, me - 1, -1), np.where(c < n - 1, me + 2, -1)
    # in even rows the second triangle of a cell has the upper edge, in odd rows the first
    above = me + 2 * n + 1 - r % 2 if r < n - 1 else np.full(n, -1)
    below = me - 2 * n + r % 2 if r else np.full(n, -1)
    if r % 2 == 0:
        corners, beside = ((a, b, d), (b, e, d)), ((me + 1, left, below), (above, me, right))
    else:
        corners, beside = ((a, e, d), (a, b, e)), ((above, left, me + 1), (right, me, below))
    return tuple(
        np.stack([np.stack(x, 1) for x in found], 1).astype(np.int32) for found in (corners, beside)
    )


def refined(name: str, mesh: morph.Mesh, angle: float, devices: list[str]) -> tuple[float, int]:
    """Refine a mesh of the host on one device or on parts; gives seconds and triangles."""
    start = time.perf_counter()
    found = refine_with_report(mesh, angle, device=devices if len(devices) > 1 else devices[0])
    spent, size = time.perf_counter() - start, len(found.mesh.triangles)
    say(name, f"{len(mesh.triangles):,} on {len(devices)} to {size:,} in {1e3 * spent:.1f} ms,",
        f"unmet {found.unmet},", free_pools(devices))  # fmt: skip
    return spent, size


def meshes(o: argparse.Namespace) -> None:
    """Refine random meshes on one device and on parts in turn, then the lattice on both."""
    devices = o.devices.split(",")
    places = (devices[:1], devices)
    for where in places:
        refined("compiled:", random_mesh(200_000, devices[0]), 30, where)
    few = refine_with_report(lattice(200_000), 33, device=devices).mesh.to("cpu")
    few.check()
    say(f"a lattice is right, least angle {few.quality().min_angle:.3f}")
    made = [random_mesh(int(m), devices[0]) for m in o.sizes]
    for where in places:
        refined("compiled for large meshes:", made[0], 30, where)
    large = lattice(int(o.lattice)) if o.lattice else None
    wait(o.gate, "meshes")
    while made:
        mesh = made.pop(0)
        turns = [[refined("random", mesh, 30, where) for where in places] for _ in range(o.repeat)]
        (one, size), (several, other) = map(min, zip(*turns, strict=True))
        say(f"== {len(mesh.triangles):,}: one {1e3 * one:.1f} ms, parts {1e3 * several:.1f} ms,",
            f"{several / one:.2f} x one, {other / size:.4f} x its size")  # fmt: skip
    del mesh
    gc.collect()
    for where in places[::-1] if large is not None else ():
        try:
            refined("lattice", large, 33, where)
        except (MemoryError, RuntimeError, ValueError) as error:
            say("lattice on", *where, type(error).__name__, str(error)[:200])


# --- formulas ------------------------------------------------------------------------------------


def formulas(o: argparse.Namespace) -> None:
    """Solve random 3-SAT at 4.2 on parts and on one device; every model is checked."""
    devices = o.devices.split(",")
    places = (devices, devices[0])
    for where in places:
        few = morph.generate.random_ksat(3, 50_000, 4.2, 3)
        say("compiled,", survey.solve(few, 1, device=where, time=40).status)
    made = [morph.generate.random_ksat(3, int(n), 4.2, 1) for n in o.sizes]
    wait(o.gate, "formulas")
    for formula in made:
        for where in (*places, devices) if formula is made[0] else places:
            start = time.perf_counter()
            found = survey.solve(formula, 1, device=where, time=60)
            spent = time.perf_counter() - start
            right = found.status == "SATISFIABLE" and satisfied(formula, found.model).all()
            phases = ", ".join(f"{name} {s:.2f}" for name, s in found.seconds.items())
            say(f"{formula.variables:,} on {where}: {found.status}, right: {right},",
                f"{spent:.2f} s, {phases},", free_pools(devices))  # fmt: skip


def main() -> None:
    """Parse the command line."""
    if sys.argv[1:2] == ["compile"]:
        compile_ahead(sys.argv[2], sys.argv[3:])
    elif sys.argv[1:2] == ["wide"]:
        wide(sys.argv[2:])
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("what", choices=["meshes", "formulas"])
        parser.add_argument("devices", help="with commas between")
        parser.add_argument("sizes", type=float, nargs="+", help="triangles, variables")
        parser.add_argument("--lattice", type=float, default=0, help="triangles")
        parser.add_argument("--repeat", type=int, default=3, help="refinements of a random mesh")
        parser.add_argument("--gate", type=Path, help="folder of NAME.ready and NAME.go")
        o = parser.parse_args()
        {"meshes": meshes, "formulas": formulas}[o.what](o)


if __name__ == "__main__":
    main()
