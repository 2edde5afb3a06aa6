"""A loop that looks for the first edge for which something holds, as C++.

``for t in p.outnbrs: if t.seen: ...; break`` asks of its edges one after another.  What it asks has
no effect, so a GPU's thread may ask of several at once: their loads are under way together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from morph.compiler.ir import nodes as ir

if TYPE_CHECKING:
    from morph.compiler.codegen.statements import Body

PURE = (
    ir.Const, ir.Var, ir.Load, ir.Place, ir.Unary, ir.Binary, ir.Compare, ir.Logic, ir.Cast,
    ir.Select,
)  # fmt: skip


def sought(s: ir.ForEdges) -> ir.If | None:
    """The question of a loop that does no more than ask it, and ends where it is answered."""
    plain = not s.reverse and s.skip is None and s.start is None and s.direction != "all"
    if not plain or len(s.body) != 1 or not isinstance(test := s.body[0], ir.If):
        return None
    ends = bool(test.then) and isinstance(test.then[-1], ir.Break) and not test.orelse
    nodes = list(ir.walk(test.cond))
    places = [n for n in nodes if isinstance(n, ir.Place)]
    rows = [n.row for n in places]  # these are there, whoever asks
    asks = any(isinstance(r, ir.Var) and r.name in (s.edge, s.var) for r in rows)
    calm = all(isinstance(n, PURE) for n in nodes) and all(isinstance(r, ir.Var) for r in rows)
    parts = [n for p in places for n in ir.walk(p.index)]  # an edge behind may be no index
    calm = calm and not any(isinstance(n, ir.Load) for n in parts)
    calm = calm and not any(isinstance(n, ir.Var) and n.name in (s.edge, s.var) for n in parts)
    inner = any(isinstance(n, ir.Break | ir.Continue) for n in ir.walk(test.then[:-1]))
    return test if ends and asks and calm and not inner else None


def find(b: Body, s: ir.ForEdges, test: ir.If) -> bool:
    """Print such a loop, if its locals are plain ones; whether they are."""
    n, edge, var = b.names, b.resolve(s.edge), b.resolve(s.var) if s.var else "_"
    if not (edge.isidentifier() and var.isidentifier()):
        return False
    point = b.expr(s.point)
    if not isinstance(s.point, ir.Var | ir.Const):
        whole, point = point, b.temp("p")
        b.put(f"const i32 {point} = {whole};")
    row = f"a.{b.names.prefix[s.graph]}_{s.direction}_offset, {point}"
    first, last, k = b.temp("b"), b.temp("e"), b.temp("k")
    b.put(f"const i64 {first} = row_begin({row}), {last} = row_end({row});")
    given = n.edge(s.graph, s.direction, "k")
    end = n.end(s.graph, s.direction, "k", "edge") if s.var else "-1"
    b.put(f"i64 {k} = find_first({first}, {last}, [&](i64 k) {{")
    b.put(f"    i32 edge = {given};")
    b.put(f"    return Reached{{edge, {end}}};")
    b.put(f"}}, [&](i32 {edge}, i32 {var}) {{")
    b.place(test.cond.pos)
    b.put(f"    return {b.expr(test.cond)};")
    b.put("});")
    found = f"{k}found_"
    b.put(f"const bool {found} = {k} < {last};")
    b.put(f"if (!{found}) {k} = {last} - 1;  // the loop's locals are then of the last")
    b.put(f"if ({first} <= {k}) {{")
    b.put(f"    {edge} = {n.edge(s.graph, s.direction, k)};")
    if s.var:
        b.put(f"    {var} = {n.end(s.graph, s.direction, k, edge)};")
    b.put("}")
    b.block(f"if ({found})", test.then[:-1])
    return True
