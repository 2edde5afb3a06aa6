"""Library kernels over worklists: advance and filter, with and without repeats.

These are kernels in the language, like any of the user's, for ``foreach`` in a program or launch by
launch.  After Gunrock's operators (Wang et al., PPoPP 2016).
"""

from __future__ import annotations

from morph.launch.foreach import kernel
from morph.prelude import single


@kernel
def advance(p, visit, into, *more):
    """Add each neighbour ``t`` for which ``visit(p, t, *more)`` is true to ``into``."""
    for t in p.outnbrs:
        if visit(p, t, *more):
            into.add(t)


@kernel
def advance_once(p, visit, into, *more):
    """Like `advance`, but add each neighbour at most once in a step."""
    for t in p.outnbrs:
        if visit(p, t, *more):
            if single(t):
                into.add(t)


@kernel
def advance_edges(p, visit, into, *more):
    """Add the target of each edge ``e`` for which ``visit(p, e, *more)`` is true to ``into``."""
    for e in p.outedges:
        if visit(p, e, *more):
            into.add(e.dst)


@kernel
def advance_entries(p, visit, into, *more):
    """Add an entry of the target of each edge ``e`` and a value for the other column of ``into``.

    ``visit(p, e, *more)`` returns whether to add the entry, and the value, which may be a vector.
    """
    for e in p.outedges:
        wanted, value = visit(p, e, *more)
        if wanted:
            into.add(e.dst, value)


@kernel
def keep(p, wanted, into, *more):
    """Add the items for which ``wanted(p, *more)`` is true to ``into``: a filter."""
    if wanted(p, *more):
        into.add(p)


@kernel
def keep_once(p, wanted, into, *more):
    """Like `keep`, but add each row at most once in a step."""
    if wanted(p, *more):
        if single(p):
            into.add(p)
