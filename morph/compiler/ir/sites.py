"""The checked mode: the nodes of a unit that are checked, and the error texts of violations.

A *site* is a node that may violate a rule of the language: an access to a column, an index, an
integer operation whose result affects an index.  Generated code, the interpreter and the host
identify a site by its number.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.layout import SITE_BITS, STEP_BITS
from morph.compiler.ir.layout import Kind as Kind
from morph.compiler.ir.spelling import user_name
from morph.language.errors import CheckError
from morph.language.lines import text_at
from morph.language.types import Handle, Local, Object, Scalar, Store, Vector

LARGEST_HANDLE = 2**31 - 1
STEPS = 1 << STEP_BITS  # number of different steps in a shadow word
TRACKED_SITES = 1 << SITE_BITS  # number of different sites in a shadow word
SHADOW_WORDS = 4  # of one value: the two lowest items that write it, and that read it
CHECK_WORDS = 16
DECLARED = re.compile(r"#\s*race:\s*\S")  # with a reason


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
    def key(self) -> tuple[int, ...]:
        """Of several violations, the one with the smallest key is reported."""
        if self.kind == Kind.RACE:
            return 1, self.item, self.site, self.other, self.other_site, self.value
        return 0, self.item


class Violated(Exception):
    """Raised by the interpreter to end a launch."""

    def __init__(self, violation: Violation) -> None:
        self.violation = violation
        super().__init__(violation)


def past_limit(node: ir.Exceed) -> CheckError:
    """The error of an item that allocates more than it has reserved."""
    return CheckError(f"an item adds more to {user_name(node.slot)!r} than it reserved", node.pos)


class Sites:
    """The sites of a unit.

    Attributes
    ----------
    nodes : list of Node
        The sites by number; accesses that are checked for races come first.
    tracked : frozenset of (slot, column)
        The columns that have shadow words: those with non-atomic writes.
    """

    def __init__(self, unit: ir.Unit) -> None:
        nodes = list(ir.walk((unit.funcs, unit.blocks)))
        places = [n for n in nodes if accesses(n) and not declared(n.pos)]
        self.tracked = frozenset(c for n in places if isinstance(n, ir.Write) for c in accesses(n))
        races = [n for n in places if not self.tracked.isdisjoint(accesses(n))]
        arithmetic = index_arithmetic(unit)
        others = [n for n in nodes if is_site(n) or id(n) in arithmetic]
        self.nodes = list({id(n): n for n in (*races, *others)}.values())
        self.number = {id(n): i for i, n in enumerate(self.nodes)}
        self._races = {id(n) for n in races if self.number[id(n)] < TRACKED_SITES}
        self.deleting = frozenset(n.slot for n in nodes if isinstance(n, ir.Delete))
        made = [(f, n) for f in unit.funcs for n in claims(f)]
        self._claimed = {id(n): claimed(f, n.items) for f, n in made}
        self.guards = {claimed(f, n.guard) for f, n in made if n.guard}

    def races(self, node: ir.Node, column: tuple[str, str]) -> bool:
        """Whether the accesses of a node to a column are checked for races."""
        return id(node) in self._races and column in self.tracked

    def slot(self, n: ir.Node) -> str:
        """The slot of the store whose rows a node accesses."""
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
        given = (
            ir.SetItem, ir.LocalPop, ir.Item, ir.ItemAtomic, ir.Binary, ir.Unary, ir.Builtin,
        )  # fmt: skip
        slots = {
            self.slot(n)
            for n in self.nodes
            if not isinstance(n, given)
            and not (isinstance(n, ir.Cast) and isinstance(n.type, Scalar))
        }
        return {stores[s].of or s for s in slots | self.guards}


sites_of = ir.of_latest(Sites)


def accesses(n: ir.Node) -> tuple[tuple[str, str], ...]:
    """The (slot, column) that a node reads or writes, including the ends of edges."""
    match n:
        case _ if n.reads or n.writes:
            return tuple(ir.columns([n], "reads", "writes"))
        case ir.ForEdges() if n.var is not None:
            return ends(n.graph, n.direction)
        case ir.FindEdge():
            return ends(n.graph, "out")
    return ()


def ends(graph: str, direction: str) -> tuple[tuple[str, str], ...]:
    """The columns with the other ends of the edges at a point."""
    names = {"out": ["dst"], "in": ["src"], "all": ["dst", "src"]}[direction]
    return tuple((f"{graph}.edges", name) for name in names)


def claims(f: ir.Func) -> list[ir.Claim]:
    """The claims of a function."""
    return ir.find(f, ir.Claim)


def claimed(f: ir.Func, name: str) -> str:
    """The slot of the store whose rows are in a local collection."""
    t = (dict(f.params) | dict(f.locals))[name]
    assert isinstance(t, Local) and isinstance(t.elem, Handle)
    return t.elem.slot


def declared(pos: ir.Pos) -> bool:
    """Whether the line, or a comment line before it, has ``# race:`` with a reason."""
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
    return n.site


def _fits(x: ir.Expr) -> bool:
    """Whether all values of an expression fit in a handle."""
    if isinstance(x, ir.Const):
        return -1 <= x.value <= LARGEST_HANDLE
    t = x.type
    return not isinstance(t, Scalar) or t.kind == "b" or t.bits < 32 or t.name == "i32"


# --- expressions used as indices -----------------------------------------------------------------


def indices(n: ir.Node) -> list[ir.Expr | None]:
    """The expressions that a node uses as rows, indices and numbers of rows."""
    if isinstance(n, ir.Cast):
        return [n.x] if isinstance(n.type, Handle) else []
    return [getattr(n, name) for name in n.indices]


def index_arithmetic(unit: ir.Unit) -> set[int]:
    """The ids of operations on signed integers whose results flow into an index.

    Values are traced back through locals, parameters, results, and parts of structs, tuples,
    vectors and local collections, but not through columns, `&`, `%`, ``>>``, ``//`` and ``^``, as
    hash functions overflow on purpose, and then reduce the result.
    """
    return _Backwards(unit).found


Path = tuple[int, ...]  # of a part: positions in structs and tuples, ELEMENT for elements
ELEMENT = -1


class _Backwards:
    """Traces indices back to the operations that compute them."""

    def __init__(self, unit: ir.Unit) -> None:
        self.params = {
            f.name: [n for n, t in f.params if not isinstance(t, Object)] for f in unit.funcs
        }
        self.found: set[int] = set()
        # parts of the locals and results, by function, that are used in indices
        self.locals: defaultdict[tuple[str, str], set[Path]] = defaultdict(set)
        self.results: defaultdict[str, set[Path]] = defaultdict(set)
        self.changed = True
        nodes = {f.name: list(ir.walk(f)) for f in unit.funcs}
        while self.changed:
            self.changed = False
            for name, below in nodes.items():
                for n in below:
                    for x, path in [*self._made_into_index(name, n)]:
                        self._follow(name, x, path)

    def _made_into_index(self, func: str, n: ir.Node) -> Iterator[tuple[ir.Expr | None, Path]]:
        yield from ((x, ()) for x in indices(n))
        match n:
            case ir.Assign():
                yield from ((n.value, path) for path in self.locals[func, n.name])
            case ir.SetItem() | ir.LocalAdd():
                yield from ((n.value, path) for path in self._below(func, n.name, ELEMENT))
            case ir.ItemAtomic():
                below = self._below(func, n.name, ELEMENT)
                yield from ((x, path) for x in n.args for path in below)
            case ir.SetField():
                yield from ((n.value, path) for path in self._below(func, n.name, n.index))
            case ir.ForItems():
                yield from ((n.x, (ELEMENT, *path)) for path in self.locals[func, n.var])
            case ir.ForRange() if self.locals[func, n.var]:
                yield from ((n.start, ()), (n.stop, ()))
            case ir.ForBits() if self.locals[func, n.var]:
                yield n.x, ()
            case ir.Return():
                yield from ((n.value, path) for path in self.results[func])
            case ir.Call():
                yield from self._arguments(func, n)

    def _below(self, func: str, name: str, part: int) -> list[Path]:
        """The rest of the paths of a local that lead through one of its parts."""
        return [path[1:] for path in self.locals[func, name] if path and path[0] == part]

    def _arguments(self, func: str, n: ir.Call) -> Iterator[tuple[ir.Expr, Path]]:
        args = [x for x in n.args if not isinstance(x.type, Object)]
        for name, x in zip(self.params[n.func], args, strict=True):
            if isinstance(x.type, Local) and isinstance(x, ir.Var):  # the function may add to it
                for path in self.locals[func, x.name]:
                    self._use(self.locals[n.func, name], path)
            yield from ((x, path) for path in self.locals[n.func, name])

    def _use(self, paths: set[Path], path: Path) -> None:
        self.changed = self.changed or path not in paths
        paths.add(path)

    def _operation(self, e: ir.Expr) -> None:
        self.changed = self.changed or id(e) not in self.found
        self.found.add(id(e))

    def _follow(self, func: str, e: ir.Expr | None, path: Path) -> None:
        match e:
            case ir.Var():
                self._use(self.locals[func, e.name], path)
            case ir.Call():
                self._use(self.results[e.func], path)
            case ir.LocalPop() | ir.ItemAtomic():
                self._use(self.locals[func, e.name], (ELEMENT, *path))
            case ir.Field():
                self._follow(func, e.x, (e.index, *path))
            case ir.Item():
                self._follow(func, e.x, (ELEMENT, *path))
            case ir.Make() if path:
                parts = e.parts if path[0] == ELEMENT else (e.parts[path[0]],)
                for x in parts:
                    self._follow(func, x, path[1:])
            case ir.Cast() | ir.Unary() | ir.Binary() | ir.Builtin() | ir.Select():
                if _may_overflow(e):
                    self._operation(e)
                for x in _operands(e):
                    self._follow(func, x, path)


def _operands(e: ir.Expr) -> tuple[ir.Expr, ...]:
    """The operands whose overflow affects the value of an operation."""
    match e:
        case ir.Select():
            return e.x, e.y
        case ir.Cast() | ir.Unary():
            return (e.x,)
        case ir.Binary() if e.op in OPERATORS or e.op == "|":
            return (e.x,) if e.op == "<<" else (e.x, e.y)
        case ir.Builtin() if e.name in ("min", "max", "abs"):
            return e.args
    return ()


def _may_overflow(e: ir.Expr) -> bool:
    """Whether an operation on signed integers may overflow, or a cast may change a value."""
    if isinstance(e, ir.Cast):
        return _may_lose(e)
    checked = isinstance(e, ir.Binary) and e.op in OPERATORS
    return (checked or negates(e)) and isinstance(e.type, Scalar) and e.type.kind == "i"


def negates(e: ir.Node) -> bool:
    """Whether an operation overflows only for the smallest integer."""
    return (isinstance(e, ir.Unary) and e.op == "-") or (
        isinstance(e, ir.Builtin) and e.name == "abs"
    )


def _may_lose(e: ir.Cast) -> bool:
    """Whether a cast to an integer may change a value other than by truncating a fraction."""
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


def problem(
    sites: Sites, v: Violation, named: Callable[[str], str], short: Callable[[str], str]
) -> str:
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
            return f"index {v.value} is out of range: {_owner(n, short)} {_many(v.limit, 'value')}"
        case Kind.NO_VALUE:
            return "pop() of an empty local collection"
        case Kind.INDEX_OVERFLOW:
            assert isinstance(n, ir.Expr)
            if isinstance(n, ir.Binary):
                return f"{v.value} {n.op} {v.limit} overflows {n.type}, and is used as an index"
            if negates(n):
                operation = "abs" if isinstance(n, ir.Builtin) else "-"
                return f"{operation}({v.value}) overflows {n.type}, and is used as an index"
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
    if isinstance(n, ir.Atomic | ir.LockPlace):
        return "changed"
    return "written" if isinstance(n, ir.Write) else "read"


def _many(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _count(n: int, noun: str) -> str:
    return f"there is {_many(n, noun)}" if n == 1 else f"there are {_many(n, noun)}"


def _owner(n: ir.Node, short: Callable[[str], str]) -> str:
    for _, column in ir.columns([n], "reads", "writes"):
        return f"column {short(column)!r} has"
    if isinstance(n, ir.Item):
        kinds = {
            "Vector": "the vector has",
            "Rows": "the new rows have",
            "Shared": "the shared array has",
        }
        return kinds.get(type(n.x.type).__name__, "the local collection has")
    assert isinstance(n, ir.SetItem | ir.ItemAtomic)
    return f"{short(n.name)!r} has"
