"""Kernels over worklists: advance and filter, with and without repeats, and order by key."""

from morph.operators.worklists import (
    advance,
    advance_edges,
    advance_entries,
    advance_once,
    in_order,
    keep,
    keep_once,
    ordered,
    part,
)

__all__ = [
    "advance",
    "advance_edges",
    "advance_entries",
    "advance_once",
    "in_order",
    "keep",
    "keep_once",
    "ordered",
    "part",
]
