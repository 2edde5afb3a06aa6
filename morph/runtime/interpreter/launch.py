"""The python device: a unit interpreted item by item, in an order shuffled by a seed.

This is the reference for compiled code: it shares nothing with codegen, operates on the arrays of
the host objects with NumPy's scalar arithmetic, and raises an error for operations that are
undefined in compiled code (a nonexistent row, an index out of range, an allocation without a
reservation).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.abi import Status
from morph.compiler.ir.sites import Violated
from morph.language.depth import deep
from morph.runtime.interpreter.checks import Stopped
from morph.runtime.interpreter.expressions import Code, Env
from morph.runtime.interpreter.memory import COUNT, HEAD, Item, Memory, Untouched
from morph.runtime.interpreter.statements import Signal, Statements
from morph.runtime.interpreter.values import dtype_of

Launch = Callable[
    [dict[str, Any], dict[str, Any], dict[str, Any], "np.ndarray[Any, Any]", bool, set[int]], None
]
UNCLAIMED = 2**64 - 1
LARGEST_BATCH = 7  # log2 of the maximum number of items that claim in one round


def load(unit: ir.Unit, seed: int) -> Launch:
    """Translate a unit of one ``foreach``.

    Parameters
    ----------
    unit : ir.Unit
    seed : int
        Determines the order of the items and, if they claim, their rounds.

    Returns
    -------
    callable
        ``launch(stores, graphs, scalars, status, reexecution, deferred)``: host objects and scalars
        by slot and name; the ``status`` array (see `morph.compiler.ir.abi.Status`), int64, with at
        least 8 elements and one for each store; whether to execute only the items in ``deferred``;
        and the set that receives the positions of deferred items, whose allocation failed (with
        ``together``, the bitwise complements for items that lost their claims).

    Raises
    ------
    ValueError
        If the unit is a fused program: the python device runs programs eagerly.
    TypeError
        If it calls C++ functions, or has a node that the interpreter does not support.
    """
    if unit.fused or len(unit.blocks) != 1 or len(unit.blocks[0].steps) != 1:
        raise ValueError(f"{unit.name}: the python device interprets one foreach at a time")
    step = unit.blocks[0].steps[0]
    if not isinstance(step, ir.Foreach):
        raise ValueError(f"{unit.name}: expected a foreach, not {type(step).__name__}")
    return Interpreter(unit, step, seed).launch


class Interpreter:
    """A unit as closures, and the execution of a foreach."""

    def __init__(self, unit: ir.Unit, step: ir.Foreach, seed: int) -> None:
        self.random = random.Random(seed)
        self.memory = Memory(unit)
        self.scalars = [(name, dtype_of(t)) for name, t in unit.scalars]
        code = Statements(self.memory, unit.local_scale)
        for f in unit.funcs:
            code.function(f)
        kernel = next(f for f in unit.funcs if f.name == step.kernel)
        assert isinstance(kernel, ir.Kernel)
        self.params = code.parameters(kernel)
        self.body = code.body(kernel.body)
        self.commit = code.body(kernel.commit) if kernel.commit is not None else None
        self.abort = code.body(kernel.abort or ())
        self.where = code.functions[kernel.where] if kernel.where is not None else None
        self.args = [code.expr(a) for a in step.args]
        self.where_args = [code.expr(a) for a in step.where_args]
        self.bounds = [code.expr(x) if x is not None else None for x in (step.start, step.stop)]
        self.domain = self.memory.stores[step.slot]
        self.together, self.until_empty = step.together, step.until_empty

    def launch(
        self,
        stores: dict[str, Any],
        graphs: dict[str, Any],
        scalars: dict[str, Any],
        status: np.ndarray[Any, Any],
        reexecution: bool,
        deferred: set[int],
    ) -> None:
        """Execute each item once, or only deferred items; see `load`."""
        memory, domain = self.memory, self.domain
        memory.bind(stores, graphs, status, reexecution)
        checks, begins = memory.checks, memory.deferred is not deferred  # identifies a launch
        memory.deferred = deferred
        # rows that are dead now may be recycled during the launch: like new rows, they are no items
        lost = {~p for p in deferred if p < 0}
        again = sorted({p for p in deferred if p >= 0} | lost)
        env = {name: scalar(dtype, scalars[name]) for name, dtype in self.scalars}
        within = domain.span[slice(*(None if x is None else int(x(env)) for x in self.bounds))]
        positions = list(again if reexecution else within)
        if domain.dead is not None:
            positions = [p for p in positions if not domain.dead[p]]
        deferred.clear()
        if checks is not None and begins:  # also a re-execution by a wider unit
            checks.begin()
        self.random.shuffle(positions)
        with np.errstate(all="ignore"), deep():  # integers wrap, x / 0 is infinite or NaN
            args = [a(env) for a in self.args]
            where_args = [a(env) for a in self.where_args]
            known = domain.count
            try:
                while positions:
                    size = 1 << self.random.randrange(LARGEST_BATCH + 1) if self.commit else 1
                    size = len(positions) if self.together else size
                    batch, positions = positions[:size], positions[size:]
                    self.batch(batch, args, where_args, lost)
                    for p in range(known, domain.count) if self.until_empty else ():
                        positions.insert(self.random.randrange(len(positions) + 1), p)
                    known = domain.count
            except BaseException:
                for store in memory.stores.values():
                    store.recover()
                raise
        for p in deferred & lost:
            deferred.remove(p)
            deferred.add(~p)
        if self.until_empty and not deferred:
            domain.meta[[COUNT, HEAD]] = 0
        for store in memory.stores.values():
            if store.info.kind in ("table", "collection"):
                store._publish_counters()
        if checks is not None and checks.found is not None and not status[Status.FAILED]:
            raise Violated(checks.found)

    def batch(
        self, positions: list[int], args: list[Any], where_args: list[Any], lost: set[int]
    ) -> None:
        """Execute the live items that pass the filter; items that claim then commit or abort.

        Items in ``lost`` have lost their claims in an earlier execution, and do not claim again.
        """
        body, where = self.body, self.where
        name = self.params[0]

        def run_body(env: Env) -> Any:
            return body(env) if where is None or where([env[name], *where_args]) else None

        waiting = []
        self.barrier()
        params, shared = self.params, dict(zip(self.params[1:], args, strict=True))
        for position in positions:
            if not self.domain.is_dead(position):
                item = Item(position, {params[0]: self.domain.item_value(position), **shared})
                if self.run(item, run_body) == Signal.CLAIM:
                    waiting.append(item)
        if not waiting:
            return
        memory, status = self.memory, self.memory.status
        if self.together and status[Status.FAILED]:  # no item commits
            status[Status.FAILED] += len(waiting)
            for item in waiting:
                memory.deferred.add(item.position)
                memory.release(item)
            return
        status[Status.ROUND] += 1
        keys = [claim_key(int(status[Status.ROUND]), item) for item in waiting]
        owner: dict[tuple[str, int], int] = {}  # claims of earlier rounds do not count
        for item, key in zip(waiting, keys, strict=True):
            assert item.claim is not None
            for row in item.claim[0] if item.position not in lost else ():
                owner[row] = min(owner.get(row, UNCLAIMED), key)
        wins = []
        for item, key in zip(waiting, keys, strict=True):
            assert item.claim is not None
            rows, guard, _ = item.claim
            mine = all(owner.get(row) == key for row in rows) and item.position not in lost
            wins.append(mine and all(owner.get(row, UNCLAIMED) >= key for row in guard))
        decided = list(zip(waiting, wins, strict=True))
        self.random.shuffle(decided)
        self.barrier()
        for item, won in decided:
            assert self.commit is not None
            self.run(item, self.commit if won else self.abort)
            if self.together and not won:
                lost.add(item.position)

    def barrier(self) -> None:
        """The barrier between phases of a kernel that claims: for races, each is a step."""
        if self.memory.checks is not None and self.commit is not None:
            self.memory.checks.next_step()

    def run(self, item: Item, code: Code) -> Signal | None:
        """Execute a part of an item; defer the item if its allocation fails."""
        memory = self.memory
        memory.item = item
        if memory.checks is not None:
            checks = memory.checks
            checks.position, checks.row = item.position, item.env[self.params[0]]
        try:
            signal: Signal | None = code(item.env)
        except Untouched:
            memory.status[Status.FAILED] += 1
            memory.deferred.add(item.position)
            signal = None
        except Stopped:
            signal = None
        if signal != Signal.CLAIM:
            memory.release(item)
        return signal


def claim_key(round_: int, item: Item) -> int:
    """The key of an item's claims; the smallest wins: latest round, priority, then a hash."""
    assert item.claim is not None
    newest = 2**26 - 1 - round_ % 2**26
    return newest << 38 | item.claim[2] << 32 | mix32(item.position)


def mix32(x: int) -> int:
    """A bijective hash of 32-bit integers (the finaliser of MurmurHash3)."""
    x ^= x >> 16
    x = x * 0x85EBCA6B & 0xFFFFFFFF
    x ^= x >> 13
    x = x * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ x >> 16


def scalar(dtype: np.dtype[Any], value: Any) -> Any:
    """A run-time scalar as a value."""
    return bool(value) if dtype.kind == "b" else dtype.type(value)
