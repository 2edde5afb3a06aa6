"""Queues of items that run asynchronously: threads of a CPU take items of each other's queues."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

from morph.compiler.codegen.unit import prelude
from morph.runtime.toolchain import cpu as host

# Thread 0 adds all items and takes none until the queue is empty; items 0 to n / 2 each add one
# more, to the queue of the thread that runs them.  Returns how many items the thread has run.
TEXT = (
    prelude()
    + """
struct Cursor { i64* cursor; };
struct Member { i32 thread, threads; };
MORPH_EXPORT void open_pool(u32* shared) { find_pool(shared), stop_request = shared + STOP_WORD; }
MORPH_EXPORT i64 run_items(i64* cursor, i32 thread, i32 threads, i64 n, i32* runs) {
    i64 count = 0, next = thread * 2 * n, published = next;
    u64* queued = queued_items(thread);
    store(queued, u64(next) << 32 | u64(next));
    if (thread == 0) {
        for (next = published = n; load(queued) != (u64(n) << 32 | u64(n));)
            if (count++ == 0) __atomic_fetch_add(queued, u64(n), __ATOMIC_RELEASE);
            else pause();
        count = 0;
    }
    const Cursor a{cursor};
    const Member t{thread, threads};
    for (i64 i, end; take_queued(queued, true, i, end) || find_queued(a, t, i, end);) {
        for (; i < end; i++, count++) {
            __atomic_fetch_add(runs + i, 1, __ATOMIC_RELAXED);
            if (i < n / 2) next++;
        }
        __atomic_fetch_add(queued, u64(next - published), __ATOMIC_RELEASE);
        published = next;
    }
    return count;
}
MORPH_EXPORT i64 take_of_another(i64 n, i64* last) {
    u64 queued = u64(n);
    i64 begin = 0;
    return take_queued(&queued, false, begin, *last) ? begin : -1;
}
"""
)
THREADS, N = 3, 1000


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    made = ctypes.CDLL(str(host.build(TEXT, name="queues")))
    made.run_items.restype = made.take_of_another.restype = ctypes.c_int64
    return made


def test_other_threads_run_the_items_of_a_queue(library):
    shared = np.zeros(64, np.uint32)
    library.open_pool(ctypes.c_void_p(shared.ctypes.data))
    for _ in range(20):
        cursor, runs = np.zeros(64, np.int64), np.zeros(2 * THREADS * N, np.int32)
        counts = [0] * THREADS

        def work(k, cursor=cursor, runs=runs, counts=counts):
            data = (ctypes.c_void_p(x.ctypes.data) for x in (cursor, runs))
            cursor_at, runs_at = data
            counts[k] = library.run_items(cursor_at, k, THREADS, ctypes.c_int64(N), runs_at)

        team = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
        for t in team:
            t.start()
        for t in team:
            t.join()
        assert runs.max() == 1
        assert runs[:N].all()
        assert sum(counts) == runs.sum() == N + N // 2
        assert sum(counts[1:]) >= N
        assert cursor[1] == THREADS  # all wait: no thread ends before


@pytest.mark.parametrize(("n", "taken"), [(0, None), (1, 1), (2, 1), (3, 2), (4, 2), (9, 5)])
def test_half_of_another_threads_items_are_taken(library, n, taken):
    last = ctypes.c_int64(-1)
    begin = library.take_of_another(ctypes.c_int64(n), ctypes.byref(last))
    assert (begin, last.value) == ((-1, -1) if taken is None else (0, taken))
