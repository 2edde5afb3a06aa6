"""Reads the syntax tree of a Python function, with positions in the user's file."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from morph.language.errors import reject
from morph.language.lines import around
from morph.language.position import Pos


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A function's tree and the names visible in it."""

    function: FunctionType
    tree: ast.FunctionDef | ast.Lambda
    file: str
    shift: int  # line of the file at which the parsed text starts, minus one
    ascii: bool  # whether the parsed text is ASCII; else columns of the tree count bytes

    @property
    def name(self) -> str:
        """The function's name; a lambda's is ``where``."""
        return getattr(self.tree, "name", "where")

    @property
    def params(self) -> list[str]:
        """The names of its parameters, without `more`."""
        return [a.arg for a in self.tree.args.args]

    @property
    def more(self) -> str | None:
        """The name of the parameter ``*more``, which takes all further arguments."""
        vararg = self.tree.args.vararg
        return vararg.arg if vararg else None

    def pos(self, node: ast.AST) -> Pos:
        """The position of a node of the tree in the user's file."""
        line, col = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        same = getattr(node, "end_lineno", line) == line
        end = getattr(node, "end_col_offset", col + 1) if same else 10**6
        line += self.shift
        if not self.ascii:
            raw = linecache.getline(self.file, line).encode()
            col = len(raw[:col].decode(errors="ignore"))
            end = len(raw[:end].decode(errors="ignore"))
        return Pos(self.file, line, col, end)

    def named(self, node: ast.expr) -> Any:
        """The value of a global name, or of an attribute of one; None if there is none."""
        match node:
            case ast.Name(id=name):
                return self.lookup(name)[1]
            case ast.Attribute(value=inner, attr=name):
                return getattr(self.named(inner), name, None)
        return None

    def lookup(self, name: str) -> tuple[bool, Any]:
        """Look up a captured or global name: (found, value)."""
        if name in self.function.__code__.co_freevars and self.function.__closure__:
            cell = self.function.__closure__[self.function.__code__.co_freevars.index(name)]
            try:
                return True, cell.cell_contents
            except ValueError:
                return False, None
        if name in self.function.__globals__:
            return True, self.function.__globals__[name]
        if hasattr(builtins, name):
            return True, getattr(builtins, name)
        return False, None


def read(function: FunctionType, lines: list[str] | None = None) -> Source:
    """Parse a function or lambda; rejects one whose source is not available.

    Parameters
    ----------
    function : function
    lines : list of str, optional
        The lines of its file at the time of its definition.
    """
    code = function.__code__
    file, first = code.co_filename, code.co_firstlineno
    here = Pos(file, first, 0, 1)
    lines = around(function) if lines is None else lines
    if len(lines) < first:
        reject(
            f"the source of {function.__name__!r} is not available",
            here,
            "put the kernel in a file, or in a notebook cell; text given to exec has no source",
        )
    if function.__name__ == "<lambda>":
        return _read_lambda(function, lines, file, first)
    inner = lines[first - 1][:1].isspace()  # a nested function: its lines are not dedented
    text, block = _block(lines[first - 1 :], inner)
    tree = block.body[0] if isinstance(block, ast.If) else block
    if getattr(tree, "name", code.co_name) != code.co_name:
        reject(f"the file of {code.co_name!r} has changed since", here, "load it again")
    if not isinstance(tree, ast.FunctionDef):
        reject("only a plain function can be compiled", here, "no async functions or classes")
    source = Source(function, tree, file, first - 1 - inner, text.isascii())
    _check_params(source)
    return source


def _block(lines: list[str], inner: bool) -> tuple[str, ast.stmt]:
    """Return the text of the definition at the start of some lines, and its tree.

    It ends before the first line after ``def`` that is not indented further.  The slower
    `inspect.getblock` is used if such a line is part of a string or of an expression.
    """
    margin = len(lines[0]) - len(lines[0].lstrip())
    numbered = enumerate(lines)
    next((i for i, line in numbered if line.lstrip().startswith("def ")), None)
    end = next((i for i, line in numbered if is_outside(line, margin)), len(lines))
    head = "if True:\n" if inner else ""
    try:
        text = "".join(lines[:end])
        (block,) = ast.parse(head + text).body
    except (SyntaxError, ValueError):
        text = "".join(inspect.getblock(lines))
        block = ast.parse(head + text).body[0]
    return text, block


def is_outside(line: str, margin: int) -> bool:
    """Whether a line is not indented further, empty, a comment, or the end of an expression."""
    text = line.lstrip()
    return bool(text) and len(line) - len(text) <= margin and text[0] not in ")]}#"


def _read_lambda(function: FunctionType, lines: list[str], file: str, first: int) -> Source:
    """Find a lambda in the statement around it, by the columns of its byte code."""
    spans = [p for p in function.__code__.co_positions() if None not in p and p[0] and p[2]]
    columns = {(p[0], p[2]) for p in spans}
    tree = _enclosing(lines)
    found = [
        node
        for node in (ast.walk(tree) if tree else ())
        if isinstance(node, ast.Lambda)
        and any(
            (n.lineno, n.col_offset) in columns
            for n in ast.walk(node.body)
            if isinstance(n, ast.expr)
        )
        and [a.arg for a in node.args.args]
        == list(function.__code__.co_varnames[: function.__code__.co_argcount])
    ]
    if not found:
        reject(
            "the source of this lambda is not available",
            Pos(file, first, 0, 1),
            "put it in a file, or in a notebook cell",
        )
    source = Source(function, found[-1], file, 0, "".join(lines).isascii())
    _check_params(source)
    return source


_trees: dict[str, tuple[int, ast.Module]] = {}


def _enclosing(lines: list[str]) -> ast.Module | None:
    text = "".join(lines)
    known = _trees.get(text[:200])
    if known and known[0] == hash(text):
        return known[1]
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    _trees[text[:200]] = (hash(text), tree)
    return tree


def _check_params(source: Source) -> None:
    args = source.tree.args
    starred = args.vararg and isinstance(source.tree, ast.Lambda)
    if args.posonlyargs or args.kwonlyargs or starred or args.kwarg or args.defaults:
        reject(
            f"{source.name!r} may only have plain positional parameters",
            source.pos(source.tree),
            "no defaults or **kwargs inside the language",
        )
