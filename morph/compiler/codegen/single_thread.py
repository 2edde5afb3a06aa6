"""The text of a kernel for a single CPU thread: no atomics, and all loads are barrier-stable.

It is printed for kernels whose last loop is shared.  Several threads, and GPUs, run the parts of
such a kernel instead, see `shared_loops`.
"""

from __future__ import annotations

from morph.compiler.codegen.statements import Body
from morph.compiler.ir import nodes as ir
from morph.language.types import Handle


class SingleThreaded(Body):
    """The body of a function that runs while no other thread does."""

    row = ""  # where the rows of the loop's points are described
    points = ""

    def _stmt_foredges(self, s: ir.ForEdges) -> None:
        self.row = f"a.{self.names.prefix[s.graph]}_{s.direction}_offset"
        self.points = f"{s.graph}.points"
        super()._stmt_foredges(s)

    def is_stable(self, p: ir.Place) -> bool:
        """Whether a place is barrier-stable: all are."""
        return True

    def target(self, e: ir.Atomic) -> str:
        """The place, for a plain read and write."""
        p = e.place
        return f"{self.names.column(p.slot, p.column)}.nonatomic({self.place_args(p)})"

    def _new(self, target: str, e: ir.New | ir.Add, made: str, ahead: str = "") -> None:
        """The row of a point that is added will soon be read, out of order."""
        super()._new(target, e, made, ahead)
        item = dict(e.values).get("item")
        if isinstance(item, ir.Var) and item.type == Handle(self.points):
            self.put(f"prefetch({self.row} + {self.expr(item)});")
