"""Constructs of Python that the language does not have."""

from __future__ import annotations

import ast
from typing import NoReturn

from morph.compiler.frontend.context import Context
from morph.language.errors import reject

COMPREHENSION = "a comprehension is", "write a loop"
IMPORT = "import is", "import at the top of the file"
OUTSIDE: dict[str, tuple[str, str]] = {
    "NamedExpr": ("an assignment inside an expression is", "assign on a line of its own"),
    "JoinedStr": ("an f-string is", "there is no text inside kernels"),
    "Lambda": ("a lambda is", "write a @func"),
    "List": ("a list is", "local(dtype, capacity) grows; vector(x, y) has a fixed size"),
    "Dict": ("a dict is", "keep it in a column, or use a @struct"),
    "Set": ("a set display is", "use a local collection"),
    "Starred": ("* is", "write the values out"),
    "ListComp": COMPREHENSION, "SetComp": COMPREHENSION, "DictComp": COMPREHENSION,
    "GeneratorExp": COMPREHENSION, "Import": IMPORT, "ImportFrom": IMPORT,
    "AnnAssign": ("annotations are", "types follow from the first value"),
    "FunctionDef": ("function is", "define a @func outside"),
    "ClassDef": ("class is", "declare a @struct outside"),
    "Try": ("try is", "kernels raise nothing"), "With": ("with is", "only the host uses `with`"),
    "Match": ("match is", "write if and elif"), "Global": ("global is", "pass it as an argument"),
    "Nonlocal": ("nonlocal is", "pass it as an argument"),
    "Raise": ("raise is", "report through a column or a flag"),
    "Assert": ("assert is", "report through a column or a flag"),
    "Delete": ("delete is", "a row goes with row.delete()"),
}  # fmt: skip


def refuse(c: Context, node: ast.expr | ast.stmt) -> NoReturn:
    """Refuse an expression or a statement."""
    kind = type(node).__name__
    is_expr = isinstance(node, ast.expr)
    other = "write a loop" if is_expr else "see the reference for what a statement may be"
    problem, hint = OUTSIDE.get(kind, (f"{kind.lower().removesuffix('def')} is", other))
    reject(f"{problem} outside the language", c.pos(node), hint)
