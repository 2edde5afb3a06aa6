"""Graph algorithms beside the programs of the GAP benchmark suite, on CPUs.

    make -C gapbs    # of github.com/sbeamer/gapbs
    python benchmarks/gap.py rmat20 grid2000 --programs gapbs

Inputs are named as `inputs` says; the source is vertex 0.  Both use OMP_NUM_THREADS threads, and a
time is the median of --repeat runs on a graph in memory.  GAP's `sssp` runs with each --delta, the
fastest of which counts; its PageRank has float32, and as many iterations.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from common import beside, median, table
from graphs import CASES
from inputs import Input, load
from peers import ITERATIONS, PAGERANK

from morph.runtime.threads import get_num_threads

PROGRAMS = {
    "bfs": ["bfs", "-r", "0"],
    "sssp": ["sssp", "-r", "0"],
    "connected_components": ["cc"],
    PAGERANK: ["pr", "-t", "0", "-i", str(ITERATIONS)],
    "triangle_count": ["tc"],
}


def write(graph: Input, path: Path) -> None:
    """Write GAP's own format: directed or not, arcs, vertices, offsets, targets with weights."""
    entries = graph.dst.astype(np.int32)
    if path.suffix == ".wsg":
        entries = np.stack([entries, graph.weight.astype(np.int32)], axis=1)
    with path.open("wb") as file:
        file.write(bytes([False]))
        for numbers in (np.array([graph.arcs, graph.n]), graph.offsets):
            numbers.astype(np.int64).tofile(file)
        entries.tofile(file)


def seconds_of(command: list[str], o: argparse.Namespace) -> float:
    """Median seconds of the trials of a program of GAP."""
    command = [str(o.programs / command[0]), *command[1:], "-n", str(o.repeat)]
    given = os.environ | {"OMP_NUM_THREADS": str(get_num_threads())}
    done = subprocess.run(command, env=given, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return statistics.median(map(float, re.findall(r"Trial Time:\s*(\S+)", done.stdout)))


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, and print a row for each graph and algorithm."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("inputs", nargs="*", default=["rmat18", "grid1000"])
    parser.add_argument("--programs", type=Path, required=True, help="folder of GAP's programs")
    parser.add_argument("--only", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--delta", type=int, nargs="+", default=[8, 16, 256, 1024])
    parser.add_argument("--repeat", type=int, default=5)
    o = parser.parse_args(arguments)
    for name in o.inputs:
        graph = load(name)
        whole, rows = graph.graph("cpu"), []
        with tempfile.TemporaryDirectory() as folder:
            plain, weighted = Path(folder, "g.sg"), Path(folder, "g.wsg")
            write(graph, plain)
            write(graph, weighted)
            for what in o.only:
                case, command = CASES[what], PROGRAMS[what]
                took, _ = median(lambda case=case: case.solve(whole, 0), o.repeat)
                steps = [["-d", str(d)] for d in o.delta] if what == "sssp" else [[]]
                file = ["-f", str(weighted if what == "sssp" else plain)]
                theirs = min(seconds_of([*command, *file, *more], o) for more in steps)
                rows.append({"graph": graph.name, "algorithm": what, "ms": took * 1e3,
                             "GAP ms": beside(theirs, took)})  # fmt: skip
                print(*rows[-1].values(), file=sys.stderr, flush=True)
        table(rows)


if __name__ == "__main__":
    main()
