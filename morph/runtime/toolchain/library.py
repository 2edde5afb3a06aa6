"""Libraries of C++ functions on arrays of the host, compiled or loaded at the first use."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from morph.runtime.toolchain import BuildError, CompileError, cpu

_logger = logging.getLogger("morph.compile")
_TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "w": ctypes.c_int32, "s": ctypes.c_char_p}


class HostLibrary:
    """The functions of a C++ file.

    Parameters
    ----------
    path : Path
        The file, whose name is the name of the library.
    functions : mapping of str to str
        The parameters of each function, a letter each: ``p`` pointer, ``i`` int64_t, ``w`` int32_t,
        ``s`` bytes.  All functions return int64_t or nothing.
    """

    def __init__(self, path: Path, functions: Mapping[str, str]) -> None:
        self.path = path
        self.functions = functions
        self._loaded: dict[tuple[str, ...], Any] = {}
        self._is_made: bool | None = None

    def text(self) -> str:
        """Return the C++ text."""
        return self.path.read_text(encoding="utf-8")

    def load(self, *defines: str) -> Any:
        """Return the library, compiled with macros; None if it cannot be compiled."""
        if defines not in self._loaded:
            self._loaded[defines] = self._load(defines)
        return self._loaded[defines]

    def load_if_worthwhile(self, size: int, least: int, least_made: int) -> Any:
        """Return the library if its use saves more time than its compilation takes.

        Parameters
        ----------
        size : int
            Of the work: the number of rows or bytes.
        least, least_made : int

        Returns
        -------
        library or None
            The library if it is compiled already and ``size >= least_made``, or if
            ``size >= least``; else None.
        """
        if () not in self._loaded and size < least:
            if size < least_made:
                return None
            if self._is_made is None:
                self._is_made = cpu.find(self.text(), name=self.path.stem) is not None
            if not self._is_made:
                return None
        return self.load() if size >= least_made else None

    def _load(self, defines: tuple[str, ...]) -> Any:
        try:
            found = ctypes.CDLL(str(cpu.build(self.text(), name=self.path.stem, defines=defines)))
        except CompileError as error:  # where a compiler is, this is a fault
            _logger.warning("%s is not used, which is slower: %s", self.path.name, error)
            return None
        except (BuildError, OSError):
            return None
        for name, parameters in self.functions.items():
            function = getattr(found, name)
            function.restype = ctypes.c_int64
            function.argtypes = [_TYPES[p] for p in parameters]
        return found
