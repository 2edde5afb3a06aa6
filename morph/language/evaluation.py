"""Evaluation of expressions that Ctrl-C may interrupt."""

from __future__ import annotations

from typing import Any


def evaluated(text: str, names: dict[str, Any], values: dict[str, Any] | None = None) -> Any:
    """Evaluate an expression with the globals ``names`` and the variables ``values``.

    If Ctrl-C interrupts `eval` of a text, CPython ends the process later with the status of SIGINT,
    even if the exception was caught.  `eval` of a code object does not have this effect.
    """
    return eval(compile(text, "<expression>", "eval"), names, values)
