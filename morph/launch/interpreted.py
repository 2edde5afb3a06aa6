"""Launches on the device ``python``, which interprets the IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from morph.compiler.ir.layout import Status
from morph.compiler.ir.sites import Violated
from morph.data.row import Row
from morph.data.versions import latest
from morph.language.intrinsics import to_dtype
from morph.launch.launcher import Launch
from morph.launch.violations import error


class InterpretedLaunch(Launch):
    """One interpreted unit, bound to objects: the interpreter uses objects instead of addresses."""

    def _write_objects(self, running: bool = False) -> None:
        """Record the versions only."""
        epoch = latest.epoch
        self._record_versions()
        self.epoch = epoch

    def _launch(self, values: Sequence[Any], alone: bool) -> None:
        status, deferred, reexecution = self.scratch.status, set[int](), False
        compiled, objects = self.compiled, self.objects
        stores = {s.slot: objects[s.slot] for s in compiled.stores}
        graphs = {g.slot: objects[g.slot] for g in compiled.graphs}
        kinds = dict(compiled.inputs)
        values = [int(v) if isinstance(v, Row) else v for v in values]
        try:
            types = [to_dtype(kinds[n]).type for n in compiled.names]
            scalars = {n: t(v) for n, t, v in zip(compiled.names, types, values, strict=True)}
        except OverflowError:
            compiled.reject_wide(values)
            raise
        self.scratch.begin()
        try:
            while True:
                self.binary(stores, graphs, scalars, status, reexecution, deferred)
                if not status[Status.FAILED]:
                    self.scratch.dirty = False
                    return
                self._handle_overflow()
                reexecution = True
        except Violated as found:
            raise error(compiled.unit, found.violation, objects) from None
        finally:
            if self.scratch.dirty:  # return the capacity that items had reserved
                for slot in self.compiled.touches:
                    objects[slot]._publish_counters()
