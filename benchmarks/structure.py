"""Measure the structure of the source tree: sizes, import cycles, long functions, glossary words.

    python benchmarks/structure.py --root DIR --glossary FILE --json

Imports inside functions and under TYPE_CHECKING count.  The glossary is a Markdown file with a
table `| now | standard term |` of names; without it words are not counted.  Complexity and
parameters are counted by ruff, if it is installed.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

MOST_LINES, MOST_COMPLEXITY, MOST_PARAMETERS = 60, 15, 8
DEVICES = {"cpu", "cuda", "python"}
DEVICE_CODE = {"kernel", "func", "program"}
HOMES_OF_DEVICES = {"runtime", "run", "build", "engine"}
Function = ast.FunctionDef | ast.AsyncFunctionDef
Graph = dict[str, set[str]]


class Import(NamedTuple):
    """An import of one module of the package by another."""

    source: str
    target: str
    kind: str  # "top", "lazy" or "type"
    line: int


class Tree:
    """The files of a checkout, parsed once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.texts = {
            f.relative_to(root).as_posix(): f.read_text()
            for folder, end in (("morph", "py"), ("tests", "py"), ("kernels", "h"))
            for f in sorted((root / folder).rglob(f"*.{end}"))
        }
        self.parsed = {
            name: ast.parse(text) for name, text in self.texts.items() if name.startswith("morph/")
        }
        self.modules = {
            name.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): name
            for name in self.parsed
        }

    def imports(self) -> Iterator[Import]:
        """Imports of the package's own modules."""
        for module, name in self.modules.items():
            for kind, node in walk_imports(self.parsed[name]):
                for target in self.targets(node):
                    if target != module:
                        yield Import(module, target, kind, node.lineno)

    def targets(self, node: ast.Import | ast.ImportFrom) -> set[str]:
        """Give the modules that a statement imports."""
        if isinstance(node, ast.Import):
            return {a.name for a in node.names} & self.modules.keys()
        home = node.module or ""
        found = {f"{home}.{a.name}" for a in node.names}
        known = found & self.modules.keys()
        return known | ({home} & self.modules.keys() if found - known else set())

    def functions(self) -> Iterator[tuple[str, Function]]:
        """All functions with their files."""
        found = ((name, n) for name, tree in self.parsed.items() for n in ast.walk(tree))
        return ((name, n) for name, n in found if isinstance(n, Function))


def walk_imports(
    node: ast.AST, kind: str = "top"
) -> Iterator[tuple[str, ast.Import | ast.ImportFrom]]:
    """Give import statements and where they stand."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield kind, child
        elif isinstance(child, Function):
            yield from walk_imports(child, "lazy")
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from walk_imports(child, "type")
        else:
            yield from walk_imports(child, kind)


def cycles(graph: Graph) -> list[list[str]]:
    """Strongly connected components of more than one node, the largest first."""

    def reached(start: str) -> set[str]:
        found, todo = set[str](), [start]
        while todo:
            new = graph.get(todo.pop(), set()) - found
            found |= new
            todo += new
        return found

    below = {node: reached(node) for node in graph}
    groups = {frozenset(b for b in below[a] if a in below.get(b, ())) for a in graph}
    return sorted((sorted(g) for g in groups if len(g) > 1), key=len, reverse=True)


def code_lines(function: Function) -> int:
    """Lines on which a statement or an expression begins or ends, the docstring aside."""
    start = 1 if ast.get_docstring(function) is not None else 0
    body = ast.Module(body=function.body[start:], type_ignores=[])
    parts = (n for n in ast.walk(body) if isinstance(n, ast.expr | ast.stmt))
    return len({line for n in parts for line in (n.lineno, n.end_lineno)})


def decorators(function: Function) -> set[str]:
    """The last parts of a function's decorators' names."""
    names = (d.func if isinstance(d, ast.Call) else d for d in function.decorator_list)
    return {ast.unparse(n).rpartition(".")[2] for n in names}


def device_comparisons(tree: Tree) -> Counter[str]:
    """Comparisons of a device's kind outside the packages that run kernels, by file."""
    found = Counter[str]()
    for name, parsed in tree.parsed.items():
        if name.split("/")[1] in HOMES_OF_DEVICES:
            continue
        for node in ast.walk(parsed):
            if isinstance(node, ast.Compare):
                values = [c.value for c in ast.walk(node) if isinstance(c, ast.Constant)]
                found[name] += bool(DEVICES.intersection(v for v in values if isinstance(v, str)))
    return +found


def uses_cupy(parsed: ast.AST) -> bool:
    """Whether a module imports CuPy."""
    calls = (n for n in ast.walk(parsed) if isinstance(n, ast.Call))
    dynamic = (ast.unparse(n) for n in calls if ast.unparse(n.func).endswith("import_module"))
    plain = (ast.unparse(node) for _, node in walk_imports(parsed))
    return any("cupy" in text for text in (*dynamic, *plain))


def ruff(root: Path) -> dict[str, int]:
    """Functions that are too complex or have too many parameters, keyword-only ones included."""
    if shutil.which("ruff") is None:
        return {}
    options = ["--config", f"lint.mccabe.max-complexity={MOST_COMPLEXITY}"]
    options += ["--config", f"lint.pylint.max-args={MOST_PARAMETERS}"]
    command = ["ruff", "check", "--isolated", "--select", "C901,PLR0913", *options]
    command += ["--output-format", "json", str(root / "morph")]
    done = subprocess.run(command, capture_output=True, text=True)
    codes = Counter(found["code"] for found in json.loads(done.stdout or "[]"))
    return {
        f"functions above complexity {MOST_COMPLEXITY}": codes["C901"],
        f"functions above {MOST_PARAMETERS} parameters": codes["PLR0913"],
    }


def glossary_words(file: Path) -> set[str]:
    """Single words of the left column of the glossary's table of names."""
    table = file.read_text().partition("| now | standard term |")[2]
    left = (row.split("|")[1] for row in table.splitlines() if row.startswith("| "))
    terms = re.split(r"[,;/]", re.sub(r"\([^)]*\)|`", "", ",".join(left)))
    return {t.strip().lower() for t in terms if re.fullmatch(r"\s*[A-Za-z]+\s*", t)}


def names(tree: Tree) -> Iterator[str]:
    """Names of modules, classes, functions and parameters."""
    yield from (module.rpartition(".")[2] for module in tree.modules)
    for parsed in tree.parsed.values():
        for node in ast.walk(parsed):
            if isinstance(node, Function | ast.ClassDef):
                yield node.name
            if isinstance(node, ast.arg):
                yield node.arg


def measure(root: Path, glossary: Path | None) -> dict[str, Any]:
    """All measures, by what they count; dictionaries have one entry a file or word."""
    tree = Tree(root)
    files, lines = Counter(name.split("/")[0] for name in tree.texts), Counter[str]()
    for name, text in tree.texts.items():
        lines[name.split("/")[0]] += len(text.splitlines())
    imports = list(tree.imports())
    modules, packages = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for i in imports:
        modules[i.source].add(i.target)
        source, target = (".".join(m.split(".")[:2]) for m in (i.source, i.target))
        packages[source] |= {target} - {source}  # a module at the top counts as a package
    lengths = {f"{name}:{f.lineno} {f.name}": code_lines(f) for name, f in tree.functions()}
    long = {k: n for k, n in sorted(lengths.items(), key=lambda x: -x[1]) if n > MOST_LINES}
    device_code = Counter[str]()
    for name, f in tree.functions():
        if decorators(f) & DEVICE_CODE:
            device_code[name] += code_lines(f)
    headers = {n: t.count("__CUDACC__") for n, t in tree.texts.items() if n.endswith(".h")}
    everything = [i for p in tree.parsed.values() for i in walk_imports(p)]
    in_cycles = {"modules": cycles(modules), "packages": cycles(packages)}
    result: dict[str, Any] = {
        **{f"lines in {k}/": n for k, n in lines.items()},
        **{f"files in {k}/": n for k, n in files.items()},
        **{f"{k} in import cycles": sum(map(len, c)) for k, c in in_cycles.items()},
        **{f"import cycles of {k}": [", ".join(g) for g in c] for k, c in in_cycles.items()},
        "lazy import statements": sum(kind == "lazy" for kind, _ in everything),
        "lazy imports of the package": sum(i.kind == "lazy" for i in imports),
        "type-only imports of the package": sum(i.kind == "type" for i in imports),
        "comparisons of device kinds": dict(device_comparisons(tree)),
        "headers with __CUDACC__": dict(+Counter(headers)),
        "modules importing CuPy": [n for n, p in tree.parsed.items() if uses_cupy(p)],
        f"functions above {MOST_LINES} lines": long,
        **ruff(root),
        "lines of device code": dict(sorted(device_code.items())),
    }
    if glossary is not None:
        words = glossary_words(glossary)
        parts = (part.lower() for n in names(tree) for part in re.findall(r"[A-Z]?[a-z]+", n))
        result["glossary words in names"] = dict(Counter(w for w in parts if w in words))
    return result


def main() -> None:
    """Print the measures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("--glossary", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.root, given.glossary)
    if given.json:
        print(json.dumps(found, indent=1))
        return
    for what, value in found.items():
        if isinstance(value, int):
            print(f"{what:45}{value:8,}")
            continue
        rows = value if isinstance(value, dict) else dict.fromkeys(value, 1)
        print(f"{what:45}{len(rows):8,}{sum(rows.values()):8,}")
        for row, count in rows.items():
            print(f"    {row}" if isinstance(value, list) else f"    {row:60}{count:5,}")


if __name__ == "__main__":
    main()
