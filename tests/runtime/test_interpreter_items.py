"""The python device: allocation, re-execution, claims, and errors that compiled code ignores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from oracle_run import (
    POS,
    Run,
    T,
    accumulate,
    assign,
    binary,
    compare,
    const,
    identity,
    if_,
    load,
    loop,
    new,
    put,
    reserve,
    row_of,
    run_it,
    table,
    var,
    write,
)

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.abi import Meta, Status
from morph.data.collection import Collection
from morph.data.reclaim import reclaim
from morph.data.table import Table
from morph.language.types import F64, I64, NOTHING, Handle, Local, Rows
from morph.runtime.interpreter import launch as interpreter

# --- collections ---------------------------------------------------------------------------------


def test_collections() -> None:
    t = table(5, out=np.int64)
    todo, more = Collection(t), Collection(t, cost=np.float64)
    todo.extend([4, 2, 2])
    refs = {("todo", "item"): "t", ("more", "item"): "t"}
    add = ir.Add(
        slot="more", values=(("item", var("p")), ("cost", const(0.5, F64))), type=NOTHING, pos=POS
    )
    body = (reserve(more=1), run_it(add), accumulate(var("p"), "out", const(1)))
    objects = {"t": t, "todo": todo, "more": more}
    run = Run(objects, *body, over="todo", refs=refs)
    assert run.all() == 1  # the first launch finds no room at all
    assert t.out[:].tolist() == [0, 0, 2, 0, 1]
    assert sorted(more.items.tolist()) == [2, 2, 4] and more.cost[:].tolist() == [0.5] * 3
    # an entry that carries columns is itself the item
    entry = Handle("more")
    share = accumulate(load(var("p", entry), "item", T), "out", const(10))
    Run(objects, share, over="more", item=entry, refs=refs).once()
    assert t.out[:].tolist() == [0, 0, 22, 0, 11]
    # what an item adds cannot be taken before the next launch
    take = ir.Take(slot="todo", type=T, pos=POS)
    again = ir.Add(slot="todo", values=(("item", var("p")),), type=NOTHING, pos=POS)
    none = compare("==", var("got"), const(-1, T))
    taking = (
        reserve(todo=1),
        run_it(again),
        assign("got", take),
        if_(none, accumulate(var("p"), "out", const(100))),
    )
    t.out[:] = 0
    assert Run(objects, *taking, refs=refs, locals_={"got": T}).all() <= 1
    assert len(todo) == 5 and int((t.out[:] == 100).sum()) == 2


# --- allocation ----------------------------------------------------------------------------------


def children(objects: dict[str, Any], **options: Any) -> Run:
    """Every row with ``out`` 0 gets a child that knows it."""
    body = if_(
        compare("==", load(var("p"), "out"), const(0)),
        reserve(t=2),
        assign("c", new(parent=var("p"))),
        write(var("p"), "out", const(1)),
    )
    return Run(objects, body, refs={("t", "parent"): "t"}, locals_={"c": T}, **options)


def forest() -> Table:
    t = Table("t", "python", capacity=4)
    t.add("parent", np.int32, fill=-1)
    t.add("out", np.int64, fill=7)
    t.extend(4, out=0)
    return t


def test_new_rows_reserve_fail_and_replay() -> None:
    t = forest()
    run = children({"t": t})
    run.once()
    assert run.status[Status.FAILED] == 4 and run.deferred == {0, 1, 2, 3}
    assert run.status[Status.STORES] and len(t) == 4 and not t.out[:].any()
    assert run.all() >= 1
    assert len(t) == 8 and sorted(t.parent[4:].tolist()) == [0, 1, 2, 3]
    assert t.out[:].tolist() == [1] * 4 + [7] * 4
    words = t.meta
    assert words[Meta.BUDGET] == words[Meta.CAPACITY] - words[Meta.COUNT]  # the rest is given back


@pytest.mark.parametrize("seed", range(2))
def test_the_nth_reservation_fails_for_every_n(seed: int) -> None:
    for n in range(1, 7):
        t = forest()
        t.resize(16)
        run = children({"t": t}, seed=seed)
        run.status[Status.INJECT] = n
        replays = run.all()
        assert replays == (1 if n <= 4 else 0)
        assert len(t) == 8 and sorted(t.parent[4:].tolist()) == [0, 1, 2, 3]


def test_deleted_rows_are_used_again_when_the_host_has_released_them() -> None:
    t = forest()
    t.allow_deletes()
    t.resize(12)
    delete = ir.Delete(slot="t", row=var("p"), type=NOTHING, pos=POS)
    swap = Run(
        {"t": t},
        reserve(t=1),
        run_it(delete),
        run_it(delete),
        assign("c", new()),
        refs={("t", "parent"): "t"},
        locals_={"c": T},
    )
    swap.once()
    assert sorted(t.ids().tolist()) == [4, 5, 6, 7] and t.live == 4
    assert reclaim(t) == 4
    swap.once()
    assert sorted(t.ids().tolist()) == [0, 1, 2, 3] and len(t) == 8
    assert t.out[:4].tolist() == [7] * 4  # their fill, as if they were new


def test_consecutive_rows_never_come_from_the_free_ring() -> None:
    t = forest()
    t.resize(8)
    t.delete([1, 2, 3])
    kind = Rows("t")
    rows = var("rows", kind)
    body = (
        reserve(t=6),
        assign("rows", ir.NewRows(slot="t", count=const(6), type=kind, pos=POS)),
        loop(ir.ForItems, write(var("r"), "out", identity(var("p"))), x=rows, var="r"),
        write(
            ir.Item(x=rows, index=const(5), type=T, pos=POS),
            "out",
            ir.LocalSize(x=rows, type=I64, pos=POS),
        ),
    )
    run = Run({"t": t}, *body, locals_={"rows": kind, "r": T})
    assert run.all() == 1
    assert len(t) == 10 and t.out[4:].tolist() == [0] * 5 + [6]
    assert t.meta[Meta.BUDGET] == 16 - 10 + 3


def test_a_small_local_collection_is_enlarged() -> None:
    t = table(3, out=np.int64)
    small = Local(I64, 1)
    add = [put("q", const(i)) for i in range(4)]
    body = (
        assign("q", ir.MakeLocal(type=small, pos=POS)),
        if_(compare(">", identity(var("p")), const(0)), *add),
        accumulate(var("p"), "out", const(1)),
    )
    run = Run({"t": t}, *body, locals_={"q": small})
    run.once()
    assert run.deferred == {1, 2} and run.status[Status.LOCAL] and t.out[:].tolist() == [1, 0, 0]
    t.out[:] = 0
    assert run.all() == 2
    assert t.out[:].tolist() == [1, 1, 1]


# --- claims --------------------------------------------------------------------------------------


def ring_of_claims(n: int, seed: int, guard: bool, priority: ir.Expr | None) -> Table:
    """Every row wants itself and the next; winners add to both in two steps, losers ask again."""
    t = table(n, out=np.int64, rank=np.int64)
    t.rank[:] = np.arange(n) % 5
    again = Collection(t, capacity=4 * n)
    again.extend(np.arange(n))
    mine, rim = Local(T, 4), Local(T, 2)
    following = row_of(binary("%", binary("+", identity(var("p")), const(1)), const(n)))
    before = row_of(binary("%", binary("+", identity(var("p")), const(n - 1)), const(n)))

    body = [
        assign("mine", ir.MakeLocal(type=mine, pos=POS)),
        assign("rim", ir.MakeLocal(type=rim, pos=POS)),
        put("mine", var("p")),
        put("mine", following),
        put("mine", const(-1, T)),
        put("rim", before),
        ir.Claim(items="mine", guard="rim" if guard else None, priority=priority, pos=POS),
    ]
    each = accumulate(var("q"), "out", const(1))
    real = if_(compare("!=", var("q"), const(-1, T)), each)
    commit = [loop(ir.ForItems, real, x=var("mine", mine), var="q")]
    lost = ir.Add(slot="again", values=(("item", var("p")),), type=NOTHING, pos=POS)
    run = Run(
        {"t": t, "again": again},
        *body,
        over="again",
        refs={("again", "item"): "t"},
        locals_={"mine": mine, "rim": rim, "q": T},
        commit=commit,
        abort=[reserve(again=1), run_it(lost)],
        seed=seed,
    )
    rounds = 0
    while len(again):
        size, end = len(again), int(again._host_meta[Meta.COUNT])
        run.all()
        again._host_meta[Meta.HEAD] = end  # the entries that were there have run
        again._publish_counters()
        assert len(again) < size  # an item wins
        rounds += 1
    assert run.status[Status.ROUND] >= rounds
    return t


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("guard", [False, True])
def test_claims(seed: int, guard: bool) -> None:
    t = ring_of_claims(30, seed, guard, load(var("p"), "rank"))
    assert t.out[:].tolist() == [2] * 30


def test_priority_orders_the_winners() -> None:
    """All want row 0: in a batch the smallest priority gets it."""
    t = table(40, out=np.int64, rank=np.int64)
    t.rank[:] = np.arange(40)[::-1]
    mine = Local(T, 1)
    body = [
        assign("mine", ir.MakeLocal(type=mine, pos=POS)),
        put("mine", const(0, T)),
        ir.Claim(items="mine", guard=None, priority=load(var("p"), "rank"), pos=POS),
    ]
    run = Run({"t": t}, *body, locals_={"mine": mine}, commit=[write(var("p"), "out", const(1))])
    run.once()
    assert t.out[:].sum() == run.status[Status.ROUND] > 0
    assert t.out[39] == 1  # rank 0 wins whatever batch it is in


# --- loud errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "access",
    [
        lambda: load(const(-1, T), "out"),
        lambda: load(const(3, T), "out"),
        lambda: load(var("p"), "v", index=const(2)),
        lambda: ir.LocalPop(name="q", type=I64, pos=POS),
        lambda: ir.Item(x=var("q", Local(I64, 2)), index=const(0), type=I64, pos=POS),
    ],
)
def test_what_does_not_exist_is_an_error_at_the_line(access: Callable[[], ir.Expr]) -> None:
    t = table(3, out=np.int64, v=(np.int64, 2))
    make = assign("q", ir.MakeLocal(type=Local(I64, 2), pos=POS))
    with pytest.raises(IndexError, match=r"kernel\.py:7: .* does not exist"):
        Run({"t": t}, make, assign("x", access())).once()


def test_allocation_beyond_what_was_reserved_is_an_error() -> None:
    t = forest()
    t.resize(64)
    with pytest.raises(AssertionError, match="reserved"):
        Run({"t": t}, reserve(t=1), assign("a", new()), assign("b", new())).once()


def test_programs_are_refused() -> None:
    run = Run({"t": table(1)})
    with pytest.raises(ValueError, match="one foreach"):
        interpreter.load(replace(run.unit, fused=True), 0)
