"""Comparison of partitioned graphs."""

import numpy as np


def same_parts(made, expected):
    """Check that the parts of two graphs in this process, and their rows, are the same."""
    assert (made.directed, repr(made)) == (expected.directed, repr(expected))
    for k in made.here:
        a, b, to_host = made.local(k), expected.local(k), made.local(k).device.to_host
        assert list(a.tables) == list(b.tables)
        for name in ("points", "edges"):
            ours, theirs = (g.parts[k].shares[name] for g in (made, expected))
            assert (ours.ids, ours.owned) == (theirs.ids, theirs.owned)
            for field in ("mirror_ids", "mirrors_of"):
                assert (getattr(ours, field) == getattr(theirs, field)).all()
            columns = a.tables[name].columns
            assert columns.keys() == b.tables[name].columns.keys()
            for column in columns:
                values = [to_host(getattr(g.tables[name], column)[:]) for g in (a, b)]
                assert values[0].dtype == values[1].dtype and np.array_equal(*values)
        for direction in ("out", "in"):
            for x, y in zip(a.adjacency(direction), b.adjacency(direction), strict=True):
                assert x is None and y is None or (to_host(x) == to_host(y)).all()
