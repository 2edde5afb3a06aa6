"""Runs a test on a target with different orders of items and numbers of threads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings

import morph
from morph import testing


def examples(n: int) -> int:
    """The number of examples of a test: ``n``; a fifth in CI, where they are always the same."""
    return -(-n // 5) if os.environ.get("CI") else n


def tries(n: int) -> settings:
    """Settings for a test of every target on ``n`` examples, a fifth of them in CI."""
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=examples(n), suppress_health_check=quiet)


def alone() -> contextlib.AbstractContextManager[object]:
    """A way with one thread; in CI, but for units compiled as users do, of the binary of teams.

    The two binaries have the same generated text, and differ in constants of the runtime headers.
    """
    one_binary = os.environ.get("CI") and os.environ.get("MORPH_OPTIMIZE") != "full"
    return testing.team(1) if one_binary else contextlib.nullcontext()


def everywhere(target: str, run: Callable[[], Any]) -> list[Any]:
    """What ``run`` gives in each way of a target: three orders; alone, and by 2 and 4 threads.

    In CI there are two orders.
    """
    if target == "python":
        seeds = (0, 1) if os.environ.get("CI") else (0, 1, 2)
        ways = [testing.item_order(seed) for seed in seeds]
    elif target == "cpu":
        ways = [alone(), testing.team(2), testing.team(4)]
    else:
        return [run()]
    results = []
    for way in ways:
        with way:
            results.append(run())
    return results


def host(x: Any) -> np.ndarray:
    """An array of any device, or a column, as NumPy's."""
    x = getattr(x, "array", x)
    return x.get() if hasattr(x, "get") else np.asarray(x)


def table(target: str, **arrays: Any) -> morph.Table:
    """A table whose columns are NumPy arrays, shape (n,) or (n, size)."""
    kinds = {
        name: a.dtype if a.ndim == 1 else morph.vec(a.dtype, a.shape[1])
        for name, a in arrays.items()
    }
    made = morph.Table("rows", target, **kinds)
    made.extend(**arrays)
    return made


def same(x: Any, y: Any) -> bool:
    """Equal in type, shape and every bit, except that all NaNs are one."""
    x, y = host(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind != "f":
        return bool((x == y).all())
    nan = np.isnan(x)
    if not (nan == np.isnan(y)).all():
        return False
    return bool((x[~nan] == y[~nan]).all() and (np.signbit(x) == np.signbit(y))[~nan].all())
