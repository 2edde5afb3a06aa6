"""A model of a formula by local search: flip variables of unsatisfied clauses until there are none.

probSAT (Balint, Schoening, SAT 2012): in an unsatisfied clause a variable is flipped with a
probability that falls with the number b of clauses that this breaks: (0.9 + b)^-2.06 if clauses
have up to three literals, else c^-b.  No flip looks for what it would break: a clause keeps in one
word how many of its literals are true and the sum of their variables, so that one addition tells
which variable is alone in making it true, and a variable keeps of how many clauses it is.

Where many clauses are unsatisfied, each chooses a variable of the same state of things, and claims
all its variables; those that have got all of theirs flip.  So every clause has its way in most
steps, but not two that share a variable, which would undo one another's work for ever.  What a step
does are sums and maxima of integers, the same in any order: the same seed gives the same model on
every device.  Where few are left, one thread flips one variable after the other, on the host.  A
flip costs its variable's degree; random 3-SAT of up to about 4.1 clauses a variable takes some tens
of flips a variable.
"""
# Point i of the graph is variable i + 1, and clause i; an edge leads from a variable to a clause.

from __future__ import annotations

import math
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from morph.data.collection import Collection
from morph.data.conversion import as_integer, number
from morph.data.formula import Formula
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import Ref
from morph.language.messages import shown
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import (
    atomic_add,
    atomic_exch,
    atomic_max,
    atomic_sub,
    bool_,
    f64,
    i32,
    i64,
    u32,
    u64,
)
from morph.runtime.device import Device
from morph.runtime.device import device as device_of

BASES = {4: 3.0, 5: 3.7, 6: 5.0}  # c by the longest clause, 5.4 beyond; the authors' own
LAST = 63  # flips that break more clauses than this are as likely
FEW = 64  # unsatisfied clauses that are left to one thread
MANY = 8 * FEW  # if they become so many, they are shared out again
STEPS = 128  # in one launch; then the host looks at the clock, and after so many flips tried
AT_ONCE = 1 << 20
FLIPS = 1 << 19  # of one thread in one launch
WORK = 16 * FLIPS  # clauses and literals that these look at: they may be very many
SHARE = 16  # with a limit of time a launch on a CPU is divided: so many parts, or two steps each
TOIL, TRY = 512, 8  # clauses looked at for each flip that is allowed; for one of many that tries


class Walk(NamedTuple):
    """Result of `walksat`.

    ``model``, shape (n,), bool, on the host; ``unsatisfied``, how many clauses it leaves so;
    ``flips``, of variables; ``steps``, in which those of many clauses were made.
    """

    model: Any
    unsatisfied: int
    flips: int
    steps: int


@func
def mixed(x):  # the finalizer of SplitMix64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@func
def rank(id, seed, step):
    """Give another number to each clause: between two that are equal, no claim would decide."""
    x = u32(id) + u32(seed) + u32(step) * u32(0x9E3779B1)
    x = (x ^ (x >> u32(16))) * u32(0x85EBCA6B)
    x = (x ^ (x >> u32(13))) * u32(0xC2B2AE35)
    return i64(x ^ (x >> u32(16)))


@func
def drawn(c, g, slots, odds, random):
    chosen, total = c, 0.0
    for k in range(c.first, c.first + c.size):
        v = g.points[abs(slots[k].literal) - 1]
        weight = odds[min(v.breaks, LAST)].weight
        total += weight
        random = mixed(random + 0x9E3779B97F4A7C15)
        if f64(random >> 11) * 2.0**-53 * total < weight:
            chosen = v
    return chosen


@kernel
def begin(c, g, slots, shift):
    state = i64(0)
    for k in range(c.first, c.first + c.size):
        v = g.points[abs(slots[k].literal) - 1]
        if (slots[k].literal > 0) == (v.flips % 2 == 1):
            state += (i64(1) << shift) + v.id
    c.state = state
    c.listed = state >> shift == 0
    if state >> shift == 1:
        atomic_add(g.points[state & ((i64(1) << shift) - 1)].breaks, 1)


@kernel
def enlist(c, now):
    now.add(c)


@kernel
def choose(c, g, slots, odds, shift, seed, step, chosen):
    c.listed = False
    if c.state >> shift == 0:
        random = mixed(seed + u64(step) * 0x9E3779B97F4A7C15 + u64(c.id) * 0xD1342543DE82EF95)
        key = step << 32 | rank(c.id, seed, step)
        for k in range(c.first, c.first + c.size):
            atomic_max(g.points[abs(slots[k].literal) - 1].claim, key)
        chosen.add(c, variable=drawn(c, g, slots, odds, random), key=key)


@func
def owned(entry, g, slots):
    c = entry.item
    for k in range(c.first, c.first + c.size):
        if g.points[abs(slots[k].literal) - 1].claim != entry.key:
            return False
    return True


@kernel
def flip(entry, g, slots, shift, then):
    v = entry.variable
    if owned(entry, g, slots):
        v.flips += 1
        turn = (v.flips % 2 * 2 - 1) * ((i64(1) << shift) + v.id)
        alone = (i64(1) << shift) - 1
        for e in v.outedges:
            c = e.dst
            before = atomic_add(c.state, turn * e.weight)
            after = before + turn * e.weight
            if before >> shift == 1:
                atomic_sub(g.points[before & alone].breaks, 1)
            if after >> shift == 1:
                atomic_add(g.points[after & alone].breaks, 1)
            if after >> shift == 0:
                if not atomic_exch(c.listed, True):
                    then.add(c)
    elif not atomic_exch(entry.item.listed, True):
        then.add(entry.item)


@program
def descend(g, slots, odds, now, then, chosen, run, shift, seed, step, last, most):
    flips, count = i64(0), i64(MANY)
    while step < last and flips < most and count > FEW:
        foreach(now, choose, g, slots, odds, shift, seed, step, chosen)
        now.clear()
        count = len(chosen)
        foreach(chosen, flip, g, slots, shift, then)
        chosen.clear()
        flips += count
        now, then = then, now
        step += 1
    run[0].unsatisfied = count
    run[0].work = flips


@kernel
def walk(run, g, slots, odds, shift, most, limit):
    n = run.unsatisfied
    random = run.random
    flips, work = i64(0), i64(0)
    alone = (i64(1) << shift) - 1
    while n > 0 and n <= MANY and flips < most and work < limit:
        random = random * 6364136223846793005 + 1442695040888963407
        c = g.points[i64((random >> 32) * u64(n) >> 32)].order
        v = drawn(c, g, slots, odds, mixed(random))
        v.flips += 1
        flips += 1
        work += v.out_degree + c.size  # a clause may be very long
        turn = (v.flips % 2 * 2 - 1) * ((i64(1) << shift) + v.id)
        for e in v.outedges:
            c = e.dst
            before = c.state
            after = before + turn * e.weight
            c.state = after
            if before >> shift == 1:
                g.points[before & alone].breaks -= 1
            if after >> shift == 1:
                g.points[after & alone].breaks += 1
            if before >> shift == 0:
                n -= 1
                end = g.points[n].order
                g.points[c.at].order = end
                end.at = c.at
            if after >> shift == 0:
                c.at = i32(n)
                g.points[n].order = c
                n += 1
    run.unsatisfied = n
    run.random = random
    run.work = work


class Search:
    """A formula, and the state of its variables and clauses, on one device.

    ``rows`` are the variables' clauses and signs as compressed rows, if they are known.
    """

    def __init__(self, formula: Formula, where: Device, rows: Any = None) -> None:
        xp, n, m = where.xp, formula.variables, formula.clauses
        longest = int(np.diff(formula.offsets).max(initial=0))
        self.shift = (max(n, 1) * max(longest, 1)).bit_length()  # sums are less than 1 << shift
        if self.shift + longest.bit_length() > 62:
            raise ValueError(f"a clause of {longest} literals over {n} variables is too long")
        self.device, self.formula = where, formula
        with where.active():
            literals, offsets = where.asarray(formula.literals), where.asarray(formula.offsets)
            if rows is None:
                begins = xp.bincount(offsets[1:-1], minlength=literals.size + 1)
                clause = xp.cumsum(begins[: literals.size]).astype(np.int32)
                sign = xp.where(literals > 0, 1, -1).astype(np.int32)
                ends = xp.abs(literals) - 1, clause, sign
                self.graph = Graph.from_edges(*ends, n=max(n, m), copy=False, device=where)
            else:
                self.graph = Graph.from_csr(*rows, copy=False, device=where)
            points = self.graph.points
            for name, spec in {
                **{"first": i64, "size": i32, "state": i64, "listed": bool_},  # of clauses
                **{"breaks": i32, "flips": i32, "claim": i64},  # of variables
                **{"order": Ref("points"), "at": i32},  # clauses in a list, for one thread
            }.items():
                points.add(name, spec)
            points.first[:m], points.size[:m] = offsets[:-1], offsets[1:] - offsets[:-1]
        self.slots, self.odds = Table("slots", where, literal=i32), Table("odds", where, weight=f64)
        self.slots.extend(literal=literals)
        b = np.arange(LAST + 1.0)
        base = BASES.get(longest, 5.4)
        self.odds.extend(weight=(0.9 + b) ** -2.06 if longest <= 3 else base**-b)
        self.now, self.then = (Collection(points) for _ in range(2))
        self.chosen = Collection(points, variable=Ref(points), key=i64)
        self.run = Table("run", where, unsatisfied=i64, random=u64, work=i64)
        self.run.extend(1)
        self.told = 0

    def load(self, model: Any) -> int:
        """Take a model; gives the number of clauses with literals that it leaves unsatisfied."""
        points = self.graph.points
        points.flips[: self.formula.variables] = model
        points.breaks[:], points.claim[:] = 0, 0
        self.now.clear()
        self.then.clear()
        foreach(points, begin, self.graph, self.slots, self.shift, where=lambda c: c.size > 0)
        foreach(points, enlist, self.now, where=lambda c: c.listed)
        self.made()
        return len(self.now)

    def model(self) -> Any:
        """Give the model, shape (n,), bool."""
        with self.device.active():
            return self.graph.points.flips.array[: self.formula.variables] % 2 == 1

    def flipped(self, seed: int, step: int, most: int, end: float = math.inf) -> tuple[int, int]:
        """Flip many at once; gives flips made, and about how many clauses were unsatisfied last.

        On a CPU a launch is cut short at ``end``, as `time.monotonic` tells it.
        """
        whole = end == math.inf or not self.device.on_host
        part, last, tried = STEPS if whole else 2, step + STEPS, 0
        while True:
            descend(self.graph, self.slots, self.odds, self.now, self.then, self.chosen, self.run,
                    self.shift, u64(seed), step, min(step + part, last), most - tried)  # fmt: skip
            step += part
            if step >= last:
                break
            tried += int(self.run.work[0])
            if tried >= most or int(self.run.unsatisfied[0]) <= FEW or monotonic() >= end:
                break
        if not whole:
            self.run.work[:] = tried + (int(self.run.work[0]) if step >= last else 0)
        return self.made(), int(self.run.unsatisfied[0])

    def walked(self, most: int, end: float = math.inf) -> tuple[int, int]:
        """Flip one after the other; gives flips made, and clauses left unsatisfied."""
        before, work, flips = self.told, 0, 0
        parts = 1 if end == math.inf else SHARE
        while flips < most and work < WORK:
            part = min(-(-FLIPS // parts), most - flips), min(WORK // parts, WORK - work)
            foreach(self.run, walk, self.graph, self.slots, self.odds, self.shift, *part)
            work += int(self.run.work[0])
            flips = self.made() + flips
            if not 0 < int(self.run.unsatisfied[0]) <= MANY or monotonic() >= end:
                break
        self.run.work[:] = work
        return self.told - before, int(self.run.unsatisfied[0])

    def made(self) -> int:
        """Count the flips since it was asked last."""
        before, flips = self.told, self.graph.points.flips.array[: self.formula.variables]
        with self.device.active():
            self.told = int(flips.sum(dtype=np.int64))
        return self.told - before

    def line_up(self, seed: int) -> None:
        """Put the unsatisfied clauses into the list of `walked`."""
        points, ids = self.graph.points, np.sort(self.now.items)
        points.order[: ids.size] = ids
        points.at[ids] = np.arange(ids.size)
        self.run.unsatisfied[:], self.run.random[:] = ids.size, seed

    def on_host(self) -> Search:
        """Give the same formula on the host; this one, if it lies there."""
        if self.device.on_host:
            return self
        rows = (self.device.to_host(a) for a in self.graph.csr())
        return Search(self.formula, device_of("cpu"), tuple(rows))


def walksat(
    formula: Formula,
    model: Any = None,
    seed: int = 0,
    *,
    max_flips: int | None = None,
    time: float | None = None,
    device: str | Device = "auto",
    progress: Any = None,
) -> Walk:
    """Look for a model by local search, which may fail though there is one.

    Parameters
    ----------
    formula : Formula, or what `Formula.of` takes
    model : (n,) array of bool, optional
        Where to begin; at random unless given.
    seed : int
        From 0 to 2^64 - 1.  The same gives the same model on every device, by any number of
        threads, unless time runs out.
    max_flips : int, optional
        When to give up, about; unless given, after 100 flips a variable and ten million, or when
        ``time`` is up; or after looking at 512 times as many clauses, where variables are in so
        many that flips are dear.
    time : float, optional
        Seconds after which to give up; looked at after every `STEPS` steps.
    device : str or Device
        Where to flip many variables at once.
    progress : callable, optional
        Called with flips made and clauses left unsatisfied, a few times a second at most.

    Returns
    -------
    Walk
        Its model satisfies all but ``unsatisfied`` clauses; empty clauses are among these.

    Raises
    ------
    ValueError
        If the model, ``max_flips`` or ``time`` is wrong, or a clause is so long that its
        sum of variables does not fit 62 bits with its count.

    References
    ----------
    A. Balint, U. Schoening: Choosing probability distributions for stochastic local search and the
    role of make versus break.  SAT 2012.
    """
    formula = Formula.of(formula)
    n = formula.variables
    where = device_of(device)
    max_flips = None if max_flips is None else min(as_integer(max_flips, "max_flips"), 2**62)
    if time is not None:
        number(time, "time")
    for name, value in (("max_flips", max_flips), ("time", time)):
        if value is not None and not value >= 0:
            raise ValueError(f"{name} = {value}: expected 0 or more")
    if not 0 <= (seed := as_integer(seed, "seed")) < 2**64:
        raise ValueError(f"seed = {seed}: expected 0 to 2^64 - 1")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress is a function, not {shown(progress)}")
    most = max_flips if max_flips is not None else 100 * n + 10**7 if time is None else 2**62
    end = math.inf if time is None else monotonic() + time
    begun = model is not None
    if model is None:
        model = np.random.PCG64(seed).random_raw(n) >> np.uint64(63)
    model = where.asarray(model)
    if model.shape != (n,):
        raise ValueError(f"model has shape {model.shape}, for {n} variables")
    if model.dtype.kind not in "biu" or n and not 0 <= model.min() <= model.max() <= 1:
        raise ValueError("model must hold bool, or 0 and 1")
    empty = int((np.diff(formula.offsets) == 0).sum())
    if n == 0:
        return Walk(np.empty(0, bool), empty, 0, 0)
    wide: Search | None = None
    host: Search | None = None
    left = unsatisfied(formula, model, where) if begun else formula.clauses
    if not left or begun and monotonic() >= end:
        return Walk(where.to_host(model) != 0, left + empty, 0, 0)
    together = not begun or left > FEW
    if together:
        side = wide = Search(formula, where)
        left = wide.load(model)
    else:
        side = host = Search(formula, where).on_host()  # a GPU sorts the clauses faster
        left = host.load(where.to_host(model))
        host.line_up(seed)
    flips, steps, told = 0, 0, monotonic()
    toil, limit = 0, TOIL * most  # clauses looked at
    while left and flips < most and toil < limit and (now := monotonic()) < end:
        if progress is not None and now > told + 0.2:
            told = now
            progress(flips, left)
        if together:
            made, left = side.flipped(seed, steps + 1, min(most - flips, AT_ONCE), end)
            toil += TRY * int(side.run.work[0])
            steps += STEPS
            if left <= FEW:
                model = where.to_host(side.model())
                side = host = host or side.on_host()
                left, together = host.load(model), False
                host.line_up(seed ^ steps)
        else:
            made, left = side.walked(min(most - flips, FLIPS), end)
            toil += int(side.run.work[0])
            if left > MANY:
                model = where.asarray(side.model())
                side = wide = wide or (side if where.on_host else Search(formula, where))
                left, together = wide.load(model), True
        flips += made
    found = where.to_host(side.model())
    return Walk(found, side.load(found) + empty if together else left + empty, flips, steps)


def unsatisfied(formula: Formula, model: Any, where: Device) -> int:
    """Count the clauses with literals that a model, which lies there, leaves unsatisfied."""
    xp = where.xp
    with where.active():
        literals, at = where.asarray(formula.literals), where.asarray(formula.offsets)
        if literals.size == 0:
            return 0
        before = xp.zeros(literals.size + 1, np.int64)
        xp.cumsum((model != 0)[xp.abs(literals) - 1] == (literals > 0), out=before[1:])
        return int(((before[at[1:]] == before[at[:-1]]) & (at[1:] > at[:-1])).sum())
