"""Derivation of kernels on parts: exchanges, and the code of both sides."""

from __future__ import annotations

from collections import Counter

import pytest
import sm90
from small import points

import morph
from morph.compiler.codegen.unit import entry, prelude_of, source
from morph.compiler.ir import nodes as ir
from morph.compiler.partitioning.derivation import (
    Combine,
    Hidden,
    ReplicatedColumn,
    derive,
    describe,
)
from morph.language.types import I64
from morph.launch.binding import Request, bind
from morph.prelude import (
    atomic_add,
    atomic_max,
    atomic_min,
    atomic_sub,
    f64,
    i32,
    i64,
    single,
)


def graph(target="cpu"):
    g = points(target, dist=i64, near=i32, rank=f64, label=i32, bits=i64, global_id=i32)
    g.points.add("xy", morph.vec(f64, 2))
    g.edges.add("used", i32)
    return g


def derived(kernel, items, *args, where=None):
    """The derivation of a launch, with all graphs partitioned."""
    unit = bind(Request(kernel, items, args, where, items.device))[0].unit
    return derive(unit, {g.slot for g in unit.graphs})


def columns(pairs):
    return {column for _, column in pairs}


def kinds(body):
    return Counter(type(n).__name__ for n in ir.walk(body))


def kernel_of(unit):
    return unit.funcs[-1]


@morph.kernel
def relax(p, g, changed):
    p.near = 0
    for t in p.outnbrs:
        atomic_min(t.dist, p.dist + g.weight(p, t), changed)


def test_an_atomic_without_result_changes_the_mirror():
    g = graph()
    found = derived(relax, g.points, g, morph.Flag(g))
    assert found.combines == (Combine("g.points", "dist", "min"),)
    assert columns(found.spreads) == {"dist"}  # a mirror begins with the owner's value
    assert columns(found.writes) == {"dist", "near"}
    assert found.flags == ("changed",)
    assert found.messages == found.replicated == ()
    (step,) = found.unit.blocks[0].steps
    assert step.start.value == 0
    assert [(h.what, h.graph) for h in found.hidden] == [("owned_points", "g")]
    assert step.stop.name == found.hidden[0].name


@morph.kernel
def gather(p, g):
    total = 0.0
    for t in p.innbrs:
        total += t.rank
    p.dist = i64(total) + p.id + len(g.points) + len(g.edges)


def test_columns_read_at_other_ends_are_spread():
    g = graph()
    found = derived(gather, g.points, g, where=lambda p: p.id < 3)
    assert found.spreads == (("g.points", "rank"),)
    assert found.writes == (("g.points", "dist"),)
    kernel, where = kernel_of(found.unit), found.unit.funcs[0]
    assert {h.what for h in found.hidden} == {"points", "edges", "owned_points"}
    assert not kinds(kernel)["StoreSize"]
    for f in (kernel, where):  # ids are read from the column
        assert any(n.column == "global_id" for n in ir.walk(f) if isinstance(n, ir.Place))


@morph.func
def share_of(p, g):
    return len(g.points) + p.id


@morph.func
def twice(p, g):
    return 2 * share_of(p, g)


@morph.kernel
def call(p, g):
    p.dist = twice(p, g)


def test_functions_get_the_sizes_of_the_whole_graph():
    g = graph()
    found = derived(call, g.points, g)
    hidden = Hidden("points_of_g_", "points", "g")
    assert hidden in found.hidden
    for f in found.unit.funcs:
        assert f.params[-1] == (hidden.name, I64)
    for n in ir.walk(found.unit.funcs):
        if isinstance(n, ir.Call):
            assert n.args[-1].name == hidden.name


@morph.func
def visit(p, t, level):
    if atomic_min(t.dist, level) > level:
        t.label = p.id
        return True
    return False


@morph.kernel
def advance(p, level, then):
    for t in p.outnbrs:
        if visit(p, t, level):
            then.add(t)


def test_what_depends_on_an_atomic_is_sent():
    g = graph()
    found = derived(advance, g.points, 3, morph.Collection(g.points))
    (message,) = found.messages
    assert [c.name for c in message.columns] == ["value0"]  # the id of p
    assert not message.own
    assert message.points == ()
    assert columns(found.writes) == {"dist", "label"}
    assert columns(found.spreads) == {"dist"}  # the mirror filters
    adds = [n.slot for n in ir.walk(kernel_of(found.unit)) if isinstance(n, ir.Add)]
    assert sorted(adds) == [message.slot, "then"]
    needs = {n.slot for n in ir.walk(found.unit.funcs) if isinstance(n, ir.Need)}
    assert needs == {message.slot, "then"}
    assert kinds(kernel_of(found.unit).body)["Atomic"] == 2  # of the row, or of the mirror
    receiver = kernel_of(message.unit)
    assert kinds(receiver.body)["Atomic"] == kinds(receiver.body)["Add"] == 1
    assert message.unit.blocks[0].steps[0].slot == message.slot
    assert message.unit.blocks[0].steps[0].where_args == ()


@morph.kernel
def first(p, then):
    for t in p.outnbrs:
        if t.near < 5:
            if single(t):
                then.add(t)


def test_locks_are_taken_by_the_owner_for_own_rows_too():
    g = graph()
    found = derived(first, g.points, morph.Collection(g.points))
    (message,) = found.messages
    assert message.own
    assert not kinds(kernel_of(found.unit).body)["Lock"]
    assert kinds(kernel_of(message.unit).body)["Lock"] == 1
    assert columns(found.spreads) == {"near"}  # tested before a message is sent


@morph.kernel
def count_next(p, level, then):
    ahead = 0
    for t in p.outnbrs:
        before = atomic_min(t.near, level)
        if before >= level:
            atomic_add(t.rank, p.rank)
            ahead += 1
        if before > level:
            then.add(t)
    p.label = i32(ahead)


@morph.kernel
def count_own(p, level, then):
    ahead = 0
    for t in p.outnbrs:
        before = atomic_min(t.near, level + p.label)
        if before >= level + p.label:
            ahead += 1
        if before > level:
            then.add(t)
    p.label = i32(ahead)


def test_an_old_value_that_does_not_depend_on_the_order_is_tested_by_the_sender():
    g = graph()
    found = derived(count_next, g.points, i32(2), morph.Collection(g.points))
    assert [(c.column, c.op) for c in found.combines] == [("rank", "add")]
    (message,) = found.messages  # of `if before > level` only
    assert kinds(kernel_of(message.unit).body)["Compare"] == 1 and not message.columns
    with pytest.raises(morph.LanguageError, match="'ahead' is used after a change at the other"):
        derived(count_own, g.points, i32(2), morph.Collection(g.points))


@morph.kernel
def drop(p, k, falling):
    for t in p.outnbrs:
        if t.near > k:
            if atomic_sub(t.near, 1) == k + 1:
                falling.add(t)


@morph.kernel
def rise(p, k, falling):
    for t in p.outnbrs:
        if t.near > k:
            if atomic_add(t.near, 1) == k + 1:
                falling.add(t)


@pytest.mark.parametrize(("kernel", "tests"), [(drop, 2), (rise, 1)])
def test_a_condition_filters_where_it_stays_false(kernel, tests):
    g = graph()
    found = derived(kernel, g.points, 2, morph.Collection(g.points))
    compares = [n for n in ir.walk(kernel_of(found.unit)) if isinstance(n, ir.Compare)]
    assert sum(n.op == ">" for n in compares) == tests
    assert kinds(kernel_of(found.messages[0].unit).body)["Compare"] == 2


@morph.kernel
def reset(p):
    p.dist = 100
    for t in p.outnbrs:
        atomic_min(t.dist, p.id)


def test_a_minimum_is_sent_where_the_owner_may_have_become_worse():
    found = derived(reset, graph().points)
    assert found.combines == ()
    assert len(found.messages) == 1


@morph.kernel
def accumulate(p):
    for t in p.outnbrs:
        atomic_add(t.rank, p.rank)


@morph.kernel
def accumulate_read(p):
    for t in p.outnbrs:
        if t.rank < 5.0:
            atomic_add(t.rank, p.rank)


def test_an_accumulator_is_not_read_at_other_ends():
    found = derived(accumulate, graph().points)
    assert found.combines == (Combine("graph.points", "rank", "add"),)
    assert found.spreads == ()
    found = derived(accumulate_read, graph().points)
    assert found.combines == ()
    assert len(found.messages) == 1


@morph.kernel
def send(p, then, other):
    for e in p.outedges:
        q = e.dst
        if atomic_max(q.near, 2) < 2:
            q.xy = p.xy
            then.add(q, other=p, weight=e.weight + p.near)


def test_values_of_the_sender_are_carried():
    g = graph()
    then = morph.Collection(g.points, other=morph.Ref("points"), weight=i32)
    (message,) = derived(send, g.points, then, morph.Flag(g)).messages
    kind = {c.name: (c.dtype.name, c.size) for c in message.columns}
    assert sorted(kind.values()) == [("f64", 2), ("i32", 0), ("i32", 0)]
    (name,) = message.points  # p, by its global id
    assert kind[name] == ("i32", 0)


@morph.kernel
def by_edge(e):
    atomic_add(e.dst.near, 1)
    atomic_add(e.src.near, 1)


def test_the_source_of_an_own_edge_is_an_own_point():
    found = derived(by_edge, graph().edges)
    assert found.combines == (Combine("graph.points", "near", "add"),)
    assert [h.what for h in found.hidden] == ["owned_edges"]


@morph.kernel
def count(p, s, fl, g):
    atomic_add(s.number, 1)
    atomic_max(s.largest, p.id)
    if p.id == len(g.points) - 1:
        s.last = p.id
        fl.set()


@morph.kernel
def sum_up(s, g):
    a, lo = 0.0, 1000
    for p in g.points:
        a += p.rank
        lo = min(lo, p.near)
    s.total = a
    s.least = lo
    s.steps = s.steps + 1


def test_totals_of_all_parts():
    g = graph()
    s = morph.Scalars(g, number=0, largest=-1, last=0, total=0.0, least=0, steps=0)
    found = derived(count, g.points, s, morph.Flag(g), g)
    totals = {(t.column, t.op) for t in found.replicated}
    assert totals == {("number", "add"), ("largest", "max"), ("last", "set")}
    assert found.flags == ("fl",)
    found = derived(sum_up, s.table, g)
    slot = found.unit.blocks[0].steps[0].slot
    assert found.replicated == (
        ReplicatedColumn(slot, "least", "min"),
        ReplicatedColumn(slot, "total", "sum"),
    )
    (step,) = found.unit.blocks[0].steps
    assert step.start is step.stop is None  # each part has all scalars, and loops over own points
    assert [h.what for h in found.hidden] == ["owned_points"]


@morph.func
def mark(s, value):
    s.number = value


@morph.kernel
def write_one_value(p, s, g, n):
    one = n + 1
    if p.rank > 0:
        mark(s, 3)
        s.last = one
    if p.id != n:
        return
    s.largest = p.near


@morph.kernel
def write_in_one_item(p, s, table):
    s.number = p.near
    table[p.id].number += p.near


@morph.kernel
def write_any(p, s):
    s.number = p.near  # race: any of them will do
    for t in p.outnbrs:
        t.label = 1
    for t in p.outnbrs:
        t.label = 1


@morph.kernel
def two_loops(s, g):
    a, most = 0, -1
    for p in g.points:
        a += p.near
        p.label = p.near + 1
    for p in g.points:
        most = max(most, p.label)
        s.steps = 1
    s.number = a
    s.largest = most


def test_plain_writes_that_parts_make_alike():
    g = graph()
    s = morph.Scalars(g, number=0, largest=-1, last=0, steps=0)
    totals = [
        derived(kernel, items, *args, where=where).replicated
        for kernel, items, args, where in [
            (write_one_value, g.points, (s, g, 2), None),
            (write_in_one_item, g.points, (s, s.table), lambda p: p.id == 4 and p.near > 1),
            (write_any, g.points, (s,), None),
            (two_loops, s.table, (g,), None),
        ]
    ]
    ops = [{(t.column, t.op) for t in found} for found in totals]
    assert ops[0] == {("number", "set"), ("last", "set"), ("largest", "set")}
    assert ops[1] == ops[2] == {("number", "set")}
    assert ops[3] == {("number", "sum"), ("largest", "max"), ("steps", "set")}


@morph.kernel
def from_in_edges(p):
    for e in p.inedges:
        if e.used > 0:
            atomic_max(e.src.near, e.used)


@morph.kernel
def use(e):
    e.used = 1


def test_copies_of_edges_are_mirrors_too():
    found = derived(from_in_edges, graph().points)
    assert found.spreads == (("graph.edges", "used"), ("graph.points", "near"))
    assert derived(use, graph().edges).writes == (("graph.edges", "used"),)


def test_a_graph_that_is_not_partitioned_is_replicated():
    g, other = graph(), graph()
    unit = bind(Request(by_edge, g.edges, (), None, g.device))[0].unit
    found = derive(unit, set())
    assert found.spreads == found.combines == found.messages == found.hidden == ()
    assert found.unit.blocks == unit.blocks
    assert other.points is not g.points


def test_descriptions():
    g = graph()
    lines = describe(derived(advance, g.points, 3, morph.Collection(g.points)))
    assert lines[0] == "before: mirrors of graph.points.dist, where stale"
    assert lines[1].startswith("messages0: line ")
    assert lines[1].endswith(", executed by the owner; value0: i32")
    assert lines[2] == "after: mirrors of graph.points.dist, graph.points.label are stale"
    assert describe(derived(use, g.edges)) == ["after: mirrors of graph.edges.used are stale"]


def launches(g):
    then = morph.Collection(g.points)
    s = morph.Scalars(g, number=0, largest=-1, last=0, total=0.0, least=0, steps=0)
    pair = morph.Collection(g.points, other=morph.Ref("points"), weight=i32)
    flag = morph.Flag(g)
    return [
        (relax, g.points, g, flag), (advance, then, 3, then), (first, g.points, then),
        (send, g.points, pair, flag), (sum_up, s.table, g), (from_in_edges, g.points),
    ]  # fmt: skip


@pytest.mark.nvrtc
def test_derived_units_compile_for_a_gpu():
    found = [derived(*launch) for launch in launches(graph())]
    units = [u for x in found for u in (x.unit, *(m.unit for m in x.messages))]
    sm90.compile_all({prelude_of(u) + source(u): entry(u) for u in units})


def test_the_derivation_does_not_depend_on_the_device():
    for a, b in zip(launches(graph()), launches(graph("python")), strict=True):
        assert derived(*a) == derived(*b)
