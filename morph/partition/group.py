"""Groups of devices that compute parts of one result, without a partitioned graph.

The devices of a group lie in one process, or each on an MPI rank of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

from morph.language.hooks import Hook
from morph.partition.partition import devices_of
from morph.partition.pool import each_part
from morph.partition.ranks import Ranks
from morph.partition.routes import OPERATIONS
from morph.partition.transport import Local, Transport, on_all
from morph.runtime.device import Array, Device, device_for
from morph.runtime.threads import Call, finish, start

# several devices need the compiler
_program_cache: Hook[Any] = Hook("morph.partition.copies:ProgramCache")
_can_run_together: Hook[bool] = Hook("morph.partition.copies:can_run_together")


def share_of(n: int, k: int, size: int) -> slice:
    """Return the k-th of ``size`` equal shares of n rows."""
    return slice(n * k // size, n * (k + 1) // size)


def all_reduce(
    transport: Transport, devices: Sequence[Device], arrays: list[Array], op: str
) -> None:
    """Combine the arrays of all parts, for all parts; part k combines the k-th share of rows.

    All processes call it with the same ``op``.

    Parameters
    ----------
    transport : Transport
    devices : sequence of Device
        Of all parts.
    arrays : list of array
        One of each part of this process, on its device; those of all parts have one shape and
        type.  They are overwritten.
    op : {"add", "min", "max", "or", "and"}
        How values of the same place are combined.
    """
    n, size, here = len(arrays[0]), transport.size, transport.here
    rows = [share_of(n, k, size) for k in range(size)]
    own = dict(zip(here, arrays, strict=True))
    sent = {k: [[a[r].reshape(-1)] for r in rows] for k, a in own.items()}
    results = {}
    for k, received in transport.exchange(sent).items():
        device = devices[k]
        with device.active():
            result, *others = (device.asarray(values) for (values,) in received)
            for values in others:
                result = OPERATIONS[op](device.xp, result, values)
            results[k] = [[result]] * size
    for k, received in transport.exchange(results).items():
        with devices[k].active():
            for r, (values,) in zip(rows, received, strict=True):
                own[k][r] = devices[k].asarray(values).reshape(own[k][r].shape)


class RankGroup:
    """The ranks of a communicator, each with a part of a computation on a device of its own.

    All ranks call its methods in the same order.

    Parameters
    ----------
    ranks : Ranks
    device : str, Device or list of these, or None
        Of each rank, or one for all.
    otherwise : str
        See `morph.runtime.device.device_for`.

    Attributes
    ----------
    devices : list of Device
        Of all ranks.
    here : range
        The part of this process.
    size : int
    programs : None
        Parts in several processes execute no program together.

    Raises
    ------
    TypeError, ValueError, DeviceError
        If a device is not there, or the list has not one for each rank.
    PartError
        If another rank raises one of these.
    """

    programs = None

    def __init__(self, ranks: Ranks, device: Any, otherwise: str = "cpu") -> None:
        self.ranks, self.here, self.size = ranks, ranks.here, ranks.size
        self.gather = ranks.gather
        one = not isinstance(device, list | tuple)
        self.devices = on_all(
            ranks,
            lambda: devices_of(ranks, device_for(device, otherwise=otherwise) if one else device),
        )

    def each(self, run: Callable[[int], Any]) -> None:
        """Call a function with the number of the part; an error on one rank is raised on all."""
        on_all(self.ranks, lambda: run(self.here.start))

    def on_all(self, run: Callable[[], None]) -> None:
        """Call a function on each rank; an error on one rank is raised on all."""
        on_all(self.ranks, run)

    def all_reduce(self, arrays: list[Array], op: str) -> None:
        """Combine the arrays of all ranks, one of each, in place, see the function `all_reduce`."""
        if all(d.on_host for d in self.devices):
            self.ranks.all_reduce(arrays[0], op)
        else:
            all_reduce(self.ranks, self.devices, arrays, op)

    def on_first(self, run: Callable[[], Any]) -> Any:
        """Call a function on the first rank, and return its value, which is pickled, on all.

        Raises
        ------
        Exception
            On the first rank, that of the function; on the others `PartError` then.
        """
        first = self.here.start == 0
        value = on_all(self.ranks, lambda: run() if first else None)
        return self.gather({self.here.start: value})[0]


class DeviceGroup(Local):
    """Devices of this process, each with a part of a computation; one may have several parts.

    Parameters
    ----------
    devices : str, Device or list of these, or None
    otherwise : str
        See `morph.runtime.device.device_for`.

    Raises
    ------
    TypeError, ValueError, DeviceError
        If a device is not there, or the list is empty.
    """

    def __init__(self, devices: Any, otherwise: str = "cpu") -> None:
        several = isinstance(devices, list | tuple)
        one = None if several else [device_for(devices, otherwise=otherwise)]
        super().__init__(devices_of(None, devices) if one is None else one)

    def each(self, run: Callable[[int], Any]) -> None:
        """Call a function with the number of each part, in a thread for each GPU.

        An error of a part is raised when all have ended; parts that have not begun then do not run.
        """
        failed = False

        def run_unless_failed(k: int) -> None:
            nonlocal failed
            if failed:
                return
            try:
                run(k)
            except Exception:
                failed = True
                raise

        each_part(self.devices, self, run_unless_failed)

    def on_all(self, run: Callable[[], None]) -> None:
        """Call a function in each process, which is this one."""
        run()

    def beside(self, size: int, run: Callable[[int], Any]) -> Callable[[], None]:
        """Call ``run(k)`` for each k below ``size`` in its own host thread; the caller continues.

        Returns
        -------
        callable
            Waits for the calls, also after an interrupt, and raises their first error.
        """
        calls: list[Call] = []
        try:
            for k in range(size):
                start(calls, run, k)
        except BaseException as error:
            finish(calls, [error])
        return partial(finish, calls, [])

    @cached_property
    def programs(self) -> Any:
        """Programs that all parts execute together in one launch each; None if they cannot."""
        return _program_cache(self.devices) if _can_run_together(self.devices) else None

    def all_reduce(self, arrays: list[Array], op: str) -> None:
        """Combine the arrays of all parts, see the function `all_reduce`."""
        rows = [share_of(len(arrays[0]), k, self.size) for k in self.here]
        if not self._combined(arrays, rows, op):
            all_reduce(self, self.devices, arrays, op)

    @cached_property
    def _peer_access(self) -> bool:
        """Whether kernels of each device can access the memory of all devices."""
        return all(d.reach(other) for d in self.devices for other in self.devices)

    def _combined(self, arrays: list[Array], rows: list[slice], op: str) -> bool:
        """Combine arrays by a kernel on each device; return false if a device has none."""
        if not self._peer_access:
            return False
        self._synchronize()  # until the arrays have been computed
        done = [d.combine(arrays, own, op) for d, own in zip(self.devices, rows, strict=True)]
        self._synchronize()
        return all(done)
