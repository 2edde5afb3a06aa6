"""Meshes as tables of points, segments and triangles, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.device import Device
from morph.dtypes import Ref, vec
from morph.graph import Graph
from morph.mesh import Mesh
from morph.prelude import f64, i32


def graph_of(mesh: Mesh, device: str | Device) -> Graph:
    """Put a mesh into tables: points, segments, triangles with their neighbours and walls."""
    g = Graph(device)
    g.points.add("xy", vec(f64, 2))
    g.add_table("segments", a=Ref("points"), b=Ref("points"), marker=i32)
    g.points.add("on", Ref("segments"))
    g.add_table(
        "triangles", node=Ref("points")[3], nbr=Ref("triangles")[3], origin=i32,
        wall=Ref("segments")[3], pack=("node", "nbr", "origin"),
    )  # fmt: skip
    g.points.extend(xy=mesh.points)
    g.segments.extend(a=mesh.segments[:, 0], b=mesh.segments[:, 1], marker=mesh.segment_markers)
    g.points.resize(2 * len(mesh.points))
    g.triangles.resize(5 * len(mesh.triangles) // 2)
    g.triangles.extend(
        node=mesh.triangles, nbr=mesh.neighbors, wall=_walls(mesh),
        origin=np.arange(len(mesh.triangles), dtype=np.int32),
    )  # fmt: skip
    return g


def _walls(mesh: Mesh) -> Any:
    """For each side of each triangle its segment, or -1; shape (m, 3), int32."""
    ends = mesh.triangles[:, [[1, 2], [2, 0], [0, 1]]].astype(np.int64)
    n = len(mesh.points)
    sides = ends.min(axis=2) * n + ends.max(axis=2)
    keys = np.sort(mesh.segments, axis=1).astype(np.int64) @ [n, 1]
    order = np.argsort(keys)
    at = np.minimum(np.searchsorted(keys, sides, sorter=order), max(len(keys) - 1, 0))
    found = keys[order][at] == sides
    return np.where(found, order[at], -1).astype(np.int32)


def mesh_of(g: Graph, source: Mesh) -> Mesh:
    """Read a mesh back from its tables."""
    host = g.device.to_host
    node, nbr, wall, origin = (
        host(getattr(g.triangles, name).array) for name in ("node", "nbr", "wall", "origin")
    )
    xy, on = host(g.points.xy.array), host(g.points.on.array)
    marker = host(g.segments.marker.array)
    t, k = np.nonzero((wall >= 0) & (nbr < np.arange(len(node))[:, None]))
    segments = np.stack([node[t, (k + 1) % 3], node[t, (k + 2) % 3]], axis=1)
    added = on[len(source.points) :]
    new_markers = np.where(added >= 0, marker[np.maximum(added, 0)], 0)
    return Mesh(
        points=xy.copy(),
        triangles=np.ascontiguousarray(node),
        neighbors=np.ascontiguousarray(nbr),
        segments=segments.astype(np.int32),
        segment_markers=marker[wall[t, k]],
        point_markers=np.concatenate([source.point_markers, new_markers]).astype(np.int32),
        point_attributes=_interpolated(source, xy, node, origin),
        triangle_attributes=source.triangle_attributes[origin],
        holes=source.holes,
        regions=source.regions,
        base=source.base,
    )


def _interpolated(source: Mesh, xy: Any, node: Any, origin: Any) -> Any:
    """Attributes of all points: of new ones, linear in the input triangle that holds them.

    Each is looked for by a walk from an input triangle near it (Devillers, Pion, Teillaud 2002).
    """
    old = source.point_attributes
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
