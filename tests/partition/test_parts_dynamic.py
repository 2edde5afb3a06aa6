"""Distances, levels and components of changing partitioned graphs: as on one device, and valid."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from pretend import pretended
from ranks import output_of_ranks

import morph
from morph import validate

N = 14
KINDS = [morph.DynamicSSSP, morph.DynamicBFS, morph.DynamicComponents]
point = st.integers(0, N - 1)
triples = st.lists(st.tuples(point, point, st.integers(0, 4)), max_size=8)


def followers(kind, g, parts):
    sources = [] if kind is morph.DynamicComponents else [[0, 5]]
    return kind(g, *sources), kind(parts, *sources)


def check(one, many):
    """Values as on one device; predecessors, which may be others, are right for the graph."""
    whole = many.graph.to("cpu")
    if isinstance(one, morph.DynamicComponents):
        assert one.label.tolist() == many.label.tolist() and one.components == many.components
        validate.connected_components(whole, many.label)
        return
    assert one.distance.tolist() == many.distance.tolist()
    check = validate.sssp if isinstance(one, morph.DynamicSSSP) else validate.bfs
    check(whole, many.distance, many.predecessor, source=[0, 5])


def columns(triples, dtype):
    src, dst, weight = np.array(triples, np.int64).reshape(-1, 3).T
    return src, dst, weight.astype(dtype)


@given(
    st.sampled_from(KINDS), st.lists(st.tuples(point, point, st.integers(0, 4)), max_size=40),
    st.booleans(), st.sampled_from(["i4", "f8", "f2"]),
    st.sampled_from([["python"] * 2, ["python"] * 3]),
    st.lists(st.tuples(triples, triples, triples), min_size=1, max_size=4), st.data(),
)  # fmt: skip
@settings(max_examples=4)
def test_values_after_each_batch(kind, ends, directed, dtype, devices, batches, data):
    directed = directed and kind is not morph.DynamicComponents
    src, dst, weight = columns(ends, dtype)
    g = morph.Graph.from_edges(src, dst, weight, n=N, directed=directed, device="python")
    by = data.draw(st.lists(st.integers(0, len(devices) - 1), min_size=N, max_size=N))
    one, many = followers(kind, g, morph.partition(g, devices, by))
    many.share = one.share = data.draw(st.sampled_from([1.0, 0.3]))
    check(one, many)
    for inserts, deletes, updates in batches:
        batch = {"inserts": columns(inserts, dtype), "updates": columns(updates, dtype)}
        batch["deletes"] = columns(deletes, dtype)[:2]
        if len(many.graph.edges.ids()):
            ids = many.graph.edges.ids()[[3 * k % many.graph.edges.live for k, *_ in deletes]]
            batch["deletes"] = tuple(getattr(many.graph.edges, c)[ids] for c in ("src", "dst"))
        one.apply(**batch)
        done = many.apply(**batch)
        assert done.decision in ("repaired", "recomputed")
        check(one, many)


def random_graph(directed=True, n=120, m=400, dtype=np.float64):
    rng = np.random.default_rng(5)
    src, dst = rng.integers(0, n, (2, m))
    weight = rng.integers(0, 20, m).astype(dtype)
    return morph.Graph.from_edges(src, dst, weight, n=n, directed=directed)


def random_batch(rng, edges, n=120, few=3):
    src, dst = rng.integers(0, n, (2, few))
    chosen = rng.choice(edges.ids(), 2 * few, replace=False)
    old = edges.src[chosen], edges.dst[chosen]
    return {
        "inserts": (src, dst, rng.integers(0, 20, few).astype(float)),
        "deletes": tuple(a[:few] for a in old),
        "updates": (*(a[few:] for a in old), rng.integers(0, 20, few).astype(float)),
    }


def runs(kind, devices, directed=True, batches=4, n=120):
    """Batches after which most values are repaired, on devices."""
    directed = directed and kind is not morph.DynamicComponents
    g = random_graph(directed, n, 3 * n)
    one, many = followers(kind, g, morph.partition(g, devices, by="degree"))
    rng, decisions = np.random.default_rng(7), []
    for _ in range(batches):
        batch = random_batch(rng, many.graph.edges, n)
        one.apply(**batch)
        decisions.append(many.apply(**batch).decision)
        check(one, many)
    assert "repaired" in decisions


@pytest.mark.parametrize(
    ("kind", "devices"),
    list(zip(KINDS, ("cpu cpu", "python python", "python python"), strict=True)),
)  # fmt: skip
def test_repairs(kind, devices):
    runs(kind, devices.split())


def test_repairs_of_both_directions_in_checked_mode():
    with morph.checked():
        runs(morph.DynamicSSSP, ["python", "python"], directed=False, batches=1, n=40)


def test_repairs_on_a_device_and_the_host(monkeypatch):
    there = pretended(monkeypatch)
    runs(morph.DynamicSSSP, [there, "python", there], batches=2)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("devices", [["cuda", "cuda"], ["cuda", "cpu", "cuda"]])
def test_repairs_on_gpus(kind, devices):
    for directed in (True, False):
        runs(kind, devices, directed)


class Refused(Exception):
    pass


def test_a_batch_that_fails_is_rolled_back():
    g = random_graph()
    parts = morph.partition(g, ["cpu", "cpu", "python"])
    many, rng = morph.DynamicSSSP(parts), np.random.default_rng(1)

    def refuse(applied):
        raise Refused

    for share in (1.0, 0.0):  # repaired, recomputed
        many.share = share
        many.apply(**random_batch(rng, parts.edges))
        distance, predecessor = many.distance.tolist(), many.predecessor.tolist()
        for _ in range(3):
            batch = random_batch(rng, parts.edges, few=5)
            with pytest.raises(Refused):
                many.apply(**batch, then=refuse)
            assert many.distance.tolist() == distance
            assert many.predecessor.tolist() == predecessor
        with pytest.raises(ValueError, match="-1"):
            many.apply(([0], [1], [-1.0]))
        assert many.distance.tolist() == distance
    many.share = 1.0
    assert many.distance.tolist() == morph.sssp(parts.to("cpu"), 0).distance.tolist()


@pytest.mark.parametrize("devices", [["python"], ["python"] * 3])
def test_whether_values_are_recomputed_does_not_depend_on_the_parts(devices):
    g = morph.generate.grid(6, 6)
    one, many = followers(morph.DynamicBFS, g, morph.partition(g, devices))
    one.share = many.share = 0.1  # up to 24 changed edges are repaired
    for count in (11, 18):
        ends = np.arange(count)
        decisions = {x.apply(inserts=(ends, ends + 6)).decision for x in (one, many)}
        assert decisions == {"repaired" if count == 11 else "recomputed"}
    assert one.distance.tolist() == many.distance.tolist()


def test_sums_that_are_too_large_are_refused():
    most = np.iinfo(np.int64).max - 1
    g = morph.Graph.from_edges([0, 1, 2], [1, 2, 3], weight=np.array([1, 1, 1]), n=4)
    many = morph.DynamicSSSP(morph.partition(g, ["python", "python"]))
    assert many.distance.tolist() == [0, 1, 2, 3]
    with pytest.raises(OverflowError, match="the distance of vertex 3, reached from vertex 2"):
        many.apply(updates=([0], [most - 1]))
    assert many.distance.tolist() == [0, 1, 2, 3]


def test_what_is_refused():
    g = random_graph()
    parts = morph.partition(g, ["python", "python"])
    many = morph.DynamicSSSP(parts)
    with pytest.raises(ValueError, match="points have a column 'value': on parts one dynamic"):
        morph.DynamicBFS(parts)
    before = many.distance.tolist()
    del many
    again = morph.DynamicSSSP(parts)  # an object that is gone leaves its columns
    assert again.distance.tolist() == before
    with pytest.raises(TypeError, match="points of a partitioned graph are not created or del"):
        again.apply(delete_points=[3])
    taken = morph.partition(g, ["python", "python"])
    taken.points.add("old_value", morph.prelude.i32)
    with pytest.raises(ValueError, match="points have a column 'old_value'"):
        morph.DynamicBFS(taken)
    with pytest.raises(ValueError, match="DynamicComponents needs a graph that is not directed"):
        morph.DynamicComponents(taken)
    taken.points.drop("old_value")
    taken.edges.weight[7] = -1
    with pytest.raises(ValueError, match=f"{taken.edges.src[7]} to {taken.edges.dst[7]} has -1.0"):
        morph.DynamicSSSP(taken)
    assert list(taken.points.columns) == ["global_id"]
    both = morph.Graph.from_edges([0, 1], [1, 0], weight=[1, 2])
    one_way = morph.Graph("cpu", directed=False)
    one_way.points.extend(2), one_way.edges.add("weight", morph.prelude.i32)
    one_way.edges.extend(src=[0, 1], dst=[1, 0], weight=[1, 2])
    with pytest.raises(ValueError, match="needs equal weights both ways"):
        morph.DynamicSSSP(morph.partition(one_way, ["python", "python"]))
    assert morph.DynamicSSSP(morph.partition(both, ["python"] * 2)).distance.tolist() == [0, 1]


def test_changes_by_other_means_are_followed():
    parts = morph.partition(random_graph(), ["cpu", "cpu"])
    many = morph.DynamicSSSP(parts)
    many.share = 1.0
    parts.apply(([0], [110], [0.5]))
    assert many.distance[110] == 0.5
    done = many.update(parts.apply(([110], [7], [0.25])))
    assert done.decision == "repaired" and many.distance[7] <= 0.75
    assert many.distance.tolist() == morph.sssp(parts.to("cpu"), 0).distance.tolist()


ON_RANKS = """
from test_parts_dynamic import *
for kind in KINDS[:1]:  # the ranks compile what they run, once for each kind
    g = random_graph(kind is not morph.DynamicComponents)
    parts = morph.partition(g, comm=comm, by=np.arange(120) // 5 % comm.size)
    one, many = followers(kind, g, parts)
    rng = np.random.default_rng(7)
    for _ in range(3):
        batch = random_batch(rng, g.edges)
        one.apply(**batch), many.apply(**batch)
        check(one, many)
print("equal")
"""


@pytest.mark.mpi
def test_repairs_on_ranks():
    assert output_of_ranks(3, ON_RANKS) == ["equal"] * 3
