"""Library kernels over worklists: advance and filter, with and without repeats.

These are kernels in the language, like any of the user's, for ``foreach`` in a program or launch by
launch.  After Gunrock's operators (Wang et al., PPoPP 2016).
"""

from __future__ import annotations

from morph.launch.foreach import kernel
from morph.prelude import single


@kernel
def advance(p, visit, into):
    """Add each neighbour ``t`` for which the function ``visit(p, t)`` is true, to ``into``."""
    for t in p.outnbrs:
        if visit(p, t):
            into.add(t)


@kernel
def advance_once(p, visit, into):
    """The same, but each neighbour at most once a step, whichever edge leads to it."""
    for t in p.outnbrs:
        if visit(p, t):
            if single(t):
                into.add(t)


@kernel
def keep(p, wanted, into):
    """Add the items for which the function ``wanted(p)`` is true, to ``into``: a filter."""
    if wanted(p):
        into.add(p)


@kernel
def keep_once(p, wanted, into):
    """The same, without repeats."""
    if wanted(p):
        if single(p):
            into.add(p)
