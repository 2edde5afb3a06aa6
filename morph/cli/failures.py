"""Exit codes and messages of exceptions; imported when a command raises one."""

from __future__ import annotations

from morph.cli.common import complain
from morph.io import FormatError
from morph.mesh import MeshError
from morph.partition.transport import PartError
from morph.runtime.device import DeviceError
from morph.runtime.toolchain import CacheUnusable, CompilerNotFound


def explain(error: Exception) -> int:
    """Write the message of an exception; internal errors are raised again."""
    if isinstance(error, OSError) and error.filename is not None:
        return complain(f"{error.filename}: {error.strerror}", 2)
    if isinstance(error, FormatError | MeshError | DeviceError | PartError | OSError):
        return complain(str(error), 2)
    if isinstance(error, CacheUnusable | CompilerNotFound):
        return complain(str(error), 2)
    if isinstance(error, ImportError) and error.name is None:  # an extra that is not installed
        return complain(str(error), 1)
    if isinstance(error, MemoryError):
        return complain(f"out of memory: {error}".removesuffix(": "), 1)
    raise error
