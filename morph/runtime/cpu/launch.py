"""Launches of a shared library on the CPU."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from morph.compiler.codegen.prelude import prelude
from morph.compiler.ir.outline import Outline
from morph.runtime.backend import ArgumentBlock
from morph.runtime.timing import counting
from morph.runtime.toolchain import cpu, tiers


class Interpreter(ctypes.Structure):
    """Functions of Python's C interface; as in ``kernels/target_cpu.h``."""

    _fields_ = [(n, ctypes.c_void_p) for n in ("release", "acquire", "handle_signals", "thread")]


NOT_STARTED = -2  # minus the items of a launch of which nothing has run


class HostLaunch:
    """Runs one compiled unit on the CPU.

    A call releases the interpreter's lock, and raises the exception of a signal handler.  The
    arguments limit the number of threads; the unit uses one for few items, and fewer while other
    processes use the cores.
    """

    __slots__ = (
        "_address", "_arguments", "_for_teams", "_function", "_interruptible", "_left", "_library",
        "_name", "_optimise",
    )  # fmt: skip

    def __init__(self, library: Path, name: str, interruptible: bool) -> None:
        self._name, self._interruptible = name, interruptible
        self._arguments: ArgumentBlock | None = None
        self._address = 0
        self._left = 0.0  # remaining seconds of launches before `_optimise` is called
        self._optimise: Callable[[], object] | None = None
        self._for_teams: Callable[[], Path] | None = None
        self._open(library)

    def _open(self, library: Path) -> None:
        self._library = ctypes.PyDLL(str(library))  # keeps the library loaded
        api = ctypes.pythonapi
        functions = [api.PyEval_SaveThread, api.PyEval_RestoreThread, api.PyErr_CheckSignals]
        host = Interpreter.in_dll(self._library, "morph_interpreter")
        host.release, host.acquire, host.handle_signals = (
            ctypes.cast(f, ctypes.c_void_p).value for f in functions
        )
        if not self._interruptible:
            host.handle_signals = None
        host.thread = threading.main_thread().ident
        self._function: Any = self._library[self._name]
        self._function.argtypes = (ctypes.c_void_p, ctypes.c_int64)
        self._function.restype = ctypes.c_int64

    def __call__(self, arguments: ArgumentBlock, items: int, alone: bool = False) -> None:
        """Run the unit, see `morph.runtime.backend.Launch`.

        The number of threads in the arguments applies; ``alone`` is ignored.
        """
        if arguments is not self._arguments:
            self._arguments, self._address = arguments, arguments.ctypes.data
        if self._optimise is None:
            self._run(items)
        else:
            since = perf_counter()
            self._run(items)
            self._left -= perf_counter() - since
            if self._left < 0:
                optimise, self._optimise = self._optimise, None
                with suppress(Exception):  # the quick binary stays in use if this fails
                    optimise()

    def _run(self, items: int) -> None:
        rest = self._function(self._address, items)
        if rest:  # only of a binary for a single thread, see kernels/serial_cpu.h
            self._run_rest(rest if rest < 0 else NOT_STARTED - rest)

    def _run_rest(self, rest: int) -> None:
        if (build := self._for_teams) is not None:  # else another thread has opened it
            tiers.large = True
            try:
                with counting("compile"):
                    self._open(build())
                self._for_teams = None
            except Exception:  # the binary for a single thread goes on, unless a team has started
                if self._function(self._address, rest):
                    raise
                return
        self._function(self._address, rest)

    def bound(
        self, arguments: ArgumentBlock, items: int, alone: bool = False
    ) -> Callable[[], None]:  # fmt: skip
        """Return a call with these arguments, which takes less time."""
        if self._optimise is not None or self._for_teams is not None:
            return partial(self, arguments, items)
        return partial(self._function, arguments.ctypes.data, items)

    def optimise_after(self, seconds: float, optimise: Callable[[], object]) -> None:
        """Call ``optimise`` once, when launches have taken more than ``seconds`` in total."""
        self._left, self._optimise = seconds, optimise

    def use_for_teams(self, build: Callable[[], Path]) -> None:
        """Use the library of ``build`` when one for a single thread returns work for several."""
        self._for_teams = build


def load(
    outline: Outline, text: str, faults: bool = False, interruptible: bool = True,
    rebuilt: Callable[[], object] | None = None,
) -> HostLaunch:  # fmt: skip
    """Compile a unit's text and return its launcher.

    The arguments are those of `morph.runtime.backend.Backend.load`; raises as
    `morph.runtime.toolchain.cpu.build`.
    """
    path = build(outline, text, rebuilt, ("MORPH_FAULTS",) * faults)
    made = HostLaunch(path, outline.entry, interruptible)
    if path in tiers.quick and not faults:
        made.use_for_teams(partial(build, outline, text, rebuilt, teams=True))
    if rebuilt is not None and not faults and path in tiers.quick:
        again = partial(build, outline, text, rebuilt, quick_only=False)
        made.optimise_after(tiers.OPTIMISE_AFTER, again)
    return made


def build(
    outline: Outline, text: str, rebuilt: Callable[[], object] | None = None,
    defines: tuple[str, ...] = (), quick_only: bool = True, teams: bool = False,
) -> Path:  # fmt: skip
    """Compile a unit's text and return the library.

    ``quick_only`` as in `toolchain.cpu.build`; with ``teams`` a quick library is for a team of
    threads.  If single items of a unit may have
    work for several threads, if it is checked or runs on parts, a quick library is for teams, too.
    """
    whole = prelude(*outline.prelude) + text
    _, _, _, parts, groups, *_ = outline.prelude
    teams |= bool(outline.checked or parts or groups or outline.queues or tiers.large)
    return cpu.build(
        whole, name=outline.entry, defines=defines, rebuilt=rebuilt, quick_only=quick_only,
        unit="teams" if teams or defines else "serial",
    )  # fmt: skip
