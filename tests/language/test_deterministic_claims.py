"""foreach(together=True): items claim in one round; any number of threads has the same winners."""

from __future__ import annotations

import contextlib
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, tries

import morph
from morph import Collection, Graph, foreach, kernel, program, testing
from morph.compiler.codegen.unit import prelude
from morph.language.errors import LanguageError
from morph.prelude import i32, i64, single


@kernel
def own(p, g, again, log):
    """Own a point and what it leads to; the winners, and how much each saw, are logged."""
    mine = g.points.local(2)
    near = g.points.local(2)
    seen = i64(0)
    mine.add(p)
    for t in p.outnbrs:
        mine.add(t)
        seen += 1 if t.owner is None else 0
        for u in t.outnbrs:
            near.add(u)
    if p.out_degree == 1:
        log.add(p, seen=-1)
    elif single(mine, guard=near, priority=p.out_degree):
        for t in mine:
            t.owner = p
        for t in mine:
            log.add(t, seen=seen)
    else:
        again.add(p)


def pairs(n, seed):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n, (2, 2 * n))
    return ends[:, np.argsort(ends[0], kind="stable")], rng.permutation(n)


def owned(target, n, seed):
    """Rounds until all points have had their turn: owners, what is left, and the log."""
    (u, v), order = pairs(n, seed)
    g = Graph.from_edges(u, v, n=n, device=target)
    g.points.add("owner", morph.Ref("points"), fill=None)
    work, again = Collection(g.points), Collection(g.points)
    log = Collection(g.points, seen=i64)
    work.extend(order)
    for _ in range(2):
        foreach(work, own, g, again, log, where=lambda p: p.id % 7 != 3, together=True)
        left = np.sort(host(again.items))
        work.clear()
        work.extend(left)
        again.clear()
    entries = np.stack([host(log.items), host(log.seen)])
    return host(g.points.owner), left, entries[:, np.lexsort(entries)]


@program
def own_twice(g, again, log):
    turns = 0
    while turns < 2:
        foreach(g.points, own, g, again, log, where=lambda p: p.id % 7 != 3, together=True)
        turns += 1


def owned_twice(target, run, n, seed):
    """Two rounds of all points in a program: owners, who lost, and the log."""
    (u, v), _ = pairs(n, seed)
    g = Graph.from_edges(u, v, n=n, device=target)
    g.points.add("owner", morph.Ref("points"), fill=None)
    again, log = Collection(g.points), Collection(g.points, seen=i64)
    run(g, again, log)
    entries = np.stack([host(log.items), host(log.seen)])
    return host(g.points.owner), np.sort(host(again.items)), entries[:, np.lexsort(entries)]


def expected(n, seed):
    """The same by brute force: the least key takes its rows; see `kernels/schedule/single.h`."""
    from morph.runtime.interpreter.launch import mix32  # noqa: PLC0415

    (u, v), order = pairs(n, seed)
    out = [v[u == p] for p in range(n)]
    owner, log = np.full(n, -1), []
    for _ in range(2):
        claims, left = {}, []
        for at, p in enumerate(order):
            if p % 7 == 3:
                continue
            if len(out[p]) == 1:
                log.append((p, -1))
                continue
            claims[p] = min(len(out[p]), 63) << 32 | mix32(at)
        best = {}
        for p, key in claims.items():
            for t in (p, *out[p]):
                best[t] = min(best.get(t, key), key)
        wins = []
        for p, key in claims.items():
            mine = all(best[t] == key for t in (p, *out[p]))
            near = all(best.get(w, key) >= key for t in out[p] for w in out[t])
            (wins if mine and near else left).append(p)
        seen = {p: sum(owner[t] < 0 for t in out[p]) for p in wins}
        for p in wins:
            for t in (p, *out[p]):
                owner[t] = p
                log.append((t, seen[p]))
        order = np.sort(left)
    entries = np.array(log).T
    return owner, order, entries[:, np.lexsort(entries)]


@tries(10)
@given(n=st.integers(2, 60), seed=st.integers(0, 10**6))
def test_the_same_items_win_on_every_target(target, n, seed):
    want = expected(n, seed)
    for got in everywhere(target, lambda: owned(target, n, seed)):
        assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


@tries(10)
@given(n=st.integers(2, 60), seed=st.integers(0, 10**6))
def test_a_step_of_a_program(target, n, seed):
    """The same items win as launch by launch, though the lists overflow in the first step."""
    want = owned_twice("cpu", own_twice.eager, n, seed)
    for got in everywhere(target, lambda: owned_twice(target, own_twice, n, seed)):
        assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_many_items_of_any_number_of_threads(threads):
    want = expected(4000, 1)
    with testing.team(threads):
        got = owned("cpu", 4000, 1)
    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("device", ["cpu", "python", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("threads", [1, 3])
def test_items_that_find_no_room_keep_their_verdict(device, threads):
    """Whichever allocation fails: of gathering, of a winner, of a loser."""
    want = expected(9, 5)
    team = testing.team(threads) if device == "cpu" else contextlib.nullcontext()
    with team:
        for n in range(1, 400):
            with testing.fail_allocation(n, device) as fault:
                got = owned(device, 9, 5)
            assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True)), n
            if not fault.fired:
                break
    assert not fault.fired and n > 60


def test_only_for_kernels_that_claim(target):
    @kernel
    def nothing(p):
        p.x = 1

    t = morph.Table("t", target, x=i32)
    with pytest.raises(LanguageError, match=r"'nothing' has no single\(collection\)"):
        foreach(t, nothing, together=True)


@pytest.mark.gpu
def test_more_items_than_threads_are_refused():
    @kernel
    def lone(p, t):
        mine = t.local(1)
        mine.add(p)
        if single(mine):
            p.x = 1

    @program
    def all_of(t):
        foreach(t, lone, t, together=True)

    t = morph.Table("t", "cuda", x=i32)
    t.extend(10**7)
    with pytest.raises(ValueError, match="10000000 items together, but cuda:0 runs"):
        foreach(t, lone, t, together=True)
    with pytest.raises(ValueError, match=r"\d+ items together, but cuda:0 runs"):
        all_of(t)
    assert not host(t.x).any()


def test_broadcast_values_can_be_read_late():
    """Block 0 may reach the next barrier before others have read the last broadcast value."""
    bits = {x: int(y, 0) for x, y in re.findall(r"enum : u32 { (\w+) = (\w+)u };", prelude())}
    (release,) = re.findall(r"u32 release = (.+);", prelude())
    release = release.replace("T::", "")
    for n in (2, 3, 264):
        for word in (0, bits["BROADCAST"], bits["RELEASED"], bits["RELEASED"] | bits["BROADCAST"]):
            names = {"u32": int, "block_count": lambda n=n: n, **bits}
            now = (word + eval(release, names)) % 2**32
            for _ in range(n - 1):
                assert (now ^ word) & (bits["BROADCAST"] | bits["RELEASED"]) == 0
                now = (now + bits["ARRIVAL"]) % 2**32
            assert now == word ^ bits["RELEASED"]
