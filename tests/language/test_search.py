"""Loops that search for an edge: on a GPU the lanes of a warp share long searches."""

from __future__ import annotations

import re

import numpy as np
import pytest
from targets import everywhere, host

import morph
from morph.launch.foreach import foreach
from morph.prelude import atomic_add, i8, i64

LENGTHS = (0, 1, 15, 16, 17, 31, 32, 33, 49, 1000)
LONG = 100_000


@morph.kernel
def find_edge(p, shift, listed, sums):
    for e in p.outedges:  # a thread alone: another search follows
        if e.mark == -1:
            p.other = e.id
            break
    if p.sort == 3:
        return
    key, small, found = p.key + shift, i8(p.id % 100), i64(-1)
    for e in p.outedges:
        if e.mark == key or e.mark == i64(small) + 1000:
            found = e.id + i64(small)
            atomic_add(e.seen, 1)
            break
    p.found = found
    if found >= 0:
        listed.add(p)
        atomic_add(sums[0].found, 1)


@morph.kernel
def find_neighbour(p):
    t, low = p, p.low
    if p.sort == 1:
        p.near = -2
    else:
        low += 1
        for t in p.outnbrs:
            if t.rank < low:
                p.near = t.id
                break
        p.last = t.id  # where the loop ended


@morph.kernel
def find_or_return(p):
    for t in p.outnbrs:
        if t.rank < p.low:
            p.near = t.id
            return
    p.near = -1


@morph.program
def find_all(g, shift, listed, sums):
    foreach(g.points, find_edge, shift, listed, sums, where=lambda p: p.sort != 2, balance="warp")
    foreach(g.points, find_neighbour, balance="grid")


def rows(lengths, seed):
    """Rows of all lengths, in which no edge passes, or the first, the last, or some from one on."""
    draw = np.random.default_rng(seed)
    length = draw.permutation(np.repeat(lengths, 4))
    n = len(length)
    src = np.repeat(np.arange(n), length)
    begin = np.cumsum(length) - length
    mark, key = draw.integers(-1, 3, len(src)), np.arange(n) % 5 + 10
    for p in range(n):
        hits = {0: [], 1: [0], 2: [length[p] - 1]}.get(p % 4, draw.integers(0, length[p] + 1, 3))
        for k in hits:
            if 0 <= k < length[p]:
                mark[begin[p] + k] = draw.choice([key[p] + 2, p % 100 + 1000])
    return length, src, draw.integers(0, n, len(src)), mark, key, draw.integers(0, 4, n)


def first(passes, otherwise=-1):
    at = np.flatnonzero(passes)
    return int(at[0]) if len(at) else otherwise


def test_first_edges(target):
    lengths = LENGTHS if target == "python" else (*LENGTHS, LONG)
    length, src, dst, mark, key, kind = rows(lengths, seed=len(lengths))
    n = len(length)
    rank, low = np.arange(n) * 7 % n, np.arange(n) % 3 * (n // 8)
    e = [np.flatnonzero(src == p) for p in range(n)]
    seen = np.zeros(len(src), int)
    other, found, near, last = (np.full(n, -5) for _ in range(4))
    for p in range(n):
        ends = dst[e[p]]
        if kind[p] != 2 and (k := first(mark[e[p]] == -1)) >= 0:
            other[p] = e[p][k]
        if kind[p] < 2:
            k = first((mark[e[p]] == key[p] + 2) | (mark[e[p]] == p % 100 + 1000))
            found[p] = e[p][k] + p % 100 if k >= 0 else -1
            seen[e[p][k : k + 1]] += 1  # of none if k is -1
        if kind[p] == 1:
            near[p] = -2
        else:
            k = first(rank[ends] <= low[p])
            near[p] = ends[k] if k >= 0 else -5
            last[p] = ends[k] if len(ends) else p

    def run():
        g = morph.Graph.from_edges(src, dst, n=n, device=target)
        for name in ("key", "sort", "rank", "low", "other", "found", "near", "last"):
            g.points.add(name, i64, fill=-5)
        g.edges.add("mark", i64)
        g.edges.add("seen", i64)
        g.points.key[:], g.points.sort[:], g.edges.mark[:] = key, kind, mark
        g.points.rank[:], g.points.low[:] = rank, low
        sums = morph.Table("sums", target, found=i64)
        sums.extend(1)
        listed = morph.Collection(g.points, capacity=2)
        find_all(g, 2, listed, sums)
        assert sorted(host(listed.item).tolist()) == np.flatnonzero(found >= 0).tolist()
        assert int(sums.found[0]) == (found >= 0).sum()
        assert host(g.edges.seen).tolist() == seen.tolist()
        return [host(getattr(g.points, x)).tolist() for x in ("other", "found", "near", "last")]

    for got in everywhere(target, run):
        assert got == [x.tolist() for x in (other, found, near, last)]


SPLIT = """MORPH_FN void run(const Args& a, I& it) const {
    Entries row;
    LiveIn in{};
    LiveOut out{};
    if (!prologue(a, it, row, in, out)) return;
    i64 k = find_first(row.begin, row.end, [&](i64 k) { return reach(a, k); },
                       [&](RowId edge, i32 end) { return test(a, it, in, Reached{edge, end}); });
    bool found = k < row.end;
    epilogue(a, it, out, found ? k : row.begin < row.end ? row.end - 1 : -1, found);
}"""


@pytest.mark.unchecked  # checked kernels are not split
def test_the_parts_do_what_the_kernel_does():
    """On the CPU, on which the kernel is not split."""
    test_first_edges("cpu")
    text = find_all.source()
    split, n = re.subn(r"MORPH_FN void run\(const Args& a, I& it\).*", SPLIT, text)
    assert n == 2
    find_all.edit(split)
    try:
        test_first_edges("cpu")
    finally:
        find_all.edit(text)


@pytest.mark.unchecked  # checked kernels are not split
def test_what_a_warp_shares():
    g = morph.Graph.from_edges([0], [1], device="cpu")
    for name in ("sort", "rank", "low", "near", "last"):
        g.points.add(name, i64)
    shared = []
    for kernel in (find_neighbour, find_or_return):
        for balance in ("warp", "auto", "thread"):
            morph.foreach(g.points, kernel, balance=balance)
            shared.append("WORK_SHARING = TARGET_GPU" in kernel.source())
    assert shared == [True, False, False, False, False, False]
