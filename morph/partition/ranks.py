"""Parts on the ranks of an MPI communicator, one on each."""

from __future__ import annotations

import atexit
import itertools
import math
import os
import pickle
import platform
import sys
import threading
import time
import traceback
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from types import TracebackType
from typing import Any, TypeVar
from weakref import ref

import numpy as np

from morph.language.arguments import check_type
from morph.partition.parts import HostArray
from morph.partition.transport import Arrays, Header, PartError, refuse_different
from morph.runtime.arrays import is_host, to_host
from morph.runtime.cuda.nccl import Nccl, connect, gpu_of
from morph.runtime.device import Array, Device

VERSION = 4  # of the messages between ranks
REPORT_AFTER = 30.0  # seconds that a rank waits for others until it says so
KEPT = 64  # operations that are remembered, to name the first that differs
RECORD = 512  # bytes that each rank sends when values are gathered; longer values follow
HEAD = 24  # of these: the number of operations, their checksum, the length of the value
SPINNING = 1e-3  # seconds of waiting until a rank yields its processor
CROWDED = 1e-4  # the same, if a machine has more ranks than processors; then it sleeps
PAUSE = 2e-5  # seconds of such a sleep
REDUCTIONS = {"add": "SUM", "min": "MIN", "max": "MAX", "or": "BOR", "and": "BAND"}
END = "the end of the script"
_yield = getattr(os, "sched_yield", partial(time.sleep, 0))
Result = TypeVar("Result")
Moved = Sequence[tuple[int, Array]]  # with the number of the other part


class Ranks:
    """Exchanges arrays between the ranks of a communicator, see `transport.Transport`.

    An exception that nothing catches ends all ranks: otherwise the others would wait for the rank
    that raised it.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Rank k has part k.  The messages go through a duplicate, apart from those of the caller.
    what : str
        The partitioned object, for errors.

    Raises
    ------
    ValueError
        If the ranks run different versions.
    """

    def __init__(self, comm: Any, what: str = "a partitioned graph") -> None:
        check_type(comm, "comm", "Comm")
        self._operations = _operations_of(comm)
        comm = self._operations.comm
        self.size, self.here = comm.size, range(comm.rank, comm.rank + 1)
        self._number = next(self._operations.users)
        self.network = self._operations.network
        self.begin(what)

    @property
    def comm(self) -> Any:
        """The duplicate of the communicator."""
        return self._operations.comm

    @property
    def rank(self) -> int:
        """The number of this rank, which is that of its part."""
        return self.here.start

    def begin(self, operation: str, *facts: Any) -> None:
        """State the next operation, see `Transport.begin`."""
        shown = [operation, *map(_shown, facts), f"(graph {self._number})"]
        self._operations.note(" ".join(shown))

    def header(self, messages: Sequence[Arrays]) -> Header:
        """Describe messages: the GPU on which they lie, and their lengths."""
        gpu = gpu_of(messages)
        return (0 if gpu is None else 1 + gpu.index), [[len(a) for a in to] for to in messages]

    def exchange(
        self, sent: Mapping[int, Sequence[Arrays]], headers: Sequence[Header] | None = None
    ) -> dict[int, list[Arrays]]:
        """Send arrays from each part to each part, by NCCL if each has a GPU of its own.

        Else those that are received are NumPy arrays.
        """
        messages = sent[self.rank]
        if headers is None:
            headers = self.gather({self.rank: self.header(messages)})
        return {self.rank: self._operations.wait(lambda: self._exchange(messages, headers))}

    def _exchange(self, messages: Sequence[Arrays], headers: Sequence[Header]) -> list[Arrays]:
        numbers = tuple(number for number, _ in headers)
        received = np.array([sizes[self.rank] for _, sizes in headers], np.int64)
        if all(numbers):
            gpu = gpu_of(messages)
            assert gpu is not None
            nccl = self._operations.nccl(numbers, gpu)
            if nccl is not None:
                return nccl.exchange(messages, received)
        sent = np.array(headers[self.rank][1], np.int64)
        return self._exchange_on_host(messages, sent, received)

    def _exchange_on_host(
        self, messages: Sequence[Arrays], sent: HostArray, received: HostArray
    ) -> list[Arrays]:
        """Exchange arrays by MPI; ``sent`` and ``received`` are their lengths."""
        arrays = [np.ascontiguousarray(to_host(a)) for a in chain.from_iterable(messages)]
        like = arrays[: sent.shape[1]]  # all parts send arrays of these types
        width = np.array([a.itemsize * math.prod(a.shape[1:]) for a in like], np.int64)
        data = np.empty((received @ width).sum(), np.uint8)
        request = self._operations.comm.Ialltoallv(
            [_joined([a.reshape(-1).view(np.uint8) for a in arrays]), sent @ width],
            [data, received @ width],
        )
        self._operations.complete(request)
        pieces = iter(np.split(data, np.cumsum(received * width)[:-1]))
        return [
            [_aligned(next(pieces), a.dtype).reshape(-1, *a.shape[1:]) for a in like]
            for _ in range(self.size)
        ]

    def move(self, sent: Moved, received: Moved, gpus: Sequence[int], here: Device) -> None:
        """Send arrays to other parts, and set arrays to those that other parts send.

        The ranks agree on order, lengths and types, so nothing describes these.

        Parameters
        ----------
        sent, received : sequence of (int, array)
            The other part, and the array on the device ``here``; none is empty.
        gpus : tuple of int
            Of each part, as in `header`.
        """
        self._operations.wait(lambda: self._move(sent, received, gpus, here))

    def _move(self, sent: Moved, received: Moved, gpus: Sequence[int], here: Device) -> None:
        if all(gpus) and (nccl := self._operations.nccl(tuple(gpus), here)) is not None:
            nccl.move(sent, received)
            return
        requests, copies = [], []
        for k, a in received:
            place = a if is_host(a) and a.flags.c_contiguous else np.empty(a.shape, a.dtype)
            requests.append(self.comm.Irecv(_bytes(place), k))
            if place is not a:
                copies.append((a, place))
        requests += [self.comm.Isend(_bytes(to_host(a)), k) for k, a in sent]
        self._operations.complete(*requests)
        with here.active():
            for a, place in copies:
                a[...] = here.asarray(place)

    def repeated(
        self, sent: Moved, received: Moved, gpus: Sequence[int], here: Device
    ) -> Callable[[], None]:
        """Return a function that moves arrays as `move` does, each time with their contents then.

        Arrays of the host get requests that MPI starts again at each call.
        """
        if any([not is_host(a) or not a.flags.c_contiguous for _, a in (*sent, *received)]):
            return lambda: self.move(sent, received, gpus, here)
        requests = Requests(self._operations, sent, received)
        return lambda: self._operations.wait(requests.run)

    def all_reduce(self, array: HostArray, op: str) -> None:
        """Combine arrays of one shape and type of all ranks, in place; ``op`` as in `Routes`."""
        self._operations.wait(lambda: self._all_reduce(array, op))

    def _all_reduce(self, array: HostArray, op: str) -> None:
        mpi, flat = _mpi(), np.ascontiguousarray(array)
        operation = getattr(mpi, REDUCTIONS[op])
        self._operations.complete(self.comm.Iallreduce(mpi.IN_PLACE, flat, operation))
        if flat is not array:
            array[...] = flat

    def gather(self, values: Mapping[int, Any]) -> list[Any]:
        """Return to all ranks a value of each part, in the order of the parts."""
        return self._operations.gather(values[self.rank])


class Requests:
    """Persistent requests of MPI, which send and receive the same arrays of the host repeatedly.

    Parameters
    ----------
    operations : Operations
    sent, received : sequence of (int, array)
        As in `Ranks.move`; all contiguous.
    """

    def __init__(self, operations: Operations, sent: Moved, received: Moved) -> None:
        self._operations = operations
        self._requests = [operations.comm.Recv_init(_bytes(a), k) for k, a in received]
        self._requests += [operations.comm.Send_init(_bytes(a), k) for k, a in sent]
        operations.keep(self, self._requests)

    def run(self) -> None:
        """Send and receive all arrays."""
        if self._requests:
            _mpi().Prequest.Startall(self._requests)
            self._operations.complete(*self._requests)


def _bytes(a: HostArray) -> HostArray:
    """View an array as bytes: MPI lacks some types of NumPy."""
    return np.ascontiguousarray(a).reshape(-1).view(np.uint8)


def _joined(pieces: list[HostArray]) -> HostArray:
    """Concatenate arrays, without a copy if there is only one."""
    filled = [a for a in pieces if a.size] or pieces[:1]
    return filled[0] if len(filled) == 1 else np.concatenate(filled)


def _aligned(data: HostArray, dtype: Any) -> HostArray:
    """View bytes as values, or copy them if they are not aligned."""
    at = data.__array_interface__["data"][0]
    return (data.copy() if at % dtype.alignment else data).view(dtype)


def _shown(fact: Any) -> str:
    """A text that differs, most probably, if values do."""
    if not isinstance(fact, np.ndarray) or fact.dtype.hasobject or not fact.ndim:
        return str(fact)
    values: Any = np.ascontiguousarray(fact).reshape(-1).view(np.uint8)
    checksum = zlib.crc32(values)
    return f"{fact.dtype}{list(fact.shape)}#{checksum:08x}"


class Operations:
    """The operations of the host that a rank executes, which have to be those of all others.

    Attributes
    ----------
    comm : mpi4py.MPI.Comm
    rank : int
    users : iterator of int
        Numbers of the transports that share the communicator.
    network : bool
        Whether the ranks lie on several machines.
    waiting : float or None
        The time since when this rank waits for others.
    """

    def __init__(self, comm: Any) -> None:
        self.comm, self.rank, self.users = comm, comm.rank, itertools.count()
        self.waiting: float | None = None
        self._report_after = REPORT_AFTER  # seconds of waiting until the next report
        self._count, self._checksum = 0, 0
        self._recent: deque[str] = deque(maxlen=KEPT)
        self._error = ""  # which operations differ
        self._ended = False  # whether they do only at the end of the script
        self._process = os.getpid()
        self._nccl: dict[tuple[int, ...], Nccl | None] = {}
        self._requests: list[tuple[ref[Requests], list[Any]]] = []
        # the buffers that `_gather` sends and receives, and views of these
        self._record, self._records = (np.zeros(n, np.uint8) for n in (RECORD, (comm.size, RECORD)))
        self._head = self._record[:HEAD].view(np.int64)
        self._bytes = self._records.reshape(-1).data
        self._starts = range(0, comm.size * RECORD, RECORD)
        nodes = comm.allgather(platform.node())
        self.network = len(set(nodes)) > 1
        self._spinning, self._pause = SPINNING, _yield
        if nodes.count(nodes[comm.rank]) > (os.cpu_count() or 1):
            self._spinning, self._pause = CROWDED, partial(time.sleep, PAUSE)

    def keep(self, owner: Requests, requests: list[Any]) -> None:
        """Free the requests of owners that no longer exist; remember those of a new one."""
        kept = [(ref(owner), requests)]
        for of, some in self._requests:
            if of() is None:
                for request in some:
                    request.Free()
            else:
                kept.append((of, some))
        self._requests = kept

    def nccl(self, numbers: tuple[int, ...], gpu: Device) -> Nccl | None:
        """Connect the GPUs of all ranks, whose numbers are given, at the first call."""
        if numbers not in self._nccl:
            self._nccl[numbers] = connect(self.comm, gpu)
        return self._nccl[numbers]

    def note(self, operation: str) -> None:
        """Add the next operation, which the next `gather` compares."""
        self._count += 1
        self._checksum = zlib.crc32(operation.encode(), self._checksum)
        self._recent.append(operation)

    def wait(self, call: Callable[[], Result]) -> Result:
        """Call a function that waits for other ranks."""
        if self._error:
            raise PartError(self._error)
        self._report_after, self.waiting = REPORT_AFTER, time.monotonic()
        try:
            return call()
        finally:
            self.waiting = None

    def complete(self, *requests: Any) -> None:
        """Wait until requests of MPI are complete.

        MPI's own wait does not leave the processor to other processes, for example to a rank that
        this one waits for, if there are more processes than processors.
        """
        test, until = _mpi().Request.Testall, time.perf_counter() + self._spinning
        try:
            while not test(requests):
                if time.perf_counter() > until:
                    self._pause()
        except BaseException:  # of a signal handler: MPI may still write to the arrays
            _mpi().Request.Waitall(requests)
            raise

    def gather(self, value: Any) -> list[Any]:
        """Return to all ranks the value of each rank.

        Raises
        ------
        PartError
            If the ranks execute different operations.
        """
        data = b"" if value is None else pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        found = self.wait(lambda: self._gather(data))
        return [pickle.loads(x) if len(x) else None for x in found]

    def _gather(self, data: bytes) -> list[Any]:
        """Return the bytes of all ranks, valid until the next call.

        One collective if each rank has at most ``RECORD - HEAD`` bytes, else two.
        """
        short = RECORD - HEAD
        self._head[:] = self._count, self._checksum, len(data)
        if len(data) <= short:
            self._record[HEAD : HEAD + len(data)] = np.frombuffer(data, np.uint8)
        self.complete(self.comm.Iallgather(self._record, self._records))
        heads = self._records[:, :HEAD].view(np.int64).tolist()
        own = heads[self.rank][:2]
        if any([head[:2] != own for head in heads]):
            self._refuse_different()
        lengths = [n for _, _, n in heads]
        found = [
            self._bytes[k + HEAD : k + HEAD + n] for k, n in zip(self._starts, lengths, strict=True)
        ]
        if max(lengths) > short:
            rest = np.array([n if n > short else 0 for n in lengths])
            longer = np.empty(rest.sum(), np.uint8)
            self.comm.Allgatherv(data if rest[self.rank] else b"", [longer, rest])
            pieces = np.split(longer, np.cumsum(rest)[:-1])
            found = [x.data if n else y for x, y, n in zip(pieces, found, rest, strict=True)]
        return found

    def _refuse_different(self) -> None:
        """Raise an error that names the first operation that differs."""
        recent = self.comm.allgather((self._count, tuple(self._recent)))
        self._error = _difference(recent)
        self._ended = all(texts[-1:] == (END,) for _, texts in recent)
        raise PartError(self._error)

    def report(self) -> None:
        """If this rank has waited long, say in which operation."""
        since = self.waiting
        seconds = 0.0 if since is None else time.monotonic() - since
        if since is not None and seconds >= self._report_after:
            self._report_after *= 2
            where = self._recent[-1] if self._recent else "the start"
            text = f"rank {self.rank} has waited {seconds:.0f} s for other ranks in: {where}"
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """At the end of the script: wait for the other ranks, which have to be there, too."""
        if self._error or _mpi().Is_finalized() or os.getpid() != self._process:
            return
        self.note(END)
        try:
            self.gather(None)
        except PartError as error:
            print(f"rank {self.rank} has ended: {error}", file=sys.stderr, flush=True)
            if self._ended:  # otherwise another rank raises the error
                self.comm.Abort(1)
        else:
            for nccl in filter(None, self._nccl.values()):
                nccl.comm.destroy()  # waits for other ranks, so not when objects are freed


def _difference(recent: Sequence[tuple[int, Sequence[str]]]) -> str:
    """Name the first operation that differs between ranks, of the last ones of each."""
    by_number = [
        dict(zip(range(count - len(texts) + 1, count + 1), texts, strict=True))
        for count, texts in recent
    ]
    first = max(min(x, default=1) for x in by_number)
    for number in range(first, max(count for count, _ in recent) + 1):
        texts = [x.get(number, "nothing") for x in by_number]
        for k, text in enumerate(texts):
            if text != texts[0]:
                what = f"rank 0: {texts[0]}; rank {k}: {text}"
                return f"the ranks execute different operations, number {number}: {what}"
    return f"the ranks execute different operations, before number {first}"


_known: list[Operations] = []


def _mpi() -> Any:
    """The module of the communicators, which the caller has imported."""
    return sys.modules["mpi4py.MPI"]


def _operations_of(comm: Any) -> Operations:
    """The operations of the ranks of a communicator."""
    for known in _known:
        if _mpi().Group.Compare(known.comm.group, comm.group) == _mpi().IDENT:
            return known
    versions = VERSION, vars(sys.modules["morph"])["__version__"]
    found = list(zip(*comm.allgather(versions), strict=True))
    refuse_different("the version of Morph's messages", found[0])
    refuse_different("the version of Morph", found[1])
    made = Operations(comm.Dup())
    if not _known:
        _end_all_at_an_error(made.comm)
        threading.Thread(target=_watch, name="morph-ranks", daemon=True).start()
    _known.append(made)
    atexit.register(made.end)
    return made


def _watch() -> None:
    """Report what this rank waits in, now and then."""
    while True:
        time.sleep(min(1.0, REPORT_AFTER / 4))
        for operations in _known:
            operations.report()


def _end_all_at_an_error(comm: Any) -> None:
    """Let an exception that nothing catches end all ranks, after its report."""
    before = sys.excepthook

    def end_all(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        before(kind, error, trace)
        reason = traceback.format_exception_only(kind, error)[-1].strip()
        print(f"rank {comm.rank} ends all {comm.size}: {reason}", file=sys.stderr, flush=True)
        comm.Abort(1)

    sys.excepthook = end_all
