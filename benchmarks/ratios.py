"""A plot of peers' times over Morph's: a row for each graph and algorithm, a log scale."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphs import Result

MARKS = {"SciPy": "o", "igraph": "s", "NetworKit": "^", "NetworkX": "D", "cuGraph": "P"}


def plot(results: list[Result], path: Path) -> None:
    """Draw one panel for each device; the kind of file follows from its suffix."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    devices = list(dict.fromkeys(r.device for r in results))
    most = max(sum(r.device == d for r in results) for d in devices)
    figure, panels = pyplot.subplots(
        1, len(devices), figsize=(3.5 + 5 * len(devices), 1.5 + 0.24 * most),
        squeeze=False, layout="constrained",
    )  # fmt: skip
    for axes, device in zip(panels[0], devices, strict=True):
        lines = [r for r in results if r.device == device]
        for name, mark in MARKS.items():
            found = [(r.peers[name][0] / r.seconds, y) for y, r in enumerate(lines)
                     if name in r.peers]  # fmt: skip
            if found:
                axes.plot(*zip(*found, strict=True), mark, label=name, markersize=5, alpha=0.8)
        axes.axvline(1, color="black", linewidth=1)
        for y in range(1, len(lines)):
            if lines[y].graph != lines[y - 1].graph:
                axes.axhline(y - 0.5, color="grey", linewidth=0.5)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("peer's time / Morph's (right of 1, Morph is faster)")
        axes.set_yticks(range(len(lines)), [f"{r.graph}  {r.algorithm}" for r in lines])
        axes.set_ylim(len(lines) - 0.5, -0.5)
        axes.set_title(f"Morph on {device}")
        axes.grid(axis="x", which="both", linewidth=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="best", fontsize="small")
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
