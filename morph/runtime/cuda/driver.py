"""The NVIDIA driver: its library, and the start of a GPU in a thread, which takes 0.3 s."""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any


def load() -> Any:
    """Load the library of the driver.

    Raises
    ------
    OSError
        If it is not installed.
    """
    try:
        return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError as error:
        raise OSError(f"no NVIDIA driver is installed ({error})") from error


def start(index: int) -> threading.Thread:
    """Initialise the driver and the primary context of a GPU in a thread; return the thread.

    The CUDA runtime reports errors later.

    Raises
    ------
    OSError
        If there is no driver.
    """
    thread = threading.Thread(target=_initialise, args=(load(), index), daemon=True)
    thread.start()
    return thread


def _initialise(library: Any, index: int) -> None:
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if not library.cuInit(0) and not library.cuDeviceGet(ctypes.byref(device), index):
        library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
