"""Groups of devices that compute parts of one result, without a partitioned graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from morph.partition.copies import ProgramCache, can_run_together
from morph.partition.partition import devices_of
from morph.partition.pool import each_part
from morph.partition.routes import OPERATIONS
from morph.partition.transport import Local
from morph.runtime.device import Array, device_for
from morph.runtime.threads import Call, start


def share_of(n: int, k: int, size: int) -> slice:
    """Return the k-th of ``size`` equal shares of n rows."""
    return slice(n * k // size, n * (k + 1) // size)


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

    def beside(self, size: int, run: Callable[[int], Any]) -> Callable[[], None]:
        """Call ``run(k)`` for each k below ``size`` in its own host thread; the caller continues.

        Returns
        -------
        callable
            Waits for the calls, and raises their first error.
        """
        calls: list[Call] = []
        for k in range(size):
            start(calls, run, k)

        def wait() -> None:
            for call in calls:
                call.wait()
            for call in calls:
                if call.error is not None:
                    raise call.error

        return wait

    @cached_property
    def programs(self) -> ProgramCache | None:
        """Programs that all parts execute together in one launch each; None if they cannot."""
        return ProgramCache(self.devices) if can_run_together(self.devices) else None

    def all_reduce(self, arrays: list[Array], op: str) -> None:
        """Combine the arrays of all parts, for all parts; part k combines the k-th share of rows.

        Parameters
        ----------
        arrays : list of array
            One of each part, on its device, all of one shape and type; they are overwritten.
        op : {"add", "min", "max", "or", "and"}
        """
        n, size = len(arrays[0]), len(arrays)
        rows = [share_of(n, k, size) for k in range(size)]
        if self._combined(arrays, rows, op):
            return
        sent = {k: [[a[r].reshape(-1)] for r in rows] for k, a in enumerate(arrays)}
        results = {}
        for k, received in self.exchange(sent).items():
            with self.devices[k].active():
                result = received[0][0]
                for (values,) in received[1:]:
                    result = OPERATIONS[op](self.devices[k].xp, result, values)
                results[k] = [[result]] * size
        for k, received in self.exchange(results).items():
            with self.devices[k].active():
                for r, (values,) in zip(rows, received, strict=True):
                    arrays[k][r] = values.reshape(arrays[k][r].shape)

    @cached_property
    def _peer_access(self) -> bool:
        """Whether kernels of each device can access the memory of all devices."""
        return all(d.reach(other) for d in self.devices for other in self.devices)

    def _combined(self, arrays: list[Array], rows: list[slice], op: str) -> bool:
        """Combine arrays by a kernel on each device, if the devices have one; whether they have."""
        if not self._peer_access:
            return False
        self._synchronize()  # until the arrays have been computed
        done = [d.combine(arrays, own, op) for d, own in zip(self.devices, rows, strict=True)]
        self._synchronize()
        return all(done)
