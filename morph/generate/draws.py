"""Random words that are the same on every machine and with every version of NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from morph.language.dtypes import ID_LIMIT
from morph.language.messages import shown

UNIT = 2.0**-53


def streams(m: int, seed: int, kind: int, part: int) -> Iterator[tuple[int, np.random.PCG64]]:
    """Divide ``m`` draws; give the size of each part, and its own random bits."""
    for k, start in enumerate(range(0, m, part)):
        yield min(part, m - start), np.random.PCG64(np.random.SeedSequence([seed, kind, k]))


def check(**values: int) -> None:
    """Refuse a value that is no integer from 0 on, by name."""
    for name, value in values.items():
        most = 2**63 if name == "seed" else ID_LIMIT
        if not isinstance(value, int | np.integer) or not 0 <= value <= most:
            raise ValueError(f"{name} = {shown(value)}: expected an integer from 0 to {most}")
