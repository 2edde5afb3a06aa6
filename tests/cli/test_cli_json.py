"""The output of commands with --json: fields and types are those of `morph schema`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from morph.algorithms.registry import ALGORITHMS
from morph.cli import main

SCHEMA = json.loads(CliRunner().invoke(main, ["schema"]).stdout)
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
         "integer": int, "number": (int, float)}  # fmt: skip
ALWAYS = {"$schema", "title", "description", "$defs"}

SQUARE = str(Path(__file__).parents[2] / "meshes" / "square")
EDGES = "0 1 4\n1 2 1\n0 2 7\n2 3 2\n3 4 1\n3 5 9\n4 5 3\n5 6 1\n"
COMMANDS = [
    *(f"{name} g.el --device python" for name in ALGORITHMS),
    "bfs g.el --source 0 --source 3 --device python,python",
    "sssp g.el --updates u.txt --device python",
    "sssp g.el --updates u.txt --log g.npz --device python",
    "community g.el --query 0 --query 6 --size 2 3 --all --top 2 --device python",
    "community g.el --query 0 --size 8 9 --device python",
    "max-flow g.el --source 0 --sink 5 --device python",
    "generate uniform 5 6 -o made.el",
    "generate rmat 3 -o made.el",
    "generate grid 3 3 -o made.el",
    "generate geometric 9 --degree 3 -o made.el",
    "generate ksat 3 20 3 -o made.cnf",
    "convert g.el made.gr",
    "convert g.el made.graph --symmetrize",
    f"triangulate {SQUARE} --device python",
    f"refine {SQUARE} -q 25 -S 3 --device python",
    f"check {SQUARE}",
    "check bent",
    "check g.el answer.npy --as bfs",
    "check f.cnf f.answer",
    "sat f.cnf --device python",
    "sat not.cnf --device python",
    "sat hard.cnf --max-rounds 1 --method decimation --no-complete --device python",
    "info",
    "cache",
    "cache --clear",
]


def errors(schema: dict[str, Any], x: Any, at: str = "") -> Iterator[str]:
    """Say where a value is not as a schema has it, whose keywords are all known."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    right = any(isinstance(x, TYPES[k]) and (k == "boolean" or type(x) is not bool) for k in kinds)
    if kinds and not right:
        yield f"{at}: {x!r} is no {' or '.join(kinds)}"
        return
    for keyword, wanted in schema.items():
        match keyword:
            case "$ref":
                yield from errors(SCHEMA["$defs"][wanted.removeprefix("#/$defs/")], x, at)
            case "const" if x != wanted:
                yield f"{at}: {x!r} is not {wanted!r}"
            case "enum" if x not in wanted:
                yield f"{at}: {x!r} is none of {wanted}"
            case "minimum" if x is not None and x < wanted:
                yield f"{at}: {x!r} is below {wanted}"
            case "required":
                yield from (f"{at}: {name} is missing" for name in wanted if name not in x)
            case "properties":
                for name in wanted.keys() & x.keys():
                    yield from errors(wanted[name], x[name], f"{at}/{name}")
            case "additionalProperties":
                for name in x.keys() - schema.get("properties", {}).keys():
                    yield from errors(wanted, x[name], f"{at}/{name}")
            case "items":
                for k, item in enumerate(x or ()):
                    yield from errors(wanted, item, f"{at}/{k}")
            case "not" if not [*errors(wanted, x, at)]:
                yield f"{at}: is {wanted}"
            case "oneOf" | "anyOf":
                found = [[*errors(s, x, at)] for s in wanted]
                fitting = sum(not e for e in found)
                if fitting == 0 or (keyword == "oneOf" and fitting > 1):
                    yield f"{at}: fits {fitting} of {len(wanted)}: {min(found, key=len)}"
            case _:
                known = "type const enum minimum not".split()
                assert keyword in ALWAYS or keyword in known, keyword


def undescribed(schema: dict[str, Any], x: Any) -> Iterator[str]:
    """Give the fields of objects that a schema does not name."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    if isinstance(x, dict) and "properties" in schema:
        for name, value in x.items():
            if name in schema["properties"]:
                yield from undescribed(schema["properties"][name], value)
            elif "additionalProperties" not in schema:
                yield name
    elif isinstance(x, list):
        for item in x:
            yield from undescribed(schema.get("items", {}), item)


def checked(report: dict[str, Any]) -> None:
    assert not [*errors(SCHEMA, report)]
    (own,) = (s for s in SCHEMA["oneOf"] if not [*errors(s, report)])
    rest = {k: v for k, v in report.items() if k not in SCHEMA["properties"]}
    assert not [*undescribed(own, rest)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("g.el").write_text(EDGES)
    Path("u.txt").write_text("+ 0 6 2\n- 3 5\n\n= 0 1 1\n")
    Path("f.cnf").write_text("p cnf 3 2\n1 2 0\n-1 3 0\n")
    Path("f.answer").write_text("s SATISFIABLE\nv 1 3 0\n")
    Path("not.cnf").write_text("p cnf 2 4\n1 2 0\n-1 2 0\n1 -2 0\n-1 -2 0\n")
    Path("bent.node").write_text("4 2 0 0\n0 0 0\n1 4 -1\n2 8 0\n3 4 1\n")
    Path("bent.ele").write_text("2 3 0\n0 0 1 2\n1 0 2 3\n")
    return tmp_path


@pytest.mark.unchecked
@pytest.mark.parametrize("command", COMMANDS)
def test_reports(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "answer.npy" in command:
        run("bfs g.el -o answer.npy --device python")
    if "hard.cnf" in command:
        run("generate ksat 3 12 4 -o hard.cnf")
    if command == "cache --clear":
        monkeypatch.setenv("MORPH_CACHE", str(folder))
    report = run(f"{command} --json")
    checked(report)
    words = command.split()
    assert report["command"] == " ".join(words[: 2 if words[0] == "generate" else 1])
    device = words[words.index("--device") + 1] if "--device" in words else None
    assert report["device"] == device


def run(command: str) -> Any:
    done = CliRunner().invoke(main, command.split())
    assert done.exit_code in (0, 1, 10, 20), done.output
    return json.loads(done.stdout) if "--json" in command else None


def test_a_saved_report_and_a_warning(folder: Path) -> None:
    out = Path("c.json")
    run("community g.el --query 0 --size 2 3 --device python -o c.json")
    report = json.loads(out.read_text())
    checked(report)
    assert report["communities"][0]["vertices"] and report["input"] == {"vertices": 7, "edges": 8}
    Path("d.node").write_text("4 2 0 0\n0 0 0\n1 4 -1\n2 8 0\n3 8 0\n")
    command = "triangulate d.node --repair --device python --json"
    done = CliRunner().invoke(main, command.split())
    report = json.loads(done.stdout)
    assert report["warnings"] and done.stderr == "".join(
        f"morph: {w}\n" for w in report["warnings"]
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seconds": -1}, "/seconds: -1 is below 0"),
        ({"input": {"vertices": True}}, "/input/vertices: True is no integer"),
        ({"version": 2}, "/version: 2 is no string"),
        ({"removed": "all"}, "/removed: 'all' is no integer"),
        ({"command": "wipe"}, "'wipe' is not 'cache'"),
        ({"path": None}, "/path: None is no string"),
    ],
)
def test_wrong_reports_are_found(changes: dict[str, Any], message: str) -> None:
    right = {"command": "cache", "version": "1", "device": None, "input": {}, "seconds": 0.5,
             "warnings": [], "path": ".", "removed": 1}  # fmt: skip
    checked(right)
    assert message in " ".join(errors(SCHEMA, right | changes))
    for name in right:
        assert [*errors(SCHEMA, {k: v for k, v in right.items() if k != name})], name
    with pytest.raises(AssertionError):
        checked(right | {"colour": 1})
