"""Meshes and domains of other libraries, recognised by the module of their types.

Recognition imports none of these libraries.  Triangle's dicts need no package; objects with
``__geo_interface__`` need Shapely, whose exact noding finds the faces outside of polygons.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.language.messages import shortened, shown
from morph.mesh.arrays import MeshArrays, as_array, as_indices, real_array
from morph.mesh.signs import orientation

_PYVISTA = "PolyData", "UnstructuredGrid"
_TRIANGLE = {
    "vertices": "points", "vertex_attributes": "point_attributes",
    "vertex_markers": "point_markers", "segments": "segments",
    "segment_markers": "segment_markers", "holes": "holes", "regions": "regions",
    "triangles": "triangles", "triangle_attributes": "triangle_attributes",
}  # fmt: skip
_COLUMNS = "point_markers", "segment_markers"  # in Triangle, arrays of one column
_DERIVED = "neighbors", "edges", "edge_markers"  # output of Triangle, recomputed by Morph


def library_of(source: Any) -> str | None:
    """Return the library of an object: ``meshio``, ``pyvista``, ``triangle`` (a dict), or ``geo``.

    ``geo`` is an object with ``__geo_interface__``, as in Shapely and GeoPandas, or a GeoJSON
    mapping.
    """
    for kind in type(source).__mro__:
        name = kind.__module__.split(".")[0]
        if name == "meshio" and kind.__name__ == "Mesh":
            return "meshio"
        if name == "pyvista" and kind.__name__ in _PYVISTA:
            return "pyvista"
    if isinstance(source, Mapping):
        return "geo" if "type" in source else "triangle"
    return "geo" if hasattr(type(source), "__geo_interface__") else None


def turned(points: Any, triangles: Any) -> tuple[Any, NDArray[np.bool_]]:
    """Return the triangles in counter-clockwise order, and a mask of reoriented triangles.

    Raises
    ------
    ValueError
        If a triangle has no area.
    """
    sign = orientation(points, triangles[:, 0], triangles[:, 1], triangles[:, 2])
    if not sign.all():
        row = int((sign == 0).argmax())
        raise ValueError(f"triangle {row} {triangles[row].tolist()} has no area")
    clockwise = sign < 0
    triangles[clockwise] = triangles[clockwise][:, [0, 2, 1]]
    return triangles, clockwise


def check_finite(points: Any) -> None:
    """Reject points with coordinates that are not finite."""
    if not np.isfinite(points).all():
        row = int((~np.isfinite(points)).any(axis=1).argmax())
        raise ValueError(f"point {row} {points[row].tolist()} is not finite")


def from_triangle(source: Mapping[str, Any], triangles: bool) -> dict[str, Any]:
    """Convert a dict of Triangle's wrapper to arguments of `Mesh`, or, without triangles, `Pslg`.

    Raises
    ------
    ValueError
        If a key is unknown or a required key is missing; with triangles also if a vertex is not
        finite, a triangle has no area or an index is out of range.
    """
    for key in source:
        if key not in _TRIANGLE and key not in _DERIVED:
            known = "vertices, segments, holes, regions, triangles and their attributes and markers"
            raise ValueError(f"{shown(key)} is no key of a dict of Triangle: expected {known}")
    for key in ("vertices", "triangles") if triangles else ("vertices",):
        if key not in source:
            missing = f"{_TRIANGLE[key]} are missing: the dict has no key {key!r}"
            raise ValueError(f"{missing}, but {shown(list(source))}")
    found = {name: source[key] for key, name in _TRIANGLE.items() if key in source}
    for name in _COLUMNS:
        if name in found:
            found[name] = np.ravel(found[name])
    if triangles:
        points = as_array("vertices", source["vertices"], np.float64, ("any", 2), np)
        check_finite(points)
        rows = as_indices("triangles", source["triangles"], 3, len(points), np)
        found["points"], found["triangles"] = points, turned(points, rows.copy())[0]
    else:
        found.pop("triangles", None)
        found.pop("triangle_attributes", None)
    return found


def to_triangle(mesh: MeshArrays) -> dict[str, Any]:
    """Return a mesh on the host as a dict of Triangle's wrapper, without neighbours."""
    found = {key: getattr(mesh, name) for key, name in _TRIANGLE.items()}
    for key, name in _TRIANGLE.items():
        if name in _COLUMNS:
            found[key] = found[key][:, None]
    optional = "vertex_attributes", "triangle_attributes", "holes", "regions"
    return {key: a for key, a in found.items() if key not in optional or a.size}


def to_geo(mesh: MeshArrays) -> dict[str, Any]:
    """Return the triangles of a mesh on the host as a GeometryCollection of polygons."""
    rings = mesh.points[mesh.triangles[:, [0, 1, 2, 0]]].tolist()
    polygons = [{"type": "Polygon", "coordinates": (tuple(map(tuple, ring)),)} for ring in rings]
    return {"type": "GeometryCollection", "geometries": polygons}


def import_shapely() -> Any:
    """Import Shapely; if it is missing, an `ImportError` explains how to install it."""
    try:
        return importlib.import_module("shapely")
    except ImportError as error:
        raise ImportError("__geo_interface__ is read by Shapely: pip install shapely") from error


def from_geo(source: Any) -> dict[str, Any]:
    """Convert points, lines and polygons to arguments of `Pslg`.

    Equal coordinates become one point; a third coordinate is dropped.  With polygons, each bounded
    face of the lines that no polygon covers gets a hole.

    Raises
    ------
    ImportError
        If Shapely is not installed.
    ValueError
        If the mapping is not a geometry, or a polygon crosses itself or has no area.
    """
    shapely = import_shapely()
    parts = shapely.get_parts(np.array(_geometries(shapely, source), object))
    kinds = shapely.get_type_id(parts)
    while (kinds > 3).any():  # collections may be nested
        parts = shapely.get_parts(parts)
        kinds = shapely.get_type_id(parts)
    polygons = parts[kinds == 3]
    valid = shapely.is_valid(polygons)
    if not valid.all():
        k = int(valid.argmin())
        reason = shortened(shapely.is_valid_reason(polygons[k]), 100)
        raise ValueError(f"polygon {k} is not valid: {reason}")
    lines = np.concatenate([parts[(kinds == 1) | (kinds == 2)], shapely.get_rings(polygons)])
    coordinates, of = shapely.get_coordinates(lines, return_index=True)
    single = shapely.get_coordinates(parts[kinds == 0])
    points, rows = _distinct(np.concatenate([coordinates, single]))
    follows = np.flatnonzero(of[1:] == of[:-1])
    ends = np.stack([rows[follows], rows[follows + 1]], axis=1)
    ends = ends[ends[:, 0] != ends[:, 1]]
    _, first = np.unique(np.sort(ends, axis=1), axis=0, return_index=True)
    holes = _uncovered(shapely, lines, polygons) if len(polygons) else np.empty((0, 2))
    if not len(lines):
        return {"points": points}
    return {"points": points, "segments": ends[np.sort(first)], "holes": holes}


def _geometries(shapely: Any, source: Any) -> list[Any]:
    """Return Shapely's geometries of an object or a mapping, including features."""
    data = source if isinstance(source, Mapping) else source.__geo_interface__
    try:
        if data["type"] == "FeatureCollection":
            return [g for feature in data["features"] for g in _geometries(shapely, feature)]
        if data["type"] == "Feature":
            data = data["geometry"]
        return [] if data is None else [shapely.geometry.shape(data)]
    except (KeyError, TypeError, AttributeError, IndexError, shapely.errors.ShapelyError) as error:
        cause = shortened(f"{type(error).__name__}: {error}", 100)
        raise ValueError(f"{shown(data)} is no geometry of GeoJSON: {cause}") from error


def _distinct(coordinates: Any) -> tuple[Any, Any]:
    """Return the distinct points in order of first occurrence, and the inverse indices."""
    coordinates = real_array("coordinates", coordinates) + 0.0  # -0 is 0
    _, first, of = np.unique(coordinates, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return coordinates[first[order]], rank[of.ravel()].astype(np.int32)


def _uncovered(shapely: Any, lines: Any, polygons: Any) -> Any:
    """Return a point in each face of the lines that no polygon covers."""
    faces = shapely.get_parts(shapely.polygonize(shapely.get_parts(shapely.union_all(lines))))
    inside = shapely.point_on_surface(faces)
    covered = np.zeros(len(faces), bool)
    of, _ = shapely.STRtree(polygons).query(inside, predicate="intersects")
    covered[of] = True
    return shapely.get_coordinates(inside[~covered])
