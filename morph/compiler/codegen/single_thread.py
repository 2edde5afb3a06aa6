"""A kernel as a CPU thread runs it that no other thread disturbs: without atomic instructions.

That is the whole of a kernel whose last loop is shared: several threads run its parts, see
`shared_loops`.  A GPU has no use for it.
"""

from __future__ import annotations

from morph.compiler.codegen.statements import Body
from morph.compiler.ir import nodes as ir
from morph.language.types import Handle


class SingleThreaded(Body):
    """A body that one thread runs alone."""

    row = ""  # where the rows of the loop's points are described
    points = ""

    def _stmt_foredges(self, s: ir.ForEdges) -> None:
        self.row = f"a.{self.names.prefix[s.graph]}_{s.direction}_offset"
        self.points = f"{s.graph}.points"
        super()._stmt_foredges(s)

    def is_stable(self, p: ir.Place) -> bool:
        """Every place is."""
        return True

    def target(self, e: ir.Atomic) -> str:
        """The place, for a plain read and write."""
        return f"{self.names.column(e.place.slot, e.place.column)}.own({self.place_args(e.place)})"

    def _new(self, target: str, e: ir.New | ir.Add, made: str, ahead: str = "") -> None:
        """The row of a point that is added will soon be read, out of order."""
        super()._new(target, e, made, ahead)
        item = dict(e.values).get("item")
        if isinstance(item, ir.Var) and item.type == Handle(self.points):
            self.put(f"prefetch({self.row} + {self.expr(item)});")
