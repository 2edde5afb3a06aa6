"""Exchange of arrays between parts: the interface, and parts of one process; `ranks`: by MPI.

All processes make the same calls in the same order.  `Transport.begin` states which operation a
process executes next, so that a process that executes another one is found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from morph.runtime.device import Array, Device

Arrays = Sequence[Array]
Header = Any  # a description of messages, see `Transport.header`; its form is the transport's
Result = TypeVar("Result")


class Transport(Protocol):
    """Exchanges arrays and values between the parts of a graph.

    Each method is called by all processes in the same order.

    Attributes
    ----------
    size : int
        Number of parts.
    here : range
        The parts of this process.
    network : bool
        Whether some parts lie on other machines, so that fewer bytes take less time.
    """

    size: int
    here: range
    network: bool

    def begin(self, operation: str, *facts: Any) -> None:
        """State the next operation of the host, such as a launch or a write to a column.

        The next `gather` compares it between the processes.

        Parameters
        ----------
        operation : str
            For the error: ``"write points.dist"``.
        *facts : object
            Equal in all processes: arrays of the host, and values that are compared as text.

        Raises
        ------
        PartError
            From that `gather`, in all processes, if their operations differ.
        """

    def header(self, messages: Sequence[Arrays]) -> Header:
        """Describe the messages of a part to each part, from which receivers allocate arrays."""

    def exchange(
        self, sent: Mapping[int, Sequence[Arrays]], headers: Sequence[Header] | None = None
    ) -> dict[int, list[Arrays]]:
        """Send arrays from each part to each part.

        Parameters
        ----------
        sent : dict of int to sequence of sequence of array
            For each part of this process, what it sends to each of all parts: one-dimensional
            arrays, equally many with the same dtypes for each of them.
        headers : sequence of Header, optional
            Of all parts, in order, if the caller has gathered them; otherwise this gathers them.

        Returns
        -------
        dict of int to list of sequence of array
            For each part of this process, what it receives from each of all parts; on its device
            or on the host.
        """

    def gather(self, values: Mapping[int, Any]) -> list[Any]:
        """Return to all processes a value of each part, in the order of the parts."""


class Local:
    """All parts lie in this process: arrays are copied only to other devices.

    Parameters
    ----------
    devices : sequence of Device
        Of each part.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self.devices, self.size, self.here = devices, len(devices), range(len(devices))
        # the devices to synchronize; none if all parts are on one, whose stream orders the copies
        self._several = [] if len(set(devices)) == 1 else sorted(set(devices), key=str)
        self.network = False

    def begin(self, operation: str, *facts: Any) -> None:
        """State the next operation, which one process does not compare."""

    def header(self, messages: Sequence[Arrays]) -> Header:
        """Return None: copies within a process need no description."""

    def exchange(
        self, sent: Mapping[int, Sequence[Arrays]], headers: Sequence[Header] | None = None
    ) -> dict[int, list[Arrays]]:
        """Send arrays from each part to each part, see `Transport.exchange`."""
        self._synchronize()  # until the arrays to send have been computed
        received: dict[int, list[Arrays]] = {}
        for j, device in enumerate(self.devices):
            theirs = (sent[k][j] for k in self.here)
            received[j] = [
                [device.asarray(a) for a in arrays] if self._several else arrays
                for arrays in theirs
            ]
        self._synchronize()  # until they have been copied: senders may overwrite them
        return received

    def _synchronize(self) -> None:
        for device in self._several:
            device.synchronize()

    def gather(self, values: Mapping[int, Any]) -> list[Any]:
        """Return a value of each part, in the order of the parts."""
        return [values[k] for k in self.here]


class PartError(RuntimeError):
    """A part on another rank has failed, or the ranks execute different operations."""


def agree(transport: Transport, what: str, value: Any) -> None:
    """Raise an error in all processes if a value differs between parts.

    Parameters
    ----------
    what : str
        For the error: ``"the graph"``.
    value : object
        The value to compare, or its checksum.

    Raises
    ------
    ValueError
        If it differs.
    """
    refuse_different(what, transport.gather(dict.fromkeys(transport.here, value)))


def refuse_different(what: str, found: Sequence[Any]) -> None:
    """Raise an error if a value differs between parts, see `agree`."""
    for k, other in enumerate(found):
        if other != found[0]:
            raise ValueError(f"{what} differs between rank 0 and rank {k}: {found[0]}, {other}")


def raise_together(transport: Transport, errors: Mapping[int, BaseException | None]) -> None:
    """Raise the error of a part in all processes.

    Parameters
    ----------
    errors : dict of int to exception or None
        The error of each part of this process.

    Raises
    ------
    BaseException
        The first error of a part of this process, if there is one.
    PartError
        Otherwise, if a part of another process has one.
    """
    raise_any(errors, transport.gather(error_texts(errors)))


def error_texts(errors: Mapping[int, BaseException | None]) -> dict[int, str | None]:
    """Return the errors of parts as texts: exceptions may not be picklable."""
    return {k: None if e is None else f"{type(e).__name__}: {e}" for k, e in errors.items()}


def raise_any(errors: Mapping[int, BaseException | None], found: Sequence[str | None]) -> None:
    """Raise the first error of this process, else a `PartError` with the first of all texts."""
    for error in errors.values():
        if error is not None:
            raise error
    for k, message in enumerate(found):
        if message:
            raise PartError(f"part {k} has failed: {message}")


def on_all(transport: Transport, call: Callable[[], Result]) -> Result:
    """Call a function in each process; an error in one of them is raised in all.

    Raises
    ------
    PartError
        If another process has failed, and this one has not.
    """
    errors: dict[int, BaseException | None] = dict.fromkeys(transport.here)
    try:
        value = call()
    except Exception as error:
        errors[transport.here.start] = error
    raise_together(transport, errors)
    return value
