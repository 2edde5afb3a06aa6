"""The tables and kernels of probSAT (`probsat`): states of clauses, break counts, flips.

Row i of the points is variable i + 1, and also clause i.
"""

from __future__ import annotations

import math
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.sat.factors import LITERALS_PER_ELEMENT
from morph.data.collection import Collection
from morph.data.formula import Formula
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.language.dtypes import Ref
from morph.launch.foreach import foreach, func, kernel, program
from morph.operators.hashing import mix32, mix64
from morph.operators.sort import argsort
from morph.prelude import (
    atomic_add,
    atomic_exch,
    atomic_max,
    bool_,
    f64,
    i32,
    i64,
    u32,
    u64,
)
from morph.runtime.arrays import count_each
from morph.runtime.device import Device
from morph.runtime.device import device as device_of

BASES = {4: 3.0, 5: 3.7, 6: 5.0}  # c by the longest clause, 5.4 beyond; the authors' own
EXPONENT = 2.06  # of the number of clauses that a flip breaks, for clauses of up to three literals
LAST = 63  # flips that break more clauses than this are as likely
ONE_THREAD = 64  # unsatisfied clauses: as many or fewer are left to one thread
ALL_THREADS = 8 * ONE_THREAD  # if they become more, all threads flip again
STEPS = 128  # of one launch, after which the host checks the time
AT_ONCE = 1 << 20  # attempted flips after which such a launch ends
FLIPS = 1 << 19  # of one thread in one launch
WORK = 16 * FLIPS  # clauses and literals read in such a launch: a flip may read very many
SHARE = 16  # with a time limit a launch on a CPU is divided: so many parts, or two steps each


class Problem(NamedTuple):
    """The tables of a search, as one argument of kernels."""

    points: Any
    slots: Any  # literals, by clause
    rows: Any  # clauses, by variable
    odds: Any  # weight of a flip, by the number of clauses that it breaks
    shift: Any  # of the number of true literals in the state of a clause
    chosen: Any  # unsatisfied clauses, each with the variable that it chose and its claim
    run: Any  # scalars: results of a launch


@func
def tie_break(id, seed, step):
    """A different number for each clause: no two claims are equal."""
    return i64(mix32(u32(id) + u32(seed) + u32(step) * u32(0x9E3779B1)))


@func
def variable_of(s, k):
    """The variable of a literal."""
    return s.points[abs(s.slots[k].literal) - 1]


@func
def count_breaks(s, state, change):
    """Change the break count of the only variable that satisfies a clause in this state."""
    if state >> s.shift == 1:
        atomic_add(s.points[state & ((i64(1) << s.shift) - 1)].breaks, change)


@func
def flipped(s, v):
    """Flip a variable; gives the change of the states of clauses that hold it unnegated."""
    v.flips += 1
    return (v.flips % 2 * 2 - 1) * ((i64(1) << s.shift) + v.id)


@func
def clause_of(s, k, change):
    """The clause of a row, and the change of its state if its variable is flipped."""
    code = s.rows[k].code
    return s.points[code >> u32(1)], -change if code & u32(1) else change


@func
def drawn(c, s, random):
    """The variable of a clause to flip."""
    chosen, total = c, 0.0
    for k in range(c.first, c.first + c.size):
        v = variable_of(s, k)
        weight = s.odds[min(v.breaks, LAST)].weight
        total += weight
        random = mix64(random + 0x9E3779B97F4A7C15)
        if f64(random >> 11) * 2.0**-53 * total < weight:
            chosen = v
    return chosen


@func
def has_literals(c):
    return c.size > 0


@func
def is_listed(c):
    return c.listed


@kernel
def begin(c, s):
    state = i64(0)
    for k in range(c.first, c.first + c.size):
        v = variable_of(s, k)
        holds = i64(v.flips & 1) ^ i64(s.slots[k].literal < 0)  # a branch would be unpredictable
        state += holds * ((i64(1) << s.shift) + v.id)
    c.state = state
    c.listed = state >> s.shift == 0
    count_breaks(s, state, i32(1))


@kernel
def enlist(c, now):
    now.add(c)


@kernel
def choose(c, s, seed, step):
    c.listed = False
    if c.state >> s.shift == 0:
        random = mix64(seed + u64(step) * 0x9E3779B97F4A7C15 + u64(c.id) * 0xD1342543DE82EF95)
        key = step << 32 | tie_break(c.id, seed, step)
        for k in range(c.first, c.first + c.size):
            atomic_max(variable_of(s, k).claim, key)
        s.chosen.add(c, variable=drawn(c, s, random), key=key)


@func
def owned(entry, s):
    c = entry.item
    for k in range(c.first, c.first + c.size):
        if variable_of(s, k).claim != entry.key:
            return False
    return True


@kernel
def flip(entry, s, then):
    v = entry.variable
    if owned(entry, s):
        turn = flipped(s, v)
        for k in range(v.begin, v.begin + v.degree):
            c, change = clause_of(s, k, turn)
            before = atomic_add(c.state, change)
            after = before + change
            count_breaks(s, before, i32(-1))
            count_breaks(s, after, i32(1))
            if after >> s.shift == 0:
                if not atomic_exch(c.listed, True):
                    then.add(c)
    elif not atomic_exch(entry.item.listed, True):
        then.add(entry.item)


@program
def descend(s, now, then, seed, step, last, most):
    flips, count = i64(0), i64(ALL_THREADS)
    while step < last and flips < most and count > ONE_THREAD:
        foreach(now, choose, s, seed, step)
        now.clear()
        count = len(s.chosen)
        foreach(s.chosen, flip, s, then)
        s.chosen.clear()
        flips += count
        now, then = then, now
        step += 1
    s.run.unsatisfied = count
    s.run.work = flips


@kernel
def walk(run, s, most, limit):
    n = run.unsatisfied
    random = run.random
    flips, work = i64(0), i64(0)
    alone = (i64(1) << s.shift) - 1
    while n > 0 and n <= ALL_THREADS and flips < most and work < limit:
        random = random * 6364136223846793005 + 1442695040888963407
        c = s.points[i64((random >> 32) * u64(n) >> 32)].order
        v = drawn(c, s, mix64(random))
        flips += 1
        work += v.degree + c.size  # a clause may be very long
        turn = flipped(s, v)
        for k in range(v.begin, v.begin + v.degree):
            c, change = clause_of(s, k, turn)
            before = c.state
            after = before + change
            c.state = after
            if before >> s.shift == 1:
                s.points[before & alone].breaks -= 1
            if after >> s.shift == 1:
                s.points[after & alone].breaks += 1
            if before >> s.shift == 0:
                n -= 1
                end = s.points[n].order
                s.points[c.at].order = end
                end.at = c.at
            if after >> s.shift == 0:
                c.at = i32(n)
                s.points[n].order = c
                n += 1
    run.unsatisfied = n
    run.random = random
    run.flips = flips
    run.work = work


# --- tables --------------------------------------------------------------------------------------


@kernel
def fill_rows(run, slots, ends, rows, clauses):
    """List the clauses of each variable, one clause after the other."""
    k, c = i64(0), i32(0)
    while k < len(slots):
        while k == clauses[c].end:  # also of empty clauses
            c += 1
        literal = slots[k].literal
        v = abs(literal) - 1
        at = ends[v].at
        ends[v].at = at + 1
        rows[at].code = u32(c) << u32(1) | u32(literal < 0)
        k += 1


def clauses_of_variables(formula: Formula, where: Device) -> tuple[Any, Any]:
    """Give the clauses of each variable as compressed rows: 2 * clause + negated."""
    n, size = formula.variables, formula.literals.size
    work = where.array_device(size // LITERALS_PER_ELEMENT)
    xp = work.xp
    with work.active():
        literals, offsets = work.asarray(formula.literals), work.asarray(formula.offsets)
        begins = xp.zeros(n + 1, np.int64)
        variable = xp.abs(literals)
        xp.cumsum(count_each(xp, variable, n + 1)[1:], out=begins[1:])
        if where.on_host and not where.interprets:
            return begins, _sorted_by_one(formula, begins, where)
        starts = count_each(xp, offsets[1:-1], size + 1)
        clause = xp.cumsum(starts[:size]).astype(np.uint32)
        return begins, (clause << 1 | (literals < 0))[argsort(variable)]  # stable


def _sorted_by_one(formula: Formula, begins: Any, where: Device) -> Any:
    """Sort by counting, in one thread of the host."""
    slots, rows = Table("slots", where, literal=i32), Table("rows", where, code=u32)
    ends, clauses = Table("ends", where, at=i64), Table("clauses", where, end=i64)
    slots.extend(literal=formula.literals)
    rows.extend(formula.literals.size)
    ends.extend(at=begins[:-1])
    clauses.extend(end=formula.offsets[1:])
    # one item, so one thread: clauses must be in order
    foreach(Scalars(where, done=0), fill_rows, slots, ends, rows, clauses)
    return rows.code.array


class FlipState:
    """A formula, and the state of its variables and clauses, on one device.

    ``rows`` are those of `clauses_of_variables`, if they are known.
    """

    def __init__(self, formula: Formula, where: Device, rows: Any = None) -> None:
        n, m = formula.variables, formula.clauses
        work = where.array_device(formula.literals.size // LITERALS_PER_ELEMENT)
        sizes = np.diff(formula.offsets)
        longest = int(sizes.max(initial=0))
        shift = (max(n, 1) * max(longest, 1)).bit_length()  # sums are less than 1 << shift
        if shift + longest.bit_length() > 62:
            raise ValueError(f"a clause of {longest} literals over {n} variables is too long")
        self.device, self.formula = where, formula
        slots, odds = Table("slots", where, literal=i32), Table("odds", where, weight=f64)
        lists, points = Table("rows", where, code=u32), Table("points", where)
        for name, spec in {
            **{"first": i64, "size": i32, "state": i64, "listed": bool_},  # of clauses
            **{"begin": i64, "degree": i32, "breaks": i32, "flips": i32, "claim": i64},
            **{"order": Ref("points"), "at": i32},  # clauses in a list, for one thread
        }.items():
            points.add(name, spec)
        points.extend(max(n, m))
        with work.active():
            offsets = work.asarray(formula.offsets)
            begins, codes = clauses_of_variables(formula, where) if rows is None else rows
            slots.extend(literal=work.asarray(formula.literals))
            lists.extend(code=codes)
            points.first[:m], points.size[:m] = offsets[:-1], work.asarray(sizes)
            points.begin[:n], points.degree[:n] = begins[:-1], begins[1:] - begins[:-1]
        b = np.arange(LAST + 1.0)
        base = BASES.get(longest, 5.4)
        odds.extend(weight=(0.9 + b) ** -EXPONENT if longest <= 3 else base**-b)
        self.now, self.then = (Collection(points) for _ in range(2))
        chosen = Collection(points, variable=Ref(points), key=i64)
        self.run = Scalars(where, unsatisfied=0, random=u64(0), flips=0, work=0)
        self.points = points
        self.problem = Problem(points, slots, lists, odds, shift, chosen, self.run)
        self.counted = 0

    def load(self, model: Any) -> int:
        """Take a model; gives the number of clauses with literals that it leaves unsatisfied."""
        points = self.points
        points.flips[: self.formula.variables] = model
        points.breaks[:], points.claim[:] = 0, 0
        self.now.clear()
        self.then.clear()
        foreach(points, begin, self.problem, where=has_literals)
        foreach(points, enlist, self.now, where=is_listed)
        self.new_flips()
        return len(self.now)

    def model(self) -> Any:
        """Give the model, shape (n,), bool."""
        n = self.formula.variables
        work = self.device.array_device(n)
        with work.active():
            return (work.asarray(self.points.flips.array[:n]) & 1).astype(bool)

    def descend(self, seed: int, step: int, most: int, end: float = math.inf) -> tuple[int, int]:
        """Flip many at once; gives flips made, and about how many clauses were unsatisfied last.

        On a CPU a launch ends at ``end``, in seconds of `time.monotonic`.
        """
        whole = end == math.inf or not self.device.on_host
        part, last, tried = STEPS if whole else 2, step + STEPS, 0
        while True:
            limits = min(step + part, last), most - tried
            descend(self.problem, self.now, self.then, u64(seed), step, *limits)
            step += part
            if step >= last:
                break
            tried += int(self.run.work)
            if tried >= most or int(self.run.unsatisfied) <= ONE_THREAD or monotonic() >= end:
                break
        if not whole:
            self.run.work = tried + (int(self.run.work) if step >= last else 0)
        return self.new_flips(), int(self.run.unsatisfied)

    def walk(self, most: int, end: float = math.inf) -> tuple[int, int]:
        """Flip one after the other; gives flips made, and clauses left unsatisfied."""
        work, flips = 0, 0
        parts = 1 if end == math.inf else SHARE
        while flips < most and work < WORK:
            part = min(-(-FLIPS // parts), most - flips), min(WORK // parts, WORK - work)
            foreach(self.run, walk, self.problem, *part)
            work += int(self.run.work)
            flips += int(self.run.flips)
            if not 0 < int(self.run.unsatisfied) <= ALL_THREADS or monotonic() >= end:
                break
        self.run.work = work
        self.counted += flips
        return flips, int(self.run.unsatisfied)

    def new_flips(self) -> int:
        """Return the number of flips since the last call."""
        before, n = self.counted, self.formula.variables
        work = self.device.array_device(n)
        with work.active():
            flips = work.asarray(self.points.flips.array[:n])
            self.counted = int(flips.sum(dtype=np.int64))
        return self.counted - before

    def list_unsatisfied(self, seed: int) -> None:
        """List the unsatisfied clauses for `walk`."""
        points, ids = self.points, np.sort(self.now.items)
        points.order[: ids.size] = ids
        points.at[ids] = np.arange(ids.size)
        self.run.unsatisfied, self.run.random = ids.size, seed

    @classmethod
    def on_host(cls, formula: Formula, where: Device) -> FlipState:
        """Make the search on the host; if ``where`` is a GPU, it sorts the literals by variable."""
        host = device_of("cpu")
        work = where.array_device(formula.literals.size // LITERALS_PER_ELEMENT)
        if work.on_host:
            return cls(formula, host)
        begins, codes = clauses_of_variables(formula, where)
        return cls(formula, host, (work.to_host(begins), work.to_host(codes)))
