"""Small runs of graph, batch and mesh algorithms that launch their kernels with each option."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pytest

import morph
from morph.algorithms.community import community, neighbourhood, plex
from morph.algorithms.dynamic import pagerank as dynamic_pagerank
from morph.algorithms.dynamic import repair
from morph.algorithms.graph import (
    betweenness,
    betweenness_batch,
    bfs,
    mst,
    sssp,
    triangles,
    truss,
)
from morph.algorithms.refinement import parts
from morph.algorithms.registry import ROWS
from morph.data.store import Store
from morph.generate import draws
from morph.graph import gapped
from morph.launch import binding, kept, sections
from morph.launch.foreach import Kernel, Program
from morph.operators import edge_map
from morph.prelude import atomic_add, atomic_min, local
from morph.testing import team
from morph.updates import changes, in_place, single
from morph.worklists import (
    advance,
    advance_edges,
    advance_entries,
    advance_once,
    compact_rows,
    compact_space,
    edge_mapping,
    find_largest,
    find_least,
    in_order,
    keep,
    keep_once,
    sort_order,
    sort_space,
)

ROOT = Path(__file__).parents[2]


def modules() -> list[ModuleType]:
    """The package's modules that have kernels."""
    names = [
        *(f"operators.{p.stem}" for p in (ROOT / "morph/operators").glob("[!_]*.py")),
        "generate.draws",
        "generate.weights",
        "updates.in_place",
        "updates.resolve",
        *(
            f"algorithms.{p.parent.name}.{p.stem}"
            for p in (ROOT / "morph/algorithms").glob("*/[!_]*.py")
        ),
    ]
    return [importlib.import_module(f"morph.{name}") for name in names]


def launched(names: Mapping[str, Any]) -> dict[str, Kernel | Program]:
    """The kernels and programs among a module's names."""
    groups = [x for x in names.values() if isinstance(x, tuple)]  # kernels for each type
    found = {f"{k}, {i}": x for k, group in enumerate(groups) for i, x in enumerate(group)}
    return {n: x for n, x in (found | dict(names)).items() if isinstance(x, Kernel | Program)}


def forget_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """For one test, hide the package's units and launches that earlier tests have made."""
    monkeypatch.setattr(binding, "_compiled", {})
    monkeypatch.setattr(sections, "_programs", {})
    for module in modules():
        for kernel in launched(vars(module)).values():
            monkeypatch.setattr(kernel, "launches", {})
            monkeypatch.setattr(kernel, "units", {})


def forget(kernel: Kernel | Program) -> None:
    """Delete the launches of a kernel, its units by layout, and the units of the process by key."""
    binding._compiled.clear()
    kernel.launches.clear()
    kernel.units.clear()


def overflowing(_: Any, program: Any, work: Any, *args: Any) -> Any:
    """Call a program as if there were more shortest paths than float64 counts."""
    work.overflowed.set()
    return program(work, *args)


def from_many_sources(g: morph.Graph) -> None:
    """Searches by a thread each, as on a CPU, and together, as on a GPU."""
    for at_once in (64, 0):
        with contextlib.ExitStack() as patched:
            for module in (betweenness, bfs, sssp):
                named = mock.patch.object(module, "sources_at_once", lambda *_: at_once)  # noqa: B023
                patched.enter_context(named)
            patched.enter_context(mock.patch.object(betweenness, "get_num_threads", lambda: 2))
            patched.enter_context(mock.patch.object(sssp, "HOST_BATCH", 0))
            morph.sssp(g, [0, 1], targets=[2], rows=True), morph.bfs(g, [0, 1], rows=True)
            morph.sssp(g, [0], predecessors=True, rows=True), morph.betweenness(g, [0, 1])


def graphs() -> None:
    """Algorithms on graphs, by types of weights, and of sources."""
    weight = np.array([3, 1, 2, 5], np.int32)
    ends = np.array([0, 0, 1, 2]), np.array([1, 2, 2, 3])
    for dtype in (np.int32, np.float64):
        g = morph.Graph.from_edges(*ends, weight=weight.astype(dtype), n=5)
        morph.sssp(g, predecessors=True), morph.mst(g)
        from_many_sources(g)
        found = morph.sssp(g, [0, 1], targets=[3], predecessors=True, rows=True)
        morph.path(g, found, 3, row=0)
        below = morph.Graph.from_edges(*ends, weight=-weight.astype(dtype))
        morph.bellman_ford(below, predecessors=True)
        cycle = morph.Graph.from_edges([0, 1], [1, 0], weight=-weight[:2].astype(dtype))
        with contextlib.suppress(morph.NegativeCycle):
            morph.bellman_ford(cycle)
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=[0, 0], symmetrize=True)
    morph.sssp(g, predecessors=True), morph.betweenness(g), morph.pagerank(g)
    from_many_sources(g)
    with mock.patch.object(sssp, "DENSE", 0):
        morph.sssp(g)
    twice = morph.Graph.from_edges([0, 1], [1, 2], np.ones(2, np.int32), symmetrize=True)
    with mock.patch.object(mst, "SYMMETRY_ARCS", 1):
        morph.mst(twice)
    g = morph.Graph.from_edges(*ends, weight=weight, n=5)
    for row in ROWS:
        row.function(g, **row.arguments_of({}), **row.complete)
    for dtype in (np.float64, np.float32):
        morph.pagerank(g, dtype=dtype), morph.pagerank(g, weighted=True, dtype=dtype)
    parts = morph.partition(g, ["cpu"] * 2)
    for row in ROWS:
        if row.in_parts:
            row.function(parts, **row.arguments_of({}), **row.complete)
    some = morph.generate.uniform(12, 30, seed=1, directed=False)
    assert morph.community(some, list(range(12)), (4, 6), all=True)
    with mock.patch.object(community, "MAX_UNREDUCED_CPU", 0):
        morph.community(some, [0, 1], (4, 6))
    morph.community(some, 0, (4, 6))
    with mock.patch.object(community, "MAX_FEW_CPU", 64):
        morph.community(some, [0, 1], (4, 6))
    with mock.patch.object(neighbourhood, "MAX_CANDIDATES", 1):  # else in rows of bits
        morph.community(some, list(range(12)), (4, 6))
        morph.community(some, 0, (4, 5), all=True)
    ends_of_trusses = [0, 0, 1, 3, 3, 4, 6, 6, 6, 7, 7, 8], [1, 2, 2, 4, 5, 5, 7, 8, 9, 8, 9, 9]
    with mock.patch.object(truss, "MIN_PACKED", 0), mock.patch.object(truss, "PACK", 3):
        morph.truss_number(morph.Graph.from_edges(*ends_of_trusses))
    with mock.patch.multiple(betweenness_batch, SMALL=0, SPARSE=0):  # else all points pull
        morph.betweenness(parts, [0])
    levels = morph.DynamicBFS(morph.partition(g, ["cpu"] * 2))
    levels.share = 1.0
    levels.apply(inserts=([0], [4], [1]), deletes=([0], [1]))
    morph.betweenness(g, sources=[0])
    for dtype in (np.int32, np.float32, np.float64):
        for directed in (True, False):
            h = morph.Graph.from_edges(*ends, weight=weight.astype(dtype), directed=directed)
            morph.betweenness(h, weighted=True), morph.edge_betweenness(h, weighted=True)
            morph.edge_betweenness(h)
    with mock.patch.object(kept.KeptLaunches, "run", overflowing):
        for directed in (True, False):
            g = morph.Graph.from_edges(*ends, directed=directed)
            morph.betweenness(g, sources=[0]), morph.edge_betweenness(g, sources=[0])
        morph.betweenness(morph.partition(g, ["cpu"] * 2), [0])
    g = morph.Graph.from_edges(*ends, weight=weight, n=5)
    for dtype in (np.int32, np.float64):
        h = morph.Graph.from_edges(*ends, weight=weight.astype(dtype))
        morph.matching(h, weighted=True)
    with mock.patch.object(bfs, "PartitionedGraph", morph.Graph):  # as a partitioned graph
        morph.bfs(g)
    morph.triangle_count(morph.generate.grid(3, 3))
    with mock.patch.object(triangles, "MERGED_DEGREE", -1):  # else rows are merged
        morph.triangle_count(g)
    assert morph.max_flow(g, 0, 3).value == 3
    assert morph.max_k_plex(g, 2).size >= 3
    with mock.patch.object(plex, "MAX_CANDIDATES", 1):
        assert morph.max_k_plex(some, 2).size == 4
    assert morph.max_clique(g).size == 3 and len([*morph.cliques(g)]) == 3
    g.points.add("x", np.float64, fill=2)

    @morph.func
    def times(a, b):
        return a * b

    assert morph.reduce(g.points.x, times) == 32
    assert morph.scan(g.points.x, times).tolist() == [2, 4, 8, 16, 32]
    assert morph.compact(g.points, lambda p: p.id > 2).items.tolist() == [3, 4]


def batches() -> None:
    """Batches of edges on compact and gapped rows, and the algorithms that follow them."""
    weight = np.array([3, 1, 2, 5], np.int32)
    ends = np.array([0, 0, 1, 2]), np.array([1, 2, 2, 3])
    with mock.patch.object(changes, "SHARE", 0):
        follow_changes()
        g = morph.Graph.from_edges(*ends, weight=weight, n=5)
        both = morph.Graph.from_edges([0, 1], [1, 2], weight=[0, 0], symmetrize=True)
        for roomy in (g, both):  # gapped rows, of one direction and of both
            roomy.apply(([0], [1], [1]), [0])
            roomy.apply(deletes=([0], [1]))
            roomy.adjacency("in"), roomy.apply(([0, 0], [1, 1], [1, 1]), [1])
            roomy.apply(deletes=([0], [1]))
            assert roomy.apply(deletes=([0], [2])).absent
            assert roomy.gapped
            morph.bfs(roomy), morph.sssp(roomy), morph.pagerank(roomy), morph.core_number(roomy)


def follow_changes() -> None:
    """Dynamic algorithms, and rows that move to a new place."""
    for dtype in (np.int32, np.float32):
        weight = np.array([3, 1, 2], dtype)
        for both in (False, True):
            g = morph.Graph.from_edges([0, 1, 2], [1, 2, 3], weight=weight, symmetrize=both)
            distances = morph.DynamicSSSP(g)
            distances.apply(inserts=([0], [3], weight[:1]))
            refused_change(distances)
    morph.DynamicSSSP(morph.Graph.from_edges([0], [1])).apply(([0], [1]))
    morph.DynamicBFS(g), morph.DynamicComponents(g).apply(deletes=[0])
    for one in (morph.Graph.from_edges([0, 1], [1, 2]), g):
        cores = morph.DynamicCores(one)
        cores.share = 99.0  # so few points are repaired at all
        cores.apply(([0], [2]))
        ranks = morph.DynamicPageRank(one)
        ranks.share = 1e6
        ranks.apply(([0], [2]))
        ranks.share = 0.0
        ranks.apply(([1], [0]))
        morph.foreach(one.points, dynamic_pagerank.shift, ranks._ranks, 0.0)
    with mock.patch.object(gapped, "LEAST", 1):
        g = morph.Graph.from_edges([0], [1], n=4)
        for p in range(4):  # rows outgrow their place and move
            g.apply(deletes=g.apply(([p] * 40, [0] * 40)).inserted)


def refused_change(values: Any) -> None:
    """The program of one change and its repair, with a change that is not valid."""
    table = values.graph._adjacency.table_for(1)
    near = values._queue.near
    batch = repair.Batch(table, values._report, 1, 0, 1, 0, -1, True, True, True, near)
    lists = values._now, values._following, values._queue
    given = in_place.OneChange(*single.arguments(values.graph, table))
    behind = in_place.Repair(repair.repair, values._problem, batch, *lists)
    assert in_place.change_and_repair(given, behind) == repair.NOT_APPLIED


def generators() -> None:
    """Random words as on a device with memory of its own."""
    where, streams = morph.device("cpu"), [np.random.PCG64(k) for k in range(2)]
    assert draws.bits_of_states(where, streams, 3)[1, 0] == np.random.PCG64(1).random_raw()
    least = draws.Thresholds(*map(np.uint32, (2**31, 3 << 30, 7 << 29)))
    draws.quadrants_of_states(where, streams, 4, 3, least)
    for weight, directed, simple in (
        ((1, 9), False, True), ((1, 2**40), True, False), ((0.5, 2.0), False, True),
    ):  # fmt: skip
        morph.generate.uniform(9, 20, weight=weight, directed=directed, simple=simple)


@morph.kernel
def read_wide(p, g):
    for e in p.outedges:
        p.found = e.id
    for t in p.outnbrs:
        p.found += g.edge(p, t).id


def wide() -> None:
    """Edges with 64-bit ids, as in a graph of 2^31 edges or more."""
    with mock.patch.object(Store, "_wide", property(lambda s: s.name == "edges" and s.capacity)):
        g = morph.Graph.from_edges([0, 0, 1], [1, 2, 2])
        g.points.add("found", np.int64)
        morph.foreach(g.points, read_wide, g)
        assert g.points.found[:].tolist() == [2, 4, 0]


@morph.func
def forward(p, t):
    return p.id < t.id


@morph.func
def even(p):
    return p.id % 2 == 0


@morph.kernel
def relax(entry, g, limit, near, far):
    for t in entry.item.outnbrs:
        d = entry.key + g.weight(entry.item, t)
        if atomic_min(t.dist, d) > d:
            if d <= limit:
                near.add(t, key=d)
            else:
                far.add(t, key=d)


@morph.func
def heavy(p, e, least):
    return e.weight > least


@morph.func
def longer(entry, e, most):
    return entry.key < most, entry.key + e.weight


@morph.func
def weight_of(e):
    return e.weight


@morph.func
def is_light(e, most):
    return e.weight < most


def worklists() -> None:
    """Advance and filter, with repeats and without, and items in order of a key."""
    g = morph.Graph.from_edges([0, 0, 1, 2], [1, 2, 3, 3], weight=[5, 1, 1, 9])
    g.points.add("dist", np.int64, fill=99)
    items = morph.Collection(g.points, key=np.int64)
    items.add(0, key=0)
    in_order(items, relax, g, delta=1)
    assert g.points.dist[:].tolist() == [99, 5, 1, 6]
    for step, wanted in ((advance, forward), (advance_once, forward), (keep, even)):
        found = morph.Collection(g.points)
        morph.foreach(g.points, step, wanted, found)
        assert len(found) == {advance: 4, advance_once: 3, keep: 2}[step]
        morph.foreach(found, keep_once, even, morph.Collection(g.points))
    found, items = morph.Collection(g.points), morph.Collection(g.points, key=np.int64)
    morph.foreach(g.points, advance_edges, heavy, found, 1)
    items.add(0, key=2)
    morph.foreach(items, advance_entries, longer, morph.Collection(g.points, key=np.int64), 3)
    assert sorted(found.items.tolist()) == [1, 3]
    lightest = morph.Scalars(g, value=99, row_id=0)
    find_least(lightest, g.edges, weight_of)
    assert lightest.row_id == 1
    find_largest(lightest, g.edges, weight_of)
    assert lightest.row_id == 3
    light = compact_space(g.edges)
    assert compact_rows(light, is_light, 6) == 3 and light.order[:3].tolist() == [0, 1, 2]
    space = sort_space(g.edges.weight)
    sort_order(space)
    assert space.order[:].tolist() == [1, 2, 0, 3]


@morph.kernel
def split(e, queue, made, far, total):
    if e.size > 1:
        queue.add(size=e.size // 2)
        queue.add(size=e.size - e.size // 2)
    else:
        far.add(made.new(order=atomic_add(total[0].order, 1)))


@morph.program
def split_all(queue, made, far, total):
    morph.foreach(queue, split, queue, made, far, total, until_empty=True)
    return len(far)


@morph.kernel
def halve(e, made, far):
    parts = local(np.int32, 2)
    parts.reserve(20)
    made.reserve(2 * e.size)
    far.reserve(e.size)
    parts.add(e.size)
    while parts.size > 0:
        n = parts.pop()
        if n > 1:
            parts.add(n // 2)
            parts.add(n - n // 2)
            made.new(order=n)
        else:
            far.add(made.new_rows(1)[0])


def queues() -> None:
    """Steps that run a queue until it is empty, and loops without a bound that allocate."""
    g = morph.Graph("cpu")
    made, total = (g.add_table(name, order=np.int32) for name in ("made", "total"))
    total.extend(1)
    queue, far = morph.Collection(device="cpu", size=np.int32), morph.Collection(made)
    queue.add(size=100)
    morph.foreach(queue, split, queue, made, far, total, until_empty=True)
    queue.add(size=9)
    morph.foreach(queue, halve, made, morph.Collection(made))
    queue.clear()
    queue.add(size=30)
    assert split_all(queue, made, far, total) == 130
    assert len(made) == 130 + 17


@morph.func
def lower(p, t, least):
    return atomic_min(t.label, max(p.label, least)) > p.label


@morph.func
def every(t, least):
    return True


def edge_maps() -> None:
    """Edge map, with its parts launched one by one: push and pull, one update and several."""
    for directed in (False, True):
        g = morph.Graph.from_edges([0, 1, 2], [1, 2, 3], symmetrize=not directed)
        for once in (False, True):
            g.points.add("label", np.int64)
            g.points.label[:] = [0, 1, 2, 3]
            lists = [morph.Collection(g.points) for _ in range(2)]
            lists[0].extend([0, 1, 2, 3])
            s = edge_mapping(g, lower, every, once=once)
            edge_map.unmark_all(s), edge_map.as_list(s, lists[0])
            edge_map.mark_frontier(s, lists[0])
            assert edge_map.edge_map(s, *lists, 4, 0) == (3 if directed or not once else 1)
            g.points.drop("label")
            del s  # the next mapping marks in the same column


def meshes() -> None:
    """Triangulation with all options, by several threads and by one."""
    cross = [[0, 0], [2, 2], [0, 2], [2, 0]]
    rim, places = [[0, 2], [2, 1], [1, 3], [3, 0], [0, 1], [2, 3]], [[1, 0.5, 3, -1]]
    morph.triangulate(cross, rim, [[0.5, 1]], places, crossing="split")
    with team(1):  # as a GPU does: of few points, several threads of a CPU use one
        morph.triangulate(cross, [[0, 2]])
    mesh = morph.Mesh.read(ROOT / "meshes" / "square.node")
    mesh.find_simplex([[0.5, 0.5]])
    mesh.interpolate(mesh.points[:, 0], [[0.5, 0.5]])
    morph.refine(mesh, 25)
    morph.refine(mesh, 25, max_angle=120)
    morph.refine(mesh, 25, progress=lambda *_: None)  # launch by launch
    with mock.patch.object(parts, "LEAST", 1):
        morph.refine(mesh, 25, boundary="keep-hull", device=["cpu", "cpu"])
    rim = [[0, 1], [1, 2], [2, 3], [3, 0]]
    plate = morph.Pslg([[0, 0], [2, 0], [2, 1], [0, 1]], rim, regions=[[1.5, 0.5, 0, 0.01]])
    options = {"boundary": "keep-hull", "max_points": 9, "deterministic": True}
    morph.refine(plate, 25, "regions", **options)
