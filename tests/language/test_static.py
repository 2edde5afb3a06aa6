"""Parameters that are compile-time constants, on every target."""

from __future__ import annotations

import pytest
from small import points, values
from targets import everywhere

import morph
import morph.prelude
from morph.language.errors import LanguageError
from morph.prelude import atomic_add, f32, f64, i64, local, static, vector
from morph.prelude import static as fixed

ROUNDS = 2


@morph.func
def power(x, n: static):
    return x**n


@morph.kernel
def walk(p, backwards: static, width: static, add):
    found = local(i64, width)
    if backwards:
        for t in p.innbrs:
            found.add(t.id)
    else:
        for t in p.outnbrs:
            found.add(t.id)
        p.only = 1.0
    for x in found:
        p.sum += power(x, 2) + add
    p.shape = vector(f64, 3)[width % 3] + width


def test_a_value_is_compiled_in(target):
    def run():
        g = points(target, sum=i64, only=f64, shape=f64)
        for backwards, width, add in [(False, 4, 1), (True, 5, 1), (False, 4, 10)]:
            morph.foreach(g.points, walk, backwards, width, add)
        return [values(g.points, name) for name in ("sum", "only", "shape")]

    outs, ins = [[1, 2], [2], [3], [0]], [[3], [0], [0, 1], [2]]
    want = [2 * sum(x * x for x in o) + 11 * len(o) for o in outs]
    want = [w + sum(x * x + 1 for x in i) for w, i in zip(want, ins, strict=True)]
    assert all(found == [want, [1.0] * 4, [4.0] * 4] for found in everywhere(target, run))


def test_a_branch_that_is_not_taken_is_not_compiled():
    g = points("cpu", sum=i64, only=f64, shape=f64)
    morph.foreach(g.points, walk, True, 4, 0)
    assert "only" not in walk.source() and "Local<i64, 4>" in walk.source()
    morph.foreach(g.points, walk, False, 8, 0)
    assert "only" in walk.source() and "Local<i64, 8>" in walk.source()
    known = len(walk.launches)
    morph.foreach(g.points, walk, False, 8, 1)  # the last one is no static parameter
    assert len(walk.launches) == known


@morph.program
def both_ways(g, n):
    while n > 0:
        morph.foreach(g.points, walk, True, ROUNDS + 2, n)
        morph.foreach(g.points, walk, False, 4, 0, where=lambda p: p.id > 0)
        n -= 1


def test_a_program_passes_constants(target):
    for run in (both_ways, both_ways.eager):
        g = points(target, sum=i64, only=f64, shape=f64)
        run(g, 2)
        outs, ins = [[], [2], [3], [0]], [[3], [0], [0, 1], [2]]
        want = [2 * sum(x * x for x in o + i) + 3 * len(i) for o, i in zip(outs, ins, strict=True)]
        assert values(g.points, "sum") == want


@morph.kernel
def scale(p, factor: static):
    p.only = f32(2.0) * factor
    atomic_add(p.sum, power(p.id, 3))


def test_values_differ_by_type_and_sign(target):
    g = points(target, sum=i64, only=f64)
    for factor, want in [(1, 2.0), (0.0, 0.0), (-0.0, -0.0), (0.5, 1.0), (f32(0.1), 2 * f32(0.1))]:
        morph.foreach(g.points, scale, factor)
        assert repr(values(g.points, "only")[0]) == repr(float(want))


@morph.kernel
def varies(p):
    p.sum = power(p.id, p.id)


@morph.kernel
def assigns(p, n: static):
    n = 3
    p.sum = n


@morph.program
def passes_a_variable(g, n):
    while n > 0:
        morph.foreach(g.points, scale, n)
        n -= 1


def test_what_is_no_constant_is_refused(target):
    g = points(target, sum=i64, only=f64)
    for call in (
        lambda: morph.foreach(g.points, varies),
        lambda: passes_a_variable(g, 2),
    ):
        with pytest.raises(LanguageError, match="is static, and this is no constant"):
            call()
    with pytest.raises(LanguageError, match="'n' is .* and cannot be assigned"):
        morph.foreach(g.points, assigns, 2)
    with pytest.raises(TypeError, match="argument 'factor' is a str; a static"):
        morph.foreach(g.points, scale, "2")


@morph.kernel
def of_other_names(p, width: fixed, n: morph.prelude.static):
    found = local(i64, width)
    found.add(vector(i64, n)[0])
    p.sum = found.size + n


@morph.func
def itself(p: static):
    return p.id > 0


def test_static_by_other_names(target):
    g = points(target, sum=i64)
    for n in (2, 3):
        morph.foreach(g.points, of_other_names, 4, n)
        assert values(g.points, "sum") == [n + 1] * 4


def test_no_item_is_static(target):
    g = points(target, sum=i64, only=f64)
    with pytest.raises(LanguageError, match="'p' is static, and this is no constant"):
        morph.foreach(g.points, scale, 1, where=itself)


@morph.program
def scale_points(g, times, factor: static):
    while times > 0:
        times -= 1
        if factor > 0:
            morph.foreach(g.points, scale, factor)


def test_static_parameters_of_programs(target):
    for factor in (2, -1, 3):
        g = points(target, sum=i64, only=f64)
        scale_points(g, 1, factor)
        wanted = points(target, sum=i64, only=f64)
        if factor > 0:
            morph.foreach(wanted.points, scale, factor)
        assert values(g.points, "only") == values(wanted.points, "only")
    with pytest.raises(TypeError, match="argument 'factor' is a str; a static"):
        scale_points(g, 1, "2")
