"""The source text of a kernel, and texts edited by hand."""

import traceback

import pytest
from small import rows, values

import morph
from morph import Graph
from morph.data.collection import Flag
from morph.launch.foreach import foreach, kernel, program
from morph.prelude import i64
from morph.runtime.toolchain import BuildError

compiled = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


@kernel
def five(p, flag):
    p.a = 5


@program
def fives(t, flag):
    foreach(t, five, flag)


@kernel
def wrong(p):
    p.a = p.nothing


@compiled
@pytest.mark.parametrize(
    "what",
    [five, pytest.param(fives, marks=pytest.mark.unchecked)],  # a checked program has no text
)
def test_an_edited_text_runs_wherever_the_kernel_does(device, what):
    t = rows(device, 2, a=i64)
    flags = [Flag(t), Flag(t), Flag(t)]

    def run(flag):
        t.a[:] = 0
        what(t, flag) if what is fives else foreach(t, five, flag)
        return values(t, "a")

    assert run(flags[0]) == run(flags[1]) == [5, 5]
    text = what.source()
    assert "#line" in text and text == what.source("cuda") and text.count("i64(5)") == 1
    what.edit(text.replace("i64(5)", "i64(6)"))
    assert [run(f) for f in flags] == [[6, 6]] * 3  # bound before, and bound now
    with pytest.raises(BuildError, match="oops"):
        what.edit(text.replace("i64(5)", "oops"))
    assert run(flags[0]) == [6, 6] and "i64(6)" in what.source()
    what.edit(text)
    assert run(Flag(t)) == [5, 5]


def test_a_kernel_that_never_ran_has_no_source():
    with pytest.raises(ValueError, match="wrong has not been launched yet"):
        wrong.source()
    with pytest.raises(ValueError, match="target is 'cpu' or 'cuda', not 'rocm'"):
        wrong.source("rocm")


def test_a_rejection_shows_the_users_frames_and_not_the_compilers(target):
    with pytest.raises(morph.LanguageError) as caught:
        foreach(rows(target, a=i64), wrong)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert not [f for f in frames if "/morph/compiler/" in f.filename] and len(frames) < 5


def test_graphs_of_a_users_class_are_distinguished():
    class Mine(Graph):
        __slots__ = ()

    @kernel
    def mark(p, g):
        g.points[0].x = 5

    graphs = [Mine("cpu") for _ in range(2)]
    for g in graphs:
        g.points.add("x", i64)
        g.points.extend(1)
        foreach(g.points, mark, g)
    assert [g.points.x[0] for g in graphs] == [5, 5]
