"""From a compiled unit to its launches: one module a target."""

from __future__ import annotations

from typing import Any

from morph.device import Device
from morph.lang import ir


def load(unit: ir.Unit, text: str, faults: bool, device: Device) -> Any:
    """Compile a unit's text for a device and give what launches it."""
    if device.kind == "cuda":
        from morph.run import cuda

        return cuda.load(unit, text, faults, device.index)
    from morph.run import cpu

    return cpu.load(unit, text, faults)
