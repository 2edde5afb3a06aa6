"""The floors of the house: who may import whom, how long a file may be, what lies at the top."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import morph

ROOT = Path(__file__).parent.parent
MODULES = {
    ".".join(f.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): f
    for f in sorted((ROOT / "morph").rglob("*.py"))
}
HEAVY = {"cupy", "cupyx", "igraph", "matplotlib", "meshio", "networkx", "pysat", "scipy", "shapely"}

BELOW_LAUNCH = "language runtime data graph"
PUBLIC = "language data graph mesh launch operators prelude runtime"
DOORS = f"{PUBLIC} algorithms generate io survey worklists"

# order algorithms, check answers, stop compilers
SOLVERS = {"search", "solver"}

# module or package -> what it may import, inside functions too; the most specific line counts
FLOORS = {
    "language": "language",
    "compiler": "language compiler.ir",
    "compiler.frontend": "language compiler.ir compiler.passes compiler.frontend",
    "compiler.passes": "language compiler.ir compiler.passes",
    "compiler.codegen": "language compiler.ir compiler.passes compiler.codegen",
    "runtime": "language compiler runtime",
    "runtime.toolchain": "runtime.toolchain",
    "runtime.interpreter": "language compiler.ir runtime.interpreter",
    "data": "language runtime data",
    "graph": "language runtime data graph",
    "mesh": "language runtime data mesh",
    "launch": f"{BELOW_LAUNCH} compiler launch",
    "operators": f"{BELOW_LAUNCH} launch operators prelude",
    "updates": f"{BELOW_LAUNCH} launch prelude updates",
    "validate": f"{BELOW_LAUNCH} mesh validate",  # nothing of the algorithms that it judges
    "generate": f"{BELOW_LAUNCH} mesh generate",
    "algorithms": f"{PUBLIC} algorithms updates",
    "algorithms.sat": f"{PUBLIC} algorithms validate",
    "io": f"{BELOW_LAUNCH} mesh io updates",
    "plotting": "language io.text mesh plotting",
    "cli": f"{PUBLIC} __version__ algorithms cli generate io plotting survey updates validate",
    "__main__": "cli",
    "prelude": "language",
    "survey": "algorithms",
    "testing": "launch runtime compiler.ir",
    "worklists": "operators",
    "providers": "data graph mesh",
    "": f"{PUBLIC} algorithms providers",
}


def within(module: str, homes: str | list[str]) -> list[str]:
    """Which of ``homes`` a module, named without ``morph.``, is or lies in."""
    homes = homes.split() if isinstance(homes, str) else homes
    return [h for h in homes if module == h or module.startswith(h + ".")]


def imports(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Modules and names that a file really imports; those for annotations only are left out."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                yield from (found for e in node.orelse for found in imports(e))
                continue
            case ast.Import(names):
                yield from ((a.name, "", node.lineno) for a in names)
            case ast.ImportFrom(module, names, 0):
                yield from ((module or "", a.name, node.lineno) for a in names)
            case ast.ImportFrom():
                raise AssertionError(f"line {node.lineno}: imports are absolute here")
        yield from imports(node)


def own_imports(file: Path) -> Iterator[tuple[str, str, int]]:
    """What a file imports from the package, as (module without ``morph.``, name, line)."""
    for module, name, line in imports(ast.parse(file.read_text())):
        if module.split(".")[0] != "morph":
            continue
        if f"{module}.{name}" in MODULES:  # from morph.compiler import ir
            module, name = f"{module}.{name}", ""
        yield module.removeprefix("morph").removeprefix("."), name, line


@pytest.mark.parametrize("module", MODULES)
def test_imports_keep_to_their_floor(module):
    short = module.removeprefix("morph").removeprefix(".")
    homes = [""] if not short else within(short, [h for h in FLOORS if h])
    assert homes, f"{module} stands on no floor: add it to FLOORS"
    allowed = FLOORS[max(homes, key=len)]
    broken = [
        f"{MODULES[module].relative_to(ROOT)}:{line}: imports morph.{used or name}"
        for used, name, line in own_imports(MODULES[module])
        if not within(used or name, allowed)
    ]
    assert not broken, "\n".join(broken) + f"\nallowed: {' '.join(allowed.split())}"


@pytest.mark.parametrize(
    "module",
    [m for m in MODULES if within(m, "morph.algorithms") and m.rpartition(".")[2] not in SOLVERS],
)
def test_algorithms_use_public_names_only(module):
    import morph.prelude

    types = {"Applied", "Device", "Function", "RepairWarning", "real_array"}
    public = {*morph.__all__, *vars(morph.prelude), *types, "counting", "exclusive", "number"}
    public |= {"available_threads", "shortened", "shown", "truth", "whole"}
    broken = [
        f"{MODULES[module].relative_to(ROOT)}:{line}: {used}.{name}"
        for used, name, line in own_imports(MODULES[module])
        if not within(used, "algorithms") and name not in public
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("file", sorted((ROOT / "examples").rglob("*.py")), ids=lambda f: f.name)
def test_examples_use_public_modules_only(file):
    broken = [
        f"{file.relative_to(ROOT)}:{line}: imports morph.{used}"
        for used, name, line in own_imports(file)
        if (used or name) and not within(used or name, [*morph.__all__, *DOORS.split()])
    ]
    assert not broken, "\n".join(broken)


def test_files_have_one_subject():  # a length above 1,000 lines shows that they do not
    parts = [*MODULES.values(), *(ROOT / "kernels").rglob("*.h"), *(ROOT / "tests").rglob("*.py")]
    parts += [*(ROOT / "examples").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    lengths = {str(f.relative_to(ROOT)): len(f.read_text().splitlines()) for f in parts}
    assert not {name: n for name, n in lengths.items() if n > 1000}


def test_top_level():
    wanted = set("morph kernels meshes tests examples docs benchmarks".split())
    wanted |= {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"}
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("git is not there to tell which files are ours")
    found = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert {name for name in found if not name.startswith(".")} == wanted


def test_import_is_light():
    code = "import sys, morph, morph.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert not HEAVY & {m.partition(".")[0] for m in loaded}
    later = {
        "morph.compiler.ir.nodes",
        "morph.launch.launcher",
        "morph.io",
        "morph.generate",
    }  # when used
    assert not later & set(loaded)


def test_readers_are_reached_through_the_package():
    code = "import morph; morph.io.read_graph; morph.generate.grid; morph.nothing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "module 'morph' has no attribute 'nothing'" in done.stderr.splitlines()[-1]


def test_heavy_imports_are_inside_functions():
    broken = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in MODULES.values()
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None), *(a.name for a in node.names)]
        if name and name.partition(".")[0] in HEAVY
    ]
    assert not broken


def test_prelude_includes_no_header():
    for header in (ROOT / "kernels").rglob("*.h"):
        assert "#include" not in header.read_text(), header.name


def test_public_names_are_there():
    assert len(morph.__all__) == len(set(morph.__all__))
    assert sorted(morph.__all__) == list(morph.__all__)
    for name in morph.__all__:
        assert getattr(morph, name).__doc__, name
