"""Every kernel of the package and of the examples compiles for sm_90, with no GPU in sight.

The algorithms run on the CPU; the very texts of their launches are then given to NVRTC.
"""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import morph
from morph.algorithms import sssp, triangles
from morph.build import cuda
from morph.checking import is_checked
from morph.data import words
from morph.engine import binding
from morph.graph import changes, loose
from morph.kernel import Kernel, Program
from morph.lang import emit
from morph.testing import team

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.nvrtc


@pytest.fixture
def units(monkeypatch):
    """What is launched meanwhile: the unit and its text, by kernel."""
    seen = []
    load = binding.Compiled.binary

    def spy(compiled, *args):
        seen.append(compiled)
        return load(compiled, *args)

    monkeypatch.setattr(binding.Compiled, "binary", spy)
    monkeypatch.setattr(binding, "_compiled", {})
    for module in modules():
        for what in launched(vars(module)).values():
            monkeypatch.setattr(what, "launches", {})
    return seen


def modules():
    """The package's modules that have kernels."""
    names = [
        "reduce",
        "graph.inplace",
        "graph.resolve",
        *(f"algorithms.{p.stem}" for p in (ROOT / "morph/algorithms").glob("[!_]*.py")),
    ]
    return [importlib.import_module(f"morph.{name}") for name in names]


def launched(names):
    groups = [x for x in names.values() if isinstance(x, tuple)]  # kernels for each type
    found = {f"{k}, {i}": x for k, group in enumerate(groups) for i, x in enumerate(group)}
    return {n: x for n, x in (found | dict(names)).items() if isinstance(x, Kernel | Program)}


def compile_all(seen, wanted):
    """Compile each text once; nothing that was wanted is missing.

    Checked programs run launch by launch: these, and kernels of loops that end early, have no text.
    """
    functions = {re.sub(r"_\d+$", "", f.name) for c in seen for f in c.unit.funcs}
    functions |= {c.unit.name.removeprefix("morph_") for c in seen}
    assert seen and (is_checked() or wanted and wanted <= functions), wanted - functions
    for text, unit in {c.text: c.unit for c in seen}.items():
        name = emit.entry(unit)
        cubin = cuda.build(emit.prelude(unit.checked) + text, "sm_90", name=name)
        assert cubin[:4] == b"\x7fELF" and name.encode() in cubin


def follow_changes():
    for dtype in (np.int32, np.float32):
        weight = np.array([3, 1, 2], dtype)
        for both in (False, True):
            g = morph.Graph.from_edges([0, 1, 2], [1, 2, 3], weight=weight, symmetrize=both)
            morph.DynamicSSSP(g).apply(inserts=([0], [3], weight[:1]))
    morph.DynamicSSSP(morph.Graph.from_edges([0], [1])).apply(([0], [1]))
    morph.DynamicBFS(g), morph.DynamicComponents(g).apply(deletes=[0])
    with mock.patch.object(loose, "LEAST", 1):
        g = morph.Graph.from_edges([0], [1], n=4)
        for p in range(4):  # rows leave memory in vain, and are laid anew
            g.apply(deletes=g.apply(([p] * 40, [0] * 40)).inserted)


@pytest.mark.unchecked  # NVRTC takes minutes for so many checked texts
def test_algorithms(units, monkeypatch):
    monkeypatch.setattr(changes, "SHARE", 0)
    weight = np.array([3, 1, 2, 5], np.int32)
    ends = np.array([0, 0, 1, 2]), np.array([1, 2, 2, 3])
    for dtype in (np.int32, np.float64):
        g = morph.Graph.from_edges(*ends, weight=weight.astype(dtype), n=5)
        morph.sssp(g, predecessors=True), morph.mst(g)
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=[0, 0], symmetrize=True)
    morph.sssp(g, predecessors=True), morph.betweenness(g), morph.pagerank(g)
    with mock.patch.object(sssp, "DENSE", 0):
        morph.sssp(g)
    g = morph.Graph.from_edges(*ends, weight=weight, n=5)
    morph.connected_components(g), morph.core_number(g), morph.triangle_count(g), morph.bfs(g)
    for dtype in (np.float64, np.float32):
        morph.pagerank(g, dtype=dtype), morph.pagerank(g, weighted=True, dtype=dtype)
    morph.betweenness(g, sources=[0])
    chain = np.arange(1100).repeat(2)
    for directed in (True, False):  # 2**1100 shortest paths
        many = morph.Graph.from_edges(chain, chain + 1, directed=directed)
        morph.betweenness(many, sources=[0])
    with mock.patch.object(triangles, "SHORT", -1):  # else the rows of so few edges are merged
        morph.triangle_count(g)
    follow_changes()
    g.points.add("x", np.float64, fill=2)

    @morph.func
    def times(a, b):
        return a * b

    assert morph.reduce(g.points.x, times) == 32
    both = morph.Graph.from_edges([0, 1], [1, 2], weight=[0, 0], symmetrize=True)
    for roomy in (g, both):  # the same on rows with room, of one direction and of both
        roomy.apply(([0], [1], [1]), [0])
        roomy.apply(deletes=([0], [1]))
        roomy.adjacency("in"), roomy.apply(([0, 0], [1, 1], [1, 1]), [1])
        roomy.apply(deletes=([0], [1]))
        assert roomy.loose
        morph.bfs(roomy), morph.sssp(roomy), morph.pagerank(roomy), morph.core_number(roomy)
    cross = [[0, 0], [2, 2], [0, 2], [2, 0]]
    rim, places = [[0, 2], [2, 1], [1, 3], [3, 0], [0, 1], [2, 3]], [[1, 0.5, 3, -1]]
    morph.triangulate(cross, rim, [[0.5, 1]], places, crossing="split")
    with team(1):  # as a GPU does: of few points, several threads of a CPU use one
        morph.triangulate(cross)
    mesh = morph.Mesh.read(ROOT / "meshes" / "square.node")
    morph.refine(mesh, 25)
    morph.refine(mesh, 25, progress=lambda *_: None)  # launch by launch
    rim = [[0, 1], [1, 2], [2, 3], [3, 0]]
    plate = morph.Pslg([[0, 0], [2, 0], [2, 1], [0, 1]], rim, regions=[[1.5, 0.5, 0, 0.01]])
    morph.refine(plate, 25, "regions", boundary="keep-hull", max_points=9, deterministic=True)
    morph.refine(mesh, 31, size=0.3, boundary="keep-all", conforming=True)
    with team(1):
        formula = morph.generate.random_ksat(3, 400, 3.9, seed=1)
        found = morph.survey.solve(formula, device="cpu", method="decimation")
        assert found.status == "SATISFIABLE" and found.rounds
        assert morph.survey.walksat(formula, device="cpu").steps > 0
        clash = morph.Formula.of([[1, 2], [1, -2], [-1, 2], [-1, -2], [1, 3], [1, 4], [2, 5]])
        assert morph.survey.solve(clash, device="cpu").cycle
        assert morph.survey.believe(clash, 1, fraction=0.2, lossy=True).rollbacks
        formula = morph.generate.random_ksat(3, 150, 4.3, seed=3)
        found = morph.survey.decimate(formula, fraction=0.2, max_sweeps=40, max_rounds=4)
        assert found.rollbacks  # rounds are undone
        found = morph.survey.backtrack(formula, max_rounds=4, fraction=0.4, tolerance=0.2)
        assert found.rollbacks and any(r.released for r in found.rounds)
        morph.survey.reinforce(morph.generate.random_ksat(3, 40, 3, seed=1))
    assert any("is_raised(" in c.text for c in units)
    compile_all(units, {x.__name__ for m in modules() for x in launched(vars(m)).values()})


def test_what_writes_a_few_words():
    assert b"put" in cuda.build(words.TEXT, "sm_90", name="put")


def test_falcon(units, tmp_path):
    path = tmp_path / "roads.gr"
    path.write_text("p sp 4 4\na 1 2 3\na 1 3 3000\na 2 3 2\na 3 4 5\n")
    wanted = set()
    for example in sorted((ROOT / "examples" / "falcon").glob("*.py")):
        names = runpy.run_path(str(example))
        names["main"](path, "cpu")
        wanted |= set(launched(names))
    compile_all(units, wanted)


@pytest.mark.parametrize(
    ("name", "given"), [("shortest_paths", {"n": 20}), ("contract", {"side": 5})]
)
def test_examples(units, name, given):
    names = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    names["main"]("cpu", **given)
    compile_all(units, set(launched(names)))
