"""Tests of near-far: stale entries of its queue, and whether all targets are settled.

For one source (`sssp.py`) and for several (`many_sources.py`).  ``s`` is the bundle of a search: a
collection ``targets`` of points, or of pairs of a source and a point, and a flag ``unsettled``.
"""

from __future__ import annotations

from morph.launch.foreach import foreach, func, kernel, program


@func
def is_current(entry):
    """Whether the distance of a vertex has not decreased since the entry was enqueued."""
    return entry.key == entry.item.dist


@kernel
def check_target(target, limit, unsettled):
    """Set the flag if the distance of a target is not final."""
    if target.dist > limit:
        unsettled.set()


@program
def targets_settled(s, near, limit):
    """Return whether the search may stop: all targets are at distances up to the limit."""
    if s.targets.empty or not near.empty:
        return False
    foreach(s.targets, check_target, limit, s.unsettled)
    return not s.unsettled.take()
