"""The unit under construction: its objects, functions and compiled-in values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from morph.compiler.frontend.dependencies import Dependencies
from morph.compiler.frontend.values import ObjectValue, Value
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import ir_name
from morph.compiler.passes.effects import Effects
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import Column, GraphInfo, Handle, Object, Scalar, Store, Type


class Builder:
    """Collects the functions of one unit.

    Parameters
    ----------
    stores, graphs : dict
        The objects by slot; ``capture`` may add to them.
    find : callable
        Returns the slot of a host object that a function captured, or None.
    reserve : callable
        Returns an unused slot, named after a name.
    """

    def __init__(
        self,
        stores: dict[str, Store],
        graphs: dict[str, GraphInfo],
        find: Callable[[Any, str], Object | None] = lambda obj, name: None,
        reserve: Callable[[str], str] = lambda name: name,
    ) -> None:
        self.stores, self.graphs, self.find, self.reserve = stores, graphs, find, reserve
        self.made: dict[Any, str] = {}  # slots of scalars that a program creates, by statement
        self.captured: set[str] = set()  # slots of captured objects
        self.arrays: set[str] = set()  # slots of NumPy arrays
        self.funcs: dict[str, ir.Func] = {}
        self.effects = Effects(self.funcs)
        self.closures: dict[str, tuple[Scalar, str]] = {}  # parameters read from closures
        self.dependencies = Dependencies()
        self.inline = False  # whether captured numbers become constants, as in programs
        self.specialised: dict[Any, ir.Func] = {}  # by definition and types of arguments
        self.active: list[Any] = []  # keys of the functions that are being checked
        self._names: set[str] = set()

    def capture(self, obj: Any, name: str) -> Object | None:
        """Return the slot of a captured host object; None for other Python objects."""
        t = self.find(obj, name)
        if t is not None:
            self.captured.add(t.slot)
            self.arrays |= {t.slot} if t.kind == "array" else set()
        return t

    def make(self, name: str, statement: Any, columns: tuple[Column, ...]) -> Object:
        """The scalars that a statement of a program creates."""
        if statement not in self.made:
            self.made[statement] = self.reserve(name)
        slot = self.made[statement]
        self.stores[slot] = Store(slot, "table", columns)
        return Object("scalars", slot)

    def writable(self, place: ir.Place, pos: Pos) -> ir.Place:
        """Check that an item may change a place, and return it."""
        if place.slot in self.arrays:
            reject("kernels only read NumPy arrays", pos, "keep what changes in a column")
        return place

    def item_type(self, slot: str) -> Type:
        """The type of the variable of a loop over a table or collection."""
        store = self.stores[slot]
        return store.columns[0].elem if store.lists_rows else Handle(slot)

    def domain(self, x: Value) -> Value:
        """The object that a loop over ``x`` iterates over: for a set or scalars, their table."""
        if not isinstance(x, ObjectValue) or x.type.kind not in ("set", "scalars"):
            return x
        table = self.stores[x.type.slot].of or x.type.slot
        return ObjectValue(x.pos, Object("table", table))

    def bound_type(self, item: Type) -> Type:
        """The type of an item as users see it: for a collection of numbers, the number."""
        listed = self.stores[item.slot].listed if isinstance(item, Handle) else None
        return listed if isinstance(listed, Scalar) else item

    def bound(self, item: ir.Expr) -> ir.Expr:
        """An item as users see it."""
        t = self.bound_type(item.type)
        if t == item.type:
            return item
        assert isinstance(item.type, Handle)
        slot = item.type.slot
        place = ir.Place(slot=slot, column="item", row=item, index=None, type=t, pos=item.pos)
        return ir.Load(place=place, type=t, pos=item.pos)

    def unique(self, name: str) -> str:
        """A name that no other function of the unit has."""
        base = name = ir_name(name)
        n = 1
        while name in self._names:
            n += 1
            name = f"{base}_{n}"
        self._names.add(name)
        return name
