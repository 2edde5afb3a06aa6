"""A field from scattered samples: linear interpolation on a Delaunay triangulation.

A function is known at 1,500 random places.  `mesh.interpolate` gives it at the pixels of an image,
each by the triangle that contains the pixel; outside of the triangulation it is NaN.

python examples/gallery/interpolation.py [PICTURE [DEVICE]]
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import morph

SAMPLES, PIXELS = 1500, 300


def height(places):
    """Hills and a ridge."""
    x, y = np.asarray(places).T
    hills = np.exp(-8 * ((x - 0.3) ** 2 + (y - 0.65) ** 2)) + 0.7 * np.exp(
        -20 * ((x - 0.72) ** 2 + (y - 0.3) ** 2)
    )
    return hills + 0.25 * np.exp(-60 * (x + y - 1.25 + 0.1 * np.sin(9 * x)) ** 2)


def main(picture="interpolation.png", device="auto"):
    samples = np.random.default_rng(4).random((SAMPLES, 2))
    mesh = morph.triangulate(samples, device=device)
    middle = (np.arange(PIXELS) + 0.5) / PIXELS
    pixels = np.stack(np.meshgrid(middle, middle), axis=-1)
    found = mesh.interpolate(height(samples), pixels.reshape(-1, 2)).reshape(PIXELS, PIXELS)
    inside = np.isfinite(found)
    error = abs(found - height(pixels.reshape(-1, 2)).reshape(found.shape))[inside]
    print(f"{inside.mean():.1%} of the pixels, error {error.mean():.4f}, at most {error.max():.3f}")
    assert inside.mean() > 0.97 and error.mean() < 0.005

    figure = Figure(figsize=(8, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    mesh.plot(color="none", segments=False, ax=left)
    left.scatter(*samples.T, s=5, c=height(samples), cmap="terrain", zorder=3)
    left.set_title(f"{SAMPLES:,} samples", fontsize=10)
    right.imshow(found, origin="lower", extent=(0, 1, 0, 1), cmap="terrain")
    right.contour(middle, middle, found, levels=12, colors="k", linewidths=0.4)
    right.set_title("interpolated", fontsize=10)
    right.axis("off")
    figure.savefig(picture, dpi=80)
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
