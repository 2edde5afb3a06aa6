"""Large arrays between the host and a GPU: by pinned memory, to or from which threads copy chunks.

A copy straight into new memory waits for the operating system to map its pages, one after another;
a copy from memory that is not pinned is made by a single thread of the driver.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

LARGE = 1 << 25  # bytes; for smaller arrays the allocator reuses pages, and one copy is faster
CHUNK = 1 << 23  # bytes
# chunks in flight; more to the host, where threads also map the pages of the new array
SENT, FETCHED = 8, 16
TO_DEVICE = 1  # cudaMemcpyHostToDevice


def fetch(x: Any, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
    """Copy a CuPy array, C-contiguous, to the host.

    Parameters
    ----------
    x : cupy.ndarray
    out : ndarray, optional
        C-contiguous, of the same shape and type; by default a new one.

    Returns
    -------
    ndarray
        Of the same shape and type.
    """
    out = np.empty(x.shape, x.dtype) if out is None else out
    source, target = x.reshape(-1).view(np.uint8), out.reshape(-1).view(np.uint8)
    copies: list[Future[None]] = []

    def copy_slot(event: Any, slot: Any, begin: int) -> None:
        event.synchronize()
        target[begin : begin + slot.size] = slot

    with x.device, _slots(source.size, FETCHED) as (cupy, slots, pool):
        for k, begin in enumerate(range(0, source.size, CHUNK)):
            if k >= FETCHED:
                copies[k - FETCHED].result()  # its slot is free
            slot = slots[k % FETCHED][: source.size - begin]
            source[begin : begin + slot.size].get(out=slot, blocking=False)
            event = cupy.cuda.Event(disable_timing=True)
            event.record()
            copies.append(pool.submit(copy_slot, event, slot, begin))
        for copied in copies:
            copied.result()
    return out


def suits(x: np.ndarray[Any, Any]) -> bool:
    """Whether `send` copies the array faster than CuPy."""
    plain = x.dtype.kind in "biuf" and x.dtype.isnative
    return x.nbytes >= LARGE and x.flags.c_contiguous and plain


def send(x: np.ndarray[Any, Any]) -> Any:
    """Copy a C-contiguous array in host memory to the current GPU.

    Parameters
    ----------
    x : ndarray

    Returns
    -------
    cupy.ndarray
        Of the same shape and type.
    """
    source = x.reshape(-1).view(np.uint8)
    copies: list[Future[None]] = []

    def fill_slot(event: Any, slot: Any, begin: int) -> None:
        if event is not None:
            event.synchronize()  # until the previous chunk has been copied from the slot
        slot[:] = source[begin : begin + slot.size]

    with _slots(source.size, SENT) as (cupy, slots, pool):
        out = cupy.empty(x.shape, x.dtype)
        stream, copy = cupy.cuda.get_current_stream(), cupy.cuda.runtime.memcpyAsync
        begins = range(0, source.size, CHUNK)
        parts = [slots[k % SENT][: source.size - begin] for k, begin in enumerate(begins)]

        def start(k: int, event: Any = None) -> None:
            if k < len(parts):
                copies.append(pool.submit(fill_slot, event, parts[k], begins[k]))

        for k in range(SENT):
            start(k)
        for k, begin in enumerate(begins):
            copies[k].result()
            slot = parts[k]
            copy(out.data.ptr + begin, slot.ctypes.data, slot.size, TO_DEVICE, stream.ptr)
            event = cupy.cuda.Event(disable_timing=True)
            event.record()
            start(k + SENT, event)
        stream.synchronize()  # before the pinned memory is freed for reuse
    return out


@contextmanager
def _slots(size: int, most: int) -> Iterator[tuple[Any, list[Any], ThreadPoolExecutor]]:
    """Yield CuPy, pinned chunks for ``size`` bytes, at most ``most``, and threads for copies."""
    import cupy  # noqa: PLC0415

    pinned = (cupy.cuda.alloc_pinned_memory(CHUNK) for _ in range(min(most, -(-size // CHUNK))))
    slots = [np.frombuffer(memory, np.uint8, CHUNK) for memory in pinned]
    with ThreadPoolExecutor(min(len(slots), os.cpu_count() or 1)) as pool:
        yield cupy, slots, pool
