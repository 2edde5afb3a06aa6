"""Plot of the progress of a decimation, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from morph.plotting.axes import new_axes, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PALE = "#12263f", "#8ecae6"


def draw_decimation(rounds: Sequence[Any], variables: int, ax: Axes | None = None) -> Figure:
    """Draw complexity and mean bias against the fraction of fixed variables.

    Parameters
    ----------
    rounds : sequence
        As in `morph.survey.Solution`: each has ``free``, ``complexity`` and ``bias``.
    variables : int
        Number of variables of the formula.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    """
    require_matplotlib()
    if ax is None:
        ax = new_axes(7, 4.2)
    figure: Any = ax.get_figure(root=True)
    fixed = [1 - r.free / max(variables, 1) for r in rounds]
    ax.axhline(0, color="#bbbbbb", linewidth=0.8)
    ax.plot(fixed, [r.complexity for r in rounds], color=INK, marker=".", markersize=4)
    ax.set_xlabel("share of the variables that are fixed")
    ax.set_ylabel("complexity Σ, nats a variable", color=INK)
    beside = ax.twinx()
    beside.plot(fixed, [r.bias for r in rounds], color=PALE, marker=".", markersize=4, zorder=0)
    beside.set_ylabel("mean bias", color="#3d8fb5")
    beside.set_ylim(0, 1)
    for side in (ax, beside):
        side.spines["top"].set_visible(False)
    if not rounds:
        ax.set_title("no round was made")
    return figure  # type: ignore[no-any-return]
