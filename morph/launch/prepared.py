"""Programs bound to their objects, for calls in which only numbers differ.

A call of a program looks its launch up by all arguments, which takes longer than a short launch.
A `Prepared` program is looked up once; its calls write the numbers that differ into the argument
block, launch, and read the result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any

from morph.compiler.ir.layout import Status
from morph.data.store import Store
from morph.data.versions import latest
from morph.launch import launcher
from morph.launch.checked import is_checked, is_on
from morph.launch.foreach import Program
from morph.launch.launcher import RUN, Launch
from morph.launch.lookup import launch_for
from morph.launch.scratch import STATUS_WORDS
from morph.runtime.threads import get_num_threads

FAILED = int(Status.FAILED)
pack_run = RUN.pack_into


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
    write : callable
        Writes the numbers in which calls differ: a `writer`, chosen by the owner.
    """

    __slots__ = (
        "_call", "_counted", "_initial_state", "_launch_at", "_result_at", "_run_at", "_state",
        "_status", "_unpack", "launch", "mode", "single_block", "write",
    )  # fmt: skip

    def __init__(self, launch: Launch) -> None:
        self.launch, compiled = launch.separate(), launch.compiled
        self._state = self.launch.state.data if launch.on_host else None
        self._initial_state = bytes(0 if self._state is None else self._state.nbytes)
        if self._state is not None:
            self._state = self._state.cast("B")
        self.mode, self.single_block = launch.mode, True
        self._run_at = compiled.run_offset
        self._launch_at = self._run_at // 8 + 1
        kind, at = compiled.returns  # type: ignore[misc]
        self._unpack, self._result_at = kind.unpack_from, 8 * (STATUS_WORDS + at)
        self.launch._write_objects()
        self._call: Callable[[], None]  # the launch
        self.write: Callable[..., None]
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
        return (launch.epoch == latest.epoch or launch._current()) and self.is_unchanged()

    def is_unchanged(self) -> bool:
        """Whether no object has changed since it was `current`, and the mode is the same."""
        faults, seed = self.mode
        return (
            self.launch.epoch == latest.epoch
            and launcher.faults == faults
            and launcher.seed == seed
            and not is_on()
        )

    def writer(self, first: int, count: int) -> Callable[..., None]:
        """Return a function that writes ``count`` numbers of a call, from number ``first`` on."""
        launch = self.launch
        codes = launch.compiled.codes[first : first + count]
        pack = Struct("=" + "".join(codes)).pack_into
        return partial(pack, launch.buffer, launch.compiled.first_scalar + 8 * first)

    def refuse_within(self) -> None:
        """Raise an error within a launch, whose argument block may be read again."""
        if self.launch.scratch.running:
            raise RuntimeError("a signal handler that interrupts a launch cannot launch")

    def run(
        self, numbers: tuple[Any, ...], then: Prepared | None = None,
        host_work: Callable[..., Any] | None = None, host_args: tuple[Any, ...] = (),
    ) -> tuple[Any, Any]:  # fmt: skip
        """Launch with what `write` takes; the caller holds the lock of the graph.

        A second program, ``then``, whose numbers are written, is launched behind the first one,
        without waiting for it; only its result is returned.  Both have to be `current`.

        Returns
        -------
        result : int, float or bool
        host_result : object
            What ``host_work(*host_args)`` returns, called while the launch runs; or None.
        """
        shared, most = self.launch.scratch, get_num_threads()
        with shared.lock:
            if shared.running:
                self.refuse_within()
            shared.running = True
            try:
                if shared.dirty:
                    shared.begin()
                shared.dirty = True
                self.write(*numbers)
                self._start(most)
                last = self
                if then is not None:
                    then._start(most)
                    last = then
                host_result = None if host_work is None else host_work(*host_args)
                return last._result(most), host_result
            except BaseException:  # also one raised by a signal handler
                if not self.launch.compiled.interruptible:
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

    def _start(self, most: int) -> None:
        """Launch with up to ``most`` threads."""
        launch, state = self.launch, self._state
        s = launch.scratch
        s.launches += 1
        if launch.scratch_version != s.version or launch.threads != most:
            self._write_scratch(most)
        launch.buffer[self._launch_at] = s.launches
        if state is not None:
            state[:] = self._initial_state
        self._call()

    def _write_scratch(self, most: int) -> None:
        """Write what changes with the scratch arrays or the number of threads."""
        launch, alone = self.launch, self.single_block
        launch._write_scratch(most)
        pack_run(launch.buffer, self._run_at, 0, launch.scratch.launches, 1 if alone else most)
        self._call = launch.binary.bound(launch.arguments, 1 if alone else launch._items(), alone)

    def _result(self, most: int) -> Any:
        """Wait for the launch, execute deferred items again, and return the result."""
        launch, status = self.launch, self._status
        s = launch.scratch
        if status is None:
            status = s.report.poll(s.launches, launch.compiled.interruptible)
        if status[FAILED]:
            status = self._resume(most)
        s.dirty = False
        return self._unpack(status, self._result_at)[0]

    def _resume(self, most: int) -> memoryview:
        """Execute deferred items until all have run; return the status."""
        launch, status = self.launch, None
        report, alone = launch.scratch.report, self.single_block
        while status is None or status[FAILED]:
            launch._resume(1 if alone else most, most)
            launch.binary(launch.arguments, launch._items(), alone)
            status = report.wait(True, launch.compiled.interruptible)
        launch.scratch_version = -1  # the next launch is no re-execution
        return status
