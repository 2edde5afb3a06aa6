"""Routes across Norway over land: shortest paths along the edges of a mesh.

The coast is refined to small triangles, whose edges, with their lengths in km, are a graph.
`morph.sssp` finds the distances from Oslo; `morph.path` follows the predecessors back.

python examples/gallery/overland.py [PICTURE [DEVICE]]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import morph

NORWAY = Path(__file__).parents[2] / "meshes" / "norway.node"
EARTH = 6371.0  # radius, km
TOWNS = {"Oslo": (10.75, 59.91), "Bergen": (5.6, 60.39), "Trondheim": (10.40, 63.35),
         "Bodo": (14.6, 67.28), "Kirkenes": (29.9, 69.6)}  # fmt: skip


def on_a_plane(degrees, centre=(15.0, 65.0)):
    """Conic enough for a picture: km to the east and the north of a place."""
    lon, lat = np.radians(np.asarray(degrees) - centre).T
    return EARTH * np.stack([lon * np.cos(np.radians(centre[1]) + lat), lat], axis=-1)


def main(picture="overland.png", device="auto"):
    outline = morph.Mesh.read(NORWAY)
    places = on_a_plane(outline.points)
    rough = morph.triangulate(places, outline.segments, device=device)
    mesh = morph.refine(rough, min_angle=25, size=np.full(len(rough.points), 25.0), device=device)

    ends = np.unique(np.sort(mesh.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)), axis=0)
    length = np.hypot(*(mesh.points[ends[:, 0]] - mesh.points[ends[:, 1]]).T)
    graph = morph.Graph.from_edges(*ends.T, length, symmetrize=True, directed=False, device=device)
    towns = {
        name: int(np.hypot(*(mesh.points - on_a_plane(where)).T).argmin())
        for name, where in TOWNS.items()
    }
    found = morph.sssp(graph, towns["Oslo"], predecessors=True)
    distance = np.asarray(graph.device.to_host(found.distance))
    straight = np.hypot(*(mesh.points - mesh.points[towns["Oslo"]]).T)
    reached = np.isfinite(distance)  # islands are not
    assert (distance[reached] >= straight[reached] - 1e-9).all()

    figure = Figure(figsize=(7.5, 7.5), layout="constrained")
    ax = figure.add_subplot()
    overland = np.where(reached, distance, np.nan)
    mesh.plot(values=overland, label="km from Oslo, overland", cmap="viridis_r", ax=ax)
    ax.set_ylim(top=on_a_plane((15.0, 72.0))[1])  # Svalbard lies farther north
    for name, town in towns.items():
        route = np.asarray(graph.device.to_host(morph.path(graph, found, town).vertices))
        ax.plot(*mesh.points[route].T, color="#c1121f", linewidth=1.5)
        side = "right" if name == "Kirkenes" else "left"
        ax.text(*mesh.points[town], f" {name} ", fontsize=9, fontweight="bold", ha=side)
        print(f"{name:10} {distance[town]:6.0f} km, {straight[town]:6.0f} as the crow flies")
    figure.savefig(picture, dpi=80)
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
