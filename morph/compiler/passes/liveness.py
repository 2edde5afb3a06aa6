"""Live locals: which names a body reads before it assigns them, and which are constants."""

from __future__ import annotations

from morph.compiler.ir import nodes as ir


def read_first(body: ir.Body) -> set[str]:
    """The names that a body may read before it assigns them."""
    found: set[str] = set()
    _follow(body, set(), found)
    return found


def _follow(body: ir.Body, known: set[str], found: set[str]) -> set[str] | None:
    """Add names read before assignment; return the assigned names, None if control leaves."""

    def read(node: object) -> None:
        found.update(ir.used(ir.walk(node)) - known)

    for s in body:
        if isinstance(s, ir.If):
            read(s.cond)
            ends = [_follow(b, set(known), found) for b in (s.then, s.orelse)]
            reached = [e for e in ends if e is not None]
            if not reached:
                return None
            known = set.intersection(*reached)
        elif s.loop:
            read(tuple(ir.operands(s)))
            for b in ir.bodies(s):
                _follow(b, known | ir.bound([s]), found)
        else:
            read(s)
            if s.leaves:
                return None
            known |= ir.bound([s])
    return known


def constants(f: ir.Func) -> dict[str, ir.Const]:
    """The locals of a function whose only value is a constant, and the constant."""
    given: dict[str, list[ir.Expr]] = {}
    nodes = list(ir.walk(f))
    for n in nodes:
        if isinstance(n, ir.Assign):
            given.setdefault(n.name, []).append(n.value)
    taken = {name for name, _ in f.params}
    taken |= ir.bound(n for n in nodes if not isinstance(n, ir.Assign))
    once = {name: _constant(x) for name, (x, *others) in given.items() if not others}
    return {name: x for name, x in once.items() if x is not None and name not in taken}


def _constant(x: ir.Expr) -> ir.Const | None:
    return x if isinstance(x, ir.Const) else _constant(x.x) if isinstance(x, ir.Cast) else None


def named(body: ir.Body) -> set[str]:
    """The locals that a body reads or assigns."""
    nodes = list(ir.walk(body))
    return ir.bound(nodes) | ir.used(nodes)
