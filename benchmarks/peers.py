"""The packages that are measured beside Morph, all behind one small interface.

A peer is made from an `Input`, which is not timed; ``tasks`` maps an algorithm's name to its
variants, the fastest of which counts.  A variant has the timed function of the source, and a
function that converts its result for comparison.  Every peer computes as little as its interface
allows: distances alone, where predecessors are not the subject.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from inputs import Input

import morph
from morph.algorithms.registration import Algorithm
from morph.runtime.threads import get_num_threads as threads

ITERATIONS, SAMPLED = 20, 4  # as in the registry: of PageRank; sources of betweenness and Johnson
PAGERANK = f"pagerank, {ITERATIONS} iterations"
SINGLE = f"{PAGERANK}, float32"
BETWEENNESS = f"betweenness, {SAMPLED} sources"
WEIGHTED = f"{BETWEENNESS}, weighted"
EDGES = f"edge_betweenness, {SAMPLED} sources"
JOHNSON = f"johnson, {SAMPLED} sources"
PREDECESSORS = "sssp, predecessors"
HEAVY = "matching, weighted"
APPROXIMATE = "densest_subgraph, approximate"


class Way(NamedTuple):
    """``run(source)`` is timed; ``answer(result)`` is None if there is nothing to compare."""

    run: Callable[[int], Any]
    answer: Callable[[Any], Any]


Tasks = dict[str, list[Way]]


def distances(found: Any) -> np.ndarray:
    """As doubles, infinite where there is no path: those of a type's largest number, or below 0."""
    found = np.asarray(found)
    kind = np.finfo if found.dtype.kind == "f" else np.iinfo
    none = (found < 0) | (found == kind(found.dtype).max)
    return np.where(none, np.inf, found.astype(np.float64))


def smallest(label: Any) -> np.ndarray:
    """Labels of components, as the smallest of their points."""
    _, first, which = np.unique(np.asarray(label), return_index=True, return_inverse=True)
    return first[which]


def shares(value: Any) -> np.ndarray:
    """Values divided by their sum."""
    value = np.asarray(value, np.float64)
    return value / max(value.sum(), np.finfo(float).tiny)


def triangles(graph: Input, clustering: Any) -> int:
    """How many there are, from the share of each point's pairs of neighbours that are joined."""
    pairs = graph.degree * (graph.degree - 1) / 2
    return round(float((np.nan_to_num(np.asarray(clustering, float)) * pairs).sum()) / 3)


def between(graph: Input) -> np.ndarray:
    """Sources of betweenness."""
    return np.array(graph.sources(SAMPLED))


def passed(graph: Input, centrality: Any) -> np.ndarray:
    """Betweenness up to a factor, without the sources, which packages scale differently."""
    found = np.array(centrality, np.float64)
    found[between(graph)] = 0
    return shares(found)


def leads_forwards(graph: Input, order: Any) -> bool:
    """Whether all edges to points of higher ids lead forwards in an order of the points."""
    place = np.argsort(np.asarray(order))
    up = graph.src < graph.dst
    return bool((place[graph.src[up]] < place[graph.dst[up]]).all())


def scipy(graph: Input) -> Tasks:
    from scipy.sparse import csgraph, csr_array

    n, arrays = graph.n, (graph.dst, graph.offsets)
    # doubles and 32-bit offsets are what its functions would make of others
    small = graph.offsets.astype(np.int32) if graph.arcs < 2**31 else graph.offsets
    m = csr_array((graph.weight.astype(np.float64), graph.dst, small), shape=(n, n))
    given = np.divide(1.0, graph.degree, out=np.zeros(n), where=graph.degree > 0)
    ones = csr_array((np.ones(graph.arcs), *arrays), shape=(n, n))
    rank = np.argsort(np.argsort(graph.degree, kind="stable"))

    def levels(found: Any) -> np.ndarray:
        order, before = found
        dist, place = np.full(n, np.inf), np.empty(n, np.int64)
        place[order] = np.arange(len(order))
        parents = place[before[order[1:]]]  # in the order of the search, too
        first, last, level = 0, 1, 0
        while first < last:
            dist[order[first:last]] = level
            first, last, level = last, 1 + int(np.searchsorted(parents, last)), level + 1
        return dist

    def pagerank(_: int) -> np.ndarray:
        x = np.full(n, 1 / n)
        for _ in range(ITERATIONS):
            loose = x[given == 0].sum()
            x = 0.85 * (ones @ (x * given)) + (0.15 + 0.85 * loose) / n
        return x

    def closed(_: int) -> float:  # products of the matrix whose edges are turned by degree
        later = rank[graph.src] < rank[graph.dst]
        ends = graph.src[later], graph.dst[later]
        turned = csr_array((np.ones(len(ends[0]), np.int64), ends), shape=(n, n))
        return (turned @ turned).multiply(turned).sum()

    return {
        "bfs": [Way(lambda s: csgraph.breadth_first_order(m, s), levels)],
        "sssp": [Way(lambda s: csgraph.dijkstra(m, indices=s), distances)],
        PREDECESSORS: [
            Way(
                lambda s: csgraph.dijkstra(m, indices=s, return_predecessors=True),
                lambda found: distances(found[0]),
            )
        ],
        JOHNSON: [Way(lambda _: csgraph.johnson(m, indices=between(graph)), distances)],
        "connected_components": [
            Way(
                lambda _: csgraph.connected_components(m, directed=False),
                lambda found: smallest(found[1]),
            )
        ],
        "strongly_connected_components": [
            Way(
                lambda _: csgraph.connected_components(m, connection="strong"),
                lambda found: smallest(found[1]),
            )
        ],
        "mst": [Way(lambda _: csgraph.minimum_spanning_tree(m), lambda tree: float(tree.sum()))],
        "triangle_count": [Way(closed, int)],
        PAGERANK: [Way(pagerank, shares)],
    }


def igraph(graph: Input) -> Tasks:
    import igraph as package

    src, dst, weight = graph.once
    g = package.Graph(n=graph.n, edges=np.stack([src, dst], 1))
    g.es["weight"] = weight.tolist()
    upwards = package.Graph(n=graph.n, edges=np.stack([src, dst], 1), directed=True)
    sources = between(graph).tolist()
    return {
        "bfs": [Way(lambda s: g.distances(s), lambda found: distances(found[0]))],
        "sssp": [Way(lambda s: g.distances(s, weights="weight"), lambda d: distances(d[0]))],
        "connected_components": [
            Way(lambda _: g.connected_components().membership, smallest)
        ],
        "mst": [
            Way(
                lambda _: g.spanning_tree(weights="weight", return_tree=False),
                lambda edges: float(weight[edges].sum(dtype=np.float64)),
            )
        ],
        "topological_order": [
            Way(lambda _: upwards.topological_sorting(), lambda o: leads_forwards(graph, o))
        ],
        "core_number": [Way(lambda _: g.coreness(), np.asarray)],
        "max_clique": [Way(lambda _: g.clique_number(), float)],
        "colouring": [Way(lambda _: g.vertex_coloring_greedy(), lambda _: None)],  # another one
        "label_propagation": [  # other communities
            Way(lambda _: g.community_label_propagation(weights="weight"), lambda _: None)
        ],
        "louvain": [  # other communities
            Way(lambda _: g.community_multilevel(weights="weight"), lambda _: None)
        ],
        "leiden": [  # other communities
            Way(lambda _: g.community_leiden("modularity", weights="weight"), lambda _: None)
        ],
        "bellman_ford": [
            Way(
                lambda s: g.distances(s, weights="weight", algorithm="bellman_ford"),
                lambda d: distances(d[0]),
            )
        ],
        "triangle_count": [
            Way(lambda _: g.transitivity_local_undirected(), lambda c: triangles(graph, c))
        ],
        BETWEENNESS: [
            Way(
                lambda _: g.betweenness(directed=False, sources=sources),
                lambda found: passed(graph, found),
            )
        ],
        WEIGHTED: [  # distances of doubles: paths of equal length differ
            Way(
                lambda _: g.betweenness(directed=False, sources=sources, weights="weight"),
                lambda found: passed(graph, found),
            )
        ],
        EDGES: [  # of the edges in another order
            Way(lambda _: g.edge_betweenness(directed=False, sources=sources), lambda _: None)
        ],
    }  # fmt: skip


def networkit(graph: Input) -> Tasks:
    import networkit as package

    package.setNumberOfThreads(threads())
    src, dst, weight = graph.once
    ends = src.astype(np.uint64), dst.astype(np.uint64)
    plain = package.GraphFromCoo(ends, n=graph.n)
    weighted = package.GraphFromCoo((weight.astype(np.float64), ends), n=graph.n, weighted=True)
    distance, centrality = package.distance, package.centrality

    def away(found: Any) -> np.ndarray:
        return distances(np.asarray(found.getDistances(asarray=True)))

    def parts(found: Any) -> np.ndarray:
        return smallest(found.getPartition().getVector())

    def pagerank(_: int) -> Any:
        sinks = centrality.SinkHandling.DistributeSinks
        task = centrality.PageRank(plain, 0.85, 1e-300, distributeSinks=sinks)
        task.maxIterations = ITERATIONS
        return task.run()

    return {
        "bfs": [Way(lambda s: distance.BFS(plain, s, storePaths=False).run(), away)],
        "sssp": [Way(lambda s: distance.Dijkstra(weighted, s, storePaths=False).run(), away)],
        PREDECESSORS: [Way(lambda s: distance.Dijkstra(weighted, s).run(), away)],
        "connected_components": [
            Way(lambda _: package.components.ConnectedComponents(plain).run(), parts),
            Way(lambda _: package.components.ParallelConnectedComponents(plain).run(), parts),
        ],
        "mst": [
            Way(lambda _: package.graph.PrimMSF(weighted).run(), lambda t: t.getTotalWeight()),
            Way(lambda _: package.graph.KruskalMSF(weighted).run(), lambda t: t.getTotalWeight()),
        ],
        "core_number": [
            Way(
                lambda _: centrality.CoreDecomposition(
                    plain, enforceBucketQueueAlgorithm=alone
                ).run(),
                lambda found: np.array(found.scores(), np.int64),
            )
            for alone in (False, True)
        ],
        "triangle_count": [
            Way(
                lambda _: centrality.LocalClusteringCoefficient(plain, turbo=True).run(),
                lambda found: triangles(graph, found.scores()),
            )
        ],
        "label_propagation": [  # other communities
            Way(lambda _: package.community.PLP(weighted).run(), lambda _: None)
        ],
        "louvain": [  # other communities
            Way(lambda _: package.community.PLM(weighted).run(), lambda _: None)
        ],
        "leiden": [  # other communities
            Way(lambda _: package.community.ParallelLeiden(weighted).run(), lambda _: None)
        ],
        HEAVY: [  # another one if weights are equal; the default is for rows sorted by weight
            Way(lambda _: package.matching.SuitorMatcher(weighted, False).run(), lambda _: None),
            Way(lambda _: package.matching.PathGrowingMatcher(weighted).run(), lambda _: None),
        ],
        "maximal_independent_set": [  # another set
            Way(lambda _: package.independentset.Luby().run(plain), lambda _: None)
        ],
        "max_clique": [
            Way(
                lambda _: package.clique.MaximalCliques(plain, maximumOnly=True).run(),
                lambda found: float(len(found.getCliques()[0])),
            )
        ],
        PAGERANK: [Way(pagerank, lambda found: shares(found.scores()))],
        BETWEENNESS: [  # draws its sources itself
            Way(
                lambda _: centrality.EstimateBetweenness(plain, SAMPLED, parallel=True).run(),
                lambda _: None,
            )
        ],
    }


def trusses(package: Any, g: Any) -> list[Any]:
    """The edges of each k-truss from k = 3 on, each found in the one before."""
    found = []
    while g.size():
        g = package.k_truss(g, len(found) + 3)
        found.append(list(g.edges))
    return found


def networkx(graph: Input) -> Tasks:
    import networkx as package

    src, dst, weight = (part.tolist() for part in graph.once)
    g = package.Graph()
    g.add_nodes_from(range(graph.n))
    g.add_weighted_edges_from(zip(src, dst, weight, strict=True))

    def away(found: dict[int, Any]) -> np.ndarray:
        dist = np.full(graph.n, np.inf)
        dist[list(found)] = list(found.values())
        return dist

    def parts(found: list[set[int]]) -> np.ndarray:
        label = np.empty(graph.n, np.int64)
        for part in found:
            label[list(part)] = min(part)
        return label

    def numbers(found: list[Any]) -> np.ndarray:
        number = np.full(graph.arcs, 2)
        keys = graph.src * graph.n + graph.dst.astype(np.int64)
        for k, edges in enumerate(found, 3):
            if edges:
                u, v = np.array(edges, np.int64).T
                number[
                    np.searchsorted(keys, np.concatenate([u * graph.n + v, v * graph.n + u]))
                ] = k
        return number

    return {
        "bfs": [Way(lambda s: package.single_source_shortest_path_length(g, s), away)],
        "sssp": [Way(lambda s: package.single_source_dijkstra_path_length(g, s), away)],
        PREDECESSORS: [
            Way(
                lambda s: package.dijkstra_predecessor_and_distance(g, s),
                lambda found: away(found[1]),
            )
        ],
        "connected_components": [Way(lambda _: list(package.connected_components(g)), parts)],
        "mst": [
            Way(
                lambda _: list(package.minimum_spanning_edges(g)),
                lambda edges: float(sum(data["weight"] for _, _, data in edges)),
            )
        ],
        "core_number": [
            Way(
                lambda _: package.core_number(g), lambda c: np.array([c[v] for v in range(graph.n)])
            )
        ],
        "triangle_count": [
            Way(lambda _: package.triangles(g), lambda found: sum(found.values()) // 3)
        ],
        "truss_number": [Way(lambda _: trusses(package, g), numbers)],
        "colouring": [  # another one
            Way(lambda _: package.greedy_color(g, "largest_first"), lambda _: None)
        ],
        "max_clique": [Way(lambda _: max(map(len, package.find_cliques(g)), default=0), float)],
        "label_propagation": [  # other communities, without weights
            Way(lambda _: list(package.community.label_propagation_communities(g)), lambda _: None)
        ],
        "louvain": [  # other communities
            Way(lambda _: package.community.louvain_communities(g, seed=1), lambda _: None)
        ],
        "matching": [  # another one
            Way(lambda _: package.maximal_matching(g), lambda _: None)
        ],
        "maximal_independent_set": [  # another set, in quadratic time
            Way(lambda _: package.maximal_independent_set(g, seed=1), lambda _: None)
        ][: graph.n < 1 << 17],
        APPROXIMATE: [  # peels vertices one by one, once
            Way(
                lambda _: package.approximation.densest_subgraph(g, method="greedy++"),
                lambda _: None,
            )
        ],
        BETWEENNESS: [  # draws its sources itself
            Way(lambda _: package.betweenness_centrality(g, SAMPLED, seed=1), lambda _: None)
        ],
    }


def cugraph(graph: Input) -> Tasks:
    """RAPIDS' cuGraph through pylibcugraph, which is what it runs on, without data frames."""
    import cupy
    import pylibcugraph as package

    handle, n = package.ResourceHandle(), graph.n
    properties = package.GraphProperties(is_symmetric=True, is_multigraph=False)
    src, dst = cupy.asarray(graph.src), cupy.asarray(graph.dst)
    weight, points = cupy.asarray(graph.weight, cupy.float32), cupy.arange(n, dtype=cupy.int32)

    def made(weight: Any, transposed: bool) -> Any:
        return package.SGGraph(
            handle, properties, src, dst, weight_array=weight, vertices_array=points,
            store_transposed=transposed, renumber=True, do_expensive_check=False,
        )  # fmt: skip

    g, links = made(weight, False), made(None, True)  # PageRank would use the weights

    def ordered(points: Any, values: Any) -> np.ndarray:
        out = cupy.zeros(n, values.dtype)
        out[points] = values
        return out.get()

    def search(turning: bool) -> Callable[[int], Any]:
        def run(s: int) -> Any:
            start = cupy.asarray([s], cupy.int32)
            return package.bfs(handle, g, start, turning, -1, False, False)

        return run

    def paths(s: int) -> Any:  # predecessors cannot be left out
        return package.sssp(handle, g, s, float("inf"), True, False)

    def pagerank(_: int) -> Any:
        # a tolerance of 0 would mean its default
        return package.pagerank(
            handle, links, None, None, None, None, 0.85, 1e-30, ITERATIONS, False,
            fail_on_nonconvergence=False,
        )  # fmt: skip

    sources = cupy.asarray(between(graph), cupy.int32)
    return {
        "bfs": [
            Way(search(turning), lambda f: distances(ordered(f[2], f[0])))
            for turning in (True, False)
        ],
        **{
            name: [Way(paths, lambda found: distances(ordered(found[0], found[1])))]
            for name in ("sssp", PREDECESSORS)
        },
        "connected_components": [
            Way(
                lambda _: package.weakly_connected_components(
                    handle, g, None, None, None, None, False
                ),
                lambda found: smallest(ordered(*found)),
            )
        ],
        "mst": [
            Way(
                lambda _: package.minimum_spanning_tree(handle, g, False),
                lambda tree: float(tree[2].sum(dtype=cupy.float64)) / 2,  # both ways
            )
        ],
        "core_number": [
            Way(
                lambda _: package.core_number(handle, g, "outgoing", False),
                lambda found: ordered(*found),
            )
        ],
        "triangle_count": [
            Way(
                lambda _: package.triangle_count(handle, g, None, False),
                lambda found: int(found[1].sum(dtype=cupy.int64)) // 3,
            )
        ],
        PAGERANK: [Way(pagerank, lambda found: shares(ordered(found[0], found[1])))],
        SINGLE: [Way(pagerank, lambda found: shares(ordered(found[0], found[1])))],
        BETWEENNESS: [
            Way(
                lambda _: package.betweenness_centrality(
                    handle, g, sources, None, False, False, False
                ),
                lambda found: passed(graph, ordered(*found)),
            )
        ],
    }


# name -> what has to be installed, and what makes it
PEERS: dict[str, tuple[str, Callable[[Input], Tasks]]] = {
    "SciPy": ("scipy", scipy),
    "igraph": ("igraph", igraph),
    "NetworKit": ("networkit", networkit),
    "NetworkX": ("networkx", networkx),
    "cuGraph": ("pylibcugraph", cugraph),
}


def installed(chosen: list[str] | None, slow: bool, gpu: bool) -> list[str]:
    """Those that can be imported; NetworkX if ``slow`` or chosen, cuGraph on a GPU."""
    names = chosen if chosen is not None else [p for p in PEERS if p != "NetworkX" or slow]
    there = [p for p in names if importlib.util.find_spec(PEERS[p][0])]
    return [p for p in there if p != "cuGraph" or gpu]


def version(name: str) -> str:
    return f"{name} {getattr(importlib.import_module(PEERS[name][0]), '__version__', '?')}"


def answer_of(graph: Input, row: Algorithm) -> Callable[[Any], Any]:
    """What makes a comparable answer of Morph's results."""
    host = morph.device("cpu").to_host
    known: dict[str, Callable[[Any], Any]] = {
        "distance": lambda f: distances(host(f.distance)),
        "edges": lambda f: float(f.weight),
        "points": lambda f: float(f.density if hasattr(f, "density") else f.size),
        "order": lambda f: leads_forwards(graph, host(f.order)),
        "triangles": lambda f: f.total,
        "rank": lambda f: shares(host(f.rank)),
        "centrality": lambda f: passed(graph, host(f.centrality)),
    }
    return known.get(row.main, lambda f: host(getattr(f, row.main)))


def same(what: str, one: Any, other: Any) -> bool:
    """Whether two answers are the same; iterations that packages count differently are allowed."""
    if what in (PAGERANK, SINGLE):
        return float(abs(one - other).sum()) < 2 * 0.85**ITERATIONS
    return bool(np.allclose(one, other, rtol=1e-6, atol=1e-9, equal_nan=False))
