"""Compare searches with the enumeration of all vertex sets, on many small random graphs.

    python tests/support/brute_force.py --graphs 3000 --device cpu

Each graph has up to 14 vertices and is searched for communities (minimum degree, all sets), a
largest clique, largest k-plexes and the densest subgraph; with --together, for communities alone,
all graphs are the components of one.  Too slow for the tests of every change.
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

import morph

MOST = 14  # vertices
EVERY = 8  # graphs of `run_together`: all subgraphs of one query of these


class Sets(NamedTuple):
    """All vertex sets of a graph as bit masks, with what they induce."""

    masks: Any
    size: Any
    least: Any  # minimum degree
    edges: Any
    connected: Any


def enumerate_sets(near: Any) -> Sets:
    """Describe all sets but the empty one of a graph with the adjacency matrix ``near``."""
    n = len(near)
    rows = (near * (1 << np.arange(n))).sum(1)
    masks = np.arange(1, 1 << n)
    inside = masks[:, None] >> np.arange(n) & 1 > 0
    degree = np.bitwise_count(masks[:, None] & rows).astype(np.int64)
    reached = masks & -masks
    for _ in range(n):
        more = np.bitwise_or.reduce(np.where(reached[:, None] >> np.arange(n) & 1, rows, 0), axis=1)
        reached = reached | more & masks
    least = np.where(inside, degree, n).min(1)
    return Sets(masks, inside.sum(1), least, (degree * inside).sum(1) // 2, reached == masks)


def random_graph(rng: np.random.Generator) -> Any:
    """Draw the adjacency matrix of a graph: of random edges, cliques or a path."""
    n = int(rng.integers(1, MOST + 1))
    near = rng.random((n, n)) < rng.choice([0.05, 0.15, 0.3, 0.5, 0.8, 1.0])
    for _ in range(int(rng.integers(0, 3))):
        members = rng.choice(n, int(rng.integers(1, n + 1)), replace=False)
        near[np.ix_(members, members)] = True
    if rng.random() < 0.2:
        near = near & (abs(np.subtract.outer(np.arange(n), np.arange(n))) < 4)
    near = np.triu(near, 1)
    return near | near.T


def draw_queries(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Draw four vertices, and least and largest sizes, some of which are above ``n``."""
    q = rng.integers(0, n, 4)
    least = rng.integers(1, n + 2, 4)
    return q, np.stack([least, least + rng.integers(0, n + 2, 4)], axis=1)


def compare(sets: Sets, query: tuple[int, int, int], found: Any) -> None:
    """Compare a result, and if it has them all subgraphs, with the enumeration of all sets."""
    vertex, low, high = query
    fits = sets.connected & (sets.size >= low) & (sets.size <= high) & (
        sets.masks >> vertex & 1 > 0
    )  # fmt: skip
    best = int(sets.least[fits].max(initial=-1))
    assert (found is None) == (best < 0), query
    if found is not None:
        assert found.proved and found.min_degree == best, (query, best, found)
        wanted = sets.masks[fits & (sets.least == best)]
        assert int((1 << found.vertices).sum()) in wanted, (query, found)
        if found.all is not None:
            got = sorted(int((1 << x).sum()) for x in found.all)
            assert got == wanted.tolist(), (query, best)


def check_communities(g: morph.Graph, sets: Sets, rng: np.random.Generator) -> int:
    """Compare the communities of random queries, and all of them; return how many queries."""
    q, pairs = draw_queries(rng, len(g.points))
    results = morph.community(g, q, pairs, all=True)
    for vertex, (low, high), found in zip(q.tolist(), pairs.tolist(), results, strict=True):
        assert found is None or found.all is not None
        compare(sets, (vertex, low, high), found)
    return len(q)


def check_others(g: morph.Graph, sets: Sets) -> None:
    """Compare a largest clique, the largest k-plexes, and the densest subgraph."""
    size = int(sets.size[sets.least == sets.size - 1].max())
    assert len(morph.max_clique(g).points) == size
    for k in (1, 2, 3):
        size = int(sets.size[sets.least >= sets.size - k].max())
        assert len(morph.max_k_plex(g, k).points) == size, k
    wanted = max(Fraction(int(e), int(s)) for e, s in zip(sets.edges, sets.size, strict=True))
    assert Fraction(morph.densest_subgraph(g).density) == wanted
    assert 2 * morph.densest_subgraph(g, exact=False).density >= wanted


def run(graphs: int, device: str, seed: int, seconds: float = float("inf")) -> tuple[int, int]:
    """Compare on random graphs until the time is up; return the numbers of graphs and queries."""
    rng, begin = np.random.default_rng(seed), time.perf_counter()
    done = queries = 0
    while done < graphs and time.perf_counter() - begin < seconds:
        near = random_graph(rng)
        src, dst = np.nonzero(np.triu(near))
        g = morph.Graph.from_edges(src, dst, n=len(near), symmetrize=True, device=device)
        sets = enumerate_sets(near)
        queries += check_communities(g, sets, rng)
        check_others(g, sets)
        done += 1
    return done, queries


def run_together(graphs: int, device: str, seed: int) -> tuple[int, int]:
    """Compare the communities of random graphs, which are the components of one.

    All queries are one array; all subgraphs are found for one query of each `EVERY` graphs.
    """
    rng = np.random.default_rng(seed)
    parts = [random_graph(rng) for _ in range(graphs)]
    first = np.cumsum([0, *map(len, parts)])
    ends = [np.stack(np.nonzero(np.triu(x))) + at for x, at in zip(parts, first, strict=False)]
    src, dst = np.concatenate(ends, axis=1)
    g = morph.Graph.from_edges(src, dst, n=int(first[-1]), symmetrize=True, device=device)
    q, pairs = zip(*(draw_queries(rng, len(x)) for x in parts), strict=True)
    vertex = np.concatenate([x + at for x, at in zip(q, first, strict=False)])
    results = morph.community(g, vertex, np.concatenate(pairs))
    some = np.arange(0, graphs, EVERY)
    each = morph.community(g, vertex[4 * some], np.concatenate(pairs)[4 * some], all=True)
    for i, near in enumerate(parts):
        found = results[4 * i : 4 * i + 4]
        sets, of = enumerate_sets(near), [*range(4)]
        if i % EVERY == 0:
            found, of = [*found, each[i // EVERY]], [*of, 0]
        for j, x in zip(of, found, strict=True):
            if x is not None:
                inside = [s - first[i] for s in x.all] if x.all is not None else None
                x = x._replace(vertices=x.vertices - first[i], all=inside)
            compare(sets, (int(q[i][j]), *pairs[i][j].tolist()), x)
    return graphs, len(vertex) + len(some)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--together", action="store_true",
                        help="communities of all graphs in one call, for a GPU")  # fmt: skip
    given = parser.parse_args()
    begin = time.perf_counter()
    if given.together:
        done, queries = run_together(given.graphs, given.device, given.seed)
    else:
        done, queries = run(given.graphs, given.device, given.seed, given.seconds)
    spent = time.perf_counter() - begin
    print(f"{given.device}: {done:,} graphs, {queries:,} queries, no fault, {spent:.1f} s")


if __name__ == "__main__":
    main()
