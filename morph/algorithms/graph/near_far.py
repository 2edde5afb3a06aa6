"""When near-far may stop, for one source (`morph.sssp`) and for many.

`s` is the bundle of the search's objects: a collection of targets, points or pairs of a source and
a point, and a flag.  Entries of the queue are keyed by the distance at which they were added.
"""

from __future__ import annotations

from morph.launch.foreach import foreach, func, kernel, program


@func
def is_current(entry):
    return entry.key == entry.item.dist


@kernel
def check_target(target, limit, unsettled):
    if target.dist > limit:
        unsettled.set()


@program
def targets_settled(s, near, limit):
    if s.targets.empty or not near.empty:
        return False
    foreach(s.targets, check_target, limit, s.unsettled)
    return not s.unsettled.take()
