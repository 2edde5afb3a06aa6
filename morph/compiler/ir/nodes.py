"""The grammar of the intermediate language.

Each node has a source position, each expression a type.  Nodes marked *effect* occur only as the
value of an ``Assign`` or in an ``Eval``, so that C++ and the interpreter evaluate them in the order
of the user's text.  Both operands of an operator have the same type: each promotion is an explicit
``Cast``.
"""

from __future__ import annotations

from dataclasses import dataclass

from morph.compiler.ir.node import Node as Node
from morph.compiler.ir.node import accesses as accesses
from morph.compiler.ir.node import bodies as bodies
from morph.compiler.ir.node import bound as bound
from morph.compiler.ir.node import columns as columns
from morph.compiler.ir.node import equal as equal
from morph.compiler.ir.node import find as find
from morph.compiler.ir.node import of_latest as of_latest
from morph.compiler.ir.node import operands as operands
from morph.compiler.ir.node import renamed as renamed
from morph.compiler.ir.node import rewrite_bodies as rewrite_bodies
from morph.compiler.ir.node import rewritten as rewritten
from morph.compiler.ir.node import slots as slots
from morph.compiler.ir.node import used as used
from morph.compiler.ir.node import walk as walk
from morph.compiler.ir.node import with_parts as with_parts
from morph.language.position import Pos as Pos
from morph.language.types import GraphInfo, Scalar, Store, Type

ColumnKey = tuple[str, str]  # slot, column

# a grammar is read as a whole: no lines between a node and its fields
# ruff: noqa: D204
# fmt: off

# --- expressions ---------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True, kw_only=True)
class Expr(Node):
    """An expression."""
    type: Type

@dataclass(frozen=True, slots=True, kw_only=True)
class Const(Expr):
    """A literal or captured constant; ``None`` as a handle is -1."""
    value: int | float | bool

@dataclass(frozen=True, slots=True, kw_only=True)
class Var(Expr):
    """A local, a parameter, or a program's state variable."""
    uses = ("name",)
    name: str

@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Expr):
    """``-`` ``~`` ``not``."""
    op: str
    x: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Expr):
    """``+ - * / // % << >> & | ^``; ``//`` and ``%`` as in Python, ``/`` on floats."""
    op: str
    x: Expr
    y: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(Expr):
    """``== != < <= > >=`` on scalars, ``== !=`` on handles."""
    op: str
    x: Expr
    y: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Logic(Expr):
    """Short-circuit ``and`` or ``or`` of two booleans."""
    op: str
    x: Expr
    y: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Expr):
    """``x if cond else y``."""
    cond: Expr
    x: Expr
    y: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Cast(Expr):
    """A scalar to the scalar ``type``; a handle to its integer, or back (``g.points[i]``)."""
    x: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Expr):
    """*effect* if the function has one.  A user's function, by its unique name in the unit."""
    func: str
    args: tuple[Expr, ...]

@dataclass(frozen=True, slots=True, kw_only=True)
class Builtin(Expr):
    """A pure function of the prelude: abs min max sqrt floor ceil orient2d incircle ..."""
    name: str
    args: tuple[Expr, ...]

@dataclass(frozen=True, slots=True, kw_only=True)
class Place(Node):
    """Value ``index`` (None: the scalar) of a column at a row of the store in ``slot``."""
    indices = ("row", "index")
    arguments = "column"
    slot: str
    column: str
    row: Expr
    index: Expr | None
    type: Type

@dataclass(frozen=True, slots=True, kw_only=True)
class Load(Expr):
    """The value at a place."""
    varies = reads = site = True
    place: Place

@dataclass(frozen=True, slots=True, kw_only=True)
class Dead(Expr):
    """Whether a row of a table is deleted."""
    indices = ("row",)
    varies = site = True
    arguments = "rows"
    slot: str
    row: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Make(Expr):
    """A vector, struct or tuple from its parts."""
    parts: tuple[Expr, ...]

@dataclass(frozen=True, slots=True, kw_only=True)
class MakeLocal(Expr):
    """A new, empty per-item collection; only as the value of an ``Assign``."""
    sequential = True

@dataclass(frozen=True, slots=True, kw_only=True)
class MakeShared(MakeLocal):
    """A new shared array of zeros; only as the value of an ``Assign`` in a kernel's body."""

@dataclass(frozen=True, slots=True, kw_only=True)
class Item(Expr):
    """``x[i]`` of a vector, a local collection or new rows."""
    indices = ("index",)
    x: Expr
    index: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Field(Expr):
    """Part ``index`` of a struct or tuple."""
    x: Expr
    index: int

@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSize(Expr):
    """The number of values in a local collection, or of new rows."""
    x: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Contains(Expr):
    """``value in x`` for a local collection or vector."""
    x: Expr
    value: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSize(Expr):
    """Allocated rows of a table (also dead ones), or items of a collection (``in_all`` parts)."""
    counts = True
    arguments = "rows"
    slot: str
    in_all: bool = False

@dataclass(frozen=True, slots=True, kw_only=True)
class Raised(Expr):
    """Whether a flag is raised; like a `Load` of a place that other items may change."""
    varies = True
    arguments = "flag"
    slot: str

@dataclass(frozen=True, slots=True, kw_only=True)
class Degree(Expr):
    """Number of out (``out``) or in (``in``) edges of a point of graph ``graph``."""
    indices = ("point",)
    site = True
    arguments = "adjacency"
    graph: str
    point: Expr
    direction: str

@dataclass(frozen=True, slots=True, kw_only=True)
class FindEdge(Expr):
    """The first edge from ``x`` to ``y`` in adjacency order, or -1."""
    indices = ("x", "y")
    site = True
    arguments = "adjacency"
    direction = "out"
    graph: str
    x: Expr
    y: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Atomic(Expr):
    """*effect*.  ``min max add sub and or xor cas exch``; returns the old value.

    Raises ``flag`` if the place changed.
    """
    effect = writes = site = shared = True
    arguments = "raised"
    op: str
    place: Place
    args: tuple[Expr, ...]
    flag: str | None

@dataclass(frozen=True, slots=True, kw_only=True)
class ItemAtomic(Expr):
    """*effect*.  As `Atomic`, of a shared array's element; returns the old value."""
    indices = ("index",)
    effect = site = True
    uses = ("name",)
    op: str
    name: str
    index: Expr
    args: tuple[Expr, ...]

@dataclass(frozen=True, slots=True, kw_only=True)
class New(Expr):
    """*effect*.  A new row with some columns set (a value or vector), the others at their fill."""
    effect = allocates = resizes = per_item = shared = True
    arguments = "new"
    slot: str
    values: tuple[tuple[str, Expr], ...]

@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows(Expr):
    """*effect*.  ``count`` consecutive new rows, with columns at their fill or uninitialised."""
    indices = ("count",)
    effect = allocates = resizes = per_item = sequential = shared = True
    arguments = "new"
    slot: str
    count: Expr
    fill: bool = True

@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Expr):
    """*effect*.  Mark a row dead; deleting a dead row does nothing."""
    indices = ("row",)
    effect = resizes = site = shared = True
    arguments = "free"
    slot: str
    row: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Add(Expr):
    """*effect*.  Append an item (its columns by name) to the collection in ``slot``."""
    effect = allocates = resizes = per_item = shared = True
    arguments = "new"
    slot: str
    values: tuple[tuple[str, Expr], ...]

@dataclass(frozen=True, slots=True, kw_only=True)
class Take(Expr):
    """*effect*.  Remove an item that the collection had at the last barrier.

    Returns its ``item`` (or the entry's handle, if the collection has columns), or -1 if there is
    none.
    """
    effect = resizes = sequential = shared = True
    arguments = "rows"
    slot: str

@dataclass(frozen=True, slots=True, kw_only=True)
class SetFind(Expr):
    """*effect*.  The representative of a point: the smallest id in its set."""
    indices = ("x",)
    effect = site = True
    arguments = "parent"
    slot: str
    x: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class SetUnion(Expr):
    """*effect*.  Unite the sets of two points; true if they were disjoint."""
    indices = ("x", "y")
    effect = site = shared = True
    arguments = "parent"
    slot: str
    x: Expr
    y: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Lock(Expr):
    """*effect*.  ``single(row)``: true for the first item of the launch that locks the row."""
    indices = ("row",)
    effect = site = shared = True
    arguments = "lock"
    slot: str
    row: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class LockPlace(Expr):
    """*effect*.  ``single(row.column)``: true for the item that changes the place from 0 to 1."""
    effect = writes = site = shared = True
    place: Place

@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetch(Expr):
    """*effect*.  Prefetch a place."""
    effect = site = True
    place: Place

@dataclass(frozen=True, slots=True, kw_only=True)
class FlagSet(Expr):
    """*effect*.  Raise (or lower) a flag."""
    effect = shared = True
    arguments = "flag"
    slot: str
    value: bool

@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAdd(Expr):
    """*effect*.  Append to the local collection ``name``; the item fails if that is full."""
    effect = fails = per_item = sequential = True
    uses = ("name",)
    name: str
    value: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPop(Expr):
    """*effect*.  Remove and return the last value of the local collection ``name``."""
    effect = sequential = site = True
    uses = ("name",)
    name: str

@dataclass(frozen=True, slots=True, kw_only=True)
class LocalClear(Expr):
    """*effect*.  Clear the local collection ``name``."""
    effect = sequential = True
    uses = ("name",)
    name: str



# --- statements ----------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True, kw_only=True)
class Stmt(Node):
    """A statement."""


Body = tuple[Stmt, ...]

@dataclass(frozen=True, slots=True, kw_only=True)
class Assign(Stmt):
    """Assign a local; all assignments of a local have the same type."""
    binds = ("name",)
    name: str
    value: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class SetItem(Stmt):
    """``name[index] = value`` of a local vector or local collection."""
    indices = ("index",)
    site = True
    uses = ("name",)
    name: str
    index: Expr
    value: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class SetField(Stmt):
    """``name.field = value`` of a local struct; ``index`` is the field's position."""
    uses = ("name",)
    name: str
    index: int
    value: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Write(Stmt):
    """Non-atomic write to a place; without an index, a whole vector to a vector column."""
    writes = site = shared = True
    place: Place
    value: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(Stmt):
    """Mark a changed column of an owned row: the next `Exchange` sends it to mirrors."""
    indices = ("row",)
    shared = True
    slot: str
    column: str
    row: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Eval(Stmt):
    """Evaluate an expression for its effect."""
    value: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class If(Stmt):
    """``if cond: then`` ``else: orelse``."""
    cond: Expr
    then: Body
    orelse: Body

@dataclass(frozen=True, slots=True, kw_only=True)
class While(Stmt):
    """``while cond: body``."""
    loop = True
    cond: Expr
    body: Body

@dataclass(frozen=True, slots=True, kw_only=True)
class DividedLoop(Stmt):
    """A loop whose iterations threads of a GPU may divide; the passes for groups and warps mark it.

    ``divided`` says among which threads, see `passes.group_execution`; None: each thread that
    executes the statement executes all iterations.
    """
    divided: str | None = None
    reductions: tuple[tuple[str, str], ...] = ()  # combined after the loop: locals, operations

@dataclass(frozen=True, slots=True, kw_only=True)
class ForRange(DividedLoop):
    """``for var in range(start, stop, step)``; ``step`` is a nonzero constant."""
    loop = True
    binds = ("var",)
    var: str
    start: Expr
    stop: Expr
    step: int
    body: Body

@dataclass(frozen=True, slots=True, kw_only=True)
class ForBits(DividedLoop):
    """``for var in bit_positions(x)``: the positions of the one bits of an integer, ascending."""
    loop = True
    binds = ("var",)
    var: str
    x: Expr
    body: Body

@dataclass(frozen=True, slots=True, kw_only=True)
class ForEdges(DividedLoop):
    """Loop over the edges of a point, in adjacency order from position ``start``.

    Backwards if ``reverse`` (then ``start`` counts from the last).  Binds ``edge``; and ``var``,
    the other end, if not None.  ``direction`` is ``out``, ``in`` or ``all`` (out, then in).  Skips
    the edge ``skip``.
    """
    indices = ("point", "start")
    loop = site = True
    binds = ("edge", "var")
    arguments = "adjacency"
    graph: str
    point: Expr
    direction: str
    edge: str
    var: str | None
    start: Expr | None
    reverse: bool
    skip: Expr | None
    body: Body

@dataclass(frozen=True, slots=True, kw_only=True)
class ForRows(DividedLoop):
    """Loop over live rows of a table, or items of a collection (``var`` as in ``foreach``)."""
    indices = ("start",)
    loop = counts = True
    binds = ("var",)
    arguments = "rows"
    slot: str
    var: str
    start: Expr | None
    reverse: bool
    body: Body

@dataclass(frozen=True, slots=True, kw_only=True)
class ForItems(Stmt):
    """Loop over a local collection, vector or new rows; the size is read at each iteration."""
    indices = ("start",)
    loop = True
    binds = ("var",)
    x: Expr
    var: str
    start: Expr | None
    reverse: bool
    body: Body

@dataclass(frozen=True, slots=True, kw_only=True)
class Break(Stmt):
    """Leave the innermost loop."""
    leaves = True

@dataclass(frozen=True, slots=True, kw_only=True)
class Continue(Stmt):
    """Continue the innermost loop."""
    leaves = True

@dataclass(frozen=True, slots=True, kw_only=True)
class Return(Stmt):
    """Return from the function."""
    leaves = sequential = True
    value: Expr | None

@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier(Stmt):
    """The end of a part of a kernel; units have none, as parts become steps."""
    sequential = True

@dataclass(frozen=True, slots=True, kw_only=True)
class Need(Node):
    """At most ``count`` rows of the store in ``slot``, or values of the ``local`` collection."""
    uses = ("collection",)
    arguments = "need"
    slot: str
    count: Expr
    local: bool = False

    @property
    def collection(self) -> str | None:
        """The local collection that needs capacity."""
        return self.slot if self.local else None

@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve(Stmt):
    """Reserve capacity for all later allocations of the item, or defer the item."""
    fails = per_item = sequential = True
    needs: tuple[Need, ...]

@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(Stmt):
    """From its first change on, the item allocates at most ``count`` rows of the store in ``slot``.

    If ``slot`` names a ``local`` collection, its size is then at most ``count``.  The pass
    `reservations` replaces these statements.
    """
    slot: str
    count: Var
    local: bool

@dataclass(frozen=True, slots=True, kw_only=True)
class Exceed(Stmt):
    """The item exceeds its limit for ``slot``: it ends, and the launch raises an error."""
    leaves = fails = per_item = sequential = True
    slot: str

@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Stmt):
    """The end of ``gather``: claim the rows in ``items``, guard those in ``guard``."""
    leaves = per_item = sequential = site = True
    uses = ("items", "guard")
    items: str
    guard: str | None
    priority: Expr | None


def exceeds(unit: Unit) -> list[Exceed]:
    """The nodes at which items may exceed limits; generated code uses the index of a node."""
    return find(unit.funcs, Exceed)


# --- units ---------------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True, kw_only=True)
class Func(Node):
    """A function specialised to its argument types.

    Parameters of type Object are not in the generated signature.  ``locals`` has the types of all
    locals except parameters.
    """
    remembered = True
    name: str
    params: tuple[tuple[str, Type], ...]
    result: Type
    locals: tuple[tuple[str, Type], ...]
    body: Body
    cpp: str | None = None  # @func(cpp=...): the C++ body, printed unchanged

@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel(Func):
    """A function that ``foreach`` executes for each item; ``params[0]`` is the item.

    The body of a kernel with ``single(collection)`` ends in ``Claim`` on paths that reach it;
    ``commit`` or ``abort`` follows, and uses the locals in ``live``.
    """
    arguments = "ahead"
    commit: Body | None = None
    abort: Body | None = None
    live: tuple[str, ...] = ()
    where: str | None = None  # name of the Func that filters items
    ahead: tuple[str, str] | None = None  # items added to the first list are stored in the second

@dataclass(frozen=True, slots=True, kw_only=True)
class Foreach(Node):
    """Execute a kernel once for each live row or item of the store in ``slot``.

    ``args`` are the kernel's non-object arguments after the item; ``where_args`` the filter's.
    ``start`` and ``stop`` bound the rows or items, counted as in a slice of Python.
    ``together``: all items claim in one round.  ``balance``: the threads that share the last loop
    over an item's edges, if it can be shared (see `passes.work_sharing`): ``thread`` one thread,
    ``warp`` a warp, ``grid`` all threads; ``auto`` all threads if the row is long.
    ``until_empty``: items that the kernel adds to ``slot`` are executed in the same step, and
    ``slot`` is cleared at its end.  The ``sections`` of one step are adjacent, numbered from 0;
    only the last is followed by a barrier.
    """
    synchronises = counts = True
    arguments = "rows"
    slot: str
    kernel: str
    args: tuple[Expr, ...]
    where_args: tuple[Expr, ...]
    together: bool = False
    balance: str = "auto"
    start: Expr | None = None
    stop: Expr | None = None
    until_empty: bool = False
    section: int = 0
    sections: int = 1

@dataclass(frozen=True, slots=True, kw_only=True)
class OneThread(Node):
    """Statements that a single thread executes, then a barrier."""
    synchronises = True
    body: Body

@dataclass(frozen=True, slots=True, kw_only=True)
class TakeFlag(Node):
    """``var = flag.take()``: read and lower; the value is the same for all threads."""
    binds = ("var",)
    arguments = "flag"
    var: str
    slot: str

@dataclass(frozen=True, slots=True, kw_only=True)
class Clear(Node):
    """Clear a collection, then a barrier."""
    synchronises = True
    arguments = "rows"
    slot: str

@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedValue(Node):
    """A value of which each part has a copy; ``before`` is the value before the step.

    ``op`` combines the values of the parts, see `partitioning.replicated.ReplicatedColumn`.
    """
    op: str
    place: Place
    before: Expr

@dataclass(frozen=True, slots=True, kw_only=True)
class Agree(Node):
    """Makes the barrier of the preceding ``Foreach`` a crossing, a barrier of all parts.

    A flag that one part has raised is raised on all parts, and values are combined.  After a
    `Deliver` it takes effect at its crossing; values only if there are no messages.

    ``fence``: the parts agree on nothing; stores into other parts follow.
    """
    flags: tuple[str, ...]
    values: tuple[ReplicatedValue, ...]
    fence: bool = False

@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrors(Node):
    """A column of points or edges at the mirrors of a part, and the combining operation or "".

    ``marked``: only the rows of `Mark`, and rows that share their marks, are sent.  ``value``: the
    only value that the step writes; a bit is sent for each row, whether it has this value.
    """
    arguments = "column"
    slot: str
    column: str
    op: str = ""
    marked: bool = False
    value: Expr | None = None

@dataclass(frozen=True, slots=True, kw_only=True)
class FillMirrors(Node):
    """Set the mirrors of this part to 0, then a barrier of this part."""
    synchronises = True
    mirrors: tuple[Mirrors, ...]

@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange(Node):
    """Combine owned rows with their mirrors, then set mirrors to the values of the owned rows.

    A crossing follows.
    """
    synchronises = True
    combines: tuple[Mirrors, ...]
    spreads: tuple[Mirrors, ...]

@dataclass(frozen=True, slots=True, kw_only=True)
class Combine(Node):
    """Give all parts the combination of their copies of a column.

    Each part combines a range of the rows, and stores the result into all copies.  A crossing
    follows.
    """
    synchronises = True
    arguments = "copies"
    slot: str
    column: str
    op: str

@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver(Node):
    """Send the messages in ``outbox`` to the owners of their rows of ``table``, in ``inbox``.

    ``points`` are columns of global ids, which are converted to local ids by the column ``ids`` of
    the points.  At a crossing the parts agree whether the preceding ``Foreach`` has failed on a
    part, and whether there are messages: if not, they skip the next ``Foreach``, which executes
    them.  If there is a ``bound``, only messages are sent whose column ``offered`` is not worse
    than that column of the mirror.
    """
    synchronises = True
    arguments = "messages"
    outbox: str
    inbox: str
    table: str
    points: tuple[str, ...]
    ids: Mirrors | None
    bound: Mirrors | None
    offered: str

@dataclass(frozen=True, slots=True, kw_only=True)
class Block(Node):
    """Uniform steps, then a jump: to ``goto`` if ``cond`` is None or true, else to ``orelse``.

    -1 ends the program.  All threads compute an ``Assign`` of a block.  The jump exchanges the
    buffers of the collections in ``swap``: (slot, slot whose buffer it gets).  ``saves`` and
    ``restores`` name the variables in which a call of a program saves the buffer permutation.
    """
    steps: tuple[
        Assign | Foreach | OneThread | TakeFlag | Clear | Agree | FillMirrors | Exchange | Combine
        | Deliver,
        ...,
    ]
    cond: Expr | None
    goto: int
    orelse: int = -1
    swap: tuple[tuple[str, str], ...] = ()
    saves: str = ""
    restores: str = ""

@dataclass(frozen=True, slots=True, kw_only=True)
class Unit(Node):
    """A compilation unit: its objects, its functions (callees first), and its blocks.

    A unit of one ``foreach`` has one block with one ``Foreach`` step and is not ``fused``.
    ``permutations`` are the reachable buffer permutations: for each swapped slot, (slot, slot of
    the object that it denotes); the first is the identity.
    """
    name: str
    stores: tuple[Store, ...]
    graphs: tuple[GraphInfo, ...]
    scalars: tuple[tuple[str, Scalar], ...]  # run-time scalar arguments, as Var of the same name
    funcs: tuple[Func, ...]  # including kernels
    state: tuple[tuple[str, Type], ...]  # a program's variables
    blocks: tuple[Block, ...]
    fused: bool
    permutations: tuple[tuple[tuple[str, str], ...], ...] = ()
    local_scale: int = 1  # factor of the capacity of all local collections
    checked: bool = False  # every access is checked; see `sites`
    made: tuple[str, ...] = ()  # slots of scalars that the program creates, one row each
    single_block: bool = False  # one block of a GPU, or one CPU thread, executes it
    ranks: bool = False  # of a program on parts: these lie in several processes
