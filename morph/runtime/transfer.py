"""Large arrays from a GPU to the host: by pinned memory, from which threads copy chunks.

A copy straight into new memory waits for the operating system to map its pages, one after another.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

LARGE = 1 << 25  # bytes; a smaller array is copied in one piece
CHUNK = 1 << 23
SLOTS = 8  # chunks under way


def fetch(x: Any) -> np.ndarray[Any, Any]:
    """Copy a CuPy array, C-contiguous, to the host.

    Parameters
    ----------
    x : cupy.ndarray

    Returns
    -------
    ndarray
        Of the same shape and type.
    """
    import cupy  # noqa: PLC0415

    out = np.empty(x.shape, x.dtype)
    source, target = x.reshape(-1).view(np.uint8), out.reshape(-1).view(np.uint8)
    size = min(CHUNK, source.size)
    slots = [
        np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, size) for _ in range(SLOTS)
    ]
    copies: list[Future[None]] = []

    def copy_slot(event: Any, slot: Any, begin: int) -> None:
        event.synchronize()
        target[begin : begin + slot.size] = slot

    with x.device, ThreadPoolExecutor(min(SLOTS, os.cpu_count() or 1)) as pool:
        for k, begin in enumerate(range(0, source.size, CHUNK)):
            if k >= SLOTS:
                copies[k - SLOTS].result()  # its slot is free
            slot = slots[k % SLOTS][: source.size - begin]
            source[begin : begin + slot.size].get(out=slot, blocking=False)
            event = cupy.cuda.Event(disable_timing=True)
            event.record()
            copies.append(pool.submit(copy_slot, event, slot, begin))
        for copied in copies:
            copied.result()
    return out
