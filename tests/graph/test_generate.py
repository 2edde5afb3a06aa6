"""Generated graphs: their distributions, their symmetry, equal bytes on every device."""

import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parts import same_parts
from pretend import Pretended, pretended
from scipy.spatial import cKDTree
from targets import examples

import morph
from morph import generate
from morph.generate import GRAPH500, GTGRAPH, draws
from morph.graph.arrange import sources_from
from morph.runtime.cpu.device import HostDevice


def arcs(g):
    return set(zip(g.edges.src[:].tolist(), g.edges.dst[:].tolist(), strict=True))


def is_sound(g, directed=False, simple=True):
    """Sorted by source and target; symmetric in weights too; no loops, nothing twice."""
    src, dst, weight = g.edge_list()
    words = src.astype(np.int64) << 32 | dst
    assert (words[1:] >= words[:-1]).all()
    if simple:
        assert (src != dst).all() and (words[1:] > words[:-1]).all()
    assert g.directed == directed
    if not directed:
        back = np.lexsort((src, dst))
        assert (src[back] == dst).all() and (dst[back] == src).all()
        assert weight is None or (np.sort(weight[back]) == np.sort(weight)).all()
        if simple and weight is not None:
            assert (weight[back] == weight).all()
    return g


KINDS = {
    "uniform": lambda **o: generate.uniform(50, 200, **o),
    "rmat": lambda **o: generate.rmat(6, 5, **o),
    "grid": lambda **o: generate.grid(5, 7, **o),
    "geometric": lambda **o: generate.geometric(60, 0.2, **o),
}


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 2**40), st.sampled_from([None, (1, 255), (-3, -3), (0.5, 2.0)]))
def test_every_kind_is_sound_and_repeatable(kind, seed, weight):
    make = KINDS[kind]
    g = is_sound(make(seed=seed, weight=weight))
    again = make(seed=seed, weight=weight)
    for a, b in zip(g.edge_list(), again.edge_list(), strict=True):
        assert (a is None and b is None) or (a == b).all()
    if weight is None:
        assert "weight" not in g.edges.columns
    else:
        low, high = weight
        values = g.edges.weight[:]
        assert values.dtype == (np.int32 if isinstance(low, int) else np.float64)
        assert low <= values.min() and values.max() <= high


# other ones mean that inputs which others have measured on are no longer the same
SUMS = {"uniform": 3826331951, "rmat": 1811178071, "grid": 1509167141, "geometric": 2100266420}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_graphs_everywhere(kind):
    parts = KINDS[kind](seed=5, weight=(1, 255)).edge_list()
    assert zlib.crc32(b"".join(x.astype("<i8").tobytes() for x in parts)) == SUMS[kind]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["uniform", "rmat"])
@given(st.integers(0, 1000), st.sampled_from([1 << 17, 16]))
def test_loops_and_duplicates_on_demand(kind, directed, seed, parts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draws, "AT_ONCE", parts)
        options = {"seed": seed, "weight": (0, 2**40), "directed": directed}
        make = {"uniform": lambda **o: generate.uniform(9, 80, **o),
                "rmat": lambda **o: generate.rmat(3, 10, **o)}[kind]  # fmt: skip
        g = is_sound(make(simple=False, **options), directed, simple=False)
        loops = int((g.edges.src[:] == g.edges.dst[:]).sum())
        assert len(g.edges) == (80 if directed else 160 - loops)
        plain = is_sound(make(**options), directed)
        assert arcs(plain) == {(u, v) for u, v in arcs(g) if u != v}
        assert len(set(g.edges.weight[:].tolist())) >= 60  # equal edges have their own
        if not directed:  # and each of them its own twice
            found = sorted(zip(*(x.tolist() for x in g.edge_list()), strict=True))
            assert found == sorted((v, u, w) for u, v, w in found)


def test_uniform_is_uniform():
    g = generate.uniform(64, 200_000, directed=True, simple=False, weight=(1, 16))
    for ends in (g.edges.src[:], g.edges.dst[:], g.edges.weight[:] - 1):
        count = np.bincount(ends)
        expected = 200_000 / len(count)
        assert ((count - expected) ** 2 / expected).sum() < len(count) + 6 * len(count) ** 0.5
    reals = generate.uniform(64, 200_000, directed=True, simple=False, weight=(2.0, 3.0))
    assert abs(reals.edges.weight[:].mean() - 2.5) < 0.005


@pytest.mark.parametrize("parameters", [GRAPH500, GTGRAPH, (0.1, 0.5, 0.3), (1, 0, 0), (0, 1, 0)])
def test_rmat_fills_quarters_as_asked_at_every_level(parameters):
    g = generate.rmat(5, 10_000, *parameters, directed=True, simple=False)
    a, b, c = parameters
    for level in range(5):
        quarter = (g.edges.src[:] >> level & 1) * 2 + (g.edges.dst[:] >> level & 1)
        share = np.bincount(quarter, minlength=4) / len(g.edges)
        assert np.abs(share - [a, b, c, 1 - a - b - c]).max() < 0.005


def test_permuted_rmat_is_the_same_graph_with_other_numbers():
    plain, other = (generate.rmat(8, 8, permute=p, seed=3) for p in (False, True))
    assert len(plain.edges) == len(other.edges) and arcs(plain) != arcs(other)
    assert sorted(plain.degree().tolist()) == sorted(other.degree().tolist())
    assert plain.degree().argmax() == 0


@given(st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_grids(rows, columns, torus):
    networkx = pytest.importorskip("networkx")
    g = is_sound(generate.grid(rows, columns, torus=torus))
    expected = networkx.grid_2d_graph(rows, columns, periodic=torus)
    ends = {(r * columns + c, s * columns + d) for (r, c), (s, d) in expected.edges() for _ in "1"}
    ends = {(u, v) for u, v in ends if u != v}
    assert arcs(g) == ends | {(v, u) for u, v in ends}
    assert len(g.points) == rows * columns


@given(st.integers(0, 80), st.floats(0, 1.5), st.integers(0, 9), st.sampled_from([1 << 17, 5]))
def test_geometric_joins_exactly_the_near(n, radius, seed, parts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draws, "AT_ONCE", parts)
        g = is_sound(generate.geometric(n, radius, weight="length", seed=seed))
    x, y = g.points.x[:], g.points.y[:]
    distance = np.hypot(x[:, None] - x, y[:, None] - y)
    u, v = np.nonzero(((x[:, None] - x) ** 2 + (y[:, None] - y) ** 2 <= radius**2) & (distance > 0))
    assert arcs(g) == set(zip(u.tolist(), v.tolist(), strict=True))
    assert g.edges.weight[:].tolist() == distance[u, v].tolist()


def test_geometric_by_degree_is_spatial():
    g = generate.geometric(20_000, degree=12)
    assert 11 < len(g.edges) / 20_000 < 12  # a little less, for the rim
    xy = np.stack([g.points.x[:], g.points.y[:]], axis=1)
    radius = (12 / np.pi / 19_999) ** 0.5
    assert len(g.edges) == 2 * len(cKDTree(xy).query_pairs(radius))
    assert np.abs(np.subtract(*g.edge_list()[:2])).mean() < 300  # near ones have near numbers


def test_no_points_and_no_edges():
    for g in (generate.uniform(0, 0), generate.uniform(3, 0), generate.rmat(0), generate.grid(0, 5),
              generate.geometric(0, 0.1), generate.geometric(1, degree=3)):  # fmt: skip
        assert len(g.edges) == 0
    assert len(generate.rmat(0).points) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: generate.uniform(-1, 0), "n = -1: expected an integer from 0"),
        (lambda: generate.uniform(0, 3), "m = 3: without points there are no edges"),
        (lambda: generate.uniform(9, 1, seed=-1), "seed = -1"),
        (lambda: generate.uniform(9, 1, weight=(2, 1)), r"weight = \(2, 1\): expected low <= high"),
        (lambda: generate.uniform(9, 1, weight=(0, 2**60)), "less than 2.53 apart"),
        (lambda: generate.uniform(9, 1, weight=(0, np.inf)), "expected low <= high, finite"),
        (lambda: generate.rmat(31), "scale = 31: expected 0 to 30"),
        (lambda: generate.rmat(3, -1), "edge_factor = -1"),
        (lambda: generate.rmat(3, 1, 0.5, 0.5, 0.5), "expected probabilities, at most 1 together"),
        (lambda: generate.rmat(3, 1, -0.5, 0.5, 0.5), "expected probabilities"),
        (lambda: generate.grid(-1, 3), "rows = -1"),
        (lambda: generate.grid(2**16, 2**15), "rows x columns = 2147483648"),
        (lambda: generate.geometric(3), "give either radius or degree"),
        (lambda: generate.geometric(3, 1, degree=1), "give either radius or degree"),
        (lambda: generate.geometric(3, -1), "radius = -1"),
        (lambda: generate.geometric(3, degree=-1), "degree = -1"),
        (lambda: generate.geometric(3, 1, weight="far"), "weight = 'far'"),
    ],
)
def test_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: generate.uniform(2.5, 0), "n is an integer, not 2.5"),
        (lambda: generate.uniform(9, None), "m is an integer, not None"),
        (lambda: generate.uniform(9, 1, seed=True), "seed is an integer, not True"),
        (lambda: generate.geometric(None), "n is an integer, not None"),
        (lambda: generate.grid(2, "x"), "columns is an integer, not 'x'"),
        (lambda: generate.random_ksat(3.5, 10, 4.2), "k is an integer, not 3.5"),
    ],
)
def test_wrong_types(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_refused_for_want_of_memory(monkeypatch):
    monkeypatch.setattr(HostDevice, "free", lambda self: 10**9)
    with pytest.raises(MemoryError, match="a graph of 1048576 points and 200000000 edges takes"):
        generate.uniform(1 << 20, 10**8)


def test_memory_of_a_geometric_graph_is_checked_before_points_are_drawn(monkeypatch):
    monkeypatch.setattr(HostDevice, "free", lambda self: 10**9)
    monkeypatch.setattr("morph.generate.graphs._cells", lambda *_: pytest.fail("drawn"))
    few = "a graph of 1000000 points and 974925011997 edges takes"
    cases = ({"radius": 2}, few), ({"radius": 1}, few), ({"degree": 300}, "and 297")
    for options, message in cases:
        with pytest.raises(MemoryError, match=message):
            generate.geometric(10**6, **options)


MADE = {  # options, and on a device streams of even and odd lengths, several at once
    "uniform": lambda **o: generate.uniform(70, 333, weight=(0, 9), **o),
    "uniform, directed": lambda **o: generate.uniform(9, 300, directed=True, simple=False, **o),
    "rmat": lambda **o: generate.rmat(6, 5.3, seed=3, weight=(0.5, 2.0), **o),
    "rmat, permuted": lambda **o: generate.rmat(7, 3, permute=True, **o),
    "rmat, repeated": lambda **o: generate.rmat(3, 20, simple=False, weight=(1, 2**40), **o),
    "grid": lambda **o: generate.grid(5, 7, torus=True, weight=(1, 9), **o),
    "geometric": lambda **o: generate.geometric(60, 0.2, weight="length", **o),
}


def is_that_of_the_host(make, device):
    g, host = make(device=device), make()
    for a, b in zip(g.edge_list(), host.edge_list(), strict=True):
        assert (a is None and b is None) or (g.device.to_host(a) == b).all()
    assert (g.device.to_host(g.csr()[0]) == host.csr()[0]).all()
    assert g.out_identity and g.directed == host.directed


@pytest.mark.parametrize("part", [1 << 17, 16])
@pytest.mark.parametrize("kind", MADE)
def test_a_device_with_memory_of_its_own_makes_the_same_graph(kind, part, monkeypatch):
    monkeypatch.setattr(draws, "AT_ONCE", part)
    monkeypatch.setattr(Pretended, "bulk", 64)
    is_that_of_the_host(MADE[kind], pretended(monkeypatch))


@pytest.mark.parametrize("kind", MADE)
def test_such_devices_make_the_same_parts(kind, monkeypatch):
    wanted = MADE[kind]()
    monkeypatch.setattr(draws, "AT_ONCE", 1 << 17)
    monkeypatch.setattr(Pretended, "bulk", 16)
    devices = [pretended(monkeypatch, k) for k in (7, 8)]
    made = MADE[kind](device=devices).to("cpu")
    for a, b in zip(made.edge_list(), wanted.edge_list(), strict=True):
        assert (a is None and b is None) or (a == b).all()


@pytest.mark.parametrize("kind", MADE)
def test_groups_are_sorted_one_after_the_other(kind, monkeypatch):
    wanted = MADE[kind]()
    monkeypatch.setattr(HostDevice, "bulk", 16)
    monkeypatch.setattr(draws, "AT_ONCE", 1 << 17)
    for made in (MADE[kind](), MADE[kind](device=["cpu", "cpu", "cpu"]).to("cpu")):
        for a, b in zip(made.edge_list(), wanted.edge_list(), strict=True):
            assert (a is None and b is None) or (a == b).all()


def test_parts_draw_each_edge_once(monkeypatch):
    drawn, quadrants = [], draws.quadrants

    def counted(*given):
        found = quadrants(*given)
        drawn.append(found[0].size)
        return found

    monkeypatch.setattr(generate.graphs, "quadrants", counted)
    monkeypatch.setattr(draws, "AT_ONCE", 64)
    wanted = generate.rmat(8, 5, permute=True)
    assert drawn == [64] * 20
    drawn.clear()
    found = generate.rmat(8, 5, permute=True, device=["cpu"] * 3).to("cpu")
    assert drawn == [64] * 20
    for a, b in zip(found.edge_list()[:2], wanted.edge_list()[:2], strict=True):
        assert (a == b).all()


@pytest.mark.parametrize("passes", [2, 3, 8])
@pytest.mark.parametrize("kind", [k for k in MADE if k != "geometric"])
def test_parts_made_in_passes_are_those_of_one(kind, passes, monkeypatch):
    wanted = MADE[kind]()
    monkeypatch.setattr(draws, "AT_ONCE", 1 << 17)
    monkeypatch.setattr(Pretended, "bulk", 16)
    monkeypatch.setattr(generate.construction, "_passes", lambda *_: passes)
    for devices in [pretended(monkeypatch, k) for k in (7, 8)], ["cpu"] * 3:
        made = MADE[kind](device=devices).to("cpu")
        for a, b in zip(made.edge_list(), wanted.edge_list(), strict=True):
            assert (a is None and b is None) or (a == b).all()


def made_with(free, monkeypatch, scale=18):
    """Make two parts with some free memory; gives how often edges are drawn, and the peak."""
    drawn, quadrants = [], draws.quadrants
    monkeypatch.setattr(HostDevice, "bulk", 1 << 16)
    monkeypatch.setattr(HostDevice, "free", lambda self: free)
    monkeypatch.setattr(
        generate.graphs, "quadrants", lambda *given: drawn.append(given[2]) or quadrants(*given)
    )
    tracemalloc.start()
    try:
        g = generate.rmat(scale, 16, permute=True, device=["cpu", "cpu"])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return g, sum(drawn) / (16 << scale), peak


def test_parts_that_fit_only_without_their_keys_are_made_in_passes(monkeypatch):
    generate.rmat(4, device=["cpu", "cpu"])  # compiles
    at, n = morph.device("cpu"), 1 << 18
    needed = {p: 2 * generate.construction.bytes_of_part(at, n, 16 * n, 2, p)
              for p in (1, 2)}  # fmt: skip
    made = {p: made_with(free, monkeypatch) for p, free in needed.items()}
    for p, (g, drawn, peak) in made.items():
        assert drawn == p
        assert peak <= needed[p]
        assert all(a is b or (a == b).all() for a, b in
                   zip(g.to("cpu").csr(), made[1][0].to("cpu").csr(), strict=True))  # fmt: skip
    assert made[2][2] < 0.85 * made[1][2]
    with pytest.raises(
        MemoryError, match="part 0 of a graph of 262144 points, with 4194304 edges, takes"
    ):
        made_with(10**6, monkeypatch)


def groups_of(where, keys, groups, batches=8):
    """The groups of keys that are added in some batches."""
    made = generate.keys.KeyGroups(where, range(1 << 12), groups, keys.size, False)
    for some in np.array_split(keys, batches):
        made.add(where.asarray(some.copy()))
    return made


@pytest.mark.parametrize("permute", [True, False])
def test_a_gpu_allocates_the_keys_of_a_group_once(permute, monkeypatch):
    src, dst, _ = generate.rmat(12, 16, permute=permute).edge_list()
    keys = np.asarray(src).astype(np.int64) << 32 | np.asarray(dst)
    alike = np.concatenate([keys[k::8] for k in range(8)])
    made = groups_of(pretended(monkeypatch), alike, 16)
    counts = [len(chunks) for chunks in made._chunks]
    assert set(counts) == {1} if permute else max(counts) <= 16
    sizes = np.diff(np.searchsorted(keys >> 32, made.cuts))
    assert sizes.max() <= keys.size / 10 and np.diff(made.cuts).max() <= 1.25 * 2**12 / 16
    found = [made.where.to_host(made.take(k)) for k in range(len(counts))]
    assert [x.size for x in found] == sizes.tolist()
    assert (np.sort(np.concatenate(found)) == keys).all()


def test_keys_in_order_take_no_more_memory(monkeypatch):
    keys = np.arange(1 << 12).repeat(64) << 32
    made = groups_of(pretended(monkeypatch), keys, 16, batches=16)
    assert sum(a.size for chunks in made._chunks for a in chunks) < 1.3 * keys.size


@pytest.mark.parametrize("bulk", [1, 2, 7, 1000])
def test_sources_of_offsets(bulk, monkeypatch):
    gpu, draw = pretended(monkeypatch), np.random.default_rng(bulk)
    monkeypatch.setattr(Pretended, "bulk", bulk)
    for n in range(20):
        degree = draw.integers(0, 4, n) * draw.integers(0, 6, n)
        offsets = np.append(0, np.cumsum(degree))
        for first in (0, 5):
            wanted = np.repeat(np.arange(n) + first, degree)
            for on in (gpu, morph.device("cpu")):
                found = sources_from(on, on.asarray(offsets), wanted.size, first)
                assert (on.to_host(found) == wanted).all()


@pytest.mark.parametrize("weight", [None, (1, 9)])
def test_making_parts_takes_little_more_memory_than_the_parts(weight, monkeypatch):
    devices = ["cpu", "cpu"]
    monkeypatch.setattr(HostDevice, "bulk", 1 << 16)
    generate.rmat(4, weight=weight, device=devices)  # compiles
    tracemalloc.start()
    try:
        g = generate.rmat(17, 16, weight=weight, device=devices)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    parts = [g.local(k) for k in g.here]
    columns = [c.array for x in parts for c in x.edges.columns.values()]
    points = sum(8 * len(x.points) for x in parts)
    assert peak <= 1.3 * (sum(a.nbytes for a in columns) + points)


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**32, 2**63])
def test_states_are_those_of_numpy(seed):
    for kind, first in ((1, 0), (4, 2**31)):
        found = draws._states_of(seed, kind, first, first + 9)
        for k, state in enumerate(found, first):
            wanted = np.random.PCG64(np.random.SeedSequence([seed, kind, k])).state["state"]
            assert state == (wanted["state"], wanted["inc"])


def is_that_of_partition(make, devices):
    """Made in parts, each where it lies, a graph is the one that is made as a whole and divided."""
    host, made = make(), make(device=devices)
    expected = morph.partition(host, devices)
    for column in host.edges.columns:
        assert (getattr(made.edges, column)[:] == getattr(host.edges, column)[:]).all()
    same_parts(made, expected)


@pytest.mark.parametrize("devices", [["cpu"], ["cpu", "python"], ["cpu"] * 5])
@pytest.mark.parametrize("kind", MADE)
def test_parts_are_made_where_they_lie(kind, devices):
    is_that_of_partition(MADE[kind], devices)


def test_parts_on_devices_with_memory_of_their_own(monkeypatch):
    monkeypatch.setattr(Pretended, "bulk", 1 << 18)
    device = pretended(monkeypatch)
    for kind in ("uniform, directed", "rmat, permuted", "rmat, repeated"):
        is_that_of_partition(MADE[kind], [device, device])
        is_that_of_partition(MADE[kind], [device, "cpu", device])


@pytest.mark.gpu
@pytest.mark.parametrize("devices", [["cuda"], ["cuda", "cuda", "cuda"], ["cpu", "cuda"]])
@pytest.mark.parametrize("kind", MADE)
def test_parts_on_the_gpu(kind, devices):
    is_that_of_partition(MADE[kind], devices)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", MADE)
def test_on_the_gpu(kind):
    is_that_of_the_host(MADE[kind], "cuda")


@pytest.mark.gpu
def test_many_streams_on_the_gpu():
    is_that_of_the_host(lambda **o: generate.rmat(17, weight=(1, 255), permute=True, **o), "cuda")


@pytest.mark.parametrize("device", ["cpu", "python"])
@settings(max_examples=examples(20))
@given(st.lists(st.tuples(st.integers(0, 2**63), st.integers(0, 3000)), min_size=1, max_size=3))
def test_bits_of_states_are_those_of_the_streams(device, starts):
    def streams():
        return [np.random.PCG64(seed).advance(start) for seed, start in starts]

    for count in (1, 90):
        found = draws.bits_of_states(morph.device(device), streams(), count)
        assert (found == [s.random_raw(count) for s in streams()]).all()
    least = draws.Thresholds(*map(np.uint32, (2**31, 3 << 30, 2**32 - 1)))
    some = [streams(), 12, 7, least]
    found = draws.quadrants_of_states(morph.device(device), *some)
    for a, b in zip(found, draws.quadrants(morph.device("cpu"), streams(), *some[1:]), strict=True):
        assert (a == b).all()
