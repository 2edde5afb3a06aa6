"""Parts on the ranks of an MPI communicator, one on each."""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Mapping, Sequence
from itertools import chain
from types import TracebackType
from typing import Any

import numpy as np

from morph.partition.transport import Arrays, agree
from morph.runtime.arrays import to_host

VERSION = 1  # of the messages between ranks


class Ranks:
    """Exchanges arrays between the ranks of a communicator, see `transport.Transport`.

    An exception that nothing catches ends all ranks, as the exception of a rank that waits for
    nobody would leave the others waiting.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Rank k has part k.  The messages go through a duplicate, apart from those of the caller.

    Raises
    ------
    ValueError
        If the ranks run different versions.
    """

    def __init__(self, comm: Any) -> None:
        self.comm = comm.Dup()
        self.size, self.parts = comm.size, range(comm.rank, comm.rank + 1)
        _end_all_at_an_error(self.comm)
        agree(self, "the version of Morph's messages", VERSION)

    @property
    def rank(self) -> int:
        """The number of this rank, which is that of its part."""
        return self.parts.start

    def exchange(self, sent: Mapping[int, Sequence[Arrays]]) -> dict[int, list[Arrays]]:
        """Send arrays from each part to each part; those that are received are NumPy arrays."""
        messages = [[np.ascontiguousarray(to_host(a)) for a in to] for to in sent[self.rank]]
        width = np.array([a.itemsize * math.prod(a.shape[1:]) for a in messages[0]], np.int64)
        sizes = np.array([[len(a) for a in to] for to in messages], np.int64)
        found = np.empty_like(sizes)  # the lengths of what each part sends to this one
        self.comm.Alltoall(sizes, found)
        bytes_of = [a.reshape(-1).view(np.uint8) for a in chain.from_iterable(messages)]
        received = np.empty((found @ width).sum(), np.uint8)
        self.comm.Alltoallv(
            [np.concatenate(bytes_of), sizes @ width], [received, found @ width]
        )  # fmt: skip
        pieces = iter(np.split(received, np.cumsum(found * width)[:-1]))
        return {
            self.rank: [
                [next(pieces).copy().view(a.dtype).reshape(-1, *a.shape[1:]) for a in messages[0]]
                for _ in range(self.size)
            ]
        }

    def gather(self, values: Mapping[int, Any]) -> list[Any]:
        """Give all ranks a value of each part, in the order of the parts."""
        found: list[Any] = self.comm.allgather(values[self.rank])
        return found


_ending = [False]  # whether the hook is installed


def _end_all_at_an_error(comm: Any) -> None:
    """Let an exception that nothing catches end all ranks, after its report."""
    if _ending[0]:
        return
    _ending[0], before = True, sys.excepthook

    def end_all(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        before(kind, error, trace)
        reason = traceback.format_exception_only(kind, error)[-1].strip()
        print(f"rank {comm.rank} ends all {comm.size}: {reason}", file=sys.stderr, flush=True)
        comm.Abort(1)

    sys.excepthook = end_all
