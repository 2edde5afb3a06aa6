"""The chunks of large transfers, with a simulated CuPy whose GPU memory is the host's."""

import contextlib
import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from morph.runtime import transfer


class There(np.ndarray):
    """An array on the GPU."""

    device = contextlib.nullcontext()

    @property
    def data(self):
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])


class Event:
    """An event after copies that have ended."""

    def __init__(self, disable_timing):
        assert disable_timing

    def record(self, stream):
        """Do nothing."""

    def synchronize(self):
        """Do nothing."""


class Stream:
    """A stream whose copies have ended when they are enqueued."""

    def __init__(self, non_blocking):
        self.ptr, self.after = int(non_blocking), []

    def record(self):
        return self

    def wait_event(self, event):
        self.after.append(event)

    def synchronize(self):
        """Do nothing."""


used = []  # streams of copies


def copied(to, at, size, kind, stream):
    used.append((kind, stream))
    ctypes.memmove(to, at, size)


def pinned(size):
    """Memory with an address."""
    memory = (ctypes.c_char * size)()

    class Memory(type(memory)):
        @property
        def ptr(self):
            return ctypes.addressof(self)

    return Memory()


@pytest.fixture(autouse=True)
def cupy(monkeypatch):
    used.clear()
    cuda = SimpleNamespace(
        runtime=SimpleNamespace(memcpyAsync=copied), Event=Event, alloc_pinned_memory=pinned,
        Stream=Stream, get_current_stream=lambda: Stream(non_blocking=False),
    )  # fmt: skip
    made = SimpleNamespace(cuda=cuda, empty=lambda *given: np.empty(*given).view(There))
    monkeypatch.setitem(sys.modules, "cupy", made)
    for name, size in (("LEAST_CHUNK", 1 << 6), ("CHUNK", 1 << 8), ("SHORT", 40)):
        monkeypatch.setattr(transfer, name, size)


def arrays():
    rng = np.random.default_rng(3)
    shapes = [(7, 3), (500, 2), (0, 2), (3,), (1111,)]  # one piece, slots used again, none
    return [rng.random(shape).astype(t) for shape, t in zip(shapes, "fdifb", strict=True)]


def test_arrays_arrive_whole():
    given = arrays()
    sent = transfer.send_all(given)
    fetched = transfer.fetch_all(sent)
    into = [np.zeros_like(a) for a in given]
    transfer.fetch_all(sent, into)
    for a, *copies in zip(given, sent, fetched, into, strict=True):
        assert all(c.dtype == a.dtype and np.array_equal(c, a) for c in copies)
        assert type(copies[0]) is There and type(copies[1]) is np.ndarray
    # copies to the host delay no kernel of the current stream
    assert set(used) == {(transfer.TO_DEVICE, 0), (transfer.TO_HOST, 1)}


def test_after_an_error_no_thread_copies_any_more(monkeypatch):
    started, ended, submit = [], [], transfer._threads().submit

    def counted(job, *given):
        def run():
            try:
                job(*given)
            finally:
                ended.append(1)

        started.append(1)
        return submit(run)

    def failing(self):
        raise MemoryError("no memory")

    sent = transfer.send_all(arrays())
    monkeypatch.setattr(transfer._threads(), "submit", counted)
    monkeypatch.setattr(Event, "synchronize", failing)
    with pytest.raises(MemoryError):
        transfer.fetch_all(sent)
    assert started and len(started) == len(ended)
