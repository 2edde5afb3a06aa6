"""From a shared library to launches on the CPU."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from morph.compiler.codegen.unit import entry, prelude
from morph.compiler.ir import nodes as ir
from morph.runtime.toolchain import cpu

Words = npt.NDArray[np.uint64]


class Interpreter(ctypes.Structure):
    """Functions of Python's C interface; as in ``kernels/target_cpu.h``."""

    _fields_ = [(n, ctypes.c_void_p) for n in ("release", "acquire", "handle_signals", "thread")]


class Launch:
    """What runs one compiled unit on the CPU.

    A call releases the interpreter's lock, and raises what a signal handler raises meanwhile.  The
    unit decides on its own how many of the threads in ``words`` it uses: one for few items, fewer
    while other processes use the cores.
    """

    __slots__ = ("_address", "_function", "_library", "_words")

    def __init__(self, library: ctypes.PyDLL, name: str, interruptible: bool) -> None:
        self._library = library  # keeps the code loaded
        api = ctypes.pythonapi
        functions = [api.PyEval_SaveThread, api.PyEval_RestoreThread, api.PyErr_CheckSignals]
        host = Interpreter.in_dll(library, "morph_interpreter")
        host.release, host.acquire, host.handle_signals = (
            ctypes.cast(f, ctypes.c_void_p).value for f in functions
        )
        if not interruptible:
            host.handle_signals = None
        host.thread = threading.main_thread().ident
        self._function: Any = library[name]
        self._function.argtypes = (ctypes.c_void_p, ctypes.c_int64)
        self._function.restype = None
        self._words: Words | None = None
        self._address = 0

    def __call__(self, words: Words, items: int, alone: bool = False) -> None:
        """Run the unit.

        Parameters
        ----------
        words : ndarray of uint64, shape (number of fields,)
            The arguments, in the order of `morph.compiler.ir.abi.fields`; C-contiguous.
        items : int
            At least as many as any step of the unit has.
        alone : bool
            As the threads in ``words`` say, too.
        """
        if words is not self._words:
            self._words, self._address = words, words.ctypes.data
        self._function(self._address, items)


def load(unit: ir.Unit, text: str, faults: bool = False, interruptible: bool = True) -> Launch:
    """Compile a unit's text and give what launches it.

    Parameters
    ----------
    unit : ir.Unit
        The unit, for the name of its entry.
    text : str
        What `morph.compiler.codegen.unit.source` gave, perhaps edited.
    faults : bool
        Compile in the injection of failing allocations.
    interruptible : bool
        Whether signal handlers run during a launch, and end it if they raise.

    Returns
    -------
    Launch
        To be called with the argument words.

    Raises
    ------
    morph.runtime.toolchain.CompileError, morph.runtime.toolchain.CompilerNotFound
        As `morph.runtime.toolchain.cpu.build`.
    """
    name = entry(unit)
    defines = ("MORPH_FAULTS",) * faults
    path = cpu.build(prelude(unit.checked) + text, name=name, defines=defines)
    return Launch(ctypes.PyDLL(str(path)), name, interruptible)
