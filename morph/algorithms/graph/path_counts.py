"""Counts of shortest paths that may exceed float64, as in a grid of 1000 x 1000 points.

A scaled count is a float below 2**256 and an exponent of 2**512, its scale, so that ratios of
counts have the same precision as ratios of counts in range.
"""

# mypy: disable-error-code="no-untyped-def"
from morph.launch.foreach import func

MOST = 2.0**1000  # larger counts are scaled; the reciprocals of smaller ones have full precision
LARGE = 2.0**256  # a scaled count is smaller than this
UNIT = 2.0**-512  # factor of a count whose scale is smaller by 1


@func
def add_scaled(total, total_scale, paths, scale):
    """Add a count to a sum; return the sum and its scale.

    Terms 2**512 times smaller than others are lost.
    """
    if scale > total_scale:
        total = total * UNIT if scale == total_scale + 1 else 0.0
        total_scale = scale
    elif scale < total_scale:
        paths = paths * UNIT if scale + 1 == total_scale else 0.0
    total += paths
    if total >= LARGE:
        total *= UNIT
        total_scale += 1
    return total, total_scale


@func
def scaled_down(value, steps):
    """Return a value times `UNIT` ** steps; 0 soon."""
    while steps > 0 and value > 0.0:
        value *= UNIT
        steps -= 1
    return value
