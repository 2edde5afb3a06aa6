"""Remake the code blocks of docs/ARCHITECTURE.md and docs/internals.md, and tables of the pages.

A comment above a code block says what the block is:

    <!-- file advance.py -->                 a program, run here; later pages quote it, too
    <!-- IR of advance -->                   the typed tree of its kernel
    <!-- C++ of advance: struct Args -->     paragraphs of the generated text, by how they begin
    <!-- words of advance -->                the fields of its arguments
    <!-- table algorithms -->                a table of a registry

A paragraph is cut short before the line that holds what stands after ` ... `.
`python tests/support/quotes.py` writes the blocks and tables again after a change of the compiler
or of a registry.
"""

from __future__ import annotations

import re
import runpy
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from morph.algorithms.registry import ROWS as algorithm_rows
from morph.cli.schema import schema
from morph.compiler.ir import nodes as ir
from morph.io.formats import ROWS as file_rows
from morph.io.graph.formats import ROWS as graph_rows
from morph.language import intrinsics
from morph.networkx_info import functions

DOCS = Path(__file__).parents[2] / "docs"
NAMES = "ARCHITECTURE internals files language networkx commands ../README".split()
PAGES = tuple(DOCS / f"{name}.md" for name in NAMES)
SCHEMA = schema()["$defs"]
# objects within the output of commands: the fields that hold them
OBJECTS = {
    "batch": "an entry of `batches`",
    "found_community": "an entry of `communities` of `community`",
    "mesh_sizes": "`input`, `output` of `triangulate`, `refine`",
    "quality": "`quality`",
    "decimation_round": "an entry of `rounds` of `sat`",
}
TABLE = re.compile(r"<!-- table (.+?) -->\n(?:\|.*\n)*")
KINDS = r"file|IR of|C\+\+ of|words of"
BLOCK = re.compile(rf"<!-- ({KINDS}) (.+?) -->\n```([\w+]*)\n(.*?)```\n", re.DOTALL)


def remade() -> dict[Path, str]:
    """The pages with every block as the compiler makes it today."""
    with tempfile.TemporaryDirectory() as folder:
        programs: dict[str, dict[str, Any]] = {}

        def block(found: re.Match[str]) -> str:
            kind, what, language, text = found.groups()
            name, _, starts = what.partition(": ")
            if kind == "file":
                file = Path(folder) / name
                file.write_text(text)
                programs[file.stem] = runpy.run_path(str(file))
            else:
                made = next(p[name] for p in programs.values() if name in p)
                lines = QUOTES[kind](made, starts)
                # a text from the cache has the folder of an earlier run
                text = re.sub(r'(#line \d+ )".*/', r'\1"', "\n".join(lines)) + "\n"
            return f"<!-- {kind} {what} -->\n```{language}\n{text}```\n"

        return {page: TABLE.sub(table, BLOCK.sub(block, page.read_text())) for page in PAGES}


def table(found: re.Match[str]) -> str:
    """A table of a registry: its head, and a row for each of the registry's."""
    head, *rows = TABLES[found[1]]()
    lines = (f"| {' | '.join(cells)} |\n" for cells in (head, *rows))
    return f"<!-- table {found[1]} -->\n{next(lines)}|{'---|' * len(head)}\n{''.join(lines)}"


def algorithms() -> Iterator[tuple[str, ...]]:
    """The graph algorithms."""
    yield "function", "purpose", "result", "command"
    for row in algorithm_rows:
        finds = (row.function.__doc__ or "").partition("\n")[0].replace("``", "`")
        arrays = ", ".join(f"`{name}`" for name in row.result.split())
        yield f"`{row.public_name}`", finds.rstrip("."), arrays, f"`morph {row.name}`"


def networkx_functions() -> Iterator[tuple[str, ...]]:
    """The functions of the NetworkX backend."""
    yield "function", "result"
    yield from ((f"`{name}`", text) for name, text in functions().items())


def kernel_functions() -> Iterator[tuple[str, ...]]:
    """The mathematical functions of kernels; those with one description share a row."""
    yield "function", "result"
    rows: dict[str, list[str]] = {}
    for name in intrinsics.FUNCTIONS.keys() & set(intrinsics.__all__):
        call, _, text = str(vars(intrinsics)[name].__doc__).partition(": ")
        rows.setdefault(text.rstrip(".").replace("``", "`"), []).append(call)
    found = sorted((sorted(calls), text) for text, calls in rows.items())
    yield from ((", ".join(f"`{call}`" for call in calls), text) for calls, text in found)


def graph_formats() -> Iterator[tuple[str, ...]]:
    """The formats of graphs."""
    yield "suffix", "`format`", "contents", "weights", "edges"
    for row in graph_rows:
        yield f"`{' '.join(row.suffixes)}`", f"`{row.name}`", row.about, row.weights, row.edges


def mesh_formats() -> Iterator[tuple[str, ...]]:
    """The files of meshes."""
    yield "file", "contents", "read", "write"
    for row in file_rows:
        if "mesh" in row.kind:
            shown = [f"`{suffix}`" for suffix in row.suffixes[: row.common]]
            shown += ["others"] if len(row.suffixes) > row.common else []
            yield ", ".join(shown), row.about, row.reader, row.writer


def json_fields() -> Iterator[tuple[str, ...]]:
    """The fields that commands print with --json."""
    yield "command", "fields"
    usual = SCHEMA["distances"]["properties"]
    usual = {name: usual[name] for name in ("vertices", "edges", "source", "times", "device")}
    for kind in SCHEMA.values():
        fields = dict(kind.get("properties", {}))
        named = fields.pop("command", {})
        if named:
            own = {name: about for name, about in fields.items() if usual.get(name) != about}
            commands = named.get("enum") or [named["const"]]
            yield ", ".join(f"`{name}`" for name in commands), _described(own)


def json_objects() -> Iterator[tuple[str, ...]]:
    """The fields of objects within the output of commands."""
    yield "object", "fields"
    yield from ((held, _described(SCHEMA[name]["properties"])) for name, held in OBJECTS.items())


def _described(properties: dict[str, Any]) -> str:
    """Names and descriptions of fields."""
    texts = {name: about.get("description", "").rstrip(".") for name, about in properties.items()}
    return "; ".join(
        f"`{name}`: {text[:1].lower()}{text[1:]}" if text else f"`{name}`"
        for name, text in texts.items()
    )


TABLES = {
    "json fields": json_fields,
    "json objects": json_objects,
    "algorithms": algorithms,
    "kernel functions": kernel_functions,
    "graph formats": graph_formats,
    "mesh formats": mesh_formats,
    "networkx functions": networkx_functions,
}


def _compiled(made: Any) -> Any:
    return list(made.launches.values())[-1].compiled


def paragraphs(made: Any, starts: str) -> list[str]:
    """Paragraphs of the generated text, in the order asked for."""
    found = []
    for start in starts.split(" | "):
        start, _, end = start.partition(" ... ")
        for part in made.source().split("\n\n"):
            lines = part.strip().split("\n")
            if next((x for x in lines if x[:1] not in "#/"), "").startswith(start):
                cut = next((i for i, x in enumerate(lines) if end and end in x), len(lines))
                found.append([*lines[:cut], *(["    ..."] if cut < len(lines) else [])])
                break
        else:
            raise ValueError(f"no paragraph of {made!r} begins with {start!r}")
    return "\n\n".join("\n".join(lines) for lines in found).split("\n")


def words(made: Any, _: str) -> list[str]:
    """The fields of the arguments, with what fills them."""
    found = []
    for i, f in enumerate(_compiled(made).fields):
        source = ".".join(x for x in (f.slot, f.column) if x)
        found.append(f"{i:2}  {f.ctype():<18} {f.name:<22} {f.kind:<10} {source}".rstrip())
    return found


def tree(made: Any, _: str) -> list[str]:
    """The typed tree of the kernel."""
    unit = _compiled(made).unit
    kernel = next(f for f in unit.funcs if isinstance(f, ir.Kernel))
    params = ", ".join(f"{n}: {t}" for n, t in kernel.params)
    return [f"Kernel {kernel.name}({params})", *_body(kernel.body, 1)]


def _body(body: ir.Body, depth: int) -> Iterator[str]:
    for s in body:
        head, below = [], []
        for f in fields(s):
            value = getattr(s, f.name)
            if isinstance(value, tuple) and value and isinstance(value[0], ir.Stmt | ir.Need):
                below += list(_body(value, depth + 1))
            elif f.name != "pos" and value not in (None, (), False):
                head.append(
                    f"{f.name}={_expr(value)}" if isinstance(s, ir.ForEdges) else _expr(value)
                )
        yield f"{'  ' * depth}{type(s).__name__} {', '.join(head)}  @{s.pos.line}"
        yield from below


def _expr(x: Any) -> str:
    match x:
        case ir.Var():
            return x.name
        case ir.Const():
            return f"{x.value}: {x.type}"
        case ir.Place():
            return f"{x.slot}.{x.column}[{_expr(x.row)}]"
        case ir.Node():
            inner = [getattr(x, f.name) for f in fields(x) if f.name not in ("pos", "type")]
            typed = f": {x.type}" if isinstance(x, ir.Expr) else ""
            return f"{type(x).__name__}({', '.join(map(_expr, inner))}){typed}"
        case tuple():
            return f"({', '.join(map(_expr, x))})"
        case _:
            return str(x)


QUOTES = {"IR of": tree, "C++ of": paragraphs, "words of": words}

if __name__ == "__main__":
    for page, text in remade().items():
        page.write_text(text)
