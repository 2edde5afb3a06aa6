"""The python device: the meaning of each node, the protocol of a foreach; units built by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle_run import (
    POS,
    Run,
    T,
    accumulate,
    assign,
    binary,
    compare,
    const,
    evaluate,
    identity,
    if_,
    load,
    loop,
    place,
    put,
    row_of,
    run_it,
    table,
    var,
    write,
)

from morph.compiler.ir import nodes as ir
from morph.data.collection import Flag, Set
from morph.graph import Graph
from morph.language.types import BOOL, F64, I32, I64, SCALARS, Handle, Local, Scalar, Struct, Vector
from morph.runtime.interpreter.statements import Statements

# --- expressions ---------------------------------------------------------------------------------


def test_every_node_has_a_method() -> None:
    for name, node in vars(ir).items():
        abstract = not isinstance(node, type) or node in (ir.Expr, ir.Stmt, ir.DividedLoop)
        if node in (ir.Barrier, ir.Limit, ir.Mark):  # passes remove them, or add it for parts
            continue
        if not abstract and issubclass(node, ir.Expr | ir.Stmt):
            assert hasattr(Statements, f"_{name.lower()}"), name


def test_an_unknown_node_is_refused() -> None:
    class Strange(ir.Expr):
        pass

    with pytest.raises(TypeError, match="Strange"):
        Run({"t": table(1)}, run_it(Strange(type=I64, pos=POS)))


INTEGERS = [s for s in SCALARS.values() if s.kind in "iu"]
FLOATS = [s for s in SCALARS.values() if s.kind == "f"]
ARITHMETIC: dict[str, Any] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.remainder,
}
BITS: dict[str, Any] = {
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
}


def equal(a: Any, b: Any) -> bool:
    return bool(a == b) or bool(a != a and b != b)


@given(st.data())
def test_operators_wrap_and_round_as_arrays_do(data: st.DataObject) -> None:
    t = data.draw(st.sampled_from(INTEGERS + FLOATS))
    dtype = np.dtype(f"{t.kind}{t.bits // 8}")
    if t.kind == "f":
        numbers = st.floats(width=t.bits) | st.sampled_from([0.0, -0.0, 1.0, -3.0])  # type: ignore[arg-type]
        ops = {**ARITHMETIC, "/": np.divide}
    else:
        edge = np.iinfo(dtype)
        numbers = st.integers(int(edge.min), int(edge.max))
        numbers |= st.sampled_from([0, 1, int(edge.min), int(edge.max), 9])
        ops = ARITHMETIC | BITS
    x, y = (np.array(data.draw(numbers), dtype) for _ in range(2))
    op = data.draw(st.sampled_from(sorted(ops)))
    with np.errstate(all="ignore"):
        expected = ops[op](x[None], y[None])[0]
    result = evaluate(binary(op, var("x", t), var("y", t)), x[()], y[()])
    assert result.dtype == expected.dtype and equal(result, expected)


@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_division_by_zero_gives_zero(t: Scalar) -> None:
    x = np.dtype(f"{t.kind}{t.bits // 8}").type(7)
    for op in ("//", "%"):
        assert evaluate(binary(op, var("x", t), const(0, t)), x) == 0


def test_comparison_logic_select_and_casts() -> None:
    x, y = var("x", F64), var("y", F64)
    less = compare("<", x, y)
    both = ir.Logic(op="and", x=less, y=const(True, BOOL), type=BOOL, pos=POS)
    assert evaluate(both, np.float64(1), np.float64(2))
    either = ir.Logic(
        op="or", x=ir.Unary(op="not", x=less, type=BOOL, pos=POS), y=both, type=BOOL, pos=POS
    )
    assert evaluate(either, np.float64(1), np.float64(2))
    # the side not chosen is not evaluated: row -1 would be refused
    absent = load(const(-1, T), "out", F64)
    chosen = ir.Select(cond=less, x=x, y=absent, type=F64, pos=POS)
    assert evaluate(chosen, np.float64(1), np.float64(2)) == 1
    truncated = ir.Cast(x=x, type=I32, pos=POS)
    assert evaluate(truncated, np.float64(-3.9)) == -3
    narrowed = ir.Cast(x=const(300), type=SCALARS["u8"], pos=POS)
    assert evaluate(narrowed) == 300 - 256
    assert evaluate(ir.Cast(x=const(0.5, F64), type=BOOL, pos=POS))


@pytest.mark.parametrize(
    ("name", "t", "args", "expected"),
    [
        ("abs", I32, (-5,), 5),
        ("min", F64, (2.0, 1.0), 1.0),
        ("max", I64, (2, 3), 3),
        ("sqrt", F64, (2.0,), 2.0**0.5),
        ("floor", F64, (-1.5,), -2.0),
        ("ceil", F64, (-1.5,), -1.0),
        ("exp", F64, (0.0,), 1.0),
        ("exp", F64, (1e9,), np.inf),
        ("log", F64, (0.0,), -np.inf),
        ("log", F64, (1.0,), 0.0),
        ("exponent", F64, (-6.0,), 2),
        ("exponent", F64, (0.0,), -1023),
        ("exponent", SCALARS["f32"], (0.75,), -1),
        ("popcount", I32, (-1,), 32),
        ("popcount", SCALARS["u8"], (7,), 3),
    ],
)
def test_builtins(name: str, t: Scalar, args: tuple[Any, ...], expected: Any) -> None:
    result = I32 if name in ("popcount", "exponent") else t
    call = ir.Builtin(name=name, args=tuple(const(a, t) for a in args), type=result, pos=POS)
    assert evaluate(call) == expected


def test_predicates_are_exact() -> None:
    def point(x: float, y: float) -> ir.Expr:
        parts = (const(x, F64), const(y, F64))
        return ir.Make(parts=parts, type=Vector(F64, 2), pos=POS)

    def sign(*points: ir.Expr) -> Any:
        name = "orient2d" if len(points) == 3 else "incircle"
        return evaluate(ir.Builtin(name=name, args=points, type=I32, pos=POS))

    a, b = point(12.0, 12.0), point(24.0, 24.0)
    assert sign(point(0.5, 0.5), a, b) == 0
    assert sign(point(0.5, 0.5 + 2.0**-53), a, b) == 1
    assert sign(point(0.5 + 2.0**-53, 0.5), a, b) == -1
    far = 2.0**52
    square = [point(far + x, far + y) for x, y in [(0, 0), (1, 0), (1, 1)]]
    assert sign(*square, point(far, far + 1)) == 0
    assert sign(*square, point(far, far + 2)) == -1
    assert sign(*square, point(far, far)) == 0
    assert sign(point(0, 0), point(1, 0), point(0, 1), point(0.5, 0.5)) == 1


def test_vectors_structs_and_locals() -> None:
    t = table(3, v=(np.int64, 3), out=np.int64)
    t.v[:] = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    vec, pair = Vector(I64, 3), Struct("pair", (("a", I64), ("b", I64)))
    items = Local(I64, 4)
    x, s, q = var("x", vec), var("s", pair), var("q", items)
    body = (
        assign("x", load(var("p"), "v", vec)),
        ir.SetItem(name="x", index=const(1), value=const(10), pos=POS),
        write(var("p"), "v", x),
        write(var("p"), "v", const(-1), index=const(0)),
        assign("s", ir.Make(parts=(const(100), const(1000)), type=pair, pos=POS)),
        ir.SetField(
            name="s", index=0, value=ir.Item(x=x, index=const(2), type=I64, pos=POS), pos=POS
        ),
        assign("q", ir.MakeLocal(type=items, pos=POS)),
        put("q", ir.Field(x=s, index=0, type=I64, pos=POS)),
        put("q", ir.Field(x=s, index=1, type=I64, pos=POS)),
        put("q", const(5)),
        assign("last", ir.LocalPop(name="q", type=I64, pos=POS)),
        if_(
            ir.Contains(x=q, value=const(1000), type=BOOL, pos=POS),
            loop(ir.ForItems, accumulate(var("p"), "out", var("i", I64)), x=q, var="i"),
            accumulate(var("p"), "out", ir.LocalSize(x=q, type=I64, pos=POS)),
        ),
    )
    locals_ = {"x": vec, "s": pair, "q": items, "last": I64, "i": I64}
    Run({"t": t}, *body, locals_=locals_).once()
    assert t.v[:].tolist() == [[-1, 10, 3], [-1, 10, 6], [-1, 10, 9]]
    assert t.out[:].tolist() == [3 + 1000 + 2, 6 + 1000 + 2, 9 + 1000 + 2]


# --- statements ----------------------------------------------------------------------------------


def test_loops_break_continue_and_calls() -> None:
    n, i, total = var("n", I64), var("i", I64), var("total", I64)
    odd = compare("==", binary("%", i, const(2)), const(1))
    body = (
        assign("total", const(0)),
        loop(
            ir.ForRange,
            if_(odd, ir.Continue(pos=POS)),
            if_(compare(">=", i, const(8)), ir.Break(pos=POS)),
            assign("total", binary("+", total, i)),
            var="i",
            start=const(0),
            stop=n,
            step=1,
        ),
        ir.While(
            cond=const(True, BOOL),
            body=(
                assign("total", binary("+", total, const(100))),
                if_(compare(">", total, const(300)), ir.Return(value=total, pos=POS)),
            ),
            pos=POS,
        ),
    )
    f = ir.Func(
        name="f",
        params=(("n", I64),),
        result=I64,
        locals=(("i", I64), ("total", I64)),
        body=body,
        pos=POS,
    )
    call = ir.Call(func="f", args=(const(20),), type=I64, pos=POS)
    assert evaluate(call, funcs=(f,)) == 312


def test_foreign_functions_are_refused() -> None:
    f = ir.Func(name="f", params=(), result=I64, locals=(), body=(), cpp="return 1;", pos=POS)
    with pytest.raises(TypeError, match="cpp"):
        Run({"t": table(1)}, funcs=(f,))


def test_filter_dead_rows_and_scalars() -> None:
    t = table(6, out=np.float32)
    t.delete([1])
    even = ir.Func(
        name="even",
        params=(("r", T),),
        result=BOOL,
        locals=(),
        pos=POS,
        body=(
            ir.Return(
                value=compare("<", identity(var("r")), const(4)),
                pos=POS,
            ),
        ),
    )
    x = var("x", SCALARS["f32"])
    run = Run(
        {"t": t},
        write(var("p"), "out", x),
        funcs=(even,),
        where="even",
        scalars={"x": np.float32(0.1)},
    )
    run.once()
    assert t.out[:].tolist() == [np.float32(0.1) if i in (0, 2, 3) else 0 for i in range(6)]


SRC, DST = np.array([0, 0, 0, 1, 2, 2]), np.array([1, 2, 3, 0, 0, 3])


@pytest.mark.parametrize(
    ("direction", "start", "reverse", "skip", "expected"),
    [
        ("out", 0, False, -1, [[1, 2, 3], [0], [0, 3], []]),
        ("out", 1, False, -1, [[2, 3], [], [3], []]),
        ("out", 1, True, -1, [[2, 1], [], [0], []]),
        ("in", 0, False, -1, [[1, 2], [0], [0], [0, 2]]),
        ("all", 0, True, -1, [[2, 1, 3, 2, 1], [0, 0], [0, 3, 0], [2, 0]]),
        ("out", 0, False, 1, [[1, 3], [0], [0, 3], []]),
    ],
)
def test_edges(
    direction: str, start: int, reverse: bool, skip: int, expected: list[list[int]]
) -> None:
    g = Graph.from_edges(SRC, DST, device="python")
    g.points.add("count", np.int64)
    g.points.add("seen", (np.int64, 8))
    points = Handle("g.points")
    p, q = var("p", points), var("q", points)
    count = load(p, "count")
    body = loop(
        ir.ForEdges,
        write(p, "seen", identity(q), index=count),
        write(p, "count", binary("+", count, const(1))),
        graph="g",
        point=p,
        direction=direction,
        edge="e",
        var="q",
        start=const(start),
        reverse=reverse,
        skip=const(skip, Handle("g.edges")),
    )
    refs = {("g.edges", "src"): "g.points", ("g.edges", "dst"): "g.points"}
    Run(
        {"g": g},
        body,
        over="g.points",
        item=points,
        refs=refs,
        locals_={"e": Handle("g.edges"), "q": points},
    ).once()
    seen = [g.points.seen[i][: g.points.count[i]].tolist() for i in range(4)]
    assert seen == expected


def test_degrees_and_find_edge() -> None:
    g = Graph.from_edges(SRC, DST, device="python")
    g.points.add("out", (np.int64, 4))
    points = Handle("g.points")
    p = var("p", points)

    def find(x: int, y: int) -> ir.Expr:
        ends = const(x, points), const(y, points)
        edge = ir.FindEdge(graph="g", x=ends[0], y=ends[1], type=Handle("g.edges"), pos=POS)
        return identity(edge)

    degrees = [
        ir.Degree(graph="g", point=p, direction=d, type=I64, pos=POS) for d in ("out", "in", "all")
    ]
    body = [write(p, "out", x, index=const(i)) for i, x in enumerate(degrees)]
    body.append(write(p, "out", binary("*", find(2, 3), find(3, 2)), index=const(3)))
    Run({"g": g}, *body, over="g.points", item=points).once()
    assert g.points.out[:].tolist() == [[3, 2, 5, -5], [1, 1, 2, -5], [2, 1, 3, -5], [0, 2, 2, -5]]


@pytest.mark.parametrize("seed", range(3))
def test_atomics_locks_flags_and_order(seed: int) -> None:
    t, flag, unraised = table(8, a=np.int64, b=np.int32, c=np.int64), Flag("python"), Flag("python")
    first = const(0, T)
    lock = ir.Lock(slot="t", row=first, type=BOOL, pos=POS)
    turn = ir.LockPlace(place=place(first, "b", I32), type=BOOL, pos=POS)
    cas = ir.Atomic(
        op="cas",
        place=place(const(1, T), "c"),
        args=(const(0), identity(var("p"))),
        flag=None,
        type=I64,
        pos=POS,
    )
    body = (
        accumulate(first, "a", const(1), flag="flag"),
        accumulate(first, "a", const(0), flag="unraised"),
        assign("won", lock),
        if_(var("won", BOOL), accumulate(const(1, T), "a", const(1))),
        assign("won", turn),
        if_(var("won", BOOL), accumulate(const(1, T), "b", const(1, I32))),
        assign("old", cas),
    )
    objects = {"t": t, "flag": flag, "unraised": unraised}
    run = Run(objects, *body, locals_={"won": BOOL, "old": I64}, seed=seed)
    run.once()
    assert t.a[:2].tolist() == [8, 1] and t.b[:2].tolist() == [1, 1]
    assert flag and not unraised
    run.once()  # a lock is of one launch, a place is for good
    assert t.a[:2].tolist() == [16, 2] and t.b[:2].tolist() == [1, 1]


def test_seeds_give_different_orders_and_repeat() -> None:
    def order(seed: int) -> list[int]:
        t = table(20, at=np.int64)
        body = assign(
            "n",
            ir.Atomic(
                op="add",
                place=place(const(0, T), "at"),
                args=(const(1),),
                flag=None,
                type=I64,
                pos=POS,
            ),
        )
        late = write(var("p"), "at", binary("+", var("n", I64), const(1)))
        skip = if_(compare("!=", identity(var("p")), const(0)), late)
        Run({"t": t}, body, skip, locals_={"n": I64}, seed=seed).once()
        return t.at[1:].tolist()  # type: ignore[no-any-return]

    assert order(1) == order(1) != order(2)


def test_sets() -> None:
    t = table(6, out=np.int64, mate=np.int32)
    t.mate[:] = [3, 3, 5, 4, 4, 5]
    joined = Set(t)
    union = ir.SetUnion(
        slot="s", x=var("p"), y=row_of(load(var("p"), "mate", I32)), type=BOOL, pos=POS
    )
    Run(
        {"t": t, "s": joined},
        assign("apart", union),
        if_(var("apart", BOOL), write(var("p"), "out", const(1))),
        locals_={"apart": BOOL},
    ).once()
    assert joined.labels().tolist() == [0, 0, 2, 0, 0, 2]
    assert t.out[:].sum() == 4
    find = ir.SetFind(slot="s", x=var("p"), type=T, pos=POS)
    Run(
        {"t": t, "s": joined},
        assign("r", find),
        write(var("p"), "out", identity(var("r"))),
        locals_={"r": T},
    ).once()
    assert t.out[:].tolist() == [0, 0, 2, 0, 0, 2]
