"""Programs bound to their objects, for calls in which only numbers differ.

A call of a program looks its launch up by all arguments, which takes longer than a short launch.
A `Prepared` program is looked up once; its calls write the numbers into the argument block, launch,
and read the result.
"""

from __future__ import annotations

from typing import Any

from morph.compiler.ir.layout import Status
from morph.data.store import Store
from morph.data.versions import latest
from morph.launch import launcher
from morph.launch.checked import is_checked
from morph.launch.foreach import Program
from morph.launch.launcher import RUN, Launch
from morph.launch.lookup import launch_for
from morph.launch.scratch import STATUS
from morph.runtime.threads import get_num_threads

FAILED = int(Status.FAILED)
pack_run = RUN.pack_into
Numbers = tuple[int | float | bool, ...]


class Prepared:
    """A program bound to its objects.

    Values that kernels take from globals are compared when it is made, not at each call.

    Attributes
    ----------
    launch : Launch
        With an argument block of its own.
    mode : tuple
        Fault injection and seed, with which the launch was made.
    single_block : bool
        Whether one block of a GPU, or one CPU thread, executes it; true at first.
    """

    __slots__ = (
        "_call", "_counted", "_first_scalar", "_initial_state", "_pack", "_result_at", "_run_at",
        "_state", "_status", "_unpack", "launch", "mode", "single_block",
    )  # fmt: skip

    def __init__(self, launch: Launch) -> None:
        self.launch, compiled = launch.separate(), launch.compiled
        self._state = self.launch.state.data if launch.on_host else None
        self._initial_state = bytes(0 if self._state is None else self._state.nbytes)
        if self._state is not None:
            self._state = self._state.cast("B")
        self.mode, self.single_block = launch.mode, True
        self._pack, self._first_scalar = compiled.scalars.pack_into, compiled.first_scalar
        self._run_at = compiled.run_offset
        kind, at = compiled.returns  # type: ignore[misc]
        self._unpack, self._result_at = kind.unpack_from, 8 * (STATUS + at)
        self.launch._fill()
        self._call: Any = None  # the launch by one CPU thread
        self._counted = [ref for ref in launch.touches if isinstance(ref(), Store)]
        # on a CPU a launch has ended when its call returns, so its status is read in place
        self._status = self.launch.scratch.report.ended(0) if launch.on_host else None

    @classmethod
    def of(cls, program: Program, *args: Any) -> Prepared | None:
        """Bind a program to arguments; None if a call needs more from the host than one launch."""
        if is_checked():
            return None
        launch, _ = launch_for(program, None, args, None)
        if launch is None or launch.__class__ is not Launch or not launch.ends_at_once():
            return None
        return cls(launch)

    def current(self) -> bool:
        """Whether a call with the same objects would still find this launch."""
        launch = self.launch
        if launch.epoch != latest.epoch and not launch._current():
            return False
        return self.mode == (launcher.faults, launcher.seed) and not is_checked()

    def run(self, numbers: Numbers, then: Prepared | None = None, more: Numbers = ()) -> Any:
        """Launch with all numbers of a call, in the order of its arguments; return the result.

        A second program, ``then``, is launched with the numbers ``more`` behind the first one,
        without waiting for it; only its result is returned.  Both have to be `current`.
        """
        launch = self.launch
        shared, most = launch.scratch, get_num_threads()
        with launch.lock, shared.lock:
            if shared.running:
                raise RuntimeError("a signal handler that interrupts a launch cannot launch")
            shared.running = True
            try:
                if shared.dirty:
                    shared.begin()
                shared.dirty = True
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
                if self._status is None:  # not before: another thread may read the counters
                    self._touch(then)

    def _touch(self, then: Prepared | None) -> None:
        """Invalidate the host's copies of counters that the launches may change."""
        for ref in self._counted if then is None else (*self._counted, *then._counted):
            store = ref()
            if store is not None and store._host_counters is not None:
                store.touched()

    def _start(self, numbers: Numbers, most: int) -> None:
        """Write the numbers into the argument block, and launch with up to ``most`` threads."""
        launch, state = self.launch, self._state
        s, buffer = launch.scratch, launch.buffer
        self._pack(buffer, self._first_scalar, *numbers)
        s.launches += 1
        pack_run(buffer, self._run_at, 0, s.launches, 1 if self.single_block else most)
        if launch.scratch_version != s.version or launch.threads != most:
            launch._fill_shared(most)
        if state is not None:
            state[:] = self._initial_state
        if not self.single_block:
            launch.binary(launch.arguments, launch._items())
        elif state is None:
            launch.binary(launch.arguments, 1, True)
        else:
            if self._call is None:
                self._call = launch.binary.bound(launch.arguments, 1)
            self._call()

    def _result(self, most: int) -> Any:
        """Wait for the launch, execute deferred items again, and return the result."""
        launch, status = self.launch, self._status
        s = launch.scratch
        if status is None:
            status = s.report.poll(s.launches, launch.compiled.interruptible)
        while status[FAILED]:
            launch._resume(1 if self.single_block else most, most)
            launch.binary(launch.arguments, launch._items(), self.single_block)
            status = s.report.wait(True, launch.compiled.interruptible)
        s.dirty = False
        return self._unpack(status, self._result_at)[0]
