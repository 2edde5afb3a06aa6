"""Splits a ``@program`` into blocks: one launch instead of one for each ``foreach``.

There is one block for each program point: the remaining statements.  Inside a block a swap of
collections changes the bindings of names; at its end the names have their initial bindings, and the
buffers of the collections are exchanged.  Where this is impossible (see `double_buffering`), a
program point includes the bindings of names, so that blocks are duplicated and no swap remains.

A call of a program is inlined: a program point is a stack, in which a `Frame` separates the
statements of the callee from those of its caller.  A block that returns restores the buffer
permutation of the call, so that swaps of the callee do not change the bindings of the caller.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from morph.compiler.frontend.arguments import no_keywords
from morph.compiler.frontend.assignments import assign_name
from morph.compiler.frontend.branches import condition
from morph.compiler.frontend.builder import Builder
from morph.compiler.frontend.calls import callee
from morph.compiler.frontend.functions import (
    Params,
    check_arguments,
    fix_statics,
    params_of,
    retyped,
)
from morph.compiler.frontend.loops import no_else
from morph.compiler.frontend.scope import Flow
from morph.compiler.frontend.sections import is_foreach, is_sections
from morph.compiler.frontend.statements import check_statement
from morph.compiler.frontend.steps import PROGRAM, ProgramContext, Step
from morph.compiler.frontend.values import ObjectValue, Value, default, flattened
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import inlined_name, user_name
from morph.compiler.passes.double_buffering import Permutation, Unlike, check_fit, permutations
from morph.compiler.passes.merging import simplify
from morph.compiler.passes.outline import RESULT as RESULT
from morph.language.definition import Definition, definition_of
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import I32, Handle, Nothing, Object, Scalar, Type

Point = tuple[Any, ...]  # (statements, index), loops and Frames that remain, innermost first


class Blocks(NamedTuple):
    """State variables, blocks (the first is the entry), and permutations of a program."""

    state: tuple[tuple[str, Type], ...]
    blocks: tuple[ir.Block, ...]
    permutations: tuple[Permutation, ...]


@dataclass(slots=True, eq=False)
class Frame:
    """One program of the stack: the whole program, or a callee with its names made unique."""

    definition: Definition
    declared: Params  # the initial bindings of names
    stored: frozenset[str]
    result: str = RESULT  # the variable that holds the value returned
    received: tuple[ast.stmt, ...] = ()  # the caller's statement, with `result` for the call
    caller: Params | None = None  # the bindings of the caller's names
    buffers: str = ""  # the variable that holds the caller's buffer permutation
    swaps: bool = False
    open: bool = False  # whether some path ends without a result


def frame_of(point: Point) -> Frame:
    """The innermost frame of a point."""
    return next(x for x in point if isinstance(x, Frame))


def binding_of(params: Params) -> tuple[tuple[str, Object], ...]:
    """The objects that names denote."""
    return tuple((n, p.type) for n, p in params.items() if isinstance(p, ObjectValue))


def inlined(definition: Definition, number: int) -> Definition:
    """A program with its parameters and locals renamed for one call."""
    tree = copy.deepcopy(definition.source.tree)
    source = definition.source
    names = definition.stored | {*source.params, *([source.more] if source.more else [])}
    _Rename(names, number).visit(tree)
    return Definition(definition.kind, replace(definition.source, tree=tree))


class _Rename(ast.NodeTransformer):
    def __init__(self, names: frozenset[str], number: int) -> None:
        self.names, self.number = names, number

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in self.names:
            node.id = inlined_name(node.id, self.number)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        for a in (*node.args.args, *([node.args.vararg] if node.args.vararg else [])):
            a.arg = inlined_name(a.arg, self.number)
        node.body = [self.visit(s) for s in node.body]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        inner = _Rename(self.names - {a.arg for a in node.args.args}, self.number)
        node.body = inner.visit(node.body)
        return node


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
    """The blocks of a program; with ``follow``, one for each binding of the names."""

    def __init__(self, c: ProgramContext) -> None:
        self.c = c
        self.blocks: list[ir.Block | None] = []
        self.numbers: dict[Any, int] = {}  # the number of the block of each program point
        self.flows: dict[int, Flow] = {}
        self.queue: list[tuple[int, Point, Params]] = []
        self.bodies: dict[int, tuple[ast.stmt, ...]] = {}
        self.program_frame = self.frame = Frame(c.definition, dict(c.params), c.stored)
        self.frames: dict[Any, Frame] = {None: self.frame}  # of each call and its caller's names

    def program(self) -> Blocks:
        """Check the whole program."""
        c, frame = self.c, self.frame
        self.point(self.start(frame), dict(c.params), c.path())
        first = self.read_arguments()
        while self.queue:
            index, point, params = self.queue.pop()
            self.frame = frame_of(point)
            c.definition, c.stored = self.frame.definition, self.frame.stored
            c.declared = self.frame.declared
            c.params, c.flow, c.out = dict(params), self.flows[index].copy(), []
            self.blocks[index] = self.block(point)
        blocks = self.entered(first, [b for b in self.blocks if b is not None])
        for frame in self.frames.values():
            if frame.result in c.locals and frame.open:
                source = frame.definition.source
                problem = f"{source.name!r} may end without a value"
                hint = "return a value on every path, or on none"
                reject(problem, source.pos(source.tree), hint)
        unchanged = {f.buffers for f in self.frames.values() if not f.swaps}
        blocks = [
            replace(b, saves="" if b.saves in unchanged else b.saves,
                    restores="" if b.restores in unchanged else b.restores)
            for b in blocks
        ]  # fmt: skip
        self.state(blocks)  # refuses variables of other types, used or not
        blocks = simplify(blocks, frozenset({RESULT}))
        state, bindings = self.state(blocks), permutations(tuple(blocks))
        if bindings:
            check_fit(bindings, state, c.builder.stores, c.builder.captured)
        return Blocks(tuple(state.items()), tuple(blocks), bindings)

    def start(self, frame: Frame) -> Point:
        """The point at which a program begins."""
        tree = frame.definition.source.tree
        assert isinstance(tree, ast.FunctionDef)
        return (self.bodies.setdefault(id(tree.body), tuple(tree.body)), 0), frame

    def read_arguments(self) -> tuple[Step, ...]:
        """The steps that assign the parameters."""
        c, pos = self.c, self.c.pos(self.c.source.tree)
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
        used |= {b.saves for b in blocks}
        state = {n: t for n, t in self.c.locals.items() if n in used}
        for n in nodes:
            if isinstance(n, ir.Assign) and not isinstance(t := state[n.name], Scalar | Handle):
                kind = "only ever None" if isinstance(t, Nothing) else f"a {t}"
                problem = f"{user_name(n.name)!r} is {kind}; a program keeps numbers and rows"
                reject(problem, n.pos, "use a @kernel")
        return state

    # --- program points --------------------------------------------------------------------------

    def point(self, point: Point, params: Params, flow: Flow) -> int:
        """The number of the block of a program point; enqueue the block if it must be checked."""
        if not self.c.follow:  # after the jump names have their initial bindings
            declared = frame_of(point).declared
            objects = {n: p for n, p in declared.items() if isinstance(p, ObjectValue)}
            params = {**params, **objects}
        while isinstance(point[0], tuple) and point[0][1] == len(point[0][0]):
            point = point[1:]
        if point[0] is self.program_frame:
            self.program_frame.open = True
            return -1
        binding = binding_of(params)
        key = (tuple((id(p[0]), p[1]) if isinstance(p, tuple) else id(p) for p in point), binding)
        if key not in self.numbers:
            self.numbers[key] = index = len(self.blocks)
            self.blocks.append(None)
            self.flows[index] = flow.copy()
            self.queue.append((index, point, dict(params)))
            return index
        index = self.numbers[key]
        common = self.flows[index].assigned & flow.assigned
        if common != self.flows[index].assigned:  # fewer names are assigned than on the first path
            self.flows[index] = Flow(common)
            self.queue.append((index, point, dict(params)))
        return index

    def swap(self) -> tuple[tuple[str, str], ...]:
        """The collections that were swapped since the begin of the block."""
        found: dict[str, str] = {}
        if self.c.follow:
            return ()
        for n, old in self.frame.declared.items():
            new = self.c.params[n]
            if isinstance(old, ObjectValue) and isinstance(new, ObjectValue):
                if found.setdefault(old.type.slot, new.type.slot) != new.type.slot:
                    raise Unlike  # two names of one collection have different bindings now
        swapped = tuple((a, b) for a, b in found.items() if a != b)
        self.frame.swaps |= bool(swapped)
        return swapped

    def jump(self, point: Point, pos: Pos) -> ir.Block:
        """A block that ends here, and jumps to ``point``."""
        goto = self.point(point, self.c.params, self.c.path())
        return ir.Block(steps=self.c.steps(), cond=None, goto=goto, swap=self.swap(), pos=pos)

    def branch(self, test: ast.expr, yes: Point, no: Point, pos: Pos) -> ir.Block:
        """A block that ends here, and jumps to ``yes`` if the test is true, else to ``no``."""
        c = self.c
        cond = condition(c, test)
        if isinstance(cond, ir.Const):
            return self.jump(yes if cond.value else no, pos)
        steps = c.steps()
        orelse = self.point(no, c.params, c.path())
        goto = self.point(yes, c.params, c.path())
        return ir.Block(steps=steps, cond=cond, goto=goto, orelse=orelse, swap=self.swap(), pos=pos)

    def end(self, point: Point, pos: Pos, value: bool) -> ir.Block:
        """A block that ends the program, or a callee, with or without a value."""
        c, frame = self.c, self.frame
        frame.open |= not value
        if frame.caller is None:
            return ir.Block(steps=c.steps(), cond=None, goto=-1, pos=pos)
        if frame.received and not value:
            problem = f"{frame.definition.name!r} may end without a value"
            reject(problem, pos, "return a value on every path: its caller uses it")
        goto = self.point(point[point.index(frame) + 1 :], frame.caller, c.path())
        return ir.Block(
            steps=c.steps(), cond=None, goto=goto, restores=frame.buffers, pos=pos
        )  # fmt: skip

    # --- calls of programs -----------------------------------------------------------------------

    def call(self, stmt: ast.stmt, point: Point, after: Point) -> ir.Block | None:
        """The block that ends in a call of a program, if the statement is one."""
        c, node, pos = self.c, getattr(stmt, "value", None), self.c.pos(stmt)
        if not isinstance(stmt, ast.Expr | ast.Assign | ast.Return) or node is None:
            return None
        called = definition_of(callee(c, node))
        if called is None or called.kind != "program":
            return None
        if self.swap():  # arguments use the bindings after the jump
            return self.jump(point, pos)
        no_keywords(c, node)
        args = fix_statics(called, c.arguments(node.args))
        key = id(stmt), id(self.frame), binding_of(c.params)
        if key not in self.frames:
            self.frames[key] = self.enter(called, args, stmt, point)
        frame = self.frames[key]
        numbers = [x for x in flattened(args) if isinstance(x, ir.Expr)]
        names = [n for n, t in frame.declared.items() if isinstance(t, Type)]
        for name, x in zip(names, numbers, strict=True):
            assign_name(c, name, x, x.pos)
        inner = (*self.start(frame), (frame.received, 0), *after)
        goto = self.point(inner, frame.declared, c.path())
        return ir.Block(steps=c.steps(), cond=None, goto=goto, saves=frame.buffers, pos=pos)

    def enter(
        self, called: Definition, args: list[Value], stmt: ast.Expr | ast.Assign | ast.Return,
        point: Point,
    ) -> Frame:  # fmt: skip
        """A frame for a call; adds the parameters that are numbers and rows to the variables."""
        c, number, node = self.c, len(self.frames), stmt.value
        assert node is not None
        check_arguments(called, args, c.pos(node))
        active = [x.definition.source.function for x in point if isinstance(x, Frame)]
        if called.source.function in active:
            hint = "recursion is outside the language: use a loop"
            reject(f"{called.name!r} calls itself", c.pos(node), hint)
        definition = inlined(called, number)
        declared = params_of(definition, args)
        c.locals |= {n: t for n, t in declared.items() if isinstance(t, Type)}
        c.locals[buffers := f"buffers{number}_"] = I32
        result = inlined_name("return", number)
        received: tuple[ast.stmt, ...] = ()
        if not isinstance(stmt, ast.Expr):
            reading = copy.copy(stmt)
            reading.value = ast.copy_location(ast.Name(result, ast.Load()), node)
            received = (reading,)
        return Frame(
            definition=definition,
            declared=declared,
            stored=definition.stored,
            result=result,
            received=received,
            caller=dict(c.params),
            buffers=buffers,
        )

    # --- blocks ----------------------------------------------------------------------------------

    def block(self, point: Point) -> ir.Block:
        """The block that begins at a program point."""
        c = self.c
        while not isinstance(point[0], Frame):
            head, rest = point[0], point[1:]
            if isinstance(head, ast.While):
                if c.out:
                    return self.jump(point, c.pos(head))
                return self.branch(head.test, self.into(head.body, point), rest, c.pos(head))
            body, i = head
            if i == len(body):
                point = rest
                if isinstance(point[0], ast.While):
                    return self.jump(point, c.pos(point[0]))
                continue
            after = ((body, i + 1), *rest)
            block = self.ended(body[i], point, after)
            if block is not None:
                return block
            check_statement(c, body[i])
            point = after
        return self.end(point, c.pos(c.source.tree), value=False)

    def ended(self, stmt: ast.stmt, point: Point, after: Point) -> ir.Block | None:
        """The block, if a statement ends it; else None."""
        c, pos = self.c, self.c.pos(stmt)
        if (block := self.call(stmt, point, after)) is not None:
            return block
        match stmt:
            case ast.While():
                no_else(c, stmt)
                return self.jump((stmt, *after), pos)
            case ast.If():
                yes, no = self.into(stmt.body, after), self.into(stmt.orelse, after)
                return self.branch(stmt.test, yes, no, pos)
            case ast.Break() | ast.Continue():
                while not isinstance(point[0], ast.While):
                    point = point[1:]  # Python's parser ensures an enclosing loop
                return self.jump(point[1:] if isinstance(stmt, ast.Break) else point, pos)
            case ast.Return():
                return self.end(after, pos, value=self.result(stmt))
        steps = is_foreach(c, stmt) or is_sections(c, stmt)
        return self.jump(point, pos) if steps and self.swap() else None

    def into(self, body: list[ast.stmt], after: Point) -> Point:
        """The point before the first statement of a body."""
        return ((self.bodies.setdefault(id(body), tuple(body)), 0), *after)

    def result(self, stmt: ast.Return) -> bool:
        """``return``; whether with a number."""
        c, pos = self.c, self.c.pos(stmt)
        x = c.expr(stmt.value) if stmt.value is not None else None
        if x is None or isinstance(x.type, Nothing):
            return False
        if not isinstance(default(x.type), Scalar):
            reject("a program returns a number or nothing", pos, "write the rest to columns")
        assign_name(c, self.frame.result, x, pos)
        return True
