"""Voronoi cells of random points, made even by Lloyd's method.

Each point moves to the centroid of its Voronoi cell, forty times.  The cells come from
`mesh.voronoi()`: an edge of the diagram is a side of the cells of both points that it separates.

python examples/gallery/lloyd.py [PICTURE [DEVICE]]
"""

import sys

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

import morph

INSIDE, RIM, ROUNDS = 400, 64, 40


def cells(mesh):
    """Sides of the cells (k, 2 ends, 2), and the points (k, 2) on both sides of each."""
    found = mesh.voronoi()
    whole = found.edges.min(axis=1) >= 0  # a ray has an end -1
    return found.vertices[found.edges[whole]], found.sites[whole]


def centroids(mesh):
    """The centroid and the area of each point's cell, from triangles of the point and a side."""
    sides, points = cells(mesh)
    total, area = np.zeros_like(mesh.points), np.zeros(len(mesh.points))
    for mine in points.T:
        at = mesh.points[mine]
        a, b = (sides - at[:, None]).transpose(1, 0, 2)
        part = abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2
        np.add.at(area, mine, part)
        np.add.at(total, mine, part[:, None] * (at + (a + b) / 3))
    return total / np.maximum(area, 1e-300)[:, None], area


def main(picture="lloyd.png", device="auto"):
    rng = np.random.default_rng(8)
    turn = np.arange(RIM) * (2 * np.pi / RIM)
    rim = np.stack([np.cos(turn), np.sin(turn)], axis=1)  # stays
    radius, angle = 0.93 * np.sqrt(rng.random(INSIDE)), rng.random(INSIDE) * 2 * np.pi
    inside = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    figure = Figure(figsize=(8, 4.1), layout="constrained")
    spread = []
    for panel, rounds in enumerate([0, ROUNDS]):
        mesh = morph.triangulate(np.concatenate([inside, rim]), device=device)
        for _ in range(rounds):
            inside = centroids(mesh)[0][:INSIDE]
            mesh = morph.triangulate(np.concatenate([inside, rim]), device=device)
        area = centroids(mesh)[1][:INSIDE]
        spread.append(area.std() / area.mean())
        ax = figure.add_subplot(1, 2, panel + 1)
        ax.add_collection(LineCollection(cells(mesh)[0], colors="#3b5b92", linewidths=0.8))
        ax.plot(*inside.T, ".", color="#d1495b", markersize=3)
        ax.set(xlim=(-1.02, 1.02), ylim=(-1.02, 1.02), aspect="equal")
        ax.set_title(f"after {rounds} rounds" if rounds else "random points", fontsize=10)
        ax.axis("off")
    print(f"areas vary by {spread[0]:.0%}, then by {spread[1]:.0%}")
    assert spread[1] < 0.3 * spread[0]
    figure.savefig(picture, dpi=80)
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
