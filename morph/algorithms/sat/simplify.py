"""Linear-time simplification of a formula: units, pure literals, components, and 2-SAT.

`simplify` propagates unit clauses, assigns pure literals, leaves out variables that do not occur,
and splits the residual formula into connected components.  Components whose clauses all have two
literals are decided by the strongly connected components of the implication graph (Aspvall, Plass,
Tarjan, Information Processing Letters 8, 1979).  All of it is sequential, runs on the host, and
takes time and memory linear in the number of literals (names are sorted).

A literal has the code ``2 * v + s``, with v counted from 0 and s = 1 for a negation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from morph.algorithms.sat.factors import Contradiction, cleaned
from morph.data.formula import Formula
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.launch.foreach import foreach, func, kernel
from morph.operators.sort import argsort
from morph.prelude import i32, i64
from morph.runtime.device import Device, device_for
from morph.runtime.device import device as device_of

Check = Callable[[], object]
POOLED = 16  # a component with less than this part of the literals is solved together with others


class Part(NamedTuple):
    """A residual formula, and which variable (from 0) of the whole formula each of its own is.

    ``variables`` is an array or a slice.
    """

    formula: Formula
    variables: Any


class Simplified(NamedTuple):
    """Result of `simplify`.

    ``model``, shape (n,), bool: values of all variables that are in no part; ``parts``: residual
    formulas without common variables, by size; ``refuted``: whether unit propagation ends in an
    empty clause; ``cycle``: literals x, ..., -x, ..., x, of which each implies the next by a clause
    of two literals, empty if there is no such contradiction; ``fixed``: variables in no part;
    ``components``: connected components of the residual formula.
    """

    model: NDArray[np.bool_]
    parts: list[Part]
    refuted: bool
    cycle: list[int]
    fixed: int
    components: int


@func
def assign(nodes, queue, at, code):
    """Make a literal true, and give the place behind it in the queue."""
    nodes[code].value = 1
    nodes[code ^ 1].value = -1
    queue[at].code = code
    return at + 1


@kernel
def enqueue(run, nodes, uses, clauses, literals, queue):
    """Assign the literals of unit clauses, and those whose negation occurs nowhere."""
    tail, c = i64(0), i64(0)
    while c < len(clauses):
        if clauses[c].left == 1:
            code = literals[clauses[c].first].code
            if nodes[code].value == 0:
                tail = assign(nodes, queue, tail, code)
        c += 1
    code = i32(0)
    while code < len(nodes):
        if nodes[code].value == 0 and nodes[code ^ 1].uses == 0 and nodes[code].uses > 0:
            tail = assign(nodes, queue, tail, code)
        code += 1
    run.tail = tail


@kernel
def propagate(run, nodes, uses, clauses, literals, queue):
    """Assign units and pure literals until there are none; `nodes` are literals by code."""
    head, tail = i64(0), run.tail
    while head < tail and run.broken == 0:
        true = queue[head].code
        head += 1
        for k in range(nodes[true].first, nodes[true].first + nodes[true].degree):
            c = uses[k].clause
            if clauses[c].done == 0:
                clauses[c].done = 1
                for j in range(clauses[c].first, clauses[c].first + clauses[c].size):
                    code = literals[j].code
                    nodes[code].uses -= 1
                    other = code ^ 1
                    if nodes[code].uses == 0 and nodes[code].value == 0 and nodes[other].uses > 0:
                        tail = assign(nodes, queue, tail, other)
        false = true ^ 1
        for k in range(nodes[false].first, nodes[false].first + nodes[false].degree):
            c = uses[k].clause
            if clauses[c].done == 0:
                clauses[c].left -= 1
                if clauses[c].left == 0:
                    run.broken = 1
                if clauses[c].left == 1:
                    for j in range(clauses[c].first, clauses[c].first + clauses[c].size):
                        if nodes[literals[j].code].value == 0:
                            tail = assign(nodes, queue, tail, literals[j].code)


@kernel
def label(run, nodes, uses, clauses, literals, queue):
    """Number the connected components; the label of a variable is that of its first literal."""
    components = 0
    root = i32(0)
    while root < len(nodes):
        if nodes[root].label < 0:
            head, tail = i64(0), i64(1)
            queue[0].code = root >> 1
            nodes[root].label = i32(components)
            while head < tail:
                v = queue[head].code
                head += 1
                for code in range(2 * v, 2 * v + 2):
                    for k in range(nodes[code].first, nodes[code].first + nodes[code].degree):
                        c = uses[k].clause
                        if clauses[c].label < 0:
                            clauses[c].label = i32(components)
                            for j in range(clauses[c].first, clauses[c].first + clauses[c].size):
                                to = literals[j].code >> 1
                                if nodes[2 * to].label < 0:
                                    nodes[2 * to].label = i32(components)
                                    queue[tail].code = to
                                    tail += 1
            components += 1
        root += 2
    run.components = i32(components)


@kernel
def connect(run, nodes, uses, clauses, stack, calls):
    """Find the strongly connected components of the implications (Tarjan's algorithm).

    The successors of literal u are the other literals of the clauses that hold its negation.
    """
    number, components = 0, 0
    height, depth = i64(0), i64(0)
    root = i32(0)
    while root < len(nodes):
        if nodes[root].index == 0:
            calls[0].code = root
            depth = 1
        while depth > 0:
            u = calls[depth - 1].code
            negated = u ^ 1
            if nodes[u].index == 0:
                number += 1
                nodes[u].index = i32(number)
                nodes[u].low = i32(number)
                nodes[u].cursor = nodes[negated].first
                stack[height].code = u
                height += 1
            if nodes[u].cursor < nodes[negated].first + nodes[negated].degree:
                c = uses[nodes[u].cursor].clause
                nodes[u].cursor += 1
                w = clauses[c].sum - negated
                if nodes[w].index == 0:
                    calls[depth].code = w
                    depth += 1
                elif nodes[w].component < 0:
                    nodes[u].low = min(nodes[u].low, nodes[w].index)
            else:
                depth -= 1
                if nodes[u].low == nodes[u].index:
                    last = -1
                    while last != u:
                        height -= 1
                        last = stack[height].code
                        nodes[last].component = i32(components)
                    components += 1
                if depth > 0:
                    above = calls[depth - 1].code
                    nodes[above].low = min(nodes[above].low, nodes[u].low)
        root += 1


@kernel
def reach(run, nodes, uses, clauses, queue):
    """Search literals breadth first from `run.start` on; `via` is where each was reached from."""
    head, tail = i64(0), i64(1)
    queue[0].code = run.start
    nodes[run.start].via = run.start
    while head < tail and nodes[run.start ^ 1].via < 0:
        u = queue[head].code
        negated = u ^ 1
        head += 1
        for k in range(nodes[negated].first, nodes[negated].first + nodes[negated].degree):
            w = clauses[uses[k].clause].sum - negated
            if nodes[w].via < 0:
                nodes[w].via = u
                queue[tail].code = w
                tail += 1


class _Tables:
    """Clauses, literals and occurrences of a formula as tables on the host."""

    def __init__(self, where: Device, n: int, starts: Any, codes: Any, check: Check) -> None:
        self.check = check
        check()
        sizes = np.diff(starts)
        clause = np.repeat(np.arange(sizes.size), sizes)
        degree = np.bincount(codes, minlength=2 * n)
        self.run = Scalars(where, broken=i32(0), components=i32(0), start=i32(0), tail=0)
        self.clauses = Table("clauses", where, first=i64, size=i32, left=i32, done=i32, label=i32,
                             sum=i32)  # fmt: skip
        sums = np.bincount(clause, codes, sizes.size) if sizes.size else sizes
        fits = np.where(sizes == 2, sums, 0)  # of longer clauses it is of no use
        self.clauses.extend(first=starts[:-1], size=sizes, left=sizes, sum=fits.astype(np.int32))
        self.clauses.label[:] = -1
        self.literals = Table("literals", where, code=i32)
        self.literals.extend(code=codes.astype(np.int32))
        self.nodes = Table("nodes", where, first=i64, degree=i32, uses=i32, value=i32, label=i32,
                           index=i32, low=i32, component=i32, cursor=i64, via=i32)  # fmt: skip
        self.nodes.extend(first=np.cumsum(degree) - degree, degree=degree, uses=degree)
        for name in ("label", "component", "via"):
            getattr(self.nodes, name)[:] = -1
        self.uses = Table("uses", where, clause=i32)
        self.uses.extend(clause=clause[argsort(codes)].astype(np.int32))
        self.queue, self.calls = (Table(name, where, code=i32) for name in ("queue", "calls"))
        self.queue.extend(2 * n + 1)
        self.calls.extend(2 * n + 1)

    def run_kernel(self, name: Any, *more: Any) -> Any:
        """Run one of the sequential kernels; gives its scalars."""
        self.check()
        foreach(self.run, name, self.nodes, self.uses, self.clauses, *more)
        return self.run


def simplify(formula: Formula, device: Any = None, check: Check = lambda: None) -> Simplified:
    """Assign what is implied by units and purity, and split the rest; O(literals) but for sorting.

    Parameters
    ----------
    formula : Formula
    device : str or Device, optional
        ``"python"`` interprets; all others compute on the host.
    check : callable
        Called before each pass over the formula; an exception ends the simplification.

    Returns
    -------
    Simplified
    """
    chosen = device_for(device)
    where = chosen if chosen.on_host else device_of("cpu")
    model = np.zeros(formula.variables, bool)
    try:
        clause, code, _ = cleaned(formula, where)
    except Contradiction:
        return Simplified(model, [], True, [], 0, 0)
    check()
    names, codes = _renamed(code)
    starts = np.append(np.flatnonzero(np.diff(clause, prepend=-1)), clause.size)
    t = _Tables(where, names.size, starts, codes, check)
    t.run_kernel(enqueue, t.literals, t.queue)
    if t.run_kernel(propagate, t.literals, t.queue).broken:
        return Simplified(model, [], True, [], 0, 0)
    value = t.nodes.value.array[::2]
    model[names] = value > 0
    kept = (t.clauses.done.array == 0)[np.repeat(np.arange(starts.size - 1), np.diff(starts))]
    kept &= value[codes >> 1] == 0
    check()
    inner, rest = _renamed(codes[kept])
    names = names[inner]
    owner = clause[kept]
    starts = np.append(np.flatnonzero(np.diff(owner, prepend=-1)), owner.size)
    t = _Tables(where, names.size, starts, rest, check)
    components = int(t.run_kernel(label, t.literals, t.queue).components)
    check()
    groups = _grouped(t, components)
    parts = [_part(g, starts, rest, names) for g in groups]
    fixed = formula.variables - names.size
    for k in range(len(parts) - 1, -1, -1):
        if len(parts[k].formula.literals) == 2 * parts[k].formula.clauses:
            solved = two_sat(parts[k].formula, where, check)
            if isinstance(solved, list):
                found = np.array(solved)
                cycle = (np.sign(found) * (parts[k].variables[np.abs(found) - 1] + 1)).tolist()
                return Simplified(model, [], False, cycle, 0, components)
            model[parts[k].variables] = solved
            fixed += parts.pop(k).formula.variables
    return Simplified(model, parts, False, [], fixed, components)


def two_sat(formula: Formula, where: Device, check: Check) -> NDArray[np.bool_] | list[int]:
    """Decide a formula whose clauses all have two different variables.

    Returns
    -------
    (n,) bool array or list of int
        A model; or else literals x, ..., -x, ..., x, of which each implies the next.
    """
    n, literals = formula.variables, formula.literals.astype(np.int64)
    t = _Tables(where, n, formula.offsets, 2 * np.abs(literals) - 2 + (literals < 0), check)
    t.run_kernel(connect, t.queue, t.calls)
    component = t.nodes.component.array.reshape(-1, 2)
    clash = np.flatnonzero(component[:, 0] == component[:, 1])
    if not clash.size:  # Tarjan numbers a component after all that it implies
        return np.asarray(component[:, 0] < component[:, 1])
    x = 2 * int(clash[0])
    codes = _path(t, x)[:-1] + _path(t, x + 1)
    return [-(c >> 1) - 1 if c & 1 else (c >> 1) + 1 for c in codes]


def _path(t: _Tables, start: int) -> list[int]:
    """Give the codes of a shortest chain of implications from a literal to its negation."""
    t.run.start = start
    t.nodes.via[:] = -1
    t.run_kernel(reach, t.queue)
    via, path = t.nodes.via.array, [start ^ 1]
    while path[-1] != start:
        path.append(int(via[path[-1]]))
    return path[::-1]


def _renamed(codes: Any) -> tuple[Any, Any]:
    """Give the variables that occur, sorted, and the codes over these alone."""
    variable = codes >> 1
    most = int(variable.max()) + 1 if codes.size else 0
    if most > 8 * codes.size:
        names, own = np.unique(variable, return_inverse=True)
        return names, 2 * own + (codes & 1)
    seen = np.zeros(most, bool)
    seen[variable] = True
    return np.flatnonzero(seen), 2 * (np.cumsum(seen) - 1)[variable] + (codes & 1)


def _grouped(t: _Tables, components: int) -> list[Any]:
    """Group the clauses' components: those of two-literal clauses, small ones, large ones alone."""
    label, size = t.clauses.label.array, t.clauses.size.array
    literals = np.bincount(label, size, components)
    longest = np.zeros(components, np.int64)
    np.maximum.at(longest, label, size)
    small = literals * POOLED < literals.sum()
    pairs = longest <= 2
    groups = [pairs, small & ~pairs]
    alone = np.flatnonzero(~small & ~pairs)
    groups += [np.arange(components) == k for k in alone[np.argsort(literals[alone])]]
    return [g[label] for g in groups if g.any()]


def _part(chosen: Any, starts: Any, codes: Any, names: Any) -> Part:
    """Make a formula of some clauses."""
    sizes = np.diff(starts)
    held = codes[np.repeat(chosen, sizes)]
    own, short = _renamed(held)
    literals = np.where(short & 1, -1 - (short >> 1), (short >> 1) + 1)
    offsets = np.append(0, np.cumsum(sizes[chosen]))
    return Part(Formula(own.size, offsets, literals), names[own])
