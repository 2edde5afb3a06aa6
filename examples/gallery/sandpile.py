"""An abelian sandpile, by an algorithm of one's own: two kernels and a program.

A cell with four grains or more gives one to each of its neighbours, until no cell has four.  All
cells topple at the same time; the result does not depend on the order.  Grains that leave the grid
are lost.

python examples/gallery/sandpile.py [PICTURE [DEVICE]]
"""

import sys

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

import morph
from morph.prelude import atomic_add, atomic_sub, i32

SIDE, GRAINS = 101, 16_000


@morph.kernel
def topple(p):
    times = p.grains // 4
    atomic_sub(p.grains, 4 * times)
    for t in p.outnbrs:
        atomic_add(t.given, times)


@morph.kernel
def collect(p, unstable):
    p.grains += p.given
    p.given = 0
    if p.grains > 3:
        unstable.set()


@morph.program
def relax(g, unstable):
    rounds = 0
    while unstable.take():
        morph.foreach(g.points, topple, where=lambda p: p.grains > 3)
        morph.foreach(g.points, collect, unstable)
        rounds += 1
    return rounds


def main(picture="sandpile.png", device="auto"):
    grid = morph.generate.grid(SIDE, SIDE, device=device)
    for name in ("grains", "given"):
        grid.points.add(name, i32)
    middle = SIDE // 2 * (SIDE + 1)
    grid.points[middle].grains = GRAINS
    unstable = morph.Flag(grid)
    unstable.set()
    rounds = relax(grid, unstable)
    grains = np.asarray(grid.device.to_host(grid.points.grains[:])).reshape(SIDE, SIDE)
    print(f"{rounds:,} rounds; {(grains > 0).sum():,} cells have sand")
    assert grains.max() == 3 and (grains == grains.T).all() and (grains == grains[::-1]).all()
    assert (grains[0] == 0).all() and grains.sum() == GRAINS  # none has left the grid

    figure = Figure(figsize=(6, 6), layout="constrained")
    ax = figure.add_subplot()
    colours = ListedColormap(["#ffffff", "#90caf9", "#f6bd60", "#b5446e"])
    ax.imshow(grains, cmap=colours, interpolation="nearest")
    ax.axis("off")
    figure.savefig(picture, dpi=80)
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
