"""The pages: quoted code and tables are up to date, examples run, links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from quotes import remade

ROOT = Path(__file__).parent.parent
PAGES = sorted(p for p in ROOT.rglob("*.md") if not any(d.startswith(".") for d in p.parts))


@pytest.mark.unchecked
def test_pages_quote_what_the_compiler_makes():
    for page, text in remade().items():
        assert text == page.read_text(), "run python tests/quotes.py, and read what changed"


@pytest.mark.parametrize("page", ["README.md", "docs/partitions.md", "docs/commands.md"])
def test_examples_run(page, tmp_path):
    (tmp_path / "meshes").symlink_to(ROOT / "meshes")
    text = (ROOT / page).read_text()
    file = tmp_path / "examples.py"  # kernels need a file to be read from
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    file.write_text("\n".join(blocks))
    command = [sys.executable, str(file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = iter(done.stdout.splitlines())
    for shown in re.findall(r"# prints (.*)", text):
        assert shown in lines, f"{shown}, in its turn:\n{done.stdout}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target
