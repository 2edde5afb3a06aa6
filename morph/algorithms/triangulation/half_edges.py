"""Half-edges: side k of a triangle, opposite corner k, has the code 4 * triangle + k.

Column ``opposite`` of a triangle has for each side the half-edge of the same edge in the triangle
behind: its complement if the edge is a segment, HULL if there is no triangle, and BORDER if the
tables have a part of a mesh and the triangle behind is in another part.
"""

from __future__ import annotations

from morph.launch.foreach import func
from morph.prelude import i32

HULL = -(2**31)
BORDER = HULL + 4  # like HULL the complement of no half-edge: sides are 0 to 2


@func
def half_edge(t, side):
    return i32(t) * 4 + i32(side)


@func
def behind(opposite):
    """The half-edge behind a side, which is not on the hull."""
    return opposite if opposite >= 0 else ~opposite


@func
def next_side(k):
    """The side that follows side k counter-clockwise; cheaper than a remainder."""
    return k + 1 if k < 2 else i32(0)


@func
def previous_side(k):
    """The side that precedes side k counter-clockwise."""
    return k - 1 if k > 0 else i32(2)
