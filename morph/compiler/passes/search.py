"""Loops that search for the first edge with a property.

``for t in p.outnbrs: if t.seen: ...; break`` tests one edge after another.  The test has no side
effect, so a GPU's thread may test several edges at once: their loads are then in flight together.
"""

from __future__ import annotations

from morph.compiler.ir import nodes as ir

PURE = (
    ir.Const, ir.Var, ir.Load, ir.Place, ir.Unary, ir.Binary, ir.Compare, ir.Logic, ir.Cast,
    ir.Select,
)  # fmt: skip


def condition(s: ir.ForEdges) -> ir.If | None:
    """The test of a loop that does nothing else, and ends at the first edge that passes."""
    plain = not s.reverse and s.skip is None and s.start is None and s.direction != "all"
    if not plain or len(s.body) != 1 or not isinstance(test := s.body[0], ir.If):
        return None
    ends = bool(test.then) and isinstance(test.then[-1], ir.Break) and not test.orelse
    nodes = list(ir.walk(test.cond))
    places = [n for n in nodes if isinstance(n, ir.Place)]
    rows = [n.row for n in places]  # the rows of all edges exist
    reads = any(isinstance(r, ir.Var) and r.name in (s.edge, s.var) for r in rows)
    pure = all(isinstance(n, PURE) for n in nodes) and all(isinstance(r, ir.Var) for r in rows)
    parts = [n for p in places for n in ir.walk(p.index)]  # a later edge may be no index
    pure = pure and not any(isinstance(n, ir.Load) for n in parts)
    pure = pure and not any(isinstance(n, ir.Var) and n.name in (s.edge, s.var) for n in parts)
    inner = any(isinstance(n, ir.Break | ir.Continue) for n in ir.walk(test.then[:-1]))
    return test if ends and reads and pure and not inner else None
