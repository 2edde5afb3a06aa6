"""Falcon's table XV: searches on a partitioned graph beside one device, with equal results.

The paper's inputs are rand64 (64 M points, 4 edges each) and rmat50, rmat60 (10 edges each) of
GTgraph, on two GPUs (Tesla C2075 and C2050) linked by PCIe; its seconds include the partitioning.
The times here do not include copies of results to the host.
rand26 and rmat26 have 67 M points, so they stand beside rand64 and rmat60; other sizes have no
figure of the paper.  Connected components are not in the paper.

``--together cuda:0,cuda:1,cuda:2`` runs an algorithm on each device at the same time, by sections,
beside one after the other: figure 21.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from common import median, table
from partitions import host

import morph
from morph import generate

DEGREES = {"rand": 4, "rmat": 10}
ALGORITHMS = {
    "bfs": lambda g: morph.bfs(g, 0).distance,
    "sssp": lambda g: morph.sssp(g, 0).distance,
    "components": lambda g: morph.connected_components(g).label,
}
# seconds on two GPUs: Falcon, Totem
PAPER = {
    ("rand26", "sssp"): (10.31, 11.28),
    ("rmat26", "sssp"): (16.20, 20.74),
    ("rand26", "bfs"): (2.81, 2.53),
    ("rmat26", "bfs"): (3.40, 2.58),
}


def made(name: str, device: str) -> Any:
    """Make an input by its name, such as ``rmat24``: the kind, and the scale."""
    kind, scale = name[:4], int(name[4:])
    options: Any = {"weight": (1, 100), "directed": True, "device": device}
    if kind == "rmat":
        return generate.rmat(scale, DEGREES[kind], *generate.GTGRAPH, **options)
    return generate.uniform(1 << scale, DEGREES[kind] << scale, **options)


def rows(name: str, g: Any, places: list[str], only: list[str], repeat: int) -> Any:
    """Time algorithms on one device, and on parts of it in some places."""
    one = {a: median(lambda a=a: ALGORITHMS[a](g), repeat) for a in only}
    for place in places:
        devices = place.split(",")
        several = len({d.partition(":")[0] for d in devices}) > 1
        start = time.perf_counter()
        parts = morph.partition(g, devices, "degree", "measured" if several else None)
        divided = time.perf_counter() - start
        sizes = parts.statistics()
        for a in only:
            seconds, wanted = one[a]
            taken, found = median(lambda a=a: ALGORITHMS[a](parts), repeat)
            falcon, totem = PAPER.get((name, a), ("", "")) if len(devices) == 2 else ("", "")
            yield {
                "input": name, "algorithm": a, "devices": place,
                "shares": " ".join(f"{s.share:.2f}" for s in sizes),
                "cut %": 100 * sum(s.cut for s in sizes) / max(len(g.edges), 1),
                "one ms": seconds * 1e3, "parts ms": taken * 1e3, "speedup": seconds / taken,
                "with partitioning s": divided + taken, "Falcon s": falcon, "Totem s": totem,
                "equal": "yes" if (host(found) == host(wanted)).all() else "NO",
            }  # fmt: skip


def at_once(name: str, devices: list[str], only: list[str], repeat: int) -> dict[str, Any]:
    """Time a different algorithm on each device, one after the other and at the same time."""
    cases = [(ALGORITHMS[only[k % len(only)]], made(name, d)) for k, d in enumerate(devices)]

    def together() -> list[Any]:
        with morph.sections() as s:
            sections = [s.run(run, g) for run, g in cases]
        return [host(x.result()) for x in sections]

    apart, wanted = median(lambda: [host(run(g)) for run, g in cases], repeat)
    at_once, found = median(together, repeat)
    equal = all((a == b).all() for a, b in zip(found, wanted, strict=True))
    return {
        "input": name, "devices": " ".join(devices), "apart ms": apart * 1e3,
        "together ms": at_once * 1e3, "speedup": apart / at_once, "equal": "yes" if equal else "NO",
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, and print a row for each input, algorithm and list of devices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inputs", nargs="*", default=["rand22", "rmat22"], help="rand26, rmat24")
    parser.add_argument("--places", nargs="+", default=["cpu,cpu"], help="cuda:0,cuda:1 cuda,cpu")
    parser.add_argument("--only", nargs="+", default=list(ALGORITHMS), choices=ALGORITHMS)
    parser.add_argument("--together", help="devices, each of which runs an algorithm")
    parser.add_argument("--repeat", type=int, default=3)
    o = parser.parse_args(arguments)
    if o.together:
        table([at_once(name, o.together.split(","), o.only, o.repeat) for name in o.inputs])
        return
    found: list[dict[str, Any]] = []
    for name in o.inputs:
        g = made(name, o.places[0].split(",")[0])
        found += rows(name, g, o.places, o.only, o.repeat)
        del g
    table(found)


if __name__ == "__main__":
    main()
