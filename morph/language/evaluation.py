"""Evaluation of expressions that Ctrl-C may interrupt."""

from __future__ import annotations

from typing import Any


def evaluated(text: str, names: dict[str, Any], values: dict[str, Any] | None = None) -> Any:
    """Evaluate an expression with the globals ``names`` and the variables ``values``.

    Where Ctrl-C interrupts `eval` of a text, but not of a code object, CPython ends the process
    with the status of SIGINT at last, even if the exception was caught.
    """
    return eval(compile(text, "<expression>", "eval"), names, values)
