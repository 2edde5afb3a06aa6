"""Arrays in GPU memory, as CuPy arrays."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, cached_property
from typing import Any

import numpy as np

from morph.compiler.ir.layout import TILE_BYTES
from morph.language.hooks import Hook
from morph.runtime import arrays, transfer
from morph.runtime.arrays import Array, gpu_array, import_cupy, is_host
from morph.runtime.backend import Launch, Seeds, Write
from morph.runtime.cuda import driver
from morph.runtime.cuda.combining import combine
from morph.runtime.cuda.extremes import MOST as MOST_EXTREMES
from morph.runtime.cuda.extremes import suits
from morph.runtime.cuda.modules import compile_once, precompile_headers
from morph.runtime.cuda.small_copies import (
    MOST_VALUES,
    SMALL,
    CudaReport,
    CudaWriter,
    SmallCopies,
    one_dimensional,
)
from morph.runtime.device import Device, DeviceError, device

BLOCK_BYTES = 8 << 10  # of shared memory, in addition to that of tiles
LEAST_CAPABILITY = 75  # Turing: the oldest target of CUDA 13
PEER_ACCESS_ALREADY_ENABLED = 704  # cudaErrorPeerAccessAlreadyEnabled
_CURRENT: AbstractContextManager[None] = nullcontext()
_load: Hook[Launch] = Hook("morph.runtime.cuda.launch:load")
_build: Hook[Any] = Hook("morph.runtime.cuda.launch:build")


class CudaDevice(Device):
    """One NVIDIA GPU; its array module is CuPy."""

    on_host = False
    interprets = False
    local_limit = 1 << 17  # of GPU memory, allocated for all resident threads
    host_array_limit = 1 << 18
    bulk = 1 << 26
    serial_items = 256  # threads of a block
    throughput = 1 << 33

    @cached_property
    def _attributes(self) -> dict[str, int]:
        return dict(self.xp.cuda.Device(self.index).attributes)

    @property
    def cache_bytes(self) -> int:
        return self._attributes["L2CacheSize"]

    @property
    def tiles(self) -> int:
        need = TILE_BYTES + BLOCK_BYTES
        if self._attributes["MaxSharedMemoryPerBlockOptin"] < need:
            return 0
        blocks = self._attributes["MaxSharedMemoryPerMultiprocessor"] // need
        return self._attributes["MultiProcessorCount"] * min(blocks, 2)

    def active(self) -> AbstractContextManager[Any]:
        if self.xp.cuda.runtime.getDevice() == self.index:
            return _CURRENT
        return self.xp.cuda.Device(self.index)  # type: ignore[no-any-return]

    def buffer(self, nbytes: int) -> Array:
        return self.zeros(nbytes, np.uint8)  # CuPy's pool aligns to 512 bytes

    def free(self) -> int | None:
        with self.active():
            free = self.xp.cuda.runtime.memGetInfo()[0]
            return int(free + self.xp.get_default_memory_pool().free_bytes())

    def strided(
        self, buffer: Array, offset: int, shape: tuple[int, ...], dtype: Any, strides: Any
    ) -> Array:
        """View bytes as an array that begins at ``offset`` and has these strides."""
        with self.active():
            return self.xp.ndarray(shape, dtype, memptr=buffer.data + offset, strides=strides)

    def pointer(self, x: Array) -> int:
        return int(x.data.ptr)

    def reach(self, other: Any) -> bool:
        """Enable access to the memory of another GPU, if CuPy's default pool allocates it."""
        cuda = self.xp.cuda
        pool = getattr(cuda.get_allocator(), "__self__", None)
        if not isinstance(other, CudaDevice) or not isinstance(pool, cuda.MemoryPool):
            return False  # memory of other pools requires other functions
        if other.index != self.index:
            if not cuda.runtime.deviceCanAccessPeer(self.index, other.index):
                return False
            with self.active():
                try:
                    cuda.runtime.deviceEnablePeerAccess(other.index)
                except cuda.runtime.CUDARuntimeError as error:
                    if error.status != PEER_ACCESS_ALREADY_ENABLED:
                        raise
        return True

    def asarray(self, x: Any, dtype: Any = None) -> Array:
        x = arrays.imported(x)
        if not is_host(x):
            x = gpu_array(x)
            if x.device.id != self.index and not x.flags.c_contiguous:
                with x.device:  # CuPy copies only contiguous arrays to another GPU
                    x = x.copy()
        with self.active():
            if isinstance(x, np.ndarray) and transfer.suits(x) and dtype in (None, x.dtype):
                return transfer.send_all([x])[0]
            return self.xp.asarray(x, dtype)

    def asarrays(self, *given: Any) -> list[Array]:
        host = [x for x in given if type(x) is np.ndarray and x.size]
        if len(host) < 2 or not transfer.suits(*host):
            return super().asarrays(*given)
        with self.active():
            sent = dict(zip(map(id, host), transfer.send_all(host), strict=True))
        return [sent[id(x)] if id(x) in sent else self.asarray(x) for x in given]

    def copy(self, x: Any) -> Array:
        with self.active():
            return self.xp.array(x)

    def full(self, shape: int | tuple[int, ...], value: Any, dtype: Any) -> Array:
        made = self.empty(shape, dtype)
        self.write(made, value)
        return made

    def write(self, array: Array, values: Any) -> None:
        self.write_all([(array, values)])

    def write_all(self, writes: Iterable[tuple[Array, Any]]) -> None:
        small = [w for array, values in writes for w in self._written(array, values)]
        if small:
            self.put(*small)

    def _written(self, array: Array, values: Any) -> list[Write]:
        """Split a write into those for `put`; if that is not possible, execute it."""
        writes = None
        if is_host(values):
            values = np.asarray(values, array.dtype)
            if values.ndim and values.size > MOST_VALUES:
                values = self.asarray(values)
        elif values.device.id != self.index or self.xp.may_share_memory(array, values):
            super().write(array, values)
            return []
        if array.dtype == values.dtype:
            writes = one_dimensional(array, values)
        if writes is None:
            super().write(array, values)
        return writes or []

    def replaced(self, x: Array, old: int, new: int, dtype: Any) -> Array:
        if (x.dtype, dtype) != (np.int32, np.int64) or not x.flags.c_contiguous:
            return super().replaced(x, old, new, dtype)
        made = self.empty(x.shape, dtype)
        _small_copies(self.index).replace(made, x, old, new)
        return made

    def copies(self, *sources: Array) -> list[Array]:
        with self.active():
            if any(x.data.ptr % 8 for x in sources):
                return [x.copy() for x in sources]
            made = [self.xp.empty(x.size, x.dtype) for x in sources]
        self.put(*zip(made, sources, strict=True))
        return made

    def extremes(self, *arrays: Array) -> list[tuple[Any, Any]]:
        if len(arrays) > MOST_EXTREMES or not all(map(suits, arrays)):
            return super().extremes(*arrays)
        return _small_copies(self.index).extremes(arrays)

    def to_host(self, x: Any) -> np.ndarray[Any, Any]:
        return x if type(x) is np.ndarray else arrays.to_host(x)

    def put(self, *writes: Write) -> None:
        _small_copies(self.index).put(writes)

    def combine(self, arrays: Sequence[Array], rows: slice, op: str) -> bool:
        with self.active():
            return combine(self.index, arrays, rows, op)

    def prepared(self, writes: Sequence[Write], seeds: Sequence[Any] | None = None) -> CudaWriter:
        return CudaWriter(
            _small_copies(self.index), writes, None if seeds is None else Seeds(*seeds)
        )

    def load(self, code: Any, faults: bool, seed: int) -> Any:
        return _load(code.outline, code.text, faults, self.index, code.rebuilt)

    def build(self, code: Any) -> None:
        _build(code.outline, code.text, self.index, code.rebuilt)

    def report(self, values: Array) -> CudaReport:
        return CudaReport(_small_copies(self.index), values)

    def synchronize(self) -> None:
        with self.active():
            self.xp.cuda.runtime.deviceSynchronize()


@cache
def _small_copies(index: int) -> SmallCopies:
    return SmallCopies(index)


def fetch(x: Any, out: Any = None) -> np.ndarray[Any, Any]:
    """Copy a CuPy array to the host, large ones in chunks; to ``out``, C-contiguous, if given."""
    x = x[...]
    if not x.flags.c_contiguous:  # CuPy compiles a kernel for each type
        on = device(f"cuda:{x.device.id}")
        dense = on.empty(x.shape, x.dtype)
        on.write(dense, x)
        x = dense
    if x.nbytes >= transfer.LARGE:
        return transfer.fetch(x, out)
    if out is not None:
        return x.get(out=out)  # type: ignore[no-any-return]
    small = 0 < x.nbytes <= SMALL
    fetched: np.ndarray[Any, Any] = _small_copies(x.device.id).fetch(x) if small else x.get()
    return fetched


def fetch_all(given: Sequence[Any], outs: Sequence[Any] | None = None) -> list[Any]:
    """Copy CuPy arrays to the host, see `fetch`; those that are large together without pauses."""
    wanted = [None] * len(given) if outs is None else outs
    plain = [k for k, x in enumerate(given) if x.size and x.flags.c_contiguous]
    large = [given[k] for k in plain]
    one_gpu = len({x.device.id for x in large}) == 1
    if len(plain) < 2 or not one_gpu or sum(x.nbytes for x in large) < transfer.TOGETHER:
        return list(map(fetch, given, wanted))
    copied = transfer.fetch_all(large, None if outs is None else [outs[k] for k in plain])
    found = dict(zip(plain, copied, strict=True))
    return [found[k] if k in found else fetch(x, wanted[k]) for k, x in enumerate(given)]


def find(index: int) -> CudaDevice:
    """Return one GPU.

    Raises
    ------
    DeviceError
        If CuPy is not installed, the driver does not answer, there are fewer GPUs, or the GPU is
        too old.
    """
    name = f"cuda:{index}"
    if importlib.util.find_spec("cupy") is None:
        extras = "'morph-engine[gpu]' (CUDA 13) or 'morph-engine[gpu12]' (CUDA 12)"
        raise DeviceError(f"{name} needs CuPy: pip install {extras}")
    try:
        started = driver.start(index)  # before the import of CuPy (0.2 s)
        cupy = import_cupy()
        started.join()
        count = cupy.cuda.runtime.getDeviceCount()
        capability = cupy.cuda.Device(index).compute_capability if index < count else ""
    except Exception as e:  # a broken installation or a missing driver may raise any error
        old = "insufficient" in str(e) and "; a driver of CUDA 12 needs 'morph-engine[gpu12]'"
        raise DeviceError(f"{name} does not answer: {e}{old or ''}") from e
    if index >= count:
        raise DeviceError(f"{name} does not exist: this machine has {count} GPU(s)")
    if int(capability) < LEAST_CAPABILITY:
        model = cupy.cuda.runtime.getDeviceProperties(index)["name"].decode()
        has = f"a {model} of compute capability {capability[:-1]}.{capability[-1]}"
        raise DeviceError(f"{name} is {has}: Morph needs 7.5 (Turing) or later")
    precompile_headers(cupy.cuda.compiler)
    if index > 0:
        compile_once(cupy.cuda.compiler)
    return CudaDevice("cuda", index, cupy)
