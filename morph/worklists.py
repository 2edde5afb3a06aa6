"""Operators over worklists: edge map, advance, filter, and order by key."""

from morph.operators.edge_map import EdgeMap, edge_map, edge_mapping
from morph.operators.worklists import (
    advance,
    advance_once,
    in_order,
    keep,
    keep_once,
    ordered,
    part,
)

__all__ = [
    "EdgeMap",
    "advance",
    "advance_once",
    "edge_map",
    "edge_mapping",
    "in_order",
    "keep",
    "keep_once",
    "ordered",
    "part",
]
