"""``with sections():`` of a ``@program``: kernels of one step, without barriers in between."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import NoReturn

from morph.compiler.frontend.calls import callee
from morph.compiler.frontend.context import Context
from morph.compiler.frontend.outside import refuse
from morph.compiler.frontend.statements import check_statement
from morph.compiler.ir import nodes as ir
from morph.compiler.passes.conflicts import conflict
from morph.language.errors import reject
from morph.language.position import Pos

MOST = 8  # sections of a step: each has a cursor in memory that `launch.scratch` allocates


def is_sections(c: Context, stmt: ast.stmt) -> bool:
    """Whether a statement is ``with sections():``."""
    if not isinstance(stmt, ast.With) or len(stmt.items) != 1:
        return False
    return hasattr(callee(c, stmt.items[0].context_expr), "morph_sections")


def is_foreach(c: Context, stmt: ast.stmt) -> bool:
    """Whether a statement is a ``foreach``."""
    return isinstance(stmt, ast.Expr) and hasattr(callee(c, stmt.value), "morph_foreach")


def check_with(c: Context, node: ast.With) -> None:
    """``with sections():``; no other ``with`` is in the language."""
    if not is_sections(c, node):
        refuse(c, node)
    if node.items[0].optional_vars is not None:
        reject("sections have no name", c.pos(node), "with sections():")
    if len(node.body) > MOST:
        reject(f"{len(node.body)} sections; a step has at most {MOST}", c.pos(node), "split it")
    with c.collect() as done:
        for stmt in node.body:
            if not is_foreach(c, stmt):
                hint = "write it before or after the `with`"
                reject("a section is a foreach", c.pos(stmt), hint)
            before = len(done)
            check_statement(c, stmt)
            if sum(isinstance(s, ir.Foreach) for s in done[before:]) > 1:
                _refuse_barrier(c.pos(stmt))
    steps = [s for s in done if isinstance(s, ir.Foreach)]
    c.out += [s for s in done if not isinstance(s, ir.Foreach)]  # arguments are evaluated first
    sections = [_section(c, s, k, len(steps)) for k, s in enumerate(steps)]
    if found := conflict([_nodes(c, s) for s in sections]):
        n, problem = found
        hint = "run these one after the other; a `# race:` comment declares an intended race"
        reject(problem, n.pos, hint)
    c.out += sections  # type: ignore[arg-type]


def _section(c: Context, s: ir.Foreach, k: int, sections: int) -> ir.Foreach:
    """A section, with a copy of its kernel: long rows of sections are not put on a list."""
    kernel, funcs = c.builder.funcs[s.kernel], c.builder.funcs
    assert isinstance(kernel, ir.Kernel)
    if kernel.commit is not None:
        _refuse_barrier(s.pos)
    if kernel.ahead or s.until_empty:
        hint = "leave out ahead= and until_empty=True"
        reject("no item of a section runs in the step that adds it", s.pos, hint)
    if sections == 1:
        return s
    copy = replace(kernel, name=c.builder.unique(kernel.name))
    funcs[copy.name] = copy
    balance = s.balance if s.balance == "thread" else "warp"
    return replace(s, kernel=copy.name, balance=balance, section=k, sections=sections)


def _refuse_barrier(pos: Pos) -> NoReturn:
    problem = "a kernel with single(collection) or barrier() has a barrier of its own"
    reject(problem, pos, "run it outside of sections")


def _nodes(c: Context, s: ir.Foreach) -> list[ir.Node]:
    """The nodes of a section, its kernel and filter, and the functions that these call."""
    kernel, funcs = c.builder.funcs[s.kernel], c.builder.funcs
    assert isinstance(kernel, ir.Kernel)
    roots = [kernel, *([funcs[kernel.where]] if kernel.where else [])]
    return [s, *(n for f in roots for n in c.builder.effects.nodes(f))]
