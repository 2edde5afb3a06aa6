"""Records the units that a process launches; nothing is compiled.

What is launched on the CPU is interpreted, a program kernel by kernel.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from morph.compiler.codegen.unit import entry, prelude_of, source
from morph.compiler.ir import nodes as ir
from morph.launch import interpreted, kept, launcher, lookup, records
from morph.launch.compiled import Compiled
from morph.launch.foreach import Program
from morph.partition.persistent import PersistentProgram
from morph.runtime import device
from morph.runtime.cuda import device as cuda
from morph.runtime.interpreter import launch as interpreter
from morph.runtime.toolchain import cache


class Recorder:
    """Replaces launches on the CPU by interpretation, and collects the hashes of the units."""

    def __init__(self) -> None:
        self.lines: set[str] = set()
        self.texts: dict[str, str] = {}  # of unchecked units, with the prelude; their entries
        self.names: set[str] = set()  # of functions in the units
        self.inside = 0  # programs that run kernel by kernel
        self.seen: set[int] = set()
        self.units: list[Compiled] = []  # keeps their ids

    def install(self) -> None:
        """Replace the launches of this process."""
        recorder = self

        def interpreted_binary(compiled: Compiled, faults: bool, seed: int) -> Any:
            return None if compiled.unit.fused else interpreter.load(compiled.unit, seed)

        def interpret(self: launcher.Launch, values: Any, alone: bool) -> None:
            recorder.compiled(self.compiled)
            interpreted.InterpretedLaunch._launch(self, values, alone)

        def call(self: Program, *args: Any) -> Any:
            found, _ = lookup.launch_for(self, None, args, None)
            if found is None:  # it runs kernel by kernel on every device
                return self.__wrapped__(*args)
            if isinstance(found, PersistentProgram):  # on other devices the kernels are launched
                recorder.unit(found.program.unit)
                recorder.names.add(found.program.unit.name.removeprefix("morph_"))
                return self.__wrapped__(*args)
            recorder.compiled(found.compiled)
            recorder.inside += 1
            try:
                return self.__wrapped__(*args)
            finally:
                recorder.inside -= 1

        def no_gpu(index: int) -> device.Device:
            raise device.DeviceError("hashes are recorded on the CPU")

        records.enabled = False
        Compiled.binary = interpreted_binary  # type: ignore[method-assign]
        launcher.Launch._launch = interpret  # type: ignore[method-assign]
        Program.__call__ = Program.alone = call  # type: ignore[method-assign]
        kept.KeptLaunches.run = lambda _, program, *args: program(*args)  # type: ignore[method-assign]
        cuda.find = no_gpu

    def compiled(self, made: Compiled) -> None:
        """Record a unit that is launched."""
        key = id(made) * 2 + bool(self.inside)
        if key in self.seen:
            return
        self.seen.add(key), self.units.append(made)
        self.names |= {re.sub(r"_\d+$", "", f.name) for f in made.unit.funcs}
        self.names.add(made.unit.name.removeprefix("morph_"))
        if not self.inside:  # else the program's text has the kernel
            self.unit(replace(made.unit, checked=False))
        if not made.unit.fused:
            self.unit(replace(made.unit, checked=True))

    def unit(self, unit: ir.Unit) -> None:
        """Record the text of a unit."""
        kind, text = "checked" if unit.checked else "plain", source(unit)
        self.lines.add(f"{unit.name} cpu+cuda {kind} {cache.key(text)}")
        if not unit.checked:
            self.texts[prelude_of(unit) + text] = entry(unit)

    def text(self, name: str, target: str, text: str) -> None:
        """Record a text that is not generated."""
        self.lines.add(f"{name} {target} text {cache.key(text)}")
