"""Checker of communities of bounded size."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from morph.graph import Graph
from morph.language.arguments import check_type
from morph.language.messages import shown
from morph.runtime.arrays import listed
from morph.validate.arcs import Arcs, WrongAnswer, parts


def community(graph: Graph, found: Any, q: Any, size: tuple[int, int]) -> None:
    """Check a result of `morph.community`, except its optimality, which costs another search.

    Parameters
    ----------
    graph : Graph
    found : Community or None
    q : int or label
    size : (int, int)

    Raises
    ------
    WrongAnswer
        If a subgraph has a wrong size or minimum degree, lacks ``q`` or is not connected, if its
        vertices are not ascending vertices of the graph, if ``all`` or ``top`` are not distinct
        and in order, if the bound is below the degree, or if there is no result although the
        component is large enough.
    """
    arcs = Arcs(graph)
    if found is not None:
        check_type(found, "found", "Community")
    if np.shape(listed(size, "size")) != (2,):
        raise TypeError(f"size is a pair of integers, not {shown(size)}")
    ids = arcs.sources(q, "q")
    if ids.size != 1:
        raise ValueError(f"q is an id or a label, not {shown(q)}")
    q = int(ids[0])
    apart = arcs.src != arcs.dst
    src, dst = arcs.src[apart], arcs.dst[apart]
    if found is None:
        label = parts(arcs.n, src, dst)
        count = int((label[arcs.alive] == label[q]).sum())
        if count >= size[0]:
            has = f"{arcs.vertex(q)} has {count} vertices in its component"
            raise WrongAnswer(f"{has}, but no community")
        return
    _check_set(arcs, (src, dst), found.vertices, q, size, found.min_degree)
    for vertices in found.all or []:
        _check_set(arcs, (src, dst), vertices, q, size, found.min_degree)
    for degree, vertices in found.top or []:
        _check_set(arcs, (src, dst), vertices, q, size, degree)
    for name, keys in (
        ("all", [arcs.listed(x).tolist() for x in found.all or []]),
        ("top", [(-degree, arcs.listed(x).tolist()) for degree, x in found.top or []]),
    ):
        if any(x >= y for x, y in pairwise(keys)):
            raise WrongAnswer(f"the subgraphs of {name} are not distinct and in order")
    if found.top and found.top[0][0] != found.min_degree:
        raise WrongAnswer(f"the first of top has degree {found.top[0][0]}, not {found.min_degree}")
    complete = found.all is None and found.top is None  # else these may lack some
    if (
        found.bound < found.min_degree
        or (found.proved and found.bound > found.min_degree)
        or (complete and not found.proved and found.bound == found.min_degree)
    ):
        raise WrongAnswer(f"the bound is {found.bound} for minimum degree {found.min_degree}")


def _check_set(
    arcs: Arcs, ends: tuple[Any, Any], vertices: Any, q: int, size: tuple[int, int], min_degree: int
) -> None:
    """Check the vertices of one subgraph."""
    ids = arcs.listed(vertices)
    if ids.dtype.kind not in "iu" or ids.ndim != 1 or (np.diff(ids) <= 0).any() or q not in ids:
        ascending = "the vertices are not distinct and ascending"
        raise WrongAnswer(f"{ascending}, or {arcs.vertex(q)} is not one")
    if ids[0] < 0 or ids[-1] >= arcs.n:
        raise WrongAnswer(f"the vertices are not from 0 to {arcs.n - 1}")
    if not arcs.alive[ids].all():
        raise WrongAnswer("one of the vertices was deleted")
    if not size[0] <= len(ids) <= size[1]:
        raise WrongAnswer(f"{len(ids)} vertices are not {size[0]} to {size[1]}")
    src, dst = ends
    inside = np.isin(src, ids) & np.isin(dst, ids)
    pairs = np.unique(np.stack([src[inside], dst[inside]], axis=1), axis=0)
    pairs = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
    degree = np.bincount(pairs[:, 0], minlength=arcs.n)[ids]
    if degree.min() != min_degree:
        v = int(ids[degree.argmin()])
        has = f"{arcs.vertex(v)} has degree {degree.min()}"
        raise WrongAnswer(f"{has}, and the minimum is {min_degree}")
    root = parts(arcs.n, pairs[:, 0], pairs[:, 1])
    if (root[ids] != root[q]).any():
        v = int(ids[(root[ids] != root[q]).argmax()])
        raise WrongAnswer(f"{arcs.vertex(v)} is not connected with {arcs.vertex(q)}")
