"""An image divided by a minimum cut: what is object, and what is background?

Each pixel is a vertex.  The source has an edge to it that costs more the brighter the pixel is, the
sink one that costs more the darker it is, and pixels side by side are joined: to cut between them
costs, too.  `morph.max_flow` finds the cut of least cost, which removes the noise.

python examples/gallery/segmentation.py [PICTURE [DEVICE]]
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import morph

SIDE, JOINED = 72, 55


def image(rng):
    """A ring and a disc, and the same with noise, from 0 to 1."""
    y, x = np.mgrid[:SIDE, :SIDE] / SIDE
    radius = np.hypot(x - 0.42, y - 0.45)
    true = ((radius < 0.34) & (radius > 0.17)) | (np.hypot(x - 0.78, y - 0.76) < 0.13)
    return true, np.clip(0.3 + 0.4 * true + 0.22 * rng.standard_normal(true.shape), 0, 1)


def main(picture="segmentation.png", device="auto"):
    true, noisy = image(np.random.default_rng(6))
    n = SIDE * SIDE
    pixel = np.arange(n).reshape(SIDE, SIDE)
    bright = np.rint(100 * noisy).astype(np.int64).ravel()
    pairs = np.concatenate([
        np.stack([pixel[:, :-1].ravel(), pixel[:, 1:].ravel()]),
        np.stack([pixel[:-1].ravel(), pixel[1:].ravel()]),
    ], axis=1)  # fmt: skip
    src = np.concatenate([np.full(n, n), np.arange(n), pairs[0]])
    dst = np.concatenate([np.arange(n), np.full(n, n + 1), pairs[1]])
    capacity = np.concatenate([bright, 100 - bright, np.full(len(pairs[0]), JOINED)])
    graph = morph.Graph.from_edges(
        src, dst, capacity, symmetrize=True, directed=False, device=device
    )
    found = morph.max_flow(graph, n, n + 1)
    side = np.asarray(graph.device.to_host(found.cut))
    cost = capacity[side[src] != side[dst]].sum()
    assert cost == found.value  # the flow proves that no cut costs less
    cut = side[:n].reshape(SIDE, SIDE)
    wrong = [(guess != true).mean() for guess in (noisy > 0.5, cut)]
    print(f"cut of {found.value:,}; wrong pixels: threshold {wrong[0]:.1%}, cut {wrong[1]:.1%}")
    assert wrong[1] < 0.25 * wrong[0]

    figure = Figure(figsize=(9, 3.3), layout="constrained")
    for ax, (title, shown) in zip(
        figure.subplots(1, 3),
        [("noisy", noisy), (f"brighter than a half: {wrong[0]:.1%} wrong", noisy > 0.5),
         (f"minimum cut: {wrong[1]:.1%} wrong", cut)],
        strict=True,
    ):  # fmt: skip
        ax.imshow(shown, cmap="gray", interpolation="nearest")
        ax.set_title(title, fontsize=10)
        ax.axis("off")
    figure.savefig(picture, dpi=80)
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
