"""From C++ text and flags to a shared library or a cubin: compilers, NVRTC, disk cache.

Imports nothing else of the package.
"""

from __future__ import annotations

import linecache
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from time import monotonic, perf_counter

# "file:12:5: error: ..." (g++, clang++) and "file(12): error: ..." (NVRTC)
_POSITION = re.compile(
    r"^(?P<file>[^\n]+?)(?::(?P<a>\d+)(?::\d+)?:|\((?P<b>\d+)\):)\s*"
    r"(?:fatal |catastrophic )?error\b",
    re.MULTILINE,
)


_logger = logging.getLogger("morph.compile")


def log_build(name: str, target: str, how: str, since: float, binary: Path) -> None:
    """Log how a binary was obtained, and the time since ``since`` (`perf_counter`)."""
    level = logging.INFO if how == "cache miss" else logging.DEBUG
    ms = 1e3 * (perf_counter() - since)
    kernel = name.removeprefix("morph_") or "text"
    _logger.log(level, "%s for %s: %s, %.1f ms: %s", kernel, target, how, ms, binary)


class BuildError(RuntimeError):
    """A binary could not be made."""


class OutOfTime(BuildError):
    """The deadline has passed before a binary, or a long computation, was done."""


_end: ContextVar[float] = ContextVar("end", default=float("inf"))


@contextmanager
def deadline(end: float) -> Iterator[None]:
    """Have `time_left` raise `OutOfTime` once `time.monotonic` passes ``end``, inside the block.

    `time_left` is called before compilations, and in long computations between launches.
    """
    before = _end.set(min(end, _end.get()))
    try:
        yield
    finally:
        _end.reset(before)


def time_left(task: str) -> float | None:
    """Return the seconds until the deadline, None without one; the error names the ``task``.

    Raises
    ------
    OutOfTime
        If it has passed.
    """
    left = _end.get() - monotonic()
    if left <= 0:
        raise OutOfTime(f"no time is left to {task}")
    return None if left == float("inf") else left


class CacheUnusable(BuildError):
    """No folder for binaries can be written, or none whose files may be executed."""


class CompilerNotFound(BuildError):
    """No usable compiler for a target; the message names those tried and how to get one."""


class CompileError(BuildError):
    """The compiler rejected the text.

    Attributes
    ----------
    log : str
        The compiler's messages, with the user's own file names and lines.
    target : str
        ``"cpu"`` or a CUDA architecture such as ``"sm_90"``.
    source : Path
        The rejected text, kept for inspection.
    file : str
        File of the first error, empty if unknown.
    line : int
        Line of the first error, 0 if unknown.
    """

    def __init__(self, log: str, target: str, source: Path, name: str = "") -> None:
        """Find the first error's place in ``log`` and compose the message."""
        self.log, self.target, self.source, self._name = log.strip(), target, source, name
        found = _POSITION.search(self.log)
        self.file = found["file"] if found else ""
        self.line = int(found["a"] or found["b"]) if found else 0
        what = f"{name} does not compile" if name else "the text does not compile"
        code = linecache.getline(self.file, self.line).rstrip() if self.file else ""
        at = f"\n  at {self.file}:{self.line}: {code.strip()}" if code else ""
        super().__init__(f"{what} for {target}{at}\n{self.log}\ngenerated text: {source}")

    def __reduce__(self) -> tuple[type[CompileError], tuple[str, str, Path, str]]:
        return type(self), (self.log, self.target, self.source, self._name)
