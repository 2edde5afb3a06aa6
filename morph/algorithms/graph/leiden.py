"""Communities of large modularity, by a parallel Leiden method (Traag, Waltman, van Eck 2019).

The levels are those of `louvain`, but a level divides each community into subcommunities, and
merges the vertices of each subcommunity; the next level begins with the communities of this one.
So subcommunities can still move to other communities.

The division (refinement) begins with single vertices.  A vertex that is well connected to its
community joins the subcommunity with the largest gain of modularity, if the gain is positive and
the subcommunity is well connected to the rest of the community; ties are broken by the seed.  (The
original method selects at random, with a probability that grows exponentially with the gain.)  A
vertex that another has joined stays.  As in `louvain`, a round evaluates a random part of the
vertices.  If a vertex wants to join another that wants to move, too, the first of the two in a
random order moves.  After the moves of a round a vertex leaves again if its arcs to the earlier
members would not suffice for a gain beside all that have joined; a later round with fewer vertices
evaluates it again.  So all members have joined with a gain, as if one after the other:
subcommunities are connected, and so are communities.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

import math

from morph.algorithms.graph.arguments import of_graph_on_one_device
from morph.algorithms.graph.communities import (
    PARTS,
    Communities,
    enlist,
    is_next,
    label_of,
    word_of,
)
from morph.algorithms.graph.louvain import (
    add_to_group,
    clear_group,
    find_communities,
    find_moves,
    gain,
    move,
    undo,
)
from morph.data.scalars import Scalars
from morph.graph import Graph
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, atomic_min, f64, i64

CYCLES = 2  # of a refinement; each evaluates the vertices that still want to move once


@func
def is_well_connected(p, factor):
    """Whether a subcommunity, given by its root, is well connected to the rest of the community."""
    return p.cut > 0 and f64(p.cut) >= factor * f64(p.total) * f64(p.community_total - p.total)


@kernel
def keep_community(p, g):
    """Record the community to divide, and its total weight."""
    p.community = p.label
    p.community_total = g.points[p.label].total


@kernel
def begin(p, factor):
    """Make a subcommunity of a single vertex, and test its connection to the community."""
    cut = i64(0)
    for a in p.outedges:
        if a.dst.community == p.community:
            cut += a.weight
    p.label = p.id
    p.least = p.id
    p.total = p.strength
    p.cut = cut
    p.joinable = is_well_connected(p, factor)
    p.active = p.joinable
    p.moved = -1
    p.wants = False
    p.blocked = False


@func
def is_single(p):
    """Whether a vertex is alone in its subcommunity."""
    return p.label == p.id and p.total == p.strength


@kernel
def block(p, g, seed, round):
    """If the root of the best subcommunity wants to move, too, block one of the two."""
    root = g.points[label_of(p.best)]
    if root.wants:
        if word_of(root.id, seed, round) < word_of(p.id, seed, round):
            p.blocked = True  # race: all write the same
        else:
            root.blocked = True  # race: all write the same


@kernel
def confirm(p, g, factor, round):
    """Decide whether a vertex that moved stays, beside all others that have joined."""
    earlier = i64(0)
    for a in p.outedges:
        if a.dst.label == p.label and a.dst.moved != round:
            earlier += a.weight
    others = g.points[p.label].total - p.strength
    p.stays = gain(p, earlier, others, factor) > 0.0


@kernel
def join(p, g, round):
    """Update the weight of the arcs between a subcommunity and the rest of the community."""
    change = p.cut
    for a in p.outedges:
        t = a.dst
        if t.label == p.label:
            change -= a.weight if t.moved == round else 2 * a.weight  # else both arcs
    atomic_add(g.points[p.label].cut, change)


@kernel
def test_connection(p, g, factor):
    """Decide whether vertices may join the subcommunity that this vertex has joined."""
    root = g.points[p.label]
    root.joinable = is_well_connected(root, factor)  # race: all write the same


@kernel
def end_round(p):
    """Let a later round evaluate a blocked vertex again; reset the marks of the round."""
    if p.blocked:
        p.active = 1
    p.wants = False
    p.blocked = False


@kernel
def count_joined(p, found):
    """Count the vertices that have joined another one."""
    if p.label != p.id:
        atomic_add(found.joined, 1)


@kernel
def restore_community(p):
    """Make the community one group."""
    p.label = p.community


@kernel
def find_least(p, g):
    """Find the smallest vertex of each subcommunity."""
    atomic_min(g.points[p.label].least, p.id)


@kernel
def take_least(p, g):
    """Label a vertex by the smallest vertex of its subcommunity."""
    p.label = g.points[p.label].least


@program
def refine(g, slots, degree, seed, factor, now):
    """Divide each community; if all subcommunities are single vertices, keep the communities."""
    found = Scalars(g, joined=0)
    foreach(g.points, keep_community, g)
    foreach(g.points, begin, factor)
    round, cycle, parts = 0, 0, PARTS
    while cycle < CYCLES:
        end = round + parts
        while round < end:
            part = end - round - 1
            foreach(
                g.points, enlist, now,
                where=lambda p: is_single(p) and is_next(p, seed, cycle, part, parts),
            )  # fmt: skip
            if not now.empty:
                find_moves(now, g, slots, degree, seed, factor, 1)
                foreach(now, block, g, seed, round, where=lambda p: p.wants)
                foreach(now, move, g, round, where=lambda p: p.wants and not p.blocked)
                foreach(now, confirm, g, factor, round, where=lambda p: p.moved == round)
                foreach(now, undo, g, where=lambda p: p.moved == round and not p.stays)
                foreach(now, join, g, round, where=lambda p: p.moved == round and p.stays)
                foreach(
                    now, test_connection, g, factor,
                    where=lambda p: p.moved == round and p.stays,
                )  # fmt: skip
                foreach(now, end_round)
                now.clear()
            round += 1
        parts *= 2
        cycle += 1
    foreach(g.points, find_least, g)
    foreach(g.points, take_least, g)
    foreach(g.points, count_joined, found)
    if found.joined == 0:
        foreach(g.points, restore_community)
    foreach(g.points, clear_group)
    foreach(g.points, add_to_group, g)


@of_graph_on_one_device
def leiden(graph: Graph, resolution: float = 1.0, seed: int = 0) -> Communities:
    """Find connected communities of large modularity by the Leiden method.

    Parameters
    ----------
    graph, resolution, seed
        As of `louvain`.

    Returns
    -------
    Communities
        As of `louvain`.

    Raises
    ------
    TypeError, ValueError
        As by `louvain`.

    See Also
    --------
    louvain : Merges whole communities: faster, with smaller modularity.

    Notes
    -----
    Weights are rounded as by `louvain`.

    References
    ----------
    Traag, Waltman, van Eck: From Louvain to Leiden: guaranteeing well-connected communities.
    Scientific Reports 9, 5233, 2019.
    """
    return find_communities(graph, resolution, seed, -math.inf, refine)
