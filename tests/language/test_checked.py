"""The checked mode: a violation is reported with line, values and item, equally on every target."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest
import sm90
import units
import violations
from graphs import edge_lists, graph_of
from hypothesis import given
from targets import host, tries
from violations import found

import morph
from morph.compiler.codegen.unit import entry, prelude, source
from morph.compiler.ir import abi
from morph.launch import binding
from morph.launch.compiled import Compiled
from morph.launch.scratch import scratch
from morph.launch.violations import Checks
from morph.prelude import (
    atomic_add,
    atomic_exch,
    atomic_min,
    f64,
    i8,
    i32,
    i64,
    local,
    prefetch,
    single,
    u32,
    vector,
)
from morph.testing import item_order, team

line_of = partial(violations.line_of, __file__)


@pytest.fixture
def g(target):
    return violations.graph(target)


# --- one kernel for each rule; the marks are the lines that are reported -------------------------


@morph.kernel
def writes_far(p, g):
    if p.id >= 2:
        g.points[10**9].a = 55  # writes_far


@morph.kernel
def reads_far(p, g):
    p.a = g.points[p.id + 2].a  # reads_far


@morph.kernel
def reads_below(p, g):
    p.a = g.points[p.id - 3].a  # reads_below


@morph.kernel
def is_no_handle(p, g):
    q = g.points[p.far]  # is_no_handle
    p.a = q.a


@morph.kernel
def reads_none(p):
    p.a = p.next.a  # reads_none


@morph.kernel
def adds_to_none(p):
    atomic_add(p.next.a, 1)  # adds_to_none


@morph.kernel
def walks_none(p):
    for t in p.next.outnbrs:  # walks_none
        p.a += t.id


@morph.kernel
def counts_none(p):
    p.a = p.next.out_degree  # counts_none


@morph.kernel
def finds_none(p, g):
    if g.edge(p.next, p) is not None:  # finds_none
        p.a = 1


@morph.kernel
def asks_none(p):
    if p.next.deleted:  # asks_none
        p.a = 1


@morph.kernel
def locks_none(p):
    if single(p.next):  # locks_none
        p.a = 1


@morph.kernel
def prefetches_none(p):
    prefetch(p.next.a)  # prefetches_none


@morph.kernel
def no_edge(p, g):
    g.edge(p, p).weight = 3  # no_edge


@morph.kernel
def vector_column(p, i):
    p.v[i + p.id] = 1  # vector_column


@morph.kernel
def vector_value(p, i):
    v = p.v
    p.x = v[i + p.id]  # vector_value


@morph.kernel
def sets_vector(p, i):
    v = vector(1.0, 2.0)
    v[i + p.id] = 3.0  # sets_vector
    p.x = v[0]


@morph.kernel
def local_index(p):
    c = local(i64, 4)
    c.add(p.id)
    p.a = c[p.id]  # local_index


@morph.kernel
def empty_pop(p):
    c = local(i64, 4)
    if p.id < 3:
        c.add(7)
    p.a = c.pop()  # empty_pop


@morph.kernel
def product(p, g):
    i = p.big * p.big  # product
    g.points[i % 4 + i - i].a = 3


@morph.kernel
def narrowed(p, g):
    i = i32(p.far)  # narrowed
    g.points[i].a = 3


@morph.kernel
def from_float(p, g):
    g.points[i64(p.x)].a = 3  # from_float


@morph.func
def twice(x):
    return x * i8(2)  # in_a_function


@morph.kernel
def in_function(p, g):
    if p.id == 3:
        g.points[twice(i8(100))].a = 1


RULES = [
    (writes_far, "g", "row 1000000000 of points does not exist: there are 4 rows", 2),
    (reads_far, "g", "row 4 of points does not exist: there are 4 rows", 2),
    (reads_below, "g", "row -3 of points does not exist: there are 4 rows", 0),
    (is_no_handle, "g", "row 1099511627776 of points does not exist: there are 4 rows", 0),
    (reads_none, "", "this is None, not a row of points", 0),
    (adds_to_none, "", "this is None, not a row of points", 0),
    (walks_none, "", "this is None, not a row of points", 0),
    (counts_none, "", "this is None, not a row of points", 0),
    (finds_none, "g", "this is None, not a row of points", 0),
    (asks_none, "", "this is None, not a row of points", 0),
    (locks_none, "", "this is None, not a row of points", 0),
    (prefetches_none, "", "this is None, not a row of points", 0),
    (no_edge, "g", "this is None, not a row of edges", 0),
    (vector_column, 2, "index 3 is out of range: column 'v' has 3 values", 1),
    (vector_value, 0, "index 3 is out of range: the vector has 3 values", 3),
    (sets_vector, 0, "index 2 is out of range: 'v' has 2 values", 2),
    (local_index, "", "index 1 is out of range: the local collection has 1 value", 1),
    (empty_pop, "", "pop() of an empty local collection", 3),
    (product, "g", "70000 * 70000 overflows i32, and is used as an index", 0),
    (narrowed, "g", "1099511627776 does not fit in i32, and is used as an index", 0),
    (from_float, "g", "1e+300 does not fit in i64, and is used as an index", 0),
    (in_function, "g", "100 * 2 overflows i8, and is used as an index", 3),
]


@pytest.mark.parametrize(
    ("kernel", "arg", "problem", "item"), RULES, ids=lambda x: getattr(x, "__name__", "")
)
def test_each_rule(g, kernel, arg, problem, item):
    if kernel is asks_none:  # else no row can be deleted, and nothing is looked at
        g.points.allow_deletes()
    args = () if arg == "" else (g,) if arg == "g" else (arg,)
    error = found(g.points, kernel, *args)
    assert error.problem == f"{problem} (item points[{item}])"
    mark = "in_a_function" if kernel is in_function else kernel.__name__
    assert error.pos.line == line_of(mark)
    morph.foreach(g.points, mine_only, check=True)
    assert host(g.points.a).tolist() == [0, 1, 2, 3]


@morph.kernel
def mine_only(p):
    p.a = p.id


@morph.kernel
def deletes(p, last):
    if p.id == 1:
        p.delete()
        p.delete()  # twice is allowed
        if last:
            p.a = 1  # after_deletion


@morph.kernel
def uses_one(p, g):
    if p.id == 0 and not g.points[1].deleted:
        g.points[1].a = 3
    p.big = 0
    if p.id == 2:
        g.points[1].a = 3  # uses_one


def test_deleted_rows(g):
    morph.foreach(g.points, deletes, False, check=True)
    error = found(g.points, uses_one, g)
    assert error.problem == "row 1 of points is deleted (item points[2])"
    assert error.pos.line == line_of("uses_one")


def test_a_row_that_the_item_itself_has_deleted(g):
    error = found(g.points, deletes, True)
    assert error.problem == "row 1 of points is deleted (item points[1])"
    assert error.pos.line == line_of("after_deletion")


@morph.kernel
def all_look(p, g):
    if p.id == 1:
        p.delete()
    else:
        p.a = g.points[1].big


def test_what_another_item_deletes_is_there_until_the_launch_ends(g):
    morph.foreach(g.points, all_look, g, check=True)
    assert host(g.points.a)[[0, 2, 3]].tolist() == [70000] * 3


@morph.kernel
def deletes_of_two_tables(p, t):
    if p.id % 4 == 1:
        t[p.id - 1].delete()
        if p.id % 8 == 5:
            t[p.id].delete()
        p.delete()


def test_items_that_delete_rows_of_different_tables(target):
    """Items of one warp delete together, but each table counts its own deleted rows."""
    points, t = morph.Table("points", target), morph.Table("t", target)
    points.extend(64)
    t.extend(64)
    morph.foreach(points, deletes_of_two_tables, t, check=True)
    assert np.flatnonzero(~host(points.alive)).tolist() == list(range(1, 64, 4))
    assert (points.live, t.live) == (64 - 16, 64 - 16 - 8)


@morph.kernel
def hashes(p, g):
    h = (p.far * p.far * 31 + p.id) % 4
    g.points[h & 3].a = u32(4000000000) * u32(7) & u32(1)  # race: only whether it overflows counts


def test_hashes_may_wrap(g):
    morph.foreach(g.points, hashes, g, check=True)


@morph.kernel
def reads_entry(entry):
    entry.item.a = entry.item.next.a  # reads_entry


@morph.kernel
def reads_item(p):
    p.a = p.next.a


def test_items_of_collections(g):
    items = morph.Collection(g.points)
    items.add(3), items.add(2)
    assert found(items, reads_item).problem.endswith("(item points[3])")
    entries = morph.Collection(g.points, key=i64)
    entries.add(3, 5)
    error = found(entries, reads_entry)
    assert error.problem.endswith(f"(item {entries.name}[0])")


def test_a_filter_is_checked(g):
    error = found(g.points, mine_only, where=lambda p: p.next.a == 0)  # filter
    assert error.problem == "this is None, not a row of points (item points[0])"
    assert error.pos.line == line_of("filter")


@morph.kernel
def stops(p, g, made):
    row = made.new(p.id)
    if p.id == 0:
        g.points[-5].a = row.id
    row.key = 7


def test_tables_are_whole_afterwards(target, g):
    made = morph.Table("made", target, key=i64)
    found(g.points, stops, g, made)
    assert len(made) == 4 and sorted(host(made.key).tolist()) == [0, 7, 7, 7]


# --- races ----------------------------------------------------------------------------------------


@morph.kernel
def write_one(p, g):
    if p.id < 2:
        g.points[3].a = p.id  # write_one


@morph.kernel
def write_and_read(p, g):
    if p.id == 0:
        g.points[3].a = 5  # writes_it
    elif p.id == 1:
        p.big = i32(g.points[3].a)  # reads_it


@morph.kernel
def write_and_add(p, g):
    if p.id == 0:
        g.points[3].v[1] = 5  # sets_it
    elif p.id == 1:
        atomic_add(g.points[3].v[1], 1.0)  # adds_to_it


@morph.kernel
def write_vectors(p, g):
    if p.id == 0:
        g.points[3].v = vector(1.0, 2.0, 3.0)  # sets_all
    elif p.id == 1:
        p.x = g.points[3].v[2]  # reads_one


RACES = [
    (write_one, "points[3].a is written here by points[0] and written", "write_one", "write_one"),
    (write_and_read, "points[3].a is written here by points[0] and read", "writes_it", "reads_it"),
    (
        write_and_add,
        "points[3].v[1] is written here by points[0] and changed",
        "sets_it",
        "adds_to_it",
    ),
    (
        write_vectors,
        "points[3].v[2] is written here by points[0] and read",
        "sets_all",
        "reads_one",
    ),
]


@pytest.mark.parametrize(
    ("kernel", "what", "here", "there"), RACES, ids=lambda x: getattr(x, "__name__", "")
)
def test_each_race(g, kernel, what, here, there):
    error = found(g.points, kernel, g)
    line = line_of(there)
    assert error.problem == f"race: in one step {what} on line {line} by points[1]"
    assert (error.pos.line, error.other.line) == (line_of(here), line)
    if here != there:
        assert str(error).splitlines()[3] == f"{__file__}:{line}:"


@morph.kernel
def three_meet(p, g, reader):
    if p.id == 3:
        g.points[0].a = 1
    elif p.id != reader:
        p.x = f64(g.points[0].a)


@morph.kernel
def reads_then_writes(p, g):
    for t in p.outnbrs:
        p.x += f64(t.a)
    p.a = 1


def test_readers_are_not_forgotten(g):
    """Whichever of several readers is the writer itself, another is known."""
    for reader in (0, 1, 2):
        assert found(g.points, three_meet, g, reader).other is not None
    assert found(g.points, reads_then_writes, g).problem.startswith("race: ")


@morph.kernel
def all_the_same(p, g):
    g.points[0].a = 1  # race: all write the same


@morph.kernel
def declared_before(p, g):
    # race: any of them will do
    g.points[0].a = p.id


@morph.kernel
def without_a_reason(p, g):
    g.points[0].a = 1  # race:


def test_races_are_declared_with_a_reason(g):
    morph.foreach(g.points, all_the_same, g, check=True)
    morph.foreach(g.points, declared_before, g, check=True)
    assert found(g.points, without_a_reason, g).problem.startswith("race: ")


@morph.kernel
def relaxes(p, g):
    for t in p.outnbrs:
        atomic_min(t.a, p.a + 1)


@morph.kernel
def owns_its_places(p, g):
    p.a = 1
    p.v[0] += p.a
    p.a += 1
    mine = g.points.local(4)
    mine.add(p)
    for q in mine:
        q.x = 2


@morph.kernel
def swaps(p, g, made):
    row = made.new(0)
    row.key = p.id
    atomic_exch(p.a, row.id)
    if single(g.points[0]):
        g.points[0].x = 5


def test_what_is_no_race(target, g):
    made = morph.Table("made", target, key=i64)
    with morph.checked():
        morph.foreach(g.points, relaxes, g)
        morph.foreach(g.points, owns_its_places, g)
        morph.foreach(g.points, swaps, g, made)
        morph.foreach(g.points, mine_only)  # another step
    assert sorted(host(made.key).tolist()) == [0, 1, 2, 3]


@morph.kernel
def claims_pairs(p, g):
    pair = g.points.local(8)
    pair.add(p)
    for t in p.nbrs:
        pair.add(t)
        p.x += 0 * t.x  # gathering_reads


@morph.kernel
def takes_all(p, g):
    all_ = g.points.local(8)
    all_.add(p)
    for t in p.nbrs:
        all_.add(t)
    sum_ = i64(0)
    for t in all_:
        sum_ += t.a
    if single(all_):
        for t in all_:
            t.a = sum_ - sum_ + p.id


@morph.kernel
def writes_beside(p, g):
    mine = g.points.local(8)
    mine.add(p)
    if single(mine):
        g.points[3].a = p.id  # writes_beside


def test_claims(g):
    """What was read before the claim may be written after it; but only what was claimed."""
    with team(2):
        morph.foreach(g.points, takes_all, g, check=True)
        error = found(g.points, writes_beside, g)
    assert error.problem.startswith("race: in one step points[3].a is written here by points[")
    assert error.pos.line == line_of("writes_beside")


@morph.kernel
def reads_another_and_claims(r, t):
    mine = t.local(1)
    mine.add(r)
    y = t[len(t) - 1 - r.id].x
    if single(mine):
        r.x, r.y = y + 1, y


@morph.kernel
def marks_itself(r):
    r.x = r.id


def test_steps_after_claims(target):
    """Steps of a launch without claims never have the numbers of the rounds before it."""
    t = morph.Table("t", target, x=i64, y=i64)
    t.extend(8)
    if target != "python":
        scratch(t.device).recount()
    for threads in (1, 2):  # one thread of a CPU has a round for each item
        with team(threads):
            morph.foreach(t, reads_another_and_claims, t, check=True)
            for _ in range(9):
                morph.foreach(t, marks_itself, check=True)


@morph.kernel
def writes_another(r, t):
    t[len(t) - 1 - r.id].x = r.id


@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_steps_after_an_interrupt(where, monkeypatch):
    """A launch that a signal handler has ended does not share its step with the next launch."""
    t = morph.Table("t", where, x=i64, y=i64)
    t.extend(8)

    def interrupt(*_):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(Checks, "end", interrupt)
    with pytest.raises(KeyboardInterrupt):
        morph.foreach(t, writes_another, t, check=True)
    morph.foreach(t, marks_itself, check=True)


def test_rows_that_grow_in_between(target, g):
    """Items that run again, once there is memory, are in the same step as the others."""

    made = morph.Table("made", target, key=i64)
    error = found(g.points, grows_and_writes, g, made)
    assert error.problem.startswith("race: ")


@morph.kernel
def grows_and_writes(p, g, made):
    made.new(p.id)
    g.points[0].a = p.id


@morph.kernel
def all_write(p, g):
    g.points[0].a = p.id
    g.points[1].a = p.id


@morph.kernel
def many_meet(p, g):
    if p.id == 5:
        g.points[0].a = 1
    elif p.id > 1:
        p.x = f64(g.points[0].a)
    else:
        p.x = f64(g.points[1].a)
    if p.id == 3:
        g.points[0].a = 2


def test_every_order_names_the_same_race(target):
    """Of all pairs of items the first, whichever thread was first."""
    g = morph.Graph.from_edges([0], [1], n=300, device=target)
    g.points.add("a", i64), g.points.add("x", f64)
    both = set()
    for way in [team(1), team(2), team(4), *map(item_order, range(8))]:
        with way:
            both.add(tuple(found(g.points, k, g).problem for k in (all_write, many_meet)))
    ((writers, readers),) = both
    assert "points[0].a is written here by points[0] and written on line" in writers
    assert writers.endswith("by points[1]")
    assert "points[0].a is read here by points[2] and written on line" in readers
    assert readers.endswith("by points[3]")


# --- how it is switched on -----------------------------------------------------------------------


@morph.program
def runs_far(g):
    morph.foreach(g.points, mine_only)
    morph.foreach(g.points, writes_far, g)


@morph.func
def beyond(x, y):
    c = local(i64, 2)
    return x + y + c.pop()  # beyond


def test_programs_and_reductions(g):
    with morph.checked():
        with pytest.raises(morph.CheckError, match="row 1000000000"):
            runs_far(g)
        with pytest.raises(morph.CheckError, match="row 1000000000"):
            runs_far.alone(g)
        with pytest.raises(morph.CheckError, match="empty local collection") as caught:
            morph.reduce(g.points.a, beyond)
    assert caught.value.pos.line == line_of("beyond")
    assert host(g.points.a).tolist() == [0, 1, 2, 3]


def test_check_is_true_or_false(g):
    with pytest.raises(TypeError, match="check is True or False, not 'no'"):
        morph.foreach(g.points, all_the_same_undeclared, g, check="no")
    with pytest.raises(TypeError, match="on is True or False, not 'no'"), morph.checked("no"):
        pass


def test_blocks_nest_and_belong_to_a_thread(g):
    def quiet():
        morph.foreach(g.points, all_the_same_undeclared, g)

    with morph.checked():
        with morph.checked(False):
            quiet()
        with pytest.raises(morph.CheckError), morph.checked():
            quiet()
        with pytest.raises(morph.CheckError):
            quiet()
        morph.foreach(g.points, all_the_same_undeclared, g, check=False)
        errors = []
        other = threading.Thread(target=lambda: errors.append(quiet()))
        other.start(), other.join()
        assert errors == [None] or os.environ.get("MORPH_CHECK")
    with morph.checked(False):
        quiet()


@morph.kernel
def all_the_same_undeclared(p, g):
    g.points[0].a = 1


@pytest.mark.parametrize(("value", "wanted"), [("1", "CheckError"), ("0", "done"), ("", "done")])
def test_the_environment(tmp_path, value, wanted):
    script = tmp_path / "script.py"
    script.write_text(
        "import morph\n"
        "@morph.kernel\n"
        "def all_write(r, t):\n"
        "    t[0].x = 1.0\n"
        "t = morph.Table('t', 'python', x=float)\n"
        "t.extend(3)\n"
        "morph.foreach(t, all_write, t)\n"
        "print('done')\n"
    )
    env = os.environ | {"MORPH_CHECK": value}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=env)
    assert done.stdout == ("done\n" if wanted == "done" else "")
    assert ("CheckError" in done.stderr) == (wanted == "CheckError")


# --- what it costs when it is off, and what it says of sound programs ----------------------------


@pytest.mark.parametrize("make", [units.relax, units.claim], ids=lambda f: f.__name__)
def test_off_it_leaves_no_trace(make):
    unit = make()
    assert "check" not in source(unit) and "step;" not in source(unit)
    assert not {"check", "shadow", "deaths"} & {f.kind for f in abi.fields(unit)}
    assert "check_get" not in prelude()


def test_a_kernel_has_both_texts(g):
    with morph.checked(False):
        morph.foreach(g.points, mine_only)
        before = mine_only.source() if g.device.kind != "python" else ""
        morph.foreach(g.points, mine_only, check=True)
        morph.Table("t", g.device)  # so that the launch is looked up again
        morph.foreach(g.points, mine_only)
        launches = list(mine_only.launches.values())
    if before:
        texts = {x.compiled.text for x in launches}
        assert before in texts and "check_set" not in before
        assert any("check_set" in text for text in texts)


@pytest.mark.parametrize("both", [False, True])
@tries(6)
@given(edge_lists(most=12))
def test_algorithms_are_clean(target, both, edges):
    """No algorithm breaks a rule, and checked it gives what it gives."""
    g = graph_of(edges, target, directed=not both)

    def run():
        results = [f(g) for f in (morph.sssp, morph.connected_components, morph.mst)]
        # of the predecessors that a breadth-first search may give, any is right
        results += [morph.bfs(g).distance, morph.core_number(g), morph.triangle_count(g)]
        return [host(x) for r in results for x in (r if isinstance(r, tuple) else (r,))]

    with morph.checked(False):
        wanted = run()
    with morph.checked():
        for have, want in zip(run(), wanted, strict=True):
            assert np.array_equal(have, want)


@pytest.mark.nvrtc
def test_checked_units_compile_for_a_gpu(monkeypatch):
    seen = []
    load = Compiled.binary
    monkeypatch.setattr(Compiled, "binary", lambda c, *args: (seen.append(c), load(c, *args))[1])
    monkeypatch.setattr(binding, "_compiled", {})
    g = morph.Graph.from_edges([0, 0, 1, 2], [1, 2, 3, 3], weight=[5, 1, 1, 9], symmetrize=True)
    g.points.add("a", i64)
    for k in (takes_all, all_the_same):
        k.launches.clear()
        morph.foreach(g.points, k, g, check=True)
    with morph.checked():
        morph.connected_components(g), morph.mst(g)
        morph.DynamicSSSP(g).apply(deletes=[0])
    texts = {c.text: c.unit for c in seen if c.unit.checked}
    assert len(texts) > 8
    for text, unit in texts.items():
        assert sm90.Ptx.of(prelude(True) + text, entry(unit)).has_entry
    text, unit = max(texts.items())
    assert sm90.compile_one(prelude(True) + text, entry(unit))[:4] == b"\x7fELF"
