"""Subgraphs and updates of small graphs beside igraph, NetworkX and NetworKit: processor time.

    python benchmarks/small.py rmat8 rmat10 grid30 grid100

Inputs are named as `inputs` says.  On one thread, least processor milliseconds of --repeat calls,
Morph and peers in turn; a cell of a peer is ``ms (how many times as long as Morph)``.  Measured are
the densest subgraph, exact and approximate, a maximum clique, a largest 2-plex, and core numbers
and PageRank after a batch of --changes random insertions: of Morph `DynamicCores.apply` and
`DynamicPageRank.apply`, change of the graph included; peers compute them again on the graph as it
was.  Sizes and densities are compared; of approximations only that they are no better.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import table
from inputs import Input, load

import morph

Run = Callable[[], Any]
EXACT, APPROXIMATE = "densest_subgraph", "densest_subgraph, approximate"
CLIQUE, PLEX, CORES, RANKS = "max_clique", "max_k_plex(k=2)", "DynamicCores", "DynamicPageRank"
LARGEST = 1 << 12  # vertices of inputs of `max_k_plex` and NetworkX's cliques
SLOW = 2.0  # seconds of a first run after which a peer's time is that run's


def morph_runs(given: Input, changes: int) -> dict[str, Run]:
    """What is timed, by algorithm."""
    g, rng = given.graph("cpu"), np.random.default_rng(1)
    cores, ranks = (
        kind(given.graph("cpu")) for kind in (morph.DynamicCores, morph.DynamicPageRank)
    )

    def batch() -> tuple[Any, ...]:
        ends = rng.integers(0, given.n, (2, changes))
        return (*ends, np.ones(changes, given.weight.dtype))

    runs = {
        EXACT: lambda: float(morph.densest_subgraph(g).density),
        APPROXIMATE: lambda: float(morph.densest_subgraph(g, exact=False).density),
        CLIQUE: lambda: len(morph.max_clique(g).points),
        CORES: lambda: cores.apply(inserts=batch()) and None,
        RANKS: lambda: ranks.apply(inserts=batch()) and None,
    }
    if given.n <= LARGEST:
        runs[PLEX] = lambda: len(morph.max_k_plex(g, 2).points)
    return runs


def peer_runs(given: Input) -> dict[str, dict[str, Run]]:
    """The same of the peers that are installed."""
    src, dst, _ = given.once
    pairs = np.stack([src, dst], 1)
    found: dict[str, dict[str, Run]] = {}
    if importlib.util.find_spec("igraph"):
        import igraph

        i = igraph.Graph(given.n, pairs)
        found["igraph"] = {
            CLIQUE: i.clique_number, CORES: lambda: i.coreness() and None,
            RANKS: lambda: i.pagerank() and None,
        }  # fmt: skip
    if importlib.util.find_spec("networkx"):
        import networkx as nx

        x = nx.Graph(pairs.tolist())
        x.add_nodes_from(range(given.n))
        densest = nx.approximation.densest_subgraph
        found["NetworkX"] = {
            APPROXIMATE: lambda: densest(x, iterations=1)[0],
            CORES: lambda: nx.core_number(x) and None, RANKS: lambda: nx.pagerank(x) and None,
        }  # fmt: skip
        if given.n <= LARGEST:
            found["NetworkX"][CLIQUE] = lambda: nx.max_weight_clique(x, weight=None)[1]
    if importlib.util.find_spec("networkit"):
        import networkit as nk

        nk.setNumberOfThreads(1)
        ends = src.astype(np.uint64), dst.astype(np.uint64)
        k = nk.GraphFromCoo(ends, n=given.n)
        k.removeSelfLoops()
        found["NetworKit"] = {
            CLIQUE: lambda: len(nk.clique.MaximalCliques(k, True).run().getCliques()[0]),
            CORES: lambda: nk.centrality.CoreDecomposition(k).run() and None,
            RANKS: lambda: nk.centrality.PageRank(k, tol=1e-6).run() and None,
        }
    return found


def least(runs: dict[str, Run], repeat: int) -> tuple[dict[str, float], dict[str, Any]]:
    """The least processor seconds of each, in turn after one run each, and the results."""
    spent, results, slow = dict.fromkeys(runs, math.inf), {}, set[str]()
    for turn in range(repeat + 1):
        for name, run in runs.items():
            if name in slow:
                continue
            start = time.process_time()
            results[name] = run()
            took = time.process_time() - start
            if turn or took > SLOW:
                spent[name] = min(spent[name], took)
            if took > SLOW and name != "Morph":
                slow.add(name)
    return spent, results


def measure(given: Input, repeat: int, changes: int) -> list[dict[str, Any]]:
    """A row for each algorithm."""
    peers, rows = peer_runs(given), []
    for what, run in morph_runs(given, changes).items():
        runs = {"Morph": run} | {name: of[what] for name, of in peers.items() if what in of}
        spent, results = least(runs, repeat)
        mine = results.pop("Morph")
        for name, theirs in results.items():
            if theirs is None:
                continue
            if not (theirs <= mine * 2.001 if what == APPROXIMATE else theirs == mine):
                raise SystemExit(f"WRONG: {what} of {given.name}: {mine}, {name} {theirs}")
        row = {"graph": given.name, "edges": given.arcs // 2, "algorithm": what}
        row |= {"result": "" if mine is None else mine, "Morph, ms": spent["Morph"] * 1e3}
        for name in ("igraph", "NetworkX", "NetworKit"):
            of = spent.get(name)
            row[name] = "" if of is None else f"{of * 1e3:.4g} ({of / spent['Morph']:.2g} x)"
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("inputs", nargs="*", default=["rmat8", "rmat10", "grid30", "grid100"])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--changes", type=int, default=10)
    options = parser.parse_args()
    morph.set_num_threads(1)
    rows = []
    for name in options.inputs:
        rows += measure(load(name), options.repeat, options.changes)
    table(rows)


if __name__ == "__main__":
    main()
