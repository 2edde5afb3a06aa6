"""The factor graph of a formula: variables, clauses and literals as tables, laid out by slot.

Points are variables.  The k-th literals of all clauses lie side by side (slot k), clauses sorted by
length, the longest first: so row ``slots[k].first + c`` of ``entries`` is the k-th literal of
clause c, there is one if ``c < slots[k].count``, no clause pads another, and threads of consecutive
clauses read consecutive memory, whatever the lengths.  A literal is a reference to its variable and
a message, the fixed-point logarithm of `morph.algorithms.sat.surveys`, complemented if it is
negated.

Fixing variables deletes points, literals and clauses: the residual graph is written into a second
set of tables, in order (`morph.algorithms.sat.residual`), and the first stays unchanged, to roll
back to.  O(literals) each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from morph.algorithms.sat.literals import has_literal, literal
from morph.algorithms.sat.residual import Space, arrange, sizes, space_for, write_residual
from morph.data.collection import Flag
from morph.data.formula import Formula
from morph.data.scalars import Scalars
from morph.data.table import Table, set_lengths
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.launch.foreach import foreach, func, kernel, program
from morph.operators.sort import argsort
from morph.partition.formula import joined
from morph.prelude import atomic_add, f32, i32, i64, log2, prefetch, u32
from morph.runtime.arrays import all_true, any_true, bincount, count_each
from morph.runtime.device import Device

CERTAIN = 22  # bits: a probability below 2 ** -22 counts as zero
LARGEST_SCALE, LEAST_SCALE = 20, 16  # of messages: log2 of the units in one bit
BINS = 4096  # of the biases
BIAS, BITS, LEAST_BITS, CLASHES, FACTORS, FREE = range(6)  # sums over variables or clauses
# that `Device.array_device` counts as one: solving takes long, so the host may prepare more of them
LITERALS_PER_ELEMENT = 4
# columns of variables that programs change by atomics, and how the copies of parts are combined
COMBINED = {"sums.by_sign": "add", "points.certain": "or", "points.value": "max"}
AHEAD = 16  # clauses: so far ahead a CPU prefetches the data of variables


class Contradiction(Exception):
    """The formula has no model, or none that agrees with the values that were fixed."""


class Factors:
    """A factor graph, and the sums of its messages.

    Parameters
    ----------
    device : Device
    scale, sum_type
        The attributes.
    beside : Factors, optional
        Whose flags, totals and space these tables share.

    Attributes
    ----------
    graph : Graph
        Tables ``points``, ``clauses``, ``entries``, ``slots``; rows of the first two have the
        ``origin``, their variable or clause in the formula, from 0.
    scale : float
        Units of a message in one bit.
    sum_type : dtype
        That of a sum of messages.
    sums : list of Table
        Three tables with a row ``by_sign`` for each variable: the sums of its messages, those that
        the next sweep adds up, and those that it clears.
    totals : Scalars
        Sums of `marginals` and `fields` over all variables and clauses, by `BIAS` to `FREE`.
    ahead : int
        How many clauses before its use the data of a variable are prefetched; 0 on a GPU.
    """

    def __init__(
        self, device: Device, scale: int, sum_type: Any, beside: Factors | None = None
    ) -> None:
        self.graph = g = Graph(device)
        self.scale, self.sum_type = scale, sum_type
        self.sums = [Table("sums", device, by_sign=vec(sum_type, 2)) for _ in range(3)]
        self.first_sums = tuple(self.sums)
        self.ahead = AHEAD if device.on_host and not device.interprets else 0
        # made once: launches are found again by the identity of their arguments
        if beside is None:
            self.unconverged, self.fixed, self.broken = (Flag(device) for _ in range(3))
            self.totals = Scalars(device, sums=np.zeros(FREE + 1, np.int64))
            self.space: Space | None = None  # of the residual graph
        else:
            self.unconverged, self.fixed, self.broken = beside.flags
            self.totals, self.space = beside.totals, beside.space
        # sizes of the residual graph, if `arrange` has run for the present values
        self.left: tuple[int, list[int]] | None = None
        for name in ("origin", "value", "choice", "fresh", "certain"):
            g.points.add(name, i32, fill=-1 if name == "value" else 0)
        g.add_table("clauses", origin=i32, length=i32, source=i32)
        g.add_table("entries", variable=Ref("points"), message=i32)
        g.add_table("slots", first=i32, count=i32)

    def longest(self) -> int:
        """Return the length of the longest clause."""
        return len(self.graph.slots)

    def count_clauses(self) -> int:
        """Return the number of clauses that are left."""
        return len(self.graph.clauses)

    # Algorithms do each step for each part, and combine what the parts have found of the variables;
    # there is one part here, several in `morph.algorithms.sat.parts`.

    @property
    def parts(self) -> list[Factors]:
        """The factor graphs of this process that the clauses are divided among."""
        return [self]

    @property
    def divided(self) -> bool:
        """Whether the clauses are divided, be it among parts of other processes."""
        return False

    def gather(self, value: Callable[[Factors], Any]) -> list[Any]:
        """Return a value of each part, also of those of other processes."""
        return [value(self)]

    def each(self, run: Callable[..., Any], *others: Factors) -> None:
        """Run a function for each part, and the same part of other graphs."""
        run(self, *others)

    @property
    def runs_programs(self) -> bool:
        """Whether one launch of each part executes a whole program, by `run`."""
        return True

    def run(self, choose: Callable[[Factors], Any], args: Callable[[Factors], Any]) -> Any:
        """Run a program of each part, all together; `COMBINED` columns are combined in it."""
        return choose(self)(*args(self))

    def combine(self, column: Callable[[Factors], Any], op: str) -> None:
        """Give all parts the combination of their values of a column of the variables."""

    def raised(self, flag: Callable[[Factors], Flag]) -> bool:
        """Whether a part has raised a flag."""
        return any(self.gather(lambda part: bool(flag(part))))

    def agree_on_values(self) -> tuple[bool, bool]:
        """Give all parts the values that any of them has fixed.

        Returns
        -------
        agreed : bool
            All parts had the same.
        opposed : bool
            Two parts have fixed a variable differently.
        """
        return True, False

    def rest(self, local: Formula) -> Any:
        """Return the residual formula, given the clauses of this process."""
        return local

    def like(self) -> Factors:
        """Give tables of the same kind, without rows."""
        return Factors(self.graph.device, self.scale, self.sum_type, self)

    @property
    def flags(self) -> tuple[Flag, Flag, Flag]:
        """The flags of programs, which `like` shares."""
        return self.unconverged, self.fixed, self.broken

    def resize(self, n: int, counts: list[int]) -> None:
        """Have n variables, and ``counts[k]`` literals in slot k, whose contents are not set."""
        g = self.graph
        sizes = n, counts[0] if counts else 0, sum(counts), len(counts), n, n, n
        tables = g.points, g.clauses, g.entries, g.slots, *self.sums
        first = np.cumsum([0, *counts[:-1]], dtype=np.int32)[: len(counts)]
        set_lengths(tables, sizes)
        g.slots.count[:] = np.array(counts, np.int32)
        g.slots.first[:] = first

    def exchange(self, sweeps: int) -> None:
        """Exchange the roles of the sums as some sweeps have done."""
        k = sweeps % 3
        self.sums = self.sums[k:] + self.sums[:k]


@func
def hash_pair(a, b, seed):
    """Hash two numbers and a seed to 32 bits."""
    x = u32(a) * u32(0x9E3779B1) ^ (u32(b) * u32(0x85EBCA6B) + u32(seed) * u32(0xC2B2AE35))
    x = (x ^ (x >> u32(16))) * u32(0x7FEB352D)
    x = (x ^ (x >> u32(15))) * u32(0x846CA68B)
    x = (x ^ (x >> u32(16))) + u32(b) * u32(0x27D4EB2F)
    x = (x ^ (x >> u32(15))) * u32(0x2C1B3C6D)
    x = (x ^ (x >> u32(12))) * u32(0x297A2D39)
    return x ^ (x >> u32(15))


@kernel
def begin(c, g, sums, seed, scale, ahead):
    """Give a clause's messages their first value, the survey being uniform at random."""
    s = 0
    if ahead > 0:
        while has_literal(g, c.id + ahead, s):
            prefetch(sums[literal(g, c.id + ahead, s).variable.id].by_sign)
            s += 1
    s = 0
    while has_literal(g, c.id, s):
        e = literal(g, c.id, s)
        v = e.variable
        none = f32((hash_pair(c.origin, v.origin, seed) >> u32(8)) + u32(1)) * f32(2.0**-24)
        own = i32(f32(0.5) - log2(max(none, f32(2.0**-CERTAIN))) * scale)
        sign = 0
        if e.message < 0:
            sign = 1
        e.message = ~own if sign == 1 else own
        atomic_add(sums[v.id].by_sign[sign], own)
        s += 1


def factor_graph(
    formula: Formula, device: Device, seed: int | None, scale: tuple[int, Any] | None = None
) -> Factors:
    """Make the factor graph of a formula, with random messages, or trivial ones without a seed.

    ``scale`` is that of messages, and the type of their sums, if not the finest that fits.

    Literals that are repeated in a clause count once; clauses that hold a literal and its negation
    are left out.

    Raises
    ------
    Contradiction
        If a clause is empty.
    ValueError
        If the formula has 2**31 literals or more.
    """
    refuse_large(formula)
    work = device.array_device(formula.literals.size // LITERALS_PER_ELEMENT)
    with work.active():
        clause, code, _ = cleaned(formula, work)
        size = 2 * formula.variables
        degree = int(count_each(work.xp, code, size).max()) if code.size else 1
    f = Factors(device, *(scale or scale_of(degree)))
    fill_tables(f, formula, clause, code, work)
    begin_messages(f, seed)
    return f


def refuse_large(formula: Formula) -> None:
    """Refuse a formula whose literals or variables one device cannot number."""
    if formula.literals.size >= 2**31 or formula.variables >= 2**30:
        raise ValueError(f"{formula!r} is too large: fewer than 2**31 literals, 2**30 variables")


def fill_tables(f: Factors, formula: Formula, clause: Any, code: Any, work: Device) -> None:
    """Fill the tables of a factor graph by the result of `cleaned`; messages are trivial."""
    g, n, m, xp = f.graph, formula.variables, formula.clauses, work.xp
    with work.active():
        lengths = count_each(xp, clause, m)
        starts = xp.cumsum(lengths) - lengths
        first = xp.zeros(m, np.int64)
        held = lengths > 0
        first[held] = code[starts[held]] >> 1
        kept = xp.flatnonzero(held)
        width = int(lengths.max()) if m else 0
        key = (width - lengths[kept]) * n + first[kept]
        order = kept[argsort(key)]
        counts = _slot_counts(work, lengths[order], width)
        rank = xp.zeros(m, np.int64)
        rank[order] = xp.arange(order.size)
        slot = xp.arange(clause.size)
        slot -= starts[clause]
        place = xp.asarray(np.cumsum([0, *counts[:-1]], dtype=np.int64))[slot]
        place += rank[clause]
        f.resize(n, counts)
        f.space = space_for(n, counts[0] if counts else 0, width, f.graph.device)
        g.points.origin[:] = xp.arange(n, dtype=np.int32)
        g.clauses.origin[:] = order.astype(np.int32)
        placed = xp.empty(clause.size, np.int32)
        placed[place] = code.astype(np.int32)
        g.entries.variable[:] = placed >> 1
        g.entries.message[:] = -(placed & 1)


def begin_messages(f: Factors, seed: int | None) -> None:
    """Give messages their first values, uniform at random; without a seed they stay trivial."""
    if seed is not None:
        of = np.uint32(seed % 2**32), np.float32(f.scale), f.ahead
        foreach(f.graph.clauses, begin, f.graph, f.sums[0], *of)


@kernel
def forget_message(e):
    e.message = e.message >> 31


@kernel
def clear_sums(s):
    s.by_sign[0] = 0
    s.by_sign[1] = 0


@program
def forget_messages(g, now, after):
    foreach(g.entries, forget_message)
    foreach(now, clear_sums)
    foreach(after, clear_sums)


def trivial_messages(f: Factors) -> None:
    """Set the messages of one part to those that say nothing."""
    forget_messages(f.graph, f.sums[0], f.sums[1])


def cleaned(formula: Formula, device: Device) -> tuple[Any, Any, int]:
    """Clause and literal code (2 * variable + negated) of each literal that counts, sorted."""
    n, m, xp = formula.variables, formula.clauses, device.xp
    offsets, literals = device.asarray(formula.offsets), device.asarray(formula.literals)
    if m and any_true(offsets[1:] == offsets[:-1]):
        raise Contradiction("a clause is empty")
    clause = _owners(xp, offsets, literals.size)
    literals = literals.astype(np.int64)
    code = 2 * (xp.abs(literals) - 1) + (literals < 0)
    bits = (2 * n).bit_length()
    key = xp.sort(clause << bits | code)
    clause, code = key >> bits, key & (1 << bits) - 1
    if key.size:
        kept = xp.ones(key.size, bool)
        kept[1:] = key[1:] != key[:-1]
        if not all_true(kept):
            clause, code, key = clause[kept], code[kept], key[kept]
        both = xp.flatnonzero(key[1:] >> 1 == key[:-1] >> 1)
        if both.size:
            always = xp.zeros(m, bool)
            always[clause[both]] = True
            kept = ~always[clause]
            clause, code = clause[kept], code[kept]
    return clause, code, m


def _owners(xp: Any, offsets: Any, size: int) -> Any:
    """The clause of each literal; no clause is empty."""
    starts = xp.zeros(size, np.int64)
    starts[offsets[1:-1]] = 1
    return xp.cumsum(starts)


def _slot_counts(device: Device, lengths: Any, width: int) -> list[int]:
    """How many clauses have more than k literals, for each k."""
    if lengths.size and int(lengths.min()) == width:
        return [lengths.size] * width
    of_length = device.to_host(bincount(device.xp, lengths, width + 1))
    return [int(x) for x in of_length[::-1].cumsum()[::-1][1 : width + 1]]


def scale_of(degree: int) -> tuple[int, Any]:
    """Units of a message, and the type that holds a sum of ``degree`` of them."""
    bits = int(np.log2(2.0**31 / ((CERTAIN + 1) * max(degree, 1))))
    if bits >= LEAST_SCALE:
        return 1 << min(bits, LARGEST_SCALE), i32
    return 1 << LARGEST_SCALE, i64


def reduced(f: Factors, into: Factors) -> None:
    """Write the residual graph, given the ``value`` of variables, into other tables."""
    f.each(_reduced, into)
    into.combine(sums_of, "add")


def sums_of(f: Factors) -> Any:
    """The sums of the messages, shape (n, 2); parts have those of their own until combined."""
    return f.sums[0].by_sign.array


def _reduced(f: Factors, into: Factors) -> None:
    assert f.space is not None
    if f.left is None:
        arrange(f.graph, f.space)
        f.left = sizes(f.space, f.longest())
    n, counts = f.left
    f.left = None
    into.resize(n, counts)
    into.sums = list(into.first_sums)  # the launches for this order are bound already
    write_residual(into.graph, into.sums[0], into.sums[1], f.graph, f.ahead)


def rest_of(f: Factors) -> tuple[Any, Any]:
    """Give the formula over the free variables, all of them unfixed, and their names, from 0.

    Its clauses have the order of the formula, of which each part has a range.
    """
    rests = [_rest_of(part) for part in f.parts]
    return f.rest(joined([formula for formula, _ in rests])), rests[0][1]


def _rest_of(f: Factors) -> tuple[Formula, Any]:
    g, device = f.graph, f.graph.device.array_device(len(f.graph.entries) // LITERALS_PER_ELEMENT)
    xp, m = device.xp, len(g.clauses)
    counts = device.to_host(g.slots.count.array)
    with device.active():
        variable, message = map(device.asarray, (g.entries.variable.array, g.entries.message.array))
        signed = xp.where(message < 0, -1 - variable, variable + 1)
        lengths = xp.zeros(m, np.int64)
        for count in counts.tolist():
            lengths[:count] += 1
        origin = device.asarray(g.clauses.origin.array)
        first = int(origin.min()) if m else 0
        sizes = xp.zeros(int(origin.max()) - first + 1 if m else 0, np.int64)  # in formula's order
        sizes[origin - first] = lengths
        ends = xp.cumsum(sizes)
        offsets = xp.zeros(m + 1, np.int64)
        offsets[1:] = ends[sizes > 0]
        starts = ends[origin - first] - lengths
        literals, at = xp.empty(signed.size, np.int32), 0
        for slot, count in enumerate(counts.tolist()):
            literals[starts[:count] + slot] = signed[at : at + count]
            at += count
        parts = [device.to_host(x) for x in (offsets, literals)]
        parts.append(np.array(device.to_host(g.points.origin.array)))
    return Formula(len(g.points), parts[0], parts[1]), parts[2]
