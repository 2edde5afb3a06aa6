"""Programs of all parts in one launch after batches of changes, when mirrors are unordered."""

import numpy as np
import pytest
from test_parts_programs import devices_of

import morph
from morph.algorithms.dynamic.repair import repair
from morph.partition.objects import LaunchOnParts
from morph.prelude import atomic_add, atomic_max, atomic_min, f64, i32, u8

N = 300


@morph.kernel
def advance(p, g, following):
    for t in p.outnbrs:
        d = p.dist + g.weight(p, t)
        if atomic_min(t.dist, d) > d:
            following.add(t)


@morph.program
def search(g, now, following):
    while not now.empty:
        morph.foreach(now, advance, g, following)
        now, following = following, now
        following.clear()


@morph.kernel
def give(p):
    p.low = u8(p.id % 251)
    p.pair[0], p.pair[1] = p.id, -p.id


@morph.kernel
def pull(p):
    for t in p.innbrs:
        p.lows += t.low
        p.pairs += t.pair[0] + 2 * t.pair[1]


@morph.kernel
def push(p):
    for t in p.outnbrs:
        atomic_add(t.count, 1)
        atomic_max(t.largest, p.id)


@morph.kernel
def mark(p, level):
    if p.id % 3 == 0:
        p.level = level


@morph.kernel
def count_marked(p, level):
    for t in p.innbrs:
        if t.level == level:
            p.marked += 1


@morph.program
def exchanges(g):
    morph.foreach(g.points, give)
    morph.foreach(g.points, pull)
    morph.foreach(g.points, push)
    level = i32(0)
    while level < 3:
        level += i32(1)
        morph.foreach(g.points, mark, level)
        morph.foreach(g.points, count_marked, level)


@morph.kernel
def count_edges(e, total):
    atomic_add(total.edges, 1)
    atomic_add(total.weight, e.weight)


@morph.program
def sum_edges(g, total):
    total.edges = 0
    morph.foreach(g.edges, count_edges, total)
    morph.foreach(g.points, push)


RESULTS = "dist", "lows", "pairs", "count", "largest", "marked"


def made(directed, m):
    rng = np.random.default_rng(3)
    ends = rng.integers(0, N, (2, m))
    g = morph.Graph.from_edges(*ends, np.arange(m) % 9, n=N, directed=directed)
    kinds = {"low": u8, "pair": morph.vec(i32, 2), "level": i32}
    for name, kind in (kinds | dict.fromkeys(RESULTS, i32) | {"dist": f64}).items():
        g.points.add(name, kind)
    g.edges.resize(4 * m)
    return g


def found(g, source):
    """The results of the programs, and whether each runs as one launch of each part."""
    for name in RESULTS:
        getattr(g.points, name)[:] = 10**6 if name == "dist" else 0
    g.points.dist[source] = 0
    now, following = morph.Collection(g.points), morph.Collection(g.points)
    now.extend([source])
    total = morph.Scalars(g, edges=0, weight=0)
    calls = (search, (g, now, following)), (exchanges, (g,)), (sum_edges, (g, total))
    for program, arguments in calls:
        program(*arguments)
        if not isinstance(g, morph.Graph):
            assert "one launch of each part" in text_on(g, program)
    columns = (getattr(g.points, name)[:].tolist() for name in RESULTS)
    return total.edges, total.weight, *columns


def text_on(parts, program):
    """The text of the launch of a program on parts."""
    on_parts = [x for x in program.launches.values() if isinstance(x, LaunchOnParts)]
    return next(x.text for x in reversed(on_parts) if getattr(x, "_graph", lambda: None)() is parts)


def batch(rng, ids):
    src, dst = rng.integers(0, N, (2, 30))
    return {
        "inserts": {"src": src, "dst": dst, "weight": rng.integers(1, 9, 30)},
        "deletes": rng.choice(ids, 8, replace=False),
    }


def follow(devices, directed, by):
    g = made(directed, 600)
    parts, rng = morph.partition(g, devices, by), np.random.default_rng(8)
    mirrors = [s.mirrors for s in parts.statistics()]
    assert found(parts, 5) == found(g, 5)
    for k in range(5):
        given = batch(rng, parts.edges.ids())
        g.apply(**given), parts.apply(**given)
        assert found(parts, 7 * k) == found(g, 7 * k)
    assert all(a < s.mirrors for a, s in zip(mirrors, parts.statistics(), strict=True))


@pytest.mark.unchecked
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("parts, by", [(2, "range"), (3, "degree")])
def test_programs_after_batches(parts, by, directed):
    follow(["cpu"] * parts, directed, by)


@pytest.mark.gpu
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("names", ["cuda:0 cuda:1", "cuda:0 cuda:1 cuda:2 cuda:3"])
def test_programs_after_batches_on_gpus(names, directed):
    follow(devices_of(names), directed, "degree")


class Refused(Exception):
    pass


def refuse(applied):
    raise Refused


@pytest.mark.unchecked
def test_mirrors_of_a_batch_that_failed():
    """They stay, so the others may no longer be in order of their owners."""
    g = made(True, 200)
    parts, rng = morph.partition(g, ["cpu"] * 3), np.random.default_rng(1)
    with pytest.raises(Refused):
        parts.apply(**batch(rng, parts.edges.ids()), then=refuse)
    assert found(parts, 3) == found(g, 3)


@pytest.mark.unchecked
def test_a_repair_is_one_launch_of_each_part():
    g = made(True, 600)
    one = morph.DynamicSSSP(g, 4)
    many, rng = morph.DynamicSSSP(morph.partition(g, ["cpu", "cpu"]), 4), np.random.default_rng(2)
    for _ in range(3):
        given = batch(rng, many.graph.edges.ids())
        one.apply(**given)
        steps = many.graph._steps
        many.apply(**given)
        assert many.graph._steps > steps
        assert one.distance.tolist() == many.distance.tolist()
    assert "one launch of each part" in text_on(many.graph, repair)
