"""Exchange of arrays between the GPUs of MPI ranks by NCCL, through CuPy."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any

from morph.runtime.arrays import import_cupy, is_host
from morph.runtime.device import Array, Device, device_of

Moved = Sequence[tuple[int, Array]]  # with the number of the other rank


def gpu_of(messages: Sequence[Sequence[Array]]) -> Device | None:
    """The GPU with all arrays of messages; None if there is none."""
    arrays = list(chain.from_iterable(messages))
    return None if not arrays or any(map(is_host, arrays)) else device_of(arrays[0])


@cache
def _nccl() -> Any:
    """CuPy's module for NCCL, which `cupy.cuda` does not import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a missing library, see `available`
        from cupy.cuda import nccl  # noqa: PLC0415
    return nccl


def connect(comm: Any, gpu: Device) -> Nccl | None:
    """Connect the GPUs of all ranks of a communicator, one for each rank.

    Returns
    -------
    Nccl or None
        None if NCCL is missing, if two ranks have the same GPU, or, with a warning, if NCCL cannot
        connect the GPUs.
    """
    with gpu.active():
        nccl = _nccl()
        place, name, problem = None, None, ""
        try:
            place, name = _place(gpu, comm.rank == 0) if nccl.available else (None, None)
        except Exception as error:
            problem = _shown(comm, error)
        found = comm.allgather((place, name, problem))
        if _refused(x for _, _, x in found):
            return None
        places = {x for x, _, _ in found}
        if None in places or len(places) < len(found):
            return None
        made = None
        try:
            made = Nccl(nccl.NcclCommunicator(comm.size, found[0][1], comm.rank), gpu)
        except Exception as error:  # NCCL may raise any error
            problem = _shown(comm, error)
        return None if _refused(comm.allgather(problem)) else made


def _shown(comm: Any, error: Exception) -> str:
    """Describe an error and its rank."""
    return f"rank {comm.rank}: {type(error).__name__}: {error}"


def _refused(problems: Iterable[str]) -> bool:
    """Warn of the first problem of a rank; return whether there is one."""
    first = next(filter(None, problems), "")
    if first:
        shown = f"NCCL does not connect the GPUs, so arrays go by MPI; {first}"
        warnings.warn(shown[:200], RuntimeWarning, stacklevel=3)
    return bool(first)


def _place(gpu: Device, first: bool) -> tuple[Any, Any]:
    """Machine and id of a GPU; from the first rank also the unique id of the connection."""
    bus = import_cupy().cuda.runtime.deviceGetPCIBusId(gpu.index)
    return (platform.node(), bus), _nccl().get_unique_id() if first else None


class Nccl:
    """Exchanges arrays between the GPUs of ranks, on CuPy's current stream.

    Parameters
    ----------
    comm : cupy.cuda.nccl.NcclCommunicator
    gpu : Device
        The GPU of this rank.
    """

    def __init__(self, comm: Any, gpu: Device) -> None:
        self.comm, self.gpu = comm, gpu

    def move(self, sent: Moved, received: Moved) -> None:
        """Send arrays to other ranks, and set arrays to those that other ranks send.

        Parameters
        ----------
        sent, received : sequence of (int, array)
            The other rank, and the array; those of one rank in the order of the other one.
        """
        gpu, nccl = self.gpu, _nccl()
        with gpu.active():
            outgoing = [(k, gpu.xp.ascontiguousarray(a)) for k, a in sent]
            incoming = [(k, gpu.xp.ascontiguousarray(a)) for k, a in received]
            kind, stream = nccl.NCCL_UINT8, import_cupy().cuda.get_current_stream().ptr
            nccl.groupStart()
            for k, a in outgoing:
                self.comm.send(gpu.pointer(a), a.nbytes, kind, k, stream)
            for k, a in incoming:
                self.comm.recv(gpu.pointer(a), a.nbytes, kind, k, stream)
            nccl.groupEnd()
            for (_, target), (_, a) in zip(received, incoming, strict=True):
                if a is not target:
                    target[...] = a

    def exchange(self, sent: Sequence[Sequence[Array]], sizes: Any) -> list[Sequence[Array]]:
        """Send arrays to each rank, and receive arrays of the same types from each.

        Parameters
        ----------
        sent : sequence of sequence of array
            The arrays for each rank.
        sizes : array of int64, shape (ranks, arrays)
            The lengths of the arrays that each rank sends to this one.
        """
        gpu, nccl, rank = self.gpu, _nccl(), self.comm.rank_id()
        with gpu.active():
            given = [[gpu.xp.ascontiguousarray(a) for a in to] for to in sent]
            like = [(a.shape[1:], a.dtype) for a in given[rank]]
            received: list[Sequence[Array]] = [
                [gpu.empty((n, *shape), t) for n, (shape, t) in zip(row, like, strict=True)]
                for row in sizes.tolist()
            ]
            received[rank] = given[rank]
            kind, stream = nccl.NCCL_UINT8, import_cupy().cuda.get_current_stream().ptr
            nccl.groupStart()
            for k in range(len(given)):
                if k == rank:
                    continue
                for a in filter(_size, given[k]):
                    self.comm.send(gpu.pointer(a), a.nbytes, kind, k, stream)
                for a in filter(_size, received[k]):
                    self.comm.recv(gpu.pointer(a), a.nbytes, kind, k, stream)
            nccl.groupEnd()
        return received


def _size(a: Array) -> int:
    return int(a.size)
