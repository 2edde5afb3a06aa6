"""Hashes of the C++ text of every unit: kernels and programs of the package, examples and docs.

Nothing is compiled, see `recorder`.  One text serves the CPU and CUDA; of a kernel there is a
second text, that of a checked launch.
Directives ``#line`` are left out, so that a file may be moved or reformatted.

`python tests/support/golden.py` writes the present hashes to golden_units.txt beside it.  With the
name of a file it prints them, and writes the texts of the unchecked units to that file, as JSON.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import re
import runpy
import sys
import tempfile
from pathlib import Path

import every_unit
import unit_programs
import units
from every_unit import ROOT
from quotes import remade
from recorder import Recorder

import morph
from morph.compiler.codegen.unit import prelude
from morph.runtime.cuda import small_copies
from morph.testing import team

FILE = Path(__file__).parent / "golden_units.txt"
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def surveys() -> None:
    """All that decides formulas: few sweeps, for they are interpreted."""
    with team(1):
        formula = morph.generate.random_ksat(3, 8, 3, seed=1)
        long = morph.Formula.of([[*range(1, 11)], [-1, -2, 3], [*range(-10, -5)], [2, 4, -5]])
        options = {"fraction": 0.5, "max_sweeps": 4, "tolerance": 0.05}
        for f in (formula, long):
            morph.survey.solve(f, device="cpu", method="decimation", options=options)
            morph.survey.surveys(f, device="cpu", max_sweeps=3)
        assert morph.survey.walksat(formula, device="cpu").steps > 0
        clash = morph.Formula.of([[1, 2], [1, -2], [-1, 2], [-1, -2], [1, 3], [1, 4], [2, 5]])
        assert morph.survey.solve(clash, device="cpu").cycle
        assert morph.survey.believe(clash, 1, fraction=0.2, lossy=True).rollbacks
        morph.survey.decimate(formula, max_rounds=2, **options)
        hard = morph.generate.random_ksat(3, 6, 4.5, seed=1)
        options = {"max_rounds": 3, "fraction": 0.6, "tolerance": 0.5, "max_sweeps": 4}
        found = morph.survey.backtrack(hard, **options)
        assert found.rollbacks and any(r.released for r in found.rounds)
        morph.survey.reinforce(formula, max_sweeps=3)


def strict_refinement() -> None:
    """Refinement with sizes, a kept boundary and empty diametral circles; a largest angle."""
    rim = [[0, 1], [1, 2], [2, 3], [3, 0]]
    plate = morph.Pslg([[0, 0], [2, 0], [2, 1], [0, 1]], rim)
    morph.refine(plate, 31, size=0.3, boundary="keep-all", conforming=True, max_points=3)
    morph.refine(plate, max_angle=120, max_points=3)


def examples(folder: Path) -> None:
    """Those that have kernels of their own."""
    roads = folder / "roads.gr"
    roads.write_text("p sp 4 4\na 1 2 3\na 1 3 3000\na 2 3 2\na 3 4 5\n")
    for example in sorted((ROOT / "examples" / "falcon").glob("*.py")):
        runpy.run_path(str(example))["main"](roads, "cpu")
    for name, given in {"shortest_paths": {"n": 20}, "contract": {"side": 5}}.items():
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"]("cpu", **given)


def pages(folder: Path) -> None:
    """Kernels of README.md and docs/."""
    readme = "\n".join(b for b in CODE.findall((ROOT / "README.md").read_text()))
    kernels = readme[readme.index("from morph.prelude") :]
    language = "\n".join(CODE.findall((ROOT / "docs" / "language.md").read_text()))
    for name, text in {"readme": f"import morph\n{kernels}", "language": language}.items():
        file = folder / f"{name}.py"
        file.write_text(text)
        runpy.run_path(str(file))
    remade()


def recorded() -> Recorder:
    """The lines of the file, which have unit, targets, kind and SHA-256; and the texts."""
    recorder = Recorder()
    recorder.install()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        every_unit.graphs(), every_unit.batches(), every_unit.worklists()
        every_unit.queues(), every_unit.edge_maps(), every_unit.generators(), every_unit.wide()
        every_unit.meshes(), strict_refinement(), surveys()
        examples(Path(folder)), pages(Path(folder))
    for make in (*units.ALL.values(), *unit_programs.ALL.values()):
        recorder.unit(make())
    known = (every_unit.launched(vars(m)) for m in every_unit.modules())
    missing = {x.__name__ for found in known for x in found.values()} - recorder.names
    assert not missing, f"never launched: {', '.join(sorted(missing))}"
    recorder.text("put", "cuda", small_copies.MODULE)
    for header in (ROOT / "kernels").rglob("*.h"):
        recorder.text(header.name, "cpu+cuda", header.read_text())
    for name, text in {"prelude": prelude(), "checked_prelude": prelude(True)}.items():
        recorder.text(name, "cpu+cuda", text)
    return recorder


if __name__ == "__main__":
    if any(argument.startswith("-") for argument in sys.argv[1:]):
        sys.exit(f"{sys.argv[1:]}: expected nothing, or the name of a file to write")
    gc.disable()  # units are kept, and collections would take a quarter of the time
    found = recorded()
    lines = "".join(f"{line}\n" for line in sorted(found.lines))
    if sys.argv[1:]:
        sys.stdout.write(lines)
        Path(sys.argv[1]).write_text(json.dumps(found.texts))
    else:
        FILE.write_text(lines)
