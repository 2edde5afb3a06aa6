"""Quick binaries first, and fully optimised ones in the background.

``MORPH_OPTIMIZE`` is ``auto`` (the default), ``quick`` or ``full``.  With ``auto``, a unit that is
not in the cache is compiled quickly.  When its launches have taken `OPTIMISE_AFTER`
seconds, or for a GPU at once, threads of this process have it compiled again by processes at the
lowest priority, which end with this one; the next launch loads the new binary.  What is not
compiled then for a GPU is left to a process that `later` starts.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from morph.runtime.toolchain import OutOfTime, cache, later, processes
from morph.runtime.toolchain.parallel import cores

VARIABLE = "MORPH_OPTIMIZE"
quick: set[Path] = set()  # libraries of this process that are not fully optimised
large = False  # whether quick libraries of further units are for teams: one had much work
OPTIMISE_AFTER = 1.0  # seconds of launches of a quick binary, before it is compiled again
MOST = 4  # maximum of compilers in the background at the same time
CORES = 4  # cores of the process for each of them, but for the first

Notify = Callable[[], object]


def mode() -> str:
    """Return what the environment asks for: ``"auto"``, ``"quick"`` or ``"full"``."""
    given = os.environ.get(VARIABLE) or "auto"
    if given not in ("auto", "quick", "full"):
        raise ValueError(f"{VARIABLE} is {given[:40]!r}; it is 'auto', 'quick' or 'full'")
    if given == "auto" and os.name != "posix":
        return "full"  # there is no background
    return given


@dataclass
class Background:
    """A queue of binaries to compile, and the threads that process it.

    Attributes
    ----------
    jobs : dict
        By key of a binary: the function that compiles it, and those to call when it is there.
    threads : list of Thread
        They end when the queue is empty.
    ended : Event
        Set when the process ends.
    left : dict
        By key of a binary: what `later` needs to compile it.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    jobs: dict[str, tuple[Callable[[], bool], list[Notify]]] = field(default_factory=dict)
    threads: list[threading.Thread] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    left: dict[str, later.Unit] = field(default_factory=dict)

    def add(
        self,
        key: str,
        make: Callable[[], bool],
        notify: Notify,
        after_exit: later.Unit | None = None,
    ) -> None:
        """Enqueue a binary: if ``make`` has compiled it and returns True, call ``notify``.

        A binary with the same key that is enqueued already is compiled once, and all are notified.
        If the process ends before, `later` compiles the unit ``after_exit``.
        """
        with self.lock:
            if after_exit is not None:
                self.left[key] = after_exit
            self.jobs.setdefault(key, (make, []))[1].append(notify)
            if self.threads or self.ended.is_set():
                return
            for k in range(_threads()):
                thread = threading.Thread(target=self._work, args=(k,), daemon=True)
                with contextlib.suppress(RuntimeError):  # no more threads
                    thread.start()
                    self.threads.append(thread)

    def _work(self, number: int) -> None:
        """Compile one binary after the other, in thread ``number``."""
        while not self.ended.is_set() and (job := self._next()) is not None:
            key, make, waiting = job
            with contextlib.suppress(Exception):  # whatever fails, the quick binary stays
                with self._locked(number):
                    made = not self.ended.is_set() and make()
                if made or not self.ended.is_set():
                    self.left.pop(key, None)
                for notify in waiting if made else ():
                    notify()

    def _next(self) -> tuple[str, Callable[[], bool], list[Notify]] | None:
        with self.lock:
            if not self.jobs:
                self.threads.remove(threading.current_thread())
                return None
            key = next(iter(self.jobs))
            return key, *self.jobs.pop(key)

    def pause(self) -> None:
        """Wait a moment for another process.

        Raises
        ------
        OutOfTime
            If the process ends.
        """
        if self.ended.wait(0.1):
            raise OutOfTime("the process ends")

    @contextlib.contextmanager
    def _locked(self, number: int) -> Iterator[None]:
        """Hold the lock of this thread number, one for all processes that share the cache."""
        with open(cache.path() / f"{cache.BACKGROUND}{number}", "ab") as file:
            with contextlib.suppress(OSError):  # a file system without locks
                while not cache.lock_file(file.fileno(), wait=False) and not self.ended.wait(0.1):
                    pass
            yield

    def end(self) -> None:
        """End the threads, and the compilers that they started."""
        self.ended.set()
        processes.end_background()
        for thread in list(self.threads):
            thread.join(1.0)
        with contextlib.suppress(Exception):  # another process then begins with the quick binary
            later.start(self.left.values())


def _threads() -> int:
    """Return how many compilers may run in the background."""
    return max(min(cores() // CORES, MOST), 1)


background = Background()


def _end() -> None:
    background.end()


atexit.register(_end)


def _forked() -> None:
    """In a child process: it has none of the threads."""
    global background
    background = Background()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
