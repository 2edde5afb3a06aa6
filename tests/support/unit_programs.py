"""Programs built by hand: loops over levels, swapped worklists, steps that fail."""

from units import (
    EDGES,
    FLAG,
    POINTS,
    Lines,
    P,
    assign,
    atomic,
    block,
    collection,
    const,
    edges,
    foreach,
    kernel,
    less,
    load,
    new,
    op,
    place,
    push,
    raised,
    reserve,
    run,
    unit,
    var,
    when,
    write,
)

from morph.compiler.ir import nodes as ir
from morph.language.types import BOOL, I32, I64, Handle


def bfs_flag():
    """Levels until nothing changes: while changed.take(): foreach(points, visit)."""
    Lines.line = 0
    p, t = var("p", P), var("t", P)
    next_level = op("+", var("level"), const(1))
    visit = kernel(
        "visit",
        [("p", P), ("level", I32)],
        [
            when(
                less(load("g.points", "dist", p), var("level"), "=="),
                edges(
                    p,
                    "e",
                    "t",
                    run(atomic("min", place("g.points", "dist", t), next_level, flag="changed")),
                ),
            )
        ],
        [("e", Handle("g.edges")), ("t", P)],
    )
    source = var("source", P)
    blocks = (
        block(
            assign("level", var("first")),
            new(
                ir.OneThread, body=(write("g.points", "dist", source, const(0)), raised("changed"))
            ),
            goto=1,
        ),
        block(new(ir.TakeFlag, var="more", slot="changed"), cond=var("more", BOOL), goto=2),
        block(
            foreach("g.points", "visit", var("level")),
            assign("level", op("+", var("level"), const(1))),
            goto=1,
        ),
    )
    return unit(
        "levels",
        (POINTS, EDGES, FLAG),
        (visit,),
        blocks,
        [("source", I32), ("first", I32)],
        [("level", I32), ("more", BOOL)],
        fused=True,
    )


def bfs_worklists():
    """Two collections, swapped: while len(now): foreach(now, expand); now, then = then, now."""
    Lines.line = 0
    p, t = var("p", P), var("t", P)

    def expand(then):
        place_ = place("g.points", "dist", t)
        return kernel(
            f"expand_{then}",
            [("p", P), ("level", I32)],
            [
                reserve(
                    **{
                        then: new(
                            ir.Cast,
                            x=new(ir.Degree, graph="g", point=p, direction="out", type=I32),
                            type=I64,
                        )
                    }
                ),
                edges(
                    p,
                    "e",
                    "t",
                    assign("old", atomic("min", place_, op("+", var("level"), const(1)))),
                    when(less(var("level"), op("-", var("old"), const(1))), push(then, item=t)),
                ),
            ],
            [("e", Handle("g.edges")), ("t", P), ("old", I32)],
        )

    def half(now, then, goto):
        size = new(ir.StoreSize, slot=now, type=I64)
        return (
            block(cond=less(size, const(0, I64), ">"), goto=goto),
            block(
                foreach(now, f"expand_{then}", var("level")),
                new(ir.Clear, slot=now),
                assign("level", op("+", var("level"), const(1))),
                goto=(goto + 1) % 4,
            ),
        )

    blocks = (*half("now", "then", 1), *half("then", "now", 3))
    return unit(
        "expand",
        (POINTS, EDGES, collection("now"), collection("then")),
        (expand("then"), expand("now")),
        blocks,
        (),
        [("level", I32)],
        fused=True,
    )


def steps():
    """Three times: add every point to `left`, then to `right`; one item a step gets point 0."""
    Lines.line = 0
    p, none = var("p", P), const(0, P)

    def add(slot):
        body = [
            reserve(**{slot: const(1, I64)}),
            push(slot, item=p),
            assign("mine", new(ir.Lock, slot="g.points", row=none, type=BOOL)),
            when(var("mine", BOOL), run(atomic("add", place("g.points", "hits", none), const(1)))),
        ]
        return kernel(f"add_{slot}", [("p", P)], body, [("mine", BOOL)])

    count = op("+", var("n"), const(1))
    mark = run(atomic("add", place("g.points", "dist", none), const(1)))
    blocks = (
        block(
            assign("n", count),
            foreach("g.points", "add_left"),
            new(ir.OneThread, body=(mark,)),
            foreach("g.points", "add_right"),
            cond=less(var("n"), const(3)),
            goto=0,
            orelse=1,
        ),
        block(assign("end", load("g.points", "dist", none))),
    )
    return unit(
        "steps",
        (POINTS, collection("left"), collection("right")),
        (add("left"), add("right")),
        blocks,
        (),
        [("n", I32), ("end", I32)],
        fused=True,
        graph=False,
    )


ALL = {"bfs_flag": bfs_flag, "bfs_worklists": bfs_worklists, "steps": steps}
