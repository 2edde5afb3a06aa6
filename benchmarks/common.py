"""Shared by the benchmarks: devices, times, tables."""

from __future__ import annotations

import json
import math
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


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of a run from idle devices to idle devices, and its result."""
    synchronize()
    start = time.perf_counter()
    result = run()
    synchronize()
    return time.perf_counter() - start, result


def median(run: Callable[[], Any], repeat: int = 5, warm: int = 1) -> tuple[float, Any]:
    """Median seconds of a run that ends with the device idle, and its last result."""
    result = None
    for _ in range(warm):
        result = run()
    times = []
    for _ in range(repeat):
        seconds, result = timed(run)
        times.append(seconds)
    return statistics.median(times), result


def best(
    runs: dict[str, Callable[[], Any]], repeat: int, once: str = ""
) -> tuple[dict[str, float], dict[str, Any]]:
    """For each run its least seconds and its last result, taken in turns after one of each.

    The run named ``once`` has a single turn after its first.
    """
    seconds, results = dict.fromkeys(runs, math.inf), {}
    for turn in range(repeat + 1):
        for name, run in runs.items():
            if name != once or turn < 2:
                spent, results[name] = timed(run)
                seconds[name] = min(seconds[name], spent) if turn else math.inf
    return seconds, results


def beside(theirs: float, ours: float) -> str:
    """A peer's seconds as milliseconds, and how many times as long as Morph's they are."""
    return f"{theirs * 1e3:,.4g} ({theirs / ours:.3g} x)"


def table(rows: list[dict[str, Any]]) -> None:
    """Print rows of one shape in columns."""
    record(rows)
    if not rows:
        return
    names = list(rows[0])
    text = [[_cell(r.get(n, "")) for n in names] for r in rows]
    widths = [max(len(n), *(len(t[i]) for t in text)) for i, n in enumerate(names)]
    print("  ".join(n.rjust(w) for n, w in zip(names, widths, strict=True)))
    for t in text:
        print("  ".join(c.rjust(w) for c, w in zip(t, widths, strict=True)))


def record(rows: list[dict[str, Any]]) -> None:
    """Give rows to `everything`, if it runs this benchmark."""
    append(os.environ.get("BENCHMARK_ROWS"), rows)


def append(path: str | None, rows: list[dict[str, Any]]) -> None:
    """Append rows to a file, each a line of JSON, if a path is given; `scaling` reads them."""
    if path is not None:
        with open(path, "a") as file:
            file.writelines(json.dumps(row, default=_plain) + "\n" for row in rows)


def _plain(x: Any) -> Any:
    """A number of NumPy as one of Python."""
    return x.item() if hasattr(x, "item") else str(x)


def _cell(x: Any) -> str:
    return f"{x:,.4g}" if isinstance(x, float) else f"{x:,}" if isinstance(x, int) else str(x)
