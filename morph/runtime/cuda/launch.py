"""Launches of a cubin on a GPU."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from morph.compiler.codegen.prelude import prelude
from morph.compiler.ir.outline import Outline
from morph.runtime.arrays import import_cupy
from morph.runtime.backend import ArgumentBlock
from morph.runtime.cuda import modules

BLOCK = 256  # threads, as in the prelude's entry
CLAIM_BLOCKS = 2  # per multiprocessor: more concurrent items would conflict more often
FUSED_BLOCKS = 4  # per multiprocessor: more blocks make the barrier slower
LONG = 20_000  # characters of a unit's text from which on it is compiled quickly first
STACKS = 2 << 30  # bytes of free memory for that: functions have a stack of up to 6 KB a thread
OUT_OF_MEMORY = 2, 701  # CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
WAVES = 32  # blocks per multiprocessor without barriers: enough to balance heavy items

_logger = logging.getLogger("morph.launch")
_streams: dict[int, int] = {}  # by device, the stream of the latest launch


class CudaLaunch:
    """Runs one compiled unit on one GPU, on CuPy's current stream.

    A unit with barriers is launched cooperatively, in as many blocks as are resident at once.  If
    there is no memory for the stacks of a cubin that was compiled quickly, the fully optimised one
    takes its place.

    Parameters
    ----------
    text : str
        The unit's text, with the prelude in front.
    outline : Outline
        The properties of the unit.
    device : cupy.cuda.Device
        The GPU.
    defines : tuple of str
        Macros, each ``NAME`` or ``NAME=VALUE``.
    rebuilt : callable, optional
        As in `morph.runtime.toolchain.cuda.build`.

    Raises
    ------
    DeviceError, CompilerNotFound, CompileError
        As `morph.runtime.cuda.modules.loaded`.
    """

    __slots__ = (
        "_arguments", "_blocks", "_context", "_current_context", "_current_stream", "_defines",
        "_device", "_function", "_lanes", "_launch", "_launch_alone", "_least", "_may_be_quick",
        "_module", "_outline", "_parameters", "_pointers", "_set_context", "_shared",
        "_synchronize", "_text", "threads",
    )  # fmt: skip

    def __init__(
        self, text: str, outline: Outline, device: Any, defines: tuple[str, ...],
        rebuilt: Callable[[], object] | None = None,
    ) -> None:  # fmt: skip
        self._device, self._outline, self._text, self._defines = device, outline, text, defines
        self._may_be_quick = rebuilt is not None
        cupy = import_cupy()
        driver = cupy.cuda.driver
        self._load(rebuilt)
        self.threads = self._blocks * BLOCK  # resident, if it is cooperative
        # one item may have work for all blocks
        self._least = self._blocks if outline.lists or outline.queues else 1
        self._lanes = outline.lanes  # threads that share an item
        self._shared = outline.shared_bytes
        grid_wide = outline.cooperative
        self._launch = driver.launchCooperativeKernel if grid_wide else driver.launchKernel
        self._launch_alone = driver.launchKernel  # a block waits for no other
        self._current_stream = cupy.cuda.get_current_stream
        self._current_context, self._set_context = driver.ctxGetCurrent, driver.ctxSetCurrent
        self._synchronize = cupy.cuda.runtime.deviceSynchronize
        self._arguments: ArgumentBlock | None = None
        self._parameters = (ctypes.c_void_p * 1)()
        address = ctypes.addressof(self._parameters)
        self._pointers = (address,) if grid_wide else (address, 0)

    def _load(self, rebuilt: Callable[[], object] | None) -> None:
        """Load the cubin, and find how many blocks are launched."""
        driver, outline, device = import_cupy().cuda.driver, self._outline, self._device
        with device:
            self._module = modules.loaded(
                self._text, device.id, outline.entry, self._defines, rebuilt
            )
            function = self._module.get_function(outline.entry)
            shared = outline.shared_bytes
            if shared:
                most = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                driver.funcSetAttribute(function.ptr, most, shared)
            fit = driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, BLOCK, shared)
            self._context = driver.ctxGetCurrent()
        most = CLAIM_BLOCKS if outline.claims else FUSED_BLOCKS
        each = max(min(fit, most), 1) if outline.cooperative else WAVES
        self._blocks = device.attributes["MultiProcessorCount"] * each
        self._function: int = function.ptr

    def __call__(self, arguments: ArgumentBlock, items: int, alone: bool = False) -> None:
        """Launch the unit asynchronously, see `morph.runtime.backend.Launch`.

        The driver copies the arguments.  ``alone`` launches one block, without barriers between
        blocks.
        """
        if arguments is not self._arguments:
            self._arguments = arguments
            self._parameters[0] = arguments.ctypes.data
        if (before := self._current_context()) == self._context:
            self._start(items, alone)
            return
        self._set_context(self._context)  # of another GPU, or of none: a new thread
        try:
            self._start(items, alone)
        finally:
            self._set_context(before)

    def bound(
        self, arguments: ArgumentBlock, items: int, alone: bool = False
    ) -> Callable[[], None]:  # fmt: skip
        """See `morph.runtime.backend.Launch`; only that of one block takes less time."""
        if not alone:
            return partial(self, arguments, items)
        parameters = (ctypes.c_void_p * 1)(arguments.ctypes.data)
        device, context, start = self._device.id, self._context, self._launch_alone
        current_stream, current_context = self._current_stream, self._current_context
        size, kept = (
            (1, 1, 1, BLOCK, 1, 1, self._shared),
            (parameters, ctypes.addressof(parameters)),
        )

        def launch() -> None:
            stream = current_stream(device).ptr
            if current_context() == context and _streams.get(device) == stream:
                try:
                    start(self._function, *size, stream, kept[1], 0)
                    return
                except Exception:  # `_start` launches again, by another cubin, or raises
                    _logger.debug("a launch by prepared arguments has failed", exc_info=True)
            self(arguments, items, True)

        return launch

    def _start(self, items: int, alone: bool) -> None:
        wanted = 1 if alone else max(-(-items * self._lanes // BLOCK), self._least)
        blocks = self._blocks if wanted > self._blocks else wanted
        stream = self._current_stream().ptr
        if _streams.setdefault(self._device.id, stream) != stream:
            self._synchronize()  # launches share barrier words, so two must not overlap
            _streams[self._device.id] = stream
        sizes = blocks, 1, 1, BLOCK, 1, 1, self._shared
        try:
            if alone:
                self._launch_alone(self._function, *sizes, stream, self._pointers[0], 0)
            else:
                self._launch(self._function, *sizes, stream, *self._pointers)
        except Exception as error:
            if not self._replace(error):
                raise
            self._start(items, alone)

    def _replace(self, error: Exception) -> bool:
        """Load the fully optimised cubin if a launch had no memory; whether that may help.

        The launch must not have fewer threads then if its items run together.
        """
        if not self._may_be_quick or getattr(error, "status", None) not in OUT_OF_MEMORY:
            return False
        self._may_be_quick, threads = False, self.threads
        self._synchronize()  # earlier launches may still execute the present one
        import_cupy().get_default_memory_pool().free_all_blocks()
        entry = self._outline.entry.removeprefix("morph_")
        _logger.info("%s is compiled in full: %s for its quick binary", entry, error)
        self._load(None)
        self._blocks = min(self._blocks, threads // BLOCK)  # scratch arrays are for so many
        self._least = min(self._least, self._blocks)
        self.threads = self._blocks * BLOCK
        return self.threads == threads or not self._outline.together


def load(
    outline: Outline, text: str, faults: bool = False, device_index: int = 0,
    rebuilt: Callable[[], object] | None = None,
) -> CudaLaunch:  # fmt: skip
    """Compile a unit's text for a GPU and return its launcher.

    The arguments are those of `morph.runtime.backend.Backend.load`; raises as
    `morph.runtime.toolchain.cuda.build`.
    """
    device = import_cupy().cuda.Device(device_index)
    whole, defines = prelude(*outline.prelude) + text, ("MORPH_FAULTS",) * faults
    quick_first = None if faults else _quick_first(outline, text, rebuilt)
    with device:
        if quick_first and import_cupy().cuda.runtime.memGetInfo()[0] < STACKS:
            quick_first = None
    return CudaLaunch(whole, outline, device, defines, quick_first)


def build(
    outline: Outline, text: str, device_index: int, rebuilt: Callable[[], object]
) -> None:  # fmt: skip
    """Compile a unit's text; a long one without inlining."""
    whole, quick_first = prelude(*outline.prelude) + text, _quick_first(outline, text, rebuilt)
    modules.build(whole, device_index, outline.entry, (), quick_first, quick_only=True)


def _quick_first(
    outline: Outline, text: str, rebuilt: Callable[[], object] | None
) -> Callable[[], object] | None:  # fmt: skip
    """Return ``rebuilt`` for units that are compiled quickly first."""
    # parts wait for each other: the driver might not be able to allocate stacks meanwhile
    on_parts = any(f.kind == "parts" for f in outline.fields)
    return rebuilt if len(text) >= LONG and not on_parts else None
