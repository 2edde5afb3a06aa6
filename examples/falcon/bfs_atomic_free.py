"""BFS without atomics: all writers of a point write the same value (Falcon, figures 48 and 49)."""

import sys

import morph.io
from morph.prelude import i32


@morph.kernel
def bfs(p, changed):
    for t in p.outnbrs:
        if t.dist > p.dist + 1:
            t.dist = p.dist + 1  # race: all write the same, which is not yet `level`
            changed.set()


def main(path, device="auto"):
    g = morph.io.read_graph(path, device=device)
    g.points.add("dist", i32, fill=1234567890)
    g.points[0].dist = level = 0
    changed = morph.Flag(g)
    changed.set()
    while changed.take():
        morph.foreach(g.points, bfs, changed, where=lambda p: p.dist == level)
        level += 1
    return g.points.dist


if __name__ == "__main__":
    print(*main(*sys.argv[1:]), sep="\n")
