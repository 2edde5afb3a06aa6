"""Checkers of cliques and k-plexes, with Python sets and Python integers as bit sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from morph.graph import Graph
from morph.language.arguments import integer
from morph.language.messages import shown
from morph.validate.arcs import Arcs, Ints, WrongAnswer, grouped


def max_clique(graph: Graph, points: Any) -> None:
    """Check a maximum clique, with edges as in `morph.max_clique`.

    An independent branch-and-bound search, vertex by vertex in order of degree, proves that there
    is no clique with one vertex more; for hard graphs that may take very long.

    Parameters
    ----------
    graph : Graph
    points : array of ids or labels

    Raises
    ------
    WrongAnswer
    """
    arcs = Arcs(graph)
    near, ids = _neighbours(arcs), _checked(arcs, points)
    _refuse_strangers(arcs, near, ids)
    if len(ids) == 0:
        if arcs.alive.any():
            raise WrongAnswer("no clique of a graph that has vertices")
        return
    for v, _, after in _roots(near):
        if len(after) >= len(ids) and _has_clique(_masks(near, after), len(ids)):
            raise WrongAnswer(f"{arcs.vertex(v)} is in a clique of more than {len(ids)} vertices")


def cliques(graph: Graph, found: Iterable[Any]) -> None:
    """Check that these are all maximal cliques, each once, by an independent count.

    Parameters
    ----------
    graph : Graph
    found : iterable of array of ids or labels

    Raises
    ------
    WrongAnswer
    """
    arcs = Arcs(graph)
    if not isinstance(found, Iterable):
        raise TypeError(f"found is an iterable of cliques, not {shown(found)}")
    near, seen = _neighbours(arcs), set()
    for points in found:
        ids = _checked(arcs, points)
        _refuse_strangers(arcs, near, ids)
        if not ids:
            raise WrongAnswer("a clique without vertices")
        more = set.intersection(*(near[v] for v in ids))
        if more:
            raise WrongAnswer(f"{arcs.vertex(min(more))} extends the clique {_named(arcs, ids)}")
        if (key := frozenset(ids)) in seen:
            raise WrongAnswer(f"the clique {_named(arcs, ids)} is there twice")
        seen.add(key)
    count = int((arcs.alive & (np.array([len(x) for x in near], int) == 0)).sum())
    for _, before, after in _roots(near):
        if before or after:
            masks = _masks(near, before + after)
            earlier = (1 << len(before)) - 1
            count += _count(masks, (1 << len(masks)) - 1 & ~earlier, earlier)
    if count != len(seen):
        raise WrongAnswer(f"{len(seen)} maximal cliques, but there are {count}")


def max_k_plex(graph: Graph, points: Any, k: int) -> None:
    """Check a maximum k-plex, with edges as in `morph.max_k_plex`.

    An independent search, vertex by vertex, proves that there is no k-plex with one vertex more;
    for hard graphs that may take very long.

    Parameters
    ----------
    graph : Graph
    points : array of ids or labels
    k : int

    Raises
    ------
    WrongAnswer
    """
    arcs = Arcs(graph)
    near, ids, k = _neighbours(arcs), _checked(arcs, points), integer(k, "k")
    for v in ids:
        lacking = len(ids) - len(near[v].intersection(ids))
        if lacking > k:
            raise WrongAnswer(
                f"{arcs.vertex(v)} has no edge to {lacking - 1} others, k is {shown(k)}"
            )
    alive = np.flatnonzero(arcs.alive).tolist()
    if _has_plex(_masks(near, sorted(alive, key=lambda v: len(near[v]))), k, len(ids) + 1):
        raise WrongAnswer(f"there is a {shown(k)}-plex of more than {len(ids)} vertices")


def _checked(arcs: Arcs, points: Any) -> list[int]:
    ids = arcs.listed(points)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise WrongAnswer(f"a clique has shape {ids.shape} and type {ids.dtype}")
    if len(np.unique(ids)) != len(ids):
        raise WrongAnswer("the vertices of a clique are not distinct")
    for v in ids.tolist():
        if not (0 <= v < arcs.n and arcs.alive[v]):
            raise WrongAnswer(f"{v} is not a vertex")
    members: list[int] = ids.tolist()
    return members


def _named(arcs: Arcs, ids: list[int]) -> str:
    """Name the first vertices of a clique."""
    return f"[{', '.join(map(arcs.name, sorted(ids)[:9]))}]"


def _neighbours(arcs: Arcs) -> list[set[int]]:
    src, dst = np.concatenate([[arcs.src, arcs.dst], [arcs.dst, arcs.src]], axis=1)
    offsets, ends = grouped(arcs.n, src, dst)
    return [{*ends[a:b].tolist()} - {v} for v, (a, b) in enumerate(_pairs(offsets))]


def _pairs(offsets: Ints) -> Iterator[tuple[int, int]]:
    yield from zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)


def _refuse_strangers(arcs: Arcs, near: list[set[int]], ids: list[int]) -> None:
    for i, v in enumerate(ids):
        for w in ids[:i]:
            if w not in near[v]:
                raise WrongAnswer(f"no edge joins vertices {arcs.name(w)} and {arcs.name(v)}")


def _roots(near: list[set[int]]) -> Iterator[tuple[int, list[int], list[int]]]:
    """Yield each vertex with its neighbours before and after it in order of degree."""
    rank = [(len(x), v) for v, x in enumerate(near)]
    for v, x in enumerate(near):
        yield v, [w for w in x if rank[w] < rank[v]], [w for w in x if rank[w] > rank[v]]


def _masks(near: list[set[int]], vertices: list[int]) -> list[int]:
    """Return the adjacency of the subgraph that ``vertices`` induce, as a bit set each."""
    number = {v: i for i, v in enumerate(vertices)}
    return [sum(1 << number[w] for w in near[v] & number.keys()) for v in vertices]


def _bits(x: int) -> Iterator[int]:
    while x:
        low = x & -x
        yield low.bit_length() - 1
        x ^= low


def _count(near: list[int], rest: int, out: int) -> int:
    """Count the maximal cliques in ``rest`` that no vertex of ``out`` extends."""
    count, nodes = 0, [(rest, out)]
    while nodes:
        rest, out = nodes.pop()
        if not rest:
            count += not out
            continue
        pivot = max(_bits(rest | out), key=lambda u: (rest & near[u]).bit_count())
        for v in _bits(rest & ~near[pivot]):
            nodes.append((rest & near[v], out & near[v]))
            rest &= ~(1 << v)
            out |= 1 << v
    return count


def _has_clique(near: list[int], size: int) -> bool:
    """Return whether there is a clique of ``size`` vertices."""
    nodes = [((1 << len(near)) - 1, size)]
    while nodes:
        rest, size = nodes.pop()
        if size == 0:
            return True
        left, colours, later = rest, 0, []
        while left:
            colours += 1
            free = left
            while free:
                v = free.bit_length() - 1
                left &= ~(1 << v)
                free &= ~(1 << v | near[v])
                if colours >= size:
                    later.append(v)
        for v in reversed(later):
            nodes.append((rest & near[v], size - 1))
            rest &= ~(1 << v)
    return False


def _has_plex(near: list[int], k: int, size: int) -> bool:
    """Return whether there is a k-plex of ``size`` vertices."""
    nodes = [(0, (1 << len(near)) - 1)]
    while nodes:
        chosen, rest = nodes.pop()
        count = chosen.bit_count()
        if count >= size:
            return True
        for v in _bits(chosen):  # vertices that already have k - 1 non-neighbours
            if count - (near[v] & chosen).bit_count() == k:
                rest &= near[v]
        for v in _bits(rest):
            if (near[v] & chosen).bit_count() < count + 1 - k:
                rest &= ~(1 << v)
        for v in _bits(rest):  # in ascending order: v and later vertices
            if count + rest.bit_count() < size:
                break
            rest &= ~(1 << v)
            nodes.append((chosen | 1 << v, rest))
    return False
