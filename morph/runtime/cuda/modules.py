"""Cubins on a GPU: from a text to a loaded module."""

from __future__ import annotations

from typing import Any

from morph.runtime.arrays import import_cupy
from morph.runtime.toolchain import cuda

# CUDA_ERROR_INVALID_IMAGE, NO_BINARY_FOR_GPU, UNSUPPORTED_PTX_VERSION
REFUSED = 200, 209, 222


def architecture(index: int) -> str:
    """Return the architecture of a GPU, such as ``"sm_90"``."""
    return f"sm_{import_cupy().cuda.Device(index).compute_capability}"


def loaded(text: str, index: int, name: str, defines: tuple[str, ...] = ()) -> Any:
    """Compile a text and load it on the current GPU, ``index``.

    The cubins of a wheel may be too new for the driver: then NVRTC, which fits it, compiles.
    """
    cupy = import_cupy()
    module, arch = cupy.cuda.function.Module(), architecture(index)
    try:
        module.load(cuda.build(text, arch, name=name, defines=defines))
    except cupy.cuda.driver.CUDADriverError as error:
        if error.status not in REFUSED:
            raise
        module.load(cuda.build(text, arch, name=name, defines=defines, installed=False))
    return module
