"""A coast refined by a size field: short edges at the shore, long ones far from it.

Canada's outline is read, put on a plane (so that lengths are kilometres), triangulated and
refined.  The wanted edge length is a function of the place: it grows with the distance to the
shore.  Every edge of the result is held against it.

python examples/gallery/coast_size_field.py [PICTURE [DEVICE]]
"""

import sys
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

import morph

CANADA = Path(__file__).parents[2] / "meshes" / "canada.poly"
EARTH = 6371.0  # radius, km
SHORE, GROWTH = 60.0, 0.35  # km at the shore, and more per km away from it


def on_a_plane(degrees, centre=(-95.0, 63.0)):
    """Lambert's azimuthal equal-area projection, in km."""
    lon, lat = np.radians(degrees - [centre[0], 0]).T
    mid = np.radians(centre[1])
    cosine = np.sin(mid) * np.sin(lat) + np.cos(mid) * np.cos(lat) * np.cos(lon)
    x = np.cos(lat) * np.sin(lon)
    y = np.cos(mid) * np.sin(lat) - np.sin(mid) * np.cos(lat) * np.cos(lon)
    return EARTH * np.sqrt(2 / (1 + cosine))[:, None] * np.stack([x, y], axis=1)


def main(picture="coast_size_field.png", device="auto"):
    outline = morph.Pslg.read(CANADA)
    points = on_a_plane(outline.points)
    mesh = morph.triangulate(points, outline.segments, outline.holes, device=device)

    a, b = points[outline.segments].transpose(1, 0, 2)
    along = np.linspace(0, 1, 20)[:, None, None]
    shore = cKDTree((a + (b - a) * along).reshape(-1, 2))

    def size(places):
        return SHORE + GROWTH * shore.query(places)[0]

    # sizes are measured at points: some inside the country, first
    mesh = morph.refine(mesh, min_angle=20, max_area=300.0**2, device=device)
    fine = morph.refine(mesh, min_angle=28, size=size, device=device)
    fine.check()

    ends = fine.points[fine.triangles][:, [[0, 1], [1, 2], [2, 0]]]  # (m, 3, 2 ends, 2)
    length = np.hypot(*(ends[:, :, 1] - ends[:, :, 0]).transpose(2, 0, 1))
    wanted = size(ends.reshape(-1, 2)).reshape(-1, 3, 2).mean(axis=2)
    assert (length <= wanted * (1 + 1e-12)).all()
    quality = fine.quality()
    print(f"{len(mesh.triangles)} triangles became {quality.triangles:,}")
    print(f"edges of up to {quality.max_edge:.0f} km, none longer than asked at its place")

    figure = fine.plot(color="area", label="area (km²)")
    figure.savefig(picture, dpi=80)
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
