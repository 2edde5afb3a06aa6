"""BFS, unoptimised: every point tries all its edges in every round (Falcon, figures 44 and 45)."""

import sys

import morph.io
from morph.prelude import atomic_min, i32


@morph.kernel
def bfs(p, changed):
    for t in p.outnbrs:
        atomic_min(t.dist, p.dist + 1, changed)


def main(path, device="auto"):
    g = morph.io.read_graph(path, device=device)
    g.points.add("dist", i32, fill=1234567890)
    g.points[0].dist = 0
    changed = morph.Flag(g)
    changed.set()
    while changed.take():
        morph.foreach(g.points, bfs, changed)
    return g.points.dist


if __name__ == "__main__":
    print(*main(*sys.argv[1:]), sep="\n")
