"""Every kernel in the tests of the language compiles for sm_90 without a GPU.

The tests run on the CPU; the very texts of their launches are then given to NVRTC.  Kernels of the
package and of the examples: `test_golden`.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
import sm90
from every_unit import forget_units, launched

from morph.compiler.codegen.unit import entry, prelude_of
from morph.compiler.frontend import program
from morph.launch.checked import is_checked
from morph.launch.compiled import Compiled
from morph.runtime.cuda import combining, small_copies
from morph.runtime.toolchain import cuda

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
    load, inline = Compiled.binary, program.inlined

    def spy(compiled, *args):
        seen.append(compiled)
        return load(compiled, *args)

    def inlined(definition, number):
        seen.inlined.add(definition.name)
        return inline(definition, number)

    monkeypatch.setattr(Compiled, "binary", spy)
    monkeypatch.setattr(program, "inlined", inlined)
    forget_units(monkeypatch)
    return seen


def compile_all(seen, wanted):
    """Compile each text once; nothing that was wanted is missing.

    Checked programs run launch by launch: these, and kernels of loops that end early, have no text.
    """
    functions = {re.sub(r"_\d+$", "", f.name) for c in seen for f in c.unit.funcs}
    functions |= {c.unit.name.removeprefix("morph_") for c in seen} | seen.inlined
    assert seen and (is_checked() or wanted and wanted <= functions), wanted - functions
    sm90.compile_all({prelude_of(c.unit) + c.text: entry(c.unit) for c in seen})


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
def test_language(monkeypatch, units, name):
    """The kernels of tests of the language: each test of it runs on the CPU."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "language")
    module = importlib.import_module(name)
    for kernel in launched(vars(module)).values():  # launches of the tests themselves
        kernel.launches.clear(), kernel.units.clear()
    tests = [f for n, f in vars(module).items() if n.startswith("test_")]
    for test in (f for f in tests if "target" in f.__code__.co_varnames):
        marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
        for value in marks[0].args[1] if marks else [()]:
            test("cpu", *(value if isinstance(value, tuple) else (value,)))
    compile_all(units, {n for n, k in launched(vars(module)).items() if k.launches})


def test_what_writes_a_few_words():
    assert b"put" in cuda.build(small_copies.MODULE, "sm_90", name="put")
    for op in combining.OPERATIONS:
        text = combining.text("i8", op)
        assert b"combine" in cuda.build(text, "sm_90", name="combine")
