"""A plate of two materials with a hole: regions that are meshed to sizes of their own.

The plate is steel, with a round hole at its left and a round copper plug at its right.  Each
triangle tells its material, and the copper gets smaller triangles.

python examples/gallery/region_hole.py [PICTURE [DEVICE]]
"""

import sys

import numpy as np

import morph

STEEL, COPPER = 1, 2


def circle(x, y, radius, count):
    """Points of a polygon, and its segments."""
    angle = np.arange(count) * (2 * np.pi / count)
    k = np.arange(count)
    way = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return way * radius + [x, y], np.stack([k, (k + 1) % count], axis=1)


def polygon_area(points):
    x, y = points.T
    return (x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2


def main(picture="region_hole.png", device="auto"):
    plate = np.array([[0, 0], [4, 0], [4, 2], [0, 2.0]]), np.array([[0, 1], [1, 2], [2, 3], [3, 0]])
    hole, plug = circle(1.0, 1.0, 0.45, 40), circle(2.9, 1.0, 0.6, 48)
    points = np.concatenate([plate[0], hole[0], plug[0]])
    segments = np.concatenate([plate[1], hole[1] + 4, plug[1] + 44])

    mesh = morph.triangulate(
        points,
        segments,
        holes=[[1.0, 1.0]],
        regions=[[0.1, 0.1, STEEL, 0.02], [2.9, 1.0, COPPER, 0.002]],  # x, y, what, largest area
        device=device,
    )
    fine = morph.refine(mesh, min_angle=30, max_area="regions", device=device)
    fine.check()

    material, areas = fine.triangle_attributes[:, 0], fine.areas()
    for what, name, wanted, most in (
        (COPPER, "copper", polygon_area(plug[0]), 0.002),
        (STEEL, "steel", 8 - polygon_area(hole[0]) - polygon_area(plug[0]), 0.02),
    ):
        mine = areas[material == what]
        assert np.isclose(mine.sum(), wanted, rtol=1e-12) and mine.max() <= most
        print(f"{name:>6}: {len(mine):4} triangles of {mine.max():.4f} or less, area {wanted:.4f}")
    assert fine.quality().min_angle >= 30

    figure = fine.plot(color="region", label="material")
    figure.savefig(picture, dpi=100)
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
