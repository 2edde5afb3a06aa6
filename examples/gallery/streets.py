"""Streets that carry the traffic: the betweenness of edges.

A town's streets are the edges of a Delaunay triangulation that no other crossing is near: the
Gabriel graph.  `morph.edge_betweenness` counts the shortest paths, by length, that lead along each.

python examples/gallery/streets.py [PICTURE [DEVICE]]
"""

import sys

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from scipy.spatial import cKDTree

import morph

CROSSINGS = 500


def main(picture="streets.png", device="auto"):
    rng = np.random.default_rng(11)
    places = rng.normal(size=(CROSSINGS, 2)) * [1.3, 1]  # most of them in the centre
    mesh = morph.triangulate(places, device=device)
    ends = np.unique(np.sort(mesh.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)), axis=0)
    a, b = places[ends].transpose(1, 0, 2)
    length = np.hypot(*(a - b).T)
    ends = ends[cKDTree(places).query((a + b) / 2)[0] >= length / 2 * (1 - 1e-9)]
    length = np.hypot(*(places[ends[:, 0]] - places[ends[:, 1]]).T)

    town = morph.Graph.from_edges(*ends.T, length, symmetrize=True, directed=False, device=device)
    found = morph.edge_betweenness(town, weighted=True)
    host = town.device.to_host
    arcs = np.stack([host(town.edges.columns[c].array) for c in ("src", "dst")], axis=1)
    once = arcs[:, 0] < arcs[:, 1]  # both arcs of a street have one value
    share = np.asarray(host(found.centrality))[once]
    top = share.argmax()
    print(f"{len(ends)} streets; one of them is on {share[top]:.1%} of all shortest paths")
    assert share.min() >= 0 and share[top] > 10 * np.median(share)

    figure = Figure(figsize=(7, 5), layout="constrained")
    ax = figure.add_subplot()
    order = share.argsort()
    lines = LineCollection(
        places[arcs[once]][order], array=share[order], cmap="magma_r", linewidths=0.6
        + 6 * np.sqrt(share[order] / share.max()), capstyle="round",
    )  # fmt: skip
    ax.add_collection(lines)
    ax.autoscale()
    ax.set_aspect("equal")
    ax.axis("off")
    figure.colorbar(lines, ax=ax, shrink=0.7, label="part of all shortest paths")
    figure.savefig(picture, dpi=80)
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
