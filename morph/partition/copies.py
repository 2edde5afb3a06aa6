"""Programs that a group of devices executes together, each on rows of its own and on copies.

See `morph.compiler.partitioning.copied_program`: one launch of each part, in which the parts
combine columns of common rows at crossings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from morph.compiler.ir import abi
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.layout import MOST_PARTS
from morph.compiler.partitioning.copied_program import derive_copied
from morph.data.table import Table
from morph.data.versions import Outdated, latest
from morph.language.bundles import flat
from morph.language.weak import WeakMap
from morph.launch import lookup
from morph.launch.binding import Request
from morph.launch.compiled import Compiled
from morph.launch.kernels import Launchable
from morph.launch.scratch import Scratch, scratch
from morph.launch.slots import Slots
from morph.partition.launches import LaunchOfAllParts, LaunchOfOnePart
from morph.runtime.device import Device
from morph.runtime.threads import get_num_threads

MOST_LAUNCHES = 64  # that a group keeps
_memories: dict[tuple[str, int], Scratch] = {}  # of parts on a CPU, which run at the same time
_derived: WeakMap[Compiled, dict[frozenset[tuple[ir.ColumnKey, str]], Compiled]] = WeakMap()


def can_run_together(devices: Sequence[Device]) -> bool:
    """Whether devices can execute a program together.

    At most `MOST_PARTS` CPUs, or as many different GPUs, each of which reaches the memory of all.
    """
    gpus = {d.name for d in devices if not d.on_host}
    if len(devices) > MOST_PARTS or gpus and len(gpus) < len(devices):
        return False
    return not any(d.interprets for d in devices) and all(
        d.reach(other) for d in devices for other in devices
    )


class ProgramOnCopies(LaunchOfAllParts):
    """A program bound to the objects of each part: its launches, one of each part.

    Parameters
    ----------
    devices : sequence of Device
        Of each part, see `can_run_together`.
    programs : sequence of program
        Of each part, with equal blocks and steps; kernels may differ.
    args : sequence of tuple
        The arguments of each part.
    columns : dict of str to str
        The columns of common rows that are combined, as ``"points.value"``, and how.
    """

    def __init__(
        self, devices: Sequence[Device], programs: Sequence[Launchable],
        args: Sequence[tuple[Any, ...]], columns: Mapping[str, str],
    ) -> None:  # fmt: skip
        launches, layouts = [], []
        for k, (device, what, given) in enumerate(zip(devices, programs, args, strict=True)):
            compiled, slots = lookup.accepted(Request(what, None, given, None, device))
            unit = _unit(compiled, slots, columns)
            launch = LaunchOfOnePart(what, unit, slots, _memory(device, k))
            launch.types_epoch = latest.epoch
            launches.append(launch)
            layouts.append(abi.parts_of(unit.unit))
        layout = layouts[0]
        assert layout is not None and all(x == layout for x in layouts)
        super().__init__(launches, layout)

    def fits(self) -> bool:
        """Whether the units still fit the objects."""
        return all([p.fits() for p in self.launches])

    def run(self, args: Sequence[tuple[Any, ...]]) -> Any:
        """Run the program; returns the result of the first part.

        Raises
        ------
        Outdated
            If another thread has changed the objects so that they need another launch.
        """
        values = [p._values(flat(x), None) for p, x in zip(self.launches, args, strict=True)]
        with self.held:
            self._refuse_nested()
            for p in self.launches:
                if not p._current():
                    p._renew()
                    self.valid = False
            self.failed = True
            return self._guarded(self.memories, lambda: self._launch(values), self._end)

    def _launch(self, values: Sequence[Any]) -> Any:
        most = get_num_threads()
        for p, numbers in zip(self.launches, values, strict=True):
            p._prepare(numbers, 1, most)
        if not self.valid:
            self._send(self._addresses())
        self.valid = False  # after an error the mailboxes are undefined
        for p, status in zip(self.launches, self._execute(None), strict=True):
            p._finish(status)
        self.valid, self.failed = True, False
        first = self.launches[0]
        return first._result() if first.compiled.returns is not None else None

    def _end(self) -> None:
        """End the launches on the host."""
        for x in self.memories:
            x.running = False
        for p in self.launches:
            p._end((), self.failed)


class ProgramCache:
    """The bound programs of a group of devices, by their arguments.

    Parameters
    ----------
    devices : sequence of Device
        Of each part, see `can_run_together`.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = devices
        self._known: dict[tuple[Any, ...], ProgramOnCopies] = {}

    def run(
        self, programs: Sequence[Launchable], args: Sequence[tuple[Any, ...]],
        columns: Mapping[str, str],
    ) -> Any:  # fmt: skip
        """Run a program on all parts, see `ProgramOnCopies`; returns the result of the first."""
        objects = (x for given in args for x in flat(given) if hasattr(x, "version"))
        key = (*map(id, programs), *map(id, objects), *sorted(columns.items()))
        while True:
            found = self._known.get(key)
            if found is None or not found.fits():
                self._known.pop(key, None)
                while len(self._known) >= MOST_LAUNCHES:
                    del self._known[next(iter(self._known))]
                found = ProgramOnCopies(self._devices, programs, args, columns)
                self._known[key] = found
            try:
                return found.run(args)
            except Outdated:
                continue


def _memory(device: Device, k: int) -> Scratch:
    """The scratch memory of part k."""
    if not device.on_host:
        return scratch(device)
    key = device.name, k
    return _memories.get(key) or _memories.setdefault(key, Scratch(device))


def _unit(compiled: Compiled, slots: Slots, columns: Mapping[str, str]) -> Compiled:
    """The derived unit of a program on the device of a part."""
    common = {
        (slot, column): how
        for name, how in columns.items()
        for table, column in [name.split(".")]
        for slot, x in slots.objects.items()
        if isinstance(x, Table) and x.name == table
    }
    known, key = _derived.setdefault(compiled, {}), frozenset(common.items())
    if key not in known:
        unit = derive_copied(compiled.unit, common)
        made = Compiled(unit, compiled.origins, compiled.device, compiled.interruptible)
        made.dependencies = compiled.dependencies
        known[key] = made
    return known[key]
