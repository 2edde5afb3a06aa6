"""Boruvka's MST on worklists of requests that carry their data (Falcon, figures 32, 53 and 54).

A request is a point, how far it has gone along its edges, which are sorted by weight, and the edge
it proposes.  Of the proposals of a component, one of its lightest is taken; all others go on from
the edge where they stopped, since what was passed lies inside the component for good.  Points whose
next edge is heavier than ``LIMIT`` wait until the light edges are used up.  Weights are integers.
"""

import sys

import morph.io
from morph.prelude import atomic_min, i32, i64, single

FAR, LIMIT = (1 << 63) - 1, 2000


@morph.func
def propose(p, start, g, sets, limit, proposed, pending):
    mine = sets.find(p)
    at = start
    weight, other = i64(0), None
    for t in p.outnbrs[start:]:
        weight = g.weight(p, t)
        if weight > limit or sets.find(t) != mine:
            other = t
            break
        at += 1
    if other is not None:
        if weight > limit:
            pending.add(p, at=at)
        else:
            proposed.add(p, other=other, component=mine, weight=weight, at=at)
            atomic_min(mine.lightest, weight)


@morph.kernel
def begin(p, g, sets, limit, proposed, pending):
    propose(p, 0, g, sets, limit, proposed, pending)


@morph.kernel
def go_on(r, g, sets, limit, proposed, pending):
    propose(r.item, r.at, g, sets, limit, proposed, pending)


@morph.kernel
def join(r, sets, tree):
    if r.weight == r.component.lightest:
        if single(r.component.lock):
            if sets.union(r.item, r.other):
                tree.add(r.item, other=r.other, weight=r.weight)


@morph.kernel
def reset(r):
    r.component.lightest = FAR  # race: the same value
    r.component.lock = 0  # race: the same value


def main(path, device="auto"):
    g = morph.io.read_graph(path, symmetrize=True, device=device)
    g.sort_edges()
    g.points.add("lightest", i64, fill=FAR)
    g.points.add("lock", i32)
    point, sets = morph.Ref(g.points), morph.Set(g.points)
    work, proposed = (
        morph.Collection(g.points, other=point, component=point, weight=i64, at=i64)
        for _ in range(2)
    )
    pending = morph.Collection(g.points, at=i64)
    tree = morph.Collection(g.points, other=point, weight=i64)
    morph.foreach(g.points, begin, g, sets, LIMIT, proposed, pending)
    for limit in (LIMIT, FAR):
        while not proposed.empty:
            morph.foreach(proposed, join, sets, tree)
            morph.foreach(proposed, reset)
            work, proposed = proposed, work
            proposed.clear()
            morph.foreach(work, go_on, g, sets, limit, proposed, pending)
        if limit == LIMIT:
            morph.foreach(pending, go_on, g, sets, FAR, proposed, pending)
    return tree


if __name__ == "__main__":
    for edge in main(*sys.argv[1:]):
        print(edge.item.id, edge.other.id, edge.weight)
