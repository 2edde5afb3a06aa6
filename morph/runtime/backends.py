"""From a compiled unit to its launches: one module a target."""

from __future__ import annotations

from typing import Any

from morph.compiler.ir import nodes as ir
from morph.runtime.device import Device


def load(unit: ir.Unit, code: Any, faults: bool, device: Device, seed: int = 0) -> Any:
    """Give what launches a unit on a device; ``code.text`` is its C++, made only where needed."""
    if device.kind == "python":
        from morph.runtime.interpreter import launch as interpreter  # noqa: PLC0415

        return interpreter.load(unit, seed)
    if device.kind == "cuda":
        from morph.runtime import cuda  # noqa: PLC0415

        return cuda.load(unit, code.text, faults, device.index)
    from morph.runtime import cpu  # noqa: PLC0415

    return cpu.load(unit, code.text, faults, code.interruptible)
