"""A text, the same in each process, that describes all Python values that a unit depends on.

A function is described by the text of its file, its position in the file, and the values of all
globals whose names occur in it, also of those that the compiler does not read.  Attributes of
modules and classes count as globals.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from morph.language.dtypes import Ref, Vec
from morph.language.intrinsics import StructType, name_of
from morph.language.lines import around
from morph.language.source import is_outside
from morph.launch.kernels import Function

NAME = re.compile(r"[^\W\d]\w*")
PLAIN = (type(None), bool, int, float, str, bytes, np.generic, np.dtype, Vec)


class Unrecordable(Exception):
    """A value that is different in each process, or cannot be described."""


class Fingerprint:
    """A text, and the globals that it describes.

    Attributes
    ----------
    parts : list of str
    names : set of (module, name)
    cells : list of (cell, function)
        Variables of closures, and a function of their values that a launch depends on; None: the
        values themselves.
    """

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.names: set[tuple[str, str]] = set()
        self.cells: list[tuple[CellType, Any]] = []
        self._known: dict[Any, int] = {}  # parts at which values are described

    def digest(self) -> str:
        """Return a hash of the text."""
        return hashlib.sha256("\0".join(self.parts).encode()).hexdigest()

    def put(self, *parts: Any) -> None:
        """Add texts."""
        self.parts.extend(map(str, parts))

    def value(self, x: Any, names: frozenset[str] = frozenset(), needed: bool = True) -> None:
        """Describe a value, and its attributes with these names.

        Raises
        ------
        Unrecordable
            If it cannot be described, and is ``needed``.
        """
        kind = type(x)
        if (name := name_of(x)) is not None:
            self.put("intrinsic", name)
        elif isinstance(x, PLAIN):
            self.put(kind.__name__, repr(x))
        elif isinstance(x, Function):
            self.function(x)
        elif isinstance(x, FunctionType | BuiltinFunctionType):
            self.put("called by no kernel", x.__module__, x.__qualname__)
        elif isinstance(x, tuple):
            self.put(kind.__module__, kind.__qualname__, getattr(x, "_fields", ""), len(x))
            for y in x:
                self.value(y, names, needed)
        elif isinstance(x, ModuleType | type):
            self._attributes(x, names)
        elif not self._of_the_language(x, names):
            if needed:
                raise Unrecordable
            self.put("unknown", kind.__module__, kind.__qualname__)

    def function(self, x: Any, launched: bool = False) -> None:
        """Describe a function of the language, or a filter; ``launched`` by a ``foreach``."""
        own = isinstance(x, Function)
        f, part = (x.__wrapped__, x.part) if own else (x, None)
        if not self._first("function", f, part):
            return
        code, lines = f.__code__, x.lines if own else around(f)
        if not lines:
            raise Unrecordable
        self.put(getattr(x, "kind", "where"), getattr(x, "cpp", None), part, f.__module__)
        self.put(f.__qualname__, code.co_firstlineno, _hash_of(code), _hash_of_lines(lines))
        used, all_names = _names_in_code(code), _names(code, lines)
        self._closure(f, all_names, launched)
        for n in sorted(all_names & f.__globals__.keys()):
            self.names.add((str(f.__globals__.get("__name__")), n))
            self.put(n)
            self.value(f.__globals__[n], all_names, n in used)

    def _closure(self, f: FunctionType, names: frozenset[str], launched: bool) -> None:
        """Describe captured values; of numbers that each launch reads, only the types."""
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            try:
                x = cell.cell_contents
            except ValueError:
                raise Unrecordable from None
            self.put(name)
            if launched and isinstance(x, bool | int | float | np.generic):
                self.put(type(x).__name__, isinstance(x, int) and not -(2**63) <= x < 2**63)
                self.cells.append((cell, type))
            else:
                self.value(x, names)
                self.cells.append((cell, None))
                if isinstance(x, ModuleType | type):
                    self.cells += [(cell, attrgetter(n)) for n in sorted(names & vars(x).keys())]

    def _first(self, *key: Any) -> bool:
        """Whether a value is not described yet; otherwise add a reference to its description."""
        known = (key[0], id(key[1]), *key[2:])
        if (at := self._known.setdefault(known, len(self.parts))) == len(self.parts):
            self.put("new")
            return True
        self.put("as at", at)
        return False

    def _attributes(self, x: Any, names: frozenset[str]) -> None:
        """Describe a module or class."""
        self.put(type(x).__name__, getattr(x, "__module__", ""), x.__name__)
        if not self._first("attributes", x, names):
            return
        if isinstance(x, type):
            self.put(x.__dict__.get("__annotations__", ""), getattr(x, "_fields", ""))
        for n in sorted(names & vars(x).keys()):
            self.put(n)
            self.value(vars(x)[n], names, False)

    def _of_the_language(self, x: Any, names: frozenset[str]) -> bool:
        """Describe a struct, or the type of one of its fields; false if the value is neither."""
        if isinstance(x, StructType):
            self.put("struct", x.name)
            for field, t in x.annotations.items():
                self.put(field, t if isinstance(t, str) else "")
                used = NAME.findall(t) if isinstance(t, str) else ()
                for y in (x.names[n] for n in used if n in x.names) if used else (t,):
                    self.value(y, names)
        elif isinstance(x, Ref) and x.table is None:
            self.put("ref", x.name, x.size)
        else:
            return False
        return True


def _code_and_within(code: CodeType) -> Iterable[CodeType]:
    yield code
    for x in code.co_consts:
        if isinstance(x, CodeType):
            yield from _code_and_within(x)


@lru_cache(4096)
def _hash_of(code: CodeType) -> str:
    """Return a hash of byte code and its positions, which differ between lambdas of one line."""
    digest = hashlib.sha256()
    for c in _code_and_within(code):
        digest.update(c.co_code + b"\0" + c.co_linetable + repr(c.co_names).encode())
    return digest.hexdigest()


_hashes: dict[int, tuple[list[str], str]] = {}  # by the id of a list of lines


def _hash_of_lines(lines: list[str]) -> str:
    if id(lines) not in _hashes:
        _hashes[id(lines)] = lines, hashlib.sha256("".join(lines).encode()).hexdigest()
    return _hashes[id(lines)][1]


@lru_cache(4096)
def _names_in_code(code: CodeType) -> frozenset[str]:
    return frozenset(n for c in _code_and_within(code) for n in c.co_names)


_names_known: dict[tuple[CodeType, int], frozenset[str]] = {}


def _names(code: CodeType, lines: list[str]) -> frozenset[str]:
    """Return all names in the text of a function, as byte code lacks the names in annotations."""
    key = code, id(lines)
    if key not in _names_known:
        first = code.co_firstlineno
        numbers = (n for c in _code_and_within(code) for _, _, n in c.co_lines() if n)
        last = max(numbers, default=first)
        margin = len(lines[first - 1]) - len(lines[first - 1].lstrip())
        while last < len(lines) and not is_outside(lines[last], margin):
            last += 1
        text = "".join(lines[first - 1 : last])
        _names_known[key] = _names_in_code(code) | frozenset(NAME.findall(text))
    return _names_known[key]
