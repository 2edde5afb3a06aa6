"""The plan of a unit, frozen: all decisions that its text depends on, as `planner` makes them.

A `Plan` has a `FunctionPlan` for each function.  A function becomes one or more *texts*, C++
functions (`BodyPlan`): the whole function, the commit of a kernel that claims, or prologue, body
and epilogue of a shared loop (`Sharing`) or search (`Searching`).  Each step of a program has a
`StepPlan`.  `codegen` prints a plan and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.sites import Sites
from morph.compiler.passes.group_execution import GroupPlan
from morph.compiler.passes.grouping import Groups
from morph.compiler.passes.search import SharedSearch
from morph.compiler.passes.stability import Columns
from morph.compiler.passes.work_sharing import (
    SharedLoop,
)
from morph.language.types import Column, Scalar, Type

# Bits of memory that all threads of a program read between steps: of `READ_BITS` columns, of all
# other memory, of the program's variables.
ANY_MEMORY, READ_BITS, VARIABLES = 1, 30, 1 << 31

TotalPlace = tuple[str, str, int, int | None, Scalar]  # slot, column, row, index, type


@dataclass(frozen=True, slots=True)
class BodyPlan:
    """The statements of one text, how it accesses memory, and which locals it declares.

    Mappings by ``id`` have the ids of nodes below ``body``, or of their bodies.
    """

    unstable: Columns  # columns that other threads may change during its execution
    body: ir.Body = ()
    groups: Mapping[int, Groups] = field(default_factory=dict)  # by id of a body
    searches: Mapping[int, ir.Body] = field(default_factory=dict)  # see `search`
    # functions that add to totals, by id of an atomic
    total_functions: Mapping[int, str] = field(default_factory=dict)
    prefetches: Mapping[int, tuple[str, str]] = field(default_factory=dict)  # see `_prefetches`
    single_threaded: bool = False  # one CPU thread executes it: no atomics, all loads are stable
    locals: tuple[tuple[str, Type], ...] = ()  # declared in the text
    live: frozenset[str] = frozenset()  # live locals that are members of a parameter
    monotone: Columns = frozenset()  # columns that change only by minima, or only by maxima
    item: str = ""  # the parameter that is the item, if `stable` is known
    stable: Columns = frozenset()  # columns that do not change at the item
    # of an asynchronous kernel: the lists, see `asynchronous_kernels`
    asynchronous: tuple[str, str] | None = None
    swapped: bool = False  # names a collection that the program swaps
    ends: bool = True  # control may reach its end


@dataclass(frozen=True, slots=True)
class Sharing:
    """A shared loop and the texts that its kernel becomes."""

    loop: SharedLoop
    staged: Mapping[str, tuple[int, int]]  # by collection, offset and size of its staging buffer
    preloaded: Mapping[str, Column]  # columns that are loaded together with the end of the edge
    prologue: BodyPlan
    body: BodyPlan
    epilogue: BodyPlan


@dataclass(frozen=True, slots=True)
class Searching:
    """A search that a GPU's warp shares, and the texts that its kernel becomes on a GPU."""

    search: SharedSearch
    prologue: BodyPlan
    test: BodyPlan
    epilogue: BodyPlan


@dataclass(frozen=True, slots=True)
class FunctionPlan:
    """One function or kernel."""

    func: ir.Func
    reached: tuple[ir.Func, ...]  # the function and all functions that it calls
    grows: bool  # adds to a local collection, itself or in a function that it calls
    takes_item: bool  # uses the state of the item: reservations, failure, flags
    called: bool  # is not inlined, as its copies would take too long to compile
    live: tuple[str, ...]  # locals that are live from gather to commit
    main: BodyPlan
    commit: BodyPlan | None
    abort: BodyPlan | None
    # reservations of commit and abort, if these always allocate exactly so much
    exact: tuple[BodyPlan, BodyPlan] | None
    sharing: Sharing | None
    searching: Searching | None = None
    group_plan: GroupPlan | None = None  # of a kernel with shared arrays
    by_group: BodyPlan | None = None  # its text for all threads of a group
    by_warp: BodyPlan | None = None  # the text for the lanes of a warp that execute it together


@dataclass(frozen=True, slots=True)
class Prefetched:
    """Columns that a CPU's thread prefetches with the rows of items."""

    nearby: tuple[tuple[str, str], ...]  # of the items' points, one of each record
    at_ends: tuple[tuple[str, str], ...]  # of the other ends of a row's first entries


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step between two barriers, or a section of one."""

    name: str  # "BLOCK_NUMBER"
    number: int  # in its block; sections of a step have the same number
    node: ir.Node
    clears: tuple[str, ...]  # collections that are cleared at its barrier
    resized: tuple[str, ...]  # stores whose counters are published at its barrier
    can_fail: bool
    rebuilds: tuple[str, ...]  # graphs whose adjacency is rebuilt after it
    stores: frozenset[str]  # stores named by the statements of a single thread
    assigned: frozenset[str]  # program variables that a single thread computes
    reads: int  # bits of the columns, see `_read_bits`, that its own expressions read
    # bits of columns that it may write: a barrier precedes it if threads have read one of them
    writes: int
    by_master: bool = False  # executed by one thread between arrival and release at its barrier
    arguments_vary: bool = False  # its arguments read memory that the step may write
    sharing: Sharing | None = None
    searching: Searching | None = None
    group: int = 0  # threads of a GPU that execute an item of a kernel with shared arrays
    own_arrays: bool = False  # whether these may be local to a thread
    by_warp: bool = False  # the lanes of a GPU's warp execute an item together
    lists_long_rows: bool = False  # long rows are appended to a list that all threads process
    fetch_adds: bool = False  # adds floats, or uses the old value: slow under contention
    own_row: bool = False  # a shared loop runs over the adjacency row of the item itself
    sweeps: bool = False  # reductions over the rows of all points, see kernels/schedule/sweep.h
    tiled: bool = False  # the same, with entries in tiles; see kernels/schedule/tiles.h
    knows_rows: bool = False  # the adjacency row of an enqueued item is known in advance
    prefetched: Prefetched | None = None  # the items are those of a list, and have rows
    agree: ir.Agree | None = None  # its barrier is a crossing of all parts
    # collections whose number of items all parts exchange at that crossing
    exchanged_sizes: tuple[str, ...] = ()
    fails_at_delivery: bool = False  # parts exchange failures at the delivery after it
    # of a delivery: the step before it, if it `fails_at_delivery`
    sender: StepPlan | None = None
    receiver: StepPlan | None = None  # of a delivery: the step after it
    runs_messages: bool = False  # executes messages; skipped if no part has sent any
    # cached collections of which a single thread reserves the whole capacity
    takes_all: tuple[str, ...] = ()

    @property
    def publishes(self) -> bool:
        """Whether the last thread at the barrier publishes counters or other state."""
        if not isinstance(self.node, ir.Foreach | ir.OneThread | ir.Clear) or not self.has_barrier:
            return False
        changes = self.resized, self.clears, self.rebuilds
        results = self.can_fail, self.lists_long_rows, self.agree
        return any(changes) or any(results) or self.sections > 1

    @property
    def sections(self) -> int:
        """The number of sections of the step."""
        return self.node.sections if isinstance(self.node, ir.Foreach) else 1

    @property
    def has_barrier(self) -> bool:
        """Whether a barrier follows: after the last section of a step."""
        return not isinstance(self.node, ir.Foreach) or self.node.section == self.sections - 1


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """One block of a program: its steps, then a jump."""

    node: ir.Block
    steps: tuple[StepPlan, ...]  # a `Clear` may be part of the step before it
    reads: int  # bits of the columns that the condition of its jump reads
    swapped: bool  # its text names a collection that the program swaps
    permutations: tuple[int, ...]  # the permutation after the block, by that before it
    resumes: int  # the last step at which a launch may be resumed, or -1


@dataclass(frozen=True, slots=True)
class Plan:
    """The input of codegen for one unit."""

    unit: ir.Unit
    functions: Mapping[str, FunctionPlan]
    blocks: tuple[BlockPlan, ...]
    sites: Sites | None  # of a checked unit
    changed: Columns  # columns that a kernel may write; all others are const
    snapshot: bool  # kernels see the sizes of stores at the last barrier
    publishes: bool  # counters are published when the launch ends
    consecutive: frozenset[str]  # stores that allocate consecutive rows
    recycled: frozenset[str]  # tables that recycle rows during a step over them
    swapped: frozenset[str]  # collections that the program swaps
    flags: tuple[str, ...]
    reserved: tuple[str, ...]  # stores in which items reserve capacity
    cached: tuple[str, ...]  # collections with a slot cache for each CPU thread
    totals: tuple[TotalPlace, ...]  # places that all items add to, by partial sums
    float_totals: tuple[TotalPlace, ...]  # the same for floats
    resized: tuple[str, ...]  # stores whose counters functions change
    reports_failure: bool  # an item may fail
    claims: bool
    queues: frozenset[str]  # collections whose new items are executed in the same step
    full_team: bool  # all CPU threads execute also small steps of a program
    asynchronous: bool  # kernels may execute items that they add
    locks: bool
    sections: int  # the maximum of a step
    resident: int  # resident blocks of a GPU's multiprocessor: they limit registers
    much_work: bool  # even few items may have enough work for several CPU threads
    calls: bool  # expressions that all threads compute call functions
    spins: bool  # a loop of the program has no barrier
    uniform: BodyPlan  # of a program's expressions, and of its statements of a single thread

    @property
    def shares(self) -> bool:
        """Whether a loop of the unit is shared."""
        return any(f.sharing for f in self.functions.values())
