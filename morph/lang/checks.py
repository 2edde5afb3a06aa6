"""The checked mode: the nodes of a unit that are checked, and the error texts of violations.

A *site* is a node that may violate a rule of the language: an access of a column, an index, an
integer operation from whose result an index is computed.  Generated code, the interpreter and the
host identify a site by its number.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from morph.lang import ir
from morph.lang.lines import text_at
from morph.lang.types import Handle, Local, Object, Scalar, Store, Vector

LARGEST_HANDLE = 2**31 - 1
STEPS = 1 << 24  # number of different steps in a shadow word
TRACKED_SITES = 1 << 12  # number of different sites in a shadow word
SHADOW_WORDS = 3  # of one value: its first writer, and the first two other items that read it
CHECK_WORDS = 16
DECLARED = re.compile(r"#\s*race:\s*\S")  # a reason has to follow


class Word(IntEnum):
    """Words of the ``check`` array (int64); the same as in `kernels/check.h`."""

    LOCK = 0
    KEY = 1
    KIND = 2
    SITE = 3
    ITEM = 4
    ROW = 5
    VALUE = 6
    LIMIT = 7
    OTHER = 8
    OTHER_SITE = 9
    SINK = 10
    STEP = 11
    LAUNCH = 12


class Kind(IntEnum):
    """The rule that was violated; the same as in `kernels/check.h`."""

    NO_ROW = 1
    NO_INDEX = 2
    DELETED_ROW = 3
    NO_VALUE = 4
    INDEX_OVERFLOW = 5
    NO_INTEGER = 6
    RACE = 7


ACCESSES = (ir.Load, ir.Write, ir.Atomic, ir.LockPlace)
ROWS = (ir.Degree, ir.FindEdge, ir.Dead, ir.Delete, ir.Lock, ir.SetFind, ir.SetUnion, ir.Prefetch)
ALWAYS = (*ACCESSES, *ROWS, ir.SetItem, ir.LocalPop, ir.ForEdges, ir.Claim)
OPERATORS = ("+", "-", "*", "<<")


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation: its site, the item (position and row), and the values that break the rule."""

    kind: Kind
    site: int
    item: int
    row: int
    value: int = 0
    limit: int = 0
    other: int = -1
    other_site: int = -1

    @property
    def key(self) -> int:
        """Of several violations the one with the least key is reported."""
        if self.kind == Kind.RACE:
            return (1 << 62) + (self.item << 12) + self.site
        return self.item + 1 << 12


class Violated(Exception):
    """Raised by the interpreter to end a launch."""

    def __init__(self, violation: Violation) -> None:
        self.violation = violation
        super().__init__(violation)


class Sites:
    """The sites of a unit.

    Attributes
    ----------
    nodes : list of Node
        By number; accesses that are checked for races come first.
    tracked : frozenset of (slot, column)
        The columns that have shadow words: those with non-atomic writes.
    """

    def __init__(self, unit: ir.Unit) -> None:
        nodes = list(ir.walk((unit.funcs, unit.blocks)))
        places = [n for n in nodes if isinstance(n, ACCESSES) and not declared(n.pos)]
        self.tracked = frozenset(
            (n.place.slot, n.place.column) for n in places if isinstance(n, ir.Write)
        )
        races = [n for n in places if (n.place.slot, n.place.column) in self.tracked]
        arithmetic = index_arithmetic(unit)
        others = [n for n in nodes if is_site(n) or id(n) in arithmetic]
        self.nodes = list({id(n): n for n in (*races, *others)}.values())
        self.number = {id(n): i for i, n in enumerate(self.nodes)}
        self._races = {id(n) for n in races if self.number[id(n)] < TRACKED_SITES}
        self.deleting = frozenset(n.slot for n in nodes if isinstance(n, ir.Delete))
        made = [(f, n) for f in unit.funcs for n in claims(f)]
        self._claimed = {id(n): claimed(f, n.items) for f, n in made}
        self.guards = {claimed(f, n.guard) for f, n in made if n.guard}

    def races(self, node: ir.Node) -> bool:
        """Whether an access is checked for races."""
        return id(node) in self._races

    def slot(self, n: ir.Node) -> str:
        """The slot of the store whose rows a node takes."""
        match n:
            case ir.Load() | ir.Write() | ir.Atomic() | ir.LockPlace() | ir.Prefetch():
                return n.place.slot
            case ir.Degree() | ir.ForEdges() | ir.FindEdge():
                return f"{n.graph}.points"
            case ir.Cast(type=Handle(slot)):
                return slot
            case ir.Dead() | ir.Delete() | ir.Lock() | ir.SetFind() | ir.SetUnion():
                return n.slot
        return self._claimed[id(n)]

    def rows(self, stores: Mapping[str, Store]) -> set[str]:
        """The slots of all stores of which rows are checked."""
        given = (ir.SetItem, ir.LocalPop, ir.Item, ir.Binary)
        slots = {
            self.slot(n)
            for n in self.nodes
            if not isinstance(n, given)
            and not (isinstance(n, ir.Cast) and isinstance(n.type, Scalar))
        }
        return {stores[s].of or s for s in slots | self.guards}


def claims(f: ir.Func) -> list[ir.Claim]:
    """The claims of a function."""
    return [n for n in ir.walk(f) if isinstance(n, ir.Claim)]


def claimed(f: ir.Func, name: str) -> str:
    """The slot of the store whose rows are in a local collection."""
    t = (dict(f.params) | dict(f.locals))[name]
    assert isinstance(t, Local) and isinstance(t.elem, Handle)
    return t.elem.slot


def declared(pos: ir.Pos) -> bool:
    """Whether a ``# race:`` comment with a reason is on the line, or alone on the line before."""
    before = text_at(pos.file, pos.line - 1).strip()
    alone = before.startswith("#") and DECLARED.search(before)
    return bool(alone or DECLARED.search(text_at(pos.file, pos.line)))


def is_site(n: ir.Node) -> bool:
    """Whether a node is checked wherever it occurs."""
    match n:
        case ir.Item():
            return not (isinstance(n.x.type, Vector) and isinstance(n.index, ir.Const))
        case ir.Cast(type=Handle()):
            return not _fits(n.x)
    return isinstance(n, ALWAYS)


def _fits(x: ir.Expr) -> bool:
    """Whether all values of an expression fit in a handle."""
    if isinstance(x, ir.Const):
        return -1 <= x.value <= LARGEST_HANDLE
    t = x.type
    return not isinstance(t, Scalar) or t.kind == "b" or t.bits < 32 or t.name == "i32"


# --- expressions used as indices -----------------------------------------------------------------


def indices(n: ir.Node) -> list[ir.Expr | None]:
    """The expressions that a node uses as rows, indices and numbers of rows."""
    match n:
        case ir.Place():
            return [n.row, n.index]
        case ir.Item() | ir.SetItem():
            return [n.index]
        case ir.Dead() | ir.Delete() | ir.Lock():
            return [n.row]
        case ir.Degree() | ir.ForEdges():
            return [n.point]
        case ir.FindEdge() | ir.SetUnion():
            return [n.x, n.y]
        case ir.SetFind():
            return [n.x]
        case ir.NewRows():
            return [n.count]
        case ir.Cast(type=Handle()):
            return [n.x]
    return []


def index_arithmetic(unit: ir.Unit) -> set[int]:
    """The operations, by id, on signed integers that an index is made of.

    A value is followed back through locals, parameters and results, but not through `&`, `%`,
    ``>>``, ``//`` and ``^``: who hashes wraps on purpose, and cuts the result.
    """
    return _Backwards(unit).found


class _Backwards:
    """Follows indices back to the operations that make them."""

    def __init__(self, unit: ir.Unit) -> None:
        self.params = {
            f.name: [n for n, t in f.params if not isinstance(t, Object)] for f in unit.funcs
        }
        self.found: set[int] = set()
        self.locals: set[tuple[str, str]] = set()  # by function: used in an index
        self.results: set[str] = set()  # functions whose results are used in indices
        nodes = {f.name: list(ir.walk(f)) for f in unit.funcs}
        before = -1
        while before != (before := len(self.found) + len(self.locals) + len(self.results)):
            for name, below in nodes.items():
                for n in below:
                    for x in self._made_into_index(name, n):
                        self._follow(name, x)

    def _made_into_index(self, func: str, n: ir.Node) -> Iterator[ir.Expr | None]:
        yield from indices(n)
        match n:
            case ir.Assign() if (func, n.name) in self.locals:
                yield n.value
            case ir.ForRange() if (func, n.var) in self.locals:
                yield from (n.start, n.stop)
            case ir.Return() if func in self.results:
                yield n.value
            case ir.Call():
                names = self.params[n.func]
                args = [x for x in n.args if not isinstance(x.type, Object)]
                given = zip(names, args, strict=True)
                yield from (x for name, x in given if (n.func, name) in self.locals)

    def _follow(self, func: str, e: ir.Expr | None) -> None:
        match e:
            case ir.Var():
                self.locals.add((func, e.name))
            case ir.Binary() if e.op in OPERATORS:
                if isinstance(e.type, Scalar) and e.type.kind == "i":
                    self.found.add(id(e))
                self._follow(func, e.x)
                self._follow(func, e.y if e.op != "<<" else None)
            case ir.Cast():
                if _may_lose(e):
                    self.found.add(id(e))
                self._follow(func, e.x)
            case ir.Select():
                self._follow(func, e.x)
                self._follow(func, e.y)
            case ir.Builtin() if e.name in ("min", "max"):
                for x in e.args:
                    self._follow(func, x)
            case ir.Call():
                self.results.add(e.func)


def _may_lose(e: ir.Cast) -> bool:
    """Whether a cast to an integer may change the number, other than by cutting off a fraction."""
    have, want = e.x.type, e.type
    if not (isinstance(have, Scalar) and isinstance(want, Scalar)) or want.kind not in "iu":
        return False
    if isinstance(e.x, ir.Const) or have.kind == "b":
        return False
    if have.kind == "f":
        return True
    wider = want.bits > have.bits if have.kind != want.kind else want.bits >= have.bits
    return not (wider and not (have.kind == "i" and want.kind == "u"))


# --- error texts ---------------------------------------------------------------------------------


def problem(sites: Sites, v: Violation, named: Callable[[str], str]) -> str:
    """Describe a violation in one line; ``named`` gives the user's name of a slot."""
    n = sites.nodes[v.site]
    match v.kind:
        case Kind.NO_ROW:
            table = named(sites.slot(n))
            if v.value == -1:
                return f"this is None, not a row of {table}"
            return f"row {v.value} of {table} does not exist: {_count(v.limit, 'row')}"
        case Kind.DELETED_ROW:
            return f"row {v.value} of {named(sites.slot(n))} is deleted"
        case Kind.NO_INDEX:
            return f"index {v.value} is out of range: {_what(n)} has {_many(v.limit, 'value')}"
        case Kind.NO_VALUE:
            return "pop() of an empty local collection"
        case Kind.INDEX_OVERFLOW:
            assert isinstance(n, ir.Expr)
            if isinstance(n, ir.Binary):
                return f"{v.value} {n.op} {v.limit} overflows {n.type}, and is used as an index"
            return f"{v.value} does not fit in {n.type}, and is used as an index"
        case Kind.NO_INTEGER:
            assert isinstance(n, ir.Expr)
            (x,) = struct.unpack("=d", struct.pack("=q", v.value))
            return f"{x!r} does not fit in {n.type}, and is used as an index"
    raise AssertionError(v.kind)


def race(sites: Sites, v: Violation, place: str, item: str, other: str) -> str:
    """Describe a race: the value, the two items and the two lines."""
    first, then = sites.nodes[v.site], sites.nodes[v.other_site]
    return (
        f"race: in one step {place} is {_verb(first)} here by {item} "
        f"and {_verb(then)} on line {then.pos.line} by {other}"
    )


def _verb(n: ir.Node) -> str:
    return "written" if isinstance(n, ir.Write) else "read" if isinstance(n, ir.Load) else "changed"


def _many(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _count(n: int, what: str) -> str:
    return f"there is {_many(n, what)}" if n == 1 else f"there are {_many(n, what)}"


def _what(n: ir.Node) -> str:
    if isinstance(n, ACCESSES):
        return f"column {n.place.column!r}"
    if isinstance(n, ir.Item):
        kinds = {"Vector": "the vector", "Rows": "the new rows"}
        return kinds.get(type(n.x.type).__name__, "the local collection")
    assert isinstance(n, ir.SetItem)
    return f"{n.name!r}"
