"""Programs bound to their objects, for calls in which only numbers differ.

A call of a program finds its launch by all its arguments, which takes longer than a short launch.
A `Prepared` program is looked up once; its calls pack numbers, launch, and read the result.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from morph.compiler.ir.layout import Status
from morph.launch import launcher
from morph.launch.checked import is_checked
from morph.launch.foreach import Program
from morph.launch.launcher import RUN, Launch
from morph.launch.lookup import launch_for
from morph.launch.scratch import STATUS
from morph.launch.threads import get_num_threads

FAILED = int(Status.FAILED)
pack_run = RUN.pack_into
Numbers = tuple[int | float | bool, ...]


class Prepared:
    """A program bound to its objects, run by one CPU thread or one block of a GPU.

    Values that kernels take from globals are compared when it is made, not at each call.

    Attributes
    ----------
    launch : Launch
        With an argument block of its own.
    """

    __slots__ = (
        "_at", "_first", "_none", "_pack", "_pick", "_run", "_state", "_unpack", "launch", "mode",
    )  # fmt: skip

    def __init__(self, launch: Launch) -> None:
        self.launch, compiled = launch.separate(), launch.compiled
        # all numbers among the arguments, in their order; in the block they lie in another one
        places = {at: k for k, at in enumerate(sorted(compiled.origins))}
        self._pick: Any = itemgetter(*(places[at] for at in compiled.origins))
        self._state = self.launch.state.data if launch.on_host else None
        self._none = bytes(0 if self._state is None else self._state.nbytes)
        if self._state is not None:
            self._state = self._state.cast("B")
        self.mode = launch.mode
        self._pack, self._first = compiled.scalars.pack_into, compiled.first_scalar
        self._run = compiled.run_offset
        kind, at = compiled.returns  # type: ignore[misc]
        self._unpack, self._at = kind.unpack_from, 8 * (STATUS + at)
        self.launch._fill()

    @classmethod
    def of(cls, program: Program, *args: Any) -> Prepared | None:
        """Bind a program; None if its calls are more than one launch, or need what `run` omits."""
        if is_checked():
            return None
        launch, _ = launch_for(program, None, args, None)
        if launch is None or launch.__class__ is not Launch or not launch.ends_at_once():
            return None
        return cls(launch)

    def current(self) -> bool:
        """Whether a call would find the same launch."""
        launch = self.launch
        return (
            launch._current() and self.mode == (launcher.faults, launcher.seed) and not is_checked()
        )

    def run(self, numbers: Numbers, then: Prepared | None = None, more: Numbers = ()) -> Any:
        """Launch with all numbers among the arguments, in the order of these; return the result.

        A second program, ``then``, is launched behind the first one without waiting for it; only
        its result is returned.  The caller has seen that both are `current`.
        """
        launch = self.launch
        shared, most = launch.scratch, get_num_threads()
        with launch.lock, shared.lock:
            if shared.running:
                raise RuntimeError("a signal handler that interrupts a launch cannot launch")
            shared.running = True
            try:
                shared.begin()
                self._start(numbers, most)
                if then is None:
                    return self._result(most)
                then._start(more, most)
                return then._result(most)
            except BaseException:  # also one raised by a signal handler
                if not launch.compiled.interruptible:
                    shared.report.wait(True, False)
                shared.stop()
                raise
            finally:
                shared.running = False
                if not launch.on_host:
                    launch._touch()
                    if then is not None:
                        then.launch._touch()

    def _start(self, numbers: Numbers, most: int) -> None:
        """Write the numbers, and launch."""
        launch = self.launch
        s, buffer = launch.scratch, launch.buffer
        self._pack(buffer, self._first, *self._pick(numbers))
        s.launches += 1
        pack_run(buffer, self._run, 0, s.launches, 1)
        if launch.scratch_version != s.version or launch.threads != most:
            launch._fill_shared(most)
        if self._state is not None:
            self._state[:] = self._none
        launch.binary(launch.arguments, 1, True)

    def _result(self, most: int) -> Any:
        """Wait for the launch, execute deferred items again, and return the result."""
        launch = self.launch
        s, interruptible = launch.scratch, launch.compiled.interruptible
        status = s.report.poll(s.launches, interruptible)
        while status[FAILED]:
            launch._resume(1, most)
            launch.binary(launch.arguments, launch._items(), True)
            status = s.report.wait(True, interruptible)
        s.dirty = False
        return self._unpack(status, self._at)[0]
