"""Compiled arithmetic and atomics against NumPy's, for every data type."""

import numpy as np
import pytest
import units
from machine import THREADS, Machine, meta, random_graph
from sm90 import compile_all
from units import assign, const, new, place, var, write

from morph.compiler.codegen.unit import entry, prelude, source
from morph.compiler.ir import nodes as ir
from morph.language.types import BOOL, F64, I64, SCALARS, U64

N = 4096
NUMBERS = [t for t in SCALARS.values() if t.kind != "b"]
INTEGERS = [t for t in NUMBERS if t.kind != "f"]
FLOATS = [t for t in NUMBERS if t.kind == "f"]


def dtype(t):
    return np.dtype("?" if t.kind == "b" else f"{t.kind}{t.bits // 8}")


def binary(sign):
    return lambda x, y: new(ir.Binary, op=sign, x=x, y=y, type=x.type)


def unary(sign):
    return lambda x, y: new(ir.Unary, op=sign, x=x, type=x.type)


def builtin(name, count=1, result=None):
    return lambda x, y: new(ir.Builtin, name=name, args=(x, y)[:count], type=result or x.type)


def exponents(x):
    """The exponent bits of floats, as signed numbers."""
    info = np.finfo(x.dtype)
    bits = x.view(f"u{x.itemsize}").astype(np.int64) >> info.nmant
    return (bits & ((1 << info.iexp) - 1)) - ((1 << (info.iexp - 1)) - 1)


def cast(t):
    return lambda x, y: new(ir.Cast, x=x, type=t)


def nested(x, y):
    """x - (y - (x + y) * y), whose parentheses and roundings must stay."""
    total = binary("*")(binary("+")(x, y), y)
    return binary("-")(x, binary("-")(y, total))


EVERYWHERE = {
    "add": (binary("+"), np.add),
    "sub": (binary("-"), np.subtract),
    "mul": (binary("*"), np.multiply),
    "div": (binary("//"), np.floor_divide),
    "mod": (binary("%"), np.remainder),
    "min": (builtin("min", 2), np.minimum),
    "max": (builtin("max", 2), np.maximum),
    "abs": (builtin("abs"), lambda x, y: np.abs(x)),
    "neg": (unary("-"), lambda x, y: np.negative(x)),
    "nested": (nested, lambda x, y: x - (y - (x + y) * y)),
    "to_f64": (cast(F64), lambda x, y: x.astype(np.float64)),
}
OF_INTEGERS = {
    "and": (binary("&"), np.bitwise_and),
    "or": (binary("|"), np.bitwise_or),
    "xor": (binary("^"), np.bitwise_xor),
    "not": (unary("~"), lambda x, y: np.invert(x)),
    "left": (binary("<<"), np.left_shift),
    "right": (binary(">>"), np.right_shift),
    "to_i64": (cast(I64), lambda x, y: x.astype(np.int64)),
    "to_u64": (cast(U64), lambda x, y: x.astype(np.uint64)),
    "to_bool": (cast(BOOL), lambda x, y: x.astype(bool)),
    "to_f32": (cast(SCALARS["f32"]), lambda x, y: x.astype(np.float32)),
    "to_i8": (cast(SCALARS["i8"]), lambda x, y: x.astype(np.int8)),
    "bits": (
        builtin("popcount", 1, units.I32),
        lambda x, y: np.bitwise_count(x.view(f"u{x.itemsize}")),
    ),
}
OF_FLOATS = {
    "true": (binary("/"), np.divide),
    "floor": (builtin("floor"), lambda x, y: np.floor(x)),
    "ceil": (builtin("ceil"), lambda x, y: np.ceil(x)),
    "sqrt": (builtin("sqrt"), lambda x, y: np.sqrt(x)),
    "exponent": (builtin("exponent", 1, units.I32), lambda x, y: exponents(x)),
    "to_f16": (cast(SCALARS["f16"]), lambda x, y: x.astype(np.float16)),
    "to_f32": (cast(SCALARS["f32"]), lambda x, y: x.astype(np.float32)),
}


def operations(t):
    return EVERYWHERE | (OF_FLOATS if t.kind == "f" else OF_INTEGERS)


def samples(t, seed):
    rng = np.random.default_rng(seed)
    d = dtype(t)
    if t.kind == "f":
        bits = (
            rng.integers(0, 1 << t.bits, N, dtype=np.uint64, endpoint=False)
            if t.bits < 64
            else rng.integers(0, 1 << 63, N, dtype=np.uint64) * 2
            + rng.integers(0, 2, N, dtype=np.uint64)
        )
        x = bits.astype(f"u{t.bits // 8}").view(d)
        x = np.where(np.isnan(x), d.type(1), x)
        x[: N // 2] = rng.integers(-40, 40, N // 2) / d.type(4)
        x[:4] = [0.0, -0.0, np.inf, -np.inf]
        return rng.permutation(x)
    info = np.iinfo(d)
    x = rng.integers(info.min, info.max, N, dtype=d, endpoint=True)
    x[: N // 2] = rng.integers(max(info.min, -9), 9, N // 2)
    x[:2] = info.min, info.max
    return rng.permutation(x)


def unit_of(t):
    """Every operation on columns x and y of one type, each into a column of its own."""
    units.Lines.line = 0
    row = var("r", units.P)
    load = [units.load("g.points", c, row, t) for c in ("x", "y")]
    columns, body = [units.column("x", t), units.column("y", t)], []
    for name, (make, _) in operations(t).items():
        value = make(*load)
        columns.append(units.column(name, value.type))
        body.append(write("g.points", name, row, value))
    k = units.kernel("compute", [("r", units.P)], body)
    store = units.table("g.points", *columns)
    return units.one("compute", (store,), (k,), units.foreach("g.points", "compute"), graph=False)


def arrays_of(unit, rows):
    columns = unit.stores[0].columns
    found = {f"g_points_{c.name}": np.zeros(rows, dtype(c.dtype)) for c in columns}
    return {"g_points_meta": meta(rows, rows), **found}


@pytest.mark.parametrize("t", NUMBERS, ids=str)
def test_arithmetic(t):
    unit = unit_of(t)
    machine = Machine(unit, N, **arrays_of(unit, N))
    x, y = machine["g_points_x"], machine["g_points_y"]
    x[:], y[:] = samples(t, 1), samples(t, 2)
    machine.run()
    with np.errstate(all="ignore"):
        for name, (_, numpy) in operations(t).items():
            want, got = numpy(x, y), machine[f"g_points_{name}"]
            same = (got == want) | ((got != got) & (want != want))
            bad = np.flatnonzero(~same)[:5]
            assert same.all(), (name, x[bad], y[bad], got[bad], want[bad])
            if t.kind == "f":
                assert (np.signbit(got) == np.signbit(want))[want == want].all(), name


ATOMICS = ("add", "sub", "min", "max", "exch", "cas", "and", "or", "xor")


def atomics_of(t):
    if t.kind == "b":
        return ("and", "or", "exch", "cas")
    return ATOMICS if t.kind != "f" else ATOMICS[:6]


def atomic_unit(t):
    """Each item applies each atomic to one of three places, and flags what changed."""
    units.Lines.line = 0
    row = var("r", units.P)
    target = new(ir.Load, place=place("g.points", "at", row, units.P), type=units.P)
    x = units.load("g.points", "x", row, t)
    columns = [units.column("x", t), units.column("at", units.I32, ref="g.points")]
    body, stores = [], []
    for how in atomics_of(t):
        columns += [units.column(how, t), units.column(f"old_{how}", t)]
        args = (x, const(1, t) if t.kind != "b" else const(True, t)) if how == "cas" else (x,)
        stores.append(units.Store(f"f_{how}", "flag"))
        body.append(
            assign(
                "old", units.atomic(how, place("g.points", how, target, t), *args, flag=f"f_{how}")
            )
        )
        body.append(write("g.points", f"old_{how}", row, var("old", t)))
    k = units.kernel("apply", [("r", units.P)], body, [("old", t)])
    store = units.table("g.points", *columns)
    return units.one(
        "apply", (store, *stores), (k,), units.foreach("g.points", "apply"), graph=False
    )


@pytest.mark.parametrize("threads", THREADS[1:])
@pytest.mark.parametrize("t", list(SCALARS.values()), ids=str)
def test_atomics(t, threads):
    unit = atomic_unit(t)
    arrays = arrays_of(unit, N) | {f"f_{how}_flag": np.zeros(4, np.int32) for how in atomics_of(t)}
    machine = Machine(unit, N, **arrays)
    rng = np.random.default_rng(3)
    d = dtype(t)
    x, at = machine["g_points_x"], machine["g_points_at"]
    x[:] = rng.integers(0, 2, N) if t.kind in "bf" else samples(t, 4)
    at[:] = rng.integers(5, 8, N)  # neighbours in one word: none may disturb another
    for how in atomics_of(t):
        machine[f"g_points_{how}"][:8] = [0, 1, 0, 1, 1, 0, 1, 0]
    start = {how: machine[f"g_points_{how}"].copy() for how in atomics_of(t)}
    machine.run(threads)
    fold = {
        "add": np.add,
        "sub": np.subtract,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    for how in atomics_of(t):
        got, old = machine[f"g_points_{how}"], machine[f"g_points_old_{how}"]
        assert (got[:5] == start[how][:5]).all() and (got[8:] == start[how][8:]).all(), how
        changed = False
        for p in (5, 6, 7):
            mine, first = x[at == p], start[how][p]
            changed |= len(np.unique([*old[at == p], got[p]])) > 1
            if how in fold:
                want = fold[how].reduce(np.concatenate([[first], mine]).astype(d), dtype=d)
                assert got[p] == want, (how, p)
            else:
                assert got[p] in {first, d.type(1), *mine}
                if how == "exch":  # the olds and what is left are what was put
                    assert sorted([*old[at == p], got[p]]) == sorted([*mine, first])
        assert machine[f"f_{how}_flag"][0] == changed, how


def test_vectors_structs_and_functions():
    """Several values returned, a vector column read whole, a struct's field set, a search."""
    from morph.language.types import F32, I32, Struct, Tuple, Vector

    units.Lines.line = 0
    three, pair, both = (
        Vector(I32, 3),
        Struct("Pair", (("low", I32), ("delete", F32))),
        Tuple((I32, BOOL)),
    )
    v, q = var("v", three), var("q", pair)
    size = new(ir.LocalSize, x=v, type=I64)
    spread = units.func(
        "spread",
        [("v", three)],
        both,
        [
            assign("low", new(ir.Item, x=v, index=const(0), type=I32)),
            new(
                ir.ForItems,
                x=v,
                var="x",
                start=const(1),
                reverse=True,
                body=(
                    assign(
                        "low", new(ir.Builtin, name="min", args=(var("low"), var("x")), type=I32)
                    ),
                ),
            ),
            new(
                ir.Return,
                value=new(
                    ir.Make,
                    type=both,
                    parts=(var("low"), new(ir.Contains, x=v, value=const(5), type=BOOL)),
                ),
            ),
        ],
        [("low", I32), ("x", I32)],
    )
    row = var("r", units.P)
    body = [
        assign("v", new(ir.Load, place=place("g.points", "v", row, three), type=three)),
        assign("both", new(ir.Call, func="spread", args=(v,), type=both)),
        assign("q", new(ir.Make, type=pair, parts=(const(2), const(0.25, F32)))),
        new(
            ir.SetField,
            name="q",
            index=0,
            value=new(ir.Field, x=var("both", both), index=0, type=I32),
        ),
        new(ir.SetItem, name="v", index=const(2), value=new(ir.Cast, x=size, type=I32)),
        new(ir.Write, place=place("g.points", "w", row, three), value=v),
        write("g.points", "low", row, new(ir.Field, x=q, index=0, type=I32)),
        write("g.points", "part", row, new(ir.Field, x=q, index=1, type=F32)),
        write("g.points", "has", row, new(ir.Field, x=var("both", both), index=1, type=BOOL)),
    ]
    k = units.kernel("mix", [("r", units.P)], body, [("v", three), ("q", pair), ("both", both)])
    store = units.table(
        "g.points",
        units.column("v", I32, 3, stride=16),
        units.column("w", I32, 3),
        units.column("low", I32),
        units.column("part", F32),
        units.column("has", BOOL),
    )
    unit = units.one("mix", (store,), (spread, k), units.foreach("g.points", "mix"), graph=False)
    packed = np.random.default_rng(5).integers(0, 9, (N, 4)).astype(np.int32)
    machine = Machine(
        unit,
        N,
        **arrays_of(unit, N) | {"g_points_v": packed, "g_points_w": np.zeros((N, 3), np.int32)},
    )
    machine.run()
    got = packed[:, :3]
    assert (
        machine["g_points_low"] == got[:, :2].min(axis=1)
    ).all()  # backwards from the second last
    assert (machine["g_points_has"] == (got == 5).any(axis=1)).all()
    assert (machine["g_points_part"] == 0.25).all()
    assert (machine["g_points_w"] == np.column_stack([got[:, :2], np.full(N, 3)])).all()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("direction", ["out", "in", "all"])
def test_edges_in_order(direction, reverse):
    """The edges at a point from the second on, the edge 4 left out: order and both ends."""
    units.Lines.line = 0
    n, m = 300, 900
    p, t, e = var("p", units.P), var("t", units.P), var("e", units.Handle("g.edges"))
    step = units.op(
        "+",
        units.op("*", var("sum", I64), const(31, I64)),
        new(
            ir.Cast,
            x=units.op(
                "+",
                units.op("*", new(ir.Cast, x=e, type=units.I32), const(1000)),
                new(ir.Cast, x=t, type=units.I32),
            ),
            type=I64,
        ),
    )
    body = [
        units.edges(
            p,
            "e",
            "t",
            assign("sum", step),
            direction=direction,
            start=const(1),
            reverse=reverse,
            skip=const(4, units.Handle("g.edges")),
        ),
        write("g.points", "sum", p, var("sum", I64)),
        write(
            "g.points",
            "degree",
            p,
            new(ir.Degree, graph="g", point=p, direction=direction, type=units.I32),
        ),
    ]
    k = units.kernel(
        "walk",
        [("p", units.P)],
        body,
        [("e", units.Handle("g.edges")), ("t", units.P), ("sum", I64)],
    )
    store = units.table("g.points", units.column("sum", I64), units.column("degree", units.I32))
    unit = units.one("walk", (store, units.EDGES), (k,), units.foreach("g.points", "walk"))
    offset, src, dst, _ = random_graph(n, m)
    order = np.argsort(dst, kind="stable").astype(np.int32)
    arrays = arrays_of(unit, n) | {
        "g_out_offset": offset,
        "g_edges_src": src,
        "g_edges_dst": dst,
        "g_in_edge": order,
        "g_in_offset": np.searchsorted(dst[order], np.arange(n + 1)).astype(np.int64),
    }
    machine = Machine(unit, n, **arrays)
    machine.run()
    for point in range(n):
        out = [(e, dst[e]) for e in range(m) if src[e] == point]
        into = [(e, src[e]) for e in order if dst[e] == point]
        want = {"out": out, "in": into, "all": out + into}[direction]
        assert machine["g_points_degree"][point] == len(want)
        total = np.int64(0)
        with np.errstate(over="ignore"):
            for e, t in (want[::-1] if reverse else want)[1:]:
                if e != 4:
                    total = total * np.int64(31) + np.int64(e * 1000 + t)
        assert machine["g_points_sum"][point] == total


@pytest.mark.nvrtc
def test_compiles_for_cuda():
    made = [atomic_unit(t) for t in SCALARS.values()]
    made += [unit_of(t) for t in SCALARS.values() if t.kind != "b"]
    compile_all({prelude() + source(unit): entry(unit) for unit in made})
