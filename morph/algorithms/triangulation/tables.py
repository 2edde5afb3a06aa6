"""Meshes as tables of points, segments and triangles; `reading` is the way back."""

# mypy: disable-error-code="valid-type,no-untyped-def"

from __future__ import annotations

from typing import Any

import numpy as np

from morph.algorithms.triangulation.attributes import carries
from morph.algorithms.triangulation.half_edges import BORDER, HULL, half_edge
from morph.algorithms.triangulation.kept import KeptObjects, kept_by
from morph.data.collection import Flag
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.launch.foreach import foreach, func, kernel, program
from morph.mesh import Mesh
from morph.operators.hashing import mix64
from morph.prelude import atomic_exch, bool_, f64, i32, i64, u64, vector
from morph.runtime.device import Device
from morph.runtime.device import device as find_device

# triangles: the codes of their sides fit in 31 bits, and none is that of BORDER
MOST = ~BORDER >> 2
MOST_REFINED = 1 << 13  # points of a mesh whose tables are kept: some 4 MB
SPARE = 1 << 10  # capacity for more points, of which small meshes get many


@kernel
def link_opposites(t, g):
    """Write the opposite half-edge of each side."""
    opposite = vector(i32(HULL), i32(HULL), i32(HULL))
    for k in range(3):
        n = g.inputs[t.id].nbr[k]
        if n is not None:
            back = g.inputs[n.id].nbr
            side = 0 if back[0].id == t.id else (1 if back[1].id == t.id else 2)
            opposite[k] = half_edge(n, side)
    t.opposite = opposite


@func
def bucket_of(buckets, a, b, mask):
    """The bucket of the pairs of two points, in any order."""
    low, high = min(a, b), max(a, b)
    return buckets[i64(mix64(u64(low) << 32 | u64(high)) & mask)]


@kernel
def enter_pair(e, buckets, mask):
    """Put a pair of points at the front of its bucket's list, unless the tables lack one."""
    if e.a >= 0 and e.b >= 0:
        e.next = atomic_exch(bucket_of(buckets, e.a, e.b, mask).first, i32(e.id))


@func
def pair_between(pairs, buckets, a, b, mask):
    """The first pair of the points a and b, in any order, or -1."""
    found = i32(-1)
    k = bucket_of(buckets, a, b, mask).first
    while k >= 0:
        e = pairs[k]
        if (e.a == a and e.b == b) or (e.a == b and e.b == a):
            found = k if found < 0 else min(found, k)
        k = e.next
    return found


@kernel
def mark_segments(t, g, pairs, buckets, mask):
    """Mark the sides of t that are segments."""
    for k in range(3):
        a, b = t.node[(k + 1) % 3], t.node[(k + 2) % 3]
        e = pair_between(pairs, buckets, i32(a), i32(b), mask)
        if e >= 0:
            t.segment[k] = g.segments[pairs[e].segment]
            pairs[e].found = True  # race: the same value
            if t.opposite[k] >= 0:
                t.opposite[k] = ~t.opposite[k]


@kernel
def find_missing(e, pairs, buckets, mask, missing):
    """Whether a segment is no edge of any triangle; of equal ones, the first was marked."""
    if e.a < 0 or e.b < 0:
        missing.set()
    elif not pairs[pair_between(pairs, buckets, e.a, e.b, mask)].found:
        missing.set()


@program
def link(g, pairs, buckets, mask, missing):
    """Link the sides of all triangles, and mark those that are segments."""
    foreach(pairs, enter_pair, buckets, mask)
    foreach(g.triangles, link_opposites, g)
    foreach(g.triangles, mark_segments, g, pairs, buckets, mask)
    foreach(pairs, find_missing, pairs, buckets, mask, missing)


def empty_tables(device: str | Device, n: int, m: int, small: bool = False) -> Graph:
    """Make the tables of a mesh of ``n`` points and ``m`` triangles, with capacity to refine it.

    ``small``: they may be those of an earlier call, which has released them by `tables_name`; then
    segments, too, have capacity.
    """
    where = find_device(device)
    kept = kept_by(tables_name(where)) if small else None
    if kept is None:
        kept = KeptObjects(_made_tables(where), small)
    g: Graph = kept.graph
    for table in (g.points, g.segments, g.triangles, g.inputs):
        table.truncate(0)
    g.triangles.limit_rows(MOST)
    kept.resize(g.points, 3 * n + SPARE)
    kept.resize(g.triangles, max(m, min(3 * m + 2 * SPARE, MOST)), MOST)
    if small:
        kept.resize(g.segments, n + SPARE)
    return g


def tables_name(device: Device) -> str:
    """The name by which the tables of a small mesh are kept."""
    return f"{device.name} mesh"


def _made_tables(device: Device) -> Graph:
    g = Graph(device)
    g.points.add("xy", vec(f64, 2))
    g.add_table("segments", a=Ref("points"), b=Ref("points"), marker=i32)
    g.points.add("on", Ref("segments"))
    g.points.pack("xy", "on")
    g.add_table(
        "triangles", node=Ref("points")[3], opposite=(i32, 3), segment=Ref("segments")[3],
        pack=("node", "opposite"),
    )  # fmt: skip
    g.add_table("inputs", nbr=Ref("inputs")[3])
    return g


def to_tables(
    mesh: Mesh,
    device: str | Device,
    scale: float = 1.0,
    limits: Any = None,
    sizes: Any = None,
    keep: bool = False,
) -> Graph:
    """Convert a mesh to tables: points, segments, triangles with half-edges and segments.

    ``opposite`` of a triangle is described in `half_edges`; ``segment[k]`` is the segment at side
    k, or None.

    Parameters
    ----------
    mesh : Mesh
    device : str or Device
    scale : float
        The factor of coordinates and sizes, and squared of areas: a power of two.
    limits : (m,) float64 array, optional
        Largest area in each input triangle: ``inputs.limit``.
    sizes : (n,) float64 array, optional
        Edge length wanted at each point: ``points.wanted``.
    keep : bool
        Whether the tables of a small mesh are kept: the caller adds no columns, and releases them.

    Raises
    ------
    MeshError
        If a segment is no edge of the mesh.
    """
    n, m = len(mesh.points), len(mesh.triangles)
    plain = limits is None and sizes is None and not carries(mesh)
    g = empty_tables(device, n, m, keep and plain and n <= MOST_REFINED)
    work = g.device.array_device(3 * m)
    with work.active():
        g.points.extend(xy=work.asarray(mesh.points) * scale if scale != 1.0 else mesh.points)
        g.triangles.extend(node=mesh.triangles)
        g.inputs.extend(nbr=mesh.neighbors)
        if limits is not None:
            g.inputs.add("limit", f64)
            g.inputs.add("corner", Ref("points")[3])
            g.inputs.limit, g.inputs.corner = limits * scale * scale, mesh.triangles
        if limits is not None or carries(mesh) or sizes is not None:
            g.triangles.add("origin", Ref("inputs"))
            g.triangles.origin = work.xp.arange(m, dtype=np.int32)
        if sizes is not None:
            g.points.add("wanted", f64)
            g.points.wanted[:] = sizes * scale
        segments = work.asarray(mesh.segments)
        a, b = segments[:, 0], segments[:, 1]
        g.segments.extend(a=a, b=b, marker=mesh.segment_markers)
        row = work.xp.arange(len(a), dtype=np.int32)
    if link_sides(g, pairs_of(g, segments, row)):
        mesh.check()  # says which
        raise ValueError("a segment is no edge of the mesh")
    return g


def pairs_of(g: Graph, ends: Any, row: Any) -> Table:
    """Make a table of pairs of points, the edges that belong to segments, and these segments.

    Parameters
    ----------
    g : Graph
    ends : (k, 2) int array
    row : (k,) int32 array
    """
    columns: dict[str, Any] = {"a": i32, "b": i32, "segment": i32, "next": i32, "found": bool_}
    pairs = KeptObjects.of(g).table("pairs", **columns)
    pairs.extend(a=ends[:, 0], b=ends[:, 1], segment=row)
    return pairs


def link_sides(g: Graph, pairs: Table) -> Flag:
    """Write columns ``opposite`` and ``segment`` of all triangles.

    Parameters
    ----------
    g : Graph
        Tables with points, triangles, ``inputs.nbr`` and segments.
    pairs : Table
        See `pairs_of`; in the numbers of the tables, -1 for points that they lack.

    Returns
    -------
    Flag
        Whether a pair is no edge.
    """
    size = max(64, 1 << (2 * len(pairs)).bit_length())
    kept = KeptObjects.of(g)
    buckets, missing = kept.table("buckets", first=i32), kept.flag("missing")
    buckets.extend(size, first=-1)
    link(g, pairs, buckets, u64(size - 1), missing)
    return missing
