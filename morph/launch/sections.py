"""Sections: calls of `foreach` on the host that run as one step, by a program made for them."""

from __future__ import annotations

import ast
import contextlib
import itertools
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import numpy as np

from morph.language.definition import Definition
from morph.language.source import Source
from morph.launch.checked import checked, is_checked
from morph.launch.foreach import Call, Program, collected, foreach

NUMBERS = (bool, int, float, np.generic)
MOST = 64  # programs that are remembered
_programs: dict[Any, Program] = {}


@contextlib.contextmanager
def sections() -> Iterator[None]:
    """Run the calls of `foreach` in the block in one step, with no barrier between them.

    Each call is a section.  All of them are launched when the block ends, and nothing if it raises.
    In a `program` the same statement is one step of the launch.

    Raises
    ------
    LanguageError
        If a section changes what another one reads or changes, or has ``single(collection)``,
        which has a barrier of its own; or of more than 8 sections.
    RuntimeError
        If sections are nested.

    Notes
    -----
    A program is compiled for the calls: numbers that kernels and filters capture from an enclosing
    function are compiled in.  The ``python`` device and checked launches run one section after the
    other.
    """
    if collected.get() is not None:
        raise RuntimeError("sections cannot be nested")
    before = collected.set(found := [])
    try:
        yield
    finally:
        collected.reset(before)
    if found:
        _run(found)


@contextlib.contextmanager
def _in_turn() -> Iterator[None]:
    """What ``sections()`` is when a program made for them runs as plain Python."""
    yield


sections.morph_sections = _in_turn.morph_sections = True  # type: ignore[attr-defined]


def _run(found: list[Call]) -> None:
    key = tuple(map(_key, found))
    program = _programs.get(key)
    if program is None:
        while len(_programs) >= MOST:
            _programs.pop(next(iter(_programs)), None)
        program = _programs[key] = _program(found)
    given = (x for c in found for x in (c.items, *_run_time(c)))
    with checked(any(is_checked(c.check) for c in found)):
        program(*given)


def _run_time(c: Call) -> list[Any]:
    """The arguments of a call that are no static ones."""
    return [x for i, x in enumerate(c.args) if i not in c.kernel.statics]


def _key(c: Call) -> tuple[Any, ...]:
    """What is compiled in, beside the types of the arguments."""
    statics = tuple((type(c.args[i]), repr(c.args[i])) for i in c.kernel.statics if i < len(c.args))
    return c.kernel, *_filter_key(c.where), statics, len(c.args), c.together, c.balance, c.file, c.line


def _filter_key(where: Any) -> tuple[Any, ...]:
    """The code of a filter, its globals and what it captures; lambdas of one line may be equal."""
    if not isinstance(where, FunctionType):
        return (where,)
    captured = (cell.cell_contents for cell in where.__closure__ or ())
    values = ((type(v), repr(v) if isinstance(v, NUMBERS) else id(v)) for v in captured)
    return where.__code__, id(where.__globals__), *values


def _program(found: list[Call]) -> Program:
    """A program of one step, whose parameters are the items and arguments of the calls."""
    scope: dict[str, Any] = {"foreach": foreach, "sections": _in_turn, "step": None}
    params: list[str] = []

    def unique(wanted: str) -> str:
        names = (wanted, *(f"{wanted}_{n}" for n in itertools.count(2)))
        return next(n for n in names if n not in params and n not in scope)

    def constant(wanted: str, value: Any) -> str:
        scope[name := unique(wanted)] = value
        return name

    def parameter(wanted: str) -> str:
        params.append(name := unique(wanted))
        return name

    lines = []
    for c in found:
        names = c.kernel.definition.source.params[1:]
        given = [parameter("items"), constant(c.kernel.__name__, c.kernel)]
        for i, (x, name) in enumerate(itertools.zip_longest(c.args, names[: len(c.args)])):
            static = i in c.kernel.statics
            given.append(constant(name, x) if static else parameter(name or "more"))
        given += [f"where={constant('where', c.where)}"] if c.where is not None else []
        given += [f"together={c.together}", f"balance={c.balance!r}"]
        lines.append(f"        foreach({', '.join(given)})")
    text = "\n".join([f"def step({', '.join(params)}):", "    with sections():", *lines])
    exec(compile(text, found[0].file, "exec"), scope)
    program = Program(scope["step"])
    program._definition = Definition("program", _source(text, scope["step"], found))
    return program


def _source(text: str, function: FunctionType, found: list[Call]) -> Source:
    """The source of a program; its lines are those of the calls."""
    tree = ast.parse(text).body[0]
    assert isinstance(tree, ast.FunctionDef) and isinstance(block := tree.body[0], ast.With)
    nodes: list[tuple[ast.AST, Call]] = [(tree, found[0]), *zip(block.body, found, strict=True)]
    for node, c in nodes:
        for n in ast.walk(node):
            if isinstance(n, ast.stmt | ast.expr):
                n.lineno = n.end_lineno = c.line
                n.col_offset, n.end_col_offset = 0, sys.maxsize
    return Source(function, tree, found[0].file, 0)
