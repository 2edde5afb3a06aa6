"""Shared by the benchmarks: devices, medians, tables."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import morph
from morph.runtime.timing import synchronize

# a median of launches by binaries of the same optimisation
os.environ.setdefault("MORPH_OPTIMIZE", "full")


def devices(choice: str) -> list[str]:
    """The devices to measure on."""
    if choice != "all":
        return [choice]
    found = ["cpu"]
    if morph.device("auto").kind == "cuda":
        found.append("cuda")
    return found


def device_or_devices(choice: str) -> Any:
    """A device, or the list of the devices of parts, from names with commas between."""
    return choice.split(",") if "," in choice else choice


def median(run: Callable[[], Any], repeat: int = 5, warm: int = 1) -> tuple[float, Any]:
    """Median seconds of a run that ends with the device idle, and its last result."""
    result = None
    for _ in range(warm):
        result = run()
    times = []
    for _ in range(repeat):
        synchronize()
        start = time.perf_counter()
        result = run()
        synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def table(rows: list[dict[str, Any]]) -> None:
    """Print rows of one shape in columns."""
    if not rows:
        return
    names = list(rows[0])
    text = [[_cell(r.get(n, "")) for n in names] for r in rows]
    widths = [max(len(n), *(len(t[i]) for t in text)) for i, n in enumerate(names)]
    print("  ".join(n.rjust(w) for n, w in zip(names, widths, strict=True)))
    for t in text:
        print("  ".join(c.rjust(w) for c, w in zip(t, widths, strict=True)))


def append(path: str | None, rows: list[dict[str, Any]]) -> None:
    """Append rows to a file, each a line of JSON, if a path is given; `scaling` reads them."""
    if path is not None:
        with open(path, "a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def _cell(x: Any) -> str:
    return f"{x:,.4g}" if isinstance(x, float) else f"{x:,}" if isinstance(x, int) else str(x)
