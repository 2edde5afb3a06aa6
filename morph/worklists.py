"""Kernels and programs over worklists, columns and tables: what programs are made of."""

from morph.operators.reduce import find_least
from morph.operators.scan import scan_column, scan_space
from morph.operators.sort import sort_order, sort_space
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
    "find_least",
    "in_order",
    "keep",
    "keep_once",
    "ordered",
    "part",
    "scan_column",
    "scan_space",
    "sort_order",
    "sort_space",
]
