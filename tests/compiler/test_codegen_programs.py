"""Programs fused into one launch: barriers, flags, and resumption after a store was too small."""

import re
from dataclasses import replace

import numpy as np
import pytest
import unit_programs
from machine import THREADS, Machine, collection_arrays, graph_arrays

from morph.compiler.codegen.unit import source
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.abi import Meta, State
from morph.language.types import I32


def levels(offset, dst, source):
    dist = np.full(len(offset) - 1, 1 << 20)
    dist[source], frontier = 0, [source]
    while frontier:
        then = []
        for p in frontier:
            for t in dst[offset[p] : offset[p + 1]]:
                if dist[t] > dist[p] + 1:
                    dist[t] = dist[p] + 1
                    then.append(t)
        frontier = then
    return dist


@pytest.mark.parametrize("threads", THREADS)
def test_program_with_a_flag(threads):
    n = 2000
    arrays = graph_arrays(n, 5000, seed=5)
    arrays["g_points_dist"][:] = 1 << 20
    machine = Machine(unit_programs.bfs_flag(), n, **arrays)
    for _ in range(2):  # the flag is left as a later launch expects it
        machine["state"][:] = 0
        machine["g_points_dist"][:] = 1 << 20
        machine.run(threads, source=17, first=0)
        assert machine["state"][State.BLOCK] == -1
        assert not machine["changed_flag"].any()
        want = levels(arrays["g_out_offset"], arrays["g_edges_dst"], 17)
        assert (machine["g_points_dist"] == want).all()
        assert machine["state"][State.VARS] == want[want < 1 << 20].max() + 1


@pytest.mark.parametrize("capacity", [8, 1 << 14])
@pytest.mark.parametrize("threads", THREADS)
def test_program_with_worklists(threads, capacity):
    n = 2000
    arrays = graph_arrays(n, 6000, seed=6)
    arrays["g_points_dist"][:] = 1 << 20
    arrays["g_points_dist"][3] = 0
    arrays |= collection_arrays("now", [3], capacity) | collection_arrays("then", [], capacity)
    machine = Machine(unit_programs.bfs_worklists(), n, **arrays)
    launches = 0
    while True:
        machine.run(threads)
        launches += 1
        if not machine.failed():
            break
        assert machine["state"][State.REPLAY] == 1
        machine.grow("now")
        machine.grow("then")
    assert (launches > 1) == (capacity == 8)
    assert machine["state"][State.BLOCK] == -1
    want = levels(arrays["g_out_offset"], arrays["g_edges_dst"], 3)
    assert (machine["g_points_dist"] == want).all()
    assert not machine["deferred"].any()


@pytest.mark.parametrize("capacity", [40, 1 << 14])
@pytest.mark.parametrize("threads", THREADS)
def test_program_goes_on_at_the_step_that_failed(threads, capacity):
    n = 700
    arrays = graph_arrays(n, n) | collection_arrays("left", [], capacity)
    arrays |= collection_arrays("right", [], capacity)
    machine = Machine(unit_programs.steps(), n, **arrays)
    for again in range(2):
        launches = 0
        while True:
            machine.run(threads)
            launches += 1
            if not machine.failed():
                break
            for slot in ("left", "right"):
                if machine[f"{slot}_meta"][Meta.BUDGET] < n:
                    machine.grow(slot)
        assert (launches > 1) == (capacity == 40 and not again)
        for slot in ("left", "right"):
            words = machine[f"{slot}_meta"]
            items = machine[f"{slot}_item"][: words[Meta.COUNT]]
            assert (np.bincount(items, minlength=n) == 3).all()
            words[Meta.COUNT], words[Meta.BUDGET] = 0, words[Meta.CAPACITY]
        assert machine["state"][State.VARS :].tolist() == [3, 3 * (again + 1)]
        assert machine["g_points_hits"][0] == 6 * (again + 1)
        machine["state"][:] = 0


def test_a_level_costs_one_barrier():
    """What is cleared behind a foreach is cleared at its barrier, unless items were left.

    Another one stands only behind what is done of rows that wait on the list.
    """
    text = source(unit_programs.bfs_worklists())
    run = text[text.index("void run(const Args& a, Run& t)") :]
    run = re.sub(
        r" *while \(t.broadcast_value && has_high_degree_list\(a\)\) {.*?}\n",
        "",
        run,
        flags=re.DOTALL,
    )
    assert len(re.findall(r"\bend\d+_\d+\(", run)) == 2 and "barrier(" not in run
    ends = re.findall(r"MORPH_FN void end\d(.*?)\n}", text, re.DOTALL)
    assert len(ends) == 2
    for end in ends:  # the master loads all words before it stores any
        assert end.count("arrive(") == 1 and "if (!failed)" in end
        words = [m.start() for m in re.finditer("CollectionCounters|FAILED", end)]
        assert len(words) == 3 and max(words) < min(
            end.index(".publish_counters"), end.index(".clear")
        )


def test_a_size_is_asked_before_what_is_cleared_later():
    """`n = len(now)` between a foreach and `now.clear()`: two barriers."""
    made = unit_programs.bfs_worklists()
    test, body, *rest = made.blocks
    visit, clear, count = body.steps
    size = unit_programs.new(ir.Cast, x=test.cond.x, type=I32)
    for between, ends in ((unit_programs.assign("level", size), 2), (count, 1)):
        blocks = (test, replace(body, steps=(visit, between, clear)), *rest)
        text = source(replace(made, blocks=blocks))
        assert len(re.findall(r"void end1_", text)) == ends
