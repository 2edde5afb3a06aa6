"""State shared by the checked launches of a device, and the error made of a violation."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from morph.compiler.ir import abi
from morph.compiler.ir import nodes as ir
from morph.compiler.ir import sites as checked_sites
from morph.compiler.ir.layout import GLOBAL_ID, CheckWord
from morph.compiler.ir.sites import (
    CHECK_WORDS,
    SHADOW_WORDS,
    STEPS,
    Kind,
    Sites,
    Violation,
    problem,
    race,
    sites_of,
)
from morph.data.collection import Set
from morph.data.table import Table
from morph.language.errors import CheckError
from morph.runtime.device import Device

NOTHING = 2**63 - 1  # the key that means no violation
LONGEST, SHORT = 200, 16  # characters of an error, and of a name in an error that would be longer
MARGIN = 1 << 20  # largest number of steps of one launch


class Checks:
    """The violation found by a launch, and the shadow words of columns.

    Attributes
    ----------
    state : array, shape (CHECK_WORDS,), int64
        See `morph.compiler.ir.layout.CheckWord`.
    step : int
        The number of the next step.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.state = device.zeros(CHECK_WORDS, np.int64)
        self.step = 1
        self.running = False
        self.launches = 0
        # no WeakKeyDictionary: its callbacks would lose an exception of a signal handler
        self.shadows: dict[int, tuple[weakref.ref[Any], dict[str, Any]]] = {}

    def address(self, store: Any, kind: str, column: str) -> int:
        """Return the address of a column's shadow words, or of a store's words for deleted rows.

        Each row within the capacity of the column or store has words.
        """
        if kind == "shadow":
            rows = len(store.columns[column].array)
            size = SHADOW_WORDS * max(store.columns[column].size, 1)
        else:
            rows, size = store.capacity, 1
        total, kept = size * max(rows, 1), self._shadows_of(store)
        old = kept.get(column)
        if old is None or old.size < total:
            made = self.device.zeros(total, np.uint64)
            if old is not None:
                with self.device.active():
                    made[: old.size] = old
            kept[column] = made
        return self.device.pointer(kept[column])

    def _shadows_of(self, store: Any) -> dict[str, Any]:
        """The shadow words of a store by column; frees those of stores that no longer exist."""
        ref, kept = self.shadows.get(id(store), (None, {}))
        if ref is None or ref() is not store:
            self.shadows = {i: s for i, s in self.shadows.items() if s[0]() is not None}
            self.shadows[id(store)] = weakref.ref(store), (kept := {})
        return kept

    def begin(self, rounds: int) -> None:
        """Prepare a launch after ``rounds`` rounds of claims; each round is two steps."""
        if self.running:  # an interrupt has ended the previous launch at some step
            self.step += MARGIN
        self.running = True
        if self.step >= STEPS - MARGIN:  # numbers repeat: old words would look current
            self.shadows.clear()
            self.step = 1
        state = np.zeros(CHECK_WORDS, np.int64)
        state[CheckWord.KEY] = NOTHING
        state[CheckWord.STEP] = (self.step - 2 * rounds) % STEPS
        self.launches += 1
        state[CheckWord.LAUNCH] = self.launches
        self.device.put((self.state, state))

    def end(self, rounds: int) -> Violation | None:
        """Return the violation of a launch that has ended after ``rounds`` rounds of claims."""
        self.running = False
        self.step += 2 + 2 * rounds
        w = self.device.to_host(self.state)
        if w[CheckWord.KEY] == NOTHING:
            return None
        kind, site, item, row, value, limit, other, other_site = (
            int(x) for x in w[CheckWord.KIND : CheckWord.OTHER_SITE + 1]
        )
        return Violation(Kind(kind), site, item, row, value, limit, other, other_site)


def error(unit: ir.Unit, v: Violation, objects: Any) -> CheckError:
    """Make the error of a violation, with the user's line and names."""
    sites = sites_of(unit)
    node = sites.nodes[v.site]
    text = _text(unit, sites, v, objects, LONGEST)
    if len(text) > LONGEST:
        text = _text(unit, sites, v, objects, SHORT)
    other = sites.nodes[v.other_site].pos if v.kind == Kind.RACE else None
    return CheckError(text[:LONGEST], node.pos, other)


def past_limit(unit: ir.Unit, place: int) -> CheckError:
    """Make the error of an item that allocates more than it has reserved."""
    return checked_sites.past_limit(ir.exceeds(unit)[place])


def queue_of(unit: ir.Unit, block: int, step: int) -> str:
    """The slot of the collection that a step runs on until it is empty; "" for other steps.

    Also "" for units with sections, where an item's bit of ``deferred`` is not at its position.
    """
    node = unit.blocks[block].steps[step]
    if abi.sections(unit) > 1:
        return ""
    return node.slot if isinstance(node, ir.Foreach) and node.until_empty else ""


def _text(unit: ir.Unit, sites: Sites, v: Violation, objects: Any, most: int) -> str:
    """Describe a violation; names of tables and columns have at most ``most`` characters."""

    def short(name: str) -> str:
        return name if len(name) <= most else f"{name[: most - 3]}..."

    def named(slot: str) -> str:
        obj = objects[slot]
        return short(obj.table.name if isinstance(obj, Set) else obj.name)

    (step,) = unit.blocks[0].steps
    assert isinstance(step, ir.Foreach)
    domain = objects[step.slot]

    def item(position: int) -> str:
        column = domain.columns.get("item")
        if isinstance(domain, Table) or len(domain.columns) > 1 or not column.ref:
            return f"{short(domain.name)}[{_id(domain, position)}]"
        row = int(domain.device.to_host(column.array[position : position + 1])[0])
        return f"{short(domain.target(column).name)}[{_id(domain.target(column), row)}]"

    if v.kind != Kind.RACE:
        return f"{problem(sites, v, named, short)} (item {item(v.item)})"
    nodes = sites.nodes[v.site], sites.nodes[v.other_site]
    place = next(n.place for n in nodes if isinstance(n, ir.Write))
    size = objects[place.slot].columns[place.column].size
    row, j = divmod(v.value, size or 1)
    row = _id(objects[place.slot], row)
    at = f"{named(place.slot)}[{row}].{short(place.column)}" + (f"[{j}]" if size else "")
    return race(sites, v, at, item(v.item), item(v.other))


def _id(store: Any, row: int) -> int:
    """The id of a row as users see it: for a point of a part, the id in the whole graph."""
    if store.graph is None or not store.graph.fixed or GLOBAL_ID not in store.columns:
        return row
    return int(store.device.to_host(store.columns[GLOBAL_ID].array[row : row + 1])[0])
