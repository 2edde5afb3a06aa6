"""A kernel as one CPU thread runs it that nobody disturbs: no atomics, no locked instruction.

That is the whole of a kernel whose last loop is shared: several threads run its parts, see
`shared_loops`.  A GPU has no use for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from morph.compiler.codegen.statements import Body
from morph.compiler.ir import nodes as ir
from morph.language.types import Handle

if TYPE_CHECKING:
    from morph.compiler.codegen.unit import Emission


def whole(e: Emission, f: ir.Func) -> type[Body]:
    """What prints the body of a function."""
    steps = [s for b in e.unit.blocks for s in b.steps if isinstance(s, ir.Foreach)]
    shared = all(s.balance != "thread" for s in steps if s.kernel == f.name)
    return Alone if f.name in e.spreads and shared else Body


class Alone(Body):
    """A body that one thread alone runs."""

    row = ""  # where the rows of the loop's points are told
    points = ""

    def _for(self, s: Any) -> None:
        if isinstance(s, ir.ForEdges):
            self.row = f"a.{self.names.prefix[s.graph]}_{s.direction}_offset"
            self.points = f"{s.graph}.points"
        super()._for(s)

    def load(self, p: ir.Place) -> str:
        """The value at a place: nobody else changes it."""
        kept, self.moving = self.moving, frozenset()
        text = super().load(p)
        self.moving = kept
        return text

    def _effect(self, e: ir.Expr) -> str:
        text = super()._effect(e)
        return text.replace(".at(", ".own(", 1) if isinstance(e, ir.Atomic) else text

    def _new(self, target: str, e: ir.New | ir.Add, made: str, ahead: str = "") -> None:
        """The row of what is added will soon be read, out of turn."""
        super()._new(target, e, made, ahead)
        item = dict(e.values).get("item")
        if isinstance(item, ir.Var) and item.type == Handle(self.points):
            self.put(f"fetch_ahead({self.row} + {self.expr(item)});")
