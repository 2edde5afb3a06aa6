"""One unit being built: its objects, its functions, and the values that were compiled in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from morph.compiler.frontend.dependencies import Dependencies
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import ir_name
from morph.compiler.passes.effects import Effects
from morph.language.types import GraphInfo, Handle, Object, Scalar, Store, Type


class Builder:
    """Collects the functions of one unit.

    Parameters
    ----------
    stores, graphs : dict
        The objects by slot; ``capture`` may add to them.
    find : callable
        Gives the slot of a host object that a function captured, or None.
    """

    def __init__(
        self,
        stores: dict[str, Store],
        graphs: dict[str, GraphInfo],
        find: Callable[[Any, str], Object | None] = lambda obj, name: None,
    ) -> None:
        self.stores, self.graphs, self.find = stores, graphs, find
        self.captured: set[str] = set()  # slots of objects that functions captured
        self.funcs: dict[str, ir.Func] = {}
        self.effects = Effects(self.funcs)
        self.closures: dict[str, tuple[Scalar, str]] = {}  # parameters read from closures
        self.dependencies = Dependencies()
        self.inline = False  # compile closures in: a program has no place to read them from
        self.specialised: dict[Any, ir.Func] = {}  # by definition and types of arguments
        self.active: list[Any] = []  # keys of the functions that are being checked
        self._names: set[str] = set()

    def capture(self, obj: Any, name: str) -> Object | None:
        """Give the slot of a host object that a function captured, None if it is none."""
        t = self.find(obj, name)
        if t is not None:
            self.captured.add(t.slot)
        return t

    def item_type(self, slot: str) -> Type:
        """The type of the variable of a loop over a table or collection."""
        item = self.stores[slot].column("item")
        columns = len(self.stores[slot].columns)
        if self.stores[slot].kind == "collection" and item is not None and columns == 1:
            return item.elem
        return Handle(slot)

    def unique(self, name: str) -> str:
        """A name that no other function of the unit has."""
        base = name = ir_name(name)
        n = 1
        while name in self._names:
            n += 1
            name = f"{base}_{n}"
        self._names.add(name)
        return name
