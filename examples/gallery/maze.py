"""A maze: the minimum spanning tree of a grid with random weights, and the path out.

The edges of the tree are the passages of the maze, so that one path leads from each cell to each
other one.  `morph.bfs` on the passages gives the numbers of steps from the entrance.

python examples/gallery/maze.py [PICTURE [DEVICE]]
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import morph

ROWS, COLUMNS = 40, 64


def main(picture="maze.png", device="auto"):
    grid = morph.generate.grid(ROWS, COLUMNS, weight=(1, 1000), seed=12, device=device)
    tree = morph.mst(grid)
    host = grid.device.to_host
    src, dst = (grid.edges.columns[c].array[tree.edges] for c in ("src", "dst"))
    assert tree.components == 1 and len(src) == ROWS * COLUMNS - 1
    passages = morph.Graph.from_edges(
        src, dst, n=ROWS * COLUMNS, symmetrize=True, directed=False, device=device
    )
    found = morph.bfs(passages, 0)
    steps = np.asarray(host(found.distance))
    route = np.asarray(host(morph.path(passages, found, ROWS * COLUMNS - 1).vertices))
    print(f"{len(route) - 1} steps from corner to corner; the farthest cell is at {steps.max()}")

    # cells at odd rows and columns of an image, the passages between them, walls elsewhere
    image = np.full((2 * ROWS + 1, 2 * COLUMNS + 1), np.nan)
    row, column = np.divmod(np.arange(ROWS * COLUMNS), COLUMNS)
    image[2 * row + 1, 2 * column + 1] = steps
    a, b = np.asarray(host(src)), np.asarray(host(dst))
    image[row[a] + row[b] + 1, column[a] + column[b] + 1] = np.minimum(steps[a], steps[b])
    figure = Figure(figsize=(8, 5.1), layout="constrained")
    ax = figure.add_subplot()
    ax.set_facecolor("#1d2233")
    ax.imshow(image, cmap="YlGnBu", interpolation="nearest")
    ax.plot(2 * column[route] + 1, 2 * row[route] + 1, color="#d62828", linewidth=1.6)
    ax.set(xticks=[], yticks=[])
    figure.savefig(picture, dpi=80)
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
