"""Drawings of small graphs, by matplotlib.

Points without positions are placed by stress majorization (Gansner, Koren and North 2005): the
distance of two points in the drawing approximates the number of edges between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from morph.language.messages import shown
from morph.plotting.axes import new_axes, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LAID_OUT = 1_000  # points: the layout takes time proportional to the cube of their number
EDGES = 50_000  # more cannot be distinguished
NAMED = 60  # more labels overlap
ARROWS = 2_000
ITERATIONS = 100
INK, LINE, MISSING, PLAIN = "#12263f", "#9aa5b1", "#d9dde2", "#8ecae6"


class Drawn(NamedTuple):
    """A graph on the host.

    Attributes
    ----------
    src, dst : (m,) int array
        Edges; of an undirected graph each edge once.
    names : sequence of length n
        Labels of the points.
    directed : bool
    """

    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    names: Sequence[Any]
    directed: bool


def draw(
    graph: tuple[Any, Any, Sequence[Any], bool],
    values: Any = None,
    label: str | None = None,
    positions: Any = None,
    cmap: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a graph, the fields of `Drawn`.  See `morph.Graph.plot`."""
    require_matplotlib()
    from matplotlib import colormaps  # noqa: PLC0415

    if isinstance(cmap, str) and cmap not in colormaps:
        raise ValueError(f"cmap is the name of a matplotlib colour map, not {shown(cmap)}")
    drawn = Drawn(*graph)
    n, m = len(drawn.names), len(drawn.src)
    if m > EDGES:
        raise ValueError(f"a drawing has at most {EDGES:,} edges, the graph has {m:,}")
    places = _places(drawn, positions)
    numbers = None if values is None else _numbers(values, n)
    if ax is None:
        ax = new_axes(7 if numbers is None else 8, 7)
    figure: Any = ax.get_figure(root=True)
    _edges(ax, drawn, places)
    size = _marker_size(n)
    style: dict[str, Any] = {"s": size, "edgecolors": INK, "linewidths": size**0.5 / 20}
    if numbers is None:
        ax.scatter(*places.T, color=PLAIN, zorder=3, **style)
    else:
        _values(ax, places, numbers, label, cmap or "viridis", style)
    if n <= NAMED:
        above: dict[str, Any] = {"xytext": (0, size**0.5 / 2 + 2), "textcoords": "offset points"}
        for name, at in zip(drawn.names, places, strict=True):
            ax.annotate(str(name), at, ha="center", fontsize=8, color=INK, zorder=4, **above)
    ax.margins(0.06)
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_axis_off()
    return figure  # type: ignore[no-any-return]


def layout(src: Any, dst: Any, n: int) -> NDArray[np.float64]:
    """Place points so that distances approximate numbers of edges between them."""
    if n < 2:
        return np.zeros((n, 2))
    hops = np.full((n, n), np.inf)
    hops[src, dst] = hops[dst, src] = 1
    np.fill_diagonal(hops, 0)
    for k in range(n):  # Floyd and Warshall
        np.minimum(hops, hops[:, k, None] + hops[k], out=hops)
    joined = np.isfinite(hops)
    hops[~joined] = hops[joined].max() + 1  # keeps components apart
    weight = 1 / np.maximum(hops, 1) ** 2
    np.fill_diagonal(weight, 0)
    inverse = np.linalg.inv(np.diag(weight.sum(axis=1)) - weight + 1 / n)
    places = _scaled(hops) + np.random.default_rng(0).normal(scale=0.05, size=(n, 2))
    for _ in range(ITERATIONS):
        apart = places[:, None] - places
        now = np.sqrt((apart**2).sum(axis=2))
        np.fill_diagonal(now, 1)
        factor = weight * hops / np.maximum(now, 1e-9)
        moved = inverse @ (factor.sum(axis=1)[:, None] * places - factor @ places)
        change, places = float(np.abs(moved - places).max()), moved
        if change < 1e-3:
            break
    return places - places.mean(axis=0)  # type: ignore[no-any-return]


def _scaled(hops: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the two principal coordinates of distances (classical scaling)."""
    squares = hops**2
    mean = squares.mean(axis=0)
    found, vectors = np.linalg.eigh((mean[:, None] + mean - squares - mean.mean()) / 2)
    return vectors[:, -2:] * np.sqrt(np.maximum(found[-2:], 0))  # type: ignore[no-any-return]


def _places(graph: Drawn, positions: Any) -> NDArray[np.float64]:
    """Check the given positions, or compute some."""
    n = len(graph.names)
    if positions is None:
        if n > LAID_OUT:
            most = f"at most {LAID_OUT:,} points are placed, the graph has {n:,}"
            raise ValueError(f"{most}: give their positions")
        return layout(graph.src, graph.dst, n)
    places = np.asarray(positions, np.float64)
    if places.shape != (n, 2):
        raise ValueError(f"positions must have shape ({n}, 2), got {shown(places.shape)}")
    if not np.isfinite(places).all():
        row = int((~np.isfinite(places)).any(axis=1).argmax())
        raise ValueError(f"positions[{row}] is {places[row].tolist()}: expected finite numbers")
    return places


def _numbers(values: Any, n: int) -> Any:
    """Return values of points, masked where they are not finite or mean "not reached"."""
    given = np.ma.asanyarray(values)
    if given.shape != (n,):
        raise ValueError(f"values must have shape ({n},), got {shown(given.shape)}")
    if given.dtype.kind not in "biuf":
        raise TypeError(f"values are numbers, not {given.dtype}")
    numbers = np.ma.masked_invalid(given)
    if numbers.dtype.kind in "iu":
        numbers = np.ma.masked_equal(numbers, np.iinfo(numbers.dtype).max)
    return numbers.astype(np.float64) if numbers.dtype.kind == "f" else numbers.astype(np.int64)


def _edges(ax: Axes, graph: Drawn, places: NDArray[np.float64]) -> None:
    """Add the edges as lines, those of directed graphs with arrows, loops as rings."""
    from matplotlib.collections import LineCollection  # noqa: PLC0415

    loop = graph.src == graph.dst
    begin, end = places[graph.src[~loop]], places[graph.dst[~loop]]
    width = float(np.clip(40 / max(len(begin), 1) ** 0.5, 0.3, 1.2))
    ax.add_collection(
        LineCollection(list(np.stack([begin, end], 1)), colors=LINE, linewidths=width)
    )
    if graph.directed and 0 < len(begin) <= ARROWS:
        to = (end - begin) * 0.65
        head: dict[str, Any] = {
            "headwidth": 5,
            "headlength": 6,
            "headaxislength": 5,
            "width": 0.015,
        }
        xy: dict[str, Any] = {"units": "inches", "angles": "xy", "scale_units": "xy", "scale": 1}
        ax.quiver(*begin.T, *to.T, color=LINE, zorder=2, **head, **xy)
    if loop.any():
        at = places[graph.src[loop]]
        ring = 2.5 * _marker_size(len(places))
        x, y = at.T
        ax.scatter(x, y, s=ring, facecolors="none", edgecolors=LINE, linewidths=width, zorder=2)


def _marker_size(n: int) -> float:
    """Area of the marker of each of n points, in square points."""
    return float(np.clip(6000 / max(n, 1), 8, 200))


def _values(ax: Axes, places: Any, numbers: Any, label: Any, cmap: str, style: Any) -> None:
    """Add the points in the colours of their values, with a scale."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    missing = np.ma.getmaskarray(numbers)
    if missing.any():
        ax.scatter(*places[missing].T, color=MISSING, zorder=3, **style)
    x, y = places[~missing].T
    points = ax.scatter(x, y, c=numbers[~missing].filled(), cmap=cmap, zorder=3, **style)
    whole = MaxNLocator(integer=True) if numbers.dtype.kind == "i" else None
    figure: Any = ax.get_figure(root=True)
    bar = figure.colorbar(points, ax=ax, shrink=0.6, pad=0.01, label=label or "", ticks=whole)
    bar.outline.set_visible(False)
