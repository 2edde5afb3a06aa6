"""Simplification of the blocks of a program: fewer variables, and fewer jumps between barriers.

Inlining a call of a program assigns arguments to variables and adds blocks without barriers.  Each
thread of the launch executes these, which takes as long on a GPU as a small step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from morph.compiler.ir import nodes as ir


def simplify(blocks: Sequence[ir.Block], results: frozenset[str]) -> list[ir.Block]:
    """Equivalent blocks; ``results`` are the variables that are read after the program."""
    done = list(blocks)
    while values := _copies(done):
        done = [_folded(_substituted(b, values)) for b in done]
    return _merged(_threaded(_without_unused(done, results)))


def _copies(blocks: Sequence[ir.Block]) -> dict[str, ir.Expr]:
    """Variables whose assignments all have one value: a constant, or a variable assigned once.

    A variable is assigned before each use, so such a copy is equal to its source wherever it is
    used.
    """
    nodes = list(ir.walk(tuple(blocks)))
    times = Counter(name for n in nodes for name in ir.bound((n,)))
    values: dict[str, list[ir.Expr]] = {}
    for n in nodes:
        if isinstance(n, ir.Assign):
            values.setdefault(n.name, []).append(replace(n.value, pos=n.pos))
    found: dict[str, ir.Expr] = {}
    for name in sorted(ir.used(nodes) & values.keys()):
        first, *others = values[name]
        same = len(others) + 1 == times[name] and all(_alike(first, x) for x in others)
        source = isinstance(first, ir.Var) and times[first.name] <= 1 and first.name not in found
        if same and (source or isinstance(first, ir.Const)):
            found[name] = first
    return {n: x for n, x in found.items() if not isinstance(x, ir.Var) or x.name not in found}


def _alike(x: ir.Expr, y: ir.Expr) -> bool:
    """Whether two expressions are identical; 0.0 and -0.0 are equal, but not identical."""
    x = replace(x, pos=y.pos)
    return x == y and repr(x) == repr(y)


def _substituted(block: ir.Block, values: Mapping[str, ir.Expr]) -> ir.Block:
    def value(n: ir.Node) -> ir.Node | None:
        return values.get(n.name) if isinstance(n, ir.Var) else None

    done: ir.Block = ir.rewritten(block, value)
    return done


def _folded(block: ir.Block) -> ir.Block:
    """The block with an unconditional jump, if its condition is a constant."""
    if not isinstance(block.cond, ir.Const):
        return block
    goto = block.goto if block.cond.value else block.orelse
    return replace(block, cond=None, goto=goto, orelse=-1)


def _without_unused(blocks: list[ir.Block], results: frozenset[str]) -> list[ir.Block]:
    """The blocks without assignments of unused variables."""
    while True:
        used = ir.used(ir.walk(tuple(blocks))) | results
        kept = [
            replace(b, steps=tuple(s for s in b.steps if not _is_unused(s, used))) for b in blocks
        ]
        if kept == blocks:
            return kept
        blocks = kept


def _is_unused(step: ir.Node, used: set[str]) -> bool:
    if not isinstance(step, ir.Assign) or step.name in used:
        return False
    return not any(n.effect or isinstance(n, ir.Call) for n in ir.walk(step.value))


def _threaded(blocks: list[ir.Block]) -> list[ir.Block]:
    """The blocks with jumps to the final target of chains of jumps."""

    def target(number: int, passed: frozenset[int] = frozenset()) -> int:
        if number < 0 or number in passed:
            return number
        b = blocks[number]
        only_jumps = b.cond is None and not (b.steps or b.swap or b.saves or b.restores)
        return target(b.goto, passed | {number}) if only_jumps else number

    return [replace(b, goto=target(b.goto), orelse=target(b.orelse)) for b in blocks]


def _merged(blocks: list[ir.Block]) -> list[ir.Block]:
    """The reachable blocks, each merged with its successor if that has no other predecessor."""
    done = dict(enumerate(blocks))
    while True:
        _drop_unreachable(done)
        jumps = Counter(to for b in done.values() for to in _targets(b))
        pair = next(((i, b.goto) for i, b in done.items() if _joins(i, done, jumps)), None)
        if pair is None:
            break
        first, second = done[pair[0]], done.pop(pair[1])
        saves = first.saves or second.saves
        steps = first.steps + second.steps
        done[pair[0]] = replace(second, steps=steps, saves=saves, pos=first.pos)
    number = {old: new for new, old in enumerate(done)} | {-1: -1}
    return [replace(b, goto=number[b.goto], orelse=number[b.orelse]) for b in done.values()]


def _joins(number: int, blocks: Mapping[int, ir.Block], jumps: Counter[int]) -> bool:
    b = blocks[number]
    if b.cond is not None or b.goto in (-1, 0, number) or jumps[b.goto] > 1:
        return False
    then = blocks[b.goto]
    swaps = then.swap or then.saves or then.restores
    return not (b.swap or b.restores or (b.saves and swaps))


def _targets(block: ir.Block) -> tuple[int, ...]:
    """The successors of a block."""
    both = (block.goto,) if block.cond is None else (block.goto, block.orelse)
    return tuple(to for to in both if to >= 0)


def _drop_unreachable(blocks: dict[int, ir.Block]) -> None:
    reached, todo = {0}, [0]
    while todo:
        for to in _targets(blocks[todo.pop()]):
            if to not in reached:
                reached.add(to)
                todo.append(to)
    for number in [i for i in blocks if i not in reached]:
        del blocks[number]
