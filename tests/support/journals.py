"""A graph with deleted and recycled rows, and its comparison with what was written and read."""

import numpy as np
from small import contents

import morph
from morph import validate


def changed(directed=True, target="cpu"):
    """A graph with dead rows that some new ones took over, and tables of its own."""
    g = morph.Graph.from_edges(
        [0, 2, 1, 2, 2], [1, 2, 3, 3, 2], weight=np.array([5, 1, 1, 9, 4], np.int32), n=6,
        directed=directed, device=target,
    )  # fmt: skip
    g.points.add("xy", morph.vec(np.float64, 2), fill=(1, 2))
    g.edges.add("mark", np.bool_)
    g.edges.pack("src", "dst")
    g.add_table("triangles", node=morph.Ref("points")[3], of=morph.Ref("edges")).extend(2)
    g.adjacency("in")
    g.apply(([0, 4], [3, 4], [7, 8]), [1, 0], ([2], [3]), [1])
    g.apply(([0] * 7, [3] * 7, [1] * 7), [3])
    return g


def same(g, h):
    assert list(g.tables) == list(h.tables) and g.directed == h.directed
    for name, t in g.tables.items():
        other = h.tables[name]
        assert contents(t) == contents(other) and t.packs == other.packs
        assert t.capacity == other.capacity
    validate.index(h)
    if not g.directed:
        assert g.reverses().tolist() == h.reverses().tolist()
    more = ([0, 2, 3] * 3, [2, 3, 3] * 3, [1] * 9)
    for x in (g, h):  # and what comes has the same ids
        x.apply(more, ([0], [3]))
    assert contents(g.edges) == contents(h.edges)
