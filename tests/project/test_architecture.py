"""Layers of packages, limits on files and functions, and the contents of the top-level folder."""

import ast
import importlib.util
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import morph

ROOT = Path(__file__).parents[2]
MODULES = {
    ".".join(f.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): f
    for f in sorted((ROOT / "morph").rglob("*.py"))
}
HEAVY = {
    "cupy", "cupyx", "igraph", "matplotlib", "meshio", "networkx", "pandas", "polars", "pyarrow",
    "pysat", "scipy", "shapely",
}  # fmt: skip

BELOW_LAUNCH = "language runtime data graph"
PUBLIC = "language data graph mesh launch operators partition prelude runtime"
DOORS = f"{PUBLIC} algorithms generate io survey worklists"

# order algorithms, check answers, stop compilers
SOLVERS = {"divided", "search", "solver"}

# Package or module -> the packages that it may import, from the lowest layer to the highest.  The
# most specific line counts.  Imports in functions and under TYPE_CHECKING count.  A line names only
# lines above it and itself (test_layers_are_in_order), so no cycle between packages can arise.
LAYERS = {
    "language": "language",
    "prelude": "language",
    "compiler.ir.layout": "",  # of arrays that host and kernels share
    "compiler.ir": "language compiler.ir",
    "compiler.passes": "language compiler.ir compiler.passes",
    "compiler.partitioning": "language compiler.ir compiler.passes compiler.partitioning",
    "compiler.frontend": "language compiler.ir compiler.passes compiler.frontend",
    "compiler.codegen": "language compiler.ir compiler.passes compiler.codegen",
    "compiler": "",
    "runtime.toolchain": "runtime.toolchain",  # text and flags to a binary; no part of the language
    "runtime.threads": "",
    "runtime.cuda.driver": "",
    "runtime.transfer": "",
    "runtime.arrays": "language",
    "runtime.backend": "language compiler.ir runtime.arrays",
    "runtime.device": "language runtime.arrays runtime.backend",
    "runtime.cpu.device": "language compiler.ir runtime.arrays runtime.backend runtime.device"
    " runtime.threads",
    "runtime.interpreter": "language compiler.ir runtime.backend runtime.cpu.device"
    " runtime.interpreter",  # independent of codegen
    "runtime": "language compiler.ir compiler.passes compiler.codegen runtime",
    "data": "language compiler.ir.layout runtime data",
    "graph": f"{BELOW_LAUNCH} compiler.ir.layout",
    "launch": f"{BELOW_LAUNCH} compiler launch",
    "operators": "language runtime data launch prelude operators",
    "updates": f"{BELOW_LAUNCH} launch prelude updates",
    "partition": f"{BELOW_LAUNCH} compiler launch updates partition",
    "mesh": "language runtime mesh",
    "providers": "data graph launch mesh partition",  # binds the hooks, see HOOKS
    # no part of the algorithms that it checks
    "validate": "language.arguments language.messages runtime data graph validate",
    "generate": f"{BELOW_LAUNCH} launch prelude partition generate",
    "algorithms.graph": f"{PUBLIC} algorithms.graph",
    "algorithms.community": f"{PUBLIC} algorithms.graph algorithms.community",
    "algorithms.dynamic": f"{PUBLIC} algorithms.graph algorithms.dynamic",
    "algorithms.sat": f"{PUBLIC} validate algorithms.sat",
    "algorithms.registration": "language",
    "algorithms.registry": "algorithms.registration",
    "algorithms.triangulation": f"{PUBLIC} algorithms.triangulation",
    "algorithms.refinement": f"{PUBLIC} algorithms.triangulation algorithms.refinement",
    "algorithms": "",
    "survey": "algorithms.sat",
    "worklists": "operators",
    "start": "runtime.cuda.driver",
    "": f"{PUBLIC} algorithms providers start",
    "testing": "launch runtime compiler.ir",
    "io.text": "language runtime.threads runtime.toolchain io.text",
    "io.mesh": "language mesh io.text io.mesh",
    "io.sat": "language data partition io.text io.sat",
    "io.graph": f"{BELOW_LAUNCH} compiler.ir.layout partition updates io.text io.graph",
    "io": "language io",
    "plotting": "language io.text mesh plotting",
    "networkx_backend": "language graph algorithms networkx_backend",
    "networkx_info": "",
    "cli": f"{PUBLIC} __version__ algorithms cli generate io plotting start survey validate",
    "__main__": "cli",
}

# Modules with hooks: functions that a lower layer calls and morph/providers.py binds by name, or
# functions of the same package whose module `import morph` need not load.
HOOKS = {
    "morph.algorithms.refinement.refine": "several devices need the launcher of parts",
    "morph.data.formula": "Formula.of reads files",
    "morph.graph.adjacency": "a change of an index in place is a launch",
    "morph.graph.applied": "the records of a batch are read when asked for",
    "morph.graph.export": "Graph.plot",
    "morph.graph.graph": "Graph.apply is a launch; deletion knows graphs",
    "morph.mesh.mesh": "Mesh.read, write, plot",
    "morph.mesh.pslg": "Pslg.read, write",
    "morph.partition.group": "several devices that run a program together need the compiler",
    "morph.partition.graph": "`PartitionedGraph.checkpoint` writes files",
    "morph.launch.kernels": "a launch on the parts of a graph",
    "morph.launch.foreach": "the first launch imports the compiler",
    "morph.launch.jobs": "an interrupt ends launches",
    "morph.launch.ahead": "the first call begins to compile its units",
    "morph.launch.binding": "the compiler is imported when a unit has no record",
    "morph.launch.compiled": "the compiler prints, and enlarges, a unit without a record",
    "morph.launch.launcher": "a violation, or a full queue, is looked up in the IR",
    "morph.launch.lookup": "the device `python` imports the interpreter",
    "morph.launch.scratch": "the checked mode imports the sites",
    "morph.runtime.arrays": "the device of a GPU array copies it to the host",
    "morph.runtime.backend": "the registry: a device's class is imported when it is asked for",
    "morph.runtime.cpu.device": "the first launch imports the compiler",
    "morph.runtime.cuda.device": "the first launch imports the compiler",
    "morph.runtime.interpreter.device": "the first launch imports the interpreter",
}

# Packages whose modules must not import each other in a cycle, type-only imports counted.
ACYCLIC = ("morph.data", "morph.graph", "morph.launch", "morph.runtime", "morph.language")

# Limits for a function: lines of code, cyclomatic complexity, parameters (keyword-only options of
# public functions aside).  The functions below exceed one and may not grow: delete or lower a row
# when its function shrinks.
LIMITS = (60, 15, 8)
LARGER = {}

# Words of private meanings, for which the field has terms (table of names in the glossary).
PRIVATE = set(
    """ahead alone apex arrive aside ask at attach begin birth born budget bury calm carve cell
    crew crowd cut deal depart dies dig doubts due entry far fate flush found gather goal
    gone head hold hub judge keep lay lean leave lent level lighten limit live locate look
    mend moving note odd offer onward order own park part pending persist place plain
    postpone promote pull push rank read reborn release replay rest rim ring room run see
    served settle settled spread spreads stage stock strayed sums tail tell there together
    toil told torn turn twin walls way ways whole withdraw words""".split()
)

# Words that are also terms of the field, and what they mean here.
STANDARD = {
    "ahead": "the option `ahead`",
    "alone": "`Program.alone`, which is public",
    "arrive": "at a barrier",
    "at": "a position",
    "attach": "parents of a tree; columns",
    "begin": "of an interval; a verb",
    "budget": "`conf_budget` and `prop_budget` of PySAT's solvers",
    "cut": "edges between parts of a graph",
    "entry": "of a table or an adjacency list",
    "far": "the far bucket of near-far",
    "flush": "of a staging buffer",
    "found": "a result",
    "gather": "loads from scattered addresses",
    "head": "of a file or queue; a target's vertex",
    "keep": "options of readers; `worklists.keep`",
    "level": "of a breadth-first search",
    "limit": "an upper bound",
    "live": "liveness; rows that are not deleted",
    "look": "to look up",
    "note": "a user's note in a snapshot, public",
    "order": "of points, elements, vertices",
    "own": "that of the item itself",
    "part": "of an array",
    "place": "an lvalue of the language",
    "pull": "direction of a search",
    "push": "direction of a search",
    "rank": "PageRank; place in an order",
    "read": "input; an access",
    "release": "of locks, claims and barriers",
    "rest": "the remaining part",
    "ring": "a ring buffer",
    "run": "to execute",
    "settled": "vertices with final distances (Dijkstra)",
    "spread": "values from rows to their mirrors",
    "spreads": "columns whose values go to mirrors",
    "stage": "of a search; of staging",
    "sums": "of messages",
    "tail": "of a queue; a source vertex",
    "together": "the option `together`",
    "torn": "a torn write",
    "words": "of bits",
}

# Words not yet renamed, and the packages that still have them: none may be added.
REMAINING = {
    "told": "io.graph.journal",  # `Journal(told=)`, deprecated
}


def measures(function: ast.FunctionDef) -> tuple[int, int, int]:
    """Lines of code, cyclomatic complexity and parameters of a function."""
    branches = ast.If | ast.For | ast.While | ast.ExceptHandler | ast.match_case | ast.FunctionDef
    complexity = sum(isinstance(n, branches) for n in ast.walk(function))
    a = function.args
    parameters = [x.arg for x in [*a.posonlyargs, *a.args] if x.arg not in ("self", "cls")]
    if function.name.startswith("_"):
        parameters += [x.arg for x in a.kwonlyargs]
    return STRUCTURE.code_lines(function), complexity, len(parameters)


def load_structure():
    spec = importlib.util.spec_from_file_location("structure", ROOT / "benchmarks/structure.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STRUCTURE = load_structure()


@cache
def tree_of_imports():
    return STRUCTURE.Tree(ROOT)


@cache
def parsed(file: Path) -> ast.Module:
    known = tree_of_imports().parsed  # the package's files
    return known.get(file.relative_to(ROOT).as_posix()) or ast.parse(file.read_text())


def within(module: str, homes: str | list[str]) -> list[str]:
    """Which of ``homes`` a module, named without ``morph.``, is or lies in."""
    homes = homes.split() if isinstance(homes, str) else homes
    return [h for h in homes if module == h or module.startswith(h + ".")]


def imports(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Modules and names that a file imports, in functions and under TYPE_CHECKING too."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                yield from ((a.name, "", node.lineno) for a in names)
            case ast.ImportFrom(module, names, 0):
                yield from ((module or "", a.name, node.lineno) for a in names)
            case ast.ImportFrom():
                raise AssertionError(f"line {node.lineno}: imports are absolute here")


def own_imports(file: Path) -> Iterator[tuple[str, str, int]]:
    """What a file imports from the package, as (module without ``morph.``, name, line)."""
    for module, name, line in imports(parsed(file)):
        if module.split(".")[0] != "morph":
            continue
        if f"{module}.{name}" in MODULES:  # from morph.compiler import ir
            module, name = f"{module}.{name}", ""
        yield module.removeprefix("morph").removeprefix("."), name, line


def test_layers_are_in_order():
    order = list(LAYERS)
    for at, (layer, allowed) in enumerate(LAYERS.items()):
        for name in allowed.split():
            found = [k for k in order if within(k, name)] or within(name, order) or [""]
            above = [k for k in found if order.index(k) > at]
            assert not above, f"{layer!r} imports {name}, but {above} come after it"


@pytest.mark.parametrize("module", MODULES)
def test_imports_keep_to_their_layer(module):
    short = module.removeprefix("morph").removeprefix(".")
    homes = [""] if not short else within(short, [h for h in LAYERS if h])
    assert homes, f"{module} is in no layer: add it to LAYERS"
    allowed = LAYERS[max(homes, key=len)]
    broken = [
        f"{MODULES[module].relative_to(ROOT)}:{line}: imports morph.{used or name}"
        for used, name, line in own_imports(MODULES[module])
        if not within(used or name, allowed)
    ]
    assert not broken, "\n".join(broken) + f"\nallowed: {' '.join(allowed.split())}"


def test_names_of_modules_are_imported_in_few_places():  # each could hide an import from LAYERS
    calls = {
        m: [ast.unparse(n) for n in ast.walk(parsed(f)) if isinstance(n, ast.Call)]
        for m, f in MODULES.items()
    }

    def callers(pattern: str) -> set[str]:
        return {m for m, texts in calls.items() if any(re.match(pattern, t) for t in texts)}

    assert not callers(r"importlib\.import_module\((?!'\w+'\))")
    # public names, algorithms of the registry, and providers of hooks, at their first use
    assert callers(r"attach\(") == {"morph", "morph.io"}
    assert callers(r"uninterrupted\(") == {
        "morph.algorithms.registration", "morph.language.imports",
    }  # fmt: skip
    assert callers(r"import_uninterrupted\(") == {"morph.language.hooks"}
    # commands, kernels of common units
    resolving = {"morph.cli", "morph.launch.common_units"}
    assert callers(r"(pkgutil\.)?resolve_name\(") == resolving
    assert callers(r"[\w.]+\.bind\('") == {"morph.providers"}
    assert callers(r"Hook\(") == set(HOOKS)
    for module, texts in calls.items():
        for target in (t.removeprefix("Hook('") for t in texts if t.startswith("Hook('")):
            assert target.split(".")[:2] == module.split(".")[:2], f"{module}: {target}"


def test_cupy_is_imported_by_the_runtime():
    users = {m for m, f in MODULES.items() if STRUCTURE.uses_cupy(parsed(f))}
    assert users and not {m for m in users if not within(m, "morph.runtime")}


def test_kinds_of_devices_are_compared_in_the_runtime():
    found = STRUCTURE.device_comparisons(tree_of_imports())
    assert found.total() <= 3, found


def test_no_cycles_between_modules():
    graph = {m: set() for m in MODULES}
    for i in tree_of_imports().imports():
        graph[i.source].add(i.target)
    found = STRUCTURE.cycles(graph)
    assert not [c for c in found if any(within(m, list(ACYCLIC)) for m in c)]


@pytest.mark.parametrize("module", MODULES)
def test_functions_keep_to_the_limits(module):
    tree, short = parsed(MODULES[module]), module.removeprefix("morph.")
    found = {
        f"{short}.{f.name}": measures(f) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)
    }
    for name, sizes in found.items():
        most = tuple(map(max, LIMITS, LARGER.get(name, LIMITS)))
        assert all(map(int.__le__, sizes, most)), f"{name}: {sizes}, limits {most}"
    for name in LARGER:
        if name.rpartition(".")[0] == short:
            assert name in found and any(map(int.__gt__, found[name], LIMITS)), f"drop {name}"


@pytest.mark.parametrize(
    "module",
    [m for m in MODULES if within(m, "morph.algorithms") and m.rpartition(".")[2] not in SOLVERS],
)
def test_algorithms_use_public_names_only(module):
    import morph.prelude
    import morph.worklists

    types = {"Applied", "Device", "DeviceGroup", "DividedFormula", "Function", "Hook", "VertexIds",
             "Lookup", "RankGroup", "RepairWarning", "Row"}  # fmt: skip
    public = {*morph.__all__, *morph.worklists.__all__}
    public |= {*vars(morph.prelude), *types, "counting", "detach", "exclusive", "integer",
               "real_array"}  # fmt: skip
    public |= {"all_true", "any_true", "bincount", "count_each", "count_true", "rough_mean"}
    public |= {
        "available_threads",
        "boolean",
        "check_callable",
        "check_choice",
        "check_number",
        "have_reverses",
        "is_checked",
        "name_of",
    }
    public |= {"listed", "mix32", "mix64", "refuse_masked", "refuse_rounded", "shortened", "shown"}
    public |= {"uninterrupted", "unmix64"}
    public |= {"compile_ahead", "device_for", "plus", "set_lengths", "share_of", "sort_words"}
    public |= {"KeptLaunches", "behind", "bounds_of", "clauses_of", "in_background", "joined"}
    broken = [
        f"{MODULES[module].relative_to(ROOT)}:{line}: {used}.{name}"
        for used, name, line in own_imports(MODULES[module])
        if not within(used, "algorithms") and name not in public
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("module", [m for m in MODULES if within(m, "morph.algorithms.graph")])
def test_graph_algorithms_reduce_no_arrays_of_bools(module):
    """CuPy compiles such a reduction for 4 s; see `morph.runtime.arrays.all_true`."""
    text = MODULES[module].read_text(encoding="utf-8")
    assert not re.findall(r".*(?:\.(?:any|all)\(\)| (?:[=!<>]=|<|>) [^()]*\)+\.sum\(\)).*", text)


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
    wanted |= {"pyproject.toml", "hatch_build.py", "mkdocs.yml"}
    wanted |= {"README.md", "CHANGELOG.md", "LICENSE", "CONTRIBUTING.md", "CITATION.cff"}
    wanted |= {".ci", ".github", ".gitignore"}
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("git is not there to tell which files are ours")
    found = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert found == wanted


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
        for module, file in MODULES.items()
        for node in parsed(file).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        if not within(module, "morph.networkx_backend")  # NetworkX itself imports these
        for name in [getattr(node, "module", None), *(a.name for a in node.names)]
        if name and name.partition(".")[0] in HEAVY
    ]
    assert not broken


def words_of(name: str) -> set[str]:
    """The words of an identifier, lower case."""
    return {w.lower() for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def names_of_python(tree: ast.AST) -> Iterator[str]:
    """Names of functions, classes, arguments and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def names_of_header(text: str) -> Iterator[str]:
    """Names of types and functions of a C++ header."""
    code = re.sub(r"//.*", "", text)
    yield from re.findall(r"\b(?:struct|union|enum|typedef \w+) (\w+)", code)
    yield from re.findall(r"\bMORPH_\w+ (?:[\w:<>,*& ]+?[ *&])?(\w+)\(", code)


def private_words() -> dict[str, set[str]]:
    """Words of the glossary's left column in names, with their files."""
    found: dict[str, set[str]] = {}
    for module, file in MODULES.items():
        names = [module.rpartition(".")[2], *names_of_python(parsed(file))]
        for word in set().union(*map(words_of, names)) & PRIVATE:
            found.setdefault(word, set()).add(module.removeprefix("morph."))
    for file in (ROOT / "kernels").rglob("*.h"):
        short = f"kernels.{file.relative_to(ROOT / 'kernels').with_suffix('').as_posix()}"
        for word in set().union(*map(words_of, names_of_header(file.read_text()))) & PRIVATE:
            found.setdefault(word, set()).add(short.replace("/", "."))
    return found


def test_names_have_no_private_words():
    refused = {
        word: left
        for word, modules in private_words().items()
        if word not in STANDARD
        and (left := {m for m in modules if not within(m, REMAINING.get(word, ""))})
    }
    assert not refused, "take a term of the field, or explain the word in STANDARD"


def test_prelude_includes_no_header():
    for header in (ROOT / "kernels").rglob("*.h"):
        assert "#include" not in header.read_text(), header.name


def test_errors_have_public_names():
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "errors.md").read_text(), re.M)
    names = [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    assert {"morph.DeviceError", "morph.PartError", "morph.CompileError"} <= {*names}
    for name in names:
        place, _, last = name.rpartition(".")
        kind = getattr(pkgutil.resolve_name(place or "builtins"), last)
        assert issubclass(kind, Exception), name


def test_public_names_are_there():
    assert morph.__all__ == sorted(set(morph.__all__))
    for name in morph.__all__:
        assert getattr(morph, name).__doc__, name
