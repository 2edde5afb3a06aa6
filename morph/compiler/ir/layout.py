"""Layouts of the arrays that the host and kernels share: the single source of both.

The host indexes arrays by the enumerations below.  `header` returns the C++ text, a part of the
prelude, that declares the same names.  This module imports nothing of the compiler, so that lower
packages can use it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

GLOBAL_ID = "global_id"  # the column with the ids of a part's points in the whole graph


class Meta(IntEnum):
    """Words of a store's ``meta`` array (int64)."""

    COUNT = 0  # allocated rows, including deleted ones, or end of a collection's items
    CAPACITY = 1
    HEAD = 2  # table: next slot of the free ring to recycle; collection: first item not taken
    TAIL = 3  # end of the free ring: deleted rows are pushed here
    COMMITTED = 4  # end of the recyclable rows of the free ring
    BUDGET = 5  # rows that can still be reserved


class Status(IntEnum):
    """Words of the ``status`` array (int64)."""

    EXCEEDED = 0  # 0, or 1 + the index of the exceeded limit, see `ir.exceeds`
    FAILED = 2  # number of deferred items, which have changed nothing and are re-executed
    LOCAL = 3  # whether a local collection was too small
    ROUND = 4  # the last round of claims
    INJECT = 5  # tests only: n, if the n-th reservation from now is to fail (0: none)
    ENDED = 7  # in the host's copy: the number of the launch that has written it last
    STORES = 8  # from here on, one word per store of the unit: whether it must grow


class State(IntEnum):
    """Words of a program's ``state`` array (int64); its variables follow."""

    BLOCK = 0
    STEP = 1
    REPLAY = 2
    PERMUTATION = 4  # the buffer permutation: an index into the unit's ``permutations``
    VARS = 5


class Rebuild(IntEnum):
    """Words of the array for rebuilding the adjacency of a graph in a launch (int64).

    The first four are the counters of the tables when the adjacency was last valid.
    """

    POINTS_TAIL = 0
    EDGES_TAIL = 1
    EDGES_COUNT = 2
    EDGES_HEAD = 3
    POINTS = 4  # addresses, 0 if there is no such array; the counters of both tables
    EDGES = 5
    DEAD_POINTS = 6
    DEAD_EDGES = 7
    FREE_EDGES = 8
    SRC = 9
    DST = 10
    SRC_STRIDE = 11  # bytes from row to row
    DST_STRIDE = 12
    OUT_OFFSET = 13
    OUT_EDGE = 14
    IN_OFFSET = 15
    IN_EDGE = 16
    OFFSETS = 17  # number of offsets of a direction
    LISTED = 18  # by edge, whether the adjacency contains it (u8)
    RANKS = 19  # temporary arrays with an element for each edge: i32, i32, u64, u64
    ENTRIES = 20
    KEYS = 21
    MORE_KEYS = 22
    COUNTS = 23  # i64 for each warp
    CHANGED = 24  # whether the last step has changed these counters


MARKED_ROWS = 8  # rows that share a mark, a byte
MOST_PARTS = 8  # maximum of parts, on one host, that execute a program together
MOST_WORDS = 48  # maximum of words that a part sends at a crossing: two of parts.h, then others
MESSAGE_WORDS = MOST_PARTS + 1  # of these at a delivery: counts of messages, and the largest


class Parts(IntEnum):
    """Words of the array with which a part of a graph accesses the other parts (int64).

    Routes follow, then the addresses that columns have in each part: see `abi.parts_of`.
    """

    COUNT = 0  # number of parts
    NUMBER = 1  # index of this part
    CROSSINGS = 2  # number of crossings so far
    ERROR = 3  # 0, or 1 + the global id of a point of which this part has no copy
    LEFT = 4  # whether the launch has left at a crossing, whose words the hosts exchange
    STOPPED = 5  # whether all parts leave the program; written by the last thread at a barrier
    QUIET = 6  # whether no part has sent messages at the latest delivery
    # If the parts lie in several processes, and launches leave at crossings: the address of the
    # number of the latest one, and of the words that the part sends there.
    SENT = 7
    MAILBOXES = 8  # address of the mailbox of each part, which receives the words of crossings
    COUNTS = 16  # number of messages from this part to each part
    ENDS = 24  # by sender, the number of messages in the inbox from it and the parts before it
    SHIFTS = 32  # by sender, the row of a message in the inbox minus its number
    ROUTES = 40


MAILBOX_LINE = 16  # words between the crossing counters of two parts
MAILBOX = MOST_PARTS * (MAILBOX_LINE + 2 * MOST_WORDS)  # words of a mailbox: see parts.h


class Route(IntEnum):
    """Words of the route between owned rows of a table of points or edges and their mirrors."""

    SENT = 0  # address: the owned rows that other parts mirror (i32), by part
    HOME = 1  # address: by mirror, its row in the owner (i32)
    OWNED = 2  # number of owned rows
    SENT_BOUNDS = 3  # index in `SENT` of the first row of each part, and the end
    FIRST_MIRROR = 12  # the first mirror, in each part, of rows of this part
    MIRRORS = 20  # the first mirror, in this part, of rows of each part, and the end
    # If mirrors may lie in no order since the graph has changed, else 0: addresses of the mirrors
    # of the rows `SENT` in other parts (i32), and, by mirror, of the part that owns its row (u8).
    MIRROR_AT = 29
    OWNER = 30
    WORDS = 31


class Equal(IntEnum):
    """Words for a column of which parts send a bit for each row, see `send_equal` in parts.h."""

    WIDTH = 0  # words of bits from each sender
    MIRRORED = 1  # address: for each sender, the bits of its rows that this part mirrors (u32)
    FIRST = 2  # address: for each of these words, the mirror of its first mirrored row (i32)
    BITS = 3  # addresses of received bits: of each part at even crossings, then at odd ones
    WORDS = BITS + 2 * MOST_PARTS


class CheckWord(IntEnum):
    """Words of the ``check`` array (int64)."""

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
    """The rule that a checked launch has violated."""

    NO_ROW = 1
    NO_INDEX = 2
    DELETED_ROW = 3
    NO_VALUE = 4
    INDEX_OVERFLOW = 5
    NO_INTEGER = 6
    RACE = 7


STEP_BITS, ITEM_BITS, SITE_BITS = 24, 28, 12  # of a shadow word
MOST_TOTALS = 6  # maximum of places that all items add to, by partial sums of each block

FROM, TO = 6, 7  # of ``meta``: the extent at the last barrier, kept during re-execution
# Words that only kernels use: extents, the number of foreach steps of programs with single(row),
# and the value that single(row) of the current step compares.
KERNEL_COUNTERS: dict[type[IntEnum], dict[str, int]] = {
    Meta: {"FROM": FROM, "TO": TO},
    Status: {"LOCKS": 6},
    State: {"LAUNCH": 3},
}
GLOBAL = Meta.TAIL  # in ``meta`` of a partitioned collection: the number of items in all parts
GAPPED_ROW = ("begin", "size")  # 32-bit fields of a gapped row of an adjacency


class Array(NamedTuple):
    """An array of a store or graph in addition to its columns."""

    value: str  # C++ type of its values
    fill: int | None = None  # for an array that only kernels write: the value of a new row
    const: bool = False

    @property
    def address(self) -> str:
        """C++ type of its address."""
        return f"{'const ' if self.const else ''}{self.value}*"


STORE_ARRAYS = {
    "meta": Array("i64"),  # see Meta
    "dead": Array("u8", 0),  # by row, whether it is deleted
    "created": Array("i32", 0),  # by row, the launch that allocated it
    "free": Array("i32"),  # ring of deleted rows
    "fill": Array("u8", const=True),  # the fill values of one row, each at a multiple of 8 bytes
    "owner": Array("u64", 2**64 - 1),  # by row, the smallest key of its claims
    "lock": Array("i32", 0),  # by row, the launch in which it was locked
    "parent": Array("i32"),  # of a union-find structure
    "flag": Array("i32"),
}
GRAPH_ARRAYS = {  # in each direction
    "offset": Array("i64", const=True),  # index of the first edge of a point
    "edge": Array("i32", const=True),  # by entry, the edge
    "end": Array("i32", const=True),  # by entry, the other end, in gapped rows
    "tile": Array("i64", const=True),  # see graph/tiles.py: the entries of tiles;
    "far": Array("i32", const=True),  # their other ends
    "place": Array("u16", const=True),  # and rows in the tile
}
# Bytes of a block's shared memory; two blocks of a multiprocessor leave 60 KB for the L1 cache.
TILE_BYTES = 84 << 10  # for the sums of the rows of a tile
TILE_ROWS = TILE_BYTES // 8
# The arguments of every unit, in order: C++ type.
ARGUMENTS = {
    "status": "i64*",  # see Status
    "deferred": "u32*",  # one bit per item: whether it is deferred, to be executed again
    "replay": "i64",  # whether to execute only the deferred items
    "launch": "i64",  # number of this launch, for single(row)
    "threads": "i64",  # CPU threads to use
    "barrier": "u32*",  # the team's barrier words
    "cursor": "i64*",  # work-sharing counters, zero between launches but for those of claims
    "state": "i64*",  # see State; null unless fused
    "high_degree": "i64*",  # the list of long rows; see kernels/schedule/high_degree.h
    "report": "i64*",  # status and state for the host; may be null
}
CHECKED_ARGUMENT = {"check": "i64*"}  # the violation, see CheckWord
TOGETHER_ARGUMENT = {"lost": "u32*"}  # one bit per item: whether its claim has failed
QUEUE_ARGUMENT = {"ready": "u32*"}  # one bit per item: whether a queue's new item is complete
PARTS_ARGUMENT = {"parts": "i64*"}  # of a program that all parts execute together, see Parts
CLAIMS_ARGUMENT = {"queue": "u32*"}  # on a GPU, the items that pass the filter


def header(checked: bool = False, rebuilds: bool = False, parts: bool = False) -> str:
    """The layouts as C++ for the prelude; those of checks, rebuilds and parts only if used."""
    lines = ["// Generated from morph/compiler/ir/layout.py: what host and kernels share."]
    for counters in (Meta, Status, State):
        lines.append(f"enum {{ {_enumerators(counters)} }};")
    if rebuilds:
        lines.append(f"enum {{ {_enumerators(Rebuild, 'REBUILD_')} }};")
    if parts:
        lines.append(f"enum {{ {_enumerators(Parts, 'PARTS_')}, GLOBAL = {int(GLOBAL)} }};")
        lines.append(f"enum {{ {_enumerators(Route, 'ROUTE_')} }};")
        lines.append(f"enum {{ {_enumerators(Equal, 'EQUAL_')} }};")
        lines.append(f"constexpr i32 MOST_PARTS = {MOST_PARTS}, MOST_WORDS = {MOST_WORDS};")
        lines.append(f"constexpr i32 MAILBOX_LINE = {MAILBOX_LINE}, MARKED_ROWS = {MARKED_ROWS};")
    lines.append(f"struct LooseRow {{ i32 {', '.join(GAPPED_ROW)}; }};")
    lines.append(f"constexpr i32 MOST_TOTALS = {MOST_TOTALS};")
    if checked:
        lines.append(f"enum {{ {_enumerators(CheckWord, 'CHECK_')} }};")
        lines.append(f"enum Violation : i32 {{ {_enumerators(Kind)} }};")
        lines.append(f"constexpr i32 SITE_BITS = {SITE_BITS}, ITEM_BITS = {ITEM_BITS};")
    return "\n".join(lines) + "\n"


def _enumerators(counters: type[IntEnum], prefix: str = "") -> str:
    values = {w.name: int(w) for w in counters} | KERNEL_COUNTERS.get(counters, {})
    listed = sorted(values.items(), key=lambda item: item[1])
    return ", ".join(f"{prefix}{name} = {value}" for name, value in listed)
