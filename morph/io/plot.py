"""The picture of a mesh, by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from morph.mesh import Mesh

_FINE = 50_000  # with more triangles than this, edges would hide the colours


def draw(mesh: Mesh) -> Figure:
    """Draw triangles coloured by their smallest angle, segments as dark lines.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.collections import LineCollection, PolyCollection  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        message = "plotting needs matplotlib: pip install 'morph-engine[mesh]'"
        raise ImportError(message) from error

    corners = mesh.points[mesh.triangles]
    edges = corners[:, [1, 2, 0]] - corners
    back = -edges[:, [2, 0, 1]]
    cross = edges[:, :, 0] * back[:, :, 1] - edges[:, :, 1] * back[:, :, 0]
    angles = np.degrees(np.arctan2(cross, (edges * back).sum(axis=2))).min(axis=1)

    low = mesh.points.min(axis=0, initial=np.inf) if len(mesh.points) else np.zeros(2)
    high = mesh.points.max(axis=0, initial=-np.inf) if len(mesh.points) else np.ones(2)
    wide, tall = np.maximum(high - low, 1e-300)
    scale = 9 / max(wide, tall)
    figure = Figure(
        figsize=(max(wide * scale, 3) + 1.4, max(tall * scale, 3)), layout="constrained"
    )
    axes = figure.add_subplot()
    coarse = len(corners) <= _FINE
    faces = PolyCollection(
        list(corners),
        array=angles,
        cmap="YlGnBu_r",
        clim=(0, 60),
        edgecolors="white" if coarse else "face",
        linewidths=min(0.6, 60 / max(len(corners), 1) ** 0.5) if coarse else 0.1,
    )
    axes.add_collection(faces)
    lines = LineCollection(list(mesh.points[mesh.segments]), colors="#12263f", linewidths=0.9)
    axes.add_collection(lines)
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.margins(0.01)
    axes.set_axis_off()
    bar = figure.colorbar(faces, ax=axes, shrink=0.6, pad=0.01)
    bar.set_label("smallest angle (degrees)")
    bar.outline.set_visible(False)
    return figure
