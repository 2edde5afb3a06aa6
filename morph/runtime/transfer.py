"""Large arrays between the host and a GPU: by pinned memory, to or from which threads copy chunks.

A copy straight into new memory waits for the operating system to map its pages, one after another;
a copy from memory that is not pinned is made by a single thread of the driver.  Several arrays are
copied one behind the other, without a pause.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

LARGE = 1 << 25  # bytes; for smaller arrays the allocator reuses pages, and one copy is faster
TOGETHER = 1 << 23  # bytes of several arrays from which on they are copied together by chunks
CHUNK, LEAST_CHUNK = 1 << 23, 1 << 21  # bytes of a chunk, at most and at least
SHORT = 1 << 16  # bytes that the calling thread copies itself
# chunks in flight; more to the host, where threads also map the pages of the new array
SENT, FETCHED = 8, 16
TO_DEVICE, TO_HOST = 1, 2  # cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost


class Piece(NamedTuple):
    """Bytes of an array: on the host, and their address on the GPU."""

    host: np.ndarray[Any, Any]
    address: int


class PinnedChunks(NamedTuple):
    """Chunks of pinned memory, which are used in turn.

    Attributes
    ----------
    memory : list of (ndarray, int)
        Bytes, and their address.
    jobs : list of Future
        Of the threads that copy; waited for at the end, also after an error.
    """

    cupy: Any
    memory: list[tuple[np.ndarray[Any, Any], int]]
    jobs: list[Future[None]]
    stream: Any

    def start(self, job: Callable[..., None], *args: Any) -> Future[None]:
        """Begin a copy by a thread."""
        made = _threads().submit(job, *args)
        self.jobs.append(made)
        return made

    def event(self) -> Any:
        """An event after the copies of the GPU so far."""
        made = self.cupy.cuda.Event(disable_timing=True)
        made.record(self.stream)
        return made


def fetch_all(
    arrays: Sequence[Any], outs: Sequence[np.ndarray[Any, Any]] | None = None
) -> list[np.ndarray[Any, Any]]:
    """Copy CuPy arrays of one GPU, C-contiguous, to the host.

    Parameters
    ----------
    arrays : sequence of cupy.ndarray
    outs : sequence of ndarray, optional
        C-contiguous, of the same shapes and types; by default new ones.

    Returns
    -------
    list of ndarray
    """
    made = [np.empty(x.shape, x.dtype) for x in arrays] if outs is None else list(outs)

    def copy_chunk(event: Any, chunk: Any, target: Any) -> None:
        event.synchronize()
        target[:] = chunk

    with arrays[0].device, _pinned_chunks(made, FETCHED, apart=True) as s:
        copies: list[Future[None]] = []
        copy = s.cupy.cuda.runtime.memcpyAsync
        for k, piece in enumerate(_pieces(made, arrays, s.memory[0][0].size)):
            if k >= len(s.memory):
                copies[k - len(s.memory)].result()  # its chunk is free
            chunk, at = s.memory[k % len(s.memory)]
            copy(at, piece.address, piece.host.size, TO_HOST, s.stream.ptr)
            copies.append(s.start(copy_chunk, s.event(), chunk[: piece.host.size], piece.host))
        for copied in copies:
            copied.result()
    return made


def fetch(x: Any, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
    """Copy one array, see `fetch_all`."""
    return fetch_all([x], None if out is None else [out])[0]


def suits(*arrays: np.ndarray[Any, Any]) -> bool:
    """Whether `send_all` copies arrays faster than CuPy."""
    plain = all(
        x.flags.c_contiguous and x.dtype.kind in "biuf" and x.dtype.isnative for x in arrays
    )
    return plain and sum(x.nbytes for x in arrays) >= (LARGE if len(arrays) == 1 else TOGETHER)


def send_all(arrays: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    """Copy C-contiguous arrays in host memory to the current GPU.

    Parameters
    ----------
    arrays : sequence of ndarray

    Returns
    -------
    list of cupy.ndarray
        Of the same shapes and types.
    """

    def fill_chunk(event: Any, chunk: Any, source: Any) -> None:
        if event is not None:
            event.synchronize()  # until the previous piece has been copied from the chunk
        chunk[:] = source

    with _pinned_chunks(arrays, SENT) as s:
        made = [s.cupy.empty(x.shape, x.dtype) for x in arrays]
        copy, count = s.cupy.cuda.runtime.memcpyAsync, len(s.memory)
        pieces = list(_pieces(arrays, made, s.memory[0][0].size))
        fills: list[Future[None] | None] = []

        def start(k: int, event: Any = None) -> None:
            if k < len(pieces):
                source = pieces[k].host
                given = fill_chunk, event, s.memory[k % count][0][: source.size], source
                short = source.size <= SHORT and event is None
                fills.append(given[0](*given[1:]) if short else s.start(*given))

        for k in range(count):
            start(k)
        for k, piece in enumerate(pieces):
            if (filled := fills[k]) is not None:
                filled.result()
            copy(piece.address, s.memory[k % count][1], piece.host.size, TO_DEVICE, s.stream.ptr)
            if k + count < len(pieces):
                start(k + count, s.event())
        s.stream.synchronize()  # before the chunks are freed for reuse
    return made


def _pieces(hosts: Sequence[Any], devices: Sequence[Any], size: int) -> Iterator[Piece]:
    """The pieces of arrays, of at most ``size`` bytes."""
    for host, there in zip(hosts, devices, strict=True):
        plain = host.reshape(-1).view(np.uint8)
        for begin in range(0, plain.size, size):
            yield Piece(plain[begin : begin + size], there.data.ptr + begin)


def _own_stream(cupy: Any) -> Any:
    """A stream for copies of the results of the current stream so far."""
    made = cupy.cuda.Stream(non_blocking=True)
    made.wait_event(cupy.cuda.get_current_stream().record())
    return made


@contextmanager
def _pinned_chunks(
    hosts: Sequence[np.ndarray[Any, Any]], most: int, apart: bool = False
) -> Iterator[PinnedChunks]:
    """Yield pinned chunks, at most ``most``; waits for all jobs at the end.

    Copies ``apart`` do not delay what other threads enqueue on the current stream.
    """
    import cupy  # noqa: PLC0415

    total, size = sum(x.nbytes for x in hosts), LEAST_CHUNK
    while size < CHUNK and size * most < total:
        size *= 2
    count = sum(-(-x.nbytes // size) for x in hosts)
    pinned = [cupy.cuda.alloc_pinned_memory(size) for _ in range(max(min(most, count), 1))]
    memory = [(np.frombuffer(p, np.uint8, size), p.ptr) for p in pinned]
    made = PinnedChunks(
        cupy, memory, [], _own_stream(cupy) if apart else cupy.cuda.get_current_stream()
    )
    try:
        yield made
    except BaseException:  # the GPU may still copy to or from the chunks
        made.stream.synchronize()
        raise
    finally:
        wait(made.jobs)


_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def _threads() -> ThreadPoolExecutor:
    """The threads that copy, for all transfers of the process."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(min(FETCHED, os.cpu_count() or 1), "morph-transfer")
        return _pool


def _forked() -> None:
    """Drop the threads in a child process, which has none of them."""
    global _lock, _pool
    _lock, _pool = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
