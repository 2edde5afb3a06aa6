"""Algorithms on the ranks of `mpiexec`, a part of the graph on each, beside one process.

    python benchmarks/ranks.py --scale 20 --ranks 1,2,4        # starts mpiexec for each number

Each rank has one thread; the time of a call is that of the slowest rank.  With one rank the graph
is an ordinary one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import median, table

import morph
from morph import generate

ALGORITHMS = {
    "morph.pagerank, 20 iterations": lambda g: morph.pagerank(g, tolerance=0, iterations=20)[0],
    "morph.bfs": lambda g: morph.bfs(g, 0).distance,
    "morph.sssp": lambda g: morph.sssp(g, 0).distance,
}
SETTINGS = {  # for root, and for more ranks than cores
    "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}  # fmt: skip


def measure(scale: int, repeat: int) -> list[tuple[float, float]]:
    """Give milliseconds and a checksum of each algorithm; the same on all ranks."""
    from mpi4py import MPI

    comm: Any = MPI.COMM_WORLD
    options: dict[str, Any] = {"comm": comm} if comm.size > 1 else {"device": "cpu"}
    g = generate.rmat(scale, 16, weight=(1, 255), **options)
    found = []
    for run in ALGORITHMS.values():
        seconds, result = median(
            lambda run=run: (comm.Barrier(), run(g), comm.Barrier())[1], repeat
        )
        found.append((1e3 * comm.allreduce(seconds, MPI.MAX), float(result.sum())))
    return found


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line; print a row for each algorithm and number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=18, help="of the R-MAT graph")
    parser.add_argument("--ranks", default="1,2", help="numbers of ranks")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--here", action="store_true", help="this is a rank: measure")
    o = parser.parse_args(arguments)
    if o.here:
        print(*(f"{ms} {checksum}" for ms, checksum in measure(o.scale, o.repeat)), flush=True)
        return
    mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or "mpiexec"
    rows, one = [], dict[str, tuple[float, float]]()
    for ranks in o.ranks.split(","):
        command = [mpiexec, "-n", ranks, sys.executable, __file__, "--here",
                   "--scale", str(o.scale), "--repeat", str(o.repeat)]  # fmt: skip
        done = subprocess.run(
            command, env=os.environ | SETTINGS, stdout=subprocess.PIPE, text=True, check=True
        )
        numbers = [float(x) for x in done.stdout.splitlines()[0].split()]
        for name, ms, checksum in zip(ALGORITHMS, numbers[::2], numbers[1::2], strict=True):
            first, wanted = one.setdefault(name, (ms, checksum))
            equal = abs(checksum - wanted) <= 1e-9 * abs(wanted)
            rows.append({"algorithm": name, "ranks": int(ranks), "ms": ms, "speedup": first / ms,
                         "equal": "yes" if equal else "NO"})  # fmt: skip
    table(rows)


if __name__ == "__main__":
    main()
