"""Operators on worklists: advance and filter, with and without repeats, and order by key."""

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
    "Visit",
    "advance",
    "advance_edges",
    "advance_entries",
    "advance_once",
    "always",
    "bucket_queue",
    "in_order",
    "keep",
    "keep_once",
    "never",
    "run_in_order",
    "run_until_empty",
]
