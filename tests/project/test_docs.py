"""The pages: quoted code and tables are up to date, examples run, and no link is broken."""

import json
import logging
import re
import runpy
import shlex
from pathlib import Path

import click
import pytest
from quotes import remade

from morph import __version__
from morph.cli import main

ROOT = Path(__file__).parents[2]
PAGES = sorted(p for p in ROOT.rglob("*.md") if not any(d.startswith(".") for d in p.parts))
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
# pages whose Python other tests run: test_language, and test_pages_quote_... here
OTHERS = [ROOT / "docs" / name for name in ("language.md", "ARCHITECTURE.md", "internals.md")]
RUN = [p for p in PAGES if PYTHON.search(p.read_text()) and p not in OTHERS]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.unchecked
def test_pages_quote_what_the_compiler_makes():
    for page, text in remade().items():
        assert text == page.read_text(), "run python tests/support/quotes.py, and read what changed"


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_examples_run(page, tmp_path, monkeypatch, capsys):
    (tmp_path / "meshes").symlink_to(ROOT / "meshes")
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    file = tmp_path / "examples.py"  # kernels need a file to be read from
    file.write_text("\n".join(PYTHON.findall(text)))
    try:
        runpy.run_path(str(file))
    finally:
        logging.getLogger("morph").setLevel(logging.NOTSET)
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


def test_citation_has_the_version():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
