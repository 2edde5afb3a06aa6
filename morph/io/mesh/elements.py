"""Triangle's ``.ele`` files: a header, then one triangle of first or second order per line.

``<triangles> <3 or 6 nodes> <attributes>``, then ``<number> <nodes> [attributes]``: the corners
counter-clockwise, then, for second order, the mid-edge nodes of the edges opposite to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from morph.io.mesh.nodes import Nodes, check_columns, numbering, open_scanner
from morph.io.mesh.repair import first_twins, report
from morph.io.text.scanner import Block, Field, StrPath
from morph.mesh.mesh import Floats, Ints, MeshError, find_neighbors
from morph.mesh.validation import orientation


@dataclass(frozen=True)
class Elements:
    """The triangles of an ``.ele`` file.

    Attributes
    ----------
    triangles : (m, 3) int32 array
        Corners, counter-clockwise, as indices of vertices.
    neighbors : (m, 3) int32 array
        The triangle across the edge opposite each corner; -1 at the hull.
    middles : (m, 3) int32 array or None
        The mid-edge nodes opposite each corner, if the file has them.
    attributes : (m, k) float64 array
    """

    triangles: Ints
    neighbors: Ints
    middles: Ints | None
    attributes: Floats


def read_ele(path: StrPath, nodes: Nodes, repair: bool = False) -> Elements:
    """Read an ``.ele`` file over known vertices.

    Parameters
    ----------
    path : path-like
    nodes : Nodes
    repair : bool
        Reorient clockwise triangles, and drop triangles with a repeated corner and duplicate
        triangles, with a `RepairWarning` for each kind.

    Raises
    ------
    FormatError
        With file and line; also for clockwise, degenerate and overlapping triangles.
    OSError
        If the file is missing or cannot be read.
    """
    scanner = open_scanner(path)
    names = ("number of triangles", "corners of a triangle", "number of attributes")
    count, corners, extra = scanner.header("triangle", names, (0, 3, 0))
    header = scanner.line(scanner.pos - 1)
    if corners not in (3, 6):
        scanner.fail(f"triangles have {corners} vertices, expected 3 or 6", header)
    if count == 0:
        scanner.fail("the file has no triangles", header)
    check_columns(scanner, extra, header)
    fields = [Field("triangle number")] + [Field(f"vertex {k + 1}") for k in range(corners)]
    fields += [Field(f"attribute {k + 1}", False) for k in range(extra)]
    block = scanner.block(count, fields, "triangles", (1, corners, extra))
    scanner.end("triangles")
    numbering(block, "triangle", nodes.base)
    block = replace(block, parts=block.parts[1:])  # frees the numbers
    items: NDArray[np.int64] | None = None  # rows of the file, if some are dropped
    found = nodes.look_up(block, 0, "triangle")
    nodes.refuse_repeated(found)
    if repair:
        found, items = _without_repetitions(block, found, nodes.base)
    _orient(block, found, items, nodes, repair)
    triangles = np.ascontiguousarray(found[:, :3])
    try:
        neighbors = find_neighbors(triangles, len(nodes.points))
    except MeshError as error:
        ids = error.violations[0].ids
        s, t = sorted((ids if items is None else items[ids]).tolist())
        first, second = s + nodes.base, t + nodes.base
        block.fail(t, f"triangles {first} and {second} overlap: they lie on one side of an edge")
    middles = None
    if corners == 6:
        middles = np.ascontiguousarray(found[:, 3:])

        def fail(t: int, message: str) -> None:
            row = t if items is None else int(items[t])
            block.fail(row, f"triangle {row + nodes.base}: {message}")

        check_middles(nodes.points, triangles, neighbors, middles, nodes.base, fail)
    attributes = np.ascontiguousarray(block.parts[1], np.float64)
    if items is not None:
        attributes = attributes[items]
    return Elements(triangles, neighbors, middles, attributes)


def _without_repetitions(block: Block, found: Ints, base: int) -> tuple[Ints, NDArray[np.int64]]:
    """Drop triangles with a repeated corner and duplicate triangles; returns the others."""
    a, b, c = found[:, :3].T
    flat = (a == b) | (b == c) | (c == a)
    items = np.flatnonzero(~flat)
    if flat.any():
        rows = np.flatnonzero(flat)
        message = "has two corners in one place: dropped"
        report(block, rows, f"triangle {rows[0] + base} {message}")
    later, earlier = first_twins(np.sort(found[items, :3], axis=1).astype(np.int64))
    if len(later):
        one, two = int(items[earlier[0]]) + base, int(items[later[0]]) + base
        report(block, items[later], f"triangle {two} repeats triangle {one}: dropped")
        items = np.delete(items, later)
    if not len(items):
        block.fail(0, "no triangle is left")
    return found[items], items


def _orient(
    block: Block, found: Ints, items: NDArray[np.int64] | None, nodes: Nodes, repair: bool
) -> None:
    """Reject degenerate triangles; reorient clockwise ones in place, or reject them."""
    sign = orientation(nodes.points, found[:, 0], found[:, 1], found[:, 2])
    if sign.min() > 0:
        return
    items = np.arange(len(found)) if items is None else items
    refused = sign == 0 if repair else sign <= 0
    turned = np.flatnonzero(sign < 0)
    row = int(items[(refused if refused.any() else sign < 0).argmax()])
    name = f"triangle {row + nodes.base} ({block.integers(row, slice(1, 4))})"
    if refused.any():
        if sign[refused][0] < 0:
            block.fail(row, f"{name} is clockwise: list its vertices counter-clockwise")
        block.fail(row, f"{name} is degenerate: its area is zero")
    report(block, items[turned], f"{name} is clockwise: turned")
    order = [0, 2, 1] if found.shape[1] == 3 else [0, 2, 1, 3, 5, 4]
    found[turned] = found[turned][:, order]


NEAR = 1e-4  # tolerance of mid-edge nodes, relative to the edge length, for files with few digits


def check_middles(
    points: Floats,
    triangles: Ints,
    neighbors: Ints,
    middles: Ints,
    base: int,
    fail: Callable[[int, str], object],
) -> None:
    """Reject second-order triangles that are curved or not conforming.

    A mid-edge node must lie within `NEAR` edge lengths of the edge's midpoint, not be a corner, and
    be the same on both sides of the edge.

    Parameters
    ----------
    points, triangles, neighbors, middles : arrays
        As in `Elements`.
    base : int
        Number of the first vertex, in messages.
    fail : callable
        Given a triangle's row and a message, raises an error.
    """
    corner = np.zeros(len(points), bool)
    corner[triangles] = True
    rows = np.arange(len(triangles))
    for k in range(3):
        a, b, middle = triangles[:, (k + 1) % 3], triangles[:, (k + 2) % 3], middles[:, k]
        wrong = corner[middle]
        if wrong.any():
            t = int(wrong.argmax())
            fail(t, f"vertex {middle[t] + base} is a corner, and in the middle of an edge")
        with np.errstate(over="ignore"):
            off = np.hypot(*(points[middle] - (points[a] * 0.5 + points[b] * 0.5)).T)
            wrong = ~(off <= NEAR * np.hypot(*(points[a] - points[b]).T))
        if wrong.any():
            t = int(wrong.argmax())
            edge = f"{a[t] + base} {b[t] + base}"
            message = f"vertex {middle[t] + base} is not in the middle of edge {edge}"
            fail(t, f"{message}: curved edges are not supported")
        other = neighbors[:, k]
        wrong = other >= 0
        for j in range(3):
            wrong &= (neighbors[other, j] != rows) | (middles[other, j] != middle)
        if wrong.any():
            t = int(wrong.argmax())
            fail(t, f"edge {a[t] + base} {b[t] + base} has two nodes in its middle")
