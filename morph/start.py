"""Begin and end of the process of a ``morph`` command; `morph` imports it before NumPy.

Until the command begins, Ctrl-C ends the process: an import would show its traceback.  The driver
needs 0.3 s to start a GPU; a thread waits for it while the main thread imports packages.
NumPy's OpenBLAS would start a thread per core, which no command uses.  The garbage collector would
traverse the imported objects again and again, a tenth of the time of the imports.  CuPy looks for
cuTENSOR when it is imported, and loads cuBLAS on the way (0.06 s), which no command uses.

The process ends without the finalization of the interpreter, which would free the memory of a GPU
array by array.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import pairwise
from types import ModuleType
from typing import Any

from morph.runtime.cuda import driver

GC_THRESHOLD = 1 << 18  # new objects from which on the collector runs: imports make 100,000
# hardware queues of a GPU: one for launches, one for what interrupts them.  The driver creates 8 by
# default, in 0.04 s more; parts on several GPUs may need them
QUEUES = "2"
CHECKS, LIBRARIES = "cupy._environment", "cupy_backends.cuda.libs"  # look for cuTENSOR
ON_HOST = "cache", "check", "convert", "generate", "schema"  # commands that use no GPU

_status: int | None = None  # of the process, once the command has ended


class _WithoutCutensor(SourceFileLoader):
    """Loads a module of CuPy that looks for cuTENSOR, and marks it as looked for in vain."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if module.__name__ == CHECKS:
            libraries = getattr(module, "_preload_libs", None)
            if isinstance(libraries, dict) and "cutensor" in libraries:
                libraries["cutensor"] = {}
            return
        known = getattr(module, "_submodules", None)
        if isinstance(known, tuple) and "cutensor" in known:
            vars(module)["_submodules"] = tuple(name for name in known if name != "cutensor")
            sys.modules[f"{LIBRARIES}.cutensor"] = None  # type: ignore[assignment]


class _Finder:
    """Finds the modules of CuPy for `_WithoutCutensor`."""

    def find_spec(self, name: str, path: Sequence[str] | None, *_: Any) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if name not in (CHECKS, LIBRARIES):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and type(spec.loader) is SourceFileLoader and spec.origin:
            spec.loader = _WithoutCutensor(name, spec.origin)
        return spec


def arguments_of(argv: Sequence[str], original: Sequence[str]) -> list[str] | None:
    """Return the arguments of the ``morph`` command; None if this process runs another program.

    Parameters
    ----------
    argv, original : sequence of str
        As `sys.argv` and `sys.orig_argv`.
    """
    program = os.path.basename(argv[0]) if argv else ""
    by_module = program == "-m" and original[-len(argv) :][:1] == ["morph"]
    return list(argv[1:]) if by_module or program in ("morph", "morph.exe") else None


def gpus_of(arguments: Sequence[str], environment: Mapping[str, str]) -> list[int]:
    """Return the indices of the GPUs that a command opens; none if it probably opens none."""
    left = [argument for argument in arguments if argument not in ("-v", "--verbose")]
    if not left or left[0].startswith("-") or left[0] in ON_HOST:
        return []
    options = left[1:]
    if {"-h", "--help", "--mpi"}.intersection(options):  # a rank selects one of several GPUs
        return []
    devices = [value for option, value in pairwise(options) if option == "--device"]
    devices += [option.partition("=")[2] for option in options if option.startswith("--device=")]
    devices = devices or [environment.get("MORPH_DEVICE") or "auto"]
    indices = []
    for device in devices[-1].split(","):
        kind, _, index = device.partition(":")
        if kind not in ("auto", "cuda") or not (index or "0").isdecimal():
            return []
        indices.append(int(index or 0))
    return indices


def _end(*_: Any) -> None:
    """End the process, as the command does when it is interrupted."""
    os.write(2, b"morph: interrupted\n")
    os._exit(130)


def begin() -> None:
    """Let Ctrl-C raise a `KeyboardInterrupt` again: the command begins, and handles it."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def end(status: int) -> None:
    """Let the process end with a status as soon as the functions of `atexit` have been called."""
    global _status
    _status = status


def _end_at_once() -> None:
    """End the process as the last function of `atexit`; MPI is finalized later, if it runs."""
    if _status is None or "mpi4py" in sys.modules:
        return
    with suppress(Exception):  # the interpreter reports what cannot be written
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(_status)


def prepare() -> None:
    """Make the preparations if this process runs the ``morph`` command."""
    arguments = arguments_of(getattr(sys, "argv", ()), sys.orig_argv)
    if arguments is None:
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, _end)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(GC_THRESHOLD)
    if not atexit._ncallbacks():  # earlier functions, as of coverage, would be called later
        atexit.register(_end_at_once)
    if gpus := gpus_of(arguments, os.environ):
        if len(gpus) == 1:
            os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", QUEUES)
        with suppress(OSError):  # no driver
            driver.start(gpus[0])
            sys.meta_path.insert(0, _Finder())


prepare()
