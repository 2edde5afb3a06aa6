"""Run all benchmarks beside every peer that is installed, and write one page of ratios.

    python benchmarks/everything.py RESULTS --data /work/shared/data --limit 470

Inputs and kernels are made first, on all cores, without a clock.  Then the parts of three groups
run: ``gpu`` measures the GPU, its host threads on four cores of their own; ``two`` measures Morph
and peers on two other cores at the same time; ``all`` measures on all cores when both groups have
ended.  The parts of a group run one after another, unless --gpus spreads ``gpu`` over several GPUs
or --pairs gives ``two`` several pairs of cores.  A group is left out without a GPU, or without
more than two cores.

RESULTS receives the output of each part, and ``summary.md``: machine, commit, and the rows of all
tables, with each peer's time over Morph's.  A part that exceeds its limit is ended; its finished
tables count.  `parts.txt` lists the parts.  --data is a folder with ``road/NY.gr.xz`` and
``community/medium_given.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GPU_CORES = 4  # of the host threads of the group that measures the GPU
FIVE = "bfs sssp connected_components mst 'pagerank, 20 iterations'"
SEVEN = f"{FIVE} core_number triangle_count"
INPUTS = ("rmat20 grid2000 uniform24 rmat23 rmat18 grid1000 rmat16 grid500 rmat14 grid300 grid128"
          " grid100").split()  # fmt: skip
WARM = ("refine triangulate sat dynamic generate max-flow community text bfs sssp bellman-ford"
        " strong topological components core triangles mst pagerank").split()  # fmt: skip
RARE = ("johnson truss independent matching colouring label-propagation louvain leiden densest"
        " max-clique betweenness edge-betweenness").split()  # fmt: skip
TIMES = re.compile(r"^(?:Morph |loop |run |all |BFS |insert )?[mu]?s$")
FACTOR = re.compile(r"([\d.,]+(?:e[+-]\d+)?) ?x\)?$")


@dataclass
class Part:
    """A command of a group, and what became of it."""

    group: str
    name: str
    limit: float
    command: str
    outcome: str = "not run: no time was left"
    seconds: float = 0.0

    @property
    def title(self) -> str:
        return f"{self.group}-{self.name}"


def parts_of(o: argparse.Namespace) -> list[Part]:
    """The parts that are asked for and whose folders are given."""
    folders = {"data": o.data, "gap": o.gap}
    found = []
    for line in (HERE / "parts.txt").read_text().splitlines():
        if line.startswith("#") or any(f"{{{k}}}" in line for k, v in folders.items() if not v):
            continue
        group, name, limit, command = line.split(maxsplit=3)
        command = command.format(five=FIVE, seven=SEVEN, results=o.results, **folders)
        part = Part(group, name, float(limit), command)
        if not o.only or part.title in o.only:
            found.append(part)
    return found


def start(command: list[str], cores: list[int], log: Path, **environment: str) -> subprocess.Popen:
    """Start a command on some cores, in a process group of its own."""
    with log.open("w") as out:
        return subprocess.Popen(
            ["taskset", "-c", ",".join(map(str, cores)), *command], cwd=HERE.parent,
            env=os.environ | {"OMP_NUM_THREADS": str(len(cores))} | environment,
            stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip


def finish(process: subprocess.Popen, seconds: float) -> str:
    """Wait for a process, end it when its time is up, and return its outcome."""
    try:
        status = process.wait(max(seconds, 0))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"ended after {seconds:.0f} s"
    return "done" if status == 0 else f"failed: {status}"


def run(parts: deque[Part], cores: list[int], gpu: str, end: float, o: argparse.Namespace) -> None:
    """Run the parts of a queue one after the other until a time of the clock."""
    while parts:
        part = parts.popleft()
        left = min(part.limit, end - time.monotonic())
        if left < 2:
            continue
        script, *options = shlex.split(part.command)
        command = [sys.executable, str(HERE / script), *options]
        begin = time.monotonic()
        given = {"BENCHMARK_ROWS": str(o.results / f"{part.title}.jsonl"),
                 "CUDA_VISIBLE_DEVICES": gpu}  # fmt: skip
        process = start(command, cores, o.results / f"{part.title}.txt", **given)
        part.outcome = finish(process, left)
        part.seconds = time.monotonic() - begin
        print(f"{part.title}: {part.outcome}, {part.seconds:.1f} s", flush=True)


def prepare(cores: list[int], gpu: bool, seconds: float, o: argparse.Namespace) -> None:
    """Make the inputs of graphs, and compile kernels, without a clock."""
    begin = time.monotonic()
    make = [sys.executable, str(HERE / "inputs.py")]
    todo = {name: [*make, name] for name in o.inputs}
    for device in ("cuda", "cpu")[not gpu :] if o.warm else ():
        more = RARE if device == "cuda" and o.warm is WARM else []
        warm = ["warm", *o.warm, *more, "--device", device]
        todo[f"warm-{device}"] = [sys.executable, "-m", "morph", *warm]
    running = {
        name: start(command, cores, o.results / f"prepare-{name}.txt")
        for name, command in todo.items()
    }
    for name, process in running.items():
        outcome = finish(process, seconds - (time.monotonic() - begin))
        print(f"prepare {name}: {outcome}, {time.monotonic() - begin:.1f} s", flush=True)


def lanes_of(cores: list[int], gpus: int, pairs: int) -> tuple[list[list[int]], list[list[int]]]:
    """Disjoint cores for the host threads of each GPU, and for each part of the group ``two``."""
    if len(cores) <= 2:
        return [cores] * gpus, [cores]
    width = max(1, min(GPU_CORES, (len(cores) - 2) // gpus))
    hosts = [cores[k * width : (k + 1) * width] for k in range(gpus)]
    others = cores[gpus * width :]
    return hosts, [others[k : k + 2] for k in range(0, len(others) - 1, 2)][:pairs]


def output_of(*command: str) -> str:
    """The first line that a command prints; empty without it."""
    try:
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip().partition("\n")[0]


def machine() -> str:
    """The processor and the GPU."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    gpu = output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    cores = len(os.sched_getaffinity(0))
    cpu = model[1] if model else platform.machine()
    return ", ".join(
        x for x in (f"{cores} cores of {cpu}", gpu, output_of("g++", "--version")) if x
    )


def line_of(row: dict[str, Any]) -> str | None:
    """A row of the summary: what was measured, Morph's first time, and each peer's ratio."""
    label, ours, peers = [], "", []
    for name, cell in row.items():
        factor = FACTOR.search(cell) if isinstance(cell, str) else None
        if cell == "":
            continue
        if factor:
            peers.append(f"{name.removesuffix(' ms')} {factor[1]}")
        elif name in ("ratio", "speedup", "time / Morph's"):
            peers.append(f"{name} {cell:.3g}")
        elif TIMES.match(name):
            ours = ours or f"{cell if isinstance(cell, str) else f'{cell:.4g}'} {name}"
        elif not ours and isinstance(cell, str | int):
            label.append(str(cell))
    return f"| {' '.join(label)} | {ours} | {', '.join(peers)} |" if peers or ours else None


def summary(parts: list[Part], o: argparse.Namespace) -> str:
    """The page: machine and commit, outcomes, rows with peers."""
    commit = o.commit or output_of("git", "rev-parse", "--short=8", "HEAD") or "unknown commit"
    text = [f"# All benchmarks: {commit}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC", "",
            machine(), "", "Ratios are a peer's time over Morph's."]  # fmt: skip
    for part in parts:
        text += [
            "",
            f"## {part.title}: {part.outcome}, {part.seconds:.0f} s",
            f"`{part.command}`",
            "",
        ]
        path = o.results / f"{part.title}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        lines = [line for line in map(line_of, rows) if line]
        text += ["", "| | Morph | peers |", "|---|---|---|", *lines] if lines else []
    return "\n".join(text) + "\n"


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, run the groups, and write the summary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path, help="folder of the results")
    parser.add_argument("--data", type=Path, help="folder of road graphs and queries")
    parser.add_argument("--gap", type=Path, help="folder of the programs of the GAP suite")
    parser.add_argument("--limit", type=float, default=3600, help="seconds in all")
    parser.add_argument("--prepare", type=float, default=0.25, help="share of it for preparations")
    parser.add_argument("--alone", type=float, default=0.32, help="share of it for the last group")
    parser.add_argument("--gpus", type=int, default=1, help="over which the group gpu is spread")
    parser.add_argument("--pairs", type=int, default=1, help="of cores for the group two")
    parser.add_argument("--only", nargs="+", metavar="PART", help="parts, such as gpu-graphs")
    parser.add_argument("--inputs", nargs="*", default=INPUTS, help="graphs made first")
    parser.add_argument("--warm", nargs="*", default=WARM, help="algorithms compiled first")
    parser.add_argument("--commit", help="of a tree that is not a repository")
    o = parser.parse_args(arguments)
    o.results = o.results.resolve()
    o.results.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    cores = sorted(os.sched_getaffinity(0))
    gpu = bool(output_of("nvidia-smi", "-L"))
    several = len(cores) > 2
    skipped = {"gpu": not gpu, "two": False, "all": not several}
    parts = [p for p in parts_of(o) if not skipped[p.group]]
    prepare(cores, gpu, o.limit * o.prepare, o)
    group = {name: deque(p for p in parts if p.group == name) for name in skipped}
    beside = begin + o.limit * (1 - (o.alone if group["all"] else 0))
    hosts, pairs = lanes_of(cores, o.gpus, o.pairs)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(o.gpus)))
    numbers = visible.split(",")[: o.gpus]
    lanes = [(group["gpu"], *lane, beside, o) for lane in zip(hosts, numbers, strict=True)]
    lanes += [(group["two"], pair, "", beside, o) for pair in pairs]
    threads = [threading.Thread(target=run, args=lane) for lane in lanes]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    run(group["all"], cores, "", begin + o.limit, o)
    page = summary(parts, o)
    (o.results / "summary.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
