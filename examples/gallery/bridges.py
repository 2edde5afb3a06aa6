"""A bridge is closed: shortest paths, kept exact while the graph changes.

A city is a grid of streets with random travel times, and a river with three bridges.
`morph.DynamicSSSP` has the times from the station; closing the middle bridge is a batch of
deletions, after which it repairs the times that were affected, and no others.

python examples/gallery/bridges.py [PICTURE [DEVICE]]
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import morph

SIDE, RIVER, BRIDGES = 64, 30, (8, 31, 55)


def city(device):
    """Streets between crossings, in seconds; the river lies above row `RIVER`."""
    grid = morph.generate.grid(SIDE, SIDE, weight=(20, 60), seed=5)
    src, dst, weight = (grid.edges.columns[c].array for c in ("src", "dst", "weight"))
    low, high = np.minimum(src, dst), np.maximum(src, dst)
    crosses = (low // SIDE == RIVER) & (high // SIDE == RIVER + 1)
    kept = (src < dst) & (~crosses | np.isin(src % SIDE, BRIDGES))
    return morph.Graph.from_edges(
        src[kept], dst[kept], weight[kept], n=SIDE * SIDE, symmetrize=True, directed=False,
        device=device,
    )  # fmt: skip


def main(picture="bridges.png", device="auto"):
    graph = city(device)
    times = morph.DynamicSSSP(graph, source=5 * SIDE + 31)

    def minutes():
        seconds = np.asarray(graph.device.to_host(times.distance))
        return seconds.reshape(SIDE, SIDE) / 60

    before = minutes()
    bridge = RIVER * SIDE + BRIDGES[1]
    done = times.apply(deletes=([bridge], [bridge + SIDE]))
    after = minutes()
    from_scratch = morph.sssp(graph, 5 * SIDE + 31).distance
    assert (graph.device.to_host(times.distance == from_scratch)).all()
    late = after - before
    print(f"{done.decision}: {done.affected:,} of {SIDE**2:,} crossings affected")
    print(f"later than before: {(late > 0).sum():,}, by {late.max():.1f} minutes at most")
    assert (late >= 0).all() and (late > 0).any() and (late[: RIVER + 1] == 0).mean() > 0.9

    figure = Figure(figsize=(9.6, 3.1), layout="constrained")
    for ax, (title, values, colours) in zip(
        figure.subplots(1, 3),
        [("minutes from the station", before, "viridis"), ("the middle bridge closed", after,
          "viridis"), ("minutes lost", late, "Reds")],
        strict=True,
    ):  # fmt: skip
        shown = ax.imshow(values, cmap=colours, vmin=0)
        ax.axhline(RIVER + 0.5, color="#4ea8de", linewidth=3)
        for column in BRIDGES if values is before else (BRIDGES[0], BRIDGES[2]):
            ax.plot([column] * 2, [RIVER - 0.5, RIVER + 1.5], color="k", linewidth=2)
        ax.plot(31, 5, "*", color="white", markeredgecolor="k", markersize=10)
        ax.set_title(title, fontsize=10)
        ax.axis("off")
        figure.colorbar(shown, ax=ax, shrink=0.8)
    figure.savefig(picture, dpi=80)
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
