"""The literals of a clause in the tables of a factor graph, see `morph.algorithms.sat.factors`."""

from __future__ import annotations

from morph.launch.foreach import func


@func
def has_literal(g, clause, slot):
    """Whether a clause has a literal in a slot; if not, then in no later slot either."""
    return slot < len(g.slots) and clause < g.slots[slot].count


@func
def literal(g, clause, slot):
    """The literal of a clause in a slot."""
    return g.entries[g.slots[slot].first + clause]
