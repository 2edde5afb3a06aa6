"""Cached records of units: a process that finds a record need not compile the unit to C++.

A record is the outline of a unit and its text.  Its key is a hash of all inputs of the compilation:
the description of the launch, the Python values that are compiled in (`fingerprint`), the compiler,
and the version of Python.  Records are JSON; only known types are decoded.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache as memoised
from functools import partial
from pathlib import Path
from types import CellType
from typing import Any

from morph.compiler.codegen import prelude
from morph.compiler.frontend.dependencies import Dependencies
from morph.compiler.ir.outline import Field, Outline
from morph.language import types
from morph.launch.fingerprint import Fingerprint, Unrecordable
from morph.launch.kernels import IMPORTED
from morph.runtime.toolchain import cache, shipped

enabled = True
FORMAT = 3
PACKAGE = Path(__file__).parents[1]
COMPILER = ("compiler", "language", "launch", "prelude.py")  # files that a unit's text depends on
KINDS = {k.__name__: k for k in (
    Field, types.Column, types.GraphInfo, types.Handle, types.Object, types.Scalar, types.Store,
)}  # fmt: skip


@dataclass(slots=True)
class Record:
    """A unit as an earlier process compiled it."""

    outline: Outline
    origins: dict[str, Any]
    text: str
    dependencies: list[Callable[[], bool]]


class UnitRecorder:
    """Finds and stores the record of one unit.

    Attributes
    ----------
    key : str
    names : set of (module, name)
        The globals whose values the key depends on.
    cells : sequence of (cell, function)
        The variables of closures whose values, or functions of them, it depends on.
    """

    def __init__(self, key: str, names: set[tuple[str, str]], cells: Sequence[Any] = ()) -> None:
        self.key, self.names, self.cells = key, names, cells
        self.used: list[tuple[str, str]] = []  # the elements of `names` that the compiler has read

    @classmethod
    def of(cls, description: Any) -> UnitRecorder | None:
        """Return the recorder of a description, None if its unit cannot be recorded."""
        on = enabled and not description.checked and not description.device.interprets
        if not on or (compiler_hash := hash_of_compiler()) is None:
            return None
        found = Fingerprint()
        try:
            found.put(FORMAT, compiler_hash, sys.implementation.cache_tag, sys.flags.optimize)
            found.put(description.names, description.shape, description.domain, description.options)
            found.put(*description.stores.values(), *description.graphs.values())
            for x in description.kinds:
                if isinstance(x, types.Type):
                    found.put(x)
                else:
                    found.value(x)
            found.function(description.function, description.function.kind == "kernel")
            if description.where is not None:
                found.function(description.where, True)
        except Unrecordable:
            return None
        return cls(found.digest(), found.names, found.cells)

    def find(self) -> Record | None:
        """Return the record, if there is one."""
        folder = shipped.collected()  # while a wheel is built: what it has already
        folders = (cache.path(), shipped.FOLDER) if folder is None else (folder,)
        known = next(filter(None, (cache.recall_unit(self.key, f) for f in folders)), None)
        try:
            assert known is not None
            fields = {n: decoded(x) for n, x in known["outline"].items()}
            origins = {n: tuple(x) if isinstance(x, list) else x for n, x in known["origins"]}
            checks = self._dependencies([(m, n) for m, n in known["names"]])
            return Record(Outline(**fields), origins, str(known["text"]), checks)
        except (AssertionError, AttributeError, KeyError, TypeError, ValueError):
            return None  # no record, or one of another version

    def _dependencies(self, names: list[tuple[str, str]]) -> list[Callable[[], bool]]:
        """Return the comparisons of globals and closures that each launch makes."""
        made = Dependencies()
        for module, name in names:
            namespace = vars(sys.modules[module])
            root, _, attribute = name.partition(".")
            value = vars(namespace[root])[attribute] if attribute else namespace[root]
            made.add(lambda: None, value, (id(namespace), name), namespace)
        for variable, of in self.cells:
            current = partial(_content, variable, of)
            made.add(current, current())
        return made.checks

    def is_recordable(self, dependencies: Dependencies, captured: bool) -> bool:
        """Whether a unit depends only on its key, and has ``captured`` no object."""
        self.used = dependencies.names
        used = [(m, n.partition(".")[0]) for m, n in self.used]
        importable = all(m in sys.modules and n in vars(sys.modules[m]) for m, n in used)
        return (
            dependencies.recordable and importable and self.names.issuperset(used) and not captured
        )

    def store(self, outline: Outline, origins: Mapping[str, Any], text: str) -> None:
        """Write the record."""
        plain = {f.name: encoded(getattr(outline, f.name)) for f in dataclasses.fields(outline)}
        known = {"outline": plain, "origins": list(origins.items()), "names": self.used}
        with suppress(OSError):  # a full disk: the unit is compiled again
            cache.remember_unit(self.key, known | {"text": text}, shipped.collected())


def _content(variable: CellType, of: Callable[[Any], Any] | None) -> Any:
    try:
        return variable.cell_contents if of is None else of(variable.cell_contents)
    except (AttributeError, ValueError):  # the variable or attribute was deleted
        return None


@memoised
def hash_of_compiler() -> str | None:
    """Return a hash of the compiler; None if its files have changed since it was imported."""
    digest, files = hashlib.sha256(), list(prelude.files())
    for part in COMPILER:
        place = PACKAGE / part
        files += [place] if place.is_file() else sorted(place.rglob("*.py"))
    try:
        for file in files:
            with open(file, "rb", buffering=0) as opened:
                if os.fstat(opened.fileno()).st_mtime > IMPORTED:
                    return None
                digest.update(opened.read())
    except OSError:
        return None
    return digest.hexdigest()


def encoded(x: Any) -> Any:
    """Encode values of `KINDS`, tuples, lists and dicts as JSON."""
    if isinstance(x, tuple):
        return {"(": [encoded(y) for y in x]}
    if isinstance(x, list):
        return [encoded(y) for y in x]
    if isinstance(x, dict):
        return {"{": [[k, encoded(y)] for k, y in x.items()]}
    if type(x).__name__ in KINDS:
        fields = [encoded(getattr(x, f.name)) for f in dataclasses.fields(x)]
        return {type(x).__name__: fields}
    return x


def decoded(x: Any) -> Any:
    """Decode a value that `encoded` returned."""
    if isinstance(x, list):
        return [decoded(y) for y in x]
    if not isinstance(x, dict):
        return x
    ((kind, values),) = x.items()
    if kind == "{":
        return {k: decoded(y) for k, y in values}
    made = [decoded(y) for y in values]
    return tuple(made) if kind == "(" else KINDS[kind](*made)
