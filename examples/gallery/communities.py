"""Communities of a network of neighbours, by the Louvain method.

2,000 random points of the unit square are joined where they are near.  `morph.louvain` divides the
graph into communities with many edges inside and few between them; the result depends on the graph
and the seed alone, whatever the device.

python examples/gallery/communities.py [PICTURE [DEVICE]]
"""

import sys

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

import morph


def main(picture="communities.png", device="auto"):
    graph = morph.generate.geometric(2000, degree=10, seed=3, device=device)
    found = morph.louvain(graph, seed=1)
    morph.validate.louvain(graph, found.label, found.modularity)
    print(f"{found.number} communities, modularity {found.modularity:.3f}")
    assert found.modularity > 0.85

    host = graph.device.to_host
    places = np.stack([host(graph.points.x[:]), host(graph.points.y[:])], axis=1)
    src, dst = (np.asarray(host(graph.edges.columns[c].array)) for c in ("src", "dst"))
    label = np.unique(host(found.label), return_inverse=True)[1]
    size = np.bincount(label)
    colour = np.random.default_rng(2).permutation(len(size))[label] % 20  # neighbours differ
    within = label[src] == label[dst]

    figure = Figure(figsize=(6, 6), layout="constrained")
    ax = figure.add_subplot()
    for chosen, shade, width in ((within, "#9aa5b1", 0.5), (~within, "#d62828", 0.9)):
        lines = places[np.stack([src, dst], axis=1)[chosen & (src < dst)]]
        ax.add_collection(LineCollection(lines, colors=shade, linewidths=width))
    ax.scatter(*places.T, c=colour, cmap="tab20", s=9, zorder=3)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set_title(f"{found.number} communities; red edges lead from one to another", fontsize=10)
    ax.axis("off")
    figure.savefig(picture, dpi=80)
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
