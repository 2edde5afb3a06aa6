"""The pages: quoted code and tables are up to date, examples run, links lead somewhere."""

import json
import re
import runpy
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from quotes import remade

from morph import __version__
from morph.algorithms.registry import ALGORITHMS
from morph.cli import main

ROOT = Path(__file__).parent.parent
PAGES = sorted(p for p in ROOT.rglob("*.md") if not any(d.startswith(".") for d in p.parts))
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
# pages whose Python other tests run: test_language, and test_pages_quote_... here
OTHERS = [ROOT / "docs" / name for name in ("language.md", "ARCHITECTURE.md", "internals.md")]
RUN = [p for p in PAGES if PYTHON.search(p.read_text()) and p not in OTHERS]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
COMMANDS = (ROOT / "docs" / "commands.md").read_text()


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.unchecked
def test_pages_quote_what_the_compiler_makes():
    for page, text in remade().items():
        assert text == page.read_text(), "run python tests/quotes.py, and read what changed"


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_examples_run(page, tmp_path, monkeypatch, capsys):
    (tmp_path / "meshes").symlink_to(ROOT / "meshes")
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    file = tmp_path / "examples.py"  # kernels need a file to be read from
    file.write_text("\n".join(PYTHON.findall(text)))
    runpy.run_path(str(file))
    out = capsys.readouterr().out
    lines = iter(out.splitlines())
    for shown in re.findall(r"# prints (.*)", text):
        assert shown in lines, f"{shown}, in its turn:\n{out}"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name_of)
def test_notebooks_run(notebook, tmp_path, monkeypatch):
    cells = json.loads(notebook.read_text())["cells"]
    code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    assert not any(c.get("outputs") for c in cells), "outputs are not stored"
    file = tmp_path / "cells.py"
    file.write_text(re.sub(r"(?m)^%.*", "", "\n".join(code)))
    monkeypatch.chdir(notebook.parent)
    runpy.run_path(str(file))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)|src=\"([^\"]+)\"", text):
        for path in target:
            if path and "://" not in path:
                assert (page.parent / path).exists(), path


def commands(page):
    """The calls of `morph` in indented lines of a page."""
    for line in re.findall(r"^ {4}(?:.*&& )?morph (.+)$", page.read_text(), re.MULTILINE):
        yield shlex.split(re.split(r" (?:[>|&#]|2>)", line)[0])


@pytest.mark.parametrize("page", [p for p in PAGES if [*commands(p)]], ids=name_of)
def test_commands_have_these_options(page):
    for words in commands(page):
        context, command = click.Context(main), main
        while isinstance(command, click.Group):
            _, command, words = command.resolve_command(context, words)
        command.parse_args(click.Context(command), words)


def fields(table):
    """Rows of a table of docs/commands.md: the names in its first and in its second column."""
    rows = re.search(rf"<!-- fields of {table} -->\n\|.*\n\|.*\n((?:\|.*\n)*)", COMMANDS)[1]
    cells = [row.split("|")[1:3] for row in rows.splitlines()]
    return [[re.findall(r"`(.*?)`", cell) for cell in row] for row in cells]


def report(*args):
    """Give the JSON that a command prints; what runs is interpreted, so nothing is compiled."""
    done = CliRunner().invoke(main, [*map(str, args), "--json"], prog_name="morph")
    return json.loads(done.stdout)


@pytest.fixture
def graph(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("g.gr").write_text("p sp 4 4\na 1 2 4\na 1 3 1\na 2 4 1\na 3 4 2\n")


@pytest.mark.unchecked
def test_page_of_json_has_the_fields_of_algorithms(graph):
    rows = {name: set(names) for commands, names in fields("algorithms") for name in commands}
    assert set(rows) == set(ALGORITHMS)
    for name, row in ALGORITHMS.items():
        found = set(report(name, "g.gr", "--device", "python"))
        common = {"vertices", "edges", "times", "device"}
        common |= (
            {"source"} if any(o.name == "source" and o.default for o in row.options) else set()
        )
        assert found == common | rows[name], name


JSON = {
    "sssp-updates": "sssp g.gr --updates changes.txt --log town.morph --device python",
    "max-flow": "max-flow g.gr --source 0 --sink 3 --device python",
    "community": "community g.gr --query 0 --size 3 4 --device python",
    "refine": "refine square.node -o fine --device python",
    "check-mesh": "check square.node",
    "check-answer": "check g.gr a.npy --as bfs",
    "check-model": "check f.cnf answer",
    "sat": "sat f.cnf --device python",
    "generate": "generate grid 3 3 -o made.txt",
}


@pytest.mark.unchecked
def test_page_of_json_has_the_fields_of_commands(graph):
    report("bfs", "g.gr", "-o", "a.npy", "--device", "python")
    for suffix in ("node", "ele", "poly"):
        Path(f"square.{suffix}").symlink_to(ROOT / "meshes" / f"square.{suffix}")
    Path("changes.txt").write_text("+ 0 3 1\n")
    Path("f.cnf").write_text("p cnf 2 1\n1 2 0\n")
    Path("answer").write_text("s SATISFIABLE\nv 1 2 0\n")
    assert set(re.findall(r"<!-- fields of (.*?) -->", COMMANDS)) == {"algorithms", *JSON}
    for table, command in JSON.items():
        wanted = {name for row in fields(table) for name in row[0]}
        assert set(report(*command.split())) == wanted, table


def test_citation_has_the_version():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
