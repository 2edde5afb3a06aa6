"""exp2 and log2 of f32, bit-identical with those of `kernels/core/math.h`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

POWER = (
    0.00015353362, 0.00133988739, 0.00961843692, 0.0555033237, 0.240226477, 0.693147182, 1.0,
)  # fmt: skip
LOGARITHM = (
    0.125837058, -0.207269758, 0.215715602, -0.238944814, 0.287916243, -0.360703677,
    0.480910629, -0.721347332, 1.44269502,
)  # fmt: skip
HALF_ROOT = 0x3F3504F3  # the bits of sqrt(1/2)


def _fused(x: Any, y: Any, z: Any) -> Any:
    """``x * y + z`` of three f32, rounded once."""
    product, z = float(x) * float(y), float(z)  # the product is exact
    total = product + z
    part = total - product
    error = (product - (total - part)) + (z - part)
    if error and not np.float64(total).view(np.int64) & 1:  # round to odd, then to f32
        total = math.nextafter(total, math.inf if error > 0 else -math.inf)
    return np.float32(total)


def _horner(coefficients: tuple[float, ...], x: Any) -> Any:
    value = np.float32(coefficients[0])
    for c in coefficients[1:]:
        value = _fused(value, x, np.float32(c))
    return value


def exp2(x: Any) -> Any:
    """2 to the power of a NumPy float."""
    if x.dtype == np.float64:
        return np.exp2(x)
    if x.dtype == np.float16:
        return exp2(np.float32(x)).astype(np.float16)
    if not x >= -126:
        return x if np.isnan(x) else np.float32(0)
    if x >= 128:
        return np.float32(np.inf)
    whole = np.floor(x + np.float32(0.5))
    bits = _horner(POWER, x - whole).view(np.int32)
    return np.int32(int(bits) + (int(whole) << 23)).view(np.float32)


def log2(x: Any) -> Any:
    """Logarithm to base 2 of a NumPy float."""
    if x.dtype == np.float64:
        return np.log2(x)
    if x.dtype == np.float16:
        return log2(np.float32(x)).astype(np.float16)
    if x == 0:
        return np.float32(-np.inf)
    if not x > 0:
        return np.float32(np.nan)
    if np.isinf(x):
        return x
    more = 23 if x < np.float32(2.0**-126) else 0
    bits = int((x * np.float32(2.0**more)).view(np.int32)) - HALF_ROOT
    mantissa = np.int32((bits & 0x7FFFFF) + HALF_ROOT).view(np.float32)
    f = mantissa - np.float32(1)
    return _fused(_horner(LOGARITHM, f), f, np.float32((bits >> 23) - more))
