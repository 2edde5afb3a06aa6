"""Merging of the blocks of programs."""

from __future__ import annotations

import numpy as np
import pytest
from targets import host

import morph
from morph.compiler.codegen.unit import source
from morph.prelude import f64, i64


@morph.kernel
def raise_by(p, step):
    p.x += step


@morph.program
def add_steps(g, step, times):
    done = 0
    while done < times:
        morph.foreach(g.points, raise_by, step)
        done += 1
    return done


@morph.program
def add_twice(g, step, times):
    first = add_steps(g, step, times)
    again = times
    second = add_steps(g, step + first, again)
    return first * 100 + second


@morph.program
def swap_in_loop(g, step, times):
    """A variable assigned in a loop is no copy, and neither is one of two values."""
    before, last = i64(0), step
    while times > 0:
        morph.foreach(g.points, raise_by, last)
        before = last
        last = before + step
        times -= 1
    return before


def graph(device):
    g = morph.Graph.from_edges([0, 1], [1, 2], device=device)
    g.points.add("x", i64)
    return g


def test_inlined_calls_get_their_own_arguments(target):
    g = graph(target)
    assert add_twice(g, 3, 2) == 202
    np.testing.assert_array_equal(host(g.points.x), [16, 16, 16])  # 2 * 3 + 2 * (3 + 2)
    assert add_twice(g, 1, 0) == 0


def test_variables_that_change_in_a_loop(target):
    g = graph(target)
    assert swap_in_loop(g, 2, 3) == 6
    np.testing.assert_array_equal(host(g.points.x), [12, 12, 12])  # 2 + 4 + 6


@pytest.mark.unchecked  # else it is run launch by launch
def test_arguments_of_inlined_calls_are_not_copied():
    g = graph("cpu")
    add_twice(g, 3, 2)
    unit = next(iter(add_twice.launches.values())).compiled.unit
    assert not any(name.startswith(("g", "times")) for name, _ in unit.state), unit.state
    assert len(unit.blocks) <= 7 and "morph_add_twice" in source(unit)


@pytest.mark.parametrize("times", [0, 3])
def test_programs_and_eager_runs_agree(times):
    one, other = graph("cpu"), graph("cpu")
    assert swap_in_loop(one, 2, times) == swap_in_loop.eager(other, 2, times)
    np.testing.assert_array_equal(host(one.points.x), host(other.points.x))


@morph.program
def sign_of_zero(g, x):
    if x > 1:
        y = 0.0
    else:
        y = -0.0
    g.points[0].y = y
    return y


def test_zeros_of_two_signs_are_two_values(target):
    g = graph(target)
    g.points.add("y", f64)
    for run in (sign_of_zero, sign_of_zero.eager):
        assert not np.signbit(run(g, 3)) and not np.signbit(host(g.points.y)[0])
        assert np.signbit(run(g, 0)) and np.signbit(host(g.points.y)[0])
