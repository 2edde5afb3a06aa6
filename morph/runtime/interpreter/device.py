"""The device ``python``: arrays in host memory, units interpreted item by item."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.language.hooks import Hook
from morph.runtime.cpu.device import HostDevice

_load: Hook[Any] = Hook("morph.runtime.interpreter.launch:load")


class InterpretedDevice(HostDevice):
    """The host's memory and the interpreter."""

    interprets = True
    throughput = 1 << 14

    def load(self, code: Any, faults: bool, seed: int) -> Any:
        return _load(code.unit, seed)


def find(index: int) -> InterpretedDevice:
    """Return the device ``python``."""
    return InterpretedDevice("python", index, np)
