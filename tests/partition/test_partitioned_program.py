"""Derivation of programs on parts: steps, crossings, and the array of a part."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_parts_programs import (
    FAR,
    bfs_program,
    label,
    mark,
    peel_all,
    ranks,
    relax,
    shortest_paths,
    small_graph,
    visit,
)
from test_parts_together import by_worklists

import morph
from morph.compiler.ir import abi, layout
from morph.compiler.ir import nodes as ir
from morph.compiler.partitioning.program import (
    NeedsSteps,
    derive_program,
    describe_program,
)
from morph.launch.binding import Request, bind
from morph.prelude import atomic_add, atomic_min, bool_, f64, i32, i64, single


def graph():
    g = small_graph()
    for name, kind in {
        "dist": i64, "before": i64, "updated": bool_, "global_id": i32, "left": i64, "core": i64,
        "rank": f64, "given": f64, "label": i32, "from_id": i32,
    }.items():  # fmt: skip
        g.points.add(name, kind)
    return g


def derived(program, g, *args, on_ranks=False):
    compiled, slots = bind(Request(program, None, (g, *args), None, g.device))
    scalars = [a.table for a in args if isinstance(a, morph.Scalars)]
    rows = {slot for slot, x in slots.objects.items() if any(x is t for t in scalars)}
    unit = replace(compiled.unit, ranks=on_ranks)
    return derive_program(unit, {x.slot for x in unit.graphs}, rows)


def steps(found):
    """The names of the steps of each block, those with several steps only."""
    blocks = ([type(s).__name__ for s in b.steps] for b in found.unit.blocks)
    return [names for names in blocks if len(names) > 1]


def lists(g):
    return morph.Collection(g.points), morph.Collection(g.points)


def test_minima_are_combined_and_mirrors_keep_what_they_were_offered():
    g = graph()
    found = derived(shortest_paths, g, morph.Flag(g))
    assert steps(found) == [["Foreach", "Agree", "Exchange", "Foreach"]]
    (agree,) = (n for n in ir.walk(found.unit.blocks) if isinstance(n, ir.Agree))
    (exchange,) = (n for n in ir.walk(found.unit.blocks) if isinstance(n, ir.Exchange))
    assert agree.flags == ("changed",) and agree.values == ()
    assert [(m.column, m.op) for m in exchange.combines] == [("dist", "min")]
    assert exchange.spreads == ()
    assert found.spreads == (("g.points", "dist"),) and ("g.points", "dist") in found.stale
    assert {c for _, c in found.writes} == {"dist", "before", "updated"}
    assert [h.what for h in found.hidden] == ["owned_points"]
    assert any("combined by min: mirrors of g.points.dist" in x for x in describe_program(found))


@morph.func
def is_farther(t, level):
    return t.dist > level


@morph.kernel
def visit_farther(p, level, following):
    for t in p.outnbrs:
        if is_farther(t, level):
            if atomic_min(t.dist, level) > level:
                following.add(t)


@morph.kernel
def claim_farther(p, level, following):
    for t in p.outnbrs:
        if is_farther(t, level):
            if atomic_min(t.dist, level) > level:
                if single(t):
                    following.add(t)


@morph.program
def search(g, kernel, now, following):
    while not now.empty:
        morph.foreach(now, kernel, i64(1), following)
        now, following = following, now
        following.clear()


def test_a_filter_of_targets_needs_a_bound_where_offers_lower_the_mirror():
    g = graph()
    found = derived(search, g, visit_farther, *lists(g))
    assert not [n for n in ir.walk(found.unit.blocks) if isinstance(n, ir.Exchange)]
    assert found.steps[0].bounds == {("g.points", "dist"): "min"}
    assert [f.name for f in found.unit.funcs] == ["visit_farther", "visit_farther_at_owner0"]
    locked = derived(search, g, claim_farther, *lists(g))  # mirrors keep no offers
    (exchange,) = (n for n in ir.walk(locked.unit.blocks) if isinstance(n, ir.Exchange))
    assert [m.column for m in exchange.spreads] == ["dist"] and not locked.steps[0].bounds


def test_messages_are_delivered_before_they_are_executed():
    g = graph()
    found = derived(bfs_program, g, *lists(g))
    (block,) = steps(found)
    assert block == [
        "Assign", "Foreach", "Deliver", "Agree", "Foreach", "Agree", "Clear", "Clear", "Clear",
    ]  # fmt: skip
    (box,) = found.boxes
    assert (box.outbox, box.inbox, box.table) == ("messages0_sent_", "messages0", "g.points")
    assert {*found.collections} == {"now", "following"}
    sizes = [n for n in ir.walk(found.unit.blocks) if isinstance(n, ir.StoreSize)]
    assert sizes and all(n.in_all for n in sizes)
    sends = {f.name: ir.slots(ir.walk(f), "allocates") for f in found.unit.funcs}
    assert sends["visit"] == {"following", "messages0_sent_"}
    assert sends["visit_at_owner0"] == {"following"}


@morph.kernel
def forget(p):
    p.dist = FAR


@morph.program
def from_far(g, now, following):
    while not now.empty:
        morph.foreach(now, visit, i32(1), following)
        morph.foreach(g.points, forget)  # raises distances
        now, following = following, now
        following.clear()


def test_mirrors_are_spread_after_changes_that_offers_do_not_bound():
    g = graph()
    found = derived(from_far, g, *lists(g))
    exchanges = [n for n in ir.walk(found.unit.blocks) if isinstance(n, ir.Exchange)]
    assert [[m.column for m in n.spreads] for n in exchanges] == [["dist"]]


def test_sums_begin_at_mirrors_of_zero():
    g = graph()
    found = derived(peel_all, g, lists(g)[0], morph.Scalars(g, remaining=0))
    peel = next(names for names in steps(found) if "FillMirrors" in names)
    assert peel == ["FillMirrors", "Foreach", "Agree", "Exchange"]
    (total,) = (n for n in ir.walk(found.unit.blocks) if isinstance(n, ir.ReplicatedValue))
    assert total.op == "add" and total.place.column == "remaining"
    assert total.before.name == found.unit.state[-1][0]
    choose = next(names for names in steps(found) if names[0] == "OneThread")
    assert choose[-3:] == ["Assign", "Foreach", "Agree"]  # the value before is kept


def test_a_column_is_spread_after_each_step_that_changes_it():
    g = graph()
    found = derived(ranks, g, morph.Scalars(g, loose=0.0), 3)
    exchanges = [n for n in ir.walk(found.unit.blocks) if isinstance(n, ir.Exchange)]
    assert [[m.column for m in n.spreads] for n in exchanges] == [["given"], ["given"]]
    assert all(not n.combines for n in exchanges)
    assert {h.what for h in found.hidden} == {"points", "owned_points"}


def test_a_step_over_a_worklist_marks_what_it_changes():
    g = graph()
    for name, kind in {"next": i32, "total": i64, "seen": f64, "at": morph.vec(f64, 2)}.items():
        g.points.add(name, kind)
    found = derived(by_worklists, g, *lists(g))
    sent = [[(m.column, m.marked) for m in sends] for sends in found.sends]
    lists_of = {"take_next": ["at", "label"], "count_down": ["left"]}
    for p, columns in zip(found.steps, sent, strict=True):
        name = p.unit.blocks[0].steps[0].kernel.removesuffix("_2")
        if name in lists_of:
            assert columns == [(c, True) for c in lists_of[name]]
        else:
            assert all(not marked for _, marked in columns)
    assert [("at", False), ("label", False), ("left", False)] in sent and [("at", False)] in sent
    marks = [n for f in found.unit.funcs for n in ir.walk(f) if isinstance(n, ir.Mark)]
    # in the step, and in the one that executes messages
    assert sorted(m.column for m in marks) == ["at", "label", "left", "left"]
    assert [c for _, c in abi.parts_of(found.unit).marks] == ["at", "label", "left"]
    text = "\n".join(describe_program(found))
    assert "rows of g.points.label are sent to mirrors, those that have changed" in text
    assert "rows of g.points.at are sent to mirrors, all" in text


@morph.kernel
def lower_mirrors(p, listed):
    for t in p.outnbrs:
        atomic_min(t.dist, p.dist + 1)


@morph.kernel
def copy_dist(p):
    for t in p.outnbrs:
        p.left += t.dist


@morph.program
def lower_listed(g, listed):
    morph.foreach(listed, lower_mirrors, listed)
    morph.foreach(g.points, copy_dist)


def test_what_parts_change_at_mirrors_is_sent_as_a_whole():
    g = graph()
    found = derived(lower_listed, g, lists(g)[0])
    assert found.steps[0].mirrored == {("g.points", "dist")}
    assert found.sends == ((), ()) and not found.before[0]  # the first step only compares
    assert [(m.column, m.marked) for m in found.before[1]] == [("dist", False)]
    assert not [n for f in found.unit.funcs for n in ir.walk(f) if isinstance(n, ir.Mark)]


@pytest.mark.parametrize(
    ("program", "more"),
    [
        (shortest_paths, lambda g: (morph.Flag(g),)),
        (bfs_program, lists),
        (label, lambda g: (morph.Flag(g),)),
        (peel_all, lambda g: (lists(g)[0], morph.Scalars(g, remaining=0))),
    ],
)
def test_mirrors_change_between_two_crossings_only(program, more):
    g = graph()
    found = derived(program, g, *more(g))
    for block in found.unit.blocks:
        for i, s in enumerate(block.steps):
            if isinstance(s, ir.Exchange) and any(m.value for m in s.spreads):
                assert all(m.value for m in s.spreads) and not s.combines  # set after the crossing
                assert isinstance(block.steps[i - 1], ir.Foreach)
                assert isinstance(block.steps[i + 1], ir.Agree)
            elif isinstance(s, ir.Exchange):
                before = [x for x in block.steps[:i] if x.synchronises or isinstance(x, ir.Agree)]
                last = before[-1]
                assert isinstance(last, ir.Agree | ir.Exchange | ir.Clear)
            if isinstance(s, ir.Agree):
                last = block.steps[i - 1]
                assert isinstance(last, ir.Foreach | ir.Deliver | ir.Exchange)


@morph.kernel
def number(p, k, chosen):
    for t in p.innbrs:
        if t.dist == k:
            p.dist = k + 1


@morph.kernel
def number_by_id(p, k, chosen):
    for t in p.innbrs:
        if t.dist == k:
            p.dist = i64(p.id)


@morph.kernel
def number_and_list(p, k, chosen):
    for t in p.innbrs:
        if t.dist == k:
            p.dist = k + 1
    chosen.add(p)


@morph.program
def numbered(g, kernel, chosen):
    k = i64(0)
    while k < 9:
        morph.foreach(g.points, kernel, k, chosen)
        k += 1


@pytest.mark.parametrize("on_ranks", [False, True])
@pytest.mark.parametrize("kernel", [number, number_by_id, number_and_list])
def test_a_step_that_writes_one_value_sends_bits(kernel, on_ranks):
    """At one crossing, unless the parts have to agree before whether an item has failed.

    On ranks no part writes to memory of another one.
    """
    g = graph()
    found = derived(numbered, g, kernel, lists(g)[0], on_ranks=on_ranks)
    (exchange,) = (n for n in ir.walk(found.unit.blocks) if isinstance(n, ir.Exchange))
    array = abi.parts_of(found.unit)
    if kernel is number and not on_ranks:
        assert steps(found) == [["Foreach", "Exchange", "Agree", "Assign"]]
        assert [(m.column, m.value.op) for m in exchange.spreads] == [("dist", "+")]
        assert array.size == array.bits["g.points", "dist"] + layout.Equal.WORDS
    else:
        assert steps(found) == [["Foreach", "Agree", "Exchange", "Assign"]]
        assert exchange.spreads[0].value is None and not array.bits


def test_the_array_of_a_part_has_a_place_for_each_route_and_column():
    g = graph()
    found = derived(bfs_program, g, *lists(g))
    array = abi.parts_of(found.unit)
    assert list(array.routes) == ["g.points"]
    assert list(array.peers) == [("messages0", "item")]
    first = layout.Parts.ROUTES + layout.Route.WORDS
    assert list(array.peers.values()) == [first]
    assert array.size == first + layout.MOST_PARTS
    assert [f.name for f in abi.fields(found.unit) if f.kind == "parts"] == ["parts"]
    alone, _ = bind(Request(bfs_program, None, (g, *lists(g)), None, g.device))
    assert abi.parts_of(alone.unit) is None
    assert not any(f.kind == "parts" for f in alone.fields)


@morph.program
def from_one_point(g, changed):
    if g.points[0].dist > 0:
        g.points[0].dist = 0
    morph.foreach(g.points, relax, g, changed)


@morph.kernel
def fill(s, g):
    for p in g.points:
        atomic_add(s.number, p.label)


@morph.program
def fill_all(g, table):
    morph.foreach(table, fill, g)


@morph.program
def two_kernels(g, changed):
    morph.foreach(g.points, relax, g, changed)
    morph.foreach(g.points, mark)
    morph.foreach(g.points, relax, g, changed, where=lambda p: p.dist < FAR)


def test_functions_of_several_steps_have_names_of_their_own():
    g = graph()
    found = derived(two_kernels, g, morph.Flag(g))
    kernels = [n.kernel for n in ir.walk(found.unit.blocks) if isinstance(n, ir.Foreach)]
    names = [f.name for f in found.unit.funcs]
    assert len({*kernels}) == 3 and len({*names}) == len(names)
    assert {*kernels} <= {*names}


def test_programs_that_run_launch_by_launch():
    g = graph()
    with pytest.raises(NeedsSteps, match="uses rows of parts"):
        derived(from_one_point, g, morph.Flag(g))
    g.add_table("extra", number=i64).extend(2)
    with pytest.raises(NeedsSteps, match="copies of several rows"):
        derived(fill_all, g, g.extra)
