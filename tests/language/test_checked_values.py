"""The checked mode: computed indices, items after a violation, ends of edges."""

from __future__ import annotations

from functools import partial

import pytest
import violations
from targets import host
from violations import found

import morph
from morph.prelude import i32, i64, local, struct, vector

line_of = partial(violations.line_of, __file__)


@pytest.fixture
def g(target):
    return violations.graph(target)


@struct
class Pair:
    i: i32
    hash: i32


@morph.func
def pair_of(x):
    return Pair(x * x, 0)  # in_a_struct


@morph.func
def both_of(x):
    return x, x * x  # in_a_tuple


@morph.func
def puts(c, x):
    c.add(x * x)  # in_a_list


@morph.func
def uses(s, g):
    if s.i == 7:
        g.points[s.i].a = 1


@morph.kernel
def parts(p, g, way):
    i = 7
    c = local(i32, 4)
    if way == 0:
        i = i64(-(p.big * p.big))  # negated
    elif way == 1:
        i = abs(p.far * p.far * p.far)  # absolute
    elif way == 2:
        i = -(p.far << 23)  # least
    elif way == 3:
        i = abs(p.far << 23)  # least_abs
    elif way == 4:
        i = i64(p.big * p.big | 1)  # joined
    elif way == 5:
        uses(pair_of(p.big), g)
    elif way == 6:
        s = Pair(0, 0)
        s.i = p.big * p.big  # field
        i = i64(s.i)
    elif way == 7:
        _, x = both_of(p.big)
        i = i64(x)
    elif way == 8:
        v = vector(p.big, 1) * p.big  # in_a_vector
        i = i64(v[0])
    elif way == 9:
        puts(c, p.big)
        i = i64(c.pop())
    elif way == 10:
        puts(c, p.big)
        for x in c:
            i = i64(x)
    if i == 7 and way >= 0:
        g.points[i - 7 + p.id].a = 1


PARTS = """negated absolute least least_abs joined in_a_struct field in_a_tuple in_a_vector
    in_a_list in_a_list""".split()


@pytest.mark.parametrize(("way", "mark"), [*enumerate(PARTS)])
def test_overflows_in_parts_of_values(target, g, way, mark):
    g.points.far[:] = -(2**40)
    error = found(g.points, parts, g, way)
    assert error.pos.line == line_of(mark)
    text = "70000 * 70000 overflows i32"
    texts = {"absolute": f"{-(2**40)} * {-(2**40)} overflows i64"}
    texts["least"] = f"-({-(2**63)}) overflows i64"
    texts["least_abs"] = f"abs({-(2**63)}) overflows i64"
    assert error.problem == f"{texts.get(mark, text)}, and is used as an index (item points[0])"


@morph.kernel
def hashes_beside(p, g):
    s = Pair(i32(p.id), i32(p.id) + 1)
    s.hash *= 1640531527
    s.hash = s.hash * s.hash
    g.points[s.i].a = s.hash


def test_another_field_may_wrap(g):
    morph.foreach(g.points, hashes_beside, g, check=True)


@morph.kernel
def allocates_nothing(p, g, made, some, way):
    c = local(i64, 4)
    c.add(1)
    if way == 0:
        made.add(g.points[g.points[9].a])
    elif way == 1:
        for _ in range(2 + g.points[9].a):
            made.add(p)
    elif way == 2:
        for q in g.points[g.points[9].a :]:
            made.add(q)
    elif way == 3:
        for _ in c[g.points[9].a :]:
            made.add(p)
    elif way == 4:
        for t in p.outnbrs[g.points[9].a :]:
            made.add(t)
    else:
        c.add(g.points[9].a)
        some.set()


@morph.kernel
def makes_nothing(p, g):
    g.points.new(a=g.points[9].a)


@pytest.mark.parametrize("way", range(6))
def test_an_item_does_nothing_after_its_violation(g, way):
    made, some = morph.Collection(g.points), morph.Flag(g)
    error = found(g.points, allocates_nothing, g, made, some, way)
    assert error.problem == "row 9 of points does not exist: there are 4 rows (item points[0])"
    assert len(made) == 0 and not some.raised
    error = found(g.points, makes_nothing, g)
    assert error.problem == "row 9 of points does not exist: there are 4 rows (item points[0])"
    assert len(g.points) == 4


@morph.kernel
def adds_twice(p, g, made):
    made.add(p)
    made.add(p)
    if p.id == 7 or p.id == 4990:
        g.points[-3].a = 1


def test_items_that_wait_for_memory_run_after_a_violation(target):
    g = morph.Graph.from_edges([0], [1], n=5000, device=target)
    g.points.add("a", i64)
    made = morph.Collection(g.points)
    assert found(g.points, adds_twice, g, made).problem.endswith("(item points[7])")
    assert len(made) == 10000


@morph.kernel
def counts_what_it_guards(p, g, made, limit):
    v = vector(0, 1, 2, 1)
    c = local(i64, 4)
    i = p.far
    q = g.points[p.id + 2**30]
    p.a = 1
    if i < limit:
        for _ in range(v[i]):
            made.add(p)
        for t in q.outnbrs:
            made.add(t)
        for t in g.points[i + 1].next.next.outnbrs:
            made.add(t)
        for _ in range(i32(p.v[i])):
            made.add(p)
        for _ in range(c[i]):
            made.add(p)


@pytest.mark.parametrize("check", [False, True])
def test_a_reservation_reads_only_what_exists(g, check):
    """Reservation is reserved before the condition is known under which rows and indices exist."""
    made = morph.Collection(g.points)
    morph.foreach(g.points, counts_what_it_guards, g, made, 1, check=check)
    assert len(made) == 0 and host(g.points.a).tolist() == [1] * 4


def test_long_names(target):
    t = morph.Table("t" * 150, target, a=i64)
    t.extend(3)
    for kernel, text in ((far_in_all, "row 100 of ttt"), (all_in_all, "race: in one step ttt")):
        problem = found(t, kernel, t).problem
        assert problem.startswith(text) and "...[0]" in problem


@morph.kernel
def far_in_all(r, t):
    t[100].a = 1


@morph.kernel
def all_in_all(r, t):
    t[0].a = 1


@morph.kernel
def moves_an_end(p, g, way):
    if p.id == 0:
        g.edges[3].dst = g.points[1]  # moves_dst
        g.edges[3].src = g.points[1]  # moves_src
    elif p.id == 2 and way == 0:
        for t in p.outnbrs:  # loops_out
            p.a = t.id
    elif p.id == 2 and way == 1:
        if g.edge(p, g.points[3]) is None:  # finds
            p.a = 1
    elif p.id == 3 and way == 2:
        for t in p.innbrs:  # loops_in
            p.a = t.id
    elif p.id == 3 and way == 3:
        for t in p.nbrs:  # loops_all
            p.a = t.id


@pytest.mark.parametrize(
    ("way", "column", "there"),
    [(0, "dst", "loops_out"), (1, "dst", "finds"), (2, "src", "loops_in"), (3, "src", "loops_all")],
)
def test_neighbours_are_read_from_the_ends_of_edges(g, way, column, there):
    error = found(g.points, moves_an_end, g, way)
    assert f"edges[3].{column} is written here by points[0] and read on line" in error.problem
    assert error.other.line == line_of(there)


def test_the_ends_of_other_edges_are_no_race(g):
    morph.foreach(g.points, moves_an_end, g, 4, check=True)
    morph.foreach(g.points, owns_its_edges, check=True)


@morph.kernel
def owns_its_edges(p):
    for e in p.outedges:
        e.weight = 1
    for t in p.outnbrs:
        p.a += t.id
