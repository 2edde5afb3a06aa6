"""Incremental SSSP: edges come in chunks, and each brings closer only whom it concerns (Falcon)."""

import sys

import numpy as np

import morph.io
from morph.prelude import atomic_min, bool_, i64

CHUNKS = 8
FAR = 1 << 60


@morph.kernel
def offer(e, changed):
    if atomic_min(e.dst.dist, e.src.dist + e.weight, changed) > e.src.dist + e.weight:
        e.dst.updated = True  # race: the same value


@morph.kernel
def relax(p, g, changed):
    for t in p.outnbrs:
        if atomic_min(t.dist, p.dist + g.weight(p, t), changed) > p.dist + g.weight(p, t):
            t.updated = True  # race: t runs in this step or in the next one


@morph.kernel
def settle(p):
    if p.updated and p.dist == p.before:
        p.updated = False
    p.before = p.dist


def main(path, device="auto"):
    edges = morph.io.read_edges(path)
    none = np.zeros(0, np.int32)
    g = morph.Graph.from_edges(none, none, weight=edges.weight[:0], n=edges.n, device=device)
    for name in ("dist", "before"):
        g.points.add(name, i64, fill=FAR)
    g.points.add("updated", bool_)
    g.points[0].dist = 0
    changed = morph.Flag(g)
    for part in np.array_split(np.arange(len(edges.src)), CHUNKS):
        applied = g.apply(inserts=(edges.src[part], edges.dst[part], edges.weight[part]))
        fresh = morph.Collection(g.edges)
        fresh.extend(applied.inserted)
        morph.foreach(fresh, offer, changed, where=lambda e: e.src.dist < FAR)
        while changed.take():
            morph.foreach(g.points, relax, g, changed, where=lambda p: p.updated)
            morph.foreach(g.points, settle)
    return g.points.dist


if __name__ == "__main__":
    print(*main(*sys.argv[1:]), sep="\n")
