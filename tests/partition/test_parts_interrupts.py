"""An interrupt at any place of `PartitionedGraph.apply` leaves no part or all parts changed."""

import os
import sys

import numpy as np
import pytest
from interrupting import FOLDER, Interrupts
from targets import host

import morph
from morph import validate
from morph.compiler.ir.layout import GLOBAL_ID

PLACES = tuple(os.path.join(FOLDER, name) for name in ("partition", "updates"))
MOST = 12 if os.environ.get("CI") else 25  # interrupts of a batch
N = 12


def made(directed):
    """A ring with chords, in three parts and on one device."""
    src = np.r_[np.arange(N), 0, 3]
    dst = np.r_[(np.arange(N) + 1) % N, 6, 3]
    g = morph.Graph.from_edges(src, dst, weight=np.arange(N + 2) + 100, n=N, directed=directed)
    return morph.partition(g, ["cpu"] * 3), g


def edges(g):
    ids = g.edges.ids() if g.edges.deletes else np.arange(len(g.edges))
    columns = (host(getattr(g.edges, c)[:])[ids].tolist() for c in ("src", "dst", "weight"))
    return sorted(zip(*columns, strict=True))


def batch(g):
    """Deletes, changes and inserts, which need new mirrors."""
    return g.apply(
        inserts=([1, 2, 9], [8, 10, 4], [30, 31, 32]), deletes=([3], [4]), updates=([5], [6], [7])
    )


def next_batch(g):
    return g.apply(inserts=([1, 7, 0], [9, 2, 5], [40, 41, 42]), deletes=([6], [7]))


def fails(g):
    def then(applied):
        raise ValueError

    with pytest.raises(ValueError):
        g.apply(inserts=([1, 2], [8, 10], [30, 31]), deletes=([3], [4]), then=then)


def check(parts):
    """All parts have the edges that they should have, and rows for their points."""
    whole = edges(parts)
    owner = {int(v): k for k in parts.here for v in parts.parts[k].share("points").global_ids(
        np.arange(parts.parts[k].share("points").owned))}  # fmt: skip
    for k in parts.here:
        g, share = parts.local(k), parts.parts[k].share("points")
        assert g.fixed
        validate.index(g)
        at = host(g.points.columns[GLOBAL_ID].array)[: len(g.points)]
        assert len(at) == share.owned + len(share.mirror_ids) == len(set(at.tolist()))
        assert np.array_equal(at, share.global_ids(np.arange(len(at))))
        found = sorted((int(at[u]), int(at[v]), w) for u, v, w in edges(g))
        ends = (0, 1) if parts.directed else (0,)
        assert found == [e for e in whole if any(owner[e[i]] == k for i in ends)]


@pytest.mark.unchecked
@pytest.mark.skipif(sys.implementation.name != "cpython", reason="instructions of CPython")
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("operation", [batch, fails])
def test_all_parts_are_as_before_or_as_after(operation, first, directed):
    def prepared():
        parts, g = made(directed)
        if not first:
            for x in (parts, g):
                x.apply(inserts=([0], [4], [50]))
        return parts, g

    Interrupts(PLACES).run(operation, prepared()[0])  # what is made once
    whole = Interrupts(PLACES)
    assert not whole.run(operation, prepared()[0])
    assert whole.count > 50
    for k in range(1, whole.count + 1, max(whole.count // MOST, 1)):
        parts, g = prepared()
        before = edges(g)
        Interrupts(PLACES, k).run(operation, parts)
        try:
            check(parts)
            if edges(parts) != before:
                operation(g)
            assert edges(parts) == edges(g)
            for x in (parts, g):
                next_batch(x)
            check(parts)
            assert edges(parts) == edges(g)
            found, want = (host(morph.sssp(x, 3).distance) for x in (parts, g))
            assert np.array_equal(found, want)
        except BaseException as error:
            raise AssertionError(f"after an interrupt at place {k} of {whole.count}") from error
