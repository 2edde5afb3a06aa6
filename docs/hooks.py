"""The pages of the site: the repository's, at their own paths, and the generated reference."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

import morph

ROOT = Path(__file__).parent.parent
SUFFIXES = (".md", ".png", ".gif", ".py", ".css", ".ipynb")
FOLDERS = ("docs", "examples", "benchmarks", "meshes")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))

# the reference: a page for each group of public names, by where they are defined; the first fits
GROUPS = {
    "Graph algorithms": ("morph.algorithms.graph", "morph.algorithms.community"),
    "Dynamic algorithms": ("morph.algorithms.dynamic",),
    "Meshes": ("morph.algorithms", "morph.mesh"),
    "Graphs": ("morph.graph", "morph.partition"),
    "Kernels and tables": ("morph",),
}
ABOUT = {
    "Graph algorithms": (
        "Results that list vertices, such as those of a path or a clique, are arrays of ids or, if"
        " the points of the graph have [labels](../docs/files.md#labels), of labels. All other"
        " results have a value for each point or edge, in the order of ids, or are ids of edges."
    ),
}
MODULES = {
    "morph.validate": "Checkers",
    "morph.io": "Files",
    "morph.generate": "Generated inputs",
    "morph.survey": "Satisfiability",
    "morph.worklists": "Operators for programs",
}


def on_config(config: Any) -> None:
    """Complete the navigation by the pages that are generated."""
    pages = {name: title for title, name, _ in generated()}
    reference = [name for name in pages if name.startswith("reference/")]
    _fill(config.nav, "Reference", [{pages[name]: name} for name in reference])
    books = [name for name in pages if name.startswith("examples/")]
    _fill(config.nav, "Notebooks", [{pages[name]: name} for name in books])
    notes = sorted((ROOT / "benchmarks" / "notes").glob("[!R]*.md"))  # README.md is their index
    _fill(config.nav, "Notes", [str(note.relative_to(ROOT)) for note in notes])


def _fill(nav: list[Any], title: str, pages: list[Any]) -> None:
    for entry in nav:
        if isinstance(entry, dict):
            for key, below in entry.items():
                if key == title:
                    below[:] = pages
                elif isinstance(below, list):
                    _fill(below, title, pages)


def on_files(files: Files, config: Any) -> Files:
    """Take the pages at their paths in the repository, and the generated ones."""
    for file in list(files):
        if file.inclusion.is_included() and (ROOT / "docs" / file.src_uri).exists():
            files.remove(file)
    found = [ROOT / name for name in PAGES]
    for folder in FOLDERS:
        found += [p for p in sorted((ROOT / folder).rglob("*")) if p.suffix in SUFFIXES]
    for path in found:
        if path.exists():
            name = str(path.relative_to(ROOT))
            files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    for _, name, text in generated():
        files.append(File.generated(config, name, content=text))
    return files


def generated() -> Iterator[tuple[str, str, str]]:
    """The pages that are no files: title, path, text."""
    groups: dict[str, list[str]] = {title: [] for title in GROUPS}
    for name in morph.__all__:
        module = getattr(getattr(morph, name), "__module__", "morph")
        title = next(t for t, starts in GROUPS.items() if module.startswith(starts))
        groups[title].append(f"morph.{name}")
    for title, names in groups.items():
        yield _reference(title, ABOUT.get(title, ""), names)
    for module, title in MODULES.items():
        found = importlib.import_module(module)
        about = re.sub(r"\nImports .*", "", found.__doc__ or "", flags=re.DOTALL).strip()
        yield _reference(title, f"`{module}`: {about}", [f"{module}.{n}" for n in found.__all__])
    yield "Errors of kernels", "reference/errors.md", rejections()
    for book in NOTEBOOKS:
        text = notebook(book)
        title = text.partition("\n")[0].lstrip("# ")
        yield title, str(book.relative_to(ROOT).with_suffix(".md")), text


def notebook(book: Path) -> str:
    """The cells of a notebook as a page, with a link to the notebook below its title."""
    parts = []
    for cell in json.loads(book.read_text())["cells"]:
        source = "".join(cell["source"])
        code = cell["cell_type"] == "code"
        parts.append(f"```python\n{source}\n```" if code else source)
    title, _, rest = parts[0].partition("\n")
    link = f"A notebook: [{book.name}]({book.name})"
    return "\n\n".join([title, link, rest.strip(), *parts[1:]]) + "\n"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to notebooks lead to their pages, which have links to the files."""
    if page.file.src_uri.startswith("examples/notebooks/"):
        return markdown
    return re.sub(r"\]\((\S*notebooks/\w+)\.ipynb\)", r"](\1.md)", markdown)


def _reference(title: str, about: str, names: list[str]) -> tuple[str, str, str]:
    entries = "\n\n".join(f"::: {name}" for name in sorted(names, key=str.lower))
    path = f"reference/{title.lower().replace(' ', '-')}.md"
    return title, path, f"# {title}\n\n{about}\n\n{entries}\n"


def rejections() -> str:
    """The catalogue of compile-time errors, from the list that the tests read."""
    text = (ROOT / "tests" / "language" / "rejections.txt").read_text()
    lines = ["# Errors of kernels", "", INTRODUCTION]
    for block in text.split("\n\n")[1:]:
        if block.startswith("## "):
            lines += [f"## {block.strip()[3:].capitalize()}", ""]
            continue
        code, message, hint = _rejection(block)
        lines += [f"**{_plain(message)}**", "", "```text", *code, "```", ""]
        lines += [f"Hint: {_plain(hint)}.", ""] if hint else []
    return "\n".join(lines)


INTRODUCTION = """\
Each construct that the language rejects, with the message of its `morph.LanguageError` and the
hint that follows the message. The caret line shows the columns that the error reports. The list is
`tests/language/rejections.txt`, of which the tests run every entry.
"""


def _rejection(block: str) -> tuple[list[str], str, str]:
    parts: dict[str, list[str]] = {"!": [], "?": [], "": []}
    for line in block.strip("\n").split("\n"):
        key = line[:1] if line[:2] in ("! ", "? ") else ""
        parts[key].append(line[2:] if key else line)
    return parts[""], " ".join(parts["!"]), " ".join(parts["?"])


def _plain(text: str) -> str:
    return re.sub(r"([\\*_<>\[\]])", r"\\\1", text)


class _Links(HTMLParser):
    """The addresses that a page refers to, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("href", "src") and value:
                self.links.append(value)
            elif key == "id" and value:
                self.anchors.add(value)


def on_post_build(config: Any) -> None:
    """Fail if a link of a built page, or its anchor, leads nowhere on the site."""
    site = Path(config.site_dir).resolve()
    pages: dict[Path, _Links] = {}
    for path in site.rglob("*.html"):
        pages[path] = _Links()
        pages[path].feed(path.read_text())
    broken = []
    for path, page in pages.items():
        for link in page.links if path.name != "404.html" else ():
            address, anchor = urldefrag(link)
            if re.match(r"[a-z]+:", address):
                continue
            target = (path.parent / unquote(address)).resolve() if address else path
            target = target / "index.html" if target.is_dir() else target
            lost = anchor and target in pages and unquote(anchor) not in pages[target].anchors
            if not target.exists() or lost:
                broken.append(f"{path.relative_to(site)}: {link}")
    if broken:
        raise PluginError("broken links:\n" + "\n".join(broken))
