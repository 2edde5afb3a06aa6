"""Meshes as tables of points, segments and triangles, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.device import Device
from morph.dtypes import Ref, vec
from morph.graph import Graph
from morph.mesh import Mesh
from morph.prelude import f64, i32


def graph_of(
    mesh: Mesh,
    device: str | Device,
    scale: float = 1.0,
    limits: Any = None,
    sizes: Any = None,
    features: bool = False,
) -> Graph:
    """Put a mesh into tables: points, segments, triangles with their neighbours and walls.

    Parameters
    ----------
    mesh : Mesh
    device : str or Device
    scale : float
        What coordinates, sizes and, squared, areas are multiplied by: a power of two.
    limits : (m,) float64 array, optional
        Largest area in each input triangle: ``inputs.limit``, beside its corners and neighbours.
    sizes : (n,) float64 array, optional
        Edge length wanted at each point: ``points.wanted``.
    features : bool
        Whether points know how large the features around them are: ``points.feature``.
    """
    g = Graph(device)
    g.points.add("xy", vec(f64, 2))
    g.add_table("segments", a=Ref("points"), b=Ref("points"), marker=i32, sharp=i32)
    g.points.add("on", Ref("segments"))
    g.add_table(
        "triangles", node=Ref("points")[3], nbr=Ref("triangles")[3], origin=i32,
        wall=Ref("segments")[3], pack=("node", "nbr", "origin"),
    )  # fmt: skip
    g.points.extend(xy=mesh.points * scale if scale != 1.0 else mesh.points)
    g.add_table("inputs")
    if limits is not None:
        g.inputs.add("limit", f64)
        g.inputs.add("corner", Ref("points")[3])
        g.inputs.add("beside", Ref("inputs")[3])
        g.inputs.extend(
            limit=limits * scale * scale, corner=mesh.triangles, beside=mesh.neighbors
        )
    if sizes is not None:
        g.points.add("wanted", f64)
        g.points.wanted[:] = sizes * scale
    if features:
        g.points.add("feature", f64)
        g.points.feature[:] = feature_sizes(mesh) * scale
    g.segments.extend(
        a=mesh.segments[:, 0], b=mesh.segments[:, 1], marker=mesh.segment_markers,
        sharp=sharp_ends(mesh),
    )  # fmt: skip
    g.points.resize(2 * len(mesh.points))
    g.triangles.resize(5 * len(mesh.triangles) // 2)
    g.triangles.extend(
        node=mesh.triangles, nbr=mesh.neighbors, wall=walls_of(mesh),
        origin=np.arange(len(mesh.triangles), dtype=np.int32),
    )  # fmt: skip
    return g


def feature_sizes(mesh: Mesh) -> Any:
    """Distance from each point to the nearest other, and to the segments opposite; about."""
    sizes = np.full(len(mesh.points), np.inf)
    corner = mesh.points[mesh.triangles]
    closed = walls_of(mesh) >= 0
    for k in range(3):
        u, v = corner[:, (k + 1) % 3] - corner[:, k], corner[:, (k + 2) % 3] - corner[:, k]
        base = v - u
        near = np.minimum(np.hypot(*u.T), np.hypot(*v.T))
        length = np.hypot(*base.T)
        height = np.abs(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]) / length
        beside = ((u * base).sum(axis=1) < 0) & ((v * base).sum(axis=1) > 0)
        near = np.where(closed[:, k] & beside, np.minimum(near, height), near)
        np.minimum.at(sizes, mesh.triangles[:, k], near)
    return np.minimum(sizes, np.ptp(mesh.points, axis=0).max())


def sharp_ends(mesh: Mesh) -> Any:
    """Which ends of segments meet another in less than 60 degrees: 1 the first, 2 the second."""
    at = mesh.segments.T.ravel()
    d = mesh.points[mesh.segments[:, ::-1].T.ravel()] - mesh.points[at]
    turn = np.arctan2(d[:, 1], d[:, 0])
    order = np.lexsort((turn, at))
    at, turn = at[order], turn[order]
    after = np.arange(1, len(at) + 1)  # the next one around the same point, counter-clockwise
    first = np.flatnonzero(np.diff(at, prepend=-1))
    after[np.append(first[1:], len(at)) - 1] = first
    angle = (turn[after] - turn) % (2 * np.pi)
    angle[after == np.arange(len(at))] = np.pi
    close = angle < np.pi / 2
    sharp = np.zeros(len(at), np.int32)
    sharp[order[close]] = 1
    sharp[order[after[close]]] = 1
    s = len(mesh.segments)
    return sharp[:s] | sharp[s:] << 1


def walls_of(mesh: Mesh) -> Any:
    """For each side of each triangle its segment, or -1; shape (m, 3), int32."""
    ends = mesh.triangles[:, [[1, 2], [2, 0], [0, 1]]].astype(np.int64)
    n = len(mesh.points)
    sides = ends.min(axis=2) * n + ends.max(axis=2)
    keys = np.sort(mesh.segments, axis=1).astype(np.int64) @ [n, 1]
    order = np.argsort(keys)
    at = np.minimum(np.searchsorted(keys, sides, sorter=order), max(len(keys) - 1, 0))
    found = keys[order][at] == sides
    return np.where(found, order[at], -1).astype(np.int32)


def mesh_of(g: Graph, source: Mesh, scale: float = 1.0) -> Mesh:
    """Read a mesh back from its tables; points of the source keep their very bits."""
    host = g.device.to_host
    node, nbr, wall, origin = (
        host(getattr(g.triangles, name).array) for name in ("node", "nbr", "wall", "origin")
    )
    xy, on = host(g.points.xy.array) / scale, host(g.points.on.array)
    marker = host(g.segments.marker.array)
    t, k = np.nonzero((wall >= 0) & (nbr < np.arange(len(node))[:, None]))
    segments = np.stack([node[t, (k + 1) % 3], node[t, (k + 2) % 3]], axis=1)
    added = on[len(source.points) :]
    new_markers = np.where(added >= 0, marker[np.maximum(added, 0)], 0)
    return Mesh(
        points=xy,
        triangles=np.ascontiguousarray(node),
        neighbors=np.ascontiguousarray(nbr),
        segments=segments.astype(np.int32),
        segment_markers=marker[wall[t, k]],
        point_markers=np.concatenate([source.point_markers, new_markers]).astype(np.int32),
        point_attributes=interpolated(source, source.point_attributes, xy, node, origin),
        triangle_attributes=source.triangle_attributes[origin],
        holes=source.holes,
        regions=source.regions,
        base=source.base,
    )


def interpolated(source: Mesh, old: Any, xy: Any, node: Any, origin: Any) -> Any:
    """Values at all points: at new ones, linear in the input triangle that holds them.

    Each is looked for by a walk from an input triangle near it (Devillers, Pion, Teillaud 2002).

    Parameters
    ----------
    source : Mesh
        The input.
    old : (n, k) float64 array
        Values at its points.
    xy : (p, 2) float64 array
        All points, those of the input first.
    node, origin : (m, 3), (m,) int32 arrays
        Triangles over all points, and the input triangle each came from.
    """
    n = len(source.points)
    if not old.shape[1]:
        return np.empty((len(xy), 0))
    near = np.zeros(len(xy), np.int64)
    near[node.ravel()] = np.repeat(origin, 3)
    at, p = near[n:], xy[n:]
    weight = np.empty((len(p), 3))
    for _ in range(len(source.triangles)):
        corner = source.points[source.triangles[at]] - p[:, None, :]
        u, v = np.roll(corner, -1, axis=1), np.roll(corner, -2, axis=1)
        weight = u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]
        worst = weight.argmin(axis=1)
        behind = source.neighbors[at, worst]
        on = (weight.min(axis=1) < 0) & (behind >= 0)
        if not on.any():
            break
        at = np.where(on, behind, at)
    weight = np.maximum(weight, 0)  # rounding puts points of the hull a little outside
    weight /= weight.sum(axis=1, keepdims=True)
    return np.concatenate([old, (weight[..., None] * old[source.triangles[at]]).sum(axis=1)])
