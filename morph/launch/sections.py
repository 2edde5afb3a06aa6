"""Sections: the calls of `foreach` on one device run as one step of a generated program."""

from __future__ import annotations

import ast
import contextlib
import itertools
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import CellType, FunctionType
from typing import Any

import numpy as np

from morph.data.row import RowRange
from morph.language.definition import Definition, filter_of
from morph.language.source import Source
from morph.launch.binding import content
from morph.launch.checked import checked, is_checked
from morph.launch.foreach import Call, Program, _accept, collected, foreach
from morph.launch.jobs import Section, Sections, run_together, used
from morph.launch.slots import in_parts

NUMBERS = (bool, int, float, np.generic)
MOST = 64  # cached programs
_programs: dict[Any, Program] = {}


@contextlib.contextmanager
def sections() -> Iterator[Sections]:
    """Run the calls of `foreach` in the block in one step, with no barrier between them.

    Each call of `foreach`, and each function that is passed to ``run`` of the block's object, is a
    section.  All are launched together when the block ends; none if it raises.  They may use
    several devices and partitioned graphs; the calls of `foreach` on one device, or on one
    partitioned graph, are one step.  In a `program` the same statement is one step of the launch.

    Raises
    ------
    LanguageError
        If a section changes an object that another section reads or changes, or has
        ``single(collection)``, which contains a barrier; or if there are more than 8 calls of
        `foreach` on one device.
    ValueError
        If a function uses a graph, or a table without a graph, that another section uses.
    RuntimeError
        If sections are nested.
    BaseException
        The error of a section, raised when all have ended; an ``ExceptionGroup`` if several fail.

    Notes
    -----
    The calls are compiled to one program; the numbers that kernels and filters capture from an
    enclosing function become constants.  The ``python`` device and checked launches run the
    sections in order.  Devices work concurrently; sections on one device, and on MPI ranks, run in
    order unless they are one step.
    """
    if collected.get() is not None:
        raise RuntimeError("sections cannot be nested")
    found: list[Call] = []
    functions = Sections()
    before = collected.set(found)
    try:
        yield functions
    finally:
        collected.reset(before)
    steps = _by_device(found)
    if len(steps) == 1 and not functions.functions:
        _run(found)
    elif steps or functions.functions:
        for calls in steps:
            _check(calls)
        run_together([*map(_section, steps), *functions.functions])


sections.morph_sections = True  # type: ignore[attr-defined]


def _by_device(found: list[Call]) -> list[list[Call]]:
    """Divide calls into those of each device and of each partitioned graph."""
    steps: dict[Any, list[Call]] = {}
    for c in found:
        graph = next(iter(used((c.items, *c.args))), None)  # no object: the launch refuses the call
        key = graph if graph is None or in_parts(graph) else graph.device
        steps.setdefault(key, []).append(c)
    return list(steps.values())


def _section(calls: list[Call]) -> Section:
    """The section of calls that are one step."""
    place = f"{calls[0].file}:" + ", ".join(str(c.line) for c in calls)
    objects = [x for c in calls for x in (c.items, *c.args)]
    return Section(partial(_run, calls), place, objects)


def run_parts(c: Call) -> None:
    """Run a kernel with ``barrier()``: each of its parts is a step of a program."""
    _run([c], sections=False)


def _check(found: list[Call]) -> None:
    """Compile the program of the calls before any section runs, to raise its errors."""
    program = _program_of(found, True)
    if not program.launches:
        _accept(program, tuple(x for c in found for x in _given(c)))


def _run(found: list[Call], sections: bool = True) -> None:
    program = _program_of(found, sections)
    with checked(any(is_checked(c.check) for c in found)):
        program(*(x for c in found for x in _given(c)))


def _program_of(found: list[Call], sections: bool) -> Program:
    """Find or make the program of calls."""
    key = sections, *map(_key, found)
    program = _programs.get(key)
    if program is None:
        while len(_programs) >= MOST:
            _programs.pop(next(iter(_programs)), None)
        program = _programs[key] = _program(found, sections)
    return program


def _key(c: Call) -> tuple[Any, ...]:
    """The properties of a call that its program depends on, besides the types of arguments."""
    statics = tuple((type(x), repr(x)) for i, x in enumerate(c.args) if i in c.kernel.statics)
    where: tuple[Any, ...] = (c.where,)
    if isinstance(c.where, FunctionType):  # lambdas of one line may be equal
        values = map(content, c.where.__closure__ or ())
        captured = (type(x) if isinstance(x, NUMBERS) else id(x) for x in values)
        where = c.where.__code__, id(c.where.__globals__), *captured
    options = c.together, c.balance, c.file, c.line
    return c.kernel, type(c.items), *where, statics, len(c.args), *options


def _numbers(where: Any) -> dict[str, Any]:
    """The numbers that a lambda captures from an enclosing function."""
    if not isinstance(where, FunctionType):
        return {}
    captured = zip(where.__code__.co_freevars, where.__closure__ or (), strict=True)
    return {name: x for name, c in captured if isinstance(x := content(c), NUMBERS)}


def _frozen(where: Any) -> Any:
    """A copy of a lambda with the current values of its captured variables."""
    if not isinstance(where, FunctionType) or not where.__closure__:
        return where
    closure = tuple(CellType(content(c)) for c in where.__closure__)
    return FunctionType(where.__code__, where.__globals__, where.__name__, None, closure)


def _given(c: Call) -> list[Any]:
    """The arguments of the program of a call: items, non-static arguments, captured numbers."""
    x = c.items
    items = [x.store, x.start, x.stop] if isinstance(x, RowRange) else [x]
    run_time = [x for i, x in enumerate(c.args) if i not in c.kernel.statics]
    return [*items, *run_time, *_numbers(c.where).values()]


def _launch(c: Call, given: Iterator[Any]) -> None:
    """Launch a call with the arguments of the program."""
    items = next(given)
    if c.items is RowRange:
        items = items[next(given) : next(given)]
    args = [x if i in c.kernel.statics else next(given) for i, x in enumerate(c.args)]
    where: Any = c.where
    if numbers := _numbers(where):
        named = zip(where.__code__.co_freevars, where.__closure__, strict=True)
        closure = tuple(CellType(next(given)) if n in numbers else x for n, x in named)
        where = FunctionType(where.__code__, where.__globals__, where.__name__, None, closure)
    for kernel in c.kernel.parts or (c.kernel,):
        foreach(items, kernel, *args, where=where, together=c.together, balance=c.balance)


def _program(found: list[Call], sections: bool) -> Program:
    """Make a program of one call, or of one step with sections; `_given` lists its arguments.

    Errors show the lines of the calls.
    """
    kept = []
    for c in found:
        static = tuple(x if i in c.kernel.statics else None for i, x in enumerate(c.args))
        kept.append(c._replace(items=type(c.items), args=static, where=_frozen(c.where)))

    def step(*given: Any) -> None:
        each = iter(given)
        for c in kept:
            _launch(c, each)

    text, names = _text(kept)
    tree = ast.parse(text).body[0]
    assert isinstance(tree, ast.FunctionDef) and isinstance(block := tree.body[0], ast.With)
    if not sections:
        tree.body = block.body
    lines: list[tuple[ast.AST, Call]] = [(tree, kept[0]), *zip(block.body, kept, strict=True)]
    for node, c in lines:
        for n in ast.walk(node):
            if isinstance(n, ast.stmt | ast.expr):
                n.lineno = n.end_lineno = c.line
                n.col_offset, n.end_col_offset = 0, sys.maxsize
    known = FunctionType(step.__code__, names, "step", None, step.__closure__)
    program = Program(step)
    program._definition = Definition("program", Source(known, tree, kept[0].file, 0, True))
    return program


def _text(found: list[Call]) -> tuple[str, dict[str, Any]]:
    """The text of the program, and its global names."""
    scope: dict[str, Any] = {"foreach": foreach, "sections": sections, "item": None}
    params: list[str] = []

    def unique(wanted: str) -> str:
        of = f"{wanted}_of_{c.kernel.__name__}"  # names in messages
        more = (f"{of}_{n}" for n in itertools.count(2))
        return next(n for n in itertools.chain([wanted, of], more) if n not in {*params, *scope})

    def constant(wanted: str, value: Any) -> str:
        scope[name := unique(wanted)] = value
        return name

    def parameter(wanted: str) -> str:
        params.append(name := unique(wanted))
        return name

    lines = []
    for c in found:
        items = parameter("items")
        if c.items is RowRange:
            items += f"[{parameter('start')}:{parameter('stop')}]"
        given = [items, constant(c.kernel.__name__, c.kernel)]
        names = c.kernel.definition.source.params[1:]
        for i, x in enumerate(c.args):
            wanted = names[i] if i < len(names) else "more"
            is_static = i in c.kernel.statics
            given.append(constant(wanted, x) if is_static else parameter(wanted))
        if isinstance(c.where, FunctionType):
            where = constant("where", _Filter(c.where))
            numbers = ", ".join(["item", *map(parameter, _numbers(c.where))])
            given.append(f"where=lambda item: {where}({numbers})")
        elif c.where is not None:
            given.append(f"where={constant('where', c.where)}")
        given += [f"together={c.together}", f"balance={c.balance!r}"]
        lines.append(f"        foreach({', '.join(given)})")
    head = [f"def step({', '.join(params)}):", "    with sections():"]
    return "\n".join([*head, *lines]), scope


class _Filter:
    """A lambda as a function of the item and of the numbers that the lambda captures."""

    def __init__(self, where: FunctionType) -> None:
        source = filter_of(where).source
        assert isinstance(source.tree, ast.Lambda)
        params = [*source.tree.args.args, *(ast.arg(arg=n) for n in _numbers(where))]
        args = ast.arguments(
            posonlyargs=[], args=params, kwonlyargs=[], kw_defaults=[], defaults=[]
        )
        tree = ast.FunctionDef(
            name="where", args=args, body=[ast.Return(value=source.tree.body)], decorator_list=[]
        )
        for node in (tree, *params, tree.body[0]):
            ast.copy_location(node, source.tree)
        self.definition = Definition("func", replace(source, tree=tree))
