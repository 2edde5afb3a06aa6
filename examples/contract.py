"""Shorten a road network: take out its points of degree two, and keep all other distances.

A point p between a and b goes, with its roads; one road from a to b, as long as both together,
takes their place.  All points try at once.  Each item claims p, a and b, and ``single`` locks them
for one of the competing items: only the winner changes the graph there.  It marks a and b as old,
since their roads have changed, and old points wait for the next round.

    python examples/contract.py [DEVICE]
"""

import sys

import numpy as np

import morph
from morph.prelude import bool_, i32, single


@morph.kernel
def refresh(p):
    p.old = False


@morph.kernel
def contract(p, g, again):
    three = g.points.local(3)
    three.add(p)
    length = 0
    for t in p.outnbrs:
        three.add(t)
        length += g.weight(p, t)
    a, b = three[1], three[2]
    if a != b:
        if single(three):
            g.edges.new(a, b, length)
            g.edges.new(b, a, length)
            a.old = True
            b.old = True
            p.delete()  # takes its roads with it, when the round ends
            again.set()  # if any item claims, at least one wins


@morph.program
def contract_all(g, again):
    """Contract until no point can go; return the number of rounds.

    The adjacency is brought up to date after each round, inside the one launch.
    """
    rounds = 0
    while again.take():
        morph.foreach(g.points, refresh)
        morph.foreach(g.points, contract, g, again, where=lambda p: p.out_degree == 2 and not p.old)
        rounds += 1
    return rounds


def shorten(g):
    """Contract with a temporary column and a flag."""
    again = morph.Flag(g)
    again.set()
    with g.points.temporary_columns(old=(bool_, False)):
        return contract_all(g, again)


def network(side, seed=0):
    """Towns on a grid, every road between two of them bent at up to 20 points: src, dst, weight."""
    rng = np.random.default_rng(seed)
    town = np.arange(side * side).reshape(side, side)
    pairs = [(town[:, :-1], town[:, 1:]), (town[:-1], town[1:])]
    src, dst, n = [], [], side * side
    for u, v in ((u, v) for us, vs in pairs for u, v in zip(us.flat, vs.flat, strict=True)):
        bends = rng.integers(0, 21)
        road = [u, *range(n, n + bends), v]
        src += road[:-1]
        dst += road[1:]
        n += bends
    return np.array(src), np.array(dst), rng.integers(1, 100, len(src)).astype(np.int64)


def main(device="auto", side=40):
    src, dst, weight = network(side)
    g = morph.Graph.from_edges(src, dst, weight=weight, symmetrize=True, device=device)
    before = g.device.to_host(morph.sssp(g, source=side + 1).distance)
    g.points.add("origin", i32)
    g.points.origin[:] = np.arange(len(g.points))
    points, edges = len(g.points), len(g.edges)
    rounds = shorten(g)
    g.compact()
    origin = g.device.to_host(g.points.origin[:])
    source = int((origin == side + 1).argmax())
    after = g.device.to_host(morph.sssp(g, source=source).distance)
    assert (after == before[origin]).all()
    print(f"{points:,} points became {len(g.points):,} and {edges:,} edges {len(g.edges):,},"
          f" in {rounds} rounds on {g.device.name}; all distances are as before")  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
