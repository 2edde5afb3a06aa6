"""Communities of bounded size: queries a second, and single hard queries beside exact peers.

    python benchmarks/community.py GRAPH --queries 500 --size 3 8 --device all
    python benchmarks/community.py GRAPH --queries 5000 --most 12
    python benchmarks/community.py --given medium_given.json --peer SCS --limit 60

GRAPH is a file that `morph.io.read_graph` takes.  Queries are random vertices; with --most their
sizes are random, too: a largest from 4 to --most, a least from 2 to it.  --given is a file of
graphs and queries, beside which `gen.py` lies, which makes the graphs; the minimum degrees of the
results must be those of the file; each call has a new graph, so it includes core numbers.  Times
are medians of --repeat calls after one that is not measured.

Peers get the queries of --given, and --limit seconds each: CP-SAT, if OR-tools are installed, and
SC-BRB (Yao, Chang, PVLDB 2021; github.com/log-Mike/SCS-BB), if --peer names its program or SCS is
on the path; the time is what it prints, without reading the graph.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import devices, median, table

import morph

# heuristics, bounds, reductions, branching by domination, its threshold
OPTIONS = [1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 2]
PLAIN = [*OPTIONS[:-2], 0, 0]


class Query(NamedTuple):
    """A query of a file, and the minimum degree of its best subgraphs."""

    name: str
    n: int
    edges: Any
    vertex: int
    size: tuple[int, int]
    degree: int

    def graph(self, device: str) -> morph.Graph:
        ends = self.edges[:, 0], self.edges[:, 1]
        return morph.Graph.from_edges(*ends, n=self.n, symmetrize=True, device=device)


def given(path: Path) -> Iterator[Query]:
    """The queries of a file."""
    sys.path.insert(0, str(path.parent))
    make = importlib.import_module("gen").make
    for entry in json.loads(path.read_text()):
        n, edges = make(entry["graph"])
        name = f"{entry['graph']['kind']} {n}"
        for q, least, most, degree, _ in entry["queries"]:
            yield Query(name, n, np.array(edges).reshape(-1, 2), q, (least, most), degree)


def cp_sat(query: Query, limit: float, threads: int) -> tuple[float | None, int | None]:
    """Solve by CP-SAT: connectivity by cuts, added while a solution is not connected."""
    import networkx as nx
    from ortools.sat.python import cp_model

    g = nx.Graph(query.edges.tolist())
    g = g.subgraph(nx.node_connected_component(g, query.vertex))
    model, start = cp_model.CpModel(), time.perf_counter()
    x = {v: model.new_bool_var(str(v)) for v in g}
    k = model.new_int_var(0, query.size[1] - 1, "k")
    model.add(x[query.vertex] == 1)
    model.add_linear_constraint(sum(x.values()), *query.size)
    for v in g:
        model.add(sum(x[u] for u in g[v]) >= k).only_enforce_if(x[v])
    model.maximize(k)
    while (left := limit - (time.perf_counter() - start)) > 0:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers, solver.parameters.max_time_in_seconds = threads, left
        if solver.solve(model) != cp_model.OPTIMAL:
            break
        part = g.subgraph([v for v in g if solver.value(x[v])])
        reached = nx.node_connected_component(part, query.vertex)
        if len(reached) == len(part):
            return time.perf_counter() - start, round(solver.objective_value)
        for other in nx.connected_components(part):
            if query.vertex not in other:  # then not all of it, or a vertex beside it
                border = {u for v in other for u in g[v]} - other
                model.add_bool_or([*(x[u] for u in border), *(x[u].negated() for u in other)])
    return None, None


def sc_brb(program: str, query: Query, limit: float) -> tuple[float | None, int | None]:
    """Run SC-BRB with and without branching by domination; the faster counts."""
    found: list[tuple[float, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.txt"
        lines = [f"{query.n} {len(query.edges)}", *(f"{u} {v}" for u, v in query.edges.tolist())]
        path.write_text("\n".join(lines) + "\n")
        for options in (OPTIONS, PLAIN):
            words = [*query.size, query.vertex, *options, int(limit), 1]
            done = subprocess.run(
                [program, str(path), *map(str, words)], capture_output=True, text=True, check=False
            )
            values = dict(line.split(" = ") for line in done.stdout.splitlines()
                          if line.count(" = ") == 1)  # fmt: skip
            if "time" in values and "mindeg" in values:
                spent = int(values["time"].replace(",", "").strip())
                found.append((spent / 1e6, int(values["mindeg"])))
    return min(found, default=(None, None))


def compare(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure single queries, a row for each."""
    rows = []
    for query in given(args.given):
        row: dict[str, Any] = {"graph": query.name, "q": query.vertex, "size": query.size}
        for device in devices(args.device):
            found, spent = None, []
            for _ in range(args.repeat + 1):
                g = query.graph(device)
                start = time.perf_counter()
                found = morph.community(g, query.vertex, query.size)
                spent.append(time.perf_counter() - start)
            morph.validate.community(g, found, query.vertex, query.size)
            if not found.proved or found.min_degree != query.degree:
                raise SystemExit(f"WRONG: {found}, expected {query.degree}")
            row |= {"degree": found.min_degree, "nodes": found.nodes}
            row[device] = statistics.median(spent[1:])
        if importlib.util.find_spec("ortools") and args.limit:
            threads = morph.get_num_threads()
            row["CP-SAT"], degree = cp_sat(query, args.limit, threads)
            if degree not in (None, query.degree):
                raise SystemExit(f"WRONG: CP-SAT finds {degree}, expected {query.degree}")
        if args.peer and args.limit:
            row["SC-BRB"], degree = sc_brb(args.peer, query, args.limit)
            if degree not in (None, query.degree):
                raise SystemExit(f"WRONG: SC-BRB finds {degree}, expected {query.degree}")
        rows.append({k: "-" if v is None else v for k, v in row.items()})
        print(rows[-1], flush=True)
    return rows


def together(rows: list[dict[str, Any]], device: str) -> dict[str, Any]:
    """Seconds of all queries, and those of each peer, of the queries that it solved."""
    ours = sum(x[device] for x in rows)
    found: dict[str, Any] = {"queries": len(rows), "device": device, "s": ours}
    for name in ("CP-SAT", "SC-BRB"):
        spent = [x[name] for x in rows if isinstance(x.get(name), float)]
        if spent:
            found[name] = f"{len(spent)} in {sum(spent):.4g} s ({sum(spent) / ours:.3g} x)"
    return found


def throughput(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure many queries of one graph in one call."""
    rng, rows = np.random.default_rng(args.seed), []
    for device in devices(args.device):
        g = morph.io.read_graph(args.graph, device=device)
        q = rng.integers(0, len(g.points), args.queries)
        size: Any = tuple(args.size)
        if args.most:
            most = rng.integers(4, args.most + 1, args.queries)
            least = (2 + rng.random(args.queries) * (most - 1)).astype(int)
            size = np.stack([least, most], axis=1)
        spent, found = median(lambda g=g, q=q, s=size: morph.community(g, q, s), args.repeat)
        sizes = np.broadcast_to(size, (args.queries, 2)).tolist()
        for vertex, one, pair in list(zip(q.tolist(), found, sizes, strict=True))[:20]:
            morph.validate.community(g, one, vertex, pair)
        rows.append({
            "device": device, "queries": args.queries, "s": spent, "a second": args.queries / spent,
            "proved": sum(x is None or x.proved for x in found),
            "nodes": sum(x.nodes for x in found if x),
        })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("graph", nargs="?")
    parser.add_argument("--given", type=Path)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--size", type=int, nargs=2, default=[3, 8])
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peer", default=shutil.which("SCS"), help="SC-BRB; SCS if on the path")
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    rows = compare(args) if args.given else throughput(args)
    table(rows)
    if args.given:
        table([together(rows, device) for device in devices(args.device)])


if __name__ == "__main__":
    main()
