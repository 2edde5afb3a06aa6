"""BFS with two worklists that are swapped (Falcon, figure 36)."""

import sys

import morph.io
from morph.prelude import atomic_min, i32


@morph.kernel
def bfs(p, following):
    for t in p.outnbrs:
        if atomic_min(t.dist, p.dist + 1) > p.dist + 1:
            following.add(t)


def main(path, device="auto"):
    g = morph.io.read_graph(path, device=device)
    g.points.add("dist", i32, fill=1234567890)
    g.points[0].dist = 0
    current, following = morph.Collection(g.points), morph.Collection(g.points)
    current.add(g.points[0])
    while not current.empty:
        morph.foreach(current, bfs, following)
        current, following = following, current
        following.clear()
    return g.points.dist


if __name__ == "__main__":
    print(*main(*sys.argv[1:]), sep="\n")
