"""SSSP, unoptimised: every point relaxes its edges in every round (Falcon, figures 40 and 41)."""

import sys

import morph.io
from morph.prelude import atomic_min, i64


@morph.kernel
def relax(p, g, changed):
    for t in p.outnbrs:
        atomic_min(t.dist, p.dist + g.weight(p, t), changed)


def main(path, device="auto"):
    g = morph.io.read_graph(path, device=device)
    g.points.add("dist", i64, fill=1 << 60)
    g.points[0].dist = 0
    changed = morph.Flag(g)
    changed.set()
    while changed.take():
        morph.foreach(g.points, relax, g, changed)
    return g.points.dist


if __name__ == "__main__":
    print(*main(*sys.argv[1:]), sep="\n")
