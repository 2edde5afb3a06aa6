"""A compiled unit on one device: its IR, text and binary, and the layout of its argument block."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from time import perf_counter
from typing import Any

import numpy as np

from morph.compiler.ir.layout import State
from morph.compiler.ir.outline import Outline
from morph.compiler.ir.spelling import user_name
from morph.data.versions import advance_epoch
from morph.language.depth import deep
from morph.language.hooks import Hook
from morph.language.intrinsics import to_dtype
from morph.language.messages import shown
from morph.language.types import Scalar
from morph.launch.records import UnitRecorder
from morph.runtime.device import Device
from morph.runtime.timing import counting

_logger = logging.getLogger("morph.launch")
Origin = int | tuple[str, str]  # an argument, or a number in the closure of "kernel" or "where"
print_unit: Hook[str] = Hook("morph.launch.compilation:source")
widened: Hook[Any] = Hook("morph.launch.compilation:widened")
outline_unit: Hook[Outline] = Hook("morph.launch.compilation:outline")
CODES = {"b": "?", "i": "bhiq", "u": "BHIQ", "f": "-efd"}  # of `struct`, for 1, 2, 4, 8 bytes


@dataclass(slots=True)
class Parsed:
    """A unit as the compiler makes it.

    Attributes
    ----------
    unit : ir.Unit
    origins : dict of str to Origin
        For each scalar argument, the argument of the call or the captured number that it is.
    dependencies : morph.compiler.frontend.dependencies.Dependencies
    """

    unit: Any
    origins: dict[str, Origin]
    dependencies: Any = None


class Compiled(Outline):
    """A unit on one device, for any objects that fit, and its outline.

    Attributes
    ----------
    origins : dict of str to Origin
        As of `Parsed`; `scalar_origins` lists them in the order of the argument block.
    dependencies : list of callable
        Functions that compare captured Python values with the compiled-in values.
    typing_ms : float
        Milliseconds that the checker took to find the types.
    builds : int
        Incremented when a fully optimised binary replaces the first one.
    """

    def __init__(
        self, unit: Any, origins: dict[str, Origin], device: Device, interruptible: bool,
        outline: Outline | None = None, compile_again: Callable[[], Any] | None = None,
    ) -> None:  # fmt: skip
        outline = outline_unit(unit) if outline is None else outline
        vars(self).update(vars(outline))
        self.outline, self._unit, self._compile_again = outline, unit, compile_again
        if self.local_bytes > (most := device.local_limit):
            raise MemoryError(
                f"{self.name.removeprefix('morph_')!r} needs {self.local_bytes} bytes an item for"
                f" its local collections, and there are {most}: keep so much in a Collection or"
                " table"
            )
        self.device, self.interruptible = device, interruptible
        self.dependencies: list[Callable[[], bool]] = []
        self.typing_ms = 0.0
        self.recorder: UnitRecorder | None = None
        self._text: str | None = None
        self._binary: Any = None
        self.builds = 0
        self._wider: Compiled | None = None
        self.origins = origins
        self.index = {f.kind: i for i, f in enumerate(self.fields) if not f.slot}
        slots = dict.fromkeys(f.slot for f in self.fields if f.kind == "column")
        # the fields with addresses of columns, by slot; and of other arrays of objects
        self.columns = [
            (s, [(i, f.column) for i, f in enumerate(self.fields)
                 if f.slot == s and f.kind == "column"]) for s in slots
        ]  # fmt: skip
        self.others = [(i, f) for i, f in enumerate(self.fields) if f.slot and f.kind != "column"]
        self.names = [f.column for f in self.fields if f.kind == "scalar"]
        kinds = dict(self.inputs)
        self.codes = [_code(kinds[n]) for n in self.names]
        self.scalars = struct.Struct("=" + "".join(self.codes))
        self.first_scalar = 8 * next(
            (i for i, f in enumerate(self.fields) if f.kind == "scalar"), 0
        )
        self.scalar_origins = [origins[n] for n in self.names]
        given = [o for o in self.scalar_origins if isinstance(o, int)]
        # None: some numbers are captured, see `Launch._values`
        self.numbers = picker(given) if len(given) == len(self.names) else None
        self.run_offset = 8 * self.index["replay"]  # `replay`, `launch` and `threads`
        self.returns: tuple[struct.Struct, int] | None = None  # format, and its index in the state
        if self.result is not None:
            at, t = self.result
            self.returns = struct.Struct("=" + _code(t)), int(State.VARS) + at

    @property
    def unit(self) -> Any:
        """The IR; a unit that was loaded from a record is compiled again when its IR is read."""
        if self._unit is None:
            assert self._compile_again is not None
            with deep():
                self._unit = self._compile_again()
        return self._unit

    @property
    def title(self) -> str:
        """The name of the kernel or program and the device, for messages."""
        return f"{self.name.removeprefix('morph_')} on {self.device.name}"

    @property
    def text(self) -> str:
        """The generated C++, without the prelude."""
        if self._text is None:
            self._text = print_unit(self.unit)
            if self.recorder is not None:
                self.recorder.store(self.outline, self.origins, self._text)
        return self._text

    def set_text(self, text: str) -> None:
        """Set the text to that of a record."""
        self._text = text

    def binary(self, faults: bool, seed: int) -> Any:
        """The launcher of the unit."""
        key = (faults, seed, self.builds)
        if self._binary is None or self._binary[0] != key:
            since = perf_counter()
            with counting("compile"):
                self._binary = (key, self.device.load(self, faults, seed))
            took = self.typing_ms, 1e3 * (perf_counter() - since)
            _logger.debug("first launch of %s: types %.1f ms, binary %.1f ms", self.title, *took)
        return self._binary[1]

    def rebuilt(self) -> None:
        """Make launches load the binary again: the fully optimised one is now in the cache."""
        self.builds += 1
        advance_epoch()

    def edit(self, text: str, faults: bool, seed: int) -> None:
        """Replace the text; if the new one does not compile, the old one stays."""
        old = self._text, self._binary
        self._text, self._binary = text, None  # an edited text is not recorded
        try:
            self.binary(faults, seed)
        except BaseException:
            self._text, self._binary = old
            raise

    def wider(self) -> Compiled:
        """The same unit with local collections twice as large."""
        if self._wider is None:
            unit = widened(self.unit)
            self._wider = Compiled(unit, self.origins, self.device, self.interruptible)
            self._wider.dependencies = self.dependencies
        return self._wider

    def reject_wide(self, values: Sequence[Any]) -> None:
        """Raise an error that names the number of a call that its type cannot hold, if any."""
        kinds = dict(self.inputs)
        for name, origin, value in zip(self.names, self.scalar_origins, values, strict=True):
            t = kinds[name]
            given = user_name(name.removesuffix("_arg_")) if isinstance(origin, int) else origin[1]
            if isinstance(t, Scalar) and t.kind in "iu" and isinstance(value, int):
                info = np.iinfo(to_dtype(t))
                if not info.min <= value <= info.max:
                    raise OverflowError(
                        f"{given!r} is {shown(value)}: {t} holds {info.min} to {info.max}"
                    ) from None

    def is_current(self) -> bool:
        """Whether all captured Python values are those that were compiled in."""
        for is_equal in self.dependencies:
            if not is_equal():
                return False
        return True


def picker(places: Sequence[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Return a function that selects some of a call's arguments."""
    if not places:
        return lambda args: ()
    if len(places) == 1:
        return lambda args, i=places[0]: (args[i],)  # type: ignore[misc]
    return itemgetter(*places)


def _code(t: Scalar) -> str:
    """The format by which `struct` packs a number into a field of 8 bytes."""
    size = t.bits // 8
    return f"{CODES[t.kind][size.bit_length() - 1]}{8 - size}x"
