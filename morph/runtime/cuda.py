"""From a cubin to launches on a CUDA device."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from morph.compiler.codegen.unit import cooperative, entry, prelude
from morph.compiler.ir import abi
from morph.compiler.ir import nodes as ir
from morph.compiler.passes.work_sharing import lists, spreads
from morph.runtime.toolchain import cuda

BLOCK = 256  # threads; the prelude's entry says so too
CLAIM_BLOCKS = 2  # a multiprocessor: more items in flight only conflict more
FUSED_BLOCKS = 4  # a multiprocessor: more make the barrier slower
WAVES = 32  # blocks a multiprocessor without barriers: enough to even out heavy items

Words = npt.NDArray[np.uint64]
_streams: dict[int, int] = {}  # by device, the stream of the latest launch


class Launch:
    """What runs one compiled unit on one device, on CuPy's current stream.

    A unit with barriers is launched cooperatively, in as many blocks as fit the device at once.
    """

    __slots__ = (
        "_blocks", "_context", "_current_context", "_current_stream", "_device", "_function",
        "_lanes", "_launch", "_least", "_module", "_parameters", "_pointers", "_set_context",
        "_synchronize", "_words", "threads",
    )  # fmt: skip

    def __init__(self, cubin: bytes, unit: ir.Unit, device: Any) -> None:
        import cupy  # noqa: PLC0415

        driver = cupy.cuda.driver
        with device:
            self._module = cupy.cuda.function.Module()
            self._module.load(cubin)
            function = self._module.get_function(entry(unit))
            fit = driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, BLOCK, 0)
            self._context = driver.ctxGetCurrent()
        grid_wide = cooperative(unit)
        most = CLAIM_BLOCKS if abi.claims(unit) else FUSED_BLOCKS
        each = max(min(fit, most), 1) if grid_wide else WAVES
        self._blocks = device.attributes["MultiProcessorCount"] * each
        self._least = self._blocks if lists(unit) else 1  # one item may have work for all
        self._lanes = 32 if spreads(unit) else 1  # that share an item
        self.threads = self._blocks * BLOCK  # at once, if it is cooperative
        self._device = device
        self._function: int = function.ptr
        self._launch = driver.launchCooperativeKernel if grid_wide else driver.launchKernel
        self._current_stream = cupy.cuda.get_current_stream
        self._current_context, self._set_context = driver.ctxGetCurrent, driver.ctxSetCurrent
        self._synchronize = cupy.cuda.runtime.deviceSynchronize
        self._words: Words | None = None
        self._parameters = (ctypes.c_void_p * 1)()
        address = ctypes.addressof(self._parameters)
        self._pointers = (address,) if grid_wide else (address, 0)

    def __call__(self, words: Words, items: int, alone: bool = False) -> None:
        """Launch the unit; it runs asynchronously.

        Parameters
        ----------
        words : ndarray of uint64, shape (number of fields,)
            The arguments, in the order of `morph.compiler.ir.abi.fields`; C-contiguous.  Copied.
        items : int
            At least as many as any step of the unit has.
        alone : bool
            By one block, whose threads need not wait for others.
        """
        if words is not self._words:
            self._words = words
            self._parameters[0] = words.ctypes.data
        if self._current_context() != self._context:
            with self._device:
                self._set_context(self._context)  # a new thread has none
                self._start(items, alone)
        else:
            self._start(items, alone)

    def _start(self, items: int, alone: bool) -> None:
        wanted = 1 if alone else max(-(-items * self._lanes // BLOCK), self._least)
        blocks = self._blocks if wanted > self._blocks else wanted
        stream = self._current_stream().ptr
        if _streams.setdefault(self._device.id, stream) != stream:
            self._synchronize()  # launches share barrier words: two must not overlap
            _streams[self._device.id] = stream
        self._launch(self._function, blocks, 1, 1, BLOCK, 1, 1, 0, stream, *self._pointers)


def load(unit: ir.Unit, text: str, faults: bool = False, device_index: int = 0) -> Launch:
    """Compile a unit's text for a device and give what launches it.

    Parameters
    ----------
    unit : ir.Unit
        The unit, for the name of its entry and whether it has barriers.
    text : str
        What `morph.compiler.codegen.unit.source` gave, perhaps edited.
    faults : bool
        Compile in the injection of failing allocations.
    device_index : int
        Which CUDA device.

    Returns
    -------
    Launch
        To be called with the argument words.

    Raises
    ------
    morph.runtime.toolchain.CompileError, morph.runtime.toolchain.CompilerNotFound
        As `morph.runtime.toolchain.cuda.build`.
    """
    import cupy  # noqa: PLC0415

    device = cupy.cuda.Device(device_index)
    defines = ("MORPH_FAULTS",) if faults else ()
    arch = f"sm_{device.compute_capability}"
    cubin = cuda.build(prelude(unit.checked) + text, arch, name=entry(unit), defines=defines)
    return Launch(cubin, unit, device)
