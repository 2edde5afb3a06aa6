"""Betweenness on partitioned graphs: batches of sources, against one device."""

import numpy as np
import pytest
from ranks import output_of_ranks

import morph
from morph.algorithms.graph import betweenness, path_counts
from morph.algorithms.graph import betweenness_batch as batch


def drawn(directed, n=80, m=260, seed=5):
    """A random graph of several components, with parallel edges and loops."""
    ends = np.random.default_rng(seed).integers(0, n, (2, m))
    return morph.Graph.from_edges(*ends, n=n, directed=directed, device="cpu")


def forget():
    """Compile constants again."""
    for x in (*vars(batch).values(), *vars(betweenness).values()):
        getattr(x, "launches", {}).clear()


@pytest.fixture
def constants(monkeypatch):
    """Set constants of the modules for one test."""

    def set_all(**values):
        for name, x in values.items():
            monkeypatch.setattr(batch if hasattr(batch, name) else path_counts, name, x)
        forget()

    yield set_all
    monkeypatch.undo()
    forget()


def check(g, parts, sources, **how):
    found = morph.betweenness(parts, sources, **how)
    wanted = morph.betweenness(g, sources, **how)
    assert np.array_equal(found.sources, wanted.sources)
    np.testing.assert_allclose(found.centrality[:], wanted.centrality, rtol=1e-12, atol=1e-15)


# the step of the first levels, of most, and of all; passes of the backward sweep over all points
STEPS = {
    "pull": {},
    "push": {"SMALL": 0, "SPARSE": 0, "AT_ONCE": 1},
    "both": {"SMALL": 0, "SPARSE": 8, "AT_ONCE": 2},
}

# units of each step are compiled for the parts of one kind of device only
DEVICES = {
    "pull": [["cpu"] * 3], "push": [["python"] * 2], "both": [["cpu"] * 3, ["cpu", "python"]],
}  # fmt: skip


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("directed", [True, False])
def test_batches(directed, steps, constants):
    constants(**STEPS[steps])
    graphs = drawn(directed), morph.generate.grid(3, 21, device="cpu")
    for g in graphs[:1] if directed else graphs:
        for devices in DEVICES[steps]:
            parts = morph.partition(g, devices, by=np.arange(len(g.points)) % len(devices))
            for sources in (None, [7], [3, 3, 9], 20):
                if devices[-1] == "cpu" or sources == [3, 3, 9]:
                    check(g, parts, sources, endpoints=sources is None)
    assert set(parts.points.columns) == {"global_id"}


def test_batches_of_graphs_that_are_too_large_for_wide_ones(constants):
    constants(MOST_COUNTS=100)  # of 40 points each: one source at a time
    g = drawn(False)
    check(g, morph.partition(g, ["cpu"] * 2), [0, 5, 9])


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("most", [-1.0, 2.0**13])
def test_scaled_counts_are_the_same(directed, most, constants):
    """Counting by scales from the first batch on, or from the first overflow on."""
    g = morph.generate.grid(12, 12, device="cpu")  # 705,432 paths between opposite corners
    if directed:
        src, dst = g.edges.src[:], g.edges.dst[:]
        g = morph.Graph.from_edges(src[src < dst], dst[src < dst], device="cpu")
    parts = morph.partition(g, ["cpu"] * 2, by=np.arange(144) % 2)
    constants(MOST=most, LARGE=2.0**13, UNIT=2.0**-26, WIDTHS=(1, 16))
    check(g, parts, range(0, 144, 7))
    check(g, parts, [77, 0, 143], endpoints=True)


RANKS = """
from test_parts_betweenness import batch, check, drawn, forget
from morph.partition.ranks import Operations

gather, count = Operations.gather, 0

def counted(self, value):
    global count
    count += 1
    return gather(self, value)

def on(comm, directed):
    global count
    g = drawn(directed)
    parts = morph.partition(g, by=np.arange(len(g.points)) % comm.size, comm=comm)
    for sources in (None, [7], 20):
        check(g, parts, sources, endpoints=sources is None)
    count = 0
    levels = morph.bfs(g, 7).levels
    morph.betweenness(parts, [7] * 64).centrality
    # each level has two crossings forwards, of which one carries sizes, and one backwards
    assert count <= 3 * levels + 12, (count, levels)
    return g, parts

Operations.gather = counted
on(MPI.COMM_SELF, True)
for directed in (True, False):
    found = on(comm, directed)
batch.SMALL = batch.SPARSE = 0  # messages
forget()
check(*found, 20)
print("equal")
"""


@pytest.mark.mpi
def test_batches_on_ranks():
    assert output_of_ranks(3, RANKS) == ["equal"] * 3


def test_pushes_after_counts_overflowed(constants):
    """A sweep that is repeated marks points above the marks of the first one."""
    constants(SMALL=0, SPARSE=0)
    src = np.repeat(np.arange(1199), 2)  # 2**1199 shortest paths
    g = morph.Graph.from_edges(src, src + 1, n=1200, device="cpu")
    check(g, morph.partition(g, ["cpu", "cpu"]), [0, 1])
