"""Which entries of a shared loop do anything: what a GPU's warp asks before it runs them.

An entry that changes nothing costs a lane as much as one that does.  So the inside of the loop is
read once more without its effects: conditions stay, whatever has an effect becomes "yes", and an
atomic minimum of which only is asked whether it has lowered becomes a load and a comparison.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from morph.lang import ir
from morph.lang.types import BOOL

LOWERS = {"min": ">", "max": "<"}


def acts(body: ir.Body) -> ir.Body:
    """A body that returns true where ``body`` might do something; empty if it always might."""
    found = _acts(body)
    return found if _may_deny(found) else ()


def _may_deny(body: ir.Body) -> bool:
    """Whether such a body may say no: it does at its end."""
    for s in body:
        if isinstance(s, ir.Return):
            return isinstance(s.value, ir.Const) and not s.value.value
        if isinstance(s, ir.If) and not (_may_deny(s.then) or _may_deny(s.orelse)):
            return False
    return True


def _acts(body: ir.Body) -> ir.Body:
    done: list[ir.Stmt] = []
    k = 0
    while k < len(body):
        s = body[k]
        pair = _lowers(s, body[k + 1]) if k + 1 < len(body) else None
        if pair is not None:
            done.append(pair)
            k += 2
            continue
        if isinstance(s, ir.Return):
            done.append(ir.Return(value=ir.Const(value=False, type=BOOL, pos=s.pos), pos=s.pos))
            break
        if isinstance(s, ir.If) and _pure(s.cond):
            then, other = _acts(s.then), _acts(s.orelse)
            done.append(ir.If(cond=s.cond, then=then, orelse=other, pos=s.pos))
        elif isinstance(s, ir.Assign) and _pure(s.value):
            done.append(s)
        else:
            done.append(_yes(s.pos))
            break
        k += 1
    return tuple(done)


def _yes(pos: Any) -> ir.Return:
    return ir.Return(value=ir.Const(value=True, type=BOOL, pos=pos), pos=pos)


def _pure(e: ir.Expr) -> bool:
    return not any(isinstance(n, (*ir.EFFECTS, ir.Call, ir.TakeFlag)) for n in ir.walk(e))


def _lowers(s: ir.Stmt, then: ir.Stmt) -> ir.If | None:
    """``x = atomic_min(place, v)`` and ``if x > v:``, nothing else: whether the place is above."""
    if not (isinstance(s, ir.Assign) and isinstance(s.value, ir.Atomic)):
        return None
    atomic = s.value
    if atomic.op not in LOWERS or atomic.flag or not isinstance(then, ir.If) or then.orelse:
        return None
    cond = then.cond
    if not (
        isinstance(cond, ir.Compare)
        and cond.op == LOWERS[atomic.op]
        and isinstance(cond.x, ir.Var)
        and cond.x.name == s.name
        and len(atomic.args) == 1
        and _pure(cond.y)
        and _same(cond.y, atomic.args[0])
    ):
        return None
    there = ir.Load(place=atomic.place, type=atomic.type, pos=s.pos)
    asks = ir.Compare(op=cond.op, x=there, y=cond.y, type=cond.type, pos=cond.pos)
    return ir.If(cond=asks, then=(_yes(s.pos),), orelse=(), pos=then.pos)


def _same(x: Any, y: Any) -> bool:
    """Whether two expressions are alike, wherever they stand."""
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(map(_same, x, y))
    if not isinstance(x, ir.Node):
        return bool(x == y)
    if type(x) is not type(y):
        return False
    names = (f.name for f in fields(x) if f.name != "pos")
    return all(_same(getattr(x, n), getattr(y, n)) for n in names)
