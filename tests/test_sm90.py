"""Every kernel of the package and of the examples compiles for sm_90, with no GPU in sight.

The algorithms run on the CPU; the very texts of their launches are then given to NVRTC.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import re
import runpy
from concurrent.futures import ProcessPoolExecutor

import pytest
from every_unit import (
    ROOT,
    batches,
    edge_maps,
    generators,
    graphs,
    launched,
    meshes,
    modules,
    queues,
    wide,
    worklists,
)

import morph
from morph.compiler.codegen.unit import entry, prelude_of
from morph.compiler.frontend import program
from morph.launch import binding
from morph.launch.checked import is_checked
from morph.runtime.cuda import small_copies
from morph.runtime.toolchain import cuda
from morph.testing import team

pytestmark = pytest.mark.nvrtc


class Units(list):
    """Compiled units, and the names of programs that became part of one."""

    def __init__(self):
        super().__init__()
        self.inlined = set()


@pytest.fixture
def units(monkeypatch):
    """What is launched meanwhile: the unit and its text, by kernel; programs that are inlined."""
    seen = Units()
    load, inline = binding.Compiled.binary, program.inlined

    def spy(compiled, *args):
        seen.append(compiled)
        return load(compiled, *args)

    def inlined(definition, number):
        seen.inlined.add(definition.name)
        return inline(definition, number)

    monkeypatch.setattr(binding.Compiled, "binary", spy)
    monkeypatch.setattr(program, "inlined", inlined)
    monkeypatch.setattr(binding, "_compiled", {})
    monkeypatch.setattr(importlib.import_module("morph.launch.sections"), "_programs", {})
    for module in modules():
        for what in launched(vars(module)).values():
            monkeypatch.setattr(what, "launches", {})
    return seen


def compile_all(seen, wanted):
    """Compile each text once; nothing that was wanted is missing.

    Checked programs run launch by launch: these, and kernels of loops that end early, have no text.
    """
    functions = {re.sub(r"_\d+$", "", f.name) for c in seen for f in c.unit.funcs}
    functions |= {c.unit.name.removeprefix("morph_") for c in seen} | seen.inlined
    assert seen and (is_checked() or wanted and wanted <= functions), wanted - functions
    texts = {prelude_of(c.unit) + c.text: entry(c.unit) for c in seen}
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        for name, cubin in zip(
            texts.values(), pool.map(compile_one, texts, texts.values()), strict=True
        ):
            assert cubin[:4] == b"\x7fELF" and name.encode() in cubin


def compile_one(text, name):
    """Whether NVRTC takes the text; optimisation, most of the time, is left out where it can be."""
    fast = ("--Ofast-compile=max",) if cuda._nvrtc().getVersion() >= (13, 0) else ()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "FLAGS", (*cuda.FLAGS, *fast))
        return cuda.build(text, "sm_90", name=name)


@pytest.mark.unchecked  # NVRTC takes minutes for so many checked texts
def test_algorithms(units):
    graphs(), batches(), worklists(), edge_maps(), meshes(), generators(), wide()
    mesh = morph.Mesh.read(ROOT / "meshes" / "square.node")
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


@pytest.mark.unchecked
def test_queues(units):
    queues()
    compile_all(units, {"halve", "split", "split_all"})


@pytest.mark.unchecked
@pytest.mark.parametrize(
    "name",
    [
        "test_barriers",
        "test_builtins",
        "test_domains",
        "test_locals",
        "test_neighbours",
        "test_scalars",
        "test_sections",
        "test_slices",
        "test_static",
    ],
)
def test_language(units, name):
    """The kernels of tests of the language: each test of it runs on the CPU."""
    module = importlib.import_module(name)
    for kernel in launched(vars(module)).values():  # launches of the tests themselves
        kernel.launches.clear()
    tests = [f for n, f in vars(module).items() if n.startswith("test_")]
    for test in (f for f in tests if "target" in f.__code__.co_varnames):
        marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
        for value in marks[0].args[1] if marks else [()]:
            test("cpu", *(value if isinstance(value, tuple) else (value,)))
    compile_all(units, {n for n, k in launched(vars(module)).items() if k.launches})


def test_what_writes_a_few_words():
    assert b"put" in cuda.build(small_copies.TEXT, "sm_90", name="put")


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
