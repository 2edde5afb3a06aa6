"""Finite elements in colours: triangles of one colour share no corner.

Elements that share no corner can be assembled at the same time, without atomics or locks.  The
graph of triangles that share a corner is a product of sparse matrices, which `morph.colouring`
takes as it is.

python examples/gallery/element_colours.py [PICTURE [DEVICE]]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.sparse import csr_array

import morph

COUNTRY = Path(__file__).parents[2] / "meshes" / "south_africa.node"


def main(picture="element_colours.png", device="auto"):
    mesh = morph.refine(morph.Mesh.read(COUNTRY), min_angle=28, max_area=0.3, device=device)
    m = len(mesh.triangles)
    offsets = np.arange(0, 3 * m + 1, 3)
    corner = csr_array((np.ones(3 * m, np.int32), mesh.triangles.ravel(), offsets))
    graph = morph.Graph.of(corner @ corner.T).to(morph.device(device))  # loops do not matter
    found = morph.colouring(graph)
    colour = np.asarray(graph.device.to_host(found.color))
    print(f"{m:,} triangles, {found.number} colours")
    for k in range(found.number):
        corners = mesh.triangles[colour == k].ravel()
        assert len(np.unique(corners)) == len(corners)
    assert found.number >= np.bincount(mesh.triangles.ravel()).max()  # all share one corner

    figure = Figure(figsize=(7.2, 5.2), layout="constrained")
    ax = figure.add_subplot()
    ax.tripcolor(
        *mesh.points.T, mesh.triangles, colour, cmap="tab20", vmin=-0.5, vmax=19.5,
        edgecolors="white", linewidth=0.4,
    )  # fmt: skip
    ax.set_aspect("equal")
    ax.set_title(f"{m:,} triangles in {found.number} colours", fontsize=10)
    ax.axis("off")
    figure.savefig(picture, dpi=80)
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
