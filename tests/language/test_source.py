"""The extent of a definition in its source file."""

from __future__ import annotations

import ast
import inspect

import pytest

from morph.language.source import _block

DEFINITIONS = {
    "plain": "def f(p):\n    p.x = 1\n",
    "decorated": "@kernel\n@other(\n    1\n)\ndef f(p):\n    p.x = 1\n",
    "head in lines": "def f(\n    p, q,\n):  # fmt: skip\n    p.x = q\n",
    "one line": "def f(p): p.x = 1\n",
    "string": 'def f(p):\n    """Text\nnot indented\n    """\n    p.x = 1\n',
    "expression": "def f(p):\n    p.x = (1 +\n2)\n    p.y = 3\n",
    "continued": "def f(p):\n    p.x = 1 + \\\n2\n    p.y = 3\n",
    "comments": "def f(p):\n    p.x = 1\n# a comment\n\n    p.y = 3  # another\n",
    "inner function": "def f(p):\n    def g(q):\n        return q\n\n    return g(p)\n",
}
BEHIND = [
    "",
    "\n\ndef g(p):\n    p.y = 2\n",
    "def g(p): p.y = 2\n",
    "@kernel\ndef g(p):\n    pass\n",
    "x = 1\n",
    "# end\nx = (\n    1\n)\n",
]


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("margin", ["", "    ", "\t"])
@pytest.mark.parametrize("name", DEFINITIONS)
def test_the_text_ends_where_inspect_says(name, margin, behind):
    definition = DEFINITIONS[name]
    lines = [margin + line for line in (definition + behind).splitlines(keepends=True)]
    text, block = _block(lines, inner=bool(margin))
    head = "if True:\n" if margin else ""
    theirs = ast.parse(head + "".join(inspect.getblock(lines))).body[0]
    assert ast.dump(block, include_attributes=True) == ast.dump(theirs, include_attributes=True)
    assert text.startswith("".join(lines[: definition.rstrip().count("\n") + 1]))


def test_a_less_indented_line_behind():
    lines = ["        def f(p):\n", "            p.x = 1\n", "    def g(p):\n", "        p.y = 2\n"]
    text, _ = _block(lines, inner=True)
    assert text == "".join(lines[:2])
