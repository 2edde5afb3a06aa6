"""SSSP, optimised: only the points that came closer relax edges (Falcon, figures 42 and 43)."""

import sys

import morph.io
from morph.prelude import atomic_min, bool_, i64


@morph.kernel
def relax(p, g, changed):
    for t in p.outnbrs:
        atomic_min(t.dist, p.dist + g.weight(p, t), changed)
        if t.dist < t.before:
            t.updated = True  # race: t runs in this step or in the next one


@morph.kernel
def settle(p):
    if p.updated and p.dist == p.before:
        p.updated = False
    p.before = p.dist


def main(path, device="auto"):
    g = morph.io.read_graph(path, device=device)
    g.points.add("dist", i64, fill=1 << 60)
    g.points.add("before", i64, fill=1 << 60)
    g.points.add("updated", bool_)
    g.points[0].dist, g.points[0].updated = 0, True
    changed = morph.Flag(g)
    changed.set()
    while changed.take():
        morph.foreach(g.points, relax, g, changed, where=lambda p: p.updated)
        morph.foreach(g.points, settle)
    return g.points.dist


if __name__ == "__main__":
    print(*main(*sys.argv[1:]), sep="\n")
