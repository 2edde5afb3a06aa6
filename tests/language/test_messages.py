"""Messages of errors have at most 200 characters for any names, paths and values."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_rejections

import morph
from morph import generate, io, survey, validate
from morph.language.messages import LONGEST
from morph.prelude import i32

ROOT = Path(morph.__file__).parent
LONG = "x" * 300
DOTTED = f"/{'folder/' * 60}{LONG}.png"
HOLDER = 12  # characters of a value in a message, at least


class Long:
    def __repr__(self) -> str:
        return f"<Long {LONG}>"


@morph.kernel
def nothing(r: Any) -> None:
    pass


GRAPH = morph.Graph.from_edges([0, 1], [1, 2], device="python")
WIDE = morph.Table("wide", "python", **{f"column_{k}": i32 for k in range(60)})
OTHER = morph.Table("other", "cpu", **{f"column_{k}": i32 for k in range(60)})
MESH = morph.Mesh([[0, 0], [1, 0], [0, 1]], [[0, 1, 2]])
FORMULA = morph.Formula.of([[1, 2], [-1, 2]])
WIDE.extend(2)

CALLS: list[Callable[[], Any]] = [
    lambda: morph.foreach(Long(), nothing),
    lambda: morph.foreach(WIDE, Long()),  # type: ignore[arg-type]
    lambda: morph.foreach(WIDE, nothing, where=Long()),  # type: ignore[arg-type]
    lambda: morph.foreach(WIDE, nothing, balance=LONG),
    lambda: morph.foreach(WIDE, nothing, ahead=OTHER),
    lambda: morph.foreach(WIDE, nothing, OTHER),
    lambda: morph.foreach(WIDE, nothing, Long()),
    lambda: morph.kernel(Long()),  # type: ignore[arg-type]
    lambda: morph.device(LONG),
    lambda: morph.Table("t", LONG),
    lambda: morph.Table("t", "python", **{LONG: "?!"}),
    lambda: WIDE.add(LONG + "!", i32),
    lambda: WIDE.add("y", Long()),
    lambda: WIDE.add("y", morph.vec(i32, Long())),  # type: ignore[arg-type]
    lambda: WIDE.add("column_1", i32),
    lambda: WIDE.drop(LONG),
    lambda: WIDE.rename(LONG, "y"),
    lambda: getattr(WIDE, LONG),
    lambda: setattr(WIDE[0], LONG, 1),
    lambda: setattr(WIDE[0], "column_1", Long()),
    lambda: WIDE.extend(1, column_1=[LONG]),
    lambda: WIDE.extend(1, **{LONG: 1}),
    lambda: WIDE.new(**{LONG: 1}),
    lambda: WIDE.pack("column_1", LONG),
    lambda: morph.Collection(Long()),
    lambda: morph.Collection(WIDE, y=Long()),
    lambda: morph.Set(Long()),  # type: ignore[arg-type]
    lambda: morph.Ref(Long()),
    lambda: GRAPH.add_table(LONG + "!"),
    lambda: getattr(GRAPH, LONG),
    lambda: GRAPH.apply(inserts=Long()),
    lambda: GRAPH.apply(deletes=[LONG]),
    lambda: GRAPH.to(LONG),
    lambda: morph.Graph.of(Long()),
    lambda: morph.Graph.from_edges([LONG], [0]),
    lambda: morph.reduce(WIDE.column_1, LONG),
    lambda: morph.scan(WIDE.column_1, LONG),
    lambda: morph.sort(Long()),
    lambda: morph.bfs(GRAPH, Long()),
    lambda: morph.sssp(GRAPH, LONG),
    lambda: morph.pagerank(GRAPH, damping=LONG),
    lambda: morph.betweenness(GRAPH, LONG),
    lambda: morph.community(GRAPH, LONG, (2, 3)),
    lambda: morph.max_flow(GRAPH, LONG, 1),
    lambda: morph.partition(GRAPH, [LONG, LONG]),
    lambda: morph.Mesh.of(Long()),
    lambda: morph.Pslg.of(Long()),
    lambda: morph.Mesh(Long(), [[0, 1, 2]]),
    lambda: morph.refine(MESH, boundary=LONG),
    lambda: morph.refine(MESH, min_angle=LONG),
    lambda: morph.refine(MESH, 20, Long()),
    lambda: morph.triangulate([[0, 0], [1, 0], [0, 1]], crossing=LONG),
    lambda: MESH.plot(color=LONG),
    lambda: morph.Formula.of(Long()),
    lambda: survey.solve(FORMULA, method=LONG),
    lambda: survey.solve(FORMULA, method="decimation", options={LONG: 1}),
    lambda: survey.solve(FORMULA, seed=LONG),
    lambda: generate.rmat(LONG),
    lambda: generate.uniform(10, 20, weight=(LONG, 1)),
    lambda: generate.random_ksat(3, LONG, 4.0),
    lambda: io.read_edges(DOTTED),
    lambda: io.read_graph("g.gr", LONG),
    lambda: io.write_graph(GRAPH, DOTTED),
    lambda: io.write_graph(GRAPH, "g.gr", LONG),
    lambda: io.read_cnf(Long()),
    lambda: validate.bfs(GRAPH, Long(), source=0),
    lambda: validate.bfs(GRAPH, np.zeros(3), source=Long()),
    lambda: morph.set_num_threads(LONG),
]


@pytest.mark.unchecked
@pytest.mark.parametrize("call", CALLS, ids=lambda c: str(inspect.getsourcelines(c)[1]))
def test_values_are_shortened(call: Callable[[], Any]) -> None:
    with pytest.raises(Exception) as caught:
        call()
    if not isinstance(caught.value, OSError) or caught.value.filename is None:  # else Python's own
        assert len(str(caught.value)) <= LONGEST, str(caught.value)
        assert str(caught.value)


def test_rejections_are_short() -> None:
    for _, problem, hint in test_rejections.CASES:
        assert len(problem) <= LONGEST and len(hint) <= LONGEST


def length(text: ast.expr) -> int:
    """Characters of a message, each of whose values has a few."""
    match text:
        case ast.Constant(value=str(value)):
            return len(value)
        case ast.JoinedStr(values):
            return sum(map(length, values))
        case ast.BinOp(left, ast.Add(), right):
            return length(left) + length(right)
    return HOLDER


def messages(file: Path) -> Iterator[tuple[int, int]]:
    """Lines and lengths of the messages that a file raises."""
    for node in ast.walk(ast.parse(file.read_text())):
        raised = isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
        if raised or (isinstance(node, ast.Call) and ast.unparse(node.func) == "reject"):
            call = node.exc if raised else node
            yield from ((node.lineno, length(a)) for a in call.args)


def test_texts_are_short() -> None:
    found = [(f, *m) for f in sorted(ROOT.rglob("*.py")) for m in messages(f)]
    assert len(found) > 1000
    assert not [f"{f}:{line}: {n}" for f, line, n in found if n > LONGEST]
