"""The JSON schema of the reports: entries of graph commands by the registry, others by a file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from morph.algorithms.registration import Algorithm, Field, Report
from morph.algorithms.registry import ROWS

FILE = Path(__file__).with_name("schema.json")
COUNT = {"type": "integer", "minimum": 0}
BEFORE = {  # fields of all graph commands, before and after those of a row's report
    "vertices": {**COUNT, "description": "Vertices of GRAPH."},
    "edges": {**COUNT, "description": "Edges of GRAPH, undirected ones counted once."},
}
AFTER = {
    "source": {
        "description": "The vertices given by --source: a number, or an array of several.",
        "anyOf": [COUNT, {"type": "array", "items": COUNT}],
    },
    "times": {"$ref": "#/$defs/times"},
    "device": {"$ref": "#/$defs/device"},
}


def schema() -> dict[str, Any]:
    """Return the schema, which ``morph schema`` prints."""
    complete: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    found = entries(ROWS)
    # a report with `batches` is that of `sssp --updates`
    found["distances"]["not"] = {"required": ["batches"]}
    complete["oneOf"] = [{"$ref": f"#/$defs/{name}"} for name in found] + complete["oneOf"]
    complete["$defs"] = found | complete["$defs"]
    return complete


def entries(rows: Iterable[Algorithm]) -> dict[str, Any]:
    """Return the entries of graph commands; those with the same report share one."""
    commands: dict[str, list[str]] = {}
    reports: dict[str, Report] = {}
    for row in rows:
        name = row.report.entry or row.name.replace("-", "_")
        commands.setdefault(name, []).append(row.name)
        reports[name] = row.report
    return {name: _entry(commands[name], report) for name, report in reports.items()}


def _entry(commands: list[str], report: Report) -> dict[str, Any]:
    own = {name: _described(field) for name, field in report.fields.items()}
    always = [name for name in own if name not in report.optional]
    command = {"enum": commands} if len(commands) > 1 else {"const": commands[0]}
    return {
        "properties": {"command": command, **BEFORE, **own, **AFTER},
        "required": [*BEFORE, *always, "times", "device"],
    }


def _described(field: Field) -> dict[str, Any]:
    found: dict[str, Any] = {"type": field.type}
    if field.minimum is not None:
        found["minimum"] = field.minimum
    return found | ({"description": field.description} if field.description else {})
