"""Algorithms on the ranks of `mpiexec`, a part of the graph on each, beside one process.

    python benchmarks/ranks.py --scale 20 --ranks 1,2,4        # starts mpiexec for each number
    python benchmarks/ranks.py --scale 22 --device cuda        # a GPU for each rank: NCCL
    python benchmarks/ranks.py --scale 20 --rows ROWS          # for scaling.py
    python benchmarks/ranks.py --scale 22 --ranks 1,2,4 --only morph.bfs --by range --permute

Each rank has one thread, or one GPU; the time of a call is that of the slowest rank, whose result
stays on the ranks.  With one rank the graph is an ordinary one.  With ``--beside`` a column for as
many parts in one process.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from common import append, median, table
from partitions import shape_of

import morph
from morph import generate
from morph.runtime.arrays import to_host

ITERATIONS = 20
FEW = 4  # sources of betweenness
SOURCES: dict[int, list[int]] = {}  # by the identity of a graph
PAGERANK = f"morph.pagerank, {ITERATIONS} iterations"
ALGORITHMS = {
    PAGERANK: lambda g: morph.pagerank(g, tolerance=0, iterations=ITERATIONS)[0],
    "morph.bfs": lambda g: morph.bfs(g, source_of(g)).distance,
    "morph.sssp": lambda g: morph.sssp(g, source_of(g)).distance,
    "morph.core_number": lambda g: morph.core_number(g).core,
    f"morph.betweenness, {FEW}": lambda g: morph.betweenness(g, sources_of(g)).centrality,
}
SETTINGS = {  # for root, and for more ranks than cores
    "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}  # fmt: skip


def sources_of(g: Any) -> list[int]:
    """Give points with edges, the same for any number of ranks."""
    if id(g) not in SOURCES:
        m = len(g.edges)
        SOURCES[id(g)] = [int(g.edges.src[m // 2 + k * m // (2 * FEW)]) for k in range(FEW)]
    return SOURCES[id(g)]


def source_of(g: Any) -> int:
    """Give the first of these points."""
    return sources_of(g)[0]


def named(only: str) -> dict[str, Any]:
    """Give the algorithms whose names begin with one of some texts."""
    return {k: f for k, f in ALGORITHMS.items() if k.startswith(tuple(only.split(",")))}


def measure(o: argparse.Namespace) -> None:
    """Print, on the first rank, milliseconds and a checksum of each algorithm.

    A second line has the features of PageRank for the cost model of `scaling.py`, if there are
    several ranks.  With ``o.parts`` the graph has so many parts in this process, the only rank.
    """
    from mpi4py import MPI

    comm: Any = MPI.COMM_WORLD
    chosen = named(o.only)
    size, weight = o.parts or comm.size, None if [*chosen] == ["morph.bfs"] else (1, 255)
    draw = partial(generate.rmat, o.scale, 16, permute=o.permute, weight=weight)
    devices = [o.device if o.device == "cpu" else f"{o.device}:{k}" for k in range(size)]
    among = None if o.parts else comm
    if size > 1 and o.by == "range":
        g: Any = draw(device=devices, comm=among)
    else:
        g = draw(device=devices[comm.rank])
        g = morph.partition(g, devices, by=o.by, comm=among) if size > 1 else g
    found = []
    for run in chosen.values():
        seconds, result = median(
            lambda run=run: (comm.Barrier(), run(g), comm.Barrier())[1], o.repeat
        )
        found.append((1e3 * comm.allreduce(seconds, MPI.MAX), float(to_host(result).sum())))
    known: dict[str, float] = {}
    if size > 1:
        known, most = shape_of(g)
        largest = max(s.edges for s in g.statistics())
        known |= {"share": largest / len(g.edges), "visits": len(g.edges) * ITERATIONS,
                  "steps": 2 * ITERATIONS, "crossings": ITERATIONS,
                  "bytes": most * ITERATIONS}  # fmt: skip
    if comm.rank == 0:
        numbers = " ".join(f"{ms} {checksum}" for ms, checksum in found)
        print(f"{numbers}\n{json.dumps(known)}", flush=True)


def started(ranks: int, o: argparse.Namespace, *more: str) -> tuple[list[float], dict[str, float]]:
    """Start ranks; give what the first prints: milliseconds and checksums, and features."""
    mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or "mpiexec"
    command = [mpiexec, "-n", str(ranks), sys.executable, __file__, "--here", "--device", o.device,
               "--scale", str(o.scale), "--by", o.by, "--repeat", str(o.repeat),
               "--only", o.only, *(["--permute"] if o.permute else []), *more]  # fmt: skip
    done = subprocess.run(
        command, env=os.environ | SETTINGS, stdout=subprocess.PIPE, text=True, check=True
    )
    numbers, known = done.stdout.splitlines()[:2]
    return [float(x) for x in numbers.split()], json.loads(known)


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line; print a row for each algorithm and number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=18, help="of the R-MAT graph")
    parser.add_argument("--ranks", default="1,2", help="numbers of ranks")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--by", default="degree", choices=["range", "degree"])
    parser.add_argument("--only", default="morph.", help="begins of names, such as morph.bfs")
    parser.add_argument("--permute", action="store_true", help="number the points at random")
    parser.add_argument("--beside", action="store_true", help="as many parts in one process, too")
    parser.add_argument("--rows", help="file to append rows for scaling.py to")
    parser.add_argument("--here", action="store_true", help="this is a rank: measure")
    parser.add_argument("--parts", type=int, default=0, help="of a rank that has all of them")
    o = parser.parse_args(arguments)
    if o.here:
        measure(o)
        return
    rows, one = list[dict[str, Any]](), dict[str, tuple[float, float]]()
    known = list[dict[str, Any]]()
    for ranks in map(int, o.ranks.split(",")):
        numbers, shape = started(ranks, o)
        if shape and PAGERANK in one:
            seconds = {"one": one[PAGERANK][0] / 1e3, "seconds": numbers[0] / 1e3}
            known.append({"program": "pagerank", "executor": "ranks", **shape, **seconds})
        for name, ms, checksum in zip(named(o.only), numbers[::2], numbers[1::2], strict=True):
            first, wanted = one.setdefault(name, (ms, checksum))
            equal = abs(checksum - wanted) <= 1e-9 * abs(wanted)
            rows.append({"algorithm": name, "ranks": ranks, "ms": ms, "speedup": first / ms,
                         "equal": "yes" if equal else "NO",
                         **({"one process ms": ""} if o.beside else {})})  # fmt: skip
        if o.beside and ranks > 1:
            beside, _ = started(1, o, "--parts", str(ranks))
            for x, ms in zip(rows[-len(named(o.only)) :], beside[::2], strict=True):
                x["one process ms"] = ms
    table(rows)
    append(o.rows, known)


if __name__ == "__main__":
    main()
