"""Runs sections concurrently: a host thread for each section on GPUs, the caller for the others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any

from morph.data.row import RowRange
from morph.language.bundles import flat
from morph.language.hooks import Hook
from morph.language.messages import shown
from morph.launch.slots import in_parts, owner
from morph.runtime.device import Device
from morph.runtime.threads import run_calls

_scratch: Hook[Any] = Hook("morph.launch.scratch:scratch")


class Section:
    """A function that runs when the block of `sections` ends; made by `Sections.run`.

    Attributes
    ----------
    function : callable
    place : str
        File and line, for errors.
    users : list
        The graphs that it uses, and the tables and collections that belong to no graph.
    devices : list of Device
        The devices of ``users``.
    """

    def __init__(self, function: Callable[[], Any], place: str, objects: Iterable[Any]) -> None:
        self.function, self.place = function, place
        self.users = used(objects)
        self.devices: list[Device] = [d for x in self.users for d in _devices(x)]
        self._value: Any = None
        self._error: BaseException | None = RuntimeError("the section has not run")

    def result(self) -> Any:
        """Return the result of the function.

        Raises
        ------
        RuntimeError
            If the block has not ended, or its sections have not run because it raised an error.
        BaseException
            The error that the function raised.
        """
        if self._error is not None:
            raise self._error
        return self._value

    @property
    def is_here(self) -> bool:
        """Whether the section runs in the calling thread.

        A signal interrupts launches on the host only in that thread, and one launch uses all cores;
        MPI ranks exchange data in the order of the block.
        """
        distributed = any(len(x.here) < len(x.devices) for x in self.users if in_parts(x))
        return distributed or any(d.on_host for d in self.devices)

    def execute(self) -> None:
        """Call the function, and keep its result or its error."""
        try:
            self._value, self._error = self.function(), None
        except BaseException as error:
            error.add_note(f"in the section at {self.place}")
            self._error = error

    def failed(self) -> list[BaseException]:
        """Return the error of the function, if it raised one."""
        return [] if self._error is None else [self._error]


class Sections:
    """The sections of a block that are functions; ``with morph.sections() as s:`` gives one."""

    def __init__(self) -> None:
        self.functions: list[Section] = []

    def run(self, function: Callable[..., Any], *args: Any, **options: Any) -> Section:
        """Call a function when the block ends, at the same time as the other sections run.

        Parameters
        ----------
        function : callable
            For example an algorithm of Morph, or a function that launches kernels.
        *args, **options : object
            All graphs, tables and collections that the function uses are among them.

        Returns
        -------
        Section
            After the block, ``result()`` returns the result of the function.
        """
        if not callable(function):
            raise TypeError(f"run takes a function and its arguments, not {shown(function)}")
        frame = sys._getframe(1)
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        objects = (*args, *options.values())
        made = Section(partial(function, *args, **options), place, objects)
        self.functions.append(made)
        return made


def used(objects: Iterable[Any]) -> list[Any]:
    """Return the graphs of objects, and the tables and collections without a graph, each once."""
    found = {}
    for x in flat(tuple(objects)):
        x = owner(x.store if isinstance(x, RowRange) else x)
        if in_parts(x) and not hasattr(x, "graph"):
            x = getattr(x, "table", x)
        graph = getattr(x, "graph", None)
        x = x if graph is None else graph
        if hasattr(x, "_lock"):
            found[id(x._lock)] = x
    return list(found.values())


def _devices(x: Any) -> list[Device]:
    return list(x.devices) if in_parts(x) else [x.device]


def run_together(sections: Sequence[Section]) -> None:
    """Run sections at the same time.

    Raises
    ------
    ValueError
        If two sections use the same graph; then none has run.
    BaseException
        The error of a section, raised when all have ended; an ``ExceptionGroup`` if several fail.
    """
    users: dict[int, Section] = {}
    for s in sections:
        for x in s.users:
            other = users.setdefault(id(x._lock), s)
            if other is not s:
                raise ValueError(
                    f"the sections at {other.place} and {s.place} both use {shown(x)}: sections"
                    " that run at the same time need graphs of their own"
                )
    here = [s for s in sections if s.is_here]
    others = [s for s in sections if not s.is_here]

    def execute_here() -> None:
        for s in here:
            s.execute()
            for error in s.failed():
                if not isinstance(error, Exception):  # of a signal handler: ends all sections
                    raise error

    def stop() -> None:
        for device in {d for s in others for d in s.devices}:
            _scratch(device).stop()

    run_calls([partial(copy_context().run, s.execute) for s in others], execute_here, stop)
    errors = [e for s in sections for e in s.failed()]
    if len(errors) > 1:
        raise BaseExceptionGroup(f"{len(errors)} of {len(sections)} sections failed", errors)
    for error in errors:
        raise error
