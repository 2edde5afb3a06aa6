"""Small tables and graphs for tests of the language."""

from __future__ import annotations

import numpy as np
from targets import host

from morph.data.table import Table
from morph.graph import Graph


def rows(target, n=1, **columns):
    """A table of n rows of zeros; columns by dtype."""
    made = Table("rows", target, **columns)
    made.extend(n)
    return made


def values(table, name):
    return table.device.to_host(getattr(table, name).array).tolist()


def points(target, n=4, **columns):
    """A directed cycle of n points, edge k from point k, with a chord from point 0 to 2."""
    src, dst = [*range(n), 0], [*((np.arange(n) + 1) % n), 2]
    g = Graph.from_edges(src, dst, weight=np.arange(n + 1, dtype="i4") * 10, n=n, device=target)
    for name, dtype in columns.items():
        g.points.add(name, dtype)
    return g


def contents(t):
    """Everything a user can see of a table."""
    return (
        {n: np.array(getattr(t, n)).tolist() for n in t.columns},
        len(t),
        t.live,
        t.alive.tolist(),
    )


def snapshot(t):
    return contents(t), t.capacity, t.version, t.packs, t._host_meta.tolist(), t.deletes


def counters_hold(*stores):
    """Nothing that was reserved is lost, and nothing is promised twice."""
    for s in stores:
        words = host(s.meta).tolist()
        count, capacity, head, _, committed, budget = words[:6]
        again = committed - head if isinstance(s, Table) else 0
        assert budget == capacity - count + again, (s, words)
