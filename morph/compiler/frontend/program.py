"""From a ``@program`` to blocks: one launch instead of one for every ``foreach``.

There is one block for each program point: the statements that remain.  Inside a block a swap of
collections changes the meanings of names; at its end the names have their initial meanings, and the
collections have changed places.  Where collections cannot (see `double_buffering`), a program point
includes the meanings of the names, so that each block knows its collections and no swap remains.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any, NamedTuple

from morph.compiler.frontend.assignments import assign_name
from morph.compiler.frontend.branches import condition
from morph.compiler.frontend.builder import Builder
from morph.compiler.frontend.functions import Params, retyped
from morph.compiler.frontend.loops import no_else
from morph.compiler.frontend.scope import Flow
from morph.compiler.frontend.statements import check_statement
from morph.compiler.frontend.sections import is_sections, runs
from morph.compiler.frontend.steps import PROGRAM, ProgramContext, Step
from morph.compiler.frontend.values import ObjectValue, default
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import user_name
from morph.compiler.passes.double_buffering import Permutation, Unlike, check_fit, permutations
from morph.language.definition import Definition
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import I32, Handle, Nothing, Scalar, Type

RESULT = "result_"
Point = tuple[Any, ...]  # what remains: (statements, index) or a loop, innermost first


class Blocks(NamedTuple):
    """A program as it runs: state variables, blocks (the first is the entry), swapped bindings."""

    state: tuple[tuple[str, Type], ...]
    blocks: tuple[ir.Block, ...]
    permutations: tuple[Permutation, ...]


def split_into_blocks(builder: Builder, definition: Definition, params: Params) -> Blocks:
    """Check a program and cut it into blocks."""

    def program(hints: dict[str, Type], follow: bool) -> Blocks:
        return _Blocks(
            ProgramContext(
                builder=builder,
                definition=definition,
                rules=PROGRAM,
                params=dict(params),
                hints=hints,
                follow=follow,
            )  # fmt: skip
        ).program()

    try:
        return retyped(lambda hints: program(hints, False))
    except Unlike:
        return retyped(lambda hints: program(hints, True))


class _Blocks:
    """The blocks of a program; with ``follow``, one for each meaning of the names."""

    def __init__(self, c: ProgramContext) -> None:
        self.c, self.tree = c, c.source.tree
        self.blocks: list[ir.Block | None] = []
        self.numbers: dict[Any, int] = {}  # of the block of each program point
        self.flows: dict[int, Flow] = {}
        self.queue: list[tuple[int, Point, Params]] = []
        self.bodies: dict[int, tuple[ast.stmt, ...]] = {}
        self.open = False  # whether some path ends without a result

    def program(self) -> Blocks:
        """Check all of it."""
        c = self.c
        assert isinstance(self.tree, ast.FunctionDef)
        self.point(((tuple(self.tree.body), 0),), dict(c.params), c.path())
        first = self.read_arguments()
        while self.queue:
            index, point, params = self.queue.pop()
            c.params, c.flow, c.out = dict(params), self.flows[index].copy(), []
            self.blocks[index] = self.block(point)
        blocks = self.entered(first, [b for b in self.blocks if b is not None])
        if RESULT in c.locals and self.open:
            problem = f"{c.source.name!r} may end without a value"
            reject(problem, c.pos(self.tree), "return a value on every path, or on none")
        state, bindings = self.state(blocks), permutations(tuple(blocks))
        if bindings:
            check_fit(bindings, state, c.builder.stores, c.builder.captured)
        return Blocks(tuple(state.items()), tuple(blocks), bindings)

    def read_arguments(self) -> tuple[Step, ...]:
        """The steps that give the parameters their values."""
        c, pos = self.c, self.c.pos(self.tree)
        for name, p in c.params.items():
            if isinstance(p, Scalar | Handle):
                kind = p if isinstance(p, Scalar) else I32
                x: ir.Expr = ir.Var(name=f"{name}_arg_", type=kind, pos=pos)
                x = x if isinstance(p, Scalar) else ir.Cast(x=x, type=p, pos=pos)
                c.out.append(ir.Assign(name=name, value=x, pos=pos))
        return c.steps()

    def entered(self, first: tuple[Step, ...], blocks: list[ir.Block]) -> list[ir.Block]:
        """The blocks with the steps ``first`` at the entry, in a block of its own if needed."""
        entry, *others = blocks
        if not first or all(0 not in (b.goto, b.orelse) for b in blocks):
            return [replace(entry, steps=(*first, *entry.steps)), *others]
        shifted = [
            replace(b, goto=b.goto + (b.goto >= 0), orelse=b.orelse + (b.orelse >= 0))
            for b in blocks
        ]
        return [ir.Block(steps=first, cond=None, goto=1, pos=entry.pos), *shifted]

    def state(self, blocks: list[ir.Block]) -> dict[str, Type]:
        """The variables of the program."""
        nodes = list(ir.walk(tuple(blocks)))
        used = {n.name for n in nodes if isinstance(n, ir.Assign | ir.Var)}
        used |= {n.var for n in nodes if isinstance(n, ir.TakeFlag)}
        state = {n: t for n, t in self.c.locals.items() if n in used}
        for n in nodes:
            if isinstance(n, ir.Assign) and not isinstance(t := state[n.name], Scalar | Handle):
                kind = "only ever None" if isinstance(t, Nothing) else f"a {t}"
                problem = f"{user_name(n.name)!r} is {kind}; a program keeps numbers and rows"
                reject(problem, n.pos, "use a @kernel")
        return state

    # --- program points --------------------------------------------------------------------------

    def point(self, point: Point, params: Params, flow: Flow) -> int:
        """The number of the block of a program point, which may have to be checked (again)."""
        if not self.c.follow:  # names have their initial meanings again
            objects = {n: p for n, p in self.c.declared.items() if isinstance(p, ObjectValue)}
            params = {**params, **objects}
        while point and isinstance(point[0], tuple) and point[0][1] == len(point[0][0]):
            point = point[1:]
        if not point:
            self.open = True
            return -1
        binding = tuple((n, p.type.slot) for n, p in params.items() if isinstance(p, ObjectValue))
        key = (tuple((id(p[0]), p[1]) if isinstance(p, tuple) else id(p) for p in point), binding)
        if key not in self.numbers:
            self.numbers[key] = index = len(self.blocks)
            self.blocks.append(None)
            self.flows[index] = flow.copy()
            self.queue.append((index, point, dict(params)))
            return index
        index = self.numbers[key]
        common = self.flows[index].assigned & flow.assigned
        if common != self.flows[index].assigned:  # less is known here than on the first path
            self.flows[index] = Flow(common)
            self.queue.append((index, point, dict(params)))
        return index

    def swap(self) -> tuple[tuple[str, str], ...]:
        """Which collections have changed places since the block began."""
        now: dict[str, str] = {}
        if self.c.follow:
            return ()
        for n, old in self.c.declared.items():
            new = self.c.params[n]
            if isinstance(old, ObjectValue) and isinstance(new, ObjectValue):
                if now.setdefault(old.type.slot, new.type.slot) != new.type.slot:
                    raise Unlike  # two names were one collection, and are not any more
        return tuple((a, b) for a, b in now.items() if a != b)

    def jump(self, point: Point, pos: Pos) -> ir.Block:
        """A block that ends here and goes on at ``point``."""
        goto = self.point(point, self.c.params, self.c.path())
        return ir.Block(steps=self.c.steps(), cond=None, goto=goto, swap=self.swap(), pos=pos)

    def branch(self, test: ast.expr, yes: Point, no: Point, pos: Pos) -> ir.Block:
        """A block that ends here and goes on at ``yes`` if the test is true, else at ``no``."""
        c = self.c
        cond = condition(c, test)
        if isinstance(cond, ir.Const):
            return self.jump(yes if cond.value else no, pos)
        steps = c.steps()
        orelse = self.point(no, c.params, c.path())
        goto = self.point(yes, c.params, c.path())
        return ir.Block(steps=steps, cond=cond, goto=goto, orelse=orelse, swap=self.swap(), pos=pos)

    def end(self, pos: Pos) -> ir.Block:
        """A block that ends the program."""
        return ir.Block(steps=self.c.steps(), cond=None, goto=-1, pos=pos)

    # --- blocks ----------------------------------------------------------------------------------

    def block(self, point: Point) -> ir.Block:
        """The block that begins at a program point."""
        c = self.c
        while point:
            head, rest = point[0], point[1:]
            if isinstance(head, ast.While):
                if c.out:
                    return self.jump(point, c.pos(head))
                return self.branch(head.test, self.into(head.body, point), rest, c.pos(head))
            body, i = head
            if i == len(body):
                point = rest
                if point and isinstance(point[0], ast.While):
                    return self.jump(point, c.pos(point[0]))
                continue
            after = ((body, i + 1), *rest)
            block = self.ended(body[i], point, after)
            if block is not None:
                return block
            check_statement(c, body[i])
            point = after
        self.open = True
        return self.end(c.pos(self.tree))

    def ended(self, stmt: ast.stmt, point: Point, after: Point) -> ir.Block | None:
        """The block, if a statement ends it."""
        c, pos = self.c, self.c.pos(stmt)
        match stmt:
            case ast.While():
                no_else(c, stmt)
                return self.jump((stmt, *after), pos)
            case ast.If():
                yes, no = self.into(stmt.body, after), self.into(stmt.orelse, after)
                return self.branch(stmt.test, yes, no, pos)
            case ast.Break() | ast.Continue():
                while not isinstance(point[0], ast.While):
                    point = point[1:]  # Python's own parser ensures that a loop encloses it
                return self.jump(point[1:] if isinstance(stmt, ast.Break) else point, pos)
            case ast.Return():
                self.result(stmt)
                return self.end(pos)
        steps = runs(c, stmt) or is_sections(c, stmt)
        return self.jump(point, pos) if steps and self.swap() else None

    def into(self, body: list[ast.stmt], after: Point) -> Point:
        """The point before the first statement of a body."""
        return ((self.bodies.setdefault(id(body), tuple(body)), 0), *after)

    def result(self, stmt: ast.Return) -> None:
        """``return``, with or without a number."""
        c, pos = self.c, self.c.pos(stmt)
        x = c.expr(stmt.value) if stmt.value is not None else None
        if x is None or isinstance(x.type, Nothing):
            self.open = True
            return
        if not isinstance(default(x.type), Scalar):
            reject("a program returns a number or nothing", pos, "write the rest to columns")
        assign_name(c, RESULT, x, pos)
