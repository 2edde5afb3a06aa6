"""Which loops over edges are shared, and the note on it in the generated text."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sm90 import compile_all
from test_balance import PROGRAMS, STAR, graph, unfold, unfolds
from test_balance_sums import gathering, gathers, summing, sums

import morph
from morph.compiler.codegen.unit import entry, prelude
from morph.compiler.passes.work_sharing import BALANCES
from morph.launch.foreach import BALANCE
from morph.prelude import atomic_add, atomic_min, i32, i64

UP = morph.Flag("cpu")


def text(kernel, choice="auto"):
    g = graph("cpu", STAR, x=i64, y=i64, z=i64)
    morph.foreach(g.points, kernel, balance=choice)
    return kernel.source()


@morph.kernel
def simple(p):
    for t in p.outnbrs:
        atomic_add(t.x, 1)


@pytest.mark.unchecked  # loops of checked kernels are not shared
def test_the_choice_is_in_the_text():
    limits = {"auto": "LIMIT = HIGH_DEGREE;", "warp": "LIMIT = NO_LIST;", "grid": "LIMIT = 0;"}
    limits["block"] = limits["warp"]
    for choice in BALANCES:
        made = text(simple, choice=choice)
        assert ("WORK_SHARING = true" in made) == (choice != "thread")
        assert ("run_high_degree_list(" in made) == (choice in ("auto", "grid"))
        assert limits.get(choice, "WORK_SHARING = false") in made


def test_choices_are_those_of_foreach():
    assert BALANCE == BALANCES
    with pytest.raises(
        ValueError, match="balance is one of 'auto', 'thread', 'warp', 'block', 'grid'"
    ):
        text(simple, choice="lanes")


@morph.kernel
def breaks(p):
    for t in p.outnbrs:
        if t.x > 3:
            break
        atomic_add(t.x, 1)


@morph.kernel
def returns(p):
    for t in p.outnbrs:
        if t.x > 3:
            return
        atomic_add(t.x, 1)


@morph.kernel
def counts(p):
    n = 0
    for t in p.outnbrs:
        n += 1
        atomic_add(t.x, n)


@morph.kernel
def goes_on(p):
    for t in p.outnbrs:
        atomic_add(t.x, 1)
    p.y = 1


@morph.kernel
def last_wins(p):
    for t in p.outnbrs:
        p.y = t.id


@morph.kernel
def reads_its_own(p):
    for t in p.outnbrs:
        if t.y == 0:
            t.y = 1


@morph.kernel
def asks_in_between(p):
    for t in p.outnbrs:
        atomic_add(t.x, atomic_add(p.y, 1))


@morph.kernel
def from_behind(p):
    for t in reversed(p.outnbrs):
        atomic_add(t.x, 1)


@morph.func
def bump(t):
    t.y = t.y + 1


@morph.kernel
def calls(p):
    for t in p.outnbrs:
        bump(t)


@morph.kernel
def marks(p):
    for t in p.outnbrs:
        t.y = 1
        p.x = 3


@morph.kernel
def branches(p):
    if p.x == 0:
        for t in p.outnbrs:
            half = t.id // 2
            for s in t.outnbrs:
                if s == p:
                    break
                half += 1
            atomic_add(t.x, half)
    else:
        p.y = 1


@morph.kernel
def hands_on(p):
    last = p
    for t in p.outnbrs:
        last = t
    p.x = last.id


@morph.kernel
def hands_on_what_it_binds(p):
    t = p
    for t in p.outnbrs:
        atomic_add(t.x, 1)
    p.y = t.id


@morph.kernel
def asks_for_a_sum(p):
    n = 0
    for t in p.outnbrs:
        n += 1
        if n < 3:
            atomic_add(t.x, 1)
    p.y = n


@morph.kernel
def two_ways(p):
    n = 0
    for t in p.outnbrs:
        n += t.id
        n = max(n, 3)
    p.y = n


@morph.kernel
def adds_in_front(p):
    n = 0
    for t in p.outnbrs:
        n = t.id + n
    p.y = n


@morph.kernel
def subtracts_from(p):
    n = 0
    for t in p.outnbrs:
        n = t.id - n
    p.y = n


@morph.kernel
def raises(p):
    for t in p.outnbrs:
        if not UP.raised:
            atomic_add(t.x, 1)
            UP.set()


@morph.kernel
def reports_what_it_saw(p):
    for t in p.outnbrs:
        t.y = i64(UP.raised)


@morph.func
def lower(p, t, x):
    x += 1
    if atomic_min(t.x, x) > x:
        t.y = p.id  # race: any of the neighbours
        return True
    return False


@morph.func
def lower_twice(p, t):
    return lower(p, t, p.id) or lower(p, t, 0)


@morph.kernel
def calls_updates(p):
    for t in p.outnbrs:
        if lower(p, t, t.id):
            atomic_add(t.z, 1)


@morph.kernel
def calls_two_updates(p):
    for t in p.outnbrs:
        if lower_twice(p, t):
            atomic_add(t.z, 1)


@morph.func
def last_id(p, t):
    p.y = t.id


@morph.kernel
def calls_last_wins(p):
    for t in p.outnbrs:
        last_id(p, t)


@morph.func
def next_of(p):
    return atomic_add(p.y, 1)


@morph.kernel
def calls_asks_in_between(p):
    for t in p.outnbrs:
        atomic_add(t.x, next_of(p))


@morph.func
def listed(t, found):
    found.add(t)


@morph.kernel
def calls_allocates(p, found):
    for t in p.outnbrs:
        listed(t, found)


@pytest.mark.unchecked  # loops of checked kernels are not shared
def test_functions_that_allocate_keep_their_loop():
    g = graph("cpu", STAR)
    found = morph.Collection(g.points)
    morph.foreach(g.points, calls_allocates, found)
    assert len(found) == len(STAR[1]) and "WORK_SHARING = false" in calls_allocates.source()


@pytest.mark.unchecked  # loops of checked kernels are not shared
@pytest.mark.parametrize(
    "kernel", [simple, marks, branches, goes_on, adds_in_front, raises, calls_updates]
)
def test_loops_that_are_shared(kernel):
    assert "WORK_SHARING = true" in text(kernel)


@pytest.mark.unchecked  # loops of checked kernels are not shared
@pytest.mark.parametrize(
    "kernel",
    [
        breaks, returns, counts, last_wins, reads_its_own, asks_in_between, from_behind, calls,
        calls_two_updates, calls_last_wins, calls_asks_in_between,
        hands_on, hands_on_what_it_binds, asks_for_a_sum, two_ways, subtracts_from,
        reports_what_it_saw,
    ],
)  # fmt: skip
def test_loops_whose_order_counts(kernel):
    assert "WORK_SHARING = false" in text(kernel)


@pytest.mark.unchecked  # loops of checked kernels are not shared
def test_what_follows_a_loop_waits_for_all_of_it():
    sums("cpu", STAR, "auto")
    made = summing.source()
    assert "HAS_EPILOGUE = true" in made and "run_high_degree_list(" in made
    parts = made.partition("struct summing_reductions {")[2].partition("};")[0]
    parts = re.sub(r"\b(total|low)_\b", r"\1", parts)  # a name that C++ text has already gets a "_"
    assert "f64 total = -0.0;" in parts and "low = min_of(low, x.low);" in parts
    assert "fetch(Plus(), &all.total, total);" in parts
    assert "fetch(Minimum(), &all.low, low);" in parts
    gathers("cpu", STAR, "auto")
    made = gathering.source()
    assert "WORK_SHARING = true" in made and "fetch(Or(), &all.some, some);" in made
    assert "fetch(And(), &all.every" in made


@pytest.mark.nvrtc
@pytest.mark.unchecked  # checked programs have no text
def test_compiles_for_cuda():
    texts = {}
    for choice in BALANCES:
        sums("cpu", STAR, choice), unfolds("cpu", STAR, choice), gathers("cpu", STAR, choice)
        g = graph("cpu", STAR)
        g.points.add("dist", i64, fill=9)
        PROGRAMS[choice](*(morph.Collection(g.points) for _ in range(2)))
        for what in (summing, gathering, unfold, PROGRAMS[choice]):
            for defined in ("", "#define MORPH_FAULTS 1\n") if choice == "auto" else ("",):
                unit = list(what.launches.values())[-1].compiled.unit
                texts[defined + prelude() + what.source()] = entry(unit)
    compile_all(texts)


@morph.kernel
def reads_in_turns(p, following):
    a, b, c, d, e = i32(p.out_degree), i64(p.out_degree), i32(3), i64(4), i32(5)
    c += a
    d += b
    e += c
    for t in p.outnbrs:
        if t.id + a + b + c + d + e > 0:
            following.add(t)


def test_what_is_kept_of_a_row_is_counted_with_its_gaps():
    """Numbers of 4 and 8 bytes in turns take more than their sum."""
    g = graph("cpu", (3, [(0, 1), (0, 2), (1, 2)]))
    following = morph.Collection(g.points, capacity=10)
    morph.foreach(g.points, reads_in_turns, following)
    assert sorted(following.item.array[:3].tolist()) == [1, 2, 2]


@morph.kernel
def by_item(r):
    for t in r.item.outnbrs:
        atomic_add(t.x, 1)


@pytest.mark.unchecked  # loops of checked kernels are not shared
def test_rows_of_a_table_are_no_points():
    """Only of a list is the row of entry i known before it runs; row i of a table is no point."""
    g = graph("cpu", STAR, x=i64)
    rows = g.add_table("rows", item=morph.Ref("points"))
    rows.extend(5, item=[0] * 5)
    morph.foreach(rows, by_item)
    assert "degree(" not in by_item.source()
    morph.foreach(g.points, simple)
    assert "return degree(" in simple.source()


@morph.kernel
def marks_neighbours(p):
    for t in p.outnbrs:
        if t.y == 0:
            atomic_add(t.x, 1)


def prefetches(kernel, items, **given):
    """The lines of the generated function that prefetches for an item, without indents."""
    morph.foreach(items, kernel, **given)
    found = re.search(r"prefetch_row\(const.*?\n    \}", kernel.source(), re.DOTALL)
    return found and re.sub(r"(?m)^ +", "", found[0])


@pytest.mark.unchecked  # loops of checked kernels are not shared
def test_a_thread_prefetches_the_rows_of_a_list():
    """First its bounds, then its first entry, then columns that its first entries lead to."""
    g = graph("cpu", STAR, x=i64, y=i64, z=i64)
    listed = morph.Collection(g.points, capacity=64)
    listed.extend([0, 8, 4] * 13)
    made = prefetches(marks_neighbours, listed)
    added = np.bincount([t for p, t in STAR[1] if p in (0, 4, 8)], minlength=9)
    assert g.points.x[:].tolist() == (13 * added).tolist()
    places = [made.index(x) for x in ("_out_offset + point", "prefetch(first)", "reach(a, k)")]
    assert places == sorted(places) and "_y.at(other)" in made and "_x.at(other)" in made
    assert "_z" not in made


@pytest.mark.unchecked
def test_rows_that_a_filter_excludes_are_not_prefetched():
    g = graph("cpu", STAR, x=i64, y=i64, z=i64)
    listed = morph.Collection(g.points, capacity=64)
    assert prefetches(marks_neighbours, g.points) is None  # consecutive rows
    assert prefetches(marks_neighbours, listed, where=lambda p: p.z > 0) is None


@morph.kernel
def adds_all_neighbours(p, following):
    for t in p.nbrs:
        following.add(t)
    for t in p.outnbrs:
        atomic_add(t.x, 1)


def test_neighbours_of_both_directions_are_added_before_a_shared_loop():
    """Their rows are not fetched early: no one array has the edges of both directions."""
    g = morph.Graph.from_edges([0, 1, 2], [1, 2, 0], n=3, directed=True)
    for whole in (g, morph.partition(g, ["cpu", "cpu"])):
        whole.points.add("x", i64)
        following = morph.Collection(whole.points)
        morph.foreach(whole.points, adds_all_neighbours, following)
        assert sorted(following.items) == [0, 0, 1, 1, 2, 2]
        assert list(whole.points.x[:]) == [1, 1, 1]
