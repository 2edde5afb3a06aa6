"""Checking statements: one forward pass over a function's body."""

from __future__ import annotations

import ast

from morph.compiler.frontend.branches import Arm
from morph.compiler.frontend.loops import Loops
from morph.compiler.frontend.scope import Edges, Flow, Retype, join
from morph.compiler.frontend.values import (
    Method,
    ObjectValue,
    coerce,
    default,
    describe,
    has_none,
    truth,
)
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import BOOL, NOTHING, Handle, Local, Nothing, Tuple, Type, Vector


class Statements(Loops):
    """The part of the checker that turns statements into IR."""

    is_kernel: bool
    result: Type | None
    commit: ir.Body | None
    abort: ir.Body | None
    claim: Pos | None

    def block(self, body: list[ast.stmt]) -> ir.Body:
        """A list of statements, in a list of their own."""
        outer, self.out = self.out, []
        ended = False
        for stmt in body:
            if ended:
                reject(
                    "nothing may follow single(collection)",
                    self.pos(stmt),
                    "move these statements into its branches, or before it",
                )
            before = self.claim
            if self.flow is None:
                break  # unreachable: Python would not run it either
            self.statement(stmt)
            ended = self.claim is not before
        done, self.out = tuple(self.out), outer
        return done

    def statement(self, node: ast.stmt) -> None:
        """One statement, appended to ``self.out``."""
        method = getattr(self, f"_{type(node).__name__.lower()}_stmt", None)
        if method is None:
            name = type(node).__name__
            hints = {
                "Try": "kernels raise nothing", "With": "only the host uses `with`",
                "Import": "import at the top of the file", "FunctionDef": "define a @func outside",
                "ImportFrom": "import at the top of the file", "Match": "write if and elif",
                "Global": "pass it as an argument", "Raise": "report through a column or a flag",
                "Nonlocal": "pass it as an argument", "Assert": "report through a column or a flag",
                "ClassDef": "declare a @struct outside", "Delete": "a row goes with row.delete()",
            }  # fmt: skip
            what = name.lower().replace("def", "").replace("from", "")
            hint = hints.get(name, "see the reference for what a statement may be")
            reject(f"{what} is outside the language", self.pos(node), hint)
        method(node)

    def _expr_stmt(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return  # a docstring
        if self._extends(node.value):
            return
        mark = len(self.out)
        x = self.value(node.value)
        last = self.out[-1] if len(self.out) > mark else None
        if isinstance(x, ir.Var) and isinstance(last, ir.Assign) and last.name == x.name:
            self.out[-1] = ir.Eval(value=last.value, pos=last.pos)
            del self.locals[x.name]
        elif last is None and not isinstance(x, ir.Call):
            reject("this expression does nothing", self.pos(node), "call it, or assign its value")

    def _extends(self, node: ast.expr) -> bool:
        """``c.extend(xs)``: a loop that adds each of them; false if it is another expression."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        if node.func.attr != "extend":
            return False
        f = self.value(node.func)
        x = f.receiver if isinstance(f, Method) else None
        if not (isinstance(x, ObjectValue) and x.type.kind == "collection"):
            if not (isinstance(x, ir.Expr) and isinstance(x.type, Local)):
                return False
        self._no_keywords(node)
        self._arity(node, 1, 1, "extend")
        if ast.dump(node.args[0]) == ast.dump(node.func.value):
            reject("a collection cannot be extended by itself", self.pos(node), "loop over a copy")
        each = f"each_{node.lineno}_{node.col_offset}"
        item, bound = (ast.Name(id=each, ctx=ctx) for ctx in (ast.Load(), ast.Store()))
        add = ast.Call(ast.Attribute(node.func.value, "add", ast.Load()), [item], [])
        loop = ast.For(bound, node.args[0], [ast.Expr(add)], [])
        for new in (item, bound, add, add.func, loop, loop.body[0]):
            ast.copy_location(new, node)
        self.statement(loop)
        return True

    def _pass_stmt(self, node: ast.Pass) -> None:
        """Do nothing."""

    # --- control ---------------------------------------------------------------------------------

    def _if_stmt(self, node: ast.If) -> None:
        if self.calls(node.test, "single"):
            assert isinstance(node.test, ast.Call)
            self._single(node, node.test)
            return
        outer, self.out = self.out, []
        arms: list[Arm] = []
        ends: list[tuple[Flow | None, Edges]] = []
        first, other = node, list[ast.stmt]([node])
        while len(other) == 1 and isinstance(other[0], ast.If) and self.flow is not None:
            node = other[0]
            if node is not first and self.calls(node.test, "single"):
                break
            cond = self.condition(node.test)
            if isinstance(cond, ir.Const):
                other = node.body if cond.value else node.orelse
                continue
            start = self.flow
            self.flow, edges = start.copy(), dict(self.edges)
            before, self.out = tuple(self.out), []
            arms.append(Arm(before, cond, self.block(node.body), self.pos(node)))
            ends.append((self.flow, self.edges))
            self.flow, self.edges, other = start.copy(), edges, node.orelse
        last = (*self.out, *self.block(other))
        self.out = outer
        for end in reversed(ends):
            self._join(*end)
        self.out += self.chain(arms, last)

    def _join(self, flow: Flow | None, edges: Edges) -> None:
        """The state behind two branches: of one as it is, of the other as given."""
        if self.flow is None:
            self.edges = edges
        elif flow is not None:
            self.edges = {k: v for k, v in self.edges.items() if edges.get(k) == v}
        self.flow = join(flow, self.flow)

    def _branches(self, body: list[ast.stmt], other: list[ast.stmt]) -> tuple[ir.Body, ir.Body]:
        start, edges = self.flow, dict(self.edges)
        assert start is not None
        self.flow = start.copy()
        then = self.block(body)
        after_then = self.flow
        self.flow, edges_then = start.copy(), self.edges
        self.edges = dict(edges)
        orelse = self.block(other)
        self._join(after_then, edges_then)
        return then, orelse

    def _single(self, node: ast.If, call: ast.Call) -> None:
        pos = self.pos(call)
        if len(call.args) != 1:
            what = "single takes one row, place or local collection"
            reject(what, pos, "single(cavity, guard=ring, priority=k)")
        x = self.value(call.args[0])
        if isinstance(x, ir.Expr) and isinstance(x.type, Local):
            self._claim(node, call, x, pos)
            return
        if call.keywords:
            what = "guard and priority go with a local collection only"
            reject(what, pos, "a row goes to the first item that comes")
        lock: ir.Expr
        if isinstance(x, ir.Load) and not isinstance(x.type, Vector | Handle):
            lock = ir.LockPlace(place=x.place, type=BOOL, pos=pos)
        elif isinstance(x, ir.Expr) and isinstance(x.type, Handle):
            lock = ir.Lock(slot=x.type.slot, row=x, type=BOOL, pos=pos)
        else:
            what = f"single takes a row, a place or a local collection, not {describe(x)}"
            reject(what, pos, "single(p), single(p.lock) or single(cavity)")
        won = self.effect(lock)
        then, orelse = self._branches(node.body, node.orelse)
        self.out.append(ir.If(cond=won, then=then, orelse=orelse, pos=self.pos(node)))

    def _claim(self, node: ast.If, call: ast.Call, x: ir.Expr, pos: Pos) -> None:
        if not self.is_kernel:
            reject(
                "single(collection) belongs in a @kernel",
                pos,
                "return the collection's parts to the kernel",
            )
        if self.loops:
            reject(
                "single(collection) cannot be in a loop",
                pos,
                "one item claims once; add the rest to a worklist",
            )
        if self.claim is not None:
            reject(
                "single(collection) can be in one place only",
                pos,
                f"the other is on line {self.claim.line}",
            )
        if not _claimable(x):
            reject("single takes a local collection of rows", pos, "as made by g.points.local(n)")
        assert self.flow is not None
        if self.flow.wrote is not None:
            reject(
                "a write before single(collection)",
                self.flow.wrote,
                f"the item may lose at line {pos.line} having changed nothing: move this after it",
            )
        keywords = {k.arg: k.value for k in call.keywords}
        guard = self.expr(keywords.pop("guard")) if "guard" in keywords else None
        if guard is not None and not _claimable(guard):
            what = "guard is a local collection of rows"
            reject(what, guard.pos, "as made by g.points.local(n)")
        priority = keywords.pop("priority", None)
        order = self.integer(self.expr(priority), "priority") if priority is not None else None
        if keywords:
            reject(
                f"single has no keyword {next(iter(keywords))!r}", pos, "it has guard and priority"
            )
        self.claim = pos
        self.out.append(
            ir.Claim(items=_name(x), guard=_name(guard) if guard else None, priority=order, pos=pos)
        )
        start = self.flow
        self.flow, self.claimed = start.copy(), frozenset({_name(x)})
        self.commit = self.block(node.body)
        self.flow, self.claimed = start.copy(), frozenset()
        self.abort = self.block(node.orelse)
        self.flow = None

    def _return_stmt(self, node: ast.Return) -> None:
        pos = self.pos(node)
        x = None if node.value is None else self.expr(node.value)
        if self.definition.kind == "where" and x is not None:
            x = truth(x)
        if self.is_kernel and x is not None and not isinstance(x.type, Nothing):
            reject("a kernel returns no value", pos, "write it into a column")
        if x is not None and isinstance(x.type, Local):
            reject(
                "a local collection cannot be returned",
                pos,
                "pass it in and let the function fill it",
            )
        none = ir.Const(value=-1, type=NOTHING, pos=pos)
        x = none if x is None else x
        if self.result is None:
            self.result = self.hints.get(RESULT, default(x.type))
        if has_none(self.result) and not has_none(x.type):
            if isinstance(x.type, Handle | Tuple) and not self.is_kernel:
                raise Retype(RESULT, x.type)
        if self.result == NOTHING and x.type == NOTHING:
            self.out.append(ir.Return(value=None, pos=pos))
        else:
            x = coerce(x, self.result, "the function's result")
            self.out.append(ir.Return(value=x, pos=pos))
        self.flow = None


RESULT = "return"  # the hint for what a function gives; no local can have this name


def _claimable(x: ir.Expr) -> bool:
    return isinstance(x, ir.Var) and isinstance(x.type, Local) and isinstance(x.type.elem, Handle)


def _name(x: ir.Expr) -> str:
    assert isinstance(x, ir.Var)
    return x.name
