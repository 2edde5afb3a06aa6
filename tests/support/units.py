"""Units built by hand, one for each construct of the back end; no front end is involved."""

from morph.compiler.ir import nodes as ir
from morph.language.types import (
    BOOL,
    F32,
    I32,
    I64,
    NOTHING,
    U8,
    Column,
    GraphInfo,
    Handle,
    Local,
    Object,
    Store,
)

FILE = "user.py"
P = Handle("g.points")


class Lines:
    """Counts the user's lines, so that each statement has its own."""

    line = 0


def at():
    Lines.line += 1
    return ir.Pos(FILE, Lines.line, 0, 1)


def new(cls, **fields):
    return cls(pos=at(), **fields)


def const(value, t=I32):
    return new(ir.Const, value=value, type=t)


def var(name, t=I32):
    return new(ir.Var, name=name, type=t)


def op(sign, x, y, t=None):
    return new(ir.Binary, op=sign, x=x, y=y, type=t or x.type)


def less(x, y, sign="<"):
    return new(ir.Compare, op=sign, x=x, y=y, type=BOOL)


def place(slot, column, row, t=I32, index=None):
    return new(ir.Place, slot=slot, column=column, row=row, index=index, type=t)


def load(slot, column, row, t=I32, index=None):
    return new(ir.Load, place=place(slot, column, row, t, index), type=t)


def write(slot, column, row, value, index=None):
    return new(ir.Write, place=place(slot, column, row, value.type, index), value=value)


def assign(name, value):
    return new(ir.Assign, name=name, value=value)


def run(value):
    return new(ir.Eval, value=value)


def atomic(how, where, *args, flag=None):
    return new(ir.Atomic, op=how, place=where, args=args, flag=flag, type=where.type)


def when(cond, *then, orelse=()):
    return new(ir.If, cond=cond, then=then, orelse=tuple(orelse))


def raised(slot, value=True):
    return run(new(ir.FlagSet, slot=slot, value=value, type=NOTHING))


def reserve(**needs):
    listed = tuple(new(ir.Need, slot=s.replace("__", "."), count=c) for s, c in needs.items())
    return new(ir.Reserve, needs=listed)


def push(slot, **values):
    return run(new(ir.Add, slot=slot, values=tuple(values.items()), type=NOTHING))


def edges(point, edge, other, *body, direction="out", start=None, reverse=False, skip=None):
    return new(
        ir.ForEdges,
        graph="g",
        point=point,
        direction=direction,
        edge=edge,
        var=other,
        start=start,
        reverse=reverse,
        skip=skip,
        body=body,
    )


def kernel(name, params, body, locals_=(), **more):
    return new(
        ir.Kernel,
        name=name,
        params=tuple(params),
        result=NOTHING,
        locals=tuple(locals_),
        body=tuple(body),
        **more,
    )


def func(name, params, result, body, locals_=()):
    return new(
        ir.Func,
        name=name,
        params=tuple(params),
        result=result,
        locals=tuple(locals_),
        body=tuple(body),
    )


def foreach(slot, name, *args, where_args=()):
    return new(ir.Foreach, slot=slot, kernel=name, args=args, where_args=where_args)


def block(*steps, cond=None, goto=-1, orelse=-1):
    return new(ir.Block, steps=steps, cond=cond, goto=goto, orelse=orelse)


def column(name, t, size=0, ref=None, stride=None):
    return Column(name, t, size, ref, stride or max(size, 1) * t.bits // 8)


def table(slot, *columns, deletes=False):
    return Store(slot, "table", columns, deletes=deletes)


def collection(slot, *columns, of="g.points"):
    return Store(slot, "collection", columns or (column("item", I32, ref=of),), of=of)


POINTS = table("g.points", column("dist", I32), column("hits", I32), column("mark", U8))
EDGES = table(
    "g.edges",
    column("src", I32, ref="g.points"),
    column("dst", I32, ref="g.points"),
    column("weight", I32),
)
GRAPH = GraphInfo("g", (("points", "g.points"), ("edges", "g.edges")), True, True)
FLAG = Store("changed", "flag")


def unit(name, stores, funcs, blocks, scalars=(), state=(), fused=False, graph=True):
    return new(
        ir.Unit,
        name=f"morph_{name}",
        stores=tuple(stores),
        graphs=(GRAPH,) if graph else (),
        scalars=tuple(scalars),
        funcs=tuple(funcs),
        state=tuple(state),
        blocks=tuple(blocks),
        fused=fused,
    )


def one(name, stores, funcs, step, scalars=(), graph=True):
    Lines.line = 0
    return unit(name, stores, funcs, (block(step),), scalars, graph=graph)


# --- the units --------------------------------------------------------------------------------


def relax():
    """Figure 40 of the Falcon paper: relax the out-edges of points that changed."""
    Lines.line = 0
    p, t, e = var("p", P), var("t", P), var("e", Handle("g.edges"))
    distance = op("+", load("g.points", "dist", p), load("g.edges", "weight", e))
    body = [
        write("g.points", "mark", p, const(0, U8)),
        edges(
            p, "e", "t", run(atomic("min", place("g.points", "dist", t), distance, flag="changed"))
        ),
    ]
    test = less(load("g.points", "mark", var("p", P), U8), const(0, U8), "!=")
    where = func("marked", [("p", P)], BOOL, [new(ir.Return, value=test)])
    k = kernel(
        "relax",
        [("p", P), ("changed", Object("flag", "changed"))],
        body,
        [("e", Handle("g.edges")), ("t", P)],
        where="marked",
    )
    return unit("relax", (POINTS, EDGES, FLAG), (where, k), (block(foreach("g.points", "relax")),))


ROWS = table("rows", column("key", I32), column("pair", F32, 2), column("left", I32), deletes=True)


def split(most=2):
    """Each row makes `left` rows with its key plus 100, 200..., deletes itself if `left` is odd."""
    t, row = Handle("rows"), var("r", Handle("rows"))
    left = load("rows", "left", row)
    body = [
        assign("n", left),
        assign("key", load("rows", "key", row)),
        reserve(rows=const(most, I64)),
        new(
            ir.ForRange,
            var="i",
            start=const(0, I64),
            stop=new(ir.Cast, x=var("n"), type=I64),
            step=1,
            body=(
                assign(
                    "made",
                    new(
                        ir.New,
                        slot="rows",
                        type=t,
                        values=(
                            (
                                "key",
                                op(
                                    "+",
                                    var("key"),
                                    op(
                                        "*",
                                        const(100),
                                        op("+", new(ir.Cast, x=var("i", I64), type=I32), const(1)),
                                    ),
                                ),
                            ),
                        ),
                    ),
                ),
                write("rows", "pair", var("made", t), const(0.5, F32), index=const(1)),
            ),
        ),
        when(
            less(op("%", var("n"), const(2)), const(1), "=="),
            run(new(ir.Delete, slot="rows", row=row, type=NOTHING)),
        ),
    ]
    k = kernel("split", [("r", t)], body, [("n", I32), ("key", I32), ("i", I64), ("made", t)])
    return one("split", (ROWS,), (k,), foreach("rows", "split"), graph=False)


def worklist():
    """Take from one collection, add to another what is even, twice."""
    item = Handle("g.points")
    work, rest = (
        collection("work"),
        collection("rest", column("item", I32, ref="g.points"), column("by", F32)),
    )
    body = [
        reserve(rest=const(2, I64)),
        assign("x", new(ir.Take, slot="work", type=item)),
        when(
            less(var("x", item), const(0, item), ">="),
            when(
                less(op("%", new(ir.Cast, x=var("x", item), type=I32), const(2)), const(0), "=="),
                push("rest", item=var("x", item), by=const(1.5, F32)),
                orelse=[push("rest", item=var("x", item), by=const(2.5, F32))],
            ),
        ),
    ]
    k = kernel("drain", [("p", P)], body, [("x", item)])
    return one("drain", (POINTS, work, rest), (k,), foreach("g.points", "drain"), graph=False)


def components():
    """Union the ends of every edge; count how often it joined anything."""
    e = var("e", Handle("g.edges"))
    u, v = load("g.edges", "src", e, P), load("g.edges", "dst", e, P)
    body = [
        assign("joined", new(ir.SetUnion, slot="set", x=u, y=v, type=BOOL)),
        when(
            var("joined", BOOL),
            run(atomic("add", place("g.points", "hits", const(0, P)), const(1))),
        ),
    ]
    k = kernel("join", [("e", Handle("g.edges"))], body, [("joined", BOOL)])
    stores = (POINTS, EDGES, Store("set", "set", of="g.points"))
    return one("join", stores, (k,), foreach("g.edges", "join"), graph=False)


def locks():
    """Of all edges into a point, one gets its lock, and one its mark."""
    e = var("e", Handle("g.edges"))
    p = load("g.edges", "dst", e, P)
    body = [
        assign("first", new(ir.Lock, slot="g.points", row=p, type=BOOL)),
        when(var("first", BOOL), run(atomic("add", place("g.points", "hits", p), const(1)))),
        assign("first", new(ir.LockPlace, place=place("g.points", "mark", p, U8), type=BOOL)),
        when(var("first", BOOL), run(atomic("add", place("g.points", "dist", p), const(1)))),
    ]
    k = kernel("lock", [("e", Handle("g.edges"))], body, [("first", BOOL)])
    return one("lock", (POINTS, EDGES), (k,), foreach("g.edges", "lock"), graph=False)


def claim(capacity=8, guard=False, again=True):
    """Each item claims its point and its neighbours, and increments them without atomics."""
    cells = Local(P, capacity)
    p, t = var("p", P), var("t", P)

    def add(name, x):
        return run(new(ir.LocalAdd, name=name, value=x, type=NOTHING))

    body = [
        assign("cells", new(ir.MakeLocal, type=cells)),
        assign("ring", new(ir.MakeLocal, type=cells)),
        add("cells", p),
        edges(p, "e", "t", add("ring" if guard else "cells", t)),
        new(ir.Claim, items="cells", guard="ring" if guard else None, priority=const(3)),
    ]
    one_more = op("+", load("g.points", "hits", var("q", P)), const(1))
    commit = [
        reserve(log=const(1, I64)),
        new(
            ir.ForItems,
            x=var("cells", cells),
            var="q",
            start=None,
            reverse=False,
            body=(write("g.points", "hits", var("q", P), one_more),),
        ),
        push("log", item=p),
    ]
    abort = [reserve(again=const(1, I64)), push("again", item=p)] if again else []
    k = kernel(
        "touch",
        [("p", P)],
        body,
        [("cells", cells), ("ring", cells), ("e", Handle("g.edges")), ("t", P), ("q", P)],
        commit=tuple(commit),
        abort=tuple(abort),
        live=("cells", *(("ring",) if guard else ())),
    )
    stores = (POINTS, EDGES, collection("work"), collection("again"), collection("log"))
    return one("touch", stores, (k,), foreach("work", "touch"))


ALL = {
    "relax": relax,
    "split": split,
    "worklist": worklist,
    "components": components,
    "locks": locks,
    "claim": claim,
    "guard": lambda: claim(guard=True),
}
