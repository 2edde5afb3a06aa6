"""Matplotlib's axes, imported when something is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def require_matplotlib() -> None:
    """Raise an `ImportError` with the command that installs matplotlib if it is missing."""
    try:
        import matplotlib.figure  # noqa: F401, PLC0415
    except ImportError as error:
        message = "plotting needs matplotlib: pip install 'morph-engine[mesh]'"
        raise ImportError(message) from error


def new_axes(width: float, height: float) -> Axes:
    """Return the axes of a new figure of a size in inches."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    return Figure(figsize=(width, height), layout="constrained").add_subplot()
