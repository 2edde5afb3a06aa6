"""Kernels and programs, for use in programs, over worklists, frontiers, buckets and columns."""

from morph.operators.bucket_queue import (
    BucketQueue,
    Visit,
    always,
    bucket_queue,
    in_order,
    never,
    run_in_order,
    run_until_empty,
)
from morph.operators.edge_map import EdgeMap, edge_map, edge_mapping
from morph.operators.reduce import find_largest, find_least
from morph.operators.scan import compact_rows, compact_space, scan_column, scan_first, scan_space
from morph.operators.sort import sort_first, sort_order, sort_space
from morph.operators.worklists import (
    advance,
    advance_edges,
    advance_entries,
    advance_once,
    keep,
    keep_once,
)

__all__ = [
    "BucketQueue",
    "EdgeMap",
    "Visit",
    "advance",
    "advance_edges",
    "advance_entries",
    "advance_once",
    "always",
    "bucket_queue",
    "compact_rows",
    "compact_space",
    "edge_map",
    "edge_mapping",
    "find_largest",
    "find_least",
    "in_order",
    "keep",
    "keep_once",
    "never",
    "run_in_order",
    "run_until_empty",
    "scan_column",
    "scan_first",
    "scan_space",
    "sort_first",
    "sort_order",
    "sort_space",
]
