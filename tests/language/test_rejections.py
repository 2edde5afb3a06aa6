"""Every rejection of the language: message, hint, and the line and columns that it marks."""

from __future__ import annotations

import ast
import itertools
import linecache
import re
import textwrap
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import morph
from morph.compiler.partitioning.derivation import derive
from morph.data.collection import Collection, Flag, Set
from morph.data.row import RowRange
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.language.errors import LanguageError
from morph.language.source import read
from morph.launch.binding import Request, bind
from morph.launch.foreach import foreach, kernel

HEAD = """
import math
from typing import NamedTuple
import numpy as np
from morph.language.dtypes import Ref
from morph import foreach, func, kernel, program, sections
from morph.prelude import *


@func
def twice(x):
    return x + x

@func
def clip(x, most):
    return min(x, most)

@kernel
def touch(p):
    p.dist = 0

@struct
class Pair:
    a: i32
    b: f32

class Both(NamedTuple):
    first: int
    second: int
"""

ARRAYS = {"FIXED": np.arange(3), "OPEN": np.arange(3), "DEEP": np.zeros((1, 1, 1))}
ARRAYS["THIN"] = np.zeros((3, 0))
ARRAYS["FIXED"].flags.writeable = False

KERNEL = "@kernel\ndef k(p, g, coll, flag, sets, n):\n"
PROGRAM = "@program\ndef main(g, coll, other, flag, sets, n):\n"
counter = itertools.count()


@kernel
def touch(p: Any) -> None:
    p.dist = 0


def graph() -> Graph:
    g = Graph.from_edges([0, 1, 1], [1, 2, 0], n=3, device="python")
    p = g.points
    for name, dtype in {"dist": "i4", "level": "i8", "w": "f4", "big": "u8", "ok": "?"}.items():
        p.add(name, np.dtype(dtype))
    p.add("xy", vec(np.float64, 2))
    p.add("next", Ref("points"))
    g.edges.add("w", np.dtype("f4"))
    g.add_table("triangles", node=Ref("points")[3], bad=np.bool_)
    return g


def load(text: str) -> dict[str, Any]:
    """Run a module's text, so that its functions have a source; the caret line is taken out."""
    file = f"<rejected {next(counter)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {**ARRAYS, "NAMES": np.array(["a"]), "Scalars": morph.Scalars}
    names["NUMBERS"] = Collection(np.dtype("i4"), device="python")
    exec(compile(text, file, "exec", dont_inherit=True), names)
    return names


def run(text: str, kind: str = "python", eager: bool = False) -> None:
    """Launch the case's kernel ``k`` or program ``main``."""
    names, g = load(text), graph().to(kind)
    coll, other = Collection(g.points), Collection(g.points)
    flag, sets = Flag(g), Set(g.points)
    if "main" in names:
        main = names["main"]
        (main.eager if eager else main)(g, coll, other, flag, sets, 3, *names.get("more", ()))
    elif names.get("parts"):  # what to run over, if the graph is partitioned
        g.points.add("global_id", np.dtype("i4"))
        sums = morph.Scalars(g, total=0.0, number=0)
        items = {"slice": g.points[1:], "edges": g.edges, "sums": sums.table}
        found = items.get(names["parts"], g.points)
        more = (g.points[0],) if names["parts"] == "row" else (sums,)
        span = (found.start, found.stop) if isinstance(found, RowRange) else ()
        where, together = names.get("where"), names.get("together", False)
        args = (g, coll, flag, sets, 3, *more, *span)
        request = Request(
            names["k"], found.store if span else found, args[: len(args) - len(span)], where,
            g.device, together, until_empty=names.get("until_empty", False), bounded=bool(span),
        )  # fmt: skip
        derive(bind(request)[0].unit, {"g"})
    else:
        options = {name: names[name] for name in ("where", "together") if name in names}
        foreach(g.points, names["k"], g, coll, flag, sets, 3, **options)


def split(case: str) -> tuple[str, int, int, int]:
    """A case's text without its caret line, and where that points: line, column, end."""
    text = case
    if not text.startswith(("@", "def where", "where", "together", "more", "parts")):
        start = PROGRAM if text.startswith("# program\n") else KERNEL
        if parts := re.match(r"# parts: (\w+)\n", text):
            text = text.removeprefix(parts[0])
            start = f"parts = {parts[1]!r}\n{KERNEL.replace(' n', ' n, sums')}"
        text = start + textwrap.indent(text.removeprefix("# program\n"), "    ")
    lines = (HEAD + text + "\n").split("\n")
    at = next(i for i, line in enumerate(lines) if line.strip() and not line.strip(" ^"))
    mark = lines.pop(at)
    return "\n".join(lines), at, mark.index("^"), len(mark)


def read_cases() -> list[tuple[str, str, str]]:
    """The cases of ``rejections.txt``: text, message, hint."""
    cases, lines = [], list[str]()
    for line in (Path(__file__).parent / "rejections.txt").read_text().splitlines():
        if line.startswith("! "):
            problem = line[2:]
        elif line.startswith("? "):
            cases.append(("\n".join(lines).strip("\n"), problem, line[2:]))
            lines = []
        elif not line.startswith("#") or line == "# program" or line.startswith("# parts"):
            lines.append(line)
    return cases


CASES = read_cases()


def check(error: LanguageError, problem: str, hint: str, line: int, col: int, end: int) -> None:
    text = linecache.getline(error.pos.file, error.pos.line).rstrip("\n")
    assert (error.problem, error.hint) == (problem, hint)
    assert (error.pos.line, error.pos.col, min(error.pos.end, len(text))) == (line, col, end)
    shown = str(error).split("\n")
    assert shown[0] == f"{error.pos.file}:{line}: {problem}"
    assert shown[1] == "    " + text
    assert shown[2] == "    " + " " * col + "^" * (end - col)
    assert shown[3] == "  " + hint


@pytest.mark.parametrize(("case", "problem", "hint"), CASES, ids=[c[1] for c in CASES])
def test_rejected(case: str, problem: str, hint: str) -> None:
    text, line, col, end = split(case)
    with pytest.raises(LanguageError) as found:
        run(text)
    check(found.value, problem, hint, line, col, end)


PROGRAMS = [c for c in CASES if "# program" in c[0] or "@program" in c[0]]


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize(("case", "problem", "hint"), PROGRAMS, ids=[c[1] for c in PROGRAMS])
def test_programs_are_rejected_alike(
    target: str, eager: bool, case: str, problem: str, hint: str
) -> None:
    text, line, col, end = split(case)
    with pytest.raises(LanguageError) as found:
        run(text, target, eager)
    check(found.value, problem, hint, line, col, end)


def test_source_that_is_not_available() -> None:
    names: dict[str, Any] = {"kernel": kernel}
    exec("@kernel\ndef k(p):\n    p.dist = 0", names)
    with pytest.raises(LanguageError, match="the source of 'k' is not available") as found:
        foreach(graph().points, names["k"])
    assert found.value.hint.startswith("put the kernel in a file")


def test_lambda_whose_source_is_not_available() -> None:
    where = load("\n\nwhere = lambda p: p.ok\n")["where"]
    file = where.__code__.co_filename
    linecache.cache[file] = (0, None, ["\n", "\n", "where = lambda q: q\n"], file)
    with pytest.raises(LanguageError, match="the source of this lambda is not available"):
        foreach(graph().points, touch, where=where)


def test_what_is_no_plain_function() -> None:
    names = load("async def f(p):\n    p.dist = 0\n")
    with pytest.raises(LanguageError, match="only a plain function can be compiled"):
        read(names["f"])


def test_carets_count_characters_and_keep_tabs() -> None:
    text = '@kernel\ndef k(p):\n\tp.dist = "é", nothing\n'
    names = load(HEAD + text)
    with pytest.raises(LanguageError) as found:
        foreach(graph().points, names["k"])
    assert str(found.value).split("\n")[2] == "    \t" + " " * 9 + "^^^"
    names = load(HEAD + text.replace(", nothing", "").replace("é", "é" * 3 + '" in nothing + "'))
    with pytest.raises(LanguageError) as found:
        foreach(graph().points, names["k"])
    assert found.value.problem.startswith("a constant of type str")


def test_every_rejection_is_tested() -> None:
    """Each call of ``reject`` in the compiler is reached by one of the cases above."""
    root = Path(morph.__file__).parent
    here = {"definition.py", "source.py"}  # by the tests of their own
    folders = (root / "compiler", root / "language")
    files = [f for d in folders for f in d.rglob("*.py") if f.name not in here]
    calls = {
        (str(f), n.lineno, n.end_lineno or 0)
        for f in [*files, root / "launch" / "binding.py"]
        for n in ast.walk(ast.parse(f.read_text()))
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "reject"
    }
    assert calls
    for case, _, _ in CASES:
        with pytest.raises(LanguageError) as found:
            run(split(case)[0])
        frames = list(traceback.walk_tb((found.value.__context__ or found.value).__traceback__))
        at = next(i for i, (f, _) in enumerate(frames) if f.f_code.co_name == "reject")
        file, line = frames[at - 1][0].f_code.co_filename, frames[at - 1][1]
        calls = {c for c in calls if not (c[0] == file and c[1] <= line <= c[2])}
    assert files and not calls
