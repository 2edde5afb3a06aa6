"""Plots of meshes, by matplotlib."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from morph.io.text.files import replacing
from morph.io.text.scanner import StrPath
from morph.language.messages import shown
from morph.mesh.arrays import real_array
from morph.plotting.axes import new_axes, require_matplotlib
from morph.plotting.raster import rasterize, trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from morph.mesh import Mesh

VECTOR_LIMIT = 20_000  # more triangles, or segments, are rasterised
PIXELS = 1800  # pixels of the image along its longer side
PREVIEWED = 500_000  # larger meshes take too long for a preview in a notebook
PREVIEW_DPI = 70  # 630 pixels along the longer side, at most a megabyte
INK = "#12263f"
KINDS = ("angle", "area", "density", "region", "none")
COUNTED = 16  # mean number of triangles in each square of a rasterised density
REGIONS = ("#8ecae6", "#f4a582", "#a6d96a", "#ffd166", "#b39ddb", "#e5989b", "#80cbc4", "#cfc5a5")


def draw(
    mesh: Mesh,
    color: str = "angle",
    values: Any = None,
    label: str | None = None,
    segments: bool = True,
    cmap: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a mesh on the host.  See `morph.Mesh.plot`."""
    require_matplotlib()
    from matplotlib.patches import Patch  # noqa: PLC0415

    bad = np.flatnonzero(~np.isfinite(mesh.points).all(axis=1))
    if len(bad):
        raise ValueError(f"point {bad[0]} is at {mesh.points[bad[0]].tolist()}: it has no place")
    coloring = _coloring_of(mesh, color, values, label, cmap)
    low, high = _corners(mesh)
    if ax is None:
        wide, tall = (high - low) * (9 / (high - low).max())
        ax = new_axes(max(wide, 3) + (1.4 if coloring.label is not None else 0), max(tall, 3))
    figure: Any = ax.get_figure(root=True)
    shown = _triangles(mesh, coloring, ax, low, high)
    if segments:
        _segments(mesh, ax, low, high)
    ax.set_aspect("equal")
    margin = 0.01 * (high - low)
    ax.set_xlim(low[0] - margin[0], high[0] + margin[0])
    ax.set_ylim(low[1] - margin[1], high[1] + margin[1])
    ax.set_axis_off()
    if coloring.label is not None:
        beyond = "min" if color == "area" and values is None else "neither"
        bar = figure.colorbar(
            shown, ax=ax, shrink=0.6, pad=0.01, label=coloring.label, extend=beyond, extendfrac=0.03
        )
        bar.outline.set_visible(False)
    if coloring.kinds is not None:
        squares = [
            Patch(color=coloring.cmap(k), label=f"{kind:g}")
            for k, kind in enumerate(coloring.kinds)
        ]
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
        ax.legend(handles=squares, title=label or "region", frameon=False, **place)
    return figure  # type: ignore[no-any-return]


def preview(mesh: Mesh) -> bytes | None:
    """Draw a small PNG; None for empty, large or non-finite meshes.  See `Mesh`."""
    if not 0 < len(mesh.triangles) <= PREVIEWED:
        return None
    try:
        figure = draw(mesh.to("cpu"))
    except (ImportError, ValueError):
        return None
    out = BytesIO()
    figure.savefig(out, format="png", dpi=PREVIEW_DPI)
    return out.getvalue()


def save(figure: Figure, path: StrPath) -> None:
    """Save a figure like `write_figure`; the default suffix is ``.png``."""
    write_figure(figure, path if Path(path).suffix else f"{os.fspath(path)}.png")


def write_figure(figure: Figure, path: StrPath) -> None:
    """Write a figure atomically, in the format of the suffix, by default PNG."""
    with replacing(path) as (file,):
        figure.savefig(file, format=Path(path).suffix[1:].lower() or "png", dpi=200)


def _corners(mesh: Mesh) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Low and high corner of the drawing; they differ in both coordinates."""
    used = mesh.points[np.unique(mesh.triangles)] if len(mesh.triangles) else mesh.points
    if not len(used):
        return np.zeros(2), np.ones(2)
    low, high = used.min(axis=0), used.max(axis=0)
    least = max(float((high - low).max()), 1e-300) * 1e-3
    return low, np.maximum(high, low + least)


@dataclass
class _Coloring:
    """Values of triangles or points, their colour map and labels."""

    values: NDArray[np.float64]
    cmap: Any
    norm: Any
    label: str | None = None  # label of the scale; no scale if None
    kinds: NDArray[np.float64] | None = None  # the categories 0, 1, 2, ...
    counted: bool = False  # densities, for which an image counts triangles
    at_points: bool = False


def _coloring_of(
    mesh: Mesh, color: str, values: Any, label: str | None, cmap: str | None
) -> _Coloring:
    """Choose the colouring."""
    from matplotlib import colormaps  # noqa: PLC0415
    from matplotlib.colors import BoundaryNorm, ListedColormap, LogNorm, Normalize  # noqa: PLC0415

    if isinstance(cmap, str) and cmap not in colormaps:
        raise ValueError(f"cmap is the name of a matplotlib colour map, not {shown(cmap)}")
    if values is not None:
        numbers = real_array("values", values)
        n, m = len(mesh.points), len(mesh.triangles)
        if numbers.shape not in ((n,), (m,)):
            raise ValueError(
                f"values must have shape ({n},), one for each point, or ({m},), one for each"
                f" triangle, got {shown(numbers.shape)}"
            )
        seen = numbers[np.isfinite(numbers)]
        norm = Normalize(seen.min(), seen.max()) if len(seen) else Normalize(0, 1)
        return _Coloring(numbers, cmap or "viridis", norm, label or "", at_points=len(numbers) == n)
    if not isinstance(color, str) or color not in KINDS:
        raise ValueError(f"color is one of {', '.join(KINDS)}, not {shown(color)}")
    if color == "angle":
        numbers = mesh.angles().min(axis=1, initial=180.0)
        label = label or "smallest angle (degrees)"
        return _Coloring(numbers, cmap or "YlGnBu_r", Normalize(0, 60), label)
    if color == "area":
        numbers = mesh.areas()
        seen = np.sort(numbers[numbers > 0])  # invisibly small ones must not dominate the scale
        least = np.searchsorted(np.cumsum(seen), 0.01 * seen.sum())
        scale: Any = LogNorm(seen[least], max(seen[-1], 2 * seen[least])) if len(seen) else None
        return _Coloring(numbers, cmap or "YlGnBu", scale, label or "area")
    if color == "density":
        with np.errstate(divide="ignore"):
            numbers = 1 / mesh.areas()
        scale = _scale_of(numbers[np.isfinite(numbers) & (numbers > 0)])
        return _Coloring(numbers, cmap or "YlGnBu", scale, label or "triangles per unit area",
                         counted=True)  # fmt: skip
    if color == "region" and mesh.triangle_attributes.shape[1]:
        numbers = mesh.triangle_attributes[:, 0]
        kinds, which = np.unique(numbers, return_inverse=True)
        if len(kinds) > len(REGIONS):  # a continuous scale
            norm = Normalize(kinds[0], kinds[-1])
            return _Coloring(numbers, cmap or "viridis", norm, label or "region")
        listed = ListedColormap(list(REGIONS[: len(kinds)]))
        edges = BoundaryNorm(np.arange(len(kinds) + 1) - 0.5, listed.N)
        return _Coloring(which.astype(np.float64), listed, edges, kinds=kinds)
    plain = ListedColormap([REGIONS[0]])
    return _Coloring(np.zeros(len(mesh.triangles)), plain, Normalize(0, 1))


def _scale_of(densities: NDArray[np.float64]) -> Any:
    """Return a logarithmic scale between the quantiles of 1 % and 99 %."""
    from matplotlib.colors import LogNorm  # noqa: PLC0415

    if not len(densities):
        return None
    least, most = np.quantile(densities, [0.01, 0.99])
    return LogNorm(least / 2**0.5, most * 2**0.5, clip=True)


def _densities(mesh: Mesh, low: Any, high: Any) -> NDArray[np.float64]:
    """Count triangles per covered area in squares of pixels; nan outside."""
    shape, points = _pixels(mesh, low, high)
    m = len(mesh.triangles)
    covered = ~np.isnan(rasterize(points, mesh.triangles, np.ones(m), shape))
    side = max(4, math.ceil(math.sqrt(COUNTED * covered.sum() / m)))
    rows, columns = -(-shape[0] // side), -(-shape[1] // side)
    squares = np.zeros((rows * side, columns * side), bool)
    squares[: shape[0], : shape[1]] = covered
    inside = squares.reshape(rows, side, columns, side).sum(axis=(1, 3))
    middle = (points[mesh.triangles].mean(axis=1) / side).astype(np.int64)
    at = np.minimum(middle[:, 1], rows - 1) * columns + np.minimum(middle[:, 0], columns - 1)
    count = np.bincount(at, minlength=rows * columns).reshape(rows, columns)
    pixel = float(np.prod((high - low) / shape[::-1]))
    # the covered area is at least one fourth of a square, as few triangles are not significant
    density = np.maximum(count, 1) / (np.maximum(inside, side * side / 4) * pixel)
    image = density.repeat(side, axis=0).repeat(side, axis=1)[: shape[0], : shape[1]]
    return np.where(covered, image, np.nan)


def _triangles(mesh: Mesh, coloring: _Coloring, ax: Axes, low: Any, high: Any) -> Any:
    """Add the triangles to the axes; return the artist for a colour bar."""
    from matplotlib.collections import PolyCollection  # noqa: PLC0415
    from matplotlib.tri import Triangulation  # noqa: PLC0415

    colours: dict[str, Any] = {"cmap": coloring.cmap, "norm": coloring.norm}
    m = len(mesh.triangles)
    if m > VECTOR_LIMIT:
        values = (
            coloring.values[mesh.triangles].mean(axis=1) if coloring.at_points else coloring.values
        )
        if coloring.counted:
            image = _densities(mesh, low, high)
            colours["norm"] = _scale_of(image[~np.isnan(image)])
        else:
            shape, points = _pixels(mesh, low, high)
            image = rasterize(points, mesh.triangles, values, shape, mean=coloring.kinds is None)
        extent = (low[0], high[0], low[1], high[1])
        return ax.imshow(image, extent=extent, origin="lower", interpolation="nearest", **colours)
    edge = min(0.6, 40 / max(m, 1) ** 0.5) * _fineness(ax)
    if coloring.at_points and m:
        x, y = mesh.points.T
        shape_of = Triangulation(x, y, mesh.triangles)
        ax.triplot(shape_of, color="white", linewidth=edge / 2, alpha=0.6, zorder=1.5)
        return ax.tripcolor(shape_of, coloring.values, shading="gouraud", **colours)
    faces = PolyCollection(
        list(mesh.points[mesh.triangles]),
        array=coloring.values,
        edgecolors="white",
        linewidths=edge,
        **colours,
    )
    ax.add_collection(faces)
    return faces


def _segments(mesh: Mesh, ax: Axes, low: Any, high: Any) -> None:
    """Add the segments to the axes."""
    from matplotlib.collections import LineCollection  # noqa: PLC0415
    from matplotlib.colors import ListedColormap  # noqa: PLC0415

    s = len(mesh.segments)
    if s <= VECTOR_LIMIT:
        width = (0.9 if s <= VECTOR_LIMIT // 10 else 0.5) * max(_fineness(ax), 0.4)
        lines = LineCollection(list(mesh.points[mesh.segments]), colors=INK, linewidths=width)
        lines.set_capstyle("round")
        ax.add_collection(lines)
        return
    shape, points = _pixels(mesh, low, high)
    hit = trace(points, mesh.segments, shape)
    ax.imshow(
        np.where(hit, 1.0, np.nan),
        extent=(low[0], high[0], low[1], high[1]),
        origin="lower",
        interpolation="nearest",
        cmap=ListedColormap([INK]),
        zorder=2,
    )


def _fineness(ax: Axes) -> float:
    """Scale of line widths: 1 for axes as wide as those of a new figure."""
    box = ax.get_window_extent()
    return float(min(max(box.width, box.height) / ax.figure.dpi / 9, 1.0))


def _pixels(mesh: Mesh, low: Any, high: Any) -> tuple[tuple[int, int], NDArray[np.float64]]:
    """The shape of the image, and the points in pixel coordinates."""
    wide, tall = np.maximum(np.ceil((high - low) * (PIXELS / (high - low).max())), 1).astype(int)
    return (int(tall), int(wide)), (mesh.points - low) / (high - low) * [wide, tall]
